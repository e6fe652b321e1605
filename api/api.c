/* The public API: registering methods, decoding requests, and calls that wait for an effect. */
#include "api/internal.h"
#include "base/check.h"
#include "base/mem.h"
#include "net/rpc.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static const api_handler handlers[API_METHOD_COUNT] = {
    [API_SUBMIT] = api_submit,
    [API_WATCH] = api_watch,
    [API_CANCEL] = api_cancel,
    [API_LIST_JOBS] = api_list_jobs,
    [API_GET_JOB] = api_get_job,
    [API_LIST_NODES] = api_list_nodes,
    [API_GET_STATS] = api_get_stats,
    [API_GET_POLICY] = api_get_policy,
    [API_SET_POLICY] = api_set_policy,
    [API_READ_OUTPUT] = api_read_output,
    [API_DRAIN] = api_drain,
    [API_STOP] = api_stop,
    [API_HOLD] = api_hold,
    [API_RERUN] = api_rerun,
    [API_CANCEL_TASKS] = api_cancel_tasks,
};

/* Room for any request's struct. */
union any_request {
    struct api_submit_request submit;
    struct api_watch_request watch;
    struct api_cancel_request cancel;
    struct api_list_jobs_request list_jobs;
    struct api_get_job_request get_job;
    struct api_list_nodes_request list_nodes;
    struct api_get_stats_request get_stats;
    struct api_get_policy_request get_policy;
    struct api_set_policy_request set_policy;
    struct api_read_output_request read_output;
    struct api_drain_request drain;
    struct api_stop_request stop;
    struct api_hold_request hold;
    struct api_rerun_request rerun;
    struct api_cancel_tasks_request cancel_tasks;
};

void api_fail(struct rpc_call *c, int err, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    rpc_fail(c, rpc_err_to_status(err), "%s", text);
}

void api_reply(struct rpc_call *c, enum api_method method, const void *reply)
{
    uint8_t *data;
    size_t len;
    api_encode(api_methods[method].reply, reply, &data, &len);
    rpc_reply(c, data, len);
    free(data);
}

/* ---- Calls that wait for an effect ---- */

static void waiting_cancelled(void *arg, struct rpc_call *c)
{
    /* The role answers all the same, and that answer ends the call: the request was carried out. */
}

struct api_waiting *api_wait_for(struct api *a, struct rpc_call *c)
{
    struct api_waiting *w = xcalloc(1, sizeof *w);
    *w = (struct api_waiting){.client = ++a->next_client, .call = c};
    HASH_ADD(hh, a->waiting, client, sizeof w->client, w);
    rpc_watch(c, waiting_cancelled, NULL, a);
    return w;
}

uint32_t api_wait(struct api *a, struct rpc_call *c) { return api_wait_for(a, c)->client; }

struct api_waiting *api_take(struct api *a, uint32_t client)
{
    struct api_waiting *w;
    HASH_FIND(hh, a->waiting, &client, sizeof client, w);
    if (w)
        HASH_DEL(a->waiting, w);
    return w;
}

void api_waiting_free(struct api_waiting *w)
{
    free(w->nodes);
    free(w);
}

/* As api_take, for a caller that needs only the call. */
static struct rpc_call *take_call(struct api *a, uint32_t client)
{
    struct api_waiting *w = api_take(a, client);
    struct rpc_call *c = w ? w->call : NULL;
    if (w)
        api_waiting_free(w);
    return c;
}

