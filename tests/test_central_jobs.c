/* Central and long jobs: accepted, run, ended, cancelled, watched, promoted (protocol 4, 7). */
#include "tests/test_central.h"

/* ---- The whole way (4.1 - 4.4) ---- */

static void a_long_job_from_submission_to_the_end(void **state)
{
    struct cluster c;
    struct job_desc *d;
    const struct msg *m;

    begin(&c, 1);
    d = desc_of("train", 1);
    d->flags |= JOB_EACH_ARG;
    task_args_add(&d->args, "x", 1);
    c.t.journal_by_hand = true;
    tell(&c.t, LONG_SUBMIT, long_submit, c.d, .job = JOB(c.d, 1), .desc = d, .estimate_us = 20 * S,
         .epoch = 1, .why = WHY_ESTIMATE);
    /* Durable before anybody hears of it. */
    m = expect_msg(&c.t, MSG_JOURNAL_JOB, 0);
    assert_ptr_equal(m->journal_job.desc, d);
    assert_int_equal(m->journal_job.estimate_us, 20 * S);
    assert_int_equal(m->journal_job.why, WHY_ESTIMATE);
    expect_nothing_else(&c.t);
    tell(&c.t, JOURNAL_DONE, journal_done, 0, .token = m->journal_job.token);
    assert_int_equal(expect(&c.t, LONG_ACCEPTED, long_accepted, c.d)->epoch, 1);
    m = expect_msg(&c.t, MSG_TASK_ENQUEUE, c.w[0]);
    assert_ptr_equal(m->task_enqueue.desc, d);
    assert_string_equal(m->task_enqueue.arg->data, "x");
    assert_int_equal(m->task_enqueue.id.attempt, 1);
    assert_int_equal(m->task_enqueue.estimate_us, 20 * S);
    assert_int_equal(expect_task(&c, 0, TASK_PLACED)->worker.v, c.w[0]);
    assert_int_equal(expect(&c.t, LONG_WORK, long_work, c.w[0])->any, 1);
    expect_nothing_else(&c.t);
    c.t.now_us += 2 * S;
    started(&c.t, c.w[0], try_of(c.d, 1, 0, 1));
    assert_int_equal(expect_task(&c, 0, TASK_RUNNING)->wait_us, 2 * S);
    expect_nothing_else(&c.t);
    /* So is its end. */
    c.t.now_us += 30 * S;
    tell(&c.t, TASK_FINISHED, task_finished, c.w[0], .id = try_of(c.d, 1, 0, 1), .outcome = OUTCOME_EXITED,
         .run_us = 30 * S, .used = usage_of(1500, 2000));
    m = expect_msg(&c.t, MSG_JOURNAL_TASK, 0);
    assert_int_equal(m->journal_task.state, TASK_DONE);
    assert_int_equal(figure_value(m->journal_task.used.cpu_us), 1500);
    assert_int_equal(figure_value(m->journal_task.used.mem_peak_bytes), 2000);
    expect_nothing_else(&c.t);
    tell(&c.t, JOURNAL_DONE, journal_done, 0, .token = m->journal_task.token);
    assert_int_equal(expect(&c.t, FINISH_ACK, finish_ack, c.w[0])->id.task, 0);
    m = expect_msg(&c.t, MSG_LONG_TASK, c.d);
    assert_int_equal(m->long_task.state, TASK_DONE);
    assert_int_equal(m->long_task.run_us, 30 * S);
    assert_int_equal(figure_value(m->long_task.used.cpu_us), 1500);
    assert_int_equal(figure_value(m->long_task.used.mem_peak_bytes), 2000);
    assert_int_equal(expect(&c.t, HISTORY, history, 0)->mean_us, 30 * S);
    assert_int_equal(expect(&c.t, ESTIMATE, estimate, c.d)->mean_us, 30 * S);
    expect_nothing_else(&c.t);
    pass(&c.t, 6 * S);
    m = expect_msg(&c.t, MSG_JOURNAL_JOB_END, 0);
    assert_int_equal(m->journal_job_end.state, JOB_DONE);
    assert_false(central_quiet(c.t.c));
    tell(&c.t, JOURNAL_DONE, journal_done, 0, .token = m->journal_job_end.token);
    expect_forgotten(&c);
    job_desc_drop(d);
    end(&c);
}

