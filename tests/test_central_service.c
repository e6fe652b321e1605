/* Workers that take themselves out of service: a quarter of them at most, and nothing is placed there (protocol 8). */
#include "tests/test_central.h"

static void ask(struct talk *t, uint32_t worker, bool on)
{
    struct blob *why = on ? blob_str("the disk is full") : NULL;

    tell(t, OUT_OF_SERVICE, out_of_service, worker, .on = on, .why = why);
    blob_drop(why);
}

static bool granted(struct talk *t, uint32_t worker)
{
    ask(t, worker, true);
    return expect(t, OUT_OF_SERVICE, out_of_service, worker)->on;
}

static bool is_out(struct talk *t, uint32_t node)
{
    struct central_node v;

    assert_true(central_view_node(t->c, (node_id_t){node}, t->now_us, &v));
    assert_true(!v.member.out_why || strcmp(v.member.out_why->data, "the disk is full") == 0);
    return v.out;
}

/* Dist 1, and workers from 2 on. */
static void nodes(struct talk *t, uint32_t workers)
{
    char name[16];

    talk_begin(t);
    join(t, (struct join){.name = "d1", .role = ROLE_DIST});
    for (uint32_t i = 0; i < workers; i++) {
        snprintf(name, sizeof name, "w%u", i + 2);
        add_worker(t, name, 1);
    }
}

static void nothing_goes_to_one_that_is_out(void **state)
{
    struct talk t;
    const struct msg_node_changed *changed;
    const struct msg_member *member;
    struct central_summary s;

    nodes(&t, 2);
    ask(&t, 2, true);
    assert_int_equal(expect(&t, OUT_OF_SERVICE, out_of_service, 2)->on, 1);
    member = expect(&t, MEMBER, member, 1);
    assert_int_equal(member->state, MEMBER_DRAINING);
    assert_string_equal(member->out_why->data, "the disk is full");
    changed = expect(&t, NODE_CHANGED, node_changed, 0);
    assert_int_equal(changed->change, CHANGE_OUT);
    assert_string_equal(changed->why->data, "the disk is full");
    assert_true(is_out(&t, 2));
    central_view_summary(t.c, &s);
    assert_int_equal(s.slots, 1);
    for (uint32_t n = 1; n <= 3; n++) {
        submit(&t, 1, n, 1, S);
        expect(&t, TASK_ENQUEUE, task_enqueue, 3);
    }
    ask(&t, 2, false);
    expect_none(&t, OUT_OF_SERVICE, 2);
    member = expect(&t, MEMBER, member, 1);
    assert_int_equal(member->state, MEMBER_UP);
    assert_null(member->out_why);
    assert_int_equal(expect(&t, NODE_CHANGED, node_changed, 0)->change, CHANGE_IN);
    assert_false(is_out(&t, 2));
    ack_partition(&t, 2);
    submit(&t, 1, 4, 1, S);
    expect(&t, TASK_ENQUEUE, task_enqueue, 2);
    talk_end(&t);
}

/* It hands back what was under way to it when it left, and long tasks keep away from it meanwhile: until it
 * is back, not until its next heartbeat. */
static void long_work_comes_back_with_it(void **state)
{
    struct talk t;

    nodes(&t, 2);
    for (uint64_t n = 1; n <= 2; n++)
        submit(&t, 1, n, 1, S);
    assert_true(granted(&t, 2));
    tell(&t, TASK_RETURNED, task_returned, 2, .id = try_of(1, 1, 0, 1));
    ask(&t, 2, false);
    ack_partition(&t, 2);
    submit(&t, 1, 3, 1, S);
    expect(&t, TASK_ENQUEUE, task_enqueue, 2);
    talk_end(&t);
}

static void a_quarter_may_leave(void **state)
{
    static const struct {
        uint32_t workers, may;
    } rows[] = {{1, 0}, {2, 1}, {3, 1}, {4, 1}, {7, 1}, {8, 2}, {11, 2}, {12, 3}};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct talk t;
        uint32_t out = 0;

        nodes(&t, rows[i].workers);
        for (uint32_t w = 2; w < 2 + rows[i].workers; w++)
            out += granted(&t, w);
        assert_int_equal(out, rows[i].may);
        if (out < rows[i].workers)
            assert_int_equal(expect(&t, NODE_CHANGED, node_changed, 0)->change, CHANGE_KEPT);
        if (out > 0) { /* who is back makes room; until then it may ask again */
            assert_true(granted(&t, 2));
            ask(&t, 2, false);
            assert_true(granted(&t, 1 + rows[i].workers));
        }
        talk_end(&t);
    }
}

