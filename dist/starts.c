/* Tasks that their workers could not start (docs/protocol.md 3.13): nothing ran, so that it costs no retry. The job avoids
 * such a worker as long as there are others, and the worker hears when it was to blame. */
#include "dist/internal.h"

#include "base/mem.h"

static struct start_failure *failure_at(const struct dist_job *job, uint32_t node)
{
    for (uint32_t i = 0; i < job->failures_n; i++)
        if (job->failures[i].node == node)
            return &job->failures[i];
    return NULL;
}

uint32_t dist_starts_avoided(struct dist *d, const struct dist_job *job)
{
    const struct draw *pool = &dist_probe_pool_of(d, job)->draw;
    uint32_t slots = 0;

    if (job->unstartable)
        return 0;
    for (uint32_t i = 0; i < job->failures_n; i++)
        slots += draw_weight(pool, job->failures[i].node);
    return slots < draw_total(pool) ? slots : 0;
}

bool dist_starts_avoid(struct dist *d, const struct dist_job *job, uint32_t node)
{
    return failure_at(job, node) && dist_starts_avoided(d, job) > 0;
}

static void note(struct dist_job *job, uint32_t i, uint32_t node)
{
    if (failure_at(job, node) || job->failures_n == START_FAILURES_MAX)
        return;
    vec_grow(job->failures, job->failures_n, job->failures_cap);
    job->failures[job->failures_n++] = (struct start_failure){.node = node, .task = i};
}

/* No worker that could be drawn has not failed to start some task of it. */
static bool failed_everywhere(struct dist *d, const struct dist_job *job)
{
    return job->failures_n > 0 && dist_starts_avoided(d, job) == 0;
}

void dist_starts_failed(struct dist *d, struct dist_job *job, struct dist_node *n,
                        const struct msg_task_finished *m)
{
    uint32_t i = m->id.task;
    struct dist_task *t = &job->tasks[i];

    note(job, i, n->m.node.v);
    if (job->cancelling) {
        dist_task_return(d, job, i);
        return;
    }
    t->unstarted++;
    if (!job->unstartable && t->unstarted < START_WORKERS_MAX && !failed_everywhere(d, job)) {
        dist_task_refused(d, job, i);
        dist_probe_take_back(d, job, n);
        return;
    }
    /* Not that worker's fault. As long as none of its tasks starts, the others fail at once. */
    job->unstartable |= job->first_wait_us < 0;
    owner_message_keep(&job->messages, i, m->result);
    dist_task_finish(d, job, i, OUTCOME_NOT_STARTED, CODE_CANNOT_START, 0);
}

/* 1 message per worker that could not start it. */
void dist_starts_began(struct dist *d, struct dist_job *job, uint32_t i, uint32_t node)
{
    job->unstartable = false;
    for (uint32_t k = job->failures_n; k-- > 0;) {
        struct start_failure *f = &job->failures[k];
        const struct dist_node *n = dist_node_find(d, f->node);

        if (f->node == node) { /* what was the matter there is over */
            *f = job->failures[--job->failures_n];
            continue;
        }
        if (f->task != i)
            continue;
        f->task = TASK_NIL;
        if (n && n->stream)
            out_add(d->out, MSG_START_BLAMED, f->node)->start_blamed.job = job->id;
    }
}
