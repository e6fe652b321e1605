/* The listening side: links from other daemons, and calls of the public API by method path. Every call is
 * checked for the shared token first. Handlers run on the loop's thread and may answer later. */
#ifndef HAWK_NET_SERVER_H
#define HAWK_NET_SERVER_H

#include "base/err.h"
#include "net/addr.h"
#include "net/loop.h"

#include <grpc/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The biggest message a peer or client may send: one job's description (CODEC_ENVELOPE_MAX) and what shares its batch. */
#define NET_MESSAGE_BYTES (100u << 20)
#define SERVER_MAX_CALLS                                                                                     \
    10000u /* unfinished API calls at a time; half as many of one connection. No setting changes it */
/* Of these, in tenths: what the clients of one address may have, and what calls that last leave to others, of an address as of
 * the server. */
#define SERVER_ADDRESS_SHARE 7u
#define SERVER_UNARY_RESERVE 1u
/* What a server that stops answers to calls that reached no handler. */
#define SERVER_STOPPING_TEXT "this daemon is shutting down, and the call was not accepted: ask another one"
#define RPC_QUEUE_BYTES (4u << 20) /* replies of one streaming call that wait for the client */
/* Of all calls together, unless configured: beyond it new calls are refused; beyond half of it a stream has one message
 * under way. */
#define SERVER_REPLY_BYTES (256u << 20)

struct server;
struct links;
struct rpc_call; /* one call a client made */

struct server_config {
    /* What callers show: nodes theirs, to open links; clients theirs, or the nodes', for every other call. token NULL:
     * none is asked for. node_token NULL: the clients' opens links as well. copied */
    const char *token, *node_token;
    bool insecure;              /* listen on addresses beyond this machine although there is no token */
    uint32_t max_calls;         /* 0: SERVER_MAX_CALLS */
    uint32_t max_message_bytes; /* 0: NET_MESSAGE_BYTES */
    uint32_t max_reply_bytes;   /* 0: SERVER_REPLY_BYTES */
    uint32_t
        keepalive_ms; /* how often clients are pinged and how long a ping may go unanswered; 0: NET_KEEPALIVE_* */
    uint32_t connections_max; /* 0: half of the descriptors the process may have */
    uint32_t
        unproven_per_address; /* connections of one address without an accepted call; 0: the default (front.h) */
    /* The process cannot be reached any more, or cannot be protected: it is to end. NULL: that is only logged. */
    void (*dead)(void *arg);
    void *dead_arg;
};

/* `l` must be a LOOP_NET one. */
struct server *server_new(struct loop *l, const struct server_config *c);
/* Opens one more address, before server_start; port 0 picks a free one. A unix socket whose server is
 * dead is replaced. On an error why (size bytes) names the address and what to do: HAWK_EINVALID, HAWK_EDENIED (not
 * local, no token), HAWK_EEXISTS (in use), HAWK_EIO. */
HAWK_MUST_USE int server_listen(struct server *s, const char *addr, char *why, size_t size);
/* The i-th address opened, with its real port ("127.0.0.1:34567"); NULL past the last. */
const char *server_addr(const struct server *s, unsigned i);
/* Accept links for ls; NULL: no more, those there are stay. */
void server_set_links(struct server *s, struct links *ls);
/* Without links to accept them for, they are refused as UNAVAILABLE with this text (copied). */
void server_refuse_links(struct server *s, const char *why);
/* Calls of "/package.Service/Method" go to fn; `request` is borrowed for the call. Before server_start. fn or
 * whoever it hands the call to must end it with rpc_reply, rpc_fail or rpc_finish, soon or later. */
void server_handle(struct server *s, const char *path,
                   void (*fn)(void *arg, struct rpc_call *c, const uint8_t *request, size_t len), void *arg);
/* The same for a method whose client sends any number of messages: fn is told of the call at once, and asks for them with
 * rpc_receive. */
void server_handle_stream(struct server *s, const char *path, void (*fn)(void *arg, struct rpc_call *c),
                          void *arg);
/* Of that method one connection may have so many calls under way; others are RESOURCE_EXHAUSTED. */
void server_limit(struct server *s, const char *path, uint32_t per_connection);
/* Calls of that method last as long as their client likes: they leave SERVER_UNARY_RESERVE of a server's calls to others. Those of
 * server_handle_stream always do. */
void server_lasting(struct server *s, const char *path);
void server_start(struct server *s);
/* From here on no link is accepted and no handler called: their owners may be freed, calls that wait for an answer
 * can still get it, and others are refused as UNAVAILABLE with SERVER_STOPPING_TEXT. NULL is fine. */
void server_stop(struct server *s);
/* Refuses new calls, gives what was answered a second to leave, cancels all that are open (on_cancel comes; links are
 * lost), turns the loop until they have ended, and frees. Calls nobody ended are freed as well. A client hears CANCELLED
 * only where its call reached no handler. NULL is fine. */
void server_free(struct server *s);

/* ---- Answering. A call stays valid until it is ended, even when its client has gone. ---- */

/* Ends the call with one reply. */
void rpc_reply(struct rpc_call *c, const void *data, size_t len);
/* Ends the call with an error, after what was sent so far. */
void rpc_fail(struct rpc_call *c, grpc_status_code status, const char *fmt, ...) HAWK_PRINTF(3, 4);
/* Streaming: queues one message. HAWK_ELIMIT when more than RPC_QUEUE_BYTES wait already: it was not taken,
 * wait for `writable`. HAWK_ECANCELLED when the client has gone (the call must still be ended). */
HAWK_MUST_USE int rpc_send(struct rpc_call *c, const void *data, size_t len);
/* Streaming: whether nothing that was sent is still on its way. If it is, `writable` comes when that has left. For who
 * gathers what is to be sent meanwhile, and sends it as one message. */
bool rpc_idle(struct rpc_call *c);
/* Streaming: ends the call in good order once everything queued has left. */
void rpc_finish(struct rpc_call *c);
/* The client has gone: `cancelled` comes once unless the call has been ended (it is a good place to do it).
 * `writable` comes when an rpc_send was refused and the queue has emptied since. Either may be NULL. */
void rpc_watch(struct rpc_call *c, void (*cancelled)(void *arg, struct rpc_call *c),
               void (*writable)(void *arg, struct rpc_call *c), void *arg);
bool rpc_is_cancelled(const struct rpc_call *c);
/* server_handle_stream: from now on `message` gets what the client sends, borrowed and one by one; after the last one NULL:
 * the client has ended its side, or has gone (`cancelled` then follows). Once per call. */
void rpc_receive(struct rpc_call *c,
                 void (*message)(void *arg, struct rpc_call *c, const uint8_t *data, size_t len), void *arg);
/* Takes no more from the client until it is let go on: what it sends stays with it. */
void rpc_hold(struct rpc_call *c, bool hold);
/* The client's address, for logs. */
const char *rpc_peer(const struct rpc_call *c);

#endif
