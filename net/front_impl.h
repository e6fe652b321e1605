/* The inside of a front: who gets in (front.c), and what the server says and asks of a connection that is in
 * (front_conn.c). Private to these. */
#ifndef HAWK_NET_FRONT_IMPL_H
#define HAWK_NET_FRONT_IMPL_H

#include "net/addresses.h"
#include "net/frames.h"
#include "net/front.h"
#include "net/log_kind.h"

/* Logs a line of a kind that a stranger can cause. */
#define say(f, kind, what, ...) log_kind_warn((kind), (what), loop_now((f)->loop), __VA_ARGS__)

struct listener;

struct front {
    struct loop *loop;
    struct front_config config;
    grpc_server *server; /* NULL: the front accepts no connection */
    struct listener **listeners;
    unsigned listeners_n, listeners_cap;
    struct guards *guards;
    int news_fd;
    struct loop_fd *news;
    struct loop_timer tick;
    int64_t tick_us;     /* when, while it is set */
    struct list waiting; /* came too fast for their addresses, and are not in gRPC */
    struct list unproven, proven;
    struct list leaving;               /* connections that are cut once their last answer has left */
    struct list closing;               /* gRPC has let go */
    uint32_t conns_n;                  /* of all lists but the last, without those that were cut */
    uint32_t unproven_n, unproven_max; /* connections in gRPC; without our own self-tests */
    uint32_t waiting_n;
    struct front_conn **by_fd;
    uint32_t by_fd_n;
    struct addresses addresses;
    struct log_kind broken[BROKEN_RULES], refused, late, denied, strangers, forbidden, hasty;
    struct log_peers refused_peers;
    struct front_counts counts;
    bool starved; /* there is no descriptor for a new connection */
    bool full;    /* too many connections are not proven */
    bool seen;    /* the guard counts what gRPC reads and writes */
    bool is_dead;
};

/* The same, soon. */
void front_tick_on(struct front *f);
/* Ends the connection at once. */
void front_cut(struct front_conn *c);
/* Gives a connection that was accepted to gRPC, or refuses it. */
void front_take_in(struct front_conn *c);
/* Gives it to gRPC, or to whoever takes plain streams, once it is known what it speaks (front_first.c). */
void front_give(struct front_conn *c);
/* Closes a connection that is not in gRPC, and frees it; `why` is for the log. */
void front_refuse(struct front_conn *c, const char *why);
/* Whether it can take in nobody for now, since too many connections are not proven. */
bool front_is_full(const struct front *f);
/* Whether one more connection can be taken in. If not, those that can go make room, soon. */
bool front_has_room(struct front *f);
/* Whether the connection cannot be taken in now, since its address connects too fast: then it waits, or is refused. */
bool front_must_wait(struct front_conn *c);
/* Takes in those whose turn has come. */
void front_take_waiting(struct front *f);
/* Whether the client has left. gRPC's clients do not end only their side. */
bool front_has_left(int fd);
/* TLS failed on the connection; `why` is for the log. */
void front_refused(struct front_conn *c, const char *why);

#endif
