/* The worker's objects: all are made, moved between states, counted and freed here. */
#include "base/hash.h"
#include "base/mem.h"
#include "worker/internal.h"

#include <stdlib.h>

void worker_count(struct worker *w, enum counter c, uint64_t n)
{
    if (n == 0)
        return;
    w->counters[c] += n;
    w->counters_changed |= 1u << c;
}
_Static_assert(COUNTER_COUNT <= 32, "counters_changed has one bit per counter");

/* ---- Owners ---- */

struct owner *worker_owner_find(const struct worker *w, node_id_t node)
{
    struct table_node *n = worker_table_find(&w->owners, hash_pair(node.v, 0));

    while (n && !node_eq(container_of(n, struct owner, hash)->node, node))
        n = worker_table_find_next(n);
    return n ? container_of(n, struct owner, hash) : NULL;
}

struct owner *worker_owner_get(struct worker *w, node_id_t node)
{
    struct owner *o = worker_owner_find(w, node);

    if (o)
        return o;
    o = xcalloc(1, sizeof *o);
    o->node = node;
    o->state = OWNER_AWAY;
    list_init(&o->jobs);
    list_init(&o->requests);
    list_push_tail(&w->away_owners, &o->link);
    worker_table_insert(&w->owners, &o->hash, hash_pair(node.v, 0));
    return o;
}

/* A dist or central may become UP or AWAY from any state; LOST only from UP, and never central. */
void worker_owner_set_state(struct worker *w, struct owner *o, enum owner_state s)
{
    struct list *lists[] = {&w->up_owners, &w->lost_owners, &w->away_owners};

    CHECK(s != OWNER_LOST || (o->state == OWNER_UP && !owner_is_central(o)));
    CHECK(s == OWNER_UP || list_empty(&o->requests));
    o->state = (uint8_t)s;
    list_remove(&o->link);
    list_push_tail(lists[s], &o->link);
}

void worker_owner_release(struct worker *w, struct owner *o)
{
    if (o->state != OWNER_AWAY || !list_empty(&o->jobs))
        return;
    list_remove(&o->link);
    worker_table_remove(&w->owners, &o->hash);
    free(o);
}

/* ---- Jobs ---- */

struct job *worker_job_find(const struct worker *w, const struct owner *o, job_id_t id)
{
    struct table_node *n = worker_table_find(&w->jobs, hash_pair(id.v, o->node.v));

    for (; n; n = worker_table_find_next(n)) {
        struct job *j = container_of(n, struct job, hash);

        if (j->owner == o && job_eq(j->id, id))
            return j;
    }
    return NULL;
}

struct job *worker_job_get(struct worker *w, struct owner *o, job_id_t id)
{
    struct job *j = worker_job_find(w, o, id);

    if (j)
        return j;
    j = xcalloc(1, sizeof *j);
    j->owner = o;
    j->id = id;
    list_init(&j->reservations);
    list_init(&j->tasks);
    list_push_tail(&o->jobs, &j->link);
    worker_table_insert(&w->jobs, &j->hash, hash_pair(id.v, o->node.v));
    return j;
}

void worker_job_release(struct worker *w, struct job *j)
{
    struct owner *o = j->owner;

    if (j->n_requests > 0 || !list_empty(&j->reservations) || !list_empty(&j->tasks))
        return;
    list_remove(&j->link);
    worker_table_remove(&w->jobs, &j->hash);
    job_desc_drop(j->desc);
    free(j);
    worker_owner_release(w, o);
}

/* ---- Lanes and entries ---- */

uint32_t worker_room_for(const struct worker *w, uint32_t n)
{
    uint64_t held = w->n_reservations + w->n_tasks - w->n_placed;
    uint64_t room = held < w->config.queue_limit ? w->config.queue_limit - held : 0;

    return n < room ? n : (uint32_t)room;
}

