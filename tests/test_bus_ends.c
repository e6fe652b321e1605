/* The bus when streams and roles end: breaks, cuts, restarts, and who has not noticed yet. */
#include "tests/test_bus.h"

/* ---- Ends ---- */

static void test_a_broken_stream_loses_what_is_under_way(void **state)
{
    struct world w;

    setup(&w, 500);
    hear_nothing(&w);
    put_out(&w, w.dist, heartbeat(2, 1));
    put_out(&w, w.dist, heartbeat(3, 2)); /* another stream */
    bus_run_until(w.bus, bus_now(w.bus) + 100);
    bus_break(w.bus, w.w1, w.dist);
    assert_false(connected(&w, w.w1, w.dist));
    settle(&w);
    /* The dist dialled it and dials it again. */
    assert_string_equal(said(&w, w.dist), "lost:2 up:2");
    assert_string_equal(said(&w, w.w1), "lost:1 up:1");
    assert_string_equal(said(&w, w.w2), "hb2<1");
    teardown(&w);
}

/* Each side hears of the end by the other's silence: until then it gets what was under way, and what it sends
 * is lost. */
static void test_an_end_that_is_seen_late(void **state)
{
    struct world w;
    int64_t now_us;

    setup(&w, 500);
    hear_nothing(&w);
    now_us = bus_now(w.bus);
    put_out(&w, w.dist, heartbeat(2, 1));
    bus_run_until(w.bus, now_us + 100);
    bus_break_unseen(w.bus, w.w1, w.dist, now_us + 3 * US_PER_S, now_us + 4 * US_PER_S);
    assert_false(connected(&w, w.w1, w.dist));
    put_out(&w, w.dist, heartbeat(2, 2));
    put_out(&w, w.w1, heartbeat(1, 3));
    bus_run_until(w.bus, now_us + 3 * US_PER_S - 1);
    assert_string_equal(said(&w, w.w1), "hb1<1");
    assert_string_equal(said(&w, w.dist), "");
    bus_run_until(w.bus, now_us + 3 * US_PER_S);
    assert_string_equal(said(&w, w.w1), "hb1<1 lost:1");
    bus_run_until(w.bus, now_us + 5 * US_PER_S);
    assert_string_equal(said(&w, w.w1), "hb1<1 lost:1 up:1");
    assert_string_equal(said(&w, w.dist), "lost:2 up:2");
    teardown(&w);
}

/* Who dialled is back before the other has noticed: a new stream says that the old one is over. */
static void test_a_new_stream_ends_one_whose_end_was_not_seen(void **state)
{
    struct world w;
    int64_t now_us;

    setup(&w, 500);
    hear_nothing(&w);
    now_us = bus_now(w.bus);
    bus_break_unseen(w.bus, w.w1, w.dist, now_us + 9 * US_PER_S, now_us + 1 * US_PER_S);
    bus_run_until(w.bus, now_us + 2 * US_PER_S);
    assert_string_equal(said(&w, w.dist), "lost:2 up:2");
    assert_string_equal(said(&w, w.w1), "lost:1 up:1");
    bus_run_until(w.bus, now_us + 20 * US_PER_S);
    assert_string_equal(said(&w, w.w1), "lost:1 up:1"); /* once */
    teardown(&w);
}

static void test_a_frozen_node_does_everything_at_once(void **state)
{
    struct world w;
    int64_t now_us;

    setup(&w, 500);
    hear_nothing(&w);
    now_us = bus_now(w.bus);
    put_out(&w, w.dist, heartbeat(2, 1));
    bus_freeze(w.bus, w.w1, now_us + 5 * US_PER_S);
    bus_freeze(w.bus, w.w1, now_us + 9 * US_PER_S); /* it stands still already */
    bus_run_until(w.bus, now_us + 2 * US_PER_S);
    put_out(&w, w.dist, heartbeat(2, 2));
    put_out(&w, w.dist, heartbeat(3, 3));
    bus_run_until(w.bus, now_us + 5 * US_PER_S - 1);
    assert_string_equal(said(&w, w.w1), "");
    assert_string_equal(said(&w, w.w2), "hb3<1");
    bus_run_until(w.bus, now_us + 5 * US_PER_S);
    assert_string_equal(said(&w, w.w1), "hb1<1 hb2<1");
    teardown(&w);
}

