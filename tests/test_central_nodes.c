/* Central and its nodes: joining, silence, members, stopping (protocol 1, 8). */
#include "base/rng.h"
#include "tests/test_central.h"

/* ---- Joining (1.1 - 1.4) ---- */

static void a_worker_joins(void **state)
{
    struct talk t;
    const struct msg *m;

    talk_begin(&t);
    t.journal_by_hand = true;
    tell(&t, PEER_UP, peer_up, 1, .role = ROLE_WORKER);
    expect_nothing_else(&t);
    join_on(&t, 1, (struct join){.name = "w1", .addr = "127.0.0.1:71", .slots = 2, .role = ROLE_WORKER});
    /* The id is durable before anybody hears it. */
    m = expect_msg(&t, MSG_JOURNAL_NODE, 0);
    assert_int_equal(m->journal_node.node.v, 1);
    assert_int_equal(m->journal_node.role, ROLE_WORKER);
    assert_string_equal(m->journal_node.name->data, "w1");
    expect_nothing_else(&t);
    tell(&t, JOURNAL_DONE, journal_done, 0, .token = 1);
    m = expect_msg(&t, MSG_JOINED, 1);
    assert_int_equal(m->joined.node.v, 1);
    assert_int_equal(m->joined.cluster, 77);
    assert_int_equal(m->joined.heartbeat_us, 500 * MS);
    assert_int_equal(m->joined.lease_us, 60 * S);
    assert_int_equal(m->joined.central_epoch, 1);
    assert_true(expect(&t, POLICY, policy, 1)->policy.version > 0);
    assert_int_equal(expect(&t, PARTITION, partition, 1)->general, 1);
    assert_int_equal(expect(&t, LONG_WORK, long_work, 1)->any, 0);
    assert_int_equal(expect(&t, MEMBERS, members, 1)->list->n, 0); /* its partition is not acknowledged */
    expect_nothing_else(&t);
    talk_end(&t);
}

/* What is put out grows, and moves, while a step writes to it: once JOINED stayed empty when the report to
 * the log came in between at the wrong moment (hawk sim --faults --seed 2177). */
static void a_join_is_answered_however_much_else_is_said(void **state)
{
    for (uint32_t before = 0; before < 70; before++) {
        struct talk t;
        struct msg m = {.type = MSG_JOIN, .peer = 2};
        uint32_t answers = 0;

        talk_begin(&t);
        add_worker(&t, "w1", 1);
        tell(&t, PEER_LOST, peer_lost, 1, 0);
        tell(&t, PEER_UP, peer_up, 2, .role = ROLE_WORKER);
        for (uint32_t i = 0; i < before; i++)
            out_add(&t.out, MSG_LONG_WORK, 1);
        m.join = (struct msg_join){.name = blob_str("w1"),
                                   .addr = blob_str("w1"),
                                   .incarnation = 1,
                                   .slots = 1,
                                   .version = PROTOCOL_VERSION,
                                   .role = ROLE_WORKER};
        talk_step(&t, &m);
        msg_drop(&m);
        for (uint32_t i = before; i < t.out.n; i++)
            if (t.out.v[i].type == MSG_JOINED) {
                assert_int_equal(t.out.v[i].joined.node.v, 1);
                assert_int_equal(t.out.v[i].joined.cluster, 77);
                answers++;
            }
        assert_int_equal(answers, 1);
        talk_end(&t);
    }
}

static void a_dist_is_told_of_everybody(void **state)
{
    struct talk t;
    uint32_t d1, d2, w;
    const struct msg *m;

    talk_begin(&t);
    w = add_worker(&t, "w1", 4);
    d1 = add_dist(&t, "d1");
    expect(&t, JOINED, joined, d1);
    expect(&t, POLICY, policy, d1);
    m = expect_msg(&t, MSG_MEMBERS, d1);
    assert_int_equal(m->members.list->n, 2);
    assert_string_equal(m->members.list->v[0].name->data, "w1");
    assert_int_equal(m->members.list->v[0].slots, 4);
    assert_int_equal(m->members.list->v[0].general, 1);
    assert_int_equal(m->members.list->v[0].state, MEMBER_UP);
    assert_int_equal(m->members.list->v[1].role, ROLE_DIST);
    /* Of whoever comes later it is told at once. */
    d2 = add_dist(&t, "d2");
    m = expect_msg(&t, MSG_MEMBER, d1);
    assert_string_equal(m->member.name->data, "d2");
    assert_int_equal(m->member.state, MEMBER_UP);
    expect_none(&t, MEMBER, d2);
    tell(&t, PEER_LOST, peer_lost, w, 0);
    assert_int_equal(expect(&t, MEMBER, member, d1)->state, MEMBER_SUSPECT);
    assert_int_equal(expect(&t, MEMBER, member, d2)->state, MEMBER_SUSPECT);
    talk_end(&t);
}

