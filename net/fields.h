/* Makes the functions that write and read a message from the list of its fields.
 *
 * A message is declared once, as a list F(kind, member). A field's number is its position in the list.
 * Each kind has one function that writes a field, put_KIND, and one that reads it, get_KIND. DEFINE_PUT
 * and DEFINE_GET make the functions of a whole message. Messages between nodes (net/codec.c), messages of
 * executors (net/attach.c) and records of the journal (store/records.c) use them.
 *
 * get_KIND returns false when the bytes are malformed. The caller then drops the handles that were read so
 * far. */
#ifndef HAWK_NET_FIELDS_H
#define HAWK_NET_FIELDS_H

#include "base/ids.h"
#include "msg/types.h"
#include "net/wire.h"

/* ---- Writing. A number that is 0 is left out: that is what an absent one means (proto3). ---- */

static inline void put_varint(struct codec_buf *b, uint32_t tag, uint64_t v)
{
    if (!v)
        return;
    wire_put_tag(b, PB_WT_VARINT, tag);
    wire_put_varint(b, v);
}

static inline void put_u64(struct codec_buf *b, uint32_t tag, uint64_t v) /* fixed64 */
{
    uint8_t bytes[8];

    if (!v)
        return;
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(v >> 8 * i);
    wire_put_tag(b, PB_WT_64BIT, tag);
    wire_put_raw(b, bytes, sizeof bytes);
}

static inline void put_none(struct codec_buf *b, uint32_t tag, uint8_t v) {}
static inline void put_u8(struct codec_buf *b, uint32_t tag, uint8_t v) { put_varint(b, tag, v); }
static inline void put_u16(struct codec_buf *b, uint32_t tag, uint16_t v) { put_varint(b, tag, v); }
static inline void put_u32(struct codec_buf *b, uint32_t tag, uint32_t v) { put_varint(b, tag, v); }
static inline void put_i64(struct codec_buf *b, uint32_t tag, int64_t v) { put_varint(b, tag, (uint64_t)v); }
static inline void put_i32(struct codec_buf *b, uint32_t tag, int32_t v)
{
    put_varint(b, tag, (uint32_t)v << 1 ^ (uint32_t)(v >> 31)); /* sint32 */
}
/* As protobuf's int32 and int64: ten bytes when negative. */
static inline void put_int32(struct codec_buf *b, uint32_t tag, int32_t v)
{
    put_varint(b, tag, (uint64_t)(int64_t)v);
}
static inline void put_int64(struct codec_buf *b, uint32_t tag, int64_t v)
{
    put_varint(b, tag, (uint64_t)v);
}
static inline void put_figure(struct codec_buf *b, uint32_t tag, struct figure v)
{
    put_varint(b, tag, (uint64_t)figure_value(v));
}
static inline void put_app(struct codec_buf *b, uint32_t tag, uint64_t v) { put_u64(b, tag, v); }
static inline void put_node(struct codec_buf *b, uint32_t tag, node_id_t v) { put_varint(b, tag, v.v); }
static inline void put_job(struct codec_buf *b, uint32_t tag, job_id_t v) { put_u64(b, tag, v.v); }

/* An empty blob travels, an absent one does not. */
static inline void put_blob(struct codec_buf *b, uint32_t tag, const struct blob *v)
{
    if (v)
        wire_put_bytes(b, tag, v->data, v->len);
}

/* Empty and absent are the same. */
static inline void put_span(struct codec_buf *b, uint32_t tag, struct span v)
{
    if (v.len)
        wire_put_bytes(b, tag, v.data, v.len);
}
static inline void put_utf8(struct codec_buf *b, uint32_t tag, struct span v)
{
    if (v.len)
        wire_put_text(b, tag, v.data, v.len);
}

/* ---- Reading ---- */

static inline bool get_up_to(struct wire *s, pb_wire_type_t wire, uint64_t max, uint64_t *v)
{
    return wire == PB_WT_VARINT && wire_read_varint(s, v) && *v <= max;
}

#define DEFINE_GET_NUMBER(kind, type, max)                                                                   \
    static inline bool get_##kind(struct wire *s, pb_wire_type_t wire, type *v)                              \
    {                                                                                                        \
        uint64_t wide;                                                                                       \
                                                                                                             \
        if (!get_up_to(s, wire, max, &wide))                                                                 \
            return false;                                                                                    \
        *v = (type)wide;                                                                                     \
        return true;                                                                                         \
    }
