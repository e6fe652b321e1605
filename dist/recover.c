/* Back from the journal (docs/protocol.md 11): jobs as they were accepted and the ends of their tasks. What else became
 * of them, workers and central know. So a job settles first: what still runs is adopted by TASK_HELD, and only then is
 * the rest launched. */
#include "dist/internal.h"

#include "base/check.h"
#include "base/units.h"

/* How often it is looked whether all workers have reported. */
#define SETTLE_LOOK_US (50 * US_PER_MS)

/* ---- The journal, in its order ---- */

static bool set_is_valid(const struct task_set *set, uint32_t tasks)
{
    for (uint32_t i = 0; set && i < set->n; i++)
        if (set->v[i] >= tasks || (i > 0 && set->v[i] <= set->v[i - 1]))
            return false;
    return true;
}

void on_recover_job(struct step *s, const struct msg_journal_job *m)
{
    struct dist *d = s->d;
    struct dist_job *job;
    /* A file from before this was written tells of no class but the user's. Central was away then. */
    bool untold = m->life == 0 && m->class != CLASS_LONG && m->desc && m->desc->tag == TAG_LONG;
    uint16_t handed = untold ? m->epoch : m->handed;
    bool part = handed != m->epoch;

    if (d->joined || !m->desc || m->desc->tasks == 0 || m->desc->tasks > LIMIT_TASKS_PER_JOB ||
        m->epoch == 0 || !set_is_valid(m->tasks, m->desc->tasks) || job_find(d, m->job))
        return;
    job = job_new(s, m->desc, m->job, 0);
    /* Each life has an epoch of its own for its tries; that of central's part stays. */
    job->first_epoch = m->epoch;
    job->life = m->life;
    job->own_epoch = (uint16_t)(m->epoch + EPOCH_STEP * (uint16_t)(d->cfg.life - m->life));
    job->epoch = handed;
    job->journalled = job->submitted = true;
    list_push_tail(&d->accepted, &job->in_all);
    job->class = m->class;
    job->why = m->why;
    job->estimate_us = m->estimate_us;
    probe_wait(job, WAIT_SETTLING, &d->settling);
    if (!handed) {
        job->probe_long = job->class == CLASS_LONG;
        return;
    }
    if (!part)
        job_set_state(s, job, JOB_PENDING);
    hand_recover(s, job, m->tasks);
    job_untouch(job);
}

void on_recover_age(struct step *s, const struct msg_journal_age *m)
{
    struct dist_job *job = job_find(s->d, m->job);

    /* Maybe before time 0, when this machine has been started since. */
    if (job && !s->d->joined && m->ago_us >= 0 && m->ago_us <= LIMIT_TIME_US)
        job->submit_us = s->now - m->ago_us;
}

void on_recover_cancel(struct step *s, const struct msg_journal_cancel *m)
{
    struct dist_job *job = job_find(s->d, m->job);

    if (job && !s->d->joined)
        job->by_client = true;
}

void on_recover_task(struct step *s, const struct msg_journal_task *m)
{
    struct dist_job *job = job_find(s->d, m->id.job);
    struct dist_task *t;

    if (s->d->joined || !job || m->id.task >= job->desc->tasks || m->state >= TASK_STATE_COUNT)
        return;
    t = &job->tasks[m->id.task];
    t->doubtful = m->state == TASK_LAUNCHED;
    if (!task_state_final(m->state) || task_state_final(t->state))
        return;
    if (!t->central)
        task_reach(job, m->id.task);
    t->attempt = m->id.attempt;
    t->worker = m->worker.v;
    t->code = m->code;
    t->outcome = m->outcome & 7;
    t->run_us = m->run_us;
    if (m->state == TASK_DONE) {
        job->ok_us += (uint64_t)m->run_us;
        job->ok_n++;
    }
    task_set_state(s, job, m->id.task, m->state, NULL);
    job_untouch(job);
}

