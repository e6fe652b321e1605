/* Applications that attached executors serve: which workers serve them, long tasks that need one, and results
 * of such tasks until their dists have them. */
#include "base/check.h"
#include "base/mem.h"
#include "central/pairing.h"
#include "central/tasks.h"

#include <stdlib.h>

/* ---- Applications ---- */

static bool has_told(const struct node *n, const struct central_app *a)
{
    for (uint32_t i = 0; i < n->n_apps; i++)
        if (n->apps[i] == a)
            return true;
    return false;
}

bool central_node_serves(const struct node *n, const struct central_app *a)
{
    return !a || has_told(n, a) || (a->shared && has_told(n, a->shared));
}

/* Puts n into the application's list, or takes it out, as it serves it or not. */
static void list_node(struct central_app *a, struct node *n)
{
    bool serves = central_node_serves(n, a);
    uint32_t i = 0;

    while (i < a->nodes_n && a->nodes[i] != n)
        i++;
    if (serves && i == a->nodes_n) {
        vec_grow(a->nodes, a->nodes_n, a->nodes_cap);
        a->nodes[a->nodes_n++] = n;
    } else if (!serves && i < a->nodes_n) {
        a->nodes[i] = a->nodes[--a->nodes_n];
    }
}

static struct central_app *app_new(struct central *c, struct blob *key, struct blob *name, struct blob *user)
{
    struct central_app *a = xcalloc(1, sizeof *a);

    a->key = blob_ref(key);
    a->name = blob_ref(name);
    a->user = user ? blob_ref(user) : NULL;
    list_init(&a->own);
    kept_init(&a->kept);
    list_init(&a->waiting);
    HASH_ADD_KEYPTR(hh, c->apps, a->key->data, a->key->len, a);
    return a;
}

struct central_app *central_app_get(struct central *c, struct blob *name, struct blob *user)
{
    struct blob *key = app_key(name, user);
    struct central_app *a;

    HASH_FIND(hh, c->apps, key->data, key->len, a);
    bool new = !a;
    if (new)
        a = app_new(c, key, name, user);
    blob_drop(key);
    if (!new || !user)
        return a;
    a->shared = central_app_get(c, name, NULL);
    list_push_tail(&a->shared->own, &a->own);
    for (uint32_t i = 0; i < a->shared->nodes_n; i++)
        list_node(a, a->shared->nodes[i]);
    return a;
}

static void app_free(struct central *c, struct central_app *a)
{
    HASH_DEL(c->apps, a); /* NOLINT(clang-analyzer-core.NullDereference): inside uthash */
    if (a->user)
        list_remove(&a->own);
    list_remove(&a->waiting);
    blob_drop(a->key);
    blob_drop(a->name);
    blob_drop(a->user);
    free(a->nodes);
    kept_free(&a->kept);
    free(a);
}

void central_app_settle(struct central *c, struct central_app *a)
{
    struct central_app *shared = a->shared;
    bool told = false;

    for (uint32_t i = 0; i < a->nodes_n && !told; i++)
        told = has_told(a->nodes[i], a);
    if (told || a->jobs > 0 || (!a->user && !list_empty(&a->own)))
        return;
    app_free(c, a);
    if (shared)
        central_app_settle(c, shared);
}

void central_apps_free(struct central *c)
{
    struct central_app *a, *next;

    HASH_ITER(hh, c->apps, a, next)
        if (a->user) /* each is in the list of another one */
            app_free(c, a);
    HASH_ITER(hh, c->apps, a, next)
        app_free(c, a);
}

/* ---- Which workers serve an application ---- */

static void send_app(struct central *c, const struct node *dist, const struct node *n,
                     const struct central_app *a, bool on)
{
    struct msg *m = central_send(c, dist, MSG_APP);

    m->app.name = blob_ref(a->name);
    m->app.user = a->user ? blob_ref(a->user) : NULL;
    m->app.node = n->id;
    m->app.on = on;
}

static void tell_all(struct central *c, const struct node *n, const struct central_app *a, bool on)
{
    list_foreach(&c->dists, entry, next)
        send_app(c, container_of(entry, struct node, push), n, a, on);
}

void central_apps_send_all(struct central *c, const struct node *dist)
{
    const struct central_app *a, *next;

    HASH_ITER(hh, c->apps, a, next)
        for (uint32_t i = 0; i < a->nodes_n; i++)
            if (has_told(a->nodes[i], a))
                send_app(c, dist, a->nodes[i], a, true);
}

void central_apps_send(struct central *c, const struct node *dist, const struct node *n)
{
    for (uint32_t i = 0; i < n->n_apps; i++)
        send_app(c, dist, n, n->apps[i], true);
}

static void note_set(struct central *c, struct node *n)
{
    uint64_t apps = 0;

    for (uint32_t i = 0; i < n->n_apps; i++)
        apps |= app_set_of(app_id(n->apps[i]->name), n->apps[i]->user ? user_number(n->apps[i]->user) : 0);
    central_pairing_serves(c, n, apps);
}

/* n has told a, or does not any more. */
static void list_app(struct central_app *a, struct node *n)
{
    list_node(a, n);
    if (a->user)
        return;
    list_foreach(&a->own, l, next)
        list_node(container_of(l, struct central_app, own), n);
}

static bool has_jobs(const struct central_app *a)
{
    bool any = a->jobs > 0;

    if (!a->user)
        list_foreach(&a->own, l, next)
            any = any || container_of(l, struct central_app, own)->jobs > 0;
    return any;
}

