/* net/codec: every message there and back, against what nanopb generates from cluster.proto, and bad input. */
#include "base/mem.h"
#include "cluster.pb.h"
#include "hawk.pb.h"
#include "net/codec.h"
#include "tests/lib/random_msg.h"

#include <pb_decode.h>
#include <pb_encode.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The enumerations have the same values here and on the wire. */
#define SAME(ours, type) _Static_assert((int)ours == (int)hawk_v1_##type##_##ours, #ours);
SAME(ROLE_CENTRAL, Role)
SAME(ROLE_DIST, Role)
SAME(ROLE_WORKER, Role)
SAME(MEMBER_UP, MemberState)
SAME(MEMBER_SUSPECT, MemberState)
SAME(MEMBER_DRAINING, MemberState)
SAME(MEMBER_GONE, MemberState)
SAME(CLASS_LONG, JobClass)
SAME(TAG_LONG, Tag)
SAME(WHY_PROMOTED, Why)
SAME(TASK_LOST, TaskState)
SAME(OUTCOME_LOST, Outcome)
SAME(JOB_CANCELLED, JobState)
SAME(PAYLOAD_APP, PayloadKind)

/* ---- Helpers ---- */

/* Takes references on what is delivered. */
struct received {
    struct msg *v;
    uint32_t n, cap;
    uint32_t stop_after; /* 0: never */
};

static bool receive(void *arg, const struct msg *m)
{
    struct received *r = arg;

    vec_grow(r->v, r->n, r->cap);
    msg_ref(m);
    r->v[r->n++] = *m;
    return r->n != r->stop_after;
}

static void received_free(struct received *r)
{
    for (uint32_t i = 0; i < r->n; i++)
        msg_drop(&r->v[i]);
    free(r->v);
    *r = (struct received){0};
}

static void encode(struct codec_buf *b, const struct msg *m) { assert_int_equal(codec_encode(b, m), 0); }

/* Decodes and forgets; the result. */
static int decode_only(const void *data, size_t len, struct codec_report *report)
{
    struct received got = {0};
    int err = codec_decode(data, len, receive, &got, report);

    received_free(&got);
    return err;
}

static void raw(struct codec_buf *b, const void *data, size_t n)
{
    while (b->cap < b->len + n) {
        b->cap = b->cap ? 2 * b->cap : 64;
        b->data = xrealloc(b->data, b->cap);
    }
    if (n)
        memcpy(b->data + b->len, data, n);
    b->len += n;
}

static void varint(struct codec_buf *b, uint64_t v)
{
    uint8_t byte;

    do {
        byte = (uint8_t)(v & 0x7f) | (v > 0x7f ? 0x80 : 0);
        raw(b, &byte, 1);
        v >>= 7;
    } while (v);
}

static void length_delimited(struct codec_buf *b, uint32_t tag, const struct codec_buf *content)
{
    varint(b, tag << 3 | 2);
    varint(b, content->len);
    raw(b, content->data, content->len);
}

/* A batch with one envelope of that body. */
static void batch_of(struct codec_buf *batch, uint32_t tag, const struct codec_buf *body)
{
    struct codec_buf envelope = {0};

    length_delimited(&envelope, tag, body);
    length_delimited(batch, 1, &envelope);
    codec_buf_free(&envelope);
}

#define FOR_ALL_TYPES(type) for (enum msg_type type = MSG_NONE + 1; type < MSG_WIRE_END; type++)

/* ---- There and back ---- */

static void test_round_trip(void **state)
{
    struct rng r;
    struct codec_buf b = {0};

    rng_seed(&r, 4711);
    for (int round = 0; round < 60; round++) {
        struct msg sent[MSG_WIRE_END];
        struct received got = {0};
        struct codec_report report = {0};

        b.len = 0;
        FOR_ALL_TYPES(type)
        {
            random_msg(&r, type, &sent[type]);
            assert_int_equal(msg_check(&sent[type]), 0);
            encode(&b, &sent[type]);
        }
        assert_int_equal(codec_decode(b.data, b.len, receive, &got, &report), 0);
        assert_int_equal(got.n, MSG_WIRE_END - 1);
        assert_int_equal(report.delivered, got.n);
        assert_int_equal(report.skipped, 0);
        FOR_ALL_TYPES(type)
        {
            if (!msg_equal(&sent[type], &got.v[type - 1])) {
                char was[400], is[400];

                msg_format(&sent[type], was, sizeof was);
                msg_format(&got.v[type - 1], is, sizeof is);
                fail_msg("sent %s\n got %s", was, is);
            }
            msg_drop(&sent[type]);
        }
        received_free(&got);
    }
    codec_buf_free(&b);
}

