/* The worker's objects and their states; declarations that its files share.
 *
 *   owner   a dist or central: tasks here belong to it, and requests go to it
 *   job     an (owner, job): its description and everything of it at this worker
 *   entry   one place in a lane's queue: a reservation with a count, or a bound task
 *   lane    a queue, FIFO but for short_first, and the slots that it feeds
 *   slot    free, or waiting for the answer to a task request, or busy with a task
 *   task    queued (bound), starting, running, or done and not yet acknowledged
 *   loot    what one thief was given and has not acknowledged
 *
 * objects.c makes and moves them. probes.c talks with dists, central.c with central, tasks.c with executors
 * and with owners about tasks, stealing.c with other workers. beats.c gives up peers that do not answer.
 * apps.c knows the attached executors' applications. service.c takes a worker that cannot start tasks out of
 * service. pausing.c pauses long tasks. worker.c passes each message to its handler.
 *
 * malloc makes the objects one by one. Its per-thread cache is a free list that all workers of a simulation
 * share, so it is warm; a list per worker would not be. */
#ifndef HAWK_WORKER_INTERNAL_H
#define HAWK_WORKER_INTERNAL_H

#include "base/check.h"
#include "base/units.h"
#include "msg/beats.h"
#include "stealer/queue.h"
#include "worker/worker.h"

enum owner_state {
    OWNER_UP,   /* in up_owners: it has a stream (central: joined) */
    OWNER_LOST, /* in lost_owners: its tasks are killed at orphan_at (DESIGN 3.8), if it has any left */
    OWNER_AWAY, /* in away_owners: central (the lease decides), or a dist whose orphans are being killed */
};

/* An owner of tasks and reservations here.
 *
 *   it is in the list of its state;  state is not UP => no requests;  state is AWAY => some job
 *   n_reservations = sum of the counts of its jobs' reservations;  n_unacked = its tasks that are DONE
 *
 * The fields that most messages need lie together: a simulation has tens of thousands of workers, and their
 * owners are in no cache. */
struct owner {
    struct table_node hash; /* in worker.owners, by node */
    node_id_t node;
    uint32_t last_request; /* its number on this stream */
    uint32_t n_unacked;    /* completions it has not acknowledged */
    uint8_t state;
    struct list requests;    /* slots that wait for its answer, in the order of requests */
    struct list jobs;        /* by age */
    uint64_t n_reservations; /* queued or in loot */
    uint64_t unacked_bytes;  /* bytes of their results */
    struct list link;        /* in the list of its state */
    int64_t orphan_at;       /* OWNER_LOST */
    uint8_t version;         /* protocol version of its link */
    struct beats beats;      /* valid while it owes an answer */
};

/* It exists while an entry, a request or a task of it does.
 *
 *   n_requests = slots in owner.requests that wait for it
 *   n_requests > 0, or some reservation, or some task */
struct job {
    struct table_node hash;   /* in worker.jobs, by (owner, id) */
    struct list link;         /* in owner.jobs */
    struct list reservations; /* queued or in loot */
    struct list tasks;
    struct owner *owner;
    struct job_desc *desc; /* NULL until the first launch brings it */
    job_id_t id;
    uint64_t app;        /* application that it needs; 0: none */
    int64_t estimate_us; /* estimate of a task's run time, from its last reservation; 0: not known */
    uint64_t ancestors;  /* as estimate_us: set of its ancestors; 0: not known (loot does not say) */
    uint32_t user;       /* as estimate_us: its number; 0: nobody, or not known */
    uint32_t n_requests;
};

/* What is queued in a lane. */
struct entry {
    struct steal_entry q; /* queued in lane->queue; in no queue while in loot */
    struct job *job;
    struct lane *lane;
    struct task *task; /* the bound task; NULL: a reservation */
};

