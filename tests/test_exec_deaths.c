/* exec/: what the death of the spawner, or of its agent, leaves of their tasks. */
#include "exec/launch.h"
#include "exec/procs.h"
#include "exec/strays.h"
#include "tests/lib/exec_fixture.h"

#include <spawn.h>

/* ---- The spawner's death ---- */

static pid_t parent_of(pid_t pid)
{
    char path[64], *text, *p;
    pid_t parent;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    text = read_path(path);
    p = strrchr(text, ')');
    parent = (pid_t)strtol(p + 3, NULL, 10);
    free(text);
    return parent;
}

/* The agent hears of it. */
static void kill_the_spawner(struct fixture *f)
{
    struct pollfd p = {.fd = exec_fd(f->e), .events = POLLIN};

    kill(parent_of(f->v[0].pid), SIGKILL);
    assert_true(poll(&p, 1, (int)(BOUND_US / US_PER_MS)) > 0);
    assert_int_equal(exec_on_ready(f->e, on_event, f), HAWK_EUNAVAILABLE);
}

/* Its socket closes before it is a zombie: until then what it ran is as much left as later. */
static void test_a_process_that_ends_is_seen_to(void **state)
{
    struct proc p;
    siginfo_t end;
    pid_t pid = fork();

    (void)state;
    if (pid == 0)
        for (;;)
            pause();
    assert_true(procs_look(pid, &p));
    assert_false(p.ending);
    kill(pid, SIGKILL);
    assert_int_equal(waitid(P_PID, (id_t)pid, &end, WEXITED | WNOWAIT), 0);
    assert_true(procs_look(pid, &p));
    assert_true(p.ending && p.dead);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* It left its group, so the agent does not know of it; its environment names the spawner. */
static void test_the_death_of_the_spawner_ends_strays(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = SHELL("setsid sh -c 'echo up; sleep 1000 & wait' & wait");
    int fifo = run_until_up(f, d);

    kill_the_spawner(f);
    wait_for_hang_up(fifo);
    close(fifo);
}

/* Within execve() a process has no environment for a moment. This one executes itself all the time, so that a tenth of
 * the looks would miss it. One that a busy machine keeps within execve() for long is missed. */
static void test_a_process_that_starts_a_program_is_known(void **state)
{
    char script[] = "[ $1 -gt 0 ] && exec sh -c \"$0\" \"$0\" $(($1 - 1))";
    char run[] = RUN_VARIABLE "=77.5", where[] = "PATH=/usr/bin:/bin";
    char sh[] = "sh", c[] = "-c", times[] = "30000", *own[] = {run, where, NULL};
    char *argv[] = {sh, c, script, script, times, NULL};
    int missed = 0;
    pid_t pid;

    (void)state;
    assert_int_equal(posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, own), 0);
    for (int looks = 0; looks < 5000; looks++) {
        bool ours = false;
        uint64_t number = run_number_of(pid, 77, &ours);

        missed += number == 0;
        assert_true(number == 0 || (number == 5 && ours));
    }
    assert_in_range(missed, 0, 20);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static pid_t sleep_as_of(pid_t spawner, const char *worker)
{
    char run[32], *env[] = {run, (char *)worker, NULL}, name[] = "sleep", time[] = "1000",
                  *argv[] = {name, time, NULL};
    pid_t pid;

    snprintf(run, sizeof run, RUN_VARIABLE "=%d.1", (int)spawner);
    assert_int_equal(posix_spawn(&pid, "/bin/sleep", NULL, NULL, argv, env), 0);
    return pid;
}

/* Only what names a spawner of that worker, and one that lives no more. */
static void test_orphans_are_ended_and_nothing_else(void **state)
{
    pid_t gone = sleep_as_of(1, "HAWK_WORKER=none");
    pid_t v[3];

    kill(gone, SIGKILL); /* a zombie lives no more, and keeps its number from others */
    assert_int_equal(waitid(P_PID, (id_t)gone, NULL, WEXITED | WNOWAIT), 0);
    v[0] = sleep_as_of(getpid(), "HAWK_WORKER=deaths");
    v[1] = sleep_as_of(gone, "HAWK_WORKER=deaths-2");
    v[2] = sleep_as_of(gone, "HAWK_WORKER=deaths");
    strays_end_orphans("deaths");
    assert_int_equal(waitpid(v[2], NULL, 0), v[2]);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(waitpid(v[i], NULL, WNOHANG), 0);
        kill(v[i], SIGKILL);
        waitpid(v[i], NULL, 0);
    }
    /* A spawner that is itself ended so: its tasks are found by the next look. */
    v[0] = sleep_as_of(gone, "HAWK_WORKER=deaths");
    v[1] = sleep_as_of(v[0], "HAWK_WORKER=deaths");
    strays_end_orphans("deaths");
    for (int i = 0; i < 2; i++)
        assert_int_equal(waitpid(v[i], NULL, 0), v[i]);
    waitpid(gone, NULL, 0);
}

