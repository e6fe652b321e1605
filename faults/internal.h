/* Declarations that the files of the virtual cluster share. */
#ifndef HAWK_FAULTS_INTERNAL_H
#define HAWK_FAULTS_INTERNAL_H

#include "faults/cluster.h"

/* Central, the dists and the workers have consecutive endpoints, in this order. */
static inline uint32_t cluster_nodes(const struct cluster *c) { return 1 + c->dists_n + c->workers_n; }
/* The index of the dist, or of the worker, at an endpoint; too large if another node is there. */
static inline uint32_t cluster_dist_index(const struct cluster *c, uint32_t ep)
{
    return ep - c->central_ep - 1;
}
static inline uint32_t cluster_worker_index(const struct cluster *c, uint32_t ep)
{
    return cluster_dist_index(c, ep) - c->dists_n;
}
/* The worker at an endpoint, or NULL. */
struct cluster_worker *cluster_worker_of(struct cluster *c, uint32_t ep);
struct cluster_dist *cluster_dist_of(struct cluster *c, uint32_t ep);
/* Whether the dist knows the job. Then fills the view. */
bool cluster_knows(const struct cluster *c, const struct cluster_dist *d, job_id_t job, struct job_view *v);
/* Queues an event from the shell now. Takes over m's handles. */
void cluster_post(struct cluster *c, uint32_t ep, struct msg m);

/* How long a process that ended unasked stays down. */
#define CLUSTER_RESTART_US US_PER_S
void cluster_dist_died(struct cluster *c, struct cluster_dist *d);
/* client.c */
void cluster_on_submitted(struct cluster *c, uint32_t ep, const struct msg_submitted *m);
void cluster_on_cancelled(struct cluster *c, uint32_t ep, const struct msg_cancelled *m);
void cluster_on_task_event(struct cluster *c, uint32_t ep, const struct msg_task_event *m);
void cluster_on_job_event(struct cluster *c, uint32_t ep, const struct msg_job_event *m);
void cluster_on_job_abandoned(struct cluster *c, const struct msg_job_abandoned *m);
/* A client's WATCH reaches its dist: the client reads the job's present state. */
void cluster_on_watch(struct cluster *c, uint32_t ep, const struct msg_watch *m);
/* A dist tells central that it owns the job. */
void cluster_on_claim(struct cluster *c, uint32_t ep, job_id_t job, uint16_t owner);
/* The job of that id, whose client may not know the id yet; or NULL. */
struct cluster_job *cluster_job_of(const struct cluster *c, job_id_t id);
/* A message of d reaches central. */
void cluster_on_heard(struct cluster *c, struct cluster_dist *d);
void cluster_on_abandon(struct cluster *c, job_id_t job);
/* The next time at which a client that is away asks a dist; TIME_NEVER: none is away. */
int64_t cluster_next_ask(const struct cluster *c);
void cluster_ask_due(struct cluster *c); /* lets clients whose time has come ask */
/* A dist has read its journal: the clients of its detached jobs look for their jobs. */
void cluster_dist_recovered(struct cluster *c, struct cluster_dist *d);

/* after.c */
/* Gives a job that is about to be submitted predecessors, perhaps. */
void cluster_after_draw(struct cluster *c, struct cluster_job *j, uint32_t dist);
/* Perhaps holds or releases a job. */
void cluster_hold_some(struct cluster *c);
/* A task of j starts: its predecessors must have ended as it asks. */
void cluster_after_check(struct cluster *c, const struct cluster_job *j, uint32_t task);
/* j's client is back at a dist: what that dist knows of holds may be old. */
void cluster_after_home(struct cluster *c, struct cluster_job *j);
/* j's dist is back, and knows j: its client asks once more for what nobody has confirmed. */
void cluster_hold_again(struct cluster *c, struct cluster_job *j);
void cluster_release_nobodys(struct cluster *c, const struct cluster_dist *d);
void cluster_on_hold_set(struct cluster *c, uint32_t ep, const struct msg_hold_set *m);
/* d has read its journal: whoever was told that j is held relies on it. */
void cluster_expect_held(struct cluster *c, const struct cluster_dist *d, const struct cluster_job *j,
                         const struct job_view *v);
/* shell.c */
/* The result of an application's task, unique to that task. NULL: the task returns nothing. The caller drops
 * it. */
