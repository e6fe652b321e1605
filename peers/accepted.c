/* The peers that have dialled a worker, in a small hash table. A simulated worker has one for each of some
 * dists, and there are a hundred thousand such workers. A real worker may have a thousand thieves. */
#include "peers/internal.h"

#include "base/hash.h"
#include "base/mem.h"

#include <stdlib.h>

static uint32_t home_of(const struct accepted *t, uint32_t id)
{
    return (uint32_t)hash_mix(id) & (t->cap - 1);
}

/* The place of id, or the free place where it belongs. */
static uint32_t place_of(const struct accepted *t, uint32_t id)
{
    uint32_t i = home_of(t, id);

    while (t->v[i].id != 0 && t->v[i].id != id)
        i = (i + 1) & (t->cap - 1);
    return i;
}

struct accepted_peer *peers_accepted_find(const struct accepted *t, uint32_t id)
{
    struct accepted_peer *a = t->cap ? &t->v[place_of(t, id)] : NULL;

    return a && a->id != 0 ? a : NULL;
}

static void grow_table(struct accepted *t)
{
    struct accepted old = *t;

    t->cap = old.cap ? 2 * old.cap : 4;
    t->v = xcalloc(t->cap, sizeof *t->v);
    for (uint32_t i = 0; i < old.cap; i++)
        if (old.v[i].id != 0)
            t->v[place_of(t, old.v[i].id)] = old.v[i];
    free(old.v);
}

void peers_accepted_add(struct accepted *t, uint32_t id, enum role role)
{
    if (4 * (t->n + 1) > 3 * t->cap)
        grow_table(t);
    t->v[place_of(t, id)] = (struct accepted_peer){id, role};
    t->n++;
}

/* Entries behind the gap move up when lookups would not find them any more. */
void peers_accepted_remove(struct accepted *t, struct accepted_peer *a)
{
    uint32_t mask = t->cap - 1, gap = (uint32_t)(a - t->v);

    for (uint32_t i = (gap + 1) & mask; t->v[i].id != 0; i = (i + 1) & mask) {
        uint32_t home = home_of(t, t->v[i].id);

        if (((i - home) & mask) < ((i - gap) & mask))
            continue;
        t->v[gap] = t->v[i];
        gap = i;
    }
    t->v[gap] = (struct accepted_peer){0};
    t->n--;
}
