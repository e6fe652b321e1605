/* See frames.h. */
#include "net/frames.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/units.h"

#include <stdlib.h>
#include <string.h>

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
#define PREFACE_BYTES (sizeof preface - 1)
#define EARNED_MAX (1u << 20) /* the most WINDOW_UPDATEs, and frames of other kinds, that can be earned */
#define PREFIX_BYTES 5u /* the prefix of every gRPC message: a frame with no more bytes carries nothing */

enum frame_type {
    DATA,
    HEADERS,
    PRIORITY,
    RST_STREAM,
    SETTINGS,
    PUSH_PROMISE,
    PING,
    GOAWAY,
    WINDOW_UPDATE,
    CONTINUATION
};
#define FLAG_END_STREAM 0x1
#define FLAG_END_HEADERS 0x4
#define FLAG_PADDED 0x8

enum { CLIENT_ENDED = 1, SERVER_ENDED = 2, ANSWERED = 4, ASKED = 8 };
struct frames_stream {
    uint32_t id;
    uint8_t flags;
    uint8_t prefix_n; /* bytes of the present message's prefix that have come */
    uint32_t left;    /* of the present message, once its prefix has come; until then, its length so far */
    uint32_t held;    /* its bytes that have come */
};

struct frame {
    uint32_t len, stream;
    uint8_t type, flags;
};

const char *frames_rule_text(enum frames_rule r)
{
    static const char *const texts[] = {
#define X(name, text) text,
        FRAMES_RULES(X)
#undef X
    };
    return texts[r];
}

void frames_free(struct frames *f)
{
    free(f->streams);
    f->streams = NULL;
    f->streams_n = f->streams_cap = 0;
    f->held = 0;
}

static bool breaks_rule(struct frames *f, enum frames_rule rule, uint32_t limit)
{
    f->broken = rule;
    f->limit = limit;
    return false;
}

bool frames_take(struct frames_bucket *b, uint64_t burst, uint32_t rate, int64_t now_us)
{
    if (b->spent == 0 || b->at_us == 0) { /* a full bucket takes no tokens: quiet time is no credit */
        b->at_us = now_us;
        b->part = 0;
    } else if (now_us > b->at_us) {
        const uint64_t since_us = (uint64_t)(now_us - b->at_us), missing = b->spent * US_PER_S;
        const uint64_t came = b->part + (since_us <= missing / rate ? since_us * rate : missing);
        b->at_us = now_us;
        b->spent -= came / US_PER_S;
        b->part = came % US_PER_S;
    }
    if (b->spent >= burst)
        return false;
    b->spent++;
    return true;
}

/* ---- The set of open streams ---- */

static uint32_t place_of(const struct frames *f, uint32_t id)
{
    return (uint32_t)hash_mix(id) & (f->streams_cap - 1);
}

static struct frames_stream *find_stream(const struct frames *f, uint32_t id)
{
    if (f->streams_cap == 0 || id == 0) /* which marks free places */
        return NULL;
    for (uint32_t i = place_of(f, id);; i = (i + 1) & (f->streams_cap - 1)) {
        if (f->streams[i].id == id)
            return &f->streams[i];
        if (f->streams[i].id == 0)
            return NULL;
    }
}

static struct frames_stream *put_stream(struct frames *f, struct frames_stream s)
{
    uint32_t i = place_of(f, s.id);

    while (f->streams[i].id)
        i = (i + 1) & (f->streams_cap - 1);
    f->streams[i] = s;
    return &f->streams[i];
}

static struct frames_stream *add_stream(struct frames *f, uint32_t id)
{
    if (2 * (f->streams_n + 1) > f->streams_cap) {
        struct frames_stream *before = f->streams;
        uint32_t cap = f->streams_cap;
        f->streams_cap = cap ? 2 * cap : 16;
        f->streams = xcalloc(f->streams_cap, sizeof *f->streams);
        for (uint32_t i = 0; i < cap; i++)
            if (before[i].id)
                put_stream(f, before[i]);
        free(before);
    }
    f->streams_n++;
    return put_stream(f, (struct frames_stream){.id = id});
}

