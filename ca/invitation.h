/* An invitation: a short text by which somebody becomes a node of the cluster. It names central, holds the roots'
 * certificates, so that whoever is invited knows central by them, and says what central may answer with. The node root
 * has signed it. Whoever has the text can use it: it is a secret.
 *
 *   hawk invitation 1
 *   role: worker                  or dist
 *   name: node7                   or a pattern with one *: hpc-*
 *   central: 10.0.0.1:7070        empty: whoever is invited knows it
 *   uses: 1
 *   slots: 64                     a worker may have no more; 0: any number
 *   until: 2026-11-25T08:00:00Z
 *   id: 5f1d0c6a11e29b37
 *   -----BEGIN CERTIFICATE-----   the node root's, then the user root's
 *   signature: BASE64             of all lines before, ECDSA with SHA-256 */
#ifndef HAWK_CA_INVITATION_H
#define HAWK_CA_INVITATION_H

#include "base/err.h"
#include "ca/ca.h"
#include "net/addr.h"
#include "net/identity.h"

#include <stdbool.h>

#define INVITATION_MAX 16384u /* bytes of the text */
#define INVITATION_ROOTS_MAX (13 * 1024u)
#define INVITATION_USES_MAX 100000u
#define INVITATION_LIFE_MAX_US (INT64_C(30) * 24 * 3600 * US_PER_S)

struct invitation {
    enum role role;
    char name[LIMIT_NAME_BYTES + 1];
    char central[4 * ADDR_TEXT];
    uint32_t uses, slots;
    int64_t until_s; /* since 1970 */
    uint64_t id;
    char *roots; /* PEM, at most INVITATION_ROOTS_MAX bytes */
};

/* Makes the text, the caller's to free; v->roots is read. */
char *invitation_write(const struct invitation *v, const struct ca_root *r);
/* Reads a text whose signature is the node root's: that of `root`, or of the first certificate in it where root
 * is NULL. Free *v with invitation_free, also after an error. HAWK_EINVALID: why says what is wrong. */
HAWK_MUST_USE int invitation_read(struct invitation *v, const char *text, X509 *root, char *why, size_t size);
void invitation_free(struct invitation *v);
/* Whether the name is the invitation's, or fits its pattern and can be a node's. */
bool invitation_fits(const struct invitation *v, const char *name);
/* A number of the invitation, a name that fits it and a key (ca_sign_request's). */
uint64_t invitation_use(const struct invitation *v, const char *name, uint64_t key);
/* Whether a pattern is good: a name, or one with one * in place of some of its letters. */
bool invitation_pattern_good(const char *name);
static inline bool invitation_has_pattern(const struct invitation *v)
{
    for (const char *at = v->name; *at; at++)
        if (*at == '*')
            return true;
    return false;
}

#endif
