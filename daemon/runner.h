/* A worker's executor on its loop: EXEC_START, EXEC_KILL and the like go in, EXEC_STARTED and EXEC_EXITED come back as
 * events. It also remembers where running and recent tasks' output went, for `hawk cat`. */
#ifndef HAWK_DAEMON_RUNNER_H
#define HAWK_DAEMON_RUNNER_H

#include "daemon/signatures.h"
#include "exec/apps.h"
#include "exec/exec.h"
#include "exec/runners.h"
#include "net/loop.h"

/* Ended tasks whose output files are remembered; beyond that those that ended first are forgotten. Running tasks, which
 * the slots limit, are always remembered. */
#define RUNNER_OUTPUTS 20000u

struct runner;

/* e was started before the loop (and gRPC); the runner stops and frees it. c is what it was started with. users: where
 * commands run as their users (c->as_users), which is the runner's, too; else NULL. */
struct runner *runner_new(struct loop *l, struct exec *e, struct runners *users, const struct exec_config *c,
                          void (*feed)(void *arg, const struct msg *m), void *arg);
/* Feeds what was taken over from an earlier agent (EXEC_LEASE, EXEC_HELD, and ends since then): once, before START. */
void runner_take_over(struct runner *r);
/* Runs of PAYLOAD_APP jobs go there; without it they cannot be started. Borrowed. */
void runner_set_apps(struct runner *r, struct apps *a);
/* Commands run as their users signed them, and no others. Borrowed. */
void runner_set_signatures(struct runner *r, struct signatures *s);
/* Does what the role wants of the executor: any EXEC_ message to it. worker: whose it is where several share the
 * runner, NULL: the config's. */
void runner_effect(struct runner *r, const struct msg *m, const char *worker);
/* Runs whose end has not been reported. */
uint32_t runner_running(const struct runner *r);
uint32_t runner_first_index(const struct runner *r, job_id_t job); /* as exec_output_first */
/* Where a task's output went: the path (EXEC_PATH_MAX bytes), whose it is (LIMIT_NAME_BYTES + 1; "": nobody knows;
 * may be NULL) and whether the task runs. attempt 0: the latest. HAWK_ENOT_FOUND when this worker
 * does not remember it. HAWK_EDENIED: the job names a file, which its user's runner has opened. */
HAWK_MUST_USE int runner_output(const struct runner *r, job_id_t job, uint32_t task, uint32_t attempt,
                                bool err_stream, char *path, char *user, enum run_state *run);
/* Whose a task that runs here is (LIMIT_NAME_BYTES + 1; "": nobody's). False: it does not run here. */
bool runner_task_user(const struct runner *r, job_id_t job, uint32_t task, char *user);
/* A task becomes a resident (exec_reside). Returns a number for it; 0: it does not run here, or cannot become one. */
HAWK_MUST_USE uint64_t runner_reside(const struct runner *r, job_id_t job, uint32_t task);
void runner_evict(const struct runner *r, uint64_t resident);
/* True once the spawner has died: the worker should stop. */
bool runner_broken(const struct runner *r);
/* Ends every task and the spawner; leave: leaves them to the next agent. NULL is fine. */
void runner_free(struct runner *r, bool leave);

#endif
