/* See end_times.h. */
#include "base/check.h"
#include "base/mem.h"
#include "central/state.h"

#include <stdlib.h>

void end_times_init(struct end_times *e)
{
    *e = (struct end_times){.least_us = TIME_NEVER, .changes = 1, .last_us = TIME_NEVER};
    list_init(&e->apart);
}

/* ---- Which workers have an end ---- */

static void forget_last(struct end_times *e)
{
    e->changes++;
    e->last_us = TIME_NEVER;
}

static void set_end(struct central *c, struct node *n, int64_t at_us)
{
    c->end_times.workers += (uint32_t)(at_us != TIME_NEVER) - (uint32_t)(n->ends_us != TIME_NEVER);
    n->ends_us = at_us;
    forget_last(&c->end_times);
}

static void send_end(struct central *c, const struct node *dist, const struct node *n)
{
    struct msg *m = central_send(c, dist, MSG_ENDS);

    if (!m)
        return;
    m->ends.node = n->id;
    m->ends.left_us = n->ends_us == TIME_NEVER ? LIMIT_TIME_US
                      : n->ends_us > c->now_us ? n->ends_us - c->now_us
                                               : 0;
}

static void tell_dists(struct central *c, const struct node *n)
{
    list_foreach(&c->dists, entry, next)
        send_end(c, container_of(entry, struct node, push), n);
}

void end_times_tell(struct central *c, const struct node *dist, const struct node *n)
{
    if (n->ends_us != TIME_NEVER)
        send_end(c, dist, n);
}

void end_times_tell_all(struct central *c, const struct node *dist)
{
    for (uint32_t id = 1; c->end_times.workers > 0 && id < c->nodes_end; id++)
        if (c->nodes[id])
            end_times_tell(c, dist, c->nodes[id]);
}

void central_on_ends(struct central *c, const struct msg *in)
{
    set_end(c, c->from, in->ends.left_us < LIMIT_TIME_US ? c->now_us + in->ends.left_us : TIME_NEVER);
    tell_dists(c, c->from);
    central_partition_end_known(c, c->from);
    central_node_update_eligible(c, c->from);
}

void end_times_forget(struct central *c, struct node *n)
{
    if (n->ends_us == TIME_NEVER)
        return;
    set_end(c, n, TIME_NEVER);
    tell_dists(c, n);
}

/* ---- Where a job fits ---- */

int64_t end_times_estimate(struct central *c, const struct long_job *j)
{
    if (c->end_times.workers == 0)
        return 0;
    if (j->desc->estimate_us > 0)
        return j->desc->estimate_us;
    return history_estimate(&c->history, job_desc_user(j->desc), j->desc->name);
}

bool end_times_fit(const struct central *c, const struct node *n, int64_t estimate_us)
{
    return fits_before_end(estimate_us, n->ends_us, c->now_us);
}

static int64_t find_last_own(const struct central *c, const struct long_job *j)
{
    int64_t last_us = NO_TAKER;

    for (uint32_t i = 0; j->app && i < j->app->nodes_n; i++) {
        const struct node *n = j->app->nodes[i];

        if (central_node_takes(c, n) && n->ends_us > last_us)
            last_us = n->ends_us;
    }
    if (j->app)
        return last_us;
    list_foreach(&c->owned_takers, entry, next) {
        const struct node *n = container_of(entry, struct node, own_taker);

        if (n->user == j->user->number && n->ends_us > last_us)
            last_us = n->ends_us;
    }
    return last_us;
}

int64_t end_times_last_own(const struct central *c, const struct long_job *j)
{
    struct kept_user *u = j->user;

    if (u->last_own_at != c->end_times.changes) {
        u->last_own_us = find_last_own(c, j);
        u->last_own_at = c->end_times.changes;
    }
    return u->last_own_us;
}

/* Hides workers where they do not fit, for a moment: O(such workers * log of all). Once no worker has had the time for
 * a job, O(1) for every other job that needs more than the last of them has, until something changes. */
