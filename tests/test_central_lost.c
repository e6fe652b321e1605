/* Central and the tasks of lost workers: leases, retries, rejoining (protocol 4, 6). */
#include "tests/test_central.h"

/* ---- Lost workers (4.6, 6; DESIGN 3.9) ---- */

static void submit_with_retries(struct cluster *c, uint32_t tasks, uint16_t retries)
{
    struct job_desc *d = desc_of("", tasks);

    d->lost_retries = retries;
    tell(&c->t, LONG_SUBMIT, long_submit, c->d, .job = JOB(c->d, 1), .desc = d, .estimate_us = 5 * S,
         .epoch = 1);
    job_desc_drop(d);
}

static void a_lost_workers_tasks_are_placed_again_after_the_lease(void **state)
{
    struct cluster c;

    begin(&c, 2);
    submit_with_retries(&c, 1, 2);
    started(&c.t, c.w[0], try_of(c.d, 1, 0, 1));
    tell(&c.t, PEER_LOST, peer_lost, c.w[0], 0);
    pass(&c.t, 60 * S - 1);
    expect_none(&c.t, TASK_ENQUEUE, c.w[1]); /* it may run on there */
    pass(&c.t, 1);
    assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[1])->id.attempt, 2);
    expect_task(&c, 0, TASK_WAITING);
    expect_task(&c, 0, TASK_PLACED);
    end(&c);
}

static void after_its_retries_a_task_is_lost(void **state)
{
    struct cluster c;

    begin(&c, 2);
    submit_with_retries(&c, 1, 1);
    started(&c.t, c.w[0], try_of(c.d, 1, 0, 1));
    tell(&c.t, PEER_LOST, peer_lost, c.w[0], 0);
    pass(&c.t, 60 * S);
    started(&c.t, c.w[1], try_of(c.d, 1, 0, 2));
    tell(&c.t, PEER_LOST, peer_lost, c.w[1], 0);
    pass(&c.t, 60 * S);
    assert_int_equal(expect_task(&c, 0, TASK_LOST)->outcome, OUTCOME_LOST);
    expect_forgotten(&c);
    end(&c);
}

/* A central that restarts counts retries from what is on record. */
static void a_second_try_is_on_record(void **state)
{
    struct cluster c;

    begin(&c, 2);
    submit_with_retries(&c, 1, 1);
    started(&c.t, c.w[0], try_of(c.d, 1, 0, 1));
    tell(&c.t, PEER_LOST, peer_lost, c.w[0], 0);
    pass(&c.t, 60 * S);
    assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[1])->id.attempt, 2);
    const struct msg_journal_task *record = expect(&c.t, JOURNAL_TASK, journal_task, 0);
    assert_int_equal(record->id.attempt, 2);
    assert_int_equal(record->losses, 1);
    end(&c);
}

/* Central restarts from the record of a third try, two before which were lost or handed back, and loses that too. The
 * job may lose two. */
static void lose_third_try(struct cluster *c, uint8_t losses)
{
    struct job_desc *d = desc_of("", 1);
    struct blob *w0 = blob_str("w0"), *d1 = blob_str("d1");

    d->lost_retries = 2;
    talk_config(&c->t);
    talk_start(&c->t);
    tell(&c->t, JOURNAL_NODE, journal_node, 0, .name = d1, .node = {1}, .role = ROLE_DIST);
    tell(&c->t, JOURNAL_NODE, journal_node, 0, .name = w0, .node = {2}, .role = ROLE_WORKER);
    tell(&c->t, JOURNAL_JOB, journal_job, 0, .job = JOB(1, 1), .desc = d, .estimate_us = 9 * S, .epoch = 1);
    tell(&c->t, JOURNAL_TASK, journal_task, 0, .id = try_of(1, 1, 0, 3), .state = TASK_PLACED,
         .losses = losses);
    tell(&c->t, RECOVERED, recovered, 0, 0);
    job_desc_drop(d);
    blob_drop(w0);
    blob_drop(d1);
    c->d = join(&c->t, (struct join){.name = "d1", .role = ROLE_DIST});
    tell(&c->t, LONG_WATCH, long_watch, c->d, .job = JOB(1, 1), .epoch = 1);
    c->w[0] = join(&c->t, (struct join){.name = "w0", .slots = 1, .role = ROLE_WORKER});
    tell(&c->t, TASK_HELD, task_held, c->w[0], .id = try_of(1, 1, 0, 3), .run_us = 2 * S,
         .state = TASK_RUNNING);
    tell(&c->t, HELD_END, held_end, c->w[0], 0);
    ack_partition(&c->t, c->w[0]);
    finished(&c->t, c->w[0], try_of(1, 1, 0, 3), OUTCOME_LOST, 9, 5 * S);
}