static void test_all_zero_is_nothing(void **state)
{
    struct codec_buf b = {0};
    struct received got = {0};
    struct codec_report report = {0};
    struct msg m;

    memset(&m, 0, sizeof m);
    m.type = MSG_HEARTBEAT;
    encode(&b, &m);
    assert_int_equal(b.len, 4); /* envelope and heartbeat, each a tag and a length */
    assert_int_equal(codec_decode(b.data, b.len, receive, &got, &report), 0);
    assert_true(got.n == 1 && msg_equal(&m, &got.v[0]));
    received_free(&got);
    /* An empty batch is one. */
    assert_int_equal(decode_only(b.data, 0, &report), 0);
    codec_buf_free(&b);
}

static void test_empty_member_list(void **state)
{
    struct codec_buf b = {0};
    struct received got = {0};
    struct codec_report report = {0};
    struct msg m;

    memset(&m, 0, sizeof m);
    m.type = MSG_MEMBERS;
    m.members.list = members_new(0);
    encode(&b, &m);
    msg_drop(&m);
    assert_int_equal(codec_decode(b.data, b.len, receive, &got, &report), 0);
    assert_int_equal(got.n, 1);
    assert_non_null(got.v[0].members.list);
    assert_int_equal(got.v[0].members.list->n, 0);
    received_free(&got);
    codec_buf_free(&b);
}

/* An argument that is empty is not the same as none. */
static void test_empty_argument(void **state)
{
    struct codec_buf b = {0};
    struct received got = {0};
    struct codec_report report = {0};
    struct rng r;
    struct msg m;

    rng_seed(&r, 1);
    random_msg(&r, MSG_TASK_LAUNCH, &m);
    blob_drop(m.task_launch.arg);
    m.task_launch.arg = blob_str("");
    encode(&b, &m);
    blob_drop(m.task_launch.arg);
    m.task_launch.arg = NULL;
    encode(&b, &m);
    msg_drop(&m);
    assert_int_equal(codec_decode(b.data, b.len, receive, &got, &report), 0);
    assert_int_equal(got.n, 2);
    assert_true(got.v[0].task_launch.arg && got.v[0].task_launch.arg->len == 0);
    assert_null(got.v[1].task_launch.arg);
    received_free(&got);
    codec_buf_free(&b);
}

/* ---- Against the schema: nanopb's own decoder and encoder, from cluster.proto ---- */

static bool same_text(const struct blob *ours, const char *theirs)
{
    return ours ? theirs && strlen(theirs) == ours->len && memcmp(ours->data, theirs, ours->len) == 0
                : !theirs;
}

static bool same_bytes(const struct blob *ours, const pb_bytes_array_t *theirs)
{
    return ours ? theirs && theirs->size == ours->len && memcmp(ours->data, theirs->bytes, ours->len) == 0
                : !theirs;
}

static bool same_members(const struct members *ours, const hawk_v1_MemberInfo *theirs, size_t n)
{
    if (ours->n != n)
        return false;
    for (uint32_t i = 0; i < ours->n; i++) {
        const struct member *v = &ours->v[i];

        if (v->node.v != theirs[i].node || v->slots != theirs[i].slots || v->role != theirs[i].role ||
            v->state != theirs[i].state || v->general != theirs[i].general ||
            !same_text(v->addr, theirs[i].addr) || !same_text(v->name, theirs[i].name))
            return false;
    }
    return true;
}

static bool same_policy(const struct policy *v, const hawk_v1_ClusterPolicy *w)
{
    return v->cutoff_us == w->cutoff_us && v->version == w->version && v->flags == w->flags &&
           v->short_share_ppm == w->short_share_ppm && v->probe_ratio_milli == w->probe_ratio_milli &&
           v->min_probes == w->min_probes && v->steal_cap == w->steal_cap && v->steal_max == w->steal_max &&
           v->short_first == w->short_first;
}

