/* A worker that has an end (worker.end_time): it says so, and takes nothing whose estimate does not fit into the time
 * that is left. */
#include "tests/test_worker.h"

#define S US_PER_S
#define LEFT (100 * S)

/* A joined general worker with two dists, which ends in 100 s. */
static void begin_ending(struct talk *t)
{
    talk_init(t, 1);
    t->config.ends_us = t->now_us + LEFT;
    talk_start(t);
    tell(t, PEER_UP, peer_up, CENTRAL, ROLE_CENTRAL);
    expect(t, JOIN, join, CENTRAL, whatever);
    tell(t, JOINED, joined, CENTRAL, .node = {SELF}, .heartbeat_us = 500 * MS, .lease_us = 60 * S);
    expect(t, ENDS, ends, CENTRAL, m->left_us == LEFT);
    expect(t, HELD_END, held_end, CENTRAL, whatever);
    tell(t, PARTITION, partition, CENTRAL, .epoch = 1, .general = 1);
    expect(t, PARTITION_ACK, partition_ack, CENTRAL, whatever);
    dist_comes(t, DIST);
    dist_comes(t, DIST2);
}

static void probe_for(struct talk *t, uint64_t job, int64_t estimate_us)
{
    tell(t, PROBE, probe, DIST, .job = JOB(job), .count = 2, .estimate_us = estimate_us);
}

static void what_does_not_fit_is_refused(void **state)
{
    struct talk t;

    begin_ending(&t);
    probe_for(&t, 1, LEFT + 1);
    expect(&t, PROBE_REFUSED, probe_refused, DIST, m->count == 2 && m->err == HAWK_ENO_TIME);
    probe_for(&t, 2, LEFT);
    expect(&t, TASK_REQUEST, task_request, DIST, m->job.v == JOB(2).v);
    probe_for(&t, 3, 0); /* nobody knows */
    tell(&t, NO_TASK, no_task, DIST, .job = JOB(2), .request = 1);
    expect(&t, TASK_REQUEST, task_request, DIST, m->job.v == JOB(3).v);
    talk_end(&t);
}

static void a_reservation_that_waited_too_long_is_refused(void **state)
{
    struct talk t;

    begin_ending(&t);
    uint32_t run = long_runs(&t, 9);
    probe_for(&t, 1, LEFT);
    expect(&t, STUCK, stuck, CENTRAL, m->stuck);
    probe_for(&t, 2, LEFT / 2);
    t.now_us += S;
    exits(&t, run, 0);
    expect(&t, TASK_FINISHED, task_finished, CENTRAL, whatever);
    expect(&t, PROBE_REFUSED, probe_refused, DIST,
           m->job.v == JOB(1).v && m->count == 2 && m->err == HAWK_ENO_TIME);
    expect(&t, TASK_REQUEST, task_request, DIST, m->job.v == JOB(2).v);
    expect(&t, STUCK, stuck, CENTRAL, !m->stuck);
    talk_end(&t);
}

static void a_long_task_goes_back(void **state)
{
    struct talk t;

    begin_ending(&t);
    t.desc->estimate_us = LEFT + 1;
    enqueue(&t, 1, 0);
    expect(&t, TASK_RETURNED, task_returned, CENTRAL, m->id.job.v == JOB(1).v);
    t.desc->estimate_us = 0; /* central's guess, the cutoff, is no estimate */
    tell(&t, TASK_ENQUEUE, task_enqueue, CENTRAL, .id = TRY(2, 0), .desc = t.desc, .estimate_us = LEFT + 1);
    uint32_t run = starts(&t, 2, 0, CENTRAL);
    /* One that waits behind it, and fits now. */
    struct job_desc *waits = job_desc_new();
    waits->tasks = 1;
    waits->estimate_us = LEFT;
    tell(&t, TASK_ENQUEUE, task_enqueue, CENTRAL, .id = TRY(3, 0), .desc = waits, .estimate_us = LEFT);
    job_desc_drop(waits);
    t.now_us += S;
    exits(&t, run, 0);
    expect(&t, TASK_FINISHED, task_finished, CENTRAL, m->id.job.v == JOB(2).v);
    expect(&t, TASK_RETURNED, task_returned, CENTRAL, m->id.job.v == JOB(3).v);
    talk_end(&t);
}

static void a_thief_declines_what_does_not_fit(void **state)
{
    struct talk t;

    begin_ending(&t);
    members_are(&t, 1);
    probe_for(&t, 9, 0);
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    tell(&t, PROBE_CANCEL, probe_cancel, DIST, .job = JOB(9));
    expect(&t, PROBE_CANCELLED, probe_cancelled, DIST, whatever);
    tell(&t, LONG_WORK, long_work, CENTRAL, .any = 1);
    tell(&t, NO_TASK, no_task, DIST, .job = JOB(9), .request = 1);
    expect(&t, STEAL_REQUEST, steal_request, OTHER, whatever);
    tell(&t, STEAL_LOOT, steal_loot, OTHER, .request = 1, .items = 2, .job = JOB(1), .dist = {DIST},
         .count = 1, .estimate_us = LEFT + 1);
    expect(&t, STEAL_ACK, steal_ack, OTHER, m->accepted == 0);
    tell(&t, STEAL_LOOT, steal_loot, OTHER, .request = 1, .items = 2, .index = 1, .job = JOB(2),
         .dist = {DIST}, .count = 1, .estimate_us = S);
    expect(&t, RES_MOVED, res_moved, DIST, m->job.v == JOB(2).v);
    expect(&t, STEAL_ACK, steal_ack, OTHER, m->accepted == 1);
    expect(&t, TASK_REQUEST, task_request, DIST, m->job.v == JOB(2).v);
    talk_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(a_reservation_that_waited_too_long_is_refused),
        cmocka_unit_test(a_long_task_goes_back),
        cmocka_unit_test(a_thief_declines_what_does_not_fit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
