/* The order of many workers by a time: an indexed heap like base/heap, but of small numbers instead of nodes. What it
 * touches on the way of one of them through 100,000 are two dense arrays and nothing of the others' own memory. */
#ifndef HAWK_CENTRAL_RANKING_H
#define HAWK_CENTRAL_RANKING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rank {
    int64_t us;
    uint64_t tie; /* the number; RANK_LATE first of all */
};
#define RANK_LATE (UINT64_C(1) << 32) /* behind all of the same time that are not */
#define RANK_ARITY 4u /* children each, which share a cache line: the second is among v[1] to v[RANK_ARITY] */

struct ranking {
    struct rank *v; /* the heap */
    uint32_t *at;   /* by number: 1-based place in the heap; 0: not in it */
    void *memory;   /* v lies in it */
    uint32_t n, cap;
};

void ranking_free(struct ranking *r); /* it is empty, as if zeroed */
/* Makes room for the numbers below n. */
void ranking_reserve(struct ranking *r, uint32_t n);
/* Puts number there, or moves it. */
void ranking_set(struct ranking *r, uint32_t number, int64_t us, bool late);
void ranking_remove(struct ranking *r, uint32_t number); /* it must be there */
static inline bool ranking_has(const struct ranking *r, uint32_t number) { return r->at[number] != 0; }
static inline const struct rank *ranking_at(const struct ranking *r, uint32_t number)
{
    return &r->v[r->at[number] - 1];
}
/* Fetch into the processor's cache what a change of number's place needs: the first of them, then the second. */
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
/* The least one, or NULL. */
static inline const struct rank *ranking_first(const struct ranking *r) { return r->n ? &r->v[0] : NULL; }
bool ranking_check(const struct ranking *r); /* for invariant checks */

#endif
