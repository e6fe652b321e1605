/* Workers that pause long tasks for short ones (POLICY_PAUSE), and what their tests say often. */
#ifndef HAWK_TESTS_TEST_WORKER_PAUSE_H
#define HAWK_TESTS_TEST_WORKER_PAUSE_H

#include "tests/test_worker.h"

#define S US_PER_S
#define ESTIMATE (100 * S) /* of each long task */

static inline void begin_pausing(struct talk *t, uint32_t slots)
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

static inline uint32_t long_task(struct talk *t, uint64_t job)
{
    tell(t, TASK_ENQUEUE, task_enqueue, CENTRAL, .id = TRY(job, 0), .desc = t->desc, .estimate_us = ESTIMATE);
    return starts(t, job, 0, CENTRAL);
}

static inline void short_comes(struct talk *t, uint64_t job)
{
    tell(t, PROBE, probe, DIST, .job = JOB(job), .count = 1, .class = CLASS_SHORT, .estimate_us = S);
    nothing(t);
}

/* Patience is a sixteenth of what the short task takes. Nothing is frozen yet. */
static inline void expect_request(struct talk *t, uint64_t job, uint32_t request)
{
    pass(t, S / 16 - 1);
    nothing(t);
    pass(t, 1);
    expect(t, TASK_REQUEST, task_request, DIST, m->job.v == JOB(job).v && m->request == request);
    nothing(t);
}

/* The request was answered: now there is something to freeze for. */
static inline void given(struct talk *t, uint32_t run, uint64_t job, uint32_t request)
{
    launch(t, job, 0, request);
    expect(t, EXEC_PAUSE, exec_pause, 0, m->run == run);
    nothing(t);
    assert_int_equal(counts_of(t).paused, 0);
}

static inline uint32_t paused_for(struct talk *t, uint32_t run, uint64_t job, uint32_t request)
{
    expect_request(t, job, request);
    given(t, run, job, request);
    tell(t, EXEC_PAUSED, exec_paused, 0, .run = run);
    return starts(t, job, 0, DIST);
}

#endif