static void who_may_not_join_is_told_why(void **state)
{
    struct talk t;
    struct blob *name = blob_str("w"), *central = blob_str("central");
    const struct {
        struct msg_join join;
        int err;
    } table[] = {
        {{.name = name, .slots = 1, .version = 99, .role = ROLE_WORKER}, HAWK_EVERSION},
        {{.name = NULL, .slots = 1, .version = PROTOCOL_VERSION, .role = ROLE_WORKER}, HAWK_EINVALID},
        {{.name = name, .slots = 0, .version = PROTOCOL_VERSION, .role = ROLE_WORKER}, HAWK_EINVALID},
        {{.name = name, .slots = 1, .version = PROTOCOL_VERSION, .role = ROLE_CENTRAL}, HAWK_EINVALID},
        {{.name = name, .slots = 1, .version = PROTOCOL_VERSION, .role = ROLE_DIST}, HAWK_EINVALID},
        {{.name = central, .slots = 1, .version = PROTOCOL_VERSION, .role = ROLE_WORKER}, HAWK_EINVALID},
    };

    talk_begin(&t);
    tell(&t, PEER_UP, peer_up, 1, .role = ROLE_WORKER);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        tell_msg(&t, (struct msg){.type = MSG_JOIN, .peer = 1, .join = table[i].join});
        const struct msg_refused *r = expect(&t, REFUSED, refused, 1);
        assert_int_equal(r->err, table[i].err);
        assert_true(r->why->len > 0);
        expect_nothing_else(&t);
    }
    blob_drop(name);
    blob_drop(central);
    talk_end(&t);
}

static void a_name_in_use_is_taken(void **state)
{
    struct talk t;
    uint32_t first, second;

    talk_begin(&t);
    first = add_worker(&t, "w1", 1);
    second = join(&t, (struct join){.name = "w1", .incarnation = 2, .slots = 1, .role = ROLE_WORKER});
    assert_int_equal(expect(&t, REFUSED, refused, second)->err, HAWK_ENAME_TAKEN);
    expect_nothing_else(&t);
    /* Another role under a known name is a mistake, whoever lives. */
    tell(&t, PEER_LOST, peer_lost, first, 0);
    second = join(&t, (struct join){.name = "w1", .incarnation = 2, .role = ROLE_DIST});
    assert_int_equal(expect(&t, REFUSED, refused, second)->err, HAWK_EINVALID);
    /* Suspect: the next process gets the name, and the id. */
    second = join(&t, (struct join){.name = "w1", .incarnation = 2, .slots = 1, .role = ROLE_WORKER});
    assert_int_equal(expect(&t, JOINED, joined, second)->node.v, 1);
    talk_end(&t);
}

static void a_new_stream_of_the_same_process_takes_the_place_of_the_old(void **state)
{
    struct talk t;
    uint32_t old, new;

    talk_begin(&t);
    old = add_worker(&t, "w1", 1);
    new = join(&t, (struct join){.name = "w1", .slots = 1, .role = ROLE_WORKER});
    assert_int_equal(expect(&t, JOINED, joined, new)->node.v, 1);
    expect_none(&t, REFUSED, old);
    tell(&t, PEER_LOST, peer_lost, old, 0); /* of no more meaning */
    expect_nothing_else(&t);
    tell(&t, HEARTBEAT, heartbeat, new, .seq = 9);
    assert_int_equal(expect(&t, HEARTBEAT_ACK, heartbeat_ack, new)->seq, 9);
    talk_end(&t);
}

