/* bus/: order, delays, streams and their ends, timers; between fake roles that note what they are given. */
#include "tests/test_bus.h"

/* ---- A fake role: keeps a transcript, puts out what the test laid ready ---- */

static struct msg loot(uint32_t peer, uint32_t request)
{
    return (struct msg){.type = MSG_STEAL_LOOT, .peer = peer, .steal_loot = {.request = request}};
}

/* ---- Streams ---- */

static void test_joining_brings_the_streams(void **state)
{
    struct world w;

    setup(&w, 500);
    assert_string_equal(said(&w, w.w1), "START up:16777215 JOINED up:1 MEMBERS");
    assert_string_equal(said(&w, w.dist), "START up:16777215 JOINED MEMBER up:2 MEMBER up:3 MEMBER up:4");
    assert_string_equal(said(&w, w.central), "START up:1 up:2 up:3 up:4"); /* links, not nodes */
    assert_true(connected(&w, w.dist, w.w3));
    assert_false(connected(&w, w.w1, w.w2));
    assert_int_equal(bus_endpoint(w.bus, (node_id_t){3}), w.w2);
    assert_int_equal(bus_endpoint(w.bus, (node_id_t){4}), w.w3);
    teardown(&w);
}

static void test_messages_name_the_sender(void **state)
{
    struct world w;

    setup(&w, 0);
    hear_nothing(&w);
    put_out(&w, w.w1, heartbeat(CENTRAL, 5));
    put_out(&w, w.dist, heartbeat(2, 6));
    put_out(&w, w.central, heartbeat(3, 7)); /* link 3: the second worker */
    settle(&w);
    assert_string_equal(said(&w, w.central), "hb5<2");
    assert_string_equal(said(&w, w.w1), "hb6<1");
    assert_string_equal(said(&w, w.w2), "hb7<16777215");
    teardown(&w);
}

static void test_order_and_delay(void **state)
{
    struct world w;
    int64_t sent_us;

    setup(&w, 500);
    hear_nothing(&w);
    sent_us = bus_now(w.bus);
    for (uint32_t i = 0; i < 3; i++)
        put_out(&w, w.w1, heartbeat(CENTRAL, i));
    bus_run_until(w.bus, sent_us + 499);
    assert_string_equal(said(&w, w.central), "");
    assert_int_equal(bus_next_time(w.bus), sent_us + 500);
    bus_run_until(w.bus, sent_us + 500);
    assert_string_equal(said(&w, w.central), "hb0<2 hb1<2 hb2<2");
    assert_int_equal(bus_next_time(w.bus), TIME_NEVER);
    teardown(&w);
}

static void test_a_thief_dials_on_demand(void **state)
{
    struct world w;

    setup(&w, 500);
    hear_nothing(&w);
    put_out(&w, w.w1, ask(3, 1));
    settle(&w);
    put_out(&w, w.w2, loot(2, 2)); /* the answer takes the same stream */
    settle(&w);
    assert_string_equal(said(&w, w.w1), "loot2<3");
    assert_string_equal(said(&w, w.w2), "up:2 ask1<2");
    hear_nothing(&w);
    put_out(&w, w.w2, ask(2, 3)); /* and a question of its own another one */
    settle(&w);
    assert_string_equal(said(&w, w.w1), "up:3 ask3<3");
    bus_break(w.bus, w.w1, w.w2); /* both */
    settle(&w);
    assert_string_equal(said(&w, w.w1), "up:3 ask3<3 lost:3 lost:3");
    assert_string_equal(said(&w, w.w2), "lost:2 lost:2");
    assert_false(connected(&w, w.w1, w.w2));
    teardown(&w);
}

