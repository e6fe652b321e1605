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
    uint8_t signer[EVP_MAX_MD_SIZE]; /* hash of the root's key */
    unsigned order;                  /* the root's place among the roots */
    char *text;
    struct denied_name *names;
    struct denied *next; /* of another root */
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

/* Whether one of the roots has signed it, and which. */
static bool find_signer(struct denied *d, const char *roots, const char *text, size_t len, const char *base64)
{
    BIO *in = BIO_new_mem_buf(roots, -1);
    bool good = false;
    X509 *root;

    for (d->order = 0; !good && (root = PEM_read_bio_X509(in, NULL, NULL, NULL)); d->order++) {
        good = signature_good(root, text, len, base64) &&
               X509_pubkey_digest(root, EVP_sha256(), d->signer, NULL) == 1;
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
    char number[24], text[IDENTITY_TEXT];
    uint64_t until_s;
    struct identity who;
    struct denied_name *n = NULL;
    size_t name = blank ? (size_t)(blank - line) : 0, rest = blank ? len - name - 1 : 0;

    if (!blank || rest >= sizeof number || !identity_parse(line, name, &who))
        return false;
    snprintf(number, sizeof number, "%.*s", (int)rest, blank + 1);
    if (u64_parse(number, 0, INT64_MAX, &until_s) != 0)
        return false;
    identity_text(&who, text);
    if (d->names)
        HASH_FIND_STR(d->names, text, n);
    if (!n) {
        n = xcalloc(1, sizeof *n);
        memcpy(n->text, text, sizeof text);
        HASH_ADD_STR(d->names, text, n);
    }
    if (n->until_s < (int64_t)until_s)
        n->until_s = (int64_t)until_s;
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

/* The line of the first list's signature, and the length of the list with it. NULL: there is none. */
static const char *find_signature(const char *text, size_t *len)
{
    const char *line = strstr(text, "\n" SIGNATURE_KEY);

    if (!line)
        return NULL;
    line++;
    *len = (size_t)(line - text) + strcspn(line, "\n");
    *len += text[*len] == '\n';
    return line;
}

const char *denied_next(const char *text)
{
    size_t len;

    return find_signature(text, &len) && text[len] ? text + len : NULL;
}

struct denied *denied_read(const char *text, const char *roots, char *why, size_t size)
{
    struct denied *d = xcalloc(1, sizeof *d);
    char base64[SIGNATURE_TEXT] = "";
    size_t all = 0, len;
    const char *end = find_signature(text, &all);

    if (end && all < DENIED_MAX) {
        len = strcspn(end, "\n") - strlen(SIGNATURE_KEY);
        if (len < sizeof base64)
            snprintf(base64, sizeof base64, "%.*s", (int)len, end + strlen(SIGNATURE_KEY));
    }
    if (!*base64 || !find_signer(d, roots, text, (size_t)(end - text), base64))
        snprintf(why, size, "it is no list that one of the roots has signed");
    else if (!read_list(d, text, end - 1))
        snprintf(why, size, "it is signed, but cannot be read: this hawk may be too old");
    else {
        d->text = xmemdup0(text, all);
        return d;
    }
    denied_free(d);
    return NULL;
}

int denied_put(struct denied **in_force, struct denied *d)
{
    struct denied **at = in_force, *old;
    int got;

    while (*at && memcmp((*at)->signer, d->signer, sizeof d->signer) != 0)
        at = &(*at)->next;
    old = *at;
    got = !old || old->version < d->version ? 1 : old->version == d->version ? 0 : HAWK_ESTALE;
    if (got != 1) {
        denied_free(d);
        return got;
    }
    if (old) {
        *at = old->next;
        old->next = NULL;
        denied_free(old);
    }
    for (at = in_force; *at && (*at)->order <= d->order; at = &(*at)->next)
        ;
    d->next = *at;
    *at = d;
    return 1;
}

char *denied_text(const struct denied *d)
{
    size_t room = 1, len = 0;
    char *all;

    for (const struct denied *at = d; at; at = at->next)
        room += strlen(at->text) + 1;
    all = xcalloc(1, room);
    for (; d; d = d->next) {
        size_t n = strlen(d->text);
        memcpy(all + len, d->text, n);
        len += n;
        if (n > 0 && all[len - 1] != '\n')
            all[len++] = '\n';
    }
    return all;
}

static void free_one(struct denied *d)
{
    struct denied_name *n, *tmp;

    HASH_ITER(hh, d->names, n, tmp) {
        HASH_DEL(d->names, n); /* NOLINT(clang-analyzer-core.NullDereference): inside uthash */
        free(n);
    }
    free(d->text);
    free(d);
}

void denied_free(struct denied *d)
{
    for (struct denied *next; d; d = next) {
        next = d->next;
        free_one(d);
    }
}

uint64_t denied_version(const struct denied *d) { return d->version; }

bool denied_has(const struct denied *d, const struct identity *who)
{
    char text[IDENTITY_TEXT];
    struct denied_name *n;

    identity_text(who, text);
    for (; d; d = d->next) {
        n = NULL;
        if (d->names)
            HASH_FIND_STR(d->names, text, n);
        if (n && who->made_s <= n->until_s)
            return true;
    }
    return false;
}
