/* Central's reserved partition, and pairing those that are parked with those that are stuck. */
#include "base/rng.h"
#include "tests/test_central.h"

/* ---- The partition (2) ---- */

static void a_share_of_the_slots_is_reserved(void **state)
{
    struct talk t;
    struct central_summary s;

    talk_config(&t);
    t.config.history.share_ppm = 170000;
    talk_start(&t);
    tell(&t, RECOVERED, recovered, 0, 0);
    for (int i = 1; i <= 100; i++) {
        char name[16];

        snprintf(name, sizeof name, "w%d", i);
        add_worker(&t, name, 1);
    }
    central_view_summary(t.c, &s);
    assert_int_equal(s.slots, 100);
    assert_int_equal(s.workers_reserved, 17);
    for (uint32_t i = 1; i <= 100; i++)
        assert_int_equal(general(&t, i), i > 17); /* who joined first, by id */
    talk_end(&t);
}

static void never_more_than_the_share_and_one_general(void **state)
{
    struct talk t;
    struct central_summary s;

    talk_config(&t);
    t.config.history.share_ppm = 500000;
    talk_start(&t);
    tell(&t, RECOVERED, recovered, 0, 0);
    add_worker(&t, "w1", 8); /* too big for half of what there is */
    add_worker(&t, "w2", 2);
    add_worker(&t, "w3", 2);
    central_view_summary(t.c, &s);
    assert_int_equal(s.workers_reserved, 2); /* 4 slots of 12: w2 and w3, though w1 came first */
    talk_end(&t);

    talk_config(&t);
    t.config.history.share_ppm = 1000000;
    talk_start(&t);
    tell(&t, RECOVERED, recovered, 0, 0);
    add_worker(&t, "w1", 1);
    add_worker(&t, "w2", 1);
    central_view_summary(t.c, &s);
    assert_int_equal(s.workers_reserved, 1);
    talk_end(&t);
}

static void a_worker_counts_as_general_only_after_it_said_so(void **state)
{
    struct talk t;
    uint32_t d, w;
    uint32_t epoch;
    const struct msg_member *m;

    talk_begin(&t);
    d = add_dist(&t, "d1");
    w = join(&t, (struct join){.name = "w1", .slots = 1, .role = ROLE_WORKER});
    m = expect(&t, MEMBER, member, d);
    assert_true(!m->general && m->unsettled); /* neither general nor reserved */
    epoch = expect(&t, PARTITION, partition, w)->epoch;
    /* Of what was before, or of nothing that was asked. */
    for (uint32_t other = epoch - 1; other <= epoch + 1; other += 2) {
        tell(&t, PARTITION_ACK, partition_ack, w, .epoch = other);
        expect_nothing_else(&t);
    }
    tell(&t, PARTITION_ACK, partition_ack, w, .epoch = epoch);
    m = expect(&t, MEMBER, member, d);
    assert_true(m->general && !m->unsettled);
    talk_end(&t);
}

static uint32_t reserved(const struct talk *t)
{
    struct central_summary s;

    central_view_summary(t->c, &s);
    return s.workers_reserved;
}

static void who_is_heard_after_its_lease_counts_again(void **state)
{
    struct central_node v;
    struct talk t;

    talk_config(&t);
    t.config.heartbeats = true;
    t.config.history.share_ppm = 340000;
    talk_start(&t);
    tell(&t, RECOVERED, recovered, 0, 0);
    add_worker(&t, "w1", 1);
    add_worker(&t, "w2", 1);
    add_worker(&t, "w3", 1);
    assert_int_equal(reserved(&t), 1);
    hear_alone(&t, 2);
    assert_int_equal(reserved(&t), 0); /* a third of two is none */
    assert_true(central_view_node(t.c, (node_id_t){3}, t.now_us, &v));
    assert_int_equal(v.member.state, MEMBER_GONE);
    assert_false(v.partition_acked);
    tell(&t, HEARTBEAT, heartbeat, 3, .seq = 1);
    assert_int_equal(reserved(&t), 1);
    talk_end(&t);
}

static uint32_t slots_least(const struct talk *t)
{
    struct central_summary s;

    central_view_summary(t->c, &s);
    return s.slots_least;
}

