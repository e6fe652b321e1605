/* See tree.h. */
#include "msg/tree.h"

size_t tree_nodes(uint32_t n)
{
    size_t nodes = n;

    for (; n > 1; n = tree_above(n))
        nodes += tree_above(n);
    return nodes;
}

uint32_t tree_proof(uint32_t n, uint32_t index, size_t places[TREE_PROOF_MAX])
{
    size_t level = 0;
    uint32_t found = 0;

    for (; n > 1; level += n, n = tree_above(n), index /= 2)
        if ((index ^ 1) < n)
            places[found++] = level + (index ^ 1);
    return found;
}
