/* Certificates that are good no more although they have not expired: a list that a root has signed, with a version that
 * grows. What it says of a name holds for the certificates made before; a node that is invited anew comes in.
 *
 *   hawk denied 1
 *   version: 7
 *   node7.worker.hawk 1764057600      denied are certificates made until then, in seconds since 1970
 *   signature: BASE64                 of all lines before, ECDSA with SHA-256
 *
 * Each root has a list of its own, and a name is denied that any of them denies. In one text they follow each other;
 * versions of Hawk that know of one list take the first. */
#ifndef HAWK_NET_DENIED_H
#define HAWK_NET_DENIED_H

#include "base/err.h"
#include "net/identity.h"

#include <openssl/x509.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DENIED_HEAD "hawk denied 1\n"
#define DENIED_MAX (1u << 20) /* bytes; a text has fewer */
#define SIGNATURE_KEY "signature: "
#define SIGNATURE_TEXT 256 /* room for one in base64 */

struct denied; /* lists in force, one of each root, in the order of the roots' file; NULL: none */

/* Reads the first list of a text, which one of the roots (PEM) has signed. NULL: why says what is wrong. */
struct denied *denied_read(const char *text, const char *roots, char *why, size_t size);
/* Where the next list of a text begins; NULL: there is none. */
const char *denied_next(const char *text);
/* Puts a list that was just read in force, in place of an earlier one of the same root. 1: done; 0: it is in force
 * already; HAWK_ESTALE: a later one is. It becomes theirs, or is freed. */
int denied_put(struct denied **in_force, struct denied *d);
/* All lists as one text, the caller's to free. */
char *denied_text(const struct denied *d);
void denied_free(struct denied *d); /* NULL is fine */
/* Of the first list. */
uint64_t denied_version(const struct denied *d);
bool denied_has(const struct denied *d, const struct identity *who);

/* Whether the root's key made this signature of the bytes. */
bool signature_good(X509 *root, const char *text, size_t len, const char *base64);

#endif
