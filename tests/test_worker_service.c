/* A worker that cannot start tasks takes itself out of service, checks itself, and returns (protocol 8). */
#include "tests/test_worker.h"

#define S US_PER_S

static uint32_t take_one(struct talk *t, uint32_t seq)
{
    uint32_t request, run;

    tell(t, PROBE, probe, DIST, .job = JOB(seq), .count = 1, .class = CLASS_SHORT);
    request = t->out.v[t->out.n - 1].task_request.request;
    expect(t, TASK_REQUEST, task_request, DIST, job_eq(m->job, JOB(seq)));
    tell(t, TASK_LAUNCH, task_launch, DIST, .id = TRY(seq, 0), .request = request, .desc = t->desc);
    run = t->out.v[0].exec_start.run;
    expect(t, EXEC_START, exec_start, 0, whatever);
    return run;
}

/* A task of that job cannot be started; place NULL: for nothing that it names. */
static void cannot_start(struct talk *t, uint32_t seq, const char *place)
{
    uint32_t run = take_one(t, seq);
    struct blob *why = blob_str("the disk is full"), *where = place ? blob_str(place) : NULL;

    tell(t, EXEC_EXITED, exec_exited, 0, .run = run, .outcome = OUTCOME_LOST, .code = HAWK_ECANNOT_START,
         .result = why, .place = where);
    expect(t, TASK_FINISHED, task_finished, DIST, m->code == HAWK_ECANNOT_START);
    tell(t, FINISH_ACK, finish_ack, DIST, .id = TRY(seq, 0));
    nothing(t);
    blob_drop(why);
    blob_drop(where);
}

/* It fails, and the same task starts elsewhere. */
static void blamed(struct talk *t, uint32_t seq, const char *place)
{
    cannot_start(t, seq, place);
    tell(t, START_BLAMED, start_blamed, DIST, .job = JOB(seq));
}

static bool is_out(const struct talk *t)
{
    const struct blob *why;
    bool out = worker_out_of_service(&t->w, &why);

    assert_true(!out || strcmp(why->data, "the disk is full") == 0);
    return out;
}

static void begin_as(struct talk *t, unsigned version)
{
    talk_init(t, 1);
    talk_start(t);
    tell(t, PEER_UP, peer_up, CENTRAL, ROLE_CENTRAL, version);
    expect(t, JOIN, join, CENTRAL, whatever);
    tell(t, JOINED, joined, CENTRAL, .node = {SELF}, .heartbeat_us = 500 * MS, .lease_us = 60 * S);
    expect(t, HELD_END, held_end, CENTRAL, whatever);
    tell(t, PARTITION, partition, CENTRAL, .epoch = 1, .general = 1);
    expect(t, PARTITION_ACK, partition_ack, CENTRAL, whatever);
    tell(t, PEER_UP, peer_up, DIST, ROLE_DIST, 3);
    expect(t, HELD_END, held_end, DIST, whatever);
}

static void begin(struct talk *t) { begin_as(t, 3); }

static void ask(struct talk *t)
{
    for (uint32_t seq = 1; seq <= WORKER_BLAMED_JOBS; seq++) {
        nothing(t);
        blamed(t, seq, NULL);
    }
    expect(t, OUT_OF_SERVICE, out_of_service, CENTRAL,
           m->on && strcmp(m->why->data, "the disk is full") == 0);
    nothing(t);
}

static void leave(struct talk *t)
{
    ask(t);
    assert_false(is_out(t));
    tell(t, OUT_OF_SERVICE, out_of_service, CENTRAL, .on = 1);
    nothing(t);
    assert_true(is_out(t));
}

static void expect_a_check(struct talk *t, int64_t after_us)
{
    pass(t, after_us - 1);
    nothing(t);
    pass(t, 1);
    expect(t, EXEC_CHECK, exec_check, 0, m->place == NULL);
}