static void a_share_too_small_for_any_worker_shows(void **state)
{
    struct talk t;

    talk_config(&t);
    t.config.history.share_ppm = 340000;
    talk_start(&t);
    tell(&t, RECOVERED, recovered, 0, 0);
    assert_int_equal(slots_least(&t), 0); /* of nobody */
    add_worker(&t, "w1", 8);
    add_worker(&t, "w2", 5);
    assert_int_equal(slots_least(&t), 5); /* 34% of 13 are 4 */
    add_worker(&t, "w3", 2);
    assert_int_equal(slots_least(&t), 0); /* 5 of 15: it is reserved */
    talk_end(&t);

    talk_config(&t);
    t.config.history.share_ppm = 0; /* and none is to be */
    talk_start(&t);
    tell(&t, RECOVERED, recovered, 0, 0);
    add_worker(&t, "w1", 8);
    assert_int_equal(slots_least(&t), 0);
    talk_end(&t);
}

static uint32_t reserved_set(struct talk *t, bool *is, uint32_t n)
{
    uint32_t slots = 0;

    for (uint32_t i = 1; i <= n; i++) {
        struct central_node v;

        is[i] = false;
        if (!central_view_node(t->c, (node_id_t){i}, t->now_us, &v) || v.member.state == MEMBER_GONE)
            continue;
        is[i] = v.partition_acked && !v.member.general;
        slots += is[i] ? v.member.slots : 0;
    }
    return slots;
}

/* Every worker acknowledges what it was told last. */
static void ack_all(struct talk *t)
{
    uint32_t n = t->out.n;
    struct msg *acks = xcalloc(n + 1, sizeof *acks);
    uint32_t n_acks = 0;

    for (uint32_t i = 0; i < n; i++)
        if (t->out.v[i].type == MSG_PARTITION)
            acks[n_acks++] = (struct msg){.type = MSG_PARTITION_ACK,
                                          .peer = t->out.v[i].peer,
                                          .partition_ack = {.epoch = t->out.v[i].partition.epoch}};
    for (uint32_t i = 0; i < n_acks; i++)
        tell_msg(t, acks[i]);
    free(acks);
}

static void as_few_as_possible_move(void **state)
{
    enum { N = 60 };
    struct talk t;
    struct rng rng;
    bool before[N + 1], after[N + 1], here[N + 1] = {false};

    rng_seed(&rng, 5);
    talk_config(&t);
    t.config.history.share_ppm = 250000;
    talk_start(&t);
    tell(&t, RECOVERED, recovered, 0, 0);
    for (uint32_t i = 1; i <= N; i++) {
        char name[16];

        snprintf(name, sizeof name, "w%u", i);
        join(&t, (struct join){.name = name, .slots = 2, .role = ROLE_WORKER});
        ack_all(&t);
        here[i] = true;
    }
    assert_int_equal(reserved_set(&t, before, N), 30);
    for (int round = 0; round < 200; round++) {
        uint32_t w = 1 + (uint32_t)rng_below(&rng, N), moved = 0, present = 0;
        char name[16];

        snprintf(name, sizeof name, "w%u", w);
        if (here[w]) {
            tell(&t, LEAVE, leave, w, 0);
        } else { /* on a new stream of that number */
            tell(&t, PEER_LOST, peer_lost, w, 0);
            tell(&t, PEER_UP, peer_up, w, .role = ROLE_WORKER);
            join_on(&t, w, (struct join){.name = name, .slots = 2, .role = ROLE_WORKER});
        }
        here[w] = !here[w];
        ack_all(&t);
        for (uint32_t i = 1; i <= N; i++)
            present += here[i];
        if (present < 2)
            continue;
        assert_int_equal(reserved_set(&t, after, N), present * 2 / 4 / 2 * 2);
        for (uint32_t i = 1; i <= N; i++)
            moved += i != w && here[i] && before[i] != after[i];
        assert_true(moved <= 1);
        memcpy(before, after, sizeof before);
    }
    talk_end(&t);
}

static void after_a_restart_the_same_workers_are_reserved(void **state)
{
    struct talk t;

    talk_config(&t);
    t.config.history.share_ppm = 500000;
    talk_start(&t);
    for (uint32_t i = 1; i <= 4; i++) {
        char name[16];
        struct blob *b;

        snprintf(name, sizeof name, "w%u", i);
        b = blob_str(name);
        tell(&t, JOURNAL_NODE, journal_node, 0, .name = b, .node = {i}, .role = ROLE_WORKER);
        blob_drop(b);
    }
    tell(&t, RECOVERED, recovered, 0, 0);
    for (int i = 4; i >= 1; i--) { /* they come back in another order */
        char name[16];

        snprintf(name, sizeof name, "w%d", i);
        join(&t, (struct join){.name = name, .slots = 1, .role = ROLE_WORKER});
        assert_int_equal(count_out(&t, MSG_PARTITION), 0);
    }
    pass(&t, 3 * S);
    assert_int_equal(count_out(&t, MSG_PARTITION), 4);                 /* once each */
    assert_int_equal(expect(&t, PARTITION, partition, 4)->general, 0); /* w1 */
    assert_int_equal(expect(&t, PARTITION, partition, 3)->general, 0);
    assert_int_equal(expect(&t, PARTITION, partition, 2)->general, 1);
    assert_int_equal(expect(&t, PARTITION, partition, 1)->general, 1);
    talk_end(&t);
}

