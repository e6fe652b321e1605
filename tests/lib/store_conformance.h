/* What every backend of the store has to do: tests that test_store.c runs on SQLite's file and
 * test_store_etcd.c on a real etcd. */
#ifndef HAWK_TESTS_STORE_CONFORMANCE_H
#define HAWK_TESTS_STORE_CONFORMANCE_H

#include "tests/lib/store_fixture.h"

/* ---- Round trip ---- */

static void test_round_trip(void **state)
{
    struct fixture *f = *state;
    struct task_set *set = task_set_new(2);
    struct told t;

    set->v[0] = 1;
    set->v[1] = 3;
    assert_int_equal(open_store(f), 0);
    t = recover(f);
    assert_int_equal(t.len, 0);
    write_cluster(f, 1, 66, 102, true);
    write_node(f, 1, 4, "w4");
    write_node(f, 2, 1, "");
    write_cluster(f, 2, UINT64_MAX, 103, false);
    write_job(f, 3, 17, 1, 2, NULL);
    write_job(f, 4, 9, 2, 4, set);
    write_task(f, 5, 9, 2, 3);
    write_task(f, 6, 9, 2, 1);
    write_history(f, "h1", 111);
    write_history(f, "h2", 222);
    write_job(f, 7, 20, 1, 1, NULL);
    write_task(f, 8, 20, 1, 0);
    write_end(f, 9, 20, 1);
    wait_token(f, 9);
    task_set_drop(set);
    reopen(f);
    t = recover(f);
    assert_int_equal(t.count[MSG_HISTORY], 2);
    assert_int_equal(t.first_history_us, 111);
    assert_int_equal(t.last_history_us, 222);
    assert_int_equal(t.count[MSG_JOURNAL_CLUSTER], 1);
    assert_int_equal(t.count[MSG_JOURNAL_NODE], 2);
    assert_int_equal(t.count[MSG_JOURNAL_JOB], 2);
    assert_int_equal(t.count[MSG_JOURNAL_TASK], 2);
    assert_non_null(strstr(t.text, "HISTORY"));
    assert_non_null(strstr(t.text, "former=18446744073709551615 node=103 young=0"));
    /* Its cluster and history, nodes, then each job with its tasks. */
    assert_true(strstr(t.text, "JOURNAL_CLUSTER") < strstr(t.text, "JOURNAL_NODE"));
    assert_true(strstr(t.text, "HISTORY") < strstr(t.text, "JOURNAL_NODE"));
    assert_true(strstr(t.text, "JOURNAL_NODE") < strstr(t.text, "JOURNAL_JOB"));
    assert_true(strstr(t.text, "job=16777200.9 ") < strstr(t.text, "JOURNAL_TASK"));
    assert_true(strstr(t.text, "JOURNAL_TASK") < strstr(t.text, "job=16777200.17 "));
    assert_non_null(
        strstr(t.text, "run_us=701 worker=0 code=-1 state=5 outcome=2 failures=0 losses=0 used=100us,200B"));
    free(t.text);
}

static void write_cancel(struct fixture *f, uint64_t token, uint64_t seq, uint16_t epoch)
{
    struct msg m = {.type = MSG_JOURNAL_CANCEL,
                    .journal_cancel = {.token = token, .job = job(seq), .epoch = epoch}};

    assert_int_equal(store_write(f->s, &m), 0);
}

static void write_owner(struct fixture *f, uint64_t token, uint64_t seq, uint16_t epoch, uint16_t owner)
{
    struct msg m = {.type = MSG_JOURNAL_OWNER,
                    .journal_owner = {.token = token, .job = job(seq), .epoch = epoch, .owner = owner}};

    assert_int_equal(store_write(f->s, &m), 0);
}

static void write_released(struct fixture *f, uint64_t token, uint64_t seq, uint16_t epoch, uint32_t upto)
{
    struct msg m = {.type = MSG_JOURNAL_RELEASED,
                    .journal_released = {.token = token, .job = job(seq), .epoch = epoch, .upto = upto}};

    assert_int_equal(store_write(f->s, &m), 0);
}

