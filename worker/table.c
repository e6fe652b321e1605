/* The chained hash table of worker/table.h. */
#include "worker/table.h"

#include "base/check.h"
#include "base/mem.h"

#include <stdlib.h>

#define FIRST_BUCKETS 16u

static struct table_node **chain(const struct table *t, uint64_t key)
{
    return t->v ? &t->v[key & t->mask] : (struct table_node **)&t->first;
}

static void link_in(struct table *t, struct table_node *n)
{
    struct table_node **c = chain(t, n->key);

    n->next = *c;
    *c = n;
}

/* Moves every node to `buckets` chains; their number is a power of two. */
static void rehash(struct table *t, uint32_t buckets)
{
    struct table old = *t;

    t->v = xcalloc(buckets, sizeof *t->v);
    t->mask = buckets - 1;
    t->first = NULL;
    for (uint32_t i = 0; i <= (old.v ? old.mask : 0); i++) {
        struct table_node *next;

        for (struct table_node *n = old.v ? old.v[i] : old.first; n; n = next) {
            next = n->next;
            link_in(t, n);
        }
    }
    free(old.v);
}

void worker_table_insert(struct table *t, struct table_node *n, uint64_t key)
{
    n->key = key;
    if (!t->v && t->n == TABLE_INLINE)
        rehash(t, FIRST_BUCKETS);
    else if (t->v && t->n > t->mask && t->mask < UINT32_MAX / 2)
        rehash(t, (t->mask + 1) * 2);
    link_in(t, n);
    t->n++;
}

void worker_table_remove(struct table *t, struct table_node *n)
{
    struct table_node **c = chain(t, n->key);

    while (*c != n) {
        CHECK(*c != NULL);
        c = &(*c)->next;
    }
    *c = n->next;
    n->next = NULL;
    t->n--;
}

static struct table_node *with_key(struct table_node *n, uint64_t key)
{
    while (n && n->key != key)
        n = n->next;
    return n;
}

struct table_node *worker_table_find(const struct table *t, uint64_t key)
{
    return with_key(*chain(t, key), key);
}

struct table_node *worker_table_find_next(const struct table_node *n) { return with_key(n->next, n->key); }

void worker_table_free(struct table *t)
{
    free(t->v);
    *t = (struct table){0};
}
