/* The worker and central: joining, heartbeats and counters, the lease, long tasks, partition changes, and
 * stopping in good order. */
#include "tests/test_worker.h"

/* ---- Joining ---- */

static void it_joins_when_the_stream_is_up(void **state)
{
    struct talk t;

    talk_init(&t, 3);
    talk_start(&t);
    assert_true(worker_next_timeout(&t.w) == TIME_NEVER); /* the shell dials */
    tell(&t, PEER_UP, peer_up, CENTRAL, ROLE_CENTRAL);
    expect(&t, JOIN, join, CENTRAL,
           m->incarnation == 4711 && m->node.v == 0 && m->slots == 3 && m->version == PROTOCOL_VERSION &&
               m->role == ROLE_WORKER && m->name == t.config.name && m->addr == t.config.addr);
    assert_false(counts_of(&t).joined);
    tell(&t, JOINED, joined, CENTRAL, .node = {SELF}, .heartbeat_us = 500 * MS, .lease_us = 60 * US_PER_S);
    expect(&t, HELD_END, held_end, CENTRAL, whatever);
    assert_true(counts_of(&t).joined);
    /* Again, under the id it has now. */
    tell(&t, PEER_LOST, peer_lost, CENTRAL, ROLE_CENTRAL);
    assert_false(counts_of(&t).joined);
    tell(&t, PEER_UP, peer_up, CENTRAL, ROLE_CENTRAL);
    expect(&t, JOIN, join, CENTRAL, m->node.v == SELF && m->incarnation == 4711);
    talk_end(&t);
}

static void refused(void **state)
{
    struct talk t;
    uint32_t run;

    talk_begin(&t, 2);
    run = long_runs(&t, 1);
    tell(&t, PEER_LOST, peer_lost, CENTRAL, ROLE_CENTRAL);
    tell(&t, PEER_UP, peer_up, CENTRAL, ROLE_CENTRAL);
    expect(&t, JOIN, join, CENTRAL, whatever);
    tell(&t, REFUSED, refused, CENTRAL, .err = HAWK_ENAME_TAKEN);
    expect(&t, EXEC_KILL, exec_kill, 0, m->run == run && m->force);
    expect(&t, STOPPED, stopped, 0, whatever);
    /* Nothing moves it any more. */
    probe(&t, 1, 1);
    tell(&t, TIMER, timer, 0, 0);
    exits(&t, run, 0);
    assert_true(worker_next_timeout(&t.w) == TIME_NEVER);
    talk_end(&t);
}

/* ---- Heartbeats, counters, the lease ---- */

static void talk_with_heartbeats(struct talk *t, uint32_t slots)
{
    talk_init(t, slots);
    t->config.heartbeats = true;
    talk_start(t);
    join(t);
}

static void skip_counters(struct talk *t)
{
    while (t->taken < t->out.n && t->out.v[t->taken].type == MSG_COUNTER)
        t->taken++;
}

/* The next heartbeat; whether it asks for an answer. */
static bool beat(struct talk *t, uint32_t seq)
{
    pass(t, 500 * MS);
    skip_counters(t);
    expect(t, HEARTBEAT, heartbeat, CENTRAL, m->seq == seq);
    return t->out.v[t->taken - 1].heartbeat.quiet == 0;
}

