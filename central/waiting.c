/* The waiting-time queue. Only the times at which a worker's slots become free of long tasks matter, not
 * which slot is which. So the slots are one array with two small heaps, amounts and moments. */
#include "central/waiting.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/units.h"

#include <stdlib.h>

/* When a worker's slots are rebuilt, this many queued tasks per slot are list-scheduled one by one. The tasks
 * behind them count as equal pieces. So the cost of a rebuild does not depend on the queue's length, and
 * behind several rounds of tasks the error is less than a task. A single slot needs no list scheduling. */
#define ROUNDS 4u
/* Longer than any meaningful wait; levels stop there. */
#define LEVEL_MAX (INT64_MAX / 4)

void waiting_init(struct waiting *q) { *q = (struct waiting){0}; }

void waiting_free(struct waiting *q)
{
    CHECK(q->total == 0);
    CHECK(q->amounts.n == 0);
    CHECK(q->moments.n == 0);
    ranking_free(&q->amounts);
    ranking_free(&q->moments);
    free(q->by_number);
}

/* ---- The slots of one worker ---- */

static bool slot_before(const struct waiting_slot *a, const struct waiting_slot *b)
{
    return a->level_us != b->level_us ? a->level_us < b->level_us : a->overrun < b->overrun;
}

/* Restores the order of the heap v[0..n) below i. */
static void slot_sift_down(struct waiting_slot *v, uint32_t n, uint32_t i)
{
    struct waiting_slot moving = v[i];

    for (;;) {
        uint32_t child = 2 * i + 1;

        if (child >= n)
            break;
        if (child + 1 < n && slot_before(&v[child + 1], &v[child]))
            child++;
        if (!slot_before(&v[child], &moving))
            break;
        v[i] = v[child];
        i = child;
    }
    v[i] = moving;
}

static void slots_heapify(struct waiting_slot *v, uint32_t n)
{
    for (uint32_t i = n / 2; i-- > 0;)
        slot_sift_down(v, n, i);
}

/* The worker's slots; it must have some. */
static struct waiting_slot *slots_of(const struct waiting_worker *w)
{
    return w->n_slots == 1 ? (struct waiting_slot *)&w->one : w->many;
}

static struct waiting_slot *least_amount(const struct waiting_worker *w)
{
    return w->n_amounts ? &slots_of(w)[0] : NULL;
}

static struct waiting_slot *least_moment(const struct waiting_worker *w)
{
    return w->n_amounts < w->n_slots ? &slots_of(w)[w->n_amounts] : NULL;
}

/* Whether the amount comes before the moment, which lies in the future; tie: the result if nothing else
 * decides. */
static bool amount_first(int64_t amount_us, bool overrun, int64_t moment_us, int64_t now_us, bool tie)
{
    int64_t wait_us = moment_us - now_us;

    if (amount_us != wait_us)
        return amount_us < wait_us;
    return overrun ? false : tie;
}

static int64_t level_add(int64_t level_us, int64_t us)
{
    return level_us > LEVEL_MAX - us ? LEVEL_MAX : level_us + us;
}

/* One step of list scheduling: the slot that is free first gets another us. */
static void slots_add(struct waiting_worker *w, int64_t us, int64_t now_us)
{
    struct waiting_slot *a = least_amount(w), *m = least_moment(w);

    if (a && (!m || amount_first(a->level_us, a->overrun, m->level_us, now_us, true))) {
        a->level_us = level_add(a->level_us, us);
        slot_sift_down(a, w->n_amounts, 0);
    } else {
        CHECK(m);
        m->level_us = level_add(m->level_us, us);
        slot_sift_down(m, w->n_slots - w->n_amounts, 0);
    }
}

/* Sets the slot in which t runs. Returns whether it is a moment. */
static bool slot_set(struct waiting_slot *s, const struct waiting_task *t, int64_t now_us)
{
    bool moment = !t->stands && t->finish_us > now_us;
    int64_t left_us = t->stands ? t->left_us : 0;

    *s = (struct waiting_slot){.level_us = moment        ? t->finish_us
                                           : left_us > 0 ? left_us
                                                         : 0,
                               .overrun = !moment && left_us <= 0};
    return moment;
}

