/* Tasks that their workers could not start: they go elsewhere, cost nothing, and who is to blame hears of it. */
#include "tests/test_dist_restart.h"

static void cannot_start(struct talk *t, uint32_t worker, struct try_id id)
{
    struct blob *why = blob_str("no such directory");

    HEAR(t, worker, TASK_FINISHED, task_finished, .id = id, .outcome = OUTCOME_LOST,
         .code = HAWK_ECANNOT_START, .result = why);
    blob_drop(why);
}

static uint32_t probes_to(struct talk *t, uint32_t worker)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < t->out.n; i++)
        if (t->out.v[i].type == MSG_PROBE && t->out.v[i].peer == worker)
            n += t->out.v[i].probe.count;
    return n;
}

static bool blamed(struct talk *t, uint32_t worker)
{
    for (uint32_t i = 0; i < t->out.n; i++)
        if (t->out.v[i].type == MSG_START_BLAMED && t->out.v[i].peer == worker)
            return true;
    return false;
}

/* The try that this worker was given in the last step. */
static struct try_id launched_at(struct talk *t, uint32_t worker)
{
    for (uint32_t i = 0; i < t->out.n; i++)
        if (t->out.v[i].type == MSG_TASK_LAUNCH && t->out.v[i].peer == worker)
            return t->out.v[i].task_launch.id;
    fail_msg("no task for %u", worker);
    abort(); /* not reached */
}

/* The worker asks for a task of job 1, and cannot start the one that it gets. */
static struct try_id starts_in_vain(struct talk *t, uint32_t worker)
{
    struct try_id id;

    request(t, worker, 1, 1);
    id = launched_at(t, worker);
    ignore(t);
    cannot_start(t, worker, id);
    return id;
}

static struct task_view task_of(struct talk *t, uint32_t task)
{
    struct task_view v;

    dist_task_view(&t->d, dist_find(&t->d, J(1)), task, t->now, &v);
    return v;
}

/* One task, at most once, on two workers. */
static void it_runs_elsewhere_at_no_cost(void **state)
{
    struct talk *t = talk_joined("hawk", 2);
    struct job_desc *d = desc_new(1, "");

    d->flags |= JOB_AT_MOST_ONCE;
    d->lost_retries = 0;
    submit(t, d);
    ignore(t);
    request(t, 101, 1, 1);
    ignore(t);
    cannot_start(t, 101, try_of(1, 0, 1, 1));
    assert_int_equal(task_of(t, 0).state, TASK_WAITING);
    assert_int_equal(probes_to(t, 101), 0);
    ignore(t);
    request(t, 101, 1, 2); /* one that crossed: it is not given the task again */
    says(t, "101 NO_TASK");
    assert_int_equal(probes_to(t, 101), 0);
    ignore(t);
    request(t, 102, 1, 1);
    assert_false(blamed(t, 101)); /* not before it runs there */
    ignore(t);
    started(t, 102, try_of(1, 0, 1, 2));
    assert_true(blamed(t, 101));
    ignore(t);
    finished(t, 102, try_of(1, 0, 1, 2), 0, 1000);
    assert_false(blamed(t, 101)); /* once is enough */
    assert_int_equal(task_of(t, 0).state, TASK_DONE);
    ignore(t);
    talk_end(t);
}

/* What no worker can start is not the workers' fault, and fails; the others of its job then at their first try. */
static void it_fails_where_nobody_can_start_it(void **state)
{
    struct talk *t = talk_joined("hawk", 2);

    submit(t, desc_new(2, ""));
    ignore(t);
    request(t, 101, 1, 1);
    ignore(t);
    cannot_start(t, 101, try_of(1, 0, 1, 1));
    ignore(t);
    request(t, 102, 1, 1);
    ignore(t);
    cannot_start(t, 102, try_of(1, 0, 1, 2));
    assert_int_equal(task_of(t, 0).state, TASK_FAILED);
    assert_int_equal(task_of(t, 0).outcome, OUTCOME_NOT_STARTED);
    assert_int_equal(task_of(t, 0).code, CODE_CANNOT_START);
    assert_string_equal(task_of(t, 0).message->data, "no such directory");
    ignore(t);
    request(t, 101, 1, 2);
    says(t, "101 TASK_LAUNCH");
    ignore(t);
    cannot_start(t, 101, try_of(1, 1, 1, 1));
    assert_int_equal(task_of(t, 1).state, TASK_FAILED);
    assert_false(blamed(t, 101) || blamed(t, 102));
    ignore(t);
    talk_end(t);
}

