/* Draws probe targets: workers weighted by their slots, with or without replacement, in constant time per
 * draw, however many workers there are. It knows nothing of jobs or messages. */
#ifndef HAWK_DIST_DRAW_H
#define HAWK_DIST_DRAW_H

#include "base/rng.h"

#include <stdbool.h>
#include <stdint.h>

/* An array of slots, in any order. A draw without replacement is one step of a Fisher-Yates shuffle, in place
 * and never undone: any order serves the next draws as well. A worker that leaves raises its stamp, which
 * invalidates its slots. A draw removes an invalid slot that it meets. A sweep removes them all, when they
 * outnumber the valid ones or stamps begin anew. */
#define DRAW_ID_BITS 20u
#define DRAW_STAMP_BITS 12u
struct draw_slot {
    uint32_t id : DRAW_ID_BITS;
    uint32_t stamp : DRAW_STAMP_BITS;
};
struct draw_member {
    uint32_t weight : 32 - DRAW_STAMP_BITS; /* number of slots; 0: not in the pool */
    uint32_t stamp : DRAW_STAMP_BITS;
    uint32_t place; /* in draw.ids; valid while it is in the pool */
};
struct draw {
    struct draw_slot *v;
    uint32_t n, cap;
    uint32_t valid;             /* slots of members, among the n in v */
    struct draw_member *member; /* by id */
    uint32_t members_cap;
    uint32_t *ids; /* of the members, in any order */
    uint32_t ids_n, ids_cap;
};

void draw_init(struct draw *p);
void draw_free(struct draw *p);
/* Adds the node with 1 to LIMIT_SLOTS slots; it must not be in the pool. The arrays grow with the largest id
 * and all slots. */
void draw_add(struct draw *p, uint32_t id, uint32_t weight);
/* Removes the node, which must be in the pool. */
void draw_remove(struct draw *p, uint32_t id);
/* The node's slots in the pool; 0: it is not in it. */
uint32_t draw_weight(const struct draw *p, uint32_t id);
/* The slots of all nodes in the pool. */
static inline uint32_t draw_total(const struct draw *p) { return p->valid; }
/* The number of nodes in the pool. Their ids are ids[0 .. that - 1], until one comes or goes. */
static inline uint32_t draw_members(const struct draw *p) { return p->ids_n; }

/* Draws a slot that was not drawn since *taken was 0, and returns its worker's id. When all slots have been
 * drawn, another round starts. The pool must not be empty. It must not change while *taken counts. */
uint32_t draw_next(struct draw *p, struct rng *rng, uint32_t *taken);
/* Draws a slot, independently of all other draws. The pool must not be empty. */
uint32_t draw_any(struct draw *p, struct rng *rng);

void draw_check(const struct draw *p); /* aborts if an invariant is broken */

#endif
