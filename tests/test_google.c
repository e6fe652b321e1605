/* sim/google: rows as Google's task_events table has them, made here, and what they become. */
#include "workload/generate.h"
#include "workload/google.h"

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

/* time, job, task, event: the rest of a row as the table often has it. */
#define ROW(time, job, task, event)                                                                          \
#time ",," #job "," #task ",4155527081," #event                                                          \
          ",70s3v5qRyCO/1PCdI6fVXnrW8FU/w+5CKRSa72xgcIo=,3,9,0.125,"                                         \
          "5e-05,0.0004244,0\n"
/* Events: 0 submit, 1 schedule, 2 evict, 3 fail, 4 finish, 5 kill, 8 update. */

static char path[256];

static void write_rows(const char *text, size_t len)
{
    const char *dir = getenv("TMPDIR");
    int fd;

    snprintf(path, sizeof path, "%s/events.XXXXXX", dir ? dir : "/tmp");
    fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, len), len);
    close(fd);
}

static void read_rows(struct google *g, const char *text)
{
    write_rows(text, strlen(text));
    if (google_read(g, path) != 0)
        fail_msg("%s", google_error(g));
    unlink(path);
}

/* The trace that rows become. */
static void assert_trace(struct google *g, const char *expected)
{
    struct sim_source source = google_source(g);
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);

    assert_int_equal(generator_write(&source, f), 0);
    fclose(f);
    assert_string_equal(text, expected);
    free(text);
}

static void jobs_come_by_submission_with_their_tasks_durations(void **state)
{
    struct google *g = google_new();

    read_rows(g, ROW(600000000, 7, 0, 0) ROW(600000000, 7, 1, 0) ROW(601000000, 7, 0, 1)
                     ROW(601000000, 3, 0, 0) ROW(601500000, 7, 1, 1) ROW(602000000, 3, 0, 1)
                         ROW(602250001, 3, 0, 4) ROW(604500000, 7, 1, 4) ROW(611000000, 7, 0, 4));
    assert_trace(g, "0 2 6.5 10 3\n"
                    "1 1 0.250001 0.250001\n");
    assert_int_equal(google_counts(g).lines, 9);
    assert_int_equal(google_counts(g).jobs, 2);
    assert_int_equal(google_counts(g).jobs_kept, 2);
    assert_int_equal(google_counts(g).tasks_kept, 3);
    google_free(g);
}

static void a_trace_in_several_files_is_one(void **state)
{
    struct google *g = google_new();

    read_rows(g, ROW(600000000, 7, 0, 0) ROW(601000000, 7, 0, 1));
    read_rows(g, ROW(603000000, 7, 0, 4));
    assert_trace(g, "0 1 2 2\n");
    google_free(g);
}

/* An evicted or failed task that is scheduled again counts with the run it finished. */
static void only_the_run_that_finished_counts(void **state)
{
    struct google *g = google_new();

    read_rows(g,
              ROW(600000000, 7, 0, 0) ROW(601000000, 7, 0, 1) ROW(650000000, 7, 0, 2) ROW(650000000, 7, 0, 0)
                  ROW(660000000, 7, 0, 1) ROW(661000000, 7, 0, 8) ROW(663000000, 7, 0, 4));
    assert_trace(g, "0 1 3 3\n");
    google_free(g);
}

