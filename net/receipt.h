/* Receipts of job ids. A client that moves a job names its id (docs/protocol.md 9), and ids are given out in order:
 * without a receipt a user could take those that another dist gives out next. Dists share the secret, which they have
 * from central. */
#ifndef HAWK_NET_RECEIPT_H
#define HAWK_NET_RECEIPT_H

#include "base/ids.h"
#include "msg/types.h"

/* That a dist gave this id to this user. 0: the secret makes none. */
uint64_t receipt_of(const struct receipt_secret *s, job_id_t job, const char *user);
/* Whether it is one of n secrets. */
bool receipt_good(const struct receipt_secret *v, uint32_t n, uint64_t receipt, job_id_t job,
                  const char *user);

#endif
