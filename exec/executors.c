/* Attached executors: who is attached, and whose tasks of which application each takes. */
#include "base/check.h"
#include "base/mem.h"
#include "exec/apps_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Applications ---- */

/* Names are compared in full: whose number is that of another name gets nothing of it. user: NULL: everybody's. */
static struct app *app_find(const struct apps *a, const struct blob *name, const struct blob *user)
{
    list_foreach(&a->all, l, next) {
        struct app *app = container_of(l, struct app, link);

        if (app_eq(app->name, app->user, name, user))
            return app;
    }
    return NULL;
}

/* The user's own executors come before those that everybody shares. */
struct app *apps_for(const struct apps *a, const struct job_desc *d)
{
    struct app *own = d->user->len > 0 ? app_find(a, d->app, d->user) : NULL;
    struct app *app = own && own->attached > 0 ? own : app_find(a, d->app, NULL);

    return app && app->attached > 0 ? app : NULL;
}

/* A new text; NULL: everybody's. */
static struct blob *served_by(const struct executor_offer *o)
{
    return o->serves && *o->serves ? blob_str(o->serves) : NULL;
}

static struct app *app_new(struct apps *a, const struct executor_offer *o)
{
    struct app *app = xcalloc(1, sizeof *app);

    app->name = blob_str(o->app);
    app->user = served_by(o);
    list_init(&app->ready);
    list_init(&app->waiting);
    list_push_tail(&a->all, &app->link);
    a->apps_n++;
    return app;
}

static void tell_served(struct apps *a, const struct app *app, bool on)
{
    struct msg m = {.type = MSG_EXEC_APP, .exec_app = {.name = app->name, .user = app->user, .on = on}};

    a->fns.event(a->arg, &m);
}

/* x takes no more tasks. */
static void executor_leaves(struct apps *a, struct executor *x, int64_t now_us)
{
    struct app *app = x->app;

    list_remove(&x->ready);
    if (x->draining)
        return;
    x->draining = true;
    if (--app->attached > 0)
        return;
    /* This comes first: otherwise the tasks of the lost runs would come back to this worker. */
    tell_served(a, app, false);
    while (!list_empty(&app->waiting))
        apps_lose_waiting(a, container_of(app->waiting.next, struct run, link), now_us);
}

/* ---- Executors ---- */

static int check_offer(const struct executor_offer *o, char *why, size_t size)
{
    if (!*o->app || strlen(o->app) > LIMIT_NAME_BYTES)
        snprintf(why, size, "hello.app: an application's name has 1 to %u bytes", LIMIT_NAME_BYTES);
    else if (strlen(o->name) > LIMIT_NAME_BYTES)
        snprintf(why, size, "hello.name: an executor's name has at most %u bytes", LIMIT_NAME_BYTES);
    else if (o->slots == 0 || o->slots > LIMIT_SLOTS)
        snprintf(why, size, "hello.slots: %" PRIu32 " tasks at once: give 1 to %u", o->slots, LIMIT_SLOTS);
    else
        return 0;
    return HAWK_EINVALID;
}

/* Of one user: so nobody takes all places from the others. */
static int check_share(const struct apps *a, const struct blob *user, bool new, char *why, size_t size)
{
    uint32_t apps = new, executors = 1;

    list_foreach(&a->all, l, next) {
        const struct app *app = container_of(l, struct app, link);

        if (!app->user || !blob_eq(app->user, user))
            continue;
        apps++;
        executors += app->executors;
    }
    if (executors > APPS_EXECUTORS_MAX / APPS_USER_SHARE)
        snprintf(why, size,
                 "%u executors of user %s are attached to this worker, the limit for a user: attach fewer, "
                 "with more "
                 "slots each",
                 executors - 1, user->data);
    else if (apps > LIMIT_WORKER_APPS / APPS_USER_SHARE)
        snprintf(
            why, size,
            "this worker serves %u applications of user %s, the limit for a user: attach to another worker",
            apps - 1, user->data);
    else
        return 0;
    return HAWK_ELIMIT;
}

