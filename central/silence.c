/* Heartbeats and silence of nodes: leaving, suspicion, the end of a lease (protocol 1, DESIGN 3.9). */
#include "central/journal.h"

#include "base/err.h"
#include "base/mem.h"

#include <string.h>

void central_on_heartbeat(struct central *c, const struct msg *in)
{
    struct node *n = c->from;
    const struct msg_heartbeat *m = &in->heartbeat;
    central_node_set_reporting(c, n, false); /* it reported the tasks that it holds before this */
    n->heartbeat_at = c->now_us;
    n->queued = m->queued;
    n->running_short = m->running_short;
    n->running_long = m->running_long;
    n->paused = m->paused;
    n->freezer = m->freezer;
    n->jobs_unfinished = m->jobs_unfinished;
    central_nodes_hold(c, n, false);
    if (!m->quiet)
        central_send(c, n, MSG_HEARTBEAT_ACK)->heartbeat_ack.seq = m->seq;
}

void central_nodes_hold(struct central *c, struct node *n, bool hold)
{
    if (n->held_off == hold)
        return;
    n->held_off = hold;
    central_node_update_eligible(c, n);
}

/* Allocates the counters with the first report: without heartbeats, as in simulations of many workers, none
 * come. */
void central_on_counter(struct central *c, const struct msg *in)
{
    struct node *n = c->from;
    const struct msg_counter *m = &in->counter;
    if (m->counter >= COUNTER_COUNT)
        return;
    if (!n->counters)
        n->counters = xcalloc(COUNTER_COUNT, sizeof *n->counters);
    n->counters[m->counter] = m->value;
}

void central_on_leave(struct central *c, const struct msg *in)
{
    struct node *n = c->from;

    central_link(c, n->link)->left = true;
    central_node_unlink(c, n);
    if (n->drain == DRAIN_RESTART)
        n->drain = DRAIN_NOT;
    central_node_gone(c, n, CHANGE_LEFT);
}

static struct node *first(const struct central *c, enum node_state state)
{
    const struct list *l = &c->by_state[state];

    return list_empty(l) ? NULL : container_of(l->next, struct node, by_state);
}

static int64_t silence_due_us(const struct central *c)
{
    const struct node *n = c->cfg.heartbeats ? first(c, NODE_UP) : NULL;

    return n ? n->heard_us + c->cfg.suspect_us : TIME_NEVER;
}

static int64_t lease_due_us(const struct central *c)
{
    const struct node *n = first(c, NODE_SUSPECT);

    return n ? n->suspect_us + c->cfg.long_lease_us : TIME_NEVER;
}

int64_t central_nodes_due_us(const struct central *c)
{
    int64_t at_us = earlier(silence_due_us(c), lease_due_us(c));

    return c->recovered ? earlier(at_us, earlier(c->ids_at_us, c->young_us)) : at_us;
}

void central_nodes_run(struct central *c)
{
    while (silence_due_us(c) <= c->now_us)
        central_node_suspect(c, first(c, NODE_UP), CHANGE_SILENT);
    while (lease_due_us(c) <= c->now_us)
        central_node_gone(c, first(c, NODE_SUSPECT), CHANGE_GONE);
    if (c->recovered && c->young_us <= c->now_us) {
        c->young_us = TIME_NEVER;
        central_journal_cluster(c);
    }
    if (c->ids_at_us <= c->now_us) { /* no node has an id: this is a new cluster */
        c->ids_at_us = TIME_NEVER;
        central_nodes_join_waiting(c);
    }
}
