/* Records of the dist, and what waits until they are durable (docs/protocol.md 11): jobs to be accepted and offered to
 * central, ends of tasks to be acknowledged, cancellations, refusals and holds to be confirmed, launches of tasks that
 * run at most once, and numbers of jobs. */
#include "dist/internal.h"

#include "base/ring.h"
#include "base/units.h"

#include <stdlib.h>

/* The delay before a record is put out again that the store did not take. */
#define REWRITE_US (1 * US_PER_S)

void dist_journal_free(struct dist *d)
{
    free(d->pending.v);
    free(d->failed.v);
}

/* ---- Writing ---- */

/* Adds a record that was put out, or that waits for one. */
static void add_record(struct dist *d, const struct dist_record *r)
{
    ring_push(&d->pending, *r);
    ring_at(&d->pending, d->pending.n - 1).token = d->token;
}

/* A record about a job as a whole. */
static struct dist_record of_job(enum dist_record_kind kind, const struct dist_job *job)
{
    return (struct dist_record){.kind = (uint8_t)kind, .job = job->id, .epoch = job->first_epoch};
}

static struct dist_record of_task(enum dist_record_kind kind, const struct dist_job *job, uint32_t i)
{
    struct dist_record r = of_job(kind, job);

    r.task = i;
    r.attempt = job->tasks[i].attempt;
    return r;
}

static void put_job(struct dist *d, struct dist_job *job, const struct dist_record *r)
{
    bool all = r->kind == RECORD_JOB;
    struct msg_journal_job *m = &out_add(d->out, MSG_JOURNAL_JOB, 0)->journal_job;
    bool handed = job->hand != HAND_NONE && job->hand != HAND_HELD_BACK;

    m->job = job->id;
    m->token = ++d->token;
    m->desc = all ? job_desc_ref(job->desc) : NULL;
    m->tasks = handed ? dist_handover_tasks(job) : NULL;
    m->estimate_us = job->estimate_us;
    m->epoch = job->first_epoch;
    m->life = job->life;
    m->handed = handed ? job->epoch : 0;
    m->why = job->why;
    m->class = job->class;
    if (!all)
        job->change = m->token;
    add_record(d, r);
}

static void put_cancel(struct dist *d, const struct dist_job *job, const struct dist_record *r)
{
    struct msg_journal_cancel *m = &out_add(d->out, MSG_JOURNAL_CANCEL, 0)->journal_cancel;

    m->job = job->id;
    m->epoch = job->first_epoch;
    m->token = ++d->token;
    add_record(d, r);
}

static void put_task(struct dist *d, const struct dist_job *job, const struct dist_record *r)
{
    struct msg_journal_task *m = &out_add(d->out, MSG_JOURNAL_TASK, 0)->journal_task;
    const struct dist_task *t = &job->tasks[r->task];
    struct dist_record now = *r;

    m->id = dist_task_try(job, r->task);
    m->id.epoch = job->first_epoch;
    m->token = ++d->token;
    m->run_us = task_state_final(t->state) ? t->run_us : 0;
    m->worker = (node_id_t){t->worker};
    m->code = task_state_final(t->state) ? t->code : 0;
    m->state = t->state;
    m->outcome = t->outcome;
    m->failures = (uint16_t)dist_task_failures(job, r->task);
    m->used = dist_task_used(t);
    now.attempt = t->attempt; /* when it is put out again, the task may be in a later launch */
    add_record(d, &now);
}

static void put_ended(struct dist *d, const struct dist_job *job, const struct dist_record *r)
{
    struct msg_journal_ended *m = &out_add(d->out, MSG_JOURNAL_ENDED, 0)->journal_ended;

    m->job = job->id;
    m->token = ++d->token;
    m->cutoff_us = job->cutoff_us;
    m->response_us = job->end_us - job->submit_us;
    /* The clock was changed meanwhile: the next life accepts no longer time. */
    if (m->response_us > LIMIT_TIME_US)
        m->response_us = LIMIT_TIME_US;
    m->left_out = job->left_out;
    m->epoch = job->first_epoch;
    m->state = job->state;
    m->promoted = job->promoted;
    add_record(d, r);
}

