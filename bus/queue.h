/* Deliveries in the order of time. At the same moment, those without delay come first, then the others in
 * the order in which they were sent. So everything that follows at once from an event is over before the
 * next event.
 *
 * Three lists share one slab of deliveries. Deliveries without delay go first in, first out. A wheel has a
 * list for each of the next QUEUE_WHEEL microseconds, which holds nearly all others. A heap holds those
 * that are due later. Every operation but the heap's is O(1), however many messages are under way. */
#ifndef HAWK_BUS_QUEUE_H
#define HAWK_BUS_QUEUE_H

#include "msg/msg.h"

#include <stdbool.h>
#include <stdint.h>

/* A power of two, and longer than the bursts of a scheduler that takes 10 us per message. */
#define QUEUE_WHEEL 65536u

struct delivery {
    int64_t at_us;
    uint32_t from : 31;  /* endpoint; 0: the shell or the bus */
    uint32_t waited : 1; /* it has waited for its busy receiver */
    uint32_t to;         /* endpoint; 0: withdrawn */
    uint32_t next;       /* the next in its list, or among the free ones; 0: it is the last one */
    struct msg m;
};

/* Places in the slab; 0 is none. */
struct queue_list {
    uint32_t first, last;
};

struct queue_key {
    int64_t at_us;
    uint64_t seq;
    uint32_t slot;
};

struct queue {
    uint64_t n;             /* deliveries that are not withdrawn */
    struct delivery *slots; /* the slab; 0 is not used */
    uint32_t slots_n, slots_cap, free;
    uint8_t first_in;  /* where queue_first found it */
    int64_t passed_us; /* nothing is due, or will be sent, before this time */
    int64_t wheel_us;  /* when the wheel's first is due; TIME_NEVER: it is empty */
    struct queue_list now;
    uint32_t wheel_n; /* lists on the wheel that are not empty */
    /* The lists by microsecond modulo QUEUE_WHEEL. All their deliveries are due in passed_us .. passed_us
     * + QUEUE_WHEEL - 1. */
    struct queue_list *wheel;
    uint64_t used[QUEUE_WHEEL / 64];         /* a bit for each list that is not empty */
    uint64_t used_words[QUEUE_WHEEL / 4096]; /* and one for each word of those */
    struct queue_key *heap;                  /* 4-ary */
    uint32_t heap_n, heap_cap;
    uint64_t seq; /* of deliveries in the heap */
};

/* Starts zeroed. */
void queue_free(struct queue *q); /* drops what is in it */
/* Adds a delivery after all others of its time, which is not before the last one that was taken out. Takes
 * over m's handles. The pointer holds until the next push. `now`: it has no delay. */
struct delivery *queue_push(struct queue *q, bool now, int64_t at_us, uint32_t from, uint32_t to,
                            const struct msg *m);
/* The first delivery, or NULL. The pointer holds until the next push. */
const struct delivery *queue_first(struct queue *q);
/* Takes out the delivery that queue_first has just returned. Its handles become the caller's. */
void queue_drop_first(struct queue *q);
/* Withdraws all deliveries for which `match` is true, with their handles. O(places in the slab). */
void queue_withdraw(struct queue *q, bool (*match)(void *arg, const struct delivery *d), void *arg);

#endif
