/* Tasks that their client cancels one by one: docs/protocol.md 3.12, the dist's side. */
#include "tests/test_dist_restart.h"

/* Tasks first to last. */
static void cancel(struct talk *t, uint64_t seq, uint32_t first, uint32_t last)
{
    struct task_set *s = task_set_new(last - first + 1);

    for (uint32_t i = 0; i < s->n; i++)
        s->v[i] = first + i;
    HEAR(t, 0, CANCEL, cancel, .job = J(seq), .client = 4, .tasks = s);
    task_set_drop(s);
}

static enum task_state state_of(const struct talk *t, uint32_t task)
{
    return task_view_of(t, 1, task).state;
}

/* A job of so many tasks, of which task 0 runs at worker 101. */
static struct talk *talk_running(uint32_t tasks, uint32_t retries)
{
    struct talk *t = talk_joined("hawk", 1);
    struct job_desc *desc = tagged(tasks);

    desc->failure_retries = retries;
    submit(t, desc);
    ignore(t);
    request(t, 101, 1, 1);
    ignore(t);
    started(t, 101, try_of(1, 0, 1, 1));
    ignore(t);
    return t;
}

static void test_the_others_go_on(void **state)
{
    struct talk *t = talk_running(4, 0);

    cancel(t, 1, 0, 1);
    says(t, "101 TASK_CANCEL id=3.1/0@1.1");
    says(t, "- CANCELLED job=3.1 client=4 err=0");
    ignore(t);
    assert_int_equal(state_of(t, 0), TASK_RUNNING);
    assert_int_equal(state_of(t, 1), TASK_CANCELLED);
    HEAR(t, 101, TASK_FINISHED, task_finished, .id = try_of(1, 0, 1, 1), .outcome = OUTCOME_CANCELLED);
    ignore(t);
    assert_int_equal(state_of(t, 0), TASK_CANCELLED);
    for (uint32_t i = 2; i < 4; i++) {
        request(t, 101, 1, i);
        ignore(t);
        finished(t, 101, try_of(1, i, 1, 1), 0, 50);
        ignore(t);
    }
    assert_int_equal(job_view_of(t, 1).state, JOB_CANCELLED);
    assert_int_equal(job_view_of(t, 1).done, 2);
    talk_end(t);
}

static void test_what_fails_meanwhile_runs_no_more(void **state)
{
    struct talk *t = talk_running(2, 3);

    cancel(t, 1, 0, 0);
    ignore(t);
    finished(t, 101, try_of(1, 0, 1, 1), 1, 50);
    ignore(t);
    assert_int_equal(state_of(t, 0), TASK_FAILED);
    assert_int_equal(state_of(t, 1), TASK_WAITING);
    talk_end(t);
}

static void test_a_suspect_worker_is_told_to_stop_what_may_run(void **state)
{
    struct talk *t = talk_joined("hawk", 1);
    struct job_desc *desc = tagged(1);

    desc->lost_retries = 1;
    submit(t, desc);
    ignore(t);
    request(t, 101, 1, 1);
    ignore(t);
    started(t, 101, try_of(1, 0, 1, 1));
    worker_member(t, 101, 1, MEMBER_SUSPECT, true);
    ignore(t);
    assert_int_equal(state_of(t, 0), TASK_WAITING);
    HEAR(t, 0, CANCEL, cancel, .job = J(1), .client = 4);
    says(t, "101 TASK_CANCEL id=3.1/0@1.1");
    ignore(t);
    assert_int_equal(state_of(t, 0), TASK_CANCELLED);
    talk_end(t);
}

static void test_a_worker_that_is_gone(void **state)
{
    struct talk *t = talk_running(2, 0);

    cancel(t, 1, 0, 0);
    ignore(t);
    HEAR(t, 101, PEER_LOST, peer_lost, 0);
    ignore(t);
    assert_int_equal(state_of(t, 0), TASK_CANCELLED);
    HEAR(t, 101, PEER_UP, peer_up, .role = ROLE_WORKER);
    ignore(t);
    held(t, 101, try_of(1, 0, 1, 1), TASK_RUNNING);
    says(t, "101 TASK_CANCEL id=3.1/0@1.1");
    talk_end(t);
}