/* The request's data has come. */
static void mark_asked(struct frames *f, struct frames_stream *s)
{
    f->unanswered += !(s->flags & (ASKED | ANSWERED));
    s->flags |= ASKED;
}

/* The server has sent something back, or never will. */
static void mark_answered(struct frames *f, struct frames_stream *s)
{
    f->unanswered -= (s->flags & (ASKED | ANSWERED)) == ASKED;
    s->flags |= ANSWERED;
}

/* Its message has come whole, or never will. */
static void drop_message(struct frames *f, struct frames_stream *s)
{
    f->held -= s->held;
    s->held = 0;
    s->prefix_n = 0;
}

/* Frees a place, and moves up the entries behind it that would not be found any more. */
static void drop_stream(struct frames *f, struct frames_stream *s)
{
    const uint32_t mask = f->streams_cap - 1;
    uint32_t hole = (uint32_t)(s - f->streams);

    mark_answered(f, s);
    drop_message(f, s);
    for (uint32_t i = (hole + 1) & mask; f->streams[i].id; i = (i + 1) & mask) {
        if (((i - place_of(f, f->streams[i].id)) & mask) >= ((i - hole) & mask)) {
            f->streams[hole] = f->streams[i];
            hole = i;
        }
    }
    f->streams[hole].id = 0;
    f->streams_n--;
}

static void end_side(struct frames *f, struct frames_stream *s, uint32_t side)
{
    s->flags |= side;
    if ((s->flags & (CLIENT_ENDED | SERVER_ENDED)) == (CLIENT_ENDED | SERVER_ENDED))
        drop_stream(f, s);
}

/* ---- What the client sends ---- */

static void earn_frames(uint32_t *count, uint32_t n)
{
    if (*count < EARNED_MAX)
        *count += n;
}

/* False: none was left. */
static bool use_earned(uint32_t *count)
{
    if (*count == 0)
        return false;
    --*count;
    return true;
}

static bool control_allowed(struct frames *f, int64_t now_us)
{
    const uint32_t burst = f->proven ? FRAMES_CONTROL_BURST : FRAMES_CONTROL_UNPROVEN;

    return frames_take(&f->control, burst, FRAMES_CONTROL_RATE, now_us) ||
           breaks_rule(f, BROKEN_CONTROL, FRAMES_CONTROL_RATE);
}

static bool small_allowed(struct frames *f, int64_t now_us)
{
    return use_earned(&f->smalls) || frames_take(&f->small, FRAMES_SMALL_BURST, FRAMES_SMALL_RATE, now_us) ||
           breaks_rule(f, BROKEN_SMALL, FRAMES_SMALL_RATE);
}

static bool block_allowed(struct frames *f, const struct frame *h)
{
    f->block_stream = h->flags & FLAG_END_HEADERS ? 0 : h->stream;
    f->block_bytes += h->len;
    return f->block_bytes <= FRAMES_HEADERS_MAX || breaks_rule(f, BROKEN_HEADERS, FRAMES_HEADERS_MAX);
}

static bool in_headers(struct frames *f, const struct frame *h, int64_t now_us)
{
    const uint32_t limit = f->proven ? FRAMES_STREAMS : FRAMES_STREAMS_UNPROVEN;
    struct frames_stream *s;

    f->block_bytes = 0;
    if (h->stream % 2 == 0)
        return breaks_rule(f, BROKEN_ORDER, h->type);
    if (h->stream <= f->last) { /* these are trailers, which gRPC's clients never send */
        if (h->flags & FLAG_END_STREAM && (s = find_stream(f, h->stream)))
            end_side(f, s, CLIENT_ENDED);
        return control_allowed(f, now_us) && block_allowed(f, h);
    }
    f->last = h->stream;
    if (f->streams_n >= limit)
        return breaks_rule(f, BROKEN_STREAMS, limit);
    if (!f->proven) {
        if (!frames_take(&f->opened, FRAMES_OPENED_BURST, FRAMES_OPENED_RATE, now_us))
            return breaks_rule(f, BROKEN_OPENED, FRAMES_OPENED_RATE);
        f->to_share += f->opened_n++ >= FRAMES_OPENED_FREE;
    }
    earn_frames(&f->windows, FRAMES_WINDOWS_PER_STREAM);
    earn_frames(&f->empties, 1);
    earn_frames(&f->smalls, 1);
    s = add_stream(f, h->stream);
    if (h->flags & FLAG_END_STREAM)
        end_side(f, s, CLIENT_ENDED);
    return block_allowed(f, h);
}

