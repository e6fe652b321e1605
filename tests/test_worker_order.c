/* Short tasks that overtake long ones in a worker's queue (policy short_first): how many, whom, what counts,
 * and that no long one waits for more than its bound. */
#include "base/rng.h"
#include "tests/test_worker.h"
#include "worker/internal.h"

static void order_is(struct talk *t, uint16_t short_first)
{
    struct policy p = *worker_policy(&t->w);

    p.short_first = short_first;
    tell(t, POLICY, policy, CENTRAL, .policy = p);
}

/* A one-slot worker with this setting, whose slot waits for the answer to request 1 (job 50). */
static void order_begin(struct talk *t, uint16_t short_first)
{
    talk_init(t, 1);
    t->config.policy.flags &= ~(uint32_t)POLICY_STEAL; /* what is told of stuck ones has tests of its own */
    t->config.policy.short_first = short_first;
    talk_start(t);
    join(t);
    dist_comes(t, DIST);
    probe(t, 50, 1);
    expect(t, TASK_REQUEST, task_request, DIST, m->job.v == JOB(50).v && m->request == 1);
}

/* The slot is free again; whatever comes next is to be expected. */
static void vain(struct talk *t, uint64_t job, uint32_t request)
{
    tell(t, NO_TASK, no_task, DIST, .job = JOB(job), .request = request);
}

static void asks(struct talk *t, uint64_t job, uint32_t request)
{
    expect(t, TASK_REQUEST, task_request, DIST, m->job.v == JOB(job).v && m->request == request);
}

/* The answer is a task, which runs and ends at once. */
static void runs(struct talk *t, uint64_t job, uint32_t task, uint32_t request)
{
    launch(t, job, task, request);
    exits(t, starts(t, job, task, DIST), 0);
    expect(t, TASK_FINISHED, task_finished, DIST, m->id.task == task);
}

static void long_ends(struct talk *t, uint32_t run)
{
    exits(t, run, 0);
    expect(t, TASK_FINISHED, task_finished, CENTRAL, whatever);
}

static void first_come_first_served_by_default(void **state)
{
    struct talk t;

    order_begin(&t, 0);
    enqueue(&t, 90, 0);
    probe(&t, 1, 1);
    vain(&t, 50, 1);
    long_ends(&t, starts(&t, 90, 0, CENTRAL));
    asks(&t, 1, 2);
    talk_end(&t);
}

static void so_many_overtake_and_then_it_is_the_long_ones_turn(void **state)
{
    struct talk t;

    order_begin(&t, 2);
    enqueue(&t, 90, 0);
    enqueue(&t, 91, 0);
    probe(&t, 1, 3);
    probe(&t, 2, 2);
    vain(&t, 50, 1);
    asks(&t, 1, 2); /* in their own order */
    runs(&t, 1, 0, 2);
    asks(&t, 1, 3);
    runs(&t, 1, 1, 3);
    long_ends(&t, starts(&t, 90, 0, CENTRAL));
    asks(&t, 1, 4); /* and as many before the next one */
    runs(&t, 1, 2, 4);
    asks(&t, 2, 5);
    runs(&t, 2, 0, 5);
    long_ends(&t, starts(&t, 91, 0, CENTRAL));
    asks(&t, 2, 6);
    runs(&t, 2, 1, 6);
    talk_end(&t);
}

static void what_came_before_overtakes_nobody(void **state)
{
    struct talk t;

    order_begin(&t, 1);
    probe(&t, 1, 2);
    enqueue(&t, 90, 0);
    probe(&t, 2, 2);
    vain(&t, 50, 1);
    asks(&t, 1, 2);
    runs(&t, 1, 0, 2);
    asks(&t, 1, 3);
    runs(&t, 1, 1, 3);
    asks(&t, 2, 4); /* the one that may */
    runs(&t, 2, 0, 4);
    long_ends(&t, starts(&t, 90, 0, CENTRAL));
    asks(&t, 2, 5);
    talk_end(&t);
}