static void test_a_job_is_replaced_and_ends(void **state)
{
    struct fixture *f = *state;
    struct told t;

    assert_int_equal(open_store(f), 0);
    write_job(f, 1, 5, 2, 1, NULL);
    write_job(f, 2, 5, 2, 3, NULL);
    wait_token(f, 2);
    reopen(f);
    t = recover(f);
    assert_int_equal(t.count[MSG_JOURNAL_JOB], 1);
    free(t.text);
    write_task(f, 3, 5, 2, 0);
    write_end(f, 4, 5, 2);
    wait_token(f, 4);
    reopen(f);
    t = recover(f);
    assert_int_equal(t.len, 0);
}

static void test_epochs_of_a_job_are_kept_apart(void **state)
{
    struct fixture *f = *state;
    struct told t;

    assert_int_equal(open_store(f), 0);
    write_job(f, 1, 5, 1, 2, NULL);
    write_task(f, 2, 5, 1, 0);
    write_job(f, 3, 5, 2, 3, NULL);
    write_task(f, 4, 5, 2, 0);
    write_cancel(f, 5, 5, 2);
    write_cancel(f, 6, 6, 1); /* of no job: nothing */
    write_owner(f, 6, 5, 2, 3);
    write_owner(f, 6, 5, 2, 7);
    write_released(f, 6, 5, 2, 16);
    write_released(f, 6, 5, 2, 32);
    wait_token(f, 6);
    reopen(f);
    t = recover(f);
    assert_int_equal(t.count[MSG_JOURNAL_JOB], 2);
    assert_int_equal(t.count[MSG_JOURNAL_TASK], 2);
    assert_int_equal(t.count[MSG_JOURNAL_CANCEL], 1);
    assert_non_null(strstr(t.text, "JOURNAL_CANCEL job=16777200.5 token=0 epoch=2"));
    assert_int_equal(t.count[MSG_JOURNAL_OWNER], 1);
    assert_non_null(strstr(t.text, "JOURNAL_OWNER job=16777200.5 token=0 epoch=2 owner=7"));
    assert_int_equal(t.count[MSG_JOURNAL_RELEASED], 1);
    assert_non_null(strstr(t.text, "JOURNAL_RELEASED job=16777200.5 token=0 epoch=2 upto=32"));
    free(t.text);
    write_end(f, 7, 5, 1);
    wait_token(f, 7);
    t = recover(f);
    assert_int_equal(t.count[MSG_JOURNAL_JOB], 1);
    assert_int_equal(t.count[MSG_JOURNAL_TASK], 1);
    assert_int_equal(t.count[MSG_JOURNAL_CANCEL], 1);
    free(t.text);
}

static void test_commits_are_told_in_order_and_in_groups(void **state)
{
    struct fixture *f = *state;
    struct told t;

    assert_int_equal(open_store(f), 0);
    write_job(f, 1, 1, 1, 1, NULL);
    for (uint32_t i = 0; i < 20000; i++)
        write_task(f, 2 + i, 1, 1, i);
    wait_token(f, 20001);
    print_message("20,001 writes in %d commits\n", f->done.calls);
    assert_true(f->done.calls < 5000);
    assert_int_equal(f->done.failures, 0);
    t = recover(f); /* and it may be asked at any time */
    assert_int_equal(t.count[MSG_JOURNAL_TASK], 20000);
    free(t.text);
}

static void test_other_messages_are_refused(void **state)
{
    struct fixture *f = *state;
    struct msg m = {.type = MSG_TASK_STARTED};

    assert_int_equal(open_store(f), 0);
    assert_int_equal(store_write(f->s, &m), HAWK_EINVALID);
    assert_int_equal(store_close(NULL), 0);
}