/* Writes which limit the job goes beyond, and what to do. Central does not say which of its limits it was. */
static void full_text(const struct dist *d, char *text, size_t size)
{
    if (d->jobs_unfinished >= d->cfg.jobs_unfinished_max)
        snprintf(text, size,
                 "the job was not accepted: this dist has %u unfinished jobs, its limit (dist.jobs_max): "
                 "wait until some have"
                 " ended, or use another dist",
                 d->jobs_unfinished);
    else
        snprintf(text, size,
                 "the job was not accepted: with it this dist would have more than %u unfinished tasks "
                 "(dist.tasks_max), or more"
                 " than %" PRIu64 " MiB of their descriptions (dist.memory_max), or central, were it long, "
                 "more long ones than it takes, in all or of you "
                 "(central.long_jobs_max, long_tasks_max): wait until some have ended, or use another dist",
                 d->cfg.tasks_unfinished_max, d->cfg.unfinished_bytes_max >> 20);
}

static void draining_text(const struct api *a, char *text, size_t size)
{
    struct central_node v;
    /* The dist of `hawk up` is the only one there, and has a name of its own. */
    if (a->roles.central &&
        central_view_node(a->roles.central, dist_node(a->roles.dist), loop_now(a->loop), &v))
        snprintf(text, size,
                 "the job " API_NOT_ACCEPTED_TEXT ": %s " API_DRAINING_TEXT "; `hawk undrain %s` ends that",
                 v.member.name->data, v.member.name->data);
    else
        snprintf(text, size,
                 "the job " API_NOT_ACCEPTED_TEXT ": dist %s " API_DRAINING_TEXT "; submit to another dist",
                 a->roles.name);
}

void api_refusal(const struct api *a, int err, char *text, size_t size)
{
    if (err == HAWK_ELIMIT)
        full_text(a->roles.dist, text, size);
    else if (err == HAWK_EDRAINING)
        draining_text(a, text, size);
    else if (err == HAWK_EDENIED)
        snprintf(text, size,
                 "the job " API_NOT_ACCEPTED_TEXT
                 ": a job of this id is here under another key: only who submitted it can move it");
    else if (err == HAWK_EINVALID) /* other faults of a request were reported when it was read */
        snprintf(text, size,
                 "the job " API_NOT_ACCEPTED_TEXT
                 ": a job that is moved keeps its number of tasks, and a detached job stays with its dist");
    else if (err == HAWK_ENOT_FOUND)
        snprintf(text, size,
                 "the job " API_NOT_ACCEPTED_TEXT
                 ": a job that it is to run after is not known here any more as one of yours");
    else if (err == HAWK_ESHUTDOWN)
        snprintf(text, size,
                 "the job " API_NOT_ACCEPTED_TEXT ": dist %s is shutting down; submit to another dist",
                 a->roles.name);
    else if (err == HAWK_EWRONG_USER)
        snprintf(
            text, size,
            "the job " API_NOT_ACCEPTED_TEXT
            ": no worker runs your commands: each runs those of one other user alone, since it cannot become "
            "you. Its operator may install hawk-run-as there (not for `hawk up`), or let it run everybody's "
            "as its "
            "own user (worker.run_as: any)");
    else
        snprintf(text, size, "the job " API_NOT_ACCEPTED_TEXT ": %s%s", hawk_strerror(err),
                 err == HAWK_EIO
                     ? " (the journal of this dist cannot be written: look at its disk; jobs that are "
                       "waited for are taken all the same)"
                     : "");
}

static void on_submitted(struct api *a, const struct msg_submitted *m)
{
    struct rpc_call *c = take_call(a, m->client);
    char text[512], id[JOB_ID_TEXT];
    if (!c)
        return;
    if (m->err) {
        api_refusal(a, m->err, text, sizeof text);
        api_fail(c, m->err, "%s", text);
        return;
    }
    const struct dist_job *j = dist_find(a->roles.dist, m->job);
    struct job_view v = {0};
    if (j) {
        dist_job_view(a->roles.dist, j, loop_now(a->loop), &v);
        rpc_audit(c, "submit of job %s, %u tasks, '%s'", job_id_format(id, m->job), v.desc->tasks,
                  v.desc->name->data);
    }
    api_reply(c, API_SUBMIT,
              &(struct api_submit_reply){.job = m->job,
                                         .class = m->class,
                                         .why = m->why,
                                         .state = v.state,
                                         .receipt = api_receipt(a, rpc_caller(c), m->job)});
}

