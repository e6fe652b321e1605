/* Long tasks that are bound late (POLICY_LATE_LONG): central keeps them until a worker asks for one, and a
 * restart knows which may have been sent. */
#include "tests/test_central.h"

#include "base/rng.h"

static void begin_late(struct cluster *c, uint32_t workers, uint32_t slots)
{
    char name[16];

    begin_late_bare(c);
    for (uint32_t i = 0; i < workers; i++) {
        snprintf(name, sizeof name, "w%u", i);
        c->w[i] = add_worker(&c->t, name, slots);
    }
    pass(&c->t, 1 * S);
}

static void ask(struct cluster *c, uint32_t worker, uint32_t slots, uint32_t got)
{
    tell(&c->t, LONG_REQUEST, long_request, c->w[worker], .slots = slots, .got = got);
}

static void a_task_waits_until_a_worker_asks(void **state)
{
    struct cluster c = {0};

    begin_late(&c, 2, 2);
    submit(&c.t, c.d, 1, 3, 9 * S);
    expect_none(&c.t, TASK_ENQUEUE, c.w[0]);
    expect_none(&c.t, TASK_ENQUEUE, c.w[1]);
    ask(&c, 1, 2, 0);
    assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[1])->id.task, 0);
    assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[1])->id.task, 1);
    expect_none(&c.t, TASK_ENQUEUE, c.w[1]);
    /* The two are under way: it asked before it had them. */
    ask(&c, 1, 2, 0);
    expect_none(&c.t, TASK_ENQUEUE, c.w[1]);
    ask(&c, 1, 1, 1);
    expect_none(&c.t, TASK_ENQUEUE, c.w[1]);
    ask(&c, 1, 1, 2);
    assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[1])->id.task, 2);
    end(&c);
}

/* Both count from 0 again. */
static void a_worker_that_joins_again_has_nothing_under_way(void **state)
{
    struct cluster c = {0};

    begin_late(&c, 1, 2);
    submit(&c.t, c.d, 1, 2, 9 * S);
    ask(&c, 0, 1, 0);
    started(&c.t, c.w[0], try_of(c.d, 1, 0, 1));
    tell(&c.t, PEER_LOST, peer_lost, c.w[0], .role = ROLE_WORKER);
    c.w[0] = join(&c.t, (struct join){.name = "w0", .slots = 2, .role = ROLE_WORKER, .node = 2});
    ack_partition(&c.t, c.w[0]);
    tell(&c.t, TASK_HELD, task_held, c.w[0], .id = try_of(c.d, 1, 0, 1), .state = TASK_RUNNING);
    tell(&c.t, HELD_END, held_end, c.w[0], 0);
    ask(&c, 0, 1, 0);
    assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0])->id.task, 1);
    end(&c);
}

/* Who asks for more slots than it has gets as many as it has. */
static void nobody_gets_more_than_it_has_slots(void **state)
{
    struct cluster c = {0};

    begin_late(&c, 1, 2);
    ask(&c, 0, 1000, 0);
    submit(&c.t, c.d, 1, 5, 9 * S);
    assert_int_equal(count_out(&c.t, MSG_TASK_ENQUEUE), 2);
    end(&c);
}

/* A short task took its slot meanwhile: it goes to the next one that asks. */
static void what_comes_back_goes_elsewhere(void **state)
{
    struct cluster c = {0};

    begin_late(&c, 2, 1);
    submit(&c.t, c.d, 1, 1, 9 * S);
    ask(&c, 0, 1, 0);
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0]);
    tell(&c.t, TASK_RETURNED, task_returned, c.w[0], .id = try_of(c.d, 1, 0, 1));
    expect_none(&c.t, TASK_ENQUEUE, c.w[0]);
    ask(&c, 1, 1, 0);
    assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[1])->id.attempt, 2);
    /* The first one may ask again at once. */
    submit(&c.t, c.d, 2, 1, 9 * S);
    ask(&c, 0, 1, 1);
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0]);
    end(&c);
}

