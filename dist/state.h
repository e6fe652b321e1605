/* What a dist keeps: jobs, their tasks, the nodes it knows, and the places where both meet. Part of dist.h only
 * so that a shell can hold a struct dist; everything in here is private to dist/. */
#ifndef HAWK_DIST_STATE_H
#define HAWK_DIST_STATE_H

#include "base/heap.h"
#include "base/list.h"
#include "base/rng.h"
#include "classifier/classifier.h"
#include "dist/draw.h"
#include "msg/beats.h"
#include "msg/msg.h"
#include "owner/messages.h"
#include "owner/starts.h"

#include <uthash.h>

#define TASK_NIL UINT32_MAX

/* One task. All zero: waiting and never launched, so that a large job's tasks cost nothing until they are used.
 *
 *   unsent => state = LAUNCHED, and its job is journalled
 *   asked  => central, and the job's hand = ASKED or ACCEPTED
 *   from the job's cursor on: state = WAITING, not central, attempt = 0 */
struct dist_task {
    int64_t wait_us; /* submission to start; meaningful when `started` */
    int64_t run_us;  /* meaningful when the state is final */
    uint32_t worker; /* where the last attempt is or ran; 0: nowhere yet */
    union {
        uint32_t request; /* unless adopted: of the worker, that the last attempt answered */
        uint16_t epoch;   /* adopted: the last attempt's */
    };
    uint32_t prev, next; /* in the job's list of returned tasks, or in its place's list of launched ones */
    union {
        int32_t code;           /* when the state is final */
        struct {                /* when it is not: */
            uint16_t refused;   /* tries that did not run, which cost no retry */
            uint16_t unstarted; /* of them, those that their workers could not start */
        };
    };
    uint16_t attempt;   /* the last one; every one but the last was lost, or refused */
    uint8_t state : 4;  /* enum task_state */
    uint8_t unsent : 1; /* launched, and TASK_LAUNCH waits for the journal */
    /* It may run somewhere, and nobody claims it: waiting, and launched in an earlier life (by the journal of a job at
     * most once); or at a worker whose stream broke since. */
    uint8_t doubtful : 1;
    uint8_t no_room : 1;  /* there was none for what it returned, and its end is to come from central */
    uint8_t returned : 1; /* what it returned, if it was anything, is here: of a job for an application */
    uint8_t outcome : 3;  /* enum outcome */
    uint8_t started : 1;
    uint8_t stolen : 1;
    uint8_t central : 1; /* central schedules it: a long job's, or transferred by promotion */
    uint8_t asked : 1;   /* central is asked whether it has it, and has not said so */
    uint8_t adopted : 1; /* the last attempt is an earlier life's */
};
_Static_assert(OUTCOME_COUNT <= 8, "an outcome must fit 3 bits");
_Static_assert(TASK_STATE_COUNT <= 16, "a state must fit 4 bits");
_Static_assert(sizeof(struct dist_task) <= 40, "a task must stay small: there may be ten million");

/* A job at a worker: while reservations live there or tasks are launched there.
 *
 *   live > 0, or `launched` has a task
 *   live <= the job's reservations that the worker has   (never more: too few costs a probe, too many hangs the job)
 *   the worker has no stream => live = 0, and every task in `launched` is doubtful */
struct dist_place {
    struct list in_job;  /* dist_job.places */
    struct list in_node; /* dist_node.places */
    struct dist_job *job;
    struct dist_node *node;
    struct dist_place *chain; /* next in its bucket, or of the free ones */
    uint32_t live;            /* reservations: never more than the worker has */
    uint32_t launched;        /* first of the tasks launched or running there, or TASK_NIL */
};
_Static_assert(sizeof(struct dist_place) <= 64, "a place must fit a cache line");

/* (job, worker) -> place. Linear hashing: grows one bucket at a time, so that no step ever pays for all.
 *
 *   n <= buckets,  mask / 2 < buckets <= mask + 1 */
struct place_table {
    struct dist_place **bucket;
    uint32_t buckets, cap;
    uint32_t mask; /* the least power of two that is at least buckets, minus 1 */
    uint32_t n;
    struct dist_place *free;
    struct dist_place **chunk; /* where places live, PLACE_CHUNK each */
    uint32_t chunks, chunks_cap;
};

/* Which workers a job's probes are drawn from.
 *
 *   a worker's weight in ALL = that in GENERAL + that in RESERVED
 *   a worker's weight > 0 => it has a stream, and is up or vouched for
 *   starved is not empty => no worker has a weight */
