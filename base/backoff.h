/* Delays between attempts to reach a peer. Each is twice the one before, and drawn at random from its
 * upper half, so that nodes that lost the same peer do not all dial it at once. */
#ifndef HAWK_BASE_BACKOFF_H
#define HAWK_BASE_BACKOFF_H

#include "base/rng.h"
#include "base/units.h"

#include <stdbool.h>
#include <stdint.h>

#define BACKOFF_MIN_US (50 * US_PER_MS)
/* A stream must also have held this long before the delays begin anew. Otherwise a node would dial at full
 * speed a peer that accepts its streams and closes them at once. */
#define BACKOFF_MAX_US (2 * US_PER_S)
/* The most for a peer that takes connections and ends them before they are open: a crowd is there. Thousands of nodes
 * that come back every 2 s keep a daemon so busy with connections that it cuts, that it opens none. */
#define BACKOFF_CROWD_US (8 * US_PER_S)
/* The most between two rounds through a peer's addresses, where it has several. */
#define BACKOFF_ROUND_US US_PER_S

/* Returns the delay before the next attempt: at least half of *delay_us after this call. *delay_us is 0
 * before the first attempt, and not above most_us after this. */
static inline int64_t backoff_next(uint32_t *delay_us, int64_t most_us, struct rng *r)
{
    int64_t next_us = *delay_us ? 2 * (int64_t)*delay_us : BACKOFF_MIN_US;

    if (next_us > most_us)
        next_us = most_us;
    *delay_us = (uint32_t)next_us;
    return next_us / 2 + (int64_t)rng_below(r, (uint64_t)next_us / 2 + 1);
}

/* A delay that does not grow. */
static inline int64_t backoff_min(struct rng *r)
{
    return BACKOFF_MIN_US / 2 + (int64_t)rng_below(r, BACKOFF_MIN_US / 2 + 1);
}

/* Returns the delay before the next of a peer's addresses. It grows only when all were tried (round_over): one of them
 * may be that of the active central. several: the peer has more than one. hung_up: it ended the connection. */
static inline int64_t backoff_next_addr(uint32_t *delay_us, bool round_over, bool several, bool hung_up,
                                        struct rng *r)
{
    if (!round_over)
        return backoff_min(r);
    return backoff_next(delay_us,
                        several   ? BACKOFF_ROUND_US
                        : hung_up ? BACKOFF_CROWD_US
                                  : BACKOFF_MAX_US,
                        r);
}

#endif
