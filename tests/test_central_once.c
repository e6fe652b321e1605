/* Long tasks at most once: launches on record, and what is in doubt after a restart of central (protocol 4, 6). */
#include "tests/test_central.h"

/* A job at most once of so many tasks is accepted; what it launches is not recorded yet. */
static void submit_once(struct cluster *c, uint32_t tasks)
{
    struct job_desc *d = once_desc(tasks);

    c->t.journal_by_hand = true;
    tell(&c->t, LONG_SUBMIT, long_submit, c->d, .job = JOB(c->d, 1), .desc = d, .estimate_us = 5 * S,
         .epoch = 1);
    tell(&c->t, JOURNAL_DONE, journal_done, 0, .token = expect(&c->t, JOURNAL_JOB, journal_job, 0)->token);
    job_desc_drop(d);
}

static void a_launch_at_most_once_is_recorded_before_it_is_sent(void **state)
{
    struct cluster c;
    const struct msg_journal_task *t;
    uint64_t token;

    begin(&c, 1);
    submit_once(&c, 1);
    expect_none(&c.t, TASK_ENQUEUE, c.w[0]);
    t = expect(&c.t, JOURNAL_TASK, journal_task, 0);
    assert_int_equal(t->state, TASK_PLACED);
    assert_int_equal(t->id.attempt, 1);
    token = t->token;
    /* The disk is full: it is tried again, and nothing is sent. */
    tell(&c.t, JOURNAL_DONE, journal_done, 0, .token = token, .err = HAWK_ELIMIT);
    expect_none(&c.t, TASK_ENQUEUE, c.w[0]);
    pass(&c.t, 1 * S);
    token = expect(&c.t, JOURNAL_TASK, journal_task, 0)->token;
    tell(&c.t, JOURNAL_DONE, journal_done, 0, .token = token);
    assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0])->id.attempt, 1);
    end(&c);
}

static void a_launch_that_was_not_sent_may_go_elsewhere(void **state)
{
    struct cluster c;
    uint64_t token;

    begin(&c, 2);
    submit_once(&c, 1);
    token = expect(&c.t, JOURNAL_TASK, journal_task, 0)->token;
    /* Its worker goes away before the record is written: the other one gets it, once that is written. */
    tell(&c.t, PEER_LOST, peer_lost, c.w[0], 0);
    tell(&c.t, JOURNAL_DONE, journal_done, 0, .token = token);
    expect_none(&c.t, TASK_ENQUEUE, c.w[0]);
    expect_none(&c.t, TASK_ENQUEUE, c.w[1]);
    assert_int_equal(expect(&c.t, JOURNAL_TASK, journal_task, 0)->id.attempt, 2);
    tell(&c.t, JOURNAL_DONE, journal_done, 0, .token = token + 1);
    assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[1])->id.attempt, 2);
    end(&c);
}

static void a_launch_that_waits_to_be_recorded_is_cancelled_at_once(void **state)
{
    struct cluster c;
    uint64_t token;

    begin(&c, 1);
    submit_once(&c, 1);
    token = expect(&c.t, JOURNAL_TASK, journal_task, 0)->token;
    tell(&c.t, LONG_CANCEL, long_cancel, c.d, .job = JOB(c.d, 1), .epoch = 1);
    expect_none(&c.t, TASK_CANCEL, c.w[0]);
    assert_int_equal(expect(&c.t, JOURNAL_TASK, journal_task, 0)->state, TASK_CANCELLED);
    tell(&c.t, JOURNAL_DONE, journal_done, 0, .token = token + 2);
    expect_none(&c.t, TASK_ENQUEUE, c.w[0]);
    expect_task(&c, 0, TASK_CANCELLED);
    end(&c);
}

