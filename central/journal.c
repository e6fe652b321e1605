/* Records that wait for the journal, in order, and records that could not be written. */
#include "central/journal.h"
#include "central/admission.h"
#include "central/hold.h"
#include "central/tasks.h"

#include "base/ring.h"

#include <stdlib.h>

#define RETRY_US US_PER_S

/* The record waits for the journal from here on; its message goes out under its token. */
static struct record *add_record(struct central *c, enum record_kind kind)
{
    ring_push(&c->pending, ((struct record){.token = ++c->token, .kind = kind}));
    return &ring_at(&c->pending, c->pending.n - 1);
}

static void write_node(struct central *c, const struct node *n)
{
    struct msg *m = out_add(c->out, MSG_JOURNAL_NODE, 0);

    m->journal_node.name = blob_ref(n->name);
    m->journal_node.token = c->token;
    m->journal_node.node = n->id;
    m->journal_node.role = n->role;
    m->journal_node.drained = n->drain == DRAIN_KEPT;
    m->journal_node.next_seq = n->next_seq;
}

void central_journal_node(struct central *c, struct node *n)
{
    add_record(c, RECORD_NODE)->node = n;
    write_node(c, n);
}

void central_journal_drain(struct central *c, struct node *n, uint32_t client)
{
    struct record *r = add_record(c, RECORD_DRAIN);

    r->node = n;
    r->client = client;
    write_node(c, n);
}

void central_journal_cluster(struct central *c)
{
    struct msg *m;

    add_record(c, RECORD_CLUSTER);
    m = out_add(c->out, MSG_JOURNAL_CLUSTER, 0);
    m->journal_cluster.token = c->token;
    m->journal_cluster.former = c->former;
    m->journal_cluster.node = (node_id_t){c->first_node};
    m->journal_cluster.young = central_is_young(c);
}

void central_journal_policy(struct central *c, uint32_t client)
{
    add_record(c, RECORD_POLICY)->client = client;
    central_policy_write(c);
}

void central_journal_admission(struct central *c, const struct admission *a, uint32_t client)
{
    add_record(c, RECORD_ADMISSION)->client = client;
    central_admission_write(c, a);
}

void central_journal_job(struct central *c, struct long_job *j)
{
    struct msg *m;

    add_record(c, RECORD_JOB)->job = j;
    m = out_add(c->out, MSG_JOURNAL_JOB, 0);
    m->journal_job.job = (job_id_t){j->key.job};
    m->journal_job.token = c->token;
    m->journal_job.desc = job_desc_ref(j->desc);
    m->journal_job.tasks = j->set ? task_set_ref(j->set) : NULL;
    m->journal_job.estimate_us = j->estimate_us;
    m->journal_job.epoch = (uint16_t)j->key.epoch;
    m->journal_job.why = j->why;
}

void central_journal_cancel(struct central *c, const struct long_job *j, uint32_t client)
{
    struct record *r = add_record(c, RECORD_CANCEL);
    struct msg *m = out_add(c->out, MSG_JOURNAL_CANCEL, 0);

    r->of_job = j->key;
    r->client = client;
    m->journal_cancel.job = (job_id_t){j->key.job};
    m->journal_cancel.token = c->token;
    m->journal_cancel.epoch = (uint16_t)j->key.epoch;
}

void central_journal_owner(struct central *c, const struct long_job *j)
{
    struct msg *m;

    add_record(c, RECORD_OWNER);
    m = out_add(c->out, MSG_JOURNAL_OWNER, 0);
    m->journal_owner.job = (job_id_t){j->key.job};
    m->journal_owner.token = c->token;
    m->journal_owner.epoch = (uint16_t)j->key.epoch;
    m->journal_owner.owner = j->owner;
}

void central_journal_released(struct central *c, const struct long_job *j)
{
    struct record *r = add_record(c, RECORD_RELEASED);
    struct msg *m = out_add(c->out, MSG_JOURNAL_RELEASED, 0);

    r->of_job = j->key;
    r->upto = j->releasing;
    m->journal_released.job = (job_id_t){j->key.job};
    m->journal_released.token = c->token;
    m->journal_released.epoch = (uint16_t)j->key.epoch;
    m->journal_released.upto = j->releasing;
}