/* ---- Pairing and LONG_WORK (5.5, 5.6) ---- */

static void parked_and_stuck_are_paired_in_turn(void **state)
{
    struct talk t;
    uint32_t a, b, v1, v2;

    talk_begin(&t);
    a = add_worker(&t, "thief a", 1);
    b = add_worker(&t, "thief b", 1);
    v1 = add_worker(&t, "victim 1", 1);
    v2 = add_worker(&t, "victim 2", 1);
    pass(&t, 10 * S);
    tell(&t, PARKED, parked, a, .parked = 1);
    expect_nothing_else(&t);
    assert_int_equal(central_next_timeout(t.c), TIME_NEVER); /* one kind alone costs nothing */
    tell(&t, STUCK, stuck, v1, .stuck = 1);
    assert_int_equal(expect(&t, STEAL_HINT, steal_hint, a)->victim.v, v1);
    tell(&t, STUCK, stuck, v2, .stuck = 1);
    expect_none(&t, STEAL_HINT, a); /* not so soon */
    assert_int_equal(central_next_timeout(t.c), t.now_us + 20 * MS);
    pass(&t, 20 * MS);
    assert_int_equal(expect(&t, STEAL_HINT, steal_hint, a)->victim.v, v1);
    pass(&t, 20 * MS);
    assert_int_equal(expect(&t, STEAL_HINT, steal_hint, a)->victim.v, v2); /* within 50 ms of being stuck */
    tell(&t, PARKED, parked, b, .parked = 1);
    pass(&t, 20 * MS);
    assert_int_equal(count_out(&t, MSG_STEAL_HINT), 2); /* a pair for each */
    tell(&t, STUCK, stuck, v1, .stuck = 0);
    tell(&t, STUCK, stuck, v2, .stuck = 0);
    pass(&t, 1 * S);
    expect_none(&t, STEAL_HINT, a);
    expect_none(&t, STEAL_HINT, b);
    talk_end(&t);
}

/* More victims than thieves: the next need not wait for the next round when one is relieved. */
static void who_is_relieved_makes_room_for_the_next(void **state)
{
    struct talk t;
    uint32_t a, v1, v2;

    talk_begin(&t);
    a = add_worker(&t, "thief", 1);
    v1 = add_worker(&t, "victim 1", 1);
    v2 = add_worker(&t, "victim 2", 1);
    pass(&t, 10 * S);
    tell(&t, PARKED, parked, a, .parked = 1);
    tell(&t, STUCK, stuck, v1, .stuck = 1);
    assert_int_equal(expect(&t, STEAL_HINT, steal_hint, a)->victim.v, v1);
    tell(&t, STUCK, stuck, v2, .stuck = 1);
    expect_none(&t, STEAL_HINT, a);
    tell(&t, STUCK, stuck, v1, .stuck = 0);
    assert_int_equal(expect(&t, STEAL_HINT, steal_hint, a)->victim.v, v2); /* at once */
    talk_end(&t);
}

static void a_worker_is_not_its_own_victim(void **state)
{
    struct talk t;
    uint32_t a, b;

    talk_begin(&t);
    a = add_worker(&t, "a", 2);
    b = add_worker(&t, "b", 2);
    tell(&t, PARKED, parked, a, .parked = 1);
    tell(&t, STUCK, stuck, a, .stuck = 1);
    tell(&t, PARKED, parked, b, .parked = 1);
    tell(&t, STUCK, stuck, b, .stuck = 1);
    pass(&t, 50 * MS);
    assert_int_equal(expect(&t, STEAL_HINT, steal_hint, a)->victim.v, b);
    assert_int_equal(expect(&t, STEAL_HINT, steal_hint, b)->victim.v, a);
    talk_end(&t);
}

