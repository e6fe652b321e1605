/* daemon/runner.h: what a worker remembers of the output of its tasks, and whether tasks could start. */
#include "daemon/runner.h"

#include "tests/lib/exec_fixture.h"
#include "tests/lib/until.h"

#include <sqlite3.h>

static bool started;
static uint32_t ended, checked, bad_checks;

static void feed(void *arg, const struct msg *m)
{
    (void)arg;
    ended += m->type == MSG_EXEC_EXITED;
    started |= m->type == MSG_EXEC_STARTED;
    checked += m->type == MSG_EXEC_CHECKED;
    bad_checks += m->type == MSG_EXEC_CHECKED && m->exec_checked.why;
}

static void begin_task(struct runner *r, uint32_t task, struct job_desc *d)
{
    runner_effect(
        r, &(struct msg){.type = MSG_EXEC_START, .exec_start = {.run = task, .id = try_of(task), .desc = d}},
        NULL);
}

/* attempt: 0: the last. */
static enum run_state state_of_try(const struct runner *r, uint32_t task, uint32_t attempt)
{
    char path[EXEC_PATH_MAX];
    enum run_state run;

    assert_int_equal(runner_output(r, try_of(task).job, task, attempt, false, path, NULL, &run), 0);
    return run;
}

static enum run_state state_of(const struct runner *r, uint32_t task) { return state_of_try(r, task, 0); }

/* All but the first are refused: it holds the one place. */
static void a_running_task_is_remembered_however_many_end(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = SHELL("sleep 1000");
    struct loop *loop = loop_new(0);
    struct runner *r;

    f->config.max_running = 1;
    f->config.kill_grace_us = 0;
    start(f);
    r = runner_new(loop, f->e, NULL, &f->config, feed, NULL);
    f->e = NULL;
    begin_task(r, 0, d);
    until(loop, started);
    for (uint32_t i = 1; i <= RUNNER_OUTPUTS + 1; i++)
        begin_task(r, i, d);
    assert_int_equal(ended, RUNNER_OUTPUTS + 1);
    assert_int_equal(state_of(r, 0), RUN_ON);
    assert_int_equal(state_of(r, 1), RUN_UNKNOWN);
    assert_int_equal(state_of(r, 2), RUN_ENDED);
    runner_effect(
        r, &(struct msg){.type = MSG_EXEC_KILL, .exec_kill = {.outcome = OUTCOME_CANCELLED, .force = true}},
        NULL);
    until(loop, ended == RUNNER_OUTPUTS + 2);
    assert_int_equal(state_of(r, 0), RUN_ENDED);
    assert_int_equal(state_of(r, 2), RUN_UNKNOWN);
    job_desc_drop(d);
    runner_free(r, false);
    loop_free(loop);
}

static void what_is_known_of_a_try_is_said_of_no_other(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = SHELL("sleep 1000");
    struct loop *loop = loop_new(0);
    struct runner *r;

    f->config.kill_grace_us = 0;
    start(f);
    r = runner_new(loop, f->e, NULL, &f->config, feed, NULL);
    f->e = NULL;
    begin_task(r, 0, d);
    assert_int_equal(state_of(r, 0), RUN_ON);
    assert_int_equal(state_of_try(r, 0, try_of(0).attempt), RUN_ON);
    assert_int_equal(state_of_try(r, 0, try_of(0).attempt + 1u), RUN_UNKNOWN);
    job_desc_drop(d);
    runner_free(r, false);
    loop_free(loop);
}

static void spoil_nonces(const struct fixture *f)
{
    char path[300];
    sqlite3 *db;

    snprintf(path, sizeof path, "%s/nonces.db", f->dir);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "DROP TABLE nonces", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void no_task_could_start_where_nonces_cannot_be_noted(void **state)
{
    const struct msg check = {.type = MSG_EXEC_CHECK};
    struct fixture *f = *state;
    struct loop *loop = loop_new(0);
    struct signatures *s;
    struct runner *r;

    start(f);
    r = runner_new(loop, f->e, NULL, &f->config, feed, NULL);
    f->e = NULL;
    assert_int_equal(signatures_open(&s, NULL, f->dir, true), 0);
    runner_set_signatures(r, s);
    runner_effect(r, &check, NULL);
    until(loop, checked == 1);
    assert_int_equal(bad_checks, 0);
    spoil_nonces(f);
    runner_effect(r, &check, NULL);
    until(loop, checked == 2);
    assert_int_equal(bad_checks, 1);
    runner_free(r, false);
    signatures_free(s);
    loop_free(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_running_task_is_remembered_however_many_end),
        TEST(what_is_known_of_a_try_is_said_of_no_other),
        TEST(no_task_could_start_where_nonces_cannot_be_noted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
