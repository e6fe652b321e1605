/* A dist whose tasks fail and run again (docs/protocol.md 3.14). */
#include "tests/test_dist.h"

#include <time.h>

static struct job_desc *desc_retries(uint32_t tasks, uint16_t retries, int64_t delay_us)
{
    struct job_desc *desc = desc_new(tasks, "");

    desc->failure_retries = retries;
    desc->retry_delay_us = delay_us;
    return desc;
}

static void ended(struct talk *t, uint32_t from, struct try_id id, enum outcome outcome, int32_t code)
{
    HEAR(t, from, TASK_FINISHED, task_finished, .id = id, .outcome = (uint8_t)outcome, .code = code,
         .run_us = 5);
}

/* Launches the next task of job 1 at a worker. */
static void launch(struct talk *t, uint32_t worker, uint32_t request_no, const char *launch)
{
    request(t, worker, 1, request_no);
    says(t, launch);
    ignore(t);
}

static void a_failed_task_runs_again(void **state)
{
    struct talk *t = talk_joined("hawk", 2);

    submit(t, desc_retries(1, 2, 0));
    ignore(t);
    launch(t, 101, 1, "101 TASK_LAUNCH id=3.1/0@1.1");
    ended(t, 101, try_of(1, 0, 1, 1), OUTCOME_EXITED, 7);
    says(t, "101 FINISH_ACK");
    ignore(t); /* probes */
    assert_int_equal(job_view_of(t, 1).waiting, 1);
    assert_int_equal(task_view_of(t, 1, 0).failures, 1);
    ended(t, 101, try_of(1, 0, 1, 1), OUTCOME_EXITED, 7); /* it did not hear the answer: once is once */
    ignore(t);
    assert_int_equal(task_view_of(t, 1, 0).failures, 1);
    launch(t, 102, 1, "102 TASK_LAUNCH id=3.1/0@1.2");
    ended(t, 101, try_of(1, 0, 1, 1), OUTCOME_EXITED, 7); /* and later */
    ignore(t);
    assert_int_equal(job_view_of(t, 1).failed, 0);
    ended(t, 102, try_of(1, 0, 1, 2), OUTCOME_SIGNALED, 9);
    ignore(t);
    launch(t, 101, 2, "101 TASK_LAUNCH id=3.1/0@1.3");
    ended(t, 101, try_of(1, 0, 1, 3), OUTCOME_EXITED, 7);
    ignore(t);
    assert_int_equal(job_view_of(t, 1).failed, 1); /* no retry is left */
    assert_int_equal(task_view_of(t, 1, 0).failures, 2);
    talk_end(t);
}

/* The worker did not hear the answer, and says on its next stream what it has. */
static void a_failed_try_is_not_taken_up_again(void **state)
{
    for (int64_t delay_us = 0; delay_us <= US_PER_S; delay_us += US_PER_S) {
        struct talk *t = talk_joined("hawk", 1);

        submit(t, desc_retries(1, 1, delay_us));
        ignore(t);
        launch(t, 101, 1, "101 TASK_LAUNCH id=3.1/0@1.1");
        ended(t, 101, try_of(1, 0, 1, 1), OUTCOME_EXITED, 7);
        ignore(t);
        HEAR(t, 101, PEER_LOST, peer_lost, 0);
        ignore(t);
        HEAR(t, 101, PEER_UP, peer_up, .role = ROLE_WORKER);
        ignore(t);
        HEAR(t, 101, TASK_HELD, task_held, .id = try_of(1, 0, 1, 1), .state = TASK_DONE, .run_us = 5);
        ignore(t);
        ended(t, 101, try_of(1, 0, 1, 1), OUTCOME_EXITED, 7);
        ignore(t);
        assert_int_equal(job_view_of(t, 1).waiting, 1);
        assert_int_equal(task_view_of(t, 1, 0).failures, 1);
        if (delay_us == 0)
            launch(t, 101, 1, "101 TASK_LAUNCH id=3.1/0@1.2");
        else
            assert_int_equal(block_of(t, 1), DIST_BLOCK_DELAYED);
        talk_end(t);
    }
}

