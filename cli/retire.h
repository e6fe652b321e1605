/* Taking nodes out of service, as `hawk drain` and `hawk down` both do: which nodes, and waiting for them. */
#ifndef HAWK_CLI_RETIRE_H
#define HAWK_CLI_RETIRE_H

#include "cli/session.h"

/* One node on its way out. */
struct retiring {
    char *name;
    uint32_t node;
    bool dist;     /* else a worker */
    bool drained;  /* nothing is left there, as far as central has heard */
    bool gone;     /* central lists it no more */
    uint32_t left; /* jobs of a dist, tasks and reservations of a worker, by its last heartbeat */
    char *problem; /* why it could not be told; NULL: it was */
};
struct retirement {
    struct retiring *v;
    uint32_t n, cap;
};

enum retire_until { RETIRE_DRAINED, RETIRE_GONE };
enum retire_who { RETIRE_DISTS = 1, RETIRE_WORKERS = 2, RETIRE_BOTH = 3 };

/* Adds the nodes of a list that are dists or workers. */
void retire_add(struct retirement *r, const struct api_node *nodes, uint32_t n);
void retire_free(struct retirement *r);
static inline bool retire_is(const struct retiring *v, enum retire_who who)
{
    return (who & (v->dist ? RETIRE_DISTS : RETIRE_WORKERS)) != 0;
}
/* Asks central until all of them that could be told are there, with a line of progress on a terminal. 0; HAWK_ETIMEOUT
 * after for_us (negative: never); HAWK_ECANCELLED on Ctrl-C, after which its default is in force again; or the error of
 * a call, which hawk_error() explains. */
int retire_wait(struct session *s, struct retirement *r, enum retire_who who, enum retire_until until,
                int64_t for_us);
/* The names of those that are not there yet, for a message: "w1, w2 and 5 more". */
const char *retire_names(char *buf, size_t size, const struct retirement *r, enum retire_who who,
                         enum retire_until until);
/* Monotonic. */
int64_t retire_clock_us(void);

#endif
