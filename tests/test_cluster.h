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

static uint32_t sum(const uint32_t *v, uint32_t n)
{
    uint32_t total = 0;

    for (uint32_t i = 0; i < n; i++)
        total += v[i];
    return total;
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
