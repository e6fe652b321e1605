/* The simulated cluster: makes every role, starts them in no virtual time, and gives messages their delays
 * and costs. */
#include "base/check.h"
#include "base/mem.h"
#include "base/units.h"
#include "sim/internal.h"

#include <stdlib.h>

/* How many nodes join at a time. A small number keeps the messages that they exchange from piling up in
 * memory. */
#define JOIN_AT_ONCE 256u
/* Ended jobs that a dist or central keeps, for late messages. */
#define FINISHED_KEPT 32u

/* ---- Delays, and the time that endpoints spend ---- */

/* The published simulator has these delays only; nothing else takes time (its page, sections 0, 2 and 3). */
static int64_t compat_delay_us(unsigned type)
{
    switch (type) {
    case MSG_PROBE:
    case MSG_TASK_ENQUEUE:
        return 500;
    case MSG_TASK_LAUNCH: /* covers the request, too: the slot is taken during both */
    case MSG_NO_TASK:
        return 1000;
    default:
        return 0;
    }
}

/* The delay of a pair of endpoints, the same in both directions. So messages between the two never overtake
 * each other. */
static int64_t pair_delay_us(const struct sim *s, uint32_t x, uint32_t y)
{
    const struct sim_config *c = &s->config;
    uint64_t pair = x < y ? (uint64_t)x << 32 | y : (uint64_t)y << 32 | x;
    struct rng rng;

    if (c->delay_min_us == c->delay_max_us)
        return c->delay_min_us;
    rng_seed(&rng, c->seed ^ pair);
    return c->delay_min_us + (int64_t)rng_below(&rng, (uint64_t)(c->delay_max_us - c->delay_min_us) + 1);
}

static int64_t cost_us(const struct sim *s, uint32_t ep)
{
    return sim_is_worker(s, ep) ? s->config.worker_cost_us : s->config.scheduler_cost_us;
}

/* The time at which ep is done with one more message. */
static int64_t spend(struct sim *s, uint32_t ep, int64_t now_us)
{
    int64_t cost = cost_us(s, ep), from_us = s->busy_until_us[ep] > now_us ? s->busy_until_us[ep] : now_us;

    if (ep == s->central_ep)
        s->central_busy_us += cost;
    return s->busy_until_us[ep] = from_us + cost;
}

static int64_t delay_us(void *arg, uint32_t from, uint32_t to, const struct msg *m)
{
    struct sim *s = arg;

    if (!s->up || !m)
        return 0;
    if (s->config.compat)
        return compat_delay_us(m->type);
    return spend(s, from, bus_now(s->bus)) - bus_now(s->bus) + pair_delay_us(s, from, to);
}

static int64_t serve_us(void *arg, uint32_t ep, int64_t now_us)
{
    struct sim *s = arg;
    int64_t cost = cost_us(s, ep);

    return s->up && cost ? spend(s, ep, now_us) - cost : now_us;
}

/* ---- Making the roles ---- */

#define SHARE_MIN_PPM 20000 /* as central.short_partition_min */

void sim_central_config(const struct sim_config *c, struct central_config *to)
{
    central_config_init(to);
    to->cluster = 1;
    to->epoch = 1;
    to->heartbeats = false;
    to->members_bytes_s = 0;
    to->nodes_max = c->workers + c->dists;
    to->long_tasks_max = to->long_jobs_max =
        UINT32_MAX; /* as the dists': a workload is not refused in part */
    to->long_stretch = c->long_stretch;
    to->pause_share_milli = c->pause_share_milli;
    to->finished_kept = FINISHED_KEPT;
    to->policy = c->policy;
    to->history.cutoff_fixed = true;
    to->history.cutoff_us = c->policy.cutoff_us;
    to->history.share_fixed = !c->share_auto;
    if (to->history.share_fixed)
        to->history.share_ppm = c->policy.short_share_ppm;
    else
        to->history.share_min_ppm = SHARE_MIN_PPM;
}

static void add_central(struct sim *s)
{
    const struct bus_role r = {.fns = &central_functions};
    struct central_config c;

    sim_central_config(&s->config, &c);
    s->central = central_new(&c);
    (void)rng_next(&s->rng); /* central had a seed once: the seeds of published results keep their runs */
    s->central_ep = bus_add(s->bus, ROLE_CENTRAL);
    bus_start(s->bus, s->central_ep, &r, s->central);
    bus_post(s->bus, s->central_ep, 0, &(struct msg){.type = MSG_RECOVERED});
}

static struct blob *numbered(char letter, uint32_t n)
{
    char name[16];

    snprintf(name, sizeof name, "%c%u", letter, n + 1);
    return blob_str(name);
}

