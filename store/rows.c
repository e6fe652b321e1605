/* Rows written and read. */
#include "store/rows.h"

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/units.h"
#include "net/codec.h"
#include "store/choice.h"
#include "store/store.h"

#include <endian.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- Statements ---- */

static const char *const sql[STATEMENT_COUNT] = {
    [STATEMENT_BEGIN] = "BEGIN IMMEDIATE",
    [STATEMENT_COMMIT] = "COMMIT",
    [STATEMENT_NODE] = "REPLACE INTO node(node, name, role, drained, next_seq) VALUES(?, ?, ?, ?, ?)",
    [STATEMENT_JOB] =
        "REPLACE INTO job(estimate_us, life, handed, why, class, tasks, job, epoch, desc, at_us)"
        " VALUES(?,?,?,?,?,?,?,?,?,?)",
    [STATEMENT_JOB_CHANGE] =
        "UPDATE job SET estimate_us = ?, life = ?, handed = ?, why = ?, class = ?, tasks = ?"
        " WHERE job = ? AND epoch = ?",
    [STATEMENT_CANCEL] = "UPDATE job SET cancelled = 1 WHERE job = ? AND epoch = ?",
    [STATEMENT_OWNER] = "UPDATE job SET owner = ? WHERE job = ? AND epoch = ?",
    [STATEMENT_TASK] = "REPLACE INTO task(job, task, epoch, attempt, run_us, code, state, outcome, worker)"
                       " VALUES(?,?,?,?,?,?,?,?,?)",
    [STATEMENT_ENDED] =
        "REPLACE INTO ended(job, epoch, cutoff_us, response_us, at_us, left_out, state, promoted)"
        " VALUES(?,?,?,?,?,?,?,?)",
    [STATEMENT_TASKS_ENDED] = "SELECT count(*) FROM task WHERE job = ? AND epoch = ? AND state <> ?",
    [STATEMENT_DESC] = "SELECT desc FROM job WHERE job = ? AND epoch = ?",
    [STATEMENT_DESC_SET] = "UPDATE job SET desc = ? WHERE job = ? AND epoch = ?",
    [STATEMENT_END_JOB] = "DELETE FROM job WHERE job = ? AND epoch = ?",
    [STATEMENT_END_TASKS] = "DELETE FROM task WHERE job = ? AND epoch = ?",
    [STATEMENT_END_ENDED] = "DELETE FROM ended WHERE job = ? AND epoch = ?",
    [STATEMENT_POLICY] = "REPLACE INTO policy(id, choice) VALUES(1, ?)",
    [STATEMENT_END_POLICY] = "DELETE FROM policy",
    [STATEMENT_HISTORY] = "INSERT INTO history(name, mean_us, task_us, tasks, class) VALUES(?, ?, ?, ?, ?)",
    [STATEMENT_TRIM] = "DELETE FROM history WHERE id <= (SELECT max(id) FROM history) - ?",
    [STATEMENT_META_GET] = "SELECT value FROM meta WHERE key = ?",
    [STATEMENT_META_SET] = "REPLACE INTO meta(key, value) VALUES(?, ?)",
    [STATEMENT_NUMBER] = "REPLACE INTO meta(key, value) SELECT 'commits', 1 + coalesce((SELECT value FROM "
                         "meta WHERE key = 'commits'), 0)",
};

int rows_init(struct rows *r, sqlite3 *db)
{
    *r = (struct rows){.db = db};
    for (int i = 0; i < STATEMENT_COUNT; i++) {
        int rc = sqlite3_prepare_v3(db, sql[i], -1, SQLITE_PREPARE_PERSISTENT, &r->v[i], NULL);

        if (rc != SQLITE_OK) {
            log_error("the journal's tables: %s", sqlite3_errmsg(db));
            rows_free(r);
            return rc == SQLITE_ERROR ? HAWK_ECORRUPT : HAWK_EIO; /* a column is not there */
        }
    }
    return 0;
}

void rows_free(struct rows *r)
{
    for (int i = 0; i < STATEMENT_COUNT; i++) {
        sqlite3_finalize(r->v[i]);
        r->v[i] = NULL;
    }
}

