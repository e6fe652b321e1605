/* What this process has verified of submissions (net/signed.h): users' credentials, each up to a root, and batches,
 * each by its signature. The next submission of a known credential costs the check of one signature, and the next one
 * of a known batch hashes alone. Nothing here says that a user may submit, or is not revoked: that is looked at with
 * each submission. What was added first makes room. No I/O, no clock. */
#ifndef HAWK_NET_VERIFIED_H
#define HAWK_NET_VERIFIED_H

#include "msg/tree.h"
#include "net/identity.h"

#include <openssl/types.h>

enum verified_kind { VERIFIED_CREDENTIAL, VERIFIED_BATCH, VERIFIED_KINDS };
#define VERIFIED_MAX 256u /* of each kind */

/* What a credential and its chain up to a root say. */
struct signer {
    struct identity who;
    char cluster[2 * TREE_HASH + 1]; /* of that root */
    int64_t from_s, until_s;         /* all certificates of the chain hold from then on, and before that */
    EVP_PKEY *key;                   /* the credential's public one */
};

struct verified;

struct verified *verified_new(void);
void verified_free(struct verified *v); /* NULL is fine */
/* Forgets all: it was verified with other roots. */
void verified_forget(struct verified *v);
/* Whose the credential is, or who signed the batch: borrowed until the next call. key: a hash of all that was verified.
 * NULL: it is not there, or the credential does not hold now. */
const struct signer *verified_find(const struct verified *v, enum verified_kind kind,
                                   const uint8_t key[TREE_HASH], int64_t now_s);
/* Adds it, with a reference of its own to the signer's key. */
void verified_add(struct verified *v, enum verified_kind kind, const uint8_t key[TREE_HASH],
                  const struct signer *signer);
/* Counts a credential, or a batch's signature, that was looked at, good or not. */
void verified_count(struct verified *v, enum verified_kind kind);
uint64_t verified_counted(const struct verified *v, enum verified_kind kind);

#endif
