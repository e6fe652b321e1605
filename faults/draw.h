/* The cluster of a random run, drawn from its seed: policy, size, times, limits. */
#ifndef HAWK_FAULTS_DRAW_H
#define HAWK_FAULTS_DRAW_H

#include "faults/cluster.h"

/* Draws a configuration with r, which the caller goes on using. `faults`: the run will have faults. */
struct cluster_config faults_random_config(uint64_t seed, struct rng *r, bool faults);
/* Draws limits of tables. They are at least the size of the largest job (60 tasks): a refused job is no
 * violation, but a job that can never be accepted would be. */
void faults_random_limits(struct cluster_config *c, struct rng *r);

#endif
