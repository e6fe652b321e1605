/* A virtual cluster, for `hawk sim --faults` and for tests: every role on the bus in virtual time, an executor
 * that only lets time pass, a journal in memory, and clients that remember what they were told. Every wire
 * message passes through msg_check(). Every role passes through its own check after every step. INVARIANTS
 * lists what must hold. The caller breaks streams, and kills and restarts processes.
 *
 *   cluster.c  roles, time
 *   changes.c  changes to nodes: kill, freeze, move, restart
 *   shell.c    the roles' shell: commands, journal
 *   executor.c attached executors
 *   net.c      the network: delays, partitions
 *   store.c    journals
 *   client.c   clients, which move their jobs from dist to dist
 *   after.c    jobs with predecessors, jobs that are held
 *   policy.c   an operator
 *   check.c    the invariants
 *   draw.c     random sizes and settings
 *   faults.c   one random run from one seed: jobs, faults
 *   single.c   one fault at a time
 *   seeds.c    many seeds, in processes of their own */
#ifndef HAWK_FAULTS_CLUSTER_H
#define HAWK_FAULTS_CLUSTER_H

#include "base/rng.h"
#include "base/units.h"
#include "bus/bus.h"
#include "central/central.h"
#include "dist/dist.h"
#include "exec/apps.h"
#include "worker/worker.h"

#include <stdnoreturn.h>

/* X(constant, name, what holds). docs/reliability.md has the names. */
#define INVARIANTS(X)                                                                                        \
    X(OWN_CHECKS, "own checks", "central_check, dist_check, worker_check: they abort by themselves")         \
    X(MESSAGES, "messages", "a decoder accepts every message, and so does the receiver's shell")             \
    X(EFFECTS, "effects", "effects are possible: a run has a slot, an answer has somebody who asked")        \
    X(BOOKS, "books", "waiting + running + done + failed + cancelled + lost = all tasks of a job")           \
    X(ONE_END, "one end", "a task ends once for its client, having run to its end somewhere")                \
    X(ONE_COPY, "one copy", "a task that central placed runs nowhere twice at a time")                       \
    X(AT_MOST_ONCE, "at most once", "a task of an at-most-once job is started once, if at all")              \
    X(ASKED, "asked for", "a task is cancelled only if its client asked, or its dist is long gone")          \
    X(RESERVED, "reserved", "no long task reaches a worker after the message that reserves it")              \
    X(WAITING_TIMES, "waiting times", "central's estimates are never negative")                              \
    X(RESERVATIONS, "reservations", "without faults a dist knows where each of its reservations is")         \
    X(WAITS, "waits", "one fault alone makes no short task wait for more than 3.5 s")                        \
    X(STUCK, "stuck", "without faults no thief is left alone beside a stuck reservation")                    \
    X(POLICY, "policy", "the policy in an operator's answer survives central, and reaches every node")       \
    X(NOTHING_FORGOTTEN, "nothing forgotten", "every job that was accepted durably ends, whatever crashed")  \
    X(ENDS, "it ends", "after healing every job ends in bounded time")                                       \
    X(QUIET, "quiet", "and then every table is empty, and no journal has a job that its role has not")       \
    X(ORPHANS, "orphans", "tasks that nobody waits for end one lease later")                                 \
    X(STARTS, "starts", "a start that failed at a worker costs no retry, and loses no task")                 \
    X(SERVICE, "service",                                                                                    \
      "at most a quarter of the workers, or one, are out of service; those that are well return")            \
    X(NUMBERS, "numbers", "no two jobs get the same number, whatever happens to the journals")               \
    X(PAUSES, "pauses",                                                                                      \
      "no task is frozen without a reason, or stands still for longer than the longest pause")               \
    X(AFTER, "after", "a task starts only when the job's predecessors have ended as it asks")                \
    X(WANTED, "wanted", "a dist launches nothing of what it has confirmed to be held or cancelled")          \
    X(EPOCHS, "epochs", "no node joins a central that is older than one which it joined before")

enum invariant {
#define X(name, text, help) INVARIANT_##name,
    INVARIANTS(X)
#undef X
        INVARIANT_COUNT
};
extern const char *const invariant_names[INVARIANT_COUNT];
#define CLUSTER_PAUSE_AFTER_US (20 * US_PER_MS)
#define CLUSTER_FREEZE_US (2 * US_PER_MS) /* to freeze a command takes less */
#define CLUSTER_FAILURE_TEXT 512          /* longest text of a violation, in bytes */

