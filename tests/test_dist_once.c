/* A dist's at-most-once jobs: launches on record, and what is in doubt after a restart. */
#include "tests/test_dist_restart.h"

#include "msg/after.h"

/* ---- At most once ---- */

static struct job_desc *once_desc(uint32_t tasks)
{
    struct job_desc *desc = desc_new(tasks, "");

    desc->flags = JOB_DETACHED | JOB_AT_MOST_ONCE;
    desc->lost_retries = 5;
    return desc;
}

static void test_what_is_in_doubt_is_not_launched_again(void **state)
{
    struct talk *t = talk_again();

    journal_job(t, 7, once_desc(4), 1, 0, NULL);
    journal_task(t, 7, 0, TASK_DONE);
    journal_launch(t, 7, 1, 101);
    journal_launch(t, 7, 2, 101);
    HEAR(t, 0, RECOVERED, recovered, 0);
    central_joins(t);
    worker_up(t, 101, 1, true);
    held(t, 101, try_of(7, 1, 1, 1), TASK_RUNNING);
    held_end(t, 101);
    wait_timer(t, 50000);
    says(t, "- JOURNAL_TASK id=3.7/2@1.0 token=1 run_us=0 worker=101 code=0 state=7 outcome=6");
    says(t, "101 PROBE job=3.7 estimate_us=0 count=2"); /* task 3 was never launched */
    request(t, 101, 7, 1);
    says(t, "101 PROBE_CANCEL job=3.7");
    says(t, "- JOURNAL_TASK id=3.7/3@1.1 token=2 run_us=0 worker=101 code=0 state=2");
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 2);
    says(t, "101 TASK_LAUNCH id=3.7/3@3.1");
    HEAR(t, 101, PEER_LOST, peer_lost, 0);
    worker_member(t, 101, 1, MEMBER_GONE, true); /* nor when its worker is lost */
    says(t, "- JOURNAL_TASK id=3.7/3@1.1 token=3 run_us=0 worker=101 code=0 state=7");
    says(t, "- JOURNAL_TASK id=3.7/1@1.1 token=4 run_us=0 worker=101 code=0 state=7");
    says(t, "central JOB_REPORT");
    says(t, "- JOB_EVENT job=3.7 done=1 failed=3 state=4");
    says(t, "- JOURNAL_ENDED job=3.7");
    talk_end(t);
}

/* Central restarted as well, and does not list the workers that are not back yet: the dist waits for them as long as it
 * waits for anybody. */
static void test_what_may_run_at_workers_that_are_away_is_not_lost(void **state)
{
    struct talk *t = talk_again();
    struct members *list = members_new(0);

    journal_job(t, 7, once_desc(1), 1, 0, NULL);
    journal_launch(t, 7, 0, 102);
    HEAR(t, 0, RECOVERED, recovered, 0);
    central_joins(t);
    HEAR(t, CENTRAL, MEMBERS, members, .list = list, .workers_away = 1);
    members_drop(list);
    worker_up(t, 101, 1, true);
    held_end(t, 101);
    wait_timer(t, 50000);
    assert_int_equal(task_view_of(t, 7, 0).state, TASK_WAITING);
    worker_up(t, 102, 1, true);
    held(t, 102, try_of(7, 0, 1, 1), TASK_RUNNING);
    held_end(t, 102);
    while (t->now < 10 * US_PER_S && dist_next_timeout(&t->d) < 10 * US_PER_S)
        wait_timer(t, 10 * US_PER_S);
    assert_int_equal(task_view_of(t, 7, 0).state, TASK_RUNNING);
    ignore(t);
    talk_end(t);
}

