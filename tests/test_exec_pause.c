/* exec/: runs that are paused: what stands still, what goes on, and who thaws it when somebody dies. Each with every
 * freezer that this machine has. */
#include "exec/cgroup.h"
#include "exec/freezer.h"
#include "exec/procs.h"
#include "tests/lib/exec_fixture.h"

/* Counts in a file of its own, by the file's size, which never goes back; ends when the test's directory goes. */
#define COUNT(file) "while test -e alive; do printf x >>" file "; done"
/* A task, its child and its grandchild, and one that has left their process group. */
#define FAMILY                                                                                               \
    "sh -c \"(" COUNT("grandchild") ") & " COUNT("child") "\" & setsid sh -c \"" COUNT(                      \
        "away") "\" & " COUNT("leader")
/* For work that takes a moment, without a clock. */
#define SOME_WORK "i=0; while test $i -lt 20000; do i=$((i+1)); done"

static struct job_desc *shell_in(const struct fixture *f, const char *script)
{
    struct job_desc *d = SHELL(script);

    set_blob(&d->cwd, f->dir);
    write_file(f, "alive", "", 0600);
    return d;
}

static void ask_class(struct fixture *f, uint32_t run, struct job_desc *d, enum job_class class)
{
    struct msg_exec_start m = {.run = run, .id = try_of(run), .desc = d, .class = (uint8_t) class};

    if (class == CLASS_LONG)
        m.owner = NODE_CENTRAL;
    f->v[run].outcome = UINT8_MAX;
    assert_int_equal(exec_run(f->e, 0, &m, NULL), 0);
    job_desc_drop(d);
    pump_until(f, &f->v[run].started);
}

/* Skips the test where the machine has no such freezer. */
static void start_or_skip(struct fixture *f)
{
    start(f);
    if (exec_freezer_in_force(f->e) == f->config.freezer)
        return;
    print_message("no %s freezer here\n", exec_freezer_name(f->config.freezer));
    skip();
}

static int pause_run(struct fixture *f, uint32_t run)
{
    f->v[run].paused = false;
    assert_int_equal(exec_pause(f->e, 0, run), 0);
    pump_until(f, &f->v[run].paused);
    return f->v[run].pause_err;
}

/* A machine that is busy enough may not confirm it in time. */
static void expect_pause(struct fixture *f, uint32_t run)
{
    int64_t deadline = now_us() + BOUND_US;
    int err;

    while ((err = pause_run(f, run)) == HAWK_EBUSY && now_us() < deadline)
        ;
    if (err)
        fail_msg("cannot pause: %s", hawk_strerror(err));
}

static off_t count_of(const struct fixture *f, const char *name)
{
    char path[300];
    struct stat st;

    snprintf(path, sizeof path, "%s/%s", f->dir, name);
    return stat(path, &st) == 0 ? st.st_size : 0;
}

static void wait_for_count(const struct fixture *f, const char *name, off_t beyond)
{
    int64_t deadline = now_us() + BOUND_US;

    while (count_of(f, name) <= beyond) {
        if (now_us() > deadline)
            fail_msg("%s does not go on", name);
        poll(NULL, 0, 2);
    }
}

static const char *const counters[] = {"leader", "child", "grandchild", "away"};

/* How many of those are held: what left the group is missed by a signal to it. */
static int held_by(const struct fixture *f) { return f->config.freezer == EXEC_FREEZER_SIGNAL ? 3 : 4; }

static void wait_for_all(const struct fixture *f, const off_t beyond[4])
{
    for (int i = 0; i < 4; i++)
        wait_for_count(f, counters[i], beyond ? beyond[i] : 0);
}

static void note_counts(const struct fixture *f, off_t counts[4])
{
    for (int i = 0; i < 4; i++)
        counts[i] = count_of(f, counters[i]);
}

static pid_t spawner_of(const struct fixture *f, uint32_t run)
{
    char path[64], *name;
    struct proc p;
    size_t len;

    assert_true(procs_look(f->v[run].pid, &p));
    snprintf(path, sizeof path, "/proc/%d/comm", (int)p.parent);
    name = procs_read(path, 64, &len);
    assert_non_null(name);
    assert_string_equal(name, "hawk-spawner\n");
    free(name);
    return p.parent;
}

