/* The conversation with central: joining, heartbeats and the lease, policy, partition, members, edges; and
 * stopping, which ends it. */
#include "worker/internal.h"

/* How often a lease is renewed before it ends, if heartbeats are frequent enough. */
#define LEASE_RENEWALS 16

/* ---- Joining ---- */

/* Output: 1 message. */
void worker_central_stream_up(struct worker *w, uint32_t version)
{
    struct msg_join *m = &out_add(w->out, MSG_JOIN, NODE_CENTRAL.v)->join;

    worker_central_lost(w); /* a new stream implies that the old one is gone */
    w->central_stream = true;
    w->central_version = (uint8_t)protocol_version_of(version);
    w->join_sent_us = w->now_us;
    m->name = blob_ref(w->config.name);
    m->addr = blob_ref(w->config.addr);
    m->incarnation = w->config.incarnation;
    m->node = w->node;
    m->cluster = w->cluster;
    m->slots = w->config.slots;
    m->version = w->central_version;
    m->role = ROLE_WORKER;
}

/* Nothing changes here: central's tasks go on until the lease is over, the rest by the last known policy. */
void worker_central_lost(struct worker *w)
{
    struct owner *o = worker_owner_find(w, NODE_CENTRAL);

    w->central_stream = w->joined = false;
    w->heartbeat_at = TIME_NEVER;
    w->heartbeat_awaited = 0;
    if (!o || o->state != OWNER_UP)
        return;
    worker_owner_set_state(w, o, OWNER_AWAY);
    worker_owner_release(w, o);
}

static int64_t next_heartbeat(const struct worker *w)
{
    return w->config.heartbeats && w->heartbeat_us > 0 ? time_after(w->now_us, w->heartbeat_us) : TIME_NEVER;
}

/* The lease without a tenth of it, which is the time for the kill itself. */
static int64_t lease_of(const struct worker *w) { return w->lease_us - w->lease_us / 10; }

static void lease_renewed(struct worker *w, int64_t sent_us)
{
    bool runs_out = w->config.heartbeats && w->heartbeat_us > 0 && w->lease_us > 0;

    worker_lease_due(w); /* on a machine that stood still, central's answer may come before the timer */
    w->lease_end_us = runs_out ? time_after(sent_us, lease_of(w)) : TIME_NEVER;
    w->lease_over = false;
}

/* ---- Draining (protocol 8) ---- */

static void empty_lane(struct worker *w, struct lane *l)
{
    struct steal_entry *head;

    while ((head = steal_queue_head(&l->queue)))
        worker_entry_give_back(w, container_of(head, struct entry, q), refusal(w));
}

void worker_lanes_empty(struct worker *w)
{
    for (uint32_t i = 0; i < w->n_lanes; i++)
        empty_lane(w, &w->lanes[i]);
}

/* Output: at most 1 message per entry. Running tasks and requests go on: no try is spent on a drain. */
static void set_drained(struct worker *w, bool on)
{
    w->drained = on;
    if (on)
        worker_lanes_empty(w);
}

static void tell_drained(struct worker *w)
{
    struct msg_drained *m = &out_add(w->out, MSG_DRAINED, NODE_CENTRAL.v)->drained;

    m->on = refuses_work(w);
    m->empty = m->on && worker_quiet(w);
    w->told_empty = m->empty;
}

/* Output: at most 1 message per entry, and then DRAINED. Tasks that come back before DRAINED do so because of the
 * drain: central does not take the worker for one that stops. */
void worker_on_drain(struct worker *w, const struct msg *in)
{
    if (!w->joined)
        return;
    set_drained(w, in->drain.on);
    tell_drained(w);
}

/* Output: at most 1 message. */
void worker_drain_step(struct worker *w)
{
    if (w->drained && w->joined && w->told_empty != worker_quiet(w))
        tell_drained(w);
}

/* Output: at most 3 messages per task of central's, 1 per application, and 5; and 2 that waited for a
 * central. */
