/* Tasks that stand still for short ones (protocol 4.5). */
#include "dist/internal.h"

/* From its worker; of a task of central's, from central. */
void dist_on_task_paused(struct dist *d, const struct msg *m)
{
    const struct try_id *id = &m->task_paused.id;
    bool central = d->from == NULL;
    struct dist_job *job = dist_job_find(d, id->job);
    const struct dist_task *t = job && id->task < job->desc->tasks ? &job->tasks[id->task] : NULL;
    struct try_id latest;

    if (!t || t->central != central || task_state_before(t->state) ||
        (!central && t->worker != d->from->m.node.v))
        return;
    latest = dist_task_try(job, id->task);
    if (try_eq(&latest, id))
        owner_pause_note(&job->pauses, id->task, &m->task_paused, d->now_us);
    if (t->state != TASK_RUNNING)
        owner_pause_end(&job->pauses, id->task, d->now_us);
}
