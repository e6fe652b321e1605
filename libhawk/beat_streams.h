/* Whether dists are there: one stream of beats per dist that is relied on (WatchRequest.beats without a job). A dist
 * whose connection ends, or three of whose beats are missing, is lost. */
#ifndef HAWK_LIBHAWK_BEAT_STREAMS_H
#define HAWK_LIBHAWK_BEAT_STREAMS_H

#include "net/rpc.h"

/* One dist's beats. All zero: none was heard yet. */
struct dist_beats {
    int64_t silent_us; /* heard nothing, while we could have heard */
    int64_t beat_us;   /* 0: not told yet */
};
static inline void dist_beats_heard(struct dist_beats *b, int64_t beat_us)
{
    b->silent_us = 0;
    if (beat_us > 0)
        b->beat_us = beat_us;
}
/* Another step_us have passed: whether the dist is lost, as `missed` beats are missing. */
bool dist_beats_missing(struct dist_beats *b, uint32_t missed, int64_t step_us);
/* How much of the time since the last turn (*turn_us, which is brought up to date) counts as silence. */
int64_t dist_beats_step(int64_t *turn_us, int64_t now_us);
#define DIST_BEATS_MISSED 3

struct beat_stream;

struct beat_streams {
    struct loop *loop;
    void (*lost)(void *arg, struct channel *ch); /* from within beat_streams_turn */
    void *arg;
    uint32_t missed; /* so many beats missing, and it is lost; 0: three */
    struct beat_stream **v;
    uint32_t n, cap;
    int64_t turn_us; /* the last; 0: none yet */
};

#define BEAT_STREAMS_TURN_US (25 * US_PER_MS) /* how often beat_streams_turn wants to be called, at least */

/* Relies on the dist at ch from now on; again is no harm. */
void beat_streams_add(struct beat_streams *all, struct channel *ch);
/* Looks whether any is lost; forgets those. To be called at every turn of the loop. */
void beat_streams_turn(struct beat_streams *all);
void beat_streams_free(struct beat_streams *all);

#endif
