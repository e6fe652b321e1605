/* When the client of a detached long job gets its answer: docs/protocol.md 4.1. */
#include "tests/test_dist.h"

/* Its disk is full, for example. The job is on record here, and shown; its client does not submit it again. */
static void test_a_central_that_says_nothing_is_not_waited_for(void **state)
{
    struct talk *t = talk_joined("hawk", 1);

    submit_long(t, 1, JOB_DETACHED);
    ignore(t);
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 1);
    says(t, "central LONG_SUBMIT job=3.1");
    assert_null(dist_find(&t->d, J(1)));
    wait_timer(t, 5 * US_PER_S);
    says(t, "- SUBMITTED job=3.1 client=9 err=0");
    assert_int_equal(job_view_of(t, 1).state, JOB_PENDING);
    assert_int_equal(block_of(t, 1), DIST_BLOCK_CENTRAL_ACK);
    /* It was full for long, and central refuses the job now: it is offered again, after a second and not before. */
    HEAR(t, CENTRAL, LONG_REFUSED, long_refused, .job = J(1), .epoch = 1, .err = HAWK_ELIMIT);
    wait_timer(t, 1 * US_PER_S);
    says(t, "central LONG_SUBMIT job=3.1");
    HEAR(t, CENTRAL, LONG_ACCEPTED, long_accepted, .job = J(1), .epoch = 1);
    says(t, "central LONG_WATCH job=3.1");
    assert_int_equal(job_view_of(t, 1).state, JOB_WAITING);
    talk_end(t);
}

/* What central accepts in time leaves no timer behind. */
static void test_an_answer_of_central_ends_the_wait(void **state)
{
    struct talk *t = talk_joined("hawk", 1);

    submit_long(t, 1, JOB_DETACHED);
    ignore(t);
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 1);
    says(t, "central LONG_SUBMIT job=3.1");
    t->now += US_PER_S;
    HEAR(t, CENTRAL, LONG_ACCEPTED, long_accepted, .job = J(1), .epoch = 1);
    says(t, "- SUBMITTED job=3.1 client=9 err=0");
    assert_int_equal(t->d.timers.n, 0);
    talk_end(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_central_that_says_nothing_is_not_waited_for),
        cmocka_unit_test(test_an_answer_of_central_ends_the_wait),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
