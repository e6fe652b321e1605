/* Roles that put out what a test lays ready, on a bus: for test_bus.c and test_bus_ends.c. */
#ifndef HAWK_TESTS_TEST_BUS_H
#define HAWK_TESTS_TEST_BUS_H

#include "base/units.h"
#include "bus/bus.h"
#include "bus/internal.h"
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

/* Whether there is a stream between two endpoints. */
static bool connected(const struct world *w, uint32_t x, uint32_t y)
{
    const struct endpoint *ex = endpoint(w->bus, x), *ey = endpoint(w->bus, y);

    return (ex->role != ROLE_CENTRAL && bus_has_dialled(ex, ey)) ||
           (ey->role != ROLE_CENTRAL && bus_has_dialled(ey, ex));
}

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

/* ---- The queue against a model ---- */

/* What the queue gave out last, to judge the next one by. */
struct last {
    int64_t at_us;
    uint64_t now_seq, other_seq; /* of the last one without delay, and of any other, at at_us; +1 */
};

#endif
