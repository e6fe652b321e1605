/* A worker's policy (DESIGN 3, docs/protocol.md): slots, the queue of bound tasks and reservations, late
 * binding, task life cycle, stealing as thief and as victim, joining and heartbeats, leases, stopping.
 *
 * A deterministic state machine without I/O: every message, timer and completion goes through worker_step.
 * Peers are node ids, NODE_CENTRAL for central. Same config, seed and events: same output, byte for byte. */
#ifndef HAWK_WORKER_WORKER_H
#define HAWK_WORKER_WORKER_H

#include "base/list.h"
#include "base/rng.h"
#include "msg/msg.h"
#include "stealer/thief.h"
#include "worker/table.h"

#define WORKER_QUEUE_LIMIT 1000000u /* default queue_limit */
#define WORKER_LOOT_RECORDS 64u     /* thieves whose acknowledgement is outstanding; others get nothing */
/* A worker that cannot start tasks leaves service (protocol 8). */
#define WORKER_FAILURES 8u                     /* it remembers: the latest job by job */
#define WORKER_BLAMED_JOBS 3u                  /* so many jobs that started elsewhere ... */
#define WORKER_BLAMED_US (60 * US_PER_S)       /* ... within this time */
#define WORKER_CHECK_MIN_US US_PER_S           /* until its first check; twice as long until each next one, */
#define WORKER_CHECK_MAX_US (60 * US_PER_S)    /* at most */
#define WORKER_OUT_MAX_US (10 * 60 * US_PER_S) /* then it is back, whatever the checks say */
#define WORKER_EDGE_US 10000 /* PARKED and STUCK change at most so often, each (protocol 5.5) */

struct worker_config {
    int64_t park_min_us;  /* a parked thief's first delay */
    int64_t park_max_us;  /* and its longest */
    uint32_t slots;       /* 1 .. LIMIT_SLOTS */
    uint32_t queue_limit; /* reservations and short tasks held at once, whatever their state */
    bool queue_per_slot;  /* false: one queue serves all slots; true: one per slot, as in the paper */
    bool
        leaves_service; /* takes itself out of service when it cannot start tasks; its executor answers EXEC_CHECK */
    bool heartbeats; /* false: none are sent and no lease runs out (a simulation without faults) */
    bool
        successors; /* another process may take over from this one: its executor is told EXEC_FORGET and EXEC_LEASE */
    struct policy policy;     /* until central pushes its own */
    struct blob *name, *addr; /* who this is and where it listens; worker_init takes references */
    uint64_t incarnation;     /* random number of this process */
    int64_t orphan_us;        /* a lost dist's running tasks are killed after so long */
    struct {
        int64_t after_us; /* a short reservation waits at most so long before a long task is paused for it */
        int64_t longest_us;   /* then a paused task goes on, also beside a short one that has its slot */
        uint32_t share_milli; /* a task may stand still for this part of its run time, or its estimate */
        uint32_t paused_max;  /* so many at once; slots + paused_max <= LIMIT_SLOTS */
    } pause;                  /* POLICY_PAUSE, DESIGN 3.13 */
};

/* What a worker needs in paused_max for one paused task per slot. */
static inline uint32_t worker_paused_max(uint32_t slots)
{
    return slots <= LIMIT_SLOTS - slots ? slots : LIMIT_SLOTS - slots;
}

/* Defaults: 1 slot, one queue for all slots, WORKER_QUEUE_LIMIT, park 100 ms .. 5 s, orphans 10 s, heartbeats,
 * policy "hawk", leaves service; no name and address. Pauses: after 100 ms, for 10 minutes, twice the run time, but none at
 * once (paused_max 0): the shell must be able to freeze. */
void worker_config_init(struct worker_config *c);

/* One worker. All of it is private to worker/: read it through the functions below.
 *
 * A simulated worker is never in the cache. What nearly every step looks at lies together, from the last counters, which
 * are those of messages, to the thief; what only some look at stands before and behind it. */
