/* Who made or revoked certificates: a file beside the roots, since these commands ask no daemon. */
#ifndef HAWK_CA_AUDIT_H
#define HAWK_CA_AUDIT_H

#include "net/identity.h"

#define CA_AUDIT "audit.log"

/* Appends a line to the file in `dir`: when, who (getuid(), and who called sudo), what. A file that cannot be written
 * is a warning: what was done stays done. */
void ca_audit(const char *dir, const char *fmt, ...) HAWK_PRINTF(2, 3);
/* Whether the file says that `hawk ca` issued a certificate for a name, or an invitation that fits it. HAWK_EIO: the
 * file is not there, or cannot be read to its end. */
HAWK_MUST_USE int ca_audit_names(const char *dir, const struct identity *who, bool *named);

#endif
