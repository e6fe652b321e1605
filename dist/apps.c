/* Applications with attached executors: which workers serve them, as central tells, and results of their
 * tasks. A job of an application is probed for among these workers only, by the usual rules. An application is a user
 * and a name: a user's jobs go to his own executors, and to those that serve everybody. */
#include "dist/internal.h"

#include "base/check.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- Pools ---- */

void dist_pools_init(struct dist_pool pool[POOL_COUNT])
{
    for (int p = 0; p < POOL_COUNT; p++) {
        list_init(&pool[p].starved);
        list_init(&pool[p].crowded);
        draw_init(&pool[p].draw);
    }
}

void dist_pools_free(struct dist_pool pool[POOL_COUNT])
{
    for (int p = 0; p < POOL_COUNT; p++)
        draw_free(&pool[p].draw);
}

/* ---- Applications ---- */

static bool has_told(const struct dist_node *n, const struct dist_app *a)
{
    for (uint32_t i = 0; i < n->n_apps; i++)
        if (n->apps[i] == a)
            return true;
    return false;
}

bool dist_node_serves(const struct dist_node *n, const struct dist_app *a)
{
    return has_told(n, a) || (a->shared && has_told(n, a->shared));
}

static struct dist_app *app_new(struct dist *d, struct blob *key, struct blob *name, struct blob *user)
{
    struct dist_app *a = xcalloc(1, sizeof *a);

    a->id = app_id(name);
    a->key = blob_ref(key);
    a->name = blob_ref(name);
    a->user = user ? blob_ref(user) : NULL;
    list_init(&a->own);
    dist_pools_init(a->pool);
    HASH_ADD_KEYPTR(hh, d->apps, a->key->data, a->key->len, a);
    return a;
}

/* user NULL: everybody's. O(nodes) for a user's that was not there. */
static struct dist_app *app_get(struct dist *d, struct blob *name, struct blob *user)
{
    struct blob *key = app_key(name, user);
    struct dist_app *a;

    HASH_FIND(hh, d->apps, key->data, key->len, a);
    bool new = !a;
    if (new)
        a = app_new(d, key, name, user);
    blob_drop(key);
    if (!new || !user)
        return a;
    a->shared = app_get(d, name, NULL);
    list_push_tail(&a->shared->own, &a->own);
    for (uint32_t i = 0; i < d->nodes_n && a->shared->nodes > 0; i++) {
        struct dist_node *n = dist_node_find(d, i);

        if (n && has_told(n, a->shared))
            dist_node_update(d, n, a->pool, true);
    }
    return a;
}

static void app_free(struct dist *d, struct dist_app *a)
{
    HASH_DEL(d->apps, a); /* NOLINT(clang-analyzer-core.NullDereference): inside uthash */
    if (a->user)
        list_remove(&a->own);
    dist_pools_free(a->pool);
    blob_drop(a->key);
    blob_drop(a->name);
    blob_drop(a->user);
    free(a);
}

static void app_settle(struct dist *d, struct dist_app *a)
{
    struct dist_app *shared = a->shared;

    if (a->nodes > 0 || a->jobs > 0 || (!a->user && !list_empty(&a->own)))
        return;
    app_free(d, a);
    if (shared)
        app_settle(d, shared);
}

void dist_job_join_app(struct dist *d, struct dist_job *job)
{
    if (job->desc->kind != PAYLOAD_APP)
        return;
    job->app = app_get(d, job->desc->app, job->desc->user->len > 0 ? job->desc->user : NULL);
    job->app->jobs++;
}

void dist_job_leave_app(struct dist *d, struct dist_job *job)
{
    struct dist_app *a = job->app;

    job->app = NULL;
    if (!a)
        return;
    a->jobs--;
    app_settle(d, a);
}

const struct blob *dist_node_app(const struct dist *d, node_id_t node, uint32_t i, const struct blob **user)
{
    const struct dist_node *n = dist_node_find(d, node.v);

    if (!n || i >= n->n_apps)
        return NULL;
    *user = n->apps[i]->user;
    return n->apps[i]->name;
}

