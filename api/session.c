/* Sessions: many jobs on one stream (protos/hawk.proto). News for a client is encoded as it happens, and
 * leaves as one event when the event before has left. Results for which there is no room here stay with
 * the dist until they can leave. So a client costs at most SESSION_HOLD_BYTES of results, however slow it
 * is and however much its jobs have returned. */
#include "api/session_impl.h"
#include "base/mem.h"
#include "net/rpc.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Jobs ---- */

static struct session_job *jobs_of(struct api *a, job_id_t job)
{
    struct session_job *j;
    HASH_FIND(hh_job, a->sessions.accepted, &job, sizeof job, j);
    return j;
}

static void accepted_add(struct session_job *j)
{
    struct api *a = j->session->api;
    struct session_job *first = jobs_of(a, j->job);
    j->accepted = true;
    if (first) {
        j->next = first->next;
        first->next = j;
    } else {
        HASH_ADD(hh_job, a->sessions.accepted, job, sizeof j->job, j);
    }
}

static void accepted_remove(struct session_job *j)
{
    struct api *a = j->session->api;
    struct session_job *first = jobs_of(a, j->job);
    if (first == j) {
        HASH_DELETE(hh_job, a->sessions.accepted, j);
        if (j->next)
            HASH_ADD(hh_job, a->sessions.accepted, job, sizeof j->job, j->next);
        return;
    }
    while (first->next != j)
        first = first->next;
    first->next = j->next;
}

static void job_free(struct session_job *j)
{
    struct session *s = j->session;
    list_remove(&j->cancelling.in_queue);
    if (j->accepted)
        accepted_remove(j);
    else
        HASH_DELETE(hh_job, s->api->sessions.asked, j); /* NOLINT(clang-analyzer-core.NullDereference) */
    HASH_DEL(s->jobs, j); /* NOLINT(clang-analyzer-core.NullDereference): inside uthash */
    free(j);
    if (s->all_sent && !s->jobs)
        session_mark_dirty(s);
}

/* Sends the job's end. All its other news was sent before. */
static void tell_end(struct session_job *j, uint32_t state, bool abandoned)
{
    struct api_session_end e = {.tag = j->tag, .state = state, .abandoned = abandoned};
    session_queue_event(j->session, &(struct api_session_event){.ends = &e, .ends_n = 1});
    job_free(j);
}

static void job_ended(struct session_job *j, uint32_t state, bool abandoned)
{
    /* Unwatch it now, and not when its client has read that: another job may have this id by then. */
    api_feed_unwatch(j->session->api, j->job);
    list_remove(&j->cancelling.in_queue);
    if (!session_any_late(j->session)) {
        tell_end(j, state, abandoned);
        return;
    }
    j->over = true;
    session_add_late(
        j->session,
        (struct late){.job = j, .task.state = (uint8_t)state, .end = true, .abandoned = abandoned});
}

static void tell_late_task(struct session_job *j, const struct resubmit_task *l)
{
    const struct dist *d = j->session->api->roles.dist;
    const struct dist_job *of = dist_find(d, j->job);
    struct job_view job = {0};
    struct task_view v = {0};
    if (of)
        dist_job_view(d, of, 0, &job);
    if (of && job.desc->tasks == j->tasks) /* else it is another job with this id */
        dist_task_view(d, of, l->task, 0, &v);
    /* Each had a result: without one the dist has forgotten the job since. */
    session_queue_task(j, &(struct task_view){.task = l->task,
                                              .state = l->state,
                                              .outcome = l->outcome,
                                              .code = l->code,
                                              .attempt = l->attempt,
                                              .worker.v = l->worker,
                                              .wait_us = l->wait_us,
                                              .run_us = l->run_us,
                                              .used = l->used,
                                              .result = v.result,
                                              .result_lost = !v.result});
}

/* Sends late ends, as many as make one event. */
static void tell_late(struct session *s)
{
    while (session_any_late(s) && s->full_first == s->full_n && s->event.len < SESSION_EVENT_BYTES) {
        struct late l = s->late[s->late_first++];
        s->bytes -= sizeof l;
        s->api->sessions.bytes -= sizeof l;
        if (l.end)
            tell_end(l.job, l.task.state, l.abandoned);
        else
            tell_late_task(l.job, &l.task);
    }
}