/* A value that could not be read back would keep the journal from being read at all. */
static void test_what_could_not_be_read_is_refused(void **state)
{
    struct fixture *f = *state;
    char name[LIMIT_NAME_BYTES + 1];
    struct msg m = {.type = MSG_JOURNAL_ADMITTED, .journal_admitted = {.token = 1, .use = 5}};
    struct msg ended = {.type = MSG_JOURNAL_ENDED, .journal_ended = {.token = 2, .state = JOB_STATE_COUNT}};

    memset(name, 'a', sizeof name);
    m.journal_admitted.name = blob_new(name, sizeof name);
    assert_int_equal(open_store(f), 0);
    assert_int_equal(store_write(f->s, &m), HAWK_EINVALID);
    assert_int_equal(store_write(f->s, &ended), HAWK_EINVALID);
    msg_drop(&m);
    m.journal_admitted.name = blob_new(name, sizeof name - 1);
    assert_int_equal(store_write(f->s, &m), 0);
    wait_token(f, 1);
    msg_drop(&m);
    reopen(f);
    free(recover(f).text);
}

static void test_closing_commits_what_is_queued(void **state)
{
    struct fixture *f = *state;
    struct told t;

    assert_int_equal(open_store(f), 0);
    for (uint32_t i = 1; i <= 100; i++)
        write_node(f, i, i, "n");
    reopen(f); /* without a wait */
    assert_int_equal(f->done.token, 100);
    t = recover(f);
    assert_int_equal(t.count[MSG_JOURNAL_NODE], 100);
    free(t.text);
}

static void test_history_keeps_the_last(void **state)
{
    struct fixture *f = *state;
    struct told t;

    assert_int_equal(open_store(f), 0);
    for (int i = 1; i <= STORE_HISTORY_JOBS + 500; i++)
        write_history(f, "recurring", i);
    reopen(f);
    t = recover(f);
    assert_int_equal(t.count[MSG_HISTORY], STORE_HISTORY_JOBS);
    assert_int_equal(t.first_history_us, 501);
    assert_int_equal(t.last_history_us, STORE_HISTORY_JOBS + 500);
    free(t.text);
}

/* Two jobs of user 1, then more than there is room for of user 2: whoever has most makes room, before and after a
 * restart. */
static void test_history_of_a_user_stays(void **state)
{
    struct fixture *f = *state;
    struct told t;

    assert_int_equal(open_store(f), 0);
    write_history_of(f, 1, "nightly", 1);
    for (int i = 2; i <= STORE_HISTORY_JOBS + 200; i++) {
        write_history_of(f, 2, "tiny", i);
        if (i == STORE_HISTORY_JOBS + 100) {
            write_history_of(f, 1, "nightly", i);
            reopen(f);
        }
    }
    reopen(f);
    t = recover(f);
    assert_int_equal(t.count[MSG_HISTORY], STORE_HISTORY_JOBS);
    assert_int_equal(t.history_of_user_1, 2);
    assert_int_equal(t.first_history_us, 1);
    assert_int_equal(t.last_history_us, STORE_HISTORY_JOBS + 200);
    free(t.text);
}

/* What is nobody's, such as all records of earlier versions, makes room for what is somebody's. */
static void test_history_of_nobody_goes_first(void **state)
{
    struct fixture *f = *state;
    struct told t;

    assert_int_equal(open_store(f), 0);
    for (int i = 1; i <= STORE_HISTORY_JOBS; i++)
        write_history(f, "old", i);
    reopen(f);
    for (int i = 1; i <= STORE_HISTORY_JOBS - 1; i++)
        write_history_of(f, 1, "new", STORE_HISTORY_JOBS + i);
    reopen(f);
    t = recover(f);
    assert_int_equal(t.count[MSG_HISTORY], STORE_HISTORY_JOBS);
    assert_int_equal(t.history_of_user_1, STORE_HISTORY_JOBS - 1);
    assert_int_equal(t.first_history_us, STORE_HISTORY_JOBS);
    free(t.text);
}

static void test_numbers(void **state)
{
    struct fixture *f = *state;
    uint64_t v = 0, cluster;
    uint32_t epoch;

    assert_int_equal(open_store(f), 0);
    cluster = store_cluster_id(f->s);
    epoch = store_epoch(f->s);
    assert_int_not_equal(cluster, 0);
    assert_int_not_equal(epoch, 0);
    assert_int_equal(store_meta_get(f->s, "node", &v), HAWK_ENOT_FOUND);
    assert_int_equal(store_meta_set(f->s, "node", UINT64_MAX - 1), 0);
    reopen(f);
    assert_true(store_cluster_id(f->s) == cluster);
    assert_int_equal(store_epoch(f->s), epoch + 1);
    assert_int_equal(store_meta_get(f->s, "node", &v), 0);
    assert_true(v == UINT64_MAX - 1);
}

