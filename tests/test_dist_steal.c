/* Conversations of a dist about reservations that thieves move, and requests for them: docs/protocol.md 3.6 and 5.3. */
#include "tests/test_dist.h"

static void test_reservations_move_with_a_theft(void **state)
{
    struct talk *t = talk_joined("hawk", 2);
    struct reservation_view r;
    const void *cursor = NULL;

    submit(t, desc_new(2, ""));
    ignore(t);
    worker_up(t, 103, 1, true);
    ignore(t);
    cursor = NULL;
    HEAR(t, 103, RES_MOVED, res_moved, .job = J(1), .from = {101}, .count = 2);
    HEAR(t, 103, RES_MOVED, res_moved, .job = J(1), .from = {102}, .count = 1);
    for (int i = 0; dist_next_reservation(&t->d, dist_find(&t->d, J(1)), &cursor, &r); i++)
        assert_int_equal(r.count, r.worker.v == 103 ? 5 : 1); /* its own share was two */
    assert_int_equal(job_view_of(t, 1).reservations_stolen, 3);
    /* More than there ever were, or from nobody: it is believed when it asks. */
    HEAR(t, 103, RES_MOVED, res_moved, .job = J(1), .from = {999}, .count = UINT32_MAX);
    HEAR(t, 103, RES_MOVED, res_moved, .job = J(1), .from = {102}, .count = UINT32_MAX);
    assert_int_equal(job_view_of(t, 1).probes_live, 5);
    HEAR(t, 101, PEER_LOST, peer_lost, 0);
    request(t, 103, 1, 1);
    says(t, "103 TASK_LAUNCH id=3.1/0@1.1");
    request(t, 103, 1, 2);
    says(t, "103 TASK_LAUNCH id=3.1/1@1.1");
    says(t, "103 PROBE_CANCEL job=3.1");
    /* A theft that the last launch crossed. */
    HEAR(t, 102, RES_MOVED, res_moved, .job = J(1), .from = {101}, .count = 1);
    says(t, "102 PROBE_CANCEL job=3.1");
    HEAR(t, 102, RES_MOVED, res_moved, .job = J(77), .from = {101}, .count = 1);
    says(t, "102 PROBE_CANCEL job=3.77");
    talk_end(t);
}

/* 103 steals from 102 what that stole from 101, and is heard first. */
static void test_thefts_heard_in_the_wrong_order(void **state)
{
    struct talk *t = talk_joined("hawk", 1);

    submit(t, desc_new(1, ""));
    ignore(t);
    worker_up(t, 102, 1, true);
    ignore(t);
    worker_up(t, 103, 1, true);
    HEAR(t, 102, PROBE_REFUSED, probe_refused, .job = J(1), .count = 9);
    HEAR(t, 103, RES_MOVED, res_moved, .job = J(1), .from = {102}, .count = 1);
    HEAR(t, 102, RES_MOVED, res_moved, .job = J(1), .from = {101}, .count = 1);
    HEAR(t, 103, PROBE_REFUSED, probe_refused, .job = J(1), .count = 1);
    HEAR(t, 101, PROBE_REFUSED, probe_refused, .job = J(1), .count = 1);
    wait_timer(t, US_PER_S); /* nobody has any: none must be thought to be at 102 */
    assert_int_equal(job_view_of(t, 1).probes_live, 2);
    ignore(t);
    talk_end(t);
}

/* A thief drops what it stole before its RES_MOVED is here: what is moved to it then is not there. */
static void test_a_refusal_that_overtakes_its_theft(void **state)
{
    struct talk *t = talk_joined("hawk", 3);
    uint32_t victim, other, thief;

    submit(t, desc_new(1, ""));
    says(t, "- SUBMITTED job=3.1");
    assert_int_equal(t->out.n, 3);
    victim = t->out.v[1].peer;
    other = t->out.v[2].peer;
    thief = 101 + 102 + 103 - victim - other;
    ignore(t);
    HEAR(t, thief, PROBE_REFUSED, probe_refused, .job = J(1), .count = 1);
    HEAR(t, thief, RES_MOVED, res_moved, .job = J(1), .from = {victim}, .count = 1);
    assert_int_equal(job_view_of(t, 1).probes_live, 1);
    HEAR(t, other, PROBE_REFUSED, probe_refused, .job = J(1), .count = 1);
    wait_timer(t, US_PER_S);
    assert_int_equal(job_view_of(t, 1).probes_live, 2);
    ignore(t);
    talk_end(t);
}

/* The stream of a thief breaks with RES_MOVED in it: its victim has acknowledged, and nobody tells us. */
static void test_lost_theft_does_not_hang_a_job(void **state)
{
    struct talk *t = talk_joined("hawk", 3);
    int64_t since = t->now;

    submit(t, desc_new(1, ""));
    ignore(t);
    HEAR(t, 101, PEER_LOST, peer_lost, 0);
    ignore(t);
    wait_timer(t, 20 * US_PER_S);
    assert_true(t->now >= since + 10 * US_PER_S);
    assert_int_equal(t->out.n, 1);
    assert_int_equal(t->out.v[0].type, MSG_PROBE);
    ignore(t);
    assert_true(dist_next_timeout(&t->d) == TIME_NEVER); /* once is enough, until something else is lost */
    talk_end(t);
}

/* What the job was probed for after the loss is sure, until the worker that got it refuses it: then all that is left is
 * doubtful again. The more often that happens, the later the job is probed for once more. */
