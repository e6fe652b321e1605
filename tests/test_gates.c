/* exec/gates: who gets into the cgroups of a user's task. No limit has a cgroup here, so all get in who may. Into
 * the one that freezes a task processes are moved as they run, where this machine lets its user do so. */
#include "exec/gates.h"

#include "base/mem.h"
#include "exec/record.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <pwd.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define OTHER "daemon" /* who does not run tests */

static struct gates g;
static int look_up_errno; /* 0: look-ups of names do not fail */

/* In place of the system's. */
int getpwnam_r(const char *name, struct passwd *resultbuf, char *buffer, size_t buflen,
               struct passwd **result)
{
    const struct passwd *pw = look_up_errno ? NULL : getpwnam(name);

    *result = pw ? resultbuf : NULL;
    if (pw)
        *resultbuf = *pw;
    return look_up_errno;
}

static int setup(void **state)
{
    gates_init(&g);
    return 0;
}

static int teardown(void **state)
{
    gates_free(&g);
    return 0;
}

static bool is_ready(void) { return poll(&(struct pollfd){.fd = g.epoll, .events = POLLIN}, 1, 0) == 1; }

static const char *this_user(void) { return getpwuid(geteuid())->pw_name; }

/* What comes back to who asks at a gate. */
static ssize_t ask(int gate, const char *user)
{
    char in;

    assert_int_equal(write(gate, "0", 1), 1);
    assert_true(is_ready());
    gates_on_ready(&g, user);
    return read(gate, &in, 1);
}

static void its_user_gets_in(void **state)
{
    int gates[2] = {gates_open(&g, 1), gates_open(&g, 2)};

    assert_false(is_ready());
    for (int i = 1; i >= 0; i--) {
        assert_int_equal(ask(gates[i], this_user()), 1);
        assert_false(is_ready());
        close(gates[i]);
    }
}

static void nobody_else_does(void **state)
{
    int gate = gates_open(&g, 1);

    assert_int_equal(ask(gate, OTHER), 0);
    close(gate);
    gate = gates_open(&g, 1);
    assert_int_equal(ask(gate, "no such user"), 0);
    close(gate);
}

/* It is not said to be another's, and the task starts elsewhere. */
static void a_failed_look_up_is_said(void **state)
{
    int gate = gates_open(&g, 1), said = memfd_create("log", MFD_CLOEXEC), standard = dup(STDERR_FILENO);
    char text[500] = "";

    look_up_errno = EIO;
    assert_int_equal(dup2(said, STDERR_FILENO), STDERR_FILENO);
    ssize_t got = ask(gate, this_user());
    dup2(standard, STDERR_FILENO);
    look_up_errno = 0;
    assert_int_equal(got, 0);
    assert_true(pread(said, text, sizeof text - 1, 0) > 0);
    assert_non_null(strstr(text, "cannot be looked up on this machine"));
    close(gate);
    close(said);
    close(standard);
    gate = gates_open(&g, 1);
    assert_int_equal(ask(gate, this_user()), 1);
    close(gate);
}

static void a_gate_closes_with_its_run(void **state)
{
    char in;
    int gate = gates_open(&g, 1);

    gates_close(&g, 2);
    gates_close(&g, 1);
    gates_close(&g, 1);
    assert_int_equal(read(gate, &in, 1), 0);
    close(gate);
    gate = gates_open(&g, 1);
    close(gate); /* the task did not start */
    assert_true(is_ready());
    gates_on_ready(&g, this_user());
    assert_false(is_ready());
}

/* The agent stands still: the runner must not. */
static void who_gets_no_answer_does_not_wait_for_ever(void **state)
{
    char in;
    int gate = gates_open(&g, 1);

    assert_int_equal(write(gate, "0", 1), 1);
    assert_int_equal(read(gate, &in, 1), -1);
    assert_int_equal(errno, EAGAIN);
    close(gate);
}