static void it_leaves_and_returns_when_it_is_well(void **state)
{
    struct talk t;
    struct blob *full = blob_str("the disk is full");

    begin(&t);
    leave(&t);
    tell(&t, PROBE, probe, DIST, .job = JOB(9), .count = 1, .class = CLASS_SHORT);
    expect(&t, PROBE_REFUSED, probe_refused, DIST, m->err == HAWK_EDRAINING);
    expect_a_check(&t, 1 * S);
    tell(&t, EXEC_CHECKED, exec_checked, 0, .why = full);
    nothing(&t);
    expect_a_check(&t, 2 * S);
    tell(&t, EXEC_CHECKED, exec_checked, 0, .why = full);
    expect_a_check(&t, 4 * S);
    tell(&t, EXEC_CHECKED, exec_checked, 0, .why = NULL);
    expect(&t, OUT_OF_SERVICE, out_of_service, CENTRAL, !m->on);
    assert_false(is_out(&t));
    /* It counts anew, and does not hurry into the next check. */
    for (uint32_t seq = 11; seq <= 13; seq++) {
        nothing(&t);
        blamed(&t, seq, NULL);
    }
    expect(&t, OUT_OF_SERVICE, out_of_service, CENTRAL, m->on);
    tell(&t, OUT_OF_SERVICE, out_of_service, CENTRAL, .on = 1);
    expect_a_check(&t, 8 * S);
    blob_drop(full);
    talk_end(&t);
}

/* A check hung. Central called the worker back, and it is out again: it asks anew, and the old answer says nothing of
 * what it is out for now. */
static void an_answer_of_an_earlier_time_does_not_count(void **state)
{
    struct talk t;
    struct blob *full = blob_str("the disk is full");

    begin(&t);
    leave(&t);
    expect_a_check(&t, 1 * S);
    tell(&t, OUT_OF_SERVICE, out_of_service, CENTRAL, .on = 0);
    assert_false(is_out(&t));
    for (uint32_t seq = 11; seq <= 13; seq++)
        blamed(&t, seq, NULL);
    expect(&t, OUT_OF_SERVICE, out_of_service, CENTRAL, m->on);
    tell(&t, OUT_OF_SERVICE, out_of_service, CENTRAL, .on = 1);
    expect_a_check(&t, 2 * S);
    tell(&t, EXEC_CHECKED, exec_checked, 0, .why = NULL);
    nothing(&t);
    assert_true(is_out(&t));
    tell(&t, EXEC_CHECKED, exec_checked, 0, .why = full);
    expect_a_check(&t, 4 * S);
    tell(&t, EXEC_CHECKED, exec_checked, 0, .why = NULL);
    expect(&t, OUT_OF_SERVICE, out_of_service, CENTRAL, !m->on);
    blob_drop(full);
    talk_end(&t);
}

static void it_returns_whatever_the_checks_say(void **state)
{
    struct talk t;
    struct blob *full = blob_str("the disk is full");
    int64_t left_us;
    uint32_t checks = 0;

    begin(&t);
    leave(&t);
    left_us = t.now_us;
    for (;;) {
        pass(&t, WORKER_OUT_MAX_US);
        if (t.out.v[0].type == MSG_OUT_OF_SERVICE)
            break;
        expect(&t, EXEC_CHECK, exec_check, 0, whatever);
        tell(&t, EXEC_CHECKED, exec_checked, 0, .why = full);
        checks++;
    }
    expect(&t, OUT_OF_SERVICE, out_of_service, CENTRAL, !m->on);
    assert_int_equal(t.now_us - left_us, WORKER_OUT_MAX_US);
    assert_int_equal(checks, 6 + 8); /* 1, 2, 4 … 32 s apart, then 60 s */
    blob_drop(full);
    talk_end(&t);
}

/* A dist of an older version would send the task here again and again: it hears that the task failed. */
static void an_older_dist_hears_of_a_failed_task(void **state)
{
    struct talk t;
    uint32_t request, run;

    begin(&t);
    tell(&t, PEER_UP, peer_up, DIST2, ROLE_DIST, 1);
    expect(&t, HELD_END, held_end, DIST2, whatever);
    tell(&t, PROBE, probe, DIST2, .job = JOB(1), .count = 1, .class = CLASS_SHORT);
    request = t.out.v[t.out.n - 1].task_request.request;
    expect(&t, TASK_REQUEST, task_request, DIST2, whatever);
    tell(&t, TASK_LAUNCH, task_launch, DIST2, .id = TRY(1, 0), .request = request, .desc = t.desc);
    run = t.out.v[0].exec_start.run;
    expect(&t, EXEC_START, exec_start, 0, whatever);
    tell(&t, EXEC_EXITED, exec_exited, 0, .run = run, .outcome = OUTCOME_LOST, .code = HAWK_ECANNOT_START);
    expect(&t, TASK_FINISHED, task_finished, DIST2,
           m->outcome == OUTCOME_NOT_STARTED && m->code == CODE_CANNOT_START);
    talk_end(&t);
}

/* A spawner of an older version says nothing. */
static void it_returns_without_an_answer(void **state)
{
    struct talk t;

    begin(&t);
    leave(&t);
    expect_a_check(&t, 1 * S);
    pass(&t, WORKER_OUT_MAX_US);
    expect(&t, OUT_OF_SERVICE, out_of_service, CENTRAL, !m->on);
    talk_end(&t);
}

