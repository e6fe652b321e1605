/* Messages and job descriptions to bytes and back.
 *
 * A protobuf message is a list of (field kind, name) as in msg/msg.h; its field numbers are the positions
 * in that list. Each kind has one pair of functions, put_KIND and get_KIND; two generators make all else.
 * Messages go straight between struct msg and bytes, without nanopb's generated structs in between. The
 * tests compare both ways with what nanopb makes of the .proto. */
#include "net/codec.h"

#include "base/check.h"
#include "base/mem.h"
#include "cluster.pb.h"
#include "hawk.pb.h"
#include "net/fields.h"
#include "net/submission.h"

#include <inttypes.h>
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
    F(u32, short_share_ppm)                                                                                  \
    F(u32, probe_ratio_milli) F(u32, min_probes) F(u16, steal_cap) F(u16, steal_max) F(u16, short_first)
#define FIELDS_member_info(F)                                                                                \
    F(node, node)                                                                                            \
    F(u32, slots)                                                                                            \
    F(u8, role)                                                                                              \
    F(u8, state) F(u8, general) F(blob, addr) F(blob, name) F(u8, unsettled) F(blob, out_why) F(blob, serves)
#define FIELDS_task_usage(F) F(figure, cpu_us) F(figure, mem_peak_bytes)

/* A job description: F(kind, member of struct job_desc, field of JobSpec). The one field beside these is
 * task_args. */
#define SPEC_FIELDS(F)                                                                                       \
    F(text, name, name)                                                                                      \
    F(u32, tasks, tasks)                                                                                     \
    F(u8, tag, tag)                                                                                          \
    F(i64, estimate_us, estimate_us)                                                                         \
    F(i64, time_limit_us, time_limit_us)                                                                     \
    F(u16, lost_retries, lost_retries)                                                                       \
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
    F(at_most_once, flags, at_most_once)                                                                     \
    F(u32, umask, umask)                                                                                     \
    F(no_pause, flags, no_pause)                                                                             \
    F(ancestors, ancestors, ancestors)                                                                       \
    F(u32, columns, columns)                                                                                 \
    F(strings, each_env, each_env)                                                                           \
    F(each_cwd, flags, each_cwd)                                                                             \
    F(u16, failure_retries, failure_retries)                                                                 \
    F(u32, retry_on, retry_on)                                                                               \
    F(text, retry_codes, retry_codes)                                                                        \
    F(i64, retry_delay_us, retry_delay_us)                                                                   \
    F(after, after, after)                                                                                   \
    F(after_whole, flags, after_whole)                                                                       \
    F(i64, mem_bytes, mem_bytes)                                                                             \
    F(u32, pids, pids)                                                                                       \
    F(text, signature, signature)                                                                            \
    F(u32, max_running, max_running)                                                                         \
    F(submit_held, flags, submit_held)                                                                       \
    F(job_text, again_of, again_of)                                                                          \
    F(varint, again_key, again_key)                                                                          \
    F(arg_aside, flags, arg_aside)

/* ---- Encoding: nothing in it can fail, the buffer grows (base/mem.h) ---- */

void codec_buf_free(struct codec_buf *b)
{
    free(b->data);
    *b = (struct codec_buf){0};
}

void codec_buf_append(struct codec_buf *b, const void *data, size_t n) { wire_put_raw(b, data, n); }

/* Empty and absent are the same. */
static void put_text(struct codec_buf *b, uint32_t tag, const struct blob *v)
{
    if (v && v->len)
        wire_put_bytes(b, tag, v->data, v->len);
}

static void put_strings(struct codec_buf *b, uint32_t tag, struct strings v)
{
    const char *text = v.data;

    for (uint32_t i = 0; i < v.n; i++, text += strlen(text) + 1)
        wire_put_bytes(b, tag, text, strlen(text));
}

static void put_detached(struct codec_buf *b, uint32_t tag, uint32_t flags)
{
    put_u8(b, tag, (flags & JOB_DETACHED) != 0);
}
static void put_each_arg(struct codec_buf *b, uint32_t tag, uint32_t flags)
{
    put_u8(b, tag, (flags & JOB_EACH_ARG) != 0);
}

static void put_at_most_once(struct codec_buf *b, uint32_t tag, uint32_t flags)
{
    put_u8(b, tag, (flags & JOB_AT_MOST_ONCE) != 0);
}

static void put_no_pause(struct codec_buf *b, uint32_t tag, uint32_t flags)
{
    put_u8(b, tag, (flags & JOB_NO_PAUSE) != 0);
}

