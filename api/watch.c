/* Watching jobs. Changes gather in a log per job (watch_log.h). A watch has one event under way at a time: what happens
 * meanwhile leaves as the next one. Turns of the loop are short, and users take turns (fair.h), however many watches
 * there are, of however many tasks. */
#include "api/internal.h"
#include "api/watch_log.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

#define EVENT_TASKS_MAX 1000u /* tasks in one event */
#define EVENT_LOOKS_MAX                                                                                      \
    10000u /* that a watch looks at in its turn: most of them may be no news for its client */
/* What one turn of the loop spends on watches, about a millisecond. A task that is looked at costs 1, and an event
 * EVENT_COST and 1 for each EVENT_COST_BYTES. */
#define TURN_BUDGET 50000u
#define EVENT_COST 400u
#define EVENT_COST_BYTES 4u
#define LOGS_BYTES_MAX (256u << 20) /* of all jobs; beyond: HAWK_ELIMIT */
#define COUNTS_US                                                                                            \
    (100 * US_PER_MS) /* how old counts of tasks may be for a client that does not want single tasks */

/* What a watch's client hears at once. Of what happened to other tasks it gets the counts after COUNTS_US. Each hears
 * what those before it hear. */
enum hears { HEARS_JOB, HEARS_ENDS, HEARS_TASKS, HEARS_COUNT };

/* A job that is watched. Each watch is in one of `quiet`, `behind`, its user's queue (it has something to say), or in
 * none (`full`). */
struct watched {
    job_id_t job;
    struct list all;
    struct list quiet[HEARS_COUNT]; /* they have said all */
    struct list
        behind[HEARS_COUNT]; /* counts of tasks have changed, and the client need not hear that at once */
    enum hears
        news; /* these and those after it have something to say at once; HEARS_COUNT: only counts have changed */
    struct list in_changed, in_behind;
    uint64_t bytes; /* that its log may need */
    struct watch_log log;
    UT_hash_handle hh;
};

struct api_watch {
    struct api *api;
    struct rpc_call *call;
    struct api_user *user;   /* whose limit it counts for; NULL: nobody's */
    struct watched *watched; /* NULL: only beats */
    enum hears hears;
    bool results;    /* the client wants what tasks returned */
    bool beat_told;  /* how often beats come */
    int64_t sent_us; /* the last event */
    bool full;       /* the call's queue is full: wait for `writable` */
    struct list in_all;
    struct list in_job; /* see struct watched */
    struct list in_beating;
    struct watch_reader reader; /* of the job's log, unless it hears of no task */
};

static struct watched *watched_find(struct api *a, job_id_t job)
{
    struct watched *j;
    HASH_FIND(hh, a->watched, &job, sizeof job, j);
    return j;
}

void api_feed_unwatch(struct api *a, job_id_t job)
{
    a->feed(a->arg, ROLE_DIST, &(struct msg){.type = MSG_WATCH, .watch = {.job = job}});
}

static struct watched *watched_new(struct api *a, job_id_t job, uint32_t tasks)
{
    struct watched *j = xcalloc(1, sizeof *j);
    j->job = job;
    j->news = HEARS_COUNT;
    list_init(&j->all);
    for (int i = 0; i < HEARS_COUNT; i++) {
        list_init(&j->quiet[i]);
        list_init(&j->behind[i]);
    }
    list_init(&j->in_changed);
    list_init(&j->in_behind);
    watch_log_init(&j->log, tasks);
    HASH_ADD(hh, a->watched, job, sizeof j->job, j);
    return j;
}

static void watch_remove(struct api *a, struct api_watch *w)
{
    struct watched *j = w->watched;
    list_remove(&w->in_job); /* perhaps one of j's lists */
    list_remove(&w->in_beating);
    if (j) {
        watch_log_leave(&j->log, &w->reader);
        if (list_empty(&j->log.readers)) {
            a->logs_bytes -= j->bytes;
            j->bytes = 0;
        }
        list_remove(&w->in_all);
        if (list_empty(&j->all)) {
            list_remove(&j->in_changed);
            list_remove(&j->in_behind);
            HASH_DEL(a->watched, j);
            free(j);
        }
    }
    api_user_unwatches(w->user);
    free(w);
}

