/* A role on the network: see node.h. */
#include "daemon/node.h"

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

/* What we know of one other node (or, in central, of one link). */
struct peer {
    uint32_t id;           /* node id; in central the link's number */
    struct blob *addr;     /* where to dial it; NULL: never */
    struct link *dialled;  /* to a worker we probe or steal from; NULL: none */
    struct link *accepted; /* from a dist or a thief; in central from anyone */
    bool dialled_up;       /* the role has had its PEER_UP */
    bool listed;           /* in the last member list */
    struct msg held;       /* a steal request that waits for its link to open; MSG_NONE: nothing */
    struct loop_timer opening;
    struct list lru; /* of dialled victims, most recently used last */
    struct node *node;
    UT_hash_handle hh;
};

struct node {
    struct loop *loop;
    struct node_fns fns;
    void *role, *arg;
    enum role kind;
    struct links *links;
    struct link *central;
    char *name, *central_addr;
    node_id_t id;     /* as central said last */
    uint64_t cluster; /* likewise */
    uint32_t epoch;   /* the highest of a central in that cluster */
    struct peer *peers;
    struct list victims;
    uint32_t victims_n;
    struct out out, queue; /* the role's output; events that came up while it was being stepped */
    bool stepping, check;
    struct loop_timer timer;
    struct loop_hook after;
};

/* ---- Stepping ---- */

static void carry(struct node *n, struct msg *m);

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
    n->fns.step(n->role, &e, &n->out);
    if (n->check)
        n->fns.check(n->role);
    for (uint32_t i = 0; i < n->out.n; i++)
        carry(n, &n->out.v[i]);
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

static void feed_up(struct node *n, const struct link *k, uint32_t id, enum role role)
{
    node_feed(n, &(struct msg){.type = MSG_PEER_UP,
                               .peer = id,
                               .peer_up = {.role = (uint8_t)role, .version = (uint8_t)link_version(k)}});
}

static void feed_lost(struct node *n, uint32_t id, enum role role)
{
    node_feed(n, &(struct msg){.type = MSG_PEER_LOST, .peer = id, .peer_lost.role = (uint8_t)role});
}

static void on_timer(void *arg) { node_feed(arg, &(struct msg){.type = MSG_TIMER}); }

static void after_turn(void *arg)
{
    struct node *n = arg;
    loop_timer_set(n->loop, &n->timer, n->fns.next_timeout(n->role));
}

/* ---- Peers ---- */

static struct peer *peer_find(struct node *n, uint32_t id)
{
    struct peer *p;
    HASH_FIND(hh, n->peers, &id, sizeof id, p);
    return p;
}

static void victim_timeout(void *arg);

static struct peer *peer_get(struct node *n, uint32_t id)
{
    struct peer *p = peer_find(n, id);
    if (p)
        return p;
    p = xcalloc(1, sizeof *p);
    p->id = id;
    p->node = n;
    list_init(&p->lru);
    loop_timer_init(&p->opening, victim_timeout, p);
    HASH_ADD(hh, n->peers, id, sizeof p->id, p);
    return p;
}

static void peer_forget_if_unused(struct node *n, struct peer *p)
{
    if (p->dialled || p->accepted || p->listed)
        return;
    CHECK(p->held.type == MSG_NONE);
    HASH_DEL(n->peers, p);
    blob_drop(p->addr);
    free(p);
}

/* Ends our dialled link to p without telling the role. */
static void hang_up(struct node *n, struct peer *p)
{
    if (!p->dialled)
        return;
    if (n->kind == ROLE_WORKER) {
        list_remove(&p->lru);
        n->victims_n--;
    }
    loop_timer_clear(n->loop, &p->opening);
    msg_drop(&p->held);
    p->held.type = MSG_NONE;
    link_set_user(p->dialled, NULL);
    link_close(p->dialled);
    p->dialled = NULL;
    p->dialled_up = false;
}