static void what_fails_everywhere_counts_for_nothing(void **state)
{
    struct talk t;

    begin(&t);
    for (uint32_t seq = 1; seq <= 20; seq++)
        cannot_start(&t, seq, NULL);
    nothing(&t);
    talk_end(&t);
}

static void one_job_counts_once(void **state)
{
    struct talk t;

    begin(&t);
    for (uint32_t i = 0; i < 5; i++) {
        blamed(&t, 1, NULL);
        nothing(&t);
    }
    talk_end(&t);
}

static void one_directory_counts_once(void **state)
{
    struct talk t;

    begin(&t);
    for (uint32_t seq = 1; seq <= 6; seq++) {
        blamed(&t, seq, "/home/anna");
        nothing(&t);
    }
    blamed(&t, 7, "/home/ben");
    nothing(&t);
    blamed(&t, 8, "/home/cleo/");
    expect(&t, OUT_OF_SERVICE, out_of_service, CENTRAL, m->on);
    tell(&t, OUT_OF_SERVICE, out_of_service, CENTRAL, .on = 1);
    pass(&t, 1 * S);
    expect(&t, EXEC_CHECK, exec_check, 0, strcmp(m->place->data, "/home/cleo/") == 0);
    talk_end(&t);
}

static void old_failures_do_not_count(void **state)
{
    struct talk t;

    begin(&t);
    blamed(&t, 1, NULL);
    blamed(&t, 2, NULL);
    pass(&t, WORKER_BLAMED_US + 1);
    blamed(&t, 3, NULL);
    nothing(&t);
    talk_end(&t);
}

/* Nor do they hide that the same directory is missing again. */
static void old_failures_hide_no_new_ones(void **state)
{
    struct talk t;

    begin(&t);
    blamed(&t, 1, "/home/anna");
    pass(&t, WORKER_BLAMED_US + 1);
    blamed(&t, 2, "/home/anna");
    blamed(&t, 3, "/home/ben");
    blamed(&t, 4, "/home/cleo");
    expect(&t, OUT_OF_SERVICE, out_of_service, CENTRAL, m->on);
    talk_end(&t);
}

/* A task may start elsewhere much later. */
static void a_failure_is_as_old_as_the_blame(void **state)
{
    struct talk t;

    begin(&t);
    for (uint32_t seq = 1; seq <= WORKER_BLAMED_JOBS; seq++)
        cannot_start(&t, seq, NULL);
    pass(&t, WORKER_BLAMED_US + 1);
    for (uint32_t seq = 1; seq <= WORKER_BLAMED_JOBS; seq++)
        tell(&t, START_BLAMED, start_blamed, DIST, .job = JOB(seq));
    expect(&t, OUT_OF_SERVICE, out_of_service, CENTRAL, m->on);
    talk_end(&t);
}

static void after_a_long_time_in_service_checks_begin_anew(void **state)
{
    struct talk t;
    struct blob *full = blob_str("the disk is full");

    begin(&t);
    leave(&t);
    expect_a_check(&t, 1 * S);
    tell(&t, EXEC_CHECKED, exec_checked, 0, .why = full);
    expect_a_check(&t, 2 * S);
    tell(&t, EXEC_CHECKED, exec_checked, 0, .why = NULL);
    expect(&t, OUT_OF_SERVICE, out_of_service, CENTRAL, !m->on);
    pass(&t, WORKER_OUT_MAX_US + 1);
    leave(&t);
    expect_a_check(&t, 1 * S);
    blob_drop(full);
    talk_end(&t);
}

static void one_that_stops_does_not_ask(void **state)
{
    struct talk t;

    begin(&t);
    blamed(&t, 1, NULL);
    blamed(&t, 2, NULL);
    cannot_start(&t, 3, NULL);
    take_one(&t, 4);
    tell(&t, STOP, stop, 0, .now = 0);
    expect(&t, DRAINING, draining, CENTRAL, whatever);
    tell(&t, START_BLAMED, start_blamed, DIST, .job = JOB(3));
    nothing(&t);
    talk_end(&t);
}

static void refused_it_stays_and_counts_anew(void **state)
{
    struct talk t;

    begin(&t);
    ask(&t);
    tell(&t, OUT_OF_SERVICE, out_of_service, CENTRAL, .on = 0);
    nothing(&t);
    assert_false(is_out(&t));
    blamed(&t, 4, NULL);
    nothing(&t);
    talk_end(&t);
}

