/* Jobs that are held: docs/protocol.md 14, the dist's side. */
#include "tests/test_dist_restart.h"

#include "msg/after.h"

static void hold(struct talk *t, uint64_t seq, bool on)
{
    HEAR(t, 0, HOLD, hold, .job = J(seq), .client = 4, .on = on);
}

/* What is on record up to here, and whatever follows from it. */
static void journalled(struct talk *t, uint64_t token)
{
    ignore(t);
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = token);
    ignore(t);
}

/* Central has job 3.1, which is detached and of one task. */
static struct talk *talk_with_long_job(void)
{
    struct talk *t = talk_joined("hawk", 1);
    struct job_desc *desc = desc_new(1, "big");

    desc->flags = JOB_DETACHED;
    desc->tag = TAG_LONG;
    submit(t, desc);
    journalled(t, 1);
    HEAR(t, CENTRAL, LONG_ACCEPTED, long_accepted, .job = J(1), .epoch = 1);
    ignore(t);
    return t;
}

static void test_held_nothing_of_it_starts(void **state)
{
    struct talk *t = talk_joined("hawk", 1);

    submit(t, desc_new(2, ""));
    ignore(t);
    request(t, 101, 1, 1);
    ignore(t);
    hold(t, 1, true);
    says(t, "101 PROBE_CANCEL job=3.1");
    says(t, "- HOLD_SET job=3.1 client=4 err=0");
    ignore(t);
    request(t, 101, 1, 2);
    says(t, "101 NO_TASK");
    assert_int_equal(block_of(t, 1), DIST_BLOCK_HELD);
    /* What runs goes on. */
    finished(t, 101, try_of(1, 0, 1, 1), 0, 50);
    says(t, "101 FINISH_ACK");
    hold(t, 1, false);
    says(t, "101 PROBE job=3.1 estimate_us=0 count=2");
    says(t, "- HOLD_SET job=3.1 client=4 err=0");
    talk_end(t);
}

/* Its tasks start one after the other, so it is probed for. That stays so when its only task that ran is lost. */
static void test_what_has_run_stays_here(void **state)
{
    struct talk *t = talk_joined("hawk", 1);
    struct job_desc *desc = desc_new(2, "big");

    submit(t, desc_new(2, ""));
    ignore(t);
    desc->lost_retries = 1;
    desc->tag = TAG_LONG;
    after_add(&desc->after, "3.1", 3);
    submit(t, desc);
    ignore(t);
    for (uint32_t i = 0; i < 2; i++) {
        request(t, 101, 1, 1 + i);
        ignore(t);
    }
    finished(t, 101, try_of(1, 0, 1, 1), 0, 50);
    ignore(t);
    request(t, 101, 2, 3);
    says(t, "101 TASK_LAUNCH id=3.2/0@1.1");
    ignore(t);
    HEAR(t, 101, TASK_STARTED, task_started, .id = try_of(2, 0, 1, 1));
    ignore(t);
    hold(t, 2, true);
    ignore(t);
    finished(t, 101, try_of(1, 1, 1, 1), 0, 50);
    ignore(t);
    HEAR(t, 101, PEER_LOST, peer_lost, 0);
    worker_member(t, 101, 1, MEMBER_GONE, true);
    worker_up(t, 102, 1, true);
    ignore(t);
    hold(t, 2, false);
    says(t, "102 PROBE job=3.2 estimate_us=0 count=4 class=1");
    ignore(t);
    assert_int_equal(job_view_of(t, 2).state, JOB_RUNNING);
    talk_end(t);
}

static void test_held_before_anything_started(void **state)
{
    struct talk *t = talk_joined("hawk", 1);

    submit(t, desc_new(1, ""));
    ignore(t);
    hold(t, 1, true);
    ignore(t);
    assert_int_equal(job_view_of(t, 1).state, JOB_HELD);
    hold(t, 7, true);
    says(t, "- HOLD_SET job=3.7 client=4 err=-5");
    talk_end(t);
}

/* A long job of two tasks, which is held while central is away. */
static struct talk *talk_held_without_central(void)
{
    struct talk *t = talk_joined("hawk", 1);
    struct job_desc *desc = desc_new(2, "big");

    HEAR(t, CENTRAL, PEER_LOST, peer_lost, 0);
    ignore(t);
    desc->tag = TAG_LONG;
    submit(t, desc);
    ignore(t);
    hold(t, 1, true);
    ignore(t);
    return t;
}

