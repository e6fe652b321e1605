/* A dist against a small model of its workers, of central and of its journal, at random: probes refused, reservations
 * stolen while messages cross, streams broken anywhere, workers that crash, are suspected and come back, a central that
 * is away or has forgotten, a journal that is slow or cannot be written, a dist that dies and reads it back. Afterwards
 * everything heals, and then every job that was accepted for good must end and the dist be quiet.
 *
 * The model's workers do what docs/protocol.md says of workers, and no more. A failure prints its seed. */
#include "tests/test_dist_model.h"

static struct link *link_of(struct model *m, uint32_t peer)
{
    if (peer == CENTRAL)
        return &m->central;
    assert_in_range(peer, FIRST, FIRST + WORKERS - 1);
    return &m->w[peer - FIRST].link;
}

static void effect(struct model *m, const struct msg *x)
{
    switch (x->type) {
    case MSG_SUBMITTED:
        note_submitted(m, &x->submitted);
        if (!x->submitted.err)
            step(m, &(struct msg){.type = MSG_WATCH, .watch = {.job = x->submitted.job, .on = 1}});
        break;
    case MSG_TASK_EVENT:
        note_task(m, &x->task_event);
        break;
    case MSG_JOB_EVENT:
        note_job(m, &x->job_event);
        break;
    case MSG_JOURNAL_JOB:
    case MSG_JOURNAL_TASK:
    case MSG_JOURNAL_CANCEL:
    case MSG_JOURNAL_ENDED:
    case MSG_JOURNAL_JOB_END:
        journal(m, x);
        break;
    case MSG_CANCELLED:
        if (!x->cancelled.err && fate_of(m, x->cancelled.job))
            fate_of(m, x->cancelled.job)->cancelled = true;
        break;
    default:
        break;
    }
}

/* No two tries are called the same, in whatever life; what has ended durably, or was cancelled, is not tried again. */
static void note_launch(struct model *m, const struct msg *x)
{
    const struct try_id *id = &x->task_launch.id;
    const struct row *r = row_of(m, id->job);
    const struct fate *f = fate_of(m, id->job);
    struct launched *l = &m->launched[job_id_seq(id->job)][id->task];
    uint32_t tried = (uint32_t)id->epoch << 16 | id->attempt;

    for (uint32_t i = 0; i < l->n; i++)
        if (l->tries[i] == tried) { /* the same answer again */
            assert_int_equal(i, l->n - 1);
            assert_int_equal(l->worker, x->peer);
            assert_int_equal(l->life, m->t->cfg.life);
            return;
        }
    assert_false(r && has_end(r, id->task));
    assert_false(f && f->cancelled);
    assert_true(l->n < 64);
    if (r && r->job.type != MSG_NONE &&
        m->fates[r - m->rows].once) { /* on record before it is sent, and not twice */
        const struct msg_journal_task *record = &r->ends[id->task].journal_task;

        assert_int_equal(r->ends[id->task].type, MSG_JOURNAL_TASK);
        assert_int_equal(record->state, TASK_LAUNCHED);
        assert_int_equal(record->id.attempt, id->attempt);
        assert_int_equal(l->n, 0);
    }
    l->tries[l->n++] = tried;
    l->worker = x->peer;
    l->life = m->t->cfg.life;
}

/* It was handed to central while an older try of it, thought lost, still ran: that one's end is nobody's. */
static bool is_centrals(const struct row *r, uint32_t task)
{
    const struct msg_journal_job *j = &r->job.journal_job;

    for (uint32_t i = 0; j->tasks && i < j->tasks->n; i++)
        if (j->tasks->v[i] == task)
            return true;
    return j->handed && !j->tasks;
}