/*   count >= 1;  it is in a lane's queue <=> loot = NULL */
struct reservation {
    struct entry e;
    struct list job_link;  /* in job.reservations */
    struct list loot_link; /* in loot.items while a thief has it */
    struct loot *loot;     /* its loot, or NULL */
    int64_t arrived_us;    /* for the wait in TASK_STARTED; a stolen one keeps its victim's time */
    uint16_t index;        /* in loot: its number */
    bool stolen;
};
static inline struct reservation *reservation_of(struct entry *e)
{
    CHECK(!e->task);
    return container_of(e, struct reservation, e);
}

/*   n_active = its slots that are free, requested or busy;  n_active >= n_slots;  n_paused = its paused slots
 *   n_free = its free slots,  n_long = its slots that count as long,  n_ahead and n_given: those in these states
 *   n_freezing = its slots whose task is being frozen
 *   n_active > n_slots => n_free = 0                 (overcommitted: it takes nothing new)
 *   n_free > 0 => its queue is empty, and n_ahead = n_given = 0
 *                                                    (whatever can be served has been, once a step is over)
 *   n_given <= n_freezing                            (nobody waits for a pause that does not come)
 *   n_paused <= slots that are requested or busy with a short task          (nothing stands still for nobody)
 *   stuck <=> its queue is stuck (steal_queue_stuck);  touched by nobody, once a step is over */
struct lane {
    struct steal_queue queue;
    struct list free;    /* free slots */
    struct list unused;  /* spare slots, for use while tasks are paused */
    struct list paused;  /* in the order of their pauses */
    struct list given;   /* in the order in which their tasks came */
    struct list touched; /* in worker.touched */
    uint16_t n_slots, n_active, n_free, n_paused;
    uint16_t n_ahead, n_given;
    uint16_t n_long;                     /* slots that count as long */
    uint16_t n_freezing : 15, stuck : 1; /* stuck: at the last look */
};

enum slot_state {
    SLOT_FREE,      /* in lane.free */
    SLOT_REQUESTED, /* in owner.requests */
    SLOT_BUSY,      /* in no list: it has a task */
    SLOT_AHEAD,     /* in owner.requests, not in use yet: a pause makes room for the task that is given */
    /* In lane.given, not in use yet: its task starts when a long one is paused, or a slot is free. */
    SLOT_GIVEN,
    SLOT_PAUSED, /* in lane.paused: its task is paused, and another slot is in use for it */
    SLOT_UNUSED, /* in lane.unused: not in use */
};

/* A run's handle names its slot, and a task stays in its slot until it ends. While it is paused, a spare slot
 * of the lane is in use.
 *
 *   state is REQUESTED or AHEAD <=> job;  state is BUSY, GIVEN or PAUSED <=> task, and task->slot is this one
 *   is_long => state is REQUESTED or BUSY;  freezing => state = BUSY */
struct slot {
    struct list link; /* in the list of its state */
    struct lane *lane;
    struct job *job;    /* REQUESTED, AHEAD; as the fields below */
    struct task *task;  /* BUSY, GIVEN, PAUSED */
    int64_t arrived_us; /* when its reservation arrived */
    uint32_t request;   /* its number on the owner's stream */
    uint16_t long_turn; /* turn of the queue, from steal_queue_served() */
    uint8_t state;
    bool is_long : 1;  /* the class of its request or task is long, or the task outlived the cutoff */
    bool stolen : 1;   /* its reservation was stolen */
    bool freezing : 1; /* the executor is to freeze its task, and has not answered */
};

enum worker_task_state {
    T_NEW,
    T_QUEUED,   /* bound, has an entry */
    T_GIVEN,    /* has a slot that is GIVEN */
    T_STARTING, /* has a slot; the executor was told */
    T_RUNNING,  /* has a slot; it started. It is paused if slot->state is PAUSED */
    T_DONE,     /* kept until its owner has acknowledged it */
};

/*   state = QUEUED <=> entry;  state is GIVEN, STARTING or RUNNING <=> slot
 *   in worker.promotable => RUNNING, promotable, and not overrun yet */
