/* Watching jobs. Changes gather per watch and leave as one event per turn of the loop, or later when the
 * client reads slowly. A watch costs some bytes per task of its job, however slow its client is. */
#include "api/internal.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

#define EVENT_TASKS_MAX 1000u          /* tasks in one event */
#define TASK_BYTES 5u                  /* per task of a watch with single tasks, when all have changed */
#define WATCHES_BYTES_MAX (256u << 20) /* of all watches; beyond: HAWK_ELIMIT */
#define COUNTS_US                                                                                            \
    (100 * US_PER_MS) /* how old counts of tasks may be for a client that does not want single tasks */

struct api_watch {
    struct api *api;
    struct rpc_call *call;
    struct api_user *user; /* whose limit it counts for; NULL: nobody's */
    job_id_t job;          /* JOB_NONE: only beats */
    uint32_t tasks_n;      /* the job's tasks; differs if the job was forgotten and another one has its id */
    bool tasks;            /* the client wants the news of each task */
    bool ended;            /* … of each that ends */
    bool results;          /* … and what it returned */
    bool beat_told;        /* how often beats come */
    int64_t sent_us;       /* the last event */
    bool full;             /* the call's queue is full: wait for `writable` */
    uint32_t *changed; /* changed tasks in the order of the changes; those from `told` on are not sent yet */
    uint32_t told, changed_n, changed_cap;
    uint8_t *is_changed; /* a bit per task */
    struct list in_dirty;
    struct list in_beating;
    struct list in_behind;  /* counts of tasks have changed, and the client wants only counts */
    struct api_watch *next; /* other watches of the same job */
    UT_hash_handle hh;      /* for the first watch of a job */
};

static struct api_watch *watches_of(struct api *a, job_id_t job)
{
    struct api_watch *w;
    HASH_FIND(hh, a->watches, &job, sizeof job, w);
    return w;
}

void api_feed_unwatch(struct api *a, job_id_t job)
{
    a->feed(a->arg, ROLE_DIST, &(struct msg){.type = MSG_WATCH, .watch = {.job = job}});
}

static void watch_add(struct api *a, struct api_watch *w)
{
    struct api_watch *first = watches_of(a, w->job);
    if (first) {
        w->next = first->next;
        first->next = w;
    } else {
        HASH_ADD(hh, a->watches, job, sizeof w->job, w);
    }
}

static void watch_remove(struct api *a, struct api_watch *w)
{
    struct api_watch *first = watches_of(a, w->job);
    if (w->is_changed)
        a->watches_bytes -= (uint64_t)TASK_BYTES * w->tasks_n;
    if (!first) {
        ; /* nothing but beats */
    } else if (first == w) {
        HASH_DEL(a->watches, w);
        if (w->next)
            HASH_ADD(hh, a->watches, job, sizeof w->job, w->next);
    } else {
        while (first->next != w)
            first = first->next;
        first->next = w->next;
    }
    list_remove(&w->in_dirty);
    list_remove(&w->in_beating);
    list_remove(&w->in_behind);
    api_user_unwatches(w->user);
    free(w->changed);
    free(w->is_changed);
    free(w);
}

static void mark_dirty(struct api_watch *w)
{
    if (!w->full && list_empty(&w->in_dirty))
        list_push_tail(&w->api->dirty, &w->in_dirty);
}

static void mark_task(struct api_watch *w, uint32_t task)
{
    if (task >= w->tasks_n || (w->is_changed[task / 8] & 1u << task % 8))
        return;
    w->is_changed[task / 8] |= (uint8_t)(1u << task % 8);
    api_make_room(w->changed, sizeof *w->changed, &w->told, &w->changed_n);
    vec_grow(w->changed, w->changed_n, w->changed_cap);
    w->changed[w->changed_n++] = task;
    mark_dirty(w);
}

void api_watch_task(struct api *a, job_id_t job, uint32_t task, bool ended)
{
    for (struct api_watch *w = watches_of(a, job); w; w = w->next)
        if (w->is_changed && (w->tasks || ended))
            mark_task(w, task);
        else if (list_empty(&w->in_behind))
            list_push_tail(&a->behind, &w->in_behind);
    if (!list_empty(&a->behind) && !loop_timer_is_set(&a->counts_timer))
        loop_timer_set(a->loop, &a->counts_timer, loop_now(a->loop) + COUNTS_US);
}

static void on_counts(void *arg)
{
    struct api *a = arg;
    while (!list_empty(&a->behind)) {
        struct api_watch *w = container_of(a->behind.next, struct api_watch, in_behind);
        list_remove(&w->in_behind);
        mark_dirty(w);
    }
}

