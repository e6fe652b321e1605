/* See plain.h. */
#include "net/plain.h"

#include "base/check.h"
#include "base/mem.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_BYTES (64u << 10)
#define KEPT_BYTES (256u << 10)   /* of an empty buffer; more is given back */
#define LOOK_US (500 * US_PER_MS) /* how often to look for a client's end while nothing of it is read */

struct plain {
    struct loop *loop;
    struct loop_fd *watch;
    struct loop_timer soon; /* what must not happen within a call of the owner's */
    struct loop_timer look; /* set while `watch` waits for nothing, and so tells no end */
    struct guard *guard;
    int fd;
    uint32_t max_message_bytes;
    struct plain_fns fns;
    void *arg;
    struct codec_buf in, out;
    size_t out_sent; /* bytes of `out` that have left */
    bool headed;     /* the head has come */
    bool wanted;     /* the next message is */
    bool ending;     /* the end of the call is in `out`, or has left */
    bool gone;       /* nothing more can be read or sent */
    bool over;       /* was told */
    unsigned busy;   /* in callbacks */
    bool freed;      /* by one of them */
};

/* ---- The head ---- */

static bool take_line(const uint8_t **p, size_t *n, struct span *name, struct span *value)
{
    const uint8_t *end = memmem(*p, *n, "\r\n", 2);
    const uint8_t *colon =
        end ? memmem(*p + 1, (size_t)(end - *p) > 1 ? (size_t)(end - *p) - 1 : 0, ": ", 2) : NULL;

    if (!colon)
        return false;
    *name = (struct span){*p, (size_t)(colon - *p)};
    *value = (struct span){colon + 2, (size_t)(end - colon - 2)};
    *n -= (size_t)(end + 2 - *p);
    *p = end + 2;
    return true;
}

static bool is_named(struct span name, const char *text)
{
    return name.len == strlen(text) && memcmp(name.data, text, name.len) == 0;
}

bool plain_head_read(struct plain_head *h, const uint8_t *data, size_t len)
{
    struct span name, value;

    *h = (struct plain_head){0};
    while (len > 0) {
        if (!take_line(&data, &len, &name, &value))
            return false;
        struct span *to = is_named(name, ":path")           ? &h->path
                          : is_named(name, "authorization") ? &h->authorization
                                                            : NULL;
        if (to && to->data)
            return false;
        if (to)
            *to = value;
    }
    return h->path.data != NULL;
}

/* ---- Callbacks ---- */

static void plain_destroy(struct plain *p)
{
    codec_buf_free(&p->in);
    codec_buf_free(&p->out);
    free(p);
}

/* False: a callback has freed it. */
static bool end_callback(struct plain *p)
{
    p->busy--;
    if (!p->freed)
        return true;
    if (p->busy == 0)
        plain_destroy(p);
    return false;
}

static bool tell_over(struct plain *p, bool in_order)
{
    if (p->over)
        return true;
    p->over = p->gone = true;
    loop_fd_events(p->watch, 0);
    p->busy++;
    p->fns.over(p->arg, in_order);
    return end_callback(p);
}

/* ---- Writing ---- */

static size_t out_left(const struct plain *p) { return p->out.len - p->out_sent; }

static void give_back(struct codec_buf *b)
{
    b->len = 0;
    if (b->cap > KEPT_BYTES)
        codec_buf_free(b);
}

static void watch_events(struct plain *p);

/* True: everything has left. */
static bool flush(struct plain *p)
{
    while (!p->gone && out_left(p) > 0) {
        ssize_t n = send(p->fd, p->out.data + p->out_sent, out_left(p), MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0) {
            p->gone = true; /* the owner hears of it later */
            loop_timer_set(p->loop, &p->soon, 0);
            break;
        }
        p->out_sent += (size_t)n;
    }
    if (out_left(p) > 0 && !p->gone) {
        watch_events(p);
        return false;
    }
    p->out_sent = 0;
    give_back(&p->out);
    return true;
}

static void put_frame(struct plain *p, uint8_t flag, const void *data, size_t len)
{
    const uint8_t prefix[PLAIN_PREFIX_BYTES] = {flag, (uint8_t)(len >> 24), (uint8_t)(len >> 16),
                                                (uint8_t)(len >> 8), (uint8_t)len};

    codec_buf_append(&p->out, prefix, sizeof prefix);
    codec_buf_append(&p->out, data, len);
}