static void heartbeats_carry_what_changed(void **state)
{
    struct talk t;

    talk_with_heartbeats(&t, 3);
    tell(&t, PEER_UP, peer_up, DIST, ROLE_DIST,
         .version = 2); /* one that is never asked whether it is there */
    expect(&t, HELD_END, held_end, DIST, whatever);
    long_runs(&t, 9);
    probe(&t, 1, 7);
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    enqueue(&t, 9, 1);
    pass(&t, 499 * MS);
    nothing(&t);
    pass(&t, 1 * MS);
    expect(&t, COUNTER, counter, CENTRAL, m->counter == COUNTER_tasks_started && m->value == 1);
    expect(&t, COUNTER, counter, CENTRAL, m->counter == COUNTER_messages_in && m->value > 0);
    expect(&t, COUNTER, counter, CENTRAL, m->counter == COUNTER_messages_out && m->value > 0);
    expect(&t, HEARTBEAT, heartbeat, CENTRAL,
           m->seq == 1 && m->queued == 6 && m->running_long == 1 && m->running_short == 2 &&
               m->jobs_unfinished == 0);
    tell(&t, HEARTBEAT_ACK, heartbeat_ack, CENTRAL, .seq = 1);
    /* Nothing happened since: heartbeats themselves are no news. */
    pass(&t, 500 * MS);
    expect(&t, HEARTBEAT, heartbeat, CENTRAL, m->seq == 2);
    /* A late shell gets one heartbeat, not five. */
    t.now_us += 5 * US_PER_S;
    tell(&t, TIMER, timer, 0, 0);
    expect(&t, HEARTBEAT, heartbeat, CENTRAL, m->seq == 3);
    assert_true(worker_next_timeout(&t.w) == t.now_us + 500 * MS);
    /* A central that may be a new process hears all counters again. */
    tell(&t, PEER_LOST, peer_lost, CENTRAL, ROLE_CENTRAL);
    assert_true(worker_next_timeout(&t.w) > t.now_us + US_PER_S);
    tell(&t, PEER_UP, peer_up, CENTRAL, ROLE_CENTRAL);
    expect(&t, JOIN, join, CENTRAL, whatever);
    tell(&t, JOINED, joined, CENTRAL, .node = {SELF}, .heartbeat_us = 500 * MS, .lease_us = 60 * US_PER_S);
    expect(&t, TASK_HELD, task_held, CENTRAL, m->state == TASK_RUNNING);
    expect(&t, TASK_HELD, task_held, CENTRAL, m->state == TASK_PLACED);
    expect(&t, HELD_END, held_end, CENTRAL, whatever);
    pass(&t, 500 * MS);
    expect(&t, COUNTER, counter, CENTRAL, m->counter == COUNTER_tasks_started && m->value == 1);
    skip_counters(&t);
    expect(&t, HEARTBEAT, heartbeat, CENTRAL, whatever);
    talk_end(&t);
}

static void the_lease_counts_from_when_the_heartbeat_was_sent(void **state)
{
    struct talk t;
    uint32_t run;
    int64_t sent;

    talk_with_heartbeats(&t, 1);
    run = long_runs(&t, 1);
    enqueue(&t, 1, 1);
    for (uint32_t seq = 1; seq <= 7; seq++) /* 60 s / 16 */
        assert_false(beat(&t, seq));
    assert_true(beat(&t, 8));
    sent = t.now_us;
    assert_true(beat(&t, 9));                                   /* and goes on asking until there is one */
    tell(&t, HEARTBEAT_ACK, heartbeat_ack, CENTRAL, .seq = 99); /* never sent */
    tell(&t, HEARTBEAT_ACK, heartbeat_ack, CENTRAL, .seq = 7);  /* before the one that is watched */
    t.now_us += 200 * MS;
    tell(&t, HEARTBEAT_ACK, heartbeat_ack, CENTRAL, .seq = 8);
    pass(&t, 300 * MS);
    expect(&t, HEARTBEAT, heartbeat, CENTRAL, m->seq == 10 && m->quiet);
    tell(&t, PEER_LOST, peer_lost, CENTRAL, ROLE_CENTRAL);
    assert_true(worker_next_timeout(&t.w) == sent + 54 * US_PER_S); /* a tenth is the margin */
    pass(&t, 54 * US_PER_S);
    assert_true(t.now_us == sent + 54 * US_PER_S);
    expect(&t, EXEC_KILL, exec_kill, 0, m->run == run && m->force);
    assert_int_equal(counts_of(&t).queued_tasks, 0); /* nothing of central's starts any more */
    assert_true(worker_next_timeout(&t.w) == TIME_NEVER);
    tell(&t, EXEC_EXITED, exec_exited, 0, .run = run, .outcome = OUTCOME_SIGNALED, .code = 9);
    /* Central comes back after all and hears what became of them: one lost, the other not here. */
    tell(&t, PEER_UP, peer_up, CENTRAL, ROLE_CENTRAL);
    expect(&t, JOIN, join, CENTRAL, whatever);
    tell(&t, JOINED, joined, CENTRAL, .node = {SELF}, .heartbeat_us = 500 * MS, .lease_us = 60 * US_PER_S);
    expect(&t, TASK_HELD, task_held, CENTRAL, m->state == TASK_DONE && m->id.task == 0);
    expect(&t, TASK_FINISHED, task_finished, CENTRAL, m->outcome == OUTCOME_LOST && m->id.task == 0);
    expect(&t, HELD_END, held_end, CENTRAL, whatever);
    tell(&t, FINISH_ACK, finish_ack, CENTRAL, .id = TRY(1, 0));
    /* And may place again: the lease was renewed by joining. */
    enqueue(&t, 1, 1);
    starts(&t, 1, 1, CENTRAL);
    talk_end(&t);
}

