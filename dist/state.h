/* The state of a dist: jobs, their tasks, the nodes that it knows, and the places where a job meets a node.
 * dist.h includes it only so that a shell can hold a struct dist: everything in here is private to dist/. */
#ifndef HAWK_DIST_STATE_H
#define HAWK_DIST_STATE_H

#include "base/heap.h"
#include "base/histogram.h"
#include "base/list.h"
#include "base/rng.h"
#include "classifier/classifier.h"
#include "dist/draw.h"
#include "msg/beats.h"
#include "msg/msg.h"
#include "owner/jobs.h"
#include "owner/messages.h"
#include "owner/pauses.h"
#include "owner/starts.h"

#include <uthash.h>

#define TASK_NIL UINT32_MAX

/* A task that failed and waits for its time. */
struct dist_delay {
    struct heap_node timer; /* in dist.delayed */
    struct dist_job *job;
    uint32_t task;
};

/* One task. All zeros: waiting and never launched, so that a large job's tasks cost nothing until they are
 * used.
 *
 *   unsent => state = LAUNCHED, and its job is journalled
 *   asked  => central
 *   from the job's cursor on: state = WAITING, not central, attempt = 0 */
struct dist_task {
    union {
        int64_t wait_us;          /* from submission to start; valid if `started` */
        struct dist_delay *delay; /* if it waits: for its time, in the job's `delayed`; or NULL */
    };
    union {
        int64_t run_us;          /* if the state is final */
        struct {                 /* if it waits: */
            uint32_t awaits;     /* tasks of predecessors; above 0: it is in the job's `blocked` (after.c) */
            bool centrals_delay; /* it is central's, and waits there for its time */
        };
    };
    uint32_t worker; /* the worker of the last attempt; 0: none yet */
    union {
        uint32_t request; /* unless adopted: the worker's request that the last attempt answered */
        uint16_t epoch;   /* adopted: epoch of the last attempt */
    };
    union {
        struct {
            uint32_t prev, next; /* in the job's list of returned tasks, or in its place's of launched ones */
        };
        struct usage used; /* if the state is final: then it is in no list, so this costs no memory */
    };
    union {
        int32_t code;           /* if the state is final */
        struct {                /* otherwise: */
            uint16_t free;      /* tries that cost no retry: dist_task_may_retry() */
            uint16_t unstarted; /* those of them that workers could not start */
        };
    };
    uint16_t attempt;   /* number of the last attempt; all before it were lost or refused, or failed */
    uint8_t state : 4;  /* enum task_state */
    uint8_t unsent : 1; /* launched; TASK_LAUNCH waits for the journal */
    /* It may be running somewhere, and no worker claims it. It waits, and was launched in an earlier life
     * (the journal of an at-most-once job says so); or it is at a worker whose stream broke. */
    uint8_t doubtful : 1;
    uint8_t no_room : 1;    /* its result had no room, and central has yet to send its end */
    uint8_t has_result : 1; /* for a job of an application: the dist has its result */
    uint8_t outcome : 3; /* enum outcome; not final: of the last attempt, if it failed and is to run again */
    uint8_t started : 1;
    uint8_t stolen : 1;
    uint8_t central : 1; /* central schedules it: a long job's task, or a promoted one */
    uint8_t asked : 1;   /* central was asked for it and has not named it */
    uint8_t adopted : 1; /* the last attempt is that of an earlier life */
};
_Static_assert(OUTCOME_COUNT <= 8, "an outcome must fit 3 bits");
_Static_assert(TASK_STATE_COUNT <= 16, "a state must fit 4 bits");
_Static_assert(sizeof(struct dist_task) <= 40, "a task must stay small: there may be ten million");

/* A job at a worker. It exists while reservations live there or tasks are launched there.
 *
 *   live > 0, or `launched` has a task
 *   live <= the job's reservations that the worker has   (never more: too few costs a probe, too many hangs the job)
 *   the worker has no stream => live = 0, and every task in `launched` is doubtful */
struct dist_place {
    struct list in_job;  /* dist_job.places */
    struct list in_node; /* dist_node.places */
    struct dist_job *job;
    struct dist_node *node;
    struct dist_place *chain; /* next in its bucket, or in the list of free places */
    uint32_t live;            /* number of live reservations */
    uint32_t launched;        /* first of the tasks that are launched or running there, or TASK_NIL */
};
_Static_assert(sizeof(struct dist_place) <= 64, "a place must fit a cache line");

