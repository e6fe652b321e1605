/* Central's state: private to central/. central.h shows what others may read. */
#ifndef HAWK_CENTRAL_STATE_H
#define HAWK_CENTRAL_STATE_H

#include "base/err.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/units.h"
#include "central/config.h"
#include "central/end_times.h"
#include "central/kept.h"
#include "central/waiting.h"
#include "msg/msg.h"
#include "owner/messages.h"
#include "owner/pauses.h"
#include "owner/starts.h"

#include <uthash.h>

/* ---- Nodes ---- */

/* A stream to a node, from PEER_UP to PEER_LOST. */
struct link {
    uint32_t id;              /* 0: the place in the table is empty */
    uint8_t role;             /* enum role: its role when it was opened */
    struct early_join *early; /* in central.joins_waiting, or NULL */
    struct node *node;        /* NULL before it joined, and after another stream took its place */
    bool left;                /* its node said LEAVE: it joins on another stream */
};

/* A hash table by number, with open addressing from the place of the number's low bits. Pointers into it are
 * valid until a link is added or removed. */
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
    NODE_AWAY,    /* only the name is known: gone, left, or never seen by this central */
    NODE_JOINING, /* its id is being journalled */
    NODE_UP,
    NODE_SUSPECT, /* silent, or its stream broke */
    NODE_STATE_COUNT
};

struct central_app {   /* as struct dist_app; jobs are long ones */
    UT_hash_handle hh; /* by key */
    struct blob *key, *name, *user;
    struct central_app *shared;
    struct list own;
    struct node **nodes; /* the nodes that serve it */
    uint32_t nodes_n, nodes_cap;
    uint32_t jobs;
    struct kept kept;    /* jobs with tasks that wait for one of these nodes */
    struct list waiting; /* in central.apps_waiting while there are such jobs */
};

/* For each bit of a set of applications (app_set): how many nodes have it. */
struct app_counts {
    uint64_t any; /* the bits that at least one node has */
    uint32_t n[64];
};

/* A dist or worker.
 *
 *   state = UP => it has a link, and its id is journalled;  a link of it names it
 *   counted <=> it is there, not drained and not out of service (node_counts)
 *   a worker that is not UP is in none of push, parked, stuck
 *   waiting.eligible <=> long tasks may be placed there (central_node_eligible)   (Hawk 3.4) */
struct node {
    /* First the fields that nearly every message from or to the node needs: two cache lines. */
    _Alignas(64) uint8_t state; /* enum node_state */
    node_id_t id;
    uint32_t link;      /* 0: none */
    uint32_t joins;     /* how often it joined; a task has the number of the join in which it was seen last */
    uint32_t processes; /* how many processes of this name joined; a watcher has the number of its process */
    int64_t heard_us;
    uint8_t role;
    uint8_t drain, freezer; /* enum drain: the operator's wish; as HEARTBEAT has it */
    bool draining;          /* it is stopping */
    bool reporting; /* it was let in, and has not reported what it holds: counted in central.n_reporting */
    bool held_off;  /* central_nodes_hold() */
    bool counted;   /* a worker: its slots are part of the cluster */
    bool general;   /* the partition that central chose for it */
    bool acked;     /* it has acknowledged its partition */
    uint32_t room;  /* long tasks that it asked for and that central has not sent yet (POLICY_LATE_LONG) */
    uint32_t sent;  /* TASK_ENQUEUE since it joined, with those that wait for their record */
    struct waiting_worker waiting; /* the worker's long tasks */

    struct list by_state;           /* in central.by_state[state]; NODE_UP: the least recently heard first */
    bool journalled;                /* its id is durable */
    bool empty;                     /* it is drained, and says that it has no work left */
    bool awaited;                   /* counted in central.n_awaited */
    int64_t suspect_us, ends_us;    /* ends_us: when a worker's tasks must have ended; TIME_NEVER: no end */
    int64_t drain_us, heartbeat_at; /* when it was drained; when its last heartbeat came */
    struct blob *name, *addr;
    uint64_t incarnation;
    uint32_t version;  /* protocol version of its link */
    uint64_t next_seq; /* a dist: it may have given out the job numbers below this one; 0: not known */

