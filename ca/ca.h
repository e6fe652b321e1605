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
#include "net/identity.h"

#include <stddef.h>
#include <stdint.h>

#define CA_ROOT_LIFE_US (INT64_C(3650) * 24 * 3600 * US_PER_S)
#define CA_NODE_LIFE_US (INT64_C(14) * 24 * 3600 * US_PER_S)
#define CA_USER_LIFE_US (INT64_C(30) * 24 * 3600 * US_PER_S)
/* Certificates are good from this time before they were made, for clocks that differ. */
#define CA_BACKDATED_US (300 * US_PER_S)

/* Makes both roots in a directory, which it makes as well if it is missing. HAWK_EEXISTS: there is one already;
 * HAWK_EIO. why (size bytes) names the file and what to do. */
HAWK_MUST_USE int ca_init(const char *dir, char *why, size_t size);
/* Makes a key and a certificate, NAME.key and NAME.crt in `out`, good for life_us from now, or as long as
 * the root if that is less. Replaces files of an earlier certificate of the same name and role, each at once.
 * HAWK_EINVALID: a name that no certificate can carry; HAWK_EEXISTS: the files are somebody else's; HAWK_EIO,
 * HAWK_ECORRUPT: the root. */
HAWK_MUST_USE int ca_issue(const char *dir, const struct identity *who, int64_t life_us, const char *out,
                           char *why, size_t size);

#endif
