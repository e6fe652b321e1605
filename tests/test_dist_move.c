/* A job that its client moves to another dist, and one whose client is gone: conversations (docs/protocol.md 9). */
#include "tests/test_dist.h"

#define OTHER 7 /* the dist that the job came from */

static job_id_t moved_id(void) { return job_id_make((node_id_t){OTHER}, 5); }
static struct try_id moved_try(uint32_t task, uint16_t epoch, uint16_t attempt)
{
    return (struct try_id){.job = moved_id(), .task = task, .epoch = epoch, .attempt = attempt};
}

static struct resubmit_task done(uint32_t task)
{
    return (struct resubmit_task){.task = task,
                                  .state = TASK_DONE,
                                  .outcome = OUTCOME_EXITED,
                                  .attempt = 1,
                                  .worker = 101,
                                  .wait_us = 10,
                                  .run_us = 400};
}

static struct resubmit *moved(uint16_t epoch, const struct resubmit_task *ended, uint32_t n)
{
    struct resubmit *r = resubmit_new(n);

    r->job = moved_id();
    r->epoch = epoch;
    r->class = CLASS_SHORT;
    r->why = WHY_TAG;
    for (uint32_t i = 0; i < n; i++)
        r->v[i] = ended[i];
    return r;
}

/* Gives up both references. */
static void resubmit(struct talk *t, struct job_desc *desc, struct resubmit *r)
{
    char why[200];

    assert_int_equal(resubmit_check(r, desc, why, sizeof why), 0);
    HEAR(t, 0, SUBMIT, submit, .desc = desc, .resubmit = r, .key = 99, .client = 9);
    job_desc_drop(desc);
    resubmit_drop(r);
}

static struct job_view view_of(const struct talk *t)
{
    struct job_view v;

    assert_non_null(dist_find(&t->d, moved_id()));
    dist_job_view(&t->d, dist_find(&t->d, moved_id()), t->now, &v);
    return v;
}

static void ask_task(struct talk *t, uint32_t worker, uint32_t number)
{
    HEAR(t, worker, TASK_REQUEST, task_request, .job = moved_id(), .request = number);
}

/* What the client knows has ended is not run again, and counts; the dead owner's tries are nobody's. */
static void test_what_is_unfinished_runs(void **state)
{
    struct talk *t = talk_joined("hawk", 2);
    struct resubmit_task ended[] = {done(1),
                                    {.task = 3, .state = TASK_FAILED, .outcome = OUTCOME_EXITED, .code = 2}};

    resubmit(t, tagged(4), moved(3, ended, 2));
    says(t, "- SUBMITTED job=7.5 client=9 err=0");
    says(t, "101 PROBE job=7.5 estimate_us=0 count=2");
    says(t, "102 PROBE job=7.5 estimate_us=0 count=2");
    assert_int_equal(view_of(t).done, 1);
    assert_int_equal(view_of(t).failed, 1);
    assert_int_equal(view_of(t).epoch, 3);
    ask_task(t, 101, 1);
    says(t, "101 TASK_LAUNCH id=7.5/0@3.1");
    ask_task(t, 102, 1);
    says(t, "102 TASK_LAUNCH id=7.5/2@3.1");
    ignore(t);
    /* An orphan of the owner before: its worker is told to stop it, its completion is nobody's. */
    started(t, 101, moved_try(0, 1, 1));
    says(t, "101 TASK_CANCEL id=7.5/0@1.1");
    finished(t, 101, moved_try(2, 1, 1), 0, 50);
    says(t, "101 FINISH_ACK");
    assert_int_equal(view_of(t).done, 1);
    finished(t, 101, moved_try(0, 3, 1), 0, 600);
    ignore(t);
    finished(t, 102, moved_try(2, 3, 1), 0, 800);
    says(t, "102 FINISH_ACK");
    /* The mean of those whose end a worker told: what the client says of run times moves no cutoff. */
    says(t, "central JOB_REPORT name=\"\" mean_us=700 task_us=1400 tasks=2");
    says(t, "- JOB_EVENT job=7.5 done=3 failed=1 state=4");
    talk_end(t);
}

