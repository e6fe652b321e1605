/* Central and the policy: history, estimates, what is computed from them, and what an operator sets (protocol 2,
 * 3.11). */
#include "tests/test_central.h"

/* ---- History (2, 3.11) ---- */

static void report(struct talk *t, uint32_t dist, const char *name, int64_t mean_us)
{
    struct blob *b = blob_str(name);

    tell(t, JOB_REPORT, job_report, dist, .name = b, .mean_us = mean_us, .task_us = (uint64_t)mean_us * 2,
         .tasks = 2);
    blob_drop(b);
}

static void a_report_goes_to_history_and_to_every_dist(void **state)
{
    struct talk t;
    uint32_t d1, d2, d3;
    const struct msg_history *h;

    talk_begin(&t);
    d1 = add_dist(&t, "d1");
    d2 = add_dist(&t, "d2");
    report(&t, d1, "make", 5 * S);
    h = expect(&t, HISTORY, history, 0);
    assert_int_equal(h->mean_us, 5 * S);
    assert_int_equal(h->task_us, 10 * S);
    assert_int_equal(h->tasks, 2);
    assert_int_equal(expect(&t, ESTIMATE, estimate, d1)->mean_us, 5 * S);
    assert_string_equal(expect(&t, ESTIMATE, estimate, d2)->name->data, "make");
    expect_nothing_else(&t);
    /* The same again is no news. */
    report(&t, d1, "make", 5 * S);
    expect(&t, HISTORY, history, 0);
    expect_nothing_else(&t);
    /* Beyond the cutoff of 10 s it is. */
    report(&t, d1, "make", 90 * S);
    assert_int_equal(expect(&t, ESTIMATE, estimate, d2)->mean_us, 100 * S / 3);
    /* Who joins later is told. */
    report(&t, d1, "", 3 * S);
    expect(&t, HISTORY, history, 0);
    expect_nothing_else(&t);
    d3 = add_dist(&t, "d3");
    assert_int_equal(expect(&t, ESTIMATE, estimate, d3)->runs, 3);
    expect_none(&t, ESTIMATE, d3);
    talk_end(&t);
}

static void cutoff_and_share_follow_history_and_everybody_hears(void **state)
{
    struct talk t;
    struct policy p;
    uint32_t d, w;

    talk_config(&t);
    t.config.history.share_fixed = false;
    t.config.history.min_jobs = 10;
    t.config.history.share_max_ppm = 900000;
    talk_start(&t);
    tell(&t, RECOVERED, recovered, 0, 0);
    d = add_dist(&t, "d1");
    w = add_worker(&t, "w1", 1);
    p = *central_policy(t.c);
    assert_int_equal(p.cutoff_us, 10 * S);
    for (int i = 1; i <= 10; i++)
        report(&t, d, "", i * 100 * S);
    assert_int_equal(expect(&t, POLICY, policy, d)->policy.cutoff_us, 900 * S + 1);
    assert_true(expect(&t, POLICY, policy, w)->policy.version > p.version);
    /* 1000 of 5500 are long. */
    assert_int_equal(central_policy(t.c)->short_share_ppm, 818181);
    assert_true(history_cutoff_computed(central_history(t.c)));
    talk_end(&t);
}

static void history_survives_a_restart(void **state)
{
    struct talk t;
    struct blob *name = blob_str("make");

    talk_config(&t);
    t.config.history.min_jobs = 10;
    talk_start(&t);
    for (int i = 1; i <= 10; i++) {
        tell(&t, HISTORY, history, 0, .name = name, .mean_us = i * S, .task_us = (uint64_t)i * S, .tasks = 1);
        expect_nothing_else(&t);
    }
    tell(&t, RECOVERED, recovered, 0, 0);
    assert_int_equal(central_policy(t.c)->cutoff_us, 9 * S + 1);
    add_dist(&t, "d1");
    assert_int_equal(expect(&t, ESTIMATE, estimate, 1)->mean_us, 5500 * MS);
    blob_drop(name);
    talk_end(&t);
}

/* ---- The operator (2) ---- */

static void ask_policy(struct talk *t, const struct policy *p, uint32_t client)
{
    tell(t, SET_POLICY, set_policy, 0, .policy = *p, .client = client);
}

static int policy_answer(struct talk *t, uint32_t client)
{
    const struct msg_policy_set *reply = expect(t, POLICY_SET, policy_set, 0);

    assert_int_equal(reply->client, client);
    return reply->err;
}

static void says_unfinished(struct talk *t, uint32_t dist, uint32_t jobs)
{
    tell(t, HEARTBEAT, heartbeat, dist, .jobs_unfinished = jobs);
}

