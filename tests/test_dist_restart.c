/* Conversations of a dist that comes back from its journal: docs/protocol.md 11. */
#include "tests/test_dist_restart.h"

static void test_goes_on_where_it_was(void **state)
{
    struct talk *t = talk_again();
    struct job_view v;

    journal_job(t, 7, desc_new(4, "job"), 1, 0, NULL);
    journal_task(t, 7, 1, TASK_DONE);
    HEAR(t, 0, RECOVERED, recovered, 0);
    v = job_view_of(t, 7); /* it can be looked at, waited for and cancelled at once */
    assert_int_equal(v.done, 1);
    assert_int_equal(v.waiting, 3);
    assert_int_equal(task_view_of(t, 7, 1).worker.v, 101); /* where its output is */
    assert_int_equal(task_view_of(t, 7, 1).run_us, 50);
    assert_int_equal(block_of(t, 7), DIST_BLOCK_SETTLING);
    central_joins(t);
    worker_up(t, 101, 1, true); /* nothing is launched yet: somebody may be running it */
    worker_up(t, 102, 1, true);
    held(t, 101, try_of(7, 0, 1, 2), TASK_RUNNING);
    held_end(t, 101);
    assert_int_equal(job_view_of(t, 7).state, JOB_RUNNING);
    wait_timer(t, 50000);
    held_end(t, 102);
    wait_timer(t, 50000); /* everybody has reported */
    says(t, "101 PROBE job=3.7 estimate_us=0 count=2 class=0");
    says(t, "102 PROBE job=3.7 estimate_us=0 count=2 class=0");
    request(t, 102, 7, 1);
    says(t, "102 TASK_LAUNCH id=3.7/2@3.1 desc=\"job\"x4"); /* of this life: epoch 3 */
    /* The old try that was adopted ends. */
    finished(t, 101, try_of(7, 0, 1, 2), 0, 2000);
    says(t, "- JOURNAL_TASK id=3.7/0@1.2 token=1 run_us=2000 worker=101 code=0 state=4 outcome=1");
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 1);
    says(t, "101 FINISH_ACK id=3.7/0@1.2");
    request(t, 101, 7, 1);
    says(t, "101 TASK_LAUNCH id=3.7/3@3.1");
    says(t, "101 PROBE_CANCEL job=3.7");
    says(t, "102 PROBE_CANCEL job=3.7");
    finished(t, 101, try_of(7, 3, 3, 1), 1, 10);
    says(t, "- JOURNAL_TASK id=3.7/3@1.1 token=2 run_us=10 worker=101 code=1 state=5");
    finished(t, 102, try_of(7, 2, 3, 1), 0, 10);
    says(t, "central JOB_REPORT name=\"job\" mean_us=686 task_us=2060 tasks=3");
    says(t, "- JOURNAL_TASK id=3.7/2@1.1 token=3");
    says(t, "- JOB_EVENT job=3.7 done=3 failed=1 state=4");
    says(t, "- JOURNAL_ENDED job=3.7 token=4");
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 4);
    says(t, "101 FINISH_ACK id=3.7/3@3.1");
    says(t, "102 FINISH_ACK id=3.7/2@3.1");
    assert_true(dist_quiet(&t->d));
    talk_end(t);
}

static void test_a_job_that_ran_again_is_known_by_its_key(void **state)
{
    struct talk *t = talk_again();
    struct job_desc *desc = desc_new(1, "job");

    desc->again_key = 4711;
    journal_job(t, 7, job_desc_ref(desc), 1, 0, NULL);
    HEAR(t, 0, SUBMIT, submit, .desc = desc, .key = 4711, .client = 10);
    says(t, "- SUBMITTED job=3.7 client=10 err=0");
    job_desc_drop(desc);
    talk_end(t);
}

/* A try that was adopted answered a request of an earlier life: none of this one's, whatever its number. */
static void test_a_late_request_launches_no_adopted_task(void **state)
{
    struct talk *t = talk_again();

    journal_job(t, 7, desc_new(2, "job"), 1, 0, NULL);
    HEAR(t, 0, RECOVERED, recovered, 0);
    central_joins(t);
    worker_up(t, 101, 1, true);
    held(t, 101, try_of(7, 0, 1, 1), TASK_RUNNING);
    held_end(t, 101);
    wait_timer(t, 50000);
    says(t, "101 PROBE job=3.7");
    request(t, 101, 7, 5);
    says(t, "101 TASK_LAUNCH id=3.7/1@3.1");
    ignore(t);
    request(t, 101, 7, 1); /* the number of the adopted try's epoch */
    says(t, "101 NO_TASK job=3.7 request=1");
    talk_end(t);
}

