/* Accounts of this machine, as the system's database has them. A look-up may ask far away, while its caller waits. */
#ifndef HAWK_BASE_ACCOUNT_H
#define HAWK_BASE_ACCOUNT_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct account {
    char *name, *home; /* of its own; NULL: there is none */
    uint32_t uid, gid;
    char *bytes; /* inside account.c */
};

/* HAWK_ENOT_FOUND: there is no such account; HAWK_EUNAVAILABLE: the look-up failed, and there may be one. Free *a with
 * account_free, also after an error. */
HAWK_MUST_USE int account_of_uid(struct account *a, uint32_t uid);
HAWK_MUST_USE int account_of_name(struct account *a, const char *name);
void account_free(struct account *a);
/* Whether a look-up in the system's database that gave err found that there is no such user: by these errors, says
 * getpwnam(3), systems mean that. Any other failed. */
bool account_is_none(int err);

#endif
