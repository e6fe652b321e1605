/* The executor's side of Executors.Attach: see hawk.h. One stream to the worker, on a loop of its own.
 *
 * The loop belongs to the thread that holds the lock: mostly the one that waits for tasks in
 * hawk_executor_next. While tasks are being worked on, a thread of our own (the keeper) turns the loop now
 * and then, so that it answers the connection's pings and hears cancellations. */
#include "libhawk/hawk.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/thread.h"
#include "libhawk/client.h"
#include "libhawk/client_impl.h"
#include "net/addr.h"
#include "net/attach.h"
#include "net/rpc.h"
#include "net/tls.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IDLE_TURN_US (200 * US_PER_MS) /* how often the keeper turns the loop while no other thread does */
#define PAUSE_TURN_US (50 * US_PER_MS) /* the same if tasks may be paused: a short task waits for that */
#define BUSY_TURN_US 200 /* how long results of short tasks may gather while more tasks wait here */

struct work {
    struct hawk_work pub; /* must be first: the program's view */
    struct list link;     /* executor.waiting, still or held */
    uint64_t id;
    uint64_t stream; /* number of the stream that brought it */
    bool held;       /* the program has it */
    bool paused;     /* held: the program was told that it is to stand still */
    bool asked;      /* paused: the program has not confirmed that yet */
    atomic_bool cancelled;
    char data[]; /* payload, job, name */
};

struct hawk_executor {
    pthread_mutex_t lock;
    pthread_t keeper;
    pthread_cond_t keep; /* tells the keeper that there is something to look after, or that it must end */
    bool keeping, keeper_idle, closing;
    atomic_uint waiters; /* threads that want the lock: a thread that waits in the loop then releases it */
    struct loop *loop;
    struct loop_timer retry;
    struct channel *channel;
    struct rpc *rpc;
    uint64_t stream; /* counts them */
    char *addr, *token;
    struct tls *tls; /* NULL: none */
    struct attach_hello hello;
    struct rng rng;
    uint32_t delay_us; /* of the last retry; 0: the last stream was good */
    int64_t turned_us;
    bool leaving, drain_sent, over, woken;
    struct list waiting, held; /* tasks: waiting: not taken yet; held: being worked on */
    struct list still;         /* tasks that are paused, and were not taken yet */
    int (*pause)(void *arg, const struct hawk_work *work); /* NULL: no task is paused */
    void (*resume)(void *arg, const struct hawk_work *work);
    void *arg;
    uint32_t held_n;
    struct attach_batches out;
    char error[600];
};

static int HAWK_PRINTF(3, 4) keep_error(struct hawk_executor *x, int err, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(x->error, sizeof x->error, fmt, ap);
    va_end(ap);
    return err;
}

/* ---- The lock ---- */

static void wake_loop(void *arg) {}

/* A thread that waits in the loop holds the lock. Waking the loop makes it release the lock. */
static void lock_executor(struct hawk_executor *x)
{
    if (pthread_mutex_trylock(&x->lock) == 0)
        return;
    atomic_fetch_add(&x->waiters, 1);
    loop_post(x->loop, wake_loop, NULL);
    pthread_mutex_lock(&x->lock);
    atomic_fetch_sub(&x->waiters, 1);
}

static void unlock_executor(struct hawk_executor *x) { pthread_mutex_unlock(&x->lock); }

/* ---- Sending ---- */

static void write_batch(struct hawk_executor *x)
{
    struct span b = attach_first(&x->out);

    if (!x->rpc || !rpc_writable(x->rpc) || b.len == 0)
        return;
    rpc_write(x->rpc, b.data, b.len);
    attach_drop_first(&x->out);
}

/* ---- The stream ---- */

static void work_free(struct work *w)
{
    list_remove(&w->link);
    free(w);
}

static void drop_untaken(struct hawk_executor *x)
{
    while (!list_empty(&x->waiting))
        work_free(container_of(x->waiting.next, struct work, link));
    while (!list_empty(&x->still))
        work_free(container_of(x->still.next, struct work, link));
}

static int on_attached(void *arg, struct span worker)
{
    struct hawk_executor *x = arg;

    x->delay_us = 0;
    return 0;
}

static char *copy_span(char *to, struct span b)
{
    memcpy(to, b.data, b.len);
    to[b.len] = '\0';
    return to + b.len + 1;
}

static int on_task(void *arg, const struct attach_task *t)
{
    struct hawk_executor *x = arg;
    struct work *w = xmalloc(sizeof *w + t->payload.len + t->job.len + t->name.len + 3);
    char *job = copy_span(w->data, t->payload), *name = copy_span(job, t->job);

    copy_span(name, t->name);
    w->pub = (struct hawk_work){.payload = {w->data, t->payload.len},
                                .job = job,
                                .name = name,
                                .index = t->index,
                                .count = t->count,
                                .attempt = t->attempt,
                                .time_limit_us = t->time_limit_us};
    w->id = t->id;
    w->stream = x->stream;
    w->held = w->paused = w->asked = false;
    atomic_init(&w->cancelled, false);
    list_push_tail(&x->waiting, &w->link);
    return 0;
}