/* Maps (job, worker) to a place. Linear hashing: the table grows by one bucket at a time, so that no step
 * pays for all.
 *
 *   n <= buckets,  mask / 2 < buckets <= mask + 1 */
struct place_table {
    struct dist_place **bucket;
    uint32_t buckets, cap;
    uint32_t mask; /* the least power of two that is not below buckets, minus 1 */
    uint32_t n;
    struct dist_place *free;
    struct dist_place **chunk; /* memory of the places, PLACE_CHUNK each */
    uint32_t chunks, chunks_cap;
};

/* The workers from which a job's probes are drawn.
 *
 *   a worker's weight in ALL = that in GENERAL + that in RESERVED
 *   a worker's weight > 0 => it has a stream, and is up or vouched for
 *   starved is not empty => no worker has a weight, or none has the time that the jobs' tasks need (end_times.c) */
enum pool { POOL_ALL, POOL_GENERAL, POOL_RESERVED, POOL_COUNT };
struct dist_pool {
    struct draw draw;
    struct list starved; /* jobs that want probes, and no worker of the pool can take them */
    struct list crowded; /* jobs that have probes at every worker, or more than the pool had slots */
};

/* What a job's timer is for. */
enum job_timer {
    TIMER_PROBE,  /* to probe again, after refusals */
    TIMER_OFFER,  /* to offer it to central again, which refused it */
    TIMER_ACCEPT, /* to accept it without central's word */
};

/* What a job without a timer waits for before it is probed for (again): the list that it is in. */
enum probe_wait {
    WAIT_NOT,      /* in no list */
    WAIT_STARVED,  /* dist_pool.starved: a worker of its pool that can take it */
    WAIT_CROWDED,  /* dist_pool.crowded: more workers, which get probes of it as well */
    WAIT_SETTLING, /* dist.settling: it was read back; workers first say what they still have of it */
    WAIT_KEPT,     /* dist.kept: it is held, or waits for predecessors */
};

/* An application, of one user's or of everybody's executors: some worker serves it, or some job needs it, or a user's
 * of the same name is there. A worker serves a user's if it has told that, or everybody's of that name. */
struct dist_app {
    UT_hash_handle hh;                 /* by key */
    uint64_t id;                       /* of the name */
    struct blob *key, *name, *user;    /* user NULL: everybody's */
    struct dist_app *shared;           /* a user's: everybody's of that name */
    struct list own;                   /* everybody's: users' of that name; a user's: its place there */
    uint32_t nodes, jobs;              /* nodes that have told it */
    struct dist_pool pool[POOL_COUNT]; /* of the workers that serve it */
};

/* A user whose commands alone some worker runs. */
struct dist_served {
    UT_hash_handle hh;
    uint32_t user;                     /* user_number() */
    uint32_t nodes, jobs;              /* workers that run his commands alone; his jobs of no application */
    struct dist_pool pool[POOL_COUNT]; /* of these workers, and those that run everybody's */
};

/* How far central has a job. hand_move() (dist/handover.c) makes every move; it has the table of moves. In
 * the states below the line the job is *pending*: its tasks wait here for central's word.
 *
 *   state      what central has       on our record  at JOINED
 *   NONE       nothing                nothing        -
 *   ASKED      what it will tell      its part       LONG_WATCH
 *   ACCEPTED   its part, durably      its part       LONG_WATCH
 *   ---------------------------------------------------------------------------------
 *   READY      nothing                its part       LONG_SUBMIT
 *   RECORDING  nothing                on its way     -
 *   HELD_BACK  nothing                nothing        nothing before its record is written
 *   OFFERED    its part, or nothing   its part       LONG_SUBMIT again; at most once: LONG_WATCH
 *   UNSURE     its part, or nothing   its part       LONG_WATCH
 *
 * A job that is in no journal has no record: it is READY where another would be RECORDING. */
