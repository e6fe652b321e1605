/* The rules of one node's connections: see peers.h. The rules for victims are in victims.c. */
#include "peers/internal.h"

#include "base/check.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Actions ---- */

struct peers_action *peers_put(struct peers_out *out, enum peers_what what, uint32_t peer,
                               enum peers_side side)
{
    struct peers_action *a;

    vec_grow(out->v, out->n, out->cap);
    a = &out->v[out->n++];
    a->what = (uint8_t)what;
    a->side = (uint8_t)side;
    a->peer = peer;
    a->addr = NULL;
    a->why = NULL;
    a->m.type = MSG_NONE;
    return a;
}

void peers_out_clear(struct peers_out *o)
{
    for (uint32_t i = 0; i < o->n; i++) {
        if (o->v[i].addr)
            blob_drop(o->v[i].addr);
        if (o->v[i].m.type != MSG_NONE)
            msg_drop(&o->v[i].m);
    }
    o->n = 0;
}

void peers_out_free(struct peers_out *o)
{
    peers_out_clear(o);
    free(o->v);
    *o = (struct peers_out){0};
}

static void put_end(struct peers_out *out, enum peers_what what, uint32_t peer, enum peers_side side, int err,
                    const char *why)
{
    struct peers_action *a = peers_put(out, what, peer, side);

    a->err = err;
    a->why = why;
}

void peers_copy(struct peers_out *out, enum peers_what what, enum peers_side side, const struct msg *m)
{
    struct peers_action *a = peers_put(out, what, m->peer, side);

    a->m = *m;
    msg_ref(&a->m);
}

static struct msg *put_event(struct peers_out *out, enum msg_type type, uint32_t peer)
{
    struct msg *m = &peers_put(out, PEERS_TELL, peer, PEERS_DIALLED)->m;

    memset(m, 0, sizeof *m);
    m->type = (uint16_t)type;
    m->peer = peer;
    return m;
}

static void tell_up(struct peers_out *out, uint32_t peer, enum role role, unsigned version)
{
    struct msg *m = put_event(out, MSG_PEER_UP, peer);

    m->peer_up.role = (uint8_t)role;
    m->peer_up.version = (uint8_t)version;
}

void peers_tell_lost(struct peers_out *out, uint32_t peer, enum role role)
{
    put_event(out, MSG_PEER_LOST, peer)->peer_lost.role = (uint8_t)role;
}

/* ---- Making ---- */

struct peers *peers_new(const struct peers_config *c)
{
    struct peers *p = xcalloc(1, sizeof *p);

    CHECK(c->role == ROLE_CENTRAL || c->role == ROLE_DIST || c->role == ROLE_WORKER);
    p->role = (uint8_t)c->role;
    p->id = c->id;
    p->cluster = c->cluster;
    p->places = c->places ? c->places : 1;
    p->victims_max = c->victims ? c->victims : PEERS_VICTIMS;
    rng_seed(&p->rng, c->seed);
    heap_init(&p->timers);
    list_init(&p->lru);
    return p;
}

/* ---- Lines: streams that are dialled again and again ---- */

/* A dist's line to a worker, or NULL. */
static struct line *line_find(const struct peers *p, uint32_t id)
{
    struct line *chunk = id / LINE_CHUNK < p->chunks ? p->lines[id / LINE_CHUNK] : NULL;

    return chunk ? &chunk[id % LINE_CHUNK] : NULL;
}

static struct line *line_get(struct peers *p, uint32_t id)
{
    uint32_t chunk = id / LINE_CHUNK;

    if (chunk >= p->chunks) {
        uint32_t n = chunk + 1 + p->chunks;

        p->lines = xrealloc(p->lines, n * sizeof(*p->lines));
        memset(p->lines + p->chunks, 0, (n - p->chunks) * sizeof(*p->lines));
        p->chunks = n;
    }
    if (!p->lines[chunk])
        p->lines[chunk] = xcalloc(LINE_CHUNK, sizeof *p->lines[chunk]);
    return &p->lines[chunk][id % LINE_CHUNK];
}

static bool is_central(const struct peers *p, uint32_t id)
{
    return id == NODE_CENTRAL.v && p->role != ROLE_CENTRAL;
}