/* The machine stood still, and what central says comes before the timer. */
static void a_lease_that_is_over_is_not_renewed(void **state)
{
    struct talk t;
    uint32_t run;

    talk_with_heartbeats(&t, 1);
    run = long_runs(&t, 1);
    tell(&t, PEER_LOST, peer_lost, CENTRAL, ROLE_CENTRAL);
    t.now_us += 100 * US_PER_S;
    tell(&t, PEER_UP, peer_up, CENTRAL, ROLE_CENTRAL);
    expect(&t, JOIN, join, CENTRAL, whatever);
    tell(&t, JOINED, joined, CENTRAL, .node = {SELF}, .heartbeat_us = 500 * MS, .lease_us = 60 * US_PER_S);
    expect(&t, EXEC_KILL, exec_kill, 0, m->run == run && m->force);
    expect(&t, TASK_HELD, task_held, CENTRAL, m->id.task == 0);
    expect(&t, HELD_END, held_end, CENTRAL, whatever);
    talk_end(&t);
}

/* Central let us in some time after we asked, and counts from when it did or later. */
static void the_first_lease_counts_from_when_joining_was_asked(void **state)
{
    struct talk t;
    int64_t asked;

    talk_init(&t, 1);
    t.config.heartbeats = true;
    talk_start(&t);
    asked = t.now_us;
    tell(&t, PEER_UP, peer_up, CENTRAL, ROLE_CENTRAL);
    expect(&t, JOIN, join, CENTRAL, whatever);
    t.now_us += 3 * US_PER_S;
    tell(&t, JOINED, joined, CENTRAL, .node = {SELF}, .heartbeat_us = 500 * MS, .lease_us = 60 * US_PER_S);
    expect(&t, HELD_END, held_end, CENTRAL, whatever);
    tell(&t, PARTITION, partition, CENTRAL, .epoch = 1, .general = 1);
    expect(&t, PARTITION_ACK, partition_ack, CENTRAL, whatever);
    long_runs(&t, 1);
    tell(&t, PEER_LOST, peer_lost, CENTRAL, ROLE_CENTRAL);
    assert_true(worker_next_timeout(&t.w) == asked + 54 * US_PER_S); /* a tenth is the margin */
    talk_end(&t);
}

static void short_tasks_have_no_lease(void **state)
{
    struct talk t;

    talk_with_heartbeats(&t, 1);
    dist_comes(&t, DIST);
    probe(&t, 1, 1);
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    launch(&t, 1, 0, 1);
    starts(&t, 1, 0, DIST);
    tell(&t, PEER_LOST, peer_lost, CENTRAL, ROLE_CENTRAL);
    pass(&t, 1000 * US_PER_S);
    talk_end(&t);
}

static void a_central_that_does_not_answer(void **state)
{
    struct talk t;
    uint32_t run;

    talk_with_heartbeats(&t, 1);
    run = long_runs(&t, 1);
    /* The stream stands, but no heartbeat is acknowledged. */
    for (uint32_t seq = 1; seq <= 107; seq++)
        (void)beat(&t, seq);
    pass(&t, 500 * MS);
    skip_counters(&t);
    expect(&t, HEARTBEAT, heartbeat, CENTRAL, m->seq == 108);
    expect(&t, EXEC_KILL, exec_kill, 0, m->run == run && m->force);
    enqueue(&t, 2, 0); /* what it says now may be long out of date */
    expect(&t, TASK_RETURNED, task_returned, CENTRAL, m->id.job.v == JOB(2).v);
    tell(&t, HEARTBEAT_ACK, heartbeat_ack, CENTRAL, .seq = 108);
    exits(&t, run, 1);
    expect(&t, TASK_FINISHED, task_finished, CENTRAL, m->outcome == OUTCOME_LOST);
    /* The acknowledgement was of the first heartbeat watched: its lease is over soon. The next one counts. */
    assert_true(beat(&t, 109));
    tell(&t, HEARTBEAT_ACK, heartbeat_ack, CENTRAL, .seq = 109);
    enqueue(&t, 2, 0);
    starts(&t, 2, 0, CENTRAL);
    talk_end(&t);
}

