/* Generated workloads: draws jobs from a table (workload/generate_table.h). The Hawk paper draws its Cloudera, Facebook
 * and Yahoo traces in this way (4.1). Other tables give the synthetic loads of the Sparrow paper. The same table and
 * seed give the same jobs on every machine, to the microsecond. */
#ifndef HAWK_WORKLOAD_GENERATE_H
#define HAWK_WORKLOAD_GENERATE_H

#include "workload/generate_table.h"
#include "workload/source.h"

#include <stdio.h>

struct generator;

/* Draws t->jobs jobs. Copies the table. */
struct generator *generator_new(const struct job_table *t, uint64_t seed);
void generator_free(struct generator *g);
/* A source of g's jobs; g must outlive it. A job's tag is the class of its cluster. Its mean_us is the mean of its
 * durations, rounded to microseconds. */
struct sim_source generator_source(struct generator *g);
/* Writes the rest of a source's jobs as a trace (base/trace.h), without their tags. Returns 0, the source's error, or
 * HAWK_EIO. */
HAWK_MUST_USE int generator_write(struct sim_source *source, FILE *f);

#endif
