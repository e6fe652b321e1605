/* Conversations of a dist about long jobs and promotion: docs/protocol.md 4 and 7, the dist's side. */
#include "tests/test_dist.h"

static void long_task(struct talk *t, struct try_id id, enum task_state state, uint32_t worker)
{
    HEAR(t, CENTRAL, LONG_TASK, long_task, .id = id, .state = state, .worker = {worker},
         .outcome = state == TASK_DONE ? OUTCOME_EXITED : OUTCOME_NONE, .run_us = 70,
         .used = usage_of(state == TASK_DONE ? 60 : 0, state == TASK_DONE ? 1900 : 0));
}

/* ---- 4. A long job ---- */

static void test_from_submission_to_end(void **state)
{
    struct talk *t = talk_joined("hawk", 1);
    struct task_view v;

    submit_long(t, 2, 0);
    says(t, "central LONG_SUBMIT job=3.1 desc=\"big\"x2 tasks=all estimate_us=100000000 epoch=1 why=2");
    says(t, "- SUBMITTED job=3.1 client=9 err=0 class=1 why=2");
    assert_int_equal(job_view_of(t, 1).state, JOB_PENDING);
    assert_int_equal(block_of(t, 1), DIST_BLOCK_CENTRAL_ACK);
    HEAR(t, CENTRAL, LONG_ACCEPTED, long_accepted, .job = J(1), .epoch = 1);
    assert_int_equal(job_view_of(t, 1).state, JOB_WAITING);
    assert_true(node_eq(job_view_of(t, 1).owner, NODE_CENTRAL));
    assert_int_equal(block_of(t, 1), DIST_BLOCK_PLACEMENT);
    HEAR(t, CENTRAL, LONG_WATCHED, long_watched, .job = J(1), .epoch = 1, .unreported_us = 500);
    assert_int_equal(dist_unreported_us(dist_find(&t->d, J(1)), t->now + 100), 400);
    assert_int_equal(dist_unreported_us(dist_find(&t->d, J(1)), t->now + 501), 0);
    HEAR(t, 0, WATCH, watch, .job = J(1), .on = 1);
    long_task(t, try_of(1, 0, 1, 1), TASK_PLACED, 101);
    says(t, "- TASK_EVENT id=3.1/0@1.1 run_us=0 wait_us=0 worker=101 code=0 state=1");
    long_task(t, try_of(1, 0, 1, 1), TASK_PLACED, 101); /* said again: nothing new */
    long_task(t, try_of(1, 1, 1, 1), TASK_PLACED, 101);
    says(t, "- TASK_EVENT id=3.1/1@1.1");
    assert_int_equal(block_of(t, 1), DIST_BLOCK_PLACED);
    assert_int_equal(dist_unreported_us(dist_find(&t->d, J(1)), t->now), 0); /* all are placed */
    t->now += 500;
    long_task(t, try_of(1, 0, 1, 1), TASK_RUNNING, 101);
    says(t, "- TASK_EVENT id=3.1/0@1.1");
    says(t, "- JOB_EVENT job=3.1 done=0 failed=0 state=2");
    long_task(t, try_of(1, 0, 1, 1), TASK_DONE, 101);
    says(t, "- TASK_EVENT id=3.1/0@1.1 run_us=70 wait_us=430 worker=101 code=0 state=4 outcome=1");
    long_task(t, try_of(1, 1, 1, 2), TASK_PLACED, 102); /* its worker was lost */
    says(t, "- TASK_EVENT id=3.1/1@1.2 run_us=0 wait_us=0 worker=102");
    long_task(t, try_of(1, 1, 1, 2), TASK_LOST, 102);
    says(t, "- TASK_EVENT id=3.1/1@1.2");
    says(t, "- JOB_EVENT job=3.1 done=1 failed=1 state=4"); /* central writes the history of its jobs */
    dist_task_view(&t->d, dist_find(&t->d, J(1)), 1, t->now, &v);
    assert_int_equal(v.outcome, OUTCOME_LOST);
    assert_int_equal(v.used.cpu_us.v, 0);
    assert_int_equal(figure_value(task_view_of(t, 1, 0).used.cpu_us), 60);
    assert_int_equal(figure_value(task_view_of(t, 1, 0).used.mem_peak_bytes), 1900);
    long_task(t, try_of(1, 1, 1, 3), TASK_RUNNING, 103); /* too late */
    assert_true(dist_quiet(&t->d));
    talk_end(t);
}

static void joined_again(struct talk *t)
{
    HEAR(t, CENTRAL, PEER_LOST, peer_lost, 0);
    central_joins(t);
}

