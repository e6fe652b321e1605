/* Computes the figures of a simulation. */
#include "base/check.h"
#include "base/mem.h"
#include "base/units.h"
#include "sim/internal.h"

#include <stdlib.h>

_Static_assert(MSG_TYPE_COUNT <= SIM_TYPES, "results must have room for every type");

void sim_values_add(struct values *v, int64_t value)
{
    vec_grow(v->v, v->n, v->cap);
    v->v[v->n++] = value;
}

/* job_values: room for a value of each job. */
static void fill_class(struct sim_result *r, enum job_class class, int64_t *job_values)
{
    struct sim_class *c = &r->classes[class];
    uint64_t n = 0;

    for (int believed = 0; believed < CLASS_COUNT; believed++) {
        n = 0;
        for (uint32_t i = 0; i < r->jobs_n; i++)
            if (r->jobs[i].class == class && r->jobs[i].believed == believed)
                job_values[n++] = r->jobs[i].response_us;
        c->taken_us[believed] = spread_of(job_values, n);
    }
    n = 0;
    for (uint32_t i = 0; i < r->jobs_n; i++)
        if (r->jobs[i].class == class)
            job_values[n++] = r->jobs[i].response_us;
    c->response_us = spread_of(job_values, n);
    n = 0;
    for (uint32_t i = 0; i < r->jobs_n; i++) {
        int64_t alone_us = r->jobs[i].longest_us;

        if (r->jobs[i].class == class && alone_us > 0) /* what takes no time has no meaningful slowdown */
            job_values[n++] = (int64_t)((__int128)r->jobs[i].response_us * 1000 / alone_us);
    }
    c->slowdown = spread_of(job_values, n);
}

void sim_classes_fill(struct sim_result *r)
{
    int64_t *job_values = xmalloc((r->jobs_n + 1) * sizeof *job_values);

    for (int k = 0; k < CLASS_COUNT; k++)
        fill_class(r, (enum job_class)k, job_values);
    free(job_values);
}

static int by_share(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

static double median(const float *v, uint32_t n)
{
    float *sorted;
    double m;

    if (n == 0)
        return 0;
    sorted = xmalloc(n * sizeof *sorted);
    for (uint32_t i = 0; i < n; i++)
        sorted[i] = v[i];
    qsort(sorted, n, sizeof *sorted, by_share);
    m = (double)sorted[n / 2];
    free(sorted);
    return m;
}

/* The first sample that counts: after 1 % of the jobs, which in some traces come long before the others. */
static uint32_t first_sample(const struct sim *s)
{
    const struct sim_result *r = s->r;
    uint64_t first_job = r->jobs_n / 100 + 1;
    int64_t from_us = 0;

    for (uint32_t i = 0; i < r->jobs_n; i++)
        if (r->jobs[i].number == first_job)
            from_us = r->jobs[i].submit_us;
    return (uint32_t)(from_us / r->sample_us);
}

static void fill_utilization(struct sim *s)
{
    struct sim_result *r = s->r;
    uint32_t from = first_sample(s), until = s->running_samples_submitted;

    r->utilization_median = until > from ? median(r->utilization + from, until - from) : 0;
    r->utilization_median_all = median(r->utilization, r->utilization_n);
}

static void add_counters(struct sim *s)
{
    struct sim_result *r = s->r;
    struct central_totals totals;

    central_view_totals(s->central, &totals);
    for (int c = 0; c < COUNTER_COUNT; c++) {
        r->counters[c] = totals.counters[c];
        for (uint32_t i = 0; i < s->config.workers; i++)
            r->counters[c] += worker_counter(&s->workers[i], (enum counter)c);
        for (uint32_t i = 0; i < s->config.dists; i++)
            r->counters[c] += dist_counters(&s->dists[i])[c];
    }
}

void sim_result_fill(struct sim *s)
{
    struct sim_result *r = s->r;

    sim_classes_fill(r);
    for (int k = 0; k < CLASS_COUNT; k++)
        r->classes[k].wait_us = spread_of(s->waits[k].v, s->waits[k].n);
    add_counters(s);
    r->events = r->start_events;
    for (unsigned t = 0; t < MSG_TYPE_COUNT; t++)
        r->events += t == MSG_TIMER ? 0 : r->by_type[t];
    r->timers = r->by_type[MSG_TIMER];
    fill_utilization(s);
    if (r->last_submit_us > 0)
        r->central_busy = (double)s->central_busy_us / (double)r->last_submit_us;
}

void sim_result_free(struct sim_result *r)
{
    free(r->jobs);
    free(r->utilization);
    *r = (struct sim_result){0};
}
