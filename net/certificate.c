/* See certificate.h. */
#include "net/certificate.h"

#include "base/units.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Adds the scope that a URI says, if it says one. True: the certificate says which scopes its user has. */
static bool add_scope(const ASN1_STRING *uri, unsigned *scopes)
{
    const char *text = (const char *)ASN1_STRING_get0_data(uri);
    size_t len = (size_t)ASN1_STRING_length(uri), prefix = strlen(IDENTITY_SCOPE);

    if (len < prefix || memcmp(text, IDENTITY_SCOPE, prefix) != 0)
        return false;
    *scopes |= scope_parse(text + prefix, len - prefix);
    return true;
}

static int64_t seconds_of(const ASN1_TIME *t)
{
    struct tm tm;

    return t && ASN1_TIME_to_tm(t, &tm) == 1 ? (int64_t)timegm(&tm) : 0;
}

/* Reads the number behind a prefix. False: the URI is another one. */
static bool read_number(const ASN1_STRING *uri, const char *prefix, uint64_t min, uint32_t *value)
{
    char text[40];
    uint64_t n;

    if ((size_t)ASN1_STRING_length(uri) >= sizeof text)
        return false;
    snprintf(text, sizeof text, "%.*s", ASN1_STRING_length(uri), (const char *)ASN1_STRING_get0_data(uri));
    if (strncmp(text, prefix, strlen(prefix)) != 0 ||
        u64_parse(text + strlen(prefix), min, UINT32_MAX, &n) != 0)
        return false;
    *value = (uint32_t)n;
    return true;
}

/* What the URIs of a certificate say. */
struct claims {
    unsigned scopes;
    uint32_t slots, uid;
    bool scoped, has_uid;
};

static void add_claim(const ASN1_STRING *uri, struct claims *c)
{
    c->scoped |= add_scope(uri, &c->scopes);
    if (!c->slots)
        (void)read_number(uri, IDENTITY_SLOTS, 1, &c->slots);
    if (!c->has_uid)
        c->has_uid = read_number(uri, IDENTITY_UID, 0, &c->uid) && identity_uid_fits(c->uid);
}

bool certificate_names(X509 *certificate, struct identity *who)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    struct claims claims = {0};
    uint8_t key[EVP_MAX_MD_SIZE];
    unsigned found = 0;

    *who = (struct identity){0};
    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        struct identity one;
        if (name->type == GEN_DNS && identity_parse((const char *)ASN1_STRING_get0_data(name->d.dNSName),
                                                    (size_t)ASN1_STRING_length(name->d.dNSName), &one)) {
            *who = one;
            found++;
        }
        if (name->type == GEN_URI)
            add_claim(name->d.uniformResourceIdentifier, &claims);
    }
    GENERAL_NAMES_free(names);
    if (X509_pubkey_digest(certificate, EVP_sha256(), key, NULL) != 1)
        found = 0;
    if (found != 1)
        *who = (struct identity){0};
    if (found == 1 && who->role == ROLE_NONE) {
        if (claims.scoped)
            who->scopes = claims.scopes;
        who->has_uid = claims.has_uid;
        who->uid = claims.uid;
    }
    if (who->role == ROLE_WORKER)
        who->slots = claims.slots;
    if (found == 1) {
        who->made_s = seconds_of(X509_get0_notBefore(certificate)) + CERTIFICATE_BACKDATED_S;
        who->until_s = seconds_of(X509_get0_notAfter(certificate));
        memcpy(who->key, key, sizeof who->key);
    }
    return found == 1;
}

bool certificate_add_roots(X509_STORE *store, const char *text)
{
    BIO *in = BIO_new_mem_buf(text, -1);
    unsigned n = 0;
    X509 *root;

    while ((root = PEM_read_bio_X509(in, NULL, NULL, NULL))) {
        n += X509_STORE_add_cert(store, root) == 1;
        X509_free(root);
    }
    BIO_free(in);
    return n > 0;
}
