/* See pem.h. */
#include "ca/pem.h"

#include "base/check.h"
#include "base/mem.h"
#include "ca/file.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdlib.h>
#include <string.h>

char *pem_of(X509 *const *certificates, unsigned n)
{
    BIO *to = BIO_new(BIO_s_mem());
    char *data, *text;

    CHECK(to);
    for (unsigned i = 0; i < n; i++)
        CHECK(PEM_write_bio_X509(to, certificates[i]) == 1);
    long len = BIO_get_mem_data(to, &data);
    text = xmemdup0(data, (size_t)len);
    BIO_free(to);
    return text;
}

X509 *pem_first(const char *text)
{
    BIO *in = BIO_new_mem_buf(text, -1);
    X509 *certificate = PEM_read_bio_X509(in, NULL, NULL, NULL);

    BIO_free(in);
    ERR_clear_error();
    return certificate;
}

char *pem_of_key(EVP_PKEY *key)
{
    BIO *to = BIO_new(BIO_s_mem());
    char *data, *text;

    CHECK(to && PEM_write_bio_PrivateKey(to, key, NULL, NULL, 0, NULL, NULL) == 1);
    long len = BIO_get_mem_data(to, &data);
    text = xmemdup0(data, (size_t)len);
    OPENSSL_cleanse(data, (size_t)len);
    BIO_free(to);
    return text;
}

EVP_PKEY *pem_first_key(const char *text)
{
    BIO *in = BIO_new_mem_buf(text, -1);
    EVP_PKEY *key = PEM_read_bio_PrivateKey(in, NULL, NULL, (void *)(uintptr_t) "");

    BIO_free(in);
    ERR_clear_error();
    return key;
}

int pem_write_key(const char *path, EVP_PKEY *key, char *why, size_t size)
{
    char *text = pem_of_key(key);
    int err = ca_write(path, 0600, text, strlen(text), why, size);

    OPENSSL_cleanse(text, strlen(text));
    free(text);
    return err;
}
