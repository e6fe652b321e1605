/* The inside of the store in etcd: etcd_rows.c (opening, writing), etcd_read.c (reading). */
#ifndef HAWK_STORE_ETCD_IMPL_H
#define HAWK_STORE_ETCD_IMPL_H

#include "store/backend.h"
#include "store/etcd.h"
#include "store/etcd_rows.h"

/* Keys, below PREFIX/ (ids in hexadecimal, so that etcd's order is theirs):
 *   leader, epoch                 who leads: leader.h
 *   commit                        "EPOCH NUMBER HISTORY": of the last transaction, and the next history key
 *   meta/NAME                     a number, in decimal
 *   standby/LEASE                 the address of a central that stands by: leader.c
 *   node/NODE, history/NUMBER, policy/choice  messages of protos/store.proto
 *   job/JOB/EPOCH                 likewise, and after it:
 *   job/JOB/EPOCH/TASK            likewise
 *   job/JOB/EPOCH/cancel          it was cancelled
 *   job/JOB/EPOCH/owner           likewise: its owner's epoch of it (JOURNAL_OWNER)
 *   desc/JOB/EPOCH/GENERATION/NUMBER  what is too large for job/JOB/EPOCH, in pieces */
#define ETCD_SCHEMA 1
/* What is larger is kept in pieces: a page of rows must fit a message, and a piece a transaction. */
#define ETCD_INLINE_BYTES (16u << 10)
#define ETCD_CHUNK_BYTES (1u << 20)
#define ETCD_PAGE_ROWS 1000
#define ETCD_PAGE_CHUNKS 8
#define ETCD_CALL_US (5 * US_PER_S) /* a slow disk's sync, and more */
#define ETCD_GENERATION 32
/* At most so often a compaction is asked for: each costs etcd a walk over all that it holds. */
#define ETCD_COMPACT_MS 10000
#define ETCD_COMPACT_US US_PER_S /* for its answer: commits wait meanwhile, and it is asked for again */

#define TOUCHED_SINGLE UINT32_MAX /* beyond NODE_ID_MAX */
struct
    touched { /* what a transaction changes; a job with task UINT32_MAX: as a whole. node TOUCHED_SINGLE: one of the records
                  * of which there is one each; of these a transaction holds one at most */
    uint64_t job;
    uint32_t task, node;
    uint16_t epoch;
};

struct backend {
    struct etcd *etcd;
    char *prefix, *leader_key, *commit_key;
    int64_t revision; /* of the leader's key */
    uint32_t epoch;
    uint64_t attempt;     /* numbers transactions */
    int64_t commit_rev;   /* when commit_key changed last, as far as we know */
    uint64_t history;     /* the next key's number */
    struct etcd_txn txn;  /* the one being made */
    uint64_t txn_history; /* and what `history` is after it */
    bool txn_forgets;     /* and whether it takes jobs away, environments and all */
    int64_t forgot_rev;   /* when the last of those was done: before it they can be read; 0: nothing can */
    struct touched touched[ETCD_TXN_OPS];
    unsigned n_touched;
    struct codec_buf value;
    char name[200], why[500];
};

#define JOB_KEY "%016" PRIx64 "/%04" PRIx16 /* below job/ and desc/ */

/* "PREFIX/" and the rest. */
void etcd_key(const struct backend *b, char key[ETCD_KEY_MAX], const char *fmt, ...) HAWK_PRINTF(3, 4);
/* Calls fn with every key in [from, to), which exist when it is called; a page at a time, and never within another call of
 * etcd's, so that fn may make some. */
struct etcd_row {
    char *key;
    uint8_t *value;
    size_t len;
};
HAWK_MUST_USE int etcd_scan(struct backend *b, const char *from, const char *to, int64_t page, bool keys_only,
                            int (*fn)(void *arg, const struct etcd_row *row), void *arg);
/* Runs b->txn, if we lead. 0, HAWK_EIO, HAWK_ESTALE; why is set. */
HAWK_MUST_USE int etcd_commit(struct backend *b);
/* A call failed. */
int etcd_failed(struct backend *b);

/* As store_recover; removes pieces that no job names. */
HAWK_MUST_USE int etcd_rows_recover(struct backend *b, void (*fn)(void *arg, const struct msg *m), void *arg);

#endif