/* What it is was written when it ended; nothing of it is to be done any more. */
static void ended(struct step *s, struct dist_job *job, const struct msg_journal_ended *m)
{
    struct list *last = &s->d->finished;
    const struct list *at;

    for (uint32_t i = 0; i < job->desc->tasks; i++)
        if (!task_state_final(job->tasks[i].state)) {
            job->tasks[i].outcome = OUTCOME_CANCELLED;
            task_set_state(s, job, i, TASK_CANCELLED, NULL);
        }
    probe_wait(job, WAIT_NOT, NULL);
    hand_recover_ended(s, job);
    if (m->promoted) {
        job->promoted = true;
        job->class = CLASS_LONG;
        job->why = WHY_PROMOTED;
    }
    job->cutoff_us = m->cutoff_us;
    job->submit_us = s->now - m->ago_us - m->response_us;
    job_close(s, job, s->now - m->ago_us);
    job->state = m->state;
    /* They are read back by job, and forgotten by time of end. */
    list_remove(&job->in_state);
    for (at = last->prev; at != last; at = at->prev)
        if (container_of(at, struct dist_job, in_state)->end_us <= job->end_us)
            break;
    list_insert_before(at->next, &job->in_state);
}

/* Where the end of a task is missing, the job goes on: its worker says that end again. */
void on_recover_ended(struct step *s, const struct msg_journal_ended *m)
{
    struct dist_job *job = job_find(s->d, m->job);

    if (!job || s->d->joined || !job_settling(job) || !job_state_final(m->state))
        return;
    if (job_unfinished_tasks(job) == m->left_out) {
        ended(s, job, m);
        job_untouch(job);
        return;
    }
    job->by_client = m->state == JOB_CANCELLED;
    journal_change(s, job); /* which takes that back */
}

/* Nothing of it can start before we have joined. */
void on_recovered(struct step *s)
{
    list_foreach(&s->d->settling, node, nxt) {
        struct dist_job *job = container_of(node, struct dist_job, in_wait);

        if (job->by_client)
            job_cancel_rest(s, job);
        job_touch(s->d, job);
    }
}

/* ---- Settling ---- */

void settle_begin(struct step *s)
{
    struct dist *d = s->d;

    if (list_empty(&d->settling) || d->settle_at != TIME_NEVER)
        return;
    d->settle_at = s->now + SETTLE_LOOK_US;
    d->settle_end = s->now + d->cfg.settle_us;
}

/* Whether there are workers, and each that is listed has said what it holds. */
static bool all_reported(const struct dist *d)
{
    bool any = false;

    for (uint32_t i = 0; i < d->nodes_n; i++) {
        const struct dist_node *n = node_find(d, i);

        if (!n || n->m.role != ROLE_WORKER || n->m.state == MEMBER_GONE)
            continue;
        if (!n->reported)
            return false;
        any = true;
    }
    return any;
}

/* From here on it is like one that was just accepted. */
static void settled(struct step *s, struct dist_job *job)
{
    const struct policy *p = &s->d->policy;

    probe_wait(job, WAIT_NOT, NULL);
    job->cutoff_us = p->cutoff_us;
    job->policy_flags = p->flags & POLICY_JOB_FLAGS;
    job->ratio_milli = p->probe_ratio_milli;
    job->min_probes = p->min_probes;
    job_begun_before(job);
    tasks_doubt(s, job); /* first: central would run them */
    /* At most once, and central was not asked for it in time. Nothing of it has been launched. */
    if ((job->desc->flags & JOB_AT_MOST_ONCE) && job->class == CLASS_LONG &&
        (p->flags & POLICY_CENTRAL_LONG) && job->hand == HAND_NONE && job->unlaunched == job->desc->tasks) {
        job->probe_long = false;
        job_set_state(s, job, JOB_PENDING);
        hand_over(s, job, job->first_epoch);
    }
    if (job->overran)
        hand_promote(s, job);
    if (job->unlaunched > 0)
        probe_first(s, job);
    job_touch(s->d, job);
}

void settle_look(struct step *s)
{
    struct dist *d = s->d;

    if (s->now < d->settle_end && !all_reported(d)) {
        d->settle_at = s->now + SETTLE_LOOK_US;
        return;
    }
    d->settle_at = TIME_NEVER;
    list_foreach(&d->settling, node, nxt)
        settled(s, container_of(node, struct dist_job, in_wait));
}
