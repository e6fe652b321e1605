/* The store in etcd: reading it back. */
#include "base/log.h"
#include "base/mem.h"
#include "store.pb.h"
#include "store/choice.h"
#include "store/etcd_impl.h"

#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A job whose description is in pieces. */
struct big {
    uint64_t job;
    uint16_t epoch;
    char generation[ETCD_GENERATION];
};

struct reader {
    struct backend *b;
    void (*fn)(void *arg, const struct msg *m);
    void *arg;
    bool bad;     /* a value of the row is out of its range */
    job_id_t job; /* of the job that was read last; what is not its own is nobody's */
    uint16_t epoch;
    struct big *bigs;
    uint32_t n_bigs, bigs_cap;
    char **orphans; /* keys that belong to no job */
    uint32_t n_orphans, orphans_cap;
};

static int damaged(const struct etcd_row *row)
{
    log_error("the value of the key %s in etcd cannot be read: restore etcd from a snapshot", row->key);
    return HAWK_ECORRUPT;
}

/* v within [0, max]; notes one that is not. */
static uint64_t number(struct reader *rd, const struct wire_field *f, uint64_t max)
{
    if (!f->is_bytes && f->number <= max)
        return f->number;
    rd->bad = true;
    return 0;
}

/* What follows the table's name in a key: an id in hexadecimal. */
static uint64_t key_id(struct reader *rd, const struct etcd_row *row, const char *table, uint64_t max,
                       char **rest)
{
    uint64_t id = strtoull(row->key + strlen(rd->b->prefix) + 1 + strlen(table), rest, 16);

    if (id > max)
        rd->bad = true;
    return id;
}

/* ---- Rows ---- */

static int read_history(void *arg, const struct etcd_row *row)
{
    struct reader *rd = arg;
    struct msg m = {.type = MSG_HISTORY};
    struct span rest = {row->value, row->len}, name = {NULL, 0};
    struct wire_field f;
    int got;

    while ((got = wire_next(&rest, &f)) > 0) {
        switch (f.tag) {
        case hawk_store_History_name_tag:
            name = f.bytes;
            break;
        case hawk_store_History_mean_us_tag:
            m.history.mean_us = (int64_t)number(rd, &f, LIMIT_TIME_US);
            break;
        case hawk_store_History_task_us_tag:
            m.history.task_us = number(rd, &f, INT64_MAX);
            break;
        case hawk_store_History_tasks_tag:
            m.history.tasks = (uint32_t)number(rd, &f, UINT32_MAX);
            break;
        case hawk_store_History_class_tag:
            m.history.class = (uint8_t)number(rd, &f, CLASS_COUNT - 1);
            break;
        default:
            break; /* of a newer Hawk */
        }
    }
    if (got < 0 || rd->bad || !name_is_good(name.data, name.len))
        return damaged(row);
    m.history.name = blob_new(name.data, name.len);
    rd->fn(rd->arg, &m);
    blob_drop(m.history.name);
    return 0;
}

static int read_node(void *arg, const struct etcd_row *row)
{
    struct reader *rd = arg;
    struct msg m = {.type = MSG_JOURNAL_NODE};
    struct span rest = {row->value, row->len}, name = {NULL, 0};
    struct wire_field f;
    char *end;
    int got;

    m.journal_node.node.v = (uint32_t)key_id(rd, row, "node/", NODE_ID_MAX, &end);
    while ((got = wire_next(&rest, &f)) > 0) {
        if (f.tag == hawk_store_Node_name_tag)
            name = f.bytes;
        else if (f.tag == hawk_store_Node_role_tag)
            m.journal_node.role = (uint8_t)number(rd, &f, ROLE_COUNT - 1);
        else if (f.tag == hawk_store_Node_drained_tag)
            m.journal_node.drained = (uint8_t)number(rd, &f, 1);
        else if (f.tag == hawk_store_Node_next_seq_tag)
            m.journal_node.next_seq = number(rd, &f, JOB_SEQ_MAX + 1);
    }
    if (got < 0 || rd->bad || !name_is_good(name.data, name.len))
        return damaged(row);
    m.journal_node.name = blob_new(name.data, name.len);
    rd->fn(rd->arg, &m);
    blob_drop(m.journal_node.name);
    return 0;
}

