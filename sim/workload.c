/* A .tr file as the source of a simulation's jobs. */
#include "sim/workload.h"

static int next(void *arg, struct trace_job *job) { return trace_next(arg, job); }

int sim_workload_open(struct trace **t, const char *path, struct sim_source *source)
{
    int err = trace_open(t, path);

    *source = (struct sim_source){.next = next, .arg = *t};
    return err;
}
