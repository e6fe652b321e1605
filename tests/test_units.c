/* Ids and quantities as people write and read them: job ids, durations, shares, sizes, integers. */
#include "tests/test_base.h"

/* --- ids --------------------------------------------------------------------------------------- */

static void job_ids_round_trip(void **state)
{
    const struct {
        uint32_t node;
        uint64_t seq;
        const char *text;
    } cases[] = {
        {1, 0, "1.0"},
        {3, 17, "3.17"},
        {NODE_ID_MAX, JOB_SEQ_MAX, "1000000.1099511627775"},
    };
    char buf[JOB_ID_TEXT];

    for (size_t i = 0; i < COUNT(cases); i++) {
        job_id_t j = job_id_make((node_id_t){cases[i].node}, cases[i].seq);
        job_id_t back = JOB_NONE;

        assert_int_equal(job_id_node(j).v, cases[i].node);
        assert_true(job_id_seq(j) == cases[i].seq);
        assert_string_equal(job_id_format(buf, j), cases[i].text);
        assert_int_equal(job_id_parse(buf, &back), 0);
        assert_true(job_eq(j, back));
    }
}

static void job_id_refuses_what_is_none(void **state)
{
    const char *const bad[] = {
        "",
        "3",
        "3.",
        ".17",
        "3.17 ",
        " 3.17",
        "3.-1",
        "-3.1",
        "3.1x",
        "3.1.1",
        "+3.1",
        "a.b",
        "0.5",
        "16777216.1",
        "0x3.1",
        "last",
        "3,17",
        "3.1e3",
        "3 .17",
        "..",
        "3.1099511627776",
        "00000000000003.",
        "9999999999.1",
    };
    job_id_t j = {42};

    for (size_t i = 0; i < COUNT(bad); i++) {
        if (job_id_parse(bad[i], &j) != HAWK_EINVALID)
            fail_msg("'%s' was taken for a job id", bad[i]);
    }
    assert_true(j.v == 42);
}

static void tries_differ_in_every_part(void **state)
{
    struct try_id a = {job_id_make((node_id_t){1}, 2), 3, 4, 5};
    struct try_id b = a;

    assert_true(try_eq(&a, &b));
    b.attempt++;
    assert_false(try_eq(&a, &b));
    b = a;
    b.epoch++;
    assert_false(try_eq(&a, &b));
    b = a;
    b.task++;
    assert_false(try_eq(&a, &b));
    b = a;
    b.job.v++;
    assert_false(try_eq(&a, &b));
}

/* --- quantities -------------------------------------------------------------------------------- */

static void durations_are_read(void **state)
{
    const struct {
        const char *text;
        int64_t us;
    } cases[] = {
        {"0", 0},
        {"0s", 0},
        {"0.0", 0},
        {"1us", 1},
        {"250ms", 250000},
        {"1.5s", 1500000},
        {"0.000001s", 1},
        {"0.0000009s", 0},
        {"30s", 30 * US_PER_S},
        {"2m", 120 * US_PER_S},
        {"2h", 7200 * US_PER_S},
        {"0.5h", 1800 * US_PER_S},
        {"1d", 86400 * US_PER_S},
        {"007s", 7 * US_PER_S},
        {"1.0000000000000000000001s", US_PER_S},
        {"10000d", INT64_C(864000000000000)},
        {"1m 23.5s", 83500 * US_PER_MS},
        {"1h30m", 5400 * US_PER_S},
        {"1d 0h 5m", 86700 * US_PER_S},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        int64_t us = -1;

        if (duration_parse(cases[i].text, &us) || us != cases[i].us)
            fail_msg("'%s' was read as %lld us", cases[i].text, (long long)us);
    }
}

