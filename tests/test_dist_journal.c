/* Records that the store did not take (docs/protocol.md 11), and those behind them. */
#include "tests/test_dist_restart.h"

/* A detached job of three tasks; the end of one of them is the second record. */
static struct talk *talk_with_an_end(void)
{
    struct talk *t = talk_joined("hawk", 1);
    struct job_desc *desc = desc_new(3, "");

    desc->flags = JOB_DETACHED;
    submit_durable(t, desc);
    request(t, 101, 1, 1);
    ignore(t);
    finished(t, 101, try_of(1, 0, 1, 1), 0, 50);
    says(t, "- JOURNAL_TASK id=3.1/0@1.1 token=2");
    return t;
}

/* It relies on none before it. */
static void test_a_new_job_behind_what_was_not_taken_is_accepted(void **state)
{
    struct talk *t = talk_with_an_end();

    submit_detached(t);
    says(t, "- JOURNAL_JOB job=3.2 token=3");
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 2, .err = HAWK_ELIMIT);
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 3);
    says(t, "- SUBMITTED job=3.2 client=9 err=0");
    ignore(t); /* its probe */
    wait_timer(t, US_PER_S);
    says(t, "- JOURNAL_TASK id=3.1/0@1.1 token=4");
    talk_end(t);
}

static void test_jobs_that_are_not_taken_put_nothing_off(void **state)
{
    struct talk *t = talk_with_an_end();

    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 2, .err = HAWK_ELIMIT);
    t->now += US_PER_S / 2;
    submit_detached(t);
    says(t, "- JOURNAL_JOB job=3.2 token=3");
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 3, .err = HAWK_ELIMIT);
    says(t, "- SUBMITTED job=- client=9 err=-4");
    wait_timer(t, US_PER_S / 2);
    says(t, "- JOURNAL_TASK id=3.1/0@1.1 token=4");
    ignore(t);
    talk_end(t);
}

/* The client would not know whether the job comes back. */
static void test_stop_waits_for_a_cancellation_behind_what_was_not_taken(void **state)
{
    struct talk *t = talk_with_an_end();

    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 2, .err = HAWK_ELIMIT);
    HEAR(t, 0, CANCEL, cancel, .job = J(1), .client = 4);
    ignore(t);
    HEAR(t, 0, STOP, stop, .now = 1);
    wait_timer(t, US_PER_S);
    ignore(t);
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = t->d.token);
    says(t, "- CANCELLED job=3.1 client=4 err=0");
    says(t, "101 FINISH_ACK id=3.1/0@1.1");
    says(t, "central LEAVE");
    says(t, "- STOPPED");
    talk_end(t);
}

/* The store may have the first of two jobs, the second not (hawk sim --faults --seed 320244578). */
static void test_a_job_before_what_was_not_taken_is_in_doubt(void **state)
{
    struct talk *t = talk_with_an_end();

    submit_detached(t);
    says(t, "- JOURNAL_JOB job=3.2 token=3");
    submit_detached(t);
    says(t, "- JOURNAL_JOB job=3.3 token=4");
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 4, .err = HAWK_ELIMIT);
    says(t, "- SUBMITTED job=- client=9 err=-19");
    says(t, "- SUBMITTED job=- client=9 err=-4");
    ignore(t);
    talk_end(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_job_before_what_was_not_taken_is_in_doubt),
        cmocka_unit_test(test_a_new_job_behind_what_was_not_taken_is_accepted),
        cmocka_unit_test(test_jobs_that_are_not_taken_put_nothing_off),
        cmocka_unit_test(test_stop_waits_for_a_cancellation_behind_what_was_not_taken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
