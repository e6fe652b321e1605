/* Which dist to ask next, for jobs whose dist is lost (docs/protocol.md 9.2): every other one, then the lost one, which
 * may be there again; and so on, until nobody has taken them for the client's timeout. */
#ifndef HAWK_LIBHAWK_DIST_SEARCH_H
#define HAWK_LIBHAWK_DIST_SEARCH_H

#include "libhawk/client_impl.h"

/* All zero, but for the seed: no dist is lost. */
struct dist_search {
    uint64_t seed;        /* at which of the other dists it begins */
    struct channel *lost; /* NULL: none */
    uint32_t tried;       /* other dists asked in vain since all were */
    uint32_t backoff_us;
    int64_t retry_us;   /* nobody is asked again before that, */
    int64_t give_up_us; /* nor, when all have been asked, after that; 0: it is not searching */
};

#define DIST_SEARCH_TRY_US US_PER_S /* how long a call may take; then another dist is asked */

/* A dist has the jobs. */
static inline void dist_search_found(struct dist_search *s) { *s = (struct dist_search){.seed = s->seed}; }
/* `ch` had the jobs and is lost, or it was asked in vain. One that is full is not silent: the timeout begins anew. */
void dist_search_failed(struct dist_search *s, const struct client *client, struct channel *ch, bool full);
/* All have been asked: they are asked again from retry_us on. False: the time is over, or the local `hawk up` has
 * stopped. */
bool dist_search_again(struct dist_search *s, struct client *client);
/* The dist to ask; the contact while none is lost. Where it is s->lost, all others were asked: retry_us is when to ask
 * again. NULL: as dist_search_again. */
struct channel *dist_search_next(struct dist_search *s, struct client *client);

#endif