/* Directories of that spawner's, wherever they could be. */
static int groups_of(pid_t spawner)
{
    char base[EXEC_PATH_MAX], name[64];
    struct dirent *e;
    int n = 0;

    snprintf(name, sizeof name, "hawk-task-%d-", (int)spawner);
    for (int version = 1; version <= 2; version++) {
        DIR *d = cgroup_own(version, "freezer", base) == 0 ? opendir(base) : NULL;

        while (d && (e = readdir(d)))
            n += strncmp(e->d_name, name, strlen(name)) == 0;
        if (d)
            closedir(d);
    }
    return n;
}

static void wait_for_no_groups(pid_t spawner)
{
    int64_t deadline = now_us() + BOUND_US;

    while (groups_of(spawner) > 0) {
        assert_true(now_us() < deadline);
        poll(NULL, 0, 2);
    }
}

/* ---- Standing still ---- */

static void check_family(struct fixture *f, enum job_class class)
{
    off_t then[4], now[4];
    int64_t before = now_us();
    pid_t spawner;

    start_or_skip(f);
    ask_class(f, 0, shell_in(f, FAMILY), class);
    spawner = spawner_of(f, 0);
    wait_for_all(f, NULL);
    for (int times = 0; times < 3; times++) {
        expect_pause(f, 0);
        note_counts(f, then);
        expect_pause(f, 0); /* again changes nothing */
        assert_exited(run_one(f, 1 + (uint32_t)times, SHELL(SOME_WORK), NULL), 0);
        note_counts(f, now);
        for (int i = 0; i < held_by(f); i++)
            if (now[i] != then[i])
                fail_msg("%s did not stand still", counters[i]);
        exec_resume(f->e, 0, 0);
        exec_resume(f->e, 0, 0);
        assert_int_equal(exec_flush(f->e), 0);
        wait_for_all(f, then);
    }
    exec_kill(f->e, 0, 0, OUTCOME_CANCELLED, false);
    pump_until(f, &f->v[0].exited);
    assert_int_equal(f->v[0].outcome, OUTCOME_CANCELLED);
    assert_true(f->v[0].run_us < now_us() - before);
    wait_for_no_groups(spawner);
}

static void test_a_family_stands_still_and_goes_on(void **state) { check_family(*state, CLASS_SHORT); }
static void test_a_long_family_stands_still_and_goes_on(void **state) { check_family(*state, CLASS_LONG); }

/* Longer than the limit does it stand still, and neither that nor its run time counts it. */
static void test_paused_time_is_no_run_time(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = shell_in(f, "until test -e go; do sleep 0.01; done");
    int64_t began;

    d->time_limit_us = 1500 * US_PER_MS;
    start_or_skip(f);
    ask_class(f, 0, d, CLASS_LONG);
    expect_pause(f, 0);
    began = now_us();
    assert_exited(run_one(f, 1, SHELL("sleep 1.6"), NULL), 0);
    assert_false(f->v[0].exited);
    write_file(f, "go", "", 0644);
    exec_resume(f->e, 0, 0);
    pump_until(f, &f->v[0].exited);
    assert_exited(&f->v[0], 0);
    assert_true(now_us() - began > 1500 * US_PER_MS && f->v[0].run_us < 1500 * US_PER_MS);
}

static void test_the_time_limit_goes_on_with_the_run(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = SHELL("while :; do sleep 0.01; done");

    d->time_limit_us = 1500 * US_PER_MS;
    start_or_skip(f);
    ask_class(f, 0, d, CLASS_LONG);
    expect_pause(f, 0);
    assert_exited(run_one(f, 1, SHELL("sleep 1.6"), NULL), 0);
    assert_false(f->v[0].exited);
    exec_resume(f->e, 0, 0);
    pump_until(f, &f->v[0].exited);
    assert_int_equal(f->v[0].outcome, OUTCOME_TIME_LIMIT);
    assert_true(f->v[0].run_us >= 1500 * US_PER_MS);
}

/* ---- Ends ---- */

