/* Opens the store's file, or refuses to.
 *
 * A new file is made under another name, and linked into place when it is complete. So the file at the
 * path is never a half-made store, and an empty file there is not ours. */
#include "store/file.h"

#include "base/io.h"
#include "store/schema.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEADER_BYTES 100 /* of an SQLite file; offsets from its file format's description */
#define HEADER_USER_VERSION 60
#define HEADER_APPLICATION_ID 68
/* The log of an SQLite file: a header, then a frame for each page. Numbers are big-endian. */
#define LOG_HEADER_BYTES 32
#define LOG_HEADER_PAGE 8
#define LOG_HEADER_SALT 16
#define LOG_SALT_BYTES 8
#define LOG_FRAME_BYTES 24
#define LOG_FRAME_COMMIT 4 /* not 0: the frame is the last one of a transaction */
#define LOG_FRAME_SALT 8
#define REMEDY "give another path, or move it away to start with an empty store"

struct refusal {
    char *why;
    size_t size;
};

static int HAWK_PRINTF(3, 4) refuse_file(const struct refusal *r, int err, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    if (r->size)
        vsnprintf(r->why, r->size, fmt, ap);
    va_end(ap);
    return err;
}

/* ---- The lock ---- */

static void read_owner(int fd, char *text, size_t size)
{
    ssize_t n = pread(fd, text, size - 1, 0);

    text[n > 0 ? n : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
}

/* Whether fd is of the file at that path, which a process that made it and was refused removes. */
static bool is_at(int fd, const char *path)
{
    struct stat at, of;

    return stat(path, &at) == 0 && fstat(fd, &of) == 0 && at.st_dev == of.st_dev && at.st_ino == of.st_ino;
}

/* *made: the lock file was not there before. */
static int lock_file(const char *path, const char *lock_path, int *fd, bool *made, const struct refusal *r)
{
    char owner[32];
    int n;

    for (bool locked = false; !locked;) {
        *fd = open(lock_path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        *made = *fd >= 0;
        if (*fd < 0 && errno == EEXIST) {
            *fd = open(lock_path, O_RDWR | O_CLOEXEC);
            if (*fd < 0 && errno == ENOENT) /* it is gone by now */
                continue;
        }
        if (*fd < 0)
            return refuse_file(r, HAWK_EIO,
                               "%s: cannot make the lock file: %s: the directory must exist and be writable",
                               lock_path, strerror(errno));
        if (flock(*fd, LOCK_EX | LOCK_NB) < 0) {
            read_owner(*fd, owner, sizeof owner);
            close(*fd);
            return refuse_file(r, HAWK_EBUSY,
                               "%s: process %s has this store open (%s): stop it, or give another path", path,
                               *owner ? owner : "?", lock_path);
        }
        locked = is_at(*fd, lock_path);
        if (!locked)
            close(*fd);
    }
    n = snprintf(owner, sizeof owner, "%d\n", (int)getpid());
    if (ftruncate(*fd, 0) < 0 || pwrite(*fd, owner, (size_t)n, 0) != n) {
        /* A failure only spoils the text for another process that is refused. */
    }
    return 0;
}

/* ---- What is there already ---- */

static uint32_t header_u32(const unsigned char *header, size_t at)
{
    uint32_t v;

    memcpy(&v, header + at, sizeof v);
    return be32toh(v);
}

static int check_version(const char *path, int64_t application, int64_t version, const struct refusal *r)
{
    if (application != SCHEMA_APPLICATION_ID)
        return refuse_file(r, HAWK_ECORRUPT, "%s: an SQLite file of another program: " REMEDY, path);
    if (version > SCHEMA_VERSION)
        return refuse_file(r, HAWK_EVERSION,
                           "%s: written by a newer Hawk (schema %" PRId64
                           ", this one knows %d): use that version, or %s",
                           path, version, SCHEMA_VERSION, REMEDY);
    if (version < 1)
        return refuse_file(r, HAWK_ECORRUPT, "%s: no schema version in it: %s", path, REMEDY);
    return 0;
}

static int check_log_kind(const char *path, const struct refusal *r)
{
    char wal[PATH_MAX];
    struct stat st;

    snprintf(wal, sizeof wal, "%s-wal", path);
    if (stat(wal, &st) == 0 && !S_ISREG(st.st_mode))
        return refuse_file(r, HAWK_EIO, "%s: not a regular file: move it away", wal);
    return 0;
}

/* Reads the header without SQLite, which would write to a foreign database that has a log. */
static int check_header(const char *path, const struct refusal *r)
{
    unsigned char header[HEADER_BYTES];
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* opening a pipe would wait for a writer */
    struct stat st;

    if (fd < 0)
        return refuse_file(r, HAWK_EIO, "%s: cannot open it: %s", path, strerror(errno));
    ssize_t n = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? read(fd, header, sizeof header) : -1;
    close(fd);
    if (n < 0)
        return refuse_file(r, HAWK_EIO, "%s: not a regular file that can be read: give another path", path);
    if (n == 0)
        return refuse_file(r, HAWK_ECORRUPT, "%s: empty, which a store never is: %s", path, REMEDY);
    if (n < HEADER_BYTES || memcmp(header, "SQLite format 3", 16) != 0)
        return refuse_file(r, HAWK_ECORRUPT, "%s: not a store of Hawk: " REMEDY, path);
    return check_version(path, header_u32(header, HEADER_APPLICATION_ID),
                         header_u32(header, HEADER_USER_VERSION), r);
}

/* ---- Making one ---- */

static int fill_file(const char *path, const struct refusal *r)
{
    char *text = NULL;
    sqlite3 *db = NULL;
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC,
                  0600); /* only the owner may read jobs' environments */

    if (fd < 0)
        return refuse_file(r, HAWK_EIO, "%s: cannot make it: %s", path, strerror(errno));
    close(fd);
    int rc = sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(db, SCHEMA_SQL, NULL, NULL, &text);
    if (rc != SQLITE_OK)
        refuse_file(r, HAWK_EIO, "%s: cannot make it: %s", path, text ? text : sqlite3_errstr(rc));
    sqlite3_free(text);
    if (sqlite3_close(db) != SQLITE_OK || rc != SQLITE_OK)
        return HAWK_EIO;
    return 0;
}

static int make_file(const char *path, const struct refusal *r)
{
    char new_path[PATH_MAX], wal[PATH_MAX];

    snprintf(wal, sizeof wal, "%s-wal", path);
    snprintf(new_path, sizeof new_path, "%s.new", path);
    if (access(wal, F_OK) == 0) /* SQLite would use it as the new file's log */
        return refuse_file(r, HAWK_ECORRUPT,
                           "%s: missing, but its log %s is there: restore the file from a copy, or move the"
                           " log away to start with an empty store",
                           path, wal);
    if (unlink(new_path) < 0 && errno != ENOENT) /* left by an attempt that was killed */
        return refuse_file(r, HAWK_EIO, "%s: cannot remove it: %s", new_path, strerror(errno));
    int err = fill_file(new_path, r);
    if (!err && (link(new_path, path) < 0 || sync_parent(path) < 0))
        err = refuse_file(r, HAWK_EIO, "%s: cannot make it: %s", path, strerror(errno));
    unlink(new_path);
    return err;
}

/* ---- Opening it ---- */

static int64_t pragma_number(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *st;
    int64_t v = -1;

    if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) == SQLITE_OK && sqlite3_step(st) == SQLITE_ROW)
        v = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    return v;
}

