/* The inside of links: one struct link is an accepted stream, or a dialled address with its present
 * stream. Private to link.c, link_hello.c and link_send.c. */
#ifndef HAWK_NET_LINK_IMPL_H
#define HAWK_NET_LINK_IMPL_H

#include "base/rng.h"
#include "net/codec.h"
#include "net/core.h"
#include "net/identity.h"
#include "net/link_accept.h"
#include "net/log_kind.h"

#define LINK_ERROR_TEXT 256
#define LINK_WHY (2 * LIMIT_NAME_BYTES + 160)
#define LINK_HELLO_MAX 6

enum link_state {
    LINK_IDLE,    /* dialled: no stream, waits for the next attempt */
    LINK_OPENING, /* dialled: waits for the peer's metadata */
    LINK_UP,
    LINK_BROKEN,  /* it was up and we gave it up; its stream ends */
    LINK_CLOSING, /* link_close was called: no callback comes any more */
};

struct link {
    struct list node;  /* ls->all */
    struct list flush; /* in ls->flush, when something can be sent */
    struct list soon;  /* in ls->soon, when something must be sent by soon_us */
    int64_t soon_us;
    struct links *ls;
    void *user;
    uint32_t number;
    enum link_state state;
    char *addr;         /* the address that is dialled, or was last; accepted: the peer's */
    char *addrs;        /* dialled: all of them, comma separated */
    size_t next;        /* the place in addrs where the next one begins */
    char *what;         /* NULL: accepted */
    node_id_t expected; /* dialled: the node that we want; NODE_NONE: any that listens there */

    /* the peer, as it says */
    enum role role;
    node_id_t node_id;
    uint32_t version; /* the lower of its and ours */
    char name[LIMIT_NAME_BYTES + 1];
    bool certified;      /* its certificate says so, too */
    struct identity who; /* if so: whom that is for, from the time that the stream is open */
    bool renewed;        /* accepted: `who` is of a certificate that its connection does not know of */
    uint32_t shown;      /* tls_material() of our certificate that the peer knows */

    /* dialled */
    grpc_channel *channel;
    struct loop_timer timer; /* the next attempt, the end of opening, or the end of closing */
    uint32_t delay_us;       /* see backoff_next */
    int64_t up_us;           /* since when it is up */
    /* Doublings of the time for an attempt, one for each that was not answered in time: the peer may be
     * overrun. */
    uint8_t patience;
    bool complained;  /* the log says already that the peer cannot be reached */
    bool said_denied; /* and that it takes us no more */
    bool hung_up;     /* the last attempt's connection was taken, and ended by the peer */
    bool plain;       /* this attempt is without TLS, since the last one found none (tls_is_optional) */
    bool unwelcome;   /* the peer was there, and one side refused the other: coming up again is no news */

    /* the stream */
    grpc_call *call;
    unsigned ops;
    bool ended, sending;
    bool urgent;      /* something pending must leave now */
    int64_t moved_us; /* when the last send began or ended */
    bool half_closed; /* our side has been ended in order */
    bool peer_closed; /* accepted: the peer's side has ended */
    struct cq_tag open_tag, end_tag, receive_tag, send_tag, finish_tag;
    grpc_metadata_array metadata, trailing;
    grpc_status_code status;
    grpc_slice details;
    int cancelled;
    int err;                     /* why we broke it, if we did */
    char error[LINK_ERROR_TEXT]; /* and a text */
    grpc_byte_buffer *received, *sent;
    struct codec_report report;

    /* what is pending: full batches, then the one that grows */
    grpc_byte_buffer **batches;
    uint32_t batches_n, batches_cap, batches_first;
    size_t batches_bytes;
    struct codec_buf buf;
    /* behind them: messages that are encoded when there is room */
    struct {
        struct msg *v;
        uint32_t head, n, cap;
    } waiting;
};

struct links {
    struct loop *loop;
    struct link_fns fns;
    void *arg;
    enum role role;
    uint32_t version;
    node_id_t node;
    char *name, *token;
    struct tls *tls;
    size_t pending_max;
    uint32_t accepted_max, accepted_now;
    uint32_t number;
    struct rng rng;
    struct list all, flush;
    struct list soon; /* links with messages of link_send_soon, ordered by soon_us */
    struct loop_timer soon_timer;
    struct loop_hook hook;
    struct link_counters counters;
    struct log_kind blamed;
    struct log_peers blamed_peers;
    char why[LINK_WHY]; /* link_why_not's */
    bool empty;         /* `all` is empty, for which links_free waits */
};

/* ---- link.c ---- */

/* A batch of k's stream has come back. The last one ends the stream. */
void link_op_done(struct link *k);

/* ---- link_hello.c: who we are, and who the peer is ---- */

/* Reads whom the certificate of a dialled link's peer is for, into k->who. Returns that; NULL: it needs none. */
const struct identity *link_certified_peer(struct link *k);
/* Fills md with this node's metadata, and returns the number of entries. `token`: with our token, if we
 * have one. */
size_t link_hello_metadata(const struct links *ls, grpc_metadata md[LINK_HELLO_MAX], bool token);
/* Whether a stream is meant for us. Before we have an id, any may be. */
bool link_meant_for(const struct links *ls, const grpc_metadata_array *md);
/* Reads who the peer is. False: it is no Hawk daemon. */
bool link_parse_hello(const struct links *ls, const grpc_metadata_array *md, struct link *k);
/* Why we cannot talk to the peer (a text until the next call, and *err), or NULL. who: whom its certificate is for;
 * NULL: it needs none. */
const char *link_why_not(struct links *ls, const grpc_metadata_array *md, const struct identity *who,
                         struct link *k, int *err);

/* ---- link_send.c ---- */

/* Pending messages leave at the end of the turn. */
void link_want_flush(struct link *k);
/* Drops all pending messages. */
void link_drop_pending(struct link *k);
/* The loop's hook: sends for every link that wants it. `arg` is the struct links. */
void links_flush_all(void *arg);
/* The timer of link_send_soon. `arg` is the struct links. */
void links_on_soon(void *arg);
/* The end of a send. `arg` is the struct link. */
void link_on_sent(void *arg, bool ok);

#endif