static void timer_clear(struct peers *p, struct line *k)
{
    if (!k->timer)
        return;
    heap_remove(&p->timers, k->timer);
    free(k->timer);
    k->timer = NULL;
}

static void line_dial(struct peers *p, struct line *k, uint32_t id, struct peers_out *out)
{
    struct peers_action *a = peers_put(out, PEERS_DIAL, id, PEERS_DIALLED);

    timer_clear(p, k);
    k->state = LINE_OPENING;
    if (k->addr)
        a->addr = blob_ref(k->addr);
    a->place = p->place;
}

static void line_wait(struct peers *p, struct line *k, uint32_t id, int64_t at_us)
{
    CHECK(!k->timer);
    k->timer = xcalloc(1, sizeof *k->timer);
    k->timer->key = at_us;
    k->timer->seq = id;
    CHECK(heap_push(&p->timers, k->timer) == 0);
    k->state = LINE_WAITING;
}

static void line_forget(struct peers *p, struct line *k)
{
    timer_clear(p, k);
    blob_drop(k->addr);
    *k = (struct line){.state = LINE_NONE};
}

void peers_free(struct peers *p)
{
    if (!p)
        return;
    for (uint32_t i = 0; i < p->chunks; i++) {
        for (uint32_t k = 0; p->lines[i] && k < LINE_CHUNK; k++)
            line_forget(p, &p->lines[i][k]);
        free(p->lines[i]);
    }
    free(p->lines);
    free(p->central.timer);
    free(p->accepted.v);
    peers_victims_free(p);
    members_drop(p->members);
    heap_free(&p->timers);
    free(p);
}

/* Closes a line without telling the role; the caller does so where the role has to hear of it. */
static void line_close(struct peers *p, struct line *k, uint32_t id, struct peers_out *out)
{
    if (k->state != LINE_NONE)
        peers_put(out, PEERS_CLOSE, id, PEERS_DIALLED);
    timer_clear(p, k);
    k->state = LINE_NONE;
}

static void line_lose(struct peers *p, struct line *k, uint32_t id, struct peers_out *out)
{
    bool was_open = k->state == LINE_OPEN;

    line_close(p, k, id, out);
    if (was_open)
        peers_tell_lost(out, id, ROLE_WORKER);
}

/* A stream that held for a while shows that its peer is well, so the delays begin anew. */
static void line_ended(struct line *k, int64_t now_us)
{
    if (k->state == LINE_OPEN && now_us - k->open_us > BACKOFF_MAX_US)
        k->delay_us = 0;
    k->state = LINE_NONE;
}

/* ---- Central ---- */

void peers_start(struct peers *p, struct peers_out *out)
{
    if (p->role != ROLE_CENTRAL)
        line_dial(p, &p->central, NODE_CENTRAL.v, out);
}

static void central_ended(struct peers *p, int64_t now_us, bool hung_up, struct peers_out *out)
{
    bool was_open = p->central.state == LINE_OPEN;

    line_ended(&p->central, now_us);
    p->place = (p->place + 1) % p->places;
    int64_t delay_us =
        backoff_next_addr(&p->central.delay_us, p->place == 0, p->places > 1, hung_up, &p->rng);
    line_wait(p, &p->central, NODE_CENTRAL.v, now_us + delay_us);
    if (was_open)
        peers_tell_lost(out, NODE_CENTRAL.v, ROLE_CENTRAL);
}

static void central_opened(struct peers *p, int64_t now_us, enum role role, unsigned version,
                           struct peers_out *out)
{
    if (role != ROLE_CENTRAL) {
        put_end(out, PEERS_BREAK, NODE_CENTRAL.v, PEERS_DIALLED, HAWK_EINVALID,
                "it is not central that answers there: give central's address");
        return;
    }
    p->central.state = LINE_OPEN;
    p->central.open_us = now_us;
    tell_up(out, NODE_CENTRAL.v, ROLE_CENTRAL, version);
}

/* Whether this central was replaced and does not know it. It may say nothing to this node any more
 * (docs/protocol.md 10). */
static bool is_outdated(const struct peers *p, const struct msg_joined *m, struct peers_out *out)
{
    if (m->cluster != p->cluster || m->central_epoch >= p->epoch)
        return false;
    snprintf(out->why, sizeof out->why, "it is of epoch %u, and there was one of epoch %u", m->central_epoch,
             p->epoch);
    put_end(out, PEERS_BREAK, NODE_CENTRAL.v, PEERS_DIALLED, HAWK_ESTALE, out->why);
    return true;
}