/* The same, and the role learns that it has lost the peer. */
static void lose_dialled(struct node *n, struct peer *p)
{
    uint32_t id = p->id;
    hang_up(n, p);
    peer_forget_if_unused(n, p);
    feed_lost(n, id, ROLE_WORKER);
}

static void victim_timeout(void *arg)
{
    struct peer *p = arg;
    lose_dialled(p->node, p);
}

static void dial(struct node *n, struct peer *p)
{
    char what[80];
    snprintf(what, sizeof what, "worker %u", p->id);
    p->dialled = link_dial_node(n->links, p->addr->data, what, (node_id_t){p->id});
    link_set_user(p->dialled, p);
}

/* ---- The member list: whom a dist dials, and where a thief finds its victims ---- */

static void member_seen(struct node *n, node_id_t id, uint8_t role, uint8_t state, struct blob *addr)
{
    if (role != ROLE_WORKER)
        return;
    bool alive = state != MEMBER_GONE && addr && addr->len;
    struct peer *p = alive ? peer_get(n, id.v) : peer_find(n, id.v);
    if (!p)
        return;
    p->listed = alive;
    if (alive && p->addr && strcmp(p->addr->data, addr->data) != 0 && p->dialled)
        lose_dialled(n, p); /* it listens elsewhere now; listed, so p stays */
    if (alive) {
        struct blob *old = p->addr;
        p->addr = blob_ref(addr);
        blob_drop(old);
        if (n->kind == ROLE_DIST && !p->dialled)
            dial(n, p);
    } else if (p->dialled && p->dialled_up) {
        lose_dialled(n, p);
    } else {
        hang_up(n, p);
        peer_forget_if_unused(n, p);
    }
}

/* A central that has restarted lists only who has come back by then. So a dist's stream to a worker that is not
 * listed stays as long as it lives: short tasks run on while central is away. It is not dialled again. */
static void unlisted(struct node *n, struct peer *p)
{
    if (n->kind == ROLE_DIST && !p->dialled_up)
        hang_up(n, p);
    peer_forget_if_unused(n, p);
}

static void members_seen(struct node *n, const struct members *list)
{
    struct peer *p, *tmp;
    HASH_ITER(hh, n->peers, p, tmp)
        p->listed = false;
    for (uint32_t i = 0; i < list->n; i++)
        member_seen(n, list->v[i].node, list->v[i].role, list->v[i].state, list->v[i].addr);
    HASH_ITER(hh, n->peers, p, tmp) {
        if (!p->listed)
            unlisted(n, p);
    }
}

/* Nobody is given another id while he lives, and a dist's journal is of one cluster: central refuses such a node itself, one of
 * an older version does not. Returns whether the node ends. */
static bool is_another(struct node *n, const struct msg_joined *m)
{
    bool other_id = n->id.v && n->id.v != m->node.v;
    bool other_cluster =
        n->kind == ROLE_DIST && n->cluster && n->cluster != m->cluster && n->cluster != m->former;
    if (!other_id && !other_cluster)
        return false;
    if (other_id)
        log_error("central at %s calls this %s node %u, and it was node %u: it must start again%s",
                  link_addr(n->central), role_text(n->kind), m->node.v, n->id.v,
                  n->kind == ROLE_DIST ? ", without its journal if that does not help" : "");
    else
        log_error(
            "central at %s is another cluster's than the one that this dist's journal is of: give it the "
            "address of its own central, or a state_dir of its own",
            link_addr(n->central));
    node_feed(n, &(struct msg){.type = MSG_REFUSED, .peer = NODE_CENTRAL.v, .refused.err = HAWK_ESTALE});
    return true;
}

