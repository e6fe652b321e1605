/* See denied.h. */
#include "net/denied.h"

#include "base/mem.h"
#include "base/units.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

struct denied_name {
    char text[IDENTITY_TEXT];
    int64_t until_s;
    UT_hash_handle hh;
};

struct denied {
    uint64_t version;
    struct denied_name *names;
};

bool signature_good(X509 *root, const char *text, size_t len, const char *base64)
{
    uint8_t signature[SIGNATURE_TEXT], again[SIGNATURE_TEXT + 4];
    size_t n = strlen(base64), padding = 0;
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    EVP_PKEY *key = X509_get0_pubkey(root);
    int got = n > 0 && n % 4 == 0 && n < sizeof signature
                  ? EVP_DecodeBlock(signature, (const uint8_t *)base64, (int)n)
                  : -1;
    bool good;

    for (; padding < 2 && padding < n && base64[n - 1 - padding] == '='; padding++)
        ;
    /* The bits that base64 leaves over must be 0: one signature has one text. */
    good = ctx && key && got > (int)padding &&
           EVP_EncodeBlock(again, signature, got - (int)padding) == (int)n && memcmp(again, base64, n) == 0 &&
           EVP_DigestVerifyInit(ctx, NULL, EVP_sha256(), NULL, key) == 1 &&
           EVP_DigestVerify(ctx, signature, (size_t)got - padding, (const uint8_t *)text, len) == 1;
    EVP_MD_CTX_free(ctx);
    ERR_clear_error();
    return good;
}

/* Whether one of the roots has signed it. */
static bool signed_by_any(const char *roots, const char *text, size_t len, const char *base64)
{
    BIO *in = BIO_new_mem_buf(roots, -1);
    bool good = false;
    X509 *root;

    while (!good && (root = PEM_read_bio_X509(in, NULL, NULL, NULL))) {
        good = signature_good(root, text, len, base64);
        X509_free(root);
    }
    BIO_free(in);
    ERR_clear_error();
    return good;
}

/* "NAME SECONDS", without the line's end. */
static bool add_line(struct denied *d, const char *line, size_t len)
{
    const char *blank = memchr(line, ' ', len);
    char number[24];
    uint64_t until_s;
    struct identity who;
    struct denied_name *n;
    size_t name = blank ? (size_t)(blank - line) : 0, rest = blank ? len - name - 1 : 0;

    if (!blank || rest >= sizeof number || !identity_parse(line, name, &who))
        return false;
    snprintf(number, sizeof number, "%.*s", (int)rest, blank + 1);
    if (u64_parse(number, 0, INT64_MAX, &until_s) != 0)
        return false;
    n = xcalloc(1, sizeof *n);
    identity_text(&who, n->text);
    n->until_s = (int64_t)until_s;
    HASH_ADD_STR(d->names, text, n);
    return true;
}

static bool read_list(struct denied *d, const char *at, const char *end)
{
    char number[24];
    size_t len;

    if (strncmp(at, DENIED_HEAD "version: ", strlen(DENIED_HEAD "version: ")) != 0)
        return false;
    at += strlen(DENIED_HEAD "version: ");
    len = strcspn(at, "\n");
    if (len >= sizeof number)
        return false;
    snprintf(number, sizeof number, "%.*s", (int)len, at);
    if (u64_parse(number, 1, UINT64_MAX, &d->version) != 0)
        return false;
    for (at += len + 1; at < end; at += len + 1) {
        len = strcspn(at, "\n");
        if (!add_line(d, at, len))
            return false;
    }
    return true;
}

struct denied *denied_read(const char *text, const char *roots, char *why, size_t size)
{
    struct denied *d = xcalloc(1, sizeof *d);
    const char *end = strlen(text) < DENIED_MAX ? strstr(text, "\n" SIGNATURE_KEY) : NULL;
    char base64[SIGNATURE_TEXT] = "";
    size_t len = end ? strcspn(end + 1, "\n") - strlen(SIGNATURE_KEY) : 0;

    if (end && len < sizeof base64)
        snprintf(base64, sizeof base64, "%.*s", (int)len, end + 1 + strlen(SIGNATURE_KEY));
    if (!end || !signed_by_any(roots, text, (size_t)(end + 1 - text), base64))
        snprintf(why, size, "it is no list that one of the roots has signed");
    else if (!read_list(d, text, end))
        snprintf(why, size, "it is signed, but cannot be read: this hawk may be too old");
    else
        return d;
    denied_free(d);
    return NULL;
}

void denied_free(struct denied *d)
{
    struct denied_name *n, *tmp;

    if (!d)
        return;
    HASH_ITER(hh, d->names, n, tmp) {
        HASH_DEL(d->names, n); /* NOLINT(clang-analyzer-core.NullDereference): inside uthash */
        free(n);
    }
    free(d);
}

uint64_t denied_version(const struct denied *d) { return d->version; }

bool denied_has(const struct denied *d, const struct identity *who)
{
    char text[IDENTITY_TEXT];
    struct denied_name *n;

    if (!d->names)
        return false;
    identity_text(who, text);
    HASH_FIND_STR(d->names, text, n);
    return n && who->made_s <= n->until_s;
}
