/* The public API's messages: one table per message, and one encoder, decoder and destructor for all of
 * them.
 *
 * This uses the lists of fields that nanopb generates from hawk.proto, but not nanopb's structs. In the
 * packaged library their lengths and counts are 16 bits wide, and an output chunk or a list of nodes may
 * be longer. Every message would also be converted twice. */
#include "net/api.h"

#include "base/check.h"
#include "base/mem.h"
#include "hawk.pb.h"
#include "net/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Tables ---- */

enum field_kind {
    FIELD_BOOL,
    FIELD_U32,
    FIELD_I32,
    FIELD_U64,
    FIELD_I64,
    FIELD_ENUM,   /* uint32_t; a value of `max` or more becomes `max` */
    FIELD_JOB_ID, /* job_id_t, text on the wire */
    FIELD_STRING, /* const char * */
    FIELD_BYTES,  /* const uint8_t * and a count */
    FIELD_DESC,   /* struct job_desc * as a whole JobSpec */
    FIELD_SPEC,   /* the same without task_args */
    FIELD_MESSAGE,
    FIELD_STRINGS, /* const char ** and a count */
    FIELD_MESSAGES,
};

struct api_field {
    const char *name;
    const struct api_type *type; /* of a message */
    uint32_t tag;
    uint32_t max;    /* enums */
    uint16_t offset; /* of the value */
    uint16_t extra;  /* of an array's uint32_t count or of an optional field's bool; 0: neither */
    uint8_t kind;
};

struct api_type {
    const char *name;
    const struct api_field *fields;
    uint32_t n;
    uint32_t size;
};

/* hawk.proto is the table. For every message M nanopb generates a list of its fields,
 * hawk_v1_M_FIELDLIST(X, a), which calls X(a, how, label, type, name, number) for each. ROW makes a row of
 * that, by label and type. A field that the struct does not have does not compile, and neither does a
 * member whose type does not fit the field's. a is (s, M): struct api_s, message M. */
#define CAT_(x, y) x##y
#define CAT(x, y) CAT_(x, y)
#define STRUCT_OF_(s, M) struct api_##s
#define MESSAGE_OF_(s, M) hawk_v1_##M
#define STRUCT_OF(a) STRUCT_OF_ a
#define MESSAGE_OF(a) MESSAGE_OF_ a
#define MEMBER(a, f) ((STRUCT_OF(a) *)0)->f

