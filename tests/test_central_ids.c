/* A central that lost its state, and the ids of nodes that come back to it (protocol 1.8). */
#include "tests/test_central.h"

#define FORMER 66 /* the cluster before; this one is 77 */
#define NODES_MAX 100

/* It has nothing, and waits for who had an id. */
static void begin_empty(struct talk *t)
{
    talk_config(t);
    t->config.ids_wait_us = 3 * S;
    t->config.nodes_max = NODES_MAX;
    talk_start(t);
    tell(t, RECOVERED, recovered, 0, 0);
}

static uint32_t come_back(struct talk *t, const char *name, uint32_t node, enum role role)
{
    return join(
        t, (struct join){
               .name = name, .slots = role == ROLE_WORKER, .role = role, .node = node, .cluster = FORMER});
}

static uint32_t come_new(struct talk *t, const char *name)
{
    return join(t, (struct join){.name = name, .slots = 1, .role = ROLE_WORKER});
}

static void expect_refused(struct talk *t, uint32_t link, int err, const char *why)
{
    const struct msg_refused *r = expect(t, REFUSED, refused, link);

    assert_int_equal(r->err, err);
    assert_non_null(strstr(r->why->data, why));
}

static void who_comes_back_keeps_its_id(void **state)
{
    struct talk t;
    const struct msg_journal_cluster *j;
    const struct msg_joined *m;
    uint32_t fresh, early, d;

    begin_empty(&t);
    early = come_new(&t, "w8");
    fresh = come_new(&t, "w9");
    expect_nothing_else(&t); /* 1 and 2 may be somebody's */
    d = come_back(&t, "d1", 2, ROLE_DIST);
    j = expect(&t, JOURNAL_CLUSTER, journal_cluster, 0);
    assert_int_equal(j->former, FORMER);
    assert_int_equal(j->node.v, 2 + NODES_MAX);
    assert_int_equal(j->young, 1);
    m = expect(&t, JOINED, joined, d);
    assert_int_equal(m->node.v, 2);
    assert_int_equal(m->cluster, 77);
    assert_int_equal(m->former, FORMER);
    /* Beyond every id that was given out, in the order they came. */
    assert_int_equal(expect(&t, JOINED, joined, early)->node.v, 2 + NODES_MAX);
    assert_int_equal(expect(&t, JOINED, joined, fresh)->node.v, 3 + NODES_MAX);
    assert_int_equal(expect(&t, JOINED, joined, come_back(&t, "w1", 1, ROLE_WORKER))->node.v, 1);
    assert_int_equal(expect(&t, JOINED, joined, come_new(&t, "w10"))->node.v, 4 + NODES_MAX);
    talk_end(&t);
}

static void nobody_with_an_id_makes_a_new_cluster(void **state)
{
    struct talk t;
    uint32_t fresh, known;

    begin_empty(&t);
    fresh = come_new(&t, "w1");
    pass(&t, 3 * S - 1);
    expect_none(&t, JOINED, fresh);
    pass(&t, 1);
    assert_int_equal(expect(&t, JOINED, joined, fresh)->node.v, 1);
    expect_none(&t, JOURNAL_CLUSTER, 0);
    expect_refused(&t, come_back(&t, "d1", 2, ROLE_DIST), HAWK_ESTALE, "another cluster");
    /* Of a version that does not say its cluster. */
    known = join(&t, (struct join){.name = "d2", .role = ROLE_DIST, .node = 7});
    assert_int_equal(expect(&t, JOINED, joined, known)->node.v, 7);
    talk_end(&t);
}

/* Both came while the journal was still being read; the first one waits again, for the second one's id. */
static void who_came_before_the_journal_was_read(void **state)
{
    struct talk t;
    uint32_t fresh, d;

    talk_config(&t);
    t.config.ids_wait_us = 3 * S;
    t.config.nodes_max = NODES_MAX;
    talk_start(&t);
    fresh = come_new(&t, "w9");
    d = come_back(&t, "d1", 2, ROLE_DIST);
    expect_nothing_else(&t);
    tell(&t, RECOVERED, recovered, 0, 0);
    assert_int_equal(expect(&t, JOINED, joined, d)->node.v, 2);
    assert_int_equal(expect(&t, JOINED, joined, fresh)->node.v, 2 + NODES_MAX);
    talk_end(&t);
}

static void an_early_one_that_leaves_is_forgotten(void **state)
{
    struct talk t;
    uint32_t gone;

    begin_empty(&t);
    gone = come_new(&t, "w1");
    tell(&t, PEER_LOST, peer_lost, gone, 0);
    pass(&t, 3 * S);
    expect_none(&t, JOURNAL_NODE, 0);
    assert_int_equal(expect(&t, JOINED, joined, come_new(&t, "w2"))->node.v, 1);
    talk_end(&t);
}

