/* Central among random events. First anything well-formed from anybody: its invariants hold after each step.
 * Then workers that behave, on streams that break: no long task runs twice at once, one completion per task
 * counts, and when everything has healed, everything ends. Every run is decided by its seed. */
#include "tests/lib/random_msg.h"
#include "tests/test_central.h"

#include "base/rng.h"

/* ---- Anything from anybody ---- */

struct chaos {
    struct talk t;
    struct rng rng;
    struct blob *names[6];
    uint64_t token;
};

static uint32_t below(struct rng *r, uint64_t n) { return (uint32_t)rng_below(r, n); }

static struct try_id random_try(struct rng *r)
{
    return (struct try_id){.job = JOB(1 + below(r, 2), 1 + below(r, 4)),
                           .task = below(r, 5),
                           .epoch = (uint16_t)(1 + below(r, 2)),
                           .attempt = (uint16_t)below(r, 4)};
}

static void name_it(struct chaos *c, struct blob **name)
{
    blob_drop(*name);
    *name = blob_ref(c->names[below(&c->rng, 6)]);
}

/* Few jobs, tasks and names, so that messages meet what they are about. */
static void aim(struct chaos *c, struct msg *m)
{
    struct rng *r = &c->rng;
    struct try_id id = random_try(r);

    switch (m->type) {
    case MSG_JOIN:
        name_it(c, &m->join.name);
        name_it(c, &m->join.addr);
        m->join.incarnation = below(r, 2);
        m->join.slots = below(r, 4);
        m->join.role = below(r, 3) ? ROLE_WORKER : ROLE_DIST;
        m->join.version = below(r, 50) ? PROTOCOL_VERSION : 9;
        m->join.node.v %= 100; /* whatever walks all ids takes a step each */
        break;
    case MSG_LONG_SUBMIT:
        m->long_submit.job = id.job;
        m->long_submit.epoch = id.epoch;
        m->long_submit.desc->max_fails = below(r, 3);
        m->long_submit.desc->lost_retries = (uint16_t)below(r, 2);
        break;
    case MSG_LONG_CANCEL:
        m->long_cancel.job = id.job;
        m->long_cancel.epoch = id.epoch;
        break;
    case MSG_LONG_WATCH:
        m->long_watch.job = id.job;
        m->long_watch.epoch = id.epoch;
        break;
    case MSG_TASK_STARTED:
        m->task_started.id = id;
        break;
    case MSG_TASK_FINISHED:
        m->task_finished.id = id;
        break;
    case MSG_TASK_RETURNED:
        m->task_returned.id = id;
        break;
    case MSG_TASK_HELD:
        m->task_held.id = id;
        break;
    case MSG_PARTITION_ACK:
        m->partition_ack.epoch = 1 + below(r, 3);
        break;
    default:
        break;
    }
}

static void random_local(struct chaos *c, struct msg *m)
{
    struct rng *r = &c->rng;
    uint32_t what = below(r, 10);

    m->peer = 1 + below(r, 10);
    if (what < 3) {
        m->type = MSG_PEER_UP;
        m->peer_up.role = below(r, 3) ? ROLE_WORKER : ROLE_DIST;
    } else if (what < 4) {
        m->type = MSG_PEER_LOST;
    } else if (what < 9) {
        m->type = MSG_JOURNAL_DONE;
        m->journal_done.token = below(r, 4) ? c->token : rng_below(r, c->token + 2);
        m->journal_done.err = below(r, 5) ? 0 : below(r, 2) ? HAWK_EIO : HAWK_ELIMIT;
    } else {
        m->type = MSG_SET_POLICY;
        m->set_policy.choice = policy_choice_new();
        m->set_policy.choice->flags = below(r, 1 << 16);
        m->set_policy.choice->v.flags = below(r, 1 << 16);
        m->set_policy.choice->numbers = POLICY_NUMBER_SHARE;
        m->set_policy.choice->v.short_share_ppm = below(r, 1000001);
    }
}

