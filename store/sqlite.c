/* The store in a file: see sqlite.h. */
#include "store/sqlite.h"

#include "base/entropy.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/file.h"
#include "store/schema.h"
#include "store/store.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum statement {
    STATEMENT_BEGIN,
    STATEMENT_COMMIT,
    STATEMENT_PUT,
    STATEMENT_PUT_JOB,
    STATEMENT_LAST,
    STATEMENT_REMOVE,
    STATEMENT_REMOVE_JOB,
    STATEMENT_GET,
    STATEMENT_GET_JOB,
    STATEMENT_SCAN,
    STATEMENT_SCAN_JOB,
    STATEMENT_SCAN_HISTORY,
    STATEMENT_META_GET,
    STATEMENT_META_SET,
    STATEMENT_COUNT_COMMIT,
    STATEMENT_COUNT
};

struct backend {
    char *path;
    int lock_fd;
    sqlite3 *db;
    sqlite3_stmt *v[STATEMENT_COUNT];
    int64_t history; /* the last record's number in the history; -1: it must be read */
    bool forgot;     /* an environment was removed, and is in the log until that is emptied */
    bool moved;      /* at the last commit the file was not in its place */
};

/* ---- Statements ---- */

#define SCAN_SQL "SELECT tab, id, epoch, part, value FROM record"
#define SCAN_JOBS_SQL "SELECT ?, id, epoch, ?, value FROM job_record"
#define JOB_SQL " WHERE id = ? AND epoch = ?"
#define KEY_SQL " WHERE tab = ? AND id = ? AND epoch = ?"

static const char *const sql[STATEMENT_COUNT] = {
    [STATEMENT_BEGIN] = "BEGIN IMMEDIATE",
    [STATEMENT_COMMIT] = "COMMIT",
    [STATEMENT_PUT] = "REPLACE INTO record(tab, id, epoch, part, value) VALUES(?, ?, ?, ?, ?)",
    [STATEMENT_PUT_JOB] = "REPLACE INTO job_record(id, epoch, value) VALUES(?, ?, ?)",
    [STATEMENT_LAST] = "SELECT coalesce(max(id), 0) FROM record WHERE tab = ?",
    [STATEMENT_REMOVE] = "DELETE FROM record" KEY_SQL " AND part BETWEEN ? AND ?",
    [STATEMENT_REMOVE_JOB] = "DELETE FROM job_record" JOB_SQL,
    [STATEMENT_GET_JOB] = "SELECT value FROM job_record" JOB_SQL,
    [STATEMENT_GET] = "SELECT value FROM record" KEY_SQL " AND part = ?",
    [STATEMENT_SCAN] = SCAN_JOBS_SQL " UNION ALL " SCAN_SQL " ORDER BY 1, 2, 3, 4",
    [STATEMENT_SCAN_JOB] = SCAN_SQL KEY_SQL " AND part > ? ORDER BY part",
    [STATEMENT_SCAN_HISTORY] = SCAN_SQL " WHERE tab = ? ORDER BY id",
    [STATEMENT_META_GET] = "SELECT value FROM meta WHERE key = ?",
    [STATEMENT_META_SET] = "REPLACE INTO meta(key, value) VALUES(?, ?)",
    [STATEMENT_COUNT_COMMIT] =
        "REPLACE INTO meta(key, value) SELECT 'commits', 1 + coalesce((SELECT value FROM "
        "meta WHERE key = 'commits'), 0)",
};

static int prepare_statements(struct backend *b)
{
    for (int i = 0; i < STATEMENT_COUNT; i++) {
        int rc = sqlite3_prepare_v3(b->db, sql[i], -1, SQLITE_PREPARE_PERSISTENT, &b->v[i], NULL);

        if (rc != SQLITE_OK) {
            log_error("the journal's tables: %s", sqlite3_errmsg(b->db));
            return rc == SQLITE_ERROR ? HAWK_ECORRUPT : HAWK_EIO; /* a column is not there */
        }
    }
    return 0;
}

