/* The tables of the store's file, and how those of earlier versions become them. */
#ifndef HAWK_STORE_SCHEMA_H
#define HAWK_STORE_SCHEMA_H

#include "base/err.h"

#include <sqlite3.h>
#include <stdint.h>

#define SCHEMA_APPLICATION_ID 0x4861776b /* "Hawk" */
#define SCHEMA_VERSION 7

/* A new file. record: the record_key of msg/records.h, with `id` in the same bits as signed, and the value. job_record: the
 * same of jobs themselves (TABLE_JOB, PART_JOB), whose values may be large: without an own table each would take a page more
 * of the file and of its log. meta: numbers by name, 64-bit unsigned ones with the same bits as signed, and the owner as
 * bytes. */
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

/* FULL: a commit is synced before it is told of. The log is cut back to 16 MiB after a large
 * transaction. What is deleted is overwritten: jobs' environments may hold secrets. */
#define SCHEMA_SESSION_SQL                                                                                   \
    "PRAGMA synchronous=FULL; PRAGMA journal_size_limit=16777216; PRAGMA temp_store=MEMORY; PRAGMA "         \
    "secure_delete=ON;"

/* Brings the tables of `version` up to date, within the caller's transaction. What it returns is SQLite's. */
HAWK_MUST_USE int schema_update(sqlite3 *db, int64_t version);

#endif
