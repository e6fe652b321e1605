/* Streams between endpoints: they open and end here, and both ends hear of that. The rules for streams are
 * in peers/. */
#include "bus/internal.h"

#include <stdlib.h>
#include <string.h>

#define OPEN_US (5 * US_PER_S) /* as LINK_OPEN_US in net/link.h: a node that gets no answer gives up */

/* ---- Sets of numbers ---- */

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

/* ---- What is on its way ---- */

/* Finds a news of an end. name: that of NODE_NONE means any. */
static uint32_t find_ending(const struct bus *b, uint32_t at, uint32_t with, enum peers_side side,
                            uint32_t name)
{
    uint32_t i = 0;

    while (i < b->endings_n && (b->endings[i].at != at || b->endings[i].with != with ||
                                b->endings[i].side != side || (name && b->endings[i].name != name)))
        i++;
    return i;
}

bool streams_is_ending(const struct bus *b, const struct endpoint *at, const struct endpoint *with,
                       enum peers_side side, uint32_t name)
{
    return find_ending(b, at->number, with->number, side, name) < b->endings_n;
}

static void forget_ending(struct bus *b, uint32_t at, uint32_t with, enum peers_side side, uint32_t name)
{
    uint32_t i = find_ending(b, at, with, side, name);

    CHECK(i < b->endings_n);
    b->endings[i] = b->endings[--b->endings_n];
}

/* Selects messages of one stream that are on their way to one of its ends. */
struct tail {
    struct bus *b;
    uint32_t from, to;
    enum peers_side side; /* which of the receiver's streams it is */
    bool workers;         /* both ends are workers: they may have two streams */
    int64_t from_us;      /* only messages that do not arrive before */
    bool all;             /* also messages that have arrived and wait for the receiver */
    bool events_only;     /* no messages */
    bool ups, losts;      /* also the news of its beginning, and of its end */
    bool beginning;       /* set when the news of its beginning is among them */
    uint32_t peer;        /* set when the news of its end was: the receiver's name of the sender */
    bool ending;          /* set when the news of its end was, and has left b->endings */
    uint32_t named;       /* only events of the stream that the receiver knows by this name; 0: any */
};

static struct tail tail_of(struct bus *b, const struct endpoint *from, const struct endpoint *to,
                           enum peers_side side)
{
    return (struct tail){.b = b,
                         .from = from->number,
                         .to = to->number,
                         .side = side,
                         .workers = from->role == ROLE_WORKER && to->role == ROLE_WORKER};
}

/* A thief's messages come on the stream that the receiver accepted. No other message from a worker does. */
static bool is_on(const struct tail *t, const struct msg *m)
{
    return !t->workers || peers_is_thiefs(m->type) == (t->side == PEERS_ACCEPTED);
}

static enum peers_side side_of(const struct msg *event)
{
    return event->stream_flags & STREAM_DIALLED ? PEERS_DIALLED : PEERS_ACCEPTED;
}

static bool is_in_tail(void *arg, const struct delivery *d)
{
    struct tail *t = arg;
    bool event = d->m.stream_flags & STREAM_EVENT, is_up = d->m.type == MSG_PEER_UP;

    /* Messages that have arrived wait for their receiver, in order. */
    if (d->from != t->from || d->to != t->to || d->at_us < t->from_us || (d->waited && !t->all))
        return false;
    if (!event)
        return !t->events_only && msg_is_wire(&d->m) && is_on(t, &d->m);
    if (side_of(&d->m) != t->side || (t->named && d->m.peer != t->named))
        return false;
    t->beginning |= is_up;
    if (is_up || !t->losts)
        return is_up && t->ups;
    t->peer = d->m.peer;
    if (d->m.stream_flags & STREAM_ENDING) {
        t->ending = true;
        forget_ending(t->b, t->to, t->from, t->side, d->m.peer);
    }
    return true;
}

