/* Cancelling: jobs, and single tasks of them (docs/protocol.md 3.12). */
#include "dist/internal.h"

#include "base/check.h"

#include <stdlib.h>

bool dist_task_stop(struct dist *d, const struct dist_job *job, uint32_t i)
{
    node_id_t worker = {job->tasks[i].worker};

    if (!dist_has_stream(d, worker))
        return false;
    if (job->tasks[i].attempt > 0) /* else its launch could not be written, and no worker was sent it */
        out_add(d->out, MSG_TASK_CANCEL, worker.v)->task_cancel.id = dist_task_try(job, i);
    return true;
}

/* ---- Jobs ---- */

void dist_job_cancel_rest(struct dist *d, struct dist_job *job)
{
    job->cancelling = true;
    dist_job_touch(d, job);
    dist_tasks_unlaunch(d, job);
    dist_tasks_undelay(d, job);
    dist_tasks_unblock(d, job);
    while (job->returned != TASK_NIL) {
        /* Its worker is suspect, but may be running it. */
        (void)dist_task_stop(d, job, job->returned);
        dist_task_end_unrun(d, job, job->returned, OUTCOME_CANCELLED, 0);
    }
    while (job->cursor < job->desc->tasks)
        dist_task_end_unrun(d, job, job->cursor, OUTCOME_CANCELLED, 0);
    list_foreach(&job->places, node, nxt) {
        const struct dist_place *p = container_of(node, struct dist_place, in_job);

        for (uint32_t i = p->launched, next; i != TASK_NIL; i = next) {
            next = job->tasks[i].next;
            if (!dist_task_stop(d, job, i))
                dist_task_end_unrun(d, job, i, OUTCOME_CANCELLED, 0); /* p goes with its last task */
        }
    }
    dist_probe_cancel_all(d, job);
    dist_handover_cancel(d, job);
}

/* ---- Single tasks ---- */

static int by_number(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

bool dist_task_unwanted(const struct dist_job *job, uint32_t i)
{
    const struct task_set *s = job->unwanted;

    return job->cancelling || (s && bsearch(&i, s->v, s->n, sizeof *s->v, by_number));
}

void dist_unwanted_add(struct dist_job *job, const struct task_set *tasks)
{
    const struct task_set *old = job->unwanted;
    uint32_t n = old ? old->n : 0, i = 0, k = 0;
    struct task_set *s = task_set_new(n + tasks->n);

    s->n = 0;
    while (i < n || k < tasks->n) {
        uint32_t next = i < n && (k == tasks->n || old->v[i] <= tasks->v[k]) ? old->v[i++] : tasks->v[k++];

        if (s->n == 0 || s->v[s->n - 1] != next)
            s->v[s->n++] = next;
    }
    task_set_drop(job->unwanted);
    job->unwanted = s;
    job->unwanted_back = true;
}

/* Ends a task that nobody runs. */
static void end_waiting(struct dist *d, struct dist_job *job, uint32_t i)
{
    const struct dist_task *t = &job->tasks[i];

    if (t->central ? !dist_handover_is_here(job) : t->state != TASK_WAITING)
        return;
    if (!t->central)
        dist_task_reach(job, i);
    dist_task_end_unrun(d, job, i, OUTCOME_CANCELLED, 0);
}

void dist_unwanted_settle(struct dist *d, struct dist_job *job)
{
    struct task_set *old = job->unwanted, *left;
    uint32_t n = 0;

    if (!job->unwanted_back || !old)
        return;
    job->unwanted_back = false;
    left = task_set_new(old->n); /* the old one may be in a record that is on its way */
    for (uint32_t i = 0; i < old->n; i++) {
        const struct dist_task *t = &job->tasks[old->v[i]];

        if (!task_state_final(t->state))
            end_waiting(d, job, old->v[i]);
        if (!task_state_final(t->state) || t->attempt == 0)
            left->v[n++] = old->v[i];
    }
    left->n = n;
    job->unwanted = left;
    task_set_drop(old);
    if (n == 0)
        dist_unwanted_drop(job);
}

void dist_unwanted_drop(struct dist_job *job)
{
    task_set_drop(job->unwanted);
    job->unwanted = NULL;
}

/* Tells the workers that run them, and central. */
static void stop_tasks(struct dist *d, struct dist_job *job, struct task_set *tasks)
{
    for (uint32_t i = 0; i < tasks->n; i++) {
        const struct dist_task *t = &job->tasks[tasks->v[i]];

        if (t->central || (t->state != TASK_LAUNCHED && t->state != TASK_RUNNING))
            continue;
        if (t->unsent)
            dist_task_return(d, job, tasks->v[i]);
        else if (!dist_task_stop(d, job, tasks->v[i]))
            dist_task_end_unrun(d, job, tasks->v[i], OUTCOME_CANCELLED, 0);
    }
    dist_handover_cancel_tasks(d, job, tasks);
}

static void cancel_tasks(struct dist *d, struct dist_job *job, const struct msg_cancel *m)
{
    if (dist_handover_may_have(job) && d->joined && d->central_version < 3) {
        dist_cancel_answer(d, job->id, m->client, HAWK_EVERSION);
        return;
    }
    if (!job_state_final(job->state) && !job->cancelling) {
        dist_unwanted_add(job, m->tasks);
        stop_tasks(d, job, m->tasks);
        job->waits_news = true;
        dist_job_touch(d, job);
        dist_jobs_settle(d); /* the records of their ends, and of the others, come before the answer */
    }
    if (job->journalled)
        dist_journal_cancelled(d, job, m->client);
    else
        dist_cancel_answer(d, job->id, m->client, 0);
}

/* ---- What clients ask ---- */

static void cancel_job(struct dist *d, struct dist_job *job, uint32_t client)
{
    bool again = job->by_client;

    if (!job->journalled)
        dist_cancel_answer(d, job->id, client, 0);
    if (!job_state_final(job->state)) {
        job->by_client = true;
        if (!again)
            dist_journal_cancel(d, job);
        if (!job->cancelling)
            dist_job_cancel_rest(d, job);
        dist_jobs_settle(d); /* if it has ended now, the record of its end comes before the answer */
    }
    if (job->journalled)
        dist_journal_cancelled(d, job, client);
}

void dist_on_cancel(struct dist *d, const struct msg *m)
{
    struct dist_job *job = dist_job_find(d, m->cancel.job);

    if (!job || !job->submitted) /* a job whose client has no answer yet counts as unknown */
        dist_cancel_answer(d, m->cancel.job, m->cancel.client, HAWK_ENOT_FOUND);
    else if (m->cancel.tasks && m->cancel.tasks->v[m->cancel.tasks->n - 1] >= job->desc->tasks)
        dist_cancel_answer(d, m->cancel.job, m->cancel.client, HAWK_EINVALID);
    else if (m->cancel.tasks)
        cancel_tasks(d, job, &m->cancel);
    else
        cancel_job(d, job, m->cancel.client);
}
