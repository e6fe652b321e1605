/* peers/: the rules of one node's connections, each as a conversation: what a shell reports, and what it is to do then. */
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
#define MS US_PER_MS

/* ---- One node, and what it was told to do, as text ---- */

struct node {
    struct peers *peers;
    struct peers_out out;
    int64_t now_us;
    char text[4000];
};

static void say(char *buf, size_t size, const char *fmt, ...) HAWK_PRINTF(3, 4);
static void say(char *buf, size_t size, const char *fmt, ...)
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
    peers_ended(n->peers, n->now_us, peer, PEERS_DIALLED, ROLE_NONE, &n->out);
}

static void hear(struct node *n, struct msg m)
{
    assert_true(peers_looks_at(m.type));
    m.peer = CENTRAL;
    peers_central_says(n->peers, n->now_us, &m, &n->out);
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

static struct msg member(uint32_t id, enum member_state state, const char *addr)
{
    return (struct msg){.type = MSG_MEMBER,
                        .member = {.node = {id},
                                   .role = ROLE_WORKER,
                                   .state = (uint8_t)state,
                                   .addr = addr ? blob_str(addr) : NULL}};
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

/* ---- Central ---- */

static void a_node_dials_central_until_it_has_it(void **state)
{
    struct node n = node((struct peers_config){.role = ROLE_DIST});
    int64_t most_us = BACKOFF_MIN_US;

    peers_start(n.peers, &n.out);
    expect(&n, "dial:central@0");
    for (int i = 0; i < 12; i++) {
        int64_t took_us;

        ended(&n, CENTRAL); /* nobody was there: the role has heard of nothing */
        expect(&n, "");
        took_us = pass(&n);
        assert_in_range(took_us, most_us / 2, most_us);
        most_us = 2 * most_us < BACKOFF_MAX_US ? 2 * most_us : BACKOFF_MAX_US;
        expect(&n, "dial:central@0");
    }
    opened(&n, CENTRAL);
    expect(&n, "tell:up:central:central:v3");
    assert_int_equal(peers_next_timeout(n.peers), TIME_NEVER);
    end(&n);
}

/* A central that lets a node in and throws it out is not asked at full speed; one that held is asked at once. */
static void delays_begin_anew_after_a_stream_that_held(void **state)
{
    struct node n = node((struct peers_config){.role = ROLE_DIST});

    peers_start(n.peers, &n.out);
    for (int i = 0; i < 8; i++) {
        opened(&n, CENTRAL);
        ended(&n, CENTRAL);
        pass(&n);
        done(&n);
    }
    opened(&n, CENTRAL);
    ended(&n, CENTRAL);
    expect(&n, "tell:up:central:central:v3 tell:lost:central:central");
    assert_true(pass(&n) >= BACKOFF_MAX_US / 2);
    expect(&n, "dial:central@0");
    opened(&n, CENTRAL);
    n.now_us += BACKOFF_MAX_US + 1;
    ended(&n, CENTRAL);
    assert_true(pass(&n) <= BACKOFF_MIN_US);
    done(&n);
    end(&n);
}

/* One of them may be the active one: the delay grows when all have been tried. */
static void several_centrals_are_tried_in_turn(void **state)
{
    struct node n = node((struct peers_config){.role = ROLE_WORKER, .places = 3});

    peers_start(n.peers, &n.out);
    expect(&n, "dial:central@0");
    for (int round = 0; round < 8; round++) {
        ended(&n, CENTRAL);
        assert_true(pass(&n) <= BACKOFF_MIN_US);
        expect(&n, "dial:central@1");
        ended(&n, CENTRAL);
        assert_true(pass(&n) <= BACKOFF_MIN_US);
        expect(&n, "dial:central@2");
        ended(&n, CENTRAL);
        assert_true(pass(&n) <= PEERS_ROUND_MAX_US);
        expect(&n, "dial:central@0");
    }
    opened(&n, CENTRAL);
    ended(&n, CENTRAL); /* and after a loss from the next one on */
    pass(&n);
    expect(&n, "tell:up:central:central:v3 tell:lost:central:central dial:central@1");
    end(&n);
}

static void only_central_is_taken_for_central(void **state)
{
    struct node n = node((struct peers_config){.role = ROLE_WORKER});

    peers_start(n.peers, &n.out);
    peers_opened(n.peers, n.now_us, CENTRAL, ROLE_DIST, (node_id_t){5}, 3, &n.out);
    expect(&n, "dial:central@0 break:central:it is not central that answers there: give central's address");
    ended(&n, CENTRAL); /* it never was: the role hears nothing */
    pass(&n);
    expect(&n, "dial:central@0");
    end(&n);
}

/* A central that was replaced and does not know it. */
static void a_central_of_an_older_epoch_is_not_obeyed(void **state)
{
    struct node n = joined_node(ROLE_WORKER, 4, 0);

    hear(&n, joined(7, 3, 4));
    expect(&n, "tell:JOINED");
    ended(&n, CENTRAL);
    pass(&n);
    opened(&n, CENTRAL);
    expect(&n, "tell:lost:central:central dial:central@0 tell:up:central:central:v3");
    hear(&n, joined(7, 2, 4));
    expect(&n, "break:central:it is of epoch 2, and there was one of epoch 3");
    ended(&n, CENTRAL);
    pass(&n);
    opened(&n, CENTRAL);
    hear(&n, joined(7, 3, 4)); /* the same one again is as good as a newer one */
    expect(&n, "tell:lost:central:central dial:central@0 tell:up:central:central:v3 tell:JOINED");
    end(&n);
}

/* Central has lost its state: another cluster, whose epochs begin anew. Ids are kept. */
static void a_central_that_lost_its_state_is_obeyed(void **state)
{
    struct node n = joined_node(ROLE_WORKER, 4, 0);

    hear(&n, joined(7, 3, 4));
    hear(&n, joined(8, 1, 4));
    expect(&n, "tell:JOINED tell:JOINED");
    hear(&n, joined(8, 2, 5)); /* it may not call this node something else */
    expect(&n, "tell:REFUSED");
    end(&n);
}

static void a_dists_journal_is_of_one_cluster(void **state)
{
    struct node n = node((struct peers_config){.role = ROLE_DIST, .id = {4}, .cluster = 7});
    struct msg successor = joined(8, 1, 4);

    peers_start(n.peers, &n.out);
    opened(&n, CENTRAL);
    done(&n);
    hear(&n, joined(9, 1, 4));
    assert_int_equal(n.out.v[0].m.refused.err, HAWK_ESTALE);
    assert_non_null(strstr(n.out.v[0].why, "another cluster's"));
    expect(&n, "tell:REFUSED");
    hear(&n, joined(7, 1, 5));
    assert_non_null(strstr(n.out.v[0].why, "calls this dist node 5, and it was node 4"));
    expect(&n, "tell:REFUSED");
    successor.joined.former = 7; /* it goes on for that one */
    hear(&n, successor);
    expect(&n, "tell:JOINED");
    end(&n);
}

/* ---- A dist and its workers ---- */

static void a_dist_dials_the_workers_it_is_told_of(void **state)
{
    struct node n = joined_node(ROLE_DIST, 1, 0);
    struct msg dist = member(9, MEMBER_UP, "a9");

    /* The role knows a worker before its PEER_UP. */
    hear(&n, members(4, "2@a2", "3@a3?", "4@a4!", "500@a500"));
    expect(&n, "tell:MEMBERS dial:2@a2 dial:500@a500");
    dist.member.role = ROLE_DIST;
    hear(&n, dist);
    hear(&n, member(3, MEMBER_UP, "a3"));
    hear(&n, member(5, MEMBER_DRAINING, "a5"));
    hear(&n, member(6, MEMBER_UP, "")); /* nobody can dial it */
    hear(&n, member(7, MEMBER_UP, NULL));
    expect(&n, "tell:MEMBER tell:MEMBER dial:3@a3 tell:MEMBER dial:5@a5 tell:MEMBER tell:MEMBER");
    opened(&n, 500);
    opened(&n, 2);
    expect(&n, "tell:up:500:worker:v3 tell:up:2:worker:v3");
    hear(&n, member(2, MEMBER_UP, "a2"));
    expect(&n, "tell:MEMBER");
    end(&n);
}

static void a_dist_dials_again_and_again(void **state)
{
    struct node n = joined_node(ROLE_DIST, 1, 0);
    int64_t took_us = 0;

    hear(&n, member(2, MEMBER_UP, "a2"));
    opened(&n, 2);
    ended(&n, 2);
    expect(&n, "tell:MEMBER dial:2@a2 tell:up:2:worker:v3 tell:lost:2:worker");
    for (int i = 0; i < 8; i++) {
        took_us = pass(&n);
        expect(&n, "dial:2@a2");
        ended(&n, 2);
        expect(&n, "");
        hear(&n, member(2, i % 2 ? MEMBER_SUSPECT : MEMBER_UP, "a2")); /* it goes on as it was */
        expect(&n, "tell:MEMBER");
    }
    assert_in_range(took_us, BACKOFF_MAX_US / 2, BACKOFF_MAX_US);
    end(&n);
}

/* Ten thousand workers that were lost together are not dialled together. */
static void many_lost_workers_come_back_one_by_one(void **state)
{
    struct node n = joined_node(ROLE_DIST, 1, 0);
    uint32_t dialled = 0, at_once = 0;

    for (uint32_t i = 2; i < 1002; i++) {
        hear(&n, member(i, MEMBER_UP, "a"));
        opened(&n, i);
        ended(&n, i);
        peers_out_clear(&n.out);
    }
    while (peers_next_timeout(n.peers) != TIME_NEVER) {
        pass(&n);
        dialled += n.out.n;
        at_once = n.out.n > at_once ? n.out.n : at_once;
        peers_out_clear(&n.out);
    }
    assert_int_equal(dialled, 1000);
    assert_true(at_once < 20);
    end(&n);
}

static void a_gone_worker_is_let_go(void **state)
{
    struct node n = joined_node(ROLE_DIST, 1, 0);

    hear(&n, members(4, "2@a2", "3@a3", "4@a4", "5@a5"));
    opened(&n, 2);
    opened(&n, 5);
    ended(&n, 3);
    done(&n);
    hear(&n, member(2, MEMBER_GONE, NULL)); /* open: the role loses it */
    expect(&n, "tell:MEMBER close:2 tell:lost:2:worker");
    hear(&n, member(3, MEMBER_GONE, NULL)); /* waits */
    hear(&n, member(4, MEMBER_GONE, "a4")); /* is dialled */
    expect(&n, "tell:MEMBER close:3 tell:MEMBER close:4");
    assert_int_equal(peers_next_timeout(n.peers), TIME_NEVER);
    hear(&n, member(2, MEMBER_GONE, NULL));
    hear(&n, member(77, MEMBER_GONE, NULL)); /* never heard of */
    expect(&n, "tell:MEMBER tell:MEMBER");
    hear(&n, member(2, MEMBER_UP, "a2")); /* its next process */
    expect(&n, "tell:MEMBER dial:2@a2");
    end(&n);
}

/* A central that has restarted lists only who has come back by then. Short tasks run on while it is away. */
static void streams_to_unlisted_workers_last_as_long_as_they_do(void **state)
{
    struct node n = joined_node(ROLE_DIST, 1, 0);

    hear(&n, members(4, "2@a2", "3@a3", "4@a4", "5@a5"));
    opened(&n, 2);
    opened(&n, 3);
    ended(&n, 5);
    done(&n);
    hear(&n, members(1, "3@a3?")); /* listed, if only as suspect: it still is what it was */
    expect(&n, "tell:MEMBERS close:4 close:5");
    assert_int_equal(peers_next_timeout(n.peers), TIME_NEVER);
    ended(&n, 3);
    ended(&n, 2); /* is not dialled again */
    expect(&n, "tell:lost:3:worker close:2 tell:lost:2:worker");
    pass(&n);
    expect(&n, "dial:3@a3");
    assert_int_equal(peers_next_timeout(n.peers), TIME_NEVER);
    hear(&n, members(2, "2@b2", "3@a3"));
    expect(&n, "tell:MEMBERS dial:2@b2");
    end(&n);
}

static void a_worker_that_moved_is_dialled_where_it_listens_now(void **state)
{
    struct node n = joined_node(ROLE_DIST, 1, 0);

    hear(&n, members(3, "2@a2", "3@a3", "4@a4"));
    opened(&n, 2);
    for (int i = 0; i < 8; i++) {
        ended(&n, 3);
        pass(&n);
    }
    ended(&n, 3);
    done(&n);
    hear(&n, members(3, "2@b2", "3@b3", "4@b4"));
    expect(&n, "tell:MEMBERS close:2 tell:lost:2:worker dial:2@b2 close:3 dial:3@b3 close:4 dial:4@b4");
    ended(&n, 3); /* another place: the delays begin anew */
    assert_true(pass(&n) <= BACKOFF_MIN_US);
    expect(&n, "dial:3@b3");
    end(&n);
}

/* An address was used again. */
static void whoever_else_listens_there_is_left(void **state)
{
    struct node n = joined_node(ROLE_DIST, 1, 0);

    hear(&n, member(2, MEMBER_UP, "a2"));
    done(&n);
    peers_opened(n.peers, n.now_us, 2, ROLE_WORKER, (node_id_t){3}, 3, &n.out);
    expect(&n, "break:2:another node listens there");
    ended(&n, 2);
    pass(&n);
    peers_opened(n.peers, n.now_us, 2, ROLE_CENTRAL, NODE_CENTRAL, 3, &n.out);
    expect(&n, "dial:2@a2 break:2:it is no worker that answers there");
    ended(&n, 2);
    expect(&n, "");
    end(&n);
}

/* ---- Who is dialled ---- */

static void a_worker_takes_dists_and_thieves(void **state)
{
    struct node n = joined_node(ROLE_WORKER, 4, 0);

    peers_accepted(n.peers, 1, ROLE_DIST, 2, &n.out);
    peers_accepted(n.peers, 6, ROLE_WORKER, 3, &n.out);
    expect(&n, "admit:1 tell:up:1:dist:v2 admit:6 tell:up:6:worker:v3");
    peers_ended(n.peers, n.now_us, 1, PEERS_ACCEPTED, ROLE_NONE, &n.out);
    peers_ended(n.peers, n.now_us, 6, PEERS_ACCEPTED, ROLE_NONE, &n.out);
    expect(&n, "tell:lost:1:dist tell:lost:6:worker");
    assert_int_equal(peers_next_timeout(n.peers), TIME_NEVER); /* who dialled dials again */
    end(&n);
}

/* The peer is back before the end of its old stream has come here: one end, and then the beginning. */
static void a_new_stream_replaces_the_old_one(void **state)
{
    struct node n = joined_node(ROLE_WORKER, 4, 0);

    peers_accepted(n.peers, 1, ROLE_DIST, 3, &n.out);
    done(&n);
    peers_accepted(n.peers, 1, ROLE_DIST, 3, &n.out);
    expect(&n, "accepted drop:1 tell:lost:1:dist admit:1 tell:up:1:dist:v3");
    peers_accepted(n.peers, 1, ROLE_WORKER, 3, &n.out); /* its id is a worker's now */
    expect(&n, "accepted drop:1 tell:lost:1:dist admit:1 tell:up:1:worker:v3");
    peers_ended(n.peers, n.now_us, 1, PEERS_ACCEPTED, ROLE_NONE, &n.out);
    expect(&n, "tell:lost:1:worker");
    end(&n);
}

static void who_may_not_dial_is_refused(void **state)
{
    struct node w = joined_node(ROLE_WORKER, 4, 0), d = joined_node(ROLE_DIST, 1, 0),
                c = node((struct peers_config){.role = ROLE_CENTRAL});

    peers_accepted(d.peers, 5, ROLE_WORKER, 3, &d.out);
    expect(&d, "refuse:5:a dist answers there, which a worker does not dial: give central's address");
    peers_accepted(c.peers, 5, ROLE_CENTRAL, 3, &c.out);
    expect(&c, "refuse:5:a central answers there, which a central does not dial: give central's address");
    peers_accepted(w.peers, 0, ROLE_DIST, 3, &w.out); /* it has not joined */
    peers_accepted(w.peers, CENTRAL, ROLE_DIST, 3, &w.out);
    peers_accepted(w.peers, 6, ROLE_COUNT, 3, &w.out);
    assert_int_equal(w.out.n, 3);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(w.out.v[i].what, PEERS_REFUSE);
    end(&w);
    end(&d);
    end(&c);
}

/* Links are numbered: a node's next stream is another peer. */
static void central_takes_everybody(void **state)
{
    struct node n = node((struct peers_config){.role = ROLE_CENTRAL});

    peers_start(n.peers, &n.out);
    peers_accepted(n.peers, 1, ROLE_DIST, 3, &n.out);
    peers_accepted(n.peers, 2, ROLE_WORKER, 1, &n.out);
    expect(&n, "admit:1 tell:up:1:dist:v3 admit:2 tell:up:2:worker:v1");
    peers_ended(n.peers, n.now_us, 2, PEERS_ACCEPTED, ROLE_WORKER, &n.out);
    expect(&n, "tell:lost:2:worker");
    send(&n, MSG_HEARTBEAT_ACK, 2, 0); /* it has heard of every link's end */
    expect(&n, "");
    assert_int_equal(peers_next_timeout(n.peers), TIME_NEVER);
    end(&n);
}

/* The table of who has dialled, against a model: its places move when one leaves. */
static void thousands_may_dial_a_worker(void **state)
{
    struct node n = joined_node(ROLE_WORKER, 4, 0);
    static bool there[3000];
    struct rng r;

    rng_seed(&r, 3);
    for (int i = 0; i < 100000; i++) {
        uint32_t id = 1 + (uint32_t)rng_below(&r, 2999);

        if (there[id] && rng_below(&r, 2)) {
            peers_ended(n.peers, n.now_us, id, PEERS_ACCEPTED, ROLE_NONE, &n.out);
            assert_int_equal(n.out.n, 1);
            there[id] = false;
        } else {
            peers_accepted(n.peers, id, ROLE_WORKER, 3, &n.out);
            assert_int_equal(n.out.n, there[id] ? 4 : 2);
            there[id] = true;
        }
        peers_out_clear(&n.out);
    }
    end(&n);
}

/* ---- Thieves ---- */

static void a_thief_dials_when_it_asks(void **state)
{
    struct node n = joined_node(ROLE_WORKER, 4, 0);

    hear(&n, members(2, "5@a5", "6@a6?"));
    expect(&n, "tell:MEMBERS"); /* nobody is dialled for being there */
    send(&n, MSG_STEAL_REQUEST, 5, 1);
    expect(&n, "dial:5@a5");
    opened(&n, 5); /* the role hears of what it waits for, and not of streams */
    expect(&n, "send:request1:5");
    send(&n, MSG_STEAL_ACK, 5, 0);
    send(&n, MSG_STEAL_REQUEST, 5, 2);
    expect(&n, "send:STEAL_ACK send:request2:5");
    send(&n, MSG_STEAL_REQUEST, 6, 3);
    expect(&n, "dial:6@a6");
    end(&n);
}

static void nobody_to_ask_is_lost_at_once(void **state)
{
    struct node n = joined_node(ROLE_WORKER, 4, 0);

    send(&n, MSG_STEAL_REQUEST, 5, 1); /* no list yet */
    expect(&n, "tell:lost:5:worker");
    hear(&n, members(3, "5@a5!", "6@", "8@a8"));
    send(&n, MSG_STEAL_REQUEST, 5, 1);
    send(&n, MSG_STEAL_REQUEST, 6, 1);
    send(&n, MSG_STEAL_REQUEST, 7, 1);
    send(&n, MSG_STEAL_REQUEST, 9, 1);
    expect(&n, "tell:MEMBERS tell:lost:5:worker tell:lost:6:worker tell:lost:7:worker tell:lost:9:worker");
    end(&n);
}

static void a_victim_that_cannot_be_reached_is_lost(void **state)
{
    struct node n = joined_node(ROLE_WORKER, 4, 0);

    hear(&n, members(1, "5@a5"));
    send(&n, MSG_STEAL_REQUEST, 5, 1);
    ended(&n, 5); /* refused, say */
    expect(&n, "tell:MEMBERS dial:5@a5 close:5 tell:lost:5:worker");
    assert_int_equal(peers_next_timeout(n.peers), TIME_NEVER); /* nobody dials it for nothing */
    send(&n, MSG_STEAL_REQUEST, 5, 2);
    opened(&n, 5);
    ended(&n, 5);
    expect(&n, "dial:5@a5 send:request2:5 close:5 tell:lost:5:worker");
    assert_int_equal(peers_next_timeout(n.peers), TIME_NEVER);
    end(&n);
}

static void a_held_request_waits_for_a_second(void **state)
{
    struct node n = joined_node(ROLE_WORKER, 4, 0);

    hear(&n, members(2, "5@a5", "6@a6"));
    send(&n, MSG_STEAL_REQUEST, 5, 1);
    n.now_us += 300 * MS;
    send(&n, MSG_STEAL_REQUEST, 6, 2);
    n.now_us += 100 * MS;
    send(&n, MSG_STEAL_REQUEST, 5, 3); /* it has given the first one up */
    expect(&n, "tell:MEMBERS dial:5@a5 dial:6@a6");
    assert_int_equal(pass(&n), PEERS_VICTIM_OPEN_US - 400 * MS);
    expect(&n, "close:5 tell:lost:5:worker");
    opened(&n, 6);
    expect(&n, "send:request2:6");
    assert_int_equal(peers_next_timeout(n.peers), TIME_NEVER);
    send(&n, MSG_STEAL_REQUEST, 5, 4);
    send(&n, MSG_STEAL_REQUEST, 5, 5);
    opened(&n, 5);
    expect(&n, "dial:5@a5 send:request5:5"); /* the last one alone */
    end(&n);
}

/* The stream that brought the loot is gone, so its victim has it back. */
static void an_acknowledgement_opens_no_stream(void **state)
{
    struct node n = joined_node(ROLE_WORKER, 4, 0);

    hear(&n, members(1, "5@a5"));
    send(&n, MSG_STEAL_ACK, 5, 0);
    expect(&n, "tell:MEMBERS tell:lost:5:worker");
    send(&n, MSG_STEAL_REQUEST, 5, 1);
    send(&n, MSG_STEAL_ACK, 5, 0); /* and takes no other's place */
    opened(&n, 5);
    expect(&n, "dial:5@a5 send:request1:5");
    end(&n);
}

static void the_victim_not_asked_for_longest_is_let_go(void **state)
{
    struct node n = joined_node(ROLE_WORKER, 4, 2);

    hear(&n, members(4, "5@a5", "6@a6", "7@a7", "8@a8"));
    send(&n, MSG_STEAL_REQUEST, 5, 1);
    opened(&n, 5);
    send(&n, MSG_STEAL_REQUEST, 6, 2);
    opened(&n, 6);
    send(&n, MSG_STEAL_ACK, 5, 0); /* now 6 is the one */
    done(&n);
    send(&n, MSG_STEAL_REQUEST, 7, 3); /* the thief may ask it again: it has lost nobody */
    expect(&n, "close:6 dial:7@a7");
    send(&n, MSG_STEAL_REQUEST, 8, 4);
    expect(&n, "close:5 dial:8@a8");
    send(&n, MSG_STEAL_REQUEST, 5, 5); /* also one that was not open yet */
    expect(&n, "close:7 dial:5@a5");
    end(&n);
}

static void a_worker_keeps_64_victims(void **state)
{
    struct node n = joined_node(ROLE_WORKER, 1, 0);
    struct members *list = members_new(PEERS_VICTIMS + 1);

    for (uint32_t i = 0; i <= PEERS_VICTIMS; i++)
        list->v[i] = (struct member){.node = {10 + i}, .role = ROLE_WORKER, .addr = blob_str("a")};
    hear(&n, (struct msg){.type = MSG_MEMBERS, .members.list = list});
    for (uint32_t i = 0; i < PEERS_VICTIMS; i++) {
        done(&n);
        send(&n, MSG_STEAL_REQUEST, 10 + i, i);
        opened(&n, 10 + i);
        assert_int_equal(n.out.n, 2);
    }
    done(&n);
    send(&n, MSG_STEAL_REQUEST, 10 + PEERS_VICTIMS, 99);
    expect(&n, "close:10 dial:74@a");
    end(&n);
}

static void victims_that_leave_are_let_go(void **state)
{
    struct node n = joined_node(ROLE_WORKER, 4, 0);

    hear(&n, members(4, "5@a5", "6@a6", "7@a7", "8@a8"));
    for (uint32_t i = 5; i <= 8; i++) {
        send(&n, MSG_STEAL_REQUEST, i, i);
        if (i != 8)
            opened(&n, i);
    }
    done(&n);
    hear(&n, members(4, "5@a5", "6@b6", "7@a7!", "8@b8"));
    expect(&n,
           "tell:MEMBERS close:6 tell:lost:6:worker close:7 tell:lost:7:worker close:8 tell:lost:8:worker");
    hear(&n, members(0)); /* reserved by now, perhaps: its stream is as good as it was */
    send(&n, MSG_STEAL_REQUEST, 5, 9);
    expect(&n, "tell:MEMBERS send:request9:5");
    end(&n);
}

/* A reserved worker whose long tasks run on is on no list of a thief's, and central may name it all the same. */
static void a_hint_says_where_its_victim_is(void **state)
{
    struct node n = joined_node(ROLE_WORKER, 4, 0);
    struct msg hint = {.type = MSG_STEAL_HINT, .steal_hint = {.victim = {6}}};

    hear(&n, members(1, "5@a5"));
    hear(&n, hint); /* a central of an older version */
    send(&n, MSG_STEAL_REQUEST, 6, 1);
    expect(&n, "tell:MEMBERS tell:STEAL_HINT tell:lost:6:worker");
    hint.steal_hint.addr = blob_str("a6");
    hear(&n, hint);
    send(&n, MSG_STEAL_REQUEST, 6, 2);
    opened(&n, 6);
    hear(&n, members(1, "5@a5"));
    send(&n, MSG_STEAL_REQUEST, 6, 3);
    expect(&n, "tell:STEAL_HINT dial:6@a6 send:request2:6 tell:MEMBERS send:request3:6");
    hear(&n, members(1, "6@a6!")); /* a list knows better */
    send(&n, MSG_STEAL_REQUEST, 6, 4);
    expect(&n, "tell:MEMBERS close:6 tell:lost:6:worker tell:lost:6:worker");
    end(&n);
}

/* Two that steal from each other have two streams. */
static void each_thief_dials_for_itself(void **state)
{
    struct node n = joined_node(ROLE_WORKER, 4, 0);

    hear(&n, members(1, "5@a5"));
    peers_accepted(n.peers, 5, ROLE_WORKER, 3, &n.out);
    done(&n);
    send(&n, MSG_STEAL_REQUEST, 5, 1);
    opened(&n, 5);
    expect(&n, "dial:5@a5 send:request1:5");
    peers_ended(n.peers, n.now_us, 5, PEERS_ACCEPTED, ROLE_NONE, &n.out);
    send(&n, MSG_STEAL_REQUEST, 5, 2);
    expect(&n, "tell:lost:5:worker send:request2:5");
    end(&n);
}

/* ---- What cannot be sent ---- */

static void a_message_that_cannot_be_sent_loses_its_peer(void **state)
{
    struct node d = joined_node(ROLE_DIST, 1, 0), w = joined_node(ROLE_WORKER, 4, 0);

    send(&d, MSG_PROBE, 5, 0); /* never heard of */
    hear(&d, member(6, MEMBER_UP, "a6"));
    send(&d, MSG_PROBE, 6, 0); /* is being dialled */
    expect(&d, "tell:lost:5:worker tell:MEMBER dial:6@a6 tell:lost:6:worker");
    send(&w, MSG_TASK_STARTED, 1, 0);
    send(&w, MSG_STEAL_LOOT, 5, 0);
    expect(&w, "tell:lost:1:dist tell:lost:5:worker");
    ended(&w, CENTRAL);
    done(&w);
    send(&w, MSG_HEARTBEAT, CENTRAL, 0);
    expect(&w, "tell:lost:central:central");
    end(&d);
    end(&w);
}

/* The shell has broken the stream, or found it broken: its one PEER_LOST is to come. */
static void the_end_of_a_stream_is_told_once(void **state)
{
    struct node d = joined_node(ROLE_DIST, 1, 0), w = joined_node(ROLE_WORKER, 4, 0);

    hear(&d, member(6, MEMBER_UP, "a6"));
    opened(&d, 6);
    done(&d);
    send(&d, MSG_PROBE, 6, 0);
    send(&d, MSG_HEARTBEAT, CENTRAL, 0);
    expect(&d, "");
    ended(&d, 6);
    expect(&d, "tell:lost:6:worker");
    peers_accepted(w.peers, 1, ROLE_DIST, 3, &w.out);
    done(&w);
    send(&w, MSG_TASK_STARTED, 1, 0);
    expect(&w, "");
    end(&d);
    end(&w);
}

static void a_peer_that_does_not_answer_is_given_up(void **state)
{
    struct node d = joined_node(ROLE_DIST, 1, 0), w = joined_node(ROLE_WORKER, 4, 0);

    hear(&d, member(6, MEMBER_UP, "a6"));
    opened(&d, 6);
    done(&d);
    peers_give_up(d.peers, 6, &d.out);
    expect(&d, "break:6:the peer does not answer");
    ended(&d, 6);
    pass(&d);
    expect(&d, "tell:lost:6:worker dial:6@a6");
    peers_accepted(w.peers, 1, ROLE_DIST, 3, &w.out);
    done(&w);
    peers_give_up(w.peers, 1, &w.out);
    expect(&w, "accepted break:1:the peer does not answer");
    end(&d);
    end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_dials_central_until_it_has_it),
        cmocka_unit_test(delays_begin_anew_after_a_stream_that_held),
        cmocka_unit_test(several_centrals_are_tried_in_turn),
        cmocka_unit_test(only_central_is_taken_for_central),
        cmocka_unit_test(a_central_of_an_older_epoch_is_not_obeyed),
        cmocka_unit_test(a_central_that_lost_its_state_is_obeyed),
        cmocka_unit_test(a_dists_journal_is_of_one_cluster),
        cmocka_unit_test(a_dist_dials_the_workers_it_is_told_of),
        cmocka_unit_test(a_dist_dials_again_and_again),
        cmocka_unit_test(many_lost_workers_come_back_one_by_one),
        cmocka_unit_test(a_gone_worker_is_let_go),
        cmocka_unit_test(streams_to_unlisted_workers_last_as_long_as_they_do),
        cmocka_unit_test(a_worker_that_moved_is_dialled_where_it_listens_now),
        cmocka_unit_test(whoever_else_listens_there_is_left),
        cmocka_unit_test(a_worker_takes_dists_and_thieves),
        cmocka_unit_test(a_new_stream_replaces_the_old_one),
        cmocka_unit_test(who_may_not_dial_is_refused),
        cmocka_unit_test(central_takes_everybody),
        cmocka_unit_test(thousands_may_dial_a_worker),
        cmocka_unit_test(a_thief_dials_when_it_asks),
        cmocka_unit_test(nobody_to_ask_is_lost_at_once),
        cmocka_unit_test(a_victim_that_cannot_be_reached_is_lost),
        cmocka_unit_test(a_held_request_waits_for_a_second),
        cmocka_unit_test(an_acknowledgement_opens_no_stream),
        cmocka_unit_test(the_victim_not_asked_for_longest_is_let_go),
        cmocka_unit_test(a_worker_keeps_64_victims),
        cmocka_unit_test(victims_that_leave_are_let_go),
        cmocka_unit_test(a_hint_says_where_its_victim_is),
        cmocka_unit_test(each_thief_dials_for_itself),
        cmocka_unit_test(a_message_that_cannot_be_sent_loses_its_peer),
        cmocka_unit_test(the_end_of_a_stream_is_told_once),
        cmocka_unit_test(a_peer_that_does_not_answer_is_given_up),
    };

    return cmocka_run_group_tests_name("peers", tests, NULL, NULL);
}