/* What its worker forgets is in the journal, or was not to be kept. */
static void note_ack(struct model *m, const struct attempt *a)
{
    const struct row *r = row_of(m, a->id.job);
    uint32_t failed = 0;

    if (!r || r->job.type == MSG_NONE || a->outcome != OUTCOME_EXITED || has_end(r, a->id.task) ||
        is_centrals(r, a->id.task))
        return;
    for (uint32_t i = 0; i < TASKS_MAX; i++)
        failed += has_end(r, i) && r->ends[i].journal_task.state != TASK_DONE;
    assert_true(r->cancel.type != MSG_NONE || r->end.type != MSG_NONE ||
                (r->job.journal_job.desc->max_fails && failed >= r->job.journal_job.desc->max_fails));
}

/* DIST_MODEL_SEED=n DIST_MODEL_TRACE=1 shows everything that the dist hears and says. */
static void trace(const struct model *m, const char *arrow, const struct msg *x)
{
    char line[512];

    if (!m->tracing)
        return;
    msg_format(x, line, sizeof line);
    print_message("%9lld %s %u %s\n", (long long)m->t->now, arrow, (unsigned)x->peer, line);
}

static void step(struct model *m, const struct msg *in)
{
    const struct event e = {.now_us = m->t->now, .m = *in};
    struct out out = {0};

    trace(m, "<-", in);
    dist_step(&m->t->d, &e, &out);
    dist_check(&m->t->d);
    for (uint32_t i = 0; i < out.n; i++) {
        struct msg *x = &out.v[i];
        struct link *l;

        trace(m, "->", x);
        if (!msg_is_wire(x)) {
            effect(m, x);
            continue;
        }
        l = link_of(m, x->peer);
        assert_true(l->dist_up); /* it never speaks where it has no stream */
        if (x->type == MSG_TASK_LAUNCH)
            note_launch(m, x);
        if (l->broken)
            continue;
        msg_ref(x);
        fifo_put(&l->to_peer, x);
    }
    out_clear(&out);
    out_free(&out);
}

/* ---- Workers ---- */

static void tell(struct worker *w, struct model *m, struct msg x)
{
    x.peer = FIRST + (uint32_t)(w - m->w);
    if (w->link.peer_up && !w->link.broken)
        fifo_put(&w->link.to_dist, &x);
}
#define TELL(NAME, name, ...) tell(w, m, (struct msg){.type = MSG_##NAME, .name = {__VA_ARGS__}})

static uint32_t slots_used(const struct worker *w)
{
    uint32_t used = w->asks;

    for (int i = 0; i < TRIES_MAX; i++)
        used += w->tries[i].state == LAUNCHED || w->tries[i].state == RUNNING;
    return used;
}

static struct attempt *find_try(struct worker *w, const struct try_id *id)
{
    for (int i = 0; i < TRIES_MAX; i++)
        if (w->tries[i].state != FREE && try_eq(&w->tries[i].id, id))
            return &w->tries[i];
    return NULL;
}

/* Drops a job's reservations, queued and being stolen; returns how many. */
static uint32_t drop_job(struct model *m, struct worker *w, job_id_t job, bool all)
{
    uint32_t dropped = 0, n = 0;

    for (uint32_t i = 0; i < w->queued; i++)
        if (all || job_eq(w->queue[i].job, job))
            dropped += w->queue[i].count;
        else
            w->queue[n++] = w->queue[i];
    w->queued = n;
    for (int i = 0; i < 16; i++)
        if (m->loot[i].at_victim && &m->w[m->loot[i].victim] == w && (all || job_eq(m->loot[i].job, job))) {
            m->loot[i].at_victim = false;
            dropped += m->loot[i].count;
        }
    return dropped;
}

static void enqueue(struct worker *w, job_id_t job, uint32_t count)
{
    assert_true(w->queued < 256);
    if (count > 0)
        w->queue[w->queued++] = (struct entry){job, count};
}

static bool forget_request(struct worker *w, job_id_t job, uint32_t number)
{
    for (uint32_t i = 0; i < w->asks; i++)
        if (job_eq(w->asked[i].job, job) && w->asked[i].count == number) {
            w->asked[i] = w->asked[--w->asks];
            return true;
        }
    return false;
}