    /* Fields of workers. */
    uint32_t slots;
    uint32_t epoch;  /* of the last PARTITION */
    uint32_t listed; /* version of the last MEMBERS that it got */
    /* In central's lists of these names, or in none; a dist's push is in central.dists. */
    struct list push, changed, untold, parked, stuck;
    struct list out;           /* in central.out_of_service while it is out of service by itself */
    struct blob *out_why;      /* its last reason; NULL: never out */
    struct heap_node rank;     /* while tasks of an application are placed: by waiting time */
    struct central_app **apps; /* the applications that it has told */
    uint32_t n_apps, apps_cap;
    uint64_t app_set; /* their bits */
    /* While it is stuck: a thief that serves none of these gets nothing there; 0: any thief can help. */
    uint64_t stuck_apps;
    struct blob *serves; /* whose commands alone it runs; NULL: everybody's */
    uint32_t user;       /* his user_number() */
    /* In central.owned if it serves one user; in central.owned_takers if it takes tasks of his now. */
    struct list own, own_taker;
    uint32_t hinted; /* the last round in which it got a hint */
    uint32_t queued, running_short, running_long, paused, jobs_unfinished; /* from its last heartbeat */
    uint64_t *counters; /* COUNTER_COUNT values, as it reported them; NULL: none yet */
    UT_hash_handle hh;
};

/* ---- Long jobs ---- */

enum task_place {
    PLACE_NONE,    /* its job is not journalled yet, or the task has ended */
    PLACE_QUEUE,   /* it waits for a worker: in long_job.kept */
    PLACE_WORKER,  /* it is at a worker: in node.waiting, queued or running */
    PLACE_LIMBO,   /* perhaps at a worker that is away, until its lease ends: in central.limbo, by w.due_us */
    PLACE_DELAYED, /* it failed, and waits for its time: in central.delayed, by w.timer */
};

/* A task. `place` says in which list w.link is.
 *
 *   place = WORKER <=> w.worker is not NULL;  place = WORKER => state is PLACED or RUNNING, RUNNING <=> w.running
 *   place in {QUEUE, DELAYED} => state = WAITING;  state is final => place = NONE;  durable => state is final
 *   place = DELAYED => not unsure, not cancelled, outcome is not NONE
 *   its job is being journalled => place = NONE, state = WAITING */
struct long_task {
    /* In the list or heap of `place`. LIMBO: at due_us its try counts as lost. If it turns out before that no worker
     * has it, it is placed again, and not before not_before_us. */
    struct waiting_task w;
    struct long_job *job;
    int64_t wait_us, run_us;
    node_id_t worker; /* the worker that has it, or had it last */
    int32_t code;
    union {
        uint32_t seen;     /* node.joins of its worker when the worker last had it */
        struct usage used; /* if the state is final */
    };
    uint16_t attempt;          /* of the latest launch; 0: none yet */
    uint16_t losses, failures; /* tries lost after their start; tries that failed and another followed */
    uint16_t unstarted;        /* launches that workers could not start */
    uint8_t state;             /* enum task_state */
    uint8_t place;             /* enum task_place */
    uint8_t outcome;           /* not final: of the last try, if it failed and is to run again */
    bool durable : 1;          /* final, and journalled */
    bool cancelled : 1;        /* it must be cancelled; its worker was told */
    bool unsure : 1;           /* an earlier central may have made later attempts than `attempt` */
    bool reported : 1;         /* a worker reported its end, and keeps it until acknowledged */
    bool unsent : 1;           /* at a worker that does not know yet: the launch is being recorded */
    bool recalled : 1;         /* its worker was asked to hand it back */
};

/* The result of a task. */
struct long_result {
    struct list link; /* in central.results_untold or results_told */
    struct long_task *task;
    struct blob *result;
};

enum long_state {
    LONG_JOURNALLING, /* not accepted yet */
    LONG_ACTIVE,
    LONG_ENDED,     /* its watchers are told; the journal has it until they have certainly heard */
    LONG_ENDING,    /* they have: the job's end is being journalled */
    LONG_FINISHED,  /* kept for a while, for a watcher that may have missed the end */
    LONG_UNCLAIMED, /* ended while its dist was away: kept until that dist asks, or its room is needed */
    LONG_STATE_COUNT
};

#define WATCHERS_MAX 4u

struct long_key {
    uint64_t job;
    uint64_t epoch;
};

