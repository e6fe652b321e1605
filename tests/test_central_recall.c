/* Long tasks that wait at one worker when others come (protocol 4): called back, and placed again. */
#include "tests/test_central.h"

/* The dist, w0 with six tasks of 5 s of which the first runs, and whoever came a moment later. */
static void one_worker_has_it_all(struct cluster *c, uint32_t later)
{
    begin(c, 1);
    submit(&c->t, c->d, 1, 6, 5 * S);
    started(&c->t, c->w[0], try_of(c->d, 1, 0, 1));
    for (uint32_t i = 1; i <= later; i++)
        c->w[i] = add_worker(&c->t, i == 1 ? "w1" : "w2", 1);
}

static void hand_back(struct cluster *c, uint32_t task)
{
    tell(&c->t, TASK_RETURNED, task_returned, c->w[0], .id = try_of(c->d, 1, task, 1));
}

/* Once a run of the soak test did not end: after a cut everything had been placed at the worker that was
 * heard first. */
static void a_worker_that_comes_later_gets_its_share(void **state)
{
    struct cluster c;

    one_worker_has_it_all(&c, 1);
    expect_none(&c.t, TASK_RECALL, c.w[0]); /* others may come with it */
    pass(&c.t, 1 * S);
    for (uint32_t task = 3; task < 6; task++)
        assert_int_equal(expect(&c.t, TASK_RECALL, task_recall, c.w[0])->id.task, task);
    expect_none(&c.t, TASK_RECALL, c.w[0]);
    expect_none(&c.t, TASK_ENQUEUE, c.w[1]); /* it is w0's until that has handed it back */
    for (uint32_t task = 3; task < 6; task++) {
        hand_back(&c, task);
        assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[1])->id.attempt, 2);
    }
    /* It was asked to: nothing is wrong with it. 14 s of work are left there, 15 s at w1. */
    submit(&c.t, c.d, 2, 1, 5 * S);
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0]);
    pass(&c.t, 10 * S);
    expect_none(&c.t, TASK_RECALL, c.w[0]);
    assert_int_equal(totals(&c).counters[COUNTER_tasks_recalled], 3);
    end(&c);
}

static void those_who_come_together_share(void **state)
{
    struct cluster c;
    uint32_t recalls = 0, given[3] = {0};

    one_worker_has_it_all(&c, 2);
    pass(&c.t, 1 * S);
    recalls = count_out(&c.t, MSG_TASK_RECALL);
    assert_int_equal(recalls, 4);
    for (uint32_t task = 2; task < 6; task++) {
        hand_back(&c, task);
        for (uint32_t i = 1; i <= 2; i++)
            given[i] += count_out_to(&c.t, MSG_TASK_ENQUEUE, c.w[i]);
    }
    assert_int_equal(given[1], 2);
    assert_int_equal(given[2], 2);
    end(&c);
}

static void what_has_started_meanwhile_stays(void **state)
{
    struct cluster c;

    one_worker_has_it_all(&c, 1);
    pass(&c.t, 1 * S);
    started(&c.t, c.w[0], try_of(c.d, 1, 3, 1));
    expect_task(&c, 3, TASK_RUNNING);
    finished(&c.t, c.w[0], try_of(c.d, 1, 3, 1), OUTCOME_EXITED, 0, 5 * S);
    expect_task(&c, 3, TASK_DONE);
    expect_none(&c.t, TASK_ENQUEUE, c.w[1]);
    end(&c);
}

/* The question was lost with the stream, or is on its way: it is asked again only once the worker has said
 * what it has. */
static void it_is_asked_for_once_a_stream(void **state)
{
    struct cluster c;
    uint32_t link;

    one_worker_has_it_all(&c, 1);
    pass(&c.t, 1 * S);
    assert_int_equal(count_out(&c.t, MSG_TASK_RECALL), 3);
    c.w[2] = add_worker(&c.t, "w2", 1);
    pass(&c.t, 1 * S);
    expect_none(&c.t, TASK_RECALL, c.w[0]);
    tell(&c.t, PEER_LOST, peer_lost, c.w[0], .role = ROLE_WORKER);
    link = join(&c.t, (struct join){.name = "w0", .slots = 1, .role = ROLE_WORKER, .node = c.w[0]});
    ack_partition(&c.t, link);
    tell(&c.t, TASK_HELD, task_held, link, .id = try_of(c.d, 1, 0, 1), .state = TASK_RUNNING,
         .run_us = 2 * S);
    for (uint32_t task = 1; task < 6; task++)
        tell(&c.t, TASK_HELD, task_held, link, .id = try_of(c.d, 1, task, 1), .state = TASK_PLACED);
    tell(&c.t, HELD_END, held_end, link, 0);
    pass(&c.t, 1 * S);
    assert_int_equal(count_out(&c.t, MSG_TASK_RECALL), 4);
    end(&c);
}

