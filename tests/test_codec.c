/* net/codec: every message there and back, against what nanopb generates from cluster.proto, and bad input. */
#include "tests/test_codec.h"

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
#define SAME_usage(field)                                                                                    \
    assert_true((p->field.cpu_us.v || p->field.mem_peak_bytes.v) == q->has_##field &&                        \
                figure_value(p->field.cpu_us) == q->field.cpu_us &&                                          \
                figure_value(p->field.mem_peak_bytes) == q->field.mem_peak_bytes);
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
            /* And what nanopb makes of it decodes here. (It leaves out a job's fields, which have no options.) */
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
    assert_string_equal(why, "argv: no value that this field can have");
    b.len = 0; /* after tasks = 3, an estimate_us of -1 */
    raw(&b, "\x10\x03\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 13);
    assert_int_equal(codec_desc_decode(b.data, b.len, true, &back, why, sizeof why), HAWK_EMALFORMED);
    assert_string_equal(why, "estimate_us: no value that this field can have");
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
        cmocka_unit_test(test_arguments_travel_to_central_only),
        cmocka_unit_test(test_desc_round_trip),
        cmocka_unit_test(test_desc_errors_say_what),
        cmocka_unit_test(test_large_job),
        cmocka_unit_test(test_too_large),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
