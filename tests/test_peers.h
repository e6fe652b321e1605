/* One node's rules of connections, and what they told it to do, as text: for test_peers.c and test_peers_thieves.c. */
#ifndef HAWK_TESTS_TEST_PEERS_H
#define HAWK_TESTS_TEST_PEERS_H

#include "base/mem.h"
#include "base/units.h"
#include "peers/peers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CENTRAL NODE_CENTRAL.v
#define S US_PER_S

/* ---- One node, and what it was told to do, as text ---- */

struct node {
    struct peers *peers;
    struct peers_out out;
    int64_t now_us;
    char text[4000];
};

static void HAWK_PRINTF(3, 4) say(char *buf, size_t size, const char *fmt, ...)
{
    size_t n = strlen(buf);
    va_list ap;

    if (n > 0 && n + 1 < size) {
        buf[n++] = ' ';
        buf[n] = '\0';
    }
    va_start(ap, fmt);
    assert_true(n + (size_t)vsnprintf(buf + n, size - n, fmt, ap) < size);
    va_end(ap);
}

static const char *whom(uint32_t peer)
{
    static char text[4][16];
    static unsigned turn;

    turn = (turn + 1) % 4;
    if (peer == CENTRAL)
        return "central";
    snprintf(text[turn], sizeof text[turn], "%u", peer);
    return text[turn];
}

static void say_message(char *buf, size_t size, const char *to, const struct msg *m)
{
    if (m->type == MSG_PEER_UP)
        say(buf, size, "%s:up:%s:%s:v%u", to, whom(m->peer), role_text(m->peer_up.role), m->peer_up.version);
    else if (m->type == MSG_PEER_LOST)
        say(buf, size, "%s:lost:%s:%s", to, whom(m->peer), role_text(m->peer_lost.role));
    else if (m->type == MSG_STEAL_REQUEST)
        say(buf, size, "%s:request%u:%s", to, m->steal_request.request, whom(m->peer));
    else
        say(buf, size, "%s:%s", to, msg_name(m->type));
}

static void say_action(char *buf, size_t size, const struct peers_action *a)
{
    static const char *const sides[] = {"", "accepted "};
    const char *side = sides[a->side];

    switch ((enum peers_what)a->what) {
    case PEERS_DIAL:
        if (a->addr)
            say(buf, size, "dial:%s@%s", whom(a->peer), a->addr->data);
        else
            say(buf, size, "dial:%s@%u", whom(a->peer), a->place);
        break;
    case PEERS_CLOSE:
        say(buf, size, "%sclose:%s", side, whom(a->peer));
        break;
    case PEERS_DROP:
        assert_int_equal(a->err, HAWK_ESTALE);
        say(buf, size, "%sdrop:%s", side, whom(a->peer));
        break;
    case PEERS_BREAK:
        say(buf, size, "%sbreak:%s:%s", side, whom(a->peer), a->why);
        break;
    case PEERS_ADMIT:
        say(buf, size, "admit:%s", whom(a->peer));
        break;
    case PEERS_REFUSE:
        say(buf, size, "refuse:%s:%s", whom(a->peer), a->why);
        break;
    case PEERS_TELL:
        say_message(buf, size, "tell", &a->m);
        break;
    case PEERS_SEND:
        assert_int_equal(a->side, PEERS_DIALLED);
        assert_int_equal(a->peer, a->m.peer);
        say_message(buf, size, "send", &a->m);
        break;
    }
}

/* What it is to do since the last time, as text. */
static const char *done(struct node *n)
{
    n->text[0] = '\0';
    for (uint32_t i = 0; i < n->out.n; i++)
        say_action(n->text, sizeof n->text, &n->out.v[i]);
    peers_out_clear(&n->out);
    peers_check(n->peers);
    return n->text;
}

#define expect(n, text) assert_string_equal(done(n), text)

static struct node node(struct peers_config c)
{
    struct node n = {.now_us = 100 * S};

    c.seed = 1;
    n.peers = peers_new(&c);
    return n;
}

static void end(struct node *n)
{
    peers_out_free(&n->out);
    peers_free(n->peers);
}

static void opened(struct node *n, uint32_t peer)
{
    peers_opened(n->peers, n->now_us, peer, peer == CENTRAL ? ROLE_CENTRAL : ROLE_WORKER, (node_id_t){peer},
                 3, &n->out);
}

static void ended(struct node *n, uint32_t peer)
{
    peers_ended(n->peers, n->now_us, peer, PEERS_DIALLED, ROLE_NONE, false, &n->out);
}

static void hear(struct node *n, struct msg m)
{
    assert_true(peers_looks_at(m.type));
    m.peer = CENTRAL;
    peers_central_says(n->peers, &m, &n->out);
    msg_drop(&m);
}

static void send(struct node *n, enum msg_type type, uint32_t peer, uint32_t request)
{
    struct msg m = {.type = (uint16_t)type, .peer = peer};

    if (type == MSG_STEAL_REQUEST)
        m.steal_request.request = request;
    peers_send(n->peers, n->now_us, &m, &n->out);
}

/* Lets time pass until something is due, and returns how long that was. */
static int64_t pass(struct node *n)
{
    int64_t at_us = peers_next_timeout(n->peers), took_us = at_us - n->now_us;
    uint32_t before = n->out.n;

    assert_true(at_us != TIME_NEVER);
    peers_timer(n->peers, at_us - 1, &n->out);
    assert_int_equal(n->out.n, before);
    n->now_us = at_us;
    peers_timer(n->peers, at_us, &n->out);
    return took_us;
}

static struct msg joined(uint64_t cluster, uint32_t epoch, uint32_t id)
{
    return (struct msg){.type = MSG_JOINED,
                        .joined = {.cluster = cluster, .central_epoch = epoch, .node = {id}}};
}

/* A list of n workers; each `what` is "id@addr", and "?" behind it: suspect, "!": gone. */
static struct msg members(uint32_t n, ...)
{
    struct members *list = members_new(n);
    va_list ap;

    va_start(ap, n);
    for (uint32_t i = 0; i < n; i++) {
        const char *what = va_arg(ap, const char *), *at = strchr(what, '@') + 1;
        size_t len = strcspn(at, "?!");

        list->v[i] = (struct member){.node = {(uint32_t)strtoul(what, NULL, 10)}, .role = ROLE_WORKER};
        list->v[i].state = at[len] == '?' ? MEMBER_SUSPECT : at[len] == '!' ? MEMBER_GONE : MEMBER_UP;
        list->v[i].addr = blob_new(at, len);
    }
    va_end(ap);
    return (struct msg){.type = MSG_MEMBERS, .members.list = list};
}

/* With a stream to central, and joined as node `id`. */
static struct node joined_node(enum role role, uint32_t id, uint32_t victims)
{
    struct node n = node((struct peers_config){.role = role, .victims = victims});

    peers_start(n.peers, &n.out);
    opened(&n, CENTRAL);
    hear(&n, joined(7, 1, id));
    expect(&n, "dial:central@0 tell:up:central:central:v3 tell:JOINED");
    return n;
}

#endif
