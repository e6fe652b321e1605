/* Whether the other end of a stream is still there, for a role that waits for something from it (docs/protocol.md 0,
 * "Beats"). Asked and answered, so that silence in either direction shows; nobody is asked while nothing is waited for.
 *
 * A stream loses nothing, so one question at a time is enough: from the moment the peer cannot hear or be heard to the
 * moment it is given up PULSE_BOUND_US pass at most. */
#ifndef HAWK_MSG_PULSE_H
#define HAWK_MSG_PULSE_H

#include "base/units.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PULSE_LOOK_US (250 * US_PER_MS) /* how often peers that are waited for are looked at */
#define PULSE_ASK_US (500 * US_PER_MS)  /* how long after one question the next one follows */
#define PULSE_ANSWER_US                                                                                      \
    (2250 * US_PER_MS) /* how long an answer may take: longer than a busy machine lets a process wait */
#define PULSE_BOUND_US (PULSE_ASK_US + PULSE_ANSWER_US)
/* A stream is first in, first out: an answer waits behind payloads and results, which may fill a slow network for seconds. */
#define PULSE_BYTES_PER_US 5

struct pulse {
    int64_t asked_us; /* the last question; meaningful when `beats` */
    int64_t clear_us; /* when the payloads and results of which this side knows have passed */
    bool beats;       /* one was asked since something is waited for */
    bool open;        /* and is not answered */
};

enum pulse_act { PULSE_REST, PULSE_ASK, PULSE_LOST };

/* To be called every PULSE_LOOK_US while something of the peer is waited for. late_us: how much later than that this look
 * comes: while this process does not run, it hears nobody. */
static inline enum pulse_act pulse_look(struct pulse *p, int64_t now_us, int64_t late_us)
{
    if (p->open) {
        p->asked_us += late_us;
        return now_us - (p->asked_us > p->clear_us ? p->asked_us : p->clear_us) >= PULSE_ANSWER_US
                   ? PULSE_LOST
                   : PULSE_REST;
    }
    if (p->beats && now_us - p->asked_us < PULSE_ASK_US)
        return PULSE_REST;
    *p = (struct pulse){.asked_us = now_us, .clear_us = p->clear_us, .beats = true, .open = true};
    return PULSE_ASK;
}

static inline void pulse_answered(struct pulse *p) { p->open = false; }

/* So much was sent to the peer, or came from it. */
static inline void pulse_bulk(struct pulse *p, int64_t now_us, size_t bytes)
{
    p->clear_us = (p->clear_us > now_us ? p->clear_us : now_us) + (int64_t)(bytes / PULSE_BYTES_PER_US);
}

/* Nothing is waited for any more, or the stream is another one. */
static inline void pulse_end(struct pulse *p) { *p = (struct pulse){0}; }

#endif
