/* Which long tasks a worker pauses, and for how many short ones (POLICY_PAUSE): no more than there are. */
#include "tests/test_worker_pause.h"

/* Without an estimate: a tenth of what any short task waits at most. */
static void a_short_task_that_nobody_knows_is_patient(void **state)
{
    struct talk t;

    begin_pausing(&t, 1);
    long_task(&t, 1);
    probe(&t, 2, 1);
    nothing(&t);
    pass(&t, t.config.pause.after_us / 10 - 1);
    nothing(&t);
    pass(&t, 1);
    expect(&t, TASK_REQUEST, task_request, DIST, m->job.v == JOB(2).v);
    talk_end(&t);
}

/* It has a signal to handle. */
static void a_task_that_is_told_to_die_is_not_paused(void **state)
{
    struct talk t;
    uint32_t run;

    begin_pausing(&t, 1);
    run = long_task(&t, 1);
    tell(&t, TASK_CANCEL, task_cancel, CENTRAL, .id = TRY(1, 0));
    expect(&t, EXEC_KILL, exec_kill, 0, m->run == run);
    short_comes(&t, 2);
    pass(&t, S);
    nothing(&t);
    talk_end(&t);
}

/* The executor thaws it for that. The short task, which never ran, runs elsewhere. */
static void a_task_may_be_told_to_die_before_it_stands_still(void **state)
{
    struct talk t;
    uint32_t run;

    begin_pausing(&t, 1);
    run = long_task(&t, 1);
    short_comes(&t, 2);
    expect_request(&t, 2, 1);
    given(&t, run, 2, 1);
    tell(&t, TASK_CANCEL, task_cancel, CENTRAL, .id = TRY(1, 0));
    expect(&t, EXEC_KILL, exec_kill, 0, m->run == run);
    tell(&t, EXEC_PAUSED, exec_paused, 0, .run = run);
    expect(&t, TASK_FINISHED, task_finished, DIST, m->outcome == OUTCOME_LOST && m->code == HAWK_EBUSY);
    assert_int_equal(counts_of(&t).paused, 0);
    talk_end(&t);
}

static void one_that_may_not_be_paused_makes_no_request(void **state)
{
    struct job_desc *stays = job_desc_new();
    struct talk t;

    stays->tasks = 1;
    stays->flags |= JOB_NO_PAUSE;
    begin_pausing(&t, 2);
    long_task(&t, 1);
    tell(&t, TASK_ENQUEUE, task_enqueue, CENTRAL, .id = TRY(2, 0), .desc = stays, .estimate_us = ESTIMATE);
    expect(&t, EXEC_START, exec_start, 0, m->desc == stays);
    tell(&t, EXEC_STARTED, exec_started, 0, .run = t.out.v[0].exec_start.run, .pid = 1);
    expect(&t, TASK_STARTED, task_started, CENTRAL, whatever);
    short_comes(&t, 3);
    short_comes(&t, 4);
    pass(&t, S);
    expect(&t, TASK_REQUEST, task_request, DIST, m->job.v == JOB(3).v);
    talk_end(&t);
    job_desc_drop(stays);
}

/* Neither the frozen task nor the later request. */
static void a_free_slot_is_the_first_requests(void **state)
{
    struct talk t;
    uint32_t run[2], quick;

    begin_pausing(&t, 2);
    run[0] = long_task(&t, 1);
    pass(&t, S);
    run[1] = long_task(&t, 2);
    short_comes(&t, 3);
    quick = paused_for(&t, run[1], 3, 1);
    short_comes(&t, 4);
    expect_request(&t, 4, 2);
    exits(&t, quick, 0);
    expect(&t, TASK_FINISHED, task_finished, DIST, whatever);
    nothing(&t);
    launch(&t, 4, 0, 2);
    starts(&t, 4, 0, DIST);
    assert_int_equal(counts_of(&t).paused, 1);
    talk_end(&t);
}

static void requests_get_slots_in_their_order(void **state)
{
    struct talk t;
    uint32_t run[2];

    begin_pausing(&t, 2);
    run[0] = long_task(&t, 1);
    pass(&t, S);
    run[1] = long_task(&t, 2);
    short_comes(&t, 3);
    expect_request(&t, 3, 1);
    short_comes(&t, 4);
    expect_request(&t, 4, 2);
    exits(&t, run[0], 0);
    expect(&t, TASK_FINISHED, task_finished, CENTRAL, whatever);
    launch(&t, 3, 0, 1);
    starts(&t, 3, 0, DIST);
    given(&t, run[1], 4, 2);
    talk_end(&t);
}

/* One task more than it has slots runs already. */
static void an_overcommitted_worker_pauses_nothing(void **state)
{
    struct talk t;
    uint32_t run[2];

    begin_pausing(&t, 2);
    run[0] = long_task(&t, 1);
    pass(&t, S);
    run[1] = long_task(&t, 2);
    short_comes(&t, 3);
    paused_for(&t, run[1], 3, 1);
    pass(&t, t.config.pause.longest_us);
    expect(&t, EXEC_RESUME, exec_resume, 0, m->run == run[1]);
    assert_int_equal(counts_of(&t).running, 3);
    short_comes(&t, 4);
    pass(&t, S);
    nothing(&t);
    talk_end(&t);
    (void)run[0];
}

/* It asks for none that it would have to give back. */
static void what_does_not_fit_any_more_pauses_nothing(void **state)
{
    struct talk t;

    begin_pausing(&t, 1);
    long_task(&t, 1);
    t.w.config.ends_us = t.now_us + S;
    short_comes(&t, 2);
    pass(&t, S / 16);
    expect(&t, PROBE_REFUSED, probe_refused, DIST, m->job.v == JOB(2).v && m->err == HAWK_ENO_TIME);
    talk_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_task_that_nobody_knows_is_patient),
        cmocka_unit_test(a_task_that_is_told_to_die_is_not_paused),
        cmocka_unit_test(a_task_may_be_told_to_die_before_it_stands_still),
        cmocka_unit_test(one_that_may_not_be_paused_makes_no_request),
        cmocka_unit_test(a_free_slot_is_the_first_requests),
        cmocka_unit_test(requests_get_slots_in_their_order),
        cmocka_unit_test(an_overcommitted_worker_pauses_nothing),
        cmocka_unit_test(what_does_not_fit_any_more_pauses_nothing),
    };

    return cmocka_run_group_tests_name("worker_pause_bounds", tests, NULL, NULL);
}
