/* Retention, while tasks start: what was old and unused at the look may be in use when its turn comes. */
#include "base/clock.h"
#include "base/units.h"
#include "daemon/retention.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define OLD_S INT64_C(1000)

static char dir[64], path[128];
static int task_fd = -1;

static const char *in_dir(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static void put(const char *name)
{
    int fd = open(in_dir(name), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
}

static void make_older(const char *name, time_t seconds)
{
    struct timespec at = {.tv_sec = clock_us(CLOCK_REALTIME) / US_PER_S - seconds};
    struct timespec times[2] = {at, at};
    assert_int_equal(utimensat(AT_FDCWD, in_dir(name), times, 0), 0);
}

static bool is_there(const char *name) { return access(in_dir(name), F_OK) == 0; }

/* The next task of job 1.2, as the spawner starts it. */
static void start_task(void)
{
    task_fd = open(in_dir("1.2/5.out"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(task_fd >= 0);
    assert_int_equal(flock(task_fd, LOCK_SH | LOCK_NB), 0);
    make_older("1.2/5.out", OLD_S); /* the lock alone tells */
    make_older("1.2", OLD_S);
}

/* Called instead of the system's: the task starts while an older job's output is removed. */
/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): the system's headers call it otherwise */
int unlinkat(int at, const char *name, int flags)
{
    if (task_fd < 0)
        start_task();
    return (int)syscall(SYS_unlinkat, at, name, flags);
}

static int fill(void **state)
{
    static const char *const names[] = {"1.1/0.out", "1.1", "1.2/0.out", "1.2/.user", "1.2"};

    strcpy(dir, "/tmp/hawk-retention.XXXXXX");
    if (!mkdtemp(dir) || mkdir(in_dir("1.1"), 0700) || mkdir(in_dir("1.2"), 0700))
        return -1;
    put("1.1/0.out");
    put("1.2/0.out");
    put("1.2/.user");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        make_older(names[i], i < 2 ? 2 * OLD_S : OLD_S);
    return 0;
}

static int remove_all(void **state)
{
    static const char *const names[] = {"1.1/0.out", "1.2/0.out", "1.2/5.out", "1.2/.user"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(in_dir(names[i]));
    rmdir(in_dir("1.1"));
    rmdir(in_dir("1.2"));
    if (task_fd >= 0)
        close(task_fd);
    return rmdir(dir);
}

static void output_of_a_task_that_starts_meanwhile_stays(void **state)
{
    const struct retention rules = {.dir = dir, .keep_us = 100 * US_PER_S};
    struct retention_result result;

    assert_int_equal(retention_apply(&rules, &result), 0);
    assert_int_equal(result.gone_n, 1);
    free(result.gone);
    assert_false(is_there("1.1"));
    assert_true(is_there("1.2/5.out"));
    assert_true(is_there("1.2/0.out"));
    assert_true(is_there("1.2/.user"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(output_of_a_task_that_starts_meanwhile_stays, fill, remove_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