static bool same_tasks(const struct task_set *ours, const uint32_t *theirs, size_t n)
{
    return ours ? ours->n == n && memcmp(ours->v, theirs, n * sizeof *theirs) == 0 : n == 0;
}

#define SAME_none(field)
#define SAME_job(field) assert_true(p->field.v == q->field);
#define SAME_node(field) assert_true(p->field.v == q->field);
#define SAME_try(field)                                                                                      \
    assert_true(q->has_##field && p->field.job.v == q->field.job && p->field.task == q->field.task &&        \
                p->field.epoch == q->field.epoch && p->field.attempt == q->field.attempt);
#define SAME_u8(field) assert_true(p->field == (int)q->field);
#define SAME_u16(field) assert_true(p->field == q->field);
#define SAME_u32(field) assert_true(p->field == q->field);
#define SAME_u64(field) assert_true(p->field == q->field);
#define SAME_app(field) assert_true(p->field == q->field);
#define SAME_i32(field) assert_true(p->field == q->field);
#define SAME_i64(field) assert_true(p->field == q->field);
#define SAME_policy(field) assert_true(q->has_##field &&same_policy(&p->field, &q->field));
#define SAME_blob(field)                                                                                     \
    assert_true(_Generic(q->field, char * : same_text, pb_bytes_array_t * : same_bytes)(p->field, (void *)q->field));
#define SAME_desc(field) assert_true(p->field ? q->field && q->field->tasks == p->field->tasks : !q->field);
#define SAME_spec(field) SAME_desc(field)
#define SAME_tasks(field) assert_true(same_tasks(p->field, q->field, q->field##_count));
#define SAME_members(field) assert_true(same_members(p->field, q->field, q->field##_count));

/* Field by field, by their names: this does not compile when cluster.proto lacks one. */
static void compare_with_schema(const struct msg *m, const hawk_v1_Envelope *e)
{
    switch (m->type) {
#define FIELD(kind, field) SAME_##kind(field)
#define X(NAME, name, tag)                                                                                   \
    case MSG_##NAME: {                                                                                       \
        const struct msg_##name *p = &m->name;                                                               \
        const typeof(e->body.name) *q = &e->body.name;                                                       \
        (void)p, (void)q;                                                                                    \
        assert_int_equal(e->which_body, hawk_v1_Envelope_##name##_tag);                                      \
        FIELDS_##name(FIELD) break;                                                                          \
    }
        WIRE_MESSAGES(X)
#undef X
#undef FIELD
    }
}

static bool has_desc(enum msg_type type)
{
    return type == MSG_LONG_SUBMIT || type == MSG_TASK_ENQUEUE || type == MSG_TASK_LAUNCH;
}

static void test_agrees_with_the_schema(void **state)
{
    struct rng r;
    struct codec_buf b = {0};

    rng_seed(&r, 17);
    for (int round = 0; round < 40; round++)
        FOR_ALL_TYPES(type)
        {
            hawk_v1_Batch batch = hawk_v1_Batch_init_zero;
            pb_istream_t in;
            struct msg m;

            random_msg(&r, type, &m);
            b.len = 0;
            encode(&b, &m);
            in = pb_istream_from_buffer(b.data, b.len);
            if (!pb_decode(&in, hawk_v1_Batch_fields, &batch))
                fail_msg("%s: %s", msg_name(type), PB_GET_ERROR(&in));
            assert_int_equal(batch.envelopes_count, 1);
            compare_with_schema(&m, &batch.envelopes[0]);
            /* And what nanopb makes of it decodes here. (What it makes of a job depends on hawk.options.) */
            if (!has_desc(type)) {
                struct received got = {0};
                struct codec_report report = {0};
                pb_ostream_t out;

                b.len = 0;
                raw(&b, (uint8_t[4096]){0}, 4096);
                out = pb_ostream_from_buffer(b.data, b.len);
                assert_true(pb_encode(&out, hawk_v1_Batch_fields, &batch));
                assert_int_equal(codec_decode(b.data, out.bytes_written, receive, &got, &report), 0);
                assert_true(got.n == 1 && msg_equal(&m, &got.v[0]));
                received_free(&got);
            }
            pb_release(hawk_v1_Batch_fields, &batch);
            msg_drop(&m);
        }
    codec_buf_free(&b);
}

