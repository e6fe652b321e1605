/* See receipt.h. */
#include "net/receipt.h"

#include "base/check.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

uint64_t receipt_of(const struct receipt_secret *s, job_id_t job, const char *user)
{
    uint8_t text[sizeof job.v + LIMIT_NAME_BYTES], mac[EVP_MAX_MD_SIZE];
    size_t len = strnlen(user, LIMIT_NAME_BYTES);
    uint64_t receipt;

    if (!receipt_secret_set(s))
        return 0;
    for (unsigned i = 0; i < sizeof job.v; i++)
        text[i] = (uint8_t)(job.v >> 8 * i);
    memcpy(text + sizeof job.v, user, len);
    CHECK(HMAC(EVP_sha256(), s, sizeof *s, text, sizeof job.v + len, mac, NULL));
    memcpy(&receipt, mac, sizeof receipt);
    return receipt ? receipt : 1;
}

bool receipt_good(const struct receipt_secret *v, uint32_t n, uint64_t receipt, job_id_t job,
                  const char *user)
{
    for (uint32_t i = 0; i < n; i++)
        if (receipt && receipt == receipt_of(&v[i], job, user))
            return true;
    return false;
}