/* What a task used is on record with its end. A record of an earlier version, or a task that was cancelled, has none:
 * nothing shows where the task was in a list. */
static void test_what_tasks_used_is_known_again(void **state)
{
    struct talk *t = talk_again();

    journal_job(t, 7, desc_new(5, "job"), 1, 0, NULL);
    HEAR(t, 0, JOURNAL_TASK, journal_task, .id = try_of(7, 1, 1, 1), .state = TASK_DONE, .run_us = 50,
         .worker = {101}, .outcome = OUTCOME_EXITED, .used = usage_of(40, 2000));
    journal_task(t, 7, 0, TASK_DONE);
    HEAR(t, 0, RECOVERED, recovered, 0);
    assert_int_equal(figure_value(task_view_of(t, 7, 1).used.cpu_us), 40);
    assert_int_equal(figure_value(task_view_of(t, 7, 1).used.mem_peak_bytes), 2000);
    assert_int_equal(task_view_of(t, 7, 0).used.cpu_us.v, 0);
    assert_int_equal(task_view_of(t, 7, 2).used.cpu_us.v, 0);
    central_joins(t);
    worker_up(t, 101, 2, true);
    held(t, 101, try_of(7, 2, 1, 2), TASK_RUNNING);
    held(t, 101, try_of(7, 3, 1, 2), TASK_RUNNING);
    held_end(t, 101);
    ignore(t);
    HEAR(t, 101, TASK_FINISHED, task_finished, .id = try_of(7, 2, 1, 2), .outcome = OUTCOME_SIGNALED,
         .code = 9, .run_us = 30, .used = usage_of(20, 1000));
    says(t, "- JOURNAL_TASK id=3.7/2@1.2 token=1 run_us=30 worker=101 code=9 state=5 outcome=2 failures=0");
    assert_int_equal(figure_value(task_view_of(t, 7, 2).used.cpu_us), 20);
    HEAR(t, 0, CANCEL, cancel, .job = J(7), .client = 9);
    ignore(t);
    HEAR(t, 101, TASK_FINISHED, task_finished, .id = try_of(7, 3, 1, 2), .outcome = OUTCOME_CANCELLED,
         .run_us = 30, .used = usage_of(25, 1000));
    ignore(t);
    assert_int_equal(task_view_of(t, 7, 3).state, TASK_CANCELLED);
    assert_int_equal(figure_value(task_view_of(t, 7, 3).used.cpu_us), 25);
    assert_int_equal(task_view_of(t, 7, 4).state, TASK_CANCELLED);
    assert_int_equal(task_view_of(t, 7, 4).used.cpu_us.v, 0);
    assert_int_equal(task_view_of(t, 7, 4).used.mem_peak_bytes.v, 0);
    talk_end(t);
}

static void test_what_ended_meanwhile_counts_once(void **state)
{
    struct talk *t = talk_again();

    journal_job(t, 7, desc_new(2, ""), 1, 0, NULL);
    journal_task(t, 7, 0, TASK_DONE);
    HEAR(t, 0, RECOVERED, recovered, 0);
    central_joins(t);
    worker_up(t, 101, 2, true);
    held(t, 101, try_of(7, 0, 1, 1),
         TASK_DONE); /* the earlier life journalled it, and did not come to say so */
    says(t, "101 TASK_CANCEL id=3.7/0@1.1");
    finished(t, 101, try_of(7, 0, 1, 1), 0, 50);
    says(t, "101 FINISH_ACK id=3.7/0@1.1");
    held(t, 101, try_of(7, 1, 1, 1), TASK_DONE);
    finished(t, 101, try_of(7, 1, 1, 1), 0, 50);
    says(t, "central JOB_REPORT");
    says(t, "- JOURNAL_TASK id=3.7/1@1.1 token=1");
    says(t, "- JOB_EVENT job=3.7 done=2 failed=0 state=3");
    says(t, "- JOURNAL_ENDED job=3.7 token=2");
    finished(t, 101, try_of(7, 1, 1, 1), 0,
             50); /* again, over a new stream say: still not before it is durable */
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 2);
    says(t, "101 FINISH_ACK id=3.7/1@1.1");
    says(t, "101 FINISH_ACK id=3.7/1@1.1");
    talk_end(t);
}

