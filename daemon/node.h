/* A role on the network: steps its policy object with what arrives, and carries what it puts out over links.
 * Who dials whom and when, and what the role hears of it, is decided in peers/. */
#ifndef HAWK_DAEMON_NODE_H
#define HAWK_DAEMON_NODE_H

#include "msg/msg.h"
#include "net/link.h"
#include "net/loop.h"

struct node;

struct node_fns {
    const struct role_functions *role; /* its check runs after every step when HAWK_CHECK is set */
    /* Asked before every step: false, and neither this event nor what it would cause happens. The role is out
     * of date from then on, and to be freed. NULL: it may always. */
    bool (*may)(void *arg);
    /* Carries out an effect (a message that is not for the wire); m is borrowed. May call node_feed. */
    void (*effect)(void *arg, const struct msg *m);
    /* Takes central's list of certificates that are good no more. NULL: the daemon has no TLS. */
    void (*denied)(void *arg, const char *list);
    /* Central's: returns the list for nodes; NULL: there is none. */
    const char *(*denying)(void *arg);
};

struct node_config {
    enum role role;
    const char *name, *token; /* copied; token: the nodes'; NULL: none */
    struct tls *tls;          /* NULL: none; outlives the node */
    const char *central;      /* where to find central, or several, comma separated; NULL in central itself */
    uint64_t seed;
    uint32_t version; /* of the protocol; 0: PROTOCOL_VERSION */
    node_id_t id;     /* a dist's, from its journal; NODE_NONE: none yet */
    uint64_t cluster; /* likewise; 0 */
};

/* `role` is the policy object that fns are called with; `arg` is for effect. Nothing is dialled yet. */
struct node *node_new(struct loop *l, const struct node_config *c, const struct node_fns *fns, void *role,
                      void *arg);
/* Gives the role START and dials central. */
void node_start(struct node *n);
/* Gives the role one event, now or, when it is just being stepped, right after that. Borrows m's handles. */
void node_feed(struct node *n, const struct msg *m);
/* For server_set_links, and counters. */
struct links *node_links(const struct node *n);
/* Central's address: the one it was found at, or is looked for. */
const char *node_central_addr(const struct node *n);
/* Central: sends the list of `denying` to every node. */
void node_deny(struct node *n);
/* Breaks every link at once, with what was to be sent: for a central that may not send any more. node_free follows. */
void node_break(struct node *n, const char *why);
/* Closes every link, giving what is pending a second to leave. */
void node_free(struct node *n);

#endif
