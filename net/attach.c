/* Executors' messages to bytes and back. They have no handles: a task may take less time than making one. */
#include "net/attach.h"

#include "base/check.h"
#include "base/mem.h"
#include "executor.pb.h"
#include "net/fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAG(message, field) hawk_v1_##message##_##field##_tag

/* ---- The messages, in the order of their numbers in executor.proto (net/fields.h) ---- */

#define FIELDS_hello(F)                                                                                      \
    F(utf8, app) F(u32, slots) F(utf8, name) F(u8, pauses) F(utf8, task_of) F(u32, task) F(utf8, resident_of)
#define FIELDS_result(F) F(varint, id) F(span, result) F(int32, code) F(utf8, error)
#define FIELDS_paused(F) F(varint, id) F(u8, refused)
#define FIELDS_pause(F) F(varint, id) F(u8, on)
#define FIELDS_attached(F) F(utf8, worker) F(u32, slots)
#define FIELDS_task(F)                                                                                       \
    F(varint, id)                                                                                            \
    F(span, job)                                                                                             \
    F(u32, index) F(u32, count) F(u32, attempt) F(span, payload) F(utf8, name) F(int64, time_limit_us)

struct hello {
    struct span app, name, task_of, resident_of;
    uint32_t slots, task;
    uint8_t pauses;
};
struct attached {
    struct span worker;
    uint32_t slots;
};

#define DEFINE_MESSAGE(name, type, Message)                                                                  \
    DEFINE_PUT(name, type, Message)                                                                          \
    DEFINE_GET(name, type)
DEFINE_MESSAGE(hello, struct hello, hawk_v1_Hello)
DEFINE_MESSAGE(result, struct attach_result, hawk_v1_AppResult)
DEFINE_MESSAGE(paused, struct attach_paused, hawk_v1_Paused)
DEFINE_MESSAGE(pause, struct attach_pause, hawk_v1_Pause)
DEFINE_MESSAGE(attached, struct attached, hawk_v1_Attached)
DEFINE_MESSAGE(task, struct attach_task, hawk_v1_AppTask)

/* ---- Writing ---- */

void attach_put_hello(struct codec_buf *b, const struct attach_hello *h)
{
    size_t start = wire_begin(b, TAG(FromExecutor, hello));

    put_fields_hello(b, &(struct hello){.app = span_text(h->app),
                                        .name = span_text(h->name),
                                        .slots = h->slots,
                                        .pauses = h->pauses,
                                        .task_of = span_text(h->task_of),
                                        .task = h->task,
                                        .resident_of = span_text(h->resident_of)});
    wire_end(b, start);
}

void attach_put_result(struct codec_buf *b, const struct attach_result *r)
{
    size_t start = wire_begin(b, TAG(FromExecutor, results));

    put_fields_result(b, r);
    wire_end(b, start);
}

void attach_put_drain(struct codec_buf *b) { put_varint(b, TAG(FromExecutor, drain), 1); }

void attach_put_paused(struct codec_buf *b, const struct attach_paused *p)
{
    size_t start = wire_begin(b, TAG(FromExecutor, paused));

    put_fields_paused(b, p);
    wire_end(b, start);
}

void attach_put_attached(struct codec_buf *b, const char *worker, uint32_t slots)
{
    size_t start = wire_begin(b, TAG(ToExecutor, attached));

    put_fields_attached(b, &(struct attached){span_text(worker), slots});
    wire_end(b, start);
}

void attach_put_task(struct codec_buf *b, const struct attach_task *t)
{
    size_t start = wire_begin(b, TAG(ToExecutor, tasks));

    put_fields_task(b, t);
    wire_end(b, start);
}

void attach_put_cancel(struct codec_buf *b, uint64_t id)
{
    wire_put_tag(b, PB_WT_VARINT, TAG(ToExecutor, cancel)); /* not packed: parsers read both forms */
    wire_put_varint(b, id);
}

void attach_put_pause(struct codec_buf *b, const struct attach_pause *p)
{
    size_t start = wire_begin(b, TAG(ToExecutor, pauses));

    put_fields_pause(b, p);
    wire_end(b, start);
}

struct codec_buf *attach_batch(struct attach_batches *b, size_t len)
{
    struct codec_buf *last = b->n ? &b->v[b->n - 1] : NULL;

    if (last && (last->len == 0 || last->len + len < ATTACH_BATCH_BYTES))
        return last;
    vec_grow(b->v, b->n, b->cap);
    CHECK(b->v);
    b->v[b->n++] = (struct codec_buf){0};
    return &b->v[b->n - 1];
}

struct span attach_first(const struct attach_batches *b) { return b->n ? span_of(b->v) : (struct span){0}; }

void attach_drop_first(struct attach_batches *b)
{
    struct codec_buf first = b->v[0];

    b->n--;
    b->dropped++;
    memmove(b->v, b->v + 1, b->n * sizeof *b->v);
    if (b->n == 0 && first.cap <= 2 * ATTACH_BATCH_BYTES) {
        first.len = 0; /* kept for the next message */
        b->v[b->n++] = first;
        return;
    }
    codec_buf_free(&first);
}

