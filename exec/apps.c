/* Attached executors: see apps.h. A run is in one of three lists: the free list, its application's waiting
 * list, or its executor's. */
#include "exec/apps.h"

#include "base/check.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/units.h"
#include "exec/exec.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK 256u    /* runs in one allocation */
#define BUCKETS 4096u /* hash table of runs by number; callers number them by slot, mostly */
/* Bits of a task's id for the run's place; the other bits count the uses of that place. */
#define ID_INDEX_BITS 24u
/* An executor has at least this long to answer, however short kill_grace is. */
#define ANSWER_GRACE_MIN_US US_PER_S

/*   RUNS --apps_pause--> ASKED --apps_paused--> STILL
 *   Back to RUNS by apps_resume(), when it is to end or has ended; from ASKED also when the executor refuses,
 *   or does not answer in time. */
enum pause { PAUSE_RUNS, PAUSE_ASKED, PAUSE_STILL };

struct run {
    struct list link;
    struct run *chain; /* next in its bucket */
    /* Fires at its time limit, when its executor has not confirmed a pause in time, or at the end of its
     * grace; once over, at the end of its executor's grace. */
    struct heap_node timer;
    struct executor *at; /* NULL: it waits */
    struct app *app;
    struct job_desc *desc; /* NULL unless it waits */
    struct blob *arg;      /* NULL unless it waits */
    struct try_id try;
    int64_t started_us, limit_us; /* limit_us: its time limit is over, or TIME_NEVER; both without pauses */
    int64_t still_us;             /* STILL: since then */
    uint64_t id;
    uint32_t run;    /* the caller's number */
    uint8_t outcome; /* how it must end; OUTCOME_NONE: by itself */
    uint8_t pause;   /* enum pause; RUNS once its outcome is decided */
    bool over;       /* its end is reported; only its executor's answer is missing */
};

struct app {
    struct list link; /* in apps.all */
    struct blob *name;
    uint64_t id;
    struct list ready;   /* executors with room */
    struct list waiting; /* runs */
    uint32_t attached;   /* executors that take tasks */
    uint32_t executors;  /* all executors */
};

struct executor {
    struct list ready; /* in app.ready while the executor has room */
    struct app *app;
    struct list runs;
    uint32_t slots;
    uint32_t busy; /* its runs that take a place: all that do not stand still; may be more than slots */
    uint32_t over; /* runs that are over; each still takes a place */
    /* Set while such runs take all places: the last of them. When its timer fires, the executor is stuck. */
    struct run *last;
    bool draining, pauses;
    void *user;
    char name[LIMIT_NAME_BYTES + 1];
};

struct apps {
    struct apps_fns fns;
    void *arg;
    int64_t kill_grace_us;
    struct list all; /* struct app */
    uint32_t apps_n, executors_n, runs_n;
    struct run **chunks;
    uint32_t chunks_n, chunks_cap;
    struct list unused; /* runs */
    struct run *buckets[BUCKETS];
    struct heap timers;
    uint64_t seq;
};

/* ---- Runs ---- */

static struct run *run_new(struct apps *a)
{
    if (list_empty(&a->unused)) {
        struct run *chunk = xcalloc(CHUNK, sizeof *chunk);

        vec_grow(a->chunks, a->chunks_n, a->chunks_cap);
        for (uint32_t i = 0; i < CHUNK; i++) {
            chunk[i].id = (uint64_t)a->chunks_n * CHUNK + i;
            list_push_tail(&a->unused, &chunk[i].link);
        }
        a->chunks[a->chunks_n++] = chunk;
    }
    struct run *r = container_of(a->unused.next, struct run, link);
    list_remove(&r->link);
    r->id += UINT64_C(1) << ID_INDEX_BITS;
    return r;
}

/* The run that an executor means by that id; NULL: it has ended, or never was. */
static struct run *run_of_id(const struct apps *a, uint64_t id)
{
    uint64_t i = id & ((UINT64_C(1) << ID_INDEX_BITS) - 1);
    struct run *r = i / CHUNK < a->chunks_n ? &a->chunks[i / CHUNK][i % CHUNK] : NULL;

    return r && r->id == id && r->at ? r : NULL;
}

static struct run **bucket(struct apps *a, uint32_t run) { return &a->buckets[run % BUCKETS]; }

static struct run *run_find(const struct apps *a, uint32_t run)
{
    struct run *r = a->buckets[run % BUCKETS];

    while (r && r->run != run)
        r = r->chain;
    return r;
}

