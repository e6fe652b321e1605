/* A worker that pauses long tasks for short ones (POLICY_PAUSE). */
#include "tests/test_worker_pause.h"

#include "worker/internal.h"

/* The only slot runs a long task of job 1, and the worker requests a task of job 2, which is short. Returns the
 * long task's run. */
static uint32_t begin_with_request(struct talk *t)
{
    uint32_t run;

    begin_pausing(t, 1);
    run = long_task(t, 1);
    short_comes(t, 2);
    expect_request(t, 2, 1);
    return run;
}

/* The same with the long task paused: *quick is the short task's run. */
static uint32_t begin_with_pause(struct talk *t, uint32_t *quick)
{
    uint32_t run;

    begin_pausing(t, 1);
    run = long_task(t, 1);
    short_comes(t, 2);
    *quick = paused_for(t, run, 2, 1);
    return run;
}

/* Its owner hears of its pauses before its end. */
static void expect_end(struct talk *t, uint32_t paused_ms, enum outcome outcome)
{
    expect(t, TASK_PAUSED, task_paused, CENTRAL,
           m->times == 1 && m->for_job.v == JOB(2).v && m->for_task == 0 && m->stood_ms == 0 &&
               m->paused_ms == paused_ms);
    expect(t, TASK_FINISHED, task_finished, CENTRAL, m->outcome == outcome);
}

static void a_short_task_takes_the_slot_of_a_long_one(void **state)
{
    struct talk t;
    uint32_t run, quick;

    begin_pausing(&t, 1);
    run = long_task(&t, 1);
    pass(&t, 50 * S);
    short_comes(&t, 2);
    quick = paused_for(&t, run, 2, 1);
    assert_int_equal(counts_of(&t).paused, 1);
    assert_int_equal(counts_of(&t).running, 1);
    pass(&t, 3 * S);
    exits(&t, quick, 0);
    expect(&t, TASK_FINISHED, task_finished, DIST, whatever);
    expect(&t, EXEC_RESUME, exec_resume, 0, m->run == run);
    assert_int_equal(counts_of(&t).paused, 0);
    assert_int_equal(counts_of(&t).running_long, 1);
    /* What it stood still is no part of its run time. */
    assert_int_equal(t.now_us - slot_at(&t.w, worker_slot_of(run))->task->started_us, 50 * S + S / 16);
    assert_int_equal(worker_counter(&t.w, COUNTER_tasks_paused), 1);
    assert_int_equal(worker_counter(&t.w, COUNTER_paused_ms), 3000);
    exits(&t, run, 0);
    expect_end(&t, 3000, OUTCOME_EXITED);
    talk_end(&t);
}

static void without_the_policy_it_waits(void **state)
{
    struct talk t;
    uint32_t run;

    talk_init(&t, 1);
    t.config.policy.flags &= ~(uint32_t)POLICY_STEAL;
    t.config.pause.paused_max = 1;
    talk_start(&t);
    join(&t);
    dist_comes(&t, DIST);
    run = long_task(&t, 1);
    short_comes(&t, 2);
    pass(&t, 100 * S);
    nothing(&t);
    exits(&t, run, 0);
    expect(&t, TASK_FINISHED, task_finished, CENTRAL, whatever);
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    talk_end(&t);
}

/* Nobody has a task any more: nothing was frozen, and the next reservation asks the same. */
static void without_a_task_nothing_is_frozen(void **state)
{
    struct talk t;

    begin_with_request(&t);
    short_comes(&t, 3); /* one long task: one request */
    pass(&t, S);
    nothing(&t);
    tell(&t, NO_TASK, no_task, DIST, .job = JOB(2), .request = 1);
    expect(&t, TASK_REQUEST, task_request, DIST, m->job.v == JOB(3).v && m->request == 2);
    tell(&t, PROBE_CANCEL, probe_cancel, DIST, .job = JOB(3));
    expect(&t, PROBE_CANCELLED, probe_cancelled, DIST, m->count == 0);
    tell(&t, NO_TASK, no_task, DIST, .job = JOB(3), .request = 2);
    nothing(&t);
    assert_int_equal(worker_counter(&t.w, COUNTER_tasks_paused), 0);
    talk_end(&t);
}