/* What central takes from the wire; of anything else there is some, too. */
static enum msg_type random_type(struct rng *r)
{
    static const enum msg_type ours[] = {
        MSG_JOIN,         MSG_JOIN,         MSG_HEARTBEAT,     MSG_COUNTER,       MSG_LEAVE,
        MSG_JOB_REPORT,   MSG_LONG_SUBMIT,  MSG_LONG_SUBMIT,   MSG_LONG_CANCEL,   MSG_LONG_WATCH,
        MSG_TASK_STARTED, MSG_TASK_STARTED, MSG_TASK_FINISHED, MSG_TASK_FINISHED, MSG_TASK_RETURNED,
        MSG_TASK_HELD,    MSG_TASK_HELD,    MSG_HELD_END,      MSG_PARTITION_ACK, MSG_PARTITION_ACK,
        MSG_PARKED,       MSG_STUCK,
    };

    if (below(r, 20) == 0)
        return 1 + below(r, MSG_WIRE_END - 1);
    return ours[below(r, sizeof ours / sizeof ours[0])];
}

static void chaos_step(struct chaos *c)
{
    struct msg m = {0};

    if (below(&c->rng, 4) == 0) {
        random_local(c, &m);
    } else {
        enum msg_type type = random_type(&c->rng);

        random_msg(&c->rng, type, &m);
        m.peer = 1 + below(&c->rng, 10);
        aim(c, &m);
    }
    tell_msg(&c->t, m);
    for (uint32_t i = 0; i < c->t.out.n; i++)
        if (msg_journal_token(&c->t.out.v[i]))
            c->token = msg_journal_token(&c->t.out.v[i]);
    msg_drop(&m);
    if (below(&c->rng, 20) == 0)
        pass(&c->t, below(&c->rng, 50) ? (int64_t)below(&c->rng, 1 * S) : 70 * S);
}

static void run_chaos(uint64_t seed)
{
    struct chaos c = {0};
    char name[8];

    rng_seed(&c.rng, seed);
    talk_config(&c.t);
    c.t.config.heartbeats = seed % 2;
    c.t.config.history.share_fixed = false;
    c.t.config.history.min_jobs = 3;
    c.t.config.long_tasks_max = 200;
    c.t.config.long_jobs_max = 6;
    c.t.config.finished_kept = 2;
    c.t.config.nodes_max = 100;
    talk_start(&c.t);
    tell(&c.t, RECOVERED, recovered, 0, 0);
    c.t.journal_by_hand = true;
    for (int i = 0; i < 6; i++) {
        snprintf(name, sizeof name, "n%d", i);
        c.names[i] = blob_str(name);
    }
    for (int i = 0; i < 2000; i++)
        chaos_step(&c);
    for (int i = 0; i < 6; i++)
        blob_drop(c.names[i]);
    talk_end(&c.t);
}

static void nothing_well_formed_breaks_it(void **state)
{
    for (uint64_t seed = 1; seed <= 200; seed++)
        run_chaos(seed);
}

/* ---- Workers that behave, streams that break ---- */

#define WORKERS 5
#define JOBS 12
#define TASKS 8
#define HELD_MAX (JOBS * TASKS * 4)

struct held {
    struct try_id id;
    bool running, finished;
};

struct worker {
    uint32_t link; /* 0: none */
    uint32_t incarnation, slots, n_running;
    bool joined, general;
    int64_t lost_us; /* when the stream broke */
    struct held held[HELD_MAX];
    uint32_t n;
    struct msg inbox[1000]; /* sent by central, not read yet */
    uint32_t n_inbox;
};

struct world {
    struct talk t;
    struct rng rng;
    uint64_t seed;
    uint32_t dist; /* its stream */
    struct worker w[WORKERS];
    uint32_t jobs;                       /* submitted so far */
    enum task_state mirror[JOBS][TASKS]; /* as the dist sees it */
    uint32_t ends[JOBS][TASKS];          /* how often it heard of a durable end */
};

