/* The distributed scheduler: accepts jobs and classifies them. It probes for short jobs and binds their tasks
 * late (Sparrow 3.3-3.6). It hands long jobs to central and mirrors their progress (docs/protocol.md).
 *
 * A pure state machine: dist_step() handles one event, and puts out messages and effects. */
#ifndef HAWK_DIST_DIST_H
#define HAWK_DIST_DIST_H

#include "dist/state.h"
#include "msg/view.h"

/* Fills *c with the defaults of struct dist_config (dist/state.h): no name, no address, policy "hawk". */
void dist_config_init(struct dist_config *c);
/* *d takes references to the configuration's blobs. The seed alone decides every random draw. */
void dist_init(struct dist *d, const struct dist_config *c, uint64_t seed);
void dist_free(struct dist *d);
/* Handles one event. Output at most: one message per worker drawn (submission, loss), or one or two per task
 * of the jobs concerned (cancellation, lost worker), plus the counters that changed. */
void dist_step(struct dist *d, const struct event *e, struct out *out);
/* When the dist needs a TIMER; TIME_NEVER: nothing is due. */
int64_t dist_next_timeout(const struct dist *d);
/* Aborts if an invariant is broken. Looks at everything: for tests and the simulator. */
void dist_check(const struct dist *d);
/* Whether nothing is unfinished or left over: every table but that of finished jobs is empty. */
bool dist_quiet(const struct dist *d);

/* ---- Views. Their pointers are valid until the next step. ---- */

/* The next predecessor, from place *at on, whose end the job waits for; NULL: there are no more. */
const struct after *dist_next_predecessor(const struct dist_job *job, uint32_t *at);
/* The first predecessor of a description that is not known here as a job of the same user; NULL: all are. */
const struct after *dist_after_missing(const struct dist *d, const struct job_desc *desc);
/* A job that was accepted (SUBMITTED with err 0) and is still kept; NULL: there is none. */
const struct dist_job *dist_find(const struct dist *d, job_id_t job);
/* The job that was submitted under that key, accepted or not yet; NULL: there is none. */
const struct dist_job *dist_find_key(const struct dist *d, uint64_t key);
/* All of these jobs: the one accepted last, and the one accepted before `job`; NULL at the end. */
const struct dist_job *dist_newest(const struct dist *d);
const struct dist_job *dist_older(const struct dist *d, const struct dist_job *job);

/* A user's unfinished jobs, and all their tasks. */
void dist_user_load(const struct dist *d, const struct blob *name, uint32_t *jobs, uint64_t *tasks,
                    uint64_t *bytes);

void dist_job_view(const struct dist *d, const struct dist_job *job, int64_t now_us, struct job_view *v);
/* task < job's desc->tasks. */
void dist_task_view(const struct dist *d, const struct dist_job *job, uint32_t task, int64_t now_us,
                    struct task_view *v);
/* The job's live reservations. *cursor starts as NULL. False: there are no more. */
bool dist_next_reservation(const struct dist *d, const struct dist_job *job, const void **cursor,
                           struct reservation_view *v);