static void has_news(struct api_watch *w)
{
    list_remove(&w->in_job);
    fair_push(&w->api->fair, api_user_queue(w->api, w->user), &w->in_job);
}

static void all_have_news(struct list *watches)
{
    list_foreach(watches, l, next)
        has_news(container_of(l, struct api_watch, in_job));
}

static void move_all(struct list *to, struct list *from)
{
    list_foreach(from, l, next) {
        list_remove(l);
        list_push_tail(to, l);
    }
}

static void job_changed(struct api *a, struct watched *j, enum hears news)
{
    if (news < j->news)
        j->news = news;
    if (list_empty(&j->in_changed))
        list_push_tail(&a->changed, &j->in_changed);
}

void api_watch_task(struct api *a, job_id_t job, uint32_t task, bool ended)
{
    struct watched *j = watched_find(a, job);
    if (!j)
        return;
    watch_log_add(&j->log, task);
    job_changed(a, j, ended ? HEARS_ENDS : HEARS_TASKS);
}

void api_watch_job(struct api *a, job_id_t job)
{
    struct watched *j = watched_find(a, job);
    if (j)
        job_changed(a, j, HEARS_JOB);
}

/* Moves the quiet watches of a job that has changed to where they have something to say, at once or later. Each has
 * said all since it was moved the last time. */
static void wake_watches(struct api *a, struct watched *j)
{
    for (enum hears h = 0; h < HEARS_COUNT; h++) {
        if (h >= j->news) {
            all_have_news(&j->quiet[h]);
            all_have_news(&j->behind[h]);
        } else if (!list_empty(&j->quiet[h])) {
            move_all(&j->behind[h], &j->quiet[h]);
            if (list_empty(&j->in_behind))
                list_push_tail(&a->behind, &j->in_behind);
        }
    }
    j->news = HEARS_COUNT;
    list_remove(&j->in_changed);
    if (!list_empty(&a->behind) && !loop_timer_is_set(&a->counts_timer))
        loop_timer_set(a->loop, &a->counts_timer, loop_now(a->loop) + COUNTS_US);
}

static void on_counts(void *arg)
{
    struct api *a = arg;
    while (!list_empty(&a->behind)) {
        struct watched *j = container_of(a->behind.next, struct watched, in_behind);
        for (int h = 0; h < HEARS_COUNT; h++)
            all_have_news(&j->behind[h]);
        list_remove(&j->in_behind);
    }
}

/* The watch is over: the job's end was sent, or the client has gone. */
static void end_watch(struct api_watch *w)
{
    struct api *a = w->api;
    job_id_t job = w->watched ? w->watched->job : JOB_NONE;
    watch_remove(a, w);
    if (job.v)
        api_feed_unwatch(a, job);
}

/* The dist is not told: another job may have this id by now, and would lose a watcher. */
static void end_forgotten(struct api_watch *w)
{
    api_fail(w->call, HAWK_ENOT_FOUND, "the job was forgotten before its last events were read");
    watch_remove(w->api, w);
}

static int put_event(struct api_watch *w, struct api_event *event)
{
    uint8_t *data;
    size_t len;
    if (!list_empty(&w->in_beating) && !w->beat_told)
        event->beat_us = API_BEAT_US;
    api_encode(api_methods[API_WATCH].reply, event, &data, &len);
    fair_spend(&w->api->fair, (uint32_t)(EVENT_COST + len / EVENT_COST_BYTES));
    int err = rpc_send(w->call, data, len);
    free(data);
    if (!err) {
        w->beat_told = true;
        w->sent_us = loop_now(w->api->loop);
    }
    return err;
}