static void end_try(struct model *m, struct worker *w, struct attempt *a, uint8_t outcome, int32_t code)
{
    a->state = ENDED;
    a->outcome = outcome;
    a->code = code;
    if (outcome == OUTCOME_EXITED)
        m->ran[job_id_seq(a->id.job)][a->id.task] = true;
    TELL(TASK_FINISHED, task_finished, .id = a->id, .outcome = outcome, .code = code, .run_us = 1000);
}

static void worker_launch(struct worker *w, const struct msg_task_launch *l)
{
    if (!forget_request(w, l->id.job, l->request))
        return;
    for (int i = 0; i < TRIES_MAX; i++)
        if (w->tries[i].state == FREE) {
            w->tries[i] = (struct attempt){.id = l->id, .state = LAUNCHED};
            return;
        }
    fail_msg("too many tries at one worker");
}

static void worker_hears(struct model *m, struct worker *w, const struct msg *x)
{
    struct attempt *a;

    switch (x->type) {
    case MSG_PROBE:
        if (trouble(m, 15) || w->queued > 200)
            TELL(PROBE_REFUSED, probe_refused, .job = x->probe.job, .count = x->probe.count,
                 .err = HAWK_ELIMIT);
        else
            enqueue(w, x->probe.job, x->probe.count);
        break;
    case MSG_PROBE_CANCEL:
        TELL(PROBE_CANCELLED, probe_cancelled, .job = x->probe_cancel.job,
             .count = drop_job(m, w, x->probe_cancel.job, false));
        break;
    case MSG_NO_TASK:
        forget_request(w, x->no_task.job, x->no_task.request);
        drop_job(m, w, x->no_task.job, false);
        break;
    case MSG_TASK_LAUNCH:
        worker_launch(w, &x->task_launch);
        break;
    case MSG_TASK_CANCEL:
        a = find_try(w, &x->task_cancel.id);
        if (a && a->state != ENDED)
            end_try(m, w, a, OUTCOME_CANCELLED, 0);
        break;
    case MSG_FINISH_ACK:
        a = find_try(w, &x->finish_ack.id);
        if (a && a->state == ENDED) {
            note_ack(m, a);
            a->state = FREE;
        }
        break;
    default:
        fail_msg("a worker was sent %s", msg_name(x->type));
    }
}

static void worker_lost_dist(struct model *m, struct worker *w)
{
    w->link.peer_up = false;
    drop_job(m, w, JOB_NONE, true);
    w->asks = 0;
    for (int i = 0; i < TRIES_MAX; i++) /* orphans that waited too long */
        if (trouble(m, 20))
            w->tries[i].state = FREE;
}

static void worker_meets_dist(struct model *m, struct worker *w)
{
    static const uint8_t shown[] = {
        [LAUNCHED] = TASK_LAUNCHED, [RUNNING] = TASK_RUNNING, [ENDED] = TASK_DONE};

    w->next_request = 0;
    for (int i = 0; i < TRIES_MAX; i++) {
        const struct attempt *a = &w->tries[i];

        if (a->state == FREE)
            continue;
        TELL(TASK_HELD, task_held, .id = a->id, .run_us = 10, .state = shown[a->state]);
        if (a->state == ENDED)
            TELL(TASK_FINISHED, task_finished, .id = a->id, .outcome = a->outcome, .code = a->code,
                 .run_us = 1000);
    }
    TELL(HELD_END, held_end, 0);
}

