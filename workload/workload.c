/* A .tr file, or a generator, as the source of a simulation's jobs. */
#include "workload/workload.h"

static int next_traced_job(void *arg, struct trace_job *job) { return trace_next(arg, job); }

int workload_open(struct sim_workload *w, const char *path, struct sim_source *source)
{
    int err;

    *w = (struct sim_workload){0};
    err = trace_open(&w->trace, path);
    *source = (struct sim_source){.next = next_traced_job, .arg = w->trace};
    return err;
}

void workload_draw(struct sim_workload *w, const struct job_table *t, uint64_t seed,
                   struct sim_source *source)
{
    *w = (struct sim_workload){.generator = generator_new(t, seed)};
    *source = generator_source(w->generator);
}

const char *workload_error(const struct sim_workload *w) { return w->trace ? trace_error(w->trace) : ""; }

void workload_close(struct sim_workload *w)
{
    trace_close(w->trace);
    generator_free(w->generator);
    *w = (struct sim_workload){0};
}
