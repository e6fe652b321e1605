/* Endpoints, and the loop that steps them. Streams are in streams.c. */
#include "bus/internal.h"

#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

/* ---- Making ---- */

struct bus *bus_new(const struct bus_config *c)
{
    struct bus *b = xcalloc(1, sizeof *b);

    b->c = *c;
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
        free(endpoint(b, i)->dialled.bits);
        free(endpoint(b, i)->addr);
        peers_free(endpoint(b, i)->peers);
    }
    for (uint32_t i = 0; i < b->chunks_n; i++)
        free(b->chunks[i]);
    free(b->chunks);
    free(b->links);
    free(b->by_node);
    free(b->cuts);
    free(b->endings);
    peers_out_free(&b->given);
    peers_out_free(&b->within);
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
    return e->number;
}

/* ---- Starting and ending ---- */

void bus_listen(struct bus *b, uint32_t ep, const char *addr)
{
    struct endpoint *e = endpoint(b, ep);

    free(e->addr);
    e->addr = addr ? xstrdup(addr) : NULL;
}

static struct peers *rules_of(struct bus *b, const struct endpoint *e, const struct bus_role *r)
{
    return peers_new(&(struct peers_config){.role = e->role,
                                            .seed = hash_pair(b->c.seed, ++b->starts),
                                            .id = r->id,
                                            .cluster = r->cluster,
                                            .victims = b->c.steal_streams});
}

void bus_start(struct bus *b, uint32_t ep, const struct bus_role *r, void *role)
{
    struct endpoint *e = endpoint(b, ep);
    struct msg start;

    CHECK(!e->obj && role);
    e->step = r->fns->step;
    e->next_timeout = r->fns->next_timeout;
    e->obj = role;
    e->node = NODE_NONE;
    e->peers = rules_of(b, e, r);
    e->wake_us = TIME_NEVER;
    memset(&start, 0, sizeof start);
    start.type = MSG_START;
    bus_push(b, endpoint(b, 0), e, 0, &start);
    if (e->role == ROLE_CENTRAL) {
        CHECK(!b->central);
        b->central = ep;
    }
    peers_start(e->peers, &b->within);
    streams_act(b, e, 0, &b->within, true);
}

static bool is_to(void *arg, const struct delivery *d) { return d->to == *(const uint32_t *)arg; }

static bool is_to_or_sent_by(void *arg, const struct delivery *d)
{
    uint32_t ep = *(const uint32_t *)arg;

    return d->to == ep || (d->from == ep && msg_is_wire(&d->m));
}

static void remove_object(struct bus *b, uint32_t ep, bool in_order)
{
    struct endpoint *e = endpoint(b, ep);

    if (!e->obj)
        return;
    e->obj = NULL;
    if (heap_in(&e->timer))
        heap_remove(&b->timers, &e->timer);
    queue_withdraw(&b->queue, in_order ? is_to : is_to_or_sent_by, &ep);
    streams_end_all(b, e, in_order);
    peers_free(e->peers);
    e->peers = NULL;
    e->frozen = false;
    if (b->central == ep)
        b->central = 0;
}

void bus_kill(struct bus *b, uint32_t ep) { remove_object(b, ep, false); }
void bus_close(struct bus *b, uint32_t ep) { remove_object(b, ep, true); }

void bus_freeze(struct bus *b, uint32_t ep, int64_t until_us)
{
    struct endpoint *e = endpoint(b, ep);

    if (!e->obj || (e->frozen && e->frozen_us >= b->now_us))
        return;
    e->frozen = true;
    e->frozen_us = until_us;
}

/* The bus learns node ids from the messages that it carries. */
void bus_bind_node(struct bus *b, struct endpoint *e, node_id_t node)
{
    if (node.v >= b->by_node_n) {
        uint32_t n = node.v + 1 + b->by_node_n;

        b->by_node = xrealloc(b->by_node, n * sizeof *b->by_node);
        memset(b->by_node + b->by_node_n, 0, (n - b->by_node_n) * sizeof *b->by_node);
        b->by_node_n = n;
    }
    b->by_node[node.v] = e->number;
    e->node = node;
}

/* ---- Sending ---- */

/* Whether the bus sends m without asking the rules: there is a stream for it, and m is nothing special. */
static bool may_pass(const struct bus *b, const struct endpoint *from, const struct endpoint *to,
                     const struct msg *m)
{
    if (from->role == ROLE_WORKER && to->role == ROLE_WORKER) {
        if (b->c.workers_meshed)
            return to->obj && from->node.v;
        return !peers_is_thiefs(m->type) && bus_has_dialled(to, from);
    }
    if (from->role == ROLE_CENTRAL || (from->role == ROLE_WORKER && to->role == ROLE_DIST))
        return bus_has_dialled(to, from);
    return bus_has_dialled(from, to);
}

/* Takes over m's handles. */
static void send_message(struct bus *b, struct endpoint *from, struct msg *m)
{
    struct endpoint *to = bus_find_peer(b, from, m->peer);

    if (to && may_pass(b, from, to, m) &&
        (b->endings_n == 0 || from->role == ROLE_CENTRAL ||
         !streams_is_ending(b, from, to, peers_side_of(from->role, m), m->peer))) {
        m->peer = bus_peer_number(to, from);
        bus_push(b, from, to, bus_delay(b, from, to, m), m);
        return;
    }
    peers_send(from->peers, b->now_us, m, &b->within);
    streams_act(b, from, to ? to->number : 0, &b->within, true);
    msg_drop(m);
}