/* It was cancelled while its launch was being recorded: its worker, which does not know, need not ask again. */
static void the_slot_of_what_was_never_sent_is_free(void **state)
{
    struct cluster c = {0};
    struct job_desc *d = desc_of("", 1);

    begin_late(&c, 1, 1);
    ask(&c, 0, 1, 0);
    c.t.journal_by_hand = true;
    d->flags |= JOB_AT_MOST_ONCE;
    tell(&c.t, LONG_SUBMIT, long_submit, c.d, .job = JOB(c.d, 1), .desc = d, .estimate_us = 9 * S,
         .epoch = 1);
    job_desc_drop(d);
    tell(&c.t, JOURNAL_DONE, journal_done, 0, .token = expect(&c.t, JOURNAL_JOB, journal_job, 0)->token);
    expect(&c.t, JOURNAL_TASK, journal_task, 0);
    c.t.journal_by_hand = false;
    tell(&c.t, LONG_CANCEL, long_cancel, c.d, .job = JOB(c.d, 1), .epoch = 1);
    expect_none(&c.t, TASK_ENQUEUE, c.w[0]);
    submit(&c.t, c.d, 2, 1, 9 * S);
    assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0])->id.job.v, JOB(c.d, 2).v);
    ask(&c, 0, 1, 1);
    submit(&c.t, c.d, 3, 1, 9 * S);
    assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0])->id.job.v, JOB(c.d, 3).v);
    end(&c);
}

static void another_policy_places_what_waits(void **state)
{
    struct cluster c = {0};
    struct policy_choice *choice = policy_choice_new();

    begin_late(&c, 1, 1);
    submit(&c.t, c.d, 1, 2, 9 * S);
    expect_none(&c.t, TASK_ENQUEUE, c.w[0]);
    choice->flags = POLICY_LATE_LONG;
    tell(&c.t, SET_POLICY, set_policy, 0, .choice = choice, .client = 1);
    policy_choice_drop(choice);
    assert_int_equal(count_out(&c.t, MSG_TASK_ENQUEUE), 2);
    end(&c);
}

/* What may have been sent is on record before it is. */
static void nothing_is_sent_before_that_is_on_record(void **state)
{
    struct cluster c = {0};
    uint64_t job, first;
    const struct msg_journal_released *more;

    begin_late(&c, 1, 64);
    ask(&c, 0, 64, 0);
    c.t.journal_by_hand = true;
    submit(&c.t, c.d, 1, 40, 9 * S);
    job = expect(&c.t, JOURNAL_JOB, journal_job, 0)->token;
    first = expect(&c.t, JOURNAL_RELEASED, journal_released, 0)->token;
    tell(&c.t, JOURNAL_DONE, journal_done, 0, .token = job);
    expect_none(&c.t, TASK_ENQUEUE, c.w[0]);
    tell(&c.t, JOURNAL_DONE, journal_done, 0, .token = first);
    assert_int_equal(count_out(&c.t, MSG_TASK_ENQUEUE), 16);
    more = expect(&c.t, JOURNAL_RELEASED, journal_released, 0);
    assert_int_equal(more->upto, 32);
    /* The journal fails, and works again. */
    tell(&c.t, JOURNAL_DONE, journal_done, 0, .token = more->token, .err = HAWK_ELIMIT);
    assert_int_equal(count_out(&c.t, MSG_TASK_ENQUEUE), 0);
    pass(&c.t, 1 * S);
    more = expect(&c.t, JOURNAL_RELEASED, journal_released, 0);
    tell(&c.t, JOURNAL_DONE, journal_done, 0, .token = more->token);
    assert_int_equal(count_out(&c.t, MSG_TASK_ENQUEUE), 16);
    end(&c);
}