static void tries_that_were_handed_back_cost_no_retry_after_a_restart(void **state)
{
    struct cluster c;

    lose_third_try(&c, 0);
    assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0])->id.attempt, 4);
    end(&c);
}

static void tries_that_were_lost_do(void **state)
{
    struct cluster c;

    lose_third_try(&c, 2);
    expect_none(&c.t, TASK_ENQUEUE, c.w[0]);
    assert_int_equal(expect(&c.t, JOURNAL_TASK, journal_task, 0)->state, TASK_LOST);
    end(&c);
}

/* The worker was told so by another central, which lost its state. */
static void a_cancelled_end_that_nobody_asked_for_is_not_one(void **state)
{
    struct cluster c;

    begin(&c, 1);
    submit_with_retries(&c, 1, 1);
    started(&c.t, c.w[0], try_of(c.d, 1, 0, 1));
    finished(&c.t, c.w[0], try_of(c.d, 1, 0, 1), OUTCOME_CANCELLED, 15, 2 * S);
    expect(&c.t, FINISH_ACK, finish_ack, c.w[0]);
    assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0])->id.attempt, 2);
    expect_none(&c.t, JOURNAL_JOB_END, 0);
    end(&c);
}

/* The same try at a worker that central did not place it at: two ran it, and one is too many. */
static void a_start_where_it_was_not_placed_is_called_off(void **state)
{
    struct cluster c;
    struct try_id id;

    begin(&c, 2);
    submit(&c.t, c.d, 1, 2, 5 * S);
    id = try_of(c.d, 1, 0, 1);
    started(&c.t, c.w[0], id);
    finished(&c.t, c.w[0], id, OUTCOME_EXITED, 0, S);
    tell(&c.t, TASK_STARTED, task_started, c.w[0], .id = id); /* late news */
    expect_none(&c.t, TASK_CANCEL, c.w[0]);
    tell(&c.t, TASK_STARTED, task_started, c.w[1], .id = id);
    expect(&c.t, TASK_CANCEL, task_cancel, c.w[1]);
    end(&c);
}

static void what_never_started_costs_no_retry(void **state)
{
    struct cluster c;

    begin(&c, 4);
    submit_with_retries(&c, 1, 1);
    tell(&c.t, PEER_LOST, peer_lost, c.w[0], 0);
    pass(&c.t, 60 * S);
    assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[1])->id.attempt, 2);
    tell(&c.t, PEER_LOST, peer_lost, c.w[1], 0);
    pass(&c.t, 60 * S);
    assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[2])->id.attempt, 3);
    started(&c.t, c.w[2], try_of(c.d, 1, 0, 3));
    tell(&c.t, PEER_LOST, peer_lost, c.w[2], 0);
    pass(&c.t, 60 * S);
    assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[3])->id.attempt, 4);
    end(&c);
}

static void who_leaves_has_nothing_any_more(void **state)
{
    struct cluster c;

    begin(&c, 2);
    submit_with_retries(&c, 1, 1);
    tell(&c.t, LEAVE, leave, c.w[0], 0);
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[1]);
    end(&c);
}

/* The worker's process opens another stream. */
static uint32_t rejoin(struct cluster *c, uint32_t incarnation, const char *addr)
{
    uint32_t link = join(
        &c->t, (struct join){
                   .name = "w0", .addr = addr, .slots = 1, .incarnation = incarnation, .role = ROLE_WORKER});

    expect(&c->t, JOINED, joined, link);
    ack_partition(&c->t, link);
    return link;
}

static void what_a_worker_still_has_stays_with_it(void **state)
{
    struct cluster c;
    uint32_t w;

    begin(&c, 2);
    submit_with_retries(&c, 2, 1);
    started(&c.t, c.w[0], try_of(c.d, 1, 0, 1));
    tell(&c.t, PEER_LOST, peer_lost, c.w[0], 0);
    c.t.now_us += 10 * S;
    w = rejoin(&c, 1, "w0");
    tell(&c.t, TASK_HELD, task_held, w, .id = try_of(c.d, 1, 0, 1), .run_us = 10 * S, .state = TASK_RUNNING);
    expect_task(&c, 0, TASK_RUNNING);
    expect_nothing_else(&c.t);
    tell(&c.t, HELD_END, held_end, w, 0);
    expect_nothing_else(&c.t);
    finished(&c.t, w, try_of(c.d, 1, 0, 1), OUTCOME_EXITED, 0, 11 * S);
    expect(&c.t, FINISH_ACK, finish_ack, w);
    expect_task(&c, 0, TASK_DONE);
    end(&c);
}

