/* Certificates that are good no more although they have not expired: a list that a root has signed, with a version that
 * grows. What it says of a name holds for the certificates made before; a node that is invited anew comes in.
 *
 *   hawk denied 1
 *   version: 7
 *   node7.worker.hawk 1764057600      denied are certificates made until then, in seconds since 1970
 *   signature: BASE64                 of all lines before, ECDSA with SHA-256 */
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

struct denied;

/* Reads a list that one of the roots (PEM) has signed. NULL: why says what is wrong. */
struct denied *denied_read(const char *text, const char *roots, char *why, size_t size);
void denied_free(struct denied *d); /* NULL is fine */
uint64_t denied_version(const struct denied *d);
bool denied_has(const struct denied *d, const struct identity *who);

/* Whether the root's key made this signature of the bytes. */
bool signature_good(X509 *root, const char *text, size_t len, const char *base64);

#endif
