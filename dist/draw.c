/* Draws probe targets: see dist/draw.h. */
#include "dist/draw.h"

#include "base/check.h"
#include "base/ids.h"
#include "base/mem.h"
#include "msg/types.h"

#include <stdlib.h>
#include <string.h>

/* With fewer dead slots than this, a sweep is not worth its cost. */
#define SWEEP_MIN 64u

_Static_assert(NODE_ID_MAX < 1u << DRAW_ID_BITS, "a node's id must fit in a slot");
_Static_assert(LIMIT_SLOTS <= UINT32_MAX >> DRAW_STAMP_BITS, "a worker's slots must fit in a member");

void draw_init(struct draw *p) { *p = (struct draw){0}; }

void draw_free(struct draw *p)
{
    free(p->v);
    free(p->member);
    free(p->ids);
    draw_init(p);
}

static bool slot_valid(const struct draw *p, const struct draw_slot *s)
{
    return p->member[s->id].weight > 0 && p->member[s->id].stamp == s->stamp;
}

/* Removes the slots of workers that left. Its cost is amortised over the slots that left since the last
 * sweep. */
static void sweep(struct draw *p)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->n; i++)
        if (slot_valid(p, &p->v[i]))
            p->v[n++] = p->v[i];
    p->n = n;
    CHECK(p->n == p->valid);
}

void draw_add(struct draw *p, uint32_t id, uint32_t weight)
{
    CHECK(weight > 0);
    CHECK(weight <= LIMIT_SLOTS);
    CHECK(id <= NODE_ID_MAX);
    if (id >= p->members_cap) {
        uint32_t cap = p->members_cap ? p->members_cap : 64;

        while (cap <= id)
            cap *= 2;
        p->member = xrealloc(p->member, cap * sizeof *p->member);
        memset(p->member + p->members_cap, 0, (cap - p->members_cap) * sizeof *p->member);
        p->members_cap = cap;
    }
    CHECK(p->member[id].weight == 0);
    p->member[id].weight = weight & (UINT32_MAX >> DRAW_STAMP_BITS);
    for (uint32_t i = 0; i < weight; i++) {
        vec_grow(p->v, p->n, p->cap);
        p->v[p->n++] =
            (struct draw_slot){.id = id & ((1u << DRAW_ID_BITS) - 1), .stamp = p->member[id].stamp};
    }
    p->valid += weight;
    vec_grow(p->ids, p->ids_n, p->ids_cap);
    p->member[id].place = p->ids_n;
    p->ids[p->ids_n++] = id;
}

void draw_remove(struct draw *p, uint32_t id)
{
    uint32_t last;

    CHECK(draw_weight(p, id) > 0);
    last = p->ids[--p->ids_n];
    p->ids[p->member[id].place] = last;
    p->member[last].place = p->member[id].place;
    p->valid -= p->member[id].weight;
    p->member[id].weight = 0;
    p->member[id].stamp++;
    if (p->n > 2 * p->valid + SWEEP_MIN ||
        p->member[id].stamp == 0) /* stamps begin anew: old slots must not become valid again */
        sweep(p);
}

uint32_t draw_weight(const struct draw *p, uint32_t id)
{
    return id < p->members_cap ? p->member[id].weight : 0;
}

uint32_t draw_next(struct draw *p, struct rng *rng, uint32_t *taken)
{
    CHECK(p->valid > 0);
    for (;;) {
        uint32_t i, j;
        struct draw_slot s;

        if (*taken >= p->n)
            *taken = 0;
        i = *taken;
        j = i + (uint32_t)rng_below(rng, p->n - i);
        s = p->v[j];
        if (!slot_valid(p, &s)) {
            p->v[j] = p->v[--p->n];
            continue;
        }
        p->v[j] = p->v[i];
        p->v[i] = s;
        *taken = i + 1;
        return s.id;
    }
}

uint32_t draw_any(struct draw *p, struct rng *rng)
{
    uint32_t taken = 0;

    return draw_next(p, rng, &taken);
}

void draw_check(const struct draw *p)
{
    uint32_t valid = 0;

    for (uint32_t i = 0; i < p->n; i++)
        valid += slot_valid(p, &p->v[i]);
    CHECK(valid == p->valid);
    CHECK(p->n <= p->cap);
    valid = 0;
    for (uint32_t i = 0; i < p->ids_n; i++) {
        CHECK(p->member[p->ids[i]].place == i);
        valid += draw_weight(p, p->ids[i]);
    }
    CHECK(valid == p->valid);
}
