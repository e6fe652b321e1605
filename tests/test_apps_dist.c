/* Applications at a dist: probes go where one is served, jobs wait where none is, results are kept within limits. */
#include "tests/test_dist.h"

static void app(struct talk *t, uint32_t node, const char *name, bool on)
{
    struct blob *b = blob_str(name);

    HEAR(t, CENTRAL, APP, app, .name = b, .node = {node}, .on = on);
    blob_drop(b);
}

static void app_of(struct talk *t, uint32_t node, const char *user, const char *name, bool on)
{
    struct blob *b = blob_str(name), *u = blob_str(user);

    HEAR(t, CENTRAL, APP, app, .name = b, .user = u, .node = {node}, .on = on);
    blob_drop(b);
    blob_drop(u);
}

static struct job_desc *app_desc(uint32_t tasks, const char *name)
{
    struct job_desc *d = desc_new(tasks, "");

    d->kind = PAYLOAD_APP;
    d->app = blob_str(name);
    return d;
}

static void returns(struct talk *t, uint32_t worker, struct try_id id, size_t len)
{
    struct blob *result = blob_new(NULL, len);

    HEAR(t, worker, TASK_FINISHED, task_finished, .id = id, .outcome = OUTCOME_EXITED, .result = result);
    blob_drop(result);
}

static void only_who_serves_it_is_probed(void **state)
{
    struct talk *t = talk_joined("sparrow", 4);

    app(t, 102, "a", true);
    app(t, 103, "a", true);
    app(t, 104, "b", true);
    submit(t, app_desc(2, "a"));
    says(t, "- SUBMITTED job=3.1");
    says(t, "102 PROBE job=3.1 estimate_us=0 count=2 class=0 app=");
    says(t, "103 PROBE job=3.1 estimate_us=0 count=2 class=0 app=");
    submit(t, app_desc(1, "b"));
    says(t, "- SUBMITTED job=3.2");
    says(t, "104 PROBE job=3.2 estimate_us=0 count=2 class=0 app=");
    talk_end(t);
}

/* Two names with one number (FNV-1a has no secret: whoever likes finds such a pair). */
#define TWIN "8yn0iYCKYHlIj4-BwPqk"
#define OTHER_TWIN "GReLUrM4wMqfg9yzV3KQ"

static struct job_desc *tasks_of_user(const char *user, const char *name, uint32_t tasks)
{
    struct job_desc *d = app_desc(tasks, name);

    blob_drop(d->user);
    d->user = blob_str(user);
    return d;
}

static struct job_desc *desc_of_user(const char *user, const char *name)
{
    return tasks_of_user(user, name, 1);
}

static void a_users_jobs_go_to_his_executors_and_to_everybodys(void **state)
{
    struct talk *t = talk_joined("sparrow", 4);

    app_of(t, 101, "ann", "a", true);
    app_of(t, 102, "bob", "a", true);
    submit(t, desc_of_user("carl", "a"));
    says(t, "- SUBMITTED job=3.1");
    assert_int_equal(block_of(t, 1), DIST_BLOCK_APP);
    submit(t, desc_of_user("ann", "a"));
    says(t, "- SUBMITTED job=3.2");
    says(t, "101 PROBE job=3.2 estimate_us=0 count=2");
    submit(t, desc_of_user("bob", "a"));
    says(t, "- SUBMITTED job=3.3");
    says(t, "102 PROBE job=3.3 estimate_us=0 count=2");
    /* Everybody's: who waits is probed for there, whoever he is, and who comes later may be anywhere of these. */
    app(t, 103, "a", true);
    says(t, "103 PROBE job=3.2 estimate_us=0 count=1"); /* half of its probes were of no use at one worker */
    says(t, "103 PROBE job=3.3 estimate_us=0 count=1");
    says(t, "103 PROBE job=3.1 estimate_us=0 count=2");
    app_of(t, 101, "ann", "a", false);
    submit(t, desc_of_user("ann", "a"));
    says(t, "- SUBMITTED job=3.4");
    says(t, "103 PROBE job=3.4 estimate_us=0 count=2");
    /* A worker may have both. */
    app_of(t, 103, "dora", "a", true);
    app(t, 103, "a", false);
    submit(t, desc_of_user("dora", "a"));
    says(t, "- SUBMITTED job=3.5");
    says(t, "103 PROBE job=3.5 estimate_us=0 count=2");
    submit(t, desc_of_user("ann", "a"));
    says(t, "- SUBMITTED job=3.6");
    assert_int_equal(block_of(t, 6), DIST_BLOCK_APP);
    talk_end(t);
}

