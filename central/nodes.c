/* Nodes: their states, streams, and joining (protocol 1). */
#include "central/journal.h"
#include "central/pairing.h"
#include "central/tasks.h"

#include "base/check.h"
#include "base/err.h"
#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Finding and reaching nodes ---- */

struct node *central_node_by_id(const struct central *c, node_id_t id)
{
    return id.v < c->nodes_end ? c->nodes[id.v] : NULL;
}

struct msg *central_send(struct central *c, const struct node *n, enum msg_type type)
{
    return n->link ? out_add(c->out, type, n->link) : NULL;
}

static struct node *node_by_name(const struct central *c, const struct blob *name)
{
    struct node *n;

    HASH_FIND(hh, c->names, name->data, name->len, n);
    return n;
}

/* Makes a node for a name that was never seen, or that the journal has. */
static struct node *node_new(struct central *c, struct blob *name, node_id_t id, uint8_t role)
{
    struct node *n = xaligned(_Alignof(struct node), sizeof *n);

    n->id = id;
    n->role = role;
    n->state = NODE_AWAY;
    n->name = blob_ref(name);
    n->addr = blob_new(NULL, 0);
    list_init(&n->push);
    list_init(&n->changed);
    list_init(&n->untold);
    list_init(&n->parked);
    list_init(&n->stuck);
    list_init(&n->out);
    list_init(&n->own);
    list_init(&n->own_taker);
    n->ends_us = TIME_NEVER;
    list_push_tail(&c->by_state[NODE_AWAY], &n->by_state);
    HASH_ADD_KEYPTR(hh, c->names, n->name->data, n->name->len, n);
    while (c->nodes_end <= id.v) {
        vec_grow(c->nodes, c->nodes_end, c->nodes_cap);
        c->nodes[c->nodes_end++] = NULL;
    }
    c->nodes[id.v] = n;
    c->n_nodes++;
    return n;
}

void central_on_journal_node(struct central *c, const struct msg *in)
{
    const struct msg_journal_node *m = &in->journal_node;
    struct node *n;

    if (!m->name || m->name->len == 0 || m->node.v == 0 || m->node.v > NODE_ID_MAX ||
        (m->role != ROLE_DIST && m->role != ROLE_WORKER) || central_node_by_id(c, m->node) ||
        node_by_name(c, m->name))
        return;
    n = node_new(c, m->name, m->node, m->role);
    n->journalled = true;
    n->drain = m->drained ? DRAIN_KEPT : DRAIN_NOT;
    n->next_seq = m->next_seq;
}

/* ---- States ---- */

bool central_any_node(const struct central *c, enum role role, enum node_state state)
{
    list_foreach(&c->by_state[state], entry, next)
        if (container_of(entry, struct node, by_state)->role == role)
            return true;
    return false;
}

static const uint8_t legal_moves[NODE_STATE_COUNT] = {
    [NODE_AWAY] = 1 << NODE_JOINING | 1 << NODE_UP,
    [NODE_JOINING] = 1 << NODE_UP | 1 << NODE_AWAY,
    [NODE_UP] = 1 << NODE_SUSPECT | 1 << NODE_AWAY,
    [NODE_SUSPECT] = 1 << NODE_UP | 1 << NODE_AWAY,
};

static void set_state(struct central *c, struct node *n, enum node_state state)
{
    CHECK(legal_moves[n->state] & 1 << state);
    if (n->role == ROLE_DIST) {
        central_orphans_count_dist(c, n->state == NODE_UP, state == NODE_UP);
        c->dists_suspect += (uint32_t)(state == NODE_SUSPECT) - (uint32_t)(n->state == NODE_SUSPECT);
    }
    n->state = (uint8_t)state;
    list_remove(&n->by_state);
    list_push_tail(&c->by_state[state], &n->by_state);
    if (state == NODE_SUSPECT)
        n->suspect_us = c->now_us;
    if (state != NODE_UP)
        central_pairing_forget(c, n);
    if (n->role != ROLE_WORKER)
        return;
    if (state != NODE_UP)
        list_remove(&n->push);
    central_node_update_eligible(c, n);
    if (state != NODE_JOINING)
        central_partition_count(c, n, node_counts(n));
}