/* gRPC keeps a message until all of it has come, and only then a call of a guest's can be refused for its size. */
static bool guest_allowed(struct frames *f, const struct frame *h)
{
    f->guest_bytes += f->guest ? h->len : 0;
    return f->guest_bytes <= FRAMES_GUEST_BYTES || breaks_rule(f, BROKEN_GUEST, FRAMES_GUEST_BYTES);
}

/* The stream's messages go on in the payload of this frame. */
static void begin_payload(struct frames *f, const struct frame *h)
{
    f->data_stream = h->stream;
    f->data_left = h->len;
    f->data_padded = h->flags & FLAG_PADDED;
    f->data_last = h->flags & FLAG_END_STREAM;
}

/* The frame has come whole: only now gRPC does what it says. */
static void end_payload(struct frames *f)
{
    struct frames_stream *s = find_stream(f, f->data_stream);

    f->held -= f->held_by_reset;
    f->held_by_reset = 0;
    f->data_stream = 0;
    if (!s || !f->data_last)
        return;
    drop_message(f, s); /* what the frame has not finished never will be */
    end_side(f, s, CLIENT_ENDED);
}

/* Takes what there is of the prefix. False: the message is too large. */
static bool in_prefix(struct frames *f, struct frames_stream *s, const uint8_t **p, uint32_t *n)
{
    while (*n > 0 && s->prefix_n < PREFIX_BYTES) {
        s->left = s->prefix_n++ ? s->left << 8 | **p : 0; /* the first byte is a flag */
        ++*p;
        --*n;
    }
    return s->prefix_n < PREFIX_BYTES || s->left <= FRAMES_MESSAGE_MAX ||
           breaks_rule(f, BROKEN_MESSAGE, FRAMES_MESSAGE_MAX);
}

/* n bytes of a stream's messages: O(messages). */
static bool in_messages(struct frames *f, struct frames_stream *s, const uint8_t *p, uint32_t n)
{
    while (n > 0) {
        if (s->prefix_n < PREFIX_BYTES && !in_prefix(f, s, &p, &n))
            return false;
        if (s->prefix_n < PREFIX_BYTES)
            return true;
        const uint32_t part = s->left < n ? s->left : n;
        p += part;
        n -= part;
        s->left -= part;
        s->held += part;
        f->held += part;
        if (s->left == 0)
            drop_message(f, s);
    }
    return true;
}

/* The next n bytes of the payload of a DATA frame. */
static bool in_payload(struct frames *f, const uint8_t *p, size_t n)
{
    struct frames_stream *s = find_stream(f, f->data_stream);

    if (f->data_padded && n > 0) {
        const uint32_t padding = *p++;
        n--;
        f->data_padded = false;
        if (padding >= f->data_left)
            return breaks_rule(f, BROKEN_ORDER, DATA);
        f->data_left -= padding + 1;
    }
    const uint32_t part = f->data_left < n ? f->data_left : (uint32_t)n;
    f->data_left -= part;
    return !s || in_messages(f, s, p, part); /* the server may have ended the stream meanwhile */
}

