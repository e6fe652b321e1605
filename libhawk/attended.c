/* See attended.h. */
#include "libhawk/attended.h"

#include "base/entropy.h"
#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>

struct attended *attended_new(struct job_desc *desc, int64_t now_us)
{
    struct attended *a = xcalloc(1, sizeof *a);
    a->desc = job_desc_ref(desc);
    a->key = entropy_nonzero();
    a->submit_us = now_us;
    a->epoch = EPOCH_FIRST;
    a->ended = xcalloc(desc->tasks, sizeof *a->ended);
    return a;
}

void attended_free(struct attended *a)
{
    if (!a)
        return;
    job_desc_drop(a->desc);
    free(a->ended);
    free(a);
}

void attended_submitted(struct attended *a, const struct api_submit_reply *r)
{
    a->job = r->job;
    a->class = (uint8_t)r->class;
    a->why = (uint8_t)r->why;
}

bool attended_task(struct attended *a, const struct api_task *t)
{
    if (t->task >= a->desc->tasks || task_state_final(a->ended[t->task].state))
        return false;
    if (!task_state_final(t->state))
        return true;
    a->ended_n++;
    a->ended[t->task] = (struct resubmit_task){.task = t->task,
                                               .state = (uint8_t)t->state,
                                               .outcome = (uint8_t)t->outcome,
                                               .code = t->code,
                                               .attempt = (uint16_t)t->attempt,
                                               .worker = t->worker,
                                               .wait_us = t->wait_us,
                                               .run_us = t->run_us};
    return true;
}

void attended_event(struct attended *a, struct api_event *e)
{
    uint32_t kept = 0;
    a->class = (uint8_t)e->job.class;
    a->why = (uint8_t)e->job.why;
    if (e->job.at_central && !epoch_is_dists(e->job.epoch) && e->job.epoch < a->epoch + 2u)
        a->long_epoch = (uint16_t)e->job.epoch;
    for (uint32_t i = 0; i < e->tasks_n; i++)
        if (attended_task(a, &e->tasks[i]))
            e->tasks[kept++] = e->tasks[i];
        else
            api_free(&api_task_type, &e->tasks[i]);
    e->tasks_n = kept;
}

int attended_move(struct attended *a, int64_t now_us, struct api_submit_request *r)
{
    uint32_t n = 0;
    if (a->epoch >= EPOCH_LAST)
        return HAWK_ELIMIT;
    a->epoch += 2;
    a->asked = true;
    *r = (struct api_submit_request){.job = a->desc,
                                     .key = a->key,
                                     .resubmit = {.job = a->job,
                                                  .epoch = a->epoch,
                                                  .long_epoch = a->long_epoch,
                                                  .class = a->class,
                                                  .why = a->why,
                                                  .age_us = now_us - a->submit_us,
                                                  .ended_n = a->ended_n}};
    r->resubmit.ended = xcalloc(a->ended_n ? a->ended_n : 1, sizeof *r->resubmit.ended);
    for (uint32_t i = 0; i < a->desc->tasks && n < a->ended_n; i++) {
        const struct resubmit_task *t = &a->ended[i];
        if (task_state_final(t->state))
            r->resubmit.ended[n++] = (struct api_task){.task = i,
                                                       .state = t->state,
                                                       .outcome = t->outcome,
                                                       .code = t->code,
                                                       .attempt = t->attempt,
                                                       .worker = t->worker,
                                                       .wait_us = t->wait_us,
                                                       .run_us = t->run_us};
    }
    return 0;
}

void attended_stay(struct attended *a, struct api_watch_request *r)
{
    if (a->asked && a->epoch < EPOCH_LAST)
        a->epoch += 2;
    a->asked = false;
    r->epoch = a->epoch;
    r->key = a->key;
}

bool attended_taken(struct attended *a, const uint8_t *reply, size_t len)
{
    struct api_submit_reply r;
    char why[1];
    if (api_decode(&api_submit_reply_type, reply, len, &r, why, 0))
        return false;
    bool taken = job_eq(r.job, a->job);
    api_free(&api_submit_reply_type, &r);
    if (taken)
        a->asked = false;
    return taken;
}