static void bad_durations_are_refused(void **state)
{
    const char *const malformed[] = {
        "",    "30",    "1",  "0.1",  "s",     "-1s",     "+1s",    " 1s",  "1s ",   "1 s",  "1.s",
        ".5s", "1..5s", "1S", "1mS",  "1min",  "1sec",    "1w",     "1e3s", "inf",   "nanS", "0x1s",
        "1,5", "1.5.s", "ms", "1s1s", "1m 1h", "1.5m 3s", "1m  3s", "1m 3", "1m,3s",
    };
    const char *const large[] = {"10001d", "10000.1d", "99999999999999999999999999s",
                                 "18446744073709551616us"};
    int64_t us = 42;

    for (size_t i = 0; i < COUNT(malformed); i++)
        if (duration_parse(malformed[i], &us) != HAWK_EINVALID)
            fail_msg("'%s' was taken for a duration", malformed[i]);
    for (size_t i = 0; i < COUNT(large); i++)
        if (duration_parse(large[i], &us) != HAWK_ETOO_LARGE)
            fail_msg("'%s' was not too large", large[i]);
    assert_true(us == 42);
}

static void durations_are_written_short(void **state)
{
    const struct {
        int64_t us;
        const char *text;
    } cases[] = {
        {0, "0s"},
        {1, "1us"},
        {999, "999us"},
        {1000, "1ms"},
        {1234567, "1.235s"},
        {1250000, "1.25s"},
        {59994999, "59.99s"},
        {59999999, "1m"},
        {90 * US_PER_S, "1m 30s"},
        {82980 * US_PER_MS, "1m 23s"},
        {3599600 * US_PER_MS, "1h"},
        {3660 * US_PER_S, "1h 1m"},
        {86399 * US_PER_S, "1d"},
        {273600 * US_PER_S, "3d 4h"},
        {123 * US_PER_MS + 456, "123.5ms"},
        {7200 * US_PER_S, "2h"},
        {-1500000, "-1.5s"},
        {INT64_MIN, "-106751991d 4h"},
        {TIME_NEVER, "never"},
    };
    char buf[32];

    for (size_t i = 0; i < COUNT(cases); i++)
        assert_string_equal(duration_format(buf, sizeof buf, cases[i].us), cases[i].text);
}

static void written_durations_read_back(void **state)
{
    struct rng r;
    char buf[32];

    rng_seed(&r, 1);
    for (int i = 0; i < 20000; i++) {
        /* As many of each magnitude, up to the 10,000 days that can be read. */
        int64_t us = (int64_t)rng_below(&r, UINT64_C(1) << (1 + rng_below(&r, 49)));
        int64_t back, off;

        assert_int_equal(duration_parse(duration_format(buf, sizeof buf, us), &back), 0);
        off = back > us ? back - us : us - back;
        if (us < 60 * US_PER_S ? off * 1000 > us : off * 50 > us) /* 1d 0h stands for up to 1d 30m */
            fail_msg("%lld us was written as %s", (long long)us, buf);
    }
}

static void shares_and_thousandths_are_written_short(void **state)
{
    char buf[16];

    assert_string_equal(share_format(buf, sizeof buf, 170000), "17%");
    assert_string_equal(share_format(buf, sizeof buf, 0), "0%");
    assert_string_equal(share_format(buf, sizeof buf, 1000000), "100%");
    assert_string_equal(share_format(buf, sizeof buf, 333333), "33.33%");
    assert_string_equal(share_format(buf, sizeof buf, 105000), "10.5%");
    assert_string_equal(share_format(buf, sizeof buf, 149), "0.01%");
    assert_string_equal(milli_format(buf, sizeof buf, 2000), "2");
    assert_string_equal(milli_format(buf, sizeof buf, 1050), "1.05");
    assert_string_equal(milli_format(buf, sizeof buf, 7), "0.007");
}

