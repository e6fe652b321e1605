/* exec/: the spawner while its agent is gone, back, another one, or never back. */
#include "exec/procs.h"
#include "exec/spawner_socket.h"
#include "tests/lib/exec_fixture.h"

#include <sys/prctl.h>
#include <sys/socket.h>

#define WAITS "echo up; while test ! -e go; do sleep 0.01; done; exit 3"
#define OWNER ((node_id_t){9})
#define OLD_INCARNATION 4711u
#define HELD_MAX 16

struct list_of_held {
    struct msg_exec_held v[HELD_MAX];
    struct usage used[HELD_MAX];
    char paths[HELD_MAX][2][300];
    char users[HELD_MAX][16]; /* "-": not known */
    uint32_t n;
    int64_t lease_us;
};

static void note_held(void *arg, const struct msg *m, const char *const paths[2], const char *user)
{
    struct list_of_held *l = arg;

    if (m->type == MSG_EXEC_LEASE) {
        assert_int_equal(l->n, 0);
        l->lease_us = m->exec_lease.until_us;
        return;
    }
    if (m->type == MSG_EXEC_USED) { /* of the run before */
        assert_true(l->n > 0 && try_eq(&l->v[l->n - 1].id, &m->exec_used.id));
        assert_true(node_eq(l->v[l->n - 1].owner, m->exec_used.owner));
        l->used[l->n - 1] = m->exec_used.used;
        return;
    }
    assert_int_equal(m->type, MSG_EXEC_HELD);
    assert_true(l->n < HELD_MAX);
    for (int i = 0; i < 2; i++)
        snprintf(l->paths[l->n][i], sizeof l->paths[l->n][i], "%s", paths[i] ? paths[i] : "");
    snprintf(l->users[l->n], sizeof l->users[l->n], "%s", user ? user : "-");
    l->v[l->n] = m->exec_held;
    l->v[l->n++].result = NULL;
}

static const struct msg_exec_held *held(const struct list_of_held *l, uint32_t run)
{
    for (uint32_t i = 0; i < l->n; i++)
        if (l->v[i].run == run)
            return &l->v[i];
    return NULL;
}

/* Another agent starts where f's was. */
static void come_back(struct fixture *f, struct list_of_held *l)
{
    *l = (struct list_of_held){.lease_us = TIME_NEVER};
    f->config.incarnation = OLD_INCARNATION + 1;
    start(f);
    exec_take_over(f->e, note_held, l);
    assert_int_equal(exec_on_ready(f->e, on_event, f), 0);
}

static void leave(struct fixture *f)
{
    exec_leave(f->e);
    f->e = NULL;
}

static int set_up_state(void **state)
{
    struct fixture *f;
    static char dir[256];

    set_up(state);
    f = *state;
    snprintf(dir, sizeof dir, "%s/state", f->dir);
    assert_int_equal(mkdir(dir, 0700), 0);
    f->config.state_dir = dir;
    f->config.incarnation = OLD_INCARNATION;
    f->config.orphan_grace_us = BOUND_US;
    return 0;
}

static int tear_down_state(void **state)
{
    struct fixture *f = *state;
    struct list_of_held l;

    if (!f->e) /* whatever a test left behind ends with the next agent */
        come_back(f, &l);
    return tear_down(state);
}

static struct job_desc *shell_in(const struct fixture *f, const char *script)
{
    struct job_desc *d = SHELL(script);

    set_blob(&d->cwd, f->dir);
    return d;
}

static void ask_long(struct fixture *f, uint32_t run, struct job_desc *d)
{
    struct msg_exec_start m = {
        .run = run, .id = try_of(run), .desc = d, .owner = NODE_CENTRAL, .class = CLASS_LONG};

    f->v[run].outcome = UINT8_MAX;
    assert_int_equal(exec_run(f->e, 0, &m, NULL), 0);
}

static int64_t boot_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * US_PER_S + t.tv_nsec / 1000;
}

/* ---- Back in time ---- */

/* In a process of its own: an agent with a task that runs, one that has ended and one that never started, which lives
 * until it is killed. */
