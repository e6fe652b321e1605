/* Deliveries in the order of time; at the same moment those that were sent without delay first, and else in the order
 * they were sent: what follows from an event at once is over before the next event. Nearly all are pushed in the order
 * of their times, because they have no delay or one constant delay: these take rings. The others take a heap. */
#ifndef HAWK_BUS_QUEUE_H
#define HAWK_BUS_QUEUE_H

#include "msg/msg.h"

#include <stdbool.h>
#include <stdint.h>

struct delivery {
    int64_t at_us;
    uint64_t seq;
    uint32_t from : 31;  /* endpoint; 0: the shell or the bus */
    uint32_t waited : 1; /* its receiver was busy; now it is not */
    uint32_t to;         /* endpoint; 0: withdrawn */
    struct msg m;
};

/* Where a delivery should go. A ring takes only what is not due before its last one; all else goes to the heap. */
enum queue_lane { QUEUE_NOW, QUEUE_NETWORK, QUEUE_RINGS, QUEUE_HEAP = QUEUE_RINGS };

struct queue_ring {
    struct delivery *v;
    uint32_t head, n, cap; /* cap is a power of two */
};

struct queue_key {
    int64_t at_us;
    uint64_t seq;
    uint32_t slot;
};

struct queue {
    uint64_t seq;
    uint64_t n; /* deliveries that are not withdrawn */
    struct queue_ring rings[QUEUE_RINGS];
    struct queue_key *heap; /* 4-ary */
    uint32_t heap_n, heap_cap;
    struct delivery *slots; /* what the heap's keys stand for */
    uint32_t slots_n, slots_cap;
    uint32_t *free_slots;
    uint32_t free_n, free_cap;
};

/* Starts zeroed. */
void queue_free(struct queue *q); /* drops what is in it */
/* A new delivery after all others of its time; takes over m's handles. The pointer holds until the next push. */
struct delivery *queue_push(struct queue *q, enum queue_lane lane, int64_t at_us, uint32_t from, uint32_t to,
                            const struct msg *m);
/* The first delivery's time; TIME_NEVER: none. */
int64_t queue_next_time(struct queue *q);
/* Takes the first one out if it is due by t_us; its handles become the caller's. False: there is none. */
bool queue_pop_until(struct queue *q, int64_t t_us, struct delivery *d);
/* Withdraws, with their handles, all that `match` is true of. O(n). */
void queue_withdraw(struct queue *q, bool (*match)(void *arg, const struct delivery *d), void *arg);

#endif