static void what_is_cancelled_meanwhile_is_not_placed_again(void **state)
{
    struct cluster c;

    one_worker_has_it_all(&c, 1);
    pass(&c.t, 1 * S);
    tell(&c.t, LONG_CANCEL, long_cancel, c.d, .job = JOB(c.d, 1), .epoch = 1);
    hand_back(&c, 5);
    expect_task(&c, 5, TASK_CANCELLED);
    expect_none(&c.t, TASK_ENQUEUE, c.w[1]);
    end(&c);
}

static void nothing_is_moved_for_less_than_a_second(void **state)
{
    struct cluster c;

    begin(&c, 1);
    submit(&c.t, c.d, 1, 3, 500 * MS);
    c.w[1] = add_worker(&c.t, "w1", 1);
    pass(&c.t, 5 * S);
    expect_none(&c.t, TASK_RECALL, c.w[0]);
    end(&c);
}

/* Its launch is being recorded: it is not at the worker yet. */
static void what_was_not_sent_yet_is_left_alone(void **state)
{
    struct cluster c;
    struct job_desc *d = desc_of("", 6);
    uint32_t epoch;

    begin(&c, 1);
    d->flags |= JOB_AT_MOST_ONCE;
    c.w[1] = join(&c.t, (struct join){.name = "w1", .slots = 1, .role = ROLE_WORKER});
    epoch = expect(&c.t, PARTITION, partition, c.w[1])->epoch;
    c.t.journal_by_hand = true;
    tell(&c.t, LONG_SUBMIT, long_submit, c.d, .job = JOB(c.d, 1), .desc = d, .estimate_us = 5 * S,
         .epoch = 1);
    tell(&c.t, JOURNAL_DONE, journal_done, 0, .token = expect(&c.t, JOURNAL_JOB, journal_job, 0)->token);
    tell(&c.t, PARTITION_ACK, partition_ack, c.w[1], .epoch = epoch);
    pass(&c.t, 5 * S);
    expect_none(&c.t, TASK_RECALL, c.w[0]);
    job_desc_drop(d);
    end(&c);
}

/* A worker of the version before does not know the question. */
static void older_workers_are_not_asked(void **state)
{
    struct cluster c;
    struct blob *name = blob_str("w0");

    begin(&c, 0);
    c.w[0] = ++c.t.links;
    tell(&c.t, PEER_UP, peer_up, c.w[0], .role = ROLE_WORKER, .version = 1);
    tell(&c.t, JOIN, join, c.w[0], .name = name, .addr = name, .incarnation = 1, .slots = 1, .version = 1,
         .role = ROLE_WORKER);
    ack_partition(&c.t, c.w[0]);
    tell(&c.t, HELD_END, held_end, c.w[0], 0);
    blob_drop(name);
    submit(&c.t, c.d, 1, 6, 5 * S);
    c.w[1] = add_worker(&c.t, "w1", 1);
    pass(&c.t, 5 * S);
    expect_none(&c.t, TASK_RECALL, c.w[0]);
    end(&c);
}

static void so_many_at_a_time_and_no_more(void **state)
{
    struct cluster c;

    begin(&c, 1);
    submit(&c.t, c.d, 1, 30000, 5 * S);
    c.w[1] = add_worker(&c.t, "w1", 1);
    pass(&c.t, 1 * S);
    assert_int_equal(count_out(&c.t, MSG_TASK_RECALL), 10000);
    pass(&c.t, 1 * S); /* the worker is slow to hand them back */
    assert_int_equal(count_out(&c.t, MSG_TASK_RECALL), 0);
    for (uint32_t task = 20000; task < 30000; task++)
        talk_quick_step(&c.t, &(struct msg){.type = MSG_TASK_RETURNED,
                                            .peer = c.w[0],
                                            .task_returned = {.id = try_of(c.d, 1, task, 1)}});
    pass(&c.t, 1 * S);
    assert_int_equal(count_out(&c.t, MSG_TASK_RECALL), 5000); /* the others follow */
    end(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_that_comes_later_gets_its_share),
        cmocka_unit_test(those_who_come_together_share),
        cmocka_unit_test(what_has_started_meanwhile_stays),
        cmocka_unit_test(it_is_asked_for_once_a_stream),
        cmocka_unit_test(what_is_cancelled_meanwhile_is_not_placed_again),
        cmocka_unit_test(nothing_is_moved_for_less_than_a_second),
        cmocka_unit_test(what_was_not_sent_yet_is_left_alone),
        cmocka_unit_test(older_workers_are_not_asked),
        cmocka_unit_test(so_many_at_a_time_and_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
