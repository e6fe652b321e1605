/* Long jobs that nobody waits for any more (protocol 4.7). */
#include "tests/test_central.h"

static void expect_cancelled(struct cluster *c, uint64_t seq)
{
    const struct msg_job_abandoned *m = expect(&c->t, JOB_ABANDONED, job_abandoned, 0);

    assert_int_equal(m->job.v, JOB(1, seq).v);
    expect(&c->t, JOURNAL_CANCEL, journal_cancel, 0);
    expect(&c->t, TASK_CANCEL, task_cancel, c->w[0]);
}

/* A job whose task runs, and another dist, which keeps central's clock going. */
static uint32_t begin_running(struct cluster *c)
{
    uint32_t other;

    begin(c, 1);
    other = add_dist(&c->t, "d2");
    submit(&c->t, c->d, 1, 1, 9 * S);
    expect(&c->t, LONG_ACCEPTED, long_accepted, c->d);
    started(&c->t, c->w[0], try_of(1, 1, 0, 1));
    return other;
}

static void a_job_whose_dist_is_gone_ends_a_lease_later(void **state)
{
    struct cluster c;
    struct job_view v;

    begin_running(&c);
    tell(&c.t, PEER_LOST, peer_lost, c.d, 0);
    pass(&c.t, 120 * S - 1); /* suspect for a lease, gone for one */
    expect_none(&c.t, JOB_ABANDONED, 0);
    pass(&c.t, 1);
    expect_cancelled(&c, 1);
    finished(&c.t, c.w[0], try_of(1, 1, 0, 1), OUTCOME_CANCELLED, 0, 1);
    assert_true(central_quiet(c.t.c));
    central_job_view(c.t.c, central_find_job(c.t.c, JOB(1, 1)), c.t.now_us, &v);
    assert_int_equal(v.state, JOB_CANCELLED);
    assert_true(v.abandoned);
    end(&c);
}

static void a_job_whose_dist_is_another_process_ends_a_lease_later(void **state)
{
    struct cluster c;

    begin_running(&c);
    tell(&c.t, PEER_LOST, peer_lost, c.d, 0);
    c.d = join(&c.t, (struct join){.name = "d1", .role = ROLE_DIST, .incarnation = 2, .node = 1});
    assert_non_null(central_next_job(c.t.c, NULL)); /* the new process cannot show it */
    pass(&c.t, 60 * S - 1);
    expect_none(&c.t, JOB_ABANDONED, 0);
    pass(&c.t, 1);
    expect_cancelled(&c, 1);
    end(&c);
}

static void a_dist_that_was_cut_off_keeps_its_jobs(void **state)
{
    struct cluster c;

    begin_running(&c);
    tell(&c.t, PEER_LOST, peer_lost, c.d, 0);
    pass(&c.t, 119 * S);
    c.d = join(&c.t, (struct join){.name = "d1", .role = ROLE_DIST, .node = 1}); /* the same process */
    pass(&c.t, 300 * S);
    expect_none(&c.t, JOB_ABANDONED, 0);
    end(&c);
}

static void whoever_claims_it_stops_the_clock(void **state)
{
    struct cluster c;
    uint32_t other = begin_running(&c);

    tell(&c.t, PEER_LOST, peer_lost, c.d, 0);
    pass(&c.t, 100 * S);
    tell(&c.t, LONG_WATCH, long_watch, other, .job = JOB(1, 1), .epoch = 1, .owner = 3);
    pass(&c.t, 300 * S);
    expect_none(&c.t, JOB_ABANDONED, 0);
    /* It lost the job to nobody, and now goes as well. */
    c.d = add_dist(&c.t, "d3");
    tell(&c.t, LEAVE, leave, other, 0);
    pass(&c.t, 60 * S);
    expect_cancelled(&c, 1);
    end(&c);
}

static void who_lost_the_job_to_another_dist_does_not_claim_it(void **state)
{
    struct cluster c;
    uint32_t other = begin_running(&c);

    tell(&c.t, LONG_WATCH, long_watch, other, .job = JOB(1, 1), .epoch = 1, .owner = 3);
    tell(&c.t, LEAVE, leave, other, 0);
    pass(&c.t, 60 * S);
    expect_cancelled(&c, 1);
    end(&c);
}

