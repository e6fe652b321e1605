/* Applications at central: who serves what is passed on, long tasks go where theirs is served, and what they return to
 * their dists. */
#include "tests/test_central.h"

static void serves(struct talk *t, uint32_t worker, const char *name, bool on)
{
    struct blob *b = blob_str(name);

    tell(t, APP, app, worker, .name = b, .on = on);
    blob_drop(b);
}

static void serves_user(struct talk *t, uint32_t worker, const char *user, const char *name, bool on)
{
    struct blob *b = blob_str(name), *u = blob_str(user);

    tell(t, APP, app, worker, .name = b, .user = u, .on = on);
    blob_drop(b);
    blob_drop(u);
}

static void submit_app_of(struct cluster *c, const char *user, uint64_t seq, uint32_t tasks, const char *name)
{
    struct job_desc *d = desc_of("", tasks);

    blob_drop(d->user);
    d->user = blob_str(user);
    d->kind = PAYLOAD_APP;
    d->app = blob_str(name);
    tell(&c->t, LONG_SUBMIT, long_submit, c->d, .job = JOB(1, seq), .desc = d, .estimate_us = S, .epoch = 1);
    job_desc_drop(d);
}

static void submit_app(struct cluster *c, uint64_t seq, uint32_t tasks, const char *name)
{
    submit_app_of(c, "", seq, tasks, name);
}

static void returned(struct cluster *c, uint32_t worker, struct try_id id, size_t len)
{
    struct blob *result = blob_new(NULL, len);

    tell(&c->t, TASK_FINISHED, task_finished, worker, .id = id, .outcome = OUTCOME_EXITED, .result = result);
    blob_drop(result);
}

static void dists_hear_who_serves_what(void **state)
{
    struct cluster c;
    const struct msg_app *m;
    uint32_t late;

    begin(&c, 2);
    serves(&c.t, c.w[0], "a", true);
    m = expect(&c.t, APP, app, c.d);
    assert_true(m->node.v == 2 && m->on);
    assert_string_equal(m->name->data, "a");
    serves(&c.t, c.w[0], "a", true); /* no news */
    expect_nothing_else(&c.t);
    serves(&c.t, c.w[1], "a", true);
    late = add_dist(&c.t, "d2");
    expect(&c.t, MEMBERS, members, late);
    assert_true(expect(&c.t, APP, app, late)->node.v == 2);
    assert_true(expect(&c.t, APP, app, late)->node.v == 3);
    /* A worker that is gone serves nothing; its members' entry says so. */
    tell(&c.t, LEAVE, leave, c.w[0], 0);
    assert_int_equal(expect(&c.t, MEMBER, member, c.d)->state, MEMBER_GONE);
    late = add_dist(&c.t, "d3");
    assert_true(expect(&c.t, APP, app, late)->node.v == 3);
    expect_none(&c.t, APP, late);
    end(&c);
}

static void a_worker_that_joins_again_tells_again(void **state)
{
    struct cluster c;

    begin(&c, 1);
    serves(&c.t, c.w[0], "a", true);
    tell(&c.t, PEER_LOST, peer_lost, c.w[0], .role = ROLE_WORKER);
    c.w[0] = join(&c.t, (struct join){.name = "w0", .slots = 1, .role = ROLE_WORKER, .node = 2});
    assert_false(expect(&c.t, APP, app, c.d)->on);
    serves(&c.t, c.w[0], "a", true);
    assert_true(expect(&c.t, APP, app, c.d)->on);
    end(&c);
}

/* Dists have forgotten it with its lease. */
static void a_worker_that_is_heard_after_its_lease_need_not_tell_again(void **state)
{
    struct talk t;

    talk_config(&t);
    t.config.heartbeats = true;
    talk_start(&t);
    tell(&t, RECOVERED, recovered, 0, 0);
    add_dist(&t, "d1");
    add_worker(&t, "w2", 1);
    serves(&t, 2, "a", true);
    hear_alone(&t, 1);
    tell(&t, HEARTBEAT, heartbeat, 2, .seq = 1);
    assert_int_equal(expect(&t, NODE_CHANGED, node_changed, 0)->change, CHANGE_BACK);
    assert_int_equal(expect(&t, MEMBER, member, 1)->state, MEMBER_UP);
    assert_true(expect(&t, APP, app, 1)->on);
    talk_end(&t);
}

