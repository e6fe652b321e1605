/* A role on the network: see node.h. */
#include "daemon/node.h"

#include "base/log.h"
#include "base/mem.h"
#include "daemon/names.h"
#include "peers/peers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

/* A link by the name that peers/ has for it. One that is dialled stays here while it has no stream, until it
 * is closed. */
struct stream {
    uint64_t name; /* see name_of */
    struct link *link;
    bool open; /* what arrives is the role's, and what the role has to say may leave */
    UT_hash_handle hh;
};

struct node {
    struct loop *loop;
    struct node_fns fns;
    void *role, *arg;
    enum role kind;
    struct links *links;
    char *name, *central_addr;
    struct peers *peers;
    struct peers_out wanted; /* what they want done */
    struct stream *streams, *central;
    struct link *accepted; /* the one that peers_accepted is told of */
    struct names names;    /* what central says; only where certificates show names */
    struct out out, queue; /* the role's output; events that came up while it was being stepped */
    bool stepping, doing, check;
    struct loop_timer timer, peers_timer;
    struct loop_hook after;
};

/* ---- Stepping ---- */

static void carry_message(struct node *n, struct msg *m);

static void step_one(struct node *n, const struct msg *m)
{
    if (n->fns.may && !n->fns.may(n->arg))
        return;
    struct event e = {.now_us = loop_event_now(n->loop), .m = *m};
    if (log_level >= LOG_TRACE) {
        char line[512];
        msg_format(m, line, sizeof line);
        log_at(LOG_TRACE, "<- %u %s", m->peer, line);
    }
    n->fns.role->step(n->role, &e, &n->out);
    if (n->check)
        n->fns.role->check(n->role);
    for (uint32_t i = 0; i < n->out.n; i++)
        carry_message(n, &n->out.v[i]);
    out_clear(&n->out);
}

void node_feed(struct node *n, const struct msg *m)
{
    if (n->stepping) {
        msg_ref(m);
        *out_add(&n->queue, m->type, m->peer) = *m;
        return;
    }
    n->stepping = true;
    step_one(n, m);
    /* Events may queue further ones while this runs: the array grows, and is emptied at the end. */
    for (uint32_t i = 0; i < n->queue.n; i++) {
        struct msg next = n->queue.v[i];
        step_one(n, &next);
    }
    out_clear(&n->queue);
    n->stepping = false;
}

static void on_timer(void *arg) { node_feed(arg, &(struct msg){.type = MSG_TIMER}); }

static void after_turn(void *arg)
{
    struct node *n = arg;
    loop_timer_set(n->loop, &n->timer, n->fns.role->next_timeout(n->role));
}

/* ---- Streams ---- */

static uint64_t name_of(uint32_t peer, enum peers_side side) { return (uint64_t)peer << 1 | (uint64_t)side; }
static uint32_t peer_of(const struct stream *s) { return (uint32_t)(s->name >> 1); }
static enum peers_side side_of(const struct stream *s) { return (enum peers_side)(s->name & 1); }

static struct stream *stream_find(struct node *n, uint32_t peer, enum peers_side side)
{
    uint64_t name = name_of(peer, side);
    struct stream *s;

    HASH_FIND(hh, n->streams, &name, sizeof name, s);
    return s;
}

static struct stream *stream_new(struct node *n, uint32_t peer, enum peers_side side, struct link *k)
{
    struct stream *s = xcalloc(1, sizeof *s);

    s->name = name_of(peer, side);
    s->link = k;
    link_set_user(k, s);
    HASH_ADD(hh, n->streams, name, sizeof s->name, s);
    return s;
}

/* Nothing more is heard of its link. */
static struct link *stream_free(struct node *n, struct stream *s)
{
    struct link *k = s->link;

    link_set_user(k, NULL);
    if (s == n->central)
        n->central = NULL;
    HASH_DEL(n->streams, s); /* NOLINT(clang-analyzer-core.NullDereference): inside uthash */
    free(s);
    return k;
}

static bool is_central(const struct node *n, uint32_t peer)
{
    return peer == NODE_CENTRAL.v && n->kind != ROLE_CENTRAL;
}

/* ---- What the rules want done ---- */

static int send_on(struct link *k, const struct msg *m);

static void dial_peer(struct node *n, const struct peers_action *a)
{
    struct stream *s = stream_find(n, a->peer, PEERS_DIALLED);
    char what[80];

    if (s) {
        link_redial(s->link, a->place);
    } else if (is_central(n, a->peer)) {
        n->central = stream_new(n, a->peer, PEERS_DIALLED, link_dial(n->links, n->central_addr, "central"));
    } else {
        snprintf(what, sizeof what, "worker %u", a->peer);
        stream_new(n, a->peer, PEERS_DIALLED,
                   link_dial_node(n->links, a->addr->data, what, (node_id_t){a->peer}));
    }
}

