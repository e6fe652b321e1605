/* Workers that take themselves out of service because they cannot start tasks (protocol 8). At most a quarter
 * may: a fault of all workers, or of their jobs, must not take the whole cluster out of service. */
#include "central/central.h"
#include "central/state.h"

uint32_t central_service_out(const struct central *c)
{
    uint32_t n = 0;

    list_foreach(&c->out_of_service, entry, next)
        n += node_is_ours(container_of(entry, struct node, out));
    return n;
}

uint32_t central_service_limit(const struct central *c)
{
    uint32_t n = c->n_workers + central_service_out(c);

    if (n < 2)
        return 0; /* the only worker stays */
    return n < CENTRAL_OUT_SHARE ? 1 : n / CENTRAL_OUT_SHARE;
}

static void answer_service(struct central *c, const struct node *n, bool on)
{
    struct msg *m = central_send(c, n, MSG_OUT_OF_SERVICE);

    if (m)
        m->out_of_service.on = on;
}

static void have_back(struct central *c, struct node *n)
{
    list_remove(&n->out);
    central_node_report(c, n, CHANGE_IN);
    central_drain_changed(c, n);
}

static void request_out(struct central *c, struct node *n, struct blob *why)
{
    bool may = node_out(n) || central_service_out(c) + node_is_ours(n) <= central_service_limit(c);

    blob_drop(n->out_why);
    n->out_why = why ? blob_ref(why) : blob_str("it cannot start tasks");
    answer_service(c, n, may);
    if (node_out(n))
        return;
    central_node_report(c, n, may ? CHANGE_OUT : CHANGE_KEPT);
    if (!may)
        return;
    list_push_tail(&c->out_of_service, &n->out);
    central_drain_changed(c, n);
}

/* Output: at most one message, and those of a change. */
void central_on_out_of_service(struct central *c, const struct msg *in)
{
    struct node *n = c->from;
    const struct msg_out_of_service *m = &in->out_of_service;
    if (m->on) {
        request_out(c, n, m->why);
        return;
    }
    if (node_out(n))
        have_back(c, n);
    central_nodes_hold(c, n, false); /* all tasks that it handed back because it was out came before this */
}

void central_service_look(struct central *c)
{
    struct list *at = c->out_of_service.prev;

    while (at != &c->out_of_service && central_service_out(c) > central_service_limit(c)) {
        struct node *n = container_of(at, struct node, out);

        at = at->prev;
        if (!node_is_ours(n))
            continue;
        answer_service(c, n, false);
        have_back(c, n);
    }
}