void worker_on_joined(struct worker *w, const struct msg *in)
{
    const struct msg_joined *m = &in->joined;
    struct owner *o;

    if (!w->central_stream)
        return;
    w->joined = true;
    w->node = m->node;
    w->cluster = m->cluster;
    w->heartbeat_us = m->heartbeat_us;
    w->lease_us = m->lease_us;
    w->heartbeat_at = next_heartbeat(w);
    lease_renewed(w, w->join_sent_us);
    if (w->stopping)
        out_add(w->out, MSG_DRAINING, NODE_CENTRAL.v);
    w->long_asked = w->long_got = 0;
    w->long_ask_at = w->now_us;
    w->parked.told = w->stuck.told = false; /* this central may be another process */
    w->parked.again = w->stuck.again = false;
    w->parked.next_at = w->stuck.next_at = w->now_us;
    for (uint32_t c = 0; c < COUNTER_COUNT; c++)
        w->counters_changed |= w->counters[c] ? 1u << c : 0;
    o = worker_owner_get(w, NODE_CENTRAL);
    if (o->state != OWNER_UP)
        worker_owner_set_state(w, o, OWNER_UP);
    o->version = w->central_version;
    worker_serves_tell(w);
    worker_ends_tell(w);
    worker_apps_tell(w);
    worker_report_held(w, o);
    w->told_empty = false;
    set_drained(w, m->draining);
    worker_service_joined(w);
}

/* Central refuses this process: another one has its name, and its tasks count as lost. No task may run on
 * without an owner. Output: at most 1 message per slot, and 1. */
void worker_on_refused(struct worker *w, const struct msg *in)
{
    for (uint32_t i = 0; i < w->n_slots; i++)
        if (slot_at(w, i)->task)
            worker_task_kill(w, slot_at(w, i)->task, OUTCOME_LOST, true);
    w->stopping = w->stopped = true;
    out_add(w->out, MSG_STOPPED, 0);
}

/* ---- Heartbeats and the lease ---- */

/* An answer to every heartbeat would cost central more than the heartbeat. The worker needs one as the lease
 * wears off. It also needs one while its thief waits for central's hints: a central that hangs sends none. */
static bool wants_ack(const struct worker *w)
{
    int64_t left_us = w->lease_end_us - w->now_us;

    return (w->long_work && w->n_free > 0) ||
           (w->lease_end_us != TIME_NEVER && left_us <= lease_of(w) - w->lease_us / LEASE_RENEWALS);
}

/* Output: at most 1 message, 1 per counter, and 1 per task whose pauses have changed. */
void worker_heartbeat_due(struct worker *w)
{
    uint32_t busy = (uint32_t)w->n_active - w->n_free;
    struct msg_heartbeat *m;

    if (w->now_us < w->heartbeat_at || !w->joined)
        return;
    w->heartbeat_at = next_heartbeat(w);
    for (uint32_t c = 0; c < COUNTER_COUNT; c++) {
        struct msg_counter *k;

        if (!(w->counters_changed & 1u << c))
            continue;
        k = &out_add(w->out, MSG_COUNTER, NODE_CENTRAL.v)->counter;
        k->counter = c;
        k->value = w->counters[c];
    }
    w->counters_changed = 0;
    worker_pauses_tell(w);
    m = &out_add(w->out, MSG_HEARTBEAT, NODE_CENTRAL.v)->heartbeat;
    m->seq = ++w->heartbeat_seq;
    m->queued = (uint32_t)w->n_reservations + w->n_queued_tasks;
    m->running_long = w->n_long;
    m->paused = w->n_paused;
    m->freezer = w->config.freezer;
    m->running_short = busy - w->n_long;
    m->quiet = w->heartbeat_awaited == 0 && !wants_ack(w);
    /* Only one heartbeat at a time waits for its answer, so that a slow central renews the lease, too. */
    if (!m->quiet && w->heartbeat_awaited == 0) {
        w->heartbeat_awaited = w->heartbeat_seq;
        w->heartbeat_sent_us = w->now_us;
    }
}

/* Output: none, or what worker_lease_due() says. The lease counts from the time when the acknowledged heartbeat was
 * sent (DESIGN 3.9). Central got it then or later, so central's own clock started no earlier. */
void worker_on_heartbeat_ack(struct worker *w, const struct msg *in)
{
    uint32_t seq = in->heartbeat_ack.seq;

    if (!w->joined || w->heartbeat_awaited == 0 || seq < w->heartbeat_awaited || seq > w->heartbeat_seq)
        return;
    w->heartbeat_awaited = 0;
    lease_renewed(w, w->heartbeat_sent_us);
}

bool worker_lease_is_over(const struct worker *w) { return w->lease_over || w->now_us >= w->lease_end_us; }

int64_t worker_lease_next(const struct worker *w)
{
    return w->n_central_tasks > 0 && !w->lease_over ? w->lease_end_us : TIME_NEVER;
}