static void abandon(struct cluster *c)
{
    tell(&c->t, LONG_CANCEL, long_cancel, c->d, .job = JOB(1, 1), .epoch = 1, .owner = 1, .abandoned = 1);
    expect_none(&c->t, TASK_CANCEL, c->w[0]);
    tell(&c->t, LONG_WATCH, long_watch, c->d, .job = JOB(1, 1), .epoch = 1);
}

static void a_job_without_a_client_ends_at_once(void **state)
{
    struct cluster c;

    begin_running(&c);
    tell(&c.t, LONG_CANCEL, long_cancel, c.d, .job = JOB(1, 1), .epoch = 1, .owner = 1, .abandoned = 1);
    expect(&c.t, TASK_CANCEL, task_cancel, c.w[0]);
    end(&c);
}

/* Its client may have moved it to the dist that cannot say so now. */
static void a_job_without_a_client_here_may_have_one_elsewhere(void **state)
{
    struct cluster c;
    uint32_t other = begin_running(&c);

    tell(&c.t, PEER_LOST, peer_lost, other, 0);
    abandon(&c);
    pass(&c.t, 59 * S);
    expect_none(&c.t, TASK_CANCEL, c.w[0]);
    other = join(&c.t, (struct join){.name = "d2", .role = ROLE_DIST, .node = 3});
    tell(&c.t, LONG_WATCH, long_watch, other, .job = JOB(1, 1), .epoch = 1, .owner = 3);
    pass(&c.t, 300 * S);
    expect_none(&c.t, JOB_ABANDONED, 0);
    end(&c);
}

/* It had the job, although it gives it up: an earlier owner says no more of it, also after central's restart. */
static void an_owner_that_gives_up_is_on_record(void **state)
{
    struct cluster c;
    uint32_t other = begin_running(&c);

    tell(&c.t, PEER_LOST, peer_lost, other, 0);
    tell(&c.t, LONG_CANCEL, long_cancel, c.d, .job = JOB(1, 1), .epoch = 1, .owner = 4, .abandoned = 1);
    assert_int_equal(expect(&c.t, JOURNAL_OWNER, journal_owner, 0)->owner, 4);
    end(&c);
}

static void a_job_without_any_client_ends_a_lease_later(void **state)
{
    struct cluster c;
    uint32_t other = begin_running(&c);

    tell(&c.t, PEER_LOST, peer_lost, other, 0);
    abandon(&c);
    pass(&c.t, 60 * S);
    expect_cancelled(&c, 1);
    end(&c);
}

static void without_any_dist_central_may_be_the_one_who_is_cut_off(void **state)
{
    struct cluster c;
    uint32_t other = begin_running(&c);

    tell(&c.t, PEER_LOST, peer_lost, c.d, 0);
    tell(&c.t, PEER_LOST, peer_lost, other, 0);
    pass(&c.t, 1000 * S);
    expect_none(&c.t, JOB_ABANDONED, 0);
    join(&c.t, (struct join){.name = "d2", .role = ROLE_DIST, .node = 3});
    pass(&c.t, 60 * S - 1);
    expect_none(&c.t, JOB_ABANDONED, 0);
    pass(&c.t, 1);
    expect_cancelled(&c, 1);
    end(&c);
}

/* Its process stood still: it has yet to read that the dist is there, and has the job. */
/* What has passed of the lease before counts again when a dist is back. */
static void the_clock_goes_on_where_it_stood(void **state)
{
    struct cluster c;
    uint32_t other = begin_running(&c);

    tell(&c.t, PEER_LOST, peer_lost, c.d, 0);
    pass(&c.t, 100 * S); /* suspect for a lease, gone for 40 s */
    tell(&c.t, LEAVE, leave, other, 0);
    pass(&c.t, 500 * S);
    expect_none(&c.t, JOB_ABANDONED, 0);
    c.d = add_dist(&c.t, "d3");
    pass(&c.t, 20 * S - 1);
    expect_none(&c.t, JOB_ABANDONED, 0);
    pass(&c.t, 1);
    expect_cancelled(&c, 1);
    end(&c);
}

