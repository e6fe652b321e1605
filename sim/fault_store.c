/* The journals of a virtual cluster, as store/store.c writes them: in groups, one commit at a time; a crash loses what was
 * not committed. What could not be written is kept and tried again, by itself and with whatever is written next. */
#include "sim/fault_internal.h"

#include "base/check.h"
#include "base/mem.h"

#include <stdlib.h>

#define RETRY_US US_PER_S /* STORE_RETRY_MS of store/store.h */

static void begin_commit(struct cluster *c, struct cluster_store *s, int64_t after_us)
{
    int64_t now_us = bus_now(c->bus);

    s->committing = s->n;
    s->commit_us = now_us + after_us + c->config.journal_us;
    if (s->slow_until_us > now_us)
        s->commit_us += s->slow_us;
}

void cluster_store_write(struct cluster *c, struct cluster_store *s, const struct msg *m)
{
    msg_ref(m);
    vec_grow(s->v, s->n, s->cap);
    s->v[s->n++] = *m;
    s->asked = true;
    if (s->commit_us == TIME_NEVER || s->retrying) {
        s->retrying = false;
        begin_commit(c, s, 0);
    }
}

/* The token of the last of the entries from..to that has one; 0: none has. */
static uint64_t last_token(const struct cluster_store *s, uint32_t from, uint32_t to)
{
    uint64_t token = 0;

    for (uint32_t i = from; i < to; i++)
        if (msg_journal_token(&s->v[i]))
            token = msg_journal_token(&s->v[i]);
    return token;
}

static void answer(struct cluster *c, const struct cluster_store *s, uint64_t token, int err)
{
    struct msg done = {.type = MSG_JOURNAL_DONE, .journal_done = {.token = token, .err = err}};

    if (token)
        bus_post(c->bus, s->ep, bus_now(c->bus), &done);
}

void cluster_store_due(struct cluster *c, struct cluster_store *s)
{
    uint64_t token = last_token(s, s->durable, s->committing);
    bool fails = s->full_until_us > bus_now(c->bus), asked = s->asked;

    s->commit_us = TIME_NEVER;
    s->asked = s->n > s->committing;
    if (fails) {
        if (asked)
            answer(c, s, token, HAWK_EIO);
        s->retrying = !s->asked;
        begin_commit(c, s, s->retrying ? RETRY_US : 0);
        return;
    }
    s->retrying = false;
    s->durable = s->committing;
    answer(c, s, token, 0);
    if (s->n > s->durable)
        begin_commit(c, s, 0);
}

void cluster_store_crash(struct cluster *c, struct cluster_store *s)
{
    uint32_t kept = s->durable;

    /* The disk may have had it, though nobody was told. */
    if (s->commit_us != TIME_NEVER && s->full_until_us <= bus_now(c->bus) && rng_below(&c->net.rng, 2))
        kept = s->committing;
    while (s->n > kept)
        msg_drop(&s->v[--s->n]);
    s->durable = kept;
    s->commit_us = TIME_NEVER;
    s->asked = s->retrying = false;
}

static uint16_t epoch_of(const struct msg *m)
{
    return m->type == MSG_JOURNAL_JOB      ? m->journal_job.epoch
           : m->type == MSG_JOURNAL_TASK   ? m->journal_task.id.epoch
           : m->type == MSG_JOURNAL_CANCEL ? m->journal_cancel.epoch
           : m->type == MSG_JOURNAL_OWNER  ? m->journal_owner.epoch
           : m->type == MSG_JOURNAL_ENDED  ? m->journal_ended.epoch
                                           : m->journal_job_end.epoch;
}

/* A job that was forgotten after its end may be accepted anew: what counts is the last word. */
bool cluster_store_ended(const struct cluster_store *s, job_id_t job, uint16_t epoch)
{
    for (uint32_t i = s->durable; i-- > 0;) {
        const struct msg *m = &s->v[i];

        if ((m->type == MSG_JOURNAL_JOB || m->type == MSG_JOURNAL_JOB_END) && job_eq(msg_job(m), job) &&
            epoch_of(m) == epoch)
            return m->type == MSG_JOURNAL_JOB_END;
    }
    return false;
}

/* ---- Reading it back: the rows that store/rows.c would have by then, in its order ---- */

enum journal_table { TABLE_HISTORY, TABLE_POLICY, TABLE_CLUSTER, TABLE_NUMBERS, TABLE_NODE, TABLE_JOB };
/* Of what is kept of a job: itself, its tasks by number, whom it belongs to and that it was cancelled, which are columns of the
 * job's row, how it ended. */
#define PART_JOB 0
#define PART_TASK(task) (1 + (uint64_t)(task))
#define PART_OWNER (UINT64_MAX - 2)
#define PART_CANCEL (UINT64_MAX - 1)
#define PART_ENDED UINT64_MAX

struct row {
    enum journal_table table;
    uint64_t id; /* of the job or node; history: its place */
    uint64_t part;
    uint16_t epoch;
    struct msg m; /* borrows the entry's handles */
};

