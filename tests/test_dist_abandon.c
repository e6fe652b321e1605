/* Jobs that no client watches: the dist cancels them after a grace time (docs/protocol.md 9.5). */
#include "tests/test_dist.h"

static void test_nobody_ever_watched(void **state)
{
    struct talk *t = talk_grace(2 * US_PER_S);

    submit(t, tagged(2));
    ignore(t);
    request(t, 101, 1, 1);
    ignore(t);
    assert_int_equal(dist_next_timeout(&t->d), t->now + 2 * US_PER_S);
    wait_timer(t, 2 * US_PER_S);
    says(t, "101 TASK_CANCEL id=3.1/0@1.1");
    says(t, "101 PROBE_CANCEL job=3.1");
    HEAR(t, 101, TASK_FINISHED, task_finished, .id = try_of(1, 0, 1, 1), .outcome = OUTCOME_CANCELLED);
    says(t, "101 FINISH_ACK");
    says(t, "- JOB_EVENT job=3.1 done=0 failed=0 state=5");
    assert_true(job_view_of(t, 1).abandoned);
    talk_end(t);
}

/* Its client may stand still, with the task that submitted the job. Other jobs wait no longer for that. */
static void test_a_client_in_a_task_has_more_time(void **state)
{
    struct talk *t = talk_new("hawk");
    struct job_desc *d = tagged(1);

    t->cfg.client_grace_us = 2 * US_PER_S;
    t->cfg.nested_grace_us = 9 * US_PER_S;
    talk_begin(t);
    central_joins(t);
    worker_up(t, 101, 1, true);
    d->ancestors = (struct ancestors){1, {job_id_make((node_id_t){9}, 9)}};
    submit(t, d);
    ignore(t);
    submit(t, tagged(1));
    ignore(t);
    assert_int_equal(dist_next_timeout(&t->d), t->now + 2 * US_PER_S);
    wait_timer(t, 2 * US_PER_S);
    ignore(t);
    assert_false(job_view_of(t, 1).abandoned);
    assert_true(job_view_of(t, 2).abandoned);
    assert_int_equal(dist_next_timeout(&t->d), t->now + 7 * US_PER_S);
    wait_timer(t, 7 * US_PER_S);
    ignore(t);
    assert_true(job_view_of(t, 1).abandoned);
    talk_end(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nobody_ever_watched),
        cmocka_unit_test(test_a_client_in_a_task_has_more_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
