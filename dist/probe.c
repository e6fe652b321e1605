/* Probing: how many reservations a job gets, where, and how they come and go without a task. No job may hang.
 * That rests on one inequality: `live` is never more than what workers hold. When messages may cross, the
 * dist counts down, never up: too few live reservations only cost a probe. */
#include "dist/internal.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/units.h"

/* The delay after refused probes; it doubles this many times. */
#define REFUSED_US (10 * US_PER_MS)
#define REFUSED_DOUBLINGS 7
#define TURNED_AWAY 2u
/* POLICY_PROBE_EVERYWHERE: the most workers of a pool in which that holds, and the reservations of this dist with which
 * a worker is far from idle. */
#define EVERYWHERE_WORKERS 16u
#define EVERYWHERE_LIVE 64u
/* Where a job avoids so much of its pool that a draw meets one of the other slots only once in so many times, it draws
 * from these alone. */
#define FEW_LEFT 4u
/* How long a job may stand still after the loss of a worker before its reservations are doubted. */
#define AUDIT_US (10 * US_PER_S)
#define AUDIT_DOUBLINGS 10

/* Whether the job has lost the reserve, and there are other workers that may run its tasks. */
bool dist_probe_general(const struct dist *d, const struct dist_job *job)
{
    const struct draw *pool = &dist_pools_of((struct dist *)d, job)[POOL_GENERAL].draw;

    return job->overstays && draw_total(pool) > dist_end_times_short(d, job, pool);
}

/* The pool for a job's probes. Central places long tasks on general workers alone. Where it does, probes for the long
 * tasks that stay with the dist go to general workers as well. A job that began while short tasks ran on reserved
 * workers only must not wait for these if the policy reserves none any more. */
enum pool dist_probe_pool(const struct dist *d, const struct dist_job *job)
{
    if (dist_probe_general(d, job))
        return POOL_GENERAL;
    if (job->probe_long && !job->overstays)
        return job->policy_flags & (POLICY_LONG_GENERAL | POLICY_CENTRAL_LONG) ? POOL_GENERAL : POOL_ALL;
    return job->policy_flags & d->policy.flags & POLICY_SHORT_RESERVED && policy_reserves(&d->policy)
               ? POOL_RESERVED
               : POOL_ALL;
}

/* ceil(ratio * tasks), and at least tasks (Sparrow 3.3; docs/protocol.md 3.4). */
static uint64_t probes_for(const struct dist_job *job, uint32_t tasks)
{
    uint64_t n = ((uint64_t)tasks * job->ratio_milli + 999) / 1000;

    return n < tasks ? tasks : n;
}

/* ---- Lists and timers of jobs that want probes ---- */

void dist_probe_wait(struct dist_job *job, enum probe_wait wait, struct list *l)
{
    list_remove(&job->in_wait);
    if (l)
        list_push_tail(l, &job->in_wait);
    job->wait = (uint8_t)wait;
}

void dist_probe_forget(struct dist *d, struct dist_job *job)
{
    dist_probe_wait(job, WAIT_NOT, NULL);
    if (dist_job_awaits(job, TIMER_PROBE))
        dist_job_timer_stop(d, job);
}

static void retry_later(struct dist *d, struct dist_job *job)
{
    int64_t delay = REFUSED_US << job->backoff;

    if (job->backoff < REFUSED_DOUBLINGS)
        job->backoff++;
    /* A random delay of 0.5 to 1.5 times that, so that jobs that were refused together do not come back
     * together. */
    dist_job_timer_start(d, job, TIMER_PROBE,
                         d->now_us + delay / 2 + (int64_t)rng_below(&d->rng, (uint64_t)delay));
}

/* ---- Sending ---- */

static void put_probe(struct dist *d, const struct dist_job *job, const struct dist_node *n, uint32_t count)
{
    struct msg_probe *m = &out_add(d->out, MSG_PROBE, n->m.node.v)->probe;

    m->job = job->id;
    m->estimate_us = job->estimate_us;
    m->count = count;
    m->class = job->probe_long ? CLASS_LONG : CLASS_SHORT;
    m->app = job->app ? job->app->id : 0;
    m->ancestors = ancestors_set(&job->desc->ancestors);
    m->user = job->user;
}

static void send_to(struct dist *d, struct dist_job *job, struct dist_node *n, uint32_t probes)
{
    dist_place_add_live(dist_place_get(d, job, n), probes);
    job->probes_sent += probes;
    dist_count(d, COUNTER_probes_sent, probes);
    if (!(job->policy_flags & POLICY_SPLIT_COUNTS)) {
        put_probe(d, job, n, probes);
        return;
    }
    while (probes-- > 0)
        put_probe(d, job, n, 1);
}

