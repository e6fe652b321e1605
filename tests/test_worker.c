/* The worker and its dists: late binding and counts, launches and completions, cancellation, limits,
 * promotion, reconnection, and what an idle worker costs. */
#include "tests/test_worker.h"

#include "worker/internal.h"

/* ---- Late binding ---- */

static void a_probe_becomes_a_task(void **state)
{
    struct talk t;
    uint32_t run;

    talk_begin(&t, 1);
    probe(&t, 1, 1);
    expect(&t, TASK_REQUEST, task_request, DIST, m->job.v == JOB(1).v && m->request == 1 && !m->has_spec);
    t.now_us += 300;
    tell(&t, TASK_LAUNCH, task_launch, DIST, .id = TRY(1, 5), .desc = t.desc, .request = 1);
    expect(&t, EXEC_START, exec_start, 0, m->id.task == 5 && m->id.attempt == 1 && m->desc == t.desc);
    run = t.out.v[0].exec_start.run;
    t.now_us += 200;
    tell(&t, EXEC_STARTED, exec_started, 0, .run = run, .pid = 1);
    expect(&t, TASK_STARTED, task_started, DIST, m->id.task == 5 && m->wait_us == 500);
    t.now_us += 5000;
    tell(&t, EXEC_EXITED, exec_exited, 0, .run = run, .outcome = OUTCOME_EXITED, .code = 3, .run_us = 5000,
         .used = usage_of(1500, 2000));
    expect(&t, TASK_FINISHED, task_finished, DIST,
           m->code == 3 && m->outcome == OUTCOME_EXITED && m->run_us == 5000 && !m->stolen &&
               figure_value(m->used.cpu_us) == 1500 && figure_value(m->used.mem_peak_bytes) == 2000);
    assert_int_equal(counts_of(&t).unacked, 1);
    tell(&t, FINISH_ACK, finish_ack, DIST, .id = TRY(1, 5));
    assert_true(worker_quiet(&t.w));
    assert_int_equal(worker_counter(&t.w, COUNTER_tasks_finished), 1);
    assert_int_equal(worker_counter(&t.w, COUNTER_tasks_failed), 1);
    talk_end(&t);
}

static void a_count_is_used_one_task_per_free_slot(void **state)
{
    struct talk t;
    uint32_t run;

    talk_begin(&t, 2);
    probe(&t, 1, 3);
    expect(&t, TASK_REQUEST, task_request, DIST, m->request == 1);
    expect(&t, TASK_REQUEST, task_request, DIST, m->request == 2);
    assert_int_equal(counts_of(&t).reservations, 1);
    launch(&t, 1, 0, 1);
    run = starts(&t, 1, 0, DIST);
    launch(&t, 1, 1, 2);
    starts(&t, 1, 1, DIST);
    /* The completion and the slot's next request leave together, and the description is known by now. */
    exits(&t, run, 0);
    expect(&t, TASK_FINISHED, task_finished, DIST, m->id.task == 0);
    expect(&t, TASK_REQUEST, task_request, DIST, m->request == 3 && m->has_spec);
    tell(&t, TASK_LAUNCH, task_launch, DIST, .id = TRY(1, 2), .desc = NULL, .request = 3);
    expect(&t, EXEC_START, exec_start, 0, m->id.task == 2 && m->desc == t.desc);
    assert_int_equal(counts_of(&t).reservations, 0);
    talk_end(&t);
}

static void reservations_are_served_in_order_of_arrival(void **state)
{
    struct talk t;

    talk_begin(&t, 1);
    probe(&t, 1, 2);
    expect(&t, TASK_REQUEST, task_request, DIST, m->job.v == JOB(1).v);
    tell(&t, PROBE, probe, DIST2, .job = JOB(1), .count = 1); /* same job id, another dist: another job */
    probe(&t, 2, 1);
    tell(&t, NO_TASK, no_task, DIST, .job = JOB(1), .request = 1);
    /* The rest of job 1 went with it; that of the other dist did not. */
    expect(&t, TASK_REQUEST, task_request, DIST2, m->job.v == JOB(1).v && m->request == 1);
    tell(&t, NO_TASK, no_task, DIST2, .job = JOB(1), .request = 1);
    expect(&t, TASK_REQUEST, task_request, DIST, m->job.v == JOB(2).v && m->request == 2);
    tell(&t, NO_TASK, no_task, DIST, .job = JOB(2), .request = 2);
    assert_true(worker_quiet(&t.w));
    talk_end(&t);
}