struct waiting_worker *end_times_best(struct central *c, const struct long_job *j)
{
    struct waiting_worker *w = waiting_best(&c->waiting, c->now_us), **hidden = NULL;
    uint32_t n = 0, cap = 0;
    int64_t estimate_us, last_us = NO_TAKER;

    if (c->end_times.workers == 0 || !w)
        return w;
    estimate_us = end_times_estimate(c, j);
    if (!fits_before_end(estimate_us, c->end_times.last_us, c->now_us))
        return NULL;
    while (w && !end_times_fit(c, container_of(w, struct node, waiting), estimate_us)) {
        const struct node *taker = container_of(w, struct node, waiting);

        if (taker->ends_us > last_us)
            last_us = taker->ends_us;
        vec_grow(hidden, n, cap);
        hidden[n++] = w;
        waiting_set_eligible(&c->waiting, w, false, c->now_us);
        w = waiting_best(&c->waiting, c->now_us);
    }
    if (!w && n > 0 && j->starts.n == 0) /* else starts.c may hide the one with the most time */
        c->end_times.last_us = last_us;
    while (n > 0)
        waiting_set_eligible(&c->waiting, hidden[--n], true, c->now_us);
    free(hidden);
    return w;
}

/* Whether n runs j's tasks, as far as applications and users go. */
static bool is_for(const struct node *n, const struct long_job *j)
{
    return j->app ? central_node_serves(n, j->app) : !n->serves || n->user == j->user->number;
}

bool end_times_try_set_apart(struct central *c, struct long_job *j)
{
    int64_t estimate_us = end_times_estimate(c, j), last_us;

    if (estimate_us <= 0 || (!j->app && j->starts.n > 0)) /* central_starts_best() knows why it waits */
        return false;
    last_us = end_times_last_own(c, j);
    if (last_us == NO_TAKER && (j->app || !waiting_best(&c->waiting, c->now_us)))
        return false;
    if (fits_before_end(estimate_us, last_us, c->now_us) || (!j->app && end_times_best(c, j)))
        return false;
    kept_set_apart(c, j);
    if (estimate_us < c->end_times.least_us)
        c->end_times.least_us = estimate_us;
    return true;
}

void end_times_look(struct central *c, const struct node *n)
{
    int64_t least_us = TIME_NEVER;

    forget_last(&c->end_times);
    if (list_empty(&c->end_times.apart) || !central_node_takes(c, n) ||
        !end_times_fit(c, n, c->end_times.least_us))
        return;
    list_foreach(&c->end_times.apart, entry, next) {
        struct long_job *j = container_of(entry, struct long_job, apart);
        int64_t estimate_us = end_times_estimate(c, j);

        if (is_for(n, j) && end_times_fit(c, n, estimate_us)) {
            list_remove(&j->apart);
            kept_update_turn(c, j);
        } else if (estimate_us < least_us) {
            least_us = estimate_us;
        }
    }
    c->end_times.least_us = least_us;
}

void end_times_learned(struct central *c, const struct blob *name)
{
    list_foreach(&c->end_times.apart, entry, next) {
        struct long_job *j = container_of(entry, struct long_job, apart);

        if (j->desc->estimate_us > 0 || !name || !blob_eq(j->desc->name, name))
            continue;
        list_remove(&j->apart);
        kept_update_turn(c, j);
    }
}

void end_times_check(const struct central *c)
{
    uint32_t workers = 0;

    for (uint32_t id = 1; id < c->nodes_end; id++) {
        const struct node *n = c->nodes[id];

        workers += n && n->ends_us != TIME_NEVER;
        CHECK(!n || !n->waiting.eligible || n->ends_us <= c->end_times.last_us);
    }
    CHECK(workers == c->end_times.workers);
    list_foreach(&c->end_times.apart, entry, next) {
        const struct long_job *j = container_of(entry, struct long_job, apart);

        CHECK(!list_empty(&j->kept) && !heap_in(&j->turn));
        CHECK(end_times_last_own(c, j) == find_last_own(c, j));
    }
}