static void set_timer(struct apps *a, struct run *r, int64_t at_us)
{
    if (heap_in(&r->timer))
        heap_remove(&a->timers, &r->timer);
    r->timer.key = at_us;
    r->timer.seq = ++a->seq;
    CHECK(heap_push(&a->timers, &r->timer) == 0);
}

/* Frees the run's number: the caller may use it again. */
static void forget_number(struct apps *a, struct run *r)
{
    struct run **at = bucket(a, r->run);

    while (*at != r)
        at = &(*at)->chain;
    *at = r->chain;
    r->over = true;
    a->runs_n--;
    if (heap_in(&r->timer))
        heap_remove(&a->timers, &r->timer);
    job_desc_drop(r->desc);
    blob_drop(r->arg);
    r->desc = NULL;
    r->arg = NULL;
}

/* Reports the end of a run, once. Takes over the reference on `result`. */
static void report_end(struct apps *a, struct run *r, int64_t now_us, enum outcome outcome, int32_t code,
                       struct blob *result)
{
    struct msg m = {.type = MSG_EXEC_EXITED};

    m.exec_exited.run = r->run;
    m.exec_exited.outcome = (uint8_t)outcome;
    m.exec_exited.code = code;
    m.exec_exited.run_us = r->at ? now_us - r->started_us : 0;
    m.exec_exited.result = result;
    forget_number(a, r);
    a->fns.event(a->arg, &m);
    blob_drop(result);
}

/* Its executor's grace begins: runs that are over take all places, and r is one of them. */
static void begin_stuck(struct apps *a, struct run *r, int64_t now_us)
{
    r->at->last = r;
    set_timer(a, r,
              now_us + (a->kill_grace_us > ANSWER_GRACE_MIN_US ? a->kill_grace_us : ANSWER_GRACE_MIN_US));
}

/* Reports the end of a run that its executor has not answered. The run keeps its place. */
static void give_up(struct apps *a, struct run *r, int64_t now_us)
{
    struct executor *x = r->at;

    report_end(a, r, now_us, r->outcome, 0, NULL);
    if (++x->over >= x->slots && !x->last)
        begin_stuck(a, r, now_us);
}

/* The executor has answered r, which is over. */
static void answered_late(struct apps *a, struct executor *x, const struct run *r, int64_t now_us)
{
    if (x->last)
        heap_remove(&a->timers, &x->last->timer);
    x->last = NULL;
    if (--x->over < x->slots)
        return;
    list_foreach(&x->runs, l, next) {
        struct run *other = container_of(l, struct run, link);

        if (other != r && other->over && !x->last)
            begin_stuck(a, other, now_us);
    }
}

/* Frees the run. No executor has it any more. */
static void run_drop(struct apps *a, struct run *r)
{
    CHECK(r->over && !heap_in(&r->timer));
    list_remove(&r->link);
    r->at = NULL;
    list_push_head(&a->unused, &r->link);
}

/* ---- Dealing runs to executors ---- */

static void await_limit(struct apps *a, struct run *r)
{
    if (r->limit_us != TIME_NEVER)
        set_timer(a, r, r->limit_us);
    else if (heap_in(&r->timer))
        heap_remove(&a->timers, &r->timer);
}

static void give_run(struct apps *a, struct executor *x, struct run *r, int64_t now_us)
{
    struct job_desc *d = r->desc;
    struct blob *payload = job_desc_payload(d, r->arg);
    struct app_task t = {.id = r->id, .run = r->run, .try = r->try, .desc = d, .payload = payload};
    struct msg m = {.type = MSG_EXEC_STARTED, .exec_started = {.run = r->run}};

    CHECK(d);
    list_remove(&r->link);
    list_push_tail(&x->runs, &r->link);
    r->at = x;
    r->started_us = now_us;
    list_remove(&x->ready);
    if (++x->busy < x->slots)
        list_push_tail(&x->app->ready, &x->ready); /* the executors take turns */
    r->limit_us = d->time_limit_us > 0 ? now_us + d->time_limit_us : TIME_NEVER;
    await_limit(a, r);
    a->fns.task(x->user, &t);
    blob_drop(payload);
    job_desc_drop(d);
    blob_drop(r->arg);
    r->desc = NULL;
    r->arg = NULL;
    a->fns.event(a->arg, &m);
}

static void serve_waiting(struct apps *a, struct app *app, int64_t now_us)
{
    while (!list_empty(&app->waiting) && !list_empty(&app->ready))
        give_run(a, container_of(app->ready.next, struct executor, ready),
                 container_of(app->waiting.next, struct run, link), now_us);
}

