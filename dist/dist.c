/* The dist itself: joining, heartbeats, timers, stopping, and which handler gets which message. */
#include "dist/dist.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/units.h"
#include "dist/internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- From nothing and back ---- */

void dist_config_init(struct dist_config *c)
{
    *c = (struct dist_config){
        .first_seq = 1,
        .jobs_unfinished_max = 100000,
        .tasks_unfinished_max = 10000000,
        .finished_kept = 10000,
        .finished_tasks_kept = 4000000,
        .unfinished_bytes_max = UINT64_C(1) << 30,
        .finished_bytes_kept = UINT64_C(256) << 20,
        .estimates_max = 100000,
        .heartbeats = true,
        .life = 1,
        .settle_us = 3 * US_PER_S,
    };
    CHECK(policy_preset("hawk", &c->policy) == 0);
}

void dist_init(struct dist *d, const struct dist_config *c, uint64_t seed)
{
    memset(d, 0, sizeof *d);
    d->cfg = *c;
    blob_ref(d->cfg.name);
    blob_ref(d->cfg.addr);
    d->policy = c->policy;
    d->node = c->node;
    d->cluster = c->cluster;
    d->next_seq = c->first_seq;
    rng_seed(&d->rng, seed);
    estimates_init(&d->estimates, c->estimates_max);
    for (int i = 0; i < JOB_STATE_COUNT; i++)
        list_init(&d->jobs[i]);
    list_init(&d->finished);
    list_init(&d->touched);
    list_init(&d->accepted);
    list_init(&d->handed);
    list_init(&d->unattended);
    list_init(&d->settling);
    list_init(&d->awaited);
    pools_init(d->pool);
    heap_init(&d->timers);
    places_init(&d->places);
    d->heartbeat_at = TIME_NEVER;
    d->audit_at = d->rewrite_at = d->settle_at = d->beat_at = TIME_NEVER;
    d->doubt_us = -1;
}

void dist_free(struct dist *d)
{
    struct dist_job *job, *next;

    HASH_ITER(hh, d->by_id, job, next) {
        list_foreach(&job->places, node, nxt) {
            list_remove(&container_of(node, struct dist_place, in_job)->in_node);
            list_remove(node);
        }
        job_free(d, job);
    }
    nodes_free(d);
    places_free(&d->places);
    journal_free(d);
    heap_free(&d->timers);
    pools_free(d->pool);
    dist_apps_free(d);
    for (uint32_t i = 0; i < d->reports_n; i++)
        blob_drop(d->reports[i].name);
    free(d->reports);
    free(d->drawn);
    estimates_free(&d->estimates);
    blob_drop(d->cfg.name);
    blob_drop(d->cfg.addr);
    memset(d, 0, sizeof *d);
}

/* ---- Joining (docs/protocol.md 1) ---- */

static void put_stopped(struct step *s, bool asked)
{
    out_add(s->out, MSG_STOPPED, 0)->stopped.asked = asked;
    s->d->stopped = true;
}

static void on_central_up(struct step *s, uint32_t version)
{
    struct dist *d = s->d;
    struct msg_join *m = &out_add(s->out, MSG_JOIN, NODE_CENTRAL.v)->join;

    d->central_stream = true;
    d->seq_heard = 0;
    d->central_version = protocol_version_of(version);
    m->name = blob_ref(d->cfg.name);
    m->addr = blob_ref(d->cfg.addr);
    m->incarnation = d->cfg.incarnation;
    m->node = d->node;
    m->cluster = d->cluster;
    m->version = (uint16_t)d->central_version;
    m->role = ROLE_DIST;
}

static void on_central_lost(struct step *s)
{
    struct dist *d = s->d;

    d->central_stream = d->central_up = false;
    d->heartbeat_at = TIME_NEVER;
    /* Whoever answers next may know nothing of the counters. */
    memset(d->counters_told, 0, sizeof d->counters_told);
    hand_central_lost(s);
}

static void on_joined(struct step *s, const struct msg_joined *m)
{
    struct dist *d = s->d;

    d->node = m->node;
    d->cluster = m->cluster;
    d->joined = d->central_up = true;
    d->joined_us = s->now;
    d->drained = m->draining;
    d->told_empty = false;
    d->lease_us = m->lease_us;
    d->heartbeat_us = m->heartbeat_us > LIMIT_HEARTBEAT_MIN_US ? m->heartbeat_us : LIMIT_HEARTBEAT_MIN_US;
    if (d->cfg.heartbeats)
        d->heartbeat_at = s->now + d->heartbeat_us;
    numbers_joined(s);
    hand_central_up(s);
    settle_begin(s);
    reports_send(s);
}

