/* See kept.h. */
#include "ca/kept.h"

#include "base/check.h"
#include "base/io.h"
#include "base/mem.h"
#include "ca/file.h"
#include "ca/pem.h"
#include "net/certificate.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Texts ---- */

int kept_put(const char *dir, const char *name, const char *text, char *why, size_t size)
{
    char path[PATH_MAX];

    if (!ca_path(path, dir, name, why, size))
        return HAWK_EIO;
    return ca_write(path, 0600, text, strlen(text), why, size);
}

char *kept_get(const char *dir, const char *name)
{
    char path[PATH_MAX], why[PATH_MAX + 100], *text = NULL;

    if (ca_path(path, dir, name, why, sizeof why) && ca_read(path, &text, why, sizeof why) != 0)
        text = NULL;
    return text ? text : xstrdup("");
}

/* ---- The key ---- */

static int open_key(const char *dir, EVP_PKEY **key, char *why, size_t size)
{
    char path[PATH_MAX], *text;
    int err;

    *key = NULL;
    if (!ca_path(path, dir, KEPT_KEY, why, size))
        return HAWK_EIO;
    if ((err = dir_make(dir, 0700, why, size)))
        return err;
    err = ca_read(path, &text, why, size);
    if (err == HAWK_ENOT_FOUND) {
        *key = EVP_EC_gen("P-256");
        CHECK(*key);
        return pem_write_key(path, *key, why, size);
    }
    if (err)
        return err;
    *key = pem_first_key(text);
    OPENSSL_cleanse(text, strlen(text));
    free(text);
    return *key ? 0
                : ca_complain(why, size, HAWK_ECORRUPT, path,
                              "it is no key: remove it, and a new one is made");
}

int kept_request(const char *dir, uint8_t **der, size_t *len, char *why, size_t size)
{
    EVP_PKEY *key;
    X509_REQ *request;
    int err = open_key(dir, &key, why, size), n;

    if (!err) {
        *der = NULL;
        request = X509_REQ_new();
        CHECK(request && X509_REQ_set_version(request, X509_REQ_VERSION_1) == 1 &&
              X509_REQ_set_pubkey(request, key) == 1 && X509_REQ_sign(request, key, EVP_sha256()) > 0);
        unsigned char *bytes = NULL;
        n = i2d_X509_REQ(request, &bytes);
        CHECK(n > 0);
        *der = xmalloc((size_t)n);
        memcpy(*der, bytes, (size_t)n);
        *len = (size_t)n;
        OPENSSL_free(bytes);
        X509_REQ_free(request);
    }
    EVP_PKEY_free(key);
    return err;
}

/* ---- The certificate ---- */

int kept_take(const char *dir, const struct identity *who, const char *pem, char *why, size_t size)
{
    X509 *certificate = pem_first(pem);
    EVP_PKEY *key = NULL;
    struct identity other = {0};
    int err = open_key(dir, &key, why, size);

    if (!err && (!certificate || !certificate_names(certificate, &other) || other.role != who->role ||
                 strcmp(other.name, who->name) != 0 || X509_check_private_key(certificate, key) != 1))
        err = ca_complain(why, size, HAWK_EINVALID, who->name,
                          "central's answer is no certificate for it and its key");
    ERR_clear_error();
    X509_free(certificate);
    EVP_PKEY_free(key);
    return err ? err : kept_put(dir, KEPT_CERTIFICATE, pem, why, size);
}

bool kept_look(const char *dir, struct identity *who)
{
    char *pem = kept_get(dir, KEPT_CERTIFICATE);
    X509 *certificate = pem_first(pem);
    bool good = certificate && certificate_names(certificate, who);

    X509_free(certificate);
    free(pem);
    return good;
}
