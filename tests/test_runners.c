/* exec/runners: runners of several users, honest ones and imitations. hawk-run-as is a script here, which makes this
 * program the runner: all run as this user, and what is told apart is the name. */
#include "exec/runners.h"

#include "base/clock.h"
#include "exec/user_runner.h"
#include "tests/test_runners_imitated.h"

#include <sys/resource.h>
#include <sys/syscall.h>

#define HONEST "ann"
#define IMITATION "eve"

struct users {
    struct fixture *f;
    struct runners *rs;
    char helper[300], state[300];
    int64_t ahead_us; /* so far the agent's clock is ahead of the real one */
    time_t slept_s;   /* so long the machine has slept */
};

static struct users u;

int clock_gettime(clockid_t id, struct timespec *tp)
{
    int rc = (int)syscall(SYS_clock_gettime, id, tp);

    if (rc == 0 && id == CLOCK_BOOTTIME)
        tp->tv_sec += u.slept_s;
    return rc;
}

static int64_t clock_now(void) { return clock_us(CLOCK_BOOTTIME) + u.ahead_us; }

/* ---- The agent ---- */

/* hawk-run-as start USER: the keeper is a shell. */
static void write_helper(struct fixture *f, const char *mode)
{
    char self[200], text[1200];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

    assert_true(n > 0);
    self[n] = '\0';
    snprintf(text, sizeof text,
             "#!/bin/sh\n"
             "mode=%s; [ \"$2\" != " HONEST " ] || mode=honest\n"
             "[ \"${mode%%refused}\" = $mode ] || { echo \"hawk-run-as: $mode: for a test\" >&2; exit 77; }\n"
             "trap 'kill -9 $(cat /proc/$!/task/$!/children) $!; exit 0' TERM\n"
             "'%s' --runner $mode & exec 3>&- 4>&- 2>&-; wait $!\n",
             mode, self);
    write_file(f, "helper", text, 0700);
    snprintf(u.helper, sizeof u.helper, "%s/helper", f->dir);
}

static void begin(struct fixture *f, bool kept)
{
    f->config.state_dir = u.state;
    f->config.as_users = f->config.drops_empty = true;
    f->config.kill_grace_us = 100 * US_PER_MS;
    f->config.orphan_grace_us = BOUND_US;
    f->config.freezer = EXEC_FREEZER_SIGNAL;
    assert_int_equal(runners_start(&u.rs, &f->config, u.helper, BOUND_US, clock_now(), kept), 0);
}

static void set_up_users(struct fixture *f, const char *mode)
{
    u = (struct users){.f = f};
    snprintf(u.state, sizeof u.state, "%s/state", f->dir);
    assert_int_equal(mkdir(u.state, 0700), 0);
    write_helper(f, mode);
    begin(f, true);
}

static void end_users(void)
{
    runners_stop(u.rs);
    u.rs = NULL;
}

static void turn_until(struct fixture *f, const bool *what)
{
    int64_t deadline = now_us() + BOUND_US;

    while (!*what) {
        struct pollfd p = {.fd = runners_fd(u.rs), .events = POLLIN};

        assert_true(now_us() < deadline);
        runners_flush(u.rs, clock_now());
        poll(&p, 1, 20);
        runners_on_ready(u.rs, clock_now(), on_event, f);
        runners_on_timeout(u.rs, clock_now(), on_event, f);
    }
}

static void ask_user(struct fixture *f, const char *user, uint32_t run, struct job_desc *d)
{
    struct msg_exec_start m = {.run = run, .id = try_of(run), .desc = d};
    char why[EXEC_WHY_MAX];

    if (strcmp(user, HONEST) != 0) {
        m.id.job = job_id_make((node_id_t){3}, HER_JOB);
        m.owner = NODE_CENTRAL; /* she has leased runs */
    }
    set_blob(&d->user, user);
    f->v[run].outcome = UINT8_MAX;
    assert_int_equal(runners_run(u.rs, clock_now(), &m, NULL, NULL, why), 0);
    job_desc_drop(d);
}

