/* Jobs drawn from a table of clusters. */
#include "workload/generate.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/units.h"
#include "workload/generate_draw.h"

#include <stdlib.h>

struct generator {
    struct job_table table;
    struct rng rng;
    uint64_t shares_milli; /* of all clusters */
    uint64_t made;
    int64_t submit_us;
    int64_t *durations_us;
    uint32_t capacity;
};

static const struct job_cluster *draw_cluster(struct generator *g)
{
    uint64_t at = rng_below(&g->rng, g->shares_milli);
    uint32_t i = 0;

    for (; at >= g->table.clusters[i].share_milli; i++)
        at -= g->table.clusters[i].share_milli;
    return &g->table.clusters[i];
}

/* The nearest whole number of tasks, at least one. */
static uint32_t draw_tasks(struct generator *g, const struct job_cluster *c)
{
    int64_t milli = (int64_t)c->tasks_milli, most = TRACE_TASKS_MAX * INT64_C(1000);

    if (g->table.tasks == TABLE_EXPONENTIAL)
        milli = generate_scale(milli, generate_exponential(&g->rng), most);
    return milli < 1500 ? 1 : (uint32_t)((milli + 500 > most ? most : milli + 500) / 1000);
}

static int64_t at_least_one(int64_t us) { return us > 0 ? us : 1; }

static int64_t draw_mean_us(struct generator *g, const struct job_cluster *c)
{
    if (g->table.mean == TABLE_FIXED)
        return c->mean_us;
    return at_least_one(generate_scale(c->mean_us, generate_exponential(&g->rng), TRACE_TIME_US_MAX));
}

/* Hawk 4.1: "a Gaussian distribution with standard deviation twice the mean, excluding negative values". */
static int64_t draw_gaussian_us(struct generator *g, int64_t mean_us)
{
    int64_t factor; /* 1 + 2z, in units of 2^-32 */

    do
        factor = (int64_t)DRAW_ONE + 2 * generate_normal(&g->rng);
    while (factor < 0);
    return generate_scale(mean_us, (uint64_t)factor, TRACE_TIME_US_MAX);
}

static int64_t draw_duration_us(struct generator *g, int64_t mean_us)
{
    switch ((enum job_table_draw)g->table.durations) {
    case TABLE_GAUSSIAN:
        return at_least_one(draw_gaussian_us(g, mean_us));
    case TABLE_EXPONENTIAL:
        return at_least_one(generate_scale(mean_us, generate_exponential(&g->rng), TRACE_TIME_US_MAX));
    default:
        return mean_us;
    }
}

static int next_drawn_job(void *arg, struct trace_job *job)
{
    struct generator *g = arg;
    const struct job_cluster *c;
    int64_t mean_us;
    __int128 sum = 0;

    if (g->made == g->table.jobs)
        return 0;
    if (g->made++ > 0)
        g->submit_us += generate_scale(g->table.gap_us, generate_exponential(&g->rng), TRACE_TIME_US_MAX);
    if (g->submit_us > TRACE_TIME_US_MAX)
        g->submit_us = TRACE_TIME_US_MAX;
    c = draw_cluster(g);
    *job = (struct trace_job){
        .line = g->made, .submit_us = g->submit_us, .tasks = draw_tasks(g, c), .tag = c->tag};
    mean_us = draw_mean_us(g, c);
    if (job->tasks > g->capacity) {
        g->capacity = job->tasks;
        g->durations_us = xrealloc(g->durations_us, g->capacity * sizeof *g->durations_us);
    }
    CHECK(job->tasks > 0);
    for (uint32_t i = 0; i < job->tasks; i++)
        sum += g->durations_us[i] = draw_duration_us(g, mean_us);
    job->mean_us = (int64_t)((sum + job->tasks / 2) / job->tasks);
    job->durations_us = g->durations_us;
    return 1;
}

struct generator *generator_new(const struct job_table *t, uint64_t seed)
{
    struct generator *g = xcalloc(1, sizeof *g);

    g->table = *t;
    rng_seed(&g->rng, seed);
    for (uint32_t i = 0; i < t->n; i++)
        g->shares_milli += t->clusters[i].share_milli;
    CHECK(g->shares_milli > 0);
    return g;
}

void generator_free(struct generator *g)
{
    if (!g)
        return;
    free(g->durations_us);
    free(g);
}

struct sim_source generator_source(struct generator *g)
{
    return (struct sim_source){.next = next_drawn_job, .arg = g};
}

static void write_seconds(FILE *f, int64_t us)
{
    int64_t fraction = us % US_PER_S;
    int places = 6;

    fprintf(f, "%lld", (long long)(us / US_PER_S));
    if (fraction == 0)
        return;
    for (; fraction % 10 == 0; fraction /= 10)
        places--;
    fprintf(f, ".%0*lld", places, (long long)fraction);
}

int generator_write(struct sim_source *source, FILE *f)
{
    struct trace_job job;
    int got;

    while ((got = source->next(source->arg, &job)) > 0) {
        write_seconds(f, job.submit_us);
        fprintf(f, " %u ", job.tasks);
        write_seconds(f, job.mean_us);
        for (uint32_t i = 0; i < job.tasks; i++) {
            putc(' ', f);
            write_seconds(f, job.durations_us[i]);
        }
        putc('\n', f);
        if (ferror(f))
            return HAWK_EIO;
    }
    if (got == 0 && fflush(f) != 0)
        return HAWK_EIO;
    return got;
}