/* Central has revoked what it granted; a grant that comes behind that is not wanted any more. */
static void a_grant_that_nobody_wants_is_given_back(void **state)
{
    struct talk t;

    begin(&t);
    tell(&t, OUT_OF_SERVICE, out_of_service, CENTRAL, .on = 1);
    expect(&t, OUT_OF_SERVICE, out_of_service, CENTRAL, !m->on);
    assert_false(is_out(&t));
    leave(&t);
    tell(&t, OUT_OF_SERVICE, out_of_service, CENTRAL, .on = 0);
    nothing(&t);
    assert_false(is_out(&t));
    talk_end(&t);
}

static void join_again(struct talk *t, uint8_t draining)
{
    tell(t, PEER_UP, peer_up, CENTRAL, ROLE_CENTRAL, 3);
    expect(t, JOIN, join, CENTRAL, whatever);
    tell(t, JOINED, joined, CENTRAL, .node = {SELF}, .heartbeat_us = 500 * MS, .lease_us = 60 * S,
         .draining = draining);
    expect(t, HELD_END, held_end, CENTRAL, whatever);
}

static void without_central_it_stays_and_asks_later(void **state)
{
    struct talk t;

    begin(&t);
    tell(&t, PEER_LOST, peer_lost, CENTRAL, ROLE_CENTRAL);
    for (uint32_t seq = 1; seq <= 3; seq++)
        blamed(&t, seq, NULL);
    nothing(&t);
    assert_false(is_out(&t));
    join_again(&t, 0);
    expect(&t, OUT_OF_SERVICE, out_of_service, CENTRAL, m->on);
    tell(&t, OUT_OF_SERVICE, out_of_service, CENTRAL, .on = 1);
    assert_true(is_out(&t));
    /* Another central hears of it. */
    tell(&t, PEER_LOST, peer_lost, CENTRAL, ROLE_CENTRAL);
    assert_true(is_out(&t));
    join_again(&t, 0);
    expect(&t, OUT_OF_SERVICE, out_of_service, CENTRAL, m->on);
    talk_end(&t);
}

static void an_operators_drain_is_another_matter(void **state)
{
    struct talk t;

    begin(&t);
    leave(&t);
    tell(&t, DRAIN, drain, CENTRAL, .on = 1);
    expect(&t, DRAINED, drained, CENTRAL, m->on && m->empty);
    expect_a_check(&t, 1 * S);
    tell(&t, EXEC_CHECKED, exec_checked, 0, .why = NULL);
    expect(&t, OUT_OF_SERVICE, out_of_service, CENTRAL, !m->on);
    tell(&t, PROBE, probe, DIST, .job = JOB(9), .count = 1, .class = CLASS_SHORT);
    expect(&t, PROBE_REFUSED, probe_refused, DIST, whatever);
    tell(&t, DRAIN, drain, CENTRAL, .on = 0);
    expect(&t, DRAINED, drained, CENTRAL, !m->on);
    take_one(&t, 10);
    talk_end(&t);
}

static void an_older_central_is_not_asked(void **state)
{
    struct talk t;

    begin_as(&t, 2);
    for (uint32_t seq = 1; seq <= 3; seq++)
        blamed(&t, seq, NULL);
    nothing(&t);
    assert_false(is_out(&t));
    talk_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_older_dist_hears_of_a_failed_task),
        cmocka_unit_test(it_leaves_and_returns_when_it_is_well),
        cmocka_unit_test(an_answer_of_an_earlier_time_does_not_count),
        cmocka_unit_test(it_returns_whatever_the_checks_say),
        cmocka_unit_test(it_returns_without_an_answer),
        cmocka_unit_test(what_fails_everywhere_counts_for_nothing),
        cmocka_unit_test(one_job_counts_once),
        cmocka_unit_test(one_directory_counts_once),
        cmocka_unit_test(old_failures_do_not_count),
        cmocka_unit_test(old_failures_hide_no_new_ones),
        cmocka_unit_test(a_failure_is_as_old_as_the_blame),
        cmocka_unit_test(after_a_long_time_in_service_checks_begin_anew),
        cmocka_unit_test(one_that_stops_does_not_ask),
        cmocka_unit_test(refused_it_stays_and_counts_anew),
        cmocka_unit_test(a_grant_that_nobody_wants_is_given_back),
        cmocka_unit_test(without_central_it_stays_and_asks_later),
        cmocka_unit_test(an_operators_drain_is_another_matter),
        cmocka_unit_test(an_older_central_is_not_asked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
