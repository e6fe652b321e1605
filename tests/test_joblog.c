/* The log of `hawk run`: what is written is read back, and what is not whole or not ours is seen. */
#include "base/mem.h"
#include "daemon/joblog.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char path[64];
static char why[256];

static int new_file(void **state)
{
    snprintf(path, sizeof path, "/tmp/hawk-joblog.XXXXXX");
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state) { return unlink(path); }

static void put(const char *text, const char *mode)
{
    FILE *f = fopen(path, mode);
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static char *contents(void)
{
    static char text[4096];
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    return text;
}

/* What was read, a line per entry. */
static char seen[1024];

static int see(void *arg, const struct joblog_entry *e)
{
    size_t n = strlen(seen);
    snprintf(seen + n, sizeof seen - n, "%d %s '%s' by %s\n", (int)e->position, e->done ? "done" : "failed",
             e->input, e->command);
    return arg && e->position == *(uint64_t *)arg ? -1000 : 0;
}

static int open_it(struct joblog **l, joblog_entry_fn *entries, void *arg)
{
    *seen = *why = '\0';
    return joblog_open(l, path, "gzip {}", entries, arg, why, sizeof why);
}

static void nothing(void *arg) {}

static void add(struct joblog *l, uint64_t position, enum outcome outcome, int code, const char *input)
{
    struct blob *b = blob_str(input);
    joblog_add(l, &(struct joblog_line){.position = position,
                                        .host = ":",
                                        .start_us = 1500000,
                                        .run_us = 250000,
                                        .output = 7,
                                        .outcome = outcome,
                                        .code = code,
                                        .input = b,
                                        .ending = "ended"});
    blob_drop(b);
}

static void lines_are_read_back(void **state)
{
    struct joblog *l;
    assert_int_equal(open_it(&l, NULL, NULL), 0);
    joblog_start(l, nothing, NULL);
    add(l, 1, OUTCOME_EXITED, 0, "a\tb\nc\\\x1b\xff ü");
    add(l, 3, OUTCOME_EXITED, 2, "");
    add(l, 2, OUTCOME_SIGNALED, 9, "x");
    add(l, 4, OUTCOME_TIME_LIMIT, 0, "y");
    joblog_close(l);
    assert_string_equal(
        contents(),
        "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\tInput\tEnding\n"
        "1\t:\t1.500\t0.250\t0\t7\t0\t0\tgzip {}\ta\\tb\\nc\\\\\\x1b\\xff ü\tended\n"
        "3\t:\t1.500\t0.250\t0\t7\t2\t0\tgzip {}\t\tended\n"
        "2\t:\t1.500\t0.250\t0\t7\t0\t9\tgzip {}\tx\tended\n"
        "4\t:\t1.500\t0.250\t0\t7\t-1\t0\tgzip {}\ty\tended\n");
    assert_int_equal(open_it(&l, see, NULL), 0);
    assert_string_equal(seen, "1 done 'a\\tb\\nc\\\\\\x1b\\xff ü' by gzip {}\n"
                              "3 failed '' by gzip {}\n2 failed 'x' by gzip {}\n4 failed 'y' by gzip {}\n");
    joblog_close(l);
}

static void a_line_that_was_not_written_whole_is_cut_off(void **state)
{
    struct joblog *l;
    assert_int_equal(open_it(&l, NULL, NULL), 0);
    joblog_start(l, nothing, NULL);
    add(l, 1, OUTCOME_EXITED, 0, "a");
    joblog_close(l);
    put("2\t:\t1.5", "a");
    assert_int_equal(open_it(&l, see, NULL), 0);
    joblog_start(l, nothing, NULL);
    add(l, 2, OUTCOME_EXITED, 0, "b");
    joblog_close(l);
    assert_int_equal(open_it(&l, see, NULL), 0);
    assert_string_equal(seen, "1 done 'a' by gzip {}\n2 done 'b' by gzip {}\n");
    joblog_close(l);
    /* The head, too. */
    put("Seq\tHo", "w");
    assert_int_equal(open_it(&l, see, NULL), 0);
    joblog_start(l, nothing, NULL);
    joblog_close(l);
    assert_memory_equal(contents(), "Seq\tHost\tStart", 14);
}

static void other_files_stay_as_they_are(void **state)
{
    static const char *const texts[] = {
        "my thesis", "my thesis\n",
        "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n"};
    struct joblog *l;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        put(texts[i], "w");
        assert_int_equal(open_it(&l, see, NULL), HAWK_EINVALID);
        assert_string_equal(contents(), texts[i]);
        assert_int_equal(open_it(&l, NULL, NULL), HAWK_EEXISTS);
        assert_string_equal(contents(), texts[i]);
    }
}