static void on_cancelled_job(struct api *a, const struct msg_cancelled *m)
{
    char id[JOB_ID_TEXT];
    struct rpc_call *c = take_call(a, m->client);
    if (!c)
        return;
    if (m->err == HAWK_EVERSION)
        api_fail(c, m->err,
                 "job %s is central's, and central is of a version that cannot cancel single tasks",
                 job_id_format(id, m->job));
    else if (m->err)
        api_fail(c, m->err, "job %s: %s", job_id_format(id, m->job), hawk_strerror(m->err));
    else
        api_reply(c, API_CANCEL, &(struct api_cancel_reply){.already_ended = false});
}

static void policy_set(struct api *a, const struct msg_policy_set *m)
{
    struct rpc_call *c = take_call(a, m->client);
    if (c && m->err)
        api_fail(c, m->err,
                 m->err == HAWK_EIO ? "the policy is in force, but not in the journal yet: %s (central tries "
                                      "again; look at its disk, and at `hawk policy`)"
                                    : "the policy was not changed: %s",
                 hawk_strerror(m->err));
    else if (c) {
        struct api_policy_text t;
        char line[API_NOTE_BYTES];
        api_policy_view(a->roles.central, loop_now(a->loop), &t);
        api_policy_line(&t.policy, line, sizeof line);
        rpc_audit(c, "policy set, now %s", line);
        api_get_policy(a, c, NULL);
    }
}

bool api_effect(struct api *a, const struct msg *m)
{
    switch (m->type) {
    case MSG_SUBMITTED:
        if (!api_session_submitted(a, &m->submitted))
            on_submitted(a, &m->submitted);
        return true;
    case MSG_CANCELLED:
        on_cancelled_job(a, &m->cancelled);
        return true;
    case MSG_HOLD_SET:
        api_hold_set(a, &m->hold_set);
        return true;
    case MSG_POLICY_SET:
        policy_set(a, &m->policy_set);
        return true;
    case MSG_DRAIN_SET:
        api_drain_set(a, &m->drain_set);
        return true;
    case MSG_TASK_EVENT:
        api_session_task(a, &m->task_event);
        api_watch_task(a, m->task_event.id.job, m->task_event.id.task, task_state_final(m->task_event.state));
        return true;
    case MSG_JOB_EVENT:
        api_session_job(a, &m->job_event);
        api_watch_job(a, m->job_event.job);
        return true;
    case MSG_EXEC_EXITED:
        api_output_run_ended(a);
        return true;
    default:
        return false;
    }
}

/* ---- Requests ---- */

/* A process without a role, such as a central that stands by, serves what every role serves. */
static bool is_served(const struct api *a, enum api_method m)
{
    bool dist = call_may_pass(api_methods[m].path, ROLE_NONE, ROLE_DIST);
    bool central = call_may_pass(api_methods[m].path, ROLE_NONE, ROLE_CENTRAL);
    bool worker = call_may_pass(api_methods[m].path, ROLE_NONE, ROLE_WORKER);

    return (dist && central && worker) || (dist && a->roles.dist) || (central && a->roles.central) ||
           (worker && a->roles.output);
}

static const char *served_by(enum api_method m)
{
    if (m == API_GET_POLICY || m == API_SET_POLICY || m == API_DRAIN)
        return "central";
    return m == API_READ_OUTPUT ? "workers" : "dists";
}

bool api_serves(struct api *a, struct rpc_call *c, enum api_method method)
{
    if (a->standby && method != API_STOP) {
        rpc_fail(c, GRPC_STATUS_UNAVAILABLE, "%s", a->standby);
        return false;
    }
    if (!is_served(a, method)) {
        rpc_fail(c, GRPC_STATUS_UNIMPLEMENTED,
                 "%s is served by %s; this is %s: ask one of those (`hawk nodes` lists them; --dist or "
                 "HAWK_DIST names "
                 "whom clients ask)",
                 api_methods[method].path, served_by(method), a->roles.name);
        return false;
    }
    return true;
}