/* A job, or the promoted part of one.
 *
 *   released <= releasing <= n
 *   final = done + failed + cancelled + lost = its tasks in final states,  durable <= final <= n
 *   state = ACTIVE <=> durable < n, once it is accepted
 *   it is in central.orphans <=> state = ACTIVE, it is not cancelled, and no dist claims it */
struct long_job {
    /* First the fields that each report of a task needs: three cache lines, and the task's own. */
    UT_hash_handle hh;
    struct long_key key;
    struct task_set *set; /* its tasks; NULL: every task of desc */
    uint32_t n;
    uint32_t final, durable;          /* numbers of tasks */
    uint32_t ended[TASK_STATE_COUNT]; /* by final state */
    enum long_state state;
    /* Late binding: the first `released` tasks may be sent, as the journal records; the record of `releasing`
     * is being written. Both are n if no record is kept. */
    uint32_t released, releasing;
    int64_t estimate_us;
    int64_t since_us; /* when central got it, or began to live */
    int64_t
        first_us; /* when the first central got it; may be before time 0, if the machine was started since */
    bool inherited; /* from the journal, or offered to a young central: its age is not known */
    struct job_desc *desc;
    struct central_app *app;      /* NULL: it needs none */
    struct kept_user *user;       /* whose it is */
    struct long_result **results; /* by task; NULL: no task has a result */
    unsigned __int128 run_us;     /* sum over done tasks */
    uint32_t n_watchers;
    struct watcher {
        node_id_t dist;
        uint32_t told;    /* the stream on which it was told the end; 0: none */
        uint32_t process; /* number of the dist's process that said so; 0: only the journal does */
        uint16_t owner;   /* epoch of its ownership */
    } watchers[WATCHERS_MAX];

    struct list parts;    /* with the other parts of this job, in the order of arrival */
    struct list by_state; /* in central.jobs[state], in the order of arrival */
    struct list touched;  /* in central.touched */
    /* Its tasks that wait for a worker, by long_task.w.link. While there are any, `turn` is in its user's heap.
     * turn.seq numbers jobs in the order of arrival. */
    struct list kept;
    struct list apart; /* in central.end_times.apart: then it is in no heap */
    struct heap_node turn;
    int64_t size_us;            /* the size that `turn` goes by (central/kept.h) */
    uint32_t running;           /* its tasks that run at workers; those that stand still count */
    uint32_t ageing;            /* of these, those that do not stand still */
    __int128 ages_us;           /* how long the running ones have run together, less ageing x now */
    struct list orphan;         /* in central.orphans: nobody waits for it */
    int64_t orphan_us;          /* then: when it is cancelled, by the orphans' clock */
    int64_t ended_us;           /* from LONG_ENDED on: when that was; after a restart, when central read it */
    int64_t kept_since_us;      /* since when it has been kept in this state */
    uint16_t owner, hold_owner; /* the greatest epoch of a dist that has it, and that held it: watch_job() */
    uint8_t why;
    bool cancel, held; /* held: none of its tasks is placed */
    bool unheard;      /* read from the journal, and no dist has named it since: none is placed either */
    bool held_here;    /* then: a client held it at central */
    /* A client released it at central, and its owner may not know: an earlier hold counts no more. */
    bool released_here;
    bool abandoned;                 /* cancelled as an orphan */
    struct owner_messages messages; /* messages of its tasks, by their places in `tasks` */
    struct owner_pauses pauses;     /* pauses of its tasks, by these places as well */
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
    RECORD_TASK,   /* a task's end */
    RECORD_LAUNCH, /* a launch of an at-most-once task, which is sent when this is written */
    RECORD_JOB_END,
    RECORD_RELEASED, /* more tasks of the job may be sent when this is written (POLICY_LATE_LONG) */
    RECORD_FORGET, /* removes a job that is not here any more: it was refused, or nobody has asked for its end */
    RECORD_WAITS, /* the job is held, or not any more */
    /* Nothing waits for the kinds from here on but a client: a failed record is not put out again. */
    RECORD_CANCEL,
    RECORD_OWNER,
    RECORD_NOTE, /* another try of a task */
    RECORD_ADMISSION,
};