static void test_a_thief_keeps_few_streams(void **state)
{
    struct world w;
    struct bus_config c = {.arg = &w, .effect = effect, .steal_streams = 2};
    uint32_t eps[5];

    memset(&w, 0, sizeof w);
    w.bus = bus_new(&c);
    w.central = bus_add(w.bus, ROLE_CENTRAL);
    start(&w, w.central);
    for (uint32_t i = 0; i < 4; i++) {
        eps[i] = bus_add(w.bus, ROLE_WORKER);
        start(&w, eps[i]);
        put_out(&w, w.central, (struct msg){.type = MSG_JOINED, .peer = i + 1, .joined = {.node = {i + 1}}});
        settle(&w);
    }
    put_out(&w, w.central, workers_are(1, 1, 4));
    settle(&w);
    hear_nothing(&w);
    for (uint32_t i = 0; i < 4; i++) { /* before the last one, 3 is the one not used for longest */
        static const uint32_t victims[] = {2, 3, 2, 4};

        put_out(&w, eps[0], ask(victims[i], i + 1));
        settle(&w);
    }
    assert_string_equal(said(&w, eps[0]), "");
    assert_string_equal(said(&w, eps[1]), "up:1 ask1<1 ask3<1");
    assert_string_equal(said(&w, eps[2]), "up:1 ask2<1 lost:1");
    assert_string_equal(said(&w, eps[3]), "up:1 ask4<1");
    bus_free(w.bus);
}

static void test_unreachable_is_lost(void **state)
{
    struct world w;

    setup(&w, 500);
    bus_kill(w.bus, w.w3);
    settle(&w);
    hear_nothing(&w);
    put_out(&w, w.w1, ask(4, 1));        /* dead */
    put_out(&w, w.w1, heartbeat(99, 2)); /* never there */
    put_out(&w, w.w1, ask(2, 3));        /* itself */
    put_out(&w, w.w1, loot(3, 4));       /* has not asked */
    put_out(&w, w.dist, heartbeat(4, 5));
    settle(&w);
    assert_string_equal(said(&w, w.w1), "lost:4 lost:99 lost:2 lost:3");
    assert_string_equal(said(&w, w.dist), "lost:4");
    teardown(&w);
}

/* ---- Time ---- */

static void test_timers(void **state)
{
    struct world w;
    int64_t now_us;

    setup(&w, 0);
    now_us = bus_now(w.bus);
    w.fakes[w.w1].timeout_us = now_us + 1000;
    put_out(&w, w.w1, heartbeat(CENTRAL, 1)); /* a step lets the bus see it */
    bus_run_until(w.bus, now_us + 500);
    assert_int_equal(bus_next_time(w.bus), now_us + 1000);
    /* Put off: the bus does not step it in vain. */
    w.fakes[w.w1].timeout_us = now_us + 2000;
    bus_run_until(w.bus, now_us + 1500);
    assert_int_equal(w.fakes[w.w1].timers, 0);
    assert_int_equal(bus_next_time(w.bus), now_us + 2000);
    bus_run_until(w.bus, now_us + 3000);
    assert_int_equal(w.fakes[w.w1].timers, 1);
    assert_int_equal(w.fakes[w.w1].timer_at_us, now_us + 2000);
    assert_int_equal(bus_now(w.bus), now_us + 3000);
    teardown(&w);
}

static int64_t read_clock(void *arg) { return ((struct world *)arg)->clock_us; }

static void test_real_time_stamps_events(void **state)
{
    struct world w = {.clock_us = 77};
    struct bus_config c = {.arg = &w, .effect = effect, .clock_us = read_clock};

    w.bus = bus_new(&c);
    w.w1 = bus_add(w.bus, ROLE_WORKER);
    start(&w, w.w1);
    bus_run_until(w.bus, w.clock_us);
    assert_int_equal(w.fakes[w.w1].last_us, 77);
    w.fakes[w.w1].timeout_us = 100;
    put_out(&w, w.w1, (struct msg){.type = MSG_STUCK, .peer = CENTRAL});
    bus_run_until(w.bus, w.clock_us);
    w.clock_us = 130; /* late */
    bus_run_until(w.bus, w.clock_us);
    assert_int_equal(w.fakes[w.w1].timer_at_us, 130);
    /* A shell that rounds up: the clock shows less than what is delivered, and less than what follows from it. */
    bus_post(w.bus, w.w1, 150, &(struct msg){.type = MSG_TIMER});
    w.clock_us = 140;
    bus_run_until(w.bus, 150);
    assert_int_equal(w.fakes[w.w1].last_us, 150);
    bus_post(w.bus, w.w1, 141, &(struct msg){.type = MSG_TIMER});
    bus_run_until(w.bus, 150);
    assert_int_equal(w.fakes[w.w1].last_us, 150);
    bus_free(w.bus);
}

