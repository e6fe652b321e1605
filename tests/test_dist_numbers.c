/* Job numbers are never given out twice: docs/protocol.md 11.8. */
#include "tests/test_dist.h"

#define BLOCK 10
#define SKIP UINT64_C(1000000000)

static struct talk *talk_numbers(void)
{
    struct talk *t = talk_new("hawk");

    t->cfg.seq_block = BLOCK;
    talk_begin(t);
    return t;
}

/* heard: what central says; 0: it knows nothing. */
static void join(struct talk *t, uint64_t heard)
{
    HEAR(t, CENTRAL, PEER_UP, peer_up, .role = ROLE_CENTRAL, .version = 3);
    says(t, "central JOIN name=\"d\" addr=\"a\" incarnation=77");
    if (heard)
        HEAR(t, CENTRAL, JOB_NUMBERS, job_numbers, .next = heard);
    HEAR(t, CENTRAL, JOINED, joined, .cluster = 1, .heartbeat_us = 500000, .lease_us = 60000000,
         .node = {ME});
}

/* The block that it reserves ends there. */
static void reserves(struct talk *t, uint64_t end, uint64_t token)
{
    char line[100];

    snprintf(line, sizeof line, "- JOURNAL_NUMBERS token=%u next=%llu", (unsigned)token,
             (unsigned long long)end);
    says(t, line);
    snprintf(line, sizeof line, "central JOB_NUMBERS next=%llu", (unsigned long long)end);
    says(t, line);
}

static void durable(struct talk *t, uint64_t token)
{
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = token);
}

/* Of a job that is submitted now; 0: it is refused with *err. */
static uint64_t seq_of_another(struct talk *t, int *err)
{
    submit(t, desc_new(1, ""));
    for (uint32_t i = 0; i < t->out.n; i++)
        if (t->out.v[i].type == MSG_SUBMITTED) {
            t->heard[i] = true;
            *err = t->out.v[i].submitted.err;
            return *err ? 0 : job_id_seq(t->out.v[i].submitted.job);
        }
    fail_msg("there is no answer");
    return 0;
}

static void gives(struct talk *t, uint64_t seq)
{
    int err = 0;

    assert_int_equal(seq_of_another(t, &err), seq);
    assert_int_equal(err, 0);
}

static void refuses(struct talk *t, int expected)
{
    int err = 0;

    assert_int_equal(seq_of_another(t, &err), 0);
    assert_int_equal(err, expected);
}

/* The number in what it says to central, or has journalled. */
static uint64_t end_said(struct talk *t)
{
    uint64_t end = 0;

    for (uint32_t i = 0; i < t->out.n; i++) {
        const struct msg *m = &t->out.v[i];

        if (m->type != MSG_JOURNAL_NUMBERS && m->type != MSG_JOB_NUMBERS)
            continue;
        t->heard[i] = true;
        end = m->type == MSG_JOURNAL_NUMBERS ? m->journal_numbers.next : m->job_numbers.next;
    }
    return end;
}

static void test_none_before_they_are_on_record(void **state)
{
    struct talk *t = talk_numbers();

    HEAR(t, 0, RECOVERED, recovered, 0);
    join(t, 1);
    reserves(t, 1 + BLOCK, 1);
    assert_false(dist_ready(&t->d));
    refuses(t, HAWK_ENOT_REGISTERED);
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 1, .err = HAWK_EIO);
    refuses(t, HAWK_ENOT_REGISTERED);
    durable(t, 1);
    assert_true(dist_ready(&t->d));
    gives(t, 1);
    gives(t, 2);
    talk_end(t);
}

static void test_the_next_block_is_reserved_half_a_block_ahead(void **state)
{
    struct talk *t = talk_numbers();

    join(t, 1);
    reserves(t, 11, 1);
    durable(t, 1);
    for (uint64_t i = 1; i < 5; i++)
        gives(t, i);
    gives(t, 5);
    reserves(t, 21, 2);
    for (uint64_t i = 6; i <= 10; i++)
        gives(t, i);
    refuses(t, HAWK_EIO); /* the disk is slow */
    durable(t, 2);
    gives(t, 11);
    talk_end(t);
}