static void deliver(struct world *w);

#define say(w, NAME, name, from, ...)                                                                        \
    do {                                                                                                     \
        tell(&(w)->t, NAME, name, from, __VA_ARGS__);                                                        \
        deliver(w);                                                                                          \
    } while (0)

static void dist_hears(struct world *w, const struct msg_long_task *m)
{
    uint32_t job = (uint32_t)job_id_seq(m->id.job) - 1, task = m->id.task;

    assert_true(job < w->jobs && task < TASKS);
    if (task_state_final(w->mirror[job][task])) {
        fail_msg("seed %llu: task %u of job %u was %s and is %s", (unsigned long long)w->seed, task, job,
                 task_state_text(w->mirror[job][task]), task_state_text(m->state));
    }
    w->mirror[job][task] = m->state;
    w->ends[job][task] += task_state_final(m->state);
}

/* Takes what central put out to where it belongs; nothing is handled yet. */
static void deliver(struct world *w)
{
    for (uint32_t i = 0; i < w->t.out.n; i++) {
        const struct msg *m = &w->t.out.v[i];

        if (m->peer == w->dist && m->type == MSG_LONG_TASK)
            dist_hears(w, &m->long_task);
        for (int k = 0; k < WORKERS; k++) {
            if (!w->w[k].link || m->peer != w->w[k].link)
                continue;
            assert_true(w->w[k].n_inbox < 1000);
            w->w[k].inbox[w->w[k].n_inbox++] = *m;
            msg_ref(m);
        }
    }
    talk_clear(&w->t);
}

static void drop_inbox(struct worker *k)
{
    for (uint32_t i = 0; i < k->n_inbox; i++)
        msg_drop(&k->inbox[i]);
    k->n_inbox = 0;
}

static void forget(struct worker *k, uint32_t i)
{
    k->n_running -= k->held[i].running;
    k->held[i] = k->held[--k->n];
}

static struct held *find_held(struct worker *k, const struct try_id *id)
{
    for (uint32_t i = 0; i < k->n; i++)
        if (try_eq(&k->held[i].id, id))
            return &k->held[i];
    return NULL;
}

static void end_held(struct world *w, struct worker *k, struct held *h, enum outcome outcome)
{
    struct try_id id = h->id;

    k->n_running -= h->running;
    h->running = false;
    h->finished = true;
    if (k->joined)
        say(w, TASK_FINISHED, task_finished, k->link, .id = id, .outcome = (uint8_t)outcome,
            .code = outcome == OUTCOME_EXITED && below(&w->rng, 5) == 0);
}

static void worker_joined(struct world *w, struct worker *k)
{
    k->joined = true;
    for (uint32_t i = 0; i < k->n; i++) {
        struct held h = k->held[i];

        say(w, TASK_HELD, task_held, k->link, .id = h.id,
            .state = h.finished  ? TASK_DONE
                     : h.running ? TASK_RUNNING
                                 : TASK_PLACED);
        if (h.finished)
            say(w, TASK_FINISHED, task_finished, k->link, .id = h.id, .outcome = OUTCOME_EXITED);
    }
    say(w, HELD_END, held_end, k->link, 0);
}

static void worker_partition(struct world *w, struct worker *k, const struct msg_partition *m)
{
    k->general = m->general;
    for (uint32_t i = k->n; i-- > 0;) {
        struct held h = k->held[i];

        if (k->general || h.running || h.finished)
            continue;
        forget(k, i);
        say(w, TASK_RETURNED, task_returned, k->link, .id = h.id);
    }
    say(w, PARTITION_ACK, partition_ack, k->link, .epoch = m->epoch);
}