void central_journal_waits(struct central *c, const struct long_job *j, uint32_t client)
{
    struct record *r = add_record(c, RECORD_WAITS);
    struct msg *m = out_add(c->out, MSG_JOURNAL_WAITS, 0);

    r->of_job = j->key;
    r->client = client;
    m->journal_waits.job = (job_id_t){j->key.job};
    m->journal_waits.token = c->token;
    m->journal_waits.epoch = (uint16_t)j->key.epoch;
    m->journal_waits.held = j->held;
    m->journal_waits.by_client = j->held_here || j->released_here;
}

static void write_job_end(struct central *c, const struct long_key *key, enum job_state state)
{
    struct msg *m = out_add(c->out, MSG_JOURNAL_JOB_END, 0);

    m->journal_job_end.job = (job_id_t){key->job};
    m->journal_job_end.token = c->token;
    m->journal_job_end.epoch = (uint16_t)key->epoch;
    m->journal_job_end.state = (uint8_t)state;
}

void central_journal_job_end(struct central *c, struct long_job *j)
{
    add_record(c, RECORD_JOB_END)->job = j;
    write_job_end(c, &j->key, central_job_end_state(j));
}

void central_journal_forget(struct central *c, struct long_key key)
{
    add_record(c, RECORD_FORGET)->of_job = key;
    write_job_end(c, &key, JOB_CANCELLED);
}

static void write_task(struct central *c, const struct long_task *t)
{
    struct msg *m = out_add(c->out, MSG_JOURNAL_TASK, 0);

    m->journal_task.id = central_task_try(t);
    m->journal_task.token = c->token;
    m->journal_task.run_us = t->run_us;
    m->journal_task.worker = t->worker;
    m->journal_task.code = task_state_final(t->state) ? t->code : 0;
    m->journal_task.losses = (uint8_t)(t->losses < UINT8_MAX ? t->losses : UINT8_MAX);
    m->journal_task.state = t->state;
    m->journal_task.outcome = t->outcome;
    m->journal_task.failures = t->failures;
    m->journal_task.used = central_task_used(t);
}

void central_journal_task(struct central *c, struct long_task *t)
{
    add_record(c, RECORD_TASK)->task = t;
    write_task(c, t);
}

void central_journal_launch(struct central *c, const struct long_task *t)
{
    add_record(c, RECORD_LAUNCH)->launch = central_task_try(t);
    write_task(c, t);
}

void central_journal_note(struct central *c, const struct long_task *t)
{
    add_record(c, RECORD_NOTE);
    write_task(c, t);
}

/* Answers the client that waits for the record, if one does. What he asked for is in force already. */
static void answer_client(struct central *c, struct record *r, int32_t err)
{
    switch (r->kind) {
    case RECORD_DRAIN:
        central_drain_answer(c, r->node->id, r->client, err);
        break;
    case RECORD_POLICY:
        central_policy_answer(c, r->client, err);
        break;
    case RECORD_CANCEL:
        central_jobs_answer_cancel(c, (job_id_t){r->of_job.job}, r->client, err);
        break;
    case RECORD_WAITS:
        central_hold_answer(c, (job_id_t){r->of_job.job}, r->client, err);
        break;
    case RECORD_ADMISSION:
        central_admission_answer(c, r->client, err);
        break;
    default:
        return;
    }
    r->client = 0;
}

static void record_written(struct central *c, struct record *r)
{
    answer_client(c, r, 0);
    switch (r->kind) {
    case RECORD_NODE:
        central_nodes_journalled(c, r->node);
        break;
    case RECORD_JOB:
        central_jobs_journalled(c, r->job, 0);
        break;
    case RECORD_TASK:
        central_ack_journalled_completion(c, r->task);
        break;
    case RECORD_JOB_END:
        central_jobs_end_journalled(c, r->job);
        break;
    case RECORD_LAUNCH:
        central_task_launch_journalled(c, &r->launch);
        break;
    case RECORD_RELEASED:
        central_jobs_released(c, &r->of_job, r->upto);
        break;
    default:
        break;
    }
}