static void only_one_writes_it(void **state)
{
    struct joblog *l, *other;
    assert_int_equal(open_it(&l, see, NULL), 0);
    assert_int_equal(open_it(&other, see, NULL), HAWK_EBUSY);
    joblog_close(l);
    assert_int_equal(open_it(&l, see, NULL), 0);
    joblog_close(l);
}

static void a_reader_may_end_the_reading(void **state)
{
    struct joblog *l;
    uint64_t two = 2;
    assert_int_equal(open_it(&l, NULL, NULL), 0);
    joblog_start(l, nothing, NULL);
    for (uint64_t i = 1; i <= 3; i++)
        add(l, i, OUTCOME_EXITED, 0, "a");
    joblog_close(l);
    assert_int_equal(open_it(&l, see, &two), -1000);
    assert_null(strstr(seen, "3 done"));
    put("x\tfoo\n", "a");
    assert_int_equal(open_it(&l, see, NULL), HAWK_EINVALID);
    assert_non_null(strstr(why, "line 5"));
}

static void lines_that_do_not_fit_leave_nothing(void **state)
{
    struct joblog *l;
    int err;
    assert_int_equal(open_it(&l, NULL, NULL), 0);
    joblog_start(l, nothing, NULL);
    add(l, 1, OUTCOME_EXITED, 0, "a");
    joblog_close(l);
    char *before = xstrdup(contents());
    struct rlimit whole, full;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &whole), 0);
    full = (struct rlimit){.rlim_cur = strlen(before) + 100, .rlim_max = whole.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(open_it(&l, see, NULL), 0);
    for (uint64_t i = 2; i <= 9; i++) /* all of them are there when it starts, so they are written at once */
        add(l, i, OUTCOME_EXITED, 0, "a");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &full), 0);
    joblog_start(l, nothing, NULL);
    joblog_finish(l);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &whole), 0);
    assert_int_equal(joblog_written(l, &err), 0);
    assert_int_equal(err, EFBIG);
    joblog_close(l);
    assert_string_equal(contents(), before);
    free(before);
}

static void commands_are_written_as_a_shell_reads_them(void **state)
{
    struct strings argv = {0};
    strings_add(&argv, "sh");
    strings_add(&argv, "-c");
    strings_add(&argv, "echo it's\n$X");
    strings_add(&argv, "");
    strings_add(&argv, "{}");
    char *text = joblog_command(&argv);
    assert_string_equal(text, "sh -c 'echo it'\\\\''s\\n$X' '' {}");
    free(text);
    free(argv.data);
}

static void a_pipe_gets_the_head_as_well(void **state)
{
    struct joblog *l;
    char text[512];
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    int fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(open_it(&l, NULL, NULL), 0);
    joblog_start(l, nothing, NULL);
    add(l, 1, OUTCOME_EXITED, 0, "a");
    joblog_close(l);
    ssize_t n = read(fd, text, sizeof text - 1);
    assert_true(n > 0);
    text[n] = '\0';
    assert_string_equal(
        text, "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\tInput\tEnding\n"
              "1\t:\t1.500\t0.250\t0\t7\t0\t0\tgzip {}\ta\tended\n");
    close(fd);
}

int main(void)
{
#define FILE_TEST(name) cmocka_unit_test_setup_teardown(name, new_file, remove_file)
    const struct CMUnitTest tests[] = {
        FILE_TEST(lines_are_read_back),          FILE_TEST(a_line_that_was_not_written_whole_is_cut_off),
        FILE_TEST(other_files_stay_as_they_are), FILE_TEST(only_one_writes_it),
        FILE_TEST(a_reader_may_end_the_reading), FILE_TEST(lines_that_do_not_fit_leave_nothing),
        FILE_TEST(a_pipe_gets_the_head_as_well), cmocka_unit_test(commands_are_written_as_a_shell_reads_them),
    };
    return cmocka_run_group_tests_name("joblog", tests, NULL, NULL);
}
