/* Jobs that wait for jobs: docs/protocol.md 14, the dist's side. */
#include "tests/test_dist_restart.h"

#include "msg/after.h"

#include <time.h>

static void after(struct job_desc *desc, const char *text) { after_add(&desc->after, text, strlen(text)); }

static void submit_one(struct talk *t)
{
    submit(t, desc_new(1, ""));
    ignore(t);
}

/* A job with these predecessors, and no more to say of it than that it was accepted. */
static void submit_after(struct talk *t, uint32_t tasks, uint32_t flags, const char *first,
                         const char *second)
{
    struct job_desc *desc = desc_new(tasks, "next");

    desc->flags |= flags;
    after(desc, first);
    if (second)
        after(desc, second);
    submit(t, desc);
}

/* The job's only task runs at 101, by its request of this number, and ends with this code. */
static void run_one(struct talk *t, uint64_t seq, uint32_t number, int32_t code)
{
    request(t, 101, seq, number);
    ignore(t);
    finished(t, 101, try_of(seq, 0, 1, 1), code, 50);
}

/* ---- Predecessors ---- */

static void test_begins_when_its_predecessor_is_done(void **state)
{
    struct talk *t = talk_joined("hawk", 1);

    submit_one(t);
    submit_after(t, 1, 0, "3.1", NULL);
    says(t, "- SUBMITTED job=3.2 client=9 err=0");
    assert_int_equal(job_view_of(t, 2).state, JOB_BLOCKED);
    assert_int_equal(block_of(t, 2), DIST_BLOCK_AFTER);
    run_one(t, 1, 1, 0);
    says(t, "101 FINISH_ACK id=3.1/0@1.1");
    says(t, "101 PROBE job=3.2 estimate_us=0 count=2");
    says(t, "central JOB_REPORT name=\"\"");
    says(t, "- JOB_EVENT job=3.1 done=1 failed=0 state=3");
    assert_int_equal(job_view_of(t, 2).state, JOB_WAITING);
    talk_end(t);
}

static void test_waits_for_the_last_of_several(void **state)
{
    struct talk *t = talk_joined("hawk", 1);

    submit_one(t);
    submit_one(t);
    submit_after(t, 1, 0, "3.1", "3.2");
    ignore(t);
    run_one(t, 2, 1, 0);
    ignore(t);
    assert_int_equal(job_view_of(t, 3).state, JOB_BLOCKED);
    run_one(t, 1, 2, 0);
    says(t, "101 FINISH_ACK");
    says(t, "101 PROBE job=3.3");
    ignore(t);
    talk_end(t);
}

static void test_a_predecessor_that_fails_cancels_what_waits_in_turn(void **state)
{
    struct talk *t = talk_joined("hawk", 1);

    submit_one(t);
    submit_after(t, 2, 0, "3.1", NULL);
    ignore(t);
    submit_after(t, 1, 0, "3.2:any", NULL);
    ignore(t);
    submit_after(t, 1, 0, "3.2", NULL);
    ignore(t);
    submit_after(t, 1, 0, "3.1:failed", NULL);
    ignore(t);
    run_one(t, 1, 1, 7);
    ignore(t);
    assert_int_equal(job_view_of(t, 2).state, JOB_CANCELLED);
    assert_int_equal(job_view_of(t, 2).cause.v, J(1).v);
    assert_int_equal(job_view_of(t, 3).state, JOB_WAITING);
    assert_int_equal(job_view_of(t, 4).state, JOB_CANCELLED);
    assert_int_equal(job_view_of(t, 4).cause.v, J(2).v);
    assert_int_equal(job_view_of(t, 5).state, JOB_WAITING);
    talk_end(t);
}