static void nobody_is_called_something_else(void **state)
{
    struct talk t;

    begin_empty(&t);
    expect(&t, JOINED, joined, come_back(&t, "d1", 1, ROLE_DIST));
    expect_refused(&t, come_back(&t, "w1", 1, ROLE_WORKER), HAWK_EINVALID, "belongs to another name");
    expect_refused(&t, come_back(&t, "w1", NODE_ID_MAX + 1, ROLE_WORKER), HAWK_EINVALID,
                   "belongs to another");
    expect(&t, JOINED, joined, come_back(&t, "w1", 2, ROLE_WORKER));
    tell(&t, PEER_LOST, peer_lost, t.links, 0);
    expect_refused(&t, come_back(&t, "w1", 3, ROLE_WORKER), HAWK_EINVALID, "another id");
    expect(&t, JOINED, joined, come_back(&t, "w1", 2, ROLE_WORKER));
    expect_refused(&t, join(&t, (struct join){.name = "d9", .role = ROLE_DIST, .node = 9, .cluster = 55}),
                   HAWK_ESTALE, "another cluster");
    talk_end(&t);
}

/* The wait, the gap and the cluster before outlive a restart. */
static void a_successor_stays_one(void **state)
{
    struct talk t;
    uint32_t fresh;

    talk_config(&t);
    t.config.ids_wait_us = 3 * S;
    talk_start(&t);
    tell(&t, JOURNAL_CLUSTER, journal_cluster, 0, .former = FORMER, .node = {102}, .young = 1);
    tell(&t, RECOVERED, recovered, 0, 0);
    fresh = come_new(&t, "w1");
    assert_int_equal(expect(&t, JOINED, joined, fresh)->node.v, 102);
    assert_int_equal(expect(&t, JOINED, joined, come_back(&t, "d1", 2, ROLE_DIST))->former, FORMER);
    talk_end(&t);
}

/* ---- What the one before had placed ---- */

static void what_may_run_is_not_placed_for_a_lease(void **state)
{
    struct cluster c;
    const struct msg_task_enqueue *m;

    begin_empty(&c.t);
    c.d = come_back(&c.t, "d1", 1, ROLE_DIST);
    c.w[0] = come_back(&c.t, "w1", 2, ROLE_WORKER);
    ack_partition(&c.t, c.w[0]);
    c.w[1] = come_back(&c.t, "w2", 3, ROLE_WORKER);
    ack_partition(&c.t, c.w[1]);
    tell(&c.t, HELD_END, held_end, c.w[1], 0);
    submit(&c.t, c.d, 1, 2, 5 * S);
    expect(&c.t, LONG_ACCEPTED, long_accepted, c.d);
    expect_none(&c.t, TASK_ENQUEUE, c.w[1]);
    /* The first one runs, and goes on. */
    tell(&c.t, TASK_HELD, task_held, c.w[0], .id = try_of(c.d, 1, 0, 3), .run_us = 2 * S,
         .state = TASK_RUNNING);
    expect_none(&c.t, TASK_CANCEL, c.w[0]);
    expect_task(&c, 0, TASK_RUNNING);
    tell(&c.t, HELD_END, held_end, c.w[0], 0);
    /* Of what it never placed nobody's cancelled end is one. */
    finished(&c.t, c.w[1], try_of(c.d, 1, 1, 1), OUTCOME_CANCELLED, 15, 2 * S);
    expect(&c.t, FINISH_ACK, finish_ack, c.w[1]);
    expect_none(&c.t, JOURNAL_TASK, 0);
    pass(&c.t, 60 * S - 1);
    expect_none(&c.t, TASK_ENQUEUE, c.w[1]);
    pass(&c.t, 1);
    m = expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[1]);
    assert_int_equal(m->id.task, 1);
    assert_true(m->id.attempt > 1);
    assert_int_equal(expect(&c.t, JOURNAL_CLUSTER, journal_cluster, 0)->young, 0);
    finished(&c.t, c.w[0], try_of(c.d, 1, 0, 3), OUTCOME_EXITED, 0, 60 * S);
    submit(&c.t, c.d, 2, 1, 5 * S); /* from now on it is a central like any */
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0]);
    end(&c);
}

