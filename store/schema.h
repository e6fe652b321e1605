/* The store's tables. A change here is a new SCHEMA_VERSION, with the step from the one before in
 * store/file.c. */
#ifndef HAWK_STORE_SCHEMA_H
#define HAWK_STORE_SCHEMA_H

#define SCHEMA_APPLICATION_ID 0x4861776b /* "Hawk" */
#define SCHEMA_VERSION 6

/* Columns are named like the fields of the messages they keep (msg/msg.h); 64-bit unsigned numbers are
 * stored with the same bits as signed. `desc` is a JobSpec of protos/hawk.proto, `tasks` little-endian
 * u32s or NULL. Central's journal has no row that is not of an unfinished job, but for nodes; a dist's has those of ended
 * jobs as long as it keeps them, each with a row of `ended`. at_us is Unix time: when the job was first written, when it ended. */
#define SCHEMA_JOBS_2_SQL                                                                                    \
    "CREATE TABLE job(job INTEGER NOT NULL, epoch INTEGER NOT NULL, estimate_us INTEGER NOT NULL,"           \
    " why INTEGER NOT NULL, tasks BLOB, desc BLOB NOT NULL, cancelled INTEGER NOT NULL DEFAULT 0,"           \
    " PRIMARY KEY(job, epoch));"                                                                             \
    "CREATE TABLE task(job INTEGER NOT NULL, task INTEGER NOT NULL, epoch INTEGER NOT NULL,"                 \
    " attempt INTEGER NOT NULL, run_us INTEGER NOT NULL, code INTEGER NOT NULL, state INTEGER NOT NULL,"     \
    " outcome INTEGER NOT NULL, PRIMARY KEY(job, epoch, task)) WITHOUT ROWID;"
#define SCHEMA_2_TO_3_SQL                                                                                    \
    "ALTER TABLE job ADD COLUMN life INTEGER NOT NULL DEFAULT 0;"                                            \
    "ALTER TABLE job ADD COLUMN handed INTEGER NOT NULL DEFAULT 0;"                                          \
    "ALTER TABLE job ADD COLUMN class INTEGER NOT NULL DEFAULT 0;"                                           \
    "ALTER TABLE task ADD COLUMN worker INTEGER NOT NULL DEFAULT 0;"
#define SCHEMA_3_TO_4_SQL                                                                                    \
    "ALTER TABLE job ADD COLUMN owner INTEGER NOT NULL DEFAULT 0;"                                           \
    "CREATE TABLE ended(job INTEGER NOT NULL, epoch INTEGER NOT NULL, cutoff_us INTEGER NOT NULL,"           \
    " response_us INTEGER NOT NULL, at_us INTEGER NOT NULL, left_out INTEGER NOT NULL, state INTEGER NOT "   \
    "NULL, promoted INTEGER NOT NULL, PRIMARY KEY(job, epoch)) WITHOUT ROWID;"                               \
    "ALTER TABLE job ADD COLUMN at_us INTEGER NOT NULL DEFAULT 0;"
/* choice: a Policy of protos/store.proto. */
#define SCHEMA_4_TO_5_SQL "CREATE TABLE policy(id INTEGER PRIMARY KEY, choice BLOB NOT NULL);"
#define SCHEMA_5_TO_6_SQL "ALTER TABLE node ADD COLUMN next_seq INTEGER NOT NULL DEFAULT 0;"

#define SCHEMA_SQL                                                                                           \
    "PRAGMA journal_mode=WAL;"                                                                               \
    "BEGIN;"                                                                                                 \
    "PRAGMA application_id=1214347115;"                                                                      \
    "PRAGMA user_version=6;"                                                                                 \
    "CREATE TABLE meta(key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;"                         \
    "CREATE TABLE node(node INTEGER PRIMARY KEY, name BLOB NOT NULL, role INTEGER NOT NULL,"                 \
    " drained INTEGER NOT NULL DEFAULT 0);" SCHEMA_JOBS_2_SQL SCHEMA_2_TO_3_SQL SCHEMA_3_TO_4_SQL            \
        SCHEMA_4_TO_5_SQL SCHEMA_5_TO_6_SQL                                                                  \
    "CREATE TABLE history(id INTEGER PRIMARY KEY, name BLOB NOT NULL, mean_us INTEGER NOT NULL,"             \
    " task_us INTEGER NOT NULL, tasks INTEGER NOT NULL, class INTEGER NOT NULL);"                            \
    "COMMIT;"
_Static_assert(SCHEMA_APPLICATION_ID == 1214347115 && SCHEMA_VERSION == 6, "the same numbers as in the SQL");

/* From schema 1, within a transaction: jobs and tasks were kept by job alone, nobody was drained, cancelling was not
 * kept. */
#define SCHEMA_FROM_1_SQL                                                                                    \
    "ALTER TABLE node ADD COLUMN drained INTEGER NOT NULL DEFAULT 0;"                                        \
    "ALTER TABLE job RENAME TO job1; ALTER TABLE task RENAME TO task1;" SCHEMA_JOBS_2_SQL                    \
    "INSERT INTO job SELECT job, epoch, estimate_us, why, tasks, desc, 0 FROM job1;"                         \
    "INSERT INTO task SELECT job, task, epoch, attempt, run_us, code, state, outcome FROM task1;"            \
    "DROP TABLE job1; DROP TABLE task1;"                                                                     \
    "PRAGMA user_version=2;"
/* From schema 2: in which life of its dist a job was accepted, what central has of it, its class, and where a task ran
 * were not kept. */
#define SCHEMA_FROM_2_SQL SCHEMA_2_TO_3_SQL "PRAGMA user_version=3;"
/* From schema 3: of jobs that ended nothing was kept, nor the launches of those at most once: their life is not known.
 * Nor was when a job was accepted: it is as old as this. */
#define SCHEMA_FROM_3_SQL                                                                                    \
    SCHEMA_3_TO_4_SQL "UPDATE job SET life = 0, at_us = 1000000 * CAST(strftime('%s', 'now') AS INTEGER);"   \
                      "PRAGMA user_version=4;"

/* From schema 4: nothing was chosen of the policy that outlived a restart. */
#define SCHEMA_FROM_4_SQL SCHEMA_4_TO_5_SQL "PRAGMA user_version=5;"

/* From schema 5: which job numbers dists had given out was not kept: it is not known. */
#define SCHEMA_FROM_5_SQL SCHEMA_5_TO_6_SQL "PRAGMA user_version=6;"

/* FULL: a commit is synced before it is told of. The log is cut back to 16 MiB after a large
 * transaction. What is deleted is overwritten: jobs' environments may hold secrets. */
#define SCHEMA_SESSION_SQL                                                                                   \
    "PRAGMA synchronous=FULL; PRAGMA journal_size_limit=16777216; PRAGMA temp_store=MEMORY; PRAGMA "         \
    "secure_delete=ON;"

#endif
