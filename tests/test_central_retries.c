/* Central and long tasks that fail and run again (docs/protocol.md 3.14). */
#include "tests/test_central.h"

#include <time.h>

static void submit_tasks(struct cluster *c, uint64_t seq, uint32_t tasks, uint16_t retries, int64_t delay_us)
{
    struct job_desc *d = desc_of("", tasks);

    d->failure_retries = retries;
    d->retry_delay_us = delay_us;
    tell(&c->t, LONG_SUBMIT, long_submit, c->d, .job = JOB(c->d, seq), .desc = d, .estimate_us = 5 * S,
         .epoch = 1);
    job_desc_drop(d);
}

static void submit_retries(struct cluster *c, uint16_t retries, int64_t delay_us)
{
    submit_tasks(c, 1, 1, retries, delay_us);
}

static void a_failed_task_is_placed_again(void **state)
{
    struct cluster c;

    begin(&c, 1);
    submit_retries(&c, 1, 0);
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0]);
    started(&c.t, c.w[0], try_of(c.d, 1, 0, 1));
    finished(&c.t, c.w[0], try_of(c.d, 1, 0, 1), OUTCOME_EXITED, 3, 1 * S);
    assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0])->id.attempt, 2);
    finished(&c.t, c.w[0], try_of(c.d, 1, 0, 1), OUTCOME_EXITED, 3, 1 * S); /* again: it counts once */
    started(&c.t, c.w[0], try_of(c.d, 1, 0, 2));
    finished(&c.t, c.w[0], try_of(c.d, 1, 0, 2), OUTCOME_EXITED, 3, 1 * S);
    expect_task(&c, 0, TASK_FAILED);
    expect_forgotten(&c);
    end(&c);
}

static void it_waits_for_its_time(void **state)
{
    struct cluster c;

    begin(&c, 1);
    submit_retries(&c, 3, 100 * S);
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0]);
    started(&c.t, c.w[0], try_of(c.d, 1, 0, 1));
    expect_task(&c, 0, TASK_RUNNING);
    finished(&c.t, c.w[0], try_of(c.d, 1, 0, 1), OUTCOME_SIGNALED, 9, 1 * S);
    assert_int_equal(expect_task(&c, 0, TASK_WAITING)->outcome, OUTCOME_SIGNALED);
    expect_none(&c.t, LONG_TASK, c.d);
    /* Its worker has reported it. */
    tell(&c.t, LONG_WATCH, long_watch, c.d, .job = JOB(c.d, 1), .epoch = 1);
    assert_int_equal(expect_task(&c, 0, TASK_WAITING)->outcome, OUTCOME_SIGNALED);
    assert_int_equal(expect(&c.t, LONG_WATCHED, long_watched, c.d)->unreported_us, 0);
    pass(&c.t, 100 * S - 1);
    expect_none(&c.t, TASK_ENQUEUE, c.w[0]);
    pass(&c.t, 1);
    assert_int_equal(expect_task(&c, 0, TASK_WAITING)->outcome, OUTCOME_NONE);
    expect_task(&c, 0, TASK_PLACED);
    assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0])->id.attempt, 2);
    end(&c);
}

static void who_waits_for_its_time_is_cancelled_at_once(void **state)
{
    struct cluster c;

    begin(&c, 1);
    submit_retries(&c, 3, 100 * S);
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0]);
    finished(&c.t, c.w[0], try_of(c.d, 1, 0, 1), OUTCOME_SIGNALED, 9, 1 * S);
    tell(&c.t, LONG_CANCEL, long_cancel, c.d, .job = JOB(c.d, 1), .epoch = 1);
    expect_task(&c, 0, TASK_CANCELLED);
    expect_forgotten(&c);
    end(&c);
}

/* All tasks of the job fail, one after the other. Returns the time that central takes. */
static clock_t fail_all(struct cluster *c, uint64_t seq, uint32_t tasks)
{
    clock_t began = clock();

    for (uint32_t i = 0; i < tasks; i++) {
        struct event e = {.now_us = c->t.now_us, .m = {.type = MSG_TASK_FINISHED, .peer = c->w[0]}};

        e.m.task_finished.id = try_of(c->d, seq, i, 1);
        e.m.task_finished.outcome = OUTCOME_EXITED;
        e.m.task_finished.code = 3;
        talk_clear(&c->t);
        central_step(c->t.c, &e, &c->t.out);
    }
    return clock() - began;
}

