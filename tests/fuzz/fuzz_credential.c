/* What `hawk login` takes, and what a peer shows: a credential that is taken is a user's, its key is its certificate's,
 * and it reads back as the same; a certificate is for nobody, or for one whose name fits. */
#include "base/check.h"
#include "base/mem.h"
#include "ca/credential.h"
#include "tests/fuzz/lib/input.h"

#include <openssl/err.h>
#include <openssl/x509.h>
#include <stdlib.h>
#include <string.h>

static void check_credential(const uint8_t *data, size_t size)
{
    char *text = xmemdup0((const char *)data, size), why[400], *written;
    struct credential c, again;

    if (credential_read(&c, text, why, sizeof why) == 0) {
        CHECK(c.who.role == ROLE_NONE && identity_name_fits(c.who.name) && c.who.slots == 0);
        CHECK(!c.who.has_uid || identity_uid_fits(c.who.uid));
        CHECK(!strchr(c.dist, '\n') && strlen(c.dist) < LOGIN_DIST_MAX);
        written = credential_write(&c);
        CHECK(credential_read(&again, written, why, sizeof why) == 0);
        CHECK(strcmp(again.key, c.key) == 0 && strcmp(again.certificate, c.certificate) == 0 &&
              strcmp(again.who.name, c.who.name) == 0 && again.who.scopes == c.who.scopes);
        credential_free(&again);
        free(written);
    } else {
        CHECK(*why);
    }
    credential_free(&c);
    free(text);
}

static void check_certificate(const uint8_t *data, size_t size)
{
    const unsigned char *at = data;
    X509 *certificate = d2i_X509(NULL, &at, (long)size);
    struct identity who;

    if (certificate && certificate_names(certificate, &who)) {
        CHECK(identity_name_fits(who.name));
        CHECK(who.role == ROLE_NONE || (who.scopes == SCOPE_NONE && !who.has_uid));
        CHECK(who.role == ROLE_WORKER || who.slots == 0);
        CHECK(!who.has_uid || identity_uid_fits(who.uid));
    } else if (certificate) {
        CHECK(!identity_is_set(&who));
    }
    X509_free(certificate);
    ERR_clear_error();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_credential(data, size);
    check_certificate(data, size);
    return 0;
}
