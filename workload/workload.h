/* Where a simulation's jobs come from: a .tr file (base/trace.h), or drawn from a table (workload/generate.h). */
#ifndef HAWK_WORKLOAD_WORKLOAD_H
#define HAWK_WORKLOAD_WORKLOAD_H

#include "workload/generate.h"
#include "workload/source.h"

struct sim_workload {
    struct trace *trace; /* one of the two */
    struct generator *generator;
};

/* Opens a trace, "-" for standard input. *source reads from it until sim_workload_close, which is needed after an
 * error, too. */
HAWK_MUST_USE int sim_workload_open(struct sim_workload *w, const char *path, struct sim_source *source);
/* Jobs drawn from a table. */
void sim_workload_draw(struct sim_workload *w, const struct job_table *t, uint64_t seed,
                       struct sim_source *source);
/* What was wrong with the trace; "" when nothing was. */
const char *sim_workload_error(const struct sim_workload *w);
void sim_workload_close(struct sim_workload *w);

#endif