static void no_task_drops_every_reservation_but_no_request(void **state)
{
    struct talk t;

    talk_begin(&t, 2);
    probe(&t, 1, 4);
    expect(&t, TASK_REQUEST, task_request, DIST, m->request == 1);
    expect(&t, TASK_REQUEST, task_request, DIST, m->request == 2);
    probe(&t, 1, 3);
    assert_int_equal(counts_of(&t).reservations, 5);
    tell(&t, NO_TASK, no_task, DIST, .job = JOB(1), .request = 1);
    assert_int_equal(counts_of(&t).reservations, 0);
    assert_int_equal(counts_of(&t).requested, 1);
    launch(&t, 1, 9, 2);
    starts(&t, 1, 9, DIST);
    talk_end(&t);
}

/* ---- Cancellation ---- */

static void cancel_while_queued_and_while_requested(void **state)
{
    struct talk t;

    talk_begin(&t, 1);
    probe(&t, 1, 3);
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    probe(&t, 1, 4);
    probe(&t, 2, 1);
    tell(&t, PROBE_CANCEL, probe_cancel, DIST, .job = JOB(1));
    expect(&t, PROBE_CANCELLED, probe_cancelled, DIST, m->job.v == JOB(1).v && m->count == 6);
    tell(&t, PROBE_CANCEL, probe_cancel, DIST, .job = JOB(1));
    expect(&t, PROBE_CANCELLED, probe_cancelled, DIST, m->count == 0);
    tell(&t, PROBE_CANCEL, probe_cancel, DIST, .job = JOB(99));
    expect(&t, PROBE_CANCELLED, probe_cancelled, DIST, m->count == 0);
    /* The request stands and is answered. */
    tell(&t, NO_TASK, no_task, DIST, .job = JOB(1), .request = 1);
    expect(&t, TASK_REQUEST, task_request, DIST, m->job.v == JOB(2).v && m->request == 2);
    talk_end(&t);
}

static void cancelling_a_running_task(void **state)
{
    struct talk t;
    uint32_t run;

    talk_begin(&t, 1);
    probe(&t, 1, 1);
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    launch(&t, 1, 0, 1);
    run = starts(&t, 1, 0, DIST);
    tell(&t, TASK_CANCEL, task_cancel, DIST2, .id = TRY(1, 0)); /* not its owner */
    tell(&t, TASK_CANCEL, task_cancel, DIST, .id = TRY(1, 1));  /* not here */
    tell(&t, TASK_CANCEL, task_cancel, DIST, .id = TRY(1, 0));
    expect(&t, EXEC_KILL, exec_kill, 0, m->run == run && !m->force);
    tell(&t, TASK_CANCEL, task_cancel, DIST, .id = TRY(1, 0)); /* once is enough */
    tell(&t, EXEC_EXITED, exec_exited, 0, .run = run, .outcome = OUTCOME_SIGNALED, .code = 15, .run_us = 10);
    expect(&t, TASK_FINISHED, task_finished, DIST, m->outcome == OUTCOME_CANCELLED);
    tell(&t, TASK_CANCEL, task_cancel, DIST, .id = TRY(1, 0));
    talk_end(&t);
}

static void a_task_that_ended_well_before_the_kill_ended_well(void **state)
{
    struct talk t;
    uint32_t run;

    talk_begin(&t, 1);
    probe(&t, 1, 1);
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    launch(&t, 1, 0, 1);
    run = starts(&t, 1, 0, DIST);
    tell(&t, TASK_CANCEL, task_cancel, DIST, .id = TRY(1, 0));
    expect(&t, EXEC_KILL, exec_kill, 0, whatever);
    exits(&t, run, 0);
    expect(&t, TASK_FINISHED, task_finished, DIST, m->outcome == OUTCOME_EXITED && m->code == 0);
    talk_end(&t);
}

