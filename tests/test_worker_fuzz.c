/* Random conversations: whatever peers say in whatever order, invariants hold after every step, time outs are
 * never overdue, nothing leaks, and a stop in good order ends with nothing left. And three workers that steal
 * from each other over FIFO streams: no reservation is lost or doubled. */
#include "tests/lib/random_msg.h"
#include "tests/test_worker.h"
#include "worker/internal.h"

#define RUNS 256

struct fuzz {
    struct talk t;
    struct rng r;
    uint32_t runs[RUNS]; /* told to the executor and not ended */
    uint32_t n_runs;
    bool stopped;
};

static uint64_t below(struct fuzz *f, uint64_t n) { return rng_below(&f->r, n); }

static const uint32_t peers[] = {DIST, DIST2, CENTRAL, OTHER, OTHER + 1, OTHER + 2, SELF, 55, 0};

static uint32_t some_peer(struct fuzz *f) { return peers[below(f, sizeof peers / sizeof *peers)]; }
static uint32_t some_dist(struct fuzz *f) { return below(f, 2) ? DIST : DIST2; }
static job_id_t some_job(struct fuzz *f) { return JOB(1 + below(f, 6)); }
static struct try_id some_try(struct fuzz *f)
{
    return (struct try_id){.job = some_job(f),
                           .task = (uint32_t)below(f, 8),
                           .epoch = (uint16_t)(1 + below(f, 2)),
                           .attempt = (uint16_t)(1 + below(f, 2))};
}
static uint32_t some_count(struct fuzz *f) { return below(f, 20) ? (uint32_t)below(f, 6) : UINT32_MAX; }

/* Notes what the worker asked of its executor. */
static void listen(struct fuzz *f)
{
    for (uint32_t i = 0; i < f->t.out.n; i++) {
        const struct msg *m = &f->t.out.v[i];

        if (m->type == MSG_EXEC_START) {
            assert_true(f->n_runs < RUNS);
            f->runs[f->n_runs++] = m->exec_start.run;
        }
        f->stopped = f->stopped || m->type == MSG_STOPPED;
    }
    f->t.taken = f->t.out.n;
}

static void say(struct fuzz *f, struct msg m)
{
    tell_msg(&f->t, m);
    listen(f);
}

