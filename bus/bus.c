/* Endpoints, the streams between them, and the loop that steps them. */
#include "bus/bus.h"

#include "base/check.h"
#include "base/heap.h"
#include "base/mem.h"
#include "base/units.h"
#include "bus/queue.h"

#include <stdlib.h>
#include <string.h>

#define REDIAL_US (50 * US_PER_MS)
#define STEAL_STREAMS 64u
#define EP_CHUNK 256u
#define SEEN_LATE 1 /* in PEER_LOST's reserved field while it is queued: see struct unseen */

/* A set of endpoints. */
struct epset {
    uint64_t *bits;
    uint32_t words;
};

/* A set of small numbers. */
struct numset {
    uint64_t *bits;
    uint32_t words;
};

/* Nearly every message meets an endpoint that is in no cache, and one line of it is all that most need. */
struct endpoint {
    struct heap_node timer; /* key: when it wants a TIMER, or earlier; looked up again when that has come */
    struct bus_role fns;
    void *obj; /* the role; NULL: does not run */
    uint32_t number;
    uint32_t link; /* to central; 0: none */
    node_id_t node;
    uint8_t role;
    bool frozen; /* since when it does nothing before frozen_us; also when that is over */
    _Alignas(64) struct numset wanted; /* dist: node ids it dials */
    struct numset streams;             /* dist: workers (endpoints) it has a stream to */
    uint32_t *dialled;                 /* worker: workers it dialled, the one used last at the end */
    uint32_t dialled_n;
    int64_t frozen_us;
};
_Static_assert(offsetof(struct endpoint, wanted) == 64, "one line is all that most messages need");

/* An endpoint that has not heard yet of the end of its stream with another. */
struct unseen {
    uint32_t at, with;
};

/* Two endpoints that cannot reach each other for a while. */
struct cut {
    uint32_t x, y;
    int64_t until_us;
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
    uint32_t *dists; /* their endpoints */
    uint32_t dists_n, dists_cap;
    struct cut *cuts; /* few; those that are over are reused */
    uint32_t cuts_n, cuts_cap;
    struct unseen *unseen;
    uint32_t unseen_n, unseen_cap;
    bool running; /* within a step, from which the bus must not be run again */
};

static struct endpoint *endpoint(const struct bus *b, uint32_t number)
{
    return &b->chunks[number / EP_CHUNK][number % EP_CHUNK];
}

/* ---- Sets of numbers ---- */

static bool set_has(const struct numset *s, uint32_t n)
{
    return n / 64 < s->words && (s->bits[n / 64] >> (n % 64) & 1);
}

static void set_add(struct numset *s, uint32_t n)
{
    if (n / 64 >= s->words) {
        uint32_t words = n / 64 + 1 + s->words;

        s->bits = xrealloc(s->bits, words * sizeof *s->bits);
        memset(s->bits + s->words, 0, (words - s->words) * sizeof *s->bits);
        s->words = words;
    }
    s->bits[n / 64] |= UINT64_C(1) << (n % 64);
}

static void set_remove(struct numset *s, uint32_t n)
{
    if (n / 64 < s->words)
        s->bits[n / 64] &= ~(UINT64_C(1) << (n % 64));
}

static void set_clear(struct numset *s)
{
    for (uint32_t i = 0; i < s->words; i++)
        s->bits[i] = 0;
}

/* ---- Making ---- */

struct bus *bus_new(const struct bus_config *c)
{
    struct bus *b = xcalloc(1, sizeof *b);

    b->c = *c;
    if (!b->c.redial_us)
        b->c.redial_us = REDIAL_US;
    if (!b->c.steal_streams)
        b->c.steal_streams = STEAL_STREAMS;
    heap_init(&b->timers);
    bus_add(b, ROLE_NONE); /* number 0 */
    vec_grow(b->links, b->links_n, b->links_cap);
    b->links[b->links_n++] = 0;
    return b;
}

