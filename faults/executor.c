/* Attached executors of a virtual cluster, at most one for each worker. exec/apps.c deals out their tasks, as it does
 * in daemons. Some offer to pause tasks, some do not. Of their answers to pauses and cancellations some come late, some
 * never, and some executors vanish while a task stands still. */
#include "faults/internal.h"

#include "base/mem.h"
#include "exec/exec.h"

#include <string.h>

#define KILL_GRACE_US US_PER_S
#define PROMPT_US (2 * US_PER_MS) /* a prompt answer takes less */
#define LATE_US (3 * US_PER_S)    /* and a late one less than this */

static struct cluster_run *run_of_id(const struct cluster_worker *w, uint64_t id)
{
    for (uint32_t i = 0; i < w->runs_n; i++)
        if (w->runs[i].app_id == id)
            return &w->runs[i];
    return NULL;
}

/* ---- What an executor is told ---- */

static uint64_t on_task(void *user, const struct app_task *t)
{
    struct cluster_worker *w = user;
    struct cluster_run *r = cluster_run_of(w, t->run);
    struct cluster *c = w->cluster;

    r->app_id = t->id;
    r->start_us = bus_now(c->bus);
    r->due_us = r->start_us + c->jobs[r->job]->tasks[t->try.task].duration_us;
    cluster_count_start(c, r);
    return 0;
}

/* One of eight executors answers later than the grace allows. */
static void on_cancel(void *user, uint64_t id)
{
    struct cluster_worker *w = user;
    struct cluster_run *r = run_of_id(w, id);
    struct rng *rng = &w->cluster->executors;

    r->cancelled = true;
    r->due_us = bus_now(w->cluster->bus) + (int64_t)rng_below(rng, rng_below(rng, 8) ? PROMPT_US : LATE_US);
}

/* A task that goes on may have said already that it stands still. */
static void on_pause(void *user, uint64_t id, bool on)
{
    struct cluster_worker *w = user;
    struct cluster_run *r = run_of_id(w, id);
    struct rng *rng = &w->cluster->executors;
    int64_t now_us = bus_now(w->cluster->bus);

    r->asked_us = on ? now_us : TIME_NEVER;
    if (!on) {
        cluster_thaw_run(w->cluster, r);
        r->answer_us = rng_below(rng, 2) ? r->answer_us : TIME_NEVER;
        return;
    }
    r->answer = (uint8_t)rng_below(rng, 8);
    r->answer_us = now_us + (int64_t)rng_below(rng, PROMPT_US);
    if (r->answer == ANSWER_LATE)
        r->answer_us = now_us + (int64_t)rng_below(rng, 2 * EXEC_CONFIRM_US);
    if (r->answer == ANSWER_NONE)
        r->answer_us = TIME_NEVER;
}

static void on_stuck(void *user, const char *why)
{
    struct cluster_worker *w = user;

    w->vanish_us = bus_now(w->cluster->bus);
}

/* The end of a run that its executor has not answered: it answers later, which changes nothing. */
static void answer_later(struct cluster_worker *w, const struct cluster_run *r)
{
    vec_grow(w->unanswered, w->unanswered_n, w->unanswered_cap);
    w->unanswered[w->unanswered_n++] = (struct cluster_unanswered){.id = r->app_id, .due_us = r->due_us};
}

static void on_event(void *arg, const struct msg *m)
{
    struct cluster_worker *w = arg;
    struct cluster_run *r = m->type == MSG_EXEC_EXITED ? cluster_run_of(w, m->exec_exited.run) : NULL;

    if (r && r->app_id)
        answer_later(w, r);
    if (r)
        *r = w->runs[--w->runs_n];
    if (!w->alive)
        return;
    msg_ref(m);
    cluster_post(w->cluster, w->ep, *m);
}

static const struct apps_fns fns = {
    .task = on_task, .cancel = on_cancel, .pause = on_pause, .stuck = on_stuck, .event = on_event};

/* ---- Coming and going ---- */

static void attach(struct cluster *c, struct cluster_worker *w)
{
    struct executor_offer offer = {
        .app = CLUSTER_APP, .name = "", .slots = w->slots, .pauses = rng_below(&c->executors, 4) > 0};
    char why[200];

    if (apps_attach(w->apps, bus_now(c->bus), &offer, w, &w->executor, why, sizeof why) != 0)
        cluster_fail(c, INVARIANT_EFFECTS, "an executor cannot attach: %s", why);
}

static void detach(struct cluster *c, struct cluster_worker *w)
{
    if (!w->executor)
        return;
    apps_detach(w->apps, bus_now(c->bus), w->executor);
    w->executor = NULL;
    w->unanswered_n = 0;
    w->vanish_us = TIME_NEVER;
}