static void test_the_worker_is_away_already(void **state)
{
    struct talk *t = talk_joined("hawk", 1);
    struct job_desc *desc = tagged(2);

    desc->flags |= JOB_DETACHED | JOB_AT_MOST_ONCE; /* in doubt, and so still at its worker */
    submit_durable(t, desc);
    request(t, 101, 1, 1);
    ignore(t);
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 2);
    says(t, "101 TASK_LAUNCH");
    ignore(t);
    HEAR(t, 101, PEER_LOST, peer_lost, 0);
    ignore(t);
    assert_int_equal(state_of(t, 0), TASK_LAUNCHED);
    cancel(t, 1, 0, 0);
    ignore(t);
    assert_int_equal(state_of(t, 0), TASK_CANCELLED);
    talk_end(t);
}

static void test_a_launch_that_is_not_on_record(void **state)
{
    struct talk *t = talk_joined("hawk", 1);
    struct job_desc *desc = tagged(2);

    desc->flags |= JOB_DETACHED | JOB_AT_MOST_ONCE;
    submit_durable(t, desc);
    request(t, 101, 1, 1);
    ignore(t);
    cancel(t, 1, 0, 0);
    says(t, "101 NO_TASK job=3.1 request=1");
    ignore(t);
    assert_int_equal(state_of(t, 0), TASK_CANCELLED);
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 9);
    ignore(t);
    assert_int_equal(state_of(t, 1), TASK_WAITING);
    talk_end(t);
}

/* ---- Central's tasks ---- */

static void test_central_is_told_when_it_has_them(void **state)
{
    struct talk *t = talk_joined("hawk", 1);

    submit_long(t, 3, 0);
    says(t, "central LONG_SUBMIT job=3.1");
    ignore(t);
    cancel(t, 1, 1, 2);
    says(t, "- CANCELLED job=3.1 client=4 err=0");
    assert_int_equal(state_of(t, 1), TASK_WAITING);
    HEAR(t, CENTRAL, LONG_ACCEPTED, long_accepted, .job = J(1), .epoch = 1);
    says(t, "central LONG_CANCEL_TASKS job=3.1 epoch=1 owner=1");
    ignore(t);
    /* One ends. Central restarts, and is asked what it has. */
    HEAR(t, CENTRAL, LONG_TASK, long_task, .id = try_of(1, 1, 1, 1), .state = TASK_CANCELLED);
    ignore(t);
    HEAR(t, CENTRAL, PEER_LOST, peer_lost, 0);
    ignore(t);
    central_joins(t);
    ignore(t);
    for (uint32_t i = 0; i < 3; i += 2)
        HEAR(t, CENTRAL, LONG_TASK, long_task, .id = try_of(1, i, 1, 0), .state = TASK_WAITING);
    HEAR(t, CENTRAL, LONG_WATCHED, long_watched, .job = J(1), .epoch = 1);
    says(t, "central LONG_CANCEL_TASKS job=3.1 epoch=1 owner=1");
    assert_int_equal(t->out.v[t->out.n - 1].long_cancel_tasks.tasks->n, 1);
    assert_int_equal(t->out.v[t->out.n - 1].long_cancel_tasks.tasks->v[0], 2);
    HEAR(t, CENTRAL, LONG_TASK, long_task, .id = try_of(1, 2, 1, 1), .state = TASK_CANCELLED);
    ignore(t);
    HEAR(t, CENTRAL, LONG_WATCHED, long_watched, .job = J(1), .epoch = 1);
    talk_end(t); /* and said no more */
}

/* Else the dist would stand still while central ends a million of them, one by one. */
static void test_their_ends_cost_nothing_more(void **state)
{
    struct talk *t = talk_joined("hawk", 1);
    const struct task_set *s;

    submit_long(t, 3, 0);
    ignore(t);
    HEAR(t, CENTRAL, LONG_ACCEPTED, long_accepted, .job = J(1), .epoch = 1);
    cancel(t, 1, 0, 1);
    ignore(t);
    s = dist_find(&t->d, J(1))->unwanted;
    HEAR(t, CENTRAL, LONG_TASK, long_task, .id = try_of(1, 0, 1, 1), .state = TASK_CANCELLED);
    ignore(t);
    assert_ptr_equal(dist_find(&t->d, J(1))->unwanted, s);
    /* Nor does the next one say the others again. */
    cancel(t, 1, 2, 2);
    for (uint32_t i = 0; i < t->out.n; i++)
        if (t->out.v[i].type == MSG_LONG_CANCEL_TASKS)
            assert_int_equal(t->out.v[i].long_cancel_tasks.tasks->n, 1);
    ignore(t);
    talk_end(t);
}