static void bind_numbers(sqlite3_stmt *st, int from, const int64_t *v, int n)
{
    for (int i = 0; i < n; i++)
        sqlite3_bind_int64(st, from + i, v[i]);
}
#define BIND(st, from, ...)                                                                                  \
    bind_numbers((st), (from), (const int64_t[]){__VA_ARGS__},                                               \
                 (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))

static void bind_bytes(sqlite3_stmt *st, int at, const uint8_t *data, size_t n)
{
    if (data)
        sqlite3_bind_blob64(st, at, data, n, SQLITE_STATIC);
}

/* Runs a statement that returns no rows, and takes its bindings away. */
static int run(struct rows *r, enum statement which)
{
    sqlite3_stmt *st = r->v[which];
    int rc = sqlite3_step(st);

    sqlite3_reset(st);
    sqlite3_clear_bindings(st);
    return rc == SQLITE_DONE ? 0 : HAWK_EIO;
}

int rows_begin(struct rows *r)
{
    r->trim = false;
    return run(r, STATEMENT_BEGIN);
}

int rows_commit(struct rows *r)
{
    int err = 0;

    if (r->trim) {
        BIND(r->v[STATEMENT_TRIM], 1, STORE_HISTORY_JOBS);
        err = run(r, STATEMENT_TRIM);
    }
    if (!err)
        err = run(r, STATEMENT_NUMBER); /* store/file.c: whose log it is */
    return err ? err : run(r, STATEMENT_COMMIT);
}

void rows_rollback(struct rows *r)
{
    if (!sqlite3_get_autocommit(r->db)) /* some errors have done it already */
        sqlite3_exec(r->db, "ROLLBACK", NULL, NULL, NULL);
}

/* Of JOURNAL_CLUSTER. */
#define META_FORMER "former"
#define META_FIRST_NODE "first_node"
#define META_YOUNG "young"
/* Of JOURNAL_NUMBERS. */
#define META_NEXT_SEQ "next_seq"

/* ---- Writing ---- */

/* Of a job's tasks, how many are on record as ended. */
static int count_ended(struct rows *r, job_id_t job, uint16_t epoch, int64_t *n)
{
    sqlite3_stmt *st = r->v[STATEMENT_TASKS_ENDED];
    int rc;

    BIND(st, 1, (int64_t)job.v, epoch, TASK_LAUNCHED);
    rc = sqlite3_step(st);
    *n = sqlite3_column_int64(st, 0);
    sqlite3_reset(st);
    return rc == SQLITE_ROW ? 0 : HAWK_EIO;
}

/* The job's description; NULL: there is none that can be read, or it has no environment. */
static struct job_desc *desc_with_env(struct rows *r, job_id_t job, uint16_t epoch)
{
    sqlite3_stmt *st = r->v[STATEMENT_DESC];
    struct job_desc *d = NULL;

    BIND(st, 1, (int64_t)job.v, epoch);
    if (sqlite3_step(st) == SQLITE_ROW &&
        codec_desc_decode(sqlite3_column_blob(st, 0), (size_t)sqlite3_column_bytes(st, 0), true, &d, NULL, 0))
        d = NULL;
    sqlite3_reset(st);
    if (d && d->env.n > 0)
        return d;
    job_desc_drop(d);
    return NULL;
}

/* Its environment may hold secrets, and nothing of it runs any more. A job of which the end of a task is missing goes on when
 * this is read again (docs/protocol.md 11.5): it keeps it. */
static int forget_env(struct rows *r, job_id_t job, uint16_t epoch, uint32_t left_out)
{
    struct job_desc *d = desc_with_env(r, job, epoch);
    struct codec_buf b = {0};
    int64_t ended = 0;
    int err = d ? count_ended(r, job, epoch, &ended) : 0;

    if (d && !err && ended + left_out >= d->tasks) {
        job_desc_forget_env(&d);
        codec_desc_encode(&b, d, true);
        bind_bytes(r->v[STATEMENT_DESC_SET], 1, b.data, b.len);
        BIND(r->v[STATEMENT_DESC_SET], 2, (int64_t)job.v, epoch);
        err = run(r, STATEMENT_DESC_SET);
        r->forgot = true;
        codec_buf_free(&b);
    }
    job_desc_drop(d);
    return err;
}

