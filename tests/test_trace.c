/* base/trace: what a trace may say, what it may not, and the words for it. */
#include "base/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static char path[256]; /* of the trace under test */

static void write_trace(const char *text, size_t len)
{
    const char *dir = getenv("TMPDIR");
    int fd;

    snprintf(path, sizeof path, "%s/trace.XXXXXX", dir ? dir : "/tmp");
    fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, len), len);
    close(fd);
}

static struct trace *open_text(const char *text)
{
    struct trace *t;

    write_trace(text, strlen(text));
    assert_int_equal(trace_open(&t, path), 0);
    return t;
}

static void close_text(struct trace *t)
{
    trace_close(t);
    unlink(path);
}

static void a_trace_is_read_job_by_job(void **state)
{
    struct trace *t = open_text("0 2 1.5 1 2\n"
                                "0.25\t1   3  3.0  \r\n"
                                " 10 3 0.1 0.1 5.68149999332e-05 1E1"); /* no newline at the end */
    struct trace_job j;

    assert_int_equal(trace_next(t, &j), 1);
    assert_int_equal(j.line, 1);
    assert_int_equal(j.submit_us, 0);
    assert_int_equal(j.tasks, 2);
    assert_int_equal(j.mean_us, 1500000);
    assert_int_equal(j.durations_us[0], 1000000);
    assert_int_equal(j.durations_us[1], 2000000);

    assert_int_equal(trace_next(t, &j), 1);
    assert_int_equal(j.line, 2);
    assert_int_equal(j.submit_us, 250000);
    assert_int_equal(j.durations_us[0], 3000000);

    assert_int_equal(trace_next(t, &j), 1);
    assert_int_equal(j.line, 3);
    assert_int_equal(j.durations_us[1], 57); /* 56.8 us, rounded */
    assert_int_equal(j.durations_us[2], 10000000);

    assert_int_equal(trace_next(t, &j), 0);
    assert_int_equal(trace_next(t, &j), 0);
    assert_string_equal(trace_error(t), "");
    close_text(t);
}

static void numbers_are_read_exactly(void **state)
{
    const struct {
        const char *text;
        int64_t us;
    } cases[] = {
        {"0", 0},
        {"0.0000004", 0},
        {"0.0000005", 1},
        {"0.00000049999999999999999999999999", 0},
        {"1406471.0", INT64_C(1406471000000)},
        {"81384.12092488888", INT64_C(81384120925)},
        {"1234567.12345649999999999999999", INT64_C(1234567123456)},
        {"000000000000000000000000000000000001", 1000000},
        {"1e-7", 0},
        {"1e+3", 1000000000},
        {"1e-999999999999", 0},
        {"0e999999999999", 0},
        {"100000000000000000000e-20", 1000000},
        {"864000000", TRACE_TIME_US_MAX},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[128];
        struct trace *t;
        struct trace_job j;

        snprintf(text, sizeof text, "0 1 1 %s\n", cases[i].text);
        t = open_text(text);
        assert_int_equal(trace_next(t, &j), 1);
        if (j.durations_us[0] != cases[i].us)
            fail_msg("%s: %lld us, not %lld", cases[i].text, (long long)j.durations_us[0],
                     (long long)cases[i].us);
        close_text(t);
    }
}