static void put_each_cwd(struct codec_buf *b, uint32_t tag, uint32_t flags)
{
    put_u8(b, tag, (flags & JOB_EACH_CWD) != 0);
}

static void put_ancestors(struct codec_buf *b, uint32_t tag, struct ancestors v)
{
    char id[JOB_ID_TEXT];

    for (uint32_t i = 0; i < v.n; i++) {
        job_id_format(id, v.v[i]);
        wire_put_bytes(b, tag, id, strlen(id));
    }
}

static void put_after(struct codec_buf *b, uint32_t tag, struct after_list v)
{
    char text[AFTER_TEXT];

    for (uint32_t i = 0; i < v.n; i++) {
        after_format(text, &v.v[i]);
        wire_put_bytes(b, tag, text, strlen(text));
    }
}

static void put_job_text(struct codec_buf *b, uint32_t tag, job_id_t v)
{
    char id[JOB_ID_TEXT];

    if (v.v) {
        job_id_format(id, v);
        wire_put_bytes(b, tag, id, strlen(id));
    }
}

static void put_after_whole(struct codec_buf *b, uint32_t tag, uint32_t flags)
{
    put_u8(b, tag, (flags & JOB_AFTER_WHOLE) != 0);
}

static void put_submit_held(struct codec_buf *b, uint32_t tag, uint32_t flags)
{
    put_u8(b, tag, (flags & JOB_SUBMIT_HELD) != 0);
}

static void put_arg_aside(struct codec_buf *b, uint32_t tag, uint32_t flags)
{
    put_u8(b, tag, (flags & JOB_ARG_ASIDE) != 0);
}

static void put_desc_fields(struct codec_buf *b, const struct job_desc *d, bool args)
{
#define SPEC_FORM(kind, member, proto) form_##proto = FORM_##kind,
#define PUT_SPEC(kind, member, proto) put_##kind(b, hawk_v1_JobSpec_##proto##_tag, d->member);
    enum { SPEC_FIELDS(SPEC_FORM) form_task_args = FORM_EACH };
    hawk_v1_JobSpec_FIELDLIST(FORM_IN_PROTO, 0);

    SPEC_FIELDS(PUT_SPEC)
    for (uint32_t i = 0; args && i < d->args.n; i++)
        wire_put_bytes(b, hawk_v1_JobSpec_task_args_tag, d->args.data + d->args.off[i],
                       d->args.off[i + 1] - d->args.off[i]);
}

static void put_description(struct codec_buf *b, uint32_t tag, const struct job_desc *v, bool args)
{
    if (!v)
        return;
    size_t start = wire_begin(b, tag);
    put_desc_fields(b, v, args);
    wire_end(b, start);
}

static void put_desc(struct codec_buf *b, uint32_t tag, const struct job_desc *v)
{
    put_description(b, tag, v, true);
}
static void put_spec(struct codec_buf *b, uint32_t tag, const struct job_desc *v)
{
    put_description(b, tag, v, false);
}

static void put_tasks(struct codec_buf *b, uint32_t tag, const struct task_set *v)
{
    if (!v)
        return;
    size_t start = wire_begin(b, tag);
    for (uint32_t i = 0; i < v->n; i++)
        wire_put_varint(b, v->v[i]);
    wire_end(b, start);
}

#define DEFINE_PUT_VALUE(kind, fields, type)                                                                 \
    static void put_##kind(struct codec_buf *b, uint32_t tag, type v)                                        \
    {                                                                                                        \
        size_t start = wire_begin(b, tag);                                                                   \
                                                                                                             \
        put_fields_##fields(b, &v);                                                                          \
        wire_end(b, start);                                                                                  \
    }

DEFINE_PUT(try_id, struct try_id, hawk_v1_Try)
DEFINE_PUT(cluster_policy, struct policy, hawk_v1_ClusterPolicy)
DEFINE_PUT(member_info, struct member, hawk_v1_MemberInfo)
DEFINE_PUT(task_usage, struct usage, hawk_v1_Usage)
DEFINE_PUT_VALUE(try, try_id, struct try_id)
DEFINE_PUT_VALUE(policy, cluster_policy, struct policy)
DEFINE_PUT_VALUE(member, member_info, struct member)
DEFINE_PUT_VALUE(known_usage, task_usage, struct usage)

