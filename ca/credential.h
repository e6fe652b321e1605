/* A user's credential: his certificate, its key, the roots, and where the cluster is. As one text it travels from where
 * the user root is to the user, who takes it with `hawk login`. Whoever has the text is that user.
 *
 *   hawk credential 1
 *   dist: 10.0.0.1:7071          may be empty
 *   -----BEGIN CERTIFICATE-----  the user's
 *   -----BEGIN PRIVATE KEY-----
 *   -----BEGIN CERTIFICATE-----  the roots' */
#ifndef HAWK_CA_CREDENTIAL_H
#define HAWK_CA_CREDENTIAL_H

#include "base/account.h"
#include "base/err.h"
#include "ca/ca.h"
#include "net/identity.h"
#include "net/login.h"

#define CREDENTIAL_MAX (64 * 1024u) /* bytes of the text */
#define CREDENTIAL_ROOTS_MAX (54 * 1024u)

struct credential {
    char *certificate, *key, *roots, *dist; /* texts; NULL: not yet */
    struct identity who;                    /* as the certificate says */
};

/* Makes a new key and its certificate; `roots` (PEM, at most CREDENTIAL_ROOTS_MAX bytes) and `dist` (less than
 * LOGIN_DIST_MAX) are copied. HAWK_EINVALID: no certificate can carry
 * the name. */
HAWK_MUST_USE int credential_make(struct credential *c, const struct ca_root *users,
                                  const struct identity *who, int64_t life_us, const char *roots,
                                  const char *dist);
/* The text, the caller's to free after OPENSSL_cleanse. */
char *credential_write(const struct credential *c);
/* Reads a text. Free *c with credential_free, also after an error. HAWK_EINVALID: why says what is wrong, as that
 * the roots have not signed the certificate, or the key is another's. */
HAWK_MUST_USE int credential_read(struct credential *c, const char *text, char *why, size_t size);
/* Puts the files of net/login.h into a directory, which it makes. HAWK_EIO. */
HAWK_MUST_USE int credential_install(const struct credential *c, const char *dir, char *why, size_t size);
/* The same as that user, into his home: a directory of his may lead anywhere. */
HAWK_MUST_USE int credential_install_as(const struct credential *c, const struct account *user,
                                        char dir[PATH_MAX], char *why, size_t size);
void credential_free(struct credential *c);

#endif
