/* The directory where `hawk run` keeps its tasks' output until it prints it. The process holds a lock on the directory,
 * which the kernel frees when the process ends. So an unlocked directory was left by a process that was killed. */
#ifndef HAWK_DAEMON_OUTPUT_DIR_H
#define HAWK_DAEMON_OUTPUT_DIR_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

/* Makes one in $TMPDIR, or in /tmp if that is no absolute path, and removes those of this user and machine that were
 * left there. If the file system knows no locks, it makes one without a lock, and removes none. Writes the absolute
 * path to path, and returns the descriptor that holds the lock: keep it open. On failure returns HAWK_EIO; errno says
 * why, and path what could not be made. */
HAWK_MUST_USE int output_dir_make(char *path, size_t size, int *fd);

/* Removes what tasks' output it holds, and itself; anything else is left where it is. Closes fd. */
void output_dir_remove(const char *path, int fd);

/* Whether a directory of the former name could be one that another `hawk up` made beside the latter: LATTER-NUMBER. */
HAWK_MUST_USE bool output_dir_is_beside(const char *name, const char *first);

#endif
