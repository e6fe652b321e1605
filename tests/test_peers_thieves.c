/* Who is dialled by whom, and thieves: dialling on demand, held requests, cached victims. */
#include "tests/test_peers.h"

#define MS US_PER_MS

/* ---- Who is dialled ---- */

static void a_worker_takes_dists_and_thieves(void **state)
{
    struct node n = joined_node(ROLE_WORKER, 4, 0);

    peers_accepted(n.peers, 1, ROLE_DIST, 2, &n.out);
    peers_accepted(n.peers, 6, ROLE_WORKER, 3, &n.out);
    expect(&n, "admit:1 tell:up:1:dist:v2 admit:6 tell:up:6:worker:v3");
    peers_ended(n.peers, n.now_us, 1, PEERS_ACCEPTED, ROLE_NONE, false, &n.out);
    peers_ended(n.peers, n.now_us, 6, PEERS_ACCEPTED, ROLE_NONE, false, &n.out);
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
    peers_ended(n.peers, n.now_us, 1, PEERS_ACCEPTED, ROLE_NONE, false, &n.out);
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
    peers_ended(n.peers, n.now_us, 2, PEERS_ACCEPTED, ROLE_WORKER, false, &n.out);
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
            peers_ended(n.peers, n.now_us, id, PEERS_ACCEPTED, ROLE_NONE, false, &n.out);
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
    struct msg list = members(3, "5@a5!", "6@", "8@a8");
    list.members.list->v[2].role = ROLE_DIST;
    hear(&n, list);
    send(&n, MSG_STEAL_REQUEST, 5, 1);
    send(&n, MSG_STEAL_REQUEST, 6, 1);
    send(&n, MSG_STEAL_REQUEST, 7, 1);
    send(&n, MSG_STEAL_REQUEST, 8, 1);
    send(&n, MSG_STEAL_REQUEST, 9, 1);
    expect(&n, "tell:MEMBERS tell:lost:5:worker tell:lost:6:worker tell:lost:7:worker tell:lost:8:worker "
               "tell:lost:9:worker");
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

/* Only the request has a time, and not the stream. */
static void an_open_victim_stays_beside_one_that_does_not_open(void **state)
{
    struct node n = joined_node(ROLE_WORKER, 4, 0);

    hear(&n, members(2, "5@a5", "6@a6"));
    send(&n, MSG_STEAL_REQUEST, 5, 1);
    opened(&n, 5);
    send(&n, MSG_STEAL_REQUEST, 6, 2);
    done(&n);
    assert_int_equal(pass(&n), PEERS_VICTIM_OPEN_US);
    expect(&n, "close:6 tell:lost:6:worker");
    send(&n, MSG_STEAL_REQUEST, 5, 3);
    expect(&n, "send:request3:5");
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
    send(&n, MSG_STEAL_REQUEST, 8, 6); /* asked again, and still not open */
    send(&n, MSG_STEAL_REQUEST, 6, 7);
    expect(&n, "close:5 dial:6@a6");
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
    hint.steal_hint.addr = blob_str("old");
    hear(&n, hint);
    hint.steal_hint.addr = blob_str("a6");
    hear(&n, hint);
    send(&n, MSG_STEAL_REQUEST, 6, 2);
    opened(&n, 6);
    hear(&n, members(1, "5@a5"));
    send(&n, MSG_STEAL_REQUEST, 6, 3);
    expect(&n, "tell:STEAL_HINT tell:STEAL_HINT dial:6@a6 send:request2:6 tell:MEMBERS send:request3:6");
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
    peers_ended(n.peers, n.now_us, 5, PEERS_ACCEPTED, ROLE_NONE, false, &n.out);
    send(&n, MSG_STEAL_REQUEST, 5, 2);
    expect(&n, "tell:lost:5:worker send:request2:5");
    end(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_takes_dists_and_thieves),
        cmocka_unit_test(a_new_stream_replaces_the_old_one),
        cmocka_unit_test(who_may_not_dial_is_refused),
        cmocka_unit_test(central_takes_everybody),
        cmocka_unit_test(thousands_may_dial_a_worker),
        cmocka_unit_test(a_thief_dials_when_it_asks),
        cmocka_unit_test(nobody_to_ask_is_lost_at_once),
        cmocka_unit_test(a_victim_that_cannot_be_reached_is_lost),
        cmocka_unit_test(a_held_request_waits_for_a_second),
        cmocka_unit_test(an_open_victim_stays_beside_one_that_does_not_open),
        cmocka_unit_test(an_acknowledgement_opens_no_stream),
        cmocka_unit_test(the_victim_not_asked_for_longest_is_let_go),
        cmocka_unit_test(a_worker_keeps_64_victims),
        cmocka_unit_test(victims_that_leave_are_let_go),
        cmocka_unit_test(a_hint_says_where_its_victim_is),
        cmocka_unit_test(each_thief_dials_for_itself),
    };

    return cmocka_run_group_tests_name("peers_thieves", tests, NULL, NULL);
}
