/* A daemon's store on its loop: effects go in, JOURNAL_DONE comes back as an event. */
#ifndef HAWK_DAEMON_JOURNAL_H
#define HAWK_DAEMON_JOURNAL_H

#include "msg/msg.h"
#include "net/loop.h"
#include "store/store.h"

struct journal;

/* Opens DIR/journal.db, making the directory. On an error why names what to do. feed is called on the loop's
 * thread with JOURNAL_DONE. */
HAWK_MUST_USE int journal_open(struct journal **out, struct loop *l, const char *dir,
                               void (*feed)(void *arg, const struct msg *m), void *arg, char *why,
                               size_t size);
/* For JOURNAL_* and HISTORY. What cannot be queued is answered with JOURNAL_DONE and the error. */
void journal_write(struct journal *j, const struct msg *m);
struct store *journal_store(struct journal *j);
/* Commits what is queued; 0 or HAWK_EIO. NULL is fine. */
int journal_close(struct journal *j);

/* Makes a directory and its parents (mode 0700 for those it makes). 0, or HAWK_EIO with a text in why. */
HAWK_MUST_USE int dir_make(const char *path, char *why, size_t size);

#endif