/* The first loss cancels the rest of the job, of which another one waits in the same queue. */
static void a_worker_that_lost_what_it_had_may_end_the_job(void **state)
{
    struct cluster c;
    struct job_desc *d = once_desc(3);
    uint32_t w;

    begin(&c, 1);
    c.t.journal_by_hand = true;
    d->max_fails = 1;
    tell(&c.t, LONG_SUBMIT, long_submit, c.d, .job = JOB(c.d, 1), .desc = d, .estimate_us = 5 * S,
         .epoch = 1);
    job_desc_drop(d);
    tell(&c.t, JOURNAL_DONE, journal_done, 0, .token = expect(&c.t, JOURNAL_JOB, journal_job, 0)->token);
    /* Of three launches the first one is on record, and sent; then its stream breaks. */
    tell(&c.t, JOURNAL_DONE, journal_done, 0, .token = expect(&c.t, JOURNAL_TASK, journal_task, 0)->token);
    assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0])->id.task, 0);
    tell(&c.t, PEER_LOST, peer_lost, c.w[0], 0);
    w = join(&c.t, (struct join){.name = "w0", .slots = 1, .role = ROLE_WORKER});
    tell(&c.t, HELD_END, held_end, w, 0);
    assert_int_equal(expect(&c.t, JOURNAL_TASK, journal_task, 0)->state, TASK_LOST);
    assert_int_equal(expect(&c.t, JOURNAL_TASK, journal_task, 0)->state, TASK_CANCELLED);
    assert_int_equal(expect(&c.t, JOURNAL_TASK, journal_task, 0)->state, TASK_CANCELLED);
    expect_none(&c.t, JOURNAL_TASK, 0);
    end(&c);
}

static void a_task_in_doubt_is_lost_and_never_run_again(void **state)
{
    struct cluster c;

    begin(&c, 2);
    submit_once(&c, 2);
    c.t.journal_by_hand = false;
    tell(&c.t, JOURNAL_DONE, journal_done, 0, .token = 6);
    tell(&c.t, PEER_LOST, peer_lost, c.w[0], 0);
    pass(&c.t, 59 * S);
    expect_none(&c.t, LONG_TASK, c.d);
    pass(&c.t, 2 * S);
    assert_int_equal(expect(&c.t, JOURNAL_TASK, journal_task, 0)->state, TASK_LOST);
    expect_none(&c.t, TASK_ENQUEUE, c.w[1]);
    /* What is handed back was certainly not run. */
    tell(&c.t, TASK_RETURNED, task_returned, c.w[1], .id = try_of(c.d, 1, 1, 1));
    expect_none(&c.t, JOURNAL_TASK, 0);
    end(&c);
}

static void after_a_restart_only_recorded_launches_are_in_doubt(void **state)
{
    struct cluster c;
    struct job_desc *d = once_desc(3);
    struct blob *w0 = blob_str("w0");

    talk_config(&c.t);
    talk_start(&c.t);
    tell(&c.t, JOURNAL_NODE, journal_node, 0, .name = w0, .node = {1}, .role = ROLE_WORKER);
    tell(&c.t, JOURNAL_JOB, journal_job, 0, .job = JOB(9, 1), .desc = d, .estimate_us = 9 * S, .epoch = 1);
    tell(&c.t, JOURNAL_TASK, journal_task, 0, .id = try_of(9, 1, 0, 1), .state = TASK_PLACED, .worker = {2});
    tell(&c.t, JOURNAL_TASK, journal_task, 0, .id = try_of(9, 1, 2, 3), .state = TASK_PLACED, .worker = {1});
    tell(&c.t, RECOVERED, recovered, 0, 0);
    c.w[0] = join(&c.t, (struct join){.name = "w0", .slots = 1, .role = ROLE_WORKER});
    tell(&c.t, TASK_HELD, task_held, c.w[0], .id = try_of(9, 1, 2, 3), .state = TASK_RUNNING);
    expect_none(&c.t, TASK_CANCEL, c.w[0]);
    tell(&c.t, HELD_END, held_end, c.w[0], 0);
    ack_partition(&c.t, c.w[0]);
    tell(&c.t, LONG_WATCH, long_watch, join(&c.t, (struct join){.name = "d1", .role = ROLE_DIST}),
         .job = JOB(9, 1), .epoch = 1);
    /* Task 1 was never launched: it is, for the first time. */
    assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0])->id.task, 1);
    pass(&c.t, 60 * S);
    assert_int_equal(expect(&c.t, JOURNAL_TASK, journal_task, 0)->state, TASK_LOST);
    finished(&c.t, c.w[0], try_of(9, 1, 2, 3), OUTCOME_EXITED, 0, 5 * S);
    assert_int_equal(expect(&c.t, JOURNAL_TASK, journal_task, 0)->state, TASK_DONE);
    job_desc_drop(d);
    blob_drop(w0);
    end(&c);
}