static void a_silent_one_whose_name_is_taken_is_sent_away(void **state)
{
    struct talk t;
    uint32_t old, new;

    talk_config(&t);
    t.config.heartbeats = true;
    talk_start(&t);
    tell(&t, RECOVERED, recovered, 0, 0);
    old = add_worker(&t, "w1", 1);
    pass(&t, 4 * S);
    new = join(&t, (struct join){.name = "w1", .incarnation = 2, .slots = 1, .role = ROLE_WORKER});
    assert_int_equal(expect(&t, REFUSED, refused, old)->err, HAWK_ENAME_TAKEN);
    assert_int_equal(expect(&t, JOINED, joined, new)->node.v, 1);
    tell(&t, HEARTBEAT, heartbeat, old, .seq = 1);
    expect_nothing_else(&t);
    talk_end(&t);
}

static void nobody_joins_before_the_end_of_recovery(void **state)
{
    struct talk t;
    struct blob *name = blob_str("w7");

    talk_config(&t);
    talk_start(&t);
    tell(&t, JOURNAL_NODE, journal_node, 0, .name = name, .node = {7}, .role = ROLE_WORKER);
    join(&t, (struct join){.name = "d1", .role = ROLE_DIST});
    expect_nothing_else(&t);
    join(&t, (struct join){.name = "w7", .slots = 1, .role = ROLE_WORKER});
    expect_nothing_else(&t);
    tell(&t, RECOVERED, recovered, 0, 0);
    assert_int_equal(expect(&t, JOINED, joined, 2)->node.v, 7); /* as before the restart */
    assert_int_equal(expect(&t, JOINED, joined, 1)->node.v, 8);
    blob_drop(name);
    talk_end(&t);
}

static void the_number_of_names_is_limited(void **state)
{
    struct talk t;
    uint32_t link;

    talk_config(&t);
    t.config.nodes_max = 1;
    talk_start(&t);
    tell(&t, RECOVERED, recovered, 0, 0);
    add_worker(&t, "w1", 1);
    link = join(&t, (struct join){.name = "w2", .slots = 1, .role = ROLE_WORKER});
    assert_int_equal(expect(&t, REFUSED, refused, link)->err, HAWK_ELIMIT);
    talk_end(&t);
}

static void a_disk_that_is_full_delays_a_join(void **state)
{
    struct talk t;

    talk_begin(&t);
    t.journal_by_hand = true;
    join(&t, (struct join){.name = "w1", .slots = 1, .role = ROLE_WORKER});
    tell(&t, JOURNAL_DONE, journal_done, 0, .token = 1, .err = HAWK_ELIMIT);
    expect_nothing_else(&t);
    pass(&t, 2 * S);
    assert_int_equal(expect(&t, JOURNAL_NODE, journal_node, 0)->token, 2);
    tell(&t, JOURNAL_DONE, journal_done, 0, .token = 2);
    expect(&t, JOINED, joined, 1);
    talk_end(&t);
}

/* ---- Silence (1.5, 1.6) ---- */

static enum member_state state_of(struct talk *t, uint32_t node)
{
    struct central_node v;

    assert_true(central_view_node(t->c, (node_id_t){node}, t->now_us, &v));
    return v.member.state;
}

static void silence_makes_suspect_then_gone(void **state)
{
    struct talk t;
    uint32_t w, d;

    talk_config(&t);
    t.config.heartbeats = true;
    talk_start(&t);
    tell(&t, RECOVERED, recovered, 0, 0);
    w = add_worker(&t, "w1", 1);
    d = add_dist(&t, "d1");
    for (int i = 0; i < 20; i++) {
        pass(&t, 500 * MS);
        tell(&t, HEARTBEAT, heartbeat, d, .seq = (uint32_t)i);
        expect(&t, HEARTBEAT_ACK, heartbeat_ack, d);
        assert_int_equal(state_of(&t, 1), i < 5 ? MEMBER_UP : MEMBER_SUSPECT);
        assert_int_equal(state_of(&t, 2), MEMBER_UP);
    }
    /* It speaks again: up, and told where it is, for that may have changed. */
    tell(&t, HEARTBEAT, heartbeat, w, .seq = 1, .quiet = 1);
    expect_none(&t, HEARTBEAT_ACK, w);
    expect(&t, PARTITION, partition, w);
    assert_int_equal(expect(&t, MEMBER, member, d)->state, MEMBER_UP);
    pass(&t, 64 * S);
    assert_int_equal(state_of(&t, 1), MEMBER_GONE);
    assert_int_equal(state_of(&t, 2), MEMBER_GONE);
    tell(&t, HEARTBEAT, heartbeat, w, .seq = 2);
    assert_int_equal(state_of(&t, 1), MEMBER_UP);
    talk_end(&t);
}