static void put_heartbeat(struct step *s)
{
    struct dist *d = s->d;
    struct msg_heartbeat *m = &out_add(s->out, MSG_HEARTBEAT, NODE_CENTRAL.v)->heartbeat;

    m->seq = ++d->heartbeat_seq;
    m->queued = d->tasks_in[TASK_WAITING];
    m->running_short = d->tasks_in[TASK_LAUNCHED] + d->tasks_in[TASK_RUNNING];
    m->jobs_unfinished = d->jobs_unfinished;
    m->quiet = true; /* it has no lease */
    for (uint32_t i = 0; i < COUNTER_COUNT; i++) {
        struct msg_counter *c;

        if (d->counters[i] == d->counters_told[i])
            continue;
        d->counters_told[i] = d->counters[i];
        c = &out_add(s->out, MSG_COUNTER, NODE_CENTRAL.v)->counter;
        c->counter = i;
        c->value = d->counters[i];
    }
    d->heartbeat_at = s->now + d->heartbeat_us;
}

/* ---- Timers ---- */

int64_t dist_next_timeout(const struct dist *d)
{
    const struct heap_node *first = heap_min(&d->timers);
    const int64_t all[] = {jobs_next_abandoned(d), d->audit_at, d->rewrite_at,
                           d->settle_at,           d->beat_at,  first ? first->key : TIME_NEVER};
    int64_t at = d->heartbeat_at;

    for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
        at = all[i] < at ? all[i] : at;
    return d->stopped ? TIME_NEVER : at;
}

static void on_timer(struct step *s)
{
    struct dist *d = s->d;
    struct heap_node *first;

    while ((first = heap_min(&d->timers)) && first->key <= s->now) {
        struct dist_job *job = container_of(first, struct dist_job, timer);

        heap_remove(&d->timers, first);
        if (hand_has_timer(job) && !job->cancelling)
            hand_offer(s, job);
        probe_timer(s, job);
    }
    jobs_abandon(s);
    if (d->audit_at <= s->now)
        probe_audit(s);
    if (d->rewrite_at <= s->now)
        journal_rewrite(s);
    if (d->settle_at <= s->now)
        settle_look(s);
    if (d->beat_at <= s->now)
        nodes_beat(s);
    if (d->heartbeat_at <= s->now)
        put_heartbeat(s);
}

/* ---- Draining and stopping (docs/protocol.md 8) ---- */

static void tell_drained(struct step *s)
{
    struct msg_drained *m = &out_add(s->out, MSG_DRAINED, NODE_CENTRAL.v)->drained;

    m->on = s->d->drained;
    m->empty = s->d->drained && s->d->jobs_unfinished == 0;
    s->d->told_empty = m->empty;
}

static void on_drain(struct step *s, bool on)
{
    if (!s->d->central_up)
        return;
    s->d->drained = on;
    tell_drained(s);
}

static void leave(struct step *s)
{
    numbers_leave(s);
    if (s->d->central_up)
        out_add(s->out, MSG_LEAVE, NODE_CENTRAL.v);
    put_stopped(s, true);
}

/* The second time there is nothing to wait for. */
static void on_stop(struct step *s, bool at_once)
{
    bool again = s->d->leaving;

    s->d->stopping = true;
    s->d->leaving = s->d->leaving || at_once;
    if (at_once) {
        jobs_accept_durable(s);
        hand_leave(s);
    }
    if (at_once && again)
        leave(s);
}

/* ---- Dispatch ---- */

/* For jobs to come; those there are keep what they began under (dist_job.policy_flags). */
static void on_policy(struct step *s, const struct policy *p)
{
    uint32_t changed = s->d->policy.flags ^ p->flags;

    s->d->policy = *p;
    if (changed & POLICY_SHORT_RESERVED)
        probe_pools_changed(s);
}

static void from_central(struct step *s, const struct msg *m)
{
    struct dist *d = s->d;

    switch (m->type) {
    case MSG_JOINED:
        on_joined(s, &m->joined);
        break;
    case MSG_JOB_NUMBERS:
        s->d->seq_heard = m->job_numbers.next;
        break;
    case MSG_REFUSED:
        put_stopped(s, false);
        break;
    case MSG_MEMBERS:
        on_members(s, m->members.list);
        break;
    case MSG_APP:
        on_app(s, &m->app);
        break;
    case MSG_MEMBER:
        on_member(s, &m->member);
        break;
    case MSG_POLICY:
        on_policy(s, &m->policy.policy);
        break;
    case MSG_ESTIMATE:
        estimates_set(&d->estimates, m->estimate.name, m->estimate.mean_us, m->estimate.runs);
        break;
    case MSG_LONG_ACCEPTED:
        on_long_accepted(s, m);
        break;
    case MSG_LONG_REFUSED:
        on_long_refused(s, m);
        break;
    case MSG_LONG_MESSAGE:
        on_long_message(s, m);
        break;
    case MSG_LONG_RESULT:
        on_long_result(s, m);
        break;
    case MSG_LONG_TASK:
        on_long_task(s, m);
        break;
    case MSG_LONG_WATCHED:
        on_long_watched(s, m);
        break;
    case MSG_DRAIN:
        on_drain(s, m->drain.on);
        break;
    case MSG_QUIT:
        on_stop(s, m->quit.now);
        break;
    default: /* HEARTBEAT_ACK, and whatever a dist is never sent */
        break;
    }
}

