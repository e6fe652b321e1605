/* Hash trees (RFC 6962): how their nodes lie in memory, and which of them show that a leaf is in one. The levels lie
 * one after the other, the leaves first and the root last; an odd node moves up unchanged. */
#ifndef HAWK_MSG_TREE_H
#define HAWK_MSG_TREE_H

#include <stddef.h>
#include <stdint.h>

#define TREE_HASH 32u      /* bytes of a node */
#define TREE_PROOF_MAX 32u /* nodes that show a leaf */

/* The nodes of the level above one of n. */
static inline uint32_t tree_above(uint32_t n) { return n / 2 + n % 2; }
/* The nodes of all levels of a tree of n leaves, at least one. */
size_t tree_nodes(uint32_t n);
/* The nodes that lead from leaf `index` (below n) to the root: their places in the tree, at most TREE_PROOF_MAX.
 * Returns their number. */
uint32_t tree_proof(uint32_t n, uint32_t index, size_t places[TREE_PROOF_MAX]);

#endif