static struct dist_pool *reserved_pool(struct dist *d, const struct dist_job *job)
{
    return &dist_pools_of(d, job)[POOL_RESERVED];
}

/* Whether the rest of the job's probes go to the short partition, where no worker refuses them for long
 * tasks: workers with long tasks have refused TURNED_AWAY times as many as it had (POLICY_AVOID_LONG). */
static bool turned_away(struct dist *d, const struct dist_job *job)
{
    return !job->probe_long && job->turned_away > TURNED_AWAY * probes_for(job, job->desc->tasks) &&
           draw_total(&reserved_pool(d, job)->draw) > 0;
}

/* Whether a job for which probes are drawn there has some at every worker (docs/protocol.md 3.4). */
static bool probes_everywhere(const struct dist_job *job, const struct draw *pool)
{
    return (job->policy_flags & POLICY_PROBE_EVERYWHERE) && !job->probe_long &&
           draw_members(pool) <= EVERYWHERE_WORKERS;
}

/* Whether no probe of the job may go to that worker, while others are there; starts: dist_starts_avoided() > 0. */
static bool probe_avoids(const struct dist *d, const struct dist_job *job, uint32_t id, bool starts)
{
    return (starts && owner_starts_avoid(&job->starts, (node_id_t){id})) ||
           !dist_end_times_fit(d, job, dist_node_find(d, id));
}

/* Whether the worker may run out of work before a reservation of the job gets its turn elsewhere. */
static bool lacks_reservations(const struct dist *d, const struct dist_job *job, const struct dist_node *n)
{
    const struct dist_place *p;

    if (n->live >= EVERYWHERE_LIVE)
        return false;
    p = dist_place_find(d, job, n);
    return !p || p->live == 0;
}

static void draw_node(struct dist *d, struct dist_node *node)
{
    if (node->drawn++ == 0) {
        vec_grow(d->drawn, d->drawn_n, d->drawn_cap);
        d->drawn[d->drawn_n++] = node;
    }
}

/* Draws each worker that has no reservation of the job yet. Returns their number. */
static uint32_t draw_others(struct dist *d, const struct dist_job *job, const struct draw *pool)
{
    bool starts = dist_starts_avoided(d, job) > 0;
    uint32_t n = 0;

    for (uint32_t i = 0; i < draw_members(pool) && n < LIVE_MAX - job->live; i++) {
        struct dist_node *node = dist_node_find(d, pool->ids[i]);

        if (node->drawn > 0 || !lacks_reservations(d, job, node) ||
            probe_avoids(d, job, pool->ids[i], starts))
            continue;
        draw_node(d, node);
        n++;
    }
    return n;
}

/* Draws the workers of n probes. The job avoids so many slots of the pool, and not all. The chances are the same if it
 * draws from the others alone, or again when it meets one that it avoids. */
static void draw_workers(struct dist *d, const struct dist_job *job, struct draw *pool, uint64_t n,
                         uint32_t avoided)
{
    bool starts = avoided > 0 && dist_starts_avoided(d, job) > 0;
    bool few = draw_total(pool) - avoided < draw_total(pool) / FEW_LEFT;
    struct draw left, *from = few ? &left : pool;
    uint32_t taken = 0;

    draw_init(&left);
    for (uint32_t i = 0; few && i < draw_members(pool); i++)
        if (!probe_avoids(d, job, pool->ids[i], starts))
            draw_add(&left, pool->ids[i], draw_weight(pool, pool->ids[i]));
    for (uint64_t i = 0; i < n; i++) {
        uint32_t id;

        do
            id = job->policy_flags & POLICY_DRAW_REPLACE ? draw_any(from, &d->rng)
                                                         : draw_next(from, &d->rng, &taken);
        while (avoided > 0 && !few && probe_avoids(d, job, id, starts));
        draw_node(d, dist_node_find(d, id));
    }
    draw_free(&left);
}