/* The task of that id, or NULL: it is answered, or was lost. */
static struct work *work_of_id(const struct hawk_executor *x, uint64_t id)
{
    const struct list *lists[] = {&x->held, &x->waiting, &x->still};

    for (int i = 0; i < 3; i++)
        list_foreach(lists[i], l, next) {
            struct work *w = container_of(l, struct work, link);
            if (w->id == id && w->stream == x->stream)
                return w;
        }
    return NULL;
}

static int on_cancel(void *arg, uint64_t id)
{
    struct work *w = work_of_id(arg, id);

    if (w)
        atomic_store(&w->cancelled, true);
    return 0;
}

/* ---- Pauses ---- */

static void answer_pause(struct hawk_executor *x, struct work *w, bool refused)
{
    w->asked = false;
    attach_put_paused(attach_batch(&x->out, 0), &(struct attach_paused){.id = w->id, .refused = refused});
    write_batch(x);
}

/* A task that the program has not taken stands still when it is not handed out. */
static void pause_waiting(struct hawk_executor *x, struct work *w, bool on)
{
    list_remove(&w->link);
    if (!on) {
        list_push_head(&x->waiting, &w->link);
        return;
    }
    list_push_tail(&x->still, &w->link);
    answer_pause(x, w, false);
}

static void end_pause(struct hawk_executor *x, struct work *w)
{
    if (!w->paused)
        return;
    w->paused = w->asked = false;
    x->resume(x->arg, &w->pub);
}

static int on_pause(void *arg, const struct attach_pause *p)
{
    struct hawk_executor *x = arg;
    struct work *w = x->pause ? work_of_id(x, p->id) : NULL;
    int got;

    if (!w)
        return 0;
    if (!w->held) {
        pause_waiting(x, w, p->on);
        return 0;
    }
    end_pause(x, w);
    if (!p->on)
        return 0;
    w->paused = w->asked = true;
    got = x->pause(x->arg, &w->pub);
    w->paused = got >= 0;
    if (got != 0)
        answer_pause(x, w, got < 0);
    return 0;
}

static void on_reply(void *arg, const uint8_t *data, size_t len)
{
    static const struct attach_fns fns = {
        .attached = on_attached, .task = on_task, .cancel = on_cancel, .pause = on_pause};
    struct hawk_executor *x = arg;
    char why[200];

    if (attach_from_worker(data, len, &fns, x, why, sizeof why) == 0)
        return;
    x->over = true;
    keep_error(x, HAWK_EMALFORMED, "the worker at %s sent what is no message: %s", x->addr, why);
}

static void on_sent(void *arg) { write_batch(arg); }

/* Tasks that came by the old stream belong to other executors by now. */
static void lose_tasks(struct hawk_executor *x)
{
    drop_untaken(x);
    list_foreach(&x->held, l, next) {
        struct work *w = container_of(l, struct work, link);

        atomic_store(&w->cancelled, true);
        end_pause(x, w);
    }
    attach_batches_free(&x->out);
}

static void on_done(void *arg, grpc_status_code status, const char *text)
{
    struct hawk_executor *x = arg;

    x->rpc = NULL;
    lose_tasks(x);
    if (x->leaving && (status == GRPC_STATUS_OK || status == GRPC_STATUS_UNAVAILABLE)) {
        x->over = true;
        keep_error(x, HAWK_ESHUTDOWN, "no more tasks: it has left");
        return;
    }
    if (status != GRPC_STATUS_OK && status != GRPC_STATUS_UNAVAILABLE && status != GRPC_STATUS_CANCELLED) {
        x->over = true;
        keep_error(x, rpc_status_to_err(status), "the worker at %s sent the executor away: %s", x->addr,
                   text);
        return;
    }
    keep_error(x, HAWK_EUNAVAILABLE, "the worker at %s cannot be reached: %s", x->addr, text);
    loop_timer_set(x->loop, &x->retry,
                   loop_now(x->loop) + backoff_next(&x->delay_us, BACKOFF_MAX_US, &x->rng));
}

static void attach_stream(struct hawk_executor *x)
{
    static const struct rpc_fns fns = {.reply = on_reply, .sent = on_sent, .done = on_done};

    x->stream++;
    x->drain_sent = false;
    attach_put_hello(attach_batch(&x->out, sizeof x->hello), &x->hello);
    x->rpc = rpc_open(x->channel, ATTACH_METHOD, &fns, x);
    write_batch(x);
}

