/* Central restarts from its journal (protocol 4, 6). */
#include "tests/test_central.h"

/* ---- Restart ---- */

/* A central that starts with a journal of a job of three tasks, the first one done. */
static void recover_from(struct cluster *c, bool w1_is_away)
{
    struct job_desc *d = desc_of("train", 3);
    struct blob *w0 = blob_str("w0"), *w1 = blob_str("w1"), *d1 = blob_str("d1");

    d->lost_retries = 1;
    talk_config(&c->t);
    c->t.config.epoch = 2;
    talk_start(&c->t);
    tell(&c->t, JOURNAL_NODE, journal_node, 0, .name = d1, .node = {1}, .role = ROLE_DIST);
    tell(&c->t, JOURNAL_NODE, journal_node, 0, .name = w0, .node = {2}, .role = ROLE_WORKER);
    if (w1_is_away)
        tell(&c->t, JOURNAL_NODE, journal_node, 0, .name = w1, .node = {3}, .role = ROLE_WORKER);
    tell(&c->t, JOURNAL_JOB, journal_job, 0, .job = JOB(1, 1), .desc = d, .estimate_us = 9 * S, .epoch = 1);
    tell(&c->t, JOURNAL_AGE, journal_age, 0, .job = JOB(1, 1), .ago_us = 3600 * S);
    tell(&c->t, JOURNAL_JOB, journal_job, 0, .job = JOB(1, 2), .desc = d, .estimate_us = 9 * S, .epoch = 1);
    tell(&c->t, JOURNAL_AGE, journal_age, 0, .job = JOB(1, 1),
         .ago_us = 7200 * S);                                                 /* of no job that it follows */
    tell(&c->t, JOURNAL_AGE, journal_age, 0, .job = JOB(1, 2), .ago_us = -1); /* nothing it would believe */
    tell(&c->t, JOURNAL_TASK, journal_task, 0, .id = try_of(1, 1, 0, 1), .state = TASK_DONE,
         .outcome = OUTCOME_EXITED, .run_us = 7 * S, .used = usage_of(1700, 900));
    tell(&c->t, JOURNAL_JOB_END, journal_job_end, 0, .job = JOB(1, 2), .epoch = 1, .state = JOB_DONE);
    tell(&c->t, RECOVERED, recovered, 0, 0);
    expect_nothing_else(&c->t);
    job_desc_drop(d);
    blob_drop(w0);
    blob_drop(w1);
    blob_drop(d1);
    c->d = join(&c->t, (struct join){.name = "d1", .role = ROLE_DIST});
    tell(&c->t, LONG_WATCH, long_watch, c->d, .job = JOB(1, 1), .epoch = 1); /* somebody waits for it */
    c->w[0] = join(&c->t, (struct join){.name = "w0", .slots = 2, .role = ROLE_WORKER});
}

static void recover(struct cluster *c) { recover_from(c, false); }

/* A worker that central knew, and that is not back, may run what nobody reports. */
static void recover_without_w1(struct cluster *c) { recover_from(c, true); }