static void what_has_no_task_does_not_count(void **state)
{
    struct talk t;

    order_begin(&t, 1);
    enqueue(&t, 90, 0);
    for (uint64_t job = 1; job <= 5; job++)
        probe(&t, job, 1);
    vain(&t, 50, 1);
    for (uint32_t job = 1; job <= 3; job++) {
        asks(&t, job, job + 1);
        vain(&t, job, job + 1);
    }
    asks(&t, 4, 5);
    runs(&t, 4, 0, 5);
    long_ends(&t, starts(&t, 90, 0, CENTRAL));
    asks(&t, 5, 6);
    talk_end(&t);
}

static void several_slots_never_ask_for_more_than_may_overtake(void **state)
{
    struct talk t;
    uint32_t run;

    talk_init(&t, 3);
    t.config.policy.flags &= ~(uint32_t)POLICY_STEAL;
    t.config.policy.short_first = 1;
    talk_start(&t);
    join(&t);
    dist_comes(&t, DIST);
    probe(&t, 50, 3);
    asks(&t, 50, 1);
    asks(&t, 50, 2);
    asks(&t, 50, 3);
    enqueue(&t, 90, 0);
    enqueue(&t, 91, 0);
    probe(&t, 1, 5);
    vain(&t, 50, 1);
    asks(&t, 1, 4);
    /* The one that may has asked and has no answer: it may have a task. */
    vain(&t, 50, 2);
    run = starts(&t, 90, 0, CENTRAL);
    vain(&t, 50, 3);
    asks(&t, 1, 5); /* ahead of the second long task */
    vain(&t, 1, 4);
    /* That one overtook the first long task, which has started: for the second it counts neither way. NO_TASK takes the
     * job's other reservations along. */
    starts(&t, 91, 0, CENTRAL);
    vain(&t, 1, 5);
    long_ends(&t, run);
    talk_end(&t);
}

static void a_long_reservation_in_vain_gives_its_turn_to_the_next(void **state)
{
    struct talk t;

    order_begin(&t, 2);
    tell(&t, PROBE, probe, DIST, .job = JOB(60), .count = 1, .class = CLASS_LONG);
    tell(&t, PROBE, probe, DIST, .job = JOB(61), .count = 1, .class = CLASS_LONG);
    probe(&t, 1, 9);
    vain(&t, 50, 1);
    asks(&t, 1, 2);
    runs(&t, 1, 0, 2);
    asks(&t, 1, 3);
    runs(&t, 1, 1, 3);
    asks(&t, 60, 4);
    vain(&t, 60, 4);
    asks(&t, 61, 5);
    runs(&t, 61, 0, 5);
    asks(&t, 1, 6);
    talk_end(&t);
}

static void switched_while_they_wait(void **state)
{
    struct talk t;

    order_begin(&t, 0);
    enqueue(&t, 90, 0);
    enqueue(&t, 91, 0);
    enqueue(&t, 92, 0);
    probe(&t, 1, 9);
    order_is(&t, 3);
    vain(&t, 50, 1);
    asks(&t, 1, 2);
    runs(&t, 1, 0, 2);
    asks(&t, 1, 3);
    order_is(&t, 1); /* two have overtaken it: with this one its turn has come */
    runs(&t, 1, 1, 3);
    long_ends(&t, starts(&t, 90, 0, CENTRAL));
    asks(&t, 1, 4);
    order_is(&t, 0);
    runs(&t, 1, 2, 4);
    long_ends(&t, starts(&t, 91, 0, CENTRAL));
    starts(&t, 92, 0, CENTRAL); /* at the head, and nobody overtakes */
    order_is(&t, 1);
    talk_end(&t);
}

static void a_queue_per_slot_counts_for_itself(void **state)
{
    struct talk t;

    talk_init(&t, 2);
    t.config.queue_per_slot = true;
    t.config.policy.flags &= ~(uint32_t)POLICY_STEAL;
    t.config.policy.short_first = 1;
    talk_start(&t);
    join(&t);
    dist_comes(&t, DIST);
    probe(&t, 50, 2);
    asks(&t, 50, 1);
    asks(&t, 50, 2);
    enqueue(&t, 90, 0);
    enqueue(&t, 91, 0);
    probe(&t, 1, 4);
    assert_int_equal(t.w.lanes[0].queue.n_long, 1);
    assert_int_equal(t.w.lanes[1].queue.n_long, 1);
    tell(&t, TASK_LAUNCH, task_launch, DIST, .id = TRY(50, 0), .desc = t.desc, .request = 1);
    exits(&t, starts(&t, 50, 0, DIST), 0);
    expect(&t, TASK_FINISHED, task_finished, DIST, whatever);
    asks(&t, 1, 3);
    launch(&t, 50, 1, 2);
    exits(&t, starts(&t, 50, 1, DIST), 0);
    expect(&t, TASK_FINISHED, task_finished, DIST, whatever);
    asks(&t, 1, 4);
    runs(&t, 1, 0, 3);
    long_ends(&t, starts(&t, 90, 0, CENTRAL));
    asks(&t, 1, 5);
    runs(&t, 1, 1, 4);
    starts(&t, 91, 0, CENTRAL);
    talk_end(&t);
}

