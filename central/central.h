/* Central: membership, placement of long tasks by waiting time, the short partition, history -> policy, and
 * the durable ownership of long jobs. A deterministic state machine (docs/protocol.md, central's side):
 * no I/O, no clock, no threads; its shell feeds events and carries out what it puts into `out`.
 *
 * In events and output `peer` is the number of a link, given out by the shell and never used again.
 *
 * The journal. JOURNAL_* messages carry tokens that grow by one;
 * the shell writes them in order and answers JOURNAL_DONE{token}: everything up to token is durable, or
 * (err != 0) none of what was unanswered up to token is. A job that could not be written is refused with
 * that error; anything else is tried again every second, and central_totals shows the error meanwhile.
 * HISTORY carries no token and is not answered.
 *
 * Starting: START, then what the journal holds as events of the same types (HISTORY oldest first; of jobs
 * that ended nothing is needed), then RECOVERED, always. Joins wait until then. Stopping: STOP, and
 * STOPPED comes out when nothing in the journal is unanswered.
 *
 * SET_DRAIN is in force at once; DRAIN_SET answers when it is durable, or with an error (HAWK_EIO: it is in force,
 * and will be written when that can be done). STOP_NODE is not answered: the node leaves, or does not.
 *
 * SET_POLICY{choice} adds to what an operator chose before; without a choice, all is as configured again. It is in force at
 * once; POLICY_SET answers like DRAIN_SET. What was chosen survives restarts (JOURNAL_POLICY). */
#ifndef HAWK_CENTRAL_CENTRAL_H
#define HAWK_CENTRAL_CENTRAL_H

#include "central/config.h"
#include "msg/msg.h"
#include "msg/view.h"

struct central; /* opaque: central/state.h is private to central/ */

#define CENTRAL_OUT_SHARE                                                                                    \
    4u /* one in so many workers may be out of service by itself; one may in any case, where there are two */

/* Ready for START. Takes a copy of cfg. The seed is unused so far: central decides everything by order.
 * Never NULL. */
struct central *central_new(const struct central_config *cfg, uint64_t seed);
void central_free(struct central *c); /* NULL is fine */
/* One event. Output: at most two messages per long task, a few per node, and one per remembered job name
 * when a dist joins. */
void central_step(struct central *c, const struct event *e, struct out *out);
/* When it wants a TIMER at latest; TIME_NEVER when nothing is due. */
int64_t central_next_timeout(const struct central *c);
/* Aborts when an invariant does not hold. Looks at everything: for tests and the simulator. */
void central_check(const struct central *c);
/* Nothing unfinished: no long job, no journal write unanswered. */
bool central_quiet(const struct central *c);

/* ---- Views, for the API and reports. What they point to holds until the next step. ---- */

struct central_node {
    struct member member; /* its state may be MEMBER_GONE; blobs are borrowed */
    uint32_t link;        /* 0: none */
    int64_t silent_us;    /* since it was heard last */
    /* its last heartbeat */
    uint32_t queued, running_short, running_long, paused, jobs_unfinished;
    /* workers: what central knows of its long tasks, and the waiting time a new one would have there */
    uint32_t long_placed, long_running;
    int64_t wait_us;
    bool partition_acked; /* it knows which partition it is in */
    uint8_t drain;        /* enum drain */
    bool out;             /* it has taken itself out of service */
    bool empty;           /* drained, and nothing is left there */
    uint32_t version; /* of the protocol its link is spoken in; 0: it has not joined since central started */
    bool parked, stuck;       /* as a thief without loot; with a reservation behind long work */
    const uint64_t *counters; /* COUNTER_COUNT, as it reported them */
};
/* The node after prev by id (NODE_NONE: the first), NODE_NONE at the end. Every name ever registered. */
node_id_t central_next_node(const struct central *c, node_id_t prev);
/* Fills *v; false when there is no such node. */
bool central_view_node(const struct central *c, node_id_t node, int64_t now_us, struct central_node *v);

/* The i-th application that it serves, in no order; NULL past the last. */
const struct blob *central_node_app(const struct central *c, node_id_t node, uint32_t i);

/* ---- Long jobs, for those whose dist is not there, or has forgotten them ---- */

struct long_job;
/* After prev (NULL: the first) the next job that no dist which is up shows; NULL at the end. */
const struct long_job *central_next_job(const struct central *c, const struct long_job *prev);
/* Whoever has it: under the greatest epoch. O(jobs). */
const struct long_job *central_find_job(const struct central *c, job_id_t job);
void central_job_view(const struct central *c, const struct long_job *j, int64_t now_us, struct job_view *v);
/* How many of its tasks are central's; the i-th of them. */
uint32_t central_job_tasks(const struct long_job *j);
void central_task_view(const struct central *c, const struct long_job *j, uint32_t i, struct task_view *v);
/* What becomes of it. */
void central_job_blocked(const struct central *c, const struct long_job *j, char *buf, size_t size);

struct central_totals {
    uint32_t workers_up, workers_suspect, dists_up, dists_suspect;
    uint64_t slots, slots_reserved;                               /* of workers that are not gone */
    uint32_t long_jobs;                                           /* unfinished */
    uint64_t long_tasks, long_waiting, long_placed, long_running; /* unfinished: the sum; then by state */
    uint64_t jobs_accepted, jobs_finished;                        /* long, since it started */
    uint64_t tasks_done, tasks_failed, tasks_cancelled, tasks_lost;
    uint64_t jobs_reported; /* finished jobs that history got, of either class */
    uint32_t parked, stuck;
    uint32_t journal_pending;
    int32_t journal_err;              /* of the last write that failed and was not made good since; 0 */
    uint64_t counters[COUNTER_COUNT]; /* central's own: tasks_placed, tasks_retried, steal_hints */
};
struct central_summary {
    int64_t cutoff_us;
    uint32_t policy_version;
    uint32_t workers, workers_reserved; /* not gone */
    uint64_t slots;                     /* theirs */
    /* Where the policy reserves a share, but less than any worker has: the least slots of a worker; else 0. */
    uint32_t slots_least;
    bool young; /* it goes on for a central that lost its state: what that one placed may still run */
};
/* What is cheap enough to look at after every turn. O(1), and O(slots of a worker) while there are too few to reserve one. */
void central_view_summary(const struct central *c, struct central_summary *s);

void central_view_totals(const struct central *c, struct central_totals *t);

const struct policy *central_policy(const struct central *c);
struct central_policy_view {
    const char *base;     /* the preset that the policy began as */
    bool chosen;          /* an operator chose something of it, chosen_ago_us ago */
    bool configured_anew; /* and the configuration has changed since */
    int64_t chosen_ago_us;
};
void central_view_policy(const struct central *c, int64_t now_us, struct central_policy_view *v);
/* Where the flag or number in force comes from. */
enum policy_origin central_policy_flag_origin(const struct central *c, uint32_t flag);
enum policy_origin central_policy_number_origin(const struct central *c, enum policy_number number);
const struct history *central_history(const struct central *c);

/* How it is driven: central_step, central_next_timeout, central_check. */
extern const struct role_functions central_functions;

#endif