#define HAND_OVERS(X)                                                                                        \
    X(NONE)                                                                                                  \
    X(ASKED)     /* moved here: central was asked which tasks it has; all wait for the answer */             \
    X(RECORDING) /* the record that central gets it is being written; the offer follows */                   \
    X(HELD_BACK) /* at most once: on record as not central's, because it cannot be offered now */            \
    X(READY)   /* to be offered: central is away or has refused it, or our journal has yet to get the job */ \
    X(OFFERED) /* the last LONG_SUBMIT has no answer yet */                                                  \
    X(UNSURE)  /* read back, or at most once and offered when central went away: central is asked */         \
    X(ACCEPTED)
enum hand_over {
#define X(name) HAND_##name,
    HAND_OVERS(X)
#undef X
        HAND_OVER_COUNT
};
enum {
    HANDS_PENDING = 1u << HAND_RECORDING | 1u << HAND_HELD_BACK | 1u << HAND_READY | 1u << HAND_OFFERED |
                    1u << HAND_UNSURE
};

/* A predecessor of a job. While its end decides something, it is in the predecessor's list. */
struct dist_after {
    struct list in_pred; /* the predecessor's successors, or task_successors if `each`; or no list */
    struct dist_job *job;
    uint8_t place; /* in the job's desc->after */
    uint8_t when;  /* enum after_when */
    bool each;     /* task i waits for the predecessor's task i */
};

/* A job.
 *
 *   tasks      = unlaunched + delayed_n + blocked_n + at places + central_n + final   (each is in exactly one set)
 *   unlaunched = those in `returned` + those from cursor on
 *   live       = sum of its places' live,  sure <= live
 *   ages_n, ages_us = number and sum of wait_us of the tasks that run and are not central's
 * and until it is final:
 *   cancelling => unlaunched = 0, delayed_n = 0, blocked_n = 0
 *   a task of `unwanted` has ended, or is at a worker, or central has it or may, or unwanted_back
 *   gates, eaches = number of its `after` that are in a list, by `each`;  blocked_n > 0 => eaches > 0, or it is touched
 *   held or gates > 0 => wait in {SETTLING, KEPT}, or it is being cancelled
 *   dist.delayed = the `delay` of the tasks in its and other jobs' `delayed`
 *   submitted => live >= dist_job_launchable(), or `wait` is STARVED, SETTLING or KEPT, or its timer runs,
 *                or live > 0 and its policy does not probe again                           (no job is forgotten)
 *   wait in {SETTLING, KEPT} => live = 0
 *   hand = NONE <=> it is not in dist.handed;  central_n > 0 => hand is not NONE
 *   hand in {ASKED, OFFERED, UNSURE, ACCEPTED} => offers > 0
 *   asking => hand is not NONE
 *   handed_part => offers > 0;  hand in {OFFERED, UNSURE, ACCEPTED} => handed_part, or every task is central's or final
 *   hand = RECORDING => journalled;  hand = HELD_BACK => journalled, and at most once
 * and when it is: no place, no list but dist.finished and dist.accepted, no timer. */
struct dist_job {
    job_id_t id;
    UT_hash_handle hh;
    uint64_t key;    /* the client's name for this submission; 0: none */
    uint64_t change; /* token of its last RECORD_CHANGE; valid in HAND_RECORDING */
    UT_hash_handle hh_key;
    struct list in_state;        /* dist.jobs[] */
    struct list in_ended;        /* those of its user that have ended */
    struct list in_all;          /* dist.accepted, once its client has the answer */
    struct list in_wait;         /* the list that `wait` names */
    struct list in_touched;      /* dist.touched: settled at the end of this step */
    struct list in_central;      /* dist.handed: it is unfinished, and hand is not HAND_NONE */
    struct list successors;      /* dist_after.in_pred: unfinished jobs that wait for this one */
    struct list task_successors; /* the same, of those whose tasks wait for its tasks */
    struct list in_unattended;   /* dist.unattended: nobody watches it, and somebody should */
    struct list places;
    struct heap_node timer; /* in dist.timers, for what `timer_for` says */