/* A slot was freed before the answer came: the request is for that one. */
static void a_free_slot_is_taken_by_who_asked(void **state)
{
    struct talk t;
    uint32_t run;

    run = begin_with_request(&t);
    assert_int_equal(counts_of(&t).requested, 0);
    exits(&t, run, 0);
    expect(&t, TASK_FINISHED, task_finished, CENTRAL, whatever);
    assert_int_equal(counts_of(&t).requested, 1);
    launch(&t, 2, 0, 1);
    starts(&t, 2, 0, DIST);
    talk_end(&t);
}

/* Two long tasks run; the second one is younger by a second. */
static void two_long(struct talk *t, uint32_t run[2])
{
    run[0] = long_task(t, 1);
    pass(t, S);
    run[1] = long_task(t, 2);
}

/* A short task was given, and the younger long one is to be frozen for it. */
static void younger_is_asked_for(struct talk *t, uint32_t run[2])
{
    two_long(t, run);
    short_comes(t, 3);
    expect_request(t, 3, 1);
    given(t, run[1], 3, 1);
}

/* And before the long task stood still: that one goes on, since nobody needs its slot. */
static void a_free_slot_is_taken_by_what_was_given(void **state)
{
    struct talk t;
    uint32_t run[2];

    begin_pausing(&t, 2);
    younger_is_asked_for(&t, run);
    exits(&t, run[0], 0);
    expect(&t, TASK_FINISHED, task_finished, CENTRAL, whatever);
    starts(&t, 3, 0, DIST);
    tell(&t, EXEC_PAUSED, exec_paused, 0, .run = run[1]);
    expect(&t, EXEC_RESUME, exec_resume, 0, m->run == run[1]);
    assert_int_equal(counts_of(&t).running, 2);
    assert_int_equal(worker_counter(&t.w, COUNTER_tasks_paused), 0);
    talk_end(&t);
}

/* The budget grows with the long task's age: a short task that it does not allow for yet waits for that. */
static void a_budget_that_grows_is_looked_at_again(void **state)
{
    struct talk t;
    uint32_t run;

    begin_pausing(&t, 1);
    t.w.config.pause.share_milli =
        10; /* short tasks take 1 s: the long one must be 100 s old, and has an estimate */
    run = long_task(&t, 1);
    short_comes(&t, 2);
    pass(&t, 99 * S);
    nothing(&t);
    pass(&t, 2 * S);
    expect(&t, TASK_REQUEST, task_request, DIST, m->job.v == JOB(2).v && m->request == 1);
    given(&t, run, 2, 1);
    talk_end(&t);
}

/* The task to be frozen ends itself. */
static void what_was_given_outlives_its_pause(void **state)
{
    struct talk t;
    uint32_t run;

    run = begin_with_request(&t);
    given(&t, run, 2, 1);
    exits(&t, run, 0);
    expect(&t, TASK_FINISHED, task_finished, CENTRAL, whatever);
    starts(&t, 2, 0, DIST);
    talk_end(&t);
}

static void what_was_given_may_be_cancelled(void **state)
{
    struct talk t;
    uint32_t run;

    run = begin_with_request(&t);
    given(&t, run, 2, 1);
    tell(&t, TASK_CANCEL, task_cancel, DIST, .id = TRY(2, 0));
    expect(&t, TASK_FINISHED, task_finished, DIST, m->outcome == OUTCOME_CANCELLED);
    tell(&t, EXEC_PAUSED, exec_paused, 0, .run = run);
    expect(&t, EXEC_RESUME, exec_resume, 0, m->run == run);
    talk_end(&t);
}

