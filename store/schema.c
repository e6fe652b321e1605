/* Migrates journals of earlier versions, one step for each version: see schema.h. Until version 6 every record had a
 * table of its own, with columns named like the fields of its message. */
#include "store/schema.h"

#include "msg/records.h"
#include "net/fields.h"

#include <stdlib.h>

#define TEXT_OF(number) TEXT(number)
#define TEXT(number) #number

#define JOBS_2_SQL                                                                                           \
    "CREATE TABLE job(job INTEGER NOT NULL, epoch INTEGER NOT NULL, estimate_us INTEGER NOT NULL,"           \
    " why INTEGER NOT NULL, tasks BLOB, desc BLOB NOT NULL, cancelled INTEGER NOT NULL DEFAULT 0,"           \
    " PRIMARY KEY(job, epoch));"                                                                             \
    "CREATE TABLE task(job INTEGER NOT NULL, task INTEGER NOT NULL, epoch INTEGER NOT NULL,"                 \
    " attempt INTEGER NOT NULL, run_us INTEGER NOT NULL, code INTEGER NOT NULL, state INTEGER NOT NULL,"     \
    " outcome INTEGER NOT NULL, PRIMARY KEY(job, epoch, task)) WITHOUT ROWID;"

static const char *const steps[SCHEMA_VERSION] = {
    /* Version 1 kept jobs and tasks by job alone, and neither drained nodes nor cancelled jobs. */
    [1] = "ALTER TABLE node ADD COLUMN drained INTEGER NOT NULL DEFAULT 0;"
          "ALTER TABLE job RENAME TO job1; ALTER TABLE task RENAME TO task1;" JOBS_2_SQL
          "INSERT INTO job SELECT job, epoch, estimate_us, why, tasks, desc, 0 FROM job1;"
          "INSERT INTO task SELECT job, task, epoch, attempt, run_us, code, state, outcome FROM task1;"
          "DROP TABLE job1; DROP TABLE task1;",
    /* Version 2 did not keep in which life of its dist a job was accepted, what central has of it, its
     * class, or where a task ran. */
    [2] = "ALTER TABLE job ADD COLUMN life INTEGER NOT NULL DEFAULT 0;"
          "ALTER TABLE job ADD COLUMN handed INTEGER NOT NULL DEFAULT 0;"
          "ALTER TABLE job ADD COLUMN class INTEGER NOT NULL DEFAULT 0;"
          "ALTER TABLE task ADD COLUMN worker INTEGER NOT NULL DEFAULT 0;",
    /* Version 3 kept nothing of ended jobs, and no launches of at-most-once jobs: their life is not known.
     * It did not keep when a job was accepted: the job is as old as this step. */
    [3] = "ALTER TABLE job ADD COLUMN owner INTEGER NOT NULL DEFAULT 0;"
          "CREATE TABLE ended(job INTEGER NOT NULL, epoch INTEGER NOT NULL, cutoff_us INTEGER NOT NULL,"
          " response_us INTEGER NOT NULL, at_us INTEGER NOT NULL, left_out INTEGER NOT NULL, state INTEGER "
          "NOT NULL, promoted INTEGER NOT NULL, PRIMARY KEY(job, epoch)) WITHOUT ROWID;"
          "ALTER TABLE job ADD COLUMN at_us INTEGER NOT NULL DEFAULT 0;"
          "UPDATE job SET life = 0, at_us = 1000000 * CAST(strftime('%s', 'now') AS INTEGER);",
    /* Version 4 kept no choice of the policy. */
    [4] = "CREATE TABLE policy(id INTEGER PRIMARY KEY, choice BLOB NOT NULL);",
    /* Version 5 did not keep which job numbers dists had given out: they are not known. */
    [5] = "ALTER TABLE node ADD COLUMN next_seq INTEGER NOT NULL DEFAULT 0;",
    /* Version 6 had a table for every record, and kept two records as numbers in meta. */
    [6] = SCHEMA_RECORD_SQL
    "INSERT INTO record SELECT record_table('HISTORY'), id, 0, 0, value_of(name, mean_us, task_us, tasks, "
    "class) FROM history;"
    "INSERT INTO record SELECT record_table('POLICY'), 0, 0, 0, choice FROM policy;"
    "INSERT INTO record SELECT record_table('CLUSTER'), 0, 0, 0, value_of(value,"
    " (SELECT value FROM meta WHERE key = 'first_node'), (SELECT value FROM meta WHERE key = 'young'))"
    " FROM meta WHERE key = 'former';"
    "INSERT INTO record SELECT record_table('NUMBERS'), 0, 0, 0, value_of(value)"
    " FROM meta WHERE key = 'next_seq';"
    "DELETE FROM meta WHERE key IN ('former', 'first_node', 'young', 'next_seq');"
    "INSERT INTO record SELECT record_table('NODE'), node, 0, 0, value_of(name, role, drained, next_seq)"
    " FROM node;"
    "INSERT INTO job_record SELECT job, epoch, value_of(estimate_us, why, tasks, desc,"
    " NULL, NULL, life, handed, class, at_us) FROM job;"
    "INSERT INTO record SELECT record_table('JOB'), job, epoch,"
    " CASE typeof(task) WHEN 'integer' THEN task + 1 END,"
    " value_of(attempt, run_us, code, state, outcome, worker) FROM task;"
    "INSERT INTO record SELECT record_table('JOB'), job, epoch, record_part('CANCEL'), x''"
    " FROM job WHERE cancelled <> 0;"
    "INSERT INTO record SELECT record_table('JOB'), job, epoch, record_part('ENDED'),"
    " value_of(cutoff_us, response_us, at_us, left_out, state, promoted) FROM ended;"
    "INSERT INTO record SELECT record_table('JOB'), job, epoch, record_part('OWNER'), value_of(owner)"
    " FROM job WHERE owner <> 0;"
    "DROP TABLE history; DROP TABLE policy; DROP TABLE node; DROP TABLE job; DROP TABLE task;"
    "DROP TABLE ended;",
};
_Static_assert(PART_TASK == 1, "as in the step from 6");

