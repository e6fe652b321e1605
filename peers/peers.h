/* The rules of one node's connections (docs/protocol.md, section 0), without I/O: who dials whom and when,
 * and what the role hears of it. The shells drive it: daemon/node.c on gRPC links, bus/bus.c in one process.
 * They only carry streams.
 *
 * A shell reports what happens to streams, and gets back what it is to do. It keeps the streams that are
 * open, by their names, and sends on them without asking. It asks (peers_send) where it has no open stream
 * for a message.
 *
 * A stream's name is its peer and its side. The peer is a node id or NODE_CENTRAL; in central it is the
 * link's number. Two workers that steal from each other have two streams, one that each of them dialled.
 *
 * Who dials:
 *   dist, worker   central: from the start on, again and again
 *   dist           every worker that central lists as up or draining, again and again
 *   worker         a victim, when the role has a STEAL_REQUEST for it; at most `victims` streams stay open for
 *                  the next time */
#ifndef HAWK_PEERS_PEERS_H
#define HAWK_PEERS_PEERS_H

#include "base/backoff.h"
#include "msg/msg.h"

#include <stdbool.h>
#include <stdint.h>

/* Streams that a worker keeps to workers that it asked. For another one it closes the stream not used for
 * longest. */
#define PEERS_VICTIMS 64u
/* A victim whose stream does not open within this is lost to the thief. */
#define PEERS_VICTIM_OPEN_US US_PER_S

struct peers;

struct peers_config {
    enum role role;
    uint64_t seed;    /* of the delays */
    node_id_t id;     /* a dist's, from its journal; NODE_NONE: none yet */
    uint64_t cluster; /* likewise; 0 */
    uint32_t places;  /* addresses at which central may be; 0: 1 */
    uint32_t victims; /* 0: PEERS_VICTIMS */
};

enum peers_side { PEERS_DIALLED, PEERS_ACCEPTED };

enum peers_what {
    PEERS_DIAL, /* open the stream: to the worker `peer` at addr, or to central at the place-th of its addresses.
                     The shell answers with peers_opened or peers_ended, as soon or late as it is known */
    PEERS_CLOSE, /* end the stream in order, unless it has ended, and forget it: it is not dialled again before it is
                     dialled anew. The shell reports nothing more of it */
    PEERS_DROP,   /* end it at once, for err and why; the shell reports nothing more of it */
    PEERS_BREAK,  /* end it at once, for err and why; peers_ended follows */
    PEERS_ADMIT,  /* the stream that peers_accepted has reported bears its name from now on */
    PEERS_REFUSE, /* end that stream at once, for err and why; it never had a name */
    PEERS_TELL,   /* step the role with m */
    PEERS_SEND,   /* send m on the stream */
};

struct peers_action {
    struct msg m;      /* TELL, SEND */
    struct blob *addr; /* DIAL, unless it is central that is dialled */
    const char *why;   /* in words, or NULL. TELL of REFUSED has one, too */
    uint32_t peer;
    int32_t err;
    uint32_t place;
    uint8_t what; /* enum peers_what */
    uint8_t side; /* enum peers_side */
};

/* Actions, in the order in which the shell carries them out. The caller owns it and begins with zeroes. Each call
 * adds some. */
struct peers_out {
    struct peers_action *v;
    uint32_t n, cap;
    char why[256]; /* what the last action with a `why` of its own says */
};
void peers_out_clear(struct peers_out *o); /* drops every handle in it, and keeps the memory */
void peers_out_free(struct peers_out *o);

struct peers *peers_new(const struct peers_config *c);
void peers_free(struct peers *p); /* NULL is fine */

/* The node has started. 1 action at most. */
void peers_start(struct peers *p, struct peers_out *out);
/* A stream that was to be dialled is open. Who answered says that it is `role` and `node`, and speaks
 * `version`. 1 action. */
void peers_opened(struct peers *p, int64_t now_us, uint32_t peer, enum role role, node_id_t node,
                  unsigned version, struct peers_out *out);
/* Somebody has dialled this node. 4 actions at most. */
void peers_accepted(struct peers *p, uint32_t peer, enum role role, unsigned version, struct peers_out *out);
/* A stream has ended, or one that was to be dialled could not be opened; hung_up: its connection was taken, and ended
 * by the peer. `role` of an accepted one: what its peer is. 2 actions at most. */
void peers_ended(struct peers *p, int64_t now_us, uint32_t peer, enum peers_side side, enum role role,
                 bool hung_up, struct peers_out *out);
/* Central's stream has brought m. Only what peers_looks_at is of interest here; the rest goes straight to
 * the role. 1 action, and 3 for each member at most. */
void peers_central_says(struct peers *p, const struct msg *m, struct peers_out *out);
static inline bool peers_looks_at(enum msg_type type)
{
    return type == MSG_JOINED || type == MSG_MEMBERS || type == MSG_MEMBER || type == MSG_STEAL_HINT;
}
/* The role wants to send m, and the shell has no open stream for it; or m is a thief's (peers_is_thiefs),
 * and the shell does not know whether it has. m stays the caller's. 3 actions at most. */
void peers_send(struct peers *p, int64_t now_us, const struct msg *m, struct peers_out *out);
/* The role has waited for that node in vain (GIVE_UP). 1 action. */
void peers_give_up(struct peers *p, uint32_t peer, struct peers_out *out);
/* The time of peers_next_timeout has come. */
void peers_timer(struct peers *p, int64_t now_us, struct peers_out *out);
int64_t peers_next_timeout(const struct peers *p); /* TIME_NEVER: none */

/* Messages from a thief to its victim, on the stream that the thief dialled. The answer comes back on that stream. */
static inline bool peers_is_thiefs(enum msg_type type)
{
    return type == MSG_STEAL_REQUEST || type == MSG_STEAL_ACK;
}
/* Which of its streams with m->peer a node of this role sends m on. */
static inline enum peers_side peers_side_of(enum role role, const struct msg *m)
{
    if (role == ROLE_WORKER && m->peer != NODE_CENTRAL.v && !peers_is_thiefs(m->type))
        return PEERS_ACCEPTED;
    return role == ROLE_CENTRAL ? PEERS_ACCEPTED : PEERS_DIALLED;
}

/* Aborts when one of these does not hold:
 *   a stream is dialled again later = a timer is set for it
 *   streams to victims <= `victims`, each opening or open
 *   a request is held = its victim's stream is opening
 *   nobody but a dist has streams to listed workers, nobody but a worker has victims */
void peers_check(const struct peers *p);

#endif
