/* The calling side of the API: unary and server-streaming calls on a channel, on the loop. */
#ifndef HAWK_NET_RPC_H
#define HAWK_NET_RPC_H

#include "base/err.h"
#include "net/loop.h"

#include <grpc/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct channel;
struct rpc; /* one call we made */

/* A connection to addr ("host:port", "[::1]:port", "unix:/path"), made with the first call and again when it
 * is lost. token: sent with every call; NULL: none. `l` must be a LOOP_NET one. */
struct channel *channel_new(struct loop *l, const char *addr, const char *token);
/* The same to a server that is not ours (etcd): a connection of its own that is never pinged, which such a server may take
 * for an attack. So each call needs a timeout, and after one that ran out the channel is to be made anew. */
struct channel *channel_new_foreign(struct loop *l, const char *addr);
/* Cancels its calls without callbacks, and frees. NULL is fine. */
void channel_free(struct channel *ch);
const char *channel_addr(const struct channel *ch);

struct rpc_fns {
    /* A reply (one for a unary call), borrowed. The next comes when this has returned. NULL: ignore. */
    void (*reply)(void *arg, const uint8_t *data, size_t len);
    /* rpc_open: what rpc_write was given last has left. NULL: ignore. */
    void (*sent)(void *arg);
    /* The call has ended; the rpc is gone when this returns. text: never NULL, may be empty. */
    void (*done)(void *arg, grpc_status_code status, const char *text);
};

/* Starts a call; callbacks come from the loop. timeout_us: TIME_NEVER for none. wait_for_ready: wait for a
 * server that is not there (until the timeout) instead of failing with UNAVAILABLE. A unary call is one whose
 * server sends one reply: a reply missing from an OK is up to the caller to notice. */
struct rpc *rpc_start(struct channel *ch, const char *method, const void *request, size_t len,
                      int64_t timeout_us, bool wait_for_ready, const struct rpc_fns *fns, void *arg);
/* A call both sides of which send any number of messages, until the server ends it. It never waits for a server that is
 * not there. */
struct rpc *rpc_open(struct channel *ch, const char *method, const struct rpc_fns *fns, void *arg);
/* Sends one. One is on its way at a time: only where rpc_writable; `sent` comes when it is again. What gathers meanwhile
 * goes as one. */
void rpc_write(struct rpc *r, const void *data, size_t len);
bool rpc_writable(const struct rpc *r);
/* No more will be sent; where rpc_writable. The server ends the call when it has answered all. */
void rpc_write_end(struct rpc *r);
/* Cancels; no callback comes any more and r must not be used. From within its callbacks, too. */
void rpc_cancel(struct rpc *r);

/* One unary call, turning the loop until it has ended. Returns 0, or the status as HAWK_E…. *reply
 * (malloc'ed, the caller's; never NULL on 0) and *reply_len are the reply; *status its gRPC status and *text (malloc'ed,
 * the caller's; never NULL) what the server said. reply, status and text may be NULL. */
HAWK_MUST_USE int rpc_call_sync(struct loop *l, struct channel *ch, const char *method, const void *request,
                                size_t len, int64_t timeout_us, bool wait_for_ready, uint8_t **reply,
                                size_t *reply_len, grpc_status_code *status, char **text);

/* The error code that says what a status says (OK: 0), and the status a server answers an error with. */
int rpc_status_to_err(grpc_status_code status);
grpc_status_code rpc_err_to_status(int err);
/* The system's reason, in a status' text, why no connection could be made: gRPC puts the address before it once more, in
 * one of several forms. NULL when the text tells of something else. */
const char *rpc_connect_reason(const char *text);

#endif
