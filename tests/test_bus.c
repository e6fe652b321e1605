/* bus/: order, delays, streams and their ends, timers; between fake roles that note what they are given. */
#include "base/units.h"
#include "bus/bus.h"
#include "bus/queue.h"
#include "peers/peers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- A fake role: keeps a transcript, puts out what the test laid ready ---- */

struct fake {
    char said[2000];     /* "START up:central …" */
    struct msg reply[8]; /* put out at the next step, with its handles */
    uint32_t replies;
    int64_t timeout_us, timer_at_us;
    uint32_t timers;
    int64_t last_us;
};

struct world {
    struct bus *bus;
    struct fake fakes[8]; /* by endpoint */
    uint32_t central, dist, w1, w2, w3;
    int64_t delay_us;
    int64_t clock_us;
    uint32_t effects;
};

static void say(struct fake *f, const char *what)
{
    size_t n = strlen(f->said);
    int more = snprintf(f->said + n, sizeof f->said - n, "%s%s", n ? " " : "", what);

    assert_true(more >= 0 && n + (size_t)more < sizeof f->said);
}

static void fake_step(void *role, const struct event *e, struct out *out)
{
    struct fake *f = role;
    char word[64];

    assert_true(e->now_us >= f->last_us);
    f->last_us = e->now_us;
    if (e->m.type == MSG_TIMER) {
        f->timers++;
        f->timer_at_us = e->now_us;
        f->timeout_us = TIME_NEVER;
        return;
    }
    if (e->m.type == MSG_PEER_UP || e->m.type == MSG_PEER_LOST)
        snprintf(word, sizeof word, "%s:%u", e->m.type == MSG_PEER_UP ? "up" : "lost", e->m.peer);
    else if (e->m.type == MSG_HEARTBEAT)
        snprintf(word, sizeof word, "hb%u<%u", e->m.heartbeat.seq, e->m.peer);
    else if (e->m.type == MSG_STEAL_REQUEST)
        snprintf(word, sizeof word, "ask%u<%u", e->m.steal_request.request, e->m.peer);
    else if (e->m.type == MSG_STEAL_LOOT)
        snprintf(word, sizeof word, "loot%u<%u", e->m.steal_loot.request, e->m.peer);
    else
        snprintf(word, sizeof word, "%s", msg_name(e->m.type));
    say(f, word);
    for (uint32_t i = 0; i < f->replies; i++) {
        struct msg *m = out_add(out, f->reply[i].type, f->reply[i].peer);

        *m = f->reply[i];
    }
    f->replies = 0;
}

static int64_t fake_next_timeout(const void *role) { return ((const struct fake *)role)->timeout_us; }

static const struct role_functions fake_functions = {.step = fake_step, .next_timeout = fake_next_timeout};
static const struct bus_role fake_role = {.fns = &fake_functions};

static int64_t delay(void *arg, uint32_t from, uint32_t to, const struct msg *m)
{
    return ((struct world *)arg)->delay_us;
}

static void effect(void *arg, uint32_t ep, int64_t now_us, const struct msg *m)
{
    struct world *w = arg;

    w->effects++;
    if (m->type == MSG_STOPPED)
        bus_close(w->bus, ep);
}

static void start(struct world *w, uint32_t ep)
{
    w->fakes[ep] = (struct fake){.timeout_us = TIME_NEVER};
    bus_start(w->bus, ep, &fake_role, &w->fakes[ep]);
}

#define CENTRAL NODE_CENTRAL.v

/* Sends from one endpoint: a nudge makes it put m out. */
static void put_out(struct world *w, uint32_t ep, struct msg m)
{
    struct msg nudge = {.type = MSG_WATCH};

    w->fakes[ep].reply[w->fakes[ep].replies++] = m;
    bus_post(w->bus, ep, bus_now(w->bus), &nudge);
}

static struct msg heartbeat(uint32_t peer, uint32_t seq)
{
    return (struct msg){.type = MSG_HEARTBEAT, .peer = peer, .heartbeat = {.seq = seq}};
}

static struct msg ask(uint32_t peer, uint32_t request)
{
    return (struct msg){.type = MSG_STEAL_REQUEST, .peer = peer, .steal_request = {.request = request}};
}

static struct msg loot(uint32_t peer, uint32_t request)
{
    return (struct msg){.type = MSG_STEAL_LOOT, .peer = peer, .steal_loot = {.request = request}};
}

static struct msg worker_is(uint32_t link, uint32_t node, enum member_state state)
{
    return (struct msg){
        .type = MSG_MEMBER,
        .peer = link,
        .member = {.node = {node}, .role = ROLE_WORKER, .state = (uint8_t)state, .addr = blob_str("there")}};
}

/* Nodes `first` to `last` are workers. */
static struct msg workers_are(uint32_t link, uint32_t first, uint32_t last)
{
    struct members *list = members_new(last - first + 1);