static void test_only_one_try_is_adopted(void **state)
{
    struct talk *t = talk_again();
    struct job_desc *desc = desc_new(1, "");

    desc->lost_retries = 3;
    t->cfg.life = 4; /* two lives that launched nothing lie between */
    dist_free(&t->d);
    talk_begin(t);
    journal_job(t, 7, desc, 1, 0, NULL);
    HEAR(t, 0, RECOVERED, recovered, 0);
    central_joins(t);
    worker_up(t, 101, 1, true);
    worker_up(t, 102, 1, true);
    held(t, 101, try_of(7, 0, 7, 1), TASK_RUNNING); /* of this life: never given out */
    says(t, "101 TASK_CANCEL id=3.7/0@7.1");
    held(t, 101, try_of(7, 0, 2, 1), TASK_RUNNING); /* of none */
    says(t, "101 TASK_CANCEL id=3.7/0@2.1");
    held(t, 101, try_of(7, 0, 9, 1), TASK_RUNNING);
    says(t, "101 TASK_CANCEL id=3.7/0@9.1");
    held(t, 101, try_of(7, 0, 1, 1), TASK_RUNNING);
    held(t, 102, try_of(7, 0, 5, 1), TASK_RUNNING);
    says(t, "102 TASK_CANCEL id=3.7/0@5.1");
    HEAR(t, 102, TASK_FINISHED, task_finished, .id = try_of(7, 0, 5, 1), .outcome = OUTCOME_CANCELLED);
    says(t, "102 FINISH_ACK");
    /* Its worker is lost, and comes back with it. */
    HEAR(t, 101, PEER_LOST, peer_lost, 0);
    assert_int_equal(job_view_of(t, 7).waiting, 1);
    HEAR(t, 101, PEER_UP, peer_up, .role = ROLE_WORKER);
    held(t, 101, try_of(7, 0, 1, 1), TASK_RUNNING);
    assert_int_equal(job_view_of(t, 7).running, 1);
    /* Or not: then it is tried anew, and what comes late of the old one counts if it is the first. */
    HEAR(t, 101, PEER_LOST, peer_lost, 0);
    wait_timer(t, 50000);
    held_end(t, 102);
    wait_timer(t, 3 * US_PER_S); /* 101 is listed as up: it had time until then */
    ignore(t);
    while (job_view_of(t, 7).probes_live == 0) {
        wait_timer(t, 3 * US_PER_S);
        ignore(t);
    }
    request(t, 102, 7, 1);
    says(t, "102 TASK_LAUNCH id=3.7/0@7.2");
    ignore(t);
    HEAR(t, 101, PEER_UP, peer_up, .role = ROLE_WORKER);
    finished(t, 101, try_of(7, 0, 1, 1), 0, 50);
    says(t, "102 TASK_CANCEL id=3.7/0@7.2");
    ignore(t);
    assert_int_equal(job_view_of(t, 7).state, JOB_DONE);
    talk_end(t);
}

static void test_a_cancelled_job_stays_cancelled(void **state)
{
    struct talk *t = talk_joined("hawk", 1);
    struct job_desc *desc = desc_new(2, "");

    desc->flags = JOB_DETACHED;
    submit_durable(t, desc);
    request(t, 101, 1, 1);
    ignore(t);
    HEAR(t, 0, CANCEL, cancel, .job = J(1), .client = 4);
    says(t, "101 TASK_CANCEL id=3.1/0@1.1");
    says(t, "101 PROBE_CANCEL job=3.1");
    says(t, "- JOURNAL_CANCEL job=3.1 token=2 epoch=1");
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 2);
    says(t, "- CANCELLED job=3.1 client=4 err=0"); /* from here on it stays so */
    HEAR(t, 0, CANCEL, cancel, .job = J(1), .client = 5);
    says(t, "- CANCELLED job=3.1 client=5 err=0");
    talk_end(t);
    t = talk_again();
    journal_job(t, 1, desc_new(2, ""), 1, 0, NULL);
    HEAR(t, 0, JOURNAL_CANCEL, journal_cancel, .job = J(1), .epoch = 1);
    HEAR(t, 0, RECOVERED, recovered, 0);
    says(t, "- JOB_EVENT job=3.1 done=0 failed=0 state=5");
    says(t, "- JOURNAL_ENDED job=3.1 token=1 cutoff_us=10000000 response_us=0 ago_us=0 left_out=2 epoch=1 "
            "state=5");
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 1);
    central_joins(t);
    worker_up(t, 101, 1, true);
    held(t, 101, try_of(1, 0, 1, 1), TASK_RUNNING);
    says(t, "101 TASK_CANCEL id=3.1/0@1.1");
    talk_end(t);
}

static void test_a_cancellation_that_cannot_be_written_is_told(void **state)
{
    struct talk *t = talk_joined("hawk", 1);
    struct job_desc *desc = desc_new(2, "");

    desc->flags = JOB_DETACHED;
    submit_durable(t, desc);
    request(t, 101, 1, 1);
    ignore(t);
    HEAR(t, 0, CANCEL, cancel, .job = J(1), .client = 4);
    ignore(t);
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 2, .err = HAWK_EIO);
    says(t, "- CANCELLED job=3.1 client=4 err=-19");
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 2); /* it was kept, and is written by now */
    talk_end(t);
}