static void on_retry(void *arg)
{
    struct hawk_executor *x = arg;

    /* Without a thread that is free for tasks, the executor takes none: its threads still work on the
     * tasks that it held, although those are lost. */
    if (x->held_n > 0 && x->held_n >= x->hello.slots)
        loop_timer_set(x->loop, &x->retry, loop_now(x->loop) + backoff_min(&x->rng));
    else
        attach_stream(x);
}

/* ---- The keeper ---- */

static void turn_loop(struct hawk_executor *x, int64_t until_us)
{
    write_batch(x);
    loop_once(x->loop, until_us);
    x->turned_us = loop_now(x->loop);
}

static void *keep_turning(void *arg)
{
    struct hawk_executor *x = arg;
    int64_t turn_us = x->pause ? PAUSE_TURN_US : IDLE_TURN_US;

    pthread_mutex_lock(&x->lock);
    while (!x->closing) {
        if (x->held_n == 0) { /* the thread that waits for tasks turns the loop */
            x->keeper_idle = true;
            pthread_cond_wait(&x->keep, &x->lock);
            continue;
        }
        struct timespec at = clock_after(CLOCK_MONOTONIC, turn_us);
        if (pthread_cond_timedwait(&x->keep, &x->lock, &at) == ETIMEDOUT && !x->closing &&
            loop_now(x->loop) - x->turned_us >= turn_us)
            turn_loop(x, 0);
    }
    pthread_mutex_unlock(&x->lock);
    return NULL;
}

/* ---- The program's side ---- */

static int start_keeper(struct hawk_executor *x)
{
    pthread_mutex_init(&x->lock, NULL);
    thread_cond_init(&x->keep);
    x->keeping = thread_start(&x->keeper, keep_turning, x) == 0;
    return x->keeping ? 0 : keep_error(x, HAWK_EIO, "no thread can be started");
}

static int use_options(struct hawk_executor *x, const char *app, const struct hawk_executor_options *o)
{
    char own[ADDR_TEXT], why[300];
    struct client client = {0};
    const char *addr = o->worker ? o->worker : getenv("HAWK_EXECUTOR");

    if (!addr || !*addr)
        addr = client_default_socket(own, sizeof own);
    if (!addr || addr_check(addr, why, sizeof why))
        return keep_error(x, HAWK_EINVALID, "the worker's address: %s",
                          addr ? why : "the default one is too long");
    int err = client_find_token(&client, o->token_file);
    if (!err)
        err = client_find_tls(&client);
    x->token = client.token;
    x->tls = client.tls;
    if (err)
        return keep_error(x, err, "%s", client.error);
    x->addr = xstrdup(addr);
    snprintf(x->hello.app, sizeof x->hello.app, "%s", app ? app : "");
    snprintf(x->hello.name, sizeof x->hello.name, "%s", o->name ? o->name : "");
    x->hello.slots = o->slots ? o->slots : 1;
    if (!o->pause != !o->resume)
        return keep_error(x, HAWK_EINVALID, "give both pause and resume, or neither");
    x->hello.pauses = o->pause != NULL;
    x->pause = o->pause;
    x->resume = o->resume;
    x->arg = o->arg;
    return 0;
}

int hawk_executor_open(struct hawk_executor **executor, const char *app,
                       const struct hawk_executor_options *options)
{
    static const struct hawk_executor_options defaults;
    struct hawk_executor *x = *executor = xcalloc(1, sizeof *x);
    int err;

    list_init(&x->waiting);
    list_init(&x->held);
    list_init(&x->still);
    loop_timer_init(&x->retry, on_retry, x);
    client_seed(&x->rng);
    if ((err = use_options(x, app, options ? options : &defaults)))
        return err;
    x->loop = loop_new(LOOP_NET);
    x->channel = channel_new_tls(x->loop, x->addr, x->token, x->tls, ROLE_WORKER);
    if ((err = start_keeper(x)))
        return err;
    attach_stream(x);
    return 0;
}

/* Whether no more tasks will come, and none is left to answer. */
static bool has_left(struct hawk_executor *x)
{
    if (!x->leaving || x->rpc || x->held_n > 0)
        return false;
    return list_empty(&x->waiting) && list_empty(&x->still);
}

static struct work *take_work(struct hawk_executor *x)
{
    if (list_empty(&x->waiting))
        return NULL;
    /* While short tasks wait here, they are worked on one after the other, but results still leave now and
     * then. */
    if (loop_now(x->loop) - x->turned_us > BUSY_TURN_US)
        turn_loop(x, 0);
    if (list_empty(&x->waiting))
        return NULL;
    struct work *w = container_of(x->waiting.next, struct work, link);
    list_remove(&w->link);
    list_push_tail(&x->held, &w->link);
    w->held = true;
    x->held_n++;
    if (x->keeper_idle)
        pthread_cond_signal(&x->keep);
    x->keeper_idle = false;
    return w;
}

