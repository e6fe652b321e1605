/* The worker's entry point: passes an event to its handler, then brings queues, thief and edges up to date,
 * once per step. */
#include "worker/worker.h"

#include "base/mem.h"
#include "worker/internal.h"

#include <stdlib.h>

void worker_config_init(struct worker_config *c)
{
    int err;

    *c = (struct worker_config){
        .slots = 1,
        .queue_limit = WORKER_QUEUE_LIMIT,
        .park_min_us = 100 * US_PER_MS,
        .park_max_us = 5 * US_PER_S,
        .ends_us = TIME_NEVER,
        .orphan_us = 10 * US_PER_S,
        .heartbeats = true,
        .leaves_service = true,
        .pause = {.after_us = 100 * US_PER_MS, .longest_us = 600 * US_PER_S, .share_milli = 500},
    };
    err = policy_preset("hawk", &c->policy);
    CHECK(err == 0);
}

static void lanes_init(struct worker *w)
{
    uint32_t slots = w->config.slots, places = slots + w->config.pause.paused_max;

    w->n_slots = (uint16_t)places;
    w->n_lanes = w->config.queue_per_slot ? slots : 1;
    CHECK(w->n_lanes > 0);
    w->lanes =
        /* Close to each other in memory. */
        xcalloc(1, w->n_lanes * sizeof *w->lanes + places * sizeof *w->slots);
    w->slots = (struct slot *)(w->lanes + w->n_lanes);
    for (uint32_t i = 0; i < w->n_lanes; i++) {
        steal_queue_init(&w->lanes[i].queue);
        list_init(&w->lanes[i].free);
        list_init(&w->lanes[i].unused);
        list_init(&w->lanes[i].paused);
        list_init(&w->lanes[i].given);
        list_init(&w->lanes[i].touched);
        w->lanes[i].queue.short_first = w->config.policy.short_first;
    }
    for (uint32_t i = 0; i < places; i++) {
        struct lane *l = &w->lanes[i % w->n_lanes];
        struct slot *s = &w->slots[i];

        s->lane = l;
        if (i >= slots) {
            s->state = SLOT_UNUSED;
            list_push_tail(&l->unused, &s->link);
            continue;
        }
        list_push_tail(&l->free, &s->link);
        l->n_slots++;
        l->n_active++;
        l->n_free++;
    }
    w->n_active = w->n_free = (uint16_t)slots;
}

void worker_init(struct worker *w, const struct worker_config *c, uint64_t seed)
{
    struct list *lists[] = {&w->touched,     &w->up_owners,  &w->lost_owners,
                            &w->away_owners, &w->promotable, &w->loot};

    CHECK(c->slots >= 1 && c->slots <= LIMIT_SLOTS);
    CHECK(c->pause.paused_max <= LIMIT_SLOTS - c->slots);
    CHECK(c->queue_limit >= 1 && c->queue_limit <= INT32_MAX);
    CHECK(c->name != NULL);
    CHECK(c->addr != NULL);
    *w = (struct worker){.config = *c,
                         .pause_at = TIME_NEVER,
                         .heartbeat_at = TIME_NEVER,
                         .beats_at = TIME_NEVER,
                         .lease_end_us = TIME_NEVER,
                         .serves = c->serves ? user_number(c->serves) : 0};
    blob_ref(c->name);
    blob_ref(c->addr);
    blob_ref(c->serves);
    rng_seed(&w->rng, seed);
    thief_init(&w->thief);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        list_init(lists[i]);
    lanes_init(w);
}

void worker_free(struct worker *w)
{
    worker_objects_free(w);
    worker_apps_free(w);
    worker_service_free(w);
    free(w->lanes);
    members_drop(w->members);
    blob_drop(w->config.name);
    blob_drop(w->config.addr);
    blob_drop(w->config.serves);
}

/* ---- Events ---- */

static bool from_central(const struct msg *in) { return in->peer == NODE_CENTRAL.v; }

static void worker_on_peer_up(struct worker *w, const struct msg *in)
{
    if (from_central(in))
        worker_central_stream_up(w, in->peer_up.version);
    else if (in->peer_up.role == ROLE_DIST && in->peer != NODE_NONE.v)
        worker_dist_up(w, (node_id_t){in->peer}, in->peer_up.version);
}

/* A node may have several parts here: dist of reservations, victim that was asked, thief with loot. */
static void worker_on_peer_lost(struct worker *w, const struct msg *in)
{
    node_id_t node = {in->peer};
    struct owner *o = worker_owner_find(w, node);

    if (from_central(in)) {
        worker_central_lost(w);
        return;
    }
    /* A central that lost its state may give a dist the id of a worker whose stream ends. */
    if (o && o->state == OWNER_UP && in->peer_lost.role != ROLE_WORKER)
        worker_dist_lost(w, o);
    if (in->peer_lost.role == ROLE_DIST)
        return;
    thief_peer_lost(&w->thief, node);
    worker_loot_return(w, node);
}

/* Each of these looks at its own time. The thief and the edges are looked at in every step. */
static void worker_on_timer(struct worker *w, const struct msg *in)
{
    worker_heartbeat_due(w);
    worker_lease_due(w);
    worker_orphans_due(w);
    worker_overrun_due(w);
    worker_beats_due(w);
    worker_service_due(w);
    worker_pause_due(w);
}

enum sender { ANYONE, CENTRAL }; /* ANYONE: the handler checks whether it knows the peer */