/* The first lane with the fewest entries and busy slots. O(lanes), so O(1) with one queue. */
struct lane *worker_lane_shortest(struct worker *w)
{
    struct lane *best = &w->lanes[0];
    uint64_t least = UINT64_MAX;

    for (uint32_t i = 0; i < w->n_lanes; i++) {
        struct lane *l = &w->lanes[i];
        uint64_t length = (uint64_t)l->queue.n + (l->n_slots - l->n_free);

        if (length < least) {
            least = length;
            best = l;
        }
    }
    return best;
}

void worker_lane_touch(struct worker *w, struct lane *l)
{
    if (list_empty(&l->touched))
        list_push_tail(&w->touched, &l->touched);
}

void worker_lanes_order(struct worker *w)
{
    for (uint32_t i = 0; i < w->n_lanes; i++) {
        struct lane *l = &w->lanes[i];

        if (l->queue.short_first == worker_policy(w)->short_first)
            continue;
        l->queue.short_first = worker_policy(w)->short_first;
        worker_lane_touch(w, l);
    }
}

struct entry *worker_entry_new(struct task *bound)
{
    struct entry *e = xcalloc(1, sizeof *e);

    steal_entry_init(&e->q, true, true, 1);
    e->job = bound->job;
    e->task = bound;
    return e;
}

struct reservation *worker_reservation_new(struct job *j, bool is_long, uint32_t n)
{
    struct reservation *r = xcalloc(1, sizeof *r);

    steal_entry_init(&r->e.q, is_long, false, n);
    r->e.q.user = j->user;
    r->e.job = j;
    list_init(&r->loot_link);
    list_push_tail(&j->reservations, &r->job_link);
    return r;
}

void worker_count_reservations(struct worker *w, const struct job *j, int64_t n)
{
    w->n_reservations += (uint64_t)n;
    j->owner->n_reservations += (uint64_t)n;
}

void worker_entry_push(struct worker *w, struct lane *l, struct entry *e)
{
    e->lane = l;
    if (!e->task)
        worker_count_reservations(w, e->job, e->q.count);
    steal_queue_push(&l->queue, &e->q);
    worker_apps_count(w, e, true);
    worker_lane_touch(w, l);
}

void worker_entry_unqueue(struct worker *w, struct entry *e)
{
    steal_queue_remove(&e->lane->queue, &e->q);
    worker_apps_count(w, e, false);
    worker_lane_touch(w, e->lane);
}

void worker_entry_free(struct worker *w, struct entry *e)
{
    struct reservation *r;

    CHECK(!steal_entry_queued(&e->q));
    if (e->task) {
        free(e);
        return;
    }
    r = reservation_of(e);
    CHECK(!r->loot);
    list_remove(&r->job_link);
    worker_count_reservations(w, e->job, -(int64_t)e->q.count);
    free(r);
}

uint32_t worker_job_drop_reservations(struct worker *w, struct job *j)
{
    uint32_t dropped = 0;

    list_foreach(&j->reservations, l, next) {
        struct reservation *r = container_of(l, struct reservation, job_link);

        if (steal_entry_queued(&r->e.q))
            worker_entry_unqueue(w, &r->e);
        if (r->loot)
            worker_leave_loot(w, r);
        dropped += r->e.q.count;
        worker_entry_free(w, &r->e);
    }
    worker_job_release(w, j);
    return dropped;
}

/* ---- Slots ---- */

void worker_slot_mark_long(struct worker *w, struct slot *s, bool is_long)
{
    if (s->is_long == is_long)
        return;
    s->is_long = is_long;
    s->lane->n_long += is_long ? 1u : -1u;
    w->n_long += is_long ? 1u : -1u;
    worker_lane_touch(w, s->lane);
}

static bool in_use(enum slot_state s) { return s <= SLOT_BUSY; }

