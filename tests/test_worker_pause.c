/* A worker that pauses long tasks for short ones (POLICY_PAUSE, DESIGN 3.13). */
#include "tests/test_worker.h"

#define S US_PER_S
#define ESTIMATE (100 * S) /* of each long task */

static void begin_pausing(struct talk *t, uint32_t slots)
{
    talk_init(t, slots);
    t->config.policy.flags = (t->config.policy.flags | POLICY_PAUSE) & ~(uint32_t)POLICY_STEAL;
    t->config.pause.paused_max = slots;
    t->config.pause.longest_us = 30 * S;
    t->config.pause.share_milli = 100; /* a long task may stand still for 10 s in all */
    talk_start(t);
    join(t);
    dist_comes(t, DIST);
}

static uint32_t long_task(struct talk *t, uint64_t job)
{
    tell(t, TASK_ENQUEUE, task_enqueue, CENTRAL, .id = TRY(job, 0), .desc = t->desc, .estimate_us = ESTIMATE);
    return starts(t, job, 0, CENTRAL);
}

static void short_comes(struct talk *t, uint64_t job)
{
    tell(t, PROBE, probe, DIST, .job = JOB(job), .count = 1, .class = CLASS_SHORT, .estimate_us = S);
    nothing(t);
}

/* Patience is a fortieth of what the short task takes. */
static void expect_pause(struct talk *t, uint32_t run)
{
    pass(t, S / 40 - 1);
    nothing(t);
    pass(t, 1);
    expect(t, EXEC_PAUSE, exec_pause, 0, m->run == run);
    nothing(t);
}

static uint32_t paused_for(struct talk *t, uint32_t run, uint64_t job, uint32_t request)
{
    tell(t, EXEC_PAUSED, exec_paused, 0, .run = run);
    expect(t, TASK_REQUEST, task_request, DIST, m->job.v == JOB(job).v && m->request == request);
    launch(t, job, 0, request);
    return starts(t, job, 0, DIST);
}