static void a_job_that_cannot_be_journalled_is_refused(void **state)
{
    struct cluster c;
    uint64_t token;

    begin(&c, 1);
    c.t.journal_by_hand = true;
    submit(&c.t, c.d, 1, 3, 5 * S);
    tell(&c.t, JOURNAL_DONE, journal_done, 0, .token = expect(&c.t, JOURNAL_JOB, journal_job, 0)->token,
         .err = HAWK_ELIMIT);
    assert_int_equal(expect(&c.t, LONG_REFUSED, long_refused, c.d)->err, HAWK_ELIMIT);
    /* The store keeps what it could not write, and may write it yet: then this undoes it. Once such a job
     * came back with the next central and ran again (hawk sim --faults --seed 655). */
    token = expect(&c.t, JOURNAL_JOB_END, journal_job_end, 0)->token;
    expect_nothing_else(&c.t);
    assert_false(central_quiet(c.t.c));
    tell(&c.t, JOURNAL_DONE, journal_done, 0, .token = token, .err = HAWK_ELIMIT);
    pass(&c.t, 1 * S);
    token = expect(&c.t, JOURNAL_JOB_END, journal_job_end, 0)->token;
    tell(&c.t, JOURNAL_DONE, journal_done, 0, .token = token);
    assert_true(central_quiet(c.t.c));
    end(&c);
}

/* A full disk: the store keeps the record. Nothing is refused, and nothing written twice. */
static void a_job_waits_while_the_disk_is_full(void **state)
{
    struct cluster c;
    uint64_t token;

    begin(&c, 1);
    c.t.journal_by_hand = true;
    submit(&c.t, c.d, 1, 3, 5 * S);
    token = expect(&c.t, JOURNAL_JOB, journal_job, 0)->token;
    tell(&c.t, JOURNAL_DONE, journal_done, 0, .token = token, .err = HAWK_EIO);
    pass(&c.t, 2 * S);
    expect_nothing_else(&c.t);
    tell(&c.t, JOURNAL_DONE, journal_done, 0, .token = token);
    expect(&c.t, LONG_ACCEPTED, long_accepted, c.d);
    end(&c);
}

/* What comes behind the job that was submitted again would end that one. */
static void a_refused_job_that_comes_again_is_not_undone(void **state)
{
    struct cluster c;
    uint64_t token;

    begin(&c, 1);
    c.t.journal_by_hand = true;
    submit(&c.t, c.d, 1, 3, 5 * S);
    tell(&c.t, JOURNAL_DONE, journal_done, 0, .token = expect(&c.t, JOURNAL_JOB, journal_job, 0)->token,
         .err = HAWK_ELIMIT);
    token = expect(&c.t, JOURNAL_JOB_END, journal_job_end, 0)->token;
    tell(&c.t, JOURNAL_DONE, journal_done, 0, .token = token, .err = HAWK_ELIMIT);
    submit(&c.t, c.d, 1, 3, 5 * S);
    token = expect(&c.t, JOURNAL_JOB, journal_job, 0)->token;
    tell(&c.t, JOURNAL_DONE, journal_done, 0, .token = token);
    expect(&c.t, LONG_ACCEPTED, long_accepted, c.d);
    pass(&c.t, 2 * S);
    expect_none(&c.t, JOURNAL_JOB_END, 0);
    end(&c);
}

static void an_end_that_cannot_be_journalled_is_tried_again(void **state)
{
    struct cluster c;
    uint64_t token;

    begin(&c, 1);
    submit(&c.t, c.d, 1, 1, 5 * S);
    c.t.journal_by_hand = true;
    finished(&c.t, c.w[0], try_of(c.d, 1, 0, 1), OUTCOME_EXITED, 0, 1);
    token = expect(&c.t, JOURNAL_TASK, journal_task, 0)->token;
    tell(&c.t, JOURNAL_DONE, journal_done, 0, .token = token, .err = HAWK_ELIMIT);
    expect_none(&c.t, FINISH_ACK, c.w[0]);                              /* the worker keeps it */
    finished(&c.t, c.w[0], try_of(c.d, 1, 0, 1), OUTCOME_EXITED, 0, 1); /* and repeats it */
    expect_none(&c.t, FINISH_ACK, c.w[0]);
    pass(&c.t, 1 * S);
    token = expect(&c.t, JOURNAL_TASK, journal_task, 0)->token;
    tell(&c.t, JOURNAL_DONE, journal_done, 0, .token = token);
    expect(&c.t, FINISH_ACK, finish_ack, c.w[0]);
    expect_task(&c, 0, TASK_DONE);
    end(&c);
}

static void the_same_job_again_is_accepted_again(void **state)
{
    struct cluster c;

    begin(&c, 1);
    submit(&c.t, c.d, 1, 2, 5 * S);
    assert_int_equal(count_out(&c.t, MSG_TASK_ENQUEUE), 2);
    submit(&c.t, c.d, 1, 2, 5 * S);
    expect(&c.t, LONG_ACCEPTED, long_accepted, c.d);
    expect_task(&c, 0, TASK_PLACED);
    expect_task(&c, 1, TASK_PLACED);
    expect_nothing_else(&c.t);
    end(&c);
}

