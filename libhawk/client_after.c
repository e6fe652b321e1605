/* Jobs with predecessors, jobs that are held, and jobs that run again. */
#include "libhawk/client_impl.h"

#include "base/check.h"
#include "base/entropy.h"
#include "net/submission.h"
#include "net/tls.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define AGAIN_PAUSE_US (200 * US_PER_MS) /* between two attempts */

/* Adds to that error that the job may have been accepted, and returns err. */
static int fail_unsure(struct client *client, int err)
{
    size_t met = strnlen(client->error, 400);

    snprintf(
        client->error + met, sizeof client->error - met,
        "; whether it accepted the job is not known: look for it (`hawk jobs`) before you submit it again");
    return err;
}

int client_submit_again(struct client *client, int err, struct channel *at,
                        const struct api_submit_request *request, struct api_submit_reply *reply,
                        int64_t until_us)
{
    grpc_status_code status;

    do {
        if (!(request->job->flags & JOB_DETACHED) || loop_now(client->loop) >= until_us)
            return fail_unsure(client, err);
        client_pause(client, AGAIN_PAUSE_US);
        err = client_call(client, at, API_SUBMIT, request, reply, &status);
    } while (client_is_away(err));
    return err;
}

int client_submit_after(struct client *client, const struct api_submit_request *request,
                        struct api_submit_reply *reply, struct channel **at)
{
    const struct after_list *l = &request->job->after;
    char one[JOB_ID_TEXT], other[JOB_ID_TEXT];
    grpc_status_code status;
    int64_t until_us = loop_now(client->loop) + client->timeout_us;
    int err = client_refresh_nodes(client, client->timeout_us);

    for (uint32_t i = 1; i < l->n; i++)
        if (!node_eq(job_id_node(l->v[i].job), job_id_node(l->v[0].job)))
            return client_fail(client, HAWK_EINVALID,
                               "jobs %s and %s are at two dists: a job runs after jobs of one dist",
                               job_id_format(one, l->v[0].job), job_id_format(other, l->v[i].job));
    if (err)
        return err;
    err = client_node_channel(client, ROLE_DIST, job_id_node(l->v[0].job), at);
    if (!err)
        err = client_sign(client, &request->job, 1);
    if (err)
        return err;
    err = client_call(client, *at, API_SUBMIT, request, reply, &status);
    if (!client_is_away(err) || client->untouched)
        return err;
    return client_submit_again(client, err, *at, request, reply, until_us);
}

int client_cancel_tasks(struct client *client, job_id_t job, struct api_task_range *tasks, uint32_t n,
                        bool *already_ended)
{
    const struct api_cancel_tasks_request request = {.job = job, .tasks = tasks, .tasks_n = n};
    struct api_cancel_reply reply = {0};
    int err = client_call_job(client, job, API_CANCEL_TASKS, &request, &reply);

    *already_ended = reply.already_ended;
    return err;
}

int client_hold(struct client *client, job_id_t job, bool release, bool *already_ended)
{
    const struct api_hold_request request = {.job = job, .release = release};
    struct api_hold_reply reply = {0};
    int err = client_call_job(client, job, API_HOLD, &request, &reply);

    *already_ended = reply.already_ended;
    return err;
}

/* The signature of a job for which it runs again; NULL: it has none. */
static int sign_again(struct client *client, job_id_t job, struct blob **signature)
{
    const struct api_get_job_request request = {.job = job, .signature = true};
    struct api_get_job_reply reply = {0};
    int err = client->tls ? client_get_job(client, &request, &reply) : 0;

    *signature = NULL;
    if (err || !client->tls)
        return err;
    err = submission_renew(reply.signature, reply.signature_n, tls_signer(client->tls), (int64_t)time(NULL),
                           signature);
    api_free(&api_get_job_reply_type, &reply);
    return err ? client_fail(client, HAWK_EINVALID,
                             "your credential cannot sign the job: `hawk login` takes another")
               : 0;
}

/* The dist may have taken the job, and its answer was lost. Under the same key it takes it once, also where it was
 * killed and is there again. */
static int rerun_surely(struct client *client, const struct api_rerun_request *request,
                        struct api_submit_reply *reply)
{
    int64_t until_us = loop_now(client->loop) + client->timeout_us;

    client->doubt = false;
    for (;;) {
        int err = client_call_job(client, request->job, API_RERUN, request, reply);

        if (!client->doubt || !(client_is_away(err) || err == HAWK_ENOT_FOUND))
            return err;
        if (loop_now(client->loop) >= until_us)
            return fail_unsure(client, err);
        client_pause(client, AGAIN_PAUSE_US);
    }
}

int client_rerun(struct client *client, job_id_t job, bool failed, const struct after_list *after,
                 struct api_submit_reply *reply)
{
    char texts[LIMIT_AFTER][AFTER_TEXT];
    const char *v[LIMIT_AFTER];
    struct api_rerun_request request = {
        .job = job, .failed = failed, .after = v, .after_n = after->n, .key = entropy_nonzero()};
    struct blob *signature;
    int err = sign_again(client, job, &signature);

    memset(reply, 0, sizeof *reply);
    if (err)
        return err;
    CHECK(after->n <= LIMIT_AFTER);
    for (uint32_t i = 0; i < after->n; i++)
        v[i] = after_format(texts[i], &after->v[i]);
    request.signature = signature ? (const uint8_t *)signature->data : NULL;
    request.signature_n = signature ? signature->len : 0;
    err = rerun_surely(client, &request, reply);
    blob_drop(signature);
    return err;
}