static void cancelling_before_the_executor_has_started_it(void **state)
{
    struct talk t;
    uint32_t run;

    talk_begin(&t, 1);
    probe(&t, 1, 1);
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    launch(&t, 1, 0, 1);
    expect(&t, EXEC_START, exec_start, 0, whatever);
    run = t.out.v[0].exec_start.run;
    tell(&t, TASK_CANCEL, task_cancel, DIST, .id = TRY(1, 0));
    expect(&t, EXEC_KILL, exec_kill, 0, m->run == run);
    tell(&t, EXEC_EXITED, exec_exited, 0, .run = run, .outcome = OUTCOME_SIGNALED, .code = 15);
    expect(&t, TASK_FINISHED, task_finished, DIST, m->outcome == OUTCOME_CANCELLED);
    talk_end(&t);
}

/* ---- Answers that do not fit ---- */

static void answers_to_no_request(void **state)
{
    struct talk t;
    uint32_t run;

    talk_begin(&t, 1);
    /* Unknown request: the try is lost, so that the dist runs the task elsewhere. */
    launch(&t, 1, 0, 1);
    expect(&t, TASK_FINISHED, task_finished, DIST, m->outcome == OUTCOME_LOST && m->id.task == 0);
    assert_true(worker_quiet(&t.w));
    tell(&t, NO_TASK, no_task, DIST, .job = JOB(1), .request = 17);
    /* A repeated answer is ignored. */
    probe(&t, 1, 1);
    expect(&t, TASK_REQUEST, task_request, DIST, m->request == 1);
    launch(&t, 1, 0, 1);
    run = starts(&t, 1, 0, DIST);
    launch(&t, 1, 0, 1);
    exits(&t, run, 0);
    expect(&t, TASK_FINISHED, task_finished, DIST, m->outcome == OUTCOME_EXITED);
    launch(&t, 1, 0, 1); /* even then: it is known until acknowledged */
    talk_end(&t);
}

static void answers_for_another_job_and_without_a_description(void **state)
{
    struct talk t;

    talk_begin(&t, 1);
    probe(&t, 1, 1);
    expect(&t, TASK_REQUEST, task_request, DIST, m->request == 1);
    launch(&t, 2, 0, 1); /* request 1 was about job 1 */
    expect(&t, TASK_FINISHED, task_finished, DIST,
           m->id.job.v == JOB(2).v && m->outcome == OUTCOME_LOST && m->code == HAWK_ESTALE);
    assert_true(worker_quiet(&t.w));
    probe(&t, 1, 1);
    expect(&t, TASK_REQUEST, task_request, DIST, m->request == 2 && !m->has_spec);
    tell(&t, TASK_LAUNCH, task_launch, DIST, .id = TRY(1, 0), .request = 2);
    expect(&t, TASK_FINISHED, task_finished, DIST, m->outcome == OUTCOME_LOST);
    assert_true(worker_quiet(&t.w));
    talk_end(&t);
}

static void strangers_are_ignored(void **state)
{
    struct talk t;

    talk_begin(&t, 1);
    tell(&t, PROBE, probe, 55, .job = JOB(1), .count = 1);      /* no stream that we know of */
    tell(&t, PROBE, probe, CENTRAL, .job = JOB(1), .count = 1); /* not a dist */
    tell(&t, PROBE_CANCEL, probe_cancel, 55, .job = JOB(1));
    tell(&t, TASK_LAUNCH, task_launch, 55, .id = TRY(1, 0), .desc = t.desc, .request = 1);
    tell(&t, TASK_ENQUEUE, task_enqueue, DIST, .id = TRY(1, 0), .desc = t.desc); /* only central places */
    tell(&t, POLICY, policy, DIST, .policy = {.flags = 0});
    assert_true(policy_has(worker_policy(&t.w), POLICY_STEAL));
    tell(&t, EXEC_EXITED, exec_exited, 0, .run = 4096);
    tell(&t, EXEC_STARTED, exec_started, 0, .run = 4096 + 77);
    tell(&t, PROBE, probe, DIST, .job = JOB(1), .count = 0);
    tell(&t, SUBMITTED, submitted, DIST, .err = 0); /* not a worker's message */
    assert_true(worker_quiet(&t.w));
    talk_end(&t);
}

