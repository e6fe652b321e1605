/* The worker's invariants: every count against what it counts, every link in both directions. */
#include "worker/internal.h"

struct tally {
    uint64_t reservations;
    uint32_t jobs, owners, tasks, queued, unacked, of_central, placed;
};

static void check_slot(const struct worker *w, const struct slot *s)
{
    CHECK(s->state <= SLOT_UNUSED);
    CHECK((s->state == SLOT_REQUESTED || s->state == SLOT_AHEAD) == (s->job != NULL));
    CHECK((s->state == SLOT_BUSY || s->state == SLOT_GIVEN || s->state == SLOT_PAUSED) == (s->task != NULL));
    CHECK(s->state != SLOT_BUSY || list_empty(&s->link));
    CHECK(!s->is_long || s->state == SLOT_REQUESTED || s->state == SLOT_BUSY);
    CHECK(s->state != SLOT_PAUSED || s->task->state == T_RUNNING);
    CHECK((s->state == SLOT_GIVEN) == (s->task && s->task->state == T_GIVEN));
    CHECK(!s->freezing || s->state == SLOT_BUSY);
    CHECK(!s->task || s->task->slot == s);
    CHECK(s->lane >= w->lanes && s->lane < w->lanes + w->n_lanes);
}

static void check_lane(const struct worker *w, const struct lane *l)
{
    uint32_t active = 0, paused = 0, n_free = 0, n_long = 0, listed = 0, overtaking = 0;
    uint32_t ahead = 0, given = 0, freezing = 0;

    for (uint32_t i = 0; i < w->n_slots; i++) {
        const struct slot *s = slot_at(w, i);

        if (s->lane != l)
            continue;
        active += s->state <= SLOT_BUSY;
        paused += s->state == SLOT_PAUSED;
        n_free += s->state == SLOT_FREE;
        n_long += s->is_long;
        overtaking += s->job && !s->is_long && s->long_turn == l->queue.long_turn;
        ahead += s->state == SLOT_AHEAD;
        given += s->state == SLOT_GIVEN;
        freezing += s->freezing;
    }
    list_foreach(&l->free, k, next) {
        CHECK(container_of(k, struct slot, link)->state == SLOT_FREE);
        listed++;
    }
    CHECK(active == l->n_active);
    CHECK(paused == l->n_paused);
    CHECK(active >= l->n_slots);
    CHECK(active == l->n_slots || n_free == 0); /* overcommitted: it takes nothing new */
    CHECK(paused + n_free + n_long <= active);  /* no task is paused without a reason */
    CHECK(ahead == l->n_ahead);
    CHECK(given == l->n_given);
    CHECK(freezing == l->n_freezing);
    CHECK(given <= freezing); /* no task waits for a pause that does not come */
    CHECK(n_free == 0 || ahead + given == 0);
    CHECK(n_free == l->n_free);
    CHECK(n_free == listed);
    CHECK(n_long == l->n_long);
    CHECK(overtaking <= l->queue.overtaken);
    CHECK(list_empty(&l->touched));
    CHECK(n_free == 0 || l->queue.n == 0); /* everything that can be served has been served */
    CHECK(l->stuck == steal_queue_stuck(&l->queue, l->n_slots, l->n_long));
    steal_queue_check(&l->queue);
    list_foreach(&l->queue.fifo, k, next) {
        const struct entry *e = container_of(k, struct entry, q.fifo);

        CHECK(e->lane == l);
        CHECK((e->task != NULL) == e->q.bound);
        CHECK(!e->task || e->task->entry == e);
        CHECK(e->task || !reservation_of((struct entry *)e)->loot);
        CHECK(e->task || e->job->owner->state == OWNER_UP);
    }
}

static void check_apps(const struct worker *w)
{
    uint32_t n[LIMIT_WORKER_APPS] = {0}, any = 0;

    for (uint32_t i = 0; i < w->n_lanes; i++) {
        list_foreach(&w->lanes[i].queue.shorts, k, next) {
            const struct entry *e = container_of(k, struct entry, q.kind);
            uint64_t app = e->job->app;
            uint32_t at = 0;

            any += app == 0;
            while (at < w->n_apps && (w->apps[at].id != app ||
                                      (w->apps[at].user_number && w->apps[at].user_number != e->q.user)))
                at++;
            CHECK(app == 0 || at < w->n_apps); /* everything that is queued here is served here */
            if (app)
                n[at]++;
        }
    }
    CHECK(any == w->n_queued_any);
    for (uint32_t i = 0; i < w->n_apps; i++)
        CHECK(n[i] == w->apps[i].n_queued);
}

static void check_lanes(const struct worker *w)
{
    uint32_t n_free = 0, n_requested = 0, n_long = 0, n_stuck = 0, n_given = 0;

    for (uint32_t i = 0; i < w->n_slots; i++) {
        check_slot(w, slot_at(w, i));
        n_free += slot_at(w, i)->state == SLOT_FREE;
        n_requested += slot_at(w, i)->state == SLOT_REQUESTED;
        n_long += slot_at(w, i)->is_long;
    }
    for (uint32_t i = 0; i < w->n_lanes; i++) {
        check_lane(w, &w->lanes[i]);
        n_stuck += w->lanes[i].stuck;
        n_given += w->lanes[i].n_given;
    }
    CHECK(n_free == w->n_free);
    CHECK(n_requested == w->n_requested);
    CHECK(n_long == w->n_long);
    CHECK(n_stuck == w->n_stuck);
    CHECK(n_given == w->n_given);
    CHECK(list_empty(&w->touched));
}

