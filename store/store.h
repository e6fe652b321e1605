/* The store: what a daemon must not forget. This is the journal of accepted work, the history of finished
 * jobs, and a few numbers. It is in one SQLite file (WAL) or, for centrals on several machines, in etcd.
 * The store has a thread of its own, so that the loop's thread never waits for an fsync or for etcd's
 * answer (DESIGN 5.6).
 *
 * store_write queues a record. The store's thread commits many queued records at a time, and calls `done`.
 * A record that `done` has reported with err 0 survives a kill and a power loss.
 *
 * Call all functions from one thread (the loop's). Only `done` runs on the store's. */
#ifndef HAWK_STORE_STORE_H
#define HAWK_STORE_STORE_H

#include "base/err.h"
#include "msg/msg.h"
#include "net/tls.h"

#include <stddef.h>
#include <stdint.h>

#define STORE_HISTORY_JOBS 10000       /* of so many finished jobs the history is kept */
#define STORE_QUEUE_BYTES (256u << 20) /* of entries that are not committed yet; beyond: HAWK_ELIMIT */
#define STORE_RETRY_MS                                                                                       \
    1000 /* time until the store repeats a failed commit, unless a new write repeats it sooner */

/* The environments of ended jobs stay in the file's log until the store makes them unreadable, this long
 * after the commit. In etcd: COMPACT_MS of store/etcd_keys.c. */
#define STORE_SCRUB_MS 2000

struct store;

/* Tells how a commit went. err 0: everything up to `token`, the highest so far, is durable. HAWK_EIO:
 * nothing is lost; the store keeps all queued records, of which token is the highest, and tries again. A later
 * call with err 0 and a token as high covers them. HAWK_ESTALE (etcd only): another central leads; neither these
 * records nor later ones will be written. Runs on the store's thread: post to your loop, and call nothing here. There
 * is one call per commit that holds a token. */
typedef void (*store_done_fn)(void *arg, uint64_t token, int err);

/* Opens or creates the file at path, whose directory must exist. owner: which daemon this is, in words
 * ("dist d1"); NULL: any. A file of another owner is refused (HAWK_ECORRUPT), since its jobs would run
 * twice. A file that is foreign, empty, damaged or of a newer schema is refused, too. A refused file stays
 * as it is. On an error, why names the file and says what to do. HAWK_ECORRUPT (not ours, or damaged),
 * HAWK_EVERSION (newer), HAWK_EBUSY (another process has it: PATH.lock), HAWK_EIO. */
HAWK_MUST_USE int store_open(struct store **out, const char *path, const char *owner, store_done_fn done,
                             void *arg, char *why, size_t why_size);
/* Makes this daemon the file's owner, unless the file has one: what the file holds is accepted. Blocks
 * until that is durable, in the file itself and not only in its log (if somebody reads the file, that
 * comes a little later). In etcd it does nothing: the prefix belongs to all centrals. */
HAWK_MUST_USE int store_own(struct store *s, const char *owner);

/* Opens the store in etcd, for the central that leads (store/leader.h). Every write is conditional on
 * that. Blocks, for long when etcd does not answer. HAWK_EIO. HAWK_ESTALE: this central does not lead any
 * more. HAWK_ECORRUPT: another program's keys are under the prefix. */
struct store_etcd {
    const char *endpoints, *prefix; /* copied */
    struct tls_files tls;           /* as for etcd_new */
    int64_t revision;               /* leader_view.revision */
    uint32_t epoch;                 /* leader_view.epoch, which store_epoch returns */
};
HAWK_MUST_USE int store_open_etcd(struct store **out, const struct store_etcd *c, store_done_fn done,
                                  void *arg, char *why, size_t why_size);

/* Commits the queued records, ends the thread, and closes. HAWK_EIO: some could not be written. NULL is
 * fine. */
int store_close(struct store *s);
/* Closes without waiting for the queued records: another central decides now. NULL is fine. */
void store_abandon(struct store *s);

/* Queues a record of msg/records.h, or JOURNAL_JOB_END; copies what it needs. Tokens must not fall. A record
 * replaces the one that has its key. Beyond that:
 *   HISTORY          is added; of STORE_HISTORY_JOBS the oldest of the user who has most makes room (base/crowd.h)
 *   JOURNAL_POLICY   without a choice: removes the record
 *   JOURNAL_JOB      with a description: removes JOURNAL_CANCEL, _ENDED and _OWNER of the job. Without one: changes
 *                    all but the description of a job that exists, and removes JOURNAL_ENDED
 *   JOURNAL_ENDED    also removes the environment of the job, unless the record of a task's end is missing
 *   JOURNAL_JOB_END  removes the job with all its parts
 * HAWK_EINVALID: another message, or a record that could not be read back. HAWK_ELIMIT: the queue is full (the disk
 * is stuck or full). */
HAWK_MUST_USE int store_write(struct store *s, const struct msg *m);

/* Calls fn with all that the store holds, in the order of msg/records.h: HISTORY oldest first;
 * JOURNAL_POLICY, _CLUSTER and _NUMBERS where there is one; every JOURNAL_NODE; then each JOURNAL_JOB,
 * followed by its JOURNAL_AGE (where it is known), its JOURNAL_TASKs and the records of the job as a
 * whole. Tokens are 0, handles borrowed. Parts that belong to no job are removed. Call it before the first
 * write. HAWK_ECORRUPT: a record cannot be read (logged); HAWK_EIO. */
HAWK_MUST_USE int store_recover(struct store *s, void (*fn)(void *arg, const struct msg *m), void *arg);

/* Drawn at random when the file was made; never 0. */
uint64_t store_cluster_id(const struct store *s);
/* How often the store has been opened, or the epoch of the reign. Grows with each opening. */
uint32_t store_epoch(const struct store *s);

/* Numbers by name. These functions block until the change is durable: for starting up, not for the loop. */
HAWK_MUST_USE int store_meta_get(struct store *s, const char *key, uint64_t *value); /* HAWK_ENOT_FOUND */
HAWK_MUST_USE int store_meta_set(struct store *s, const char *key, uint64_t value);
/* The id that a dist has from central, which no other journal has. */
#define STORE_META_NODE "node"
/* Central's: the secret of receipts, and since when there is one, in seconds since 1970; 0: since the journal is. */
#define STORE_META_RECEIPT_LOW "receipt low"
#define STORE_META_RECEIPT_HIGH "receipt high"
#define STORE_META_RECEIPTS_SINCE "receipts since"
/* The cluster that a dist joined. */
#define STORE_META_CLUSTER "joined"

#endif