    struct job_desc *desc;
    struct owner_messages messages;
    struct owner_pauses pauses;
    struct owner_starts starts;
    struct dist_after *after; /* by place in desc->after; NULL: it waits for no predecessor */
    job_id_t cause; /* the predecessor because of which it, or a task of it, was cancelled; or JOB_NONE */
    struct dist_app *app; /* NULL: it needs none */
    struct dist_served
        *served;           /* its user, if it needs no application and some worker runs his commands alone */
    struct blob **results; /* by task; NULL: no task has a result */
    uint64_t results_bytes;
    int64_t submit_us;
    int64_t end_us;                 /* when final */
    int64_t first_wait_us;          /* time from submission until a task started; -1: none has */
    int64_t unattended_us;          /* since when nobody has watched it; valid in dist.unattended */
    int64_t progress_us;            /* when the last probe was sent, or the last request came */
    int64_t sure_us;                /* since when `sure` counts: see dist_probe_doubt() */
    int64_t estimate_us, cutoff_us; /* the class was decided by these */
    unsigned __int128 ok_us;        /* sum of the run times of its ok_n tasks that exited 0 */
    int64_t longest_us;             /* the longest of these run times */
    uint32_t ok_n;
    uint32_t user; /* job_desc_user(), which each of its probes says */
    /* Of our running tasks: the sum of their wait_us. The sum of their ages is ages_n * now - ages_us. */
    int64_t ages_us;
    uint32_t ages_n;
    /* Of POLICY_JOB_FLAGS; these and the next fields are as at submission: changes apply to new jobs. */
    uint32_t policy_flags;
    uint32_t ratio_milli;
    uint32_t min_probes;
    uint32_t client;
    uint32_t watchers;

    uint32_t cursor;   /* tasks from here on were never launched, and are in no list */
    uint32_t returned; /* first of the waiting tasks before cursor: lost, refused, freed or given back */
    uint32_t delayed;  /* first of the tasks that failed and wait for their time: see retries.c */
    uint32_t delayed_n;
    uint32_t blocked; /* first of the tasks that wait for theirs of predecessors: see after.c */
    uint32_t blocked_n;
    struct task_set
        *unwanted;         /* cancelled one by one, and their end is in no record of their own; NULL: none */
    uint32_t after_met;    /* a bit for each of desc->after that has ended as the job asks */
    uint8_t gates, eaches; /* predecessors that it still waits for: as a whole, task by task */
    uint8_t *failures;     /* by task: how often it failed and was to run again; NULL: none has */
    uint32_t unlaunched;   /* waiting tasks that this dist must launch */
    uint32_t live;         /* sum over its places */
    uint32_t sure;         /* live reservations that were sent after the last loss of a worker */
    uint32_t central_n;    /* central's tasks that are not final */
    uint32_t central_delayed; /* those of central's that wait for their time */
    int64_t unreported_us;    /* until then central may not place tasks that no worker has reported */
    uint32_t left_out;        /* tasks without an end in the journal: cancelled before they were launched */
    uint32_t in[TASK_STATE_COUNT]; /* tasks by state */
    struct usage_total total;      /* what the tasks used that have ended */

    uint64_t turned_away; /* probes refused because of long tasks (POLICY_AVOID_LONG) */
    uint32_t probes_sent, probes_cancelled, probes_unused, probes_lost, reservations_stolen;

    /* Of its tries in the life that accepted it: EPOCH_FIRST, or later if a client moved it here; the epoch
     * of its records. */
    uint16_t first_epoch;
    uint16_t life;      /* the life that accepted it */
    uint16_t own_epoch; /* of its tries in this life */
    /* The number of this dist's ownership, if greater than own_epoch: the client asked other dists, and
     * stayed here. 0: it did not. */
    uint16_t stayed_epoch;
    uint16_t epoch; /* the epoch under which central has it */
    uint8_t state;  /* enum job_state */
    uint8_t class;  /* enum job_class */
    uint8_t why;    /* enum class_why */
    uint8_t wait;   /* enum probe_wait */
    uint8_t hand;   /* enum hand_over */
    /* How often central was offered it, also by another dist or in an earlier life: 0 never, 1 once, 2 again.
     * After a second offer, what central said in between may be lost: so it is asked once when it accepts. */
    uint8_t offers;
    uint8_t backoff;      /* refusals in a row */
    uint8_t timer_for;    /* enum job_timer; valid while the timer runs */
    uint8_t audits;       /* how often it was probed for because a loss made its reservations doubtful */
    bool probe_long : 1;  /* its probes have class long */
    bool submitted : 1;   /* SUBMITTED was put out */
    bool journalling : 1; /* waits for JOURNAL_DONE */
    bool journalled : 1;  /* the journal has it, or will: JOURNAL_JOB_END is due when it goes */
    bool cancelling : 1;  /* cancelled by its client or by max_fails: no task of it starts any more */
    bool by_client : 1;   /* its client cancelled it */
    bool asking : 1;      /* LONG_WATCH has no answer yet, which decides about tasks with `asked` */
    bool abandoned : 1;   /* its client went away, which cancelled it */
    bool promoted : 1;
    bool
        overstays : 1; /* it stays here, but its tasks show the cutoff: probe_long, and the reserve is not for it */
    bool held : 1; /* by its user: no task of it starts */
    /* Central may be told of `held`: the hold is on record, or the job has no records; or a client released the job in
     * this life. */
    bool hold_known : 1;
    bool hold_asked : 1;    /* then: a client asked for that in this life */
    bool doomed : 1;        /* a predecessor ended otherwise than it asks: it is to be cancelled */
    bool unwanted_back : 1; /* nobody may run a task of `unwanted` any more */
    bool waits_news : 1;    /* its JOURNAL_WAITS is to be written */
    bool refused : 1;       /* a worker refused its probes since it was last probed for or launched */
    bool handed_part : 1;   /* central was offered, or has, less than the whole job */
    /* Messages about its reservations may have crossed: reservations that move do not count. */
    bool crossed : 1;
    struct dist_task tasks[]; /* desc->tasks elements */
};
/* Distance between the epochs of two lives: the epoch in between is for promoted tasks. */
#define EPOCH_STEP 2

