/* What the dist writes, and what waits until it is durable (docs/protocol.md 11): jobs that are to be accepted, ends of
 * tasks that are to be acknowledged, cancellations that are to be confirmed. Nothing else waits for the disk. */
#include "dist/internal.h"

#include "base/ring.h"
#include "base/units.h"

#include <stdlib.h>

/* How long after it could not be queued a record is put out again. */
#define REWRITE_US (1 * US_PER_S)

void journal_free(struct dist *d)
{
    free(d->pending.v);
    free(d->failed.v);
}

/* ---- Writing ---- */

/* It was put out, or waits for what was. */
static void record(struct step *s, enum dist_record_kind kind, struct try_id id, uint32_t peer)
{
    struct dist_record r = {.token = s->d->token, .id = id, .peer = peer, .kind = (uint8_t)kind};

    ring_push(&s->d->pending, r);
}

static struct try_id whole(const struct dist_job *job)
{
    return (struct try_id){.job = job->id, .epoch = job->first_epoch};
}

static void put_job(struct step *s, struct dist_job *job, bool all)
{
    struct msg_journal_job *m = &out_add(s->out, MSG_JOURNAL_JOB, 0)->journal_job;
    bool handed = job->hand != HAND_NONE && job->hand != HAND_HELD_BACK;

    m->job = job->id;
    m->token = ++s->d->token;
    m->desc = all ? job_desc_ref(job->desc) : NULL;
    m->tasks = handed ? hand_tasks(job) : NULL;
    m->estimate_us = job->estimate_us;
    m->epoch = job->first_epoch;
    m->life = job->life;
    m->handed = handed ? job->epoch : 0;
    m->why = job->why;
    m->class = job->class;
    if (!all)
        job->change = m->token;
    record(s, all ? RECORD_JOB : RECORD_CHANGE, whole(job), 0);
}

static void put_cancel(struct step *s, const struct dist_job *job)
{
    struct msg_journal_cancel *m = &out_add(s->out, MSG_JOURNAL_CANCEL, 0)->journal_cancel;

    m->job = job->id;
    m->epoch = job->first_epoch;
    m->token = ++s->d->token;
    record(s, RECORD_CANCEL, whole(job), 0);
}

static void put_task(struct step *s, const struct dist_job *job, uint32_t i, enum dist_record_kind kind)
{
    struct msg_journal_task *m = &out_add(s->out, MSG_JOURNAL_TASK, 0)->journal_task;
    const struct dist_task *t = &job->tasks[i];

    m->id = task_try(job, i);
    m->id.epoch = job->first_epoch;
    m->token = ++s->d->token;
    m->run_us = t->run_us;
    m->worker = (node_id_t){t->worker};
    m->code = task_state_final(t->state) ? t->code : 0;
    m->state = t->state;
    m->outcome = t->outcome;
    record(s, kind, m->id, 0);
}

static void put_ended(struct step *s, const struct dist_job *job)
{
    struct msg_journal_ended *m = &out_add(s->out, MSG_JOURNAL_ENDED, 0)->journal_ended;

    m->job = job->id;
    m->token = ++s->d->token;
    m->cutoff_us = job->cutoff_us;
    m->response_us = job->end_us - job->submit_us;
    if (m->response_us > LIMIT_TIME_US) /* a clock was set meanwhile: the next life takes no longer time */
        m->response_us = LIMIT_TIME_US;
    m->left_out = job->left_out;
    m->epoch = job->first_epoch;
    m->state = job->state;
    m->promoted = job->promoted;
    record(s, RECORD_ENDED, whole(job), 0);
}

static void put_job_end(struct step *s, job_id_t job, uint16_t epoch, uint32_t state)
{
    struct msg_journal_job_end *m = &out_add(s->out, MSG_JOURNAL_JOB_END, 0)->journal_job_end;

    m->job = job;
    m->epoch = epoch;
    m->token = ++s->d->token;
    m->state = (uint8_t)state;
    record(s, RECORD_JOB_END, (struct try_id){.job = job, .epoch = epoch}, state);
}

static void put_numbers(struct step *s)
{
    struct msg_journal_numbers *m = &out_add(s->out, MSG_JOURNAL_NUMBERS, 0)->journal_numbers;

    m->token = ++s->d->token;
    m->next = s->d->seq_end;
    record(s, RECORD_NUMBERS, (struct try_id){.job = {s->d->seq_end}}, 0);
}