struct worker {
    struct list up_owners;     /* with a stream (central: joined) */
    int64_t heartbeat_sent_us; /* the heartbeat whose acknowledgement is awaited */
    uint64_t counters[COUNTER_COUNT];

    uint32_t counters_changed;    /* bits by enum counter: to be told with the next heartbeat */
    uint32_t heartbeat_awaited;   /* the number of the heartbeat whose acknowledgement is awaited, 0: none */
    uint16_t n_free, n_requested; /* slots; waiting for a dist */
    uint16_t n_active, n_paused;  /* slots in use or free: config.slots, and more while it is overcommitted */
    uint16_t n_lanes, n_stuck;    /* n_stuck: with a stuck reservation */
    uint16_t n_slots;             /* config.slots, and as many as tasks may be paused */
    uint16_t n_given;             /* slots whose task waits for a pause */
    struct list touched;          /* lanes to look at again at the end of this step */
    struct worker_config config;  /* config.policy is the policy in force */
    int64_t now_us;               /* of the event being handled */
    struct out *out;              /* during a step: where messages and effects go */
    int64_t heartbeat_at;         /* TIME_NEVER when none is due */
    int64_t beats_at;             /* at dists that owe something; TIME_NEVER: none does */
    uint64_t cluster;             /* where it is called `node`; 0: nowhere yet */
    node_id_t node;
    bool central_up : 1, joined : 1, general : 1, long_work : 1;
    bool lease_over : 1; /* the lease ran out and what it covers was killed */
    bool stopping : 1, stop_now : 1, stopped : 1;
    bool drained : 1;        /* an operator's drain: no new work until it is over */
    bool told_empty : 1;     /* central was told that nothing is left here */
    bool freed : 1;          /* a slot was freed in this step */
    uint8_t central_version; /* what the link to central is spoken in */
    uint8_t n_apps;
    uint8_t pauses_refused; /* one after another */
    struct members *members;
    struct lane *lanes; /* one queue each: one, or as many as slots */
    uint32_t run_generation;
    uint32_t n_central_tasks; /* central's, queued or running: what the lease is about */
    int64_t
        lease_end_us; /* counted from when the last acknowledged sign of life was sent; TIME_NEVER: none */
    struct list promotable;  /* running promotable tasks by start: by deadline as well, whatever the cutoff */
    struct list lost_owners; /* dists without a stream that tasks still belong to, by orphan deadline */
    /* Things told to central as edges, rate-limited. */
    struct worker_edge {
        int64_t next_at; /* no change is told before */
        bool is, told;
        /* In what would be padding of `parked` (POLICY_LATE_LONG): the slots that a long task is asked for, as central will
         * have it once it heard; and how many long tasks it has sent. */
        uint16_t long_asked;
        uint32_t long_got;
    } parked, stuck;
    int64_t long_ask_at;      /* the next LONG_REQUEST leaves no sooner */
    int64_t pause_at;         /* lanes are looked at again then; TIME_NEVER: when something changes */
    int64_t pause_not_before; /* the executor refused the last pause */
    struct thief thief;

    uint64_t told_apps; /* with stuck */
    uint64_t app_set;   /* of apps */
    uint32_t n_long;    /* slots counting as long */
    uint32_t n_loot;
    struct slot *slots; /* n_slots of them, behind the lanes in their memory */
    /* Owners of tasks (dists and central), jobs, tasks. */
    struct table owners, jobs, tasks;
    uint64_t n_reservations;                     /* counts queued or in loot */
    uint64_t unacked_bytes;                      /* of results in completions that are not acknowledged */
    uint32_t n_tasks, n_queued_tasks, n_unacked; /* all; in the queue; completions */
    uint32_t n_placed;      /* of n_tasks, central's: its limit, not the queue's, holds for them */
    uint32_t n_queued_any;  /* entries in the queues that may be stolen, and need no application */
    uint32_t heartbeat_seq; /* of the last heartbeat sent */