static void many_that_wait_long_do_not_slow_down_those_that_wait_briefly(void **state)
{
    const uint32_t many = 100000, few = 10000;
    struct cluster c;
    clock_t all;

    begin(&c, 1);
    c.t.journal_by_hand = true;
    submit_tasks(&c, 1, many, 1, 3600 * S);
    tell(&c.t, JOURNAL_DONE, journal_done, 0, .token = expect(&c.t, JOURNAL_JOB, journal_job, 0)->token);
    submit_tasks(&c, 2, few, 1, 1 * S);
    tell(&c.t, JOURNAL_DONE, journal_done, 0, .token = expect(&c.t, JOURNAL_JOB, journal_job, 0)->token);
    all = fail_all(&c, 1, many);
    assert_true(fail_all(&c, 2, few) < all);
    pass(&c.t, 1 * S);
    assert_int_equal(count_out(&c.t, MSG_TASK_ENQUEUE), few);
    end(&c);
}

/* A central whose journal lost a try gives its number to another one: two workers may run tries of one name. */
static void who_fails_elsewhere_does_not_count(void **state)
{
    struct cluster c;

    begin(&c, 2);
    submit_retries(&c, 3, 0);
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0]);
    started(&c.t, c.w[0], try_of(c.d, 1, 0, 1));
    finished(&c.t, c.w[1], try_of(c.d, 1, 0, 1), OUTCOME_EXITED, 3, 1 * S);
    expect(&c.t, FINISH_ACK, finish_ack, c.w[1]);
    expect_none(&c.t, TASK_ENQUEUE, c.w[1]);
    expect_none(&c.t, LONG_TASK, c.d);
    finished(&c.t, c.w[0], try_of(c.d, 1, 0, 1), OUTCOME_EXITED, 0, 2 * S);
    expect_task(&c, 0, TASK_DONE);
    end(&c);
}

/* Central restarts from the journal of job 1, which runs again twice when it fails, and of the workers w0 and w1. The
 * journal has this record of the task. */
static void recover(struct cluster *c, int64_t delay_us, struct msg_journal_task task)
{
    struct job_desc *d = desc_of("", 1);
    struct blob *names[] = {blob_str("d1"), blob_str("w0"), blob_str("w1")};

    d->failure_retries = 2;
    d->retry_delay_us = delay_us;
    talk_config(&c->t);
    c->t.config.epoch = 2;
    talk_start(&c->t);
    for (uint32_t i = 0; i < 3; i++)
        tell(&c->t, JOURNAL_NODE, journal_node, 0, .name = names[i], .node = {i + 1},
             .role = i ? ROLE_WORKER : ROLE_DIST);
    tell(&c->t, JOURNAL_JOB, journal_job, 0, .job = JOB(1, 1), .desc = d, .estimate_us = 5 * S, .epoch = 1);
    if (task.id.attempt)
        tell_msg(&c->t, (struct msg){.type = MSG_JOURNAL_TASK, .journal_task = task});
    tell(&c->t, RECOVERED, recovered, 0, 0);
    job_desc_drop(d);
    for (uint32_t i = 0; i < 3; i++)
        blob_drop(names[i]);
    c->d = join(&c->t, (struct join){.name = "d1", .role = ROLE_DIST});
    tell(&c->t, LONG_WATCH, long_watch, c->d, .job = JOB(1, 1), .epoch = 1);
}

/* A worker that is back, and holds nothing but what it has told before. */
static uint32_t come_back(struct cluster *c, const char *name)
{
    return join(&c->t, (struct join){.name = name, .slots = 1, .role = ROLE_WORKER});
}

/* Of which central first hears after the earlier one has failed. */
static void a_later_try_that_fails_counts_too(void **state)
{
    struct cluster c;

    recover(&c, 0, (struct msg_journal_task){0});
    c.w[0] = come_back(&c, "w0");
    finished(&c.t, c.w[0], try_of(1, 1, 0, 1), OUTCOME_EXITED, 3, 1 * S);
    tell(&c.t, HELD_END, held_end, c.w[0], 0);
    c.w[1] = come_back(&c, "w1");
    tell(&c.t, TASK_HELD, task_held, c.w[1], .id = try_of(1, 1, 0, 2), .run_us = 2 * S,
         .state = TASK_RUNNING);
    expect_task(&c, 0, TASK_RUNNING);
    finished(&c.t, c.w[1], try_of(1, 1, 0, 2), OUTCOME_EXITED, 3, 5 * S);
    assert_int_equal(expect(&c.t, JOURNAL_TASK, journal_task, 0)->failures, 2);
    expect_task(&c, 0, TASK_WAITING);
    end(&c);
}