/* Whatever comes first, the timer or a free slot: a queued long task does not start after the lease. */
static void a_slot_freed_after_the_lease(void **state)
{
    struct talk t;
    uint32_t run;

    talk_with_heartbeats(&t, 1);
    run = long_runs(&t, 1);
    enqueue(&t, 2, 0);
    t.now_us += 60 * US_PER_S; /* a suspended machine wakes up */
    exits(&t, run, 0);
    expect(&t, TASK_FINISHED, task_finished, CENTRAL, m->outcome == OUTCOME_EXITED);
    expect(&t, TASK_RETURNED, task_returned, CENTRAL, m->id.job.v == JOB(2).v);
    talk_end(&t);
}

/* ---- Long tasks ---- */

static void a_long_task_waits_its_turn(void **state)
{
    struct talk t;
    uint32_t run;

    talk_begin(&t, 1);
    run = long_runs(&t, 1);
    t.now_us += 1000;
    enqueue(&t, 2, 0);
    enqueue(&t, 2, 0); /* repeated */
    assert_int_equal(counts_of(&t).queued_tasks, 1);
    t.now_us += 1000;
    exits(&t, run, 0);
    expect(&t, TASK_FINISHED, task_finished, CENTRAL, m->id.job.v == JOB(1).v);
    expect(&t, EXEC_START, exec_start, 0, m->id.job.v == JOB(2).v && m->desc == t.desc);
    run = t.out.v[1].exec_start.run;
    tell(&t, EXEC_STARTED, exec_started, 0, .run = run, .pid = 5);
    expect(&t, TASK_STARTED, task_started, CENTRAL, m->wait_us == 1000);
    enqueue(&t, 2, 0); /* still repeated */
    exits(&t, run, 0);
    expect(&t, TASK_FINISHED, task_finished, CENTRAL, m->id.job.v == JOB(2).v);
    enqueue(&t, 2, 0);                                       /* even now */
    tell(&t, FINISH_ACK, finish_ack, DIST, .id = TRY(2, 0)); /* not whose it is */
    assert_int_equal(counts_of(&t).unacked, 2);
    tell(&t, FINISH_ACK, finish_ack, CENTRAL, .id = TRY(2, 0));
    tell(&t, FINISH_ACK, finish_ack, CENTRAL, .id = TRY(1, 0));
    assert_true(worker_quiet(&t.w));
    talk_end(&t);
}

static void cancelling_a_queued_long_task(void **state)
{
    struct talk t;

    talk_begin(&t, 1);
    long_runs(&t, 1);
    enqueue(&t, 2, 0);
    tell(&t, TASK_CANCEL, task_cancel, CENTRAL, .id = TRY(2, 0));
    expect(&t, TASK_FINISHED, task_finished, CENTRAL,
           m->outcome == OUTCOME_CANCELLED && m->id.job.v == JOB(2).v);
    assert_int_equal(counts_of(&t).queued_tasks, 0);
    tell(&t, FINISH_ACK, finish_ack, CENTRAL, .id = TRY(2, 0));
    assert_int_equal(counts_of(&t).unacked, 0);
    talk_end(&t);
}

static void central_comes_back(void **state)
{
    struct talk t;
    uint32_t run;

    talk_begin(&t, 1);
    run = long_runs(&t, 1);
    enqueue(&t, 2, 0);
    enqueue(&t, 3, 0);
    tell(&t, PEER_LOST, peer_lost, CENTRAL, ROLE_CENTRAL);
    /* It goes on without central. */
    exits(&t, run, 0);
    starts(&t, 2, 0, 0);
    t.now_us += 4000;
    tell(&t, PEER_UP, peer_up, CENTRAL, ROLE_CENTRAL);
    expect(&t, JOIN, join, CENTRAL, whatever);
    tell(&t, JOINED, joined, CENTRAL, .node = {SELF}, .heartbeat_us = 500 * MS, .lease_us = 60 * US_PER_S);
    expect(&t, TASK_HELD, task_held, CENTRAL, m->id.job.v == JOB(1).v && m->state == TASK_DONE);
    expect(&t, TASK_FINISHED, task_finished, CENTRAL, m->id.job.v == JOB(1).v);
    expect(&t, TASK_HELD, task_held, CENTRAL,
           m->id.job.v == JOB(2).v && m->state == TASK_RUNNING && m->run_us == 4000);
    expect(&t, TASK_HELD, task_held, CENTRAL, m->id.job.v == JOB(3).v && m->state == TASK_PLACED);
    expect(&t, HELD_END, held_end, CENTRAL, whatever);
    /* What central does not want any more. */
    tell(&t, TASK_CANCEL, task_cancel, CENTRAL, .id = TRY(3, 0));
    expect(&t, TASK_FINISHED, task_finished, CENTRAL, m->outcome == OUTCOME_CANCELLED);
    talk_end(&t);
}

