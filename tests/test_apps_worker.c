/* Applications at a worker: what it serves it tells, what it does not serve goes back, whoever sent it. */
#include "tests/test_worker.h"

static struct blob *name_a, *name_b;

static uint64_t app_a(void) { return app_id(name_a); }

static void served(struct talk *t, struct blob *name, bool on)
{
    tell(t, EXEC_APP, exec_app, 0, .name = name, .on = on);
}

static void told(struct talk *t, const struct blob *name, bool on)
{
    expect(t, APP, app, CENTRAL, m->name == name && m->on == on && m->node.v == 0);
}

static void probe_app(struct talk *t, uint64_t job, uint32_t n, uint64_t app)
{
    tell(t, PROBE, probe, DIST, .job = JOB(job), .count = n, .app = app);
}

static void central_hears_what_is_served(void **state)
{
    struct talk t;

    talk_begin(&t, 1);
    served(&t, name_a, true);
    told(&t, name_a, true);
    served(&t, name_a, true); /* no news */
    nothing(&t);
    served(&t, name_b, true);
    told(&t, name_b, true);
    /* A new central, or the same again, hears all of it. */
    tell(&t, PEER_LOST, peer_lost, CENTRAL, ROLE_CENTRAL);
    served(&t, name_b, false);
    nothing(&t);
    tell(&t, PEER_UP, peer_up, CENTRAL, ROLE_CENTRAL);
    expect(&t, JOIN, join, CENTRAL, whatever);
    tell(&t, JOINED, joined, CENTRAL, .node = {SELF}, .heartbeat_us = 500 * MS, .lease_us = 60 * US_PER_S);
    told(&t, name_a, true);
    expect(&t, HELD_END, held_end, CENTRAL, whatever);
    served(&t, name_a, false);
    told(&t, name_a, false);
    talk_end(&t);
}

static void served_of(struct talk *t, const char *user, bool on)
{
    struct blob *u = blob_str(user);

    tell(t, EXEC_APP, exec_app, 0, .name = name_a, .user = u, .on = on);
    expect(t, APP, app, CENTRAL, m->name == name_a && strcmp(m->user->data, user) == 0 && m->on == on);
    blob_drop(u);
}

static uint32_t number_of(const char *user)
{
    struct blob *u = blob_str(user);
    uint32_t number = user_number(u);

    blob_drop(u);
    return number;
}

static void probe_of(struct talk *t, uint64_t job, uint32_t n, const char *user)
{
    tell(t, PROBE, probe, DIST, .job = JOB(job), .count = n, .app = app_a(), .user = number_of(user));
}

static void an_executor_is_its_users(void **state)
{
    struct talk t;

    talk_begin(&t, 1);
    served_of(&t, "ann", true);
    probe_of(&t, 1, 2, "bob");
    expect(&t, PROBE_REFUSED, probe_refused, DIST, m->count == 2 && m->err == HAWK_ENO_EXECUTOR);
    probe_app(&t, 2, 1, app_a()); /* nobody's */
    expect(&t, PROBE_REFUSED, probe_refused, DIST, m->count == 1 && m->err == HAWK_ENO_EXECUTOR);
    probe_of(&t, 3, 1, "ann");
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    launch(&t, 3, 0, 1);
    starts(&t, 3, 0, DIST);
    probe_of(&t, 4, 5, "ann");
    served_of(&t, "bob", true);
    probe_of(&t, 5, 6, "bob");
    /* Ann's leaves: hers go back, and bob's stay. */
    served_of(&t, "ann", false);
    expect(&t, PROBE_REFUSED, probe_refused, DIST, m->job.v == JOB(4).v && m->count == 5);
    assert_int_equal(counts_of(&t).reservations, 6);
    /* Everybody's keeps bob's here when his own leaves. */
    served(&t, name_a, true);
    told(&t, name_a, true);
    served_of(&t, "bob", false);
    assert_int_equal(counts_of(&t).reservations, 6);
    probe_of(&t, 6, 3, "ann");
    served(&t, name_a, false);
    told(&t, name_a, false);
    expect(&t, PROBE_REFUSED, probe_refused, DIST, m->job.v == JOB(5).v && m->count == 6);
    expect(&t, PROBE_REFUSED, probe_refused, DIST, m->job.v == JOB(6).v && m->count == 3);
    talk_end(&t);
}