/* Whether central wants to give this node another id or another cluster. A node keeps its id while it
 * lives, and a dist's journal belongs to one cluster (docs/protocol.md 1.8). So the node ends. Central
 * refuses such a node itself, but a central of an older version does not. */
static bool is_anothers(const struct peers *p, const struct msg_joined *m, struct peers_out *out)
{
    bool other_id = p->id.v && p->id.v != m->node.v;
    bool other_cluster =
        p->role == ROLE_DIST && p->cluster && p->cluster != m->cluster && p->cluster != m->former;

    if (!other_id && !other_cluster)
        return false;
    if (other_id)
        snprintf(out->why, sizeof out->why,
                 "calls this %s node %u, and it was node %u: it must start again%s", role_text(p->role),
                 m->node.v, p->id.v,
                 p->role == ROLE_DIST ? ", without its journal if that does not help" : "");
    else
        snprintf(
            out->why, sizeof out->why,
            "is another cluster's than the one that this dist's journal is of: give it the address of its "
            "own central, or a state_dir of its own");
    put_event(out, MSG_REFUSED, NODE_CENTRAL.v)->refused.err = HAWK_ESTALE;
    out->v[out->n - 1].why = out->why;
    return true;
}

static void on_joined(struct peers *p, const struct msg *m, struct peers_out *out)
{
    if (is_outdated(p, &m->joined, out) || is_anothers(p, &m->joined, out))
        return;
    p->cluster = m->joined.cluster;
    p->epoch = m->joined.central_epoch;
    p->id = m->joined.node;
    peers_copy(out, PEERS_TELL, PEERS_DIALLED, m);
}

/* ---- A dist's workers ---- */

static void worker_gone(struct peers *p, struct line *k, uint32_t id, struct peers_out *out)
{
    line_lose(p, k, id, out);
    line_forget(p, k);
}

/* Central tells a dist of a member. The role has heard of it already, and so knows a worker before its
 * PEER_UP. */
static void member_seen(struct peers *p, node_id_t node, unsigned role, unsigned state, struct blob *addr,
                        struct peers_out *out)
{
    bool gone = state == MEMBER_GONE || !addr || !addr->len;
    struct line *k;

    if (role != ROLE_WORKER)
        return;
    k = gone || state == MEMBER_SUSPECT ? line_find(p, node.v) : line_get(p, node.v);
    if (!k || (!k->listed && k->state == LINE_NONE && (gone || state == MEMBER_SUSPECT)))
        return;
    if (gone) {
        worker_gone(p, k, node.v, out);
        return;
    }
    k->seen = k->listed; /* about a suspect worker central says nothing new */
    if (state != MEMBER_SUSPECT)
        k->seen = k->listed = true;
    if (!k->addr || strcmp(k->addr->data, addr->data) != 0) {
        line_lose(p, k, node.v, out); /* it has another address now */
        blob_drop(k->addr);
        k->addr = blob_ref(addr);
        k->delay_us = 0;
    }
    if (k->listed && k->state == LINE_NONE)
        line_dial(p, k, node.v, out);
}

/* A worker is not on central's list. A restarted central lists only the workers that have come back by
 * then. So the dist keeps its stream to the worker as long as that lives, and short tasks go on while
 * central is away. The dist does not dial the worker again. */
static void worker_unlisted(struct peers *p, struct line *k, uint32_t id, struct peers_out *out)
{
    k->listed = false;
    if (k->state == LINE_OPEN)
        return;
    line_close(p, k, id, out);
    line_forget(p, k);
}

static void workers_listed(struct peers *p, const struct members *list, struct peers_out *out)
{
    for (uint32_t i = 0; i < p->chunks; i++)
        for (uint32_t n = 0; p->lines[i] && n < LINE_CHUNK; n++)
            p->lines[i][n].seen = false;
    for (uint32_t i = 0; i < list->n; i++)
        member_seen(p, list->v[i].node, list->v[i].role, list->v[i].state, list->v[i].addr, out);
    for (uint32_t i = 0; i < p->chunks; i++)
        for (uint32_t n = 0; p->lines[i] && n < LINE_CHUNK; n++) {
            struct line *k = &p->lines[i][n];

            if (!k->seen && (k->listed || k->state != LINE_NONE))
                worker_unlisted(p, k, i * LINE_CHUNK + n, out);
        }
}

