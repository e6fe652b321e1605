/* Workers that have an end, at a dist: jobs whose estimate does not fit are not probed for there. */
#include "tests/test_dist.h"

#define S US_PER_S

static void ends_in(struct talk *t, uint32_t worker, int64_t left_us)
{
    HEAR(t, CENTRAL, ENDS, ends, .node = {worker}, .left_us = left_us);
}

static struct job_desc *desc_for(uint32_t tasks, int64_t estimate_us)
{
    struct job_desc *d = desc_new(tasks, "");

    d->estimate_us = estimate_us;
    d->tag = TAG_SHORT;
    return d;
}

static void probes_go_where_there_is_time(void **state)
{
    struct talk *t = talk_joined("sparrow", 3);

    ends_in(t, 101, 5 * S);
    ends_in(t, 102, 50 * S);
    submit(t, desc_for(2, 20 * S));
    says(t, "- SUBMITTED job=3.1");
    says(t, "102 PROBE job=3.1 estimate_us=20000000 count=2");
    says(t, "103 PROBE job=3.1 estimate_us=20000000 count=2");
    submit(t, desc_for(1, 60 * S));
    says(t, "- SUBMITTED job=3.2");
    says(t, "103 PROBE job=3.2 estimate_us=60000000 count=2");
    t->now += 40 * S;
    submit(t, desc_for(1, 20 * S));
    says(t, "- SUBMITTED job=3.3");
    says(t, "103 PROBE job=3.3 estimate_us=20000000 count=2");
    submit(t, desc_for(2, 0)); /* of which nothing is known: anywhere */
    says(t, "- SUBMITTED job=3.4");
    says(t, "101 PROBE job=3.4");
    says(t, "102 PROBE job=3.4");
    says(t, "103 PROBE job=3.4");
    talk_end(t);
}

static void a_job_that_fits_nowhere_waits_for_a_worker_with_more_time(void **state)
{
    struct talk *t = talk_joined("sparrow", 2);

    ends_in(t, 101, 5 * S);
    ends_in(t, 102, 6 * S);
    submit(t, desc_for(1, 20 * S));
    says(t, "- SUBMITTED job=3.1");
    silent(t);
    assert_int_equal(block_of(t, 1), DIST_BLOCK_TIME);
    ends_in(t, 102, 10 * S); /* more, and not enough */
    silent(t);
    assert_int_equal(block_of(t, 1), DIST_BLOCK_TIME);
    HEAR(t, 103, PEER_UP, peer_up, .role = ROLE_WORKER);
    worker_member(t, 103, 1, MEMBER_UP, true);
    says(t, "103 PROBE job=3.1 estimate_us=20000000 count=2");
    /* Its process is another one, and has no end. */
    submit(t, desc_for(1, 500 * S));
    says(t, "- SUBMITTED job=3.2");
    says(t, "103 PROBE job=3.2");
    ends_in(t, 103, 20 * S);
    submit(t, desc_for(1, 500 * S));
    says(t, "- SUBMITTED job=3.3");
    assert_int_equal(block_of(t, 3), DIST_BLOCK_TIME);
    ends_in(t, 101, LIMIT_TIME_US);
    says(t, "101 PROBE job=3.3 estimate_us=500000000 count=2");
    talk_end(t);
}

/* Central says it again when the worker is back. */
static void the_end_of_a_worker_that_is_gone_is_forgotten(void **state)
{
    struct talk *t = talk_joined("sparrow", 1);

    ends_in(t, 101, 5 * S);
    worker_member(t, 101, 1, MEMBER_GONE, true);
    worker_member(t, 101, 1, MEMBER_UP, true);
    submit(t, desc_for(1, 20 * S));
    says(t, "- SUBMITTED job=3.1");
    says(t, "101 PROBE job=3.1");
    talk_end(t);
}

static void a_worker_that_has_less_time_than_thought_refuses(void **state)
{
    struct talk *t = talk_joined("sparrow", 1);

    ends_in(t, 101, 20 * S);
    submit(t, desc_for(1, 20 * S));
    says(t, "- SUBMITTED job=3.1");
    says(t, "101 PROBE job=3.1 estimate_us=20000000 count=2");
    HEAR(t, 101, PROBE_REFUSED, probe_refused, .job = J(1), .count = 2, .err = HAWK_ENO_TIME);
    silent(t);
    assert_int_equal(block_of(t, 1), DIST_BLOCK_REFUSED);
    wait_timer(t, S);
    silent(t);
    assert_int_equal(block_of(t, 1), DIST_BLOCK_TIME);
    talk_end(t);
}

/* How often the dist has drawn since then. Each draw takes one random number, in rare cases more. */
static uint32_t draws_since(struct rng then, const struct talk *t)
{
    uint32_t n = 0;

    for (; memcmp(&then, &t->d.rng, sizeof then) != 0; n++) {
        assert_true(n < 1000000);
        rng_next(&then);
    }
    return n;
}