/* ---- Limits ---- */

static void a_full_queue_refuses_the_rest(void **state)
{
    struct worker_counts counts;
    struct talk t;

    talk_init(&t, 1);
    t.config.queue_limit = 10;
    talk_start(&t);
    join(&t);
    dist_comes(&t, DIST);
    dist_comes(&t, DIST2);
    probe(&t, 1, 4);
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    probe(&t, 2, UINT32_MAX); /* one dist fills no more than half of it */
    expect(&t, PROBE_REFUSED, probe_refused, DIST,
           m->job.v == JOB(2).v && m->count == UINT32_MAX - 2 && m->err == HAWK_ELIMIT);
    job_id_t other = job_id_make((node_id_t){DIST2}, 1);
    tell(&t, PROBE, probe, DIST2, .job = other, .count = 9, .class = CLASS_SHORT);
    expect(&t, PROBE_REFUSED, probe_refused, DIST2, m->job.v == other.v && m->count == 4);
    enqueue(&t, 3, 0);
    worker_counts(&t.w, &counts);
    assert_int_equal(counts.queued_tasks, 1); /* how many long tasks there may be is central's limit */
    probe(&t, 4, 1);
    expect(&t, PROBE_REFUSED, probe_refused, DIST, m->count == 1);
    tell(&t, PROBE_CANCEL, probe_cancel, DIST, .job = JOB(2));
    expect(&t, PROBE_CANCELLED, probe_cancelled, DIST, m->count == 2);
    probe(&t, 4, 1);
    expect(&t, STUCK, stuck, CENTRAL, whatever); /* behind the long task */
    talk_end(&t);
}

static void what_could_not_be_started(void **state)
{
    struct talk t;
    uint32_t run;

    talk_begin(&t, 1);
    probe(&t, 1, 1);
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    launch(&t, 1, 0, 1);
    expect(&t, EXEC_START, exec_start, 0, whatever);
    run = t.out.v[0].exec_start.run;
    tell(&t, EXEC_STARTED, exec_started, 0, .run = run, .pid = -1);
    tell(&t, EXEC_EXITED, exec_exited, 0, .run = run, .outcome = OUTCOME_NOT_STARTED, .code = 127);
    expect(&t, TASK_FINISHED, task_finished, DIST, m->outcome == OUTCOME_NOT_STARTED && m->code == 127);
    assert_int_equal(worker_counter(&t.w, COUNTER_tasks_started), 0);
    tell(&t, EXEC_EXITED, exec_exited, 0, .run = run, .outcome = OUTCOME_EXITED); /* a handle is used once */
    talk_end(&t);
}

/* ---- One queue per slot ---- */

static void a_queue_per_slot(void **state)
{
    struct talk t;

    talk_init(&t, 3);
    t.config.queue_per_slot = true;
    talk_start(&t);
    join(&t);
    dist_comes(&t, DIST);
    enqueue(&t, 9, 0);
    expect(&t, EXEC_START, exec_start, 0, (m->run & 4095) == 0);
    /* Busy slots count: the next go to the two idle ones, then to the shortest, the first such. */
    probe(&t, 1, 2);
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    probe(&t, 2, 1);
    expect(&t, STUCK, stuck, CENTRAL, m->stuck); /* the paper's node: its one slot runs a long task */
    assert_int_equal(t.w.lanes[0].queue.n, 1);
    probe(&t, 3, 4);
    assert_int_equal(t.w.lanes[0].queue.n, 2);
    assert_int_equal(t.w.lanes[1].queue.n, 1); /* two of the four: they began here */
    assert_int_equal(t.w.lanes[2].queue.n, 1);
    assert_int_equal(counts_of(&t).reservations, 5);
    talk_end(&t);
}

