/* Executors' messages to bytes and back: straight between buffers and nanopb's primitives, since a task may do less than
 * it would take to make structs in between. */
#include "net/attach.h"

#include "base/check.h"
#include "executor.pb.h"

#include <pb_decode.h>
#include <pb_encode.h>
#include <stdio.h>
#include <string.h>

#define TAG(message, field) hawk_v1_##message##_##field##_tag

/* ---- Writing ---- */

static void put_varint(struct codec_buf *b, uint64_t v)
{
    uint8_t bytes[10];
    size_t n = 0;

    do {
        bytes[n++] = (uint8_t)(v & 0x7f) | (v > 0x7f ? 0x80 : 0);
        v >>= 7;
    } while (v);
    codec_buf_append(b, bytes, n);
}

static size_t varint_size(uint64_t v)
{
    size_t n = 1;

    while (v >>= 7)
        n++;
    return n;
}

static void put_key(struct codec_buf *b, uint32_t tag, pb_wire_type_t wire)
{
    put_varint(b, tag << 3 | wire);
}

static void put_number(struct codec_buf *b, uint32_t tag, uint64_t v)
{
    if (!v)
        return;
    put_key(b, tag, PB_WT_VARINT);
    put_varint(b, v);
}
static size_t number_size(uint64_t v) { return v ? 1 + varint_size(v) : 0; } /* tags are below 16 */

static void put_bytes(struct codec_buf *b, uint32_t tag, struct attach_bytes v)
{
    if (!v.len)
        return;
    put_key(b, tag, PB_WT_STRING);
    put_varint(b, v.len);
    codec_buf_append(b, v.data, v.len);
}
static size_t bytes_size(struct attach_bytes v) { return v.len ? 1 + varint_size(v.len) + v.len : 0; }

static struct attach_bytes text(const char *s) { return (struct attach_bytes){s, strlen(s)}; }

static void put_message(struct codec_buf *b, uint32_t tag, size_t size)
{
    put_key(b, tag, PB_WT_STRING);
    put_varint(b, size);
}

void attach_put_hello(struct codec_buf *b, const struct attach_hello *h)
{
    put_message(b, TAG(FromExecutor, hello),
                bytes_size(text(h->app)) + number_size(h->slots) + bytes_size(text(h->name)));
    put_bytes(b, TAG(Hello, app), text(h->app));
    put_number(b, TAG(Hello, slots), h->slots);
    put_bytes(b, TAG(Hello, name), text(h->name));
}

void attach_put_result(struct codec_buf *b, const struct attach_result *r)
{
    uint64_t code = (uint64_t)(int64_t)r->code; /* int32: sign-extended */

    put_message(b, TAG(FromExecutor, results),
                number_size(r->id) + bytes_size(r->result) + number_size(code) + bytes_size(r->error));
    put_number(b, TAG(AppResult, id), r->id);
    put_bytes(b, TAG(AppResult, result), r->result);
    put_number(b, TAG(AppResult, code), code);
    put_bytes(b, TAG(AppResult, error), r->error);
}

void attach_put_drain(struct codec_buf *b) { put_number(b, TAG(FromExecutor, drain), 1); }

void attach_put_attached(struct codec_buf *b, const char *worker)
{
    put_message(b, TAG(ToExecutor, attached), bytes_size(text(worker)));
    put_bytes(b, TAG(Attached, worker), text(worker));
}

void attach_put_task(struct codec_buf *b, const struct attach_task *t)
{
    uint64_t limit_us = (uint64_t)t->time_limit_us;

    put_message(b, TAG(ToExecutor, tasks),
                number_size(t->id) + bytes_size(t->job) + number_size(t->index) + number_size(t->count) +
                    number_size(t->attempt) + bytes_size(t->payload) + bytes_size(t->name) +
                    number_size(limit_us));
    put_number(b, TAG(AppTask, id), t->id);
    put_bytes(b, TAG(AppTask, job), t->job);
    put_number(b, TAG(AppTask, index), t->index);
    put_number(b, TAG(AppTask, count), t->count);
    put_number(b, TAG(AppTask, attempt), t->attempt);
    put_bytes(b, TAG(AppTask, payload), t->payload);
    put_bytes(b, TAG(AppTask, name), t->name);
    put_number(b, TAG(AppTask, time_limit_us), limit_us);
}

void attach_put_cancel(struct codec_buf *b, uint64_t id)
{
    put_key(b, TAG(ToExecutor, cancel), PB_WT_VARINT); /* not packed: a parser takes both */
    put_varint(b, id);
}

