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

/* Nearly every message meets an endpoint that is in no cache, and one line of it is all that most need. */
struct endpoint {
    struct heap_node timer; /* key: when it wants a TIMER, or earlier; looked up again when that has come */
    void (*step)(void *role, const struct event *e, struct out *out);
    int64_t (*next_timeout)(const void *role);
    void *obj; /* the role; NULL: does not run */
    uint32_t number;
    uint32_t link; /* to central; 0: none */
    node_id_t node;
    uint8_t role;
    bool frozen; /* since when it does nothing before frozen_us; also when that is over */
    _Alignas(
        64) struct numset dialled; /* endpoints that it has a stream to which it dialled, but for central */
    int64_t frozen_us;
    struct peers *peers; /* its connections, by the rules; NULL: does not run */
    int64_t wake_us;     /* when peers is looked at; TIME_NEVER: not at all */
    char *addr;          /* where it listens; NULL: everywhere */
};
_Static_assert(offsetof(struct endpoint, dialled) == 64, "one line is all that most messages need");

/* A stream is gone, and the word of that is on its way to the one of its two ends. Until it is there, that one sends into
 * the void. */
struct ending {
    uint32_t at, with;
    uint32_t side; /* enum peers_side, of `at` */
    uint32_t name; /* by which `at` knows the other: whoever starts again may get another one */
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
    struct endpoint **chunks; /* EP_CHUNK endpoints each, by number; 0 is nobody. They stay where they are */
    uint32_t eps_n, chunks_n, chunks_cap;
    uint32_t central; /* 0: none runs */
    uint32_t *links;  /* link number → endpoint, 0: gone */
    uint32_t links_n, links_cap;
    uint32_t *by_node; /* node id → endpoint, 0: none */
    uint32_t by_node_n;
    struct cut *cuts; /* few; those that are over are reused */
    uint32_t cuts_n, cuts_cap;
    struct ending *endings; /* few */
    uint32_t endings_n, endings_cap;
    struct peers_out given, within; /* what follows from a delivery, and from what a step has put out */
    uint64_t starts;                /* of endpoints, so far */
    bool running;                   /* within a step, from which the bus must not be run again */
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

/* What `at` calls `e`. */
static inline uint32_t bus_peer_number(const struct endpoint *at, const struct endpoint *e)
{
    if (e->role == ROLE_CENTRAL)
        return NODE_CENTRAL.v;
    return at->role == ROLE_CENTRAL ? e->link : e->node.v;
}

/* Whom `e` calls `peer`, or NULL. */
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
    /* Another process may have had the id there before. */
    return ep && found->node.v == peer && found != e ? found : NULL;
}

/* ---- streams.c ---- */

/* What is on its way to an endpoint about one of its streams is a PEER_UP or PEER_LOST with these in `stream_flags`. */
#define STREAM_EVENT 1u   /* to the rules, which decide what the role hears of it */
#define STREAM_DIALLED 2u /* it is one that the receiver dialled */
#define STREAM_ENDING 4u  /* it is in b->endings */

/* Does x have a stream to y that x dialled? */
static inline bool bus_has_dialled(const struct endpoint *x, const struct endpoint *y)
{
    return y->role == ROLE_CENTRAL ? x->link != 0 : numset_has(&x->dialled, y->number);
}
/* Is there word on the way to `at` that its stream with `with`, known as `name` (0: as any), has ended? */
bool streams_is_ending(const struct bus *b, const struct endpoint *at, const struct endpoint *with,
                       enum peers_side side, uint32_t name);
/* All streams of e end, which dies, or (in_order) goes when what it has sent has arrived. */
void streams_end_all(struct bus *b, struct endpoint *e, bool in_order);
/* Something has reached e of one of its streams. */
void streams_event(struct bus *b, struct endpoint *e, uint32_t from, const struct msg *m);
/* Does what the rules of e say. `from`: whose doing that is, for the trace. Within a step the role hears of it later. */
void streams_act(struct bus *b, struct endpoint *e, uint32_t from, struct peers_out *out, bool within);

/* ---- bus.c ---- */

/* Gives `e` one event, whose handles are dropped, and queues what comes out. A callback may end `e`. */
void bus_step(struct bus *b, uint32_t from, struct endpoint *e, struct event *event);
void bus_bind_node(struct bus *b, struct endpoint *e, node_id_t node);

#endif
