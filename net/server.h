/* The listening side: links from other daemons, and calls of the public API by method path. The server
 * checks the token of every call first. Handlers run on the loop's thread and may answer later. */
#ifndef HAWK_NET_SERVER_H
#define HAWK_NET_SERVER_H

#include "base/err.h"
#include "msg/types.h"
#include "net/addr.h"
#include "net/caller.h"
#include "net/frames.h"
#include "net/loop.h"

#include <grpc/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The biggest message that a peer or client may send: one job's description (CODEC_ENVELOPE_MAX), and what
 * shares its batch. */
#define NET_MESSAGE_BYTES FRAMES_MESSAGE_MAX
#define SERVER_MAX_CALLS                                                                                     \
    10000u /* unfinished API calls at a time; half as many of one connection. Not configurable */
/* Shares of these, in tenths: the most that the clients of one address may have; and the part that lasting
 * calls leave to others, of an address and of the server. */
#define SERVER_ADDRESS_SHARE 7u
#define SERVER_UNARY_RESERVE 1u
/* The answer of a stopping server to calls that reached no handler; API_NOT_ACCEPTED_TEXT is in it. */
#define SERVER_STOPPING_TEXT "this daemon is shutting down, and the call was not accepted: ask another one"
#define RPC_QUEUE_BYTES (4u << 20) /* replies of one streaming call that wait for the client */
/* Replies of all calls together, unless configured. Beyond this the server refuses calls of addresses that have left
 * more than a SERVER_REPLY_SHARE-th of it unread: who reads his replies is answered, whoever else does not. Beyond half
 * of it, a stream has one message under way. */
#define SERVER_REPLY_BYTES (256u << 20)
#define SERVER_REPLY_SHARE 64u

struct server;
struct links;
struct rpc_call; /* one call a client made */
struct tls;

#define SERVER_CODES 17 /* grpc_status_code: 0 to 16 */
struct server_counts {
    uint64_t calls;                /* that came */
    uint64_t failed[SERVER_CODES]; /* that were refused or failed, by the code of the answer */
    uint64_t connections_delayed, connections_refused, connections_untrusted;
};

struct server_config {
    /* The tokens that callers must show: nodes node_token, to open links; clients token, for every other
     * call (a node's is good, too). token NULL: none is needed. node_token NULL: the clients' token opens
     * links as well. copied */
    const char *token, *node_token;
    /* Clients of TCP addresses must speak TLS and show a certificate. It says who they are, and may do only
     * what CALL_ROUTES (msg/msg.h) allows them with `role`, which is this daemon's. NULL: none. Outlives the
     * server */
    struct tls *tls;
    enum role role;
    bool local_users;           /* every user of this machine may connect to unix sockets */
    bool insecure;              /* listen on addresses beyond this machine even without TLS */
    uint32_t max_calls;         /* 0: SERVER_MAX_CALLS */
    uint32_t max_message_bytes; /* 0: NET_MESSAGE_BYTES */
    uint32_t max_reply_bytes;   /* 0: SERVER_REPLY_BYTES */
    /* How often clients are pinged, how long a ping may go unanswered, and how long TCP may leave what is sent
     * unacknowledged; 0: NET_KEEPALIVE_MS, NET_KEEPALIVE_ACCEPTED_TIMEOUT_MS, NET_KEEPALIVE_TIMEOUT_MS. */
    uint32_t keepalive_ms;
    uint32_t connections_max; /* 0: half of the descriptors the process may have */
    /* Connections of one address without an accepted call; 0: the default (front.h). */
    uint32_t unproven_per_address;
    uint32_t connect_rate; /* new connections of one address a second; 0: the default (front.h) */
    /* Nobody can reach the process any more, or the server cannot protect it: it must end. NULL: the
     * server only logs that. */
    void (*dead)(void *arg);
    void *dead_arg;
};

/* `l` must be a LOOP_NET one. */
struct server *server_new(struct loop *l, const struct server_config *c);
/* Opens one more address, before server_start. Port 0 picks a free one. A unix socket whose server is dead
 * is replaced. On an error why (size bytes) names the address and what to do: HAWK_EINVALID, HAWK_EDENIED
 * (not local, and no TLS), HAWK_EEXISTS (in use), HAWK_EIO. */
HAWK_MUST_USE int server_listen(struct server *s, const char *addr, char *why, size_t size);
/* The i-th address opened, with its real port ("127.0.0.1:34567"); NULL past the last. */
const char *server_addr(const struct server *s, unsigned i);
/* Accepts links for ls. NULL: accepts no more, and existing ones stay. */
void server_set_links(struct server *s, struct links *ls);
/* While there is no ls, links are refused as UNAVAILABLE with this text (copied). */
void server_refuse_links(struct server *s, const char *why);
/* Gives calls of "/package.Service/Method" to fn; `request` is borrowed for the call. Use it before
 * server_start. fn, or code that it hands the call to, must end it with rpc_reply, rpc_fail or rpc_finish,
 * soon or later. */
