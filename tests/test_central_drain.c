/* What operators ask of nodes through central: to take no new work, to take work again, to stop (protocol 8). */
#include "tests/test_central.h"

static void set_drain(struct talk *t, uint32_t node, enum drain drain)
{
    tell(t, SET_DRAIN, set_drain, 0, .node = {node}, .client = 5, .drain = (uint8_t)drain);
}

static struct central_node view(struct talk *t, uint32_t node)
{
    struct central_node v;

    assert_true(central_view_node(t->c, (node_id_t){node}, t->now_us, &v));
    return v;
}

/* Dist 1, workers 2 and 3. */
static void three_nodes(struct talk *t)
{
    talk_begin(t);
    join(t, (struct join){.name = "d1", .role = ROLE_DIST});
    add_worker(t, "w2", 1);
    add_worker(t, "w3", 1);
}

static void a_drained_worker_gets_nothing_until_it_is_undrained(void **state)
{
    struct talk t;
    struct central_summary s;

    three_nodes(&t);
    set_drain(&t, 2, DRAIN_KEPT);
    assert_int_equal(expect(&t, DRAIN, drain, 2)->on, 1);
    assert_int_equal(expect(&t, JOURNAL_NODE, journal_node, 0)->drained, 1);
    assert_int_equal(expect(&t, MEMBER, member, 1)->state, MEMBER_DRAINING);
    assert_int_equal(expect(&t, DRAIN_SET, drain_set, 0)->err, 0);
    central_view_summary(t.c, &s);
    assert_int_equal(s.slots, 1); /* nobody may count on it */
    for (uint32_t n = 1; n <= 3; n++) {
        submit(&t, 1, n, 1, S);
        expect(&t, TASK_ENQUEUE, task_enqueue, 3);
        expect_none(&t, TASK_ENQUEUE, 2);
    }
    /* It is empty when it says so, and not before. */
    assert_false(view(&t, 2).empty);
    tell(&t, DRAINED, drained, 2, .on = 1, .empty = 0);
    assert_false(view(&t, 2).empty);
    tell(&t, DRAINED, drained, 2, .on = 1, .empty = 1);
    assert_true(view(&t, 2).empty);
    set_drain(&t, 2, DRAIN_NOT);
    assert_int_equal(expect(&t, DRAIN, drain, 2)->on, 0);
    assert_int_equal(expect(&t, JOURNAL_NODE, journal_node, 0)->drained, 0);
    assert_int_equal(expect(&t, MEMBER, member, 1)->state, MEMBER_UP);
    ack_partition(&t, 2);
    submit(&t, 1, 4, 1, S);
    expect(&t, TASK_ENQUEUE, task_enqueue, 2);
    set_drain(&t, 2, DRAIN_KEPT);
    assert_false(view(&t, 2).empty); /* that was the drain before */
    tell(&t, DRAINED, drained, 2, .on = 1, .empty = 1);
    tell(&t, PEER_LOST, peer_lost, 2, .role = ROLE_WORKER);
    assert_false(view(&t, 2).empty); /* nobody knows until it is back, or gone */
    talk_end(&t);
}

/* A worker that hands tasks back is taken for one that stops; when that was a drain's doing, it ends with the drain. */
static void what_is_handed_back_late_does_not_outlast_the_drain(void **state)
{
    struct talk t;

    three_nodes(&t);
    submit(&t, 1, 1, 1, S);
    set_drain(&t, 2, DRAIN_KEPT);
    set_drain(&t, 2, DRAIN_NOT);
    ack_partition(&t, 2);
    tell(&t, TASK_RETURNED, task_returned, 2, .id = try_of(1, 1, 0, 1));
    assert_int_equal(expect(&t, TASK_ENQUEUE, task_enqueue, 3)->id.attempt, 2);
    tell(&t, DRAINED, drained, 2, .on = 1, .empty = 1);
    tell(&t, DRAINED, drained, 2, .on = 0);
    assert_int_equal(view(&t, 2).member.state, MEMBER_UP);
    submit(&t, 1, 2, 1, S);
    expect(&t, TASK_ENQUEUE, task_enqueue, 2);
    talk_end(&t);
}

static void the_next_process_does_not_stop(void **state)
{
    struct talk t;
    uint32_t link;

    three_nodes(&t);
    submit(&t, 1, 1, 1, S);
    expect(&t, TASK_ENQUEUE, task_enqueue, 2);
    tell(&t, TASK_RETURNED, task_returned, 2, .id = try_of(1, 1, 0, 1));
    expect(&t, TASK_ENQUEUE, task_enqueue, 3);
    tell(&t, LEAVE, leave, 2, 0);
    link = join(&t, (struct join){.name = "w2", .slots = 1, .incarnation = 2, .role = ROLE_WORKER});
    ack_partition(&t, link);
    submit(&t, 1, 2, 1, S);
    expect(&t, TASK_ENQUEUE, task_enqueue, link);
    talk_end(&t);
}

