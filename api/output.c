/* Reads a task's output on the worker where it ran: `hawk cat`. Threads read the files (api/readers.h). */
#include "api/internal.h"
#include "api/readers.h"
#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The period at which a followed file is read while its task runs. */
#define TAIL_POLL_US (100 * US_PER_MS)

struct api_tail {
    struct api *api;
    struct rpc_call *call;
    struct api_user *user; /* whose limit it counts for; NULL: nobody's */
    struct list in_tails;
    struct api_read_output_request request;
    char path[EXEC_PATH_MAX];
    struct file_read *read; /* under way; NULL: none */
    int fd;                 /* -1: not opened yet, or in use by a read */
    uint64_t offset;
    enum run_state run; /* when the read began: more output may come of a task that ran */
    bool told_path, full;
};

static void tail_end(struct api_tail *t)
{
    list_remove(&t->in_tails);
    if (t->read)
        t->read->arg = NULL; /* it frees itself */
    if (t->fd >= 0)
        close(t->fd);
    api_user_unreads(t->user);
    free(t);
}

static enum run_state run_now(const struct api_tail *t)
{
    char path[EXEC_PATH_MAX];
    enum run_state run = RUN_UNKNOWN;
    const struct api_read_output_request *r = &t->request;
    (void)t->api->roles.output(t->api->arg, r->job, r->task, r->attempt, r->stderr, path, NULL, &run);
    return run;
}

static void on_read(void *arg, struct file_read *r);
static void tail_begin(struct api_tail *t);

static void read_on(struct api_tail *t)
{
    struct file_read *r = xcalloc(1, sizeof *r);
    t->run = run_now(t); /* asked before the read, so that no output is missed */
    r->path = xstrdup(t->path);
    r->fd = t->fd;
    r->offset = t->offset;
    r->done = on_read;
    r->arg = t;
    t->fd = -1;
    t->read = r;
    readers_submit(t->api->readers, r);
}

/* False: the client cannot take more now. The same bytes are read again later. */
static bool send_chunk(struct api_tail *t, const struct file_read *r)
{
    struct api_output_chunk chunk = {.data = r->data,
                                     .data_n = r->n > 0 ? (uint32_t)r->n : 0,
                                     .path = t->told_path ? "" : t->path,
                                     .cut_short = r->cut_short && t->run != RUN_ON};
    uint8_t *data;
    size_t len;
    if (chunk.data_n == 0 && t->told_path && !chunk.cut_short)
        return true;
    api_encode(api_methods[API_READ_OUTPUT].reply, &chunk, &data, &len);
    int err = rpc_send(t->call, data, len);
    free(data);
    if (err) {
        t->full = err == HAWK_ELIMIT;
        return false;
    }
    t->told_path = true;
    t->offset += chunk.data_n;
    return true;
}

static void fail_unread(struct api_tail *t, const struct file_read *r, bool opened)
{
    char id[JOB_ID_TEXT];
    if (opened)
        api_fail(t->call, HAWK_EIO, "%s cannot be read: %s", t->path, strerror(r->err));
    else
        api_fail(t->call, HAWK_ENOT_FOUND, "this task of job %s left no %s here: %s: %s",
                 job_id_format(id, t->request.job), t->request.stderr ? "stderr" : "stdout", t->path,
                 r->err == ENOENT && t->run == RUN_UNKNOWN
                     ? "it was removed since, as `hawk prune` does, or the job names another file, which a "
                       "worker forgets when it is started again"
                 : r->err == ENOENT                    ? "it was removed since, as `hawk prune` does"
                 : r->err == EINVAL || r->err == ELOOP ? "it is no regular file"
                                                       : strerror(r->err));
    tail_end(t);
}