/* The journal's queue was full: what it did not take it is given again, and nobody is told before. */
static void test_what_was_not_taken_is_written_again(void **state)
{
    struct talk *t = talk_joined("hawk", 1);
    struct job_desc *desc = desc_new(3, "");

    desc->flags = JOB_DETACHED;
    submit_durable(t, desc);
    request(t, 101, 1, 1);
    ignore(t);
    request(t, 101, 1, 2);
    ignore(t);
    finished(t, 101, try_of(1, 0, 1, 1), 0, 50);
    says(t, "- JOURNAL_TASK id=3.1/0@1.1 token=2");
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 2, .err = HAWK_ELIMIT);
    finished(t, 101, try_of(1, 1, 1, 1), 0, 50); /* behind it */
    wait_timer(t, US_PER_S);
    says(t, "- JOURNAL_TASK id=3.1/0@1.1 token=3");
    says(t, "- JOURNAL_TASK id=3.1/1@1.1 token=4");
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 3, .err = HAWK_ELIMIT); /* it still is */
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 4, .err = HAWK_ELIMIT);
    wait_timer(t, US_PER_S);
    says(t, "- JOURNAL_TASK id=3.1/0@1.1 token=5");
    says(t, "- JOURNAL_TASK id=3.1/1@1.1 token=6");
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 5);
    says(t, "101 FINISH_ACK id=3.1/0@1.1");
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 6);
    says(t, "101 FINISH_ACK id=3.1/1@1.1");
    talk_end(t);
}

/* ---- Jobs that had ended ---- */

static void journal_ended(struct talk *t, uint64_t seq, enum job_state state, int64_t ago_us,
                          uint32_t left_out)
{
    HEAR(t, 0, JOURNAL_ENDED, journal_ended, .job = J(seq), .epoch = 1, .state = state,
         .cutoff_us = 7 * US_PER_S, .response_us = 3 * US_PER_S, .ago_us = ago_us, .left_out = left_out);
}

/* Its machine was started after it was submitted. */
static void test_a_job_keeps_its_age(void **state)
{
    struct talk *t = talk_again();

    t->now = 5 * US_PER_S;
    journal_job(t, 7, desc_new(2, "job"), 1, 0, NULL);
    HEAR(t, 0, JOURNAL_AGE, journal_age, .job = J(7), .ago_us = 60 * US_PER_S);
    HEAR(t, 0, RECOVERED, recovered, 0);
    HEAR(t, 0, JOURNAL_AGE, journal_age, .job = J(7), .ago_us = -1); /* nothing it would believe */
    assert_int_equal(job_view_of(t, 7).age_us, 60 * US_PER_S);
    central_joins(t);
    worker_up(t, 101, 1, true);
    HEAR(t, 101, TASK_HELD, task_held, .id = try_of(7, 0, 1, 1), .state = TASK_RUNNING,
         .run_us = 50 * US_PER_S);
    HEAR(t, 101, TASK_HELD, task_held, .id = try_of(7, 1, 1, 1), .state = TASK_RUNNING,
         .run_us = 20 * US_PER_S);
    held_end(t, 101);
    assert_int_equal(job_view_of(t, 7).first_start_us, 10 * US_PER_S);
    assert_int_equal(task_view_of(t, 7, 1).wait_us, 40 * US_PER_S);
    finished(t, 101, try_of(7, 0, 1, 1), 0, 50 * US_PER_S);
    ignore(t);
    finished(t, 101, try_of(7, 1, 1, 1), 0, 20 * US_PER_S);
    says(t, "- JOURNAL_TASK id=3.7/1@1.1 token=2");
    says(t, "- JOB_EVENT job=3.7 done=2");
    says(t, "- JOURNAL_ENDED job=3.7 token=3 cutoff_us=10000000 response_us=60000000");
    assert_int_equal(job_view_of(t, 7).response_us, 60 * US_PER_S);
    ignore(t);
    talk_end(t);
}

