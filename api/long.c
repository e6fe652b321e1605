/* The API's calls about jobs, served by central: for long jobs whose dist is gone, or has forgotten them. */
#include "api/internal.h"
#include "base/mem.h"

#include <stdlib.h>

/* NULL, after failing the call: it is not there, or another user's. */
static const struct long_job *find_job(struct api *a, struct rpc_call *c, job_id_t id)
{
    char text[JOB_ID_TEXT];
    const struct long_job *j = central_find_job(a->roles.central, id);
    struct job_view v;
    if (!j) {
        api_fail(c, HAWK_ENOT_FOUND, "central has no long job %s", job_id_format(text, id));
        return NULL;
    }
    central_job_view(a->roles.central, j, 0, &v);
    return api_may_touch(c, id, v.desc->user->data) ? j : NULL;
}

static const char *worker_name(const struct api *a, node_id_t worker)
{
    struct central_node n;
    if (worker.v == 0 || !central_view_node(a->roles.central, worker, loop_now(a->loop), &n))
        return "";
    return n.member.name->data;
}

void api_long_cancel(struct api *a, struct rpc_call *c, job_id_t job)
{
    const struct long_job *j = find_job(a, c, job);
    struct job_view v;
    if (!j)
        return;
    central_job_view(a->roles.central, j, loop_now(a->loop), &v);
    if (job_state_final(v.state)) {
        api_reply(c, API_CANCEL, &(struct api_cancel_reply){.already_ended = true});
        return;
    }
    struct msg m = {.type = MSG_CANCEL, .cancel = {.job = job, .client = api_wait(a, c)}};
    a->feed(a->arg, ROLE_CENTRAL, &m);
}

void api_long_hold(struct api *a, struct rpc_call *c, job_id_t job, bool on)
{
    if (!find_job(a, c, job))
        return;
    struct msg m = {.type = MSG_HOLD, .hold = {.job = job, .client = api_wait(a, c), .on = on}};
    a->feed(a->arg, ROLE_CENTRAL, &m);
}

void api_long_list(struct api *a, struct rpc_call *c, const struct api_list_jobs_request *r)
{
    const struct central *central = a->roles.central;
    uint32_t limit = r->limit ? r->limit : API_JOBS_DEFAULT, cap = 0;
    struct api_list_jobs_reply reply = {.you = rpc_caller(c)->name};
    if (limit > API_PAGE_MAX)
        limit = API_PAGE_MAX;
    const struct long_job *j = central_job_after(central, r->before);
    for (; j; j = central_next_job(central, j)) {
        struct job_view v;
        central_job_view(central, j, loop_now(a->loop), &v);
        if (r->unfinished_only && job_state_final(v.state))
            continue;
        if (reply.jobs_n == limit) {
            reply.more = true;
            break;
        }
        vec_grow(reply.jobs, reply.jobs_n, cap);
        api_job_from_view(&reply.jobs[reply.jobs_n], &v);
        api_hide_from_others(a, c, &reply.jobs[reply.jobs_n++]);
    }
    api_reply(c, API_LIST_JOBS, &reply);
    free(reply.jobs);
}

void api_long_get(struct api *a, struct rpc_call *c, const struct api_get_job_request *r)
{
    const struct central *central = a->roles.central;
    const struct long_job *j = find_job(a, c, r->job);
    struct api_get_job_reply reply = {0};
    struct job_view v;
    char blocked[256];
    if (!j)
        return;
    central_job_view(central, j, loop_now(a->loop), &v);
    api_job_from_view(&reply.job, &v);
    uint32_t n = central_job_tasks(j), max = r->max_tasks < API_PAGE_MAX ? r->max_tasks : API_PAGE_MAX;
    uint32_t first = r->first_task < n ? r->first_task : n;
    n = n - first < max ? n - first : max;
    reply.tasks = n ? xcalloc(n, sizeof *reply.tasks) : NULL;
    for (; reply.tasks_n < n; reply.tasks_n++) {
        struct task_view t;
        central_task_view(central, j, first + reply.tasks_n, loop_now(a->loop), &t);
        api_task_from_view(&reply.tasks[reply.tasks_n], &t, worker_name(a, t.worker));
    }
    central_job_blocked(central, j, blocked, sizeof blocked);
    reply.blocked = blocked;
    struct job_desc spec = api_public_spec(v.desc);
    if (r->spec)
        reply.spec = &spec;
    api_reply(c, API_GET_JOB, &reply);
    free(reply.tasks);
}