struct rows {
    struct row *v;
    uint32_t n, cap;
};

static struct row row_of(const struct msg *m, uint32_t entry)
{
    struct row r = {.table = TABLE_JOB, .id = msg_job(m).v, .m = *m};

    if (m->type == MSG_HISTORY || m->type == MSG_JOURNAL_NODE) {
        r.table = m->type == MSG_HISTORY ? TABLE_HISTORY : TABLE_NODE;
        r.id = m->type == MSG_HISTORY ? entry : m->journal_node.node.v;
        return r;
    }
    if (m->type == MSG_JOURNAL_POLICY) {
        r.table = TABLE_POLICY;
        return r;
    }
    if (m->type == MSG_JOURNAL_CLUSTER) {
        r.table = TABLE_CLUSTER;
        return r;
    }
    if (m->type == MSG_JOURNAL_NUMBERS) {
        r.table = TABLE_NUMBERS;
        return r;
    }
    r.epoch = epoch_of(m);
    r.part = m->type == MSG_JOURNAL_TASK     ? PART_TASK(m->journal_task.id.task)
             : m->type == MSG_JOURNAL_CANCEL ? PART_CANCEL
             : m->type == MSG_JOURNAL_OWNER  ? PART_OWNER
             : m->type == MSG_JOURNAL_ENDED  ? PART_ENDED
                                             : PART_JOB;
    return r;
}

static struct row *find(const struct rows *rows, const struct row *like, uint64_t part)
{
    for (uint32_t i = 0; i < rows->n; i++) {
        struct row *r = &rows->v[i];

        if (r->id == like->id && r->table == like->table && r->epoch == like->epoch && r->part == part)
            return r;
    }
    return NULL;
}

static void replace(struct rows *rows, const struct row *with)
{
    struct row *r = find(rows, with, with->part);

    if (!r) {
        vec_grow(rows->v, rows->n, rows->cap);
        r = &rows->v[rows->n++];
    }
    *r = *with;
}

static void delete_job(struct rows *rows, const struct row *like)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < rows->n; i++) {
        const struct row *r = &rows->v[i];

        if (r->table != TABLE_JOB || r->id != like->id || r->epoch != like->epoch)
            rows->v[kept++] = *r;
    }
    rows->n = kept;
}

static void delete_part(struct rows *rows, const struct row *like, uint64_t part)
{
    struct row *r = find(rows, like, part);

    if (r)
        *r = rows->v[--rows->n];
}

/* Nothing where the job has no row. */
static bool is_update(const struct msg *m)
{
    return m->type == MSG_JOURNAL_CANCEL || m->type == MSG_JOURNAL_OWNER ||
           (m->type == MSG_JOURNAL_JOB && !m->journal_job.desc);
}

static void write_row(struct rows *rows, const struct msg *m, uint32_t entry)
{
    struct row row = row_of(m, entry), *job = find(rows, &row, PART_JOB);

    if (!job && is_update(m))
        return;
    if (m->type == MSG_JOURNAL_JOB_END) {
        delete_job(rows, &row);
    } else if (m->type != MSG_JOURNAL_JOB) {
        replace(rows, &row);
    } else if (m->journal_job.desc) { /* the whole row: also that it is not cancelled */
        delete_part(rows, &row, PART_CANCEL);
        delete_part(rows, &row, PART_OWNER);
        replace(rows, &row);
    } else {
        row.m.journal_job.desc = job->m.journal_job.desc;
        *job = row;
        delete_part(rows, &row, PART_ENDED);
    }
}

static int in_order(const void *a, const void *b)
{
    const struct row *x = a, *y = b;

    if (x->table != y->table)
        return x->table < y->table ? -1 : 1;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    if (x->epoch != y->epoch)
        return x->epoch < y->epoch ? -1 : 1;
    return (x->part > y->part) - (x->part < y->part);
}

void cluster_store_replay(struct cluster *c, struct cluster_store *s)
{
    struct msg recovered = {.type = MSG_RECOVERED};
    struct rows rows = {0};

    CHECK(s->n == s->durable);
    for (uint32_t i = 0; i < s->n; i++)
        write_row(&rows, &s->v[i], i);
    if (rows.n > 0)
        qsort(rows.v, rows.n, sizeof *rows.v, in_order);
    for (uint32_t i = 0; i < rows.n; i++) {
        const struct row *r = &rows.v[i];

        if (r->table == TABLE_JOB && !find(&rows, r, PART_JOB)) /* of a job that is not there */
            continue;
        msg_ref(&r->m);
        bus_post(c->bus, s->ep, bus_now(c->bus), &r->m);
    }
    free(rows.v);
    s->replayed = s->n;
    bus_post(c->bus, s->ep, bus_now(c->bus), &recovered);
}

void cluster_store_free(struct cluster_store *s)
{
    for (uint32_t i = 0; i < s->n; i++)
        msg_drop(&s->v[i]);
    free(s->v);
}