static void worker_ended(struct peers *p, int64_t now_us, struct line *k, uint32_t id, struct peers_out *out)
{
    bool was_open = k->state == LINE_OPEN;

    line_ended(k, now_us);
    if (k->listed) {
        line_wait(p, k, id, now_us + backoff_next(&k->delay_us, BACKOFF_MAX_US, &p->rng));
    } else {
        peers_put(out, PEERS_CLOSE, id, PEERS_DIALLED);
        line_forget(p, k);
    }
    if (was_open)
        peers_tell_lost(out, id, ROLE_WORKER);
}

/* ---- What central says ---- */

void peers_central_says(struct peers *p, const struct msg *m, struct peers_out *out)
{
    if (m->type == MSG_JOINED) {
        on_joined(p, m, out);
        return;
    }
    peers_copy(out, PEERS_TELL, PEERS_DIALLED, m);
    if (m->type == MSG_MEMBERS && !m->members.list)
        return;
    if (m->type == MSG_MEMBERS && p->role == ROLE_DIST) {
        workers_listed(p, m->members.list, out);
    } else if (m->type == MSG_STEAL_HINT) {
        peers_victims_hinted(p, &m->steal_hint);
    } else if (m->type == MSG_MEMBERS) {
        members_drop(p->members);
        p->members = members_ref(m->members.list);
        peers_victims_listed(p, out);
    } else if (m->type == MSG_MEMBER && p->role == ROLE_DIST) {
        member_seen(p, m->member.node, m->member.role, m->member.state, m->member.addr, out);
    }
}

/* ---- What streams do ---- */

void peers_opened(struct peers *p, int64_t now_us, uint32_t peer, enum role role, node_id_t node,
                  unsigned version, struct peers_out *out)
{
    struct line *k = p->role == ROLE_DIST ? line_find(p, peer) : NULL;
    struct victim *v = p->role == ROLE_WORKER ? peers_victim_find(p, peer) : NULL;

    if (is_central(p, peer)) {
        central_opened(p, now_us, role, version, out);
    } else if (role != ROLE_WORKER) {
        put_end(out, PEERS_BREAK, peer, PEERS_DIALLED, HAWK_EINVALID, "it is no worker that answers there");
    } else if (node.v != peer) {
        put_end(out, PEERS_BREAK, peer, PEERS_DIALLED, HAWK_ESTALE, "another node listens there");
    } else if (v) {
        peers_victim_opened(p, v, out);
    } else {
        CHECK(k);
        k->state = LINE_OPEN;
        k->open_us = now_us;
        tell_up(out, peer, ROLE_WORKER, version);
    }
}

/* In central every link has its own number and reports its own end, so central remembers nothing of it
 * here. */
void peers_accepted(struct peers *p, uint32_t peer, enum role role, unsigned version, struct peers_out *out)
{
    struct accepted_peer *old;

    if (!role_may_dial(role, p->role) || peer == 0 || is_central(p, peer)) {
        snprintf(out->why, sizeof out->why,
                 "a %s answers there, which a %s does not dial: give central's address", role_text(p->role),
                 role < ROLE_COUNT ? role_text(role) : "stranger");
        put_end(out, PEERS_REFUSE, peer, PEERS_ACCEPTED, HAWK_EINVALID, out->why);
        return;
    }
    old = p->role == ROLE_WORKER ? peers_accepted_find(&p->accepted, peer) : NULL;
    if (old) { /* the peer has dialled anew before we saw the old stream end */
        put_end(out, PEERS_DROP, peer, PEERS_ACCEPTED, HAWK_ESTALE,
                "replaced by a new stream of the same node");
        peers_tell_lost(out, peer, old->role);
        old->role = role;
    } else if (p->role == ROLE_WORKER) {
        peers_accepted_add(&p->accepted, peer, role);
    }
    peers_put(out, PEERS_ADMIT, peer, PEERS_ACCEPTED);
    tell_up(out, peer, role, version);
}