static void test_death_of_the_spawner_is_noticed(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = SHELL(SH_FAMILY);
    struct try_id id = try_of(1);
    char path[300];
    int fifo = make_fifo(f, path, sizeof path);

    set_blob(&d->stdout_pattern, path);
    start(f);
    ask(f, 0, d, NULL);
    ask(f, 1, d, NULL);
    pump_until(f, &f->v[1].started);
    wait_for_line(fifo, "up\n");
    kill_the_spawner(f);
    assert_int_equal(f->exits, 2);
    assert_int_equal(f->v[0].outcome, OUTCOME_LOST);
    assert_int_equal(f->v[1].outcome, OUTCOME_LOST);
    assert_int_equal(exec_running(f->e), 0);
    assert_int_equal(exec_run(f->e, 0, &(struct msg_exec_start){.run = 2, .id = id, .desc = d}, NULL),
                     HAWK_EUNAVAILABLE);
    assert_int_equal(exec_flush(f->e), HAWK_EUNAVAILABLE);
    assert_int_equal(exec_on_ready(f->e, on_event, f), HAWK_EUNAVAILABLE);
    wait_for_hang_up(fifo); /* their groups were killed all the same */
    close(fifo);
    job_desc_drop(d);
}

/* ---- A spawner that stands still ---- */

/* A family and its spawner, which is stopped. */
static pid_t start_and_stop_the_spawner(struct fixture *f, int *fifo)
{
    struct job_desc *d = SHELL(SH_FAMILY);
    int64_t deadline = now_us() + BOUND_US;
    struct proc spawner = {0};
    char path[300];

    *fifo = make_fifo(f, path, sizeof path);
    set_blob(&d->stdout_pattern, path);
    start(f);
    ask(f, 0, d, NULL);
    job_desc_drop(d);
    pump_until(f, &f->v[0].started);
    wait_for_line(*fifo, "up\n");
    kill(parent_of(f->v[0].pid), SIGSTOP);
    while (!spawner.stopped) {
        assert_true(procs_look(parent_of(f->v[0].pid), &spawner) && now_us() < deadline);
        poll(NULL, 0, 2);
    }
    return spawner.pid;
}

static void test_a_spawner_that_stands_still_is_killed_with_its_tasks(void **state)
{
    struct fixture *f = *state;
    int64_t at_us;
    int fifo;

    (void)start_and_stop_the_spawner(f, &fifo);
    exec_kill(f->e, 7, 0, OUTCOME_CANCELLED, false);
    assert_int_equal(exec_flush(f->e), 0);
    assert_true(exec_next_timeout(f->e) > 7 + f->config.kill_grace_us);
    while ((at_us = exec_next_timeout(f->e)) != TIME_NEVER)
        exec_on_timeout(f->e, at_us, on_event, f);
    assert_int_equal(exec_on_ready(f->e, on_event, f), HAWK_EUNAVAILABLE);
    assert_true(f->v[0].exited);
    wait_for_hang_up(fifo);
    close(fifo);
}

