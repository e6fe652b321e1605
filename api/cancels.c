/* Cancelling jobs and tasks: each turn of the loop some, since a few calls may name many large jobs, and other clients
 * must be heard meanwhile. */
#include "api/internal.h"
#include "base/mem.h"

#include <stdlib.h>

/* One turn of the loop cancels jobs of at most this many tasks: a million tasks take 50 ms and more. */
#define TURN_TASKS 100000u

static void cancel_one(struct api *a, struct api_cancel *c)
{
    struct msg m = {.type = MSG_CANCEL, .cancel = {.job = c->job, .client = c->client, .tasks = c->set}};
    bool call = c->client != 0;
    fair_spend(&a->cancels, c->tasks ? c->tasks : 1);
    a->feed(a->arg, ROLE_DIST, &m); /* that of a session may be gone */
    if (call) {
        task_set_drop(c->set);
        free(c);
    }
}

/* Cancels one job at least. Then the loop gives others as much time as that took: a call takes several
 * turns of the loop. */
static void cancel_some(void *arg)
{
    struct api *a = arg;
    int64_t start_us = loop_now(a->loop), end_us;
    struct list *l;
    fair_begin(&a->cancels, TURN_TASKS);
    while ((l = fair_next(&a->cancels)))
        cancel_one(a, container_of(l, struct api_cancel, in_queue));
    end_us = loop_now(a->loop);
    if (fair_spent(&a->cancels))
        loop_timer_set(a->loop, &a->cancel_timer, end_us + (end_us - start_us));
}

void api_cancel_soon(struct api *a, const struct caller *who, struct api_cancel *c)
{
    if (!loop_timer_is_set(&a->cancel_timer))
        loop_timer_set(a->loop, &a->cancel_timer, loop_now(a->loop));
    fair_push(&a->cancels, api_user_cancels(a, who), &c->in_queue);
}

void api_cancel_for(struct api *a, struct rpc_call *call, job_id_t job, uint32_t tasks, struct task_set *set)
{
    struct api_cancel *c = xcalloc(1, sizeof *c);
    *c = (struct api_cancel){.job = job, .client = api_wait(a, call), .tasks = tasks, .set = set};
    list_init(&c->in_queue);
    api_cancel_soon(a, rpc_caller(call), c);
}

void api_cancels_init(struct api *a)
{
    fair_init(&a->cancels);
    fair_queue_init(&a->unlimited_cancels);
    loop_timer_init(&a->cancel_timer, cancel_some, a);
}

void api_cancels_free(struct api *a)
{
    struct list *l;
    loop_timer_clear(a->loop, &a->cancel_timer);
    fair_begin(&a->cancels, 1);
    while ((l = fair_next(&a->cancels))) {
        struct api_cancel *c = container_of(l, struct api_cancel, in_queue);
        task_set_drop(c->set);
        free(c);
    }
}
