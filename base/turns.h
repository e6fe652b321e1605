/* Turns: whoever has something to be served stands in a ring, and goes behind all others with each turn. So each lets
 * every other one go first at most once, however much those have. O(1) a turn. */
#ifndef HAWK_BASE_TURNS_H
#define HAWK_BASE_TURNS_H

#include "base/check.h"
#include "base/list.h"

#include <stdint.h>

struct turns {
    struct list ring; /* struct turn: the next one first */
    uint32_t n;       /* in the ring */
    uint32_t taken;   /* turns so far; it wraps around */
};

/* One who waits for a turn; or, with `link` empty, who has nothing to be served. */
struct turn {
    struct list link;
    uint32_t since; /* turns.taken when it began to wait */
    uint32_t ahead; /* how many had their turn first then */
};

static inline void turns_init(struct turns *t)
{
    *t = (struct turns){0};
    list_init(&t->ring);
}

/* It begins to wait, behind all others. */
static inline void turns_join(struct turns *t, struct turn *one)
{
    one->since = t->taken;
    one->ahead = t->n++;
    list_push_tail(&t->ring, &one->link);
}

static inline void turns_leave(struct turns *t, struct turn *one)
{
    list_remove(&one->link);
    t->n--;
}

/* `to`, which waits for none, gets the place of `from`. */
static inline void turns_hand(struct turn *from, struct turn *to)
{
    list_insert_before(&from->link, &to->link);
    list_remove(&from->link);
    to->since = from->since;
    to->ahead = from->ahead;
}

/* It has its turn. Those before it could not have theirs, and begin to wait now, where they are. */
static inline void turns_take(struct turns *t, struct turn *one)
{
    t->taken++;
    for (struct list *l = t->ring.next; l != &one->link; l = l->next) {
        struct turn *before = container_of(l, struct turn, link);

        before->since = t->taken;
        before->ahead = t->n - 1;
    }
    turns_leave(t, one);
    turns_join(t, one);
}

/* Aborts if one that waits has let another one go first twice. */
static inline void turns_check(const struct turns *t, const struct turn *one)
{
    CHECK(t->taken - one->since <= one->ahead);
}

#endif