static void what_is_not_served_is_refused(void **state)
{
    struct talk t;

    talk_begin(&t, 1);
    probe_app(&t, 1, 3, app_a());
    expect(&t, PROBE_REFUSED, probe_refused, DIST, m->count == 3 && m->err == HAWK_ENO_EXECUTOR);
    served(&t, name_a, true);
    told(&t, name_a, true);
    probe_app(&t, 1, 2, app_a());
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    launch(&t, 1, 0, 1);
    starts(&t, 1, 0, DIST);
    probe(&t, 2, 4); /* commands wait behind it, whatever is served */
    probe_app(&t, 3, 5, app_a());
    /* The executor leaves: what waits for it goes back, the rest stays. */
    served(&t, name_a, false);
    told(&t, name_a, false);
    expect(&t, PROBE_REFUSED, probe_refused, DIST,
           m->job.v == JOB(1).v && m->count == 1 && m->err == HAWK_ENO_EXECUTOR);
    expect(&t, PROBE_REFUSED, probe_refused, DIST, m->job.v == JOB(3).v && m->count == 5);
    assert_int_equal(counts_of(&t).reservations, 4);
    talk_end(&t);
}

static void a_run_that_finds_no_executor_costs_no_try(void **state)
{
    struct talk t;
    uint32_t run;

    talk_begin(&t, 1);
    served(&t, name_a, true);
    told(&t, name_a, true);
    probe_app(&t, 1, 1, app_a());
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    launch(&t, 1, 0, 1);
    expect(&t, EXEC_START, exec_start, 0, whatever);
    run = t.out.v[0].exec_start.run;
    tell(&t, EXEC_EXITED, exec_exited, 0, .run = run, .outcome = OUTCOME_LOST, .code = HAWK_ENO_EXECUTOR);
    expect(&t, TASK_FINISHED, task_finished, DIST, m->outcome == OUTCOME_LOST && m->code < 0);
    tell(&t, FINISH_ACK, finish_ack, DIST, .id = TRY(1, 0));
    talk_end(&t);
}

static void long_tasks_that_need_another_executor_go_back(void **state)
{
    struct talk t;
    uint32_t run;

    talk_begin(&t, 1);
    t.desc->kind = PAYLOAD_APP;
    t.desc->app = blob_ref(name_a);
    enqueue(&t, 1, 0);
    expect(&t, TASK_RETURNED, task_returned, CENTRAL, m->id.job.v == JOB(1).v);
    served(&t, name_a, true);
    told(&t, name_a, true);
    enqueue(&t, 1, 0);
    run = starts(&t, 1, 0, CENTRAL);
    enqueue(&t, 2, 0); /* queued behind it */
    served(&t, name_a, false);
    told(&t, name_a, false);
    expect(&t, TASK_RETURNED, task_returned, CENTRAL, m->id.job.v == JOB(2).v);
    exits(&t, run, 0);
    expect(&t, TASK_FINISHED, task_finished, CENTRAL, whatever);
    talk_end(&t);
}

/* Everybody's leaves, and ann's is still there. */
static void a_long_task_that_waits_keeps_its_users_executor(void **state)
{
    struct talk t;

    talk_begin(&t, 1);
    t.desc->kind = PAYLOAD_APP;
    t.desc->app = blob_ref(name_a);
    blob_drop(t.desc->user);
    t.desc->user = blob_str("ann");
    served(&t, name_a, true);
    told(&t, name_a, true);
    served_of(&t, "ann", true);
    enqueue(&t, 1, 0);
    starts(&t, 1, 0, CENTRAL);
    enqueue(&t, 2, 0);
    served(&t, name_a, false);
    told(&t, name_a, false);
    nothing(&t);
    talk_end(&t);
}

