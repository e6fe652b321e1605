/* Links: the long-lived streams between daemons (/hawk.v1.Peer/Link), dialled or accepted. A link is FIFO
 * and loses nothing until it breaks. Then one `lost` is delivered, and nothing of the old stream after it.
 *
 * gRPC allows one outstanding send per stream. What is sent meanwhile gathers, and leaves as one message
 * when that send completes. Nothing waits for a timer, and the batches make sending cheap. When enough bytes
 * have gathered, further messages wait unencoded, and share with the role what they carry.
 *
 * Daemons dial by the rules of peers/: a link without a stream is idle until link_redial. Without a
 * `failed` callback, a link connects again by itself, after the delays of base/backoff.h, until
 * link_close. An accepted link is gone once `lost` has returned. Callbacks come from the loop, never from
 * within a call to this interface. */
#ifndef HAWK_NET_LINK_H
#define HAWK_NET_LINK_H

#include "base/backoff.h"
#include "base/err.h"
#include "base/ids.h"
#include "msg/msg.h"
#include "net/loop.h"

#include <stdbool.h>
#include <stdint.h>

/* Encoded messages may gather per link up to this size while a send is outstanding. A single step may have
 * more to say (a dist that joins offers all its jobs), which is not the peer's fault: more messages wait. A
 * link breaks if messages wait and its peer has taken nothing for LINK_STALL_US, or if more wait than one for
 * each LINK_WAITING_BYTES of this size: 4 million. */
#define LINK_PENDING_BYTES (16u << 20)
#define LINK_WAITING_BYTES 4u
#define LINK_STALL_US (3 * US_PER_S)
/* A batch is closed at this size, and a message of LINK_LARGE_BYTES goes by itself. So a small message
 * waits for at most one large message before it, and for none behind it. */
#define LINK_BATCH_BYTES (128u << 10)
#define LINK_LARGE_BYTES (LINK_BATCH_BYTES / 4)
/* An attempt to open a stream fails after this time. */
#define LINK_OPEN_US (5 * US_PER_S)
/* Ten thousand peers that come back at once keep a daemon busy for longer than LINK_OPEN_US. If each gave
 * up after that time, it would only add to the work, and none would ever get in. So every attempt that was
 * not answered in time doubles the time for the next one, this many times at most, until a stream has held
 * for a while. */
#define LINK_PATIENCE_MAX 3
#define LINK_PATIENCE_US (60 * US_PER_S)
/* The time to open a stream to one of several addresses. */
#define LINK_OPEN_ONE_US US_PER_S
#define LINK_MAX_ACCEPTED 200000u /* links accepted at a time, unless configured */

struct links;
struct link;
struct tls;

struct link_fns {
    /* The stream is open in both directions. link_peer_* say who the peer claims to be. */
    void (*up)(void *arg, struct link *k);
    /* m is valid (msg_check) and borrowed: its handles are dropped after the call. m->peer is 0. */
    void (*msg)(void *arg, struct link *k, const struct msg *m);
    /* The stream that was up has ended: HAWK_E… and a text for logs. It comes once per `up`, and only
     * after it. */
    void (*lost)(void *arg, struct link *k, int err, const char *text);
    /* An attempt to dial has failed; `up` was not called. NULL: links dial again by themselves. */
    void (*failed)(void *arg, struct link *k);
};

struct link_config {
    enum role role;         /* our role, which every peer is told */
    const char *name;       /* copied */
    const char *token;      /* sent with every link that we dial; NULL: none. copied */
    struct tls *tls;        /* for links that we dial, but to unix sockets; NULL: none. Outlives the links */
    uint32_t pending_bytes; /* 0: LINK_PENDING_BYTES */
    uint32_t max_accepted;  /* 0: LINK_MAX_ACCEPTED */
    uint32_t version;       /* of the protocol that we speak; 0: PROTOCOL_VERSION */
    uint64_t seed;          /* of the jitter */
};

/* Every link of one daemon. `l` must be a LOOP_NET one. */
struct links *links_new(struct loop *l, const struct link_config *c, const struct link_fns *fns, void *arg);
/* Sets our node id once central gave us one (0 before). Links that open from now on tell it to their
 * peers. */
void links_set_node(struct links *ls, node_id_t node);
/* Closes every link, as link_close does, and frees all. It turns the loop for at most timeout_us until
 * pending messages have left. No callback comes any more. While a server accepts links for ls, call
 * server_set_links(server, NULL) first. NULL is fine. */
void links_free(struct links *ls, int64_t timeout_us);