void bus_free(struct bus *b)
{
    if (!b)
        return;
    queue_free(&b->queue);
    heap_free(&b->timers);
    out_free(&b->out);
    for (uint32_t i = 0; i < b->eps_n; i++) {
        free(endpoint(b, i)->wanted.bits);
        free(endpoint(b, i)->streams.bits);
        free(endpoint(b, i)->dialled);
    }
    for (uint32_t i = 0; i < b->chunks_n; i++)
        free(b->chunks[i]);
    free(b->chunks);
    free(b->links);
    free(b->by_node);
    free(b->dists);
    free(b->cuts);
    free(b->unseen);
    free(b);
}

uint32_t bus_add(struct bus *b, enum role role)
{
    struct endpoint *e;

    if (b->eps_n % EP_CHUNK == 0) {
        vec_grow(b->chunks, b->chunks_n, b->chunks_cap);
        b->chunks[b->chunks_n++] = xaligned(_Alignof(struct endpoint), EP_CHUNK * sizeof *e);
    }
    e = endpoint(b, b->eps_n++);
    e->role = (uint8_t)role;
    e->number = b->eps_n - 1;
    e->timer.seq = e->number;
    if (role == ROLE_WORKER && !b->c.workers_meshed)
        e->dialled = xcalloc(b->c.steal_streams, sizeof *e->dialled);
    if (role == ROLE_DIST) {
        vec_grow(b->dists, b->dists_n, b->dists_cap);
        b->dists[b->dists_n++] = e->number;
    }
    return e->number;
}

/* ---- Streams ---- */

static int64_t delay_between(struct bus *b, const struct endpoint *from, const struct endpoint *to,
                             const struct msg *m)
{
    return b->c.delay_us ? b->c.delay_us(b->c.arg, from->number, to->number, m) : 0;
}

/* What `at` calls `e`. */
static uint32_t peer_number(const struct endpoint *at, const struct endpoint *e)
{
    if (e->role == ROLE_CENTRAL)
        return NODE_CENTRAL.v;
    return at->role == ROLE_CENTRAL ? e->link : e->node.v;
}

static void push(struct bus *b, const struct endpoint *from, const struct endpoint *to, int64_t delay_us,
                 const struct msg *m)
{
    queue_push(&b->queue, delay_us <= 0, b->now_us + delay_us, from->number, to->number, m);
}

/* Tells `to` of its stream with `from`, whom it calls `peer`. */
static void push_peer(struct bus *b, enum msg_type type, const struct endpoint *from,
                      const struct endpoint *to, uint32_t peer, int64_t delay_us)
{
    struct msg m;

    memset(&m, 0, sizeof m);
    m.type = (uint16_t)type;
    m.peer = peer;
    if (type == MSG_PEER_UP)
        m.peer_up.role = from->role, m.peer_up.version = PROTOCOL_VERSION;
    else
        m.peer_lost.role = from->role;
    push(b, from, to, delay_us, &m);
}

/* The place of a worker among those that e dialled; dialled_n: nowhere. */
static uint32_t find_dialled(const struct endpoint *e, uint32_t ep)
{
    uint32_t i = 0;

    while (i < e->dialled_n && e->dialled[i] != ep)
        i++;
    return i;
}

static bool has_dialled(const struct endpoint *e, uint32_t ep) { return find_dialled(e, ep) < e->dialled_n; }

static void forget_dialled(struct endpoint *e, uint32_t i)
{
    e->dialled_n--;
    memmove(e->dialled + i, e->dialled + i + 1, (e->dialled_n - i) * sizeof *e->dialled);
}

static bool connected(const struct endpoint *x, const struct endpoint *y)
{
    if (x->role == ROLE_CENTRAL || y->role == ROLE_CENTRAL) {
        const struct endpoint *node = x->role == ROLE_CENTRAL ? y : x;

        return node->link != 0;
    }
    if (x->role == ROLE_DIST)
        return set_has(&x->streams, y->number);
    if (y->role == ROLE_DIST)
        return set_has(&y->streams, x->number);
    return has_dialled(x, y->number) || has_dialled(y, x->number);
}

/* Did x dial the stream that it has with y? */
static bool is_dialler(const struct endpoint *x, const struct endpoint *y)
{
    if (y->role == ROLE_CENTRAL || x->role == ROLE_CENTRAL)
        return y->role == ROLE_CENTRAL;
    if (x->role == ROLE_WORKER && y->role == ROLE_WORKER)
        return has_dialled(x, y->number);
    return x->role == ROLE_DIST;
}