/* Some had ended before central got the rest, and no record says so. */
static void test_what_central_never_had_ends_after_a_restart(void **state)
{
    struct talk *t = talk_again();
    struct task_set *s = task_set_new(1);
    struct job_desc *desc = desc_new(3, "big");

    desc->tag = TAG_LONG;
    journal_job(t, 1, desc, 1, 1, NULL);
    HEAR(t, 0, JOURNAL_WAITS, journal_waits, .job = J(1), .epoch = 1, .unwanted = s);
    task_set_drop(s);
    HEAR(t, 0, RECOVERED, recovered, 0);
    central_joins(t);
    says(t, "central LONG_WATCH job=3.1");
    ignore(t);
    for (uint32_t i = 1; i < 3; i++)
        HEAR(t, CENTRAL, LONG_TASK, long_task, .id = try_of(1, i, 1, 0), .state = TASK_WAITING), ignore(t);
    assert_int_equal(state_of(t, 0), TASK_WAITING);
    HEAR(t, CENTRAL, LONG_WATCHED, long_watched, .job = J(1), .epoch = 1);
    ignore(t);
    assert_int_equal(state_of(t, 0), TASK_CANCELLED);
    assert_int_equal(state_of(t, 1), TASK_WAITING);
    talk_end(t);
}

/* The same, and the dist was killed before it could write that they were to end: no client was told so. */
static void test_what_central_never_had_and_no_record_names(void **state)
{
    struct talk *t = talk_again();
    struct job_desc *desc = desc_new(3, "big");

    desc->tag = TAG_LONG;
    journal_job(t, 1, desc, 1, 1, NULL);
    HEAR(t, 0, RECOVERED, recovered, 0);
    central_joins(t);
    says(t, "central LONG_WATCH job=3.1");
    ignore(t);
    worker_up(t, 101, 1, true);
    held_end(t, 101);
    wait_timer(t, 50000);
    ignore(t);
    for (uint32_t i = 1; i < 3; i++)
        HEAR(t, CENTRAL, LONG_TASK, long_task, .id = try_of(1, i, 1, 0), .state = TASK_WAITING), ignore(t);
    HEAR(t, CENTRAL, LONG_WATCHED, long_watched, .job = J(1), .epoch = 1);
    says(t, "101 PROBE job=3.1"); /* that task goes on from here */
    ignore(t);
    talk_end(t);
}

static void test_central_refuses_them(void **state)
{
    struct talk *t = talk_joined("hawk", 1);

    submit_long(t, 3, 0);
    ignore(t);
    cancel(t, 1, 0, 1);
    ignore(t);
    HEAR(t, CENTRAL, LONG_REFUSED, long_refused, .job = J(1), .epoch = 1, .err = HAWK_EBUSY);
    ignore(t);
    assert_int_equal(state_of(t, 0), TASK_CANCELLED);
    assert_int_equal(state_of(t, 2), TASK_WAITING);
    talk_end(t);
}

static void test_a_held_job_is_handed_over_without_them(void **state)
{
    struct talk *t = talk_joined("hawk", 1);
    struct job_desc *desc = desc_new(3, "big");

    desc->tag = TAG_LONG;
    desc->flags |= JOB_SUBMIT_HELD;
    submit(t, desc);
    ignore(t);
    cancel(t, 1, 1, 1);
    ignore(t);
    assert_int_equal(state_of(t, 1), TASK_CANCELLED);
    HEAR(t, 0, HOLD, hold, .job = J(1), .client = 4, .on = 0);
    says(t, "central LONG_SUBMIT job=3.1");
    for (uint32_t i = 0; i < t->out.n; i++)
        if (t->out.v[i].type == MSG_LONG_SUBMIT)
            assert_int_equal(t->out.v[i].long_submit.tasks->n, 2);
    ignore(t);
    talk_end(t);
}

static void test_an_old_central(void **state)
{
    struct talk *t = talk_joined("hawk", 1);

    submit_long(t, 3, 0);
    ignore(t);
    HEAR(t, CENTRAL, PEER_LOST, peer_lost, 0);
    HEAR(t, CENTRAL, PEER_UP, peer_up, .role = ROLE_CENTRAL, .version = 2);
    ignore(t);
    HEAR(t, CENTRAL, JOINED, joined, .cluster = 1, .heartbeat_us = 500000, .lease_us = 60000000,
         .node = {ME});
    ignore(t);
    cancel(t, 1, 1, 1);
    says(t, "- CANCELLED job=3.1 client=4 err=-");
    talk_end(t);
}

