/* What certificates say. */
#ifndef HAWK_NET_CERTIFICATE_H
#define HAWK_NET_CERTIFICATE_H

#include "net/identity.h"

#include <openssl/x509.h>
#include <stdbool.h>

/* They are good from this time before they were made, for clocks that differ. */
#define CERTIFICATE_BACKDATED_S 300
#define CERTIFICATE_FILE_MAX (1u << 20) /* bytes of a file of them, or of a key */

/* Adds the certificates of a PEM text. False: there is none that can be added. */
bool certificate_add_roots(X509_STORE *store, const char *text);

/* Reads whom a certificate is for, and how long it is good. False: nobody, or more than one. */
bool certificate_names(X509 *certificate, struct identity *who);

#endif