/* The client of d1's job has moved it to d2, since d1 was slow (9). */
static void what_a_dist_has_lost_it_does_not_cancel(void **state)
{
    struct cluster c;
    uint32_t d2;

    begin(&c, 1);
    d2 = add_dist(&c.t, "d2");
    submit(&c.t, c.d, 1, 1, 5 * S);
    talk_clear(&c.t);
    tell(&c.t, LONG_WATCH, long_watch, d2, .job = JOB(c.d, 1), .epoch = 1, .owner = 3);
    assert_int_equal(expect(&c.t, JOURNAL_OWNER, journal_owner, 0)->owner, 3);
    assert_int_equal(expect(&c.t, LONG_TASK, long_task, d2)->state, TASK_PLACED);
    assert_int_equal(expect(&c.t, LONG_WATCHED, long_watched, d2)->err, 0);
    tell(&c.t, LONG_CANCEL, long_cancel, c.d, .job = JOB(c.d, 1), .epoch = 1, .owner = 1);
    expect_nothing_else(&c.t);
    tell(&c.t, LONG_CANCEL, long_cancel, d2, .job = JOB(c.d, 1), .epoch = 1, .owner = 3);
    expect(&c.t, TASK_CANCEL, task_cancel, c.w[0]);
    end(&c);
}

static void limits_are_an_answer(void **state)
{
    struct cluster c;

    talk_config(&c.t);
    c.t.config.long_tasks_max = 10;
    c.t.config.long_jobs_max = 2;
    talk_start(&c.t);
    tell(&c.t, RECOVERED, recovered, 0, 0);
    c.d = add_dist(&c.t, "d1");
    submit(&c.t, c.d, 1, 11, 5 * S);
    assert_int_equal(expect(&c.t, LONG_REFUSED, long_refused, c.d)->err, HAWK_ELIMIT);
    submit(&c.t, c.d, 2, 9, 5 * S);
    expect(&c.t, LONG_ACCEPTED, long_accepted, c.d);
    submit(&c.t, c.d, 3, 2, 5 * S);
    assert_int_equal(expect(&c.t, LONG_REFUSED, long_refused, c.d)->err, HAWK_ELIMIT);
    submit(&c.t, c.d, 4, 1, 5 * S);
    submit(&c.t, c.d, 5, 1, 5 * S); /* one job too many */
    assert_int_equal(expect(&c.t, LONG_REFUSED, long_refused, c.d)->err, HAWK_ELIMIT);
    /* What is finished makes room. */
    tell(&c.t, LONG_CANCEL, long_cancel, c.d, .job = JOB(c.d, 2), .epoch = 1);
    submit(&c.t, c.d, 6, 9, 5 * S);
    expect(&c.t, LONG_ACCEPTED, long_accepted, c.d);
    end(&c);
}

static void a_set_of_tasks_that_makes_no_sense_is_refused(void **state)
{
    struct cluster c;
    struct job_desc *d = desc_of("", 5);
    struct task_set *s = task_set_new(2);

    begin(&c, 1);
    s->v[0] = 3;
    s->v[1] = 3;
    tell(&c.t, LONG_SUBMIT, long_submit, c.d, .job = JOB(c.d, 1), .desc = d, .tasks = s, .epoch = 2);
    assert_int_equal(expect(&c.t, LONG_REFUSED, long_refused, c.d)->err, HAWK_EINVALID);
    s->v[1] = 5;
    tell(&c.t, LONG_SUBMIT, long_submit, c.d, .job = JOB(c.d, 1), .desc = d, .tasks = s, .epoch = 2);
    assert_int_equal(expect(&c.t, LONG_REFUSED, long_refused, c.d)->err, HAWK_EINVALID);
    tell(&c.t, LONG_SUBMIT, long_submit, c.d, .job = JOB(c.d, 1), .epoch = 2);
    assert_int_equal(expect(&c.t, LONG_REFUSED, long_refused, c.d)->err, HAWK_EINVALID);
    task_set_drop(s);
    job_desc_drop(d);
    end(&c);
}

/* ---- Ends ---- */

static void how_a_task_ended_decides_its_state(void **state)
{
    static const struct {
        enum outcome outcome;
        int code;
        enum task_state state;
    } table[] = {
        {OUTCOME_EXITED, 0, TASK_DONE},          {OUTCOME_EXITED, 3, TASK_FAILED},
        {OUTCOME_SIGNALED, 9, TASK_FAILED},      {OUTCOME_TIME_LIMIT, 15, TASK_FAILED},
        {OUTCOME_NOT_STARTED, 127, TASK_FAILED},
    };
    enum { N = sizeof table / sizeof table[0] };
    struct cluster c;

    begin(&c, 1);
    submit(&c.t, c.d, 1, N, 5 * S);
    for (uint32_t i = 0; i < N; i++) {
        started(&c.t, c.w[0], try_of(c.d, 1, i, 1));
        finished(&c.t, c.w[0], try_of(c.d, 1, i, 1), table[i].outcome, table[i].code, 2 * S);
        const struct msg_long_task *m = expect_task(&c, i, table[i].state);
        assert_int_equal(m->outcome, table[i].outcome);
        assert_int_equal(m->code, table[i].code);
    }
    expect_forgotten(&c);
    end(&c);
}