static void test_every_message_of_the_schema_is_ours(void **state)
{
#define X(NAME, name, tag) +1
    assert_int_equal(hawk_v1_Envelope_msg.field_count, 0 WIRE_MESSAGES(X));
#undef X
}

/* ---- Compatibility ---- */

static void test_unknown_is_skipped(void **state)
{
    struct codec_buf batch = {0}, body = {0}, content = {0};
    struct received got = {0};
    struct codec_report report = {0};

    /* A heartbeat with unknown fields of every wire type before and after its own. */
    raw(&content, "inner", 5);
    varint(&body, 90 << 3 | 0), varint(&body, UINT64_MAX);
    length_delimited(&body, 91, &content);
    varint(&body, 1 << 3 | 0), varint(&body, 7); /* seq */
    varint(&body, 92 << 3 | 1), raw(&body, "12345678", 8);
    varint(&body, 93 << 3 | 5), raw(&body, "1234", 4);
    batch_of(&batch, hawk_v1_Envelope_heartbeat_tag, &body);
    /* An envelope and a field of the batch that nobody knows yet, and an empty envelope. */
    batch_of(&batch, 900, &body);
    length_delimited(&batch, 17, &content);
    content.len = 0;
    length_delimited(&batch, 1, &content);

    assert_int_equal(codec_decode(batch.data, batch.len, receive, &got, &report), 0);
    assert_int_equal(got.n, 1);
    assert_int_equal(got.v[0].type, MSG_HEARTBEAT);
    assert_int_equal(got.v[0].heartbeat.seq, 7);
    assert_int_equal(report.delivered, 1);
    assert_int_equal(report.skipped, 2);
    received_free(&got);
    codec_buf_free(&batch);
    codec_buf_free(&body);
    codec_buf_free(&content);
}

static void test_unknown_counter_is_skipped(void **state)
{
    struct codec_buf b = {0};
    struct codec_report report = {0};
    struct msg m = {.type = MSG_COUNTER, .counter = {.value = 3, .counter = COUNTER_COUNT}};

    encode(&b, &m);
    assert_int_equal(decode_only(b.data, b.len, &report), 0);
    assert_int_equal(report.skipped, 1);
    codec_buf_free(&b);
}

/* proto3: a receiver takes packed and single numbers alike. */
static void test_unpacked_tasks(void **state)
{
    struct codec_buf batch = {0}, body = {0}, spec = {0};
    struct received got = {0};
    struct codec_report report = {0};
    struct job_desc *d = job_desc_new();

    d->tasks = 300;
    strings_add(&d->argv, "true");
    codec_desc_encode(&spec, d, true);
    varint(&body, 1 << 3 | 1), raw(&body, &(uint64_t){job_id_make((node_id_t){3}, 4).v}, 8);
    length_delimited(&body, 2, &spec);
    varint(&body, 3 << 3 | 0), varint(&body, 5);
    varint(&body, 3 << 3 | 0), varint(&body, 299);
    varint(&body, 5 << 3 | 0), varint(&body, 2);
    batch_of(&batch, hawk_v1_Envelope_long_submit_tag, &body);
    assert_int_equal(codec_decode(batch.data, batch.len, receive, &got, &report), 0);
    assert_int_equal(got.n, 1);
    assert_int_equal(got.v[0].long_submit.tasks->n, 2);
    assert_int_equal(got.v[0].long_submit.tasks->v[1], 299);
    assert_int_equal(got.v[0].long_submit.epoch, 2);
    received_free(&got);
    job_desc_drop(d);
    codec_buf_free(&batch);
    codec_buf_free(&body);
    codec_buf_free(&spec);
}

/* ---- Bad input ---- */

static void test_truncation_at_every_byte(void **state)
{
    struct rng r;
    struct codec_buf b = {0};
    struct codec_report report = {0};
    size_t ends[MSG_WIRE_END] = {0};

    rng_seed(&r, 3);
    FOR_ALL_TYPES(type)
    {
        struct msg m;

        random_msg(&r, type, &m);
        encode(&b, &m);
        ends[type] = b.len;
        msg_drop(&m);
    }
    for (size_t len = 0, whole = 0; len < b.len; len++) {
        /* Its own allocation, so that the address sanitizer sees one byte too far. */
        uint8_t *copy = malloc(len ? len : 1);
        struct received got = {0};
        int err;

        memcpy(copy, b.data, len);
        err = codec_decode(copy, len, receive, &got, &report);
        while (ends[whole + 1] <= len)
            whole++;
        assert_int_equal(err, len == ends[whole] ? 0 : HAWK_EMALFORMED);
        assert_int_equal(got.n, whole);
        received_free(&got);
        free(copy);
    }
    codec_buf_free(&b);
}

