/* The inside of the store in etcd: etcd_keys.c (opening, writing), etcd_read.c (keys, reading). */
#ifndef HAWK_STORE_ETCD_IMPL_H
#define HAWK_STORE_ETCD_IMPL_H

#include "base/units.h"
#include "store/backend.h"
#include "store/etcd.h"

#include <inttypes.h>

#define ETCD_CHUNK_BYTES (1u << 20)
#define ETCD_PAGE_RECORDS 1000
#define ETCD_CALL_US (5 * US_PER_S) /* a slow disk's sync, and more */
#define ETCD_GENERATION 32

#define JOB_KEY "%016" PRIx64 "/%04" PRIx16 /* below job/ and desc/ */

/* A job whose value is split into pieces. */
struct etcd_big {
    uint64_t job;
    uint16_t epoch;
    char generation[ETCD_GENERATION];
};

struct backend {
    struct etcd *etcd;
    char *prefix, *leader_key, *commit_key;
    int64_t revision; /* of the leader's key */
    uint32_t epoch;
    uint64_t attempt;     /* numbers transactions */
    int64_t commit_rev;   /* the last revision of commit_key that we know of */
    uint64_t history;     /* the next key's number */
    struct etcd_txn txn;  /* the one being made */
    uint64_t txn_history; /* and the value of `history` after it */
    bool txn_forgets;     /* whether it removes content that must become unreadable */
    /* The revision of the last such removal: removed content is readable before it; 0: none is. */
    int64_t forgot_rev;
    struct record_key touched[ETCD_TXN_OPS]; /* by the transaction */
    unsigned n_touched;
    struct etcd_big *bigs; /* the split jobs that the last whole scan found */
    uint32_t n_bigs, bigs_cap;
    char name[200], why[500];
};

struct etcd_row {
    char *key;
    uint8_t *value;
    size_t len;
};

struct etcd_one {
    bool there;
    int64_t created, changed;
    char value[100];
};

/* Writes the key "PREFIX/" followed by the rest. */
void etcd_key(const struct backend *b, char key[ETCD_KEY_MAX], const char *fmt, ...) HAWK_PRINTF(3, 4);
void etcd_record_key(const struct backend *b, char key[ETCD_KEY_MAX], const struct record_key *k);
/* Reads JOB/EPOCH into k; *rest is the text behind it. False: the text is something else. */
bool etcd_parse_job(const char *at, struct record_key *k, char **rest);
/* A call failed: returns HAWK_EIO, and why says so. */
int etcd_failed(struct backend *b);

/* Calls fn with every key in [from, to) that exists when it is called (to NULL: with `from` alone). It
 * reads page by page, and calls fn between calls of etcd, so that fn may make calls. */
HAWK_MUST_USE int etcd_scan_keys(struct backend *b, const char *from, const char *to, int64_t page,
                                 bool keys_only, int (*fn)(void *arg, const struct etcd_row *row), void *arg);
HAWK_MUST_USE int etcd_read_one(struct backend *b, const char *key, struct etcd_one *o);

/* As backend_ops has them. */
HAWK_MUST_USE int etcd_scan(struct backend *b, const struct record_key *job, scan_fn *fn, void *arg);
HAWK_MUST_USE int etcd_scan_history(struct backend *b, scan_fn *fn, void *arg);
HAWK_MUST_USE int etcd_get(struct backend *b, const struct record_key *k, struct codec_buf *value);

#endif
