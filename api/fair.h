/* Whose item comes next, and how much of that one turn of the loop takes. Each user has a queue. The queues take turns,
 * an item at a time: so a user with many items delays another's by one item for each user, however many they have. */
#ifndef HAWK_API_FAIR_H
#define HAWK_API_FAIR_H

#include "base/turns.h"

#include <stdbool.h>

/* A user's items: nodes of their owner's, who may take one out with list_remove. */
struct fair_queue {
    struct list items;
    struct turn
        turn; /* it waits if there are items, and perhaps until it is its turn if there are none any more */
};

struct fair {
    struct turns turns;
    uint32_t left; /* what this turn of the loop may still spend */
};

void fair_init(struct fair *f);
void fair_queue_init(struct fair_queue *q);
/* Adds an item behind its user's others. */
void fair_push(struct fair *f, struct fair_queue *q, struct list *item);
/* A turn of the loop begins, which may spend this much. The last item that it takes may cost more than is left. */
void fair_begin(struct fair *f, uint32_t budget);
void fair_spend(struct fair *f, uint32_t cost);
/* Whether nothing is left to spend. It is so if items are left. */
bool fair_spent(const struct fair *f);
/* Takes out the item that comes next. NULL: there is none, or nothing is left to spend. */
struct list *fair_next(struct fair *f);
/* Whether items wait. */
bool fair_any(struct fair *f);

#endif