/* A place of x is free again: a run of it has been answered, or stands still. */
static void free_place(struct apps *a, struct executor *x, int64_t now_us)
{
    x->busy--;
    if (x->draining) {
        if (list_empty(&x->runs))
            a->fns.drained(x->user);
        return;
    }
    if (x->busy < x->slots && list_empty(&x->ready))
        list_push_tail(&x->app->ready, &x->ready);
    serve_waiting(a, x->app, now_us);
}

/* ---- Pauses ---- */

static void tell_paused(struct apps *a, uint32_t run, int err)
{
    struct msg m = {.type = MSG_EXEC_PAUSED, .exec_paused = {.run = run, .err = err}};

    a->fns.event(a->arg, &m);
}

/* The run is not paused any more, and takes a place. */
static void count_pause(struct run *r, int64_t now_us)
{
    if (r->pause == PAUSE_STILL) {
        r->started_us += now_us - r->still_us;
        r->limit_us = r->limit_us == TIME_NEVER ? TIME_NEVER : r->limit_us + now_us - r->still_us;
        if (++r->at->busy >= r->at->slots)
            list_remove(&r->at->ready);
    }
    r->pause = PAUSE_RUNS;
}

/* Lets the run go on if it was to stand still. Returns whether the caller has to report that. */
static bool go_on(struct apps *a, struct run *r, int64_t now_us)
{
    bool asked = r->pause == PAUSE_ASKED;

    if (r->pause == PAUSE_RUNS)
        return false;
    count_pause(r, now_us);
    await_limit(a, r);
    a->fns.pause(r->at->user, r->id, false);
    return asked;
}

int apps_paused(struct apps *a, int64_t now_us, struct executor *x, uint64_t id, bool refused)
{
    struct run *r = run_of_id(a, id);

    if (!x->pauses)
        return HAWK_EINVALID;
    if (!r || r->at != x || r->pause != PAUSE_ASKED)
        return 0;
    uint32_t run = r->run;
    if (refused) {
        count_pause(r, now_us);
        await_limit(a, r);
    } else {
        r->pause = PAUSE_STILL;
        r->still_us = now_us;
        heap_remove(&a->timers, &r->timer);
        free_place(a, x, now_us);
    }
    tell_paused(a, run, refused ? HAWK_EUNSUPPORTED : 0); /* comes last: it may start and end runs */
    return 0;
}

int apps_pause(struct apps *a, int64_t now_us, uint32_t run)
{
    struct run *r = run_find(a, run);

    if (!r || (r->at && !r->at->pauses))
        return HAWK_EUNSUPPORTED;
    if (!r->at || r->outcome != OUTCOME_NONE)
        return HAWK_EBUSY;
    if (r->pause == PAUSE_STILL)
        tell_paused(a, run, 0);
    if (r->pause != PAUSE_RUNS)
        return 0;
    r->pause = PAUSE_ASKED;
    set_timer(a, r, earlier(r->limit_us, now_us + EXEC_CONFIRM_US));
    a->fns.pause(r->at->user, r->id, true);
    return 0;
}

bool apps_resume(struct apps *a, int64_t now_us, uint32_t run)
{
    struct run *r = run_find(a, run);

    if (r && r->at && go_on(a, r, now_us))
        tell_paused(a, run, HAWK_EBUSY);
    return r != NULL;
}

static void undo_pause(struct apps *a, struct run *r, int64_t now_us)
{
    const struct executor *x = r->at;

    log_warn("executor %s%sof application %s did not say within %d ms that a task stands still: it goes on",
             x->name, *x->name ? " " : "", x->app->name->data, (int)(EXEC_CONFIRM_US / US_PER_MS));
    if (go_on(a, r, now_us))
        tell_paused(a, r->run, HAWK_EBUSY);
}

/* ---- Applications ---- */

static struct app *app_find(const struct apps *a, uint64_t id)
{
    list_foreach(&a->all, l, next)
        if (container_of(l, struct app, link)->id == id)
            return container_of(l, struct app, link);
    return NULL;
}

static struct app *app_new(struct apps *a, const char *name)
{
    struct app *app = xcalloc(1, sizeof *app);

    app->name = blob_str(name);
    app->id = app_id(app->name);
    list_init(&app->ready);
    list_init(&app->waiting);
    list_push_tail(&a->all, &app->link);
    a->apps_n++;
    return app;
}

static void tell_served(struct apps *a, const struct app *app, bool on)
{
    struct msg m = {.type = MSG_EXEC_APP, .exec_app = {.name = app->name, .on = on}};

    a->fns.event(a->arg, &m);
}

