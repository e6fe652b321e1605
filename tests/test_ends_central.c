/* Workers that have an end, at central: dists hear of it, and long tasks whose estimate does not fit go elsewhere. */
#include "tests/test_central.h"

#include <time.h>

static void ends_in(struct talk *t, uint32_t worker, int64_t left_us)
{
    tell(t, ENDS, ends, worker, .left_us = left_us);
}

static void submit_for(struct cluster *c, uint64_t seq, uint32_t tasks, int64_t estimate_us, const char *user)
{
    struct job_desc *d = desc_of("", tasks);

    d->estimate_us = estimate_us;
    blob_drop(d->user);
    d->user = blob_str(user);
    tell(&c->t, LONG_SUBMIT, long_submit, c->d, .job = JOB(c->d, seq), .desc = d,
         .estimate_us = estimate_us ? estimate_us : 1000 * S, .epoch = 1);
    job_desc_drop(d);
}

/* As talk_config() and what the test has set since say. */
static void begin_with(struct cluster *c, uint32_t workers)
{
    talk_start(&c->t);
    tell(&c->t, RECOVERED, recovered, 0, 0);
    c->d = add_dist(&c->t, "d1");
    for (uint32_t i = 0; i < workers; i++)
        c->w[i] = add_worker(&c->t, (char[]){'w', (char)('0' + i), 0}, 1);
    pass(&c->t, 1 * S);
}

static void begin_late(struct cluster *c, uint32_t workers)
{
    talk_config(&c->t);
    c->t.config.policy.flags |= POLICY_LATE_LONG;
    begin_with(c, workers);
}

static void ask(struct cluster *c, uint32_t worker, uint32_t got)
{
    tell(&c->t, LONG_REQUEST, long_request, c->w[worker], .slots = 1, .got = got);
}

static void dists_hear_when_a_worker_ends(void **state)
{
    struct cluster c;
    uint32_t late;

    begin(&c, 2);
    ends_in(&c.t, c.w[0], 100 * S);
    assert_true(expect(&c.t, ENDS, ends, c.d)->left_us == 100 * S);
    pass(&c.t, 10 * S);
    late = add_dist(&c.t, "d2");
    assert_true(expect(&c.t, ENDS, ends, late)->left_us == 90 * S);
    expect_none(&c.t, ENDS, late);
    /* The next process of that name has none. */
    tell(&c.t, PEER_LOST, peer_lost, c.w[0], .role = ROLE_WORKER);
    c.w[0] = join(&c.t, (struct join){.name = "w0", .slots = 1, .role = ROLE_WORKER, .incarnation = 9});
    assert_true(expect(&c.t, ENDS, ends, c.d)->left_us == LIMIT_TIME_US);
    end(&c);
}

/* Dists have forgotten its end with its lease. */
static void a_worker_that_is_heard_after_its_lease_has_the_same_end(void **state)
{
    struct talk t;

    talk_config(&t);
    t.config.heartbeats = true;
    talk_start(&t);
    tell(&t, RECOVERED, recovered, 0, 0);
    add_dist(&t, "d1");
    add_worker(&t, "w2", 1);
    ends_in(&t, 2, 1000 * S);
    hear_alone(&t, 1);
    tell(&t, HEARTBEAT, heartbeat, 2, .seq = 1);
    assert_int_equal(expect(&t, MEMBER, member, 1)->state, MEMBER_UP);
    assert_true(expect(&t, ENDS, ends, 1)->left_us == 930 * S);
    talk_end(&t);
}

static void long_tasks_go_where_there_is_time(void **state)
{
    struct cluster c;

    begin(&c, 2);
    ends_in(&c.t, c.w[0], 100 * S);
    submit_for(&c, 1, 4, 200 * S, "");
    assert_int_equal(count_out(&c.t, MSG_TASK_ENQUEUE), 4);
    for (int i = 0; i < 4; i++)
        expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[1]);
    submit_for(&c, 2, 1, 100 * S, "");
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0]);
    submit_for(&c, 3, 1, 0, ""); /* without an estimate: as before */
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0]);
    end(&c);
}