/* It can be no other's: whoever claims it or tells of its end is wrong, or lies. */
static void after_a_restart_what_is_in_doubt_is_the_workers_on_record(void **state)
{
    struct cluster c;
    struct job_desc *d = once_desc(1);
    struct blob *w0 = blob_str("w0"), *w1 = blob_str("w1");
    struct try_id id = try_of(9, 1, 0, 1);

    talk_config(&c.t);
    talk_start(&c.t);
    tell(&c.t, JOURNAL_NODE, journal_node, 0, .name = w0, .node = {1}, .role = ROLE_WORKER);
    tell(&c.t, JOURNAL_NODE, journal_node, 0, .name = w1, .node = {2}, .role = ROLE_WORKER);
    tell(&c.t, JOURNAL_JOB, journal_job, 0, .job = JOB(9, 1), .desc = d, .estimate_us = 9 * S, .epoch = 1);
    tell(&c.t, JOURNAL_TASK, journal_task, 0, .id = id, .state = TASK_PLACED, .worker = {1});
    tell(&c.t, RECOVERED, recovered, 0, 0);
    c.w[1] = join(&c.t, (struct join){.name = "w1", .slots = 1, .role = ROLE_WORKER});
    tell(&c.t, TASK_HELD, task_held, c.w[1], .id = id, .state = TASK_RUNNING);
    assert_int_equal(expect(&c.t, TASK_CANCEL, task_cancel, c.w[1])->id.attempt, 1);
    finished(&c.t, c.w[1], id, OUTCOME_NOT_STARTED, CODE_CANNOT_START, 0);
    expect(&c.t, FINISH_ACK, finish_ack, c.w[1]);
    finished(&c.t, c.w[1], id, OUTCOME_EXITED, 0, 5 * S);
    expect(&c.t, FINISH_ACK, finish_ack, c.w[1]);
    tell(&c.t, TASK_RETURNED, task_returned, c.w[1], .id = id);
    tell(&c.t, HELD_END, held_end, c.w[1], 0);
    expect_none(&c.t, TASK_ENQUEUE, c.w[1]);
    expect_none(&c.t, JOURNAL_TASK, 0);
    c.w[0] = join(&c.t, (struct join){.name = "w0", .slots = 1, .role = ROLE_WORKER});
    tell(&c.t, TASK_HELD, task_held, c.w[0], .id = id, .state = TASK_RUNNING);
    expect_none(&c.t, TASK_CANCEL, c.w[0]);
    finished(&c.t, c.w[0], id, OUTCOME_EXITED, 0, 5 * S);
    assert_int_equal(expect(&c.t, JOURNAL_TASK, journal_task, 0)->state, TASK_DONE);
    job_desc_drop(d);
    blob_drop(w0);
    blob_drop(w1);
    end(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_launch_at_most_once_is_recorded_before_it_is_sent),
        cmocka_unit_test(a_launch_that_was_not_sent_may_go_elsewhere),
        cmocka_unit_test(a_launch_that_waits_to_be_recorded_is_cancelled_at_once),
        cmocka_unit_test(a_worker_that_lost_what_it_had_may_end_the_job),
        cmocka_unit_test(a_task_in_doubt_is_lost_and_never_run_again),
        cmocka_unit_test(after_a_restart_only_recorded_launches_are_in_doubt),
        cmocka_unit_test(after_a_restart_what_is_in_doubt_is_the_workers_on_record),
    };

    return cmocka_run_group_tests_name("central_recovery", tests, NULL, NULL);
}