/* Left out, if nothing is known. */
static void put_usage(struct codec_buf *b, uint32_t tag, struct usage v)
{
    if (v.cpu_us.v || v.mem_peak_bytes.v)
        put_known_usage(b, tag, v);
}

static void put_members(struct codec_buf *b, uint32_t tag, const struct members *v)
{
    for (uint32_t i = 0; v && i < v->n; i++)
        put_member(b, tag, v->v[i]);
}

#define X(NAME, name, tag) DEFINE_PUT(name, struct msg_##name, hawk_v1_Envelope_body_##name##_MSGTYPE)
WIRE_MESSAGES(X)
#undef X

int codec_encode(struct codec_buf *b, const struct msg *m)
{
    size_t before = b->len, envelope, body;

    CHECK(msg_is_wire(m));
    envelope = wire_begin(b, hawk_v1_Batch_envelopes_tag);
    switch (m->type) {
#define X(NAME, name, tag)                                                                                   \
    case MSG_##NAME:                                                                                         \
        body = wire_begin(b, tag);                                                                           \
        put_fields_##name(b, &m->name);                                                                      \
        wire_end(b, body);                                                                                   \
        break;
        WIRE_MESSAGES(X)
#undef X
    }
    wire_end(b, envelope);
    if (b->len - before <= CODEC_ENVELOPE_MAX)
        return 0;
    b->len = before;
    return HAWK_ETOO_LARGE;
}

void codec_desc_encode(struct codec_buf *b, const struct job_desc *d, bool args)
{
    put_desc_fields(b, d, args);
}

/* ---- Decoding: false means malformed; what a handle holds by then, the caller drops ---- */

static bool get_text(struct wire *s, pb_wire_type_t wire, struct blob **v) { return get_blob(s, wire, v); }

static bool get_strings(struct wire *s, pb_wire_type_t wire, struct strings *v)
{
    uint32_t len;

    if (!get_length(s, wire, &len) || len > LIMIT_JOB_BYTES || v->bytes > LIMIT_JOB_BYTES)
        return false;
    char *text = strings_add_space(v, len);
    return wire_read_bytes(s, text, len) && !memchr(text, '\0', len);
}

static bool get_arg(struct wire *s, pb_wire_type_t wire, struct task_args *v)
{
    uint32_t len;

    if (!get_length(s, wire, &len) || v->n == LIMIT_TASKS_PER_JOB || len > LIMIT_JOB_BYTES ||
        (v->n && v->off[v->n] > LIMIT_JOB_BYTES))
        return false;
    return wire_read_bytes(s, task_args_add_space(v, len), len);
}

static bool get_flag(struct wire *s, pb_wire_type_t wire, uint32_t *flags, uint32_t flag)
{
    uint64_t on;

    if (!get_up_to(s, wire, UINT64_MAX, &on))
        return false;
    *flags = on ? *flags | flag : *flags & ~flag;
    return true;
}

static bool get_detached(struct wire *s, pb_wire_type_t wire, uint32_t *flags)
{
    return get_flag(s, wire, flags, JOB_DETACHED);
}

static bool get_each_arg(struct wire *s, pb_wire_type_t wire, uint32_t *flags)
{
    return get_flag(s, wire, flags, JOB_EACH_ARG);
}

static bool get_at_most_once(struct wire *s, pb_wire_type_t wire, uint32_t *flags)
{
    return get_flag(s, wire, flags, JOB_AT_MOST_ONCE);
}

static bool get_no_pause(struct wire *s, pb_wire_type_t wire, uint32_t *flags)
{
    return get_flag(s, wire, flags, JOB_NO_PAUSE);
}

static bool get_each_cwd(struct wire *s, pb_wire_type_t wire, uint32_t *flags)
{
    return get_flag(s, wire, flags, JOB_EACH_CWD);
}

static bool get_ancestors(struct wire *s, pb_wire_type_t wire, struct ancestors *v)
{
    struct span text;

    if (!get_span(s, wire, &text))
        return false;
    ancestors_add(v, text.data, text.len);
    return true;
}

static bool get_after(struct wire *s, pb_wire_type_t wire, struct after_list *v)
{
    struct span text;

    if (!get_span(s, wire, &text))
        return false;
    after_add(v, text.data, text.len);
    return true;
}

static bool get_job_text(struct wire *s, pb_wire_type_t wire, job_id_t *v)
{
    char id[JOB_ID_TEXT] = "";
    struct span text;

    if (!get_span(s, wire, &text))
        return false;
    if (text.len < sizeof id)
        memcpy(id, text.data, text.len);
    if (job_id_parse(id, v))
        *v = JOB_NONE;
    return true;
}

