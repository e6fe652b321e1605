/* Beats: whether the peer of a stream is still there, for a role that waits for something from it
 * (docs/protocol.md 0, "Beats"). The role asks and the peer answers, so that silence in either direction
 * shows. A role asks no peer from which it waits for nothing.
 *
 * A stream loses nothing, so one question at a time is enough. From the moment the peer cannot hear or be
 * heard, at most BEATS_BOUND_US pass until the role gives it up. */
#ifndef HAWK_MSG_BEATS_H
#define HAWK_MSG_BEATS_H

#include "base/units.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BEATS_LOOK_US (250 * US_PER_MS) /* how often a role looks at the peers that it waits for */
#define BEATS_ASK_US (500 * US_PER_MS)  /* time from one question to the next */
#define BEATS_ANSWER_US                                                                                      \
    (2250 * US_PER_MS) /* time allowed for an answer: a busy machine may hold a process up almost as long */
#define BEATS_BOUND_US (BEATS_ASK_US + BEATS_ANSWER_US)
/* A stream is first in, first out. So an answer waits behind payloads and results, which may fill a slow
 * network for seconds. */
#define BEATS_BYTES_PER_US 5

struct beats {
    int64_t asked_us; /* the last question; meaningful when `asked` */
    int64_t clear_us; /* when the payloads and results that this side knows of have passed */
    bool asked;       /* a question was asked since the role began to wait for something */
    bool open;        /* and is not answered */
};

enum beats_act { BEATS_REST, BEATS_ASK, BEATS_LOST };

/* Call it every BEATS_LOOK_US while the role waits for something from the peer. late_us says how much
 * later than that this call comes: while this process does not run, it hears no answer. */
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

/* `bytes` of payload or results were sent to the peer, or came from it. */
static inline void beats_bulk(struct beats *b, int64_t now_us, size_t bytes)
{
    b->clear_us = (b->clear_us > now_us ? b->clear_us : now_us) + (int64_t)(bytes / BEATS_BYTES_PER_US);
}

/* The role waits for nothing any more, or the peer has a new stream. */
static inline void beats_end(struct beats *b) { *b = (struct beats){0}; }

#endif