/* For the first time, or again. Of a job that was forgotten meanwhile the end is due, with what waits for that. */
static void put(struct step *s, const struct dist_record *r)
{
    struct dist_job *job = job_find(s->d, r->id.job);

    switch (job || r->kind >= RECORD_NUMBERS ? r->kind : RECORD_JOB_END) {
    case RECORD_JOB:
    case RECORD_CHANGE:
        put_job(s, job, r->kind == RECORD_JOB);
        break;
    case RECORD_CANCEL:
        put_cancel(s, job);
        break;
    case RECORD_LAUNCH:
    case RECORD_TASK:
        put_task(s, job, r->id.task, r->kind);
        break;
    case RECORD_ENDED:
        put_ended(s, job);
        break;
    case RECORD_JOB_END:
        put_job_end(s, r->id.job, r->id.epoch, r->peer);
        break;
    case RECORD_NUMBERS:
        put_numbers(s);
        break;
    default:
        record(s, r->kind, r->id, r->peer); /* behind what it waits for */
    }
}

/* Everything but new jobs may rely on what was put out before it, so it keeps its place behind what is to be put out
 * again. */
static void in_order(struct step *s, enum dist_record_kind kind, struct try_id id, uint32_t peer)
{
    struct dist_record r = {.id = id, .peer = peer, .kind = (uint8_t)kind};

    if (s->d->failed.n > 0)
        ring_push(&s->d->failed, r);
    else
        put(s, &r);
}

void journal_job(struct step *s, struct dist_job *job)
{
    job->journalled = true;
    put_job(s, job, true);
}

void journal_change(struct step *s, struct dist_job *job)
{
    if (job->journalled)
        in_order(s, RECORD_CHANGE, whole(job), 0);
}

void journal_cancel(struct step *s, const struct dist_job *job)
{
    if (job->journalled)
        in_order(s, RECORD_CANCEL, whole(job), 0);
}

/* One that is being cancelled ends so again the tasks that nobody has run. */
void journal_task(struct step *s, struct dist_job *job, uint32_t i)
{
    const struct dist_task *t = &job->tasks[i];

    if (!job->journalled)
        return;
    if (t->state == TASK_CANCELLED && job->cancelling && t->attempt == 0)
        job->left_out++;
    else
        in_order(s, RECORD_TASK, (struct try_id){.job = job->id, .task = i, .epoch = job->first_epoch}, 0);
}

void journal_launch(struct step *s, const struct dist_job *job, uint32_t i)
{
    struct try_id id = task_try(job, i);

    id.epoch = job->first_epoch;
    in_order(s, RECORD_LAUNCH, id, 0);
}

void journal_ended(struct step *s, const struct dist_job *job)
{
    if (job->journalled)
        in_order(s, RECORD_ENDED, whole(job), 0);
}

void journal_job_end(struct step *s, const struct dist_job *job)
{
    if (job->journalled)
        in_order(s, RECORD_JOB_END, whole(job), job->state);
}

void journal_numbers(struct step *s) { in_order(s, RECORD_NUMBERS, (struct try_id){0}, 0); }

/* Something is put out that is not durable, or must be put out again. */
static bool must_wait(const struct dist *d) { return d->token > d->durable || d->failed.n > 0; }

/* ---- What waits ---- */

static void put_ack(struct step *s, uint32_t worker, const struct try_id *id)
{
    const struct dist_node *n = node_find(s->d, worker);

    /* Whoever comes back says again what was not acknowledged. */
    if (n && n->stream)
        out_add(s->out, MSG_FINISH_ACK, worker)->finish_ack.id = *id;
}

void journal_ack(struct step *s, uint32_t worker, const struct try_id *id)
{
    if (must_wait(s->d))
        in_order(s, RECORD_ACK, *id, worker);
    else
        put_ack(s, worker, id);
}

static void put_cancelled(struct step *s, job_id_t job, uint32_t client, int err)
{
    struct msg_cancelled *m = &out_add(s->out, MSG_CANCELLED, 0)->cancelled;

    m->job = job;
    m->client = client;
    m->err = err;
}

void journal_cancelled(struct step *s, const struct dist_job *job, uint32_t client)
{
    if (must_wait(s->d))
        in_order(s, RECORD_CANCELLED, (struct try_id){.job = job->id}, client);
    else
        put_cancelled(s, job->id, client, 0);
}

void journal_refused(struct step *s, const struct dist_job *job, int err)
{
    in_order(s, RECORD_REFUSED, (struct try_id){.job = job->id, .task = (uint32_t)-err}, job->client);
}