static bool get_after_whole(struct wire *s, pb_wire_type_t wire, uint32_t *flags)
{
    return get_flag(s, wire, flags, JOB_AFTER_WHOLE);
}

static bool get_submit_held(struct wire *s, pb_wire_type_t wire, uint32_t *flags)
{
    return get_flag(s, wire, flags, JOB_SUBMIT_HELD);
}

static bool get_arg_aside(struct wire *s, pb_wire_type_t wire, uint32_t *flags)
{
    return get_flag(s, wire, flags, JOB_ARG_ASIDE);
}

#define GET_SPEC(kind, member, proto)                                                                        \
    case hawk_v1_JobSpec_##proto##_tag:                                                                      \
        ok = get_##kind(s, wire, &d->member);                                                                \
        break;
#define NAME_SPEC(kind, member, proto)                                                                       \
    case hawk_v1_JobSpec_##proto##_tag:                                                                      \
        name = #proto;                                                                                       \
        break;
#define GET_ARGS                                                                                             \
    case hawk_v1_JobSpec_task_args_tag:                                                                      \
        ok = args ? get_arg(s, wire, &d->args) : wire_skip(s, wire);                                         \
        break;
static bool get_desc_fields(struct wire *s, struct job_desc *d, bool args)
{
    READ_FIELDS(s, SPEC_FIELDS(GET_SPEC) GET_ARGS)
}

/* The field of a description where reading stopped, at byte `end`; "": at none that it has. */
static const char *broken_field(struct wire s, size_t end)
{
    size_t whole = wire_left(&s);
    const char *name = "";
    pb_wire_type_t wire;
    uint32_t number;
    bool eof;

    while (whole - wire_left(&s) < end && wire_read_tag(&s, &wire, &number, &eof)) {
        switch (number) {
            SPEC_FIELDS(NAME_SPEC)
        case hawk_v1_JobSpec_task_args_tag:
            name = "task_args";
            break;
        default:
            name = "";
        }
        if (!wire_skip(&s, wire))
            break;
    }
    return name;
}

static bool get_description(struct wire *s, pb_wire_type_t wire, struct job_desc **v, bool args)
{
    struct wire sub;

    if (wire != PB_WT_STRING || !wire_read_part(s, &sub))
        return false;
    job_desc_drop(*v);
    *v = job_desc_new();
    if (!get_desc_fields(&sub, *v, args))
        return false;
    submission_tree(*v);
    return true;
}

static bool get_desc(struct wire *s, pb_wire_type_t wire, struct job_desc **v)
{
    return get_description(s, wire, v, true);
}

static bool get_spec(struct wire *s, pb_wire_type_t wire, struct job_desc **v)
{
    return get_description(s, wire, v, false);
}

/* Makes room for one more element in a handle of n elements that stores no capacity: it doubles at every
 * power of two. */
#define GROW_HANDLE(h)                                                                                       \
    do {                                                                                                     \
        if (((h)->n & ((h)->n - 1)) == 0)                                                                    \
            (h) = xrealloc((h), sizeof *(h) + ((h)->n ? 2 * (size_t)(h)->n : 1) * sizeof *(h)->v);           \
    } while (0)

static bool get_task(struct wire *s, struct task_set **v)
{
    uint64_t task;

    if (!get_up_to(s, PB_WT_VARINT, LIMIT_TASKS_PER_JOB - 1, &task) || (*v)->n == LIMIT_TASKS_PER_JOB)
        return false;
    GROW_HANDLE(*v);
    (*v)->v[(*v)->n++] = (uint32_t)task;
    return true;
}

/* Packed, or one by one: a receiver has to read both (proto3). */
static bool get_tasks(struct wire *s, pb_wire_type_t wire, struct task_set **v)
{
    struct wire sub;

    if (!*v)
        *v = task_set_new(0);
    if (wire == PB_WT_VARINT)
        return get_task(s, v);
    if (wire != PB_WT_STRING || !wire_read_part(s, &sub))
        return false;
    while (wire_left(&sub))
        if (!get_task(&sub, v))
            return false;
    return true;
}

#define DEFINE_GET_VALUE(kind, fields, type)                                                                 \
    static bool get_##kind(struct wire *s, pb_wire_type_t wire, type *v)                                     \
    {                                                                                                        \
        struct wire sub;                                                                                     \
                                                                                                             \
        return wire == PB_WT_STRING && wire_read_part(s, &sub) && get_fields_##fields(&sub, v);              \
    }