/* The tasks behind those that may have been sent are placed at once; the others wait for whom may run them. */
static void after_a_restart_what_was_not_sent_is_placed_at_once(void **state)
{
    struct cluster c = {0};
    struct job_desc *d = desc_of("train", 4);
    struct blob *d1 = blob_str("d1"), *w0 = blob_str("w0"), *w1 = blob_str("w1");

    talk_config(&c.t);
    c.t.config.policy.flags |= POLICY_LATE_LONG;
    talk_start(&c.t);
    tell(&c.t, JOURNAL_NODE, journal_node, 0, .name = d1, .node = {1}, .role = ROLE_DIST);
    tell(&c.t, JOURNAL_NODE, journal_node, 0, .name = w0, .node = {2}, .role = ROLE_WORKER);
    tell(&c.t, JOURNAL_NODE, journal_node, 0, .name = w1, .node = {3}, .role = ROLE_WORKER);
    tell(&c.t, JOURNAL_JOB, journal_job, 0, .job = JOB(1, 1), .desc = d, .estimate_us = 9 * S, .epoch = 1);
    tell(&c.t, JOURNAL_RELEASED, journal_released, 0, .job = JOB(1, 1), .epoch = 1, .upto = 2);
    tell(&c.t, RECOVERED, recovered, 0, 0);
    job_desc_drop(d);
    blob_drop(d1);
    blob_drop(w0);
    blob_drop(w1);
    c.d = join(&c.t, (struct join){.name = "d1", .role = ROLE_DIST});
    tell(&c.t, LONG_WATCH, long_watch, c.d, .job = JOB(1, 1), .epoch = 1);
    c.w[0] = join(&c.t, (struct join){.name = "w0", .slots = 4, .role = ROLE_WORKER});
    tell(&c.t, HELD_END, held_end, c.w[0], 0);
    pass(&c.t, 3 * S);
    ack_partition(&c.t, c.w[0]);
    ask(&c, 0, 4, 0);
    assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0])->id.task, 2);
    assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0])->id.task, 3);
    expect_none(&c.t, TASK_ENQUEUE, c.w[0]);
    /* w1 is back, and has none of them. */
    c.w[1] = join(&c.t, (struct join){.name = "w1", .slots = 1, .role = ROLE_WORKER});
    expect_none(&c.t, TASK_ENQUEUE, c.w[0]);
    tell(&c.t, HELD_END, held_end, c.w[1], 0);
    assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0])->id.task, 0);
    assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0])->id.task, 1);
    end(&c);
}

/* A job that avoids the only worker that asks lets others go first. */
static void a_job_that_avoids_who_asks_waits_for_another_worker(void **state)
{
    struct cluster c = {0};

    begin_late(&c, 2, 1);
    submit(&c.t, c.d, 1, 1, 9 * S);
    ask(&c, 0, 1, 0);
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0]);
    finished(&c.t, c.w[0], try_of(c.d, 1, 0, 1), OUTCOME_LOST, HAWK_ECANNOT_START, 0);
    submit(&c.t, c.d, 2, 1, 9 * S);
    ask(&c, 0, 1, 1);
    assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0])->id.job.v, JOB(c.d, 2).v);
    ask(&c, 1, 1, 0);
    assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[1])->id.job.v, JOB(c.d, 1).v);
    end(&c);
}

/* ---- Whose turn it is (POLICY_LONG_BY_WORK) ---- */

/* One worker of so many slots, none of which asks. */
static void begin_turns(struct cluster *c, uint32_t slots, uint32_t stretch)
{
    talk_config(&c->t);
    c->t.config.policy.flags |= POLICY_LATE_LONG | (stretch ? POLICY_LONG_BY_WORK : 0u);
    c->t.config.long_stretch = stretch ? stretch : 1000;
    talk_start(&c->t);
    tell(&c->t, RECOVERED, recovered, 0, 0);
    c->d = add_dist(&c->t, "d1");
    c->w[0] = add_worker(&c->t, "w0", slots);
    pass(&c->t, 1 * S);
}

/* The worker asks for one task; `got` is how many it has had. Returns the job's number. */
static uint64_t next_job(struct cluster *c, uint32_t *got, struct try_id *id)
{
    const struct msg_task_enqueue *m;

    ask(c, 0, 1, *got);
    m = expect(&c->t, TASK_ENQUEUE, task_enqueue, c->w[0]);
    expect_none(&c->t, TASK_ENQUEUE, c->w[0]);
    ++*got;
    if (id)
        *id = m->id;
    return job_id_seq(m->id.job);
}