static void put_waits(struct dist *d, const struct dist_job *job, const struct dist_record *r)
{
    struct msg_journal_waits *m = &out_add(d->out, MSG_JOURNAL_WAITS, 0)->journal_waits;

    m->job = job->id;
    m->token = ++d->token;
    m->cause = job->cause;
    m->met = job->after_met;
    m->epoch = job->first_epoch;
    m->held = job->held;
    m->unwanted = task_set_ref(job->unwanted);
    add_record(d, r);
}

static void put_job_end(struct dist *d, const struct dist_record *r)
{
    struct msg_journal_job_end *m = &out_add(d->out, MSG_JOURNAL_JOB_END, 0)->journal_job_end;

    m->job = r->job;
    m->epoch = r->epoch;
    m->token = ++d->token;
    m->state = (uint8_t)r->job_state;
    add_record(d, r);
}

static void put_numbers(struct dist *d)
{
    struct msg_journal_numbers *m = &out_add(d->out, MSG_JOURNAL_NUMBERS, 0)->journal_numbers;

    m->token = ++d->token;
    m->next = d->seq_end;
    add_record(d, &(struct dist_record){.kind = RECORD_NUMBERS, .numbers_end = d->seq_end});
}

/* Puts a record out, for the first time or again. If its job was forgotten meanwhile, the job's end is put
 * out instead. */
static void put_record(struct dist *d, const struct dist_record *r)
{
    struct dist_job *job = r->kind < RECORD_NUMBERS ? dist_job_find(d, r->job) : NULL;

    if (!job && r->kind < RECORD_JOB_END) {
        put_job_end(d, &(struct dist_record){.kind = RECORD_JOB_END, .job = r->job, .epoch = r->epoch});
        return;
    }
    switch (r->kind) {
    case RECORD_JOB:
    case RECORD_CHANGE:
        put_job(d, job, r);
        break;
    case RECORD_CANCEL:
        put_cancel(d, job, r);
        break;
    case RECORD_LAUNCH:
    case RECORD_FAILURE:
    case RECORD_TASK:
        put_task(d, job, r);
        break;
    case RECORD_ENDED:
        put_ended(d, job, r);
        break;
    case RECORD_WAITS:
        put_waits(d, job, r);
        break;
    case RECORD_JOB_END:
        put_job_end(d, r);
        break;
    case RECORD_NUMBERS:
        put_numbers(d);
        break;
    default:
        add_record(d, r); /* waits behind the records before it */
    }
}

/* Keeps the order: any record but a new job's may rely on those before it, so it waits behind those that must
 * be put out again. */
static void in_order(struct dist *d, struct dist_record r)
{
    if (d->failed.n > 0)
        ring_push(&d->failed, r);
    else
        put_record(d, &r);
}

void dist_journal_job(struct dist *d, struct dist_job *job)
{
    struct dist_record r = of_job(RECORD_JOB, job);

    job->journalled = true;
    put_job(d, job, &r);
}

void dist_journal_change(struct dist *d, struct dist_job *job)
{
    if (job->journalled)
        in_order(d, of_job(RECORD_CHANGE, job));
}

void dist_journal_cancel(struct dist *d, const struct dist_job *job)
{
    if (job->journalled)
        in_order(d, of_job(RECORD_CANCEL, job));
}

/* Cancelled tasks that never ran have no record: the job's cancellation, or its JOURNAL_WAITS, cancels them again. */
void dist_journal_task(struct dist *d, struct dist_job *job, uint32_t i)
{
    if (!job->journalled)
        return;
    if (dist_task_left_out(job, i))
        job->left_out++;
    else
        in_order(d, of_task(RECORD_TASK, job, i));
}

void dist_journal_launch(struct dist *d, const struct dist_job *job, uint32_t i)
{
    in_order(d, of_task(RECORD_LAUNCH, job, i));
}

void dist_journal_failure(struct dist *d, const struct dist_job *job, uint32_t i)
{
    if (job->journalled)
        in_order(d, of_task(RECORD_FAILURE, job, i));
}

void dist_journal_ended(struct dist *d, const struct dist_job *job)
{
    if (job->journalled)
        in_order(d, of_job(RECORD_ENDED, job));
}