struct task {
    struct table_node hash; /* in worker.tasks */
    struct list link;       /* in job.tasks */
    struct list promo_link; /* in worker.promotable while it may still overrun */
    struct job *job;
    struct entry *entry; /* QUEUED */
    struct slot *slot;   /* GIVEN, STARTING, RUNNING */
    struct blob *arg;    /* QUEUED, GIVEN */
    struct blob *proof;  /* the same */
    struct blob *result; /* DONE */
    struct try_id id;
    int64_t arrived_us;
    int64_t started_us;       /* RUNNING; without the time of pauses */
    int64_t paused_at;        /* in a paused slot: when the pause began */
    int64_t paused_us;        /* total time of earlier pauses */
    int64_t pause_not_before; /* the executor refused the last pause */
    job_id_t paused_for;      /* the last pause was for a task of this job */
    uint32_t paused_for_task, pauses;
    int64_t estimate_us;     /* of its run time; 0: not known */
    int64_t wait_us, run_us; /* wait_us: from RUNNING on; run_us: DONE */
    int32_t code;            /* DONE */
    struct usage used;       /* DONE */
    uint32_t run;            /* STARTING, RUNNING: the executor's number of the run */
    uint8_t outcome;         /* DONE */
    uint8_t kill_outcome;    /* the outcome of a task that was told to die; OUTCOME_NONE: it was not */
    uint8_t state;
    bool promotable, overrun, overrun_told, stolen, kill_forced, no_pause;
    uint8_t pauses_refused; /* in a row */
    bool pause_untold;      /* its owner does not know of its last pause, or of that pause's end */
};

/* The loot of a thief: one record per thief, never empty, its items ordered by index. */
struct loot {
    struct list link;  /* in worker.loot */
    struct list items; /* reservations by index */
    int64_t given_us;
    node_id_t thief;
    uint32_t request;
};

#define RUN_SLOT_BITS 12u /* a run's number: generation and slot; all of LIMIT_SLOTS fit */
_Static_assert(LIMIT_SLOTS <= 1u << RUN_SLOT_BITS, "a slot's number must fit in a run handle");

static inline struct slot *slot_at(const struct worker *w, uint32_t i) { return &w->slots[i]; }
bool worker_is_out(const struct worker *w);
/* Whether it takes no new work: it was told to stop, is drained, or is out of service. */
static inline bool refuses_work(const struct worker *w)
{
    return w->stopping || w->drained || worker_is_out(w);
}
static inline int refusal(const struct worker *w) { return w->stopping ? HAWK_ESHUTDOWN : HAWK_EDRAINING; }
static inline bool owner_is_central(const struct owner *o) { return node_eq(o->node, NODE_CENTRAL); }
static inline int64_t time_after(int64_t now_us, int64_t delay_us)
{
    return delay_us > TIME_NEVER - 1 - now_us ? TIME_NEVER - 1 : now_us + delay_us;
}
/* How long the running task t has run, without pauses. */
static inline int64_t worker_task_age(const struct worker *w, const struct task *t)
{
    return (t->slot->state == SLOT_PAUSED ? t->paused_at : w->now_us) - t->started_us;
}
void worker_count(struct worker *w, enum counter c, uint64_t n);

/* ---- objects.c ---- */
struct owner *worker_owner_find(const struct worker *w, node_id_t node);
struct owner *worker_owner_get(struct worker *w, node_id_t node); /* finds it, or makes it with state AWAY */
void worker_owner_set_state(struct worker *w, struct owner *o, enum owner_state s);
void worker_owner_release(struct worker *w, struct owner *o); /* frees it if nothing needs it */
struct job *worker_job_find(const struct worker *w, const struct owner *o, job_id_t id);
struct job *worker_job_get(struct worker *w, struct owner *o, job_id_t id);
/* Whether j can have reservations for app: all its reservations are for one application. */
static inline bool worker_job_is_for(const struct job *j, uint64_t app)
{
    return j->app == app || list_empty(&j->reservations);
}
void worker_job_release(struct worker *w, struct job *j); /* frees it if nothing of it is left */