/* ---- Stepping ---- */

/* Returns when the endpoint wants a TIMER and can get one. */
static int64_t timeout_of(const struct endpoint *e)
{
    int64_t at_us = e->next_timeout(e->obj);

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
        /* If the time is later than the key, the key stays until it has come, since most timers are put
         * off again and again. */
        if (at_us == TIME_NEVER)
            heap_remove(&b->timers, &e->timer);
        else
            heap_update(&b->timers, &e->timer, at_us, e->timer.seq);
    }
}

/* Sends or hands over a message that `e` put out. Its handles are gone then. */
static void carry_message(struct bus *b, struct endpoint *e, struct msg *m)
{
    if (msg_is_wire(m)) {
        send_message(b, e, m);
    } else if (m->type == MSG_GIVE_UP) {
        peers_give_up(e->peers, m->give_up.node.v, &b->within);
        streams_act(b, e, 0, &b->within, true);
    } else {
        b->c.effect(b->c.arg, e->number, b->now_us, m);
        msg_drop(m);
    }
    m->type = MSG_NONE;
}

void bus_step(struct bus *b, uint32_t from, struct endpoint *e, struct event *event)
{
    void *obj = e->obj;
    uint32_t i;

    if (b->c.trace)
        b->c.trace(b->c.arg, b->now_us, from, e->number, &event->m);
    e->step(obj, event, &b->out);
    msg_drop(&event->m);
    for (i = 0; i < b->out.n && e->obj == obj; i++)
        carry_message(b, e, &b->out.v[i]);
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

static void advance_clock(struct bus *b, int64_t t_us)
{
    int64_t real_us = b->c.clock_us ? b->c.clock_us(b->c.arg) : t_us;

    /* A shell may run steps that are due a little later than its clock shows. What follows from them comes
     * after them. */
    if (real_us > t_us)
        t_us = real_us;
    if (t_us > b->now_us)
        b->now_us = t_us;
}

/* Returns when ep takes up a message that has arrived. `waited`: the message has waited for that already. */
static int64_t served_us(struct bus *b, uint32_t ep, bool waited, const struct msg *m)
{
    return b->c.serve_us && !waited && msg_is_wire(m) ? b->c.serve_us(b->c.arg, ep, b->now_us) : b->now_us;
}

static void run_timer(struct bus *b, struct endpoint *e)
{
    struct event timer;

    advance_clock(b, e->timer.key);
    memset(&timer, 0, sizeof timer);
    timer.now_us = b->now_us;
    timer.m.type = MSG_TIMER;
    bus_step(b, 0, e, &timer);
}

/* Meshed workers do not need each other's addresses. */
static bool is_all_the_same(const struct bus *b, const struct endpoint *e, const struct msg *m)
{
    return b->c.workers_meshed && e->role == ROLE_WORKER && m->type != MSG_JOINED;
}

/* Delivers what queue_first found. */
static void deliver_first(struct bus *b, const struct delivery *first)
{
    struct event event = {.m = first->m};
    uint32_t from = first->from, to = first->to;
    bool waited = first->waited;
    struct endpoint *e = endpoint(b, to);
    int64_t at_us;

    advance_clock(b, first->at_us);
    queue_drop_first(&b->queue); /* must come before anything is sent, since `first` is gone then */
    /* The endpoint gets deliveries only when it has thawed. This includes the moment at which it thaws, so
     * that none overtakes those that have waited. */
    if (e->frozen && b->now_us <= e->frozen_us && !waited) {
        queue_push(&b->queue, false, e->frozen_us, from, to, &event.m)->waited = 1;
        return;
    }
    if (event.m.type == MSG_NONE || event.m.stream_flags & STREAM_EVENT) {
        streams_event(b, e, from, &event.m);
        return;
    }
    at_us = served_us(b, to, waited, &event.m);
    if (at_us > b->now_us) { /* its receiver is busy with others */
        queue_push(&b->queue, false, at_us, from, to, &event.m)->waited = 1;
        return;
    }
    if (peers_looks_at(event.m.type) && e->role != ROLE_CENTRAL && !is_all_the_same(b, e, &event.m)) {
        peers_central_says(e->peers, &event.m, &b->given);
        msg_drop(&event.m);
        streams_act(b, e, from, &b->given, false);
        return;
    }
    event.now_us = b->now_us;
    bus_step(b, from, e, &event);
}

bool bus_run_one(struct bus *b, int64_t t_us)
{
    const struct heap_node *timer = heap_min(&b->timers);
    const struct delivery *first = queue_first(&b->queue);
    struct endpoint *e = NULL;

    CHECK(!b->running);
    if (first && first->at_us > t_us)
        first = NULL;
    if (first)
        t_us = first->at_us - 1; /* messages go before timers */
    if (timer && timer->key <= t_us)
        e = due_timer(b, t_us);
    if (!e && !first)
        return false;
    b->running = true;
    if (e)
        run_timer(b, e);
    else
        deliver_first(b, first);
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
void bus_check(const struct bus *b, uint32_t ep)
{
    if (endpoint(b, ep)->peers)
        peers_check(endpoint(b, ep)->peers);
}
bool bus_runs(const struct bus *b, uint32_t ep) { return endpoint(b, ep)->obj != NULL; }
enum role bus_role_of(const struct bus *b, uint32_t ep) { return endpoint(b, ep)->role; }
uint32_t bus_endpoint(const struct bus *b, node_id_t node)
{
    return node.v < b->by_node_n ? b->by_node[node.v] : 0;
}
