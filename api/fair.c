/* Queues of users that take turns. */
#include "api/fair.h"

void fair_init(struct fair *f)
{
    turns_init(&f->turns);
    f->left = 0;
}

void fair_queue_init(struct fair_queue *q)
{
    list_init(&q->items);
    list_init(&q->turn.link);
}

void fair_push(struct fair *f, struct fair_queue *q, struct list *item)
{
    list_push_tail(&q->items, item);
    if (list_empty(&q->turn.link))
        turns_join(&f->turns, &q->turn);
}

void fair_begin(struct fair *f, uint32_t budget) { f->left = budget; }

void fair_spend(struct fair *f, uint32_t cost) { f->left -= cost < f->left ? cost : f->left; }

bool fair_spent(const struct fair *f) { return f->left == 0; }

/* The queue whose turn it is; NULL: no items wait. */
static struct fair_queue *first_queue(struct fair *f)
{
    while (!list_empty(&f->turns.ring)) {
        struct fair_queue *q = container_of(f->turns.ring.next, struct fair_queue, turn.link);
        if (!list_empty(&q->items))
            return q;
        turns_leave(&f->turns, &q->turn);
    }
    return NULL;
}

bool fair_any(struct fair *f) { return first_queue(f) != NULL; }

struct list *fair_next(struct fair *f)
{
    struct fair_queue *q = f->left ? first_queue(f) : NULL;
    if (!q)
        return NULL;
    struct list *item = q->items.next;
    list_remove(item);
    turns_take(&f->turns, &q->turn);
    return item;
}