bool plain_send(struct plain *p, const void *data, size_t len)
{
    CHECK(!p->ending && len <= UINT32_MAX);
    if (p->gone)
        return true;
    guard_plain_out(p->guard);
    put_frame(p, PLAIN_MESSAGE, data, len);
    return flush(p);
}

bool plain_end(struct plain *p, grpc_status_code status, const char *text, size_t len)
{
    char end[64];
    struct codec_buf b = {0};

    CHECK(!p->ending);
    p->ending = true;
    snprintf(end, sizeof end, "grpc-status: %d\r\ngrpc-message: ", (int)status);
    codec_buf_append(&b, end, strlen(end));
    size_t start = b.len;
    codec_buf_append(&b, text, len);
    for (size_t i = start; i < b.len; i++) /* one line, whatever the text repeats of what came */
        b.data[i] = b.data[i] == '\r' || b.data[i] == '\n' ? '?' : b.data[i];
    codec_buf_append(&b, "\r\n", 2);
    put_frame(p, PLAIN_HEAD, b.data, b.len);
    codec_buf_free(&b);
    bool left = flush(p);
    if (left)
        loop_timer_set(p->loop, &p->soon, 0);
    return left;
}

/* ---- Reading ---- */

static uint32_t frame_len(const uint8_t *p)
{
    return (uint32_t)p[1] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 8 | p[4];
}

/* The client broke a rule of the form, and gets no answer, as with HTTP/2. */
static bool breaks_form(struct plain *p, enum frames_rule rule, uint32_t limit)
{
    guard_plain_broke(p->guard, rule, limit);
    return tell_over(p, false);
}

/* As gRPC answers a message beyond its limit. */
static bool too_long(struct plain *p, uint32_t len)
{
    char text[100];

    snprintf(text, sizeof text, "Received message larger than max (%u vs. %u)", len, p->max_message_bytes);
    if (!p->ending)
        (void)plain_end(p, GRPC_STATUS_RESOURCE_EXHAUSTED, text, strlen(text));
    return tell_over(p, false);
}

static bool tell_head(struct plain *p, const uint8_t *data, size_t len)
{
    struct plain_head h;

    if (!plain_head_read(&h, data, len))
        return breaks_form(p, BROKEN_PLAIN, PLAIN_HEAD);
    p->headed = true;
    guard_plain_began(p->guard);
    p->busy++;
    p->fns.head(p->arg, p, &h);
    return end_callback(p);
}

static bool tell_message(struct plain *p, const uint8_t *data, size_t len)
{
    p->wanted = false;
    if (!guard_plain_in(p->guard, len))
        return tell_over(p, false);
    p->busy++;
    p->fns.message(p->arg, data, len);
    return end_callback(p);
}

/* The whole frame at `at`, if it may be told. False: p is freed. *used: its bytes; 0: not now. */
static bool tell_frame(struct plain *p, size_t at, size_t *used)
{
    const size_t left = p->in.len - at;
    const uint8_t want = p->headed ? PLAIN_MESSAGE : PLAIN_HEAD;

    *used = 0;
    if (left == 0)
        return true;
    const uint8_t *frame = p->in.data + at;

    if (frame[0] != want)
        return breaks_form(p, BROKEN_PLAIN, frame[0]);
    if (left < PLAIN_PREFIX_BYTES)
        return true;
    uint32_t len = frame_len(frame);
    if (!p->headed && len > PLAIN_HEAD_MAX)
        return breaks_form(p, BROKEN_HEADERS, PLAIN_HEAD_MAX);
    if (len > p->max_message_bytes)
        return too_long(p, len);
    if (left - PLAIN_PREFIX_BYTES < len || (p->headed && !p->wanted))
        return true;
    *used = PLAIN_PREFIX_BYTES + len;
    return p->headed ? tell_message(p, frame + PLAIN_PREFIX_BYTES, len)
                     : tell_head(p, frame + PLAIN_PREFIX_BYTES, len);
}

/* The bytes of a frame that is not whole. */
static size_t unfinished(const struct plain *p)
{
    const size_t n = p->in.len;

    return n < PLAIN_PREFIX_BYTES || n - PLAIN_PREFIX_BYTES < frame_len(p->in.data) ? n : 0;
}

