/* The journals of a virtual cluster. As in store/store.c, entries are committed in groups, one commit at a
 * time. A crash loses what was not committed. Entries of a failed commit stay, and the next commit writes
 * them again, after RETRY_US or with the next write that asks. */
#include "faults/internal.h"

#include "base/check.h"
#include "base/mem.h"
#include "msg/records.h"

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

/* In every second case its queue is full soon, too: by what is drawn already, so that no other draw changes. */
void cluster_store_fill(struct cluster_store *s, int64_t until_us)
{
    s->full_until_us = until_us;
    s->queue_max = until_us % 2 ? 1 + (uint32_t)(until_us / 2 % 8) : 0;
}

/* As HAWK_ELIMIT of store_write(): the queue is full. What has no token is lost. */
static bool is_refused(struct cluster *c, const struct cluster_store *s, const struct msg *m)
{
    uint64_t token = msg_journal_token(m);

    if (s->queue_max == 0 || s->full_until_us <= bus_now(c->bus) || s->n - s->durable < s->queue_max)
        return false;
    if (token)
        cluster_post(
            c, s->ep,
            (struct msg){.type = MSG_JOURNAL_DONE, .journal_done = {.token = token, .err = HAWK_ELIMIT}});
    return true;
}

void cluster_store_write(struct cluster *c, struct cluster_store *s, const struct msg *m)
{
    if (is_refused(c, s, m))
        return;
    msg_ref(m);
    vec_grow(s->v, s->n, s->cap);
    s->v[s->n++] = *m;
    s->asked = true;
    if (s->commit_us == TIME_NEVER || s->retrying) {
        s->retrying = false;
        begin_commit(c, s, 0);
    }
}

/* The token of the last entry in from..to that has one; 0: none has. */
static uint64_t last_token(const struct cluster_store *s, uint32_t from, uint32_t to)
{
    uint64_t token = 0;

    for (uint32_t i = from; i < to; i++)
        if (msg_journal_token(&s->v[i]))
            token = msg_journal_token(&s->v[i]);
    return token;
}

static void answer_role(struct cluster *c, const struct cluster_store *s, uint64_t token, int err)
{
    if (token)
        cluster_post(c, s->ep,
                     (struct msg){.type = MSG_JOURNAL_DONE, .journal_done = {.token = token, .err = err}});
}

void cluster_store_due(struct cluster *c, struct cluster_store *s)
{
    uint64_t token = last_token(s, s->durable, s->committing);
    bool fails = s->full_until_us > bus_now(c->bus), asked = s->asked;

    s->commit_us = TIME_NEVER;
    s->asked = s->n > s->committing;
    if (fails) {
        if (asked)
            answer_role(c, s, token, HAWK_EIO);
        s->retrying = !s->asked;
        begin_commit(c, s, s->retrying ? RETRY_US : 0);
        return;
    }
    s->retrying = false;
    s->durable = s->committing;
    answer_role(c, s, token, 0);
    if (s->n > s->durable)
        begin_commit(c, s, 0);
}

void cluster_store_crash(struct cluster *c, struct cluster_store *s)
{
    uint32_t kept = s->durable;

    /* The disk may have finished the commit without telling anybody. */
    if (s->commit_us != TIME_NEVER && s->full_until_us <= bus_now(c->bus) && rng_below(&c->net.rng, 2))
        kept = s->committing;
    while (s->n > kept)
        msg_drop(&s->v[--s->n]);
    s->durable = kept;
    s->commit_us = TIME_NEVER;
    s->asked = s->retrying = false;
}

/* Whether the job's end is the last record of it: a job that was forgotten after its end may be accepted
 * anew. */
bool cluster_store_ended(const struct cluster_store *s, job_id_t job, uint16_t epoch)
{
    for (uint32_t i = s->durable; i-- > 0;) {
        const struct msg *m = &s->v[i];
        struct record_key k;

        if ((m->type == MSG_JOURNAL_JOB || m->type == MSG_JOURNAL_JOB_END) && record_key_of(m, &k) &&
            k.id == job.v && k.epoch == epoch)
            return m->type == MSG_JOURNAL_JOB_END;
    }
    return false;
}

