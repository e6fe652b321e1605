/* Central's state: private to central/. What others may read of it is in central.h. */
#ifndef HAWK_CENTRAL_STATE_H
#define HAWK_CENTRAL_STATE_H

#include "base/err.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/units.h"
#include "central/config.h"
#include "central/waiting.h"
#include "msg/msg.h"
#include "owner/messages.h"
#include "owner/starts.h"

#include <uthash.h>

/* ---- Nodes ---- */

/* A stream to some node, from PEER_UP to PEER_LOST. */
struct link {
    uint32_t id;       /* 0: an empty place of the table */
    uint8_t role;      /* enum role: as it was opened */
    bool waits;        /* one of central.joins_waiting came by it */
    struct node *node; /* NULL before it joined, and after another stream took its place */
};

/* By number, each at the first free place from that of its low bits on. Pointers into it hold until one is added or removed. */
struct links {
    struct link *v;
    uint32_t n, mask;
};

/* A JOIN that waits for the end of recovery. */
struct early_join {
    struct list entry; /* central.joins_waiting */
    uint32_t link;
    struct msg m;
};

enum node_state {
    NODE_AWAY,    /* known by name only: gone, left, or never seen by this central */
    NODE_JOINING, /* its id is being journalled */
    NODE_UP,
    NODE_SUSPECT, /* silent, or its stream broke */
    NODE_STATE_COUNT
};

/* An application: some worker serves it, or some long job is for it. */
struct central_app {
    UT_hash_handle hh;
    uint64_t id;
    struct blob *name;
    struct node **nodes; /* that serve it */
    uint32_t nodes_n, nodes_cap;
    uint32_t jobs;
    struct list unplaced; /* long_task.w.link: tasks that wait for one of these */
    struct list waiting;  /* in central.apps_waiting while there are any */
};

/* How many nodes have each bit of a set of applications (app_set). */
struct app_counts {
    uint64_t any; /* the bits that some have */
    uint32_t n[64];
};

/* A dist or worker.
 *
 *   state = UP => it has a link, and its id is journalled;  a link of it names it
 *   counted <=> it is there, not drained and not out of service (node_counts)
 *   a worker that is not UP is in none of push, parked, stuck
 *   waiting.eligible <=> long tasks may be placed there (central_node_eligible)   (Hawk 3.4) */
struct node {
    /* What nearly every message from it or to it looks at: two cache lines. */
    _Alignas(64) uint8_t state; /* enum node_state */
    node_id_t id;
    uint32_t link;      /* 0: none */
    uint32_t joins;     /* how often it joined: tasks carry the number they were seen at last */
    uint32_t processes; /* how many processes of this name joined: watchers carry the number of theirs */
    int64_t heard_us;
    uint8_t role;
    uint8_t drain;  /* enum drain: what an operator wants */
    bool draining;  /* it is stopping */
    bool reporting; /* it was let in and has not said yet what it holds: one of central.n_reporting */
    bool held_off;  /* it handed a long task back, and nothing was heard since */
    bool counted;   /* a worker: its slots are part of the cluster */
    bool general;   /* which partition central wants it in */
    bool acked;     /* and it knows */
    uint32_t room;  /* long tasks that it asked for and was not promised yet (POLICY_LATE_LONG) */
    uint32_t sent;  /* TASK_ENQUEUE since it joined, and those to be sent once they are on record */
    struct waiting_worker waiting; /* a worker's long tasks */

    struct list by_state; /* in central.by_state[state]; up: least recently heard first */
    bool journalled;      /* its id is durable */
    bool empty;           /* drained, and it says that nothing is left there */
    bool awaited;         /* one of central.n_awaited */
    int64_t suspect_us;
    int64_t drain_us, heartbeat_at; /* when it was drained; when its last heartbeat came */
    struct blob *name, *addr;
    uint64_t incarnation;
    uint32_t version;  /* of the protocol, as its link is spoken */
    uint64_t next_seq; /* a dist: it may have given out the job numbers below; 0: not known */