/* ---- Partition (protocol 2) ---- */

static void becoming_reserved_hands_back_what_has_not_started(void **state)
{
    struct talk t;
    uint32_t run;

    talk_begin(&t, 1);
    run = long_runs(&t, 1);
    enqueue(&t, 2, 0);
    probe(&t, 5, 1);
    expect(&t, STUCK, stuck, CENTRAL, m->stuck);
    tell(&t, PROBE, probe, DIST, .job = JOB(6), .count = 1, .class = CLASS_LONG); /* unbound: stays */
    enqueue(&t, 2, 1);
    tell(&t, PARTITION, partition, CENTRAL, .epoch = 2, .general = 0);
    expect(&t, TASK_RETURNED, task_returned, CENTRAL, m->id.job.v == JOB(2).v && m->id.task == 0);
    expect(&t, TASK_RETURNED, task_returned, CENTRAL, m->id.job.v == JOB(2).v && m->id.task == 1);
    expect(&t, PARTITION_ACK, partition_ack, CENTRAL, m->epoch == 2);
    assert_int_equal(counts_of(&t).reservations, 2);
    enqueue(&t, 3, 0); /* a placement that crossed */
    expect(&t, TASK_RETURNED, task_returned, CENTRAL, m->id.job.v == JOB(3).v);
    exits(&t, run, 0); /* what ran, ran to its end */
    expect(&t, TASK_FINISHED, task_finished, CENTRAL, m->outcome == OUTCOME_EXITED);
    expect(&t, TASK_REQUEST, task_request, DIST, m->job.v == JOB(5).v);
    tell(&t, TIMER, timer, 0, 0);
    tell(&t, PARTITION, partition, CENTRAL, .epoch = 3, .general = 1);
    expect(&t, PARTITION_ACK, partition_ack, CENTRAL, m->epoch == 3);
    enqueue(&t, 3, 0);
    assert_int_equal(counts_of(&t).queued_tasks, 1);
    pass(&t, 10 * MS);
    expect(&t, STUCK, stuck, CENTRAL, !m->stuck);
    talk_end(&t);
}

/* Of every queue that it has. */
static void becoming_reserved_empties_every_queue(void **state)
{
    struct talk t;

    talk_init(&t, 2);
    t.config.queue_per_slot = true;
    talk_start(&t);
    join(&t);
    dist_comes(&t, DIST);
    long_runs(&t, 1);
    long_runs(&t, 2);
    enqueue(&t, 3, 0);
    enqueue(&t, 4, 0);
    assert_int_equal(counts_of(&t).queued_tasks, 2);
    tell(&t, PARTITION, partition, CENTRAL, .epoch = 2, .general = 0);
    expect(&t, TASK_RETURNED, task_returned, CENTRAL, m->id.job.v == JOB(3).v);
    expect(&t, TASK_RETURNED, task_returned, CENTRAL, m->id.job.v == JOB(4).v);
    expect(&t, PARTITION_ACK, partition_ack, CENTRAL, m->epoch == 2);
    talk_end(&t);
}

/* Another worker would start it sooner. */
static void what_has_not_started_goes_back_when_central_asks(void **state)
{
    struct talk t;
    uint32_t run;

    talk_begin(&t, 1);
    run = long_runs(&t, 1);
    enqueue(&t, 2, 0);
    enqueue(&t, 2, 1);
    tell(&t, TASK_RECALL, task_recall, CENTRAL, .id = {.job = JOB(1), .task = 0, .epoch = 1, .attempt = 1});
    tell(&t, TASK_RECALL, task_recall, CENTRAL, .id = {.job = JOB(9), .task = 0, .epoch = 1, .attempt = 1});
    tell(&t, TASK_RECALL, task_recall, CENTRAL, .id = {.job = JOB(2), .task = 1, .epoch = 1, .attempt = 2});
    tell(&t, TASK_RECALL, task_recall, DIST, .id = {.job = JOB(2), .task = 1, .epoch = 1, .attempt = 1});
    assert_int_equal(counts_of(&t).queued_tasks, 2);
    tell(&t, TASK_RECALL, task_recall, CENTRAL, .id = {.job = JOB(2), .task = 1, .epoch = 1, .attempt = 1});
    expect(&t, TASK_RETURNED, task_returned, CENTRAL, m->id.job.v == JOB(2).v && m->id.task == 1);
    assert_int_equal(counts_of(&t).queued_tasks, 1);
    enqueue(&t, 3, 0); /* it takes more */
    assert_int_equal(counts_of(&t).queued_tasks, 2);
    /* What has ended is not handed back, though central has not acknowledged it: its end is on the way. */
    exits(&t, run, 0);
    expect(&t, TASK_FINISHED, task_finished, CENTRAL, m->id.job.v == JOB(1).v);
    starts(&t, 2, 0, CENTRAL);
    tell(&t, TASK_RECALL, task_recall, CENTRAL, .id = {.job = JOB(1), .task = 0, .epoch = 1, .attempt = 1});
    nothing(&t);
    talk_end(&t);
}