/* The journal may be an older copy, or gone. */
static void test_central_may_know_more(void **state)
{
    struct talk *t = talk_numbers();

    HEAR(t, 0, JOURNAL_NUMBERS, journal_numbers, .next = 401);
    join(t, 501);
    reserves(t, 511, 1);
    durable(t, 1);
    gives(t, 501);
    talk_end(t);
}

/* It lost its state; or it was away when the journal was written, which may be a copy from then. */
static void test_where_central_knows_less_numbers_are_skipped(void **state)
{
    static const uint64_t heard[] = {0, 400};

    for (unsigned i = 0; i < 2; i++) {
        struct talk *t = talk_numbers();
        uint64_t end;

        HEAR(t, 0, JOURNAL_NUMBERS, journal_numbers, .next = 401);
        join(t, heard[i]);
        end = end_said(t);
        assert_in_range(end, 401 + SKIP + BLOCK, 401 + 2 * SKIP + BLOCK);
        durable(t, 1);
        gives(t, end - BLOCK);
        talk_end(t);
    }
}

static void test_skipping_does_not_use_them_up(void **state)
{
    struct talk *t = talk_numbers();

    HEAR(t, 0, JOURNAL_NUMBERS, journal_numbers, .next = JOB_SEQ_MAX - 100);
    join(t, 0);
    assert_int_equal(end_said(t), JOB_SEQ_MAX - 50 + BLOCK);
    talk_end(t);
    t = talk_numbers();
    HEAR(t, 0, JOURNAL_NUMBERS, journal_numbers, .next = JOB_SEQ_MAX);
    join(t, 0);
    assert_int_equal(end_said(t), JOB_SEQ_MAX + 1);
    durable(t, 1);
    gives(t, JOB_SEQ_MAX);
    refuses(t, HAWK_ELIMIT);
    talk_end(t);
}

static void test_the_same_process_goes_on(void **state)
{
    struct talk *t = talk_numbers();

    join(t, 1);
    reserves(t, 11, 1);
    durable(t, 1);
    gives(t, 1);
    HEAR(t, CENTRAL, PEER_LOST, peer_lost, .role = ROLE_CENTRAL);
    join(t, 11); /* says it again: central may have died before it could write that */
    says(t, "central JOB_NUMBERS next=11");
    gives(t, 2);
    HEAR(t, CENTRAL, PEER_LOST, peer_lost, .role = ROLE_CENTRAL);
    join(t, 0); /* it has lost its state */
    says(t, "central JOB_NUMBERS next=11");
    gives(t, 3);
    /* Another process of this name was there, and gave out more. */
    HEAR(t, CENTRAL, PEER_LOST, peer_lost, .role = ROLE_CENTRAL);
    join(t, 501);
    reserves(t, 511, 2);
    durable(t, 2);
    gives(t, 501);
    talk_end(t);
}

/* A later process with an older journal would be given what follows the number that central knows. */
static void test_numbers_that_central_cannot_be_told_are_skipped(void **state)
{
    struct talk *t = talk_numbers();
    uint64_t end;

    join(t, 1);
    reserves(t, 11, 1);
    durable(t, 1);
    gives(t, 1);
    HEAR(t, CENTRAL, PEER_LOST, peer_lost, .role = ROLE_CENTRAL);
    for (uint64_t i = 2; i <= 5; i++)
        gives(t, i);
    end = end_said(t);
    assert_in_range(end, 11 + SKIP + BLOCK, 11 + 2 * SKIP + BLOCK);
    durable(t, 2);
    for (uint64_t i = 6; i <= 10; i++)
        gives(t, i);
    for (uint64_t i = 0; i < 5; i++)
        gives(t, end - BLOCK + i);
    assert_int_equal(end_said(t), end + BLOCK); /* once is enough */
    join(t, 11);
    assert_int_equal(end_said(t), end + BLOCK);
    durable(t, 3);
    gives(t, end - 5);
    talk_end(t);
}