/* A record that waits for the journal, or that could not be written and will be put out again. */
struct record {
    uint64_t token;
    enum record_kind kind;
    union {
        /* RECORD_DRAIN, _CANCEL, _POLICY, _WAITS, _ADMISSION: the client that waits for it; 0: none. */
        uint32_t client;
        uint32_t upto; /* RECORD_RELEASED */
    };
    union {
        struct node *node;
        struct long_job *job;
        struct long_task *task;
        struct try_id launch; /* RECORD_LAUNCH: a copy, because the task may end before it is written */
        /* RECORD_FORGET, _CANCEL, _RELEASED, _WAITS: a copy, because the job may be gone before it is written. */
        struct long_key of_job;
    };
};

/* A queue of records, oldest first. In central.pending tokens rise. */
struct records {
    struct record *v;
    uint32_t head, n, cap; /* cap is a power of two */
};

/* ---- The whole state ---- */

struct central {
    struct central_config cfg;
    struct policy policy;
    struct policy_choice *choice; /* what an operator chose of the policy; NULL: nothing */
    int64_t chosen_us;            /* when the operator chose; may be before time 0 */
    uint64_t configured;          /* a hash of the configuration at that time */
    struct history history;

    /* Of the event that is handled. */
    int64_t now_us;
    struct out *out;
    struct node *from; /* the sender of the message, if it has joined */

    bool recovered, stopping, stopped;
    int64_t recovered_us; /* when the journal was read */
    bool knew_nodes;      /* it named nodes */
    /* No worker hears its partition before this time or before all are back; TIME_NEVER: that time is over. */
    int64_t settle_us;

    struct links links;
    struct list joins_waiting;

    /* If central continues for one that lost its state (protocol 1.8): */
    int64_t ids_at_us;   /* until then new ids wait for a node that has one; TIME_NEVER: they do not wait */
    bool successor;      /* it continues for such a central */
    uint64_t former;     /* that central's cluster; 0: not known */
    int64_t young_us;    /* tasks that it placed may run until then; TIME_NEVER: none may */
    uint32_t first_node; /* the first new id */

    struct node *names;  /* by name */
    struct node **nodes; /* by id; [0] is unused, gaps are NULL */
    uint32_t nodes_end, nodes_cap, n_nodes;
    struct list by_state[NODE_STATE_COUNT];
    uint64_t slots, slots_reserved; /* of counted workers */
    struct list out_of_service;     /* nodes that are out of service by themselves, the latest last */
    bool service_look;              /* workers have changed in number: perhaps some must return to service */
    uint32_t n_workers, n_general;  /* counted workers; those of them that are general */
    uint32_t general_first;         /* no counted general worker has a smaller id */
    uint32_t reserved_last;         /* no counted reserved worker has a larger id */
    uint32_t general_with[LIMIT_SLOTS + 1]; /* counted general workers by slots */

    struct list dists;   /* joined dists with a stream */
    struct list changed; /* nodes whose change dists hear of at the end of this step */
    struct list untold;  /* workers that get their partition */
    uint32_t n_awaited;  /* general workers that were told after a restart and have not acknowledged */
    int64_t hold_us;     /* placement waits for these until then */

    uint32_t members_version;
    struct members *dist_list, *worker_list; /* cached; NULL: out of date */
    int64_t worker_list_bytes;
    struct list push;     /* joined workers; the one with the oldest list is first */
    int64_t push_next_us; /* earliest time of the next member list to workers */

    struct list parked, stuck; /* in turn */
    uint32_t n_parked, n_stuck;
    uint32_t n_stuck_any; /* stuck workers that any thief can help */
    /* What parked thieves serve; what the other stuck workers need. */
    struct app_counts parked_apps, stuck_apps;
    uint32_t hint_round;
    int64_t hint_next_us;
    bool relieved;            /* a stuck worker was relieved in this step */
    bool long_work;           /* what workers were told last */
    int64_t long_work_off_us; /* when workers are told that there is none; TIME_NEVER */