static void an_idle_lane_helps_a_stuck_one(void **state)
{
    struct talk t;

    talk_init(&t, 2);
    t.config.queue_per_slot = true;
    talk_start(&t);
    join(&t);
    dist_comes(&t, DIST);
    probe(&t, 1, 1); /* lane 0 */
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    probe(&t, 2, 1); /* lane 1 */
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    enqueue(&t, 9, 0); /* lane 0, then short ones in both */
    probe(&t, 3, 1);
    probe(&t, 3, 1);
    expect(&t, STUCK, stuck, CENTRAL, m->stuck); /* the second one: lane 0, behind the long task */
    t.now_us += 20 * MS;
    /* Lane 1 runs dry: first its own, then its sibling's, and central hears that nothing is stuck. */
    tell(&t, NO_TASK, no_task, DIST, .job = JOB(2), .request = 2);
    expect(&t, TASK_REQUEST, task_request, DIST, m->job.v == JOB(3).v && m->request == 3);
    launch(&t, 3, 0, 3);
    exits(&t, starts(&t, 3, 0, DIST), 0);
    expect(&t, TASK_FINISHED, task_finished, DIST, whatever);
    expect(&t, TASK_REQUEST, task_request, DIST, m->job.v == JOB(3).v && m->request == 4);
    expect(&t, STUCK, stuck, CENTRAL, !m->stuck);
    talk_end(&t);
}

/* ---- Promotion (protocol 7) ---- */

static void overrunning_the_cutoff(void **state)
{
    struct talk t;
    uint32_t run;

    talk_begin(&t, 1);
    probe(&t, 1, 2);
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    tell(&t, TASK_LAUNCH, task_launch, DIST, .id = TRY(1, 0), .desc = t.desc, .request = 1, .promotable = 1);
    run = starts(&t, 1, 0, DIST);
    assert_true(worker_next_timeout(&t.w) == t.now_us + 10 * US_PER_S);
    pass(&t, 10 * US_PER_S - 1);
    nothing(&t);
    assert_int_equal(counts_of(&t).running_long, 0);
    pass(&t, 1);
    expect(&t, TASK_OVERRUN, task_overrun, DIST, m->id.task == 0 && m->run_us == 10 * US_PER_S);
    expect(&t, STUCK, stuck, CENTRAL, m->stuck); /* the second reservation stands behind it */
    assert_int_equal(counts_of(&t).running_long, 1);
    pass(&t, 100 * US_PER_S); /* once */
    exits(&t, run, 0);
    expect(&t, TASK_FINISHED, task_finished, DIST, whatever);
    expect(&t, TASK_REQUEST, task_request, DIST, m->request == 2);
    expect(&t, STUCK, stuck, CENTRAL, !m->stuck);
    assert_int_equal(counts_of(&t).running_long, 0);
    talk_end(&t);
}

static void a_new_cutoff_moves_the_deadline(void **state)
{
    struct talk t;
    struct policy p;

    talk_begin(&t, 2);
    probe(&t, 1, 2);
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    tell(&t, TASK_LAUNCH, task_launch, DIST, .id = TRY(1, 0), .desc = t.desc, .request = 1, .promotable = 1);
    starts(&t, 1, 0, DIST);
    launch(&t, 1, 1, 2); /* tagged short: never promoted */
    starts(&t, 1, 1, DIST);
    p = *worker_policy(&t.w);
    p.cutoff_us = 3 * US_PER_S;
    tell(&t, POLICY, policy, CENTRAL, .policy = p);
    assert_true(worker_next_timeout(&t.w) == t.now_us + 3 * US_PER_S);
    /* The task was launched as one that may be promoted, and stays one, whatever becomes of the policy. */
    p.flags &= ~(uint32_t)POLICY_PROMOTE;
    tell(&t, POLICY, policy, CENTRAL, .policy = p);
    assert_true(worker_next_timeout(&t.w) == t.now_us + 3 * US_PER_S);
    pass(&t, 3 * US_PER_S);
    expect(&t, TASK_OVERRUN, task_overrun, DIST, whatever);
    talk_end(&t);
}

/* ---- Reconnection (protocol 6) ---- */