static void while_central_stands_still_its_clock_does(void **state)
{
    struct cluster c = {0};
    struct job_desc *d = desc_of("", 1);

    talk_config(&c.t);
    c.t.config.heartbeats = true;
    talk_start(&c.t);
    tell(&c.t, RECOVERED, recovered, 0, 0);
    c.d = add_dist(&c.t, "d1");
    tell(&c.t, LONG_SUBMIT, long_submit, c.d, .job = JOB(1, 1), .desc = d, .estimate_us = 9 * S, .epoch = 1,
         .owner = 1);
    job_desc_drop(d);
    tell(&c.t, LONG_WATCH, long_watch, c.d, .job = JOB(1, 1), .epoch = 1); /* gives it up */
    c.t.now_us += 1000 * S;
    tell(&c.t, HEARTBEAT, heartbeat, c.d, .seq = 1);
    expect_none(&c.t, JOB_ABANDONED, 0);
    for (int i = 0; i < 60; i++) {
        expect_none(&c.t, JOB_ABANDONED, 0);
        c.t.now_us += 1 * S;
        tell(&c.t, HEARTBEAT, heartbeat, c.d, .seq = 2);
    }
    expect(&c.t, JOB_ABANDONED, job_abandoned, 0);
    end(&c);
}

static void a_detached_job_needs_nobody(void **state)
{
    struct cluster c;
    struct job_desc *d = desc_of("", 1);

    begin(&c, 1);
    add_dist(&c.t, "d2");
    d->flags |= JOB_DETACHED;
    tell(&c.t, LONG_SUBMIT, long_submit, c.d, .job = JOB(1, 1), .desc = d, .estimate_us = 9 * S, .epoch = 1);
    job_desc_drop(d);
    tell(&c.t, LEAVE, leave, c.d, 0);
    pass(&c.t, 1000 * S);
    expect_none(&c.t, JOB_ABANDONED, 0);
    end(&c);
}

static void after_a_restart_what_nobody_claims_ends(void **state)
{
    struct cluster c = {0};
    struct job_desc *d = desc_of("", 1);
    struct blob *d1 = blob_str("d1");

    talk_config(&c.t);
    talk_start(&c.t);
    tell(&c.t, JOURNAL_NODE, journal_node, 0, .name = d1, .node = {1}, .role = ROLE_DIST);
    tell(&c.t, JOURNAL_JOB, journal_job, 0, .job = JOB(1, 1), .desc = d, .estimate_us = 9 * S, .epoch = 1);
    tell(&c.t, JOURNAL_JOB, journal_job, 0, .job = JOB(1, 2), .desc = d, .estimate_us = 9 * S, .epoch = 1);
    tell(&c.t, RECOVERED, recovered, 0, 0);
    job_desc_drop(d);
    blob_drop(d1);
    pass(&c.t, 100 * S);
    expect_none(&c.t, JOB_ABANDONED, 0);
    c.d = join(&c.t, (struct join){.name = "d1", .role = ROLE_DIST, .node = 1});
    tell(&c.t, LONG_WATCH, long_watch, c.d, .job = JOB(1, 2), .epoch = 1);
    pass(&c.t, 60 * S);
    assert_int_equal(expect(&c.t, JOB_ABANDONED, job_abandoned, 0)->job.v, JOB(1, 1).v);
    expect_none(&c.t, JOB_ABANDONED, 0);
    end(&c);
}

/* The first dist gives the job up, and no other claims it. */
static void ends_a_lease_later(struct cluster *c)
{
    tell(&c->t, LONG_CANCEL, long_cancel, c->d, .job = JOB(1, 1), .epoch = 1, .owner = 1, .abandoned = 1);
    expect_none(&c->t, JOURNAL_CANCEL, 0);
    tell(&c->t, LONG_WATCH, long_watch, c->d, .job = JOB(1, 1), .epoch = 1);
    pass(&c->t, 60 * S);
    expect(&c->t, JOB_ABANDONED, job_abandoned, 0);
}

static void after_a_restart_another_dist_may_yet_say_that_it_has_the_job(void **state)
{
    struct cluster c = {0};
    struct job_desc *d = desc_of("", 1);
    struct blob *d1 = blob_str("d1");

    talk_config(&c.t);
    talk_start(&c.t);
    tell(&c.t, JOURNAL_NODE, journal_node, 0, .name = d1, .node = {1}, .role = ROLE_DIST);
    tell(&c.t, JOURNAL_JOB, journal_job, 0, .job = JOB(1, 1), .desc = d, .estimate_us = 9 * S, .epoch = 1);
    tell(&c.t, RECOVERED, recovered, 0, 0);
    job_desc_drop(d);
    blob_drop(d1);
    c.d = join(&c.t, (struct join){.name = "d1", .role = ROLE_DIST, .node = 1});
    ends_a_lease_later(&c);
    end(&c);
}