/* Sets the slots from the running tasks alone. Returns the time of running tasks beyond the slots: 0, unless
 * the worker's reports are inconsistent. */
static __int128 slots_from_running(struct waiting_worker *w, int64_t now_us)
{
    struct waiting_slot *v = slots_of(w), s;
    uint32_t amounts = 0, moments = 0;
    __int128 beyond = 0;

    w->expires_us = TIME_NEVER;
    list_foreach(&w->running, node, next) {
        struct waiting_task *t = container_of(node, struct waiting_task, link);

        if (amounts + moments == w->n_slots) {
            beyond += t->estimate_us;
        } else if (slot_set(&s, t, now_us)) {
            v[w->n_slots - ++moments] = s;
            w->expires_us = t->finish_us < w->expires_us ? t->finish_us : w->expires_us;
        } else {
            v[amounts++] = s;
        }
    }
    while (amounts + moments < w->n_slots)
        v[amounts++] = (struct waiting_slot){0};
    w->n_amounts = amounts;
    slots_heapify(v, amounts);
    slots_heapify(v + amounts, moments);
    return beyond;
}

static int64_t level_of(__int128 us) { return us > LEVEL_MAX ? LEVEL_MAX : (int64_t)us; }

static void slot_rebuild(struct waiting_worker *w, int64_t now_us)
{
    __int128 rest = w->queued_us;

    w->expires_us = TIME_NEVER;
    w->one = (struct waiting_slot){0};
    w->n_amounts = 1;
    list_foreach(&w->running, node, next) {
        struct waiting_task *t = container_of(node, struct waiting_task, link);

        if (node != w->running.next) {
            rest += t->estimate_us;
        } else if (slot_set(&w->one, t, now_us)) {
            w->n_amounts = 0;
            w->expires_us = t->finish_us;
        }
    }
    w->one.level_us = level_add(w->one.level_us, level_of(rest));
}

/* O(slots log slots). */
HAWK_RARE static void many_rebuild(struct waiting_worker *w, int64_t now_us)
{
    __int128 rest = slots_from_running(w, now_us) + w->queued_us;
    int64_t pieces = (int64_t)w->n_slots * ROUNDS, n = 0, rest_us;

    list_foreach(&w->queued, node, next) {
        struct waiting_task *t = container_of(node, struct waiting_task, link);

        if (n++ == pieces)
            break;
        slots_add(w, t->estimate_us, now_us);
        rest -= t->estimate_us;
    }
    /* The rest in equal pieces; the first pieces share the remainder. */
    rest_us = level_of(rest);
    for (n = 0; rest_us > 0 && n < pieces; n++)
        slots_add(w, rest_us / pieces + (n < rest_us % pieces), now_us);
}

/* Computes the slots anew from the tasks. */
static void slots_rebuild(struct waiting_worker *w, int64_t now_us)
{
    if (w->n_slots == 1)
        slot_rebuild(w, now_us);
    else
        many_rebuild(w, now_us);
}

/* ---- The two heaps of workers ---- */

static void place(struct ranking *r, const struct waiting_worker *w, const struct waiting_slot *least,
                  bool *in)
{
    bool to_be_in = w->eligible && least;

    if (to_be_in)
        ranking_set(r, w->number, least->level_us, least->overrun);
    else if (*in)
        ranking_remove(r, w->number);
    *in = to_be_in;
}

/* Updates w's places in the heaps from its slots. */
static void rank(struct waiting *q, struct waiting_worker *w)
{
    place(&q->amounts, w, least_amount(w), &w->in_amounts);
    place(&q->moments, w, least_moment(w), &w->in_moments);
}

static void rank_all(struct waiting *q)
{
    for (uint32_t i = 0; i < q->n_unranked; i++) {
        ranking_prefetch_place(&q->amounts, q->unranked[i]->number);
        ranking_prefetch_place(&q->moments, q->unranked[i]->number);
    }
    for (uint32_t i = 0; i < q->n_unranked; i++) {
        q->unranked[i]->unranked = false;
        rank(q, q->unranked[i]);
    }
    q->n_unranked = 0;
}

/* Puts off the update until a task must be placed. Until then much changes twice: one task ends, the next
 * starts. */
