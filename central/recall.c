/* Long tasks that wait at one worker while others have come since they were placed (protocol 4).
 *
 * DEVIATES: in Hawk 3.7 a long task stays where it was placed. There the cluster never changes; here a worker that
 * comes back, is released from the short partition or is new would stand idle for as long as the queues of those
 * that were there before are. So what would start sooner elsewhere is called back and placed again. */
#include "central/state.h"

#include "base/mem.h"

#include <stdlib.h>

/* After a worker has come, for others that come with it: one look serves all. */
#define RECALL_DELAY_US US_PER_S
/* What would not start so much sooner elsewhere stays. */
#define RECALL_GAIN_US US_PER_S
/* Called back at a time; the rest after another delay. */
#define RECALL_MAX 10000u

/* What is called back, in the order in which it was found. */
struct recalls {
    struct long_task **v;
    uint32_t n, cap;
};

void central_recall_arm(struct central *c)
{
    if (c->recall_us == TIME_NEVER && c->tasks_in[TASK_PLACED] > 0)
        c->recall_us = c->now_us + RECALL_DELAY_US;
}

int64_t central_recall_due_us(const struct central *c) { return c->recall_us; }

static bool starts_sooner(struct central *c, const struct waiting_worker *here)
{
    const struct waiting_worker *best = waiting_best(&c->waiting, c->now_us);

    return best && best != here && waiting_at(best, c->now_us) + RECALL_GAIN_US < waiting_at(here, c->now_us);
}

/* The last in n's queue, if it may be called back. One that another worker is meant to get is not n's; one that needs an
 * executor stays, since who has one is not what this looks at. */
static struct long_task *last_queued(const struct node *n)
{
    struct long_task *t = list_empty(&n->waiting.queued)
                              ? NULL
                              : container_of(n->waiting.queued.prev, struct long_task, w.link);

    return !t || t->unsent || t->cancelled || t->recalled || t->job->app || !node_eq(t->worker, n->id) ? NULL
                                                                                                       : t;
}

/* Moves tasks in the waiting-time queue, from n to where they would start, as long as that is sooner. */
static void recall_from(struct central *c, struct node *n, struct recalls *r)
{
    struct long_task *t;

    while (r->n < RECALL_MAX && (t = last_queued(n)) && starts_sooner(c, &n->waiting)) {
        int64_t estimate_us = t->w.estimate_us;

        waiting_end(&c->waiting, &t->w, c->now_us);
        if (!starts_sooner(c, &n->waiting)) {
            waiting_place(&c->waiting, &n->waiting, &t->w, estimate_us, c->now_us);
            return;
        }
        waiting_place(&c->waiting, waiting_best(&c->waiting, c->now_us), &t->w, estimate_us, c->now_us);
        vec_grow(r->v, r->n, r->cap);
        r->v[r->n++] = t;
    }
}

/* They are their workers' until these hand them back: what has started meanwhile stays. */
static void call_back(struct central *c, struct recalls *r)
{
    while (r->n > 0) {
        struct long_task *t = r->v[--r->n];
        struct node *n = central_node_by_id(c, t->worker);
        int64_t estimate_us = t->w.estimate_us;

        waiting_end(&c->waiting, &t->w, c->now_us);
        waiting_place(&c->waiting, &n->waiting, &t->w, estimate_us, c->now_us);
        t->recalled = true;
        c->counters[COUNTER_tasks_recalled]++;
        central_send(c, n, MSG_TASK_RECALL)->task_recall.id = central_task_try(t);
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

        if (n->link && msg_in_version(MSG_TASK_RECALL, n->version))
            recall_from(c, n, &r);
    }
    if (r.n == RECALL_MAX)
        central_recall_arm(c);
    call_back(c, &r);
    free(r.v);
}
