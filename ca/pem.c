/* See pem.h. */
#include "ca/pem.h"

#include "base/check.h"
#include "base/mem.h"
#include "ca/file.h"

#include <openssl/err.h>
#include <openssl/pem.h>

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

int pem_write_key(const char *path, EVP_PKEY *key, char *why, size_t size)
{
    BIO *to = BIO_new(BIO_s_mem());
    char *data;
    int err;

    CHECK(to && PEM_write_bio_PrivateKey(to, key, NULL, NULL, 0, NULL, NULL) == 1);
    long len = BIO_get_mem_data(to, &data);
    err = ca_write(path, 0600, data, (size_t)len, why, size);
    OPENSSL_cleanse(data, (size_t)len);
    BIO_free(to);
    return err;
}
