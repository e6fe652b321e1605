/* A source of jobs: what every workload is to the simulator. */
#ifndef HAWK_WORKLOAD_SOURCE_H
#define HAWK_WORKLOAD_SOURCE_H

#include "base/trace.h"

/* Returns jobs one at a time, in the order of their submission. */
struct sim_source {
    /* Fills *job and returns 1. Returns 0 at the end, and an error of HAWK_ERRORS (below 0) otherwise. The job's
     * durations are valid until the next call. */
    int (*next)(void *arg, struct trace_job *job);
    void *arg;
};

#endif
