/* Submits a plan to a running cluster at the planned times, whatever the cluster does, and follows every
 * job to its end. */
#ifndef HAWK_REPLAY_RUN_H
#define HAWK_REPLAY_RUN_H

#include "libhawk/client.h"
#include "replay/plan.h"

/* What the replay tells the cluster about a job's length. */
enum replay_tag {
    REPLAY_TAG_ESTIMATE, /* the job's mean, as the paper's estimates are */
    REPLAY_TAG_CLASS,    /* its true class, and the mean (central places long tasks by it) */
    REPLAY_TAG_NONE,
};

struct replay_run_options {
    enum replay_tag tag;
    bool timer;         /* tasks are timers inside the worker, not `sleep` processes */
    bool quiet;         /* no progress on stderr */
    int64_t timeout_us; /* the replay gives up a call, or a dist that is away, after this time */
};

enum replay_job_end {
    REPLAY_NOT_SUBMITTED, /* interrupted before its time came */
    REPLAY_REFUSED,       /* the cluster did not accept it */
    REPLAY_LOST,          /* accepted, but no node says how it ended */
    REPLAY_ENDED,
    REPLAY_ENDS
};

/* The result of the plan's job of the same index. */
struct replay_job_result {
    uint8_t end;                            /* enum replay_job_end */
    uint8_t believed;                       /* enum job_class: the class that the cluster gave it */
    int64_t late_us;                        /* time from its planned to its real submission: our own delay */
    int64_t response_us;                    /* submission to end, as its dist measured */
    uint32_t done, failed, cancelled, lost; /* tasks */
    uint32_t reported;                      /* tasks whose end was reported, each counted once */
    uint32_t stolen, retried; /* tasks that ran through a stolen reservation; that needed a second try */
    uint32_t probes_sent, probes_cancelled, probes_unused, probes_lost, reservations_stolen;
};

struct replay_result {
    struct replay_job_result *jobs; /* one per job of the plan */
    int64_t *wait_us,
        *run_us; /* one per task of the plan, as its durations; -1: the task never started, or never ended */
    uint32_t ends[REPLAY_ENDS];
    uint32_t dists;     /* they were submitted to */
    int interrupted;    /* by this signal, SIGINT or SIGTERM; 0: by none */
    int64_t elapsed_us; /* first submission to last end */
    struct run *run;    /* while it runs */
    char error[600];    /* the first refusal or loss, in words; "" when there was none */
};

/* Runs the plan to its end. 0 when it could run at all, however its jobs ended; otherwise HAWK_E... and
 * client_error(client). SIGINT and SIGTERM cancel the submitted jobs and end the replay in good order; a
 * second one ends it at once. Afterwards these signals only set r->interrupted, so r must live until
 * client is closed. */
HAWK_MUST_USE int replay_run(struct client *client, const struct replay_plan *p,
                             const struct replay_run_options *o, struct replay_result *r);
void replay_result_free(struct replay_result *r);

#endif