static int write_ended(struct rows *r, const struct msg_journal_ended *m)
{
    int err;

    BIND(r->v[STATEMENT_ENDED], 1, (int64_t)m->job.v, m->epoch, m->cutoff_us, m->response_us, wall_us(),
         m->left_out, m->state, m->promoted);
    err = run(r, STATEMENT_ENDED);
    return err ? err : forget_env(r, m->job, m->epoch, m->left_out);
}

int rows_forget_old(struct rows *r)
{
    sqlite3_stmt *st = NULL;
    int err = rows_begin(r);

    if (!err &&
        sqlite3_prepare_v2(r->db, "SELECT job, epoch, left_out FROM ended", -1, &st, NULL) != SQLITE_OK)
        err = HAWK_EIO;
    while (!err && sqlite3_step(st) == SQLITE_ROW)
        err = forget_env(r, (job_id_t){(uint64_t)sqlite3_column_int64(st, 0)},
                         (uint16_t)sqlite3_column_int64(st, 1), (uint32_t)sqlite3_column_int64(st, 2));
    sqlite3_finalize(st);
    return err ? err : rows_commit(r);
}

static int end_job(struct rows *r, const struct msg_journal_job_end *m)
{
    static const enum statement tables[] = {STATEMENT_END_JOB, STATEMENT_END_TASKS, STATEMENT_END_ENDED};
    int err = 0;

    for (unsigned i = 0; !err && i < sizeof tables / sizeof *tables; i++) {
        BIND(r->v[tables[i]], 1, (int64_t)m->job.v, m->epoch);
        err = run(r, tables[i]);
    }
    r->forgot = true;
    return err;
}

static int write_job(struct rows *r, const struct entry *e)
{
    const struct msg_journal_job *j = &e->m.journal_job;
    enum statement which = e->text ? STATEMENT_JOB : STATEMENT_JOB_CHANGE;
    sqlite3_stmt *st = r->v[which];
    int err;

    BIND(st, 1, j->estimate_us, j->life, j->handed, j->why, j->class);
    bind_bytes(st, 6, e->tasks, e->tasks_len);
    BIND(st, 7, (int64_t)j->job.v, j->epoch);
    if (e->text) {
        bind_bytes(st, 9, e->text, e->text_len);
        BIND(st, 10, wall_us());
    }
    err = run(r, which);
    if (err || e->text)
        return err;
    BIND(r->v[STATEMENT_END_ENDED], 1, (int64_t)j->job.v, j->epoch);
    return run(r, STATEMENT_END_ENDED);
}

static int write_cluster(struct rows *r, const struct msg_journal_cluster *m)
{
    int err = rows_meta_set(r, META_FORMER, m->former);

    if (!err)
        err = rows_meta_set(r, META_FIRST_NODE, m->node.v);
    return err ? err : rows_meta_set(r, META_YOUNG, m->young);
}

int rows_write(struct rows *r, const struct entry *e)
{
    sqlite3_stmt *st;

    switch (e->m.type) {
    case MSG_JOURNAL_NODE: {
        const struct msg_journal_node *n = &e->m.journal_node;

        st = r->v[STATEMENT_NODE];
        BIND(st, 1, n->node.v);
        bind_bytes(st, 2, e->text, e->text_len);
        BIND(st, 3, n->role, n->drained, (int64_t)n->next_seq);
        return run(r, STATEMENT_NODE);
    }
    case MSG_JOURNAL_CLUSTER:
        return write_cluster(r, &e->m.journal_cluster);
    case MSG_JOURNAL_NUMBERS:
        return rows_meta_set(r, META_NEXT_SEQ, e->m.journal_numbers.next);
    case MSG_JOURNAL_JOB:
        return write_job(r, e);
    case MSG_JOURNAL_TASK: {
        const struct msg_journal_task *t = &e->m.journal_task;

        BIND(r->v[STATEMENT_TASK], 1, (int64_t)t->id.job.v, t->id.task, t->id.epoch, t->id.attempt, t->run_us,
             t->code, t->state, t->outcome, t->worker.v);
        return run(r, STATEMENT_TASK);
    }
    case MSG_JOURNAL_CANCEL:
        BIND(r->v[STATEMENT_CANCEL], 1, (int64_t)e->m.journal_cancel.job.v, e->m.journal_cancel.epoch);
        return run(r, STATEMENT_CANCEL);
    case MSG_JOURNAL_OWNER:
        BIND(r->v[STATEMENT_OWNER], 1, e->m.journal_owner.owner, (int64_t)e->m.journal_owner.job.v,
             e->m.journal_owner.epoch);
        return run(r, STATEMENT_OWNER);
    case MSG_JOURNAL_ENDED:
        return write_ended(r, &e->m.journal_ended);
    case MSG_JOURNAL_JOB_END:
        return end_job(r, &e->m.journal_job_end);
    case MSG_JOURNAL_POLICY:
        if (!e->text)
            return run(r, STATEMENT_END_POLICY);
        bind_bytes(r->v[STATEMENT_POLICY], 1, e->text, e->text_len);
        return run(r, STATEMENT_POLICY);
    default: {
        const struct msg_history *h = &e->m.history;

        CHECK(e->m.type == MSG_HISTORY); /* entry_new made no other */
        st = r->v[STATEMENT_HISTORY];
        bind_bytes(st, 1, e->text, e->text_len);
        BIND(st, 2, h->mean_us, (int64_t)h->task_us, h->tasks, h->class);
        r->trim = true;
        return run(r, STATEMENT_HISTORY);
    }
    }
}

