/* Executors' messages to bytes and back: without structs in between, since a task may do less than it would take to make them. */
#include "net/attach.h"

#include "base/check.h"
#include "executor.pb.h"
#include "net/wire.h"

#include <stdio.h>
#include <string.h>

#define TAG(message, field) hawk_v1_##message##_##field##_tag

/* ---- Writing ---- */

static void put_number(struct codec_buf *b, uint32_t tag, uint64_t v)
{
    if (!v)
        return;
    wire_put_tag(b, PB_WT_VARINT, tag);
    wire_put_varint(b, v);
}

static void put_bytes(struct codec_buf *b, uint32_t tag, struct attach_bytes v)
{
    if (v.len)
        wire_put_bytes(b, tag, v.data, v.len);
}

static void put_text(struct codec_buf *b, uint32_t tag, struct attach_bytes v)
{
    if (v.len)
        wire_put_text(b, tag, v.data, v.len);
}

static struct attach_bytes text(const char *s) { return (struct attach_bytes){s, strlen(s)}; }

void attach_put_hello(struct codec_buf *b, const struct attach_hello *h)
{
    size_t start = wire_begin(b, TAG(FromExecutor, hello));

    put_text(b, TAG(Hello, app), text(h->app));
    put_number(b, TAG(Hello, slots), h->slots);
    put_text(b, TAG(Hello, name), text(h->name));
    wire_end(b, start);
}

void attach_put_result(struct codec_buf *b, const struct attach_result *r)
{
    uint64_t code = (uint64_t)(int64_t)r->code; /* int32: sign-extended */
    size_t start = wire_begin(b, TAG(FromExecutor, results));

    put_number(b, TAG(AppResult, id), r->id);
    put_bytes(b, TAG(AppResult, result), r->result);
    put_number(b, TAG(AppResult, code), code);
    put_text(b, TAG(AppResult, error), r->error);
    wire_end(b, start);
}

void attach_put_drain(struct codec_buf *b) { put_number(b, TAG(FromExecutor, drain), 1); }

void attach_put_attached(struct codec_buf *b, const char *worker)
{
    size_t start = wire_begin(b, TAG(ToExecutor, attached));

    put_text(b, TAG(Attached, worker), text(worker));
    wire_end(b, start);
}

void attach_put_task(struct codec_buf *b, const struct attach_task *t)
{
    uint64_t limit_us = (uint64_t)t->time_limit_us;
    size_t start = wire_begin(b, TAG(ToExecutor, tasks));

    put_number(b, TAG(AppTask, id), t->id);
    put_bytes(b, TAG(AppTask, job), t->job);
    put_number(b, TAG(AppTask, index), t->index);
    put_number(b, TAG(AppTask, count), t->count);
    put_number(b, TAG(AppTask, attempt), t->attempt);
    put_bytes(b, TAG(AppTask, payload), t->payload);
    put_text(b, TAG(AppTask, name), t->name);
    put_number(b, TAG(AppTask, time_limit_us), limit_us);
    wire_end(b, start);
}

void attach_put_cancel(struct codec_buf *b, uint64_t id)
{
    wire_put_tag(b, PB_WT_VARINT, TAG(ToExecutor, cancel)); /* not packed: a parser takes both */
    wire_put_varint(b, id);
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
static int next_field(struct wire *s, struct field *f)
{
    pb_wire_type_t wire;
    struct wire part;
    bool eof;

    *f = (struct field){0};
    if (!wire_read_tag(s, &wire, &f->tag, &eof))
        return eof ? 0 : -1;
    f->is_bytes = wire == PB_WT_STRING;
    if (wire == PB_WT_VARINT)
        return wire_read_varint(s, &f->number) ? 1 : -1;
    if (wire != PB_WT_STRING) {
        f->tag = 0;
        return wire_skip(s, wire) ? 1 : -1;
    }
    if (!wire_read_part(s, &part))
        return -1;
    f->bytes = (struct attach_bytes){part.p, wire_left(&part)};
    return 1;
}

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
    if (f->is_bytes)
        return -1;
    *to = f->number;
    return 1;
}

static int take_bytes(const struct field *f, uint32_t tag, struct attach_bytes *to)
{
    if (f->tag != tag)
        return 0;
    if (!f->is_bytes)
        return -1;
    *to = f->bytes;
    return 1;
}

/* Reads `name` field by field: `takes` are tried in turn with each. */
#define READ_FIELDS(name, b, ...)                                                                            \
    do {                                                                                                     \
        struct wire s = wire_of((b).data, (b).len);                                                          \
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
    struct wire s = wire_of((b).data, (b).len);
    uint64_t id;
    int err = 0;

    while (!err && wire_left(&s) > 0)
        err = wire_read_varint(&s, &id) ? fns->cancel(arg, id) : broken(why, size, "cancel");
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
    struct wire s = wire_of(data, len);
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
