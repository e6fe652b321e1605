/* A virtual cluster, for `hawk sim --faults` and for tests: every role on the bus in virtual time, an executor that only
 * lets time pass, a journal in memory, and clients who remember what they were told. Every wire message is put through
 * msg_check, every role through its own check after every step; INVARIANTS is what must hold. Streams break, processes
 * die and come back when whoever drives it says so.
 *
 *   cluster.c  roles, time, and what can be done to them
 *   shell.c    what they ask of their shell: executor, journal
 *   client.c   clients, who move their jobs from dist to dist
 *   check.c    the invariants
 *   faults.c         one random run from one seed: sizes, jobs, faults */
#ifndef HAWK_FAULTS_CLUSTER_H
#define HAWK_FAULTS_CLUSTER_H

#include "base/rng.h"
#include "base/units.h"
#include "bus/bus.h"
#include "central/central.h"
#include "dist/dist.h"
#include "worker/worker.h"

#include <stdnoreturn.h>

/* X(constant, name, what holds). The names are in docs/reliability.md. */
#define INVARIANTS(X)                                                                                        \
    X(OWN_CHECKS, "own checks", "central_check, dist_check, worker_check: they abort by themselves")         \
    X(MESSAGES, "messages", "what one role sends a decoder would let through, and the other's shell")        \
    X(EFFECTS, "effects", "roles ask for what is possible: a slot for a run, an answer to who asked")        \
    X(BOOKS, "books", "waiting + running + done + failed + cancelled + lost = all tasks of a job")           \
    X(ONE_END, "one end", "a task ends once for its client, having run to its end somewhere")                \
    X(ONE_COPY, "one copy", "a task that central placed runs nowhere twice at a time")                       \
    X(AT_MOST_ONCE, "at most once", "a task of a job that says so is started once, if at all")               \
    X(ASKED, "asked for", "no task is cancelled but at its client's word, or when its dist is long gone")    \
    X(RESERVED, "reserved", "no long task reaches a worker behind the word that it is reserved")             \
    X(WAITING_TIMES, "waiting times", "central's estimates are never negative")                              \
    X(RESERVATIONS, "reservations", "without faults a dist knows where each of its reservations is")         \
    X(WAITS, "waits", "one fault alone makes no short task wait for more than 3.5 s")                        \
    X(STUCK, "stuck", "without faults no thief is left alone beside a stuck reservation")                    \
    X(POLICY, "policy", "what an operator was told is the policy outlives central, and reaches every node")  \
    X(NOTHING_FORGOTTEN, "nothing forgotten", "what was accepted durably comes to an end, whatever crashed") \
    X(ENDS, "it ends", "once it healed every job ends in bounded time")                                      \
    X(QUIET, "quiet", "and every table is empty")                                                            \
    X(ORPHANS, "orphans", "what nobody waits for any more ends a lease later")                               \
    X(STARTS, "starts", "what a worker could not start spends no retry, and loses no task")                  \
    X(SERVICE, "service", "a quarter of the workers, or one, leave service at once; who is well is back")    \
    X(NUMBERS, "numbers", "no two jobs are given the same number, whatever became of the journals")          \
    X(PAUSES, "pauses", "no task stands still for longer than the longest pause, or for nobody")             \
    X(EPOCHS, "epochs", "no node joins a central that is older than one which it joined before")

enum invariant {
#define X(name, text, help) INVARIANT_##name,
    INVARIANTS(X)
#undef X
        INVARIANT_COUNT
};
extern const char *const invariant_names[INVARIANT_COUNT];
#define CLUSTER_PAUSE_AFTER_US (20 * US_PER_MS)
#define CLUSTER_FAILURE_TEXT 512 /* bytes of a violation's text at most */