    /* Workers. */
    uint32_t slots;
    uint32_t epoch;  /* of the last PARTITION */
    uint32_t listed; /* version of the last MEMBERS it was sent */
    /* In central's lists of these names, or in none; a dist's push: in dists. */
    struct list push, changed, untold, parked, stuck;
    struct list out;           /* in central.out_of_service while it has taken itself out of service */
    struct blob *out_why;      /* as it said last; NULL: never */
    struct heap_node rank;     /* while tasks of an application are placed, by waiting time */
    struct central_app **apps; /* that it serves */
    uint32_t n_apps, apps_cap;
    uint64_t app_set;    /* of them */
    uint64_t stuck_apps; /* while it is stuck: who serves none of these gets nothing there; 0: anybody may */
    uint32_t hinted;     /* the round of hints that it had one in */

    uint32_t queued, running_short, running_long, paused, jobs_unfinished; /* its last heartbeat */
    uint64_t *counters; /* COUNTER_COUNT of them, as it reported them; NULL: none yet */
    UT_hash_handle hh;
};

/* ---- Long jobs ---- */

enum task_place {
    PLACE_NONE,   /* its job is not journalled yet, or it is over */
    PLACE_QUEUE,  /* waits for a worker: in central.unplaced, or in that of its application */
    PLACE_WORKER, /* at one: in node.waiting, queued or running */
    PLACE_LIMBO,  /* at a worker that is not here, until its lease is over: in central.limbo, by w.due_us */
};

/* A task. `place` says in which list w.link is.
 *
 *   place = WORKER <=> w.worker is not NULL;  place = WORKER => state is PLACED or RUNNING, RUNNING <=> w.running
 *   place = QUEUE => state = WAITING
 *   state is final => place = NONE;  durable => state is final
 *   its job is being journalled => place = NONE, state = WAITING */
struct long_task {
    struct waiting_task
        w; /* its link is in the list of `place`; due_us in PLACE_LIMBO: when it is placed again */
    struct long_job *job;
    int64_t wait_us, run_us;
    node_id_t worker; /* where it is or was last */
    int32_t code;
    uint32_t seen;      /* node.joins of its worker when that was known to have it */
    uint16_t attempt;   /* of the latest launch; 0: none yet */
    uint16_t losses;    /* launches lost after they had started */
    uint16_t unstarted; /* launches that their workers could not start */
    uint8_t state;      /* enum task_state */
    uint8_t place;      /* enum task_place */
    uint8_t outcome;
    bool durable : 1;   /* final, and journalled */
    bool cancelled : 1; /* to be: its worker was told */
    bool unsure : 1;    /* from the journal: attempts later than `attempt` may be about */
    bool reported : 1;  /* its end came from a worker, which keeps it until acknowledged */
    bool unsent : 1;    /* at a worker that does not know yet: its launch is being recorded */
    bool recalled : 1;  /* its worker was asked to hand it back */
};

/* What a task returned. */
struct long_result {
    struct list link; /* central.results_untold or results_told */
    struct long_task *task;
    struct blob *result;
};

enum long_state {
    LONG_JOURNALLING, /* not accepted yet */
    LONG_ACTIVE,
    LONG_ENDING,    /* every task is final; the end is being journalled */
    LONG_FINISHED,  /* kept a while for a watcher that may have missed something */
    LONG_UNCLAIMED, /* finished while its dist was away: kept till that asks, or room is needed */
    LONG_STATE_COUNT
};

#define WATCHERS_MAX 4u

struct long_key {
    uint64_t job;
    uint64_t epoch;
};

/* A job, or what was promoted of one.
 *
 *   released <= releasing <= n
 *   final = done + failed + cancelled + lost = its tasks in final states,  durable <= final <= n
 *   state = ACTIVE <=> durable < n, once it is accepted
 *   it is in central.orphans <=> state = ACTIVE, it is not cancelled, and nobody claims it */