/* However many workers there are. */
static void it_fails_after_a_few(void **state)
{
    struct talk *t = talk_joined("hawk", 10);

    submit(t, desc_new(1, ""));
    ignore(t);
    for (uint32_t i = 0; i < START_WORKERS_MAX; i++) {
        assert_int_equal(task_of(t, 0).state, TASK_WAITING);
        request(t, 101 + i, 1, 1);
        ignore(t);
        cannot_start(t, 101 + i, try_of(1, 0, 1, (uint16_t)(i + 1)));
        ignore(t);
    }
    assert_int_equal(task_of(t, 0).state, TASK_FAILED);
    talk_end(t);
}

/* A task that started elsewhere says nothing of the worker that could not start another one. */
static void each_task_blames_its_own(void **state)
{
    struct talk *t = talk_joined("hawk", 3);

    submit(t, desc_new(2, ""));
    ignore(t);
    for (uint32_t i = 0; i < 2; i++) {
        request(t, 101 + i, 1, 1);
        says(t, i == 0 ? "101 TASK_LAUNCH id=3.1/0@1.1" : "102 TASK_LAUNCH id=3.1/1@1.1");
    }
    for (uint32_t i = 0; i < 2; i++) {
        ignore(t);
        cannot_start(t, 101 + i, try_of(1, i, 1, 1));
    }
    for (uint32_t i = 0; i < 2; i++) {
        struct try_id id;

        ignore(t);
        request(t, 103, 1, i + 1);
        id = launched_at(t, 103);
        ignore(t);
        started(t, 103, id);
        assert_true(blamed(t, 101 + id.task));
        assert_false(blamed(t, 102 - id.task));
        ignore(t);
        finished(t, 103, id, 0, 1000);
    }
    ignore(t);
    talk_end(t);
}

/* One of many slots fails as often as it is asked: that is one worker to avoid, and the others are there. */
static void one_worker_that_fails_often_is_one(void **state)
{
    struct talk *t = talk_joined("hawk", 2);

    submit(t, desc_new(3, ""));
    ignore(t);
    for (uint32_t i = 0; i < 2; i++) {
        request(t, 101, 1, i + 1);
        ignore(t);
    }
    for (uint32_t i = 0; i < 2; i++) {
        cannot_start(t, 101, try_of(1, i, 1, 1));
        ignore(t);
        assert_int_equal(task_of(t, i).state, TASK_WAITING);
    }
    request(t, 102, 1, 1);
    says(t, "102 TASK_LAUNCH");
    ignore(t);
    talk_end(t);
}

/* It had to be tried again when it was the only one. What was the matter there is over. */
static void who_starts_one_is_avoided_no_more(void **state)
{
    struct talk *t = talk_joined("hawk", 2);

    submit(t, desc_new(3, ""));
    ignore(t);
    request(t, 101, 1, 1);
    ignore(t);
    cannot_start(t, 101, try_of(1, 0, 1, 1));
    ignore(t);
    request(t, 101, 1, 2);
    says(t, "101 NO_TASK");
    ignore(t);
    worker_member(t, 102, 1, MEMBER_GONE, true);
    ignore(t);
    request(t, 101, 1, 3);
    says(t, "101 TASK_LAUNCH id=3.1/0@1.2");
    ignore(t);
    started(t, 101, try_of(1, 0, 1, 2));
    ignore(t);
    worker_up(t, 103, 1, true);
    ignore(t);
    request(t, 101, 1, 4);
    says(t, "101 TASK_LAUNCH id=3.1/1@1.1");
    ignore(t);
    talk_end(t);
}

/* Its stream broke before the dist heard: the end comes again, after TASK_HELD, and costs as little. */
static void it_costs_nothing_after_a_reconnection(void **state)
{
    struct talk *t = talk_joined("hawk", 2);
    struct job_desc *d = desc_new(1, "");

    d->lost_retries = 0;
    submit(t, d);
    ignore(t);
    request(t, 101, 1, 1);
    ignore(t);
    HEAR(t, 101, TASK_HELD, task_held, .id = try_of(1, 0, 1, 1), .state = TASK_DONE);
    ignore(t);
    cannot_start(t, 101, try_of(1, 0, 1, 1));
    assert_int_equal(task_of(t, 0).state, TASK_WAITING);
    ignore(t);
    talk_end(t);
}

/* It steals what is meant for others, who are busy, and gets nothing for it: the job is probed for again
 * after a while, not at once, or the two would go on as fast as messages go. */
static void a_thief_that_is_avoided_is_not_fed(void **state)
{
    struct talk *t = talk_joined("hawk", 2);
    uint32_t probed = 0;

    submit(t, desc_new(1, ""));
    ignore(t);
    request(t, 101, 1, 1);
    ignore(t);
    cannot_start(t, 101, try_of(1, 0, 1, 1));
    ignore(t);
    for (uint32_t i = 2; i < 50; i++) {
        HEAR(t, 101, RES_MOVED, res_moved, .job = J(1), .from = {102}, .count = 1);
        request(t, 101, 1, i);
        probed += probes_to(t, 102);
        assert_int_equal(probes_to(t, 101), 0);
        ignore(t);
    }
    assert_in_range(probed, 0, 4); /* what was missing at first */
    wait_timer(t, US_PER_S);
    assert_true(probes_to(t, 102) > 0);
    assert_int_equal(probes_to(t, 101), 0);
    ignore(t);
    talk_end(t);
}

