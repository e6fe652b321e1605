/* The applications that this worker serves: an executor of each is attached. The worker tells central, which
 * tells the dists. When it ceases to serve an application, it hands back everything for it. */
#include "base/mem.h"
#include "worker/internal.h"

#include <stdlib.h>

static uint32_t find_app(const struct worker *w, uint64_t app)
{
    uint32_t i = 0;

    while (i < w->n_apps && w->apps[i].id != app)
        i++;
    return i;
}

bool worker_serves(const struct worker *w, uint64_t app) { return app == 0 || find_app(w, app) < w->n_apps; }

static void tell_app(const struct worker *w, struct blob *name, bool on)
{
    struct msg_app *m;

    if (!w->joined)
        return;
    m = &out_add(w->out, MSG_APP, NODE_CENTRAL.v)->app;
    m->name = blob_ref(name);
    m->on = on;
}

void worker_apps_tell(const struct worker *w)
{
    for (uint32_t i = 0; i < w->n_apps; i++)
        tell_app(w, w->apps[i].name, true);
}

void worker_serves_tell(const struct worker *w)
{
    if (w->serves)
        out_add(w->out, MSG_SERVES, NODE_CENTRAL.v)->serves.user = blob_ref(w->config.serves);
}

static void note_set(struct worker *w)
{
    w->app_set = 0;
    for (uint32_t i = 0; i < w->n_apps; i++)
        w->app_set |= app_set(w->apps[i].id);
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
    i = find_app(w, app);
    if (i < w->n_apps) /* otherwise it goes back: the application was served until now */
        w->apps[i].n_queued += in ? 1u : -1u;
}

uint64_t worker_apps_needed(const struct worker *w)
{
    uint64_t apps = 0;

    for (uint32_t i = 0; i < w->n_apps && w->n_queued_any == 0; i++)
        if (w->apps[i].n_queued > 0)
            apps |= app_set(w->apps[i].id);
    return apps;
}

static void give_back(struct worker *w, struct lane *l, uint64_t app)
{
    list_foreach(&l->queue.fifo, k, next) {
        struct entry *e = container_of(k, struct entry, q.fifo);

        if (e->job->app == app)
            worker_entry_give_back(w, e, HAWK_ENO_EXECUTOR);
    }
}

/* Output: at most 1 message; 1 per entry when the application ceases to be served. Running tasks and requests
 * end by themselves. */
void worker_on_exec_app(struct worker *w, const struct msg *in)
{
    struct blob *name = in->exec_app.name;
    uint64_t app = app_id(name);
    uint32_t i = find_app(w, app);

    if (in->exec_app.on == (i < w->n_apps) || (in->exec_app.on && w->n_apps == LIMIT_WORKER_APPS))
        return;
    tell_app(w, name, in->exec_app.on); /* comes before what is handed back, which could return otherwise */
    if (in->exec_app.on) {
        if (!w->apps)
            w->apps = xcalloc(LIMIT_WORKER_APPS, sizeof *w->apps);
        w->apps[w->n_apps++] = (struct worker_app){.id = app, .name = blob_ref(name)};
        note_set(w);
        return;
    }
    blob_drop(w->apps[i].name);
    w->apps[i] = w->apps[--w->n_apps];
    note_set(w);
    for (uint32_t k = 0; k < w->n_lanes; k++)
        give_back(w, &w->lanes[k], app);
}

void worker_apps_free(struct worker *w)
{
    for (uint32_t i = 0; i < w->n_apps; i++)
        blob_drop(w->apps[i].name);
    free(w->apps);
}