static void a_restarted_central_goes_on_with_what_runs(void **state)
{
    struct cluster c;

    recover(&c);
    assert_int_equal(totals(&c).long_jobs, 1);
    assert_int_equal(view_of(&c, 1).age_us / S, 3600);
    tell(&c.t, TASK_HELD, task_held, c.w[0], .id = try_of(1, 1, 1, 3), .run_us = 2 * S,
         .state = TASK_RUNNING);
    expect_task(&c, 1, TASK_RUNNING); /* whatever its attempt: the latest that is known */
    tell(&c.t, HELD_END, held_end, c.w[0], 0);
    tell(&c.t, LONG_WATCH, long_watch, c.d, .job = JOB(1, 1), .epoch = 1);
    const struct msg_long_task *told = expect_task(&c, 0, TASK_DONE);
    assert_int_equal(told->run_us, 7 * S);
    assert_int_equal(figure_value(told->used.cpu_us), 1700);
    assert_int_equal(figure_value(told->used.mem_peak_bytes), 900);
    assert_int_equal(expect_task(&c, 1, TASK_RUNNING)->id.attempt, 3);
    expect_task(&c, 2, TASK_WAITING);
    assert_int_equal(expect(&c.t, LONG_WATCHED, long_watched, c.d)->err, 0);
    tell(&c.t, LONG_WATCH, long_watch, c.d, .job = JOB(1, 2), .epoch = 1);
    assert_int_equal(expect(&c.t, LONG_WATCHED, long_watched, c.d)->err, HAWK_ENOT_FOUND);
    finished(&c.t, c.w[0], try_of(1, 1, 1, 3), OUTCOME_EXITED, 0, 5 * S);
    expect_task(&c, 1, TASK_DONE);
    /* A completion of what nobody reported held is as good. */
    finished(&c.t, c.w[0], try_of(1, 1, 2, 1), OUTCOME_EXITED, 0, 6 * S);
    expect_task(&c, 2, TASK_DONE);
    assert_int_equal(expect(&c.t, HISTORY, history, 0)->mean_us, 6 * S);
    assert_true(central_quiet(c.t.c));
    end(&c);
}

static void what_nobody_reports_is_placed_again_after_one_lease(void **state)
{
    struct cluster c;

    recover_without_w1(&c);
    tell(&c.t, HELD_END, held_end, c.w[0], 0);
    pass(&c.t, 3 * S);
    ack_partition(&c.t, c.w[0]);
    expect_none(&c.t, TASK_ENQUEUE, c.w[0]);
    pass(&c.t, 57 * S - 1);
    expect_none(&c.t, TASK_ENQUEUE, c.w[0]);
    pass(&c.t, 1);
    assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0])->id.attempt, 2);
    assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0])->id.attempt, 2);
    end(&c);
}

static void a_dist_is_told_how_long_what_nobody_reports_waits(void **state)
{
    struct cluster c;

    recover(&c);
    tell(&c.t, LONG_WATCH, long_watch, c.d, .job = JOB(1, 1), .epoch = 1);
    assert_int_equal(expect(&c.t, LONG_WATCHED, long_watched, c.d)->unreported_us, 60 * S);
    pass(&c.t, 20 * S);
    tell(&c.t, TASK_HELD, task_held, c.w[0], .id = try_of(1, 1, 1, 1), .run_us = 2 * S,
         .state = TASK_RUNNING);
    tell(&c.t, LONG_WATCH, long_watch, c.d, .job = JOB(1, 1), .epoch = 1);
    assert_int_equal(expect(&c.t, LONG_WATCHED, long_watched, c.d)->unreported_us, 40 * S);
    tell(&c.t, TASK_HELD, task_held, c.w[0], .id = try_of(1, 1, 2, 1), .run_us = 2 * S,
         .state = TASK_RUNNING);
    tell(&c.t, LONG_WATCH, long_watch, c.d, .job = JOB(1, 1), .epoch = 1);
    assert_int_equal(expect(&c.t, LONG_WATCHED, long_watched, c.d)->unreported_us, 0);
    end(&c);
}

/* Those that a worker still says it has end when it has ended them. */
static void what_is_cancelled_and_nobody_reports_ends_when_all_have_reported(void **state)
{
    struct cluster c;

    recover(&c);
    tell(&c.t, LONG_CANCEL, long_cancel, c.d, .job = JOB(1, 1), .epoch = 1);
    expect_none(&c.t, JOURNAL_TASK, 0);
    tell(&c.t, TASK_HELD, task_held, c.w[0], .id = try_of(1, 1, 1, 1), .run_us = 2 * S,
         .state = TASK_RUNNING);
    assert_int_equal(expect(&c.t, TASK_CANCEL, task_cancel, c.w[0])->id.task, 1);
    tell(&c.t, HELD_END, held_end, c.w[0], 0);
    assert_int_equal(expect(&c.t, JOURNAL_TASK, journal_task, 0)->id.task, 2);
    expect_none(&c.t, JOURNAL_JOB_END, 0);
    finished(&c.t, c.w[0], try_of(1, 1, 1, 1), OUTCOME_CANCELLED, 0, 5 * S);
    assert_int_equal(expect_end(&c), JOB_CANCELLED);
    end(&c);
}