/* Counts a slot of that state (by: 1 or -1) as free, requested, in use, paused, ahead, or given. */
static void slot_tally(struct worker *w, const struct slot *s, uint16_t by)
{
    struct lane *l = s->lane;
    uint16_t used = in_use(s->state) ? by : 0, is_free = s->state == SLOT_FREE ? by : 0;
    uint16_t paused = s->state == SLOT_PAUSED ? by : 0;

    l->n_active = (uint16_t)(l->n_active + used);
    w->n_active = (uint16_t)(w->n_active + used);
    l->n_free = (uint16_t)(l->n_free + is_free);
    w->n_free = (uint16_t)(w->n_free + is_free);
    l->n_paused = (uint16_t)(l->n_paused + paused);
    w->n_paused = (uint16_t)(w->n_paused + paused);
    l->n_ahead = (uint16_t)(l->n_ahead + (s->state == SLOT_AHEAD ? by : 0));
    l->n_given = (uint16_t)(l->n_given + (s->state == SLOT_GIVEN ? by : 0));
    w->n_given = (uint16_t)(w->n_given + (s->state == SLOT_GIVEN ? by : 0));
    w->n_requested = (uint16_t)(w->n_requested + (s->state == SLOT_REQUESTED ? by : 0));
}

/* Every change of a slot's state happens here. */
static void slot_set_state(struct worker *w, struct slot *s, enum slot_state to, struct list *in)
{
    static const uint8_t moves[] = {
        [SLOT_FREE] = 1u << SLOT_REQUESTED | 1u << SLOT_BUSY | 1u << SLOT_UNUSED,
        [SLOT_REQUESTED] = 1u << SLOT_FREE | 1u << SLOT_BUSY | 1u << SLOT_UNUSED,
        [SLOT_BUSY] = 1u << SLOT_FREE | 1u << SLOT_PAUSED | 1u << SLOT_UNUSED,
        [SLOT_AHEAD] = 1u << SLOT_REQUESTED | 1u << SLOT_GIVEN | 1u << SLOT_UNUSED,
        [SLOT_GIVEN] = 1u << SLOT_BUSY | 1u << SLOT_UNUSED,
        [SLOT_PAUSED] = 1u << SLOT_BUSY | 1u << SLOT_UNUSED,
        [SLOT_UNUSED] = 1u << SLOT_AHEAD | 1u << SLOT_BUSY, /* busy: an earlier process had a task there */
    };

    CHECK(moves[s->state] & 1u << to);
    list_remove(&s->link);
    slot_tally(w, s, (uint16_t)-1);
    s->state = (uint8_t)to;
    slot_tally(w, s, 1);
    if (to == SLOT_FREE)
        w->freed = true;
    if (to != SLOT_REQUESTED && to != SLOT_BUSY && to != SLOT_AHEAD)
        worker_lane_touch(w, s->lane);
    if (in)
        list_push_tail(in, &s->link);
}

/* Ends a request: it was answered, or its owner is gone. */
static void end_request(struct slot *s)
{
    s->job->n_requests--;
    s->job = NULL;
    s->request = 0;
    s->long_turn = 0;
    s->stolen = false;
}

void worker_slot_request(struct worker *w, struct slot *s, struct entry *e)
{
    const struct reservation *r = reservation_of(e);
    struct job *j = e->job;

    slot_set_state(w, s, s->state == SLOT_FREE ? SLOT_REQUESTED : SLOT_AHEAD, &j->owner->requests);
    s->job = j;
    s->request = ++j->owner->last_request;
    s->arrived_us = r->arrived_us;
    s->stolen = r->stolen;
    s->long_turn = steal_queue_served(&s->lane->queue, &e->q);
    j->n_requests++;
    worker_slot_mark_long(w, s, e->q.is_long);
}

/* If more slots are in use than there are, one that is free goes out of use. */
static void give_up_free(struct worker *w, struct lane *l)
{
    if (l->n_active > l->n_slots && l->n_free > 0)
        slot_set_state(w, container_of(l->free.next, struct slot, link), SLOT_UNUSED, &l->unused);
}