/* A worker that ends at once gives it back: it never ran. A dist that comes back hears that it is here. */
static void what_was_given_is_known_and_goes_back(void **state)
{
    struct talk t;
    uint32_t run;

    run = begin_with_request(&t);
    given(&t, run, 2, 1);
    tell(&t, PEER_LOST, peer_lost, DIST, ROLE_DIST);
    nothing(&t);
    tell(&t, PEER_UP, peer_up, DIST, ROLE_DIST);
    expect(&t, TASK_HELD, task_held, DIST, m->id.job.v == JOB(2).v && m->state == TASK_LAUNCHED);
    expect(&t, HELD_END, held_end, DIST, whatever);
    tell(&t, STOP, stop, 0, .now = 1);
    expect(&t, DRAINING, draining, CENTRAL, whatever);
    expect(&t, EXEC_KILL, exec_kill, 0, m->run == run);
    expect(&t, TASK_FINISHED, task_finished, DIST,
           m->id.job.v == JOB(2).v && m->outcome == OUTCOME_LOST && m->code == HAWK_ESHUTDOWN);
    talk_end(&t);
}

/* Each of several asks, as many as there are long tasks; nobody is frozen twice. */
static void several_ask_at_once(void **state)
{
    struct talk t;
    uint32_t run[2];

    begin_pausing(&t, 2);
    two_long(&t, run);
    for (uint64_t job = 3; job < 6; job++)
        short_comes(&t, job);
    pass(&t, S / 16);
    expect(&t, TASK_REQUEST, task_request, DIST, m->job.v == JOB(3).v && m->request == 1);
    expect(&t, TASK_REQUEST, task_request, DIST, m->job.v == JOB(4).v && m->request == 2);
    nothing(&t);
    given(&t, run[1], 4, 2);
    given(&t, run[0], 3, 1);
    tell(&t, EXEC_PAUSED, exec_paused, 0, .run = run[0]);
    starts(&t, 4, 0, DIST); /* whichever stands still first */
    tell(&t, EXEC_PAUSED, exec_paused, 0, .run = run[1]);
    starts(&t, 3, 0, DIST);
    assert_int_equal(counts_of(&t).paused, 2);
    talk_end(&t);
}

/* 10 s in all: then the next slot is its own, though short tasks wait. */
static void its_share_is_a_bound(void **state)
{
    struct talk t;
    uint32_t run, quick;

    run = begin_with_pause(&t, &quick);
    short_comes(&t, 3);
    pass(&t, 6 * S);
    exits(&t, quick, 0);
    expect(&t, TASK_FINISHED, task_finished, DIST, whatever);
    expect(&t, TASK_REQUEST, task_request, DIST, m->job.v == JOB(3).v);
    launch(&t, 3, 0, 2);
    quick = starts(&t, 3, 0, DIST);
    short_comes(&t, 4);
    pass(&t, 6 * S);
    exits(&t, quick, 0);
    expect(&t, TASK_FINISHED, task_finished, DIST, whatever);
    expect(&t, EXEC_RESUME, exec_resume, 0, m->run == run);
    /* And it is paused no more, but when it has run so long that the share is more. */
    pass(&t, 60 * S);
    nothing(&t);
    exits(&t, run, 0);
    expect_end(&t, 12000, OUTCOME_EXITED);
    expect(&t, TASK_REQUEST, task_request, DIST, m->job.v == JOB(4).v);
    talk_end(&t);
}

/* The short task may wait for something that the long one holds. The worker then takes nothing new. */
static void the_longest_pause_overcommits(void **state)
{
    struct talk t;
    uint32_t run, quick;

    run = begin_with_pause(&t, &quick);
    pass(&t, 30 * S - 1);
    nothing(&t);
    pass(&t, 1);
    expect(&t, EXEC_RESUME, exec_resume, 0, m->run == run);
    assert_int_equal(counts_of(&t).running, 2);
    short_comes(&t, 3);
    pass(&t, 10 * S);
    nothing(&t);
    exits(&t, quick, 0);
    expect(&t, TASK_FINISHED, task_finished, DIST, whatever);
    pass(&t, S);
    nothing(&t);
    exits(&t, run, 0);
    expect_end(&t, 30000, OUTCOME_EXITED);
    expect(&t, TASK_REQUEST, task_request, DIST, m->job.v == JOB(3).v);
    talk_end(&t);
}