/* Long jobs run in the general partition only (Hawk 3.7). */
bool central_node_may_take(const struct node *n)
{
    return n->state == NODE_UP && n->link && n->general && n->acked && !node_refuses_work(n) && !n->held_off;
}

bool central_node_takes(const struct central *c, const struct node *n)
{
    return central_node_may_take(n) && (!policy_has(&c->policy, POLICY_LATE_LONG) || n->room > 0 ||
                                        !msg_in_version(MSG_LONG_REQUEST, n->version));
}

/* A worker that serves one user is in no queue of all users' work: central_tasks_place() asks it first. */
bool central_node_eligible(const struct central *c, const struct node *n)
{
    return !n->serves && central_node_takes(c, n);
}

void central_node_update_eligible(struct central *c, struct node *n)
{
    if (n->waiting.n_slots)
        waiting_set_eligible(&c->waiting, &n->waiting, central_node_eligible(c, n), c->now_us);
    if (!n->serves || !central_node_takes(c, n))
        list_remove(&n->own_taker);
    else if (list_empty(&n->own_taker))
        list_push_tail(&c->owned_takers, &n->own_taker);
    end_times_look(c, n);
}

void central_node_report(struct central *c, const struct node *n, enum node_change change)
{
    struct msg_node_changed *m = &out_add(c->out, MSG_NODE_CHANGED, 0)->node_changed;

    m->name = blob_ref(n->name);
    m->silent_us = c->now_us - n->heard_us;
    m->node = n->id;
    m->slots = n->slots;
    m->tasks = n->waiting.n_queued + n->waiting.n_running;
    m->role = n->role;
    m->change = change;
    if (change == CHANGE_OUT || change == CHANGE_KEPT)
        m->why = blob_ref(n->out_why);
}

void central_node_set_reporting(struct central *c, struct node *n, bool reporting)
{
    c->n_reporting += (uint32_t)reporting - (uint32_t)n->reporting;
    n->reporting = reporting;
}

void central_node_suspect(struct central *c, struct node *n, enum node_change why)
{
    central_node_report(c, n, why);
    set_state(c, n, NODE_SUSPECT);
    central_members_changed(c, n);
}

void central_node_gone(struct central *c, struct node *n, enum node_change why)
{
    central_node_report(c, n, why);
    set_state(c, n, NODE_AWAY);
    if (n->role == ROLE_WORKER) {
        n->acked = false;
        central_node_set_reporting(c, n, false);
        /* Without a stream it serves no applications; dists hear of them again when it is back. */
        if (!n->link)
            central_node_forget_apps(c, n, false);
        central_tasks_worker_gone(c, n);
        central_partition_balance(c);
    } else {
        central_orphans_look_all(c);
    }
    central_members_changed(c, n);
}

/* Tells a worker that is up everything it must know. */
static void tell_worker(struct central *c, struct node *n)
{
    central_partition_tell(c, n);
    central_pairing_send_long_work(c, n);
    n->listed = 0;
    list_remove(&n->push);
    list_push_head(&c->push, &n->push);
}

/* The node is heard again, and is the same process as before. */
static void back_up(struct central *c, struct node *n)
{
    bool was_gone = n->state == NODE_AWAY;

    central_node_report(c, n, CHANGE_BACK);
    set_state(c, n, NODE_UP);
    n->heard_us = c->now_us;
    if (n->role == ROLE_WORKER) {
        if (was_gone)
            central_partition_balance(c);
        tell_worker(c, n);
    } else if (was_gone) {
        central_orphans_look_all(c);
    }
    central_members_changed(c, n);
}

