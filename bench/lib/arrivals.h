/* A list of jobs and when they come, for open-loop benchmarks: lines "AT_US TASKS TASK_US" (bench/poisson.py
 * makes them). No dependency on Hawk: peers' harness uses it as well. */
#ifndef HAWK_BENCH_LIB_ARRIVALS_H
#define HAWK_BENCH_LIB_ARRIVALS_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct arrival {
    int64_t at_us, task_us;
    uint32_t tasks;
    uint32_t left;       /* tasks that have not ended */
    int64_t response_us; /* once all have */
};

struct arrivals {
    struct arrival *v;
    uint32_t n, ended;
    int64_t start_us; /* CLOCK_MONOTONIC, of what is 0 in the list */
};

static inline int64_t arrivals_now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* Exits with a message when the file is not of that kind. */
static inline void arrivals_read(struct arrivals *a, const char *path)
{
    FILE *f = fopen(path, "r");
    uint32_t cap = 1024;
    struct arrival *j;

    *a = (struct arrivals){.v = calloc(cap, sizeof *a->v)};
    while (f && a->v) {
        j = &a->v[a->n];
        /* NOLINTNEXTLINE(cert-err34-c): written by the benchmark itself */
        if (fscanf(f, "%" SCNd64 " %" SCNu32 " %" SCNd64, &j->at_us, &j->tasks, &j->task_us) != 3)
            break;
        j->left = j->tasks;
        if (++a->n == cap)
            a->v = realloc(a->v, (size_t)(cap *= 2) * sizeof *a->v);
    }
    if (!f || !a->v || a->n == 0 || !feof(f)) {
        fprintf(stderr, "%s: no list of arrivals\n", path);
        exit(1);
    }
    fclose(f);
}

/* So many tasks of the i-th job have ended. */
static inline void arrivals_ended(struct arrivals *a, uint32_t i, uint32_t tasks)
{
    struct arrival *j = &a->v[i];

    j->left -= tasks;
    if (j->left)
        return;
    j->response_us = arrivals_now_us() - a->start_us - j->at_us;
    a->ended++;
}

/* A line per job, in order: how long after its time its last task had ended, in microseconds. */
static inline void arrivals_print(const struct arrivals *a)
{
    for (uint32_t i = 0; i < a->n; i++)
        printf("%" PRId64 "\n", a->v[i].response_us);
}

#endif
