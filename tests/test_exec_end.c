/* exec/: how real processes end: kills, limits and strays. */
#include "exec/launch.h"
#include "tests/lib/exec_fixture.h"

/* ---- What a task used ---- */

/* The shell that runs it computes until it has used 0.2 s of CPU time. */
#define BURN                                                                                                 \
    "until read -r a b c d e f g h i j k l m user sys rest </proc/self/stat && [ $((user + sys)) -ge 20 ]; " \
    "do :; done"
#define BURNT_US (190 * US_PER_MS) /* a tick is 10 ms, and a figure is rounded */
/* Keeps 64 MiB. */
#define HOARD "head -c 67108864 /dev/zero | tail -c 67108864 >/dev/null"

static void test_an_end_says_what_was_used(void **state)
{
    struct fixture *f = *state;
    const struct result *r;

    start(f);
    r = run_one(f, 0, SHELL(BURN), NULL);
    assert_exited(r, 0);
    assert_true(figure_value(r->used.cpu_us) >= BURNT_US);
    assert_true(r->used.mem_peak_bytes.v > 0);
    r = run_one(f, 1, SHELL("(" BURN "); " HOARD "; exit 3"), NULL); /* its children count */
    assert_exited(r, 3);
    assert_true(figure_value(r->used.cpu_us) >= BURNT_US);
    assert_true(figure_value(r->used.mem_peak_bytes) >= 64 << 20);
    r = run_one(f, 2, COMMAND("/there/is/no/such/program"), NULL);
    assert_int_equal(r->outcome, OUTCOME_NOT_STARTED);
    assert_int_equal(r->used.cpu_us.v, 0);
    assert_int_equal(r->used.mem_peak_bytes.v, 0);
}

/* Nobody of the task waits for it: the shell that started it has ended. The spawner is its parent. */
static void test_what_a_lost_child_used_counts(void **state)
{
    struct fixture *f = *state;
    const struct result *r;
    char script[600];

    start(f);
    snprintf(script, sizeof script, "((" BURN "; >%s/burnt) &); until test -e %s/burnt; do sleep 0.01; done",
             f->dir, f->dir);
    r = run_one(f, 0, SHELL(script), NULL);
    assert_exited(r, 0);
    assert_true(figure_value(r->used.cpu_us) >= BURNT_US);
}

/* ---- Killing ---- */

static void test_kill_ends_the_whole_group(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = SHELL(SH_FAMILY);
    int fifo = run_until_up(f, d);

    exec_kill(f->e, 0, 0, OUTCOME_CANCELLED, false);
    pump_until(f, &f->v[0].exited);
    assert_int_equal(f->v[0].outcome, OUTCOME_CANCELLED);
    assert_int_equal(f->v[0].code, SIGTERM);
    wait_for_hang_up(fifo);
    close(fifo);
}

static void test_kill_goes_on_to_sigkill_after_the_grace(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = SHELL("trap '' TERM; echo up; while :; do sleep 1000; done");

    f->config.kill_grace_us = 50 * US_PER_MS;
    int fifo = run_until_up(f, d);
    exec_kill(f->e, 0, 0, OUTCOME_CANCELLED, false);
    exec_kill(f->e, 0, 0, OUTCOME_CANCELLED, false); /* again changes nothing */
    pump_until(f, &f->v[0].exited);
    assert_int_equal(f->v[0].outcome, OUTCOME_CANCELLED);
    assert_int_equal(f->v[0].code, SIGKILL);
    assert_true(f->v[0].run_us >= 50 * US_PER_MS);
    wait_for_hang_up(fifo);
    close(fifo);
}

static void test_what_the_leader_leaves_behind_is_killed(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = SHELL("sleep 1000 & echo up");
    char path[300];
    int fifo = make_fifo(f, path, sizeof path);

    set_blob(&d->stdout_pattern, path);
    start(f);
    assert_exited(run_one(f, 0, d, NULL), 0);
    wait_for_hang_up(fifo);
    close(fifo);
}

/* What is killed takes a moment to die: a task whose copy was started elsewhere meanwhile, and that locked
 * something, was met by it there. Many, so that the last of them would still be there. */
static void test_an_end_is_told_when_the_whole_group_is_gone(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = SHELL("for i in 1 2 3 4 5 6 7 8 9 10; do"
                               " (for j in 1 2 3 4 5 6 7 8 9 10; do sleep 1000 & done; wait) & done; exit 0");

    start(f);
    assert_exited(run_one(f, 0, d, NULL), 0);
    assert_true(kill(-f->v[0].pid, 0) < 0);
    assert_int_equal(errno, ESRCH);
}