/* ---- Functions for the step from 6 ---- */

static void sql_table(sqlite3_context *to, int n, sqlite3_value **v)
{
    static const char *const names[] = {
#define T(TABLE, text, digits) #TABLE,
        RECORD_TABLES(T)
#undef T
    };

    for (int i = 0; i < TABLE_COUNT; i++)
        if (strcmp(names[i], (const char *)sqlite3_value_text(v[0])) == 0)
            sqlite3_result_int(to, i);
}

static void sql_part(sqlite3_context *to, int n, sqlite3_value **v)
{
#define P(PART, text)                                                                                        \
    if (strcmp(#PART, (const char *)sqlite3_value_text(v[0])) == 0)                                          \
        sqlite3_result_int(to, PART_##PART);
    RECORD_PARTS(P)
#undef P
}

/* Makes a record's value: its fields in the order of their numbers. A column that is no number becomes
 * bytes. If the field is a number, the record is refused when it is read. */
static void sql_value(sqlite3_context *to, int n, sqlite3_value **v)
{
    struct codec_buf b = {0};

    for (int i = 0; i < n; i++) {
        uint32_t number = (uint32_t)i + 1;

        if (sqlite3_value_type(v[i]) == SQLITE_INTEGER)
            put_int64(&b, number, sqlite3_value_int64(v[i]));
        else if (sqlite3_value_type(v[i]) != SQLITE_NULL)
            wire_put_bytes(&b, number, sqlite3_value_blob(v[i]), (size_t)sqlite3_value_bytes(v[i]));
    }
    if (b.len > 0)
        sqlite3_result_blob64(to, b.data, b.len, SQLITE_TRANSIENT);
    else
        sqlite3_result_zeroblob(to, 0);
    codec_buf_free(&b);
}

int schema_update(sqlite3 *db, int64_t version)
{
    const int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC;
    int rc = sqlite3_create_function(db, "record_table", 1, flags, NULL, sql_table, NULL, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3_create_function(db, "record_part", 1, flags, NULL, sql_part, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_create_function(db, "value_of", -1, flags, NULL, sql_value, NULL, NULL);
    for (int64_t i = version; rc == SQLITE_OK && i < SCHEMA_VERSION; i++)
        rc = sqlite3_exec(db, steps[i], NULL, NULL, NULL);
    return rc == SQLITE_OK
               ? sqlite3_exec(db, "PRAGMA user_version=" TEXT_OF(SCHEMA_VERSION), NULL, NULL, NULL)
               : rc;
}