/* How many of n more reservations or tasks have room. */
uint32_t worker_room_for(const struct worker *w, uint32_t n);
/* Counts n more reservations of j, or fewer if n < 0. */
void worker_count_reservations(struct worker *w, const struct job *j, int64_t n);
struct lane *worker_lane_shortest(struct worker *w);
static inline bool lane_blocked(const struct lane *l)
{
    return steal_queue_blocked(&l->queue, l->n_slots, l->n_long);
}
void worker_lane_touch(struct worker *w, struct lane *l);
void worker_lanes_order(struct worker *w); /* call it when the policy's short_first may have changed */
struct entry *worker_entry_new(struct task *bound); /* for a long task */
struct reservation *worker_reservation_new(struct job *j, bool is_long, uint32_t n);
void worker_entry_push(struct worker *w, struct lane *l,
                       struct entry *e); /* at the tail; counts a new reservation */
void worker_entry_unqueue(struct worker *w, struct entry *e);
void worker_leave_loot(struct worker *w, struct reservation *r); /* frees the record with its last item */
/* e must be in no queue or loot; keeps its job: call worker_job_release(). */
void worker_entry_free(struct worker *w, struct entry *e);
/* Drops every reservation of j, queued or in loot, and returns their number; may free j. O(entries of j). */
uint32_t worker_job_drop_reservations(struct worker *w, struct job *j);

/* Slot s requests a task of the job of e, a reservation. A free slot is REQUESTED then, an unused one
 * AHEAD. */
void worker_slot_request(struct worker *w, struct slot *s, struct entry *e);
/* A slot that is AHEAD takes the place of a free one. */
void worker_slot_use(struct worker *w, struct slot *s);
/* A slot that is AHEAD gets its task. */
void worker_slot_give(struct worker *w, struct slot *s, struct task *t);
void worker_slot_run(struct worker *w, struct slot *s, struct task *t, bool is_long);
void worker_slot_free(struct worker *w, struct slot *s); /* may free the job of its request */
/* The task in s is being frozen, or is not any more. */
void worker_slot_freeze(struct worker *w, struct slot *s, bool freezing);
void worker_slot_mark_long(struct worker *w, struct slot *s, bool is_long);
/* The task in s is paused: the caller uses another slot in its place. */
void worker_slot_pause(struct worker *w, struct slot *s);
/* The task in s goes on: a free slot of its lane goes out of use for it; without one the worker is
 * overcommitted. */
void worker_slot_resume(struct worker *w, struct slot *s);

struct task *worker_task_find(const struct worker *w, const struct owner *o, const struct try_id *id);
struct task *worker_task_new(struct worker *w, struct job *j, const struct try_id *id);
void worker_task_set_state(struct worker *w, struct task *t, enum worker_task_state s);
/* Must have no entry and no slot; may free its job. */
void worker_task_free(struct worker *w, struct task *t);
struct loot *worker_loot_find(const struct worker *w, node_id_t thief);
void worker_objects_free(struct worker *w);

/* ---- tasks.c ---- */
/* Serves the lane's next entry until no slot or no entry is left. Output: at most one message per slot freed
 * or entry dropped. */
