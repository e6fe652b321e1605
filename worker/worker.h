/* A worker's policy (DESIGN 3, docs/protocol.md): slots, the queue of bound tasks and reservations, late
 * binding, the life of tasks, pauses, stealing as thief and as victim, joining and heartbeats, leases,
 * stopping.
 *
 * A deterministic state machine without I/O: every message, timer and completion goes through worker_step().
 * Peers are node ids, NODE_CENTRAL for central. The same config, seed and events give the same output, byte
 * for byte. */
#ifndef HAWK_WORKER_WORKER_H
#define HAWK_WORKER_WORKER_H

#include "base/list.h"
#include "base/rng.h"
#include "msg/msg.h"
#include "stealer/thief.h"
#include "worker/table.h"

#define WORKER_QUEUE_LIMIT 1000000u /* default queue_limit */
#define WORKER_LOOT_RECORDS 64u     /* thieves that may owe an acknowledgement; more thieves get nothing */
/* When a worker that cannot start tasks leaves service (protocol 8). */
#define WORKER_FAILURES 8u                  /* failures that it remembers: the latest, one per job */
#define WORKER_BLAMED_JOBS 3u               /* after so many blamed jobs ... */
#define WORKER_BLAMED_US (60 * US_PER_S)    /* ... within this time */
#define WORKER_CHECK_MIN_US US_PER_S        /* time to its first check; twice as long to each further one, */
#define WORKER_CHECK_MAX_US (60 * US_PER_S) /* at most this */
#define WORKER_OUT_MAX_US (10 * 60 * US_PER_S) /* then it returns, whatever the checks say */
#define WORKER_EDGE_US 10000 /* shortest time between two changes of PARKED, and of STUCK (protocol 5.5) */

/* When a worker pauses long tasks (POLICY_PAUSE). */
struct worker_pausing {
    int64_t after_us; /* longest wait of a short reservation before a long task is paused for it */
    /* Longest pause; then the task goes on, even beside a short one that has its slot. */
    int64_t longest_us;
    uint32_t share_milli; /* the part of its run time or estimate that a task may be paused */
    uint32_t paused_max;  /* most paused tasks at a time; slots + paused_max <= LIMIT_SLOTS */
};

struct worker_config {
    int64_t park_min_us;  /* a parked thief's first delay */
    int64_t park_max_us;  /* and its longest one */
    uint32_t slots;       /* 1 .. LIMIT_SLOTS */
    uint32_t queue_limit; /* most reservations and short tasks, whatever their state */
    bool queue_per_slot;  /* one queue per slot, as in the paper; else one queue for all slots */
    /* It takes itself out of service if it cannot start tasks; its executor must answer EXEC_CHECK. */
    bool leaves_service;
    bool heartbeats; /* false: no heartbeats are sent and no lease runs out (a simulation without faults) */
    /* Another process may take over from this one: the executor gets EXEC_FORGET and EXEC_LEASE. */
    bool successors;
    uint8_t freezer;      /* how its executor pauses tasks, as HEARTBEAT has it (protos/cluster.proto) */
    struct policy policy; /* until central sends its own */
    /* This node's name, and the address where it listens; worker_init() takes references. */
    struct blob *name, *addr;
    struct blob *serves;  /* it runs commands of that user alone; NULL: everybody's. A reference as well */
    uint64_t incarnation; /* a random number of this process */
    int64_t ends_us;      /* all its tasks must have ended by then; TIME_NEVER: it has no end */
    int64_t orphan_us;    /* the tasks of a dist without a stream are killed after this time */
    struct worker_pausing pause; /* POLICY_PAUSE */
};

/* The value of paused_max for one paused task per slot. */
static inline uint32_t worker_paused_max(uint32_t slots)
{
    return slots <= LIMIT_SLOTS - slots ? slots : LIMIT_SLOTS - slots;
}

/* The defaults: 1 slot, one queue for all slots, WORKER_QUEUE_LIMIT, park 100 ms .. 5 s, orphans 10 s,
 * heartbeats, policy "hawk", leaves service; no name, address or end. Pauses after 100 ms, for 10 minutes, half
 * the run time; but none at a time (paused_max 0), because the shell must be able to freeze. */
