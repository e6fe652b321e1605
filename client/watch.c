/* libhawk's streams: watching jobs, and reading a task's output. */
#include "base/mem.h"
#include "client/hawk_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TICK_US (100 * US_PER_MS)
#define STREAMS_MAX 256 /* jobs watched at a time; the others wait their turn */
#define RETRY_MIN_US (50 * US_PER_MS)
#define RETRY_MAX_US (2 * US_PER_S)

/* ---- Watching jobs ---- */

struct watch {
    struct hawk *h;
    hawk_watch_fn *on;
    void *ctx;
    uint32_t open, unfinished;
    bool tasks;
    int result; /* what ended it; 0: nothing yet */
};

struct watched {
    struct watch *w;
    job_id_t job;
    struct channel *ch; /* where it is asked for; NULL: the contact */
    struct rpc *rpc;    /* NULL: no stream is open */
    bool finished;
    bool broken; /* a stream ended and what to do about it is undecided */
    grpc_status_code status;
    char text[300];
    int64_t retry_us;   /* when to open a stream */
    int64_t backoff_us; /* 0: the last stream was good */
    int64_t give_up_us; /* TIME_NEVER: it is reachable */
};

static void on_event(void *arg, const uint8_t *data, size_t len)
{
    struct watched *j = arg;
    struct watch *w = j->w;
    struct api_event event;
    char why[200];
    if (w->result)
        return;
    int err = api_decode(&api_event_type, data, len, &event, why, sizeof why);
    if (err) {
        w->result = hawk_fail(w->h, err, "%s sent what this version does not understand: %s",
                              channel_addr(j->ch ? j->ch : hawk_contact(w->h)), why);
        return;
    }
    j->backoff_us = 0;
    j->give_up_us = TIME_NEVER;
    if (job_state_final(event.job.state) && !j->finished) {
        j->finished = true;
        w->unfinished--;
    }
    w->result = w->on(w->ctx, &event);
    api_free(&api_event_type, &event);
}

static void on_end(void *arg, grpc_status_code status, const char *text)
{
    struct watched *j = arg;
    j->rpc = NULL;
    j->w->open--;
    j->broken = !j->finished;
    j->status = status;
    snprintf(j->text, sizeof j->text, "%s", text);
}

static void open_stream(struct watched *j)
{
    static const struct rpc_fns fns = {.reply = on_event, .done = on_end};
    const struct api_watch_request request = {.job = j->job, .tasks = j->w->tasks};
    struct hawk *h = j->w->h;
    uint8_t *data;
    size_t len;
    api_encode(&api_watch_request_type, &request, &data, &len);
    j->w->open++;
    j->rpc = rpc_start(j->ch ? j->ch : hawk_contact(h), api_methods[API_WATCH].path, data, len, TIME_NEVER,
                       false, &fns, j);
    free(data);
}

/* Whether the same call may succeed later: the dist went away, or its stream broke. */
static bool passing(grpc_status_code status)
{
    return status == GRPC_STATUS_UNAVAILABLE || status == GRPC_STATUS_CANCELLED || status == GRPC_STATUS_OK ||
           status == GRPC_STATUS_INTERNAL || status == GRPC_STATUS_UNKNOWN || status == GRPC_STATUS_ABORTED;
}

/* A stream ended before its job did: asks the right dist, tries again later, or gives up. */
static int mend(struct watched *j)
{
    struct hawk *h = j->w->h;
    struct channel *asked = j->ch ? j->ch : hawk_contact(h), *owner = NULL;
    int64_t now = loop_now(h->loop);
    j->broken = false;
    if (hawk_asked_wrong_dist(j->status) && !j->ch &&
        hawk_node_channel(h, ROLE_DIST, job_id_node(j->job), &owner) == 0 && owner != asked) {
        j->ch = owner;
        j->retry_us = now;
        return 0;
    }
    if (j->give_up_us == TIME_NEVER)
        j->give_up_us = now + h->timeout_us;
    if (!passing(j->status) || now >= j->give_up_us)
        return hawk_call_failed(h, asked, j->status == GRPC_STATUS_OK ? GRPC_STATUS_UNAVAILABLE : j->status,
                                j->status == GRPC_STATUS_OK ? "the stream of events ended before the job"
                                                            : j->text);
    if (!j->ch)
        hawk_next_contact(h);
    j->backoff_us = j->backoff_us ? j->backoff_us * 2 : RETRY_MIN_US;
    if (j->backoff_us > RETRY_MAX_US)
        j->backoff_us = RETRY_MAX_US;
    j->retry_us = now + j->backoff_us;
    return 0;
}

