/* Workers that run one user's commands alone, at central: dists hear of them, and only his long tasks go there. */
#include "tests/test_central.h"

#include <time.h>

static void serves(struct talk *t, uint32_t worker, const char *user)
{
    struct blob *b = blob_str(user);

    tell(t, SERVES, serves, worker, .user = b);
    blob_drop(b);
}

static void submit_of(struct cluster *c, uint64_t seq, uint32_t tasks, const char *user)
{
    struct job_desc *d = desc_of("", tasks);

    blob_drop(d->user);
    d->user = blob_str(user);
    tell(&c->t, LONG_SUBMIT, long_submit, c->d, .job = JOB(c->d, seq), .desc = d, .estimate_us = S,
         .epoch = 1);
    job_desc_drop(d);
}

static void dists_hear_whom_a_worker_serves(void **state)
{
    struct cluster c;
    uint32_t late;

    begin(&c, 2);
    serves(&c.t, c.w[0], "ann");
    assert_string_equal(expect(&c.t, MEMBER, member, c.d)->serves->data, "ann");
    late = add_dist(&c.t, "d2");
    const struct members *list = expect(&c.t, MEMBERS, members, late)->list;
    for (uint32_t i = 0; i < list->n; i++)
        assert_true((list->v[i].serves != NULL) == (strcmp(list->v[i].name->data, "w0") == 0));
    /* The next process of that name serves everybody. */
    tell(&c.t, PEER_LOST, peer_lost, c.w[0], .role = ROLE_WORKER);
    c.w[0] = join(&c.t, (struct join){.name = "w0", .slots = 1, .role = ROLE_WORKER, .incarnation = 9});
    expect(&c.t, MEMBER, member, c.d);
    pass(&c.t, 1 * S);
    late = add_dist(&c.t, "d3");
    list = expect(&c.t, MEMBERS, members, late)->list;
    for (uint32_t i = 0; i < list->n; i++)
        assert_null(list->v[i].serves);
    end(&c);
}

static void long_tasks_go_where_their_user_is_served(void **state)
{
    struct cluster c;

    begin(&c, 2);
    serves(&c.t, c.w[0], "ann");
    submit_of(&c, 1, 4, "bob");
    assert_int_equal(count_out(&c.t, MSG_TASK_ENQUEUE), 4);
    for (int i = 0; i < 4; i++)
        expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[1]);
    submit_of(&c, 2, 2, "ann"); /* her own worker waits for nothing */
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0]);
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0]);
    submit_of(&c, 3, 6, "ann"); /* and then both are as full */
    assert_int_equal(count_out(&c.t, MSG_TASK_ENQUEUE), 6);
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0]);
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[1]);
    end(&c);
}

/* Each worker acknowledges what it was told last. */
static bool is_general(struct talk *t, uint32_t worker)
{
    for (uint32_t epoch = 1; epoch < 16; epoch++)
        tell(t, PARTITION_ACK, partition_ack, worker, .epoch = epoch);
    return general(t, worker);
}

static void each_user_keeps_a_general_worker(void **state)
{
    struct talk t;
    struct central_summary s;
    uint32_t w[5];

    talk_config(&t);
    t.config.history.share_ppm = 1000000;
    talk_start(&t);
    tell(&t, RECOVERED, recovered, 0, 0);
    for (uint32_t i = 0; i < 5; i++)
        w[i] = add_worker(&t, (char[]){'w', (char)('0' + i), 0}, 1);
    central_view_summary(t.c, &s);
    assert_int_equal(s.workers_reserved, 4);
    serves(&t, w[0], "ann");
    assert_true(is_general(&t, w[0])); /* her only one */
    serves(&t, w[1], "ann");
    serves(&t, w[2], "bob");
    central_view_summary(t.c, &s);
    assert_int_equal(s.workers_reserved, 2);
    assert_int_equal(is_general(&t, w[0]) + is_general(&t, w[1]), 1);
    assert_true(is_general(&t, w[2]));
    assert_int_equal(is_general(&t, w[3]) + is_general(&t, w[4]), 1); /* everybody's */
    talk_end(&t);
}