static void a_thief_gets_what_it_serves(void **state)
{
    struct talk t;

    talk_begin(&t, 1);
    served(&t, name_a, true);
    told(&t, name_a, true);
    long_runs(&t, 90);
    t.now_us += 1000;
    probe_app(&t, 1, 2, app_a());
    expect(&t, STUCK, stuck, CENTRAL, m->stuck && m->apps == app_set(app_a()));
    probe(&t, 2, 1);
    probe_app(&t, 3, 1, app_a());
    t.now_us += 10 * MS;
    tell(&t, TIMER, timer, 0, 0);
    expect(&t, STUCK, stuck, CENTRAL, m->stuck && m->apps == 0); /* now something for anybody */
    tell(&t, STEAL_REQUEST, steal_request, OTHER, .request = 1, .max = 100);
    expect(&t, STEAL_LOOT, steal_loot, OTHER, m->items == 1 && m->job.v == JOB(2).v && m->app == 0);
    tell(&t, STEAL_ACK, steal_ack, OTHER, .request = 1, .job = JOB(2), .accepted = 1);
    tell(&t, STEAL_REQUEST, steal_request, OTHER, .request = 2, .max = 100);
    expect(&t, STEAL_LOOT, steal_loot, OTHER, m->items == 0);
    t.now_us += 10 * MS;
    tell(&t, TIMER, timer, 0, 0);
    expect(&t, STUCK, stuck, CENTRAL, m->stuck && m->apps == app_set(app_a()));
    tell(&t, STEAL_REQUEST, steal_request, OTHER, .request = 3, .max = 100, .apps = app_set(app_a()));
    expect(&t, STEAL_LOOT, steal_loot, OTHER, m->items == 2 && m->job.v == JOB(1).v && m->app == app_a());
    expect(&t, STEAL_LOOT, steal_loot, OTHER, m->items == 2 && m->job.v == JOB(3).v && m->app == app_a());
    /* Declined, because the set only says "maybe", after the executor here has gone too: back to the dist. */
    tell(&t, STEAL_ACK, steal_ack, OTHER, .request = 3, .index = 0, .job = JOB(1), .accepted = 0);
    served(&t, name_a, false);
    told(&t, name_a, false);
    expect(&t, PROBE_REFUSED, probe_refused, DIST, m->job.v == JOB(1).v && m->count == 2);
    tell(&t, STEAL_ACK, steal_ack, OTHER, .request = 3, .index = 1, .job = JOB(3), .accepted = 0);
    expect(&t, PROBE_REFUSED, probe_refused, DIST, m->job.v == JOB(3).v && m->err == HAWK_ENO_EXECUTOR);
    t.now_us += 10 * MS;
    tell(&t, TIMER, timer, 0, 0);
    expect(&t, STUCK, stuck, CENTRAL, !m->stuck);
    talk_end(&t);
}

static void a_thief_asks_for_what_it_serves_and_takes_no_other(void **state)
{
    struct talk t;
    uint32_t request;

    talk_begin(&t, 2);
    served(&t, name_a, true);
    told(&t, name_a, true);
    members_are(&t, 1);
    probe(&t, 9, 2);
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    tell(&t, LONG_WORK, long_work, CENTRAL, .any = 1);
    tell(&t, NO_TASK, no_task, DIST, .job = JOB(9), .request = 1);
    expect(&t, STEAL_REQUEST, steal_request, OTHER, m->apps == app_set(app_a()));
    request = t.out.v[0].steal_request.request;
    tell(&t, STEAL_LOOT, steal_loot, OTHER, .request = request, .index = 0, .items = 2, .job = JOB(1),
         .count = 1, .dist = {DIST}, .app = app_id(name_b));
    expect(&t, STEAL_ACK, steal_ack, OTHER, m->accepted == 0);
    tell(&t, STEAL_LOOT, steal_loot, OTHER, .request = request, .index = 1, .items = 2, .job = JOB(2),
         .count = 1, .dist = {DIST}, .app = app_a());
    expect(&t, RES_MOVED, res_moved, DIST, m->count == 1);
    expect(&t, STEAL_ACK, steal_ack, OTHER, m->accepted == 1);
    expect(&t, TASK_REQUEST, task_request, DIST, m->job.v == JOB(2).v);
    talk_end(&t);
}