/* Of two slots the first job has 4 tasks of 10 s: its size is 20 s, the second one's 5 s. With a stretch of 2
 * the second one overtakes it if it comes less than 30 s later. */
static void a_smaller_job_goes_first_unless_it_came_too_late(void **state)
{
    static const struct {
        uint32_t stretch;
        int64_t later_us;
        uint64_t first;
    } cases[] = {{2, 0, 2},      {2, 30 * S - 1, 2}, {2, 30 * S, 1}, {2, 40 * S, 1},
                 {3, 44 * S, 2}, {0, 0, 1},          {0, 1, 1}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct cluster c = {0};
        uint32_t got = 0;

        begin_turns(&c, 2, cases[i].stretch);
        submit(&c.t, c.d, 1, 4, 10 * S);
        pass(&c.t, cases[i].later_us);
        submit(&c.t, c.d, 2, 1, 10 * S);
        assert_int_equal(next_job(&c, &got, NULL), cases[i].first);
        end(&c);
    }
}

/* What a job's tasks show counts if it is more than their estimate: a task past its estimate is large. */
static void what_tasks_show_makes_a_job_larger_but_never_smaller(void **state)
{
    for (int longer = 0; longer < 2; longer++) {
        struct cluster c = {0};
        uint32_t got = 0;
        struct try_id id;

        begin_turns(&c, 1, 1);
        submit(&c.t, c.d, 1, 3, 10 * S);
        assert_int_equal(next_job(&c, &got, &id), 1);
        started(&c.t, c.w[0], id);
        pass(&c.t, longer ? 20 * S : 1 * S);
        submit(&c.t, c.d, 2, 3, longer ? 12 * S : 2 * S);
        finished(&c.t, c.w[0], id, OUTCOME_EXITED, 0, longer ? 20 * S : 1 * S);
        /* 3 * 20 s and 20 s + 3 * 12 s; 3 * 10 s and 1 s + 3 * 2 s. */
        assert_int_equal(next_job(&c, &got, NULL), 2);
        submit(&c.t, c.d, 3, 3, longer ? 15 * S : 9 * S + 500 * MS);
        assert_int_equal(next_job(&c, &got, NULL), 2);
        assert_int_equal(next_job(&c, &got, NULL), 2);
        /* 3 * 20 s and 20 s + 3 * 15 s; 3 * 10 s, not 3 * 1 s, and 1 s + 3 * 9.5 s. */
        assert_int_equal(next_job(&c, &got, NULL), longer ? 1 : 3);
        end(&c);
    }
}

/* Job 1 has 4 tasks of 10 s in two slots: both run one of them. */
static void two_of_four_run(struct cluster *c, uint32_t *got, struct try_id *slow, struct try_id *quick)
{
    begin_turns(c, 2, 1);
    submit(&c->t, c->d, 1, 4, 10 * S);
    assert_int_equal(next_job(c, got, slow), 1);
    assert_int_equal(next_job(c, got, quick), 1);
    started(&c->t, c->w[0], *slow);
    started(&c->t, c->w[0], *quick);
}

/* Running tasks count as long as they have run. */
static void what_runs_shows_as_much_as_it_has_run(void **state)
{
    struct cluster c = {0};
    uint32_t got = 0;
    struct try_id slow, quick;

    two_of_four_run(&c, &got, &slow, &quick);
    pass(&c.t, 40 * S);
    finished(&c.t, c.w[0], quick, OUTCOME_EXITED, 0, 2 * S);
    submit(&c.t, c.d, 2, 1, 3 * S);
    submit(&c.t, c.d, 3, 1, 1 * S);
    /* (40 + 2) / 2 = 21 s a task, in two slots 42 s: after 40 s + 0.5 s, before 40 s + 1.5 s. Its estimate
     * says 20 s. */
    assert_int_equal(next_job(&c, &got, NULL), 3);
    assert_int_equal(next_job(&c, &got, NULL), 2);
    assert_int_equal(next_job(&c, &got, NULL), 1);
    end(&c);
}