static void what_a_worker_does_not_have_is_placed_again_at_once(void **state)
{
    struct cluster c;
    uint32_t w;

    begin(&c, 2);
    submit_with_retries(&c, 2, 1);
    tell(&c.t, PEER_LOST, peer_lost, c.w[0], 0);
    w = rejoin(&c, 1, "w0");
    expect_none(&c.t, TASK_ENQUEUE, w);
    tell(&c.t, HELD_END, held_end, w, 0);
    assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, w)->id.attempt, 2);
    /* An older try that turns up late is none of ours. */
    tell(&c.t, TASK_HELD, task_held, w, .id = try_of(c.d, 1, 0, 1), .state = TASK_RUNNING);
    assert_int_equal(expect(&c.t, TASK_CANCEL, task_cancel, w)->id.attempt, 1);
    started(&c.t, w, try_of(c.d, 1, 0, 1));
    assert_int_equal(expect(&c.t, TASK_CANCEL, task_cancel, w)->id.attempt, 1);
    tell(&c.t, TASK_HELD, task_held, w, .id = try_of(c.d, 9, 0, 1), .state = TASK_PLACED);
    expect(&c.t, TASK_CANCEL, task_cancel, w);
    end(&c);
}

static void what_was_enqueued_after_the_rejoin_is_not_missed(void **state)
{
    struct cluster c;
    uint32_t w;

    begin(&c, 1);
    tell(&c.t, PEER_LOST, peer_lost, c.w[0], 0);
    w = rejoin(&c, 1, "w0");
    submit_with_retries(&c, 1, 1); /* crosses the HELD_END */
    expect(&c.t, TASK_ENQUEUE, task_enqueue, w);
    tell(&c.t, HELD_END, held_end, w, 0);
    expect_none(&c.t, TASK_ENQUEUE, w);
    end(&c);
}

static void a_restarted_agent_s_tasks_wait_for_the_lease(void **state)
{
    struct cluster c;
    uint32_t w;

    begin(&c, 2);
    submit_with_retries(&c, 2, 1);
    started(&c.t, c.w[0], try_of(c.d, 1, 0, 1));
    tell(&c.t, PEER_LOST, peer_lost, c.w[0], 0);
    w = rejoin(&c, 2, "w0"); /* the same address: the agent, started anew, beside its old spawner */
    tell(&c.t, HELD_END, held_end, w, 0);
    expect_none(&c.t, TASK_ENQUEUE, w);
    pass(&c.t, 60 * S);
    expect(&c.t, TASK_ENQUEUE, task_enqueue, w);
    end(&c);
}

static void another_machine_under_the_name_waits_for_the_lease(void **state)
{
    struct cluster c;
    uint32_t w;

    begin(&c, 1);
    submit_with_retries(&c, 1, 1);
    started(&c.t, c.w[0], try_of(c.d, 1, 0, 1));
    tell(&c.t, PEER_LOST, peer_lost, c.w[0], 0);
    pass(&c.t, 20 * S);
    w = rejoin(&c, 2, "elsewhere");
    tell(&c.t, HELD_END, held_end, w, 0);
    expect_none(&c.t, TASK_ENQUEUE, w); /* the old machine may still be at it */
    pass(&c.t, 40 * S - 1);
    expect_none(&c.t, TASK_ENQUEUE, w);
    pass(&c.t, 1);
    expect(&c.t, TASK_ENQUEUE, task_enqueue, w);
    end(&c);
}

static void a_worker_that_gives_up_costs_a_retry(void **state)
{
    struct cluster c;

    begin(&c, 1);
    submit_with_retries(&c, 1, 1);
    finished(&c.t, c.w[0], try_of(c.d, 1, 0, 1), OUTCOME_LOST, 0, 1 * S);
    expect(&c.t, FINISH_ACK, finish_ack, c.w[0]);
    assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0])->id.attempt, 2);
    finished(&c.t, c.w[0], try_of(c.d, 1, 0, 1), OUTCOME_LOST, 0, 1 * S); /* old news */
    expect(&c.t, FINISH_ACK, finish_ack, c.w[0]);
    expect_nothing_else(&c.t);
    finished(&c.t, c.w[0], try_of(c.d, 1, 0, 2), OUTCOME_LOST, 0, 1 * S);
    expect_task(&c, 0, TASK_LOST);
    expect_forgotten(&c);
    end(&c);
}