/* This process ends with its parent, also if that has just ended. */
static void end_with(pid_t parent)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
        _exit(1);
}

/* A process of that user's that waits, and one that it has started; both end with this one. */
static pid_t start_two(uid_t uid, pid_t *second)
{
    pid_t us = getpid();
    int ends[2];

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t first = fork();
    assert_true(first >= 0);
    if (first == 0) {
        if (setresuid(uid, uid, uid) < 0)
            _exit(1);
        end_with(us);
        pid_t self = getpid(), own = fork();

        if (own == 0)
            end_with(self);
        else if (write(ends[1], &own, sizeof own) != sizeof own)
            _exit(1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ends[0], second, sizeof *second), sizeof *second);
    close(ends[0]);
    close(ends[1]);
    return first;
}

static void name_pid(struct pids *l, pid_t pid)
{
    vec_grow(l->v, l->n, l->cap);
    l->v[l->n++] = pid;
}

/* A runner may name whom it likes. */
static void its_users_processes_are_moved_in(enum exec_freezer freezer)
{
    const struct passwd *other = getpwnam(OTHER);
    struct pids named = {0}, inside = {0};
    pid_t child, root_child;

    g.limits.owner = getpid();
    g.limits.freezer = freezer;
    if (geteuid() != 0 || !limits_make_freezer(&g.limits, 7)) {
        print_message("skipped: nobody makes such cgroups here\n");
        skip();
    }
    uid_t uid = other->pw_uid;
    pid_t theirs = start_two(uid, &child), roots = start_two(0, &root_child);
    const pid_t told[] = {0, -1, roots, theirs};

    for (size_t i = 0; i < sizeof told / sizeof *told; i++)
        name_pid(&named, told[i]);
    assert_true(gates_take_into_freezer(&g, 7, OTHER, &named));
    limits_in_freezer(&g.limits, 7, &inside);
    assert_int_equal(inside.n, 2);
    assert_true(pids_have(&inside, theirs) && pids_have(&inside, child));
    named.v[0] = theirs;
    named.n = 1;
    assert_true(gates_take_into_freezer(&g, 7, OTHER, &named)); /* they are in */
    named.v[0] = roots;
    named.n = 1;
    assert_false(gates_take_into_freezer(&g, 8, OTHER, &named));
    assert_false(gates_take_into_freezer(&g, 7, "no such user", &named));
    for (uint64_t run = 7; run <= 8; run++)
        limits_end_run(&g.limits, run);
    while (limits_sweep(&g.limits))
        waitpid(theirs, NULL, WNOHANG);
    waitpid(theirs, NULL, WNOHANG);
    kill(roots, SIGKILL);
    assert_int_equal(waitpid(roots, NULL, 0), roots); /* nobody has killed it before */
    pids_free(&named);
    pids_free(&inside);
}

static void its_users_processes_are_moved_into_version_1(void **state)
{
    its_users_processes_are_moved_in(EXEC_FREEZER_CGROUP1);
}

static void its_users_processes_are_moved_into_version_2(void **state)
{
    its_users_processes_are_moved_in(EXEC_FREEZER_CGROUP2);
}

/* Asks at a gate as the other user, and ends; a process of this test's has the number then. -1: nobody chooses numbers
 * here. */
static pid_t take_the_number_of_who_asks(int gate)
{
    const struct passwd *other = getpwnam(OTHER);
    pid_t asks = fork();

    if (asks == 0)
        _exit(setresuid(other->pw_uid, other->pw_uid, other->pw_uid) < 0 || write(gate, "0", 1) != 1);
    int status = -1;
    assert_int_equal(waitpid(asks, &status, 0), asks);
    assert_int_equal(status, 0);
    struct clone_args how = {.exit_signal = SIGCHLD, .set_tid = (uintptr_t)&asks, .set_tid_size = 1};
    pid_t pid = (pid_t)syscall(SYS_clone3, &how, sizeof how);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    return pid;
}