/* ---- The journal ---- */

static void test_the_answer_waits_for_the_records(void **state)
{
    struct talk *t = talk_joined("hawk", 1);
    struct job_desc *desc = tagged(3);

    desc->flags |= JOB_DETACHED;
    submit_durable(t, desc);
    request(t, 101, 1, 1);
    ignore(t);
    cancel(t, 1, 0, 1);
    says(t, "101 TASK_CANCEL id=3.1/0@1.1");
    says(t, "- JOURNAL_WAITS job=3.1");
    assert_int_equal(t->out.v[t->out.n - 1].journal_waits.unwanted->n, 2);
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 2);
    says(t, "- CANCELLED job=3.1 client=4 err=0");
    talk_end(t);
}

static void test_they_are_read_back(void **state)
{
    struct talk *t = talk_again();
    struct task_set *s = task_set_new(2);

    s->v[1] = 2;
    journal_job(t, 1, tagged(4), 1, 0, NULL);
    HEAR(t, 0, JOURNAL_WAITS, journal_waits, .job = J(1), .epoch = 1, .unwanted = s);
    task_set_drop(s);
    HEAR(t, 0, RECOVERED, recovered, 0);
    ignore(t);
    central_joins(t);
    worker_up(t, 101, 1, true);
    ignore(t);
    held(t, 101, try_of(1, 0, 1, 1), TASK_RUNNING);
    says(t, "101 TASK_CANCEL id=3.1/0@1.1");
    held(t, 101, try_of(1, 1, 1, 1), TASK_RUNNING);
    ignore(t);
    assert_int_equal(state_of(t, 0), TASK_CANCELLED);
    assert_int_equal(state_of(t, 1), TASK_RUNNING);
    assert_int_equal(state_of(t, 2), TASK_CANCELLED);
    assert_int_equal(state_of(t, 3), TASK_WAITING);
    talk_end(t);
}

/* The environment of a job that its client cancelled goes; others may run again. */
static void test_which_jobs_may_run_again(void **state)
{
    struct talk *t = talk_joined("hawk", 1);

    for (uint64_t seq = 1; seq <= 2; seq++) {
        struct job_desc *desc = tagged(1);

        strings_add(&desc->env, "A=b");
        submit(t, desc);
        ignore(t);
    }
    cancel(t, 1, 0, 0);
    ignore(t);
    HEAR(t, 0, CANCEL, cancel, .job = J(2), .client = 4);
    ignore(t);
    for (uint64_t seq = 1; seq <= 2; seq++) {
        assert_int_equal(job_view_of(t, seq).state, JOB_CANCELLED);
        assert_int_equal(job_view_of(t, seq).desc->env.n, seq == 1);
        assert_int_equal(job_view_of(t, seq).by_client, seq == 2);
    }
    talk_end(t);
}

static void test_what_is_refused(void **state)
{
    struct talk *t = talk_running(2, 0);

    cancel(t, 1, 1, 2);
    says(t, "- CANCELLED job=3.1 client=4 err=-");
    cancel(t, 7, 0, 0);
    says(t, "- CANCELLED job=3.7 client=4 err=-");
    assert_int_equal(state_of(t, 1), TASK_WAITING);
    talk_end(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_others_go_on),
        cmocka_unit_test(test_what_fails_meanwhile_runs_no_more),
        cmocka_unit_test(test_a_suspect_worker_is_told_to_stop_what_may_run),
        cmocka_unit_test(test_a_worker_that_is_gone),
        cmocka_unit_test(test_the_worker_is_away_already),
        cmocka_unit_test(test_a_launch_that_is_not_on_record),
        cmocka_unit_test(test_central_is_told_when_it_has_them),
        cmocka_unit_test(test_their_ends_cost_nothing_more),
        cmocka_unit_test(test_what_central_never_had_ends_after_a_restart),
        cmocka_unit_test(test_what_central_never_had_and_no_record_names),
        cmocka_unit_test(test_central_refuses_them),
        cmocka_unit_test(test_a_held_job_is_handed_over_without_them),
        cmocka_unit_test(test_an_old_central),
        cmocka_unit_test(test_the_answer_waits_for_the_records),
        cmocka_unit_test(test_they_are_read_back),
        cmocka_unit_test(test_which_jobs_may_run_again),
        cmocka_unit_test(test_what_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