static void a_dist_comes_back(void **state)
{
    struct talk t;
    uint32_t done, running;

    talk_begin(&t, 4);
    probe(&t, 1, 4);
    for (uint32_t i = 1; i <= 4; i++)
        expect(&t, TASK_REQUEST, task_request, DIST, m->request == i);
    launch(&t, 1, 0, 1);
    done = starts(&t, 1, 0, DIST);
    launch(&t, 1, 1, 2);
    running = starts(&t, 1, 1, DIST);
    launch(&t, 1, 2, 3); /* told to the executor, not started */
    expect(&t, EXEC_START, exec_start, 0, whatever);
    probe(&t, 2, 5);
    tell(&t, PEER_LOST, peer_lost, DIST, ROLE_DIST);
    assert_int_equal(counts_of(&t).reservations, 0);
    assert_int_equal(counts_of(&t).free, 1); /* the request is void */
    exits(&t, done, 0);                      /* kept */
    t.now_us += US_PER_S;
    tell(&t, PEER_UP, peer_up, DIST, ROLE_DIST);
    expect(&t, TASK_HELD, task_held, DIST, m->id.task == 0 && m->state == TASK_DONE && m->run_us == 5000);
    expect(&t, TASK_FINISHED, task_finished, DIST, m->id.task == 0 && m->outcome == OUTCOME_EXITED);
    expect(&t, TASK_HELD, task_held, DIST,
           m->id.task == 1 && m->state == TASK_RUNNING && m->run_us == US_PER_S);
    expect(&t, TASK_HELD, task_held, DIST, m->id.task == 2 && m->state == TASK_LAUNCHED);
    expect(&t, HELD_END, held_end, DIST, whatever);
    assert_true(worker_next_timeout(&t.w) == TIME_NEVER); /* no orphan any more */
    /* The answer to the request of the old stream means nothing on the new one. */
    launch(&t, 1, 3, 4);
    expect(&t, TASK_FINISHED, task_finished, DIST, m->id.task == 3 && m->outcome == OUTCOME_LOST);
    probe(&t, 3, 1);
    expect(&t, TASK_REQUEST, task_request, DIST, m->request == 1);
    tell(&t, FINISH_ACK, finish_ack, DIST, .id = TRY(1, 0));
    exits(&t, running, 0);
    expect(&t, TASK_FINISHED, task_finished, DIST, m->id.task == 1);
    talk_end(&t);
}

/* A central that has lost its state gives out node ids anew: a dist has the one of a worker whose streams end now. */
static void a_worker_of_the_same_id_that_is_lost_is_not_the_dist(void **state)
{
    struct talk t;

    talk_begin(&t, 1);
    tell(&t, PEER_LOST, peer_lost, DIST, ROLE_WORKER);
    probe(&t, 1, 1);
    expect(&t, TASK_REQUEST, task_request, DIST, m->request == 1);
    launch(&t, 1, 0, 1);
    exits(&t, starts(&t, 1, 0, DIST), 0);
    expect(&t, TASK_FINISHED, task_finished, DIST, m->id.task == 0);
    talk_end(&t);
}

static void a_dist_stays_away(void **state)
{
    struct talk t;
    uint32_t done, running;

    talk_begin(&t, 2);
    probe(&t, 1, 2);
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    launch(&t, 1, 0, 1);
    done = starts(&t, 1, 0, DIST);
    launch(&t, 1, 1, 2);
    running = starts(&t, 1, 1, DIST);
    tell(&t, PEER_LOST, peer_lost, DIST, ROLE_DIST);
    exits(&t, done, 0);
    pass(&t, 10 * US_PER_S - 1);
    nothing(&t);
    assert_int_equal(counts_of(&t).unacked, 1);
    pass(&t, 1);
    expect(&t, EXEC_KILL, exec_kill, 0, m->run == running && m->force);
    assert_int_equal(counts_of(&t).unacked, 0);
    pass(&t, 100 * US_PER_S);
    tell(&t, EXEC_EXITED, exec_exited, 0, .run = running, .outcome = OUTCOME_SIGNALED, .code = 9);
    assert_true(worker_quiet(&t.w)); /* nobody is left to tell */
    talk_end(&t);
}