static void break_stream(struct node *n, const struct peers_action *a)
{
    struct stream *s = stream_find(n, a->peer, a->side);

    if (!s)
        return;
    if (is_central(n, a->peer) && a->err == HAWK_ESTALE)
        log_warn("central at %s is not obeyed: %s (if its journal was restored from a copy, restart this %s)",
                 link_addr(s->link), a->why, role_text(n->kind));
    else
        log_debug("node %u at %s: %s", a->peer, link_addr(s->link), a->why);
    link_break(s->link, a->err, a->why);
}

static void tell_role(struct node *n, const struct peers_action *a)
{
    const struct msg *m = &a->m;

    if (m->type == MSG_JOINED)
        links_set_node(n->links, m->joined.node);
    if (m->type == MSG_REFUSED && a->why)
        log_error("central at %s %s", node_central_addr(n), a->why);
    node_feed(n, m);
}

static void do_one(struct node *n, const struct peers_action *a)
{
    struct stream *s = stream_find(n, a->peer, a->side);

    switch ((enum peers_what)a->what) {
    case PEERS_DIAL:
        dial_peer(n, a);
        break;
    case PEERS_CLOSE:
        if (s)
            link_close(stream_free(n, s));
        break;
    case PEERS_DROP:
        if (s)
            link_break(stream_free(n, s), a->err, a->why);
        break;
    case PEERS_BREAK:
        break_stream(n, a);
        break;
    case PEERS_ADMIT:
        stream_new(n, a->peer, PEERS_ACCEPTED, n->accepted)->open = true;
        break;
    case PEERS_REFUSE:
        link_break(n->accepted, a->err, a->why);
        break;
    case PEERS_TELL:
        tell_role(n, a);
        break;
    case PEERS_SEND:
        if (!s || send_on(s->link, &a->m))
            log_debug("to worker %u: %s could not be sent", a->peer, msg_name(a->m.type));
    }
}

/* What comes up while the role is told of something is done after the rest. */
static void do_all(struct node *n)
{
    if (n->doing)
        return;
    n->doing = true;
    for (uint32_t i = 0; i < n->wanted.n; i++) {
        struct peers_action a = n->wanted.v[i];

        do_one(n, &a);
    }
    peers_out_clear(&n->wanted);
    n->doing = false;
    loop_timer_set(n->loop, &n->peers_timer, peers_next_timeout(n->peers));
}

static void on_peers_timer(void *arg)
{
    struct node *n = arg;

    peers_timer(n->peers, loop_event_now(n->loop), &n->wanted);
    do_all(n);
}

/* ---- Sending ---- */

static int send_on(struct link *k, const struct msg *m)
{
    switch (m->type) {
    case MSG_JOB_REPORT: /* every job's, for a history whose readers look at thousands: heartbeats take them along */
        return link_send_later(k, m);
    case MSG_TASK_STARTED: /* nobody decides anything by these */
    case MSG_FINISH_ACK:
    case MSG_PROBE_CANCELLED:
    case MSG_PROBE_CANCEL: /* until it is there the worker may ask in vain: the answer takes it along */
        return link_send_soon(k, m);
    default:
        return link_send(k, m);
    }
}

/* Where there is a link, its `lost` callback tells the role. Without one the rules say what it hears. */
static void send_wire(struct node *n, const struct msg *m)
{
    struct stream *s = NULL;

    if (is_central(n, m->peer))
        s = n->central;
    else if (!peers_is_thiefs(m->type))
        s = stream_find(n, m->peer, peers_side_of(n->kind, m));
    if (!s || !s->open) {
        peers_send(n->peers, loop_event_now(n->loop), m, &n->wanted);
        do_all(n);
        return;
    }
    int err = send_on(s->link, m);
    if (err)
        log_debug("%s to %u: %s", msg_name(m->type), m->peer, hawk_strerror(err));
}

static void carry_message(struct node *n, struct msg *m)
{
    if (m->type == MSG_GIVE_UP) {
        peers_give_up(n->peers, m->give_up.node.v, &n->wanted);
        do_all(n);
        return;
    }
    if (!msg_is_wire(m)) {
        n->fns.effect(n->arg, m);
        return;
    }
    if (log_level >= LOG_TRACE) {
        char line[512];
        msg_format(m, line, sizeof line);
        log_at(LOG_TRACE, "-> %u %s", m->peer, line);
    }
    send_wire(n, m);
}

/* ---- What links report ---- */

/* Whether a link's certificate is of the node that the link says it is of; if not, the link is broken. A node that
 * central has not told of may not take the place of one that is linked. In central a peer is no node but a link. */