static void a_response_time_stays(void **state)
{
    struct cluster c;

    begin(&c, 1);
    submit(&c.t, c.d, 1, 1, 9 * S);
    started(&c.t, c.w[0], try_of(c.d, 1, 0, 1));
    pass(&c.t, 2 * S);
    finished(&c.t, c.w[0], try_of(c.d, 1, 0, 1), OUTCOME_EXITED, 0, 2 * S);
    assert_int_equal(view_of(&c, 1).response_us, 2 * S);
    pass(&c.t, 7 * S); /* it is out of the journal */
    assert_int_equal(view_of(&c, 1).response_us, 2 * S);
    end(&c);
}

static void only_what_exited_well_is_history(void **state)
{
    struct cluster c;
    const struct msg_history *h;

    begin(&c, 1);
    submit(&c.t, c.d, 1, 3, 5 * S);
    c.t.now_us += 4 * S;
    finished(&c.t, c.w[0], try_of(c.d, 1, 0, 1), OUTCOME_EXITED, 0, 2 * S);
    finished(&c.t, c.w[0], try_of(c.d, 1, 1, 1), OUTCOME_EXITED, 0, 4 * S);
    finished(&c.t, c.w[0], try_of(c.d, 1, 2, 1), OUTCOME_SIGNALED, 9, 100 * S);
    h = expect(&c.t, HISTORY, history, 0);
    assert_int_equal(h->mean_us, 3 * S);
    assert_int_equal(h->tasks, 2);
    assert_int_equal(h->task_us, 6 * S);
    assert_int_equal(expect_end(&c), JOB_FAILED);
    end(&c);
}

/* Whatever its worker says, a task has not run for longer than central has had its job: a second more for two
 * clocks. */
static void a_run_time_is_within_the_jobs_age(void **state)
{
    struct cluster c;

    begin(&c, 1);
    submit(&c.t, c.d, 1, 1, 5 * S);
    c.t.now_us += 2 * S;
    finished(&c.t, c.w[0], try_of(c.d, 1, 0, 1), OUTCOME_EXITED, 0, LIMIT_TIME_US);
    assert_int_equal(expect(&c.t, HISTORY, history, 0)->mean_us, 2 * S + 2 * S / 100 + S);
    end(&c);
}

static void one_completion_per_task_counts(void **state)
{
    struct cluster c;

    begin(&c, 2);
    submit(&c.t, c.d, 1, 1, 5 * S);
    finished(&c.t, c.w[0], try_of(c.d, 1, 0, 1), OUTCOME_EXITED, 0, 2 * S);
    expect_task(&c, 0, TASK_DONE);
    /* Again, of another try, of an unknown task or job: acknowledged, so that the worker forgets it. */
    finished(&c.t, c.w[0], try_of(c.d, 1, 0, 1), OUTCOME_EXITED, 1, 2 * S);
    expect(&c.t, FINISH_ACK, finish_ack, c.w[0]);
    expect_nothing_else(&c.t);
    finished(&c.t, c.w[1], try_of(c.d, 1, 0, 7), OUTCOME_EXITED, 1, 2 * S);
    expect(&c.t, FINISH_ACK, finish_ack, c.w[1]);
    expect_nothing_else(&c.t);
    finished(&c.t, c.w[1], try_of(c.d, 1, 99, 1), OUTCOME_EXITED, 1, 2 * S);
    expect(&c.t, FINISH_ACK, finish_ack, c.w[1]);
    finished(&c.t, c.w[1], try_of(c.d, 99, 0, 1), OUTCOME_EXITED, 1, 2 * S);
    expect(&c.t, FINISH_ACK, finish_ack, c.w[1]);
    expect_nothing_else(&c.t);
    end(&c);
}

static void a_completion_of_a_try_that_never_was_is_not_one(void **state)
{
    struct cluster c;

    begin(&c, 1);
    submit(&c.t, c.d, 1, 1, 5 * S);
    finished(&c.t, c.w[0], try_of(c.d, 1, 0, 2), OUTCOME_EXITED, 0, 2 * S);
    expect(&c.t, FINISH_ACK, finish_ack, c.w[0]);
    expect_nothing_else(&c.t);
    finished(&c.t, c.w[0], try_of(c.d, 1, 0, 0), OUTCOME_EXITED, 0, 2 * S);
    expect(&c.t, FINISH_ACK, finish_ack, c.w[0]);
    assert_int_equal(view_of(&c, 1).placed, 1);
    end(&c);
}

