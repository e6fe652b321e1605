/* A dist against a small model of its workers, of central and of its journal, at random: probes refused, reservations
 * stolen while messages cross, streams broken anywhere, workers that crash, are suspected and come back, a central that
 * is away or has forgotten, a journal that is slow or cannot be written, a dist that dies and reads it back. Afterwards
 * everything heals, and then every job that was accepted for good must end and the dist be quiet.
 *
 * The model's workers do what docs/protocol.md says of workers, and no more. A failure prints its seed. */
#include "tests/test_dist_model_nodes.h"

/* ---- Streams break and come back ---- */

static void link_break(struct model *m, struct link *l)
{
    if (!l->dist_up || !l->peer_up || l->broken)
        return;
    l->broken = true;
    fifo_cut(&l->to_dist, below(m, l->to_dist.n + 1));
    fifo_cut(&l->to_peer, below(m, l->to_peer.n + 1));
}

static void put_member(struct model *m, uint32_t i)
{
    const struct worker *w = &m->w[i];

    CENTRAL_TELL(MEMBER, member, .addr = blob_str("a"), .name = blob_str("w"), .node = {FIRST + i},
                 .slots = w->slots, .role = ROLE_WORKER, .state = w->state, .general = w->general);
}

static void put_members(struct model *m)
{
    struct members *list = members_new(WORKERS);

    for (uint32_t i = 0; i < WORKERS; i++)
        list->v[i] = (struct member){.node = {FIRST + i},
                                     .slots = m->w[i].slots,
                                     .role = ROLE_WORKER,
                                     .state = m->w[i].state,
                                     .general = m->w[i].general,
                                     .addr = blob_str("a"),
                                     .name = blob_str("w")};
    CENTRAL_TELL(MEMBERS, members, .list = list);
}

static void up_event(struct model *m, uint32_t peer, enum role role)
{
    step(m, &(struct msg){.type = MSG_PEER_UP, .peer = peer, .peer_up = {.role = role}});
}

/* Delivers one message of a stream, in either direction, or the news that it broke. */
static bool link_moves(struct model *m, uint32_t peer)
{
    struct worker *w = peer == CENTRAL ? NULL : &m->w[peer - FIRST];
    struct link *l = link_of(m, peer);
    bool to_dist = chance(m, 50);

    if (!l->dist_up && !l->peer_up) {
        if (!m->calm && !chance(m, 10))
            return false;
        *l = (struct link){.dist_up = true, .peer_up = true};
        up_event(m, peer, w ? ROLE_WORKER : ROLE_CENTRAL);
        if (w)
            worker_meets_dist(m, w);
        return true;
    }
    if ((to_dist || l->to_peer.n == 0) && l->to_dist.n > 0 && l->dist_up) {
        struct msg x = fifo_get(&l->to_dist);

        step(m, &x);
        if (x.type == MSG_JOINED)
            put_members(m);
        msg_drop(&x);
        return true;
    }
    if (l->to_peer.n > 0 && l->peer_up) {
        struct msg x = fifo_get(&l->to_peer);

        if (w)
            worker_hears(m, w, &x);
        else
            central_hears(m, &x);
        msg_drop(&x);
        return true;
    }
    if (!l->broken)
        return false;
    if (l->dist_up && (to_dist || !l->peer_up)) {
        l->dist_up = false;
        step(m, &(struct msg){.type = MSG_PEER_LOST, .peer = peer});
    } else if (l->peer_up) {
        l->peer_up = false;
        if (w)
            worker_lost_dist(m, w);
    }
    return true;
}

/* It had ended, and ends no other way. */
static void read_back_ended(struct model *m, const struct fate *f, const struct dist_job *job)
{
    assert_true(f->ended);
    m->read_back_ended++;
    for (uint32_t k = 0; k < f->tasks; k++) {
        struct task_view v;

        dist_task_view(&m->t->d, job, k, m->t->now, &v);
        assert_int_equal(v.state, f->final[k]);
    }
}

