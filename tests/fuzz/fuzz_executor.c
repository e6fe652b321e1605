/* What executors and workers say to each other: what is read is written and read again as the same. And
 * exec/apps under any sequence of attaching, leaving, answering, killing and time: every run ends once, after
 * it started or not at all. */
#include "base/check.h"
#include "base/units.h"
#include "exec/apps.h"
#include "net/attach.h"
#include "tests/fuzz/lib/input.h"

#include <stdlib.h>
#include <string.h>

/* ---- The wire form ---- */

static int on_hello(void *arg, const struct attach_hello *h)
{
    attach_put_hello(arg, h);
    return 0;
}
static int on_result(void *arg, const struct attach_result *r)
{
    attach_put_result(arg, r);
    return 0;
}
static int on_drain(void *arg)
{
    attach_put_drain(arg);
    return 0;
}
static int on_paused(void *arg, const struct attach_paused *p)
{
    attach_put_paused(arg, p);
    return 0;
}
static int on_attached(void *arg, struct span worker)
{
    char name[64];
    size_t n = worker.len < sizeof name - 1 ? worker.len : sizeof name - 1;

    memcpy(name, worker.data, n);
    name[n] = '\0';
    attach_put_attached(arg, name, 3);
    return 0;
}
static int on_task(void *arg, const struct attach_task *t)
{
    attach_put_task(arg, t);
    return 0;
}
static int on_cancel(void *arg, uint64_t id)
{
    attach_put_cancel(arg, id);
    return 0;
}

static int on_pause(void *arg, const struct attach_pause *p)
{
    attach_put_pause(arg, p);
    return 0;
}

typedef int read_fn(const void *data, size_t len, const struct attach_fns *fns, void *arg, char *why,
                    size_t size);

static void round_trip(read_fn *take, const uint8_t *data, size_t size)
{
    static const struct attach_fns fns = {on_hello,    on_result, on_drain,  on_paused,
                                          on_attached, on_task,   on_cancel, on_pause};
    struct codec_buf once = {0}, twice = {0};
    char why[200] = "";

    if (take(data, size, &fns, &once, why, sizeof why))
        CHECK(why[0]);
    CHECK(take(once.data, once.len, &fns, &twice, why, sizeof why) == 0);
    CHECK(once.len == twice.len && (once.len == 0 || memcmp(once.data, twice.data, once.len) == 0));
    codec_buf_free(&once);
    codec_buf_free(&twice);
}

/* ---- Who runs what ---- */

#define RUNS 64u
#define EXECUTORS 4u

struct world {
    struct apps *apps;
    struct job_desc *desc[2];
    struct executor *x[EXECUTORS];
    uint64_t ids[EXECUTORS][RUNS]; /* that it was given, some of them over */
    uint32_t ids_n[EXECUTORS];
    uint8_t state[RUNS]; /* of run i + 1: 0 not there, 1 asked for, 2 started */
    bool asked[RUNS];    /* it is to be paused, and no answer has come */
    bool served[2];
    int64_t now_us;
};
static struct world *world; /* what executors' callbacks, which have one of their own, are about */

static uint64_t given(void *user, const struct app_task *t)
{
    uint32_t i = (uint32_t)(uintptr_t)user;

    world->ids[i][world->ids_n[i]++ % RUNS] = t->id;
    return 0;
}
static void cancel(void *user, uint64_t id) {}
static void pause_it(void *user, uint64_t id, bool on) {}
static void drained(void *user) {}
static void stuck(void *user, const char *why)
{
    uint32_t i = (uint32_t)(uintptr_t)user;

    CHECK(*why);
    apps_detach(world->apps, world->now_us, world->x[i]);
    world->x[i] = NULL;
}

static void on_event(void *arg, const struct msg *m)
{
    if (m->type == MSG_EXEC_APP) {
        uint32_t app = m->exec_app.name->data[0] == 'b';

        CHECK(world->served[app] != m->exec_app.on);
        world->served[app] = m->exec_app.on;
    } else if (m->type == MSG_EXEC_STARTED) {
        CHECK(world->state[m->exec_started.run - 1] == 1);
        world->state[m->exec_started.run - 1] = 2;
    } else if (m->type == MSG_EXEC_PAUSED) {
        CHECK(world->asked[m->exec_paused.run - 1]); /* one answer */
        world->asked[m->exec_paused.run - 1] = false;
    } else {
        uint8_t *s = &world->state[m->exec_exited.run - 1];

        CHECK(*s == 1 || *s == 2);
        CHECK(m->exec_exited.code >= 0 || *s == 1); /* below 0: it never ran */
        CHECK(m->exec_exited.outcome != OUTCOME_EXITED || *s == 2);
        *s = 0;
        world->asked[m->exec_exited.run - 1] = false;
    }
}