static void who_asked_and_is_gone_lends_his_number_to_nobody(void **state)
{
    struct pids inside = {0};
    int gate = gates_open(&g, 7);
    char in;

    g.limits.owner = getpid();
    g.limits.freezer = EXEC_FREEZER_CGROUP2;
    pid_t pid = geteuid() == 0 && limits_make_freezer(&g.limits, 7) ? take_the_number_of_who_asks(gate) : -1;
    if (pid < 0) {
        print_message("skipped: nobody makes such cgroups, or such processes, here\n");
        skip();
    }
    gates_on_ready(&g, OTHER);
    (void)!read(gate, &in, 1);
    limits_in_freezer(&g.limits, 7, &inside);
    assert_int_equal(inside.n, 0);
    limits_end_run(&g.limits, 7);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    close(gate);
    pids_free(&inside);
}

/* One process, named again and again, with more children than the agent moves. */
static void nobody_keeps_the_agent_busy(void **state)
{
    const struct passwd *other = getpwnam(OTHER);
    struct pids named = {0}, empty = {0};
    int ends[2];
    char in;

    g.limits.owner = getpid();
    g.limits.freezer = EXEC_FREEZER_CGROUP2;
    if (geteuid() != 0 || !limits_make_freezer(&g.limits, 7)) {
        print_message("skipped: nobody makes such cgroups here\n");
        skip();
    }
    limits_unmake_freezer(&g.limits, 7);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t us = getpid(), parent = fork();
    assert_true(parent >= 0);
    if (parent == 0) {
        if (setresuid(other->pw_uid, other->pw_uid, other->pw_uid) < 0)
            _exit(1);
        end_with(us);
        pid_t self = getpid();
        for (uint32_t i = 0; i < PAUSE_PROCESSES_MAX + 20; i++)
            if (fork() == 0) {
                end_with(self);
                for (;;)
                    pause();
            }
        (void)!write(ends[1], "x", 1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ends[0], &in, 1), 1);
    for (uint32_t i = 0; i < PAUSE_PROCESSES_MAX - 1; i++)
        name_pid(&named, parent);
    assert_true(gates_take_into_freezer(&g, 7, OTHER, &named));
    assert_true(named.n <= PAUSE_PROCESSES_MAX);
    for (uint32_t i = 1; i < named.n; i++)
        assert_int_not_equal(named.v[i], parent);
    assert_false(gates_take_into_freezer(&g, 8, OTHER, &empty));
    char path[CGROUP_PATH_MAX];
    cgroup_path(g.limits.base[LIMIT_PAUSE], g.limits.owner, 8, path);
    assert_false(cgroup_has(path, "cgroup.procs")); /* nothing is in it, and nobody would remove it */
    limits_end_run(&g.limits, 7);
    kill(parent, SIGKILL);
    assert_int_equal(waitpid(parent, NULL, 0), parent);
    while (limits_sweep(&g.limits))
        poll(NULL, 0, 1);
    close(ends[0]);
    close(ends[1]);
    pids_free(&named);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(its_user_gets_in, setup, teardown),
        cmocka_unit_test_setup_teardown(nobody_else_does, setup, teardown),
        cmocka_unit_test_setup_teardown(a_failed_look_up_is_said, setup, teardown),
        cmocka_unit_test_setup_teardown(a_gate_closes_with_its_run, setup, teardown),
        cmocka_unit_test_setup_teardown(who_gets_no_answer_does_not_wait_for_ever, setup, teardown),
        cmocka_unit_test_setup_teardown(who_asked_and_is_gone_lends_his_number_to_nobody, setup, teardown),
        cmocka_unit_test_setup_teardown(nobody_keeps_the_agent_busy, setup, teardown),
        cmocka_unit_test_setup_teardown(its_users_processes_are_moved_into_version_1, setup, teardown),
        cmocka_unit_test_setup_teardown(its_users_processes_are_moved_into_version_2, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