/* What the user has of a job after a restart. */
static void read_back(struct model *m, uint32_t i)
{
    struct fate *f = &m->fates[i];
    const struct dist_job *job;
    struct job_view j;

    if (m->rows[i].job.type == MSG_NONE) {
        if (f->durable && f->job.v)
            assert_true(f->ended);
        f->gone = !f->ended;
        f->ended = true;
        return;
    }
    f->job = m->rows[i].job.journal_job.job; /* maybe the answer to its client was still to come */
    job = dist_find(&m->t->d, f->job);
    if (!job) { /* one too many to be kept */
        assert_true(f->ended && m->rows[i].end.type != MSG_NONE);
        return;
    }
    dist_job_view(&m->t->d, job, m->t->now, &j);
    if (job_state_final(j.state)) {
        read_back_ended(m, f, job);
        return;
    }
    f->ended = f->refused = f->early = false;
    m->read_back++;
    step(m, &(struct msg){.type = MSG_WATCH, .watch = {.job = f->job, .on = 1}});
    for (uint32_t k = 0; k < f->tasks; k++) {
        struct task_view v;

        dist_task_view(&m->t->d, job, k, m->t->now, &v);
        f->final[k] = task_state_final(v.state) ? v.state : TASK_WAITING;
        assert_int_equal(f->final[k] != TASK_WAITING, has_end(&m->rows[i], k));
    }
}

static void crash(struct model *m, struct worker *w)
{
    drop_job(m, w, JOB_NONE, true);
    for (int i = 0; i < 16; i++)
        if (&m->w[m->loot[i].thief] == w && (m->loot[i].at_victim || m->loot[i].offered)) {
            if (m->loot[i].at_victim)
                enqueue(&m->w[m->loot[i].victim], m->loot[i].job, m->loot[i].count);
            m->loot[i].at_victim = m->loot[i].offered = false;
        }
    memset(w->tries, 0, sizeof w->tries);
    w->asks = 0;
    link_break(m, &w->link);
    fifo_cut(&w->link.to_peer, 0);
    w->link.peer_up = false;
}

/* The dist dies, and another process takes its place: of what was not durable yet some may be. */
static void restart(struct model *m)
{
    struct talk *t = m->t;

    m->restarts++;
    write_some(m, below(m, m->writing_n + 1));
    while (m->writing_n > 0)
        msg_drop(&m->writing[--m->writing_n]);
    for (uint32_t i = 0; i <= WORKERS; i++) {
        struct link *l = i < WORKERS ? &m->w[i].link : &m->central;

        fifo_cut(&l->to_dist, 0);
        if (!l->broken)
            fifo_cut(&l->to_peer, below(m, l->to_peer.n + 1));
        l->broken = l->peer_up || l->dist_up;
        l->dist_up = false;
    }
    t->cfg.first_seq = t->d.next_seq;
    t->cfg.life++;
    dist_free(&t->d);
    dist_init(&t->d, &t->cfg, rng_next(&m->rng));
    for (uint32_t i = 0; i < m->jobs; i++) {
        if (m->rows[i].job.type == MSG_NONE)
            continue;
        step(m, &m->rows[i].job);
        for (uint32_t k = 0; k < TASKS_MAX; k++)
            if (m->rows[i].ends[k].type != MSG_NONE)
                step(m, &m->rows[i].ends[k]);
        if (m->rows[i].cancel.type != MSG_NONE)
            step(m, &m->rows[i].cancel);
        if (m->rows[i].end.type != MSG_NONE)
            step(m, &m->rows[i].end);
    }
    for (uint32_t i = 0; i < m->jobs; i++)
        read_back(m, i);
    step(m, &(struct msg){.type = MSG_RECOVERED});
}

static void fault(struct model *m)
{
    uint32_t i = below(m, WORKERS);
    struct worker *w = &m->w[i];

    switch (below(m, 9)) {
    case 8:
        if (chance(m, 50))
            restart(m);
        break;
    case 0:
        link_break(m, &m->central);
        break;
    case 1: /* central dies, and comes back without its journal */
        if (!chance(m, 20))
            break;
        link_break(m, &m->central);
        fifo_cut(&m->central.to_peer, 0);
        m->longs_n = 0;
        break;
    case 2:
        if (w->link.dist_up && w->link.peer_up)
            crash(m, w);
        break;
    case 3:
    case 4:
        w->state = (uint8_t)below(m, MEMBER_STATE_COUNT);
        w->general = chance(m, 70);
        w->slots = below(m, 3) + 1;
        put_member(m, i);
        break;
    default:
        link_break(m, &w->link);
    }
}

