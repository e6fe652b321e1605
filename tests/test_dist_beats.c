/* A dist and workers that it cannot hear, or that cannot hear it (docs/protocol.md 0, "Beats"). */
#include "msg/beats.h"
#include "tests/test_dist.h"

static struct talk *talk_beating(uint32_t workers)
{
    struct talk *t = talk_new("hawk");

    t->cfg.heartbeats = true;
    talk_begin(t);
    central_joins(t);
    for (uint32_t i = 0; i < workers; i++)
        worker_up(t, 101 + i, 1, true);
    return t;
}

/* Timers until then; what is said meanwhile is not looked at. */
static void pass(struct talk *t, int64_t us)
{
    int64_t until_us = t->now + us;

    while (dist_next_timeout(&t->d) <= until_us) {
        ignore(t);
        wait_timer(t, us);
    }
    t->now = until_us;
}

static void beats_of_one_stream(void **state)
{
    struct beats p = {0};

    assert_int_equal(beats_look(&p, 0, 0), BEATS_ASK);
    assert_int_equal(beats_look(&p, BEATS_ANSWER_US - 1, 0), BEATS_REST);
    beats_answered(&p);
    assert_int_equal(beats_look(&p, BEATS_ASK_US - 1, 0), BEATS_REST);
    assert_int_equal(beats_look(&p, BEATS_ASK_US, 0), BEATS_ASK);
    /* Who looks late has not listened. */
    assert_int_equal(beats_look(&p, BEATS_ASK_US + BEATS_ANSWER_US + 9, 10), BEATS_REST);
    assert_int_equal(beats_look(&p, BEATS_ASK_US + BEATS_ANSWER_US + 10, 0), BEATS_LOST);
    beats_end(&p);
    assert_int_equal(beats_look(&p, BEATS_BOUND_US, 0), BEATS_ASK);
}

/* 10 MB take 2 s on a slow network, and the answer comes behind them. */
static void an_answer_waits_behind_what_was_sent(void **state)
{
    struct beats p = {0};

    beats_bulk(&p, 0, 4000000);
    beats_bulk(&p, 0, 6000000); /* behind the first */
    assert_int_equal(beats_look(&p, 0, 0), BEATS_ASK);
    assert_int_equal(beats_look(&p, 2 * US_PER_S + BEATS_ANSWER_US - 1, 0), BEATS_REST);
    assert_int_equal(beats_look(&p, 2 * US_PER_S + BEATS_ANSWER_US, 0), BEATS_LOST);
}

/* A result of 10 MB went the other way: its dist gives that worker as much longer. */
static void a_large_result_gives_time(void **state)
{
    struct talk *t = talk_beating(1);
    struct blob *result = blob_new(NULL, 10000000);
    struct job_desc *desc = desc_new(2, "");

    desc->lost_retries = 1;
    submit(t, desc);
    ignore(t);
    request(t, 101, 1, 1);
    ignore(t);
    request(t, 101, 1, 2);
    ignore(t);
    HEAR(t, 101, TASK_FINISHED, task_finished, .id = try_of(1, 0, 1, 1), .outcome = OUTCOME_EXITED,
         .result = result);
    pass(t, BEATS_BOUND_US + BEATS_LOOK_US);
    ignore(t);
    assert_int_equal(task_view_of(t, 1, 1).state, TASK_LAUNCHED);
    pass(t, 2 * US_PER_S);
    ignore(t);
    assert_int_not_equal(task_view_of(t, 1, 1).state, TASK_LAUNCHED);
    blob_drop(result);
    talk_end(t);
}

/* 101 got a task, which it may never have heard of: 102 runs it. */
static void who_does_not_answer_is_given_up(void **state)
{
    struct talk *t = talk_beating(2);
    struct job_desc *desc = desc_new(1, "");

    desc->lost_retries = 5;
    submit(t, desc);
    ignore(t);
    request(t, 101, 1, 1);
    says(t, "101 TASK_LAUNCH id=3.1/0@1.1");
    ignore(t);
    wait_timer(t, BEATS_LOOK_US);
    says(t, "101 BEAT ask=1");
    pass(t, BEATS_ANSWER_US - 1);
    assert_int_equal(task_view_of(t, 1, 0).state, TASK_LAUNCHED);
    ignore(t);
    wait_timer(t, 1);
    says(t, "- GIVE_UP node=101");
    says(t, "102 PROBE job=3.1");
    ignore(t);
    request(t, 102, 1, 1);
    says(t, "102 TASK_LAUNCH id=3.1/0@1.2");
    ignore(t);
    HEAR(t, 101, PEER_LOST, peer_lost, .role = ROLE_WORKER); /* the shell has ended the stream */
    ignore(t);
    finished(t, 102, try_of(1, 0, 1, 2), 0, 1);
    ignore(t);
    assert_int_equal(job_view_of(t, 1).done, 1);
    talk_end(t);
}