/* A worker that was broken into, or is mistaken. */
static void only_the_worker_that_has_a_try_ends_it(void **state)
{
    struct cluster c;

    begin(&c, 2);
    submit(&c.t, c.d, 1, 1, 5 * S);
    expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0]);
    finished(&c.t, c.w[1], try_of(c.d, 1, 0, 1), OUTCOME_EXITED, 0, 2 * S);
    expect(&c.t, FINISH_ACK, finish_ack, c.w[1]);
    expect_none(&c.t, TASK_CANCEL, c.w[0]);
    assert_int_equal(view_of(&c, 1).placed, 1);
    finished(&c.t, c.w[0], try_of(c.d, 1, 0, 1), OUTCOME_EXITED, 0, 2 * S);
    expect_task(&c, 0, TASK_DONE);
    end(&c);
}

static void too_many_failures_cancel_the_rest(void **state)
{
    struct cluster c;
    struct job_desc *d = desc_of("", 4);

    begin(&c, 1);
    d->max_fails = 2;
    tell(&c.t, LONG_SUBMIT, long_submit, c.d, .job = JOB(c.d, 1), .desc = d, .estimate_us = 5 * S,
         .epoch = 1);
    finished(&c.t, c.w[0], try_of(c.d, 1, 0, 1), OUTCOME_EXITED, 1, 1);
    expect_none(&c.t, TASK_CANCEL, c.w[0]);
    finished(&c.t, c.w[0], try_of(c.d, 1, 1, 1), OUTCOME_EXITED, 1, 1);
    assert_int_equal(expect(&c.t, TASK_CANCEL, task_cancel, c.w[0])->id.task, 2);
    assert_int_equal(expect(&c.t, TASK_CANCEL, task_cancel, c.w[0])->id.task, 3);
    finished(&c.t, c.w[0], try_of(c.d, 1, 2, 1), OUTCOME_CANCELLED, 0, 1);
    tell(&c.t, TASK_RETURNED, task_returned, c.w[0], .id = try_of(c.d, 1, 3, 1)); /* as good an answer */
    expect_task(&c, 3, TASK_CANCELLED);
    assert_int_equal(expect_end(&c), JOB_FAILED);
    job_desc_drop(d);
    expect_forgotten(&c);
    end(&c);
}

/* ---- Cancelling ---- */

static void what_waits_is_cancelled_at_once(void **state)
{
    struct cluster c;

    begin(&c, 0);
    submit(&c.t, c.d, 1, 3, 5 * S);
    tell(&c.t, LONG_CANCEL, long_cancel, c.d, .job = JOB(c.d, 1), .epoch = 1);
    for (uint32_t i = 0; i < 3; i++)
        expect_task(&c, i, TASK_CANCELLED);
    assert_int_equal(expect_end(&c), JOB_CANCELLED);
    expect_forgotten(&c);
    end(&c);
}

static void what_runs_is_cancelled_by_its_worker(void **state)
{
    struct cluster c;

    begin(&c, 1);
    submit(&c.t, c.d, 1, 2, 5 * S);
    started(&c.t, c.w[0], try_of(c.d, 1, 0, 1));
    tell(&c.t, LONG_CANCEL, long_cancel, c.d, .job = JOB(c.d, 1), .epoch = 1);
    expect(&c.t, JOURNAL_CANCEL, journal_cancel, 0);
    expect(&c.t, TASK_CANCEL, task_cancel, c.w[0]);
    expect(&c.t, TASK_CANCEL, task_cancel, c.w[0]);
    expect_nothing_else(&c.t);
    finished(&c.t, c.w[0], try_of(c.d, 1, 1, 1), OUTCOME_CANCELLED, 0, 0);
    expect_task(&c, 1, TASK_CANCELLED);
    finished(&c.t, c.w[0], try_of(c.d, 1, 0, 1), OUTCOME_EXITED, 0, 4 * S); /* it was faster */
    expect_task(&c, 0, TASK_DONE);
    expect_forgotten(&c);
    end(&c);
}

