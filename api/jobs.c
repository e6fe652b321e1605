/* The API's calls about jobs, served where a dist is. */
#include "api/internal.h"
#include "base/entropy.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "net/receipt.h"
#include "net/submission.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Makes a number that is too large for the policy's field another one that is refused as well. */
static uint32_t at_most(uint32_t v, uint32_t max) { return v < max ? v : max; }

static int resubmit_from(const struct api_resubmit *from, const struct job_desc *desc, struct resubmit **out,
                         char *why, size_t size)
{
    struct resubmit *r = resubmit_new(from->ended_n);
    r->job = from->job;
    r->age_us = from->age_us;
    r->epoch = (uint16_t)at_most(from->epoch, UINT16_MAX);
    r->long_epoch = (uint16_t)at_most(from->long_epoch, UINT16_MAX);
    r->class = (uint8_t)from->class;
    r->why = (uint8_t)from->why;
    r->held = from->held;
    for (uint32_t i = 0; i < from->ended_n; i++)
        r->v[i] = api_task_ended(&from->ended[i]);
    int err = resubmit_check(r, desc, why, size);
    if (err) {
        resubmit_drop(r);
        return err;
    }
    *out = r;
    return 0;
}

/* A job is its caller's, whatever the client says. Of a caller who is not known, its word is taken. */
static void set_user(struct job_desc *job, const struct caller *who)
{
    if (who->by == CALLER_UNKNOWN)
        return;
    blob_drop(job->user);
    job->user = blob_new(who->name, strlen(who->name));
}

uint64_t api_receipt(const struct api *a, const struct caller *who, job_id_t job)
{
    return who->by == CALLER_UNKNOWN ? 0 : receipt_of(dist_receipts(a->roles.dist), job, who->name);
}

/* Whether it was this caller whom a dist gave the job's id. */
static bool may_move(const struct api *a, const struct caller *who, const struct api_resubmit *from)
{
    const struct receipt_secret *secrets = dist_receipts(a->roles.dist);

    if (who->by == CALLER_UNKNOWN || !receipt_secret_set(secrets))
        return true;
    if (!from->receipt && !dist_receipts_due(a->roles.dist, loop_now(a->loop)))
        return true;
    return receipt_good(secrets, DIST_RECEIPTS, from->receipt, from->job, who->name);
}

/* Whether the job's user has signed it, where that is required. If not, why says what is wrong. */
static bool is_signed(const struct api *a, struct job_desc *job, char *why, size_t size)
{
    struct signed_checker checker;
    char text[SUBMISSION_WHY];
    if (!a->roles.signatures)
        return true;
    tls_checker(a->roles.signatures, &checker);
    if (submission_check(job, &checker, text) == 0)
        return true;
    snprintf(why, size, "this cluster takes signed jobs alone: %s", text);
    return false;
}

int api_may_submit(struct api *a, const struct caller *who, struct job_desc *job, bool moved, char *why,
                   size_t size)
{
    int err = api_user_submits(a, who, job, moved, why, size);

    if (!err && !is_signed(a, job, why, size))
        err = HAWK_EDENIED;
    return err;
}

int api_knows_predecessors(const struct api *a, const struct job_desc *job, char *why, size_t size)
{
    char pred[AFTER_TEXT];
    const struct after *missing = dist_after_missing(a->roles.dist, job);
    if (!missing)
        return 0;
    snprintf(why, size,
             "job %s, which this one is to run after, is not known here as one of yours: it ended too long "
             "ago, never was, or is of another dist (this is node %u)",
             after_format(pred, missing), dist_node(a->roles.dist).v);
    return HAWK_ENOT_FOUND;
}