/* ---- The user ---- */

static void user_submits(struct model *m)
{
    struct job_desc *desc = desc_new(below(m, TASKS_MAX) + 1, "job");

    desc->tag = (uint8_t)below(m, TAG_COUNT);
    desc->estimate_us = chance(m, 30) ? (int64_t)below(m, 30) * US_PER_S : 0;
    desc->lost_retries = (uint16_t)below(m, 4);
    desc->max_fails = chance(m, 20) ? 1 + below(m, 3) : 0;
    desc->max_running = chance(m, 30) ? 1 + below(m, 4) : 0;
    desc->flags = chance(m, 50) ? JOB_DETACHED : 0;
    desc->flags |= chance(m, 20) ? JOB_AT_MOST_ONCE : 0;
    desc->shell = m->jobs;
    m->fates[m->jobs].once = desc->flags & JOB_AT_MOST_ONCE;
    m->fates[m->jobs].tasks = desc->tasks;
    m->fates[m->jobs].detached = desc->flags & JOB_DETACHED;
    m->jobs++;
    step(m, &(struct msg){.type = MSG_SUBMIT, .submit = {.desc = desc, .client = m->jobs - 1}});
    job_desc_drop(desc);
}

static void user_cancels(struct model *m)
{
    const struct fate *f = m->jobs ? &m->fates[below(m, m->jobs)] : NULL;

    if (f && f->job.v)
        step(m, &(struct msg){.type = MSG_CANCEL, .cancel = {.job = f->job}});
}

/* ---- A run ---- */

static bool anything_moves(struct model *m)
{
    uint32_t movers = WORKERS * 2 + 2 + 16 + 1, first = below(m, movers);

    for (uint32_t k = 0; k < movers; k++) {
        uint32_t i = (first + k) % movers;
        bool moved;

        if (i < WORKERS) {
            moved = link_moves(m, FIRST + i);
        } else if (i < WORKERS * 2) {
            moved = worker_acts(m, &m->w[i - WORKERS]);
        } else if (i == WORKERS * 2) {
            moved = link_moves(m, CENTRAL);
        } else if (i == WORKERS * 2 + 1) {
            moved = central_acts(m);
        } else if (i == movers - 1) {
            moved = journal_moves(m);
        } else {
            struct loot *l = &m->loot[i - WORKERS * 2 - 2];

            moved = l->offered || l->at_victim;
            loot_moves(m, l);
        }
        if (moved)
            return true;
    }
    return false;
}

static void timers(struct model *m, bool idle)
{
    int64_t at = dist_next_timeout(&m->t->d);

    if (idle && at != TIME_NEVER && at > m->t->now)
        m->t->now = at;
    if (at <= m->t->now)
        step(m, &(struct msg){.type = MSG_TIMER});
}

static bool all_ended(const struct model *m)
{
    for (uint32_t i = 0; i < m->jobs; i++)
        if (!m->fates[i].ended)
            return false;
    return true;
}

static void heal(struct model *m)
{
    m->calm = true;
    for (uint32_t i = 0; i < WORKERS; i++) {
        m->w[i].state = MEMBER_UP;
        m->w[i].general = i > 0;
        put_member(m, i);
    }
}

static void complain(const struct model *m, uint64_t seed)
{
    const struct dist *d = &m->t->d;
    const struct dist_job *job;
    struct job_view v;
    uint32_t waiting;

    for (job = dist_newest(d); job; job = dist_older(d, job)) {
        dist_job_view(d, job, m->t->now, &v);
        if (v.response_us < 0)
            print_error("job %u: %s, %u waiting, %u placed, %u running, %u live: %s\n",
                        (unsigned)job_id_seq(v.job), job_state_text(v.state), v.waiting, v.placed, v.running,
                        v.probes_live, dist_block_text(dist_blocked(d, job, &waiting)));
    }
    fail_msg("after everything healed, something is left over; DIST_MODEL_SEED=%u repeats it",
             (unsigned)seed);
}