static void be_an_agent(struct fixture *f, struct job_desc *waits, struct job_desc *ends)
{
    struct job_desc *never = COMMAND("/there/is/no/such/program");
    const struct msg_exec_start starts[] = {
        {.run = 0, .id = try_of(0), .desc = waits, .owner = OWNER, .promotable = 1, .stolen = 1},
        {.run = 1, .id = try_of(1), .desc = ends, .owner = NODE_CENTRAL, .class = CLASS_LONG},
        {.run = 2, .id = try_of(2), .desc = never, .owner = OWNER},
    };

    start(f);
    for (int i = 0; i < 3; i++)
        assert_int_equal(exec_run(f->e, 0, &starts[i], NULL), 0);
    pump_until(f, &f->v[1].exited);
    pump_until(f, &f->v[2].exited);
    exec_lease(f->e, boot_us() + 1000 * US_PER_S);
    assert_int_equal(exec_flush(f->e), 0);
    write_file(f, "ready", "", 0600);
    for (;;)
        pause();
}

static void wait_for_file(const struct fixture *f, const char *name)
{
    int64_t deadline = now_us() + BOUND_US;
    char path[300];

    snprintf(path, sizeof path, "%s/%s", f->dir, name);
    while (access(path, F_OK) < 0) {
        assert_true(now_us() < deadline);
        poll(NULL, 0, 5);
    }
}

static void test_the_next_agent_takes_everything_over(void **state)
{
    struct fixture *f = *state;
    struct job_desc *waits = shell_in(f, WAITS), *ends = SHELL("exit 7");
    char path[300], own[300];
    int fifo = make_fifo(f, path, sizeof path), status;
    struct list_of_held l;
    pid_t agent;

    set_blob(&waits->stdout_pattern, path);
    set_blob(&waits->user, "ann");
    agent = fork();
    assert_true(agent >= 0);
    if (agent == 0) {
        close(fifo);
        be_an_agent(f, waits, ends);
    }
    wait_for_line(fifo, "up\n");
    wait_for_file(f, "ready");
    kill(agent, SIGKILL);
    assert_int_equal(waitpid(agent, &status, 0), agent);
    come_back(f, &l);
    assert_true(exec_incarnation(f->e) == OLD_INCARNATION);
    assert_int_equal(l.n, 3);
    assert_true(l.lease_us > boot_us());
    assert_int_equal(held(&l, 0)->outcome, OUTCOME_NONE);
    assert_true(held(&l, 0)->run_us > 0);
    assert_true(node_eq(held(&l, 0)->owner, OWNER));
    assert_true(held(&l, 0)->promotable && held(&l, 0)->stolen && held(&l, 0)->class == CLASS_SHORT);
    assert_true(try_eq(&held(&l, 0)->id, &(struct try_id){job_id_make((node_id_t){3}, JOB_SEQ), 0, 1, 1}));
    assert_string_equal(l.paths[held(&l, 0) - l.v][0], path);
    assert_string_equal(l.users[held(&l, 0) - l.v], "ann");
    assert_string_equal(l.users[held(&l, 1) - l.v], ""); /* where users are not known */
    assert_int_equal(held(&l, 1)->outcome, OUTCOME_EXITED);
    assert_int_equal(held(&l, 1)->code, 7);
    assert_int_equal(held(&l, 1)->class, CLASS_LONG);
    snprintf(own, sizeof own, "%s/out/3.%d/1.err", f->dir, JOB_SEQ);
    assert_string_equal(l.paths[held(&l, 1) - l.v][1], own);
    assert_int_equal(held(&l, 2)->outcome, OUTCOME_NOT_STARTED);
    assert_int_equal(held(&l, 2)->code, 127);
    assert_int_equal(l.used[held(&l, 0) - l.v].cpu_us.v, 0); /* it runs */
    assert_true(l.used[held(&l, 1) - l.v].cpu_us.v > 0 && l.used[held(&l, 1) - l.v].mem_peak_bytes.v > 0);
    assert_int_equal(l.used[held(&l, 2) - l.v].cpu_us.v, 0); /* it never started */
    assert_int_equal(exec_running(f->e), 1);
    write_file(f, "go", "", 0644);
    f->v[0].started = true; /* the last agent heard that */
    pump_until(f, &f->v[0].exited);
    assert_exited(&f->v[0], 3);
    assert_exited(run_one(f, 4, SHELL("exit 0"), NULL), 0); /* and goes on like any other */
    job_desc_drop(waits);
    job_desc_drop(ends);
    close(fifo);
}

