/* Tasks that may not run again, and whose worker's stream broke: they are in doubt until it comes back with
 * them, or without them, or is gone (docs/protocol.md 6). */
#include "msg/beats.h"
#include "tests/test_dist.h"

#define LEASE_US (60 * US_PER_S)

/* Two tasks at most once run at 101, which is then not heard any more. */
static struct talk *talk_in_doubt(void)
{
    struct talk *t = talk_joined("hawk", 2);
    struct job_desc *desc = desc_new(2, "");

    desc->flags |= JOB_AT_MOST_ONCE;
    submit(t, desc);
    ignore(t);
    for (uint32_t i = 0; i < 2; i++) {
        request(t, 101, 1, 1 + i);
        ignore(t);
        started(t, 101, try_of(1, i, 1, 1));
    }
    HEAR(t, 101, PEER_LOST, peer_lost, 0);
    assert_int_equal(job_view_of(t, 1).running, 2);
    return t;
}

static void comes_back(struct talk *t) { HEAR(t, 101, PEER_UP, peer_up, .role = ROLE_WORKER); }

static void names(struct talk *t, uint32_t task)
{
    HEAR(t, 101, TASK_HELD, task_held, .id = try_of(1, task, 1, 1), .state = TASK_RUNNING);
}

/* The time that is left of its lease; until then nothing happens to them. */
static void pass_the_lease(struct talk *t, int64_t left_us)
{
    int64_t end_us = t->now + left_us;

    while (dist_next_timeout(&t->d) < end_us) {
        wait_timer(t, BEATS_LOOK_US);
        assert_int_equal(job_view_of(t, 1).running, 2);
    }
    wait_timer(t, BEATS_LOOK_US);
    assert_true(t->now <= end_us + BEATS_LOOK_US);
}

static void what_it_names_goes_on_and_the_rest_is_lost(void **state)
{
    struct talk *t = talk_in_doubt();

    comes_back(t);
    names(t, 0);
    assert_int_equal(job_view_of(t, 1).running, 2);
    HEAR(t, 101, HELD_END, held_end, 0);
    assert_int_equal(job_view_of(t, 1).running, 1);
    assert_int_equal(task_view_of(t, 1, 1).state, TASK_LOST);
    finished(t, 101, try_of(1, 0, 1, 1), 0, US_PER_S);
    assert_int_equal(task_view_of(t, 1, 0).state, TASK_DONE);
    ignore(t);
    talk_end(t);
}

/* It is lost once more before it has said all. */
static void what_it_named_is_in_doubt_again(void **state)
{
    struct talk *t = talk_in_doubt();

    comes_back(t);
    names(t, 0);
    HEAR(t, 101, PEER_LOST, peer_lost, 0);
    comes_back(t);
    names(t, 1);
    HEAR(t, 101, HELD_END, held_end, 0);
    assert_int_equal(task_view_of(t, 1, 0).state, TASK_LOST);
    assert_int_equal(task_view_of(t, 1, 1).state, TASK_RUNNING);
    ignore(t);
    talk_end(t);
}

/* Also while central is away, which would say that the worker is gone. */
static void who_does_not_come_back_lost_them_after_the_lease(void **state)
{
    struct talk *t = talk_in_doubt();

    HEAR(t, CENTRAL, PEER_LOST, peer_lost, 0);
    pass_the_lease(t, LEASE_US);
    assert_int_equal(job_view_of(t, 1).lost, 2);
    ignore(t);
    comes_back(t); /* its tasks are not wanted any more */
    names(t, 0);
    says(t, "101 TASK_CANCEL id=3.1/0@1.1");
    talk_end(t);
}

/* While this process does not run it hears nobody. */
static void time_in_which_the_dist_stood_still_does_not_count(void **state)
{
    struct talk *t = talk_in_doubt();

    t->now += LEASE_US;
    HEAR(t, 0, TIMER, timer, 0);
    assert_int_equal(job_view_of(t, 1).running, 2);
    pass_the_lease(t, LEASE_US - BEATS_LOOK_US);
    assert_int_equal(job_view_of(t, 1).lost, 2);
    ignore(t);
    talk_end(t);
}

static void who_is_gone_lost_them_at_once(void **state)
{
    struct talk *t = talk_in_doubt();

    worker_member(t, 101, 1, MEMBER_SUSPECT, true);
    assert_int_equal(job_view_of(t, 1).running, 2);
    worker_member(t, 101, 1, MEMBER_GONE, true);
    assert_int_equal(job_view_of(t, 1).lost, 2);
    ignore(t);
    talk_end(t);
}

/* By a central that has lost its state: nobody would say that it is gone. */
static void who_is_not_listed_lost_them_at_once(void **state)
{
    struct talk *t = talk_in_doubt();
    struct members *none = members_new(0);

    HEAR(t, CENTRAL, MEMBERS, members, .list = none);
    members_drop(none);
    assert_int_equal(job_view_of(t, 1).lost, 2);
    ignore(t);
    talk_end(t);
}

static void a_cancelled_job_does_not_wait_for_them(void **state)
{
    struct talk *t = talk_in_doubt();

    HEAR(t, 0, CANCEL, cancel, .job = J(1), .client = 9);
    assert_int_equal(job_view_of(t, 1).cancelled, 2);
    ignore(t);
    comes_back(t);
    names(t, 0);
    says(t, "101 TASK_CANCEL id=3.1/0@1.1");
    talk_end(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_it_names_goes_on_and_the_rest_is_lost),
        cmocka_unit_test(what_it_named_is_in_doubt_again),
        cmocka_unit_test(who_does_not_come_back_lost_them_after_the_lease),
        cmocka_unit_test(time_in_which_the_dist_stood_still_does_not_count),
        cmocka_unit_test(who_is_gone_lost_them_at_once),
        cmocka_unit_test(who_is_not_listed_lost_them_at_once),
        cmocka_unit_test(a_cancelled_job_does_not_wait_for_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