static void test_what_had_ended_is_known(void **state)
{
    struct talk *t = talk_again();
    struct task_view task;
    struct job_view v;

    t->now = 5 * US_PER_S; /* the machine was started after it ended */
    journal_job(t, 7, desc_new(3, "job"), 1, 0, NULL);
    journal_task(t, 7, 0, TASK_DONE);
    journal_task(t, 7, 1, TASK_FAILED);
    HEAR(t, 0, JOURNAL_CANCEL, journal_cancel, .job = J(7), .epoch = 1);
    journal_ended(t, 7, JOB_CANCELLED, 60 * US_PER_S, 1); /* task 2 was never launched */
    HEAR(t, 0, RECOVERED, recovered, 0);
    v = job_view_of(t, 7);
    assert_int_equal(v.state, JOB_CANCELLED);
    assert_int_equal(v.done * 100 + v.failed * 10 + v.cancelled, 111);
    assert_int_equal(v.age_us, 63 * US_PER_S);
    assert_int_equal(v.response_us, 3 * US_PER_S);
    assert_int_equal(v.cutoff_us, 7 * US_PER_S);
    task = task_view_of(t, 7, 1);
    assert_int_equal(task.code, 1);
    assert_int_equal(task.worker.v, 101); /* where its output is */
    assert_int_equal(task_view_of(t, 7, 2).outcome, OUTCOME_CANCELLED);
    assert_int_equal(t->d.jobs_unfinished, 0);
    /* Nothing of it happens again. */
    central_joins(t);
    worker_up(t, 101, 1, true);
    held(t, 101, try_of(7, 0, 1, 1), TASK_DONE);
    says(t, "101 TASK_CANCEL id=3.7/0@1.1");
    finished(t, 101, try_of(7, 0, 1, 1), 0, 50);
    says(t, "101 FINISH_ACK id=3.7/0@1.1");
    HEAR(t, 0, CANCEL, cancel, .job = J(7), .client = 4);
    says(t, "- CANCELLED job=3.7 client=4 err=0");
    assert_true(dist_quiet(&t->d));
    talk_end(t);
}

static void test_what_central_had_has_ended_as_well(void **state)
{
    struct talk *t = talk_again();
    struct task_set *set = task_set_new(1);
    struct job_desc *whole = desc_new(1, "");

    whole->tag = TAG_LONG;
    set->v[0] = 1;
    journal_job(t, 1, whole, 1, 1, NULL);
    journal_task(t, 1, 0, TASK_DONE);
    journal_ended(t, 1, JOB_DONE, 0, 0);
    journal_job(t, 2, desc_new(2, ""), 1, 2, set);
    task_set_drop(set);
    journal_task(t, 2, 0, TASK_DONE);
    journal_task(t, 2, 1, TASK_DONE);
    HEAR(t, 0, JOURNAL_ENDED, journal_ended, .job = J(2), .epoch = 1, .state = JOB_DONE, .promoted = 1);
    HEAR(t, 0, RECOVERED, recovered, 0);
    assert_int_equal(job_view_of(t, 1).owner.v, CENTRAL);
    assert_int_equal(job_view_of(t, 2).why, WHY_PROMOTED);
    assert_int_equal(job_view_of(t, 2).class, CLASS_LONG);
    central_joins(t); /* which is asked nothing */
    talk_end(t);
}

/* Its JOURNAL_TASK was not taken, and the dist died before it could be written again. */
static void test_an_end_that_was_not_written_is_heard_again(void **state)
{
    struct talk *t = talk_again();

    journal_job(t, 7, desc_new(2, ""), 1, 0, NULL);
    journal_task(t, 7, 0, TASK_DONE);
    journal_ended(t, 7, JOB_DONE, 0, 0);
    says(t, "- JOURNAL_JOB job=3.7 token=1 desc=- tasks=all"); /* which takes that back */
    HEAR(t, 0, RECOVERED, recovered, 0);
    assert_int_equal(job_view_of(t, 7).waiting, 1);
    central_joins(t);
    worker_up(t, 101, 1, true);
    held(t, 101, try_of(7, 1, 1, 1), TASK_DONE);
    finished(t, 101, try_of(7, 1, 1, 1), 0, 50);
    ignore(t);
    assert_int_equal(job_view_of(t, 7).state, JOB_DONE);
    talk_end(t);
}

/* As many as a dist keeps that was not restarted: those that ended last. The others' rows go. */
static void test_the_oldest_that_ended_are_forgotten(void **state)
{
    static const int64_t ago_s[] = {10, 50, 20, 40, 30};
    struct talk *t = talk_again();
    uint32_t forgotten = 0;

    t->cfg.finished_kept = 3;
    dist_free(&t->d);
    talk_begin(t);
    for (uint64_t seq = 1; seq <= 5; seq++) {
        journal_job(t, seq, desc_new(1, ""), 1, 0, NULL);
        journal_task(t, seq, 0, TASK_DONE);
        journal_ended(t, seq, JOB_DONE, ago_s[seq - 1] * US_PER_S, 0);
        for (uint32_t i = 0; i < t->out.n; i++)
            forgotten += t->out.v[i].type == MSG_JOURNAL_JOB_END;
        ignore(t);
    }
    HEAR(t, 0, RECOVERED, recovered, 0);
    assert_int_equal(forgotten, 2);
    assert_null(dist_find(&t->d, J(2)));
    assert_null(dist_find(&t->d, J(4)));
    assert_int_equal(dist_newest(&t->d)->id.v, J(5).v); /* listed as they were accepted */
    journal_job(t, 6, desc_new(1, ""), 1, 0, NULL);
    journal_task(t, 6, 0, TASK_DONE);
    HEAR(t, 0, RECOVERED, recovered, 0);
    says(t, "- JOB_EVENT job=3.6");
    says(t, "- JOURNAL_ENDED job=3.6");
    says(t, "- JOURNAL_JOB_END job=3.5");
    talk_end(t);
}