/* Starts to connect to central at addr ("host:port", "[::1]:port", "unix:/path"); of several, comma
 * separated, to the first. With TLS its certificate must be central's. `what` names the peer in the log:
 * "central at 127.0.0.1:7100 cannot be reached: …; trying again", once per loss, and once when the peer is
 * back. */
struct link *link_dial(struct links *ls, const char *addr, const char *what);
/* As link_dial, to one worker. If another node listens there (the address was used again), it refuses the
 * stream, and so does not take it for a new stream between the two of us. */
struct link *link_dial_node(struct links *ls, const char *addr, const char *what, node_id_t node);
/* Dials again, at the place-th of its addresses, from 0. For a dialled link that has failed, or whose
 * `lost` has come. */
void link_redial(struct link *k, uint32_t place);
/* Ends the link. Pending messages still leave (for at most a second), then the stream is closed in order.
 * Do not use k any more; no callback comes for it. The peer gets `lost`. */
void link_close(struct link *k);
/* Breaks the stream at once. `lost` follows with err, and a dialled link connects again. For a peer that
 * misbehaves. */
void link_break(struct link *k, int err, const char *text);
/* The same for a peer that says what it may not; the log names it, its address and what it did. A peer that does so
 * again has one line in ten minutes (net/log_kind.h). */
void link_blame(struct link *k, int err, const char *text, const char *fmt, ...) HAWK_PRINTF(4, 5);

/* Shows our certificate on each link whose peer knows an older one, so that links do not end with that. */
void links_show_certificate(struct links *ls);
/* Takes what a peer shows so. Breaks the link if that is somebody else's, or not good. */
void link_take_certificate(struct link *k, const struct blob *pem);
/* Breaks the links that were dialled to a peer whose certificate is good no more (tls_why_not). */
void links_check_peers(struct links *ls);

/* Breaks all links of ls so. Pending messages do not leave. */
void links_break(struct links *ls, int err, const char *text);

/* Encodes m (its handles stay the caller's), to leave at the end of this turn of the loop. m->peer is not
 * sent. HAWK_EUNAVAILABLE: the link is not up, and nothing was sent. HAWK_ELIMIT (too much is pending) and
 * HAWK_ETOO_LARGE (no peer takes so big a message): the link is broken and `lost` will follow. */
int link_send(struct link *k, const struct msg *m);

/* As link_send, for a message that nobody waits for. It leaves with the next message that link_send gets,
 * or when LINK_LATER_BYTES have gathered. For peers that are sent messages often enough (heartbeats). */
#define LINK_LATER_BYTES (16u << 10)
int link_send_later(struct link *k, const struct msg *m);
/* As link_send_later, but the message leaves within LINK_SOON_US. For news on which nobody acts. By itself
 * a small message costs both ends as much as a full one. Of a task that ends within that time (say, a
 * small command), start and end share one message. Withdrawing a message late costs at most one needless
 * question. */
#define LINK_SOON_US (5 * US_PER_MS)
int link_send_soon(struct link *k, const struct msg *m);

/* A number that no other link of this process has or will have; from 1. */
uint32_t link_number(const struct link *k);
bool link_is_up(const struct link *k);
bool link_is_dialled(const struct link *k);
/* The address dialled, or the peer's ("127.0.0.1:3412", "process 77 of user 0 on this machine"). */
const char *link_addr(const struct link *k);
/* Dialled: whether the last attempt's connection was taken, and ended by the peer before the stream was open. */
bool link_hung_up(const struct link *k);
/* Who the peer of an open link says it is. Node 0: it has no id yet. Role and name are proven where
 * link_is_certified. */
enum role link_peer_role(const struct link *k);
node_id_t link_peer_node(const struct link *k);
const char *link_peer_name(const struct link *k);
/* Whether the peer has shown a certificate for this role and name. */
bool link_is_certified(const struct link *k);
/* Of an accepted link: the most slots that its certificate allows; 0: any number. */
uint32_t link_slots_max(const struct link *k);
/* The version that the link speaks: the lower of both sides' versions. link_send silently drops a message
 * that this version lacks. A caller that depends on such a message asks here first. */
uint32_t link_version(const struct link *k);
/* A pointer of the caller's. */
void link_set_user(struct link *k, void *user);
void *link_user(const struct link *k);

/* Since links_new; envelopes / messages is the mean batch. */
struct link_counters {
    uint64_t envelopes_sent, messages_sent, bytes_sent, messages_received;
};
const struct link_counters *links_counters(const struct links *ls);

#endif
