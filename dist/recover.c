/* Reading the journal back (docs/protocol.md 11): jobs as they were accepted, and the ends of their tasks.
 * Workers and central know the rest. So a job settles first: running tasks are adopted by TASK_HELD, and only
 * then is the rest launched. */
#include "dist/internal.h"

#include "base/check.h"
#include "base/units.h"

/* How often to look whether all workers have reported. */
#define SETTLE_LOOK_US (50 * US_PER_MS)

/* ---- The journal's records, in their order ---- */

void dist_on_journal_job(struct dist *d, const struct msg *in)
{
    const struct msg_journal_job *m = &in->journal_job;
    struct dist_job *job;
    /* Records of older versions have only the user's tag as class. Central was away when they were
     * written. */
    bool untold = m->life == 0 && m->class != CLASS_LONG && m->desc && m->desc->tag == TAG_LONG;
    uint64_t key = m->desc ? m->desc->again_key : 0;
    uint16_t handed = untold ? m->epoch : m->handed;
    bool part = handed != m->epoch;

    if (d->ever_joined || !owner_job_valid(m->desc, m->epoch, m->tasks, 0) || dist_job_find(d, m->job))
        return;
    job = dist_job_new(d, m->desc, m->job, key);
    /* Each life has an epoch of its own for its tries; the epoch of central's part stays. */
    job->first_epoch = m->epoch;
    job->life = m->life;
    job->own_epoch = (uint16_t)(m->epoch + EPOCH_STEP * (uint16_t)(d->cfg.life - m->life));
    job->epoch = handed;
    job->journalled = job->submitted = true;
    list_push_tail(&d->accepted, &job->in_all);
    job->class = m->class;
    job->why = m->why;
    job->estimate_us = m->estimate_us;
    job->held = (job->desc->flags & JOB_SUBMIT_HELD) != 0; /* unless dist_on_journal_waits() follows */
    dist_probe_wait(job, WAIT_SETTLING, &d->settling);
    if (!handed) {
        job->probe_long = job->class == CLASS_LONG;
        return;
    }
    if (!part)
        dist_job_set_state(d, job, JOB_PENDING);
    dist_handover_recover(d, job, m->tasks);
    list_remove(&job->in_touched); /* dist_on_recovered() touches all jobs */
}

void dist_on_journal_age(struct dist *d, const struct msg *in)
{
    const struct msg_journal_age *m = &in->journal_age;
    struct dist_job *job = dist_job_find(d, m->job);

    /* This may be before time 0, if the machine was started since. */
    if (job && !d->ever_joined && m->ago_us >= 0 && m->ago_us <= LIMIT_TIME_US)
        job->submit_us = d->now_us - m->ago_us;
}

void dist_on_journal_cancel(struct dist *d, const struct msg *in)
{
    const struct msg_journal_cancel *m = &in->journal_cancel;
    struct dist_job *job = dist_job_find(d, m->job);

    if (job && !d->ever_joined)
        job->by_client = true;
}

void dist_on_journal_task(struct dist *d, const struct msg *in)
{
    const struct msg_journal_task *m = &in->journal_task;
    struct dist_job *job = dist_job_find(d, m->id.job);
    struct dist_task *t;

    if (d->ever_joined || !job || m->id.task >= job->desc->tasks || m->state >= TASK_STATE_COUNT)
        return;
    t = &job->tasks[m->id.task];
    t->doubtful = m->state == TASK_LAUNCHED;
    t->worker = m->worker.v;
    dist_task_set_failures(job, m->id.task, m->failures);
    if (!task_state_final(m->state) || task_state_final(t->state))
        return;
    if (!t->central)
        dist_task_reach(job, m->id.task);
    t->attempt = m->id.attempt;
    t->code = m->code;
    t->outcome = m->outcome & 7;
    t->run_us = m->run_us;
    owner_starts_recovered(&job->starts, m->outcome);
    if (m->state == TASK_DONE)
        dist_job_add_run_time(job, m->run_us);
    dist_task_set_state(d, job, m->id.task, m->state, NULL);
    dist_task_note_used(job, t, m->used);
    list_remove(&job->in_touched);
}