/* Otherwise a dist that had it before could have central cancel it. */
static void test_central_gets_a_held_job_as_held(void **state)
{
    struct talk *t = talk_held_without_central();

    central_joins(t);
    says(t, "central LONG_SUBMIT job=3.1");
    says(t, "central LONG_HOLD job=3.1 epoch=1 owner=1 on=1");
    ignore(t);
    HEAR(t, CENTRAL, LONG_ACCEPTED, long_accepted, .job = J(1), .epoch = 1);
    ignore(t);
    assert_int_equal(job_view_of(t, 1).state, JOB_HELD);
    hold(t, 1, false);
    says(t, "central LONG_HOLD job=3.1 epoch=1 owner=1 on=0");
    says(t, "- HOLD_SET job=3.1 client=4 err=0");
    assert_int_equal(job_view_of(t, 1).state, JOB_WAITING);
    ignore(t);
    talk_end(t);
}

static void old_central_joins(struct talk *t)
{
    HEAR(t, CENTRAL, PEER_UP, peer_up, .role = ROLE_CENTRAL, .version = 2);
    ignore(t);
    HEAR(t, CENTRAL, JOINED, joined, .cluster = 1, .heartbeat_us = 500000, .lease_us = 60000000,
         .node = {ME});
}

/* A client may have moved it here. That central has it already. */
static void test_what_an_earlier_central_has_of_a_held_job_is_asked(void **state)
{
    struct talk *t = talk_held_without_central();

    old_central_joins(t);
    silent(t);
    HEAR(t, CENTRAL, LONG_TASK, long_task, .id = try_of(1, 0, 1, 1), .worker = {101}, .state = TASK_RUNNING);
    says(t, "central LONG_WATCH job=3.1 epoch=1 owner=1");
    ignore(t);
    talk_end(t);
}

/* Whichever dist has it, it is under epoch 1 there: the next dist offers it under that. */
static void test_a_moved_job_that_is_released_has_one_epoch_at_central(void **state)
{
    struct talk *t = talk_joined("hawk", 1);
    struct job_desc *desc = desc_new(2, "big");
    struct resubmit *r = resubmit_new(0);

    HEAR(t, CENTRAL, PEER_LOST, peer_lost, 0);
    ignore(t);
    old_central_joins(t);
    ignore(t);
    desc->tag = TAG_LONG;
    r->job = J(1);
    r->epoch = 3;
    r->class = CLASS_LONG;
    r->why = WHY_TAG;
    r->held = true;
    HEAR(t, 0, SUBMIT, submit, .desc = desc, .resubmit = r, .client = 9);
    resubmit_drop(r);
    job_desc_drop(desc);
    ignore(t);
    HEAR(t, CENTRAL, LONG_WATCHED, long_watched, .job = J(1), .epoch = 1, .err = HAWK_ENOT_FOUND);
    ignore(t);
    hold(t, 1, false);
    says(t,
         "central LONG_SUBMIT job=3.1 desc=\"big\"x2 tasks=all estimate_us=10000000 epoch=1 why=1 owner=3");
    ignore(t);
    talk_end(t);
}

static void test_released_before_the_dist_has_settled_it_is_centrals(void **state)
{
    struct talk *t = talk_again();
    struct job_desc *desc = desc_new(2, "big");

    desc->tag = TAG_LONG;
    desc->flags |= JOB_SUBMIT_HELD;
    journal_job(t, 7, desc, 1, 0, NULL);
    HEAR(t, 0, RECOVERED, recovered, 0);
    central_joins(t);
    worker_up(t, 101, 1, true);
    ignore(t);
    hold(t, 7, false);
    ignore(t);
    held_end(t, 101);
    ignore(t);
    wait_timer(t, 50000);
    says(t, "- JOURNAL_JOB job=3.7 token=2 desc=- tasks=all estimate_us=0 epoch=1 life=1 handed=1");
    ignore(t);
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 99);
    says(t, "central LONG_SUBMIT job=3.7");
    ignore(t);
    talk_end(t);
}

static void test_a_hold_is_on_record_before_it_is_confirmed(void **state)
{
    struct talk *t = talk_joined("hawk", 1);

    submit_detached(t);
    journalled(t, 1);
    hold(t, 1, true);
    says(t, "101 PROBE_CANCEL");
    says(t, "- JOURNAL_WAITS job=3.1 token=2 cause=- met=0 epoch=1 held=1");
    ignore(t);
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 2);
    says(t, "- HOLD_SET job=3.1 client=4 err=0");
    talk_end(t);
}