struct long_job {
    /* What each of its tasks' reports looks at: three cache lines, and the task's own. */
    UT_hash_handle hh;
    struct long_key key;
    struct task_set *set; /* NULL: every task of desc */
    uint32_t n;
    uint32_t final, durable, done, failed, cancelled, lost; /* tasks */
    enum long_state state;
    /* Of its tasks that are bound late the first `released` may be sent, as is on record; `releasing` are being put on
     * record. Both are n where no record is kept. */
    uint32_t released, releasing;
    int64_t estimate_us;
    int64_t since_us; /* when central got it */
    bool recovered;   /* from the journal, which does not say for how long it had been there */
    struct job_desc *desc;
    struct central_app *app;      /* NULL: it is for none */
    struct long_result **results; /* by task; NULL: none has returned anything */
    unsigned __int128 run_us;     /* of done tasks */
    uint32_t n_watchers;
    struct watcher {
        node_id_t dist;
        uint32_t told;    /* the stream it was told the end on; 0: none */
        uint32_t process; /* of that dist, which said so; 0: none did, but the journal */
        uint16_t owner;   /* its epoch */
    } watchers[WATCHERS_MAX];

    struct list by_state; /* in central.jobs[state], in the order they got there */
    struct list touched;  /* in central.touched */
    struct list orphan;   /* in central.orphans: nobody waits for it */
    int64_t orphan_us;    /* then: when it is cancelled, by that list's clock */
    int64_t ended_us;
    uint16_t
        owner; /* the greatest epoch of a dist that has it: what one with a smaller one wants does not count */
    uint8_t why;
    bool cancel;
    bool abandoned;                 /* cancelled because nobody waited for it */
    bool started;                   /* some task has */
    struct owner_messages messages; /* of its tasks, by their places in `tasks` */
    struct owner_starts starts;
    struct long_task tasks[];
};

/* ---- The journal ---- */

enum record_kind {
    RECORD_NODE,
    RECORD_CLUSTER,
    RECORD_DRAIN,
    RECORD_POLICY,
    RECORD_JOB,
    RECORD_TASK,   /* its end */
    RECORD_LAUNCH, /* of a task at most once: it is sent when this is written */
    RECORD_JOB_END,
    RECORD_RELEASED, /* of which more tasks may be sent when this is written (POLICY_LATE_LONG) */
    RECORD_UNDO, /* a job that was refused since it could not be written, should the journal have it all the same */
    /* From here on nobody waits for it, and nobody remembers what it was about. */
    RECORD_CANCEL,
    RECORD_OWNER,
    RECORD_NOTE, /* a task that is launched again */
};

/* Something that was put out to be journalled, or that could not be and will be again. */
struct record {
    uint64_t token;
    enum record_kind kind;
    union {
        uint32_t client; /* RECORD_DRAIN, RECORD_CANCEL, RECORD_POLICY: who asked for it; 0: nobody waits */
        uint32_t upto;   /* RECORD_RELEASED */
    };
    union {
        struct node *node;
        struct long_job *job;
        struct long_task *task;
        struct try_id launch; /* RECORD_LAUNCH: the task may have ended before it is written */
        struct long_key
            of_job; /* RECORD_UNDO, RECORD_CANCEL, RECORD_RELEASED: the job may be gone before it is written */
    };
};

/* A queue of records, oldest first. In central.pending tokens rise. */
struct records {
    struct record *v;
    uint32_t head, n, cap; /* cap is a power of two */
};

/* ---- All of it ---- */

struct central {
    struct central_config cfg;
    struct policy policy;
    struct policy_choice *choice; /* what an operator chose of it; NULL: nothing */
    int64_t chosen_us;            /* when that was; may lie before time 0 */
    uint64_t configured;          /* a hash of what was configured then */
    struct history history;

    /* Of the event being handled. */
    int64_t now_us;
    struct out *out;
    struct node *from; /* who sent what is being handled, where it has joined */

    bool recovered, stopping, stopped;
    int64_t settle_us; /* until then nobody is told its partition; TIME_NEVER: all may be */

    struct links links;
    struct list joins_waiting;

    /* Whether it goes on for a central that lost its state (protocol 1.8). */
    int64_t ids_at_us;   /* until then new ids wait for a node that had one; TIME_NEVER: they do not */
    bool successor;      /* it goes on for such a central */
    uint64_t former;     /* the cluster of that central; 0: not known */
    int64_t young_us;    /* what that central placed may run until then; TIME_NEVER: not any more */
    uint32_t first_node; /* new ids begin here */