void attach_batches_free(struct attach_batches *b)
{
    for (uint32_t i = 0; i < b->n; i++)
        codec_buf_free(&b->v[i]);
    free(b->v);
    *b = (struct attach_batches){0};
}

/* ---- Reading ---- */

static int broken_encoding(char *why, size_t size, const char *what)
{
    snprintf(why, size, "%s: broken encoding", what);
    return HAWK_EMALFORMED;
}

static int wrong_form(char *why, size_t size, const char *what)
{
    snprintf(why, size, "%s: a field of another type", what);
    return HAWK_EMALFORMED;
}

/* Decodes a part of the message and calls `tell`. The field must be bytes. */
#define READ_PART(name, tell)                                                                                \
    do {                                                                                                     \
        struct wire part = wire_of(f->bytes.data, f->bytes.len);                                             \
                                                                                                             \
        if (!f->is_bytes)                                                                                    \
            return wrong_form(why, size, #name);                                                             \
        if (!get_fields_##name(&part, &name))                                                                \
            return broken_encoding(why, size, #name);                                                        \
        return tell;                                                                                         \
    } while (0)

/* A longer text is cut, and still longer than the limit. */
static void copy_text(char *to, size_t size, struct span from)
{
    size_t n = from.len < size - 1 ? from.len : size - 1;

    memcpy(to, from.data, n);
    to[n] = '\0';
}

static int tell_hello(const struct hello *h, const struct attach_fns *fns, void *arg, char *why, size_t size)
{
    struct attach_hello to = {.slots = h->slots, .pauses = h->pauses, .task = h->task};

    if (memchr(h->app.data, '\0', h->app.len) || memchr(h->name.data, '\0', h->name.len)) {
        snprintf(why, size, "hello: a NUL byte in a name");
        return HAWK_EMALFORMED;
    }
    copy_text(to.app, sizeof to.app, h->app);
    copy_text(to.name, sizeof to.name, h->name);
    copy_text(to.task_of, sizeof to.task_of, h->task_of);
    copy_text(to.resident_of, sizeof to.resident_of, h->resident_of);
    return fns->hello(arg, &to);
}

static int part_from_executor(const struct wire_field *f, const struct attach_fns *fns, void *arg, char *why,
                              size_t size)
{
    struct hello hello = {
        .app = span_text(""), .name = span_text(""), .task_of = span_text(""), .resident_of = span_text("")};
    struct attach_result result = {.id = 0};
    struct attach_paused paused = {.id = 0};

    switch (f->tag) {
    case TAG(FromExecutor, hello):
        READ_PART(hello, tell_hello(&hello, fns, arg, why, size));
    case TAG(FromExecutor, results):
        READ_PART(result, fns->result(arg, &result));
    case TAG(FromExecutor, paused):
        READ_PART(paused, fns->paused(arg, &paused));
    case TAG(FromExecutor, drain):
        if (f->is_bytes)
            return wrong_form(why, size, "drain");
        return f->number ? fns->drain(arg) : 0;
    default:
        return 0;
    }
}

/* Reads several numbers in one field, as most encoders write them. */
static int packed_cancels(struct span b, const struct attach_fns *fns, void *arg, char *why, size_t size)
{
    struct wire s = wire_of(b.data, b.len);
    uint64_t id;
    int err = 0;

    while (!err && wire_left(&s) > 0)
        err = wire_read_varint(&s, &id) ? fns->cancel(arg, id) : broken_encoding(why, size, "cancel");
    return err;
}

static int part_from_worker(const struct wire_field *f, const struct attach_fns *fns, void *arg, char *why,
                            size_t size)
{
    struct attached attached = {span_text(""), 0};
    struct attach_task task = {.job = span_text(""), .name = span_text(""), .payload = span_text("")};
    struct attach_pause pause = {.id = 0};

    switch (f->tag) {
    case TAG(ToExecutor, attached):
        READ_PART(attached, fns->attached(arg, attached.worker));
    case TAG(ToExecutor, tasks):
        READ_PART(task, fns->task(arg, &task));
    case TAG(ToExecutor, pauses):
        READ_PART(pause, fns->pause(arg, &pause));
    case TAG(ToExecutor, cancel):
        return f->is_bytes ? packed_cancels(f->bytes, fns, arg, why, size) : fns->cancel(arg, f->number);
    default:
        return 0;
    }
}

typedef int part_fn(const struct wire_field *f, const struct attach_fns *fns, void *arg, char *why,
                    size_t size);

static int read_all(const void *data, size_t len, part_fn *part, const struct attach_fns *fns, void *arg,
                    char *why, size_t size)
{
    struct wire s = wire_of(data, len);
    struct wire_field f;
    int got, err = 0;

    while (!err && (got = wire_next(&s, &f)) != 0)
        err = got > 0 ? part(&f, fns, arg, why, size) : broken_encoding(why, size, "message");
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