/* ---- Numbers ---- */

int rows_meta_get(struct rows *r, const char *key, uint64_t *value)
{
    sqlite3_stmt *st = r->v[STATEMENT_META_GET];
    int rc, err = 0;

    sqlite3_bind_text(st, 1, key, -1, SQLITE_STATIC);
    rc = sqlite3_step(st);
    if (rc == SQLITE_ROW)
        *value = (uint64_t)sqlite3_column_int64(st, 0);
    else
        err = rc == SQLITE_DONE ? HAWK_ENOT_FOUND : HAWK_EIO;
    sqlite3_reset(st);
    sqlite3_clear_bindings(st);
    return err;
}

int rows_meta_set(struct rows *r, const char *key, uint64_t value)
{
    sqlite3_bind_text(r->v[STATEMENT_META_SET], 1, key, -1, SQLITE_STATIC);
    BIND(r->v[STATEMENT_META_SET], 2, (int64_t)value);
    return run(r, STATEMENT_META_SET);
}

/* As bytes: a text of digits would become a number in that column. */
#define META_OWNER "owner"

int rows_owner_get(struct rows *r, char **owner)
{
    sqlite3_stmt *st = r->v[STATEMENT_META_GET];
    int rc, n;

    *owner = NULL;
    sqlite3_bind_text(st, 1, META_OWNER, -1, SQLITE_STATIC);
    rc = sqlite3_step(st);
    if (rc == SQLITE_ROW) {
        n = sqlite3_column_bytes(st, 0);
        *owner = xcalloc(1, (size_t)n + 1);
        if (n > 0)
            memcpy(*owner, sqlite3_column_blob(st, 0), (size_t)n);
    }
    sqlite3_reset(st);
    sqlite3_clear_bindings(st);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? 0 : HAWK_EIO;
}

int rows_owner_set(struct rows *r, const char *owner)
{
    sqlite3_bind_text(r->v[STATEMENT_META_SET], 1, META_OWNER, -1, SQLITE_STATIC);
    bind_bytes(r->v[STATEMENT_META_SET], 2, (const uint8_t *)owner, strlen(owner));
    return run(r, STATEMENT_META_SET);
}

/* ---- Reading ---- */

struct reader {
    struct rows *rows;
    sqlite3_stmt *tasks, *ended; /* of one job */
    void (*fn)(void *arg, const struct msg *m);
    void *arg;
    bool bad; /* a value of the row is out of its range */
};

/* A column within [0, max]; notes a value that is not. */
static uint64_t number(struct reader *rd, sqlite3_stmt *st, int column, uint64_t max)
{
    int64_t v = sqlite3_column_int64(st, column);

    if (sqlite3_column_type(st, column) != SQLITE_INTEGER || v < 0 || (uint64_t)v > max) {
        rd->bad = true;
        return 0;
    }
    return (uint64_t)v;
}

static struct blob *blob_of(sqlite3_stmt *st, int column)
{
    const void *data = sqlite3_column_blob(st, column);

    return blob_new(data, (size_t)sqlite3_column_bytes(st, column));
}

