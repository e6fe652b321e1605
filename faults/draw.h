/* The cluster of a random run, drawn from its seed: policy, size, times, limits. */
#ifndef HAWK_FAULTS_DRAW_H
#define HAWK_FAULTS_DRAW_H

#include "faults/cluster.h"

/* Draws with r, which goes on; `faults`: some will come. */
struct cluster_config faults_random_config(uint64_t seed, struct rng *r, bool faults);
/* Above the largest job (60 tasks): smaller limits are no fault, but a job too many. */
void faults_random_limits(struct cluster_config *c, struct rng *r);

#endif
