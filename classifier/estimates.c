/* Estimates by user and job name. Of the user who has most names, the one that was not used for longest makes room. */
#include "classifier/classifier.h"

#include "base/check.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

void estimates_init(struct estimates *e, uint32_t max_names)
{
    *e = (struct estimates){0};
    crowd_init(&e->used, max_names);
}

static struct estimate *estimate_of(struct crowd_entry *used)
{
    return used ? container_of(used, struct estimate, used) : NULL;
}

static void estimate_free(struct estimates *e, struct estimate *t)
{
    HASH_DEL(e->by_key, t);
    blob_drop(t->name);
    free(t->recent);
    free(t);
}

void estimates_free(struct estimates *e)
{
    struct estimate *t;

    while ((t = estimate_of(crowd_next(&e->used, NULL)))) {
        crowd_remove(&e->used, &t->used);
        estimate_free(e, t);
    }
    crowd_free(&e->used);
}

static struct estimate *estimate_new(uint32_t user, const struct blob *name)
{
    struct estimate *t = xcalloc(1, sizeof *t + sizeof user + name->len);

    t->key_len = (uint32_t)sizeof user + name->len;
    memcpy(t->key, &user, sizeof user);
    memcpy(t->key + sizeof user, name->data, name->len);
    return t;
}

static struct estimate *find_estimate(const struct estimates *e, const struct estimate *like)
{
    struct estimate *t;

    HASH_FIND(hh, e->by_key, like->key, like->key_len, t);
    return t;
}

struct estimate *estimates_open(struct estimates *e, uint32_t user, struct blob *name)
{
    struct estimate *t, *known, *oldest;

    if (!name || name->len == 0)
        return NULL;
    t = estimate_new(user, name);
    known = find_estimate(e, t);
    if (known) {
        free(t);
        crowd_use(&known->used);
        return known;
    }
    oldest = estimate_of(crowd_make_room(&e->used));
    if (oldest)
        estimate_free(e, oldest);
    t->name = blob_ref(name);
    crowd_add(&e->used, user, &t->used);
    HASH_ADD(hh, e->by_key, key, t->key_len, t);
    return t;
}

void estimates_set(struct estimates *e, uint32_t user, struct blob *name, int64_t mean_us, uint32_t runs)
{
    struct estimate *t;

    if (mean_us < 1)
        return;
    t = estimates_open(e, user, name);
    if (!t)
        return;
    t->mean_us = mean_us;
    t->runs = runs;
}

static int64_t mean_of(const struct estimates *e, uint32_t user, const struct blob *name)
{
    struct estimate *like = estimate_new(user, name), *t = find_estimate(e, like);

    free(like);
    if (t)
        crowd_use(&t->used);
    return t ? t->mean_us : 0;
}

int64_t estimates_get(struct estimates *e, uint32_t user, const struct blob *name)
{
    int64_t mean_us;

    if (!name || name->len == 0)
        return 0;
    mean_us = mean_of(e, user, name);
    return mean_us > 0 || user == 0 ? mean_us : mean_of(e, 0, name);
}

const struct estimate *estimates_next(const struct estimates *e, const struct estimate *prev)
{
    return estimate_of(crowd_next(&e->used, prev ? &prev->used : NULL));
}