/* Central had not written the job before it restarted, and only its first dist is back to bring it. */
static void a_job_that_came_again_after_a_restart_may_have_been_moved_before(void **state)
{
    struct cluster c = {0};
    struct job_desc *d = desc_of("", 1);
    struct blob *d1 = blob_str("d1"), *d2 = blob_str("d2");

    talk_config(&c.t);
    talk_start(&c.t);
    tell(&c.t, JOURNAL_NODE, journal_node, 0, .name = d1, .node = {1}, .role = ROLE_DIST);
    tell(&c.t, JOURNAL_NODE, journal_node, 0, .name = d2, .node = {2}, .role = ROLE_DIST);
    tell(&c.t, RECOVERED, recovered, 0, 0);
    blob_drop(d1);
    blob_drop(d2);
    c.d = join(&c.t, (struct join){.name = "d1", .role = ROLE_DIST, .node = 1});
    tell(&c.t, LONG_SUBMIT, long_submit, c.d, .job = JOB(1, 1), .desc = d, .estimate_us = 9 * S, .epoch = 1,
         .owner = 1);
    job_desc_drop(d);
    tell(&c.t, JOURNAL_DONE, journal_done, 0, .token = expect(&c.t, JOURNAL_JOB, journal_job, 0)->token);
    ends_a_lease_later(&c);
    end(&c);
}

static void watch(struct cluster *c, uint32_t dist, uint16_t owner)
{
    tell(&c->t, LONG_WATCH, long_watch, dist, .job = JOB(1, 1), .epoch = 1, .owner = owner);
    assert_int_equal(expect(&c->t, LONG_WATCHED, long_watched, dist)->err, 0);
}

/* The job has been at more dists than central tells of it. */
static void who_lost_the_job_takes_no_place_from_who_has_it(void **state)
{
    struct cluster c;
    uint32_t d[7] = {0};

    d[2] = begin_running(&c);
    d[1] = c.d;
    watch(&c, d[1], 1);
    watch(&c, d[2], 3);
    for (uint32_t i = 3; i <= 6; i++) {
        d[i] = add_dist(&c.t, (char[]){'d', (char)('0' + i), 0});
        watch(&c, d[i], (uint16_t)(2 * i - 1));
    }
    tell(&c.t, LONG_CANCEL, long_cancel, d[5], .job = JOB(1, 1), .epoch = 1, .owner = 9, .abandoned = 1);
    expect_none(&c.t, TASK_CANCEL, c.w[0]);
    watch(&c, d[5], 0);
    watch(&c, d[1], 1);
    watch(&c, d[2], 0);
    pass(&c.t, 300 * S);
    expect_none(&c.t, JOB_ABANDONED, 0);
    finished(&c.t, c.w[0], try_of(1, 1, 0, 1), OUTCOME_EXITED, 0, 5 * S);
    assert_int_equal(expect(&c.t, LONG_TASK, long_task, d[6])->state, TASK_DONE);
    end(&c);
}

static void an_operator_cancels_what_only_central_has(void **state)
{
    struct cluster c;
    const struct long_job *j;

    begin_running(&c);
    assert_null(central_next_job(c.t.c, NULL)); /* its dist shows it */
    tell(&c.t, PEER_LOST, peer_lost, c.d, 0);
    j = central_next_job(c.t.c, NULL);
    assert_non_null(j);
    assert_null(central_next_job(c.t.c, j));
    tell(&c.t, CANCEL, cancel, 0, .job = JOB(1, 9), .client = 5);
    assert_int_equal(expect(&c.t, CANCELLED, cancelled, 0)->err, HAWK_ENOT_FOUND);
    c.t.journal_by_hand = true;
    tell(&c.t, CANCEL, cancel, 0, .job = JOB(1, 1), .client = 5);
    expect(&c.t, TASK_CANCEL, task_cancel, c.w[0]);
    expect_none(&c.t, CANCELLED, 0);
    talk_journal(&c.t, 0);
    assert_int_equal(expect(&c.t, CANCELLED, cancelled, 0)->client, 5);
    pass(&c.t, 1000 * S);
    expect_none(&c.t, JOB_ABANDONED, 0);
    end(&c);
}