static void test_a_cancelled_run_handles_its_signal(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = shell_in(f, "trap 'echo bye; exit 5' TERM; echo >up; while :; do sleep 0.01; done");

    start_or_skip(f);
    ask_class(f, 0, d, CLASS_LONG);
    wait_for_count(f, "up", 0);
    expect_pause(f, 0);
    exec_kill(f->e, 0, 0, OUTCOME_CANCELLED, false);
    pump_until(f, &f->v[0].exited);
    assert_int_equal(f->v[0].outcome, OUTCOME_CANCELLED);
    assert_int_equal(f->v[0].code, 5);
    assert_output(f, 0, "bye\n");
}

static void test_a_killed_run_dies_though_it_is_frozen(void **state)
{
    struct fixture *f = *state;
    pid_t spawner;

    start_or_skip(f);
    ask_class(f, 0, shell_in(f, FAMILY), CLASS_LONG);
    ask_class(f, 1, SHELL("trap '' TERM; while :; do sleep 1000; done"), CLASS_SHORT);
    spawner = spawner_of(f, 0);
    wait_for_all(f, NULL);
    expect_pause(f, 0);
    expect_pause(f, 1);
    exec_kill(f->e, 0, 0, OUTCOME_CANCELLED, true);
    pump_until(f, &f->v[0].exited);
    assert_int_equal(f->v[0].code, SIGKILL);
    kill(f->v[1].pid, SIGKILL); /* not by us */
    exec_resume(f->e, 0, 1);
    pump_until(f, &f->v[1].exited);
    assert_int_equal(f->v[1].outcome, OUTCOME_SIGNALED);
    wait_for_no_groups(spawner);
}

static int64_t boot_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * US_PER_S + t.tv_nsec / 1000;
}

static void test_the_lease_ends_a_frozen_run(void **state)
{
    struct fixture *f = *state;

    start_or_skip(f);
    ask_class(f, 0, shell_in(f, FAMILY), CLASS_LONG);
    wait_for_all(f, NULL);
    expect_pause(f, 0);
    exec_lease(f->e, boot_us() + 20 * US_PER_MS);
    pump_until(f, &f->v[0].exited);
    assert_int_equal(f->v[0].outcome, OUTCOME_LOST);
}

static void test_stopping_ends_what_is_frozen(void **state)
{
    struct fixture *f = *state;
    char path[300];
    int fifo = make_fifo(f, path, sizeof path);
    struct job_desc *d = shell_in(f, FAMILY);
    pid_t spawner;

    set_blob(&d->stdout_pattern, path);
    start_or_skip(f);
    ask_class(f, 0, d, CLASS_SHORT);
    spawner = spawner_of(f, 0);
    wait_for_all(f, NULL);
    expect_pause(f, 0);
    exec_stop(f->e);
    f->e = NULL;
    wait_for_hang_up(fifo);
    wait_for_no_groups(spawner);
    close(fifo);
}

static void test_what_cannot_be_started_leaves_no_group(void **state)
{
    struct fixture *f = *state;
    struct msg_exec_start m = {.run = 1, .id = try_of(1), .owner = NODE_CENTRAL, .class = CLASS_LONG};
    pid_t spawner;

    start_or_skip(f);
    ask_class(f, 0, SHELL("sleep 1000"), CLASS_SHORT);
    spawner = spawner_of(f, 0);
    m.desc = COMMAND("/none");
    assert_int_equal(exec_run(f->e, 0, &m, NULL), 0);
    job_desc_drop(m.desc);
    pump_until(f, &f->v[1].exited);
    assert_int_equal(f->v[1].outcome, OUTCOME_NOT_STARTED);
    wait_for_no_groups(spawner);
}

/* ---- Not now, not ever ---- */

static void test_too_little_memory(void **state)
{
    struct fixture *f = *state;

    f->config.pause_free_mem = UINT64_MAX;
    start_or_skip(f);
    ask_class(f, 0, shell_in(f, FAMILY), CLASS_LONG);
    wait_for_all(f, NULL);
    assert_int_equal(pause_run(f, 0), HAWK_EBUSY);
    wait_for_all(f, (off_t[4]){1, 1, 1, 1});
    assert_true(procs_memory_available() > (1u << 20));
}