/* A central that was replaced and does not know it. It may say nothing to this node any more. */
static bool outdated(struct node *n, const struct msg_joined *m)
{
    char why[200];
    if (m->cluster != n->cluster || m->central_epoch >= n->epoch)
        return false;
    snprintf(why, sizeof why, "it is of epoch %u, and there was one of epoch %u", m->central_epoch, n->epoch);
    log_warn("central at %s is not obeyed: %s (if its journal was restored from a copy, restart this %s)",
             link_addr(n->central), why, role_text(n->kind));
    link_break(n->central, HAWK_ESTALE, why);
    return true;
}

static void joined(struct node *n, const struct msg *m)
{
    if (outdated(n, &m->joined) || is_another(n, &m->joined))
        return;
    n->cluster = m->joined.cluster;
    n->epoch = m->joined.central_epoch;
    links_set_node(n->links, m->joined.node);
    node_feed(n, m);
    n->id = m->joined.node;
}

/* Looks at what central tells a dist or worker on its way to the role. Member changes are dialled after the role
 * has seen them, so that it knows a worker before its PEER_UP. */
static void from_central(struct node *n, const struct msg *m)
{
    if (m->type == MSG_JOINED) {
        joined(n, m);
        return;
    }
    if (m->type == MSG_REFUSED)
        log_error("central refused to let %s %s join: %s", role_text(n->kind), n->name,
                  m->refused.why ? m->refused.why->data : hawk_strerror(m->refused.err));
    if (m->type == MSG_QUIT)
        log_info("told by central to stop%s", m->quit.now ? " now" : "");
    node_feed(n, m);
    if (m->type == MSG_MEMBERS && m->members.list)
        members_seen(n, m->members.list);
    else if (m->type == MSG_MEMBER)
        member_seen(n, m->member.node, m->member.role, m->member.state, m->member.addr);
}

/* ---- Sending ---- */

static void lost_on_send(struct node *n, uint32_t id, enum role role)
{
    log_debug("a message to %u was dropped: no link", id);
    feed_lost(n, id, role);
}

/* A thief's request or acknowledgement: opens the link on demand. */
static void send_to_victim(struct node *n, struct msg *m)
{
    struct peer *p = peer_find(n, m->peer);
    if (!p || (!p->dialled && (!p->addr || m->type != MSG_STEAL_REQUEST))) {
        lost_on_send(n, m->peer, ROLE_WORKER);
        return;
    }
    if (!p->dialled) {
        if (n->victims_n == NODE_VICTIM_LINKS) {
            struct peer *oldest = container_of(n->victims.next, struct peer, lru);
            hang_up(n, oldest);
            peer_forget_if_unused(n, oldest);
        }
        dial(n, p);
        list_push_tail(&n->victims, &p->lru);
        n->victims_n++;
        loop_timer_set(n->loop, &p->opening, loop_now(n->loop) + NODE_VICTIM_OPEN_US);
    }
    list_remove(&p->lru);
    list_push_tail(&n->victims, &p->lru);
    if (p->dialled_up) {
        int err = link_send(p->dialled, m);
        if (err)
            log_debug("to worker %u: %s", p->id, hawk_strerror(err)); /* `lost` follows */
        return;
    }
    /* An older request may still be waiting: the thief forgot it when it lost the same node as its own thief. */
    msg_drop(&p->held);
    p->held = *m;
    msg_ref(&p->held);
}

static struct link *route(struct node *n, const struct msg *m)
{
    if (m->peer == NODE_CENTRAL.v && n->kind != ROLE_CENTRAL)
        return n->central && link_is_up(n->central) ? n->central : NULL;
    struct peer *p = peer_find(n, m->peer);
    if (!p)
        return NULL;
    if (n->kind == ROLE_DIST)
        return p->dialled_up ? p->dialled : NULL;
    return p->accepted;
}

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

/* The role has waited for that node in vain. The link tells it once more when it has ended. */
static void give_up(struct node *n, node_id_t node)
{
    struct peer *p = peer_find(n, node.v);
    struct link *k = !p ? NULL : n->kind == ROLE_DIST ? p->dialled : p->accepted;
    if (k)
        link_break(k, HAWK_ETIMEOUT, "the peer does not answer");
}