static bool name_ok(sqlite3_stmt *st, int column)
{
    const void *name = sqlite3_column_blob(st, column);

    return name_is_good(name, (size_t)sqlite3_column_bytes(st, column));
}

static int damaged_job(const char *what, job_id_t job)
{
    char id[JOB_ID_TEXT];

    log_error("the journal's row of %s %s cannot be read: restore the file from a copy", what,
              job_id_format(id, job));
    return HAWK_ECORRUPT;
}

static int damaged(const char *what, uint64_t id)
{
    log_error("the journal's row of %s %" PRIu64 " cannot be read: restore the file from a copy", what, id);
    return HAWK_ECORRUPT;
}

static int read_history(struct reader *rd, sqlite3_stmt *st)
{
    struct msg m = {.type = MSG_HISTORY};

    m.history.mean_us = (int64_t)number(rd, st, 2, LIMIT_TIME_US);
    m.history.task_us = number(rd, st, 3, INT64_MAX);
    m.history.tasks = (uint32_t)number(rd, st, 4, UINT32_MAX);
    m.history.class = (uint8_t)number(rd, st, 5, CLASS_COUNT - 1);
    if (rd->bad || !name_ok(st, 1))
        return damaged("history", (uint64_t)sqlite3_column_int64(st, 0));
    m.history.name = blob_of(st, 1);
    rd->fn(rd->arg, &m);
    blob_drop(m.history.name);
    return 0;
}

static int read_node(struct reader *rd, sqlite3_stmt *st)
{
    struct msg m = {.type = MSG_JOURNAL_NODE};

    m.journal_node.node.v = (uint32_t)number(rd, st, 0, NODE_ID_MAX);
    m.journal_node.role = (uint8_t)number(rd, st, 2, ROLE_COUNT - 1);
    m.journal_node.drained = (uint8_t)number(rd, st, 3, 1);
    m.journal_node.next_seq = number(rd, st, 4, JOB_SEQ_MAX + 1);
    if (rd->bad || !name_ok(st, 1))
        return damaged("node", (uint64_t)sqlite3_column_int64(st, 0));
    m.journal_node.name = blob_of(st, 1);
    rd->fn(rd->arg, &m);
    blob_drop(m.journal_node.name);
    return 0;
}

static int read_policy(struct reader *rd, sqlite3_stmt *st)
{
    struct msg m = {.type = MSG_JOURNAL_POLICY};
    const struct span s = {sqlite3_column_blob(st, 1), (size_t)sqlite3_column_bytes(st, 1)};

    if (choice_decode(s, &m.journal_policy))
        return damaged("policy", (uint64_t)sqlite3_column_int64(st, 0));
    rd->fn(rd->arg, &m);
    policy_choice_drop(m.journal_policy.choice);
    return 0;
}

static int read_task(struct reader *rd, sqlite3_stmt *st)
{
    struct msg m = {.type = MSG_JOURNAL_TASK};
    struct msg_journal_task *t = &m.journal_task;

    t->id.job.v = (uint64_t)sqlite3_column_int64(st, 0);
    t->id.task = (uint32_t)number(rd, st, 1, LIMIT_TASKS_PER_JOB - 1);
    t->id.epoch = (uint16_t)number(rd, st, 2, UINT16_MAX);
    t->id.attempt = (uint16_t)number(rd, st, 3, UINT16_MAX);
    t->run_us = sqlite3_column_int64(st, 4); /* these two may be negative */
    t->code = (int32_t)sqlite3_column_int64(st, 5);
    t->state = (uint8_t)number(rd, st, 6, TASK_STATE_COUNT - 1);
    t->outcome = (uint8_t)number(rd, st, 7, OUTCOME_COUNT - 1);
    t->worker.v = (uint32_t)number(rd, st, 8, NODE_ID_MAX);
    if (rd->bad)
        return damaged_job("a task of job", t->id.job);
    rd->fn(rd->arg, &m);
    return 0;
}

/* A column with a time of the wall clock, which may have been put back meanwhile. */
static int64_t ago(struct reader *rd, sqlite3_stmt *st, int column)
{
    return wall_ago_us((int64_t)number(rd, st, column, INT64_MAX));
}