/* Else it would wait for a worker that never asks for it. */
static void who_does_not_serve_it_could_not_start_it(void **state)
{
    struct cluster c;

    begin_late_bare(&c);
    c.w[0] = add_worker(&c.t, "w0", 1);
    add_worker(&c.t, "w1", 1);
    serves(&c.t, c.w[0], "a", true);
    submit_app(&c, 1, 1, "a");
    tell(&c.t, LONG_REQUEST, long_request, c.w[0], .slots = 1);
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0]);
    cannot_start(&c.t, c.w[0], try_of(c.d, 1, 0, 1));
    expect_task(&c, 0, TASK_FAILED);
    end(&c);
}

static void who_could_not_start_it_is_avoided(void **state)
{
    struct cluster c;

    begin(&c, 3);
    serves(&c.t, c.w[0], "a", true);
    serves(&c.t, c.w[1], "a", true);
    submit_app(&c, 1, 1, "a");
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0]);
    cannot_start(&c.t, c.w[0], try_of(c.d, 1, 0, 1));
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[1]);
    cannot_start(&c.t, c.w[1], try_of(c.d, 1, 0, 2)); /* nobody is left who serves it */
    expect_task(&c, 0, TASK_FAILED);
    end(&c);
}

/* The other worker that serves it will ask. What came behind the task need not wait for that. */
static void who_could_not_start_it_asks_in_vain(void **state)
{
    struct cluster c;

    begin_late_bare(&c);
    for (int i = 0; i < 2; i++) {
        c.w[i] = add_worker(&c.t, i ? "w1" : "w0", 1);
        serves(&c.t, c.w[i], "a", true);
    }
    submit_app(&c, 1, 1, "a");
    tell(&c.t, LONG_REQUEST, long_request, c.w[0], .slots = 1);
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0]);
    cannot_start(&c.t, c.w[0], try_of(c.d, 1, 0, 1));
    submit_app(&c, 2, 1, "a");
    tell(&c.t, LONG_REQUEST, long_request, c.w[0], .slots = 1, .got = 1);
    assert_true(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0])->id.job.v == JOB(1, 2).v);
    tell(&c.t, LONG_REQUEST, long_request, c.w[1], .slots = 1);
    assert_true(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[1])->id.job.v == JOB(1, 1).v);
    end(&c);
}

static void long_tasks_go_where_their_application_is_served(void **state)
{
    struct cluster c;

    begin(&c, 3);
    submit_app(&c, 1, 3, "a");
    assert_int_equal(count_out(&c.t, MSG_TASK_ENQUEUE), 0);
    submit(&c.t, c.d, 2, 1, S); /* others do not wait for it */
    assert_int_equal(count_out(&c.t, MSG_TASK_ENQUEUE), 1);
    serves(&c.t, c.w[1], "b", true);
    assert_int_equal(count_out(&c.t, MSG_TASK_ENQUEUE), 0);
    serves(&c.t, c.w[1], "a", true);
    for (int i = 0; i < 3; i++)
        expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[1]);
    assert_int_equal(count_out(&c.t, MSG_TASK_ENQUEUE), 3);
    /* The least waiting time among those that serve it. */
    serves(&c.t, c.w[2], "a", true);
    submit_app(&c, 3, 2, "a");
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[2]);
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[2]);
    end(&c);
}

/* Two names with one number (FNV-1a has no secret: whoever likes finds such a pair). */
#define TWIN "8yn0iYCKYHlIj4-BwPqk"
#define OTHER_TWIN "GReLUrM4wMqfg9yzV3KQ"

static void long_tasks_go_to_their_users_executors_and_to_everybodys(void **state)
{
    struct cluster c;
    const struct msg_app *m;

    begin(&c, 3);
    submit_app_of(&c, "ann", 1, 2, "a");
    serves_user(&c.t, c.w[0], "bob", "a", true);
    m = expect(&c.t, APP, app, c.d);
    assert_true(m->on && strcmp(m->user->data, "bob") == 0);
    assert_int_equal(count_out(&c.t, MSG_TASK_ENQUEUE), 0);
    serves_user(&c.t, c.w[1], "ann", "a", true);
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[1]);
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[1]);
    submit_app_of(&c, "carl", 2, 1, "a");
    assert_int_equal(count_out(&c.t, MSG_TASK_ENQUEUE), 0);
    serves(&c.t, c.w[2], "a", true);
    assert_null(expect(&c.t, APP, app, c.d)->user);
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[2]);
    serves(&c.t, c.w[2], "a", false);
    submit_app_of(&c, "carl", 3, 1, "a");
    assert_int_equal(count_out(&c.t, MSG_TASK_ENQUEUE), 0);
    /* A name with the same number is another application. */
    submit_app(&c, 4, 1, OTHER_TWIN);
    serves(&c.t, c.w[2], TWIN, true);
    assert_int_equal(count_out(&c.t, MSG_TASK_ENQUEUE), 0);
    serves(&c.t, c.w[2], OTHER_TWIN, true);
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[2]);
    end(&c);
}

