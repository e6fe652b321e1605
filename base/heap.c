/* The indexed heap: 4 children a node, so that a node's children share two or three cache lines and the tree
 * is half as deep as a binary one. Positions are 1-based in the nodes and 0-based in here. */
#include "base/heap.h"

#include "base/check.h"

#include <stdlib.h>

#define ARITY 4u

static bool entry_before(const struct heap_entry *a, const struct heap_entry *b)
{
    return heap_before(a->key, a->seq, b->key, b->seq);
}

static void place_entry(struct heap *h, uint32_t i, const struct heap_entry *e)
{
    h->v[i] = *e;
    e->node->pos = i + 1;
}

/* Moves the hole at i towards the root until e fits in it. */
static void sift_up(struct heap *h, uint32_t i, const struct heap_entry *e)
{
    while (i > 0) {
        uint32_t parent = (i - 1) / ARITY;

        if (!entry_before(e, &h->v[parent]))
            break;
        place_entry(h, i, &h->v[parent]);
        i = parent;
    }
    place_entry(h, i, e);
}

/* Which of the n children at v comes first. Most nodes have all of theirs, and need no loop. */
static uint32_t least_child(const struct heap_entry *v, uint64_t n)
{
    uint32_t least = 0;

    if (n >= ARITY) {
        uint32_t left = entry_before(&v[1], &v[0]) ? 1 : 0, right = entry_before(&v[3], &v[2]) ? 3 : 2;

        return entry_before(&v[right], &v[left]) ? right : left;
    }
    for (uint32_t c = 1; c < n; c++)
        least = entry_before(&v[c], &v[least]) ? c : least;
    return least;
}

/* Moves the hole at i towards the leaves until e fits in it. */
static void sift_down(struct heap *h, uint32_t i, const struct heap_entry *e)
{
    for (;;) {
        uint64_t first = (uint64_t)i * ARITY + 1;
        uint32_t least;

        if (first >= h->n)
            break;
        least = (uint32_t)first + least_child(&h->v[first], h->n - first);
        if (!entry_before(&h->v[least], e))
            break;
        place_entry(h, i, &h->v[least]);
        i = least;
    }
    place_entry(h, i, e);
}

/* Puts e where it belongs, starting from the hole at i. */
static void settle_entry(struct heap *h, uint32_t i, struct heap_entry e)
{
    if (i > 0 && entry_before(&e, &h->v[(i - 1) / ARITY]))
        sift_up(h, i, &e);
    else
        sift_down(h, i, &e);
}

void heap_init(struct heap *h) { *h = (struct heap){0}; }

void heap_free(struct heap *h)
{
    free(h->v);
    heap_init(h);
}

int heap_push(struct heap *h, struct heap_node *n)
{
    CHECK(!heap_in(n));
    if (h->n == h->cap) {
        /* Doubles, and stops short of where positions would no longer fit. */
        uint32_t cap = h->cap < 16 ? 16 : h->cap <= UINT32_MAX / 4 ? h->cap * 2 : UINT32_MAX / 2;
        struct heap_entry *v = h->n == cap ? NULL : realloc(h->v, (size_t)cap * sizeof *v);

        if (!v)
            return HAWK_ENOMEM;
        h->v = v;
        h->cap = cap;
    }
    sift_up(h, h->n++, &(struct heap_entry){n->key, n->seq, n});
    return 0;
}

void heap_remove(struct heap *h, struct heap_node *n)
{
    uint32_t i = n->pos - 1; /* wraps for a node in no heap, which the checks catch */

    CHECK(i < h->n);
    CHECK(h->v[i].node == n);
    struct heap_entry last = h->v[--h->n];
    n->pos = 0;
    if (last.node != n)
        settle_entry(h, i, last);
}

void heap_update(struct heap *h, struct heap_node *n, int64_t key, uint64_t seq)
{
    uint32_t i = n->pos - 1;

    CHECK(i < h->n);
    CHECK(h->v[i].node == n);
    n->key = key;
    n->seq = seq;
    settle_entry(h, i, (struct heap_entry){key, seq, n});
}

void heap_set(struct heap *h, struct heap_node *n, int64_t key, uint64_t seq)
{
    if (heap_in(n)) {
        heap_update(h, n, key, seq);
        return;
    }
    n->key = key;
    n->seq = seq;
    CHECK(heap_push(h, n) == 0);
}

bool heap_check(const struct heap *h)
{
    if (h->n > h->cap)
        return false;
    for (uint32_t i = 0; i < h->n; i++) {
        const struct heap_entry *e = &h->v[i];

        if (e->node->pos != i + 1 || e->node->key != e->key || e->node->seq != e->seq)
            return false;
        if (i > 0 && entry_before(e, &h->v[(i - 1) / ARITY]))
            return false;
    }
    return true;
}