static void worker_reads(struct world *w, struct worker *k)
{
    struct msg m;
    struct held *h;

    if (k->n_inbox == 0)
        return;
    m = k->inbox[0];
    k->n_inbox--;
    memmove(k->inbox, k->inbox + 1, k->n_inbox * sizeof m);
    switch (m.type) {
    case MSG_JOINED:
        worker_joined(w, k);
        break;
    case MSG_PARTITION:
        worker_partition(w, k, &m.partition);
        break;
    case MSG_TASK_ENQUEUE:
        /* DESIGN 3.7: none is placed after the epoch the worker acknowledged. */
        assert_true(k->general);
        assert_true(k->n < HELD_MAX);
        k->held[k->n++] = (struct held){.id = m.task_enqueue.id};
        break;
    case MSG_TASK_RECALL:
        h = find_held(k, &m.task_recall.id);
        if (h && !h->running && !h->finished) {
            forget(k, (uint32_t)(h - k->held));
            say(w, TASK_RETURNED, task_returned, k->link, .id = m.task_recall.id);
        }
        break;
    case MSG_TASK_CANCEL:
        h = find_held(k, &m.task_cancel.id);
        if (h && !h->finished)
            end_held(w, k, h, OUTCOME_CANCELLED);
        break;
    case MSG_FINISH_ACK:
        h = find_held(k, &m.finish_ack.id);
        if (h && h->finished)
            forget(k, (uint32_t)(h - k->held));
        break;
    default:
        break;
    }
    msg_drop(&m);
}

static void worker_works(struct world *w, struct worker *k)
{
    uint32_t start = k->n ? below(&w->rng, k->n) : 0;

    if (k->n_running < k->slots) {
        for (uint32_t i = 0; i < k->n; i++) {
            struct held *h = &k->held[i];

            if (h->running || h->finished)
                continue;
            h->running = true;
            k->n_running++;
            if (k->joined)
                say(w, TASK_STARTED, task_started, k->link, .id = h->id);
            return;
        }
    }
    for (uint32_t i = 0; i < k->n; i++) {
        struct held *h = &k->held[(start + i) % k->n];

        if (h->running) {
            end_held(w, k, h, OUTCOME_EXITED);
            return;
        }
    }
}

static void worker_connects(struct world *w, struct worker *k)
{
    struct join j = {.slots = k->slots, .incarnation = k->incarnation, .role = ROLE_WORKER};
    char name[16];

    if (k->link)
        return;
    snprintf(name, sizeof name, "w%d", (int)(k - w->w));
    j.name = name;
    k->link = ++w->t.links;
    say(w, PEER_UP, peer_up, k->link, .role = ROLE_WORKER);
    join_on(&w->t, k->link, j);
    deliver(w);
}

static void worker_breaks(struct world *w, struct worker *k)
{
    uint32_t link = k->link;

    if (!link)
        return;
    drop_inbox(k);
    k->link = 0;
    k->joined = false;
    k->lost_us = w->t.now_us;
    say(w, PEER_LOST, peer_lost, link, 0);
}

static void worker_crashes(struct world *w, struct worker *k)
{
    worker_breaks(w, k);
    k->n = k->n_running = 0;
    k->incarnation++;
}

static void job_arrives(struct world *w)
{
    struct job_desc *d;

    if (w->jobs == JOBS)
        return;
    d = desc_of(w->jobs % 2 ? "odd" : "", TASKS);
    d->lost_retries = (uint16_t)below(&w->rng, 3);
    d->max_fails = below(&w->rng, 3) ? 0 : 4;
    w->jobs++;
    say(w, LONG_SUBMIT, long_submit, w->dist, .job = JOB(1, w->jobs), .desc = d, .epoch = 1,
        .estimate_us = (int64_t)below(&w->rng, 20 * S));
    job_desc_drop(d);
}

/* The lease: cut off for so long, a worker kills what it has of central's. */
static void leases(struct world *w)
{
    for (int i = 0; i < WORKERS; i++)
        if (!w->w[i].joined && w->t.now_us - w->w[i].lost_us > 59 * S)
            w->w[i].n = w->w[i].n_running = 0;
}

