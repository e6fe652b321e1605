/* Jobs that their users hold: docs/protocol.md 14, central's side. */
#include "tests/test_central.h"

static void long_hold(struct cluster *c, uint64_t seq, uint16_t owner, bool on)
{
    tell(&c->t, LONG_HOLD, long_hold, c->d, .job = JOB(c->d, seq), .epoch = 1, .owner = owner, .on = on);
}

static bool held_on_record(struct cluster *c) { return expect(&c->t, JOURNAL_WAITS, journal_waits, 0)->held; }

static void what_waits_at_a_worker_is_called_back(void **state)
{
    struct cluster c;

    begin(&c, 1);
    submit(&c.t, c.d, 1, 3, 9 * S);
    started(&c.t, c.w[0], try_of(c.d, 1, 0, 1));
    long_hold(&c, 1, 1, true);
    assert_true(held_on_record(&c));
    for (uint32_t task = 1; task < 3; task++)
        assert_int_equal(expect(&c.t, TASK_RECALL, task_recall, c.w[0])->id.task, task);
    expect_none(&c.t, TASK_RECALL, c.w[0]);
    expect_none(&c.t, TASK_CANCEL, c.w[0]); /* what runs goes on */
    for (uint32_t task = 1; task < 3; task++) {
        tell(&c.t, TASK_RETURNED, task_returned, c.w[0], .id = try_of(c.d, 1, task, 1));
        expect_none(&c.t, TASK_ENQUEUE, c.w[0]);
    }
    /* Whoever comes gets nothing of it. */
    c.w[1] = add_worker(&c.t, "w1", 1);
    pass(&c.t, 10 * S);
    expect_none(&c.t, TASK_ENQUEUE, c.w[1]);
    long_hold(&c, 1, 1, true); /* said again: nothing new */
    expect_nothing_else(&c.t);
    long_hold(&c, 1, 1, false);
    assert_false(held_on_record(&c));
    assert_int_equal(count_out(&c.t, MSG_TASK_ENQUEUE), 2);
    end(&c);
}

static void another_job_is_placed_meanwhile(void **state)
{
    struct cluster c;

    begin(&c, 0);
    submit(&c.t, c.d, 1, 1, 9 * S);
    submit(&c.t, c.d, 2, 1, 9 * S);
    long_hold(&c, 1, 1, true);
    c.w[0] = add_worker(&c.t, "w0", 1);
    pass(&c.t, 1 * S);
    assert_int_equal(view_of(&c, 1).waiting, 1);
    assert_int_equal(view_of(&c, 2).waiting, 0);
    end(&c);
}

/* The dist that held it is gone; the next one says at once whether it holds it. */
static void a_new_owner_ends_the_hold(void **state)
{
    struct cluster c;

    begin(&c, 1);
    submit(&c.t, c.d, 1, 1, 9 * S);
    long_hold(&c, 1, 1, true);
    tell(&c.t, TASK_RETURNED, task_returned, c.w[0], .id = try_of(c.d, 1, 0, 1));
    expect_none(&c.t, TASK_ENQUEUE, c.w[0]);
    tell(&c.t, LONG_WATCH, long_watch, c.d, .job = JOB(c.d, 1), .epoch = 1, .owner = 3);
    assert_false(held_on_record(&c));
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0]);
    long_hold(&c, 1, 1, true); /* the old one's, late */
    expect_none(&c.t, JOURNAL_WAITS, 0);
    long_hold(&c, 1, 3, true);
    assert_true(held_on_record(&c));
    end(&c);
}

/* A dist of which a client has taken the id of another user's job holds nothing of it. */
static void nobody_holds_another_users_job(void **state)
{
    struct cluster c;
    struct job_desc *d = desc_of("", 1);
    struct blob *ann = blob_str("ann"), *mallory = blob_str("mallory");

    begin(&c, 0);
    blob_drop(d->user);
    d->user = blob_ref(ann);
    tell(&c.t, LONG_SUBMIT, long_submit, c.d, .job = JOB(c.d, 1), .desc = d, .estimate_us = 9 * S,
         .epoch = 1);
    expect(&c.t, JOURNAL_JOB, journal_job, 0);
    tell(&c.t, LONG_HOLD, long_hold, c.d, .job = JOB(c.d, 1), .epoch = 1, .owner = 5, .on = 1,
         .user = mallory);
    expect_none(&c.t, JOURNAL_WAITS, 0);
    tell(&c.t, LONG_HOLD, long_hold, c.d, .job = JOB(c.d, 1), .epoch = 1, .owner = 1, .on = 1, .user = ann);
    assert_true(held_on_record(&c));
    job_desc_drop(d);
    blob_drop(ann);
    blob_drop(mallory);
    end(&c);
}

