/* Stealing between workers: this one as victim, as thief, with lost peers and crossing cancellations, and what
 * central is told about it. */
#include "tests/test_worker.h"

/* ---- As victim ---- */

/* One slot, running long; queued: a (2), b (3), long, c (1). */
static uint32_t victim_begin(struct talk *t)
{
    uint32_t run;

    talk_begin(t, 1);
    run = long_runs(t, 90);
    t->now_us += 1000;
    probe(t, 1, 2);
    expect(t, STUCK, stuck, CENTRAL, m->stuck);
    tell(t, PROBE, probe, DIST2, .job = JOB(2), .count = 3, .estimate_us = 55);
    enqueue(t, 91, 0);
    probe(t, 3, 1);
    return run;
}

static void the_group_behind_the_long_task_is_given(void **state)
{
    struct talk t;

    victim_begin(&t);
    t.now_us += 500;
    tell(&t, STEAL_REQUEST, steal_request, OTHER, .request = 17, .max = 1000);
    expect(&t, STEAL_LOOT, steal_loot, OTHER,
           m->request == 17 && m->index == 0 && m->items == 2 && m->job.v == JOB(1).v && m->dist.v == DIST &&
               m->count == 2 && m->waited_us == 500);
    expect(&t, STEAL_LOOT, steal_loot, OTHER,
           m->index == 1 && m->items == 2 && m->job.v == JOB(2).v && m->dist.v == DIST2 && m->count == 3 &&
               m->estimate_us == 55);
    /* Kept until acknowledged: nothing is lost with the thief. */
    assert_int_equal(counts_of(&t).reservations, 6);
    tell(&t, STEAL_ACK, steal_ack, OTHER, .request = 17, .index = 0, .job = JOB(1), .accepted = 2);
    tell(&t, STEAL_ACK, steal_ack, OTHER, .request = 17, .index = 1, .job = JOB(2), .accepted = 3);
    assert_int_equal(counts_of(&t).reservations, 1);
    /* The next group is behind the second long task. */
    tell(&t, STEAL_REQUEST, steal_request, OTHER, .request = 18, .max = 1000);
    expect(&t, STEAL_LOOT, steal_loot, OTHER, m->items == 1 && m->job.v == JOB(3).v);
    tell(&t, STEAL_ACK, steal_ack, OTHER, .request = 18, .index = 0, .job = JOB(3), .accepted = 1);
    t.now_us += 10 * MS;
    tell(&t, STEAL_REQUEST, steal_request, OTHER, .request = 19, .max = 1000);
    expect(&t, STEAL_LOOT, steal_loot, OTHER, m->request == 19 && m->items == 0);
    expect(&t, STUCK, stuck, CENTRAL, !m->stuck);
    talk_end(&t);
}

static void at_most_what_the_thief_asks_for(void **state)
{
    struct talk t;

    victim_begin(&t);
    t.now_us += 500;
    tell(&t, STEAL_REQUEST, steal_request, OTHER, .request = 1, .max = 3);
    expect(&t, STEAL_LOOT, steal_loot, OTHER, m->job.v == JOB(1).v && m->count == 2 && m->items == 2);
    expect(&t, STEAL_LOOT, steal_loot, OTHER, /* a part of it, as old as the whole */
           m->job.v == JOB(2).v && m->count == 1 && m->waited_us == 500);
    /* Who owes an acknowledgement gets no more; another thief gets the rest of the group. */
    tell(&t, STEAL_REQUEST, steal_request, OTHER, .request = 2, .max = 3);
    expect(&t, STEAL_LOOT, steal_loot, OTHER, m->items == 0);
    tell(&t, STEAL_REQUEST, steal_request, OTHER + 1, .request = 1, .max = 3);
    expect(&t, STEAL_LOOT, steal_loot, OTHER + 1, m->job.v == JOB(2).v && m->count == 2);
    tell(&t, STEAL_REQUEST, steal_request, OTHER + 2, .request = 1, .max = 0);
    expect(&t, STEAL_LOOT, steal_loot, OTHER + 2, m->items == 0);
    talk_end(&t);
}