static void test_what_was_forgotten_is_not_handed_over(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = shell_in(f, WAITS);
    struct list_of_held l;

    start(f);
    run_one(f, 0, SHELL("exit 0"), NULL);
    run_one(f, 1, SHELL("exit 1"), NULL);
    ask(f, 2, d, NULL);
    job_desc_drop(d);
    pump_until(f, &f->v[2].started);
    exec_forget(f->e, 0);
    leave(f);
    come_back(f, &l);
    assert_int_equal(l.n, 2);
    assert_null(held(&l, 0));
    exec_forget(f->e, 1);
    write_file(f, "go", "", 0644);
    pump_until(f, &f->v[2].exited);
    leave(f);
    come_back(f, &l); /* the third agent: what ended is kept until it is said to be known */
    assert_int_equal(l.n, 1);
    assert_int_equal(held(&l, 2)->code, 3);
    assert_true(exec_incarnation(f->e) == OLD_INCARNATION);
}

static void test_an_end_while_nobody_is_there_is_kept(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = shell_in(f, WAITS);
    int fifo = run_until_up(f, d);
    struct list_of_held l;

    leave(f);
    write_file(f, "go", "", 0644);
    wait_for_hang_up(fifo);
    come_back(f, &l);
    assert_int_equal(l.n, 1);
    /* Its end may be reaped before or after the agent came: it is told once. */
    if (held(&l, 0)->outcome == OUTCOME_NONE) {
        pump_until(f, &f->v[0].exited);
        assert_exited(&f->v[0], 3);
    } else {
        assert_int_equal(held(&l, 0)->code, 3);
    }
    close(fifo);
}

/* Who is to die, dies under the name that it was given, whoever hears of it. */
static void test_a_kill_keeps_its_reason(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = SHELL("trap '' TERM; echo up; while :; do sleep 1000; done");
    int fifo = run_until_up(f, d);
    struct list_of_held l;

    exec_kill(f->e, 0, 0, OUTCOME_LOST, false);
    leave(f);
    come_back(f, &l);
    assert_int_equal(held(&l, 0)->outcome, OUTCOME_NONE);
    exec_kill(f->e, 0, 0, OUTCOME_CANCELLED, true);
    pump_until(f, &f->v[0].exited);
    assert_int_equal(f->v[0].outcome, OUTCOME_LOST);
    assert_int_equal(f->v[0].code, SIGKILL);
    close(fifo);
}

/* Starts run 0, which d describes, and stops its spawner. */
static struct proc start_and_stop_the_spawner(struct fixture *f, struct job_desc *d)
{
    int64_t deadline = now_us() + BOUND_US;
    struct proc task, spawner = {0};

    start(f);
    ask(f, 0, d, NULL);
    pump_until(f, &f->v[0].started);
    assert_true(procs_look(f->v[0].pid, &task));
    kill(task.parent, SIGSTOP);
    while (!spawner.stopped) {
        assert_true(procs_look(task.parent, &spawner) && now_us() < deadline);
        poll(NULL, 0, 2);
    }
    return task;
}

/* The spawner finds both at once: the last words of its agent, and that this is gone. They come behind more starts than
 * it makes in one turn, whose reports tell it. */
static void leave_with(struct fixture *f, void (*say)(struct fixture *f))
{
    struct job_desc *waits = shell_in(f, WAITS), *quick = COMMAND("true");
    struct proc task;

    f->config.freezer = EXEC_FREEZER_SIGNAL;
    task = start_and_stop_the_spawner(f, waits);
    for (uint32_t run = 1; run <= 9; run++)
        ask(f, run, quick, NULL);
    say(f);
    assert_int_equal(exec_flush(f->e), 0);
    leave(f);
    kill(task.parent, SIGCONT);
    job_desc_drop(waits);
    job_desc_drop(quick);
}

static void say_pause(struct fixture *f) { assert_int_equal(exec_pause(f->e, 0, 0), 0); }
static void say_reside(struct fixture *f) { assert_int_equal(exec_reside(f->e, 0), f->v[0].pid); }

/* The next agent does not know of them. */
static void check_last_words_are_not_heard(struct fixture *f, void (*say)(struct fixture *f))
{
    struct list_of_held l;

    leave_with(f, say);
    come_back(f, &l);
    assert_non_null(held(&l, 0));
    assert_int_equal(held(&l, 0)->outcome, OUTCOME_NONE);
    write_file(f, "go", "", 0644);
    pump_until(f, &f->v[0].exited);
    assert_int_equal(f->v[0].outcome, OUTCOME_EXITED);
    assert_int_equal(f->v[0].code, 3);
}

static void test_a_pause_that_a_dead_agent_wanted_is_none(void **state)
{
    check_last_words_are_not_heard(*state, say_pause);
}

static void test_a_dead_agent_leaves_no_resident(void **state)
{
    check_last_words_are_not_heard(*state, say_reside);
}