void worker_slot_use(struct worker *w, struct slot *s)
{
    slot_set_state(w, s, SLOT_REQUESTED, &s->job->owner->requests);
    give_up_free(w, s->lane);
}

void worker_slot_give(struct worker *w, struct slot *s, struct task *t)
{
    end_request(s);
    slot_set_state(w, s, SLOT_GIVEN, &s->lane->given);
    s->task = t;
    t->slot = s;
}

void worker_slot_run(struct worker *w, struct slot *s, struct task *t, bool is_long)
{
    if (s->state == SLOT_REQUESTED)
        end_request(s);
    slot_set_state(w, s, SLOT_BUSY, NULL);
    /* s may have been ahead, or spare and with an earlier process's task: it was not in use. */
    give_up_free(w, s->lane);
    s->task = t;
    t->slot = s;
    worker_slot_mark_long(w, s, is_long);
}

void worker_slot_free(struct worker *w, struct slot *s)
{
    struct job *j = s->job;
    bool used = in_use(s->state);

    if (j) {
        steal_queue_in_vain(&s->lane->queue, s->is_long, s->long_turn);
        end_request(s);
    }
    if (s->task)
        s->task->slot = NULL;
    s->task = NULL;
    worker_slot_mark_long(w, s, false);
    worker_slot_freeze(w, s, false);
    if (!used || s->lane->n_active > s->lane->n_slots)
        slot_set_state(w, s, SLOT_UNUSED, &s->lane->unused);
    else
        slot_set_state(w, s, SLOT_FREE, &s->lane->free);
    if (j)
        worker_job_release(w, j);
}

void worker_slot_freeze(struct worker *w, struct slot *s, bool freezing)
{
    if (s->freezing == freezing)
        return;
    s->freezing = freezing;
    if (freezing)
        s->lane->n_freezing++;
    else
        s->lane->n_freezing--;
    worker_lane_touch(w, s->lane);
}

void worker_slot_pause(struct worker *w, struct slot *s)
{
    worker_slot_mark_long(w, s, false);
    worker_slot_freeze(w, s, false);
    slot_set_state(w, s, SLOT_PAUSED, &s->lane->paused);
}

void worker_slot_resume(struct worker *w, struct slot *s)
{
    struct lane *l = s->lane;

    if (l->n_free > 0)
        slot_set_state(w, container_of(l->free.next, struct slot, link), SLOT_UNUSED, &l->unused);
    slot_set_state(w, s, SLOT_BUSY, NULL);
    worker_slot_mark_long(w, s, true);
}

/* ---- Tasks ---- */

static uint64_t try_key(const struct try_id *id)
{
    return hash_pair(id->job.v, (uint64_t)id->task << 32 | (uint32_t)id->epoch << 16 | id->attempt);
}

struct task *worker_task_find(const struct worker *w, const struct owner *o, const struct try_id *id)
{
    struct table_node *n = worker_table_find(&w->tasks, try_key(id));

    for (; n; n = worker_table_find_next(n)) {
        struct task *t = container_of(n, struct task, hash);

        if (t->job->owner == o && try_eq(&t->id, id))
            return t;
    }
    return NULL;
}

struct task *worker_task_new(struct worker *w, struct job *j, const struct try_id *id)
{
    struct task *t = xcalloc(1, sizeof *t);

    t->job = j;
    t->id = *id;
    t->state = T_NEW;
    list_init(&t->promo_link);
    list_push_tail(&j->tasks, &t->link);
    worker_table_insert(&w->tasks, &t->hash, try_key(id));
    w->n_tasks++;
    w->n_placed += owner_is_central(j->owner);
    return t;
}