/* While a task stands still it shows no more than it has run. */
static void what_stands_still_shows_what_it_has_run(void **state)
{
    struct cluster c = {0};
    uint32_t got = 0;
    struct try_id slow, quick;

    two_of_four_run(&c, &got, &slow, &quick);
    pass(&c.t, 22 * S);
    tell(&c.t, TASK_PAUSED, task_paused, c.w[0], .id = slow, .run_us = 22 * S, .stood_ms = 1, .times = 1);
    pass(&c.t, 18 * S);
    finished(&c.t, c.w[0], quick, OUTCOME_EXITED, 0, 2 * S);
    submit(&c.t, c.d, 2, 2, 1 * S);
    assert_int_equal(next_job(&c, &got, NULL), 1); /* (22 + 2) / 2 = 12 s a task: 24 s; 40 s + 1 s */
    /* It goes on, and what it has shown when it ends is its run time. */
    tell(&c.t, TASK_PAUSED, task_paused, c.w[0], .id = slow, .run_us = 22 * S, .paused_ms = 18000,
         .times = 1);
    pass(&c.t, 1 * S);
    finished(&c.t, c.w[0], slow, OUTCOME_EXITED, 0, 23 * S);
    assert_int_equal(next_job(&c, &got, NULL), 1); /* 25 s; 41 s */
    assert_int_equal(next_job(&c, &got, NULL), 2);
    end(&c);
}

/* A worker cannot put a job behind all others of its user by what it says that a task has run. */
static void nobody_has_run_longer_than_its_job_is_there(void **state)
{
    struct cluster c = {0};
    uint32_t got = 0;
    struct try_id held, quick;

    begin_turns(&c, 2, 1);
    submit(&c.t, c.d, 1, 4, 10 * S);
    assert_int_equal(next_job(&c, &got, &held), 1);
    assert_int_equal(next_job(&c, &got, &quick), 1);
    started(&c.t, c.w[0], quick);
    tell(&c.t, TASK_HELD, task_held, c.w[0], .id = held, .state = TASK_RUNNING, .run_us = 1000 * S);
    tell(&c.t, TASK_PAUSED, task_paused, c.w[0], .id = held, .run_us = 1000 * S, .times = 1);
    pass(&c.t, 2 * S);
    finished(&c.t, c.w[0], quick, OUTCOME_EXITED, 0, 2 * S);
    submit(&c.t, c.d, 2, 1, 60 * S);
    assert_int_equal(next_job(&c, &got, NULL), 1); /* 20 s; 2 s + 30 s */
    end(&c);
}

/* A size is so long as the job would fill the cluster, as large as that is. */
static void sizes_follow_the_cluster(void **state)
{
    struct cluster c = {0};
    uint32_t got = 0, w1;

    begin_turns(&c, 2, 1);
    submit(&c.t, c.d, 1, 8, 10 * S);
    pass(&c.t, 20 * S);
    submit(&c.t, c.d, 2, 2, 10 * S);
    assert_int_equal(next_job(&c, &got, NULL), 2); /* 40 s; 20 s + 10 s */
    w1 = add_worker(&c.t, "w1", 14);
    assert_int_equal(next_job(&c, &got, NULL), 1); /* 5 s; 20 s + 1.25 s */
    tell(&c.t, PEER_LOST, peer_lost, w1, .role = ROLE_WORKER);
    pass(&c.t, c.t.config.long_lease_us);
    assert_int_equal(next_job(&c, &got, NULL), 2); /* 40 s; 20 s + 10 s, as before */
    end(&c);
}

static void what_comes_back_keeps_its_jobs_turn(void **state)
{
    struct cluster c = {0};
    uint32_t got = 0;
    struct try_id id;

    begin_turns(&c, 1, 0);
    submit(&c.t, c.d, 1, 1, 10 * S);
    pass(&c.t, 1 * S);
    submit(&c.t, c.d, 2, 1, 10 * S);
    assert_int_equal(next_job(&c, &got, &id), 1);
    tell(&c.t, TASK_RETURNED, task_returned, c.w[0], .id = id);
    assert_int_equal(next_job(&c, &got, NULL), 1);
    assert_int_equal(next_job(&c, &got, NULL), 2);
    end(&c);
}