static void push_event(struct bus *b, enum msg_type type, const struct endpoint *from,
                       const struct endpoint *to, uint32_t peer, unsigned flags, int64_t delay_us)
{
    struct msg m;

    memset(&m, 0, sizeof m);
    m.type = (uint16_t)type;
    m.stream_flags = (uint16_t)(STREAM_EVENT | flags);
    m.peer = peer;
    bus_push(b, from, to, delay_us, &m);
}

/* `at` hears that its stream with `with` has ended. */
static void push_lost(struct bus *b, const struct endpoint *with, const struct endpoint *at, uint32_t calls,
                      enum peers_side side, int64_t delay_us)
{
    push_event(b, MSG_PEER_LOST, with, at, calls,
               STREAM_ENDING | (side == PEERS_DIALLED ? STREAM_DIALLED : 0), delay_us);
    vec_grow(b->endings, b->endings_n, b->endings_cap);
    b->endings[b->endings_n++] = (struct ending){at->number, with->number, side, calls};
}

/* After delay_us, `at` hears of a new stream that `with` has dialled. If it has not heard by then of the
 * old stream's end, it hears of that right before. In central every stream has a number of its own. */
static void see_end(struct bus *b, struct endpoint *at, struct endpoint *with, int64_t delay_us)
{
    struct tail tail = tail_of(b, with, at, PEERS_ACCEPTED);

    if (at->role == ROLE_CENTRAL || !streams_is_ending(b, at, with, PEERS_ACCEPTED, 0))
        return;
    tail.losts = true;
    /* A delivery without delay goes before all others of its time. */
    tail.from_us = delay_us > 0 ? b->now_us + delay_us + 1 : b->now_us;
    queue_withdraw(&b->queue, is_in_tail, &tail);
    if (tail.ending)
        push_lost(b, with, at, tail.peer, PEERS_ACCEPTED, delay_us);
}

/* ---- Beginnings ---- */

static void connect_to(struct bus *b, struct endpoint *x, struct endpoint *y)
{
    see_end(b, y, x, bus_delay(b, x, y, NULL));
    if (y->role == ROLE_CENTRAL) {
        vec_grow(b->links, b->links_n, b->links_cap);
        b->links[b->links_n] = x->number;
        x->link = b->links_n++;
    } else {
        set_add(&x->dialled, y->number);
    }
    push_event(b, MSG_PEER_UP, y, x, bus_peer_number(x, y), STREAM_DIALLED, 0);
    push_event(b, MSG_PEER_UP, x, y, bus_peer_number(y, x), 0, bus_delay(b, x, y, NULL));
}

/* The cut between x and y that lasts longest; NULL: none. */
static const struct cut *cut_between(const struct bus *b, const struct endpoint *x, const struct endpoint *y)
{
    const struct cut *found = NULL;

    for (uint32_t i = 0; i < b->cuts_n; i++) {
        const struct cut *k = &b->cuts[i];

        if (k->until_us > b->now_us && (!found || k->until_us > found->until_us) &&
            ((k->x == x->number && k->y == y->number) || (k->x == y->number && k->y == x->number)))
            found = k;
    }
    return found;
}

/* x dials. Nobody answers, another node does, or nothing comes back at all. */
static void dial_endpoint(struct bus *b, struct endpoint *x, const struct peers_action *a)
{
    bool is_central = a->peer == NODE_CENTRAL.v;
    struct endpoint *y = endpoint(b, is_central ? b->central : bus_endpoint(b, (node_id_t){a->peer}));
    const struct cut *k = cut_between(b, x, y);
    bool listens = y->obj && y != x && (is_central || y->node.v == a->peer) &&
                   (!a->addr || !y->addr || strcmp(a->addr->data, y->addr) == 0);
    int64_t delay_us = 0;

    if (listens && !k) {
        connect_to(b, x, y);
        return;
    }
    if (k && k->silent)
        delay_us = earlier(k->until_us - b->now_us, OPEN_US);
    push_event(b, MSG_PEER_LOST, y, x, a->peer, STREAM_DIALLED, delay_us);
}

