/* Takes nodes out of service, for `hawk drain` and `hawk down`: which nodes, and waiting for them. */
#ifndef HAWK_CLI_LEAVING_NODES_H
#define HAWK_CLI_LEAVING_NODES_H

#include "cli/session.h"

/* One node on its way out. */
struct leaving_node {
    char *name, *address;
    uint32_t node;
    bool dist;     /* else a worker */
    bool drained;  /* nothing is left there, as far as central knows */
    bool gone;     /* central does not list it any more */
    bool lost;     /* central gave it up, and has not heard that it ended */
    uint32_t left; /* jobs of a dist, tasks and reservations of a worker, by its last heartbeat */
    char *problem; /* why central could not tell it; NULL: it could */
};
struct leaving_nodes {
    struct leaving_node *v;
    uint32_t n, cap;
};

enum leaving_until { LEAVING_DRAINED, LEAVING_GONE };
enum leaving_who { LEAVING_DISTS = 1, LEAVING_WORKERS = 2, LEAVING_BOTH = 3 };

/* Adds the nodes of a list that are dists or workers. */
void leaving_nodes_add(struct leaving_nodes *r, const struct api_node *nodes, uint32_t n);
void leaving_nodes_free(struct leaving_nodes *r);
static inline bool leaving_node_is(const struct leaving_node *v, enum leaving_who who)
{
    return (who & (v->dist ? LEAVING_DISTS : LEAVING_WORKERS)) != 0;
}
/* Asks central until all nodes that could be told are drained, gone or lost, with a line of progress on a
 * terminal. 0; HAWK_ETIMEOUT after for_us (negative: never); HAWK_ECANCELLED on Ctrl-C, whose default is
 * then restored; or the error of a call, which client_error() explains. */
int leaving_nodes_wait(struct session *s, struct leaving_nodes *r, enum leaving_who who,
                       enum leaving_until until, int64_t for_us);
/* The names of the nodes that are not there yet, for a message: "w1, w2 and 5 more". */
const char *leaving_nodes_names(char *buf, size_t size, const struct leaving_nodes *r, enum leaving_who who,
                                enum leaving_until until);

#endif
