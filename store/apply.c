/* What one record of a journal does to others (a job that is put anew is not cancelled), and reading all of them back;
 * for any backend: see backend.h. */
#include "base/log.h"
#include "base/mem.h"
#include "store/backend.h"

#include <stdlib.h>

#define GROUP_MAX 16384 /* entries per commit: bounds how long the first of them waits */
#define REMOVE_AT_ONCE 50

/* The backend that is read or written, and where it reports errors. */
struct place {
    const struct backend_ops *ops;
    struct backend *b;
    struct records_history *history; /* writing only */
};

static struct record_key part_of(const struct record_key *job, uint32_t part)
{
    struct record_key k = *job;

    k.part = part;
    return k;
}

static int damaged_record(const struct place *p, const struct record_key *k)
{
    char text[RECORD_TEXT];

    log_error("%s: %s cannot be read: restore %s", p->ops->name(p->b), record_text(text, k), p->ops->remedy);
    return HAWK_ECORRUPT;
}

/* ---- The environment of a job that has ended ---- */

/* The tasks of a job that are on record as ended. */
struct ended {
    const struct place *place;
    uint32_t n;
};

static int count_ended(void *arg, const struct record_key *k, struct span value)
{
    struct ended *e = arg;
    struct msg m;
    int64_t ago_us;

    if (k->part < PART_TASK || k->part >= PART_TASK_END)
        return 0;
    if (record_decode(k, value, &m, &ago_us))
        return damaged_record(e->place, k);
    e->n += m.journal_task.state != TASK_LAUNCHED;
    return 0;
}

/* Removes the environment, which may hold secrets, since nothing of the job runs any more. A job that
 * lacks the record of a task's end keeps its environment: it goes on when the journal is read again
 * (docs/protocol.md 11.5). */
static int forget_env(const struct place *p, const struct record_key *job,
                      const struct msg_journal_ended *end)
{
    const struct record_key cancel = part_of(job, PART_CANCEL);
    struct ended ended = {.place = p};
    struct codec_buf old = {0}, value = {0};
    struct msg m = {.type = MSG_NONE};
    struct job_desc *d = NULL;
    int64_t ago_us;
    int err;

    err = p->ops->get(p->b, &cancel, &old);
    codec_buf_free(&old);
    if (err && err != HAWK_ENOT_FOUND)
        return err;
    if (job_may_run_again(end->state, !err))
        return 0;
    err = p->ops->get(p->b, job, &old);
    if (!err && record_decode(job, span_of(&old), &m, &ago_us) == 0)
        d = m.journal_job.desc;
    if (err || !d || d->env.n == 0) { /* leaves a record that cannot be read as it is */
        err = err == HAWK_ENOT_FOUND ? 0 : err;
        goto out;
    }
    err = p->ops->scan(p->b, job, count_ended, &ended);
    if (err || ended.n + end->left_out < d->tasks)
        goto out;
    job_desc_forget_env(&m.journal_job.desc);
    record_copy_job(&value, span_of(&old),
                    ~(1u << JOB_FIELD_desc | 1u << JOB_FIELD_chunks | 1u << JOB_FIELD_generation));
    record_put_desc(&value, m.journal_job.desc);
    err = p->ops->put(p->b, job, span_of(&value));
    p->ops->forgot(p->b);
out:
    msg_drop(&m);
    codec_buf_free(&old);
    codec_buf_free(&value);
    return err;
}

/* ---- Writing ---- */

static int put_job(const struct place *p, const struct entry *e)
{
    struct record_key said = part_of(&e->key, PART_SAID);
    int err = p->ops->put(p->b, &e->key, span_of(&e->value));

    return err ? err : p->ops->remove(p->b, &said, PART_SAID_LAST);
}

static int change_job(const struct place *p, const struct entry *e)
{
    struct record_key ended = part_of(&e->key, PART_ENDED);
    struct codec_buf old = {0}, value = {0};
    int err = p->ops->get(p->b, &e->key, &old);

    if (!err) {
        record_copy_job(&value, span_of(&e->value), ~(1u << JOB_FIELD_at_us));
        record_copy_job(&value, span_of(&old), 1u << JOB_FIELD_desc | 1u << JOB_FIELD_at_us);
        err = p->ops->put(p->b, &e->key, span_of(&value));
        if (!err)
            err = p->ops->remove(p->b, &ended, PART_ENDED);
    }
    codec_buf_free(&old);
    codec_buf_free(&value);
    return err == HAWK_ENOT_FOUND ? 0 : err;
}

static int put_ended(const struct place *p, const struct entry *e)
{
    struct record_key job = part_of(&e->key, PART_JOB);
    struct msg m;
    int64_t ago_us;
    int err = p->ops->put(p->b, &e->key, span_of(&e->value));

    if (err || record_decode(&e->key, span_of(&e->value), &m, &ago_us))
        return err;
    return forget_env(p, &job, &m.journal_ended);
}