    struct node *names;  /* by name */
    struct node **nodes; /* by id; [0] is unused, gaps are NULL */
    uint32_t nodes_end, nodes_cap, n_nodes;
    struct list by_state[NODE_STATE_COUNT];
    uint64_t slots, slots_reserved; /* of counted workers */
    struct list out_of_service;     /* nodes that have taken themselves out of service, the latest last */
    bool service_look;              /* who counts has changed: perhaps some must be back */
    uint32_t n_workers, n_general;  /* counted; of them wanted in the general partition */
    uint32_t general_first;         /* no counted general worker has a smaller id */
    uint32_t reserved_last;         /* no counted reserved worker has a larger id */
    uint32_t general_with[LIMIT_SLOTS + 1]; /* counted general workers by slots */

    struct list dists;   /* joined and with a stream */
    struct list changed; /* nodes that dists are to hear of at the end of this step */
    struct list untold;  /* workers that are to hear of their partition */
    uint32_t n_awaited;  /* general workers told first after a restart that have not acknowledged */
    int64_t hold_us;     /* until when placement waits for these */

    uint32_t members_version;
    struct members *dist_list, *worker_list; /* cached; NULL: stale */
    int64_t worker_list_bytes;
    struct list push;     /* joined workers, the one whose list is oldest first */
    int64_t push_next_us; /* no member list to workers before */

    struct list parked, stuck; /* in turn */
    uint32_t n_parked, n_stuck;
    uint32_t n_stuck_any;                      /* stuck with something for anybody */
    struct app_counts parked_apps, stuck_apps; /* what parked ones serve; what the other stuck ones need */
    uint32_t hint_round;
    int64_t hint_next_us;
    bool relieved;            /* a stuck worker is not any more, in this step */
    bool long_work;           /* what workers were told */
    int64_t long_work_off_us; /* when they are told there is none; TIME_NEVER */

    int64_t recall_us; /* when to look for long tasks that would start sooner elsewhere; TIME_NEVER */

    struct waiting waiting;
    struct long_job *long_jobs; /* by (job, epoch) */
    struct list jobs[LONG_STATE_COUNT];
    uint32_t n_jobs[LONG_STATE_COUNT];
    uint64_t tasks_held; /* memory for tasks, whatever their job's state */
    uint64_t
        tasks_recovered; /* of them, when it started: a limit that was lowered since does not lose them */
    uint64_t tasks_in[TASK_STATE_COUNT];      /* of active and ending jobs */
    struct list unplaced;                     /* long_task.w.link */
    struct central_app *apps;                 /* by number */
    struct list apps_waiting;                 /* with unplaced tasks */
    struct list results_untold, results_told; /* struct long_result; the latter make room */
    uint64_t results_bytes;
    struct list limbo;   /* tasks at workers that are not here, by w.due_us: when each is placed again */
    bool unwanted;       /* some of them were cancelled, and end when all workers have reported */
    struct list touched; /* jobs of which as many tasks failed as may: cancelled at the end of this step */
    struct list orphans; /* active jobs that nobody waits for, by orphan_us */
    int64_t orphan_clock_us,
        orphan_since_us; /* that clock at the latter time; it goes on while a dist is up */
    uint32_t dists_up, dists_suspect;
    uint32_t n_reporting; /* workers that were let in and have not said yet which long tasks they hold */

    uint64_t token;
    struct records pending, failed;
    int64_t retry_us; /* when failed ones are tried again; TIME_NEVER */
    int32_t journal_err;

    uint64_t jobs_accepted, jobs_finished, jobs_reported;
    uint64_t tasks_ended[TASK_STATE_COUNT]; /* final states only */
    uint64_t counters[COUNTER_COUNT];
};

/* ---- links.c ---- */
/* NULL: there is none. */
struct link *central_link(const struct central *c, uint32_t id);
void central_link_add(struct central *c, uint32_t id, uint8_t role); /* there must be none */
void central_link_remove(struct central *c, uint32_t id);