static void a_job_is_cancelled_while_it_is_journalled(void **state)
{
    struct cluster c;
    uint64_t token;

    begin(&c, 1);
    c.t.journal_by_hand = true;
    submit(&c.t, c.d, 1, 1, 5 * S);
    token = expect(&c.t, JOURNAL_JOB, journal_job, 0)->token;
    tell(&c.t, LONG_CANCEL, long_cancel, c.d, .job = JOB(c.d, 1), .epoch = 1);
    expect(&c.t, JOURNAL_CANCEL, journal_cancel, 0);
    expect_nothing_else(&c.t);
    tell(&c.t, JOURNAL_DONE, journal_done, 0, .token = token);
    expect(&c.t, LONG_ACCEPTED, long_accepted, c.d);
    expect_none(&c.t, TASK_ENQUEUE, c.w[0]);
    assert_int_equal(expect(&c.t, JOURNAL_TASK, journal_task, 0)->state, TASK_CANCELLED);
    end(&c);
}

static void a_cancelled_task_whose_worker_is_gone_is_cancelled(void **state)
{
    struct cluster c;

    begin(&c, 2);
    submit(&c.t, c.d, 1, 1, 5 * S);
    started(&c.t, c.w[0], try_of(c.d, 1, 0, 1));
    tell(&c.t, PEER_LOST, peer_lost, c.w[0], 0);
    tell(&c.t, LONG_CANCEL, long_cancel, c.d, .job = JOB(c.d, 1), .epoch = 1);
    pass(&c.t, 60 * S);
    expect_task(&c, 0, TASK_CANCELLED);
    expect_none(&c.t, TASK_ENQUEUE, c.w[1]);
    end(&c);
}

/* ---- Watching (4.5) ---- */

static void a_dist_that_comes_back_is_told_everything(void **state)
{
    struct cluster c;
    uint32_t d2;

    begin(&c, 1);
    submit(&c.t, c.d, 1, 3, 5 * S);
    started(&c.t, c.w[0], try_of(c.d, 1, 0, 1));
    tell(&c.t, PEER_LOST, peer_lost, c.d, 0);
    c.t.now_us += 2 * S;
    finished(&c.t, c.w[0], try_of(c.d, 1, 0, 1), OUTCOME_EXITED, 0, 3 * S);
    started(&c.t, c.w[0], try_of(c.d, 1, 1, 1));
    d2 = join(&c.t, (struct join){.name = "d1", .role = ROLE_DIST});
    tell(&c.t, LONG_WATCH, long_watch, d2, .job = JOB(c.d, 1), .epoch = 1);
    c.d = d2;
    assert_int_equal(expect_task(&c, 0, TASK_DONE)->run_us, 3 * S);
    expect_task(&c, 1, TASK_RUNNING);
    expect_task(&c, 2, TASK_PLACED);
    assert_int_equal(expect(&c.t, LONG_WATCHED, long_watched, d2)->err, 0);
    expect_nothing_else(&c.t);
    end(&c);
}

static void a_job_that_ended_while_its_dist_was_away_is_kept_for_it(void **state)
{
    struct cluster c;
    uint32_t d2;

    begin(&c, 1);
    submit(&c.t, c.d, 1, 1, 5 * S);
    tell(&c.t, PEER_LOST, peer_lost, c.d, 0);
    finished(&c.t, c.w[0], try_of(c.d, 1, 0, 1), OUTCOME_EXITED, 0, 3 * S);
    assert_true(central_quiet(c.t.c));
    pass(&c.t, 50 * S);
    expect_none(&c.t, JOURNAL_JOB_END, 0); /* a central that restarts now has to know it as well */
    d2 = join(&c.t, (struct join){.name = "d1", .role = ROLE_DIST});
    tell(&c.t, LONG_WATCH, long_watch, d2, .job = JOB(c.d, 1), .epoch = 1);
    assert_int_equal(expect(&c.t, LONG_TASK, long_task, d2)->state, TASK_DONE);
    assert_int_equal(expect(&c.t, LONG_WATCHED, long_watched, d2)->err, 0);
    assert_int_equal(expect_end(&c), JOB_DONE); /* now it knows */
    pass(&c.t, 6 * S);
    tell(&c.t, LONG_WATCH, long_watch, d2, .job = JOB(c.d, 1), .epoch = 1);
    assert_int_equal(expect(&c.t, LONG_WATCHED, long_watched, d2)->err, HAWK_ENOT_FOUND);
    end(&c);
}

static void finished_jobs_nobody_asks_for_are_limited(void **state)
{
    struct cluster c;

    talk_config(&c.t);
    c.t.config.finished_kept = 2;
    talk_start(&c.t);
    tell(&c.t, RECOVERED, recovered, 0, 0);
    c.d = add_dist(&c.t, "d1");
    for (uint64_t seq = 1; seq <= 5; seq++)
        submit(&c.t, c.d, seq, 1, 5 * S);
    tell(&c.t, PEER_LOST, peer_lost, c.d, 0);
    c.d = join(&c.t, (struct join){.name = "d2", .role = ROLE_DIST});
    for (uint64_t seq = 1; seq <= 5; seq++)
        tell(&c.t, LONG_CANCEL, long_cancel, c.d, .job = JOB(1, seq), .epoch = 1);
    pass(&c.t, 6 * S);
    for (uint64_t seq = 1; seq <= 5; seq++) {
        tell(&c.t, LONG_WATCH, long_watch, c.d, .job = JOB(1, seq), .epoch = 1);
        assert_int_equal(expect(&c.t, LONG_WATCHED, long_watched, c.d)->err, seq <= 3 ? HAWK_ENOT_FOUND : 0);
    }
    end(&c);
}