/* Ends a waiting run. A code below 0 says that it never started: launching it again costs no retry. */
static void lose_waiting(struct apps *a, struct run *r, int64_t now_us)
{
    report_end(a, r, now_us, OUTCOME_LOST, HAWK_ENO_EXECUTOR, NULL);
    run_drop(a, r);
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
        lose_waiting(a, container_of(app->waiting.next, struct run, link), now_us);
}

/* ---- Executors ---- */

int apps_attach(struct apps *a, int64_t now_us, const struct executor_offer *offer, void *user,
                struct executor **out, char *why, size_t size)
{
    const char *name = offer->app, *executor = offer->name;
    uint32_t slots = offer->slots;
    struct blob *key = blob_str(name);
    struct app *app = app_find(a, app_id(key));
    struct executor *x;
    int err = 0;

    blob_drop(key);
    if (!*name || strlen(name) > LIMIT_NAME_BYTES) {
        snprintf(why, size, "hello.app: an application's name has 1 to %u bytes", LIMIT_NAME_BYTES);
        err = HAWK_EINVALID;
    } else if (strlen(executor) > LIMIT_NAME_BYTES) {
        snprintf(why, size, "hello.name: an executor's name has at most %u bytes", LIMIT_NAME_BYTES);
        err = HAWK_EINVALID;
    } else if (slots == 0 || slots > LIMIT_SLOTS) {
        snprintf(why, size, "hello.slots: %" PRIu32 " tasks at once: give 1 to %u", slots, LIMIT_SLOTS);
        err = HAWK_EINVALID;
    } else if (a->executors_n == APPS_EXECUTORS_MAX) {
        snprintf(why, size,
                 "%u executors are attached to this worker, its limit: attach fewer, with more slots each",
                 a->executors_n);
        err = HAWK_ELIMIT;
    } else if (!app && a->apps_n == LIMIT_WORKER_APPS) {
        snprintf(why, size, "this worker serves %u applications, its limit: attach to another worker",
                 a->apps_n);
        err = HAWK_ELIMIT;
    }
    if (err)
        return err;
    if (!app)
        app = app_new(a, name);
    x = xcalloc(1, sizeof *x);
    list_init(&x->ready);
    list_init(&x->runs);
    x->app = app;
    x->slots = slots;
    x->pauses = offer->pauses;
    x->user = user;
    snprintf(x->name, sizeof x->name, "%s", executor);
    list_push_tail(&app->ready, &x->ready);
    app->executors++;
    a->executors_n++;
    *out = x;
    if (app->attached++ == 0)
        tell_served(a, app, true);
    serve_waiting(a, app, now_us);
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

        count_pause(r, now_us);
        if (!r->over)
            report_end(a, r, now_us, r->outcome != OUTCOME_NONE ? r->outcome : OUTCOME_LOST, 0, gone_text(x));
        run_drop(a, r);
    }
    free(x);
    a->executors_n--;
    if (--app->executors > 0)
        return;
    list_remove(&app->link);
    a->apps_n--;
    blob_drop(app->name);
    free(app);
}

