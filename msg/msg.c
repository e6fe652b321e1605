/* Generated from the list of messages: names, references, the log line. */
#include "msg/msg.h"

#include "base/check.h"
#include "base/err.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *msg_name(unsigned type)
{
    static const char *const names[MSG_TYPE_COUNT] = {
#define X(NAME, name, tag) [MSG_##NAME] = #NAME,
        WIRE_MESSAGES(X) LOCAL_MESSAGES(X)
#undef X
    };

    return type < MSG_TYPE_COUNT && names[type] ? names[type] : "?";
}

/* ---- References ---- */

/* For each kind: whether it is a handle, and how a reference is taken and given back. */
#define IS_HANDLE_none 0
#define IS_HANDLE_job 0
#define IS_HANDLE_node 0
#define IS_HANDLE_try 0
#define IS_HANDLE_u8 0
#define IS_HANDLE_u16 0
#define IS_HANDLE_u32 0
#define IS_HANDLE_u64 0
#define IS_HANDLE_i32 0
#define IS_HANDLE_i64 0
#define IS_HANDLE_app 0
#define IS_HANDLE_policy 0
#define IS_HANDLE_usage 0
#define IS_HANDLE_blob 1
#define IS_HANDLE_desc 1
#define IS_HANDLE_spec 1
#define IS_HANDLE_tasks 1
#define IS_HANDLE_members 1
#define IS_HANDLE_resubmit 1
#define IS_HANDLE_choice 1

#define REF_none(v)
#define REF_job(v)
#define REF_node(v)
#define REF_try(v)
#define REF_u8(v)
#define REF_u16(v)
#define REF_u32(v)
#define REF_u64(v)
#define REF_i32(v)
#define REF_i64(v)
#define REF_app(v)
#define REF_policy(v)
#define REF_usage(v)
#define REF_blob(v) blob_ref(v);
#define REF_desc(v) job_desc_ref(v);
#define REF_spec(v) job_desc_ref(v);
#define REF_tasks(v) task_set_ref(v);
#define REF_members(v) members_ref(v);
#define REF_resubmit(v) resubmit_ref(v);
#define REF_choice(v) policy_choice_ref(v);

#define DROP_none(v)
#define DROP_job(v)
#define DROP_node(v)
#define DROP_try(v)
#define DROP_u8(v)
#define DROP_u16(v)
#define DROP_u32(v)
#define DROP_u64(v)
#define DROP_i32(v)
#define DROP_i64(v)
#define DROP_app(v)
#define DROP_policy(v)
#define DROP_usage(v)
#define DROP_blob(v) blob_drop(v), (v) = NULL;
#define DROP_desc(v) job_desc_drop(v), (v) = NULL;
#define DROP_spec(v) job_desc_drop(v), (v) = NULL;
#define DROP_tasks(v) task_set_drop(v), (v) = NULL;
#define DROP_members(v) members_drop(v), (v) = NULL;
#define DROP_resubmit(v) resubmit_drop(v), (v) = NULL;
#define DROP_choice(v) policy_choice_drop(v), (v) = NULL;

/* The case of one message in a switch over m->type: FIELD(kind, field) for each of its fields, with p as its struct. */
#define EACH_FIELD(NAME, name, tag)                                                                          \
    case MSG_##NAME: {                                                                                       \
        __typeof__(&m->name) p = &m->name;                                                                   \
        (void)p;                                                                                             \
        FIELDS_##name(FIELD) break;                                                                          \
    }

const bool msg_has_handles[MSG_TYPE_COUNT] = {
#define COUNT(kind, field) +IS_HANDLE_##kind
#define X(NAME, name, tag) [MSG_##NAME] = (0 FIELDS_##name(COUNT)) > 0,
    WIRE_MESSAGES(X) LOCAL_MESSAGES(X)
#undef X
#undef COUNT
};

void msg_ref(const struct msg *m)
{
    if (m->type >= MSG_TYPE_COUNT || !msg_has_handles[m->type])
        return;
    switch (m->type) {
#define FIELD(kind, field) REF_##kind(p->field)
        WIRE_MESSAGES(EACH_FIELD) LOCAL_MESSAGES(EACH_FIELD)
#undef FIELD
    }
}

void msg_drop_handles(struct msg *m)
{
    switch (m->type) {
#define FIELD(kind, field) DROP_##kind(p->field)
        WIRE_MESSAGES(EACH_FIELD) LOCAL_MESSAGES(EACH_FIELD)
#undef FIELD
    }
}

/* ---- One line of text ---- */

/* Text that does not fit is cut; n stays below size. */
struct line {
    char *buf;
    size_t size, n;
};

static void HAWK_PRINTF(2, 3) put_text(struct line *l, const char *fmt, ...)
{
    va_list ap;
    int n;

    if (l->n + 1 >= l->size)
        return;
    va_start(ap, fmt);
    n = vsnprintf(l->buf + l->n, l->size - l->n, fmt, ap);
    va_end(ap);
    if (n > 0)
        l->n = l->n + (size_t)n < l->size ? l->n + (size_t)n : l->size - 1;
}