static void test_a_cut_lasts(void **state)
{
    struct world w;
    int64_t until_us;

    setup(&w, 500);
    hear_nothing(&w);
    until_us = bus_now(w.bus) + 10 * US_PER_S;
    bus_cut(w.bus, w.central, w.w1, until_us);
    bus_cut(w.bus, w.w1, w.dist, until_us);
    bus_cut(w.bus, w.w2, w.w1, until_us);
    put_out(&w, w.w1, ask(3, 1)); /* a thief cannot dial either */
    bus_run_until(w.bus, until_us - 1);
    assert_string_equal(said(&w, w.w1), "lost:16777215 lost:3 lost:1");
    bus_run_until(w.bus, until_us + BACKOFF_MAX_US);
    /* Central and the dist, whoever was first. */
    assert_int_equal(strlen(said(&w, w.w1)), strlen("lost:16777215 lost:3 lost:1 up:16777215 up:1"));
    assert_true(connected(&w, w.w1, w.central));
    assert_true(connected(&w, w.w1, w.dist));
    put_out(&w, w.w1, ask(3, 2));
    settle(&w);
    assert_string_equal(said(&w, w.w2), "up:2 ask2<2");
    teardown(&w);
}

/* Who dials through a silent network is not told; a thief does not wait for long. */
static void test_nobody_answers(void **state)
{
    struct world w;
    int64_t now_us;

    setup(&w, 500);
    hear_nothing(&w);
    now_us = bus_now(w.bus);
    bus_bar(w.bus, w.w1, w.w2, now_us + 10 * US_PER_S);
    bus_bar(w.bus, w.w1, w.dist, now_us + 10 * US_PER_S);
    put_out(&w, w.dist, heartbeat(2, 1)); /* what is open stays */
    put_out(&w, w.w1, ask(3, 1));
    bus_run_until(w.bus, now_us + PEERS_VICTIM_OPEN_US - 1);
    assert_string_equal(said(&w, w.w1), "hb1<1");
    bus_run_until(w.bus, now_us + PEERS_VICTIM_OPEN_US);
    assert_string_equal(said(&w, w.w1), "hb1<1 lost:3");
    bus_break(w.bus, w.w1, w.dist);
    bus_run_until(w.bus, now_us + 10 * US_PER_S);
    assert_string_equal(said(&w, w.dist), "lost:2");
    bus_run_until(w.bus, now_us + 10 * US_PER_S + BACKOFF_MAX_US);
    assert_string_equal(said(&w, w.dist), "lost:2 up:2");
    assert_string_equal(said(&w, w.w1), "hb1<1 lost:3 lost:1 up:1");
    assert_string_equal(said(&w, w.w2), "");
    teardown(&w);
}

/* A node is where it listens, whatever central says. */
static void test_addresses(void **state)
{
    struct world w;

    setup(&w, 500);
    hear_nothing(&w);
    bus_listen(w.bus, w.w1, "elsewhere");
    bus_break(w.bus, w.dist, w.w1);
    settle(&w);
    assert_string_equal(said(&w, w.dist), "lost:2");
    bus_listen(w.bus, w.w1, "there");
    bus_run_until(w.bus, bus_now(w.bus) + BACKOFF_MAX_US);
    assert_string_equal(said(&w, w.dist), "lost:2 up:2");
    teardown(&w);
}

/* Until it has heard of the end, what it sends is lost, also when there is a new stream by then. */
static void test_who_has_not_heard_of_the_end_sends_in_vain(void **state)
{
    struct world w;

    setup(&w, 200 * US_PER_MS); /* longer than the first delay */
    hear_nothing(&w);
    bus_break(w.bus, w.w1, w.dist);
    bus_run_until(w.bus, bus_now(w.bus) + 100 * US_PER_MS);
    assert_true(connected(&w, w.w1, w.dist));
    put_out(&w, w.w1, heartbeat(1, 1));
    settle(&w);
    put_out(&w, w.w1, heartbeat(1, 2));
    settle(&w);
    assert_string_equal(said(&w, w.w1), "lost:1 up:1");
    assert_string_equal(said(&w, w.dist), "lost:2 up:2 hb2<2");
    teardown(&w);
}