static void it_waits_longer_each_time(void **state)
{
    struct talk *t = talk_joined("hawk", 1);

    submit(t, desc_retries(1, 5, 10 * US_PER_S));
    ignore(t);
    for (uint16_t attempt = 1; attempt <= 3; attempt++) {
        int64_t began, delay_us = (10 * US_PER_S) << (attempt - 1);
        char text[64];

        snprintf(text, sizeof text, "101 TASK_LAUNCH id=3.1/0@1.%u", attempt);
        launch(t, 101, attempt, text);
        ended(t, 101, try_of(1, 0, 1, attempt), OUTCOME_EXITED, 1);
        ignore(t);
        assert_int_equal(block_of(t, 1), DIST_BLOCK_DELAYED);
        request(t, 101, 1, 100u + attempt); /* a reservation that was left */
        says(t, "101 NO_TASK");
        ignore(t);
        t->d.from = NULL;
        began = t->now;
        while (block_of(t, 1) == DIST_BLOCK_DELAYED) {
            wait_timer(t, delay_us);
            ignore(t);
        }
        assert_true(t->now >= began + delay_us);
        HEAR(t, 101, PEER_LOST, peer_lost, 0); /* request numbers begin again */
        ignore(t);
        HEAR(t, 101, PEER_UP, peer_up, .role = ROLE_WORKER);
        ignore(t);
    }
    talk_end(t);
}

static void only_what_was_asked_for_is_tried_again(void **state)
{
    static const struct {
        enum outcome outcome;
        int32_t code;
        bool again;
    } ends[] = {{OUTCOME_EXITED, 75, true},     {OUTCOME_EXITED, 1, false},
                {OUTCOME_SIGNALED, 9, true},    {OUTCOME_EXITED, 0, false},
                {OUTCOME_TIME_LIMIT, 0, false}, {OUTCOME_NOT_STARTED, 127, false}};

    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct talk *t = talk_joined("hawk", 1);
        struct job_desc *desc = desc_retries(1, 1, 0);

        desc->retry_on = RETRY_ON_EXIT | RETRY_ON_SIGNAL;
        desc->retry_codes = blob_new("\x4b\x4c", 2);
        submit(t, desc);
        ignore(t);
        launch(t, 101, 1, "101 TASK_LAUNCH id=3.1/0@1.1");
        ended(t, 101, try_of(1, 0, 1, 1), ends[i].outcome, ends[i].code);
        ignore(t);
        assert_int_equal(job_view_of(t, 1).waiting, ends[i].again);
        talk_end(t);
    }
}

static void a_job_that_is_cancelled_does_not_wait(void **state)
{
    struct talk *t = talk_joined("hawk", 1);

    submit(t, desc_retries(1, 1, 3600 * US_PER_S));
    ignore(t);
    launch(t, 101, 1, "101 TASK_LAUNCH id=3.1/0@1.1");
    ended(t, 101, try_of(1, 0, 1, 1), OUTCOME_EXITED, 1);
    ignore(t);
    HEAR(t, 0, CANCEL, cancel, .job = J(1));
    ignore(t);
    assert_int_equal(job_view_of(t, 1).cancelled, 1);
    talk_end(t);
}

/* It failed by itself before its worker heard of that: it has failed, and does not wait. */
static void a_task_of_a_cancelled_job_has_failed(void **state)
{
    struct talk *t = talk_joined("hawk", 1);

    submit(t, desc_retries(1, 1, 3600 * US_PER_S));
    ignore(t);
    launch(t, 101, 1, "101 TASK_LAUNCH id=3.1/0@1.1");
    HEAR(t, 0, CANCEL, cancel, .job = J(1));
    says(t, "101 TASK_CANCEL id=3.1/0@1.1");
    ignore(t);
    ended(t, 101, try_of(1, 0, 1, 1), OUTCOME_EXITED, 1);
    ignore(t);
    assert_int_equal(job_view_of(t, 1).failed, 1);
    assert_int_equal(task_view_of(t, 1, 0).failures, 0); /* that were tried again */
    talk_end(t);
}