/* ---- Streams whose end one side has not heard of ---- */

/* The place of that in the list; unseen_n: nowhere. */
static uint32_t find_unseen(const struct bus *b, uint32_t at, uint32_t with)
{
    uint32_t i = 0;

    while (i < b->unseen_n && (b->unseen[i].at != at || b->unseen[i].with != with))
        i++;
    return i;
}

static bool is_unseen(const struct bus *b, const struct endpoint *at, const struct endpoint *with)
{
    return b->unseen_n > 0 && find_unseen(b, at->number, with->number) < b->unseen_n;
}

static void forget_unseen(struct bus *b, uint32_t i) { b->unseen[i] = b->unseen[--b->unseen_n]; }

/* All that is on its way from one to the other, the word of an end included. */
static bool is_from_to(void *arg, const struct delivery *d)
{
    const uint32_t *pair = arg;

    return d->from == pair[0] && d->to == pair[1] && (msg_is_wire(&d->m) || d->m.type == MSG_PEER_LOST);
}

/* `at` is about to hear of a new stream with `with`, and hears of the old one's end first. Central does not: there
 * every stream has a number of its own. */
static void see_end(struct bus *b, struct endpoint *at, struct endpoint *with, int64_t delay_us)
{
    uint32_t i = b->unseen_n ? find_unseen(b, at->number, with->number) : 0,
             pair[] = {with->number, at->number};

    if (i == b->unseen_n || at->role == ROLE_CENTRAL)
        return;
    forget_unseen(b, i);
    queue_withdraw(&b->queue, is_from_to, pair);
    push_peer(b, MSG_PEER_LOST, with, at, peer_number(at, with), delay_us);
}

static void tell_later(struct bus *b, struct endpoint *at, struct endpoint *with, uint32_t calls,
                       int64_t delay_us)
{
    struct msg lost;

    memset(&lost, 0, sizeof lost);
    lost.type = MSG_PEER_LOST;
    lost.reserved = SEEN_LATE;
    lost.peer = calls;
    lost.peer_lost.role = with->role;
    push(b, with, at, delay_us, &lost);
    vec_grow(b->unseen, b->unseen_n, b->unseen_cap);
    b->unseen[b->unseen_n++] = (struct unseen){at->number, with->number};
}

/* x dials y at at_us, if it still wants to then. */
static void redial(struct bus *b, const struct endpoint *x, const struct endpoint *y, int64_t at_us)
{
    struct msg none;

    memset(&none, 0, sizeof none);
    queue_push(&b->queue, false, at_us, y->number, x->number, &none);
}

/* ---- Their ends and beginnings ---- */

static void unlink_streams(struct bus *b, struct endpoint *x, struct endpoint *y)
{
    if (x->role == ROLE_CENTRAL || y->role == ROLE_CENTRAL) {
        struct endpoint *node = x->role == ROLE_CENTRAL ? y : x;

        b->links[node->link] = 0;
        node->link = 0;
    } else if (x->role == ROLE_DIST) {
        set_remove(&x->streams, y->number);
    } else if (y->role == ROLE_DIST) {
        set_remove(&y->streams, x->number);
    } else if (has_dialled(x, y->number)) {
        forget_dialled(x, find_dialled(x, y->number));
    } else {
        forget_dialled(y, find_dialled(y, x->number));
    }
}

/* Ends the stream between x and y and tells those of them that run. A side that was told of the stream with a
 * delay is told of its end with the same delay, so that it hears of them in order. `in_order`: x goes, and what
 * it has sent arrives first. */
static void disconnect(struct bus *b, struct endpoint *x, struct endpoint *y, bool in_order)
{
    bool x_dialled = is_dialler(x, y);
    uint32_t x_calls = peer_number(x, y), y_calls = peer_number(y, x);
    int64_t delay_us = in_order && !x_dialled ? delay_between(b, x, y, NULL) : 0;

    unlink_streams(b, x, y);
    if (y->obj && in_order && !x_dialled && delay_us > 0) { /* y dials again when it has heard of it */
        tell_later(b, y, x, y_calls, delay_us);
        redial(b, y, x, b->now_us + delay_us + b->c.redial_us);
        return;
    }
    if (x->obj)
        push_peer(b, MSG_PEER_LOST, y, x, x_calls, x_dialled ? 0 : delay_between(b, y, x, NULL));
    if (y->obj)
        push_peer(b, MSG_PEER_LOST, x, y, y_calls, x_dialled || in_order ? delay_between(b, x, y, NULL) : 0);
}

