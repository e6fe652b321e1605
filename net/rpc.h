/* The calling side of the API: unary and server-streaming calls on a channel, on the loop. */
#ifndef HAWK_NET_RPC_H
#define HAWK_NET_RPC_H

#include "base/err.h"
#include "msg/types.h"
#include "net/loop.h"

#include <grpc/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct channel;
struct rpc; /* one call we made */

struct tls;
struct tls_files;

/* A connection to addr ("host:port", "[::1]:port", "unix:/path"). The first call opens it, and opens it
 * again when it is lost. token: sent with every call; NULL: none. `l` must be a LOOP_NET one. */
struct channel *channel_new(struct loop *l, const char *addr, const char *token);
/* The same with TLS, but not to a unix socket. role: which the server's certificate must be for; ROLE_NONE: a
 * dist's or central's. tls NULL: none; it outlives the channel. Files that have changed are used from the next call
 * on that begins while there is no other. */
struct channel *channel_new_tls(struct loop *l, const char *addr, const char *token, struct tls *tls,
                                enum role role);
/* A connection to a foreign server (etcd). It is not shared and never pinged, since such a server may take
 * pings for an attack. So each call needs a timeout, and after a call that timed out the caller makes a
 * new channel. files: for TLS, with which the server's certificate must be for its host; NULL: plain. NULL: a file
 * cannot be read, and why (size bytes) says which. */
struct channel *channel_new_foreign(struct loop *l, const char *addr, const struct tls_files *files,
                                    char *why, size_t size);
/* Cancels the calls without callbacks, and frees. NULL is fine. */
void channel_free(struct channel *ch);
const char *channel_addr(const struct channel *ch);

struct rpc_fns {
    /* Gets a reply (a unary call has one), borrowed. The next comes when this has returned. NULL: ignore
     * replies. */
    void (*reply)(void *arg, const uint8_t *data, size_t len);
    /* For rpc_open: the last message of rpc_write has left. NULL: ignore. */
    void (*sent)(void *arg);
    /* The call has ended. The rpc is gone when this returns. text: never NULL, may be empty. */
    void (*done)(void *arg, grpc_status_code status, const char *text);
};

/* Starts a call. Callbacks come from the loop. timeout_us: TIME_NEVER for none. wait_for_ready: wait for a
 * server that is not there (until the timeout) instead of failing with UNAVAILABLE. A unary call is one
 * whose server sends one reply. The caller has to notice an OK without a reply. */
struct rpc *rpc_start(struct channel *ch, const char *method, const void *request, size_t len,
                      int64_t timeout_us, bool wait_for_ready, const struct rpc_fns *fns, void *arg);
/* Starts a call in which both sides send any number of messages, until the server ends it. It never waits
 * for a server that is not there. */
struct rpc *rpc_open(struct channel *ch, const char *method, const struct rpc_fns *fns, void *arg);
/* Sends one message. Only one is on its way at a time: call this only if rpc_writable. `sent` comes when
 * it is so again. Gather messages meanwhile and send them as one. */
void rpc_write(struct rpc *r, const void *data, size_t len);
bool rpc_writable(const struct rpc *r);
/* Tells the server that no more messages follow; only if rpc_writable. The server ends the call when it
 * has answered all. */
void rpc_write_end(struct rpc *r);
/* Cancels the call. No callback comes any more, and r must not be used. Callbacks may call it, too. */
void rpc_cancel(struct rpc *r);

/* Makes one unary call, and turns the loop until it has ended. Returns 0, or the status as HAWK_E…. *reply
 * (malloc'ed, the caller's; never NULL on 0) and *reply_len are the reply. *status is its gRPC status, and
 * *text (malloc'ed, the caller's; never NULL) the server's text. reply, status and text may be NULL. */
HAWK_MUST_USE int rpc_call_sync(struct loop *l, struct channel *ch, const char *method, const void *request,
                                size_t len, int64_t timeout_us, bool wait_for_ready, uint8_t **reply,
                                size_t *reply_len, grpc_status_code *status, char **text);

/* The error code for a status (OK: 0), and the status with which a server answers an error. */
int rpc_status_to_err(grpc_status_code status);
grpc_status_code rpc_err_to_status(int err);
/* The system's reason, in a status' text, why no connection could be made. gRPC puts the address before it
 * once more, in one of several forms. NULL: the text is about something else. */
const char *rpc_connect_reason(const char *text);
/* Whether that reason says that somebody took the connection, and ended it before it was open. */
bool rpc_hung_up(const char *reason);

#endif