static void test_an_idle_spawner_is_replaced_and_its_name_stays(void **state)
{
    struct fixture *f = *state;
    struct list_of_held l;

    start(f);
    run_one(f, 0, SHELL("exit 0"), NULL);
    exec_forget(f->e, 0);
    leave(f);
    come_back(f, &l);
    assert_int_equal(l.n, 0);
    assert_true(exec_incarnation(f->e) == OLD_INCARNATION);
    assert_exited(run_one(f, 1, SHELL("exit 0"), NULL), 0);
}

/* The spawner was killed with its agent. The users' runners may still hold leased runs. */
static void test_no_spawner_left_no_lease(void **state)
{
    struct list_of_held l;

    come_back(*state, &l);
    assert_int_equal(l.n, 0);
    assert_true(l.lease_us == TIME_NEVER);
}

/* ---- Never back ---- */

static void test_nothing_is_left_after_the_grace(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = SHELL("echo up; kill -STOP $$; sleep 1000"); /* frozen, it cannot end by itself */
    struct list_of_held l;
    int64_t left;

    f->config.orphan_grace_us = 300 * US_PER_MS;
    f->config.kill_grace_us = 100 * US_PER_MS;
    int fifo = run_until_up(f, d);
    left = now_us();
    leave(f);
    wait_for_hang_up(fifo);
    assert_true(now_us() - left >= 300 * US_PER_MS);
    come_back(f, &l); /* too late: a spawner of its own, under its own name */
    assert_int_equal(l.n, 0);
    assert_true(exec_incarnation(f->e) == OLD_INCARNATION + 1);
    close(fifo);
}

/* DESIGN 3.9: the lease holds although nobody is there to watch it. */
static void test_the_lease_ends_what_is_centrals(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = SHELL("echo up; exec sleep 1000"), *other = shell_in(f, WAITS);
    char path[300];
    int fifo = make_fifo(f, path, sizeof path);
    struct list_of_held l;
    int64_t until;

    set_blob(&d->stdout_pattern, path);
    start(f);
    ask_long(f, 0, d);
    ask(f, 1, other, NULL);
    job_desc_drop(d);
    job_desc_drop(other);
    pump_until(f, &f->v[0].started);
    pump_until(f, &f->v[1].started);
    wait_for_line(fifo, "up\n");
    exec_lease(f->e, boot_us() + 60 * US_PER_MS);
    until = boot_us() + 300 * US_PER_MS;
    exec_lease(f->e, until);
    leave(f);
    wait_for_hang_up(fifo);
    assert_true(boot_us() >= until); /* the last word counts */
    come_back(f, &l);
    assert_int_equal(l.lease_us, until);
    if (held(&l, 0)->outcome == OUTCOME_NONE) {
        pump_until(f, &f->v[0].exited);
        assert_int_equal(f->v[0].outcome, OUTCOME_LOST);
    } else {
        assert_int_equal(held(&l, 0)->outcome, OUTCOME_LOST);
    }
    assert_int_equal(held(&l, 1)->outcome, OUTCOME_NONE);
    write_file(f, "go", "", 0644);
    pump_until(f, &f->v[1].exited);
    assert_exited(&f->v[1], 3);
    close(fifo);
}

/* ---- Who may ---- */

static void test_one_agent_at_a_time(void **state)
{
    struct fixture *f = *state;
    struct exec *second;

    start(f);
    assert_int_equal(exec_start(&second, &f->config), HAWK_EEXISTS);
    assert_exited(run_one(f, 0, SHELL("exit 0"), NULL), 0);
}

static void kill_at_its_first_child(pid_t agent)
{
    int64_t deadline = now_us() + BOUND_US;
    struct pids children = {0};

    while (children.n == 0 && now_us() < deadline)
        pids_add_children(&children, agent);
    kill(agent, SIGKILL);
    assert_int_equal(waitpid(agent, NULL, 0), agent);
    assert_true(children.n > 0);
    pids_free(&children);
}