static uint64_t set_of(const char *name)
{
    struct blob *b = blob_str(name);
    uint64_t set = app_set(app_id(b));

    blob_drop(b);
    return set;
}

/* What is stuck at a worker is given to those that serve it: nobody else is sent there. */
static void only_who_serves_what_is_stuck_is_hinted_at_it(void **state)
{
    struct cluster c;
    struct talk *t = &c.t;

    begin(&c, 5);
    assert_true(set_of("a") != set_of("b"));
    serves(t, c.w[0], "a", true);
    tell(t, PARKED, parked, c.w[1], .parked = 1);
    tell(t, STUCK, stuck, c.w[0], .stuck = 1, .apps = set_of("a"));
    pass(t, 100 * MS);
    expect_none(t, STEAL_HINT, c.w[1]);
    assert_true(central_next_timeout(t->c) > t->now_us + 20 * MS); /* it costs nothing either */
    /* A thief that serves another, then one that serves it: passed over, and found behind those that do not. */
    serves(t, c.w[1], "b", true);
    tell(t, PARKED, parked, c.w[2], .parked = 1);
    serves(t, c.w[3], "a", true);
    tell(t, PARKED, parked, c.w[3], .parked = 1);
    assert_int_equal(expect(t, STEAL_HINT, steal_hint, c.w[3])->victim.v, 2);
    pass(t, 100 * MS);
    assert_int_equal(count_out(t, MSG_STEAL_HINT), 5);
    for (int i = 0; i < 5; i++)
        expect(t, STEAL_HINT, steal_hint, c.w[3]);
    /* Two victims and one that can help: one hint in a round, and the others have no part in it. */
    tell(t, STUCK, stuck, c.w[4], .stuck = 1, .apps = set_of("a"));
    pass(t, 20 * MS);
    assert_int_equal(count_out(t, MSG_STEAL_HINT), 1);
    expect(t, STEAL_HINT, steal_hint, c.w[3]);
    tell(t, STUCK, stuck, c.w[4], .stuck = 0);
    /* It serves it no more, and one that has parked does. */
    serves(t, c.w[3], "a", false);
    pass(t, 100 * MS);
    expect_none(t, STEAL_HINT, c.w[3]);
    serves(t, c.w[2], "a", true);
    pass(t, 20 * MS);
    expect(t, STEAL_HINT, steal_hint, c.w[2]);
    /* With something for anybody, everybody is asked. */
    tell(t, STUCK, stuck, c.w[0], .stuck = 1);
    serves(t, c.w[2], "a", false);
    pass(t, 60 * MS);
    assert_int_equal(count_out(t, MSG_STEAL_HINT), 3);
    expect(t, STEAL_HINT, steal_hint, c.w[1]);
    expect(t, STEAL_HINT, steal_hint, c.w[2]);
    expect(t, STEAL_HINT, steal_hint, c.w[3]);
    end(&c);
}

/* An idle worker that does not serve it is none that could take them; from when it does, it is. */
static void who_serves_it_later_gets_its_share_of_what_waits(void **state)
{
    struct cluster c;

    begin(&c, 2);
    serves(&c.t, c.w[0], "a", true);
    submit_app(&c, 1, 6, "a");
    c.w[2] = add_worker(&c.t, "late", 1);
    serves(&c.t, c.w[1], "b", true);
    pass(&c.t, 10 * S);
    expect_none(&c.t, TASK_RECALL, c.w[0]);
    serves(&c.t, c.w[1], "a", true);
    pass(&c.t, 1 * S);
    for (uint32_t task = 4; task < 6; task++)
        assert_int_equal(expect(&c.t, TASK_RECALL, task_recall, c.w[0])->id.task, task);
    expect_none(&c.t, TASK_RECALL, c.w[0]);
    for (uint32_t task = 4; task < 6; task++) {
        tell(&c.t, TASK_RETURNED, task_returned, c.w[0], .id = try_of(1, 1, task, 1));
        assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[1])->id.attempt, 2);
    }
    end(&c);
}

/* One job's tasks are spread as by asking for the least waiting time before each of them. */
static void a_job_is_spread_over_those_that_serve_it(void **state)
{
    struct cluster c;
    uint32_t tasks = 300, least = tasks;

    begin(&c, 4);
    for (uint32_t i = 0; i < 3; i++)
        serves(&c.t, c.w[i], "a", true);
    submit_app(&c, 1, 6, "a");
    for (uint32_t i = 0; i < 6; i++)
        expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[i % 3]);
    submit_app(&c, 2, tasks, "a");
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t given = count_out_to(&c.t, MSG_TASK_ENQUEUE, c.w[i]);

        least = given < least ? given : least;
    }
    assert_int_equal(least, 100);
    end(&c);
}