/* ---- nodes.c: states, streams, joining; silence.c: heartbeats, leaving, suspicion ---- */
void central_on_peer_up(struct central *c, const struct msg *in);
void central_on_peer_lost(struct central *c, const struct msg *in);
void central_on_join(struct central *c, const struct msg *in);
/* Answers the JOINs that were put off: before the journal was read, and while new ids wait (ids_at_us). */
void central_nodes_join_waiting(struct central *c);
/* What the journal says of a central before. */
void central_on_journal_cluster(struct central *c, const struct msg *in);
/* The journal is read: a central without any state waits. */
void central_nodes_recovered(struct central *c);
/* Tasks that it never launched may run, launched by the central that it goes on for. */
bool central_is_young(const struct central *c);
/* A node that the journal knows. */
void central_on_journal_node(struct central *c, const struct msg *in);
/* The record of its id was written, or could not be. */
void central_nodes_journalled(struct central *c, struct node *n);
void central_on_job_numbers(struct central *c, const struct msg *in);
/* The node that a message came from, NULL when it has not joined; notes that it was heard. */
struct node *central_nodes_heard(struct central *c, uint32_t link);
void central_on_heartbeat(struct central *c, const struct msg *in);
void central_on_counter(struct central *c, const struct msg *in);
void central_on_leave(struct central *c, const struct msg *in);
/* It is stopping, and says so. */
void central_on_draining(struct central *c, const struct msg *in);
/* It hands long tasks back though nobody asked it to: until its next heartbeat it gets none. */
void central_nodes_hold(struct central *c, struct node *n, bool hold);
int64_t central_nodes_due_us(const struct central *c);
void central_nodes_run(struct central *c);
void central_nodes_free(struct central *c);
struct node *central_node_by_id(const struct central *c, node_id_t id);
/* A message to n at the end of the output; NULL when n has no stream. */
struct msg *central_send(struct central *c, const struct node *n, enum msg_type type);
/* Whether long tasks may be placed there. */
bool central_node_may_take(const struct node *n);
/* The same, and it asks for one where they are bound late. */
bool central_node_eligible(const struct central *c, const struct node *n);
/* The same, brought to the notice of the waiting-time queue. */
void central_node_update_eligible(struct central *c, struct node *n);

/* Its stream is another's now, or none's. */
void central_node_unlink(struct central *c, struct node *n);
/* It is not heard any more, and may come back. */
void central_node_suspect(struct central *c, struct node *n, enum node_change why);
/* Its lease is over, or it said good-bye: by now it runs nothing of ours. */
void central_node_gone(struct central *c, struct node *n, enum node_change why);
/* For the operator's log. */
void central_node_report(struct central *c, const struct node *n, enum node_change change);
/* Whether it still has to say what it holds. */
void central_node_set_reporting(struct central *c, struct node *n, bool reporting);

/* ---- drain.c: what operators ask of nodes ---- */
/* It has taken itself out of service. */
static inline bool node_out(const struct node *n) { return !list_empty(&n->out); }
/* Nothing new goes there: it stops, is drained, or is out of service. */
static inline bool node_refuses_work(const struct node *n)
{
    return n->draining || n->drain != DRAIN_NOT || node_out(n);
}
/* It is there, and not drained. */
static inline bool node_is_ours(const struct node *n)
{
    return (n->state == NODE_UP || n->state == NODE_SUSPECT) && n->drain == DRAIN_NOT;
}
/* Its slots are part of the cluster. */
static inline bool node_counts(const struct node *n) { return node_is_ours(n) && !node_out(n); }
/* node_refuses_work or node_counts may have changed: brings that to everybody's notice. */
void central_drain_changed(struct central *c, struct node *n);
void central_on_set_drain(struct central *c, const struct msg *in);
void central_drain_journalled(struct central *c, const struct node *n, uint32_t client, int32_t err);
/* The node answers, or nothing is left there. */
void central_on_drained(struct central *c, const struct msg *in);
/* Nothing is left at a drained node. */
bool central_drain_is_empty(const struct central *c, const struct node *n);
void central_on_stop_node(struct central *c, const struct msg *in);

/* ---- service.c: workers that take themselves out of service ---- */
void central_on_out_of_service(struct central *c, const struct msg *in);
/* Another process, or the same on another link: it tells again. n is to be counted anew. */
void central_service_forget(struct node *n);
/* Has workers back while more are out than may be, because others have gone. O(those that are out). */
void central_service_look(struct central *c);
/* Of those that are there and not drained: how many are out, and how many may be. */
uint32_t central_service_out(const struct central *c);
uint32_t central_service_limit(const struct central *c);