static bool any_awaited(const struct dist_records *q)
{
    for (uint32_t i = 0; i < q->n; i++) {
        uint8_t kind = ring_at(q, i).kind;

        if (kind == RECORD_LAUNCH || kind == RECORD_CANCELLED || kind == RECORD_REFUSED)
            return true;
    }
    return false;
}

bool journal_awaited(const struct dist *d) { return any_awaited(&d->pending) || any_awaited(&d->failed); }

/* ---- What the journal says ---- */

static void written(struct step *s, const struct dist_record *r)
{
    struct dist_job *job = job_find(s->d, r->id.job);

    switch (r->kind) {
    case RECORD_JOB:
        if (job && job->journalling)
            job_journalled(s, job, 0);
        break;
    case RECORD_CHANGE:
        if (job)
            hand_journalled(s, job, r->token);
        break;
    case RECORD_LAUNCH:
        task_journalled(s, &r->id, 0);
        break;
    case RECORD_NUMBERS:
        if (r->id.job.v > s->d->seq_durable)
            s->d->seq_durable = r->id.job.v;
        break;
    case RECORD_ACK:
        put_ack(s, r->peer, &r->id);
        break;
    case RECORD_CANCELLED:
        put_cancelled(s, r->id.job, r->peer, 0);
        break;
    case RECORD_REFUSED:
        submit_refused(s, r->peer, -(int)r->id.task);
        break;
    default:
        break;
    }
}

/* Whoever waits for an answer is told that it cannot be written. Returns whether that was all there was to it. */
static bool tell_failure(struct step *s, const struct dist_record *r, int err)
{
    struct dist_job *job = job_find(s->d, r->id.job);

    if (r->kind == RECORD_JOB && job && job->journalling)
        job_journalled(s, job, err);
    if (r->kind == RECORD_LAUNCH)
        task_journalled(s, &r->id, err);
    if (r->kind == RECORD_CANCELLED)
        put_cancelled(s, r->id.job, r->peer, err);
    if (r->kind == RECORD_REFUSED) /* it may come back, should we crash before it can be written */
        submit_refused(s, r->peer, err);
    return r->kind == RECORD_LAUNCH || r->kind == RECORD_CANCELLED || r->kind == RECORD_REFUSED ||
           r->kind == RECORD_NONE;
}

/* The store keeps what it could not write and tries again. */
static void delayed(struct step *s, uint64_t token)
{
    struct dist_records *q = &s->d->pending;

    for (uint32_t i = 0, n = q->n; i < n; i++) {
        struct dist_record r = ring_at(q, i);

        if (r.token > token)
            break;
        if (tell_failure(s, &r, HAWK_EIO)) /* which may have made the ring grow */
            ring_at(q, i).kind = RECORD_NONE;
    }
}

/* Something up to this token was not even queued. All of that is put out again, and so is what may rely on it. */
static void refused(struct step *s, uint64_t token, int err)
{
    struct dist *d = s->d;

    while (d->pending.n && ring_at(&d->pending, 0).token <= token) {
        struct dist_record r;

        ring_pop(&d->pending, &r);
        if (!tell_failure(s, &r, err))
            ring_push(&d->failed, r);
    }
    for (uint32_t n = d->pending.n; n > 0; n--) {
        struct dist_record r;

        ring_pop(&d->pending, &r);
        ring_push(r.kind == RECORD_JOB ? &d->pending : &d->failed, r);
    }
    if (d->failed.n > 0 && d->rewrite_at == TIME_NEVER)
        d->rewrite_at = s->now + REWRITE_US;
}

/* Covers every token up to the one it names. With HAWK_EIO nothing is lost, and a later one covers it. */
void on_journal_done(struct step *s, const struct msg *m)
{
    struct dist *d = s->d;
    uint64_t token = m->journal_done.token;

    if (m->journal_done.err == HAWK_EIO) {
        delayed(s, token);
        return;
    }
    if (m->journal_done.err) {
        refused(s, token, m->journal_done.err);
        return;
    }
    if (token > d->durable)
        d->durable = token;
    while (d->pending.n && ring_at(&d->pending, 0).token <= token) {
        struct dist_record r;

        ring_pop(&d->pending, &r);
        written(s, &r);
    }
}

void journal_rewrite(struct step *s)
{
    struct dist *d = s->d;

    d->rewrite_at = TIME_NEVER;
    while (d->failed.n > 0) {
        struct dist_record r;

        ring_pop(&d->failed, &r);
        put(s, &r);
    }
}