/* The store did not take the record. */
static void not_taken(struct central *c, struct record *r, int32_t err)
{
    answer_client(c, r, err);
    if (r->kind == RECORD_JOB) {
        struct long_key key = r->job->key;

        central_jobs_journalled(c, r->job, err);
        /* The store may keep a record that it could not write, and write it later. Then the job must not come
         * back with the next central, after its dist has run it. */
        central_journal_forget(c, key);
    } else if (r->kind < RECORD_CANCEL) {
        /* It will be written when that is possible; what waits for it goes on waiting. */
        ring_push(&c->failed, *r);
        if (c->retry_us == TIME_NEVER)
            c->retry_us = c->now_us + RETRY_US;
    }
}

/* The store keeps records that it could not write, and tries again. */
static void not_written(struct central *c, uint64_t token)
{
    for (uint32_t i = 0; i < c->pending.n && ring_at(&c->pending, i).token <= token; i++)
        answer_client(c, &ring_at(&c->pending, i), HAWK_EIO);
}

/* The answer covers every token up to its own. With HAWK_EIO nothing is lost: a later answer covers the records. */
void central_on_journal_done(struct central *c, const struct msg *in)
{
    const struct msg_journal_done *m = &in->journal_done;

    if (m->err == HAWK_EIO) {
        not_written(c, m->token);
        return;
    }
    while (c->pending.n && ring_at(&c->pending, 0).token <= m->token) {
        struct record r;

        ring_pop(&c->pending, &r);
        if (m->err)
            not_taken(c, &r, m->err);
        else
            record_written(c, &r);
    }
}

/* Puts out again what could not be written, if it still means anything. */
static void put_again(struct central *c, const struct record *r)
{
    const struct long_key *key = &r->of_job;
    const struct long_task *t;
    const struct long_job *j;

    switch (r->kind) {
    case RECORD_NODE:
        central_journal_node(c, r->node);
        break;
    case RECORD_DRAIN:
        central_journal_drain(c, r->node, 0);
        break;
    case RECORD_POLICY:
        central_journal_policy(c, 0);
        break;
    case RECORD_CLUSTER:
        central_journal_cluster(c);
        break;
    case RECORD_JOB_END:
        central_journal_job_end(c, r->job);
        break;
    case RECORD_TASK:
        central_journal_task(c, r->task);
        break;
    case RECORD_LAUNCH:
        t = central_task_unsent(c, &r->launch);
        if (t)
            central_journal_launch(c, t);
        break;
    case RECORD_RELEASED:
        j = central_jobs_find(c, (job_id_t){key->job}, (uint32_t)key->epoch);
        if (j && j->released < r->upto)
            central_journal_released(c, j);
        break;
    case RECORD_FORGET:
        /* If the job was submitted again, its new record comes later, and counts. */
        if (!central_jobs_find(c, (job_id_t){key->job}, (uint32_t)key->epoch))
            central_journal_forget(c, *key);
        break;
    case RECORD_WAITS:
        j = central_jobs_find(c, (job_id_t){key->job}, (uint32_t)key->epoch);
        if (j && j->state <= LONG_ACTIVE)
            central_journal_waits(c, j, 0);
        break;
    case RECORD_JOB:
    case RECORD_CANCEL:
    case RECORD_OWNER:
    case RECORD_NOTE:
    case RECORD_ADMISSION:
        break; /* not among the failed */
    }
}

void central_journal_run(struct central *c)
{
    uint32_t n = c->failed.n;

    if (c->retry_us > c->now_us)
        return;
    c->retry_us = TIME_NEVER;
    while (n-- > 0) {
        struct record r;

        ring_pop(&c->failed, &r);
        put_again(c, &r);
    }
}

void central_journal_free(struct central *c)
{
    free(c->pending.v);
    free(c->failed.v);
}