static void failed_and_unfinished_tasks_are_left_out_and_counted(void **state)
{
    struct google *g = google_new();

    read_rows(g, ROW(600000000, 7, 0, 0) ROW(600000000, 7, 1, 0) ROW(600000000, 7, 2, 0)
                     ROW(600000000, 7, 5, 0) ROW(600000001, 9, 0, 0) ROW(601000000, 7, 0, 1)
                         ROW(601000000, 7, 1, 1) ROW(601000000, 7, 2, 1) ROW(601000000, 9, 0, 1)
                             ROW(602000000, 7, 0, 4) ROW(603000000, 7, 1, 5) ROW(604000000, 9, 0, 3));
    assert_trace(g, "0 1 1 1\n");
    assert_int_equal(google_counts(g).tasks, 5);
    assert_int_equal(google_counts(g).tasks_kept, 1);
    assert_int_equal(google_counts(g).tasks_failed, 2); /* 7/1 killed, 9/0 failed */
    assert_int_equal(google_counts(g).tasks_open, 2);   /* 7/2 runs, 7/5 waits */
    assert_int_equal(google_counts(g).jobs_empty, 1);
    google_free(g);
}

/* Times 0 and 2^63 - 1 and records marked as missing: the trace does not know when it was. */
static void what_happened_at_unknown_times_is_left_out_and_counted(void **state)
{
    struct google *g = google_new();

    read_rows(g, ROW(0, 1, 0, 0) ROW(0, 1, 0, 1) /* before the trace begins */
              ROW(600000000, 2, 0, 0) ROW(600000000, 2, 1, 0) ROW(600000000, 2, 2, 0) /* */
              "601000000,2,2,0,,1,,,,,,,\n" /* a start that is made up */
              ROW(601000000, 2, 1, 1) ROW(601000000, 2, 2, 1) ROW(602000000, 1, 0, 4) ROW(602000000, 2, 0, 4)
                  ROW(602000000, 2, 1, 4) ROW(9223372036854775807, 2, 2, 4));
    assert_trace(g, "0 1 1 1\n");
    assert_int_equal(google_counts(g).jobs_early, 1);
    assert_int_equal(google_counts(g).tasks_vague, 3);
    google_free(g);
}

static void jobs_submitted_at_once_come_by_their_ids(void **state)
{
    struct google *g = google_new();

    read_rows(g, ROW(600000000, 18446744073709551615, 0, 0) ROW(600000000, 5, 0, 0) ROW(600000000, 5, 0, 1)
                     ROW(600000000, 18446744073709551615, 0, 1) ROW(602000000, 5, 0, 4)
                         ROW(603000000, 18446744073709551615, 0, 4));
    assert_trace(g, "0 1 2 2\n0 1 3 3\n");
    google_free(g);
}

