/* Which submission became which job: a worker's memory of the nonces that it has seen (net/signed.h), in a file. A
 * submission that was signed once becomes one job here, whatever a dist says; its tasks may run more than once. */
#ifndef HAWK_STORE_NONCES_H
#define HAWK_STORE_NONCES_H

#include "base/err.h"
#include "base/ids.h"

#include <stddef.h>
#include <stdint.h>

#define NONCE_BYTES 16u

struct nonces;

/* Opens or makes the file. HAWK_EIO: why says what is wrong. */
HAWK_MUST_USE int store_nonces_open(struct nonces **out, const char *path, char *why, size_t size);
/* Notes that the nonce names this job until until_s (now_s: both seconds since 1970); it outlives the process, and not
 * a machine that loses power in the same seconds. HAWK_EEXISTS: it names *other. HAWK_EIO: the file cannot be
 * written. */
HAWK_MUST_USE int store_nonces_use(struct nonces *n, const uint8_t nonce[NONCE_BYTES], job_id_t job,
                                   int64_t until_s, int64_t now_s, job_id_t *other);
/* Whether the file can be written: 0 or HAWK_EIO. */
HAWK_MUST_USE int store_nonces_check(struct nonces *n);
void store_nonces_free(struct nonces *n); /* NULL is fine */

#endif