static void test_a_directory_that_cannot_be_read_starts_no_agent(void **state)
{
    struct fixture *f = *state;

    f->config.state_dir = f->dir;
    write_file(f, "users", "", 0600);
    assert_int_equal(runners_start(&u.rs, &f->config, "", BOUND_US, clock_now(), true), HAWK_EIO);
}

static void test_runs_of_two_users(void **state)
{
    struct fixture *f = *state;
    char path[300];

    set_up_users(f, "honest");
    ask_user(f, HONEST, 1, SHELL("echo one; echo to stderr >&2; echo again >>/dev/stderr"));
    ask_user(f, IMITATION, 2, SHELL("echo two; exit 3"));
    struct job_desc *d = SHELL("echo three");
    snprintf(path, sizeof path, "%s/named", f->dir);
    set_blob(&d->stdout_pattern, path);
    ask_user(f, HONEST, 3, d);
    for (uint32_t run = 1; run <= 3; run++) {
        turn_until(f, &f->v[run].exited);
        assert_exited(&f->v[run], run == 2 ? 3 : 0);
    }
    assert_output(f, 1, "one\n");
    assert_file("two\n", "%s/out/3.%d/2.out", f->dir, HER_JOB);
    assert_file("to stderr\nagain\n", "%s/out/3.%d/1.err", f->dir, JOB_SEQ);
    assert_file("three\n", "%s/named", f->dir);
    snprintf(path, sizeof path, "%s/out/3.%d/2.err", f->dir, HER_JOB);
    assert_true(access(path, F_OK) < 0 && exec_output_was_empty(path));
    assert_int_equal(runners_running(u.rs), 0);
    end_users();
}

static void test_kill_limit_and_pause_reach_the_run(void **state)
{
    struct fixture *f = *state;
    int err = -1;

    set_up_users(f, "honest");
    ask_user(f, HONEST, 1, SHELL("exec sleep 1000"));
    struct job_desc *d = SHELL("exec sleep 1000");
    d->time_limit_us = 50 * US_PER_MS;
    ask_user(f, HONEST, 2, d);
    ask_user(f, IMITATION, 3, SHELL("exec sleep 1000"));
    turn_until(f, &f->v[2].exited);
    assert_int_equal(f->v[2].outcome, OUTCOME_TIME_LIMIT);
    turn_until(f, &f->v[1].started);
    assert_true(runners_pause(u.rs, clock_now(), 1, &err));
    assert_int_equal(err, 0);
    turn_until(f, &f->v[1].paused);
    assert_int_equal(f->v[1].pause_err, 0);
    assert_true(runners_resume(u.rs, clock_now(), 1));
    for (uint32_t run = 1; run <= 3; run += 2) {
        assert_true(runners_kill(u.rs, clock_now(), run, OUTCOME_CANCELLED, false));
        turn_until(f, &f->v[run].exited);
        assert_int_equal(f->v[run].outcome, OUTCOME_CANCELLED);
    }
    assert_false(runners_kill(u.rs, clock_now(), 4711, OUTCOME_CANCELLED, false));
    end_users();
}

/* Eve's runner says what it may not. It is ended, her run is lost, and ann's goes on. */
static void test_an_imitation_is_ended(void **state)
{
    static const char *const modes[] = {
        "ends-anothers",  "starts-anothers", "starts-twice", "pauses-unasked", "bad-outcome", "no-outcome",
        "checks-unasked", "welcomes-twice",  "garbage",      "large",          "ends-unsent"};
    static const char input[4 << 20]; /* more than a socket takes */
    struct fixture *f = *state;

    set_up_users(f, modes[0]);
    ask_user(f, HONEST, 1, SHELL("until test -e go; do sleep 0.01; done"));
    turn_until(f, &f->v[1].started);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        write_helper(f, modes[i]);
        f->v[EVE] = (struct result){0};
        struct job_desc *d = SHELL("true");
        d->input = strcmp(modes[i], "ends-unsent") == 0 ? blob_new(input, sizeof input) : NULL;
        ask_user(f, IMITATION, EVE, d);
        turn_until(f, &f->v[EVE].exited);
        if (f->v[EVE].outcome != OUTCOME_LOST)
            fail_msg("%s: %s", modes[i], outcome_text(f->v[EVE].outcome));
    }
    assert_false(f->v[1].exited);
    assert_true(runners_kill(u.rs, clock_now(), 1, OUTCOME_CANCELLED, true));
    turn_until(f, &f->v[1].exited);
    end_users();
}

