/* Messages made of bytes, field by field from the lists in msg/msg.h. */
#include "tests/fuzz/lib/events.h"

#include "base/check.h"
#include "base/mem.h"

#include <malloc.h>
#include <string.h>

#define JOBS 6
#define NODES 12 /* ids that are talked of, from 1 on */

/* ---- What was said lately ---- */

static void forget_handles(struct msg *m)
{
    switch (m->type) {
#define HANDLE_none(p, name)
#define HANDLE_job(p, name)
#define HANDLE_node(p, name)
#define HANDLE_try(p, name)
#define HANDLE_u8(p, name)
#define HANDLE_u16(p, name)
#define HANDLE_u32(p, name)
#define HANDLE_u64(p, name)
#define HANDLE_app(p, name)
#define HANDLE_i32(p, name)
#define HANDLE_i64(p, name)
#define HANDLE_policy(p, name)
#define HANDLE_usage(p, name)
#define HANDLE_blob(p, name) (p)->name = NULL;
#define HANDLE_choice(p, name) (p)->name = NULL;
#define HANDLE_desc(p, name) (p)->name = NULL;
#define HANDLE_spec(p, name) (p)->name = NULL;
#define HANDLE_tasks(p, name) (p)->name = NULL;
#define HANDLE_members(p, name) (p)->name = NULL;
#define HANDLE_resubmit(p, name) (p)->name = NULL;
#define HANDLE_choice(p, name) (p)->name = NULL;
#define FIELD(kind, field) HANDLE_##kind(p, field)
#define X(NAME, name, tag)                                                                                   \
    case MSG_##NAME: {                                                                                       \
        struct msg_##name *p = &m->name;                                                                     \
        (void)p;                                                                                             \
        FIELDS_##name(FIELD) break;                                                                          \
    }
        WIRE_MESSAGES(X)
        LOCAL_MESSAGES(X)
#undef X
#undef FIELD
    }
}

void recent_add(struct recent *r, const struct out *out)
{
    for (uint32_t i = 0; i < out->n; i++) {
        struct msg *m = &r->v[r->n++ % RECENT];

        *m = out->v[i];
        forget_handles(m);
    }
}

/* Copies the field of that name from m, if it has one of that size. */
static bool field_of(const struct msg *m, const char *name, size_t size, void *to)
{
    switch (m->type) {
#define FIELD(kind, field)                                                                                   \
    if (strcmp(name, #field) == 0 && sizeof p->field == size) {                                              \
        memcpy(to, &p->field, size);                                                                         \
        return true;                                                                                         \
    }
#define X(NAME, name, tag)                                                                                   \
    case MSG_##NAME: {                                                                                       \
        const struct msg_##name *p = &m->name;                                                               \
        (void)p;                                                                                             \
        FIELDS_##name(FIELD) return false;                                                                   \
    }
        WIRE_MESSAGES(X)
        LOCAL_MESSAGES(X)
#undef X
#undef FIELD
    }
    return false;
}

/* ---- Fields ---- */

struct maker {
    struct input *in;
    const struct recent *r;
    const struct msg *like; /* fields of this name are taken from it; NULL: none are */
};

static job_id_t make_job(struct maker *k, const char *name)
{
    struct try_id id;
    job_id_t job;
    uint8_t b;

    if (k->like && field_of(k->like, name, sizeof job, &job))
        return job;
    if (k->like && field_of(k->like, "id", sizeof id, &id))
        return id.job;
    b = take_u8(k->in);
    if (b >= 250)
        return (job_id_t){take_number(k->in, 8)};
    return job_id_make((node_id_t){b < 200 ? k->r->node : 1u + b % NODES}, 1 + b % JOBS);
}

static struct try_id make_try(struct maker *k, const char *name)
{
    struct try_id id;
    uint8_t b;

    if (k->like && field_of(k->like, name, sizeof id, &id)) {
        b = take_u8(k->in); /* the same, or one beside it */
        id.attempt = (uint16_t)(id.attempt + (b == 1) - (b == 2));
        id.epoch = (uint16_t)(id.epoch + (b == 3) - (b == 4));
        id.task += (b == 5);
        return id;
    }
    id.job = make_job(k, "job");
    id.task = (uint32_t)take_mostly_small(k->in, 4);
    b = take_u8(k->in);
    id.epoch = (uint16_t)(b < 250 ? 1u + b % 3 : take_number(k->in, 2));
    id.attempt = (uint16_t)(b < 250 ? 1u + b / 3 % 3 : take_number(k->in, 2));
    return id;
}