/* Fills in the next tasks with news, as many as fit one event and one turn. Moves *at behind them. False: there may be
 * more. */
static bool fill_tasks(const struct api_watch *w, const struct dist_job *j, struct watch_place *at,
                       struct api_event *event)
{
    const struct watch_log *log = &w->watched->log;
    struct task_view v;
    size_t bytes = 0;
    uint32_t task, cap = 0, looks = 0;
    while (event->tasks_n < EVENT_TASKS_MAX && looks < EVENT_LOOKS_MAX && bytes <= API_PAGE_BYTES) {
        bool scanning = at->scanned < log->tasks_n;
        if (w->hears == HEARS_JOB || !watch_log_next(log, at, &task))
            return true;
        looks++;
        fair_spend(&w->api->fair, 1);
        if (task == WATCH_LOG_NONE)
            continue;
        dist_task_view(w->api->roles.dist, j, task, 0, &v);
        if (w->hears == HEARS_ENDS ? !task_state_final(v.state) : scanning && v.state == TASK_WAITING)
            continue;
        vec_grow(event->tasks, event->tasks_n, cap);
        api_task_fill(w->api, j, task, w->results, &event->tasks[event->tasks_n]);
        bytes += event->tasks[event->tasks_n++].result_n;
    }
    return false;
}

/* Whether only the future has something to tell. */
static bool nothing_yet(const struct api_watch *w, const struct api_job *j)
{
    return w->hears == HEARS_TASKS ? j->waiting == j->tasks
                                   : j->done + j->failed + j->cancelled + j->lost == 0;
}

/* Sends one event, or looks for something to say for as long as a turn may take. */
static void send_event(struct api_watch *w)
{
    struct watched *j = w->watched;
    const struct dist_job *of = dist_find(w->api->roles.dist, j->job);
    struct watch_place at = w->reader.place;
    struct api_event event = {0};
    int err = 0;
    if (of)
        api_job_fill(w->api, of, &event.job);
    if (!of || event.job.tasks != j->log.tasks_n) {
        end_forgotten(w);
        return;
    }
    if (!w->sent_us && nothing_yet(w, &event.job))
        at.scanned = j->log.tasks_n;
    bool all = fill_tasks(w, of, &at, &event);
    if (all || event.tasks_n || !w->sent_us)
        err = put_event(w, &event);
    free(event.tasks);
    if (err) {
        w->full = err == HAWK_ELIMIT; /* otherwise `cancelled` comes */
        return;
    }
    w->reader.place = at;
    if (!all) {
        has_news(w);
    } else if (job_state_final(event.job.state)) {
        rpc_finish(w->call);
        end_watch(w);
    } else {
        list_push_tail(&j->quiet[w->hears], &w->in_job);
    }
}

/* The watches with something to say take turns until this turn of the loop has done enough. Then others have as much
 * time as that took: a call takes several turns of the loop. */
void api_watch_flush(struct api *a)
{
    if (loop_timer_is_set(&a->pause_timer))
        return;
    while (!list_empty(&a->changed))
        wake_watches(a, container_of(a->changed.next, struct watched, in_changed));
    if (!fair_any(&a->fair))
        return;
    int64_t start_us = loop_now(a->loop), end_us;
    struct list *l;
    fair_begin(&a->fair, TURN_BUDGET);
    while ((l = fair_next(&a->fair))) {
        struct api_watch *w = container_of(l, struct api_watch, in_job);
        fair_spend(&a->fair, 1);
        w->full = !rpc_idle(w->call);
        if (!w->full)
            send_event(w);
    }
    end_us = loop_now(a->loop);
    if (fair_spent(&a->fair))
        loop_timer_set(a->loop, &a->pause_timer, end_us + (end_us - start_us));
}