static void the_youngest_is_paused(void **state)
{
    struct talk t;
    uint32_t run[2];

    begin_pausing(&t, 2);
    two_long(&t, run);
    pass(&t, S);
    short_comes(&t, 3);
    paused_for(&t, run[1], 3, 1);
    talk_end(&t);
    (void)run[0];
}

static void what_a_long_task_is_paused_for_is_long_now(void **state)
{
    struct talk t;
    uint32_t run;

    run = begin_with_request(&t);
    tell(&t, TASK_LAUNCH, task_launch, DIST, .id = TRY(2, 0), .desc = t.desc, .request = 1, .promotable = 1);
    expect(&t, EXEC_PAUSE, exec_pause, 0, m->run == run);
    tell(&t, EXEC_PAUSED, exec_paused, 0, .run = run);
    starts(&t, 2, 0, DIST);
    pass(&t, 10 * S); /* the cutoff */
    expect(&t, TASK_OVERRUN, task_overrun, DIST, whatever);
    expect(&t, EXEC_RESUME, exec_resume, 0, m->run == run);
    talk_end(&t);
}

static void goes_back(struct talk *t, uint64_t job)
{
    expect(t, TASK_FINISHED, task_finished, DIST,
           m->id.job.v == JOB(job).v && m->outcome == OUTCOME_LOST && m->code == HAWK_EBUSY);
    nothing(t);
}

/* The short task goes back to its dist, as one that never ran; the worker asks for the next one after a while. */
static void refuses(struct talk *t, uint32_t run, uint64_t job, uint32_t request, int64_t wait_us)
{
    given(t, run, job, request);
    tell(t, EXEC_PAUSED, exec_paused, 0, .run = run, .err = HAWK_EBUSY);
    goes_back(t, job);
    short_comes(t, job + 1);
    pass(t, wait_us - 1);
    nothing(t);
    pass(t, 1);
    expect(t, TASK_REQUEST, task_request, DIST, m->job.v == JOB(job + 1).v);
}

/* It tries the long one after twice as long with each refusal in a row, up to about a minute. */
static void an_executor_may_refuse(void **state)
{
    struct talk t;
    uint32_t run, quick;

    run = begin_with_request(&t);
    for (uint32_t i = 0; i < 8; i++)
        refuses(&t, run, 2 + i, 1 + i, S << (i < 6 ? i : 6));
    given(&t, run, 10, 9);
    tell(&t, EXEC_PAUSED, exec_paused, 0, .run = run);
    quick = starts(&t, 10, 0, DIST);
    exits(&t, quick, 0);
    expect(&t, TASK_FINISHED, task_finished, DIST, whatever);
    expect(&t, EXEC_RESUME, exec_resume, 0, m->run == run);
    short_comes(&t, 11);
    expect_request(&t, 11, 10);
    refuses(&t, run, 11, 10, S);
    talk_end(&t);
}

/* Another long task is frozen instead, if there is one. */
static void what_cannot_be_frozen_is_left_alone(void **state)
{
    struct talk t;
    uint32_t run[2];

    begin_pausing(&t, 2);
    younger_is_asked_for(&t, run);
    tell(&t, EXEC_PAUSED, exec_paused, 0, .run = run[1], .err = HAWK_EUNSUPPORTED);
    expect(&t, EXEC_PAUSE, exec_pause, 0, m->run == run[0]);
    tell(&t, EXEC_PAUSED, exec_paused, 0, .run = run[0], .err = HAWK_EUNSUPPORTED);
    goes_back(&t, 3);
    short_comes(&t, 4);
    pass(&t, 100 * S);
    nothing(&t);
    talk_end(&t);
}