static void refused_items_go_back_to_the_head_in_order(void **state)
{
    struct talk t;
    uint32_t run = victim_begin(&t);

    tell(&t, STEAL_REQUEST, steal_request, OTHER, .request = 1, .max = 1000);
    expect(&t, STEAL_LOOT, steal_loot, OTHER, whatever);
    expect(&t, STEAL_LOOT, steal_loot, OTHER, whatever);
    probe(&t, 4, 1); /* comes meanwhile, at the tail */
    tell(&t, STEAL_ACK, steal_ack, OTHER, .request = 1, .index = 0, .job = JOB(1), .accepted = 0);
    tell(&t, STEAL_ACK, steal_ack, OTHER, .request = 1, .index = 1, .job = JOB(2), .accepted = 1);
    assert_int_equal(counts_of(&t).reservations, 2 + 2 + 1 + 1);
    exits(&t, run, 0);
    expect(&t, TASK_FINISHED, task_finished, CENTRAL, whatever);
    expect(&t, TASK_REQUEST, task_request, DIST, m->job.v == JOB(1).v);
    tell(&t, NO_TASK, no_task, DIST, .job = JOB(1), .request = 1);
    expect(&t, TASK_REQUEST, task_request, DIST2, m->job.v == JOB(2).v);
    tell(&t, NO_TASK, no_task, DIST2, .job = JOB(2), .request = 1);
    expect(&t, EXEC_START, exec_start, 0, m->id.job.v == JOB(91).v);
    talk_end(&t);
}

static void a_lost_thief_returns_everything(void **state)
{
    struct talk t;

    victim_begin(&t);
    tell(&t, STEAL_REQUEST, steal_request, OTHER, .request = 1, .max = 1000);
    expect(&t, STEAL_LOOT, steal_loot, OTHER, whatever);
    expect(&t, STEAL_LOOT, steal_loot, OTHER, whatever);
    tell(&t, STEAL_ACK, steal_ack, OTHER, .request = 1, .index = 0, .job = JOB(1), .accepted = 2);
    tell(&t, PEER_LOST, peer_lost, OTHER, ROLE_WORKER);
    assert_int_equal(counts_of(&t).reservations, 3 + 1);
    tell(&t, STEAL_ACK, steal_ack, OTHER, .request = 1, .index = 1, .job = JOB(2),
         .accepted = 3); /* too late */
    assert_int_equal(counts_of(&t).reservations, 3 + 1);
    talk_end(&t);
}

/* It may be deaf: what it was given is of more use here. */
static void a_silent_thief_is_given_up(void **state)
{
    struct talk t;

    victim_begin(&t);
    tell(&t, STEAL_REQUEST, steal_request, OTHER, .request = 1, .max = 2);
    expect(&t, STEAL_LOOT, steal_loot, OTHER, whatever);
    pass(&t, 2400 * MS);
    nothing(&t);
    pass(&t, 200 * MS);
    expect(&t, GIVE_UP, give_up, 0, m->node.v == OTHER);
    tell(&t, PEER_LOST, peer_lost, OTHER, ROLE_WORKER);
    /* It is the first in line again, for whoever asks. */
    tell(&t, STEAL_REQUEST, steal_request, OTHER + 1, .request = 1, .max = 2);
    expect(&t, STEAL_LOOT, steal_loot, OTHER + 1, m->job.v == JOB(1).v && m->count == 2);
    talk_end(&t);
}

static void wrong_acknowledgements(void **state)
{
    struct talk t;

    victim_begin(&t);
    tell(&t, STEAL_REQUEST, steal_request, OTHER, .request = 1, .max = 1000);
    expect(&t, STEAL_LOOT, steal_loot, OTHER, whatever);
    expect(&t, STEAL_LOOT, steal_loot, OTHER, whatever);
    tell(&t, STEAL_ACK, steal_ack, OTHER + 1, .request = 1, .index = 0, .job = JOB(1), .accepted = 2);
    tell(&t, STEAL_ACK, steal_ack, OTHER, .request = 2, .index = 0, .job = JOB(1), .accepted = 2);
    tell(&t, STEAL_ACK, steal_ack, OTHER, .request = 1, .index = 7, .job = JOB(1), .accepted = 2);
    tell(&t, STEAL_ACK, steal_ack, OTHER, .request = 1, .index = 0, .job = JOB(2), .accepted = 2);
    assert_int_equal(counts_of(&t).reservations, 6);
    tell(&t, STEAL_ACK, steal_ack, OTHER, .request = 1, .index = 0, .job = JOB(1), .accepted = UINT32_MAX);
    tell(&t, STEAL_ACK, steal_ack, OTHER, .request = 1, .index = 0, .job = JOB(1), .accepted = 2);
    assert_int_equal(counts_of(&t).reservations, 4);
    talk_end(&t);
}

