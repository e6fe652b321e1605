/* A cluster that runs jobs until they end: for test_cluster.c and test_cluster_members.c. */
#ifndef HAWK_TESTS_TEST_CLUSTER_H
#define HAWK_TESTS_TEST_CLUSTER_H

#include "faults/cluster.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define MS US_PER_MS
#define S US_PER_S

/* How often the job's tasks started, and ended by themselves, anywhere. */
static inline uint32_t starts_of(const struct cluster_job *j, uint32_t tasks)
{
    uint32_t total = 0;

    for (uint32_t i = 0; i < tasks; i++)
        total += j->tasks[i].starts;
    return total;
}

static inline uint32_t ends_of(const struct cluster_job *j, uint32_t tasks)
{
    uint32_t total = 0;

    for (uint32_t i = 0; i < tasks; i++)
        total += j->tasks[i].ends;
    return total;
}

static inline void cluster_view(struct cluster *c, const struct cluster_job *j, struct job_view *v)
{
    const struct dist *d = &c->dists[j->dist]->d;
    const struct dist_job *found = dist_find(d, j->id);

    assert_non_null(found);
    dist_job_view(d, found, bus_now(c->bus), v);
}

/* Sums one counter over all dists and workers. */
static inline uint64_t cluster_counter(const struct cluster *c, enum counter counter)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < c->workers_n; i++)
        sum += worker_counter(&c->workers[i]->w, counter);
    for (uint32_t i = 0; i < c->dists_n; i++)
        sum += dist_counters(&c->dists[i]->d)[counter];
    return sum;
}

static inline uint32_t cluster_running(const struct cluster *c, uint32_t worker)
{
    return c->workers[worker]->runs_n;
}

static void on_failed(void *arg, enum invariant invariant, const char *text)
{
    fail_msg("invariant \"%s\" is violated %s", invariant_names[invariant], text);
}

static struct cluster *up(const struct cluster_config *config)
{
    struct cluster_config with = *config;
    struct cluster *c;

    with.failed = on_failed;
    c = cluster_new(&with);

    cluster_come_up(c);
    return c;
}

static void finish(struct cluster *c, int64_t limit_us)
{
    cluster_run_jobs(c, limit_us);
    cluster_expect_all_quiet(c);
    cluster_free(c);
}

#endif