/* A task that does not stand still keeps no other from doing so. */
static void one_refusal_is_no_other_tasks(void **state)
{
    struct talk t;
    uint32_t run[2];

    begin_pausing(&t, 2);
    younger_is_asked_for(&t, run);
    tell(&t, EXEC_PAUSED, exec_paused, 0, .run = run[1], .err = HAWK_EBUSY);
    expect(&t, EXEC_PAUSE, exec_pause, 0, m->run == run[0]);
    tell(&t, EXEC_PAUSED, exec_paused, 0, .run = run[0]);
    starts(&t, 3, 0, DIST);
    short_comes(&t, 4);
    pass(&t, S - 1);
    nothing(&t);
    pass(&t, 1);
    expect(&t, TASK_REQUEST, task_request, DIST, m->job.v == JOB(4).v);
    launch(&t, 4, 0, 2);
    expect(&t, EXEC_PAUSE, exec_pause, 0, m->run == run[1]);
    talk_end(&t);
}

static void a_job_may_refuse(void **state)
{
    struct talk t;

    begin_pausing(&t, 1);
    t.desc->flags |= JOB_NO_PAUSE;
    long_task(&t, 1);
    short_comes(&t, 2);
    pass(&t, 100 * S);
    nothing(&t);
    talk_end(&t);
}

/* It would be none the sooner. */
static void no_task_pauses_a_sibling(void **state)
{
    struct talk t;

    begin_pausing(&t, 1);
    long_task(&t, 1);
    short_comes(&t, 1);
    pass(&t, 100 * S);
    nothing(&t);
    talk_end(&t);
}

/* A cancelled task goes on, so that it can handle its signal; so does one whose lease is over. */
static void a_kill_ends_the_pause(void **state)
{
    struct talk t;
    uint32_t run, quick;

    run = begin_with_pause(&t, &quick);
    tell(&t, TASK_CANCEL, task_cancel, CENTRAL, .id = TRY(1, 0));
    expect(&t, EXEC_RESUME, exec_resume, 0, m->run == run);
    expect(&t, EXEC_KILL, exec_kill, 0, m->run == run);
    tell(&t, EXEC_EXITED, exec_exited, 0, .run = run, .outcome = OUTCOME_SIGNALED, .code = 15);
    expect_end(&t, 0, OUTCOME_CANCELLED);
    assert_int_equal(counts_of(&t).free, 0);
    exits(&t, quick, 0);
    expect(&t, TASK_FINISHED, task_finished, DIST, whatever);
    assert_int_equal(counts_of(&t).free, 1);
    talk_end(&t);
}

static void a_stop_reaches_paused_tasks(void **state)
{
    struct talk t;
    uint32_t run, quick;

    run = begin_with_pause(&t, &quick);
    tell(&t, STOP, stop, 0, .now = 1);
    expect(&t, DRAINING, draining, CENTRAL, whatever);
    expect(&t, EXEC_RESUME, exec_resume, 0, m->run == run);
    expect(&t, EXEC_KILL, exec_kill, 0, m->run == run);
    expect(&t, EXEC_KILL, exec_kill, 0, m->run == quick);
    talk_end(&t);
}

/* A frozen task may die: of memory that ran out, say. */
static void a_paused_task_may_end(void **state)
{
    struct talk t;
    uint32_t run, quick;

    run = begin_with_pause(&t, &quick);
    tell(&t, EXEC_EXITED, exec_exited, 0, .run = run, .outcome = OUTCOME_SIGNALED, .code = 9);
    expect(&t, TASK_PAUSED, task_paused, CENTRAL, m->times == 1 && m->stood_ms == 1);
    expect(&t, TASK_FINISHED, task_finished, CENTRAL, m->outcome == OUTCOME_SIGNALED);
    exits(&t, quick, 0);
    expect(&t, TASK_FINISHED, task_finished, DIST, whatever);
    assert_int_equal(counts_of(&t).free, 1);
    talk_end(&t);
}

