/* Probing: how many reservations a job gets, where, and how they come and go without a task. The rule that no
 * job may hang rests on one inequality: `live` is never more than what workers hold. Where news may cross, it
 * is counted down, never up: too few only costs a probe. */
#include "dist/internal.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/units.h"

/* The delay after refused probes: doubles from the first to the last. */
#define REFUSED_US (10 * US_PER_MS)
#define REFUSED_DOUBLINGS 7
/* How long a job may stand still after a worker was lost before its reservations are doubted. */
#define AUDIT_US (10 * US_PER_S)
#define AUDIT_DOUBLINGS 10

/* A job that began while short tasks ran on reserved workers only must not wait for those when there are to be none. */
enum pool probe_pool(const struct dist *d, const struct dist_job *job)
{
    if (job->probe_long)
        return job->policy_flags & POLICY_LONG_GENERAL ? POOL_GENERAL : POOL_ALL;
    return job->policy_flags & d->policy.flags & POLICY_SHORT_RESERVED ? POOL_RESERVED : POOL_ALL;
}

/* ceil(ratio * tasks), and never fewer than tasks (Sparrow 3.3; docs/protocol.md 3.4). */
static uint64_t probes_for(const struct dist_job *job, uint32_t tasks)
{
    uint64_t n = ((uint64_t)tasks * job->ratio_milli + 999) / 1000;

    return n < tasks ? tasks : n;
}

/* ---- Lists and timers of jobs that want probes ---- */

void probe_wait(struct dist_job *job, enum probe_wait wait, struct list *l)
{
    list_remove(&job->in_wait);
    if (l)
        list_push_tail(l, &job->in_wait);
    job->wait = (uint8_t)wait;
}

void probe_forget(struct step *s, struct dist_job *job)
{
    probe_wait(job, WAIT_NOT, NULL);
    if (heap_in(&job->timer))
        heap_remove(&s->d->timers, &job->timer);
}

static void retry_later(struct step *s, struct dist_job *job)
{
    int64_t delay = REFUSED_US << job->backoff;

    if (job->backoff < REFUSED_DOUBLINGS)
        job->backoff++;
    /* Half of it at random: jobs refused together do not come back together. */
    job->timer.key = s->now + delay / 2 + (int64_t)rng_below(&s->d->rng, (uint64_t)delay);
    job->timer.seq = job->id.v;
    CHECK(heap_push(&s->d->timers, &job->timer) == 0);
}

/* ---- Sending ---- */

static void put_probe(struct step *s, const struct dist_job *job, const struct dist_node *n, uint32_t count)
{
    struct msg_probe *m = &out_add(s->out, MSG_PROBE, n->m.node.v)->probe;

    m->job = job->id;
    m->estimate_us = job->estimate_us;
    m->count = count;
    m->class = job->probe_long ? CLASS_LONG : CLASS_SHORT;
    m->app = job->app ? job->app->id : 0;
}

static void send_to(struct step *s, struct dist_job *job, struct dist_node *n, uint32_t probes)
{
    place_add_live(place_get(s->d, job, n), probes);
    job->probes_sent += probes;
    count(s, COUNTER_probes_sent, probes);
    if (!(job->policy_flags & POLICY_SPLIT_COUNTS)) {
        put_probe(s, job, n, probes);
        return;
    }
    while (probes-- > 0)
        put_probe(s, job, n, 1);
}

void probe_job(struct step *s, struct dist_job *job, uint64_t n)
{
    struct dist *d = s->d;
    struct dist_pool *which = probe_pool_of(d, job);
    struct draw *pool = &which->draw;
    uint32_t total = draw_total(pool);
    uint32_t taken = 0;
    bool avoid = starts_avoided(d, job) > 0;

    if (n > PROBES_MAX)
        n = PROBES_MAX;
    if (n > LIVE_MAX - job->live)
        n = LIVE_MAX - job->live;
    if (total == 0) {
        probe_wait(job, WAIT_STARVED, &which->starved);
        return;
    }
    for (uint64_t i = 0; i < n; i++) {
        struct dist_node *node;
        uint32_t id;

        do
            id = job->policy_flags & POLICY_DRAW_REPLACE ? draw_any(pool, &d->rng)
                                                         : draw_next(pool, &d->rng, &taken);
        while (avoid && starts_avoid(d, job, id));
        node = node_find(d, id);

        if (node->drawn++ == 0) {
            vec_grow(d->drawn, d->drawn_n, d->drawn_cap);
            d->drawn[d->drawn_n++] = node;
        }
    }
    for (uint32_t i = 0; i < d->drawn_n; i++) {
        send_to(s, job, d->drawn[i], d->drawn[i]->drawn);
        d->drawn[i]->drawn = 0;
    }
    d->drawn_n = 0;
    job->refused = false;
    job->progress_us = s->now;
    if (job->sure_us <= d->doubt_us)
        job->sure = 0;
    job->sure_us = s->now;
    job->sure += (uint32_t)n;
    if (n > total)
        probe_wait(job, WAIT_CROWDED, &which->crowded);
    else if (job_starved(job))
        probe_wait(job, WAIT_NOT, NULL);
}