static void a_cancel_reaches_what_is_being_stolen(void **state)
{
    struct talk t;

    victim_begin(&t);
    tell(&t, STEAL_REQUEST, steal_request, OTHER, .request = 1, .max = 1000);
    expect(&t, STEAL_LOOT, steal_loot, OTHER, whatever);
    expect(&t, STEAL_LOOT, steal_loot, OTHER, whatever);
    tell(&t, PROBE_CANCEL, probe_cancel, DIST, .job = JOB(1));
    expect(&t, PROBE_CANCELLED, probe_cancelled, DIST, m->count == 2);
    tell(&t, STEAL_ACK, steal_ack, OTHER, .request = 1, .index = 0, .job = JOB(1), .accepted = 0);
    assert_int_equal(counts_of(&t).reservations, 3 + 1);
    /* So does the loss of the dist. */
    tell(&t, PEER_LOST, peer_lost, DIST2, ROLE_DIST);
    assert_int_equal(counts_of(&t).reservations, 1);
    tell(&t, STEAL_ACK, steal_ack, OTHER, .request = 1, .index = 1, .job = JOB(2), .accepted = 3);
    tell(&t, STEAL_REQUEST, steal_request, OTHER, .request = 2, .max = 1000); /* and it may ask again */
    expect(&t, STEAL_LOOT, steal_loot, OTHER, m->items == 1 && m->job.v == JOB(3).v);
    talk_end(&t);
}

static void too_many_thieves(void **state)
{
    struct talk t;

    talk_begin(&t, 1);
    long_runs(&t, 90);
    for (uint64_t j = 1; j <= 100; j++)
        probe(&t, j, 1), t.taken = t.out.n;
    for (uint32_t i = 0; i < WORKER_LOOT_RECORDS; i++) {
        tell(&t, STEAL_REQUEST, steal_request, 1000 + i, .request = 1, .max = 1);
        expect(&t, STEAL_LOOT, steal_loot, 1000 + i, m->items == 1 && m->job.v == JOB(i + 1).v);
    }
    tell(&t, STEAL_REQUEST, steal_request, 2000, .request = 1, .max = 1);
    expect(&t, STEAL_LOOT, steal_loot, 2000, m->items == 0);
    talk_end(&t);
}

static void loot_that_comes_back_to_a_stopping_worker(void **state)
{
    struct talk t;
    uint32_t run = victim_begin(&t);

    tell(&t, STEAL_REQUEST, steal_request, OTHER, .request = 1, .max = 2);
    expect(&t, STEAL_LOOT, steal_loot, OTHER, m->items == 1);
    tell(&t, STOP, stop, 0, .now = 0);
    expect(&t, DRAINING, draining, CENTRAL, whatever);
    expect(&t, PROBE_REFUSED, probe_refused, DIST2, m->count == 3);
    expect(&t, TASK_RETURNED, task_returned, CENTRAL, whatever);
    expect(&t, PROBE_REFUSED, probe_refused, DIST, m->job.v == JOB(3).v);
    exits(&t, run, 0);
    expect(&t, TASK_FINISHED, task_finished, CENTRAL, whatever);
    tell(&t, FINISH_ACK, finish_ack, CENTRAL, .id = TRY(90, 0));
    nothing(&t); /* the thief has not answered */
    tell(&t, STEAL_ACK, steal_ack, OTHER, .request = 1, .index = 0, .job = JOB(1), .accepted = 0);
    expect(&t, PROBE_REFUSED, probe_refused, DIST, m->job.v == JOB(1).v && m->count == 2);
    expect(&t, LEAVE, leave, CENTRAL, whatever);
    expect(&t, STOPPED, stopped, 0, whatever);
    talk_end(&t);
}

/* Figure 3 through the worker: what is long is what runs, is requested or queued as long, or outlived the
 * cutoff. */
static void what_counts_as_long(void **state)
{
    struct talk t;

    talk_begin(&t, 1);
    /* A long reservation that waits for its dist's answer. */
    tell(&t, PROBE, probe, DIST, .job = JOB(1), .count = 1, .class = CLASS_LONG);
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    probe(&t, 2, 1);
    expect(&t, STUCK, stuck, CENTRAL, m->stuck);
    t.now_us += 10 * MS;
    tell(&t, NO_TASK, no_task, DIST, .job = JOB(1), .request = 1);
    expect(&t, TASK_REQUEST, task_request, DIST, m->job.v == JOB(2).v);
    expect(&t, STUCK, stuck, CENTRAL, !m->stuck);
    t.now_us += 10 * MS;
    /* A long reservation ahead in the queue (a1). */
    probe(&t, 3, 1);
    tell(&t, PROBE, probe, DIST, .job = JOB(4), .count = 1, .class = CLASS_LONG);
    probe(&t, 5, 1);
    expect(&t, STUCK, stuck, CENTRAL, m->stuck);
    tell(&t, STEAL_REQUEST, steal_request, OTHER, .request = 1, .max = 9);
    expect(&t, STEAL_LOOT, steal_loot, OTHER, m->items == 1 && m->job.v == JOB(5).v);
    talk_end(&t);
}