void api_watch_job(struct api *a, job_id_t job)
{
    for (struct api_watch *w = watches_of(a, job); w; w = w->next)
        mark_dirty(w);
}

/* The watch is over: the job's end was sent, the client has gone, or the job is forgotten. */
static void end_watch(struct api_watch *w)
{
    struct api *a = w->api;
    job_id_t job = w->job;
    watch_remove(a, w);
    if (job.v)
        api_feed_unwatch(a, job);
}

static int put_event(struct api_watch *w, struct api_event *event)
{
    uint8_t *data;
    size_t len;
    if (!list_empty(&w->in_beating) && !w->beat_told)
        event->beat_us = API_BEAT_US;
    api_encode(api_methods[API_WATCH].reply, event, &data, &len);
    int err = rpc_send(w->call, data, len);
    free(data);
    if (!err) {
        w->beat_told = true;
        w->sent_us = loop_now(w->api->loop);
    }
    return err;
}

/* Fills in the next changed tasks, as many as fit one event. */
static uint32_t fill_tasks(const struct api_watch *w, const struct dist_job *j, struct api_event *event,
                           uint32_t n)
{
    size_t bytes = 0;
    for (; event->tasks_n < n; event->tasks_n++) {
        struct api_task *t = &event->tasks[event->tasks_n];
        api_task_fill(w->api, j, w->changed[w->told + event->tasks_n], w->results, t);
        bytes += t->result_n;
        if (bytes > API_PAGE_BYTES && event->tasks_n > 0)
            break;
    }
    return event->tasks_n;
}

/* Sends one event; false: there is nothing more to send now. */
static bool send_event(struct api_watch *w)
{
    struct api *a = w->api;
    const struct dist_job *j = dist_find(a->roles.dist, w->job);
    struct api_event event = {0};
    if (j)
        api_job_fill(a, j, &event.job);
    if (!j || event.job.tasks != w->tasks_n) {
        api_fail(w->call, HAWK_ENOT_FOUND, "the job was forgotten before its last events were read");
        end_watch(w);
        return false;
    }
    struct api_task tasks[64];
    uint32_t left = w->changed_n - w->told, n = left < EVENT_TASKS_MAX ? left : EVENT_TASKS_MAX;
    event.tasks = n <= 64 ? tasks : xcalloc(n, sizeof *event.tasks);
    n = fill_tasks(w, j, &event, n);
    int err = put_event(w, &event);
    if (event.tasks != tasks)
        free(event.tasks);
    if (err) {
        w->full = err == HAWK_ELIMIT; /* otherwise `cancelled` comes */
        return false;
    }
    for (uint32_t i = 0; i < n; i++, w->told++)
        w->is_changed[w->changed[w->told] / 8] &= (uint8_t) ~(1u << w->changed[w->told] % 8);
    if (w->told == w->changed_n)
        w->told = w->changed_n = 0;
    if (w->changed_n || !job_state_final(event.job.state))
        return w->changed_n > 0;
    rpc_finish(w->call);
    end_watch(w);
    return false;
}

void api_watch_flush(struct api *a)
{
    while (!list_empty(&a->dirty)) {
        struct api_watch *w = container_of(a->dirty.next, struct api_watch, in_dirty);
        list_remove(&w->in_dirty);
        while (send_event(w))
            ;
    }
}

static void on_cancelled(void *arg, struct rpc_call *c)
{
    struct api_watch *w = arg;
    rpc_finish(c);
    end_watch(w);
}

static void on_writable(void *arg, struct rpc_call *c)
{
    struct api_watch *w = arg;
    w->full = false;
    if (w->job.v)
        mark_dirty(w);
}

/* ---- Beats ---- */

/* A client that does not read what was sent hears it from gRPC's own pings whether we are there. */
static void on_beat(void *arg)
{
    struct api *a = arg;
    int64_t now = loop_now(a->loop);
    list_foreach(&a->beating, l, next) {
        struct api_watch *w = container_of(l, struct api_watch, in_beating);
        if (w->full || now - w->sent_us < API_BEAT_US / 2)
            continue;
        w->full = put_event(w, &(struct api_event){.beat_us = API_BEAT_US}) == HAWK_ELIMIT;
    }
    if (!list_empty(&a->beating))
        loop_timer_set(a->loop, &a->beat_timer, now + API_BEAT_US);
}