/* ---- members.c: who is told of whom ---- */
struct member central_member_of(const struct node *n);
/* Something of n that members show has changed. */
void central_members_changed(struct central *c, struct node *n);
/* Tells dists of what changed in this step. */
void central_members_flush(struct central *c);
void central_members_send_all(struct central *c, const struct node *dist);
int64_t central_members_due_us(const struct central *c);
void central_members_run(struct central *c);

/* ---- partition.c: which workers are reserved for short tasks ---- */
/* A worker's slots begin or cease to count. */
void central_partition_count(struct central *c, struct node *n, bool counted);
/* Moves as few workers as it takes to be right again. */
void central_partition_balance(struct central *c);
/* n is to be told where it is. */
void central_partition_tell(struct central *c, struct node *n);
/* Tells those who are to be told, unless it is too early after a restart. */
void central_partition_flush(struct central *c);
/* After a restart: workers that were there before are still waited for. */
bool central_partition_settles(const struct central *c);
/* After a restart all that waits would go to the worker that answers first: placement waits a moment for the others. */
bool central_partition_holds(const struct central *c);
int64_t central_partition_due_us(const struct central *c);
/* Where the share is less than any worker has: the least slots of one; else 0. O(that many). */
uint32_t central_partition_least(const struct central *c);
void central_on_partition_ack(struct central *c, const struct msg *in);

/* ---- policy.c: history, estimates, the policy in force ---- */
void central_policy_init(struct central *c);
/* A finished job, from a dist or central's own; recovered: it is in the store already, and nobody is told. */
void central_policy_job_finished(struct central *c, const struct msg_history *job, bool recovered);
void central_policy_recovered(struct central *c);
void central_policy_send_estimates(struct central *c, const struct node *dist);
void central_policy_send(struct central *c, const struct node *n);
/* The operator asks for another policy. */
void central_on_set_policy(struct central *c, const struct msg *in);
/* What was chosen, as the journal has it; puts out the same for it, under c->token. */
void central_on_journal_policy(struct central *c, const struct msg *in);
void central_policy_write(struct central *c);
/* The choice was written, or could not be; client asked for it. */
void central_policy_journalled(struct central *c, uint32_t client, int err);

/* ---- journal.c ---- */
/* Puts out the record of what r says, under a new token. */
void central_journal_put(struct central *c, enum record_kind kind, void *what);
/* The node as it is; client hears of it. */
void central_journal_put_drain(struct central *c, struct node *n, uint32_t client);
/* The job is cancelled; client hears of it. */
void central_journal_put_cancel(struct central *c, struct long_job *j, uint32_t client);
/* The operator's choice as it is; likewise. */
void central_journal_put_policy(struct central *c, uint32_t client);
void central_on_journal_done(struct central *c, const struct msg *in);
void central_journal_run(struct central *c);
void central_journal_free(struct central *c);

/* ---- job_table.c ---- */
struct long_job *central_jobs_find(const struct central *c, job_id_t job, uint32_t epoch);
/* NULL when the job or task is unknown. */
struct long_task *central_jobs_find_task(const struct central *c, const struct try_id *id);
/* A job that is being journalled; takes references. There must be none of this id and epoch. */
struct long_job *central_job_new(struct central *c, job_id_t job, uint32_t epoch, struct job_desc *desc,
                                 struct task_set *set);
/* Its tasks must be nowhere. */
void central_job_free(struct central *c, struct long_job *j);
void central_job_set_state(struct central *c, struct long_job *j, enum long_state state);
/* From now on dist is told of its tasks. */
struct watcher *central_job_watch(struct long_job *j, node_id_t dist);