static void several_slots_must_all_be_blocked(void **state)
{
    struct talk t;
    uint32_t run;

    talk_begin(&t, 2);
    run = long_runs(&t, 90);
    probe(&t, 1, 1);
    expect(&t, TASK_REQUEST, task_request, DIST, whatever); /* the second slot serves short ones */
    probe(&t, 2, 1);
    nothing(&t);
    enqueue(&t, 91, 0);
    probe(&t, 3, 1); /* behind it no slot is left */
    expect(&t, STUCK, stuck, CENTRAL, m->stuck);
    tell(&t, STEAL_REQUEST, steal_request, OTHER, .request = 1, .max = 9);
    expect(&t, STEAL_LOOT, steal_loot, OTHER, m->items == 1 && m->job.v == JOB(3).v);
    t.now_us += 10 * MS;
    tell(&t, STEAL_ACK, steal_ack, OTHER, .request = 1, .index = 0, .job = JOB(3), .accepted = 1);
    expect(&t, STUCK, stuck, CENTRAL, !m->stuck);
    exits(&t, run, 0);
    expect(&t, TASK_FINISHED, task_finished, CENTRAL, whatever);
    expect(&t, TASK_REQUEST, task_request, DIST, m->job.v == JOB(2).v);
    talk_end(&t);
}

/* ---- As thief ---- */

/* A one-slot worker in a cluster where long work exists, that has just run dry: its first question is out. */
static uint32_t thief_begin(struct talk *t)
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

static uint32_t has_nothing(struct talk *t, uint32_t victim, uint32_t request)
{
    tell(t, STEAL_LOOT, steal_loot, victim, .request = request, .items = 0);
    if (t->out.n == 0 || t->out.v[0].type != MSG_STEAL_REQUEST)
        return 0;
    t->taken = 1;
    assert_int_equal(t->out.v[0].steal_request.request, request + 1);
    return t->out.v[0].peer;
}

static void loot_becomes_reservations(void **state)
{
    struct talk t;
    uint32_t victim = thief_begin(&t);

    tell(&t, STEAL_LOOT, steal_loot, victim, .request = 1, .index = 0, .items = 2, .job = JOB(5),
         .dist = {DIST}, .count = 2, .waited_us = 70000);
    /* The dist hears first, then the victim, and only then the reservation is used. */
    expect(&t, RES_MOVED, res_moved, DIST, m->job.v == JOB(5).v && m->from.v == victim && m->count == 2);
    expect(&t, STEAL_ACK, steal_ack, victim,
           m->request == 1 && m->index == 0 && m->job.v == JOB(5).v && m->accepted == 2);
    expect(&t, TASK_REQUEST, task_request, DIST, m->job.v == JOB(5).v && m->request == 2);
    /* The rest of the answer counts although there is work by now. */
    tell(&t, STEAL_LOOT, steal_loot, victim, .request = 1, .index = 1, .items = 2, .job = JOB(6),
         .dist = {DIST2}, .count = 1);
    expect(&t, RES_MOVED, res_moved, DIST2, m->count == 1);
    expect(&t, STEAL_ACK, steal_ack, victim, m->index == 1 && m->accepted == 1);
    t.now_us += 30000;
    launch(&t, 5, 0, 2);
    expect(&t, EXEC_START, exec_start, 0, whatever);
    tell(&t, EXEC_STARTED, exec_started, 0, .run = 1u << 12, .pid = 1);
    expect(&t, TASK_STARTED, task_started, DIST, m->wait_us == 100000); /* what it waited there included */
    exits(&t, 1u << 12, 0);
    expect(&t, TASK_FINISHED, task_finished, DIST, m->stolen == 1);
    expect(&t, TASK_REQUEST, task_request, DIST, m->job.v == JOB(5).v);
    assert_int_equal(worker_counter(&t.w, COUNTER_steal_rounds), 1);
    assert_int_equal(worker_counter(&t.w, COUNTER_steal_requests), 1);
    assert_int_equal(worker_counter(&t.w, COUNTER_steal_successes), 1);
    assert_int_equal(worker_counter(&t.w, COUNTER_reservations_stolen), 3);
    assert_int_equal(worker_counter(&t.w, COUNTER_tasks_stolen), 1);
    talk_end(&t);
}