/* The job existed before it was submitted here: sends the tasks that had ended. */
static void tell_ended(struct session_job *j, const struct dist_job *of, const struct job_view *v)
{
    const struct dist *d = j->session->api->roles.dist;
    struct task_view t;
    if (v->done + v->failed + v->cancelled + v->lost == 0)
        return;
    for (uint32_t i = 0; i < v->desc->tasks; i++) {
        dist_task_view(d, of, i, 0, &t);
        if (task_state_final(t.state))
            session_tell_task(j, &t);
    }
}

static void cancel_soon(struct session_job *j)
{
    struct session *s = j->session;
    if (j->over || !list_empty(&j->cancelling.in_queue))
        return;
    j->cancelling.job = j->job;
    j->cancelling.tasks = j->tasks;
    api_cancel_soon(s->api, rpc_caller(s->call), &j->cancelling);
}

/* ---- What the dist says ---- */

bool api_session_submitted(struct api *a, const struct msg_submitted *m)
{
    struct session_job *j;
    struct job_view v;
    char text[512];
    HASH_FIND(hh_job, a->sessions.asked, &m->client, sizeof m->client, j);
    if (!j)
        return false;
    const struct dist_job *of = m->err ? NULL : dist_find(a->roles.dist, m->job);
    if (!of) {
        int err = m->err ? m->err : HAWK_ENOT_FOUND;
        api_refusal(a, err, text, sizeof text);
        session_tell_refused(j->session, j->tag, err, text);
        job_free(j);
        return true;
    }
    HASH_DELETE(hh_job, a->sessions.asked, j);
    j->job = m->job;
    accepted_add(j);
    dist_job_view(a->roles.dist, of, loop_now(a->loop), &v);
    j->tasks = v.desc->tasks;
    session_tell_job(j, &v);
    tell_ended(j, of, &v);
    if (job_state_final(v.state))
        job_ended(j, v.state, v.abandoned);
    else if (j->cancel)
        cancel_soon(j);
    return true;
}

void api_session_task(struct api *a, const struct msg_task_event *m)
{
    struct session_job *j = task_state_final(m->state) ? jobs_of(a, m->id.job) : NULL;
    const struct dist_job *of = j ? dist_find(a->roles.dist, m->id.job) : NULL;
    bool ran = m->state == TASK_DONE || m->state == TASK_FAILED || m->wait_us > 0;
    struct task_view t = {0};
    if (of)
        dist_task_view(a->roles.dist, of, m->id.task, 0, &t);
    t.task = m->id.task;
    t.state = m->state;
    t.outcome = m->outcome;
    t.code = m->code;
    t.attempt = m->id.attempt;
    t.worker = m->worker;
    t.wait_us = ran ? m->wait_us : -1;
    t.run_us = m->run_us;
    for (; j; j = j->next)
        if (!j->over) /* the job was brought here after its end; nothing may follow its end */
            session_tell_task(j, &t);
}

void api_session_job(struct api *a, const struct msg_job_event *m)
{
    struct session_job *j = jobs_of(a, m->job), *next;
    const struct dist_job *of = j ? dist_find(a->roles.dist, m->job) : NULL;
    struct job_view v = {0};
    if (of)
        dist_job_view(a->roles.dist, of, loop_now(a->loop), &v);
    for (; j; j = next) {
        next = j->next;
        if (j->over)
            continue;
        if (of)
            session_tell_job(j, &v);
        if (job_state_final(m->state))
            job_ended(j, m->state, v.abandoned);
    }
}

/* ---- The stream ---- */

/* Frees the session. Its jobs go on until a client watches them again or their time is over. */
static void session_free(struct session *s)
{
    struct api *a = s->api;
    struct session_job *j;
    s->all_sent = false;
    while ((j = s->jobs)) {
        job_id_t job = j->accepted && !j->over ? j->job : JOB_NONE;
        bool cancel = !list_empty(&j->cancelling.in_queue);
        job_free(j);
        if (cancel)
            a->feed(a->arg, ROLE_DIST, &(struct msg){.type = MSG_CANCEL, .cancel.job = job});
        if (job.v)
            api_feed_unwatch(a, job);
    }
    session_forget_unsent(s);
    list_remove(&s->in_all);
    list_remove(&s->in_dirty);
    free(s);
}

