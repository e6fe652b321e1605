/* What links, the server and calls share of gRPC core: completion tags, channels, metadata, bytes. Private
 * to net/. */
#ifndef HAWK_NET_CORE_H
#define HAWK_NET_CORE_H

#include "net/loop.h"

#include <grpc/grpc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The tag that a completion queue returns; embedded in its owner. */
struct cq_tag {
    void (*done)(void *arg, bool ok);
    void *arg;
    int64_t started_us; /* net_receive's */
};
static inline void cq_tag_init(struct cq_tag *t, void (*done)(void *arg, bool ok), void *arg)
{
    *t = (struct cq_tag){.done = done, .arg = arg};
}

/* The queue of a LOOP_NET loop. */
grpc_completion_queue *loop_cq(struct loop *l);
/* Turns the loop, but only for the network (completions and LOOP_FLUSH hooks; no timers, posts or
 * descriptors), until *done or until_us. For shutting down without stepping the roles. True when *done. */
bool loop_drain(struct loop *l, const bool *done, int64_t until_us);

/* Starts a batch that must be well formed. */
void net_batch(grpc_call *call, const grpc_op *ops, size_t n, struct cq_tag *tag);
/* Asks gRPC for a stream's next message: at the beginning of the next turn, or at once while streams are
 * busy (learn_tag() in net/loop_net.c). The request makes gRPC free the last message with a system call; at
 * the next turn's beginning this turn's messages have left, and none of them waits for that call. The
 * caller treats it as a started batch: `call` and `*message` must live until `tag` completes. */
void net_receive(struct loop *l, grpc_call *call, grpc_byte_buffer **message, struct cq_tag *tag);

/* How often a connection is pinged. Other traffic does not put pings off in gRPC 1.51. A ping costs each
 * end some 20 us, and a worker keeps streams to many workers that it once stole from, so the thief pings
 * those rarely. */
#define NET_KEEPALIVE_MS 2000
#define NET_KEEPALIVE_VICTIM_MS 10000
/* How long a ping may go unanswered. A peer that is cut off is found within the two times together.
 * Central, which hears heartbeats, tells of it sooner. This is longer than a busy machine lets a process
 * wait, since a stream that is given up for nothing means tasks that run twice. */
#define NET_KEEPALIVE_TIMEOUT_MS 3000
/* The same for a ping of whoever accepted the connection. gRPC reads answers while the loop waits, and counts the time
 * itself: a daemon whose loop is busy for longer drops all its clients. It learns of other losses in other ways: of a
 * peer's end at once, of a lost machine by what TCP does not get across (front.h, user_timeout_ms), of a node that
 * hangs by the roles' beats. Not longer: a link on which nothing is asked has nothing else that finds a dialler that
 * stands still. */
#define NET_KEEPALIVE_ACCEPTED_TIMEOUT_MS 5000

/* Keepalive, the message limit, and no proxies of the environment; the same for both sides. Fills `args`
 * (NET_ARGS_MAX) and returns their number. */
#define NET_ARGS_MAX 24
size_t net_args(grpc_arg *args, uint32_t max_message_bytes, int keepalive_ms, int timeout_ms);
struct tls;
/* How a channel reaches its server. */
struct net_dial {
    /* The channel shares no connection, and no backoff, with other channels to the same address. */
    bool own_connection;
    int keepalive_ms, timeout_ms;
    grpc_channel_credentials *foreign; /* TLS of a foreign server, which the caller releases; NULL: none */
    struct tls *tls;      /* NULL: none. Unix sockets never have it. Read anew if the files have changed */
    const char *expected; /* with TLS: the name that the server's certificate must have (net/identity.h) */
    int64_t now_us;       /* with TLS */
};
/* A channel to "host:port" or "unix:/path". */
grpc_channel *net_channel(const char *addr, const struct net_dial *d);

/* A new message with a copy of the bytes. */
grpc_byte_buffer *net_message(const void *data, size_t len);
/* A received message's bytes in one piece, copied only when it came in several. Valid until
 * net_bytes_free. */
struct net_bytes {
    const uint8_t *data;
    size_t len;
    grpc_slice slice; /* the copy, when there is one */
};
HAWK_MUST_USE int net_bytes_get(struct net_bytes *b, grpc_byte_buffer *from);
void net_bytes_free(struct net_bytes *b);

/* The value of a key, or NULL. */
const grpc_slice *net_metadata(const grpc_metadata_array *md, const char *key);
/* The value as text in buf (cut to size); false when there is none. */
bool net_metadata_text(const grpc_metadata_array *md, const char *key, char *buf, size_t size);
/* A new element. Unprintable bytes of the value become '?', since a header may not hold them. */
grpc_metadata net_metadata_new(const char *key, const char *value);
void net_metadata_drop(grpc_metadata *md, size_t n);
/* "authorization: Bearer TOKEN". */
grpc_metadata net_token_new(const char *token);

/* A status' text for people, malloc'ed: gRPC's "failed to connect to all addresses; last error: …" without
 * the frame. It always contains NET_UNREACHED then. */
#define NET_UNREACHED "Failed to connect to remote host" /* in gRPC's words */
char *net_status_text(grpc_slice details);

#endif