enum pool { POOL_ALL, POOL_GENERAL, POOL_RESERVED, POOL_COUNT };
struct dist_pool {
    struct draw draw;
    struct list starved; /* jobs that want probes while it is empty */
    struct list crowded; /* jobs that were sent more probes than it had slots */
};

/* What a job waits for before it is probed for, or probed for again, without a timer: the list that it is in. */
enum probe_wait {
    WAIT_NOT,      /* in none */
    WAIT_STARVED,  /* dist_pool.starved: for a worker in its pool, which is empty */
    WAIT_CROWDED,  /* dist_pool.crowded: for more workers; it was sent more probes than its pool has slots */
    WAIT_SETTLING, /* dist.settling: read back; workers are first asked what they still have of it */
};

/* An application: some worker serves it, or some job is for it. */
struct dist_app {
    UT_hash_handle hh;
    uint64_t id;
    struct blob *name;
    uint32_t nodes, jobs;
    struct dist_pool pool[POOL_COUNT]; /* of the workers that serve it */
};

/* How far central has a job. hand_move (dist/handover.c) makes every move; it has the table of moves, with the reasons.
 * Below a line: in these the job is *pending*, its tasks wait here for central's word.
 *
 *   state      what central has       on our record  at JOINED                 next
 *   NONE       nothing                nothing        -                         READY, ASKED, ACCEPTED, UNSURE
 *   ASKED      what it will tell      its part       LONG_WATCH                ACCEPTED, NONE
 *   ACCEPTED   its part, durably      its part       LONG_WATCH                READY (it has lost it)
 *   ---------------------------------------------------------------------------------------------------------
 *   READY      nothing                its part       LONG_SUBMIT: OFFERED      OFFERED, RECORDING, HELD_BACK
 *   RECORDING  nothing                on its way     -                         READY when it is durable, HELD_BACK
 *   HELD_BACK  nothing                nothing        RECORDING                 RECORDING
 *   OFFERED    its part, or nothing   its part       LONG_SUBMIT again;        ACCEPTED, READY (refused), UNSURE
 *                                                    at most once: UNSURE
 *   UNSURE     its part, or nothing   its part       LONG_WATCH                ACCEPTED, READY (it has nothing)
 *
 * From every pending state central's word that it has the job leads to ACCEPTED, and a refusal of what was to be promoted to
 * NONE. A job that is in no journal has no record, and is READY where another one is RECORDING. */
#define HAND_OVERS(X)                                                                                        \
    X(NONE)                                                                                                  \
    X(ASKED)     /* moved here: which of its tasks central has is asked; until it answers, all wait here */  \
    X(RECORDING) /* that central is to get it is being journalled: it is offered after that */               \
    X(HELD_BACK) /* at most once: on record as not central's, since it cannot be offered now */              \
    X(READY)     /* to be offered: central is away, or has refused it, or our journal is to have the job */  \
    X(OFFERED)   /* the last LONG_SUBMIT is not answered */                                                  \
    X(UNSURE)    /* read back, or at most once and offered when central went away: central is asked */       \
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

/* A job.
 *
 *   tasks      = unlaunched + at places + central_n + final            (each task is in exactly one of these sets)
 *   unlaunched = those in `returned` + those from cursor on
 *   live       = sum of its places' live,  sure <= live
 *   ages_n, ages_us = number and sum of wait_us of the tasks that run and are not central's
 * and until it is final:
 *   cancelling => unlaunched = 0
 *   unlaunched > 0 and submitted => live >= unlaunched, or it waits (`wait`: STARVED or SETTLING), or its timer runs,
 *                                   or live > 0 and its policy does not probe again        (no job is forgotten)
 *   wait = SETTLING => live = 0
 *   hand = NONE <=> it is not in dist.handed;  central_n > 0 => hand is not NONE
 *   hand in {ASKED, OFFERED, UNSURE, ACCEPTED} => offers > 0
 *   hand = RECORDING => journalled;  hand = HELD_BACK => journalled, and at most once
 * and when it is: no place, no list but dist.finished and dist.accepted, no timer. */
