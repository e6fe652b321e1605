/* Central and long tasks that fail and run again (docs/protocol.md 3.14). */
#include "tests/test_central.h"

static void submit_retries(struct cluster *c, uint16_t retries, int64_t delay_us)
{
    struct job_desc *d = desc_of("", 1);

    d->failure_retries = retries;
    d->retry_delay_us = delay_us;
    tell(&c->t, LONG_SUBMIT, long_submit, c->d, .job = JOB(c->d, 1), .desc = d, .estimate_us = 5 * S,
         .epoch = 1);
    job_desc_drop(d);
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
    finished(&c.t, c.w[0], try_of(c.d, 1, 0, 1), OUTCOME_SIGNALED, 9, 1 * S);
    pass(&c.t, 100 * S - 1);
    expect_none(&c.t, TASK_ENQUEUE, c.w[0]);
    pass(&c.t, 1);
    assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0])->id.attempt, 2);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failed_task_is_placed_again),
        cmocka_unit_test(it_waits_for_its_time),
        cmocka_unit_test(who_fails_elsewhere_does_not_count),
    };

    return cmocka_run_group_tests_name("central_retries", tests, NULL, NULL);
}