static int read_policy(void *arg, const struct etcd_row *row)
{
    const struct reader *rd = arg;
    struct msg m = {.type = MSG_JOURNAL_POLICY};

    if (choice_decode((struct span){row->value, row->len}, &m.journal_policy))
        return damaged(row);
    rd->fn(rd->arg, &m);
    policy_choice_drop(m.journal_policy.choice);
    return 0;
}

static int read_task(struct reader *rd, const struct etcd_row *row, const char *at)
{
    struct msg m = {.type = MSG_JOURNAL_TASK};
    struct msg_journal_task *t = &m.journal_task;
    struct span rest = {row->value, row->len};
    struct wire_field f;
    int got;

    t->id.job = rd->job;
    t->id.epoch = rd->epoch;
    t->id.task = (uint32_t)strtoul(at, NULL, 16);
    if (t->id.task >= LIMIT_TASKS_PER_JOB)
        rd->bad = true;
    while ((got = wire_next(&rest, &f)) > 0) {
        switch (f.tag) {
        case hawk_store_Task_attempt_tag:
            t->id.attempt = (uint16_t)number(rd, &f, UINT16_MAX);
            break;
        case hawk_store_Task_run_us_tag: /* these two may be negative */
            t->run_us = (int64_t)f.number;
            break;
        case hawk_store_Task_code_tag:
            t->code = (int32_t)f.number;
            break;
        case hawk_store_Task_state_tag:
            t->state = (uint8_t)number(rd, &f, TASK_STATE_COUNT - 1);
            break;
        case hawk_store_Task_outcome_tag:
            t->outcome = (uint8_t)number(rd, &f, OUTCOME_COUNT - 1);
            break;
        default:
            break;
        }
    }
    if (got < 0 || rd->bad)
        return damaged(row);
    rd->fn(rd->arg, &m);
    return 0;
}

/* ---- Jobs ---- */

/* A row of a job, while it is read. */
struct job_row {
    struct msg_journal_job j;
    struct span tasks, desc;
    bool has_tasks;
    uint32_t chunks;
    struct span generation;
    struct codec_buf pieces;
};

static int read_fields(struct reader *rd, struct job_row *r, struct span rest)
{
    struct wire_field f;
    int got;

    while ((got = wire_next(&rest, &f)) > 0) {
        switch (f.tag) {
        case hawk_store_Job_estimate_us_tag:
            r->j.estimate_us = (int64_t)number(rd, &f, LIMIT_TIME_US);
            break;
        case hawk_store_Job_why_tag:
            r->j.why = (uint8_t)number(rd, &f, WHY_COUNT - 1);
            break;
        case hawk_store_Job_tasks_tag:
            r->tasks = f.bytes;
            r->has_tasks = true;
            break;
        case hawk_store_Job_desc_tag:
            r->desc = f.bytes;
            break;
        case hawk_store_Job_chunks_tag:
            r->chunks = (uint32_t)number(rd, &f, CODEC_ENVELOPE_MAX / ETCD_CHUNK_BYTES * 2);
            break;
        case hawk_store_Job_generation_tag:
            r->generation = f.bytes;
            break;
        default:
            break;
        }
    }
    return got;
}

struct pieces {
    struct codec_buf *to;
    uint32_t n;
};

static int take_piece(void *arg, const struct etcd_row *row)
{
    struct pieces *p = arg;
    struct codec_buf *b = p->to;

    if (b->cap - b->len < row->len)
        b->data = xrealloc(b->data, b->cap = 2 * (b->len + row->len));
    memcpy(b->data + b->len, row->value, row->len);
    b->len += row->len;
    p->n++;
    return 0;
}