static void test_a_runner_that_names_no_pids_is_ended(void **state)
{
    struct fixture *f = *state;
    int err;

    set_up_users(f, "pauses-part");
    for (int many = 0; many < 2; many++) {
        write_helper(f, many ? "pauses-many" : "pauses-part");
        f->v[EVE] = (struct result){0};
        ask_user(f, IMITATION, EVE, SHELL("true"));
        turn_until(f, &f->v[EVE].started);
        assert_true(runners_pause(u.rs, clock_now(), EVE, &err));
        turn_until(f, &f->v[EVE].exited);
        assert_int_equal(f->v[EVE].outcome, OUTCOME_LOST);
        assert_false(f->v[EVE].paused);
    }
    end_users();
}

/* It has reported an end, and is gone when the agent writes to it. */
static void test_an_end_counts_whose_runner_can_be_told_nothing_any_more(void **state)
{
    struct fixture *f = *state;

    set_up_users(f, "ends");
    ask_user(f, IMITATION, EVE, SHELL("true"));
    wait_for_a_child(); /* its keeper, and so both */
    runners_flush(u.rs, clock_now());
    turn_until(f, &f->v[EVE].exited);
    assert_exited(&f->v[EVE], 0);
    end_users();
}

/* It takes its requests, and does nothing. The agent's clock is put forward. */
static void test_a_runner_that_does_nothing_is_ended_from_outside(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = SHELL("true");
    int err;

    set_up_users(f, "welcome");
    ask_user(f, IMITATION, EVE, SHELL("true"));
    assert_true(runners_kill(u.rs, clock_now(), EVE, OUTCOME_CANCELLED, true));
    u.ahead_us += RUNNER_LATE_US;
    turn_until(f, &f->v[EVE].exited);
    assert_int_equal(f->v[EVE].outcome, OUTCOME_CANCELLED);

    d->time_limit_us = US_PER_S;
    ask_user(f, IMITATION, EVE + 1, d);
    u.ahead_us += US_PER_S + f->config.kill_grace_us + RUNNER_LATE_US;
    turn_until(f, &f->v[EVE + 1].exited);
    assert_int_equal(f->v[EVE + 1].outcome, OUTCOME_TIME_LIMIT);

    ask_user(f, IMITATION, EVE + 2, SHELL("true"));
    assert_true(runners_pause(u.rs, clock_now(), EVE + 2, &err));
    u.ahead_us += RUNNER_LATE_US + EXEC_CONFIRM_US;
    turn_until(f, &f->v[EVE + 2].exited);
    assert_int_equal(f->v[EVE + 2].outcome, OUTCOME_LOST);

    /* After a call that comes late it has some more time, and no more. */
    ask_user(f, IMITATION, EVE + 4, SHELL("true"));
    assert_true(runners_kill(u.rs, clock_now(), EVE + 4, OUTCOME_CANCELLED, true));
    u.ahead_us += 3 * RUNNER_LATE_US;
    runners_on_timeout(u.rs, clock_now(), on_event, f);
    u.ahead_us += RUNNER_LATE_US;
    turn_until(f, &f->v[EVE + 4].exited);
    assert_int_equal(f->v[EVE + 4].outcome, OUTCOME_CANCELLED);

    write_helper(f, "silent");
    ask_user(f, IMITATION, EVE + 3, SHELL("true"));
    u.ahead_us += 30 * US_PER_S;
    turn_until(f, &f->v[EVE + 3].exited);
    assert_int_equal(f->v[EVE + 3].outcome, OUTCOME_LOST);
    end_users();
}

/* A user cannot put the worker out of service for others: what his runner says of its machine is said of him. */
static void test_what_a_runner_blames_is_its_users(void **state)
{
    struct fixture *f = *state;
    char own[sizeof u.state + sizeof "/users/" IMITATION];

    set_up_users(f, "blames");
    ask_user(f, IMITATION, EVE, SHELL("true"));
    turn_until(f, &f->v[EVE].exited);
    assert_int_equal(f->v[EVE].outcome, OUTCOME_LOST);
    assert_int_equal(f->v[EVE].code, HAWK_ECANNOT_START);
    snprintf(own, sizeof own, "%s/users/" IMITATION, u.state);
    assert_string_equal(f->v[EVE].place, own);
    end_users();
}