void server_handle(struct server *s, const char *path,
                   void (*fn)(void *arg, struct rpc_call *c, const uint8_t *request, size_t len), void *arg);
/* The same for a method whose client sends any number of messages. fn hears of the call at once, and asks
 * for the messages with rpc_receive. */
void server_handle_stream(struct server *s, const char *path, void (*fn)(void *arg, struct rpc_call *c),
                          void *arg);
/* Limits the calls of that method that one connection may have under way. The server answers others with
 * RESOURCE_EXHAUSTED. */
void server_limit(struct server *s, const char *path, uint32_t per_connection);
/* Calls of that method last until their client ends them: they leave SERVER_UNARY_RESERVE of a server's
 * calls to others. Calls of server_handle_stream always do. A call whose client sends a second request is ended as
 * INVALID_ARGUMENT. */
void server_lasting(struct server *s, const char *path);
void server_start(struct server *s);
/* Ends the connections of clients whose certificates are good no more (tls_why_not). */
void server_check_peers(struct server *s);
/* Since the server was made. */
struct server_counts server_counts(const struct server *s);
/* From now on the server accepts no link and calls no handler, so their owners may be freed. Calls that
 * wait for an answer can still get it. Others are refused as UNAVAILABLE with SERVER_STOPPING_TEXT. NULL
 * is fine. */
void server_stop(struct server *s);
/* Refuses new calls, gives answers a second to leave, and cancels all open calls (on_cancel comes; links
 * are lost). It turns the loop until they have ended, and frees everything, also calls that nobody ended.
 * A client hears CANCELLED only if its call reached no handler. NULL is fine. */
void server_free(struct server *s);

/* ---- Answering. A call stays valid until it is ended, even when its client has gone. ---- */

/* Ends the call with one reply. */
void rpc_reply(struct rpc_call *c, const void *data, size_t len);
/* Ends the call with an error, after the messages that were sent so far. */
void rpc_fail(struct rpc_call *c, grpc_status_code status, const char *fmt, ...) HAWK_PRINTF(3, 4);
/* Streaming: queues one message. HAWK_ELIMIT: more than RPC_QUEUE_BYTES wait already, and the message was
 * not taken; wait for `writable`. HAWK_ECANCELLED: the client has gone (the call must still be ended). */
HAWK_MUST_USE int rpc_send(struct rpc_call *c, const void *data, size_t len);
/* Streaming: whether all sent messages have left. If not, `writable` comes when they have. A caller can
 * gather messages meanwhile, and send them as one. */
bool rpc_idle(struct rpc_call *c);
/* Streaming: ends the call in good order once all queued messages have left. */
void rpc_finish(struct rpc_call *c);
/* `cancelled` comes once when the client has gone, unless the call has ended; it is a good place to end
 * it. `writable` comes when an rpc_send was refused and the queue has emptied since. Either may be NULL. */
void rpc_watch(struct rpc_call *c, void (*cancelled)(void *arg, struct rpc_call *c),
               void (*writable)(void *arg, struct rpc_call *c), void *arg);
/* For server_handle_stream: from now on `message` gets what the client sends, borrowed and one by one.
 * NULL follows the last one: the client has ended its side, or has gone (`cancelled` then follows). Once
 * per call. */
void rpc_receive(struct rpc_call *c,
                 void (*message)(void *arg, struct rpc_call *c, const uint8_t *data, size_t len), void *arg);
/* Takes no more messages from the client until hold is false again: they stay with the client. */
void rpc_hold(struct rpc_call *c, bool hold);
/* Whom the certificate of the call's connection is for. NULL: it needs none, or is gone. */
struct identity;
const struct identity *rpc_identity(const struct rpc_call *c);
/* What the call showed is no good (an invitation): counts for its connection and its address as a wrong token does. */
void rpc_distrust(struct rpc_call *c, const char *what);
/* The client's address, for logs. */
const char *rpc_peer(const struct rpc_call *c);
/* When the call ends, a line of the audit log says who called, from where, this text, and the answer. The last text
 * counts. */
void rpc_audit(struct rpc_call *c, const char *fmt, ...) HAWK_PRINTF(2, 3);
/* If the call is refused, its line counts among these, and may be left out. */
struct log_kind;
void rpc_audit_among(struct rpc_call *c, struct log_kind *refused);
/* Writes such a line at once, for a call that goes on. */
void rpc_audit_now(const struct rpc_call *c, const char *what, const char *answer);
/* Who makes the call. Valid as long as the call. */
const struct caller *rpc_caller(const struct rpc_call *c);

#endif
