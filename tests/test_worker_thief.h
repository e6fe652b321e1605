/* A worker that looks for work: for test_worker_steal.c and test_worker_parked.c. */
#ifndef HAWK_TESTS_TEST_WORKER_THIEF_H
#define HAWK_TESTS_TEST_WORKER_THIEF_H

#include "tests/test_worker.h"

/* A one-slot worker in a cluster where long work exists, that has just run dry: its first question is out. */
static inline uint32_t thief_begin(struct talk *t)
{
    uint32_t victim;

    talk_begin(t, 1);
    members_are(t, 30);
    probe(t, 1, 1);
    expect(t, TASK_REQUEST, task_request, DIST, m->request == 1);
    tell(t, LONG_WORK, long_work, CENTRAL, .any = 1);
    nothing(t); /* it is not idle */
    tell(t, NO_TASK, no_task, DIST, .job = JOB(1), .request = 1);
    assert_int_equal(t->out.n, 1);
    victim = t->out.v[0].peer;
    expect(t, STEAL_REQUEST, steal_request, victim,
           m->request == 1 && m->max == worker_policy(&t->w)->steal_max);
    assert_true(victim > SELF && victim <= SELF + 30);
    return victim;
}

static inline uint32_t has_nothing(struct talk *t, uint32_t victim, uint32_t request)
{
    tell(t, STEAL_LOOT, steal_loot, victim, .request = request, .items = 0);
    if (t->out.n == 0 || t->out.v[0].type != MSG_STEAL_REQUEST)
        return 0;
    t->taken = 1;
    assert_int_equal(t->out.v[0].steal_request.request, request + 1);
    return t->out.v[0].peer;
}

static inline void fail_the_round(struct talk *t, uint32_t victim)
{
    for (uint32_t request = t->w.thief.request; victim; request++)
        victim = has_nothing(t, victim, request);
}

#endif