void worker_config_init(struct worker_config *c);

/* One worker. All of it is private to worker/: read it through the functions below.
 *
 * A simulated worker is never in the cache. So the fields that nearly every step needs lie together: from the
 * last counters, which are those of messages, to the thief. The other fields are before and behind them. */
struct worker {
    struct list up_owners;     /* with a stream (central: joined) */
    int64_t heartbeat_sent_us; /* when the awaited heartbeat was sent */
    uint64_t counters[COUNTER_COUNT];

    uint32_t counters_changed;    /* bits by enum counter: told with the next heartbeat */
    uint32_t heartbeat_awaited;   /* number of the heartbeat that awaits its acknowledgement; 0: none */
    uint16_t n_free, n_requested; /* free slots; slots that wait for a dist */
    /* Slots in use or free: config.slots, and more while it is overcommitted; paused slots. */
    uint16_t n_active, n_paused;
    uint16_t n_lanes, n_stuck;   /* n_stuck: lanes with a stuck reservation */
    uint16_t n_slots;            /* config.slots, and one more per task that may be paused */
    uint16_t n_given;            /* slots whose task waits for a pause */
    struct list touched;         /* lanes that are looked at again at the end of this step */
    struct worker_config config; /* config.policy is the policy in force */
    int64_t now_us;              /* of the event that is handled */
    struct out *out;             /* during a step: takes messages and effects */
    int64_t heartbeat_at;        /* TIME_NEVER: none is due */
    int64_t beats_at;            /* when to look at dists that owe an answer; TIME_NEVER: none does */
    uint64_t cluster;            /* the cluster of `node`; 0: none yet */
    node_id_t node;
    bool central_stream : 1, joined : 1, general : 1, long_work : 1;
    bool lease_over : 1; /* the lease ran out, and the tasks that it covers were killed */
    bool stopping : 1, stop_now : 1, stopped : 1;
    bool drained : 1;        /* by an operator: it takes no new work */
    bool told_empty : 1;     /* central was told that nothing is left here */
    bool freed : 1;          /* a slot became free in this step */
    bool pauses_untold : 1;  /* the owner of some task may not know of its pauses */
    uint8_t central_version; /* protocol version of the link to central */
    uint8_t n_apps;
    struct members *members;
    struct lane *lanes; /* one per queue: one, or as many as slots */
    uint32_t run_generation;
    uint32_t n_central_tasks; /* central's tasks, queued or running, that the lease covers */
    int64_t lease_end_us;     /* counted from the last acknowledged sign of life; TIME_NEVER: no lease */
    struct list promotable;   /* running promotable tasks by start, which is by deadline under any cutoff */
    struct list lost_owners;  /* dists without a stream that still have tasks here, by orphan_at */
    /* States of which central hears the edges, at a limited rate. */
    struct worker_edge {
        int64_t next_at; /* earliest time of the next change */
        bool is, told;
        bool again; /* told, and central may have forgotten it */
    } parked, stuck;
    int64_t long_ask_at; /* earliest time of the next LONG_REQUEST */
    uint32_t long_got;   /* how many long tasks central has sent */
    uint16_t long_asked; /* for how many slots one was requested, as central sees it after the last message */
    int64_t pause_at;    /* when to look at lanes again; TIME_NEVER: when something changes */
    struct thief thief;

    uint64_t told_apps; /* told with `stuck` */
    uint64_t app_set;   /* bits of apps */
    uint32_t n_long;    /* slots that count as long */
    uint32_t n_loot;
    struct slot *slots; /* n_slots of them, behind the lanes in the same memory */
    /* Owners of tasks (dists and central), jobs, tasks. */
    struct table owners, jobs, tasks;
    uint64_t n_reservations;                     /* counts of reservations, queued or in loot */
    uint64_t unacked_bytes;                      /* bytes of results in unacknowledged completions */
    uint32_t n_tasks, n_queued_tasks, n_unacked; /* all tasks; queued ones; unacknowledged completions */
    uint32_t n_placed;      /* central's tasks of n_tasks: central limits them, not the queue */
    uint32_t serves;        /* user_number() of config.serves; 0: everybody's */
    uint32_t n_queued_any;  /* queued entries that may be stolen and need no application */
    uint32_t heartbeat_seq; /* the last heartbeat's */
    uint32_t loot_user;     /* whose the next items of the loot are; 0: nobody's, or there is no loot yet */