static void on_pause_over(void *arg)
{ /* the flush at the end of this turn goes on */
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
    bool was_full = w->full;
    w->full = false;
    if (was_full && w->watched)
        has_news(w);
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
                            .hears = r->tasks   ? HEARS_TASKS
                                     : r->ended ? HEARS_ENDS
                                                : HEARS_JOB,
                            .results = r->results};
    list_init(&w->in_all);
    list_init(&w->in_job);
    list_init(&w->in_beating);
    if (r->beats)
        send_beat(w);
    rpc_watch(c, on_cancelled, on_writable, w);
    return w;
}

void api_watch_init(struct api *a)
{
    list_init(&a->changed);
    list_init(&a->beating);
    list_init(&a->behind);
    loop_timer_init(&a->beat_timer, on_beat, a);
    loop_timer_init(&a->counts_timer, on_counts, a);
    fair_init(&a->fair);
    fair_queue_init(&a->unlimited);
    loop_timer_init(&a->pause_timer, on_pause_over, a);
}

/* ---- The call ---- */

/* Whether there is room for the log of a job, and how much more that takes. If not, it has failed the call. */
static bool may_log(struct api *a, struct rpc_call *c, const struct api_watch_request *r,
                    const struct job_view *v, uint64_t *bytes)
{
    const struct watched *j = watched_find(a, r->job);
    bool has = j && j->bytes > 0 && j->log.tasks_n == v->desc->tasks;
    bool changes = (r->tasks || r->ended) && !job_state_final(v->state);
    *bytes = changes && !has ? (uint64_t)WATCH_LOG_TASK_BYTES * v->desc->tasks : 0;
    if (a->logs_bytes + *bytes <= LOGS_BYTES_MAX)
        return true;
    api_fail(c, HAWK_ELIMIT,
             "clients hear of too many tasks one by one already, %u at most in all jobs that are watched so: "
             "watch the job without its tasks",
             LOGS_BYTES_MAX / WATCH_LOG_TASK_BYTES);
    return false;
}

static void watch_add(struct api *a, struct api_watch *w, const struct job_view *v, uint64_t bytes)
{
    uint32_t tasks = v->desc->tasks;
    struct watched *j;
    /* The job may have been forgotten, and another one have its id. */
    while ((j = watched_find(a, v->job)) && j->log.tasks_n != tasks)
        end_forgotten(container_of(j->all.next, struct api_watch, in_all));
    if (!j)
        j = watched_new(a, v->job, tasks);
    w->watched = j;
    list_push_tail(&j->all, &w->in_all);
    if (w->hears != HEARS_JOB)
        watch_log_join(&j->log, &w->reader);
    j->bytes += bytes;
    a->logs_bytes += bytes;
}

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
    uint64_t bytes;
    if (!may_log(a, c, r, &v, &bytes))
        return;
    struct api_watch *w = watch_new(a, c, r);
    if (!w)
        return;
    watch_add(a, w, &v, bytes);
    struct msg on = {.type = MSG_WATCH,
                     .watch = {.job = r->job, .on = true, .epoch = (uint16_t)r->epoch, .key = r->key}};
    a->feed(a->arg, ROLE_DIST, &on);
    has_news(w); /* the job as it is; what ends from now on is in the log */
}

static void fail_going(struct api *a, struct api_watch *w)
{
    api_fail(w->call, HAWK_EUNAVAILABLE, "%s " API_GOING_TEXT, a->roles.name);
    watch_remove(a, w);
}

void api_watch_free(struct api *a)
{
    loop_timer_clear(a->loop, &a->beat_timer);
    loop_timer_clear(a->loop, &a->counts_timer);
    loop_timer_clear(a->loop, &a->pause_timer);
    list_foreach(&a->beating, l, next) {
        struct api_watch *w = container_of(l, struct api_watch, in_beating);
        if (!w->watched)
            fail_going(a, w);
    }
    while (a->watched)
        fail_going(a, container_of(a->watched->all.next, struct api_watch, in_all));
}