/* Whatever a client or a worker says of run times, no report has more than the job's age. */
static void test_run_times_beyond_reason(void **state)
{
    enum { TASKS = 11000 };
    struct talk *t = talk_joined("hawk", 1);
    struct resubmit_task *ended = xcalloc(TASKS, sizeof *ended);

    for (uint32_t i = 0; i < TASKS; i++) {
        ended[i] = done(i);
        ended[i].run_us = LIMIT_TIME_US;
    }
    resubmit(t, tagged(TASKS + 1), moved(3, ended, TASKS));
    says(t, "- SUBMITTED job=7.5 client=9 err=0");
    says(t, "101 PROBE job=7.5 estimate_us=0 count=2");
    ask_task(t, 101, 1);
    ignore(t);
    finished(t, 101, moved_try(TASKS, 3, 1), 0, LIMIT_TIME_US);
    says(t, "101 FINISH_ACK");
    says(t, "central JOB_REPORT name=\"\" mean_us=1000000 task_us=1000000 tasks=1");
    says(t, "- JOB_EVENT job=7.5 done=11001 failed=0 state=3");
    free(ended);
    talk_end(t);
}

static void test_nothing_was_left(void **state)
{
    struct talk *t = talk_joined("hawk", 1);
    struct resubmit_task ended[] = {done(0), done(1), done(1)};

    resubmit(t, tagged(2), moved(3, ended, 3));
    says(t, "- SUBMITTED job=7.5 client=9 err=0");
    says(t, "- JOB_EVENT job=7.5 done=2 failed=0 state=3");
    talk_end(t);
}

/* A job's id is no secret, its key is. */
static void test_of_another_client(void **state)
{
    struct talk *t = talk_joined("hawk", 1);
    struct job_desc *desc = tagged(2);

    resubmit(t, tagged(2), moved(3, NULL, 0));
    says(t, "- SUBMITTED job=7.5 client=9 err=0");
    ignore(t);
    for (uint16_t epoch = 3; epoch <= 5;
         epoch += 2) { /* one to be answered with the job, one to replace it */
        struct resubmit *r = moved(epoch, NULL, 0);

        for (uint64_t key = 0; key < 200; key += 98) { /* it is 99 */
            HEAR(t, 0, SUBMIT, submit, .desc = desc, .resubmit = r, .key = key, .client = 8);
            says(t, "- SUBMITTED job=- client=8 err=-13");
            assert_int_equal(view_of(t).epoch, 3);
        }
        resubmit_drop(r);
    }
    job_desc_drop(desc);
    resubmit(t, tagged(2), moved(5, NULL, 0));
    says(t, "- SUBMITTED job=7.5 client=9 err=0");
    ignore(t);
    assert_int_equal(view_of(t).epoch, 5);
    talk_end(t);
}

/* The answer was lost, and the client asks again. */
static void test_asked_twice(void **state)
{
    struct talk *t = talk_joined("hawk", 1);
    struct job_desc *desc = tagged(1);

    resubmit(t, tagged(1), moved(5, NULL, 0));
    ignore(t);
    resubmit(t, tagged(1), moved(5, NULL, 0));
    says(t, "- SUBMITTED job=7.5 client=9 err=0");
    resubmit(t, tagged(1), moved(3, NULL, 0)); /* one from before */
    says(t, "- SUBMITTED job=7.5 client=9 err=0");
    assert_int_equal(view_of(t).epoch, 5);
    HEAR(t, 0, SUBMIT, submit, .desc = desc, .key = 4711, .client = 10);
    ignore(t);
    HEAR(t, 0, SUBMIT, submit, .desc = desc, .key = 4711, .client = 11);
    says(t, "- SUBMITTED job=3.1 client=11 err=0");
    HEAR(t, 0, SUBMIT, submit, .desc = desc, .client = 12); /* no key: another job */
    says(t, "- SUBMITTED job=3.2 client=12 err=0");
    ignore(t);
    job_desc_drop(desc);
    talk_end(t);
}

