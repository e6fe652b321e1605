/* Operators' requests to nodes: to take no new work, to take work again, to stop (protocol 8). */
#include "central/central.h"
#include "central/journal.h"
#include "central/pairing.h"

void central_drain_answer(struct central *c, node_id_t node, uint32_t client, int32_t err)
{
    struct msg *m;

    if (client == 0)
        return;
    m = out_add(c->out, MSG_DRAIN_SET, 0);
    m->drain_set.node = node;
    m->drain_set.client = client;
    m->drain_set.err = err;
}

int central_drain_refusal(const struct central *c, node_id_t node, enum drain drain)
{
    const struct node *n = central_node_by_id(c, node);

    if (!n)
        return HAWK_ENOT_FOUND;
    if (drain >= DRAIN_COUNT)
        return HAWK_EINVALID;
    if (drain == DRAIN_RESTART && n->state == NODE_AWAY)
        return HAWK_ENOT_FOUND; /* it has no process that could end */
    /* An older worker can be drained: central just sends it no work. An older dist cannot. */
    if (drain != DRAIN_NOT && n->role == ROLE_DIST && n->link && !msg_in_version(MSG_DRAIN, n->version))
        return HAWK_EVERSION;
    return c->stopping ? HAWK_ESHUTDOWN : 0;
}

static void tell_drain(struct central *c, struct node *n)
{
    struct msg *m = msg_in_version(MSG_DRAIN, n->version) ? central_send(c, n, MSG_DRAIN) : NULL;

    if (m)
        m->drain.on = n->drain != DRAIN_NOT;
}

/* The node's slots leave the cluster or come back: other workers may have to be reserved. */
static void recount(struct central *c, struct node *n)
{
    bool counted = node_counts(n);

    c->service_look = true;
    if (n->role != ROLE_WORKER || n->counted == counted)
        return;
    central_partition_count(c, n, counted);
    central_partition_balance(c);
    if (counted)
        central_partition_tell(c, n);
}

void central_drain_changed(struct central *c, struct node *n)
{
    central_pairing_forget(c, n);
    recount(c, n);
    central_node_update_eligible(c, n);
    central_members_changed(c, n);
}

void central_on_draining(struct central *c, const struct msg *in)
{
    struct node *n = c->from;

    if (n->draining)
        return;
    n->draining = true;
    central_drain_changed(c, n);
}

void central_on_set_drain(struct central *c, const struct msg *in)
{
    const struct msg_set_drain *m = &in->set_drain;
    struct node *n = central_node_by_id(c, m->node);
    int err = central_drain_refusal(c, m->node, m->drain);
    bool was;

    if (err) {
        central_drain_answer(c, m->node, m->client, err);
        return;
    }
    was = n->drain != DRAIN_NOT;
    n->drain = m->drain;
    if (was != (n->drain != DRAIN_NOT)) {
        central_node_report(c, n, was ? CHANGE_UNDRAINED : CHANGE_DRAINING);
        n->empty = false;
        n->drain_us = c->now_us;
        tell_drain(c, n);
        central_drain_changed(c, n);
    }
    central_journal_drain(c, n, m->client);
}

void central_on_drained(struct central *c, const struct msg *in)
{
    struct node *n = c->from;
    const struct msg_drained *m = &in->drained;
    n->empty = m->on && m->empty;
    if (!m->on) /* all tasks that it handed back because it was drained came before this */
        central_nodes_hold(c, n, false);
}

/* Whether a drained node has no work left. A node of version 1 does not say so: there the heartbeats count,
 * once messages that were on their way when it was drained must have arrived. */
bool central_drain_is_empty(const struct central *c, const struct node *n)
{
    if (n->drain == DRAIN_NOT || n->state == NODE_SUSPECT)
        return false;
    if (n->state == NODE_AWAY)
        return true;
    if (msg_in_version(MSG_DRAINED, n->version))
        return n->empty;
    return n->heartbeat_at > n->drain_us + 2 * c->cfg.heartbeat_us &&
           n->queued + n->running_short + n->running_long + n->paused + n->jobs_unfinished == 0;
}

void central_on_stop_node(struct central *c, const struct msg *in)
{
    const struct msg_stop_node *m = &in->stop_node;
    struct node *n = central_node_by_id(c, m->node);
    struct msg *quit = n && msg_in_version(MSG_QUIT, n->version) ? central_send(c, n, MSG_QUIT) : NULL;

    if (!quit)
        return;
    quit->quit.now = m->now;
    central_node_report(c, n, CHANGE_STOPPING);
}
