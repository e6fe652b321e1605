/* A run of the replay, its dists and its jobs. Private to run.c and jobs.c. */
#ifndef HAWK_REPLAY_JOBS_H
#define HAWK_REPLAY_JOBS_H

#include "base/list.h"
#include "libhawk/beat_streams.h"
#include "libhawk/client_impl.h"
#include "replay/run.h"

#define STATES(X) X(PLANNED) X(SUBMITTING) X(ACCEPTED) X(WATCHED) X(FETCHING) X(BROKEN) X(MOVING) X(FINISHED)
#define X(name) name,
enum state { STATES(X) STATE_COUNT };
#undef X

struct target {
    node_id_t node;
    struct channel *channel;
    uint32_t watches;
    int64_t down_us; /* until when it counts as lost; 0: it does not */
};

struct job {
    struct list node;
    struct run *run;
    const struct replay_plan_job *plan;
    struct replay_job_result *result;
    struct target *target;
    struct target *to;           /* MOVING: the dist to which it was submitted */
    struct movable_job *movable; /* from its submission to its end */
    struct rpc *call, *cancel;   /* under way; NULL: none */
    job_id_t id;
    uint8_t state;       /* enum state: which list it is in */
    bool understood;     /* the call's reply */
    bool final;          /* its dist has reported its end */
    bool forgotten;      /* a dist that is there did not know it, and nothing came since */
    uint32_t next_task;  /* to fetch */
    int64_t accepted_us; /* since when it is ACCEPTED */
    int64_t broken_us;   /* since when nothing has come; TIME_NEVER: all is well */
};

struct run {
    struct client *client;
    const struct replay_plan *plan;
    const struct replay_run_options *options;
    struct replay_result *result;
    struct job *jobs;
    bool *told; /* by task of the plan: its end was reported */
    struct target *targets;
    struct beat_streams beat_streams;
    uint32_t targets_n, submitted;
    uint32_t next_target; /* counts up */
    struct list lists[STATE_COUNT];
    uint32_t counts[STATE_COUNT];
    int64_t start_us, end_us, retry_us, progress_us, watch_us;
    int64_t give_up_us; /* after an interruption */
    bool terminal, stop_now;
};

/* Moves the job to the end of that list. */
void replay_job_set_state(struct job *j, enum state state);
/* The first job of that list, or NULL. */
struct job *replay_job_first(struct run *r, enum state state);
/* The job's end, as the replay sees it; text (or NULL): why it is no good one. */
void replay_job_finish(struct job *j, enum replay_job_end end, const char *text);
/* Asks its dist to cancel it; the stream tells how it ended. */
void replay_job_cancel(struct job *j);
/* Submits a PLANNED job to the next dist. */
void replay_job_submit(struct job *j);
/* Watches up to `max` jobs that are ACCEPTED, as far as their dists have room for streams. Returns their number. */
uint32_t replay_jobs_watch(struct run *r, uint32_t max);
/* A broken job's turn: repeats its last step, elsewhere if its dist is lost. */
void replay_job_go_on(struct job *j);
/* Ends what is under way for the job. */
void replay_job_drop_calls(struct job *j);

#endif