/* It comes back to a dist that had it, was slow, and lost it: what that dist runs of it is of an owner before. */
static void test_comes_back(void **state)
{
    struct talk *t = talk_joined("hawk", 2);
    struct resubmit_task ended[] = {done(1)};
    struct resubmit *r;

    HEAR(t, 0, WATCH, watch, .job = moved_id(), .on = 1); /* of nothing yet */
    resubmit(t, tagged(2), moved(3, NULL, 0));
    ignore(t);
    ask_task(t, 101, 1);
    ignore(t);
    HEAR(t, 0, WATCH, watch, .job = moved_id(), .on = 1);
    r = moved(7, ended, 1);
    resubmit(t, tagged(2), r);
    says(t, "102 PROBE_CANCEL job=7.5");
    says(t, "101 PROBE_CANCEL job=7.5");
    says(t, "101 TASK_CANCEL id=7.5/0@3.1");
    says(t, "- SUBMITTED job=7.5 client=9 err=0");
    says(t, "101 PROBE job=7.5");
    says(t, "102 PROBE job=7.5");
    says(t, "- JOB_EVENT job=7.5 done=1 failed=0 state=2"); /* task 1 has run */
    assert_int_equal(view_of(t).done, 1);
    finished(t, 101, moved_try(0, 3, 1), 0, 50); /* the old one's */
    says(t, "101 FINISH_ACK");
    ask_task(t, 102, 1);
    says(t, "102 TASK_LAUNCH id=7.5/0@7.1");
    ignore(t);
    finished(t, 102, moved_try(0, 7, 1), 0, 50);
    ignore(t);
    assert_int_equal(view_of(t).state, JOB_DONE);
    /* And once more, when it had ended here. */
    resubmit(t, tagged(2), moved(9, ended, 1));
    says(t, "- SUBMITTED job=7.5");
    says(t, "101 PROBE job=7.5");
    says(t, "102 PROBE job=7.5");
    says(t, "- JOB_EVENT job=7.5 done=1 failed=0 state=2"); /* task 1 has run */
    assert_int_equal(view_of(t).state, JOB_RUNNING);
    talk_end(t);
}

/* A job that may have been promoted: central says what it has of it, and the rest is ours. */
static void test_part_is_centrals(void **state)
{
    struct talk *t = talk_joined("hawk", 2);

    resubmit(t, desc_new(4, ""), moved(3, NULL, 0));
    says(t, "- SUBMITTED job=7.5 client=9 err=0");
    says(t, "central LONG_WATCH job=7.5 epoch=2 owner=3");
    HEAR(t, CENTRAL, LONG_TASK, long_task, .id = moved_try(1, 2, 0), .state = TASK_WAITING);
    HEAR(t, CENTRAL, LONG_TASK, long_task, .id = moved_try(2, 2, 1), .state = TASK_RUNNING, .worker = {101});
    ignore(t);
    HEAR(t, CENTRAL, LONG_WATCHED, long_watched, .job = moved_id(), .epoch = 2);
    says(t, "101 PROBE job=7.5 estimate_us=0 count=2");
    says(t, "102 PROBE job=7.5 estimate_us=0 count=2");
    assert_int_equal(view_of(t).why, WHY_PROMOTED);
    assert_int_equal(view_of(t).running, 1);
    ask_task(t, 101, 1);
    says(t, "101 TASK_LAUNCH id=7.5/0@3.1");
    ask_task(t, 102, 1);
    says(t, "102 TASK_LAUNCH id=7.5/3@3.1");
    ignore(t);
    talk_end(t);
}

static void test_central_has_nothing_of_it(void **state)
{
    struct talk *t = talk_joined("hawk", 1);

    resubmit(t, desc_new(1, ""), moved(3, NULL, 0));
    says(t, "- SUBMITTED job=7.5");
    says(t, "central LONG_WATCH job=7.5 epoch=2 owner=3");
    HEAR(t, CENTRAL, LONG_WATCHED, long_watched, .job = moved_id(), .epoch = 2, .err = HAWK_ENOT_FOUND);
    says(t, "101 PROBE job=7.5");
    ask_task(t, 101, 1);
    says(t, "101 TASK_LAUNCH id=7.5/0@3.1");
    ignore(t);
    /* It may be promoted from here: under an epoch of its own. */
    resubmit(t, desc_new(1, ""), moved(5, NULL, 0));
    ignore(t);
    HEAR(t, CENTRAL, PEER_LOST, peer_lost, .role = ROLE_CENTRAL); /* nobody answers: its client waits */
    says(t, "101 PROBE job=7.5");
    talk_end(t);
}

