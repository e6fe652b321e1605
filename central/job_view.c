/* Views of long jobs. Only central can show jobs that no dist which is up has. */
#include "central/central.h"

#include "central/tasks.h"
#include "owner/jobs.h"

#include <stdio.h>

/* The job at that place or after it, in the order of lists: unfinished jobs first, each list oldest first. */
static const struct long_job *first_job_from(const struct central *c, int state, const struct list *at)
{
    for (; state < LONG_STATE_COUNT; at = NULL, state++) {
        const struct list *l = &c->jobs[state];

        for (at = at ? at : l->next; at != l; at = at->next) {
            const struct long_job *j = container_of(at, struct long_job, by_state);

            if (!central_job_shown(c, j))
                return j;
        }
    }
    return NULL;
}

const struct long_job *central_next_job(const struct central *c, const struct long_job *prev)
{
    return prev ? first_job_from(c, (int)prev->state, prev->by_state.next) : first_job_from(c, 0, NULL);
}

const struct long_job *central_job_after(const struct central *c, job_id_t job)
{
    const struct long_job *first = NULL, *j = NULL;

    if (job_eq(job, JOB_NONE))
        return central_next_job(c, NULL);
    while ((j = central_jobs_next_part(c, job, j)))
        if (!first || j->state < first->state)
            first = j;
    return first ? central_next_job(c, first) : NULL;
}

const struct long_job *central_find_job(const struct central *c, job_id_t job)
{
    const struct long_job *found = NULL, *j = NULL;

    while ((j = central_jobs_next_part(c, job, j)))
        if (!found || j->key.epoch > found->key.epoch)
            found = j;
    return found;
}

enum job_state central_job_end_state(const struct long_job *j)
{
    return owner_job_end_state(j->ended, j->cancel);
}

static enum job_state state_of(const struct long_job *j, uint32_t running)
{
    if (j->state == LONG_JOURNALLING)
        return JOB_PENDING;
    if (j->final == j->n)
        return central_job_end_state(j);
    if (running + j->final > 0)
        return JOB_RUNNING;
    return j->held ? JOB_HELD : JOB_WAITING;
}

/* -1: the task has not started, or the time is not known. */
static int64_t task_wait_us(const struct long_task *t)
{

    return !task_state_before(t->state) && t->wait_us > 0 ? t->wait_us : -1;
}

void central_job_view(const struct central *c, const struct long_job *j, int64_t now_us, struct job_view *v)
{
    uint32_t in[TASK_STATE_COUNT] = {0};
    struct usage_total total = {0};
    int64_t first_us = -1;

    for (uint32_t i = 0; i < j->n; i++) {
        int64_t us = task_wait_us(&j->tasks[i]);

        in[j->tasks[i].state]++;
        if (us >= 0 && (first_us < 0 || us < first_us))
            first_us = us;
        usage_add(&total, central_task_used(&j->tasks[i]));
    }
    *v = (struct job_view){
        .job = {j->key.job},
        .desc = j->desc,
        .owner = NODE_CENTRAL,
        .state = (uint8_t)state_of(j, in[TASK_RUNNING]),
        .class = CLASS_LONG,
        .why = j->why,
        .abandoned = j->abandoned,
        .held = j->held && j->state <= LONG_ACTIVE,
        .epoch = (uint16_t)j->key.epoch,
        .estimate_us = j->estimate_us,
        .cutoff_us = c->policy.cutoff_us,
        .waiting = in[TASK_WAITING],
        .placed = in[TASK_PLACED],
        .running = in[TASK_RUNNING],
        .done = j->ended[TASK_DONE],
        .failed = j->ended[TASK_FAILED],
        .cancelled = j->ended[TASK_CANCELLED],
        .lost = j->ended[TASK_LOST],
        .age_us = now_us - j->first_us,
        .response_us = j->state >= LONG_ENDED ? j->ended_us - j->first_us : -1,
        .first_start_us = first_us,
        .total = total,
    };
    owner_pauses_view(&j->pauses, now_us, v);
}

uint32_t central_job_tasks(const struct long_job *j) { return j->n; }

void central_task_view(const struct central *c, const struct long_job *j, uint32_t i, int64_t now_us,
                       struct task_view *v)
{
    const struct long_task *t = &j->tasks[i];
    bool final = task_state_final(t->state);

    *v = (struct task_view){
        .task = j->set ? j->set->v[i] : i,
        .state = t->state,
        .outcome = final ? t->outcome : OUTCOME_NONE,
        .attempt = t->attempt,
        .failures = t->failures,
        .code = final ? t->code : 0,
        .worker = {t->state == TASK_WAITING ? 0 : t->worker.v},
        .wait_us = task_wait_us(t),
        .run_us = final ? t->run_us : -1,
        .used = central_task_used(t),
    };
    owner_pause_view(&j->pauses, i, now_us, v);
}

void central_job_blocked(const struct central *c, const struct long_job *j, char *buf, size_t size)
{
    int64_t left_us = central_orphan_left_us(c, j), unreported_us = central_job_unreported_us(c, j);

    if (j->abandoned)
        snprintf(buf, size, "%s: nobody waits for it any more (central.long_lease)",
                 j->final == j->n ? "cancelled" : "being cancelled");
    else if (j->state >= LONG_ENDED)
        snprintf(buf, size, "it has ended, and no dist that is up has asked for it since");
    else if (left_us >= 0)
        snprintf(
            buf, size,
            "no dist that is up has it, so nobody may wait for it any more: central cancels it in %lld s "
            "unless a dist claims it",
            (long long)(left_us / US_PER_S));
    else if (unreported_us > 0)
        snprintf(buf, size,
                 "its dist is not there; central places what no worker has reported in %lld s, when "
                 "central.long_lease is over",
                 (long long)(unreported_us / US_PER_S));
    else if (j->unheard)
        snprintf(buf, size,
                 "its dist has not named it since central restarted, and may know that it is cancelled or "
                 "held; central "
                 "goes on with it then, or when central.long_lease is over");
    else if (j->held)
        snprintf(buf, size, "it is held: none of its tasks starts before it is released");
    else if (j->desc->flags & JOB_DETACHED)
        snprintf(buf, size, "its dist is not there; central goes on with it");
    else
        snprintf(buf, size, "its dist is not there for the moment; central goes on with it");
}