/* Lets other threads that want the lock have it between turns; a thread that comes later wakes the loop.
 * Returns whether there were any. */
static bool let_others(struct hawk_executor *x)
{
    bool any = false;

    for (; atomic_load(&x->waiters) > 0; any = true) {
        pthread_mutex_unlock(&x->lock);
        sched_yield();
        pthread_mutex_lock(&x->lock);
    }
    return any;
}

int hawk_executor_next(struct hawk_executor *x, const struct hawk_work **work, int64_t timeout_us)
{
    struct work *w = NULL;
    int got = 0;

    *work = NULL;
    if (!x->keeping)
        return HAWK_EINVALID; /* it was not opened */
    lock_executor(x);
    int64_t until_us = timeout_us < 0 ? TIME_NEVER : loop_now(x->loop) + timeout_us;
    for (;;) {
        if (!x->over && (w = take_work(x)))
            break;
        if (x->over || has_left(x)) {
            got = HAWK_ESHUTDOWN;
            break;
        }
        if (x->woken || loop_now(x->loop) >= until_us)
            break;
        if (!let_others(x))
            turn_loop(x, until_us);
    }
    x->woken = false;
    write_batch(x);
    unlock_executor(x);
    if (w) {
        *work = &w->pub;
        got = 1;
    }
    return got;
}

static void answer_work(struct hawk_executor *x, const struct hawk_work *work, struct attach_result *r)
{
    struct work *w = container_of((struct hawk_work *)work, struct work, pub);

    lock_executor(x);
    r->id = w->id;
    if (w->stream == x->stream && x->rpc)
        attach_put_result(attach_batch(&x->out, r->result.len + r->error.len), r);
    work_free(w);
    x->held_n--;
    if (list_empty(&x->waiting)) /* otherwise it leaves with the results of the waiting tasks */
        write_batch(x);
    unlock_executor(x);
}

void hawk_executor_done(struct hawk_executor *x, const struct hawk_work *work, const void *result, size_t len)
{
    struct attach_result r = {.result = {result, len}};
    char text[80];

    if (len > LIMIT_RESULT_BYTES) {
        int n =
            snprintf(text, sizeof text, "it returned %zu bytes, the limit is %u", len, LIMIT_RESULT_BYTES);
        r = (struct attach_result){.code = 1, .error = {text, (size_t)n}};
    }
    answer_work(x, work, &r);
}

void hawk_executor_failed(struct hawk_executor *x, const struct hawk_work *work, int code, const char *text)
{
    struct attach_result r = {.code = code >= 1 && code <= 255 ? code : 1,
                              .error = {text ? text : "", text ? strlen(text) : 0}};

    answer_work(x, work, &r);
}

int hawk_executor_cancelled(const struct hawk_executor *x, const struct hawk_work *work)
{
    return atomic_load(&container_of((struct hawk_work *)work, struct work, pub)->cancelled);
}

void hawk_executor_paused(struct hawk_executor *x, const struct hawk_work *work)
{
    struct work *w = container_of((struct hawk_work *)work, struct work, pub);

    lock_executor(x);
    if (w->asked && x->rpc)
        answer_pause(x, w, false);
    unlock_executor(x);
}

void hawk_work_set_user(const struct hawk_work *work, void *user) { ((struct hawk_work *)work)->user = user; }

void hawk_executor_leave(struct hawk_executor *x)
{
    if (!x->keeping)
        return;
    lock_executor(x);
    x->leaving = true;
    if (x->rpc && !x->drain_sent)
        attach_put_drain(attach_batch(&x->out, 2));
    else if (!x->rpc)
        loop_timer_clear(x->loop, &x->retry);
    x->drain_sent = true;
    write_batch(x);
    unlock_executor(x);
}

void hawk_executor_wake(struct hawk_executor *x)
{
    if (!x->keeping)
        return;
    lock_executor(x);
    x->woken = true;
    unlock_executor(x);
}

const char *hawk_executor_error(const struct hawk_executor *x) { return x->error; }

void hawk_executor_close(struct hawk_executor *x)
{
    if (!x)
        return;
    if (x->keeping) {
        lock_executor(x);
        x->closing = true;
        pthread_cond_signal(&x->keep);
        unlock_executor(x);
        pthread_join(x->keeper, NULL);
        pthread_cond_destroy(&x->keep);
        pthread_mutex_destroy(&x->lock);
    }
    if (x->loop)
        loop_timer_clear(x->loop, &x->retry);
    channel_free(x->channel);
    tls_free(x->tls);
    loop_free(x->loop);
    drop_untaken(x);
    while (!list_empty(&x->held))
        work_free(container_of(x->held.next, struct work, link));
    attach_batches_free(&x->out);
    free(x->addr);
    free(x->token);
    free(x);
}