static node_id_t make_node(struct maker *k)
{
    uint8_t b = take_u8(k->in);

    return (node_id_t){b < 240   ? b % (NODES + 1)
                       : b < 248 ? NODE_CENTRAL.v
                                 : (uint32_t)take_number(k->in, 1) * 16};
}

static uint8_t make_u8(struct maker *k, const char *name)
{
    static const struct {
        const char *field;
        uint8_t values;
    } ranges[] = {{"role", ROLE_COUNT}, {"state", TASK_STATE_COUNT}, {"class", CLASS_COUNT},
                  {"why", WHY_COUNT},   {"outcome", OUTCOME_COUNT},  {"change", CHANGE_COUNT}};

    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (strcmp(ranges[i].field, name) == 0)
            return (uint8_t)take_below(k->in, ranges[i].values);
    return (uint8_t)take_bool(k->in);
}

static uint64_t make_number(struct maker *k, const char *name, int bytes)
{
    uint64_t v = 0;

    if (k->like && field_of(k->like, name, (size_t)bytes, &v))
        return v;
    return take_mostly_small(k->in, bytes);
}

static int32_t make_i32(struct maker *k)
{
    uint8_t b = take_u8(k->in);

    return b < 240 ? (int8_t)b : (int32_t)(uint32_t)take_number(k->in, 4);
}

static int64_t make_time(struct maker *k)
{
    uint8_t b = take_u8(k->in);

    return b < 200 ? (int64_t)(b % 8) << (b / 8) : b == 255 ? LIMIT_TIME_US : (int64_t)take_number(k->in, 6);
}

static struct blob *make_blob(struct maker *k)
{
    static const char *const texts[] = {"a", "b", "c", "127.0.0.1:1", "unix:/x", ""};
    uint8_t b = take_u8(k->in);
    struct input part;

    if (b < 32)
        return NULL;
    if (b < 224)
        return blob_str(texts[b % (sizeof texts / sizeof *texts)]);
    part = take_part(k->in, b - 224u);
    return blob_new(part.p, input_left(&part));
}

void take_batch(struct input *in, codec_deliver_fn *deliver, void *arg)
{
    struct input part = take_part(in, take_u8(in));
    struct codec_report r = {0};

    if (codec_decode(part.p, input_left(&part), deliver, arg, &r))
        CHECK(r.why[0]);
}

struct job_desc *take_desc(struct input *in)
{
    static const char *const names[] = {"", "a", "b", "c"};
    struct job_desc *d = job_desc_new();
    uint8_t b = take_u8(in);

    d->tasks = b < 200 ? 1 + b % 6 : b < 250 ? b : 5000;
    b = take_u8(in);
    d->tag = b % TAG_COUNT;
    d->kind = b & 8 ? PAYLOAD_TIMER : PAYLOAD_COMMAND;
    d->flags = b & 16 ? JOB_DETACHED : 0;
    d->lost_retries = b >> 6;
    strings_add(&d->argv, d->kind == PAYLOAD_TIMER ? "10ms" : "true");
    b = take_u8(in);
    blob_drop(d->name);
    d->name = blob_str(names[b % 4]);
    d->estimate_us = b & 4 ? (int64_t)1 << (b >> 3) : 0;
    b = take_u8(in);
    d->max_fails = b & 3;
    d->time_limit_us = b & 4 ? 1000000 : 0;
    if (b & 8 && d->tasks < 100) {
        d->flags |= JOB_EACH_ARG;
        for (uint32_t i = 0; i < d->tasks; i++)
            task_args_add(&d->args, &i, sizeof i);
    }
    return d;
}

static struct task_set *make_tasks(struct maker *k)
{
    uint8_t b = take_u8(k->in);
    struct task_set *s;
    uint32_t at = 0;

    if (b < 64)
        return NULL;
    s = task_set_new(1 + b % 6);
    for (uint32_t i = 0; i < s->n; i++) {
        at += (uint32_t)take_mostly_small(k->in, 3) % LIMIT_TASKS_PER_JOB;
        s->v[i] = at++;
    }
    return s;
}

static struct members *make_members(struct maker *k)
{
    struct members *m = members_new(take_below(k->in, NODES));
    uint32_t node = 0;

