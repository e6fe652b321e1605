/* What the files of the virtual cluster share. */
#ifndef HAWK_FAULTS_INTERNAL_H
#define HAWK_FAULTS_INTERNAL_H

#include "faults/cluster.h"

/* The worker at an endpoint, or NULL. */
struct cluster_worker *cluster_worker_of(struct cluster *c, uint32_t ep);
struct cluster_dist *cluster_dist_of(struct cluster *c, uint32_t ep);

/* A process that ended without being asked to is started again after so long. */
#define CLUSTER_RESTART_US US_PER_S
void cluster_dist_died(struct cluster *c, struct cluster_dist *d);
/* client.c */
void cluster_on_submitted(struct cluster *c, uint32_t ep, const struct msg_submitted *m);
void cluster_on_cancelled(struct cluster *c, uint32_t ep, const struct msg_cancelled *m);
void cluster_on_task_event(struct cluster *c, uint32_t ep, const struct msg_task_event *m);
void cluster_on_job_event(struct cluster *c, uint32_t ep, const struct msg_job_event *m);
void cluster_on_job_abandoned(struct cluster *c, const struct msg_job_abandoned *m);
/* A client's question reaches its dist: it is told all that there is by then. */
void cluster_on_watch(struct cluster *c, uint32_t ep, const struct msg_watch *m);
/* A dist says to central that it has the job; or that no client of its own waits for it. */
void cluster_on_claim(struct cluster *c, uint32_t ep, job_id_t job, uint16_t owner);
/* Central hears d. */
void cluster_on_heard(struct cluster *c, struct cluster_dist *d);
void cluster_on_abandon(struct cluster *c, job_id_t job);
/* When a client that is away asks the next dist; TIME_NEVER: none is. */
int64_t cluster_next_ask(const struct cluster *c);
void cluster_ask_due(struct cluster *c); /* that time has come */
/* A dist has read its journal: the clients of what it accepted for nobody to wait for look for their jobs. */
void cluster_dist_recovered(struct cluster *c, struct cluster_dist *d);

/* shell.c */
/* What a task of an application returns: nobody else's. NULL: nothing. The caller's. */
struct blob *cluster_result_of(const struct cluster *c, uint32_t job, uint32_t task);
/* What ended before the job's client watched it, that learns by looking at the tasks, as `hawk wait` does: the dist's disk
 * may be slower than a long job, or all be over before. */
void cluster_read_ends(struct cluster *c, uint32_t ep, struct cluster_job *j);
void cluster_on_effect(void *arg, uint32_t ep, int64_t now_us, const struct msg *m);
/* When the next run ends, by itself or because its lease or its worker's grace is over: *run of *w. TIME_NEVER: nothing
 * runs. */
int64_t cluster_next_end(struct cluster *c, struct cluster_worker **w, uint32_t *run);
/* It ends now. */
void cluster_end_run(struct cluster *c, struct cluster_worker *w, uint32_t run);
/* w hears whether an executor is attached; it is alive. */
void cluster_tell_attached(struct cluster *c, struct cluster_worker *w);
/* What its executor runs ends with it. */
void cluster_end_app_runs(struct cluster *c, struct cluster_worker *w);
void cluster_thaw(const struct cluster *c, struct cluster_worker *w); /* whatever stands still there */
/* The spawner of w is gone with all it had. */
void cluster_forget_runs(struct cluster_worker *w);
/* A new agent of w, which does not run yet, is told what is still there. */
void cluster_take_over(struct cluster *c, struct cluster_worker *w);

/* net.c */
int64_t cluster_delay_us(void *arg, uint32_t from, uint32_t to, const struct msg *m);
int64_t cluster_net_next(const struct cluster *c); /* when it has to do something; TIME_NEVER */
void cluster_net_due(struct cluster *c);           /* that time has come */
void cluster_net_free(struct cluster_net *n);

/* store.c */
void cluster_store_write(struct cluster *c, struct cluster_store *s, const struct msg *m);
void cluster_store_due(struct cluster *c, struct cluster_store *s); /* commit_us has come */
/* Its process dies: what was not committed is lost, or perhaps not. */
void cluster_store_crash(struct cluster *c, struct cluster_store *s);
/* Gives the role what its journal holds of jobs that have not ended, and RECOVERED. */
void cluster_store_replay(struct cluster *c, struct cluster_store *s);
bool cluster_store_ended(const struct cluster_store *s, job_id_t job, uint16_t epoch);
void cluster_store_free(struct cluster_store *s);

/* policy.c */
void cluster_operator_answered(struct cluster *c, const struct msg_policy_set *m);
void cluster_check_policy(struct cluster *c);
/* Whether all who are alive have central's policy. */
bool cluster_agrees(struct cluster *c, void *arg);

/* check.c */
void cluster_on_delivery(void *arg, int64_t now_us, uint32_t from, uint32_t to, const struct msg *m);
/* At the end of a task: what could not be started has lost nothing. */
void cluster_check_starts(struct cluster *c, const struct cluster_job *j, uint32_t task);
void cluster_check_accepted(struct cluster *c); /* at the end: nothing that central accepted is forgotten */
void cluster_expect_in_service(struct cluster *c); /* once no fault comes any more: all are, after a while */
void cluster_on_stepped(void *arg, uint32_t ep, int64_t now_us);

/* cluster.c: the roles begin, anew or again. */
void cluster_start_central_of(struct cluster *c, uint32_t epoch);
void cluster_start_central(struct cluster *c);
void cluster_start_dist(struct cluster *c, struct cluster_dist *d, uint32_t number);
void cluster_start_worker(struct cluster *c, uint32_t i);
void cluster_new_address(struct cluster *c, struct cluster_worker *w);

#endif