static void on_read(void *arg, struct file_read *r)
{
    struct api_tail *t = arg;
    struct api *a = t->api;
    bool opened = r->fd >= 0, unread = r->n < 0 && (opened || t->run != RUN_ON);
    enum run_state now = run_now(t);
    t->read = NULL;
    t->fd = r->fd;
    r->fd = -1;
    if (t->run == RUN_UNKNOWN && now != RUN_UNKNOWN && !t->told_path)
        tail_begin(t); /* the task was started as the file was read: nothing of that counts */
    else if (unread)
        fail_unread(t, r, opened);
    else if (!send_chunk(t, r))
        ; /* on_writable goes on, or on_cancelled ends it */
    else if (r->n > 0 || now != t->run)
        read_on(t);
    else if (t->request.follow && t->run == RUN_ON) {
        if (!loop_timer_is_set(&a->tail_timer))
            loop_timer_set(a->loop, &a->tail_timer, loop_now(a->loop) + TAIL_POLL_US);
    } else {
        rpc_finish(t->call);
        tail_end(t);
    }
    file_read_free(r);
}

static void on_tail_timer(void *arg)
{
    struct api *a = arg;
    list_foreach(&a->tails, l, next) {
        struct api_tail *t = container_of(l, struct api_tail, in_tails);
        if (!t->full && !t->read)
            read_on(t);
    }
}

void api_output_run_ended(struct api *a)
{
    list_foreach(&a->tails, l, next) {
        struct api_tail *t = container_of(l, struct api_tail, in_tails);
        if (t->run == RUN_ON && !t->full && !t->read && run_now(t) != RUN_ON)
            read_on(t);
    }
}

static void on_cancelled(void *arg, struct rpc_call *c)
{
    rpc_finish(c);
    tail_end(arg);
}

static void on_writable(void *arg, struct rpc_call *c)
{
    struct api_tail *t = arg;
    if (t->full && !t->read)
        read_on(t);
    t->full = false;
}

/* Finds the file, and reads it if the caller may. */
static void tail_begin(struct api_tail *t)
{
    const struct api_read_output_request *r = &t->request;
    enum run_state run;
    char id[JOB_ID_TEXT], user[LIMIT_NAME_BYTES + 1];
    if (t->fd >= 0)
        close(t->fd);
    t->fd = -1;
    int err = t->api->roles.output(t->api->arg, r->job, r->task, r->attempt, r->stderr, t->path, user, &run);
    if (err && err != HAWK_EDENIED) {
        api_fail(t->call, HAWK_ENOT_FOUND, "this task of job %s left no %s here", job_id_format(id, r->job),
                 r->stderr ? "stderr" : "stdout");
        tail_end(t);
    } else if (!api_may_touch(t->call, r->job, user)) {
        tail_end(t);
    } else if (err) {
        api_fail(
            t->call, HAWK_ENOT_FOUND,
            "the %s of this task of job %s is in a file of its user's, which this worker does not open: it "
            "runs tasks as their users",
            r->stderr ? "stderr" : "stdout", job_id_format(id, r->job));
        tail_end(t);
    } else if (strcmp(t->path, "/dev/null") == 0) { /* the job discards it */
        rpc_finish(t->call);
        tail_end(t);
    } else {
        read_on(t);
    }
}

void api_read_output(struct api *a, struct rpc_call *c, void *request)
{
    struct api_user *user;
    if (!api_user_reads(a, c, &user))
        return;
    struct api_tail *t = xcalloc(1, sizeof *t);
    *t = (struct api_tail){
        .api = a, .call = c, .user = user, .fd = -1, .request = *(struct api_read_output_request *)request};
    t->offset = t->request.offset;
    if (t->request.by_index && a->roles.first_index)
        t->request.task -=
            a->roles.first_index(a->arg, t->request.job); /* below it: a number that no task has */
    if (!a->readers) {
        a->readers = readers_new(a->loop);
        loop_timer_init(&a->tail_timer, on_tail_timer, a);
    }
    list_push_tail(&a->tails, &t->in_tails);
    rpc_watch(c, on_cancelled, on_writable, t);
    tail_begin(t);
}

void api_output_free(struct api *a)
{
    while (!list_empty(&a->tails)) {
        struct api_tail *t = container_of(a->tails.next, struct api_tail, in_tails);
        api_fail(t->call, HAWK_EUNAVAILABLE, "%s is shutting down: ask again when it is back", a->roles.name);
        tail_end(t);
    }
    if (a->readers)
        loop_timer_clear(a->loop, &a->tail_timer);
    readers_free(a->readers);
}