static int check_limits(const struct apps *a, const struct blob *user, bool new, char *why, size_t size)
{
    if (a->executors_n == APPS_EXECUTORS_MAX)
        snprintf(why, size,
                 "%u executors are attached to this worker, its limit: attach fewer, with more slots each",
                 a->executors_n);
    else if (new && a->apps_n == LIMIT_WORKER_APPS)
        snprintf(why, size, "this worker serves %u applications, its limit: attach to another worker",
                 a->apps_n);
    else
        return user ? check_share(a, user, new, why, size) : 0;
    return HAWK_ELIMIT;
}

static struct executor *executor_new(struct apps *a, struct app *app, const struct executor_offer *o,
                                     void *user)
{
    struct executor *x = xcalloc(1, sizeof *x);

    list_init(&x->ready);
    list_init(&x->runs);
    x->app = app;
    x->slots = o->slots;
    x->pauses = o->pauses;
    x->user = user;
    snprintf(x->name, sizeof x->name, "%s", o->name);
    list_push_tail(&app->ready, &x->ready);
    app->executors++;
    a->executors_n++;
    return x;
}

/* The offer's application goes into *app; NULL: it is none yet. */
static int check_attach(const struct apps *a, const struct executor_offer *offer, struct app **app, char *why,
                        size_t size)
{
    struct blob *name = blob_str(offer->app), *serves = served_by(offer);
    int err = check_offer(offer, why, size);

    *app = app_find(a, name, serves);
    if (!err)
        err = check_limits(a, offer->unbounded ? NULL : serves, !*app, why, size);
    blob_drop(name);
    blob_drop(serves);
    return err;
}

int apps_may_attach(const struct apps *a, const struct executor_offer *offer, char *why, size_t size)
{
    struct app *app;

    return check_attach(a, offer, &app, why, size);
}

int apps_attach(struct apps *a, int64_t now_us, const struct executor_offer *offer, void *user,
                struct executor **out, char *why, size_t size)
{
    struct app *app;
    int err = check_attach(a, offer, &app, why, size);

    if (err)
        return err;
    if (!app)
        app = app_new(a, offer);
    *out = executor_new(a, app, offer, user);
    if (app->attached++ == 0)
        tell_served(a, app, true);
    apps_serve(a, app, now_us);
    return 0;
}

void apps_drain(struct apps *a, int64_t now_us, struct executor *x)
{
    if (x->draining)
        return;
    executor_leaves(a, x, now_us);
    if (list_empty(&x->runs))
        a->fns.drained(x->user);
}

static struct blob *gone_text(const struct executor *x)
{
    char text[2 * LIMIT_NAME_BYTES + 100];

    snprintf(text, sizeof text, "its executor%s%s, of application %s, is gone", *x->name ? " " : "", x->name,
             x->app->name->data);
    return blob_str(text);
}

void apps_detach(struct apps *a, int64_t now_us, struct executor *x)
{
    struct app *app = x->app;

    executor_leaves(a, x, now_us);
    if (x->last && heap_in(&x->last->timer))
        heap_remove(&a->timers, &x->last->timer);
    while (!list_empty(&x->runs)) {
        struct run *r = container_of(x->runs.next, struct run, link);

        apps_pause_count(r, now_us);
        if (!r->over)
            apps_report_end(a, r, now_us, r->outcome != OUTCOME_NONE ? r->outcome : OUTCOME_LOST, 0,
                            gone_text(x));
        apps_run_drop(a, r);
    }
    free(x);
    a->executors_n--;
    if (--app->executors > 0)
        return;
    list_remove(&app->link);
    a->apps_n--;
    blob_drop(app->name);
    blob_drop(app->user);
    free(app);
}

bool executor_has(const struct executor *x, bool (*is)(void *arg, uint32_t run), void *arg)
{
    list_foreach(&x->runs, l, next) {
        const struct run *r = container_of(l, struct run, link);

        if (!r->over && is(arg, r->run))
            return true;
    }
    return false;
}
