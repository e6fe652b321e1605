/* Two daemons' sides of links in one process: what each hears is written down. For tests/test_net.c. */
#ifndef HAWK_TESTS_TEST_NET_H
#define HAWK_TESTS_TEST_NET_H

#include "net/link.h"
#include "net/server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/until.h"

#define CLOSE_US (5 * US_PER_S)

/* One daemon's side. What its links tell it is written down, one word each: "up:worker:7:w1 12 13 lost:SHUTDOWN". */
struct side {
    struct links *links;
    struct server *server;
    struct link *link; /* the last that came up */
    char said[4096];
    unsigned ups, losts, msgs;
    unsigned large; /* TASK_LAUNCH, which is not among msgs */
    uint32_t last_seq;
    char why[256];          /* of the last loss */
    bool in_order;          /* every seq was the last one + 1 */
    bool echo;              /* sends every message back */
    int close_at, break_at; /* closes or breaks the link at this seq */
};

static struct loop *loop;

static void HAWK_PRINTF(2, 3) say(struct side *s, const char *fmt, ...)
{
    size_t n = strlen(s->said);
    va_list ap;

    if (n > sizeof s->said - 200)
        return;
    if (n)
        s->said[n++] = ' ';
    va_start(ap, fmt);
    vsnprintf(s->said + n, sizeof s->said - n, fmt, ap);
    va_end(ap);
}

static void on_up(void *arg, struct link *k)
{
    struct side *s = arg;

    s->link = k;
    s->ups++;
    s->last_seq = 0;
    assert_true(link_is_up(k));
    assert_true(link_version(k) >= PROTOCOL_VERSION_MIN && link_version(k) <= PROTOCOL_VERSION);
    say(s, "up:%s:%u:%s", role_text(link_peer_role(k)), link_peer_node(k).v, link_peer_name(k));
}

static void on_msg(void *arg, struct link *k, const struct msg *m)
{
    struct side *s = arg;

    if (m->type == MSG_TASK_LAUNCH) {
        s->large++;
        return;
    }
    assert_int_equal(m->type, MSG_HEARTBEAT);
    assert_int_equal(m->peer, 0);
    s->msgs++;
    s->in_order = s->in_order && m->heartbeat.seq == s->last_seq + 1;
    s->last_seq = m->heartbeat.seq;
    if (m->heartbeat.seq <= 20)
        say(s, "%u", m->heartbeat.seq);
    if (s->echo)
        assert_int_equal(link_send(k, m), 0);
    if (s->close_at && (int)m->heartbeat.seq == s->close_at) {
        link_close(k);
        s->link = NULL;
    } else if (s->break_at && (int)m->heartbeat.seq == s->break_at) {
        link_break(k, HAWK_EINVALID, "enough");
    }
}

/* "UNAVAILABLE" */
static const char *error_name(int err)
{
    switch (err) {
#define X(name, code, text)                                                                                  \
    case code:                                                                                               \
        return #name;
        HAWK_ERRORS(X)
#undef X
    }
    return "?";
}

static void on_lost(void *arg, struct link *k, int err, const char *text)
{
    struct side *s = arg;

    assert_false(link_is_up(k));
    assert_true(err < 0);
    assert_int_equal(link_send(k, &(struct msg){.type = MSG_HEARTBEAT}), HAWK_EUNAVAILABLE);
    s->losts++;
    if (s->link == k)
        s->link = NULL;
    snprintf(s->why, sizeof s->why, "%s", text);
    say(s, "lost:%s", error_name(err));
}

static const struct link_fns fns = {.up = on_up, .msg = on_msg, .lost = on_lost};

static void side_open_version(struct side *s, enum role role, const char *name, const char *token,
                              uint32_t version)
{
    struct link_config c = {.role = role, .name = name, .token = token, .version = version, .seed = 1};

    *s = (struct side){.in_order = true};
    s->links = links_new(loop, &c, &fns, s);
}

static void side_open(struct side *s, enum role role, const char *name, const char *token)
{
    side_open_version(s, role, name, token, 0);
}

/* A daemon that listens on addr ("127.0.0.1:0" …); its address. */
static const char *listen_with(struct side *s, const char *addr, struct server_config c)
{
    char why[256] = "";

    s->server = server_new(loop, &c);
    if (server_listen(s->server, addr, why, sizeof why) != 0)
        fail_msg("%s", why);
    server_set_links(s->server, s->links);
    server_start(s->server);
    return server_addr(s->server, 0);
}

static const char *listen_on(struct side *s, const char *addr)
{
    return listen_with(s, addr, (struct server_config){0});
}

static void side_close(struct side *s)
{
    if (s->server)
        server_set_links(s->server, NULL);
    links_free(s->links, CLOSE_US);
    server_free(s->server);
    s->links = NULL;
    s->server = NULL;
}

static int send_seq(struct link *k, uint32_t seq)
{
    struct msg m = {.type = MSG_HEARTBEAT, .heartbeat.seq = seq};
    return link_send(k, &m);
}

static void send_upto(struct link *k, uint32_t first, uint32_t last)
{
    for (uint32_t i = first; i <= last; i++)
        assert_int_equal(send_seq(k, i), 0);
}

/* Central listens, a worker dials it, both are up. */
static struct side central, worker;

static void connect_over(const char *addr)
{
    side_open(&central, ROLE_CENTRAL, "c", NULL);
    side_open(&worker, ROLE_WORKER, "w1", NULL);
    links_set_node(worker.links, (node_id_t){7});
    link_dial(worker.links, listen_on(&central, addr), "central");
    until(loop, central.link && worker.link);
}

static void disconnect(void)
{
    side_close(&worker);
    side_close(&central);
}

#endif
