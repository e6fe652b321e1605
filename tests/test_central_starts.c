/* Long tasks that their workers could not start: they go elsewhere, cost nothing, and who is to blame hears of it. */
#include "tests/test_central.h"

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

/* However many workers there are. */
static void it_fails_after_a_few(void **state)
{
    struct cluster c;

    begin(&c, 8);
    submit(&c.t, c.d, 1, 1, S);
    for (uint32_t i = 0; i < START_WORKERS_MAX; i++) {
        uint32_t worker = placed_at(&c.t);

        assert_true(worker > 0);
        cannot_start(&c.t, worker, try_of(c.d, 1, 0, (uint16_t)(i + 1)));
    }
    assert_int_equal(placed_at(&c.t), 0);
    assert_int_equal(expect_task(&c, 0, TASK_FAILED)->outcome, OUTCOME_NOT_STARTED);
    end(&c);
}

/* A task that started elsewhere says nothing of the worker that could not start another one. */
static void each_task_blames_its_own(void **state)
{
    struct cluster c;
    uint32_t failed[2] = {0}, next[2];

    begin(&c, 4);
    submit(&c.t, c.d, 1, 2, S);
    for (uint32_t i = 0; i < c.t.out.n; i++)
        if (c.t.out.v[i].type == MSG_TASK_ENQUEUE)
            failed[c.t.out.v[i].task_enqueue.id.task] = c.t.out.v[i].peer;
    for (uint32_t i = 0; i < 2; i++) {
        cannot_start(&c.t, failed[i], try_of(c.d, 1, i, 1));
        next[i] = placed_at(&c.t);
    }
    started(&c.t, next[1], try_of(c.d, 1, 1, 2));
    expect(&c.t, START_BLAMED, start_blamed, failed[1]);
    expect_none(&c.t, START_BLAMED, failed[0]);
    started(&c.t, next[0], try_of(c.d, 1, 0, 2));
    expect(&c.t, START_BLAMED, start_blamed, failed[0]);
    expect_none(&c.t, START_BLAMED, failed[1]);
    end(&c);
}

/* It had to be tried again when it was the only one. What was the matter there is over. */
static void who_starts_one_is_avoided_no_more(void **state)
{
    struct cluster c;
    uint32_t failed, other, busy;
    struct job_desc *d = desc_of("", 1);

    d->lost_retries = 2;
    begin(&c, 2);
    tell(&c.t, LONG_SUBMIT, long_submit, c.d, .job = JOB(c.d, 1), .desc = d, .estimate_us = S, .epoch = 1);
    job_desc_drop(d);
    failed = placed_at(&c.t);
    cannot_start(&c.t, failed, try_of(c.d, 1, 0, 1));
    other = placed_at(&c.t);
    assert_true(other > 0 && other != failed);
    tell(&c.t, LEAVE, leave, other, 0);
    assert_int_equal(placed_at(&c.t), failed);
    started(&c.t, failed, try_of(c.d, 1, 0, 3));
    busy = add_worker(&c.t, "w2", 1);
    submit(&c.t, c.d, 2, 1, 100 * S);
    assert_int_equal(placed_at(&c.t), busy);
    finished(&c.t, failed, try_of(c.d, 1, 0, 3), OUTCOME_LOST, 0, S);
    assert_int_equal(placed_at(&c.t), failed);
    end(&c);
}

static struct task_view view(const struct cluster *c, uint32_t task)
{
    struct task_view v;

    central_task_view(c->t.c, central_find_job(c->t.c, JOB(1, 1)), task, c->t.now_us, &v);
    return v;
}

/* Its other tasks are tried once, wherever there is room first. */
static void a_job_that_cannot_be_started_avoids_nobody(void **state)
{
    struct cluster c;
    struct task_view v;

    begin(&c, 5);
    submit(&c.t, c.d, 2, 1, 100 * S);
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0]);
    submit(&c.t, c.d, 1, 3, S);
    for (uint32_t i = 0; i < START_WORKERS_MAX; i++) {
        v = view(&c, 0);
        cannot_start(&c.t, v.worker.v, try_of(1, 1, 0, v.attempt));
    }
    assert_int_equal(view(&c, 0).state, TASK_FAILED);
    tell(&c.t, TASK_RETURNED, task_returned, view(&c, 2).worker.v, .id = try_of(1, 1, 2, 1));
    assert_true(placed_at(&c.t) > 0 && placed_at(&c.t) != c.w[0]);
    cannot_start(&c.t, view(&c, 1).worker.v, try_of(1, 1, 1, 1));
    assert_int_equal(view(&c, 1).state, TASK_FAILED);
    end(&c);
}

/* A job that has run a task can be started: the first worker that cannot start another one is to blame. */
static void what_ran_before_a_restart_can_be_started(void **state)
{
    struct cluster c;
    struct job_desc *d = desc_of("train", 4);
    struct task_view v;

    talk_config(&c.t);
    talk_start(&c.t);
    tell(&c.t, JOURNAL_JOB, journal_job, 0, .job = JOB(1, 1), .desc = d, .estimate_us = 9 * S, .epoch = 1);
    tell(&c.t, JOURNAL_TASK, journal_task, 0, .id = try_of(1, 1, 0, 1), .state = TASK_FAILED,
         .outcome = OUTCOME_EXITED, .code = 3, .run_us = 7 * S);
    tell(&c.t, JOURNAL_RELEASED, journal_released, 0, .job = JOB(1, 1), .epoch = 1, .upto = 1);
    tell(&c.t, RECOVERED, recovered, 0, 0);
    c.d = add_dist(&c.t, "d1");
    tell(&c.t, LONG_WATCH, long_watch, c.d, .job = JOB(1, 1), .epoch = 1);
    for (uint32_t i = 0; i < 6; i++) {
        char name[] = {'w', (char)('0' + i), 0};

        add_worker(&c.t, name, 1);
    }
    for (uint32_t i = 0; i < START_WORKERS_MAX; i++) {
        v = view(&c, 2);
        cannot_start(&c.t, v.worker.v, try_of(1, 1, 2, v.attempt));
    }
    assert_int_equal(view(&c, 2).state, TASK_FAILED);
    v = view(&c, 3);
    cannot_start(&c.t, v.worker.v, try_of(1, 1, 3, v.attempt));
    assert_int_equal(view(&c, 3).state, TASK_PLACED);
    job_desc_drop(d);
    end(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_runs_elsewhere_at_no_cost),
        cmocka_unit_test(it_fails_where_nobody_can_start_it),
        cmocka_unit_test(it_fails_after_a_few),
        cmocka_unit_test(each_task_blames_its_own),
        cmocka_unit_test(who_starts_one_is_avoided_no_more),
        cmocka_unit_test(a_job_that_cannot_be_started_avoids_nobody),
        cmocka_unit_test(what_ran_before_a_restart_can_be_started),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
