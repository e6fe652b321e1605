/* An agent finds the spawner that an earlier agent left behind, and learns what it holds. */
#ifndef HAWK_EXEC_TAKEOVER_H
#define HAWK_EXEC_TAKEOVER_H

#include "exec/exec.h"
#include "exec/record.h"

#include <sys/types.h>

/* Of what a user's runner says: bytes of one text, and of all. */
#define TAKEOVER_TEXT_MAX 4096u
#define TAKEOVER_TEXTS_MAX (16u << 20)

/* A run that the spawner has. */
struct held {
    struct msg m; /* EXEC_HELD, with a reference of its own */
    struct usage used;
    pid_t pid; /* 0: it never started */
    char *paths[2];
    char *user; /* NULL: not known */
};

struct takeover {
    bool
        of_user; /* a user's runner, which may say what it likes: little of that is kept: no paths, and no user */
    uint64_t texts; /* its texts' bytes so far */
    int fd;         /* the spawner's socket; -1: there is no spawner */
    pid_t spawner;
    uint64_t incarnation;
    int64_t lease_us;          /* TIME_NEVER: it knows no lease */
    uint32_t knows;            /* enum spawner_knows */
    enum exec_freezer freezer; /* OFF: it may not know RECORD_PAUSE */
    struct held *v;
    uint32_t n, cap;
    struct bytes in; /* bytes that came after WELCOME */
};

/* Looks in c->state_dir, whose lock the caller holds. Returns 0 with t->fd < 0 if there is nothing to take
 * over: no spawner is there. It waits for a spawner of another version until that has given up. HAWK_EIO: the
 * spawner cannot be reached; the log says why. HAWK_ETIMEOUT: one is there that has said nothing for 10 s, or neither
 * lets itself be taken over nor ends. */
HAWK_MUST_USE int takeover_begin(struct takeover *t, const struct exec_config *c);
/* Tells a spawner that holds nothing to end, and waits for it. HAWK_EIO: it did not end. */
HAWK_MUST_USE int takeover_end_idle(struct takeover *t);
/* Writes the first record to a spawner that this process has not forked. of_user: to a user's runner. */
void takeover_hello(struct bytes *b, const struct exec_config *c, bool of_user);
/* Handles records in t->in up to WELCOME. Returns 1 when that has come, 0 when it has not yet, or an error.
 * HAWK_ETOO_LARGE: a user's runner says more than TAKEOVER_TEXTS_MAX. */
HAWK_MUST_USE int takeover_records(struct takeover *t);
/* Says what h is. */
void takeover_tell(const struct held *h, exec_held_fn fn, void *arg);
/* Frees everything in t but the descriptor and `in`. */
void takeover_forget(struct takeover *t);

#endif