struct node *central_nodes_heard(struct central *c, uint32_t link)
{
    const struct link *l = central_link(c, link);
    struct node *n = l ? l->node : NULL;

    if (!n || n->state == NODE_JOINING)
        return NULL;
    if (n->state != NODE_UP) {
        back_up(c, n);
    } else if (c->cfg.heartbeats && n->heard_us != c->now_us) {
        n->heard_us = c->now_us;
        list_remove(&n->by_state);
        list_push_tail(&c->by_state[NODE_UP], &n->by_state);
    }
    return n;
}

/* ---- Streams ---- */

void central_on_peer_up(struct central *c, const struct msg *in)
{
    if (in->peer && !central_link(c, in->peer))
        central_link_add(c, in->peer, in->peer_up.role);
}

void central_node_unlink(struct central *c, struct node *n)
{
    if (n->link)
        central_link(c, n->link)->node = NULL;
    n->link = 0;
    if (n->role == ROLE_DIST)
        list_remove(&n->push);
}

static void forget_early(struct early_join *j)
{
    list_remove(&j->entry);
    msg_drop(&j->m);
    free(j);
}

void central_on_peer_lost(struct central *c, const struct msg *in)
{
    struct link *l = central_link(c, in->peer);

    if (!l)
        return;
    if (l->node) {
        struct node *n = l->node;

        central_node_unlink(c, n);
        if (n->state == NODE_UP)
            central_node_suspect(c, n, CHANGE_CUT);
    }
    if (l->early)
        forget_early(l->early);
    central_link_remove(c, in->peer);
}

/* ---- Joining ---- */

/* Refuses a JOIN. Always false. */
static bool HAWK_PRINTF(4, 5) refuse(struct central *c, uint32_t link, int err, const char *fmt, ...)
{
    struct msg *m = out_add(c->out, MSG_REFUSED, link);
    char why[200];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    m->refused.err = err;
    m->refused.why = blob_str(why);
    return false;
}

static bool join_is_valid(struct central *c, const struct link *l, const struct msg_join *j)
{
    if (j->version < PROTOCOL_VERSION_MIN || j->version > PROTOCOL_VERSION)
        return refuse(c, l->id, HAWK_EVERSION,
                      "central speaks the protocol's versions %d to %d only: run a hawk that does",
                      PROTOCOL_VERSION_MIN, PROTOCOL_VERSION);
    if (!j->name || j->name->len == 0 || j->name->len > LIMIT_NAME_BYTES)
        return refuse(c, l->id, HAWK_EINVALID, "a node needs a name of 1 to %u bytes", LIMIT_NAME_BYTES);
    if (j->role != ROLE_DIST && j->role != ROLE_WORKER)
        return refuse(c, l->id, HAWK_EINVALID, "only dists and workers join central");
    if (j->role != l->role)
        return refuse(c, l->id, HAWK_EINVALID, "a node joins in the role that its link was opened in");
    if (node_name_reserved(j->name->data))
        return refuse(c, l->id, HAWK_EINVALID, NODE_NAME_RESERVED);
    if (j->role == ROLE_WORKER && (j->slots == 0 || j->slots > LIMIT_SLOTS))
        return refuse(c, l->id, HAWK_EINVALID, "a worker needs 1 to %u slots", LIMIT_SLOTS);
    return true;
}