static void what_nobody_reported_is_cancelled_at_once(void **state)
{
    struct cluster c;

    recover(&c);
    tell(&c.t, HELD_END, held_end, c.w[0], 0);
    pass(&c.t, 3 * S);
    tell(&c.t, LONG_CANCEL, long_cancel, c.d, .job = JOB(1, 1), .epoch = 1);
    assert_int_equal(expect_end(&c), JOB_CANCELLED);
    /* One that was cut off all the time has it after all. */
    tell(&c.t, TASK_HELD, task_held, c.w[0], .id = try_of(1, 1, 1, 1), .state = TASK_RUNNING);
    assert_int_equal(expect(&c.t, TASK_CANCEL, task_cancel, c.w[0])->id.task, 1);
    end(&c);
}

/* It ran as a later try, perhaps, that never came to be on record, and runs still (hawk sim --faults --seed 24904). */
static void once_every_worker_is_back_what_nobody_reports_is_placed_again(void **state)
{
    struct cluster c;

    recover(&c);
    tell(&c.t, HELD_END, held_end, c.w[0], 0);
    ack_partition(&c.t, c.w[0]);
    assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0])->id.attempt, 2);
    assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0])->id.attempt, 2);
    end(&c);
}

/* The worker that is back has reported all, and tells that the first try of task 1 was lost. */
static void lose_first_try(struct cluster *c)
{
    tell(&c->t, HELD_END, held_end, c->w[0], 0);
    pass(&c->t, 3 * S);
    ack_partition(&c->t, c->w[0]);
    finished(&c->t, c->w[0], try_of(1, 1, 1, 1), OUTCOME_LOST, 9, 5 * S);
    expect(&c->t, FINISH_ACK, finish_ack, c->w[0]);
    expect_none(&c->t, TASK_ENQUEUE, c->w[0]);
}

static void an_older_try_that_was_lost_says_nothing_of_later_ones(void **state)
{
    struct cluster c;

    recover_without_w1(&c);
    lose_first_try(&c);
    pass(&c.t, 57 * S - 1);
    expect_none(&c.t, TASK_ENQUEUE, c.w[0]);
    pass(&c.t, 1);
    assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0])->id.attempt, 2);
    end(&c);
}

/* The same of one that the worker has reported first (hawk sim --faults --seed 102131139). */
static void nor_does_one_that_was_held_until_then(void **state)
{
    struct cluster c;

    recover_without_w1(&c);
    tell(&c.t, TASK_HELD, task_held, c.w[0], .id = try_of(1, 1, 1, 1), .run_us = 2 * S,
         .state = TASK_RUNNING);
    lose_first_try(&c);
    pass(&c.t, 57 * S);
    assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0])->id.task, 2);
    pass(&c.t, 3 * S - 1);
    expect_none(&c.t, TASK_ENQUEUE, c.w[0]);
    pass(&c.t, 1);
    assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0])->id.task, 1);
    end(&c);
}

/* However long a worker stays away: its lease was over long ago (a worker that was given up for ever). */
static void after_the_lease_who_is_away_is_not_waited_for(void **state)
{
    struct cluster c;

    recover_without_w1(&c);
    tell(&c.t, TASK_HELD, task_held, c.w[0], .id = try_of(1, 1, 1, 1), .run_us = 2 * S,
         .state = TASK_RUNNING);
    tell(&c.t, HELD_END, held_end, c.w[0], 0);
    pass(&c.t, 3 * S);
    ack_partition(&c.t, c.w[0]);
    pass(&c.t, 57 * S);
    assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0])->id.task, 2);
    finished(&c.t, c.w[0], try_of(1, 1, 1, 1), OUTCOME_LOST, 9, 60 * S);
    assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0])->id.task, 1);
    end(&c);
}