/* ---- jobs.c: long jobs from submission to the end ---- */
void central_on_long_submit(struct central *c, const struct msg *in);
void central_on_long_cancel(struct central *c, const struct msg *in);
void central_on_long_watch(struct central *c, const struct msg *in);
void central_on_journal_job(struct central *c, const struct msg *in);
void central_on_journal_task(struct central *c, const struct msg *in);
void central_on_journal_cancel(struct central *c, const struct msg *in);
void central_on_journal_owner(struct central *c, const struct msg *in);
void central_on_journal_released(struct central *c, const struct msg *in);
/* Whether its task, by its place in long_job.tasks, may be sent: a central that restarts would know that it may have been.
 * Puts more on record when those that may become few. */
bool central_job_may_send(struct central *c, struct long_job *j, uint32_t task);
/* More of its tasks may be sent: so it is on record. */
void central_jobs_released(struct central *c, const struct long_key *key, uint32_t upto);
void central_on_journal_job_end(struct central *c, const struct msg *in);
void central_jobs_recovered(struct central *c);
void central_jobs_journalled(struct central *c, struct long_job *j, int32_t err);
void central_jobs_end_journalled(struct central *c, struct long_job *j);
/* One more task of j is final or durable: goes on to the job's next state where that is due. */
void central_jobs_progress(struct central *c, struct long_job *j);
void central_jobs_cancel_all(struct central *c, struct long_job *j);
/* Cancels those that were touched: at the end of a step, so that the end of one task moves no other while tasks are walked. */
void central_jobs_settle(struct central *c);
/* For how much longer tasks of it that no worker has reported, and that may run somewhere, wait; 0: none does. */
int64_t central_job_unreported_us(const struct central *c, const struct long_job *j);
int64_t central_jobs_due_us(const struct central *c);
void central_jobs_run(struct central *c);
void central_jobs_free(struct central *c);

/* Cancels it, durably; client, if it is not 0, is told when that is done. */
void central_job_cancel(struct central *c, struct long_job *j, uint32_t client);
/* An operator cancels whatever central has of a job. */
void central_on_cancel(struct central *c, const struct msg *in);
/* client 0: nobody asked. */
void central_jobs_answer_cancel(struct central *c, job_id_t job, uint32_t client, int err);

/* ---- orphans.c: long jobs that nobody waits for any more ---- */
/* Somebody may wait for it: it is detached, or a dist has it that is there or may come back. */
bool central_job_claimed(const struct central *c, const struct long_job *j);
/* A dist that is up has it, and shows it to whoever asks. */
bool central_job_shown(const struct central *c, const struct long_job *j);
/* What claims it may have changed. */
void central_orphans_look(struct central *c, struct long_job *j);
void central_orphans_look_all(struct central *c);
void central_orphans_count_dist(struct central *c, bool was_up, bool is_up);
/* Until it is cancelled, if a dist stays up; -1: it will not be. */
int64_t central_orphan_left_us(const struct central *c, const struct long_job *j);
int64_t central_orphans_due_us(const struct central *c);
void central_orphans_run(struct central *c);

/* ---- tasks.c: long tasks: placed, started, finished, lost ---- */
/* Its place in long_job.tasks. */
static inline uint32_t central_task_index(const struct long_task *t) { return (uint32_t)(t - t->job->tasks); }
void central_task_set_state(struct central *c, struct long_task *t, enum task_state state);
struct try_id central_task_try(const struct long_task *t);
/* Leaves wherever it is, and is nowhere. */
void central_task_forget(struct central *c, struct long_task *t);
/* Leaves wherever it is and waits for a worker. */
void central_task_queue(struct central *c, struct long_task *t);
/* Leaves wherever it is; it is placed again at due_us unless a worker turns out to have it. */
void central_task_limbo(struct central *c, struct long_task *t, int64_t due_us);
/* Who had it has it no more: another try, or the end. */
void central_task_lost(struct central *c, struct long_task *t);
/* To be cancelled: at once, or when its worker says so. */
void central_task_cancel(struct central *c, struct long_task *t);
/* Sends watchers the task's state; to == NULL: all of them. */
void central_task_tell(struct central *c, const struct long_task *t, const struct node *to);
void central_task_journalled(struct central *c, struct long_task *t);
/* The task whose launch under this id waits to be recorded; NULL: none, any more. */
struct long_task *central_task_unsent(const struct central *c, const struct try_id *id);
/* The launch of a task at most once is recorded: now it may be sent. */
void central_task_launch_journalled(struct central *c, const struct try_id *id);
void central_on_task_started(struct central *c, const struct msg *in);
void central_on_task_finished(struct central *c, const struct msg *in);
void central_on_task_returned(struct central *c, const struct msg *in);
void central_on_task_held(struct central *c, const struct msg *in);
void central_on_held_end(struct central *c, const struct msg *in);
/* The worker is gone, or another process took its name: what it had is lost, or lost at due_us. */
void central_tasks_worker_gone(struct central *c, struct node *n);
void central_tasks_worker_replaced(struct central *c, struct node *n, int64_t due_us);
/* Places everything that waits, as long as there is a worker. */
void central_tasks_place(struct central *c);
/* A worker has said what it holds. If it was the last one of all that central knows by name, what nobody reported is nowhere,
 * and is placed again. O(nodes, tasks in limbo). */