static void test_a_hold_that_cannot_be_written_is_told(void **state)
{
    struct talk *t = talk_joined("hawk", 1);

    submit_detached(t);
    journalled(t, 1);
    hold(t, 1, true);
    says(t, "101 PROBE_CANCEL");
    says(t, "- JOURNAL_WAITS job=3.1 token=2");
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 2, .err = HAWK_EIO);
    says(t, "- HOLD_SET job=3.1 client=4 err=-19");
    submit(t, desc_new(1, "")); /* one without records waits for no record */
    ignore(t);
    hold(t, 2, true);
    says(t, "- HOLD_SET job=3.2 client=4 err=0");
    ignore(t);
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 2); /* told already */
    talk_end(t);
}

static void test_a_hold_is_read_back(void **state)
{
    struct talk *t = talk_again();

    journal_job(t, 7, desc_new(1, ""), 1, 0, NULL);
    HEAR(t, 0, JOURNAL_WAITS, journal_waits, .job = J(7), .epoch = 1, .held = 1);
    HEAR(t, 0, RECOVERED, recovered, 0);
    ignore(t);
    central_joins(t);
    worker_up(t, 101, 1, true);
    ignore(t);
    held_end(t, 101);
    ignore(t);
    wait_timer(t, 50000);
    assert_int_equal(job_view_of(t, 7).state, JOB_HELD);
    ignore(t);
    hold(t, 7, false);
    says(t, "101 PROBE job=3.7");
    ignore(t);
    talk_end(t);
}

/* Central has lost its state, and the job is held and released before all workers have said what they have of it. */
static void test_released_while_workers_are_asked(void **state)
{
    struct talk *t = talk_again();
    struct job_desc *desc = desc_new(1, "big");

    desc->tag = TAG_LONG;
    journal_job(t, 7, desc, 1, 1, NULL);
    HEAR(t, 0, RECOVERED, recovered, 0);
    ignore(t);
    central_joins(t);
    says(t, "central LONG_WATCH job=3.7");
    ignore(t);
    worker_up(t, 101, 1, true);
    ignore(t);
    hold(t, 7, true);
    ignore(t);
    HEAR(t, CENTRAL, LONG_WATCHED, long_watched, .job = J(7), .epoch = 1, .err = HAWK_ENOT_FOUND);
    ignore(t);
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 99);
    says(t, "central LONG_HOLD job=3.7 epoch=1 owner=3 on=1");
    says(t, "central LONG_SUBMIT job=3.7");
    says(t, "central LONG_HOLD job=3.7 epoch=1 owner=3 on=1");
    ignore(t);
    hold(t, 7, false);
    ignore(t);
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 199);
    says(t, "central LONG_HOLD job=3.7 epoch=1 owner=3 on=0");
    ignore(t);
    talk_end(t);
}

static void test_central_hears_of_a_hold_when_it_is_on_record(void **state)
{
    struct talk *t = talk_with_long_job();

    hold(t, 1, true);
    says(t, "- JOURNAL_WAITS job=3.1");
    ignore(t);
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 2);
    says(t, "central LONG_HOLD job=3.1 epoch=1 owner=1 on=1");
    says(t, "- HOLD_SET job=3.1 client=4 err=0");
    hold(t, 1, false);
    ignore(t);
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 3);
    says(t, "central LONG_HOLD job=3.1 epoch=1 owner=1 on=0");
    ignore(t);
    /* A central that comes back hears it again, before anything else about the job. */
    hold(t, 1, true);
    ignore(t);
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 4);
    ignore(t);
    HEAR(t, CENTRAL, PEER_LOST, peer_lost, 0);
    central_joins(t);
    says(t, "central LONG_HOLD job=3.1 epoch=1 owner=1 on=1");
    says(t, "central LONG_WATCH job=3.1 epoch=1");
    ignore(t);
    talk_end(t);
}

static struct talk *talk_held_before(void)
{
    struct talk *t = talk_again();
    struct job_desc *desc = desc_new(1, "big");

    desc->tag = TAG_LONG;
    journal_job(t, 7, desc, 1, 1, NULL);
    HEAR(t, 0, JOURNAL_WAITS, journal_waits, .job = J(7), .epoch = 1, .held = 1);
    HEAR(t, 0, RECOVERED, recovered, 0);
    ignore(t);
    central_joins(t);
    says(t, "central LONG_HOLD job=3.7 epoch=1 owner=3 on=2");
    says(t, "central LONG_WATCH job=3.7");
    ignore(t);
    return t;
}