static void test_a_run_resumed_at_once_runs_on(void **state)
{
    struct fixture *f = *state;
    off_t then[4];

    start_or_skip(f);
    ask_class(f, 0, shell_in(f, FAMILY), CLASS_SHORT);
    wait_for_all(f, NULL);
    f->v[0].paused = false;
    assert_int_equal(exec_pause(f->e, 0, 0), 0);
    exec_resume(f->e, 0, 0);
    pump_until(f, &f->v[0].paused);
    assert_true(f->v[0].pause_err == 0 || f->v[0].pause_err == HAWK_EBUSY);
    assert_exited(run_one(f, 1, SHELL("exit 0"), NULL), 0); /* the resumption has been read */
    note_counts(f, then);
    wait_for_all(f, then);
}

static void test_no_freezer(void **state)
{
    struct fixture *f = *state;

    f->config.freezer = EXEC_FREEZER_OFF;
    start(f);
    ask_class(f, 0, SHELL("while :; do sleep 1000; done"), CLASS_LONG);
    assert_int_equal(exec_pause(f->e, 0, 0), HAWK_EUNSUPPORTED);
    assert_int_equal(exec_pause(f->e, 0, 77), HAWK_EUNSUPPORTED); /* no run of ours */
}

/* ---- Deaths ---- */

/* The pid of run 0, in a file that is there whole or not at all. */
static void tell_pid(const struct fixture *f)
{
    char line[64], from[300], to[300];

    snprintf(line, sizeof line, "%d", (int)f->v[0].pid);
    write_file(f, "frozen.new", line, 0600);
    snprintf(from, sizeof from, "%s/frozen.new", f->dir);
    snprintf(to, sizeof to, "%s/frozen", f->dir);
    assert_int_equal(rename(from, to), 0);
}

/* In a process of its own: an agent that has paused its task and lives until it is killed. The task's
 * processes hold the FIFO open. */
static pid_t fork_agent(struct fixture *f, enum job_class class, int *fifo)
{
    char path[300];
    struct job_desc *d = shell_in(f, FAMILY);
    pid_t agent;

    *fifo = make_fifo(f, path, sizeof path);
    set_blob(&d->stdout_pattern, path);
    agent = fork();
    assert_true(agent >= 0);
    if (agent > 0) {
        job_desc_drop(d);
        return agent;
    }
    close(*fifo);
    start(f);
    ask_class(f, 0, d, class);
    wait_for_all(f, NULL);
    int err = pause_run(f, 0);
    if (err)
        err = pause_run(f, 0);
    if (err) /* a failed assertion would run the other tests here */
        _exit(1);
    tell_pid(f);
    for (;;)
        pause();
}

/* Its task's pid, once that is frozen. */
static void wait_for_frozen(struct fixture *f)
{
    char path[300], *text;

    wait_for_count(f, "frozen", 0);
    snprintf(path, sizeof path, "%s/frozen", f->dir);
    text = read_path(path);
    f->v[0].pid = (int32_t)strtol(text, NULL, 10);
    free(text);
}

static void kill_and_reap(pid_t agent)
{
    kill(agent, SIGKILL);
    assert_int_equal(waitpid(agent, NULL, 0), agent);
}

static bool works_here(const struct fixture *f)
{
    struct freezer z;

    freezer_choose(&z, f->config.freezer, false);
    freezer_free(&z);
    return z.method == f->config.freezer;
}

static void note_held(void *arg, const struct msg *m, const char *const paths[2], const char *user)
{
    if (m->type == MSG_EXEC_HELD) {
        assert_int_equal(m->exec_held.outcome, OUTCOME_NONE);
        ++*(int *)arg;
    }
}

static void expect_a_thaw_when_the_agent_dies(struct fixture *f, enum job_class class)
{
    off_t then[4];
    pid_t agent, spawner;
    int held = 0, fifo;

    if (!works_here(f))
        skip();
    agent = fork_agent(f, class, &fifo);
    wait_for_frozen(f);
    spawner = spawner_of(f, 0);
    note_counts(f, then);
    kill_and_reap(agent);
    wait_for_all(f, then);
    start(f); /* the next agent finds it running, and can pause it again */
    exec_take_over(f->e, note_held, &held);
    assert_int_equal(exec_on_ready(f->e, on_event, f), 0);
    assert_int_equal(held, 1);
    f->v[0].outcome = UINT8_MAX;
    expect_pause(f, 0);
    exec_kill(f->e, 0, 0, OUTCOME_CANCELLED, false);
    pump_until(f, &f->v[0].exited);
    wait_for_hang_up(fifo);
    wait_for_no_groups(spawner);
    close(fifo);
}