/* How many bytes may lie in the buffer: a frame that is wanted, and some ahead. */
static size_t in_max(const struct plain *p)
{
    size_t next =
        p->in.len >= PLAIN_PREFIX_BYTES && p->wanted ? PLAIN_PREFIX_BYTES + (size_t)frame_len(p->in.data) : 0;

    return next > PLAIN_AHEAD_MAX ? next : PLAIN_AHEAD_MAX;
}

static void watch_events(struct plain *p)
{
    unsigned events = p->in.len < in_max(p) && !p->ending ? LOOP_READ : 0;

    if (p->over || p->freed)
        return;
    events |= out_left(p) > 0 ? LOOP_WRITE : 0;
    loop_fd_events(p->watch, events);
    if (events)
        loop_timer_clear(p->loop, &p->look);
    else
        loop_timer_set(p->loop, &p->look, loop_now(p->loop) + LOOK_US);
}

static void on_look(void *arg)
{
    struct plain *p = arg;
    struct pollfd at = {.fd = p->fd, .events = POLLRDHUP};

    if (poll(&at, 1, 0) > 0)
        (void)tell_over(p, false);
    else
        watch_events(p);
}

/* Tells what lies in the buffer. False: p is freed. */
static bool tell_frames(struct plain *p)
{
    size_t at = 0, used = 1;

    while (!p->over && !p->ending && used > 0) {
        if (!tell_frame(p, at, &used))
            return false;
        at += used;
    }
    if (at == p->in.len) {
        give_back(&p->in);
    } else if (at > 0) {
        memmove(p->in.data, p->in.data + at, p->in.len - at);
        p->in.len -= at;
    }
    if (!guard_plain_holds(p->guard, unfinished(p)))
        return tell_over(p, false);
    watch_events(p);
    return true;
}

/* False: p is freed. */
static bool read_some(struct plain *p)
{
    uint8_t bytes[READ_BYTES];
    ssize_t n = recv(p->fd, bytes, sizeof bytes, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (n <= 0)
        return tell_over(p, false);
    codec_buf_append(&p->in, bytes, (size_t)n);
    return tell_frames(p);
}

static void on_events(void *arg, unsigned events)
{
    struct plain *p = arg;

    if (events & LOOP_WRITE && out_left(p) > 0) {
        if (!flush(p))
            return;
        if (p->ending || p->gone) {
            (void)tell_over(p, !p->gone);
            return;
        }
        p->busy++;
        p->fns.sent(p->arg);
        if (!end_callback(p))
            return;
        watch_events(p);
    }
    if (events & LOOP_READ && !p->over && !p->ending)
        (void)read_some(p);
}

static void on_soon(void *arg)
{
    struct plain *p = arg;

    if (p->gone || p->ending)
        (void)tell_over(p, !p->gone);
    else
        (void)tell_frames(p);
}

void plain_want(struct plain *p)
{
    p->wanted = true;
    if (p->busy == 0 && !p->over) {
        watch_events(p);
        if (p->in.len >= PLAIN_PREFIX_BYTES)
            loop_timer_set(p->loop, &p->soon, 0);
    }
}

/* ---- From nothing and back ---- */

struct plain *plain_new(struct loop *l, int fd, struct guard *g, uint32_t max_message_bytes,
                        const struct plain_fns *fns, void *arg)
{
    struct plain *p = xcalloc(1, sizeof *p);

    p->loop = l;
    p->fd = fd;
    p->guard = g;
    p->max_message_bytes = max_message_bytes;
    plain_bind(p, fns, arg);
    loop_timer_init(&p->soon, on_soon, p);
    loop_timer_init(&p->look, on_look, p);
    p->watch = loop_fd_add(l, fd, LOOP_READ, on_events, p);
    return p;
}

void plain_bind(struct plain *p, const struct plain_fns *fns, void *arg)
{
    p->fns = *fns;
    p->arg = arg;
}

void plain_free(struct plain *p)
{
    p->over = p->gone = true;
    loop_timer_clear(p->loop, &p->soon);
    loop_timer_clear(p->loop, &p->look);
    loop_fd_remove(p->watch);
    close(p->fd);
    p->freed = true;
    if (p->busy == 0)
        plain_destroy(p);
}