/* Central may have accepted and run it, and its end be on no record any more (hawk sim --faults --seed 14133). */
static void test_at_most_once_is_not_offered_again(void **state)
{
    struct talk *t = talk_joined("hawk", 1);

    submit_long(t, 1, JOB_AT_MOST_ONCE);
    ignore(t);
    joined_again(t);
    says(t, "central LONG_WATCH job=3.1 epoch=1");
    ignore(t);
    HEAR(t, CENTRAL, LONG_WATCHED, long_watched, .job = J(1), .epoch = 1, .err = HAWK_ENOT_FOUND);
    assert_int_equal(job_view_of(t, 1).lost, 1);
    ignore(t);
    talk_end(t);
}

static void test_at_most_once_is_offered_again_when_refused(void **state)
{
    struct talk *t = talk_joined("hawk", 1);

    submit_long(t, 1, JOB_AT_MOST_ONCE);
    ignore(t);
    HEAR(t, CENTRAL, LONG_REFUSED, long_refused, .job = J(1), .epoch = 1, .err = HAWK_ELIMIT);
    ignore(t);
    joined_again(t);
    says(t, "central LONG_SUBMIT job=3.1");
    ignore(t);
    talk_end(t);
}

#define ONCE (JOB_DETACHED | JOB_AT_MOST_ONCE)
#define RECORD_OF(token, handed)                                                                             \
    "- JOURNAL_JOB job=3.1 token=" token                                                                     \
    " desc=- tasks=all estimate_us=100000000 epoch=1 life=1 handed=" handed

/* After a restart it would be lost: what central may have had, and does not know, may have run. */
static void test_at_most_once_is_on_record_as_centrals_only_while_offered(void **state)
{
    struct talk *t = talk_joined("hawk", 1);

    HEAR(t, CENTRAL, PEER_LOST, peer_lost, 0);
    submit_long(t, 1, ONCE);
    says(t, "- JOURNAL_JOB job=3.1 token=1 desc=\"big\"x1 tasks=all estimate_us=100000000 epoch=1 life=1 "
            "handed=0");
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 1);
    says(t, "- SUBMITTED job=3.1");
    assert_int_equal(block_of(t, 1), DIST_BLOCK_CENTRAL_AWAY);
    central_joins(t);
    says(t, RECORD_OF("2", "1"));
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 2);
    says(t, "central LONG_SUBMIT job=3.1");
    HEAR(t, CENTRAL, LONG_REFUSED, long_refused, .job = J(1), .epoch = 1, .err = HAWK_ELIMIT);
    says(t, RECORD_OF("3", "0"));
    wait_timer(t, US_PER_S);
    says(t, RECORD_OF("4", "1"));
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 3);
    HEAR(t, CENTRAL, PEER_LOST, peer_lost, 0);
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 4);
    says(t, RECORD_OF("5", "0")); /* it was too late for central */
    central_joins(t);
    says(t, RECORD_OF("6", "1"));
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 6);
    says(t, "central LONG_SUBMIT job=3.1");
    HEAR(t, CENTRAL, PEER_LOST, peer_lost, 0); /* from here on it may have it */
    central_joins(t);
    says(t, "central LONG_WATCH job=3.1");
    talk_end(t);
}

static void test_a_dist_that_leaves_offers_nothing_at_most_once(void **state)
{
    struct talk *t = talk_joined("hawk", 1);

    submit_long(t, 1, ONCE);
    says(t, "- JOURNAL_JOB job=3.1 token=1 desc=\"big\"x1 tasks=all estimate_us=100000000 epoch=1 life=1 "
            "handed=1");
    HEAR(t, 0, STOP, stop, .now = 1);
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 1);
    says(t, RECORD_OF("2", "0"));
    says(t, "- SUBMITTED job=3.1 client=9 err=0");
    says(t, "central LEAVE");
    says(t, "- STOPPED");
    talk_end(t);
    t = talk_joined("hawk", 1);
    HEAR(t, CENTRAL, PEER_LOST, peer_lost, 0);
    submit_long(t, 1, ONCE);
    ignore(t);
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 1);
    ignore(t);
    central_joins(t);
    says(t, RECORD_OF("2", "1"));
    HEAR(t, 0, STOP, stop, .now = 1);
    says(t, RECORD_OF("3", "0"));
    says(t, "central LEAVE");
    says(t, "- STOPPED");
    talk_end(t);
}