/* ---- Stopping (protocol 8) ---- */

/* ---- Draining ---- */

static void a_drained_worker_gives_back_what_waits(void **state)
{
    struct talk t;
    uint32_t run, requested;

    talk_begin(&t, 2);
    run = long_runs(&t, 1);
    probe(&t, 5, 4);
    expect(&t, TASK_REQUEST, task_request, DIST, m->request == 1);
    enqueue(&t, 2, 0);
    tell(&t, DRAIN, drain, CENTRAL, .on = 1);
    expect(&t, PROBE_REFUSED, probe_refused, DIST, m->count == 3 && m->err == HAWK_EDRAINING);
    expect(&t, TASK_RETURNED, task_returned, CENTRAL, m->id.job.v == JOB(2).v);
    expect(&t, DRAINED, drained, CENTRAL, m->on && !m->empty);
    probe(&t, 7, 1);
    expect(&t, PROBE_REFUSED, probe_refused, DIST, m->job.v == JOB(7).v && m->err == HAWK_EDRAINING);
    enqueue(&t, 3, 0);
    expect(&t, TASK_RETURNED, task_returned, CENTRAL, m->id.job.v == JOB(3).v);
    /* What was asked for comes, and runs. */
    launch(&t, 5, 0, 1);
    requested = starts(&t, 5, 0, DIST);
    exits(&t, requested, 0);
    expect(&t, TASK_FINISHED, task_finished, DIST, m->outcome == OUTCOME_EXITED);
    tell(&t, FINISH_ACK, finish_ack, DIST, .id = TRY(5, 0));
    /* It steals from nobody, idle as it is. */
    tell(&t, LONG_WORK, long_work, CENTRAL, .any = 1);
    members_are(&t, 3);
    nothing(&t);
    /* Reconnected, to a central that knows. */
    tell(&t, PEER_LOST, peer_lost, CENTRAL, ROLE_CENTRAL);
    tell(&t, PEER_UP, peer_up, CENTRAL, ROLE_CENTRAL);
    expect(&t, JOIN, join, CENTRAL, whatever);
    tell(&t, JOINED, joined, CENTRAL, .node = {SELF}, .heartbeat_us = 500 * MS, .lease_us = 60 * US_PER_S,
         .draining = 1);
    expect(&t, TASK_HELD, task_held, CENTRAL, m->state == TASK_RUNNING);
    expect(&t, HELD_END, held_end, CENTRAL, whatever);
    nothing(&t);
    /* The last one ends, and is acknowledged: only then nothing is left. */
    exits(&t, run, 0);
    expect(&t, TASK_FINISHED, task_finished, CENTRAL, m->outcome == OUTCOME_EXITED);
    tell(&t, FINISH_ACK, finish_ack, CENTRAL, .id = TRY(1, 0));
    expect(&t, DRAINED, drained, CENTRAL, m->on && m->empty);
    tell(&t, DRAIN, drain, CENTRAL, .on = 0);
    expect(&t, DRAINED, drained, CENTRAL, !m->on && !m->empty);
    expect(&t, PARKED, parked, CENTRAL, m->parked); /* a thief again */
    probe(&t, 8, 1);
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    talk_end(&t);
}

