/* Workers that have an end, as central tells (docs/protocol.md 13): a job is not probed for at one if its estimate does
 * not fit into the time that is left there. Without an estimate it is probed for anywhere. */
#include "dist/internal.h"

#include "base/units.h"

/* By then central, which has sent its list, has also sent the ends that it knows. */
#define ENDS_WAIT_US (5 * US_PER_S)

bool dist_end_times_fit(const struct dist *d, const struct dist_job *job, const struct dist_node *n)
{
    return fits_before_end(job->estimate_us, n->ends_us, d->now_us);
}

uint32_t dist_end_times_short(const struct dist *d, const struct dist_job *job, const struct draw *pool)
{
    uint32_t slots = 0;

    if (job->estimate_us <= 0) /* it fits anywhere */
        return 0;
    list_foreach(&d->ending, entry, next) {
        const struct dist_node *n = container_of(entry, struct dist_node, ending);

        if (!dist_end_times_fit(d, job, n))
            slots += draw_weight(pool, n->m.node.v);
    }
    return slots;
}

static void wake_pools(struct dist *d, const struct dist_node *n, struct dist_pool pools[POOL_COUNT])
{
    for (int p = 0; p < POOL_COUNT; p++)
        if (draw_weight(&pools[p].draw, n->m.node.v) > 0)
            dist_probe_starved(d, pools, (enum pool)p, n);
}

/* It may have more time than before: jobs that found none look again. */
static void wake(struct dist *d, const struct dist_node *n)
{
    wake_pools(d, n, d->pool);
    for (struct dist_app *a = d->apps; a; a = a->hh.next)
        if (dist_node_serves(n, a))
            wake_pools(d, n, a->pool);
    for (struct dist_served *s = d->served; s; s = s->hh.next)
        wake_pools(d, n, s->pool);
}

static void set_end(struct dist *d, struct dist_node *n, int64_t at_us)
{
    n->ends_us = at_us;
    n->end_doubtful = false;
    list_remove(&n->ending);
    if (at_us != TIME_NEVER)
        list_push_tail(&d->ending, &n->ending);
    wake(d, n);
}

void dist_on_ends(struct dist *d, const struct msg *in)
{
    struct dist_node *n = dist_node_find(d, in->ends.node.v);

    if (!n || n->m.state == MEMBER_GONE)
        return;
    set_end(d, n, in->ends.left_us < LIMIT_TIME_US ? d->now_us + in->ends.left_us : TIME_NEVER);
}

void dist_end_times_forget(struct dist *d, struct dist_node *n)
{
    if (n->ends_us != TIME_NEVER)
        set_end(d, n, TIME_NEVER);
}

/* Until then they hold. If they were forgotten at once, all jobs that wait for a worker with more time would go to the
 * one that is forgotten first. */
void dist_end_times_doubt(struct dist *d)
{
    list_foreach(&d->ending, entry, next)
        container_of(entry, struct dist_node, ending)->end_doubtful = true;
    if (!list_empty(&d->ending))
        d->ends_due_us = d->now_us + ENDS_WAIT_US;
}

void dist_end_times_settle(struct dist *d)
{
    struct list forgotten;

    d->ends_due_us = TIME_NEVER;
    list_init(&forgotten);
    list_foreach(&d->ending, entry, next) {
        struct dist_node *n = container_of(entry, struct dist_node, ending);

        if (!n->end_doubtful)
            continue;
        n->end_doubtful = false;
        n->ends_us = TIME_NEVER;
        list_remove(entry);
        list_push_tail(&forgotten, entry);
    }
    /* All of them first, so that jobs draw from all. */
    list_foreach(&forgotten, entry, next) {
        list_remove(entry);
        wake(d, container_of(entry, struct dist_node, ending));
    }
}