/* Its dist may not have heard: asked for it, a central that does not know it would have all of it run again. */
static void a_job_that_ended_before_a_restart_is_known_to_its_dist(void **state)
{
    struct cluster c;
    struct job_desc *d = desc_of("train", 1);
    struct blob *d1 = blob_str("d1");

    talk_config(&c.t);
    talk_start(&c.t);
    tell(&c.t, JOURNAL_NODE, journal_node, 0, .name = d1, .node = {1}, .role = ROLE_DIST);
    tell(&c.t, JOURNAL_JOB, journal_job, 0, .job = JOB(1, 1), .desc = d, .epoch = 1);
    tell(&c.t, JOURNAL_TASK, journal_task, 0, .id = try_of(1, 1, 0, 1), .state = TASK_FAILED,
         .outcome = OUTCOME_EXITED, .code = 1);
    tell(&c.t, RECOVERED, recovered, 0, 0);
    assert_true(central_quiet(c.t.c));
    pass(&c.t, 100 * S);
    expect_none(&c.t, JOURNAL_JOB_END, 0);
    c.d = join(&c.t, (struct join){.name = "d1", .role = ROLE_DIST});
    tell(&c.t, LONG_WATCH, long_watch, c.d, .job = JOB(1, 1), .epoch = 1);
    expect_task(&c, 0, TASK_FAILED);
    assert_int_equal(expect(&c.t, LONG_WATCHED, long_watched, c.d)->err, 0);
    assert_int_equal(expect_end(&c), JOB_FAILED);
    job_desc_drop(d);
    blob_drop(d1);
    end(&c);
}

/* It was counted when it ended. */
static void an_end_that_is_read_back_counts_in_no_history(void **state)
{
    struct cluster c;
    struct job_desc *d = desc_of("train", 1);

    talk_config(&c.t);
    talk_start(&c.t);
    tell(&c.t, JOURNAL_JOB, journal_job, 0, .job = JOB(1, 1), .desc = d, .epoch = 1);
    tell(&c.t, JOURNAL_TASK, journal_task, 0, .id = try_of(1, 1, 0, 1), .state = TASK_DONE,
         .outcome = OUTCOME_EXITED, .run_us = 7 * S);
    tell(&c.t, RECOVERED, recovered, 0, 0);
    pass(&c.t, 6 * S);
    expect_none(&c.t, HISTORY, 0);
    job_desc_drop(d);
    end(&c);
}

/* Or all that waited would queue up at the first one to answer. */
static void placement_waits_for_every_worker_to_answer(void **state)
{
    struct cluster c;

    recover(&c);
    c.w[1] = join(&c.t, (struct join){.name = "w1", .slots = 1, .role = ROLE_WORKER});
    submit(&c.t, c.d, 7, 3, 5 * S);
    tell(&c.t, HELD_END, held_end, c.w[0], 0);
    expect_none(&c.t, PARTITION, c.w[0]);
    tell(&c.t, HELD_END, held_end, c.w[1], 0);
    uint32_t epoch = expect(&c.t, PARTITION, partition, c.w[1])->epoch;
    ack_partition(&c.t, c.w[0]);
    expect_none(&c.t, TASK_ENQUEUE, c.w[0]);
    tell(&c.t, PARTITION_ACK, partition_ack, c.w[1], .epoch = epoch);
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0]);
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[1]);
    end(&c);
}

/* But not for long. */
static void placement_does_not_wait_for_a_worker_that_does_not_answer(void **state)
{
    struct cluster c;

    recover(&c);
    c.w[1] = join(&c.t, (struct join){.name = "w1", .slots = 1, .role = ROLE_WORKER});
    tell(&c.t, HELD_END, held_end, c.w[0], 0);
    submit(&c.t, c.d, 7, 2, 5 * S);
    pass(&c.t, 3 * S);
    ack_partition(&c.t, c.w[0]);
    expect_none(&c.t, TASK_ENQUEUE, c.w[0]);
    pass(&c.t, 500 * MS);
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0]);
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0]);
    end(&c);
}