/* Its first child is the one by which it tries a freezer, where this machine has any. */
static void test_an_agent_that_is_killed_as_it_starts_keeps_nobody_out(void **state)
{
    struct fixture *f = *state;
    int64_t deadline = now_us() + BOUND_US;
    pid_t child;
    int err;

    f->config.freezer = EXEC_FREEZER_AUTO;
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    for (int i = 0; i < 10; i++) {
        pid_t agent = fork();

        assert_true(agent >= 0);
        if (agent == 0) {
            if (exec_start(&f->e, &f->config))
                _exit(1);
            for (;;)
                pause();
        }
        kill_at_its_first_child(agent);
        while ((err = exec_start(&f->e, &f->config)) == HAWK_EEXISTS && now_us() < deadline)
            poll(NULL, 0, 5); /* its child is about to see that it is alone */
        assert_int_equal(err, 0);
        exec_stop(f->e);
        f->e = NULL;
    }
    while ((child = waitpid(-1, NULL, WNOHANG)) >= 0) { /* whatever it left is ours */
        assert_true(now_us() < deadline);
        if (child == 0)
            poll(NULL, 0, 5);
    }
    assert_int_equal(errno, ECHILD);
    prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
}

static void test_only_this_user_may_connect(void **state)
{
    struct fixture *f = *state;
    char path[300];
    struct stat st;

    start(f);
    snprintf(path, sizeof path, "%s/" SPAWNER_SOCKET, f->config.state_dir);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    exec_stop(f->e);
    f->e = NULL;
    assert_int_equal(stat(path, &st), -1); /* and nobody, once it stopped in good order */
}

/* Whoever does not speak the spawner's language is hung up on, and changes nothing. */
static void test_a_stranger_is_refused(void **state)
{
    static const char *const words[] = {"GET / HTTP/1.1\r\n\r\n",
                                        "\x00\x00\x00\x00\x09\x00\xff\xff",  /* another version */
                                        "\x00\x00\x00\x00\x05\x00\x02\x00",  /* "stop", unasked */
                                        "\x00\x00\x00\x00\x08\x00\x02\x00"}; /* a hello with nothing in it */
    static const size_t lengths[] = {18, 8, 8, 8};
    struct fixture *f = *state;
    struct job_desc *d = shell_in(f, WAITS);
    struct list_of_held l;

    start(f);
    ask(f, 0, d, NULL);
    job_desc_drop(d);
    pump_until(f, &f->v[0].started);
    leave(f);
    for (int i = 0; i < 4; i++) {
        int fd = spawner_socket_connect(f->config.state_dir);
        struct pollfd p = {.fd = fd, .events = POLLIN};
        char c;

        assert_true(fd >= 0);
        assert_int_equal(send(fd, words[i], lengths[i], MSG_NOSIGNAL), lengths[i]);
        assert_int_equal(poll(&p, 1, (int)(BOUND_US / US_PER_MS)), 1);
        assert_true(read(fd, &c, 1) <= 0);
        close(fd);
    }
    come_back(f, &l);
    assert_int_equal(held(&l, 0)->outcome, OUTCOME_NONE);
    write_file(f, "go", "", 0644);
    pump_until(f, &f->v[0].exited);
    assert_exited(&f->v[0], 3);
}

/* One that stands still while no agent is there: the next one kills it with what it ran. */
static void test_a_silent_spawner_is_killed_with_its_tasks(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = shell_in(f, WAITS);
    struct list_of_held l;
    struct proc task = start_and_stop_the_spawner(f, d), left;

    leave(f);
    come_back(f, &l);
    assert_true(l.n == 0 && (!procs_look(task.pid, &left) || left.dead || left.start_us != task.start_us));
    job_desc_drop(d);
}

/* Whoever listens, and takes nobody, holds up no agent: it is told so at once. */
static void test_a_listener_that_takes_nobody_is_not_waited_for(void **state)
{
    struct fixture *f = *state;
    int listen_fd = spawner_socket_listen(f->config.state_dir), fds[64], n = 0;

    assert_true(listen_fd >= 0);
    alarm(BOUND_US / US_PER_S);
    while (n < 64 && (fds[n] = spawner_socket_connect(f->config.state_dir)) >= 0)
        n++;
    alarm(0);
    assert_int_equal(errno, EAGAIN);
    assert_in_range(n, 1, 63);
    while (n > 0)
        close(fds[--n]);
    close(listen_fd);
}

/* ---- Older peers ---- */