/* The spawner thawed what its agent had frozen: both run on, and the next agent takes nothing until one has ended. */
static void a_new_process_finds_both_running(void **state)
{
    struct talk t;
    uint32_t both[] = {4096 + 0, 8192 + 1};

    talk_init(&t, 1);
    t.config.policy.flags = (t.config.policy.flags | POLICY_PAUSE) & ~(uint32_t)POLICY_STEAL;
    t.config.pause.paused_max = 1;
    worker_init(&t.w, &t.config, 1);
    for (uint32_t i = 0; i < 2; i++)
        tell(&t, EXEC_HELD, exec_held, 0, .id = TRY(1 + i, 0), .run = both[i], .owner = {DIST},
             .class = i ? CLASS_SHORT : CLASS_LONG, .run_us = S);
    assert_int_equal(counts_of(&t).running, 2);
    tell(&t, START, start, 0, 0);
    tell(&t, PEER_UP, peer_up, DIST, ROLE_DIST);
    expect(&t, TASK_HELD, task_held, DIST, whatever);
    expect(&t, TASK_HELD, task_held, DIST, whatever);
    expect(&t, HELD_END, held_end, DIST, whatever);
    short_comes(&t, 3);
    exits(&t, both[1], 0);
    expect(&t, TASK_FINISHED, task_finished, DIST, whatever);
    nothing(&t);
    exits(&t, both[0], 0);
    expect(&t, TASK_FINISHED, task_finished, DIST, whatever);
    expect(&t, TASK_REQUEST, task_request, DIST, m->job.v == JOB(3).v);
    talk_end(&t);
}

static void next_heartbeat(struct talk *t)
{
    while (t->out.n == t->taken || t->out.v[t->taken].type == MSG_COUNTER) {
        if (t->out.n == t->taken)
            pass(t, S);
        else
            t->taken++;
    }
}

static void central_is_back(struct talk *t)
{
    tell(t, PEER_LOST, peer_lost, CENTRAL, 0);
    tell(t, PEER_UP, peer_up, CENTRAL, ROLE_CENTRAL);
    expect(t, JOIN, join, CENTRAL, whatever);
    tell(t, JOINED, joined, CENTRAL, .node = {SELF}, .heartbeat_us = S, .lease_us = 60 * S);
    expect(t, TASK_HELD, task_held, CENTRAL, m->state == TASK_RUNNING);
    expect(t, HELD_END, held_end, CENTRAL, whatever);
}

/* With the heartbeat after it began and after it ended, and in full to an owner that is back. */
static void owners_hear_of_pauses(void **state)
{
    struct talk t;
    uint32_t quick;

    begin_with_pause(&t, &quick);
    t.w.config.heartbeats = true;
    central_is_back(&t);
    next_heartbeat(&t);
    expect(&t, TASK_PAUSED, task_paused, CENTRAL,
           m->times == 1 && m->for_job.v == JOB(2).v && m->stood_ms == 1000 && m->paused_ms == 1000 &&
               m->run_us == S / 16);
    expect(&t, HEARTBEAT, heartbeat, CENTRAL, m->paused == 1);
    next_heartbeat(&t); /* nothing new */
    expect(&t, HEARTBEAT, heartbeat, CENTRAL, m->paused == 1);
    central_is_back(&t); /* and may have forgotten it */
    next_heartbeat(&t);
    expect(&t, TASK_PAUSED, task_paused, CENTRAL, m->times == 1 && m->paused_ms == 3000);
    expect(&t, HEARTBEAT, heartbeat, CENTRAL, m->paused == 1);
    exits(&t, quick, 0);
    expect(&t, TASK_FINISHED, task_finished, DIST, whatever);
    expect(&t, EXEC_RESUME, exec_resume, 0, whatever);
    tell(&t, FINISH_ACK, finish_ack, DIST, .id = TRY(2, 0));
    next_heartbeat(&t);
    expect(&t, TASK_PAUSED, task_paused, CENTRAL, m->times == 1 && m->stood_ms == 0 && m->paused_ms == 3000);
    expect(&t, HEARTBEAT, heartbeat, CENTRAL, m->paused == 0);
    talk_end(&t);
}

