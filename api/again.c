/* The API's calls about jobs that are held, and about jobs that run again, served where a dist is. */
#include "api/internal.h"
#include "base/entropy.h"
#include "net/submission.h"

/* ---- Holding ---- */

void api_hold(struct api *a, struct rpc_call *c, void *request)
{
    const struct api_hold_request *r = request;
    char id[JOB_ID_TEXT];
    struct job_view v;
    rpc_audit(c, "%s of job %s", r->release ? "release" : "hold", job_id_format(id, r->job));
    if (!a->roles.dist) {
        api_long_hold(a, c, r->job, !r->release);
        return;
    }
    const struct dist_job *j = api_find_own_job(a, c, r->job);
    if (!j)
        return;
    dist_job_view(a->roles.dist, j, loop_now(a->loop), &v);
    if (job_state_final(v.state)) {
        api_reply(c, API_HOLD, &(struct api_hold_reply){.already_ended = true});
        return;
    }
    struct msg m = {.type = MSG_HOLD, .hold = {.job = r->job, .client = api_wait(a, c), .on = !r->release}};
    a->feed(a->arg, ROLE_DIST, &m);
}

void api_hold_set(struct api *a, const struct msg_hold_set *m)
{
    struct api_waiting *w = api_take(a, m->client);
    char id[JOB_ID_TEXT];
    if (!w)
        return;
    if (m->err == HAWK_EVERSION)
        api_fail(w->call, m->err, "job %s is central's, and central is of a version that cannot hold jobs",
                 job_id_format(id, m->job));
    else if (m->err == HAWK_ENOT_FOUND)
        api_reply(w->call, API_HOLD, &(struct api_hold_reply){.already_ended = true}); /* meanwhile */
    else if (m->err)
        api_fail(w->call, m->err, "job %s: %s", job_id_format(id, m->job), hawk_strerror(m->err));
    else
        api_reply(w->call, API_HOLD, &(struct api_hold_reply){.already_ended = false});
    api_watch_job(a, m->job); /* of a job that runs, nothing else tells who waits for it */
    api_waiting_free(w);
}

/* ---- Running again ---- */

/* A description like that of a job that has ended, for a new job, which has a signature of its own. */
static struct job_desc *desc_again(const struct job_desc *of, const struct api_rerun_request *r)
{
    struct job_desc *d = job_desc_copy(of);
    after_free(&d->after);
    for (uint32_t i = 0; i < r->after_n; i++)
        after_add(&d->after, r->after[i], strlen(r->after[i]));
    d->again_of = r->job;
    d->again_key = r->key;
    job_desc_unsign(d);
    d->signature = r->signature_n ? blob_new(r->signature, r->signature_n) : NULL;
    d->flags = (d->flags | JOB_DETACHED) & ~(uint32_t)JOB_SUBMIT_HELD;
    return d;
}

/* The tasks that are done, as the new job takes them over. They name no worker, since their output is the job's that
 * ran them. */
static struct resubmit *done_tasks(const struct dist *d, const struct dist_job *j, const struct job_view *v)
{
    struct resubmit *r = resubmit_new(v->done);
    struct task_view t;
    r->n = 0;
    for (uint32_t i = 0; i < v->desc->tasks && r->n < v->done; i++) {
        dist_task_view(d, j, i, 0, &t);
        if (t.state == TASK_DONE)
            r->v[r->n++] = (struct resubmit_task){.task = i,
                                                  .state = t.state,
                                                  .outcome = t.outcome,
                                                  .code = t.code,
                                                  .attempt = t.attempt,
                                                  .wait_us = -1,
                                                  .run_us = t.run_us,
                                                  .used = t.used};
    }
    return r;
}

/* Why the job cannot run again; NULL: it can. */
static const char *unfit(const struct job_view *v)
{
    if (!job_state_final(v->state))
        return "it has not ended";
    if (v->done == v->desc->tasks)
        return "all its tasks are done, and its environment is forgotten: submit it anew";
    if (v->state == JOB_CANCELLED && v->by_client && v->desc->kind == PAYLOAD_COMMAND && v->desc->env.n == 0)
        return "it was cancelled, and its environment went with that: submit it anew";
    return NULL; /* others keep their environment, also an empty one */
}

static void put_again(struct api *a, struct rpc_call *c, struct job_desc *d, uint64_t key,
                      struct resubmit *done)
{
    a->feed(a->arg, ROLE_DIST,
            &(struct msg){.type = MSG_SUBMIT,
                          .submit = {.desc = d, .key = key, .resubmit = done, .client = api_wait(a, c)}});
}

/* The caller asks again, since the answer was lost. The job that ran first may be forgotten meanwhile. */
static bool is_made(struct api *a, struct rpc_call *c, const struct api_rerun_request *r)
{
    const struct dist_job *j = r->key ? dist_find_key(a->roles.dist, r->key) : NULL;
    struct job_view v;
    if (!j)
        return false;
    dist_job_view(a->roles.dist, j, 0, &v);
    if (!job_eq(v.desc->again_of, r->job) || !api_is_own(rpc_caller(c), v.desc->user->data))
        return false;
    struct job_desc *d = job_desc_copy(v.desc);
    put_again(a, c, d, r->key, NULL);
    job_desc_drop(d);
    return true;
}

void api_rerun(struct api *a, struct rpc_call *c, void *request)
{
    const struct api_rerun_request *r = request;
    struct job_view v;
    char id[JOB_ID_TEXT], why[512];
    rpc_audit(c, "rerun of job %s", job_id_format(id, r->job));
    if (is_made(a, c, r))
        return;
    const struct dist_job *j = api_find_own_job(a, c, r->job);
    if (!j)
        return;
    dist_job_view(a->roles.dist, j, loop_now(a->loop), &v);
    if (!api_is_own(rpc_caller(c), v.desc->user->data)) {
        api_fail(c, HAWK_EDENIED, "job %s is of user %s: only they can run it again",
                 job_id_format(id, r->job), v.desc->user->data);
        return;
    }
    if (unfit(&v)) {
        api_fail(c, HAWK_EBUSY, "job %s cannot run again: %s", job_id_format(id, r->job), unfit(&v));
        return;
    }
    struct job_desc *d = desc_again(v.desc, r);
    int err = after_check(&d->after, why, sizeof why);
    if (!err)
        err = api_may_submit(a, rpc_caller(c), d, false, why, sizeof why);
    if (!err)
        err = api_knows_predecessors(a, d, why, sizeof why);
    if (err) {
        api_fail(c, err, "%s", why);
    } else {
        struct resubmit *done = r->failed && v.done > 0 ? done_tasks(a->roles.dist, j, &v) : NULL;
        put_again(a, c, d, r->key ? r->key : entropy_nonzero(), done);
        resubmit_drop(done);
    }
    job_desc_drop(d);
}