/* While a run is paused its time does not pass. Afterwards the rest of it does. */
static void test_a_run_that_was_paused_has_the_rest_of_its_time(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = SHELL("true");
    int err;

    set_up_users(f, "pauses");
    d->time_limit_us = US_PER_S;
    ask_user(f, IMITATION, EVE, d);
    turn_until(f, &f->v[EVE].started);
    assert_true(runners_pause(u.rs, clock_now(), EVE, &err));
    turn_until(f, &f->v[EVE].paused);
    u.ahead_us += 3600 * US_PER_S;
    runners_on_timeout(u.rs, clock_now(), on_event, f);
    assert_false(f->v[EVE].exited);
    assert_true(runners_resume(u.rs, clock_now(), EVE));
    u.ahead_us += US_PER_S + f->config.kill_grace_us + RUNNER_LATE_US;
    turn_until(f, &f->v[EVE].exited);
    assert_int_equal(f->v[EVE].outcome, OUTCOME_TIME_LIMIT);
    end_users();
}

static void ask_and_start(struct fixture *f, uint32_t run, struct job_desc *d)
{
    set_blob(&d->cwd, f->dir);
    ask_user(f, HONEST, run, d);
    turn_until(f, &f->v[run].started);
}

/* Run 1, which waits for this, has gone on all the time. */
static void assert_unharmed(struct fixture *f)
{
    write_file(f, "go", "", 0600);
    turn_until(f, &f->v[1].exited);
    assert_exited(&f->v[1], 5);
    end_users();
}

#define UNTIL_GO "until test -e go; do sleep 0.01; done; exit 5"
#define LIMIT_US (60 * US_PER_S)

static void test_an_end_counts_that_came_while_the_agent_stood_still(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = SHELL("until test -e end; do sleep 0.01; done; exit 4");

    set_up_users(f, "honest");
    ask_and_start(f, 1, SHELL(UNTIL_GO));
    d->time_limit_us = LIMIT_US;
    ask_and_start(f, 2, d);
    struct pollfd p = {.fd = runners_fd(u.rs), .events = POLLIN};
    write_file(f, "end", "", 0600);
    assert_int_equal(poll(&p, 1, (int)(BOUND_US / US_PER_MS)), 1); /* the end waits in the socket */
    u.ahead_us += LIMIT_US + f->config.kill_grace_us + RUNNER_LATE_US;
    runners_on_timeout(u.rs, clock_now(), on_event, f);
    turn_until(f, &f->v[2].exited);
    assert_exited(&f->v[2], 4);
    assert_unharmed(f);
}

static void test_an_agent_that_stood_still_judges_nobody_by_that_time(void **state)
{
    struct fixture *f = *state;

    set_up_users(f, "honest");
    ask_and_start(f, 1, SHELL(UNTIL_GO));
    ask_and_start(f, 2, SHELL("exec sleep 1000"));
    assert_true(runners_kill(u.rs, clock_now(), 2, OUTCOME_CANCELLED, false)); /* which is not sent */
    u.ahead_us += 3 * RUNNER_LATE_US;
    runners_on_timeout(u.rs, clock_now(), on_event, f);
    turn_until(f, &f->v[2].exited);
    assert_int_equal(f->v[2].outcome, OUTCOME_CANCELLED);
    assert_unharmed(f);
}

/* It renews the lease before it judges who should have ended a run. */
static void test_an_agent_that_stood_still_judges_nobody_by_its_lease(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = SHELL(UNTIL_GO);

    set_up_users(f, "honest");
    set_blob(&d->cwd, f->dir);
    ask_user(f, IMITATION, 1, d); /* a leased run */
    turn_until(f, &f->v[1].started);
    runners_lease(u.rs, clock_now() + LIMIT_US); /* which is not sent */
    u.ahead_us += 2 * LIMIT_US;
    runners_on_timeout(u.rs, clock_now(), on_event, f);
    runners_lease(u.rs, clock_now() + LIMIT_US);
    assert_unharmed(f);
}