static void a_stolen_reservation_may_be_stolen_again(void **state)
{
    struct talk t;
    uint32_t victim = thief_begin(&t);

    tell(&t, STEAL_LOOT, steal_loot, victim, .request = 1, .items = 1, .job = JOB(5), .dist = {DIST},
         .count = 2);
    t.taken = 2;
    expect(&t, TASK_REQUEST, task_request, DIST, m->request == 2);
    enqueue(&t, 90, 0);
    launch(&t, 5, 0, 2);
    exits(&t, starts(&t, 5, 0, DIST), 0);
    expect(&t, TASK_FINISHED, task_finished, DIST, whatever);
    expect(&t, TASK_REQUEST, task_request, DIST, m->request == 3); /* it was ahead of the long one */
    probe(&t, 6, 1);
    expect(&t, STUCK, stuck, CENTRAL, m->stuck);
    tell(&t, STEAL_REQUEST, steal_request, OTHER, .request = 1, .max = 9);
    expect(&t, STEAL_LOOT, steal_loot, OTHER, m->items == 1 && m->job.v == JOB(6).v);
    talk_end(&t);
}

static void items_it_cannot_use_are_refused(void **state)
{
    struct talk t;
    uint32_t victim = thief_begin(&t);

    tell(&t, STEAL_LOOT, steal_loot, victim, .request = 1, .items = 3, .job = JOB(5), .dist = {77},
         .count = 2);
    expect(&t, STEAL_ACK, steal_ack, victim,
           m->accepted == 0 && m->job.v == JOB(5).v); /* no stream to that dist */
    tell(&t, STEAL_LOOT, steal_loot, victim, .request = 1, .index = 1, .items = 3, .job = JOB(5),
         .dist = {CENTRAL}, .count = 2);
    expect(&t, STEAL_ACK, steal_ack, victim, m->accepted == 0 && m->index == 1);
    /* Long work came in the meantime: here it would be stuck as well. */
    enqueue(&t, 90, 0);
    starts(&t, 90, 0, CENTRAL);
    tell(&t, STEAL_LOOT, steal_loot, victim, .request = 1, .index = 2, .items = 3, .job = JOB(5),
         .dist = {DIST}, .count = 2);
    expect(&t, STEAL_ACK, steal_ack, victim, m->accepted == 0 && m->index == 2);
    assert_int_equal(worker_counter(&t.w, COUNTER_steal_successes), 0);
    talk_end(&t);
}

static void a_full_thief_takes_what_fits(void **state)
{
    struct talk t;
    uint32_t victim;

    talk_init(&t, 1);
    t.config.queue_limit = 5;
    t.config.policy.flags &= ~(uint32_t)POLICY_STEAL_HINTS; /* nobody pairs: it asks by itself */
    talk_start(&t);
    join(&t);
    dist_comes(&t, DIST);
    members_are(&t, 5);
    tell(&t, LONG_WORK, long_work, CENTRAL, .any = 1);
    pass(&t, 100 * MS);
    victim = t.out.v[0].peer;
    expect(&t, STEAL_REQUEST, steal_request, victim, whatever);
    tell(&t, STEAL_LOOT, steal_loot, victim, .request = 1, .items = 1, .job = JOB(5), .dist = {DIST},
         .count = 9);
    expect(&t, RES_MOVED, res_moved, DIST, m->count == 5);
    expect(&t, STEAL_ACK, steal_ack, victim, m->accepted == 5);
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    talk_end(&t);
}

static void an_answer_nobody_waits_for_is_refused(void **state)
{
    struct talk t;
    uint32_t victim = thief_begin(&t);

    tell(&t, PEER_LOST, peer_lost, victim, ROLE_WORKER);
    t.taken = t.out.n; /* on to the next one */
    tell(&t, STEAL_LOOT, steal_loot, victim, .request = 1, .items = 1, .job = JOB(5), .dist = {DIST},
         .count = 2);
    expect(&t, STEAL_ACK, steal_ack, victim, m->request == 1 && m->accepted == 0 && m->job.v == JOB(5).v);
    tell(&t, STEAL_LOOT, steal_loot, victim, .request = 1, .items = 0);
    talk_end(&t);
}

