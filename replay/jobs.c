/* The way of a job in the replay. It goes from list to list:
 *
 * PLANNED -> SUBMITTING -> ACCEPTED -> WATCHED -> FETCHING -> FINISHED
 *
 * A job's dist measures its times, so it costs nothing to notice an end late. The number of watching
 * streams is bounded, and further jobs wait for their turn as ACCEPTED. One that has waited for ATTEND_US
 * takes the place of the one that has been watched for longest. A stream or call that breaks makes
 * a job BROKEN until the replay asks for it again or, if its dist is lost, MOVING to another dist
 * (docs/protocol.md 9). */
#include "replay/jobs.h"

#include "base/check.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Watch streams that the replay opens at one dist. The dist accepts API_WATCHES_MAX on one connection. A
 * dist cancels a job that nobody has watched for its client_grace. */
#define WATCHES_MAX (API_WATCHES_MAX - 100u)
#define ATTEND_US (3 * US_PER_S)
#define RESULT_TEXT_MAX ((int)sizeof(((struct replay_result *)0)->error) - 100)

void replay_job_set_state(struct job *j, enum state state)
{
    struct run *r = j->run;

    CHECK(j->state != FINISHED);
    r->counts[j->state]--;
    list_remove(&j->node);
    j->state = state;
    r->counts[state]++;
    list_push_tail(&r->lists[state], &j->node);
}

struct job *replay_job_first(struct run *r, enum state state)
{
    return list_empty(&r->lists[state]) ? NULL : container_of(r->lists[state].next, struct job, node);
}

void replay_job_finish(struct job *j, enum replay_job_end end, const char *text)
{
    struct run *r = j->run;
    char id[JOB_ID_TEXT];

    replay_job_set_state(j, FINISHED);
    movable_job_free(j->movable);
    j->movable = NULL;
    j->result->end = end;
    r->result->ends[end]++;
    r->end_us = loop_now(r->client->loop);
    if (!text || r->result->error[0])
        return;
    if (end == REPLAY_REFUSED)
        snprintf(r->result->error, sizeof r->result->error,
                 "the job of line %" PRIu64 " was refused by %s: %.*s", j->plan->line,
                 channel_addr(j->target->channel), RESULT_TEXT_MAX, text);
    else
        snprintf(r->result->error, sizeof r->result->error, "job %s (line %" PRIu64 ") is lost: %s: %.*s",
                 job_id_format(id, j->id), j->plan->line, channel_addr(j->target->channel), RESULT_TEXT_MAX,
                 text);
}

static struct rpc *start_at(struct job *j, const struct target *t, enum api_method method,
                            const void *request, const struct rpc_fns *fns)
{
    const struct api_method_info *m = &api_methods[method];
    int64_t timeout_us = m->streaming ? TIME_NEVER : j->run->options->timeout_us;
    uint8_t *data;
    size_t len;

    api_encode(m->request, request, &data, &len);
    struct rpc *call = rpc_start(t->channel, m->path, data, len, timeout_us, false, fns, j);
    free(data);
    return call;
}

static struct rpc *start_call(struct job *j, enum api_method method, const void *request,
                              const struct rpc_fns *fns)
{
    return start_at(j, j->target, method, request, fns);
}

/* The next dist: round robin over those that are there; `but` only if there is no other. NULL: none is
 * there. */
static struct target *next_target(struct run *r, struct target *but)
{
    for (uint32_t i = 0; i < r->targets_n; i++) {
        struct target *t = &r->targets[r->next_target++ % r->targets_n];

        if (t != but && !t->down_us)
            return t;
    }
    return but && !but->down_us ? but : NULL;
}

static void on_cancel_end(void *arg, grpc_status_code status, const char *text)
{
    struct job *j = arg;

    j->cancel = NULL; /* the stream tells how the job ended */
}

void replay_job_cancel(struct job *j)
{
    static const struct rpc_fns fns = {.done = on_cancel_end};
    const struct api_cancel_request request = {.job = j->id};

    if (!j->cancel)
        j->cancel = start_call(j, API_CANCEL, &request, &fns);
}

static void on_accepted(struct job *j)
{
    j->accepted_us = loop_now(j->run->client->loop);
    replay_job_set_state(j, ACCEPTED);
    if (j->run->result->interrupted)
        replay_job_cancel(j);
}