static int apply_entry(const struct place *p, const struct entry *e)
{
    switch (e->change) {
    case ENTRY_APPEND:
        return records_history_append(p->history, p->ops, p->b, e);
    case ENTRY_JOB:
        return put_job(p, e);
    case ENTRY_JOB_CHANGE:
        return change_job(p, e);
    case ENTRY_JOB_ENDED:
        return put_ended(p, e);
    case ENTRY_REMOVE:
        return p->ops->remove(p->b, &e->key, e->key.part);
    case ENTRY_REMOVE_JOB:
        p->ops->forgot(p->b);
        return p->ops->remove(p->b, &e->key, UINT32_MAX);
    case ENTRY_PUT:
        break;
    }
    return p->ops->put(p->b, &e->key, span_of(&e->value));
}

static bool fits(const struct place *p, const struct entry *e)
{
    return p->ops->fits(p->b, e) && (e->change != ENTRY_APPEND || records_history_fits(p->history));
}

int records_commit(const struct backend_ops *ops, struct backend *b, struct records_history *history,
                   const struct entry *first, const struct entry **last)
{
    const struct place p = {ops, b, history};
    int err = ops->begin(b), n = 0;

    records_history_begin(history);
    for (const struct entry *e = first; e && n < GROUP_MAX && (n == 0 || fits(&p, e)); e = e->next, n++) {
        if (!err)
            err = apply_entry(&p, e);
        *last = e;
    }
    if (!err)
        err = ops->commit(b);
    if (err) {
        ops->rollback(b);
        records_history_failed(history);
    }
    return err;
}

/* ---- Reading ---- */

struct keys {
    struct record_key *v;
    uint32_t n, cap;
};

struct reader {
    struct place place;
    void (*fn)(void *arg, const struct msg *m);
    void *arg;
    struct record_key job; /* the job that was read last; parts that belong to no job are removed */
    struct keys orphans;
};

static int read_record(void *arg, const struct record_key *k, struct span value)
{
    struct reader *r = arg;
    struct msg m;
    int64_t ago_us;

    if (k->table == TABLE_JOB && k->part != PART_JOB && !record_same_job(k, &r->job)) {
        vec_grow(r->orphans.v, r->orphans.n, r->orphans.cap);
        r->orphans.v[r->orphans.n++] = *k;
        return 0;
    }
    if (record_decode(k, value, &m, &ago_us))
        return damaged_record(&r->place, k);
    r->job = *k;
    r->fn(r->arg, &m);
    if (m.type == MSG_JOURNAL_JOB && ago_us >= 0) {
        struct msg age = {.type = MSG_JOURNAL_AGE,
                          .journal_age = {.job = m.journal_job.job, .ago_us = ago_us}};

        r->fn(r->arg, &age);
    }
    msg_drop(&m);
    return 0;
}

static int remove_all(const struct place *p, const struct keys *keys)
{
    int err = 0;

    for (uint32_t i = 0; !err && i < keys->n;) {
        err = p->ops->begin(p->b);
        for (int n = 0; !err && i < keys->n && n < REMOVE_AT_ONCE; i++, n++)
            err = p->ops->remove(p->b, &keys->v[i], keys->v[i].part);
        if (!err)
            err = p->ops->commit(p->b);
        if (err)
            p->ops->rollback(p->b);
    }
    return err;
}

int records_recover(const struct backend_ops *ops, struct backend *b, bool clean,
                    void (*fn)(void *arg, const struct msg *m), void *arg)
{
    struct reader r = {.place = {.ops = ops, .b = b}, .fn = fn, .arg = arg, .job = {.table = TABLE_COUNT}};
    int err = ops->scan(b, NULL, read_record, &r);

    if (err == HAWK_EIO)
        log_error("%s: cannot be read: %s", ops->name(b), ops->why(b));
    if (!err && clean)
        err = remove_all(&r.place, &r.orphans);
    if (!err && clean && ops->sweep)
        err = ops->sweep(b);
    free(r.orphans.v);
    return err;
}

static int note_ended(void *arg, const struct record_key *k, struct span value)
{
    struct keys *keys = arg;

    if (k->table != TABLE_JOB || k->part != PART_ENDED)
        return 0;
    vec_grow(keys->v, keys->n, keys->cap);
    keys->v[keys->n++] = *k;
    return 0;
}

int records_forget_old(const struct backend_ops *ops, struct backend *b)
{
    const struct place p = {.ops = ops, .b = b};
    struct keys ended = {0};
    int err = ops->scan(b, NULL, note_ended, &ended);

    if (!err)
        err = ops->begin(b);
    for (uint32_t i = 0; !err && i < ended.n; i++) {
        struct record_key job = part_of(&ended.v[i], PART_JOB);
        struct codec_buf value = {0};
        struct msg m;
        int64_t ago_us;

        err = ops->get(b, &ended.v[i], &value);
        if (!err && record_decode(&ended.v[i], span_of(&value), &m, &ago_us) == 0)
            err = forget_env(&p, &job, &m.journal_ended);
        codec_buf_free(&value);
    }
    free(ended.v);
    return err ? err : ops->commit(b);
}