static void write_dist(struct fixture *f, uint64_t token, uint32_t node, uint64_t next_seq)
{
    struct msg m = {
        .type = MSG_JOURNAL_NODE,
        .journal_node = {
            .name = blob_str("d1"), .token = token, .node = {node}, .role = ROLE_DIST, .next_seq = next_seq}};

    assert_int_equal(store_write(f->s, &m), 0);
    blob_drop(m.journal_node.name);
}

/* Central's: the last that was said counts, larger or not. */
static void test_job_numbers_of_a_dist(void **state)
{
    struct fixture *f = *state;
    struct told t;

    assert_int_equal(open_store(f), 0);
    write_dist(f, 1, 7, JOB_SEQ_MAX + 1);
    wait_token(f, 1);
    reopen(f);
    t = recover(f);
    assert_int_equal(t.count[MSG_JOURNAL_NODE], 1);
    assert_non_null(strstr(t.text, "node=7 role=2 drained=0 next_seq=1099511627776"));
    free(t.text);
    write_dist(f, 2, 7, 12);
    wait_token(f, 2);
    reopen(f);
    t = recover(f);
    assert_int_equal(t.count[MSG_JOURNAL_NODE], 1);
    assert_non_null(strstr(t.text, "next_seq=12"));
    free(t.text);
}

/* What dists write. */
static void test_a_job_is_changed_without_its_description(void **state)
{
    struct fixture *f = *state;
    struct msg m = {.type = MSG_JOURNAL_JOB}, end = {.type = MSG_JOURNAL_TASK};
    struct task_set *set = task_set_new(1);
    struct told t;

    set->v[0] = 3;
    assert_int_equal(open_store(f), 0);
    write_job(f, 1, 5, 1, 4, NULL);
    m.journal_job = (struct msg_journal_job){.job = job(5),
                                             .token = 2,
                                             .tasks = set,
                                             .epoch = 1,
                                             .life = 65535,
                                             .handed = 2,
                                             .why = WHY_PROMOTED,
                                             .class = CLASS_LONG};
    assert_int_equal(store_write(f->s, &m), 0);
    m.journal_job.job = job(6); /* which it does not have */
    m.journal_job.token = 3;
    assert_int_equal(store_write(f->s, &m), 0);
    end.journal_task = (struct msg_journal_task){
        .id = {job(5), 1, 1, 7}, .token = 4, .run_us = 9, .worker = {77}, .state = TASK_DONE};
    assert_int_equal(store_write(f->s, &end), 0);
    wait_token(f, 4);
    reopen(f);
    t = recover(f);
    assert_int_equal(t.count[MSG_JOURNAL_JOB], 1);
    assert_non_null(strstr(t.text, "tasks=1of estimate_us=0 epoch=1 life=65535 handed=2 why=4 class=1"));
    assert_non_null(strstr(t.text, "run_us=9 worker=77 code=0 state=4"));
    free(t.text);
    task_set_drop(set);
}

/* The end of one task could not be written: the job goes on (docs/protocol.md 11.5), and its tasks need it. */
static void test_a_job_that_goes_on_keeps_its_environment(void **state)
{
    struct fixture *f = *state;
    struct msg m = {.type = MSG_JOURNAL_ENDED};
    struct told t;

    assert_int_equal(open_store(f), 0);
    write_job(f, 1, 5, 1, 2, NULL);
    write_task(f, 2, 5, 1, 1);
    m.journal_ended = (struct msg_journal_ended){.job = job(5), .token = 3, .epoch = 1, .state = JOB_DONE};
    assert_int_equal(store_write(f->s, &m), 0);
    wait_token(f, 3);
    reopen(f);
    t = recover(f);
    assert_int_equal(t.with_env, 1);
    free(t.text);
    write_task(f, 4, 5, 1, 0);
    m.journal_ended.token = 5;
    assert_int_equal(store_write(f->s, &m), 0);
    wait_token(f, 5);
    reopen(f);
    t = recover(f);
    assert_int_equal(t.count[MSG_JOURNAL_JOB], 1);
    assert_int_equal(t.with_env, 0);
    free(t.text);
}