/* Takes over what a node's JOIN says of its process. */
static void take_join(struct central *c, struct node *n, struct link *l, const struct msg_join *j)
{
    bool another = n->incarnation != j->incarnation || n->joins == 0;
    /* An agent that took over a spawner has its incarnation and tasks, but has never joined. */
    bool fresh = another || j->node.v == 0;

    if (n->link != l->id) {
        /* A suspect process that still has a stream, although it was silent: it must stop using this name. */
        if (n->link && another)
            refuse(c, n->link, HAWK_ENAME_TAKEN, "another node took this name while this one was silent");
        central_node_unlink(c, n);
        n->link = l->id;
        l->node = n;
    }
    n->incarnation = j->incarnation;
    n->processes += another;
    blob_drop(n->addr);
    n->addr = j->addr ? blob_ref(j->addr) : blob_new(NULL, 0);
    n->version = j->version;
    if (!msg_in_version(MSG_JOB_NUMBERS, n->version)) /* it does not report them */
        n->next_seq = 0;
    n->draining = n->empty = n->held_off = false;
    n->room = n->sent = 0;
    if (fresh && n->drain == DRAIN_RESTART)
        n->drain = DRAIN_NOT;
    n->acked = false;
    central_node_forget_apps(c, n, true); /* the node reports them again */
    central_node_forget_user(c, n);
    list_remove(&n->out);
    central_pairing_forget(c, n);
    if (fresh) {
        end_times_forget(c, n);
        n->queued = n->running_short = n->running_long = n->paused = n->jobs_unfinished = 0;
        n->freezer = 0;
        free(n->counters);
        n->counters = NULL;
    }
    if (n->role == ROLE_WORKER && n->slots != j->slots) {
        if (n->counted)
            central_partition_count(c, n, false);
        n->slots = j->slots;
        if (n->waiting.n_slots == 0)
            waiting_worker_add(&c->waiting, &n->waiting, n->slots, n->id.v);
        else
            waiting_set_slots(&c->waiting, &n->waiting, n->slots, c->now_us);
    }
}

static void send_numbers(struct central *c, struct node *dist)
{
    const struct receipt_secret *secret = &c->cfg.receipts;
    struct msg_job_numbers *m = &central_send(c, dist, MSG_JOB_NUMBERS)->job_numbers;

    m->next = dist->next_seq;
    if (receipt_secret_set(secret))
        m->receipts = blob_new(secret, sizeof *secret);
    if (c->cfg.receipts_due_us > c->now_us)
        m->receipts_due_s = (uint32_t)((c->cfg.receipts_due_us - c->now_us) / US_PER_S);
}

/* Completes a join: n has its link, and its id is durable. */
static void admit(struct central *c, struct node *n)
{
    struct msg *m;

    central_node_report(c, n, n->joins > 0 && n->state == NODE_SUSPECT ? CHANGE_BACK : CHANGE_JOINED);
    if (n->next_seq > 0)
        send_numbers(c, n);
    m = central_send(c, n, MSG_JOINED); /* the next message that is put out may move it */
    m->joined.cluster = c->cfg.cluster;
    m->joined.former = c->former;
    m->joined.heartbeat_us = c->cfg.heartbeat_us;
    m->joined.lease_us = c->cfg.long_lease_us;
    m->joined.node = n->id;
    m->joined.central_epoch = c->cfg.epoch;
    m->joined.draining = n->drain != DRAIN_NOT;
    n->joins++;
    if (n->state != NODE_UP)
        set_state(c, n, NODE_UP);
    n->heard_us = c->now_us;
    list_remove(&n->by_state);
    list_push_tail(&c->by_state[NODE_UP], &n->by_state);
    central_policy_send(c, n);
    if (n->role == ROLE_WORKER) {
        central_node_set_reporting(c, n, true);
        central_partition_count(c, n, node_counts(n));
        central_partition_balance(c);
        tell_worker(c, n);
        central_node_update_eligible(c, n);
    } else {
        list_remove(&n->push);
        list_push_tail(&c->dists, &n->push);
        central_members_send_all(c, n);
        central_policy_send_estimates(c, n);
        central_orphans_look_all(c);
    }
    central_members_changed(c, n);
}

/* ---- Ids after central lost its state (protocol 1.8) ---- */

bool central_is_young(const struct central *c) { return c->young_us != TIME_NEVER; }

void central_on_journal_cluster(struct central *c, const struct msg *in)
{
    const struct msg_journal_cluster *m = &in->journal_cluster;
    c->successor = true;
    c->former = m->former;
    c->first_node = m->node.v <= NODE_ID_MAX ? m->node.v : NODE_ID_MAX;
    /* Becomes now + a lease in central_nodes_recovered(), where now is known. */
    c->young_us = m->young ? 0 : TIME_NEVER;
}