/* Central goes away while it says what it has: then it has something, and the rest waits for the rest of the answer. */
static void test_central_goes_away_while_it_answers(void **state)
{
    struct talk *t = talk_joined("hawk", 1);

    resubmit(t, desc_new(3, ""), moved(3, NULL, 0));
    says(t, "- SUBMITTED job=7.5");
    says(t, "central LONG_WATCH job=7.5 epoch=2 owner=3");
    HEAR(t, CENTRAL, LONG_TASK, long_task, .id = moved_try(1, 2, 1), .state = TASK_RUNNING, .worker = {101});
    ignore(t);
    HEAR(t, CENTRAL, PEER_LOST, peer_lost, .role = ROLE_CENTRAL);
    silent(t);
    assert_int_equal(view_of(t).why, WHY_PROMOTED);
    central_joins(t);
    says(t, "central LONG_WATCH job=7.5 epoch=2 owner=3");
    HEAR(t, CENTRAL, LONG_TASK, long_task, .id = moved_try(1, 2, 1), .state = TASK_RUNNING, .worker = {101});
    HEAR(t, CENTRAL, LONG_TASK, long_task, .id = moved_try(2, 2, 1), .state = TASK_PLACED, .worker = {101});
    ignore(t);
    HEAR(t, CENTRAL, LONG_WATCHED, long_watched, .job = moved_id(), .epoch = 2);
    says(t, "101 PROBE job=7.5 estimate_us=0 count=2");
    ask_task(t, 101, 1);
    says(t, "101 TASK_LAUNCH id=7.5/0@3.1");
    ignore(t);
    talk_end(t);
}

/* The next one knows nothing of it: all of it is run from here. */
static void test_central_forgets_while_it_answers(void **state)
{
    struct talk *t = talk_joined("hawk", 1);

    resubmit(t, desc_new(2, ""), moved(3, NULL, 0));
    ignore(t);
    HEAR(t, CENTRAL, LONG_TASK, long_task, .id = moved_try(1, 2, 1), .state = TASK_RUNNING, .worker = {101});
    ignore(t);
    HEAR(t, CENTRAL, PEER_LOST, peer_lost, .role = ROLE_CENTRAL);
    central_joins(t);
    says(t, "central LONG_WATCH job=7.5 epoch=2 owner=3");
    HEAR(t, CENTRAL, LONG_WATCHED, long_watched, .job = moved_id(), .epoch = 2, .err = HAWK_ENOT_FOUND);
    says(t, "101 PROBE job=7.5 estimate_us=0 count=4");
    assert_int_equal(view_of(t).waiting, 2);
    ask_task(t, 101, 1);
    says(t, "101 TASK_LAUNCH id=7.5/0@3.1");
    ask_task(t, 101, 2);
    says(t, "101 TASK_LAUNCH id=7.5/1@3.2");
    ignore(t);
    talk_end(t);
}

/* One that is known to be promoted waits for central. */
static void test_part_is_known_to_be_centrals(void **state)
{
    struct talk *t = talk_joined("hawk", 1);
    struct resubmit *r = moved(5, NULL, 0);

    r->long_epoch = 2;
    r->class = CLASS_LONG;
    r->why = WHY_PROMOTED;
    resubmit(t, desc_new(2, ""), r);
    says(t, "- SUBMITTED job=7.5");
    says(t, "central LONG_WATCH job=7.5 epoch=2 owner=5");
    HEAR(t, CENTRAL, PEER_LOST, peer_lost, .role = ROLE_CENTRAL);
    central_joins(t);
    says(t, "central LONG_WATCH job=7.5 epoch=2 owner=5");
    /* Cancelled before the answer: what central does not have ends here. */
    HEAR(t, 0, CANCEL, cancel, .job = moved_id(), .client = 4);
    says(t, "- CANCELLED job=7.5 client=4 err=0");
    says(t, "central LONG_CANCEL job=7.5 epoch=2 owner=5");
    says(t, "central LONG_WATCH job=7.5 epoch=2 owner=5");
    HEAR(t, CENTRAL, LONG_TASK, long_task, .id = moved_try(1, 2, 1), .state = TASK_CANCELLED);
    HEAR(t, CENTRAL, LONG_WATCHED, long_watched, .job = moved_id(), .epoch = 2);
    says(t, "- JOB_EVENT job=7.5 done=0 failed=0 state=5");
    talk_end(t);
}

