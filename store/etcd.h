/* A client of etcd (its gRPC API, version 3) that waits for answers: for threads that may. One thread uses it at a time. */
#ifndef HAWK_STORE_ETCD_H
#define HAWK_STORE_ETCD_H

#include "base/err.h"
#include "net/codec.h"

#include <stdbool.h>
#include <stdint.h>

/* What etcd takes in one transaction unless told otherwise: 128 operations (--max-txn-ops), 1.5 MiB
 * (--max-request-bytes). Ours leave some room. */
#define ETCD_TXN_OPS 120
#define ETCD_TXN_BYTES (1200u << 10)
#define ETCD_KEY_MAX 512

struct etcd;

/* Nothing is connected yet. endpoints: comma separated addresses, copied. */
struct etcd *etcd_new(const char *endpoints);
void etcd_free(struct etcd *e); /* NULL is fine */
/* From any thread: what waits for an answer fails at once, and so does everything later. */
void etcd_interrupt(struct etcd *e);
/* What went wrong in the last call that failed, with the endpoint's address. */
const char *etcd_why(const struct etcd *e);

/* Every call asks one endpoint after the other, each for at most timeout_us, until one answers. Errors: HAWK_EUNAVAILABLE
 * (nobody answers: a change may have been made all the same), HAWK_EMALFORMED, HAWK_ECANCELLED (interrupted), or what
 * etcd said. */

struct etcd_kv {
    struct span key, value;
    int64_t create_revision, mod_revision, lease;
};
struct etcd_range {
    const char *from, *to; /* [from, to); to NULL: from alone */
    int64_t limit;         /* 0: none */
    int64_t revision;      /* the keys as of then; 0: now */
    bool keys_only;
    /* Called with each, borrowed, in order; what it returns that is not 0 ends the call. */
    int (*fn)(void *arg, const struct etcd_kv *kv);
    void *arg;
    /* Filled in. */
    bool more; /* there are more than limit */
    int64_t seen_revision;
};
HAWK_MUST_USE int etcd_range(struct etcd *e, struct etcd_range *r, int64_t timeout_us);

/* A transaction: operations that are done together, if every comparison holds. Starts zeroed. No key may be put twice, or put
 * and deleted. */
struct etcd_txn {
    struct codec_buf compares, ops;
    unsigned n_ops;
};
void etcd_txn_free(struct etcd_txn *t);
void etcd_txn_clear(struct etcd_txn *t);
/* The key was created at that revision (0: there is none), or changed last at it. */
void etcd_txn_if_created(struct etcd_txn *t, const char *key, int64_t revision);
void etcd_txn_if_changed(struct etcd_txn *t, const char *key, int64_t revision);
void etcd_txn_put(struct etcd_txn *t, const char *key, struct span value, int64_t lease);
void etcd_txn_delete(struct etcd_txn *t, const char *from, const char *to);
/* *done: the comparisons held. *revision: of the store after it. */
HAWK_MUST_USE int etcd_txn_run(struct etcd *e, const struct etcd_txn *t, int64_t timeout_us, bool *done,
                               int64_t *revision);

/* Forgets, of all keys of this etcd, what they were before that revision: nobody can read it any more. 0 as well where a later
 * revision's was forgotten already. Does not wait until etcd has freed the space: that is a walk over everything it holds,
 * and what waits here is the thread that commits. */
HAWK_MUST_USE int etcd_compact(struct etcd *e, int64_t revision, int64_t timeout_us);

/* Whole seconds, as etcd counts; it may grant more than was asked for. */
HAWK_MUST_USE int etcd_lease_grant(struct etcd *e, int64_t ttl_s, int64_t timeout_us, int64_t *id,
                                   int64_t *granted_s);
/* *left_s 0: the lease is over. */
HAWK_MUST_USE int etcd_lease_keep(struct etcd *e, int64_t id, int64_t timeout_us, int64_t *left_s);
HAWK_MUST_USE int etcd_lease_revoke(struct etcd *e, int64_t id, int64_t timeout_us);

#endif