static void a_drain_outlives_processes(void **state)
{
    struct talk t;
    struct blob *name = blob_str("w2");
    uint32_t link;

    three_nodes(&t);
    set_drain(&t, 2, DRAIN_KEPT);
    tell(&t, DRAINED, drained, 2, .on = 1, .empty = 1);
    tell(&t, LEAVE, leave, 2, 0);
    link = join(&t, (struct join){.name = "w2", .slots = 1, .incarnation = 2, .role = ROLE_WORKER});
    assert_int_equal(expect(&t, JOINED, joined, link)->draining, 1);
    assert_int_equal(view(&t, 2).member.state, MEMBER_DRAINING);
    assert_false(view(&t, 2).empty); /* that was the other process */
    talk_end(&t);
    /* And central's. */
    talk_config(&t);
    talk_start(&t);
    tell(&t, JOURNAL_NODE, journal_node, 0, .name = name, .node = {2}, .role = ROLE_WORKER, .drained = 1);
    tell(&t, RECOVERED, recovered, 0, 0);
    join(&t, (struct join){.name = "w2", .slots = 1, .role = ROLE_WORKER});
    assert_int_equal(expect(&t, JOINED, joined, 1)->draining, 1);
    blob_drop(name);
    talk_end(&t);
}

static void until_restart_is_until_the_process_ends(void **state)
{
    struct talk t;
    uint32_t link;

    three_nodes(&t);
    set_drain(&t, 2, DRAIN_RESTART);
    assert_int_equal(expect(&t, JOURNAL_NODE, journal_node, 0)->drained, 0);
    /* The same process on a new stream is drained still. */
    tell(&t, PEER_LOST, peer_lost, 2, .role = ROLE_WORKER);
    link = join(&t, (struct join){.name = "w2", .slots = 1, .role = ROLE_WORKER, .node = 2});
    assert_int_equal(expect(&t, JOINED, joined, link)->draining, 1);
    /* One that took over from it is not. */
    tell(&t, PEER_LOST, peer_lost, link, .role = ROLE_WORKER);
    link = join(&t, (struct join){.name = "w2", .slots = 1, .role = ROLE_WORKER});
    assert_int_equal(expect(&t, JOINED, joined, link)->draining, 0);
    set_drain(&t, 2, DRAIN_RESTART);
    /* Nor is another one, whether the first said good-bye or died. */
    tell(&t, PEER_LOST, peer_lost, link, .role = ROLE_WORKER);
    link = join(&t, (struct join){.name = "w2", .slots = 1, .incarnation = 2, .role = ROLE_WORKER});
    assert_int_equal(expect(&t, JOINED, joined, link)->draining, 0);
    set_drain(&t, 2, DRAIN_RESTART);
    tell(&t, LEAVE, leave, link, 0);
    assert_int_equal(view(&t, 2).drain, DRAIN_NOT);
    set_drain(&t, 2, DRAIN_RESTART); /* there is no process whose end could be meant */
    assert_int_equal(expect(&t, DRAIN_SET, drain_set, 0)->err, HAWK_ENOT_FOUND);
    talk_end(&t);
}

/* Slots that are drained are not reserved: the partition is made of those that are left. */
static void the_last_general_worker_is_replaced(void **state)
{
    struct talk t;

    talk_config(&t);
    t.config.history.share_ppm = 500000;
    talk_start(&t);
    tell(&t, RECOVERED, recovered, 0, 0);
    add_worker(&t, "w1", 1);
    join(&t, (struct join){.name = "w2", .slots = 1, .role = ROLE_WORKER});
    assert_int_equal(expect(&t, PARTITION, partition, 1)->general, 0);
    set_drain(&t, 2, DRAIN_KEPT);
    assert_int_equal(expect(&t, PARTITION, partition, 1)->general, 1);
    set_drain(&t, 1, DRAIN_KEPT); /* all of them: nothing to divide */
    set_drain(&t, 1, DRAIN_NOT);
    assert_int_equal(expect(&t, PARTITION, partition, 1)->general, 1);
    set_drain(&t, 2, DRAIN_NOT);
    assert_int_equal(expect(&t, PARTITION, partition, 1)->general, 0);
    assert_int_equal(expect(&t, PARTITION, partition, 2)->general, 1);
    talk_end(&t);
}

static void a_disk_that_is_full_is_told(void **state)
{
    struct talk t;

    three_nodes(&t);
    t.journal_by_hand = true;
    set_drain(&t, 2, DRAIN_KEPT);
    expect(&t, DRAIN, drain, 2);
    expect_none(&t, DRAIN_SET, 0);
    uint64_t token = expect(&t, JOURNAL_NODE, journal_node, 0)->token;
    tell(&t, JOURNAL_DONE, journal_done, 0, .token = token, .err = HAWK_EIO);
    assert_int_equal(expect(&t, DRAIN_SET, drain_set, 0)->err, HAWK_EIO);
    pass(&t, 2 * S);
    expect_none(&t, JOURNAL_NODE, 0); /* the store has the record, and tries again */
    tell(&t, JOURNAL_DONE, journal_done, 0, .token = token);
    expect_none(&t, DRAIN_SET, 0); /* one answer */
    talk_end(&t);
}