/* A node: a worker, or another dist, which only lists show.
 *
 *   live = sum of its places' live
 *   it has places => it is in dist.awaited, or has a stream without beats
 *   end_doubtful => it has an end, and ends_due_us is not TIME_NEVER
 *   vouched => suspect, and it has a stream
 *   central does not list it => it serves nothing we know of, and has a stream or is a dist that central may not
 *     know */
#define NODE_CHUNK 128u
struct dist_node {
    struct member m; /* state MEMBER_GONE: central does not list it */
    struct list places;
    struct list ending;         /* in dist.ending: it has an end */
    int64_t ends_us;            /* all its tasks must have ended by then; TIME_NEVER: it has no end */
    struct list awaited;        /* in dist.awaited: something is awaited from it, or was at the last look */
    struct beats beats;         /* valid if awaited, with a stream */
    int64_t lost_us;            /* since when it has no stream; valid if awaited, without one */
    uint64_t live;              /* sum over its places */
    uint64_t fresh;             /* reservations that were sent there since it was last asked */
    bool fewer;                 /* its last answer named fewer */
    struct dist_app **apps;     /* the applications that it has told */
    struct dist_served *served; /* whose commands alone it runs; NULL: everybody's */
    uint32_t n_apps;            /* the array has room up to the next power of two */
    uint32_t last_request;      /* the highest request of this stream */
    uint32_t drawn;             /* probes drawn for it in this round; 0 between steps */
    bool known : 1;             /* it is a node: not a free place in its chunk */
    bool stream : 1;            /* PEER_UP was seen, and no PEER_LOST since */
    bool requested : 1;         /* last_request is valid */
    bool knows_beats : 1;       /* its stream is spoken in a version with BEAT */
    bool vouched : 1;           /* central suspects it, and it has answered this dist since */
    bool reported : 1;          /* it has said what it holds: HELD_END came on this stream */
    bool
        unlisted : 1; /* it is not in the list of a central that may have just started, and not know it yet */
    bool end_doubtful : 1; /* central has not said its end since its last whole list */
};