/* Sends n probes (at most PROBES_MAX) for the job, or makes it wait for a worker. */
static void probe_job(struct dist *d, struct dist_job *job, uint64_t n)
{
    struct dist_pool *which = dist_probe_pool_of(d, job);
    uint32_t late = dist_end_times_short(d, job, &which->draw);
    uint32_t avoided = late + dist_starts_avoided(d, job); /* of `which` some are left, or total is 0 */
    struct draw *pool = avoided == 0 && turned_away(d, job) ? &reserved_pool(d, job)->draw : &which->draw;
    uint32_t total = draw_total(pool) - late;
    bool everywhere = probes_everywhere(job, pool);

    if (n > PROBES_MAX)
        n = PROBES_MAX;
    if (n > LIVE_MAX - job->live)
        n = LIVE_MAX - job->live;
    if (total == 0) {
        dist_probe_wait(job, WAIT_STARVED, &which->starved);
        return;
    }
    draw_workers(d, job, pool, n, avoided);
    if (everywhere)
        n += draw_others(d, job, pool);
    for (uint32_t i = 0; i < d->drawn_n; i++) {
        send_to(d, job, d->drawn[i], d->drawn[i]->drawn);
        d->drawn[i]->drawn = 0;
    }
    d->drawn_n = 0;
    job->refused = false;
    job->progress_us = d->now_us;
    if (job->sure_us <= d->doubt_us)
        job->sure = 0;
    job->sure_us = d->now_us;
    job->sure += (uint32_t)n;
    if (n > total || everywhere)
        dist_probe_wait(job, WAIT_CROWDED, &which->crowded);
    else if (dist_job_starved(job))
        dist_probe_wait(job, WAIT_NOT, NULL);
}

void dist_probe_first(struct dist *d, struct dist_job *job)
{
    uint64_t n = probes_for(job, dist_job_launchable(job));

    if (n == 0)
        return;
    if (n < job->min_probes)
        n = job->min_probes;
    probe_job(d, job, n);
}

void dist_probe_refill(struct dist *d, struct dist_job *job, struct dist_node *n)
{
    const struct draw *pool = &dist_probe_pool_of(d, job)->draw;

    if (dist_job_launchable(job) > 0 && !dist_job_kept_back(job) && !d->leaving &&
        probes_everywhere(job, pool) && draw_weight(pool, n->m.node.v) > 0 && lacks_reservations(d, job, n) &&
        job->live < LIVE_MAX && !probe_avoids(d, job, n->m.node.v, dist_starts_avoided(d, job) > 0))
        send_to(d, job, n, 1);
}

static void probe_missing(struct dist *d, struct dist_job *job)
{
    CHECK(job->live < dist_job_launchable(job));
    probe_job(d, job, probes_for(job, dist_job_launchable(job) - job->live));
}

/* ---- A worker was lost ---- */

/* A thief tells the dist of a reservation that it stole, and then acknowledges it to its victim
 * (docs/protocol.md 5.3). If the thief's stream to the dist breaks in between, the dist counts one
 * reservation too many at the victim. Since version 3 the victim's answers to BEAT show that
 * (dist_on_beat()). For older workers there is this rule: any loss of a worker makes all reservations that
 * are live then doubtful. A job that stands still for long with fewer sure reservations than tasks is probed
 * for again, at growing intervals. */
void dist_probe_doubt(struct dist *d)
{
    /* Under any policy: thefts from before count, and workers may know another policy than this dist. */
    d->doubt_us = d->now_us;
    if (d->audit_at > d->now_us + AUDIT_US)
        d->audit_at = d->now_us + AUDIT_US;
}

/* When to doubt the job's reservations next; TIME_NEVER: there is no cause. */
static int64_t audit_due(const struct dist *d, const struct dist_job *job)
{
    int64_t since = job->progress_us > d->doubt_us ? job->progress_us : d->doubt_us;

    if (d->doubt_us < 0 || d->doubt_us < job->submit_us || dist_job_launchable(job) == 0 ||
        dist_job_starved(job) || dist_job_kept_back(job) || !job->submitted)
        return TIME_NEVER;
    if (job->sure_us > d->doubt_us && job->sure >= dist_job_launchable(job))
        return TIME_NEVER;
    return since + (AUDIT_US << job->audits);
}

void dist_probe_settle(struct dist *d, struct dist_job *job)
{
    int64_t due;

    if (dist_job_kept_back(job))
        return;
    if (dist_job_launchable(job) == 0) {
        dist_probe_forget(d, job);
        /* Proactive cancellation (Sparrow 3.6). */
        if (job->live > 0 && (job->policy_flags & POLICY_CANCEL_PROBES))
            dist_probe_cancel_all(d, job);
        return;
    }
    due = audit_due(d, job);
    if (due < d->audit_at)
        d->audit_at = due;
    if (job->live >= dist_job_launchable(job) || dist_job_starved(job) || heap_in(&job->timer))
        return;
    /* Without REPROBE lost reservations are not made good; but a job without any would never end. */
    if (!(job->policy_flags & POLICY_REPROBE) && job->live > 0)
        return;
    if (job->refused)
        retry_later(d, job);
    else
        probe_missing(d, job);
}

