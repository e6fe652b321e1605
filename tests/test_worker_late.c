/* A worker that asks central for long tasks (POLICY_LATE_LONG). */
#include "tests/test_worker.h"

static void begin_late(struct talk *t, uint32_t slots)
{
    talk_init(t, slots);
    t->config.policy.flags = (t->config.policy.flags | POLICY_LATE_LONG) & ~(uint32_t)POLICY_STEAL;
    talk_start(t);
    join(t);
    dist_comes(t, DIST);
    dist_comes(t, DIST2);
    nothing(t);
}

static void it_asks_while_there_is_long_work(void **state)
{
    struct talk t;
    uint32_t run;

    begin_late(&t, 2);
    tell(&t, LONG_WORK, long_work, CENTRAL, .any = 1);
    expect(&t, LONG_REQUEST, long_request, CENTRAL, m->slots == 2 && m->got == 0);
    run = long_runs(&t, 1);
    t.now_us += 20 * MS;
    /* The other slot is still asked for: central knows. */
    tell(&t, TIMER, timer, 0, 0);
    nothing(&t);
    exits(&t, run, 0);
    expect(&t, TASK_FINISHED, task_finished, CENTRAL, whatever);
    expect(&t, LONG_REQUEST, long_request, CENTRAL, m->slots == 2 && m->got == 1);
    t.now_us += 20 * MS;
    tell(&t, LONG_WORK, long_work, CENTRAL, .any = 0);
    expect(&t, LONG_REQUEST, long_request, CENTRAL, m->slots == 0 && m->got == 1);
    talk_end(&t);
}

/* Its own short work comes first: central is told that the slot is taken, and what was under way goes back. */
static void a_slot_that_is_taken_sends_the_task_back(void **state)
{
    struct talk t;

    begin_late(&t, 1);
    tell(&t, LONG_WORK, long_work, CENTRAL, .any = 1);
    expect(&t, LONG_REQUEST, long_request, CENTRAL, m->slots == 1 && m->got == 0);
    t.now_us += 20 * MS;
    probe(&t, 2, 1);
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    expect(&t, LONG_REQUEST, long_request, CENTRAL, m->slots == 0 && m->got == 0);
    enqueue(&t, 1, 0);
    expect(&t, TASK_RETURNED, task_returned, CENTRAL, whatever);
    t.now_us += 20 * MS;
    tell(&t, NO_TASK, no_task, DIST, .job = JOB(2), .request = 1);
    expect(&t, LONG_REQUEST, long_request, CENTRAL, m->slots == 1 && m->got == 1);
    talk_end(&t);
}

/* What is stuck elsewhere comes before a long task. */
static void a_thief_looks_round_first(void **state)
{
    struct talk t;

    talk_init(&t, 1);
    t.config.policy.flags |= POLICY_LATE_LONG;
    talk_start(&t);
    join(&t);
    dist_comes(&t, DIST);
    members_are(&t, 1);
    probe(&t, 1, 1);
    expect(&t, TASK_REQUEST, task_request, DIST, m->request == 1);
    tell(&t, LONG_WORK, long_work, CENTRAL, .any = 1);
    nothing(&t);
    tell(&t, NO_TASK, no_task, DIST, .job = JOB(1), .request = 1);
    expect(&t, STEAL_REQUEST, steal_request, OTHER, whatever);
    nothing(&t);
    tell(&t, STEAL_LOOT, steal_loot, OTHER, .request = 1, .items = 0);
    expect(&t, PARKED, parked, CENTRAL, m->parked);
    expect(&t, LONG_REQUEST, long_request, CENTRAL, m->slots == 1);
    talk_end(&t);
}

static void a_reserved_worker_asks_for_nothing(void **state)
{
    struct talk t;

    begin_late(&t, 1);
    tell(&t, PARTITION, partition, CENTRAL, .epoch = 2, .general = 0);
    expect(&t, PARTITION_ACK, partition_ack, CENTRAL, m->epoch == 2);
    tell(&t, LONG_WORK, long_work, CENTRAL, .any = 1);
    nothing(&t);
    talk_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_asks_while_there_is_long_work),
        cmocka_unit_test(a_slot_that_is_taken_sends_the_task_back),
        cmocka_unit_test(a_thief_looks_round_first),
        cmocka_unit_test(a_reserved_worker_asks_for_nothing),
    };

    return cmocka_run_group_tests_name("worker_late", tests, NULL, NULL);
}
