/* What the files of the virtual cluster share. */
#ifndef HAWK_SIM_FAULT_INTERNAL_H
#define HAWK_SIM_FAULT_INTERNAL_H

#include "sim/fault_cluster.h"

/* The worker at an endpoint, or NULL. */
struct cluster_worker *cluster_worker_of(struct cluster *c, uint32_t ep);

/* fault_shell.c */
void cluster_on_effect(void *arg, uint32_t ep, int64_t now_us, const struct msg *m);
/* When the next run ends, by itself or because its lease or its worker's grace is over: *run of *w. TIME_NEVER: nothing
 * runs. */
int64_t cluster_next_end(struct cluster *c, struct cluster_worker **w, uint32_t *run);
/* It ends now. */
void cluster_end_run(struct cluster *c, struct cluster_worker *w, uint32_t run);
/* The spawner of w is gone with all it had. */
void cluster_forget_runs(struct cluster_worker *w);
/* A new agent of w, which does not run yet, is told what is still there. */
void cluster_take_over(struct cluster *c, struct cluster_worker *w);
/* Gives central what its journal holds. */
void cluster_replay_journal(struct cluster *c);

/* fault_check.c */
void cluster_on_delivery(void *arg, int64_t now_us, uint32_t from, uint32_t to, const struct msg *m);
void cluster_on_stepped(void *arg, uint32_t ep, int64_t now_us);

#endif
