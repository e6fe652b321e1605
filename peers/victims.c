/* A thief's streams to its victims: dialled on demand, kept for the next request, and few
 * (docs/protocol.md 0, "Dialling").
 *
 * A victim has at most one held request (`held`): the STEAL_REQUEST for which its stream was dialled. The request
 * leaves when the stream opens, and is dropped with the victim when that takes longer than PEERS_VICTIM_OPEN_US.
 *
 * There are at most p->victims_max. The victim asked last is at the end of the list, where a lookup
 * begins. */
#include "peers/internal.h"

#include "base/check.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

static struct victim *victim_of(struct list *l) { return container_of(l, struct victim, lru); }

struct victim *peers_victim_find(const struct peers *p, uint32_t id)
{
    for (struct list *l = p->lru.prev; l != &p->lru; l = l->prev)
        if (victim_of(l)->id == id)
            return victim_of(l);
    return NULL;
}

static void victim_free(struct peers *p, struct victim *v)
{
    list_remove(&v->lru);
    p->victims--;
    p->opening -= !v->open;
    blob_drop(v->addr);
    msg_drop(&v->held);
    free(v);
}

void peers_victims_free(struct peers *p)
{
    while (!list_empty(&p->lru))
        victim_free(p, victim_of(p->lru.next));
    blob_drop(p->hinted_addr);
}

static void mark_used(struct peers *p, struct victim *v)
{
    list_remove(&v->lru);
    list_push_tail(&p->lru, &v->lru);
}

/* The address that central lists for this worker, unless the worker is gone; NULL: none. *listed: the
 * worker is on the last list. */
static struct blob *address_of(const struct peers *p, uint32_t id, bool *listed)
{
    uint32_t lo = 0, hi = p->members ? p->members->n : 0;
    const struct member *m;

    *listed = false;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;

        if (p->members->v[mid].node.v < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (!p->members || lo == p->members->n || p->members->v[lo].node.v != id)
        return p->hinted == id ? p->hinted_addr : NULL;
    m = &p->members->v[lo];
    *listed = m->role == ROLE_WORKER;
    return *listed && m->state != MEMBER_GONE && m->addr && m->addr->len ? m->addr : NULL;
}

void peers_victim_lose(struct peers *p, struct victim *v, struct peers_out *out)
{
    uint32_t id = v->id;

    peers_put(out, PEERS_CLOSE, id, PEERS_DIALLED);
    victim_free(p, v);
    peers_tell_lost(out, id, ROLE_WORKER);
}

/* A worker that is not listed may be in the reserved partition now, so its stream stays until another
 * victim needs the place. A worker that is gone, or has another address, is lost. */
void peers_victims_listed(struct peers *p, struct peers_out *out)
{
    list_foreach(&p->lru, l, next) {
        struct victim *v = victim_of(l);
        bool listed;
        struct blob *addr = address_of(p, v->id, &listed);

        if (listed && (!addr || strcmp(addr->data, v->addr->data) != 0))
            peers_victim_lose(p, v, out);
    }
}

void peers_victims_hinted(struct peers *p, const struct msg_steal_hint *m)
{
    blob_drop(p->hinted_addr);
    p->hinted_addr = m->addr && m->addr->len ? blob_ref(m->addr) : NULL;
    p->hinted = m->victim.v;
}

static void hold_request(struct victim *v, const struct msg *m)
{
    msg_drop(&v->held); /* an older request, which the thief has given up: it would not ask again otherwise */
    v->held = *m;
    msg_ref(&v->held);
}

/* Makes room for another victim. The thief waits for no answer from the oldest one: otherwise that would be the
 * one used last. */
static void evict_oldest_victim(struct peers *p, struct peers_out *out)
{
    struct victim *oldest = victim_of(p->lru.next);

    peers_put(out, PEERS_CLOSE, oldest->id, PEERS_DIALLED);
    victim_free(p, oldest);
}

static void dial_victim(struct peers *p, int64_t now_us, const struct msg *m, struct blob *addr,
                        struct peers_out *out)
{
    struct victim *v = xcalloc(1, sizeof *v);

    if (p->victims == p->victims_max)
        evict_oldest_victim(p, out);
    v->id = m->peer;
    v->addr = blob_ref(addr);
    v->open_by_us = now_us + PEERS_VICTIM_OPEN_US;
    list_init(&v->lru);
    list_push_tail(&p->lru, &v->lru);
    p->victims++;
    p->opening++;
    hold_request(v, m);
    peers_put(out, PEERS_DIAL, v->id, PEERS_DIALLED)->addr = blob_ref(addr);
}

void peers_victims_send(struct peers *p, int64_t now_us, const struct msg *m, struct peers_out *out)
{
    struct victim *v = peers_victim_find(p, m->peer);
    bool listed;
    struct blob *addr = v ? NULL : address_of(p, m->peer, &listed);

    if (v && v->open) {
        mark_used(p, v);
        peers_copy(out, PEERS_SEND, PEERS_DIALLED, m);
    } else if (m->type != MSG_STEAL_REQUEST) {
        /* The stream that brought the reservations has ended. The victim has taken them back and needs no
         * acknowledgement. */
        if (!v)
            peers_tell_lost(out, m->peer, ROLE_WORKER);
    } else if (v) {
        mark_used(p, v);
        hold_request(v, m);
    } else if (addr) {
        dial_victim(p, now_us, m, addr, out);
    } else {
        peers_tell_lost(out, m->peer, ROLE_WORKER);
    }
}

void peers_victim_opened(struct peers *p, struct victim *v, struct peers_out *out)
{
    v->open = true;
    p->opening--;
    if (v->held.type != MSG_NONE)
        peers_copy(out, PEERS_SEND, PEERS_DIALLED, &v->held);
    msg_drop(&v->held);
    v->held.type = MSG_NONE;
}

int64_t peers_victims_next_timeout(const struct peers *p)
{
    int64_t at_us = TIME_NEVER;

    for (struct list *l = p->lru.next; p->opening > 0 && l != &p->lru; l = l->next)
        if (!victim_of(l)->open)
            at_us = earlier(at_us, victim_of(l)->open_by_us);
    return at_us;
}

void peers_victims_timer(struct peers *p, int64_t now_us, struct peers_out *out)
{
    if (p->opening == 0)
        return;
    list_foreach(&p->lru, l, next)
        if (!victim_of(l)->open && victim_of(l)->open_by_us <= now_us)
            peers_victim_lose(p, victim_of(l), out);
}

void peers_victims_check(const struct peers *p)
{
    uint32_t n = 0, opening = 0;

    for (struct list *l = p->lru.next; l != &p->lru; l = l->next) {
        const struct victim *v = victim_of(l);

        CHECK(!v->open || v->held.type == MSG_NONE);
        CHECK(v->addr);
        n++;
        opening += !v->open;
    }
    CHECK(n == p->victims);
    CHECK(n <= p->victims_max);
    CHECK(opening == p->opening);
    CHECK(n == 0 || p->role == ROLE_WORKER);
}
