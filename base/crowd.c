/* A bounded table that users share: see crowd.h. */
#include "base/crowd.h"

#include "base/check.h"
#include "base/mem.h"

#include <stdlib.h>

void crowd_init(struct crowd *c, uint32_t max)
{
    *c = (struct crowd){.max = max ? max : 1};
    heap_init(&c->most);
}

void crowd_free(struct crowd *c)
{
    CHECK(c->n == 0);
    heap_free(&c->most);
}

/* The least key makes room: nobody's, else that of the largest n. Among equals, who came first. */
static int64_t key_of(const struct crowd_user *u) { return u->user ? -(int64_t)u->n : INT64_MIN; }

static struct crowd_user *user_of(struct crowd *c, uint32_t user)
{
    struct crowd_user *u;

    HASH_FIND(hh, c->users, &user, sizeof user, u);
    if (u)
        return u;
    u = xcalloc(1, sizeof *u);
    u->user = user;
    list_init(&u->entries);
    HASH_ADD(hh, c->users, user, sizeof u->user, u);
    u->most.key = key_of(u);
    u->most.seq = c->came++;
    CHECK(heap_push(&c->most, &u->most) == 0);
    return u;
}

void crowd_add(struct crowd *c, uint32_t user, struct crowd_entry *e)
{
    struct crowd_user *u = user_of(c, user);

    CHECK(c->n < c->max);
    e->of = u;
    list_push_tail(&u->entries, &e->link);
    u->n++;
    c->n++;
    heap_update(&c->most, &u->most, key_of(u), u->most.seq);
}

void crowd_remove(struct crowd *c, struct crowd_entry *e)
{
    struct crowd_user *u = e->of;

    list_remove(&e->link);
    e->of = NULL;
    u->n--;
    c->n--;
    if (u->n > 0) {
        heap_update(&c->most, &u->most, key_of(u), u->most.seq);
        return;
    }
    heap_remove(&c->most, &u->most);
    HASH_DEL(c->users, u); /* NOLINT(clang-analyzer-core.NullDereference): inside uthash */
    free(u);
}

void crowd_use(struct crowd_entry *e)
{
    list_remove(&e->link);
    list_push_tail(&e->of->entries, &e->link);
}

static struct crowd_entry *first_of(const struct crowd_user *u)
{
    return container_of(u->entries.next, struct crowd_entry, link);
}

struct crowd_entry *crowd_excess(const struct crowd *c)
{
    return c->n < c->max ? NULL : first_of(container_of(heap_min(&c->most), struct crowd_user, most));
}

struct crowd_entry *crowd_make_room(struct crowd *c)
{
    struct crowd_entry *e = crowd_excess(c);

    if (e)
        crowd_remove(c, e);
    return e;
}

struct crowd_entry *crowd_next(const struct crowd *c, const struct crowd_entry *prev)
{
    const struct crowd_user *u = prev ? prev->of : c->users;

    if (prev && prev->link.next != &u->entries)
        return container_of(prev->link.next, struct crowd_entry, link);
    if (prev)
        u = u->hh.next;
    return u ? first_of(u) : NULL;
}
