/* Drawing probe targets: workers weighted by their slots, with or without replacement, in constant time per
 * draw however many workers there are. Knows nothing of jobs or messages. */
#ifndef HAWK_DIST_DRAW_H
#define HAWK_DIST_DRAW_H

#include "base/rng.h"

#include <stdbool.h>
#include <stdint.h>

/* The balls are slots. An array of them in any order is as good as in any other, so a draw without replacement
 * is a step of a Fisher-Yates shuffle done in place and never undone. A worker that leaves invalidates its
 * slots by raising its stamp; they are thrown out when drawn, or by a sweep once they outnumber the valid, or stamps begin anew. */
#define DRAW_ID_BITS 20u
#define DRAW_STAMP_BITS 12u
struct draw_slot {
    uint32_t id : DRAW_ID_BITS;
    uint32_t stamp : DRAW_STAMP_BITS;
};
struct draw_member {
    uint32_t weight : 32 - DRAW_STAMP_BITS; /* slots; 0: not in the pool */
    uint32_t stamp : DRAW_STAMP_BITS;
};
struct draw {
    struct draw_slot *v;
    uint32_t n, cap;
    uint32_t valid;             /* slots of present members, of the n in v */
    struct draw_member *member; /* by id */
    uint32_t members_cap;
};

void draw_init(struct draw *p);
void draw_free(struct draw *p);
/* Puts id (a node's) in with weight >= 1 slots, LIMIT_SLOTS at most; it must not be in. The arrays grow with the largest id and all slots. */
void draw_add(struct draw *p, uint32_t id, uint32_t weight);
/* Takes id out, which must be in. */
void draw_remove(struct draw *p, uint32_t id);
/* Slots of id in the pool; 0 when it is not in. */
uint32_t draw_weight(const struct draw *p, uint32_t id);
/* Slots of all of them. */
static inline uint32_t draw_total(const struct draw *p) { return p->valid; }

/* Draws one slot that was not drawn since *taken was 0 and returns its worker's id; when all have been drawn
 * another round starts. The pool must not be empty, nor change while *taken counts. */
uint32_t draw_next(struct draw *p, struct rng *rng, uint32_t *taken);
/* Draws one slot, independently of all others. The pool must not be empty. */
uint32_t draw_any(struct draw *p, struct rng *rng);

void draw_check(const struct draw *p); /* aborts on a broken invariant */

#endif
