/* The streams to nodes, in a hash table by number. Every message needs one lookup. Numbers are given out in
 * order, so mostly the first place, that of the number's low bits, is the right one. */
#include "central/state.h"

#include "base/mem.h"

#include <stdlib.h>

#define PLACES_MIN 64u

static struct link *place_of(const struct links *l, uint32_t id)
{
    uint32_t i = id & l->mask;

    while (l->v[i].id && l->v[i].id != id)
        i = (i + 1) & l->mask;
    return &l->v[i];
}

struct link *central_link(const struct central *c, uint32_t id)
{
    struct link *at = c->links.v && id ? place_of(&c->links, id) : NULL;

    return at && at->id ? at : NULL;
}

static void grow(struct links *l)
{
    struct links old = *l;
    uint32_t places = old.v ? old.mask + 1 : 0;

    l->mask = places ? 2 * places - 1 : PLACES_MIN - 1;
    l->v = xcalloc(l->mask + 1, sizeof *l->v);
    for (uint32_t i = 0; i < places; i++)
        if (old.v[i].id)
            *place_of(l, old.v[i].id) = old.v[i];
    free(old.v);
}

void central_link_add(struct central *c, uint32_t id, uint8_t role)
{
    struct links *l = &c->links;

    /* An eighth of the table stays empty, so that a search for an absent number ends soon. */
    if (!l->v || l->n >= l->mask - l->mask / 8)
        grow(l);
    *place_of(l, id) = (struct link){.id = id, .role = role};
    l->n++;
}

void central_link_remove(struct central *c, uint32_t id)
{
    struct links *l = &c->links;
    struct link *hole = place_of(l, id);

    hole->id = 0;
    l->n--;
    /* Entries that had moved on because of the removed one move up. */
    for (uint32_t i = (uint32_t)(hole - l->v + 1) & l->mask; l->v[i].id; i = (i + 1) & l->mask) {
        struct link moved = l->v[i];

        l->v[i].id = 0;
        *place_of(l, moved.id) = moved;
    }
}
