/* The ends of running tasks, ordered by time. */
#include "sim/endings.h"

#include "base/mem.h"

#include <stdlib.h>

void endings_free(struct endings *h)
{
    free(h->v);
    *h = (struct endings){0};
}

static bool ends_before(const struct ending *a, const struct ending *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->seq < b->seq;
}

static void sift_up(struct endings *h, uint32_t i)
{
    struct ending e = h->v[i];

    while (i > 0 && ends_before(&e, &h->v[(i - 1) / 4])) {
        h->v[i] = h->v[(i - 1) / 4];
        i = (i - 1) / 4;
    }
    h->v[i] = e;
}

static void sift_down(struct endings *h, uint32_t i)
{
    struct ending e = h->v[i];

    for (;;) {
        uint32_t first = 4 * i + 1, least = first;

        if (first >= h->n)
            break;
        for (uint32_t j = first + 1; j < h->n && j < first + 4; j++)
            if (ends_before(&h->v[j], &h->v[least]))
                least = j;
        if (!ends_before(&h->v[least], &e))
            break;
        h->v[i] = h->v[least];
        i = least;
    }
    h->v[i] = e;
}

void endings_add(struct endings *h, int64_t at_us, int64_t run_us, uint32_t worker, uint32_t run)
{
    vec_grow(h->v, h->n, h->cap);
    h->v[h->n++] =
        (struct ending){.at_us = at_us, .seq = h->seq++, .run_us = run_us, .worker = worker, .run = run};
    sift_up(h, h->n - 1);
}

static void drop(struct endings *h, uint32_t i)
{
    struct ending last = h->v[--h->n];

    if (i == h->n)
        return;
    h->v[i] = last;
    sift_down(h, i);
    sift_up(h, i);
}

void endings_drop_first(struct endings *h) { drop(h, 0); }

bool endings_take(struct endings *h, uint32_t worker, uint32_t run, struct ending *e)
{
    for (uint32_t i = 0; i < h->n; i++)
        if (h->v[i].worker == worker && h->v[i].run == run) {
            *e = h->v[i];
            drop(h, i);
            return true;
        }
    return false;
}