static void time_passes(struct world *w, int64_t us)
{
    /* In small pieces, so that leases end where they should. */
    while (us > 0) {
        int64_t piece_us = us < 500 * MS ? us : 500 * MS;

        pass(&w->t, piece_us);
        deliver(w);
        leases(w);
        us -= piece_us;
    }
}

static void no_task_runs_twice_at_once(struct world *w)
{
    uint32_t running[JOBS][TASKS] = {0};

    for (int k = 0; k < WORKERS; k++)
        for (uint32_t i = 0; i < w->w[k].n; i++) {
            const struct held *h = &w->w[k].held[i];
            uint32_t *n = &running[job_id_seq(h->id.job) - 1][h->id.task];

            *n += h->running;
            if (*n > 1)
                fail_msg("seed %llu: task %u of job %llu runs twice", (unsigned long long)w->seed, h->id.task,
                         (unsigned long long)job_id_seq(h->id.job));
        }
}

static void world_step(struct world *w)
{
    struct worker *k = &w->w[below(&w->rng, WORKERS)];
    uint32_t what = below(&w->rng, 1000);

    if (what < 450)
        worker_reads(w, k);
    else if (what < 700)
        worker_works(w, k);
    else if (what < 800)
        worker_connects(w, k);
    else if (what < 815)
        worker_breaks(w, k);
    else if (what < 820)
        worker_crashes(w, k);
    else if (what < 840)
        job_arrives(w);
    else if (what < 844 && w->jobs > 0)
        say(w, LONG_CANCEL, long_cancel, w->dist, .job = JOB(1, 1 + below(&w->rng, w->jobs)), .epoch = 1);
    else if (what < 850)
        time_passes(w, (int64_t)below(&w->rng, 90 * S));
    else
        time_passes(w, (int64_t)below(&w->rng, 2 * S));
    no_task_runs_twice_at_once(w);
}

/* Everybody is back, and works off what there is. */
static void heal(struct world *w)
{
    for (int round = 0; round < 3000; round++) {
        for (int i = 0; i < WORKERS; i++) {
            worker_connects(w, &w->w[i]);
            while (w->w[i].n_inbox)
                worker_reads(w, &w->w[i]);
            worker_works(w, &w->w[i]);
        }
        time_passes(w, 100 * MS);
        no_task_runs_twice_at_once(w);
    }
}

static void run_world(uint64_t seed)
{
    static struct world w;

    memset(&w, 0, sizeof w);
    w.seed = seed;
    rng_seed(&w.rng, seed);
    talk_config(&w.t);
    w.t.config.history.share_ppm = below(&w.rng, 3) * 200000;
    talk_start(&w.t);
    tell(&w.t, RECOVERED, recovered, 0, 0);
    w.dist = add_dist(&w.t, "d1");
    for (int i = 0; i < WORKERS; i++) {
        w.w[i].slots = 1 + below(&w.rng, 3);
        w.w[i].incarnation = 1;
    }
    for (int i = 0; i < 3000; i++)
        world_step(&w);
    heal(&w);
    if (!central_quiet(w.t.c))
        fail_msg("seed %llu: not everything ended", (unsigned long long)seed);
    for (uint32_t j = 0; j < w.jobs; j++)
        for (uint32_t i = 0; i < TASKS; i++)
            assert_int_equal(w.ends[j][i], 1);
    for (int i = 0; i < WORKERS; i++) {
        assert_int_equal(w.w[i].n, 0); /* every completion was acknowledged */
        drop_inbox(&w.w[i]);
    }
    talk_end(&w.t);
}

static void everything_ends_once(void **state)
{
    for (uint64_t seed = 1; seed <= 200; seed++)
        run_world(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_well_formed_breaks_it),
        cmocka_unit_test(everything_ends_once),
    };

    return cmocka_run_group_tests_name("central_model", tests, NULL, NULL);
}