static void a_new_owner_that_holds_it_too(void **state)
{
    struct cluster c;

    begin(&c, 1);
    submit(&c.t, c.d, 1, 1, 9 * S);
    long_hold(&c, 1, 1, true);
    long_hold(&c, 1, 3, true);
    tell(&c.t, LONG_WATCH, long_watch, c.d, .job = JOB(c.d, 1), .epoch = 1, .owner = 3);
    expect_none(&c.t, JOURNAL_WAITS, 0);
    end(&c);
}

static void clients_hold_what_no_dist_owns(void **state)
{
    struct cluster c;

    begin(&c, 1);
    submit(&c.t, c.d, 1, 2, 9 * S);
    tell(&c.t, HOLD, hold, 0, .job = JOB(c.d, 1), .client = 6, .on = 1);
    assert_int_equal(expect(&c.t, HOLD_SET, hold_set, 0)->err, 0);
    assert_true(held_on_record(&c));
    assert_int_equal(count_out(&c.t, MSG_TASK_RECALL), 2);
    tell(&c.t, HOLD, hold, 0, .job = JOB(c.d, 7), .client = 6, .on = 1);
    assert_int_equal(expect(&c.t, HOLD_SET, hold_set, 0)->err, HAWK_ENOT_FOUND);
    end(&c);
}

/* No dist says LONG_HOLD, since none knows of it. */
static void what_a_client_holds_here_outlives_its_dist(void **state)
{
    struct cluster c;

    begin(&c, 0);
    submit(&c.t, c.d, 1, 1, 9 * S);
    tell(&c.t, PEER_LOST, peer_lost, c.d, .role = ROLE_DIST);
    tell(&c.t, HOLD, hold, 0, .job = JOB(1, 1), .client = 6, .on = 1);
    assert_true(expect(&c.t, JOURNAL_WAITS, journal_waits, 0)->by_client);
    c.d = join(&c.t, (struct join){.name = "d1", .role = ROLE_DIST, .incarnation = 2, .node = 1});
    tell(&c.t, LONG_WATCH, long_watch, c.d, .job = JOB(1, 1), .epoch = 1, .owner = 3);
    expect_none(&c.t, JOURNAL_WAITS, 0);
    c.w[0] = add_worker(&c.t, "w0", 1);
    pass(&c.t, 10 * S);
    assert_int_equal(count_out(&c.t, MSG_TASK_ENQUEUE), 0);
    tell(&c.t, LONG_HOLD, long_hold, c.d, .job = JOB(1, 1), .epoch = 1, .owner = 3, .on = 0);
    assert_false(held_on_record(&c));
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0]);
    end(&c);
}

/* A dist released it since, and holds it anew for its user. */
static void a_dists_hold_after_a_clients_ends_with_its_owner(void **state)
{
    struct cluster c;

    begin(&c, 0);
    submit(&c.t, c.d, 1, 1, 9 * S);
    tell(&c.t, HOLD, hold, 0, .job = JOB(c.d, 1), .client = 6, .on = 1);
    long_hold(&c, 1, 1, false);
    long_hold(&c, 1, 1, true);
    assert_true(held_on_record(&c));
    tell(&c.t, LONG_WATCH, long_watch, c.d, .job = JOB(c.d, 1), .epoch = 1, .owner = 3);
    assert_false(held_on_record(&c));
    end(&c);
}

/* Job 1.1, whatever link its dist has now. */
static bool is_held(const struct cluster *c)
{
    struct job_view v;

    central_job_view(c->t.c, central_find_job(c->t.c, JOB(1, 1)), c->t.now_us, &v);
    return v.held;
}

/* Its dist held it, died, and comes back to a central that has perhaps restarted as well. */
static void released_while_its_dist_was_away(struct cluster *c)
{
    for (int i = 0; i < 2; i++) { /* its record of the release may not become durable the first time */
        tell(&c->t, LONG_HOLD, long_hold, c->d, .job = JOB(1, 1), .epoch = 1, .owner = 3,
             .on = HOLD_FROM_BEFORE);
        assert_false(expect(&c->t, LONG_HOLD, long_hold, c->d)->on);
        tell(&c->t, LONG_WATCH, long_watch, c->d, .job = JOB(1, 1), .epoch = 1, .owner = 3);
        expect_none(&c->t, JOURNAL_WAITS, 0);
        assert_false(is_held(c));
    }
}