static void add_workers(struct sim *s)
{
    const struct bus_role r = {.fns = &worker_functions};
    struct worker_config c;

    worker_config_init(&c);
    c.addr = blob_str("sim");
    c.slots = s->config.slots;
    c.queue_per_slot = s->config.queue_per_slot;
    c.pause.paused_max = sim_paused_max(&s->config);
    c.pause.after_us = s->config.pause_after_us;
    c.pause.longest_us = s->config.pause_longest_us;
    c.pause.share_milli = s->config.pause_share_milli;
    c.heartbeats = false;
    s->runs = xcalloc(s->config.workers, (c.slots + c.pause.paused_max) * sizeof *s->runs);
    s->workers = xaligned(64, s->config.workers * sizeof *s->workers);
    for (uint32_t i = 0; i < s->config.workers; i++) {
        uint32_t ep = bus_add(s->bus, ROLE_WORKER);

        if (i == 0)
            s->first_worker_ep = ep;
        c.name = numbered('w', i);
        c.incarnation = rng_next(&s->rng);
        worker_init(&s->workers[i], &c, rng_next(&s->rng));
        blob_drop(c.name);
        bus_start(s->bus, ep, &r, &s->workers[i]);
        if (i % JOIN_AT_ONCE == 0)
            bus_run_until(s->bus, 0);
    }
    blob_drop(c.addr);
}

static void add_dists(struct sim *s)
{
    const struct bus_role r = {.fns = &dist_functions};
    struct dist_config c;

    dist_config_init(&c);
    c.addr = blob_str("sim");
    c.first_seq = 1;
    c.heartbeats = false;
    c.finished_kept = FINISHED_KEPT;
    c.jobs_unfinished_max = UINT32_MAX;
    c.tasks_unfinished_max = INT32_MAX;
    s->dists = xcalloc(s->config.dists, sizeof *s->dists);
    s->seqs = xcalloc(s->config.dists, sizeof *s->seqs);
    for (uint32_t i = 0; i < s->config.dists; i++) {
        uint32_t ep = bus_add(s->bus, ROLE_DIST);

        if (i == 0)
            s->first_dist_ep = ep;
        c.name = numbered('d', i);
        c.incarnation = rng_next(&s->rng);
        dist_init(&s->dists[i], &c, rng_next(&s->rng));
        blob_drop(c.name);
        bus_start(s->bus, ep, &r, &s->dists[i]);
        bus_run_until(s->bus, bus_now(s->bus));
    }
    blob_drop(c.addr);
}

static void on_stepped(void *arg, uint32_t ep, int64_t now_us)
{
    struct sim *s = arg;

    if (ep == s->central_ep)
        central_check(s->central);
    else if (sim_is_worker(s, ep))
        worker_check(&s->workers[sim_worker_of(s, ep)]);
    else
        dist_check(&s->dists[ep - s->first_dist_ep]);
}

/* Nodes join without any time passing. The members that thieves choose from follow within a second. Dists
 * join last: so each gets one list of all workers, and no message per worker. */
void sim_cluster_start(struct sim *s)
{
    struct bus_config bc = {.arg = s,
                            .delay_us = delay_us,
                            .effect = sim_effect,
                            .trace = sim_delivery,
                            .stepped = s->config.check ? on_stepped : NULL,
                            .workers_meshed = true};

    if (!s->config.compat && (s->config.scheduler_cost_us || s->config.worker_cost_us))
        bc.serve_us = serve_us;
    s->bus = bus_new(&bc);
    add_central(s);
    add_workers(s);
    bus_run_until(s->bus, US_PER_S);
    add_dists(s);
    bus_run_until(s->bus, 2 * US_PER_S);
    for (uint32_t i = 0; i < s->config.workers; i++)
        for (uint32_t d = 0; d < s->config.dists; d++)
            CHECK(dist_has_stream(&s->dists[d], worker_node(&s->workers[i])));
    s->busy_until_us = xcalloc(s->first_dist_ep + s->config.dists, sizeof *s->busy_until_us);
    s->start_us = bus_now(s->bus);
    s->up = true;
}

void sim_cluster_free(struct sim *s)
{
    bus_free(s->bus);
    for (uint32_t i = 0; s->workers && i < s->config.workers; i++)
        worker_free(&s->workers[i]);
    for (uint32_t i = 0; s->dists && i < s->config.dists; i++) {
        dist_free(&s->dists[i]);
        free(s->seqs[i].v);
    }
    central_free(s->central);
    free(s->workers);
    free(s->dists);
    free(s->seqs);
    free(s->busy_until_us);
}
