/* A dist that drains or stops (protocol 8). */
#include "tests/test_dist.h"

/* ---- 8. Stopping ---- */

static void test_drained(void **state)
{
    struct talk *t = talk_joined("hawk", 1);

    submit(t, desc_new(1, ""));
    ignore(t);
    HEAR(t, CENTRAL, DRAIN, drain, .on = 1);
    says(t, "central DRAINED on=1 empty=0");
    submit(t, desc_new(1, ""));
    says(t, "- SUBMITTED job=- client=9 err=-24");
    /* What it has, it finishes. */
    request(t, 101, 1, 1);
    ignore(t);
    finished(t, 101, try_of(1, 0, 1, 1), 0, 1);
    says(t, "101 FINISH_ACK");
    says(t, "central JOB_REPORT name=\"\"");
    says(t, "- JOB_EVENT");
    says(t, "central DRAINED on=1 empty=1");
    /* Central says so again to whoever joins again. */
    HEAR(t, CENTRAL, PEER_LOST, peer_lost, 0);
    HEAR(t, CENTRAL, PEER_UP, peer_up, .role = ROLE_CENTRAL);
    ignore(t);
    HEAR(t, CENTRAL, JOINED, joined, .cluster = 1, .heartbeat_us = 500000, .lease_us = 60000000, .node = {ME},
         .draining = 1);
    says(t, "central DRAINED on=1 empty=1");
    HEAR(t, CENTRAL, DRAIN, drain, .on = 0);
    says(t, "central DRAINED on=0 empty=0");
    submit(t, desc_new(1, ""));
    says(t, "- SUBMITTED job=3.2 client=9 err=0");
    ignore(t);
    HEAR(t, CENTRAL, QUIT, quit, .now = 1);
    says(t, "central LEAVE");
    says(t, "- STOPPED asked=1");
    talk_end(t);
}

static void test_stop_in_good_order(void **state)
{
    struct talk *t = talk_joined("hawk", 1);

    submit(t, desc_new(1, ""));
    ignore(t);
    HEAR(t, 0, STOP, stop, .now = 0);
    submit(t, desc_new(1, ""));
    says(t, "- SUBMITTED job=- client=9 err=-22");
    request(t, 101, 1, 1);
    ignore(t);
    finished(t, 101, try_of(1, 0, 1, 1), 0, 1);
    says(t, "101 FINISH_ACK");
    says(t, "central JOB_REPORT name=\"\"");
    says(t, "- JOB_EVENT");
    says(t, "central LEAVE");
    says(t, "- STOPPED");
    talk_end(t);
}

/* Whoever waits for the record of an end hears of it first. */
static void test_stop_in_good_order_waits_for_the_journal(void **state)
{
    for (int cancelled = 0; cancelled < 2; cancelled++) {
        struct talk *t = talk_joined("hawk", 1);
        struct job_desc *desc = desc_new(1, "");

        desc->flags = JOB_DETACHED;
        submit(t, desc);
        ignore(t);
        HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 1);
        ignore(t);
        if (!cancelled)
            request(t, 101, 1, 1);
        ignore(t);
        HEAR(t, 0, STOP, stop, .now = 0);
        if (cancelled)
            HEAR(t, 0, CANCEL, cancel, .job = J(1), .client = 4);
        else
            finished(t, 101, try_of(1, 0, 1, 1), 0, 1);
        for (uint32_t i = 0; i < t->out.n; i++)
            assert_int_not_equal(t->out.v[i].type, MSG_STOPPED);
        ignore(t);
        HEAR(t, 0, JOURNAL_DONE, journal_done, .token = t->d.token);
        if (cancelled)
            says(t, "- CANCELLED job=3.1 client=4 err=0");
        else
            says(t, "101 FINISH_ACK");
        says(t, "central LEAVE");
        says(t, "- STOPPED");
        talk_end(t);
    }
}

static void test_stop_at_once(void **state)
{
    struct talk *t = talk_joined("hawk", 1);

    submit(t, desc_new(1, ""));
    ignore(t);
    HEAR(t, 0, STOP, stop, .now = 1);
    says(t, "central LEAVE");
    says(t, "- STOPPED");
    talk_end(t);
}

/* Its client would not know whether it comes back with the dist. */
static void test_stop_waits_for_what_is_being_journalled(void **state)
{
    struct talk *t = talk_joined("hawk", 1);
    struct job_desc *desc = desc_new(2, ""), *big = desc_new(1, "");

    desc->flags = big->flags = JOB_DETACHED;
    big->tag = TAG_LONG;
    submit(t, big);
    says(t, "- JOURNAL_JOB job=3.1");
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 1); /* and central has not answered */
    says(t, "central LONG_SUBMIT job=3.1");
    submit(t, desc);
    says(t, "- JOURNAL_JOB job=3.2");
    HEAR(t, 0, STOP, stop, .now = 1);
    says(t, "- SUBMITTED job=3.1 client=9 err=0");
    submit(t, desc_new(1, ""));
    says(t, "- SUBMITTED job=- client=9 err=-22");
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 2);
    says(t, "- SUBMITTED job=3.2 client=9 err=0");
    ignore(t); /* its probes */
    talk_end(t);

    /* Told so twice, it waits for nothing. */
    t = talk_joined("hawk", 1);
    desc = desc_new(2, "");
    desc->flags = JOB_DETACHED;
    submit(t, desc);
    ignore(t);
    HEAR(t, 0, STOP, stop, .now = 1);
    HEAR(t, 0, STOP, stop, .now = 1);
    says(t, "central LEAVE");
    says(t, "- STOPPED");
    talk_end(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_drained),
        cmocka_unit_test(test_stop_in_good_order),
        cmocka_unit_test(test_stop_in_good_order_waits_for_the_journal),
        cmocka_unit_test(test_stop_at_once),
        cmocka_unit_test(test_stop_waits_for_what_is_being_journalled),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