/* What central's log tells the operator. */
static void changes_of_members_are_reported(void **state)
{
    struct talk t;
    uint32_t w;

    talk_config(&t);
    t.config.heartbeats = true;
    talk_start(&t);
    tell(&t, RECOVERED, recovered, 0, 0);
    w = join(&t, (struct join){.name = "w", .slots = 3, .role = ROLE_WORKER});
    assert_int_equal(expect(&t, NODE_CHANGED, node_changed, 0)->change, CHANGE_JOINED);
    pass(&t, t.config.suspect_us + MS);
    assert_int_equal(expect(&t, NODE_CHANGED, node_changed, 0)->change, CHANGE_SILENT);
    tell(&t, HEARTBEAT, heartbeat, w, .seq = 1);
    assert_int_equal(expect(&t, NODE_CHANGED, node_changed, 0)->change, CHANGE_BACK);
    tell(&t, PEER_LOST, peer_lost, w, .role = ROLE_WORKER);
    assert_int_equal(expect(&t, NODE_CHANGED, node_changed, 0)->change, CHANGE_CUT);
    w = join(&t, (struct join){.name = "w", .slots = 3, .role = ROLE_WORKER, .incarnation = 2});
    assert_int_equal(expect(&t, NODE_CHANGED, node_changed, 0)->change, CHANGE_REPLACED);
    assert_int_equal(expect(&t, NODE_CHANGED, node_changed, 0)->change, CHANGE_BACK);
    tell(&t, LEAVE, leave, w, 0);
    assert_int_equal(expect(&t, NODE_CHANGED, node_changed, 0)->change, CHANGE_LEFT);
    w = join(&t, (struct join){.name = "w", .slots = 3, .role = ROLE_WORKER, .incarnation = 3});
    assert_int_equal(expect(&t, NODE_CHANGED, node_changed, 0)->change, CHANGE_JOINED);
    tell(&t, PEER_LOST, peer_lost, w, .role = ROLE_WORKER);
    pass(&t, t.config.long_lease_us + MS);
    assert_int_equal(expect(&t, NODE_CHANGED, node_changed, 0)->change, CHANGE_GONE);
    talk_end(&t);
}

static void who_is_lost_is_neither_parked_nor_stuck(void **state)
{
    struct talk t;
    uint32_t a, b;

    talk_begin(&t);
    a = add_worker(&t, "a", 1);
    b = add_worker(&t, "b", 1);
    tell(&t, STUCK, stuck, b, .stuck = 1);
    tell(&t, PEER_LOST, peer_lost, b, 0);
    tell(&t, PARKED, parked, a, .parked = 1);
    expect_none(&t, STEAL_HINT, a);
    talk_end(&t);
}

static void workers_hear_whether_there_is_long_work(void **state)
{
    struct talk t;
    uint32_t d, w;

    talk_begin(&t);
    d = add_dist(&t, "d1");
    w = add_worker(&t, "w1", 1);
    submit(&t, d, 1, 1, 5 * S);
    assert_int_equal(expect(&t, LONG_WORK, long_work, w)->any, 1);
    tell(&t, LONG_CANCEL, long_cancel, d, .job = JOB(d, 1), .epoch = 1);
    finished(&t, w, try_of(d, 1, 0, 1), OUTCOME_CANCELLED, 0, 0);
    expect_none(&t, LONG_WORK, w); /* not yet: more may come */
    pass(&t, 999 * MS);
    submit(&t, d, 2, 1, 5 * S);
    expect_none(&t, LONG_WORK, w);
    finished(&t, w, try_of(d, 2, 0, 1), OUTCOME_EXITED, 0, 1 * S);
    pass(&t, 1 * S);
    assert_int_equal(expect(&t, LONG_WORK, long_work, w)->any, 0);
    tell(&t, STUCK, stuck, w, .stuck = 1);
    assert_int_equal(expect(&t, LONG_WORK, long_work, w)->any, 1);
    talk_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_share_of_the_slots_is_reserved),
        cmocka_unit_test(never_more_than_the_share_and_one_general),
        cmocka_unit_test(a_worker_counts_as_general_only_after_it_said_so),
        cmocka_unit_test(who_is_heard_after_its_lease_counts_again),
        cmocka_unit_test(a_share_too_small_for_any_worker_shows),
        cmocka_unit_test(as_few_as_possible_move),
        cmocka_unit_test(after_a_restart_the_same_workers_are_reserved),
        cmocka_unit_test(parked_and_stuck_are_paired_in_turn),
        cmocka_unit_test(who_is_relieved_makes_room_for_the_next),
        cmocka_unit_test(a_worker_is_not_its_own_victim),
        cmocka_unit_test(changes_of_members_are_reported),
        cmocka_unit_test(who_is_lost_is_neither_parked_nor_stuck),
        cmocka_unit_test(workers_hear_whether_there_is_long_work),
    };

    return cmocka_run_group_tests_name("central_partition", tests, NULL, NULL);
}
