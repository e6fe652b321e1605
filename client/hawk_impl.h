/* libhawk's inside: a client's connections, and finding the node that answers for something. */
#ifndef HAWK_CLIENT_HAWK_IMPL_H
#define HAWK_CLIENT_HAWK_IMPL_H

#include "client/hawk.h"
#include "net/loop.h"
#include "net/rpc.h"

struct hawk {
    struct loop *loop;
    char *token;
    struct channel **channels; /* the first `contacts` of them are the contacts */
    uint32_t channels_n, channels_cap;
    uint32_t contacts, current; /* current: the contact that answered last */
    struct api_list_nodes_reply nodes;
    struct channel *nodes_from; /* who listed them */
    int64_t nodes_at_us;        /* when; -1: not yet */
    int64_t timeout_us;
    bool at_central; /* the contact is central: hawk_use_central */
    char error[600], warning[600];
};

/* Keeps the text for hawk_error() and returns err. */
int hawk_fail(struct hawk *h, int err, const char *fmt, ...) HAWK_PRINTF(3, 4);
/* The same for what a call to ch met. */
int hawk_call_failed(struct hawk *h, const struct channel *ch, grpc_status_code status, const char *text);
/* Whether a dist answered that another one accepted this job. */
bool hawk_asked_wrong_dist(grpc_status_code status);
struct channel *hawk_contact(struct hawk *h);
/* Goes on with the next contact; false when there is only one. */
bool hawk_next_contact(struct hawk *h);
/* The channel to a node, from ListNodes: HAWK_ENOT_FOUND when the cluster has no such node. Nodes that have no
 * address of their own (those inside `hawk up`) are reached through the contact. */
HAWK_MUST_USE int hawk_node_channel(struct hawk *h, enum role role, node_id_t node, struct channel **ch);

#endif