/* ---- Stealing ---- */

static void stuck_is_what_long_work_leaves_no_slot_for(void **state)
{
    struct talk t;
    uint32_t run;

    talk_init(&t, 1);
    t.config.policy.short_first = 1;
    talk_start(&t);
    join(&t);
    dist_comes(&t, DIST);
    probe(&t, 50, 1);
    asks(&t, 50, 1);
    enqueue(&t, 90, 0);
    probe(&t, 1, 3);
    nothing(&t); /* it is the next one: first come, first served would have it stuck */
    tell(&t, STEAL_REQUEST, steal_request, OTHER, .request = 1, .max = 1000);
    expect(&t, STEAL_LOOT, steal_loot, OTHER, m->items == 0);
    vain(&t, 50, 1);
    asks(&t, 1, 2);
    /* The bound is used up: the next slot is the long one's. */
    expect(&t, STUCK, stuck, CENTRAL, m->stuck);
    t.now_us += 20 * MS;
    runs(&t, 1, 0, 2);
    run = starts(&t, 90, 0, CENTRAL);
    tell(&t, STEAL_REQUEST, steal_request, OTHER, .request = 2, .max = 1);
    expect(&t, STEAL_LOOT, steal_loot, OTHER, m->items == 1 && m->job.v == JOB(1).v && m->count == 1);
    tell(&t, STEAL_ACK, steal_ack, OTHER, .request = 2, .index = 0, .job = JOB(1), .accepted = 1);
    enqueue(&t, 91, 0);
    exits(&t, run, 0);
    expect(&t, TASK_FINISHED, task_finished, CENTRAL, whatever);
    asks(&t, 1, 3);
    expect(&t, STUCK, stuck, CENTRAL, !m->stuck);
    talk_end(&t);
}

/* Loot that is not accepted goes to the head of the queue, where it is ahead of the long task it was behind. */
static void what_thieves_decline_overtakes_too(void **state)
{
    struct talk t;
    uint32_t run;

    order_begin(&t, 1);
    vain(&t, 50, 1);
    run = long_runs(&t, 90);
    enqueue(&t, 91, 0);
    probe(&t, 1, 1);
    probe(&t, 2, 1);
    tell(&t, STEAL_REQUEST, steal_request, OTHER, .request = 1, .max = 1000);
    expect(&t, STEAL_LOOT, steal_loot, OTHER, m->items == 2 && m->job.v == JOB(1).v);
    expect(&t, STEAL_LOOT, steal_loot, OTHER, m->job.v == JOB(2).v);
    tell(&t, STEAL_ACK, steal_ack, OTHER, .request = 1, .index = 0, .job = JOB(1), .accepted = 0);
    tell(&t, STEAL_ACK, steal_ack, OTHER, .request = 1, .index = 1, .job = JOB(2), .accepted = 0);
    long_ends(&t, run);
    asks(&t, 1, 2);
    runs(&t, 1, 0, 2);
    run = starts(&t, 91, 0, CENTRAL);
    long_ends(&t, run);
    asks(&t, 2, 3);
    talk_end(&t);
}