/* No output. An earlier process had this lease; nothing newer is known until central answers. */
void worker_on_exec_lease(struct worker *w, const struct msg *in)
{
    if (!w->joined)
        w->lease_end_us = w->lease_told_us = in->exec_lease.until_us;
}

/* The executor keeps the lease, too, in case this process is stopped or dead when it ends. Output: at most 1
 * message. */
void worker_lease_step(struct worker *w)
{
    if (!w->config.successors || w->n_central_tasks == 0 || w->lease_end_us == w->lease_told_us ||
        w->lease_end_us == TIME_NEVER)
        return;
    w->lease_told_us = w->lease_end_us;
    out_add(w->out, MSG_EXEC_LEASE, 0)->exec_lease.until_us = w->lease_end_us;
}

/* Hands every bound task of the lane back. Output: 1 message each while central is up. */
static void return_bound(struct worker *w, struct lane *l)
{
    list_foreach(&l->queue.longs, k, next) {
        struct entry *e = container_of(k, struct entry, q.kind);

        if (e->task)
            worker_task_return(w, e->task);
    }
}

/* From the lease's end on central may place this worker's long tasks again, so none of them may run then.
 * Output: at most 1 message per task of central's. */
void worker_lease_due(struct worker *w)
{
    if (w->now_us < worker_lease_next(w))
        return;
    w->lease_over = true;
    for (uint32_t i = 0; i < w->n_lanes; i++)
        return_bound(w, &w->lanes[i]);
    for (uint32_t i = 0; i < w->n_slots; i++) {
        struct task *t = slot_at(w, i)->task;

        if (t && owner_is_central(t->job->owner))
            worker_task_kill(w, t, OUTCOME_LOST, true);
    }
}

/* ---- Central's messages ---- */

/* No output. The policy is in force at once (protocol 2). */
void worker_on_policy(struct worker *w, const struct msg *in)
{
    w->config.policy = in->policy.policy;
    worker_lanes_order(w);
}

/* A worker that becomes reserved hands back its bound tasks that have not started, before the
 * acknowledgement; running long tasks finish here (DESIGN 3.7). Output: at most 1 message per queued task,
 * and 1. */
void worker_on_partition(struct worker *w, const struct msg *in)
{
    w->general = in->partition.general;
    for (uint32_t i = 0; i < w->n_lanes && !w->general; i++)
        return_bound(w, &w->lanes[i]);
    /* Perhaps central did not hear this worker for a while, and forgot what it had said. */
    w->parked.again = w->parked.told;
    w->stuck.again = w->stuck.told;
    out_add(w->out, MSG_PARTITION_ACK, NODE_CENTRAL.v)->partition_ack.epoch = in->partition.epoch;
}

/* No output. */
void worker_on_members(struct worker *w, const struct msg *in)
{
    struct members *old = w->members;

    if (!in->members.list)
        return;
    w->members = members_ref(in->members.list);
    members_drop(old);
}

/* No output: the thief sees it at the end of the step. */
void worker_on_long_work(struct worker *w, const struct msg *in) { w->long_work = in->long_work.any; }

/* ---- Edges: parked and stuck (protocol 5.5) ---- */

/* Whether the edge is told now: it has changed, and the last change was told WORKER_EDGE_US ago or
 * earlier. */
static bool edge_due(const struct worker *w, const struct worker_edge *e, bool changed)
{
    return w->joined && changed && w->now_us >= e->next_at;
}

static bool parked_changed(const struct worker *w)
{
    return w->parked.is != w->parked.told || w->parked.again;
}

static bool stuck_changed(const struct worker *w)
{
    return w->stuck.is != w->stuck.told || w->stuck.again ||
           (w->stuck.is && worker_apps_needed(w) != w->told_apps);
}

static void edge_tell(struct worker *w, struct worker_edge *e)
{
    e->told = e->is;
    e->again = false;
    e->next_at = time_after(w->now_us, WORKER_EDGE_US);
}

/* Output: at most 2 messages. Edges are told only if somebody uses them. Hints pair parked thieves with stuck
 * workers, and stuck workers are the "long work" of LONG_WORK. */