/* ---- Long ones ---- */

static struct job_desc *long_desc(uint32_t tasks)
{
    struct job_desc *desc = desc_new(tasks, "big");

    desc->tag = TAG_LONG;
    return desc;
}

static void test_central_is_asked_for_long_ones(void **state)
{
    struct talk *t = talk_again();

    journal_job(t, 1, long_desc(2), 1, 1, NULL);
    journal_job(t, 2, long_desc(2), 1, 1, NULL);
    journal_task(t, 2, 0, TASK_DONE);
    HEAR(t, 0, RECOVERED, recovered, 0);
    assert_int_equal(job_view_of(t, 1).state, JOB_PENDING);
    central_joins(t);
    says(t, "central LONG_WATCH job=3.1 epoch=1"); /* the epoch it was handed over under */
    says(t, "central LONG_WATCH job=3.2 epoch=1");
    HEAR(t, CENTRAL, LONG_TASK, long_task, .id = try_of(1, 0, 1, 1), .state = TASK_RUNNING, .worker = {101});
    assert_int_equal(job_view_of(t, 1).state, JOB_RUNNING);
    HEAR(t, CENTRAL, LONG_WATCHED, long_watched, .job = J(1), .epoch = 1);
    HEAR(t, CENTRAL, LONG_WATCHED, long_watched, .job = J(2), .epoch = 1, .err = HAWK_ENOT_FOUND);
    says(t, "- JOURNAL_JOB job=3.2 token=1 desc=- tasks=1of");
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 1);
    says(t, "central LONG_SUBMIT job=3.2 desc=\"big\"x2 tasks=1of estimate_us=10000000 epoch=1");
    ignore(t);
    talk_end(t);
}

/* Upgraded from schema 2, which kept no class: what was tagged long was central's. From schema 3, which did:
 * handed says it, and the dist may run long ones itself. Both have no life. */
static void test_an_older_journal_gives_central_what_it_had(void **state)
{
    struct talk *t = talk_again();
    struct job_desc *old = long_desc(1), *own = long_desc(1);

    old->flags |= JOB_DETACHED;
    own->flags |= JOB_DETACHED;
    HEAR(t, 0, JOURNAL_JOB, journal_job, .job = J(1), .desc = old, .epoch = 1, .why = WHY_TAG);
    HEAR(t, 0, JOURNAL_JOB, journal_job, .job = J(2), .desc = own, .epoch = 1, .class = CLASS_LONG,
         .why = WHY_TAG);
    job_desc_drop(old);
    job_desc_drop(own);
    HEAR(t, 0, RECOVERED, recovered, 0);
    assert_int_equal(job_view_of(t, 1).state, JOB_PENDING);
    central_joins(t);
    says(t, "central LONG_WATCH job=3.1 epoch=1");
    worker_up(t, 101, 1, true);
    held(t, 101, try_of(2, 0, 1, 1), TASK_RUNNING);
    assert_int_equal(job_view_of(t, 2).state, JOB_RUNNING);
    held_end(t, 101);
    ignore(t);
    talk_end(t);
}

/* One at most once that was never offered is in no doubt. Of one under a policy without central some may have run. */
static void test_at_most_once_that_was_not_offered_is_offered(void **state)
{
    struct talk *t = talk_again();
    struct job_desc *whole = long_desc(2), *begun = long_desc(2);

    whole->flags = begun->flags = JOB_AT_MOST_ONCE;
    journal_job(t, 1, whole, 1, 0, NULL);
    journal_job(t, 2, begun, 1, 0, NULL);
    journal_launch(t, 2, 0, 101);
    recover_with_nothing_held(t);
    says(t, "- JOURNAL_JOB job=3.1 token=1 desc=- tasks=all estimate_us=0 epoch=1 life=1 handed=1");
    says(t, "- JOURNAL_TASK id=3.2/0@1.0 token=2 run_us=0 worker=101 code=0 state=7");
    says(t, "101 PROBE job=3.2 estimate_us=0 count=2 class=1");
    assert_int_equal(job_view_of(t, 1).state, JOB_PENDING);
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 2);
    says(t, "central LONG_SUBMIT job=3.1 desc=\"big\"x2 tasks=all estimate_us=10000000 epoch=1");
    talk_end(t);
}

