/* Generated workloads: jobs drawn from a table of clusters (workload/generate_table.h), as the Hawk paper draws its
 * Cloudera, Facebook and Yahoo traces (4.1), and the synthetic loads of the Sparrow paper. The same table and seed
 * give the same jobs on every machine, to the last microsecond. */
#ifndef HAWK_WORKLOAD_GENERATE_H
#define HAWK_WORKLOAD_GENERATE_H

#include "workload/generate_table.h"
#include "workload/source.h"

#include <stdio.h>

struct generator;

/* t->jobs jobs. The table is copied. */
struct generator *generator_new(const struct job_table *t, uint64_t seed);
void generator_free(struct generator *g);
/* Reads from it, as long as it lives. Jobs carry their cluster's class as a tag; the mean they state is that of the
 * durations drawn, rounded to microseconds. */
struct sim_source generator_source(struct generator *g);
/* Writes what is left of a source as a trace (base/trace.h), which keeps no tags. 0, the source's error, HAWK_EIO. */
HAWK_MUST_USE int generator_write(struct sim_source *source, FILE *f);

#endif
