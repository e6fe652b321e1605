/* Bounds on response times that no scheduler can beat. They are a yardstick: nothing is scheduled here.
 *
 * For each job: with N slots, no delays and an otherwise empty cluster, the job cannot end before its longest
 * task, nor before all slots together have done its work: response >= max(longest task, work / N). Since every
 * job's response is at least its bound, every percentile of responses is at least that percentile of the bounds.
 *
 * For a class's mean there is a second bound. One machine that is N times as fast does as well as the cluster,
 * because it can share its time as the slots do. Without the other class's jobs it does no worse. On one
 * machine, serving the job with the least work left, with preemption, minimizes the mean response (Schrage
 * 1968). So the mean is at least that of this schedule. It is also at least the mean of the jobs' own bounds.
 * The larger of the two is reported. */
#include "base/check.h"
#include "base/heap.h"
#include "base/mem.h"
#include "base/units.h"
#include "sim/internal.h"

#include <stdio.h>
#include <stdlib.h>

struct work {
    struct heap_node node; /* key: units of work left */
    int64_t at, units;
};

/* One class on one fast machine. A unit of work is what one slot does in 1 us; the machine needs 1/N us for
 * it. */
struct machine {
    struct heap left;  /* jobs by the work that is left */
    struct work *jobs; /* in order of submission */
    uint32_t n, cap;
    int64_t now;
    __int128 sum; /* sum of the responses */
};

static void work_until(struct machine *m, int64_t until)
{
    struct heap_node *first;

    while ((first = heap_min(&m->left)) && m->now < until) {
        struct work *w = container_of(first, struct work, node);

        if (first->key > until - m->now) {
            heap_update(&m->left, first, first->key - (until - m->now), first->seq);
            m->now = until;
            return;
        }
        m->now += first->key;
        m->sum += m->now - w->at;
        heap_remove(&m->left, first);
    }
    if (until != TIME_NEVER)
        m->now = until;
}

/* The least possible mean response of m's jobs, in microseconds. */
static double least_mean_us(struct machine *m, int64_t slots)
{
    heap_init(&m->left);
    for (uint32_t i = 0; i < m->n; i++) {
        struct work *w = &m->jobs[i];
        int err;

        work_until(m, w->at);
        w->node = (struct heap_node){.key = w->units, .seq = i};
        err = heap_push(&m->left, &w->node);
        CHECK(err == 0);
    }
    work_until(m, TIME_NEVER);
    heap_free(&m->left);
    return m->n ? (double)m->sum / (double)slots / m->n : 0;
}

/* ---- Jobs ---- */

struct bound {
    const struct sim_config *config;
    struct sim_result *r;
    struct machine machines[CLASS_COUNT];
    int64_t slots, first_submit_us;
    __int128 work_us; /* of all jobs */
    bool means;       /* times in units fit into 63 bits */
};

static void add_job(struct bound *b, const struct trace_job *t)
{
    struct sim_result *r = b->r;
    struct sim_job_result j = {.number = r->jobs_n + 1, .submit_us = t->submit_us, .tasks = t->tasks};
    __int128 work_us = 0, alone_us;
    struct machine *m;

    for (uint32_t i = 0; i < t->tasks; i++) {
        int64_t us = sim_truncated(b->config, t->durations_us[i]);

        work_us += us;
        j.longest_us = us > j.longest_us ? us : j.longest_us;
    }
    if (r->jobs_n == 0)
        b->first_submit_us = t->submit_us;
    j.submit_us -= b->first_submit_us;
    b->work_us += work_us;
    alone_us = work_us / b->slots;
    if (alone_us > INT64_MAX - j.submit_us) /* less is still a bound */
        alone_us = INT64_MAX - j.submit_us;
    j.response_us = alone_us > j.longest_us ? (int64_t)alone_us : j.longest_us;
    j.class = j.believed = sim_true_class(b->config, t);
    m = &b->machines[j.class];
    b->means = b->means && j.submit_us < INT64_MAX / 4 / b->slots && b->work_us < INT64_MAX / 4;
    vec_grow(m->jobs, m->n, m->cap);
    m->jobs[m->n++] =
        (struct work){.at = b->means ? j.submit_us * b->slots : 0, .units = b->means ? (int64_t)work_us : 0};
    vec_grow(r->jobs, r->jobs_n, r->jobs_cap);
    r->jobs[r->jobs_n++] = j;
    r->classes[j.class].jobs++;
    r->classes[j.class].tasks += t->tasks;
    r->tasks += t->tasks;
    r->last_submit_us = j.submit_us;
    if (j.submit_us + j.response_us > r->end_us)
        r->end_us = j.submit_us + j.response_us;
}

int sim_bound(const struct sim_config *c, const struct sim_source *source, struct sim_result *r, char *why,
              size_t size)
{
    struct bound b = {.config = c, .r = r, .slots = (int64_t)c->workers * c->slots, .means = true};
    struct trace_job t;
    int got;

    *r = (struct sim_result){0};
    got = sim_config_check(c, why, size);
    if (got)
        return got;
    while ((got = source->next(source->arg, &t)) > 0)
        add_job(&b, &t);
    if (got < 0)
        snprintf(why, size, "the workload cannot be read");
    else
        sim_classes_fill(r);
    for (int k = 0; k < CLASS_COUNT; k++) {
        struct spread *response = &r->classes[k].response_us;
        double mean_us = b.means && got == 0 ? least_mean_us(&b.machines[k], b.slots) : 0;

        if (mean_us > response->mean)
            response->mean = mean_us;
        free(b.machines[k].jobs);
    }
    return got;
}
