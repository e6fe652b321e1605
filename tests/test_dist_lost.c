/* A dist whose workers are lost (protocol 6). */
#include "tests/test_dist.h"

/* ---- 6. Lost workers ---- */

/* Retries or not: what was sent may have run (hawk sim --faults --seed 285). */
static void test_a_job_at_most_once_is_not_tried_again(void **state)
{
    struct talk *t = talk_joined("hawk", 2);
    struct job_desc *desc = desc_new(2, "");

    desc->lost_retries = 3;
    desc->flags |= JOB_AT_MOST_ONCE;
    submit(t, desc);
    ignore(t);
    request(t, 101, 1, 1);
    ignore(t);
    started(t, 101, try_of(1, 0, 1, 1));
    HEAR(t, 101, PEER_LOST, peer_lost, 0);
    assert_int_equal(job_view_of(t, 1).running, 1); /* it may come back with it */
    worker_member(t, 101, 1, MEMBER_GONE, true);
    assert_int_equal(job_view_of(t, 1).lost, 1);
    request(t, 102, 1, 1);
    says(t, "102 TASK_LAUNCH id=3.1/1@1.1"); /* the other was never sent */
    says(t, "102 PROBE_CANCEL job=3.1");
    talk_end(t);
}

static void test_lost_worker(void **state)
{
    struct talk *t = talk_joined("hawk", 2);
    struct job_desc *desc = desc_new(2, "");

    desc->lost_retries = 1;
    submit(t, desc);
    ignore(t);
    request(t, 101, 1, 1);
    ignore(t);
    started(t, 101, try_of(1, 0, 1, 1));
    HEAR(t, 101, PEER_LOST, peer_lost, 0);
    assert_int_equal(job_view_of(t, 1).waiting, 2);
    assert_int_equal(job_view_of(t, 1).probes_lost, 1); /* the two at 102 are enough */
    request(t, 102, 1, 1);
    says(t, "102 TASK_LAUNCH id=3.1/0@1.2"); /* the one that ran before comes first */
    request(t, 102, 1, 2);
    says(t, "102 TASK_LAUNCH id=3.1/1@1.1");
    HEAR(t, 102, PEER_LOST, peer_lost, 0); /* task 0 has no retry left */
    assert_int_equal(job_view_of(t, 1).lost, 0);
    assert_int_equal(block_of(t, 1), DIST_BLOCK_NO_WORKERS);
    HEAR(t, 102, PEER_UP, peer_up, .role = ROLE_WORKER);
    says(t, "102 PROBE job=3.1 estimate_us=0 count=2");
    HEAR(t, 102, HELD_END, held_end, 0); /* it does not have it */
    assert_int_equal(job_view_of(t, 1).lost, 1);
    request(t, 102, 1, 1); /* numbers start again with the stream */
    says(t, "102 TASK_LAUNCH id=3.1/1@1.2");
    says(t, "102 PROBE_CANCEL job=3.1");
    finished(t, 102, try_of(1, 1, 1, 2), 0, 1);
    says(t, "102 FINISH_ACK");
    says(t, "central JOB_REPORT name=\"\"");
    says(t, "- JOB_EVENT job=3.1 done=1 failed=1 state=4");
    assert_int_equal(task_view_of(t, 1, 0).outcome, OUTCOME_LOST);
    talk_end(t);
}