static bool in_data(struct frames *f, const struct frame *h, int64_t now_us)
{
    const bool last = h->flags & FLAG_END_STREAM;
    struct frames_stream *s = find_stream(f, h->stream);

    if (!s && last && use_earned(&f->late_ends))
        return true;
    /* On a proven connection, data of a request may still arrive when its call is over. */
    if (s ? s->flags & CLIENT_ENDED : !f->proven)
        return control_allowed(f, now_us);
    if (s)
        mark_asked(f, s);
    if (s)
        begin_payload(f, h);
    if (s && last)
        return true;
    if (h->len > PREFIX_BYTES)
        return h->len >= FRAMES_SMALL_BYTES || small_allowed(f, now_us);
    return (s && use_earned(&f->empties)) || control_allowed(f, now_us);
}

static bool in_reset(struct frames *f, const struct frame *h, int64_t now_us)
{
    struct frames_stream *s = find_stream(f, h->stream);

    if (!s)
        return use_earned(&f->late_resets) || control_allowed(f, now_us);
    bool answered = s->flags & ANSWERED;
    f->held_by_reset = s->held;
    f->held += s->held;
    drop_stream(f, s);
    return answered || frames_take(&f->resets, FRAMES_RESETS_BURST, FRAMES_RESETS_RATE, now_us) ||
           breaks_rule(f, BROKEN_RESETS, FRAMES_RESETS_RATE);
}

static bool in_window(struct frames *f, int64_t now_us)
{
    const uint32_t burst = f->proven ? FRAMES_WINDOWS_BURST : FRAMES_WINDOWS_UNPROVEN;

    return use_earned(&f->windows) || frames_take(&f->updates, burst, FRAMES_WINDOWS_RATE, now_us) ||
           breaks_rule(f, BROKEN_WINDOWS, FRAMES_WINDOWS_RATE);
}

static bool in_frame(struct frames *f, const struct frame *h, int64_t now_us)
{
    if (h->len > FRAMES_PAYLOAD_MAX)
        return breaks_rule(f, BROKEN_SIZE, FRAMES_PAYLOAD_MAX);
    if (f->frames_in++ == 0 && h->type != SETTINGS)
        return breaks_rule(f, BROKEN_ORDER, h->type);
    f->settings = true;
    if (f->block_stream ? h->type != CONTINUATION || h->stream != f->block_stream : h->type == CONTINUATION)
        return breaks_rule(f, BROKEN_ORDER, h->type);
    if (h->stream == 0 && (h->type == DATA || h->type == RST_STREAM))
        return breaks_rule(f, BROKEN_ORDER, h->type);
    switch (h->type) {
    case DATA:
        return guest_allowed(f, h) && in_data(f, h, now_us);
    case HEADERS:
        return in_headers(f, h, now_us);
    case RST_STREAM:
        return in_reset(f, h, now_us);
    case WINDOW_UPDATE:
        return in_window(f, now_us);
    case CONTINUATION:
        return block_allowed(f, h) && control_allowed(f, now_us);
    default:
        return control_allowed(f, now_us);
    }
}

/* ---- What the server sends ---- */

static void out_frame(struct frames *f, const struct frame *h)
{
    struct frames_stream *s = find_stream(f, h->stream);

    f->frames_out++;
    if (h->type == DATA) {
        earn_frames(&f->windows, FRAMES_WINDOWS_PER_DATA);
        earn_frames(&f->smalls, FRAMES_SMALL_PER_DATA);
    }
    if (!s)
        return;
    mark_answered(f, s);
    if (h->type == RST_STREAM) {
        earn_frames(&f->late_resets, 1);
        earn_frames(&f->late_ends, !(s->flags & CLIENT_ENDED));
        drop_stream(f, s);
    } else if ((h->type == DATA || h->type == HEADERS) && h->flags & FLAG_END_STREAM) {
        end_side(f, s, SERVER_ENDED);
    }
}

/* ---- Plain streams ---- */

/* Its one call is the stream that HTTP/2 would have opened. */
void frames_plain_began(struct frames *f)
{
    f->settings = true;
    earn_frames(&f->empties, 1);
    earn_frames(&f->smalls, 1);
}

bool frames_plain_in(struct frames *f, size_t len, int64_t now_us)
{
    if (len == 0)
        return use_earned(&f->empties) || control_allowed(f, now_us);
    return len >= FRAMES_SMALL_BYTES || small_allowed(f, now_us);
}