static void test_the_agent_dies(void **state) { expect_a_thaw_when_the_agent_dies(*state, CLASS_SHORT); }
static void test_the_agent_of_a_long_run_dies(void **state)
{
    expect_a_thaw_when_the_agent_dies(*state, CLASS_LONG);
}

/* The agent lives and kills what the spawner had. */
static void test_the_spawner_dies(void **state)
{
    struct fixture *f = *state;
    char path[300];
    int fifo = make_fifo(f, path, sizeof path);
    struct job_desc *d = shell_in(f, COUNT("leader") " & " COUNT("child"));
    pid_t spawner;

    set_blob(&d->stdout_pattern, path);
    start_or_skip(f);
    ask_class(f, 0, d, CLASS_LONG);
    spawner = spawner_of(f, 0);
    wait_for_count(f, "child", 0);
    expect_pause(f, 0);
    kill(spawner, SIGKILL);
    while (!f->v[0].exited) {
        struct pollfd p = {.fd = exec_fd(f->e), .events = POLLIN};

        assert_true(poll(&p, 1, (int)(BOUND_US / US_PER_MS)) > 0);
        (void)!exec_on_ready(f->e, on_event, f);
    }
    assert_int_equal(f->v[0].outcome, OUTCOME_LOST);
    wait_for_hang_up(fifo);
    wait_for_no_groups(spawner);
    close(fifo);
}

/* Without a parent in its session, a stopped process group gets SIGHUP from the kernel, and then goes on: the shells of
 * ours die of it. */
static void wait_for_thaw_or_end(const struct fixture *f, const off_t then[4])
{
    int64_t deadline = now_us() + BOUND_US;
    struct proc p;

    while (procs_look(f->v[0].pid, &p) && !p.dead && count_of(f, "leader") <= then[0]) {
        if (now_us() > deadline)
            fail_msg("the task is still frozen");
        poll(NULL, 0, 2);
    }
    if (f->config.freezer != EXEC_FREEZER_SIGNAL)
        wait_for_all(f, then);
}

/* They see that they are to end. */
static void end_family(const struct fixture *f, int fifo)
{
    char path[300];

    snprintf(path, sizeof path, "%s/alive", f->dir);
    assert_int_equal(unlink(path), 0);
    wait_for_hang_up(fifo);
    close(fifo);
}

/* Nobody is left but the watcher. */
static void test_both_die(void **state)
{
    struct fixture *f = *state;
    off_t then[4];
    pid_t agent, spawner;
    int fifo;

    if (!works_here(f))
        skip();
    agent = fork_agent(f, CLASS_LONG, &fifo);
    wait_for_frozen(f);
    spawner = spawner_of(f, 0);
    note_counts(f, then);
    kill(agent, SIGKILL);
    kill(spawner, SIGKILL);
    assert_int_equal(waitpid(agent, NULL, 0), agent);
    wait_for_thaw_or_end(f, then);
    wait_for_no_groups(spawner);
    end_family(f, fifo);
}

static pid_t watcher_of(pid_t spawner)
{
    struct pids l = {0};
    pid_t found = 0;

    pids_add_children(&l, spawner);
    for (uint32_t i = 0; i < l.n; i++) {
        char path[64], *name;
        size_t len;

        snprintf(path, sizeof path, "/proc/%d/comm", (int)l.v[i]);
        name = procs_read(path, 64, &len);
        if (name && strcmp(name, "hawk-watcher\n") == 0)
            found = l.v[i];
        free(name);
    }
    pids_free(&l);
    return found;
}

