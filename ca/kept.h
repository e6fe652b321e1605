/* The key and the certificate that a daemon keeps in a directory of its own:
 *   node.key   made there, and never anywhere else
 *   node.crt
 *   roots.crt
 *   central    where central was when the daemon was invited
 *   invitation its id */
#ifndef HAWK_CA_KEPT_H
#define HAWK_CA_KEPT_H

#include "ca/ca.h"

#include <limits.h>
#include <stdbool.h>

#define KEPT_KEY "node.key"
#define KEPT_CERTIFICATE "node.crt"
#define KEPT_ROOTS "roots.crt"
#define KEPT_CENTRAL "central"
#define KEPT_INVITATION "invitation"

/* Makes a request (PKCS #10, DER) with the directory's key, which it makes if there is none. The directory is made as
 * well, but not those above it. *der is the caller's to free. HAWK_EIO, HAWK_ECORRUPT. */
HAWK_MUST_USE int kept_request(const char *dir, uint8_t **der, size_t *len, char *why, size_t size);
/* Puts a certificate (PEM) in place of the one that is there, at once. HAWK_EINVALID: it is for somebody else than who,
 * or not of this key. */
HAWK_MUST_USE int kept_take(const char *dir, const struct identity *who, const char *pem, char *why,
                            size_t size);
/* A text of the directory: put there, or read. "": there is none. */
HAWK_MUST_USE int kept_put(const char *dir, const char *name, const char *text, char *why, size_t size);
char *kept_get(const char *dir, const char *name); /* the caller's to free; never NULL */

/* What the certificate says. False: there is none that can be read. */
bool kept_look(const char *dir, struct identity *who);
/* When it is to be renewed: after a third of its life. */
static inline int64_t kept_renew_s(const struct identity *who)
{
    return who->made_s + (who->until_s - who->made_s) / 3;
}

#endif