void probe_first(struct step *s, struct dist_job *job)
{
    uint64_t n = probes_for(job, job->unlaunched);

    if (n < job->min_probes)
        n = job->min_probes;
    probe_job(s, job, n);
}

static void probe_missing(struct step *s, struct dist_job *job)
{
    CHECK(job->live < job->unlaunched);
    probe_job(s, job, probes_for(job, job->unlaunched - job->live));
}

/* ---- A worker was lost ---- */

/* A thief tells us of a reservation it stole, then acknowledges it to its victim (docs/protocol.md 5.3). When its
 * stream to us breaks in between, the victim has one less than we count. Since version 3 its answers to BEAT say so
 * (on_beat). For workers of older versions there is this: any loss of a worker makes doubtful what was live then, and a
 * job that stands still for long with fewer sure reservations than tasks is probed for once more, at growing
 * intervals. */
void probe_doubt(struct step *s)
{
    struct dist *d = s->d;

    /* Whatever the policy is now: what was stolen before counts, and workers may know another policy than we do. */
    d->doubt_us = s->now;
    if (d->audit_at > s->now + AUDIT_US)
        d->audit_at = s->now + AUDIT_US;
}

/* When the job's reservations are to be doubted next; TIME_NEVER when there is no cause. */
static int64_t audit_due(const struct dist *d, const struct dist_job *job)
{
    int64_t since = job->progress_us > d->doubt_us ? job->progress_us : d->doubt_us;

    if (d->doubt_us < 0 || d->doubt_us < job->submit_us || job->unlaunched == 0 || job_starved(job) ||
        job_settling(job) || !job->submitted)
        return TIME_NEVER;
    if (job->sure_us > d->doubt_us && job->sure >= job->unlaunched)
        return TIME_NEVER;
    return since + (AUDIT_US << job->audits);
}

void probe_settle(struct step *s, struct dist_job *job)
{
    int64_t due;

    if (job_settling(job))
        return;
    if (job->unlaunched == 0) {
        if (!hand_has_timer(job))
            probe_forget(s, job);
        /* Proactive cancellation (Sparrow 3.6). */
        if (job->live > 0 && (job->policy_flags & POLICY_CANCEL_PROBES))
            probe_cancel_all(s, job);
        return;
    }
    due = audit_due(s->d, job);
    if (due < s->d->audit_at)
        s->d->audit_at = due;
    if (job->live >= job->unlaunched || job_starved(job) || heap_in(&job->timer))
        return;
    /* Without REPROBE what is lost is not made up for, but a job with nothing left would never end. */
    if (!(job->policy_flags & POLICY_REPROBE) && job->live > 0)
        return;
    if (job->refused)
        retry_later(s, job);
    else
        probe_missing(s, job);
}

static void put_cancel(struct step *s, job_id_t job, uint32_t worker)
{
    out_add(s->out, MSG_PROBE_CANCEL, worker)->probe_cancel.job = job;
}

void probe_cancel_all(struct step *s, struct dist_job *job)
{
    job->crossed = true;
    list_foreach(&job->places, node, nxt) {
        struct dist_place *p = container_of(node, struct dist_place, in_job);

        if (p->live == 0)
            continue;
        put_cancel(s, job->id, p->node->m.node.v);
        place_take_live(s->d, p, p->live);
    }
}

void probe_timer(struct step *s, struct dist_job *job)
{
    job->refused = false;
    job_touch(s->d, job);
}

/* ---- The cluster grows ---- */

/* DEVIATES: in the papers a cluster never grows. A job that was probed for when there were fewer slots than
 * probes would leave the workers that come later idle: they get what would have been their share. 100 tasks of 0.2 s,
 * submitted to one worker of 4 slots, and another such worker started at once: 2.7 s, and 5.1 s without. */
static void share_out(struct step *s, struct dist_job *job, const struct draw *pool, struct dist_node *n)
{
    uint64_t slots = draw_weight(pool, n->m.node.v);
    uint64_t total = draw_total(pool);
    uint64_t want = probes_for(job, job->unlaunched);
    uint64_t share = (want * slots + total - 1) / total;
    const struct dist_place *p = place_find(s->d, job, n);

    if (starts_avoid(s->d, job, n->m.node.v))
        return;
    if (p && p->live > 0) /* it was away for central only, which has restarted, and has its share */
        return;
    if (want <= total - slots) { /* its probes have spread as widely as they would at first */
        probe_wait(job, WAIT_NOT, NULL);
        return;
    }
    if (share > PROBES_MAX)
        share = PROBES_MAX;
    if (share <= LIVE_MAX - job->live)
        send_to(s, job, n, (uint32_t)share);
}

/* Of one that waited for a worker. */
static void probe_starved(struct step *s, struct dist_job *job)
{
    if (job->probes_sent == 0)
        probe_first(s, job);
    else if (job->live < job->unlaunched)
        probe_missing(s, job);
    else /* its reservations are in doubt: probe_audit */
        probe_job(s, job, job->unlaunched);
}

