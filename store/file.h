/* The store's file: made atomically, opened only when it is ours, whole and not newer, and by one process
 * at a time. */
#ifndef HAWK_STORE_FILE_H
#define HAWK_STORE_FILE_H

#include "base/err.h"

#include <sqlite3.h>
#include <stddef.h>

/* Opens path, making it when nothing is there; *lock_fd keeps PATH.lock locked until it is closed. On an
 * error nothing is left open, an existing file is as it was, and why says what to do. Errors as of
 * store_open. */
HAWK_MUST_USE int file_open(const char *path, sqlite3 **db, int *lock_fd, char *why, size_t why_size);

#endif
