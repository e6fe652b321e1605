/* Intrusive doubly linked list with a sentinel. A node in no list points to itself. */
#ifndef HAWK_BASE_LIST_H
#define HAWK_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct list {
    struct list *prev, *next;
};

#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

static inline void list_init(struct list *l) { l->prev = l->next = l; }
static inline bool list_empty(const struct list *l) { return l->next == l; }
static inline void list_insert_before(struct list *at, struct list *n)
{
    n->prev = at->prev;
    n->next = at;
    at->prev->next = n;
    at->prev = n;
}
static inline void list_push_tail(struct list *l, struct list *n) { list_insert_before(l, n); }
static inline void list_push_head(struct list *l, struct list *n) { list_insert_before(l->next, n); }
/* Safe on a node that is in no list. */
static inline void list_remove(struct list *n)
{
    n->prev->next = n->next;
    n->next->prev = n->prev;
    list_init(n);
}

/* `next` lets the body remove the current node. */
#define list_foreach(l, node, nxt)                                                                           \
    for (struct list *node = (l)->next, *nxt = node->next; node != (l); node = nxt, nxt = node->next)

/* How many nodes are in it. O(that). */
static inline uint32_t list_length(const struct list *l)
{
    uint32_t n = 0;

    list_foreach(l, node, next)
        n++;
    return n;
}

#endif