/* A stream that x dialled to y. Both run. */
static void connect_to(struct bus *b, struct endpoint *x, struct endpoint *y)
{
    see_end(b, y, x, delay_between(b, x, y, NULL));
    if (y->role == ROLE_CENTRAL) {
        vec_grow(b->links, b->links_n, b->links_cap);
        b->links[b->links_n] = x->number;
        x->link = b->links_n++;
    } else if (x->role == ROLE_DIST) {
        set_add(&x->streams, y->number);
    } else {
        if (x->dialled_n == b->c.steal_streams)
            disconnect(b, x, endpoint(b, x->dialled[0]), true);
        x->dialled[x->dialled_n++] = y->number;
    }
    push_peer(b, MSG_PEER_UP, y, x, peer_number(x, y), 0);
    push_peer(b, MSG_PEER_UP, x, y, peer_number(y, x), delay_between(b, x, y, NULL));
}

/* Until when x and y cannot reach each other; 0: they can. */
static int64_t cut_until(const struct bus *b, const struct endpoint *x, const struct endpoint *y)
{
    int64_t until_us = 0;

    for (uint32_t i = 0; i < b->cuts_n; i++) {
        const struct cut *k = &b->cuts[i];

        if (k->until_us > b->now_us && k->until_us > until_us &&
            ((k->x == x->number && k->y == y->number) || (k->x == y->number && k->y == x->number)))
            until_us = k->until_us;
    }
    return until_us;
}

/* x dials y, as the shell of x would, if it still wants to. */
static void dial(struct bus *b, struct endpoint *x, struct endpoint *y)
{
    int64_t until_us;

    if (!x->obj || !y->obj || connected(x, y) || is_unseen(b, x, y))
        return;
    if (y->role != ROLE_CENTRAL && (x->role != ROLE_DIST || !y->node.v || !set_has(&x->wanted, y->node.v)))
        return;
    until_us = cut_until(b, x, y);
    if (until_us)
        redial(b, x, y, until_us);
    else
        connect_to(b, x, y);
}

/* ---- Starting and ending ---- */

static void post_now(struct bus *b, struct endpoint *e, enum msg_type type)
{
    struct msg m;

    memset(&m, 0, sizeof m);
    m.type = (uint16_t)type;
    push(b, endpoint(b, 0), e, 0, &m);
}

void bus_start(struct bus *b, uint32_t ep, const struct bus_role *fns, void *role)
{
    struct endpoint *e = endpoint(b, ep);

    CHECK(!e->obj && role);
    e->fns = *fns;
    e->obj = role;
    e->node = NODE_NONE;
    post_now(b, e, MSG_START);
    if (e->role == ROLE_CENTRAL) {
        CHECK(!b->central);
        b->central = ep;
        for (uint32_t i = 1; i < b->eps_n; i++)
            if (i != ep)
                dial(b, endpoint(b, i), e);
    } else if (b->central) {
        dial(b, e, endpoint(b, b->central));
    }
}

static bool is_to(void *arg, const struct delivery *d) { return d->to == *(const uint32_t *)arg; }

static bool is_to_or_sent_by(void *arg, const struct delivery *d)
{
    uint32_t ep = *(const uint32_t *)arg;

    return d->to == ep || (d->from == ep && msg_is_wire(&d->m));
}