static void on_cancelled(void *arg, struct rpc_call *c)
{
    session_audit(arg);
    rpc_finish(c);
    session_free(arg);
}

static void on_writable(void *arg, struct rpc_call *c) { session_mark_dirty(arg); }

static void hold_session(struct session *s)
{
    bool hold = s->bytes > SESSION_HOLD_BYTES || session_any_late(s);
    if (s->held == hold)
        return;
    s->held = hold;
    rpc_hold(s->call, hold);
}

/* Sends the oldest event; false: not now. */
static bool send_one(struct session *s)
{
    bool queued = s->full_first < s->full_n;
    struct codec_buf *b = queued ? &s->full[s->full_first] : &s->event;
    if (rpc_send(s->call, b->data, b->len))
        return false; /* `cancelled` comes */
    s->sent_us = loop_now(s->api->loop);
    s->bytes -= b->len;
    s->api->sessions.bytes -= b->len;
    if (queued) {
        codec_buf_free(b);
        if (++s->full_first == s->full_n)
            s->full_first = s->full_n = 0;
    } else {
        b->len = 0;
    }
    return true;
}

/* Sends the waiting events. While one is on its way, rpc_idle asks for `writable`. */
static void send_event(struct session *s)
{
    do
        tell_late(s);
    while (s->bytes > 0 && rpc_idle(s->call) && send_one(s));
}

static void flush_session(struct session *s)
{
    if (s->full_up) {
        session_audit(s);
        api_fail(s->call, HAWK_ELIMIT,
                 "the client has not read %u MiB of what became of its jobs, the limit, or most of %u MiB "
                 "that all clients of this dist have not read: read faster, or submit less at a time",
                 SESSION_BYTES_MAX >> 20, SESSIONS_BYTES_MAX >> 20);
        session_free(s);
        return;
    }
    send_event(s);
    hold_session(s);
    if (s->all_sent && !s->jobs && s->bytes == 0 && !s->full_up) {
        session_audit(s);
        rpc_finish(s->call);
        session_free(s);
    }
}

void api_session_flush(struct api *a)
{
    while (!list_empty(&a->sessions.dirty)) {
        struct session *s = container_of(a->sessions.dirty.next, struct session, in_dirty);
        list_remove(&s->in_dirty);
        flush_session(s);
    }
}

/* ---- What clients ask for ---- */

static struct session_job *job_by_tag(const struct session *s, uint64_t tag)
{
    struct session_job *j;
    HASH_FIND(hh, s->jobs, &tag, sizeof tag, j);
    return j;
}

static void submit_job(struct session *s, const struct api_session_submit *r)
{
    struct api *a = s->api;
    struct msg m = {.type = MSG_SUBMIT};
    struct job_desc *desc = NULL;
    char why[512];
    int err = codec_desc_decode(r->job, r->job_n, true, &desc, why, sizeof why);
    if (!err)
        err =
            api_submit_event(a, rpc_caller(s->call), desc, &r->resubmit, r->key, &m.submit, why, sizeof why);
    if (err) {
        session_tell_refused(s, r->tag, err == HAWK_EMALFORMED ? HAWK_EINVALID : err, why);
        job_desc_drop(desc);
        return;
    }
    struct session_job *j = xcalloc(1, sizeof *j);
    *j = (struct session_job){.session = s, .tag = r->tag, .client = ++a->next_client};
    list_init(&j->cancelling.in_queue);
    HASH_ADD(hh, s->jobs, tag, sizeof j->tag, j);
    HASH_ADD(hh_job, a->sessions.asked, client, sizeof j->client, j);
    m.submit.client = j->client;
    m.submit.watch = true;
    a->feed(a->arg, ROLE_DIST, &m);
    resubmit_drop(m.submit.resubmit);
    job_desc_drop(desc);
}

static void cancel_job(struct session *s, uint64_t tag)
{
    struct session_job *j = job_by_tag(s, tag);
    if (!j)
        return; /* it has ended */
    if (j->accepted)
        cancel_soon(j);
    else
        j->cancel = true;
}