static void a_thief_takes_what_would_overtake(void **state)
{
    for (uint16_t short_first = 0; short_first < 2; short_first++) {
        struct talk t;
        uint32_t victim;

        talk_init(&t, 1);
        t.config.policy.short_first = short_first;
        talk_start(&t);
        join(&t);
        dist_comes(&t, DIST);
        members_are(&t, 1);
        probe(&t, 50, 1);
        asks(&t, 50, 1);
        tell(&t, LONG_WORK, long_work, CENTRAL, .any = 1);
        vain(&t, 50, 1);
        victim = t.out.v[0].peer;
        expect(&t, STEAL_REQUEST, steal_request, victim, whatever);
        /* While it waits for the answer its slot is taken, and a long task queues. */
        probe(&t, 51, 1);
        asks(&t, 51, 2);
        enqueue(&t, 90, 0);
        tell(&t, STEAL_LOOT, steal_loot, victim, .request = 1, .items = 1, .job = JOB(5), .dist = {DIST},
             .count = 1);
        if (short_first)
            expect(&t, RES_MOVED, res_moved, DIST, m->count == 1);
        expect(&t, STEAL_ACK, steal_ack, victim, m->accepted == short_first);
        talk_end(&t);
    }
}

/* ---- The bound ---- */

/* Of a long task that waits: what may start before it, seen from outside, is what stood before it in its queue, and
 * short_first short ones for it and for each long one before it. */
struct waiting_long {
    uint64_t job;
    uint32_t lane, bound, started;
    bool nothing_ahead;
    uint64_t since; /* requests made before that have a slot ahead of it */
};

struct bound_model {
    struct talk t;
    struct rng r;
    struct waiting_long longs[400];
    uint32_t n_longs, lanes;
    uint32_t runs[8], n_runs;
    struct {
        uint64_t job, at;
    } asked[4000];
    uint32_t n_asked, n_answered;
    uint32_t most;       /* short_first of any time */
    uint32_t fullest;    /* most that overtook one that had nothing ahead */
    uint32_t launched;   /* tasks of short jobs, for their numbers */
    uint64_t jobs, step; /* made so far */
    uint32_t n_started_long;
};

static void note_start(struct bound_model *b, const struct msg_exec_start *m, uint64_t asked_at)
{
    uint32_t lane = (m->run & 4095) % b->lanes;

    assert_true(b->n_runs < 8);
    b->runs[b->n_runs++] = m->run;
    for (uint32_t i = 0; i < b->n_longs; i++) {
        struct waiting_long *l = &b->longs[i];

        if (m->class == CLASS_LONG && JOB(l->job).v == m->id.job.v) {
            if (l->nothing_ahead && l->started > b->fullest)
                b->fullest = l->started;
            b->n_started_long++;
            *l = b->longs[--b->n_longs];
            return;
        }
        if (m->class == CLASS_SHORT && l->lane == lane && asked_at > l->since && ++l->started > l->bound)
            fail_msg("%u short tasks started before long job %llu, %u at most should", l->started,
                     (unsigned long long)l->job, l->bound);
    }
}

static void bound_step(struct bound_model *b, struct msg m, uint64_t asked_at)
{
    b->step++;
    tell_msg(&b->t, m);
    for (uint32_t i = 0; i < b->t.out.n; i++) {
        const struct msg *o = &b->t.out.v[i];

        if (o->type == MSG_TASK_REQUEST) {
            assert_int_equal(o->task_request.request, b->n_asked + 1);
            b->asked[b->n_asked].job = o->task_request.job.v;
            b->asked[b->n_asked++].at = b->step;
        } else if (o->type == MSG_EXEC_START) {
            note_start(b, &o->exec_start, asked_at);
        }
    }
    b->t.taken = b->t.out.n;
}