static void from_worker(struct step *s, struct dist_node *n, const struct msg *m)
{
    switch (m->type) {
    case MSG_TASK_REQUEST:
        on_task_request(s, n, m);
        break;
    case MSG_TASK_STARTED:
        on_task_started(s, n, m);
        break;
    case MSG_TASK_FINISHED:
        on_task_finished(s, n, m);
        break;
    case MSG_TASK_OVERRUN:
        on_task_overrun(s, m);
        break;
    case MSG_TASK_HELD:
        on_task_held(s, n, m);
        break;
    case MSG_PROBE_REFUSED:
        on_probe_refused(s, n, m);
        break;
    case MSG_PROBE_CANCELLED:
        on_probe_cancelled(s, m);
        break;
    case MSG_RES_MOVED:
        on_res_moved(s, n, m);
        break;
    case MSG_HELD_END:
        on_held_end(s, n);
        break;
    case MSG_BEAT:
        on_beat(s, n, m);
        break;
    default:
        break;
    }
}

static void wire(struct step *s, const struct msg *m)
{
    struct dist_node *n;

    count(s, COUNTER_messages_in, msg_is_counted(m));
    if (m->peer == NODE_CENTRAL.v) {
        if (s->d->central_stream)
            from_central(s, m);
        return;
    }
    n = node_find(s->d, m->peer);
    if (n && n->stream)
        from_worker(s, n, m);
}

static void local(struct step *s, const struct msg *m)
{
    bool central = m->peer == NODE_CENTRAL.v;

    switch (m->type) {
    case MSG_TIMER:
        on_timer(s);
        break;
    case MSG_PEER_UP:
        if (central)
            on_central_up(s, m->peer_up.version);
        else
            on_node_up(s, m->peer, &m->peer_up);
        break;
    case MSG_PEER_LOST:
        if (central)
            on_central_lost(s);
        else
            on_node_lost(s, m->peer);
        break;
    case MSG_STOP:
        on_stop(s, m->stop.now);
        break;
    case MSG_SUBMIT:
        on_submit(s, m);
        break;
    case MSG_CANCEL:
        on_cancel(s, m);
        break;
    case MSG_WATCH:
        on_watch(s, m);
        break;
    case MSG_JOURNAL_DONE:
        on_journal_done(s, m);
        break;
    case MSG_JOURNAL_NUMBERS:
        on_recover_numbers(s, &m->journal_numbers);
        break;
    case MSG_JOURNAL_JOB:
        on_recover_job(s, &m->journal_job);
        break;
    case MSG_JOURNAL_AGE:
        on_recover_age(s, &m->journal_age);
        break;
    case MSG_JOURNAL_TASK:
        on_recover_task(s, &m->journal_task);
        break;
    case MSG_JOURNAL_CANCEL:
        on_recover_cancel(s, &m->journal_cancel);
        break;
    case MSG_JOURNAL_ENDED:
        on_recover_ended(s, &m->journal_ended);
        break;
    case MSG_RECOVERED:
        on_recovered(s);
        break;
    default: /* START: a dist waits for central's stream. */
        break;
    }
}

void dist_step(struct dist *d, const struct event *e, struct out *out)
{
    struct step s = {.d = d, .now = e->now_us, .out = out};
    uint32_t before = out->n;

    if (d->stopped)
        return;
    if (msg_is_wire(&e->m))
        wire(&s, &e->m);
    else
        local(&s, &e->m);
    if (!list_empty(&d->touched))
        jobs_settle(&s);
    jobs_trim(&s);
    if (!list_empty(&d->awaited) && d->beat_at == TIME_NEVER)
        d->beat_at = s.now + PULSE_LOOK_US;
    if (d->drained && d->central_up && d->told_empty != (d->jobs_unfinished == 0))
        tell_drained(&s);
    if (!d->stopped &&
        (d->leaving ? !jobs_journalling(d) && !journal_awaited(d) : d->stopping && d->jobs_unfinished == 0))
        leave(&s);
    for (uint32_t i = before; i < out->n; i++)
        d->counters[COUNTER_messages_out] += msg_is_counted(&out->v[i]);
}