void worker_lane_dispatch(struct worker *w, struct lane *l);
/* s requests a task for the reservation e. Output: 1 message. e may be gone afterwards. */
void worker_request(struct worker *w, struct slot *s, struct entry *e);
/* The task of a run, or NULL. */
struct task *worker_task_of_run(const struct worker *w, uint32_t run);
/* Starts a task that was given. Output: 1 message. */
void worker_task_begin(struct worker *w, struct task *t);
/* To its dist. Output: at most 1 message. */
void worker_given_return(struct worker *w, struct task *t, int err);
void worker_task_return(struct worker *w, struct task *t); /* hands a queued task back to its owner */
void worker_task_kill(struct worker *w, struct task *t, enum outcome as, bool force);
void worker_report_held(struct worker *w, struct owner *o);
void worker_launch_refused(struct worker *w, const struct owner *o, const struct try_id *id, int err);
void worker_overrun_due(struct worker *w);
int64_t worker_overrun_next(const struct worker *w);
void worker_on_task_enqueue(struct worker *w, const struct msg *in);
void worker_on_task_recall(struct worker *w, const struct msg *in);
void worker_on_task_cancel(struct worker *w, const struct msg *in);
void worker_on_finish_ack(struct worker *w, const struct msg *in);
void worker_on_exec_started(struct worker *w, const struct msg *in);
void worker_on_exec_exited(struct worker *w, const struct msg *in);
void worker_on_exec_held(struct worker *w, const struct msg *in);
void worker_on_exec_used(struct worker *w, const struct msg *in);
void worker_task_forget(struct worker *w, struct task *t); /* frees a done task. Output: 1 message */
void worker_task_launch(struct worker *w, struct slot *s, struct job *j, const struct msg_task_launch *m);

/* ---- pausing.c ---- */
/* Ends the pause of a task: to kill it, or because the pause has no reason any more. Output: 1 message. */
void worker_pause_end(struct worker *w, struct slot *s);
/* Whether a free slot goes to a paused task, not to a slot ahead or to `next`, the queue's next entry. */
bool worker_pause_first(const struct worker *w, const struct lane *l, const struct steal_entry *next);
/* Call it after the lane was served. It ends pauses without a reason, begins one for each task that was
 * given, and requests tasks for which there might be one. Output: a message per pause, and per task requested
 * or returned. */
void worker_pause_settle(struct worker *w, struct lane *l);
void worker_pause_due(struct worker *w);
/* Tells the owner of t what it does not know of t's pauses. Output: at most 1 message. */
void worker_pause_tell(const struct worker *w, struct task *t);
/* The same for all running tasks. O(slots) if a task was paused since the last call. */
void worker_pauses_tell(struct worker *w);
void worker_on_exec_paused(struct worker *w, const struct msg *in);

/* ---- probes.c ---- */
void worker_send_request(struct worker *w, const struct slot *s, const struct job *j);
/* Refuses the reservations of e, which is in no queue, and frees e. */
void worker_entry_refuse(struct worker *w, struct entry *e, int err);
/* Takes e off its queue and frees it: returns its task to central, or refuses its reservations with err. */
void worker_entry_give_back(struct worker *w, struct entry *e, int err);
void worker_on_probe(struct worker *w, const struct msg *in);
void worker_on_probe_cancel(struct worker *w, const struct msg *in);
void worker_on_no_task(struct worker *w, const struct msg *in);
void worker_on_task_launch(struct worker *w, const struct msg *in);
void worker_dist_up(struct worker *w, node_id_t node, uint32_t version);
void worker_dist_lost(struct worker *w, struct owner *o);
void worker_dist_away(struct worker *w,
                      struct owner *o); /* it has no stream: its tasks are orphans from now on */
void worker_orphans_due(struct worker *w);
bool worker_entry_has_time(const struct worker *w, const struct entry *e);

/* ---- beats.c ---- */
void worker_beats_due(struct worker *w);
void worker_beats_await(struct worker *w, const struct owner *o); /* it owes an answer from now on */
int64_t worker_beats_next(const struct worker *w);
void worker_on_beat(struct worker *w, const struct msg *in);

