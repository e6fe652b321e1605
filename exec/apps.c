/* The runs of attached executors: see apps.h. A run is in one of three lists: the free list, its application's waiting
 * list, or its executor's. */
#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "exec/apps_impl.h"
#include "exec/exec.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK 256u /* runs in one allocation */
/* Bits of a task's id for the run's place; the other bits count the uses of that place. */
#define ID_INDEX_BITS 24u
/* An executor has at least this long to answer, however short kill_grace is. */
#define ANSWER_GRACE_MIN_US US_PER_S

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

/* The run that x means by that id; NULL: it has ended, is not x's, or has not left for x yet. */
static struct run *run_of_id(const struct apps *a, const struct executor *x, uint64_t id)
{
    uint64_t i = id & ((UINT64_C(1) << ID_INDEX_BITS) - 1);
    struct run *r = i / CHUNK < a->chunks_n ? &a->chunks[i / CHUNK][i % CHUNK] : NULL;

    if (!r || r->id != id || r->at != x)
        return NULL;
    return !a->fns.has_left || a->fns.has_left(x->user, r->message) ? r : NULL;
}

static struct run **bucket(struct apps *a, uint32_t run) { return &a->buckets[run % APPS_BUCKETS]; }

static struct run *run_find(const struct apps *a, uint32_t run)
{
    struct run *r = a->buckets[run % APPS_BUCKETS];

    while (r && r->run != run)
        r = r->chain;
    return r;
}

static void set_timer(struct apps *a, struct run *r, int64_t at_us)
{
    heap_set(&a->timers, &r->timer, at_us, ++a->seq);
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

void apps_report_end(struct apps *a, struct run *r, int64_t now_us, enum outcome outcome, int32_t code,
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

    apps_report_end(a, r, now_us, r->outcome, 0, NULL);
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

void apps_run_drop(struct apps *a, struct run *r)
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
    r->message = a->fns.task(x->user, &t);
    blob_drop(payload);
    job_desc_drop(d);
    blob_drop(r->arg);
    r->desc = NULL;
    r->arg = NULL;
    a->fns.event(a->arg, &m);
}

void apps_serve(struct apps *a, struct app *app, int64_t now_us)
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
    apps_serve(a, x->app, now_us);
}

/* ---- Pauses ---- */

static void tell_paused(struct apps *a, uint32_t run, int err)
{
    struct msg m = {.type = MSG_EXEC_PAUSED, .exec_paused = {.run = run, .err = err}};

    a->fns.event(a->arg, &m);
}

void apps_pause_count(struct run *r, int64_t now_us)
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
    apps_pause_count(r, now_us);
    await_limit(a, r);
    a->fns.pause(r->at->user, r->id, false);
    return asked;
}

int apps_paused(struct apps *a, int64_t now_us, struct executor *x, uint64_t id, bool refused)
{
    struct run *r = run_of_id(a, x, id);

    if (!x->pauses)
        return HAWK_EINVALID;
    if (!r || r->pause != PAUSE_ASKED)
        return 0;
    uint32_t run = r->run;
    if (refused) {
        apps_pause_count(r, now_us);
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

int apps_result(struct apps *a, int64_t now_us, struct executor *x, uint64_t id, int32_t code,
                const void *data, size_t len)
{
    struct run *r = run_of_id(a, x, id);
    enum outcome outcome = OUTCOME_EXITED;
    char text[100];

    if (!r)
        return HAWK_ENOT_FOUND;
    apps_pause_count(r, now_us);
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
        apps_report_end(a, r, now_us, outcome, outcome == OUTCOME_EXITED ? code : 0,
                        len ? blob_new(data, len) : NULL);
    apps_run_drop(a, r);
    free_place(a, x, now_us);
    return 0;
}

/* ---- Calls of the worker ---- */

/* A code below 0 says that it never started: launching it again costs no retry. */
void apps_lose_waiting(struct apps *a, struct run *r, int64_t now_us)
{
    apps_report_end(a, r, now_us, OUTCOME_LOST, HAWK_ENO_EXECUTOR, NULL);
    apps_run_drop(a, r);
}

void apps_run(struct apps *a, int64_t now_us, const struct msg_exec_start *m)
{
    struct app *app = apps_for(a, m->desc);
    struct msg refused = {.type = MSG_EXEC_EXITED,
                          .exec_exited = {.run = m->run, .outcome = OUTCOME_LOST, .code = HAWK_ENO_EXECUTOR}};

    if (!app || run_find(a, m->run)) {
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
    apps_serve(a, app, now_us);
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
        apps_lose_waiting(a, r, now_us);
    } else {
        apps_report_end(a, r, now_us, outcome, 0, NULL);
        apps_run_drop(a, r);
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