static void test_tasks_wait_for_tasks(void **state)
{
    struct talk *t = talk_joined("hawk", 1);

    submit(t, desc_new(2, ""));
    ignore(t);
    submit_after(t, 2, 0, "3.1", NULL);
    says(t, "- SUBMITTED job=3.2");
    request(t, 101, 1, 1);
    says(t, "101 TASK_LAUNCH id=3.1/0@1.1");
    request(t, 101, 1, 2);
    ignore(t);
    finished(t, 101, try_of(1, 1, 1, 1), 0, 50);
    says(t, "101 FINISH_ACK");
    says(t, "101 PROBE job=3.2 estimate_us=0 count=2");
    ignore(t);
    request(t, 101, 2, 3);
    says(t, "101 TASK_LAUNCH id=3.2/1@1.1"); /* and not its first, which waits still */
    ignore(t);
    /* The first one's predecessor fails. */
    finished(t, 101, try_of(1, 0, 1, 1), 3, 50);
    ignore(t);
    assert_int_equal(task_view_of(t, 2, 0).state, TASK_CANCELLED);
    assert_int_equal(task_view_of(t, 2, 1).state, TASK_LAUNCHED);
    assert_int_equal(job_view_of(t, 2).cause.v, J(1).v);
    talk_end(t);
}

static void test_a_lost_task_counts_as_failed(void **state)
{
    struct talk *t = talk_joined("hawk", 1);
    struct job_desc *desc = desc_new(2, "");

    desc->flags |= JOB_AT_MOST_ONCE;
    submit(t, desc);
    ignore(t);
    submit_after(t, 2, 0, "3.1:failed", NULL);
    ignore(t);
    request(t, 101, 1, 1);
    ignore(t);
    worker_member(t, 101, 1, MEMBER_GONE, true);
    ignore(t);
    assert_int_equal(task_view_of(t, 1, 0).state, TASK_LOST);
    assert_int_equal(task_view_of(t, 2, 0).state, TASK_WAITING);
    talk_end(t);
}

/* Both have ended when it comes: the one that failed decides, in whatever order they are named. */
static void test_a_task_with_a_failed_and_a_done_predecessor_is_cancelled(void **state)
{
    struct talk *t = talk_joined("hawk", 1);

    for (uint64_t seq = 1; seq <= 2; seq++) {
        submit(t, desc_new(2, ""));
        ignore(t);
        request(t, 101, seq, (uint32_t)seq);
        ignore(t);
        finished(t, 101, try_of(seq, 0, 1, 1), seq == 1 ? 7 : 0, 50);
        ignore(t);
    }
    submit_after(t, 2, 0, "3.1", "3.2");
    ignore(t);
    submit_after(t, 2, 0, "3.2", "3.1");
    ignore(t);
    for (uint64_t seq = 3; seq <= 4; seq++) {
        assert_int_equal(task_view_of(t, seq, 0).state, TASK_CANCELLED);
        assert_int_equal(task_view_of(t, seq, 1).state, TASK_WAITING);
        assert_int_equal(job_view_of(t, seq).cause.v, J(1).v);
    }
    talk_end(t);
}

static void test_as_a_whole_when_it_says_so(void **state)
{
    struct talk *t = talk_joined("hawk", 1);

    submit(t, desc_new(2, ""));
    ignore(t);
    submit_after(t, 2, JOB_AFTER_WHOLE, "3.1", NULL);
    ignore(t);
    request(t, 101, 1, 1);
    ignore(t);
    finished(t, 101, try_of(1, 0, 1, 1), 0, 50);
    says(t, "101 FINISH_ACK");
    assert_int_equal(job_view_of(t, 2).state, JOB_BLOCKED);
    talk_end(t);
}

/* A step without dist_check(), which goes over all jobs and tasks. */
static void step(struct talk *t, struct msg m)
{
    const struct event e = {.now_us = t->now, .m = m};

    ignore(t);
    dist_step(&t->d, &e, &t->out);
}

/* The processor time of cancelling a job that so many others wait for as a whole. */
static clock_t cost_of_cancelling(uint32_t tasks, uint32_t followers)
{
    struct talk *t = talk_joined("hawk", 0);
    clock_t began;

    for (uint32_t i = 0; i <= followers; i++) {
        struct job_desc *desc = desc_new(i == 0 ? tasks : 1, "");

        if (i > 0)
            after(desc, "3.1");
        step(t, (struct msg){.type = MSG_SUBMIT, .submit = {.desc = desc, .client = 9}});
        job_desc_drop(desc);
    }
    assert_int_equal(job_view_of(t, followers + 1).state, followers > 0 ? JOB_BLOCKED : JOB_WAITING);
    began = clock();
    step(t, (struct msg){.type = MSG_CANCEL, .cancel = {.job = J(1), .client = 9}});
    began = clock() - began;
    assert_int_equal(job_view_of(t, followers + 1).state, JOB_CANCELLED);
    dist_check(&t->d);
    ignore(t);
    talk_end(t);
    return began;
}