/* --- asking how a job ended ------------------------------------------------------------------------ */

/* Whether asking again later may help. Anything else, NOT_FOUND above all, is an answer. */
static bool may_pass(grpc_status_code status)
{
    return status == GRPC_STATUS_OK || status == GRPC_STATUS_UNAVAILABLE || status == GRPC_STATUS_CANCELLED ||
           status == GRPC_STATUS_INTERNAL || status == GRPC_STATUS_UNKNOWN || status == GRPC_STATUS_ABORTED ||
           status == GRPC_STATUS_DEADLINE_EXCEEDED || status == GRPC_STATUS_RESOURCE_EXHAUSTED;
}

static void move_to(struct job *j, struct target *to);

static bool out_of_time(struct job *j)
{
    int64_t now = loop_now(j->run->client->loop);

    if (j->broken_us == TIME_NEVER)
        j->broken_us = now;
    return now - j->broken_us > j->run->options->timeout_us;
}

static void on_stream_broken(struct job *j, grpc_status_code status, const char *text)
{
    if (client_asked_wrong_dist(status) && !j->forgotten) {
        j->forgotten = true;
        move_to(j, j->target); /* another process is there now */
    } else if (!may_pass(status) || out_of_time(j)) {
        replay_job_finish(j, REPLAY_LOST, *text ? text : "its stream of events ended before it did");
    } else {
        replay_job_set_state(j, BROKEN);
    }
}

static void take_task(struct job *j, const struct api_task *t)
{
    struct replay_result *r = j->run->result;
    size_t at = j->plan->first + t->task;

    if (t->task >= j->plan->tasks || !task_state_final((enum task_state)t->state) || j->run->told[at])
        return;
    j->run->told[at] = true;
    r->wait_us[at] = t->wait_us;
    r->run_us[at] = t->run_us;
    j->result->reported++;
    j->result->stolen += t->stolen;
    j->result->retried += t->attempt > 1;
}

static void take_job(struct job *j, const struct api_job *a)
{
    struct replay_job_result *to = j->result;

    to->believed = (uint8_t)a->class;
    to->response_us = a->response_us;
    to->done = a->done;
    to->failed = a->failed;
    to->cancelled = a->cancelled;
    to->lost = a->lost;
    to->probes_sent = a->probes_sent;
    to->probes_cancelled = a->probes_cancelled;
    to->probes_unused = a->probes_unused;
    to->probes_lost = a->probes_lost;
    to->reservations_stolen = a->reservations_stolen;
}

static void on_fetched(void *arg, const uint8_t *data, size_t len)
{
    struct job *j = arg;
    struct api_get_job_reply reply;
    char why[200];

    if (api_decode(&api_get_job_reply_type, data, len, &reply, why, sizeof why))
        return;
    j->understood = true;
    j->broken_us = TIME_NEVER;
    j->final = job_state_final((enum job_state)reply.job.state);
    if (j->final) {
        take_job(j, &reply.job);
        for (uint32_t i = 0; i < reply.tasks_n; i++)
            take_task(j, &reply.tasks[i]);
        /* An empty page is the last one. Missing tasks then show as not reported. */
        j->next_task = reply.tasks_n ? j->next_task + reply.tasks_n : j->plan->tasks;
    }
    api_free(&api_get_job_reply_type, &reply);
}

static void fetch_tasks(struct job *j);

static void on_fetch_end(void *arg, grpc_status_code status, const char *text)
{
    struct job *j = arg;

    j->call = NULL;
    if (status != GRPC_STATUS_OK)
        on_stream_broken(j, status, text);
    else if (!j->understood)
        replay_job_finish(j, REPLAY_LOST, "its answer is not understood: is it of another version?");
    else if (!j->final)
        on_accepted(j); /* a stream broke while the job went on: watch it again */
    else if (j->next_task < j->plan->tasks)
        fetch_tasks(j);
    else
        replay_job_finish(j, REPLAY_ENDED, NULL);
}

static void fetch_tasks(struct job *j)
{
    static const struct rpc_fns fns = {.reply = on_fetched, .done = on_fetch_end};
    const struct api_get_job_request request = {
        .job = j->id, .first_task = j->next_task, .max_tasks = API_PAGE_MAX};

    if (j->state != FETCHING)
        replay_job_set_state(j, FETCHING);
    j->understood = j->final = false;
    j->call = start_call(j, API_GET_JOB, &request, &fns);
}