static void rank_later(struct waiting *q, struct waiting_worker *w)
{
    if (w->unranked)
        return;
    if (q->n_unranked == UNRANKED_MAX)
        rank_all(q);
    w->unranked = true;
    ranking_prefetch(&q->amounts, w->number);
    ranking_prefetch(&q->moments, w->number);
    q->unranked[q->n_unranked++] = w;
}

static void rebuild(struct waiting *q, struct waiting_worker *w, int64_t now_us)
{
    slots_rebuild(w, now_us);
    rank_later(q, w);
}

static void slots_free(struct waiting_worker *w)
{
    if (w->n_slots > 1)
        free(w->many);
    w->n_slots = w->n_amounts = 0;
}

static void slots_alloc(struct waiting_worker *w, uint32_t slots)
{
    CHECK(slots > 0);
    slots_free(w);
    w->n_slots = slots;
    if (slots > 1)
        w->many = xcalloc(slots, sizeof *w->many);
}

void waiting_worker_add(struct waiting *q, struct waiting_worker *w, uint32_t slots, uint32_t number)
{
    *w = (struct waiting_worker){.number = number};
    list_init(&w->queued);
    list_init(&w->running);
    slots_alloc(w, slots);
    ranking_reserve(&q->amounts, number + 1);
    ranking_reserve(&q->moments, number + 1);
    q->by_number = xrealloc(q->by_number, q->amounts.cap * sizeof(struct waiting_worker *));
    q->by_number[number] = w;
    slots_rebuild(w, 0);
}

void waiting_worker_remove(struct waiting *q, struct waiting_worker *w)
{
    CHECK(list_empty(&w->queued));
    CHECK(list_empty(&w->running));
    w->eligible = false;
    rank_later(q, w);
    rank_all(q);
    slots_free(w);
}

void waiting_set_eligible(struct waiting *q, struct waiting_worker *w, bool eligible, int64_t now_us)
{
    if (w->eligible == eligible)
        return;
    w->eligible = eligible;
    rebuild(q, w, now_us);
}

void waiting_set_slots(struct waiting *q, struct waiting_worker *w, uint32_t slots, int64_t now_us)
{
    slots_alloc(w, slots);
    rebuild(q, w, now_us);
}

static const struct rank *better_head(const struct waiting *q, int64_t now_us)
{
    const struct rank *a = ranking_first(&q->amounts), *m = ranking_first(&q->moments);

    if (!a || !m)
        return a ? a : m;
    return amount_first(a->us, (a->tie & RANK_LATE) != 0, m->us, now_us, a->tie < m->tie) ? a : m;
}

/* Call it whenever a task is found to overrun its estimate. */
static void overtaken(struct waiting *q, struct waiting_worker *w, int64_t now_us)
{
    slots_rebuild(w, now_us);
    rank(q, w);
}

/* Prefetches candidates for the next choice: another task of the same job will choose among these. */
static void prefetch_seconds(const struct waiting *q, const struct ranking *r)
{
    for (uint32_t i = 1; i < r->n && i <= RANK_ARITY; i++) {
        const struct waiting_worker *w = q->by_number[rank_number(&r->v[i])];

        __builtin_prefetch(w);
        __builtin_prefetch(&w->expires_us);
    }
}

struct waiting_worker *waiting_best(struct waiting *q, int64_t now_us)
{
    const struct rank *first;

    rank_all(q);
    prefetch_seconds(q, &q->amounts);
    prefetch_seconds(q, &q->moments);
    while ((first = ranking_first(&q->moments)) && first->us <= now_us)
        overtaken(q, q->by_number[rank_number(first)], now_us);
    while ((first = better_head(q, now_us))) {
        struct waiting_worker *w = q->by_number[rank_number(first)];

        if (w->expires_us > now_us)
            return w;
        overtaken(q, w, now_us);
    }
    return NULL;
}

/* ---- Tasks ---- */

void waiting_place(struct waiting *q, struct waiting_worker *w, struct waiting_task *t, int64_t estimate_us,
                   int64_t now_us)
{
    CHECK(!t->worker);
    CHECK(estimate_us >= 0);
    t->worker = w;
    t->estimate_us = estimate_us;
    t->running = t->stands = false;
    list_push_tail(&w->queued, &t->link);
    w->n_queued++;
    w->queued_us += estimate_us;
    q->total++;
    if (w->expires_us <= now_us) {
        rebuild(q, w, now_us);
    } else {
        slots_add(w, estimate_us, now_us);
        rank_later(q, w);
    }
}