int api_submit_event(struct api *a, const struct caller *who, struct job_desc *job,
                     const struct api_resubmit *from, uint64_t key, struct msg_submit *m, char *why,
                     size_t size)
{
    /* A job without a key from its client gets one: so nobody can move it. */
    *m = (struct msg_submit){.desc = job, .key = key ? key : entropy()};
    if (!job) {
        snprintf(why, size, "the request has no job");
        return HAWK_EINVALID;
    }
    int err = job_submission_check(job, why, size);
    if (err)
        return err;
    set_user(job, who);
    job->again_key = job->flags & JOB_DETACHED ? key : 0; /* so the dist's journal keeps it */
    if (from->job.v && !key) {
        snprintf(why, size,
                 "resubmit: the job's key is missing: one that was submitted without cannot be moved");
        return HAWK_EINVALID;
    }
    if (from->job.v && !may_move(a, who, from)) {
        snprintf(why, size,
                 "resubmit: the receipt of the job's id is missing, or is not yours: a client moves its own "
                 "jobs alone (one of an earlier version moves none)");
        return HAWK_EDENIED;
    }
    /* may_move() has seen that the receipt is good. */
    err = api_may_submit(a, who, job, from->job.v && from->receipt, why, size);
    if (!err)
        err = api_knows_predecessors(a, job, why, size);
    if (err)
        return err;
    return from->job.v ? resubmit_from(from, job, &m->resubmit, why, size) : 0;
}

void api_submit(struct api *a, struct rpc_call *c, void *request)
{
    struct api_submit_request *r = request;
    struct msg m = {.type = MSG_SUBMIT};
    char why[512];
    if (r->job)
        rpc_audit(c, "submit of %u tasks, '%s'", r->job->tasks, r->job->name->data);
    int err = api_submit_event(a, rpc_caller(c), r->job, &r->resubmit, r->key, &m.submit, why, sizeof why);
    if (err) {
        api_fail(c, err, "%s", why);
        return;
    }
    m.submit.client = api_wait(a, c);
    a->feed(a->arg, ROLE_DIST, &m);
    resubmit_drop(m.submit.resubmit);
}

/* A job of this dist's, or NULL after failing the call. */
static const struct dist_job *api_find_job(struct api *a, struct rpc_call *c, job_id_t id)
{
    char text[JOB_ID_TEXT];
    const struct dist_job *j = dist_find(a->roles.dist, id);
    if (j)
        return j;
    job_id_format(text, id);
    if (id.v == 0)
        api_fail(c, HAWK_EINVALID, "the request names no job");
    else if (job_id_node(id).v == dist_node(a->roles.dist).v)
        api_fail(c, HAWK_ENOT_FOUND,
                 "no job %s here: it never was, or it ended and made room for others (dist.finished_kept, "
                 "finished_tasks, finished_memory, finished_keep), or %s",
                 text,
                 a->roles.central ? "an earlier `hawk up` had it"
                                  : "its client waited for it when this dist was started anew");
    else
        api_fail(c, HAWK_ENOT_FOUND,
                 "no job %s here: the dist that is node %u would have it, and `hawk nodes` says whether that "
                 "is up; this is node %u",
                 text, job_id_node(id).v, dist_node(a->roles.dist).v);
    return NULL;
}

bool api_is_own(const struct caller *who, const char *user)
{
    return who->by == CALLER_UNKNOWN || (*user && strcmp(who->name, user) == 0);
}

static bool may_touch(const struct caller *who, const char *user)
{
    return caller_may(who, SCOPE_OPERATE) || api_is_own(who, user);
}

void api_hide_from_others(const struct api *a, const struct rpc_call *c, struct api_job *job)
{
    if (!a->roles.show_names && !may_touch(rpc_caller(c), job->user))
        job->name = ""; /* by default it is the command's */
}

bool api_may_touch(struct rpc_call *c, job_id_t job, const char *user)
{
    const struct caller *who = rpc_caller(c);
    char name[CALLER_TEXT], id[JOB_ID_TEXT];
    if (may_touch(who, user))
        return true;
    api_fail(c, HAWK_EDENIED, "you are %s: job %s is %s%s, and others need scope operate for this",
             caller_text(who, name), job_id_format(id, job),
             *user ? "of user " : "nobody's that is known here", user);
    return false;
}