#define bound_tell(b, NAME, name, from, ...)                                                                 \
    bound_step((b), (struct msg){.type = MSG_##NAME, .peer = (from), .name = {__VA_ARGS__}}, 0)

static uint32_t queued_short(const struct lane *l)
{
    uint32_t n = 0;

    list_foreach(&l->queue.shorts, k, next)
        n += container_of(k, struct steal_entry, kind)->count;
    return n;
}

static void place_long(struct bound_model *b)
{
    uint32_t ahead[4] = {0}, n_long[4] = {0}, before = b->n_started_long;
    uint64_t job = 1000000 + b->jobs++;
    struct waiting_long *l = &b->longs[b->n_longs++];

    *l = (struct waiting_long){.job = job, .lane = UINT32_MAX, .since = b->step + 1};
    for (uint32_t i = 0; i < b->lanes; i++) {
        ahead[i] = queued_short(&b->t.w.lanes[i]);
        n_long[i] = b->t.w.lanes[i].queue.n_long;
    }
    bound_step(b,
               (struct msg){.type = MSG_TASK_ENQUEUE,
                            .peer = CENTRAL,
                            .task_enqueue = {.id = TRY(job, 0), .desc = b->t.desc, .estimate_us = 1}},
               0);
    if (b->n_started_long != before)
        return; /* at once */
    for (uint32_t i = 0; i < b->lanes; i++)
        if (b->t.w.lanes[i].queue.n_long > n_long[i]) {
            l->lane = i;
            l->bound = ahead[i] + b->most * (n_long[i] + 1);
            l->nothing_ahead = ahead[i] == 0 && n_long[i] == 0;
        }
    assert_true(l->lane != UINT32_MAX);
}

/* The oldest request gets its answer: dists answer in order. */
static void answer_one(struct bound_model *b)
{
    uint32_t i = b->n_answered++;

    if (rng_below(&b->r, 3) == 0)
        bound_tell(b, NO_TASK, no_task, DIST, .job = {b->asked[i].job}, .request = i + 1);
    else
        bound_step(
            b,
            (struct msg){.type = MSG_TASK_LAUNCH,
                         .peer = DIST,
                         .task_launch = {.id = {.job = {b->asked[i].job}, .task = b->launched++, .epoch = 1},
                                         .desc = b->t.desc,
                                         .request = i + 1}},
            b->asked[i].at);
}

static void end_one(struct bound_model *b)
{
    uint32_t i = (uint32_t)rng_below(&b->r, b->n_runs), run = b->runs[i];

    b->runs[i] = b->runs[--b->n_runs];
    bound_tell(b, EXEC_EXITED, exec_exited, 0, .run = run, .outcome = OUTCOME_EXITED);
}

/* A thief that takes some of what it is given, or nothing. */
static void steal(struct bound_model *b)
{
    static uint32_t request;
    struct msg_steal_loot items[64];
    uint32_t n = 0;

    bound_tell(b, STEAL_REQUEST, steal_request, OTHER, .request = ++request, .max = 5);
    for (uint32_t i = 0; i < b->t.out.n; i++)
        if (b->t.out.v[i].type == MSG_STEAL_LOOT && b->t.out.v[i].steal_loot.items > 0)
            items[n++] = b->t.out.v[i].steal_loot;
    for (uint32_t i = 0; i < n; i++)
        bound_tell(b, STEAL_ACK, steal_ack, OTHER, .request = request, .index = items[i].index,
                   .job = items[i].job,
                   .accepted = rng_below(&b->r, 2) ? 0 : (uint32_t)rng_below(&b->r, items[i].count + 1));
}

static void change(struct bound_model *b)
{
    struct policy p = *worker_policy(&b->t.w);

    p.short_first = (uint16_t)rng_below(&b->r, b->most + 1);
    bound_tell(b, POLICY, policy, CENTRAL, .policy = p);
}

static void one_thing(struct bound_model *b, bool steals)
{
    switch (rng_below(&b->r, 8)) {
    case 0:
    case 1:
        if (b->t.w.n_reservations < 12)
            bound_tell(b, PROBE, probe, DIST, .job = JOB(1 + b->jobs++),
                       .count = 1 + (uint32_t)rng_below(&b->r, 4));
        break;
    case 2:
        if (b->n_longs < 5)
            place_long(b);
        break;
    case 3:
        if (steals)
            steal(b);
        else if (rng_below(&b->r, 10) == 0)
            change(b); /* off as well: then what is put back at the head is first, whatever it was behind */
        break;
    default:
        if (b->n_answered < b->n_asked && (b->n_runs == 0 || rng_below(&b->r, 2)))
            answer_one(b);
        else if (b->n_runs > 0)
            end_one(b);
    }
}

static uint32_t bound_run(uint64_t seed)
{
    static struct bound_model b;
    bool steals;

    memset(&b, 0, sizeof b);
    rng_seed(&b.r, seed);
    talk_init(&b.t, 1 + (uint32_t)rng_below(&b.r, 4));
    steals = rng_below(&b.r, 2);
    b.t.config.queue_per_slot = rng_below(&b.r, 2);
    b.lanes = b.t.config.queue_per_slot ? b.t.config.slots : 1;
    b.most = 1 + (uint32_t)rng_below(&b.r, 4);
    b.t.config.policy.short_first = (uint16_t)b.most;
    talk_start(&b.t);
    join(&b.t);
    dist_comes(&b.t, DIST);
    for (int i = 0; i < 600; i++)
        one_thing(&b, steals);
    /* What is left comes to its end: nothing waits for ever. */
    while (b.n_answered < b.n_asked || b.n_runs > 0) {
        if (b.n_answered < b.n_asked)
            answer_one(&b);
        else
            end_one(&b);
    }
    assert_int_equal(b.n_longs, 0);
    assert_int_equal(counts_of(&b.t).reservations, 0);
    talk_end(&b.t);
    return b.fullest == b.most;
}

static void no_long_task_waits_beyond_its_bound(void **state)
{
    uint32_t reached = 0;

    for (uint64_t seed = 1; seed <= 300; seed++)
        reached += bound_run(seed);
    assert_true(reached > 50); /* or it would say nothing */
}

/* ---- Policy flag avoid_long ---- */

/* A worker of two slots, one of which has a long task, with a short partition somewhere or none. */
static uint32_t avoid_begin(struct talk *t, uint32_t share_ppm)
{

    talk_init(t, 2);
    t->config.policy.flags &= ~(uint32_t)POLICY_STEAL;
    t->config.policy.flags |= POLICY_AVOID_LONG;
    t->config.policy.short_share_ppm = share_ppm;
    talk_start(t);
    join(t);
    dist_comes(t, DIST);
    enqueue(t, 90, 0);
    return starts(t, 90, 0, CENTRAL);
}

static void a_worker_that_long_tasks_fill_refuses_short_probes(void **state)
{
    struct talk t;
    uint32_t first = avoid_begin(&t, 100000);

    probe(&t, 1, 1); /* a slot is free */
    asks(&t, 1, 1);
    vain(&t, 1, 1);
    enqueue(&t, 91, 0);
    starts(&t, 91, 0, CENTRAL);
    probe(&t, 2, 3);
    expect(&t, PROBE_REFUSED, probe_refused, DIST,
           m->job.v == JOB(2).v && m->count == 3 && m->err == HAWK_EBUSY);
    long_ends(&t, first);
    probe(&t, 3, 1);
    asks(&t, 3, 2);
    talk_end(&t);
}

/* Where nothing is reserved a short job has nowhere else to go, and on a reserved worker a long task is soon over. */
static void only_general_workers_beside_a_short_partition_refuse(void **state)
{
    for (int reserved = 0; reserved < 2; reserved++) {
        struct talk t;

        avoid_begin(&t, reserved ? 100000 : 0);
        enqueue(&t, 91, 0);
        starts(&t, 91, 0, CENTRAL);
        if (reserved) {
            tell(&t, PARTITION, partition, CENTRAL, .epoch = 2, .general = 0);
            expect(&t, PARTITION_ACK, partition_ack, CENTRAL, m->epoch == 2);
        }
        probe(&t, 2, 3);
        talk_end(&t);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_come_first_served_by_default),
        cmocka_unit_test(so_many_overtake_and_then_it_is_the_long_ones_turn),
        cmocka_unit_test(what_came_before_overtakes_nobody),
        cmocka_unit_test(what_has_no_task_does_not_count),
        cmocka_unit_test(several_slots_never_ask_for_more_than_may_overtake),
        cmocka_unit_test(a_long_reservation_in_vain_gives_its_turn_to_the_next),
        cmocka_unit_test(switched_while_they_wait),
        cmocka_unit_test(a_queue_per_slot_counts_for_itself),
        cmocka_unit_test(stuck_is_what_long_work_leaves_no_slot_for),
        cmocka_unit_test(what_thieves_decline_overtakes_too),
        cmocka_unit_test(a_thief_takes_what_would_overtake),
        cmocka_unit_test(no_long_task_waits_beyond_its_bound),
        cmocka_unit_test(a_worker_that_long_tasks_fill_refuses_short_probes),
        cmocka_unit_test(only_general_workers_beside_a_short_partition_refuse),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