static void test_a_promoted_part_is_centrals(void **state)
{
    struct talk *t = talk_again();
    struct task_set *set = task_set_new(2);

    set->v[0] = 1;
    set->v[1] = 3;
    journal_job(t, 1, desc_new(4, ""), 1, 2, set);
    task_set_drop(set);
    HEAR(t, 0, RECOVERED, recovered, 0);
    central_joins(t);
    says(t, "central LONG_WATCH job=3.1 epoch=2");
    worker_up(t, 101, 1, true);
    held(t, 101, try_of(1, 1, 1, 1), TASK_RUNNING); /* it was given up before that task was handed over */
    says(t, "101 TASK_CANCEL id=3.1/1@1.1");
    held(t, 101, try_of(1, 0, 1, 1), TASK_RUNNING);
    held_end(t, 101);
    wait_timer(t, 50000);
    says(t, "101 PROBE job=3.1 estimate_us=0 count=2"); /* task 2 */
    HEAR(t, CENTRAL, LONG_TASK, long_task, .id = try_of(1, 3, 2, 1), .state = TASK_DONE, .worker = {102},
         .outcome = OUTCOME_EXITED);
    says(t, "- JOURNAL_TASK id=3.1/3@1.1 token=1");
    assert_int_equal(job_view_of(t, 1).why, WHY_PROMOTED);
    talk_end(t);
}

static void test_promotion_is_written_before_central_is_asked(void **state)
{
    struct talk *t = talk_joined("hawk", 1);
    struct job_desc *desc = desc_new(2, "");

    desc->flags = JOB_DETACHED;
    submit_durable(t, desc);
    request(t, 101, 1, 1);
    ignore(t);
    started(t, 101, try_of(1, 0, 1, 1));
    t->now += 20 * US_PER_S;
    HEAR(t, 101, TASK_OVERRUN, task_overrun, .id = try_of(1, 0, 1, 1), .run_us = 20 * US_PER_S);
    says(t, "101 PROBE_CANCEL job=3.1");
    says(t, "- JOURNAL_JOB job=3.1 token=2 desc=- tasks=1of estimate_us=0 epoch=1 life=1 handed=2");
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 2);
    says(t, "central LONG_SUBMIT job=3.1 desc=\"\"x2 tasks=1of");
    talk_end(t);
}

static void test_limits_hold_for_what_was_read_back(void **state)
{
    struct talk *t = talk_again();

    t->cfg.jobs_unfinished_max = 1; /* lowered meanwhile */
    dist_free(&t->d);
    talk_begin(t);
    journal_job(t, 1, desc_new(1, ""), 1, 0, NULL);
    journal_job(t, 2, desc_new(1, ""), 1, 0, NULL); /* accepted is accepted */
    HEAR(t, 0, RECOVERED, recovered, 0);
    central_joins(t);
    submit(t, desc_new(1, ""));
    says(t, "- SUBMITTED job=- client=9 err=-4");
    assert_non_null(dist_find(&t->d, J(2)));
    /* Nothing is read back later. */
    journal_job(t, 3, desc_new(1, ""), 1, 0, NULL);
    assert_null(dist_find(&t->d, J(3)));
    talk_end(t);
}

/* The clock stood in 1970 when it was submitted. A journal with a longer time than that would be refused. */
static void test_a_clock_that_was_set_makes_no_row_that_cannot_be_read(void **state)
{
    struct talk *t = talk_again();

    journal_job(t, 7, desc_new(1, ""), 1, 0, NULL);
    HEAR(t, 0, JOURNAL_AGE, journal_age, .job = J(7), .ago_us = LIMIT_TIME_US);
    HEAR(t, 0, RECOVERED, recovered, 0);
    central_joins(t);
    worker_up(t, 101, 1, true);
    held(t, 101, try_of(7, 0, 1, 1), TASK_RUNNING);
    t->now += US_PER_S;
    finished(t, 101, try_of(7, 0, 1, 1), 0, 50);
    says(t, "central JOB_REPORT");
    says(t, "- JOURNAL_TASK");
    says(t, "- JOB_EVENT job=3.7 done=1 failed=0 state=3");
    says(t, "- JOURNAL_ENDED job=3.7 token=2 cutoff_us=10000000 response_us=864000000000000 ");
    talk_end(t);
}