/* One thing that a worker does by itself. */
static bool worker_acts(struct model *m, struct worker *w)
{
    struct attempt *a = &w->tries[below(m, TRIES_MAX)];

    if (w->link.peer_up && w->queued > 0 && slots_used(w) < w->slots) {
        struct entry *head = &w->queue[0];
        job_id_t job = head->job;

        w->asked[w->asks++] = (struct entry){job, ++w->next_request};
        TELL(TASK_REQUEST, task_request, .job = job, .request = w->next_request);
        if (trouble(m, 5)) /* twice */
            TELL(TASK_REQUEST, task_request, .job = job, .request = w->next_request);
        if (--head->count == 0)
            memmove(head, head + 1, --w->queued * sizeof *head);
        return true;
    }
    for (int i = 0; i < TRIES_MAX && a->state != LAUNCHED && a->state != RUNNING; i++)
        a = &w->tries[i];
    if (a->state == LAUNCHED) {
        a->state = RUNNING;
        TELL(TASK_STARTED, task_started, .id = a->id, .wait_us = 1);
        return true;
    }
    if (a->state == RUNNING) {
        if (trouble(m, 20))
            TELL(TASK_OVERRUN, task_overrun, .id = a->id, .run_us = 20 * US_PER_S);
        else if (trouble(m, 5))
            end_try(m, w, a, OUTCOME_LOST, 0);
        else
            end_try(m, w, a, OUTCOME_EXITED, chance(m, 10) ? 1 : 0);
        return true;
    }
    return false;
}

/* ---- Stealing: offered, then told to the dist and acknowledged, in any order with all else ---- */

static void steal(struct model *m)
{
    uint32_t victim = below(m, WORKERS), thief = below(m, WORKERS);
    struct worker *w = &m->w[victim];

    if (victim == thief || w->queued == 0)
        return;
    for (int i = 0; i < 16; i++)
        if (!m->loot[i].at_victim && !m->loot[i].offered) {
            struct entry *e = &w->queue[below(m, w->queued)];
            uint32_t count = below(m, e->count) + 1;

            m->loot[i] = (struct loot){e->job, count, victim, thief, true, true};
            e->count -= count;
            if (e->count == 0)
                *e = w->queue[--w->queued];
            return;
        }
}

static void loot_moves(struct model *m, struct loot *l)
{
    struct worker *w = &m->w[l->thief];

    if (l->offered) {
        l->offered = false;
        if (!w->link.peer_up || trouble(m, 10)) { /* refused */
            if (l->at_victim)
                enqueue(&m->w[l->victim], l->job, l->count);
            l->at_victim = false;
            return;
        }
        TELL(RES_MOVED, res_moved, .job = l->job, .from = {FIRST + l->victim}, .count = l->count);
        enqueue(w, l->job, l->count);
    } else if (l->at_victim) {
        if (trouble(m, 20)) /* the acknowledgement is lost with the stream: both have it */
            enqueue(&m->w[l->victim], l->job, l->count);
        l->at_victim = false;
    }
}

/* ---- Central ---- */

static void central_tell(struct model *m, struct msg x)
{
    x.peer = CENTRAL;
    if (m->central.peer_up && !m->central.broken)
        fifo_put(&m->central.to_dist, &x);
    else
        msg_drop(&x);
}
#define CENTRAL_TELL(NAME, name, ...) central_tell(m, (struct msg){.type = MSG_##NAME, .name = {__VA_ARGS__}})

static struct long_job *find_long(struct model *m, job_id_t job, uint16_t epoch)
{
    for (uint32_t i = 0; i < m->longs_n; i++)
        if (job_eq(m->longs[i].job, job) && m->longs[i].epoch == epoch)
            return &m->longs[i];
    return NULL;
}

static void tell_task(struct model *m, const struct long_job *l, uint32_t i)
{
    struct try_id id = {l->job, l->t[i].task, l->epoch, l->t[i].attempt};
    uint8_t outcome = l->t[i].state == TASK_CANCELLED   ? OUTCOME_CANCELLED
                      : task_state_final(l->t[i].state) ? OUTCOME_EXITED
                                                        : OUTCOME_NONE;

    CENTRAL_TELL(LONG_TASK, long_task, .id = id, .state = l->t[i].state, .outcome = outcome, .run_us = 5,
                 .code = l->t[i].state == TASK_FAILED, .worker = {FIRST});
}