/* ---- Ends ---- */

static void unlink_stream(struct bus *b, struct endpoint *x, struct endpoint *y)
{
    if (y->role == ROLE_CENTRAL) {
        b->links[x->link] = 0;
        x->link = 0;
    } else {
        set_remove(&x->dialled, y->number);
    }
}

/* Ends the stream that x dialled to y. Each end that runs hears of it after its delay. */
static void end_stream(struct bus *b, struct endpoint *x, struct endpoint *y, int64_t x_hears_us,
                       int64_t y_hears_us)
{
    uint32_t x_calls = bus_peer_number(x, y), y_calls = bus_peer_number(y, x);

    unlink_stream(b, x, y);
    if (x->obj)
        push_lost(b, y, x, x_calls, PEERS_DIALLED, x_hears_us);
    if (y->obj)
        push_lost(b, x, y, y_calls, PEERS_ACCEPTED, y_hears_us);
}

/* A side that hears of the stream's beginning with a delay hears of its end with the same delay, and so in
 * order. */
static void break_stream(struct bus *b, struct endpoint *x, struct endpoint *y)
{
    struct tail to_x = tail_of(b, y, x, PEERS_DIALLED), to_y = tail_of(b, x, y, PEERS_ACCEPTED);

    if (!bus_has_dialled(x, y))
        return;
    to_x.all = to_y.all = true;
    queue_withdraw(&b->queue, is_in_tail, &to_x);
    queue_withdraw(&b->queue, is_in_tail, &to_y);
    end_stream(b, x, y, 0, bus_delay(b, x, y, NULL));
}

/* Each end still gets the messages that reach it before it hears of the stream's end. An end that has not
 * even heard of the beginning by then hears of both, one right after the other. */
static void break_stream_unseen(struct bus *b, struct endpoint *x, struct endpoint *y, int64_t x_hears_us,
                                int64_t y_hears_us)
{
    struct tail to_x = tail_of(b, y, x, PEERS_DIALLED), to_y = tail_of(b, x, y, PEERS_ACCEPTED);

    if (!bus_has_dialled(x, y))
        return;
    to_x.all = to_y.all = true;
    to_x.from_us = x_hears_us;
    to_y.from_us = y_hears_us;
    queue_withdraw(&b->queue, is_in_tail, &to_x);
    queue_withdraw(&b->queue, is_in_tail, &to_y);
    end_stream(b, x, y, x_hears_us - b->now_us,
               to_y.beginning ? bus_delay(b, x, y, NULL) : y_hears_us - b->now_us);
}

/* e closes its stream and hears nothing of it any more. The other end gets the messages that were sent. By
 * now e may know another process there by another name; that one's stream stays. */
static void close_stream(struct bus *b, struct endpoint *e, uint32_t peer)
{
    struct endpoint *y = endpoint(b, bus_endpoint(b, (node_id_t){peer}));
    struct tail to_e = tail_of(b, y, e, PEERS_DIALLED);
    bool open = y->node.v == peer && bus_has_dialled(e, y);

    to_e.all = to_e.ups = to_e.losts = true;
    to_e.events_only = !open;
    to_e.named = peer;
    queue_withdraw(&b->queue, is_in_tail, &to_e);
    if (!open)
        return;
    unlink_stream(b, e, y);
    push_lost(b, e, y, bus_peer_number(y, e), PEERS_ACCEPTED, bus_delay(b, e, y, NULL));
}

/* Endpoint `now` has the id of e's peer, and a stream to e. The endpoint that had the id before is cut
 * off. */
