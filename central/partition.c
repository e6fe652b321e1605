/* The short partition (Hawk 3.4, protocol 2): which workers are reserved for short tasks. */
#include "central/tasks.h"

#include "base/check.h"

/* After a restart, workers join again in any order. So central waits a moment before it tells workers their
 * partition: then it reserves the same workers as before, by their ids, and the others need not change. */
bool central_partition_settles(const struct central *c) { return c->settle_us != TIME_NEVER; }

/* The most slots that may be reserved. */
static uint64_t target_slots(const struct central *c)
{
    if (!policy_has(&c->policy, POLICY_PARTITION))
        return 0;
    return c->slots * c->policy.short_share_ppm / 1000000;
}

static bool is_general(const struct node *n) { return n && n->counted && n->general; }
static bool is_reserved(const struct node *n) { return n && n->counted && !n->general; }

/* Adds n's slots to its partition, or subtracts them. */
static void count_slots(struct central *c, const struct node *n, bool in)
{
    if (!n->general) {
        c->slots_reserved = in ? c->slots_reserved + n->slots : c->slots_reserved - n->slots;
        if (in && n->id.v > c->reserved_last)
            c->reserved_last = n->id.v;
        return;
    }
    c->n_general = in ? c->n_general + 1 : c->n_general - 1;
    c->general_with[n->slots] = in ? c->general_with[n->slots] + 1 : c->general_with[n->slots] - 1;
    if (in && n->id.v < c->general_first)
        c->general_first = n->id.v;
}

void central_partition_count(struct central *c, struct node *n, bool counted)
{
    c->service_look = true; /* workers that are out of service may have come or gone */
    if (n->counted == counted)
        return;
    if (counted)
        n->general = true; /* a worker begins as general */
    n->counted = counted;
    c->slots = counted ? c->slots + n->slots : c->slots - n->slots;
    c->n_workers = counted ? c->n_workers + 1 : c->n_workers - 1;
    count_slots(c, n, counted);
}

static void move(struct central *c, struct node *n, bool general)
{
    count_slots(c, n, false);
    n->general = general;
    count_slots(c, n, true);
    central_partition_tell(c, n);
    central_members_changed(c, n);
}

static bool serve_the_same(const struct node *a, const struct node *b)
{
    return !a->serves == !b->serves && a->user == b->user;
}

/* Long jobs keep at least one worker, with as much time left as any, and so do those of a user whose workers run his
 * commands alone. Where workers have an end or run one user's commands alone, O(workers). */
bool central_partition_keeps(const struct central *c, const struct node *n)
{
    if (list_empty(&c->owned) && c->end_times.workers == 0)
        return c->n_general > (n->counted && n->general);
    for (uint32_t id = 1; id < c->nodes_end; id++) {
        const struct node *other = c->nodes[id];

        if (other != n && is_general(other) && serve_the_same(other, n) && other->ends_us >= n->ends_us)
            return true;
    }
    return false;
}

/* Of the general workers with at most so many slots, the one that ends first; of several the one with the lowest id.
 * NULL: none. */
static struct node *next_to_reserve(struct central *c, uint64_t slots)
{
    struct node *first = NULL;
    uint32_t fit = 0;

    if (c->n_general < 2)
        return NULL;
    for (uint32_t s = 1; s <= LIMIT_SLOTS && s <= slots; s++)
        fit += c->general_with[s];
    if (!fit)
        return NULL;
    while (!is_general(c->nodes[c->general_first]))
        c->general_first++;
    for (uint32_t id = c->general_first; id < c->nodes_end; id++) {
        struct node *n = c->nodes[id];

        if (!is_general(n) || n->slots > slots || (first && n->ends_us >= first->ends_us) ||
            !central_partition_keeps(c, n))
            continue;
        first = n;
        if (c->end_times.workers == 0)
            break;
    }
    return first;
}