/* The text of a check may have several lines. The last one says what is wrong. */
static const char *last_line(const char *text)
{
    const char *newline = strrchr(text, '\n');

    return newline ? newline + 1 : text;
}

static int check_whole(sqlite3 *db, const char *path, const struct refusal *r)
{
    const char *text = NULL;
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(db, "PRAGMA quick_check(1)", -1, &st, NULL);
    int err = 0;

    if (rc == SQLITE_OK)
        rc = sqlite3_step(st);
    if (rc == SQLITE_ROW)
        text = (const char *)sqlite3_column_text(st, 0);
    if (rc == SQLITE_BUSY)
        err = refuse_file(r, HAWK_EBUSY, "%s: another program has it locked: stop it", path);
    else if (!text || strcmp(text, "ok") != 0)
        err = refuse_file(r, HAWK_ECORRUPT, "%s: damaged (%s): " STORE_DAMAGED_REMEDY, path,
                          last_line(text ? text : sqlite3_errmsg(db)), path);
    sqlite3_finalize(st);
    return err;
}

/* ---- Whose log it is ---- */

/* A number of the table meta; -1: there is none. */
static int64_t meta_number(sqlite3 *db, const char *sql) { return db ? pragma_number(db, sql) : -1; }
#define CLUSTER_SQL "SELECT value FROM meta WHERE key = 'cluster'"
#define COMMITS_SQL "SELECT value FROM meta WHERE key = 'commits'"

/* Opens the file without its log. NULL: that is not possible. */
static sqlite3 *open_bare(const char *path)
{
    char uri[3 * PATH_MAX + 32];
    size_t n = (size_t)snprintf(uri, sizeof uri, "file:");
    sqlite3 *db = NULL;

    for (const char *c = path; *c; c++)
        n +=
            (size_t)snprintf(uri + n, sizeof uri - n, strchr("%?#", *c) ? "%%%02x" : "%c", (unsigned char)*c);
    snprintf(uri + n, sizeof uri - n, "?immutable=1");
    if (sqlite3_open_v2(uri, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, NULL) ==
        SQLITE_OK)
        return db;
    sqlite3_close(db);
    return NULL;
}