struct cluster_config {
    const char *policy; /* NULL: "hawk" */
    uint32_t dists;     /* 0: 1 */
    uint32_t workers;
    uint32_t slots;     /* of each worker; 0: 1 */
    uint32_t share_ppm; /* short partition; fixed */
    int64_t cutoff_us;  /* 0: 10 s; fixed */
    int64_t delay_us;   /* of every message */
    int64_t jitter_us;  /* and up to so much more */
    int64_t lease_us;   /* 0: central's default */
    int64_t journal_us; /* a commit of a journal takes so long */
    /* Limits of tables; 0: the roles' defaults. */
    uint32_t jobs_max, tasks_max;           /* unfinished, of a dist */
    uint32_t long_jobs_max, long_tasks_max; /* of central */
    uint32_t queue_limit;                   /* of a worker */
    uint32_t finished_kept;                 /* jobs, of dist and central, + 1; 0: the default */
    uint32_t nodes_max;
    uint64_t seed;
    bool queue_per_slot;
    int64_t pause_longest_us;                         /* 0: the policy pauses nothing */
    uint32_t steal_streams;                           /* as in struct bus_config */
    uint32_t flags_on, flags_off;                     /* of the policy's: POLICY_… */
    uint32_t probe_ratio_milli, steal_cap, steal_max; /* 0: the policy's */
    uint32_t short_first;
    bool cutoff_computed; /* from history, once three jobs are known */
    /* DESIGN 3.4: where nothing fails, no reservation is stuck for longer while one thief is parked; 0: not checked. */
    int64_t stuck_us_max;
    bool jobs_move;      /* clients move their jobs when their dist dies, or seems to */
    bool nothing_fails;  /* then a dist knows where each of its reservations is */
    bool only_startless; /* nothing but kind startless: then no task may be lost, whatever retries it has */
    /* An invariant is violated: says so, and does not return. NULL: to standard error, and abort. */
    void (*failed)(void *arg, enum invariant invariant, const char *text);
    void *failed_arg;
    bool log; /* every message to standard error; HAWK_TEST_TRACE=1 does the same */
};

/* One job as its client sees it. */
struct cluster_job {
    uint32_t dist; /* index */
    struct job_desc *desc;
    int64_t *duration_us;    /* of each task */
    int32_t *code;           /* each task's exit status */
    job_id_t id;             /* once submitted */
    bool submitted, watched; /* its client has the answer; and its dist knows that it wants events */
    bool cancelled;          /* it may be: the client asked for it, or tasks failed too often, … */
    bool wants_cancel;       /* the client asked for it */
    bool abandoned;          /* its dist died: nobody answers for it any more */
    uint16_t cancelled_life; /* of its dist, in which that confirmed the cancellation; 0: none did */
    int err;                 /* of SUBMITTED */
    /* Its client has left `dist`, which may have died, and asks another to take the job. */
    bool away;
    bool home_forgot;           /* `dist` does not know the job any more, and may be asked as well */
    bool claimed;               /* `dist` has told central that the job is its own */
    uint32_t leaving;           /* words to `dist` that nobody watches any more, on their way */
    uint32_t asked;             /* the dist that was asked last */
    uint16_t epoch, long_epoch; /* as in struct movable_job */
    int64_t watched_us;         /* since when it watches */
    int64_t left_us, ask_us;    /* since when it is away, and when it asks the next one */
    uint8_t class, why;
    uint8_t state; /* enum job_state, as of the last JOB_EVENT */
    int64_t submit_us, end_us;
    uint32_t *starts; /* how often each task was started, and ran to its end, anywhere */
    uint32_t *ends;
    uint32_t *unstarted; /* how often a worker could not start it */
    bool nowhere;        /* nor can any: its directory is on no machine */
    uint32_t *finals;    /* final events the client got of each task */
    uint8_t *task_state; /* enum task_state */
};

#define CLUSTER_ANSWER_US US_PER_S /* how long a client waits for a dist to take its job */
#define CLUSTER_CLIENT_GRACE_US (10 * US_PER_S)
/* A job whose client is away for longer may be cancelled. */
#define CLUSTER_AWAY_US (CLUSTER_CLIENT_GRACE_US - US_PER_S)
#define CLUSTER_GAP_US (3 * US_PER_S / 2) /* between two words of a dist to central: a heartbeat a second */
#define CLUSTER_GRACE_US (5 * US_PER_S)   /* how long a worker's runs wait for its next agent */

/* As the spawner knows it. */
struct cluster_run {
    struct msg_exec_held held; /* an agent that takes it over is told this; no result */
    int64_t start_us, due_us;  /* start: later by the time that it stood still */
    int64_t paused_us; /* it stands still since then, and due_us is what is left of it; TIME_NEVER: it runs */
    uint32_t job;      /* index */
    bool doubled;      /* a copy of it was started elsewhere while this one stood still */
};

/* A journal: entries in order, of which the first `durable` survive a crash. */
struct cluster_store {
    uint32_t ep;
    struct msg *v;
    uint32_t n, cap, durable;
    uint32_t replayed;   /* entries before this one were there when its process started */
    uint32_t committing; /* entries before this one are in the commit under way */
    int64_t commit_us;   /* when that ends; TIME_NEVER: none is under way */
    bool asked;          /* something was written since the commit began */
    bool retrying;       /* the commit under way only tries again what failed */
    int64_t slow_us, slow_until_us, full_until_us;
};

/* What is sent from one endpoint (0: any) to another (0: any) takes longer, or (extra 0) arrives at until_us. */
struct cluster_rule {
    uint32_t from, to;
    int64_t until_us, extra_us;
};