static void where_few_have_time_a_probe_costs_few_draws(void **state)
{
    struct talk *t = talk_joined("sparrow", 100);
    struct rng then;

    for (uint32_t i = 0; i < 100; i++)
        ends_in(t, 101 + i, 5 * S);
    worker_up(t, 201, 2, true);
    worker_up(t, 202, 1, true);
    then = t->d.rng;
    submit(t, desc_for(300, 20 * S));
    says(t, "- SUBMITTED job=3.1");
    says(t, "201 PROBE job=3.1 estimate_us=20000000 count=400"); /* each round draws every slot once */
    says(t, "202 PROBE job=3.1 estimate_us=20000000 count=200");
    assert_in_range(draws_since(then, t), 600, 900);
    then = t->d.rng;
    submit(t, desc_for(300, 0)); /* and where all fit */
    ignore(t);
    assert_in_range(draws_since(then, t), 600, 900);
    talk_end(t);
}

/* A central that has begun anew lists so many workers, from 101 on. */
static void central_restarts(struct talk *t, uint32_t workers)
{
    struct members *list = members_new(workers);

    for (uint32_t i = 0; i < workers; i++)
        list->v[i] = (struct member){.node = {101 + i},
                                     .slots = 1,
                                     .role = ROLE_WORKER,
                                     .state = MEMBER_UP,
                                     .general = 1,
                                     .addr = blob_str("a"),
                                     .name = blob_str("w")};
    HEAR(t, CENTRAL, PEER_LOST, peer_lost, 0);
    central_joins(t);
    HEAR(t, CENTRAL, MEMBERS, members, .list = list);
    members_drop(list);
}

static void ends_hold_until_central_has_said_them_again(void **state)
{
    struct talk *t = talk_joined("sparrow", 3);

    for (uint32_t i = 0; i < 3; i++)
        ends_in(t, 101 + i, 5 * S);
    submit(t, desc_for(1, 20 * S));
    says(t, "- SUBMITTED job=3.1");
    central_restarts(t, 2);
    silent(t); /* 103 is not there yet, nor are the ends */
    worker_member(t, 103, 1, MEMBER_UP, true);
    silent(t);
    ends_in(t, 103, 5 * S);
    ends_in(t, 101, 5 * S);
    ends_in(t, 102, 30 * S);
    says(t, "102 PROBE job=3.1 estimate_us=20000000 count=2");
    talk_end(t);
}

static void ends_that_central_does_not_say_again_are_forgotten_together(void **state)
{
    struct talk *t = talk_joined("sparrow", 3);

    for (uint32_t i = 0; i < 3; i++)
        ends_in(t, 101 + i, 5 * S);
    submit(t, desc_for(1, 20 * S));
    says(t, "- SUBMITTED job=3.1");
    central_restarts(t, 3);
    ends_in(t, 101, 5 * S);
    silent(t);
    wait_timer(t, 5 * S);
    says(t, "102 PROBE job=3.1 estimate_us=20000000 count=1");
    says(t, "103 PROBE job=3.1 estimate_us=20000000 count=1");
    submit(t, desc_for(3, 20 * S)); /* what it said again holds */
    says(t, "- SUBMITTED job=3.2");
    says(t, "102 PROBE job=3.2 estimate_us=20000000 count=3");
    says(t, "103 PROBE job=3.2 estimate_us=20000000 count=3");
    talk_end(t);
}

/* A job that lost the reserve has it all the same where no other worker has time for it. */
static void a_job_stays_in_the_reserve_where_no_other_worker_has_time(void **state)
{
    struct talk *t = talk_joined("harrier", 1);

    ends_in(t, 101, 30 * S);
    worker_up(t, 102, 1, false);
    submit(t, desc_for(2, 100 * S));
    ignore(t);
    request(t, 102, 1, 1);
    ignore(t);
    t->now += 10 * S;
    HEAR(t, 102, TASK_OVERRUN, task_overrun, .id = try_of(1, 0, 1, 1), .run_us = 10 * S);
    assert_true(job_view_of(t, 1).overstays);
    says(t, "102 PROBE_CANCEL job=3.1");
    says(t, "102 PROBE job=3.1");
    talk_end(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(probes_go_where_there_is_time),
        cmocka_unit_test(a_job_that_fits_nowhere_waits_for_a_worker_with_more_time),
        cmocka_unit_test(the_end_of_a_worker_that_is_gone_is_forgotten),
        cmocka_unit_test(a_worker_that_has_less_time_than_thought_refuses),
        cmocka_unit_test(where_few_have_time_a_probe_costs_few_draws),
        cmocka_unit_test(ends_hold_until_central_has_said_them_again),
        cmocka_unit_test(ends_that_central_does_not_say_again_are_forgotten_together),
        cmocka_unit_test(a_job_stays_in_the_reserve_where_no_other_worker_has_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
