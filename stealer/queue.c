/* The FIFO queue, with two more lists through it: short reservations and long entries. So no question walks
 * over entries that do not concern it. Only while several users have short reservations, these are in one more list for
 * each user. */
#include "stealer/queue.h"

#include "base/check.h"
#include "base/mem.h"

#include <stdlib.h>

void steal_queue_init(struct steal_queue *q)
{
    *q = (struct steal_queue){0};
    list_init(&q->fifo);
    list_init(&q->shorts);
    list_init(&q->longs);
    q->long_turn = 1;
}

void steal_entry_init(struct steal_entry *e, bool is_long, bool bound, uint32_t count)
{
    *e = (struct steal_entry){.is_long = is_long, .bound = bound, .count = count};
    list_init(&e->fifo);
    list_init(&e->kind);
}

static struct steal_entry *of_fifo(struct list *l) { return container_of(l, struct steal_entry, fifo); }
static struct steal_entry *of_kind(struct list *l) { return container_of(l, struct steal_entry, kind); }

static struct steal_entry *of_turn(struct list *l) { return container_of(l, struct steal_entry, turn.link); }
static struct steal_entry *of_mine(struct list *l) { return container_of(l, struct steal_entry, mine); }

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

/* ---- Turns of users ---- */

static struct steal_entry *first_of(const struct steal_queue *q, uint32_t user)
{
    list_foreach(&q->turns->ring, l, next)
        if (of_turn(l)->user == user)
            return of_turn(l);
    return NULL;
}

/* Puts e among its user's reservations. O(users), and those put back that are ahead of it. */
static void add_mine(struct steal_queue *q, struct steal_entry *e)
{
    struct steal_entry *first = first_of(q, e->user);
    struct list *at;

    list_init(&e->turn.link);
    list_init(&e->mine);
    if (!first) {
        turns_join(q->turns, &e->turn);
        return;
    }
    at = &first->mine; /* in front of the first is behind the last */
    if (of_mine(at->prev)->order > e->order)
        while (of_mine(at)->order < e->order)
            at = at->next;
    list_insert_before(at, &e->mine);
    if (e->order < first->order)
        turns_hand(&first->turn, &e->turn);
}

static void remove_mine(struct steal_queue *q, struct steal_entry *e)
{
    if (!list_empty(&e->turn.link) && !list_empty(&e->mine))
        turns_hand(&e->turn, &of_mine(e->mine.next)->turn);
    else if (!list_empty(&e->turn.link))
        turns_leave(q->turns, &e->turn);
    list_remove(&e->mine);
    if (q->turns->n > 0)
        return;
    free(q->turns);
    q->turns = NULL;
}

static bool takes_turns(const struct steal_entry *e) { return !e->is_long && !e->bound; }

/* A second user's reservation comes: O(short reservations), once until there are none. */
static void mix(struct steal_queue *q)
{
    q->turns = xmalloc(sizeof *q->turns);
    turns_init(q->turns);
    list_foreach(&q->shorts, l, next)
        add_mine(q, of_kind(l));
}

/* e, a short reservation, is about to be queued. */
static void look_whose(struct steal_queue *q, const struct steal_entry *e)
{
    if (!q->turns && !list_empty(&q->shorts) && of_kind(q->shorts.next)->user != e->user)
        mix(q);
}

/* ---- Coming and going ---- */

void steal_queue_push(struct steal_queue *q, struct steal_entry *e)
{
    struct list *kind = kind_list(q, e);

    CHECK(!steal_entry_queued(e));
    if (takes_turns(e))
        look_whose(q, e);
    e->order = q->tail_order++;
    list_push_tail(&q->fifo, &e->fifo);
    if (kind)
        list_push_tail(kind, &e->kind);
    if (q->turns && takes_turns(e))
        add_mine(q, e);
    count_in(q, e);
}

int64_t steal_queue_reserve_head(struct steal_queue *q, uint32_t n) { return q->head_order -= n; }