/* Carries out a message's requests; an error ends the stream. */
static int take_request(struct session *s, const struct api_session_request *r, char *why, size_t size)
{
    if (r->submit_n > API_SESSION_SUBMITS_MAX) {
        snprintf(why, size, "%u submissions in one message, the limit is %u", r->submit_n,
                 API_SESSION_SUBMITS_MAX);
        return HAWK_EINVALID;
    }
    if (r->beats && !s->beats) {
        s->beats = true;
        session_queue_event(s, &(struct api_session_event){.beat_us = API_BEAT_US});
    }
    for (uint32_t i = 0; i < r->submit_n; i++) {
        if (job_by_tag(s, r->submit[i].tag)) {
            snprintf(why, size, "tag %" PRIu64 " is that of a job which has not ended: choose another",
                     r->submit[i].tag);
            return HAWK_EINVALID;
        }
        submit_job(s, &r->submit[i]);
    }
    for (uint32_t i = 0; i < r->cancel_n; i++)
        cancel_job(s, r->cancel[i].tag);
    s->submitted += r->submit_n;
    s->cancelled += r->cancel_n;
    session_audit_soon(s);
    return 0;
}

static void on_message(void *arg, struct rpc_call *c, const uint8_t *data, size_t len)
{
    struct session *s = arg;
    struct api_session_request r;
    char why[256];
    if (!data) {
        s->all_sent = true;
        session_mark_dirty(s);
        return;
    }
    int err = api_decode(&api_session_request_type, data, len, &r, why, sizeof why);
    if (!err) {
        err = take_request(s, &r, why, sizeof why);
        api_free(&api_session_request_type, &r);
    }
    if (!err)
        return;
    session_audit(s);
    api_fail(c, err == HAWK_EMALFORMED ? HAWK_EINVALID : err, "%s: %s", api_methods[API_SESSION].path, why);
    session_free(s);
}

void api_session(void *api, struct rpc_call *c)
{
    struct api *a = api;
    if (!api_serves(a, c, API_SESSION))
        return;
    struct session *s = xcalloc(1, sizeof *s);
    *s = (struct session){.api = a, .call = c};
    list_init(&s->in_dirty);
    list_push_tail(&a->sessions.all, &s->in_all);
    rpc_watch(c, on_cancelled, on_writable, s);
    rpc_receive(c, on_message, s);
    if (!loop_timer_is_set(&a->sessions.beat_timer))
        loop_timer_set(a->loop, &a->sessions.beat_timer, loop_now(a->loop) + API_BEAT_US);
}

/* A client that does not read learns from gRPC's own pings whether we are there. */
static void on_beat(void *arg)
{
    struct api *a = arg;
    int64_t now = loop_now(a->loop);
    list_foreach(&a->sessions.all, l, next) {
        struct session *s = container_of(l, struct session, in_all);
        session_audit_soon(s);
        if (s->beats && s->bytes == 0 && now - s->sent_us >= API_BEAT_US / 2)
            session_queue_event(s, &(struct api_session_event){.beat_us = API_BEAT_US});
    }
    if (!list_empty(&a->sessions.all))
        loop_timer_set(a->loop, &a->sessions.beat_timer, now + API_BEAT_US);
}

void api_session_init(struct api *a)
{
    list_init(&a->sessions.all);
    list_init(&a->sessions.dirty);
    list_init(&a->sessions.soon);
    loop_timer_init(&a->sessions.soon_timer, session_on_soon, a);
    loop_timer_init(&a->sessions.beat_timer, on_beat, a);
}

void api_session_free(struct api *a)
{
    loop_timer_clear(a->loop, &a->sessions.beat_timer);
    loop_timer_clear(a->loop, &a->sessions.soon_timer);
    list_foreach(&a->sessions.all, l, next) {
        struct session *s = container_of(l, struct session, in_all);
        send_event(s); /* sends the known news if possible */
        session_audit(s);
        api_fail(s->call, HAWK_EUNAVAILABLE, "%s " API_GOING_TEXT, a->roles.name);
        session_free(s);
    }
}
