/* A bounded table that users share. When it is full, the user who has most entries in it gives up his oldest one, so
 * that nobody's entries push out those of others who have fewer. What is nobody's (user 0) makes room first. With one
 * user it is first in, first out. O(log users) a change.
 *
 *   n = the sum of its users' n,  n <= max once room was made,  a user is in it <=> his n > 0 */
#ifndef HAWK_BASE_CROWD_H
#define HAWK_BASE_CROWD_H

#include "base/heap.h"
#include "base/list.h"

#include <uthash.h>

struct crowd_user {
    uint32_t user; /* user_number(); 0: nobody */
    uint32_t n;
    unsigned __int128 sum; /* the caller's: 0 when the user comes into the table */
    struct list entries;   /* struct crowd_entry.link, the oldest first */
    struct heap_node most;
    UT_hash_handle hh;
};

/* Stands in what is kept in the table. */
struct crowd_entry {
    struct list link;
    struct crowd_user *of; /* NULL: in no table */
};

struct crowd {
    struct crowd_user *users; /* the one who came first is the first */
    struct heap most;         /* the first is the user who makes room */
    uint64_t came;            /* users so far */
    uint32_t n, max;
};

/* max: at least 1. */
void crowd_init(struct crowd *c, uint32_t max);
/* Its entries, which are the caller's, are gone already. */
void crowd_free(struct crowd *c);
/* The youngest of its user's entries from now on. The caller made room before. */
void crowd_add(struct crowd *c, uint32_t user, struct crowd_entry *e);
void crowd_remove(struct crowd *c, struct crowd_entry *e);
/* It was used: the youngest again. */
void crowd_use(struct crowd_entry *e);
/* The entry that has to go before another one comes, still in the table; NULL: there is room. */
struct crowd_entry *crowd_excess(const struct crowd *c);
/* Takes that entry out. NULL: there is room. */
struct crowd_entry *crowd_make_room(struct crowd *c);
/* The entry after prev (NULL: the first), user by user, the oldest first; NULL at the end. The table must not change
 * in between. */
struct crowd_entry *crowd_next(const struct crowd *c, const struct crowd_entry *prev);

#endif