/* y has heard nothing of x by then, and breaks the stream. */
struct cluster_break {
    uint32_t x, y;
    int64_t at_us;
};

struct cluster_net {
    struct rng rng; /* of delays and of when silence is noticed */
    bool used;
    int64_t *arrives; /* side x side: from, to */
    uint32_t side;
    struct cluster_rule *rules; /* those that are over are reused */
    uint32_t rules_n, rules_cap;
    struct cluster_break *breaks;
    uint32_t breaks_n, breaks_cap;
};

/* The last central that a process has joined. */
struct cluster_joined {
    uint64_t cluster;
    uint32_t epoch;
};

struct cluster_worker {
    struct worker w;
    char addr[24]; /* where its next process listens */
    struct cluster_joined joined;
    uint32_t ep, slots;
    bool alive, stopping;
    bool attached; /* an executor, which is there again as soon as the worker is */
    struct cluster_run *runs;
    uint32_t runs_n, runs_cap;
    struct cluster_run *ends; /* that no agent has forgotten */
    uint32_t ends_n, ends_cap;
    uint64_t incarnation; /* of its agents, one after the other; 0: the next one draws it */
    int64_t lease_us;     /* no run of central's outlives it; TIME_NEVER: none told */
    int64_t orphan_us; /* when what its last agent left is ended; TIME_NEVER: it is there, or left nothing */
    int64_t start_us;  /* it starts again then; TIME_NEVER */
    int64_t frozen_us; /* its machine stands still until then */
    int64_t startless_us; /* it can start nothing until then */
    int64_t well_us;      /* since when it could, and is out of service all the same; TIME_NEVER: it is not */
    int64_t parked_us, stuck_us; /* since when, and since it gave loot; TIME_NEVER: it is not */
};

struct cluster_dist {
    struct dist d;
    struct cluster_joined joined;
    uint32_t ep;
    bool alive;
    uint16_t life;
    uint64_t told;            /* of its job numbers, to central, in any life */
    node_id_t node;           /* as it was called last */
    uint64_t cluster;         /* where */
    int64_t start_us;         /* as a worker's */
    int64_t heard_us, gap_us; /* when central heard it last, and last after more than CLUSTER_GAP_US */
    struct cluster_store store;
};

struct cluster {
    struct cluster_config config;
    struct bus *bus;
    struct rng rng;
    struct central *central;
    uint32_t central_ep;
    uint32_t central_epoch;
    int64_t
        central_us; /* when the right one starts: one runs that was replaced; TIME_NEVER: it is the right one */
    uint32_t addrs_n;     /* addresses of workers, so far */
    bool recovered;       /* it has read its journal */
    uint32_t startless_n; /* how often a worker became unable to start anything */
    bool emptied;         /* it has lost it once */
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
            uint32_t client; /* whose request made it this */
            struct policy policy;
        } * v; /* one after the other, as central had them */
        uint32_t n, cap;
        uint32_t told;    /* the last one that central has answered for */
        uint32_t clients; /* requests so far */
        uint32_t asks;    /* the client whose request central gets in this step; 0: none */
    } operator;
    struct msg_long_accepted *accepted; /* as central said */
    uint32_t accepted_n, accepted_cap;
    uint64_t steps;
    uint64_t hash; /* of every delivery, in order */
    bool trace;
};

struct cluster *cluster_new(const struct cluster_config *c);
void cluster_free(struct cluster *c);
/* Until every dist has a stream to every live worker and every worker knows its partition. */
void cluster_come_up(struct cluster *c);

void cluster_run(struct cluster *c, int64_t for_us);
/* At most n steps, of those due by limit_us. */
void cluster_steps(struct cluster *c, uint32_t n, int64_t limit_us);
/* Until done(c, arg); after limit_us the invariant is violated: "not yet `what`". */
void cluster_run_until(struct cluster *c, bool (*done)(struct cluster *c, void *arg), void *arg,
                       int64_t limit_us, enum invariant invariant, const char *what);
noreturn void cluster_fail(struct cluster *c, enum invariant invariant, const char *fmt, ...)
    HAWK_PRINTF(3, 4);
/* Until every job submitted has ended. */
void cluster_run_jobs(struct cluster *c, int64_t limit_us);
/* After the last job: every role gets quiet, and every job's books balance: each task has ended once for its client, and
 * a task that is done has run to its end somewhere. */
void cluster_expect_all_quiet(struct cluster *c);