/* It can be no other's: whoever claims it or tells of its end is wrong, or lies. */
static void test_what_is_in_doubt_is_the_workers_on_record(void **state)
{
    struct talk *t = talk_again();

    journal_job(t, 7, once_desc(3), 1, 0, NULL);
    for (uint32_t i = 0; i < 3; i++)
        journal_launch(t, 7, i, 101);
    HEAR(t, 0, RECOVERED, recovered, 0);
    central_joins(t);
    worker_up(t, 101, 1, true);
    worker_up(t, 102, 1, true);
    held(t, 102, try_of(7, 0, 1, 1), TASK_RUNNING);
    says(t, "102 TASK_CANCEL id=3.7/0@1.1");
    finished(t, 102, try_of(7, 1, 1, 1), 0, 50);
    says(t, "102 FINISH_ACK id=3.7/1@1.1");
    HEAR(t, 102, TASK_FINISHED, task_finished, .id = try_of(7, 2, 1, 1), .outcome = OUTCOME_NOT_STARTED,
         .code = CODE_CANNOT_START);
    says(t, "102 FINISH_ACK id=3.7/2@1.1");
    HEAR(t, 102, TASK_OVERRUN, task_overrun, .id = try_of(7, 2, 1, 1), .run_us = US_PER_S);
    held_end(t, 102);
    assert_int_equal(job_view_of(t, 7).waiting, 3);
    for (uint32_t i = 0; i < 3; i++)
        held(t, 101, try_of(7, i, 1, 1), TASK_RUNNING);
    held_end(t, 101);
    finished(t, 102, try_of(7, 0, 1, 1), 0, 50);
    says(t, "102 FINISH_ACK id=3.7/0@1.1");
    wait_timer(t, 50000);
    assert_int_equal(job_view_of(t, 7).running, 3);
    finished(t, 101, try_of(7, 0, 1, 1), 0, 50);
    assert_int_equal(job_view_of(t, 7).done, 1);
    ignore(t);
    talk_end(t);
}

/* Not by what its tasks show either: they outlive the cutoff, and a reservation of the earlier life asks at once. */
static void test_what_is_in_doubt_stays_so_though_the_job_overstays(void **state)
{
    struct talk *t = talk_again();
    struct job_desc *desc = once_desc(2);

    desc->tag = TAG_SHORT;
    journal_job(t, 7, desc, 1, 0, NULL);
    HEAR(t, 0, JOURNAL_TASK, journal_task, .id = try_of(7, 0, 1, 1), .state = TASK_DONE,
         .run_us = 20 * US_PER_S, .worker = {101}, .outcome = OUTCOME_EXITED);
    journal_launch(t, 7, 1, 101);
    HEAR(t, 0, RECOVERED, recovered, 0);
    central_joins(t);
    worker_up(t, 101, 1, true);
    request(t, 101, 7, 1);
    says(t, "101 NO_TASK job=3.7 request=1");
    held_end(t, 101);
    wait_timer(t, 50000);
    says(t, "- JOURNAL_TASK id=3.7/1@1.0 token=1 run_us=0 worker=101 code=0 state=7 outcome=6");
    ignore(t);
    talk_end(t);
}

/* Launched in this life, its worker lost: what another says of its age does not settle it. */
static void test_anothers_overrun_does_not_settle_it(void **state)
{
    struct talk *t = talk_again();

    journal_job(t, 7, once_desc(1), 1, 0, NULL);
    recover_with_nothing_held(t);
    ignore(t);
    worker_up(t, 102, 1, true);
    ignore(t);
    request(t, 101, 7, 1);
    ignore(t);
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = t->d.token);
    ignore(t);
    assert_int_equal(task_view_of(t, 7, 0).state, TASK_LAUNCHED);
    HEAR(t, 101, PEER_LOST, peer_lost, 0);
    ignore(t);
    HEAR(t, 102, TASK_OVERRUN, task_overrun, .id = try_of(7, 0, 3, 1), .run_us = US_PER_S);
    assert_int_equal(task_view_of(t, 7, 0).state, TASK_LAUNCHED);
    ignore(t);
    talk_end(t);
}

/* By a version that kept no launches. */
static void test_of_an_older_journal_all_is_in_doubt(void **state)
{
    struct talk *t = talk_again();

    journal_job(t, 7, once_desc(2), 0, 0, NULL);
    recover_with_nothing_held(t);
    ignore(t);
    assert_int_equal(job_view_of(t, 7).lost, 2);
    talk_end(t);
}

/* A job at most once, accepted. */
static struct talk *talk_once(uint32_t tasks)
{
    struct talk *t = talk_joined("hawk", 1);

    submit_durable(t, once_desc(tasks));
    return t;
}