static void a_short_task_takes_the_slot_of_a_long_one(void **state)
{
    struct worker_running r;
    struct talk t;
    uint32_t run, quick;

    begin_pausing(&t, 1);
    run = long_task(&t, 1);
    pass(&t, 50 * S);
    short_comes(&t, 2);
    expect_pause(&t, run);
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
    assert_true(worker_running(&t.w, worker_slot_of(run), t.now_us, &r));
    assert_int_equal(r.run_us, 50 * S + S / 40);
    assert_int_equal(worker_counter(&t.w, COUNTER_tasks_paused), 1);
    assert_int_equal(worker_counter(&t.w, COUNTER_paused_ms), 3000);
    exits(&t, run, 0);
    expect(&t, TASK_FINISHED, task_finished, CENTRAL, whatever);
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

/* Nobody has a task any more: the long one goes on at once. */
static void nothing_to_run_ends_the_pause(void **state)
{
    struct talk t;
    uint32_t run;

    begin_pausing(&t, 1);
    run = long_task(&t, 1);
    short_comes(&t, 2);
    expect_pause(&t, run);
    tell(&t, EXEC_PAUSED, exec_paused, 0, .run = run);
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    tell(&t, NO_TASK, no_task, DIST, .job = JOB(2), .request = 1);
    expect(&t, EXEC_RESUME, exec_resume, 0, m->run == run);
    /* The same when the reservation is withdrawn before the executor answers. */
    short_comes(&t, 3);
    expect_pause(&t, run);
    tell(&t, PROBE_CANCEL, probe_cancel, DIST, .job = JOB(3));
    expect(&t, PROBE_CANCELLED, probe_cancelled, DIST, m->count == 1);
    tell(&t, EXEC_PAUSED, exec_paused, 0, .run = run);
    expect(&t, EXEC_RESUME, exec_resume, 0, m->run == run);
    talk_end(&t);
}

/* 10 s in all: then the next slot is its own, though short tasks wait. */
static void its_share_is_a_bound(void **state)
{
    struct talk t;
    uint32_t run, quick;

    begin_pausing(&t, 1);
    run = long_task(&t, 1);
    short_comes(&t, 2);
    expect_pause(&t, run);
    quick = paused_for(&t, run, 2, 1);
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
    expect(&t, TASK_FINISHED, task_finished, CENTRAL, whatever);
    expect(&t, TASK_REQUEST, task_request, DIST, m->job.v == JOB(4).v);
    talk_end(&t);
}

/* The short task may wait for something that the long one holds. The worker then takes nothing new. */
static void the_longest_pause_overcommits(void **state)
{
    struct talk t;
    uint32_t run, quick;

    begin_pausing(&t, 1);
    run = long_task(&t, 1);
    short_comes(&t, 2);
    expect_pause(&t, run);
    quick = paused_for(&t, run, 2, 1);
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
    expect(&t, TASK_FINISHED, task_finished, CENTRAL, whatever);
    expect(&t, TASK_REQUEST, task_request, DIST, m->job.v == JOB(3).v);
    talk_end(&t);
}

static void the_youngest_is_paused(void **state)
{
    struct talk t;
    uint32_t run[2];

    begin_pausing(&t, 2);
    run[0] = long_task(&t, 1);
    pass(&t, S);
    run[1] = long_task(&t, 2);
    pass(&t, S);
    short_comes(&t, 3);
    expect_pause(&t, run[1]);
    talk_end(&t);
    (void)run[0];
}

static void what_a_long_task_is_paused_for_is_long_now(void **state)
{
    struct talk t;
    uint32_t run;

    begin_pausing(&t, 1);
    run = long_task(&t, 1);
    short_comes(&t, 2);
    expect_pause(&t, run);
    tell(&t, EXEC_PAUSED, exec_paused, 0, .run = run);
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    tell(&t, TASK_LAUNCH, task_launch, DIST, .id = TRY(2, 0), .desc = t.desc, .request = 1, .promotable = 1);
    starts(&t, 2, 0, DIST);
    pass(&t, 10 * S); /* the cutoff */
    expect(&t, TASK_OVERRUN, task_overrun, DIST, whatever);
    expect(&t, EXEC_RESUME, exec_resume, 0, m->run == run);
    talk_end(&t);
}

static void an_executor_may_refuse(void **state)
{
    struct talk t;
    uint32_t run;

    begin_pausing(&t, 1);
    run = long_task(&t, 1);
    short_comes(&t, 2);
    expect_pause(&t, run);
    tell(&t, EXEC_PAUSED, exec_paused, 0, .run = run, .err = HAWK_EBUSY);
    nothing(&t);
    pass(&t, S - 1);
    nothing(&t);
    pass(&t, 1); /* asked again */
    expect(&t, EXEC_PAUSE, exec_pause, 0, m->run == run);
    tell(&t, EXEC_PAUSED, exec_paused, 0, .run = run, .err = HAWK_EUNSUPPORTED);
    pass(&t, 100 * S);
    nothing(&t);
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

    begin_pausing(&t, 1);
    run = long_task(&t, 1);
    short_comes(&t, 2);
    expect_pause(&t, run);
    quick = paused_for(&t, run, 2, 1);
    tell(&t, TASK_CANCEL, task_cancel, CENTRAL, .id = TRY(1, 0));
    expect(&t, EXEC_RESUME, exec_resume, 0, m->run == run);
    expect(&t, EXEC_KILL, exec_kill, 0, m->run == run);
    tell(&t, EXEC_EXITED, exec_exited, 0, .run = run, .outcome = OUTCOME_SIGNALED, .code = 15);
    expect(&t, TASK_FINISHED, task_finished, CENTRAL, m->outcome == OUTCOME_CANCELLED);
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

    begin_pausing(&t, 1);
    run = long_task(&t, 1);
    short_comes(&t, 2);
    expect_pause(&t, run);
    quick = paused_for(&t, run, 2, 1);
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

    begin_pausing(&t, 1);
    run = long_task(&t, 1);
    short_comes(&t, 2);
    expect_pause(&t, run);
    quick = paused_for(&t, run, 2, 1);
    tell(&t, EXEC_EXITED, exec_exited, 0, .run = run, .outcome = OUTCOME_SIGNALED, .code = 9);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_task_takes_the_slot_of_a_long_one),
        cmocka_unit_test(without_the_policy_it_waits),
        cmocka_unit_test(nothing_to_run_ends_the_pause),
        cmocka_unit_test(its_share_is_a_bound),
        cmocka_unit_test(the_longest_pause_overcommits),
        cmocka_unit_test(the_youngest_is_paused),
        cmocka_unit_test(what_a_long_task_is_paused_for_is_long_now),
        cmocka_unit_test(an_executor_may_refuse),
        cmocka_unit_test(a_job_may_refuse),
        cmocka_unit_test(no_task_pauses_a_sibling),
        cmocka_unit_test(a_kill_ends_the_pause),
        cmocka_unit_test(a_stop_reaches_paused_tasks),
        cmocka_unit_test(a_paused_task_may_end),
        cmocka_unit_test(a_new_process_finds_both_running),
    };

    return cmocka_run_group_tests_name("worker_pause", tests, NULL, NULL);
}