/* A second stop leaves no time to who is being ended in order. It stays what it was: cancelled. */
static void a_cancelled_task_is_killed_when_the_worker_must_go(void **state)
{
    struct talk t;
    uint32_t run;

    talk_begin(&t, 1);
    run = long_runs(&t, 1);
    tell(&t, TASK_CANCEL, task_cancel, CENTRAL, .id = TRY(1, 0));
    expect(&t, EXEC_KILL, exec_kill, 0, m->run == run && !m->force && m->outcome == OUTCOME_CANCELLED);
    tell(&t, TASK_CANCEL, task_cancel, CENTRAL, .id = TRY(1, 0));
    nothing(&t);
    tell(&t, QUIT, quit, CENTRAL, .now = 1);
    expect(&t, DRAINING, draining, CENTRAL, whatever);
    nothing(&t);
    tell(&t, QUIT, quit, CENTRAL, .now = 1);
    expect(&t, EXEC_KILL, exec_kill, 0, m->run == run && m->force && m->outcome == OUTCOME_CANCELLED);
    t.taken = t.out.n;
    talk_end(&t);
}

static void told_to_quit(void **state)
{
    struct talk t;
    uint32_t run;

    talk_begin(&t, 1);
    run = long_runs(&t, 1);
    tell(&t, QUIT, quit, CENTRAL, .now = 0);
    expect(&t, DRAINING, draining, CENTRAL, whatever);
    tell(&t, QUIT, quit, CENTRAL, .now = 1);
    expect(&t, EXEC_KILL, exec_kill, 0, m->run == run && !m->force);
    tell(&t, EXEC_EXITED, exec_exited, 0, .run = run, .outcome = OUTCOME_SIGNALED, .code = 9);
    expect(&t, TASK_FINISHED, task_finished, CENTRAL, m->outcome == OUTCOME_LOST);
    expect(&t, LEAVE, leave, CENTRAL, whatever);
    expect(&t, STOPPED, stopped, 0, m->asked);
    talk_end(&t);
}

static void to_an_older_central_it_says_what_that_speaks(void **state)
{
    struct talk t;

    talk_init(&t, 1);
    talk_start(&t);
    tell(&t, PEER_UP, peer_up, CENTRAL, ROLE_CENTRAL, 1);
    expect(&t, JOIN, join, CENTRAL, m->version == 1);
    talk_end(&t);
}

static void stopping_in_good_order(void **state)
{
    struct talk t;
    uint32_t run, requested;

    talk_begin(&t, 2);
    run = long_runs(&t, 1);
    probe(&t, 5, 4);
    expect(&t, TASK_REQUEST, task_request, DIST, m->request == 1);
    enqueue(&t, 2, 0);
    tell(&t, PROBE, probe, DIST2, .job = JOB(6), .count = 2);
    expect(&t, STUCK, stuck, CENTRAL, m->stuck);
    tell(&t, STOP, stop, 0, .now = 0);
    expect(&t, DRAINING, draining, CENTRAL, whatever);
    expect(&t, PROBE_REFUSED, probe_refused, DIST,
           m->job.v == JOB(5).v && m->count == 3 && m->err == HAWK_ESHUTDOWN);
    expect(&t, TASK_RETURNED, task_returned, CENTRAL, m->id.job.v == JOB(2).v);
    expect(&t, PROBE_REFUSED, probe_refused, DIST2, m->job.v == JOB(6).v && m->count == 2);
    probe(&t, 7, 1);
    expect(&t, PROBE_REFUSED, probe_refused, DIST, m->job.v == JOB(7).v && m->err == HAWK_ESHUTDOWN);
    enqueue(&t, 3, 0);
    expect(&t, TASK_RETURNED, task_returned, CENTRAL, m->id.job.v == JOB(3).v);
    /* A request under way is answered, and its task runs: no try is wasted. */
    launch(&t, 5, 0, 1);
    requested = starts(&t, 5, 0, DIST);
    exits(&t, requested, 0);
    expect(&t, TASK_FINISHED, task_finished, DIST, m->outcome == OUTCOME_EXITED);
    exits(&t, run, 0);
    expect(&t, TASK_FINISHED, task_finished, CENTRAL, m->outcome == OUTCOME_EXITED);
    /* Not before both owners have it in writing. */
    tell(&t, FINISH_ACK, finish_ack, CENTRAL, .id = TRY(1, 0));
    nothing(&t);
    tell(&t, FINISH_ACK, finish_ack, DIST, .id = TRY(5, 0));
    expect(&t, LEAVE, leave, CENTRAL, whatever);
    expect(&t, STOPPED, stopped, 0, whatever);
    assert_true(counts_of(&t).stopped);
    talk_end(&t);
}