/* A spawner of the version before: a task that runs, and a WELCOME without what came later. */
static void be_an_old_spawner(int listen_fd)
{
    struct pollfd p = {.fd = listen_fd, .events = POLLIN};
    struct bytes b = {0};
    char hello[4096];
    size_t begun;
    int fd;

    (void)poll(&p, 1, (int)(BOUND_US / US_PER_MS));
    fd = accept(listen_fd, NULL, NULL);
    if (fd < 0 || read(fd, hello, sizeof hello) <= 0)
        _exit(1);
    begun = record_begin(&b, RECORD_HELD);
    for (int i = 0; i < 2; i++)
        put_u32(&b, (uint32_t)i);
    put_u64(&b, job_id_make((node_id_t){3}, JOB_SEQ).v);
    for (int i = 0; i < 7; i++)
        put_u32(&b, 0); /* its outcome among them: OUTCOME_NONE */
    put_u64(&b, 0);
    for (int i = 0; i < 3; i++)
        put_data(&b, NULL, 0);
    record_end(&b, begun);
    begun = record_begin(&b, RECORD_WELCOME);
    put_u32(&b, (uint32_t)getpid());
    put_u64(&b, OLD_INCARNATION);
    put_u64(&b, (uint64_t)TIME_NEVER);
    put_u32(&b, true);
    record_end(&b, begun);
    if (bytes_send(&b, fd) < 0)
        _exit(1);
    _exit(read(fd, hello, sizeof hello) == 0 ? 0 : 2); /* not a word more */
}

static void test_an_older_spawner_is_not_asked(void **state)
{
    struct fixture *f = *state;
    int listen_fd = spawner_socket_listen(f->config.state_dir), status;
    struct list_of_held l;
    pid_t spawner = fork();

    assert_true(listen_fd >= 0 && spawner >= 0);
    if (spawner == 0)
        be_an_old_spawner(listen_fd);
    close(listen_fd);
    f->config.freezer = EXEC_FREEZER_SIGNAL;
    come_back(f, &l);
    assert_int_equal(l.n, 1);
    assert_string_equal(l.users[0], "-");
    assert_int_equal(exec_freezer_in_force(f->e), EXEC_FREEZER_OFF);
    assert_int_equal(exec_pause(f->e, 0, 0), HAWK_EUNSUPPORTED);
    exec_resume(f->e, 0, 0);
    exec_leave(f->e);
    f->e = NULL;
    assert_int_equal(waitpid(spawner, &status, 0), spawner);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* What the reader makes of a record that ends with these figures. */
static struct usage read_usage(const uint64_t *figures, size_t n)
{
    struct bytes b = {0};
    struct record r;
    size_t begun = record_begin(&b, RECORD_EXITED);

    put_data(&b, NULL, 0);
    for (size_t i = 0; i < n; i++)
        put_u64(&b, figures[i]);
    record_end(&b, begun);
    assert_int_equal(record_next(&b, &r), 1);
    assert_null(get_blob(&r));
    struct usage used = get_usage(&r);
    assert_int_equal(r.bad, n == 1);
    bytes_free(&b);
    return used;
}

/* An older spawner's record ends before them. A user's runner may say what it likes. */
static void test_a_record_may_say_what_was_used(void **state)
{
    struct usage none = read_usage(NULL, 0), some = read_usage((const uint64_t[]){1500, 2000}, 2);
    struct usage lies = read_usage((const uint64_t[]){UINT64_MAX, INT64_MAX}, 2);

    assert_true(none.cpu_us.v == 0 && none.mem_peak_bytes.v == 0);
    assert_int_equal(figure_value(some.cpu_us), 1500);
    assert_int_equal(figure_value(some.mem_peak_bytes), 2000);
    assert_int_equal(lies.cpu_us.v, 0);
    assert_true(figure_value(lies.mem_peak_bytes) == FIGURE_MAX);
    (void)read_usage((const uint64_t[]){7}, 1);
}

#undef TEST
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_state, tear_down_state)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_next_agent_takes_everything_over),
        TEST(test_what_was_forgotten_is_not_handed_over),
        TEST(test_an_end_while_nobody_is_there_is_kept),
        TEST(test_a_kill_keeps_its_reason),
        TEST(test_a_pause_that_a_dead_agent_wanted_is_none),
        TEST(test_a_dead_agent_leaves_no_resident),
        TEST(test_an_idle_spawner_is_replaced_and_its_name_stays),
        TEST(test_no_spawner_left_no_lease),
        TEST(test_nothing_is_left_after_the_grace),
        TEST(test_the_lease_ends_what_is_centrals),
        TEST(test_one_agent_at_a_time),
        TEST(test_an_agent_that_is_killed_as_it_starts_keeps_nobody_out),
        TEST(test_only_this_user_may_connect),
        TEST(test_a_stranger_is_refused),
        TEST(test_a_silent_spawner_is_killed_with_its_tasks),
        TEST(test_a_listener_that_takes_nobody_is_not_waited_for),
        TEST(test_an_older_spawner_is_not_asked),
        cmocka_unit_test(test_a_record_may_say_what_was_used),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
