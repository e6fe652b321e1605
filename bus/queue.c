/* Deliveries in order. */
#include "bus/queue.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/units.h"

#include <stdlib.h>
#include <string.h>

#define SLAB_KEPT 4096u /* the slab keeps the memory of so many deliveries when none is queued */

enum { IN_NOW, IN_WHEEL, IN_HEAP };

/* ---- The slab and lists through it ---- */

HAWK_RARE static uint32_t slab_grow(struct queue *q)
{
    if (q->slots_n == 0)
        q->slots_n = 1;
    if (q->slots_n >= q->slots_cap) {
        q->slots_cap = q->slots_cap ? 2 * q->slots_cap : 256;
        q->slots = xrealloc(q->slots, (size_t)q->slots_cap * sizeof *q->slots);
    }
    return q->slots_n++;
}

static uint32_t slot_new(struct queue *q)
{
    uint32_t slot = q->free;

    if (!slot)
        return slab_grow(q);
    q->free = q->slots[slot].next;
    return slot;
}

static void slot_free(struct queue *q, uint32_t slot)
{
    q->slots[slot].to = 0;
    q->slots[slot].next = q->free;
    q->free = slot; /* used next, since it is in the processor's cache */
}

static void list_add(struct queue *q, struct queue_list *l, uint32_t slot)
{
    q->slots[slot].next = 0;
    if (l->first)
        q->slots[l->last].next = slot;
    else
        l->first = slot;
    l->last = slot;
}

static uint32_t list_take(struct queue *q, struct queue_list *l)
{
    uint32_t slot = l->first;

    l->first = q->slots[slot].next;
    return slot;
}

/* ---- The wheel ---- */

static struct queue_list *wheel_list(const struct queue *q, int64_t at_us)
{
    return &q->wheel[(uint64_t)at_us % QUEUE_WHEEL];
}

/* The first non-empty list from place i on, around the wheel; there is one. */
static uint32_t used_from(const struct queue *q, uint32_t i)
{
    uint32_t words = QUEUE_WHEEL / 4096, w = i / 64, k;
    uint64_t x = q->used[w] >> (i % 64);

    if (x)
        return i + (uint32_t)__builtin_ctzll(x);
    w++;
    k = w / 64 % words;
    x = w % 64 ? q->used_words[k] >> (w % 64) << (w % 64) : q->used_words[k];
    while (!x) {
        k = (k + 1) % words;
        x = q->used_words[k];
    }
    w = 64 * k + (uint32_t)__builtin_ctzll(x);
    return 64 * w + (uint32_t)__builtin_ctzll(q->used[w]);
}

/* When the first delivery on the wheel from at_us on is due. */
static int64_t wheel_from(const struct queue *q, int64_t at_us)
{
    uint32_t i = (uint32_t)((uint64_t)at_us % QUEUE_WHEEL);

    return at_us + (used_from(q, i) - i) % QUEUE_WHEEL;
}

static void wheel_add(struct queue *q, int64_t at_us, uint32_t slot)
{
    uint32_t i = (uint32_t)((uint64_t)at_us % QUEUE_WHEEL);

    if (!q->wheel) {
        q->wheel = xcalloc(QUEUE_WHEEL, sizeof *q->wheel);
        q->wheel_us = TIME_NEVER;
    }
    if (!q->wheel[i].first) {
        q->wheel_n++;
        q->used[i / 64] |= UINT64_C(1) << (i % 64);
        q->used_words[i / 4096] |= UINT64_C(1) << (i / 64 % 64);
        if (at_us < q->wheel_us)
            q->wheel_us = at_us;
    }
    list_add(q, &q->wheel[i], slot);
}

static uint32_t wheel_take(struct queue *q)
{
    uint32_t i = (uint32_t)((uint64_t)q->wheel_us % QUEUE_WHEEL);
    uint32_t slot = list_take(q, &q->wheel[i]);

    if (q->wheel[i].first)
        return slot;
    q->wheel_n--;
    q->used[i / 64] &= ~(UINT64_C(1) << (i % 64));
    if (q->used[i / 64] == 0)
        q->used_words[i / 4096] &= ~(UINT64_C(1) << (i / 64 % 64));
    q->wheel_us = q->wheel_n ? wheel_from(q, q->wheel_us + 1) : TIME_NEVER;
    return slot;
}

/* ---- Heap ---- */

static bool key_before(const struct queue_key *a, const struct queue_key *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->seq < b->seq;
}

HAWK_RARE static void heap_add(struct queue *q, int64_t at_us, uint32_t slot)
{
    struct queue_key k = {at_us, q->seq++, slot};

    vec_grow(q->heap, q->heap_n, q->heap_cap);
    uint32_t i = q->heap_n++;
    while (i > 0 && key_before(&k, &q->heap[(i - 1) / 4])) {
        q->heap[i] = q->heap[(i - 1) / 4];
        i = (i - 1) / 4;
    }
    q->heap[i] = k;
}