struct blob *cluster_result_of(const struct cluster *c, uint32_t job, uint32_t task);
/* What every try of it uses. Nothing is known of what executors run. */
struct usage cluster_usage_of(const struct cluster *c, uint32_t job, uint32_t task);
void cluster_on_effect(void *arg, uint32_t ep, int64_t now_us, const struct msg *m);
/* The next time at which a run ends, by itself or because its lease or its worker's grace is over: *run of
 * *w. TIME_NEVER: nothing runs. */
int64_t cluster_next_end(struct cluster *c, struct cluster_worker **w, uint32_t *run);
/* Ends a run now. */
void cluster_end_run(struct cluster *c, struct cluster_worker *w, uint32_t run);
struct cluster_run *cluster_run_of(const struct cluster_worker *w, uint32_t run); /* or NULL */
void cluster_count_start(struct cluster *c, const struct cluster_run *r);
void cluster_thaw(const struct cluster *c, struct cluster_worker *w); /* resumes all paused runs of w */
void cluster_thaw_run(const struct cluster *c, struct cluster_run *r);
/* The spawner of w is gone, with all its runs and ends. */
void cluster_forget_runs(struct cluster_worker *w);
/* Tells a new agent of w, before it runs, what its spawner has. */
void cluster_take_over(struct cluster *c, struct cluster_worker *w);

/* executor.c */
/* A new process of w: if an executor is attached, it attaches again. */
void cluster_executors_start(struct cluster *c, struct cluster_worker *w);
/* The process of w is gone, and no executor has a run any more. */
void cluster_executors_end(struct cluster *c, struct cluster_worker *w);
/* The executor answers its task. */
void cluster_executor_ends(struct cluster *c, struct cluster_worker *w, struct cluster_run *r);
int64_t cluster_executors_next(const struct cluster *c); /* when cluster_executors_due() is due; TIME_NEVER */
void cluster_executors_due(struct cluster *c);

/* net.c */
int64_t cluster_delay_us(void *arg, uint32_t from, uint32_t to, const struct msg *m);
int64_t cluster_net_next(const struct cluster *c); /* when cluster_net_due() is due; TIME_NEVER */
void cluster_net_due(struct cluster *c);           /* breaks streams whose time has come */
void cluster_net_free(struct cluster_net *n);

/* store.c */
/* It cannot be written until then. */
void cluster_store_fill(struct cluster_store *s, int64_t until_us);
void cluster_store_write(struct cluster *c, struct cluster_store *s, const struct msg *m);
void cluster_store_due(struct cluster *c, struct cluster_store *s); /* commit_us has come: ends the commit */
/* The journal's process dies. What was not committed is lost, or at random still written. */
void cluster_store_crash(struct cluster *c, struct cluster_store *s);
/* Feeds the role the records of its journal, then RECOVERED. */
void cluster_store_replay(struct cluster *c, struct cluster_store *s);
bool cluster_store_ended(const struct cluster_store *s, job_id_t job, uint16_t epoch);
/* The description that the journal has of the job; NULL: it has none. */
const struct job_desc *cluster_store_desc(const struct cluster_store *s, job_id_t job);
/* The last state that the journal has of the task; TASK_WAITING: it has none. */
enum task_state cluster_store_task(const struct cluster_store *s, job_id_t job, uint32_t task);
void cluster_store_free(struct cluster_store *s);

/* policy.c */
void cluster_operator_answered(struct cluster *c, const struct msg_policy_set *m);
void cluster_check_policy(struct cluster *c);
/* Whether all live nodes have central's policy. */
bool cluster_agrees(struct cluster *c, void *arg);

/* check.c */
void cluster_on_sent(struct cluster *c, uint32_t from, const struct msg *m);
void cluster_on_delivery(void *arg, int64_t now_us, uint32_t from, uint32_t to, const struct msg *m);
/* Checks a task that has ended: a failed start has cost no retry. */
void cluster_check_starts(struct cluster *c, const struct cluster_job *j, uint32_t task);
/* At the end: central's journal has the end of every job that central accepted, and no journal has a job that its
 * role does not know. */
void cluster_check_journals(struct cluster *c);
/* Runs until every worker is back in service; call it when no fault comes any more. */
void cluster_expect_in_service(struct cluster *c);
void cluster_on_stepped(void *arg, uint32_t ep, int64_t now_us);

/* cluster.c: starts the roles, for the first time or again. */
void cluster_start_central_of(struct cluster *c, uint32_t epoch);
void cluster_start_central(struct cluster *c);
void cluster_start_dist(struct cluster *c, struct cluster_dist *d, uint32_t number);
void cluster_start_worker(struct cluster *c, uint32_t i);
void cluster_new_address(struct cluster *c, struct cluster_worker *w);

#endif