static void a_list_goes_on_behind_any_job(void **state)
{
    struct cluster c;
    uint32_t other = begin_running(&c);
    const struct long_job *j;
    struct job_view v;

    for (uint64_t seq = 2; seq <= 4; seq++)
        submit(&c.t, c.d, seq, 1, 9 * S);
    tell(&c.t, PEER_LOST, peer_lost, c.d, 0);
    assert_ptr_equal(central_job_after(c.t.c, JOB_NONE), central_next_job(c.t.c, NULL));
    for (uint64_t seq = 1; seq <= 3; seq++) {
        watch(&c, other, 3); /* from now on a dist shows the first */
        j = central_job_after(c.t.c, JOB(1, seq));
        assert_non_null(j);
        central_job_view(c.t.c, j, c.t.now_us, &v);
        assert_int_equal(v.job.v, JOB(1, seq + 1).v);
    }
    assert_null(central_job_after(c.t.c, JOB(1, 4)));
    assert_null(central_job_after(c.t.c, JOB(1, 5)));
    end(&c);
}

/* d2 left long ago: no client can have moved a newer job there. */
static void a_dist_that_left_long_ago_claims_nothing(void **state)
{
    struct cluster c = {0};
    struct job_desc *d = desc_of("", 1);
    struct blob *d2 = blob_str("d2");

    talk_config(&c.t);
    talk_start(&c.t);
    tell(&c.t, JOURNAL_NODE, journal_node, 0, .name = d2, .node = {2}, .role = ROLE_DIST);
    tell(&c.t, RECOVERED, recovered, 0, 0);
    blob_drop(d2);
    c.d = join(&c.t, (struct join){.name = "d1", .role = ROLE_DIST});
    pass(&c.t, 61 * S);
    tell(&c.t, LONG_SUBMIT, long_submit, c.d, .job = JOB(c.d, 1), .desc = d, .estimate_us = S, .epoch = 1);
    job_desc_drop(d);
    tell(&c.t, LONG_CANCEL, long_cancel, c.d, .job = JOB(c.d, 1), .epoch = 1, .owner = 1, .abandoned = 1);
    expect(&c.t, JOURNAL_CANCEL, journal_cancel, 0);
    end(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_whose_dist_is_gone_ends_a_lease_later),
        cmocka_unit_test(a_job_whose_dist_is_another_process_ends_a_lease_later),
        cmocka_unit_test(a_dist_that_was_cut_off_keeps_its_jobs),
        cmocka_unit_test(whoever_claims_it_stops_the_clock),
        cmocka_unit_test(who_lost_the_job_to_another_dist_does_not_claim_it),
        cmocka_unit_test(a_job_without_a_client_ends_at_once),
        cmocka_unit_test(a_job_without_a_client_here_may_have_one_elsewhere),
        cmocka_unit_test(an_owner_that_gives_up_is_on_record),
        cmocka_unit_test(a_job_without_any_client_ends_a_lease_later),
        cmocka_unit_test(without_any_dist_central_may_be_the_one_who_is_cut_off),
        cmocka_unit_test(the_clock_goes_on_where_it_stood),
        cmocka_unit_test(while_central_stands_still_its_clock_does),
        cmocka_unit_test(a_detached_job_needs_nobody),
        cmocka_unit_test(after_a_restart_what_nobody_claims_ends),
        cmocka_unit_test(after_a_restart_another_dist_may_yet_say_that_it_has_the_job),
        cmocka_unit_test(a_job_that_came_again_after_a_restart_may_have_been_moved_before),
        cmocka_unit_test(who_lost_the_job_takes_no_place_from_who_has_it),
        cmocka_unit_test(a_dist_that_left_long_ago_claims_nothing),
        cmocka_unit_test(an_operator_cancels_what_only_central_has),
        cmocka_unit_test(a_list_goes_on_behind_any_job),
    };

    return cmocka_run_group_tests_name("central_orphans", tests, NULL, NULL);
}