static void test_the_end_of_a_task_is_cheap_however_many_wait_for_its_job(void **state)
{
    const uint32_t tasks = 20000, followers = 4000;
    clock_t apart = cost_of_cancelling(tasks, 0) + cost_of_cancelling(1, followers);

    assert_true(cost_of_cancelling(tasks, followers) < 6 * apart);
}

/* Its client moved it away and back: what the other dist made of its tasks is not known here. */
static void test_whoever_waits_for_a_job_that_is_replaced_is_cancelled(void **state)
{
    struct talk *t = talk_joined("hawk", 1);
    struct job_desc *desc = desc_new(2, "");
    struct resubmit *r = resubmit_new(0);

    submit(t, job_desc_ref(desc));
    ignore(t);
    submit_after(t, 2, 0, "3.1", NULL);
    ignore(t);
    submit_after(t, 2, JOB_AFTER_WHOLE, "3.1", NULL);
    ignore(t);
    r->job = J(1);
    r->epoch = 3;
    HEAR(t, 0, SUBMIT, submit, .desc = desc, .resubmit = r, .client = 9);
    ignore(t);
    for (uint64_t seq = 2; seq <= 3; seq++) {
        assert_int_equal(job_view_of(t, seq).state, JOB_CANCELLED);
        assert_int_equal(job_view_of(t, seq).cause.v, J(1).v);
    }
    resubmit_drop(r);
    job_desc_drop(desc);
    talk_end(t);
}

static void test_what_its_predecessor_does_is_nothing_to_an_ended_job(void **state)
{
    struct talk *t = talk_joined("hawk", 1);

    submit_one(t);
    submit_after(t, 1, 0, "3.1", NULL);
    ignore(t);
    HEAR(t, 0, CANCEL, cancel, .job = J(2), .client = 9);
    ignore(t);
    run_one(t, 1, 1, 7);
    ignore(t);
    assert_true(job_eq(job_view_of(t, 2).cause, JOB_NONE));
    talk_end(t);
}

static void test_whoever_is_not_known_here_is_refused(void **state)
{
    struct talk *t = talk_joined("hawk", 1);
    struct job_desc *desc = desc_new(1, "");

    blob_drop(desc->user);
    desc->user = blob_str("ann");
    submit(t, desc);
    ignore(t);
    submit_after(t, 1, 0, "3.7", NULL);
    says(t, "- SUBMITTED job=- client=9 err=-5");
    submit_after(t, 1, 0, "3.1", NULL); /* another user's */
    says(t, "- SUBMITTED job=- client=9 err=-5");
    talk_end(t);
}

static void test_a_long_job_is_handed_over_when_it_may_begin(void **state)
{
    struct talk *t = talk_joined("hawk", 1);
    struct job_desc *desc = desc_new(1, "big");

    submit_one(t);
    desc->tag = TAG_LONG;
    after(desc, "3.1:any");
    submit(t, desc);
    says(t, "- SUBMITTED job=3.2");
    run_one(t, 1, 1, 1);
    says(t, "central LONG_SUBMIT job=3.2");
    ignore(t);
    talk_end(t);
}

/* ---- On record ---- */

static void test_what_ended_as_asked_is_on_record_before_it_is_forgotten(void **state)
{
    struct talk *t = talk_joined("hawk", 1);

    submit_one(t);
    submit_after(t, 1, JOB_DETACHED, "3.1", NULL);
    ignore(t);
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 1);
    says(t, "- SUBMITTED job=3.2");
    run_one(t, 1, 1, 0);
    says(t, "- JOB_EVENT job=3.1");
    says(t, "- JOURNAL_WAITS job=3.2 token=2 cause=- met=1 epoch=1 held=0");
    ignore(t);
    talk_end(t);
}