static void accepted_ended(struct peers *p, uint32_t peer, enum role role, struct peers_out *out)
{
    struct accepted_peer *a = peers_accepted_find(&p->accepted, peer);

    if (p->role == ROLE_WORKER) {
        CHECK(a);
        role = a->role;
        peers_accepted_remove(&p->accepted, a);
    }
    peers_tell_lost(out, peer, role);
}

void peers_ended(struct peers *p, int64_t now_us, uint32_t peer, enum peers_side side, enum role role,
                 bool hung_up, struct peers_out *out)
{
    struct victim *v;

    if (side == PEERS_ACCEPTED) {
        accepted_ended(p, peer, role, out);
    } else if (is_central(p, peer)) {
        central_ended(p, now_us, hung_up, out);
    } else if (p->role == ROLE_DIST) {
        worker_ended(p, now_us, line_find(p, peer), peer, out);
    } else {
        v = peers_victim_find(p, peer);
        CHECK(v);
        peers_victim_lose(p, v, out); /* the thief dials again when it next asks */
    }
}

/* ---- What the role does ---- */

/* The shell has no open stream for m. If these rules still count one as open, the news of its end is on
 * its way to the role. Otherwise the role hears now that nobody is there. Central hears of every link's
 * end, and a link never comes back. */
void peers_send(struct peers *p, int64_t now_us, const struct msg *m, struct peers_out *out)
{
    const struct line *k;

    if (p->role == ROLE_CENTRAL)
        return;
    if (is_central(p, m->peer)) {
        if (p->central.state != LINE_OPEN)
            peers_tell_lost(out, m->peer, ROLE_CENTRAL);
    } else if (p->role == ROLE_DIST) {
        k = line_find(p, m->peer);
        if (!k || k->state != LINE_OPEN)
            peers_tell_lost(out, m->peer, ROLE_WORKER);
    } else if (peers_is_thiefs(m->type)) {
        peers_victims_send(p, now_us, m, out);
    } else if (!peers_accepted_find(&p->accepted, m->peer)) {
        peers_tell_lost(out, m->peer,
                        m->type == MSG_STEAL_LOOT || m->type == MSG_LOOT_USER ? ROLE_WORKER : ROLE_DIST);
    }
}

void peers_give_up(struct peers *p, uint32_t peer, struct peers_out *out)
{
    put_end(out, PEERS_BREAK, peer, p->role == ROLE_DIST ? PEERS_DIALLED : PEERS_ACCEPTED, HAWK_ETIMEOUT,
            "the peer does not answer");
}

/* ---- Time ---- */

void peers_timer(struct peers *p, int64_t now_us, struct peers_out *out)
{
    struct heap_node *first;

    while ((first = heap_min(&p->timers)) && first->key <= now_us) {
        uint32_t id = (uint32_t)first->seq;

        line_dial(p, is_central(p, id) ? &p->central : line_find(p, id), id, out);
    }
    peers_victims_timer(p, now_us, out);
}

int64_t peers_next_timeout(const struct peers *p)
{
    const struct heap_node *first = heap_min(&p->timers);

    return earlier(first ? first->key : TIME_NEVER, peers_victims_next_timeout(p));
}

/* ---- Invariants ---- */

static uint32_t line_check(const struct line *k)
{
    CHECK((k->state == LINE_WAITING) == (k->timer != NULL));
    CHECK(!k->timer || heap_in(k->timer));
    return k->state == LINE_WAITING;
}

void peers_check(const struct peers *p)
{
    uint32_t waiting = line_check(&p->central);

    for (uint32_t i = 0; i < p->chunks; i++)
        for (uint32_t n = 0; p->lines[i] && n < LINE_CHUNK; n++) {
            const struct line *k = &p->lines[i][n];

            waiting += line_check(k);
            CHECK(!k->listed || k->addr);
            CHECK(!k->listed || k->state != LINE_NONE);
            CHECK(k->state == LINE_NONE || k->state == LINE_OPEN || k->listed);
        }
    CHECK(waiting == p->timers.n);
    CHECK(heap_check(&p->timers));
    CHECK(p->chunks == 0 || p->role == ROLE_DIST);
    CHECK(p->role == ROLE_WORKER || p->accepted.n == 0);
    peers_victims_check(p);
}