/* --- watching -------------------------------------------------------------------------------------- */

static void end_watch(struct job *j)
{
    rpc_cancel(j->call);
    j->call = NULL;
    j->target->watches--;
}

static void on_event(void *arg, const uint8_t *data, size_t len)
{
    struct job *j = arg;
    struct api_event event;
    char why[200];

    if (api_decode(&api_event_type, data, len, &event, why, sizeof why))
        return;
    j->final = job_state_final((enum job_state)event.job.state);
    movable_job_event(j->movable, &event);
    api_free(&api_event_type, &event);
    j->broken_us = TIME_NEVER;
    j->forgotten = false;
    /* News of a large job's last tasks comes after its final state. */
    if (!j->final || !movable_job_complete(j->movable))
        return;
    end_watch(j);
    fetch_tasks(j);
}

static void on_watch_end(void *arg, grpc_status_code status, const char *text)
{
    struct job *j = arg;

    j->call = NULL;
    j->target->watches--;
    if (j->final && status == GRPC_STATUS_OK)
        fetch_tasks(j);
    else
        on_stream_broken(j, status, text);
}

static void watch_job(struct job *j)
{
    static const struct rpc_fns fns = {.reply = on_event, .done = on_watch_end};
    const struct api_watch_request request = {.job = j->id, .ended = true};

    j->final = false;
    replay_job_set_state(j, WATCHED);
    j->target->watches++;
    j->call = start_call(j, API_WATCH, &request, &fns);
}

static struct job *longest_watched(struct run *r, const struct target *t)
{
    list_foreach(&r->lists[WATCHED], n, next)
        if (container_of(n, struct job, node)->target == t)
            return container_of(n, struct job, node);
    return NULL;
}

static bool all_are_full(const struct run *r)
{
    for (uint32_t i = 0; i < r->targets_n; i++)
        if (r->targets[i].watches < WATCHES_MAX)
            return false;
    return true;
}

uint32_t replay_jobs_watch(struct run *r, uint32_t max)
{
    int64_t now = loop_now(r->client->loop);
    uint32_t begun = 0;

    list_foreach(&r->lists[ACCEPTED], n, next) {
        struct job *j = container_of(n, struct job, node);

        bool due = now >= j->accepted_us + ATTEND_US;

        if (begun == max || (!due && all_are_full(r))) /* the others were accepted later */
            break;
        if (j->target->watches == WATCHES_MAX && due) {
            struct job *longest = longest_watched(r, j->target);

            end_watch(longest);
            on_accepted(longest); /* its end is seen when it is watched again */
        }
        if (j->target->watches < WATCHES_MAX) {
            watch_job(j);
            begun++;
        }
    }
    return begun;
}

/* --- submitting ------------------------------------------------------------------------------------ */

static struct job_desc *describe_job(const struct run *r, const struct replay_plan_job *p)
{
    struct job_desc *d = job_desc_new();
    enum replay_tag tag = r->options->tag;

    d->tasks = p->tasks;
    d->flags = JOB_EACH_ARG;
    d->kind = r->options->timer ? PAYLOAD_TIMER : PAYLOAD_COMMAND;
    if (tag == REPLAY_TAG_CLASS)
        d->tag = p->class == CLASS_LONG ? TAG_LONG : TAG_SHORT;
    if (tag != REPLAY_TAG_NONE)
        d->estimate_us = p->mean_us > 0 ? p->mean_us : 1; /* 0 would mean: none given */
    if (!r->options->timer) {
        strings_add(&d->argv, "sleep");
        strings_add(&d->argv, "{}");
        d->stdout_pattern = blob_str("none");
        d->stderr_pattern = blob_str("none");
    }
    for (uint32_t i = 0; i < p->tasks; i++) {
        int64_t us = r->plan->durations_us[p->first + i];
        char text[48];
        int n = r->options->timer
                    ? snprintf(text, sizeof text, "%" PRId64 "us", us)
                    : snprintf(text, sizeof text, "%" PRId64 ".%06" PRId64, us / US_PER_S, us % US_PER_S);

        task_args_add(&d->args, text, (size_t)n);
    }
    return d;
}