/* A long one is central's before and after. */
static void test_long(void **state)
{
    struct talk *t = talk_joined("hawk", 1);
    struct resubmit_task ended[] = {done(0)};
    struct resubmit *r = moved(3, ended, 1);

    r->class = CLASS_LONG;
    resubmit(t, desc_new(3, ""), r);
    says(t, "- SUBMITTED job=7.5");
    says(t, "central LONG_SUBMIT job=7.5 desc=\"\"x3 tasks=2of estimate_us=10000000 epoch=1 why=1 owner=3");
    HEAR(t, CENTRAL, LONG_ACCEPTED, long_accepted, .job = moved_id(), .epoch = 1);
    says(t, "central LONG_WATCH job=7.5 epoch=1 owner=3");
    for (uint32_t i = 0; i < 3; i++) {
        HEAR(t, CENTRAL, LONG_TASK, long_task, .id = moved_try(i, 1, 1), .state = TASK_DONE,
             .outcome = OUTCOME_EXITED, .run_us = 100, .worker = {101});
        if (i == 2)
            says(t, "- JOB_EVENT job=7.5 done=3 failed=0 state=3");
        ignore(t);
    }
    talk_end(t);
}

static struct talk *talk_offered(uint32_t tasks)
{
    struct talk *t = talk_joined("hawk", 1);
    struct resubmit *r = moved(3, NULL, 0);

    r->class = CLASS_LONG;
    resubmit(t, desc_new(tasks, ""), r);
    says(t, "- SUBMITTED job=7.5");
    says(t, "central LONG_SUBMIT job=7.5");
    return t;
}

static struct talk *talk_long(uint32_t tasks)
{
    struct talk *t = talk_offered(tasks);
    HEAR(t, CENTRAL, LONG_ACCEPTED, long_accepted, .job = moved_id(), .epoch = 1);
    /* Another dist may have given it to central before: so central is asked what it has. */
    says(t, "central LONG_WATCH job=7.5 epoch=1 owner=3");
    return t;
}

/* Its client asked another dist to take it, heard no answer, and stays: that dist may have taken it all the
 * same, and would soon cancel it for want of a client. */
static void test_the_client_stays(void **state)
{
    struct talk *t = talk_long(1);

    HEAR(t, 0, WATCH, watch, .job = moved_id(), .on = 1, .epoch = 7, .key = 98); /* not its client */
    silent(t);
    HEAR(t, 0, WATCH, watch, .job = moved_id(), .on = 1, .epoch = 7, .key = 99);
    says(t, "central LONG_WATCH job=7.5 epoch=1 owner=7");
    HEAR(t, 0, WATCH, watch, .job = moved_id(), .on = 1, .epoch = 5, .key = 99); /* an earlier word */
    silent(t);
    HEAR(t, 0, CANCEL, cancel, .job = moved_id(), .client = 9);
    says(t, "- CANCELLED");
    says(t, "central LONG_CANCEL job=7.5 epoch=1 owner=7");
    ignore(t);
    talk_end(t);
}

/* Central lost its state, and another dist gave it less of the job: what it does not speak of, it does not have. */
static void test_central_has_less_of_it(void **state)
{
    struct talk *t = talk_long(2);

    HEAR(t, CENTRAL, LONG_TASK, long_task, .id = moved_try(0, 1, 1), .state = TASK_WAITING);
    silent(t);
    HEAR(t, CENTRAL, LONG_WATCHED, long_watched, .job = moved_id(), .epoch = 1);
    says(t, "101 PROBE job=7.5 estimate_us=0 count=2 class=1");
    assert_int_equal(view_of(t).waiting, 2);
    talk_end(t);
}

static void test_central_has_less_of_what_is_cancelled(void **state)
{
    for (int refused = 0; refused <= 1; refused++) {
        struct talk *t = refused ? talk_offered(2) : talk_long(2);
        if (refused)
            HEAR(t, CENTRAL, LONG_REFUSED, long_refused, .job = moved_id(), .epoch = 1, .err = HAWK_ELIMIT);
        HEAR(t, 0, CANCEL, cancel, .job = moved_id(), .client = 9);
        ignore(t);
        HEAR(t, CENTRAL, LONG_TASK, long_task, .id = moved_try(0, 1, 1), .state = TASK_CANCELLED);
        for (int answers = 2 - refused; answers > 0; answers--, ignore(t))
            HEAR(t, CENTRAL, LONG_WATCHED, long_watched, .job = moved_id(), .epoch = 1);
        assert_int_equal(view_of(t).state, JOB_CANCELLED);
        talk_end(t);
    }
}

