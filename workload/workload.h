/* The workload of a simulation: a trace file (base/trace.h), or jobs drawn from a table (workload/generate.h). */
#ifndef HAWK_WORKLOAD_WORKLOAD_H
#define HAWK_WORKLOAD_WORKLOAD_H

#include "workload/generate.h"
#include "workload/source.h"

struct sim_workload {
    struct trace *trace;         /* NULL: jobs are drawn */
    struct generator *generator; /* NULL: jobs come from a trace */
};

/* Opens a trace; "-" is standard input. *source is valid until workload_close(), which the caller must call after
 * an error, too. Errors as of trace_open(). */
HAWK_MUST_USE int workload_open(struct sim_workload *w, const char *path, struct sim_source *source);
/* Draws jobs from a table. *source is valid until workload_close(). */
void workload_draw(struct sim_workload *w, const struct job_table *t, uint64_t seed,
                   struct sim_source *source);
/* What is wrong with the trace, in words; "" if nothing is. */
const char *workload_error(const struct sim_workload *w);
void workload_close(struct sim_workload *w);

#endif