static void test_the_machines_sleep_is_in_no_time_limit_but_in_a_lease(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = SHELL(UNTIL_GO);

    set_up_users(f, "welcome");
    d->time_limit_us = LIMIT_US;
    ask_and_start(f, 1, d);
    ask_user(f, IMITATION, EVE, SHELL("true"));
    runners_lease(u.rs, clock_now() + LIMIT_US);
    u.slept_s = 3600;
    runners_on_timeout(u.rs, clock_now(), on_event, f); /* comes late */
    u.ahead_us += RUNNER_LATE_US;
    turn_until(f, &f->v[EVE].exited);
    assert_int_equal(f->v[EVE].outcome, OUTCOME_LOST);
    assert_unharmed(f);
}

/* Nothing tells its agent at once that the runner and its tasks live on. */
static void test_a_run_whose_keeper_was_killed_ends_before_its_end_is_reported(void **state)
{
    struct fixture *f = *state;
    char path[400], text[64] = "";

    set_up_users(f, "honest");
    ask_user(f, HONEST, 1, SHELL("exec sleep 1000"));
    turn_until(f, &f->v[1].started);
    snprintf(path, sizeof path, "%s/users/" HONEST "/keeper", u.state);
    FILE *note = fopen(path, "re");
    assert_non_null(note);
    assert_non_null(fgets(text, sizeof text, note));
    fclose(note);
    assert_int_equal(kill((pid_t)strtol(text, NULL, 10), SIGKILL), 0);
    wait_for_a_child();
    turn_until(f, &f->v[1].exited);
    assert_int_equal(f->v[1].outcome, OUTCOME_LOST);
    assert_int_equal(kill(f->v[1].pid, 0), -1);
    ask_user(f, HONEST, 2, SHELL("exit 4")); /* by another runner */
    turn_until(f, &f->v[2].exited);
    assert_exited(&f->v[2], 4);
    end_users();
}

static void test_what_the_helper_refuses_is_said(void **state)
{
    struct fixture *f = *state;

    set_up_users(f, "refused");
    ask_user(f, IMITATION, 1, SHELL("true"));
    turn_until(f, &f->v[1].exited);
    assert_int_equal(f->v[1].outcome, OUTCOME_NOT_STARTED);
    assert_non_null(strstr(f->v[1].why, "refused: for a test"));
    write_helper(f, "/refused"); /* it cannot work, and names a path */
    ask_user(f, IMITATION, 2, SHELL("true"));
    turn_until(f, &f->v[2].exited);
    assert_int_equal(f->v[2].outcome, OUTCOME_LOST);
    end_users();
}

/* Where its keeper cannot be noted, as on a full disk, both are ended, and no zombie stays. */
static void test_a_runner_that_cannot_be_noted_is_ended(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = SHELL("true");
    const struct msg_exec_start m = {.run = 1, .id = try_of(1), .desc = d};
    char path[400], why[EXEC_WHY_MAX];
    int64_t deadline = now_us() + BOUND_US;

    set_up_users(f, "honest");
    set_blob(&d->user, HONEST);
    snprintf(path, sizeof path, "%s/users/" HONEST, u.state);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/users/" HONEST "/keeper", u.state);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(runners_run(u.rs, clock_now(), &m, NULL, NULL, why), HAWK_ECANNOT_START);
    assert_non_null(strstr(why, strerror(EISDIR)));
    while (has_children()) {
        struct pollfd p = {.fd = runners_fd(u.rs), .events = POLLIN};

        assert_true(now_us() < deadline);
        poll(&p, 1, 20);
        runners_on_ready(u.rs, clock_now(), on_event, f);
    }
    assert_int_equal(f->events, 0);
    assert_int_equal(rmdir(path), 0);
    ask_user(f, HONEST, 2, SHELL("exit 4"));
    turn_until(f, &f->v[2].exited);
    assert_exited(&f->v[2], 4);
    job_desc_drop(d);
    end_users();
}

