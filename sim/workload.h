/* A .tr file as the source of a simulation's jobs (base/trace.h). */
#ifndef HAWK_SIM_WORKLOAD_H
#define HAWK_SIM_WORKLOAD_H

#include "sim/sim.h"

/* Opens a trace, "-" for standard input. *source reads from it until trace_close. On an error *t is set for
 * trace_error as well. */
HAWK_MUST_USE int sim_workload_open(struct trace **t, const char *path, struct sim_source *source);

#endif