/* Counts the transactions in the log: at least as many as SQLite finds there. */
static int64_t log_commits(const char *path)
{
    unsigned char header[LOG_HEADER_BYTES], frame[LOG_FRAME_BYTES];
    char wal[PATH_MAX];
    int64_t n = 0;
    FILE *f;

    snprintf(wal, sizeof wal, "%s-wal", path);
    f = fopen(wal, "rbe");
    if (!f)
        return 0;
    if (fread(header, sizeof header, 1, f) == 1)
        while (fread(frame, sizeof frame, 1, f) == 1 &&
               memcmp(frame + LOG_FRAME_SALT, header + LOG_HEADER_SALT, LOG_SALT_BYTES) == 0 &&
               fseek(f, (long)header_u32(header, LOG_HEADER_PAGE), SEEK_CUR) == 0)
            n += header_u32(frame, LOG_FRAME_COMMIT) != 0;
    fclose(f);
    return n;
}

/* Refuses a file that somebody put back from a copy beside a later log, or beside another store's log:
 * SQLite would use that log. Every transaction counts itself in meta, so the log shows to which store it
 * belongs and where it begins. */
static int check_log(sqlite3 *db, const char *path, const struct refusal *r)
{
    int64_t in_log = log_commits(path), cluster, commits, bare_cluster, bare_commits;

    if (in_log == 0)
        return 0;
    cluster = meta_number(db, CLUSTER_SQL);
    commits = meta_number(db, COMMITS_SQL);
    sqlite3 *bare = open_bare(path);
    bare_cluster = meta_number(bare, CLUSTER_SQL);
    bare_commits = meta_number(bare, COMMITS_SQL);
    sqlite3_close(bare);
    /* There is nothing to compare: the file was just made, or its log is being written back. */
    if (bare_cluster == -1 || bare_commits == -1 || commits == -1)
        return 0;
    if (cluster == bare_cluster && bare_commits <= commits && bare_commits >= commits - in_log)
        return 0;
    return refuse_file(
        r, HAWK_ECORRUPT,
        "%s: the log beside it, %s-wal, is another file's or of another time: restore both from "
        "the same copy, or"
        " move the log away to go on with what the file holds without it",
        path, path);
}

static int open_checked(const char *path, sqlite3 **db, bool *updated, const struct refusal *r)
{
    int rc = sqlite3_open_v2(path, db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);

    if (rc != SQLITE_OK)
        return refuse_file(r, HAWK_EIO, "%s: cannot open it: %s", path, sqlite3_errstr(rc));
    sqlite3_busy_timeout(*db, FILE_BUSY_MS);
    /* A refused file stays as it is, and so does its log. */
    sqlite3_db_config(*db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    int err = check_whole(*db, path, r);
    if (!err)
        err = check_log(*db, path, r);
    if (!err)
        err = check_version(path, pragma_number(*db, "PRAGMA application_id"),
                            pragma_number(*db, "PRAGMA user_version"), r);
    if (err)
        return err;
    rc = sqlite3_exec(*db, SCHEMA_SESSION_SQL "BEGIN IMMEDIATE;", NULL, NULL, NULL);
    int64_t version = pragma_number(*db, "PRAGMA user_version");
    *updated = version < SCHEMA_VERSION;
    if (rc == SQLITE_OK && *updated)
        rc = schema_update(*db, version);
    if (rc == SQLITE_CONSTRAINT) /* a value that the new tables do not take */
        return refuse_file(r, HAWK_ECORRUPT, "%s: damaged (%s): " STORE_DAMAGED_REMEDY, path,
                           sqlite3_errmsg(*db), path);
    return rc == SQLITE_OK ? 0 : refuse_file(r, HAWK_EIO, "%s: %s", path, sqlite3_errmsg(*db));
}

void file_accept(sqlite3 *db) { sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL); }

int file_open(const char *path, sqlite3 **db, int *lock_fd, bool *updated, char *why, size_t why_size)
{
    const struct refusal r = {why, why_size};
    char lock_path[PATH_MAX];
    bool lock_made;
    struct stat st;

    *db = NULL;
    if (strlen(path) + sizeof ".lock" > sizeof lock_path)
        return refuse_file(&r, HAWK_EINVALID, "the path of the store is too long");
    snprintf(lock_path, sizeof lock_path, "%s.lock", path);
    int err = lock_file(path, lock_path, lock_fd, &lock_made, &r);
    if (err)
        return err;
    /* Look at the file only with the lock. If this process had the file open, closing it again here would
     * release SQLite's locks on it. */
    err = lstat(path, &st) == 0 ? check_header(path, &r) : make_file(path, &r);
    if (!err)
        err = check_log_kind(path, &r);
    if (!err)
        err = open_checked(path, db, updated, &r);
    if (!err)
        return 0;
    sqlite3_close(*db);
    *db = NULL;
    if (lock_made)
        unlink(lock_path);
    close(*lock_fd);
    return err;
}