    int64_t recall_us, demand_us; /* when to look for tasks to recall, at what short jobs use; TIME_NEVER */
    bool recall_more;             /* the last look stopped at its limit */
    struct waiting waiting;
    struct long_job *long_jobs; /* the oldest part of each job, by key.job */
    struct list jobs[LONG_STATE_COUNT];
    uint32_t n_jobs[LONG_STATE_COUNT];
    uint32_t n_unheard;       /* jobs that are `unheard` */
    uint64_t tasks_held;      /* tasks in memory, whatever their job's state */
    uint64_t tasks_recovered; /* those of them from the journal: lowering the limit does not lose them */
    uint64_t tasks_in[TASK_STATE_COUNT]; /* of active and ending jobs */
    struct kept kept;                    /* jobs with tasks that wait for any worker */
    uint64_t kept_slots, kept_step;      /* the slots by which jobs have sizes; the number of this step */
    struct central_app *apps;            /* by key */
    struct end_times end_times;
    struct list owned, owned_takers; /* workers that run one user's commands alone; that take tasks now */
    struct list apps_waiting;        /* applications with jobs in `kept` */
    struct list results_untold, results_told; /* struct long_result; results_told may be removed for room */
    uint64_t results_bytes;
    struct list limbo;   /* tasks at workers that are away, by w.due_us: when each is placed again */
    struct heap delayed; /* tasks that failed, by when each is placed again */
    bool unwanted;       /* some in limbo were cancelled, and end when all workers have reported */
    struct list touched; /* jobs that reached max_fails: central_jobs_settle() cancels them */
    struct list orphans; /* active jobs that nobody waits for, by orphan_us */
    int64_t orphan_clock_us, orphan_since_us; /* their clock, and when it was read; orphans.c */
    uint32_t dists_up, dists_suspect;
    uint32_t n_reporting; /* workers that were let in and have not reported the long tasks that they hold */

    struct admission *admissions; /* uses of invitations, oldest first */
    uint32_t admissions_n, admissions_cap;
    uint64_t token;
    struct records pending, failed;
    int64_t retry_us; /* when to put out failed records again; TIME_NEVER */

    uint64_t jobs_seen, tasks_delayed; /* number long_job.turn, long_task.w.timer */
    uint64_t counters[COUNTER_COUNT];
};

/* ---- links.c ---- */
/* The link, or NULL. */
struct link *central_link(const struct central *c, uint32_t id);
void central_link_add(struct central *c, uint32_t id, uint8_t role); /* there must be no such link */
void central_link_remove(struct central *c, uint32_t id);

/* ---- nodes.c: states, streams, joining ---- */
void central_on_peer_up(struct central *c, const struct msg *in);
void central_on_peer_lost(struct central *c, const struct msg *in);
void central_on_join(struct central *c, const struct msg *in);
/* Handles the JOINs that were put off, while the journal was read or while new ids waited (ids_at_us). */
void central_nodes_join_waiting(struct central *c);
/* The journal's record of an earlier central. */
void central_on_journal_cluster(struct central *c, const struct msg *in);
/* The journal is read. A central without any state begins to wait for ids. */
void central_nodes_recovered(struct central *c);
/* O(nodes in the state). */
bool central_any_node(const struct central *c, enum role role, enum node_state state);
/* Whether tasks may run that another central launched, for which this one continues. */
bool central_is_young(const struct central *c);
/* A node in the journal. */
void central_on_journal_node(struct central *c, const struct msg *in);
/* The record of the node's id was written. */
void central_nodes_journalled(struct central *c, struct node *n);
void central_on_job_numbers(struct central *c, const struct msg *in);
/* The node that sent a message; NULL: it has not joined. Notes that central heard it. */
struct node *central_nodes_heard(struct central *c, uint32_t link);
void central_nodes_free(struct central *c);
struct node *central_node_by_id(const struct central *c, node_id_t id);
/* Adds a message to n at the end of the output; NULL: n has no stream. */
struct msg *central_send(struct central *c, const struct node *n, enum msg_type type);
/* Whether long tasks may be placed on n. */
bool central_node_may_take(const struct node *n);
/* The same; with late binding the worker must also have asked for one. */
bool central_node_eligible(const struct central *c, const struct node *n);
bool central_node_takes(const struct central *c, const struct node *n); /* work of some user */
/* Tells the waiting-time queue whether n is eligible now. */
void central_node_update_eligible(struct central *c, struct node *n);

/* n has no stream any more, or another one. */
void central_node_unlink(struct central *c, struct node *n);
/* n is silent, and may come back. */
void central_node_suspect(struct central *c, struct node *n, enum node_change why);
/* n's lease is over, or it said good-bye: it runs no task of central's any more. */
void central_node_gone(struct central *c, struct node *n, enum node_change why);
/* Reports a change of n to the operator's log. */
void central_node_report(struct central *c, const struct node *n, enum node_change change);
/* Sets whether n still has to report what it holds. */
void central_node_set_reporting(struct central *c, struct node *n, bool reporting);