/* ---- Reading ---- */

/* One field: its number, and a value of one of two forms. */
struct field {
    uint32_t tag;
    bool is_bytes;
    uint64_t number;
    struct attach_bytes bytes;
};

/* 1: a field; 0: the end; -1: broken. A form that none of our messages has is passed over (tag 0). */
static int next_field(pb_istream_t *s, struct field *f)
{
    pb_wire_type_t wire;
    uint64_t len;
    bool eof;

    if (!pb_decode_tag(s, &wire, &f->tag, &eof))
        return eof ? 0 : -1;
    f->is_bytes = wire == PB_WT_STRING;
    if (wire == PB_WT_VARINT)
        return pb_decode_varint(s, &f->number) ? 1 : -1;
    if (wire != PB_WT_STRING) {
        f->tag = 0;
        return pb_skip_field(s, wire) ? 1 : -1;
    }
    if (!pb_decode_varint(s, &len) || len > s->bytes_left)
        return -1;
    f->bytes = (struct attach_bytes){s->state, (size_t)len}; /* of a stream over memory: where it is */
    return pb_read(s, NULL, (size_t)len) ? 1 : -1;
}

static pb_istream_t stream_of(struct attach_bytes b) { return pb_istream_from_buffer(b.data, b.len); }

static int broken(char *why, size_t size, const char *what)
{
    snprintf(why, size, "%s: broken encoding", what);
    return HAWK_EMALFORMED;
}

static int wrong_form(char *why, size_t size, const char *what)
{
    snprintf(why, size, "%s: a field of another type", what);
    return HAWK_EMALFORMED;
}

/* Whether f is one of the message's fields, and of the right form: 1; -1: of the wrong form; 0: another one. */
static int take_number(const struct field *f, uint32_t tag, uint64_t *to)
{
    if (f->tag != tag)
        return 0;
    *to = f->number;
    return f->is_bytes ? -1 : 1;
}

static int take_bytes(const struct field *f, uint32_t tag, struct attach_bytes *to)
{
    if (f->tag != tag)
        return 0;
    *to = f->bytes;
    return f->is_bytes ? 1 : -1;
}

/* Reads `name` field by field: `takes` are tried in turn with each. */
#define READ_FIELDS(name, b, ...)                                                                            \
    do {                                                                                                     \
        pb_istream_t s = stream_of(b);                                                                       \
        struct field f;                                                                                      \
        int got;                                                                                             \
                                                                                                             \
        while ((got = next_field(&s, &f)) > 0) {                                                             \
            const int takes[] = {__VA_ARGS__};                                                               \
                                                                                                             \
            for (size_t i = 0; i < sizeof takes / sizeof *takes; i++)                                        \
                if (takes[i] < 0)                                                                            \
                    return wrong_form(why, size, name);                                                      \
        }                                                                                                    \
        if (got < 0)                                                                                         \
            return broken(why, size, name);                                                                  \
    } while (0)

static void copy_text(char *to, size_t size, struct attach_bytes from)
{
    size_t n = from.len < size - 1 ? from.len : size - 1;

    if (n)
        memcpy(to, from.data, n);
    to[n] = '\0';
}

static int read_hello(struct attach_bytes b, struct attach_hello *h, char *why, size_t size)
{
    struct attach_bytes app = {"", 0}, name = {"", 0};
    uint64_t slots = 0;

    READ_FIELDS("hello", b, take_bytes(&f, TAG(Hello, app), &app), take_number(&f, TAG(Hello, slots), &slots),
                take_bytes(&f, TAG(Hello, name), &name));
    if (memchr(app.data, '\0', app.len) || memchr(name.data, '\0', name.len)) {
        snprintf(why, size, "hello: a NUL byte in a name");
        return HAWK_EMALFORMED;
    }
    copy_text(h->app, sizeof h->app, app);
    copy_text(h->name, sizeof h->name, name);
    h->slots = slots > UINT32_MAX ? UINT32_MAX : (uint32_t)slots;
    return 0;
}

static int read_result(struct attach_bytes b, struct attach_result *r, char *why, size_t size)
{
    uint64_t code = 0;

    *r = (struct attach_result){0};
    READ_FIELDS("result", b, take_number(&f, TAG(AppResult, id), &r->id),
                take_bytes(&f, TAG(AppResult, result), &r->result),
                take_number(&f, TAG(AppResult, code), &code),
                take_bytes(&f, TAG(AppResult, error), &r->error));
    r->code = (int64_t)code > INT32_MAX || (int64_t)code < INT32_MIN ? -1 : (int32_t)(int64_t)code;
    return 0;
}