/* It cannot know how long the job has been there, nor which dist its client moved it to. */
static void what_a_dist_offers_again_may_be_older_and_elsewhere(void **state)
{
    struct cluster c;
    uint32_t other;
    const struct msg_journal_task *end_of_task;

    begin_empty(&c.t);
    c.d = come_back(&c.t, "d1", 1, ROLE_DIST);
    c.w[0] = come_back(&c.t, "w1", 2, ROLE_WORKER);
    ack_partition(&c.t, c.w[0]);
    submit(&c.t, c.d, 1, 1, 5 * S);
    tell(&c.t, TASK_HELD, task_held, c.w[0], .id = try_of(c.d, 1, 0, 1), .run_us = 500 * S,
         .state = TASK_RUNNING);
    tell(&c.t, HELD_END, held_end, c.w[0], 0);
    tell(&c.t, LONG_CANCEL, long_cancel, c.d, .job = JOB(1, 1), .epoch = 1, .owner = 1, .abandoned = 1);
    expect_none(&c.t, JOURNAL_CANCEL, 0);
    tell(&c.t, LONG_WATCH, long_watch, c.d, .job = JOB(1, 1), .epoch = 1);
    other = come_back(&c.t, "d2", 3, ROLE_DIST);
    tell(&c.t, LONG_WATCH, long_watch, other, .job = JOB(1, 1), .epoch = 1, .owner = 3);
    pass(&c.t, 60 * S);
    expect_none(&c.t, JOB_ABANDONED, 0);
    finished(&c.t, c.w[0], try_of(c.d, 1, 0, 1), OUTCOME_EXITED, 0, 600 * S);
    end_of_task = expect(&c.t, JOURNAL_TASK, journal_task, 0);
    assert_int_equal(end_of_task->outcome, OUTCOME_EXITED);
    assert_int_equal(end_of_task->run_us, 600 * S);
    end(&c);
}

/* Its predecessor's tasks may run on however often it restarts itself. */
static void a_restart_does_not_end_the_wait(void **state)
{
    struct cluster c;

    talk_config(&c.t);
    talk_start(&c.t);
    tell(&c.t, JOURNAL_CLUSTER, journal_cluster, 0, .former = FORMER, .node = {102}, .young = 1);
    tell(&c.t, RECOVERED, recovered, 0, 0);
    c.d = come_back(&c.t, "d1", 1, ROLE_DIST);
    c.w[0] = come_back(&c.t, "w1", 2, ROLE_WORKER);
    ack_partition(&c.t, c.w[0]);
    tell(&c.t, HELD_END, held_end, c.w[0], 0);
    submit(&c.t, c.d, 1, 1, 5 * S);
    expect(&c.t, LONG_ACCEPTED, long_accepted, c.d);
    expect_none(&c.t, TASK_ENQUEUE, c.w[0]);
    pass(&c.t, 60 * S - 1);
    expect_none(&c.t, TASK_ENQUEUE, c.w[0]);
    pass(&c.t, 1);
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0]);
    assert_int_equal(expect(&c.t, JOURNAL_CLUSTER, journal_cluster, 0)->young, 0);
    end(&c);
}

/* ---- Job numbers (protocol 11.8) ---- */

static struct join dist_again(uint64_t incarnation, uint32_t node)
{
    return (struct join){.name = "d1", .role = ROLE_DIST, .incarnation = incarnation, .node = node};
}

static void expect_numbers(struct talk *t, uint32_t link, uint64_t next)
{
    for (uint32_t i = 0; i < t->out.n; i++) /* it is to know when it has joined */
        if (t->out.v[i].peer == link && t->out.v[i].type != MSG_REFUSED) {
            assert_int_equal(t->out.v[i].type, next ? MSG_JOB_NUMBERS : MSG_JOINED);
            break;
        }
    if (next)
        assert_int_equal(expect(t, JOB_NUMBERS, job_numbers, link)->next, next);
    expect(t, JOINED, joined, link);
}

static void a_dist_is_told_its_job_numbers(void **state)
{
    struct talk t;
    uint32_t d;

    talk_begin(&t);
    d = join(&t, dist_again(1, 0));
    expect_numbers(&t, d, 1); /* a new name: nobody gave out any */
    tell(&t, JOB_NUMBERS, job_numbers, d, .next = 1001);
    assert_int_equal(expect(&t, JOURNAL_NODE, journal_node, 0)->next_seq, 1001);
    tell(&t, JOB_NUMBERS, job_numbers, d, .next = 1001);
    expect_nothing_else(&t); /* once is enough */
    tell(&t, PEER_LOST, peer_lost, d, .role = ROLE_DIST);
    d = join(&t, dist_again(2, 1)); /* another process, whatever its journal is */
    expect_numbers(&t, d, 1001);
    tell(&t, JOB_NUMBERS, job_numbers, d, .next = 2001);
    tell(&t, JOB_NUMBERS, job_numbers, d, .next = 1012); /* it leaves, and has not used the others */
    tell(&t, LEAVE, leave, d, 0);
    d = join(&t, dist_again(3, 0));
    expect_numbers(&t, d, 1012);
    expect_none(&t, JOB_NUMBERS, join(&t, (struct join){.name = "w1", .slots = 1, .role = ROLE_WORKER}));
    talk_end(&t);
}

