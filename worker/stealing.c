/* Stealing (Hawk 3.6, protocol 5): this worker as victim, as thief, and between its own queues. stealer/
 * decides what is loot, and which worker to ask. */
#include "base/mem.h"
#include "worker/internal.h"

/* ---- As victim ---- */

/* The first reservation of the group, from e on, that the thief can use: with its applications, of its user. */
static struct reservation *usable(const struct lane *l, const struct steal_entry *e,
                                  const struct msg_steal_request *m)
{
    for (; e; e = steal_queue_loot_next(&l->queue, e)) {
        uint64_t app = container_of(e, struct entry, q)->job->app;

        if (app == 0 ? !m->user || m->user == e->user : (m->apps & app_set_for(app, e->user)) != 0)
            return reservation_of(container_of((struct steal_entry *)e, struct entry, q));
    }
    return NULL;
}

static struct reservation *first_loot(const struct lane *l, const struct msg_steal_request *m)
{
    return usable(l, steal_queue_loot(&l->queue, l->n_slots, l->n_long), m);
}

static struct reservation *next_loot(const struct lane *l, const struct reservation *r,
                                     const struct msg_steal_request *m)
{
    return usable(l, steal_queue_loot_next(&l->queue, &r->e.q), m);
}

/* The first lane with something stuck. Lanes take turns because giving empties a lane. O(lanes). */
static struct lane *stuck_lane(struct worker *w, const struct msg_steal_request *m)
{
    for (uint32_t i = 0; i < w->n_lanes && w->n_stuck > 0; i++)
        if (first_loot(&w->lanes[i], m))
            return &w->lanes[i];
    return NULL;
}