static void a_late_completion_of_an_old_try_counts_and_stops_the_new_one(void **state)
{
    struct cluster c;
    uint32_t w;

    begin(&c, 2);
    submit_with_retries(&c, 1, 1);
    started(&c.t, c.w[0], try_of(c.d, 1, 0, 1));
    tell(&c.t, PEER_LOST, peer_lost, c.w[0], 0);
    pass(&c.t, 60 * S);
    assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[1])->id.attempt, 2);
    w = rejoin(&c, 1, "w0"); /* it had finished before the link broke */
    finished(&c.t, w, try_of(c.d, 1, 0, 1), OUTCOME_EXITED, 0, 3 * S);
    assert_int_equal(expect(&c.t, TASK_CANCEL, task_cancel, c.w[1])->id.attempt, 2);
    expect(&c.t, FINISH_ACK, finish_ack, w);
    assert_int_equal(expect_task(&c, 0, TASK_DONE)->id.attempt, 1);
    finished(&c.t, c.w[1], try_of(c.d, 1, 0, 2), OUTCOME_CANCELLED, 0, 0);
    expect(&c.t, FINISH_ACK, finish_ack, c.w[1]);
    expect_none(&c.t, LONG_TASK, c.d);
    expect_forgotten(&c);
    end(&c);
}

/* Found by the soak: it was taken for the task's end, and the later try was stopped for it. */
static void an_old_try_that_was_called_off_is_no_end_of_the_task(void **state)
{
    struct cluster c;
    uint32_t w;

    begin(&c, 2);
    submit_with_retries(&c, 1, 1);
    started(&c.t, c.w[0], try_of(c.d, 1, 0, 1));
    tell(&c.t, PEER_LOST, peer_lost, c.w[0], 0);
    pass(&c.t, 60 * S);
    assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[1])->id.attempt, 2);
    w = rejoin(&c, 1, "w0");
    tell(&c.t, TASK_HELD, task_held, w, .id = try_of(c.d, 1, 0, 1), .state = TASK_RUNNING);
    assert_int_equal(expect(&c.t, TASK_CANCEL, task_cancel, w)->id.attempt, 1);
    finished(&c.t, w, try_of(c.d, 1, 0, 1), OUTCOME_CANCELLED, 0, 1 * S);
    expect(&c.t, FINISH_ACK, finish_ack, w);
    expect_none(&c.t, TASK_CANCEL, c.w[1]);
    finished(&c.t, c.w[1], try_of(c.d, 1, 0, 2), OUTCOME_EXITED, 0, 1 * S);
    assert_int_equal(expect_task(&c, 0, TASK_DONE)->id.attempt, 2);
    expect_none(&c.t, LONG_TASK, c.d);
    expect_forgotten(&c);
    end(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_workers_tasks_are_placed_again_after_the_lease),
        cmocka_unit_test(after_its_retries_a_task_is_lost),
        cmocka_unit_test(a_second_try_is_on_record),
        cmocka_unit_test(tries_that_were_handed_back_cost_no_retry_after_a_restart),
        cmocka_unit_test(tries_that_were_lost_do),
        cmocka_unit_test(a_cancelled_end_that_nobody_asked_for_is_not_one),
        cmocka_unit_test(a_start_where_it_was_not_placed_is_called_off),
        cmocka_unit_test(what_never_started_costs_no_retry),
        cmocka_unit_test(who_leaves_has_nothing_any_more),
        cmocka_unit_test(what_a_worker_still_has_stays_with_it),
        cmocka_unit_test(what_a_worker_does_not_have_is_placed_again_at_once),
        cmocka_unit_test(what_was_enqueued_after_the_rejoin_is_not_missed),
        cmocka_unit_test(a_restarted_agent_s_tasks_wait_for_the_lease),
        cmocka_unit_test(another_machine_under_the_name_waits_for_the_lease),
        cmocka_unit_test(a_worker_that_gives_up_costs_a_retry),
        cmocka_unit_test(a_late_completion_of_an_old_try_counts_and_stops_the_new_one),
        cmocka_unit_test(an_old_try_that_was_called_off_is_no_end_of_the_task),
    };

    return cmocka_run_group_tests_name("central_lost", tests, NULL, NULL);
}