static void end(struct bus *b, uint32_t ep, bool in_order)
{
    struct endpoint *e = endpoint(b, ep);

    if (!e->obj)
        return;
    e->obj = NULL;
    if (heap_in(&e->timer))
        heap_remove(&b->timers, &e->timer);
    queue_withdraw(&b->queue, in_order ? is_to : is_to_or_sent_by, &ep);
    for (uint32_t i = 1; i < b->eps_n; i++)
        if (i != ep && endpoint(b, i)->obj && connected(e, endpoint(b, i)))
            disconnect(b, e, endpoint(b, i), in_order);
    for (uint32_t i = b->unseen_n; i-- > 0;)
        if (b->unseen[i].at == ep)
            forget_unseen(b, i);
    e->frozen = false;
    set_clear(&e->wanted);
    if (b->central == ep)
        b->central = 0;
}

void bus_kill(struct bus *b, uint32_t ep) { end(b, ep, false); }
void bus_close(struct bus *b, uint32_t ep) { end(b, ep, true); }

static bool is_between(void *arg, const struct delivery *d)
{
    const uint32_t *pair = arg;

    return msg_is_wire(&d->m) &&
           ((d->from == pair[0] && d->to == pair[1]) || (d->from == pair[1] && d->to == pair[0]));
}

void bus_break(struct bus *b, uint32_t x, uint32_t y)
{
    struct endpoint *dialler = endpoint(b, x), *other = endpoint(b, y);
    uint32_t pair[] = {x, y};
    int64_t both_ways_us;

    if (!dialler->obj || !other->obj || !connected(dialler, other))
        return;
    if (!is_dialler(dialler, other)) {
        dialler = endpoint(b, y);
        other = endpoint(b, x);
    }
    queue_withdraw(&b->queue, is_between, pair);
    disconnect(b, dialler, other, false);
    /* By then both know of the end. */
    both_ways_us = delay_between(b, dialler, other, NULL) + delay_between(b, other, dialler, NULL);
    redial(b, dialler, other, b->now_us + b->c.redial_us + both_ways_us);
}

void bus_bar(struct bus *b, uint32_t x, uint32_t y, int64_t until_us)
{
    uint32_t i = 0;

    while (i < b->cuts_n && b->cuts[i].until_us > b->now_us)
        i++;
    if (i == b->cuts_n) {
        vec_grow(b->cuts, b->cuts_n, b->cuts_cap);
        b->cuts_n++;
    }
    b->cuts[i] = (struct cut){x, y, until_us};
}

void bus_cut(struct bus *b, uint32_t x, uint32_t y, int64_t until_us)
{
    bus_bar(b, x, y, until_us);
    bus_break(b, x, y);
}

/* What is on its way to one of two and does not arrive before it hears of the end. */
struct tail {
    uint32_t from, to;
    int64_t from_us;
    bool beginning; /* the word of the stream's beginning is part of it */
};

static bool is_in_tail(void *arg, const struct delivery *d)
{
    struct tail *t = arg;
    bool is_up = d->m.type == MSG_PEER_UP;

    if ((!msg_is_wire(&d->m) && !is_up) || d->from != t->from || d->to != t->to || d->at_us < t->from_us)
        return false;
    t->beginning |= is_up;
    return true;
}

/* `at` hears of the end of its stream with `with` at at_us; not at all, if it would not even have heard of it by then. */
static void hear_later(struct bus *b, struct endpoint *at, struct endpoint *with, uint32_t calls,
                       int64_t at_us)
{
    struct tail tail = {with->number, at->number, at_us, false};

    queue_withdraw(&b->queue, is_in_tail, &tail);
    if (!tail.beginning)
        tell_later(b, at, with, calls, at_us - b->now_us);
}

void bus_break_unseen(struct bus *b, uint32_t x_ep, uint32_t y_ep, int64_t x_hears_us, int64_t y_hears_us)
{
    struct endpoint *x = endpoint(b, x_ep), *y = endpoint(b, y_ep);
    uint32_t x_calls, y_calls;
    bool x_dialled;

    if (!x->obj || !y->obj || !connected(x, y))
        return;
    x_dialled = is_dialler(x, y);
    x_calls = peer_number(x, y);
    y_calls = peer_number(y, x);
    unlink_streams(b, x, y);
    hear_later(b, x, y, x_calls, x_hears_us);
    hear_later(b, y, x, y_calls, y_hears_us);
    if (x_dialled)
        redial(b, x, y, x_hears_us + b->c.redial_us);
    else
        redial(b, y, x, y_hears_us + b->c.redial_us);
}