void central_tasks_all_reported(struct central *c);
/* When all workers that can be reached have said what they hold: what was cancelled meanwhile, and nobody has, ends. */
void central_tasks_end_unwanted(struct central *c);
int64_t central_tasks_due_us(const struct central *c);
void central_tasks_run(struct central *c);

/* ---- starts.c: workers that could not start tasks of a job ---- */
/* The worker with the least waiting time that j does not avoid; one that it does when there are no others. NULL: none. */
struct waiting_worker *central_starts_best(struct central *c, const struct long_job *j);
/* n, where t is placed, could not start it. False: nobody can, and the task has failed. */
bool central_starts_failed(struct central *c, struct node *n, struct long_task *t);
/* t has started at n. */
void central_starts_began(struct central *c, struct long_task *t, const struct node *n);

/* ---- recall.c: long tasks that would start sooner at a worker that came later ---- */
/* A worker has come that long tasks may be placed at. */
void central_recall_arm(struct central *c);
int64_t central_recall_due_us(const struct central *c);
/* Asks for them, if it is time. O(workers + what is asked for). */
void central_recall_run(struct central *c);

/* ---- apps.c: applications that attached executors serve, and what their long tasks return ---- */
struct central_app *central_app_get(struct central *c, struct blob *name);
/* Frees it when nothing needs it. */
void central_app_settle(struct central *c, struct central_app *a);
void central_apps_free(struct central *c); /* nodes and jobs are gone */
void central_on_app(struct central *c, const struct msg *in);
/* Tells a dist what all nodes serve, or what n does. After it has heard of them. */
void central_apps_send_all(struct central *c, const struct node *dist);
void central_apps_send(struct central *c, const struct node *dist, const struct node *n);
void central_node_forget_apps(struct central *c, struct node *n, bool tell_dists);
/* a NULL: what is for none, which every worker serves. */
bool central_node_serves(const struct node *n, const struct central_app *a);
/* The general worker that serves it with the least waiting time, or NULL. O(workers that serve it). */
struct node *central_app_best(const struct central *c, const struct central_app *a);
/* All of them in a new heap, the caller's, by node.rank. */
void central_app_rank(const struct central *c, const struct central_app *a, struct heap *h);
/* False: there is no room for it, and a message says so. */
bool central_result_keep(struct central *c, struct long_task *t, struct blob *result);
/* To be followed by the task's end. */
void central_result_send(struct central *c, const struct long_task *t, const struct node *dist);
void central_job_free_results(struct central *c, struct long_job *j);

/* ---- pairing.c: idle thieves, stuck workers, whether there is long work at all ---- */
void central_on_long_request(struct central *c, const struct msg *in);
void central_on_parked(struct central *c, const struct msg *in);
void central_on_stuck(struct central *c, const struct msg *in);
/* n serves these applications (app_set) from now on. */
void central_pairing_serves(struct central *c, struct node *n, uint64_t apps);
/* Aborts unless its counts are those of its lists. */
void central_pairing_check(const struct central *c);
void central_pairing_forget(struct central *c, struct node *n);
void central_pairing_send_long_work(struct central *c, const struct node *worker);
int64_t central_pairing_due_us(const struct central *c);
/* Hints that are due, and the edge of LONG_WORK. */
void central_pairing_run(struct central *c);

#endif