static void check_task(const struct worker *w, const struct job *j, const struct task *t, struct tally *n)
{
    bool has_slot = t->state == T_GIVEN || t->state == T_STARTING || t->state == T_RUNNING;

    CHECK(t->job == j);
    CHECK(t->state != T_NEW);
    CHECK((t->state == T_QUEUED) == (t->entry != NULL));
    CHECK(has_slot == (t->slot != NULL));
    CHECK(!t->entry || steal_entry_queued(&t->entry->q));
    CHECK(t->state == T_RUNNING || list_empty(&t->promo_link));
    CHECK(worker_task_find(w, j->owner, &t->id) == t);
    n->tasks++;
    n->queued += t->state == T_QUEUED;
    n->unacked += t->state == T_DONE;
    n->placed += owner_is_central(j->owner);
    n->of_central += owner_is_central(j->owner) && t->state != T_DONE;
}

static void check_job(const struct worker *w, const struct owner *o, const struct job *j, struct tally *n)
{
    uint32_t requests = 0;

    CHECK(j->owner == o);
    CHECK(worker_job_find(w, o, j->id) == j);
    CHECK(j->n_requests > 0 || !list_empty(&j->reservations) || !list_empty(&j->tasks));
    list_foreach(&j->reservations, k, next) {
        const struct reservation *r = container_of(k, struct reservation, job_link);

        CHECK(r->e.job == j);
        CHECK(!r->e.task);
        CHECK(r->e.q.count >= 1);
        CHECK(steal_entry_queued(&r->e.q) == (r->loot == NULL));
        n->reservations += r->e.q.count;
    }
    list_foreach(&j->tasks, k, next)
        check_task(w, j, container_of(k, struct task, link), n);
    list_foreach(&o->requests, k, next)
        requests += container_of(k, struct slot, link)->job == j;
    CHECK(requests == j->n_requests);
    n->jobs++;
}

static void check_owners(const struct worker *w, const struct list *in, enum owner_state state,
                         struct tally *n)
{
    int64_t last = INT64_MIN;

    list_foreach(in, l, next) {
        const struct owner *o = container_of(l, struct owner, link);
        uint32_t unacked = n->unacked;
        uint64_t reservations = n->reservations;

        CHECK(o->state == state);
        CHECK(worker_owner_find(w, o->node) == o);
        CHECK(state == OWNER_UP || list_empty(&o->requests));
        CHECK(state != OWNER_AWAY || !list_empty(&o->jobs));
        if (state == OWNER_LOST) {
            CHECK(!owner_is_central(o));
            CHECK(o->orphan_at >= last);
            last = o->orphan_at;
        }
        list_foreach(&o->requests, k, knext)
            CHECK(container_of(k, struct slot, link)->job != NULL);
        list_foreach(&o->jobs, k, knext)
            check_job(w, o, container_of(k, struct job, link), n);
        CHECK(n->unacked - unacked == o->n_unacked);
        CHECK(n->reservations - reservations == o->n_reservations);
        n->owners++;
    }
}

static void check_loot(const struct worker *w)
{
    uint32_t n = 0;

    list_foreach(&w->loot, l, next) {
        const struct loot *r = container_of(l, struct loot, link);
        int last = -1;

        CHECK(worker_loot_find(w, r->thief) == r);
        CHECK(!list_empty(&r->items));
        list_foreach(&r->items, k, knext) {
            const struct reservation *item = container_of(k, struct reservation, loot_link);

            CHECK(item->loot == r);
            CHECK((int)item->index > last);
            last = item->index;
        }
        n++;
    }
    CHECK(n == w->n_loot);
    CHECK(n <= WORKER_LOOT_RECORDS);
}

static void check_promotable(const struct worker *w)
{
    int64_t last = INT64_MIN;

    list_foreach(&w->promotable, l, next) {
        const struct task *t = container_of(l, struct task, promo_link);

        CHECK(t->state == T_RUNNING);
        CHECK(t->promotable);
        CHECK(!t->overrun);
        CHECK(t->started_us >= last);
        last = t->started_us;
    }
}

void worker_check(const struct worker *w)
{
    const struct owner *central = worker_owner_find(w, NODE_CENTRAL);
    struct tally n = {0};

    check_lanes(w);
    check_apps(w);
    check_owners(w, &w->up_owners, OWNER_UP, &n);
    check_owners(w, &w->lost_owners, OWNER_LOST, &n);
    check_owners(w, &w->away_owners, OWNER_AWAY, &n);
    check_loot(w);
    check_promotable(w);
    thief_check(&w->thief);
    CHECK(n.owners == w->owners.n);
    CHECK(n.jobs == w->jobs.n);
    CHECK(n.tasks == w->tasks.n);
    CHECK(n.tasks == w->n_tasks);
    CHECK(n.queued == w->n_queued_tasks);
    CHECK(n.unacked == w->n_unacked);
    CHECK(n.of_central == w->n_central_tasks);
    CHECK(n.reservations == w->n_reservations);
    CHECK(n.placed == w->n_placed);
    CHECK(w->n_reservations + w->n_tasks - w->n_placed <= (uint64_t)w->config.queue_limit + w->n_slots);
    CHECK(!w->joined || w->central_stream);
    CHECK((central && central->state == OWNER_UP) == w->joined);
    /* Every step ends with a question asked, or with none to ask. */
    CHECK(w->thief.state != THIEF_ROUND || w->stopped);
    CHECK(!refuses_work(w) || w->stopped || w->n_queued_tasks == 0);
    worker_service_check(w);
    CHECK(!w->drained || !w->joined || w->stopped || w->told_empty == worker_quiet(w));
}
