/* What server.c (listening, dispatch) and server_call.c (one call) share. */
#ifndef HAWK_NET_SERVER_IMPL_H
#define HAWK_NET_SERVER_IMPL_H

#include "net/core.h"
#include "net/frames.h"
#include "net/front.h"
#include "net/plain.h"
#include "net/server.h"

/* Exactly one of `request` (the client sends one message) and `open` (any number) is set. */
struct server_method {
    char *path;
    void (*request)(void *arg, struct rpc_call *c, const uint8_t *request, size_t len);
    void (*open)(void *arg, struct rpc_call *c);
    void *arg;
    uint32_t per_connection; /* calls at a time; 0: no limit of its own */
    bool lasting;            /* they last until their client ends them */
};

/* A server's calls, and what it waits for when it stops. */
struct server_calls {
    struct loop *loop;
    struct list all;  /* struct rpc_call */
    uint32_t n;       /* of them with a handler */
    uint32_t lasting; /* of those */
    bool stopping;    /* no handler gets requests any more */
    uint64_t made;    /* calls that ever came; those that ended with an error, by its code */
    uint64_t failed[SERVER_CODES];
    size_t bytes; /* of replies that have not left */
    size_t bytes_max;
    /* Operations that gRPC has to complete: accepts, calls on the wire, the end of the server. */
    uint32_t held;
    bool released; /* held is 0 again: no operation of the server completes any more */
};

static inline void server_hold(struct server_calls *s) { s->held++; }
static inline void server_let_go(struct server_calls *s) { s->released = --s->held == 0; }

/* Whether clients have left too many replies unread for one more, and those of the connection's address more than a
 * little of them; and what to tell the caller then. */
bool server_replies_full(const struct server_calls *s, const struct front_conn *conn, char *text,
                         size_t size);

/* What carries a call: exactly one of the two. */
struct server_wire {
    grpc_call *call;
    struct plain *plain;
};
/* Takes a call over. m NULL: the caller ends it with rpc_fail at once; otherwise m's handler gets it. conn
 * NULL: its connection is gone. A plain stream needs a method with `open`. */
struct rpc_call *server_call_new(struct server_calls *s, struct server_wire wire,
                                 const struct server_method *m, struct front_conn *conn);
/* Ends the calls on plain streams, as grpc_server_cancel_all_calls does the others. */
void server_calls_cancel_plain(struct server_calls *s);
/* Frees the calls that nobody has ended. Their streams must be over. */
void server_calls_free(struct server_calls *s);

#endif
