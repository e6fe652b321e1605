/* The applications that this worker serves: an executor of each is attached, of one user or of everybody. The worker
 * tells central, which tells the dists. When it ceases to serve an application, it hands back everything for it. Here
 * applications and users are known by their numbers; whether a task's names are those of an executor, the shell looks
 * again (exec/apps.h). */
#include "base/mem.h"
#include "worker/internal.h"

#include <stdlib.h>

/* The first that takes that user's tasks for app; n_apps: none. */
static uint32_t find_app(const struct worker *w, uint64_t app, uint32_t user)
{
    uint32_t i = 0;

    while (i < w->n_apps &&
           (w->apps[i].id != app || (w->apps[i].user_number && w->apps[i].user_number != user)))
        i++;
    return i;
}

/* Whether an executor takes that user's tasks for app; true also for no application. */
static bool serves_app(const struct worker *w, uint64_t app, uint32_t user)
{
    return app == 0 || find_app(w, app, user) < w->n_apps;
}

/* Whether it runs that user's commands. For an application serves_app() says it. */
static bool serves_user(const struct worker *w, uint64_t app, uint32_t user)
{
    return !w->serves || app || w->serves == user;
}

int worker_why_not(const struct worker *w, uint64_t app, uint32_t user, int64_t estimate_us)
{
    if (refuses_work(w))
        return refusal(w);
    if (!serves_app(w, app, user))
        return HAWK_ENO_EXECUTOR;
    if (!serves_user(w, app, user))
        return HAWK_EWRONG_USER;
    return worker_has_time(w, estimate_us) ? 0 : HAWK_ENO_TIME;
}

static void tell_app(const struct worker *w, struct blob *name, struct blob *user, bool on)
{
    struct msg_app *m;

    if (!w->joined)
        return;
    m = &out_add(w->out, MSG_APP, NODE_CENTRAL.v)->app;
    m->name = blob_ref(name);
    m->user = user ? blob_ref(user) : NULL;
    m->on = on;
}

void worker_apps_tell(const struct worker *w)
{
    for (uint32_t i = 0; i < w->n_apps; i++)
        tell_app(w, w->apps[i].name, w->apps[i].user, true);
}

void worker_serves_tell(const struct worker *w)
{
    if (w->serves)
        out_add(w->out, MSG_SERVES, NODE_CENTRAL.v)->serves.user = blob_ref(w->config.serves);
}

void worker_ends_tell(const struct worker *w)
{
    int64_t left_us = w->config.ends_us > w->now_us ? w->config.ends_us - w->now_us : 0;

    if (w->config.ends_us != TIME_NEVER && left_us < LIMIT_TIME_US)
        out_add(w->out, MSG_ENDS, NODE_CENTRAL.v)->ends.left_us = left_us;
}

static void note_set(struct worker *w)
{
    w->app_set = 0;
    for (uint32_t i = 0; i < w->n_apps; i++)
        w->app_set |= app_set_of(w->apps[i].id, w->apps[i].user_number);
}

void worker_apps_count(struct worker *w, const struct entry *e, bool in)
{
    uint64_t app = e->job->app;
    uint32_t i;

    if (e->q.is_long || e->q.bound)
        return;
    if (app == 0) {
        w->n_queued_any += in ? 1u : -1u;
        return;
    }
    i = find_app(w, app, e->q.user);
    if (i < w->n_apps) /* otherwise it goes back: the application was served until now */
        w->apps[i].n_queued += in ? 1u : -1u;
}

/* A thief with executors of that one user's gets no hint at what everybody's executors would take here. It asks by
 * itself. */
uint64_t worker_apps_needed(const struct worker *w)
{
    uint64_t apps = 0;

    for (uint32_t i = 0; i < w->n_apps && w->n_queued_any == 0; i++)
        if (w->apps[i].n_queued > 0)
            apps |= app_set_for(w->apps[i].id, w->apps[i].user_number);
    return apps;
}

/* Counts all queues again: other applications than before may be the first that take their entries. */
static void count_queued(struct worker *w)
{
    for (uint32_t i = 0; i < w->n_apps; i++)
        w->apps[i].n_queued = 0;
    for (uint32_t k = 0; k < w->n_lanes; k++)
        list_foreach(&w->lanes[k].queue.fifo, l, next) {
            const struct entry *e = container_of(l, struct entry, q.fifo);

            if (e->job->app)
                worker_apps_count(w, e, true);
        }
}

static void give_back(struct worker *w, struct lane *l, uint64_t app)
{
    list_foreach(&l->queue.fifo, k, next) {
        struct entry *e = container_of(k, struct entry, q.fifo);

        if (e->job->app == app && !serves_app(w, app, e->q.bound ? e->job->user : e->q.user))
            worker_entry_give_back(w, e, HAWK_ENO_EXECUTOR);
    }
}

static void app_drop(struct worker_app *a)
{
    blob_drop(a->name);
    blob_drop(a->user);
}

static void add_app(struct worker *w, uint64_t id, const struct msg_exec_app *m)
{
    if (!w->apps)
        w->apps = xcalloc(LIMIT_WORKER_APPS, sizeof *w->apps);
    w->apps[w->n_apps++] = (struct worker_app){.id = id,
                                               .name = blob_ref(m->name),
                                               .user = m->user ? blob_ref(m->user) : NULL,
                                               .user_number = m->user ? user_number(m->user) : 0};
    note_set(w);
}

/* Output: at most 1 message; 1 per entry when the application ceases to be served. Running tasks and requests
 * end by themselves. */
void worker_on_exec_app(struct worker *w, const struct msg *in)
{
    const struct msg_exec_app *m = &in->exec_app;
    uint64_t id = app_id(m->name);
    uint32_t i = 0;

    while (i < w->n_apps && !app_eq(w->apps[i].name, w->apps[i].user, m->name, m->user))
        i++;
    if (m->on == (i < w->n_apps) || (m->on && w->n_apps == LIMIT_WORKER_APPS))
        return;
    tell_app(w, m->name, m->user, m->on); /* comes before what is handed back, which could return otherwise */
    if (m->on) {
        add_app(w, id, m);
        return;
    }
    app_drop(&w->apps[i]);
    w->apps[i] = w->apps[--w->n_apps];
    note_set(w);
    count_queued(w);
    for (uint32_t k = 0; k < w->n_lanes; k++)
        give_back(w, &w->lanes[k], id);
}

void worker_apps_free(struct worker *w)
{
    for (uint32_t i = 0; i < w->n_apps; i++)
        app_drop(&w->apps[i]);
    free(w->apps);
}