/* What must not run twice is lost when it may have run. */
static void test_at_most_once(void **state)
{
    struct talk *t = talk_joined("hawk", 1);
    struct resubmit_task ended[] = {done(0)};
    struct job_desc *desc = tagged(2);
    struct resubmit *r;

    desc->flags |= JOB_AT_MOST_ONCE;
    resubmit(t, desc, moved(3, ended, 1));
    says(t, "- SUBMITTED job=7.5");
    says(t, "- JOB_EVENT job=7.5 done=1 failed=1 state=4");
    desc = desc_new(2, "");
    desc->flags |= JOB_AT_MOST_ONCE;
    r = moved(5, ended, 1);
    r->class = CLASS_LONG;
    resubmit(t, desc, r);
    says(t, "- SUBMITTED job=7.5");
    says(t, "central LONG_WATCH job=7.5 epoch=1 owner=5");
    HEAR(t, CENTRAL, LONG_WATCHED, long_watched, .job = moved_id(), .epoch = 1, .err = HAWK_ENOT_FOUND);
    says(t, "- JOB_EVENT job=7.5 done=1 failed=1 state=4");
    talk_end(t);
}

/* ---- Clients that go away ---- */

/* Its client may have moved it on before this dist heard of it, to one where it is held, and that central does not know
 * of: central must not get it from here, and then hear that nobody wants it. */
static void test_central_gets_a_moved_job_when_a_client_watches_it(void **state)
{
    struct talk *t = talk_grace(2 * US_PER_S);
    struct resubmit *r = moved(3, NULL, 0);

    r->class = CLASS_LONG;
    resubmit(t, desc_new(1, ""), r);
    says(t, "- SUBMITTED job=7.5");
    silent(t);
    HEAR(t, 0, WATCH, watch, .job = moved_id(), .key = 99, .epoch = 3, .on = 1);
    says(t, "central LONG_SUBMIT job=7.5 desc=\"\"x1 tasks=all estimate_us=10000000 epoch=1 why=1 owner=3");
    HEAR(t, CENTRAL, LONG_ACCEPTED, long_accepted, .job = moved_id(), .epoch = 1);
    says(t, "central LONG_WATCH job=7.5 epoch=1 owner=3");
    ignore(t);
    talk_end(t);
}

/* Another dist may have it: that was cut off from central as well, and says so first. */
static void test_who_was_cut_off_from_central_waits(void **state)
{
    struct talk *t = talk_grace(2 * US_PER_S);
    struct resubmit *r = moved(3, NULL, 0);

    r->class = CLASS_LONG;
    resubmit(t, desc_new(1, ""), r);
    ignore(t);
    HEAR(t, CENTRAL, LONG_ACCEPTED, long_accepted, .job = moved_id(), .epoch = 1);
    ignore(t);
    HEAR(t, CENTRAL, PEER_LOST, peer_lost, .role = ROLE_CENTRAL);
    ignore(t);
    wait_timer(t, 2 * US_PER_S);
    t->now += US_PER_S;
    central_joins(t);
    says(t, "central LONG_WATCH job=7.5 epoch=1 owner=3");
    wait_timer(t, US_PER_S);
    wait_timer(t, 2 * US_PER_S);
    says(t, "central LONG_CANCEL job=7.5 epoch=1 owner=3 abandoned=1");
    says(t, "central LONG_WATCH job=7.5 epoch=1 owner=0");
    HEAR(t, CENTRAL, LONG_TASK, long_task, .id = moved_try(0, 1, 1), .state = TASK_CANCELLED);
    says(t, "- JOB_EVENT job=7.5 done=0 failed=0 state=5");
    talk_end(t);
}