struct cluster_config {
    const char *policy; /* NULL: "hawk" */
    uint32_t dists;     /* 0: 1 */
    uint32_t workers;
    uint32_t slots;     /* of each worker; 0: 1 */
    uint32_t share_ppm; /* share of the short partition */
    int64_t cutoff_us;  /* 0: 10 s; fixed */
    int64_t delay_us;   /* of every message */
    int64_t jitter_us;  /* and a random time up to this */
    int64_t lease_us;   /* 0: central's default */
    int64_t journal_us; /* duration of a journal's commit */
    /* Limits of tables; 0: the roles' defaults. */
    uint32_t jobs_max, tasks_max;           /* unfinished, of a dist */
    uint32_t long_jobs_max, long_tasks_max; /* of central */
    uint32_t queue_limit;                   /* of a worker */
    uint32_t finished_kept; /* jobs that dist and central keep after their end, + 1; 0: the default */
    uint32_t nodes_max;
    uint64_t seed;
    bool queue_per_slot;
    bool ending_workers;                              /* every third worker has an end */
    bool own_workers;                                 /* every third worker runs jobs of user "u0" alone */
    int64_t pause_longest_us;                         /* 0: the policy does not pause tasks */
    uint32_t steal_streams;                           /* as in struct bus_config */
    uint32_t flags_on, flags_off;                     /* flags to switch on and off: POLICY_… */
    uint32_t probe_ratio_milli, steal_cap, steal_max; /* 0: the policy's */
    uint32_t short_first;
    uint32_t long_stretch; /* 0: the default */
    bool cutoff_computed;  /* from history, once central knows three jobs */
    bool share_computed;   /* also from history */
    /* Without faults no reservation is stuck for longer than this while a thief is parked (DESIGN 3.4); 0:
     * not checked. */
    int64_t stuck_us_max;
    bool after;         /* half of the jobs have predecessors, and some are held for a while */
    bool cancel_tasks;  /* clients cancel single tasks */
    bool jobs_move;     /* clients move their jobs when their dist dies, or seems dead */
    bool nothing_fails; /* without faults a dist knows where each of its reservations is */
    /* The only fault is `startless`: then no task may be lost, however few retries it has. */
    bool only_startless;
    /* Reports a violated invariant; does not return. NULL: to standard error, then abort. */
    void (*failed)(void *arg, enum invariant invariant, const char *text);
    void *failed_arg;
    bool log; /* log every message to standard error; HAWK_TEST_TRACE=1 does the same */
};

struct cluster_task {
    int64_t duration_us;
    int32_t code;            /* its exit status */
    uint32_t starts;         /* how often it started, anywhere */
    uint32_t ends;           /* how often it ran to its end */
    uint32_t unstarted;      /* how often a worker could not start it */
    uint32_t finals;         /* its final events that the client got */
    uint8_t state;           /* enum task_state, as of its last event */
    uint8_t cancel_ask;      /* the last time that the client asked to cancel it, as a task; 0: it has not */
    uint16_t cancelled_life; /* the life of the dist that confirmed that; 0: none did */
    struct try_id launched;  /* the try that a dist launched last */
};

/* One job as its client sees it. */
struct cluster_job {
    uint32_t dist; /* index */
    struct job_desc *desc;
    struct cluster_task *tasks;
    job_id_t id; /* valid once submitted */
    /* submitted: the client has the answer; watched: the dist sends the client events. */
    bool submitted, watched;
    bool cancelled;          /* it may be cancelled: the client asked for it, tasks failed too often, … */
    bool wants_cancel;       /* the client asked for it */
    bool abandoned;          /* its dist died: nobody answers for it any more */
    bool returned;           /* a worker that could pause nothing gave a task of it back */
    uint16_t cancelled_life; /* the life of the dist that confirmed the cancellation; 0: none did */
    uint8_t cancel_asks;     /* how often the client asked to cancel tasks of it */
    int err;                 /* of SUBMITTED */
    /* The client has left `dist`, which may have died, and asks another dist to take the job. */
    bool away;
    bool home_forgot;           /* `dist` has forgotten the job: the client may ask it like any other dist */
    bool claimed;               /* `dist` has told central that it owns the job */
    uint32_t leaving;           /* messages on their way to `dist` that the client stops watching */
    uint32_t asked;             /* the dist that the client asked last */
    uint16_t epoch, long_epoch; /* as in struct movable_job */
    bool held;
    int64_t watched_us;      /* when the client began to watch */
    int64_t left_us, ask_us; /* when the client left, and when it asks the next dist */
    uint8_t class, why;
    uint8_t state; /* enum job_state, as of the last JOB_EVENT */
    int64_t submit_us, end_us;
    bool wants_hold, was_held; /* what its client last asked for; it asked to hold it once */
    uint32_t holds_unanswered; /* since its dist began; more than none: it may not know of the last one */
    uint32_t holds_at_central; /* unanswered there, at most */
    bool last_at_central;      /* its client asked central last */
    uint16_t held_life;        /* the life of the dist that confirmed that it is held; 0: none did */
    bool released;             /* its dist or central confirmed its client's last wish, a release */
    bool nowhere;              /* no worker can start its tasks: its directory is on no machine */
};