/* Asked for, and answered at once. */
static int set_policy(struct talk *t, const struct policy *p)
{
    ask_policy(t, p, 42);
    return policy_answer(t, 42);
}

/* Asked for, and answered when d, the only dist, says how many jobs it has. */
static int set_policy_heard(struct talk *t, const struct policy *p, uint32_t d, uint32_t jobs)
{
    ask_policy(t, p, 42);
    expect_nothing_else(t);
    says_unfinished(t, d, jobs);
    return policy_answer(t, 42);
}

static struct policy other_policy(const struct talk *t)
{
    struct policy p = *central_policy(t->c);

    p.flags ^= (uint32_t)POLICY_STEAL;
    return p;
}

static void talk_heartbeats(struct talk *t)
{
    talk_config(t);
    t->config.heartbeats = true;
    talk_start(t);
    tell(t, RECOVERED, recovered, 0, 0);
}

static void the_policy_changes_only_when_idle(void **state)
{
    struct talk t;
    struct policy p;
    uint32_t d, w, version;

    talk_config(&t);
    t.config.heartbeats = true;
    t.config.history.share_ppm = 500000;
    talk_start(&t);
    tell(&t, RECOVERED, recovered, 0, 0);
    d = add_dist(&t, "d1");
    w = add_worker(&t, "w1", 1);
    add_worker(&t, "w2", 1);
    version = central_policy(t.c)->version;
    p = *central_policy(t.c);
    p.flags &= ~(uint32_t)POLICY_PARTITION;
    assert_int_equal(set_policy_heard(&t, &p, d, 3), HAWK_EBUSY);
    says_unfinished(&t, d, 0);
    submit(&t, d, 1, 1, 5 * S);
    assert_int_equal(set_policy(&t, &p), HAWK_EBUSY); /* central knows by itself */
    tell(&t, LONG_CANCEL, long_cancel, d, .job = JOB(d, 1), .epoch = 1);
    finished(&t, 3, try_of(d, 1, 0, 1), OUTCOME_CANCELLED, 0, 0);
    assert_true(central_quiet(t.c));
    assert_int_equal(set_policy_heard(&t, &p, d, 0), 0);
    assert_int_equal(expect(&t, POLICY, policy, d)->policy.version, version + 1);
    assert_int_equal(expect(&t, POLICY, policy, w)->policy.flags, p.flags);
    assert_int_equal(expect(&t, PARTITION, partition, w)->general, 1); /* no partition: nobody is reserved */
    /* Numbers that differ are the operator's from now on. */
    p.cutoff_us = 77 * S;
    assert_int_equal(set_policy_heard(&t, &p, d, 0), 0);
    assert_int_equal(central_policy(t.c)->cutoff_us, 77 * S);
    for (int i = 0; i < 200; i++)
        report(&t, d, "", 1 * S);
    assert_int_equal(central_policy(t.c)->cutoff_us, 77 * S);
    p.cutoff_us = 0;
    assert_int_equal(set_policy(&t, &p), HAWK_EINVALID);
    talk_end(&t);
}

static void what_a_dist_said_before_the_request_does_not_count(void **state)
{
    struct talk t;
    struct policy p;
    uint32_t d1, d2;

    talk_heartbeats(&t);
    d1 = add_dist(&t, "d1");
    d2 = add_dist(&t, "d2");
    p = other_policy(&t);
    /* Idle by then; a job came since. */
    says_unfinished(&t, d1, 0);
    says_unfinished(&t, d2, 0);
    ask_policy(&t, &p, 1);
    expect_nothing_else(&t);
    assert_int_equal(central_next_timeout(t.c), t.now_us + 1000 * MS);
    says_unfinished(&t, d1, 0);
    says_unfinished(&t, d1, 0);
    expect_none(&t, POLICY_SET, 0); /* d2 has not answered */
    says_unfinished(&t, d2, 1);
    assert_int_equal(policy_answer(&t, 1), HAWK_EBUSY);
    assert_int_not_equal(central_policy(t.c)->flags, p.flags);
    /* Busy by then; the job ended since. */
    ask_policy(&t, &p, 2);
    says_unfinished(&t, d2, 0);
    expect_none(&t, POLICY_SET, 0);
    says_unfinished(&t, d1, 0);
    assert_int_equal(policy_answer(&t, 2), 0);
    assert_int_equal(central_policy(t.c)->flags, p.flags);
    pass(&t, 2 * S);
    assert_int_equal(count_out(&t, MSG_POLICY_SET), 0); /* once */
    talk_end(&t);
}