static void on_call(void *arg, struct rpc_call *c, const uint8_t *data, size_t len, enum api_method method)
{
    struct api *a = arg;
    union any_request request;
    char why[256];
    api_user_audit(a, c, method);
    if (!api_serves(a, c, method))
        return;
    int err = api_decode(api_methods[method].request, data, len, &request, why, sizeof why);
    if (err) {
        api_fail(c, err == HAWK_EMALFORMED ? HAWK_EINVALID : err, "%s: %s", api_methods[method].path, why);
        return;
    }
    CHECK(handlers[method]); /* API_SESSION, whose clients send streams, goes to api_session */
    handlers[method](a, c, &request);
    api_free(api_methods[method].request, &request);
}

/* One entry per method, so that the server's handler knows which method it serves. */
#define X(constant, name, request, reply, streaming)                                                         \
    static void on_##constant(void *arg, struct rpc_call *c, const uint8_t *data, size_t len)                \
    {                                                                                                        \
        on_call(arg, c, data, len, constant);                                                                \
    }
API_METHODS(X)
#undef X

static void (*const entries[])(void *arg, struct rpc_call *c, const uint8_t *data, size_t len) = {
#define X(constant, name, request, reply, streaming) on_##constant,
    API_METHODS(X)
#undef X
};

static void flush_streams(void *arg)
{
    api_watch_flush(arg);
    api_session_flush(arg);
}

struct api *api_new(struct loop *l, struct server *s, const struct api_roles *roles,
                    void (*feed)(void *arg, enum role to, const struct msg *m), void *arg)
{
    struct api *a = xcalloc(1, sizeof *a);
    *a = (struct api){.loop = l, .roles = *roles, .feed = feed, .arg = arg};
    api_users_init(a);
    api_cancels_init(a);
    api_watch_init(a);
    api_session_init(a);
    list_init(&a->tails);
    loop_timer_init(&a->stop_timer, api_stop_due, a);
    for (int i = 0; i < API_METHOD_COUNT; i++)
        if (i != API_SESSION)
            server_handle(s, api_methods[i].path, entries[i], a);
    server_handle_stream(s, api_methods[API_SESSION].path, api_session, a);
    api_health_init(a, s);
    server_limit(s, api_methods[API_WATCH].path, API_WATCHES_MAX);
    for (int i = 0; i < API_METHOD_COUNT; i++)
        if (api_methods[i].streaming)
            server_lasting(s, api_methods[i].path);
    loop_hook_add(l, &a->flush, LOOP_FLUSH, flush_streams, a);
    return a;
}

static void fail_waiting(struct api *a, const char *why)
{
    struct api_waiting *w, *tmp;
    HASH_ITER(hh, a->waiting, w, tmp) {
        HASH_DEL(a->waiting, w);
        api_fail(w->call, HAWK_EUNAVAILABLE, "%s %s", a->roles.name, why);
        api_waiting_free(w);
    }
}

void api_set_central(struct api *a, const struct central *c, const char *standby)
{
    if (a->roles.central != c)
        fail_waiting(a, "is not the active one any more: ask again");
    a->roles.central = c;
    free(a->standby);
    a->standby = standby ? xstrdup(standby) : NULL;
    api_health_changed(a);
}

void api_free_all(struct api *a)
{
    if (!a)
        return;
    loop_hook_remove(&a->flush);
    loop_timer_clear(a->loop, &a->stop_timer);
    fail_waiting(a, "is shutting down, and what was asked of it may or may not be done: look, and ask again");
    api_watch_free(a);
    api_session_free(a);
    api_cancels_free(a);
    api_output_free(a);
    api_health_free(a);
    api_users_free(a);
    free(a->standby);
    free(a);
}