/* ---- silence.c: heartbeats, leaving, suspicion ---- */
void central_on_heartbeat(struct central *c, const struct msg *in);
void central_on_counter(struct central *c, const struct msg *in);
void central_on_leave(struct central *c, const struct msg *in);
/* hold: the node handed long tasks back unasked, and gets none until its next heartbeat, or a return to service. */
void central_nodes_hold(struct central *c, struct node *n, bool hold);
int64_t central_nodes_due_us(const struct central *c);
void central_nodes_run(struct central *c);

/* ---- drain.c: operators' requests to nodes ---- */
/* Whether the worker is out of service by itself. */
static inline bool node_out(const struct node *n) { return !list_empty(&n->out); }
/* Whether n gets no new work: it stops, is drained, or is out of service. */
static inline bool node_refuses_work(const struct node *n)
{
    return n->draining || n->drain != DRAIN_NOT || node_out(n);
}
/* Whether n is there and not drained. */
static inline bool node_is_ours(const struct node *n)
{
    return (n->state == NODE_UP || n->state == NODE_SUSPECT) && n->drain == DRAIN_NOT;
}
/* Whether n's slots are part of the cluster. */
static inline bool node_counts(const struct node *n) { return node_is_ours(n) && !node_out(n); }
/* Call it when node_refuses_work() or node_counts() may have changed: updates everything that depends on them. */
void central_drain_changed(struct central *c, struct node *n);
void central_on_set_drain(struct central *c, const struct msg *in);
/* A node is stopping. */
void central_on_draining(struct central *c, const struct msg *in);
/* Answers the client that asked to drain the node; 0: none did. */
void central_drain_answer(struct central *c, node_id_t node, uint32_t client, int32_t err);
/* n answers DRAIN, or has no work left. */
void central_on_drained(struct central *c, const struct msg *in);
/* Whether a drained node has no work left. */
bool central_drain_is_empty(const struct central *c, const struct node *n);
void central_on_stop_node(struct central *c, const struct msg *in);

/* ---- service.c: workers that take themselves out of service ---- */
void central_on_out_of_service(struct central *c, const struct msg *in);
/* Takes workers back into service if more are out than may be, because others have gone. O(workers that are out). */
void central_service_look(struct central *c);
/* How many of the workers that are there and not drained are out; central_service_limit(): may be. */
uint32_t central_service_out(const struct central *c);
uint32_t central_service_limit(const struct central *c);

/* ---- members.c: member lists ---- */
struct member central_member_of(const struct node *n);
/* Something that member lists show of n has changed. */
void central_members_changed(struct central *c, struct node *n);
/* Tells dists of the changes of this step. */
void central_members_flush(struct central *c);
void central_members_send_all(struct central *c, const struct node *dist);
int64_t central_members_due_us(const struct central *c);
void central_members_run(struct central *c);

/* ---- partition.c: which workers are reserved for short tasks ---- */
void central_partition_count(struct central *c, struct node *n, bool counted); /* in its partition's slots */
void central_partition_balance(struct central *c); /* moves as few workers as needed */
void central_partition_end_known(struct central *c, const struct node *n); /* n has said when it ends */
/* Whether another general worker serves whom n serves, for as long. */
bool central_partition_keeps(const struct central *c, const struct node *n);
void central_partition_tell(struct central *c, struct node *n);
void central_partition_flush(struct central *c); /* tells workers, unless it is too early after a restart */
bool central_partition_settles(const struct central *c); /* too early: workers may come back */
/* Whether placement waits: after a restart the worker that answers first would get all tasks. */
bool central_partition_holds(const struct central *c);
int64_t central_partition_due_us(const struct central *c);
/* If the share is smaller than any worker: the slots of the smallest; else 0. O(that many). */
uint32_t central_partition_least(const struct central *c);
void central_on_partition_ack(struct central *c, const struct msg *in);