/* Nor may they grow in the journal, or stay for ever. */
static void what_is_forgotten_unasked_leaves_the_journal(void **state)
{
    struct cluster c;

    talk_config(&c.t);
    c.t.config.finished_kept = 1;
    c.t.config.unclaimed_us = 100 * S;
    talk_start(&c.t);
    tell(&c.t, RECOVERED, recovered, 0, 0);
    c.d = add_dist(&c.t, "d1");
    for (uint64_t seq = 1; seq <= 3; seq++)
        submit(&c.t, c.d, seq, 1, 5 * S);
    for (uint64_t seq = 1; seq <= 3; seq++)
        tell(&c.t, LONG_CANCEL, long_cancel, c.d, .job = JOB(c.d, seq), .epoch = 1);
    tell(&c.t, PEER_LOST, peer_lost, c.d, 0);
    pass(&c.t, 6 * S);
    for (uint64_t seq = 1; seq <= 2; seq++)
        assert_int_equal(job_id_seq(expect(&c.t, JOURNAL_JOB_END, journal_job_end, 0)->job), seq);
    expect_none(&c.t, JOURNAL_JOB_END, 0);
    assert_true(central_quiet(c.t.c));
    pass(&c.t, 100 * S);
    assert_int_equal(job_id_seq(expect(&c.t, JOURNAL_JOB_END, journal_job_end, 0)->job), 3);
    assert_null(central_find_job(c.t.c, JOB(c.d, 3)));
    end(&c);
}

/* Otherwise the next central would read them back for a dist that has heard. */
static void a_central_that_stops_waits_no_longer_with_what_is_told(void **state)
{
    struct cluster c;

    begin(&c, 0);
    submit(&c.t, c.d, 1, 1, 5 * S);
    tell(&c.t, LONG_CANCEL, long_cancel, c.d, .job = JOB(c.d, 1), .epoch = 1);
    expect_none(&c.t, JOURNAL_JOB_END, 0);
    tell(&c.t, STOP, stop, 0, 0);
    expect(&c.t, JOURNAL_JOB_END, journal_job_end, 0);
    expect(&c.t, STOPPED, stopped, 0);
    end(&c);
}

/* ---- Promoted subsets (7) ---- */

static void a_promoted_jobs_unlaunched_tasks_come_here(void **state)
{
    struct cluster c;
    struct job_desc *d = desc_of("grown", 10);
    struct task_set *s = task_set_new(2);

    begin(&c, 1);
    s->v[0] = 4;
    s->v[1] = 9;
    tell(&c.t, LONG_SUBMIT, long_submit, c.d, .job = JOB(c.d, 1), .desc = d, .tasks = s, .epoch = 2,
         .estimate_us = 12 * S, .why = WHY_PROMOTED);
    expect(&c.t, LONG_ACCEPTED, long_accepted, c.d);
    assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0])->id.task, 4);
    assert_int_equal(expect(&c.t, TASK_ENQUEUE, task_enqueue, c.w[0])->id.task, 9);
    for (uint32_t i = 0; i < 2; i++) {
        struct try_id id = try_of(c.d, 1, s->v[i], 1);

        finished(&c.t, c.w[0], id, OUTCOME_EXITED, 0, 1 * S); /* of epoch 1: its dist's business */
        expect(&c.t, FINISH_ACK, finish_ack, c.w[0]);
        id.epoch = 2;
        finished(&c.t, c.w[0], id, OUTCOME_EXITED, 0, 1 * S);
        expect_task(&c, s->v[i], TASK_DONE);
        expect_none(&c.t, HISTORY, 0); /* its dist reports the whole job */
    }
    job_desc_drop(d);
    task_set_drop(s);
    assert_true(central_quiet(c.t.c));
    end(&c);
}

static void paused(struct cluster *c, struct try_id id, int64_t run_us, uint32_t stood_ms, uint32_t paused_ms)
{
    tell(&c->t, TASK_PAUSED, task_paused, c->w[0], .id = id, .run_us = run_us, .stood_ms = stood_ms,
         .paused_ms = paused_ms, .times = 1, .for_job = JOB(7, 4), .for_task = 2);
}

