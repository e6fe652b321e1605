/* See end_times.h. */
#include "base/check.h"
#include "base/mem.h"
#include "central/state.h"

#include <stdlib.h>

void end_times_init(struct end_times *e)
{
    *e = (struct end_times){.least_us = TIME_NEVER};
    list_init(&e->apart);
}

/* ---- Which workers have an end ---- */

static void set_end(struct central *c, struct node *n, int64_t at_us)
{
    c->end_times.workers += (uint32_t)(at_us != TIME_NEVER) - (uint32_t)(n->ends_us != TIME_NEVER);
    n->ends_us = at_us;
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

void end_times_tell_all(struct central *c, const struct node *dist)
{
    for (uint32_t id = 1; c->end_times.workers > 0 && id < c->nodes_end; id++)
        if (c->nodes[id] && c->nodes[id]->ends_us != TIME_NEVER)
            send_end(c, dist, c->nodes[id]);
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

/* Hides workers where they do not fit, for a moment. O(such workers * log of all). */
struct waiting_worker *end_times_best(struct central *c, const struct long_job *j)
{
    struct waiting_worker *w = waiting_best(&c->waiting, c->now_us), **hidden = NULL;
    uint32_t n = 0, cap = 0;
    int64_t estimate_us = w ? end_times_estimate(c, j) : 0;

    while (w && !end_times_fit(c, container_of(w, struct node, waiting), estimate_us)) {
        vec_grow(hidden, n, cap);
        hidden[n++] = w;
        waiting_set_eligible(&c->waiting, w, false, c->now_us);
        w = waiting_best(&c->waiting, c->now_us);
    }
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

/* What the workers of a list come to that would take a task of j now: whether there are any, and it fits at one. */
struct takers {
    bool any, fit;
};

static void look_at_taker(const struct central *c, const struct node *n, const struct long_job *j,
                          int64_t estimate_us, struct takers *t)
{
    if (!is_for(n, j) || !central_node_takes(c, n))
        return;
    t->any = true;
    t->fit |= end_times_fit(c, n, estimate_us);
}

bool end_times_try_set_apart(struct central *c, struct long_job *j)
{
    int64_t estimate_us = end_times_estimate(c, j);
    struct takers t = {0};

    if (estimate_us <= 0 || (!j->app && j->starts.n > 0)) /* central_starts_best() knows why it waits */
        return false;
    for (uint32_t i = 0; j->app && i < j->app->nodes_n; i++)
        look_at_taker(c, j->app->nodes[i], j, estimate_us, &t);
    list_foreach(&c->owned, entry, next)
        if (!j->app)
            look_at_taker(c, container_of(entry, struct node, own), j, estimate_us, &t);
    if (!j->app && waiting_best(&c->waiting, c->now_us)) {
        t.any = true;
        t.fit |= end_times_best(c, j) != NULL;
    }
    if (!t.any || t.fit)
        return false;
    kept_set_apart(c, j);
    if (estimate_us < c->end_times.least_us)
        c->end_times.least_us = estimate_us;
    return true;
}

void end_times_look(struct central *c, const struct node *n)
{
    int64_t least_us = TIME_NEVER;

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

    for (uint32_t id = 1; id < c->nodes_end; id++)
        workers += c->nodes[id] && c->nodes[id]->ends_us != TIME_NEVER;
    CHECK(workers == c->end_times.workers);
    list_foreach(&c->end_times.apart, entry, next) {
        const struct long_job *j = container_of(entry, struct long_job, apart);

        CHECK(!list_empty(&j->kept) && !heap_in(&j->turn));
    }
}
