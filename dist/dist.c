/* The dist: joining, heartbeats, timers, stopping, and the table of handlers. */
#include "dist/dist.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/units.h"
#include "dist/internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- Making and freeing ---- */

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
    list_init(&d->unattended[0]);
    list_init(&d->unattended[1]);
    heap_init(&d->delayed);
    list_init(&d->settling);
    list_init(&d->kept);
    list_init(&d->awaited);
    list_init(&d->ending);
    dist_pools_init(d->pool);
    heap_init(&d->timers);
    dist_places_init(&d->places);
    d->heartbeat_at = TIME_NEVER;
    d->audit_at = d->rewrite_at = d->settle_at = d->beat_at = d->ends_due_us = TIME_NEVER;
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
        dist_job_free(d, job);
    }
    dist_nodes_free(d);
    dist_places_free(&d->places);
    dist_journal_free(d);
    heap_free(&d->timers);
    heap_free(&d->delayed);
    dist_pools_free(d->pool);
    dist_served_free(d);
    dist_apps_free(d);
    dist_users_free(d);
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

static void put_stopped(struct dist *d, bool asked)
{
    out_add(d->out, MSG_STOPPED, 0)->stopped.asked = asked;
    d->stopped = true;
}

static void central_stream_up(struct dist *d, uint32_t version)
{
    struct msg_join *m = &out_add(d->out, MSG_JOIN, NODE_CENTRAL.v)->join;

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

static void central_lost(struct dist *d)
{
    d->central_stream = d->joined = false;
    d->heartbeat_at = TIME_NEVER;
    /* The next central may not know the counters. */
    memset(d->counters_told, 0, sizeof d->counters_told);
    dist_handover_central_lost(d);
}

static void dist_on_joined(struct dist *d, const struct msg *in)
{
    const struct msg_joined *m = &in->joined;
    d->node = m->node;
    d->cluster = m->cluster;
    d->ever_joined = d->joined = true;
    d->joined_us = d->now_us;
    d->drained = m->draining;
    d->told_empty = false;
    d->lease_us = m->lease_us;
    d->heartbeat_us = m->heartbeat_us > LIMIT_HEARTBEAT_MIN_US ? m->heartbeat_us : LIMIT_HEARTBEAT_MIN_US;
    if (d->cfg.heartbeats)
        d->heartbeat_at = d->now_us + d->heartbeat_us;
    dist_numbers_joined(d);
    dist_handover_joined(d);
    dist_settle_begin(d);
    dist_reports_send(d);
}

static void put_heartbeat(struct dist *d)
{
    struct msg_heartbeat *m = &out_add(d->out, MSG_HEARTBEAT, NODE_CENTRAL.v)->heartbeat;

    dist_nodes_settle(d);
    m->seq = ++d->heartbeat_seq;
    m->queued = d->tasks_in[TASK_WAITING];
    m->running_short = d->tasks_in[TASK_LAUNCHED] + d->tasks_in[TASK_RUNNING];
    m->jobs_unfinished = d->jobs_unfinished;
    m->quiet = true; /* a dist has no lease */
    for (uint32_t i = 0; i < COUNTER_COUNT; i++) {
        struct msg_counter *c;

        if (d->counters[i] == d->counters_told[i])
            continue;
        d->counters_told[i] = d->counters[i];
        c = &out_add(d->out, MSG_COUNTER, NODE_CENTRAL.v)->counter;
        c->counter = i;
        c->value = d->counters[i];
    }
    d->heartbeat_at = d->now_us + d->heartbeat_us;
}

/* ---- Timers ---- */

int64_t dist_next_timeout(const struct dist *d)
{
    const struct heap_node *first = heap_min(&d->timers);
    int64_t at_us = earlier(earlier(d->heartbeat_at, d->audit_at), earlier(d->rewrite_at, d->settle_at));

    if (d->stopped)
        return TIME_NEVER;
    at_us = earlier(at_us, earlier(d->beat_at, d->ends_due_us));
    at_us = earlier(at_us, dist_jobs_next_abandoned(d));
    at_us = earlier(at_us, dist_jobs_next_forgotten(d));
    at_us = earlier(at_us, dist_retries_due_us(d));
    return first ? earlier(at_us, first->key) : at_us;
}

static void dist_on_timer(struct dist *d, const struct msg *m)
{
    struct heap_node *first;

    while ((first = heap_min(&d->timers)) && first->key <= d->now_us) {
        struct dist_job *job = container_of(first, struct dist_job, timer);

        heap_remove(&d->timers, first);
        if (job->timer_for == TIMER_ACCEPT)
            dist_job_try_accept(d, job);
        else if (job->timer_for == TIMER_OFFER)
            dist_handover_offer_again(d, job);
        job->refused = false;
        dist_job_touch(d, job);
    }
    dist_jobs_abandon(d);
    dist_retries_run(d);
    if (d->audit_at <= d->now_us)
        dist_probe_audit(d);
    if (d->rewrite_at <= d->now_us)
        dist_journal_rewrite(d);
    if (d->settle_at <= d->now_us)
        dist_settle_look(d);
    if (d->beat_at <= d->now_us)
        dist_nodes_beat(d);
    if (d->ends_due_us <= d->now_us)
        dist_end_times_settle(d);
    if (d->heartbeat_at <= d->now_us)
        put_heartbeat(d);
}

/* ---- Draining and stopping (docs/protocol.md 8) ---- */

static void tell_drained(struct dist *d)
{
    struct msg_drained *m = &out_add(d->out, MSG_DRAINED, NODE_CENTRAL.v)->drained;

    m->on = d->drained;
    m->empty = d->drained && d->jobs_unfinished == 0;
    d->told_empty = m->empty;
}

static void dist_on_drain(struct dist *d, const struct msg *m)
{
    if (!d->joined)
        return;
    d->drained = m->drain.on;
    tell_drained(d);
}

/* Whether the dist may leave the cluster now. In good order it also waits until all ends are durable: workers and
 * clients hear of these first. */
static bool may_leave(const struct dist *d)
{
    return d->leaving ? !dist_jobs_journalling(d) && !dist_journal_awaited(d)
                      : d->stopping && d->jobs_unfinished == 0 && !dist_journal_is_behind(d);
}

static void leave_cluster(struct dist *d)
{
    dist_numbers_leave(d);
    if (d->joined)
        out_add(d->out, MSG_LEAVE, NODE_CENTRAL.v);
    put_stopped(d, true);
}

/* Stops the dist. A second STOP (at_once) waits for nothing. */
static void stop_dist(struct dist *d, bool at_once)
{
    bool again = d->leaving;

    d->stopping = true;
    d->leaving = d->leaving || at_once;
    if (at_once) {
        dist_jobs_accept_durable(d);
        dist_handover_leave(d);
    }
    if (at_once && again)
        leave_cluster(d);
}

/* ---- Dispatch ---- */

/* The policy for new jobs. Jobs that have begun keep theirs (dist_job.policy_flags). */
static void dist_on_policy(struct dist *d, const struct msg *m)
{
    const struct policy *p = &m->policy.policy;
    bool changed = (d->policy.flags ^ p->flags) & POLICY_SHORT_RESERVED ||
                   policy_reserves(&d->policy) != policy_reserves(p);

    d->policy = *p;
    if (changed)
        dist_probe_pools_changed(d);
}

static void dist_on_job_numbers(struct dist *d, const struct msg *in)
{
    const struct msg_job_numbers *m = &in->job_numbers;
    struct receipt_secret got = {0};

    d->seq_heard = m->next;
    if (m->receipts)
        memcpy(&got, m->receipts->data, sizeof got);
    if (receipt_secret_set(&got) && memcmp(&got, d->receipts, sizeof got) != 0) {
        d->receipts[1] = d->receipts[0];
        d->receipts[0] = got;
    }
    d->receipts_due_us = d->now_us + (int64_t)m->receipts_due_s * US_PER_S;
}

static void dist_on_estimate(struct dist *d, const struct msg *m)
{
    estimates_set(&d->estimates, m->estimate.user, m->estimate.name, m->estimate.mean_us, m->estimate.runs);
}

static void dist_on_refused(struct dist *d, const struct msg *m) { put_stopped(d, false); }

static void dist_on_stop(struct dist *d, const struct msg *m) { stop_dist(d, m->stop.now); }

static void dist_on_quit(struct dist *d, const struct msg *m) { stop_dist(d, m->quit.now); }

static void dist_on_peer_up(struct dist *d, const struct msg *m)
{
    if (m->peer == NODE_CENTRAL.v)
        central_stream_up(d, m->peer_up.version);
    else
        dist_node_up(d, m->peer, &m->peer_up);
}

static void dist_on_peer_lost(struct dist *d, const struct msg *m)
{
    if (m->peer == NODE_CENTRAL.v)
        central_lost(d);
    else
        dist_node_lost(d, m->peer);
}

/* Allowed senders. HERE: this process. WORKER: a worker with a stream to this dist. EITHER: CENTRAL or WORKER. */
enum sender { HERE, CENTRAL, WORKER, EITHER };

static const struct {
    void (*handle)(struct dist *d, const struct msg *m);
    enum sender from;
} handlers[MSG_TYPE_COUNT] = {
    [MSG_TIMER] = {dist_on_timer, HERE},
    [MSG_PEER_UP] = {dist_on_peer_up, HERE},
    [MSG_PEER_LOST] = {dist_on_peer_lost, HERE},
    [MSG_STOP] = {dist_on_stop, HERE},
    [MSG_SUBMIT] = {dist_on_submit, HERE},
    [MSG_CANCEL] = {dist_on_cancel, HERE},
    [MSG_WATCH] = {dist_on_watch, HERE},
    [MSG_HOLD] = {dist_on_hold, HERE},
    [MSG_JOURNAL_DONE] = {dist_on_journal_done, HERE},
    [MSG_JOURNAL_NUMBERS] = {dist_on_journal_numbers, HERE},
    [MSG_JOURNAL_JOB] = {dist_on_journal_job, HERE},
    [MSG_JOURNAL_AGE] = {dist_on_journal_age, HERE},
    [MSG_JOURNAL_TASK] = {dist_on_journal_task, HERE},
    [MSG_JOURNAL_CANCEL] = {dist_on_journal_cancel, HERE},
    [MSG_JOURNAL_ENDED] = {dist_on_journal_ended, HERE},
    [MSG_JOURNAL_WAITS] = {dist_on_journal_waits, HERE},
    [MSG_RECOVERED] = {dist_on_recovered, HERE},
    [MSG_JOINED] = {dist_on_joined, CENTRAL},
    [MSG_JOB_NUMBERS] = {dist_on_job_numbers, CENTRAL},
    [MSG_REFUSED] = {dist_on_refused, CENTRAL},
    [MSG_MEMBERS] = {dist_on_members, CENTRAL},
    [MSG_MEMBER] = {dist_on_member, CENTRAL},
    [MSG_APP] = {dist_on_app, CENTRAL},
    [MSG_ENDS] = {dist_on_ends, CENTRAL},
    [MSG_POLICY] = {dist_on_policy, CENTRAL},
    [MSG_ESTIMATE] = {dist_on_estimate, CENTRAL},
    [MSG_LONG_ACCEPTED] = {dist_on_long_accepted, CENTRAL},
    [MSG_LONG_HOLD] = {dist_on_long_hold, CENTRAL},
    [MSG_LONG_REFUSED] = {dist_on_long_refused, CENTRAL},
    [MSG_LONG_MESSAGE] = {dist_on_long_message, CENTRAL},
    [MSG_LONG_RESULT] = {dist_on_long_result, CENTRAL},
    [MSG_LONG_TASK] = {dist_on_long_task, CENTRAL},
    [MSG_LONG_WATCHED] = {dist_on_long_watched, CENTRAL},
    [MSG_DRAIN] = {dist_on_drain, CENTRAL},
    [MSG_QUIT] = {dist_on_quit, CENTRAL},
    [MSG_TASK_REQUEST] = {dist_on_task_request, WORKER},
    [MSG_TASK_STARTED] = {dist_on_task_started, WORKER},
    [MSG_TASK_FINISHED] = {dist_on_task_finished, WORKER},
    [MSG_TASK_OVERRUN] = {dist_on_task_overrun, WORKER},
    [MSG_TASK_HELD] = {dist_on_task_held, WORKER},
    [MSG_PROBE_REFUSED] = {dist_on_probe_refused, WORKER},
    [MSG_PROBE_CANCELLED] = {dist_on_probe_cancelled, WORKER},
    [MSG_RES_MOVED] = {dist_on_res_moved, WORKER},
    [MSG_HELD_END] = {dist_on_held_end, WORKER},
    [MSG_BEAT] = {dist_on_beat, WORKER},
    [MSG_TASK_PAUSED] = {dist_on_task_paused, EITHER},
};

/* Notes whose message it is. False: it is not one that the sender may send now. */
static bool note_sender(struct dist *d, const struct msg *m)
{
    bool central = m->peer == NODE_CENTRAL.v;
    enum sender from = handlers[m->type].from;

    if (from == HERE)
        return true;
    d->from = central ? NULL : dist_node_find(d, m->peer);
    if (central)
        return from != WORKER && d->central_stream;
    return from != CENTRAL && d->from && d->from->stream;
}

void dist_step(struct dist *d, const struct event *e, struct out *out)
{
    uint32_t before = out->n;

    if (d->stopped)
        return;
    d->now_us = e->now_us;
    d->out = out;
    dist_count(d, COUNTER_messages_in, msg_is_counted(&e->m));
    if (handlers[e->m.type].handle && note_sender(d, &e->m))
        handlers[e->m.type].handle(d, &e->m);
    if (!list_empty(&d->touched))
        dist_jobs_settle(d);
    dist_jobs_trim(d);
    if (!list_empty(&d->awaited) && d->beat_at == TIME_NEVER)
        d->beat_at = d->now_us + BEATS_LOOK_US;
    if (d->drained && d->joined && d->told_empty != (d->jobs_unfinished == 0))
        tell_drained(d);
    if (!d->stopped && may_leave(d))
        leave_cluster(d);
    for (uint32_t i = before; i < out->n; i++)
        d->counters[COUNTER_messages_out] += msg_is_counted(&out->v[i]);
    d->out = NULL;
}

static void step_role(void *role, const struct event *e, struct out *out) { dist_step(role, e, out); }
static int64_t next_timeout(const void *role) { return dist_next_timeout(role); }
static void check_role(const void *role) { dist_check(role); }

const struct role_functions dist_functions = {
    .step = step_role, .next_timeout = next_timeout, .check = check_role};