void cluster_executors_start(struct cluster *c, struct cluster_worker *w)
{
    w->cluster = c;
    w->vanish_us = TIME_NEVER;
    w->apps = apps_new(KILL_GRACE_US, &fns, w);
    if (w->attached)
        attach(c, w);
}

void cluster_executors_end(struct cluster *c, struct cluster_worker *w)
{
    detach(c, w);
    apps_free(w->apps);
    w->apps = NULL;
}

void cluster_attach(struct cluster *c, uint32_t worker, bool on)
{
    struct cluster_worker *w = c->workers[worker];

    if (w->attached == on)
        return;
    w->attached = on;
    if (!w->apps)
        return;
    if (on)
        attach(c, w);
    else
        detach(c, w);
}

/* ---- What an executor says ---- */

static void answer_run(struct cluster *c, struct cluster_worker *w, uint64_t id, int32_t code,
                       const struct blob *result)
{
    const char *data = result ? result->data : NULL;
    size_t len = result ? result->len : 0;

    if (apps_result(w->apps, bus_now(c->bus), w->executor, id, code, data, len) != 0)
        cluster_fail(c, INVARIANT_EFFECTS, "an executor has ended a task that nobody knows of");
}

void cluster_executor_ends(struct cluster *c, struct cluster_worker *w, struct cluster_run *r)
{
    struct cluster_task *t = &c->jobs[r->job]->tasks[r->held.id.task];
    struct blob *result = cluster_result_of(c, r->job, r->held.id.task);
    int32_t code = r->cancelled ? 15 : t->code;
    uint64_t id = r->app_id;

    t->ends += !r->cancelled;
    r->app_id = 0;
    answer_run(c, w, id, code, result);
    blob_drop(result);
}

/* An answer that comes when the task was told to go on changes nothing. */
static void answer_pause(struct cluster *c, struct cluster_worker *w, struct cluster_run *r)
{
    int64_t now_us = bus_now(c->bus);
    bool refuses = r->answer == ANSWER_REFUSES;

    r->answer_us = TIME_NEVER;
    if (r->asked_us != TIME_NEVER && !refuses) {
        r->paused_us = now_us;
        r->due_us -= now_us;
        if (r->answer == ANSWER_AND_VANISHES)
            w->vanish_us = now_us + (int64_t)rng_below(&c->executors, US_PER_S);
    }
    r->asked_us = TIME_NEVER;
    if (apps_paused(w->apps, now_us, w->executor, r->app_id, refuses) != 0)
        cluster_fail(c, INVARIANT_EFFECTS, "an executor that did not offer to pause tasks was asked to");
}

/* The first thing that happens at the worker's executor by itself. */
struct next {
    int64_t at_us;
    uint32_t run, unanswered; /* index + 1; 0: none */
    bool vanishes;
};

static struct next next_of(const struct cluster_worker *w)
{
    struct next n = {.at_us = apps_next_timeout(w->apps)};

    for (uint32_t i = 0; i < w->runs_n; i++)
        if (w->runs[i].app_id && w->runs[i].answer_us < n.at_us)
            n = (struct next){.at_us = w->runs[i].answer_us, .run = i + 1};
    for (uint32_t i = 0; i < w->unanswered_n; i++)
        if (w->unanswered[i].due_us < n.at_us)
            n = (struct next){.at_us = w->unanswered[i].due_us, .unanswered = i + 1};
    if (w->vanish_us < n.at_us)
        n = (struct next){.at_us = w->vanish_us, .vanishes = true};
    n.at_us = n.at_us < w->frozen_us ? w->frozen_us : n.at_us; /* its machine stands still until then */
    return n;
}

int64_t cluster_executors_next(const struct cluster *c)
{
    int64_t at_us = TIME_NEVER;

    for (uint32_t i = 0; i < c->workers_n; i++)
        if (c->workers[i]->apps)
            at_us = earlier(at_us, next_of(c->workers[i]).at_us);
    return at_us;
}

static void happen(struct cluster *c, struct cluster_worker *w, const struct next *n)
{
    if (n->vanishes) {
        detach(c, w);
        if (w->attached)
            attach(c, w);
    } else if (n->run) {
        answer_pause(c, w, &w->runs[n->run - 1]);
    } else if (n->unanswered) {
        uint64_t id = w->unanswered[n->unanswered - 1].id;

        w->unanswered[n->unanswered - 1] = w->unanswered[--w->unanswered_n];
        answer_run(c, w, id, 15, NULL);
    } else {
        apps_on_timeout(w->apps, bus_now(c->bus));
    }
}

void cluster_executors_due(struct cluster *c)
{
    for (uint32_t i = 0; i < c->workers_n; i++) {
        struct cluster_worker *w = c->workers[i];
        struct next n = {.at_us = TIME_NEVER};

        if (w->apps)
            n = next_of(w);
        if (n.at_us <= bus_now(c->bus))
            happen(c, w, &n);
    }
}