/* Its waiting time stands still, and its dist hears of it: at once, and again when it asks. */
static void a_task_that_stands_still(void **state)
{
    struct cluster c = {0};
    struct try_id id;
    struct central_node n;
    const struct msg_task_paused *m;
    struct job_view job;

    begin(&c, 1);
    submit(&c.t, c.d, 1, 1, 10 * S);
    id = try_of(c.d, 1, 0, 1);
    paused(&c, id, 0, 0, 1); /* before it runs: nothing is known of it */
    expect_none(&c.t, TASK_PAUSED, c.d);
    started(&c.t, c.w[0], id);
    pass(&c.t, 4 * S);
    paused(&c, id, 3 * S, 1000, 1000);
    m = expect(&c.t, TASK_PAUSED, task_paused, c.d);
    assert_int_equal(m->stood_ms, 1000);
    assert_int_equal(m->for_job.v, JOB(7, 4).v);
    pass(&c.t, 60 * S);
    assert_true(central_view_node(c.t.c, (node_id_t){c.w[0]}, c.t.now_us, &n));
    assert_int_equal(n.wait_us, 7 * S);
    central_job_view(c.t.c, central_find_job(c.t.c, JOB(c.d, 1)), c.t.now_us, &job);
    assert_int_equal(job.paused, 1);
    assert_int_equal(job.paused_us, 61 * S);
    tell(&c.t, LONG_WATCH, long_watch, c.d, .job = JOB(c.d, 1), .epoch = 1);
    expect_task(&c, 0, TASK_RUNNING);
    assert_int_equal(expect(&c.t, TASK_PAUSED, task_paused, c.d)->stood_ms, 61000);
    paused(&c, id, 3 * S, 0, 61000);
    assert_int_equal(expect(&c.t, TASK_PAUSED, task_paused, c.d)->stood_ms, 0);
    pass(&c.t, 2 * S);
    assert_true(central_view_node(c.t.c, (node_id_t){c.w[0]}, c.t.now_us, &n));
    assert_int_equal(n.wait_us, 5 * S);
    /* An end while it stands still ends that as well. */
    paused(&c, id, 5 * S, 1000, 62000);
    finished(&c.t, c.w[0], id, OUTCOME_EXITED, 0, 5 * S);
    c.t.now_us += S;
    central_job_view(c.t.c, central_find_job(c.t.c, JOB(c.d, 1)), c.t.now_us, &job);
    assert_int_equal(job.paused, 0);
    assert_int_equal(job.paused_us, 62 * S);
    end(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_job_from_submission_to_the_end),
        cmocka_unit_test(a_job_that_cannot_be_journalled_is_refused),
        cmocka_unit_test(a_job_waits_while_the_disk_is_full),
        cmocka_unit_test(a_refused_job_that_comes_again_is_not_undone),
        cmocka_unit_test(an_end_that_cannot_be_journalled_is_tried_again),
        cmocka_unit_test(the_same_job_again_is_accepted_again),
        cmocka_unit_test(what_a_dist_has_lost_it_does_not_cancel),
        cmocka_unit_test(limits_are_an_answer),
        cmocka_unit_test(a_set_of_tasks_that_makes_no_sense_is_refused),
        cmocka_unit_test(how_a_task_ended_decides_its_state),
        cmocka_unit_test(a_response_time_stays),
        cmocka_unit_test(only_what_exited_well_is_history),
        cmocka_unit_test(a_run_time_is_within_the_jobs_age),
        cmocka_unit_test(one_completion_per_task_counts),
        cmocka_unit_test(a_completion_of_a_try_that_never_was_is_not_one),
        cmocka_unit_test(only_the_worker_that_has_a_try_ends_it),
        cmocka_unit_test(too_many_failures_cancel_the_rest),
        cmocka_unit_test(what_waits_is_cancelled_at_once),
        cmocka_unit_test(what_runs_is_cancelled_by_its_worker),
        cmocka_unit_test(a_job_is_cancelled_while_it_is_journalled),
        cmocka_unit_test(a_cancelled_task_whose_worker_is_gone_is_cancelled),
        cmocka_unit_test(a_dist_that_comes_back_is_told_everything),
        cmocka_unit_test(a_job_that_ended_while_its_dist_was_away_is_kept_for_it),
        cmocka_unit_test(finished_jobs_nobody_asks_for_are_limited),
        cmocka_unit_test(what_is_forgotten_unasked_leaves_the_journal),
        cmocka_unit_test(a_central_that_stops_waits_no_longer_with_what_is_told),
        cmocka_unit_test(a_promoted_jobs_unlaunched_tasks_come_here),
        cmocka_unit_test(a_task_that_stands_still),
    };

    return cmocka_run_group_tests_name("central_jobs", tests, NULL, NULL);
}