static void test_garbage(void **state)
{
    struct rng r;
    struct codec_report report = {0};

    rng_seed(&r, 99);
    for (int round = 0; round < 20000; round++) {
        size_t len = rng_below(&r, 120);
        uint8_t *data = malloc(len ? len : 1);
        int err;

        for (size_t i = 0; i < len; i++)
            data[i] = (uint8_t)rng_below(&r, 256);
        if (len)
            data[0] = 0x0a; /* at least it looks like an envelope */
        if (len > 1 && round % 2)
            data[1] = (uint8_t)(len - 2);
        err = decode_only(data, len, &report);
        assert_true(err == 0 || err == HAWK_EMALFORMED);
        free(data);
    }
}

static void test_damage(void **state)
{
    struct rng r;
    struct codec_buf b = {0};
    struct codec_report report = {0};
    int malformed = 0;

    rng_seed(&r, 100);
    for (int round = 0; round < 300; round++)
        FOR_ALL_TYPES(type)
        {
            struct msg m;
            int err;

            random_msg(&r, type, &m);
            b.len = 0;
            encode(&b, &m);
            msg_drop(&m);
            for (uint64_t n = 1 + rng_below(&r, 3); n; n--)
                b.data[rng_below(&r, b.len)] = (uint8_t)rng_below(&r, 256);
            err = decode_only(b.data, b.len, &report);
            assert_true(err == 0 || err == HAWK_EMALFORMED);
            malformed += err != 0;
        }
    assert_true(malformed > 1000);
    codec_buf_free(&b);
}

/* A number that its field cannot hold is not cut off. */
static void test_numbers_too_wide(void **state)
{
    static const struct {
        uint32_t tag, field;
        uint64_t value;
    } cases[] = {
        {hawk_v1_Envelope_heartbeat_tag, 1, UINT64_C(1) << 32}, /* u32 */
        {hawk_v1_Envelope_partition_tag, 2, 256},               /* u8 */
        {hawk_v1_Envelope_partition_tag, 2, 2},                 /* a flag */
        {hawk_v1_Envelope_steal_hint_tag, 1, NODE_ID_MAX + 1},  /* a worker's id */
        {hawk_v1_Envelope_steal_hint_tag, 1, 0},                /* nobody */
        {hawk_v1_Envelope_heartbeat_ack_tag, 1, UINT64_MAX},    /* u32 */
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct codec_buf batch = {0}, body = {0};
        struct codec_report report = {0};

        varint(&body, cases[i].field << 3 | 0), varint(&body, cases[i].value);
        batch_of(&batch, cases[i].tag, &body);
        assert_int_equal(decode_only(batch.data, batch.len, &report), HAWK_EMALFORMED);
        codec_buf_free(&batch);
        codec_buf_free(&body);
    }
}

static void test_wrong_wire_type(void **state)
{
    struct codec_buf batch = {0}, body = {0};
    struct codec_report report = {0};

    varint(&body, 1 << 3 | 5), raw(&body, "1234", 4); /* seq as fixed32 */
    batch_of(&batch, hawk_v1_Envelope_heartbeat_tag, &body);
    assert_int_equal(decode_only(batch.data, batch.len, &report), HAWK_EMALFORMED);
    assert_non_null(strstr(report.why, "HEARTBEAT at byte"));
    codec_buf_free(&batch);
    codec_buf_free(&body);
}