/* ---- central.c ---- */
void worker_central_stream_up(struct worker *w, uint32_t version);
void worker_central_lost(struct worker *w);
bool worker_lease_is_over(const struct worker *w);
int64_t worker_lease_next(const struct worker *w);
void worker_lease_due(struct worker *w);
void worker_lease_step(struct worker *w); /* tells the executor about a change */
void worker_on_exec_lease(struct worker *w, const struct msg *in);
void worker_heartbeat_due(struct worker *w);
/* Tells central about changes; the latest value, when the rate allows it. */
void worker_edges_step(struct worker *w);
void worker_ask_long(struct worker *w); /* Output: 1 message */
int64_t worker_edges_next(const struct worker *w);
void worker_lanes_empty(struct worker *w); /* hands everything back. Output: at most 1 message per entry */
void worker_drain_step(struct worker *w);  /* tells central when nothing is left */
void worker_stop_step(struct worker *w);   /* leaves when nothing must be waited for */
void worker_on_joined(struct worker *w, const struct msg *in);
void worker_on_refused(struct worker *w, const struct msg *in);
void worker_on_heartbeat_ack(struct worker *w, const struct msg *in);
void worker_on_policy(struct worker *w, const struct msg *in);
void worker_on_partition(struct worker *w, const struct msg *in);
void worker_on_members(struct worker *w, const struct msg *in);
void worker_on_long_work(struct worker *w, const struct msg *in);
void worker_on_drain(struct worker *w, const struct msg *in);
void worker_on_quit(struct worker *w, const struct msg *in);
void worker_on_stop(struct worker *w, const struct msg *in);

/* ---- service.c ---- */
/* A task of that job could not be started. */
void worker_service_failed(struct worker *w, job_id_t job, const struct msg_exec_exited *m);
void worker_service_joined(struct worker *w); /* tells central its state. Output: at most 1 message */
void worker_service_due(struct worker *w);
int64_t worker_service_next(const struct worker *w);
void worker_service_check(const struct worker *w);
void worker_service_free(struct worker *w);
void worker_on_start_blamed(struct worker *w, const struct msg *in);
void worker_on_out_of_service(struct worker *w, const struct msg *in);
void worker_on_exec_checked(struct worker *w, const struct msg *in);

/* ---- apps.c ---- */
/* Why this worker takes no work of that application, user and estimate (0: not known): HAWK_ESHUTDOWN, HAWK_EDRAINING,
 * HAWK_ENO_EXECUTOR, HAWK_EWRONG_USER or HAWK_ENO_TIME. 0: it takes it. */
int worker_why_not(const struct worker *w, uint64_t app, uint32_t user, int64_t estimate_us);
void worker_serves_tell(const struct worker *w); /* tells central whose commands it runs */
/* Whether a task of that estimate would end before the worker does. */
static inline bool worker_has_time(const struct worker *w, int64_t estimate_us)
{
    return fits_before_end(estimate_us, w->config.ends_us, w->now_us);
}
void worker_ends_tell(const struct worker *w); /* tells central when it ends */
/* e enters a queue, or leaves it. */
void worker_apps_count(struct worker *w, const struct entry *e, bool in);
/* The applications (app_set) of which a thief must serve one to get anything from here; 0: any thief may get
 * something. Covers all that is queued, not only what is stuck, so that it needs no look at the queues.
 * O(applications). */
uint64_t worker_apps_needed(const struct worker *w);
void worker_apps_tell(const struct worker *w); /* tells central all of them */
void worker_apps_free(struct worker *w);
void worker_on_exec_app(struct worker *w, const struct msg *in);

/* ---- stealing.c ---- */
void worker_thief_turn(struct worker *w);         /* call it after everything else of a step */
bool worker_steal_from_sibling(struct worker *w); /* queue_per_slot: returns whether something moved */
void worker_loot_return(struct worker *w, node_id_t thief); /* the thief is gone */
void worker_on_steal_request(struct worker *w, const struct msg *in);
void worker_on_loot_user(struct worker *w, const struct msg *in);
void worker_on_steal_loot(struct worker *w, const struct msg *in);
void worker_on_steal_ack(struct worker *w, const struct msg *in);
void worker_on_steal_hint(struct worker *w, const struct msg *in);

#endif