static void shares_are_read(void **state)
{
    const char *const bad[] = {"", "%", "101%", "1.000001", "2", "-1%", "17 %", "17%%", "0,5", "1e-3", "x"};
    uint32_t ppm = 42;

    for (size_t i = 0; i < COUNT(bad); i++)
        if (share_parse(bad[i], &ppm) != HAWK_EINVALID)
            fail_msg("'%s' was taken for a share", bad[i]);
    assert_int_equal(ppm, 42);
    assert_int_equal(share_parse("17%", &ppm), 0);
    assert_int_equal(ppm, 170000);
    assert_int_equal(share_parse("0.17", &ppm), 0);
    assert_int_equal(ppm, 170000);
    assert_int_equal(share_parse("33.3333%", &ppm), 0);
    assert_int_equal(ppm, 333333);
    assert_int_equal(share_parse("0", &ppm), 0);
    assert_int_equal(ppm, 0);
    assert_int_equal(share_parse("100%", &ppm), 0);
    assert_int_equal(ppm, 1000000);
    assert_int_equal(share_parse("1", &ppm), 0);
    assert_int_equal(ppm, 1000000);
}

static void sizes_are_read(void **state)
{
    const char *const bad[] = {"", "MiB", "-1", "1.5", "1.5B", "1 MiB", "1mib", "1K", "1M", "1MiBs"};
    uint64_t bytes = 42;

    for (size_t i = 0; i < COUNT(bad); i++)
        if (size_parse(bad[i], &bytes) != HAWK_EINVALID)
            fail_msg("'%s' was taken for a size", bad[i]);
    assert_int_equal(size_parse("18446744073709551616", &bytes), HAWK_ETOO_LARGE);
    assert_int_equal(size_parse("17179869184GiB", &bytes), HAWK_ETOO_LARGE);
    assert_true(bytes == 42);
    assert_int_equal(size_parse("18446744073709551615", &bytes), 0);
    assert_true(bytes == UINT64_MAX);
    assert_int_equal(size_parse("64MiB", &bytes), 0);
    assert_true(bytes == 64u << 20);
    assert_int_equal(size_parse("1.5GiB", &bytes), 0);
    assert_true(bytes == 1610612736u);
    assert_int_equal(size_parse("2TiB", &bytes), 0);
    assert_true(bytes == UINT64_C(2) << 40);
    assert_int_equal(size_parse("1TB", &bytes), 0);
    assert_true(bytes == UINT64_C(1000000000000));
    assert_int_equal(size_parse("15EiB", &bytes), 0);
    assert_true(bytes == UINT64_C(15) << 60);
    assert_int_equal(size_parse("16EiB", &bytes), HAWK_ETOO_LARGE);
    assert_int_equal(size_parse("2kB", &bytes), 0);
    assert_true(bytes == 2000);
}

static void integers_are_read_whole_and_within_bounds(void **state)
{
    const char *const bad[] = {"", " 1", "1 ", "-1", "+1", "0x10", "1.0", "1e3", "ten"};
    uint64_t v = 42;

    for (size_t i = 0; i < COUNT(bad); i++)
        if (u64_parse(bad[i], 0, UINT64_MAX, &v) != HAWK_EINVALID)
            fail_msg("'%s' was taken for an integer", bad[i]);
    assert_int_equal(u64_parse("18446744073709551616", 0, UINT64_MAX, &v), HAWK_ETOO_LARGE);
    assert_int_equal(u64_parse("11", 1, 10, &v), HAWK_ETOO_LARGE);
    assert_int_equal(u64_parse("0", 1, 10, &v), HAWK_EINVALID);
    assert_true(v == 42);
    assert_int_equal(u64_parse("010", 1, 10, &v), 0);
    assert_true(v == 10);
    assert_int_equal(u64_parse("18446744073709551615", 0, UINT64_MAX, &v), 0);
    assert_true(v == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(job_ids_round_trip),
        cmocka_unit_test(job_id_refuses_what_is_none),
        cmocka_unit_test(tries_differ_in_every_part),
        cmocka_unit_test(durations_are_read),
        cmocka_unit_test(bad_durations_are_refused),
        cmocka_unit_test(durations_are_written_short),
        cmocka_unit_test(written_durations_read_back),
        cmocka_unit_test(shares_are_read),
        cmocka_unit_test(shares_and_thousandths_are_written_short),
        cmocka_unit_test(sizes_are_read),
        cmocka_unit_test(integers_are_read_whole_and_within_bounds),
    };

    return cmocka_run_group_tests_name("units", tests, NULL, NULL);
}
