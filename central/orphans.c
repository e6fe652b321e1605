/* Attended long jobs that nobody waits for any more (protocol 4.7). A job's clients are connected to the
 * dists that watch it. A job is an orphan while none of these dists is there with the process that watched
 * it. When it has been an orphan for a lease, central cancels it: its client and its dist died together,
 * since a living client would have moved the job long ago.
 *
 * The lease is measured by a clock that stands still while no dist is up: then central itself may be cut off.
 * It also stands still while central's process does: what the dists said meanwhile is still to be read. A
 * job's deadline is a time of that clock, so that central.orphans stays in order. */
#include "central/state.h"

bool central_job_claimed(const struct central *c, const struct long_job *j)
{
    if (j->desc->flags & JOB_DETACHED)
        return true;
    for (uint32_t i = 0; i < j->n_watchers; i++) {
        const struct watcher *w = &j->watchers[i];
        const struct node *n = central_node_by_id(c, w->dist);

        if (n && w->owner >= j->owner && w->process == n->processes &&
            (n->state == NODE_UP || n->state == NODE_SUSPECT))
            return true;
    }
    return false;
}

bool central_job_shown(const struct central *c, const struct long_job *j)
{
    for (uint32_t i = 0; i < j->n_watchers; i++) {
        const struct watcher *w = &j->watchers[i];
        const struct node *n = central_node_by_id(c, w->dist);

        if (n && w->process == n->processes && n->state == NODE_UP)
            return true;
    }
    return false;
}

static int64_t clock_us(const struct central *c)
{
    return c->orphan_clock_us + (c->dists_up > 0 ? c->now_us - c->orphan_since_us : 0);
}

void central_orphans_count_dist(struct central *c, bool was_up, bool is_up)
{
    if (was_up == is_up)
        return;
    c->orphan_clock_us = clock_us(c);
    c->orphan_since_us = c->now_us;
    c->dists_up += (uint32_t)is_up - (uint32_t)was_up;
}

/* While a dist is up, its silence has a limit, so a running central has a step within that time. */
void central_orphans_step(struct central *c, int64_t before_us)
{
    if (c->cfg.heartbeats && c->dists_up > 0 && c->now_us - before_us > c->cfg.suspect_us)
        c->orphan_since_us += c->now_us - before_us;
}

void central_orphans_look(struct central *c, struct long_job *j)
{
    bool orphan = j->state == LONG_ACTIVE && !j->cancel && c->recovered && !central_job_claimed(c, j);

    if (!orphan) {
        list_remove(&j->orphan);
    } else if (list_empty(&j->orphan)) {
        j->orphan_us = clock_us(c) + c->cfg.long_lease_us;
        list_push_tail(&c->orphans, &j->orphan);
    }
}

/* Looks at all active jobs: a dist went away, or has a new process. O(active jobs). */
void central_orphans_look_all(struct central *c)
{
    list_foreach(&c->jobs[LONG_ACTIVE], entry, next)
        central_orphans_look(c, container_of(entry, struct long_job, by_state));
}

int64_t central_orphan_left_us(const struct central *c, const struct long_job *j)
{
    return list_empty(&j->orphan) ? -1 : j->orphan_us - clock_us(c);
}

int64_t central_orphans_due_us(const struct central *c)
{
    if (list_empty(&c->orphans) || c->dists_up == 0)
        return TIME_NEVER;
    return container_of(c->orphans.next, struct long_job, orphan)->orphan_us - c->orphan_clock_us +
           c->orphan_since_us;
}

void central_orphans_run(struct central *c)
{
    while (central_orphans_due_us(c) <= c->now_us) {
        struct long_job *j = container_of(c->orphans.next, struct long_job, orphan);
        struct msg_job_abandoned *m = &out_add(c->out, MSG_JOB_ABANDONED, 0)->job_abandoned;

        m->job = (job_id_t){j->key.job};
        m->name = blob_ref(j->desc->name);
        m->tasks = j->n - j->final;
        m->epoch = (uint16_t)j->key.epoch;
        j->abandoned = true;
        central_job_cancel(c, j, 0);
    }
}
