/* The batches of submissions whose signature this process has verified (net/signed.h), and who signed each: the next
 * submission of a batch costs hashes alone. Nothing here says that a user may submit, or is not revoked: that is looked
 * at with each submission. The batch that was added first makes room for a new one. No I/O, no clock. */
#ifndef HAWK_NET_BATCHES_H
#define HAWK_NET_BATCHES_H

#include "msg/tree.h"
#include "net/identity.h"

#define BATCHES_MAX 256u

/* What a credential and its chain up to a root say. */
struct signer {
    struct identity who;
    char cluster[2 * TREE_HASH + 1]; /* of that root */
    int64_t from_s, until_s;         /* all certificates of the chain hold from then on, and before that */
};

struct batches;

struct batches *batches_new(void);
void batches_free(struct batches *b); /* NULL is fine */
/* Forgets all: they were verified with other roots. */
void batches_forget(struct batches *b);
/* Who signed the batch with this key, a hash of all that was verified: borrowed until the next call. NULL: it is not
 * there, or his credential does not hold now. */
const struct signer *batches_find(const struct batches *b, const uint8_t key[TREE_HASH], int64_t now_s);
void batches_add(struct batches *b, const uint8_t key[TREE_HASH], const struct signer *signer);
/* Counts a signature that was verified, good or not. */
void batches_count(struct batches *b);
uint64_t batches_counted(const struct batches *b);

#endif