static void what_a_client_released_here_is_not_held_by_a_dist_that_restarts(void **state)
{
    struct cluster c;

    begin(&c, 0);
    submit(&c.t, c.d, 1, 1, 9 * S);
    long_hold(&c, 1, 1, true);
    assert_true(held_on_record(&c));
    tell(&c.t, PEER_LOST, peer_lost, c.d, .role = ROLE_DIST);
    tell(&c.t, HOLD, hold, 0, .job = JOB(1, 1), .client = 6, .on = 0);
    assert_true(expect(&c.t, JOURNAL_WAITS, journal_waits, 0)->by_client);
    c.d = join(&c.t, (struct join){.name = "d1", .role = ROLE_DIST, .incarnation = 2, .node = 1});
    released_while_its_dist_was_away(&c);
    /* A client holds it at the dist. */
    tell(&c.t, LONG_HOLD, long_hold, c.d, .job = JOB(1, 1), .epoch = 1, .owner = 3, .on = HOLD_ASKED);
    assert_true(held_on_record(&c));
    tell(&c.t, LONG_HOLD, long_hold, c.d, .job = JOB(1, 1), .epoch = 1, .owner = 5, .on = HOLD_FROM_BEFORE);
    expect_none(&c.t, LONG_HOLD, c.d);
    assert_true(is_held(&c));
    end(&c);
}

/* The dist comes back without a hold; what it says of holds from then on is later than the release. */
static void a_release_here_does_not_end_later_holds(void **state)
{
    struct cluster c;

    begin(&c, 0);
    submit(&c.t, c.d, 1, 1, 9 * S);
    tell(&c.t, HOLD, hold, 0, .job = JOB(1, 1), .client = 6, .on = 0);
    assert_true(expect(&c.t, JOURNAL_WAITS, journal_waits, 0)->by_client);
    tell(&c.t, LONG_WATCH, long_watch, c.d, .job = JOB(1, 1), .epoch = 1, .owner = 3);
    assert_false(expect(&c.t, JOURNAL_WAITS, journal_waits, 0)->by_client);
    tell(&c.t, LONG_HOLD, long_hold, c.d, .job = JOB(1, 1), .epoch = 1, .owner = 5, .on = HOLD_FROM_BEFORE);
    expect_none(&c.t, LONG_HOLD, c.d);
    assert_true(held_on_record(&c));
    end(&c);
}

/* The dist may have tasks of the job itself, which it holds. */
static void a_dist_hears_of_a_release_after_its_part_has_ended(void **state)
{
    struct cluster c;

    begin(&c, 1);
    submit(&c.t, c.d, 1, 1, 9 * S);
    tell(&c.t, HOLD, hold, 0, .job = JOB(1, 1), .client = 6, .on = 0);
    started(&c.t, c.w[0], try_of(c.d, 1, 0, 1));
    finished(&c.t, c.w[0], try_of(c.d, 1, 0, 1), OUTCOME_EXITED, 0, S);
    released_while_its_dist_was_away(&c);
    end(&c);
}

static void what_has_ended_is_not_held(void **state)
{
    struct cluster c;

    begin(&c, 1);
    submit(&c.t, c.d, 1, 1, 9 * S);
    started(&c.t, c.w[0], try_of(c.d, 1, 0, 1));
    finished(&c.t, c.w[0], try_of(c.d, 1, 0, 1), OUTCOME_EXITED, 0, S);
    tell(&c.t, HOLD, hold, 0, .job = JOB(c.d, 1), .client = 6, .on = 1);
    assert_int_equal(expect(&c.t, HOLD_SET, hold_set, 0)->err, HAWK_ENOT_FOUND);
    expect_none(&c.t, JOURNAL_WAITS, 0);
    end(&c);
}

static void clients_hold_durably(void **state)
{
    struct cluster c;
    uint64_t token;

    begin(&c, 1);
    submit(&c.t, c.d, 1, 1, 9 * S);
    c.t.journal_by_hand = true;
    for (int i = 0; i < 2; i++) { /* the second request changes nothing, and waits as well */
        tell(&c.t, HOLD, hold, 0, .job = JOB(c.d, 1), .client = 6, .on = 1);
        expect_none(&c.t, HOLD_SET, 0);
        talk_journal(&c.t, 0);
        assert_int_equal(expect(&c.t, HOLD_SET, hold_set, 0)->err, 0);
        expect_none(&c.t, HOLD_SET, 0);
    }
    tell(&c.t, HOLD, hold, 0, .job = JOB(c.d, 1), .client = 6, .on = 0);
    token = expect(&c.t, JOURNAL_WAITS, journal_waits, 0)->token;
    tell(&c.t, JOURNAL_DONE, journal_done, 0, .token = token, .err = HAWK_EIO);
    assert_int_equal(expect(&c.t, HOLD_SET, hold_set, 0)->err, HAWK_EIO);
    pass(&c.t, 1 * S);
    tell(&c.t, JOURNAL_DONE, journal_done, 0, .token = token);
    expect_none(&c.t, HOLD_SET, 0);
    tell(&c.t, HOLD, hold, 0, .job = JOB(c.d, 1), .client = 6, .on = 1);
    token = expect(&c.t, JOURNAL_WAITS, journal_waits, 0)->token;
    tell(&c.t, JOURNAL_DONE, journal_done, 0, .token = token, .err = HAWK_ELIMIT); /* not taken */
    assert_int_equal(expect(&c.t, HOLD_SET, hold_set, 0)->err, HAWK_ELIMIT);
    pass(&c.t, 1 * S);
    assert_true(held_on_record(&c)); /* it is in force, and written when that is possible */
    talk_journal(&c.t, 0);
    expect_none(&c.t, HOLD_SET, 0);
    end(&c);
}