static void errors_name_line_column_and_what_was_expected(void **state)
{
    const struct {
        const char *text;
        const char *error; /* behind "FILE:" */
    } cases[] = {
        {"1 2 3 4", "1:8: expected duration 2 of 2 in seconds, found the end of the file"},
        {"1 2 3 4\n", "1:8: expected duration 2 of 2 in seconds, found the end of the line"},
        {"1 1 3 3\n2 1 3 3 4\n", "2:9: expected the end of the line after 1 durations, found '4'"},
        {"\n", "1:1: expected a submit time in seconds, found the end of the line"},
        {"1 1 1 1\n\n2 1 1 1\n", "2:1: expected a submit time in seconds, found the end of the line"},
        {"# a comment\n", "1:1: expected a submit time in seconds, found '#'"},
        {"-1 1 1 1\n", "1:1: expected a submit time in seconds, found '-'"},
        {"nan 1 1 1\n", "1:1: expected a submit time in seconds, found 'n'"},
        {"1,5 1 1 1\n", "1:2: expected a blank after the number, found ','"},
        {"1. 1 1 1\n", "1:3: expected a digit after the point, found a blank"},
        {"1e 1 1 1\n", "1:3: expected a digit of the exponent, found a blank"},
        {"1 1.5 1 1\n", "1:4: expected the number of tasks, a whole number, found '.'"},
        {"1 0 1\n", "1:3: expected the number of tasks, from 1 to 1000000, found 0"},
        {"1 1000001 1 1\n", "1:3: expected the number of tasks, from 1 to 1000000, found a larger one"},
        {"1 99999999999999999999999999 1 1\n",
         "1:3: expected the number of tasks, from 1 to 1000000, found a larger one"},
        {"1 1 864000001 1\n", "1:5: expected the mean task duration in seconds of at most 864000000 (10,000 "
                              "days), found a larger one"},
        {"1 1 1 1e999999999\n",
         "1:7: expected duration 1 of 1 in seconds of at most 864000000 (10,000 days), "
         "found a larger one"},
        {"5 1 1 1\n4.999999 1 1 1\n",
         "2:1: expected a submit time not before the previous line's, found an earlier one"},
        {"1 1 1\r 1\n", "1:6: expected duration 1 of 1 in seconds, found the byte 0x0d"},
        {"1 1 1 1\r1\n", "1:9: expected the end of the line after 1 durations, found '1'"},
        {"1 1 1 \xff\n", "1:7: expected duration 1 of 1 in seconds, found the byte 0xff"},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct trace *t = open_text(cases[i].text);
        struct trace_job j;
        char expected[512];
        int got;

        while ((got = trace_next(t, &j)) == 1)
            ;
        assert_int_equal(got, HAWK_EINVALID);
        snprintf(expected, sizeof expected, "%s:%s", path, cases[i].error);
        assert_string_equal(trace_error(t), expected);
        /* And it stays so: a reader cannot step over the line. */
        assert_int_equal(trace_next(t, &j), HAWK_EINVALID);
        assert_string_equal(trace_error(t), expected);
        close_text(t);
    }
}

static void a_zero_byte_is_no_end(void **state)
{
    struct trace *t;
    struct trace_job j;

    write_trace("1 1 1 1\0\n", 9);
    assert_int_equal(trace_open(&t, path), 0);
    assert_int_equal(trace_next(t, &j), HAWK_EINVALID);
    assert_non_null(strstr(trace_error(t), ":1:8: expected a blank after the number, found the byte 0x00"));
    close_text(t);
}

/* What unpacks it is named: the byte that is found says nothing to most people. */
static void a_compressed_trace_is_called_so(void **state)
{
    static const struct {
        const char *start;
        size_t n;
        const char *error;
    } cases[] = {
        {"\x1f\x8b\x08\x00", 4, "is compressed (gzip): unpack it with zcat"},
        {"\x28\xb5\x2f\xfd", 4, "is compressed (zstd): unpack it with zstdcat"},
        {"\xfd"
         "7zXZ\0",
         6, "is compressed (xz): unpack it with xzcat"},
        {"BZh91AY", 7, "is compressed (bzip2): unpack it with bzcat"},
        {"\x1f\x8c", 2, ":1:1: expected a submit time in seconds, found the byte 0x1f"},
        {"\x1f", 1, ":1:1: expected a submit time in seconds, found the byte 0x1f"},
        {"1 1 1 1\n\x1f\x8b", 10, ":2:1: expected a submit time in seconds, found the byte 0x1f"},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct trace *t;
        struct trace_job j;
        int got;

        write_trace(cases[i].start, cases[i].n);
        assert_int_equal(trace_open(&t, path), 0);
        while ((got = trace_next(t, &j)) == 1)
            ;
        assert_int_equal(got, HAWK_EINVALID);
        if (!strstr(trace_error(t), cases[i].error))
            fail_msg("%s, not %s", trace_error(t), cases[i].error);
        close_text(t);
    }
}

static void files_that_cannot_be_read(void **state)
{
    struct trace *t;
    struct trace_job j;

    assert_int_equal(trace_open(&t, "/no/such/trace.tr"), HAWK_EIO);
    assert_string_equal(trace_error(t), "/no/such/trace.tr: cannot be opened: No such file or directory");
    assert_int_equal(trace_next(t, &j), HAWK_EIO);
    trace_close(t);

    assert_int_equal(trace_open(&t, "/"), 0);
    assert_int_equal(trace_next(t, &j), HAWK_EIO);
    assert_string_equal(trace_error(t), "/:1: cannot be read: Is a directory");
    trace_close(t);
    trace_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trace_is_read_job_by_job),
        cmocka_unit_test(numbers_are_read_exactly),
        cmocka_unit_test(errors_name_line_column_and_what_was_expected),
        cmocka_unit_test(a_zero_byte_is_no_end),
        cmocka_unit_test(a_compressed_trace_is_called_so),
        cmocka_unit_test(files_that_cannot_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