void bus_freeze(struct bus *b, uint32_t ep, int64_t until_us)
{
    struct endpoint *e = endpoint(b, ep);

    if (!e->obj || (e->frozen && e->frozen_us >= b->now_us))
        return;
    e->frozen = true;
    e->frozen_us = until_us;
}

/* ---- What passes tells the bus who is who ---- */

static void bind_node(struct bus *b, struct endpoint *e, node_id_t node)
{
    if (node.v >= b->by_node_n) {
        uint32_t n = node.v + 1 + b->by_node_n;

        b->by_node = xrealloc(b->by_node, n * sizeof *b->by_node);
        memset(b->by_node + b->by_node_n, 0, (n - b->by_node_n) * sizeof *b->by_node);
        b->by_node_n = n;
    }
    b->by_node[node.v] = e->number;
    e->node = node;
    if (e->role != ROLE_WORKER)
        return;
    for (uint32_t i = 0; i < b->dists_n; i++)
        dial(b, endpoint(b, b->dists[i]), e);
}

/* A dist heard of a member: dial it from now on, or no longer. */
static void heard_of(struct bus *b, struct endpoint *dist, node_id_t node, unsigned role, unsigned state)
{
    uint32_t ep = bus_endpoint(b, node);

    if (role != ROLE_WORKER)
        return;
    if (state == MEMBER_UP || state == MEMBER_DRAINING)
        set_add(&dist->wanted, node.v);
    else if (state == MEMBER_GONE)
        set_remove(&dist->wanted, node.v);
    if (ep)
        dial(b, dist, endpoint(b, ep));
}

static void note(struct bus *b, uint32_t from, struct endpoint *e, struct msg *m)
{
    if (m->type == MSG_JOINED)
        bind_node(b, e, m->joined.node);
    if (m->type == MSG_PEER_LOST && m->reserved == SEEN_LATE) {
        uint32_t i = find_unseen(b, e->number, from);

        m->reserved = 0;
        if (i < b->unseen_n)
            forget_unseen(b, i);
    }
    if (e->role != ROLE_DIST)
        return;
    if (m->type == MSG_MEMBER) {
        heard_of(b, e, m->member.node, m->member.role, m->member.state);
    } else if (m->type == MSG_MEMBERS) {
        const struct members *list = m->members.list;

        set_clear(&e->wanted);
        for (uint32_t i = 0; i < list->n; i++)
            heard_of(b, e, list->v[i].node, list->v[i].role, list->v[i].state);
    }
}

/* ---- Sending ---- */

/* Whom `e` calls `peer`, or NULL. */
static struct endpoint *find_peer(struct bus *b, const struct endpoint *e, uint32_t peer)
{
    uint32_t ep;

    if (e->role == ROLE_CENTRAL)
        ep = peer < b->links_n ? b->links[peer] : 0;
    else if (peer == NODE_CENTRAL.v)
        ep = b->central;
    else
        ep = bus_endpoint(b, (node_id_t){peer});
    return ep && endpoint(b, ep) != e ? endpoint(b, ep) : NULL;
}

/* A worker dials whom it sends something, and keeps what it uses. */
static bool reach(struct bus *b, struct endpoint *from, struct endpoint *to)
{
    bool among_workers = from->role == ROLE_WORKER && to->role == ROLE_WORKER;

    if (!to->obj)
        return false;
    if (among_workers && b->c.workers_meshed)
        return from->node.v && to->node.v;
    if (among_workers) {
        uint32_t i = find_dialled(from, to->number);

        if (i < from->dialled_n) {
            forget_dialled(from, i);
            from->dialled[from->dialled_n++] = to->number;
            return true;
        }
    }
    if (connected(from, to))
        return true;
    if (among_workers && from->node.v && to->node.v && !cut_until(b, from, to)) {
        connect_to(b, from, to);
        return true;
    }
    return false;
}

