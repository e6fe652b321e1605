/* A worker that takes over from an earlier process of it: what its executor still holds, what owners are told of it,
 * and the lease that the earlier process was given. */
#include "tests/test_worker.h"
#include "worker/internal.h"

#define RUN(generation, slot) ((uint32_t)(generation) << RUN_SLOT_BITS | (slot))

static void begin(struct talk *t, uint32_t slots)
{
    talk_init(t, slots);
    t->config.successors = true;
    worker_init(&t->w, &t->config, 1);
}

static void joins(struct talk *t)
{
    tell(t, PEER_UP, peer_up, CENTRAL, ROLE_CENTRAL);
    expect(t, JOIN, join, CENTRAL, m->incarnation == 4711 && m->node.v == 0);
    tell(t, JOINED, joined, CENTRAL, .node = {SELF}, .heartbeat_us = 500 * MS, .lease_us = 60 * US_PER_S);
}

static void running_tasks_go_on_in_their_slots(void **state)
{
    struct talk t;

    begin(&t, 2);
    tell(&t, EXEC_HELD, exec_held, 0, .id = TRY(1, 0), .run = RUN(6, 1), .owner = NODE_CENTRAL,
         .run_us = 700 * MS, .class = CLASS_LONG);
    tell(&t, EXEC_HELD, exec_held, 0, .id = TRY(2, 3), .run = RUN(5, 0), .owner = {DIST}, .run_us = 200 * MS,
         .stolen = 1);
    tell(&t, START, start, 0, 0);
    assert_int_equal(counts_of(&t).free, 0);
    assert_int_equal(counts_of(&t).running_long, 1);
    joins(&t);
    expect(&t, TASK_HELD, task_held, CENTRAL,
           try_eq(&m->id, &TRY(1, 0)) && m->state == TASK_RUNNING && m->run_us == 700 * MS);
    expect(&t, HELD_END, held_end, CENTRAL, whatever);
    tell(&t, PEER_UP, peer_up, DIST, ROLE_DIST);
    expect(&t, TASK_HELD, task_held, DIST,
           try_eq(&m->id, &TRY(2, 3)) && m->state == TASK_RUNNING && m->run_us == 200 * MS);
    expect(&t, HELD_END, held_end, DIST, whatever);
    /* The slot is served again when it ends, under a number that no held one has. */
    probe(&t, 4, 1);
    tell(&t, EXEC_EXITED, exec_exited, 0, .run = RUN(5, 0), .outcome = OUTCOME_EXITED, .run_us = 900 * MS);
    expect(&t, TASK_FINISHED, task_finished, DIST,
           try_eq(&m->id, &TRY(2, 3)) && m->run_us == 900 * MS && m->stolen && m->outcome == OUTCOME_EXITED);
    expect(&t, TASK_REQUEST, task_request, DIST, m->request == 1 && !m->has_spec);
    tell(&t, FINISH_ACK, finish_ack, DIST, .id = TRY(2, 3));
    expect(&t, EXEC_FORGET, exec_forget, 0, m->run == RUN(5, 0));
    launch(&t, 4, 0, 1);
    assert_int_equal(starts(&t, 4, 0, DIST), RUN(7, 0));
    talk_end(&t);
}

static void ends_that_nobody_acknowledged_are_told(void **state)
{
    struct blob *why = blob_str("no such program");
    struct talk t;

    begin(&t, 1);
    /* Both had the one slot; the task that has it now is a third. */
    tell(&t, EXEC_HELD, exec_held, 0, .id = TRY(1, 0), .run = RUN(1, 0), .owner = {DIST}, .run_us = 5,
         .outcome = OUTCOME_EXITED, .code = 2);
    tell(&t, EXEC_USED, exec_used, 0, .id = TRY(1, 0), .owner = {DIST}, .used = usage_of(4, 2000));
    tell(&t, EXEC_USED, exec_used, 0, .id = TRY(9, 9), .owner = {DIST2},
         .used = usage_of(5, 5)); /* unknown */
    tell(&t, EXEC_HELD, exec_held, 0, .id = TRY(1, 1), .run = RUN(2, 0), .owner = {DIST},
         .outcome = OUTCOME_NOT_STARTED, .code = 127, .result = why);
    tell(&t, EXEC_HELD, exec_held, 0, .id = TRY(1, 2), .run = RUN(3, 0), .owner = {DIST});
    tell(&t, START, start, 0, 0);
    assert_int_equal(counts_of(&t).unacked, 2);
    assert_int_equal(counts_of(&t).running, 1);
    tell(&t, PEER_UP, peer_up, DIST, ROLE_DIST);
    expect(&t, TASK_HELD, task_held, DIST, m->id.task == 0 && m->state == TASK_DONE);
    expect(&t, TASK_FINISHED, task_finished, DIST,
           m->id.task == 0 && m->code == 2 && m->run_us == 5 && figure_value(m->used.cpu_us) == 4 &&
               figure_value(m->used.mem_peak_bytes) == 2000);
    expect(&t, TASK_HELD, task_held, DIST, m->id.task == 1 && m->state == TASK_DONE);
    expect(&t, TASK_FINISHED, task_finished, DIST,
           m->id.task == 1 && m->outcome == OUTCOME_NOT_STARTED && m->code == 127 && m->result == why &&
               m->used.cpu_us.v == 0);
    expect(&t, TASK_HELD, task_held, DIST, m->id.task == 2 && m->state == TASK_RUNNING);
    expect(&t, HELD_END, held_end, DIST, whatever);
    tell(&t, FINISH_ACK, finish_ack, DIST, .id = TRY(1, 0));
    expect(&t, EXEC_FORGET, exec_forget, 0, m->run == RUN(1, 0));
    tell(&t, FINISH_ACK, finish_ack, DIST, .id = TRY(1, 1));
    expect(&t, EXEC_FORGET, exec_forget, 0, m->run == RUN(2, 0));
    /* An attempt that the dist has given to another worker meanwhile. */
    tell(&t, TASK_CANCEL, task_cancel, DIST, .id = TRY(1, 2));
    expect(&t, EXEC_KILL, exec_kill, 0, m->run == RUN(3, 0) && m->outcome == OUTCOME_CANCELLED && !m->force);
    talk_end(&t);
    blob_drop(why);
}

