/* Counts the HTTP/2 frames of one connection, both directions, as a server sees them. No I/O, no clock, no
 * locks.
 *
 * gRPC 1.51 limits little of what a peer may send. A stream costs gRPC some 12 kB until the loop has seen
 * the call, even if its opener resets it at once. Nothing stops a peer that ignores SETTINGS. So the
 * server reads every frame header here before gRPC gets the bytes, and cuts a peer that goes beyond a
 * limit. Other payloads than the prefixes of messages are skipped.
 *
 * open streams = streams that the client opened and that were neither reset nor ended by both sides.
 *
 * memory that a peer can make gRPC hold <= streams x 12 kB + resets x 12 kB + one header block + unfinished messages.
 *
 * gRPC keeps a message until all of it has come, and only then looks at its length. So the prefix of each message is
 * read here, and its bytes count until the last one has come. */
#ifndef HAWK_NET_FRAMES_H
#define HAWK_NET_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FRAMES_STREAMS 5120u           /* open at a time; the server advertises it */
#define FRAMES_STREAMS_UNPROVEN 1024u  /* the same, before a call of the connection had a good token */
#define FRAMES_PAYLOAD_MAX (16u << 10) /* of one frame: HTTP/2's limit for a peer that was told no other */
#define FRAMES_HEADERS_MAX                                                                                   \
    (16u << 10) /* of one header block; gRPC itself refuses calls with more than 8 kB */
/* BURST: at once; RATE: per second after that. */
#define FRAMES_OPENED_BURST 1024u /* streams of a connection that is not proven */
#define FRAMES_OPENED_RATE 100u
#define FRAMES_OPENED_FREE                                                                                   \
    8u /* of them those that do not count for the share of all such connections of a server: */
#define FRAMES_SHARED_BURST 2048u
#define FRAMES_SHARED_RATE 500u
#define FRAMES_OPENED_STRICT                                                                                 \
    16u /* instead of the burst, if a connection of the same address broke a rule lately */
#define FRAMES_RESETS_BURST 500u /* streams that the client resets before the server answered anything */
#define FRAMES_RESETS_RATE 100u
#define FRAMES_CONTROL_BURST                                                                                 \
    1000u /* frames that cause work and carry nothing: PING, SETTINGS, DATA of an empty message and such */
#define FRAMES_CONTROL_UNPROVEN 100u /* instead of the burst */
#define FRAMES_CONTROL_RATE 200u
#define FRAMES_WINDOWS_BURST                                                                                 \
    10000u /* WINDOW_UPDATE frames, besides some for each stream and each DATA frame of the server's */
#define FRAMES_WINDOWS_UNPROVEN 100u /* instead of the burst */
#define FRAMES_WINDOWS_RATE 1000u
#define FRAMES_WINDOWS_PER_STREAM 4u
#define FRAMES_WINDOWS_PER_DATA 8u
#define FRAMES_SMALL_BYTES                                                                                   \
    1024u /* DATA frames that carry less are small: taking them in costs more than they are worth */
#define FRAMES_SMALL_BURST                                                                                   \
    20000u /* small ones, besides one for each stream and some for each DATA frame of the server's */
#define FRAMES_SMALL_STRICT 1000u /* instead of the burst, as FRAMES_OPENED_STRICT */
#define FRAMES_SMALL_RATE 20000u
#define FRAMES_SMALL_PER_DATA 4u

#define FRAMES_GUEST_BYTES                                                                                   \
    (64u << 10) /* all DATA of a client without a certificate: some requests to join, of 20 KiB at most */

#define FRAMES_MESSAGE_MAX (100u << 20) /* of one message */
/* Unfinished messages of all connections of a process. A user may hold as many bytes of them as are left free: one
 * alone holds half of this, two largest messages, and leaves the next one room for one. */
#define FRAMES_HELD_MAX ((size_t)400 << 20)
#define FRAMES_USERS 4096u /* users are told apart by a number below this; a few may share one */

/* X(name, text): what a peer may not do. The log shows the text, with the limit's value behind it. */
#define FRAMES_RULES(X)                                                                                      \
    X(NONE, "")                                                                                              \
    X(PREFACE, "does not speak HTTP/2; bytes checked:")                                                      \
    X(PLAIN, "sent what is no frame of a plain stream; its first byte:")                                     \
    X(ORDER, "sent frames in an order HTTP/2 forbids; frame type:")                                          \
    X(SIZE, "sent a frame larger than allowed; limit in bytes:")                                             \
    X(STREAMS, "has more streams open than allowed; limit:")                                                 \
    X(OPENED, "opens streams too fast for a connection without an accepted call; limit per second:")         \
    X(SHARED,                                                                                                \
      "opens streams while all connections without an accepted call open too many; limit per second:")       \
    X(RESETS, "resets unanswered streams too fast; limit per second:")                                       \
    X(HEADERS, "sent a longer header block than allowed; limit in bytes:")                                   \
    X(CONTROL, "sends PING, SETTINGS or other frames that carry nothing too fast; limit per second:")        \
    X(SMALL, "sends messages in small pieces too fast; limit per second:")                                   \
    X(WINDOWS, "sends WINDOW_UPDATE too fast; limit per second:")                                            \
    X(GUEST, "sent more than is needed to join; limit in bytes:")                                            \
    X(MESSAGE, "sends a larger message than allowed; limit in bytes:")                                       \
    X(HELD, "has sent unfinished messages that leave others too little room; bytes left free:")
