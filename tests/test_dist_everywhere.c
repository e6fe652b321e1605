/* Flag probe_everywhere: where workers are few, a short job has a reservation at each (docs/protocol.md 3.4, 3.9). */
#include "tests/test_dist.h"

/* The reservations that the job's probes of this step made, by worker from 101 on. Returns their sum. */
static uint32_t note_probes(struct talk *t, uint32_t at[17])
{
    uint32_t sum = 0;

    memset(at, 0, 17 * sizeof *at);
    for (uint32_t i = 0; i < t->out.n; i++) {
        if (t->out.v[i].type != MSG_PROBE)
            continue;
        at[t->out.v[i].peer - 101] += t->out.v[i].probe.count;
        sum += t->out.v[i].probe.count;
    }
    ignore(t);
    return sum;
}

static uint32_t reservations(const char *policy, uint32_t workers, uint32_t at[17])
{
    struct talk *t = talk_joined(policy, workers);
    uint32_t sum;

    submit(t, tagged(1));
    sum = note_probes(t, at);
    talk_end(t);
    return sum;
}

static void test_a_job_of_one_task_is_at_each_of_sixteen_workers(void **state)
{
    uint32_t at[17];

    assert_int_equal(reservations("harrier", 16, at), 16);
    for (int i = 0; i < 16; i++)
        assert_int_equal(at[i], 1);
    assert_int_equal(reservations("harrier", 17, at), 2);
    assert_int_equal(reservations("hawk", 16, at), 2);
}

/* Two draws may meet at a worker of two slots. The other one gets a probe all the same. */
static void test_draws_that_meet_leave_nobody_out(void **state)
{
    struct talk *t = talk_joined("harrier", 0);
    uint32_t at[17], met = 0;

    worker_up(t, 101, 2, true);
    worker_up(t, 102, 2, true);
    for (int i = 0; i < 20; i++) {
        uint32_t sum;

        submit(t, tagged(1));
        sum = note_probes(t, at);
        met += sum == 3;
        assert_in_range(sum, 2, 3);
        assert_true(at[0] > 0 && at[1] > 0);
    }
    assert_in_range(met, 1, 19);
    talk_end(t);
}

/* Worker 101 has an idle slot, the others keep theirs. It asks once for each task; does a reservation come back? */
static void idle_worker(const char *policy, bool refilled)
{
    struct talk *t = talk_new(policy);

    t->cfg.policy.probe_ratio_milli = 1000;
    talk_begin(t);
    central_joins(t);
    for (uint32_t i = 0; i < 3; i++)
        worker_up(t, 101 + i, 1, true);
    submit(t, tagged(3));
    ignore(t);
    for (uint32_t i = 0; i < 2; i++) {
        request(t, 101, 1, i + 1);
        says(t, "101 TASK_LAUNCH id=3.1/");
        if (refilled)
            says(t, "101 PROBE job=3.1 estimate_us=0 count=1");
    }
    request(t, 101, 1, 3);
    says(t, "101 TASK_LAUNCH id=3.1/2@1.1");
    says(t, "102 PROBE_CANCEL job=3.1");
    says(t, "103 PROBE_CANCEL job=3.1");
    talk_end(t);
}

static void test_an_idle_worker_gets_one_task_after_the_other(void **state)
{
    idle_worker("harrier", true);
    idle_worker("hawk", false);
}

/* A worker with 64 reservations of this dist has enough to do. */
static void test_a_backlog_is_not_everywhere(void **state)
{
    struct talk *t = talk_joined("harrier", 3);
    uint32_t at[17];

    for (uint32_t i = 0; i < 100; i++) {
        submit(t, tagged(1));
        assert_int_equal(note_probes(t, at), i < 64 ? 3 : 2);
    }
    worker_up(t, 104, 1, true);
    assert_int_equal(note_probes(t, at), 64);
    assert_int_equal(at[3], 64);
    talk_end(t);
}

/* A worker that comes gets one; one that is drained gets no more. */
static void test_workers_that_come_and_go(void **state)
{
    struct talk *t = talk_joined("harrier", 2);

    submit(t, tagged(3));
    ignore(t);
    worker_up(t, 103, 1, true);
    says(t, "103 PROBE job=3.1");
    submit(t, tagged(1));
    ignore(t);
    worker_up(t, 104, 1, true);
    says(t, "104 PROBE job=3.1");
    says(t, "104 PROBE job=3.2 estimate_us=0 count=1");
    worker_member(t, 104, 1, MEMBER_DRAINING, true);
    ignore(t);
    for (uint32_t i = 0; i < 2; i++) { /* more than it had */
        request(t, 104, 1, i + 1);
        says(t, "104 TASK_LAUNCH id=3.1/");
    }
    talk_end(t);
}

/* With the 17th worker the rule ends, also for jobs that wait. */
static void test_the_seventeenth_gets_none(void **state)
{
    struct talk *t = talk_joined("harrier", 16);

    submit(t, tagged(1));
    ignore(t);
    worker_up(t, 117, 1, true);
    silent(t);
    worker_member(t, 117, 1, MEMBER_DRAINING, true);
    worker_up(t, 118, 1, true); /* the 16 others have theirs, and nobody looked for more */
    silent(t);
    talk_end(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_job_of_one_task_is_at_each_of_sixteen_workers),
        cmocka_unit_test(test_draws_that_meet_leave_nobody_out),
        cmocka_unit_test(test_an_idle_worker_gets_one_task_after_the_other),
        cmocka_unit_test(test_a_backlog_is_not_everywhere),
        cmocka_unit_test(test_workers_that_come_and_go),
        cmocka_unit_test(test_the_seventeenth_gets_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