    /* Few steps need these. */
    struct rng rng;
    struct list loot; /* what thieves have not acknowledged yet */
    /* Owners without a stream in no other list: central, and dists whose orphans are being killed. */
    struct list away_owners;
    int64_t join_sent_us;
    int64_t heartbeat_us;
    int64_t lease_us;
    int64_t lease_told_us; /* the lease's end that the executor knows */
    struct worker_app {    /* the applications that it serves */
        uint64_t id;
        struct blob *name, *user; /* whose tasks it takes; NULL: everybody's */
        uint32_t user_number;     /* 0: everybody's */
        uint32_t n_queued;   /* queued entries that may be stolen; of several that take them, the first */
    } * apps;                /* n_apps of them, with room for LIMIT_WORKER_APPS; NULL: none yet */
    struct service *service; /* NULL: it is in service, and never failed to start a task */
};

/* Takes references to the config's handles. Aborts if the config is invalid (slots out of range, no name or
 * address). *w must stay where it is until worker_free(). Then the shell steps what it took over from an
 * earlier process of the same incarnation (EXEC_LEASE, EXEC_HELD, EXEC_USED), START, and PEER_UP for central once that
 * has a stream. */
void worker_init(struct worker *w, const struct worker_config *c, uint64_t seed);
/* Frees everything, in any state. */
void worker_free(struct worker *w);
/* Handles one event, and appends the output to out. Never aborts because of a peer's message. Time must not
 * go backwards. */
void worker_step(struct worker *w, const struct event *e, struct out *out);
/* When the worker needs a TIMER at the latest; TIME_NEVER: nothing is due. O(1). */
int64_t worker_next_timeout(const struct worker *w);
/* Aborts if an invariant does not hold. O(size). */
void worker_check(const struct worker *w);
/* Whether there are no reservations, tasks, requests, loot or unacknowledged completions. */
bool worker_quiet(const struct worker *w);

/* ---- For shells: status pages, metrics, executors ---- */

struct worker_counts {
    /* slots = free + requested + running; less than that if overcommitted */
    uint32_t slots, free, requested, running;
    uint32_t paused;       /* number of paused tasks */
    uint32_t given;        /* short tasks that wait for a pause */
    uint32_t running_long; /* of requested and running, those that count as long */
    uint64_t reservations; /* queued, or in loot */
    uint32_t queued_tasks; /* bound tasks in the queue */
    uint32_t unacked;      /* completions that their owners have not acknowledged */
    bool joined, general, stuck, parked, drained, stopping, stopped;
};
void worker_counts(const struct worker *w, struct worker_counts *c);
/* When the oldest entry of its queues came; TIME_NEVER: they are empty. O(lanes). */
int64_t worker_oldest_us(const struct worker *w);

/* The slot in a run's number. A run that was taken over continues in this slot, so the slot must exist. */
uint32_t worker_slot_of(uint32_t run);
/* Bytes of results that owners have not acknowledged. */
static inline uint64_t worker_unacked_bytes(const struct worker *w) { return w->unacked_bytes; }
/* Such bytes of the owner of that run's task; 0: there is no such run. O(1). */
uint64_t worker_owner_unacked_bytes(const struct worker *w, uint32_t run);
/* How many tasks it could not start for a reason of its own; *why: that of the last one, borrowed until the next step,
 * or NULL. */
uint64_t worker_starts_failed(const struct worker *w, const struct blob **why);
/* Whether it has taken itself out of service; *why: the reason, borrowed until the next step. */
bool worker_out_of_service(const struct worker *w, const struct blob **why);
static inline node_id_t worker_node(const struct worker *w) { return w->node; }
static inline const struct policy *worker_policy(const struct worker *w) { return &w->config.policy; }
static inline uint64_t worker_counter(const struct worker *w, enum counter c) { return w->counters[c]; }

/* The functions of the role: worker_step, worker_next_timeout, worker_check. */
extern const struct role_functions worker_functions;

#endif
