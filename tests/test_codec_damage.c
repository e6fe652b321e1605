/* What the codec does with damaged, hostile and unknown input. */
#include "tests/test_codec.h"

/* ---- Helpers ---- */

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
    struct received got = {0};

    encode(&b, &m);
    assert_int_equal(codec_decode(b.data, b.len, receive, &got, &report), 0);
    assert_int_equal(got.n, 0);
    received_free(&got);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
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
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
