/* Whether the other end of a stream is still there, for a role that waits for something from it (docs/protocol.md 0,
 * "Beats"). Asked and answered, so that silence in either direction shows; nobody is asked while nothing is waited for.
 *
 * A stream loses nothing, so one question at a time is enough: from the moment the peer cannot hear or be heard to the
 * moment it is given up BEATS_BOUND_US pass at most. */
#ifndef HAWK_MSG_BEATS_H
#define HAWK_MSG_BEATS_H

#include "base/units.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BEATS_LOOK_US (250 * US_PER_MS) /* how often peers that are waited for are looked at */
#define BEATS_ASK_US (500 * US_PER_MS)  /* how long after one question the next one follows */
#define BEATS_ANSWER_US                                                                                      \
    (2250 * US_PER_MS) /* how long an answer may take: longer than a busy machine lets a process wait */
#define BEATS_BOUND_US (BEATS_ASK_US + BEATS_ANSWER_US)
/* A stream is first in, first out: an answer waits behind payloads and results, which may fill a slow network for seconds. */
#define BEATS_BYTES_PER_US 5

struct beats {
    int64_t asked_us; /* the last question; meaningful when `asked` */
    int64_t clear_us; /* when the payloads and results of which this side knows have passed */
    bool asked;       /* one was asked since something is waited for */
    bool open;        /* and is not answered */
};

enum beats_act { BEATS_REST, BEATS_ASK, BEATS_LOST };

/* To be called every BEATS_LOOK_US while something of the peer is waited for. late_us: how much later than that this look
 * comes: while this process does not run, it hears nobody. */
static inline enum beats_act beats_look(struct beats *b, int64_t now_us, int64_t late_us)
{
    if (b->open) {
        b->asked_us += late_us;
        return now_us - (b->asked_us > b->clear_us ? b->asked_us : b->clear_us) >= BEATS_ANSWER_US
                   ? BEATS_LOST
                   : BEATS_REST;
    }
    if (b->asked && now_us - b->asked_us < BEATS_ASK_US)
        return BEATS_REST;
    *b = (struct beats){.asked_us = now_us, .clear_us = b->clear_us, .asked = true, .open = true};
    return BEATS_ASK;
}

static inline void beats_answered(struct beats *b) { b->open = false; }

/* So much was sent to the peer, or came from it. */
static inline void beats_bulk(struct beats *b, int64_t now_us, size_t bytes)
{
    b->clear_us = (b->clear_us > now_us ? b->clear_us : now_us) + (int64_t)(bytes / BEATS_BYTES_PER_US);
}

/* Nothing is waited for any more, or the stream is another one. */
static inline void beats_end(struct beats *b) { *b = (struct beats){0}; }

#endif
