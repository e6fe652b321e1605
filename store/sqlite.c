/* The store in a file: see sqlite.h. */
#include "store/sqlite.h"

#include "base/entropy.h"
#include "base/mem.h"
#include "store/file.h"
#include "store/rows.h"
#include "store/store.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GROUP_MAX 16384 /* entries per commit: bounds how long the first of them waits */

struct backend {
    char *path;
    int lock_fd;
    struct rows rows;
};

static int op_commit(struct backend *b, const struct entry *first, const struct entry **last)
{
    int err = rows_begin(&b->rows), n = 0;

    for (const struct entry *e = first; e && n < GROUP_MAX; e = e->next, n++) {
        if (!err)
            err = rows_write(&b->rows, e);
        *last = e;
    }
    if (!err)
        err = rows_commit(&b->rows);
    if (err)
        rows_rollback(&b->rows);
    return err;
}

static int op_recover(struct backend *b, void (*fn)(void *arg, const struct msg *m), void *arg)
{
    return rows_recover(&b->rows, fn, arg);
}

static int op_meta_get(struct backend *b, const char *key, uint64_t *value)
{
    return rows_meta_get(&b->rows, key, value);
}

static int op_meta_set(struct backend *b, const char *key, uint64_t value)
{
    int err = rows_begin(&b->rows);

    if (!err)
        err = rows_meta_set(&b->rows, key, value);
    if (!err)
        err = rows_commit(&b->rows);
    if (err)
        rows_rollback(&b->rows);
    return err;
}

static int op_own(struct backend *b, const char *owner)
{
    char *found = NULL;
    int in_log = 0, back = 0;
    int err = rows_owner_get(&b->rows, &found);
    bool owned = found != NULL;

    free(found);
    if (err)
        return err;
    if (!owned) {
        err = rows_begin(&b->rows);
        if (!err)
            err = rows_owner_set(&b->rows, owner);
        if (!err)
            err = rows_commit(&b->rows);
        if (err)
            rows_rollback(&b->rows);
    }
    /* A copy of the file without its log must say whose it is. Who reads the file is not waited for: then op_scrub does it. */
    if (!err && (sqlite3_wal_checkpoint_v2(b->rows.db, NULL, SQLITE_CHECKPOINT_PASSIVE, &in_log, &back) !=
                     SQLITE_OK ||
                 back < in_log))
        b->rows.forgot = true;
    return err;
}

/* The log has what was in the pages before, until it is written back and emptied. Who reads the file, an operator's shell,
 * is not waited for. */
static int op_scrub(struct backend *b)
{
    int rc;

    if (!b->rows.forgot)
        return 0;
    sqlite3_busy_timeout(b->rows.db, 0);
    rc = sqlite3_wal_checkpoint_v2(b->rows.db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    sqlite3_busy_timeout(b->rows.db, FILE_BUSY_MS);
    if (rc == SQLITE_OK)
        b->rows.forgot = false;
    return rc == SQLITE_OK ? 0 : HAWK_EIO;
}

static const char *op_name(const struct backend *b) { return b->path; }
static const char *op_why(const struct backend *b) { return sqlite3_errmsg(b->rows.db); }

static void op_close(struct backend *b)
{
    sqlite3 *db = b->rows.db;

    rows_free(&b->rows);
    sqlite3_close(db);
    close(b->lock_fd);
    free(b->path);
    free(b);
}

const struct backend_ops sqlite_ops = {.commit = op_commit,
                                       .recover = op_recover,
                                       .meta_get = op_meta_get,
                                       .meta_set = op_meta_set,
                                       .own = op_own,
                                       .scrub = op_scrub,
                                       .scrub_ms = STORE_SCRUB_MS,
                                       .name = op_name,
                                       .why = op_why,
                                       .close = op_close};

/* The cluster's id, made at the first opening, and the count of openings. */
static int count_opening(struct rows *r, uint64_t *cluster, uint32_t *opened)
{
    uint64_t epoch = 0;
    int err = rows_meta_get(r, "cluster", cluster);

    if (err == HAWK_ENOT_FOUND)
        err = rows_meta_set(r, "cluster", *cluster = entropy_nonzero());
    if (!err)
        err = rows_meta_get(r, "epoch", &epoch);
    if (err == HAWK_ENOT_FOUND)
        err = 0;
    *opened = (uint32_t)epoch + 1;
    if (!err)
        err = rows_meta_set(r, "epoch", *opened);
    if (!err)
        err = rows_commit(r);
    return err;
}

static void ignore(void *arg, const struct msg *m) { (void)arg, (void)m; }

/* Whose it is; nobody's: as good as ours. */
static int check_owner(struct rows *r, const char *path, const char *owner, char *why, size_t why_size)
{
    char *found = NULL;
    int err = owner ? rows_owner_get(r, &found) : 0;

    if (!err && found && strcmp(found, owner) != 0) {
        err = HAWK_ECORRUPT;
        snprintf(
            why, why_size,
            "%s: it belongs to %s, and this is %s, who would run its jobs a second time: give this one a "
            "state_dir of its own, or, to go on with the jobs in the file, start it under that name",
            path, found, owner);
    } else if (err) {
        snprintf(why, why_size, "%s: cannot be read: %s", path, sqlite3_errmsg(r->db));
    }
    free(found);
    return err;
}

int sqlite_open(const char *path, const char *owner, struct backend **out, uint64_t *cluster, uint32_t *epoch,
                char *why, size_t why_size)
{
    struct backend *b;
    char log[PATH_MAX];
    sqlite3 *db;
    /* Of a process that was killed: it may have what that one had no time to make unreadable. */
    bool log_left = snprintf(log, sizeof log, "%s-wal", path) < (int)sizeof log && access(log, F_OK) == 0;
    int lock_fd, err = file_open(path, &db, &lock_fd, why, why_size);

    if (err)
        return err;
    b = xcalloc(1, sizeof *b);
    b->path = xstrdup(path);
    b->lock_fd = lock_fd;
    err = rows_init(&b->rows, db);
    /* Before anything is written: what cannot be read is refused, and left as it is. */
    if (!err)
        err = rows_recover(&b->rows, ignore, NULL);
    if (err == HAWK_ECORRUPT) {
        snprintf(why, why_size,
                 "%s: damaged (the log says which row): restore it from a copy; or move it, and %s-wal if "
                 "there is one,"
                 " away to start with an empty store",
                 path, path);
    } else if (err) {
        snprintf(why, why_size, "%s: cannot be read: %s", path, sqlite3_errmsg(db));
    } else if (!(err = check_owner(&b->rows, path, owner, why, why_size))) {
        err = count_opening(&b->rows, cluster, epoch);
        if (!err)
            err = rows_forget_old(&b->rows);
        b->rows.forgot |= log_left;
        if (err)
            snprintf(why, why_size, "%s: cannot be written: %s", path, sqlite3_errmsg(db));
    }
    if (err) {
        rows_rollback(&b->rows);
        op_close(b);
        return err;
    }
    file_accept(db);
    *out = b;
    return 0;
}
