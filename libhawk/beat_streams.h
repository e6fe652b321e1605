/* Watches whether dists are there, with one stream of beats per dist that the client relies on
 * (WatchRequest.beats without a job). A dist is lost when its connection ends, or when three of its beats
 * are missing. */
#ifndef HAWK_LIBHAWK_BEAT_STREAMS_H
#define HAWK_LIBHAWK_BEAT_STREAMS_H

#include "net/rpc.h"

/* One dist's beats. All zero: none has come yet. */
struct dist_beats {
    int64_t silent_us; /* time without a beat while we were listening */
    int64_t beat_us;   /* 0: not told yet */
};
static inline void dist_beats_heard(struct dist_beats *b, int64_t beat_us)
{
    b->silent_us = 0;
    if (beat_us > 0)
        b->beat_us = beat_us;
}
/* Another step_us have passed. Returns whether the dist is lost, because `missed` beats are missing. */
bool dist_beats_missing(struct dist_beats *b, uint32_t missed, int64_t step_us);
/* Returns how much of the time since the last turn counts as silence, and brings *turn_us up to date. */
int64_t dist_beats_step(int64_t *turn_us, int64_t now_us);
#define DIST_BEATS_MISSED 3

struct beat_stream;

struct beat_streams {
    struct loop *loop;
    /* From within beat_streams_turn(). status and text say how its stream ended; the text lives as long as the call. */
    void (*lost)(void *arg, struct channel *ch, grpc_status_code status, const char *text);
    void *arg;
    uint32_t missed; /* the dist is lost when this many beats are missing; 0: three */
    struct beat_stream **v;
    uint32_t n, cap;
    int64_t turn_us; /* the last; 0: none yet */
};

#define BEAT_STREAMS_TURN_US (25 * US_PER_MS) /* beat_streams_turn must be called at least this often */

/* Relies on the dist at ch from now on. Calling it again does no harm. */
void beat_streams_add(struct beat_streams *all, struct channel *ch);
/* Finds lost dists, and forgets them. Call it at every turn of the loop. */
void beat_streams_turn(struct beat_streams *all);
void beat_streams_free(struct beat_streams *all);

#endif