static void test_released_at_central_meanwhile(void **state)
{
    struct talk *t = talk_held_before();

    HEAR(t, CENTRAL, LONG_HOLD, long_hold, .job = J(7), .epoch = 1);
    says(t, "- JOURNAL_WAITS job=3.7");
    HEAR(t, CENTRAL, LONG_WATCHED, long_watched, .job = J(7), .epoch = 1);
    ignore(t);
    assert_int_not_equal(job_view_of(t, 7).state, JOB_HELD);
    /* Central needs no answer. */
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 99);
    silent(t);
    talk_end(t);
}

static void test_held_again_before_it_hears_of_the_release(void **state)
{
    struct talk *t = talk_held_before();

    hold(t, 7, true);
    says(t, "central LONG_HOLD job=3.7 epoch=1 owner=3 on=1");
    ignore(t);
    HEAR(t, CENTRAL, LONG_HOLD, long_hold, .job = J(7), .epoch = 1);
    silent(t);
    assert_int_equal(job_view_of(t, 7).state, JOB_HELD);
    talk_end(t);
}

static void test_held_from_the_start(void **state)
{
    struct talk *t = talk_joined("hawk", 1);
    struct job_desc *is_short = tagged(1), *is_long = desc_new(1, "");

    is_short->flags |= JOB_SUBMIT_HELD;
    is_long->flags |= JOB_SUBMIT_HELD | JOB_DETACHED;
    is_long->tag = TAG_LONG;
    submit(t, is_short);
    says(t, "- SUBMITTED job=3.1 client=9 err=0");
    ignore(t);
    submit(t, is_long);
    says(t, "- JOURNAL_JOB job=3.2 token=1");
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 1);
    says(t, "- SUBMITTED job=3.2 client=9 err=0");
    assert_int_equal(job_view_of(t, 1).state, JOB_HELD);
    assert_int_equal(job_view_of(t, 2).state, JOB_HELD);
    hold(t, 1, false);
    says(t, "101 PROBE job=3.1");
    ignore(t);
    hold(t, 2, false);
    ignore(t);
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 2);
    assert_int_equal(job_view_of(t, 2).state, JOB_PENDING);
    talk_end(t);
}

/* Its first record is all that there is of it. */
static void test_held_from_the_start_on_after_a_restart(void **state)
{
    struct talk *t = talk_again();
    struct job_desc *desc = desc_new(1, "");

    desc->flags |= JOB_SUBMIT_HELD;
    journal_job(t, 7, desc, 1, 0, NULL);
    recover_with_nothing_held(t);
    ignore(t);
    assert_int_equal(job_view_of(t, 7).state, JOB_HELD);
    hold(t, 7, false);
    says(t, "101 PROBE job=3.7");
    ignore(t);
    talk_end(t);
}

/* A client that did not reach the dist held the job at central. */
static void test_central_hears_of_a_release_that_changes_nothing_here(void **state)
{
    struct talk *t = talk_with_long_job();

    hold(t, 1, false);
    says(t, "central LONG_HOLD job=3.1 epoch=1 owner=1 on=0");
    says(t, "- HOLD_SET job=3.1 client=4 err=0");
    HEAR(t, CENTRAL, PEER_LOST, peer_lost, 0);
    hold(t, 1, false);
    ignore(t);
    central_joins(t);
    says(t, "central LONG_HOLD job=3.1 epoch=1 owner=1 on=0");
    says(t, "central LONG_WATCH job=3.1 epoch=1");
    ignore(t);
    talk_end(t);
}

/* A client may have held it at central before the release. */
static void test_central_hears_of_a_release_before_its_hold_is_on_record(void **state)
{
    struct talk *t = talk_with_long_job();

    hold(t, 1, true);
    ignore(t);
    hold(t, 1, false);
    ignore(t);
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 3);
    says(t, "central LONG_HOLD job=3.1 epoch=1 owner=1 on=0");
    ignore(t);
    talk_end(t);
}