static void test_a_node_comes_back_on_a_new_link(void **state)
{
    struct world w;

    setup(&w, 500);
    hear_nothing(&w);
    bus_break(w.bus, w.central, w.w1);
    settle(&w);
    assert_string_equal(said(&w, w.central), "lost:2 up:5");
    assert_string_equal(said(&w, w.w1), "lost:16777215 up:16777215");
    /* What central still sends to the old link goes nowhere. */
    put_out(&w, w.central, heartbeat(2, 1));
    put_out(&w, w.central, heartbeat(5, 2));
    settle(&w);
    assert_string_equal(said(&w, w.w1), "lost:16777215 up:16777215 hb2<16777215");
    teardown(&w);
}

static void test_killed_and_restarted(void **state)
{
    struct world w;
    struct msg exited = {.type = MSG_EXEC_EXITED};

    setup(&w, 500);
    hear_nothing(&w);
    put_out(&w, w.w1, heartbeat(CENTRAL, 1));
    bus_run_until(w.bus, bus_now(w.bus) + 100);
    bus_post(w.bus, w.w1, bus_now(w.bus) + 200, &exited); /* dies with it */
    bus_kill(w.bus, w.w1);
    assert_false(bus_runs(w.bus, w.w1));
    settle(&w);
    assert_string_equal(said(&w, w.central), "lost:2");
    assert_string_equal(said(&w, w.dist), "lost:2");
    start(&w, w.w1);
    settle(&w);
    assert_string_equal(said(&w, w.w1), "START up:16777215");
    put_out(&w, w.central, (struct msg){.type = MSG_JOINED, .peer = 5, .joined = {.node = {2}}});
    settle(&w);
    settle(&w);
    assert_string_equal(said(&w, w.w1), "START up:16777215 JOINED up:1"); /* the dist had kept on dialling */
    teardown(&w);
}

static void test_stopped_in_order(void **state)
{
    struct world w;

    setup(&w, 500);
    hear_nothing(&w);
    put_out(&w, w.w1, heartbeat(CENTRAL, 9));
    put_out(&w, w.w1, (struct msg){.type = MSG_STOPPED});
    settle(&w);
    assert_false(bus_runs(w.bus, w.w1));
    assert_string_equal(said(&w, w.central), "hb9<2 lost:2"); /* what it had sent arrives */
    teardown(&w);
}

static void test_central_restarts(void **state)
{
    struct world w;

    setup(&w, 500);
    bus_kill(w.bus, w.central);
    settle(&w);
    hear_nothing(&w);
    put_out(&w, w.w1, heartbeat(CENTRAL, 1));
    put_out(&w, w.dist, heartbeat(2, 2)); /* goes on without it */
    settle(&w);
    assert_string_equal(said(&w, w.w1), "lost:16777215 hb2<1");
    start(&w, w.central);
    bus_run_until(w.bus, bus_now(w.bus) + BACKOFF_MAX_US);
    assert_string_equal(said(&w, w.central), "START up:5 up:6 up:7 up:8");
    teardown(&w);
}

static void test_gone_members_are_not_dialled(void **state)
{
    struct world w;

    setup(&w, 0);
    hear_nothing(&w);
    put_out(&w, w.central, worker_is(1, 2, MEMBER_GONE));
    settle(&w);
    assert_string_equal(said(&w, w.dist), "MEMBER lost:2");
    assert_string_equal(said(&w, w.w1), "lost:1");
    assert_false(connected(&w, w.dist, w.w1));
    teardown(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_broken_stream_loses_what_is_under_way),
        cmocka_unit_test(test_an_end_that_is_seen_late),
        cmocka_unit_test(test_a_new_stream_ends_one_whose_end_was_not_seen),
        cmocka_unit_test(test_a_frozen_node_does_everything_at_once),
        cmocka_unit_test(test_a_cut_lasts),
        cmocka_unit_test(test_nobody_answers),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_who_has_not_heard_of_the_end_sends_in_vain),
        cmocka_unit_test(test_a_node_comes_back_on_a_new_link),
        cmocka_unit_test(test_killed_and_restarted),
        cmocka_unit_test(test_stopped_in_order),
        cmocka_unit_test(test_central_restarts),
        cmocka_unit_test(test_gone_members_are_not_dialled),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