/* Restores an ended job as its record describes it. Nothing is done for it any more. */
static void ended(struct dist *d, struct dist_job *job, const struct msg_journal_ended *m)
{
    struct list *last = &d->finished;
    const struct list *at;

    for (uint32_t i = 0; i < job->desc->tasks; i++)
        if (!task_state_final(job->tasks[i].state)) {
            job->tasks[i].outcome = OUTCOME_CANCELLED;
            dist_task_set_state(d, job, i, TASK_CANCELLED, NULL);
        }
    dist_probe_wait(job, WAIT_NOT, NULL);
    dist_handover_recover_ended(d, job);
    if (m->promoted)
        dist_job_set_promoted(job);
    job->cutoff_us = m->cutoff_us;
    job->submit_us = d->now_us - m->ago_us - m->response_us;
    dist_job_close(d, job, d->now_us - m->ago_us);
    job->state = m->state;
    /* Jobs are read in order of id, and forgotten in order of end. */
    list_remove(&job->in_state);
    for (at = last->prev; at != last; at = at->prev)
        if (container_of(at, struct dist_job, in_state)->end_us <= job->end_us)
            break;
    list_insert_before(at->next, &job->in_state);
}

/* If the end of a task is missing, the job goes on: its worker reports that end again. */
void dist_on_journal_ended(struct dist *d, const struct msg *in)
{
    const struct msg_journal_ended *m = &in->journal_ended;
    struct dist_job *job = dist_job_find(d, m->job);

    if (!job || d->ever_joined || !dist_job_settling(job) || !job_state_final(m->state))
        return;
    if (dist_job_unfinished_tasks(job) == m->left_out) {
        ended(d, job, m);
        list_remove(&job->in_touched);
        return;
    }
    dist_journal_change(d, job); /* this record takes the end back */
}

/* No task can start before the dist has joined. */
void dist_on_recovered(struct dist *d, const struct msg *m)
{
    list_foreach(&d->settling, node, nxt) {
        struct dist_job *job = container_of(node, struct dist_job, in_wait);

        dist_after_link(d, job);
        job->unwanted_back = true;
        if (job->by_client)
            dist_job_cancel_rest(d, job);
        dist_job_touch(d, job);
    }
}

/* ---- Settling ---- */

void dist_settle_begin(struct dist *d)
{
    if (list_empty(&d->settling) || d->settle_at != TIME_NEVER)
        return;
    d->settle_at = d->now_us + SETTLE_LOOK_US;
    d->settle_end = d->now_us + d->cfg.settle_us;
}

/* Whether there are workers, and each has said what it holds. Those that were away when the dist joined may not be
 * listed. */
static bool all_reported(const struct dist *d)
{
    bool any = false;

    if (d->workers_away)
        return false;
    for (uint32_t i = 0; i < d->nodes_n; i++) {
        const struct dist_node *n = dist_node_find(d, i);

        if (!n || n->m.role != ROLE_WORKER || n->m.state == MEMBER_GONE)
            continue;
        if (!n->reported)
            return false;
        any = true;
    }
    return any;
}

/* The job has settled: from here on it is like a new one. */
static void settled(struct dist *d, struct dist_job *job)
{
    dist_probe_wait(job, WAIT_NOT, NULL);
    dist_job_take_policy(d, job);
    dist_job_begun_before(job);
    dist_job_touch(d, job);
    dist_tasks_doubt(d, job); /* this comes first: otherwise central would run them */
    if (!dist_job_may_start(job)) {
        dist_job_keep(d, job);
        return;
    }
    if (dist_job_give_central(d, job))
        return;
    dist_handover_promote(d, job);
    dist_probe_first(d, job);
}

void dist_settle_look(struct dist *d)
{
    if (d->now_us < d->settle_end && !all_reported(d)) {
        d->settle_at = d->now_us + SETTLE_LOOK_US;
        return;
    }
    d->settle_at = TIME_NEVER;
    list_foreach(&d->settling, node, nxt)
        settled(d, container_of(node, struct dist_job, in_wait));
}
