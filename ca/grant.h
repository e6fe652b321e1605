/* Gives people credentials, where the user root is kept: `hawk user add` does, and the login socket. */
#ifndef HAWK_CA_GRANT_H
#define HAWK_CA_GRANT_H

#include "ca/credential.h"
#include "ca/users.h"

/* Reads the list of revoked names. *d is NULL where nobody has been revoked, and after an error; free it with
 * denied_free. HAWK_EIO, HAWK_ECORRUPT: why names the file; anybody may be revoked then. */
HAWK_MUST_USE int grant_denied(const char *dir, struct denied **d, char *why, size_t size);
/* Whether the list of users allows this one: a name stays with its uid, and a uid with its name. HAWK_EINVALID: why
 * names the other. */
HAWK_MUST_USE int grant_check(const struct users *u, const struct identity *who, char *why, size_t size);
/* Makes a credential and writes its user into the list, which is open for change. It lives for life_us (microseconds),
 * and names `dist` (addresses; may be empty). It waits up to a second where the user was revoked just now. Free *c
 * with credential_free, also after an error. HAWK_EINVALID, HAWK_EIO, HAWK_ECORRUPT, HAWK_ETOO_LARGE. */
HAWK_MUST_USE int grant_credential(struct users *u, const struct identity *who, int64_t life_us,
                                   const char *dist, struct credential *c, char *why, size_t size);

#endif