#define CLUSTER_ANSWER_US US_PER_S /* how long a client waits for a dist's answer */
#define CLUSTER_CLIENT_GRACE_US (10 * US_PER_S)
/* The job of a client that is away for longer may be cancelled. */
#define CLUSTER_AWAY_US (CLUSTER_CLIENT_GRACE_US - US_PER_S)
/* Longest time between two messages of a dist to central: heartbeats come every second. */
#define CLUSTER_GAP_US (3 * US_PER_S / 2)
#define CLUSTER_GRACE_US (5 * US_PER_S) /* how long a worker's runs survive without an agent */

/* A run as the spawner knows it. */
struct cluster_run {
    struct msg_exec_held held; /* told to an agent that takes the run over; without a result */
    int64_t start_us, due_us;  /* start_us does not count the time that the run was paused */
    int64_t paused_us; /* paused since then, and due_us is the time that is left; TIME_NEVER: it runs */
    uint32_t job;      /* index */
    bool doubled;      /* a copy was started elsewhere while this one's machine stood still */

    /* Of an executor's task. */
    uint64_t app_id;   /* its id at its executor; 0: none has it, and due_us is TIME_NEVER */
    int64_t asked_us;  /* it is to stand still since then; TIME_NEVER: it is not, or it does */
    int64_t answer_us; /* when its executor says so; TIME_NEVER: never */
    uint8_t answer;    /* enum cluster_answer */
    bool cancelled;    /* it is to end, and does at due_us */
};

/* How an executor answers when a task is to stand still; greater numbers: promptly. */
enum cluster_answer { ANSWER_LATE, ANSWER_NONE, ANSWER_REFUSES, ANSWER_AND_VANISHES };

/* A task that ended before its executor answered: the answer comes at due_us. */
struct cluster_unanswered {
    uint64_t id;
    int64_t due_us;
};

/* A journal: entries in order, of which the first `durable` survive a crash. */
struct cluster_store {
    uint32_t ep;
    struct msg *v;
    uint32_t n, cap, durable;
    uint32_t replayed;   /* entries that were there when its process started */
    uint32_t committing; /* entries before this one are durable when the commit under way ends */
    int64_t commit_us;   /* when the commit under way ends; TIME_NEVER: none is */
    bool asked;          /* a role wrote something after the commit began */
    bool retrying;       /* the commit under way only repeats one that failed */
    int64_t slow_us, slow_until_us, full_until_us;
    uint32_t queue_max; /* while it cannot be written, it takes so many entries; 0: all */
};

/* Delays messages from one endpoint (0: any) to another (0: any): by extra_us, or (extra_us 0) until
 * until_us. */
struct cluster_rule {
    uint32_t from, to;
    int64_t until_us, extra_us;
};

/* y has heard nothing from x until at_us, and breaks the stream then. */
struct cluster_break {
    uint32_t x, y;
    int64_t at_us;
};

struct cluster_net {
    struct rng rng; /* draws delays, and when silence is noticed */
    bool used;
    int64_t *arrives; /* side × side: last arrival from, to */
    uint32_t side;
    struct cluster_rule *rules; /* expired rules are reused */
    uint32_t rules_n, rules_cap;
    struct cluster_break *breaks;
    uint32_t breaks_n, breaks_cap;
};

/* The last central that a process joined. */
struct cluster_joined {
    uint64_t cluster;
    uint32_t epoch;
};