static const struct {
    void (*handle)(struct worker *w, const struct msg *in);
    enum sender from;
} handlers[MSG_TYPE_COUNT] = {
    [MSG_TIMER] = {worker_on_timer, ANYONE},
    [MSG_PEER_UP] = {worker_on_peer_up, ANYONE},
    [MSG_PEER_LOST] = {worker_on_peer_lost, ANYONE},
    [MSG_STOP] = {worker_on_stop, ANYONE},
    [MSG_EXEC_STARTED] = {worker_on_exec_started, ANYONE},
    [MSG_EXEC_EXITED] = {worker_on_exec_exited, ANYONE},
    [MSG_EXEC_PAUSED] = {worker_on_exec_paused, ANYONE},
    [MSG_EXEC_HELD] = {worker_on_exec_held, ANYONE},
    [MSG_EXEC_USED] = {worker_on_exec_used, ANYONE},
    [MSG_EXEC_LEASE] = {worker_on_exec_lease, ANYONE},
    [MSG_EXEC_CHECKED] = {worker_on_exec_checked, ANYONE},
    [MSG_OUT_OF_SERVICE] = {worker_on_out_of_service, CENTRAL},
    [MSG_EXEC_APP] = {worker_on_exec_app, ANYONE},
    [MSG_JOINED] = {worker_on_joined, CENTRAL},
    [MSG_REFUSED] = {worker_on_refused, CENTRAL},
    [MSG_HEARTBEAT_ACK] = {worker_on_heartbeat_ack, CENTRAL},
    [MSG_POLICY] = {worker_on_policy, CENTRAL},
    [MSG_PARTITION] = {worker_on_partition, CENTRAL},
    [MSG_MEMBERS] = {worker_on_members, CENTRAL},
    [MSG_LONG_WORK] = {worker_on_long_work, CENTRAL},
    [MSG_TASK_ENQUEUE] = {worker_on_task_enqueue, CENTRAL},
    [MSG_TASK_RECALL] = {worker_on_task_recall, CENTRAL},
    [MSG_STEAL_HINT] = {worker_on_steal_hint, CENTRAL},
    [MSG_DRAIN] = {worker_on_drain, CENTRAL},
    [MSG_QUIT] = {worker_on_quit, CENTRAL},
    [MSG_TASK_CANCEL] = {worker_on_task_cancel, ANYONE},
    [MSG_START_BLAMED] = {worker_on_start_blamed, ANYONE},
    [MSG_FINISH_ACK] = {worker_on_finish_ack, ANYONE},
    [MSG_PROBE] = {worker_on_probe, ANYONE},
    [MSG_PROBE_CANCEL] = {worker_on_probe_cancel, ANYONE},
    [MSG_TASK_LAUNCH] = {worker_on_task_launch, ANYONE},
    [MSG_NO_TASK] = {worker_on_no_task, ANYONE},
    [MSG_STEAL_REQUEST] = {worker_on_steal_request, ANYONE},
    [MSG_LOOT_USER] = {worker_on_loot_user, ANYONE},
    [MSG_STEAL_LOOT] = {worker_on_steal_loot, ANYONE},
    [MSG_STEAL_ACK] = {worker_on_steal_ack, ANYONE},
    [MSG_BEAT] = {worker_on_beat, ANYONE},
};

/* ---- The step ---- */

static void lane_look(struct worker *w, struct lane *l)
{
    bool stuck;

    worker_lane_dispatch(w, l);
    worker_pause_settle(w, l);
    list_remove(&l->touched); /* what its own dispatch changed is seen below */
    stuck = steal_queue_stuck(&l->queue, l->n_slots, l->n_long);
    w->n_stuck += (uint32_t)stuck - (uint32_t)l->stuck;
    l->stuck = stuck;
}

/* Serves the lanes that this event touched, and looks whether they are stuck: O(touched lanes + their slots).
 * Output: one message per slot served. Every round between siblings fills a slot. */
static void lanes_settle(struct worker *w)
{
    do
        while (!list_empty(&w->touched))
            lane_look(w, container_of(w->touched.next, struct lane, touched));
    while (worker_steal_from_sibling(w));
}

void worker_step(struct worker *w, const struct event *e, struct out *out)
{
    uint32_t first = out->n, sent = 0;
    const struct msg *in = &e->m;

    CHECK(e->now_us >= w->now_us);
    w->now_us = e->now_us;
    if (w->stopped)
        return;
    w->out = out;
    w->freed = false;
    worker_count(w, COUNTER_messages_in, msg_is_counted(in));
    if (handlers[in->type].handle && (handlers[in->type].from != CENTRAL || from_central(in)))
        handlers[in->type].handle(w, in);
    if (!w->stopped) {
        lanes_settle(w);
        worker_thief_turn(w);
        worker_edges_step(w);
        worker_ask_long(w);
        worker_lease_step(w);
        worker_drain_step(w);
        worker_stop_step(w);
    }
    for (uint32_t i = first; i < out->n; i++)
        sent += msg_is_counted(&out->v[i]);
    worker_count(w, COUNTER_messages_out, sent);
    w->out = NULL;
}

int64_t worker_next_timeout(const struct worker *w)
{
    int64_t at = w->heartbeat_at;

    if (w->stopped)
        return TIME_NEVER;
    at = earlier(at, worker_lease_next(w));
    if (!list_empty(&w->lost_owners))
        at = earlier(at, container_of(w->lost_owners.next, struct owner, link)->orphan_at);
    at = earlier(at, worker_overrun_next(w));
    at = earlier(at, worker_beats_next(w));
    at = earlier(at, worker_service_next(w));
    at = earlier(at, w->pause_at);
    at = earlier(at, thief_next_timeout(&w->thief));
    return earlier(at, worker_edges_next(w));
}

static void step_role(void *role, const struct event *e, struct out *out) { worker_step(role, e, out); }
static int64_t next_timeout(const void *role) { return worker_next_timeout(role); }
static void check_role(const void *role) { worker_check(role); }

const struct role_functions worker_functions = {
    .step = step_role, .next_timeout = next_timeout, .check = check_role};