static void drop_older(struct bus *b, struct endpoint *e, uint32_t peer, uint32_t now)
{
    for (uint32_t i = 1; i < b->eps_n; i++) {
        struct endpoint *x = endpoint(b, i);
        struct tail to_e = tail_of(b, x, e, PEERS_ACCEPTED);

        if (i == now || x->node.v != peer || x == e)
            continue;
        to_e.all = to_e.ups = to_e.losts = true;
        if (bus_has_dialled(x, e)) {
            unlink_stream(b, x, e);
            push_lost(b, e, x, bus_peer_number(x, e), PEERS_DIALLED, 0);
        }
        queue_withdraw(&b->queue, is_in_tail, &to_e);
    }
}

static void end_one(struct bus *b, struct endpoint *e, struct endpoint *other, bool e_dialled, bool in_order)
{
    /* The node that dialled sees at once that a process has died. */
    int64_t delay_us = e_dialled || in_order ? bus_delay(b, e, other, NULL) : 0;

    if (e_dialled)
        end_stream(b, e, other, 0, delay_us);
    else
        end_stream(b, other, e, delay_us, 0);
}

void streams_end_all(struct bus *b, struct endpoint *e, bool in_order)
{
    for (uint32_t i = 1; i < b->eps_n; i++) {
        struct endpoint *other = endpoint(b, i);

        if (other == e || !other->obj)
            continue;
        if (e->role != ROLE_CENTRAL && bus_has_dialled(e, other))
            end_one(b, e, other, true, in_order);
        if (other->role != ROLE_CENTRAL && bus_has_dialled(other, e))
            end_one(b, e, other, false, in_order);
    }
    for (uint32_t i = b->endings_n; i-- > 0;)
        if (b->endings[i].at == e->number)
            b->endings[i] = b->endings[--b->endings_n];
}

/* ---- The rules ---- */

/* Sets when the bus looks at e's rules. */
static void wake_endpoint(struct bus *b, struct endpoint *e)
{
    int64_t at_us = peers_next_timeout(e->peers);
    struct msg none;

    if (at_us >= e->wake_us)
        return;
    if (at_us < b->now_us)
        at_us = b->now_us;
    e->wake_us = at_us;
    memset(&none, 0, sizeof none);
    queue_push(&b->queue, at_us == b->now_us, at_us, 0, e->number, &none);
}

static void send_on(struct bus *b, struct endpoint *e, struct msg *m)
{
    struct endpoint *to = bus_find_peer(b, e, m->peer);

    if (!to || !bus_has_dialled(e, to) || streams_is_ending(b, e, to, PEERS_DIALLED, m->peer)) {
        msg_drop(m); /* the news of its end is on the way */
        return;
    }
    m->peer = bus_peer_number(to, e);
    bus_push(b, e, to, bus_delay(b, e, to, m), m);
}

static void break_named(struct bus *b, struct endpoint *e, const struct peers_action *a)
{
    struct endpoint *with = bus_find_peer(b, e, a->peer);

    if (!with)
        return;
    int64_t with_hears_us = b->now_us + bus_delay(b, e, with, NULL);
    if (a->side == PEERS_DIALLED)
        break_stream_unseen(b, e, with, b->now_us, with_hears_us);
    else
        break_stream_unseen(b, with, e, with_hears_us, b->now_us);
}

static void tell_endpoint(struct bus *b, struct endpoint *e, uint32_t from, struct msg *m)
{
    struct event event;

    if (m->type == MSG_JOINED)
        bus_bind_node(b, e, m->joined.node);
    event.now_us = b->now_us;
    event.m = *m;
    m->type = MSG_NONE; /* its handles go with the event */
    bus_step(b, from, e, &event);
}

static void tell_later(struct bus *b, const struct endpoint *e, uint32_t from, struct msg *m)
{
    bus_push(b, endpoint(b, from), e, 0, m);
    m->type = MSG_NONE;
}