DEFINE_GET(try_id, struct try_id)
DEFINE_GET(cluster_policy, struct policy)
DEFINE_GET(member_info, struct member)
DEFINE_GET(task_usage, struct usage)
DEFINE_GET_VALUE(try, try_id, struct try_id)
DEFINE_GET_VALUE(policy, cluster_policy, struct policy)
DEFINE_GET_VALUE(member, member_info, struct member)
DEFINE_GET_VALUE(usage, task_usage, struct usage)

static bool get_members(struct wire *s, pb_wire_type_t wire, struct members **v)
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

/* Reads the body of an envelope, of message m->type. */
static bool get_body(struct wire *s, struct msg *m)
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

/* The message with this number in Envelope; MSG_NONE: this version does not know it. */
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

/* Reads exactly one known message, or none: m->type stays MSG_NONE. */
static bool get_envelope(struct wire *s, struct msg *m)
{
    pb_wire_type_t wire;
    uint32_t number;
    bool eof;

    while (wire_read_tag(s, &wire, &number, &eof)) {
        enum msg_type type = type_of(number);
        struct wire sub;

        if (type == MSG_NONE) {
            if (!wire_skip(s, wire))
                return false;
            continue;
        }
        if (m->type != MSG_NONE || wire != PB_WT_STRING || !wire_read_part(s, &sub))
            return false;
        m->type = (uint16_t)type;
        if (type == MSG_MEMBERS)
            m->members.list = members_new(0); /* an empty list has no bytes, and is still a list */
        if (!get_body(&sub, m))
            return false;
    }
    return eof;
}

static int HAWK_PRINTF(2, 3) malformed_message(struct codec_report *r, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(r->why, sizeof r->why, fmt, ap);
    va_end(ap);
    return HAWK_EMALFORMED;
}

/* Reads one envelope, which begins at byte `at` of the batch. *go_on: the receiver wants more. */
static int take_envelope(struct wire *s, size_t at, codec_deliver_fn *deliver, void *arg, bool *go_on,
                         struct codec_report *r)
{
    struct msg m;
    int err = 0;

    memset(&m, 0, sizeof m);
    if (!get_envelope(s, &m))
        err = malformed_message(r, "%s at byte %zu: broken encoding", m.type ? msg_name(m.type) : "envelope",
                                at);
    else if (m.type == MSG_NONE)
        ; /* a newer peer sent what this version does not know */
    else if ((err = msg_check(&m)) == HAWK_EUNSUPPORTED)
        err = 0; /* the same */
    else if (err)
        err =
            malformed_message(r, "%s at byte %zu: a value is missing or out of range", msg_name(m.type), at);
    else
        *go_on = deliver(arg, &m);
    msg_drop(&m);
    return err;
}

int codec_decode(const void *data, size_t len, codec_deliver_fn *deliver, void *arg, struct codec_report *r)
{
    struct wire s = wire_of(data, len), sub;
    pb_wire_type_t wire;
    uint32_t number;
    bool eof = true, go_on = true;

    while (go_on && wire_read_tag(&s, &wire, &number, &eof)) {
        size_t at = len - wire_left(&s);

        if (number != hawk_v1_Batch_envelopes_tag) {
            if (!wire_skip(&s, wire))
                return malformed_message(r, "batch at byte %zu: broken encoding", at);
            continue;
        }
        if (wire != PB_WT_STRING || !wire_read_part(&s, &sub))
            return malformed_message(r, "envelope at byte %zu: broken encoding", at);
        int err = take_envelope(&sub, at, deliver, arg, &go_on, r);
        if (err)
            return err;
    }
    return eof || !go_on ? 0
                         : malformed_message(r, "batch at byte %zu: broken encoding", len - wire_left(&s));
}

int codec_desc_decode(const void *data, size_t len, bool args, struct job_desc **d, char *why, size_t size)
{
    struct wire s = wire_of(data, len);
    struct job_desc *made = job_desc_new();
    int err = HAWK_EMALFORMED;

    if (!get_desc_fields(&s, made, args)) {
        size_t end = len - wire_left(&s);
        const char *name = broken_field(wire_of(data, len), end);
        if (size && *name)
            snprintf(why, size, "%s: no value that this field can have", name);
        else if (size)
            snprintf(why, size, "broken encoding of a job, at byte %zu", end);
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