/* ---- The queue against a model ---- */

#define SENT_NOW 3 /* the sender of what has no delay */

static void expect_next(struct last *l, const struct delivery *d, uint64_t now_pending)
{
    uint64_t *seq = d->from == SENT_NOW ? &l->now_seq : &l->other_seq;

    assert_true(d->at_us >= l->at_us);
    if (d->at_us > l->at_us)
        *l = (struct last){.at_us = d->at_us};
    assert_true(d->m.peer + 1 > *seq);
    assert_true(d->from == SENT_NOW || now_pending == 0); /* without delay goes first */
    *seq = d->m.peer + 1u;
}

static void test_queue_order(void **state)
{
    struct queue q = {0};
    const struct delivery *d;
    struct last last = {0};
    uint64_t seed = 12345, popped = 0, pushed = 0, now_pending = 0;

    for (int round = 0; round < 200000; round++) {
        struct msg m = {.type = MSG_LEAVE, .peer = (uint32_t)pushed};
        uint64_t x;

        seed = seed * 6364136223846793005u + 1442695040888963407u;
        x = seed >> 33;
        if (x % 2 || pushed == popped) {
            bool now = x / 2 % 4 == 0, far = x / 8 % 100 == 0;
            int64_t later_us = (int64_t)(x / 1024 % (far ? 5 * QUEUE_WHEEL : 1000)) / 100 * 100;
            int64_t at_us = last.at_us + (now ? 0 : later_us);

            queue_push(&q, now, at_us, now ? SENT_NOW : 1, 2, &m);
            now_pending += now;
            pushed++;
        } else {
            d = queue_first(&q);
            assert_non_null(d);
            expect_next(&last, d, now_pending);
            now_pending -= d->from == SENT_NOW;
            queue_drop_first(&q);
            popped++;
        }
        assert_int_equal(q.n, pushed - popped);
    }
    while ((d = queue_first(&q))) {
        expect_next(&last, d, now_pending);
        now_pending -= d->from == SENT_NOW;
        queue_drop_first(&q);
        popped++;
    }
    assert_int_equal(popped, pushed);
    assert_int_equal(q.n, 0);
    queue_free(&q);
}

/* The memory of a burst is given back at its end, and another one may follow. */
static void test_queue_bursts(void **state)
{
    const struct msg m = {.type = MSG_LEAVE};
    struct queue q = {0};
    int64_t pushed = 0, popped = 0;

    while (pushed < 10000) {
        do
            queue_push(&q, false, pushed++, 1, 2, &m);
        while (pushed % 5000 != 0);
        for (; popped < pushed; popped++) {
            assert_int_equal(queue_first(&q)->at_us, popped);
            queue_drop_first(&q);
        }
        assert_null(q.slots);
    }
    queue_free(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_joining_brings_the_streams),
        cmocka_unit_test(test_messages_name_the_sender),
        cmocka_unit_test(test_order_and_delay),
        cmocka_unit_test(test_a_thief_dials_on_demand),
        cmocka_unit_test(test_a_thief_keeps_few_streams),
        cmocka_unit_test(test_unreachable_is_lost),
        cmocka_unit_test(test_timers),
        cmocka_unit_test(test_real_time_stamps_events),
        cmocka_unit_test(test_queue_order),
        cmocka_unit_test(test_queue_bursts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
