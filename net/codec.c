/* Messages and job descriptions to bytes and back, with nanopb's primitives.
 *
 * A protobuf message is a list of (field kind, name) as in msg/msg.h; its field numbers are the positions in that
 * list. One pair of functions per kind, put_KIND and get_KIND, and two generators make everything else. Going
 * straight between struct msg and bytes saves the generated structs in between; the tests compare both ways with
 * what nanopb generates from the .proto. */
#include "net/codec.h"

#include "base/check.h"
#include "base/mem.h"
#include "cluster.pb.h"
#include "hawk.pb.h"

#include <inttypes.h>
#include <pb_decode.h>
#include <pb_encode.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define X(NAME, name, tag)                                                                                   \
    _Static_assert(hawk_v1_Envelope_##name##_tag == (tag), #NAME " has its place in cluster.proto");
WIRE_MESSAGES(X)
#undef X

/* The structs that messages carry by value, in the order of their numbers in cluster.proto. */
#define FIELDS_try_id(F) F(job, job) F(u32, task) F(u16, epoch) F(u16, attempt)
#define FIELDS_cluster_policy(F)                                                                             \
    F(i64, cutoff_us)                                                                                        \
    F(u32, version)                                                                                          \
    F(u32, flags)                                                                                            \
    F(u32, short_share_ppm) F(u32, probe_ratio_milli) F(u32, min_probes) F(u16, steal_cap) F(u16, steal_max)
#define FIELDS_member_info(F)                                                                                \
    F(node, node) F(u32, slots) F(u8, role) F(u8, state) F(u8, general) F(blob, addr) F(blob, name)

/* A job description: F(kind, member of struct job_desc, field of JobSpec). */
#define SPEC_FIELDS(F)                                                                                       \
    F(text, name, name)                                                                                      \
    F(u32, tasks, tasks)                                                                                     \
    F(u8, tag, tag)                                                                                          \
    F(i64, estimate_us, estimate_us)                                                                         \
    F(i64, time_limit_us, time_limit_us)                                                                     \
    F(u16, retries, retries)                                                                                 \
    F(u8, kind, kind)                                                                                        \
    F(detached, flags, detached)                                                                             \
    F(u32, max_fails, max_fails)                                                                             \
    F(u32, first_index, first_index)                                                                         \
    F(strings, argv, argv)                                                                                   \
    F(strings, env, env)                                                                                     \
    F(text, cwd, cwd)                                                                                        \
    F(text, stdout_pattern, stdout)                                                                          \
    F(text, stderr_pattern, stderr)                                                                          \
    F(text, input, stdin)                                                                                    \
    F(text, app, app)                                                                                        \
    F(text, user, user)                                                                                      \
    F(each_arg, flags, each_arg)                                                                             \
    F(at_most_once, flags, at_most_once)

/* ---- Encoding: nothing in it can fail, the buffer grows (base/mem.h) ---- */

void codec_buf_free(struct codec_buf *b)
{
    free(b->data);
    *b = (struct codec_buf){0};
}

static void reserve(struct codec_buf *b, size_t n)
{
    if (b->cap - b->len >= n)
        return;
    b->cap = b->cap ? b->cap : 256;
    while (b->cap - b->len < n)
        b->cap *= 2;
    b->data = xrealloc(b->data, b->cap);
}

void codec_buf_append(struct codec_buf *b, const void *data, size_t n)
{
    if (n == 0)
        return;
    reserve(b, n);
    memcpy(b->data + b->len, data, n);
    b->len += n;
}

static bool append(pb_ostream_t *s, const pb_byte_t *data, size_t n)
{
    codec_buf_append(s->state, data, n);
    return true;
}

static pb_ostream_t stream_to(struct codec_buf *b)
{
    return (pb_ostream_t){.callback = append, .state = b, .max_size = SIZE_MAX};
}

static void put_none(pb_ostream_t *s, uint32_t tag, uint8_t v) {}

/* A message within a message: its length goes in front when it is known. One byte is kept for it, which is
 * enough for nearly all; a longer message moves up. Returns where it begins. */
static size_t begin(pb_ostream_t *s, uint32_t tag)
{
    struct codec_buf *b = s->state;

    pb_encode_tag(s, PB_WT_STRING, tag);
    reserve(b, 1);
    return ++b->len;
}

static void end(pb_ostream_t *s, size_t start)
{
    struct codec_buf *b = s->state;
    size_t len = b->len - start;
    uint8_t varint[10];
    size_t n = 0;

    if (len < 0x80) {
        b->data[start - 1] = (uint8_t)len;
        return;
    }
    for (size_t rest = len; rest; rest >>= 7)
        varint[n++] = (uint8_t)(rest & 0x7f) | (rest > 0x7f ? 0x80 : 0);
    reserve(b, n - 1);
    memmove(b->data + start - 1 + n, b->data + start, len);
    memcpy(b->data + start - 1, varint, n);
    b->len += n - 1;
}

/* Zero is what an absent number means (proto3). */
static void put_u64_varint(pb_ostream_t *s, uint32_t tag, uint64_t v)
{
    if (!v)
        return;
    pb_encode_tag(s, PB_WT_VARINT, tag);
    pb_encode_varint(s, v);
}

static void put_u64(pb_ostream_t *s, uint32_t tag, uint64_t v)
{
    if (!v)
        return;
    pb_encode_tag(s, PB_WT_64BIT, tag);
    pb_encode_fixed64(s, &v);
}

static void put_u8(pb_ostream_t *s, uint32_t tag, uint8_t v) { put_u64_varint(s, tag, v); }
static void put_u16(pb_ostream_t *s, uint32_t tag, uint16_t v) { put_u64_varint(s, tag, v); }
static void put_u32(pb_ostream_t *s, uint32_t tag, uint32_t v) { put_u64_varint(s, tag, v); }
static void put_i64(pb_ostream_t *s, uint32_t tag, int64_t v) { put_u64_varint(s, tag, (uint64_t)v); }
static void put_i32(pb_ostream_t *s, uint32_t tag, int32_t v)
{
    put_u64_varint(s, tag, (uint32_t)v << 1 ^ (uint32_t)(v >> 31)); /* sint32 */
}
static void put_app(pb_ostream_t *s, uint32_t tag, uint64_t v) { put_u64(s, tag, v); }
static void put_node(pb_ostream_t *s, uint32_t tag, node_id_t v) { put_u64_varint(s, tag, v.v); }
static void put_job(pb_ostream_t *s, uint32_t tag, job_id_t v) { put_u64(s, tag, v.v); }

static void put_bytes(pb_ostream_t *s, uint32_t tag, const void *data, size_t len)
{
    pb_encode_tag(s, PB_WT_STRING, tag);
    pb_encode_string(s, data, len);
}

/* An empty blob travels, an absent one does not. */
static void put_blob(pb_ostream_t *s, uint32_t tag, const struct blob *v)
{
    if (v)
        put_bytes(s, tag, v->data, v->len);
}

/* Empty and absent are the same. */
static void put_text(pb_ostream_t *s, uint32_t tag, const struct blob *v)
{
    if (v && v->len)
        put_bytes(s, tag, v->data, v->len);
}

static void put_strings(pb_ostream_t *s, uint32_t tag, struct strings v)
{
    const char *text = v.data;

    for (uint32_t i = 0; i < v.n; i++, text += strlen(text) + 1)
        put_bytes(s, tag, text, strlen(text));
}

static void put_detached(pb_ostream_t *s, uint32_t tag, uint32_t flags)
{
    put_u8(s, tag, (flags & JOB_DETACHED) != 0);
}
static void put_each_arg(pb_ostream_t *s, uint32_t tag, uint32_t flags)
{
    put_u8(s, tag, (flags & JOB_EACH_ARG) != 0);
}

static void put_at_most_once(pb_ostream_t *s, uint32_t tag, uint32_t flags)
{
    put_u8(s, tag, (flags & JOB_AT_MOST_ONCE) != 0);
}

static void put_desc_fields(pb_ostream_t *s, const struct job_desc *d, bool args)
{
#define FIELD(kind, member, proto) put_##kind(s, hawk_v1_JobSpec_##proto##_tag, d->member);
    SPEC_FIELDS(FIELD)
#undef FIELD
    for (uint32_t i = 0; args && i < d->args.n; i++)
        put_bytes(s, hawk_v1_JobSpec_task_args_tag, d->args.data + d->args.off[i],
                  d->args.off[i + 1] - d->args.off[i]);
}

static void put_description(pb_ostream_t *s, uint32_t tag, const struct job_desc *v, bool args)
{
    size_t start;

    if (!v)
        return;
    start = begin(s, tag);
    put_desc_fields(s, v, args);
    end(s, start);
}

static void put_desc(pb_ostream_t *s, uint32_t tag, const struct job_desc *v)
{
    put_description(s, tag, v, true);
}
static void put_spec(pb_ostream_t *s, uint32_t tag, const struct job_desc *v)
{
    put_description(s, tag, v, false);
}

static void put_tasks(pb_ostream_t *s, uint32_t tag, const struct task_set *v)
{
    size_t start;

    if (!v)
        return;
    start = begin(s, tag);
    for (uint32_t i = 0; i < v->n; i++)
        pb_encode_varint(s, v->v[i]);
    end(s, start);
}

/* Field numbers are positions: of each list an enumeration, local to the function. */
#define NUMBER(kind, field) number_##field,
#define PUT(kind, field) put_##kind(s, number_##field, p->field);
#define DEFINE_PUT(name, type)                                                                               \
    static void put_fields_##name(pb_ostream_t *s, const type *p)                                            \
    {                                                                                                        \
        enum { number_0, FIELDS_##name(NUMBER) };                                                            \
        FIELDS_##name(PUT)                                                                                   \
    }
#define DEFINE_PUT_VALUE(kind, fields, type)                                                                 \
    static void put_##kind(pb_ostream_t *s, uint32_t tag, type v)                                            \
    {                                                                                                        \
        size_t start = begin(s, tag);                                                                        \
                                                                                                             \
        put_fields_##fields(s, &v);                                                                          \
        end(s, start);                                                                                       \
    }

DEFINE_PUT(try_id, struct try_id)
DEFINE_PUT(cluster_policy, struct policy)
DEFINE_PUT(member_info, struct member)
DEFINE_PUT_VALUE(try, try_id, struct try_id)
DEFINE_PUT_VALUE(policy, cluster_policy, struct policy)
DEFINE_PUT_VALUE(member, member_info, struct member)

static void put_members(pb_ostream_t *s, uint32_t tag, const struct members *v)
{
    for (uint32_t i = 0; v && i < v->n; i++)
        put_member(s, tag, v->v[i]);
}

#define X(NAME, name, tag) DEFINE_PUT(name, struct msg_##name)
WIRE_MESSAGES(X)
#undef X

int codec_encode(struct codec_buf *b, const struct msg *m)
{
    size_t before = b->len, envelope, body;
    pb_ostream_t stream = stream_to(b), *s = &stream;

    CHECK(msg_is_wire(m));
    envelope = begin(s, hawk_v1_Batch_envelopes_tag);
    switch (m->type) {
#define X(NAME, name, tag)                                                                                   \
    case MSG_##NAME:                                                                                         \
        body = begin(s, tag);                                                                                \
        put_fields_##name(s, &m->name);                                                                      \
        end(s, body);                                                                                        \
        break;
        WIRE_MESSAGES(X)
#undef X
    }
    end(s, envelope);
    if (b->len - before <= CODEC_ENVELOPE_MAX)
        return 0;
    b->len = before;
    return HAWK_ETOO_LARGE;
}

void codec_desc_encode(struct codec_buf *b, const struct job_desc *d, bool args)
{
    pb_ostream_t s = stream_to(b);

    put_desc_fields(&s, d, args);
}

/* ---- Decoding: false means malformed; what a handle holds by then, the caller drops ---- */

static bool get_varint(pb_istream_t *s, pb_wire_type_t wire, uint64_t max, uint64_t *v)
{
    return wire == PB_WT_VARINT && pb_decode_varint(s, v) && *v <= max;
}

#define DEFINE_GET_NUMBER(kind, type, max)                                                                   \
    static bool get_##kind(pb_istream_t *s, pb_wire_type_t wire, type *v)                                    \
    {                                                                                                        \
        uint64_t wide;                                                                                       \
                                                                                                             \
        if (!get_varint(s, wire, max, &wide))                                                                \
            return false;                                                                                    \
        *v = (type)wide;                                                                                     \
        return true;                                                                                         \
    }
DEFINE_GET_NUMBER(u8, uint8_t, UINT8_MAX)
DEFINE_GET_NUMBER(u16, uint16_t, UINT16_MAX)
DEFINE_GET_NUMBER(u32, uint32_t, UINT32_MAX)
DEFINE_GET_NUMBER(i64, int64_t, INT64_MAX)

static bool get_none(pb_istream_t *s, pb_wire_type_t wire, uint8_t *v) { return pb_skip_field(s, wire); }

static bool get_u64(pb_istream_t *s, pb_wire_type_t wire, uint64_t *v)
{
    return wire == PB_WT_64BIT && pb_decode_fixed64(s, v);
}

static bool get_i32(pb_istream_t *s, pb_wire_type_t wire, int32_t *v)
{
    uint64_t wide;

    if (!get_varint(s, wire, UINT32_MAX, &wide))
        return false;
    *v = (int32_t)((uint32_t)(wide >> 1) ^ (~(uint32_t)(wide & 1) + 1)); /* sint32 */
    return true;
}

static bool get_node(pb_istream_t *s, pb_wire_type_t wire, node_id_t *v) { return get_u32(s, wire, &v->v); }
static bool get_app(pb_istream_t *s, pb_wire_type_t wire, uint64_t *v) { return get_u64(s, wire, v); }
static bool get_job(pb_istream_t *s, pb_wire_type_t wire, job_id_t *v) { return get_u64(s, wire, &v->v); }

/* The length of what follows, which must be there. */
static bool get_length(pb_istream_t *s, pb_wire_type_t wire, uint32_t *len)
{
    return wire == PB_WT_STRING && pb_decode_varint32(s, len) && *len <= s->bytes_left;
}

static bool get_blob(pb_istream_t *s, pb_wire_type_t wire, struct blob **v)
{
    uint32_t len;

    if (!get_length(s, wire, &len))
        return false;
    blob_drop(*v); /* the last one counts */
    *v = blob_new(NULL, len);
    return pb_read(s, (pb_byte_t *)(*v)->data, len);
}

static bool get_text(pb_istream_t *s, pb_wire_type_t wire, struct blob **v) { return get_blob(s, wire, v); }

static bool get_strings(pb_istream_t *s, pb_wire_type_t wire, struct strings *v)
{
    uint32_t len;
    char *text;

    if (!get_length(s, wire, &len) || len > LIMIT_JOB_BYTES || v->bytes > LIMIT_JOB_BYTES)
        return false;
    text = strings_add_space(v, len);
    return pb_read(s, (pb_byte_t *)text, len) && !memchr(text, '\0', len);
}

static bool get_arg(pb_istream_t *s, pb_wire_type_t wire, struct task_args *v)
{
    uint32_t len;

    if (!get_length(s, wire, &len) || v->n == LIMIT_TASKS_PER_JOB || len > LIMIT_JOB_BYTES ||
        (v->n && v->off[v->n] > LIMIT_JOB_BYTES))
        return false;
    return pb_read(s, task_args_add_space(v, len), len);
}

static bool get_flag(pb_istream_t *s, pb_wire_type_t wire, uint32_t *flags, uint32_t flag)
{
    uint64_t on;

    if (!get_varint(s, wire, UINT64_MAX, &on))
        return false;
    *flags = on ? *flags | flag : *flags & ~flag;
    return true;
}

static bool get_detached(pb_istream_t *s, pb_wire_type_t wire, uint32_t *flags)
{
    return get_flag(s, wire, flags, JOB_DETACHED);
}

static bool get_each_arg(pb_istream_t *s, pb_wire_type_t wire, uint32_t *flags)
{
    return get_flag(s, wire, flags, JOB_EACH_ARG);
}

static bool get_at_most_once(pb_istream_t *s, pb_wire_type_t wire, uint32_t *flags)
{
    return get_flag(s, wire, flags, JOB_AT_MOST_ONCE);
}

static bool get_desc_fields(pb_istream_t *s, struct job_desc *d, bool args)
{
    pb_wire_type_t wire;
    uint32_t number;
    bool eof;

    while (pb_decode_tag(s, &wire, &number, &eof)) {
        bool ok;

        switch (number) {
#define FIELD(kind, member, proto)                                                                           \
    case hawk_v1_JobSpec_##proto##_tag:                                                                      \
        ok = get_##kind(s, wire, &d->member);                                                                \
        break;
            SPEC_FIELDS(FIELD)
#undef FIELD
        case hawk_v1_JobSpec_task_args_tag:
            ok = args ? get_arg(s, wire, &d->args) : pb_skip_field(s, wire);
            break;
        default:
            ok = pb_skip_field(s, wire);
        }
        if (!ok)
            return false;
    }
    return eof;
}

static bool get_description(pb_istream_t *s, pb_wire_type_t wire, struct job_desc **v, bool args)
{
    pb_istream_t sub;

    if (wire != PB_WT_STRING || !pb_make_string_substream(s, &sub))
        return false;
    job_desc_drop(*v);
    *v = job_desc_new();
    return get_desc_fields(&sub, *v, args) && pb_close_string_substream(s, &sub);
}

static bool get_desc(pb_istream_t *s, pb_wire_type_t wire, struct job_desc **v)
{
    return get_description(s, wire, v, true);
}

static bool get_spec(pb_istream_t *s, pb_wire_type_t wire, struct job_desc **v)
{
    return get_description(s, wire, v, false);
}

/* Room for one more in a handle of n elements that holds no capacity: doubled at every power of two. */
#define GROW_HANDLE(h)                                                                                       \
    do {                                                                                                     \
        if (((h)->n & ((h)->n - 1)) == 0)                                                                    \
            (h) = xrealloc((h), sizeof *(h) + ((h)->n ? 2 * (size_t)(h)->n : 1) * sizeof *(h)->v);           \
    } while (0)

static bool get_task(pb_istream_t *s, struct task_set **v)
{
    uint64_t task;

    if (!get_varint(s, PB_WT_VARINT, LIMIT_TASKS_PER_JOB - 1, &task) || (*v)->n == LIMIT_TASKS_PER_JOB)
        return false;
    GROW_HANDLE(*v);
    (*v)->v[(*v)->n++] = (uint32_t)task;
    return true;
}

/* Packed, or one by one: a receiver takes both (proto3). */
static bool get_tasks(pb_istream_t *s, pb_wire_type_t wire, struct task_set **v)
{
    pb_istream_t sub;

    if (!*v)
        *v = task_set_new(0);
    if (wire == PB_WT_VARINT)
        return get_task(s, v);
    if (wire != PB_WT_STRING || !pb_make_string_substream(s, &sub))
        return false;
    while (sub.bytes_left)
        if (!get_task(&sub, v))
            return false;
    return pb_close_string_substream(s, &sub);
}

#define GET(kind, field)                                                                                     \
    case number_##field:                                                                                     \
        ok = get_##kind(s, wire, &p->field);                                                                 \
        break;
#define DEFINE_GET(name, type)                                                                               \
    static bool get_fields_##name(pb_istream_t *s, type *p)                                                  \
    {                                                                                                        \
        enum { number_0, FIELDS_##name(NUMBER) };                                                            \
        pb_wire_type_t wire;                                                                                 \
        uint32_t number;                                                                                     \
        bool eof, ok;                                                                                        \
                                                                                                             \
        while (pb_decode_tag(s, &wire, &number, &eof)) {                                                     \
            switch (number) {                                                                                \
                FIELDS_##name(GET) default : ok = pb_skip_field(s, wire);                                    \
            }                                                                                                \
            if (!ok)                                                                                         \
                return false;                                                                                \
        }                                                                                                    \
        return eof;                                                                                          \
    }
#define DEFINE_GET_VALUE(kind, fields, type)                                                                 \
    static bool get_##kind(pb_istream_t *s, pb_wire_type_t wire, type *v)                                    \
    {                                                                                                        \
        pb_istream_t sub;                                                                                    \
                                                                                                             \
        return wire == PB_WT_STRING && pb_make_string_substream(s, &sub) && get_fields_##fields(&sub, v) &&  \
               pb_close_string_substream(s, &sub);                                                           \
    }

DEFINE_GET(try_id, struct try_id)
DEFINE_GET(cluster_policy, struct policy)
DEFINE_GET(member_info, struct member)
DEFINE_GET_VALUE(try, try_id, struct try_id)
DEFINE_GET_VALUE(policy, cluster_policy, struct policy)
DEFINE_GET_VALUE(member, member_info, struct member)

static bool get_members(pb_istream_t *s, pb_wire_type_t wire, struct members **v)
{
    if (!*v)
        *v = members_new(0);
    GROW_HANDLE(*v);
    (*v)->v[(*v)->n] = (struct member){0};
    return get_member(s, wire, &(*v)->v[(*v)->n++]);
}

#define X(NAME, name, tag) DEFINE_GET(name, struct msg_##name)
WIRE_MESSAGES(X)
#undef X

/* The body of an envelope, of message m->type. */
static bool get_body(pb_istream_t *s, struct msg *m)
{
    switch (m->type) {
#define X(NAME, name, tag)                                                                                   \
    case MSG_##NAME:                                                                                         \
        return get_fields_##name(s, &m->name);
        WIRE_MESSAGES(X)
#undef X
    }
    return false;
}

/* The message with this number in Envelope; MSG_NONE: we don't know it. */
static enum msg_type type_of(uint32_t number)
{
    switch (number) {
#define X(NAME, name, tag)                                                                                   \
    case tag:                                                                                                \
        return MSG_##NAME;
        WIRE_MESSAGES(X)
#undef X
    }
    return MSG_NONE;
}

/* Exactly one known message, or none: m->type stays MSG_NONE. */
static bool get_envelope(pb_istream_t *s, struct msg *m)
{
    pb_wire_type_t wire;
    uint32_t number;
    bool eof;

    while (pb_decode_tag(s, &wire, &number, &eof)) {
        enum msg_type type = type_of(number);
        pb_istream_t sub;

        if (type == MSG_NONE) {
            if (!pb_skip_field(s, wire))
                return false;
            continue;
        }
        if (m->type != MSG_NONE || wire != PB_WT_STRING || !pb_make_string_substream(s, &sub))
            return false;
        m->type = (uint16_t)type;
        if (type == MSG_MEMBERS)
            m->members.list = members_new(0); /* an empty list has no bytes, and is a list */
        if (!get_body(&sub, m) || !pb_close_string_substream(s, &sub))
            return false;
    }
    return eof;
}

static int HAWK_PRINTF(2, 3) malformed(struct codec_report *r, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(r->why, sizeof r->why, fmt, ap);
    va_end(ap);
    return HAWK_EMALFORMED;
}

/* One envelope, from byte `at` of the batch. *go_on: the receiver wants more. */
static int take_envelope(pb_istream_t *s, size_t at, codec_deliver_fn *deliver, void *arg, bool *go_on,
                         struct codec_report *r)
{
    struct msg m;
    int err = 0;

    memset(&m, 0, sizeof m);
    if (!get_envelope(s, &m))
        err = malformed(r, "%s at byte %zu: broken encoding", m.type ? msg_name(m.type) : "envelope", at);
    else if (m.type == MSG_NONE)
        r->skipped++;
    else if ((err = msg_check(&m)) == HAWK_EUNSUPPORTED)
        r->skipped++, err = 0;
    else if (err)
        err = malformed(r, "%s at byte %zu: a value is missing or out of range", msg_name(m.type), at);
    else
        r->delivered++, *go_on = deliver(arg, &m);
    msg_drop(&m);
    return err;
}

int codec_decode(const void *data, size_t len, codec_deliver_fn *deliver, void *arg, struct codec_report *r)
{
    pb_istream_t s = pb_istream_from_buffer(data, len), sub;
    pb_wire_type_t wire;
    uint32_t number;
    bool eof = true, go_on = true;

    while (go_on && pb_decode_tag(&s, &wire, &number, &eof)) {
        size_t at = len - s.bytes_left;
        int err;

        if (number != hawk_v1_Batch_envelopes_tag) {
            if (!pb_skip_field(&s, wire))
                return malformed(r, "batch at byte %zu: broken encoding", at);
            continue;
        }
        if (wire != PB_WT_STRING || !pb_make_string_substream(&s, &sub))
            return malformed(r, "envelope at byte %zu: broken encoding", at);
        err = take_envelope(&sub, at, deliver, arg, &go_on, r);
        if (err)
            return err;
        if (!pb_close_string_substream(&s, &sub))
            return malformed(r, "envelope at byte %zu: broken encoding", at);
    }
    return eof || !go_on ? 0 : malformed(r, "batch at byte %zu: broken encoding", len - s.bytes_left);
}

int codec_desc_decode(const void *data, size_t len, bool args, struct job_desc **d, char *why, size_t size)
{
    pb_istream_t s = pb_istream_from_buffer(data, len);
    struct job_desc *made = job_desc_new();
    int err = HAWK_EMALFORMED;

    if (!get_desc_fields(&s, made, args)) {
        if (size)
            snprintf(why, size, "broken encoding of a job, at byte %zu", len - s.bytes_left);
        goto out;
    }
    err = args ? job_desc_check(made, why, size) : job_spec_check(made, why, size);
    if (err)
        goto out;
    *d = made;
    made = NULL;
out:
    job_desc_drop(made);
    return err;
}