/* Names that would lead elsewhere are no directories. */
static void test_a_name_leads_nowhere_else(void **state)
{
    static const char *const names[] = {"", "..", ".hidden", "a/b", "/etc", "-x"};
    struct fixture *f = *state;
    char why[EXEC_WHY_MAX];

    set_up_users(f, "honest");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct job_desc *d = SHELL("true");
        struct msg_exec_start m = {.run = 1, .id = try_of(1), .desc = d};

        set_blob(&d->user, names[i]);
        assert_int_equal(runners_run(u.rs, clock_now(), &m, NULL, NULL, why), HAWK_EINVALID);
        job_desc_drop(d);
    }
    end_users();
}

/* ---- Another agent ---- */

static uint32_t held_runs[8], held_n;

static void note_held(void *arg, const struct msg *m, const char *const paths[2], const char *user)
{
    if (m->type == MSG_EXEC_USED)
        return;
    assert_string_equal(strrchr(paths[0], '.'), ".out");
    assert_string_equal(strrchr(paths[1], '.'), ".err");
    assert_true(held_n < 8);
    assert_string_equal(user, m->exec_held.run == 1 || m->exec_held.run == 3 ? HONEST : IMITATION);
    held_runs[held_n++] = m->exec_held.run;
}

static void come_back(struct fixture *f, bool kept)
{
    held_n = 0;
    runners_leave(u.rs);
    begin(f, kept);
    runners_take_over(u.rs, note_held, NULL);
}

static void test_another_agent_takes_over_what_it_gave(void **state)
{
    struct fixture *f = *state;
    char path[400];

    set_up_users(f, "honest");
    ask_user(f, HONEST, 1, SHELL("exec sleep 1000"));
    ask_user(f, IMITATION, 2, SHELL("exit 4"));
    ask_user(f, HONEST, 3, SHELL("exit 4"));
    turn_until(f, &f->v[1].started);
    turn_until(f, &f->v[2].exited);
    turn_until(f, &f->v[3].exited);
    assert_true(runners_forget(u.rs, 3));
    runners_flush(u.rs, clock_now());
    come_back(f, true);
    assert_int_equal(held_n, 2);
    assert_int_equal(held_runs[0] + held_runs[1], 3);
    assert_int_equal(runners_running(u.rs), 1);

    /* Of a run that no agent gave to eve's runner she says nothing that counts. */
    snprintf(path, sizeof path, "%s/users/" IMITATION "/runs", u.state);
    assert_int_equal(truncate(path, 0), 0);
    come_back(f, true);
    assert_int_equal(held_n, 1);
    assert_int_equal(held_runs[0], 1);

    /* One that is no successor ends what it finds. */
    come_back(f, false);
    assert_int_equal(held_n, 0);
    assert_int_equal(runners_running(u.rs), 0);
    end_users();
}

/* Its runner would never be idle, and be believed an end of that run. */
static void test_a_run_that_cannot_be_sent_is_not_held(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = job_desc_new();
    struct msg_exec_start m = {.run = 2, .id = try_of(2), .desc = d};
    char path[400], why[EXEC_WHY_MAX];
    struct stat st;

    set_up_users(f, "honest");
    ask_user(f, HONEST, 1, SHELL("exit 4"));
    turn_until(f, &f->v[1].exited);
    assert_true(runners_forget(u.rs, 1));
    set_blob(&d->user, HONEST);
    assert_int_equal(runners_run(u.rs, clock_now(), &m, NULL, NULL, why), HAWK_EINVALID); /* no command */
    job_desc_drop(d);
    snprintf(path, sizeof path, "%s/users/" HONEST "/runs", u.state);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 0);
    end_users();
}

/* It would run a limited task without the limits, and take their descriptors for the next task's files. */
static void test_an_older_runner_that_was_taken_over_gets_no_limits(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = SHELL("true");
    struct try_id id = try_of(2);
    char why[EXEC_WHY_MAX];

    set_up_users(f, "older");
    ask_user(f, IMITATION, 1, SHELL("true"));
    come_back(f, true);
    set_blob(&d->user, IMITATION);
    d->pids = 5;
    assert_int_equal(runners_run(u.rs, clock_now(), &(struct msg_exec_start){.run = 2, .id = id, .desc = d},
                                 NULL, NULL, why),
                     HAWK_EUNSUPPORTED);
    assert_non_null(strstr(why, "older version"));
    d->pids = 0;
    assert_int_equal(runners_run(u.rs, clock_now(), &(struct msg_exec_start){.run = 2, .id = id, .desc = d},
                                 NULL, NULL, why),
                     0);
    job_desc_drop(d);
    end_users();
}

