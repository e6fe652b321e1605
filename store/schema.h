/* The tables of the store's file. The store migrates a journal of an earlier version in place. */
#ifndef HAWK_STORE_SCHEMA_H
#define HAWK_STORE_SCHEMA_H

#include "base/err.h"

#include <sqlite3.h>
#include <stdint.h>

#define SCHEMA_APPLICATION_ID 0x4861776b /* "Hawk" */
#define SCHEMA_VERSION 7

/* The tables of a new file. record: the record_key of msg/records.h, with `id` as a signed number of the
 * same bits, and the value. job_record: the same for jobs themselves (TABLE_JOB, PART_JOB), whose values
 * may be large; within `record`, each would take one more page of the file and of its log. meta: numbers
 * by name, 64-bit unsigned ones as signed numbers of the same bits, and the owner as bytes. */
#define SCHEMA_RECORD_SQL                                                                                    \
    "CREATE TABLE record(tab INTEGER NOT NULL, id INTEGER NOT NULL, epoch INTEGER NOT NULL, part INTEGER "   \
    "NOT NULL, value BLOB NOT NULL, PRIMARY KEY(tab, id, epoch, part)) STRICT, WITHOUT ROWID;"               \
    "CREATE TABLE job_record(id INTEGER NOT NULL, epoch INTEGER NOT NULL, value BLOB NOT NULL,"              \
    " PRIMARY KEY(id, epoch)) STRICT;"
#define SCHEMA_SQL                                                                                           \
    "PRAGMA journal_mode=WAL;"                                                                               \
    "BEGIN;"                                                                                                 \
    "PRAGMA application_id=1214347115;"                                                                      \
    "PRAGMA user_version=7;"                                                                                 \
    "CREATE TABLE meta(key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;" SCHEMA_RECORD_SQL       \
    "COMMIT;"
_Static_assert(SCHEMA_APPLICATION_ID == 1214347115 && SCHEMA_VERSION == 7, "the same numbers as in the SQL");

/* FULL: SQLite syncs a commit before it reports it. The log is cut back to 16 MiB after a large
 * transaction. Deleted content is overwritten, since jobs' environments may hold secrets. */
#define SCHEMA_SESSION_SQL                                                                                   \
    "PRAGMA synchronous=FULL; PRAGMA journal_size_limit=16777216; PRAGMA temp_store=MEMORY; PRAGMA "         \
    "secure_delete=ON;"

/* Migrates a journal with the tables of `version`, within the caller's transaction. Returns SQLite's code. */
HAWK_MUST_USE int schema_update(sqlite3 *db, int64_t version);

#endif