/* A job of `tasks` equal tasks; change it, then submit. Returns its index. */
struct cluster_job *cluster_job(struct cluster *c, uint32_t tasks, int64_t duration_us, enum class_tag tag);
void cluster_name_job(struct cluster_job *j, const char *name);
void cluster_submit(struct cluster *c, struct cluster_job *j, uint32_t dist);
void cluster_cancel(struct cluster *c, struct cluster_job *j);
void cluster_view(struct cluster *c, const struct cluster_job *j, struct job_view *v);
bool cluster_ended(const struct cluster_job *j);
/* Sums one counter over every dist and worker. */
uint64_t cluster_counter(const struct cluster *c, enum counter counter);

uint32_t cluster_add_worker(struct cluster *c, uint32_t slots);
/* Its tasks die with it. */
void cluster_kill_worker(struct cluster *c, uint32_t worker);
/* The same name, a new process, and nothing of the old one left. */
void cluster_restart_worker(struct cluster *c, uint32_t worker);
/* Its process dies and its spawner goes on, for CLUSTER_GRACE_US. */
void cluster_crash_agent(struct cluster *c, uint32_t worker);
/* A new process takes over what is left. The worker is not alive. */
void cluster_return_agent(struct cluster *c, uint32_t worker);
void cluster_stop_worker(struct cluster *c, uint32_t worker, bool now);
/* What clients waited for there is lost with it, unless they move it. */
void cluster_kill_dist(struct cluster *c, uint32_t dist);
/* Those who wait for jobs at that dist die. */
void cluster_abandon_clients(struct cluster *c, uint32_t dist);
bool cluster_may_move(const struct cluster *c, const struct cluster_job *j);
/* Its client believes that its dist is dead, and moves the job. */
void cluster_leave_dist(struct cluster *c, struct cluster_job *j);
/* The tasks that central has of jobs whose clients are gone run for hours from now on, those that run already as well. */
#define CLUSTER_ENDLESS_US (10 * 3600 * US_PER_S)
void cluster_prolong_orphans(struct cluster *c);
/* Until none of those runs any more. */
void cluster_expect_no_orphans(struct cluster *c, int64_t limit_us);
/* The same name, a new process. */
void cluster_restart_dist(struct cluster *c, uint32_t dist);
/* It is killed, and its journal replaced by a copy from before it had any of its jobs; lost: not even who it is. */
void cluster_put_back_journal(struct cluster *c, uint32_t dist, bool lost);
void cluster_kill_central(struct cluster *c);
/* From its journal. */
void cluster_restart_central(struct cluster *c);
/* Without it. */
void cluster_empty_central(struct cluster *c);
/* Until then one runs that was replaced before it had read what the right one has written, and can write nothing. */
void cluster_older_central(struct cluster *c, int64_t until_us);
/* A worker's next process listens at another address; with `other`, at the one that that worker has now, which goes elsewhere
 * with its own next process. */
void cluster_move_worker(struct cluster *c, uint32_t worker, uint32_t other);
/* An executor of CLUSTER_APP attaches to that worker, or goes with all it runs. */
#define CLUSTER_APP "app"
void cluster_attach(struct cluster *c, uint32_t worker, bool on);
/* The job is for such executors. */
void cluster_app_job(struct cluster_job *j);
/* An operator chooses something of the policy; NULL: what is configured. Central must run. */
void cluster_set_policy(struct cluster *c, struct policy_choice *choice);
void cluster_set_share(struct cluster *c, uint32_t share_ppm);
/* By node id; no such node: nothing happens. Central runs. */
void cluster_drain(struct cluster *c, uint32_t node, enum drain drain);

/* ---- The network, from now on. Endpoints are those of the bus. ---- */

/* What one sends the other (0: everybody) arrives at until_us at the earliest, in order. */
void cluster_stall(struct cluster *c, uint32_t from, uint32_t to, int64_t until_us);
/* Whatever ep sends or is sent takes so much longer. */
void cluster_slow(struct cluster *c, uint32_t ep, int64_t extra_us, int64_t until_us);
/* Nothing gets from x to y; unless one_way, nor from y to x. Who hears nothing for some seconds gives the stream up. */
void cluster_partition(struct cluster *c, uint32_t x, uint32_t y, bool one_way, int64_t until_us);
/* Their stream is dead, and each side finds out by the other's silence. */
void cluster_break_unseen(struct cluster *c, uint32_t x, uint32_t y);
int64_t cluster_silence_us(struct cluster *c); /* after how much silence somebody finds out: drawn */

/* A process stands still until then, or a machine, a worker's spawner and tasks as well. */
void cluster_freeze(struct cluster *c, uint32_t ep, bool machine, int64_t until_us);

/* Tasks running right now. */
uint32_t cluster_running(const struct cluster *c, uint32_t worker);

#endif
