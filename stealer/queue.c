/* The FIFO queue, with two more lists through it: short reservations and long entries. So no question walks
 * over entries that do not concern it. */
#include "stealer/queue.h"

#include "base/check.h"

void steal_queue_init(struct steal_queue *q)
{
    *q = (struct steal_queue){0};
    list_init(&q->fifo);
    list_init(&q->shorts);
    list_init(&q->longs);
    q->turn = 1;
}

void steal_entry_init(struct steal_entry *e, bool is_long, bool bound, uint32_t count)
{
    *e = (struct steal_entry){.is_long = is_long, .bound = bound, .count = count};
    list_init(&e->fifo);
    list_init(&e->kind);
}

static struct steal_entry *of_fifo(struct list *l) { return container_of(l, struct steal_entry, fifo); }
static struct steal_entry *of_kind(struct list *l) { return container_of(l, struct steal_entry, kind); }

/* The list for e's kind. NULL: a bound short entry neither blocks others nor can be stolen. */
static struct list *kind_list(struct steal_queue *q, const struct steal_entry *e)
{
    return e->is_long ? &q->longs : e->bound ? NULL : &q->shorts;
}

static void count_in(struct steal_queue *q, const struct steal_entry *e)
{
    q->n++;
    q->n_long += e->is_long;
}

void steal_queue_push(struct steal_queue *q, struct steal_entry *e)
{
    struct list *kind = kind_list(q, e);

    CHECK(!steal_entry_queued(e));
    e->order = q->tail_order++;
    list_push_tail(&q->fifo, &e->fifo);
    if (kind)
        list_push_tail(kind, &e->kind);
    count_in(q, e);
}

int64_t steal_queue_reserve_head(struct steal_queue *q, uint32_t n) { return q->head_order -= n; }

void steal_queue_put_back(struct steal_queue *q, struct steal_entry *e)
{
    struct list *kind = kind_list(q, e);
    struct list *at = q->fifo.next;

    CHECK(!steal_entry_queued(e));
    CHECK(e->order >= q->head_order && e->order < q->tail_order);
    while (at != &q->fifo && of_fifo(at)->order < e->order)
        at = at->next;
    list_insert_before(at, &e->fifo);
    if (kind) {
        at = kind->next;
        while (at != kind && of_kind(at)->order < e->order)
            at = at->next;
        list_insert_before(at, &e->kind);
    }
    count_in(q, e);
}

static void next_turn(struct steal_queue *q)
{
    q->overtaken = 0;
    if (++q->turn == 0)
        q->turn = 1;
}

void steal_queue_remove(struct steal_queue *q, struct steal_entry *e)
{
    CHECK(steal_entry_queued(e));
    list_remove(&e->fifo);
    list_remove(&e->kind);
    q->n--;
    q->n_long -= e->is_long;
    if (e->is_long && q->n_long == 0)
        next_turn(q);
}

struct steal_entry *steal_queue_head(const struct steal_queue *q)
{
    return list_empty(&q->fifo) ? NULL : of_fifo(q->fifo.next);
}

/* ---- Which entry is next ---- */

/* Whether e came after the first long entry. An entry that was put back at the head (places below 0) was
 * behind long work when it was stolen. It counts as well: otherwise thieves that decline could make a long
 * entry wait for ever. */
static bool came_after_long(const struct steal_queue *q, const struct steal_entry *e)
{
    return e->order < 0 || e->order > of_kind(q->longs.next)->order;
}

struct steal_entry *steal_queue_next(const struct steal_queue *q)
{
    struct steal_entry *head = steal_queue_head(q), *first;

    if (!head || q->short_first == 0 || q->n_long == 0 || list_empty(&q->shorts))
        return head;
    first = of_kind(q->shorts.next);
    if (head != first && !head->is_long)
        return head; /* a bound entry overtakes nobody */
    if (!came_after_long(q, first) || q->overtaken < q->short_first)
        return first;
    return of_kind(q->longs.next);
}

uint16_t steal_queue_served(struct steal_queue *q, const struct steal_entry *e)
{
    if (e->is_long) {
        next_turn(q);
        return q->turn;
    }
    if (q->short_first == 0 || e->bound || q->n_long == 0 || !came_after_long(q, e))
        return 0;
    q->overtaken++;
    return q->turn;
}

