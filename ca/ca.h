/* The two roots of a cluster, and the certificates that they sign.
 *
 *   DIR/nodes/root.crt, root.key   the node root: signs certificates of centrals, dists and workers
 *   DIR/users/root.crt, root.key   the user root: signs those of users
 *   DIR/roots.crt                  both certificates, for every machine (tls.roots)
 *
 * Each root's certificate limits the names that it may sign (name constraints), and every TLS library checks
 * that: whoever has the node root's key can make no user. The folders can lie on different machines; issuing
 * needs only the one of the role. Keys are P-256. */
#ifndef HAWK_CA_CA_H
#define HAWK_CA_CA_H

#include "base/err.h"
#include "base/units.h"
#include "net/certificate.h"
#include "net/denied.h"
#include "net/identity.h"

#include <openssl/x509.h>
#include <stddef.h>
#include <stdint.h>

#define CA_DIR "/etc/hawk/ca" /* unless another is named */
#define CA_DENIED "denied"
#define CA_ROOTS "roots.crt"
#define CA_ROOT_LIFE_US (INT64_C(3650) * 24 * 3600 * US_PER_S)
#define CA_NODE_LIFE_US (INT64_C(14) * 24 * 3600 * US_PER_S)
#define CA_USER_LIFE_US (INT64_C(30) * 24 * 3600 * US_PER_S)
/* Certificates are good from this time before they were made, for clocks that differ. */
#define CA_BACKDATED_US (CERTIFICATE_BACKDATED_S * US_PER_S)

/* Makes both roots in a directory, which it makes as well if it is missing. HAWK_EEXISTS: a file of a root is there
 * already; HAWK_EIO. why (size bytes) names the file and what to do. */
HAWK_MUST_USE int ca_init(const char *dir, char *why, size_t size);
/* Makes a key and a certificate, NAME.key and NAME.crt in `out`, good for life_us from now, or as long as
 * the root if that is less. Replaces files of an earlier certificate of the same name and role, each at once.
 * HAWK_EINVALID: a name that no certificate can carry; HAWK_EEXISTS: the files are somebody else's; HAWK_EIO,
 * HAWK_ECORRUPT: the root. */
HAWK_MUST_USE int ca_issue(const char *dir, const struct identity *who, int64_t life_us, const char *out,
                           char *why, size_t size);

/* Adds a node or user to DIR/denied (net/denied.h), a new version of the list: its certificates made until now are
 * good no more. Signs with the node root, or a user with the user root where that is alone. *version: the list's.
 * Errors as for ca_issue; HAWK_ECORRUPT: the list that is there is none of the roots'; HAWK_ETOO_LARGE: it has no room
 * for another name. */
HAWK_MUST_USE int ca_revoke(const char *dir, const struct identity *who, uint64_t *version, char *why,
                            size_t size);

/* A root of a directory, which stays open: that of a role's certificates; ROLE_NONE: the user root. HAWK_EIO,
 * HAWK_ECORRUPT. */
struct ca_root;
HAWK_MUST_USE int ca_root_open(struct ca_root **out, const char *dir, enum role role, char *why, size_t size);
void ca_root_free(struct ca_root *r); /* NULL is fine */
X509 *ca_root_certificate(const struct ca_root *r);
/* Makes a key, and a certificate for it. The texts (PEM) are the caller's to free, the key's after OPENSSL_cleanse.
 * HAWK_EINVALID: no certificate can carry the name. */
HAWK_MUST_USE int ca_make_pair(const struct ca_root *r, const struct identity *who, int64_t life_us,
                               char **certificate, char **key);
/* Signs a text; base64 gets a signature that net/denied.h's signature_good takes. */
void ca_sign_text(const struct ca_root *r, const char *text, char base64[SIGNATURE_TEXT]);
/* Whether a request is good, and for the key of that certificate. */
bool ca_request_is_of(const uint8_t *der, size_t len, const struct identity *who);
/* Makes a certificate for the key of a request (PKCS #10, DER), whose own names do not matter. The request must
 * show that its sender has the key. *pem is the caller's to free; *number is the key's (of its hash).
 * HAWK_EINVALID: the request is not good, or no certificate can carry the name. */
#define CA_REQUEST_MAX 4096u
HAWK_MUST_USE int ca_sign_request(const struct ca_root *r, const struct identity *who, const uint8_t *der,
                                  size_t len, int64_t life_us, char **pem, uint64_t *number);

#endif
