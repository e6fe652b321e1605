/* What the files of peers/ share. */
#ifndef HAWK_PEERS_INTERNAL_H
#define HAWK_PEERS_INTERNAL_H

#include "base/heap.h"
#include "base/list.h"
#include "peers/peers.h"

/* ---- accepted.c: who has dialled a worker ---- */

struct accepted_peer {
    uint32_t id; /* 0: the place is free */
    uint32_t role;
};

/* A hash table by node id: open addressing, at most three quarters full. It starts zeroed; free(v) ends
 * it. */
struct accepted {
    struct accepted_peer *v;
    uint32_t n, cap; /* cap: a power of two, or 0 */
};

/* The entry of a peer; NULL: it has not dialled. */
struct accepted_peer *peers_accepted_find(const struct accepted *t, uint32_t id);
void peers_accepted_add(struct accepted *t, uint32_t id, enum role role); /* it is not in there */
void peers_accepted_remove(struct accepted *t, struct accepted_peer *a);

/* ---- Streams that this node dials ---- */

enum line_state {
    LINE_NONE,    /* nobody wants it */
    LINE_WAITING, /* dialled again when its timer fires */
    LINE_OPENING,
    LINE_OPEN,
};

/* A stream to central, or from a dist to a worker, which is dialled again and again. A dist has one line
 * for every worker of the cluster. */
struct line {
    struct blob *addr; /* of a worker */
    /* In state LINE_WAITING; key: when; seq: the line's peer, NODE_CENTRAL. */
    struct heap_node *timer;
    int64_t open_us;   /* since when it is open */
    uint32_t delay_us; /* see backoff_next */
    uint8_t state;     /* enum line_state */
    bool listed; /* central lists the worker as up or draining, or did so before the worker became suspect */
    bool seen;   /* while a whole list is read: the list has the worker */
};
_Static_assert(sizeof(struct line) <= 40, "a dist has one for each worker");

/* A thief's stream to a worker that it asks. */
struct victim {
    struct list lru; /* p->lru: the one used last is at the end */
    uint32_t id;
    bool open;
    int64_t open_by_us; /* while it is not */
    struct blob *addr;
    struct msg held; /* the STEAL_REQUEST that waits for the stream to open; MSG_NONE: none */
};

#define LINE_CHUNK 128u

struct peers {
    uint8_t role;
    uint32_t places, place; /* the number of central's addresses, and the one that is dialled, or was last */
    node_id_t id;           /* as central said last */
    uint64_t cluster;       /* likewise */
    uint32_t epoch;         /* the highest of a central in that cluster */
    struct line central;
    struct rng rng;
    struct heap timers; /* of lines that wait */
    /* dist */
    struct line **lines; /* LINE_CHUNK in each, by node id; NULL where no line ever was */
    uint32_t chunks;
    /* worker */
    struct accepted accepted;
    struct members *members; /* the last list, with the addresses of victims; NULL: none yet */
    uint32_t hinted;         /* the victim that central named last; it may be reserved, and so on no list */
    struct blob *hinted_addr;
    struct list lru; /* victims */
    uint32_t victims, victims_max;
    uint32_t opening; /* of them */
};

/* ---- peers.c ---- */

struct peers_action *peers_put(struct peers_out *out, enum peers_what what, uint32_t peer,
                               enum peers_side side);
void peers_tell_lost(struct peers_out *out, uint32_t peer, enum role role);
void peers_copy(struct peers_out *out, enum peers_what what, enum peers_side side, const struct msg *m);

/* ---- victims.c ---- */

struct victim *peers_victim_find(const struct peers *p, uint32_t id);
void peers_victim_opened(struct peers *p, struct victim *v, struct peers_out *out);
void peers_victim_lose(struct peers *p, struct victim *v, struct peers_out *out);
void peers_victims_listed(struct peers *p, struct peers_out *out); /* p->members is a new one */
void peers_victims_hinted(struct peers *p, const struct msg_steal_hint *m);
void peers_victims_send(struct peers *p, int64_t now_us, const struct msg *m, struct peers_out *out);
void peers_victims_timer(struct peers *p, int64_t now_us, struct peers_out *out);
int64_t peers_victims_next_timeout(const struct peers *p);
void peers_victims_free(struct peers *p);
void peers_victims_check(const struct peers *p);

#endif