const struct dist_job *api_find_own_job(struct api *a, struct rpc_call *c, job_id_t id)
{
    const struct dist_job *j = api_find_job(a, c, id);
    struct job_view v;
    if (!j)
        return NULL;
    dist_job_view(a->roles.dist, j, 0, &v);
    return api_may_touch(c, id, v.desc->user->data) ? j : NULL;
}

void api_cancel(struct api *a, struct rpc_call *c, void *request)
{
    const struct api_cancel_request *r = request;
    char id[JOB_ID_TEXT];
    rpc_audit(c, "cancel of job %s", job_id_format(id, r->job));
    if (!a->roles.dist) {
        api_long_cancel(a, c, r->job);
        return;
    }
    const struct dist_job *j = api_find_own_job(a, c, r->job);
    struct job_view v;
    if (!j)
        return;
    dist_job_view(a->roles.dist, j, loop_now(a->loop), &v);
    if (job_state_final(v.state)) {
        api_reply(c, API_CANCEL, &(struct api_cancel_reply){.already_ended = true});
        return;
    }
    api_cancel_for(a, c, r->job, v.desc->tasks, NULL);
}

/* The tasks that the request names. NULL, and why: the list is wrong. */
static struct task_set *tasks_named(const struct api_cancel_tasks_request *r, uint32_t tasks, char *why,
                                    size_t size)
{
    uint64_t n = 0, next = 0;
    for (uint32_t i = 0; i < r->tasks_n; i++) {
        const struct api_task_range *range = &r->tasks[i];
        if (range->first < next || range->last < range->first) {
            snprintf(why, size, "tasks are named in ascending order, each once");
            return NULL;
        }
        if (range->last >= tasks) {
            snprintf(why, size, "it has tasks 0 to %u, and no task %u", tasks - 1, range->last);
            return NULL;
        }
        next = (uint64_t)range->last + 1;
        n += next - range->first;
    }
    if (n == 0) {
        snprintf(why, size, "no task is named");
        return NULL;
    }
    struct task_set *s = task_set_new((uint32_t)n);
    s->n = 0;
    for (uint32_t i = 0; i < r->tasks_n; i++)
        for (uint32_t t = r->tasks[i].first; t <= r->tasks[i].last; t++)
            s->v[s->n++] = t;
    return s;
}

static bool any_unfinished(const struct api *a, const struct dist_job *j, const struct task_set *s)
{
    struct task_view t;
    for (uint32_t i = 0; i < s->n; i++) {
        dist_task_view(a->roles.dist, j, s->v[i], 0, &t);
        if (!task_state_final(t.state))
            return true;
    }
    return false;
}

void api_cancel_tasks(struct api *a, struct rpc_call *c, void *request)
{
    const struct api_cancel_tasks_request *r = request;
    char id[JOB_ID_TEXT], why[128];
    struct job_view v;
    rpc_audit(c, "cancel of tasks of job %s", job_id_format(id, r->job));
    const struct dist_job *j = api_find_own_job(a, c, r->job);
    if (!j)
        return;
    dist_job_view(a->roles.dist, j, loop_now(a->loop), &v);
    struct task_set *s = tasks_named(r, v.desc->tasks, why, sizeof why);
    if (!s) {
        api_fail(c, HAWK_EINVALID, "job %s: %s", id, why);
        return;
    }
    if (any_unfinished(a, j, s)) {
        api_cancel_for(a, c, r->job, s->n, s);
        return;
    }
    api_reply(c, API_CANCEL, &(struct api_cancel_reply){.already_ended = true});
    task_set_drop(s);
}

/* ---- Filling replies ---- */

static const char *node_name(const struct api *a, node_id_t node)
{
    if (node.v == 0)
        return "";
    if (node.v == NODE_CENTRAL.v)
        return "central";
    const struct member *m = dist_next_member(a->roles.dist, (node_id_t){node.v - 1});
    return m && m->node.v == node.v && m->name ? m->name->data : "";
}

void api_job_fill(const struct api *a, const struct dist_job *j, struct api_job *out)
{
    struct job_view v;
    dist_job_view(a->roles.dist, j, loop_now(a->loop), &v);
    api_job_from_view(out, &v);
}

