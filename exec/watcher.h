/* A process beside the spawner that thaws frozen tasks, and ends limited ones, when the spawner dies. It reads from a
 * pipe whose only writer is the spawner: the pipe ends when the spawner does. The spawner forks it for the first pause
 * or limit, or at its start where an agent freezes users' tasks. */
#ifndef HAWK_EXEC_WATCHER_H
#define HAWK_EXEC_WATCHER_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct watcher {
    pid_t pid;     /* 0: there is none */
    int fd;        /* the pipe's end for writing */
    pid_t *groups; /* groups that are stopped by signal; the watcher finds cgroups by their names */
    uint32_t n, cap;
};

/* Makes sure that there is a watcher. HAWK_EIO: it cannot be made. */
HAWK_MUST_USE int watcher_start(struct watcher *w);
/* Tells the watcher that the process group is stopped from now on, or no longer. HAWK_EIO: the watcher does
 * not learn it. */
int watcher_note(struct watcher *w, pid_t group, bool stopped);
/* The watcher has ended, and is reaped. */
void watcher_ended(struct watcher *w);
/* Frees w. Nothing may be frozen any more. */
void watcher_free(struct watcher *w);

#endif
