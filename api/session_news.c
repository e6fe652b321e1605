/* News for a session's client. Events grow here until the stream takes them, within limits for one client
 * and for all. */
#include "api/session_impl.h"
#include "base/mem.h"
#include "net/rpc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void session_audit(struct session *s)
{
    char what[96], answer[32];
    if (s->submitted + s->cancelled + s->refused == 0)
        return;
    snprintf(what, sizeof what, "on a session: submit of %u jobs, cancel of %u", s->submitted, s->cancelled);
    snprintf(answer, sizeof answer, "%u refused", s->refused);
    rpc_audit_now(s->call, what, answer);
    s->submitted = s->cancelled = s->refused = 0;
    s->audit_us = loop_now(s->api->loop);
}

void session_audit_soon(struct session *s)
{
    if (loop_now(s->api->loop) - s->audit_us >= SESSION_AUDIT_US)
        session_audit(s);
}

void session_mark_dirty(struct session *s)
{
    if (!s->soon && !list_empty(&s->in_dirty))
        return;
    s->soon = false;
    list_remove(&s->in_dirty);
    list_push_tail(&s->api->sessions.dirty, &s->in_dirty);
}

static void mark_soon(struct session *s)
{
    struct api *a = s->api;
    if (!list_empty(&s->in_dirty))
        return;
    s->soon = true;
    list_push_tail(&a->sessions.soon, &s->in_dirty);
    if (!loop_timer_is_set(&a->sessions.soon_timer))
        loop_timer_set(a->loop, &a->sessions.soon_timer, loop_event_now(a->loop) + SESSION_SOON_US);
}

void session_on_soon(void *arg)
{
    struct api *a = arg;
    while (!list_empty(&a->sessions.soon))
        session_mark_dirty(container_of(a->sessions.soon.next, struct session, in_dirty));
}

void session_forget_unsent(struct session *s)
{
    while (s->full_first < s->full_n)
        codec_buf_free(&s->full[s->full_first++]);
    s->api->sessions.bytes -= s->bytes;
    s->bytes = 0;
    free(s->full);
    free(s->late);
    codec_buf_free(&s->event);
    s->full = NULL;
    s->late = NULL;
    s->full_first = s->full_n = s->full_cap = s->late_first = s->late_n = s->late_cap = 0;
}

/* Frees all that the session holds. Its stream ends with the next flush. */
static void give_up(struct session *s)
{
    session_forget_unsent(s);
    s->full_up = true;
    session_mark_dirty(s);
}

static void give_up_largest(struct api *a)
{
    struct session *largest = NULL;
    list_foreach(&a->sessions.all, l, next) {
        struct session *s = container_of(l, struct session, in_all);
        if (!largest || s->bytes > largest->bytes)
            largest = s;
    }
    if (largest)
        give_up(largest);
}

static void count_bytes(struct session *s, size_t by)
{
    struct api_sessions *all = &s->api->sessions;
    s->bytes += by;
    all->bytes += by;
    if (s->bytes > SESSION_BYTES_MAX)
        give_up(s);
    else if (all->bytes > SESSIONS_BYTES_MAX)
        give_up_largest(s->api);
}

/* Adds an event's entries to those that wait. */
static void add_event(struct session *s, const struct api_session_event *e)
{
    size_t before = s->event.len;
    if (s->full_up)
        return;
    api_append(&s->event, &api_session_event_type, e);
    before = s->event.len - before;
    if (s->event.len >= SESSION_EVENT_BYTES) {
        vec_grow(s->full, s->full_n, s->full_cap);
        s->full[s->full_n++] = s->event;
        s->event = (struct codec_buf){0};
    }
    count_bytes(s, before);
}

void session_queue_event(struct session *s, const struct api_session_event *e)
{
    session_mark_dirty(s);
    add_event(s, e);
}

bool session_any_late(const struct session *s) { return s->late_first < s->late_n; }

void session_add_late(struct session *s, struct late l)
{
    if (s->full_up)
        return;
    if (s->late_first > s->late_n / 2) { /* so at most one element is moved per element sent */
        s->late_n -= s->late_first;
        memmove(s->late, s->late + s->late_first, s->late_n * sizeof *s->late);
        s->late_first = 0;
    }
    vec_grow(s->late, s->late_n, s->late_cap);
    s->late[s->late_n++] = l;
    session_mark_dirty(s);
    count_bytes(s, sizeof l);
}

void session_tell_refused(struct session *s, uint64_t tag, int err, const char *text)
{
    s->refused++;
    struct api_session_refused r = {.tag = tag, .status = rpc_err_to_status(err), .error = text};
    session_queue_event(s, &(struct api_session_event){.refused = &r, .refused_n = 1});
}

void session_tell_job(struct session_job *j, const struct job_view *v)
{
    struct api_session_job now = {.tag = j->tag,
                                  .job = j->job,
                                  .class = v->class,
                                  .why = v->why,
                                  .at_central = node_eq(v->owner, NODE_CENTRAL),
                                  .epoch = v->epoch,
                                  .receipt = j->told.receipt,
                                  .held = v->held};
    if (j->told.class == now.class && j->told.why == now.why && j->told.at_central == now.at_central &&
        j->told.epoch == now.epoch && j->told.held == now.held && job_eq(j->told.job, now.job))
        return;
    if (!now.receipt)
        now.receipt = api_receipt(j->session->api, rpc_caller(j->session->call), j->job);
    j->told = now;
    mark_soon(j->session);
    add_event(j->session, &(struct api_session_event){.jobs = &now, .jobs_n = 1});
}

static bool has_room(const struct session *s, uint32_t n)
{
    return !session_any_late(s) && s->bytes + n <= SESSION_HOLD_BYTES &&
           s->api->sessions.bytes + n <= SESSIONS_RESULTS_BYTES;
}

void session_queue_task(struct session_job *j, const struct task_view *t)
{
    struct api_session_task out = {.tag = j->tag,
                                   .task = t->task,
                                   .state = t->state,
                                   .outcome = t->outcome,
                                   .code = t->code,
                                   .attempt = t->attempt,
                                   .worker = t->worker.v,
                                   .wait_us = t->wait_us,
                                   .run_us = t->run_us,
                                   .cpu_us = figure_value(t->used.cpu_us),
                                   .mem_peak_bytes = figure_value(t->used.mem_peak_bytes),
                                   .message = t->message ? t->message->data : "",
                                   .result = t->result ? (const uint8_t *)t->result->data : NULL,
                                   .result_n = t->result ? t->result->len : 0,
                                   .result_lost = t->result_lost};
    session_queue_event(j->session, &(struct api_session_event){.tasks = &out, .tasks_n = 1});
}

void session_tell_task(struct session_job *j, const struct task_view *t)
{
    if (!t->result || t->result->len == 0 || has_room(j->session, t->result->len)) {
        session_queue_task(j, t);
        return;
    }
    session_add_late(j->session, (struct late){.job = j,
                                               .task = {.task = t->task,
                                                        .state = t->state,
                                                        .outcome = t->outcome,
                                                        .code = t->code,
                                                        .attempt = t->attempt,
                                                        .worker = t->worker.v,
                                                        .wait_us = t->wait_us,
                                                        .run_us = t->run_us,
                                                        .used = t->used}});
}