static void test_waits_while_central_is_away(void **state)
{
    struct talk *t = talk_joined("hawk", 1);

    HEAR(t, CENTRAL, PEER_LOST, peer_lost, 0);
    submit_long(t, 1, 0);
    says(t, "- SUBMITTED job=3.1 client=9 err=0");
    assert_int_equal(block_of(t, 1), DIST_BLOCK_CENTRAL_AWAY);
    submit_long(t, 1, JOB_DETACHED); /* somebody must have it before its client is told */
    says(t, "- JOURNAL_JOB job=3.2 token=1");
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 1);
    says(t, "- SUBMITTED job=3.2 client=9 err=0 class=1");
    central_joins(t);
    says(t, "central LONG_SUBMIT job=3.1");
    says(t, "central LONG_SUBMIT job=3.2");
    HEAR(t, CENTRAL, LONG_ACCEPTED, long_accepted, .job = J(2), .epoch = 1);
    long_task(t, try_of(2, 0, 1, 1), TASK_DONE, 101);
    says(t, "- JOURNAL_TASK id=3.2/0@1.1 token=2");
    says(t, "- JOB_EVENT job=3.2 done=1 failed=0 state=3");
    says(t, "- JOURNAL_ENDED job=3.2 token=3");
    talk_end(t);
}

static void test_detached_is_told_when_both_have_it(void **state)
{
    struct talk *t = talk_joined("hawk", 1);

    submit_long(t, 1, JOB_DETACHED);
    says(t, "- JOURNAL_JOB job=3.1 token=1 desc=\"big\"x1 tasks=all estimate_us=100000000 epoch=1 "
            "life=1 handed=1 why=2 class=1");
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 1);
    says(t, "central LONG_SUBMIT job=3.1");
    HEAR(t, CENTRAL, LONG_ACCEPTED, long_accepted, .job = J(1), .epoch = 1);
    says(t, "- SUBMITTED job=3.1 client=9 err=0 class=1");
    /* Central is lost before it answers: our own journal must do. */
    submit_long(t, 1, JOB_DETACHED);
    says(t, "- JOURNAL_JOB job=3.2 token=2");
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 2); /* central may still refuse */
    says(t, "central LONG_SUBMIT job=3.2");
    HEAR(t, CENTRAL, PEER_LOST, peer_lost, 0);
    says(t, "- SUBMITTED job=3.2");
    central_joins(t);
    says(t, "central LONG_WATCH job=3.1 epoch=1");
    says(t, "central LONG_SUBMIT job=3.2");
    talk_end(t);
}

/* Central would run it, and after a restart we would not know of it (hawk sim --faults --seed 1465 --kinds
 * dist,disk,full). */
static void test_central_gets_nothing_that_is_not_on_record(void **state)
{
    struct talk *t = talk_joined("hawk", 1);

    submit_long(t, 1, JOB_DETACHED);
    says(t, "- JOURNAL_JOB job=3.1 token=1");
    HEAR(t, CENTRAL, PEER_LOST, peer_lost, 0);
    central_joins(t); /* not yet, either */
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 1, .err = HAWK_EIO);
    says(t, "- SUBMITTED job=- client=9 err=-19");
    says(t, "- JOURNAL_JOB_END job=3.1 token=2");
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 2);
    assert_true(dist_quiet(&t->d));
    talk_end(t);
}

/* Central has refused a detached job, whose end is being recorded. */
static struct talk *talk_refused(void)
{
    struct talk *t = talk_joined("hawk", 1);

    submit_long(t, 1, JOB_DETACHED);
    says(t, "- JOURNAL_JOB job=3.1 token=1");
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 1);
    says(t, "central LONG_SUBMIT job=3.1");
    HEAR(t, CENTRAL, LONG_REFUSED, long_refused, .job = J(1), .epoch = 1, .err = HAWK_ELIMIT);
    says(t, "- JOURNAL_JOB_END job=3.1 token=2");
    return t;
}

/* It comes back where its end is not taken, and the dist ends now (hawk sim --faults --seed 320334006). */
static void test_refused_and_not_taken(void **state)
{
    struct talk *t = talk_refused();

    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 2, .err = HAWK_ELIMIT);
    says(t, "- SUBMITTED job=- client=9 err=-19");
    ignore(t);
    talk_end(t);
}

