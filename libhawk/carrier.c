/* See carrier.h. */
#include "libhawk/carrier.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/thread.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct news_list {
    struct news *v;
    uint32_t n, cap;
};

struct carrier {
    struct client *client;
    struct streams *streams;
    struct news_list gathered; /* in this turn; of whoever turns the loop */
    int fd;                    /* an eventfd; -1: there is no thread */
    pthread_t thread;
    bool stop; /* only the thread uses it */
    pthread_mutex_t lock;
    struct news_list waiting; /* for carrier_take(); under `lock` */
    bool told;                /* fd is readable; under `lock` */
};

void news_drop(struct news *n)
{
    blob_drop(n->result);
    blob_drop(n->text);
}

/* ---- News ---- */

static void add_news(struct news_list *l, struct news n)
{
    vec_grow(l->v, l->n, l->cap);
    l->v[l->n++] = n;
}

static struct blob *words(const char *text) { return text[0] ? blob_str(text) : NULL; }

static void on_accepted(void *arg, struct stream_job *s)
{
    struct carrier *c = arg;
    add_news(&c->gathered, (struct news){.what = NEWS_ACCEPTED,
                                         .job = container_of(s, struct carried_job, stream),
                                         .id = s->movable->job});
}

static void on_task(void *arg, struct stream_job *s, const struct api_session_task *t)
{
    struct carrier *c = arg;
    if (!task_state_final(t->state))
        return;
    add_news(&c->gathered, (struct news){.what = NEWS_TASK,
                                         .job = container_of(s, struct carried_job, stream),
                                         .end = s->movable->ended[t->task],
                                         .result = t->result_n ? blob_new(t->result, t->result_n) : NULL,
                                         .text = words(t->message),
                                         .result_lost = t->result_lost});
}

static void on_over(void *arg, struct stream_job *s, enum job_state state, bool abandoned, int err,
                    const char *text)
{
    struct carrier *c = arg;
    add_news(&c->gathered, (struct news){.what = NEWS_OVER,
                                         .job = container_of(s, struct carried_job, stream),
                                         .id = s->movable->job,
                                         .state = state,
                                         .abandoned = abandoned,
                                         .err = err,
                                         .text = words(text)});
}

/* Puts what has gathered where carrier_take() finds it. The program need not be woken to forget a job. */
static void pass_on(struct carrier *c)
{
    bool tell = false;
    pthread_mutex_lock(&c->lock);
    for (uint32_t i = 0; i < c->gathered.n; i++) {
        add_news(&c->waiting, c->gathered.v[i]);
        tell = tell || c->gathered.v[i].what != NEWS_FORGOTTEN;
    }
    if (tell && !c->told && c->fd >= 0)
        c->told = eventfd_write(c->fd, 1) == 0;
    pthread_mutex_unlock(&c->lock);
    c->gathered.n = 0;
}

uint32_t carrier_take(struct carrier *c, struct news **v)
{
    eventfd_t count;
    pthread_mutex_lock(&c->lock);
    uint32_t n = c->waiting.n;
    *v = c->waiting.v;
    c->waiting = (struct news_list){0};
    if (c->told)
        (void)eventfd_read(c->fd, &count);
    c->told = false;
    pthread_mutex_unlock(&c->lock);
    return n;
}

/* ---- What the program asks for ---- */

static void submit_carried(void *arg)
{
    struct carried_job *j = arg;
    struct job_desc *desc = j->desc;
    j->desc = NULL;
    streams_submit(j->carrier->streams, &j->stream, desc);
    job_desc_drop(desc);
}

static void cancel_carried(void *arg)
{
    struct carried_job *j = arg;
    streams_cancel(j->carrier->streams, &j->stream);
}

static void forget_carried(void *arg)
{
    struct carried_job *j = arg;
    streams_forget(j->carrier->streams, &j->stream);
    add_news(&j->carrier->gathered, (struct news){.what = NEWS_FORGOTTEN, .job = j});
}

static void stop_thread(void *arg)
{
    struct carrier *c = arg;
    c->stop = true;
}

static void ask(struct carrier *c, void (*fn)(void *arg), struct carried_job *j)
{
    if (c->fd < 0)
        fn(j);
    else
        loop_post(c->client->loop, fn, j);
}

void carrier_submit(struct carrier *c, struct carried_job *j, struct job_desc *desc)
{
    j->carrier = c;
    j->desc = desc;
    ask(c, submit_carried, j);
}

void carrier_cancel(struct carried_job *j) { ask(j->carrier, cancel_carried, j); }
void carrier_forget(struct carried_job *j) { ask(j->carrier, forget_carried, j); }

/* ---- Turning the loop ---- */

static void *thread_main(void *arg)
{
    struct carrier *c = arg;
    while (!c->stop) {
        streams_turn(c->streams, TIME_NEVER);
        pass_on(c);
    }
    return NULL;
}

int carrier_fd(struct carrier *c)
{
    if (c->fd >= 0)
        return c->fd;
    c->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (c->fd < 0)
        return -errno;
    int err = thread_start(&c->thread, thread_main, c);
    if (err) {
        close(c->fd);
        c->fd = -1;
        return -err;
    }
    return c->fd;
}

static void wait_for_news(const struct carrier *c, int64_t until_us)
{
    struct pollfd p = {.fd = c->fd, .events = POLLIN};
    int64_t us = until_us == TIME_NEVER ? 0 : until_us - loop_now(c->client->loop);
    us = us > 0 ? us : 0;
    struct timespec wait = {.tv_sec = us / US_PER_S, .tv_nsec = us % US_PER_S * 1000};
    (void)ppoll(&p, 1, until_us == TIME_NEVER ? NULL : &wait, NULL); /* a signal is a turn without news */
}

void carrier_turn(struct carrier *c, int64_t until_us)
{
    if (c->fd >= 0) {
        wait_for_news(c, until_us);
        return;
    }
    streams_turn(c->streams, until_us);
    pass_on(c);
}

/* ---- The whole ---- */

struct carrier *carrier_new(struct client *client)
{
    static const struct stream_fns fns = {.accepted = on_accepted, .task = on_task, .over = on_over};
    struct carrier *c = xcalloc(1, sizeof *c);
    c->client = client;
    c->fd = -1;
    CHECK(pthread_mutex_init(&c->lock, NULL) == 0);
    c->streams = streams_new(client, &fns, c);
    return c;
}

static void drop_list(struct news_list *l)
{
    for (uint32_t i = 0; i < l->n; i++)
        news_drop(&l->v[i]);
    free(l->v);
}

void carrier_free(struct carrier *c)
{
    if (!c)
        return;
    if (c->fd >= 0) {
        loop_post(c->client->loop, stop_thread, c);
        pthread_join(c->thread, NULL);
        close(c->fd);
    }
    streams_free(c->streams);
    drop_list(&c->gathered);
    drop_list(&c->waiting);
    pthread_mutex_destroy(&c->lock);
    free(c);
}