static void results_count_until_they_are_acknowledged(void **state)
{
    struct talk t;
    struct blob *result = blob_new(NULL, 1000);
    uint32_t run, next, others;

    talk_begin(&t, 3);
    served(&t, name_a, true);
    told(&t, name_a, true);
    others = long_runs(&t, 90);
    probe_app(&t, 1, 2, app_a());
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    launch(&t, 1, 0, 1);
    run = starts(&t, 1, 0, DIST);
    launch(&t, 1, 1, 2);
    next = starts(&t, 1, 1, DIST);
    tell(&t, EXEC_EXITED, exec_exited, 0, .run = run, .outcome = OUTCOME_EXITED, .result = result);
    expect(&t, TASK_FINISHED, task_finished, DIST, m->result == result);
    assert_int_equal(worker_unacked_bytes(&t.w), 1000);
    assert_int_equal(worker_owner_unacked_bytes(&t.w, next), 1000);
    assert_int_equal(worker_owner_unacked_bytes(&t.w, others), 0);
    assert_int_equal(worker_owner_unacked_bytes(&t.w, run), 0); /* there is no such run any more */
    tell(&t, FINISH_ACK, finish_ack, DIST, .id = TRY(1, 0));
    assert_int_equal(worker_unacked_bytes(&t.w), 0);
    blob_drop(result);
    talk_end(&t);
}

/* No dist does that; but whatever one does, what queues is counted where it was counted when it came. */
static void a_job_s_probes_are_for_one_application(void **state)
{
    struct talk t;

    talk_begin(&t, 1);
    served(&t, name_a, true);
    told(&t, name_a, true);
    long_runs(&t, 90);
    probe_app(&t, 1, 2, app_a());
    expect(&t, STUCK, stuck, CENTRAL, whatever);
    probe(&t, 1, 3);
    expect(&t, PROBE_REFUSED, probe_refused, DIST, m->count == 3 && m->err == HAWK_EINVALID);
    assert_int_equal(counts_of(&t).reservations, 2);
    talk_end(&t);
}

static void a_thief_keeps_a_job_s_reservations_for_one_application(void **state)
{
    struct talk t;
    uint32_t request;

    talk_begin(&t, 1);
    served(&t, name_a, true);
    told(&t, name_a, true);
    members_are(&t, 1);
    probe(&t, 9, 1);
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    tell(&t, LONG_WORK, long_work, CENTRAL, .any = 1);
    tell(&t, NO_TASK, no_task, DIST, .job = JOB(9), .request = 1);
    expect(&t, STEAL_REQUEST, steal_request, OTHER, whatever);
    request = t.out.v[0].steal_request.request;
    probe_app(&t, 1, 2, app_a());
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    tell(&t, STEAL_LOOT, steal_loot, OTHER, .request = request, .index = 0, .items = 1, .job = JOB(1),
         .count = 1, .dist = {DIST});
    expect(&t, STEAL_ACK, steal_ack, OTHER, m->accepted == 0);
    talk_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(central_hears_what_is_served),
        cmocka_unit_test(an_executor_is_its_users),
        cmocka_unit_test(what_is_not_served_is_refused),
        cmocka_unit_test(a_job_s_probes_are_for_one_application),
        cmocka_unit_test(a_run_that_finds_no_executor_costs_no_try),
        cmocka_unit_test(long_tasks_that_need_another_executor_go_back),
        cmocka_unit_test(a_long_task_that_waits_keeps_its_users_executor),
        cmocka_unit_test(a_thief_gets_what_it_serves),
        cmocka_unit_test(a_thief_asks_for_what_it_serves_and_takes_no_other),
        cmocka_unit_test(a_thief_keeps_a_job_s_reservations_for_one_application),
        cmocka_unit_test(results_count_until_they_are_acknowledged),
    };
    int failed;

    name_a = blob_str("a");
    name_b = blob_str("beta");
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    blob_drop(name_a);
    blob_drop(name_b);
    return failed;
}
