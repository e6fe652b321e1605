/* Certificates and keys as PEM texts. Private to ca/. */
#ifndef HAWK_CA_PEM_H
#define HAWK_CA_PEM_H

#include "base/err.h"

#include <openssl/x509.h>
#include <stddef.h>

/* The text of n certificates, the caller's to free. */
char *pem_of(X509 *const *certificates, unsigned n);
/* The first certificate of a text, the caller's to free; NULL: there is none. */
X509 *pem_first(const char *text);
/* The text of a key, the caller's to free after OPENSSL_cleanse. */
char *pem_of_key(EVP_PKEY *key);
/* The first key of a text, the caller's to free; NULL: there is none. */
EVP_PKEY *pem_first_key(const char *text);
/* Writes a file that only its owner can read (ca/file.h). HAWK_EIO. */
HAWK_MUST_USE int pem_write_key(const char *path, EVP_PKEY *key, char *why, size_t size);

#endif
