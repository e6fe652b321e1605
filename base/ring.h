/* A queue in an array that grows. A queue is any struct with `v`, `head`, `n` and `cap` (a power of two,
 * or 0 while v is NULL). It starts zeroed; free(v) ends it. */
#ifndef HAWK_BASE_RING_H
#define HAWK_BASE_RING_H

#include "base/check.h"
#include "base/mem.h"

#include <string.h>

/* The i-th oldest element, i < n. */
#define ring_at(q, i) ((q)->v[((q)->head + (i)) & ((q)->cap - 1)])

#define ring_push(q, element)                                                                                \
    do {                                                                                                     \
        __typeof__(q) ring_q = (q);                                                                          \
        if (ring_q->n == ring_q->cap) {                                                                      \
            ring_q->cap = ring_q->cap ? 2 * ring_q->cap : 64;                                                \
            ring_q->v = xrealloc(ring_q->v, (size_t)ring_q->cap * sizeof *ring_q->v);                        \
            /* The elements that had wrapped around move behind the others. */                               \
            memcpy(ring_q->v + ring_q->n, ring_q->v, ring_q->head * sizeof *ring_q->v);                      \
        }                                                                                                    \
        ring_q->n++;                                                                                         \
        ring_at(ring_q, ring_q->n - 1) = (element);                                                          \
    } while (0)

/* Takes the oldest element into *to. */
#define ring_pop(q, to)                                                                                      \
    do {                                                                                                     \
        __typeof__(q) ring_q = (q);                                                                          \
        CHECK(ring_q->n > 0);                                                                                \
        *(to) = ring_at(ring_q, 0);                                                                          \
        ring_q->head = (ring_q->head + 1) & (ring_q->cap - 1);                                               \
        ring_q->n--;                                                                                         \
    } while (0)

#endif