/* A central with a journal of two jobs that nothing was sent of, and a free worker. Their dist is not back. */
static void recover_unheard(struct cluster *c)
{
    struct job_desc *d = once_desc(1);
    struct blob *d1 = blob_str("d1"), *w0 = blob_str("w0");

    talk_config(&c->t);
    talk_start(&c->t);
    tell(&c->t, JOURNAL_NODE, journal_node, 0, .name = d1, .node = {1}, .role = ROLE_DIST);
    tell(&c->t, JOURNAL_NODE, journal_node, 0, .name = w0, .node = {2}, .role = ROLE_WORKER);
    for (uint32_t seq = 1; seq <= 2; seq++)
        tell(&c->t, JOURNAL_JOB, journal_job, 0, .job = JOB(1, seq), .desc = d, .estimate_us = S, .epoch = 1);
    tell(&c->t, RECOVERED, recovered, 0, 0);
    c->w[0] = join(&c->t, (struct join){.name = "w0", .slots = 4, .role = ROLE_WORKER});
    tell(&c->t, HELD_END, held_end, c->w[0], 0);
    ack_partition(&c->t, c->w[0]);
    job_desc_drop(d);
    blob_drop(d1);
    blob_drop(w0);
}

/* Its user may have cancelled or held a job there while central was away. The dist says that first. */
static void after_a_restart_a_job_waits_for_its_dist(void **state)
{
    struct cluster c;

    recover_unheard(&c);
    expect_none(&c.t, TASK_ENQUEUE, c.w[0]);
    c.d = join(&c.t, (struct join){.name = "d1", .role = ROLE_DIST});
    assert_false(expect(&c.t, MEMBERS, members, c.d)->workers_away);
    tell(&c.t, LONG_CANCEL, long_cancel, c.d, .job = JOB(1, 1), .epoch = 1, .owner = 1);
    tell(&c.t, LONG_WATCH, long_watch, c.d, .job = JOB(1, 1), .epoch = 1, .owner = 1);
    expect_none(&c.t, TASK_ENQUEUE, c.w[0]);
    tell(&c.t, LONG_HOLD, long_hold, c.d, .job = JOB(1, 2), .epoch = 1, .owner = 1, .on = 1);
    tell(&c.t, LONG_WATCH, long_watch, c.d, .job = JOB(1, 2), .epoch = 1, .owner = 1);
    expect_none(&c.t, TASK_ENQUEUE, c.w[0]);
    pass(&c.t, 61 * S);
    expect_none(&c.t, TASK_ENQUEUE, c.w[0]);
    tell(&c.t, LONG_HOLD, long_hold, c.d, .job = JOB(1, 2), .epoch = 1, .owner = 1, .on = 0);
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0]);
    end(&c);
}

static void after_a_restart_dists_hear_that_workers_are_away(void **state)
{
    struct talk t;
    struct blob *w0 = blob_str("w0");

    talk_config(&t);
    talk_start(&t);
    tell(&t, JOURNAL_NODE, journal_node, 0, .name = w0, .node = {1}, .role = ROLE_WORKER);
    tell(&t, JOURNAL_NODE, journal_node, 0, .name = w0, .node = {1}, .role = ROLE_WORKER);
    tell(&t, RECOVERED, recovered, 0, 0);
    assert_true(expect(&t, MEMBERS, members, add_dist(&t, "d1"))->workers_away);
    pass(&t, 60 * S); /* its tasks have ended by their lease */
    assert_false(expect(&t, MEMBERS, members, add_dist(&t, "d2"))->workers_away);
    blob_drop(w0);
    talk_end(&t);
}

static void after_a_restart_a_job_waits_a_lease_for_its_dist(void **state)
{
    struct cluster c;

    recover_unheard(&c);
    pass(&c.t, 59 * S);
    expect_none(&c.t, TASK_ENQUEUE, c.w[0]);
    pass(&c.t, S);
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0]);
    c.d = 1;
    end(&c);
}