static void test_a_job_that_stands_still_is_probed_for_later_and_later(void **state)
{
    struct talk *t = talk_joined("hawk", 3);
    int64_t since;

    submit(t, desc_new(1, ""));
    ignore(t);
    t->now += US_PER_S;
    HEAR(t, 101, PEER_LOST, peer_lost, 0);
    ignore(t);
    since = t->now;
    for (int64_t interval = 10 * US_PER_S; interval <= 80 * US_PER_S; interval *= 2) {
        uint32_t worker;

        while (t->out.n == 0) /* an earlier look at the jobs may find that this one's time is not there yet */
            wait_timer(t, interval);
        assert_int_equal(t->now - since, interval);
        assert_int_equal(t->out.n, 1);
        assert_int_equal(t->out.v[0].type, MSG_PROBE);
        assert_int_equal(t->out.v[0].probe.count, 1);
        since = t->now;
        worker = t->out.v[0].peer;
        ignore(t);
        HEAR(t, worker, PROBE_REFUSED, probe_refused, .job = J(1), .count = 1, .err = HAWK_ELIMIT);
    }
    ignore(t);
    talk_end(t);
}

/* A worker may have told the dist's process before this one what it stole. */
static void test_after_a_restart_each_worker_that_comes_is_a_doubt(void **state)
{
    struct talk *t = talk_new("hawk");

    t->cfg.life = 2;
    talk_begin(t);
    central_joins(t);
    worker_up(t, 101, 1, true);
    worker_up(t, 102, 1, true);
    t->now += US_PER_S;
    submit(t, desc_new(1, ""));
    ignore(t);
    worker_up(t, 103, 1, true);
    ignore(t);
    while (t->out.n == 0)
        wait_timer(t, 20 * US_PER_S);
    assert_int_equal(t->out.n, 1);
    assert_int_equal(t->out.v[0].type, MSG_PROBE);
    ignore(t);
    talk_end(t);
}

static void test_moved_reservations_are_not_counted_after_a_drop(void **state)
{
    struct talk *t = talk_joined("hawk", 2);
    struct job_desc *desc = desc_new(1, "");

    desc->lost_retries = 3;
    submit(t, desc);
    ignore(t);
    request(t, 101, 1, 1);
    ignore(t); /* 102 was told to drop the job's reservations */
    HEAR(t, 101, PEER_LOST, peer_lost, 0);
    says(t, "102 PROBE job=3.1 estimate_us=0 count=2");
    /* This theft may have happened before 102 heard that, and the loot been dropped with the rest. */
    HEAR(t, 102, RES_MOVED, res_moved, .job = J(1), .from = {101}, .count = 5);
    assert_int_equal(job_view_of(t, 1).probes_live, 2);
    HEAR(t, 102, PROBE_REFUSED, probe_refused, .job = J(1), .count = 2, .err = HAWK_ELIMIT);
    wait_timer(t, US_PER_S); /* so nothing is left to wait for */
    says(t, "102 PROBE job=3.1");
    talk_end(t);
}

/* The same where the victim has others by then, so that only the drop tells that what moved may be gone. */
static void test_what_moves_after_everybody_was_told_to_drop_is_not_counted(void **state)
{
    struct talk *t = talk_joined("hawk", 2);
    struct job_desc *desc = desc_new(1, "");
    uint32_t live;

    desc->lost_retries = 3;
    submit(t, desc);
    ignore(t);
    request(t, 101, 1, 1);
    says(t, "101 TASK_LAUNCH id=3.1/0@1.1");
    says(t, "102 PROBE_CANCEL job=3.1");
    HEAR(t, 101, PEER_LOST, peer_lost, 0);
    says(t, "102 PROBE job=3.1 estimate_us=0 count=2");
    worker_up(t, 103, 1, true);
    ignore(t);
    live = job_view_of(t, 1).probes_live;
    HEAR(t, 103, RES_MOVED, res_moved, .job = J(1), .from = {102}, .count = 1);
    assert_int_equal(job_view_of(t, 1).probes_live, live - 1);
    ignore(t);
    talk_end(t);
}

/* Serial numbers of requests go round. */
static void test_requests_are_new_after_their_numbers_have_wrapped(void **state)
{
    struct talk *t = talk_joined("hawk", 1);

    submit(t, desc_new(2, ""));
    ignore(t);
    request(t, 101, 1, UINT32_MAX);
    says(t, "101 TASK_LAUNCH id=3.1/0@1.1");
    request(t, 101, 1, 1);
    says(t, "101 TASK_LAUNCH id=3.1/1@1.1");
    ignore(t);
    request(t, 101, 1, UINT32_MAX); /* the first, again */
    says(t, "101 TASK_LAUNCH id=3.1/0@1.1");
    talk_end(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reservations_move_with_a_theft),
        cmocka_unit_test(test_thefts_heard_in_the_wrong_order),
        cmocka_unit_test(test_a_refusal_that_overtakes_its_theft),
        cmocka_unit_test(test_lost_theft_does_not_hang_a_job),
        cmocka_unit_test(test_a_job_that_stands_still_is_probed_for_later_and_later),
        cmocka_unit_test(test_after_a_restart_each_worker_that_comes_is_a_doubt),
        cmocka_unit_test(test_moved_reservations_are_not_counted_after_a_drop),
        cmocka_unit_test(test_what_moves_after_everybody_was_told_to_drop_is_not_counted),
        cmocka_unit_test(test_requests_are_new_after_their_numbers_have_wrapped),
    };

    return cmocka_run_group_tests_name("dist_steal", tests, NULL, NULL);
}