static void put_probe_cancel(struct dist *d, job_id_t job, uint32_t worker)
{
    out_add(d->out, MSG_PROBE_CANCEL, worker)->probe_cancel.job = job;
}

void dist_probe_cancel_all(struct dist *d, struct dist_job *job)
{
    job->crossed = true;
    list_foreach(&job->places, node, nxt) {
        struct dist_place *p = container_of(node, struct dist_place, in_job);

        if (p->live == 0)
            continue;
        put_probe_cancel(d, job->id, p->node->m.node.v);
        dist_place_take_live(d, p, p->live);
    }
}

/* ---- The cluster grows ---- */

/* DEVIATES: in the papers a cluster never grows. If a job has more probes than the cluster had slots, workers
 * that come later would stand idle, so they get their share of its probes. 100 tasks of 0.2 s, submitted to
 * one worker of 4 slots, with another such worker started at once: 2.7 s, and 5.1 s without this. */
static void share_out(struct dist *d, struct dist_job *job, const struct draw *pool, struct dist_node *n)
{
    uint64_t slots = draw_weight(pool, n->m.node.v);
    uint64_t total = draw_total(pool);
    uint64_t want = probes_for(job, dist_job_launchable(job));
    uint64_t share = (want * slots + total - 1) / total;
    const struct dist_place *p = dist_place_find(d, job, n);

    if (want == 0 || probe_avoids(d, job, n->m.node.v, dist_starts_avoided(d, job) > 0))
        return;
    if (p && p->live > 0) /* it was away only for a central that restarted, and has its share */
        return;
    if (want <= total - slots) { /* its probes have spread as widely as at first */
        bool everywhere = probes_everywhere(job, pool);

        if (!everywhere)
            dist_probe_wait(job, WAIT_NOT, NULL);
        if (!everywhere || !lacks_reservations(d, job, n))
            return;
    }
    if (share > PROBES_MAX)
        share = PROBES_MAX;
    if (share <= LIVE_MAX - job->live)
        send_to(d, job, n, (uint32_t)share);
}

/* Probes for a job that waited for a worker. */
static void probe_starved(struct dist *d, struct dist_job *job)
{
    if (job->probes_sent == 0)
        dist_probe_first(d, job);
    else if (job->live < dist_job_launchable(job))
        probe_missing(d, job);
    else /* its reservations are in doubt: dist_probe_audit() */
        probe_job(d, job, dist_job_launchable(job));
}

/* Removes the jobs from a list of pool `which` that are drawn for from another pool now. */
static void leave_pool(struct dist *d, struct list *from, enum pool which)
{
    list_foreach(from, node, nxt) {
        struct dist_job *job = container_of(node, struct dist_job, in_wait);

        if (dist_probe_pool(d, job) != which)
            dist_probe_again(d, job);
    }
}

void dist_probe_starved(struct dist *d, struct dist_pool pools[POOL_COUNT], enum pool which,
                        const struct dist_node *n)
{
    struct dist_pool *p = &pools[which];
    struct list starved;

    /* Jobs that have lost the reserve wait there only while no general worker fits them. */
    if (which == POOL_GENERAL)
        leave_pool(d, &pools[POOL_RESERVED].starved, POOL_RESERVED);
    if (list_empty(&p->starved))
        return;
    /* The list gets another head, since a job that is probed for may join the crowded ones. */
    list_insert_before(&p->starved, &starved);
    list_remove(&p->starved);
    list_foreach(&starved, node, nxt) {
        struct dist_job *job = container_of(node, struct dist_job, in_wait);

        if (!dist_end_times_fit(d, job, n)) {
            dist_probe_wait(job, WAIT_STARVED, &p->starved);
            continue;
        }
        dist_probe_wait(job, WAIT_NOT, NULL);
        probe_starved(d, job);
    }
}

void dist_probe_pool_grew(struct dist *d, struct dist_pool pools[POOL_COUNT], enum pool which,
                          struct dist_node *n)
{
    struct dist_pool *p = &pools[which];

    list_foreach(&p->crowded, node, nxt)
        share_out(d, container_of(node, struct dist_job, in_wait), &p->draw, n);
    dist_probe_starved(d, pools, which, n);
}

