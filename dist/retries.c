/* Tasks of this dist that failed and run again (docs/protocol.md 3.14). While one waits for its time, it is waiting and
 * in dist_job.delayed, and its `delay` is in dist.delayed by that time. */
#include "dist/internal.h"

#include "base/check.h"
#include "base/mem.h"
#include "owner/retries.h"

#include <stdlib.h>

uint32_t dist_task_failures(const struct dist_job *job, uint32_t i)
{
    return job->failures ? job->failures[i] : 0;
}

void dist_task_set_failures(struct dist_job *job, uint32_t i, uint32_t failures)
{
    if (failures == 0)
        return;
    if (!job->failures)
        job->failures = xcalloc(job->desc->tasks, sizeof *job->failures);
    job->failures[i] = (uint8_t)failures;
}

bool dist_task_delayed(const struct dist_task *t)
{
    return t->state == TASK_WAITING && (t->delay || t->centrals_delay);
}

void dist_task_waits_for_nothing(struct dist_task *t)
{
    CHECK(!t->started);
    t->delay = NULL;
    t->awaits = 0;
    t->centrals_delay = false;
}

void dist_task_centrals_delay(struct dist_job *job, uint32_t i, bool delayed)
{
    struct dist_task *t = &job->tasks[i];

    if (!t->central || t->state != TASK_WAITING || delayed == dist_task_delayed(t))
        return;
    t->centrals_delay = delayed;
    job->central_delayed += delayed ? 1u : -1u;
}

static void delay_task(struct dist *d, struct dist_job *job, uint32_t i, int64_t until_us)
{
    struct dist_delay *delay = xcalloc(1, sizeof *delay);

    *delay = (struct dist_delay){.timer = {.key = until_us, .seq = ++d->delays}, .job = job, .task = i};
    CHECK(heap_push(&d->delayed, &delay->timer) == 0);
    dist_task_move(job, &job->returned, &job->delayed, i);
    job->tasks[i].delay = delay;
    job->unlaunched--;
    job->delayed_n++;
}

void dist_task_undelay(struct dist *d, struct dist_job *job, uint32_t i)
{
    struct dist_task *t = &job->tasks[i];

    if (t->central) {
        dist_task_centrals_delay(job, i, false);
        return;
    }
    heap_remove(&d->delayed, &t->delay->timer);
    free(t->delay);
    t->delay = NULL;
    dist_task_move(job, &job->delayed, &job->returned, i);
    job->unlaunched++;
    job->delayed_n--;
    dist_job_touch(d, job);
}

void dist_tasks_undelay(struct dist *d, struct dist_job *job)
{
    while (job->delayed != TASK_NIL)
        dist_task_undelay(d, job, job->delayed);
}

int64_t dist_retries_due_us(const struct dist *d)
{
    const struct heap_node *first = heap_min(&d->delayed);

    return first ? first->key : TIME_NEVER;
}

void dist_retries_run(struct dist *d)
{
    while (dist_retries_due_us(d) <= d->now_us) {
        const struct dist_delay *delay = container_of(heap_min(&d->delayed), struct dist_delay, timer);

        dist_task_undelay(d, delay->job, delay->task);
    }
}

bool dist_task_retry(struct dist *d, struct dist_job *job, const struct msg_task_finished *f)
{
    uint32_t i = f->id.task, failures;
    struct dist_task *t = &job->tasks[i];
    struct try_id latest;
    int64_t delay_us;

    if (!owner_retry_on(job->desc, f->outcome, f->code))
        return false;
    failures = dist_task_failures(job, i);
    latest = dist_task_try(job, i);
    /* An earlier try: it has failed, or was lost, and another one counts. Or the same report again. */
    if (t->attempt > 0 && (!try_eq(&latest, &f->id) || t->outcome != OUTCOME_NONE))
        return true;
    if (dist_task_unwanted(job, i) || t->attempt == UINT16_MAX || !owner_has_retries(job->desc, failures))
        return false;
    dist_task_set_failures(job, i, ++failures);
    t->free++;
    t->started = 0;
    if (t->state != TASK_WAITING)
        dist_task_set_state(d, job, i, TASK_WAITING, NULL);
    t->outcome = f->outcome & 7;
    dist_count(d, COUNTER_tasks_failed_again, 1);
    delay_us = owner_retry_delay_us(job->desc, failures);
    if (delay_us > 0)
        delay_task(d, job, i, d->now_us + delay_us);
    dist_job_touch(d, job);
    dist_journal_failure(d, job, i);
    return true;
}