static void a_cancelled_job_stays_cancelled_after_a_restart(void **state)
{
    struct cluster c;
    struct job_desc *d = desc_of("", 2);
    struct blob *w0 = blob_str("w0");

    talk_config(&c.t);
    talk_start(&c.t);
    tell(&c.t, JOURNAL_NODE, journal_node, 0, .name = w0, .node = {1}, .role = ROLE_WORKER);
    tell(&c.t, JOURNAL_JOB, journal_job, 0, .job = JOB(9, 1), .desc = d, .epoch = 1);
    tell(&c.t, JOURNAL_CANCEL, journal_cancel, 0, .job = JOB(9, 1), .epoch = 1);
    tell(&c.t, RECOVERED, recovered, 0, 0);
    c.w[0] = join(&c.t, (struct join){.name = "w0", .slots = 1, .role = ROLE_WORKER});
    tell(&c.t, TASK_HELD, task_held, c.w[0], .id = try_of(9, 1, 0, 1), .state = TASK_RUNNING);
    assert_int_equal(expect(&c.t, TASK_CANCEL, task_cancel, c.w[0])->id.task, 0);
    tell(&c.t, HELD_END, held_end, c.w[0], 0);
    finished(&c.t, c.w[0], try_of(9, 1, 0, 1), OUTCOME_CANCELLED, 0, 0);
    pass(&c.t, 61 * S);
    expect_none(&c.t, TASK_ENQUEUE, c.w[0]);
    c.d = 9;
    assert_int_equal(view_of(&c, 1).state, JOB_CANCELLED);
    job_desc_drop(d);
    blob_drop(w0);
    end(&c);
}

/* What it holds is on its way, or was lost with the stream; its lease is a new one. */
static void nothing_is_placed_again_before_who_was_let_in_has_spoken(void **state)
{
    struct cluster c;

    recover(&c);
    pass(&c.t, 3 * S);
    ack_partition(&c.t, c.w[0]);
    pass(&c.t, 57 * S);
    expect_none(&c.t, TASK_ENQUEUE, c.w[0]);
    tell(&c.t, TASK_HELD, task_held, c.w[0], .id = try_of(1, 1, 1, 1), .state = TASK_RUNNING);
    tell(&c.t, HELD_END, held_end, c.w[0], 0);
    assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0])->id.task, 2);
    expect_none(&c.t, TASK_ENQUEUE, c.w[0]);
    end(&c);
}

/* A job of one task, which moved to another dist before central restarted. */
static void recover_moved(struct cluster *c)
{
    struct job_desc *d = desc_of("", 1);

    talk_config(&c->t);
    talk_start(&c->t);
    tell(&c->t, JOURNAL_JOB, journal_job, 0, .job = JOB(9, 1), .desc = d, .epoch = 1);
    tell(&c->t, JOURNAL_OWNER, journal_owner, 0, .job = JOB(9, 1), .epoch = 1, .owner = 3);
    tell(&c->t, RECOVERED, recovered, 0, 0);
    job_desc_drop(d);
}

/* A dist from which the client went away, and which could not say so before central restarted. */
static void a_moved_job_belongs_to_the_same_dist_after_a_restart(void **state)
{
    struct cluster c;
    uint32_t d1, d2;

    recover_moved(&c);
    d1 = add_dist(&c.t, "d1");
    tell(&c.t, LONG_CANCEL, long_cancel, d1, .job = JOB(9, 1), .epoch = 1, .owner = 1);
    expect_none(&c.t, JOURNAL_CANCEL, 0);
    d2 = add_dist(&c.t, "d2");
    tell(&c.t, LONG_CANCEL, long_cancel, d2, .job = JOB(9, 1), .epoch = 1, .owner = 3);
    expect(&c.t, JOURNAL_CANCEL, journal_cancel, 0);
    end(&c);
}