static void leave_pools(struct dist *d, struct dist_pool pools[POOL_COUNT])
{
    for (enum pool i = 0; i < POOL_COUNT; i++) {
        leave_pool(d, &pools[i].crowded, i);
        leave_pool(d, &pools[i].starved, i);
    }
}

void dist_probe_pools_changed(struct dist *d)
{
    leave_pools(d, d->pool);
    for (struct dist_app *a = d->apps; a; a = a->hh.next)
        leave_pools(d, a->pool);
    for (struct dist_served *s = d->served; s; s = s->hh.next)
        leave_pools(d, s->pool);
}

void dist_probe_again(struct dist *d, struct dist_job *job)
{
    bool starved = dist_job_starved(job);

    if (!starved && job->wait != WAIT_CROWDED)
        return;
    dist_probe_wait(job, WAIT_NOT, NULL);
    if (starved)
        probe_starved(d, job);
}

void dist_probe_audit(struct dist *d)
{
    static const enum job_state states[] = {JOB_WAITING, JOB_RUNNING};
    d->audit_at = TIME_NEVER;
    for (int i = 0; i < 2; i++) {
        list_foreach(&d->jobs[states[i]], node, nxt) {
            struct dist_job *job = container_of(node, struct dist_job, in_state);
            int64_t due = audit_due(d, job);

            if (due <= d->now_us) {
                if (job->audits < AUDIT_DOUBLINGS)
                    job->audits++;
                probe_job(d, job, dist_job_launchable(job));
            } else if (due < d->audit_at) {
                d->audit_at = due;
            }
        }
    }
}

/* ---- Workers' messages about reservations ---- */

uint32_t dist_probe_drop(struct dist *d, struct dist_job *job, const struct dist_node *n)
{
    struct dist_place *p = job ? dist_place_find(d, job, n) : NULL;

    if (job)
        job->crossed = true;
    return p ? dist_place_take_live(d, p, p->live) : 0;
}

/* The worker is to run no task of the job now (job NULL: it is forgotten): tells it to drop all that it has of it. */
void dist_probe_take_back(struct dist *d, struct dist_job *job, const struct dist_node *n, job_id_t id)
{
    put_probe_cancel(d, id, n->m.node.v);
    (void)dist_probe_drop(d, job, n);
}

/* docs/protocol.md 3.5 */
void dist_on_probe_refused(struct dist *d, const struct msg *m)
{
    struct dist_node *n = d->from;
    struct dist_job *job = dist_job_find(d, m->probe_refused.job);
    struct dist_place *p = job ? dist_place_find(d, job, n) : NULL;

    if (!job)
        return;
    if (!p || dist_place_take_live(d, p, m->probe_refused.count) < m->probe_refused.count)
        job->crossed = true;
    if (m->probe_refused.err == HAWK_EBUSY && draw_total(&reserved_pool(d, job)->draw) > 0)
        job->turned_away += m->probe_refused.count; /* it probes again at once */
    else
        job->refused = true;
    dist_job_touch(d, job);
}

void dist_on_probe_cancelled(struct dist *d, const struct msg *m)
{
    struct dist_job *job = dist_job_find(d, m->probe_cancelled.job);

    if (!job)
        return;
    job->probes_cancelled += m->probe_cancelled.count;
    dist_count(d, COUNTER_probes_cancelled, m->probe_cancelled.count);
}

/* docs/protocol.md 5.3. Two thieves' messages about the same reservation may come in either order. Then a
 * worker seems to use, refuse or lose more than it has. And workers that were told to drop the job's
 * reservations may have dropped this one, if the messages crossed. After the first sign of either, the dist
 * still answers requests for moved reservations, but does not count these as live. */
void dist_on_res_moved(struct dist *d, const struct msg *m)
{
    struct dist_node *n = d->from;
    uint32_t moved = m->res_moved.count;
    struct dist_job *job = dist_job_find(d, m->res_moved.job);
    struct dist_node *from = dist_node_find(d, m->res_moved.from.v);
    struct dist_place *p = job && from ? dist_place_find(d, job, from) : NULL;

    if (job && (!p || dist_place_take_live(d, p, moved) < moved))
        job->crossed = true;
    if (!job || dist_job_launchable(job) == 0 || dist_job_kept_back(job)) {
        if ((job ? job->policy_flags : d->policy.flags) & POLICY_CANCEL_PROBES)
            dist_probe_take_back(d, job, n, m->res_moved.job);
        return;
    }
    job->reservations_stolen += moved;
    if (!job->crossed && moved > 0)
        dist_place_add_live(dist_place_get(d, job, n), moved);
    dist_job_touch(d, job);
}