/* By a worker that stops: the try never ran, so it is none of the task's. */
static void test_a_refused_launch_costs_no_retry(void **state)
{
    struct talk *t = talk_joined("hawk", 2);
    struct job_desc *desc = desc_new(1, "");

    desc->flags = JOB_AT_MOST_ONCE; /* and has no retry */
    submit(t, desc);
    ignore(t);
    request(t, 101, 1, 1);
    says(t, "101 TASK_LAUNCH id=3.1/0@1.1");
    ignore(t);
    HEAR(t, 101, TASK_FINISHED, task_finished, .id = try_of(1, 0, 1, 1), .outcome = OUTCOME_LOST,
         .code = HAWK_ESHUTDOWN);
    says(t, "101 FINISH_ACK");
    ignore(t); /* probes */
    assert_int_equal(job_view_of(t, 1).waiting, 1);
    assert_int_equal(task_view_of(t, 1, 0).code, 0);
    request(t, 102, 1, 1);
    says(t, "102 TASK_LAUNCH id=3.1/0@1.2");
    ignore(t);
    /* Said again, of a try before the last: it says nothing of this one. */
    HEAR(t, 101, TASK_FINISHED, task_finished, .id = try_of(1, 0, 1, 1), .outcome = OUTCOME_LOST,
         .code = HAWK_ESHUTDOWN);
    says(t, "101 FINISH_ACK");
    assert_int_equal(job_view_of(t, 1).waiting, 0);
    /* One that ran is lost. */
    started(t, 102, try_of(1, 0, 1, 2));
    HEAR(t, 102, TASK_FINISHED, task_finished, .id = try_of(1, 0, 1, 2), .outcome = OUTCOME_LOST, .code = 9);
    ignore(t);
    assert_int_equal(job_view_of(t, 1).lost, 1);
    talk_end(t);
}

/* But not for ever: a task that every worker hands back ends. */
static void test_launches_are_not_refused_without_end(void **state)
{
    const uint16_t refusals = 1000;
    struct talk *t = talk_joined("hawk", 1);
    struct job_desc *desc = desc_new(1, "");

    desc->flags = JOB_AT_MOST_ONCE;
    submit(t, desc);
    for (uint16_t i = 1; i <= refusals + 1; i++) {
        assert_int_equal(job_view_of(t, 1).waiting, 1);
        ignore(t);
        request(t, 101, 1, i);
        ignore(t);
        HEAR(t, 101, TASK_FINISHED, task_finished, .id = try_of(1, 0, 1, i), .outcome = OUTCOME_LOST,
             .code = HAWK_ESHUTDOWN);
    }
    ignore(t);
    assert_int_equal(job_view_of(t, 1).lost, 1);
    talk_end(t);
}

static void test_worker_that_comes_back_keeps_its_tasks(void **state)
{
    struct talk *t = talk_joined("hawk", 2);
    struct job_desc *desc = desc_new(3, "");

    desc->lost_retries = 5;
    submit(t, desc);
    ignore(t);
    for (uint32_t i = 1; i <= 3; i++) {
        request(t, 101, 1, i);
        ignore(t);
    }
    HEAR(t, 101, PEER_LOST, peer_lost, 0);
    says(t, "102 PROBE job=3.1 estimate_us=0 count=6");
    request(t, 102, 1, 1);
    says(t, "102 TASK_LAUNCH id=3.1/0@1.2");
    HEAR(t, 101, PEER_UP, peer_up, .role = ROLE_WORKER);
    ignore(t); /* its share of the probes */
    t->now += 5000;
    HEAR(t, 101, TASK_HELD, task_held, .id = try_of(1, 0, 1, 1), .run_us = 10, .state = TASK_RUNNING);
    says(t, "101 TASK_CANCEL id=3.1/0@1.1"); /* it was launched again */
    HEAR(t, 101, TASK_HELD, task_held, .id = try_of(1, 1, 1, 1), .run_us = 4000, .state = TASK_RUNNING);
    HEAR(t, 101, TASK_HELD, task_held, .id = try_of(1, 2, 1, 1), .run_us = 0, .state = TASK_DONE);
    says(t, "101 PROBE_CANCEL job=3.1"); /* nothing is left to launch */
    says(t, "102 PROBE_CANCEL job=3.1");
    assert_int_equal(task_view_of(t, 1, 1).state, TASK_RUNNING);
    assert_int_equal(task_view_of(t, 1, 1).wait_us, 1000);
    finished(t, 101, try_of(1, 2, 1, 1), 0, 3);
    says(t, "101 FINISH_ACK");
    HEAR(t, 101, HELD_END, held_end, 0);
    HEAR(t, 101, TASK_HELD, task_held, .id = try_of(55, 0, 1, 1), .state = TASK_RUNNING);
    says(t, "101 TASK_CANCEL id=3.55/0@1.1");
    talk_end(t);
}

