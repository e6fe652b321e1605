/* Whether dists are there: one stream of beats per dist that is relied on (WatchRequest.beats without a job). A dist
 * whose connection ends, or three of whose beats are missing, is lost. */
#ifndef HAWK_LIBHAWK_PULSE_H
#define HAWK_LIBHAWK_PULSE_H

#include "net/rpc.h"

/* One dist's beats. All zero: none was heard yet. */
struct beats {
    int64_t silent_us; /* heard nothing, while we could have heard */
    int64_t beat_us;   /* 0: not told yet */
};
static inline void beats_heard(struct beats *b, int64_t beat_us)
{
    b->silent_us = 0;
    if (beat_us > 0)
        b->beat_us = beat_us;
}
/* Another step_us have passed: whether the dist is lost, as `missed` beats are missing. */
bool beats_missing(struct beats *b, uint32_t missed, int64_t step_us);
/* How much of the time since the last turn (*turn_us, which is brought up to date) counts as silence. */
int64_t beats_step(int64_t *turn_us, int64_t now_us);
#define BEATS_MISSED 3

struct pulse;

struct pulses {
    struct loop *loop;
    void (*lost)(void *arg, struct channel *ch); /* from within pulses_turn */
    void *arg;
    uint32_t missed; /* so many beats missing, and it is lost; 0: three */
    struct pulse **v;
    uint32_t n, cap;
    int64_t turn_us; /* the last; 0: none yet */
};

#define PULSE_TURN_US (25 * US_PER_MS) /* how often pulses_turn wants to be called, at least */

/* Relies on the dist at ch from now on; again is no harm. */
void pulse_add(struct pulses *all, struct channel *ch);
/* Looks whether any is lost; forgets those. To be called at every turn of the loop. */
void pulses_turn(struct pulses *all);
void pulses_free(struct pulses *all);

#endif
