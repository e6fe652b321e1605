/* What the bus costs per event: dists send messages to random workers, which answer after a timer or at once.
 * Usage: bench_bus [WORKERS [EVENTS]] */
#include "base/mem.h"
#include "base/rng.h"
#include "base/units.h"
#include "bus/bus.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define DISTS 10
#define OUTSTANDING 20000 /* messages under way or timers running */

struct node {
    struct rng rng;
    uint32_t workers;
    uint32_t asker; /* the dist to answer */
    int64_t timeout_us;
    bool is_dist;
};

static void put(struct out *out, uint32_t peer)
{
    out_add(out, MSG_PROBE_CANCEL, peer)->probe_cancel.job.v = 1;
}

static void step(void *role, const struct event *e, struct out *out)
{
    struct node *n = role;

    if (n->is_dist) {
        if (e->m.type == MSG_WATCH || e->m.type == MSG_PROBE_CANCEL)
            put(out, DISTS + 1 + (uint32_t)rng_below(&n->rng, n->workers));
        return;
    }
    if (e->m.type == MSG_PROBE_CANCEL && n->timeout_us == TIME_NEVER && rng_below(&n->rng, 4) == 0) {
        n->asker = e->m.peer;
        n->timeout_us = e->now_us + 1000 + (int64_t)rng_below(&n->rng, 100000);
    } else if (e->m.type == MSG_PROBE_CANCEL) {
        put(out, e->m.peer);
    } else if (e->m.type == MSG_TIMER) {
        n->timeout_us = TIME_NEVER;
        put(out, n->asker);
    }
}

static int64_t next_timeout(const void *role) { return ((const struct node *)role)->timeout_us; }
static const struct role_functions node_functions = {.step = step, .next_timeout = next_timeout};
static const struct bus_role fns = {.fns = &node_functions};

/* Central: tells every node its id, and every dist of every worker. */
static void central_step(void *role, const struct event *e, struct out *out)
{
    struct node *n = role;
    struct msg *m;

    if (e->m.type != MSG_PEER_UP)
        return;
    m = out_add(out, MSG_JOINED, e->m.peer);
    m->joined.node.v = e->m.peer; /* links and ids both count from 1 */
    for (uint32_t d = 1; d <= DISTS && e->m.peer > DISTS; d++) {
        m = out_add(out, MSG_MEMBER, d);
        m->member.node.v = e->m.peer;
        m->member.role = ROLE_WORKER;
        m->member.addr = blob_str("there");
    }
    (void)n;
}
static const struct role_functions central_functions = {.step = central_step, .next_timeout = next_timeout};
static const struct bus_role central_fns = {.fns = &central_functions};

static int64_t delay(void *arg, uint32_t from, uint32_t to, const struct msg *m) { return 500; }
static void effect(void *arg, uint32_t ep, int64_t now_us, const struct msg *m) {}

int main(int argc, char **argv)
{
    uint32_t workers = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 15000;
    uint64_t events = argc > 2 ? strtoull(argv[2], NULL, 10) : 5000000, done = 0;
    struct bus_config c = {.delay_us = delay, .effect = effect};
    struct bus *b = bus_new(&c);
    struct node *nodes = xcalloc(workers + DISTS + 1, sizeof *nodes);
    struct timespec from, to;
    double seconds;

    for (uint32_t i = 0; i <= workers + DISTS; i++) {
        uint32_t ep = bus_add(b, i == 0 ? ROLE_CENTRAL : i <= DISTS ? ROLE_DIST : ROLE_WORKER);

        rng_seed(&nodes[i].rng, i);
        nodes[i].workers = workers;
        nodes[i].timeout_us = TIME_NEVER;
        nodes[i].is_dist = i > 0 && i <= DISTS;
        bus_start(b, ep, i == 0 ? &central_fns : &fns, &nodes[i]);
    }
    bus_run_until(b, US_PER_S);
    for (uint32_t i = 0; i < OUTSTANDING; i++)
        bus_post(b, 2 + i % DISTS, bus_now(b) + i % 5000, &(struct msg){.type = MSG_WATCH});
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    while (done < events && bus_next_time(b) != TIME_NEVER)
        done += bus_run_until(b, bus_now(b) + 1000);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    seconds = (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9;
    printf("%u workers: %.2f million events per CPU second, %.0f ns each\n", workers,
           (double)done / seconds / 1e6, seconds * 1e9 / (double)done);
    bus_free(b);
    free(nodes);
    return 0;
}