static void carry(struct node *n, struct msg *m)
{
    if (m->type == MSG_GIVE_UP) {
        give_up(n, m->give_up.node);
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
    if (m->type == MSG_STEAL_REQUEST || m->type == MSG_STEAL_ACK) {
        send_to_victim(n, m);
        return;
    }
    struct link *k = route(n, m);
    int err = k ? send_on(k, m) : HAWK_EUNAVAILABLE;
    /* Where there is a link, its `lost` callback tells the role. Without one it has been told already. */
    if (err)
        log_debug("%s to %u: %s", msg_name(m->type), m->peer, hawk_strerror(err));
}

/* ---- What links report ---- */

static void accepted_up(struct node *n, struct link *k)
{
    enum role role = link_peer_role(k);
    uint32_t id = n->kind == ROLE_CENTRAL ? link_number(k) : link_peer_node(k).v;
    if (!role_may_dial(role, n->kind) || id == 0 || (n->kind == ROLE_WORKER && id == NODE_CENTRAL.v)) {
        char why[120];
        snprintf(why, sizeof why, "a %s answers there, which a %s does not dial: give central's address",
                 role_text(n->kind), role < ROLE_COUNT ? role_text(role) : "stranger");
        link_break(k, HAWK_EINVALID, why);
        return;
    }
    struct peer *p = peer_get(n, id);
    if (p->accepted) { /* the peer has a new stream before we saw the old one end */
        struct link *old = p->accepted;
        p->accepted = NULL;
        link_set_user(old, NULL);
        link_break(old, HAWK_ESTALE, "replaced by a new stream of the same node");
        feed_lost(n, id, link_peer_role(old));
        p = peer_get(n, id);
    }
    p->accepted = k;
    link_set_user(k, p);
    feed_up(n, k, id, role);
}

static void dialled_up(struct node *n, struct link *k, struct peer *p)
{
    if (link_peer_role(k) != ROLE_WORKER) {
        link_break(k, HAWK_EINVALID, "it is no worker that answers there");
        return;
    }
    if (link_peer_node(k).v != p->id) {
        log_debug("%s is node %u, not %u", link_addr(k), link_peer_node(k).v, p->id);
        link_break(k, HAWK_ESTALE, "another node listens there");
        return;
    }
    p->dialled_up = true;
    loop_timer_clear(n->loop, &p->opening);
    if (n->kind == ROLE_DIST) {
        feed_up(n, k, p->id, ROLE_WORKER);
        return;
    }
    struct msg held = p->held;
    p->held.type = MSG_NONE;
    if (held.type != MSG_NONE && link_send(k, &held))
        log_debug("to worker %u: the request could not be sent", p->id);
    msg_drop(&held);
}

static void on_up(void *arg, struct link *k)
{
    struct node *n = arg;
    if (k == n->central && link_peer_role(k) == ROLE_CENTRAL)
        feed_up(n, k, NODE_CENTRAL.v, ROLE_CENTRAL);
    else if (k == n->central)
        link_break(k, HAWK_EINVALID, "it is not central that answers there: give central's address");
    else if (!link_is_dialled(k))
        accepted_up(n, k);
    else if (link_user(k))
        dialled_up(n, k, link_user(k));
}

/* A peer says what its role does not say to ours: it is not what it claims, or broken. */
static void out_of_role(struct node *n, struct link *k, const struct msg *m)
{
    char why[120];

    snprintf(why, sizeof why, "a %s may not send %s to a %s", role_text(link_peer_role(k)), msg_name(m->type),
             role_text(n->kind));
    log_warn("%s (%s) sent %s: %s; its link is closed", link_peer_name(k)[0] ? link_peer_name(k) : "a peer",
             link_addr(k), msg_name(m->type), why);
    link_break(k, HAWK_EDENIED, why);
}

static void on_msg(void *arg, struct link *k, const struct msg *m)
{
    struct node *n = arg;
    struct msg from = *m;
    if (!msg_may_pass(m->type, link_peer_role(k), n->kind)) {
        out_of_role(n, k, m);
        return;
    }
    if (k == n->central) {
        from.peer = NODE_CENTRAL.v;
        from_central(n, &from);
        return;
    }
    struct peer *p = link_user(k);
    if (!p || (link_is_dialled(k) && !p->dialled_up))
        return;
    from.peer = p->id;
    node_feed(n, &from);
}

static void on_lost(void *arg, struct link *k, int err, const char *text)
{
    struct node *n = arg;
    if (k == n->central) {
        if (link_peer_role(k) != ROLE_CENTRAL)
            return; /* it never was */
        feed_lost(n, NODE_CENTRAL.v, ROLE_CENTRAL);
        return;
    }
    struct peer *p = link_user(k);
    if (!p)
        return;
    log_debug("lost node %u: %s (%s)", p->id, text, hawk_strerror(err));
    uint32_t id = p->id;
    if (p->accepted == k) {
        enum role role = link_peer_role(k);
        p->accepted = NULL;
        peer_forget_if_unused(n, p);
        feed_lost(n, id, role);
    } else if (n->kind == ROLE_WORKER) {
        lose_dialled(n, p); /* a thief dials again when it wants to ask again */
    } else if (p->dialled_up) {
        p->dialled_up = false; /* and dials again, unless nobody lists the worker any more */
        if (!p->listed)
            unlisted(n, p);
        feed_lost(n, id, ROLE_WORKER);
    }
}

/* ---- Life ---- */

struct node *node_new(struct loop *l, const struct node_config *c, const struct node_fns *fns, void *role,
                      void *arg)
{
    struct node *n = xcalloc(1, sizeof *n);
    *n = (struct node){.loop = l,
                       .fns = *fns,
                       .role = role,
                       .arg = arg,
                       .kind = c->role,
                       .id = c->id,
                       .cluster = c->cluster};
    n->check = getenv("HAWK_CHECK") != NULL;
    n->name = xstrdup(c->name);
    n->central_addr = c->central ? xstrdup(c->central) : NULL;
    list_init(&n->victims);
    struct link_config lc = {
        .role = c->role, .name = c->name, .token = c->token, .version = c->version, .seed = c->seed};
    static const struct link_fns link_fns = {.up = on_up, .msg = on_msg, .lost = on_lost};
    n->links = links_new(l, &lc, &link_fns, n);
    loop_timer_init(&n->timer, on_timer, n);
    loop_hook_add(l, &n->after, LOOP_AFTER, after_turn, n);
    return n;
}

void node_start(struct node *n)
{
    node_feed(n, &(struct msg){.type = MSG_START});
    if (!n->central_addr)
        return;
    n->central = link_dial(n->links, n->central_addr, "central");
}

struct links *node_links(const struct node *n) { return n->links; }

const char *node_central_addr(const struct node *n)
{
    return n->central ? link_addr(n->central) : n->central_addr;
}

void node_break(struct node *n, const char *why) { links_break(n->links, HAWK_ESHUTDOWN, why); }

void node_free(struct node *n)
{
    if (!n)
        return;
    links_free(n->links, US_PER_S);
    loop_hook_remove(&n->after);
    loop_timer_clear(n->loop, &n->timer);
    struct peer *p, *tmp;
    HASH_ITER(hh, n->peers, p, tmp) {
        loop_timer_clear(n->loop, &p->opening);
        msg_drop(&p->held);
        HASH_DEL(n->peers, p); /* NOLINT(clang-analyzer-core.NullDereference): inside uthash */
        blob_drop(p->addr);
        free(p);
    }
    out_free(&n->out);
    out_free(&n->queue);
    free(n->name);
    free(n->central_addr);
    free(n);
}
