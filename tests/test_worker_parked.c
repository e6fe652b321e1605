/* Parked thieves and stuck workers: what central is told of them, and the hints that it gives (protocol 5.5). */
#include "tests/test_worker_thief.h"

static void a_failed_round_parks(void **state)
{
    struct talk t;
    uint32_t victim = thief_begin(&t);

    fail_the_round(&t, victim);
    expect(&t, PARKED, parked, CENTRAL, m->parked);
    assert_int_equal(worker_counter(&t.w, COUNTER_steal_requests), 10); /* Hawk: up to 10 */
    assert_int_equal(worker_counter(&t.w, COUNTER_steal_rounds), 1);
    /* Central pairs it from here on. Without central it tries again by itself. */
    assert_true(worker_next_timeout(&t.w) == TIME_NEVER);
    tell(&t, PEER_LOST, peer_lost, CENTRAL, ROLE_CENTRAL);
    nothing(&t);
    pass(&t, 113 * MS);
    victim = t.out.v[0].peer;
    expect(&t, STEAL_REQUEST, steal_request, victim, whatever);
    fail_the_round(&t, victim);
    nothing(&t);
    probe(&t, 2, 1);
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    talk_end(&t);
}

/* Another central does not know who is parked. */
static void a_central_that_is_back_is_told_who_is_parked(void **state)
{
    struct talk t;

    fail_the_round(&t, thief_begin(&t));
    expect(&t, PARKED, parked, CENTRAL, m->parked);
    tell(&t, PEER_LOST, peer_lost, CENTRAL, ROLE_CENTRAL);
    tell(&t, PEER_UP, peer_up, CENTRAL, ROLE_CENTRAL);
    expect(&t, JOIN, join, CENTRAL, whatever);
    tell(&t, JOINED, joined, CENTRAL, .node = {SELF}, .heartbeat_us = 500 * MS, .lease_us = 60 * US_PER_S);
    expect(&t, HELD_END, held_end, CENTRAL, whatever);
    expect(&t, PARKED, parked, CENTRAL, m->parked);
    talk_end(&t);
}

/* A central that stood still heard nobody meanwhile, and forgot who is parked. */
static void a_central_that_hears_again_is_told_who_is_parked(void **state)
{
    struct talk t;
    uint32_t victim = thief_begin(&t);

    fail_the_round(&t, victim);
    expect(&t, PARKED, parked, CENTRAL, m->parked);
    t.now_us += 50 * MS;
    tell(&t, PARTITION, partition, CENTRAL, .general = true, .epoch = 9);
    expect(&t, PARTITION_ACK, partition_ack, CENTRAL, m->epoch == 9);
    expect(&t, PARKED, parked, CENTRAL, m->parked);
    pass(&t, 50 * MS);
    nothing(&t); /* once */
    probe(&t, 2, 1);
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    expect(&t, PARKED, parked, CENTRAL, !m->parked);
    t.now_us += 50 * MS;
    tell(&t, PARTITION, partition, CENTRAL, .general = true, .epoch = 10);
    expect(&t, PARTITION_ACK, partition_ack, CENTRAL, whatever);
    nothing(&t); /* what is not parked needs not to be told */
    talk_end(&t);
}

/* A central that hangs pairs nobody: three heartbeats without an answer, and a parked thief asks by itself. */
static void a_silent_central_is_no_help(void **state)
{
    struct talk t;
    uint32_t victim;

    talk_init(&t, 1);
    t.config.heartbeats = true;
    talk_start(&t);
    join(&t); /* a heartbeat every 500 ms */
    members_are(&t, 3);
    tell(&t, LONG_WORK, long_work, CENTRAL, .any = 1);
    expect(&t, PARKED, parked, CENTRAL, m->parked);
    for (int beat = 1; beat <= 5; beat++) { /* the fifth is sent when the first is overdue */
        pass(&t, 500 * MS);
        assert_int_equal(t.out.v[t.out.n - 1].type, MSG_HEARTBEAT);
        t.taken = t.out.n;
    }
    pass(&t, 113 * MS);
    victim = t.out.v[0].peer;
    expect(&t, STEAL_REQUEST, steal_request, victim, whatever);
    talk_end(&t);
}

static void a_hint_is_followed(void **state)
{
    struct talk t;
    uint32_t victim = thief_begin(&t);

    fail_the_round(&t, victim);
    expect(&t, PARKED, parked, CENTRAL, m->parked);
    t.now_us += 50 * MS;
    tell(&t, STEAL_HINT, steal_hint, DIST, .victim = {20}); /* only central gives hints */
    tell(&t, STEAL_HINT, steal_hint, CENTRAL, .victim = {SELF});
    tell(&t, STEAL_HINT, steal_hint, CENTRAL, .victim = {20});
    expect(&t, STEAL_REQUEST, steal_request, 20, m->request == 11);
    tell(&t, STEAL_LOOT, steal_loot, 20, .request = 11, .items = 1, .job = JOB(5), .dist = {DIST},
         .count = 1);
    expect(&t, RES_MOVED, res_moved, DIST, m->from.v == 20);
    expect(&t, STEAL_ACK, steal_ack, 20, m->accepted == 1);
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    expect(&t, PARKED, parked, CENTRAL, !m->parked);
    tell(&t, STEAL_HINT, steal_hint, CENTRAL, .victim = {21}); /* no slot free now */
    talk_end(&t);
}