/* Three workers that cannot start it are enough only while nothing of the job has started. */
static void what_has_begun_can_be_started(void **state)
{
    struct talk *t = talk_joined("hawk", 6);
    struct try_id id;

    submit(t, desc_new(3, ""));
    ignore(t);
    request(t, 101, 1, 1);
    id = launched_at(t, 101);
    ignore(t);
    started(t, 101, id);
    ignore(t);
    finished(t, 101, id, 0, 1000);
    for (uint32_t w = 102; w <= 105; w++) {
        ignore(t);
        id = starts_in_vain(t, w);
        assert_int_equal(task_of(t, id.task).state, w == 104 ? TASK_FAILED : TASK_WAITING);
    }
    ignore(t);
    talk_end(t);
}

/* Task 0 ended so before a restart of the dist. `ran`: that shows that the job can be started. */
static void expect_after_restart(enum outcome outcome, bool ran)
{
    struct talk *t = talk_again();
    struct try_id id;

    journal_job(t, 1, desc_new(3, ""), 1, 0, NULL);
    HEAR(t, 0, JOURNAL_TASK, journal_task, .id = try_of(1, 0, 1, 1), .worker = {101}, .code = 9,
         .outcome = outcome, .state = TASK_FAILED, .run_us = ran ? 1000 : 0);
    HEAR(t, 0, RECOVERED, recovered, 0);
    ignore(t);
    central_joins(t);
    ignore(t);
    for (uint32_t w = 101; w <= 106; w++) {
        worker_up(t, w, 1, true);
        ignore(t);
        held_end(t, w);
        ignore(t);
    }
    wait_timer(t, 50000);
    for (uint32_t w = 101; w <= 104; w++) {
        ignore(t);
        id = starts_in_vain(t, w);
        assert_int_equal(task_of(t, id.task).state,
                         w == 103 || (w == 104 && !ran) ? TASK_FAILED : TASK_WAITING);
    }
    ignore(t);
    talk_end(t);
}

static void which_ends_show_that_it_can_be_started(void **state)
{
    expect_after_restart(OUTCOME_EXITED, true);
    expect_after_restart(OUTCOME_SIGNALED, true);
    expect_after_restart(OUTCOME_TIME_LIMIT, true);
    expect_after_restart(OUTCOME_OUT_OF_MEMORY, true);
    expect_after_restart(OUTCOME_NOT_STARTED, false);
}

/* A job that its client moves here, of which a task has run elsewhere. */
static void what_has_begun_elsewhere_can_be_started(void **state)
{
    struct talk *t = talk_joined("hawk", 6);
    struct job_desc *desc = tagged(3);
    struct resubmit *r = resubmit_new(1);
    job_id_t job = job_id_make((node_id_t){ME + 1}, 5);

    r->job = job;
    r->epoch = 3;
    r->class = CLASS_SHORT;
    r->why = WHY_TAG;
    r->v[0] = (struct resubmit_task){
        .state = TASK_FAILED, .outcome = OUTCOME_EXITED, .code = 2, .attempt = 1, .worker = 101};
    HEAR(t, 0, SUBMIT, submit, .desc = desc, .resubmit = r, .key = 99, .client = 9);
    ignore(t);
    for (uint32_t w = 101; w <= 104; w++) {
        struct job_view v;
        struct try_id id;

        HEAR(t, w, TASK_REQUEST, task_request, .job = job, .request = 1);
        id = launched_at(t, w);
        ignore(t);
        cannot_start(t, w, id);
        ignore(t);
        dist_job_view(&t->d, dist_find(&t->d, job), t->now, &v);
        assert_int_equal(v.failed, w < 103 ? 1 : 2);
    }
    job_desc_drop(desc);
    resubmit_drop(r);
    talk_end(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_runs_elsewhere_at_no_cost),
        cmocka_unit_test(it_fails_where_nobody_can_start_it),
        cmocka_unit_test(it_fails_after_a_few),
        cmocka_unit_test(each_task_blames_its_own),
        cmocka_unit_test(one_worker_that_fails_often_is_one),
        cmocka_unit_test(who_starts_one_is_avoided_no_more),
        cmocka_unit_test(it_costs_nothing_after_a_reconnection),
        cmocka_unit_test(a_thief_that_is_avoided_is_not_fed),
        cmocka_unit_test(what_has_begun_can_be_started),
        cmocka_unit_test(what_has_begun_elsewhere_can_be_started),
        cmocka_unit_test(which_ends_show_that_it_can_be_started),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