static void test_groups_and_deep_nesting(void **state)
{
    struct codec_buf batch = {0}, body = {0};
    struct codec_report report = {0};

    /* Unknown messages within each other are one skipped field, however deep. */
    raw(&body, "x", 1);
    for (int depth = 0; depth < 2000; depth++) {
        struct codec_buf outer = {0};

        length_delimited(&outer, 99, &body);
        codec_buf_free(&body);
        body = outer;
    }
    batch_of(&batch, hawk_v1_Envelope_heartbeat_tag, &body);
    assert_int_equal(decode_only(batch.data, batch.len, &report), 0);
    /* Groups are not proto3. */
    batch.len = body.len = 0;
    for (int depth = 0; depth < 2000; depth++)
        varint(&body, 99 << 3 | 3);
    batch_of(&batch, hawk_v1_Envelope_heartbeat_tag, &body);
    assert_int_equal(decode_only(batch.data, batch.len, &report), HAWK_EMALFORMED);
    codec_buf_free(&batch);
    codec_buf_free(&body);
}

static void test_two_bodies(void **state)
{
    struct codec_buf batch = {0}, envelope = {0}, empty = {0};
    struct codec_report report = {0};

    length_delimited(&envelope, hawk_v1_Envelope_leave_tag, &empty);
    length_delimited(&envelope, hawk_v1_Envelope_leave_tag, &empty);
    length_delimited(&batch, 1, &envelope);
    assert_int_equal(decode_only(batch.data, batch.len, &report), HAWK_EMALFORMED);
    codec_buf_free(&batch);
    codec_buf_free(&envelope);
}

/* The second of a field that may come once counts; the first is given back. */
static void test_repeated_handles(void **state)
{
    struct codec_buf batch = {0}, body = {0}, name = {0};
    struct received got = {0};
    struct codec_report report = {0};

    raw(&name, "first", 5);
    length_delimited(&body, 1, &name);
    name.len = 0, raw(&name, "second", 6);
    length_delimited(&body, 1, &name);
    batch_of(&batch, hawk_v1_Envelope_estimate_tag, &body);
    assert_int_equal(codec_decode(batch.data, batch.len, receive, &got, &report), 0);
    assert_string_equal(got.v[0].estimate.name->data, "second");
    received_free(&got);
    codec_buf_free(&batch);
    codec_buf_free(&body);
    codec_buf_free(&name);
}

static void test_receiver_ends_the_decoding(void **state)
{
    struct codec_buf b = {0};
    struct received got = {.stop_after = 2};
    struct codec_report report = {0};
    struct msg m = {.type = MSG_HEARTBEAT_ACK, .heartbeat_ack = {.seq = 1}};

    for (int i = 0; i < 5; i++)
        encode(&b, &m);
    assert_int_equal(codec_decode(b.data, b.len, receive, &got, &report), 0);
    assert_int_equal(got.n, 2);
    received_free(&got);
    codec_buf_free(&b);
}

/* ---- Job descriptions ---- */

static void test_arguments_travel_to_central_only(void **state)
{
    struct codec_buf b = {0};
    struct received got = {0};
    struct codec_report report = {0};
    struct job_desc *d = job_desc_new();
    struct try_id id = {job_id_make((node_id_t){1}, 1), 0, 1, 1};
    struct msg m = {.type = MSG_LONG_SUBMIT, .long_submit = {.job = id.job, .desc = d, .epoch = 1}};

    d->tasks = 2;
    d->flags = JOB_EACH_ARG;
    strings_add(&d->argv, "echo");
    task_args_add(&d->args, "a", 1);
    task_args_add(&d->args, "", 0);
    encode(&b, &m);
    m = (struct msg){.type = MSG_TASK_LAUNCH, .task_launch = {.id = id, .desc = d}};
    encode(&b, &m);
    assert_int_equal(codec_decode(b.data, b.len, receive, &got, &report), 0);
    assert_int_equal(got.n, 2);
    assert_true(desc_equal(got.v[0].long_submit.desc, d, true));
    assert_true(desc_equal(got.v[1].task_launch.desc, d, false));
    assert_int_equal(got.v[1].task_launch.desc->args.n, 0);
    assert_int_equal(got.v[1].task_launch.desc->flags, JOB_EACH_ARG);
    received_free(&got);
    job_desc_drop(d);
    codec_buf_free(&b);
}