static void test_a_launch_is_on_record_before_it_is_sent(void **state)
{
    struct talk *t = talk_once(3);

    request(t, 101, 1, 1);
    says(t, "- JOURNAL_TASK id=3.1/0@1.1 token=2 run_us=0 worker=101 code=0 state=2");
    request(t, 101, 1, 1); /* asked again: the answer will come */
    submit(t, desc_new(1, ""));
    ignore(t);
    request(t, 101, 2, 2); /* another job's does not wait */
    says(t, "101 TASK_LAUNCH id=3.2/0@1.1 desc=\"\"x1 arg=- request=2");
    ignore(t);
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 2);
    says(t, "101 TASK_LAUNCH id=3.1/0@1.1 desc=\"\"x3 arg=- request=1");
    request(t, 101, 1, 1);
    says(t, "101 TASK_LAUNCH id=3.1/0@1.1 desc=\"\"x3 arg=- request=1");
    talk_end(t);
}

static void test_a_launch_that_cannot_be_written_is_given_up(void **state)
{
    struct talk *t = talk_once(2);

    request(t, 101, 1, 1);
    ignore(t);
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 2, .err = HAWK_EIO);
    says(t, "101 NO_TASK job=3.1 request=1"); /* its slot is free for others */
    assert_string_equal(dist_block_word(block_of(t, 1)), "journal");
    assert_int_equal(job_view_of(t, 1).waiting, 2);
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 2); /* written after all: too late */
    assert_int_equal(block_of(t, 1), DIST_BLOCK_REFUSED);
    wait_timer(t, US_PER_S);
    says(t, "101 PROBE job=3.1");
    request(t, 101, 1, 2);
    says(t, "- JOURNAL_TASK id=3.1/0@1.1 token=3");
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 3, .err = HAWK_ELIMIT);
    says(t, "101 NO_TASK job=3.1 request=2");
    talk_end(t);
}

/* It will never be durable: who comes behind it does not wait for that. */
static void test_nobody_waits_for_a_launch_that_was_given_up(void **state)
{
    struct talk *t = talk_once(1);

    request(t, 101, 1, 1);
    says(t, "- JOURNAL_TASK id=3.1/0@1.1 token=2");
    ignore(t);
    finished(t, 101, try_of(98, 0, 1, 1), 0, 50); /* of a job that was forgotten, perhaps a moment ago */
    silent(t);
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 2, .err = HAWK_ELIMIT);
    says(t, "101 NO_TASK job=3.1 request=1");
    wait_timer(t, US_PER_S);
    says(t, "101 PROBE job=3.1");
    wait_timer(t, US_PER_S);
    says(t, "101 FINISH_ACK id=3.98/0@1.1");
    ignore(t);
    finished(t, 101, try_of(99, 0, 1, 1), 0, 50);
    says(t, "101 FINISH_ACK id=3.99/0@1.1");
    talk_end(t);
}

/* Its other task waits for one of the predecessor. */
static void test_a_launch_that_cannot_be_written_is_asked_for_later_beside_tasks_that_wait(void **state)
{
    struct talk *t = talk_joined("hawk", 1);
    struct job_desc *desc = once_desc(2);

    submit(t, desc_new(2, ""));
    ignore(t);
    after_add(&desc->after, "3.1", 3);
    submit_durable(t, desc);
    request(t, 101, 1, 1);
    ignore(t);
    finished(t, 101, try_of(1, 0, 1, 1), 0, 50);
    ignore(t);
    request(t, 101, 2, 2);
    says(t, "- JOURNAL_TASK id=3.2/0@1.1 token=2");
    ignore(t);
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 2, .err = HAWK_EIO);
    says(t, "101 NO_TASK job=3.2 request=2");
    silent(t);
    wait_timer(t, US_PER_S);
    says(t, "101 PROBE job=3.2");
    talk_end(t);
}

/* Flag probe_everywhere: a worker whose reservation was used gets another one for what is left. */
static void test_a_launch_that_is_not_written_yet_leaves_no_new_reservation(void **state)
{
    struct talk *t = talk_new("harrier");

    t->cfg.policy.probe_ratio_milli = 1000;
    talk_begin(t);
    central_joins(t);
    for (uint32_t i = 0; i < 3; i++)
        worker_up(t, 101 + i, 1, true);
    submit_durable(t, once_desc(3));
    request(t, 101, 1, 1);
    says(t, "- JOURNAL_TASK id=3.1/0@1.1 token=2");
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 2);
    says(t, "101 TASK_LAUNCH id=3.1/0@1.1");
    says(t, "101 PROBE job=3.1 estimate_us=0 count=1");
    request(t, 101, 1, 2);
    says(t, "- JOURNAL_TASK id=3.1/1@1.1 token=3");
    HEAR(t, 0, HOLD, hold, .job = J(1), .client = 4, .on = 1);
    ignore(t);
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 3);
    says(t, "101 TASK_LAUNCH id=3.1/1@1.1");
    silent(t);
    talk_end(t);
}