DEFINE_GET_NUMBER(u8, uint8_t, UINT8_MAX)
DEFINE_GET_NUMBER(u16, uint16_t, UINT16_MAX)
DEFINE_GET_NUMBER(u32, uint32_t, UINT32_MAX)
DEFINE_GET_NUMBER(i64, int64_t, INT64_MAX)
DEFINE_GET_NUMBER(int64, int64_t, UINT64_MAX)
DEFINE_GET_NUMBER(varint, uint64_t, UINT64_MAX)

static inline bool get_int32(struct wire *s, pb_wire_type_t wire, int32_t *v)
{
    int64_t wide;

    if (!get_int64(s, wire, &wide) || wide != (int32_t)wide)
        return false;
    *v = (int32_t)wide;
    return true;
}

static inline bool get_figure(struct wire *s, pb_wire_type_t wire, struct figure *v)
{
    uint64_t wide;

    if (!get_up_to(s, wire, INT64_MAX, &wide))
        return false;
    *v = figure_of((int64_t)wide);
    return true;
}

static inline bool get_none(struct wire *s, pb_wire_type_t wire, uint8_t *v) { return wire_skip(s, wire); }

static inline bool get_u64(struct wire *s, pb_wire_type_t wire, uint64_t *v)
{
    return wire == PB_WT_64BIT && wire_read_fixed64(s, v);
}

static inline bool get_i32(struct wire *s, pb_wire_type_t wire, int32_t *v)
{
    uint64_t wide;

    if (!get_up_to(s, wire, UINT32_MAX, &wide))
        return false;
    *v = (int32_t)((uint32_t)(wide >> 1) ^ (~(uint32_t)(wide & 1) + 1)); /* sint32 */
    return true;
}

static inline bool get_app(struct wire *s, pb_wire_type_t wire, uint64_t *v) { return get_u64(s, wire, v); }
static inline bool get_node(struct wire *s, pb_wire_type_t wire, node_id_t *v)
{
    return get_u32(s, wire, &v->v);
}
static inline bool get_job(struct wire *s, pb_wire_type_t wire, job_id_t *v)
{
    return get_u64(s, wire, &v->v);
}

/* The length of what follows, which must be there. */
static inline bool get_length(struct wire *s, pb_wire_type_t wire, uint32_t *len)
{
    uint64_t v;

    if (wire != PB_WT_STRING || !wire_read_varint(s, &v) || v > wire_left(s) || v > UINT32_MAX)
        return false;
    *len = (uint32_t)v;
    return true;
}

static inline bool get_blob(struct wire *s, pb_wire_type_t wire, struct blob **v)
{
    uint32_t len;

    if (!get_length(s, wire, &len))
        return false;
    blob_drop(*v); /* the last one counts */
    *v = blob_new(NULL, len);
    return wire_read_bytes(s, (*v)->data, len);
}

/* Borrowed from what is read. */
static inline bool get_span(struct wire *s, pb_wire_type_t wire, struct span *v)
{
    struct wire part;

    if (wire != PB_WT_STRING || !wire_read_part(s, &part))
        return false;
    *v = (struct span){part.p, wire_left(&part)};
    return true;
}
static inline bool get_utf8(struct wire *s, pb_wire_type_t wire, struct span *v)
{
    return get_span(s, wire, v);
}

/* ---- Whole messages. FIELDS_name is the list; the numbers are an enumeration, local to the function. ---- */

#define NUMBER(kind, field, ...) number_##field,
#define PUT(kind, field) put_##kind(b, number_##field, p->field);
#define GET(kind, field)                                                                                     \
    case number_##field:                                                                                     \
        ok = get_##kind(s, wire, &p->field);                                                                 \
        break;

/* The forms that a field takes on the wire. A kind has one form, and so has a type of the .proto. */
enum wire_form {
    FORM_NONE,
    FORM_VARINT,
    FORM_FIXED64,
    FORM_ZIGZAG,
    FORM_BYTES,
    FORM_EACH,
    FORM_MESSAGE,
    FORM_PACKED
};
/* clang-format off */
enum {
    FORM_none = FORM_NONE,
    FORM_u8 = FORM_VARINT, FORM_u16 = FORM_VARINT, FORM_u32 = FORM_VARINT, FORM_i64 = FORM_VARINT,
    FORM_int32 = FORM_VARINT, FORM_int64 = FORM_VARINT, FORM_varint = FORM_VARINT, FORM_node = FORM_VARINT,
    FORM_figure = FORM_VARINT,
    FORM_u64 = FORM_FIXED64, FORM_app = FORM_FIXED64, FORM_job = FORM_FIXED64,
    FORM_i32 = FORM_ZIGZAG,
    FORM_blob = FORM_BYTES, FORM_span = FORM_BYTES, FORM_utf8 = FORM_BYTES,
    FORM_try = FORM_MESSAGE, FORM_policy = FORM_MESSAGE, FORM_member = FORM_MESSAGE, FORM_members = FORM_MESSAGE,
    FORM_desc = FORM_MESSAGE, FORM_spec = FORM_MESSAGE, FORM_usage = FORM_MESSAGE,
    FORM_tasks = FORM_PACKED,
    FORM_text = FORM_BYTES, FORM_strings = FORM_EACH,
    FORM_detached = FORM_VARINT, FORM_each_arg = FORM_VARINT, FORM_at_most_once = FORM_VARINT,
    FORM_no_pause = FORM_VARINT, FORM_each_cwd = FORM_VARINT, FORM_ancestors = FORM_EACH,
    FORM_after = FORM_EACH, FORM_after_whole = FORM_VARINT, FORM_submit_held = FORM_VARINT,
    FORM_job_text = FORM_BYTES, FORM_arg_aside = FORM_VARINT,