static void attach(struct world *w, uint32_t i, struct input *in)
{
    struct executor_offer o = {.app = i % 2 ? "b" : "a", .name = "x", .pauses = i >= 2};
    char why[300];

    if (!w->x[i]) {
        o.slots = 1 + take_below(in, 3);
        (void)!apps_attach(w->apps, w->now_us, &o, (void *)(uintptr_t)i, &w->x[i], why, sizeof why);
    } else if (take_bool(in)) {
        apps_drain(w->apps, w->now_us, w->x[i]);
    } else {
        apps_detach(w->apps, w->now_us, w->x[i]);
        w->x[i] = NULL;
    }
}

static void ask(struct world *w, uint32_t i, uint32_t app)
{
    struct msg_exec_start m = {.run = i + 1, .desc = w->desc[app]};

    if (w->state[i])
        return;
    w->state[i] = 1;
    m.id.task = i;
    apps_run(w->apps, w->now_us, &m);
}

static void answer(struct world *w, uint32_t i, struct input *in)
{
    uint64_t id = w->ids[i][take_below(in, RUNS)];
    int32_t code = take_bool(in) ? 0 : 3;

    if (w->x[i])
        (void)!apps_result(w->apps, w->now_us, w->x[i], id, code, "word", take_below(in, 5));
}

/* The first answer of a pause may come at once. */
static void pause_or_resume(struct world *w, uint32_t i, struct input *in)
{
    bool was = w->asked[i];

    if (take_bool(in)) {
        w->asked[i] = true;
        if (apps_pause(w->apps, w->now_us, i + 1))
            w->asked[i] = was;
    } else {
        (void)!apps_resume(w->apps, w->now_us, i + 1);
        CHECK(!w->asked[i]);
    }
}

static void confirm(struct world *w, uint32_t i, struct input *in)
{
    uint64_t id = w->ids[i][take_below(in, RUNS)];

    if (w->x[i])
        CHECK(!apps_paused(w->apps, w->now_us, w->x[i], id, take_bool(in)) == (i >= 2));
}

static void one(struct world *w, struct input *in)
{
    uint32_t i = take_below(in, EXECUTORS), run = take_below(in, RUNS), passed;

    switch (take_below(in, 8)) {
    case 0:
        attach(w, i, in);
        break;
    case 1:
    case 2:
        ask(w, run, i % 2);
        break;
    case 3:
        answer(w, i, in);
        break;
    case 4:
        (void)!apps_kill(w->apps, w->now_us, run + 1, OUTCOME_CANCELLED, take_bool(in));
        break;
    case 5:
        pause_or_resume(w, run, in);
        break;
    case 6:
        confirm(w, i, in);
        break;
    default:
        passed = take_below(in, 101);
        w->now_us += passed == 100 ? US_PER_S : 1 + passed;
        apps_on_timeout(w->apps, w->now_us);
    }
}

static void sequence(struct input *in)
{
    static const struct apps_fns fns = {given, NULL, cancel, pause_it, drained, stuck, on_event};
    struct world w = {.apps = apps_new(50, &fns, NULL)};
    uint32_t left = 0;

    world = &w;
    for (int app = 0; app < 2; app++) {
        w.desc[app] = job_desc_new();
        w.desc[app]->tasks = RUNS;
        w.desc[app]->kind = PAYLOAD_APP;
        w.desc[app]->app = blob_str(app ? "b" : "a");
        w.desc[app]->time_limit_us = app ? 80 : 0;
    }
    while (input_left(in) > 0)
        one(&w, in);
    for (uint32_t i = 0; i < RUNS; i++)
        left += w.state[i] != 0;
    CHECK(left == apps_running(w.apps));
    for (uint32_t i = 0; i < EXECUTORS; i++)
        if (w.x[i])
            apps_detach(w.apps, w.now_us, w.x[i]);
    CHECK(apps_running(w.apps) == 0); /* with the last executor nothing waits */
    apps_free(w.apps);
    for (int app = 0; app < 2; app++) {
        CHECK(w.desc[app]->refs == 1);
        job_desc_drop(w.desc[app]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    if (data[0] == 0)
        round_trip(attach_from_executor, data + 1, size - 1);
    else if (data[0] == 1)
        round_trip(attach_from_worker, data + 1, size - 1);
    else
        sequence(&(struct input){data + 1, data + size});
    return 0;
}
