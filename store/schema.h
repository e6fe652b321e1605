/* The store's tables. A change here is a new SCHEMA_VERSION, with the step from the one before in
 * store/file.c. */
#ifndef HAWK_STORE_SCHEMA_H
#define HAWK_STORE_SCHEMA_H

#define SCHEMA_APPLICATION_ID 0x4861776b /* "Hawk" */
#define SCHEMA_VERSION 1

/* Columns are named like the fields of the messages they keep (msg/msg.h); 64-bit unsigned numbers are
 * stored with the same bits as signed. `desc` is a JobSpec of protos/hawk.proto, `tasks` little-endian
 * u32s or NULL. A journal has no row that is not of an unfinished job, but for nodes. */
#define SCHEMA_SQL                                                                                           \
    "PRAGMA journal_mode=WAL;"                                                                               \
    "BEGIN;"                                                                                                 \
    "PRAGMA application_id=1214347115;"                                                                      \
    "PRAGMA user_version=1;"                                                                                 \
    "CREATE TABLE meta(key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;"                         \
    "CREATE TABLE node(node INTEGER PRIMARY KEY, name BLOB NOT NULL, role INTEGER NOT NULL);"                \
    "CREATE TABLE job(job INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, estimate_us INTEGER NOT NULL,"        \
    " why INTEGER NOT NULL, tasks BLOB, desc BLOB NOT NULL);"                                                \
    "CREATE TABLE task(job INTEGER NOT NULL, task INTEGER NOT NULL, epoch INTEGER NOT NULL,"                 \
    " attempt INTEGER NOT NULL, run_us INTEGER NOT NULL, code INTEGER NOT NULL, state INTEGER NOT NULL,"     \
    " outcome INTEGER NOT NULL, PRIMARY KEY(job, task)) WITHOUT ROWID;"                                      \
    "CREATE TABLE history(id INTEGER PRIMARY KEY, name BLOB NOT NULL, mean_us INTEGER NOT NULL,"             \
    " task_us INTEGER NOT NULL, tasks INTEGER NOT NULL, class INTEGER NOT NULL);"                            \
    "COMMIT;"
_Static_assert(SCHEMA_APPLICATION_ID == 1214347115 && SCHEMA_VERSION == 1, "the same numbers as in the SQL");

/* FULL: a commit is synced before it is told of. The log is cut back to 16 MiB after a large
 * transaction. */
#define SCHEMA_SESSION_SQL                                                                                   \
    "PRAGMA synchronous=FULL; PRAGMA journal_size_limit=16777216; PRAGMA temp_store=MEMORY;"

#endif