int apps_result(struct apps *a, int64_t now_us, struct executor *x, uint64_t id, int32_t code,
                const void *data, size_t len)
{
    struct run *r = run_of_id(a, id);
    enum outcome outcome = OUTCOME_EXITED;
    char text[100];

    if (!r || r->at != x)
        return HAWK_ENOT_FOUND;
    count_pause(r, now_us);
    if (r->outcome == OUTCOME_TIME_LIMIT || (r->outcome != OUTCOME_NONE && code != 0))
        outcome = r->outcome;
    if (code == 0 && len > LIMIT_RESULT_BYTES) {
        len = (size_t)snprintf(text, sizeof text, "it returned %zu bytes, the limit is %u", len,
                               LIMIT_RESULT_BYTES);
        data = text;
        code = 1;
    }
    if (code != 0 && len > MESSAGE_BYTES_MAX)
        len = MESSAGE_BYTES_MAX;
    if (r->over)
        answered_late(a, x, r, now_us);
    else
        report_end(a, r, now_us, outcome, outcome == OUTCOME_EXITED ? code : 0,
                   len ? blob_new(data, len) : NULL);
    run_drop(a, r);
    free_place(a, x, now_us);
    return 0;
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

/* ---- Calls of the worker ---- */

void apps_run(struct apps *a, int64_t now_us, const struct msg_exec_start *m)
{
    struct app *app = app_find(a, job_desc_app(m->desc));
    struct msg refused = {.type = MSG_EXEC_EXITED,
                          .exec_exited = {.run = m->run, .outcome = OUTCOME_LOST, .code = HAWK_ENO_EXECUTOR}};

    if (!app || app->attached == 0 || run_find(a, m->run)) {
        a->fns.event(a->arg, &refused);
        return;
    }
    struct run *r = run_new(a);
    r->app = app;
    r->at = NULL;
    r->desc = job_desc_ref(m->desc);
    r->arg = blob_ref(m->arg);
    r->try = m->id;
    r->run = m->run;
    r->outcome = OUTCOME_NONE;
    r->pause = PAUSE_RUNS;
    r->over = false;
    r->chain = *bucket(a, m->run);
    *bucket(a, m->run) = r;
    a->runs_n++;
    list_push_tail(&app->waiting, &r->link);
    serve_waiting(a, app, now_us);
}

/* Begins to end a run, and tells its executor, once. */
static void begin_end(struct apps *a, struct run *r, enum outcome outcome, int64_t now_us, bool force)
{
    bool first = r->outcome == OUTCOME_NONE, asked = false;

    if (first) {
        r->outcome = (uint8_t)outcome;
        asked = go_on(a, r, now_us);
        a->fns.cancel(r->at->user, r->id);
    }
    if (force || a->kill_grace_us <= 0)
        give_up(a, r, now_us);
    else if (first)
        set_timer(a, r, now_us + a->kill_grace_us);
    if (asked && !r->over)
        tell_paused(a, r->run, HAWK_EBUSY);
}

bool apps_kill(struct apps *a, int64_t now_us, uint32_t run, enum outcome outcome, bool force)
{
    struct run *r = run_find(a, run);

    if (!r)
        return false;
    if (r->at) {
        begin_end(a, r, outcome, now_us, force);
    } else if (outcome == OUTCOME_LOST) {
        lose_waiting(a, r, now_us);
    } else {
        report_end(a, r, now_us, outcome, 0, NULL);
        run_drop(a, r);
    }
    return true;
}

int64_t apps_next_timeout(const struct apps *a)
{
    const struct heap_node *first = heap_min(&a->timers);

    return first ? first->key : TIME_NEVER;
}

static void say_stuck(struct apps *a, struct executor *x)
{
    char text[2 * LIMIT_NAME_BYTES + 300];

    x->last = NULL;
    snprintf(text, sizeof text,
             "executor %s%sof application %s holds %" PRIu32
             " task%s that ended without its answer (cancelled, or beyond a time "
             "limit), as many as it takes: it counts as gone. Answer tasks that are to end, or attach again "
             "with a "
             "process that does",
             x->name, *x->name ? " " : "", x->app->name->data, x->over, x->over == 1 ? "" : "s");
    a->fns.stuck(x->user, text);
}

void apps_on_timeout(struct apps *a, int64_t now_us)
{
    while (apps_next_timeout(a) <= now_us) {
        struct run *r = container_of(heap_min(&a->timers), struct run, timer);

        heap_remove(&a->timers, &r->timer);
        if (r->over)
            say_stuck(a, r->at);
        else if (r->pause == PAUSE_ASKED && now_us < r->limit_us)
            undo_pause(a, r, now_us);
        else if (r->outcome == OUTCOME_NONE)
            begin_end(a, r, OUTCOME_TIME_LIMIT, now_us, false);
        else
            give_up(a, r, now_us);
    }
}

bool apps_has(const struct apps *a, uint32_t run) { return run_find(a, run) != NULL; }

uint32_t apps_running(const struct apps *a) { return a->runs_n; }

/* ---- Making and freeing ---- */

struct apps *apps_new(int64_t kill_grace_us, const struct apps_fns *fns, void *arg)
{
    struct apps *a = xcalloc(1, sizeof *a);

    a->fns = *fns;
    a->arg = arg;
    a->kill_grace_us = kill_grace_us;
    list_init(&a->all);
    list_init(&a->unused);
    heap_init(&a->timers);
    return a;
}

void apps_set_event(struct apps *a, void (*event)(void *arg, const struct msg *m)) { a->fns.event = event; }

static void runs_free(struct apps *a)
{
    for (uint32_t i = 0; i < a->chunks_n; i++)
        for (uint32_t k = 0; k < CHUNK; k++) {
            job_desc_drop(a->chunks[i][k].desc);
            blob_drop(a->chunks[i][k].arg);
        }
}

void apps_free(struct apps *a)
{
    if (!a)
        return;
    runs_free(a);
    for (uint32_t i = 0; i < a->chunks_n; i++)
        free(a->chunks[i]);
    free(a->chunks);
    heap_free(&a->timers);
    CHECK(a->executors_n == 0); /* detach all executors first */
    free(a);
}
