/* Which waiting task goes to which worker (Hawk 3.7, protocol 4.3). */
#include "central/tasks.h"

static bool may_send(struct central *c, const struct long_task *t)
{
    return central_job_may_send(c, t->job, central_task_index(t));
}

/* The most jobs that may let later jobs go first in one step. */
#define PASSED_OVER_MAX 64u

struct passed_over {
    struct long_job *v[PASSED_OVER_MAX];
    uint32_t n;
};

/* j's tasks wait for another worker than those that ask. Tasks behind them need not wait. False: too many do. */
static bool pass_over(struct passed_over *p, struct long_job *j)
{
    if (p->n == PASSED_OVER_MAX)
        return false;
    kept_pass_over(j);
    p->v[p->n++] = j;
    return true;
}

static void readmit_all(struct central *c, struct passed_over *p)
{
    while (p->n > 0)
        kept_readmit(c, p->v[--p->n]);
}

/* Of the ranked workers where j's tasks fit, the one with the least waiting time that j does not avoid; if there are no
 * others, one that it avoids. O(1), or O(workers that serve its application) if some have an end or j avoids some. */
static struct node *first_that_fits(struct central *c, const struct heap *ranked, const struct long_job *j)
{
    struct node *best[2] = {NULL, NULL}; /* by whether j avoids it */
    int64_t estimate_us = end_times_estimate(c, j);

    if (estimate_us > 0 && !fits_before_end(estimate_us, end_times_last_own(c, j), c->now_us))
        return NULL;
    if (estimate_us <= 0 && j->starts.n == 0)
        return ranked->n ? container_of(heap_min(ranked), struct node, rank) : NULL;
    for (uint32_t i = 0; i < ranked->n; i++) {
        struct node *n = container_of(ranked->v[i].node, struct node, rank);
        struct node **of = &best[central_starts_avoid(j, n)];

        if (end_times_fit(c, n, estimate_us) &&
            (!*of || heap_before(n->rank.key, n->rank.seq, (*of)->rank.key, (*of)->rank.seq)))
            *of = n;
    }
    return best[0] || (best[1] && central_starts_wait(c, j)) ? best[0] : best[1];
}

/* Places tasks that need an executor on workers that serve their application. O(workers that serve it + tasks
 * * log of these). */
static void place_for_app(struct central *c, struct central_app *a)
{
    struct passed_over passed = {.n = 0};
    struct heap ranked;
    struct long_task *t;

    central_app_rank(c, a, &ranked);
    while ((t = kept_first(&a->kept))) {
        struct node *n = first_that_fits(c, &ranked, t->job);

        if (!n && end_times_try_set_apart(c, t->job))
            continue;
        if (!n && t->job->starts.n > 0 && ranked.n > 0 && pass_over(&passed, t->job))
            continue;
        if (!n || !may_send(c, t))
            break;
        kept_serve(c, t->job);
        central_task_place(c, t, n);
        if (central_node_takes(c, n))
            heap_update(&ranked, &n->rank, waiting_at(&n->waiting, c->now_us), n->rank.seq);
        else
            heap_remove(&ranked, &n->rank);
    }
    heap_free(&ranked);
    readmit_all(c, &passed);
    if (!kept_first(&a->kept))
        list_remove(&a->waiting);
}

/* Who takes a task of j among the workers that run its user's commands alone; where tasks are bound early, among all.
 * NULL: none of his own does. O(such workers that take tasks). */
static struct node *best_for_user(struct central *c, const struct long_job *j)
{
    struct waiting_worker *best = NULL, *other = NULL;
    int64_t estimate_us = end_times_estimate(c, j);

    if (!fits_before_end(estimate_us, end_times_last_own(c, j), c->now_us))
        return NULL;
    list_foreach(&c->owned_takers, entry, next) {
        struct node *n = container_of(entry, struct node, own_taker);

        if (n->user != j->user->number || central_starts_avoid(j, n) || !end_times_fit(c, n, estimate_us))
            continue;
        if (!best || waiting_at(&n->waiting, c->now_us) < waiting_at(best, c->now_us))
            best = &n->waiting;
    }
    if (best && !policy_has(&c->policy, POLICY_LATE_LONG))
        other = central_starts_best(c, j);
    if (other && waiting_at(other, c->now_us) <= waiting_at(best, c->now_us))
        best = other;
    return best ? container_of(best, struct node, waiting) : NULL;
}

/* Work of users who have workers that run theirs alone. Such a worker has no use for anybody else's work, so it waits
 * for nobody's turn. O(users * such workers that take tasks), and O(these workers) for each task that is placed; O(1)
 * while they are all busy. */
static void place_for_users(struct central *c)
{
    if (list_empty(&c->owned_takers))
        return;
    list_foreach(&c->kept.users, entry, next) {
        const struct kept_user *u = container_of(entry, struct kept_user, link);
        struct long_task *t;
        struct node *to;

        while ((t = kept_first_of(u)) && end_times_last_own(c, t->job) != NO_TAKER) {
            to = best_for_user(c, t->job);
            if (!to && end_times_try_set_apart(c, t->job))
                continue;
            if (!to || !may_send(c, t))
                break;
            kept_serve(c, t->job);
            central_task_place(c, t, to);
        }
    }
}

/* Every task goes to the worker with the least waiting time (Hawk 3.7). As in the paper, all tasks of a job are placed
 * at once, so that the next job's tasks see them; under late_long only as workers ask. */
void central_tasks_place(struct central *c)
{
    struct passed_over passed = {.n = 0};
    struct long_task *t;

    kept_serve_none(c);
    if (central_partition_holds(c) || (!kept_first(&c->kept) && list_empty(&c->apps_waiting)))
        return;
    kept_follow(c);
    place_for_users(c);
    while ((t = kept_first(&c->kept))) {
        struct waiting_worker *w = central_starts_best(c, t->job);

        if (!w && end_times_try_set_apart(c, t->job))
            continue;
        if (!w && t->job->starts.n > 0 && waiting_best(&c->waiting, c->now_us) && pass_over(&passed, t->job))
            continue;
        if (!w || !may_send(c, t))
            break;
        kept_serve(c, t->job);
        central_task_place(c, t, container_of(w, struct node, waiting));
    }
    readmit_all(c, &passed);
    list_foreach(&c->apps_waiting, entry, next)
        place_for_app(c, container_of(entry, struct central_app, waiting));
}
