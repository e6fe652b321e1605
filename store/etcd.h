/* A client of etcd (its gRPC API, version 3). Its calls block, so only threads that may wait use it; one
 * thread at a time. */
#ifndef HAWK_STORE_ETCD_H
#define HAWK_STORE_ETCD_H

#include "base/err.h"
#include "net/codec.h"

#include <stdbool.h>
#include <stdint.h>

/* The limits of a transaction, with some room: etcd's defaults are 128 operations (--max-txn-ops) and 1.5
 * MiB (--max-request-bytes). */
#define ETCD_TXN_OPS 120
#define ETCD_TXN_BYTES (1200u << 10)
#define ETCD_KEY_MAX 512

struct etcd;

/* Connects to nothing yet. endpoints: comma separated addresses, copied. files: for TLS, read at each connection;
 * their names are copied; without any, or NULL: plain. */
struct tls_files;
struct etcd *etcd_new(const char *endpoints, const struct tls_files *files);
void etcd_free(struct etcd *e); /* NULL is fine */
/* Makes the call under way and every later one fail at once; from any thread. */
void etcd_interrupt(struct etcd *e);
/* What went wrong in the last call that failed, with the endpoint's address. */
const char *etcd_why(const struct etcd *e);

/* Every call asks one endpoint after the other, each for at most timeout_us, until one answers. Errors:
 * HAWK_EUNAVAILABLE (no endpoint answers; a change may have happened all the same), HAWK_EMALFORMED,
 * HAWK_ECANCELLED (interrupted), or etcd's own. */

struct etcd_kv {
    struct span key, value;
    int64_t create_revision, mod_revision, lease;
};
struct etcd_range {
    const char *from, *to; /* [from, to); to NULL: from alone */
    int64_t limit;         /* 0: none */
    int64_t revision;      /* the keys as they were at that revision; 0: now */
    bool keys_only;
    /* Gets each key, borrowed, in order. A return value other than 0 ends the call. */
    int (*fn)(void *arg, const struct etcd_kv *kv);
    void *arg;
    /* Filled in. */
    bool more; /* there are more than limit */
    int64_t seen_revision;
};
HAWK_MUST_USE int etcd_range(struct etcd *e, struct etcd_range *r, int64_t timeout_us);

/* A transaction: etcd runs all operations, or none unless every comparison holds. It starts zeroed. It may
 * put a key only once, and not put and delete the same key. */
struct etcd_txn {
    struct codec_buf compares, ops;
    unsigned n_ops;
};
void etcd_txn_free(struct etcd_txn *t);
void etcd_txn_clear(struct etcd_txn *t);
/* The comparison that the key was created at that revision (0: it does not exist), or last changed at it. */
void etcd_txn_if_created(struct etcd_txn *t, const char *key, int64_t revision);
void etcd_txn_if_changed(struct etcd_txn *t, const char *key, int64_t revision);
void etcd_txn_put(struct etcd_txn *t, const char *key, struct span value, int64_t lease);
void etcd_txn_delete(struct etcd_txn *t, const char *from, const char *to);
/* *done: the comparisons held. *revision: of the store after it. */
HAWK_MUST_USE int etcd_txn_run(struct etcd *e, const struct etcd_txn *t, int64_t timeout_us, bool *done,
                               int64_t *revision);

/* Compacts etcd: all values that keys had before that revision become unreadable. Returns 0 also when etcd
 * was compacted at a later revision already. The call does not wait until etcd has freed the space: etcd
 * walks over all its data for that, and the thread that commits would wait. */
HAWK_MUST_USE int etcd_compact(struct etcd *e, int64_t revision, int64_t timeout_us);

/* ttl_s: etcd counts whole seconds, and may grant more than asked for. */
HAWK_MUST_USE int etcd_lease_grant(struct etcd *e, int64_t ttl_s, int64_t timeout_us, int64_t *id,
                                   int64_t *granted_s);
/* *left_s 0: the lease is over. */
HAWK_MUST_USE int etcd_lease_keep(struct etcd *e, int64_t id, int64_t timeout_us, int64_t *left_s);
HAWK_MUST_USE int etcd_lease_revoke(struct etcd *e, int64_t id, int64_t timeout_us);

#endif