void central_nodes_recovered(struct central *c)
{
    if (central_is_young(c))
        c->young_us = c->now_us + c->cfg.long_lease_us;
    if (c->n_nodes == 0 && !c->successor && c->cfg.ids_wait_us > 0)
        c->ids_at_us = c->now_us + c->cfg.ids_wait_us;
}

/* The first node that has an id joins: there was a central before this one. All ids of that one are within
 * nodes_max of each other, so new ids begin beyond. */
static void succeed(struct central *c, const struct msg_join *j)
{
    uint32_t room = NODE_ID_MAX - j->node.v;

    c->ids_at_us = TIME_NEVER;
    c->successor = true;
    c->former = j->cluster;
    c->first_node = j->node.v + (c->cfg.nodes_max < room ? c->cfg.nodes_max : room / 2);
    c->young_us = c->now_us + c->cfg.long_lease_us;
    central_journal_cluster(c);
}

/* Whether the node's journal and knowledge are of this cluster. */
static bool cluster_fits(const struct central *c, const struct msg_join *j)
{
    return j->cluster == 0 || j->node.v == 0 || j->cluster == c->cfg.cluster || j->cluster == c->former ||
           c->ids_at_us != TIME_NEVER;
}

/* The id for an unknown name; 0: the join was refused. */
static uint32_t id_for(struct central *c, uint32_t link, const struct msg_join *j)
{
    uint32_t id = c->nodes_end > c->first_node ? c->nodes_end : c->first_node;

    if (j->node.v > 0 && (j->node.v > NODE_ID_MAX || central_node_by_id(c, j->node)))
        return refuse(
            c, link, HAWK_EINVALID,
            "this node's id belongs to another name here: start it again, a dist without its journal");
    if (j->node.v > 0) {
        if (c->ids_at_us != TIME_NEVER)
            succeed(c, j);
        return j->node.v;
    }
    id = id ? id : 1;
    if (c->n_nodes >= c->cfg.nodes_max || id > NODE_ID_MAX)
        return refuse(c, link, HAWK_ELIMIT, "central knows as many nodes as nodes_max allows");
    return id;
}

/* A node with a known name joins. */
static void join_known(struct central *c, struct link *l, struct node *n, const struct msg_join *j)
{
    bool same = n->incarnation == j->incarnation;

    if (n->role != j->role) {
        refuse(c, l->id, HAWK_EINVALID, "this name belongs to a node of another role: choose another name");
        return;
    }
    if (!same && n->link && n->link != l->id && (n->state == NODE_UP || n->state == NODE_JOINING)) {
        refuse(c, l->id, HAWK_ENAME_TAKEN,
               "another live node already uses this name: choose another, or stop that one");
        return;
    }
    /* The old process's tasks may run on, unheard, until its lease is over: on another machine, or under the
     * spawner that outlives an agent (DESIGN 3.9 and 3.10). */
    if (n->role == ROLE_WORKER && !same && n->state == NODE_SUSPECT) {
        central_node_report(c, n, CHANGE_REPLACED);
        central_tasks_worker_replaced(c, n, n->suspect_us + c->cfg.long_lease_us);
    }
    take_join(c, n, l, j);
    if (n->state == NODE_JOINING)
        return;
    if (n->journalled) {
        admit(c, n);
    } else {
        set_state(c, n, NODE_JOINING);
        central_journal_node(c, n);
    }
}

/* Keeps the JOIN for later. */
static void put_off(struct central *c, struct link *l, const struct msg *m)
{
    if (l->early)
        forget_early(l->early);
    l->early = xmalloc(sizeof *l->early);
    l->early->link = l->id;
    l->early->m = *m;
    msg_ref(m);
    list_push_tail(&c->joins_waiting, &l->early->entry);
}

