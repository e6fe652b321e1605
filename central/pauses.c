/* Pauses of long tasks (protocol 4.5): their workers tell, dists that watch are told, and waiting times stand still. */
#include "central/tasks.h"

static void send_pause(struct central *c, const struct long_task *t, const struct node *dist, int64_t run_us)
{
    const struct owner_pause *p = owner_pause_find(&t->job->pauses, central_task_index(t));
    struct msg *m = p && p->attempt == t->attempt ? central_send(c, dist, MSG_TASK_PAUSED) : NULL;

    if (!m)
        return;
    m->task_paused.id = central_task_try(t);
    m->task_paused.run_us = run_us;
    owner_pause_say(p, c->now_us, &m->task_paused);
}

void central_pauses_send(struct central *c, const struct long_job *j, const struct node *dist)
{
    for (uint32_t i = 0; i < j->pauses.n; i++)
        send_pause(c, &j->tasks[j->pauses.v[i].task], dist, 0);
}

void central_on_task_paused(struct central *c, const struct msg *in)
{
    const struct msg_task_paused *m = &in->task_paused;
    struct long_task *t = central_jobs_find_task(c, &m->id);
    struct long_job *j;

    if (!t || t->state != TASK_RUNNING || t->place != PLACE_WORKER || t->attempt != m->id.attempt ||
        container_of(t->w.worker, struct node, waiting) != c->from)
        return;
    j = t->job;
    owner_pause_note(&j->pauses, central_task_index(t), m, c->now_us);
    central_task_ran(c, t, m->run_us, m->stood_ms > 0);
    for (uint32_t i = 0; i < j->n_watchers; i++) {
        const struct node *dist = central_node_by_id(c, j->watchers[i].dist);

        if (dist)
            send_pause(c, t, dist, m->run_us);
    }
}
