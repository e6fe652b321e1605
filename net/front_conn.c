/* What the server says and asks of connections: see front.h. */
#include "net/front_impl.h"

#include "base/check.h"
#include "base/hash.h"
#include "net/addr.h"
#include "net/guard.h"
#include "net/tls.h"

#include <stdio.h>
#include <string.h>

struct address_load front_load(const struct front_conn *c)
{
    const struct address *a = addresses_find(&c->front->addresses, c->net);

    return a ? a->load : (struct address_load){0};
}

void front_call_began(struct front_conn *c, bool lasting)
{
    struct address *a = addresses_get(&c->front->addresses, c->net);

    a->load.calls++;
    a->load.lasting += lasting;
}

void front_call_ended(struct front_conn *c, bool lasting)
{
    struct address *a = addresses_find(&c->front->addresses, c->net);

    CHECK(a && a->load.calls > 0);
    a->load.calls--;
    a->load.lasting -= lasting;
    if (address_is_idle(a) && !c->exempt)
        front_tick_on(c->front); /* which forgets it */
}

void front_reply_waits(struct front_conn *c, size_t bytes)
{
    addresses_get(&c->front->addresses, c->net)->load.unread += bytes;
}

void front_reply_left(struct front_conn *c, size_t bytes)
{
    struct address *a = addresses_find(&c->front->addresses, c->net);

    CHECK(a && a->load.unread >= bytes);
    a->load.unread -= bytes;
}

void front_failed(struct front_conn *c, const char *what)
{
    struct front *f = c->front;
    struct address *a = c->exempt ? NULL : addresses_get(&f->addresses, c->net);

    c->failed++;
    if (a)
        address_failed(a, loop_now(f->loop));
    if (c->failed == 1)
        say(f, &f->denied, "a call with a wrong token", "a call from %s was refused: %s", c->peer, what);
    else if (c->failed == FRONT_FAILED_MAX)
        say(f, &f->denied, "a call with a wrong token",
            "a call from %s was refused: %s, the %uth call of it; the connection is closed", c->peer, what,
            c->failed);
    else
        log_kind_leave_out(&f->denied);
    if (c->failed == FRONT_FAILED_MAX && !c->closed) {
        c->since_us = loop_now(f->loop);
        list_remove(&c->node);
        list_push_tail(&f->leaving, &c->node);
    }
    front_tick_on(f);
}

void front_forbidden(struct front_conn *c, const char *why)
{
    struct front *f = c->front;

    say(f, &f->forbidden, "a call that its caller may not make", "a call from %s was refused: %s", c->peer,
        why);
    front_tick_on(f);
}

void front_outlawed(struct front_conn *c, const char *why)
{
    struct front *f = c->front;
    char more[LOG_PEER_MORE];

    if (log_kind_may_of(&f->forbidden, "a call that its caller may not make", &f->refused_peers, why,
                        loop_now(f->loop), more))
        log_warn("a call from %s was refused: %s%s", c->peer, why, more);
    front_tick_on(f);
}

static uint64_t hash_bytes(uint64_t h, const void *data, size_t len)
{
    for (const uint8_t *p = data; len > 0; p++, len--)
        h = hash_fnv1a(h, *p);
    return h;
}

void front_tell_user(struct front_conn *c, bool is_link)
{
    const struct identity *who = &c->who;
    const uint64_t h = hash_fnv1a(HASH_FNV1A, is_link);

    if (!c->guard)
        return;
    if (identity_is_set(who) && who->role != ROLE_GUEST)
        guard_user(c->guard, hash_bytes(hash_fnv1a(h, (uint8_t)who->role), who->name, strlen(who->name)));
    else
        guard_user(c->guard, hash_bytes(h, c->net, sizeof c->net));
}

const struct identity *front_peer(struct front_conn *c)
{
    if (!c->tls)
        return NULL;
    if (!identity_is_set(&c->who) && c->guard) {
        c->who = guard_peer(c->guard);
        front_tell_user(c, false);
    }
    return &c->who;
}

void front_renew_peer(struct front_conn *c, const struct identity *who) { c->who = *who; }

const struct caller *front_caller(struct front_conn *c)
{
    const struct identity *who = front_peer(c);

    if (c->caller_known)
        return &c->caller;
    c->caller_known = !who || identity_is_set(who);
    if (who) {
        c->caller =
            (struct caller){.uid = identity_uid(who), .scopes = who->scopes, .by = CALLER_CERTIFICATE};
        snprintf(c->caller.name, sizeof c->caller.name, "%s", who->name);
    } else if (c->local_socket) {
        c->caller = caller_of_uid(c->uid);
        c->caller_known = !c->caller.nameless; /* its next call asks again */
    } else {
        c->caller = caller_unknown();
        c->caller.uid = c->uid;
    }
    return &c->caller;
}

/* TLS failed: the peer is no client of ours. */
void front_refused(struct front_conn *c, const char *why)
{
    struct front *f = c->front;
    char who[ADDR_TEXT + 200], more[LOG_PEER_MORE];

    if (!c->exempt)
        address_failed(addresses_get(&f->addresses, c->net), loop_now(f->loop));
    f->counts.untrusted++;
    const char *port = strrchr(c->peer, ':');
    snprintf(who, sizeof who, "%.*s %s", port ? (int)(port - c->peer) : (int)strlen(c->peer), c->peer, why);
    if (log_kind_may_of(&f->strangers, "a connection without good TLS", &f->refused_peers, who,
                        loop_now(f->loop), more))
        log_warn("a connection from %s is refused: %s%s", c->peer, why, more);
    front_tick_on(f);
}

static void check_list(struct front *f, struct list *l)
{
    list_foreach(l, n, next) {
        struct front_conn *c = container_of(n, struct front_conn, node);
        const struct identity *who = c->cut ? NULL : front_peer(c);
        const char *why = who && identity_is_set(who) ? tls_why_not(f->config.tls, who) : NULL;
        char name[IDENTITY_TEXT];

        if (!why)
            continue;
        f->counts.untrusted++;
        say(f, &f->strangers, "a connection without good TLS", "%s is cut off: %s: %s", c->peer,
            identity_text(who, name), why);
        front_cut(c);
    }
}

void front_check_peers(struct front *f)
{
    check_list(f, &f->unproven);
    check_list(f, &f->proven);
}
