/* Recalling long tasks that wait at one worker while other workers have become free to take them (protocol
 * 4).
 *
 * DEVIATES: in Hawk 3.7 a long task stays where it was placed, because the cluster never changes. Here a
 * worker that comes back, leaves the short partition or is new would stand idle for as long as the others'
 * queues are. So central calls back tasks that would start sooner elsewhere, and places them again. Without
 * that, a cluster whose workers had all been cut off had not ended its long jobs 150 s after all workers were
 * back: all tasks queued at the worker that was heard first (make soak SEED=757202701;
 * tests/test_central_recall.c). */
#include "central/tasks.h"

#include "base/mem.h"

#include <stdlib.h>

/* The time between a worker's return and the recall: other workers may return with it, and one look serves
 * all. */
#define RECALL_DELAY_US US_PER_S
/* The least gain: a task that would not start this much sooner elsewhere stays. */
#define RECALL_GAIN_US US_PER_S
/* Most recalls at a time; the others follow after another delay. */
#define RECALL_MAX 10000u
/* Most workers that one look examines for applications. */
#define RECALL_LOOKS_MAX 1000000u

/* Tasks to be recalled, in the order in which they were found. */
struct recalls {
    struct long_task **v;
    uint32_t n, cap;
    uint32_t looks;
    bool awaits; /* a worker has not handed back what it was asked for */
};

static bool recalls_full(const struct recalls *r)
{
    return r->n == RECALL_MAX || r->looks >= RECALL_LOOKS_MAX;
}

void central_recall_arm(struct central *c)
{
    if (c->recall_us == TIME_NEVER && c->tasks_in[TASK_PLACED] > 0)
        c->recall_us = c->now_us + RECALL_DELAY_US;
}

/* A worker where t would start sooner than at the end of `here`'s queue; NULL: none. */
static struct waiting_worker *sooner_worker(struct central *c, const struct long_task *t,
                                            const struct waiting_worker *here, struct recalls *r)
{
    const struct central_app *a = t->job->app;
    struct node *serves = a ? central_app_best(c, a) : NULL;
    struct waiting_worker *best = serves ? &serves->waiting : a ? NULL : waiting_best(&c->waiting, c->now_us);

    r->looks += a ? a->nodes_n : 0;
    if (best && !end_times_fit(c, container_of(best, struct node, waiting), end_times_estimate(c, t->job)))
        return NULL;
    return best && best != here && waiting_at(best, c->now_us) + RECALL_GAIN_US < waiting_at(here, c->now_us)
               ? best
               : NULL;
}

static bool hears_recalls(const struct node *n)
{
    /* A dist has no queue. */
    return n->waiting.n_slots && n->link && msg_in_version(MSG_TASK_RECALL, n->version);
}

static bool may_recall(const struct long_task *t) { return !t->unsent && !t->cancelled && !t->recalled; }

/* Asks for the task: until a worker hands it back it is the worker's, and stays if it has started meanwhile. */
static void recall(struct central *c, struct long_task *t, const struct node *n)
{
    t->recalled = true;
    c->counters[COUNTER_tasks_recalled]++;
    central_send(c, n, MSG_TASK_RECALL)->task_recall.id = central_task_try(t);
}

void central_recall_task(struct central *c, struct long_task *t)
{
    const struct node *n = central_node_by_id(c, t->worker);

    if (t->place == PLACE_WORKER && t->state == TASK_PLACED && may_recall(t) && n && hears_recalls(n))
        recall(c, t, n);
}

/* The last task in n's queue, if it may be recalled. Not a task that recall_from() has just moved here:
 * it is still at another worker (t->worker). */
static struct long_task *last_queued(const struct node *n, struct recalls *r)
{
    struct long_task *t = list_empty(&n->waiting.queued)
                              ? NULL
                              : container_of(n->waiting.queued.prev, struct long_task, w.link);

    r->awaits |= t && t->recalled;
    return t && may_recall(t) && node_eq(t->worker, n->id) ? t : NULL;
}

/* Moves tasks in the waiting-time queue from n to workers where they would start sooner. Stops at a task that
 * would not, for example because only n serves its application: tasks ahead of it stay in n's queue, too. */
static void recall_from(struct central *c, struct node *n, struct recalls *r)
{
    struct long_task *t;

    while (!recalls_full(r) && (t = last_queued(n, r)) && sooner_worker(c, t, &n->waiting, r)) {
        int64_t estimate_us = t->w.estimate_us;
        struct waiting_worker *to;

        waiting_end(&c->waiting, &t->w, c->now_us);
        to = sooner_worker(c, t, &n->waiting, r);
        waiting_place(&c->waiting, to ? to : &n->waiting, &t->w, estimate_us, c->now_us);
        if (!to)
            return;
        vec_grow(r->v, r->n, r->cap);
        r->v[r->n++] = t;
    }
}

/* Puts the tasks back into their workers' queues and asks for them. */
static void call_back(struct central *c, struct recalls *r)
{
    while (r->n > 0) {
        struct long_task *t = r->v[--r->n];
        struct node *n = central_node_by_id(c, t->worker);
        int64_t estimate_us = t->w.estimate_us;

        waiting_end(&c->waiting, &t->w, c->now_us);
        waiting_place(&c->waiting, &n->waiting, &t->w, estimate_us, c->now_us);
        recall(c, t, n);
    }
}

void central_recall_run(struct central *c)
{
    struct recalls r = {0};

    if (c->recall_us > c->now_us)
        return;
    c->recall_us = TIME_NEVER;
    list_foreach(&c->by_state[NODE_UP], entry, next) {
        struct node *n = container_of(entry, struct node, by_state);

        if (hears_recalls(n))
            recall_from(c, n, &r);
    }
    /* There is at least one recall, or one that a worker answers or ceases to be up, so this ends. */
    c->recall_more = (r.n > 0 && recalls_full(&r)) || (c->recall_more && r.awaits);
    if (c->recall_more)
        central_recall_arm(c);
    call_back(c, &r);
    free(r.v);
}