struct cluster_worker {
    struct worker w;
    char addr[24]; /* the address of its next process */
    struct cluster_joined joined;
    uint32_t ep, slots;
    const char *serves; /* whose jobs alone it runs; NULL: everybody's */
    int64_t taken_us;   /* when its machine is taken away, as its agent knows; TIME_NEVER */
    bool alive, stopping;
    bool attached; /* an executor is attached; it attaches again when the worker is back */
    struct cluster *cluster;
    struct apps *apps;         /* NULL: it is dead */
    struct executor *executor; /* NULL: none is attached */
    int64_t vanish_us;         /* when the executor vanishes, and attaches again; TIME_NEVER */
    struct cluster_unanswered *unanswered;
    uint32_t unanswered_n, unanswered_cap;
    struct cluster_run *runs;
    uint32_t runs_n, runs_cap;
    struct cluster_run *ends; /* ends that no agent has acknowledged */
    uint32_t ends_n, ends_cap;
    uint64_t incarnation; /* of its agents; 0: the next agent draws a new one */
    int64_t lease_us;     /* when all of central's runs end; TIME_NEVER: no agent told a lease */
    /* When the runs of its dead agent end; TIME_NEVER: there is an agent, or nothing to end. */
    int64_t orphan_us;
    int64_t start_us;     /* when it starts again; TIME_NEVER: not planned */
    int64_t frozen_us;    /* its machine stands still until then */
    int64_t asleep_us;    /* its process stood still until then, or does */
    int64_t startless_us; /* until then it can start no task */
    int64_t well_us; /* since when it could start tasks, but stayed out of service; TIME_NEVER: neither */
    /* Since when it is parked; since when it is stuck, or gave loot last; TIME_NEVER: it is not. */
    int64_t parked_us, stuck_us;
};

struct cluster_dist {
    struct dist d;
    struct cluster_joined joined;
    uint32_t ep;
    bool alive;
    uint16_t life;
    uint64_t told;    /* highest job number that central was told of, in any life */
    node_id_t node;   /* its last node id */
    uint64_t cluster; /* the cluster of that id */
    int64_t start_us; /* when it starts again; TIME_NEVER: not planned */
    /* When central heard it last; when central last heard it after a gap of more than CLUSTER_GAP_US. */
    int64_t heard_us, gap_us;
    struct cluster_store store;
};

struct cluster {
    struct cluster_config config;
    struct bus *bus;
    struct rng rng;
    struct rng executors; /* draws what executors do */
    struct rng afters;    /* draws predecessors and holds */
    struct rng cancels;   /* draws tasks to cancel */
    struct central *central;
    uint32_t central_ep;
    uint32_t central_epoch;
    /* A replaced central runs until then, when the right one starts; TIME_NEVER: the right one runs. */
    int64_t central_us;
    uint32_t addrs_n;     /* addresses of workers given out so far */
    bool recovered;       /* central has read its journal */
    uint32_t startless_n; /* how often a worker became unable to start tasks */
    bool emptied;         /* central has lost its state once */
    bool released;        /* cluster_release_all() was called */
    struct cluster_dist **dists;
    uint32_t dists_n, dists_cap;
    struct cluster_worker **workers;
    uint32_t workers_n, workers_cap;
    struct cluster_job **jobs;
    uint32_t jobs_n, jobs_cap;
    struct cluster_store store; /* central's */
    struct cluster_net net;
    struct cluster_operator {
        struct cluster_policy {
            uint32_t client; /* the request that changed the policy; 0: none */
            struct policy policy;
        } * v; /* all policies that central had, in order */
        uint32_t n, cap;
        uint32_t told;    /* the last one that central has answered for */
        uint32_t clients; /* number of requests so far */
        uint32_t asks;    /* the request that central handles in this step; 0: none */
    } operator;
    struct msg_long_accepted *accepted; /* every LONG_ACCEPTED of central */
    uint32_t accepted_n, accepted_cap;
    uint64_t steps;
    uint64_t hash; /* of all deliveries, in order */
    bool trace;
};

struct cluster *cluster_new(const struct cluster_config *c);
void cluster_free(struct cluster *c);
/* Runs until every dist has a stream to every live worker and every worker knows its partition. */
void cluster_come_up(struct cluster *c);

void cluster_run(struct cluster *c, int64_t for_us);
/* Runs at most n steps, of those due by limit_us. */
void cluster_steps(struct cluster *c, uint32_t n, int64_t limit_us);
/* Runs until done(c, arg). After limit_us the invariant is violated: "not yet `what`". */
void cluster_run_until(struct cluster *c, bool (*done)(struct cluster *c, void *arg), void *arg,
                       int64_t limit_us, enum invariant invariant, const char *what);
noreturn void cluster_fail(struct cluster *c, enum invariant invariant, const char *fmt, ...)
    HAWK_PRINTF(3, 4);
/* Runs until every submitted job has ended. */
void cluster_run_jobs(struct cluster *c, int64_t limit_us);
/* Call it after the last job. Runs until every role is quiet. Then each task must have ended once for its
 * client, and each task that is done must have run to its end somewhere. */
void cluster_expect_all_quiet(struct cluster *c);