static int read_attached(struct attach_bytes b, struct attach_bytes *worker, char *why, size_t size)
{
    *worker = (struct attach_bytes){"", 0};
    READ_FIELDS("attached", b, take_bytes(&f, TAG(Attached, worker), worker));
    return 0;
}

static int read_task(struct attach_bytes b, struct attach_task *t, char *why, size_t size)
{
    uint64_t index = 0, count = 0, attempt = 0, limit_us = 0;

    *t = (struct attach_task){.job = {"", 0}, .name = {"", 0}, .payload = {"", 0}};
    READ_FIELDS(
        "task", b, take_number(&f, TAG(AppTask, id), &t->id), take_bytes(&f, TAG(AppTask, job), &t->job),
        take_number(&f, TAG(AppTask, index), &index), take_number(&f, TAG(AppTask, count), &count),
        take_number(&f, TAG(AppTask, attempt), &attempt), take_bytes(&f, TAG(AppTask, payload), &t->payload),
        take_bytes(&f, TAG(AppTask, name), &t->name),
        take_number(&f, TAG(AppTask, time_limit_us), &limit_us));
    t->index = (uint32_t)index;
    t->count = (uint32_t)count;
    t->attempt = (uint32_t)attempt;
    t->time_limit_us = (int64_t)limit_us;
    return 0;
}

static int part_from_executor(const struct field *f, const struct attach_fns *fns, void *arg, char *why,
                              size_t size)
{
    struct attach_hello hello;
    struct attach_result result;
    int err = 0;

    switch (f->tag) {
    case TAG(FromExecutor, hello):
        if (!f->is_bytes)
            return wrong_form(why, size, "hello");
        err = read_hello(f->bytes, &hello, why, size);
        return err ? err : fns->hello(arg, &hello);
    case TAG(FromExecutor, results):
        if (!f->is_bytes)
            return wrong_form(why, size, "results");
        err = read_result(f->bytes, &result, why, size);
        return err ? err : fns->result(arg, &result);
    case TAG(FromExecutor, drain):
        if (f->is_bytes)
            return wrong_form(why, size, "drain");
        return f->number ? fns->drain(arg) : 0;
    default:
        return 0;
    }
}

/* Several numbers in one field, as most encoders write them. */
static int packed_cancels(struct attach_bytes b, const struct attach_fns *fns, void *arg, char *why,
                          size_t size)
{
    pb_istream_t s = stream_of(b);
    uint64_t id;
    int err = 0;

    while (!err && s.bytes_left > 0)
        err = pb_decode_varint(&s, &id) ? fns->cancel(arg, id) : broken(why, size, "cancel");
    return err;
}

static int part_from_worker(const struct field *f, const struct attach_fns *fns, void *arg, char *why,
                            size_t size)
{
    struct attach_bytes worker;
    struct attach_task task;
    int err;

    switch (f->tag) {
    case TAG(ToExecutor, attached):
        if (!f->is_bytes)
            return wrong_form(why, size, "attached");
        err = read_attached(f->bytes, &worker, why, size);
        return err ? err : fns->attached(arg, worker);
    case TAG(ToExecutor, tasks):
        if (!f->is_bytes)
            return wrong_form(why, size, "tasks");
        err = read_task(f->bytes, &task, why, size);
        return err ? err : fns->task(arg, &task);
    case TAG(ToExecutor, cancel):
        return f->is_bytes ? packed_cancels(f->bytes, fns, arg, why, size) : fns->cancel(arg, f->number);
    default:
        return 0;
    }
}

typedef int part_fn(const struct field *f, const struct attach_fns *fns, void *arg, char *why, size_t size);

static int read_all(const void *data, size_t len, part_fn *part, const struct attach_fns *fns, void *arg,
                    char *why, size_t size)
{
    pb_istream_t s = pb_istream_from_buffer(data, len);
    struct field f;
    int got, err = 0;

    while (!err && (got = next_field(&s, &f)) != 0)
        err = got > 0 ? part(&f, fns, arg, why, size) : broken(why, size, "message");
    return err;
}

int attach_from_executor(const void *data, size_t len, const struct attach_fns *fns, void *arg, char *why,
                         size_t size)
{
    return read_all(data, len, part_from_executor, fns, arg, why, size);
}

int attach_from_worker(const void *data, size_t len, const struct attach_fns *fns, void *arg, char *why,
                       size_t size)
{
    return read_all(data, len, part_from_worker, fns, arg, why, size);
}