static int read_ended(struct reader *rd, sqlite3_stmt *st)
{
    struct msg m = {.type = MSG_JOURNAL_ENDED};
    struct msg_journal_ended *e = &m.journal_ended;

    e->job.v = (uint64_t)sqlite3_column_int64(st, 0);
    e->epoch = (uint16_t)number(rd, st, 1, UINT16_MAX);
    e->cutoff_us = (int64_t)number(rd, st, 2, LIMIT_TIME_US);
    e->response_us = (int64_t)number(rd, st, 3, LIMIT_TIME_US);
    e->left_out = (uint32_t)number(rd, st, 5, LIMIT_TASKS_PER_JOB);
    e->state = (uint8_t)number(rd, st, 6, JOB_STATE_COUNT - 1);
    e->promoted = (uint8_t)number(rd, st, 7, 1);
    e->ago_us = ago(rd, st, 4);
    if (rd->bad)
        return damaged_job("the end of job", e->job);
    rd->fn(rd->arg, &m);
    return 0;
}

static int read_rows(struct reader *rd, sqlite3_stmt *st, int (*read)(struct reader *rd, sqlite3_stmt *st))
{
    int rc, err = 0;

    while (!err && (rc = sqlite3_step(st)) == SQLITE_ROW)
        err = read(rd, st);
    if (!err && rc != SQLITE_DONE) {
        log_error("the journal cannot be read: %s", sqlite3_errmsg(rd->rows->db));
        err = rc == SQLITE_CORRUPT ? HAWK_ECORRUPT : HAWK_EIO;
    }
    return err;
}

static struct task_set *task_set_of(struct reader *rd, sqlite3_stmt *st, int column)
{
    const uint8_t *data = sqlite3_column_blob(st, column);
    size_t n = (size_t)sqlite3_column_bytes(st, column) / sizeof(uint32_t);
    struct task_set *s;

    if (sqlite3_column_type(st, column) == SQLITE_NULL)
        return NULL;
    if (n > LIMIT_TASKS_PER_JOB) {
        rd->bad = true;
        return NULL;
    }
    s = task_set_new((uint32_t)n);
    for (size_t i = 0; i < n; i++) {
        uint32_t v;

        memcpy(&v, data + i * sizeof v, sizeof v);
        s->v[i] = le32toh(v);
        if (i > 0 && s->v[i] <= s->v[i - 1])
            rd->bad = true;
    }
    return s;
}

static int read_job(struct reader *rd, sqlite3_stmt *st)
{
    struct msg m = {.type = MSG_JOURNAL_JOB}, age = {.type = MSG_JOURNAL_AGE};
    struct msg_journal_job *j = &m.journal_job;
    char why[200] = "";
    struct msg owner = {.type = MSG_JOURNAL_OWNER};
    bool cancelled;
    int err;

    j->job.v = (uint64_t)sqlite3_column_int64(st, 0);
    j->epoch = (uint16_t)number(rd, st, 1, UINT16_MAX);
    j->estimate_us = (int64_t)number(rd, st, 2, LIMIT_TIME_US);
    j->why = (uint8_t)number(rd, st, 3, WHY_COUNT - 1);
    j->tasks = task_set_of(rd, st, 4);
    cancelled = number(rd, st, 6, 1);
    j->life = (uint16_t)number(rd, st, 7, UINT16_MAX);
    j->handed = (uint16_t)number(rd, st, 8, UINT16_MAX);
    j->class = (uint8_t)number(rd, st, 9, CLASS_COUNT - 1);
    owner.journal_owner = (struct msg_journal_owner){
        .job = j->job, .epoch = j->epoch, .owner = (uint16_t)number(rd, st, 10, UINT16_MAX)};
    age.journal_age = (struct msg_journal_age){.job = j->job, .ago_us = ago(rd, st, 11)};
    if (rd->bad || codec_desc_decode(sqlite3_column_blob(st, 5), (size_t)sqlite3_column_bytes(st, 5), true,
                                     &j->desc, why, sizeof why) < 0) {
        task_set_drop(j->tasks);
        log_error("a job's description in the journal: %s", *why ? why : "a number out of its range");
        return damaged_job("job", j->job);
    }
    rd->fn(rd->arg, &m);
    rd->fn(rd->arg, &age);
    job_desc_drop(j->desc);
    task_set_drop(j->tasks);
    BIND(rd->tasks, 1, (int64_t)j->job.v, j->epoch);
    err = read_rows(rd, rd->tasks, read_task);
    sqlite3_reset(rd->tasks);
    if (!err && owner.journal_owner.owner)
        rd->fn(rd->arg, &owner);
    if (!err && cancelled) {
        struct msg c = {.type = MSG_JOURNAL_CANCEL, .journal_cancel = {.job = j->job, .epoch = j->epoch}};

        rd->fn(rd->arg, &c);
    }
    if (!err) {
        BIND(rd->ended, 1, (int64_t)j->job.v, j->epoch);
        err = read_rows(rd, rd->ended, read_ended);
        sqlite3_reset(rd->ended);
    }
    return err;
}