static void names_of_one_number_are_told_apart(void **state)
{
    struct talk *t = talk_joined("sparrow", 2);

    app(t, 101, TWIN, true);
    submit(t, app_desc(1, OTHER_TWIN));
    says(t, "- SUBMITTED job=3.1");
    assert_int_equal(block_of(t, 1), DIST_BLOCK_APP);
    app(t, 102, OTHER_TWIN, true);
    says(t, "102 PROBE job=3.1 estimate_us=0 count=2");
    talk_end(t);
}

static void without_a_worker_that_serves_it_a_job_waits(void **state)
{
    struct talk *t = talk_joined("sparrow", 2);

    submit(t, app_desc(1, "a"));
    says(t, "- SUBMITTED job=3.1");
    assert_int_equal(block_of(t, 1), DIST_BLOCK_APP);
    submit(t, desc_new(1, "")); /* others do not wait for it */
    says(t, "- SUBMITTED job=3.2");
    says(t, "101 PROBE job=3.2");
    says(t, "102 PROBE job=3.2");
    app(t, 102, "b", true);
    assert_int_equal(block_of(t, 1), DIST_BLOCK_APP);
    app(t, 102, "a", true);
    says(t, "102 PROBE job=3.1 estimate_us=0 count=2");
    assert_int_equal(block_of(t, 1), DIST_BLOCK_PROBES);
    talk_end(t);
}

static void reservations_come_back_when_the_executor_goes(void **state)
{
    struct talk *t = talk_joined("sparrow", 2);

    app(t, 101, "a", true);
    submit(t, app_desc(2, "a"));
    says(t, "- SUBMITTED job=3.1");
    says(t, "101 PROBE job=3.1 estimate_us=0 count=4");
    request(t, 101, 1, 1);
    says(t, "101 TASK_LAUNCH");
    app(t, 101, "a", false);
    HEAR(t, 101, PROBE_REFUSED, probe_refused, .job = J(1), .count = 3, .err = HAWK_ENO_EXECUTOR);
    /* What was launched never ran: it is launched again, and no retry is spent. */
    HEAR(t, 101, TASK_FINISHED, task_finished, .id = try_of(1, 0, 1, 1), .outcome = OUTCOME_LOST,
         .code = HAWK_ENO_EXECUTOR);
    says(t, "101 FINISH_ACK");
    wait_timer(t, US_PER_S);
    assert_int_equal(block_of(t, 1), DIST_BLOCK_APP);
    app(t, 102, "a", true);
    says(t, "102 PROBE job=3.1 estimate_us=0 count=4");
    request(t, 102, 1, 1);
    says(t, "102 TASK_LAUNCH id=3.1/0@1.2");
    talk_end(t);
}

static void a_member_list_forgets_what_is_served(void **state)
{
    struct talk *t = talk_joined("sparrow", 2);
    struct members *list = members_new(1);

    app(t, 101, "a", true);
    app(t, 102, "a", true);
    list->v[0] = (struct member){.node = {102}, .slots = 1, .role = ROLE_WORKER, .general = 1};
    list->v[0].addr = blob_str("127.0.0.1:1");
    list->v[0].name = blob_str("w");
    HEAR(t, CENTRAL, MEMBERS, members, .list = list, .version = 2);
    members_drop(list);
    submit(t, app_desc(1, "a"));
    says(t, "- SUBMITTED job=3.1");
    assert_int_equal(block_of(t, 1), DIST_BLOCK_APP);
    app(t, 101, "a", true); /* which is not a member */
    silent(t);
    app(t, 102, "a", true);
    says(t, "102 PROBE job=3.1");
    worker_member(t, 102, 1, MEMBER_GONE, true);
    assert_int_equal(block_of(t, 1), DIST_BLOCK_UNSETTLED); /* 101 is there, and not known to central */
    HEAR(t, 101, PEER_LOST, peer_lost, .role = ROLE_WORKER);
    assert_int_equal(block_of(t, 1), DIST_BLOCK_NO_WORKERS);
    talk_end(t);
}