static void handed_back_they_wait_for_another_and_nobody_is_held_off(void **state)
{
    struct cluster c;

    begin(&c, 2);
    serves(&c.t, c.w[0], "a", true);
    submit_app(&c, 1, 1, "a");
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0]);
    serves(&c.t, c.w[0], "a", false);
    tell(&c.t, TASK_RETURNED, task_returned, c.w[0], .id = try_of(1, 1, 0, 1));
    submit(&c.t, c.d, 2, 2, S);
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0]); /* commands still come here */
    serves(&c.t, c.w[1], "a", true);
    assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[1])->id.attempt, 2);
    /* It found no executor any more: no retry is spent. */
    serves(&c.t, c.w[1], "a", false);
    finished(&c.t, c.w[1], try_of(1, 1, 0, 2), OUTCOME_LOST, HAWK_ENO_EXECUTOR, 0);
    serves(&c.t, c.w[1], "a", true);
    assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[1])->id.attempt, 3);
    /* It ran, and its executor died: that is a try, and there was none more. */
    started(&c.t, c.w[1], try_of(1, 1, 0, 3));
    finished(&c.t, c.w[1], try_of(1, 1, 0, 3), OUTCOME_LOST, 0, 0);
    expect_task(&c, 0, TASK_LOST);
    end(&c);
}

static void what_a_task_returned_comes_before_its_end(void **state)
{
    struct cluster c;
    const struct msg_long_result *m;

    begin(&c, 1);
    serves(&c.t, c.w[0], "a", true);
    submit_app(&c, 1, 1, "a");
    started(&c.t, c.w[0], try_of(1, 1, 0, 1));
    returned(&c, c.w[0], try_of(1, 1, 0, 1), 100);
    m = expect(&c.t, LONG_RESULT, long_result, c.d);
    assert_int_equal(m->result->len, 100);
    expect_task(&c, 0, TASK_DONE);
    /* Asked for again, it is told again. */
    tell(&c.t, LONG_WATCH, long_watch, c.d, .job = JOB(1, 1), .epoch = 1);
    expect(&c.t, LONG_RESULT, long_result, c.d);
    expect_task(&c, 0, TASK_DONE);
    end(&c);
}

static void results_have_a_limit(void **state)
{
    struct cluster c;

    talk_config(&c.t);
    c.t.config.results_bytes_max = 1000;
    talk_start(&c.t);
    tell(&c.t, RECOVERED, recovered, 0, 0);
    c.d = add_dist(&c.t, "d1");
    c.w[0] = add_worker(&c.t, "w0", 1);
    pass(&c.t, S);
    serves(&c.t, c.w[0], "a", true);
    submit_app(&c, 1, 3, "a");
    returned(&c, c.w[0], try_of(1, 1, 0, 1), 600); /* told at once: it makes room */
    expect(&c.t, LONG_RESULT, long_result, c.d);
    returned(&c, c.w[0], try_of(1, 1, 1, 1), 600);
    expect(&c.t, LONG_RESULT, long_result, c.d);
    expect_task(&c, 1, TASK_DONE);
    returned(&c, c.w[0], try_of(1, 1, 2, 1), 2000);
    expect(&c.t, LONG_MESSAGE, long_message, c.d);
    expect_task(&c, 2, TASK_FAILED);
    end(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dists_hear_who_serves_what),
        cmocka_unit_test(a_worker_that_joins_again_tells_again),
        cmocka_unit_test(only_who_serves_what_is_stuck_is_hinted_at_it),
        cmocka_unit_test(who_serves_it_later_gets_its_share_of_what_waits),
        cmocka_unit_test(a_job_is_spread_over_those_that_serve_it),
        cmocka_unit_test(a_worker_that_is_heard_after_its_lease_need_not_tell_again),
        cmocka_unit_test(who_does_not_serve_it_could_not_start_it),
        cmocka_unit_test(who_could_not_start_it_is_avoided),
        cmocka_unit_test(who_could_not_start_it_asks_in_vain),
        cmocka_unit_test(long_tasks_go_where_their_application_is_served),
        cmocka_unit_test(long_tasks_go_to_their_users_executors_and_to_everybodys),
        cmocka_unit_test(handed_back_they_wait_for_another_and_nobody_is_held_off),
        cmocka_unit_test(what_a_task_returned_comes_before_its_end),
        cmocka_unit_test(results_have_a_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