static bool is_that_node(struct node *n, struct link *k, uint32_t id)
{
    struct stream *other = stream_find(n, id, PEERS_ACCEPTED);
    const char *name = link_peer_name(k), *known;
    char why[2 * LIMIT_NAME_BYTES + 80];

    if (!link_is_certified(k) || n->kind == ROLE_CENTRAL || is_central(n, id) ||
        (names_fit(&n->names, id, link_peer_role(k), name, &known) &&
         (known || !other || other->link == k || strcmp(link_peer_name(other->link), name) == 0)))
        return true;
    snprintf(why, sizeof why, "its certificate is for %s, and node %u is %s", name, id,
             known ? known : link_peer_name(other->link));
    link_blame(k, HAWK_EDENIED, why, "is not node %u: %s", id, why);
    return false;
}

/* Central has named a node: a link of it may have been somebody else's. */
static void on_named(void *arg, uint32_t id)
{
    struct node *n = arg;
    const enum peers_side sides[] = {PEERS_DIALLED, PEERS_ACCEPTED};

    for (int i = 0; i < 2; i++) {
        struct stream *s = stream_find(n, id, sides[i]);
        if (s && s->open)
            (void)is_that_node(n, s->link, id);
    }
}

static void send_denied(const struct node *n, struct link *k)
{
    const char *list = n->fns.denying(n->arg);
    struct msg m = {.type = MSG_DENIED};

    if (!list)
        return;
    m.denied.list = blob_str(list);
    if (link_send(k, &m))
        log_debug("the list of certificates that are good no more could not be sent to %s", link_addr(k));
    msg_drop(&m);
}

void node_deny(struct node *n)
{
    struct stream *s, *tmp;

    HASH_ITER(hh, n->streams, s, tmp)
        if (s->open)
            send_denied(n, s->link);
}

static void accepted_up(struct node *n, struct link *k)
{
    uint32_t id = n->kind == ROLE_CENTRAL ? link_number(k) : link_peer_node(k).v;

    if (n->fns.denying)
        send_denied(n, k);
    n->accepted = k;
    peers_accepted(n->peers, id, link_peer_role(k), link_version(k), &n->wanted);
    do_all(n);
}

static void on_up(void *arg, struct link *k)
{
    struct node *n = arg;
    struct stream *s = link_user(k);

    if (!link_is_dialled(k)) {
        if (is_that_node(n, k, link_peer_node(k).v))
            accepted_up(n, k);
    } else if (s && is_that_node(n, k, peer_of(s))) {
        s->open = true;
        peers_opened(n->peers, loop_event_now(n->loop), peer_of(s), link_peer_role(k), link_peer_node(k),
                     link_version(k), &n->wanted);
        do_all(n);
    }
}

/* A peer says what its role does not say to ours: it is not what it claims, or broken. */
static void out_of_role(struct node *n, struct link *k, const struct msg *m)
{
    char why[120];

    snprintf(why, sizeof why, "a %s may not send %s to a %s", role_text(link_peer_role(k)), msg_name(m->type),
             role_text(n->kind));
    link_blame(k, HAWK_EDENIED, why, "sent %s: %s", msg_name(m->type), why);
}

/* A node may join under no other name than its certificate's. */
static bool joins_as_another(const struct link *k, const struct msg *m)
{
    return m->type == MSG_JOIN && link_is_certified(k) && m->join.name &&
           strcmp(m->join.name->data, link_peer_name(k)) != 0;
}

/* Whether a node that joins claims more than its certificate allows; its link is broken then. */
static bool joins_too_big(const struct node *n, struct link *k, const struct msg *m)
{
    char why[120];

    if (n->kind != ROLE_CENTRAL || m->type != MSG_JOIN || !link_slots_max(k) ||
        m->join.slots <= link_slots_max(k))
        return false;
    snprintf(why, sizeof why, "it was invited with at most %u slot%s, and has %u: start it with --slots",
             link_slots_max(k), link_slots_max(k) == 1 ? "" : "s", m->join.slots);
    link_blame(k, HAWK_EDENIED, why, "may not join: %s", why);
    return true;
}

/* Two centrals without a common store are two clusters, and one of them never takes over from the other. */
static void say_refused(const struct node *n, const struct msg *m)
{
    bool several = m->refused.err == HAWK_ESTALE && strchr(n->central_addr, ',');
    log_error("central refused to let %s %s join: %s%s", role_text(n->kind), n->name,
              m->refused.why ? m->refused.why->data : hawk_strerror(m->refused.err),
              several ? " (several centrals are one cluster only with central.store: etcd, on the same etcd)"
                      : "");
}