/* Takes over m's handles. */
static void send_message(struct bus *b, struct endpoint *from, struct msg *m)
{
    struct endpoint *to = find_peer(b, from, m->peer);

    if (to && is_unseen(b, from, to) && !connected(from, to)) {
        msg_drop(m);
        return;
    }
    if (to && reach(b, from, to)) {
        m->peer = peer_number(to, from);
        push(b, from, to, delay_between(b, from, to, m), m);
        return;
    }
    /* Central hears of every link's end anyway, and a link never comes back. */
    if (from->role != ROLE_CENTRAL)
        push_peer(b, MSG_PEER_LOST, to ? to : endpoint(b, 0), from, m->peer, 0);
    msg_drop(m);
}

/* ---- Stepping ---- */

/* When it wants a TIMER and can be given one. */
static int64_t timeout_of(const struct endpoint *e)
{
    int64_t at_us = e->fns.next_timeout(e->obj);

    return e->frozen && at_us < e->frozen_us ? e->frozen_us : at_us;
}

static void set_timer(struct bus *b, struct endpoint *e)
{
    int64_t at_us = timeout_of(e);

    if (!heap_in(&e->timer)) {
        if (at_us == TIME_NEVER)
            return;
        e->timer.key = at_us;
        CHECK(heap_push(&b->timers, &e->timer) == 0);
    } else if (at_us < e->timer.key || e->timer.key <= b->now_us) {
        /* Later than the key: that stays until it has come, since most timers are put off again and again. */
        if (at_us == TIME_NEVER)
            heap_remove(&b->timers, &e->timer);
        else
            heap_update(&b->timers, &e->timer, at_us, e->timer.seq);
    }
}

/* It has waited for that node in vain: it hears of the end at once, the other one as soon as anything reaches it. */
static void give_up(struct bus *b, struct endpoint *e, node_id_t node)
{
    uint32_t with = bus_endpoint(b, node);

    if (with)
        bus_break_unseen(b, e->number, with, b->now_us,
                         b->now_us + delay_between(b, e, endpoint(b, with), NULL));
}

/* A message that `e` put out, whose handles are gone then. */
static void carry(struct bus *b, struct endpoint *e, struct msg *m)
{
    if (msg_is_wire(m)) {
        send_message(b, e, m);
    } else if (m->type == MSG_GIVE_UP) {
        give_up(b, e, m->give_up.node);
    } else {
        b->c.effect(b->c.arg, e->number, b->now_us, m);
        msg_drop(m);
    }
    m->type = MSG_NONE;
}

/* Gives `e` one event, whose handles are dropped, and queues what comes out. A callback may end `e`. */
static void step(struct bus *b, uint32_t from, struct endpoint *e, struct event *event)
{
    void *obj = e->obj;
    uint32_t i;

    if (b->c.trace)
        b->c.trace(b->c.arg, b->now_us, from, e->number, &event->m);
    e->fns.step(obj, event, &b->out);
    msg_drop(&event->m);
    for (i = 0; i < b->out.n && e->obj == obj; i++)
        carry(b, e, &b->out.v[i]);
    if (i == b->out.n) /* nothing is left in it */
        b->out.n = 0;
    else
        out_clear(&b->out);
    if (e->obj != obj)
        return;
    set_timer(b, e);
    if (b->c.stepped)
        b->c.stepped(b->c.arg, e->number, b->now_us);
}

/* The first endpoint whose timer is due by then, or NULL. Puts off those whose key came too early. */
static struct endpoint *due_timer(struct bus *b, int64_t by_us)
{
    struct heap_node *first;

    while ((first = heap_min(&b->timers)) && first->key <= by_us) {
        struct endpoint *e = (struct endpoint *)first; /* its first member */
        int64_t at_us = timeout_of(e);

        if (at_us == first->key)
            return e;
        if (at_us == TIME_NEVER)
            heap_remove(&b->timers, first);
        else
            heap_update(&b->timers, first, at_us, first->seq);
    }
    return NULL;
}

static void advance(struct bus *b, int64_t t_us)
{
    int64_t real_us = b->c.clock_us ? b->c.clock_us(b->c.arg) : t_us;

    /* A shell may run what is due a little later than its clock shows: what follows from that comes after it. */
    if (real_us > t_us)
        t_us = real_us;
    if (t_us > b->now_us)
        b->now_us = t_us;
}