static void test_refused(void **state)
{
    /* Its client waits for the answer, and gets it when the job cannot come back (hawk sim --faults --seed 208 --kinds
     * dist,disk,full). */
    struct talk *t = talk_refused();

    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 2);
    says(t, "- SUBMITTED job=- client=9 err=-4");
    /* If the dist ends now, the job comes back: its client hears why that may be, once. */
    submit_long(t, 1, JOB_DETACHED);
    says(t, "- JOURNAL_JOB job=3.2 token=3");
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 3);
    says(t, "central LONG_SUBMIT job=3.2");
    HEAR(t, CENTRAL, LONG_REFUSED, long_refused, .job = J(2), .epoch = 1, .err = HAWK_ELIMIT);
    says(t, "- JOURNAL_JOB_END job=3.2 token=4");
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 4, .err = HAWK_EIO);
    says(t, "- SUBMITTED job=- client=9 err=-19");
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 4);
    submit_long(t, 1, 0); /* one that was told "pending" is offered again */
    says(t, "central LONG_SUBMIT job=3.3");
    says(t, "- SUBMITTED job=3.3");
    HEAR(t, CENTRAL, LONG_REFUSED, long_refused, .job = J(3), .epoch = 1, .err = HAWK_ELIMIT);
    assert_int_equal(block_of(t, 3), DIST_BLOCK_CENTRAL_FULL);
    wait_timer(t, 2 * US_PER_S);
    says(t, "central LONG_SUBMIT job=3.3");
    HEAR(t, CENTRAL, LONG_REFUSED, long_refused, .job = J(3), .epoch = 1, .err = HAWK_EINVALID);
    says(t, "- JOB_EVENT job=3.3 done=0 failed=1 state=4"); /* never */
    assert_int_equal(task_view_of(t, 3, 0).code, 126);
    HEAR(t, 0, WATCH, watch, .job = J(3),
         .on = 1); /* what has ended is not offered again: no task is left for it */
    talk_end(t);
}

/* Central has a long job of so many tasks. */
static struct talk *talk_accepted(uint32_t tasks)
{
    struct talk *t = talk_joined("hawk", 1);

    submit_long(t, tasks, 0);
    ignore(t);
    HEAR(t, CENTRAL, LONG_ACCEPTED, long_accepted, .job = J(1), .epoch = 1);
    return t;
}

static void test_resynchronises_with_central(void **state)
{
    struct talk *t = talk_accepted(3);

    long_task(t, try_of(1, 0, 1, 1), TASK_DONE, 101);
    long_task(t, try_of(1, 1, 1, 4), TASK_RUNNING, 101);
    HEAR(t, CENTRAL, PEER_LOST, peer_lost, 0);
    central_joins(t);
    says(t, "central LONG_WATCH job=3.1 epoch=1");
    long_task(t, try_of(1, 0, 1, 1), TASK_DONE, 101);
    long_task(t, try_of(1, 1, 1, 2), TASK_PLACED, 102); /* it restarted, and counts attempts anew */
    assert_int_equal(task_view_of(t, 1, 1).state, TASK_PLACED);
    long_task(t, try_of(1, 1, 2, 9), TASK_DONE, 102); /* of an epoch that is not ours */
    assert_int_equal(task_view_of(t, 1, 1).state, TASK_PLACED);
    long_task(t, try_of(1, 2, 1, 1), TASK_WAITING, 0);
    HEAR(t, CENTRAL, LONG_WATCHED, long_watched, .job = J(1), .epoch = 1);
    /* It has lost its journal: what did not end is handed over again. */
    HEAR(t, CENTRAL, LONG_WATCHED, long_watched, .job = J(1), .epoch = 1, .err = HAWK_ENOT_FOUND);
    says(t, "central LONG_SUBMIT job=3.1 desc=\"big\"x3 tasks=2of estimate_us=100000000 epoch=1");
    assert_int_equal(task_view_of(t, 1, 1).state, TASK_WAITING);
    HEAR(t, CENTRAL, LONG_ACCEPTED, long_accepted, .job = J(1), .epoch = 1);
    says(t, "central LONG_WATCH job=3.1 epoch=1");
    long_task(t, try_of(1, 1, 1, 1), TASK_DONE, 102);
    long_task(t, try_of(1, 2, 1, 1), TASK_DONE, 102);
    says(
        t,
        "central JOB_REPORT name=\"big\" mean_us=70 task_us=210 tasks=3 class=1"); /* no more central's alone */
    says(t, "- JOB_EVENT job=3.1 done=3 failed=0 state=3");
    talk_end(t);
}

