/* A job with a limit of running tasks (docs/protocol.md 3.15). */
#include "tests/test_dist.h"

static struct job_desc *limited(uint32_t tasks, uint32_t max_running)
{
    struct job_desc *desc = desc_new(tasks, "n");

    desc->max_running = max_running;
    return desc;
}

static uint32_t waiting_for(const struct talk *t, uint64_t seq, enum dist_block why)
{
    uint32_t n;

    assert_int_equal(dist_blocked(&t->d, dist_find(&t->d, J(seq)), &n), why);
    return n;
}

/* As many are probed for as may run; the rest of the probes goes when they do. */
static void test_no_more_than_that_are_launched(void **state)
{
    struct talk *t = talk_joined("hawk", 3);

    submit(t, limited(5, 2));
    assert_int_equal(job_view_of(t, 1).probes_sent, 4);
    ignore(t);
    request(t, 101, 1, 1);
    says(t, "101 TASK_LAUNCH id=3.1/0@1.1");
    ignore(t);
    request(t, 102, 1, 1);
    says(t, "102 TASK_LAUNCH id=3.1/1@1.1");
    ignore(t); /* cancelled probes */
    assert_int_equal(job_view_of(t, 1).probes_live, 0);
    assert_int_equal(waiting_for(t, 1, DIST_BLOCK_LIMIT), 3);
    request(t, 103, 1, 1); /* it crossed the cancellation */
    says(t, "103 NO_TASK job=3.1 request=1");
    started(t, 101, try_of(1, 0, 1, 1));
    assert_int_equal(waiting_for(t, 1, DIST_BLOCK_LIMIT), 3);
    finished(t, 101, try_of(1, 0, 1, 1), 0, 5);
    ignore(t);
    assert_int_equal(job_view_of(t, 1).probes_live, 2);
    assert_int_equal(block_of(t, 1), DIST_BLOCK_PROBES);
    request(t, 103, 1, 2);
    says(t, "103 TASK_LAUNCH id=3.1/2@1.1");
    ignore(t);
    assert_int_equal(waiting_for(t, 1, DIST_BLOCK_LIMIT), 2);
    talk_end(t);
}

/* A task that runs again after a failure gives its place to others while it waits. */
static void test_what_failed_counts_when_it_runs_again(void **state)
{
    struct talk *t = talk_joined("hawk", 2);
    struct job_desc *desc = limited(2, 1);

    desc->failure_retries = 1;
    desc->retry_delay_us = US_PER_S;
    submit(t, desc);
    ignore(t);
    request(t, 101, 1, 1);
    says(t, "101 TASK_LAUNCH id=3.1/0@1.1");
    ignore(t);
    finished(t, 101, try_of(1, 0, 1, 1), 7, 5);
    ignore(t);
    request(t, 102, 1, 1);
    says(t, "102 TASK_LAUNCH id=3.1/1@1.1");
    ignore(t);
    wait_timer(t, US_PER_S);
    ignore(t);
    assert_int_equal(waiting_for(t, 1, DIST_BLOCK_LIMIT), 1);
    finished(t, 102, try_of(1, 1, 1, 1), 0, 5);
    ignore(t);
    request(t, 101, 1, 2);
    says(t, "101 TASK_LAUNCH id=3.1/0@1.2");
    ignore(t);
    talk_end(t);
}

/* A task that was lost with its worker runs again at once, whatever its first try does. */
static void test_what_a_lost_worker_had_counts_no_longer(void **state)
{
    struct talk *t = talk_joined("hawk", 2);
    struct job_desc *desc = limited(2, 1);

    desc->lost_retries = 1;
    submit(t, desc);
    ignore(t);
    request(t, 101, 1, 1);
    says(t, "101 TASK_LAUNCH id=3.1/0@1.1");
    ignore(t);
    HEAR(t, 101, PEER_LOST, peer_lost, 0);
    ignore(t);
    request(t, 102, 1, 1);
    says(t, "102 TASK_LAUNCH id=3.1/0@1.2");
    ignore(t);
    assert_int_equal(waiting_for(t, 1, DIST_BLOCK_LIMIT), 1);
    talk_end(t);
}

/* 3.15: its dist launches a long one, too; by probes of class long, which the reserve does not take. */
static void test_a_long_one_is_not_centrals(void **state)
{
    struct talk *t = talk_joined("hawk", 1);
    struct job_desc *desc = limited(3, 1);

    worker_up(t, 102, 1, false);
    desc->tag = TAG_LONG;
    submit(t, desc);
    says(t, "- SUBMITTED job=3.1 client=9 err=0 class=1 why=1");
    says(t, "101 PROBE job=3.1 estimate_us=0 count=2 class=1");
    request(t, 101, 1, 1);
    says(t, "101 TASK_LAUNCH id=3.1/0@1.1");
    ignore(t);
    desc = limited(3, 3); /* which limits nothing */
    desc->tag = TAG_LONG;
    submit(t, desc);
    says(t, "central LONG_SUBMIT job=3.2");
    ignore(t);
    talk_end(t);
}

/* When its tasks show the cutoff, it loses the reserve, and stays. */
static void test_it_is_not_promoted(void **state)
{
    struct talk *t = talk_joined("harrier", 1);

    worker_up(t, 102, 1, false);
    submit(t, limited(3, 2));
    ignore(t);
    request(t, 102, 1, 1);
    says(t, "102 TASK_LAUNCH id=3.1/0@1.1");
    ignore(t);
    t->now += 10 * US_PER_S;
    HEAR(t, 102, TASK_OVERRUN, task_overrun, .id = try_of(1, 0, 1, 1), .run_us = 10 * US_PER_S);
    ignore(t); /* cancelled probes, and new ones */
    assert_true(job_view_of(t, 1).overstays);
    assert_int_equal(dist_counters(&t->d)[COUNTER_jobs_promoted], 0);
    request(t, 102, 1, 2);
    says(t, "102 NO_TASK job=3.1 request=2");
    request(t, 101, 1, 1);
    says(t, "101 TASK_LAUNCH id=3.1/1@1.1");
    ignore(t);
    talk_end(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_more_than_that_are_launched),
        cmocka_unit_test(test_what_failed_counts_when_it_runs_again),
        cmocka_unit_test(test_what_a_lost_worker_had_counts_no_longer),
        cmocka_unit_test(test_a_long_one_is_not_centrals),
        cmocka_unit_test(test_it_is_not_promoted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
