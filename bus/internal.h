/* What the files of the bus share.
 *
 *   bus.c      endpoints, the order of what happens, steps
 *   streams.c  streams, and what the rules of connections (peers/) have the bus do with them */
#ifndef HAWK_BUS_INTERNAL_H
#define HAWK_BUS_INTERNAL_H

#include "base/check.h"
#include "base/heap.h"
#include "base/mem.h"
#include "base/units.h"
#include "bus/bus.h"
#include "bus/queue.h"
#include "peers/peers.h"

#define EP_CHUNK 256u

/* A set of small numbers. */
struct numset {
    uint64_t *bits;
    uint32_t words;
};

/* Nearly every message meets an endpoint that is in no cache. So the members that most messages need share
 * one cache line. */
struct endpoint {
    /* Key: when it wants a TIMER, or earlier; the bus looks again when that time has come. */
    struct heap_node timer;
    void (*step)(void *role, const struct event *e, struct out *out);
    int64_t (*next_timeout)(const void *role);
    void *obj; /* the role; NULL: does not run */
    uint32_t number;
    uint32_t link; /* to central; 0: none */
    node_id_t node;
    uint8_t role;
    bool frozen; /* it does nothing before frozen_us; also set when that time is over */
    _Alignas(
        64) struct numset dialled; /* endpoints to which it has a stream that it dialled, without central */
    int64_t frozen_us;
    struct peers *peers; /* the rules of its connections; NULL: does not run */
    int64_t wake_us;     /* when the bus looks at peers; TIME_NEVER: not at all */
    char *addr;          /* where it listens; NULL: everywhere */
};
_Static_assert(offsetof(struct endpoint, dialled) == 64, "one line is all that most messages need");

/* A stream has ended, and the news of that is on its way to one of its two ends. Whatever that end sends
 * before is lost. */
struct ending {
    uint32_t at, with;
    uint32_t side; /* enum peers_side, of `at` */
    uint32_t name; /* the name of the other end for `at`: it may have another name when it starts again */
};

/* Two endpoints that cannot reach each other for a while. */
struct cut {
    uint32_t x, y;
    int64_t until_us;
    bool silent; /* who dials is not told */
};

struct bus {
    struct bus_config c;
    struct queue queue;
    struct heap timers;
    struct out out; /* of the step that runs */
    int64_t now_us;
    struct endpoint *
        *chunks; /* EP_CHUNK endpoints in each, by number; there is no endpoint 0. They never move */
    uint32_t eps_n, chunks_n, chunks_cap;
    uint32_t central; /* 0: none runs */
    uint32_t *links;  /* link number → endpoint, 0: gone */
    uint32_t links_n, links_cap;
    uint32_t *by_node; /* node id → endpoint, 0: none */
    uint32_t by_node_n;
    struct cut *cuts; /* few; the bus reuses those that are over */
    uint32_t cuts_n, cuts_cap;
    struct ending *endings; /* few */
    uint32_t endings_n, endings_cap;
    struct peers_out given,
        within;      /* actions that follow from a delivery, and from what a step has put out */
    uint64_t starts; /* of endpoints, so far */
    bool running;    /* within a step; nobody may run the bus then */
};

static inline struct endpoint *endpoint(const struct bus *b, uint32_t number)
{
    return &b->chunks[number / EP_CHUNK][number % EP_CHUNK];
}

static inline bool numset_has(const struct numset *s, uint32_t n)
{
    return n / 64 < s->words && (s->bits[n / 64] >> (n % 64) & 1);
}

static inline int64_t bus_delay(struct bus *b, const struct endpoint *from, const struct endpoint *to,
                                const struct msg *m)
{
    return b->c.delay_us ? b->c.delay_us(b->c.arg, from->number, to->number, m) : 0;
}

static inline void bus_push(struct bus *b, const struct endpoint *from, const struct endpoint *to,
                            int64_t delay_us, const struct msg *m)
{
    queue_push(&b->queue, delay_us <= 0, b->now_us + delay_us, from->number, to->number, m);
}

/* The name of `e` for `at`. */
static inline uint32_t bus_peer_number(const struct endpoint *at, const struct endpoint *e)
{
    if (e->role == ROLE_CENTRAL)
        return NODE_CENTRAL.v;
    return at->role == ROLE_CENTRAL ? e->link : e->node.v;
}

/* The endpoint that `e` knows by the name `peer`, or NULL. */
static inline struct endpoint *bus_find_peer(const struct bus *b, const struct endpoint *e, uint32_t peer)
{
    struct endpoint *found;
    uint32_t ep;

    if (e->role == ROLE_CENTRAL || peer == NODE_CENTRAL.v) {
        ep = e->role != ROLE_CENTRAL ? b->central : peer < b->links_n ? b->links[peer] : 0;
        return ep ? endpoint(b, ep) : NULL;
    }
    ep = peer < b->by_node_n ? b->by_node[peer] : 0;
    found = endpoint(b, ep);
    /* Another process may have had this id before. */
    return ep && found->node.v == peer && found != e ? found : NULL;
}

/* ---- streams.c ---- */

/* News of a stream travels to an endpoint as a PEER_UP or PEER_LOST with these bits in `stream_flags`. */
#define STREAM_EVENT 1u   /* for the rules, which decide what the role hears of it */
#define STREAM_DIALLED 2u /* the receiver dialled the stream */
#define STREAM_ENDING 4u  /* it is in b->endings */

/* Whether x has a stream to y that x dialled. */
static inline bool bus_has_dialled(const struct endpoint *x, const struct endpoint *y)
{
    return y->role == ROLE_CENTRAL ? x->link != 0 : numset_has(&x->dialled, y->number);
}
/* Whether the news is on its way to `at` that its stream with `with` has ended. `name`: by which `at`
 * knows it, 0: any. */
bool streams_is_ending(const struct bus *b, const struct endpoint *at, const struct endpoint *with,
                       enum peers_side side, uint32_t name);
/* Ends all streams of e. e dies or, in_order, goes when the messages that it has sent have arrived. */
void streams_end_all(struct bus *b, struct endpoint *e, bool in_order);
/* News of one of its streams has reached e. */
void streams_event(struct bus *b, struct endpoint *e, uint32_t from, const struct msg *m);
/* Carries out what the rules of e decided. `from`: the endpoint that caused it, for the trace. During a
 * step, the role hears of it later. */
void streams_act(struct bus *b, struct endpoint *e, uint32_t from, struct peers_out *out, bool within);

/* ---- bus.c ---- */

/* Gives `e` one event, drops the event's handles, and queues what comes out. A callback may end `e`. */
void bus_step(struct bus *b, uint32_t from, struct endpoint *e, struct event *event);
void bus_bind_node(struct bus *b, struct endpoint *e, node_id_t node);

#endif