static void without_heartbeats_only_a_broken_stream_makes_suspect(void **state)
{
    struct talk t;
    uint32_t w;

    talk_begin(&t);
    w = add_worker(&t, "w1", 1);
    pass(&t, 3600 * S);
    assert_int_equal(state_of(&t, 1), MEMBER_UP);
    tell(&t, PEER_LOST, peer_lost, w, 0);
    assert_int_equal(state_of(&t, 1), MEMBER_SUSPECT);
    pass(&t, 60 * S - 1);
    assert_int_equal(state_of(&t, 1), MEMBER_SUSPECT);
    pass(&t, 1);
    assert_int_equal(state_of(&t, 1), MEMBER_GONE);
    talk_end(&t);
}

static void who_leaves_is_gone_at_once(void **state)
{
    struct talk t;
    uint32_t w, d;

    talk_begin(&t);
    d = add_dist(&t, "d1");
    w = add_worker(&t, "w1", 1);
    tell(&t, LEAVE, leave, w, 0);
    assert_int_equal(expect(&t, MEMBER, member, d)->state, MEMBER_GONE);
    tell(&t, HEARTBEAT, heartbeat, w, .seq = 3); /* what it still says is not heard */
    expect_nothing_else(&t);
    join_on(&t, w, (struct join){.name = "w1", .slots = 1, .incarnation = 9, .role = ROLE_WORKER});
    assert_int_equal(expect(&t, REFUSED, refused, w)->err, HAWK_EINVALID); /* one stream, one life */
    expect_nothing_else(&t);
    tell(&t, PEER_LOST, peer_lost, w, 0);
    assert_int_equal(state_of(&t, 2), MEMBER_GONE);
    talk_end(&t);
}

static void counters_and_heartbeats_are_kept(void **state)
{
    struct talk t;
    struct central_node v;
    uint32_t w;

    talk_begin(&t);
    w = add_worker(&t, "w1", 3);
    tell(&t, HEARTBEAT, heartbeat, w, .seq = 1, .queued = 5, .running_short = 2, .running_long = 1);
    tell(&t, COUNTER, counter, w, .counter = COUNTER_tasks_started, .value = 99);
    tell(&t, COUNTER, counter, w, .counter = 100000, .value = 1);
    assert_true(central_view_node(t.c, (node_id_t){1}, t.now_us, &v));
    assert_int_equal(v.queued, 5);
    assert_int_equal(v.running_short, 2);
    assert_int_equal(v.running_long, 1);
    assert_int_equal(v.counters[COUNTER_tasks_started], 99);
    assert_int_equal(v.link, w);
    assert_true(v.partition_acked);
    assert_int_equal(central_next_node(t.c, NODE_NONE).v, 1);
    assert_int_equal(central_next_node(t.c, (node_id_t){1}).v, 0);
    talk_end(&t);
}

/* ---- Member lists for workers (1.7) ---- */

/* As a setting may say: they are sent as fast as the rate allows, and nobody waits for nothing. */
static void lists_without_a_pause_are_sent_as_well(void **state)
{
    struct talk t;
    uint32_t w1, w2;

    talk_config(&t);
    t.config.members_push_us = 0;
    talk_start(&t);
    tell(&t, RECOVERED, recovered, 0, 0);
    w1 = add_worker(&t, "w1", 1);
    w2 = add_worker(&t, "w2", 1);
    pass(&t, 1 * S);
    assert_int_equal(expect(&t, MEMBERS, members, w1)->list->n, 2);
    assert_int_equal(expect(&t, MEMBERS, members, w2)->list->n, 2);
    talk_end(&t);
}