static void what_waits_is_not_called_back_for_a_worker_without_time(void **state)
{
    struct cluster c;

    begin(&c, 1);
    submit_for(&c, 1, 3, 200 * S, "");
    c.w[1] = join(&c.t, (struct join){.name = "w1", .slots = 1, .role = ROLE_WORKER});
    uint32_t epoch = expect(&c.t, PARTITION, partition, c.w[1])->epoch;
    ends_in(&c.t, c.w[1], 100 * S);
    tell(&c.t, PARTITION_ACK, partition_ack, c.w[1], .epoch = epoch);
    tell(&c.t, HELD_END, held_end, c.w[1], 0);
    pass(&c.t, 2 * S);
    expect_none(&c.t, TASK_RECALL, c.w[0]);
    end(&c);
}

static void who_ends_later_than_it_said_gets_what_waits(void **state)
{
    struct cluster c;

    begin(&c, 1);
    ends_in(&c.t, c.w[0], 100 * S);
    submit_for(&c, 1, 1, 200 * S, "");
    assert_int_equal(count_out(&c.t, MSG_TASK_ENQUEUE), 0);
    ends_in(&c.t, c.w[0], 300 * S);
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0]);
    end(&c);
}

/* Only that job avoids the one worker with the time. */
static void a_job_that_could_not_start_keeps_no_other_away(void **state)
{
    struct cluster c;

    begin(&c, 2);
    ends_in(&c.t, c.w[0], 100 * S);
    ends_in(&c.t, c.w[1], 300 * S);
    submit_for(&c, 1, 1, 200 * S, "");
    tell(&c.t, TASK_FINISHED, task_finished, c.w[1], .id = try_of(c.d, 1, 0, 1), .outcome = OUTCOME_LOST,
         .code = HAWK_ECANNOT_START);
    assert_int_equal(count_out(&c.t, MSG_TASK_ENQUEUE), 0);
    submit_for(&c, 2, 1, 200 * S, "");
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[1]);
    end(&c);
}

/* Else it would wait for a worker that never gets it. */
static void who_has_no_time_is_none_that_could_start_it(void **state)
{
    struct cluster c;

    begin_late(&c, 2);
    ends_in(&c.t, c.w[1], 100 * S);
    submit_for(&c, 1, 1, 200 * S, "");
    ask(&c, 0, 0);
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0]);
    tell(&c.t, TASK_FINISHED, task_finished, c.w[0], .id = try_of(c.d, 1, 0, 1), .outcome = OUTCOME_LOST,
         .code = HAWK_ECANNOT_START);
    expect_task(&c, 0, TASK_FAILED);
    end(&c);
}

static void a_job_that_fits_nowhere_holds_up_nobody(void **state)
{
    struct cluster c;

    begin_late(&c, 2);
    ends_in(&c.t, c.w[0], 100 * S);
    for (uint64_t seq = 1; seq <= 100; seq++)
        submit_for(&c, seq, 2, (200 + (int64_t)seq) * S, "");
    ask(&c, 0, 0);
    assert_int_equal(count_out(&c.t, MSG_TASK_ENQUEUE), 0);
    submit_for(&c, 101, 1, 50 * S, "");
    assert_true(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0])->id.job.v == JOB(c.d, 101).v);
    /* The other worker has all the time there is. */
    ask(&c, 1, 0);
    assert_true(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[1])->id.job.v == JOB(c.d, 1).v);
    /* And so has the next process of the first. */
    ends_in(&c.t, c.w[0], 202 * S);
    ask(&c, 0, 1);
    assert_true(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0])->id.job.v == JOB(c.d, 1).v);
    ask(&c, 0, 2);
    assert_true(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0])->id.job.v == JOB(c.d, 2).v);
    tell(&c.t, LONG_CANCEL, long_cancel, c.d, .job = JOB(c.d, 50), .epoch = 1);
    assert_int_equal(view_of(&c, 50).cancelled, 2);
    end(&c);
}

