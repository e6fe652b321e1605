/* The directory that `hawk run` keeps its tasks' output in until it is printed. Its owner holds a lock on it, which the
 * kernel frees with the process: what is found unlocked was left by one that was killed. */
#ifndef HAWK_DAEMON_OUTPUT_DIR_H
#define HAWK_DAEMON_OUTPUT_DIR_H

#include "base/err.h"

#include <stddef.h>

/* Makes one in $TMPDIR or /tmp, and removes those of this user and machine that were left there; where the file system
 * knows no locks it goes on without, and removes none. Its absolute path in path, and the
 * descriptor that holds it: keep it open. Or HAWK_EIO, with errno and what could not be made in path. */
HAWK_MUST_USE int output_dir_make(char *path, size_t size, int *fd);

/* Removes what tasks' output it holds, and itself; anything else is left where it is. Closes fd. */
void output_dir_remove(const char *path, int fd);

#endif