/* A run is the try that it was given as, and it ends once. A user cannot say that his is a task of others, and so end
 * that. */
static void test_a_runner_holds_what_it_was_given_once(void **state)
{
    static const struct {
        const char *mode;
        uint32_t held;
    } cases[] = {{"holds", 1}, {"holds-anothers", 0}, {"holds-twice", 1}, {"holds-forgotten", 0}};
    struct fixture *f = *state;

    set_up_users(f, cases[0].mode);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_helper(f, cases[i].mode);
        f->v[EVE] = f->v[EVE + 1] = (struct result){0};
        ask_user(f, IMITATION, EVE, SHELL("true"));
        ask_user(f, IMITATION, EVE + 1, SHELL("true"));
        turn_until(f, &f->v[EVE].started);
        if (i == 3) {
            turn_until(f, &f->v[EVE].exited);
            assert_true(runners_forget(u.rs, EVE));
        }
        write_helper(f, "silent");
        come_back(f, true);
        if (held_n != cases[i].held)
            fail_msg("%s: %u", cases[i].mode, held_n);
        runners_leave(u.rs);
        begin(f, false);
    }
    end_users();
}

/* The next agent keeps little of what it says, and ends it when that is too much. */
static void test_a_runner_that_says_too_much_is_ended(void **state)
{
    struct fixture *f = *state;
    struct rusage before, after;

    set_up_users(f, "hoards");
    ask_user(f, IMITATION, EVE, SHELL("true"));
    turn_until(f, &f->v[EVE].started);
    write_helper(f, "honest");
    getrusage(RUSAGE_SELF, &before);
    come_back(f, true);
    getrusage(RUSAGE_SELF, &after);
    assert_in_range(after.ru_maxrss - before.ru_maxrss, 0,
                    128 << 10); /* in KiB; without the limit: 176 MiB */
    assert_int_equal(held_n, 0);
    ask_user(f, IMITATION, 2, SHELL("exit 4")); /* by another runner */
    turn_until(f, &f->v[2].exited);
    assert_exited(&f->v[2], 4);
    end_users();
}

static int tear_down_users(void **state)
{
    runners_stop(u.rs);
    u.rs = NULL;
    return tear_down(state);
}

#define USERS(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down_users)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        USERS(test_a_directory_that_cannot_be_read_starts_no_agent),
        USERS(test_runs_of_two_users),
        USERS(test_kill_limit_and_pause_reach_the_run),
        USERS(test_an_imitation_is_ended),
        USERS(test_an_end_counts_whose_runner_can_be_told_nothing_any_more),
        USERS(test_a_runner_that_does_nothing_is_ended_from_outside),
        USERS(test_what_a_runner_blames_is_its_users),
        USERS(test_a_runner_that_names_no_pids_is_ended),
        USERS(test_a_run_that_was_paused_has_the_rest_of_its_time),
        USERS(test_an_end_counts_that_came_while_the_agent_stood_still),
        USERS(test_an_agent_that_stood_still_judges_nobody_by_that_time),
        USERS(test_an_agent_that_stood_still_judges_nobody_by_its_lease),
        USERS(test_the_machines_sleep_is_in_no_time_limit_but_in_a_lease),
        USERS(test_a_run_whose_keeper_was_killed_ends_before_its_end_is_reported),
        USERS(test_what_the_helper_refuses_is_said),
        USERS(test_a_runner_that_cannot_be_noted_is_ended),
        USERS(test_a_name_leads_nowhere_else),
        USERS(test_another_agent_takes_over_what_it_gave),
        USERS(test_a_run_that_cannot_be_sent_is_not_held),
        USERS(test_a_runner_holds_what_it_was_given_once),
        USERS(test_a_runner_that_says_too_much_is_ended),
        USERS(test_an_older_runner_that_was_taken_over_gets_no_limits),
    };

    if (argc == 3 && strcmp(argv[1], "--runner") == 0)
        return be_runner(argv[2]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
