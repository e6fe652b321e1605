/* Changes to a virtual cluster, for tests and the fault simulator: they kill, freeze, move and restart
 * nodes. */
#include "faults/cluster.h"

#include "base/check.h"
#include "base/mem.h"
#include "faults/internal.h"

#include <string.h>

void cluster_kill_worker(struct cluster *c, uint32_t worker)
{
    struct cluster_worker *w = c->workers[worker];

    if (w->alive)
        bus_kill(c->bus, w->ep);
    w->alive = false;
    cluster_executors_end(c, w);
    cluster_forget_runs(w);
}

void cluster_crash_agent(struct cluster *c, uint32_t worker)
{
    struct cluster_worker *w = c->workers[worker];

    bus_kill(c->bus, w->ep);
    w->alive = false;
    cluster_executors_end(c, w);
    cluster_thaw(c, w); /* the dead agent's spawner thaws all runs */
    w->orphan_us = bus_now(c->bus) + CLUSTER_GRACE_US;
}

void cluster_return_agent(struct cluster *c, uint32_t worker)
{
    struct cluster_worker *w = c->workers[worker];

    if (bus_now(c->bus) >= w->orphan_us)
        cluster_forget_runs(w);
    worker_free(&w->w);
    cluster_start_worker(c, worker);
}

void cluster_app_job(struct cluster_job *j)
{
    j->desc->kind = PAYLOAD_APP;
    j->desc->app = blob_str(CLUSTER_APP);
}

void cluster_freeze(struct cluster *c, uint32_t ep, bool machine, int64_t until_us)
{
    struct cluster_worker *w = cluster_worker_of(c, ep);
    int64_t now_us = bus_now(c->bus);

    bus_freeze(c->bus, ep, until_us);
    if (w)
        w->asleep_us = until_us > w->asleep_us ? until_us : w->asleep_us;
    if (!w || !w->alive || !machine || w->frozen_us >= now_us)
        return;
    w->frozen_us = until_us;
    for (uint32_t i = 0; i < w->runs_n; i++)
        if (w->runs[i].paused_us == TIME_NEVER && w->runs[i].due_us != TIME_NEVER)
            w->runs[i].due_us += until_us - now_us;
}

void cluster_restart_worker(struct cluster *c, uint32_t worker)
{
    cluster_kill_worker(c, worker);
    worker_free(&c->workers[worker]->w);
    cluster_start_worker(c, worker);
}

void cluster_stop_worker(struct cluster *c, uint32_t worker, bool now)
{
    c->workers[worker]->stopping = true;
    cluster_post(c, c->workers[worker]->ep, (struct msg){.type = MSG_STOP, .stop.now = now});
}

void cluster_abandon_clients(struct cluster *c, uint32_t dist)
{
    for (uint32_t i = 0; i < c->jobs_n; i++) {
        struct cluster_job *j = c->jobs[i];

        if (j->dist == dist && !cluster_ended(j) && !(j->desc->flags & JOB_DETACHED))
            j->abandoned = true, j->away = false;
    }
}

void cluster_kill_dist(struct cluster *c, uint32_t dist)
{
    struct cluster_dist *d = c->dists[dist];

    bus_kill(c->bus, d->ep);
    cluster_dist_died(c, d);
}

void cluster_dist_died(struct cluster *c, struct cluster_dist *d)
{
    d->alive = false;
    d->node = dist_node(&d->d);
    d->cluster = d->d.cluster;
    d->told = d->d.seq_told > d->told ? d->d.seq_told : d->told;
    cluster_store_crash(c, &d->store);
    for (uint32_t i = 0; i < c->jobs_n; i++) {
        struct cluster_job *j = c->jobs[i];
        /* The dist's journal has the job. */
        bool kept = j->submitted && !j->err && j->desc->flags & JOB_DETACHED;

        if (c->dists[j->dist] != d || kept || cluster_ended(j))
            continue;
        j->leaving = 0;
        if (cluster_may_move(c, j))
            cluster_leave_dist(c, j);
        else
            j->abandoned = true;
    }
}