enum whose { EVERYBODYS, ONE_USERS, AN_APPLICATIONS };

/* It asks for so many tasks, and has half an hour, or all the time there is. */
static uint32_t add_asking(struct cluster *c, const char *name, uint32_t slots, bool ends, enum whose whose)
{
    uint32_t w = add_worker(&c->t, name, 16);
    struct blob *b = blob_str("a");

    if (whose == ONE_USERS)
        tell(&c->t, SERVES, serves, w, .user = b);
    if (whose == AN_APPLICATIONS)
        tell(&c->t, APP, app, w, .name = b, .on = 1);
    blob_drop(b);
    if (ends)
        ends_in(&c->t, w, 1800 * S);
    tell(&c->t, LONG_REQUEST, long_request, w, .slots = slots);
    return w;
}

static void submit_an_hour(struct cluster *c, uint64_t seq, enum whose whose)
{
    struct job_desc *d = desc_of("", 1);

    d->estimate_us = 3600 * S;
    blob_drop(whose == AN_APPLICATIONS ? d->app : d->user);
    *(whose == AN_APPLICATIONS ? &d->app : &d->user) = blob_str("a");
    d->kind = whose == AN_APPLICATIONS ? PAYLOAD_APP : PAYLOAD_TIMER;
    tell(&c->t, LONG_SUBMIT, long_submit, c->d, .job = JOB(c->d, seq), .desc = d, .estimate_us = 3600 * S,
         .epoch = 1);
    job_desc_drop(d);
}

/* The processor time of some requests of a worker with time, while n jobs wait apart beside n workers without. */
static clock_t requests_beside(uint32_t n, enum whose whose)
{
    clock_t least = 0;
    struct cluster c;
    uint32_t w;

    begin_late(&c, 0);
    for (uint32_t i = 0; i < n; i++) {
        char name[16];

        snprintf(name, sizeof name, "short%u", i);
        add_asking(&c, name, 1, true, whose);
    }
    for (uint32_t i = 1; i <= n; i++)
        submit_an_hour(&c, i, whose);
    assert_int_equal(totals(&c).counters[COUNTER_tasks_placed], 0);
    w = add_asking(&c, "staying", 0, false, whose);
    for (uint32_t got = 0; got < 15;) { /* the quickest five count: others use the machine as well */
        clock_t began = clock(), took;

        for (int i = 0; i < 5; i++)
            talk_quick_step(&c.t, &(struct msg){.type = MSG_LONG_REQUEST,
                                                .peer = w,
                                                .long_request = {.slots = 1, .got = got++}});
        took = clock() - began;
        least = got == 5 || took < least ? took : least;
    }
    assert_int_equal(totals(&c).counters[COUNTER_tasks_placed], 15);
    end(&c);
    return least;
}

static void jobs_that_wait_apart_cost_no_look_at_each_worker(void **state)
{
    for (enum whose whose = EVERYBODYS; whose <= AN_APPLICATIONS; whose++) {
        clock_t few = requests_beside(20, whose), many = requests_beside(320, whose);

        assert_true(many <= 64 * few + CLOCKS_PER_SEC / 1000);
    }
}