/* What is there of the policy; "": nothing. */
static void policy_told(void *arg, const struct msg *m)
{
    if (m->type == MSG_JOURNAL_POLICY) {
        assert_in_range(m->journal_policy.ago_us, 0, 600 * US_PER_S);
        msg_format(&(struct msg){.type = m->type,
                                 .journal_policy = {.choice = m->journal_policy.choice,
                                                    .configured = m->journal_policy.configured}},
                   arg, 300);
        assert_int_equal(m->journal_policy.choice->v.cutoff_us, 77);
        assert_int_equal(m->journal_policy.choice->v.min_probes, 0);
    }
}

static void assert_policy(struct fixture *f, const char *text)
{
    char told[300] = "";

    assert_int_equal(store_recover(f->s, policy_told, told), 0);
    assert_string_equal(told, text);
}

static void write_policy(struct fixture *f, uint64_t token, struct policy_choice *choice)
{
    struct msg m = {.type = MSG_JOURNAL_POLICY,
                    .journal_policy = {.token = token, .choice = choice, .configured = 99}};

    assert_int_equal(store_write(f->s, &m), 0);
    wait_token(f, token);
}

static void test_the_last_choice_of_policy_is_kept(void **state)
{
    struct fixture *f = *state;
    struct policy_choice c = {.refs = 1,
                              .preset = policy_preset_number("split", 5),
                              .flags = POLICY_STEAL | POLICY_REPROBE,
                              .numbers = POLICY_NUMBER_CUTOFF | POLICY_NUMBER_MIN_PROBES,
                              .v = {.flags = POLICY_STEAL, .cutoff_us = 77, .steal_cap = 4}};

    assert_int_equal(open_store(f), 0);
    assert_policy(f, "");
    write_policy(f, 1, &c);
    c.preset = policy_preset_number("sparrow", 7);
    write_policy(f, 2, &c);
    reopen(f);
    assert_policy(f,
                  "JOURNAL_POLICY choice=sparrow:flags=0x2/0x102,numbers=0x9 token=0 configured=99 ago_us=0");
    write_policy(f, 3, NULL);
    reopen(f);
    assert_policy(f, "");
}

static void policy_taken(void *arg, const struct msg *m)
{
    if (m->type == MSG_JOURNAL_POLICY) {
        *(struct policy *)arg = m->journal_policy.choice->v;
        assert_int_equal(m->journal_policy.choice->numbers, POLICY_NUMBERS_ALL);
    }
}

/* What an operator may set is never taken for damage. */
static void test_numbers_at_both_ends_of_their_ranges(void **state)
{
    struct fixture *f = *state;
    struct policy_choice c = {.refs = 1, .numbers = POLICY_NUMBERS_ALL};

    assert_int_equal(open_store(f), 0);
    for (int greatest = 0; greatest < 2; greatest++) {
        struct policy got = {0};

#define X(name, bit, scope, field, min, max) c.v.field = (__typeof__(c.v.field))(greatest ? (max) : (min));
        POLICY_NUMBERS(X)
#undef X
        write_policy(f, (uint64_t)greatest + 1, &c);
        reopen(f);
        assert_int_equal(store_recover(f->s, policy_taken, &got), 0);
#define X(name, bit, scope, field, min, max) assert_int_equal(got.field, c.v.field);
        POLICY_NUMBERS(X)
#undef X
    }
}