/* A promoted job that its client moved here held: central, which had a part of it, lost its state. */
static void test_released_it_is_probed_for_though_its_rest_was_promoted(void **state)
{
    struct talk *t = talk_joined("hawk", 1);
    struct job_desc *desc = desc_new(2, "");
    struct resubmit *r = resubmit_new(0);

    r->job = J(1);
    r->epoch = 3;
    r->class = CLASS_LONG;
    r->why = WHY_PROMOTED;
    r->held = true;
    HEAR(t, 0, SUBMIT, submit, .desc = desc, .resubmit = r, .client = 9);
    resubmit_drop(r);
    job_desc_drop(desc);
    ignore(t);
    HEAR(t, CENTRAL, LONG_WATCHED, long_watched, .job = J(1), .epoch = 2, .err = HAWK_ENOT_FOUND);
    ignore(t);
    hold(t, 1, false);
    says(t, "101 PROBE job=3.1");
    says(t, "- HOLD_SET job=3.1 client=4 err=0");
    talk_end(t);
}

/* Central had accepted the promoted rest of a job before the dist restarted, and could not write it. */
static void test_what_comes_back_from_central_while_held_is_probed_for_as_long(void **state)
{
    struct talk *t = talk_again();
    struct job_desc *desc = desc_new(2, "");
    struct task_set *rest = task_set_new(1);

    rest->v[0] = 1;
    desc->flags = JOB_DETACHED;
    HEAR(t, 0, JOURNAL_JOB, journal_job, .job = J(7), .desc = desc, .tasks = rest, .epoch = 1, .life = 1,
         .handed = 2, .class = CLASS_LONG, .why = WHY_PROMOTED);
    task_set_drop(rest);
    job_desc_drop(desc);
    journal_task(t, 7, 0, TASK_DONE);
    HEAR(t, 0, JOURNAL_WAITS, journal_waits, .job = J(7), .epoch = 1, .held = 1);
    HEAR(t, 0, RECOVERED, recovered, 0);
    central_joins(t);
    ignore(t);
    worker_up(t, 101, 1, true);
    held_end(t, 101);
    wait_timer(t, 50000);
    HEAR(t, CENTRAL, LONG_REFUSED, long_refused, .job = J(7), .epoch = 2, .err = HAWK_EIO);
    ignore(t);
    hold(t, 7, false);
    says(t, "101 PROBE job=3.7 estimate_us=0 count=2 class=1");
    ignore(t);
    talk_end(t);
}

/* It was released before the dist died, and a client may have held it at central meanwhile. */
static void test_what_is_read_back_as_released_ends_no_hold_at_central(void **state)
{
    struct talk *t = talk_again();
    struct job_desc *desc = desc_new(1, "big");

    desc->tag = TAG_LONG;
    journal_job(t, 7, desc, 1, 1, NULL);
    HEAR(t, 0, JOURNAL_WAITS, journal_waits, .job = J(7), .epoch = 1, .held = 0);
    HEAR(t, 0, RECOVERED, recovered, 0);
    ignore(t);
    central_joins(t);
    says(t, "central LONG_WATCH job=3.7");
    ignore(t);
    talk_end(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_held_nothing_of_it_starts),
        cmocka_unit_test(test_what_has_run_stays_here),
        cmocka_unit_test(test_held_before_anything_started),
        cmocka_unit_test(test_central_gets_a_held_job_as_held),
        cmocka_unit_test(test_what_an_earlier_central_has_of_a_held_job_is_asked),
        cmocka_unit_test(test_a_moved_job_that_is_released_has_one_epoch_at_central),
        cmocka_unit_test(test_released_before_the_dist_has_settled_it_is_centrals),
        cmocka_unit_test(test_a_hold_is_on_record_before_it_is_confirmed),
        cmocka_unit_test(test_a_hold_that_cannot_be_written_is_told),
        cmocka_unit_test(test_a_hold_is_read_back),
        cmocka_unit_test(test_released_while_workers_are_asked),
        cmocka_unit_test(test_central_hears_of_a_hold_when_it_is_on_record),
        cmocka_unit_test(test_central_hears_of_a_release_that_changes_nothing_here),
        cmocka_unit_test(test_central_hears_of_a_release_before_its_hold_is_on_record),
        cmocka_unit_test(test_released_it_is_probed_for_though_its_rest_was_promoted),
        cmocka_unit_test(test_what_comes_back_from_central_while_held_is_probed_for_as_long),
        cmocka_unit_test(test_what_is_read_back_as_released_ends_no_hold_at_central),
        cmocka_unit_test(test_released_at_central_meanwhile),
        cmocka_unit_test(test_held_again_before_it_hears_of_the_release),
        cmocka_unit_test(test_held_from_the_start),
        cmocka_unit_test(test_held_from_the_start_on_after_a_restart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
