/* Tasks that their client cancels one by one: docs/protocol.md 3.12, central's side. */
#include "tests/test_central.h"

static void cancel_tasks(struct cluster *c, uint64_t seq, uint16_t owner, uint32_t first, uint32_t n)
{
    struct task_set *s = task_set_new(n);

    for (uint32_t i = 0; i < n; i++)
        s->v[i] = first + i;
    tell(&c->t, LONG_CANCEL_TASKS, long_cancel_tasks, c->d, .job = JOB(c->d, seq), .epoch = 1, .owner = owner,
         .tasks = s);
    task_set_drop(s);
}

static void the_others_go_on(void **state)
{
    struct cluster c;

    begin(&c, 1);
    submit(&c.t, c.d, 1, 4, 5 * S);
    started(&c.t, c.w[0], try_of(c.d, 1, 0, 1));
    cancel_tasks(&c, 1, 1, 0, 2);
    assert_int_equal(expect(&c.t, TASK_CANCEL, task_cancel, c.w[0])->id.task, 0);
    assert_int_equal(expect(&c.t, TASK_CANCEL, task_cancel, c.w[0])->id.task, 1);
    expect_nothing_else(&c.t);
    cancel_tasks(&c, 1, 1, 0, 2); /* said again: nothing new */
    expect_nothing_else(&c.t);
    for (uint32_t i = 0; i < 2; i++) {
        finished(&c.t, c.w[0], try_of(c.d, 1, i, 1), OUTCOME_CANCELLED, 0, 0);
        expect_task(&c, i, TASK_CANCELLED);
    }
    for (uint32_t i = 2; i < 4; i++) {
        started(&c.t, c.w[0], try_of(c.d, 1, i, 1));
        finished(&c.t, c.w[0], try_of(c.d, 1, i, 1), OUTCOME_EXITED, 0, 5 * S);
        expect_task(&c, i, TASK_DONE);
    }
    assert_int_equal(expect_end(&c), JOB_CANCELLED);
    end(&c);
}

static void what_waits_ends_at_once(void **state)
{
    struct cluster c;

    begin(&c, 0);
    submit(&c.t, c.d, 1, 3, 5 * S);
    cancel_tasks(&c, 1, 1, 1, 2);
    for (uint32_t i = 1; i < 3; i++)
        expect_task(&c, i, TASK_CANCELLED);
    c.w[0] = add_worker(&c.t, "w0", 1);
    pass(&c.t, 10 * S);
    assert_int_equal(view_of(&c, 1).placed, 1);
    assert_int_equal(view_of(&c, 1).cancelled, 2);
    end(&c);
}

static void whose_job_it_is_not_does_not(void **state)
{
    struct cluster c;
    uint32_t d2;

    begin(&c, 1);
    d2 = add_dist(&c.t, "d2");
    submit(&c.t, c.d, 1, 2, 5 * S);
    tell(&c.t, LONG_WATCH, long_watch, d2, .job = JOB(c.d, 1), .epoch = 1, .owner = 3);
    cancel_tasks(&c, 1, 1, 0, 1); /* of a dist that lost the job */
    expect_nothing_else(&c.t);
    cancel_tasks(&c, 2, 3, 0, 1); /* no such job */
    expect_nothing_else(&c.t);
    cancel_tasks(&c, 1, 3, 2, 1); /* no such task */
    expect_nothing_else(&c.t);
    cancel_tasks(&c, 1, 3, 1, 1);
    assert_int_equal(expect(&c.t, TASK_CANCEL, task_cancel, c.w[0])->id.task, 1);
    end(&c);
}

static void a_job_that_is_not_durable(void **state)
{
    struct cluster c;

    begin(&c, 0);
    c.t.journal_by_hand = true;
    submit(&c.t, c.d, 1, 2, 5 * S);
    cancel_tasks(&c, 1, 1, 0, 2);
    expect_nothing_else(&c.t);
    end(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_others_go_on),
        cmocka_unit_test(what_waits_ends_at_once),
        cmocka_unit_test(whose_job_it_is_not_does_not),
        cmocka_unit_test(a_job_that_is_not_durable),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