/* ---- policy.c: history, estimates, the policy in force ---- */
void central_policy_init(struct central *c);
/* A finished job, from a dist or central's own. recovered: the store has it already, and nobody is told. */
void central_policy_job_finished(struct central *c, const struct msg_history *job, bool recovered);
void central_policy_run(struct central *c);
void central_policy_recovered(struct central *c);
void central_policy_send_estimates(struct central *c, const struct node *dist);
void central_policy_send(struct central *c, const struct node *n);
/* The operator asks for another policy. */
void central_on_set_policy(struct central *c, const struct msg *in);
/* The operator's choice, from the journal; central_policy_write() puts out the same, under c->token. */
void central_on_journal_policy(struct central *c, const struct msg *in);
void central_policy_write(struct central *c);
/* Answers the client that chose; 0: none did. */
void central_policy_answer(struct central *c, uint32_t client, int err);

/* ---- job_table.c ---- */
struct long_job *central_jobs_find(const struct central *c, job_id_t job, uint32_t epoch);
/* The parts of a job, oldest first; prev NULL: the first one. NULL: there is no other. */
struct long_job *central_jobs_next_part(const struct central *c, job_id_t job, const struct long_job *prev);
/* NULL: the job or task is unknown. */
struct long_task *central_jobs_find_task(const struct central *c, const struct try_id *id);
/* A job that is being journalled; takes references. No job of this id and epoch may exist. */
struct long_job *central_job_new(struct central *c, job_id_t job, uint32_t epoch, struct job_desc *desc,
                                 struct task_set *set);
void central_on_journal_age(struct central *c, const struct msg *in);
/* Its tasks must be in no list. */
void central_job_free(struct central *c, struct long_job *j);
void central_job_set_state(struct central *c, struct long_job *j, enum long_state state);
/* From now on the dist hears of its tasks. Instead of whoever lost the job first, if there is no room; NULL: that is
 * this dist itself. */
struct watcher *central_job_watch(struct long_job *j, node_id_t dist, uint16_t owner);
struct watcher *central_job_watcher(struct long_job *j, node_id_t dist); /* NULL: it does not hear of them */

/* ---- jobs.c: long jobs from submission to the end ---- */
void central_on_long_submit(struct central *c, const struct msg *in);
void central_on_long_cancel(struct central *c, const struct msg *in);
void central_on_long_cancel_tasks(struct central *c, const struct msg *in);
void central_on_long_watch(struct central *c, const struct msg *in);
void central_on_journal_job(struct central *c, const struct msg *in);
void central_on_journal_task(struct central *c, const struct msg *in);
void central_on_journal_cancel(struct central *c, const struct msg *in);
void central_on_journal_owner(struct central *c, const struct msg *in);
void central_on_journal_released(struct central *c, const struct msg *in);
/* Whether the task, by its place in long_job.tasks, may be sent: the journal then has that it may have been.
 * Puts out another record when few such tasks are left. */
bool central_job_may_send(struct central *c, struct long_job *j, uint32_t task);
/* The record is written: tasks below `upto` may be sent. */
void central_jobs_released(struct central *c, const struct long_key *key, uint32_t upto);
void central_on_journal_job_end(struct central *c, const struct msg *in);
void central_jobs_recovered(struct central *c);
void central_jobs_journalled(struct central *c, struct long_job *j, int32_t err);
void central_jobs_end_journalled(struct central *c, struct long_job *j);
/* One more task of j is final or durable: moves the job on if its state changes. */
void central_jobs_progress(struct central *c, struct long_job *j);
/* Cancels the tasks of touched jobs. Not while tasks are walked: the end of one would move others. */
void central_jobs_settle(struct central *c);
/* How long tasks of j that no worker has reported, and that may run, still wait; 0: none does. */
int64_t central_job_unreported_us(const struct central *c, const struct long_job *j);
int64_t central_jobs_due_us(const struct central *c);
void central_jobs_run(struct central *c);
void central_jobs_free(struct central *c);

/* Cancels j, durably. A client other than 0 gets the answer then. */
void central_job_cancel(struct central *c, struct long_job *j, uint32_t client);
/* Whether the dist speaks for a user whose job this is not: a client there has taken the id of another's job. A dist of
 * an older version names no user. */
bool central_job_is_others(const struct long_job *j, const struct blob *user);
/* An operator cancels all that central has of a job. */
void central_on_cancel(struct central *c, const struct msg *in);
/* client 0: nobody asked. */
void central_jobs_answer_cancel(struct central *c, job_id_t job, uint32_t client, int err);

