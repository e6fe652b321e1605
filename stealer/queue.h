/* A worker's FIFO queue as stealing sees it (Hawk 3.6, Figure 3): which reservations are stuck behind long
 * work, and which of them a thief gets. Intrusive: the owner embeds struct steal_entry in its entries.
 *
 * The paper's rule, for a node with one slot: the first consecutive group of short tasks that comes after a
 * long task, whether that long task is running or queued.
 *
 * DEVIATES: for a queue served by several slots "after a long task" reads "when the long tasks running and
 * the long entries ahead fill all slots": before that a slot is left that serves the short ones soon. With
 * one slot this is the paper's rule. A worker with one queue per slot has several of these, with one slot each: long
 * jobs then take 2.6 to 3.2 times as long on average, short ones 0.24 to 0.95 times (docs/notebook/results.md, "One
 * queue per worker, or one per slot").
 *
 * With short_first (ours, off in the paper's policies) the queue is not quite first come, first served: while a long
 * entry stands at the head, up to short_first short reservations that came after it get slots before it, in their order;
 * then the next slot is its own (the weighted fair queueing of Pigeon, SoCC 2019, with late binding: what turns out to
 * have no task does not count). Short ones then wait for long work only where that runs, or where it is its turn, and only
 * those are stuck. Bound short entries overtake nobody. */
#ifndef HAWK_STEALER_QUEUE_H
#define HAWK_STEALER_QUEUE_H

#include "base/list.h"

#include <stdint.h>

struct steal_entry {
    struct list fifo; /* in steal_queue.fifo; points to itself when in no queue */
    struct list kind; /* in steal_queue.shorts or .longs; bound short entries: in neither */
    int64_t order;    /* place in the queue: ascending from head to tail, unique in it */
    uint32_t count;   /* reservations in it, at least 1 while queued; 1 for a bound task */
    bool is_long;     /* class */
    bool bound;       /* a task of its own, not a reservation: never stolen */
};

struct steal_queue {
    struct list fifo;               /* every entry */
    struct list shorts;             /* short unbound ones: what can be stolen */
    struct list longs;              /* long ones, bound or not: what others get stuck behind */
    int64_t head_order, tail_order; /* every order handed out lies in [head_order, tail_order) */
    uint32_t n;                     /* entries */
    uint32_t n_long;                /* of them long */
    uint16_t short_first;           /* overtake the long entry at the head; the owner sets it, at any time */
    uint16_t overtaken;             /* so many have, with those that may yet be in vain */
    uint16_t turn; /* a long one has had its: another; never 0. No request is out for 65,535 of them */
};

void steal_queue_init(struct steal_queue *q);
/* An entry that is in no queue, with class, binding and count. */
void steal_entry_init(struct steal_entry *e, bool is_long, bool bound, uint32_t count);
static inline bool steal_entry_queued(const struct steal_entry *e) { return e->fifo.next != &e->fifo; }

/* Appends e at the tail. O(1). */
void steal_queue_push(struct steal_queue *q, struct steal_entry *e);
/* Reserves n consecutive places in front of everything queued now and returns the first one's order: for
 * loot that may come back. Give item i the order first + i before steal_queue_put_back. */
int64_t steal_queue_reserve_head(struct steal_queue *q, uint32_t n);
/* Inserts e, whose order was reserved, where it belongs. O(entries put back that are still ahead of it). */
void steal_queue_put_back(struct steal_queue *q, struct steal_entry *e);
void steal_queue_remove(struct steal_queue *q, struct steal_entry *e);
/* The entry at the head, or NULL. */
struct steal_entry *steal_queue_head(const struct steal_queue *q);
/* The entry that gets the next slot, or NULL: the head, unless a short one overtakes it. O(1). */
struct steal_entry *steal_queue_next(const struct steal_queue *q);
/* The next one, e, gets a slot (for one of its count, if it is a reservation); to be called while it is queued. Returns
 * the turn, for steal_queue_in_vain. */
uint16_t steal_queue_served(struct steal_queue *q, const struct steal_entry *e);
/* What was served then, of that class, started nothing: it has overtaken nobody, or it is a long one's turn again. */
void steal_queue_in_vain(struct steal_queue *q, bool is_long, uint16_t turn);

/* Whether a short reservation at the tail would be stuck: long work, running (long_running of the queue's slots) or
 * ahead, fills all slots. O(1). */
bool steal_queue_blocked(const struct steal_queue *q, uint32_t slots, uint32_t long_running);
/* Whether a short reservation is stuck: behind so many long tasks, running (long_running of the queue's
 * slots) or queued ahead, that they fill all slots. O(1) for one slot, at most O(slots) otherwise. */
bool steal_queue_stuck(const struct steal_queue *q, uint32_t slots, uint32_t long_running);
/* The loot: its first entry, NULL when nothing is stuck, and the one after e, NULL at the group's end (the
 * next long entry, or the tail). Bound short entries are passed over. Ask for the next one before removing e.
 * O(slots + long entries skipped). */
struct steal_entry *steal_queue_loot(const struct steal_queue *q, uint32_t slots, uint32_t long_running);
struct steal_entry *steal_queue_loot_next(const struct steal_queue *q, const struct steal_entry *e);
/* Aborts when lists, counts or orders disagree. O(n). */
void steal_queue_check(const struct steal_queue *q);

#endif
