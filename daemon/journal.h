/* A daemon's store on its loop: effects go in, JOURNAL_DONE comes back as an event. */
#ifndef HAWK_DAEMON_JOURNAL_H
#define HAWK_DAEMON_JOURNAL_H

#include "msg/msg.h"
#include "net/loop.h"
#include "store/store.h"

struct journal;

/* Opens DIR/journal.db, and makes the directory. owner: as in store_open. On an error why names what to do. feed
 * gets JOURNAL_DONE on the loop's thread. With HAWK_EIO the records are not written yet: the store keeps them and
 * tries again, and a later JOURNAL_DONE without an error covers them. With HAWK_ESTALE another central leads, and
 * this store writes nothing more. */
HAWK_MUST_USE int journal_open(struct journal **out, struct loop *l, const char *dir, const char *owner,
                               void (*feed)(void *arg, const struct msg *m), void *arg, char *why,
                               size_t size);
/* The same in etcd, for the central that leads. */
HAWK_MUST_USE int journal_open_etcd(struct journal **out, struct loop *l, const struct store_etcd *etcd,
                                    void (*feed)(void *arg, const struct msg *m), void *arg, char *why,
                                    size_t size);
/* For JOURNAL_* and HISTORY. If m cannot be queued, feed gets JOURNAL_DONE with the error. */
void journal_write(struct journal *j, const struct msg *m);
/* Whether the last attempt to write failed. */
bool journal_failing(const struct journal *j);
struct store *journal_store(struct journal *j);
/* Commits what is queued; 0 or HAWK_EIO. For the end of the process. NULL is fine. */
int journal_close(struct journal *j);
/* Ends it without waiting for what is queued; feed is not called any more. NULL is fine. */
void journal_abandon(struct journal *j);

#endif
