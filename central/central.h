/* Central: membership, placement of long tasks by waiting time, the short partition, history and policy, and
 * the durable ownership of long jobs. A deterministic state machine (docs/protocol.md, central's side): no
 * I/O, no clock, no threads. Its shell feeds events and carries out what it puts into `out`.
 *
 * In events and output `peer` is the number of a link. The shell gives out each number once.
 *
 * The journal. JOURNAL_* messages carry tokens that grow by one. The shell writes them in order and answers
 * JOURNAL_DONE{token}: everything up to token is durable. Or err is HAWK_EIO: the store keeps what it could not write,
 * and a later answer covers it. With any other error it took nothing of what was unanswered up to token: central
 * refuses the job, or tells the client, and puts out the other records again every second. HISTORY carries no token and
 * gets no answer.
 *
 * Starting: START, then the journal's records as events of the same types (HISTORY oldest first; records of
 * ended jobs may be left out), then RECOVERED in any case. Joins wait for RECOVERED. Stopping: STOP; STOPPED
 * comes out when the journal has answered everything.
 *
 * SET_DRAIN is in force at once. DRAIN_SET answers when it is durable, or with an error (HAWK_EIO: it is in
 * force, and will be written when that is possible). STOP_NODE gets no answer: the node leaves, or does not.
 *
 * SET_POLICY{choice} adds to an operator's earlier choices; without a choice the configuration is in force
 * again. It is in force at once; POLICY_SET answers like DRAIN_SET. Choices survive restarts
 * (JOURNAL_POLICY). HOLD is in force at once, too, and HOLD_SET answers like DRAIN_SET.
 *
 * ADMIT is the use of an invitation. ADMITTED answers when it is durable (JOURNAL_ADMITTED), or says why it
 * is refused. */
#ifndef HAWK_CENTRAL_CENTRAL_H
#define HAWK_CENTRAL_CENTRAL_H

#include "central/config.h"
#include "msg/msg.h"
#include "msg/view.h"

struct central; /* opaque: central/state.h is private to central/ */

/* Of this many workers one may be out of service by itself; in any case one, if there are at least two. */
#define CENTRAL_OUT_SHARE 4u

/* A central that is ready for START. It decides everything by order, and draws nothing. Copies cfg. Never NULL. */
struct central *central_new(const struct central_config *cfg);
void central_free(struct central *c); /* NULL is fine */
/* Handles one event. Output: at most two messages per long task, a few per node, and one per known job name
 * when a dist joins. */
void central_step(struct central *c, const struct event *e, struct out *out);
/* When central wants a TIMER at the latest; TIME_NEVER: nothing is due. */
int64_t central_next_timeout(const struct central *c);
/* Aborts if an invariant does not hold. Looks at everything: for tests and the simulator. */
void central_check(const struct central *c);
/* Whether nothing is unfinished: no long job, and no unanswered journal write. */
bool central_quiet(const struct central *c);

/* ---- Views, for the API and reports. Their pointers are valid until the next step. ---- */

struct central_node {
    struct member member; /* may be MEMBER_GONE; blobs are borrowed */
    uint32_t link;        /* 0: none */
    int64_t silent_us;    /* time since central heard it */
    /* From its last heartbeat. */
    uint32_t queued, running_short, running_long, paused, jobs_unfinished;
    int64_t wait_us;          /* workers: the waiting time of a new long task */
    int64_t ends_us;          /* workers: when its tasks must have ended; TIME_NEVER: no end */
    bool partition_acked;     /* it knows its partition */
    uint8_t drain;            /* enum drain */
    uint8_t freezer;          /* workers: as HEARTBEAT has it; 0: not known */
    bool out;                 /* it has taken itself out of service */
    bool empty;               /* it is drained, and has no work left */
    uint32_t version;         /* protocol version of its link; 0: it has not joined since central started */
    bool parked, stuck;       /* a thief without loot; a reservation behind long work */
    const uint64_t *counters; /* COUNTER_COUNT values, as it reported them */
};
/* The node after prev in the order of ids (NODE_NONE: the first); NODE_NONE at the end. Includes every name
 * ever registered. */
