/* The store's file. It is made atomically. It is opened only when it is ours, whole, and not of a newer
 * version, and by one process at a time. */
#ifndef HAWK_STORE_FILE_H
#define HAWK_STORE_FILE_H

#include "base/err.h"

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>

/* What to do about a damaged file; %s: its path. */
#define STORE_DAMAGED_REMEDY                                                                                 \
    "move it, and %s-wal if there is one, away to start with an empty store; an older copy runs again what " \
    "has ended since"
#define FILE_BUSY_MS 5000 /* an operator's sqlite3 shell may hold the file for a moment */

/* Opens path, and makes the file when there is none. *lock_fd keeps PATH.lock locked until it is closed.
 * On an error nothing stays open, an existing file is unchanged, and why says what to do. Errors as of
 * store_open. *db is within a transaction that has brought its schema up to date (*updated: it was an
 * earlier one). Call file_accept and commit it to take the file over. Roll it back or close it, and the
 * file and its log stay as they were. */
HAWK_MUST_USE int file_open(const char *path, sqlite3 **db, int *lock_fd, bool *updated, char *why,
                            size_t why_size);
/* The file was looked at and is good: SQLite may write its log back to it. */
void file_accept(sqlite3 *db);

#endif