/* A central that has read such a hold hears of the job's new owner, and of a worker. */
static void read_back_as(struct cluster *c, bool held, bool by_client)
{
    struct job_desc *d = desc_of("", 1);

    talk_config(&c->t);
    talk_start(&c->t);
    tell(&c->t, JOURNAL_JOB, journal_job, 0, .job = JOB(1, 1), .desc = d, .epoch = 1, .estimate_us = 9 * S);
    tell(&c->t, JOURNAL_WAITS, journal_waits, 0, .job = JOB(1, 1), .epoch = 1, .held = held,
         .by_client = by_client);
    job_desc_drop(d);
    tell(&c->t, RECOVERED, recovered, 0, 0);
    c->d = add_dist(&c->t, "d1");
}

static void read_back(struct cluster *c, bool by_client)
{
    read_back_as(c, true, by_client);
    tell(&c->t, LONG_WATCH, long_watch, c->d, .job = JOB(1, 1), .epoch = 1, .owner = 3);
    c->w[0] = add_worker(&c->t, "w0", 1);
    pass(&c->t, 100 * S);
}

static void a_hold_is_read_back(void **state)
{
    struct cluster c = {0}, dists = {0};

    read_back(&dists, false); /* the new owner would have said that it holds it */
    assert_int_equal(view_of(&dists, 1).waiting, 0);
    end(&dists);
    read_back(&c, true);
    assert_int_equal(view_of(&c, 1).waiting, 1);
    tell(&c.t, HOLD, hold, 0, .job = JOB(1, 1), .client = 6, .on = 0);
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0]);
    end(&c);
}

static void a_release_is_read_back(void **state)
{
    struct cluster c = {0};

    read_back_as(&c, false, true);
    released_while_its_dist_was_away(&c);
    end(&c);
}

static void a_hold_is_shown(void **state)
{
    struct cluster c;
    struct job_desc *d = desc_of("", 2);
    char why[200];

    begin(&c, 0);
    d->flags |= JOB_DETACHED;
    tell(&c.t, LONG_SUBMIT, long_submit, c.d, .job = JOB(c.d, 1), .desc = d, .estimate_us = S, .epoch = 1);
    job_desc_drop(d);
    tell(&c.t, LEAVE, leave, c.d, 0);
    assert_int_equal(view_of(&c, 1).state, JOB_WAITING);
    tell(&c.t, HOLD, hold, 0, .job = JOB(c.d, 1), .client = 7, .on = true);
    assert_int_equal(view_of(&c, 1).state, JOB_HELD);
    assert_true(view_of(&c, 1).held);
    central_job_blocked(c.t.c, central_find_job(c.t.c, JOB(c.d, 1)), why, sizeof why);
    assert_non_null(strstr(why, "it is held"));
    tell(&c.t, HOLD, hold, 0, .job = JOB(c.d, 1), .client = 7, .on = false);
    assert_false(view_of(&c, 1).held);
    tell(&c.t, HOLD, hold, 0, .job = JOB(c.d, 1), .client = 7, .on = true);
    tell(&c.t, CANCEL, cancel, 0, .job = JOB(c.d, 1), .client = 7);
    assert_int_equal(view_of(&c, 1).state, JOB_CANCELLED);
    assert_false(view_of(&c, 1).held);
    end(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_waits_at_a_worker_is_called_back),
        cmocka_unit_test(another_job_is_placed_meanwhile),
        cmocka_unit_test(a_new_owner_ends_the_hold),
        cmocka_unit_test(nobody_holds_another_users_job),
        cmocka_unit_test(a_new_owner_that_holds_it_too),
        cmocka_unit_test(clients_hold_what_no_dist_owns),
        cmocka_unit_test(what_a_client_holds_here_outlives_its_dist),
        cmocka_unit_test(a_dists_hold_after_a_clients_ends_with_its_owner),
        cmocka_unit_test(what_a_client_released_here_is_not_held_by_a_dist_that_restarts),
        cmocka_unit_test(a_release_here_does_not_end_later_holds),
        cmocka_unit_test(a_dist_hears_of_a_release_after_its_part_has_ended),
        cmocka_unit_test(what_has_ended_is_not_held),
        cmocka_unit_test(clients_hold_durably),
        cmocka_unit_test(a_hold_is_read_back),
        cmocka_unit_test(a_release_is_read_back),
        cmocka_unit_test(a_hold_is_shown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