static void back_while_the_orphans_die(void **state)
{
    struct talk t;
    uint32_t run;

    talk_begin(&t, 1);
    probe(&t, 1, 1);
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    launch(&t, 1, 0, 1);
    run = starts(&t, 1, 0, DIST);
    tell(&t, PEER_LOST, peer_lost, DIST, ROLE_DIST);
    pass(&t, 10 * US_PER_S);
    expect(&t, EXEC_KILL, exec_kill, 0, m->force);
    tell(&t, PEER_UP, peer_up, DIST, ROLE_DIST);
    expect(&t, TASK_HELD, task_held, DIST, m->state == TASK_RUNNING);
    expect(&t, HELD_END, held_end, DIST, whatever);
    tell(&t, EXEC_EXITED, exec_exited, 0, .run = run, .outcome = OUTCOME_SIGNALED, .code = 9);
    expect(&t, TASK_FINISHED, task_finished, DIST, m->outcome == OUTCOME_LOST);
    talk_end(&t);
}

static void a_launch_that_meets_a_stop_is_refused_as_not_run(void **state)
{
    struct talk t;

    talk_begin(&t, 1);
    probe(&t, 1, 1);
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    tell(&t, STOP, stop, 0, .now = true); /* waits for the answer */
    expect(&t, DRAINING, draining, CENTRAL, whatever);
    launch(&t, 1, 0, 1);
    expect(&t, TASK_FINISHED, task_finished, DIST, m->outcome == OUTCOME_LOST && m->code == HAWK_ESHUTDOWN);
    expect(&t, LEAVE, leave, CENTRAL, whatever);
    expect(&t, STOPPED, stopped, 0, m->asked);
    talk_end(&t);
}

static void an_overrun_nobody_heard_of_is_told_later(void **state)
{
    struct talk t;

    talk_init(&t, 1);
    t.config.orphan_us = 100 * US_PER_S;
    talk_start(&t);
    join(&t);
    dist_comes(&t, DIST);
    probe(&t, 1, 1);
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    tell(&t, TASK_LAUNCH, task_launch, DIST, .id = TRY(1, 0), .desc = t.desc, .request = 1, .promotable = 1);
    starts(&t, 1, 0, DIST);
    tell(&t, PEER_LOST, peer_lost, DIST, ROLE_DIST);
    pass(&t, 20 * US_PER_S);
    nothing(&t);
    tell(&t, PEER_UP, peer_up, DIST, ROLE_DIST);
    expect(&t, TASK_HELD, task_held, DIST, whatever);
    expect(&t, TASK_OVERRUN, task_overrun, DIST, m->run_us == 20 * US_PER_S);
    expect(&t, HELD_END, held_end, DIST, whatever);
    tell(&t, PEER_LOST, peer_lost, DIST, ROLE_DIST);
    tell(&t, PEER_UP, peer_up, DIST, ROLE_DIST);
    expect(&t, TASK_HELD, task_held, DIST, whatever);
    expect(&t, HELD_END, held_end, DIST, whatever); /* once is enough */
    talk_end(&t);
}

/* ---- Who is given up, and what it costs ---- */

/* A slot is not kept for the answer of a dist that cannot hear, or be heard. */
static void a_silent_dist_is_given_up(void **state)
{
    struct talk t;

    talk_init(&t, 1);
    t.config.heartbeats = true;
    talk_start(&t);
    dist_comes(&t, DIST);
    dist_comes(&t, DIST2);
    probe(&t, 1, 1);
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    pass(&t, US_PER_S);
    expect(&t, BEAT, beat, DIST, m->ask);
    tell(&t, BEAT, beat, DIST, .ask = false);
    pass(&t, US_PER_S);
    expect(&t, BEAT, beat, DIST, m->ask);
    pass(&t, BEATS_ANSWER_US - 1);
    nothing(&t);
    assert_int_equal(counts_of(&t).requested, 1);
    pass(&t, 1);
    expect(&t, GIVE_UP, give_up, 0, m->node.v == DIST);
    assert_int_equal(counts_of(&t).free, 1);
    /* The other one owes nothing, and is asked nothing; it gets its answer. */
    tell(&t, BEAT, beat, DIST2, .ask = true);
    expect(&t, BEAT, beat, DIST2, !m->ask);
    pass(&t, 10 * US_PER_S);
    talk_end(&t);
}