static void test_cancel(void **state)
{
    struct talk *t = talk_accepted(2);

    HEAR(t, 0, CANCEL, cancel, .job = J(1), .client = 4);
    says(t, "- CANCELLED job=3.1 client=4 err=0");
    says(t, "central LONG_CANCEL job=3.1 epoch=1");
    says(t, "central LONG_WATCH job=3.1 epoch=1");
    /* The order may be lost with the stream. */
    HEAR(t, CENTRAL, PEER_LOST, peer_lost, 0);
    central_joins(t);
    says(t, "central LONG_CANCEL job=3.1 epoch=1");
    says(t, "central LONG_WATCH job=3.1 epoch=1");
    long_task(t, try_of(1, 0, 1, 1), TASK_CANCELLED, 0);
    HEAR(t, CENTRAL, LONG_WATCHED, long_watched, .job = J(1), .epoch = 1, .err = HAWK_ENOT_FOUND);
    says(t, "- JOB_EVENT job=3.1 done=0 failed=0 state=5");
    /* One that central never heard of ends at once, also while central is away. */
    HEAR(t, CENTRAL, PEER_LOST, peer_lost, 0);
    submit_long(t, 2, 0);
    ignore(t);
    HEAR(t, 0, CANCEL, cancel, .job = J(2), .client = 4);
    says(t, "- CANCELLED job=3.2 client=4 err=0");
    says(t, "- JOB_EVENT job=3.2 done=0 failed=0 state=5");
    talk_end(t);
}

static void test_cancelled_while_central_journals(void **state)
{
    struct talk *t = talk_joined("hawk", 1);

    submit_long(t, 1, 0);
    ignore(t);
    HEAR(t, 0, CANCEL, cancel, .job = J(1), .client = 4);
    ignore(t);
    /* The watch is answered, and then the journal fails. */
    long_task(t, try_of(1, 0, 1, 0), TASK_WAITING, 0);
    HEAR(t, CENTRAL, LONG_WATCHED, long_watched, .job = J(1), .epoch = 1);
    HEAR(t, CENTRAL, LONG_REFUSED, long_refused, .job = J(1), .epoch = 1, .err = HAWK_EIO);
    says(t, "- JOB_EVENT job=3.1 done=0 failed=0 state=5");
    talk_end(t);
}

/* ---- 7. Promotion ---- */

/* So much time has passed since it started at 101. */
static void overruns(struct talk *t, struct try_id id, int64_t run_us)
{
    t->now += run_us;
    HEAR(t, 101, TASK_OVERRUN, task_overrun, .id = id, .run_us = run_us);
}

/* A job of four, one of which runs at 101 and outlives the cutoff. */
static struct talk *overrun(uint16_t retries)
{
    struct talk *t = talk_joined("hawk", 1);
    struct job_desc *desc = desc_new(4, "n");

    desc->lost_retries = retries;
    submit(t, desc);
    ignore(t);
    request(t, 101, 1, 1);
    says(t, "101 TASK_LAUNCH id=3.1/0@1.1 desc=\"n\"x4 arg=- request=1 promotable=1");
    started(t, 101, try_of(1, 0, 1, 1));
    overruns(t, try_of(1, 0, 1, 1), 10 * US_PER_S);
    return t;
}

static void test_promotion_hands_the_rest_to_central(void **state)
{
    struct talk *t = overrun(0);

    says(t, "101 PROBE_CANCEL job=3.1");
    says(t, "central LONG_SUBMIT job=3.1 desc=\"n\"x4 tasks=3of estimate_us=10000000 epoch=2 why=4");
    request(t, 101, 1, 2);
    says(t, "101 NO_TASK job=3.1 request=2"); /* it launches nothing more of it */
    assert_int_equal(block_of(t, 1), DIST_BLOCK_CENTRAL_ACK);
    HEAR(t, CENTRAL, LONG_ACCEPTED, long_accepted, .job = J(1), .epoch = 2);
    assert_int_equal(job_view_of(t, 1).class, CLASS_LONG);
    assert_int_equal(job_view_of(t, 1).why, WHY_PROMOTED);
    assert_int_equal(job_view_of(t, 1).epoch, 2);
    assert_int_equal(dist_counters(&t->d)[COUNTER_jobs_promoted], 1);
    for (uint32_t i = 1; i < 4; i++)
        long_task(t, try_of(1, i, 2, 1), TASK_DONE, 102);
    /* What runs here stays ours, under the old epoch. */
    finished(t, 101, try_of(1, 0, 1, 1), 0, 30);
    says(t, "101 FINISH_ACK id=3.1/0@1.1");
    says(t, "central JOB_REPORT name=\"n\" mean_us=60 task_us=240 tasks=4 class=1"); /* as a whole */
    says(t, "- JOB_EVENT job=3.1 done=4 failed=0 state=3");
    talk_end(t);
}