static uint32_t at_most(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* The number of items that hold the first `max` reservations of the loot; a message numbers items with 16
 * bits. */
static uint16_t loot_items(const struct lane *l, uint32_t max, const struct msg_steal_request *m)
{
    uint16_t items = 0;

    for (struct reservation *r = first_loot(l, m); r && max > 0 && items < UINT16_MAX;
         r = next_loot(l, r, m)) {
        max -= at_most(r->e.q.count, max);
        items++;
    }
    return items;
}

/* Takes at most `max` of r off its queue: r itself, or a new reservation with a part of its count. */
static struct reservation *split_off(struct worker *w, struct reservation *r, uint32_t max)
{
    struct reservation *part;

    if (r->e.q.count <= max) {
        worker_entry_unqueue(w, &r->e);
        return r;
    }
    part = worker_reservation_new(r->e.job, false, max);
    part->e.lane = r->e.lane;
    part->arrived_us = r->arrived_us;
    part->stolen = r->stolen;
    r->e.q.count -= max;
    return part;
}

/* A theft takes `items` items from a queue, one after the other. */
struct theft {
    struct lane *lane;
    const struct msg_steal_request *m;
    struct reservation *next; /* has the next item */
    uint32_t max;             /* reservations that may be taken yet */
    uint16_t items;
};

static struct theft theft_begin(struct lane *l, const struct msg_steal_request *m, uint32_t max)
{
    return (struct theft){l, m, first_loot(l, m), max, loot_items(l, max, m)};
}

/* Takes the next item out of the queue. */
static struct reservation *theft_take(struct worker *w, struct theft *t)
{
    struct reservation *from = t->next, *item;

    CHECK(from); /* loot_items() counted it */
    t->next = next_loot(t->lane, from, t->m);
    item = split_off(w, from, t->max);
    t->max -= item->e.q.count;
    return item;
}

/* Says whose the next items are, where that changes. Output: at most 1 message. */
static void send_user(const struct worker *w, const struct reservation *r, uint32_t *user)
{
    struct msg_loot_user *m;

    if (r->e.q.user == *user)
        return;
    *user = r->e.q.user;
    m = &out_add(w->out, MSG_LOOT_USER, r->loot->thief.v)->loot_user;
    m->request = r->loot->request;
    m->user = *user;
}

static void send_loot(const struct worker *w, const struct reservation *r, uint16_t items)
{
    struct msg_steal_loot *m = &out_add(w->out, MSG_STEAL_LOOT, r->loot->thief.v)->steal_loot;
    int64_t waited_us = w->now_us - r->arrived_us;

    m->job = r->e.job->id;
    m->estimate_us = r->e.job->estimate_us;
    m->waited_us = waited_us < 0 ? 0 : waited_us > LIMIT_TIME_US ? LIMIT_TIME_US : waited_us;
    m->dist = r->e.job->owner->node;
    m->request = r->loot->request;
    m->count = r->e.q.count;
    m->index = r->index;
    m->items = items;
    m->app = r->e.job->app;
}

/* Moves the group into a record that the thief must acknowledge. Items that come back go to the queue's head
 * in their order, so their places are reserved now. */
static void give_loot(struct worker *w, struct lane *l, node_id_t thief, const struct msg_steal_request *m,
                      uint32_t max)
{
    struct loot *r = xcalloc(1, sizeof *r);
    struct theft t = theft_begin(l, m, max);
    int64_t place = steal_queue_reserve_head(&l->queue, t.items);
    uint32_t user = 0;

    r->thief = thief;
    r->request = m->request;
    r->given_us = w->now_us;
    list_init(&r->items);
    list_push_tail(&w->loot, &r->link);
    w->n_loot++;
    for (uint16_t i = 0; i < t.items; i++) {
        struct reservation *item = theft_take(w, &t);

        item->e.q.order = place + i;
        item->index = i;
        item->loot = r;
        list_push_tail(&r->items, &item->loot_link);
        send_user(w, item, &user);
        send_loot(w, item, t.items);
    }
}

/* Output: at most 2 messages per item, or 1 without items. All reservations here are of dists with a stream,
 * so any of them may be given. There is one record per thief: a thief that has not acknowledged its last loot
 * gets nothing. */
void worker_on_steal_request(struct worker *w, const struct msg *in)
{
    const struct msg_steal_request *m = &in->steal_request;
    node_id_t thief = {in->peer};
    uint32_t max = at_most(m->max, worker_policy(w)->steal_max);
    struct lane *l = stuck_lane(w, m);

    if (node_eq(thief, NODE_NONE) || node_eq(thief, NODE_CENTRAL))
        return;
    if (!l || max == 0 || w->n_loot >= WORKER_LOOT_RECORDS || worker_loot_find(w, thief))
        out_add(w->out, MSG_STEAL_LOOT, thief.v)->steal_loot.request = m->request;
    else
        give_loot(w, l, thief, m, max);
}

/* The thief does not take the item. Output: at most 1 message. */
static void put_back(struct worker *w, struct reservation *r)
{
    struct entry *e = &r->e;
    int err = worker_why_not(w, e->job->app, e->q.user, e->job->estimate_us);

    worker_leave_loot(w, r);
    if (err) {
        worker_entry_refuse(w, e, err);
        return;
    }
    steal_queue_put_back(&e->lane->queue, &e->q);
    worker_apps_count(w, e, true);
    worker_lane_touch(w, e->lane);
}

/* The item with that index. Acknowledgements come in order: mostly it is the first. */
static struct reservation *loot_item(const struct loot *r, uint16_t index)
{
    list_foreach(&r->items, l, next)
        if (container_of(l, struct reservation, loot_link)->index == index)
            return container_of(l, struct reservation, loot_link);
    return NULL;
}

/* Output: at most 1 message. What the thief does not accept stays here. */
void worker_on_steal_ack(struct worker *w, const struct msg *in)
{
    const struct msg_steal_ack *m = &in->steal_ack;
    struct loot *r = worker_loot_find(w, (node_id_t){in->peer});
    struct reservation *item = r && r->request == m->request ? loot_item(r, m->index) : NULL;
    struct job *j;

    if (!item || !job_eq(item->e.job->id, m->job))
        return;
    j = item->e.job;
    if (m->accepted < item->e.q.count) {
        item->e.q.count -= m->accepted;
        worker_count_reservations(w, item->e.job, -(int64_t)m->accepted);
        put_back(w, item);
        return;
    }
    worker_leave_loot(w, item);
    worker_entry_free(w, &item->e);
    worker_job_release(w, j);
}

/* Output: at most 1 message per item. */
void worker_loot_return(struct worker *w, node_id_t thief)
{
    struct loot *r;

    while ((r = worker_loot_find(w, thief))) /* the record goes with its last item */
        put_back(w, container_of(r->items.next, struct reservation, loot_link));
}

/* ---- As thief ---- */

/* Whether central has left a heartbeat without an answer for the time of three: it hangs, or the network does. */
static bool heartbeat_overdue(const struct worker *w)
{
    return w->heartbeat_awaited != 0 && w->now_us - w->heartbeat_sent_us > 3 * w->heartbeat_us;
}

static struct thief_env thief_env(struct worker *w)
{
    bool hungry = w->n_free > 0 && !refuses_work(w); /* a slot is free only if its queue is empty */

    return (struct thief_env){
        .now_us = w->now_us,
        .park_min_us = w->config.park_min_us,
        .park_max_us = w->config.park_max_us,
        .policy = worker_policy(w),
        .members = w->members,
        .rng = &w->rng,
        .self = w->node,
        .hungry = hungry,
        .long_work = w->long_work,
        .paired = w->joined && !w->serves && !heartbeat_overdue(w),
        .freed = hungry && w->freed,
    };
}

/* Output: at most 1 message. */
void worker_thief_turn(struct worker *w)
{
    struct thief_env env = thief_env(w);
    node_id_t victim = thief_step(&w->thief, &env);
    struct msg_steal_request *m;

    if (node_eq(victim, NODE_NONE))
        return;
    w->loot_user = 0;
    m = &out_add(w->out, MSG_STEAL_REQUEST, victim.v)->steal_request;
    m->request = w->thief.request;
    m->max = worker_policy(w)->steal_max;
    m->apps = w->app_set;
    m->user = w->serves;
    worker_count(w, COUNTER_steal_requests, 1);
    worker_count(w, COUNTER_steal_rounds, w->thief.asked == 1);
}

/* No output: worker_thief_turn() asks. */
void worker_on_steal_hint(struct worker *w, const struct msg *in)
{
    struct thief_env env = thief_env(w);

    thief_hint(&w->thief, &env, in->steal_hint.victim);
}

/* How many reservations of an item this thief accepts. It must take such work, have a stream to the dist, and have
 * room. If the reservations would be stuck in this worker's queue
 * again (long work may have come since it asked), it accepts none: they are as well off at the victim. */
static uint32_t acceptable(struct worker *w, const struct owner *dist, const struct msg_steal_loot *m)
{
    const struct job *j;

    if (worker_why_not(w, m->app, w->loot_user, m->estimate_us) || !dist || dist->state != OWNER_UP ||
        owner_is_central(dist))
        return 0;
    j = worker_job_find(w, dist, m->job);
    if (j && !worker_job_is_for(j, m->app))
        return 0;
    return lane_blocked(worker_lane_shortest(w)) ? 0 : worker_room_for(w, m->count);
}

/* The dist hears of the move before the victim does, and before the reservation is used here. Output: 1
 * message. */
static void take_item(struct worker *w, struct owner *dist, const struct msg *in, uint32_t n)
{
    const struct msg_steal_loot *m = &in->steal_loot;
    struct msg_res_moved *moved = &out_add(w->out, MSG_RES_MOVED, dist->node.v)->res_moved;
    struct job *j = worker_job_get(w, dist, m->job);
    struct reservation *r;

    moved->job = m->job;
    moved->from = (node_id_t){in->peer};
    moved->count = n;
    j->app = m->app;
    j->estimate_us = m->estimate_us;
    j->user = w->loot_user;
    r = worker_reservation_new(j, false, n);
    r->arrived_us = w->now_us - m->waited_us;
    r->stolen = true;
    worker_entry_push(w, worker_lane_shortest(w), &r->e);
    worker_count(w, COUNTER_reservations_stolen, n);
    worker_count(w, COUNTER_steal_successes, !w->thief.got_loot);
    w->thief.got_loot = true;
}

/* Acknowledges a stolen item: the victim gives up that many of its reservations and keeps the others. */
static void acknowledge_loot(struct worker *w, const struct msg *in, uint32_t accepted)
{
    const struct msg_steal_loot *m = &in->steal_loot;
    struct msg_steal_ack *ack = &out_add(w->out, MSG_STEAL_ACK, in->peer)->steal_ack;

    ack->job = m->job;
    ack->request = m->request;
    ack->accepted = accepted;
    ack->index = m->index;
}

/* No output. */
void worker_on_loot_user(struct worker *w, const struct msg *in)
{
    if (thief_asked(&w->thief, (node_id_t){in->peer}, in->loot_user.request))
        w->loot_user = in->loot_user.user;
}

/* Output: at most 2 messages. An answer to no question of this thief is acknowledged with 0: the victim keeps
 * it. */
void worker_on_steal_loot(struct worker *w, const struct msg *in)
{
    const struct msg_steal_loot *m = &in->steal_loot;
    enum thief_answer a = thief_answer(&w->thief, (node_id_t){in->peer}, m->request, m->index, m->items);
    struct owner *dist = worker_owner_find(w, m->dist);
    uint32_t accepted = a == ANSWER_ITEM ? acceptable(w, dist, m) : 0;

    if (m->items == 0)
        return;
    if (accepted > 0)
        take_item(w, dist, in, accepted);
    acknowledge_loot(w, in, accepted);
}

/* ---- Between queues of one worker ---- */

static struct lane *free_lane(struct worker *w)
{
    for (uint32_t i = 0; i < w->n_lanes; i++)
        if (w->lanes[i].n_free > 0)
            return &w->lanes[i];
    return NULL;
}

/* With a queue per slot, a worker may have both an idle slot and a stuck reservation: they are two nodes of
 * the paper, and need no message. The group goes to the idle slot's queue. */
bool worker_steal_from_sibling(struct worker *w)
{
    const struct msg_steal_request any = {.apps = UINT64_MAX};
    uint32_t max = worker_policy(w)->steal_max;
    struct lane *to;
    struct theft t;

    if (w->n_lanes == 1 || w->n_stuck == 0 || w->n_free == 0 || !policy_has(worker_policy(w), POLICY_STEAL))
        return false;
    t = theft_begin(stuck_lane(w, &any), &any, max);
    to = free_lane(w);
    for (uint16_t i = 0; i < t.items; i++) {
        struct reservation *item = theft_take(w, &t);

        worker_count_reservations(w, item->e.job,
                                  -(int64_t)item->e.q.count); /* worker_entry_push() counts it again */
        worker_entry_push(w, to, &item->e);
    }
    return t.items > 0;
}