/* A lost worker and a failure cost a retry of their own kind. */
static void lost_tries_count_apart(void **state)
{
    struct talk *t = talk_joined("hawk", 2);
    struct job_desc *desc = desc_retries(1, 1, 0);

    desc->lost_retries = 1;
    submit(t, desc);
    ignore(t);
    launch(t, 101, 1, "101 TASK_LAUNCH id=3.1/0@1.1");
    ended(t, 101, try_of(1, 0, 1, 1), OUTCOME_EXITED, 1);
    ignore(t);
    launch(t, 101, 2, "101 TASK_LAUNCH id=3.1/0@1.2");
    HEAR(t, 101, PEER_LOST, peer_lost, 0);
    ignore(t);
    worker_member(t, 101, 1, MEMBER_GONE, true);
    ignore(t);
    assert_int_equal(job_view_of(t, 1).waiting, 1);
    launch(t, 102, 1, "102 TASK_LAUNCH id=3.1/0@1.3");
    HEAR(t, 102, PEER_LOST, peer_lost, 0);
    ignore(t);
    worker_member(t, 102, 1, MEMBER_GONE, true);
    ignore(t);
    assert_int_equal(job_view_of(t, 1).lost, 1);
    talk_end(t);
}

static void step(struct talk *t, struct msg m)
{
    const struct event e = {.now_us = t->now, .m = m};

    ignore(t);
    dist_step(&t->d, &e, &t->out);
}

static const uint32_t many = 100000, few = 10000;

/* All tasks of the job are launched and fail, one after the other. */
static void fail_all(struct talk *t, uint64_t seq, uint32_t tasks)
{
    for (uint32_t i = 0; i < tasks; i++) {
        struct msg m = {.type = MSG_TASK_REQUEST, .peer = 101};

        m.task_request.job = J(seq);
        m.task_request.request = (uint32_t)seq * many + i;
        step(t, m);
        m = (struct msg){.type = MSG_TASK_FINISHED, .peer = 101};
        m.task_finished.id = try_of(seq, i, 1, 1);
        m.task_finished.outcome = OUTCOME_EXITED;
        m.task_finished.code = 1;
        t->now++;
        step(t, m);
    }
}

static void many_that_wait_long_do_not_slow_down_those_that_wait_briefly(void **state)
{
    struct talk *t = talk_joined("hawk", 1);
    clock_t began = clock(), all;

    submit(t, desc_retries(many, 1, 3600 * US_PER_S));
    ignore(t);
    fail_all(t, 1, many);
    all = clock() - began;
    ignore(t);
    submit(t, desc_retries(few, 1, 1 * US_PER_S));
    began = clock();
    fail_all(t, 2, few);
    assert_int_equal(block_of(t, 2), DIST_BLOCK_DELAYED);
    for (int64_t until = t->now + 1 * US_PER_S; dist_next_timeout(&t->d) <= until;) {
        t->now = dist_next_timeout(&t->d) > t->now ? dist_next_timeout(&t->d) : t->now;
        step(t, (struct msg){.type = MSG_TIMER});
    }
    assert_true(clock() - began < all);
    assert_int_equal(t->d.delayed.n, many);
    ignore(t);
    talk_end(t);
}

static void failures_are_on_record(void **state)
{
    struct talk *t = talk_joined("hawk", 1);
    struct job_desc *desc = desc_retries(1, 2, 0);

    desc->flags |= JOB_DETACHED;
    submit(t, desc);
    ignore(t);
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = t->d.token);
    ignore(t);
    launch(t, 101, 1, "101 TASK_LAUNCH id=3.1/0@1.1");
    ended(t, 101, try_of(1, 0, 1, 1), OUTCOME_EXITED, 1);
    for (uint32_t i = 0; i < t->out.n; i++)
        if (t->out.v[i].type == MSG_JOURNAL_TASK) {
            assert_int_equal(t->out.v[i].journal_task.failures, 1);
            assert_int_equal(t->out.v[i].journal_task.state, TASK_WAITING);
            ignore(t);
            HEAR(t, 0, JOURNAL_DONE, journal_done, .token = t->d.token);
            says(t, "101 FINISH_ACK"); /* not before */
            ignore(t);
            talk_end(t);
            return;
        }
    fail_msg("no record of the failure");
}

static void central_says(struct talk *t, struct try_id id, enum task_state state, enum outcome outcome)
{
    HEAR(t, CENTRAL, LONG_TASK, long_task, .id = id, .state = state, .worker = {101}, .outcome = outcome);
}