    for (uint32_t i = 0; i < list->n; i++)
        list->v[i] = (struct member){.node = {first + i}, .role = ROLE_WORKER, .addr = blob_str("there")};
    return (struct msg){.type = MSG_MEMBERS, .peer = link, .members.list = list};
}

static void settle(struct world *w) { bus_run_until(w->bus, bus_now(w->bus) + US_PER_S); }

static void hear_nothing(struct world *w)
{
    for (int i = 0; i < 8; i++)
        w->fakes[i].said[0] = '\0';
}

/* Forgets the nudges. */
static const char *said(struct world *w, uint32_t ep)
{
    char *text = w->fakes[ep].said, *at;

    while ((at = strstr(text, "WATCH")))
        memmove(at, at + 5 + (at[5] == ' '), strlen(at + 5 + (at[5] == ' ')) + 1);
    if (*text && text[strlen(text) - 1] == ' ')
        text[strlen(text) - 1] = '\0';
    return text;
}

/* Central, a dist (node 1) and workers (nodes 2, 3, 4), joined; the dist and the first two workers know of all. */
static void setup(struct world *w, int64_t delay_us)
{
    struct bus_config c = {.arg = w, .delay_us = delay, .effect = effect};
    uint32_t *eps[] = {&w->dist, &w->w1, &w->w2, &w->w3};

    memset(w, 0, sizeof *w);
    w->delay_us = delay_us;
    w->bus = bus_new(&c);
    w->central = bus_add(w->bus, ROLE_CENTRAL);
    start(w, w->central);
    for (uint32_t i = 0; i < 4; i++) {
        *eps[i] = bus_add(w->bus, i == 0 ? ROLE_DIST : ROLE_WORKER);
        start(w, *eps[i]);
        settle(w);
        put_out(w, w->central, (struct msg){.type = MSG_JOINED, .peer = i + 1, .joined = {.node = {i + 1}}});
        settle(w);
    }
    for (uint32_t i = 1; i < 4; i++) {
        put_out(w, w->central, worker_is(1, i + 1, MEMBER_UP));
        settle(w);
    }
    put_out(w, w->central, workers_are(2, 2, 4));
    put_out(w, w->central, workers_are(3, 2, 4));
    settle(w);
}

static void teardown(struct world *w) { bus_free(w->bus); }

/* ---- Streams ---- */

static void test_joining_brings_the_streams(void **state)
{
    struct world w;

    setup(&w, 500);
    assert_string_equal(said(&w, w.w1), "START up:16777215 JOINED up:1 MEMBERS");
    assert_string_equal(said(&w, w.dist), "START up:16777215 JOINED MEMBER up:2 MEMBER up:3 MEMBER up:4");
    assert_string_equal(said(&w, w.central), "START up:1 up:2 up:3 up:4"); /* links, not nodes */
    assert_true(bus_connected(w.bus, w.dist, w.w3));
    assert_false(bus_connected(w.bus, w.w1, w.w2));
    assert_int_equal(bus_node(w.bus, w.w2).v, 3);
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
    assert_int_equal(bus_pending(w.bus), 3);
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
    assert_false(bus_connected(w.bus, w.w1, w.w2));
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
    assert_false(bus_connected(w.bus, w.w1, w.dist));
    settle(&w);
    /* The dist dialled it and dials it again. */
    assert_string_equal(said(&w, w.dist), "lost:2 up:2");
    assert_string_equal(said(&w, w.w1), "lost:1 up:1");
    assert_string_equal(said(&w, w.w2), "hb2<1");
    teardown(&w);
}

/* Each side hears of the end by the other's silence: until then it gets what was under way, and what it sends is lost. */
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
    assert_false(bus_connected(w.bus, w.w1, w.dist));
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
    assert_true(bus_connected(w.bus, w.w1, w.central));
    assert_true(bus_connected(w.bus, w.w1, w.dist));
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
    assert_true(bus_connected(w.bus, w.w1, w.dist));
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
    assert_false(bus_connected(w.bus, w.dist, w.w1));
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

/* What the queue gave out last, to judge the next one by. */
struct last {
    int64_t at_us;
    uint64_t now_seq, other_seq; /* of the last one without delay, and of any other, at at_us; +1 */
};

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_joining_brings_the_streams),
        cmocka_unit_test(test_messages_name_the_sender),
        cmocka_unit_test(test_order_and_delay),
        cmocka_unit_test(test_a_thief_dials_on_demand),
        cmocka_unit_test(test_a_thief_keeps_few_streams),
        cmocka_unit_test(test_unreachable_is_lost),
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
        cmocka_unit_test(test_timers),
        cmocka_unit_test(test_real_time_stamps_events),
        cmocka_unit_test(test_queue_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