/* A record that waits for the journal, or that must be put out again. */
enum dist_record_kind {
    RECORD_NONE,    /* its work is done */
    RECORD_JOB,     /* a job, with its description */
    RECORD_CHANGE,  /* the same without the description */
    RECORD_CANCEL,  /* the client cancelled the job */
    RECORD_LAUNCH,  /* the launch of an at-most-once task, which is sent when this is durable */
    RECORD_FAILURE, /* a task has failed, and is to run again */
    RECORD_TASK,    /* the end of a task */
    RECORD_ENDED,   /* the end of a job */
    RECORD_WAITS,   /* whether the job is held, and which predecessors it waits for no longer */
    RECORD_JOB_END, /* the job is forgotten */
    RECORD_NUMBERS, /* reserved job numbers */
    /* Messages that wait for the records before them: */
    RECORD_ACK,       /* FINISH_ACK */
    RECORD_CANCELLED, /* CANCELLED */
    RECORD_REFUSED,   /* SUBMITTED with an error */
    RECORD_HOLD_SET,  /* HOLD_SET */
};
struct dist_record {
    uint64_t token;
    job_id_t job; /* JOB_NONE for NUMBERS */
    union {
        struct {              /* kinds that are not named below */
            uint32_t task;    /* LAUNCH, TASK, ACK */
            uint16_t epoch;   /* of the job's records; ACK: of the try */
            uint16_t attempt; /* LAUNCH, ACK */
        };
        uint64_t numbers_end; /* NUMBERS */
        int32_t err;          /* REFUSED: a negative code */
    };
    union {
        uint32_t worker;    /* ACK */
        uint32_t client;    /* CANCELLED, REFUSED, HOLD_SET */
        uint32_t job_state; /* JOB_END: enum job_state, the job's last state */
    };
    uint8_t kind; /* enum dist_record_kind: says which fields are valid */
};
_Static_assert(sizeof(struct dist_record) <= 32, "there is one for each end that is not durable");
/* A ring, oldest first.
 *
 *   pending: tokens do not fall, and none is above dist.token
 *   failed is not empty <=> rewrite_at is not TIME_NEVER */
struct dist_records {
    struct dist_record *v;
    uint32_t head, n, cap;
};

/* A finished job's report that central has not got. */
struct dist_report {
    struct blob *name;
    int64_t mean_us;
    uint64_t task_us;
    uint32_t tasks;
    uint8_t class;
    uint32_t user;
};

#define DIST_RECEIPTS 2

struct dist_config {
    struct blob *name, *addr; /* dist_init() takes references */
    uint64_t incarnation;
    node_id_t node;                /* its id from an earlier life, or NODE_NONE */
    uint64_t cluster;              /* the cluster of that id, or 0 */
    uint64_t first_seq;            /* first number of its jobs, if no journal knows better; >= 1 */
    uint32_t seq_block;            /* job numbers reserved at a time; 0: none, if there is only one life */
    uint32_t jobs_unfinished_max;  /* 100,000 */
    uint32_t tasks_unfinished_max; /* 10,000,000 */
    uint32_t finished_kept;        /* finished jobs kept for clients: 10,000; see dist_jobs_trim() */
    int64_t finished_keep_us;      /* how long a finished job is kept; 0: as the other limits say */
    uint32_t finished_tasks_kept;  /* tasks of these jobs: 4,000,000 */
    uint64_t unfinished_bytes_max; /* descriptions of unfinished jobs: 1 GiB */
    uint64_t finished_bytes_kept;  /* descriptions and results of finished jobs: 256 MiB */
    uint32_t estimates_max;        /* names whose estimate is kept: 100,000 */
    /* A job that nobody watches for this long is cancelled, unless it is detached; 0: never. */
    int64_t client_grace_us;
    int64_t
        nested_grace_us; /* the same of a job that was submitted in a task, if it is more: longest pause of a task */
    bool journal;        /* there is a journal: detached jobs are accepted when it has them */
    uint16_t life; /* how often the journal was opened: distinguishes tries of different lives */
    /* How long, after joining, workers may take to say what they hold of jobs read back: 3 s. */
    int64_t settle_us;
    bool heartbeats;      /* on; the simulator switches them off without faults */
    struct policy policy; /* until central sends a policy */
};

/* How the jobs fared that ended in this process, by their class at the end. */
struct dist_times {
    /* From submission to the end, of those that were not cancelled. */
    struct histogram response[CLASS_COUNT];
    /* That time over the run time of the longest task, of those all of whose tasks are done: 1 on an empty
     * cluster with a slot for every task. */
    struct histogram slowdown[CLASS_COUNT];
};