    for (uint32_t i = 0; i < m->n; i++) {
        uint8_t b = take_u8(k->in);

        node += 1 + (b & 1);
        m->v[i] = (struct member){.node = {node},
                                  .slots = b & 2 ? 1 : (uint32_t)take_mostly_small(k->in, 2),
                                  .role = b & 4 ? ROLE_WORKER : ROLE_DIST,
                                  .state = (b >> 3) % MEMBER_STATE_COUNT,
                                  .general = b >> 7,
                                  .addr = blob_str("127.0.0.1:1"),
                                  .name = blob_str(b & 64 ? "a" : "b")};
    }
    return m;
}

struct policy take_policy(struct input *in)
{
    struct policy p;
    uint32_t flags;

    if (policy_preset(policy_names[take_below(in, 7)], &p))
        memset(&p, 0, sizeof p);
    flags = (uint32_t)take_number(in, 3);
    p.flags ^= flags & (flags >> 1); /* few of them */
    p.cutoff_us = (int64_t)1 << take_below(in, 40);
    p.short_share_ppm = take_below(in, 11) * 100000;
    p.probe_ratio_milli = take_below(in, 5) * 700;
    p.min_probes = (uint32_t)take_mostly_small(in, 2) % 5000; /* more only takes longer */
    p.steal_cap = (uint16_t)take_mostly_small(in, 2);
    p.steal_max = (uint16_t)take_mostly_small(in, 2);
    p.short_first = (uint16_t)(flags >> 20); /* no flags there */
    return p;
}

struct policy_choice *take_choice(struct input *in)
{
    struct policy_choice *c;

    if (take_below(in, 8) == 0)
        return NULL;
    c = policy_choice_new();
    c->preset = (uint8_t)take_below(in, 8);
    c->flags = (uint32_t)take_number(in, 3);
    c->numbers = take_u8(in) & POLICY_NUMBERS_ALL;
    c->v = take_policy(in);
    return c;
}

#define MAKE_none(name) 0
#define MAKE_job(name) make_job(&k, name)
#define MAKE_node(name) make_node(&k)
#define MAKE_try(name) make_try(&k, name)
#define MAKE_u8(name) make_u8(&k, name)
#define MAKE_u16(name) (uint16_t) make_number(&k, name, 2)
#define MAKE_u32(name) (uint32_t) make_number(&k, name, 4)
#define MAKE_u64(name) make_number(&k, name, 8)
#define MAKE_app(name) make_number(&k, name, 8)
#define MAKE_i32(name) make_i32(&k)
#define MAKE_i64(name) make_time(&k)
#define MAKE_policy(name) take_policy(k.in)
#define MAKE_usage(name) usage_of(make_time(&k), make_time(&k))
#define MAKE_blob(name) make_blob(&k)
#define MAKE_desc(name) (take_bool(k.in) ? take_desc(k.in) : NULL)
#define MAKE_spec(name) (take_bool(k.in) ? take_desc(k.in) : NULL)
#define MAKE_tasks(name) make_tasks(&k)
#define MAKE_members(name) make_members(&k)
#define MAKE_resubmit(name) NULL
#define MAKE_choice(name) take_choice(k.in)

bool take_msg(struct input *in, const struct recent *r, enum msg_type type, struct msg *m)
{
    struct maker k = {.in = in, .r = r};
    uint8_t b = take_u8(in);
    uint32_t kept = r->n < RECENT ? r->n : RECENT;

    if (kept && b < 192)
        k.like = &r->v[(r->n - 1 - b % kept) % RECENT];
    memset(m, 0, sizeof *m);
    m->type = (uint16_t)type;
    switch (type) {
#define FIELD(kind, field) p->field = MAKE_##kind(#field);
#define X(NAME, name, tag)                                                                                   \
    case MSG_##NAME: {                                                                                       \
        struct msg_##name *p = &m->name;                                                                     \
        FIELDS_##name(FIELD) break;                                                                          \
    }
        WIRE_MESSAGES(X)
        LOCAL_MESSAGES(X)
#undef X
#undef FIELD
    default:
        return false;
    }
    return !msg_is_wire(m) || msg_check(m) == 0;
}

int64_t take_later(struct input *in, int64_t now_us)
{
    uint8_t b = take_u8(in);

    return now_us + ((int64_t)(b & 7) << (b >> 3)); /* up to four hours */
}

/* ---- Memory ---- */

extern size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

size_t heap_bytes(void)
{
    return __sanitizer_get_current_allocated_bytes ? __sanitizer_get_current_allocated_bytes()
                                                   : mallinfo2().uordblks + mallinfo2().hblkhd;
}