/* Nor is that a reason for one copy more, while an earlier one runs. */
static void a_later_try_that_fails_elsewhere_makes_no_copy(void **state)
{
    struct cluster c;

    recover(&c, 0, (struct msg_journal_task){0});
    c.w[0] = come_back(&c, "w0");
    tell(&c.t, TASK_HELD, task_held, c.w[0], .id = try_of(1, 1, 0, 1), .run_us = 2 * S,
         .state = TASK_RUNNING);
    tell(&c.t, HELD_END, held_end, c.w[0], 0);
    c.w[1] = come_back(&c, "w1");
    finished(&c.t, c.w[1], try_of(1, 1, 0, 2), OUTCOME_EXITED, 3, 1 * S);
    expect(&c.t, FINISH_ACK, finish_ack, c.w[1]);
    expect_none(&c.t, JOURNAL_TASK, 0);
    expect_none(&c.t, LONG_TASK, c.d);
    tell(&c.t, HELD_END, held_end, c.w[1], 0);
    finished(&c.t, c.w[0], try_of(1, 1, 0, 1), OUTCOME_EXITED, 0, 5 * S);
    expect_task(&c, 0, TASK_DONE);
    end(&c);
}

/* The last worker that may have a later try comes back before the time is over. */
static void it_waits_for_its_time_although_all_are_back(void **state)
{
    struct cluster c;

    recover(&c, 30 * S, (struct msg_journal_task){0});
    c.w[0] = come_back(&c, "w0");
    finished(&c.t, c.w[0], try_of(1, 1, 0, 1), OUTCOME_EXITED, 3, 1 * S);
    tell(&c.t, HELD_END, held_end, c.w[0], 0);
    pass(&c.t, 1 * S);
    c.w[1] = come_back(&c, "w1");
    tell(&c.t, HELD_END, held_end, c.w[1], 0);
    assert_int_equal(expect_task(&c, 0, TASK_WAITING)->outcome, OUTCOME_EXITED);
    pass(&c.t, 29 * S - 1);
    expect_none(&c.t, LONG_TASK, c.d);
    pass(&c.t, 1);
    assert_int_equal(expect_task(&c, 0, TASK_WAITING)->outcome, OUTCOME_NONE);
    end(&c);
}

/* Its worker did not hear that central has the failure on record. */
static void a_failure_on_record_counts_once(void **state)
{
    struct cluster c;

    recover(&c, 0,
            (struct msg_journal_task){
                .id = try_of(1, 1, 0, 1), .state = TASK_WAITING, .outcome = OUTCOME_EXITED, .failures = 1});
    c.w[0] = come_back(&c, "w0");
    finished(&c.t, c.w[0], try_of(1, 1, 0, 1), OUTCOME_EXITED, 3, 1 * S);
    expect(&c.t, FINISH_ACK, finish_ack, c.w[0]);
    expect_none(&c.t, JOURNAL_TASK, 0);
    tell(&c.t, HELD_END, held_end, c.w[0], 0);
    /* A later try, which is not on record, is taken up, and its failure counts. */
    c.w[1] = come_back(&c, "w1");
    tell(&c.t, TASK_HELD, task_held, c.w[1], .id = try_of(1, 1, 0, 2), .run_us = 2 * S,
         .state = TASK_RUNNING);
    expect_task(&c, 0, TASK_RUNNING);
    finished(&c.t, c.w[1], try_of(1, 1, 0, 2), OUTCOME_EXITED, 3, 5 * S);
    assert_int_equal(expect(&c.t, JOURNAL_TASK, journal_task, 0)->failures, 2);
    end(&c);
}

/* A worker that says that it has the try which failed elsewhere has to end it. */
static void a_try_that_has_failed_is_not_taken_up_again(void **state)
{
    struct cluster c;

    begin(&c, 2);
    submit_retries(&c, 3, 100 * S);
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0]);
    started(&c.t, c.w[0], try_of(c.d, 1, 0, 1));
    finished(&c.t, c.w[0], try_of(c.d, 1, 0, 1), OUTCOME_EXITED, 3, 1 * S);
    tell(&c.t, TASK_HELD, task_held, c.w[1], .id = try_of(c.d, 1, 0, 1), .state = TASK_RUNNING);
    assert_int_equal(expect(&c.t, TASK_CANCEL, task_cancel, c.w[1])->id.attempt, 1);
    end(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failed_task_is_placed_again),
        cmocka_unit_test(it_waits_for_its_time),
        cmocka_unit_test(who_waits_for_its_time_is_cancelled_at_once),
        cmocka_unit_test(many_that_wait_long_do_not_slow_down_those_that_wait_briefly),
        cmocka_unit_test(who_fails_elsewhere_does_not_count),
        cmocka_unit_test(a_later_try_that_fails_counts_too),
        cmocka_unit_test(a_later_try_that_fails_elsewhere_makes_no_copy),
        cmocka_unit_test(it_waits_for_its_time_although_all_are_back),
        cmocka_unit_test(a_failure_on_record_counts_once),
        cmocka_unit_test(a_try_that_has_failed_is_not_taken_up_again),
    };

    return cmocka_run_group_tests_name("central_retries", tests, NULL, NULL);
}