/* As in a cluster whose workers all run their own user's commands alone. */
static void workers_of_one_user_have_an_end_too(void **state)
{
    struct blob *ann = blob_str("ann"), *bob = blob_str("bob");
    struct cluster c;

    begin_late(&c, 3);
    for (int i = 0; i < 2; i++) {
        tell(&c.t, SERVES, serves, c.w[i], .user = ann);
        ends_in(&c.t, c.w[i], (i + 1) * 100 * S);
    }
    blob_drop(ann);
    tell(&c.t, SERVES, serves, c.w[2], .user = bob); /* he has time for ann's jobs, and takes none */
    ends_in(&c.t, c.w[2], 1000 * S);
    ask(&c, 2, 0);
    blob_drop(bob);
    submit_for(&c, 1, 1, 300 * S, "ann");
    submit_for(&c, 2, 1, 150 * S, "ann");
    submit_for(&c, 3, 1, 50 * S, "ann");
    ask(&c, 0, 0);
    assert_true(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0])->id.job.v == JOB(c.d, 3).v);
    ask(&c, 1, 0);
    assert_true(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[1])->id.job.v == JOB(c.d, 2).v);
    ask(&c, 1, 1);
    assert_int_equal(count_out(&c.t, MSG_TASK_ENQUEUE), 0);
    add_worker(&c.t, "w3", 1);
    pass(&c.t, 1 * S);
    end(&c);
}

static void tasks_that_need_an_executor_as_well(void **state)
{
    struct blob *app = blob_str("a");
    struct cluster c;

    begin(&c, 2);
    for (int i = 0; i < 2; i++)
        tell(&c.t, APP, app, c.w[i], .name = app, .on = 1);
    ends_in(&c.t, c.w[0], 100 * S);
    for (uint64_t seq = 1; seq <= 2; seq++) {
        struct job_desc *d = desc_of("", 2);

        d->kind = PAYLOAD_APP;
        d->app = blob_ref(app);
        d->estimate_us = seq == 1 ? 200 * S : 100 * S;
        tell(&c.t, LONG_SUBMIT, long_submit, c.d, .job = JOB(c.d, seq), .desc = d,
             .estimate_us = d->estimate_us, .epoch = 1);
        job_desc_drop(d);
        for (int i = 0; i < 2; i++)
            expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[seq == 1 ? 1 : 0]);
    }
    blob_drop(app);
    ends_in(&c.t, c.w[1], 150 * S);
    end(&c);
}

static void has_run(struct cluster *c, const char *name, int64_t mean_us)
{
    struct blob *b = blob_str(name);

    tell(&c->t, JOB_REPORT, job_report, c->d, .name = b, .mean_us = mean_us, .task_us = (uint64_t)mean_us,
         .tasks = 1, .class = CLASS_LONG);
    blob_drop(b);
}

static void history_counts_as_an_estimate(void **state)
{
    struct job_desc *d = desc_of("slow", 1);
    struct cluster c;

    begin(&c, 1);
    ends_in(&c.t, c.w[0], 100 * S);
    has_run(&c, "slow", 150 * S);
    tell(&c.t, LONG_SUBMIT, long_submit, c.d, .job = JOB(c.d, 1), .desc = d, .estimate_us = 150 * S,
         .epoch = 1);
    job_desc_drop(d);
    assert_int_equal(count_out(&c.t, MSG_TASK_ENQUEUE), 0);
    has_run(&c, "quick", 1 * S);
    assert_int_equal(count_out(&c.t, MSG_TASK_ENQUEUE), 0);
    has_run(&c, "slow", 30 * S); /* 90 s on average */
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0]);
    end(&c);
}

/* Half of the slots are reserved. */
static void begin_reserving(struct cluster *c, uint32_t workers)
{
    talk_config(&c->t);
    c->t.config.history.share_ppm = 500000;
    begin_with(c, workers);
}

/* It says when it ends, and all workers acknowledge what they hear of their partition then. */
static void ends_and_ack(struct cluster *c, uint32_t worker, int64_t left_us)
{
    uint32_t epoch[8] = {0};

    ends_in(&c->t, worker, left_us);
    for (int i = 0; i < 8 && c->w[i]; i++)
        for (const struct msg *m; (m = find_out(&c->t, MSG_PARTITION, c->w[i]));)
            epoch[i] = m->partition.epoch;
    for (int i = 0; i < 8; i++)
        if (epoch[i])
            tell(&c->t, PARTITION_ACK, partition_ack, c->w[i], .epoch = epoch[i]);
}