/* Its slots are all in use: for the short tasks, and then for those that stand still. */
static void a_worker_that_pauses_asks_for_no_long_task(void **state)
{
    struct talk t;
    uint32_t run, quick;

    begin_pausing(&t, 1);
    t.w.config.policy.flags |= POLICY_LATE_LONG;
    tell(&t, LONG_WORK, long_work, CENTRAL, .any = 1);
    expect(&t, LONG_REQUEST, long_request, CENTRAL, m->slots == 1);
    run = long_task(&t, 1);
    short_comes(&t, 2);
    quick = paused_for(&t, run, 2, 1);
    pass(&t, 3 * S);
    nothing(&t);
    exits(&t, quick, 0);
    expect(&t, TASK_FINISHED, task_finished, DIST, whatever);
    expect(&t, EXEC_RESUME, exec_resume, 0, whatever);
    pass(&t, 3 * S);
    nothing(&t);
    exits(&t, run, 0);
    expect(&t, TASK_PAUSED, task_paused, CENTRAL, whatever);
    expect(&t, TASK_FINISHED, task_finished, CENTRAL, whatever);
    expect(&t, LONG_REQUEST, long_request, CENTRAL, m->slots == 1);
    talk_end(&t);
}

/* While it starts, no long task can be paused. That it has started is an event of its own for who waits. */
static void a_long_task_that_was_starting_is_looked_at_again(void **state)
{
    struct talk t;
    uint32_t run;

    begin_pausing(&t, 1);
    tell(&t, TASK_ENQUEUE, task_enqueue, CENTRAL, .id = TRY(1, 0), .desc = t.desc, .estimate_us = ESTIMATE);
    expect(&t, EXEC_START, exec_start, 0, m->id.job.v == JOB(1).v);
    run = t.out.v[t.taken - 1].exec_start.run;
    short_comes(&t, 2);
    pass(&t, S);
    nothing(&t);
    tell(&t, EXEC_STARTED, exec_started, 0, .run = run, .pid = 1);
    expect(&t, TASK_STARTED, task_started, CENTRAL, whatever);
    expect(&t, TASK_REQUEST, task_request, DIST, m->job.v == JOB(2).v && m->request == 1);
    given(&t, run, 2, 1);
    talk_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_task_takes_the_slot_of_a_long_one),
        cmocka_unit_test(without_the_policy_it_waits),
        cmocka_unit_test(without_a_task_nothing_is_frozen),
        cmocka_unit_test(a_free_slot_is_taken_by_who_asked),
        cmocka_unit_test(a_free_slot_is_taken_by_what_was_given),
        cmocka_unit_test(a_budget_that_grows_is_looked_at_again),
        cmocka_unit_test(a_long_task_that_was_starting_is_looked_at_again),
        cmocka_unit_test(what_was_given_outlives_its_pause),
        cmocka_unit_test(what_was_given_may_be_cancelled),
        cmocka_unit_test(what_was_given_is_known_and_goes_back),
        cmocka_unit_test(several_ask_at_once),
        cmocka_unit_test(its_share_is_a_bound),
        cmocka_unit_test(the_longest_pause_overcommits),
        cmocka_unit_test(the_youngest_is_paused),
        cmocka_unit_test(what_a_long_task_is_paused_for_is_long_now),
        cmocka_unit_test(an_executor_may_refuse),
        cmocka_unit_test(what_cannot_be_frozen_is_left_alone),
        cmocka_unit_test(one_refusal_is_no_other_tasks),
        cmocka_unit_test(a_job_may_refuse),
        cmocka_unit_test(no_task_pauses_a_sibling),
        cmocka_unit_test(a_kill_ends_the_pause),
        cmocka_unit_test(a_stop_reaches_paused_tasks),
        cmocka_unit_test(a_paused_task_may_end),
        cmocka_unit_test(a_new_process_finds_both_running),
        cmocka_unit_test(owners_hear_of_pauses),
        cmocka_unit_test(a_worker_that_pauses_asks_for_no_long_task),
    };

    return cmocka_run_group_tests_name("worker_pause", tests, NULL, NULL);
}