static void test_desc_round_trip(void **state)
{
    struct rng r;
    struct codec_buf b = {0};

    rng_seed(&r, 5);
    for (int round = 0; round < 500; round++) {
        struct job_desc *d = random_desc(&r), *back = NULL;
        char why[100];

        b.len = 0;
        codec_desc_encode(&b, d, round % 2);
        assert_int_equal(codec_desc_decode(b.data, b.len, round % 2, &back, why, sizeof why), 0);
        assert_true(desc_equal(d, back, round % 2));
        job_desc_drop(d);
        job_desc_drop(back);
    }
    codec_buf_free(&b);
}

static void test_desc_errors_say_what(void **state)
{
    struct codec_buf b = {0};
    struct job_desc *d = job_desc_new(), *back = NULL;
    char why[200];

    codec_desc_encode(&b, d, true);
    assert_int_equal(codec_desc_decode(b.data, b.len, true, &back, why, sizeof why), HAWK_EINVALID);
    assert_string_equal(why, "the job has no tasks");
    d->tasks = 2000000;
    b.len = 0;
    codec_desc_encode(&b, d, true);
    assert_int_equal(codec_desc_decode(b.data, b.len, true, &back, why, sizeof why), HAWK_ETOO_LARGE);
    assert_non_null(strstr(why, "2000000 tasks, the limit is 1000000"));
    /* A string of C cannot hold a NUL. */
    raw(&b,
        "\x5a\x03"
        "a\0b",
        5);
    assert_int_equal(codec_desc_decode(b.data, b.len, true, &back, why, sizeof why), HAWK_EMALFORMED);
    assert_int_equal(codec_desc_decode("\xff\xff", 2, true, &back, why, sizeof why), HAWK_EMALFORMED);
    assert_non_null(strstr(why, "broken encoding of a job"));
    assert_null(back);
    job_desc_drop(d);
    codec_buf_free(&b);
}

static void test_large_job(void **state)
{
    struct codec_buf b = {0};
    struct received got = {0};
    struct codec_report report = {0};
    struct job_desc *d = job_desc_new();
    struct msg m = {.type = MSG_LONG_SUBMIT};

    d->tasks = 200000;
    d->flags = JOB_EACH_ARG;
    strings_add(&d->argv, "gzip");
    for (uint32_t i = 0; i < d->tasks; i++) {
        char line[40];

        task_args_add(&d->args, line, (size_t)snprintf(line, sizeof line, "/data/part-%06u", i));
    }
    m.long_submit.job = job_id_make((node_id_t){1}, 1);
    m.long_submit.desc = d;
    m.long_submit.epoch = 1;
    encode(&b, &m);
    assert_int_equal(codec_decode(b.data, b.len, receive, &got, &report), 0);
    assert_true(got.n == 1 && desc_equal(got.v[0].long_submit.desc, d, true));
    received_free(&got);
    job_desc_drop(d);
    codec_buf_free(&b);
}

static void test_too_large(void **state)
{
    struct codec_buf b = {0};
    struct msg m = {.type = MSG_TASK_FINISHED};

    m.task_finished.result = blob_new(NULL, CODEC_ENVELOPE_MAX);
    raw(&b, "before", 6);
    assert_int_equal(codec_encode(&b, &m), HAWK_ETOO_LARGE);
    assert_true(b.len == 6 && memcmp(b.data, "before", 6) == 0);
    msg_drop(&m);
    codec_buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_all_zero_is_nothing),
        cmocka_unit_test(test_empty_member_list),
        cmocka_unit_test(test_empty_argument),
        cmocka_unit_test(test_agrees_with_the_schema),
        cmocka_unit_test(test_every_message_of_the_schema_is_ours),
        cmocka_unit_test(test_unknown_is_skipped),
        cmocka_unit_test(test_unknown_counter_is_skipped),
        cmocka_unit_test(test_unpacked_tasks),
        cmocka_unit_test(test_truncation_at_every_byte),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_numbers_too_wide),
        cmocka_unit_test(test_wrong_wire_type),
        cmocka_unit_test(test_groups_and_deep_nesting),
        cmocka_unit_test(test_two_bodies),
        cmocka_unit_test(test_repeated_handles),
        cmocka_unit_test(test_receiver_ends_the_decoding),
        cmocka_unit_test(test_arguments_travel_to_central_only),
        cmocka_unit_test(test_desc_round_trip),
        cmocka_unit_test(test_desc_errors_say_what),
        cmocka_unit_test(test_large_job),
        cmocka_unit_test(test_too_large),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