static void on_msg(void *arg, struct link *k, const struct msg *m)
{
    struct node *n = arg;
    struct stream *s = link_user(k);
    struct msg from = *m;

    if (!msg_may_pass(m->type, link_peer_role(k), n->kind)) {
        out_of_role(n, k, m);
        return;
    }
    if (m->type == MSG_CERTIFICATE) {
        link_take_certificate(k, m->certificate.pem);
        return;
    }
    if (joins_as_another(k, m)) {
        link_blame(k, HAWK_EDENIED, "a node joins under the name in its certificate",
                   "wants to join under another name than its certificate's");
        return;
    }
    if (joins_too_big(n, k, m))
        return;
    if (!s || !s->open)
        return;
    from.peer = peer_of(s);
    if (!is_central(n, from.peer)) {
        node_feed(n, &from);
        return;
    }
    if (m->type == MSG_DENIED) {
        if (n->fns.denied && m->denied.list)
            n->fns.denied(n->arg, m->denied.list->data);
        return;
    }
    if (m->type == MSG_REFUSED)
        say_refused(n, m);
    if (m->type == MSG_QUIT)
        log_info("told by central to stop%s", m->quit.now ? " now" : "");
    if (link_is_certified(k))
        names_learn(&n->names, m, on_named, n);
    if (!peers_looks_at(m->type)) {
        node_feed(n, &from);
        return;
    }
    peers_central_says(n->peers, &from, &n->wanted);
    do_all(n);
}

static void on_stream_ended(struct node *n, struct stream *s, enum role role, bool hung_up)
{
    uint32_t peer = peer_of(s);
    enum peers_side side = side_of(s);

    s->open = false;
    if (side == PEERS_ACCEPTED)
        stream_free(n, s);
    peers_ended(n->peers, loop_event_now(n->loop), peer, side, role, hung_up, &n->wanted);
    do_all(n);
}

static void on_lost(void *arg, struct link *k, int err, const char *text)
{
    struct stream *s = link_user(k);

    if (!s)
        return;
    if (!is_central(arg, peer_of(s)))
        log_debug("lost node %u: %s (%s)", peer_of(s), text, hawk_strerror(err));
    on_stream_ended(arg, s, link_peer_role(k), false);
}

static void on_failed(void *arg, struct link *k)
{
    struct stream *s = link_user(k);

    if (s)
        on_stream_ended(arg, s, ROLE_NONE, link_hung_up(k));
}

/* ---- Life ---- */

static uint32_t places_in(const char *addrs)
{
    uint32_t n = 1;

    for (const char *at = addrs; at && (at = strchr(at, ',')); at++)
        n++;
    return n;
}

struct node *node_new(struct loop *l, const struct node_config *c, const struct node_fns *fns, void *role,
                      void *arg)
{
    struct node *n = xcalloc(1, sizeof *n);
    struct link_config lc = {.role = c->role,
                             .name = c->name,
                             .token = c->token,
                             .tls = c->tls,
                             .version = c->version,
                             .seed = c->seed};
    struct peers_config pc = {.role = c->role,
                              .seed = c->seed,
                              .id = c->id,
                              .cluster = c->cluster,
                              .places = places_in(c->central)};
    static const struct link_fns link_fns = {
        .up = on_up, .msg = on_msg, .lost = on_lost, .failed = on_failed};

    *n = (struct node){.loop = l, .fns = *fns, .role = role, .arg = arg, .kind = c->role};
    n->check = getenv("HAWK_CHECK") != NULL;
    n->name = xstrdup(c->name);
    n->central_addr = c->central ? xstrdup(c->central) : NULL;
    n->peers = peers_new(&pc);
    n->links = links_new(l, &lc, &link_fns, n);
    loop_timer_init(&n->timer, on_timer, n);
    loop_timer_init(&n->peers_timer, on_peers_timer, n);
    loop_hook_add(l, &n->after, LOOP_AFTER, after_turn, n);
    return n;
}

void node_start(struct node *n)
{
    node_feed(n, &(struct msg){.type = MSG_START});
    if (!n->central_addr)
        return;
    peers_start(n->peers, &n->wanted);
    do_all(n);
}

struct links *node_links(const struct node *n) { return n->links; }

const char *node_central_addr(const struct node *n)
{
    return n->central ? link_addr(n->central->link) : n->central_addr;
}

void node_break(struct node *n, const char *why) { links_break(n->links, HAWK_ESHUTDOWN, why); }

void node_free(struct node *n)
{
    if (!n)
        return;
    links_free(n->links, US_PER_S);
    loop_hook_remove(&n->after);
    loop_timer_clear(n->loop, &n->timer);
    loop_timer_clear(n->loop, &n->peers_timer);
    while (n->streams) {
        struct stream *s = n->streams;

        HASH_DEL(n->streams, s); /* NOLINT(clang-analyzer-core.NullDereference): inside uthash */
        free(s);
    }
    names_free(&n->names);
    peers_free(n->peers);
    peers_out_free(&n->wanted);
    out_free(&n->out);
    out_free(&n->queue);
    free(n->name);
    free(n->central_addr);
    free(n);
}