/* 8 workers, 2 of them out; with 7 only 1 may be: the latest is back. */
static void others_that_go_have_one_back(void **state)
{
    struct talk t;

    nodes(&t, 8);
    assert_true(granted(&t, 2));
    assert_true(granted(&t, 3));
    tell(&t, LEAVE, leave, 9, 0);
    assert_int_equal(expect(&t, OUT_OF_SERVICE, out_of_service, 3)->on, 0);
    assert_true(is_out(&t, 2));
    assert_false(is_out(&t, 3));
    for (uint32_t w = 4; w <= 8; w++)
        tell(&t, LEAVE, leave, w, 0);
    tell(&t, LEAVE, leave, 3, 0);
    assert_int_equal(expect(&t, OUT_OF_SERVICE, out_of_service, 2)->on, 0);
    assert_false(is_out(&t, 2));
    talk_end(&t);
}

static void a_drain_is_another_matter(void **state)
{
    struct talk t;

    nodes(&t, 5);
    assert_true(granted(&t, 2));
    /* Who is drained does not count: another one may leave, and then there is no room for the first. */
    tell(&t, SET_DRAIN, set_drain, 0, .node = {2}, .client = 5, .drain = DRAIN_KEPT);
    assert_null(expect(&t, MEMBER, member, 1)->out_why); /* that is not why it gets no work now */
    assert_true(granted(&t, 3));
    tell(&t, SET_DRAIN, set_drain, 0, .node = {2}, .client = 5, .drain = DRAIN_NOT);
    assert_int_equal(expect(&t, OUT_OF_SERVICE, out_of_service, 3)->on, 0);
    assert_true(is_out(&t, 2));
    tell(&t, SET_DRAIN, set_drain, 0, .node = {2}, .client = 5, .drain = DRAIN_KEPT);
    ask(&t, 2, false);
    assert_int_equal(expect(&t, MEMBER, member, 1)->state, MEMBER_DRAINING); /* drained it is all the same */
    submit(&t, 1, 1, 5, S);
    expect_none(&t, TASK_ENQUEUE, 2);
    talk_end(&t);
}

/* 11 that are not drained, 2 of them out; with 7 only 1 may be. */
static void who_is_drained_makes_no_room(void **state)
{
    struct talk t;

    nodes(&t, 12);
    for (uint32_t w = 2; w <= 4; w++)
        assert_true(granted(&t, w));
    tell(&t, SET_DRAIN, set_drain, 0, .node = {4}, .client = 5, .drain = DRAIN_KEPT);
    for (uint32_t w = 10; w <= 13; w++)
        tell(&t, LEAVE, leave, w, 0);
    assert_true(is_out(&t, 2));
    assert_false(is_out(&t, 3));
    assert_true(is_out(&t, 4));
    talk_end(&t);
}

/* The new process has to find out for itself. */
static void a_new_process_is_in_service(void **state)
{
    struct talk t;
    struct msg join = {.type = MSG_JOIN, .peer = 50};

    nodes(&t, 3);
    assert_true(granted(&t, 2));
    tell(&t, PEER_LOST, peer_lost, 2, ROLE_WORKER);
    assert_true(is_out(&t, 2));
    tell(&t, PEER_UP, peer_up, 50, ROLE_WORKER);
    join.join = (struct msg_join){.name = blob_str("w2"),
                                  .addr = blob_str("w2:1"),
                                  .incarnation = 99,
                                  .slots = 1,
                                  .version = PROTOCOL_VERSION,
                                  .role = ROLE_WORKER};
    tell_msg(&t, join);
    msg_drop(&join);
    assert_false(is_out(&t, 2));
    talk_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_goes_to_one_that_is_out),
        cmocka_unit_test(long_work_comes_back_with_it),
        cmocka_unit_test(a_quarter_may_leave),
        cmocka_unit_test(others_that_go_have_one_back),
        cmocka_unit_test(a_drain_is_another_matter),
        cmocka_unit_test(who_is_drained_makes_no_room),
        cmocka_unit_test(a_new_process_is_in_service),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