/* A slow task says something about itself: until what all of them show reaches the cutoff, the others stay short. */
static void test_one_slow_task_does_not_make_the_job_long(void **state)
{
    struct talk *t = talk_joined("hawk", 1);

    submit(t, desc_new(5, "n"));
    ignore(t);
    for (uint32_t i = 0; i < 2; i++) {
        request(t, 101, 1, 1 + i);
        ignore(t);
        started(t, 101, try_of(1, i, 1, 1));
        ignore(t);
    }
    finished(t, 101, try_of(1, 0, 1, 1), 0, US_PER_S);
    ignore(t);
    /* (1 + 12) / 2 < 10 */
    overruns(t, try_of(1, 1, 1, 1), 12 * US_PER_S);
    silent(t);
    assert_int_equal(job_view_of(t, 1).class, CLASS_SHORT);
    request(t, 101, 1, 3);
    says(t, "101 TASK_LAUNCH id=3.1/2@1.1");
    ignore(t);
    started(t, 101, try_of(1, 2, 1, 1));
    ignore(t);
    /* (1 + 30 + 18) / 3 >= 10: the next request finds a long job. */
    t->now += 18 * US_PER_S;
    request(t, 101, 1, 4);
    says(t, "101 PROBE_CANCEL job=3.1");
    says(t, "101 NO_TASK job=3.1 request=4");
    says(t, "central LONG_SUBMIT job=3.1 desc=\"n\"x5 tasks=2of estimate_us=16333333 epoch=2 why=4");
    talk_end(t);
}

static void paused(struct talk *t, uint32_t from, struct try_id id, uint32_t stood_ms, uint32_t paused_ms)
{
    HEAR(t, from, TASK_PAUSED, task_paused, .id = id, .stood_ms = stood_ms, .paused_ms = paused_ms,
         .times = 2, .for_job = J(9), .for_task = 3);
}

/* It may have outlived the cutoff by itself, and stand still for a short task: that is no age. */
static void test_what_stands_still_does_not_age(void **state)
{
    struct talk *t = talk_joined("hawk", 1);
    struct task_view v;

    submit(t, desc_new(4, "n"));
    ignore(t);
    for (uint32_t i = 0; i < 2; i++) {
        request(t, 101, 1, 1 + i);
        ignore(t);
        started(t, 101, try_of(1, i, 1, 1));
        ignore(t);
    }
    finished(t, 101, try_of(1, 0, 1, 1), 0, US_PER_S);
    ignore(t);
    t->now += 18 * US_PER_S;
    paused(t, 102, try_of(1, 1, 1, 1), 4000, 6000); /* another worker's word is none */
    assert_int_equal(job_view_of(t, 1).pauses, 0);
    paused(t, 101, try_of(1, 1, 1, 1), 4000, 6000);
    dist_task_view(&t->d, dist_find(&t->d, J(1)), 1, t->now + 1000, &v);
    assert_int_equal(v.state, TASK_RUNNING);
    assert_int_equal(v.stood_us, 4 * US_PER_S + 1000);
    assert_int_equal(v.paused_us, 6 * US_PER_S + 1000);
    assert_int_equal(v.pauses, 2);
    assert_true(job_eq(v.paused_for, J(9)));
    assert_int_equal(v.paused_for_task, 3);
    /* (1 + 18 - 6) / 2 < 10, and it stands still on. */
    overruns(t, try_of(1, 1, 1, 1), 60 * US_PER_S);
    silent(t);
    paused(t, 101, try_of(1, 1, 1, 1), 0, 66000);
    assert_int_equal(job_view_of(t, 1).paused, 0);
    /* (1 + 85 - 66) / 2 >= 10 */
    overruns(t, try_of(1, 1, 1, 1), 7 * US_PER_S);
    says(t, "101 PROBE_CANCEL job=3.1");
    ignore(t);
    talk_end(t);
}

/* Central says so of its own tasks, and nobody else does. */
static void test_central_tells_of_pauses(void **state)
{
    struct talk *t = talk_accepted(2);

    paused(t, CENTRAL, try_of(1, 0, 1, 1), 1000, 1000); /* it does not run */
    long_task(t, try_of(1, 0, 1, 1), TASK_RUNNING, 101);
    ignore(t);
    paused(t, CENTRAL, try_of(1, 0, 1, 2), 1000, 1000); /* another try */
    paused(t, CENTRAL, try_of(1, 1, 1, 1), 1000, 1000);
    paused(t, 101, try_of(1, 0, 1, 1), 1000, 1000);
    assert_int_equal(job_view_of(t, 1).pauses, 0);
    paused(t, CENTRAL, try_of(1, 0, 1, 1), 1000, 1000);
    assert_int_equal(job_view_of(t, 1).paused, 1);
    assert_int_equal(job_view_of(t, 1).running, 1);
    t->now += US_PER_S;
    long_task(t, try_of(1, 0, 1, 1), TASK_DONE, 101);
    assert_int_equal(job_view_of(t, 1).paused, 0);
    assert_int_equal(job_view_of(t, 1).paused_us, 2 * US_PER_S);
    long_task(t, try_of(1, 1, 1, 1), TASK_DONE, 101);
    ignore(t);
    talk_end(t);
}