/* Reasons why a job makes no progress (dist_blocked() says which comes first): X(constant, a word for lists, text). */
#define DIST_BLOCKS(X)                                                                                       \
    X(NOTHING, "", "nothing of it waits")                                                                    \
    X(CENTRAL_AWAY, "central",                                                                               \
      "long, and central cannot be reached: it is handed over when central is back")                         \
    X(CENTRAL_FULL, "central", "long, and central refused it for now: it is offered again soon")             \
    X(CENTRAL_ACK, "central",                                                                                \
      "long, and central has not confirmed it yet: should that last, its disk may be full (see its log)")    \
    X(HELD, "held", "held by its user: `hawk release` lets it go on")                                        \
    X(AFTER, "jobs", "waits for the jobs that it is to run after")                                           \
    X(CANCELLING, "cancelling", "being cancelled: waits for what runs to end")                               \
    X(SETTLING, "settling", "read back from the journal: workers are first asked what they still run of it") \
    X(NO_WORKERS, "workers", "no worker is up")                                                              \
    X(ALL_DRAINING, "draining", "no worker takes work: those that are up are draining or out of service")    \
    X(UNSETTLED, "workers",                                                                                  \
      "central has just started: workers are still reporting, work goes on within central.suspect + 0.5 s")  \
    X(NO_GENERAL, "workers", "no worker of the general partition is up, and long tasks run nowhere else")    \
    X(NO_RESERVED, "workers", "no reserved worker is up, and this policy runs short tasks nowhere else")     \
    X(APP, "executor", "no worker serves its application")                                                   \
    X(USER, "workers", "no worker that is up runs its user's commands (worker.run_as)")                      \
    X(TIME, "time", "no worker has as much time left as its estimate needs (worker.end_time)")               \
    X(REFUSED, "workers", "workers refused its probes: probes are sent again soon")                          \
    X(JOURNAL, "journal",                                                                                    \
      "its dist cannot write its journal, which comes first: the disk may be full (see its log)")            \
    X(PROBES, "slots", "waits for slots: its probes are in the queues of workers")                           \
    X(PLACEMENT, "slots", "waits for slots for long work: central has not placed all of its tasks")          \
    X(PLACED, "slots", "waits for slots: central placed its tasks in the queues of workers")                 \
    X(LIMIT, "limit", "as many of its tasks run as its user allows at a time (--max-running)")               \
    X(DELAYED, "retry", "its tasks failed, and wait for their time to run again (--retry-delay)")            \
    X(LAUNCHED, "starting", "its tasks were sent to workers and have not started yet")

enum dist_block {
#define X(name, word, text) DIST_BLOCK_##name,
    DIST_BLOCKS(X)
#undef X
        DIST_BLOCK_COUNT
};
const char *dist_block_text(enum dist_block b);
const char *dist_block_word(enum dist_block b);
/* *n: the number of workers at which its probes wait (PROBES), of its unfinished tasks (CANCELLING), else of its tasks
 * that wait. */
enum dist_block dist_blocked(const struct dist *d, const struct dist_job *job, uint32_t *n);

/* How long central does not place waiting tasks of the job again, because a worker that it does not hear may
 * have them; 0: central would place all. */
int64_t dist_unreported_us(const struct dist_job *job, int64_t now_us);

/* The next node that central lists, by id after `after` (NODE_NONE: the first); NULL: there are no more. Of state
 * MEMBER_GONE: one that the former central listed, and the present one, which has just started, may not know yet. */
const struct member *dist_next_member(const struct dist *d, node_id_t after);
/* The i-th application that the node serves, in any order; NULL past the last. user: whose tasks; NULL: everybody's. */
const struct blob *dist_node_app(const struct dist *d, node_id_t node, uint32_t i, const struct blob **user);
bool dist_has_stream(const struct dist *d, node_id_t node);

static inline const struct policy *dist_policy(const struct dist *d) { return &d->policy; }
/* The secrets of receipts (net/receipt.h), DIST_RECEIPTS of them. What it gives out is made with the first. */
static inline const struct receipt_secret *dist_receipts(const struct dist *d) { return d->receipts; }
/* Whether a job is moved here with a receipt alone, at that time. */
static inline bool dist_receipts_due(const struct dist *d, int64_t now_us)
{
    return now_us >= d->receipts_due_us;
}
/* Its id; NODE_NONE before it joins for the first time. */
static inline node_id_t dist_node(const struct dist *d) { return d->node; }
/* Whether it takes jobs: it has joined once, and has numbers for its next jobs. */
bool dist_ready(const struct dist *d);
/* Whether it has joined on central's present stream. */
static inline bool dist_central_up(const struct dist *d) { return d->joined; }
/* Whether an operator has drained it: it takes no new jobs. */
static inline bool dist_drained(const struct dist *d) { return d->drained; }
/* Indexed by enum counter. */
static inline const uint64_t *dist_counters(const struct dist *d) { return d->counters; }
/* How its jobs fared; its unfinished jobs' tasks by state. */
static inline const struct dist_times *dist_times(const struct dist *d) { return &d->times; }
static inline uint32_t dist_tasks_in(const struct dist *d, enum task_state s) { return d->tasks_in[s]; }
/* When the job was submitted that has been longest in that state; TIME_NEVER: none is in it. */
int64_t dist_oldest_us(const struct dist *d, enum job_state s);
static inline uint32_t dist_jobs_unfinished(const struct dist *d) { return d->jobs_unfinished; }

/* The functions of the role: dist_step, dist_next_timeout, dist_check. */
extern const struct role_functions dist_functions;

#endif