static int read_table(struct reader *rd, const char *query, int (*read)(struct reader *rd, sqlite3_stmt *st))
{
    sqlite3_stmt *st;
    int err;

    if (sqlite3_prepare_v2(rd->rows->db, query, -1, &st, NULL) != SQLITE_OK) {
        log_error("the journal cannot be read: %s", sqlite3_errmsg(rd->rows->db));
        return HAWK_EIO;
    }
    err = read_rows(rd, st, read);
    sqlite3_finalize(st);
    return err;
}

static int read_cluster(struct rows *r, void (*fn)(void *arg, const struct msg *m), void *arg)
{
    struct msg m = {.type = MSG_JOURNAL_CLUSTER};
    uint64_t node = 0, young = 0;
    int err = rows_meta_get(r, META_FORMER, &m.journal_cluster.former);

    if (!err)
        err = rows_meta_get(r, META_FIRST_NODE, &node);
    if (!err)
        err = rows_meta_get(r, META_YOUNG, &young);
    if (err)
        return err == HAWK_ENOT_FOUND ? 0 : err;
    m.journal_cluster.node = (node_id_t){node < NODE_ID_MAX ? (uint32_t)node : NODE_ID_MAX};
    m.journal_cluster.young = young != 0;
    fn(arg, &m);
    return 0;
}

static int read_numbers(struct rows *r, void (*fn)(void *arg, const struct msg *m), void *arg)
{
    struct msg m = {.type = MSG_JOURNAL_NUMBERS};
    int err = rows_meta_get(r, META_NEXT_SEQ, &m.journal_numbers.next);

    if (err)
        return err == HAWK_ENOT_FOUND ? 0 : err;
    if (m.journal_numbers.next > JOB_SEQ_MAX + 1)
        m.journal_numbers.next = JOB_SEQ_MAX + 1;
    fn(arg, &m);
    return 0;
}

int rows_recover(struct rows *r, void (*fn)(void *arg, const struct msg *m), void *arg)
{
    struct reader rd = {.rows = r, .fn = fn, .arg = arg};
    int err = 0;

    if (sqlite3_prepare_v2(
            r->db,
            "SELECT job, task, epoch, attempt, run_us, code, state, outcome, worker FROM task WHERE job = ?"
            " AND epoch = ? ORDER BY task",
            -1, &rd.tasks, NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(
            r->db,
            "SELECT job, epoch, cutoff_us, response_us, at_us, left_out, state, promoted FROM ended"
            " WHERE job = ? AND epoch = ?",
            -1, &rd.ended, NULL) != SQLITE_OK)
        err = HAWK_EIO;
    if (!err)
        err = read_table(&rd, "SELECT id, name, mean_us, task_us, tasks, class FROM history ORDER BY id",
                         read_history);
    if (!err)
        err = read_table(&rd, "SELECT id, choice FROM policy", read_policy);
    if (!err)
        err = read_cluster(r, fn, arg);
    if (!err)
        err = read_numbers(r, fn, arg);
    if (!err)
        err =
            read_table(&rd, "SELECT node, name, role, drained, next_seq FROM node ORDER BY node", read_node);
    if (!err)
        err = read_table(
            &rd,
            "SELECT job, epoch, estimate_us, why, tasks, desc, cancelled, life, handed, class, owner, at_us "
            "FROM job"
            " ORDER BY job, epoch",
            read_job);
    sqlite3_finalize(rd.tasks);
    sqlite3_finalize(rd.ended);
    return err;
}
