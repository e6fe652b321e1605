/* Deliveries in order. */
#include "bus/queue.h"

#include "base/mem.h"
#include "base/units.h"

#include <stdlib.h>
#include <string.h>

/* ---- Rings ---- */

static struct delivery *ring_at(const struct queue_ring *r, uint32_t i)
{
    return &r->v[(r->head + i) & (r->cap - 1)];
}

static struct delivery *ring_head(const struct queue_ring *r) { return r->n ? &r->v[r->head] : NULL; }

static struct delivery *ring_add(struct queue_ring *r)
{
    if (r->n == r->cap) {
        uint32_t cap = r->cap ? 2 * r->cap : 256;
        struct delivery *v = xmalloc((size_t)cap * sizeof *v);

        for (uint32_t i = 0; i < r->n; i++)
            v[i] = *ring_at(r, i);
        free(r->v);
        r->v = v;
        r->head = 0;
        r->cap = cap;
    }
    return ring_at(r, r->n++);
}

static void ring_drop_head(struct queue_ring *r)
{
    /* From the start again when it is empty, which it often is: else it would wander through all of its memory, and
     * find none of it in the cache. */
    r->head = r->n == 1 ? 0 : (r->head + 1) & (r->cap - 1);
    r->n--;
}

/* ---- Heap ---- */

static bool key_before(const struct queue_key *a, const struct queue_key *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->seq < b->seq;
}

static bool delivery_before(const struct delivery *a, const struct delivery *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->seq < b->seq;
}

static void heap_add(struct queue *q, struct queue_key k)
{
    uint32_t i;

    vec_grow(q->heap, q->heap_n, q->heap_cap);
    i = q->heap_n++;
    while (i > 0 && key_before(&k, &q->heap[(i - 1) / 4])) {
        q->heap[i] = q->heap[(i - 1) / 4];
        i = (i - 1) / 4;
    }
    q->heap[i] = k;
}

static void heap_drop_head(struct queue *q)
{
    struct queue_key k;
    uint32_t i = 0;

    vec_grow(q->free_slots, q->free_n, q->free_cap);
    q->free_slots[q->free_n++] = q->heap[0].slot;
    k = q->heap[--q->heap_n];
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
}

static struct delivery *slot_add(struct queue *q, struct queue_key k)
{
    if (q->free_n) {
        k.slot = q->free_slots[--q->free_n];
    } else {
        vec_grow(q->slots, q->slots_n, q->slots_cap);
        k.slot = q->slots_n++;
    }
    heap_add(q, k);
    return &q->slots[k.slot];
}

/* ---- Both ---- */

/* In which place: the ring's, when it is not due before the ring's last one. */
static struct delivery *add(struct queue *q, enum queue_lane lane, int64_t at_us)
{
    if (lane < QUEUE_RINGS) {
        struct queue_ring *r = &q->rings[lane];

        if (r->n == 0 || at_us >= ring_at(r, r->n - 1)->at_us)
            return ring_add(r);
    }
    return slot_add(q, (struct queue_key){at_us, q->seq, 0});
}

struct delivery *queue_push(struct queue *q, enum queue_lane lane, int64_t at_us, uint32_t from, uint32_t to,
                            const struct msg *m)
{
    struct delivery *d = add(q, lane, at_us);

    d->at_us = at_us;
    d->seq = q->seq++;
    d->from = from & INT32_MAX;
    d->waited = 0;
    d->to = to;
    d->m = *m;
    q->n++;
    return d;
}

/* Which holds the first delivery: a ring, or QUEUE_HEAP. NULL in *d: nothing is queued. */
static enum queue_lane find_first(struct queue *q, struct delivery **d)
{
    struct delivery *now = ring_head(&q->rings[QUEUE_NOW]), *network = ring_head(&q->rings[QUEUE_NETWORK]);
    struct delivery *heap = q->heap_n ? &q->slots[q->heap[0].slot] : NULL;
    bool heap_first = heap && (!network || delivery_before(heap, network));

    *d = heap_first ? heap : network;
    if (now && (!*d || now->at_us <= (*d)->at_us)) {
        *d = now;
        return QUEUE_NOW;
    }
    return heap_first ? QUEUE_HEAP : QUEUE_NETWORK;
}

static void drop_first(struct queue *q, enum queue_lane lane)
{
    if (lane == QUEUE_HEAP)
        heap_drop_head(q);
    else
        ring_drop_head(&q->rings[lane]);
}

/* The first that is not withdrawn. */
static enum queue_lane find_live(struct queue *q, struct delivery **d)
{
    enum queue_lane lane;

    while ((lane = find_first(q, d)), *d && (*d)->to == 0)
        drop_first(q, lane);
    return lane;
}

int64_t queue_next_time(struct queue *q)
{
    struct delivery *d;

    find_live(q, &d);
    return d ? d->at_us : TIME_NEVER;
}

bool queue_pop_until(struct queue *q, int64_t t_us, struct delivery *d)
{
    struct delivery *first;
    enum queue_lane lane = find_live(q, &first);

    if (!first || first->at_us > t_us)
        return false;
    *d = *first;
    drop_first(q, lane);
    q->n--;
    return true;
}

static void withdraw_one(struct queue *q, struct delivery *d, bool (*match)(void *, const struct delivery *),
                         void *arg)
{
    if (d->to == 0 || !match(arg, d))
        return;
    msg_drop(&d->m);
    d->to = 0;
    q->n--;
}

void queue_withdraw(struct queue *q, bool (*match)(void *arg, const struct delivery *d), void *arg)
{
    for (enum queue_lane lane = 0; lane < QUEUE_RINGS; lane++)
        for (uint32_t i = 0; i < q->rings[lane].n; i++)
            withdraw_one(q, ring_at(&q->rings[lane], i), match, arg);
    for (uint32_t i = 0; i < q->heap_n; i++)
        withdraw_one(q, &q->slots[q->heap[i].slot], match, arg);
}

static bool match_all(void *arg, const struct delivery *d) { return true; }

void queue_free(struct queue *q)
{
    queue_withdraw(q, match_all, NULL);
    for (enum queue_lane lane = 0; lane < QUEUE_RINGS; lane++)
        free(q->rings[lane].v);
    free(q->heap);
    free(q->slots);
    free(q->free_slots);
    *q = (struct queue){0};
}
