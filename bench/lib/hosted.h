/* Many workers in one process, for benchmarks: each is the worker's own policy object with a connection of its own to a
 * real central, and, where dists are to reach it, a server of its own. Only what runs tasks is missing: a task either
 * never ends or ends as soon as it starts. */
#ifndef HAWK_BENCH_LIB_HOSTED_H
#define HAWK_BENCH_LIB_HOSTED_H

#include "net/link.h"
#include "net/server.h"
#include "worker/worker.h"

#define HOSTED_DISTS_MAX 4u

struct hosted;

struct hosted_config {
    struct loop *loop;   /* a LOOP_NET one */
    const char *central; /* its address */
    uint32_t workers, slots;
    bool dialled;   /* they listen on ports of 127.0.0.1, and dists dial them; false: nobody does */
    bool tasks_end; /* at once; false: never */
};

/* What all of them did. */
struct hosted_counts {
    uint32_t joined;         /* JOINED seen, since hosted_forget_joins */
    uint32_t dists;          /* streams from dists that are up */
    uint64_t lists;          /* MEMBERS */
    uint64_t started, ended; /* tasks */
    uint64_t probes, requests,
        cancelled;       /* probes by count, TASK_REQUEST, reservations that were cancelled */
    uint64_t in, out;    /* messages from and to dists */
    int64_t first_up_us; /* when the first link to central came up, since then; 0: none */
};

/* Makes them and lets them join; returns when all have, dies when they don't. */
struct hosted *hosted_new(const struct hosted_config *c);
void hosted_free(struct hosted *h);
const struct hosted_counts *hosted_counts(const struct hosted *h);
void hosted_forget_joins(struct hosted *h);
/* Tasks of central's that they hold. */
uint32_t hosted_central_tasks(const struct hosted *h);

#endif