/* Nor is a result for one that does not acknowledge it: it tells the end once more on the next stream. */
static void a_dist_that_does_not_acknowledge_is_given_up(void **state)
{
    struct talk t;
    uint32_t run;

    talk_init(&t, 1);
    t.config.heartbeats = true;
    talk_start(&t);
    dist_comes(&t, DIST);
    probe(&t, 1, 1);
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    launch(&t, 1, 0, 1);
    run = starts(&t, 1, 0, DIST);
    exits(&t, run, 0);
    expect(&t, TASK_FINISHED, task_finished, DIST, m->id.task == 0);
    pass(&t, US_PER_S);
    expect(&t, BEAT, beat, DIST, m->ask);
    pass(&t, BEATS_ANSWER_US);
    expect(&t, GIVE_UP, give_up, 0, m->node.v == DIST);
    tell(&t, PEER_LOST, peer_lost, DIST, ROLE_DIST);
    pass(&t, US_PER_S);
    tell(&t, PEER_UP, peer_up, DIST, ROLE_DIST);
    expect(&t, TASK_HELD, task_held, DIST, m->state == TASK_DONE);
    expect(&t, TASK_FINISHED, task_finished, DIST, m->id.task == 0);
    expect(&t, HELD_END, held_end, DIST, whatever);
    pass(&t, US_PER_S);
    expect(&t, BEAT, beat, DIST, m->ask);
    tell(&t, FINISH_ACK, finish_ack, DIST, .id = TRY(1, 0));
    pass(&t, 10 * US_PER_S);
    probe(&t, 2, 1);
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    pass(&t, US_PER_S);
    expect(&t, BEAT, beat, DIST, m->ask);
    talk_end(&t);
}

static void an_idle_worker_is_small(void **state)
{
    assert_true(sizeof(struct worker) + sizeof(struct lane) + sizeof(struct slot) <= 1184);
}

static void many_jobs_at_once(void **state)
{
    struct talk t;

    talk_begin(&t, 1);
    probe(&t, 1, 1);
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    for (uint64_t j = 2; j < 300; j++)
        probe(&t, j, 2);
    assert_int_equal(counts_of(&t).reservations, 298 * 2);
    for (uint64_t j = 299; j >= 2; j--) {
        tell(&t, PROBE_CANCEL, probe_cancel, DIST, .job = JOB(j));
        expect(&t, PROBE_CANCELLED, probe_cancelled, DIST, m->count == 2);
    }
    tell(&t, NO_TASK, no_task, DIST, .job = JOB(1), .request = 1);
    assert_true(worker_quiet(&t.w));
    talk_end(&t);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_probe_becomes_a_task),
        cmocka_unit_test(a_count_is_used_one_task_per_free_slot),
        cmocka_unit_test(reservations_are_served_in_order_of_arrival),
        cmocka_unit_test(no_task_drops_every_reservation_but_no_request),
        cmocka_unit_test(cancel_while_queued_and_while_requested),
        cmocka_unit_test(cancelling_a_running_task),
        cmocka_unit_test(a_task_that_ended_well_before_the_kill_ended_well),
        cmocka_unit_test(cancelling_before_the_executor_has_started_it),
        cmocka_unit_test(answers_to_no_request),
        cmocka_unit_test(answers_for_another_job_and_without_a_description),
        cmocka_unit_test(strangers_are_ignored),
        cmocka_unit_test(a_full_queue_refuses_the_rest),
        cmocka_unit_test(what_could_not_be_started),
        cmocka_unit_test(a_queue_per_slot),
        cmocka_unit_test(an_idle_lane_helps_a_stuck_one),
        cmocka_unit_test(overrunning_the_cutoff),
        cmocka_unit_test(a_new_cutoff_moves_the_deadline),
        cmocka_unit_test(a_dist_comes_back),
        cmocka_unit_test(a_dist_stays_away),
        cmocka_unit_test(a_worker_of_the_same_id_that_is_lost_is_not_the_dist),
        cmocka_unit_test(back_while_the_orphans_die),
        cmocka_unit_test(a_launch_that_meets_a_stop_is_refused_as_not_run),
        cmocka_unit_test(an_overrun_nobody_heard_of_is_told_later),
        cmocka_unit_test(a_silent_dist_is_given_up),
        cmocka_unit_test(a_dist_that_does_not_acknowledge_is_given_up),
        cmocka_unit_test(an_idle_worker_is_small),
        cmocka_unit_test(many_jobs_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