static void unqueue(struct waiting_worker *w, struct waiting_task *t)
{
    list_remove(&t->link);
    w->n_queued--;
    w->queued_us -= t->estimate_us;
}

void waiting_start(struct waiting *q, struct waiting_task *t, int64_t started_us, int64_t now_us)
{
    struct waiting_worker *w = t->worker;

    CHECK(w);
    CHECK(!t->running);
    CHECK(started_us <= now_us);
    unqueue(w, t);
    t->running = true;
    t->finish_us = level_add(started_us, t->estimate_us);
    list_push_tail(&w->running, &t->link);
    w->n_running++;
    rebuild(q, w, now_us);
}

void waiting_ran(struct waiting *q, struct waiting_task *t, int64_t run_us, bool stands, int64_t now_us)
{
    int64_t left_us = t->estimate_us - run_us;

    CHECK(t->running);
    t->stands = stands;
    if (stands)
        t->left_us = left_us;
    else
        t->finish_us = level_add(now_us, left_us);
    rebuild(q, t->worker, now_us);
}

int64_t waiting_age(const struct waiting_task *t, int64_t now_us)
{
    CHECK(t->running);
    return t->estimate_us - (t->stands ? t->left_us : t->finish_us - now_us);
}

void waiting_end(struct waiting *q, struct waiting_task *t, int64_t now_us)
{
    struct waiting_worker *w = t->worker;

    CHECK(w);
    if (t->running) {
        list_remove(&t->link);
        w->n_running--;
    } else {
        unqueue(w, t);
    }
    t->worker = NULL;
    t->running = t->stands = false;
    q->total--;
    rebuild(q, w, now_us);
}

int64_t waiting_at(const struct waiting_worker *w, int64_t now_us)
{
    const struct waiting_slot *a = least_amount(w), *m = least_moment(w);
    int64_t wait_us = a ? a->level_us : INT64_MAX;

    if (w->n_slots == 1 && m && w->expires_us <= now_us)
        /* The value that a rebuild would find. */
        return w->queued_us > LEVEL_MAX ? LEVEL_MAX : (int64_t)w->queued_us;
    if (m && m->level_us - now_us < wait_us)
        wait_us = m->level_us > now_us ? m->level_us - now_us : 0;
    return wait_us;
}

/* ---- Invariants ---- */

static void check_place(const struct ranking *r, const struct waiting_worker *w,
                        const struct waiting_slot *least, bool in)
{
    CHECK(in == ranking_has(r, w->number));
    CHECK(in == (w->eligible && least));
    CHECK(!in || ranking_at(r, w->number)->us == least->level_us);
}

void waiting_worker_check(const struct waiting *q, const struct waiting_worker *w)
{
    uint32_t queued = 0, running = 0;
    __int128 queued_us = 0;

    list_foreach(&w->queued, node, next) {
        const struct waiting_task *t = container_of(node, struct waiting_task, link);

        CHECK(t->worker == w);
        CHECK(!t->running);
        queued++;
        queued_us += t->estimate_us;
    }
    list_foreach(&w->running, node, next) {
        const struct waiting_task *t = container_of(node, struct waiting_task, link);

        CHECK(t->worker == w);
        CHECK(t->running);
        running++;
    }
    CHECK(queued == w->n_queued);
    CHECK(running == w->n_running);
    CHECK(queued_us == w->queued_us);
    CHECK(w->n_amounts <= w->n_slots);
    for (uint32_t i = 0; i < w->n_slots; i++) {
        CHECK(slots_of(w)[i].level_us >= 0); /* a wait is never negative */
        CHECK(!slot_before(&slots_of(w)[i], i < w->n_amounts ? least_amount(w) : least_moment(w)));
    }
    CHECK(queued + running <= q->total);
    if (w->unranked)
        return;
    check_place(&q->amounts, w, least_amount(w), w->in_amounts);
    check_place(&q->moments, w, least_moment(w), w->in_moments);
}

void waiting_check(const struct waiting *q)
{
    CHECK(ranking_check(&q->amounts));
    CHECK(ranking_check(&q->moments));
}