static void what_waits_for_its_time_does_not_wait_for_slots(void **state)
{
    struct talk *t = talk_joined("hawk", 1);
    struct job_desc *desc = desc_retries(2, 1, 10 * US_PER_S);

    desc->tag = TAG_LONG;
    submit(t, desc);
    ignore(t);
    HEAR(t, CENTRAL, LONG_ACCEPTED, long_accepted, .job = J(1), .epoch = 1);
    for (uint32_t i = 0; i < 2; i++)
        central_says(t, try_of(1, i, 1, 1), TASK_RUNNING, OUTCOME_NONE);
    for (uint32_t i = 0; i < 2; i++)
        central_says(t, try_of(1, i, 1, 1), TASK_WAITING, OUTCOME_EXITED);
    assert_int_equal(block_of(t, 1), DIST_BLOCK_DELAYED);
    central_says(t, try_of(1, 0, 1, 1), TASK_WAITING, OUTCOME_NONE); /* its time has come */
    assert_int_equal(block_of(t, 1), DIST_BLOCK_PLACEMENT);
    central_says(t, try_of(1, 0, 1, 2), TASK_PLACED, OUTCOME_NONE);
    assert_int_equal(block_of(t, 1), DIST_BLOCK_PLACED);
    central_says(t, try_of(1, 0, 1, 2), TASK_RUNNING, OUTCOME_NONE);
    assert_int_equal(block_of(t, 1), DIST_BLOCK_DELAYED);
    central_says(t, try_of(1, 1, 1, 2), TASK_PLACED, OUTCOME_NONE);
    assert_int_equal(block_of(t, 1), DIST_BLOCK_PLACED);
    /* Central has lost the job, and its delay. */
    central_says(t, try_of(1, 1, 1, 2), TASK_WAITING, OUTCOME_EXITED);
    assert_int_equal(block_of(t, 1), DIST_BLOCK_DELAYED);
    HEAR(t, CENTRAL, LONG_WATCHED, long_watched, .job = J(1), .epoch = 1, .err = HAWK_ENOT_FOUND);
    ignore(t);
    HEAR(t, CENTRAL, LONG_ACCEPTED, long_accepted, .job = J(1), .epoch = 1);
    assert_int_equal(block_of(t, 1), DIST_BLOCK_PLACEMENT);
    ignore(t);
    talk_end(t);
}

/* Central placed it three times, since its workers handed it back: none of these tries was lost. */
static void what_central_tried_spends_no_retry_of_the_dist(void **state)
{
    struct talk *t = talk_joined("hawk", 1);
    struct job_desc *desc = desc_new(2, "big");

    desc->tag = TAG_LONG;
    desc->lost_retries = 1;
    submit(t, desc);
    ignore(t);
    HEAR(t, CENTRAL, LONG_ACCEPTED, long_accepted, .job = J(1), .epoch = 1);
    HEAR(t, CENTRAL, LONG_TASK, long_task, .id = try_of(1, 0, 1, 3), .state = TASK_PLACED, .worker = {101});
    HEAR(t, CENTRAL, PEER_LOST, peer_lost, 0);
    ignore(t);
    central_joins(t);
    ignore(t);
    HEAR(t, CENTRAL, LONG_TASK, long_task, .id = try_of(1, 1, 1, 1), .state = TASK_PLACED, .worker = {101});
    HEAR(t, CENTRAL, LONG_WATCHED, long_watched, .job = J(1), .epoch = 1);
    ignore(t);
    request(t, 101, 1, 1);
    says(t, "101 TASK_LAUNCH id=3.1/0@1.4");
    ignore(t);
    HEAR(t, 101, PEER_LOST, peer_lost, 0);
    worker_member(t, 101, 1, MEMBER_GONE, true);
    assert_int_equal(task_view_of(t, 1, 0).state, TASK_WAITING);
    ignore(t);
    talk_end(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failed_task_runs_again),
        cmocka_unit_test(a_failed_try_is_not_taken_up_again),
        cmocka_unit_test(it_waits_longer_each_time),
        cmocka_unit_test(what_waits_for_its_time_does_not_wait_for_slots),
        cmocka_unit_test(only_what_was_asked_for_is_tried_again),
        cmocka_unit_test(a_job_that_is_cancelled_does_not_wait),
        cmocka_unit_test(a_task_of_a_cancelled_job_has_failed),
        cmocka_unit_test(lost_tries_count_apart),
        cmocka_unit_test(many_that_wait_long_do_not_slow_down_those_that_wait_briefly),
        cmocka_unit_test(failures_are_on_record),
        cmocka_unit_test(what_central_tried_spends_no_retry_of_the_dist),
    };

    return cmocka_run_group_tests_name("dist_retries", tests, NULL, NULL);
}