/* The reserved worker that ends last; of several the one with the highest id. NULL: none. */
static struct node *next_to_release(struct central *c)
{
    while (c->reserved_last > 0 && !is_reserved(central_node_by_id(c, (node_id_t){c->reserved_last})))
        c->reserved_last--;
    struct node *last = c->reserved_last ? c->nodes[c->reserved_last] : NULL;
    for (uint32_t id = c->reserved_last; c->end_times.workers > 0 && id > 0; id--)
        if (is_reserved(c->nodes[id]) && c->nodes[id]->ends_us > last->ends_us)
            last = c->nodes[id];
    return last;
}

/* The reserved worker that ends last of those that should be general: no general worker serves as well. */
static struct node *next_unkept(struct central *c)
{
    struct node *last = NULL;

    if (c->n_general > 0 && list_empty(&c->owned) && c->end_times.workers == 0)
        return NULL;
    for (uint32_t id = c->reserved_last; id > 0; id--) {
        struct node *n = c->nodes[id];

        if (is_reserved(n) && (!last || n->ends_us > last->ends_us) && !central_partition_keeps(c, n))
            last = n;
    }
    return last;
}

void central_partition_balance(struct central *c)
{
    uint64_t target = target_slots(c);
    struct node *n;

    if (central_partition_settles(c))
        return;
    while (c->slots_reserved > target) {
        n = next_to_release(c);
        CHECK(n);
        move(c, n, true);
    }
    while ((n = next_unkept(c)))
        move(c, n, true);
    while (c->slots_reserved < target && (n = next_to_reserve(c, target - c->slots_reserved)))
        move(c, n, false);
}

/* A worker that leaves no time for long tasks is as good for short ones: it takes the place of a reserved one that has
 * more. What is less than the cutoff makes no difference to long tasks. */
void central_partition_end_known(struct central *c, const struct node *n)
{
    struct node *other = is_general(n) && !central_partition_settles(c) ? next_to_release(c) : NULL;

    if (other && n->ends_us < other->ends_us - c->policy.cutoff_us && n->slots <= other->slots &&
        serve_the_same(n, other))
        move(c, other, true);
    central_partition_balance(c);
}

uint32_t central_partition_least(const struct central *c)
{
    uint32_t least = 1;

    if (central_partition_settles(c) || c->slots_reserved || !c->n_workers || !policy_reserves(&c->policy))
        return 0;
    while (!c->general_with[least])
        least++;
    return least;
}

void central_partition_tell(struct central *c, struct node *n)
{
    n->epoch++;
    /* A worker gets no long tasks from now on: a reserved one not at all, a general one until it has
     * acknowledged. */
    n->acked = false;
    central_node_update_eligible(c, n);
    list_remove(&n->untold);
    list_push_tail(&c->untold, &n->untold);
}

#define ACKS_US (500 * US_PER_MS) /* time for workers to acknowledge their partition after a restart */

void central_partition_flush(struct central *c)
{
    bool first = false;

    if (central_partition_settles(c)) {
        if (c->now_us < c->settle_us && !central_workers_all_back(c))
            return;
        c->settle_us = TIME_NEVER;
        c->hold_us = c->now_us + ACKS_US;
        first = true;
        central_partition_balance(c);
    }
    list_foreach(&c->untold, entry, next) {
        struct node *n = container_of(entry, struct node, untold);
        struct msg *m = central_send(c, n, MSG_PARTITION);

        list_remove(entry);
        if (!m)
            continue;
        m->partition.epoch = n->epoch;
        m->partition.general = n->general;
        n->awaited = first && n->general;
        c->n_awaited += n->awaited;
    }
}

bool central_partition_holds(const struct central *c) { return c->n_awaited > 0 && c->now_us < c->hold_us; }

int64_t central_partition_due_us(const struct central *c)
{
    return central_partition_holds(c) && c->hold_us < c->settle_us ? c->hold_us : c->settle_us;
}

void central_on_partition_ack(struct central *c, const struct msg *in)
{
    struct node *n = c->from;
    uint32_t epoch = in->partition_ack.epoch;
    if (n->role != ROLE_WORKER || epoch != n->epoch || n->acked)
        return;
    n->acked = true;
    c->n_awaited -= n->awaited;
    n->awaited = false;
    if (!n->general)
        return;
    central_node_update_eligible(c, n);
    central_members_changed(c, n);
    central_recall_arm(c);
}