static void test_an_agent_that_stood_still_blames_no_spawner(void **state)
{
    struct fixture *f = *state;
    int64_t late_us;
    int fifo;
    pid_t spawner = start_and_stop_the_spawner(f, &fifo);

    exec_kill(f->e, 0, 0, OUTCOME_CANCELLED, true);
    assert_int_equal(exec_flush(f->e), 0);
    for (int i = 0; i < 3; i++) {
        late_us = exec_next_timeout(f->e) + 2 * US_PER_S;
        exec_on_timeout(f->e, late_us, on_event, f);
        assert_in_range(exec_next_timeout(f->e), late_us + US_PER_S, TIME_NEVER - 1);
    }
    kill(spawner, SIGCONT);
    pump_until(f, &f->v[0].exited);
    assert_int_equal(f->v[0].outcome, OUTCOME_CANCELLED);
    wait_for_hang_up(fifo);
    close(fifo);
}

/* It hears again what it was told, and has read that by the next look. */
static void test_a_task_that_does_not_end_is_not_its_spawners_fault(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = SHELL("trap '' TERM; echo up; while :; do sleep 1000; done");
    int fifo = run_until_up(f, d);

    exec_kill(f->e, 0, 0, OUTCOME_CANCELLED, false);
    exec_check(f->e, NULL);
    pump_until(f, &f->checked);
    exec_on_timeout(f->e, exec_next_timeout(f->e), on_event, f);
    pump_until(f, &f->v[0].exited);
    assert_int_equal(f->v[0].outcome, OUTCOME_CANCELLED);
    assert_int_equal(f->v[0].code, SIGKILL);
    close(fifo);
}

/* ---- The agent's death ---- */

/* In a process of its own: an agent that starts a family and then lives until it is killed. */
static void be_an_agent(struct fixture *f, const char *fifo_path)
{
    struct job_desc *d = SHELL(SH_FAMILY);
    struct try_id id = try_of(0);

    set_blob(&d->stdout_pattern, fifo_path);
    if (exec_start(&f->e, &f->config) < 0 ||
        exec_run(f->e, 0, &(struct msg_exec_start){.run = 0, .id = id, .desc = d}, NULL) < 0 ||
        exec_flush(f->e) < 0)
        _exit(1);
    for (;;)
        pause();
}

static void test_tasks_do_not_outlive_a_dead_agent_for_long(void **state)
{
    struct fixture *f = *state;
    char path[300];
    int fifo = make_fifo(f, path, sizeof path), status;
    int64_t killed;
    pid_t agent;

    f->config.orphan_grace_us = 300 * US_PER_MS;
    agent = fork();
    assert_true(agent >= 0);
    if (agent == 0) {
        close(fifo);
        be_an_agent(f, path);
    }
    wait_for_line(fifo, "up\n");
    killed = now_us();
    kill(agent, SIGKILL);
    assert_int_equal(waitpid(agent, &status, 0), agent);
    assert_true(WIFSIGNALED(status));
    wait_for_hang_up(fifo);
    assert_true(now_us() - killed >= 300 * US_PER_MS); /* a restarted agent could have taken them over */
    close(fifo);
}

/* The agent does not hear of its spawner's end any more. */
static void test_what_an_agent_and_its_spawner_leave_ends_when_the_next_one_starts(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = SHELL("setsid sleep 1000 & " SH_FAMILY);
    pid_t spawner;

    f->config.state_dir = f->dir;
    int fifo = run_until_up(f, d);
    spawner = parent_of(f->v[0].pid);
    kill(spawner, SIGKILL);
    assert_int_equal(waitpid(spawner, NULL, 0), spawner);
    exec_leave(f->e);
    f->v[0].outcome = OUTCOME_LOST; /* nobody tells */
    start(f);
    wait_for_hang_up(fifo);
    assert_exited(run_one(f, 1, COMMAND("true"), NULL), 0);
    close(fifo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_death_of_the_spawner_ends_strays),
        cmocka_unit_test(test_orphans_are_ended_and_nothing_else),
        cmocka_unit_test(test_a_process_that_ends_is_seen_to),
        TEST(test_a_process_that_starts_a_program_is_known),
        TEST(test_death_of_the_spawner_is_noticed),
        TEST(test_a_spawner_that_stands_still_is_killed_with_its_tasks),
        TEST(test_an_agent_that_stood_still_blames_no_spawner),
        TEST(test_a_task_that_does_not_end_is_not_its_spawners_fault),
        TEST(test_tasks_do_not_outlive_a_dead_agent_for_long),
        TEST(test_what_an_agent_and_its_spawner_leave_ends_when_the_next_one_starts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