static void a_lost_victim_moves_the_round_on(void **state)
{
    struct talk t;
    uint32_t victim = thief_begin(&t), next;

    tell(&t, PEER_LOST, peer_lost, victim, ROLE_WORKER);
    next = t.out.v[0].peer;
    assert_true(next != victim);
    expect(&t, STEAL_REQUEST, steal_request, next, m->request == 2);
    /* Halfway through an answer, too: what came is kept, the rest is the victim's again. */
    tell(&t, STEAL_LOOT, steal_loot, next, .request = 2, .items = 2, .job = JOB(5), .dist = {DIST},
         .count = 1);
    t.taken = t.out.n;
    tell(&t, PEER_LOST, peer_lost, next, ROLE_WORKER);
    nothing(&t); /* not idle any more */
    assert_int_equal(counts_of(&t).requested, 1);
    talk_end(&t);
}

static void work_ends_the_round(void **state)
{
    struct talk t;
    uint32_t victim = thief_begin(&t);

    probe(&t, 2, 1);
    expect(&t, TASK_REQUEST, task_request, DIST, m->request == 2);
    assert_int_equal(has_nothing(&t, victim, 1), 0);
    assert_false(counts_of(&t).parked);
    assert_true(worker_next_timeout(&t.w) == TIME_NEVER);
    talk_end(&t);
}

/* ---- Parked and stuck ---- */

static void fail_the_round(struct talk *t, uint32_t victim)
{
    for (uint32_t request = t->w.thief.request; victim; request++)
        victim = has_nothing(t, victim, request);
}

static void a_failed_round_parks(void **state)
{
    struct talk t;
    uint32_t victim = thief_begin(&t);

    fail_the_round(&t, victim);
    expect(&t, PARKED, parked, CENTRAL, m->parked);
    assert_int_equal(worker_counter(&t.w, COUNTER_steal_requests), 10); /* Hawk: up to 10 */
    assert_int_equal(worker_counter(&t.w, COUNTER_steal_rounds), 1);
    /* Central pairs it from here on. Without central it tries again by itself. */
    assert_true(worker_next_timeout(&t.w) == TIME_NEVER);
    tell(&t, PEER_LOST, peer_lost, CENTRAL, ROLE_CENTRAL);
    nothing(&t);
    pass(&t, 113 * MS);
    victim = t.out.v[0].peer;
    expect(&t, STEAL_REQUEST, steal_request, victim, whatever);
    fail_the_round(&t, victim);
    nothing(&t);
    probe(&t, 2, 1);
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    talk_end(&t);
}

/* Another central does not know who is parked. */
static void a_central_that_is_back_is_told_who_is_parked(void **state)
{
    struct talk t;

    fail_the_round(&t, thief_begin(&t));
    expect(&t, PARKED, parked, CENTRAL, m->parked);
    tell(&t, PEER_LOST, peer_lost, CENTRAL, ROLE_CENTRAL);
    tell(&t, PEER_UP, peer_up, CENTRAL, ROLE_CENTRAL);
    expect(&t, JOIN, join, CENTRAL, whatever);
    tell(&t, JOINED, joined, CENTRAL, .node = {SELF}, .heartbeat_us = 500 * MS, .lease_us = 60 * US_PER_S);
    expect(&t, HELD_END, held_end, CENTRAL, whatever);
    expect(&t, PARKED, parked, CENTRAL, m->parked);
    talk_end(&t);
}

/* A central that stood still heard nobody meanwhile, and forgot who is parked. */
static void a_central_that_hears_again_is_told_who_is_parked(void **state)
{
    struct talk t;
    uint32_t victim = thief_begin(&t);

    fail_the_round(&t, victim);
    expect(&t, PARKED, parked, CENTRAL, m->parked);
    t.now_us += 50 * MS;
    tell(&t, PARTITION, partition, CENTRAL, .general = true, .epoch = 9);
    expect(&t, PARTITION_ACK, partition_ack, CENTRAL, m->epoch == 9);
    expect(&t, PARKED, parked, CENTRAL, m->parked);
    pass(&t, 50 * MS);
    nothing(&t); /* once */
    probe(&t, 2, 1);
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    expect(&t, PARKED, parked, CENTRAL, !m->parked);
    t.now_us += 50 * MS;
    tell(&t, PARTITION, partition, CENTRAL, .general = true, .epoch = 10);
    expect(&t, PARTITION_ACK, partition_ack, CENTRAL, whatever);
    nothing(&t); /* what is not parked needs not to be told */
    talk_end(&t);
}

