/* The store's file: made atomically, opened only when it is ours, whole and not newer, and by one process
 * at a time. */
#ifndef HAWK_STORE_FILE_H
#define HAWK_STORE_FILE_H

#include "base/err.h"

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>

#define FILE_BUSY_MS 5000 /* an operator's sqlite3 shell may hold the file for a moment */

/* Opens path, making it when nothing is there; *lock_fd keeps PATH.lock locked until it is closed. On an
 * error nothing is left open, an existing file is as it was, and why says what to do. Errors as of
 * store_open. *db is within a transaction, in which its schema was brought up to date (*updated: it was an earlier one): after file_accept and its
 * commit the file is ours; rolled back or closed, it and its log are as they were. */
HAWK_MUST_USE int file_open(const char *path, sqlite3 **db, int *lock_fd, bool *updated, char *why,
                            size_t why_size);
/* What was looked at is good: its log may be written back to it. */
void file_accept(sqlite3 *db);

#endif