void dist_journal_waits(struct dist *d, const struct dist_job *job)
{
    if (job->journalled)
        in_order(d, of_job(RECORD_WAITS, job));
}

void dist_journal_job_end(struct dist *d, const struct dist_job *job)
{
    struct dist_record r = of_job(RECORD_JOB_END, job);

    r.job_state = job->state;
    if (job->journalled)
        in_order(d, r);
}

void dist_journal_numbers(struct dist *d) { in_order(d, (struct dist_record){.kind = RECORD_NUMBERS}); }

bool dist_journal_is_behind(const struct dist *d) { return d->pending.n > 0 || d->failed.n > 0; }

/* ---- What waits ---- */

void dist_finish_ack(struct dist *d, uint32_t worker, const struct try_id *id)
{
    const struct dist_node *n = dist_node_find(d, worker);

    /* A worker that comes back repeats what was not acknowledged. */
    if (n && n->stream)
        out_add(d->out, MSG_FINISH_ACK, worker)->finish_ack.id = *id;
}

void dist_journal_finish_ack(struct dist *d, uint32_t worker, const struct try_id *id)
{
    if (dist_journal_is_behind(d))
        in_order(d, (struct dist_record){.kind = RECORD_ACK,
                                         .job = id->job,
                                         .task = id->task,
                                         .epoch = id->epoch,
                                         .attempt = id->attempt,
                                         .worker = worker});
    else
        dist_finish_ack(d, worker, id);
}

void dist_cancel_answer(struct dist *d, job_id_t job, uint32_t client, int err)
{
    struct msg_cancelled *m = &out_add(d->out, MSG_CANCELLED, 0)->cancelled;

    m->job = job;
    m->client = client;
    m->err = err;
}

void dist_journal_cancelled(struct dist *d, const struct dist_job *job, uint32_t client)
{
    if (dist_journal_is_behind(d))
        in_order(d, (struct dist_record){.kind = RECORD_CANCELLED, .job = job->id, .client = client});
    else
        dist_cancel_answer(d, job->id, client, 0);
}

void dist_journal_refused(struct dist *d, const struct dist_job *job, int err)
{
    in_order(d,
             (struct dist_record){.kind = RECORD_REFUSED, .job = job->id, .err = err, .client = job->client});
}

void dist_journal_hold_set(struct dist *d, const struct dist_job *job, uint32_t client)
{
    if (job->journalled && dist_journal_is_behind(d))
        in_order(d, (struct dist_record){.kind = RECORD_HOLD_SET, .job = job->id, .client = client});
    else
        dist_hold_answer(d, job->id, client, 0);
}

/* Whether a task, a client or central waits for the record. */
static bool is_awaited(const struct dist_record *r)
{
    return r->kind == RECORD_LAUNCH || r->kind == RECORD_CANCELLED || r->kind == RECORD_REFUSED ||
           r->kind == RECORD_HOLD_SET;
}

static bool any_awaited(const struct dist_records *q)
{
    for (uint32_t i = 0; i < q->n; i++)
        if (is_awaited(&ring_at(q, i)))
            return true;
    return false;
}

bool dist_jobs_journalling(const struct dist *d)
{
    for (unsigned state = 0; state < JOB_STATE_COUNT; state++)
        list_foreach(&d->jobs[state], node, nxt) {
            const struct dist_job *job = container_of(node, struct dist_job, in_state);

            if (job->journalling)
                return true;
        }
    return false;
}

bool dist_journal_awaited(const struct dist *d)
{
    return any_awaited(&d->pending) || any_awaited(&d->failed);
}

/* ---- The journal's answers ---- */

/* The try of a record of a task's launch or end; its epoch is the record's. */
static struct try_id try_of(const struct dist_record *r)
{
    return (struct try_id){.job = r->job, .task = r->task, .epoch = r->epoch, .attempt = r->attempt};
}