static void join_version(struct talk *t, const char *name, enum role role, uint16_t version)
{
    uint32_t link = ++t->links;
    struct blob *b = blob_str(name);

    tell(t, PEER_UP, peer_up, link, .role = (uint8_t)role, .version = (uint8_t)version);
    tell(t, JOIN, join, link, .name = b, .addr = b, .incarnation = 1, .slots = role == ROLE_WORKER,
         .version = version, .role = (uint8_t)role);
    blob_drop(b);
}

static void a_node_of_the_older_version_is_told_nothing_it_does_not_know(void **state)
{
    struct talk t;

    three_nodes(&t);
    join_version(&t, "old", ROLE_WORKER, 1);
    expect(&t, JOINED, joined, 4);
    ack_partition(&t, 4);
    /* Kept free of work without its help; empty when its heartbeats say so. */
    set_drain(&t, 4, DRAIN_KEPT);
    assert_int_equal(expect(&t, DRAIN_SET, drain_set, 0)->err, 0);
    assert_int_equal(expect(&t, MEMBER, member, 1)->state, MEMBER_DRAINING);
    expect_none(&t, DRAIN, 4);
    tell(&t, HEARTBEAT, heartbeat, 4, .seq = 1);
    assert_false(view(&t, 4).empty); /* what was under way when it was drained may have come after this */
    t.now_us += 10 * S;
    tell(&t, HEARTBEAT, heartbeat, 4, .seq = 2, .queued = 1);
    assert_false(view(&t, 4).empty);
    tell(&t, HEARTBEAT, heartbeat, 4, .seq = 3);
    assert_true(view(&t, 4).empty);
    tell(&t, STOP_NODE, stop_node, 0, .node = {4});
    expect_none(&t, QUIT, 4);
    set_drain(&t, 4, DRAIN_NOT);
    expect_none(&t, DRAIN, 4);
    assert_int_equal(view(&t, 4).member.state, MEMBER_UP);
    /* One that stops does so all the same. */
    tell(&t, DRAINING, draining, 4, 0);
    set_drain(&t, 4, DRAIN_KEPT);
    set_drain(&t, 4, DRAIN_NOT);
    assert_int_equal(view(&t, 4).member.state, MEMBER_DRAINING);
    /* A dist has to know. */
    join_version(&t, "older", ROLE_DIST, 1);
    expect(&t, JOINED, joined, 5);
    set_drain(&t, 5, DRAIN_KEPT);
    assert_int_equal(expect(&t, DRAIN_SET, drain_set, 0)->err, HAWK_EVERSION);
    expect_nothing_else(&t);
    join_version(&t, "oldest", ROLE_WORKER, 0);
    assert_int_equal(expect(&t, REFUSED, refused, 6)->err, HAWK_EVERSION);
    join_version(&t, "newer", ROLE_WORKER, PROTOCOL_VERSION + 1);
    assert_int_equal(expect(&t, REFUSED, refused, 7)->err, HAWK_EVERSION);
    talk_end(&t);
}

static void a_node_is_told_to_stop(void **state)
{
    struct talk t;

    three_nodes(&t);
    tell(&t, STOP_NODE, stop_node, 0, .node = {2}, .now = 1);
    assert_int_equal(expect(&t, QUIT, quit, 2)->now, 1);
    assert_int_equal(expect(&t, NODE_CHANGED, node_changed, 0)->change, CHANGE_STOPPING);
    tell(&t, STOP_NODE, stop_node, 0, .node = {99});
    expect_nothing_else(&t);
    talk_end(&t);
}

static void a_worker_that_stops_gets_no_more_hints(void **state)
{
    struct talk t;
    uint32_t thief, victim;

    talk_begin(&t);
    thief = add_worker(&t, "thief", 1);
    victim = add_worker(&t, "victim", 1);
    tell(&t, PARKED, parked, thief, .parked = 1);
    tell(&t, DRAINING, draining, thief, 0);
    tell(&t, STUCK, stuck, victim, .stuck = 1);
    pass(&t, 1 * S);
    expect_none(&t, STEAL_HINT, thief);
    talk_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_drained_worker_gets_nothing_until_it_is_undrained),
        cmocka_unit_test(what_is_handed_back_late_does_not_outlast_the_drain),
        cmocka_unit_test(the_next_process_does_not_stop),
        cmocka_unit_test(a_drain_outlives_processes),
        cmocka_unit_test(until_restart_is_until_the_process_ends),
        cmocka_unit_test(the_last_general_worker_is_replaced),
        cmocka_unit_test(a_disk_that_is_full_is_told),
        cmocka_unit_test(a_node_of_the_older_version_is_told_nothing_it_does_not_know),
        cmocka_unit_test(a_node_is_told_to_stop),
        cmocka_unit_test(a_worker_that_stops_gets_no_more_hints),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
