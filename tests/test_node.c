/* daemon/node.c with a role that only says what a test tells it to: a worker between a central and victims
 * that are made here. The victims are one listener, which has another node id for each link that it
 * accepts. */
#include "base/mem.h"
#include "daemon/node.h"
#include "net/server.h"
#include "peers/peers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/lib/until.h"

#define ME 1u
#define FIRST_VICTIM 101u
#define VICTIMS (PEERS_VICTIMS + 6)

static struct loop *loop;

/* ---- The cast ---- */

struct listener {
    struct links *links;
    struct server *server;
    struct link *link; /* the last that came up */
    uint32_t ups, losts, msgs;
    uint32_t last_lost; /* the number that it came up as, from 1 */
};

static void on_up(void *arg, struct link *k)
{
    struct listener *s = arg;

    s->link = k;
    s->ups++;
    link_set_user(k, (void *)(uintptr_t)s->ups);
}

static void on_msg(void *arg, struct link *k, const struct msg *m)
{
    struct listener *s = arg;

    assert_int_equal(m->type, MSG_STEAL_REQUEST);
    s->msgs++;
}

static void on_lost(void *arg, struct link *k, int err, const char *text)
{
    struct listener *s = arg;

    s->losts++;
    s->last_lost = (uint32_t)(uintptr_t)link_user(k);
}

static void listener_open(struct listener *s, enum role role)
{
    static const struct link_fns fns = {.up = on_up, .msg = on_msg, .lost = on_lost};
    char why[200];

    *s = (struct listener){0};
    s->links = links_new(loop, &(struct link_config){.role = role, .name = "made-up", .seed = 1}, &fns, s);
    s->server = server_new(loop, &(struct server_config){0});
    assert_int_equal(server_listen(s->server, "127.0.0.1:0", why, sizeof why), 0);
    server_set_links(s->server, s->links);
    server_start(s->server);
}

static void listener_close(struct listener *s)
{
    server_set_links(s->server, NULL);
    links_free(s->links, US_PER_S);
    server_free(s->server);
}

/* The role: what it is to say at its next event, and how often it was told that a victim is lost. */
struct thief {
    uint32_t ask; /* 0: nobody */
    uint32_t lost;
    bool members; /* it heard of the members */
};

static void thief_step(void *role, const struct event *e, struct out *out)
{
    struct thief *t = role;

    t->members |= e->m.type == MSG_MEMBERS;
    t->lost += e->m.type == MSG_PEER_LOST && e->m.peer != NODE_CENTRAL.v;
    if (t->ask) {
        struct msg_steal_request *m = &out_add(out, MSG_STEAL_REQUEST, t->ask)->steal_request;

        m->request = t->ask;
        m->max = 1;
    }
    t->ask = 0;
}

static int64_t no_timeout(const void *role) { return TIME_NEVER; }
static void no_check(const void *role) {}
static void no_effect(void *arg, const struct msg *m) { fail_msg("an effect: %s", msg_name(m->type)); }

static void ask(struct node *n, struct thief *t, uint32_t victim)
{
    t->ask = victim;
    node_feed(n, &(struct msg){.type = MSG_TIMER});
}

static void send_members(struct link *to, const char *addr)
{
    struct members *list = members_new(VICTIMS);

    for (uint32_t i = 0; i < VICTIMS; i++) {
        list->v[i] = (struct member){.node = {FIRST_VICTIM + i}, .slots = 1, .general = 1};
        list->v[i].role = ROLE_WORKER;
        list->v[i].state = MEMBER_UP;
        list->v[i].addr = blob_str(addr);
        list->v[i].name = blob_str("victim");
    }
    assert_int_equal(link_send(to, &(struct msg){.type = MSG_MEMBERS, .members.list = list}), 0);
    members_drop(list);
}

/* ---- Tests ---- */

/* A thief keeps its connections, and no more than PEERS_VICTIMS of them: for another victim it closes the one that it
 * used least recently. */
static void a_thief_keeps_a_limited_number_of_links(void **state)
{
    static const struct role_functions thief_functions = {thief_step, no_timeout, no_check};
    static const struct node_fns fns = {.role = &thief_functions, .effect = no_effect};
    struct listener central, victims;
    struct thief thief = {0};
    struct node *n;

    listener_open(&central, ROLE_CENTRAL);
    listener_open(&victims, ROLE_WORKER);
    n = node_new(loop,
                 &(struct node_config){
                     .role = ROLE_WORKER, .name = "w", .central = server_addr(central.server, 0), .seed = 1},
                 &fns, &thief, NULL);
    node_start(n);
    until(loop, central.link);
    send_members(central.link, server_addr(victims.server, 0));
    until(loop, thief.members);
    links_set_node(node_links(n), (node_id_t){ME});
    for (uint32_t i = 0; i < VICTIMS; i++) {
        if (i == PEERS_VICTIMS) { /* the first was used again, so that the second is the oldest now */
            ask(n, &thief, FIRST_VICTIM);
            until(loop, victims.msgs == i + 1);
        }
        links_set_node(victims.links, (node_id_t){FIRST_VICTIM + i});
        ask(n, &thief, FIRST_VICTIM + i);
        until(loop, victims.ups == i + 1 && victims.msgs == i + 1 + (i >= PEERS_VICTIMS));
        if (i < PEERS_VICTIMS) {
            assert_int_equal(victims.losts, 0);
            continue;
        }
        until(loop, victims.losts == i + 1 - PEERS_VICTIMS);
        assert_int_equal(victims.last_lost, i + 2 - PEERS_VICTIMS);
    }
    assert_int_equal(thief.lost, 0); /* it may steal from them again */
    node_free(n);
    listener_close(&victims);
    listener_close(&central);
}

static int group_setup(void **state)
{
    loop = loop_new(LOOP_NET);
    return 0;
}

static int group_teardown(void **state)
{
    loop_free(loop);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thief_keeps_a_limited_number_of_links),
    };

    return cmocka_run_group_tests_name("node", tests, group_setup, group_teardown);
}