static void join(struct central *c, struct link *l, const struct msg *m)
{
    const struct msg_join *j = &m->join;
    struct node *n;

    if (!join_is_valid(c, l, j))
        return;
    if (l->left) {
        refuse(c, l->id, HAWK_EINVALID, "the node of this stream has left: join on another one");
        return;
    }
    n = node_by_name(c, j->name);
    if (!cluster_fits(c, j)) {
        refuse(c, l->id, HAWK_ESTALE,
               "this node is of another cluster: give it the address of its own central; or start it again, "
               "a dist "
               "without its journal");
        return;
    }
    if (l->node && l->node != n) {
        refuse(c, l->id, HAWK_EINVALID, "this stream already belongs to another name");
        return;
    }
    if (!n) {
        uint32_t id;

        if (j->node.v == 0 && c->ids_at_us != TIME_NEVER) {
            put_off(c, l, m);
            return;
        }
        id = id_for(c, l->id, j);
        if (!id)
            return;
        n = node_new(c, j->name, (node_id_t){id}, j->role);
        /* Nobody had this id before, so no number was given out. */
        n->next_seq = j->role == ROLE_DIST && j->node.v == 0;
    } else if (j->node.v && !node_eq(j->node, n->id)) {
        refuse(c, l->id, HAWK_EINVALID,
               "this node has another id here than it had: start it again, a dist without its journal");
        return;
    }
    join_known(c, l, n, j);
}

void central_on_join(struct central *c, const struct msg *in)
{
    struct link *l = central_link(c, in->peer);
    bool waited = c->ids_at_us != TIME_NEVER;

    if (!l || c->stopping)
        return; /* a refusal would end the node; without an answer it asks the next central */
    if (!c->recovered) {
        put_off(c, l, in);
        return;
    }
    join(c, l, in);
    if (waited && c->ids_at_us == TIME_NEVER)
        central_nodes_join_waiting(c);
}

void central_nodes_join_waiting(struct central *c)
{
    uint32_t n = 0;

    list_foreach(&c->joins_waiting, counted, nxt)
        n++;
    while (n-- > 0) { /* some joins are put off again, behind the others */
        struct early_join *j = container_of(c->joins_waiting.next, struct early_join, entry);
        struct link *l = central_link(c, j->link);

        list_remove(&j->entry);
        l->early = NULL;
        join(c, l, &j->m);
        forget_early(j);
    }
    if (c->ids_at_us == TIME_NEVER && !list_empty(&c->joins_waiting))
        central_nodes_join_waiting(c); /* one of the nodes had an id */
}

void central_nodes_journalled(struct central *c, struct node *n)
{
    n->journalled = true;
    if (n->state != NODE_JOINING)
        return;
    if (n->link && !c->stopping)
        admit(c, n);
    else
        set_state(c, n, NODE_AWAY);
}

/* The dist got central's number before it sends this one (protocol 11.8). Its number may be smaller when it
 * leaves. */
void central_on_job_numbers(struct central *c, const struct msg *in)
{
    struct node *n = c->from;
    uint64_t next = in->job_numbers.next;
    if (n->next_seq == next)
        return;
    n->next_seq = next;
    central_journal_node(c, n);
}

void central_nodes_free(struct central *c)
{
    list_foreach(&c->joins_waiting, entry, next)
        forget_early(container_of(entry, struct early_join, entry));
    free(c->links.v);
    HASH_CLEAR(hh, c->names);
    for (uint32_t id = 0; id < c->nodes_end; id++) {
        struct node *n = c->nodes[id];

        if (!n)
            continue;
        if (n->waiting.n_slots)
            waiting_worker_remove(&c->waiting, &n->waiting);
        blob_drop(n->name);
        blob_drop(n->addr);
        blob_drop(n->out_why);
        blob_drop(n->serves);
        central_node_forget_apps(c, n, false);
        free(n->counters);
        free(n);
    }
    free(c->nodes);
}