void steal_queue_in_vain(struct steal_queue *q, bool is_long, uint16_t turn)
{
    if (turn != q->turn || q->n_long == 0)
        return;
    if (!is_long)
        q->overtaken = q->overtaken > 0 ? q->overtaken - 1 : 0;
    else if (q->overtaken < q->short_first)
        q->overtaken = q->short_first;
}

/* ---- Stuck reservations ---- */

/* With short_first: the next slot is the long entry's, whatever short entries come. */
static bool long_is_due(const struct steal_queue *q)
{
    const struct steal_entry *next = steal_queue_next(q);

    return next && next->is_long && q->overtaken >= q->short_first;
}

bool steal_queue_blocked(const struct steal_queue *q, uint32_t slots, uint32_t long_running)
{
    return long_running + (q->short_first ? long_is_due(q) : q->n_long) >= slots;
}

/* The entry behind which reservations are stuck: the long entry that fills the last slot. The list head of the
 * fifo if the running long tasks alone fill the slots (or these and the long entry that is due). NULL if long
 * work does not fill the slots. */
static struct list *blocked_after(const struct steal_queue *q, uint32_t slots, uint32_t long_running)
{
    struct list *l = q->longs.next;
    uint32_t missing;

    if (long_running >= slots)
        return (struct list *)&q->fifo;
    if (q->short_first)
        return steal_queue_blocked(q, slots, long_running) ? (struct list *)&q->fifo : NULL;
    missing = slots - long_running;
    if (q->n_long < missing)
        return NULL;
    while (--missing > 0)
        l = l->next;
    return &of_kind(l)->fifo;
}

bool steal_queue_stuck(const struct steal_queue *q, uint32_t slots, uint32_t long_running)
{
    struct list *after;

    if (list_empty(&q->shorts))
        return false;
    after = blocked_after(q, slots, long_running);
    if (!after || after == &q->fifo)
        return after != NULL;
    return of_kind(q->shorts.prev)->order > of_fifo(after)->order;
}

struct steal_entry *steal_queue_loot(const struct steal_queue *q, uint32_t slots, uint32_t long_running)
{
    struct list *l;

    if (!steal_queue_stuck(q, slots, long_running))
        return NULL;
    /* The queue is stuck, so a short reservation follows: the loop passes only long and bound entries. */
    for (l = blocked_after(q, slots, long_running)->next; l != &q->fifo; l = l->next)
        if (!of_fifo(l)->is_long && !of_fifo(l)->bound)
            return of_fifo(l);
    return NULL;
}

struct steal_entry *steal_queue_loot_next(const struct steal_queue *q, const struct steal_entry *e)
{
    for (struct list *l = e->fifo.next; l != &q->fifo && !of_fifo(l)->is_long; l = l->next)
        if (!of_fifo(l)->bound)
            return of_fifo(l);
    return NULL;
}

/* Aborts unless l holds `wanted` entries of one kind, in ascending order. */
static void check_kind(const struct list *l, uint32_t wanted)
{
    int64_t last = INT64_MIN;
    uint32_t n = 0;

    list_foreach(l, k, next) {
        CHECK(of_kind(k)->order > last);
        last = of_kind(k)->order;
        n++;
    }
    CHECK(n == wanted);
}

void steal_queue_check(const struct steal_queue *q)
{
    uint32_t n = 0, n_long = 0, n_short = 0;
    int64_t last = q->head_order - 1;

    list_foreach(&q->fifo, l, next) {
        const struct steal_entry *e = of_fifo(l);

        CHECK(e->order > last);
        CHECK(e->count >= 1);
        CHECK(!e->bound || e->count == 1);
        last = e->order;
        n++;
        n_long += e->is_long;
        n_short += !e->is_long && !e->bound;
    }
    CHECK(last < q->tail_order);
    CHECK(n == q->n);
    CHECK(n_long == q->n_long);
    CHECK(q->turn != 0);
    CHECK(n_long > 0 || q->overtaken == 0);
    check_kind(&q->longs, n_long);
    check_kind(&q->shorts, n_short);
}