void cluster_restart_dist(struct cluster *c, uint32_t dist)
{
    struct cluster_dist *d = c->dists[dist];

    if (d->alive)
        cluster_kill_dist(c, dist);
    dist_free(&d->d);
    cluster_start_dist(c, d, dist);
}

/* Central's newest record of the dist's job numbers covers every number that central was told of in any life
 * of the dist. A number that was on its way when the dist died does not count. True as well if central has no
 * record of the dist or knows no number: central then says so. */
static bool numbers_on_record(const struct cluster *c, const struct cluster_dist *d)
{
    for (uint32_t i = c->store.durable; i-- > 0;) {
        const struct msg_journal_node *n = &c->store.v[i].journal_node;

        if (c->store.v[i].type == MSG_JOURNAL_NODE && node_eq(n->node, d->node))
            return n->next_seq == 0 || n->next_seq >= d->told;
    }
    return true;
}

/* Replaces the journal by an old copy. The copy's age is random: it keeps a random number of the records of
 * job numbers, and nothing else. */
static void put_back(struct cluster *c, struct cluster_store *s)
{
    uint32_t numbers = 0, kept, n = 0;

    for (uint32_t i = 0; i < s->n; i++)
        numbers += s->v[i].type == MSG_JOURNAL_NUMBERS;
    kept = (uint32_t)rng_below(&c->net.rng, numbers + 1);
    for (uint32_t i = 0; i < s->n; i++) {
        if (s->v[i].type == MSG_JOURNAL_NUMBERS && kept > 0) {
            kept--;
            s->v[n++] = s->v[i];
        } else {
            msg_drop(&s->v[i]);
        }
    }
    s->n = s->durable = n;
}

void cluster_put_back_journal(struct cluster *c, uint32_t dist, bool lost)
{
    struct cluster_dist *d = c->dists[dist];

    if (d->alive)
        cluster_kill_dist(c, dist);
    if (numbers_on_record(c, d)) {
        put_back(c, &d->store);
        for (uint32_t i = 0; i < c->jobs_n; i++)
            if (c->dists[c->jobs[i]->dist] == d && !cluster_ended(c->jobs[i]) && !c->jobs[i]->away)
                c->jobs[i]->abandoned = true;
        if (lost) {
            d->node = NODE_NONE;
            d->cluster = 0;
        }
    }
}

void cluster_move_worker(struct cluster *c, uint32_t worker, uint32_t other)
{
    struct cluster_worker *w = c->workers[worker], *o = c->workers[other];

    if (w != o) {
        memcpy(w->addr, o->addr, sizeof w->addr);
        w = o;
    }
    cluster_new_address(c, w);
}

void cluster_older_central(struct cluster *c, int64_t until_us)
{
    if (bus_runs(c->bus, c->central_ep))
        cluster_kill_central(c);
    central_free(c->central);
    c->central_us = until_us;
    c->store.full_until_us = until_us;
    cluster_start_central_of(c, (uint32_t)rng_below(&c->net.rng, c->central_epoch));
}

void cluster_kill_central(struct cluster *c)
{
    c->central_us = TIME_NEVER;
    bus_kill(c->bus, c->central_ep);
    cluster_store_crash(c, &c->store);
}

void cluster_restart_central(struct cluster *c)
{
    if (bus_runs(c->bus, c->central_ep))
        cluster_kill_central(c);
    central_free(c->central);
    cluster_start_central(c);
}

void cluster_empty_central(struct cluster *c)
{
    if (bus_runs(c->bus, c->central_ep))
        cluster_kill_central(c);
    cluster_store_free(&c->store);
    c->store = (struct cluster_store){.ep = c->central_ep, .commit_us = TIME_NEVER};
    c->accepted_n = 0; /* an empty central may have forgotten these jobs */
    c->operator.n = c->operator.told = 0;
    c->emptied = true;
    cluster_restart_central(c);
}

void cluster_drain(struct cluster *c, uint32_t node, enum drain drain)
{
    cluster_post(c, c->central_ep,
                 (struct msg){.type = MSG_SET_DRAIN,
                              .set_drain = {.node = {node}, .client = 1, .drain = (uint8_t)drain}});
}