HAWK_RARE static uint32_t heap_take(struct queue *q)
{
    uint32_t i = 0, slot = q->heap[0].slot;
    struct queue_key k = q->heap[--q->heap_n];

    for (;;) {
        uint32_t first = 4 * i + 1, least = first;

        if (first >= q->heap_n)
            break;
        for (uint32_t j = first + 1; j < q->heap_n && j < first + 4; j++)
            if (key_before(&q->heap[j], &q->heap[least]))
                least = j;
        if (!key_before(&q->heap[least], &k))
            break;
        q->heap[i] = q->heap[least];
        i = least;
    }
    q->heap[i] = k;
    return slot;
}

/* ---- All three ---- */

struct delivery *queue_push(struct queue *q, bool now, int64_t at_us, uint32_t from, uint32_t to,
                            const struct msg *m)
{
    uint32_t slot = slot_new(q);
    struct delivery *d = &q->slots[slot];

    CHECK(at_us >= q->passed_us);
    d->at_us = at_us;
    d->from = from & INT32_MAX;
    d->waited = 0;
    d->to = to;
    d->m = *m;
    q->n++;
    if (now)
        list_add(q, &q->now, slot);
    else if (at_us - q->passed_us < QUEUE_WHEEL)
        wheel_add(q, at_us, slot);
    else
        heap_add(q, at_us, slot);
    return d;
}

/* Finds the first delivery; 0: there is none. At the same moment, those without delay go first, then those
 * in the heap: they were sent before any on the wheel, when their time was too far away for it. */
static uint32_t find_first(struct queue *q)
{
    int64_t wheel_us = q->wheel_n ? q->wheel_us : TIME_NEVER;
    int64_t heap_us = q->heap_n ? q->heap[0].at_us : TIME_NEVER;
    uint32_t now = q->now.first;

    if (now && q->slots[now].at_us <= wheel_us && q->slots[now].at_us <= heap_us) {
        q->first_in = IN_NOW;
        return now;
    }
    if (q->heap_n && heap_us <= wheel_us) {
        q->first_in = IN_HEAP;
        return q->heap[0].slot;
    }
    q->first_in = IN_WHEEL;
    return q->wheel_n ? wheel_list(q, wheel_us)->first : 0;
}

static void take_first(struct queue *q)
{
    uint32_t slot;

    switch (q->first_in) {
    case IN_NOW:
        slot = list_take(q, &q->now);
        break;
    case IN_HEAP:
        slot = heap_take(q);
        break;
    default:
        slot = wheel_take(q);
        break;
    }
    /* A withdrawn delivery was never delivered, so passed_us stays: something earlier may still be sent. */
    if (q->slots[slot].to != 0 && q->slots[slot].at_us > q->passed_us)
        q->passed_us = q->slots[slot].at_us;
    slot_free(q, slot);
}

/* The first delivery is one that was withdrawn. */
HAWK_RARE static const struct delivery *after_withdrawn(struct queue *q)
{
    uint32_t slot;

    do
        take_first(q);
    while ((slot = find_first(q)) && q->slots[slot].to == 0);
    return slot ? &q->slots[slot] : NULL;
}

const struct delivery *queue_first(struct queue *q)
{
    uint32_t slot = find_first(q);

    if (!slot)
        return NULL;
    return q->slots[slot].to ? &q->slots[slot] : after_withdrawn(q);
}

/* Gives back the memory that a burst needed (a cluster that starts). The slab holds only withdrawn
 * deliveries then. */
static void slab_shrink(struct queue *q)
{
    if (q->now.first || q->wheel_n || q->heap_n)
        return;
    free(q->slots);
    q->slots = NULL;
    q->slots_n = q->slots_cap = q->free = 0;
}

void queue_drop_first(struct queue *q)
{
    take_first(q);
    q->n--;
    if (q->n == 0 && q->slots_cap > SLAB_KEPT)
        slab_shrink(q);
}

void queue_withdraw(struct queue *q, bool (*match)(void *arg, const struct delivery *d), void *arg)
{
    for (uint32_t i = 1; i < q->slots_n; i++) {
        struct delivery *d = &q->slots[i];

        if (d->to == 0 || !match(arg, d)) /* free ones have no receiver, either */
            continue;
        msg_drop(&d->m);
        d->to = 0;
        q->n--;
    }
}

static bool match_all(void *arg, const struct delivery *d) { return true; }

void queue_free(struct queue *q)
{
    queue_withdraw(q, match_all, NULL);
    free(q->slots);
    free(q->wheel);
    free(q->heap);
    *q = (struct queue){0};
}