/* Or the executor would take what is said of one for the other's, and forget an end that nobody has acknowledged. */
static void no_new_run_has_the_number_of_one_that_ended(void **state)
{
    struct talk t;

    begin(&t, 1);
    tell(&t, EXEC_HELD, exec_held, 0, .id = TRY(1, 0), .run = RUN(1, 0), .owner = NODE_CENTRAL,
         .outcome = OUTCOME_EXITED);
    tell(&t, START, start, 0, 0);
    tell(&t, PEER_UP, peer_up, DIST, ROLE_DIST);
    expect(&t, HELD_END, held_end, DIST, whatever);
    probe(&t, 2, 1);
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    launch(&t, 2, 0, 1);
    assert_int_equal(starts(&t, 2, 0, DIST), RUN(2, 0));
    talk_end(&t);
}

/* DESIGN 3.9: a process that has not heard from central has no more time than the one before it. */
static void the_lease_is_the_last_processs_until_central_answers(void **state)
{
    struct talk t;

    begin(&t, 2);
    tell(&t, EXEC_LEASE, exec_lease, 0, .until_us = t.now_us + 3 * US_PER_S);
    tell(&t, EXEC_HELD, exec_held, 0, .id = TRY(1, 0), .run = RUN(1, 0), .owner = NODE_CENTRAL,
         .class = CLASS_LONG);
    tell(&t, EXEC_HELD, exec_held, 0, .id = TRY(2, 0), .run = RUN(1, 1), .owner = {DIST});
    tell(&t, START, start, 0, 0);
    pass(&t, 3 * US_PER_S - 1);
    nothing(&t);
    pass(&t, 1);
    expect(&t, EXEC_KILL, exec_kill, 0, m->run == RUN(1, 0) && m->force && m->outcome == OUTCOME_LOST);
    talk_end(&t);
}

static void central_renews_the_lease(void **state)
{
    struct talk t;

    talk_init(&t, 1);
    t.config.successors = t.config.heartbeats = true;
    worker_init(&t.w, &t.config, 1);
    tell(&t, EXEC_LEASE, exec_lease, 0, .until_us = t.now_us + 3 * US_PER_S);
    tell(&t, EXEC_HELD, exec_held, 0, .id = TRY(1, 0), .run = RUN(1, 0), .owner = NODE_CENTRAL,
         .class = CLASS_LONG);
    tell(&t, START, start, 0, 0);
    t.now_us += US_PER_S;
    joins(&t);
    expect(&t, TASK_HELD, task_held, CENTRAL, m->state == TASK_RUNNING && m->run_us == US_PER_S);
    expect(&t, HELD_END, held_end, CENTRAL, whatever);
    expect(&t, EXEC_LEASE, exec_lease, 0, m->until_us == t.now_us + 54 * US_PER_S);
    t.now_us += 4 * US_PER_S; /* as a shell that was late, so that the first one asks for an answer */
    tell(&t, TIMER, timer, 0, 0);
    while (t.taken < t.out.n && t.out.v[t.taken].type == MSG_COUNTER)
        t.taken++;
    expect(&t, HEARTBEAT, heartbeat, CENTRAL, m->running_long == 1 && !m->quiet);
    tell(&t, HEARTBEAT_ACK, heartbeat_ack, CENTRAL, .seq = 1);
    expect(&t, EXEC_LEASE, exec_lease, 0, m->until_us == t.now_us + 54 * US_PER_S);
    /* With nothing of central's here it is nobody's business. */
    tell(&t, EXEC_EXITED, exec_exited, 0, .run = RUN(1, 0), .outcome = OUTCOME_EXITED);
    expect(&t, TASK_FINISHED, task_finished, CENTRAL, whatever);
    pass(&t, 500 * MS);
    while (t.taken < t.out.n && t.out.v[t.taken].type == MSG_COUNTER)
        t.taken++;
    expect(&t, HEARTBEAT, heartbeat, CENTRAL, whatever);
    tell(&t, HEARTBEAT_ACK, heartbeat_ack, CENTRAL, .seq = 2);
    talk_end(&t);
}