/* It ended while that dist was away, and nobody has told it: forgotten, it would be run again when the dist asks. */
static void a_moved_job_that_ends_after_a_restart_is_kept_for_its_dist(void **state)
{
    struct cluster c;
    uint32_t w, dist;

    recover_moved(&c);
    w = join(&c.t, (struct join){.name = "w0", .slots = 1, .role = ROLE_WORKER});
    finished(&c.t, w, try_of(9, 1, 0, 1), OUTCOME_EXITED, 0, 5 * S);
    assert_true(central_quiet(c.t.c));
    pass(&c.t, 120 * S);
    dist = add_dist(&c.t, "d2");
    tell(&c.t, LONG_WATCH, long_watch, dist, .job = JOB(9, 1), .epoch = 1, .owner = 3);
    assert_int_equal(expect(&c.t, LONG_TASK, long_task, dist)->state, TASK_DONE);
    assert_int_equal(expect(&c.t, LONG_WATCHED, long_watched, dist)->err, 0);
    end(&c);
}

static void too_many_failures_stop_a_job_after_a_restart(void **state)
{
    struct cluster c;
    struct job_desc *d = desc_of("", 3);

    talk_config(&c.t);
    talk_start(&c.t);
    d->max_fails = 1;
    tell(&c.t, JOURNAL_JOB, journal_job, 0, .job = JOB(9, 1), .desc = d, .epoch = 1);
    tell(&c.t, JOURNAL_TASK, journal_task, 0, .id = try_of(9, 1, 0, 1), .state = TASK_FAILED,
         .outcome = OUTCOME_EXITED, .code = 3, .run_us = S);
    tell(&c.t, RECOVERED, recovered, 0, 0);
    c.w[0] = join(&c.t, (struct join){.name = "w0", .slots = 1, .role = ROLE_WORKER});
    tell(&c.t, HELD_END, held_end, c.w[0], 0);
    pass(&c.t, 61 * S);
    expect_none(&c.t, TASK_ENQUEUE, c.w[0]);
    c.d = 9;
    assert_int_equal(view_of(&c, 1).cancelled, 2);
    job_desc_drop(d);
    end(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_restarted_central_goes_on_with_what_runs),
        cmocka_unit_test(nothing_is_placed_again_before_who_was_let_in_has_spoken),
        cmocka_unit_test(a_moved_job_belongs_to_the_same_dist_after_a_restart),
        cmocka_unit_test(a_moved_job_that_ends_after_a_restart_is_kept_for_its_dist),
        cmocka_unit_test(what_nobody_reports_is_placed_again_after_one_lease),
        cmocka_unit_test(a_dist_is_told_how_long_what_nobody_reports_waits),
        cmocka_unit_test(what_is_cancelled_and_nobody_reports_ends_when_all_have_reported),
        cmocka_unit_test(what_nobody_reported_is_cancelled_at_once),
        cmocka_unit_test(placement_waits_for_every_worker_to_answer),
        cmocka_unit_test(placement_does_not_wait_for_a_worker_that_does_not_answer),
        cmocka_unit_test(once_every_worker_is_back_what_nobody_reports_is_placed_again),
        cmocka_unit_test(an_older_try_that_was_lost_says_nothing_of_later_ones),
        cmocka_unit_test(nor_does_one_that_was_held_until_then),
        cmocka_unit_test(after_the_lease_who_is_away_is_not_waited_for),
        cmocka_unit_test(a_job_that_ended_before_a_restart_is_known_to_its_dist),
        cmocka_unit_test(an_end_that_is_read_back_counts_in_no_history),
        cmocka_unit_test(too_many_failures_stop_a_job_after_a_restart),
        cmocka_unit_test(after_a_restart_a_job_waits_for_its_dist),
        cmocka_unit_test(after_a_restart_a_job_waits_a_lease_for_its_dist),
        cmocka_unit_test(after_a_restart_dists_hear_that_workers_are_away),
        cmocka_unit_test(a_cancelled_job_stays_cancelled_after_a_restart),
    };

    return cmocka_run_group_tests_name("central_recovery", tests, NULL, NULL);
}
