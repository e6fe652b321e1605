/* Estimates by job name, with eviction of the name that was not used for longest. */
#include "classifier/classifier.h"

#include "base/check.h"
#include "base/mem.h"

#include <stdlib.h>

void estimates_init(struct estimates *e, uint32_t max_names)
{
    *e = (struct estimates){.max = max_names ? max_names : 1};
    list_init(&e->lru);
}

static void estimate_free(struct estimates *e, struct estimate *t)
{
    HASH_DEL(e->by_name, t);
    list_remove(&t->lru);
    blob_drop(t->name);
    free(t->recent);
    free(t);
    e->n--;
}

void estimates_free(struct estimates *e)
{
    list_foreach(&e->lru, node, next)
        estimate_free(e, container_of(node, struct estimate, lru));
    CHECK(e->n == 0);
}

static struct estimate *mark_used(struct estimates *e, struct estimate *t)
{
    list_remove(&t->lru);
    list_push_tail(&e->lru, &t->lru);
    return t;
}

static struct estimate *find_estimate(struct estimates *e, const struct blob *name)
{
    struct estimate *t = NULL;

    if (name && name->len > 0)
        HASH_FIND(hh, e->by_name, name->data, name->len, t);
    return t;
}

struct estimate *estimates_open(struct estimates *e, struct blob *name)
{
    struct estimate *t = find_estimate(e, name);

    if (t)
        return mark_used(e, t);
    if (!name || name->len == 0)
        return NULL;
    if (e->n == e->max)
        estimate_free(e, container_of(e->lru.next, struct estimate, lru));
    t = xcalloc(1, sizeof *t);
    t->name = blob_ref(name);
    list_push_tail(&e->lru, &t->lru);
    HASH_ADD_KEYPTR(hh, e->by_name, t->name->data, t->name->len, t);
    e->n++;
    return t;
}

void estimates_set(struct estimates *e, struct blob *name, int64_t mean_us, uint32_t runs)
{
    struct estimate *t;

    if (mean_us < 1)
        return;
    t = estimates_open(e, name);
    if (!t)
        return;
    t->mean_us = mean_us;
    t->runs = runs;
}

int64_t estimates_get(struct estimates *e, const struct blob *name)
{
    struct estimate *t = find_estimate(e, name);

    return t ? mark_used(e, t)->mean_us : 0;
}

const struct estimate *estimates_next(const struct estimates *e, const struct estimate *prev)
{
    const struct list *node = prev ? prev->lru.next : e->lru.next;

    return node == &e->lru ? NULL : container_of(node, struct estimate, lru);
}
