/* A worker's FIFO queue as stealing sees it (Hawk 3.6, Figure 3): which reservations are stuck behind long work, and
 * which of them a thief gets. Intrusive: the owner embeds struct steal_entry in its entries.
 *
 * The paper's rule, for a node with one slot: a thief gets the first consecutive group of short tasks that comes
 * after a long task. The long task may be running or queued.
 *
 * DEVIATES: for a queue with several slots, "after a long task" becomes "where the running long tasks and the long
 * entries ahead fill all slots". Otherwise a slot is left that serves the short entries soon. With one slot this is
 * the paper's rule. A worker with one queue per slot has several of these queues, with one slot each: long jobs then
 * take 2.6 to 3.2 times as long on average, short jobs 0.24 to 0.95 times (docs/notebook/results.md, "One queue per
 * worker, or one per slot").
 *
 * With short_first (ours, off in the paper's policies) the queue is not strictly first come, first served. While a
 * long entry is at the head, up to short_first short reservations that came after it get slots before it, in their
 * order. The next slot is the long entry's own. This is the weighted fair queueing of Pigeon (SoCC 2019), with late
 * binding: a reservation that gets no task does not count. Then short reservations wait for long work only if it
 * runs or is due, and only those are stuck. A bound short entry overtakes nobody.
 *
 * Users take turns (ours): among the short reservations that may be next by the rules above, the one is next whose user
 * got a slot longest ago, and of one user's the first. Who had none goes behind all others. So a user's reservation
 * lets one of each other user go first, however many they have. Between reservations of one user nothing changes. Loot
 * is taken as it came: its thief's queue takes turns again. */
#ifndef HAWK_STEALER_QUEUE_H
#define HAWK_STEALER_QUEUE_H

#include "base/list.h"
#include "base/turns.h"

#include <stdbool.h>
#include <stdint.h>

struct steal_entry {
    struct list fifo; /* in steal_queue.fifo; points to itself when in no queue */
    struct list kind; /* in steal_queue.shorts or .longs; bound short entries: in neither */
    /* Of a short reservation, while there is steal_queue.turns: `turn` is there if it is its user's first; `mine` joins
     * all of that user's, in their order. */
    struct turn turn;
    struct list mine;
    int64_t order;  /* place in the queue: unique, ascending from head to tail */
    uint32_t count; /* number of reservations, at least 1 while queued; 1 for a bound task */
    uint32_t user;  /* whose it is, for turns; 0: nobody's. Set it before the entry is queued */
    bool is_long;   /* the entry's class */
    bool bound;     /* a task that is bound to this worker, not a reservation: never stolen */
};

struct steal_queue {
    struct list fifo;    /* all entries */
    struct list shorts;  /* short reservations: a thief may get them */
    struct list longs;   /* long entries, bound or not: others get stuck behind them */
    struct turns *turns; /* users who have short reservations, by the first of them; NULL: one user */
    int64_t head_order, tail_order; /* all places handed out lie in [head_order, tail_order) */
    uint32_t n;                     /* number of entries */
    uint32_t n_long;                /* number of long entries */
    /* Short reservations that may overtake the long entry at the head; the owner may set it at any time. */
    uint16_t short_first;
    /* Short reservations that have overtaken it, including requests without an answer yet. */
    uint16_t overtaken;
    uint16_t long_turn; /* number of the long entry's turn, never 0; no request waits for 65,535 turns */
};

void steal_queue_init(struct steal_queue *q);
/* Initialises an entry that is in no queue. */
void steal_entry_init(struct steal_entry *e, bool is_long, bool bound, uint32_t count);
static inline bool steal_entry_queued(const struct steal_entry *e) { return e->fifo.next != &e->fifo; }

/* Appends e at the tail. O(users who have short reservations here). */
void steal_queue_push(struct steal_queue *q, struct steal_entry *e);
/* Reserves n consecutive places in front of all entries, for loot that may come back, and returns the first.
 * The caller gives item i the order first + i before steal_queue_put_back(). */
int64_t steal_queue_reserve_head(struct steal_queue *q, uint32_t n);
/* Inserts e at its reserved place. O(entries put back that are ahead of it). */
void steal_queue_put_back(struct steal_queue *q, struct steal_entry *e);
void steal_queue_remove(struct steal_queue *q, struct steal_entry *e);
/* The entry at the head, or NULL. */
struct steal_entry *steal_queue_head(const struct steal_queue *q);
/* The entry that gets the next slot, or NULL: the head, unless a short reservation overtakes it. O(1), and
 * O(users) while a long entry keeps some users' reservations back. */
struct steal_entry *steal_queue_next(const struct steal_queue *q);
/* The entry e of steal_queue_next() gets a slot (a reservation: one of its count). Call it while e is queued.
 * Returns the turn, for steal_queue_in_vain(). */
uint16_t steal_queue_served(struct steal_queue *q, struct steal_entry *e);
/* POLICY_JOB_TURNS: e, a short reservation that was served, goes behind all entries, unless some are long: it would be
 * stuck behind those. */
void steal_queue_go_behind(struct steal_queue *q, struct steal_entry *e);
/* An entry of that class, served in that turn, started no task: a short one did not overtake after all; for a
 * long one the turn comes back. */
void steal_queue_in_vain(struct steal_queue *q, bool is_long, uint16_t turn);

/* Whether a short reservation at the tail would be stuck: running long tasks (long_running of the queue's
 * slots) and long entries fill all slots. O(1). */
bool steal_queue_blocked(const struct steal_queue *q, uint32_t slots, uint32_t long_running);
/* Whether a short reservation is stuck: running long tasks (long_running of the queue's slots) and the long
 * entries ahead of it fill all slots. O(1) for one slot, otherwise at most O(slots). */
bool steal_queue_stuck(const struct steal_queue *q, uint32_t slots, uint32_t long_running);
/* steal_queue_loot() returns the first entry of the loot, or NULL if nothing is stuck.
 * steal_queue_loot_next() returns the entry after e, or NULL at the group's end (the next long entry, or the
 * tail). Both pass over bound short entries. Ask for the next entry before removing e. O(slots + long entries
 * passed). */
struct steal_entry *steal_queue_loot(const struct steal_queue *q, uint32_t slots, uint32_t long_running);
struct steal_entry *steal_queue_loot_next(const struct steal_queue *q, const struct steal_entry *e);
/* Aborts if lists, counts or orders disagree. O(n). */
void steal_queue_check(const struct steal_queue *q);

#endif