static int read_pieces(struct reader *rd, struct job_row *r, const struct etcd_row *row)
{
    char from[ETCD_KEY_MAX], to[ETCD_KEY_MAX];
    struct pieces p = {.to = &r->pieces};
    struct big *big;
    int err;

    if (r->generation.len >= ETCD_GENERATION)
        return damaged(row);
    vec_grow(rd->bigs, rd->n_bigs, rd->bigs_cap);
    big = &rd->bigs[rd->n_bigs++];
    big->job = r->j.job.v;
    big->epoch = r->j.epoch;
    snprintf(big->generation, sizeof big->generation, "%.*s", (int)r->generation.len,
             (const char *)r->generation.data);
    etcd_key(rd->b, from, "desc/" JOB_KEY "/%s/", big->job, big->epoch, big->generation);
    etcd_key(rd->b, to, "desc/" JOB_KEY "/%s0", big->job, big->epoch, big->generation);
    err = etcd_scan(rd->b, from, to, ETCD_PAGE_CHUNKS, false, take_piece, &p);
    if (err)
        return err;
    return p.n == r->chunks && read_fields(rd, r, span_of(&r->pieces)) == 0 ? 0 : damaged(row);
}

static struct task_set *task_set_of(struct reader *rd, struct span s)
{
    size_t n = s.len / sizeof(uint32_t);
    struct task_set *set;

    if (n > LIMIT_TASKS_PER_JOB) {
        rd->bad = true;
        return NULL;
    }
    set = task_set_new((uint32_t)n);
    for (size_t i = 0; i < n; i++) {
        uint32_t v;

        memcpy(&v, s.data + i * sizeof v, sizeof v);
        set->v[i] = le32toh(v);
        if (i > 0 && set->v[i] <= set->v[i - 1])
            rd->bad = true;
    }
    return set;
}

static int deliver_job(struct reader *rd, struct job_row *r, const struct etcd_row *row)
{
    struct msg m = {.type = MSG_JOURNAL_JOB};
    char why[200] = "a number is out of its range";
    int err = 0;

    if (r->has_tasks)
        r->j.tasks = task_set_of(rd, r->tasks);
    if (rd->bad || codec_desc_decode(r->desc.data, r->desc.len, true, &r->j.desc, why, sizeof why) < 0) {
        log_error("a job's description in etcd: %s", why);
        err = damaged(row);
    } else {
        m.journal_job = r->j;
        rd->fn(rd->arg, &m);
        job_desc_drop(r->j.desc);
    }
    task_set_drop(r->j.tasks);
    return err;
}

static void add_orphan(struct reader *rd, const struct etcd_row *row)
{
    vec_grow(rd->orphans, rd->n_orphans, rd->orphans_cap);
    rd->orphans[rd->n_orphans++] = xstrdup(row->key);
}

static int read_owner(struct reader *rd, const struct etcd_row *row)
{
    struct msg m = {.type = MSG_JOURNAL_OWNER, .journal_owner = {.job = rd->job, .epoch = rd->epoch}};
    struct span rest = {row->value, row->len};
    struct wire_field f;
    int got;

    while ((got = wire_next(&rest, &f)) > 0)
        if (f.tag == hawk_store_Owner_owner_tag)
            m.journal_owner.owner = (uint16_t)number(rd, &f, UINT16_MAX);
    if (got < 0 || rd->bad)
        return damaged(row);
    rd->fn(rd->arg, &m);
    return 0;
}

/* What follows a job: its tasks, whether it was cancelled, and whom it belongs to. */
static int read_part(struct reader *rd, const struct etcd_row *row, const char *at)
{
    struct msg m = {.type = MSG_JOURNAL_CANCEL};

    if (strcmp(at, "owner") == 0)
        return read_owner(rd, row);
    if (strcmp(at, "cancel") != 0)
        return read_task(rd, row, at);
    m.journal_cancel.job = rd->job;
    m.journal_cancel.epoch = rd->epoch;
    rd->fn(rd->arg, &m);
    return 0;
}

