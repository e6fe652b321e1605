/* Views for shells. */
#include "worker/internal.h"

bool worker_quiet(const struct worker *w)
{
    return w->n_reservations == 0 && w->n_tasks == 0 && w->n_requested == 0 && w->n_loot == 0;
}

void worker_counts(const struct worker *w, struct worker_counts *c)
{
    *c = (struct worker_counts){
        .slots = w->config.slots,
        .free = w->n_free,
        .requested = w->n_requested,
        .running = (uint32_t)w->n_active - w->n_free - w->n_requested,
        .paused = w->n_paused,
        .given = w->n_given,
        .running_long = w->n_long,
        .reservations = w->n_reservations,
        .queued_tasks = w->n_queued_tasks,
        .unacked = w->n_unacked,
        .joined = w->joined,
        .general = w->general,
        .stuck = w->n_stuck > 0,
        .parked = w->parked.is,
        .drained = w->drained,
        .stopping = w->stopping,
        .stopped = w->stopped,
    };
}

int64_t worker_oldest_us(const struct worker *w)
{
    int64_t oldest = TIME_NEVER;

    for (uint32_t i = 0; i < w->n_lanes; i++) {
        struct steal_entry *q = steal_queue_head(&w->lanes[i].queue);
        struct entry *e = q ? container_of(q, struct entry, q) : NULL;
        int64_t came = !e ? TIME_NEVER : e->task ? e->task->arrived_us : reservation_of(e)->arrived_us;

        if (came < oldest)
            oldest = came;
    }
    return oldest;
}

uint64_t worker_owner_unacked_bytes(const struct worker *w, uint32_t run)
{
    const struct task *t = worker_task_of_run(w, run);

    return t ? t->job->owner->unacked_bytes : 0;
}