static void test_first_completion_counts(void **state)
{
    struct talk *t = talk_joined("hawk", 2);
    struct job_desc *desc = desc_new(1, "");

    desc->lost_retries = 5;
    submit(t, desc);
    ignore(t);
    request(t, 101, 1, 1);
    ignore(t);
    worker_member(t, 101, 1, MEMBER_SUSPECT, true); /* its stream holds, but its task runs again elsewhere */
    says(t, "102 PROBE job=3.1 estimate_us=0 count=2");
    request(t, 102, 1, 1);
    says(t, "102 TASK_LAUNCH id=3.1/0@1.2");
    says(t, "102 PROBE_CANCEL job=3.1");
    finished(t, 101, try_of(1, 0, 1, 1), 0, 1);
    says(t, "101 FINISH_ACK id=3.1/0@1.1");
    says(t, "102 TASK_CANCEL id=3.1/0@1.2");
    says(t, "central JOB_REPORT name=\"\"");
    says(t, "- JOB_EVENT job=3.1 done=1");
    finished(t, 102, try_of(1, 0, 1, 2), 1, 1);
    says(t, "102 FINISH_ACK id=3.1/0@1.2");
    assert_int_equal(job_view_of(t, 1).done, 1);
    assert_int_equal(task_view_of(t, 1, 0).attempt, 1); /* so its output is looked for where it is */
    assert_int_equal(task_view_of(t, 1, 0).worker.v, 101);
    talk_end(t);
}

/* A worker that was broken into, or is mistaken. */
static void test_only_the_worker_that_has_a_try_ends_it(void **state)
{
    struct talk *t = talk_joined("hawk", 2);

    submit(t, desc_new(1, ""));
    ignore(t);
    request(t, 101, 1, 1);
    ignore(t);
    finished(t, 102, try_of(1, 0, 1, 1), 7, 1);
    says(t, "102 FINISH_ACK id=3.1/0@1.1");
    silent(t);
    assert_int_equal(job_view_of(t, 1).failed, 0);
    finished(t, 101, try_of(1, 0, 1, 1), 0, 1);
    says(t, "101 FINISH_ACK id=3.1/0@1.1");
    ignore(t);
    assert_int_equal(job_view_of(t, 1).done, 1);
    talk_end(t);
}

static void test_suspect_without_a_retry_left_keeps_its_task(void **state)
{
    struct talk *t = talk_joined("hawk", 2);

    submit(t, desc_new(1, ""));
    ignore(t);
    request(t, 101, 1, 1);
    ignore(t);
    worker_member(t, 101, 1, MEMBER_SUSPECT, true);
    assert_int_equal(task_view_of(t, 1, 0).state, TASK_LAUNCHED);
    worker_member(t, 101, 1, MEMBER_GONE, true);
    says(t, "- JOB_EVENT job=3.1 done=0 failed=1 state=4");
    talk_end(t);
}