/* Adds t to the counts of its state (by: 1), or subtracts it (-1). */
static void task_tally(struct worker *w, struct task *t, int by)
{
    if (t->state == T_NEW)
        return;
    if (t->state == T_QUEUED)
        w->n_queued_tasks += by;
    if (t->state == T_DONE) {
        uint64_t bytes = t->result ? (uint64_t)((int64_t)t->result->len * by) : 0;

        w->n_unacked += by;
        t->job->owner->n_unacked += by;
        worker_beats_await(w, t->job->owner);
        w->unacked_bytes += bytes;
        t->job->owner->unacked_bytes += bytes;
    } else if (owner_is_central(t->job->owner)) {
        w->n_central_tasks += by;
    }
}

/* Moves: new -> queued or given -> starting -> running -> done. All but the first and the last may be left
 * out. */
void worker_task_set_state(struct worker *w, struct task *t, enum worker_task_state s)
{
    CHECK(s > t->state);
    CHECK(s != T_RUNNING || t->state == T_STARTING);
    CHECK((s >= T_GIVEN && s <= T_RUNNING) == (t->slot != NULL));
    CHECK((s == T_QUEUED) == (t->entry != NULL));
    task_tally(w, t, -1);
    t->state = (uint8_t)s;
    task_tally(w, t, 1);
    list_remove(&t->promo_link);
    if (s == T_RUNNING && t->promotable)
        list_push_tail(&w->promotable, &t->promo_link);
}

void worker_task_free(struct worker *w, struct task *t)
{
    struct job *j = t->job;

    CHECK(!t->entry);
    CHECK(!t->slot);
    task_tally(w, t, -1);
    list_remove(&t->promo_link);
    list_remove(&t->link);
    worker_table_remove(&w->tasks, &t->hash);
    w->n_tasks--;
    w->n_placed -= owner_is_central(j->owner);
    blob_drop(t->arg);
    blob_drop(t->proof);
    blob_drop(t->result);
    free(t);
    worker_job_release(w, j);
}

/* ---- Loot ---- */

struct loot *worker_loot_find(const struct worker *w, node_id_t thief)
{
    list_foreach(&w->loot, l, next) {
        struct loot *r = container_of(l, struct loot, link);

        if (node_eq(r->thief, thief))
            return r;
    }
    return NULL;
}

void worker_leave_loot(struct worker *w, struct reservation *r)
{
    struct loot *l = r->loot;

    list_remove(&r->loot_link);
    r->loot = NULL;
    if (!list_empty(&l->items))
        return;
    list_remove(&l->link);
    w->n_loot--;
    free(l);
}

/* ---- Freeing ---- */

static void owner_free_all(struct worker *w, struct owner *o)
{
    /* Keeps the owner until its last job is gone, which frees it. */
    worker_owner_set_state(w, o, OWNER_UP);
    while (!list_empty(&o->requests))
        worker_slot_free(w, container_of(o->requests.next, struct slot, link));
    list_foreach(&o->jobs, l, next) {
        struct job *j = container_of(l, struct job, link);

        j->n_requests++; /* keeps the job while its parts go */
        list_foreach(&j->tasks, k, knext) {
            struct task *t = container_of(k, struct task, link);

            if (t->entry) {
                worker_entry_unqueue(w, t->entry);
                worker_entry_free(w, t->entry);
                t->entry = NULL;
            }
            if (t->slot)
                worker_slot_free(w, t->slot);
            worker_task_free(w, t);
        }
        j->n_requests--;
        worker_job_drop_reservations(w, j);
    }
    worker_owner_set_state(w, o, OWNER_AWAY);
    worker_owner_release(w, o);
}

void worker_objects_free(struct worker *w)
{
    struct list *lists[] = {&w->up_owners, &w->lost_owners, &w->away_owners};

    for (int i = 0; i < 3; i++)
        while (!list_empty(lists[i]))
            owner_free_all(w, container_of(lists[i]->next, struct owner, link));
    worker_table_free(&w->owners);
    worker_table_free(&w->jobs);
    worker_table_free(&w->tasks);
}