static void test_promotion_refused_goes_on_as_short(void **state)
{
    struct talk *t = overrun(0);

    ignore(t);
    HEAR(t, CENTRAL, LONG_REFUSED, long_refused, .job = J(1), .epoch = 2, .err = HAWK_ELIMIT);
    says(t, "101 PROBE job=3.1 estimate_us=0 count=6 class=0");
    assert_int_equal(job_view_of(t, 1).class, CLASS_SHORT);
    request(t, 101, 1, 2);
    says(t, "101 TASK_LAUNCH id=3.1/1@1.1");
    started(t, 101, try_of(1, 1, 1, 1));
    ignore(t);
    overruns(t, try_of(1, 1, 1, 1), 20 * US_PER_S); /* it is not handed over twice */
    silent(t);
    talk_end(t);
}

static void test_promotion_survives_the_loss_of_central(void **state)
{
    struct talk *t = overrun(0);

    ignore(t);
    HEAR(t, CENTRAL, PEER_LOST, peer_lost, 0);
    assert_int_equal(block_of(t, 1), DIST_BLOCK_CENTRAL_AWAY);
    central_joins(t);
    says(t, "central LONG_SUBMIT job=3.1 desc=\"n\"x4 tasks=3of estimate_us=10000000 epoch=2 why=4");
    talk_end(t);
}

static void test_promoted_jobs_retries_stay_here(void **state)
{
    struct talk *t = overrun(3);

    ignore(t);
    HEAR(t, CENTRAL, LONG_ACCEPTED, long_accepted, .job = J(1), .epoch = 2);
    worker_up(t, 102, 1, true);
    HEAR(t, 101, PEER_LOST, peer_lost, 0);
    says(t, "102 PROBE job=3.1 estimate_us=0 count=2 class=0");
    request(t, 102, 1, 1);
    says(t, "102 TASK_LAUNCH id=3.1/0@1.2");
    says(t, "102 PROBE_CANCEL job=3.1");
    talk_end(t);
}

static void test_promotion_needs_central_and_something_to_give(void **state)
{
    struct talk *t = talk_joined("hawk", 1);

    submit(t, desc_new(1, ""));
    ignore(t);
    request(t, 101, 1, 1);
    ignore(t);
    overruns(t, try_of(1, 0, 1, 1), 10 * US_PER_S);
    assert_int_equal(job_view_of(t, 1).class, CLASS_LONG); /* it only counts */
    assert_int_equal(dist_counters(&t->d)[COUNTER_jobs_promoted], 1);
    submit(t, desc_new(2, ""));
    ignore(t);
    request(t, 101, 2, 2);
    ignore(t);
    HEAR(t, CENTRAL, PEER_LOST, peer_lost, 0);
    overruns(t, try_of(2, 0, 1, 1), 10 * US_PER_S);
    assert_int_equal(job_view_of(t, 2).class, CLASS_SHORT);
    request(t, 101, 2, 3);
    says(t, "101 TASK_LAUNCH id=3.2/1@1.1");
    ignore(t);
    talk_end(t);
}

static void test_cancel_of_a_promoted_job(void **state)
{
    struct talk *t = overrun(0);

    ignore(t);
    HEAR(t, 0, CANCEL, cancel, .job = J(1), .client = 4);
    says(t, "- CANCELLED");
    says(t, "101 TASK_CANCEL id=3.1/0@1.1");
    says(t, "central LONG_CANCEL job=3.1 epoch=2");
    says(t, "central LONG_WATCH job=3.1 epoch=2");
    HEAR(t, 101, TASK_FINISHED, task_finished, .id = try_of(1, 0, 1, 1), .outcome = OUTCOME_CANCELLED);
    says(t, "101 FINISH_ACK");
    long_task(t, try_of(1, 1, 2, 0), TASK_CANCELLED, 0);
    long_task(t, try_of(1, 2, 2, 0), TASK_CANCELLED, 0);
    assert_int_equal(block_of(t, 1), DIST_BLOCK_CANCELLING);
    long_task(t, try_of(1, 3, 2, 0), TASK_CANCELLED, 0);
    says(t, "- JOB_EVENT job=3.1 done=0 failed=0 state=5");
    talk_end(t);
}