/* A dist's own. */
static void test_job_numbers(void **state)
{
    struct fixture *f = *state;
    struct msg m = {.type = MSG_JOURNAL_NUMBERS, .journal_numbers = {.token = 1, .next = 12}};
    struct told t;

    assert_int_equal(open_store(f), 0);
    assert_int_equal(store_write(f->s, &m), 0);
    wait_token(f, 1);
    reopen(f);
    t = recover(f);
    assert_non_null(strstr(t.text, "JOURNAL_NUMBERS token=0 next=12"));
    free(t.text);
    m.journal_numbers = (struct msg_journal_numbers){.token = 2, .next = JOB_SEQ_MAX + 1};
    assert_int_equal(store_write(f->s, &m), 0);
    wait_token(f, 2);
    reopen(f);
    t = recover(f);
    assert_non_null(strstr(t.text, "JOURNAL_NUMBERS token=0 next=1099511627776"));
    assert_int_equal(t.count[MSG_JOURNAL_NUMBERS], 1);
    free(t.text);
}

/* The use of an invitation. */
static void test_admissions(void **state)
{
    struct fixture *f = *state;
    struct msg m = {.type = MSG_JOURNAL_ADMITTED,
                    .journal_admitted = {.token = 1,
                                         .invitation = UINT64_MAX,
                                         .use = UINT64_MAX - 1,
                                         .role = ROLE_WORKER,
                                         .name = blob_str("hpc-7")}};
    struct told t;

    assert_int_equal(open_store(f), 0);
    assert_int_equal(store_write(f->s, &m), 0);
    m.journal_admitted.token = 2; /* the same use again */
    assert_int_equal(store_write(f->s, &m), 0);
    m.journal_admitted.token = 3;
    m.journal_admitted.use = 5;
    assert_int_equal(store_write(f->s, &m), 0);
    wait_token(f, 3);
    reopen(f);
    t = recover(f);
    assert_int_equal(t.count[MSG_JOURNAL_ADMITTED], 2);
    assert_non_null(
        strstr(t.text, "JOURNAL_ADMITTED name=\"hpc-7\" token=0 invitation=18446744073709551615 use=5 "));
    assert_non_null(strstr(t.text, "use=18446744073709551614 "));
    free(t.text);
    msg_drop(&m);
}

static void draining_of_7(void *arg, const struct msg *m)
{
    if (m->type == MSG_JOURNAL_NODE && m->journal_node.node.v == 7)
        *(int *)arg = m->journal_node.drained;
}

static int recovered_draining(struct fixture *f)
{
    int draining = -1;

    assert_int_equal(store_recover(f->s, draining_of_7, &draining), 0);
    return draining;
}

static void test_a_drained_node_stays_drained(void **state)
{
    struct fixture *f = *state;
    struct msg m = {.type = MSG_JOURNAL_NODE,
                    .journal_node = {.node = {7}, .role = ROLE_WORKER, .drained = 1}};

    assert_int_equal(open_store(f), 0);
    write_node(f, 1, 7, "w7");
    reopen(f);
    assert_int_equal(recovered_draining(f), 0);
    m.journal_node.token = 2;
    m.journal_node.name = blob_str("w7");
    assert_int_equal(store_write(f->s, &m), 0);
    blob_drop(m.journal_node.name);
    reopen(f);
    assert_int_equal(recovered_draining(f), 1);
}

/* The tests above, for both backends' programs. */
#define STORE_CONFORMANCE(TEST)                                                                              \
    TEST(test_round_trip), TEST(test_a_job_is_replaced_and_ends), TEST(test_epochs_of_a_job_are_kept_apart), \
        TEST(test_commits_are_told_in_order_and_in_groups), TEST(test_other_messages_are_refused),           \
        TEST(test_what_could_not_be_read_is_refused), TEST(test_closing_commits_what_is_queued),             \
        TEST(test_history_keeps_the_last), TEST(test_history_of_a_user_stays),                               \
        TEST(test_history_of_nobody_goes_first), TEST(test_numbers), TEST(test_job_numbers_of_a_dist),       \
        TEST(test_job_numbers), TEST(test_admissions), TEST(test_the_last_choice_of_policy_is_kept),         \
        TEST(test_numbers_at_both_ends_of_their_ranges),                                                     \
        TEST(test_a_job_is_changed_without_its_description),                                                 \
        TEST(test_a_job_that_goes_on_keeps_its_environment), TEST(test_a_drained_node_stays_drained)

#endif