void probe_pool_grew(struct step *s, struct dist_pool *p, struct dist_node *n)
{
    struct list starved;

    list_foreach(&p->crowded, node, nxt)
        share_out(s, container_of(node, struct dist_job, in_wait), &p->draw, n);
    if (list_empty(&p->starved))
        return;
    /* On a list of its own, since a job that is probed for may join the crowded ones. */
    list_insert_before(&p->starved, &starved);
    list_remove(&p->starved);
    list_foreach(&starved, node, nxt) {
        struct dist_job *job = container_of(node, struct dist_job, in_wait);

        probe_wait(job, WAIT_NOT, NULL);
        probe_starved(s, job);
    }
}

/* Those of the list, which is of pool `which`, that are drawn for from another one now. */
static void leave_pool(struct step *s, struct list *from, enum pool which)
{
    list_foreach(from, node, nxt) {
        struct dist_job *job = container_of(node, struct dist_job, in_wait);
        bool starved = job_starved(job);

        if (probe_pool(s->d, job) == which)
            continue;
        probe_wait(job, WAIT_NOT, NULL);
        if (starved)
            probe_starved(s, job);
    }
}

static void leave_pools(struct step *s, struct dist_pool pools[POOL_COUNT])
{
    for (enum pool i = 0; i < POOL_COUNT; i++) {
        leave_pool(s, &pools[i].crowded, i);
        leave_pool(s, &pools[i].starved, i);
    }
}

void probe_pools_changed(struct step *s)
{
    leave_pools(s, s->d->pool);
    for (struct dist_app *a = s->d->apps; a; a = a->hh.next)
        leave_pools(s, a->pool);
}

void probe_audit(struct step *s)
{
    static const enum job_state states[] = {JOB_WAITING, JOB_RUNNING};
    struct dist *d = s->d;

    d->audit_at = TIME_NEVER;
    for (int i = 0; i < 2; i++) {
        list_foreach(&d->jobs[states[i]], node, nxt) {
            struct dist_job *job = container_of(node, struct dist_job, in_state);
            int64_t due = audit_due(d, job);

            if (due <= s->now) {
                if (job->audits < AUDIT_DOUBLINGS)
                    job->audits++;
                probe_job(s, job, job->unlaunched);
            } else if (due < d->audit_at) {
                d->audit_at = due;
            }
        }
    }
}

/* ---- What workers say of reservations ---- */

/* Nothing of the job (NULL: forgotten) is left to launch: the worker is to drop all that it has of it. */
static void take_back(struct step *s, struct dist_job *job, const struct dist_node *n, job_id_t id)
{
    struct dist_place *p = job ? place_find(s->d, job, n) : NULL;

    put_cancel(s, id, n->m.node.v);
    if (p)
        place_take_live(s->d, p, p->live);
    if (job)
        job->crossed = true;
}

void probe_take_back(struct step *s, struct dist_job *job, const struct dist_node *n)
{
    take_back(s, job, n, job->id);
}

/* docs/protocol.md 3.5 */
void on_probe_refused(struct step *s, struct dist_node *n, const struct msg *m)
{
    struct dist_job *job = job_find(s->d, m->probe_refused.job);
    struct dist_place *p = job ? place_find(s->d, job, n) : NULL;

    if (!job)
        return;
    if (!p || place_take_live(s->d, p, m->probe_refused.count) < m->probe_refused.count)
        job->crossed = true;
    job->refused = true;
    job_touch(s->d, job);
}

void on_probe_cancelled(struct step *s, const struct msg *m)
{
    struct dist_job *job = job_find(s->d, m->probe_cancelled.job);

    if (!job)
        return;
    job->probes_cancelled += m->probe_cancelled.count;
    count(s, COUNTER_probes_cancelled, m->probe_cancelled.count);
}

/* docs/protocol.md 5.3. What two thieves say of the same reservation may come in either order, so that a worker seems
 * to use, refuse or lose to a thief more than it has; and workers that were told to drop the job's reservations may
 * have dropped this one as well, when that crossed the news. From the first sign of either on, what moves is used
 * when it asks, but not counted on. */
void on_res_moved(struct step *s, struct dist_node *n, const struct msg *m)
{
    uint32_t moved = m->res_moved.count;
    struct dist_job *job = job_find(s->d, m->res_moved.job);
    struct dist_node *from = node_find(s->d, m->res_moved.from.v);
    struct dist_place *p = job && from ? place_find(s->d, job, from) : NULL;

    if (job && (!p || place_take_live(s->d, p, moved) < moved))
        job->crossed = true;
    if (!job || job->unlaunched == 0 || job_settling(job)) {
        if ((job ? job->policy_flags : s->d->policy.flags) & POLICY_CANCEL_PROBES)
            take_back(s, job, n, m->res_moved.job);
        return;
    }
    job->reservations_stolen += moved;
    if (!job->crossed && moved > 0)
        place_add_live(place_get(s->d, job, n), moved);
    job_touch(s->d, job);
}