/* When a message that has arrived at ep is taken up; `waited`: it has waited for that already. */
static int64_t served_us(struct bus *b, uint32_t ep, bool waited, const struct msg *m)
{
    return b->c.serve_us && !waited && msg_is_wire(m) ? b->c.serve_us(b->c.arg, ep, b->now_us) : b->now_us;
}

static void run_timer(struct bus *b, struct endpoint *e)
{
    struct event timer;

    advance(b, e->timer.key);
    memset(&timer, 0, sizeof timer);
    timer.now_us = b->now_us;
    timer.m.type = MSG_TIMER;
    step(b, 0, e, &timer);
}

/* Hands over what queue_first found. */
static void deliver(struct bus *b, const struct delivery *first)
{
    struct event event = {.m = first->m};
    uint32_t from = first->from, to = first->to;
    bool waited = first->waited;
    struct endpoint *e = endpoint(b, to);
    int64_t at_us;

    advance(b, first->at_us);
    queue_drop_first(&b->queue); /* before anything is sent: `first` is gone then */
    /* Up to the end of the moment at which it thaws, so that nothing overtakes what has waited for it. */
    if (e->frozen && b->now_us <= e->frozen_us && !waited) {
        queue_push(&b->queue, false, e->frozen_us, from, to, &event.m)->waited = 1;
        return;
    }
    if (event.m.type == MSG_NONE) {
        dial(b, e, endpoint(b, from));
        return;
    }
    at_us = served_us(b, to, waited, &event.m);
    if (at_us > b->now_us) { /* its receiver is busy with others */
        queue_push(&b->queue, false, at_us, from, to, &event.m)->waited = 1;
        return;
    }
    event.now_us = b->now_us;
    note(b, from, e, &event.m);
    step(b, from, e, &event);
}

bool bus_run_one(struct bus *b, int64_t t_us)
{
    const struct heap_node *timer = heap_min(&b->timers);
    const struct delivery *first = queue_first(&b->queue);
    struct endpoint *e = NULL;

    CHECK(!b->running);
    if (first && first->at_us > t_us)
        first = NULL;
    if (timer && timer->key <= t_us)
        e = due_timer(b, first ? first->at_us - 1 : t_us); /* a message goes before a timer */
    if (!e && !first)
        return false;
    b->running = true;
    if (e)
        run_timer(b, e);
    else
        deliver(b, first);
    b->running = false;
    return true;
}

uint64_t bus_run_until(struct bus *b, int64_t t_us)
{
    uint64_t steps = 0;

    while (bus_run_one(b, t_us))
        steps++;
    if (!b->c.clock_us && t_us > b->now_us)
        b->now_us = t_us;
    return steps;
}

void bus_post(struct bus *b, uint32_t ep, int64_t at_us, const struct msg *m)
{
    if (!endpoint(b, ep)->obj) {
        struct msg gone = *m;

        msg_drop(&gone);
        return;
    }
    if (at_us <= b->now_us)
        queue_push(&b->queue, true, b->now_us, 0, ep, m);
    else
        queue_push(&b->queue, false, at_us, 0, ep, m);
}

/* ---- Reading ---- */

int64_t bus_next_time(struct bus *b)
{
    const struct delivery *first = queue_first(&b->queue);
    int64_t next_us = first ? first->at_us : TIME_NEVER;
    struct endpoint *e = due_timer(b, next_us);

    return e ? e->timer.key : next_us;
}

int64_t bus_now(const struct bus *b) { return b->now_us; }
uint64_t bus_pending(const struct bus *b) { return b->queue.n; }
bool bus_runs(const struct bus *b, uint32_t ep) { return endpoint(b, ep)->obj != NULL; }
enum role bus_role_of(const struct bus *b, uint32_t ep) { return endpoint(b, ep)->role; }
node_id_t bus_node(const struct bus *b, uint32_t ep) { return endpoint(b, ep)->node; }
uint32_t bus_endpoint(const struct bus *b, node_id_t node)
{
    return node.v < b->by_node_n ? b->by_node[node.v] : 0;
}
bool bus_connected(const struct bus *b, uint32_t x, uint32_t y)
{
    return connected(endpoint(b, x), endpoint(b, y));
}
