/* Stealing between workers: this one as victim, as thief, with lost peers and crossing cancellations. */
#include "tests/test_worker_thief.h"

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

static void only_the_victim_says_whose_turn_its_loot_takes(void **state)
{
    struct talk t;
    uint32_t victim = thief_begin(&t);

    tell(&t, LOOT_USER, loot_user, victim == 20 ? 21 : 20, .request = t.w.thief.request, .user = 7);
    assert_int_equal(t.w.loot_user, 0);
    tell(&t, LOOT_USER, loot_user, victim, .request = t.w.thief.request, .user = 7);
    assert_int_equal(t.w.loot_user, 7);
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
        cmocka_unit_test(only_the_victim_says_whose_turn_its_loot_takes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