static void edges_are_rate_limited(void **state)
{
    struct talk t;

    talk_begin(&t, 1);
    long_runs(&t, 90);
    probe(&t, 1, 1);
    expect(&t, STUCK, stuck, CENTRAL, m->stuck);
    /* Back and forth within 10 ms: central hears where it ended, once, and nothing when it ended as it was. */
    for (int i = 0; i < 5; i++) {
        t.now_us += 1 * MS;
        tell(&t, PROBE_CANCEL, probe_cancel, DIST, .job = JOB(1));
        expect(&t, PROBE_CANCELLED, probe_cancelled, DIST, whatever);
        assert_true(worker_next_timeout(&t.w) == 1000000 + 10 * MS);
        probe(&t, 1, 1);
        assert_true(worker_next_timeout(&t.w) == TIME_NEVER);
    }
    tell(&t, PROBE_CANCEL, probe_cancel, DIST, .job = JOB(1));
    expect(&t, PROBE_CANCELLED, probe_cancelled, DIST, whatever);
    pass(&t, 10 * MS);
    assert_true(t.now_us == 1000000 + 10 * MS);
    expect(&t, STUCK, stuck, CENTRAL, !m->stuck);
    talk_end(&t);
}

static void a_new_central_hears_the_edges_again(void **state)
{
    struct talk t;

    talk_begin(&t, 1);
    long_runs(&t, 90);
    probe(&t, 1, 1);
    expect(&t, STUCK, stuck, CENTRAL, m->stuck);
    tell(&t, PEER_LOST, peer_lost, CENTRAL, ROLE_CENTRAL);
    tell(&t, PEER_UP, peer_up, CENTRAL, ROLE_CENTRAL);
    expect(&t, JOIN, join, CENTRAL, whatever);
    tell(&t, JOINED, joined, CENTRAL, .node = {SELF});
    expect(&t, TASK_HELD, task_held, CENTRAL, m->state == TASK_RUNNING);
    expect(&t, HELD_END, held_end, CENTRAL, whatever);
    expect(&t, STUCK, stuck, CENTRAL, m->stuck);
    talk_end(&t);
}

static void an_idle_cluster_is_silent(void **state)
{
    struct talk t;
    struct policy p;

    talk_begin(&t, 2);
    members_are(&t, 30);
    pass(&t, 1000 * US_PER_S);
    nothing(&t);
    tell(&t, LONG_WORK, long_work, CENTRAL, .any = 1);
    expect(&t, PARKED, parked, CENTRAL, m->parked);
    assert_true(worker_next_timeout(&t.w) == TIME_NEVER); /* thousands may idle: central's hints wake them */
    t.now_us += 10 * MS;
    tell(&t, LONG_WORK, long_work, CENTRAL, .any = 0);
    expect(&t, PARKED, parked, CENTRAL, !m->parked);
    assert_true(worker_next_timeout(&t.w) == TIME_NEVER);
    /* A policy without stealing: nothing is asked, nothing is told. */
    t.now_us += 10 * MS;
    assert_int_equal(policy_preset("sparrow", &p), 0);
    tell(&t, POLICY, policy, CENTRAL, .policy = p);
    tell(&t, LONG_WORK, long_work, CENTRAL, .any = 1);
    enqueue(&t, 90, 0);
    starts(&t, 90, 0, CENTRAL);
    enqueue(&t, 90, 1);
    starts(&t, 90, 1, CENTRAL);
    probe(&t, 1, 1);
    nothing(&t);
    talk_end(&t);
}

/* The published simulator's settings (compat): asks when a slot is freed, by whatever, and only then. */
static void steal_on_free_only(void **state)
{
    struct talk t;
    uint32_t victim;

    talk_init(&t, 1);
    t.config.policy.flags |= POLICY_STEAL_ON_FREE_ONLY | POLICY_STEAL_ALWAYS;
    t.config.policy.flags &= ~(uint32_t)(POLICY_STEAL_HINTS | POLICY_STEAL_RETRY);
    talk_start(&t);
    join(&t);
    dist_comes(&t, DIST);
    members_are(&t, 3);
    pass(&t, 10 * US_PER_S);
    nothing(&t); /* never used: never asks */
    probe(&t, 1, 1);
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    tell(&t, NO_TASK, no_task, DIST, .job = JOB(1), .request = 1);
    victim = t.out.v[0].peer;
    expect(&t, STEAL_REQUEST, steal_request, victim, whatever);
    fail_the_round(&t, victim);
    nothing(&t);
    assert_int_equal(worker_counter(&t.w, COUNTER_steal_requests), 3);
    assert_true(worker_next_timeout(&t.w) == TIME_NEVER);
    tell(&t, TIMER, timer, 0, 0);
    tell(&t, LONG_WORK, long_work, CENTRAL, .any = 1);
    nothing(&t); /* parked for good, whatever else happens */
    probe(&t, 1, 1);
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    launch(&t, 1, 0, 2);
    exits(&t, starts(&t, 1, 0, DIST), 0);
    expect(&t, TASK_FINISHED, task_finished, DIST, whatever);
    victim = t.out.v[1].peer;
    expect(&t, STEAL_REQUEST, steal_request, victim, whatever);
    talk_end(&t);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failed_round_parks),
        cmocka_unit_test(a_central_that_is_back_is_told_who_is_parked),
        cmocka_unit_test(a_central_that_hears_again_is_told_who_is_parked),
        cmocka_unit_test(a_silent_central_is_no_help),
        cmocka_unit_test(a_hint_is_followed),
        cmocka_unit_test(edges_are_rate_limited),
        cmocka_unit_test(a_new_central_hears_the_edges_again),
        cmocka_unit_test(an_idle_cluster_is_silent),
        cmocka_unit_test(steal_on_free_only),
    };

    return cmocka_run_group_tests_name("worker_parked", tests, NULL, NULL);
}
