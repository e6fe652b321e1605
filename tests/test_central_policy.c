/* Central and the policy: history, estimates, what is computed from them, and what an operator sets (protocol 2,
 * 3.11). */
#include "tests/test_central.h"

/* ---- History (2, 3.11) ---- */

static void report_of(struct talk *t, uint32_t dist, uint32_t user, const char *name, int64_t mean_us)
{
    struct blob *b = blob_str(name);

    tell(t, JOB_REPORT, job_report, dist, .name = b, .mean_us = mean_us, .task_us = (uint64_t)mean_us * 2,
         .tasks = 2, .user = user);
    blob_drop(b);
}

static void report(struct talk *t, uint32_t dist, const char *name, int64_t mean_us)
{
    report_of(t, dist, 0, name, mean_us);
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

/* Less than a hundredth is no news, unless it makes the job's class another one. */
static void dists_hear_of_each_estimate_that_crosses_the_cutoff(void **state)
{
    struct talk t;
    uint32_t d;

    talk_begin(&t);
    d = add_dist(&t, "d1");
    assert_int_equal(central_policy(t.c)->cutoff_us, 10 * S);
    report(&t, d, "make", 9960 * MS);
    expect(&t, ESTIMATE, estimate, d);
    report(&t, d, "make", 9980 * MS);
    expect_none(&t, ESTIMATE, d);
    report(&t, d, "make", 10120 * MS);
    assert_int_equal(expect(&t, ESTIMATE, estimate, d)->mean_us, 10020 * MS);
    talk_end(&t);
}

/* What was told last counts: the estimate that was told first comes back. */
static void dists_hear_that_an_estimate_is_what_it_was(void **state)
{
    int64_t told_us = 0;
    struct talk t;
    uint32_t d;

    talk_begin(&t);
    d = add_dist(&t, "d1");
    report(&t, d, "make", S);
    report(&t, d, "make", 3 * S);
    assert_int_equal(expect(&t, ESTIMATE, estimate, d)->mean_us, 2 * S);
    for (uint32_t i = 0; i < t.config.history.runs_per_name; i++) {
        report(&t, d, "make", S);
        const struct msg *m = find_out(&t, MSG_ESTIMATE, d);
        if (m)
            told_us = m->estimate.mean_us;
    }
    assert_int_equal(told_us, S);
    talk_end(&t);
}

static void users_have_histories_of_their_own(void **state)
{
    const struct msg_estimate *e;
    struct talk t;
    uint32_t d1, d2;

    talk_begin(&t);
    d1 = add_dist(&t, "d1");
    report_of(&t, d1, 1, "make", 5 * S);
    assert_int_equal(expect(&t, HISTORY, history, 0)->user, 1);
    e = expect(&t, ESTIMATE, estimate, d1);
    assert_int_equal(e->user, 1);
    assert_int_equal(e->mean_us, 5 * S);
    report_of(&t, d1, 2, "make", 90 * S);
    assert_int_equal(expect(&t, HISTORY, history, 0)->user, 2);
    e = expect(&t, ESTIMATE, estimate, d1);
    assert_int_equal(e->user, 2);
    assert_int_equal(e->mean_us, 90 * S);
    d2 = add_dist(&t, "d2");
    for (uint32_t user = 1; user <= 2; user++) {
        e = expect(&t, ESTIMATE, estimate, d2);
        assert_int_equal(e->user, user);
        assert_int_equal(e->runs, 1);
    }
    expect_none(&t, ESTIMATE, d2);
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

/* The share after eleven short jobs of 2 task-seconds in ten seconds and a long one of 78, on 40 slots whose long tasks
 * stand still for so much of their run time. */
static uint32_t share_under(const char *preset, uint32_t without, uint32_t pause_share_milli)
{
    struct talk t;
    uint32_t d, share;

    talk_config(&t);
    assert_int_equal(policy_preset(preset, &t.config.policy), 0);
    t.config.policy.flags &= ~without;
    t.config.pause_share_milli = pause_share_milli;
    t.config.history.share_fixed = false;
    t.config.history.cutoff_fixed = true;
    t.config.history.cutoff_us = 2 * S;
    t.config.history.min_jobs = 10;
    talk_start(&t);
    tell(&t, RECOVERED, recovered, 0, 0);
    d = add_dist(&t, "d1");
    add_worker(&t, "w1", 20);
    add_worker(&t, "w2", 20);
    for (int i = 0; i < 11; i++) {
        t.now_us += S;
        report(&t, d, "", S);
    }
    report(&t, d, "", 39 * S);
    share = central_policy(t.c)->short_share_ppm;
    talk_end(&t);
    return share;
}

static void the_reserve_follows_demand_where_long_tasks_are_bound_late(void **state)
{
    assert_int_equal(share_under("hawk", 0, 500), 220000); /* 22 of 100 task-seconds */
    /* 2.2 of 40 slots, and a standard deviation of 2.1. */
    assert_in_range(share_under("harrier", POLICY_PAUSE, 500), 105000, 112000);
    assert_int_equal(share_under("harrier", 0, 500), 0);           /* pauses give more than that */
    assert_in_range(share_under("harrier", 0, 100), 15000, 22000); /* an eleventh is not enough */
    assert_in_range(share_under("harrier", 0, 0), 105000, 112000);
}

/* Short work that pauses cannot give all its slots gets a reserve, which goes when that work has ended, although no
 * job ends any more. */
static void the_reserve_goes_with_short_work(void **state)
{
    struct talk t;
    uint32_t d;

    talk_config(&t);
    assert_int_equal(policy_preset("harrier", &t.config.policy), 0);
    t.config.history.share_fixed = false;
    t.config.history.cutoff_fixed = true;
    t.config.history.min_jobs = 10;
    talk_start(&t);
    tell(&t, RECOVERED, recovered, 0, 0);
    d = add_dist(&t, "d1");
    add_worker(&t, "w1", 10);
    add_worker(&t, "w2", 10);
    for (int i = 0; i < 11; i++) {
        t.now_us += S;
        tell(&t, JOB_REPORT, job_report, d, .mean_us = S, .task_us = 12 * S, .tasks = 12);
    }
    /* As much as they use, and a margin, less what pauses give. */
    assert_in_range(central_policy(t.c)->short_share_ppm, 615000, 635000);
    for (int i = 0; i < 100 && central_policy(t.c)->short_share_ppm > 0; i++) {
        int64_t due_us = central_next_timeout(t.c);
        assert_true(due_us < TIME_NEVER);
        t.now_us = due_us;
        tell_msg(&t, (struct msg){.type = MSG_TIMER});
    }
    assert_int_equal(central_policy(t.c)->short_share_ppm, 0);
    talk_end(&t);
}

/* Workers come and the policy changes, and no job ends. */
static void the_reserve_goes_with_slots_and_policy(void **state)
{
    struct talk t;
    uint32_t d;

    talk_config(&t);
    t.config.history.share_fixed = false;
    t.config.history.cutoff_fixed = true;
    t.config.history.min_jobs = 10;
    talk_start(&t);
    tell(&t, RECOVERED, recovered, 0, 0);
    d = add_dist(&t, "d1");
    add_worker(&t, "w1", 40);
    for (int i = 0; i < 11; i++) {
        t.now_us += S;
        report(&t, d, "", S);
    }
    assert_int_equal(central_policy(t.c)->short_share_ppm, 800000); /* all work is short */
    tell(&t, SET_POLICY, set_policy, 0,
         .choice =
             &(struct policy_choice){.refs = 1, .flags = POLICY_LATE_LONG, .v.flags = POLICY_LATE_LONG});
    pass(&t, 0);
    assert_in_range(central_policy(t.c)->short_share_ppm, 105000, 112000); /* as in share_under() */
    add_worker(&t, "w2", 120);
    pass(&t, 2 * S);
    assert_in_range(central_policy(t.c)->short_share_ppm, 10000, 30000);
    talk_end(&t);
}

/* What ran before central started uses no slots now. */
static void the_reserve_does_not_follow_what_is_on_record(void **state)
{
    struct talk t;

    talk_config(&t);
    assert_int_equal(policy_preset("harrier", &t.config.policy), 0);
    t.config.history.share_fixed = false;
    t.config.history.cutoff_fixed = true;
    t.config.history.min_jobs = 10;
    talk_start(&t);
    for (int i = 0; i < 11; i++)
        tell(&t, HISTORY, history, 0, .mean_us = S, .task_us = 12 * S, .tasks = 12);
    tell(&t, RECOVERED, recovered, 0, 0);
    add_dist(&t, "d1");
    add_worker(&t, "w1", 10);
    add_worker(&t, "w2", 10);
    tell(&t, JOB_REPORT, job_report, 1, .mean_us = S, .task_us = 12 * S, .tasks = 12);
    assert_int_equal(central_policy(t.c)->short_share_ppm, 0);
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

/* Among many jobs the cutoff is computed with every second one. */
static void the_last_job_on_record_counts(void **state)
{
    struct talk t;

    talk_config(&t);
    t.config.history.min_jobs = 128;
    talk_start(&t);
    for (int i = 0; i < 128; i++)
        tell(&t, HISTORY, history, 0, .mean_us = S, .task_us = S, .tasks = 1);
    tell(&t, RECOVERED, recovered, 0, 0);
    assert_int_equal(central_policy(t.c)->cutoff_us, S + 1);
    talk_end(&t);
}

/* ---- The operator (2) ---- */

static void ask_policy(struct talk *t, struct policy_choice c, uint32_t client)
{
    c.refs = 1;
    tell(t, SET_POLICY, set_policy, 0, .choice = &c, .client = client);
}

static int policy_answer(struct talk *t, uint32_t client)
{
    const struct msg_policy_set *reply = expect(t, POLICY_SET, policy_set, 0);

    assert_int_equal(reply->client, client);
    return reply->err;
}

static uint8_t preset(const char *name) { return policy_preset_number(name, strlen(name)); }

static struct policy own(const char *name)
{
    struct policy p;

    assert_int_equal(policy_preset(name, &p), 0);
    return p;
}

/* Keeps what the last SET_POLICY put into the journal, for the next central. */
static struct msg_journal_policy take_record(struct talk *t)
{
    struct msg_journal_policy m = *expect(t, JOURNAL_POLICY, journal_policy, 0);

    policy_choice_ref(m.choice);
    return m;
}

/* A central that reads this back. */
static void start_again(struct talk *t, const struct msg_journal_policy *m)
{
    struct central_config config = t->config;

    *t = (struct talk){.now_us = 1000 * S, .config = config};
    t->config.epoch++;
    talk_start(t);
    tell(t, JOURNAL_POLICY, journal_policy, 0, .choice = m->choice, .configured = m->configured,
         .ago_us = 3600 * S);
    tell(t, RECOVERED, recovered, 0, 0);
}

/* Central finishes what it has, whatever the policy is now: places, and places again, long tasks of before. */
static void the_policy_changes_under_load(void **state)
{
    struct cluster c;
    struct talk *t = &c.t;
    uint32_t version, late;

    begin(&c, 1);
    version = central_policy(t->c)->version;
    submit(t, c.d, 1, 3, 5 * S);
    expect(t, TASK_ENQUEUE, task_enqueue, c.w[0]);
    started(t, c.w[0], try_of(1, 1, 0, 1));
    tell(t, HEARTBEAT, heartbeat, c.d, .jobs_unfinished = 3);
    ask_policy(t, (struct policy_choice){.preset = preset("sparrow")}, 42);
    assert_int_equal(expect(t, POLICY, policy, c.d)->policy.version, version + 1);
    assert_int_equal(expect(t, POLICY, policy, c.w[0])->policy.flags, own("sparrow").flags);
    assert_int_equal(policy_answer(t, 42), 0);
    assert_int_equal(totals(&c).long_tasks, 3);
    finished(t, c.w[0], try_of(1, 1, 0, 1), OUTCOME_EXITED, 0, 5 * S);
    expect_task(&c, 0, TASK_DONE);
    /* Its worker goes, and another comes: there they are placed. */
    tell(t, LEAVE, leave, c.w[0], 0);
    late = add_worker(t, "late", 2);
    pass(t, 2 * S);
    finished(t, late, try_of(1, 1, 1, 2), OUTCOME_EXITED, 0, 5 * S);
    finished(t, late, try_of(1, 1, 2, 2), OUTCOME_EXITED, 0, 5 * S);
    assert_int_equal(totals(&c).long_jobs, 0);
    /* A dist that has not heard yet, or a job that began before. */
    submit(t, c.d, 2, 1, 5 * S);
    expect(t, LONG_ACCEPTED, long_accepted, c.d);
    end(&c);
}

static void nobody_is_reserved_under_a_policy_without_partition(void **state)
{
    struct talk t;
    uint32_t w;

    talk_config(&t);
    t.config.history.share_ppm = 500000;
    talk_start(&t);
    tell(&t, RECOVERED, recovered, 0, 0);
    w = add_worker(&t, "w1", 1);
    add_worker(&t, "w2", 1);
    ask_policy(&t, (struct policy_choice){.flags = POLICY_PARTITION}, 1);
    assert_int_equal(policy_answer(&t, 1), 0);
    assert_int_equal(expect(&t, PARTITION, partition, w)->general, 1);
    ask_policy(&t, (struct policy_choice){.flags = POLICY_PARTITION, .v.flags = POLICY_PARTITION}, 2);
    assert_int_equal(expect(&t, PARTITION, partition, w)->general, 0);
    talk_end(&t);
}

/* Each adds to those before; what a choice does not name stays as it is, be it computed. */
static void choices_add_up(void **state)
{
    struct talk t;
    uint32_t d;
    struct policy p;

    talk_config(&t);
    t.config.history.min_jobs = 10;
    t.config.policy.short_first = 7;
    talk_start(&t);
    tell(&t, RECOVERED, recovered, 0, 0);
    d = add_dist(&t, "d1");
    ask_policy(
        &t,
        (struct policy_choice){.flags = POLICY_PROMOTE, .numbers = POLICY_NUMBER_STEAL_CAP, .v.steal_cap = 3},
        1);
    for (int i = 1; i <= 10; i++)
        report(&t, d, "", i * 100 * S);
    p = *central_policy(t.c);
    assert_int_equal(p.flags, own("hawk").flags & ~(uint32_t)POLICY_PROMOTE);
    assert_int_equal(p.steal_cap, 3);
    assert_int_equal(p.cutoff_us, 900 * S + 1);
    assert_int_equal(central_policy_number_origin(t.c, POLICY_NUMBER_CUTOFF), POLICY_FROM_HISTORY);
    ask_policy(&t, (struct policy_choice){.numbers = POLICY_NUMBER_CUTOFF, .v.cutoff_us = 77 * S}, 2);
    for (int i = 0; i < 200; i++)
        report(&t, d, "", 1 * S);
    p = *central_policy(t.c);
    assert_int_equal(p.cutoff_us, 77 * S);
    assert_int_equal(p.steal_cap, 3);
    assert_int_equal(central_policy_number_origin(t.c, POLICY_NUMBER_CUTOFF), POLICY_FROM_SET);
    assert_int_equal(central_policy_flag_origin(t.c, POLICY_PROMOTE), POLICY_FROM_SET);
    assert_int_equal(central_policy_flag_origin(t.c, POLICY_STEAL), POLICY_FROM_POLICY);
    assert_int_equal(central_policy_number_origin(t.c, POLICY_NUMBER_SHORT_FIRST), POLICY_FROM_CONFIGURATION);
    /* A preset has flags and numbers of its own, but no cutoff. */
    ask_policy(
        &t,
        (struct policy_choice){.preset = preset("sparrow"), .flags = POLICY_STEAL, .v.flags = POLICY_STEAL},
        3);
    p = *central_policy(t.c);
    assert_int_equal(p.flags, own("sparrow").flags | POLICY_STEAL);
    assert_int_equal(p.steal_cap, 10);
    assert_int_equal(p.cutoff_us, 77 * S);
    assert_int_equal(central_policy_flag_origin(t.c, POLICY_PROMOTE), POLICY_FROM_POLICY);
    assert_int_equal(central_policy_number_origin(t.c, POLICY_NUMBER_SHORT_FIRST), POLICY_FROM_POLICY);
    /* Nothing is chosen any more. */
    tell(&t, SET_POLICY, set_policy, 0, .client = 4);
    assert_null(expect(&t, JOURNAL_POLICY, journal_policy, 0)->choice);
    assert_int_equal(policy_answer(&t, 4), 0);
    p = *central_policy(t.c);
    assert_int_equal(p.flags, own("hawk").flags);
    assert_int_equal(p.cutoff_us, 1 * S + 1); /* as history has it now */
    talk_end(&t);
}

static void nonsense_is_refused(void **state)
{
    struct talk t;
    struct policy p;

    talk_begin(&t);
    p = *central_policy(t.c);
    ask_policy(&t, (struct policy_choice){.numbers = POLICY_NUMBER_CUTOFF}, 1);
    assert_int_equal(policy_answer(&t, 1), HAWK_EINVALID);
    ask_policy(&t, (struct policy_choice){.numbers = POLICY_NUMBER_RATIO, .v.probe_ratio_milli = 999}, 2);
    assert_int_equal(policy_answer(&t, 2), HAWK_EINVALID);
    expect_nothing_else(&t);
    assert_memory_equal(central_policy(t.c), &p, sizeof p);
    talk_end(&t);
}

/* It is in force at once, and answered when it is durable. */
static void a_policy_is_answered_when_it_is_journalled(void **state)
{
    struct talk t;
    uint64_t token;

    talk_begin(&t);
    t.journal_by_hand = true;
    ask_policy(&t, (struct policy_choice){.preset = preset("sparrow")}, 7);
    assert_int_equal(central_policy(t.c)->flags, own("sparrow").flags);
    token = expect(&t, JOURNAL_POLICY, journal_policy, 0)->token;
    expect_none(&t, POLICY_SET, 0);
    assert_false(central_quiet(t.c));
    /* A full disk: whoever asked has waited enough, and it is written when that can be done, as it is then. */
    tell(&t, JOURNAL_DONE, journal_done, 0, .token = token, .err = HAWK_EIO);
    assert_int_equal(policy_answer(&t, 7), HAWK_EIO);
    assert_int_equal(central_policy(t.c)->flags, own("sparrow").flags);
    pass(&t, 1 * S);
    expect_nothing_else(&t);
    tell(&t, JOURNAL_DONE, journal_done, 0, .token = token);
    expect_nothing_else(&t); /* once */
    /* A full queue before the disk: it was not taken. */
    ask_policy(&t, (struct policy_choice){.preset = preset("hawk")}, 8);
    token = expect(&t, JOURNAL_POLICY, journal_policy, 0)->token;
    tell(&t, JOURNAL_DONE, journal_done, 0, .token = token, .err = HAWK_ELIMIT);
    assert_int_equal(policy_answer(&t, 8), HAWK_ELIMIT);
    pass(&t, 1 * S);
    token = expect(&t, JOURNAL_POLICY, journal_policy, 0)->token;
    tell(&t, JOURNAL_DONE, journal_done, 0, .token = token);
    expect_none(&t, POLICY_SET, 0);
    assert_true(central_quiet(t.c));
    talk_end(&t);
}

static bool configured_anew(struct talk *t, const struct msg_journal_policy *record)
{
    struct central_policy_view v;

    start_again(t, record);
    central_view_policy(t->c, t->now_us, &v);
    talk_end(t);
    return v.configured_anew;
}

static void a_policy_outlives_central(void **state)
{
    struct talk t;
    struct msg_journal_policy record;
    struct central_policy_view v;

    talk_begin(&t);
    ask_policy(&t,
               (struct policy_choice){
                   .preset = preset("sparrow"), .numbers = POLICY_NUMBER_CUTOFF, .v.cutoff_us = 77 * S},
               1);
    record = take_record(&t);
    talk_end(&t);
    start_again(&t, &record);
    assert_int_equal(central_policy(t.c)->flags, own("sparrow").flags);
    assert_int_equal(central_policy(t.c)->cutoff_us, 77 * S);
    central_view_policy(t.c, t.now_us, &v);
    assert_string_equal(v.base, "sparrow");
    assert_true(v.chosen);
    assert_int_equal(v.chosen_ago_us, 3600 * S);
    assert_false(v.configured_anew);
    talk_end(&t);
    /* The configuration has changed: what was chosen stays, and the rest follows. */
    t.config.policy.short_first = 7;
    assert_true(configured_anew(&t, &record));
    t.config.policy.short_first = 0;
    assert_false(configured_anew(&t, &record));
    t.config.history.share_ppm = 300000;
    start_again(&t, &record);
    assert_int_equal(central_policy(t.c)->flags, own("sparrow").flags);
    assert_int_equal(central_policy(t.c)->short_share_ppm, 300000);
    central_view_policy(t.c, t.now_us, &v);
    assert_true(v.configured_anew);
    tell(&t, SET_POLICY, set_policy, 0, .client = 2);
    assert_int_equal(central_policy(t.c)->flags, own("hawk").flags);
    assert_int_equal(central_policy(t.c)->cutoff_us, 10 * S);
    central_view_policy(t.c, t.now_us, &v);
    assert_false(v.chosen || v.configured_anew);
    talk_end(&t);
    policy_choice_drop(record.choice);
}

static void a_central_that_stops_takes_no_policy(void **state)
{
    struct talk t;

    talk_begin(&t);
    t.journal_by_hand = true;
    ask_policy(&t, (struct policy_choice){.preset = preset("split")}, 1);
    tell(&t, STOP, stop, 0, 0);
    expect_none(&t, STOPPED, 0); /* before it is written */
    ask_policy(&t, (struct policy_choice){.preset = preset("sparrow")}, 2);
    assert_int_equal(policy_answer(&t, 2), HAWK_ESHUTDOWN);
    tell(&t, JOURNAL_DONE, journal_done, 0, .token = 1);
    assert_int_equal(policy_answer(&t, 1), 0);
    expect(&t, STOPPED, stopped, 0);
    talk_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_report_goes_to_history_and_to_every_dist),
        cmocka_unit_test(dists_hear_of_each_estimate_that_crosses_the_cutoff),
        cmocka_unit_test(dists_hear_that_an_estimate_is_what_it_was),
        cmocka_unit_test(users_have_histories_of_their_own),
        cmocka_unit_test(cutoff_and_share_follow_history_and_everybody_hears),
        cmocka_unit_test(the_reserve_follows_demand_where_long_tasks_are_bound_late),
        cmocka_unit_test(the_reserve_goes_with_short_work),
        cmocka_unit_test(the_reserve_goes_with_slots_and_policy),
        cmocka_unit_test(the_reserve_does_not_follow_what_is_on_record),
        cmocka_unit_test(history_survives_a_restart),
        cmocka_unit_test(the_last_job_on_record_counts),
        cmocka_unit_test(the_policy_changes_under_load),
        cmocka_unit_test(nobody_is_reserved_under_a_policy_without_partition),
        cmocka_unit_test(choices_add_up),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(a_policy_is_answered_when_it_is_journalled),
        cmocka_unit_test(a_policy_outlives_central),
        cmocka_unit_test(a_central_that_stops_takes_no_policy),
    };

    return cmocka_run_group_tests_name("central_policy", tests, NULL, NULL);
}