static void a_malformed_line_is_told_where_and_what(void **state)
{
    const struct {
        const char *text, *why;
    } bad[] = {
        {"x,,1,0,,0,,,,,,,\n", ":1:1: expected a time in microseconds, found \"x\""},
        {"-1,,1,0,,0,,,,,,,\n", ":1:1: expected a time in microseconds, found \"-1\""},
        {"9223372036854775808,,1,0,,0,,,,,,,\n",
         ":1:1: expected a time in microseconds, found \"9223372036854775808\""},
        {"5,3,1,0,,0,,,,,,,\n", ":1:3: expected a missing-information type (0 to 2) or nothing, found \"3\""},
        {"5,18446744073709551616,1,0,,0,,,,,,,\n",
         ":1:3: expected a missing-information type (0 to 2) or nothing, found \"18446744073709551616\""},
        {"5,,,0,,0,,,,,,,\n", ":1:4: expected a job ID, found \"\""},
        {"5,,18446744073709551616,0,,0,,,,,,,\n", ":1:4: expected a job ID, found \"18446744073709551616\""},
        {"5,,1,1000000,,0,,,,,,,\n", ":1:6: expected a task index below 1000000, found \"1000000\""},
        {"5,,1,0,m,0,,,,,,,\n", ":1:8: expected a machine ID or nothing, found \"m\""},
        {"5,,1,0,,9,,,,,,,\n", ":1:9: expected an event type (0 to 8), found \"9\""},
        {"5,,1,0,,,,,,,,,\n", ":1:9: expected an event type (0 to 8), found \"\""},
        {"5,,1,0,,0,u,4,,,,,\n", ":1:13: expected a scheduling class (0 to 3) or nothing, found \"4\""},
        {"5,,1,0,,0,u,3,12,,,,\n", ":1:15: expected a priority (0 to 11) or nothing, found \"12\""},
        {"5,,1,0,,0,u,3,9,0.1x,,,\n", ":1:17: expected a CPU request or nothing, found \"0.1x\""},
        {"5,,1,0,,0,u,3,9,,1e,,\n", ":1:18: expected a memory request or nothing, found \"1e\""},
        {"5,,1,0,,0,u,3,9,,,.,\n", ":1:19: expected a disk request or nothing, found \".\""},
        {"5,,1,0,,0,u,3,9,,,,2\n",
         ":1:20: expected a different-machine constraint (0 or 1) or nothing, found \"2\""},
        {"5,,1,0,,0,u,3,9,,,\n", ":1:19: expected 13 fields, found the end of the line after 12"},
        {"5,,1,0,,0,u,3,9,,,,1,\n", ":1:21: expected the end of the line after 13 fields, found \",\""},
        {"5,,1,0,,0,,,,,,,\n\n", ":2:1: expected a time in microseconds, found \"\""},
        {"5,,1,0,,0,,,,,,,\r\n4,,1,0,,1,,,,,,,\n",
         ":2:1: expected a time not before the previous line's, found 4"},
    };

    for (size_t i = 0; i < COUNT(bad); i++) {
        struct google *g = google_new();
        char why[512];

        write_rows(bad[i].text, strlen(bad[i].text));
        assert_int_equal(google_read(g, path), HAWK_EINVALID);
        snprintf(why, sizeof why, "%s%s", path, bad[i].why);
        assert_string_equal(google_error(g), why);
        google_free(g);
        unlink(path);
    }
}

static void a_byte_that_is_no_text_is_told(void **state)
{
    static const char row[] = "5,,1,0,\0,0,,,,,,,\n";
    struct google *g = google_new();

    write_rows(row, sizeof row - 1);
    assert_int_equal(google_read(g, path), HAWK_EINVALID);
    assert_non_null(strstr(google_error(g), ":1:8: expected a text, found the byte 0x00"));
    google_free(g);
    unlink(path);
}

/* As the trace is published. */
static void a_compressed_file_is_called_so(void **state)
{
    struct google *g = google_new();

    write_rows("\x1f\x8b\x08\0\0", 5);
    assert_int_equal(google_read(g, path), HAWK_EINVALID);
    assert_non_null(strstr(google_error(g), ": is compressed (gzip): unpack it with zcat"));
    google_free(g);
    unlink(path);
}

static void a_file_that_is_not_there_is_told(void **state)
{
    struct google *g = google_new();

    assert_int_equal(google_read(g, "/nowhere/part-00000-of-00500.csv"), HAWK_EIO);
    assert_non_null(strstr(google_error(g), "/nowhere/part-00000-of-00500.csv: cannot be opened"));
    google_free(g);
}

static void no_rows_are_no_jobs(void **state)
{
    struct google *g = google_new();

    read_rows(g, "");
    assert_trace(g, "");
    google_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_come_by_submission_with_their_tasks_durations),
        cmocka_unit_test(a_trace_in_several_files_is_one),
        cmocka_unit_test(only_the_run_that_finished_counts),
        cmocka_unit_test(failed_and_unfinished_tasks_are_left_out_and_counted),
        cmocka_unit_test(what_happened_at_unknown_times_is_left_out_and_counted),
        cmocka_unit_test(jobs_submitted_at_once_come_by_their_ids),
        cmocka_unit_test(a_malformed_line_is_told_where_and_what),
        cmocka_unit_test(a_byte_that_is_no_text_is_told),
        cmocka_unit_test(a_compressed_file_is_called_so),
        cmocka_unit_test(a_file_that_is_not_there_is_told),
        cmocka_unit_test(no_rows_are_no_jobs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
