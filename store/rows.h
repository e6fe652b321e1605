/* Messages as rows of the store's tables, and back. Knows SQL and no threads. */
#ifndef HAWK_STORE_ROWS_H
#define HAWK_STORE_ROWS_H

#include "base/err.h"
#include "msg/msg.h"
#include "store/backend.h"

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum statement {
    STATEMENT_BEGIN,
    STATEMENT_COMMIT,
    STATEMENT_NODE,
    STATEMENT_JOB,
    STATEMENT_JOB_CHANGE,
    STATEMENT_CANCEL,
    STATEMENT_OWNER,
    STATEMENT_TASK,
    STATEMENT_ENDED,
    STATEMENT_TASKS_ENDED,
    STATEMENT_DESC,
    STATEMENT_DESC_SET,
    STATEMENT_END_JOB,
    STATEMENT_END_TASKS,
    STATEMENT_END_ENDED,
    STATEMENT_POLICY,
    STATEMENT_END_POLICY,
    STATEMENT_HISTORY,
    STATEMENT_TRIM,
    STATEMENT_META_GET,
    STATEMENT_META_SET,
    STATEMENT_NUMBER,
    STATEMENT_COUNT
};

struct rows {
    sqlite3 *db;
    sqlite3_stmt *v[STATEMENT_COUNT];
    bool trim;   /* history was added in this transaction */
    bool forgot; /* an environment was taken away: the log has it still, until it is emptied */
};

/* These return 0 or HAWK_EIO, and then sqlite3_errmsg(r->db) says why. */
HAWK_MUST_USE int rows_init(struct rows *r, sqlite3 *db);
void rows_free(struct rows *r);
HAWK_MUST_USE int rows_begin(struct rows *r);
HAWK_MUST_USE int rows_write(struct rows *r, const struct entry *e);
HAWK_MUST_USE int rows_commit(struct rows *r);
void rows_rollback(struct rows *r);
HAWK_MUST_USE int rows_meta_get(struct rows *r, const char *key, uint64_t *value); /* or HAWK_ENOT_FOUND */
HAWK_MUST_USE int rows_meta_set(struct rows *r, const char *key, uint64_t value);

/* *owner: a string of the caller's; NULL: it has none. */
HAWK_MUST_USE int rows_owner_get(struct rows *r, char **owner);
HAWK_MUST_USE int rows_owner_set(struct rows *r, const char *owner);

/* Takes the environments of ended jobs away that are there still: of an earlier version's journal. In a transaction of its
 * own. */
HAWK_MUST_USE int rows_forget_old(struct rows *r);

/* As store_recover. */
HAWK_MUST_USE int rows_recover(struct rows *r, void (*fn)(void *arg, const struct msg *m), void *arg);

#endif