static void central_submit(struct model *m, const struct msg_long_submit *s)
{
    struct long_job *l = find_long(m, s->job, s->epoch);

    if (!l && trouble(m, 20)) {
        CENTRAL_TELL(LONG_REFUSED, long_refused, .job = s->job, .err = HAWK_ELIMIT, .epoch = s->epoch);
        return;
    }
    if (!l) {
        assert_true(m->longs_n < JOBS_MAX);
        l = &m->longs[m->longs_n++];
        *l =
            (struct long_job){.job = s->job, .epoch = s->epoch, .n = s->tasks ? s->tasks->n : s->desc->tasks};
        assert_true(l->n > 0);
        for (uint32_t i = 0; i < l->n; i++)
            l->t[i].task = s->tasks ? s->tasks->v[i] : i;
    }
    CENTRAL_TELL(LONG_ACCEPTED, long_accepted, .job = s->job, .epoch = s->epoch);
}

static void central_hears(struct model *m, const struct msg *x)
{
    struct long_job *l;

    switch (x->type) {
    case MSG_JOIN:
        m->central_joined = true;
        CENTRAL_TELL(JOINED, joined, .heartbeat_us = 500000, .lease_us = 1, .node = {ME});
        break;
    case MSG_LONG_SUBMIT:
        central_submit(m, &x->long_submit);
        break;
    case MSG_LONG_CANCEL:
        l = find_long(m, x->long_cancel.job, x->long_cancel.epoch);
        for (uint32_t i = 0; l && i < l->n; i++)
            if (!task_state_final(l->t[i].state)) {
                l->t[i].state = TASK_CANCELLED;
                tell_task(m, l, i);
            }
        break;
    case MSG_LONG_WATCH:
        l = find_long(m, x->long_watch.job, x->long_watch.epoch);
        for (uint32_t i = 0; l && i < l->n; i++)
            tell_task(m, l, i);
        CENTRAL_TELL(LONG_WATCHED, long_watched, .job = x->long_watch.job, .epoch = x->long_watch.epoch,
                     .err = l ? 0 : HAWK_ENOT_FOUND);
        break;
    default:
        break;
    }
}

static bool central_acts(struct model *m)
{
    static const uint8_t next[] = {[TASK_WAITING] = TASK_PLACED, [TASK_PLACED] = TASK_RUNNING};
    struct long_job *l = m->longs_n ? &m->longs[below(m, m->longs_n)] : NULL;

    for (uint32_t i = 0; l && i < l->n; i++) {
        uint8_t *state = &l->t[i].state;

        if (task_state_final(*state))
            continue;
        if (*state == TASK_WAITING)
            l->t[i].attempt++;
        if (*state == TASK_RUNNING) {
            m->ran[job_id_seq(l->job)][l->t[i].task] = true;
            *state = chance(m, 10) ? TASK_FAILED : TASK_DONE;
        } else {
            *state = trouble(m, 20) && *state == TASK_PLACED ? TASK_WAITING : next[*state];
        }
        tell_task(m, l, i);
        return true;
    }
    return false;
}

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
    desc->retries = (uint16_t)below(m, 4);
    desc->max_fails = chance(m, 20) ? 1 + below(m, 3) : 0;
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

    for (job = dist_newest(d); job; job = dist_older(d, job)) {
        dist_job_view(d, job, m->t->now, &v);
        if (v.response_us < 0)
            print_error("job %u: %s, %u waiting, %u placed, %u running, %u live: %s\n",
                        (unsigned)job_id_seq(v.job), job_state_text(v.state), v.waiting, v.placed, v.running,
                        v.probes_live, dist_block_text(dist_blocked(d, job, NULL)));
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