/* A job that may run on reserved workers only does not wait for one when there are to be none any more. */
static void test_a_job_outlives_the_partition_it_was_for(void **state)
{
    struct talk *t = talk_joined("split", 2);
    struct policy p = t->cfg.policy;

    submit(t, desc_new(1, ""));
    says(t, "- SUBMITTED");
    assert_int_equal(block_of(t, 1), DIST_BLOCK_NO_RESERVED);
    assert_int_equal(policy_preset("sparrow", &p), 0);
    HEAR(t, CENTRAL, POLICY, policy, .policy = p);
    says(t, "101 PROBE job=3.1 estimate_us=0 count=1");
    says(t, "102 PROBE job=3.1 estimate_us=0 count=1");
    /* And back: what is lost is made good among reserved ones. */
    assert_int_equal(policy_preset("split", &p), 0);
    HEAR(t, CENTRAL, POLICY, policy, .policy = p);
    silent(t);
    HEAR(t, 101, PEER_LOST, peer_lost, .role = ROLE_WORKER);
    ignore(t);
    HEAR(t, 102, PEER_LOST, peer_lost, .role = ROLE_WORKER);
    ignore(t);
    worker_up(t, 103, 1, false);
    says(t, "103 PROBE job=3.1 estimate_us=0 count=2");
    talk_end(t);
}

/* The policy that a job began under decides who owns it and how it is probed for, whatever comes after. */
static void test_a_job_keeps_its_policy(void **state)
{
    struct talk *t = talk_joined("hawk", 2);
    struct policy p = t->cfg.policy;
    struct job_desc *desc = desc_new(1, "");

    submit(t, desc_new(3, "")); /* short, and it may be promoted */
    ignore(t);
    assert_int_equal(policy_preset("sparrow", &p), 0);
    p.flags &= ~(uint32_t)POLICY_CANCEL_PROBES;
    HEAR(t, CENTRAL, POLICY, policy, .policy = p);
    request(t, 101, 1, 1);
    says(t, "101 TASK_LAUNCH id=3.1/0@1.1 desc=\"\"x3 arg=- request=1 promotable=1");
    overruns(t, try_of(1, 0, 1, 1), 20 * US_PER_S);
    says(t, "101 PROBE_CANCEL job=3.1");
    says(t, "102 PROBE_CANCEL job=3.1");
    says(t, "central LONG_SUBMIT job=3.1");
    /* One that comes now is the dist's, though it is long. */
    desc->tag = TAG_LONG;
    submit(t, desc);
    says(t, "- SUBMITTED job=3.2 client=9 err=0 class=1");
    says(t, "101 PROBE job=3.2 estimate_us=0 count=1 class=1");
    says(t, "102 PROBE job=3.2 estimate_us=0 count=1 class=1");
    assert_int_equal(policy_preset("hawk", &p), 0);
    HEAR(t, CENTRAL, POLICY, policy, .policy = p);
    request(t, 101, 2, 2);
    says(t, "101 TASK_LAUNCH id=3.2/0@1.1 desc=\"\"x1 arg=- request=2 promotable=0");
    silent(t); /* nothing is cancelled: it was not to be */
    talk_end(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_job_outlives_the_partition_it_was_for),
        cmocka_unit_test(test_a_job_keeps_its_policy),
        cmocka_unit_test(test_from_submission_to_end),
        cmocka_unit_test(test_at_most_once_is_not_offered_again),
        cmocka_unit_test(test_at_most_once_is_offered_again_when_refused),
        cmocka_unit_test(test_at_most_once_is_on_record_as_centrals_only_while_offered),
        cmocka_unit_test(test_a_dist_that_leaves_offers_nothing_at_most_once),
        cmocka_unit_test(test_waits_while_central_is_away),
        cmocka_unit_test(test_detached_is_told_when_both_have_it),
        cmocka_unit_test(test_central_gets_nothing_that_is_not_on_record),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_refused_and_not_taken),
        cmocka_unit_test(test_resynchronises_with_central),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_cancelled_while_central_journals),
        cmocka_unit_test(test_promotion_hands_the_rest_to_central),
        cmocka_unit_test(test_one_slow_task_does_not_make_the_job_long),
        cmocka_unit_test(test_what_stands_still_does_not_age),
        cmocka_unit_test(test_central_tells_of_pauses),
        cmocka_unit_test(test_promotion_refused_goes_on_as_short),
        cmocka_unit_test(test_promotion_survives_the_loss_of_central),
        cmocka_unit_test(test_promoted_jobs_retries_stay_here),
        cmocka_unit_test(test_promotion_needs_central_and_something_to_give),
        cmocka_unit_test(test_cancel_of_a_promoted_job),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