struct dist {
    int64_t now_us;         /* of the event that is handled */
    struct out *out;        /* during a step: takes messages and effects */
    struct dist_node *from; /* the worker that sent the message that is handled */
    struct dist_config cfg;
    struct policy policy;
    struct rng rng;
    struct estimates estimates;
    node_id_t node;
    uint64_t cluster; /* the cluster of `node` */
    /* The latest first: a central that lost its state has made another. From that time on a job is moved here with a
     * receipt alone. */
    struct receipt_secret receipts[DIST_RECEIPTS];
    int64_t receipts_due_us;
    uint64_t next_seq;           /* number of the next job */
    uint64_t seq_end;            /* numbers below are reserved in this life; 0: none yet */
    uint64_t seq_durable;        /* numbers below are on record, and may be given out */
    uint64_t seq_told;           /* central was told of numbers below */
    uint64_t seq_heard;          /* what central knows of them, told on this stream; 0: nothing */
    uint64_t token;              /* the last one put out */
    struct dist_records pending; /* by token */
    struct dist_records failed;  /* must be put out again */
    int64_t rewrite_at;          /* when; TIME_NEVER: none failed */
    bool unwritable;             /* the journal's last answer was an error */

    struct dist_job *by_id;            /* uthash */
    struct dist_job *by_key;           /* jobs that have a key */
    struct list jobs[JOB_STATE_COUNT]; /* unfinished jobs by state; those of final states are empty */
    struct list finished;              /* finished jobs, by time of end */
    struct list touched;               /* jobs that this step changed; empty between steps */
    struct list accepted;              /* all jobs that were accepted and are kept, oldest first */
    struct list handed;                /* unfinished jobs that central has or is to get */
    struct list unattended[2]; /* unfinished jobs without a watcher, longest first; [1]: submitted in tasks */
    struct heap delayed;       /* tasks that failed and wait for their time: struct dist_delay */
    uint64_t delays;           /* numbers them */
    struct list settling;      /* jobs that were read back and not probed for yet */
    struct list kept;          /* jobs that are held, or wait for predecessors */
    int64_t settle_at;  /* when to look whether every worker has reported; TIME_NEVER: nothing settles */
    int64_t settle_end; /* when to go on without reports */
    struct heap timers;
    struct place_table places;
    struct dist_pool pool[POOL_COUNT]; /* of the workers that run everybody's commands */
    struct dist_app *apps;             /* uthash */
    struct dist_served *served;        /* uthash */
    struct dist_user *users;           /* uthash: those with jobs here */
    struct dist_node **nodes;          /* by id, in chunks of NODE_CHUNK: dist_node_find() */
    uint32_t nodes_n;                  /* ids below have a place in a chunk, or could have one */
    struct list ending;                /* workers that have an end */
    int64_t ends_due_us;               /* when to forget ends that are in doubt; TIME_NEVER: none is */
    struct list awaited;               /* nodes to look at when beat_at has come */
    int64_t beat_at;                   /* TIME_NEVER: nothing is awaited */
    struct dist_node **drawn;          /* nodes drawn in one round of probing */
    uint32_t drawn_n, drawn_cap;

    uint32_t jobs_unfinished, jobs_finished;   /* jobs in the table */
    uint32_t tasks_unfinished, tasks_finished; /* tasks of unfinished and of finished jobs */
    uint64_t bytes_unfinished, bytes_finished; /* memory of their descriptions and results */
    uint32_t tasks_in[TASK_STATE_COUNT];       /* tasks of unfinished jobs, by state */

    struct dist_report *reports; /* reports that central has not got, at most REPORTS_MAX */
    uint32_t reports_n, reports_cap;

    int64_t heartbeat_us; /* interval */
    int64_t lease_us;     /* all that a lost worker left behind has ended by then */
    int64_t heartbeat_at; /* TIME_NEVER: none is due */
    int64_t audit_at;     /* TIME_NEVER: no doubt */
    int64_t doubt_us;     /* when a worker was lost last; -1: never */
    uint32_t heartbeat_seq;
    uint64_t counters[COUNTER_COUNT];
    uint64_t counters_told[COUNTER_COUNT];
    struct dist_times times;
    bool central_stream; /* it has a stream to central, */
    bool joined;         /* and has joined on it; */
    bool workers_away;   /* central said so then */
    int64_t joined_us;   /* when; */
    bool ever_joined;    /* in this life: its journal has been read before that */
    bool dists_unlisted; /* dists are kept that central has not listed since it joined */
    bool stopping;
    bool leaving;             /* it leaves as soon as no client and no launch waits for the journal */
    bool drained;             /* by an operator: it takes no new jobs */
    bool told_empty;          /* central was told that no job is left */
    uint32_t central_version; /* protocol version of the link to central */
    bool stopped;
};

#endif