static void test_nor_is_what_ended_task_by_task_forgotten_before(void **state)
{
    struct talk *t = talk_joined("hawk", 1);

    submit(t, desc_new(2, ""));
    ignore(t);
    submit_after(t, 2, JOB_DETACHED, "3.1", NULL);
    ignore(t);
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 1);
    for (uint32_t i = 0; i < 2; i++) {
        ignore(t);
        request(t, 101, 1, 1 + i);
        ignore(t);
        finished(t, 101, try_of(1, i, 1, 1), 0, 50);
    }
    says(t, "- JOB_EVENT job=3.1");
    says(t, "- JOURNAL_WAITS job=3.2 token=2 cause=- met=1 epoch=1 held=0");
    ignore(t);
    talk_end(t);
}

static void journal_after(struct talk *t, uint64_t seq, const char *pred)
{
    struct job_desc *desc = desc_new(1, "");

    after(desc, pred);
    journal_job(t, seq, desc, 1, 0, NULL);
}

static void test_read_back_it_waits_for_whom_it_waited_for(void **state)
{
    struct talk *t = talk_again();

    journal_job(t, 7, desc_new(1, ""), 1, 0, NULL);
    journal_after(t, 8, "3.7");
    journal_after(t, 9, "3.5"); /* met, and forgotten since */
    HEAR(t, 0, JOURNAL_WAITS, journal_waits, .job = J(9), .epoch = 1, .met = 1);
    journal_after(t, 10, "3.5"); /* in no journal */
    journal_after(t, 11, "3.5"); /* it ended because of that one */
    HEAR(t, 0, JOURNAL_ENDED, journal_ended, .job = J(11), .left_out = 1, .epoch = 1, .state = JOB_CANCELLED);
    HEAR(t, 0, JOURNAL_WAITS, journal_waits, .job = J(11), .epoch = 1, .cause = J(5));
    HEAR(t, 0, RECOVERED, recovered, 0);
    ignore(t);
    central_joins(t);
    worker_up(t, 101, 1, true);
    ignore(t);
    held_end(t, 101);
    ignore(t);
    wait_timer(t, 50000);
    says(t, "101 PROBE job=3.7");
    says(t, "101 PROBE job=3.9");
    ignore(t);
    assert_int_equal(job_view_of(t, 8).state, JOB_BLOCKED);
    assert_int_equal(job_view_of(t, 10).state, JOB_CANCELLED);
    assert_int_equal(job_view_of(t, 10).cause.v, J(5).v);
    assert_int_equal(job_view_of(t, 11).cause.v, J(5).v);
    talk_end(t);
}

/* Only as many bytes of it are copied as an id may have. */
static void no_id_is_longer_than_any(void **state)
{
    char text[2 * JOB_ID_TEXT];
    struct after a;

    memset(text, '1', sizeof text);
    for (size_t len = 0; len <= sizeof text; len++)
        assert_false(after_parse(text, len, &a));
    assert_true(after_parse("3.1:any", 7, &a));
    assert_int_equal(a.when, AFTER_ANY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_id_is_longer_than_any),
        cmocka_unit_test(test_begins_when_its_predecessor_is_done),
        cmocka_unit_test(test_waits_for_the_last_of_several),
        cmocka_unit_test(test_a_predecessor_that_fails_cancels_what_waits_in_turn),
        cmocka_unit_test(test_tasks_wait_for_tasks),
        cmocka_unit_test(test_a_lost_task_counts_as_failed),
        cmocka_unit_test(test_a_task_with_a_failed_and_a_done_predecessor_is_cancelled),
        cmocka_unit_test(test_as_a_whole_when_it_says_so),
        cmocka_unit_test(test_the_end_of_a_task_is_cheap_however_many_wait_for_its_job),
        cmocka_unit_test(test_whoever_waits_for_a_job_that_is_replaced_is_cancelled),
        cmocka_unit_test(test_what_its_predecessor_does_is_nothing_to_an_ended_job),
        cmocka_unit_test(test_whoever_is_not_known_here_is_refused),
        cmocka_unit_test(test_a_long_job_is_handed_over_when_it_may_begin),
        cmocka_unit_test(test_what_ended_as_asked_is_on_record_before_it_is_forgotten),
        cmocka_unit_test(test_nor_is_what_ended_task_by_task_forgotten_before),
        cmocka_unit_test(test_read_back_it_waits_for_whom_it_waited_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