void dist_apps_free(struct dist *d)
{
    struct dist_app *a, *next;

    HASH_ITER(hh, d->apps, a, next)
        if (a->user) /* each is in the list of another one */
            app_free(d, a);
    HASH_ITER(hh, d->apps, a, next)
        app_free(d, a);
}

/* ---- Which workers serve an application ---- */

void dist_node_update_app(struct dist *d, struct dist_node *n, struct dist_app *a)
{
    dist_node_update(d, n, a->pool, dist_node_serves(n, a));
    if (a->user)
        return;
    list_foreach(&a->own, l, next) {
        struct dist_app *own = container_of(l, struct dist_app, own);

        dist_node_update(d, n, own->pool, dist_node_serves(n, own));
    }
}

static void forget_app(struct dist *d, struct dist_node *n, uint32_t i)
{
    struct dist_app *a = n->apps[i];

    n->apps[i] = n->apps[--n->n_apps];
    a->nodes--;
    dist_node_update_app(d, n, a);
    app_settle(d, a);
}

void dist_node_forget_apps(struct dist *d, struct dist_node *n)
{
    while (n->n_apps > 0)
        forget_app(d, n, n->n_apps - 1);
    free(n->apps);
    n->apps = NULL;
}

void dist_on_app(struct dist *d, const struct msg *in)
{
    const struct msg_app *m = &in->app;
    struct dist_node *n = dist_node_find(d, m->node.v);
    struct dist_app *a;
    uint32_t i = 0;

    if (!n || n->m.state == MEMBER_GONE)
        return;
    a = app_get(d, m->name, m->user);
    while (i < n->n_apps && n->apps[i] != a)
        i++;
    if (m->on && i == n->n_apps && n->n_apps < LIMIT_WORKER_APPS) {
        if ((n->n_apps & (n->n_apps - 1)) == 0) /* n_apps is 0 or a power of two: the array is full */
            n->apps = xrealloc(n->apps, (n->n_apps ? 2 * n->n_apps : 1) * sizeof(*n->apps));
        n->apps[n->n_apps++] = a;
        a->nodes++;
        dist_node_update_app(d, n, a);
    } else if (!m->on && i < n->n_apps) {
        forget_app(d, n, i); /* the worker itself gives back its reservations */
    } else {
        app_settle(d, a);
    }
}

/* ---- Results of tasks ---- */

uint64_t dist_job_bytes(const struct dist_job *job) { return job_desc_bytes(job->desc) + job->results_bytes; }

static void refuse_result(struct dist_job *job, uint32_t i, const struct blob *result)
{
    char text[MESSAGE_BYTES_MAX];

    snprintf(
        text, sizeof text,
        "it returned %" PRIu32
        " bytes, for which its dist has no room: the results of a job have %u at most, a user's jobs half "
        "of dist.memory_max, all jobs as many as it allows",
        result->len, LIMIT_JOB_RESULTS_BYTES);
    owner_message_say(&job->messages, i, text);
}

bool dist_task_keep_result(struct dist *d, struct dist_job *job, uint32_t i, struct blob *result)
{
    uint64_t bytes;

    if (!job->app || job->tasks[i].has_result) /* only the first result counts */
        return true;
    if (!result || result->len == 0) {
        job->tasks[i].has_result = 1;
        return true;
    }
    bytes = sizeof *result + result->len;
    if (job->results_bytes + bytes > LIMIT_JOB_RESULTS_BYTES ||
        d->bytes_unfinished + bytes > d->cfg.unfinished_bytes_max || !dist_user_keeps(d, job->desc, bytes)) {
        refuse_result(job, i, result);
        return false;
    }
    if (!job->results)
        job->results = xcalloc(job->desc->tasks, sizeof(struct blob *));
    job->tasks[i].has_result = 1;
    job->results[i] = blob_ref(result);
    job->results_bytes += bytes;
    d->bytes_unfinished += bytes;
    return true;
}

void dist_job_free_results(struct dist_job *job)
{
    for (uint32_t i = 0; job->results && i < job->desc->tasks; i++)
        blob_drop(job->results[i]);
    free(job->results);
    job->results = NULL;
}
