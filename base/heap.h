/* Indexed d-ary min-heap of intrusive nodes, ordered by (key, seq): ties never depend on addresses. */
#ifndef HAWK_BASE_HEAP_H
#define HAWK_BASE_HEAP_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heap_node {
    int64_t key;
    uint64_t seq;
    uint32_t pos; /* 1-based place in the heap; 0 = in no heap */
};

/* Keys stand beside the pointers, so that comparisons in a big heap touch one array only. */
struct heap_entry {
    int64_t key;
    uint64_t seq;
    struct heap_node *node;
};

/* Whether one (key, seq) comes before another: compared as one number of 128 bits, without a branch, because the
 * outcome cannot be predicted. */
static inline bool heap_before(int64_t key, uint64_t seq, int64_t other_key, uint64_t other_seq)
{
    __int128 other = (__int128)((unsigned __int128)other_key << 64 | other_seq);

    return (__int128)((unsigned __int128)key << 64 | seq) < other;
}

struct heap {
    struct heap_entry *v;
    uint32_t n, cap;
};

void heap_init(struct heap *h);
void heap_free(struct heap *h); /* frees the array, not the nodes */
/* Inserts node with its key and seq set; node must be in no heap. HAWK_ENOMEM leaves both unchanged. */
HAWK_MUST_USE int heap_push(struct heap *h, struct heap_node *n);
/* The least node, or NULL. */
static inline struct heap_node *heap_min(const struct heap *h) { return h->n ? h->v[0].node : NULL; }
void heap_remove(struct heap *h, struct heap_node *n); /* n must be in h */
/* Changes key (and seq) of a node in h and restores order. */
void heap_update(struct heap *h, struct heap_node *n, int64_t key, uint64_t seq);
/* The same, of a node in h or in no heap; in h then. Aborts when out of memory. */
void heap_set(struct heap *h, struct heap_node *n, int64_t key, uint64_t seq);
static inline bool heap_in(const struct heap_node *n) { return n->pos != 0; }
bool heap_check(const struct heap *h); /* the heap property and every pos; for invariant checks */

#endif