/* Its worker was never sent that try, and takes no message about a try with the number 0. */
static void test_a_launch_that_was_given_up_is_not_cancelled_at_its_worker(void **state)
{
    struct talk *t = talk_once(2);

    request(t, 101, 1, 1);
    ignore(t);
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 2, .err = HAWK_EIO);
    ignore(t);
    HEAR(t, 0, CANCEL, cancel, .job = J(1), .client = 9);
    for (uint32_t i = 0; i < t->out.n; i++)
        assert_int_not_equal(t->out.v[i].type, MSG_TASK_CANCEL);
    assert_int_equal(job_view_of(t, 1).cancelled, 2);
    ignore(t);
    talk_end(t);
}

/* A disk may be full for hours. The task has not run, so it is not lost; and it is asked for ever more seldom. */
static void test_launches_that_cannot_be_written_lose_nothing(void **state)
{
    enum { ROUNDS = 2000 };
    struct talk *t = talk_once(1);
    int64_t since = 0;

    for (uint32_t i = 1; i <= ROUNDS; i++) {
        if (i == ROUNDS - 100)
            since = t->now;
        request(t, 101, 1, i);
        ignore(t);
        HEAR(t, 0, JOURNAL_DONE, journal_done, .token = i + 1, .err = HAWK_EIO);
        ignore(t);
        wait_timer(t, 2 * US_PER_S);
        says(t, "101 PROBE job=3.1");
        ignore(t);
    }
    assert_true(t->now - since >= 50 * US_PER_S);
    assert_int_equal(job_view_of(t, 1).waiting, 1);
    request(t, 101, 1, ROUNDS + 1);
    ignore(t);
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = ROUNDS + 2);
    says(t, "101 TASK_LAUNCH id=3.1/0@1.1");
    talk_end(t);
}

/* A task whose launch was not sent is in no doubt. */
static void test_what_was_not_sent_is_launched_again(void **state)
{
    struct talk *t = talk_once(1);

    request(t, 101, 1, 1);
    ignore(t);
    HEAR(t, 101, PEER_LOST, peer_lost, 0);
    assert_int_equal(job_view_of(t, 1).waiting, 1);
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 2);
    worker_up(t, 101, 1, true);
    says(t, "101 PROBE job=3.1");
    request(t, 101, 1, 1);
    says(t, "101 PROBE_CANCEL job=3.1");
    says(t, "- JOURNAL_TASK id=3.1/0@1.2 token=3");
    worker_member(t, 101, 1, MEMBER_GONE, true); /* says central, but it is there, and waits for its answer */
    says(t, "101 NO_TASK job=3.1 request=1");
    worker_member(t, 101, 1, MEMBER_UP, true);
    says(t, "101 PROBE job=3.1");
    request(t, 101, 1, 2);
    says(t, "101 PROBE_CANCEL job=3.1");
    says(t, "- JOURNAL_TASK id=3.1/0@1.3 token=4");
    HEAR(t, 0, CANCEL, cancel, .job = J(1), .client = 4);
    says(t, "101 NO_TASK job=3.1 request=2");
    says(t, "- JOURNAL_CANCEL job=3.1 token=5");
    says(t, "- JOURNAL_TASK id=3.1/0@1.3 token=6 run_us=0 worker=101 code=0 state=6");
    says(t, "- JOB_EVENT job=3.1 done=0 failed=0 state=5");
    says(t, "- JOURNAL_ENDED job=3.1");
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 7);
    says(t, "- CANCELLED job=3.1 client=4 err=0");
    talk_end(t);
}