/* Opens streams that are due and mends broken ones. */
static int keep_open(struct watch *w, struct watched *v, uint32_t n)
{
    int64_t now = loop_now(w->h->loop);
    for (uint32_t i = 0; i < n; i++) {
        struct watched *j = &v[i];
        if (j->finished || j->rpc)
            continue;
        int err = j->broken ? mend(j) : 0;
        if (err)
            return err;
        if (w->open < STREAMS_MAX && j->retry_us <= now)
            open_stream(j);
    }
    return w->result;
}

int hawk_watch(struct hawk *h, const job_id_t *jobs, uint32_t n, bool tasks, hawk_watch_fn *on,
               int (*tick)(void *ctx), void *ctx)
{
    struct watch w = {.h = h, .on = on, .ctx = ctx, .tasks = tasks, .unfinished = n};
    struct watched *v = xcalloc(n ? n : 1, sizeof *v);
    int64_t tick_us = 0;
    for (uint32_t i = 0; i < n; i++)
        v[i] = (struct watched){.w = &w, .job = jobs[i], .give_up_us = TIME_NEVER};
    while (w.unfinished && !w.result) {
        int err = keep_open(&w, v, n);
        if (err)
            w.result = err;
        if (w.result)
            break;
        loop_once(h->loop, loop_now(h->loop) + TICK_US);
        if (tick && !w.result && loop_now(h->loop) >= tick_us) {
            w.result = tick(ctx);
            tick_us = loop_now(h->loop) + TICK_US;
        }
    }
    for (uint32_t i = 0; i < n; i++)
        if (v[i].rpc)
            rpc_cancel(v[i].rpc);
    free(v);
    return w.result;
}

/* ---- Output ---- */

struct reading {
    struct hawk *h;
    struct channel *ch;
    hawk_output_fn *on;
    void *ctx;
    int result;
    bool ended;
    int64_t heard_us;
};

static void on_chunk(void *arg, const uint8_t *data, size_t len)
{
    struct reading *r = arg;
    struct api_output_chunk chunk;
    char why[200];
    if (r->result)
        return;
    r->heard_us = loop_now(r->h->loop);
    r->result = api_decode(&api_output_chunk_type, data, len, &chunk, why, sizeof why);
    if (r->result) {
        hawk_fail(r->h, r->result, "%s sent what this version does not understand: %s", channel_addr(r->ch),
                  why);
        return;
    }
    r->result = r->on(r->ctx, &chunk);
    api_free(&api_output_chunk_type, &chunk);
}

static void on_output_end(void *arg, grpc_status_code status, const char *text)
{
    struct reading *r = arg;
    r->ended = true;
    if (!r->result && status != GRPC_STATUS_OK)
        r->result = hawk_call_failed(r->h, r->ch, status, text);
}

int hawk_read_output(struct hawk *h, node_id_t worker, const struct api_read_output_request *request,
                     hawk_output_fn *on, void *ctx)
{
    static const struct rpc_fns fns = {.reply = on_chunk, .done = on_output_end};
    struct reading r = {.h = h, .on = on, .ctx = ctx};
    uint8_t *data;
    size_t len;
    int err = hawk_node_channel(h, ROLE_WORKER, worker, &r.ch);
    if (err)
        return err;
    api_encode(&api_read_output_request_type, request, &data, &len);
    r.heard_us = loop_now(h->loop);
    struct rpc *rpc =
        rpc_start(r.ch, api_methods[API_READ_OUTPUT].path, data, len, TIME_NEVER, false, &fns, &r);
    free(data);
    while (!r.ended && !r.result) {
        /* Following a task may take as long as the task; otherwise a worker that stopped must not hang us. */
        int64_t until = request->follow ? TIME_NEVER : r.heard_us + h->timeout_us;
        loop_once(h->loop, until);
        if (!r.ended && !r.result && loop_now(h->loop) >= until)
            r.result = hawk_call_failed(h, r.ch, GRPC_STATUS_DEADLINE_EXCEEDED, "");
    }
    if (!r.ended)
        rpc_cancel(rpc);
    return r.result;
}