static void stopping_at_once(void **state)
{
    struct talk t;
    uint32_t a, b;

    talk_begin(&t, 3);
    a = long_runs(&t, 1);
    probe(&t, 5, 2);
    expect(&t, TASK_REQUEST, task_request, DIST, m->request == 1);
    expect(&t, TASK_REQUEST, task_request, DIST, m->request == 2);
    launch(&t, 5, 0, 1);
    b = starts(&t, 5, 0, DIST);
    tell(&t, STOP, stop, 0, .now = 0);
    expect(&t, DRAINING, draining, CENTRAL, whatever);
    tell(&t, STOP, stop, 0, .now = 1); /* as at SIGTERM: tasks may handle it */
    expect(&t, EXEC_KILL, exec_kill, 0, m->run == a && !m->force);
    expect(&t, EXEC_KILL, exec_kill, 0, m->run == b && !m->force);
    tell(&t, STOP, stop, 0, .now = 1); /* the operator loses patience */
    expect(&t, EXEC_KILL, exec_kill, 0, m->run == a && m->force);
    expect(&t, EXEC_KILL, exec_kill, 0, m->run == b && m->force);
    launch(&t, 5, 1, 2);
    expect(&t, TASK_FINISHED, task_finished, DIST, m->id.task == 1 && m->outcome == OUTCOME_LOST);
    tell(&t, EXEC_EXITED, exec_exited, 0, .run = a, .outcome = OUTCOME_SIGNALED, .code = 9);
    expect(&t, TASK_FINISHED, task_finished, CENTRAL, m->outcome == OUTCOME_LOST);
    tell(&t, EXEC_EXITED, exec_exited, 0, .run = b, .outcome = OUTCOME_SIGNALED, .code = 9);
    expect(&t, TASK_FINISHED, task_finished, DIST, m->outcome == OUTCOME_LOST);
    expect(&t, LEAVE, leave, CENTRAL, whatever);
    expect(&t, STOPPED, stopped, 0, whatever);
    talk_end(&t);
}

static void stopping_an_idle_worker_that_never_joined(void **state)
{
    struct talk t;

    talk_init(&t, 1);
    talk_start(&t);
    tell(&t, STOP, stop, 0, .now = 0);
    expect(&t, STOPPED, stopped, 0, whatever);
    talk_end(&t);
}

static void a_stop_does_not_wait_for_the_unreachable(void **state)
{
    struct talk t;
    uint32_t run;

    talk_begin(&t, 1);
    run = long_runs(&t, 1);
    tell(&t, PEER_LOST, peer_lost, CENTRAL, ROLE_CENTRAL);
    tell(&t, STOP, stop, 0, .now = 0);
    nothing(&t);
    exits(&t, run, 0);
    expect(&t, STOPPED, stopped, 0, whatever);
    talk_end(&t);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_joins_when_the_stream_is_up),
        cmocka_unit_test(refused),
        cmocka_unit_test(heartbeats_carry_what_changed),
        cmocka_unit_test(the_lease_counts_from_when_the_heartbeat_was_sent),
        cmocka_unit_test(a_lease_that_is_over_is_not_renewed),
        cmocka_unit_test(the_first_lease_counts_from_when_joining_was_asked),
        cmocka_unit_test(short_tasks_have_no_lease),
        cmocka_unit_test(a_central_that_does_not_answer),
        cmocka_unit_test(a_slot_freed_after_the_lease),
        cmocka_unit_test(a_long_task_waits_its_turn),
        cmocka_unit_test(cancelling_a_queued_long_task),
        cmocka_unit_test(central_comes_back),
        cmocka_unit_test(becoming_reserved_hands_back_what_has_not_started),
        cmocka_unit_test(becoming_reserved_empties_every_queue),
        cmocka_unit_test(what_has_not_started_goes_back_when_central_asks),
        cmocka_unit_test(a_drained_worker_gives_back_what_waits),
        cmocka_unit_test(a_cancelled_task_is_killed_when_the_worker_must_go),
        cmocka_unit_test(told_to_quit),
        cmocka_unit_test(to_an_older_central_it_says_what_that_speaks),
        cmocka_unit_test(stopping_in_good_order),
        cmocka_unit_test(stopping_at_once),
        cmocka_unit_test(stopping_an_idle_worker_that_never_joined),
        cmocka_unit_test(a_stop_does_not_wait_for_the_unreachable),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