/* An operator may change it while jobs wait. */
static void another_order_is_in_force_at_once(void **state)
{
    struct cluster c = {0};
    struct policy_choice *choice = policy_choice_new();
    uint32_t got = 0;

    begin_turns(&c, 1, 10);
    submit(&c.t, c.d, 1, 9, 10 * S);
    pass(&c.t, 1 * S);
    submit(&c.t, c.d, 2, 2, 10 * S);
    assert_int_equal(next_job(&c, &got, NULL), 2);
    choice->flags = POLICY_LONG_BY_WORK;
    tell(&c.t, SET_POLICY, set_policy, 0, .choice = choice, .client = 1);
    policy_choice_drop(choice);
    assert_int_equal(next_job(&c, &got, NULL), 1);
    end(&c);
}

/* Who waits, as this test keeps account of it. */
struct turns {
    int64_t key_us[200];
    uint32_t left[200];
    uint32_t n;
};

static uint64_t least(struct turns *w)
{
    uint32_t best = 0;

    for (uint32_t i = 0; i < w->n; i++)
        if (w->left[i] > 0 && (w->left[best] == 0 || w->key_us[i] < w->key_us[best]))
            best = i;
    w->left[best]--;
    return best + 1;
}

static void jobs_at_random_take_turns_by_the_formula(void **state)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct cluster c = {0};
        struct turns w = {0};
        uint32_t got = 0, waiting = 0, stretch;
        struct rng r;

        rng_seed(&r, seed);
        stretch = 1 + (uint32_t)rng_below(&r, 20);
        begin_turns(&c, 8, stretch);
        for (int step = 0; step < 400; step++) {
            pass(&c.t, (int64_t)rng_below(&r, 3 * S));
            if (waiting > 0 && rng_below(&r, 2)) {
                assert_int_equal(next_job(&c, &got, NULL), least(&w));
                waiting--;
            } else if (w.n < 200) {
                uint32_t tasks = 1 + (uint32_t)rng_below(&r, 5);
                int64_t estimate_us = 1 + (int64_t)rng_below(&r, 100 * S);

                submit(&c.t, c.d, w.n + 1, tasks, estimate_us);
                w.key_us[w.n] = c.t.now_us + stretch * (estimate_us * tasks / 8);
                w.left[w.n++] = tasks;
                waiting += tasks;
            }
        }
        end(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_task_waits_until_a_worker_asks),
        cmocka_unit_test(a_worker_that_joins_again_has_nothing_under_way),
        cmocka_unit_test(nobody_gets_more_than_it_has_slots),
        cmocka_unit_test(what_comes_back_goes_elsewhere),
        cmocka_unit_test(the_slot_of_what_was_never_sent_is_free),
        cmocka_unit_test(another_policy_places_what_waits),
        cmocka_unit_test(nothing_is_sent_before_that_is_on_record),
        cmocka_unit_test(after_a_restart_what_was_not_sent_is_placed_at_once),
        cmocka_unit_test(a_job_that_avoids_who_asks_waits_for_another_worker),
        cmocka_unit_test(a_smaller_job_goes_first_unless_it_came_too_late),
        cmocka_unit_test(what_tasks_show_makes_a_job_larger_but_never_smaller),
        cmocka_unit_test(what_runs_shows_as_much_as_it_has_run),
        cmocka_unit_test(what_stands_still_shows_what_it_has_run),
        cmocka_unit_test(nobody_has_run_longer_than_its_job_is_there),
        cmocka_unit_test(sizes_follow_the_cluster),
        cmocka_unit_test(what_comes_back_keeps_its_jobs_turn),
        cmocka_unit_test(another_order_is_in_force_at_once),
        cmocka_unit_test(jobs_at_random_take_turns_by_the_formula),
    };

    return cmocka_run_group_tests_name("central_late", tests, NULL, NULL);
}
