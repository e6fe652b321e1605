/* The nodes around the modelled dist: what workers and central hear from it, and what they then say. For
 * test_dist_model.c. */
#ifndef HAWK_TESTS_TEST_DIST_MODEL_NODES_H
#define HAWK_TESTS_TEST_DIST_MODEL_NODES_H

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

#endif
