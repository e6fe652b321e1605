/* Tasks that their workers could not start (docs/protocol.md 3.13). Nothing ran, so it costs no retry. The
 * job avoids such a worker as long as there are others. The worker hears of it if the failure was its own. */
#include "dist/internal.h"

uint32_t dist_starts_avoided(struct dist *d, const struct dist_job *job)
{
    const struct draw *pool = &dist_probe_pool_of(d, job)->draw;
    uint32_t slots = 0;

    if (job->starts.n == 0 || job->starts.unstartable)
        return 0;
    for (uint32_t i = 0; i < job->starts.n; i++) {
        const struct dist_node *n = dist_node_find(d, job->starts.v[i].node.v);

        if (n && dist_end_times_fit(d, job, n))
            slots += draw_weight(pool, n->m.node.v);
    }
    return slots < draw_total(pool) - dist_end_times_short(d, job, pool) ? slots : 0;
}

bool dist_starts_avoid(struct dist *d, const struct dist_job *job, uint32_t node)
{
    return owner_starts_avoid(&job->starts, (node_id_t){node}) && dist_starts_avoided(d, job) > 0;
}

/* Whether every worker that could be drawn has failed to start some task of the job. */
static bool failed_everywhere(struct dist *d, const struct dist_job *job)
{
    return job->starts.n > 0 && dist_starts_avoided(d, job) == 0;
}

void dist_starts_failed(struct dist *d, struct dist_job *job, struct dist_node *n,
                        const struct msg_task_finished *m)
{
    uint32_t i = m->id.task;
    bool elsewhere = owner_starts_failed(&job->starts, n->m.node, i, &job->tasks[i].unstarted);

    if (dist_task_unwanted(job, i)) {
        dist_task_return(d, job, i);
        return;
    }
    if (elsewhere && !failed_everywhere(d, job)) {
        dist_task_refused(d, job, i);
        dist_probe_take_back(d, job, n, job->id);
        return;
    }
    owner_starts_give_up(&job->starts);
    owner_message_keep(&job->messages, i, m->result);
    dist_task_end_unrun(d, job, i, OUTCOME_NOT_STARTED, CODE_CANNOT_START);
}

/* Output: one message per worker that could not start the task. */
void dist_starts_began(struct dist *d, struct dist_job *job, uint32_t i, uint32_t node)
{
    node_id_t blamed;

    if (!owner_starts_began(&job->starts))
        return;
    while (owner_starts_blame(&job->starts, (node_id_t){node}, i, &blamed)) {
        const struct dist_node *n = dist_node_find(d, blamed.v);

        if (n && n->stream)
            out_add(d->out, MSG_START_BLAMED, blamed.v)->start_blamed.job = job->id;
    }
}
