/* Delays between attempts to reach somebody: each twice the one before, and drawn from its upper half, so that those who
 * lost the same peer do not come back together. */
#ifndef HAWK_BASE_BACKOFF_H
#define HAWK_BASE_BACKOFF_H

#include "base/rng.h"
#include "base/units.h"

#include <stdint.h>

#define BACKOFF_MIN_US (50 * US_PER_MS)
/* Also how long a stream must have held for the delays to begin anew: a peer that lets us in and throws us out at once must
 * not be asked at full speed. */
#define BACKOFF_MAX_US (2 * US_PER_S)

/* The delay before the next attempt, at least half of *delay_us. *delay_us is 0 before the first; at most most_us. */
static inline int64_t backoff_next(uint32_t *delay_us, int64_t most_us, struct rng *r)
{
    int64_t next_us = *delay_us ? 2 * (int64_t)*delay_us : BACKOFF_MIN_US;

    if (next_us > most_us)
        next_us = most_us;
    *delay_us = (uint32_t)next_us;
    return next_us / 2 + (int64_t)rng_below(r, (uint64_t)next_us / 2 + 1);
}

/* The same before the next of several addresses of one peer: nothing grows before all have been tried. */
static inline int64_t backoff_min(struct rng *r)
{
    return BACKOFF_MIN_US / 2 + (int64_t)rng_below(r, BACKOFF_MIN_US / 2 + 1);
}

#endif