void frames_plain_holds(struct frames *f, size_t bytes) { f->held = bytes; }

void frames_plain_out(struct frames *f) { earn_frames(&f->smalls, FRAMES_SMALL_PER_DATA); }

void frames_plain_broke(struct frames *f, enum frames_rule rule, uint32_t limit)
{
    (void)breaks_rule(f, rule, limit);
}

/* ---- Bytes ---- */

static void skip_payload(struct frames_reader *r, const uint8_t **p, size_t *n, size_t skip)
{
    r->left -= (uint32_t)skip;
    *p += skip;
    *n -= skip;
}

/* Reads the next frame header, if it is complete; *p and *n move on. */
static bool next_frame(struct frames_reader *r, const uint8_t **p, size_t *n, struct frame *h)
{
    size_t take_n;

    skip_payload(r, p, n, r->left < *n ? r->left : *n);
    take_n = sizeof r->head - r->head_n < *n ? sizeof r->head - r->head_n : *n;
    if (r->left > 0 || take_n == 0)
        return false;
    memcpy(r->head + r->head_n, *p, take_n);
    r->head_n = (uint8_t)(r->head_n + take_n);
    *p += take_n;
    *n -= take_n;
    if (r->head_n < sizeof r->head)
        return false;
    r->head_n = 0;
    *h = (struct frame){
        .len = (uint32_t)r->head[0] << 16 | (uint32_t)r->head[1] << 8 | r->head[2],
        .type = r->head[3],
        .flags = r->head[4],
        .stream = ((uint32_t)r->head[5] << 24 | (uint32_t)r->head[6] << 16 | (uint32_t)r->head[7] << 8 |
                   r->head[8]) &
                  INT32_MAX,
    };
    r->left = h->len;
    return true;
}

bool frames_in(struct frames *f, const uint8_t *p, size_t n, int64_t now_us)
{
    struct frame h;

    for (; f->in.preface_n < PREFACE_BYTES && n > 0; p++, n--)
        if (*p != (uint8_t)preface[f->in.preface_n++])
            return breaks_rule(f, BROKEN_PREFACE, f->in.preface_n);
    while (f->broken == BROKEN_NONE && n > 0) {
        const size_t part = f->in.left < n ? f->in.left : n;
        if (f->data_stream && !in_payload(f, p, part))
            return false;
        if (part > 0)
            skip_payload(&f->in, &p, &n, part);
        else if (next_frame(&f->in, &p, &n, &h) && !in_frame(f, &h, now_us))
            return false;
        if (f->in.left == 0)
            end_payload(f);
    }
    return f->broken == BROKEN_NONE;
}

bool frames_share(struct frames *f, struct frames_bucket *all, int64_t now_us)
{
    for (; f->to_share > 0; f->to_share--, f->shared++)
        if (!frames_take(all, FRAMES_SHARED_BURST, FRAMES_SHARED_RATE, now_us))
            return breaks_rule(f, BROKEN_SHARED, FRAMES_SHARED_RATE);
    return true;
}

bool frames_hold(struct frames *f, struct frames_held *held, uint32_t user)
{
    const bool more = f->held > f->held_told;
    size_t *users = &held->users[user];

    held->all += f->held - f->held_told;
    *users += f->held - f->held_told;
    f->held_told = f->held;
    if (!more || f->broken != BROKEN_NONE || *users + held->all <= FRAMES_HELD_MAX)
        return true;
    return breaks_rule(f, BROKEN_HELD,
                       held->all < FRAMES_HELD_MAX ? (uint32_t)(FRAMES_HELD_MAX - held->all) : 0);
}

void frames_prove(struct frames *f, struct frames_bucket *all)
{
    f->proven = true;
    all->spent -= f->shared < all->spent ? f->shared : all->spent;
    f->shared = 0;
}

void frames_out(struct frames *f, const uint8_t *p, size_t n)
{
    struct frame h;

    while (next_frame(&f->out, &p, &n, &h))
        out_frame(f, &h);
}
