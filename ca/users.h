/* The users that have been given a credential: DIR/users/list, beside the user root. A line each:
 *
 *   hawk users 1
 *   ann 1001 read,submit 1764057600 1766649600     name, uid, scopes, made, until (seconds since 1970) */
#ifndef HAWK_CA_USERS_H
#define HAWK_CA_USERS_H

#include "base/err.h"
#include "net/identity.h"

#include <stddef.h>
#include <stdint.h>

struct users {
    char *dir;
    int lock; /* others wait as long as it is open */
    struct identity *v;
    uint32_t n, cap;
};

/* Reads the list; an empty one where there is none. `change`: nobody else changes it until users_free. Free *u also
 * after an error. HAWK_EIO, HAWK_ECORRUPT: why names the file. */
HAWK_MUST_USE int users_open(struct users *u, const char *dir, bool change, char *why, size_t size);
/* NULL: there is no such user. */
struct identity *users_find(const struct users *u, const char *name);
struct identity *users_find_uid(const struct users *u, uint32_t uid);
/* Adds a user, or replaces the one of that name. Then writes the list. */
HAWK_MUST_USE int users_put(struct users *u, const struct identity *who, char *why, size_t size);
void users_free(struct users *u);

#endif