    /* And what few do. */
    struct rng rng;
    struct list loot; /* records: what thieves have not acknowledged yet */
    struct list
        away_owners; /* owners without a stream that are in no other list: central, and dists whose orphans are being killed */
    int64_t join_sent_us;
    int64_t heartbeat_us;
    int64_t lease_us;
    int64_t lease_told_us; /* what the executor was told of the lease's end */
    struct worker_app {    /* what it serves */
        uint64_t id;
        struct blob *name;
        uint32_t n_queued;   /* entries in the queues that may be stolen */
    } * apps;                /* n_apps of them, with room for LIMIT_WORKER_APPS; NULL: none yet */
    struct service *service; /* whether it is in service; NULL: it is, and never failed to start a task */
};

/* Takes references on the config's handles. The config must be valid (slots in range, a name, an address);
 * anything else aborts. *w must stay where it is until worker_free. The shell then steps what was taken over from an
 * earlier process of the same incarnation (EXEC_LEASE, EXEC_HELD), START, and PEER_UP for central once it has a stream. */
void worker_init(struct worker *w, const struct worker_config *c, uint64_t seed);
/* Gives everything back, in whatever state. */
void worker_free(struct worker *w);
/* Handles one event; what follows from it is appended to out. Never aborts because of a peer's message. Time
 * must not go backwards. */
void worker_step(struct worker *w, const struct event *e, struct out *out);
/* When to step TIMER at the latest; TIME_NEVER when nothing is due. O(1). */
int64_t worker_next_timeout(const struct worker *w);
/* Aborts when an invariant does not hold. O(size). */
void worker_check(const struct worker *w);
/* No reservations, tasks, requests, loot or unacknowledged completions. */
bool worker_quiet(const struct worker *w);

/* ---- For shells: status pages, metrics, executors ---- */

struct worker_counts {
    /* slots = free + requested + running, but for an overcommitted worker, where it is less */
    uint32_t slots, free, requested, running;
    uint32_t paused;       /* tasks that stand still */
    uint32_t given;        /* short tasks for which one is about to */
    uint32_t running_long; /* of requested and running: those that count as long */
    uint64_t reservations; /* queued, or being stolen from here */
    uint32_t queued_tasks; /* bound tasks in the queue */
    uint32_t unacked;      /* completions their owner has not acknowledged */
    bool joined, general, stuck, parked, drained, stopping, stopped;
};
void worker_counts(const struct worker *w, struct worker_counts *c);

/* A task that has a slot. */
struct worker_running {
    struct try_id id;
    node_id_t owner;             /* its dist, or NODE_CENTRAL */
    const struct job_desc *desc; /* borrowed until the next step */
    uint32_t run;                /* the executor's handle */
    bool is_long;                /* its class, or it outlived the cutoff */
    bool stolen, killed, paused;
    int64_t run_us; /* since it started, without pauses; -1 while starting */
};
/* The slot of an executor's handle: what was taken over goes on in it, so there must be one. */
uint32_t worker_slot_of(uint32_t run);
/* Places that worker_running() knows: the slots, and those of paused tasks. */
static inline uint32_t worker_places(const struct worker *w) { return w->n_slots; }
/* The task in place i (0 .. worker_places - 1); false when none is there. */
bool worker_running(const struct worker *w, uint32_t slot, int64_t now_us, struct worker_running *r);
/* Bytes of results of tasks that their owners have not acknowledged. */
static inline uint64_t worker_unacked_bytes(const struct worker *w) { return w->unacked_bytes; }
/* Of them, those of the owner of that run's task; 0 when there is no such run. O(1). */
uint64_t worker_owner_unacked_bytes(const struct worker *w, uint32_t run);
/* Whether it has taken itself out of service; *why: the reason, borrowed until the next step. */
bool worker_out_of_service(const struct worker *w, const struct blob **why);
static inline node_id_t worker_node(const struct worker *w) { return w->node; }
static inline const struct policy *worker_policy(const struct worker *w) { return &w->config.policy; }
static inline uint64_t worker_counter(const struct worker *w, enum counter c) { return w->counters[c]; }

/* How it is driven: worker_step, worker_next_timeout, worker_check. */
extern const struct role_functions worker_functions;

#endif