static void test_stale_and_absurd_messages_are_survived(void **state)
{
    struct talk *t = talk_joined("hawk", 2);

    submit(t, desc_new(2, ""));
    ignore(t);
    request(t, 101, 1, 1);
    ignore(t);
    finished(t, 101, try_of(1, 0, 1, 7), 0, 1); /* an attempt that never was */
    says(t, "101 FINISH_ACK id=3.1/0@1.7");
    finished(t, 101, try_of(1, 0, 9, 1), 0, 1);
    says(t, "101 FINISH_ACK id=3.1/0@9.1");
    finished(t, 101, try_of(1, 1, 1, 1), 0, 1);
    says(t, "101 FINISH_ACK id=3.1/1@1.1");
    finished(t, 101, try_of(1, 999999, 1, 1), 0, 1);
    says(t, "101 FINISH_ACK");
    started(t, 102, try_of(1, 0, 1, 1)); /* at another worker */
    says(t, "102 TASK_CANCEL id=3.1/0@1.1");
    started(t, 101, try_of(1, 1, 1, 1));
    says(t, "101 TASK_CANCEL id=3.1/1@1.1");
    HEAR(t, 101, TASK_OVERRUN, task_overrun, .id = try_of(1, 1, 1, 1), .run_us = 1);
    HEAR(t, 101, PROBE_REFUSED, probe_refused, .job = J(5), .count = 1);
    HEAR(t, 101, PROBE_CANCELLED, probe_cancelled, .job = J(5), .count = 1);
    HEAR(t, 101, JOINED, joined, .node = {5}, .heartbeat_us = 1); /* a worker is not central */
    HEAR(t, 500, TASK_REQUEST, task_request, .job = J(1), .request = 1);
    HEAR(t, CENTRAL, TASK_REQUEST, task_request, .job = J(1), .request = 1);
    HEAR(t, CENTRAL, LONG_TASK, long_task, .id = try_of(1, 0, 1, 1), .state = TASK_DONE);
    HEAR(t, 101, STEAL_REQUEST, steal_request, .request = 1);
    HEAR(t, 500, PEER_LOST, peer_lost, 0);
    assert_int_equal(job_view_of(t, 1).waiting, 1);
    talk_end(t);
}

/* A central that has just started lists who has joined it so far. The other dists have jobs meanwhile. */
static void test_a_dist_that_is_not_back_yet_is_known(void **state)
{
    struct talk *t = talk_new("hawk");
    struct members *list = members_new(1), *none = members_new(0);
    const struct member *m;

    t->cfg.heartbeats = true;
    talk_begin(t);
    central_joins(t);

    list->v[0] = (struct member){
        .node = {7}, .role = ROLE_DIST, .state = MEMBER_UP, .addr = blob_str("x"), .name = blob_str("d2")};
    HEAR(t, CENTRAL, MEMBERS, members, .list = list);
    HEAR(t, CENTRAL, MEMBERS, members, .list = none);
    ignore(t);
    m = dist_next_member(&t->d, NODE_NONE);
    assert_int_equal(m->node.v, 7);
    assert_int_equal(m->state, MEMBER_GONE);
    assert_string_equal(m->addr->data, "x");
    HEAR(t, CENTRAL, MEMBERS, members, .list = list); /* it is back */
    ignore(t);
    assert_int_equal(dist_next_member(&t->d, NODE_NONE)->state, MEMBER_UP);
    HEAR(t, CENTRAL, MEMBERS, members, .list = none);
    for (int i = 0; i < 6; i++) { /* it is not: after 3 s it is forgotten */
        assert_non_null(dist_next_member(&t->d, NODE_NONE));
        wait_timer(t, US_PER_S / 2);
        ignore(t);
    }
    assert_null(dist_next_member(&t->d, NODE_NONE));
    members_drop(list);
    members_drop(none);
    talk_end(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_job_at_most_once_is_not_tried_again),
        cmocka_unit_test(test_lost_worker),
        cmocka_unit_test(test_a_refused_launch_costs_no_retry),
        cmocka_unit_test(test_launches_are_not_refused_without_end),
        cmocka_unit_test(test_worker_that_comes_back_keeps_its_tasks),
        cmocka_unit_test(test_first_completion_counts),
        cmocka_unit_test(test_only_the_worker_that_has_a_try_ends_it),
        cmocka_unit_test(test_suspect_without_a_retry_left_keeps_its_task),
        cmocka_unit_test(test_stale_and_absurd_messages_are_survived),
        cmocka_unit_test(test_a_dist_that_is_not_back_yet_is_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
