/* The backends of the store. They keep records by key (msg/records.h): store/sqlite.c in a file of
 * SQLite's, store/etcd_keys.c in etcd. For both, store/apply.c knows what the records of a journal mean to
 * each other. */
#ifndef HAWK_STORE_BACKEND_H
#define HAWK_STORE_BACKEND_H

#include "base/err.h"
#include "store/records.h"
#include "store/records_history.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct backend; /* a backend's own */

/* Gets each record of a scan, borrowed. A return value other than 0 ends the scan. */
typedef int scan_fn(void *arg, const struct record_key *k, struct span value);

/* Calls may block. There are never two at a time. A call that can fail returns 0 or HAWK_EIO (try again
 * later); `why` then says what went wrong. */
struct backend_ops {
    /* A transaction is begin, then any number of put, append, remove and forgot, then commit or rollback.
     * commit may also return HAWK_ESTALE: another central leads, and this one never writes again. */
    int (*begin)(struct backend *b);
    int (*put)(struct backend *b, const struct record_key *k, struct span value);
    /* Puts a record into TABLE_HISTORY. *id: its number, above all earlier ones. */
    int (*append)(struct backend *b, struct span value, uint64_t *id);
    /* Removes the records with the key *k, except that their part lies within k->part and `last`. */
    int (*remove)(struct backend *b, const struct record_key *k, uint32_t last);
    /* The content that this transaction removes must become unreadable (scrub). */
    void (*forgot)(struct backend *b);
    int (*commit)(struct backend *b);
    void (*rollback)(struct backend *b);
    /* Whether e may join the entries of this transaction. The store asks this about each entry but the
     * first. */
    bool (*fits)(const struct backend *b, const struct entry *e);

    /* Reading. The first entry of a transaction reads what was there before the transaction. get:
     * HAWK_ENOT_FOUND when there is none; *value belongs to the caller. scan: every record in order, or
     * the other parts of a job. HAWK_ECORRUPT (logged): a key that no record can have. */
    int (*get)(struct backend *b, const struct record_key *k, struct codec_buf *value);
    int (*scan)(struct backend *b, const struct record_key *job, scan_fn *fn, void *arg);
    int (*scan_history)(struct backend *b, scan_fn *fn, void *arg); /* TABLE_HISTORY alone */
    /* Removes, after a scan of everything, the records that the scan did not come across. NULL: there is
     * nothing to do. */
    int (*sweep)(struct backend *b);
    const char *remedy; /* for what cannot be read */

    /* As store_meta_get and store_meta_set. */
    int (*meta_get)(struct backend *b, const char *key, uint64_t *value);
    int (*meta_set)(struct backend *b, const char *key, uint64_t value);
    /* As store_own. NULL: the backend has no owner. */
    int (*own)(struct backend *b, const char *owner);
    /* Makes unreadable what was forgotten since the last call. HAWK_EIO: try again later. */
    int (*scrub)(struct backend *b);
    int64_t scrub_ms; /* the time from a commit to scrub, and between two calls of scrub */
    /* name: where the store is. why: what went wrong in the last call that failed. */
    const char *(*name)(const struct backend *b);
    const char *(*why)(const struct backend *b);
    /* Makes calls under way fail soon; from any thread. NULL: calls never take long. */
    void (*interrupt)(struct backend *b);
    void (*close)(struct backend *b);
};

/* ---- store/apply.c ---- */

/* Commits, in order, `first` and as many entries after it as fit one transaction. *last is the last of
 * these, also when the commit failed. Errors as of commit. */
HAWK_MUST_USE int records_commit(const struct backend_ops *ops, struct backend *b,
                                 struct records_history *history, const struct entry *first,
                                 const struct entry **last);
/* As store_recover. clean: removes parts that belong to no job, in a transaction of its own. */
HAWK_MUST_USE int records_recover(const struct backend_ops *ops, struct backend *b, bool clean,
                                  void (*fn)(void *arg, const struct msg *m), void *arg);
/* Removes, in a transaction of its own, the environments of ended jobs that an earlier version's journal
 * still has. */
HAWK_MUST_USE int records_forget_old(const struct backend_ops *ops, struct backend *b);

#endif