/* 0 if the member has that type; does not compile otherwise. */
#define CHECKED(a, f, T)                                                                                     \
    (0 * sizeof(struct {                                                                                     \
         _Static_assert(__builtin_types_compatible_p(__typeof__(MEMBER(a, f)), T),                           \
                        #f ": the struct's member has another type than the field");                         \
         char c;                                                                                             \
     }))

#define ROW(a, how, label, type, field, number) ROW_##label##_##type(a, field, number)
#define VALUE(a, f, number_) .name = #f, .tag = (number_), .offset = offsetof(STRUCT_OF(a), f)
#define SCALAR(a, f, number, T, kind_) {VALUE(a, f, number), .kind = FIELD_##kind_ + CHECKED(a, f, T)},
#define OPTIONAL(a, f, number, T, kind_)                                                                     \
    {VALUE(a, f, number), .kind = FIELD_##kind_ + CHECKED(a, f, T),                                          \
     .extra = offsetof(STRUCT_OF(a), has_##f) + CHECKED(a, has_##f, bool)},
#define ARRAY(a, f, number, T, kind_)                                                                        \
    VALUE(a, f, number), .kind = FIELD_##kind_ + CHECKED(a, f, T),                                           \
                         .extra = offsetof(STRUCT_OF(a), f##_n) + CHECKED(a, f##_n, uint32_t)

#define ROW_SINGULAR_BOOL(a, f, number) SCALAR(a, f, number, bool, BOOL)
#define ROW_SINGULAR_UINT32(a, f, number) SCALAR(a, f, number, uint32_t, U32)
#define ROW_SINGULAR_INT32(a, f, number) SCALAR(a, f, number, int32_t, I32)
#define ROW_SINGULAR_UINT64(a, f, number) SCALAR(a, f, number, uint64_t, U64)
#define ROW_SINGULAR_INT64(a, f, number) SCALAR(a, f, number, int64_t, I64)
#define ROW_OPTIONAL_UINT32(a, f, number) OPTIONAL(a, f, number, uint32_t, U32)
#define ROW_OPTIONAL_INT64(a, f, number) OPTIONAL(a, f, number, int64_t, I64)
#define ROW_SINGULAR_BYTES(a, f, number) {ARRAY(a, f, number, const uint8_t *, BYTES)},
#define ROW_REPEATED_STRING(a, f, number) {ARRAY(a, f, number, const char **, STRINGS)},
#define ROW_SINGULAR_UENUM(a, f, number)                                                                     \
    {VALUE(a, f, number), .kind = FIELD_ENUM + CHECKED(a, f, uint32_t),                                      \
     .max = (uint32_t)CAT(_, CAT(CAT(MESSAGE_OF(a), _##f##_ENUMTYPE), _ARRAYSIZE))},
/* A text, or a job's id. */
#define ROW_SINGULAR_STRING(a, f, number)                                                                    \
    {VALUE(a, f, number), .kind = _Generic(MEMBER(a, f), const char *: FIELD_STRING, job_id_t: FIELD_JOB_ID)},
/* A message of API_MESSAGES, or a JobSpec. The member's type says how a JobSpec is kept: as a description,
 * as one without its tasks' arguments (const), or as bytes whose count is the next member. */
#define ROW_OPTIONAL_MESSAGE(a, f, number)                                                                   \
    {VALUE(a, f, number),                                                                                    \
     .kind = _Generic(MEMBER(a, f),                                                                          \
         struct job_desc *: FIELD_DESC,                                                                      \
         const struct job_desc *: FIELD_SPEC,                                                                \
         const uint8_t *: FIELD_BYTES,                                                                       \
         default: FIELD_MESSAGE) +                                                                           \
             CHECKED(a, f, __typeof__(*MADE_OF(a, f, MEMBER(a, f)))),                                        \
     .extra = _Generic(MEMBER(a, f),                                                                         \
         const uint8_t *: offsetof(STRUCT_OF(a), f) + sizeof(const uint8_t *),                               \
         default: 0),                                                                                        \
     .type = TYPE_OF(a, f)},
#define ROW_REPEATED_MESSAGE(a, f, number)                                                                   \
    {ARRAY(a, f, number, __typeof__(MADE_OF(a, f, *MEMBER(a, f))), MESSAGES), .type = TYPE_OF(a, f)},
_Static_assert(offsetof(struct api_session_submit, job_n) ==
                   offsetof(struct api_session_submit, job) + sizeof(const uint8_t *),
               "the count is behind the bytes");

/* For a field whose type is a message: a pointer to the struct for that message (for a JobSpec: to
 * `other`), and the message's table. */
#define FIELD_MESSAGE_OF(a, f) (CAT(CAT(MESSAGE_OF(a), _##f), _MSGTYPE) *)0
#define MADE_OF(a, f, other)                                                                                 \
    _Generic(FIELD_MESSAGE_OF(a, f), API_MESSAGES(POINTER_CASE) hawk_v1_JobSpec * : &(other))
#define POINTER_CASE(s, M) hawk_v1_##M * : (struct api_##s *)0,
#define TYPE_OF(a, f) _Generic(FIELD_MESSAGE_OF(a, f), API_MESSAGES(TYPE_CASE) hawk_v1_JobSpec * : NULL)
#define TYPE_CASE(s, M) hawk_v1_##M * : &api_##s##_type,

/* The last row is empty, since C has no empty arrays. A second step makes the tables, after API_MESSAGES
 * has been expanded: a macro is not expanded within itself, and the rows use API_MESSAGES as well. */
#define TABLE(s, M)                                                                                          \
    static const struct api_field s##_fields[] = {hawk_v1_##M##_FIELDLIST(ROW, (s, M)){.name = NULL}};       \
    const struct api_type api_##s##_type = {.name = #M,                                                      \
                                            .fields = s##_fields,                                            \
                                            .n = sizeof s##_fields / sizeof s##_fields[0] - 1,               \
                                            .size = sizeof(struct api_##s)};
#define NOTHING()
#define NEXT_STEP(...) __VA_ARGS__
#define X(s, M) TABLE NOTHING()(s, M)
NEXT_STEP(API_MESSAGES(X))
#undef X

/* A value of an enumeration that a newer peer added shows as the enumeration's count here. */
#define SAME_COUNT(proto, ours)                                                                              \
    _Static_assert((int)_hawk_v1_##proto##_ARRAYSIZE == (int)(ours), #proto ": another one in hawk.proto");
SAME_COUNT(TaskState, TASK_STATE_COUNT)
SAME_COUNT(JobState, JOB_STATE_COUNT)
SAME_COUNT(Outcome, OUTCOME_COUNT)
SAME_COUNT(JobClass, CLASS_COUNT)
SAME_COUNT(Why, WHY_COUNT)
SAME_COUNT(Tag, TAG_COUNT)

const struct api_method_info api_methods[API_METHOD_COUNT] = {
#define X(constant, name, request_, reply_, streaming_)                                                      \
    [constant] = {.path = "/hawk.v1.Hawk/" name,                                                             \
                  .request = &api_##request_##_type,                                                         \
                  .reply = &api_##reply_##_type,                                                             \
                  .streaming = (streaming_)},
    API_METHODS(X)
#undef X
};

/* Typed access to a field's place in a struct. */
#define AT(T, msg, where) (*(T *)((char *)(msg) + (where)))
#define AT_CONST(T, msg, where) (*(T const *)((const char *)(msg) + (where)))

/* ---- Encoding ---- */

static void encode_fields(struct codec_buf *b, const struct api_type *type, const void *msg);

static void put_message(struct codec_buf *b, uint32_t tag, const struct api_type *type, const void *msg)
{
    size_t start = wire_begin(b, tag);
    encode_fields(b, type, msg);
    wire_end(b, start);
}

static void put_desc(struct codec_buf *b, const struct api_field *f, const struct job_desc *desc)
{
    if (!desc)
        return;
    size_t start = wire_begin(b, f->tag);
    codec_desc_encode(b, desc, f->kind == FIELD_DESC);
    wire_end(b, start);
}

static void encode_array(struct codec_buf *b, const struct api_field *f, const void *msg)
{
    uint32_t n = AT_CONST(uint32_t, msg, f->extra);
    if (f->kind == FIELD_BYTES && n)
        wire_put_bytes(b, f->tag, AT_CONST(const uint8_t *, msg, f->offset), n);
    if (f->kind == FIELD_STRINGS) {
        const char *const *v = AT_CONST(const char **, msg, f->offset);
        for (uint32_t i = 0; i < n; i++)
            wire_put_text(b, f->tag, v[i], strlen(v[i]));
    }
    if (f->kind == FIELD_MESSAGES) {
        const char *v = AT_CONST(const char *, msg, f->offset);
        for (uint32_t i = 0; i < n; i++)
            put_message(b, f->tag, f->type, v + (size_t)i * f->type->size);
    }
}

static void put_number(struct codec_buf *b, uint32_t tag, uint64_t v)
{
    wire_put_tag(b, PB_WT_VARINT, tag);
    wire_put_varint(b, v);
}

static void put_scalar(struct codec_buf *b, const struct api_field *f, const void *msg)
{
    uint64_t v = 0;
    if (f->kind == FIELD_BOOL)
        v = AT_CONST(bool, msg, f->offset);
    else if (f->kind == FIELD_U32 || f->kind == FIELD_ENUM)
        v = AT_CONST(uint32_t, msg, f->offset);
    else if (f->kind == FIELD_I32)
        v = (uint64_t)(int64_t)AT_CONST(int32_t, msg, f->offset);
    else
        v = AT_CONST(uint64_t, msg, f->offset);
    bool present = f->extra ? AT_CONST(bool, msg, f->extra) : v != 0;
    if (present)
        put_number(b, f->tag, v);
}

static void encode_fields(struct codec_buf *b, const struct api_type *type, const void *msg)
{
    for (const struct api_field *f = type->fields; f < type->fields + type->n; f++) {
        switch ((enum field_kind)f->kind) {
        case FIELD_BOOL:
        case FIELD_U32:
        case FIELD_I32:
        case FIELD_U64:
        case FIELD_I64:
        case FIELD_ENUM:
            put_scalar(b, f, msg);
            break;
        case FIELD_JOB_ID: {
            char text[JOB_ID_TEXT];
            job_id_t id = AT_CONST(job_id_t, msg, f->offset);
            if (!job_eq(id, JOB_NONE)) {
                job_id_format(text, id);
                wire_put_bytes(b, f->tag, text, strlen(text));
            }
            break;
        }
        case FIELD_STRING: {
            const char *text = AT_CONST(const char *, msg, f->offset);
            if (text && *text)
                wire_put_text(b, f->tag, text, strlen(text));
            break;
        }
        case FIELD_DESC:
        case FIELD_SPEC:
            put_desc(b, f, AT_CONST(struct job_desc *, msg, f->offset));
            break;
        case FIELD_MESSAGE:
            put_message(b, f->tag, f->type, (const char *)msg + f->offset);
            break;
        case FIELD_BYTES:
        case FIELD_STRINGS:
        case FIELD_MESSAGES:
            encode_array(b, f, msg);
            break;
        }
    }
}

void api_append(struct codec_buf *o, const struct api_type *type, const void *msg)
{
    encode_fields(o, type, msg);
}

void api_encode(const struct api_type *type, const void *msg, uint8_t **data, size_t *len)
{
    struct codec_buf o = {.data = xmalloc(128), .cap = 128};
    api_append(&o, type, msg);
    *data = o.data;
    *len = o.len;
}

/* ---- Decoding ---- */

struct decoder {
    size_t budget; /* bytes that may still be allocated */
    char *why;
    size_t why_size;
};

/* Stands for every absent string, so that readers need not test for NULL. */
static const char no_text[] = "";

static int decode_failed(struct decoder *d, const struct api_type *type, const struct api_field *f, int err,
                         const char *what)
{
    if (d->why_size && !d->why[0])
        snprintf(d->why, d->why_size, "%s%s%s: %s", type->name, f ? "." : "", f ? f->name : "", what);
    return err;
}

static bool take_budget(struct decoder *d, size_t bytes)
{
    if (bytes > d->budget)
        return false;
    d->budget -= bytes;
    return true;
}

/* Returns a new element of an array that grows by doubling; NULL when it is too long or the budget too small. */
static void *append_element(struct decoder *d, void **array, uint32_t *n, size_t size)
{
    if (*n == API_ELEMENTS_MAX)
        return NULL;
    if ((*n & (*n - 1)) == 0) { /* 0, 1, 2, 4, 8, ...: full */
        size_t cap = *n ? (size_t)*n * 2 : 1;
        if (!take_budget(d, (cap - *n) * size))
            return NULL;
        *array = xrealloc(*array, cap * size);
    }
    void *slot = (char *)*array + (size_t)(*n)++ * size;
    memset(slot, 0, size);
    return slot;
}

/* Reads a length-delimited field's bytes into a new NUL-terminated buffer; NULL after an error, in *err. */
static char *read_bytes(struct decoder *d, const struct api_type *type, const struct api_field *f,
                        struct wire *s, size_t *len, int *err)
{
    struct wire sub;
    if (!wire_read_part(s, &sub)) {
        *err = decode_failed(d, type, f, HAWK_EMALFORMED, "truncated");
        return NULL;
    }
    *len = wire_left(&sub);
    if (!take_budget(d, *len + 32)) {
        *err = decode_failed(d, type, f, HAWK_ETOO_LARGE, "the message is too large");
        return NULL;
    }
    *err = 0;
    return xmemdup0(sub.p, *len);
}

/* Reads a text: bytes without a NUL. */
static char *read_text(struct decoder *d, const struct api_type *type, const struct api_field *f,
                       struct wire *s, int *err)
{
    size_t len = 0;
    char *text = read_bytes(d, type, f, s, &len, err);
    if (!text || strlen(text) == len)
        return text;
    free(text);
    *err = decode_failed(d, type, f, HAWK_EMALFORMED, "a NUL byte in a text");
    return NULL;
}

static void replace_text(const char **place, char *text)
{
    if (*place != no_text)
        free((char *)*place);
    *place = text;
}

static int decode_fields(struct decoder *d, const struct api_type *type, struct wire *s, void *msg);

static int decode_message(struct decoder *d, const struct api_type *type, const struct api_field *f,
                          struct wire *s, void *msg)
{
    struct wire sub;
    if (!wire_read_part(s, &sub))
        return decode_failed(d, type, f, HAWK_EMALFORMED, "truncated");
    return decode_fields(d, f->type, &sub, msg);
}

static int decode_desc(struct decoder *d, const struct api_type *type, const struct api_field *f,
                       struct wire *s, struct job_desc **place)
{
    size_t len = 0;
    struct job_desc *desc = NULL;
    char what[256] = "";
    int err = 0;
    char *data = read_bytes(d, type, f, s, &len, &err);
    if (!data)
        return err;
    err = codec_desc_decode(data, len, f->kind == FIELD_DESC, &desc, what, sizeof what);
    free(data);
    if (err)
        return decode_failed(d, type, f, err, what);
    job_desc_drop(*place); /* the field came twice: the last one counts */
    *place = desc;
    return 0;
}

static int decode_job_id(struct decoder *d, const struct api_type *type, const struct api_field *f,
                         struct wire *s, job_id_t *id)
{
    char what[96];
    int err = 0;
    char *text = read_text(d, type, f, s, &err);
    if (!text)
        return err;
    *id = JOB_NONE;
    if (*text && job_id_parse(text, id)) {
        snprintf(what, sizeof what, "'%.40s' is no job id (NODE.NUMBER)", text);
        err = decode_failed(d, type, f, HAWK_EINVALID, what);
    }
    free(text);
    return err;
}

static int decode_varint(struct decoder *d, const struct api_type *type, const struct api_field *f,
                         struct wire *s, void *msg)
{
    uint64_t v = 0;
    if (!wire_read_varint(s, &v))
        return decode_failed(d, type, f, HAWK_EMALFORMED, "truncated or too long a number");
    if (f->kind == FIELD_BOOL)
        AT(bool, msg, f->offset) = v != 0;
    else if (f->kind == FIELD_ENUM)
        AT(uint32_t, msg, f->offset) = v < f->max ? (uint32_t)v : f->max;
    else if (f->kind == FIELD_U32 && v > UINT32_MAX)
        return decode_failed(d, type, f, HAWK_EMALFORMED, "more than 32 bits");
    else if (f->kind == FIELD_I32 && (int64_t)v != (int32_t)v)
        return decode_failed(d, type, f, HAWK_EMALFORMED, "more than 32 bits");
    else if (f->kind == FIELD_U32 || f->kind == FIELD_I32)
        AT(uint32_t, msg, f->offset) = (uint32_t)v;
    else
        AT(uint64_t, msg, f->offset) = v;
    if (f->extra)
        AT(bool, msg, f->extra) = true;
    return 0;
}

/* Why there is no room for another element of a list. */
static int list_failed(struct decoder *d, const struct api_type *type, const struct api_field *f, uint32_t n)
{
    char what[64] = "the message is too large";

    if (n == API_ELEMENTS_MAX)
        snprintf(what, sizeof what, "more than %u elements", API_ELEMENTS_MAX);
    return decode_failed(d, type, f, HAWK_ETOO_LARGE, what);
}

static int decode_array(struct decoder *d, const struct api_type *type, const struct api_field *f,
                        struct wire *s, void *msg)
{
    void **array = &AT(void *, msg, f->offset);
    uint32_t *n = &AT(uint32_t, msg, f->extra);
    if (f->kind == FIELD_MESSAGES) {
        void *slot = append_element(d, array, n, f->type->size);
        return slot ? decode_message(d, type, f, s, slot) : list_failed(d, type, f, *n);
    }
    int err = 0;
    char *text = read_text(d, type, f, s, &err);
    if (!text)
        return err;
    const char **slot = append_element(d, array, n, sizeof *slot);
    if (!slot) {
        free(text);
        return list_failed(d, type, f, *n);
    }
    *slot = text;
    return 0;
}

static int decode_delimited(struct decoder *d, const struct api_type *type, const struct api_field *f,
                            struct wire *s, void *msg)
{
    char *data;
    size_t len = 0;
    int err = 0;
    switch ((enum field_kind)f->kind) {
    case FIELD_JOB_ID:
        return decode_job_id(d, type, f, s, &AT(job_id_t, msg, f->offset));
    case FIELD_DESC:
    case FIELD_SPEC:
        return decode_desc(d, type, f, s, &AT(struct job_desc *, msg, f->offset));
    case FIELD_MESSAGE:
        return decode_message(d, type, f, s, (char *)msg + f->offset);
    case FIELD_STRING:
        if ((data = read_text(d, type, f, s, &err)))
            replace_text(&AT(const char *, msg, f->offset), data);
        return err;
    case FIELD_BYTES:
        if ((data = read_bytes(d, type, f, s, &len, &err))) {
            free(AT(uint8_t *, msg, f->offset));
            AT(char *, msg, f->offset) = data;
            AT(uint32_t, msg, f->extra) = (uint32_t)len; /* shorter than the budget */
        }
        return err;
    default:
        return decode_array(d, type, f, s, msg);
    }
}

static const struct api_field *field_of(const struct api_type *type, uint32_t tag)
{
    for (const struct api_field *f = type->fields; f < type->fields + type->n; f++)
        if (f->tag == tag)
            return f;
    return NULL;
}

static int decode_fields(struct decoder *d, const struct api_type *type, struct wire *s, void *msg)
{
    for (const struct api_field *f = type->fields; f < type->fields + type->n; f++)
        if (f->kind == FIELD_STRING && !AT(const char *, msg, f->offset))
            AT(const char *, msg, f->offset) = no_text;
        else if (f->kind == FIELD_MESSAGE &&
                 decode_fields(d, f->type, &(struct wire){0}, (char *)msg + f->offset))
            CHECK(!"decoding nothing"); /* only to fill in its empty strings */
    pb_wire_type_t wire;
    uint32_t tag;
    bool eof;
    while (wire_read_tag(s, &wire, &tag, &eof)) {
        const struct api_field *f = field_of(type, tag);
        if (!f) {
            if (!wire_skip(s, wire))
                return decode_failed(d, type, NULL, HAWK_EMALFORMED, "truncated or not a message");
            continue;
        }
        bool number = f->kind <= FIELD_ENUM;
        if (wire != (number ? PB_WT_VARINT : PB_WT_STRING))
            return decode_failed(d, type, f, HAWK_EMALFORMED, "another type of field");
        int err = number ? decode_varint(d, type, f, s, msg) : decode_delimited(d, type, f, s, msg);
        if (err)
            return err;
    }
    return eof ? 0 : decode_failed(d, type, NULL, HAWK_EMALFORMED, "truncated or not a message");
}

int api_decode(const struct api_type *type, const void *data, size_t len, void *msg, char *why, size_t size)
{
    struct decoder d = {.budget = API_DECODED_MAX, .why = why, .why_size = size};
    if (size)
        why[0] = '\0';
    memset(msg, 0, type->size);
    struct wire s = wire_of(data, len);
    int err = decode_fields(&d, type, &s, msg);
    if (err)
        api_free(type, msg);
    return err;
}

void api_free(const struct api_type *type, void *msg)
{
    for (const struct api_field *f = type->fields; f < type->fields + type->n; f++) {
        uint32_t n = f->kind == FIELD_STRINGS || f->kind == FIELD_MESSAGES ? AT(uint32_t, msg, f->extra) : 0;
        void *v = f->kind >= FIELD_STRING && f->kind != FIELD_MESSAGE ? AT(void *, msg, f->offset) : NULL;
        switch ((enum field_kind)f->kind) {
        case FIELD_STRING:
            replace_text(&AT(const char *, msg, f->offset), NULL);
            break;
        case FIELD_DESC:
        case FIELD_SPEC:
            job_desc_drop(v);
            break;
        case FIELD_MESSAGE:
            api_free(f->type, (char *)msg + f->offset);
            break;
        case FIELD_STRINGS:
            for (uint32_t i = 0; i < n; i++)
                free(((char **)v)[i]);
            free(v);
            break;
        case FIELD_MESSAGES:
            for (uint32_t i = 0; i < n; i++)
                api_free(f->type, (char *)v + (size_t)i * f->type->size);
            free(v);
            break;
        case FIELD_BYTES:
            free(v);
            break;
        default:
            break;
        }
    }
    memset(msg, 0, type->size);
}