/* A central that hangs pairs nobody: three heartbeats without an answer, and a parked thief asks by itself. */
static void a_silent_central_is_no_help(void **state)
{
    struct talk t;
    uint32_t victim;

    talk_init(&t, 1);
    t.config.heartbeats = true;
    talk_start(&t);
    join(&t); /* a heartbeat every 500 ms */
    members_are(&t, 3);
    tell(&t, LONG_WORK, long_work, CENTRAL, .any = 1);
    expect(&t, PARKED, parked, CENTRAL, m->parked);
    for (int beat = 1; beat <= 5; beat++) { /* the fifth is sent when the first is overdue */
        pass(&t, 500 * MS);
        assert_int_equal(t.out.v[t.out.n - 1].type, MSG_HEARTBEAT);
        t.taken = t.out.n;
    }
    pass(&t, 113 * MS);
    victim = t.out.v[0].peer;
    expect(&t, STEAL_REQUEST, steal_request, victim, whatever);
    talk_end(&t);
}

static void a_hint_is_followed(void **state)
{
    struct talk t;
    uint32_t victim = thief_begin(&t);

    fail_the_round(&t, victim);
    expect(&t, PARKED, parked, CENTRAL, m->parked);
    t.now_us += 50 * MS;
    tell(&t, STEAL_HINT, steal_hint, DIST, .victim = {20}); /* only central gives hints */
    tell(&t, STEAL_HINT, steal_hint, CENTRAL, .victim = {SELF});
    tell(&t, STEAL_HINT, steal_hint, CENTRAL, .victim = {20});
    expect(&t, STEAL_REQUEST, steal_request, 20, m->request == 11);
    tell(&t, STEAL_LOOT, steal_loot, 20, .request = 11, .items = 1, .job = JOB(5), .dist = {DIST},
         .count = 1);
    expect(&t, RES_MOVED, res_moved, DIST, m->from.v == 20);
    expect(&t, STEAL_ACK, steal_ack, 20, m->accepted == 1);
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    expect(&t, PARKED, parked, CENTRAL, !m->parked);
    tell(&t, STEAL_HINT, steal_hint, CENTRAL, .victim = {21}); /* no slot free now */
    talk_end(&t);
}

static void edges_are_rate_limited(void **state)
{
    struct talk t;

    talk_begin(&t, 1);
    long_runs(&t, 90);
    probe(&t, 1, 1);
    expect(&t, STUCK, stuck, CENTRAL, m->stuck);
    /* Back and forth within 10 ms: central hears where it ended, once, and nothing when it ended as it was. */
    for (int i = 0; i < 5; i++) {
        t.now_us += 1 * MS;
        tell(&t, PROBE_CANCEL, probe_cancel, DIST, .job = JOB(1));
        expect(&t, PROBE_CANCELLED, probe_cancelled, DIST, whatever);
        assert_true(worker_next_timeout(&t.w) == 1000000 + 10 * MS);
        probe(&t, 1, 1);
        assert_true(worker_next_timeout(&t.w) == TIME_NEVER);
    }
    tell(&t, PROBE_CANCEL, probe_cancel, DIST, .job = JOB(1));
    expect(&t, PROBE_CANCELLED, probe_cancelled, DIST, whatever);
    pass(&t, 10 * MS);
    assert_true(t.now_us == 1000000 + 10 * MS);
    expect(&t, STUCK, stuck, CENTRAL, !m->stuck);
    talk_end(&t);
}

static void a_new_central_hears_the_edges_again(void **state)
{
    struct talk t;

    talk_begin(&t, 1);
    long_runs(&t, 90);
    probe(&t, 1, 1);
    expect(&t, STUCK, stuck, CENTRAL, m->stuck);
    tell(&t, PEER_LOST, peer_lost, CENTRAL, ROLE_CENTRAL);
    tell(&t, PEER_UP, peer_up, CENTRAL, ROLE_CENTRAL);
    expect(&t, JOIN, join, CENTRAL, whatever);
    tell(&t, JOINED, joined, CENTRAL, .node = {SELF});
    expect(&t, TASK_HELD, task_held, CENTRAL, m->state == TASK_RUNNING);
    expect(&t, HELD_END, held_end, CENTRAL, whatever);
    expect(&t, STUCK, stuck, CENTRAL, m->stuck);
    talk_end(&t);
}