void api_task_fill(const struct api *a, const struct dist_job *j, uint32_t task, bool result,
                   struct api_task *out)
{
    struct task_view v;
    dist_task_view(a->roles.dist, j, task, loop_event_now(a->loop), &v);
    api_task_from_view(out, &v, node_name(a, v.worker));
    if (result && v.result) {
        out->result = (const uint8_t *)v.result->data;
        out->result_n = v.result->len;
    }
}

void api_list_jobs(struct api *a, struct rpc_call *c, void *request)
{
    const struct api_list_jobs_request *r = request;
    if (!a->roles.dist) {
        api_long_list(a, c, r);
        return;
    }
    uint32_t limit = r->limit ? r->limit : API_JOBS_DEFAULT;
    if (limit > API_PAGE_MAX)
        limit = API_PAGE_MAX;
    const struct dist_job *j = dist_newest(a->roles.dist);
    if (r->before.v) {
        const struct dist_job *before = api_find_job(a, c, r->before);
        if (!before)
            return;
        j = dist_older(a->roles.dist, before);
    }
    struct api_list_jobs_reply reply = {.you = rpc_caller(c)->name};
    uint32_t cap = 0;
    for (; j; j = dist_older(a->roles.dist, j)) {
        struct api_job job;
        api_job_fill(a, j, &job);
        job.waits = dist_block_word(dist_blocked(a->roles.dist, j, &(uint32_t){0}));
        if (r->unfinished_only && job_state_final(job.state))
            continue;
        if (reply.jobs_n == limit) {
            reply.more = true;
            break;
        }
        vec_grow(reply.jobs, reply.jobs_n, cap);
        api_hide_from_others(a, c, &job);
        reply.jobs[reply.jobs_n++] = job;
    }
    api_reply(c, API_LIST_JOBS, &reply);
    free(reply.jobs);
}

static void fill_reservations(const struct api *a, const struct dist_job *j, struct api_get_job_reply *reply)
{
    const void *cursor = NULL;
    struct reservation_view v;
    uint32_t cap = 0;
    while (reply->reservations_n < API_PAGE_MAX && dist_next_reservation(a->roles.dist, j, &cursor, &v)) {
        vec_grow(reply->reservations, reply->reservations_n, cap);
        reply->reservations[reply->reservations_n++] = (struct api_reservation){
            .worker = v.worker.v, .worker_name = node_name(a, v.worker), .count = v.count};
    }
}

#define INPUT_BYTES_MAX 1024u

/* Borrowed from the description. */
static void fill_input(const struct job_desc *d, struct api_task *t)
{
    uint32_t len = t->task < d->args.n ? d->args.off[t->task + 1] - d->args.off[t->task] : 0;
    t->input = (const uint8_t *)d->args.data + (len ? d->args.off[t->task] : 0);
    t->input_n = len <= INPUT_BYTES_MAX ? len : (uint32_t)utf8_whole(t->input, INPUT_BYTES_MAX);
}

static bool is_held(const struct api *a, job_id_t job)
{
    const struct dist_job *j = dist_find(a->roles.dist, job);
    struct job_view v = {0};
    if (j)
        dist_job_view(a->roles.dist, j, loop_now(a->loop), &v);
    return v.held;
}

static void list_predecessors(const struct api *a, const struct dist_job *j, char *buf, size_t size)
{
    char text[AFTER_TEXT], held[LIMIT_AFTER * (JOB_ID_TEXT + 1)] = "";
    const struct after *p;
    uint32_t n = 0;
    size_t at = (size_t)snprintf(buf, size, "waits for the end of"), held_at = 0;
    for (uint32_t i = 0; (p = dist_next_predecessor(j, &i)) && at < size; n++) {
        at += (size_t)snprintf(buf + at, size - at, " %s", after_format(text, p));
        if (is_held(a, p->job))
            held_at +=
                (size_t)snprintf(held + held_at, sizeof held - held_at, " %s", job_id_format(text, p->job));
    }
    if (held_at && at < size)
        snprintf(buf + at, size - at, "%s: `hawk release%s`", n == 1 ? ", which is held" : "; some are held",
                 held);
}

