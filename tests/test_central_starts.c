/* Long tasks that their workers could not start: they go elsewhere, cost nothing, and who is to blame hears of it. */
#include "tests/test_central.h"

static void cannot_start(struct talk *t, uint32_t worker, struct try_id id)
{
    struct blob *why = blob_str("no such directory");

    tell(t, TASK_FINISHED, task_finished, worker, .id = id, .outcome = OUTCOME_LOST,
         .code = HAWK_ECANNOT_START, .result = why);
    blob_drop(why);
}

/* The only one that was given a task in the last step. */
static uint32_t placed_at(const struct talk *t)
{
    for (uint32_t i = 0; i < t->out.n; i++)
        if (t->out.v[i].type == MSG_TASK_ENQUEUE)
            return t->out.v[i].peer;
    return 0;
}

static void it_runs_elsewhere_at_no_cost(void **state)
{
    struct cluster c;
    uint32_t first, second;

    begin(&c, 2);
    submit(&c.t, c.d, 1, 1, S);
    first = placed_at(&c.t);
    cannot_start(&c.t, first, try_of(c.d, 1, 0, 1));
    second = placed_at(&c.t);
    assert_true(second > 0 && second != first);
    assert_int_equal(count_out(&c.t, MSG_START_BLAMED), 0);
    started(&c.t, second, try_of(c.d, 1, 0, 2));
    expect(&c.t, START_BLAMED, start_blamed, first);
    finished(&c.t, second, try_of(c.d, 1, 0, 2), OUTCOME_EXITED, 0, S);
    assert_int_equal(count_out(&c.t, MSG_START_BLAMED), 0);
    end(&c);
}

static void it_fails_where_nobody_can_start_it(void **state)
{
    struct cluster c;
    uint32_t first;

    begin(&c, 2);
    submit(&c.t, c.d, 1, 1, S);
    first = placed_at(&c.t);
    cannot_start(&c.t, first, try_of(c.d, 1, 0, 1));
    cannot_start(&c.t, placed_at(&c.t), try_of(c.d, 1, 0, 2));
    assert_int_equal(placed_at(&c.t), 0);
    expect(&c.t, LONG_MESSAGE, long_message, c.d);
    assert_int_equal(expect_task(&c, 0, TASK_FAILED)->outcome, OUTCOME_NOT_STARTED);
    assert_int_equal(count_out(&c.t, MSG_START_BLAMED), 0);
    end(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_runs_elsewhere_at_no_cost),
        cmocka_unit_test(it_fails_where_nobody_can_start_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