static void forget_app(struct central *c, struct node *n, struct central_app *a)
{
    uint32_t i = 0;

    while (n->apps[i] != a)
        i++;
    n->apps[i] = n->apps[--n->n_apps];
    note_set(c, n);
    list_app(a, n);
    end_times_look(c, n);
    central_app_settle(c, a);
}

void central_node_forget_apps(struct central *c, struct node *n, bool tell_dists)
{
    while (n->n_apps > 0) {
        struct central_app *a = n->apps[n->n_apps - 1];

        if (tell_dists)
            tell_all(c, n, a, false);
        forget_app(c, n, a);
    }
    free(n->apps);
    n->apps = NULL;
    n->apps_cap = 0;
}

void central_on_app(struct central *c, const struct msg *in)
{
    struct node *n = c->from;
    const struct msg_app *m = &in->app;
    struct central_app *a = central_app_get(c, m->name, m->user);

    if (m->on == has_told(n, a) || (m->on && n->n_apps == LIMIT_WORKER_APPS)) {
        central_app_settle(c, a);
        return;
    }
    tell_all(c, n, a, m->on);
    if (!m->on) {
        forget_app(c, n, a);
        return;
    }
    vec_grow(n->apps, n->n_apps, n->apps_cap);
    n->apps[n->n_apps++] = a;
    note_set(c, n);
    list_app(a, n);
    if (has_jobs(a))
        central_recall_arm(c);
    end_times_look(c, n);
}

/* Looks at each worker: the heaps of central.waiting contain all workers. */
struct node *central_app_best(const struct central *c, const struct central_app *a)
{
    struct node *best = NULL;
    int64_t least_us = INT64_MAX;

    for (uint32_t i = 0; i < a->nodes_n; i++) {
        struct node *n = a->nodes[i];
        int64_t wait_us;

        if (!central_node_takes(c, n))
            continue;
        wait_us = waiting_at(&n->waiting, c->now_us);
        if (!best || wait_us < least_us || (wait_us == least_us && n->id.v < best->id.v)) {
            best = n;
            least_us = wait_us;
        }
    }
    return best;
}

void central_app_rank(const struct central *c, const struct central_app *a, struct heap *h)
{
    heap_init(h);
    for (uint32_t i = 0; i < a->nodes_n; i++) {
        struct node *n = a->nodes[i];

        if (!central_node_takes(c, n))
            continue;
        n->rank = (struct heap_node){.key = waiting_at(&n->waiting, c->now_us), .seq = n->id.v};
        CHECK(heap_push(h, &n->rank) == 0);
    }
}

/* ---- Workers that run one user's commands alone ---- */

static void set_user(struct central *c, struct node *n, struct blob *user)
{
    blob_drop(n->serves);
    n->serves = blob_ref(user);
    n->user = user ? user_number(user) : 0;
    list_remove(&n->own);
    if (user)
        list_push_tail(&c->owned, &n->own);
    central_node_update_eligible(c, n);
}

void central_node_forget_user(struct central *c, struct node *n) { set_user(c, n, NULL); }

void central_on_serves(struct central *c, const struct msg *in)
{
    set_user(c, c->from, in->serves.user);
    central_partition_balance(c);
    central_members_changed(c, c->from);
}

/* ---- Results of tasks ---- */

static void result_free(struct central *c, struct long_result *r)
{
    c->results_bytes -= sizeof *r + r->result->len;
    r->task->job->results[central_task_index(r->task)] = NULL;
    list_remove(&r->link);
    blob_drop(r->result);
    free(r);
}

bool central_result_keep(struct central *c, struct long_task *t, struct blob *result)
{
    struct long_job *j = t->job;
    struct long_result *r;
    uint64_t bytes = sizeof *r + (result ? result->len : 0);

    if (!j->app)
        return true;
    while (c->results_bytes + bytes > c->cfg.results_bytes_max && !list_empty(&c->results_told))
        result_free(c, container_of(c->results_told.next, struct long_result, link));
    if (c->results_bytes + bytes > c->cfg.results_bytes_max) {
        owner_message_say(
            &j->messages, central_task_index(t),
            "central has no room for what it returned: dists have not taken what other long tasks did");
        return false;
    }
    if (!j->results)
        j->results = xcalloc(j->n, sizeof *j->results);
    r = xcalloc(1, sizeof *r);
    r->task = t;
    r->result = result ? blob_ref(result) : blob_new(NULL, 0); /* an empty result is sent, too */
    list_push_tail(&c->results_untold, &r->link);
    j->results[central_task_index(t)] = r;
    c->results_bytes += bytes;
    return true;
}

void central_result_send(struct central *c, const struct long_task *t, const struct node *dist)
{
    struct long_result *r = t->job->results ? t->job->results[central_task_index(t)] : NULL;
    struct msg *m = r ? central_send(c, dist, MSG_LONG_RESULT) : NULL;

    if (!m)
        return;
    m->long_result.id = central_task_try(t);
    m->long_result.result = blob_ref(r->result);
    list_remove(&r->link);
    list_push_tail(&c->results_told, &r->link);
}

void central_job_free_results(struct central *c, struct long_job *j)
{
    for (uint32_t i = 0; j->results && i < j->n; i++)
        if (j->results[i])
            result_free(c, j->results[i]);
    free(j->results);
    j->results = NULL;
}
