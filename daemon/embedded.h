/* A whole cluster in this process, on the in-process bus: one central, one dist, and workers. The same policy
 * objects and messages as in the daemons; only commands run outside. Nothing is kept on disk but tasks' output. */
#ifndef HAWK_DAEMON_EMBEDDED_H
#define HAWK_DAEMON_EMBEDDED_H

#include "central/central.h"
#include "daemon/runner.h"
#include "dist/dist.h"
#include "net/loop.h"
#include "worker/worker.h"

struct embedded;

struct embedded_config {
    uint32_t slots, workers; /* the slots are dealt out over so many workers */
    const char
        *addr; /* how clients reach this process, for the member list; any word when they cannot, but not
                              * "": nodes without an address are not dialled (peers/peers.h) */
    const char *serves;          /* commands of that user alone run here; NULL: everybody's */
    const char *worker;          /* the name of the only worker; NULL: they are w1, w2, ... */
    bool pauses;                 /* a short task may pause a long one, where the policy says so */
    struct worker_pausing pause; /* each worker's, if pauses; paused_max 0: as many as slots */
    uint64_t seed;
    uint64_t first_seq;                   /* of job ids; 0: 1 */
    const struct central_config *central; /* policy and history */
    int64_t client_grace_us;              /* struct dist_config's; 0: never */
    /* What the dist or central asks of the API: SUBMITTED, TASK_EVENT, …; and EXEC_EXITED, when a run has ended */
    void (*effect)(void *arg, const struct msg *m);
    void *arg;
};

/* x was started with ec, before the loop. The cluster comes up with the next turns of the loop. */
struct embedded *embedded_new(struct loop *l, struct exec *x, const struct exec_config *ec,
                              const struct embedded_config *c);
/* An event for the dist (ROLE_DIST) or central; m's handles are borrowed. As with node_feed, the role has handled it
 * when this returns, unless an effect is being carried out. */
void embedded_feed(struct embedded *e, enum role to, const struct msg *m);
/* Whether the dist knows every worker and has a stream to it. */
bool embedded_is_up(const struct embedded *e);
const struct dist *embedded_dist(const struct embedded *e);
uint64_t embedded_next_seq(const struct embedded *e); /* of the next job's id */
const struct central *embedded_central(const struct embedded *e);
uint32_t embedded_workers(
    const struct embedded *e); /* their number; embedded_worker() is the first one of the array */
const struct worker *embedded_worker(const struct embedded *e); /* one of them */
const struct runner *embedded_runner(const struct embedded *e);
/* For executors that attach to this process: their events go here, as the arg that comes with them. */
void embedded_on_exec(void *arg, const struct msg *m);
void embedded_set_apps(struct embedded *e, struct apps *a);
/* As runner_task_user() and so on. */
bool embedded_task_user(void *arg, job_id_t job, uint32_t task, char *user);
uint64_t embedded_reside(void *arg, job_id_t job, uint32_t task);
void embedded_evict(void *arg, uint64_t resident);
/* Whether the spawner died, so that nothing can run any more. */
bool embedded_broken(const struct embedded *e);
/* Kills every command that runs, at once; embedded_free then need not wait for any. */
void embedded_kill(struct embedded *e);
/* Until embedded_go() commands are not started: they wait in their slots, in order. */
void embedded_hold(struct embedded *e);
/* Starts the first n of the commands that wait. */
void embedded_go(struct embedded *e, uint32_t n);
/* Commands that wait; those that were started and have not ended. */
uint32_t embedded_held(const struct embedded *e);
uint32_t embedded_running(const struct embedded *e);
/* Ends every task, killing it after the grace. NULL is fine. */
void embedded_free(struct embedded *e);

#endif