/* Long enough for many questions: one that answers keeps its task. */
static void who_answers_keeps_its_task(void **state)
{
    struct talk *t = talk_beating(2);

    submit(t, desc_new(1, ""));
    ignore(t);
    request(t, 101, 1, 1);
    ignore(t);
    for (uint32_t i = 0; i < 20; i++) {
        pass(t, BEATS_ASK_US);
        ignore(t);
        HEAR(t, 101, BEAT, beat, .ask = false);
    }
    assert_int_equal(task_view_of(t, 1, 0).state, TASK_LAUNCHED);
    HEAR(t, 101, BEAT, beat, .ask = true);
    says(t, "101 BEAT ask=0");
    ignore(t);
    finished(t, 101, try_of(1, 0, 1, 1), 0, 1);
    ignore(t);
    /* Nothing is waited for: nobody is asked. */
    pass(t, 2 * BEATS_LOOK_US);
    ignore(t);
    assert_true(t->d.beat_at == TIME_NEVER);
    talk_end(t);
}

/* A deaf central takes all workers for dead. Those that answer their dist are not. */
static void a_suspect_that_answers_is_drawn_again(void **state)
{
    struct talk *t = talk_beating(2);

    submit(t, desc_new(1, ""));
    ignore(t);
    request(t, 101, 1, 1);
    ignore(t);
    worker_member(t, 101, 1, MEMBER_SUSPECT, true);
    says(t, "101 BEAT ask=1");
    worker_member(t, 102, 1, MEMBER_SUSPECT, true);
    says(t, "102 BEAT ask=1");
    assert_int_equal(task_view_of(t, 1, 0).state, TASK_LAUNCHED); /* it may well be running */
    submit(t, desc_new(1, ""));
    ignore(t);
    assert_int_equal(block_of(t, 2), DIST_BLOCK_NO_WORKERS);
    HEAR(t, 102, BEAT, beat, .ask = false);
    says(t, "102 PROBE job=3.2");
    worker_member(t, 102, 1, MEMBER_SUSPECT, true); /* no news: it need not answer again */
    submit(t, desc_new(1, ""));
    says(t, "- SUBMITTED job=3.3");
    says(t, "102 PROBE job=3.3");
    worker_member(t, 102, 1, MEMBER_UP, true);
    HEAR(t, 101, BEAT, beat, .ask = false);
    ignore(t);
    worker_member(t, 101, 1, MEMBER_GONE, true);
    ignore(t);
    talk_end(t);
}

/* One that speaks an older version is asked nothing: what central says of it counts. */
static void an_older_worker_is_not_asked(void **state)
{
    struct talk *t = talk_beating(1);
    struct job_desc *desc = desc_new(1, "");

    desc->lost_retries = 5;
    worker_member(t, 102, 1, MEMBER_UP, true);
    HEAR(t, 102, PEER_UP, peer_up, .role = ROLE_WORKER, .version = 2);
    submit(t, desc);
    ignore(t);
    request(t, 102, 1, 1);
    ignore(t);
    pass(t, 2 * BEATS_BOUND_US);
    ignore(t);
    assert_int_equal(task_view_of(t, 1, 0).state, TASK_LAUNCHED);
    worker_member(t, 102, 1, MEMBER_SUSPECT, true);
    ignore(t);
    assert_int_equal(task_view_of(t, 1, 0).state, TASK_WAITING);
    talk_end(t);
}

/* It is the only one there is, so what it lost goes to it again: once for each job. */
static void an_only_worker_that_lost_reservations_gets_them_again(void **state)
{
    struct talk *t = talk_beating(1);

    submit(t, desc_new(1, ""));
    ignore(t);
    submit(t, desc_new(1, ""));
    ignore(t);
    for (uint32_t i = 0; i < 2; i++) {
        pass(t, BEATS_ASK_US);
        ignore(t);
        HEAR(t, 101, BEAT, beat, .ask = false, .held = 0);
        assert_int_equal(job_view_of(t, 1).probes_lost > 0, i == 1); /* by one answer it may be on its way */
    }
    says(t, "101 PROBE job=3.1");
    says(t, "101 PROBE job=3.2");
    ignore(t);
    talk_end(t);
}

/* What was sent after the question is on its way, and not lost. */
static void what_the_worker_did_not_have_when_asked_counts(void **state)
{
    struct talk *t = talk_beating(1);

    submit(t, desc_new(1, ""));
    ignore(t);
    for (uint32_t i = 0; i < 3; i++) {
        pass(t, BEATS_ASK_US);
        ignore(t);
        submit(t, desc_new(1, ""));
        ignore(t);
        HEAR(t, 101, BEAT, beat, .ask = false, .held = 2 * (i + 1));
    }
    assert_int_equal(job_view_of(t, 1).probes_lost, 0);
    assert_int_equal(job_view_of(t, 1).probes_live, 2);
    talk_end(t);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(beats_of_one_stream),
        cmocka_unit_test(an_answer_waits_behind_what_was_sent),
        cmocka_unit_test(a_large_result_gives_time),
        cmocka_unit_test(who_does_not_answer_is_given_up),
        cmocka_unit_test(who_answers_keeps_its_task),
        cmocka_unit_test(a_suspect_that_answers_is_drawn_again),
        cmocka_unit_test(an_older_worker_is_not_asked),
        cmocka_unit_test(an_only_worker_that_lost_reservations_gets_them_again),
        cmocka_unit_test(what_the_worker_did_not_have_when_asked_counts),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
