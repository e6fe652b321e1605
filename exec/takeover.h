/* An agent finds the spawner that one before it left behind, and hears what it holds. */
#ifndef HAWK_EXEC_TAKEOVER_H
#define HAWK_EXEC_TAKEOVER_H

#include "exec/exec.h"
#include "exec/record.h"

#include <sys/types.h>

/* A run that the spawner has. */
struct held {
    struct msg m; /* EXEC_HELD, with a reference of its own */
    pid_t pid;    /* 0: it never started */
    char *paths[2];
};

struct takeover {
    int fd; /* the spawner; -1: there is none */
    pid_t spawner;
    uint64_t incarnation;
    int64_t lease_us;          /* TIME_NEVER: nobody told it one */
    bool checks;               /* it knows RECORD_CHECK */
    enum exec_freezer freezer; /* OFF: it knows no RECORD_PAUSE, either */
    struct held *v;
    uint32_t n, cap;
    struct bytes in; /* what it said after that */
};

/* Looks in c->state_dir, whose lock the caller holds. 0 with t->fd < 0 when nothing is to be taken over: no spawner is
 * there any more; one that speaks another version is waited for until it has given up. HAWK_EIO: it cannot be
 * reached, or does not end; the log says which. */
HAWK_MUST_USE int takeover_begin(struct takeover *t, const struct exec_config *c);
/* Tells a spawner that holds nothing to end, and waits until it has. HAWK_EIO: it did not. */
HAWK_MUST_USE int takeover_end_idle(struct takeover *t);
/* Gives back what t holds but the descriptor and `in`. */
void takeover_forget(struct takeover *t);

#endif