struct dist_job {
    job_id_t id;
    UT_hash_handle hh;
    uint64_t key;    /* the client's name for this submission; 0: none */
    uint64_t change; /* the token of its last RECORD_CHANGE; meaningful in HAND_RECORDING */
    UT_hash_handle hh_key;
    struct list in_state;      /* dist.jobs[] */
    struct list in_all;        /* dist.accepted, once its client knows of it */
    struct list in_wait;       /* in the list that `wait` names */
    struct list in_touched;    /* dist.touched: to be settled at the end of this step */
    struct list in_central;    /* dist.handed: hand is not HAND_NONE, and it is unfinished */
    struct list in_unattended; /* dist.unattended: nobody watches it, and somebody is to */
    struct list places;
    struct heap_node timer; /* probe again, or hand to central again */

    struct job_desc *desc;
    struct owner_messages messages;
    struct owner_starts starts;
    struct dist_app *app;  /* NULL: it is for none */
    struct blob **results; /* by task; NULL: none has returned anything */
    uint64_t results_bytes;
    int64_t submit_us;
    int64_t end_us;                 /* once final */
    int64_t first_wait_us;          /* from then until one started; -1: none has */
    int64_t unattended_us;          /* since when nobody has watched it; meaningful in dist.unattended */
    int64_t progress_us;            /* the last probe sent, or request received */
    int64_t sure_us;                /* since when `sure` counts: see dist_probe_doubt */
    int64_t estimate_us, cutoff_us; /* what the class was decided on */
    unsigned __int128 ok_us;        /* sum of the run times of its ok_n tasks that exited 0 */
    uint32_t ok_n;
    /* Of our running tasks: the sum of their wait_us. The sum of their ages is ages_n * now - ages_us. */
    int64_t ages_us;
    uint32_t ages_n;
    uint32_t
        policy_flags; /* of POLICY_JOB_FLAGS; they and what follows, as at submission: a change applies to new jobs */
    uint32_t ratio_milli;
    uint32_t min_probes;
    uint32_t client;
    uint32_t watchers;

    uint32_t cursor;       /* tasks from here on were never launched, nor put in a list */
    uint32_t returned;     /* first of the waiting tasks before cursor: their worker was lost */
    uint32_t unlaunched;   /* waiting tasks that are ours to launch */
    uint32_t live;         /* sum of the places' */
    uint32_t sure;         /* of them, those probed for after the last loss of a worker */
    uint32_t central_n;    /* central's tasks that are not final */
    int64_t unreported_us; /* until then those that no worker has reported may not be placed */
    uint32_t left_out;     /* tasks whose end is not in the journal: cancelled before they were launched */
    uint32_t in[TASK_STATE_COUNT]; /* tasks by state */

    uint32_t probes_sent, probes_cancelled, probes_unused, probes_lost, reservations_stolen;

    uint16_t
        first_epoch; /* of its tries in the life that accepted it: EPOCH_FIRST, or later where a client moved it
                             here; it is in the journal under this one */
    uint16_t life;   /* that life */
    uint16_t own_epoch; /* of its tries in this life */
    /* The number of our ownership, where that is greater than own_epoch: its client asked other dists, and stayed. 0: it
     * did not. */
    uint16_t stayed_epoch;
    uint16_t epoch; /* under which central has it */
    uint8_t state;  /* enum job_state */
    uint8_t class;  /* enum job_class */
    uint8_t why;    /* enum class_why */
    uint8_t wait;   /* enum probe_wait */
    uint8_t hand;   /* enum hand_over */
    /* How often central was given it, also by another dist or in an earlier life: 0 never, 1 once, 2 again, so that what
     * central said in between may be lost. In that case it is asked once when it accepts. */
    uint8_t offers;
    uint8_t backoff;      /* refusals in a row */
    uint8_t audits;       /* times it was probed for again because a loss made its live ones doubtful */
    bool probe_long : 1;  /* its probes are of class long */
    bool submitted : 1;   /* SUBMITTED was put out */
    bool journalling : 1; /* waits for JOURNAL_DONE */
    bool journalled : 1;  /* JOURNAL_JOB was put out, or read back: JOURNAL_JOB_END is due when it goes */
    bool cancelling : 1;  /* by its client, or max_fails: nothing of it starts any more */
    bool by_client : 1;   /* its client cancelled it */
    bool asking : 1;      /* LONG_WATCH is out, and decides about the tasks that are `asked` */
    bool abandoned : 1;   /* … by going away */
    bool promoted : 1;
    bool refused : 1;         /* a worker refused probes since it was last probed for or launched */
    bool handed_part : 1;     /* what central was given last was not the whole job */
    bool crossed : 1;         /* news of its reservations may have crossed: those that move are not counted */
    struct dist_task tasks[]; /* desc->tasks of them */
};
/* From one life's epoch to the next: what is promoted has the one between. */
#define EPOCH_STEP 2