static void record_durable(struct dist *d, const struct dist_record *r)
{
    struct try_id id = try_of(r);
    struct dist_job *job = dist_job_find(d, r->job);

    switch (r->kind) {
    case RECORD_JOB:
        if (job && job->journalling)
            dist_job_journalled(d, job, 0);
        break;
    case RECORD_CHANGE:
        if (job)
            dist_handover_journalled(d, job, r->token);
        break;
    case RECORD_WAITS:
        if (job && !job_state_final(job->state) && (job->held || job->hold_known))
            dist_hold_durable(d, job);
        break;
    case RECORD_LAUNCH:
        dist_task_launch_journalled(d, &id, 0);
        break;
    case RECORD_NUMBERS:
        if (r->numbers_end > d->seq_durable)
            d->seq_durable = r->numbers_end;
        break;
    case RECORD_ACK:
        dist_finish_ack(d, r->worker, &id);
        break;
    case RECORD_CANCELLED:
        dist_cancel_answer(d, r->job, r->client, 0);
        break;
    case RECORD_REFUSED:
        dist_submit_refused(d, r->client, r->err);
        break;
    case RECORD_HOLD_SET:
        dist_hold_answer(d, r->job, r->client, 0);
        break;
    default:
        break;
    }
}

/* Answers those who wait for the record that it cannot be written. Returns whether the record is then done
 * with. */
static bool tell_failure(struct dist *d, const struct dist_record *r, int err)
{
    struct try_id id = try_of(r);
    struct dist_job *job = dist_job_find(d, r->job);

    if (r->kind == RECORD_JOB && job && job->journalling)
        dist_job_journalled(d, job, err);
    if (r->kind == RECORD_LAUNCH)
        dist_task_launch_journalled(d, &id, err);
    if (r->kind == RECORD_CANCELLED)
        dist_cancel_answer(d, r->job, r->client, err);
    /* The job may come back if the dist crashes before the record can be written. */
    if (r->kind == RECORD_REFUSED)
        dist_submit_refused(d, r->client, HAWK_EIO);
    if (r->kind == RECORD_HOLD_SET)
        dist_hold_answer(d, r->job, r->client, err);
    return is_awaited(r) || r->kind == RECORD_NONE;
}

/* The store keeps records that it could not write, and tries again. */
static void not_written(struct dist *d, uint64_t token)
{
    struct dist_records *q = &d->pending;

    for (uint32_t i = 0, n = q->n; i < n; i++) {
        struct dist_record r = ring_at(q, i);

        if (r.token > token)
            break;
        if (tell_failure(d, &r, HAWK_EIO)) /* this may have made the ring grow */
            ring_at(q, i).kind = RECORD_NONE;
    }
}

/* The store did not take some record up to this token. All of these are put out again, and so are later ones
 * that may rely on them. */
static void not_taken(struct dist *d, uint64_t token, int err)
{
    while (d->pending.n && ring_at(&d->pending, 0).token <= token) {
        struct dist_record r;

        ring_pop(&d->pending, &r);
        /* The store may have those before it: what they ask for is in doubt. */
        if (!tell_failure(d, &r, r.token < token ? HAWK_EIO : err))
            ring_push(&d->failed, r);
    }
    for (uint32_t n = d->pending.n; n > 0; n--) {
        struct dist_record r;

        ring_pop(&d->pending, &r);
        ring_push(r.kind == RECORD_JOB ? &d->pending : &d->failed, r);
    }
    if (d->failed.n > 0 && d->rewrite_at == TIME_NEVER)
        d->rewrite_at = d->now_us + REWRITE_US;
}

/* The answer covers every token up to its own. With HAWK_EIO nothing is lost: a later answer covers the
 * records. */
void dist_on_journal_done(struct dist *d, const struct msg *m)
{
    uint64_t token = m->journal_done.token;

    d->unwritable = m->journal_done.err != 0;
    if (m->journal_done.err == HAWK_EIO) {
        not_written(d, token);
        return;
    }
    if (m->journal_done.err) {
        not_taken(d, token, m->journal_done.err);
        return;
    }
    while (d->pending.n && ring_at(&d->pending, 0).token <= token) {
        struct dist_record r;

        ring_pop(&d->pending, &r);
        record_durable(d, &r);
    }
}

void dist_journal_rewrite(struct dist *d)
{
    d->rewrite_at = TIME_NEVER;
    while (d->failed.n > 0) {
        struct dist_record r;

        ring_pop(&d->failed, &r);
        if (r.kind > RECORD_NUMBERS && d->pending.n == 0) /* the records before it were given up */
            record_durable(d, &r);
        else
            put_record(d, &r);
    }
}