void steal_queue_put_back(struct steal_queue *q, struct steal_entry *e)
{
    struct list *kind = kind_list(q, e);
    struct list *at = q->fifo.next;

    CHECK(!steal_entry_queued(e));
    CHECK(e->order >= q->head_order && e->order < q->tail_order);
    if (takes_turns(e))
        look_whose(q, e);
    while (at != &q->fifo && of_fifo(at)->order < e->order)
        at = at->next;
    list_insert_before(at, &e->fifo);
    if (kind) {
        at = kind->next;
        while (at != kind && of_kind(at)->order < e->order)
            at = at->next;
        list_insert_before(at, &e->kind);
    }
    if (q->turns && takes_turns(e))
        add_mine(q, e);
    count_in(q, e);
}

static void next_turn(struct steal_queue *q)
{
    q->overtaken = 0;
    if (++q->long_turn == 0)
        q->long_turn = 1;
}

void steal_queue_remove(struct steal_queue *q, struct steal_entry *e)
{
    CHECK(steal_entry_queued(e));
    list_remove(&e->fifo);
    list_remove(&e->kind);
    if (q->turns && takes_turns(e))
        remove_mine(q, e);
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

/* The entry that is next if all are one user's. */
static struct steal_entry *next_of_all(const struct steal_queue *q)
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

/* The reservations before this place may be next when e, the first of all, may be. */
static int64_t eligible_before(const struct steal_queue *q, const struct steal_entry *e)
{
    if (q->n_long == 0 || (q->short_first > 0 && came_after_long(q, e)))
        return INT64_MAX;
    return of_kind(q->longs.next)->order;
}

struct steal_entry *steal_queue_next(const struct steal_queue *q)
{
    struct steal_entry *next = next_of_all(q);
    int64_t before;

    if (!q->turns || !next || !takes_turns(next))
        return next;
    before = eligible_before(q, next);
    list_foreach(&q->turns->ring, l, after)
        if (of_turn(l)->order < before)
            return of_turn(l);
    return next;
}

uint16_t steal_queue_served(struct steal_queue *q, struct steal_entry *e)
{
    if (e->is_long) {
        next_turn(q);
        return q->long_turn;
    }
    if (q->turns && !e->bound)
        turns_take(q->turns, &e->turn);
    if (q->short_first == 0 || e->bound || q->n_long == 0 || !came_after_long(q, e))
        return 0;
    q->overtaken++;
    return q->long_turn;
}

void steal_queue_go_behind(struct steal_queue *q, struct steal_entry *e)
{
    if (q->n_long > 0)
        return;
    steal_queue_remove(q, e);
    steal_queue_push(q, e);
}

void steal_queue_in_vain(struct steal_queue *q, bool is_long, uint16_t turn)
{
    if (turn != q->long_turn || q->n_long == 0)
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

/* Aborts unless the lists of users hold the `n` short reservations, and no user waits for more than one turn of each
 * other. */
static void check_turns(const struct steal_queue *q, uint32_t n)
{
    uint32_t users = 0, in_order = 0, found = 0;

    if (!q->turns) {
        list_foreach(&q->shorts, l, next)
            CHECK(of_kind(l)->user == of_kind(q->shorts.next)->user);
        return;
    }
    list_foreach(&q->turns->ring, l, next) {
        const struct steal_entry *first = of_turn(l), *e = first;

        users++;
        turns_check(q->turns, &first->turn);
        do {
            CHECK(e->user == first->user);
            CHECK(e == first || list_empty(&e->turn.link));
            found++;
            in_order += of_mine(e->mine.next)->order > e->order;
            e = of_mine(e->mine.next);
        } while (e != first);
    }
    CHECK(users > 0 && users == q->turns->n);
    CHECK(found == n);
    CHECK(in_order == n - users); /* each list's last is before its first */
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
    CHECK(q->long_turn != 0);
    CHECK(n_long > 0 || q->overtaken == 0);
    check_kind(&q->longs, n_long);
    check_kind(&q->shorts, n_short);
    check_turns(q, n_short);
}
