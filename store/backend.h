/* What the store keeps, and where: records by key (msg/records.h) in a file of SQLite's (store/sqlite.c) or in etcd
 * (store/etcd_keys.c). What the records of a journal mean to each other is in store/apply.c, for both. */
#ifndef HAWK_STORE_BACKEND_H
#define HAWK_STORE_BACKEND_H

#include "base/err.h"
#include "store/records.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct backend; /* a backend's own */

/* Called with each record of a scan, borrowed; what it returns that is not 0 ends the scan. */
typedef int scan_fn(void *arg, const struct record_key *k, struct span value);

/* Calls may block; never two at a time. Those that can fail return 0 or HAWK_EIO (to be tried again), and then `why` says
 * what was wrong. */
struct backend_ops {
    /* A transaction: begin; put, append, remove and forgot in any number; then commit or rollback. commit may
     * also return HAWK_ESTALE: another central leads, nothing will be written again. */
    int (*begin)(struct backend *b);
    int (*put)(struct backend *b, const struct record_key *k, struct span value);
    int (*append)(struct backend *b,
                  struct span value); /* to TABLE_HISTORY, which keeps STORE_HISTORY_JOBS */
    /* What has the key *k but for its part, which lies within k->part and `last`, if there is any. */
    int (*remove)(struct backend *b, const struct record_key *k, uint32_t last);
    /* What this transaction takes away is to be made unreadable (scrub). */
    void (*forgot)(struct backend *b);
    int (*commit)(struct backend *b);
    void (*rollback)(struct backend *b);
    /* Whether e may join the entries that the transaction has; asked of each but the first. */
    bool (*fits)(const struct backend *b, const struct entry *e);

    /* Reading: of the first entry of a transaction what was there before it. get: or HAWK_ENOT_FOUND; *value is the caller's.
     * scan: every record in order; with a job, its other parts. HAWK_ECORRUPT (logged): a key that none can be. */
    int (*get)(struct backend *b, const struct record_key *k, struct codec_buf *value);
    int (*scan)(struct backend *b, const struct record_key *job, scan_fn *fn, void *arg);
    /* Removes, after a scan of everything, what that did not come across. NULL: there is no such thing. */
    int (*sweep)(struct backend *b);
    const char *remedy; /* for what cannot be read */

    /* As store_meta_get and store_meta_set. */
    int (*meta_get)(struct backend *b, const char *key, uint64_t *value);
    int (*meta_set)(struct backend *b, const char *key, uint64_t value);
    /* As store_own. NULL: it has no owner. */
    int (*own)(struct backend *b, const char *owner);
    /* Makes unreadable what was forgotten since it was called last. HAWK_EIO: to be tried again. */
    int (*scrub)(struct backend *b);
    int64_t scrub_ms; /* so soon, and at most that often */
    /* Where it is, and what was wrong with the last call that failed. */
    const char *(*name)(const struct backend *b);
    const char *(*why)(const struct backend *b);
    /* From any thread: calls under way fail soon. NULL: they do not last. */
    void (*interrupt)(struct backend *b);
    void (*close)(struct backend *b);
};

/* ---- store/apply.c ---- */

/* Makes durable, in order, `first` and as many after it as go together; *last is the last of those, or of those that were
 * tried. Errors as of commit. */
HAWK_MUST_USE int records_commit(const struct backend_ops *ops, struct backend *b, const struct entry *first,
                                 const struct entry **last);
/* As store_recover. clean: removes what is of no job, in a transaction of its own. */
HAWK_MUST_USE int records_recover(const struct backend_ops *ops, struct backend *b, bool clean,
                                  void (*fn)(void *arg, const struct msg *m), void *arg);
/* Takes the environments of ended jobs away that are there still, in a transaction of its own: of an earlier version's
 * journal. */
HAWK_MUST_USE int records_forget_old(const struct backend_ops *ops, struct backend *b);

#endif