static void fill_blocked(const struct api *a, const struct dist_job *j, const struct job_desc *d, char *buf,
                         size_t size)
{
    uint32_t n = 0;
    enum dist_block b = dist_blocked(a->roles.dist, j, &n);
    const char *what = b == DIST_BLOCK_PROBES ? "worker" : "task";
    int64_t left_us = dist_unreported_us(j, loop_now(a->loop));
    char left[32];
    buf[0] = 0;
    if (b == DIST_BLOCK_PLACEMENT && left_us > 0)
        snprintf(
            buf, size,
            "no worker has reported them since central started, and one that central does not hear may run "
            "them: they are placed in %s, when central.long_lease is over (%u task%s)",
            duration_format(left, sizeof left, (left_us + US_PER_S - 1) / US_PER_S * US_PER_S), n,
            n == 1 ? "" : "s");
    else if (b == DIST_BLOCK_AFTER)
        list_predecessors(a, j, buf, size);
    else if (b == DIST_BLOCK_APP)
        snprintf(buf, size, "no worker serves application %.*s%s%.*s: start an executor of it (%u task%s)",
                 (int)LIMIT_NAME_BYTES, d->app->data, d->user->len > 0 ? " for user " : "",
                 (int)LIMIT_NAME_BYTES, d->user->data, n, n == 1 ? "" : "s");
    else if (b != DIST_BLOCK_NOTHING && n)
        snprintf(buf, size, "%s (%u %s%s)", dist_block_text(b), n, what, n == 1 ? "" : "s");
    else if (b != DIST_BLOCK_NOTHING)
        snprintf(buf, size, "%s", dist_block_text(b));
}

void api_get_job(struct api *a, struct rpc_call *c, void *request)
{
    const struct api_get_job_request *r = request;
    if (!a->roles.dist) {
        api_long_get(a, c, r);
        return;
    }
    const struct dist_job *j = api_find_own_job(a, c, r->job);
    if (!j)
        return;
    struct api_get_job_reply reply = {0};
    struct job_view v;
    char blocked[2 * LIMIT_NAME_BYTES + 256];
    dist_job_view(a->roles.dist, j, loop_now(a->loop), &v);
    api_job_from_view(&reply.job, &v);
    reply.job.waits = dist_block_word(dist_blocked(a->roles.dist, j, &(uint32_t){0}));
    uint32_t max = r->max_tasks < API_PAGE_MAX ? r->max_tasks : API_PAGE_MAX;
    uint32_t first = r->first_task < v.desc->tasks ? r->first_task : v.desc->tasks;
    uint32_t n = v.desc->tasks - first < max ? v.desc->tasks - first : max;
    reply.tasks = n ? xcalloc(n, sizeof *reply.tasks) : NULL;
    for (size_t bytes = 0; reply.tasks_n < n; reply.tasks_n++) {
        struct api_task *t = &reply.tasks[reply.tasks_n];
        api_task_fill(a, j, first + reply.tasks_n, r->results, t);
        fill_input(v.desc, t);
        bytes += t->result_n + t->input_n;
        if (bytes > API_PAGE_BYTES && reply.tasks_n > 0)
            break;
    }
    fill_reservations(a, j, &reply);
    fill_blocked(a, j, v.desc, blocked, sizeof blocked);
    reply.blocked = blocked;
    struct job_desc spec = api_public_spec(v.desc);
    if (r->spec)
        reply.spec = &spec;
    if (r->signature && v.desc->signature && strcmp(v.desc->user->data, rpc_caller(c)->name) == 0) {
        reply.signature = (const uint8_t *)v.desc->signature->data;
        reply.signature_n = v.desc->signature->len;
    }
    api_reply(c, API_GET_JOB, &reply);
    free(reply.tasks);
    free(reply.reservations);
}
