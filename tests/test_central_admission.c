/* Uses of invitations, as central counts them. */
#include "tests/test_central.h"

static struct msg_admit wish(uint64_t invitation, uint64_t use, const char *name)
{
    return (struct msg_admit){.name = blob_str(name),
                              .invitation = invitation,
                              .use = use,
                              .client = 9,
                              .uses = 2,
                              .role = ROLE_WORKER,
                              .several = 1};
}

static void ask(struct talk *t, struct msg_admit wanted)
{
    struct msg m = {.type = MSG_ADMIT, .admit = wanted};

    tell_msg(t, m);
    msg_drop(&m);
}

static int answer(struct talk *t, struct msg_admit m)
{
    const struct msg_admitted *a;

    ask(t, m);
    a = expect(t, ADMITTED, admitted, 0);
    assert_int_equal(a->client, 9);
    return a->err;
}

static void uses_are_counted_by_invitation(void **state)
{
    struct talk t;

    talk_begin(&t);
    assert_int_equal(answer(&t, wish(1, 11, "a")), 0);
    assert_int_equal(expect(&t, JOURNAL_ADMITTED, journal_admitted, 0)->use, 11);
    assert_int_equal(answer(&t, wish(1, 11, "a")), 0); /* asked again: the same use */
    assert_int_equal(answer(&t, wish(1, 12, "b")), 0);
    assert_int_equal(answer(&t, wish(1, 13, "c")), HAWK_ELIMIT);
    assert_int_equal(answer(&t, wish(1, 12, "b")), 0);
    assert_int_equal(answer(&t, wish(2, 14, "c")), 0);
    /* A month later no such invitation is good any more, and its uses are forgotten. */
    t.now_us += INT64_C(32) * 24 * 3600 * S;
    assert_int_equal(answer(&t, wish(1, 13, "d")), 0);
    talk_end(&t);
}

static void a_name_that_somebody_has_is_not_given_out(void **state)
{
    struct talk t;
    struct msg_admit m;

    talk_begin(&t);
    add_worker(&t, "w1", 1);
    assert_int_equal(answer(&t, wish(1, 11, "w1")), HAWK_ENAME_TAKEN);
    assert_int_equal(answer(&t, wish(1, 12, "w2")), 0);
    assert_int_equal(answer(&t, wish(2, 13, "w2")), HAWK_ENAME_TAKEN); /* it may join at any time */
    m = wish(2, 14, "w1");
    m.role = ROLE_DIST; /* another name */
    assert_int_equal(answer(&t, m), 0);
    m = wish(3, 15, "w1");
    m.several = 0; /* the operator has named it */
    assert_int_equal(answer(&t, m), 0);
    talk_end(&t);
}

static void a_use_is_on_record_before_the_answer(void **state)
{
    struct talk t;
    struct msg_journal_admitted r;

    talk_begin(&t);
    t.journal_by_hand = true;
    ask(&t, wish(1, 11, "a"));
    r = *expect(&t, JOURNAL_ADMITTED, journal_admitted, 0);
    expect_none(&t, ADMITTED, 0);
    tell(&t, JOURNAL_DONE, journal_done, 0, .token = r.token, .err = HAWK_EIO);
    assert_int_equal(expect(&t, ADMITTED, admitted, 0)->err, HAWK_EIO);
    tell(&t, JOURNAL_DONE, journal_done, 0, .token = r.token); /* written after all: no second answer */
    expect_none(&t, ADMITTED, 0);
    ask(&t, wish(1, 11, "a"));
    r = *expect(&t, JOURNAL_ADMITTED, journal_admitted, 0);
    tell(&t, JOURNAL_DONE, journal_done, 0, .token = r.token);
    assert_int_equal(expect(&t, ADMITTED, admitted, 0)->err, 0);
    talk_end(&t);
}

/* A use of invitation 1 that the journal holds. */
static void tell_use(struct talk *t, const char *name, uint64_t use, int64_t ago_us)
{
    struct msg m = {
        .type = MSG_JOURNAL_ADMITTED,
        .journal_admitted = {
            .name = blob_str(name), .invitation = 1, .use = use, .role = ROLE_WORKER, .ago_us = ago_us}};

    tell_msg(t, m);
    msg_drop(&m);
}

static void uses_are_read_back(void **state)
{
    struct talk t;

    memset(&t, 0, sizeof t);
    talk_config(&t);
    t.c = central_new(&t.config);
    tell(&t, START, start, 0);
    tell_use(&t, "a", 11, 5 * S);
    tell_use(&t, "b", 12, INT64_C(32) * 24 * 3600 * S);
    tell(&t, RECOVERED, recovered, 0);
    assert_int_equal(answer(&t, wish(1, 13, "c")), 0); /* the older one does not count */
    assert_int_equal(answer(&t, wish(1, 14, "d")), HAWK_ELIMIT);
    assert_int_equal(answer(&t, wish(1, 11, "a")), 0);
    talk_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uses_are_counted_by_invitation),
        cmocka_unit_test(a_name_that_somebody_has_is_not_given_out),
        cmocka_unit_test(a_use_is_on_record_before_the_answer),
        cmocka_unit_test(uses_are_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
