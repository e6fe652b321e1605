/* Limits of memory and processes, with real processes in real cgroups. Where this machine lets nobody make them, the
 * tests are skipped. */
#include "lib/exec_fixture.h"

#include "exec/cgroup.h"
#include "exec/limits.h"

#define MIB (INT64_C(1) << 20)
/* Uses about 64 MiB, unless something keeps it from that. */
#define GREEDY "head -c 67108864 /dev/zero | tail -c 67108864 | wc -c"

/* A job that asks for these limits; it takes d's reference. */
static struct job_desc *limited(struct job_desc *d, int64_t mem_bytes, uint32_t pids)
{
    d->mem_bytes = mem_bytes;
    d->pids = pids;
    return d;
}

/* Cgroups of tasks, of that spawner, in the hierarchies where this process could have made them. */
static int groups_of(pid_t spawner)
{
    static const char *const names[] = {"memory", "pids"};
    char base[EXEC_PATH_MAX], name[64];
    int n = 0;

    snprintf(name, sizeof name, "hawk-task-%d-", (int)spawner);
    for (int i = 0; i < 3; i++) {
        int err = i < 2 ? cgroup_own(1, names[i], base) : cgroup_own(2, NULL, base);
        struct dirent *e;

        if (!err && i == 2 && strrchr(base, '/'))
            *strrchr(base, '/') = '\0';
        DIR *d = err ? NULL : opendir(base);
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

/* This process has no other child. */
static pid_t spawner_here(void)
{
    struct pids l = {0};

    pids_add_children(&l, getpid());
    assert_int_equal(l.n, 1);
    pid_t pid = l.v[0];
    pids_free(&l);
    return pid;
}

/* Starts the agent. False: limits cannot be enforced here; the test is to be skipped. */
static bool works_here(struct fixture *f)
{
    struct result *r;

    start(f);
    r = run_one(f, 0, limited(COMMAND("true"), 64 * MIB, 100), NULL);
    if (r->outcome == OUTCOME_EXITED)
        return true;
    assert_int_equal(r->outcome, OUTCOME_LOST);
    assert_int_equal(r->code, HAWK_ECANNOT_START);
    assert_string_equal(r->place, LIMITS_PLACE);
    print_message("skipped: %s\n", r->why);
    return false;
}

/* ---- Memory ---- */

static void the_kernel_ends_who_uses_too_much(void **state)
{
    struct fixture *f = *state;
    char script[400];

    if (!works_here(f))
        skip();
    snprintf(script, sizeof script, "until test -e %s/go; do sleep 0.01; done; exit 5", f->dir);
    struct job_desc *neighbour = limited(SHELL(script), 16 * MIB, 0);
    ask(f, 1, neighbour, NULL);
    job_desc_drop(neighbour);
    /* A child of the task's leader, which goes on: it is out of memory all the same. */
    struct result *r = run_one(f, 2, limited(SHELL(GREEDY "; exit 0"), 16 * MIB, 0), NULL);
    assert_int_equal(r->outcome, OUTCOME_OUT_OF_MEMORY);
    assert_int_equal(r->code, SIGKILL);
    assert_exited(run_one(f, 3, limited(SHELL(GREEDY), 512 * MIB, 0), NULL), 0);
    assert_output(f, 3, "67108864\n");
    assert_exited(run_one(f, 4, SHELL(GREEDY), NULL), 0); /* no limit */
    assert_false(f->v[1].exited);                         /* the neighbour lives */
    write_file(f, "go", "", 0600);
    pump_until(f, &f->v[1].exited);
    assert_exited(&f->v[1], 5);
}

/* Of one whose parent waits for it, rusage tells; of one that left, only the cgroup does. */
static void what_left_the_task_counts(void **state)
{
    struct fixture *f = *state;
    char script[600];

    if (!works_here(f))
        skip();
    snprintf(script, sizeof script,
             "(env -i setsid sh -c '" GREEDY
             "; >%s/done' >/dev/null &); until test -e %s/done; do sleep 0.01; done",
             f->dir, f->dir);
    struct result *r = run_one(f, 1, limited(SHELL(script), 512 * MIB, 0), NULL);
    assert_exited(r, 0);
    assert_true(figure_value(r->used.mem_peak_bytes) >= 64 * MIB);
    assert_true(r->used.cpu_us.v > 0);
}

static void a_cancelled_task_is_not_out_of_memory(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d;
    int fifo;
    char path[300], script[500];

    if (!works_here(f))
        skip();
    fifo = make_fifo(f, path, sizeof path);
    snprintf(script, sizeof script, GREEDY "; echo done >%s; sleep 1000", path);
    d = limited(SHELL(script), 16 * MIB, 0);
    ask(f, 1, d, NULL);
    job_desc_drop(d);
    pump_until(f, &f->v[1].started);
    wait_for_line(fifo, "done\n"); /* a child of it was killed */
    exec_kill(f->e, 0, 1, OUTCOME_CANCELLED, true);
    pump_until(f, &f->v[1].exited);
    assert_int_equal(f->v[1].outcome, OUTCOME_CANCELLED);
    close(fifo);
}

/* ---- Processes ---- */

/* Of seven generations: without a limit it makes 254 processes, which end by themselves, and no more. */
#define BOMB                                                                                                 \
    "bomb() { if [ $1 -gt 0 ]; then bomb $(($1 - 1)) & bomb $(($1 - 1)) & fi; sleep 2; }; bomb 7; exit 0"

/* Some of its shells say that they cannot fork. */
static void a_fork_bomb_ends(void **state)
{
    struct fixture *f = *state;
    char path[400];
    pid_t spawner;

    if (!works_here(f))
        skip();
    struct job_desc *d = limited(SHELL(BOMB), 0, 20);
    ask(f, 1, d, NULL);
    job_desc_drop(d);
    pump_until(f, &f->v[1].started);
    spawner = spawner_here();
    pump_until(f, &f->v[1].exited);
    assert_int_equal(f->v[1].outcome, OUTCOME_EXITED);
    snprintf(path, sizeof path, "%s/out/3.%d/1.err", f->dir, JOB_SEQ);
    char *said = read_path(path);
    assert_non_null(strstr(said, "fork"));
    free(said);
    wait_for_no_groups(spawner);
    assert_exited(run_one(f, 2, COMMAND("true"), NULL), 0);
}

/* ---- Nothing is left ---- */

static void what_it_started_ends_with_it(void **state)
{
    struct fixture *f = *state;
    char path[300], script[1000];
    struct result *r;
    int fifo;

    if (!works_here(f))
        skip();
    fifo = make_fifo(f, path, sizeof path);
    snprintf(script, sizeof script,
             "exec 3>%s; (env -i setsid sh -c 'echo out >&3; sleep 1000; :' &); sleep 0.3", path);
    r = run_one(f, 1, limited(SHELL(script), 64 * MIB, 0), NULL);
    assert_exited(r, 0);
    /* Not in a sweep after a while: all were gone when the end was reported. */
    char text[64];
    struct pollfd p = {.fd = fifo, .events = POLLIN};
    assert_int_equal(poll(&p, 1, 0), 1);
    assert_true((p.revents & POLLHUP) != 0);
    assert_true(read(fifo, text, sizeof text) >= 4);
    close(fifo);
}

static void what_cannot_be_started_leaves_nothing(void **state)
{
    struct fixture *f = *state;

    if (!works_here(f))
        skip();
    assert_int_equal(run_one(f, 1, limited(COMMAND("/none"), 64 * MIB, 30), NULL)->outcome,
                     OUTCOME_NOT_STARTED);
    wait_for_no_groups(spawner_here());
}

static void a_limited_task_is_paused(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d;

    if (!works_here(f))
        skip();
    d = limited(SHELL("sleep 0.2; exit 3"), 64 * MIB, 30);
    ask(f, 1, d, NULL);
    job_desc_drop(d);
    pump_until(f, &f->v[1].started);
    assert_int_equal(exec_pause(f->e, 0, 1), 0);
    pump_until(f, &f->v[1].paused);
    assert_int_equal(f->v[1].pause_err, 0);
    exec_resume(f->e, 0, 1);
    pump_until(f, &f->v[1].exited);
    assert_exited(&f->v[1], 3);
}

/* Kills the agent, the spawner or both while a limited task runs, with a process that escaped. */
static void die(struct fixture *f, bool kill_agent, bool kill_spawner)
{
    char path[300], script[1000];
    int fifo, back[2];
    pid_t agent, spawner;

    if (!works_here(f))
        skip();
    exec_stop(f->e);
    f->e = NULL;
    fifo = make_fifo(f, path, sizeof path);
    snprintf(script, sizeof script,
             "exec 3>%s; env -i setsid sh -c 'echo out >&3; sleep 1000; :' & sleep 1000", path);
    assert_int_equal(pipe(back), 0);
    agent = fork();
    if (agent == 0) {
        bool never = false;

        start(f);
        struct job_desc *d = limited(SHELL(script), 64 * MIB, 30);
        memset(&f->v[1], 0, sizeof f->v[1]);
        ask(f, 1, d, NULL);
        pump_until(f, &f->v[1].started);
        spawner = spawner_here();
        assert_int_equal(write(back[1], &spawner, sizeof spawner), sizeof spawner);
        while (exec_fd(f->e) >= 0 && !never) {
            struct pollfd p = {.fd = exec_fd(f->e), .events = POLLIN};

            poll(&p, 1, -1);
            if (exec_on_ready(f->e, on_event, f))
                break;
        }
        for (;;)
            pause();
    }
    assert_int_equal(read(back[0], &spawner, sizeof spawner), sizeof spawner);
    wait_for_line(fifo, "out\n");
    assert_true(groups_of(spawner) > 0);
    if (kill_agent)
        kill(agent, SIGKILL);
    if (kill_spawner)
        kill(spawner, SIGKILL);
    wait_for_hang_up(fifo);
    wait_for_no_groups(spawner);
    kill(agent, SIGKILL);
    assert_int_equal(waitpid(agent, NULL, 0), agent);
    close(fifo);
    close(back[0]);
    close(back[1]);
}

static void the_agent_dies(void **state) { die(*state, true, false); }
static void the_spawner_dies(void **state) { die(*state, false, true); }
static void both_die(void **state) { die(*state, true, true); }

static int set_up_short(void **state)
{
    struct fixture *f;
    static char dir[256];

    set_up(state);
    f = *state;
    snprintf(dir, sizeof dir, "%s/state", f->dir);
    assert_int_equal(mkdir(dir, 0700), 0);
    f->config.state_dir = dir;
    f->config.kill_grace_us = 100 * US_PER_MS;
    f->config.orphan_grace_us = 100 * US_PER_MS;
    f->config.freezer = EXEC_FREEZER_AUTO;
    return 0;
}

#define LIMITS(name) cmocka_unit_test_setup_teardown(name, set_up_short, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LIMITS(the_kernel_ends_who_uses_too_much),
        LIMITS(what_left_the_task_counts),
        LIMITS(a_cancelled_task_is_not_out_of_memory),
        LIMITS(a_fork_bomb_ends),
        LIMITS(what_it_started_ends_with_it),
        LIMITS(what_cannot_be_started_leaves_nothing),
        LIMITS(a_limited_task_is_paused),
        LIMITS(the_agent_dies),
        LIMITS(the_spawner_dies),
        LIMITS(both_die),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