#define say_to(f, NAME, name, from, ...)                                                                     \
    say((f), (struct msg){.type = MSG_##NAME, .peer = (from), .name = {__VA_ARGS__}})

static void random_policy(struct fuzz *f)
{
    struct policy p = *worker_policy(&f->t.w);

    p.flags = (uint32_t)rng_next(&f->r);
    if (below(f, 3))
        p.flags |= POLICY_STEAL;
    p.steal_cap = (uint16_t)below(f, 4);
    p.steal_max = (uint16_t)below(f, 8);
    p.short_first = (uint16_t)below(f, 4);
    p.cutoff_us = (int64_t)below(f, 3) * 40 * MS;
    say_to(f, POLICY, policy, CENTRAL, .policy = p);
}

static void random_members(struct fuzz *f)
{
    uint32_t n = (uint32_t)below(f, 6);
    struct members *list = members_new(n);

    for (uint32_t i = 0; i < n; i++) {
        list->v[i].node.v = SELF + i;
        list->v[i].role = below(f, 5) ? ROLE_WORKER : ROLE_DIST;
        list->v[i].state = below(f, 5) ? MEMBER_UP : MEMBER_SUSPECT;
        list->v[i].general = below(f, 5) > 0;
    }
    say_to(f, MEMBERS, members, CENTRAL, .list = list);
    members_drop(list);
}

/* Any well-formed message at all, from anybody. */
static void random_wire(struct fuzz *f)
{
    struct msg m;

    random_msg(&f->r, (enum msg_type)(1 + below(f, MSG_WIRE_END - 1)), &m);
    m.peer = some_peer(f);
    if (m.type != MSG_REFUSED && !(m.type == MSG_JOINED && m.peer == CENTRAL))
        say(f, m);
    msg_drop(&m);
}

static void end_a_run(struct fuzz *f)
{
    uint64_t i = below(f, f->n_runs);
    uint32_t run = f->runs[i];

    f->runs[i] = f->runs[--f->n_runs];
    say_to(f, EXEC_EXITED, exec_exited, 0, .run = run, .outcome = (uint8_t)(1 + below(f, 4)),
           .code = (int32_t)below(f, 2), .run_us = (int64_t)below(f, 1000));
}

static void central_joins(struct fuzz *f)
{
    say_to(f, PEER_UP, peer_up, CENTRAL, ROLE_CENTRAL);
    say_to(f, JOINED, joined, CENTRAL, .node = {SELF}, .heartbeat_us = 50 * MS, .lease_us = 500 * MS);
    say_to(f, PARTITION, partition, CENTRAL, .epoch = 1, .general = below(f, 4) > 0);
}

/* The answer to the request a dist would answer next, mostly. */
static void answer(struct fuzz *f)
{
    uint32_t request = (uint32_t)below(f, 12), dist = some_dist(f);
    job_id_t job = some_job(f);
    struct try_id id = some_try(f);

    for (uint32_t i = 0; i < f->t.config.slots && below(f, 8); i++) {
        const struct slot *s = &f->t.w.slots[i];

        if (s->state != SLOT_REQUESTED)
            continue;
        request = s->request;
        dist = s->job->owner->node.v;
        job = s->job->id;
        break;
    }
    id.job = job;
    if (below(f, 3) == 0)
        say_to(f, NO_TASK, no_task, dist, .job = job, .request = request);
    else
        say_to(f, TASK_LAUNCH, task_launch, dist, .id = id, .desc = below(f, 8) ? f->t.desc : NULL,
               .request = request, .promotable = (uint8_t)below(f, 2));
}

static void steal_talk(struct fuzz *f)
{
    const struct thief *t = &f->t.w.thief;
    uint32_t request = below(f, 4) ? t->request : (uint32_t)below(f, 9);
    uint32_t from = below(f, 4) ? t->victim.v : some_peer(f);
    uint16_t items = (uint16_t)below(f, 3), index = below(f, 4) ? t->index : (uint16_t)below(f, 3);

    switch (below(f, 4)) {
    case 0:
        say_to(f, STEAL_REQUEST, steal_request, some_peer(f), .request = (uint32_t)below(f, 5),
               .max = some_count(f));
        break;
    case 1:
        say_to(f, STEAL_LOOT, steal_loot, from, .request = request, .items = items, .index = index,
               .job = some_job(f), .dist = {some_peer(f)}, .count = some_count(f));
        break;
    case 2:
        say_to(f, STEAL_HINT, steal_hint, CENTRAL, .victim = {some_peer(f)});
        break;
    default:
        say_to(f, STEAL_ACK, steal_ack, some_peer(f), .request = (uint32_t)below(f, 5),
               .index = (uint16_t)below(f, 4), .job = some_job(f), .accepted = some_count(f));
    }
}

static void time_passes(struct fuzz *f)
{
    f->t.now_us += (int64_t)below(f, 30 * MS);
    if (worker_next_timeout(&f->t.w) <= f->t.now_us)
        say_to(f, TIMER, timer, 0, 0);
}

static void one_thing(struct fuzz *f)
{
    switch (below(f, 22)) {
    case 0:
        return say_to(f, PEER_LOST, peer_lost, below(f, 3) ? OTHER + (uint32_t)below(f, 3) : some_peer(f), 0);
    case 1:
        return say_to(f, PEER_UP, peer_up, some_dist(f), ROLE_DIST);
    case 2:
        return below(f, 8) ? say_to(f, PEER_UP, peer_up, some_dist(f), ROLE_DIST) : central_joins(f);
    case 3:
        return below(f, 4) ? random_wire(f) : random_policy(f);
    case 4:
        return random_members(f);
    case 5:
        return say_to(f, LONG_WORK, long_work, CENTRAL, (uint8_t)below(f, 2));
    case 6:
        return say_to(f, HEARTBEAT_ACK, heartbeat_ack, CENTRAL, f->t.w.heartbeat_seq - (uint32_t)below(f, 3));
    case 7:
        return say_to(f, PARTITION, partition, CENTRAL, .epoch = 2, .general = below(f, 3) > 0);
    case 8:
        return say_to(f, TASK_CANCEL, task_cancel, some_peer(f), .id = some_try(f));
    case 9:
        return say_to(f, FINISH_ACK, finish_ack, some_peer(f), .id = some_try(f));
    case 10:
        return say_to(f, PROBE_CANCEL, probe_cancel, some_dist(f), .job = some_job(f));
    case 11:
    case 12:
        return say_to(f, TASK_ENQUEUE, task_enqueue, CENTRAL, .id = some_try(f),
                      .desc = below(f, 9) ? f->t.desc : NULL);
    case 13:
    case 14:
    case 15:
        return steal_talk(f);
    case 16:
        return time_passes(f);
    case 17:
    case 18:
        return f->n_runs ? end_a_run(f) : answer(f);
    case 19:
        return f->n_runs ? say_to(f, EXEC_STARTED, exec_started, 0, .run = f->runs[below(f, f->n_runs)],
                                  .pid = below(f, 9) ? 1 : -1)
                         : answer(f);
    case 20:
        return answer(f);
    default:
        return say_to(f, PROBE, probe, some_dist(f), .job = some_job(f), .count = some_count(f),
                      .class = below(f, 4) == 0);
    }
}

/* Peers behave again: everything is answered, acknowledged and ended, and the stop goes through. */
static void heal_and_stop(struct fuzz *f)
{
    bool now = below(f, 2) > 0;

    say_to(f, STOP, stop, 0, .now = now);
    for (uint32_t p = OTHER; p < OTHER + 3; p++)
        say_to(f, PEER_LOST, peer_lost, p, ROLE_WORKER);
    for (size_t p = 0; p < sizeof peers / sizeof *peers; p++)
        if (peers[p] != CENTRAL)
            say_to(f, PEER_LOST, peer_lost, peers[p], ROLE_NONE);
    for (int i = 0; i < 20 && f->n_runs; i++)
        while (f->n_runs)
            end_a_run(f);
    say_to(f, PEER_LOST, peer_lost, CENTRAL, ROLE_CENTRAL);
    assert_true(f->stopped);
    assert_int_equal(counts_of(&f->t).queued_tasks, 0);
    assert_int_equal(counts_of(&f->t).free, counts_of(&f->t).slots);
    if (now && f->t.w.n_loot > 0)
        return; /* a stop at once does not wait for what thieves have to acknowledge */
    assert_int_equal(counts_of(&f->t).reservations, 0);
    assert_int_equal(f->t.w.n_loot, 0);
}

static void whatever_peers_say(void **state)
{
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct fuzz f = {0};

        rng_seed(&f.r, seed);
        talk_init(&f.t, 1 + (uint32_t)below(&f, 4));
        f.t.config.queue_per_slot = below(&f, 2);
        f.t.config.queue_limit = below(&f, 2) ? 20 : 1000;
        f.t.config.orphan_us = 100 * MS;
        f.t.config.heartbeats = below(&f, 2);
        f.t.config.policy.cutoff_us = 40 * MS;
        talk_start(&f.t);
        central_joins(&f);
        for (int i = 0; i < 400 && !f.stopped; i++)
            one_thing(&f);
        if (!f.stopped && seed % 4)
            heal_and_stop(&f);
        talk_end(&f.t); /* from whatever state: nothing leaks */
    }
}

/* ---- Three workers that steal from each other ---- */

#define NODES 3
#define JOBS 8
#define WIRE 4096

/* Streams are FIFO per pair of peers; here the whole cluster is one FIFO, which is one of its schedules, and
 * messages between different pairs are taken out of order at random. */
struct flock {
    struct worker w[NODES];
    struct worker_config config;
    struct rng r;
    int64_t now_us;
    struct job_desc *desc;
    struct flight {
        struct msg m;      /* peer: the sender */
        uint32_t from, to; /* node ids; DIST, CENTRAL or 0 for the executor */
    } wire[WIRE];
    uint32_t n;
    uint32_t live[JOBS][NODES]; /* what the dist believes */
    uint32_t started, stolen, n_try;
};

static uint32_t node_of(int i) { return SELF + (uint32_t)i; }

static void flock_send(struct flock *k, uint32_t from, uint32_t to, const struct msg *m)
{
    struct flight *x = &k->wire[k->n++];

    assert_true(k->n < WIRE);
    x->m = *m;
    x->m.peer = from;
    x->from = from;
    x->to = to;
}

static void flock_step(struct flock *k, int i, struct msg m)
{
    struct event e = {.now_us = k->now_us, .m = m};
    struct out out = {0};

    worker_step(&k->w[i], &e, &out);
    worker_check(&k->w[i]);
    for (uint32_t o = 0; o < out.n; o++) {
        struct msg *x = &out.v[o];

        msg_ref(x); /* the wire holds its own */
        flock_send(k, node_of(i), x->peer, x);
    }
    out_clear(&out);
    out_free(&out);
}

/* The dist: launches as long as it is asked, and keeps its books by what it is told. */
static void to_dist(struct flock *k, const struct flight *x)
{
    int i = (int)(x->from - SELF);
    uint64_t j;

    if (x->m.type == MSG_TASK_REQUEST) {
        j = job_id_seq(x->m.task_request.job);
        assert_true(k->live[j][i] > 0); /* it never hears of a reservation before it hears that it moved */
        k->live[j][i]--;
        flock_send(k, DIST, x->from,
                   &(struct msg){.type = MSG_TASK_LAUNCH,
                                 .task_launch = {.id = TRY(j, k->n_try),
                                                 .desc = job_desc_ref(k->desc),
                                                 .request = x->m.task_request.request}});
        k->n_try++;
    } else if (x->m.type == MSG_RES_MOVED) {
        uint32_t n = x->m.res_moved.count;
        int from = (int)(x->m.res_moved.from.v - SELF);

        j = job_id_seq(x->m.res_moved.job);
        assert_true(k->live[j][from] >= n);
        k->live[j][from] -= n;
        k->live[j][i] += n;
        k->stolen += n;
    } else if (x->m.type == MSG_TASK_FINISHED) {
        assert_int_equal(x->m.task_finished.outcome, OUTCOME_EXITED);
        k->started++;
        flock_send(k, DIST, x->from,
                   &(struct msg){.type = MSG_FINISH_ACK, .finish_ack = {.id = x->m.task_finished.id}});
    }
}

static void deliver(struct flock *k, uint32_t at)
{
    struct flight x = k->wire[at];

    memmove(&k->wire[at], &k->wire[at + 1], (k->n - at - 1) * sizeof x);
    k->n--;
    if (x.to == DIST) {
        to_dist(k, &x);
    } else if (x.to >= SELF && x.to < SELF + NODES) {
        flock_step(k, (int)(x.to - SELF), x.m);
    } else if (x.m.type == MSG_EXEC_START) {
        int i = (int)(x.from - SELF);
        uint32_t run = x.m.exec_start.run;

        flock_step(k, i, (struct msg){.type = MSG_EXEC_STARTED, .exec_started = {.run = run, .pid = 1}});
        /* Long tasks of central's never end here. */
        if (x.m.exec_start.id.job.v != JOB(99).v)
            flock_step(k, i,
                       (struct msg){.type = MSG_EXEC_EXITED,
                                    .exec_exited = {.run = run, .outcome = OUTCOME_EXITED}});
    }
    msg_drop(&x.m);
}

/* Delivers something that is first in its stream. */
static void deliver_some(struct flock *k)
{
    uint32_t at = (uint32_t)rng_below(&k->r, k->n);

    for (uint32_t i = 0; i < at; i++)
        if (k->wire[i].from == k->wire[at].from && k->wire[i].to == k->wire[at].to)
            at = i;
    deliver(k, at);
}

static void flock_join(struct flock *k, int i)
{
    struct members *list = members_new(NODES);

    for (int m = 0; m < NODES; m++)
        list->v[m] =
            (struct member){.node = {node_of(m)}, .role = ROLE_WORKER, .state = MEMBER_UP, .general = 1};
    worker_init(&k->w[i], &k->config, (uint64_t)i + 1);
    flock_step(k, i, (struct msg){.type = MSG_PEER_UP, .peer = CENTRAL, .peer_up = {ROLE_CENTRAL}});
    flock_step(k, i, (struct msg){.type = MSG_JOINED, .peer = CENTRAL, .joined = {.node = {node_of(i)}}});
    flock_step(k, i, (struct msg){.type = MSG_PARTITION, .peer = CENTRAL, .partition = {.general = 1}});
    flock_step(k, i, (struct msg){.type = MSG_MEMBERS, .peer = CENTRAL, .members = {.list = list}});
    flock_step(k, i, (struct msg){.type = MSG_LONG_WORK, .peer = CENTRAL, .long_work = {1}});
    flock_step(k, i, (struct msg){.type = MSG_PEER_UP, .peer = DIST, .peer_up = {ROLE_DIST}});
    members_drop(list);
}

static void flock_timers(struct flock *k)
{
    k->now_us += (int64_t)rng_below(&k->r, 20 * MS);
    for (int i = 0; i < NODES; i++)
        if (worker_next_timeout(&k->w[i]) <= k->now_us)
            flock_step(k, i, (struct msg){.type = MSG_TIMER});
}

static uint32_t flock_run(uint64_t seed, uint32_t *stolen)
{
    static struct flock k;
    uint32_t probes = 0;

    memset(&k, 0, sizeof k);
    rng_seed(&k.r, seed);
    worker_config_init(&k.config);
    k.config.slots = 1 + (uint32_t)rng_below(&k.r, 2);
    k.config.heartbeats = false;
    k.config.name = blob_str("w");
    k.config.addr = blob_str("a");
    k.config.policy.flags &= ~(uint32_t)POLICY_STEAL_HINTS; /* there is no central to pair them */
    k.config.policy.steal_max = (uint16_t)(1 + rng_below(&k.r, 5));
    k.config.policy.short_first = (uint16_t)(seed % 3);
    k.desc = job_desc_new();
    for (int i = 0; i < NODES; i++)
        flock_join(&k, i);
    /* Long tasks fill worker 0; short ones are probed everywhere, most of them there. */
    for (uint32_t s = 0; s < k.config.slots; s++)
        flock_step(&k, 0,
                   (struct msg){.type = MSG_TASK_ENQUEUE,
                                .peer = CENTRAL,
                                .task_enqueue = {.id = {.job = JOB(99), .task = s}, .desc = k.desc}});
    for (int round = 0; round < 200; round++) {
        uint64_t j = rng_below(&k.r, JOBS);
        uint32_t n = 1 + (uint32_t)rng_below(&k.r, 4);
        int i = rng_below(&k.r, 2) ? 0 : (int)rng_below(&k.r, NODES);

        if (rng_below(&k.r, 4) == 0) {
            k.live[j][i] += n;
            probes += n;
            flock_send(&k, DIST, node_of(i),
                       &(struct msg){.type = MSG_PROBE, .probe = {.job = JOB(j), .count = n}});
        }
        for (int d = 0; d < 5 && k.n; d++)
            deliver_some(&k);
        flock_timers(&k);
    }
    /* In the end two idle workers take everything off the blocked one. */
    for (int round = 0; round < 100000 && (k.started < probes || k.n); round++) {
        if (k.n)
            deliver_some(&k);
        else
            flock_timers(&k);
    }
    assert_int_equal(k.started, probes);
    for (int i = 0; i < NODES; i++) {
        struct worker_counts c;

        worker_counts(&k.w[i], &c);
        assert_int_equal(c.reservations, 0);
        for (int j = 0; j < JOBS; j++)
            assert_int_equal(k.live[j][i], 0);
    }
    *stolen += k.stolen;
    while (k.n)
        msg_drop(&k.wire[--k.n].m);
    for (int i = 0; i < NODES; i++)
        worker_free(&k.w[i]);
    blob_drop(k.config.name);
    blob_drop(k.config.addr);
    assert_int_equal(k.desc->refs, 1);
    job_desc_drop(k.desc);
    return probes;
}

static void no_reservation_is_lost_or_doubled(void **state)
{
    uint32_t stolen = 0, probes = 0;

    for (uint64_t seed = 1; seed <= 60; seed++)
        probes += flock_run(seed, &stolen);
    assert_true(stolen > probes / 4); /* or it would not be a test of stealing */
}

/* The same seed, the same bytes. */
static void runs_are_reproducible(void **state)
{
    char first[20000] = "", second[20000] = "";
    char *texts[] = {first, second};

    for (int run = 0; run < 2; run++) {
        struct fuzz f = {0};
        size_t used = 0;

        rng_seed(&f.r, 77);
        talk_init(&f.t, 3);
        talk_start(&f.t);
        central_joins(&f);
        for (int i = 0; i < 300; i++) {
            one_thing(&f);
            for (uint32_t o = 0; o < f.t.out.n && used < sizeof first - 400; o++)
                if (f.t.out.v[o].type != MSG_EXEC_START && f.t.out.v[o].type != MSG_JOIN)
                    used += msg_format(&f.t.out.v[o], texts[run] + used, 400);
        }
        talk_end(&f.t);
    }
    assert_true(strlen(first) > 1000);
    assert_string_equal(first, second);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_peers_say),
        cmocka_unit_test(no_reservation_is_lost_or_doubled),
        cmocka_unit_test(runs_are_reproducible),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