node_id_t central_next_node(const struct central *c, node_id_t prev);
/* Fills *v. False: there is no such node. */
bool central_view_node(const struct central *c, node_id_t node, int64_t now_us, struct central_node *v);
/* 0: SET_DRAIN is in force at once. Otherwise the error by which DRAIN_SET refuses it. */
int central_drain_refusal(const struct central *c, node_id_t node, enum drain drain);

/* The i-th application that the node serves, in any order; NULL past the last. user: whose tasks; NULL: everybody's. */
const struct blob *central_node_app(const struct central *c, node_id_t node, uint32_t i,
                                    const struct blob **user);

/* ---- Long jobs whose dist is away or has forgotten them ---- */

struct long_job;
/* The next job after prev (NULL: the first) that no dist which is up shows; NULL at the end. */
const struct long_job *central_next_job(const struct central *c, const struct long_job *prev);
/* The next one after that job, which may be shown meanwhile; NULL at the end, and if that job is gone. JOB_NONE: the
 * first. */
const struct long_job *central_job_after(const struct central *c, job_id_t job);
/* The job under its greatest epoch, whichever dist has it. */
const struct long_job *central_find_job(const struct central *c, job_id_t job);
void central_job_view(const struct central *c, const struct long_job *j, int64_t now_us, struct job_view *v);
/* The number of its tasks that are central's; the i-th of them. */
uint32_t central_job_tasks(const struct long_job *j);
void central_task_view(const struct central *c, const struct long_job *j, uint32_t i, int64_t now_us,
                       struct task_view *v);
/* Writes what the job waits for. */
void central_job_blocked(const struct central *c, const struct long_job *j, char *buf, size_t size);

struct central_totals {
    uint32_t long_jobs;               /* unfinished */
    uint64_t long_tasks;              /* unfinished */
    uint64_t counters[COUNTER_COUNT]; /* central's own: tasks_placed, tasks_retried, steal_hints */
};
struct central_summary {
    int64_t cutoff_us;
    uint32_t policy_version;
    uint32_t workers, workers_reserved; /* not gone */
    uint64_t slots;                     /* of these workers */
    /* If the policy reserves a share that is smaller than any worker: the slots of the smallest worker; else
     * 0. */
    uint32_t slots_least;
    bool young; /* it continues for a central that lost its state: tasks of that one may still run */
};
/* A summary that is cheap enough for every turn. O(1); O(slots of a worker) while the share is too small to
 * reserve a worker. */
void central_view_summary(const struct central *c, struct central_summary *s);

/* For metrics. O(long jobs that run without any task that waits). */
struct central_queue {
    int64_t oldest_us; /* when central got the oldest long job with a waiting task; TIME_NEVER: none has */
    uint64_t tasks_waiting, tasks_placed, tasks_running;
    uint32_t suspect, out; /* nodes that are silent; workers that are out of service */
    uint32_t dists;        /* that are up */
};
void central_view_queue(const struct central *c, struct central_queue *q);

void central_view_totals(const struct central *c, struct central_totals *t);

const struct policy *central_policy(const struct central *c);
/* After a restart: until then, from now on, nodes that its journal names may join again; 0: they had their time. */
int64_t central_settles_in_us(const struct central *c, int64_t now_us);
struct central_policy_view {
    const char *base;     /* the preset from which the policy started */
    bool chosen;          /* an operator chose parts of it, chosen_ago_us ago */
    bool configured_anew; /* the configuration changed after the choice */
    int64_t chosen_ago_us;
};
void central_view_policy(const struct central *c, int64_t now_us, struct central_policy_view *v);
/* Where the value of the flag or number comes from. */
enum policy_origin central_policy_flag_origin(const struct central *c, uint32_t flag);
enum policy_origin central_policy_number_origin(const struct central *c, enum policy_number number);
const struct history *central_history(const struct central *c);

/* The functions of the role: central_step, central_next_timeout, central_check. */
extern const struct role_functions central_functions;

#endif