static void act_on_stream(struct bus *b, struct endpoint *e, uint32_t from, struct peers_action *a)
{
    switch ((enum peers_what)a->what) {
    case PEERS_DIAL:
        dial_endpoint(b, e, a);
        break;
    case PEERS_CLOSE:
        close_stream(b, e, a->peer);
        break;
    case PEERS_BREAK:
        break_named(b, e, a);
        break;
    case PEERS_DROP:
        drop_older(b, e, a->peer, from);
        break;
    case PEERS_SEND:
        send_on(b, e, &a->m);
        a->m.type = MSG_NONE;
        break;
    case PEERS_REFUSE:
        CHECK(a->what != PEERS_REFUSE); /* only nodes that may dial do, and those have an id by then */
        break;
    case PEERS_ADMIT: /* streams are named by their two ends */
    case PEERS_TELL:
        break;
    }
}

void streams_act(struct bus *b, struct endpoint *e, uint32_t from, struct peers_out *out, bool within)
{
    const struct peers *rules = e->peers;

    /* A step may end e. */
    for (uint32_t i = 0; i < out->n && e->peers == rules; i++) {
        struct peers_action *a = &out->v[i];

        if (a->what != PEERS_TELL)
            act_on_stream(b, e, from, a);
        else if (within)
            tell_later(b, e, from, &a->m);
        else
            tell_endpoint(b, e, from, &a->m);
    }
    peers_out_clear(out);
    if (e->peers == rules)
        wake_endpoint(b, e);
}

void streams_event(struct bus *b, struct endpoint *e, uint32_t from, const struct msg *m)
{
    const struct endpoint *other = endpoint(b, from);
    enum peers_side side = side_of(m);

    if (m->type == MSG_NONE) {
        if (b->now_us >= e->wake_us)
            e->wake_us = TIME_NEVER;
        peers_timer(e->peers, b->now_us, &b->given);
    } else if (m->type == MSG_PEER_LOST) {
        if (m->stream_flags & STREAM_ENDING)
            forget_ending(b, e->number, from, side, m->peer);
        peers_ended(e->peers, b->now_us, m->peer, side, other->role, false, &b->given);
    } else if (side == PEERS_DIALLED) {
        peers_opened(e->peers, b->now_us, m->peer, other->role, other->node, PROTOCOL_VERSION, &b->given);
    } else {
        peers_accepted(e->peers, m->peer, other->role, PROTOCOL_VERSION, &b->given);
    }
    streams_act(b, e, from, &b->given, false);
}

/* ---- What a shell does to them ---- */

/* All streams between the two, in either direction. */
void bus_break(struct bus *b, uint32_t x, uint32_t y)
{
    struct endpoint *ex = endpoint(b, x), *ey = endpoint(b, y);

    if (ex->role != ROLE_CENTRAL)
        break_stream(b, ex, ey);
    if (ey->role != ROLE_CENTRAL)
        break_stream(b, ey, ex);
}

void bus_break_unseen(struct bus *b, uint32_t x, uint32_t y, int64_t x_hears_us, int64_t y_hears_us)
{
    struct endpoint *ex = endpoint(b, x), *ey = endpoint(b, y);

    if (ex->role != ROLE_CENTRAL)
        break_stream_unseen(b, ex, ey, x_hears_us, y_hears_us);
    if (ey->role != ROLE_CENTRAL)
        break_stream_unseen(b, ey, ex, y_hears_us, x_hears_us);
}

static void add_cut(struct bus *b, struct cut cut)
{
    uint32_t i = 0;

    while (i < b->cuts_n && b->cuts[i].until_us > b->now_us)
        i++;
    if (i == b->cuts_n) {
        vec_grow(b->cuts, b->cuts_n, b->cuts_cap);
        b->cuts_n++;
    }
    b->cuts[i] = cut;
}

void bus_bar(struct bus *b, uint32_t x, uint32_t y, int64_t until_us)
{
    add_cut(b, (struct cut){x, y, until_us, true});
}

void bus_cut(struct bus *b, uint32_t x, uint32_t y, int64_t until_us)
{
    add_cut(b, (struct cut){x, y, until_us, false});
    bus_break(b, x, y);
}