static void bind_numbers(sqlite3_stmt *st, const int64_t *v, int n)
{
    for (int i = 0; i < n; i++)
        sqlite3_bind_int64(st, i + 1, v[i]);
}
#define BIND(st, ...)                                                                                        \
    bind_numbers((st), (const int64_t[]){__VA_ARGS__},                                                       \
                 (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))
#define BIND_KEY(st, k) BIND(st, (k)->table, (int64_t)(k)->id, (k)->epoch, (k)->part)

static void bind_bytes(sqlite3_stmt *st, int at, struct span v)
{
    sqlite3_bind_blob64(st, at, v.len ? v.data : "", v.len,
                        SQLITE_STATIC); /* NULL data would be an SQL NULL */
}

/* Runs a statement that returns no rows, and clears its bindings. */
static int run_statement(struct backend *b, enum statement which)
{
    sqlite3_stmt *st = b->v[which];
    int rc = sqlite3_step(st);

    sqlite3_reset(st);
    sqlite3_clear_bindings(st);
    return rc == SQLITE_DONE ? 0 : HAWK_EIO;
}

/* ---- Transactions ---- */

static int op_begin(struct backend *b) { return run_statement(b, STATEMENT_BEGIN); }

static bool is_job(const struct record_key *k) { return k->table == TABLE_JOB && k->part == PART_JOB; }

static int op_put(struct backend *b, const struct record_key *k, struct span value)
{
    if (is_job(k)) {
        BIND(b->v[STATEMENT_PUT_JOB], (int64_t)k->id, k->epoch);
        bind_bytes(b->v[STATEMENT_PUT_JOB], 3, value);
        return run_statement(b, STATEMENT_PUT_JOB);
    }
    BIND_KEY(b->v[STATEMENT_PUT], k);
    bind_bytes(b->v[STATEMENT_PUT], 5, value);
    return run_statement(b, STATEMENT_PUT);
}

static int read_last(struct backend *b)
{
    sqlite3_stmt *st = b->v[STATEMENT_LAST];

    BIND(st, TABLE_HISTORY);
    int rc = sqlite3_step(st);
    if (rc == SQLITE_ROW)
        b->history = sqlite3_column_int64(st, 0);
    sqlite3_reset(st);
    return rc == SQLITE_ROW ? 0 : HAWK_EIO;
}

static int op_append(struct backend *b, struct span value, uint64_t *id)
{
    int err = b->history < 0 ? read_last(b) : 0;

    if (err)
        return err;
    *id = (uint64_t)++b->history;
    return op_put(b, &(struct record_key){.table = TABLE_HISTORY, .id = *id}, value);
}

static int op_remove(struct backend *b, const struct record_key *k, uint32_t last)
{
    int err = 0;

    if (is_job(k)) {
        BIND(b->v[STATEMENT_REMOVE_JOB], (int64_t)k->id, k->epoch);
        err = run_statement(b, STATEMENT_REMOVE_JOB);
    }
    BIND(b->v[STATEMENT_REMOVE], k->table, (int64_t)k->id, k->epoch, k->part, last);
    return err ? err : run_statement(b, STATEMENT_REMOVE);
}

static void op_forgot(struct backend *b) { b->forgot = true; }

/* Whether somebody moved or removed the file or its log. SQLite writes on into what it has open, where the next
 * process will not find it. */
