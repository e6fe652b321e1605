/* peers/: the rules of one node's connections, each as a conversation: what a shell reports, and what it is
 * to do then. */
#include "tests/test_peers.h"

static struct msg member(uint32_t id, enum member_state state, const char *addr)
{
    return (struct msg){.type = MSG_MEMBER,
                        .member = {.node = {id},
                                   .role = ROLE_WORKER,
                                   .state = (uint8_t)state,
                                   .addr = addr ? blob_str(addr) : NULL}};
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

/* In a crowd a daemon cuts connections that it has no room for: who comes back must not be the crowd. */
static void who_is_cut_off_in_a_crowd_stays_away_for_longer(void **state)
{
    struct node n = node((struct peers_config){.role = ROLE_WORKER});
    int64_t most_us = BACKOFF_MIN_US;

    peers_start(n.peers, &n.out);
    for (int i = 0; i < 12; i++) {
        done(&n);
        peers_ended(n.peers, n.now_us, CENTRAL, PEERS_DIALLED, ROLE_NONE, true, &n.out);
        assert_in_range(pass(&n), most_us / 2, most_us);
        most_us = 2 * most_us < BACKOFF_CROWD_US ? 2 * most_us : BACKOFF_CROWD_US;
    }
    assert_int_equal(most_us, BACKOFF_CROWD_US);
    done(&n);
    ended(&n, CENTRAL); /* nobody is there: it may come back at any time */
    assert_true(pass(&n) <= BACKOFF_MAX_US);
    done(&n);
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
        assert_true(pass(&n) <= BACKOFF_ROUND_US);
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
        cmocka_unit_test(who_is_cut_off_in_a_crowd_stays_away_for_longer),
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
        cmocka_unit_test(a_message_that_cannot_be_sent_loses_its_peer),
        cmocka_unit_test(the_end_of_a_stream_is_told_once),
        cmocka_unit_test(a_peer_that_does_not_answer_is_given_up),
    };

    return cmocka_run_group_tests_name("peers", tests, NULL, NULL);
}