static void workers_are_sent_lists_now_and_then(void **state)
{
    struct talk t;
    uint32_t w1, w2;
    const struct members *m1, *m2;

    talk_begin(&t);
    w1 = add_worker(&t, "w1", 1);
    w2 = add_worker(&t, "w2", 1);
    add_dist(&t, "d1");
    pass(&t, 1 * S);
    m1 = expect(&t, MEMBERS, members, w1)->list;
    m2 = expect(&t, MEMBERS, members, w2)->list;
    assert_int_equal(m1->n, 3);
    assert_ptr_equal(m1, m2); /* one list for all */
    expect_nothing_else(&t);
    /* A burst of changes is one list. */
    for (int i = 0; i < 50; i++) {
        char name[16];

        snprintf(name, sizeof name, "x%d", i);
        add_dist(&t, name);
        t.now_us += 1 * MS;
    }
    pass(&t, 1 * S);
    assert_int_equal(count_out(&t, MSG_MEMBERS), 2);
    assert_int_equal(expect(&t, MEMBERS, members, w1)->list->n, 53);
    talk_end(&t);
}

static void a_big_clusters_lists_are_sent_in_portions(void **state)
{
    enum { N = 2000 };
    struct talk t;
    uint32_t got[N + 1] = {0}, last = 0;

    talk_begin(&t);
    for (int i = 0; i < N; i++) {
        char name[100];

        snprintf(name, sizeof name, "%090d", i); /* some 200 bytes each: 400 kB a list, 800 MB for all */
        join(&t, (struct join){.name = name, .slots = 1, .role = ROLE_WORKER});
        ack_partition(&t, (uint32_t)i + 1);
    }
    /* At 20 MB/s: ten lists every 200 ms, to one worker after the other. */
    for (int round = 0; round < 50 * 5; round++) {
        pass(&t, 200 * MS);
        assert_true(count_out(&t, MSG_MEMBERS) <= 10);
        for (uint32_t i = 0; i < t.out.n; i++) {
            assert_int_equal(t.out.v[i].members.list->n, N);
            got[t.out.v[i].peer]++;
            last = (uint32_t)round;
        }
    }
    for (uint32_t i = 1; i <= N; i++)
        assert_int_equal(got[i], 1);
    assert_in_range(last, 190, 210);
    assert_int_equal(central_next_timeout(t.c), TIME_NEVER); /* and then there is silence */
    talk_end(&t);
}

/* ---- Stopping (8) ---- */

static void it_stops_when_its_journal_is_quiet(void **state)
{
    struct talk t;

    talk_begin(&t);
    t.journal_by_hand = true;
    join(&t, (struct join){.name = "d1", .role = ROLE_DIST});
    tell(&t, STOP, stop, 0, .now = 0);
    expect_nothing_else(&t);
    tell(&t, JOURNAL_DONE, journal_done, 0, .token = 1);
    expect(&t, STOPPED, stopped, 0);
    expect_nothing_else(&t);
    pass(&t, 100 * S);
    expect_nothing_else(&t);
    talk_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_joins),
        cmocka_unit_test(a_join_is_answered_however_much_else_is_said),
        cmocka_unit_test(a_dist_is_told_of_everybody),
        cmocka_unit_test(who_may_not_join_is_told_why),
        cmocka_unit_test(a_name_in_use_is_taken),
        cmocka_unit_test(a_new_stream_of_the_same_process_takes_the_place_of_the_old),
        cmocka_unit_test(a_silent_one_whose_name_is_taken_is_sent_away),
        cmocka_unit_test(nobody_joins_before_the_end_of_recovery),
        cmocka_unit_test(the_number_of_names_is_limited),
        cmocka_unit_test(a_disk_that_is_full_delays_a_join),
        cmocka_unit_test(silence_makes_suspect_then_gone),
        cmocka_unit_test(without_heartbeats_only_a_broken_stream_makes_suspect),
        cmocka_unit_test(who_leaves_is_gone_at_once),
        cmocka_unit_test(counters_and_heartbeats_are_kept),
        cmocka_unit_test(lists_without_a_pause_are_sent_as_well),
        cmocka_unit_test(workers_are_sent_lists_now_and_then),
        cmocka_unit_test(a_big_clusters_lists_are_sent_in_portions),
        cmocka_unit_test(it_stops_when_its_journal_is_quiet),
    };

    return cmocka_run_group_tests_name("central_nodes", tests, NULL, NULL);
}