/* A node: a worker, or another dist, which only lists show.
 *
 *   live = sum of its places' live
 *   it has places => it is in dist.awaited, or has a stream without beats
 *   vouched => suspect, and it has a stream;  central does not list it => it has a stream, and serves nothing we know of */
#define NODE_CHUNK 128u
struct dist_node {
    struct member m; /* state gone: central does not list it */
    struct list places;
    struct list
        awaited; /* in dist.awaited: something of it is waited for, or was when it was last looked at */
    struct beats beats;     /* meaningful in there, with a stream */
    int64_t lost_us;        /* since when it has had none; meaningful in there, without */
    uint64_t live;          /* reservations: sum of the places' */
    uint64_t fresh;         /* of them, those sent there since it was last asked */
    bool fewer;             /* by its last answer it has fewer */
    struct dist_app **apps; /* that it serves */
    uint32_t n_apps;        /* there is room for the next power of two */
    uint32_t last_request;  /* the highest of this stream */
    uint32_t drawn;         /* probes drawn for it in the present round; 0 between steps */
    bool known : 1;         /* it is one: not a free place in its chunk */
    bool stream : 1;        /* PEER_UP was seen, and no PEER_LOST since */
    bool requested : 1;     /* last_request is valid */
    bool knows_beats : 1;   /* its stream is spoken in a version with BEAT */
    bool vouched : 1;       /* it is suspect to central, and has answered us since */
    bool reported : 1;      /* it has said what it holds: HELD_END was seen on this stream */
};

/* What waits for the journal, or is to be written again. */
enum dist_record_kind {
    RECORD_NONE,    /* nothing any more */
    RECORD_JOB,     /* a job's row, with its description */
    RECORD_CHANGE,  /* the same, without */
    RECORD_CANCEL,  /* its client cancelled it */
    RECORD_LAUNCH,  /* the launch of a task that must not run twice; it is sent then */
    RECORD_TASK,    /* the end of a task */
    RECORD_ENDED,   /* the end of a job */
    RECORD_JOB_END, /* it is forgotten */
    RECORD_NUMBERS, /* reserved job numbers */
    /* What only waits: */
    RECORD_ACK,       /* FINISH_ACK, due when all before it is durable */
    RECORD_CANCELLED, /* CANCELLED, likewise */
    RECORD_REFUSED,   /* SUBMITTED with an error, likewise */
};
struct dist_record {
    uint64_t token;
    job_id_t job; /* JOB_NONE in NUMBERS */
    union {
        struct {              /* of the kinds not named below */
            uint32_t task;    /* LAUNCH, TASK, ACK */
            uint16_t epoch;   /* of the job in the journal; ACK: of the try */
            uint16_t attempt; /* LAUNCH, ACK */
        };
        uint64_t numbers_end; /* NUMBERS */
        int32_t err;          /* REFUSED: a negative code */
    };
    union {
        uint32_t worker;    /* ACK */
        uint32_t client;    /* CANCELLED, REFUSED */
        uint32_t job_state; /* JOB_END: enum job_state, its last one */
    };
    uint8_t kind; /* enum dist_record_kind: says which of the above there are */
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

/* A finished job's result that central has not been told. */
struct dist_report {
    struct blob *name;
    int64_t mean_us;
    uint64_t task_us;
    uint32_t tasks;
    uint8_t class;
};

struct dist_config {
    struct blob *name, *addr; /* dist_init takes references */
    uint64_t incarnation;
    node_id_t node;                /* from an earlier life, or NODE_NONE */
    uint64_t cluster;              /* likewise, or 0 */
    uint64_t first_seq;            /* of its jobs, where no journal knows better; >= 1 */
    uint32_t seq_block;            /* job numbers reserved at a time; 0: none, where there is one life only */
    uint32_t jobs_unfinished_max;  /* 100,000 */
    uint32_t tasks_unfinished_max; /* 10,000,000 */
    uint32_t finished_kept;        /* finished jobs kept to be looked at: 10,000; the oldest is dropped */
    uint32_t finished_tasks_kept;  /* and their tasks in total: 4,000,000 */
    uint64_t unfinished_bytes_max; /* descriptions of unfinished jobs: 1 GiB */
    uint64_t finished_bytes_kept;  /* and of finished ones: 256 MiB */
    uint32_t estimates_max;        /* names whose estimate is remembered: 100,000 */
    int64_t
        client_grace_us; /* a job that nobody watches for so long, and that is not detached, is cancelled; 0: never */
    bool journal;         /* there is one: detached jobs are journalled before they are accepted */
    uint16_t life;        /* how often the journal has been opened: tells our tries from earlier ones */
    int64_t settle_us;    /* after joining, for workers to say what they hold of jobs read back: 3 s */
    bool heartbeats;      /* on; the simulator may do without where it simulates no faults */
    struct policy policy; /* until central sends one */
};

struct dist {
    int64_t now_us;         /* of the event being handled */
    struct out *out;        /* during a step: where messages and effects go */
    struct dist_node *from; /* the worker that sent what is being handled */
    struct dist_config cfg;
    struct policy policy;
    struct rng rng;
    struct estimates estimates;
    node_id_t node;
    uint64_t cluster;            /* where it is called so */
    uint64_t next_seq;           /* the next job's number */
    uint64_t seq_end;            /* below it all are reserved in this life; 0: none is yet */
    uint64_t seq_durable;        /* and below it they are on record: these are given out */
    uint64_t seq_told;           /* and below it central was told */
    uint64_t seq_heard;          /* what central knows of them, told on this stream; 0: nothing */
    uint64_t token;              /* the journal's last */
    uint64_t durable;            /* the last that it has said is written */
    struct dist_records pending; /* by token */
    struct dist_records failed;  /* to be written again */
    int64_t rewrite_at;          /* TIME_NEVER: nothing failed */

