/* What the files of the API share. */
#ifndef HAWK_API_INTERNAL_H
#define HAWK_API_INTERNAL_H

#include "api/api.h"
#include "api/fair.h"
#include "net/api.h"

#include <uthash.h>

/* A unary call that waits for its role's effect. */
struct api_waiting {
    uint32_t client; /* the number in its event */
    struct rpc_call *call;
    node_id_t *nodes; /* of Drain; NULL otherwise */
    uint32_t nodes_n;
    UT_hash_handle hh;
};

/* How often a client that wants beats gets one. When three are missing, it goes to another dist. */
#define API_BEAT_US (100 * US_PER_MS)
#define API_GOING_TEXT "is shutting down: ask another dist, or this one when it is back"

struct api_user;
struct watched;
struct session_job;

/* A job or tasks of it that are to be cancelled. */
struct api_cancel {
    struct list in_queue;
    job_id_t job;
    uint32_t client;      /* of the call that waits; 0: the job is a session's */
    uint32_t tasks;       /* how many */
    struct task_set *set; /* which; NULL: all */
};

struct api {
    struct loop *loop;
    struct api_roles roles;
    void (*feed)(void *arg, enum role to, const struct msg *m);
    void *arg;
    uint32_t next_client;
    struct api_waiting *waiting;
    char *standby;                 /* why it serves nothing for now; NULL: it serves */
    struct api_user *users;        /* by name */
    struct loop_timer audit_timer; /* set while lines about users' refused calls may have been left out */
    struct watched *watched;       /* jobs that are watched */
    uint64_t logs_bytes;           /* what their logs may need */
    struct list changed;           /* those of which watches have not heard in this turn */
    struct list behind;            /* those with watches whose clients must get new counts of tasks */
    struct loop_timer counts_timer;
    struct fair fair;              /* watches with something to say */
    struct fair_queue unlimited;   /* those of callers without limits */
    struct loop_timer pause_timer; /* set: the watches have done enough for now */
    struct list beating;           /* watches whose clients want beats */
    struct loop_timer beat_timer;
    struct fair cancels; /* jobs to cancel, those of each user in the order of his requests */
    struct fair_queue unlimited_cancels;
    struct loop_timer cancel_timer;
    struct api_sessions {
        struct list all, dirty,
            soon; /* dirty: has something to send in this turn; soon: when soon_timer fires */
        struct loop_timer soon_timer;
        struct session_job *asked;    /* by client: jobs that wait for SUBMITTED */
        struct session_job *accepted; /* by job */
        struct loop_timer beat_timer;
        size_t bytes; /* of entries that their clients have not taken */
    } sessions;
    struct list health; /* calls that watch it */
    struct list tails;  /* output that is followed */
    struct loop_timer tail_timer;
    struct readers *readers; /* NULL until output is asked for */
    struct loop_hook flush;
    struct loop_timer stop_timer; /* set when a client has asked this process to stop */
    bool stop_now;
};

typedef void (*api_handler)(struct api *a, struct rpc_call *c, void *request);

/* ---- jobs.c ---- */
void api_submit(struct api *a, struct rpc_call *c, void *request);
void api_cancel(struct api *a, struct rpc_call *c, void *request);
void api_cancel_tasks(struct api *a, struct rpc_call *c, void *request);
void api_list_jobs(struct api *a, struct rpc_call *c, void *request);
void api_get_job(struct api *a, struct rpc_call *c, void *request);
/* Makes the event of a submission in *m, and the job its caller's, if that user may submit one more. *m borrows the
 * description; whoever calls this drops the resubmission. On an error why says what is wrong. */
HAWK_MUST_USE int api_submit_event(struct api *a, const struct caller *who, struct job_desc *job,
                                   const struct api_resubmit *from, uint64_t key, struct msg_submit *m,
                                   char *why, size_t size);
/* That this dist gave the job's id to that caller (net/receipt.h); 0: it gives no receipts, or does not know him. */
uint64_t api_receipt(const struct api *a, const struct caller *who, job_id_t job);
/* Whether the caller may submit this job, or move it here: he is within his limits, which cost least to check, and has
 * signed it where that is required. A job counts for his rate however it is signed. HAWK_ELIMIT, HAWK_EDENIED: why says
 * what is wrong. */
HAWK_MUST_USE int api_may_submit(struct api *a, const struct caller *who, struct job_desc *job, bool moved,
                                 char *why, size_t size);
/* Whether that user's job is the caller's own; of a caller who is not known every job is. user "": nobody knows whose
 * it is. An operator may touch the others, too (api_may_touch), but not run them again in their users' names. */
bool api_is_own(const struct caller *who, const char *user);
/* 0 if all jobs that it is to run after are here, and the same user's. HAWK_ENOT_FOUND: why says which is not. */
HAWK_MUST_USE int api_knows_predecessors(const struct api *a, const struct job_desc *job, char *why,
                                         size_t size);
/* Takes out of a job's line in a list what only its user and operators may see. */
void api_hide_from_others(const struct api *a, const struct rpc_call *c, struct api_job *job);
/* Whether the caller may see all of that user's job, and end it. If not, it has failed the call. user "": nobody knows
 * whose it is. */
bool api_may_touch(struct rpc_call *c, job_id_t job, const char *user);
/* The same, and NULL as well after failing the call because the job is another user's. */
const struct dist_job *api_find_own_job(struct api *a, struct rpc_call *c, job_id_t id);
void api_job_fill(const struct api *a, const struct dist_job *j, struct api_job *out);
void api_task_fill(const struct api *a, const struct dist_job *j, uint32_t task, bool result,
                   struct api_task *out);

/* ---- cancels.c ---- */
/* Feeds c to the dist, in this turn of the loop or a later one, unless it is taken out of its list before. c stays the
 * caller's. */