/* Writes at most 40 of the bytes as a quoted text. So a log line stays one line, whatever a peer sent. */
static void put_bytes(struct line *l, const char *data, size_t len)
{
    put_text(l, "\"");
    for (size_t i = 0; i < len && i < 40; i++) {
        unsigned char c = (unsigned char)data[i];

        if (c < 0x20 || c == 0x7f || c == '"' || c == '\\')
            put_text(l, "\\x%02x", c);
        else
            put_text(l, "%c", c);
    }
    put_text(l, len > 40 ? "\"...(%zu)" : "\"", len);
}

static void put_job(struct line *l, job_id_t v)
{
    char text[JOB_ID_TEXT];

    put_text(l, "%s", v.v ? job_id_format(text, v) : "-");
}

static void put_node(struct line *l, node_id_t v)
{
    if (node_eq(v, NODE_CENTRAL))
        put_text(l, "central");
    else
        put_text(l, "%" PRIu32, v.v);
}

/* "3.17/4@1.2": task 4 of job 3.17, epoch 1, attempt 2. */
static void put_try(struct line *l, struct try_id v)
{
    put_job(l, v.job);
    put_text(l, "/%" PRIu32 "@%u.%u", v.task, v.epoch, v.attempt);
}

static void put_blob(struct line *l, const struct blob *v)
{
    if (v)
        put_bytes(l, v->data, v->len);
    else
        put_text(l, "-");
}

static void put_desc(struct line *l, const struct job_desc *v)
{
    if (!v) {
        put_text(l, "-");
        return;
    }
    put_blob(l, v->name);
    put_text(l, "x%" PRIu32, v->tasks);
}

static void put_tasks(struct line *l, const struct task_set *v)
{
    if (v)
        put_text(l, "%" PRIu32 "of", v->n);
    else
        put_text(l, "all");
}

static void put_members(struct line *l, const struct members *v) { put_text(l, "%" PRIu32, v ? v->n : 0); }

/* "3.17@5:2ended" */
static void put_resubmit(struct line *l, const struct resubmit *v)
{
    if (!v) {
        put_text(l, "-");
        return;
    }
    put_job(l, v->job);
    put_text(l, "@%u:%" PRIu32 "ended", v->epoch, v->n);
}

static void put_policy(struct line *l, struct policy v)
{
    put_text(l, "v%" PRIu32 ":cutoff_us=%" PRId64 ",share_ppm=%" PRIu32 ",flags=0x%" PRIx32, v.version,
             v.cutoff_us, v.short_share_ppm, v.flags);
}

/* Not shown, if nothing is known. */
static void put_usage(struct line *l, const char *name, struct usage v)
{
    if (v.cpu_us.v || v.mem_peak_bytes.v)
        put_text(l, " %s=%" PRId64 "us,%" PRId64 "B", name, figure_value(v.cpu_us),
                 figure_value(v.mem_peak_bytes));
}

static void put_choice(struct line *l, const struct policy_choice *v)
{
    if (!v) {
        put_text(l, "nothing");
        return;
    }
    put_text(l, "%s:flags=0x%" PRIx32 "/0x%" PRIx32 ",numbers=0x%x",
             v->preset ? policy_names[v->preset - 1] : "", v->v.flags & v->flags, v->flags, v->numbers);
}

#define PUT_none(name, v)
#define PUT_job(name, v) put_text(&l, " %s=", name), put_job(&l, v);
#define PUT_node(name, v) put_text(&l, " %s=", name), put_node(&l, v);
#define PUT_try(name, v) put_text(&l, " %s=", name), put_try(&l, v);
#define PUT_u8(name, v) put_text(&l, " %s=", name), put_text(&l, "%u", v);
#define PUT_u16(name, v) put_text(&l, " %s=", name), put_text(&l, "%u", v);
#define PUT_u32(name, v) put_text(&l, " %s=", name), put_text(&l, "%" PRIu32, v);
#define PUT_u64(name, v) put_text(&l, " %s=", name), put_text(&l, "%" PRIu64, v);
#define PUT_i32(name, v) put_text(&l, " %s=", name), put_text(&l, "%" PRId32, v);
#define PUT_i64(name, v) put_text(&l, " %s=", name), put_text(&l, "%" PRId64, v);
#define PUT_app(name, v)                                                                                     \
    if (v)                                                                                                   \
        put_text(&l, " %s=%016" PRIx64, name, v);
#define PUT_policy(name, v) put_text(&l, " %s=", name), put_policy(&l, v);
#define PUT_usage(name, v) put_usage(&l, name, v);
#define PUT_blob(name, v) put_text(&l, " %s=", name), put_blob(&l, v);
#define PUT_desc(name, v) put_text(&l, " %s=", name), put_desc(&l, v);
#define PUT_spec(name, v) put_text(&l, " %s=", name), put_desc(&l, v);
#define PUT_tasks(name, v) put_text(&l, " %s=", name), put_tasks(&l, v);
#define PUT_members(name, v) put_text(&l, " %s=", name), put_members(&l, v);
#define PUT_resubmit(name, v) put_text(&l, " %s=", name), put_resubmit(&l, v);
#define PUT_choice(name, v) put_text(&l, " %s=", name), put_choice(&l, v);