static void results_are_kept_and_count(void **state)
{
    struct talk *t = talk_joined("sparrow", 1);
    uint64_t before;

    app(t, 101, "a", true);
    submit(t, app_desc(3, "a"));
    says(t, "- SUBMITTED job=3.1");
    says(t, "101 PROBE");
    for (uint32_t i = 1; i <= 3; i++) {
        request(t, 101, 1, i);
        says(t, "101 TASK_LAUNCH");
        ignore(t);
    }
    before = t->d.bytes_unfinished;
    returns(t, 101, try_of(1, 1, 1, 1), 100);
    says(t, "101 FINISH_ACK");
    assert_int_equal(task_view_of(t, 1, 1).result->len, 100);
    assert_null(task_view_of(t, 1, 0).result);
    assert_true(t->d.bytes_unfinished >= before + 100);
    returns(t, 101, try_of(1, 1, 1, 1), 7); /* told twice */
    says(t, "101 FINISH_ACK");
    assert_int_equal(task_view_of(t, 1, 1).result->len, 100);
    /* No room: the task has failed, and says so. */
    t->d.cfg.unfinished_bytes_max = t->d.bytes_unfinished + 50;
    returns(t, 101, try_of(1, 0, 1, 1), 100);
    says(t, "101 FINISH_ACK");
    assert_int_equal(task_view_of(t, 1, 0).state, TASK_FAILED);
    assert_non_null(strstr(task_view_of(t, 1, 0).message->data, "100 bytes"));
    HEAR(t, 101, TASK_FINISHED, task_finished, .id = try_of(1, 2, 1, 1), .outcome = OUTCOME_EXITED);
    says(t, "101 FINISH_ACK");
    says(t, "- JOB_EVENT");
    says(t, "central JOB_REPORT");
    assert_int_equal(t->d.bytes_unfinished, 0);
    assert_true(t->d.bytes_finished >= 100);
    talk_end(t);
}

/* Ann's results take half of the memory, and bob's find room. */
static void a_users_results_leave_room_for_others(void **state)
{
    struct talk *t = talk_joined("sparrow", 1);
    struct job_desc *d = tasks_of_user("ann", "a", 3);
    uint64_t half = job_desc_bytes(d) + sizeof(struct blob) + 250;

    app(t, 101, "a", true);
    submit(t, d);
    ignore(t);
    submit(t, tasks_of_user("bob", "a", 2));
    ignore(t);
    for (uint64_t seq = 1; seq <= 2; seq++) {
        for (uint32_t i = 1; i <= 4 - seq; i++) {
            request(t, 101, seq, 10 * seq + i);
            ignore(t);
        }
    }
    t->d.cfg.unfinished_bytes_max = 2 * half;
    for (uint32_t i = 0; i < 3; i++) {
        returns(t, 101, try_of(1 + i / 2, i % 2, 1, 1), 200);
        ignore(t);
    }
    assert_int_equal(task_view_of(t, 1, 0).state, TASK_DONE);
    assert_int_equal(task_view_of(t, 1, 1).state, TASK_FAILED);
    assert_non_null(strstr(task_view_of(t, 1, 1).message->data, "a user's jobs half of dist.memory_max"));
    assert_int_equal(task_view_of(t, 2, 0).state, TASK_DONE);
    HEAR(t, 101, TASK_FINISHED, task_finished, .id = try_of(1, 2, 1, 1), .outcome = OUTCOME_EXITED);
    ignore(t);
    HEAR(t, 101, TASK_FINISHED, task_finished, .id = try_of(2, 1, 1, 1), .outcome = OUTCOME_EXITED);
    ignore(t);
    assert_int_equal(t->d.bytes_unfinished, 0);
    talk_end(t);
}

/* Read back, or moved here: it was done, and what it returned is not here. Empty is not lost. */
static void what_is_not_known_any_more_is_said_to_be_lost(void **state)
{
    struct talk *t = talk_joined("sparrow", 1);
    struct resubmit *r = resubmit_new(1);
    struct job_desc *d = app_desc(2, "a");

    app(t, 101, "a", true);
    r->job = job_id_make((node_id_t){9}, 5);
    r->epoch = 3;
    r->v[0] = (struct resubmit_task){.task = 1, .state = TASK_DONE, .outcome = OUTCOME_EXITED, .attempt = 1};
    HEAR(t, 0, SUBMIT, submit, .desc = d, .resubmit = r, .client = 9);
    ignore(t);
    /* Under whatever policy it began: central is asked first, and has nothing of it. */
    HEAR(t, CENTRAL, LONG_WATCHED, long_watched, .job = r->job, .epoch = 2, .err = HAWK_ENOT_FOUND);
    ignore(t);
    HEAR(t, 101, TASK_REQUEST, task_request, .job = r->job, .request = 1);
    ignore(t);
    for (uint32_t i = 0; i < 2; i++) {
        struct task_view v;

        if (i == 0) {
            HEAR(t, 101, TASK_FINISHED, task_finished, .id = {.job = r->job, .epoch = 3, .attempt = 1},
                 .outcome = OUTCOME_EXITED);
            ignore(t);
        }
        dist_task_view(&t->d, dist_find(&t->d, r->job), i, t->now, &v);
        assert_int_equal(v.state, TASK_DONE);
        assert_int_equal(v.result_lost, i == 1);
    }
    resubmit_drop(r);
    job_desc_drop(d);
    talk_end(t);
}