static void a_dist_that_stays_away_has_orphans(void **state)
{
    struct talk t;

    begin(&t, 1);
    tell(&t, EXEC_HELD, exec_held, 0, .id = TRY(1, 0), .run = RUN(1, 0), .owner = {DIST},
         .outcome = OUTCOME_EXITED);
    tell(&t, EXEC_HELD, exec_held, 0, .id = TRY(1, 1), .run = RUN(2, 0), .owner = {DIST});
    tell(&t, START, start, 0, 0);
    pass(&t, t.config.orphan_us);
    expect(&t, EXEC_FORGET, exec_forget, 0, m->run == RUN(1, 0));
    expect(&t, EXEC_KILL, exec_kill, 0, m->run == RUN(2, 0) && m->force && m->outcome == OUTCOME_LOST);
    tell(&t, EXEC_EXITED, exec_exited, 0, .run = RUN(2, 0), .outcome = OUTCOME_LOST, .code = 9);
    expect(&t, EXEC_FORGET, exec_forget, 0, m->run == RUN(2, 0));
    assert_true(worker_quiet(&t.w));
    talk_end(&t);
}

static void what_has_no_slot_is_ended(void **state)
{
    struct talk t;

    begin(&t, 1);
    tell(&t, EXEC_HELD, exec_held, 0, .id = TRY(1, 0), .run = RUN(1, 0), .owner = {DIST});
    tell(&t, EXEC_HELD, exec_held, 0, .id = TRY(1, 1), .run = RUN(1, 1), .owner = {DIST2});
    expect(&t, EXEC_KILL, exec_kill, 0, m->run == RUN(1, 1) && m->force);
    tell(&t, EXEC_HELD, exec_held, 0, .id = TRY(1, 2), .run = RUN(2, 0), .owner = NODE_CENTRAL);
    expect(&t, EXEC_KILL, exec_kill, 0, m->run == RUN(2, 0) && m->force);
    tell(&t, EXEC_HELD, exec_held, 0, .id = TRY(1, 0), .run = RUN(3, 0), .owner = {DIST},
         .outcome = OUTCOME_EXITED);
    expect(&t, EXEC_FORGET, exec_forget, 0, m->run == RUN(3, 0));
    tell(&t, START, start, 0, 0);
    tell(&t, EXEC_EXITED, exec_exited, 0, .run = RUN(1, 1), .outcome = OUTCOME_LOST, .code = 9);
    expect(&t, EXEC_FORGET, exec_forget, 0, m->run == RUN(1, 1));
    assert_int_equal(counts_of(&t).running, 1);
    talk_end(&t);
}

/* Promotion (DESIGN 3.6) goes by how long a task has run, in whatever process's time. */
static void overruns_are_known_again(void **state)
{
    struct talk t;

    begin(&t, 3);
    t.now_us = 60 * US_PER_S;
    tell(&t, EXEC_HELD, exec_held, 0, .id = TRY(1, 0), .run = RUN(1, 0), .owner = {DIST},
         .run_us = 9 * US_PER_S, .promotable = 1);
    tell(&t, EXEC_HELD, exec_held, 0, .id = TRY(1, 1), .run = RUN(1, 1), .owner = {DIST},
         .run_us = 12 * US_PER_S, .promotable = 1);
    tell(&t, EXEC_HELD, exec_held, 0, .id = TRY(1, 2), .run = RUN(1, 2), .owner = {DIST}, .run_us = 10 * MS,
         .promotable = 1);
    tell(&t, START, start, 0, 0);
    tell(&t, TIMER, timer, 0, 0);
    nothing(&t);
    assert_int_equal(counts_of(&t).running_long, 1);
    tell(&t, PEER_UP, peer_up, DIST, ROLE_DIST);
    expect(&t, TASK_HELD, task_held, DIST, m->id.task == 0);
    expect(&t, TASK_HELD, task_held, DIST, m->id.task == 1);
    expect(&t, TASK_OVERRUN, task_overrun, DIST, m->id.task == 1 && m->run_us == 12 * US_PER_S);
    expect(&t, TASK_HELD, task_held, DIST, m->id.task == 2);
    expect(&t, HELD_END, held_end, DIST, whatever);
    pass(&t, US_PER_S);
    expect(&t, TASK_OVERRUN, task_overrun, DIST, m->id.task == 0 && m->run_us == 10 * US_PER_S);
    talk_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(running_tasks_go_on_in_their_slots),
        cmocka_unit_test(ends_that_nobody_acknowledged_are_told),
        cmocka_unit_test(no_new_run_has_the_number_of_one_that_ended),
        cmocka_unit_test(the_lease_is_the_last_processs_until_central_answers),
        cmocka_unit_test(central_renews_the_lease),
        cmocka_unit_test(a_dist_that_stays_away_has_orphans),
        cmocka_unit_test(what_has_no_slot_is_ended),
        cmocka_unit_test(overruns_are_known_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