static void an_idle_cluster_is_silent(void **state)
{
    struct talk t;
    struct policy p;

    talk_begin(&t, 2);
    members_are(&t, 30);
    pass(&t, 1000 * US_PER_S);
    nothing(&t);
    tell(&t, LONG_WORK, long_work, CENTRAL, .any = 1);
    expect(&t, PARKED, parked, CENTRAL, m->parked);
    assert_true(worker_next_timeout(&t.w) == TIME_NEVER); /* thousands may idle: central's hints wake them */
    t.now_us += 10 * MS;
    tell(&t, LONG_WORK, long_work, CENTRAL, .any = 0);
    expect(&t, PARKED, parked, CENTRAL, !m->parked);
    assert_true(worker_next_timeout(&t.w) == TIME_NEVER);
    /* A policy without stealing: nothing is asked, nothing is told. */
    t.now_us += 10 * MS;
    assert_int_equal(policy_preset("sparrow", &p), 0);
    tell(&t, POLICY, policy, CENTRAL, .policy = p);
    tell(&t, LONG_WORK, long_work, CENTRAL, .any = 1);
    enqueue(&t, 90, 0);
    starts(&t, 90, 0, CENTRAL);
    enqueue(&t, 90, 1);
    starts(&t, 90, 1, CENTRAL);
    probe(&t, 1, 1);
    nothing(&t);
    talk_end(&t);
}

/* The published simulator's settings (compat): asks when a slot is freed, by whatever, and only then. */
static void steal_on_free_only(void **state)
{
    struct talk t;
    uint32_t victim;

    talk_init(&t, 1);
    t.config.policy.flags |= POLICY_STEAL_ON_FREE_ONLY | POLICY_STEAL_ALWAYS;
    t.config.policy.flags &= ~(uint32_t)(POLICY_STEAL_HINTS | POLICY_STEAL_RETRY);
    talk_start(&t);
    join(&t);
    dist_comes(&t, DIST);
    members_are(&t, 3);
    pass(&t, 10 * US_PER_S);
    nothing(&t); /* never used: never asks */
    probe(&t, 1, 1);
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    tell(&t, NO_TASK, no_task, DIST, .job = JOB(1), .request = 1);
    victim = t.out.v[0].peer;
    expect(&t, STEAL_REQUEST, steal_request, victim, whatever);
    fail_the_round(&t, victim);
    nothing(&t);
    assert_int_equal(worker_counter(&t.w, COUNTER_steal_requests), 3);
    assert_true(worker_next_timeout(&t.w) == TIME_NEVER);
    tell(&t, TIMER, timer, 0, 0);
    tell(&t, LONG_WORK, long_work, CENTRAL, .any = 1);
    nothing(&t); /* parked for good, whatever else happens */
    probe(&t, 1, 1);
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    launch(&t, 1, 0, 2);
    exits(&t, starts(&t, 1, 0, DIST), 0);
    expect(&t, TASK_FINISHED, task_finished, DIST, whatever);
    victim = t.out.v[1].peer;
    expect(&t, STEAL_REQUEST, steal_request, victim, whatever);
    talk_end(&t);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_group_behind_the_long_task_is_given),
        cmocka_unit_test(at_most_what_the_thief_asks_for),
        cmocka_unit_test(refused_items_go_back_to_the_head_in_order),
        cmocka_unit_test(a_lost_thief_returns_everything),
        cmocka_unit_test(a_silent_thief_is_given_up),
        cmocka_unit_test(wrong_acknowledgements),
        cmocka_unit_test(a_cancel_reaches_what_is_being_stolen),
        cmocka_unit_test(too_many_thieves),
        cmocka_unit_test(loot_that_comes_back_to_a_stopping_worker),
        cmocka_unit_test(what_counts_as_long),
        cmocka_unit_test(several_slots_must_all_be_blocked),
        cmocka_unit_test(loot_becomes_reservations),
        cmocka_unit_test(a_stolen_reservation_may_be_stolen_again),
        cmocka_unit_test(items_it_cannot_use_are_refused),
        cmocka_unit_test(a_full_thief_takes_what_fits),
        cmocka_unit_test(an_answer_nobody_waits_for_is_refused),
        cmocka_unit_test(a_lost_victim_moves_the_round_on),
        cmocka_unit_test(work_ends_the_round),
        cmocka_unit_test(a_failed_round_parks),
        cmocka_unit_test(a_central_that_is_back_is_told_who_is_parked),
        cmocka_unit_test(a_central_that_hears_again_is_told_who_is_parked),
        cmocka_unit_test(a_silent_central_is_no_help),
        cmocka_unit_test(a_hint_is_followed),
        cmocka_unit_test(edges_are_rate_limited),
        cmocka_unit_test(a_new_central_hears_the_edges_again),
        cmocka_unit_test(an_idle_cluster_is_silent),
        cmocka_unit_test(steal_on_free_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
