/* See movable_job.h. */
#include "libhawk/movable_job.h"

#include "base/entropy.h"
#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>

struct movable_job *movable_job_new(struct job_desc *desc, int64_t now_us)
{
    struct movable_job *j = xcalloc(1, sizeof *j);
    j->desc = job_desc_ref(desc);
    j->key = entropy_nonzero();
    j->submit_us = now_us;
    j->epoch = EPOCH_FIRST;
    j->held = (desc->flags & JOB_SUBMIT_HELD) != 0;
    j->ended = xcalloc(desc->tasks, sizeof *j->ended);
    return j;
}

void movable_job_free(struct movable_job *j)
{
    if (!j)
        return;
    job_desc_drop(j->desc);
    free(j->ended);
    free(j);
}

void movable_job_submitted(struct movable_job *j, const struct api_submit_reply *r)
{
    j->job = r->job;
    j->class = (uint8_t)r->class;
    j->why = (uint8_t)r->why;
    if (r->receipt)
        j->receipt = r->receipt;
}

bool movable_job_task(struct movable_job *j, const struct api_task *t)
{
    if (t->task >= j->desc->tasks || task_state_final(j->ended[t->task].state))
        return false;
    if (!task_state_final(t->state))
        return true;
    j->ended_n++;
    j->ended[t->task] = api_task_ended(t);
    return true;
}

void movable_job_event(struct movable_job *j, struct api_event *e)
{
    uint32_t kept = 0;
    j->class = (uint8_t)e->job.class;
    j->why = (uint8_t)e->job.why;
    j->held = e->job.held;
    if (e->job.at_central && !epoch_is_dists(e->job.epoch) && e->job.epoch < j->epoch + 2u)
        j->long_epoch = (uint16_t)e->job.epoch;
    for (uint32_t i = 0; i < e->tasks_n; i++)
        if (movable_job_task(j, &e->tasks[i]))
            e->tasks[kept++] = e->tasks[i];
        else
            api_free(&api_task_type, &e->tasks[i]);
    e->tasks_n = kept;
}

int movable_job_move(struct movable_job *j, int64_t now_us, struct api_submit_request *r)
{
    uint32_t n = 0;
    if (j->epoch >= EPOCH_LAST)
        return HAWK_ELIMIT;
    j->epoch += 2;
    j->asked = true;
    *r = (struct api_submit_request){.job = j->desc,
                                     .key = j->key,
                                     .resubmit = {.job = j->job,
                                                  .epoch = j->epoch,
                                                  .long_epoch = j->long_epoch,
                                                  .class = j->class,
                                                  .why = j->why,
                                                  .age_us = now_us - j->submit_us,
                                                  .receipt = j->receipt,
                                                  .held = j->held,
                                                  .ended_n = j->ended_n}};
    r->resubmit.ended = xcalloc(j->ended_n ? j->ended_n : 1, sizeof *r->resubmit.ended);
    for (uint32_t i = 0; i < j->desc->tasks && n < j->ended_n; i++) {
        const struct resubmit_task *t = &j->ended[i];
        if (task_state_final(t->state))
            r->resubmit.ended[n++] =
                (struct api_task){.task = i,
                                  .state = t->state,
                                  .outcome = t->outcome,
                                  .code = t->code,
                                  .attempt = t->attempt,
                                  .worker = t->worker,
                                  .wait_us = t->wait_us,
                                  .run_us = t->run_us,
                                  .cpu_us = figure_value(t->used.cpu_us),
                                  .mem_peak_bytes = figure_value(t->used.mem_peak_bytes)};
    }
    return 0;
}

void movable_job_stay(struct movable_job *j, struct api_watch_request *r)
{
    if (j->asked && j->epoch < EPOCH_LAST)
        j->epoch += 2;
    j->asked = false;
    r->epoch = j->epoch;
    r->key = j->key;
}

bool movable_job_note_refusal(struct movable_job *j, grpc_status_code status)
{
    if (movable_job_has_no_room(status) && j->epoch > EPOCH_FIRST)
        j->epoch -= 2; /* nobody has the job under it: a job that waits long shall not use them up */
    return status == GRPC_STATUS_INVALID_ARGUMENT || status == GRPC_STATUS_PERMISSION_DENIED;
}

bool movable_job_taken(struct movable_job *j, const uint8_t *reply, size_t len)
{
    struct api_submit_reply r;
    char why[1];
    if (api_decode(&api_submit_reply_type, reply, len, &r, why, 0))
        return false;
    bool taken = job_eq(r.job, j->job);
    if (taken && r.receipt)
        j->receipt = r.receipt;
    api_free(&api_submit_reply_type, &r);
    if (taken)
        j->asked = false;
    return taken;
}