static void test_watched_and_not(void **state)
{
    struct talk *t = talk_grace(2 * US_PER_S);
    struct job_desc *detached = tagged(1);

    detached->flags |= JOB_DETACHED;
    submit(t, tagged(1));
    ignore(t);
    HEAR(t, 0, WATCH, watch, .job = J(1), .on = 1);
    HEAR(t, 0, WATCH, watch, .job = J(1), .on = 1);
    HEAR(t, 0, WATCH, watch, .job = J(1), .on = 0);
    assert_true(dist_next_timeout(&t->d) == TIME_NEVER);
    submit(t, detached);
    ignore(t);
    assert_true(dist_next_timeout(&t->d) == TIME_NEVER);
    t->now += US_PER_S;
    HEAR(t, 0, WATCH, watch, .job = J(1), .on = 0);
    assert_int_equal(dist_next_timeout(&t->d), t->now + 2 * US_PER_S);
    t->now += US_PER_S;
    HEAR(t, 0, WATCH, watch, .job = J(1), .on = 1); /* it is back */
    assert_true(dist_next_timeout(&t->d) == TIME_NEVER);
    HEAR(t, 0, WATCH, watch, .job = J(1), .on = 0);
    /* It ended in time: nothing is left to cancel. */
    request(t, 101, 1, 1);
    ignore(t);
    finished(t, 101, try_of(1, 0, 1, 1), 0, 10);
    ignore(t);
    assert_true(dist_next_timeout(&t->d) == TIME_NEVER);
    talk_end(t);
}

/* ---- What clients may get wrong ---- */

static void test_refused(void **state)
{
    struct job_desc *desc = tagged(2);
    struct resubmit_task bad[] = {
        done(2), {.task = 0, .state = TASK_RUNNING}, {.task = 0, .state = TASK_DONE, .run_us = -2}};
    struct resubmit *r;
    char why[200];

    for (unsigned epoch = 0; epoch <= UINT16_MAX; epoch++) {
        r = moved((uint16_t)epoch, NULL, 0);
        assert_int_equal(resubmit_check(r, desc, why, sizeof why) == 0,
                         epoch >= 3 && epoch <= 65533 && epoch % 2);
        resubmit_drop(r);
    }
    for (int i = 0; i < 3; i++) {
        r = moved(3, &bad[i], 1);
        assert_int_equal(resubmit_check(r, desc, why, sizeof why), HAWK_EINVALID);
        resubmit_drop(r);
    }
    r = moved(3, NULL, 0);
    r->long_epoch = 3;
    assert_int_equal(resubmit_check(r, desc, why, sizeof why), HAWK_EINVALID);
    r->long_epoch = 0;
    r->job = JOB_NONE;
    assert_int_equal(resubmit_check(r, desc, why, sizeof why), HAWK_EINVALID);
    r->job = moved_id();
    desc->flags |= JOB_DETACHED;
    assert_int_equal(resubmit_check(r, desc, why, sizeof why), HAWK_EINVALID);
    assert_non_null(strstr(why, "detached"));
    resubmit_drop(r);
    job_desc_drop(desc);
}

/* It was long, and began under a policy by which central has such jobs; now dists probe for them. */
static void test_a_long_job_of_an_earlier_policy(void **state)
{
    struct talk *t = talk_joined("sparrow", 2);
    struct job_desc *desc = desc_new(2, "");
    struct resubmit *r = moved(3, NULL, 0);

    desc->tag = TAG_LONG;
    r->class = CLASS_LONG;
    resubmit(t, desc, r);
    says(t, "- SUBMITTED job=7.5");
    says(t, "central LONG_WATCH job=7.5 epoch=1 owner=3");
    silent(t);
    HEAR(t, CENTRAL, LONG_TASK, long_task, .id = moved_try(0, 1, 1), .state = TASK_RUNNING, .worker = {101});
    ignore(t);
    /* Central has begun to say what it has: nothing is probed for behind its back. */
    HEAR(t, CENTRAL, PEER_LOST, peer_lost, .role = ROLE_CENTRAL);
    silent(t);
    central_joins(t);
    says(t, "central LONG_WATCH job=7.5 epoch=1 owner=3");
    ignore(t);
    HEAR(t, CENTRAL, LONG_TASK, long_task, .id = moved_try(0, 1, 1), .state = TASK_RUNNING, .worker = {101});
    HEAR(t, CENTRAL, LONG_TASK, long_task, .id = moved_try(1, 1, 1), .state = TASK_PLACED, .worker = {102});
    HEAR(t, CENTRAL, LONG_WATCHED, long_watched, .job = moved_id(), .epoch = 1);
    ignore(t);
    assert_int_equal(view_of(t).owner.v, NODE_CENTRAL.v);
    assert_int_equal(view_of(t).why, WHY_TAG);
    HEAR(t, CENTRAL, LONG_TASK, long_task, .id = moved_try(0, 1, 1), .state = TASK_DONE, .worker = {101},
         .outcome = OUTCOME_EXITED);
    HEAR(t, CENTRAL, LONG_TASK, long_task, .id = moved_try(1, 1, 1), .state = TASK_DONE, .worker = {102},
         .outcome = OUTCOME_EXITED);
    says(t, "- JOB_EVENT job=7.5 done=2"); /* no report: its history is central's */
    talk_end(t);
}