/* The record of an earlier launch says nothing of a later one, which is not on record yet. */
static void test_a_later_launch_waits_for_its_own_record(void **state)
{
    struct talk *t = talk_once(1);

    request(t, 101, 1, 1);
    says(t, "101 PROBE_CANCEL job=3.1");
    says(t, "- JOURNAL_TASK id=3.1/0@1.1 token=2");
    HEAR(t, 101, PEER_LOST, peer_lost, 0);
    worker_up(t, 101, 1, true);
    says(t, "101 PROBE job=3.1");
    request(t, 101, 1, 1);
    says(t, "101 PROBE_CANCEL job=3.1");
    says(t, "- JOURNAL_TASK id=3.1/0@1.2 token=3");
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 2);
    silent(t);
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 3);
    says(t, "101 TASK_LAUNCH id=3.1/0@1.2");
    talk_end(t);
}

/* It would be lost: on record as launched, and no worker's. */
static void test_it_does_not_leave_before_launches_on_record_are_sent(void **state)
{
    struct talk *t = talk_once(3);

    worker_up(t, 102, 1, true);
    ignore(t);
    request(t, 101, 1, 1);
    says(t, "- JOURNAL_TASK id=3.1/0@1.1 token=2 run_us=0 worker=101 code=0 state=2");
    HEAR(t, 0, STOP, stop, .now = 1);
    request(t, 102, 1, 1); /* no more are put on record */
    says(t, "102 NO_TASK job=3.1 request=1");
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 2);
    says(t, "101 TASK_LAUNCH id=3.1/0@1.1");
    says(t, "central LEAVE");
    says(t, "- STOPPED");
    talk_end(t);
    /* What cannot be written is waited for no longer. */
    t = talk_once(1);
    request(t, 101, 1, 1);
    ignore(t);
    HEAR(t, 0, STOP, stop, .now = 1);
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 2, .err = HAWK_EIO);
    says(t, "101 NO_TASK job=3.1 request=1");
    says(t, "central LEAVE");
    says(t, "- STOPPED");
    talk_end(t);
}

static void test_what_is_in_doubt_is_not_promoted(void **state)
{
    struct talk *t = talk_again();

    journal_job(t, 7, once_desc(2), 1, 0, NULL);
    journal_launch(t, 7, 0, 101);
    journal_launch(t, 7, 1, 101);
    HEAR(t, 0, RECOVERED, recovered, 0);
    central_joins(t);
    worker_up(t, 101, 1, true);
    held(t, 101, try_of(7, 0, 1, 1), TASK_RUNNING);
    HEAR(t, 101, TASK_OVERRUN, task_overrun, .id = try_of(7, 0, 1, 1), .run_us = 20 * US_PER_S);
    held_end(t, 101);
    wait_timer(t, 50000);
    says(t, "- JOURNAL_TASK id=3.7/1@1.0 token=1 run_us=0 worker=101 code=0 state=7 outcome=6");
    assert_int_equal(job_view_of(t, 7).lost, 1);
    talk_end(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_in_doubt_is_not_launched_again),
        cmocka_unit_test(test_what_may_run_at_workers_that_are_away_is_not_lost),
        cmocka_unit_test(test_what_is_in_doubt_is_the_workers_on_record),
        cmocka_unit_test(test_anothers_overrun_does_not_settle_it),
        cmocka_unit_test(test_what_is_in_doubt_stays_so_though_the_job_overstays),
        cmocka_unit_test(test_of_an_older_journal_all_is_in_doubt),
        cmocka_unit_test(test_a_launch_is_on_record_before_it_is_sent),
        cmocka_unit_test(test_a_launch_that_cannot_be_written_is_given_up),
        cmocka_unit_test(test_nobody_waits_for_a_launch_that_was_given_up),
        cmocka_unit_test(test_a_launch_that_cannot_be_written_is_asked_for_later_beside_tasks_that_wait),
        cmocka_unit_test(test_a_launch_that_is_not_written_yet_leaves_no_new_reservation),
        cmocka_unit_test(test_a_launch_that_was_given_up_is_not_cancelled_at_its_worker),
        cmocka_unit_test(test_launches_that_cannot_be_written_lose_nothing),
        cmocka_unit_test(test_what_was_not_sent_is_launched_again),
        cmocka_unit_test(test_a_later_launch_waits_for_its_own_record),
        cmocka_unit_test(test_it_does_not_leave_before_launches_on_record_are_sent),
        cmocka_unit_test(test_what_is_in_doubt_is_not_promoted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
