/* Tasks whose workers are away or gone, and tasks that wait for a time. */
#include "central/tasks.h"

void central_tasks_worker_gone(struct central *c, struct node *n)
{
    while (!list_empty(&n->waiting.running))
        central_task_lost(c, container_of(n->waiting.running.next, struct long_task, w.link));
    while (!list_empty(&n->waiting.queued))
        central_task_lost(c, container_of(n->waiting.queued.next, struct long_task, w.link));
}

void central_tasks_worker_replaced(struct central *c, struct node *n, int64_t due_us)
{
    while (!list_empty(&n->waiting.running))
        central_task_limbo(c, container_of(n->waiting.running.next, struct long_task, w.link), due_us);
    while (!list_empty(&n->waiting.queued))
        central_task_limbo(c, container_of(n->waiting.queued.next, struct long_task, w.link), due_us);
}

/* When the first task in limbo is due. Never while a worker that was let in has not reported: it has a new
 * lease, and may hold the task. */
static int64_t limbo_due_us(const struct central *c)
{
    return list_empty(&c->limbo) || c->n_reporting > 0
               ? TIME_NEVER
               : container_of(c->limbo.next, struct waiting_task, link)->due_us;
}

static int64_t delayed_due_us(const struct central *c)
{
    const struct heap_node *first = heap_min(&c->delayed);

    return first ? first->key : TIME_NEVER;
}

int64_t central_tasks_due_us(const struct central *c) { return earlier(limbo_due_us(c), delayed_due_us(c)); }

void central_tasks_end_unwanted(struct central *c)
{
    if (!c->unwanted || central_reports_due(c))
        return;
    c->unwanted = false;
    list_foreach(&c->limbo, entry, next) {
        struct long_task *t = container_of(entry, struct long_task, w.link);

        if (t->cancelled && central_task_nowhere(t))
            central_task_end_unreported(c, t, OUTCOME_CANCELLED, 0);
    }
}

bool central_workers_away(const struct central *c)
{
    return c->now_us < c->recovered_us + c->cfg.long_lease_us && central_any_node(c, ROLE_WORKER, NODE_AWAY);
}

bool central_workers_all_back(const struct central *c)
{
    return c->recovered && c->n_reporting == 0 && !central_is_young(c) && !central_workers_away(c) &&
           !central_any_node(c, ROLE_WORKER, NODE_JOINING) && !central_any_node(c, ROLE_WORKER, NODE_SUSPECT);
}

void central_tasks_place_unreported(struct central *c)
{
    if (list_empty(&c->limbo) || !central_workers_all_back(c))
        return;
    list_foreach(&c->limbo, entry, next) {
        struct long_task *t = container_of(entry, struct long_task, w.link);

        if (!central_task_nowhere(t) || !t->unsure || t->cancelled)
            continue;
        if (t->w.not_before_us <= c->now_us) {
            central_task_queue(c, t);
            continue;
        }
        t->unsure = false; /* no worker has a later try */
        central_task_delay(c, t, t->w.not_before_us);
        central_task_tell(c, t);
    }
}

void central_tasks_run(struct central *c)
{
    while (limbo_due_us(c) <= c->now_us)
        central_task_lost(c, container_of(c->limbo.next, struct long_task, w.link));
    while (delayed_due_us(c) <= c->now_us) {
        struct long_task *t = container_of(heap_min(&c->delayed), struct long_task, w.timer);

        central_task_queue(c, t);
        central_task_tell(c, t);
    }
}
