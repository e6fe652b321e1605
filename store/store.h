/* What a daemon must not forget: the journal of accepted work, the history of finished jobs, and a few
 * numbers, in one SQLite file (WAL) or, for centrals on several machines, in etcd; with a thread of its own, so
 * that no fsync and no answer of etcd's is ever waited for on the loop's thread (DESIGN 5.6).
 *
 * store_write queues; the store's thread commits what is queued, many writes at a time, and calls `done`.
 * What `done` has told of with err 0 survives a kill and a power loss.
 *
 * All functions are called from one thread (the loop's); only `done` runs on the store's. */
#ifndef HAWK_STORE_STORE_H
#define HAWK_STORE_STORE_H

#include "base/err.h"
#include "msg/msg.h"

#include <stddef.h>
#include <stdint.h>

#define STORE_HISTORY_JOBS 10000       /* how many finished jobs' history is kept */
#define STORE_QUEUE_BYTES (256u << 20) /* not committed yet; beyond: HAWK_ELIMIT */
#define STORE_RETRY_MS 1000 /* a commit that failed is tried again that often, and with every write */

/* What jobs that ended leave in the file's log, their environments, is made unreadable so soon, and at most that often. In
 * etcd: ETCD_COMPACT_MS. */
#define STORE_SCRUB_MS 2000

struct store;

/* err 0: everything up to `token` (the highest so far) is durable. HAWK_EIO: nothing of it is
 * lost: it is kept and tried again, and a later call with err 0 and a token as high covers it. HAWK_ESTALE (etcd
 * only): another central leads; neither this nor anything later will be written. Runs on
 * the store's thread: post it to your loop, call nothing here. One call per commit that holds a token. */
typedef void (*store_done_fn)(void *arg, uint64_t token, int err);

/* Opens or creates (directory must exist) the file at path. owner: which daemon it is, in words ("dist d1"); a file of another
 * one's is refused (HAWK_ECORRUPT), since its jobs would run twice. NULL: whoever it is. A file that is foreign, empty, damaged or of
 * a newer schema is refused and left as it is. On an error why holds a text that names the file and says
 * what to do. HAWK_ECORRUPT (not ours, or damaged), HAWK_EVERSION (newer), HAWK_EBUSY (another process
 * has it: PATH.lock), HAWK_EIO. */
HAWK_MUST_USE int store_open(struct store **out, const char *path, const char *owner, store_done_fn done,
                             void *arg, char *why, size_t why_size);
/* From now on the file is this one's, unless it has an owner: what it holds was accepted. Blocks until that is durable, and in the
 * file itself, not only in its log (unless somebody reads the file: then soon). In
 * etcd nothing is said of it: the prefix is all the centrals'. */
HAWK_MUST_USE int store_own(struct store *s, const char *owner);

/* The same in etcd, for the central that leads (store/leader.h); every write is conditional on that. Blocks, and for long
 * when etcd does not answer: HAWK_EIO. HAWK_ESTALE: it does not lead any more. HAWK_ECORRUPT: another program's keys are
 * under the prefix. */
struct store_etcd {
    const char *endpoints, *prefix; /* copied */
    int64_t revision;               /* leader_view.revision */
    uint32_t epoch;                 /* leader_view.epoch: what store_epoch tells */
};
HAWK_MUST_USE int store_open_etcd(struct store **out, const struct store_etcd *c, store_done_fn done,
                                  void *arg, char *why, size_t why_size);

/* Commits what is queued, ends the thread, closes. HAWK_EIO: something could not be written. NULL is
 * fine. */
int store_close(struct store *s);
/* Closes without waiting for what is queued: it is another's now to decide. NULL is fine. */
void store_abandon(struct store *s);

/* Queues a record of msg/records.h, or JOURNAL_JOB_END; copies what it needs. Tokens must not fall. A record replaces the one
 * that has its key. Beyond that:
 *   HISTORY          is added; the last STORE_HISTORY_JOBS stay
 *   JOURNAL_POLICY   without a choice: there is none any more
 *   JOURNAL_JOB      with a description: what was said of the job before (JOURNAL_CANCEL, _ENDED, _OWNER) goes. Without one:
 *                    it changes all but the description of a job that is there, and JOURNAL_ENDED goes
 *   JOURNAL_ENDED    the job's environment goes, unless the end of one of its tasks is missing
 *   JOURNAL_JOB_END  removes the job with all its parts
 * HAWK_EINVALID: another message. HAWK_ELIMIT: the queue is full (the disk is stuck or full). */
HAWK_MUST_USE int store_write(struct store *s, const struct msg *m);

/* Calls fn with what the store holds, in the order of msg/records.h: HISTORY oldest first; JOURNAL_POLICY, _CLUSTER and
 * _NUMBERS where there is one; every JOURNAL_NODE; then each JOURNAL_JOB, followed by its JOURNAL_AGE (where it is known),
 * its JOURNAL_TASKs and what is said of it. Tokens 0, handles borrowed. Parts of jobs that are not there are removed.
 * Before the first write. HAWK_ECORRUPT: a record cannot be read (logged); HAWK_EIO. */
HAWK_MUST_USE int store_recover(struct store *s, void (*fn)(void *arg, const struct msg *m), void *arg);

/* Made at random when the file was; never 0. */
uint64_t store_cluster_id(const struct store *s);
/* How often it has been opened, or that of the reign: grows with each opening. */
uint32_t store_epoch(const struct store *s);

/* Numbers by name. They block until they are durable: for starting up, not for the loop. */
HAWK_MUST_USE int store_meta_get(struct store *s, const char *key, uint64_t *value); /* HAWK_ENOT_FOUND */
HAWK_MUST_USE int store_meta_set(struct store *s, const char *key, uint64_t value);
/* The id that a dist has from central, which no other journal has. */
#define STORE_META_NODE "node"
/* The cluster that a dist joined. */
#define STORE_META_CLUSTER "joined"

#endif