/* Another one takes its place, and knows what is frozen. */
static void test_the_watcher_dies_first(void **state)
{
    struct fixture *f = *state;
    int64_t deadline = now_us() + BOUND_US;
    pid_t agent, spawner, watcher, next;
    int fifo;
    off_t then[4];

    if (!works_here(f))
        skip();
    agent = fork_agent(f, CLASS_SHORT, &fifo);
    wait_for_frozen(f);
    spawner = spawner_of(f, 0);
    while (!(watcher = watcher_of(spawner))) { /* it names itself when it runs */
        assert_true(now_us() < deadline);
        poll(NULL, 0, 2);
    }
    kill(watcher, SIGKILL);
    while (!(next = watcher_of(spawner)) || next == watcher) {
        assert_true(now_us() < deadline);
        poll(NULL, 0, 2);
    }
    note_counts(f, then);
    kill(agent, SIGKILL);
    kill(spawner, SIGKILL);
    assert_int_equal(waitpid(agent, NULL, 0), agent);
    wait_for_thaw_or_end(f, then);
    wait_for_no_groups(spawner);
    end_family(f, fifo);
}

/* Groups that a spawner left which nobody watched over are found by the next. */
static pid_t fork_idle(void)
{
    pid_t pid = fork();

    if (pid == 0)
        for (;;)
            pause();
    return pid;
}

static void test_the_next_start_finds_leftovers(void **state)
{
    struct fixture *f = *state;
    struct freezer z;
    struct frozen_task t = {.number = 7};
    int status;

    freezer_choose(&z, f->config.freezer, false);
    if (z.method != f->config.freezer || z.method == EXEC_FREEZER_SIGNAL) {
        freezer_free(&z);
        skip();
    }
    z.owner = fork_idle();
    t.leader = fork_idle();
    assert_int_equal(freezer_freeze(&z, &t), 0);
    assert_int_equal(groups_of(z.owner), 1);
    kill(z.owner, SIGKILL); /* from here on whichever worker of this machine starts first finds them */
    assert_int_equal(waitpid(z.owner, NULL, 0), z.owner);
    start(f);
    assert_int_equal(groups_of(z.owner), 0);
    kill(t.leader, SIGTERM);
    assert_int_equal(waitpid(t.leader, &status, 0), t.leader); /* thawed: it dies */
    freezer_free(&z);
}

/* ---- Set-up ---- */

static int set_up_with(void **state, enum exec_freezer freezer)
{
    struct fixture *f;
    static char dir[256];

    set_up(state);
    f = *state;
    snprintf(dir, sizeof dir, "%s/state", f->dir);
    assert_int_equal(mkdir(dir, 0700), 0);
    f->config.state_dir = dir;
    f->config.orphan_grace_us = BOUND_US;
    f->config.kill_grace_us = 5 * US_PER_S;
    f->config.freezer = freezer;
    return 0;
}

static int set_up_signal(void **state) { return set_up_with(state, EXEC_FREEZER_SIGNAL); }
static int set_up_cgroup1(void **state) { return set_up_with(state, EXEC_FREEZER_CGROUP1); }
static int set_up_cgroup2(void **state) { return set_up_with(state, EXEC_FREEZER_CGROUP2); }

#define ONE(name, freezer)                                                                                   \
    {                                                                                                        \
#name ", " #freezer, name, set_up_##freezer, tear_down, NULL                                         \
    }
#define EACH(name) ONE(name, signal), ONE(name, cgroup1), ONE(name, cgroup2)

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(test_a_family_stands_still_and_goes_on),
        EACH(test_a_long_family_stands_still_and_goes_on),
        EACH(test_paused_time_is_no_run_time),
        EACH(test_the_time_limit_goes_on_with_the_run),
        EACH(test_a_cancelled_run_handles_its_signal),
        EACH(test_a_killed_run_dies_though_it_is_frozen),
        EACH(test_the_lease_ends_a_frozen_run),
        EACH(test_stopping_ends_what_is_frozen),
        EACH(test_what_cannot_be_started_leaves_no_group),
        EACH(test_too_little_memory),
        EACH(test_a_run_resumed_at_once_runs_on),
        EACH(test_the_agent_dies),
        EACH(test_the_agent_of_a_long_run_dies),
        EACH(test_the_spawner_dies),
        EACH(test_both_die),
        EACH(test_the_watcher_dies_first),
        ONE(test_the_next_start_finds_leftovers, cgroup1),
        ONE(test_the_next_start_finds_leftovers, cgroup2),
        ONE(test_no_freezer, signal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