static void test_central_returns_before_they_are_needed(void **state)
{
    struct talk *t = talk_numbers();
    uint64_t end;

    join(t, 1);
    reserves(t, 11, 1);
    durable(t, 1);
    HEAR(t, CENTRAL, PEER_LOST, peer_lost, .role = ROLE_CENTRAL);
    for (uint64_t i = 1; i <= 5; i++)
        gives(t, i);
    end = end_said(t);
    durable(t, 2);
    join(t, 11);
    assert_int_equal(end_said(t), end);
    for (uint64_t i = 6; i <= 12; i++)
        gives(t, i);
    talk_end(t);
}

static void test_who_leaves_gives_the_rest_back(void **state)
{
    struct talk *t = talk_numbers();

    join(t, 1);
    reserves(t, 11, 1);
    durable(t, 1);
    gives(t, 1);
    HEAR(t, 0, STOP, stop, .now = 1);
    says(t, "- JOURNAL_NUMBERS token=2 next=2");
    says(t, "central JOB_NUMBERS next=2");
    says(t, "central LEAVE");
    says(t, "- STOPPED asked=1");
    talk_end(t);
}

static void test_a_record_that_is_not_taken_is_written_again(void **state)
{
    struct talk *t = talk_numbers();

    join(t, 1);
    reserves(t, 11, 1);
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 1, .err = HAWK_ELIMIT);
    wait_timer(t, US_PER_S);
    says(t, "- JOURNAL_NUMBERS token=2 next=11");
    durable(t, 2);
    gives(t, 1);
    talk_end(t);
}

/* A central that lost its state has made another. Clients have receipts that were made with the one before. */
static void test_the_secret_before_the_last_is_kept(void **state)
{
    const struct receipt_secret v[3] = {{.low = 1}, {.low = 2}, {.high = 3}};
    struct talk *t = talk_numbers();
    const struct receipt_secret *kept = dist_receipts(&t->d);

    HEAR(t, CENTRAL, PEER_UP, peer_up, .role = ROLE_CENTRAL, .version = 3);
    says(t, "central JOIN name=\"d\" addr=\"a\" incarnation=77");
    for (int i = 0; i < 3; i++)
        for (int again = 0; again < 2; again++) {
            struct blob *b = blob_new(&v[i], sizeof v[i]);

            HEAR(t, CENTRAL, JOB_NUMBERS, job_numbers, .next = 1, .receipts = b,
                 .receipts_due_s = (uint32_t)(2 * i));
            blob_drop(b);
            assert_memory_equal(&kept[0], &v[i], sizeof v[i]);
            if (i > 0)
                assert_memory_equal(&kept[1], &v[i - 1], sizeof v[i]);
            assert_true(dist_receipts_due(&t->d, t->now + 2 * i * US_PER_S));
            assert_false(dist_receipts_due(&t->d, t->now + 2 * i * US_PER_S - 1));
        }
    talk_end(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_none_before_they_are_on_record),
        cmocka_unit_test(test_the_next_block_is_reserved_half_a_block_ahead),
        cmocka_unit_test(test_central_may_know_more),
        cmocka_unit_test(test_where_central_knows_less_numbers_are_skipped),
        cmocka_unit_test(test_skipping_does_not_use_them_up),
        cmocka_unit_test(test_the_same_process_goes_on),
        cmocka_unit_test(test_numbers_that_central_cannot_be_told_are_skipped),
        cmocka_unit_test(test_central_returns_before_they_are_needed),
        cmocka_unit_test(test_who_leaves_gives_the_rest_back),
        cmocka_unit_test(test_a_record_that_is_not_taken_is_written_again),
        cmocka_unit_test(test_the_secret_before_the_last_is_kept),
    };

    return cmocka_run_group_tests_name("dist_numbers", tests, NULL, NULL);
}
