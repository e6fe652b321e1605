/* Central places long tasks (Hawk 3.7). */
#include "tests/test_central.h"

/* ---- Placement (Hawk 3.7) ---- */

static void tasks_go_to_the_worker_with_the_least_waiting_time(void **state)
{
    struct cluster c;

    begin(&c, 3);
    submit(&c.t, c.d, 1, 2, 100 * S);
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0]);
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[1]);
    submit(&c.t, c.d, 2, 3, 40 * S); /* 40, 80, then level with the others at 100: w0 is first */
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[2]);
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[2]);
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[2]);
    expect_task(&c, 0, TASK_PLACED);
    assert_int_equal(expect_task(&c, 1, TASK_PLACED)->wait_us, 40 * S);
    assert_int_equal(expect_task(&c, 2, TASK_PLACED)->wait_us, 80 * S);
    submit(&c.t, c.d, 3, 1, 1 * S);
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0]);
    /* w1 starts; 60 s later it has 40 s left, less than any. */
    started(&c.t, c.w[1], try_of(c.d, 1, 1, 1));
    c.t.now_us += 60 * S;
    submit(&c.t, c.d, 4, 1, 1 * S);
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[1]);
    assert_int_equal(expect_task(&c, 0, TASK_PLACED)->wait_us, 40 * S);
    end(&c);
}

/* A dist takes no longer time: it would cut central's link. */
static void a_forecast_is_no_longer_than_a_time_may_be(void **state)
{
    struct cluster c;

    begin(&c, 1);
    submit(&c.t, c.d, 1, 4, LIMIT_TIME_US);
    for (uint32_t i = 0; i < 4; i++) {
        const struct msg_long_task *t = expect_task(&c, i, TASK_PLACED);

        assert_int_equal(t->wait_us, i ? LIMIT_TIME_US : 0);
    }
    end(&c);
}

static void a_job_without_a_general_worker_waits(void **state)
{
    struct cluster c;
    uint32_t w, epoch;

    begin(&c, 0);
    submit(&c.t, c.d, 1, 2, 5 * S);
    expect(&c.t, LONG_ACCEPTED, long_accepted, c.d);
    assert_int_equal(view_of(&c, 1).waiting, 2);
    w = join(&c.t, (struct join){.name = "w1", .slots = 1, .role = ROLE_WORKER});
    epoch = expect(&c.t, PARTITION, partition, w)->epoch;
    expect_none(&c.t, TASK_ENQUEUE, w); /* it does not know that it is general */
    tell(&c.t, PARTITION_ACK, partition_ack, w, .epoch = epoch);
    expect(&c.t, TASK_ENQUEUE, task_enqueue, w);
    expect(&c.t, TASK_ENQUEUE, task_enqueue, w);
    assert_int_equal(view_of(&c, 1).placed, 2);
    end(&c);
}

static void a_job_without_an_estimate_counts_as_long_as_the_cutoff(void **state)
{
    struct cluster c;

    begin(&c, 2);
    submit(&c.t, c.d, 1, 3, 0); /* spread, not all to one */
    assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0])->estimate_us, 10 * S);
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[1]);
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0]);
    end(&c);
}

static void a_worker_that_becomes_reserved_gets_nothing_more_and_hands_back(void **state)
{
    struct cluster c;
    uint32_t epoch;

    talk_config(&c.t);
    c.t.config.history.share_ppm = 340000;
    talk_start(&c.t);
    tell(&c.t, RECOVERED, recovered, 0, 0);
    c.d = add_dist(&c.t, "d1");
    c.w[0] = add_worker(&c.t, "w0", 1);
    submit(&c.t, c.d, 1, 2, 5 * S);
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0]);
    started(&c.t, c.w[0], try_of(c.d, 1, 0, 1));
    c.w[1] = add_worker(&c.t, "w1", 1);
    c.w[2] = join(&c.t, (struct join){.name = "w2", .slots = 1, .role = ROLE_WORKER});
    /* A third of three: w0. From here on nothing goes there, though it does not know yet. */
    epoch = expect(&c.t, PARTITION, partition, c.w[0])->epoch;
    submit(&c.t, c.d, 2, 3, 5 * S);
    assert_int_equal(count_out(&c.t, MSG_TASK_ENQUEUE), 3);
    expect_none(&c.t, TASK_ENQUEUE, c.w[0]);
    tell(&c.t, TASK_RETURNED, task_returned, c.w[0], .id = try_of(c.d, 1, 1, 1));
    assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[1])->id.attempt, 2);
    tell(&c.t, PARTITION_ACK, partition_ack, c.w[0], .epoch = epoch);
    expect_nothing_else(&c.t); /* it is not draining: it serves short tasks */
    finished(&c.t, c.w[0], try_of(c.d, 1, 0, 1), OUTCOME_EXITED, 0, 5 * S); /* what ran, ran on */
    expect_task(&c, 0, TASK_DONE);
    end(&c);
}

static void what_a_worker_hands_back_goes_elsewhere(void **state)
{
    struct cluster c;

    begin(&c, 2);
    submit(&c.t, c.d, 1, 2, 5 * S);
    tell(&c.t, TASK_RETURNED, task_returned, c.w[0], .id = try_of(c.d, 1, 0, 1));
    expect_task(&c, 0, TASK_WAITING);
    assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[1])->id.attempt, 2);
    expect_none(&c.t, TASK_ENQUEUE, c.w[0]); /* or it would come back for ever */
    expect_none(&c.t, MEMBER, c.d);
    /* Its lease was over for a moment: it is as good as any again when it is heard of. */
    tell(&c.t, HEARTBEAT, heartbeat, c.w[0], .seq = 7);
    submit(&c.t, c.d, 2, 1, 5 * S);
    assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0])->id.job.v, JOB(c.d, 2).v);
    end(&c);
}

/* Without the warning the killed task would be placed there again, and lost again. */
static void nothing_goes_to_a_draining_worker(void **state)
{
    struct cluster c;
    struct job_desc *d = desc_of("", 1);

    begin(&c, 2);
    d->lost_retries = 1;
    tell(&c.t, LONG_SUBMIT, long_submit, c.d, .job = JOB(c.d, 1), .desc = d, .estimate_us = 5 * S,
         .epoch = 1);
    job_desc_drop(d);
    started(&c.t, c.w[0], try_of(c.d, 1, 0, 1));
    tell(&c.t, DRAINING, draining, c.w[0], 0);
    assert_int_equal(expect(&c.t, MEMBER, member, c.d)->state, MEMBER_DRAINING);
    finished(&c.t, c.w[0], try_of(c.d, 1, 0, 1), OUTCOME_LOST, 0, 0);
    assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[1])->id.attempt, 2);
    expect_none(&c.t, TASK_ENQUEUE, c.w[0]);
    end(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tasks_go_to_the_worker_with_the_least_waiting_time),
        cmocka_unit_test(a_forecast_is_no_longer_than_a_time_may_be),
        cmocka_unit_test(a_job_without_a_general_worker_waits),
        cmocka_unit_test(a_job_without_an_estimate_counts_as_long_as_the_cutoff),
        cmocka_unit_test(a_worker_that_becomes_reserved_gets_nothing_more_and_hands_back),
        cmocka_unit_test(what_a_worker_hands_back_goes_elsewhere),
        cmocka_unit_test(nothing_goes_to_a_draining_worker),
    };

    return cmocka_run_group_tests_name("central_placement", tests, NULL, NULL);
}
