/* See nonces.h. */
#include "store/nonces.h"

#include "base/log.h"
#include "base/mem.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

/* Each use forgets so many nonces whose time is over, at most: the worker waits for that. As each use adds one, they go
 * faster than they came. */
#define FORGET_EACH "4"
#define BUSY_MS 2000

struct nonces {
    sqlite3 *db;
    sqlite3_stmt *add, *find, *forget;
};

static bool prepare_nonce(struct nonces *n, const char *sql, sqlite3_stmt **s)
{
    return sqlite3_prepare_v3(n->db, sql, -1, SQLITE_PREPARE_PERSISTENT, s, NULL) == SQLITE_OK;
}

static bool set_up(struct nonces *n)
{
    sqlite3_busy_timeout(n->db, BUSY_MS);
    return sqlite3_exec(n->db,
                        "PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF;"
                        "CREATE TABLE IF NOT EXISTS nonces (nonce BLOB PRIMARY KEY, job INTEGER NOT NULL,"
                        " until INTEGER NOT NULL) WITHOUT ROWID;"
                        "CREATE INDEX IF NOT EXISTS nonces_until ON nonces (until)",
                        NULL, NULL, NULL) == SQLITE_OK &&
           prepare_nonce(n, "INSERT OR IGNORE INTO nonces VALUES (?, ?, ?)", &n->add) &&
           prepare_nonce(n, "SELECT job FROM nonces WHERE nonce = ?", &n->find) &&
           prepare_nonce(n,
                         "DELETE FROM nonces WHERE nonce IN"
                         " (SELECT nonce FROM nonces WHERE until < ? LIMIT " FORGET_EACH ")",
                         &n->forget);
}

int store_nonces_open(struct nonces **out, const char *path, char *why, size_t size)
{
    struct nonces *n = xcalloc(1, sizeof *n);

    *out = n;
    if (sqlite3_open(path, &n->db) == SQLITE_OK && set_up(n))
        return 0;
    snprintf(why, size, "%s: %s", path, sqlite3_errmsg(n->db));
    store_nonces_free(n);
    *out = NULL;
    return HAWK_EIO;
}

static bool run_nonce(sqlite3_stmt *s)
{
    bool good = sqlite3_step(s) == SQLITE_DONE;

    sqlite3_reset(s);
    return good;
}

static bool find_nonce(struct nonces *n, const uint8_t nonce[NONCE_BYTES], job_id_t *job)
{
    bool found;

    sqlite3_bind_blob(n->find, 1, nonce, NONCE_BYTES, SQLITE_TRANSIENT);
    found = sqlite3_step(n->find) == SQLITE_ROW;
    if (found)
        job->v = (uint64_t)sqlite3_column_int64(n->find, 0);
    sqlite3_reset(n->find);
    return found;
}

int store_nonces_use(struct nonces *n, const uint8_t nonce[NONCE_BYTES], job_id_t job, int64_t until_s,
                     int64_t now_s, job_id_t *other)
{
    sqlite3_bind_int64(n->forget, 1, now_s);
    if (!run_nonce(n->forget))
        log_warn("nonces: %s", sqlite3_errmsg(n->db));
    sqlite3_bind_blob(n->add, 1, nonce, NONCE_BYTES, SQLITE_TRANSIENT);
    sqlite3_bind_int64(n->add, 2, (sqlite3_int64)job.v);
    sqlite3_bind_int64(n->add, 3, until_s);
    if (!run_nonce(n->add) || !find_nonce(n, nonce, other))
        return HAWK_EIO;
    return other->v == job.v ? 0 : HAWK_EEXISTS;
}

/* The blob of no byte is no nonce. */
int store_nonces_check(struct nonces *n)
{
    const char *sql = "REPLACE INTO nonces VALUES (x'', 0, 0)";

    return sqlite3_exec(n->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : HAWK_EIO;
}

void store_nonces_free(struct nonces *n)
{
    if (!n)
        return;
    sqlite3_finalize(n->add);
    sqlite3_finalize(n->find);
    sqlite3_finalize(n->forget);
    sqlite3_close(n->db);
    free(n);
}