/* The secret of receipts comes with them: to dists, and to nobody else. */
static void a_dist_is_told_what_receipts_are_made_with(void **state)
{
    const struct receipt_secret secret = {.low = 11, .high = 12};
    const struct msg_job_numbers *m;
    struct talk t;

    talk_config(&t);
    t.config.receipts = secret;
    t.config.receipts_due_us = t.now_us + 90 * S;
    talk_start(&t);
    tell(&t, RECOVERED, recovered, 0, 0);
    m = expect(&t, JOB_NUMBERS, job_numbers, join(&t, dist_again(1, 0)));
    assert_memory_equal(m->receipts->data, &secret, sizeof secret);
    assert_int_equal(m->receipts->len, sizeof secret);
    assert_int_equal(m->receipts_due_s, 90);
    expect_none(&t, JOB_NUMBERS, join(&t, (struct join){.name = "w1", .slots = 1, .role = ROLE_WORKER}));
    talk_end(&t);
}

static void job_numbers_outlive_central(void **state)
{
    struct blob *name = blob_str("d1");
    struct talk t;

    talk_config(&t);
    talk_start(&t);
    tell(&t, JOURNAL_NODE, journal_node, 0, .name = name, .node = {1}, .role = ROLE_DIST, .next_seq = 501);
    tell(&t, RECOVERED, recovered, 0, 0);
    expect_numbers(&t, join(&t, dist_again(1, 1)), 501);
    talk_end(&t);
    /* From a journal in which nothing was said of them. */
    talk_config(&t);
    talk_start(&t);
    tell(&t, JOURNAL_NODE, journal_node, 0, .name = name, .node = {1}, .role = ROLE_DIST);
    tell(&t, RECOVERED, recovered, 0, 0);
    expect_numbers(&t, join(&t, dist_again(1, 1)), 0);
    talk_end(&t);
    /* It has lost its state. */
    begin_empty(&t);
    expect_numbers(&t, come_back(&t, "d1", 2, ROLE_DIST), 0);
    talk_end(&t);
    blob_drop(name);
}

/* Whoever speaks an older version says nothing of its numbers. */
static void numbers_of_an_older_dist_are_not_known(void **state)
{
    struct talk t;
    struct blob *name = blob_str("d1");
    struct msg j = {.type = MSG_JOIN,
                    .peer = 1,
                    .join = {.name = name, .addr = name, .incarnation = 1, .version = 2, .role = ROLE_DIST}};

    talk_begin(&t);
    tell(&t, PEER_UP, peer_up, 1, .role = ROLE_DIST, .version = 2);
    tell_msg(&t, j);
    assert_int_equal(expect(&t, JOURNAL_NODE, journal_node, 0)->next_seq, 0);
    expect_numbers(&t, 1, 0);
    talk_end(&t);
    blob_drop(name);
}

static void a_record_that_fails_is_written_again(void **state)
{
    struct talk t;
    uint64_t token;

    begin_empty(&t);
    t.journal_by_hand = true;
    come_back(&t, "d1", 1, ROLE_DIST);
    expect(&t, JOURNAL_CLUSTER, journal_cluster, 0);
    token = expect(&t, JOURNAL_NODE, journal_node, 0)->token;
    expect_nothing_else(&t);
    tell(&t, JOURNAL_DONE, journal_done, 0, .token = token, .err = HAWK_ELIMIT);
    pass(&t, 2 * S);
    expect(&t, JOURNAL_CLUSTER, journal_cluster, 0);
    token = expect(&t, JOURNAL_NODE, journal_node, 0)->token;
    tell(&t, JOURNAL_DONE, journal_done, 0, .token = token);
    expect(&t, JOINED, joined, 1);
    talk_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_comes_back_keeps_its_id),
        cmocka_unit_test(nobody_with_an_id_makes_a_new_cluster),
        cmocka_unit_test(who_came_before_the_journal_was_read),
        cmocka_unit_test(an_early_one_that_leaves_is_forgotten),
        cmocka_unit_test(nobody_is_called_something_else),
        cmocka_unit_test(a_successor_stays_one),
        cmocka_unit_test(what_may_run_is_not_placed_for_a_lease),
        cmocka_unit_test(what_a_dist_offers_again_may_be_older_and_elsewhere),
        cmocka_unit_test(a_restart_does_not_end_the_wait),
        cmocka_unit_test(a_dist_is_told_its_job_numbers),
        cmocka_unit_test(a_dist_is_told_what_receipts_are_made_with),
        cmocka_unit_test(job_numbers_outlive_central),
        cmocka_unit_test(numbers_of_an_older_dist_are_not_known),
        cmocka_unit_test(a_record_that_fails_is_written_again),
    };

    return cmocka_run_group_tests_name("central_ids", tests, NULL, NULL);
}