void api_cancel_soon(struct api *a, const struct caller *who, struct api_cancel *c);
/* The same for a call, which waits for the answer. Takes the set over. */
void api_cancel_for(struct api *a, struct rpc_call *call, job_id_t job, uint32_t tasks, struct task_set *set);
void api_cancels_init(struct api *a);
/* No session may be left. */
void api_cancels_free(struct api *a);

/* ---- again.c ---- */
void api_hold(struct api *a, struct rpc_call *c, void *request);
void api_hold_set(struct api *a, const struct msg_hold_set *m);
void api_rerun(struct api *a, struct rpc_call *c, void *request);

/* ---- long.c: the same for central's long jobs, where there is no dist ---- */
void api_long_cancel(struct api *a, struct rpc_call *c, job_id_t job);
void api_long_hold(struct api *a, struct rpc_call *c, job_id_t job, bool on);
void api_long_list(struct api *a, struct rpc_call *c, const struct api_list_jobs_request *r);
void api_long_get(struct api *a, struct rpc_call *c, const struct api_get_job_request *r);

/* ---- watch.c ---- */
void api_watch(struct api *a, struct rpc_call *c, void *request);
void api_watch_task(struct api *a, job_id_t job, uint32_t task, bool ended);
void api_watch_job(struct api *a, job_id_t job);
void api_watch_flush(struct api *a);
void api_watch_init(struct api *a);
/* Tells the dist that a client watches the job, or that none does any more. */
void api_feed_unwatch(struct api *a, job_id_t job);
void api_watch_free(struct api *a);

/* ---- session.c ---- */
void api_session(void *api, struct rpc_call *c); /* a call began */
/* False: the message is not for a session. */
bool api_session_submitted(struct api *a, const struct msg_submitted *m);
void api_session_task(struct api *a, const struct msg_task_event *m);
void api_session_job(struct api *a, const struct msg_job_event *m);
void api_session_flush(struct api *a);
void api_session_init(struct api *a);
void api_session_free(struct api *a);

/* ---- users.c ---- */
/* Whether the caller may have one job more here. Those that he moves here count for a rate of their own. HAWK_ELIMIT:
 * why names the limit. */
HAWK_MUST_USE int api_user_submits(struct api *a, const struct caller *who, const struct job_desc *job,
                                   bool moved, char *why, size_t size);
/* Counts a watch of the caller's. False: it has failed the call. *user is for api_user_unwatches; NULL: not counted. */
bool api_user_watches(struct api *a, struct rpc_call *c, struct api_user **user);
void api_user_unwatches(struct api_user *user);
/* The queue of a user's watches. NULL: that of all callers who are not counted. */
struct fair_queue *api_user_queue(struct api *a, struct api_user *user);
/* That of the jobs that the caller cancels. */
struct fair_queue *api_user_cancels(struct api *a, const struct caller *who);
/* The same for an output that is read, and api_user_unreads. */
bool api_user_reads(struct api *a, struct rpc_call *c, struct api_user **user);
void api_user_unreads(struct api_user *user);
/* Names the call in the audit log, if it changes something. Of the refused calls of a user who has limits, a few at a
 * time have lines, and the log has the number of the others. */
void api_user_audit(struct api *a, struct rpc_call *c, enum api_method method);
void api_users_init(struct api *a);
void api_users_free(struct api *a);

/* ---- cluster.c ---- */
void api_list_nodes(struct api *a, struct rpc_call *c, void *request);
void api_get_stats(struct api *a, struct rpc_call *c, void *request);
void api_get_policy(struct api *a, struct rpc_call *c, void *request);
void api_set_policy(struct api *a, struct rpc_call *c, void *request);

/* Fills in what central knows of a node. False: it is gone, or was never there. Free it with
 * api_nodes_free. */
bool api_node_fill(const struct api *a, node_id_t id, struct api_node *out);
/* Frees the nodes and the array; NULL is fine. */
void api_nodes_free(struct api_node *nodes, uint32_t n);

/* ---- drain.c ---- */
void api_drain(struct api *a, struct rpc_call *c, void *request);
void api_drain_set(struct api *a, const struct msg_drain_set *m);
void api_stop(struct api *a, struct rpc_call *c, void *request);
void api_stop_due(void *arg);

/* ---- output.c ---- */
void api_read_output(struct api *a, struct rpc_call *c, void *request);
/* A run has ended: whoever follows its output hears that at once. O(files that are followed). */
void api_output_run_ended(struct api *a);
void api_output_free(struct api *a);

/* ---- api.c ---- */
void api_reply(struct rpc_call *c, enum api_method method, const void *reply);
/* Why a job was not accepted, and what to do. */
void api_refusal(const struct api *a, int err, char *text, size_t size);
/* Whether this process serves the call at present. If not, it has failed the call. */
bool api_serves(struct api *a, struct rpc_call *c, enum api_method method);
/* Ends a call with the status and text of an error code. */
void api_fail(struct rpc_call *c, int err, const char *fmt, ...) HAWK_PRINTF(3, 4);
/* Remembers a call until its effect comes. Returns the number for the event. */
struct api_waiting *api_wait_for(struct api *a, struct rpc_call *c);
uint32_t api_wait(struct api *a, struct rpc_call *c);
/* The call that waits under this number, and waits no more: free it with api_waiting_free. NULL when there
 * is none. */
struct api_waiting *api_take(struct api *a, uint32_t client);
void api_waiting_free(struct api_waiting *w);

/* ---- health.c ---- */
void api_health_init(struct api *a, struct server *s);
/* Tells watchers, if the answer is another one now. */
void api_health_changed(struct api *a);
void api_health_free(struct api *a);

#endif
