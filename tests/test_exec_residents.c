/* exec/: tasks that become residents; and what is no resident's to end. */
#include "exec/note.h"
#include "tests/lib/exec_fixture.h"

#define STAYS "trap 'echo told > fifo; exit' TERM; echo up > fifo; while :; do sleep 0.01; done"

static struct job_desc *shell_in(const struct fixture *f, const char *script)
{
    struct job_desc *d = SHELL(script);

    set_blob(&d->cwd, f->dir);
    return d;
}

/* Starts a shell that stays, makes it a resident, and returns its pid. */
static pid_t make_resident(struct fixture *f, uint32_t run, int fifo)
{
    struct job_desc *d = shell_in(f, STAYS);
    struct result *r = &f->v[run];

    ask(f, run, d, NULL);
    job_desc_drop(d);
    pump_until(f, &r->started);
    wait_for_line(fifo, "up\n");
    pid_t pid = exec_reside(f->e, run);
    assert_int_equal(pid, r->pid);
    pump_until(f, &r->exited);
    assert_exited(r, 0);
    assert_int_equal(kill(pid, 0), 0);
    assert_int_equal(exec_running(f->e), 0);
    return pid;
}

static int open_fifo(struct fixture *f)
{
    char path[300];

    start(f);
    return make_fifo(f, path, sizeof path);
}

static void test_the_run_is_done_and_its_processes_stay(void **state)
{
    struct fixture *f = *state;
    int fifo = open_fifo(f);
    pid_t pid = make_resident(f, 0, fifo);

    f->v[0] = (struct result){0}; /* its number is free */
    struct result *r = run_one(f, 0, SHELL("exit 3"), NULL);
    assert_exited(r, 3);
    assert_int_equal(kill(pid, 0), 0);
    exec_kill(f->e, 0, 0, OUTCOME_CANCELLED, true); /* of the number: it has no run */
    assert_int_equal(exec_flush(f->e), 0);
    assert_exited(run_one(f, 1, SHELL("exit 0"), NULL), 0);
    assert_int_equal(kill(pid, 0), 0);
    exec_evict(f->e, pid);
    assert_int_equal(exec_flush(f->e), 0);
    wait_for_line(fifo, "told\n");
    wait_for_hang_up(fifo);
    close(fifo);
}

static void test_its_group_ends_with_its_leader(void **state)
{
    struct fixture *f = *state;
    int fifo = open_fifo(f);
    struct job_desc *d =
        shell_in(f, "sleep 1000 > fifo & sleep 1000 > fifo & echo up > fifo; read x < go; exit 0");
    char path[300];

    snprintf(path, sizeof path, "%s/go", f->dir);
    assert_int_equal(mkfifo(path, 0600), 0);
    ask(f, 0, d, NULL);
    job_desc_drop(d);
    wait_for_line(fifo, "");
    pump_until(f, &f->v[0].started);
    wait_for_line(fifo, "up\n");
    assert_true(exec_reside(f->e, 0) > 0);
    pump_until(f, &f->v[0].exited);
    int go = open(path, O_WRONLY | O_CLOEXEC);
    assert_int_equal(write(go, "x\n", 2), 2);
    close(go);
    wait_for_hang_up(fifo);
    close(fifo);
}

static void test_who_is_gone_becomes_no_resident(void **state)
{
    struct fixture *f = *state;

    start(f);
    assert_exited(run_one(f, 0, SHELL("exit 3"), NULL), 3);
    assert_int_equal(exec_reside(f->e, 0), 0);
    struct job_desc *sleeps = SHELL("sleep 1000");
    ask(f, 1, sleeps, NULL);
    job_desc_drop(sleeps);
    pump_until(f, &f->v[1].started);
    exec_kill(f->e, 0, 1, OUTCOME_CANCELLED, true);
    assert_true(exec_reside(f->e, 1) > 0); /* too late: it is being killed */
    pump_until(f, &f->v[1].exited);
    assert_int_equal(f->v[1].outcome, OUTCOME_CANCELLED);
    exec_evict(f->e, 1); /* nobody's */
}

static void test_residents_end_with_the_agent(void **state)
{
    struct fixture *f = *state;
    static char dir[256];

    snprintf(dir, sizeof dir, "%s/state", f->dir);
    assert_int_equal(mkdir(dir, 0700), 0);
    f->config.state_dir = dir;
    f->config.orphan_grace_us = BOUND_US;
    int fifo = open_fifo(f);
    make_resident(f, 0, fifo);
    exec_leave(f->e); /* the spawner goes on, and waits for the next agent */
    f->e = NULL;
    wait_for_line(fifo, "told\n");
    wait_for_hang_up(fifo);
    close(fifo);
    start(f);
}

static void test_stop_ends_residents(void **state)
{
    struct fixture *f = *state;
    int fifo = open_fifo(f);
    pid_t pid = make_resident(f, 0, fifo);

    exec_stop(f->e);
    f->e = NULL;
    assert_int_equal(kill(pid, 0), -1);
    wait_for_hang_up(fifo);
    close(fifo);
}

static void test_tasks_are_told_where_executors_attach(void **state)
{
    struct fixture *f = *state;

    f->config.executors = "unix:/run/x.sock";
    start(f);
    assert_exited(run_one(f, 0, SHELL("echo $HAWK_WORKER_SOCKET"), NULL), 0);
    assert_output(f, 0, "unix:/run/x.sock\n");
}

/* A note names it, in which an agent looks for what a dead spawner has left: its number was given out anew. */
static void test_what_a_living_process_runs_is_its_own(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = SHELL("until test -e go; do sleep 0.01; done; exit 3");
    char text[NOTE_MAX], dir[300];
    struct exec *second;

    set_blob(&d->cwd, f->dir);
    f->config.state_dir = f->dir;
    start(f);
    ask(f, 0, d, NULL);
    job_desc_drop(d);
    pump_until(f, &f->v[0].started);
    snprintf(dir, sizeof dir, "%s/second", f->dir);
    assert_int_equal(mkdir(dir, 0700), 0);
    assert_true(note_read(f->dir, "spawner", text) && note_write(dir, "spawner", text) == 0);
    f->config.state_dir = dir;
    assert_int_equal(exec_start(&second, &f->config), 0);
    exec_stop(second);
    write_file(f, "go", "", 0644);
    pump_until(f, &f->v[0].exited);
    assert_exited(&f->v[0], 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_run_is_done_and_its_processes_stay),
        TEST(test_its_group_ends_with_its_leader),
        TEST(test_who_is_gone_becomes_no_resident),
        TEST(test_residents_end_with_the_agent),
        TEST(test_stop_ends_residents),
        TEST(test_tasks_are_told_where_executors_attach),
        TEST(test_what_a_living_process_runs_is_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
