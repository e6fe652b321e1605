/* Decides who gets in. It has the listening sockets of a server, its connections, and the probes of its
 * own listeners.
 *
 * The front accepts connections and hands each to gRPC. Between the two stands a guard (guard.h), which
 * counts the frames. A connection is *proven* once a call of it was accepted: its token was right, its
 * method exists, and its request came. Before that, its address may have few connections (unix sockets and
 * loopback: any number), it has less time, and it is the first to go when there are too many. While
 * FRONT_UNPROVEN_MAX connections are not proven, the front accepts none: a client waits in the kernel's
 * queue until a connection has proven itself, has ended, or was cut to make room. An address that opens
 * connections faster than its rate has the further ones wait, while others' are taken in (front_wait.c).
 *
 * gRPC knows a connection as "fd:7"; front_find finds it by that name. All of this belongs to the loop's
 * thread. Private to net/. */
#ifndef HAWK_NET_FRONT_H
#define HAWK_NET_FRONT_H

#include "base/err.h"
#include "base/list.h"
#include "net/addresses.h"
#include "net/caller.h"
#include "net/identity.h"
#include "net/loop.h"

#include <grpc/grpc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FRONT_PER_ADDRESS 100u          /* unproven connections of one address, unless configured */
#define FRONT_CONNECT_RATE 500u         /* new connections of one address a second, unless configured */
#define FRONT_UNPROVEN_MAX 500u         /* of all addresses, including those that gRPC has not released yet */
#define FRONT_YOUNG_US (50 * US_PER_MS) /* time to prove itself, before it may be cut to make room */
#define FRONT_OWED_US (500 * US_PER_MS) /* the same, for a connection that waits for this process */
#define FRONT_SETUP_US (10 * US_PER_S)  /* for a connection's preface and first frame */
#define FRONT_UNPROVEN_US (60 * US_PER_S) /* for its first accepted call */
#define FRONT_FAILED_MAX 10u              /* calls with a wrong token that end a connection */

struct front;
struct front_conn;
struct tls;

struct front_config {
    uint32_t connections_max; /* 0: half of the descriptors the process may have */
    uint32_t per_address;     /* 0: FRONT_PER_ADDRESS */
    uint32_t connect_rate;    /* 0: FRONT_CONNECT_RATE */
    uint32_t user_timeout_ms; /* how long sent bytes may stay unacknowledged */
    struct tls *tls;          /* clients must speak TLS, but for those of unix sockets; NULL: none may */
    bool own_alone; /* clients of TCP addresses, all of this machine, are to be this process's user or root */
    /* A client of a unix socket speaks no HTTP/2: its connection carries a plain stream (plain.h). Whoever takes
     * it reads, writes and closes the descriptor in gRPC's place. NULL: every connection goes to gRPC */
    void (*plain)(void *plain_arg, struct front_conn *c);
    void *plain_arg;
    /* A listener does not answer any more, or the guard does not see gRPC's frames: the process is of no
     * use. NULL: the front only logs it. */
    void (*dead)(void *arg);
    void *arg;
};

/* Of connections, since the front was made. */
struct front_counts {
    uint64_t delayed; /* they waited, since their address connected too fast */
    uint64_t refused;
    uint64_t untrusted; /* their TLS failed, or their certificates were good no more */
};

/* One connection. The server keeps its counts. */
struct front_conn {
    struct list node;       /* of the front's lists */
    struct list in_address; /* while it counts for its address */
    struct front *front;
    struct guard *guard;
    struct loop_fd *first; /* waits for the first byte, which says what it speaks; NULL: that is known */
    int fd;
    bool
        exempt; /* of this machine, and by a unix socket of root or our user: its address may have any number */
    bool proven;
    bool tls;                       /* the client must show a certificate */
    bool own;                       /* a probe's */
    bool cut;                       /* was told to end */
    bool closed;                    /* gRPC has let go of it */
    uint8_t net[ADDRESS_NET_BYTES]; /* the bytes that count as its address */
    int64_t since_us;               /* it is in its list */
    uint32_t refs;                  /* calls */
    uint32_t calls;                 /* of them those that have a handler */
    uint32_t waiting;               /* of those: no bytes of the client's have come yet */
    uint32_t limited;               /* of those: calls of the method that has a limit per connection */
    uint32_t failed;                /* calls with a wrong token */
    struct identity who;            /* read at its first call */
    bool local_socket;              /* it came by a unix socket */
    bool stranger;                  /* own_alone: it is of another user, `uid`, or nobody knows whose */
    uint32_t uid;         /* as the kernel says; CALLER_NO_UID: it was not asked, or does not know */
    struct caller caller; /* set at its first call of the API */
    bool caller_known;
    char peer[96];
};

struct front *front_new(struct loop *l, const struct front_config *c);
/* Listens at a numeric address, or "unix:/path", and writes the address that it has to bound (ADDR_TEXT bytes).
 * HAWK_EEXISTS (in use) or HAWK_EIO, and why (`size` bytes). */
HAWK_MUST_USE int front_listen(struct front *f, const char *addr, char *bound, char *why, size_t size);
/* The server must have been started. */
void front_start(struct front *f, grpc_server *server);
/* Accepts no connection any more. */
void front_stop(struct front *f);
/* Forgets connections that gRPC still has. NULL is fine. */
void front_free(struct front *f);

struct front_counts front_counts(const struct front *f);

/* Finds the connection of a call by its peer, as gRPC names it. NULL: the connection is gone. */
struct front_conn *front_find(struct front *f, const char *peer);
void front_prove(struct front_conn *c);
/* A call of the connection had a wrong token, or something else that is no good; `what` says so in the log. */
void front_failed(struct front_conn *c, const char *what);
/* Logs that a call of the connection asked for what its caller may not do; `why` says what. */
void front_forbidden(struct front_conn *c, const char *why);
/* The same of a call of somebody who is let in no more, whatever he calls: he has one line in ten minutes. */
void front_outlawed(struct front_conn *c, const char *why);
/* Whom its certificate is for. NULL: it needs none. */
const struct identity *front_peer(struct front_conn *c);
/* The peer has shown a renewed certificate for the same node and key (tls_take_renewed). */
void front_renew_peer(struct front_conn *c, const struct identity *who);
/* Tells the guard for whom its unfinished messages count: whom its certificate is for, else its address. Links of nodes
 * without certificates do not count for the clients of their addresses. */
void front_tell_user(struct front_conn *c, bool is_link);
/* Who makes its calls. */
const struct caller *front_caller(struct front_conn *c);
/* Cuts the connections whose certificates are good no more. */
void front_check_peers(struct front *f);
void front_unref(struct front_conn *c);

/* The load of a connection's address. */
struct address_load front_load(const struct front_conn *c);
void front_call_began(struct front_conn *c, bool lasting);
void front_call_ended(struct front_conn *c, bool lasting);
/* So many bytes of a reply to a call that is under way wait to leave, or wait no more. */
void front_reply_waits(struct front_conn *c, size_t bytes);
void front_reply_left(struct front_conn *c, size_t bytes);

#endif