/* Central has it and says so: it must hear that the client cancels it, or would run it for nobody. */
static void test_what_central_has_from_an_earlier_life_is_cancelled_there(void **state)
{
    struct talk *t = talk_again();

    journal_job(t, 1, long_desc(1), 1, 1, NULL);
    HEAR(t, 0, RECOVERED, recovered, 0);
    central_joins(t);
    says(t, "central LONG_WATCH job=3.1 epoch=1");
    HEAR(t, CENTRAL, LONG_TASK, long_task, .id = try_of(1, 0, 1, 1), .state = TASK_RUNNING, .worker = {101});
    HEAR(t, CENTRAL, LONG_WATCHED, long_watched, .job = J(1), .epoch = 1);
    HEAR(t, 0, CANCEL, cancel, .job = J(1), .client = 9);
    says(t, "central LONG_CANCEL job=3.1 epoch=1 owner=3");
    says(t, "central LONG_WATCH job=3.1 epoch=1 owner=3");
    assert_int_equal(job_view_of(t, 1).state, JOB_RUNNING); /* until central says what became of it */
    ignore(t);
    talk_end(t);
}

/* Two failures on record do not pay for tries that this life loses. */
static void test_failures_of_earlier_lives_pay_for_no_lost_try(void **state)
{
    struct talk *t = talk_again();
    struct job_desc *desc = desc_new(1, "");

    desc->failure_retries = 3;
    desc->lost_retries = 1;
    journal_job(t, 1, desc, 1, 0, NULL);
    HEAR(t, 0, JOURNAL_TASK, journal_task, .id = try_of(1, 0, 1, 2), .state = TASK_WAITING, .failures = 2,
         .outcome = OUTCOME_EXITED);
    HEAR(t, 0, RECOVERED, recovered, 0);
    ignore(t);
    central_joins(t);
    ignore(t);
    worker_up(t, 101, 1, true);
    ignore(t);
    held_end(t, 101);
    ignore(t);
    wait_timer(t, US_PER_S);
    ignore(t);
    for (uint16_t lost = 1; lost <= 2; lost++) {
        assert_int_equal(job_view_of(t, 1).waiting, 1);
        request(t, 101, 1, lost);
        ignore(t);
        assert_int_equal(job_view_of(t, 1).placed, 1);
        HEAR(t, 101, TASK_FINISHED, task_finished, .id = try_of(1, 0, 3, lost), .outcome = OUTCOME_LOST,
             .code = 9);
        ignore(t);
    }
    assert_int_equal(job_view_of(t, 1).lost, 1);
    talk_end(t);
}

static void test_the_longest_task_is_known_again(void **state)
{
    struct talk *t = talk_again();

    journal_job(t, 1, desc_new(2, ""), 1, 0, NULL);
    journal_task(t, 1, 0, TASK_DONE);
    recover_with_nothing_held(t);
    assert_int_equal(dist_find(&t->d, J(1))->longest_us, 50);
    ignore(t);
    talk_end(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_clock_that_was_set_makes_no_row_that_cannot_be_read),
        cmocka_unit_test(test_goes_on_where_it_was),
        cmocka_unit_test(test_a_job_that_ran_again_is_known_by_its_key),
        cmocka_unit_test(test_a_late_request_launches_no_adopted_task),
        cmocka_unit_test(test_what_tasks_used_is_known_again),
        cmocka_unit_test(test_what_ended_meanwhile_counts_once),
        cmocka_unit_test(test_only_one_try_is_adopted),
        cmocka_unit_test(test_a_cancelled_job_stays_cancelled),
        cmocka_unit_test(test_a_cancellation_that_cannot_be_written_is_told),
        cmocka_unit_test(test_what_was_not_taken_is_written_again),
        cmocka_unit_test(test_a_job_keeps_its_age),
        cmocka_unit_test(test_what_had_ended_is_known),
        cmocka_unit_test(test_what_central_had_has_ended_as_well),
        cmocka_unit_test(test_an_end_that_was_not_written_is_heard_again),
        cmocka_unit_test(test_the_oldest_that_ended_are_forgotten),
        cmocka_unit_test(test_central_is_asked_for_long_ones),
        cmocka_unit_test(test_an_older_journal_gives_central_what_it_had),
        cmocka_unit_test(test_at_most_once_that_was_not_offered_is_offered),
        cmocka_unit_test(test_what_central_has_from_an_earlier_life_is_cancelled_there),
        cmocka_unit_test(test_a_promoted_part_is_centrals),
        cmocka_unit_test(test_promotion_is_written_before_central_is_asked),
        cmocka_unit_test(test_limits_hold_for_what_was_read_back),
        cmocka_unit_test(test_the_longest_task_is_known_again),
        cmocka_unit_test(test_failures_of_earlier_lives_pay_for_no_lost_try),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