size_t msg_format(const struct msg *m, char *buf, size_t size)
{
    struct line l = {buf, size, 0};

    if (size == 0)
        return 0;
    buf[0] = '\0';
    put_text(&l, "%s", msg_name(m->type));
    switch (m->type) {
#define FIELD(kind, field) PUT_##kind(#field, p->field)
        WIRE_MESSAGES(EACH_FIELD) LOCAL_MESSAGES(EACH_FIELD)
#undef FIELD
    }
    return l.n;
}

/* ---- The job a message is about ---- */

#define JOB_OF_none(v)
#define JOB_OF_job(v) return (v);
#define JOB_OF_try(v) return (v).job;
#define JOB_OF_node(v)
#define JOB_OF_u8(v)
#define JOB_OF_u16(v)
#define JOB_OF_u32(v)
#define JOB_OF_u64(v)
#define JOB_OF_i32(v)
#define JOB_OF_i64(v)
#define JOB_OF_app(v)
#define JOB_OF_policy(v)
#define JOB_OF_usage(v)
#define JOB_OF_blob(v)
#define JOB_OF_desc(v)
#define JOB_OF_spec(v)
#define JOB_OF_tasks(v)
#define JOB_OF_members(v)
#define JOB_OF_resubmit(v)
#define JOB_OF_choice(v)

job_id_t msg_job(const struct msg *m)
{
    switch (m->type) {
#define FIELD(kind, field) JOB_OF_##kind(p->field)
        WIRE_MESSAGES(EACH_FIELD) LOCAL_MESSAGES(EACH_FIELD)
#undef FIELD
    }
    return JOB_NONE;
}

/* ---- Routes ---- */

#define X(...) +1
enum { ROUTES_N = WIRE_ROUTES(X) };
_Static_assert(ROUTES_N == MSG_WIRE_END - 1, "every message that travels needs its row in WIRE_ROUTES");
#undef X

static unsigned route_between(enum role from, enum role to)
{
    static const uint16_t routes[ROLE_COUNT][ROLE_COUNT] = {
        [ROLE_NONE] = {[ROLE_CENTRAL] = USER_CENTRAL, [ROLE_DIST] = USER_DIST, [ROLE_WORKER] = USER_WORKER},
        [ROLE_DIST] = {[ROLE_CENTRAL] = DIST_CENTRAL, [ROLE_WORKER] = DIST_WORKER},
        [ROLE_WORKER] =
            {[ROLE_CENTRAL] = WORKER_CENTRAL, [ROLE_DIST] = WORKER_DIST, [ROLE_WORKER] = WORKER_WORKER},
        [ROLE_CENTRAL] = {[ROLE_DIST] = CENTRAL_DIST, [ROLE_WORKER] = CENTRAL_WORKER},
    };

    if (from == ROLE_GUEST)
        return to == ROLE_CENTRAL ? GUEST_CENTRAL : 0;
    return from < ROLE_COUNT && to < ROLE_COUNT ? routes[from][to] : 0;
}

bool msg_may_pass(unsigned type, enum role from, enum role to)
{
    static const uint16_t allowed[MSG_WIRE_END] = {
#define X(NAME, routes) [MSG_##NAME] = (routes),
        WIRE_ROUTES(X)
#undef X
    };

    return type < MSG_WIRE_END && (allowed[type] & route_between(from, to));
}

bool call_may_pass(const char *path, enum role from, enum role to)
{
#define X(name, routes, scope)                                                                               \
    if (strcmp(path, name) == 0)                                                                             \
        return ((routes)&route_between(from, to)) != 0;
    CALL_ROUTES(X)
#undef X
    return false;
}

enum scope call_scope(const char *path)
{
#define X(name, routes, scope)                                                                               \
    if (strcmp(path, name) == 0)                                                                             \
        return (scope);
    CALL_ROUTES(X)
#undef X
    return SCOPE_NONE;
}

/* ---- Output ---- */

/* There is room for it. */
static struct msg *out_fill(struct out *o, enum msg_type type, uint32_t peer)
{
    struct msg *m = &o->v[o->n++];

    memset(m, 0, sizeof *m);
    m->type = (uint16_t)type;
    m->peer = peer;
    return m;
}

HAWK_RARE static struct msg *out_grow(struct out *o, enum msg_type type, uint32_t peer)
{
    vec_grow(o->v, o->n, o->cap);
    return out_fill(o, type, peer);
}

struct msg *out_add(struct out *o, enum msg_type type, uint32_t peer)
{
    return o->n < o->cap ? out_fill(o, type, peer) : out_grow(o, type, peer);
}

void out_clear(struct out *o)
{
    for (uint32_t i = 0; i < o->n; i++)
        msg_drop(&o->v[i]);
    o->n = 0;
}

void out_free(struct out *o)
{
    out_clear(o);
    free(o->v);
    *o = (struct out){0};
}