const struct job_desc *cluster_store_desc(const struct cluster_store *s, job_id_t job)
{
    for (uint32_t i = s->durable; i-- > 0;)
        if (s->v[i].type == MSG_JOURNAL_JOB && s->v[i].journal_job.desc &&
            job_eq(s->v[i].journal_job.job, job))
            return s->v[i].journal_job.desc;
    return NULL;
}

enum task_state cluster_store_task(const struct cluster_store *s, job_id_t job, uint32_t task)
{
    for (uint32_t i = s->durable; i-- > 0;)
        if (s->v[i].type == MSG_JOURNAL_TASK && job_eq(s->v[i].journal_task.id.job, job) &&
            s->v[i].journal_task.id.task == task)
            return (enum task_state)s->v[i].journal_task.state;
    return TASK_WAITING;
}

/* ---- Reading it back: the records that store/apply.c would have by then, in their order ---- */

struct row {
    struct record_key key; /* of history: the id is the record's place */
    struct msg m;          /* borrows the entry's handles */
};

struct rows {
    struct row *v;
    uint32_t n, cap;
};

static struct row *find_row(const struct rows *rows, const struct record_key *k, uint32_t part)
{
    for (uint32_t i = 0; i < rows->n; i++) {
        struct row *r = &rows->v[i];

        if (r->key.id == k->id && r->key.table == k->table && r->key.epoch == k->epoch && r->key.part == part)
            return r;
    }
    return NULL;
}

static void put_row(struct rows *rows, const struct row *with)
{
    struct row *r = find_row(rows, &with->key, with->key.part);

    if (!r) {
        vec_grow(rows->v, rows->n, rows->cap);
        r = &rows->v[rows->n++];
    }
    *r = *with;
}

/* Deletes the parts `first` to `last` of a job. */
static void delete_parts(struct rows *rows, const struct record_key *job, uint32_t first, uint32_t last)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < rows->n; i++) {
        const struct record_key *k = &rows->v[i].key;

        if (!record_same_job(k, job) || k->part < first || k->part > last)
            rows->v[kept++] = rows->v[i];
    }
    rows->n = kept;
}

static void write_row(struct rows *rows, const struct msg *m, uint32_t entry)
{
    struct row row = {.m = *m}, *job;

    CHECK(record_key_of(m, &row.key));
    job = find_row(rows, &row.key, PART_JOB);
    if (m->type == MSG_HISTORY)
        row.key.id = entry;
    if (m->type == MSG_JOURNAL_JOB_END) {
        delete_parts(rows, &row.key, PART_JOB, UINT32_MAX);
    } else if (m->type != MSG_JOURNAL_JOB) {
        put_row(rows, &row);
    } else if (m->journal_job.desc) {
        put_row(rows, &row);
        delete_parts(rows, &row.key, PART_SAID, PART_SAID_LAST);
    } else if (job) {
        row.m.journal_job.desc = job->m.journal_job.desc;
        *job = row;
        delete_parts(rows, &row.key, PART_ENDED, PART_ENDED);
    }
}

static int in_order(const void *a, const void *b)
{
    const struct record_key *x = &((const struct row *)a)->key, *y = &((const struct row *)b)->key;

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
    struct rows rows = {0};

    CHECK(s->n == s->durable);
    for (uint32_t i = 0; i < s->n; i++)
        write_row(&rows, &s->v[i], i);
    if (rows.n > 0)
        qsort(rows.v, rows.n, sizeof *rows.v, in_order);
    for (uint32_t i = 0; i < rows.n; i++) {
        const struct row *r = &rows.v[i];

        /* A part of a job that is not there. */
        if (r->key.table == TABLE_JOB && !find_row(&rows, &r->key, PART_JOB))
            continue;
        msg_ref(&r->m);
        cluster_post(c, s->ep, r->m);
    }
    free(rows.v);
    s->replayed = s->n;
    cluster_post(c, s->ep, (struct msg){.type = MSG_RECOVERED});
}

void cluster_store_free(struct cluster_store *s)
{
    for (uint32_t i = 0; i < s->n; i++)
        msg_drop(&s->v[i]);
    free(s->v);
}