static void run(uint64_t seed, struct model *m)
{
    static const uint32_t trouble_percent[] = {0, 1, 4, 10};
    uint32_t faults, steals;

    memset(m, 0, sizeof *m);
    m->tracing = getenv("DIST_MODEL_TRACE") != NULL;
    rng_seed(&m->rng, seed);
    faults = trouble_percent[below(m, 4)];
    steals = 5u << below(m, 4);
    m->t = talk_new(policy_names[seed % 7]);
    m->t->cfg.policy.flags ^= chance(m, 20) ? POLICY_SPLIT_COUNTS : 0;
    m->t->cfg.policy.flags &= chance(m, 20) ? ~(uint32_t)POLICY_REPROBE : UINT32_MAX;
    m->t->cfg.policy.flags &= chance(m, 20) ? ~(uint32_t)POLICY_CANCEL_PROBES : UINT32_MAX;
    m->t->cfg.policy.flags |= POLICY_STEAL; /* the model steals under every policy */
    m->t->cfg.policy.probe_ratio_milli = 1000 + 500 * below(m, 3);
    m->t->cfg.journal = chance(m, 50);
    m->t->cfg.finished_kept = below(m, 30);
    dist_init(&m->t->d, &m->t->cfg, seed);
    for (uint32_t i = 0; i < WORKERS; i++) {
        m->w[i].slots = below(m, 3) + 1;
        m->w[i].general = i > 0;
        m->w[i].state = MEMBER_UP;
    }
    for (uint32_t i = 0; i < CHAOS_STEPS; i++) {
        m->t->now += below(m, 3000);
        if (m->jobs < JOBS_MAX && chance(m, 4))
            user_submits(m);
        if (chance(m, 1))
            user_cancels(m);
        if (chance(m, steals))
            steal(m);
        if (below(m, 100) < faults)
            fault(m);
        anything_moves(m);
        timers(m, false);
    }
    heal(m);
    for (uint32_t i = 0; i < 1000000 && (anything_moves(m) || !all_ended(m)); i++) {
        m->t->now += 100;
        timers(m, i % 16 == 0);
    }
    if (!all_ended(m) || !dist_quiet(&m->t->d))
        complain(m, seed);
    for (uint32_t i = 0; i < WORKERS; i++) {
        fifo_cut(&m->w[i].link.to_dist, 0);
        fifo_cut(&m->w[i].link.to_peer, 0);
    }
    fifo_cut(&m->central.to_dist, 0);
    fifo_cut(&m->central.to_peer, 0);
    for (uint32_t i = 0; i < m->jobs; i++) { /* the journal keeps what the dist does */
        bool kept = m->t->cfg.journal && m->fates[i].detached && dist_find(&m->t->d, m->fates[i].job);

        assert_int_equal(m->rows[i].job.type, kept ? MSG_JOURNAL_JOB : MSG_NONE);
        assert_int_equal(m->rows[i].end.type, kept ? MSG_JOURNAL_ENDED : MSG_NONE);
        row_clear(&m->rows[i]);
    }
    talk_end(m->t);
}

static void test_every_job_ends_whatever_happens(void **state)
{
    struct model *m = xmalloc(sizeof *m);
    const char *only = getenv("DIST_MODEL_SEED");
    uint64_t first = only ? strtoull(only, NULL, 10) : 1;
    const char *more = getenv("DIST_MODEL_SEEDS");
    uint64_t last = only ? first : more ? strtoull(more, NULL, 10) : SEEDS;
    uint32_t lost = 0, cancelled = 0, jobs = 0, restarts = 0, read_back = 0, ended = 0;

    for (uint64_t seed = first; seed <= last; seed++) {
        print_message("\rseed %u", (unsigned)seed);
        run(seed, m);
        lost += m->lost;
        cancelled += m->cancelled;
        jobs += m->jobs;
        restarts += m->restarts;
        read_back += m->read_back;
        ended += m->read_back_ended;
    }
    print_message("\r%u jobs, %u cancelled, %u tasks lost for want of a retry; %u restarts, %u jobs read "
                  "back, and %u that had ended\n",
                  jobs, cancelled, lost, restarts, read_back, ended);
    if (!only) { /* the net was in the water */
        assert_true(lost > 0);
        assert_true(cancelled > 0);
        assert_true(read_back > 0);
        assert_true(ended > 0);
    }
    free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_job_ends_whatever_happens)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
