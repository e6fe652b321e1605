/* What a workload is to whoever replays it: jobs, one after the other. */
#ifndef HAWK_WORKLOAD_SOURCE_H
#define HAWK_WORKLOAD_SOURCE_H

#include "base/trace.h"

/* Where jobs come from, in the order of their submission; read one at a time as the simulation gets there. */
struct sim_source {
    /* Fills *job, whose durations hold until the next call: 1; 0 at the end; below 0 an error of HAWK_ERRORS. */
    int (*next)(void *arg, struct trace_job *job);
    void *arg;
};

#endif