    struct dist_job *by_id;            /* uthash */
    struct dist_job *by_key;           /* those that have one */
    struct list jobs[JOB_STATE_COUNT]; /* unfinished ones by state; those of final states are empty */
    struct list finished;              /* all others, by time of end */
    struct list touched;               /* those that this step changed; empty between steps */
    struct list accepted;              /* every job kept that was accepted, oldest first */
    struct list handed;                /* unfinished jobs that central has or is to get */
    struct list unattended;            /* unfinished jobs whose client is not there, longest first */
    struct list settling;              /* read back, not probed for yet */
    int64_t settle_at;  /* when to look whether every worker has reported; TIME_NEVER: nothing settles */
    int64_t settle_end; /* when to go on without */
    struct heap timers;
    struct place_table places;
    struct dist_pool pool[POOL_COUNT];
    struct dist_app *apps;    /* uthash */
    struct dist_node **nodes; /* by id, NODE_CHUNK after each other: dist_node_find */
    uint32_t nodes_n;         /* ids that have a place in there, or could have one */
    struct list awaited;      /* nodes to look at when beat_at has come */
    int64_t beat_at;          /* TIME_NEVER: nothing is waited for */
    struct dist_node **drawn; /* scratch of one round of probing */
    uint32_t drawn_n, drawn_cap;

    uint32_t jobs_unfinished, jobs_finished;   /* in the table */
    uint32_t tasks_unfinished, tasks_finished; /* tasks of unfinished and of finished jobs */
    uint64_t bytes_unfinished, bytes_finished; /* of their descriptions, and of what their tasks returned */
    uint32_t tasks_in[TASK_STATE_COUNT];       /* tasks of unfinished jobs, by state */

    struct dist_report *reports; /* owed to central, at most REPORTS_MAX */
    uint32_t reports_n, reports_cap;

    int64_t heartbeat_us; /* interval */
    int64_t lease_us;     /* by then whatever a lost worker left behind has ended */
    int64_t heartbeat_at; /* TIME_NEVER: none due */
    int64_t audit_at;     /* TIME_NEVER: no doubt */
    int64_t doubt_us;     /* the last time a worker was lost; -1 never */
    uint32_t heartbeat_seq;
    uint64_t counters[COUNTER_COUNT];
    uint64_t counters_told[COUNTER_COUNT];
    bool joined;       /* has been, at least once */
    bool central_up;   /* joined on the present stream */
    int64_t joined_us; /* since then */
    bool central_stream;
    bool stopping;
    bool leaving;             /* does so as soon as no client and no launch waits for the journal */
    bool drained;             /* by an operator: takes no new jobs */
    bool told_empty;          /* central was told that no job is left */
    uint32_t central_version; /* what the link to central is spoken in */
    bool stopped;
};

#endif
