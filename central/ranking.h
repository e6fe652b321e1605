/* Orders many workers by a time: an indexed heap like base/heap, but of small numbers instead of nodes. A
 * change among 100,000 workers touches only two dense arrays, and no memory of the other workers. */
#ifndef HAWK_CENTRAL_RANKING_H
#define HAWK_CENTRAL_RANKING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rank {
    int64_t us;
    uint64_t tie; /* the worker's number, with RANK_LATE as the highest bit */
};
#define RANK_LATE (UINT64_C(1) << 32) /* puts an entry behind all entries of the same time without it */
#define RANK_ARITY 4u /* children of a node, in one cache line: v[1] to v[RANK_ARITY] is the second line */

struct ranking {
    struct rank *v; /* the heap */
    uint32_t *at;   /* by number: place in the heap from 1 on; 0: not in the heap */
    void *memory;   /* contains v */
    uint32_t n, cap;
};

void ranking_free(struct ranking *r); /* leaves it empty, as if zeroed */
/* Makes room for the numbers below n. */
void ranking_reserve(struct ranking *r, uint32_t n);
/* Inserts a number, or moves it. */
void ranking_set(struct ranking *r, uint32_t number, int64_t us, bool late);
void ranking_remove(struct ranking *r, uint32_t number); /* the number must be in the heap */
static inline bool ranking_has(const struct ranking *r, uint32_t number) { return r->at[number] != 0; }
static inline const struct rank *ranking_at(const struct ranking *r, uint32_t number)
{
    return &r->v[r->at[number] - 1];
}
/* Prefetch into the cache what a change of a number's place needs: call first ranking_prefetch(), later
 * ranking_prefetch_place(). */
static inline void ranking_prefetch(const struct ranking *r, uint32_t number)
{
    __builtin_prefetch(&r->at[number]);
}
static inline void ranking_prefetch_place(const struct ranking *r, uint32_t number)
{
    if (r->at[number])
        __builtin_prefetch(&r->v[r->at[number] - 1]);
}
static inline uint32_t rank_number(const struct rank *k) { return (uint32_t)k->tie; }
/* The least entry, or NULL. */
static inline const struct rank *ranking_first(const struct ranking *r) { return r->n ? &r->v[0] : NULL; }
bool ranking_check(const struct ranking *r); /* for invariant checks */

#endif