/* Makes a job of `tasks` equal tasks, for the caller to change and submit. */
struct cluster_job *cluster_job(struct cluster *c, uint32_t tasks, int64_t duration_us, enum class_tag tag);
void cluster_name_job(struct cluster_job *j, const char *name);
void cluster_submit(struct cluster *c, struct cluster_job *j, uint32_t dist);
void cluster_cancel(struct cluster *c, struct cluster_job *j);
bool cluster_ended(const struct cluster_job *j);
/* Perhaps holds or releases a job, or cancels some of its tasks. cluster_release_all() releases all jobs; again: also
 * those whose release was confirmed, for journals that were lost. Without it these end by themselves. */
void cluster_ask_some(struct cluster *c);
void cluster_release_all(struct cluster *c, bool again);

uint32_t cluster_add_worker(struct cluster *c, uint32_t slots);
/* Kills a worker with its tasks. */
void cluster_kill_worker(struct cluster *c, uint32_t worker);
/* Starts a new process of the same name, without anything of the old one. */
void cluster_restart_worker(struct cluster *c, uint32_t worker);
/* Kills a worker's process. Its spawner lives on for CLUSTER_GRACE_US. */
void cluster_crash_agent(struct cluster *c, uint32_t worker);
/* Starts a new process that takes over what is left. The worker must not be alive. */
void cluster_return_agent(struct cluster *c, uint32_t worker);
void cluster_stop_worker(struct cluster *c, uint32_t worker, bool now);
/* Kills a dist. Jobs that clients wait for are lost with it, unless their clients move them. */
void cluster_kill_dist(struct cluster *c, uint32_t dist);
/* Kills the clients that wait for jobs at that dist. */
void cluster_abandon_clients(struct cluster *c, uint32_t dist);
bool cluster_may_move(const struct cluster *c, const struct cluster_job *j);
/* Makes a job's client believe that its dist is dead; it moves the job. */
void cluster_leave_dist(struct cluster *c, struct cluster_job *j);
/* Makes all tasks that central has of jobs without a client run for hours from now on, also running ones. */
#define CLUSTER_ENDLESS_US (10 * 3600 * US_PER_S)
void cluster_prolong_orphans(struct cluster *c);
/* Runs until no such task runs any more. */
void cluster_expect_no_orphans(struct cluster *c, int64_t limit_us);
/* Starts a new process of the same name. */
void cluster_restart_dist(struct cluster *c, uint32_t dist);
/* Kills a dist and replaces its journal by a copy from before it had any of its present jobs; lost: by an
 * empty one, so that the dist does not even know its id. */
void cluster_put_back_journal(struct cluster *c, uint32_t dist, bool lost);
void cluster_kill_central(struct cluster *c);
/* Restarts central from its journal. */
void cluster_restart_central(struct cluster *c);
/* Restarts central without its journal. */
void cluster_empty_central(struct cluster *c);
/* Until until_us a replaced central runs: it read its journal before the right one wrote to it, and cannot
 * write. */
void cluster_older_central(struct cluster *c, int64_t until_us);
/* Makes a worker's next process listen at another address. With `other`, it takes that worker's present
 * address, and the next process of `other` gets a new one. */
void cluster_move_worker(struct cluster *c, uint32_t worker, uint32_t other);
/* Attaches an executor of CLUSTER_APP to that worker, or removes it with all its runs. */
#define CLUSTER_APP "app"
void cluster_attach(struct cluster *c, uint32_t worker, bool on);
/* Makes the job one for such executors. */
void cluster_app_job(struct cluster_job *j);
/* An operator chooses parts of the policy; NULL: the configured policy. Central must run. */
void cluster_set_policy(struct cluster *c, struct policy_choice *choice);
void cluster_set_share(struct cluster *c, uint32_t share_ppm);
/* Drains or undrains a node by its id; an unknown id does nothing. Central must run. */
void cluster_drain(struct cluster *c, uint32_t node, enum drain drain);

/* ---- The network, from now on. Endpoints are those of the bus. ---- */

/* Messages from one endpoint to the other (0: to all) arrive at until_us at the earliest, in order. */
void cluster_stall(struct cluster *c, uint32_t from, uint32_t to, int64_t until_us);
/* All messages from and to ep take extra_us longer. */
void cluster_slow(struct cluster *c, uint32_t ep, int64_t extra_us, int64_t until_us);
/* No message gets from x to y; unless one_way, none from y to x either. A side that hears nothing for some
 * seconds gives the stream up. */
void cluster_partition(struct cluster *c, uint32_t x, uint32_t y, bool one_way, int64_t until_us);
/* Their stream is dead; each side notices it by the other's silence. */
void cluster_break_unseen(struct cluster *c, uint32_t x, uint32_t y);

/* Stops a process until until_us; `machine`: its worker's spawner and tasks, too. */
void cluster_freeze(struct cluster *c, uint32_t ep, bool machine, int64_t until_us);

#endif
