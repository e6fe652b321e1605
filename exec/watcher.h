/* A process beside the spawner that thaws what is frozen when the spawner dies, whoever dies with it. It reads from a pipe
 * that only the spawner writes to: the end of that is the spawner's. It is forked for the first pause. */
#ifndef HAWK_EXEC_WATCHER_H
#define HAWK_EXEC_WATCHER_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct watcher {
    pid_t pid;     /* 0: there is none */
    int fd;        /* to write to */
    pid_t *groups; /* that are stopped by signal: it knows them by pid, cgroups by their names */
    uint32_t n, cap;
};

/* Sees that it is there. HAWK_EIO: it cannot be made. */
HAWK_MUST_USE int watcher_start(struct watcher *w);
/* The process group is stopped from now on, or no longer. HAWK_EIO: the watcher does not hear it. */
int watcher_note(struct watcher *w, pid_t group, bool stopped);
/* It has ended, and is reaped. */
void watcher_ended(struct watcher *w);
/* Nothing is frozen any more. */
void watcher_free(struct watcher *w);

#endif