static void tasks_that_nobody_may_run_wait(void **state)
{
    struct cluster c;

    begin(&c, 1);
    serves(&c.t, c.w[0], "ann");
    submit_of(&c, 1, 1, "bob");
    assert_int_equal(count_out(&c.t, MSG_TASK_ENQUEUE), 0);
    submit_of(&c, 2, 1, "ann"); /* behind it */
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0]);
    add_worker(&c.t, "w1", 1);
    pass(&c.t, 1 * S);
    assert_int_equal(view_of(&c, 1).placed, 1);
    end(&c);
}

/* Else it would wait for a worker that never asks for it. */
static void who_serves_another_user_is_none_that_could_start_it(void **state)
{
    struct cluster c;

    begin_late_bare(&c);
    c.w[0] = add_worker(&c.t, "w0", 1);
    serves(&c.t, add_worker(&c.t, "w1", 1), "ann");
    submit_of(&c, 1, 1, "bob");
    tell(&c.t, LONG_REQUEST, long_request, c.w[0], .slots = 1);
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0]);
    cannot_start(&c.t, c.w[0], try_of(c.d, 1, 0, 1));
    expect_task(&c, 0, TASK_FAILED);
    end(&c);
}

/* Else it would take all of the task's starts. */
static void a_task_avoids_its_users_worker_that_could_not_start_it(void **state)
{
    struct cluster c;

    begin_late_bare(&c);
    for (uint32_t i = 0; i < 2; i++) {
        c.w[i] = add_worker(&c.t, (char[]){'w', (char)('0' + i), 0}, 1);
        serves(&c.t, c.w[i], "ann");
    }
    submit_of(&c, 1, 1, "ann");
    tell(&c.t, LONG_REQUEST, long_request, c.w[0], .slots = 1);
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0]);
    cannot_start(&c.t, c.w[0], try_of(c.d, 1, 0, 1));
    tell(&c.t, LONG_REQUEST, long_request, c.w[0], .slots = 1, .got = 1);
    expect_none(&c.t, TASK_ENQUEUE, c.w[0]);
    tell(&c.t, LONG_REQUEST, long_request, c.w[1], .slots = 1);
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[1]);
    end(&c);
}

/* The processor time of some steps while a task waits for any of so many workers, all of them its user's and busy. */
static clock_t steps_beside(uint32_t workers)
{
    clock_t least = 0;
    struct cluster c;

    begin_late_bare(&c);
    for (uint32_t i = 0; i < workers; i++) {
        char name[16];

        snprintf(name, sizeof name, "w%u", i);
        serves(&c.t, add_worker(&c.t, name, 1), "ann");
    }
    submit_of(&c, 1, 1, "ann");
    for (int round = 0; round < 5; round++) { /* the quickest one counts: others use the machine as well */
        clock_t began = clock(), took;

        for (int i = 0; i < 300; i++)
            talk_quick_step(&c.t, &(struct msg){.type = MSG_TIMER});
        took = clock() - began;
        least = round == 0 || took < least ? took : least;
    }
    assert_int_equal(view_of(&c, 1).waiting, 1);
    end(&c);
    return least;
}

static void a_task_that_waits_costs_a_step_no_look_at_each_pair_of_workers(void **state)
{
    clock_t few = steps_beside(100), many = steps_beside(400);

    assert_true(many <= 8 * few + CLOCKS_PER_SEC / 1000);
}

static void its_thieves_get_no_hints(void **state)
{
    struct cluster c;

    begin(&c, 3);
    serves(&c.t, c.w[0], "ann");
    tell(&c.t, PARKED, parked, c.w[0], .parked = 1);
    tell(&c.t, STUCK, stuck, c.w[1], .stuck = 1);
    pass(&c.t, 1 * S);
    expect_none(&c.t, STEAL_HINT, c.w[0]);
    tell(&c.t, PARKED, parked, c.w[2], .parked = 1);
    expect(&c.t, STEAL_HINT, steal_hint, c.w[2]);
    end(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dists_hear_whom_a_worker_serves),
        cmocka_unit_test(long_tasks_go_where_their_user_is_served),
        cmocka_unit_test(each_user_keeps_a_general_worker),
        cmocka_unit_test(tasks_that_nobody_may_run_wait),
        cmocka_unit_test(who_serves_another_user_is_none_that_could_start_it),
        cmocka_unit_test(a_task_avoids_its_users_worker_that_could_not_start_it),
        cmocka_unit_test(a_task_that_waits_costs_a_step_no_look_at_each_pair_of_workers),
        cmocka_unit_test(its_thieves_get_no_hints),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