static void send_beat(struct api_watch *w)
{
    struct api *a = w->api;
    list_push_tail(&a->beating, &w->in_beating);
    if (!loop_timer_is_set(&a->beat_timer))
        loop_timer_set(a->loop, &a->beat_timer, loop_now(a->loop) + API_BEAT_US);
}

/* NULL, after failing the call: its user has too many. */
static struct api_watch *watch_new(struct api *a, struct rpc_call *c, const struct api_watch_request *r)
{
    struct api_user *user;
    if (!api_user_watches(a, c, &user))
        return NULL;
    struct api_watch *w = xcalloc(1, sizeof *w);
    *w = (struct api_watch){.api = a,
                            .call = c,
                            .user = user,
                            .job = r->job,
                            .tasks = r->tasks,
                            .ended = r->ended,
                            .results = r->results};
    list_init(&w->in_dirty);
    list_init(&w->in_beating);
    list_init(&w->in_behind);
    if (r->beats)
        send_beat(w);
    rpc_watch(c, on_cancelled, on_writable, w);
    return w;
}

void api_watch_init(struct api *a)
{
    list_init(&a->dirty);
    list_init(&a->beating);
    list_init(&a->behind);
    loop_timer_init(&a->beat_timer, on_beat, a);
    loop_timer_init(&a->counts_timer, on_counts, a);
}

/* ---- The call ---- */

void api_watch(struct api *a, struct rpc_call *c, void *request)
{
    const struct api_watch_request *r = request;
    if (r->beats && !r->job.v) {
        struct api_watch *w = watch_new(a, c, r);
        if (!w)
            return;
        w->full = put_event(w, &(struct api_event){0}) == HAWK_ELIMIT;
        return;
    }
    const struct dist_job *j = api_find_own_job(a, c, r->job);
    if (!j)
        return;
    if (r->epoch > EPOCH_LAST) {
        api_fail(c, HAWK_EINVALID, "WatchRequest.epoch: %u is more than %u", r->epoch, EPOCH_LAST);
        return;
    }
    struct job_view v;
    dist_job_view(a->roles.dist, j, loop_now(a->loop), &v);
    uint64_t bytes = r->tasks || r->ended ? (uint64_t)TASK_BYTES * v.desc->tasks : 0;
    if (a->watches_bytes + bytes > WATCHES_BYTES_MAX) {
        api_fail(c, HAWK_ELIMIT,
                 "clients hear of too many tasks one by one already, %u at most in all their watches: "
                 "watch the job without its tasks",
                 WATCHES_BYTES_MAX / TASK_BYTES);
        return;
    }
    struct api_watch *w = watch_new(a, c, r);
    if (!w)
        return;
    w->tasks_n = v.desc->tasks;
    w->is_changed = bytes ? xcalloc(v.desc->tasks / 8 + 1, 1) : NULL;
    a->watches_bytes += bytes;
    watch_add(a, w);
    struct msg on = {.type = MSG_WATCH,
                     .watch = {.job = r->job, .on = true, .epoch = (uint16_t)r->epoch, .key = r->key}};
    a->feed(a->arg, ROLE_DIST, &on);
    /* What ends from now on is told. Starts with the job as it is: every task that is not waiting any more. */
    j = dist_find(a->roles.dist, r->job);
    for (uint32_t i = 0; j && w->is_changed && i < w->tasks_n; i++) {
        struct task_view t;
        dist_task_view(a->roles.dist, j, i, loop_now(a->loop), &t);
        if (r->tasks ? t.state != TASK_WAITING : task_state_final(t.state))
            mark_task(w, i);
    }
    mark_dirty(w);
}

void api_watch_free(struct api *a)
{
    struct api_watch *w, *tmp;
    loop_timer_clear(a->loop, &a->beat_timer);
    loop_timer_clear(a->loop, &a->counts_timer);
    list_foreach(&a->beating, l, next) {
        w = container_of(l, struct api_watch, in_beating);
        if (w->job.v)
            continue;
        api_fail(w->call, HAWK_EUNAVAILABLE, "%s " API_GOING_TEXT, a->roles.name);
        watch_remove(a, w);
    }
    HASH_ITER(hh, a->watches, w, tmp) {
        while (w->next) {
            api_fail(w->next->call, HAWK_EUNAVAILABLE, "%s " API_GOING_TEXT, a->roles.name);
            watch_remove(a, w->next);
        }
        api_fail(w->call, HAWK_EUNAVAILABLE, "%s " API_GOING_TEXT, a->roles.name);
        watch_remove(a, w);
    }
}