/* JOB/EPOCH, what follows table in the row's key. */
static uint64_t key_job(struct reader *rd, const struct etcd_row *row, const char *table, uint16_t *epoch,
                        char **end)
{
    uint64_t job = key_id(rd, row, table, UINT64_MAX, end), v;

    v = **end == '/' ? strtoull(*end + 1, end, 16) : UINT64_MAX;
    if (v > UINT16_MAX)
        rd->bad = true;
    *epoch = (uint16_t)v;
    return job;
}

static int read_job(void *arg, const struct etcd_row *row)
{
    struct reader *rd = arg;
    struct job_row r = {0};
    char *end;
    int err;

    r.j.job.v = key_job(rd, row, "job/", &r.j.epoch, &end);
    if (rd->bad)
        return damaged(row);
    if (*end == '/' && rd->job.v == r.j.job.v && rd->epoch == r.j.epoch)
        return read_part(rd, row, end + 1);
    if (*end == '/') {
        add_orphan(rd, row);
        return 0;
    }
    if (read_fields(rd, &r, (struct span){row->value, row->len}) < 0)
        return damaged(row);
    err = r.chunks ? read_pieces(rd, &r, row) : 0;
    if (!err)
        err = deliver_job(rd, &r, row);
    rd->job = r.j.job;
    rd->epoch = r.j.epoch;
    codec_buf_free(&r.pieces);
    return err;
}

/* ---- What is nobody's: of transactions that were cut off, of jobs that had ended ---- */

static int note_orphan(void *arg, const struct etcd_row *row)
{
    struct reader *rd = arg;
    uint16_t epoch;
    char *end;
    uint64_t job = key_job(rd, row, "desc/", &epoch, &end);

    for (uint32_t i = 0; i < rd->n_bigs; i++) {
        const struct big *big = &rd->bigs[i];
        size_t len = strlen(big->generation);

        if (big->job == job && big->epoch == epoch && strncmp(end + 1, big->generation, len) == 0 &&
            end[1 + len] == '/')
            return 0;
    }
    add_orphan(rd, row);
    return 0;
}

static int remove_orphans(struct reader *rd)
{
    char from[ETCD_KEY_MAX], to[ETCD_KEY_MAX];
    struct backend *b = rd->b;
    int err;

    etcd_key(b, from, "desc/");
    etcd_key(b, to, "desc0");
    err = etcd_scan(b, from, to, ETCD_PAGE_ROWS, true, note_orphan, rd);
    for (uint32_t i = 0; !err && i < rd->n_orphans;) {
        etcd_txn_clear(&b->txn);
        b->txn_history = b->history;
        b->txn_forgets = true; /* pieces have environments, too */
        for (; i < rd->n_orphans && b->txn.n_ops < ETCD_TXN_OPS / 2; i++)
            etcd_txn_delete(&b->txn, rd->orphans[i], NULL);
        err = etcd_commit(b);
    }
    return err;
}

static int read_table(struct reader *rd, const char *table, int (*fn)(void *arg, const struct etcd_row *row))
{
    char from[ETCD_KEY_MAX], to[ETCD_KEY_MAX];

    etcd_key(rd->b, from, "%s/", table);
    etcd_key(rd->b, to, "%s0", table);
    return etcd_scan(rd->b, from, to, ETCD_PAGE_ROWS, false, fn, rd);
}

int etcd_rows_recover(struct backend *b, void (*fn)(void *arg, const struct msg *m), void *arg)
{
    struct reader rd = {.b = b, .fn = fn, .arg = arg};
    int err;

    b->why[0] = '\0';
    err = read_table(&rd, "history", read_history);
    if (!err)
        err = read_table(&rd, "policy", read_policy);
    if (!err)
        err = read_table(&rd, "node", read_node);
    if (!err)
        err = read_table(&rd, "job", read_job);
    if (!err)
        err = remove_orphans(&rd);
    if (err && b->why[0])
        log_error("%s: cannot be read: %s", b->name, b->why);
    free(rd.bigs);
    for (uint32_t i = 0; i < rd.n_orphans; i++)
        free(rd.orphans[i]);
    free(rd.orphans);
    return err;
}