/* ---- job_view.c ---- */
/* How the job ends, once all of its tasks have ended. */
enum job_state central_job_end_state(const struct long_job *j);

/* ---- orphans.c: long jobs that nobody waits for any more ---- */
/* Whether somebody may wait for j: it is detached, or a dist has it that is there or may come back. */
bool central_job_claimed(const struct central *c, const struct long_job *j);
/* Whether a dist that is up has j, and shows it to clients. */
bool central_job_shown(const struct central *c, const struct long_job *j);
/* The job's claim may have changed. */
void central_orphans_look(struct central *c, struct long_job *j);
void central_orphans_look_all(struct central *c);
void central_orphans_count_dist(struct central *c, bool was_up, bool is_up);
void central_orphans_step(struct central *c, int64_t before_us); /* before_us: the step before */
/* The time until j is cancelled, if a dist stays up; -1: it will not be. */
int64_t central_orphan_left_us(const struct central *c, const struct long_job *j);
int64_t central_orphans_due_us(const struct central *c);
void central_orphans_run(struct central *c);

/* ---- placement.c ---- */
/* Places waiting tasks as long as there is a worker. */
void central_tasks_place(struct central *c);

/* ---- starts.c: workers that could not start tasks of a job ---- */
bool central_starts_avoid(const struct long_job *j, const struct node *n);
/* Whether j waits for a worker that it does not avoid: that one will ask. With late binding O(workers). */
bool central_starts_wait(struct central *c, const struct long_job *j);
/* The worker with the least waiting time that j does not avoid; if there are no others, one that it avoids.
 * NULL: none. */
struct waiting_worker *central_starts_best(struct central *c, const struct long_job *j);
/* n, where t is placed, could not start it. False: no worker can, and the task has failed. */
bool central_starts_failed(struct central *c, struct node *n, struct long_task *t);
void central_starts_began(struct central *c, struct long_task *t, const struct node *n); /* at n */

/* ---- pauses.c: long tasks that stand still for short ones ---- */
void central_on_task_paused(struct central *c, const struct msg *in);
/* Tells a dist that watches j of its tasks' pauses, after the dist has heard of the tasks. */
void central_pauses_send(struct central *c, const struct long_job *j, const struct node *dist);

/* ---- recall.c: long tasks that would start sooner at another worker ---- */
void central_recall_task(struct central *c, struct long_task *t); /* if it waits at a worker */
void central_recall_arm(struct central *c); /* a worker has come that can take long tasks */
void central_recall_run(struct central *c); /* if it is time. O(workers + recalled tasks) */

/* ---- apps.c: applications that attached executors serve, and results of their long tasks ---- */
struct central_app *central_app_get(struct central *c, struct blob *name, struct blob *user);
void central_app_settle(struct central *c, struct central_app *a); /* frees it when nothing needs it */
void central_apps_free(struct central *c);                         /* nodes and jobs must be gone */
void central_on_app(struct central *c, const struct msg *in);
void central_on_serves(struct central *c, const struct msg *in);
void central_node_forget_user(struct central *c, struct node *n); /* unless it says so again */
/* Tells a dist what all nodes serve (central_apps_send(): what n serves), after it has heard of them. */
void central_apps_send_all(struct central *c, const struct node *dist);
void central_apps_send(struct central *c, const struct node *dist, const struct node *n);
void central_node_forget_apps(struct central *c, struct node *n, bool tell_dists);
/* Whether n serves a; a NULL: no application, which every worker serves. */
bool central_node_serves(const struct node *n, const struct central_app *a);
/* The general worker that serves a with the least waiting time, or NULL. O(workers that serve it). */
struct node *central_app_best(const struct central *c, const struct central_app *a);
/* Puts all of these into a new heap of the caller's, by node.rank. */
void central_app_rank(const struct central *c, const struct central_app *a, struct heap *h);
/* Keeps a task's result. False: it has no room, and a message says so. */
bool central_result_keep(struct central *c, struct long_task *t, struct blob *result);
/* Sends the result; the task's end must follow. */
void central_result_send(struct central *c, const struct long_task *t, const struct node *dist);
void central_job_free_results(struct central *c, struct long_job *j);

#endif