void worker_edges_step(struct worker *w)
{
    const struct policy *p = worker_policy(w);
    bool steal = policy_has(p, POLICY_STEAL), hints = steal && policy_has(p, POLICY_STEAL_HINTS);

    if (w->thief.state == THIEF_PARKED)
        w->parked.is = hints;
    else if (w->thief.state == THIEF_OFF || w->n_free == 0 || !hints)
        w->parked.is = false;
    w->stuck.is = w->n_stuck > 0 && (hints || (steal && !policy_has(p, POLICY_STEAL_ALWAYS)));
    if (edge_due(w, &w->parked, parked_changed(w))) {
        out_add(w->out, MSG_PARKED, NODE_CENTRAL.v)->parked.parked = w->parked.is;
        edge_tell(w, &w->parked);
    }
    if (edge_due(w, &w->stuck, stuck_changed(w))) {
        struct msg_stuck *m = &out_add(w->out, MSG_STUCK, NODE_CENTRAL.v)->stuck;

        m->stuck = w->stuck.is;
        w->told_apps = m->apps = w->stuck.is ? worker_apps_needed(w) : 0;
        edge_tell(w, &w->stuck);
    }
}

/* How many slots would take a long task: the free ones, when there is nothing to steal. */
static uint16_t long_wanted(const struct worker *w)
{
    if (!policy_has(worker_policy(w), POLICY_LATE_LONG) || !w->long_work || !w->general || refuses_work(w))
        return 0;
    if (w->thief.state == THIEF_PARKED || w->thief.state == THIEF_OFF)
        return w->n_free;
    return w->n_free < w->long_asked ? w->n_free : w->long_asked;
}

void worker_ask_long(struct worker *w)
{
    uint16_t wanted = long_wanted(w);
    struct msg_long_request *m;

    if (!w->joined || wanted == w->long_asked || w->now_us < w->long_ask_at)
        return;
    m = &out_add(w->out, MSG_LONG_REQUEST, NODE_CENTRAL.v)->long_request;
    m->slots = w->long_asked = wanted;
    m->got = w->long_got;
    w->long_ask_at = time_after(w->now_us, wanted > 0 ? US_PER_MS : WORKER_EDGE_US);
}

int64_t worker_edges_next(const struct worker *w)
{
    int64_t next = TIME_NEVER;

    if (w->joined && long_wanted(w) != w->long_asked)
        next = w->long_ask_at;

    if (w->joined && parked_changed(w) && w->parked.next_at < next)
        next = w->parked.next_at;
    if (w->joined && stuck_changed(w) && w->stuck.next_at < next)
        next = w->stuck.next_at;
    return next;
}

/* ---- Stopping (protocol 8) ---- */

/* Output: at most 1 message per entry and per slot, and 3. Requests under way are still answered, and with
 * now = 0 their tasks run: a stop in good order spends no try. With now = 1 running tasks end as if they were
 * cancelled, after a signal that they may handle; with now = 1 once more, without one. */
static void stop_worker(struct worker *w, bool now)
{
    bool force = now && w->stop_now;

    if (!w->stopping && w->joined) /* this comes first: otherwise what is handed back would return */
        out_add(w->out, MSG_DRAINING, NODE_CENTRAL.v);
    w->stopping = true;
    worker_lanes_empty(w);
    if (!now)
        return;
    w->stop_now = true;
    for (uint32_t i = 0; i < w->n_slots; i++)
        if (slot_at(w, i)->task)
            worker_task_kill(w, slot_at(w, i)->task, OUTCOME_LOST, force);
}

void worker_on_stop(struct worker *w, const struct msg *in) { stop_worker(w, in->stop.now); }

/* The same at an operator's request, through central. */
void worker_on_quit(struct worker *w, const struct msg *in) { stop_worker(w, in->quit.now); }

/* Whether the stop has to wait. A stop in good order also waits until thieves and owners with a stream have
 * acknowledged what they got. Those without a stream cannot acknowledge. */
static bool stop_waits(const struct worker *w)
{
    if (w->n_free < w->config.slots || w->n_paused > 0)
        return true;
    if (w->stop_now)
        return false;
    list_foreach(&w->up_owners, l, next)
        if (container_of(l, struct owner, link)->n_unacked > 0)
            return true;
    return w->n_loot > 0;
}

/* Output: at most 2 messages. */
void worker_stop_step(struct worker *w)
{
    if (!w->stopping || w->stopped || stop_waits(w))
        return;
    if (w->joined)
        out_add(w->out, MSG_LEAVE, NODE_CENTRAL.v);
    out_add(w->out, MSG_STOPPED, 0)->stopped.asked = true;
    w->stopped = true;
}