/* Which workers are general, like "0110". */
static void expect_general(struct cluster *c, const char *workers)
{
    for (uint32_t i = 0; workers[i]; i++)
        if (general(&c->t, c->w[i]) != (workers[i] == '1'))
            fail_msg("w%u is not as in %s", i, workers);
}

/* A long job that fits at some worker fits at a general one: else it would wait for ever. */
static void the_general_partition_has_the_workers_with_time(void **state)
{
    struct cluster c;

    begin_reserving(&c, 2);
    expect_general(&c, "01"); /* who joined first is reserved, */
    ends_and_ack(&c, c.w[1], 100 * S);
    expect_general(&c, "10"); /* but not with more time than the other one */
    submit_for(&c, 1, 1, 1000 * S, "");
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0]);
    end(&c);

    begin_reserving(&c, 6);
    expect_general(&c, "000111");
    ends_and_ack(&c, c.w[5], 100 * S);
    ends_and_ack(&c, c.w[4], 200 * S);
    expect_general(&c, "011100");
    ends_and_ack(&c, c.w[3], 300 * S);
    expect_general(&c, "111000");
    ends_and_ack(&c, c.w[2], 300 * S); /* as late as one that is reserved */
    expect_general(&c, "111000");
    ends_and_ack(&c, c.w[2], 300 * S - 1); /* that makes no difference to long tasks */
    expect_general(&c, "111000");
    /* The same process joins again, and nothing moves. */
    tell(&c.t, PEER_LOST, peer_lost, c.w[4], .role = ROLE_WORKER);
    join(&c.t, (struct join){.name = "w4", .slots = 1, .role = ROLE_WORKER, .node = c.w[4], .cluster = 77});
    expect_general(&c, "111000");
    end(&c);
}

/* One that is too big to be reserved has no place to give. */
static void a_big_worker_that_ends_reserves_none_that_stays(void **state)
{
    struct cluster c;

    begin_reserving(&c, 1);
    c.w[1] = add_worker(&c.t, "big", 8);
    expect_general(&c, "01");
    ends_and_ack(&c, c.w[1], 100 * S);
    expect_general(&c, "11");
    end(&c);
}

static void a_small_worker_that_ends_takes_a_bigger_ones_place(void **state)
{
    struct cluster c;

    begin_reserving(&c, 0);
    c.w[0] = add_worker(&c.t, "w0", 2);
    c.w[1] = add_worker(&c.t, "w1", 2);
    c.w[2] = add_worker(&c.t, "w2", 1);
    expect_general(&c, "011");
    ends_and_ack(&c, c.w[2], 100 * S);
    expect_general(&c, "110");
    end(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dists_hear_when_a_worker_ends),
        cmocka_unit_test(a_worker_that_is_heard_after_its_lease_has_the_same_end),
        cmocka_unit_test(long_tasks_go_where_there_is_time),
        cmocka_unit_test(what_waits_is_not_called_back_for_a_worker_without_time),
        cmocka_unit_test(who_ends_later_than_it_said_gets_what_waits),
        cmocka_unit_test(a_job_that_could_not_start_keeps_no_other_away),
        cmocka_unit_test(who_has_no_time_is_none_that_could_start_it),
        cmocka_unit_test(a_job_that_fits_nowhere_holds_up_nobody),
        cmocka_unit_test(jobs_that_wait_apart_cost_no_look_at_each_worker),
        cmocka_unit_test(workers_of_one_user_have_an_end_too),
        cmocka_unit_test(tasks_that_need_an_executor_as_well),
        cmocka_unit_test(history_counts_as_an_estimate),
        cmocka_unit_test(the_general_partition_has_the_workers_with_time),
        cmocka_unit_test(a_big_worker_that_ends_reserves_none_that_stays),
        cmocka_unit_test(a_small_worker_that_ends_takes_a_bigger_ones_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
