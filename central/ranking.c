/* The heap: siblings share a cache line, and comparisons have no branches. */
#include "central/ranking.h"

#include "base/check.h"
#include "base/heap.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

#define LINE 64u

static bool before(const struct rank *a, const struct rank *b)
{
    return heap_before(a->us, a->tie, b->us, b->tie);
}

static void put_at(struct ranking *r, uint32_t i, const struct rank *k)
{
    r->v[i] = *k;
    r->at[rank_number(k)] = i + 1;
}

/* Moves the hole at i towards the root until k fits in. Returns its place. */
static uint32_t sift_up(struct ranking *r, uint32_t i, const struct rank *k)
{
    while (i > 0 && before(k, &r->v[(i - 1) / RANK_ARITY])) {
        put_at(r, i, &r->v[(i - 1) / RANK_ARITY]);
        i = (i - 1) / RANK_ARITY;
    }
    return i;
}

/* Which of the n children at v comes first. Most nodes have all of theirs, and need no loop. */
static uint32_t least_child(const struct rank *v, uint32_t n)
{
    uint32_t least = 0;

    if (n >= RANK_ARITY) {
        uint32_t left = before(&v[1], &v[0]) ? 1 : 0, right = before(&v[3], &v[2]) ? 3 : 2;

        return before(&v[right], &v[left]) ? right : left;
    }
    for (uint32_t c = 1; c < n; c++)
        least = before(&v[c], &v[least]) ? c : least;
    return least;
}

/* Moves the hole at i towards the leaves until k fits in. Returns its place. */
static uint32_t sift_down(struct ranking *r, uint32_t i, const struct rank *k)
{
    for (;;) {
        uint32_t first = i * RANK_ARITY + 1, least;

        if (first >= r->n)
            return i;
        least = first + least_child(&r->v[first], r->n - first);
        if (!before(&r->v[least], k))
            return i;
        put_at(r, i, &r->v[least]);
        i = least;
    }
}

static void settle_at(struct ranking *r, uint32_t i, struct rank k)
{
    uint32_t up = sift_up(r, i, &k);

    put_at(r, up < i ? up : sift_down(r, i, &k), &k);
}

void ranking_free(struct ranking *r)
{
    free(r->memory);
    free(r->at);
    *r = (struct ranking){0};
}

void ranking_reserve(struct ranking *r, uint32_t n)
{
    struct rank *v;
    void *memory;

    if (n <= r->cap)
        return;
    n = n < 2 * r->cap ? 2 * r->cap : n;
    /* The first child of the root begins a cache line. */
    memory = xaligned(LINE, ((size_t)n * sizeof *v + 2 * LINE - 1) / LINE * LINE);
    v = (struct rank *)((char *)memory + LINE - sizeof *v);
    if (r->n)
        memcpy(v, r->v, r->n * sizeof *v);
    free(r->memory);
    r->memory = memory;
    r->v = v;
    r->at = xrealloc(r->at, n * sizeof *r->at);
    memset(r->at + r->cap, 0, (n - r->cap) * sizeof *r->at);
    r->cap = n;
}

void ranking_set(struct ranking *r, uint32_t number, int64_t us, bool late)
{
    struct rank k = {.us = us, .tie = number | (late ? RANK_LATE : 0)};
    uint32_t i;

    CHECK(number < r->cap);
    i = r->at[number] ? r->at[number] - 1 : r->n++;
    settle_at(r, i, k);
}

void ranking_remove(struct ranking *r, uint32_t number)
{
    uint32_t at = r->at[number];

    CHECK(at);
    r->at[number] = 0;
    if (at <= --r->n)
        settle_at(r, at - 1, r->v[r->n]);
}

bool ranking_check(const struct ranking *r)
{
    for (uint32_t i = 0; i < r->n; i++)
        if (r->at[rank_number(&r->v[i])] != i + 1 || (i > 0 && before(&r->v[i], &r->v[(i - 1) / RANK_ARITY])))
            return false;
    return true;
}