static void on_submitted(void *arg, const uint8_t *data, size_t len)
{
    struct job *j = arg;
    struct api_submit_reply reply;
    char why[200];

    if (api_decode(&api_submit_reply_type, data, len, &reply, why, sizeof why))
        return;
    j->id = reply.job;
    movable_job_submitted(j->movable, &reply);
    api_free(&api_submit_reply_type, &reply);
}

/* Whether this answer means that the dist is gone, or goes. Under its key a job can be submitted to
 * another one. */
static bool is_gone(grpc_status_code status)
{
    return status == GRPC_STATUS_UNAVAILABLE || status == GRPC_STATUS_CANCELLED ||
           status == GRPC_STATUS_DEADLINE_EXCEEDED;
}

static void on_submit_end(void *arg, grpc_status_code status, const char *text)
{
    struct job *j = arg;

    j->call = NULL;
    if (is_gone(status) && !out_of_time(j)) {
        replay_job_set_state(j, BROKEN);
        return;
    }
    if (status != GRPC_STATUS_OK || job_eq(j->id, JOB_NONE)) {
        replay_job_finish(j, REPLAY_REFUSED, *text ? text : "no understandable answer");
        return;
    }
    on_accepted(j);
}

static void submit_to(struct job *j, struct target *t)
{
    static const struct rpc_fns fns = {.reply = on_submitted, .done = on_submit_end};
    const struct api_submit_request request = {.job = j->movable->desc, .key = j->movable->key};

    j->target = t;
    replay_job_set_state(j, SUBMITTING);
    j->call = start_call(j, API_SUBMIT, &request, &fns);
}

void replay_job_submit(struct job *j)
{
    struct run *r = j->run;
    struct job_desc *desc = describe_job(r, j->plan);
    struct target *t = next_target(r, NULL);

    r->submitted++;
    j->movable = movable_job_new(desc, loop_now(r->client->loop));
    job_desc_drop(desc);
    j->result->late_us = loop_now(r->client->loop) - r->start_us - j->plan->at_us;
    submit_to(j, t ? t : &r->targets[r->next_target++ % r->targets_n]);
}

/* --- moving --------------------------------------------------------------------------------------- */

static void on_moved(void *arg, const uint8_t *data, size_t len)
{
    struct job *j = arg;

    j->understood = movable_job_taken(j->movable, data, len);
}

static void on_move_end(void *arg, grpc_status_code status, const char *text)
{
    struct job *j = arg;

    j->call = NULL;
    if (status != GRPC_STATUS_OK) {
        on_stream_broken(j, status, text);
        return;
    }
    j->target = j->to;
    if (!j->understood) {
        replay_job_finish(j, REPLAY_LOST, "it took another job for it: is it of an older version?");
        return;
    }
    on_accepted(j);
}

static void move_to(struct job *j, struct target *to)
{
    static const struct rpc_fns fns = {.reply = on_moved, .done = on_move_end};
    struct api_submit_request request;

    if (movable_job_move(j->movable, loop_now(j->run->client->loop), &request)) {
        replay_job_finish(j, REPLAY_LOST, "it was moved from dist to dist too often");
        return;
    }
    replay_job_set_state(j, MOVING);
    j->to = to;
    j->understood = false;
    j->next_task = 0;
    j->call = start_at(j, to, API_SUBMIT, &request, &fns);
    free(request.resubmit.ended);
}

void replay_job_go_on(struct job *j)
{
    struct run *r = j->run;
    bool accepted = !job_eq(j->id, JOB_NONE);
    struct target *t = !accepted || j->target->down_us ? next_target(r, j->target) : j->target;

    if (!accepted && r->result->interrupted)
        replay_job_finish(j, REPLAY_REFUSED, NULL);
    else if (!t && out_of_time(j))
        replay_job_finish(j, accepted ? REPLAY_LOST : REPLAY_REFUSED, "no dist can be reached");
    else if (!t)
        ; /* until one is back */
    else if (!accepted)
        submit_to(j, t);
    else if (t != j->target)
        move_to(j, t);
    else
        fetch_tasks(j);
}

void replay_job_drop_calls(struct job *j)
{
    if (j->call)
        rpc_cancel(j->call);
    if (j->cancel)
        rpc_cancel(j->cancel);
    j->call = j->cancel = NULL;
    if (j->state == WATCHED)
        j->target->watches--;
}
