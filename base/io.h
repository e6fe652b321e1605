/* What writes files the same way everywhere. Not for policy code. */
#ifndef HAWK_BASE_IO_H
#define HAWK_BASE_IO_H

#include "base/err.h"

#include <stddef.h>
#include <sys/types.h>

/* Writes all of it; waits where a pipe is full, also one that does not block. 0, or errno: EPIPE if the reader left. */
int write_all(int fd, const void *data, size_t n);
/* Syncs the directory that holds the path: only then is a file that was made or renamed there to stay. 0, or -1 and
 * errno. */
int sync_parent(const char *path);
/* Makes a directory and its parents; mode is for those it makes. 0, or HAWK_EIO with a text in why. */
HAWK_MUST_USE int dir_make(const char *path, mode_t mode, char *why, size_t size);

#endif
