/* What the files of the virtual cluster share. */
#ifndef HAWK_SIM_FAULT_INTERNAL_H
#define HAWK_SIM_FAULT_INTERNAL_H

#include "sim/fault_cluster.h"

/* The worker at an endpoint, or NULL. */
struct cluster_worker *cluster_worker_of(struct cluster *c, uint32_t ep);

/* fault_shell.c */
void cluster_on_effect(void *arg, uint32_t ep, int64_t now_us, const struct msg *m);
/* Whose run is due first, over all workers; NULL: nothing runs. */
struct cluster_worker *cluster_first_due(struct cluster *c, uint32_t *run);
/* Run i of w ends now. */
void cluster_exited(struct cluster *c, struct cluster_worker *w, uint32_t i, enum outcome outcome,
                    int32_t code);
/* Gives central what its journal holds. */
void cluster_replay_journal(struct cluster *c);

/* fault_check.c */
void cluster_on_delivery(void *arg, int64_t now_us, uint32_t from, uint32_t to, const struct msg *m);
void cluster_on_stepped(void *arg, uint32_t ep, int64_t now_us);

#endif