static bool was_moved(const struct backend *b)
{
    char log[PATH_MAX];
    int moved = 0;

    snprintf(log, sizeof log, "%s-wal", b->path);
    return (sqlite3_file_control(b->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK && moved) ||
           access(log, F_OK) < 0;
}

static int op_commit(struct backend *b)
{
    int err = run_statement(b, STATEMENT_COUNT_COMMIT); /* store/file.c: whose log it is */

    b->moved = !err && was_moved(b);
    if (b->moved)
        return HAWK_EIO;
    return err ? err : run_statement(b, STATEMENT_COMMIT);
}

static void op_rollback(struct backend *b)
{
    b->history = -1;
    if (!sqlite3_get_autocommit(b->db)) /* some errors have rolled back already */
        sqlite3_exec(b->db, "ROLLBACK", NULL, NULL, NULL);
}

static bool op_fits(const struct backend *b, const struct entry *e) { return true; }

/* ---- Reading ---- */

static int op_get(struct backend *b, const struct record_key *k, struct codec_buf *value)
{
    sqlite3_stmt *st = b->v[is_job(k) ? STATEMENT_GET_JOB : STATEMENT_GET];

    if (is_job(k))
        BIND(st, (int64_t)k->id, k->epoch);
    else
        BIND_KEY(st, k);
    int rc = sqlite3_step(st);
    if (rc == SQLITE_ROW)
        codec_buf_append(value, sqlite3_column_blob(st, 0), (size_t)sqlite3_column_bytes(st, 0));
    sqlite3_reset(st);
    return rc == SQLITE_ROW ? 0 : rc == SQLITE_DONE ? HAWK_ENOT_FOUND : HAWK_EIO;
}

/* Reads the row's key. False: no record has such a key. */
static bool row_key(sqlite3_stmt *st, struct record_key *k)
{
    int64_t table = sqlite3_column_int64(st, 0), epoch = sqlite3_column_int64(st, 2),
            part = sqlite3_column_int64(st, 3);

    *k = (struct record_key){.table = (enum record_table)table,
                             .id = (uint64_t)sqlite3_column_int64(st, 1),
                             .epoch = (uint16_t)epoch,
                             .part = (uint32_t)part};
    return table >= 0 && table < TABLE_COUNT && epoch == k->epoch && part == k->part;
}

/* Reads the rows of st, which is bound. */
static int scan_rows(struct backend *b, sqlite3_stmt *st, scan_fn *fn, void *arg)
{
    struct record_key k;
    int rc = SQLITE_DONE, err = 0;

    while (!err && (rc = sqlite3_step(st)) == SQLITE_ROW) {
        struct span value = {sqlite3_column_blob(st, 4), (size_t)sqlite3_column_bytes(st, 4)};

        if (row_key(st, &k)) {
            err = fn(arg, &k, value);
        } else {
            log_error("%s: a record has the key %" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64
                      ", which none can have: restore the file from a copy",
                      b->path, (int64_t)sqlite3_column_int64(st, 0), (int64_t)sqlite3_column_int64(st, 1),
                      (int64_t)sqlite3_column_int64(st, 2), (int64_t)sqlite3_column_int64(st, 3));
            err = HAWK_ECORRUPT;
        }
    }
    if (!err && rc != SQLITE_DONE)
        err = rc == SQLITE_CORRUPT ? HAWK_ECORRUPT : HAWK_EIO;
    sqlite3_reset(st);
    return err;
}

static int op_scan(struct backend *b, const struct record_key *job, scan_fn *fn, void *arg)
{
    sqlite3_stmt *st = b->v[job ? STATEMENT_SCAN_JOB : STATEMENT_SCAN];

    if (job)
        BIND(st, job->table, (int64_t)job->id, job->epoch, PART_JOB);
    else
        BIND(st, TABLE_JOB, PART_JOB);
    return scan_rows(b, st, fn, arg);
}

static int op_scan_history(struct backend *b, scan_fn *fn, void *arg)
{
    BIND(b->v[STATEMENT_SCAN_HISTORY], TABLE_HISTORY);
    return scan_rows(b, b->v[STATEMENT_SCAN_HISTORY], fn, arg);
}

/* ---- Numbers, and the owner ---- */

static int meta_value(struct backend *b, const char *key, uint64_t *number, char **text)
{
    sqlite3_stmt *st = b->v[STATEMENT_META_GET];

    sqlite3_bind_text(st, 1, key, -1, SQLITE_STATIC);
    int rc = sqlite3_step(st);
    if (rc == SQLITE_ROW && number)
        *number = (uint64_t)sqlite3_column_int64(st, 0);
    if (rc == SQLITE_ROW && text) {
        const void *data = sqlite3_column_blob(st, 0);
        size_t n = (size_t)sqlite3_column_bytes(st, 0);

        *text = xmemdup0(data, n);
    }
    sqlite3_reset(st);
    sqlite3_clear_bindings(st);
    return rc == SQLITE_ROW ? 0 : rc == SQLITE_DONE ? HAWK_ENOT_FOUND : HAWK_EIO;
}

static int op_meta_get(struct backend *b, const char *key, uint64_t *value)
{
    return meta_value(b, key, value, NULL);
}

static int put_number(struct backend *b, const char *key, uint64_t value)
{
    sqlite3_bind_text(b->v[STATEMENT_META_SET], 1, key, -1, SQLITE_STATIC);
    sqlite3_bind_int64(b->v[STATEMENT_META_SET], 2, (int64_t)value);
    return run_statement(b, STATEMENT_META_SET);
}

/* Ends a transaction: commits if err, the result of the writes since begin, is 0. */
static int end_writing(struct backend *b, int err)
{
    if (!err)
        err = op_commit(b);
    if (err)
        op_rollback(b);
    return err;
}

static int op_meta_set(struct backend *b, const char *key, uint64_t value)
{
    int err = op_begin(b);

    return end_writing(b, err ? err : put_number(b, key, value));
}

/* *owner: a string that the caller frees; NULL: the file has none. */
static int get_owner(struct backend *b, char **owner)
{
    *owner = NULL;
    int err = meta_value(b, "owner", NULL, owner);
    return err == HAWK_ENOT_FOUND ? 0 : err;
}

/* Stores the owner as bytes: SQLite would make a number of a text of digits in that column. */
static int put_owner(struct backend *b, const char *owner)
{
    sqlite3_bind_text(b->v[STATEMENT_META_SET], 1, "owner", -1, SQLITE_STATIC);
    bind_bytes(b->v[STATEMENT_META_SET], 2, span_text(owner));
    return run_statement(b, STATEMENT_META_SET);
}

static int op_own(struct backend *b, const char *owner)
{
    char *found;
    int in_log = 0, back = 0;
    int err = get_owner(b, &found);
    bool owned = found != NULL;

    free(found);
    if (err)
        return err;
    if (!owned) {
        err = op_begin(b);
        err = end_writing(b, err ? err : put_owner(b, owner));
    }
    /* A copy of the file without its log must name its owner. This does not wait for other readers of the
     * file; op_scrub does it later then. */
    if (!err &&
        (sqlite3_wal_checkpoint_v2(b->db, NULL, SQLITE_CHECKPOINT_PASSIVE, &in_log, &back) != SQLITE_OK ||
         back < in_log))
        b->forgot = true;
    return err;
}

/* ---- The rest of backend.h ---- */

/* The log keeps the old content of pages until it is written back and emptied. This does not wait for
 * other readers of the file, such as an operator's shell. */
static int op_scrub(struct backend *b)
{
    if (!b->forgot)
        return 0;
    sqlite3_busy_timeout(b->db, 0);
    int rc = sqlite3_wal_checkpoint_v2(b->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    sqlite3_busy_timeout(b->db, FILE_BUSY_MS);
    if (rc == SQLITE_OK)
        b->forgot = false;
    return rc == SQLITE_OK ? 0 : HAWK_EIO;
}

static const char *op_name(const struct backend *b) { return b->path; }
static const char *op_why(const struct backend *b)
{
    return b->moved ? "it or its log (-wal) was moved or removed under this process: put both back; if "
                      "they are lost, move away what is left of them and restart this daemon, which then "
                      "begins with an empty store"
                    : sqlite3_errmsg(b->db);
}

static void op_close(struct backend *b)
{
    for (int i = 0; i < STATEMENT_COUNT; i++)
        sqlite3_finalize(b->v[i]);
    sqlite3_close(b->db);
    close(b->lock_fd);
    free(b->path);
    free(b);
}

const struct backend_ops sqlite_ops = {.begin = op_begin,
                                       .put = op_put,
                                       .append = op_append,
                                       .remove = op_remove,
                                       .forgot = op_forgot,
                                       .commit = op_commit,
                                       .rollback = op_rollback,
                                       .fits = op_fits,
                                       .get = op_get,
                                       .scan = op_scan,
                                       .scan_history = op_scan_history,
                                       .remedy = "the file from a copy",
                                       .meta_get = op_meta_get,
                                       .meta_set = op_meta_set,
                                       .own = op_own,
                                       .scrub = op_scrub,
                                       .scrub_ms = STORE_SCRUB_MS,
                                       .name = op_name,
                                       .why = op_why,
                                       .close = op_close};

/* ---- Opening ---- */

/* Returns the cluster's id, made at the first opening, and the count of openings. */
static int count_opening(struct backend *b, uint64_t *cluster, uint32_t *opened)
{
    uint64_t epoch = 0;
    int err = op_meta_get(b, "cluster", cluster);

    if (err == HAWK_ENOT_FOUND)
        err = put_number(b, "cluster", *cluster = entropy_nonzero());
    if (!err)
        err = op_meta_get(b, "epoch", &epoch);
    if (err == HAWK_ENOT_FOUND)
        err = 0;
    *opened = (uint32_t)epoch + 1;
    if (!err)
        err = put_number(b, "epoch", *opened);
    return err ? err : op_commit(b);
}

static void ignore(void *arg, const struct msg *m) {}

/* Checks the owner. A file without owner is as good as ours. */
static int check_owner(struct backend *b, const char *owner, char *why, size_t why_size)
{
    char *found = NULL;
    int err = owner ? get_owner(b, &found) : 0;

    if (!err && found && strcmp(found, owner) != 0) {
        err = HAWK_ECORRUPT;
        snprintf(
            why, why_size,
            "%s: it belongs to %s, and this is %s, who would run its jobs a second time: give this one a "
            "state_dir of its own, or, to go on with the jobs in the file, start it under that name",
            b->path, found, owner);
    } else if (err) {
        snprintf(why, why_size, "%s: cannot be read: %s", b->path, sqlite3_errmsg(b->db));
    }
    free(found);
    return err;
}

/* Reads every record, within the transaction that file_open began and before anything is written. A file
 * with a record that cannot be read is refused, and stays as it is. */
static int check_records(struct backend *b, char *why, size_t why_size)
{
    int err = prepare_statements(b);

    if (!err)
        err = records_recover(&sqlite_ops, b, false, ignore, NULL);
    if (err == HAWK_ECORRUPT)
        snprintf(why, why_size, "%s: damaged (the log says which row): " STORE_DAMAGED_REMEDY, b->path,
                 b->path);
    else if (err)
        snprintf(why, why_size, "%s: cannot be read: %s", b->path, sqlite3_errmsg(b->db));
    return err;
}

int sqlite_open(const char *path, const char *owner, struct backend **out, uint64_t *cluster, uint32_t *epoch,
                char *why, size_t why_size)
{
    struct backend *b;
    char log[PATH_MAX];
    sqlite3 *db;
    /* A process that was killed left this log. It may hold content that the process had no time to scrub. */
    bool log_left = snprintf(log, sizeof log, "%s-wal", path) < (int)sizeof log && access(log, F_OK) == 0;
    bool updated;
    int lock_fd, err = file_open(path, &db, &lock_fd, &updated, why, why_size);

    if (err)
        return err;
    b = xcalloc(1, sizeof *b);
    b->path = xstrdup(path);
    b->lock_fd = lock_fd;
    b->db = db;
    b->history = -1;
    b->forgot = log_left || updated;
    err = check_records(b, why, why_size);
    if (!err)
        err = check_owner(b, owner, why, why_size);
    if (err)
        goto out;
    err = count_opening(b, cluster, epoch);
    if (!err && updated)
        err = records_forget_old(&sqlite_ops, b);
    if (err)
        snprintf(why, why_size, "%s: cannot be written: %s: make room for it, then start again", path,
                 sqlite3_errmsg(db));
out:
    if (err) {
        op_rollback(b);
        op_close(b);
        return err;
    }
    file_accept(db);
    *out = b;
    return 0;
}