static void a_dist_that_does_not_answer_is_not_idle(void **state)
{
    struct talk t;
    struct policy p;
    uint32_t d1, d2;

    talk_heartbeats(&t);
    p = other_policy(&t);
    d1 = add_dist(&t, "d1");
    d2 = add_dist(&t, "d2");
    says_unfinished(&t, d1, 0);
    says_unfinished(&t, d2, 0);
    ask_policy(&t, &p, 1);
    says_unfinished(&t, d1, 0);
    pass(&t, 1000 * MS - 1);
    assert_int_equal(count_out(&t, MSG_POLICY_SET), 0);
    pass(&t, 1);
    assert_int_equal(policy_answer(&t, 1), HAWK_EBUSY);
    /* Without its stream it is suspect, and cannot answer: what it said last counts. */
    ask_policy(&t, &p, 2);
    says_unfinished(&t, d1, 0);
    tell(&t, PEER_LOST, peer_lost, d2, 0);
    assert_int_equal(policy_answer(&t, 2), 0);
    /* Who says good-bye has no jobs any more, whatever it said. */
    p = other_policy(&t);
    ask_policy(&t, &p, 3);
    says_unfinished(&t, d1, 7);
    assert_int_equal(policy_answer(&t, 3), HAWK_EBUSY);
    ask_policy(&t, &p, 4);
    expect_nothing_else(&t);
    tell(&t, LEAVE, leave, d1, 0);
    assert_int_equal(policy_answer(&t, 4), 0);
    talk_end(&t);
}

static void one_request_for_a_policy_waits_at_a_time(void **state)
{
    struct talk t;
    struct policy p, q;
    uint32_t d;

    talk_heartbeats(&t);
    d = add_dist(&t, "d1");
    p = q = other_policy(&t);
    q.cutoff_us = 77 * S;
    ask_policy(&t, &p, 1);
    ask_policy(&t, &q, 2);
    assert_int_equal(policy_answer(&t, 2), HAWK_EBUSY);
    /* A long job that comes meanwhile counts, though its dist says that it has none. */
    submit(&t, d, 1, 1, 5 * S);
    says_unfinished(&t, d, 0);
    assert_int_equal(policy_answer(&t, 1), HAWK_EBUSY);
    tell(&t, LONG_CANCEL, long_cancel, d, .job = JOB(d, 1), .epoch = 1);
    ask_policy(&t, &q, 3);
    tell(&t, STOP, stop, 0, 0);
    assert_int_equal(policy_answer(&t, 3), HAWK_ESHUTDOWN);
    expect(&t, STOPPED, stopped, 0);
    assert_int_equal(central_next_timeout(t.c), TIME_NEVER);
    talk_end(&t);
}

static void a_cutoff_computed_while_a_request_waits_stays_computed(void **state)
{
    struct talk t;
    struct policy p;
    uint32_t d;

    talk_config(&t);
    t.config.heartbeats = true;
    t.config.history.min_jobs = 10;
    talk_start(&t);
    tell(&t, RECOVERED, recovered, 0, 0);
    d = add_dist(&t, "d1");
    p = other_policy(&t);
    ask_policy(&t, &p, 1);
    for (int i = 1; i <= 10; i++)
        report(&t, d, "", i * 100 * S);
    says_unfinished(&t, d, 0);
    assert_int_equal(policy_answer(&t, 1), 0);
    assert_int_equal(central_policy(t.c)->flags, p.flags);
    assert_int_equal(central_policy(t.c)->cutoff_us, 900 * S + 1);
    assert_true(history_cutoff_computed(central_history(t.c)));
    talk_end(&t);
}

static void without_heartbeats_the_policy_changes_at_once(void **state)
{
    struct talk t;
    struct policy p;
    uint32_t d;

    talk_begin(&t);
    d = add_dist(&t, "d1");
    p = other_policy(&t);
    assert_int_equal(set_policy(&t, &p), 0);
    says_unfinished(&t, d, 1);
    assert_int_equal(set_policy(&t, &p), HAWK_EBUSY);
    talk_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_report_goes_to_history_and_to_every_dist),
        cmocka_unit_test(cutoff_and_share_follow_history_and_everybody_hears),
        cmocka_unit_test(history_survives_a_restart),
        cmocka_unit_test(the_policy_changes_only_when_idle),
        cmocka_unit_test(what_a_dist_said_before_the_request_does_not_count),
        cmocka_unit_test(a_dist_that_does_not_answer_is_not_idle),
        cmocka_unit_test(one_request_for_a_policy_waits_at_a_time),
        cmocka_unit_test(a_cutoff_computed_while_a_request_waits_stays_computed),
        cmocka_unit_test(without_heartbeats_the_policy_changes_at_once),
    };

    return cmocka_run_group_tests_name("central_policy", tests, NULL, NULL);
}