static void test_descendants_that_left_the_group_are_killed(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = SHELL("setsid sleep 1000 & exit 0");
    char path[300];
    int fifo = make_fifo(f, path, sizeof path);

    set_blob(&d->stdout_pattern, path);
    start(f);
    assert_exited(run_one(f, 0, d, NULL), 0);
    wait_for_hang_up(fifo);
    close(fifo);
}

/* Of two tasks with strays, only those of the one that has ended are killed. */
static void test_strays_of_a_running_task_are_left_alone(void **state)
{
    struct fixture *f = *state;
    struct job_desc *keeper =
        SHELL("(setsid sh -c 'while test ! -e go; do sleep 0.01; done; echo alive' &); echo up;"
              " while test ! -e go2; do sleep 0.01; done");
    struct job_desc *ender = SHELL("(setsid sleep 1000 &) ; exit 0");
    char path[300];
    int fifo = make_fifo(f, path, sizeof path), other;
    char second[320];

    set_blob(&keeper->stdout_pattern, path);
    set_blob(&keeper->cwd, f->dir);
    snprintf(second, sizeof second, "%s2", path);
    assert_int_equal(mkfifo(second, 0600), 0);
    other = open(second, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    set_blob(&ender->stdout_pattern, second);
    start(f);
    ask(f, 0, keeper, NULL);
    job_desc_drop(keeper);
    pump_until(f, &f->v[0].started);
    wait_for_line(fifo, "up\n");
    assert_exited(run_one(f, 1, ender, NULL), 0);
    wait_for_hang_up(other); /* the sweep has been */
    write_file(f, "go", "", 0644);
    wait_for_line(fifo, "alive\n");
    write_file(f, "go2", "", 0644);
    pump_until(f, &f->v[0].exited);
    assert_exited(&f->v[0], 0);
    close(fifo);
    close(other);
}

/* ---- Escapes: a session of its own, and no environment that tells whose it is ---- */

/* The task goes on when the process has left its group: before that it would be killed with it. */
#define UNTIL_AWAY "; until test -e away; do sleep 0.01; done; "
#define ESCAPED(script) "(env -i setsid sh -c ': >away; " script "' &)" UNTIL_AWAY

/* A job whose escaped child holds the FIFO open, in whose stdout it says that it is there. */
static struct job_desc *escaping(struct fixture *f, const char *script, char *path, size_t size, int *fifo)
{
    struct job_desc *d = SHELL(script);

    *fifo = make_fifo(f, path, size);
    set_blob(&d->stdout_pattern, path);
    set_blob(&d->cwd, f->dir);
    return d;
}

static void test_an_escaped_process_ends_with_its_task(void **state)
{
    struct fixture *f = *state;
    char path[300];
    int fifo;
    struct job_desc *d = escaping(f, ESCAPED("sleep 1000; :") "exit 3", path, sizeof path, &fifo);

    start(f);
    assert_exited(run_one(f, 0, d, NULL), 3);
    wait_for_hang_up(fifo);
    close(fifo);
}

static void test_an_escaped_process_ends_with_a_killed_task(void **state)
{
    struct fixture *f = *state;
    char path[300];
    int fifo;
    struct job_desc *d = escaping(f, ESCAPED("echo up; sleep 1000; :") "while :; do sleep 1000; done", path,
                                  sizeof path, &fifo);

    start(f);
    ask(f, 0, d, NULL);
    job_desc_drop(d);
    pump_until(f, &f->v[0].started);
    wait_for_line(fifo, "up\n");
    exec_kill(f->e, 0, 0, OUTCOME_CANCELLED, false);
    pump_until(f, &f->v[0].exited);
    wait_for_hang_up(fifo);
    close(fifo);
}

static void test_an_escaped_process_ends_with_a_time_limit(void **state)
{
    struct fixture *f = *state;
    char path[300];
    int fifo;
    struct job_desc *d =
        escaping(f, ESCAPED("sleep 1000; :") "while :; do sleep 1000; done", path, sizeof path, &fifo);

    d->time_limit_us = 1 * US_PER_S;
    start(f);
    run_one(f, 0, d, NULL);
    assert_int_equal(f->v[0].outcome, OUTCOME_TIME_LIMIT);
    wait_for_hang_up(fifo);
    close(fifo);
}

/* Neither SIGTERM nor their parent's end impresses these: a family, each in a session of its own. */
static void test_escaped_processes_that_will_not_end_are_killed(void **state)
{
    struct fixture *f = *state;
    char path[300];
    int fifo;
    struct job_desc *d = escaping(
        f,
        ESCAPED("trap \"\" TERM; (setsid sh -c \"sleep 1000; sleep 1000\" &); setsid sleep 1000; sleep 1000"),
        path, sizeof path, &fifo);

    f->config.kill_grace_us = 50 * US_PER_MS;
    start(f);
    assert_exited(run_one(f, 0, d, NULL), 0);
    wait_for_hang_up(fifo);
    close(fifo);
}

/* SIGTERM first: it may have something to put away. */
static void test_an_escaped_process_may_end_by_itself(void **state)
{
    struct fixture *f = *state;
    char path[300];
    int fifo;
    struct job_desc *d = escaping(f,
                                  "(env -i setsid sh -c 'trap \"echo bye; exit\" TERM; : >away;"
                                  " while :; do sleep 0.01; done' &)" UNTIL_AWAY,
                                  path, sizeof path, &fifo);

    start(f);
    assert_exited(run_one(f, 0, d, NULL), 0);
    wait_for_line(fifo, "bye\n");
    wait_for_hang_up(fifo);
    close(fifo);
}

/* Its parent ends again and again, and with it whatever is known of the pid. */
static void test_a_daemon_that_moves_on_is_ended(void **state)
{
    struct fixture *f = *state;
    char path[300];
    int fifo;
    struct job_desc *d = escaping(f, "(env -i setsid ./hop &)" UNTIL_AWAY, path, sizeof path, &fifo);

    write_file(f, "hop", "#!/bin/sh\n: >away\nsleep 0.3\nsetsid ./hop &\n", 0755);
    start(f);
    assert_exited(run_one(f, 0, d, NULL), 0);
    wait_for_hang_up(fifo);
    close(fifo);
}

/* It may be of either task that ran when it began. One that started later does not keep it. */
static void test_an_escaped_process_lives_while_it_may_be_of_a_task(void **state)
{
    struct fixture *f = *state;
    struct job_desc *first = SHELL("while test ! -e go; do sleep 0.01; done");
    struct job_desc *later = SHELL("while test ! -e go2; do sleep 0.01; done");
    struct job_desc *quick =
        SHELL("sleep 0.05"); /* five ticks of the clock by which processes are told apart */
    char path[300];
    struct job_desc *d;
    int fifo;

    set_blob(&first->cwd, f->dir);
    set_blob(&later->cwd, f->dir);
    d = escaping(f, ESCAPED("until test -e tell; do sleep 0.01; done; echo alive; sleep 1000; :") "exit 0",
                 path, sizeof path, &fifo);
    start(f);
    ask(f, 0, first, NULL);
    pump_until(f, &f->v[0].started);
    assert_exited(run_one(f, 1, d, NULL), 0);
    for (uint32_t run = 3; run < 9; run++) /* sweeps come and go */
        assert_exited(run_one(f, run, job_desc_ref(quick), NULL), 0);
    ask(f, 2, later, NULL);
    pump_until(f, &f->v[2].started);
    write_file(f, "tell", "", 0644);
    wait_for_line(fifo, "alive\n");
    write_file(f, "go", "", 0644);
    pump_until(f, &f->v[0].exited);
    wait_for_hang_up(fifo);
    assert_false(f->v[2].exited);
    write_file(f, "go2", "", 0644);
    pump_until(f, &f->v[2].exited);
    job_desc_drop(quick);
    job_desc_drop(first);
    job_desc_drop(later);
    close(fifo);
}

/* Another task's process, away from its group, is killed by the next look at strays: when it is gone, they
 * have been looked at. */
static void wait_for_a_sweep(struct fixture *f, uint32_t run)
{
    char path[320], script[160];
    struct job_desc *d;
    int fd;

    snprintf(script, sizeof script,
             "(setsid sh -c ': >left.%u; sleep 1000; :' &); until test -e left.%u; do sleep 0.01; done", run,
             run);
    d = SHELL(script);
    snprintf(path, sizeof path, "%s/swept.%u", f->dir, run);
    assert_int_equal(mkfifo(path, 0600), 0);
    fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(fd >= 0);
    set_blob(&d->stdout_pattern, path);
    set_blob(&d->cwd, f->dir);
    assert_exited(run_one(f, run, d, NULL), 0);
    wait_for_hang_up(fd);
    close(fd);
}

/* Its child is of the same task, though it began when another one ran. */
static void test_what_an_escaped_process_leaves_is_of_its_task(void **state)
{
    struct fixture *f = *state;
    struct job_desc *later = SHELL("while test ! -e go2; do sleep 0.01; done");
    char path[300];
    struct job_desc *d;
    int fifo;

    set_blob(&later->cwd, f->dir);
    d = escaping(f,
                 ESCAPED("until test -e fork; do sleep 0.01; done; setsid sh -c \"echo born;"
                         " while kill -0 \\$PPID; do sleep 0.01; done; echo alone; sleep 1000; :\" &"
                         " until test -e die; do sleep 0.01; done") "until test -e go; do sleep 0.01; done",
                 path, sizeof path, &fifo);
    start(f);
    ask(f, 0, d, NULL);
    job_desc_drop(d);
    pump_until(f, &f->v[0].started);
    wait_for_a_sweep(f, 2);
    ask(f, 1, later, NULL);
    pump_until(f, &f->v[1].started);
    write_file(f, "fork", "", 0644);
    wait_for_line(fifo, "born\n");
    wait_for_a_sweep(f, 3);
    write_file(f, "die", "", 0644);
    wait_for_line(fifo, "alone\n");
    write_file(f, "go", "", 0644);
    pump_until(f, &f->v[0].exited);
    wait_for_hang_up(fifo);
    assert_false(f->v[1].exited);
    write_file(f, "go2", "", 0644);
    pump_until(f, &f->v[1].exited);
    job_desc_drop(later);
    close(fifo);
}

static void test_time_limit(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = SHELL(SH_FAMILY);
    char path[300];
    int fifo = make_fifo(f, path, sizeof path);

    d->time_limit_us = 100 * US_PER_MS;
    set_blob(&d->stdout_pattern, path);
    start(f);
    ask(f, 0, d, NULL);
    pump_until(f, &f->v[0].exited);
    assert_int_equal(f->v[0].outcome, OUTCOME_TIME_LIMIT);
    assert_true(f->v[0].run_us >= 100 * US_PER_MS);
    wait_for_hang_up(fifo);
    close(fifo);
    job_desc_drop(d);
    d = COMMAND("true");
    d->time_limit_us = BOUND_US;
    assert_exited(run_one(f, 1, d, NULL), 0);
}

static void test_stop_kills_what_runs(void **state)
{
    struct fixture *f = *state;
    /* A group, and one that left it and cannot be traced back: its environment is empty. */
    struct job_desc *d = SHELL("env -i setsid sleep 1000 & " SH_FAMILY);
    int fifo = run_until_up(f, d);

    exec_stop(f->e);
    f->e = NULL;
    wait_for_hang_up(fifo);
    close(fifo);
}

/* What looks for the directory, and tells of it, reads a string. */
static void test_a_directory_that_is_too_long_is_a_string(void **state)
{
    static char arg[(8u << 20) + 1], why[TEMPLATE_WHY_MAX];
    struct job_desc *d = COMMAND("true");
    struct launcher l = {0};
    struct spec s = {.d = d};
    const struct task t = {.arg = arg, .arg_len = sizeof arg - 1};

    (void)state;
    memset(arg, 'x', sizeof arg - 1);
    d->flags |= JOB_EACH_CWD;
    set_blob(&d->cwd, "{}{}{}{}{}{}{}{}{}{}");
    command_prepare(&s);
    assert_int_equal(command_fill(&l, &s, &t, why), HAWK_ETOO_LARGE);
    assert_int_equal(strnlen(l.cwd, l.text.len), l.text.len - 1);
    command_release(&s);
    text_free(&l.text);
    free(l.at);
    job_desc_drop(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_an_end_says_what_was_used),
        TEST(test_what_a_lost_child_used_counts),
        TEST(test_kill_ends_the_whole_group),
        TEST(test_kill_goes_on_to_sigkill_after_the_grace),
        TEST(test_what_the_leader_leaves_behind_is_killed),
        TEST(test_an_end_is_told_when_the_whole_group_is_gone),
        TEST(test_descendants_that_left_the_group_are_killed),
        TEST(test_strays_of_a_running_task_are_left_alone),
        TEST(test_an_escaped_process_ends_with_its_task),
        TEST(test_an_escaped_process_ends_with_a_killed_task),
        TEST(test_an_escaped_process_ends_with_a_time_limit),
        TEST(test_escaped_processes_that_will_not_end_are_killed),
        TEST(test_an_escaped_process_may_end_by_itself),
        TEST(test_a_daemon_that_moves_on_is_ended),
        TEST(test_an_escaped_process_lives_while_it_may_be_of_a_task),
        TEST(test_what_an_escaped_process_leaves_is_of_its_task),
        TEST(test_time_limit),
        TEST(test_stop_kills_what_runs),
        cmocka_unit_test(test_a_directory_that_is_too_long_is_a_string),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
