/* Reading a task's output from the worker it ran on: `hawk cat`. */
#include "base/mem.h"
#include "daemon/api_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* How often a followed file is looked at while its task runs. */
#define TAIL_POLL_US (100 * US_PER_MS)

struct api_tail {
    struct api *api;
    struct rpc_call *call;
    struct list in_tails;
    struct api_read_output_request request;
    char path[EXEC_PATH_MAX];
    int fd;
    uint64_t offset;
    int error; /* errno of a read that failed */
    bool told_path, full, gone;
};

static void tail_end(struct api_tail *t)
{
    list_remove(&t->in_tails);
    if (t->fd >= 0)
        close(t->fd);
    free(t);
}

static bool still_runs(const struct api_tail *t)
{
    char path[EXEC_PATH_MAX];
    bool running = false;
    const struct api_read_output_request *r = &t->request;
    return runner_output(t->api->roles.runner, r->job, r->task, r->attempt, r->from_stderr, path, &running) ==
               0 &&
           running;
}

/* Opens without blocking and without following the path into devices or pipes: only what a task wrote. */
static int open_output(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd >= 0 && (fstat(fd, &st) || !S_ISREG(st.st_mode))) {
        close(fd);
        errno = EINVAL;
        return -1;
    }
    return fd;
}

/* Sends one piece. False when nothing more can be sent now. */
static bool tail_send(struct api_tail *t, bool *at_end)
{
    uint8_t buf[API_CHUNK_BYTES];
    ssize_t n = t->fd < 0 ? 0 : pread(t->fd, buf, sizeof buf, (off_t)t->offset);
    if (n < 0)
        t->error = errno;
    *at_end = n <= 0;
    if (n <= 0 && t->told_path)
        return false;
    struct api_output_chunk chunk = {
        .data = buf, .data_n = n > 0 ? (uint32_t)n : 0, .path = t->told_path ? "" : t->path};
    uint8_t *data;
    size_t len;
    api_encode(api_methods[API_READ_OUTPUT].reply, &chunk, &data, &len);
    int err = rpc_send(t->call, data, len);
    free(data);
    if (err) {
        t->full = err == HAWK_ELIMIT;
        *at_end = false;
        return false;
    }
    t->told_path = true;
    t->offset += chunk.data_n;
    return !*at_end;
}

static void on_tail_timer(void *arg);

/* Sends what there is; ends the call at the end of a file that will not grow. */
static void tail_go_on(struct api_tail *t)
{
    struct api *a = t->api;
    bool running = still_runs(t), at_end = false; /* before the last read, so that nothing is missed */
    if (t->fd < 0)
        t->fd = open_output(t->path);
    while (tail_send(t, &at_end))
        ;
    if (!at_end)
        return;
    if (t->error) {
        api_fail(t->call, HAWK_EIO, "%s cannot be read: %s", t->path, strerror(t->error));
        tail_end(t);
        return;
    }
    if (t->request.follow && running) {
        if (!loop_timer_is_set(&a->tail_timer))
            loop_timer_set(a->loop, &a->tail_timer, loop_now(a->loop) + TAIL_POLL_US);
        return;
    }
    rpc_finish(t->call);
    tail_end(t);
}

static void on_tail_timer(void *arg)
{
    struct api *a = arg;
    list_foreach(&a->tails, l, next) {
        struct api_tail *t = container_of(l, struct api_tail, in_tails);
        if (!t->full)
            tail_go_on(t);
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
    t->full = false;
    tail_go_on(t);
}

void api_read_output(struct api *a, struct rpc_call *c, void *request)
{
    struct api_tail *t = xcalloc(1, sizeof *t);
    *t = (struct api_tail){
        .api = a, .call = c, .fd = -1, .request = *(struct api_read_output_request *)request};
    t->offset = t->request.offset;
    list_init(&t->in_tails);
    bool running = false;
    char id[JOB_ID_TEXT];
    int err = runner_output(a->roles.runner, t->request.job, t->request.task, t->request.attempt,
                            t->request.from_stderr, t->path, &running);
    if (!err)
        t->fd = open_output(t->path);
    if (err || (t->fd < 0 && !running)) {
        api_fail(c, HAWK_ENOT_FOUND, "task %u of job %s left no %s here%s%s%s%s", t->request.task,
                 job_id_format(id, t->request.job), t->request.from_stderr ? "stderr" : "stdout",
                 err ? "" : ": ", err ? "" : t->path, err ? "" : ": ", err ? "" : strerror(errno));
        tail_end(t);
        return;
    }
    if (!a->tail_timer.fn)
        loop_timer_init(&a->tail_timer, on_tail_timer, a);
    list_push_tail(&a->tails, &t->in_tails);
    rpc_watch(c, on_cancelled, on_writable, t);
    tail_go_on(t);
}

void api_output_free(struct api *a)
{
    while (!list_empty(&a->tails)) {
        struct api_tail *t = container_of(a->tails.next, struct api_tail, in_tails);
        api_fail(t->call, HAWK_EUNAVAILABLE, "%s is shutting down", a->roles.name);
        tail_end(t);
    }
    if (a->tail_timer.fn)
        loop_timer_clear(a->loop, &a->tail_timer);
}