    PROTO_SINGULAR_BOOL = FORM_VARINT, PROTO_SINGULAR_UENUM = FORM_VARINT, PROTO_SINGULAR_UINT32 = FORM_VARINT,
    PROTO_SINGULAR_INT32 = FORM_VARINT, PROTO_SINGULAR_UINT64 = FORM_VARINT, PROTO_SINGULAR_INT64 = FORM_VARINT,
    PROTO_SINGULAR_FIXED64 = FORM_FIXED64,
    PROTO_SINGULAR_SINT32 = FORM_ZIGZAG,
    PROTO_SINGULAR_BYTES = FORM_BYTES, PROTO_OPTIONAL_BYTES = FORM_BYTES, PROTO_SINGULAR_STRING = FORM_BYTES,
    PROTO_REPEATED_BYTES = FORM_EACH, PROTO_REPEATED_STRING = FORM_EACH,
    PROTO_OPTIONAL_MESSAGE = FORM_MESSAGE, PROTO_REPEATED_MESSAGE = FORM_MESSAGE,
    PROTO_REPEATED_UINT32 = FORM_PACKED,
};
/* clang-format on */

/* The compiler compares the list with the message in the .proto: names, numbers, forms, and that neither
 * has a field that the other lacks. Message is the type that nanopb generates; its Message_FIELDLIST(X, a)
 * calls X(a, how, label, type, name, number) for each field. */
#define FIELDLIST_OF_(Message) Message##_FIELDLIST
#define FIELDLIST_OF(Message) FIELDLIST_OF_(Message)
#define FORM(kind, field) form_##field = FORM_##kind,
#define FORM_IN_PROTO(a, how, label, type, field, number)                                                    \
    _Static_assert((int)form_##field == (int)PROTO_##label##_##type, #field ": the .proto has another "      \
                                                                            "type");
#define AS_IN_PROTO(a, how, label, type, field, number)                                                      \
    _Static_assert(number_##field == (number), #field ": the .proto has another number");                    \
    FORM_IN_PROTO(a, how, label, type, field, number)
#define COUNT_OURS(kind, field) +((int)FORM_##kind != FORM_NONE)
#define COUNT_PROTO(...) +1

#define DEFINE_PUT(name, type, Message)                                                                      \
    static void put_fields_##name(struct codec_buf *b, const type *p)                                        \
    {                                                                                                        \
        enum { number_0, FIELDS_##name(NUMBER) };                                                            \
        enum { FIELDS_##name(FORM) };                                                                        \
        FIELDLIST_OF(Message)(AS_IN_PROTO, 0);                                                               \
        _Static_assert(0 FIELDS_##name(COUNT_OURS) == 0 FIELDLIST_OF(Message)(COUNT_PROTO, 0),               \
                       #name ": the .proto has more or fewer fields");                                       \
        FIELDS_##name(PUT)                                                                                   \
    }

/* The body of a function that reads every field of *s: `cases` are those that are known, others are
 * skipped. */
#define READ_FIELDS(s, cases)                                                                                \
    pb_wire_type_t wire;                                                                                     \
    uint32_t number;                                                                                         \
    bool eof, ok;                                                                                            \
                                                                                                             \
    while (wire_read_tag(s, &wire, &number, &eof)) {                                                         \
        switch (number) {                                                                                    \
            cases default : ok = wire_skip(s, wire);                                                         \
        }                                                                                                    \
        if (!ok)                                                                                             \
            return false;                                                                                    \
    }                                                                                                        \
    return eof;

#define DEFINE_GET(name, type)                                                                               \
    static bool get_fields_##name(struct wire *s, type *p)                                                   \
    {                                                                                                        \
        enum { number_0, FIELDS_##name(NUMBER) };                                                            \
        READ_FIELDS(s, FIELDS_##name(GET))                                                                   \
    }

#endif