static void test_a_long_job_that_central_never_had(void **state)
{
    struct talk *t = talk_joined("sparrow", 2);
    struct job_desc *desc = desc_new(1, "");
    struct resubmit *r = moved(3, NULL, 0);

    desc->tag = TAG_LONG;
    r->class = CLASS_LONG;
    resubmit(t, desc, r);
    ignore(t);
    HEAR(t, CENTRAL, LONG_WATCHED, long_watched, .job = moved_id(), .epoch = 1, .err = HAWK_ENOT_FOUND);
    says(t, "101 PROBE job=7.5 estimate_us=0 count=1 class=1");
    says(t, "102 PROBE job=7.5 estimate_us=0 count=1 class=1");
    talk_end(t);
}

/* It starts nothing before it is released. */
static void test_held(void **state)
{
    struct talk *t = talk_joined("hawk", 1);
    struct resubmit *r = moved(3, NULL, 0);

    r->held = true;
    resubmit(t, tagged(2), r);
    assert_int_equal(view_of(t).state, JOB_HELD);
    for (uint32_t i = 0; i < t->out.n; i++)
        assert_int_not_equal(t->out.v[i].type, MSG_PROBE);
    ignore(t);
    HEAR(t, 0, HOLD, hold, .job = moved_id(), .client = 9, .on = false);
    says(t, "101 PROBE job=7.5");
    ignore(t);
    talk_end(t);
}

/* Otherwise the dist that had it before could have central cancel it. */
static void test_central_gets_a_long_one_as_held(void **state)
{
    struct talk *t = talk_joined("hawk", 1);
    struct job_desc *desc = tagged(2);
    struct resubmit *r = moved(3, NULL, 0);

    desc->tag = TAG_LONG;
    r->class = CLASS_LONG;
    r->held = true;
    resubmit(t, desc, r);
    says(t, "central LONG_SUBMIT job=7.5 desc=\"\"x2 tasks=all estimate_us=10000000 epoch=1 why=1 owner=3");
    says(t, "central LONG_HOLD job=7.5 epoch=1 owner=3 on=2");
    ignore(t);
    assert_int_equal(view_of(t).state, JOB_HELD);
    HEAR(t, CENTRAL, LONG_ACCEPTED, long_accepted, .job = moved_id(), .epoch = 1);
    ignore(t);
    assert_int_equal(view_of(t).state, JOB_HELD);
    HEAR(t, 0, HOLD, hold, .job = moved_id(), .client = 9, .on = false);
    says(t, "central LONG_HOLD job=7.5 epoch=1 owner=3 on=0");
    ignore(t);
    talk_end(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_unfinished_runs),
        cmocka_unit_test(test_a_long_job_of_an_earlier_policy),
        cmocka_unit_test(test_a_long_job_that_central_never_had),
        cmocka_unit_test(test_run_times_beyond_reason),
        cmocka_unit_test(test_nothing_was_left),
        cmocka_unit_test(test_of_another_client),
        cmocka_unit_test(test_asked_twice),
        cmocka_unit_test(test_comes_back),
        cmocka_unit_test(test_part_is_centrals),
        cmocka_unit_test(test_central_has_nothing_of_it),
        cmocka_unit_test(test_central_goes_away_while_it_answers),
        cmocka_unit_test(test_central_forgets_while_it_answers),
        cmocka_unit_test(test_part_is_known_to_be_centrals),
        cmocka_unit_test(test_long),
        cmocka_unit_test(test_the_client_stays),
        cmocka_unit_test(test_central_has_less_of_it),
        cmocka_unit_test(test_central_has_less_of_what_is_cancelled),
        cmocka_unit_test(test_at_most_once),
        cmocka_unit_test(test_central_gets_a_moved_job_when_a_client_watches_it),
        cmocka_unit_test(test_who_was_cut_off_from_central_waits),
        cmocka_unit_test(test_watched_and_not),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_held),
        cmocka_unit_test(test_central_gets_a_long_one_as_held),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