enum frames_rule {
#define X(name, text) BROKEN_##name,
    FRAMES_RULES(X)
#undef X
        BROKEN_RULES
};
const char *frames_rule_text(enum frames_rule r);

/* tokens <= burst; each use spends one, and `rate` new ones come per second. */
struct frames_bucket {
    uint64_t spent; /* burst - tokens */
    uint64_t part;  /* millionths of a token that have come and are in no token yet */
    int64_t at_us;  /* the time up to which they have come */
};
/* False: no token is left. rate: at least 1. burst: below 2^44, so that its millionths fit. */
bool frames_take(struct frames_bucket *b, uint64_t burst, uint32_t rate, int64_t now_us);

/* One direction. */
struct frames_reader {
    uint8_t head[9];
    uint8_t head_n;
    uint8_t preface_n; /* bytes of the client's preface that have come */
    uint32_t left;     /* of the payload */
};

struct frames_stream;

/* What unfinished messages hold: all >= the sum of users. */
struct frames_held {
    size_t all, users[FRAMES_USERS];
};

/* All zero: a connection before its first byte. */
struct frames {
    struct frames_reader in, out;
    uint64_t frames_in, frames_out;
    uint32_t last; /* the newest stream's number */
    bool proven;   /* a call of it was accepted */
    bool settings; /* the client's first frame has come */
    bool guest;    /* it has no certificate, and may only join */
    uint32_t guest_bytes;
    uint32_t data_stream; /* of the DATA frame whose payload is read; 0: none is */
    uint32_t data_left;   /* of it, without padding */
    bool data_padded;     /* its next byte says how much padding follows */
    bool data_last;       /* it ends the client's side of the stream */
    size_t held;          /* bytes of unfinished messages */
    size_t held_by_reset; /* of them those of a stream that the present frame resets */
    size_t held_told;     /* of `held` what frames_hold has counted */
    uint32_t block_stream, block_bytes;
    uint32_t windows; /* WINDOW_UPDATEs earned and not used */
    uint32_t empties; /* the same for DATA frames that carry an empty message: one for each stream */
    uint32_t smalls;  /* and of other small ones */
    /* Of streams that the server ended first: resets and last DATA frames that may still be under way. */
    uint32_t late_resets, late_ends;
    uint32_t opened_n; /* before it was proven */
    uint32_t to_share,
        shared; /* of the opened ones: those that frames_share has still to take, and those that it took */
    struct frames_bucket opened, resets, control, small, updates;
    enum frames_rule broken; /* BROKEN_NONE: none */
    uint32_t limit;          /* the value of the broken rule's limit */
    /* The open streams, in a table with linear probing, at most half full. Number 0 marks a free place. */
    struct frames_stream *streams;
    uint32_t streams_n, streams_cap;
    uint32_t unanswered; /* of them, those with a request and no answer yet */
};

/* Applies the strict limits to a new connection, from an address whose connections broke rules. */
static inline void frames_strict(struct frames *f)
{
    f->opened.spent = FRAMES_OPENED_BURST - FRAMES_OPENED_STRICT;
    f->small.spent = FRAMES_SMALL_BURST - FRAMES_SMALL_STRICT;
}
void frames_free(struct frames *f);
/* Reads bytes that arrived. False: they break a rule, and the server must see none of them. */
bool frames_in(struct frames *f, const uint8_t *p, size_t n, int64_t now_us);
/* Takes the cost of the streams opened since the last call from the share of all unproven connections.
 * False: that breaks a rule, and the server must see none of the bytes. */
bool frames_share(struct frames *f, struct frames_bucket *all, int64_t now_us);
/* Counts what the connection holds now, and no more, for a user, below FRAMES_USERS. False: it holds more than before,
 * and that breaks a rule; the server must see none of the bytes. */
bool frames_hold(struct frames *f, struct frames_held *held, uint32_t user);
/* A call was accepted: gives back what the connection took of the share. */
void frames_prove(struct frames *f, struct frames_bucket *all);
/* ---- A connection that carries a plain stream (plain.h) instead of HTTP/2. frames_in and frames_out see none of its
 * bytes; its messages count as the DATA frames that would carry them. ---- */

/* It has said what it calls. */
void frames_plain_began(struct frames *f);
/* A message of len bytes came. False: it breaks a rule. */
bool frames_plain_in(struct frames *f, size_t len, int64_t now_us);
/* So many bytes of an unfinished message have come. */
void frames_plain_holds(struct frames *f, size_t bytes);
/* The server sends a message. */
void frames_plain_out(struct frames *f);
/* What came breaks a rule of the form; `limit` is for the log. */
void frames_plain_broke(struct frames *f, enum frames_rule rule, uint32_t limit);

/* Reads bytes that the server sent. */
void frames_out(struct frames *f, const uint8_t *p, size_t n);

#endif