static void why_an_executor_failed_is_kept(void **state)
{
    struct talk *t = talk_joined("sparrow", 1);
    struct blob *why = blob_str("no such number");

    app(t, 101, "a", true);
    submit(t, app_desc(1, "a"));
    says(t, "- SUBMITTED job=3.1");
    says(t, "101 PROBE");
    request(t, 101, 1, 1);
    says(t, "101 TASK_LAUNCH");
    ignore(t);
    HEAR(t, 101, TASK_FINISHED, task_finished, .id = try_of(1, 0, 1, 1), .outcome = OUTCOME_EXITED, .code = 7,
         .result = why);
    ignore(t);
    assert_string_equal(task_view_of(t, 1, 0).message->data, "no such number");
    assert_null(task_view_of(t, 1, 0).result);
    blob_drop(why);
    talk_end(t);
}

static void what_central_sends_of_a_long_task_is_kept(void **state)
{
    struct talk *t = talk_joined("hawk", 1);
    struct job_desc *d = app_desc(1, "a");
    struct blob *result = blob_str("done");

    d->tag = TAG_LONG;
    submit(t, d);
    says(t, "central LONG_SUBMIT job=3.1");
    says(t, "- SUBMITTED job=3.1");
    HEAR(t, CENTRAL, LONG_ACCEPTED, long_accepted, .job = J(1), .epoch = 1);
    ignore(t);
    assert_int_equal(block_of(t, 1), DIST_BLOCK_APP);
    app(t, 101, "a", true);
    assert_int_equal(block_of(t, 1), DIST_BLOCK_PLACEMENT);
    HEAR(t, CENTRAL, LONG_RESULT, long_result, .id = try_of(1, 0, 1, 1), .result = result);
    HEAR(t, CENTRAL, LONG_TASK, long_task, .id = try_of(1, 0, 1, 1), .state = TASK_DONE, .worker = {101},
         .outcome = OUTCOME_EXITED);
    ignore(t);
    assert_string_equal(task_view_of(t, 1, 0).result->data, "done");
    assert_false(task_view_of(t, 1, 0).result_lost);
    assert_int_equal(job_view_of(t, 1).state, JOB_DONE);
    blob_drop(result);
    talk_end(t);
}

static void a_long_task_whose_result_has_no_room_has_failed(void **state)
{
    struct talk *t = talk_joined("hawk", 1);
    struct job_desc *d = app_desc(3, "a");
    struct blob *result = blob_new(NULL, 100);

    d->tag = TAG_LONG;
    submit(t, d);
    ignore(t);
    HEAR(t, CENTRAL, LONG_ACCEPTED, long_accepted, .job = J(1), .epoch = 1);
    ignore(t);
    t->d.cfg.unfinished_bytes_max = t->d.bytes_unfinished + 200;
    for (uint32_t i = 0; i < 3; i++) {
        if (i < 2) /* the last one's is not known to central any more */
            HEAR(t, CENTRAL, LONG_RESULT, long_result, .id = try_of(1, i, 1, 1), .result = result);
        HEAR(t, CENTRAL, LONG_TASK, long_task, .id = try_of(1, i, 1, 1), .state = TASK_DONE, .worker = {101},
             .outcome = OUTCOME_EXITED);
        ignore(t);
    }
    assert_int_equal(task_view_of(t, 1, 0).state, TASK_DONE);
    assert_int_equal(task_view_of(t, 1, 1).state, TASK_FAILED);
    assert_int_equal(task_view_of(t, 1, 1).code, 1);
    assert_non_null(strstr(task_view_of(t, 1, 1).message->data, "100 bytes"));
    assert_false(task_view_of(t, 1, 1).result_lost);
    assert_int_equal(task_view_of(t, 1, 2).state, TASK_DONE);
    assert_true(task_view_of(t, 1, 2).result_lost);
    assert_int_equal(job_view_of(t, 1).state, JOB_FAILED);
    blob_drop(result);
    talk_end(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_who_serves_it_is_probed),
        cmocka_unit_test(a_users_jobs_go_to_his_executors_and_to_everybodys),
        cmocka_unit_test(names_of_one_number_are_told_apart),
        cmocka_unit_test(without_a_worker_that_serves_it_a_job_waits),
        cmocka_unit_test(reservations_come_back_when_the_executor_goes),
        cmocka_unit_test(a_member_list_forgets_what_is_served),
        cmocka_unit_test(results_are_kept_and_count),
        cmocka_unit_test(a_users_results_leave_room_for_others),
        cmocka_unit_test(what_is_not_known_any_more_is_said_to_be_lost),
        cmocka_unit_test(why_an_executor_failed_is_kept),
        cmocka_unit_test(what_central_sends_of_a_long_task_is_kept),
        cmocka_unit_test(a_long_task_whose_result_has_no_room_has_failed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
