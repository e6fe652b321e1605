/* An intrusive chained hash table for the worker's jobs, tasks and owners.
 *
 * Why not uthash: it allocates about 600 bytes for a table's first element, and frees them with the last. The
 * simulator has 100,000 workers, whose queues often go from empty to one job and back. This table allocates
 * nothing for up to TABLE_INLINE elements, and its order never decides anything. */
#ifndef HAWK_WORKER_TABLE_H
#define HAWK_WORKER_TABLE_H

#include <stdint.h>

#define TABLE_INLINE 4u /* up to so many elements are in one chain, without an array of buckets */

struct table_node {
    struct table_node *next;
    uint64_t key;
};

struct table {
    struct table_node **v; /* NULL: one chain, `first` */
    struct table_node *first;
    uint32_t mask; /* if v: number of buckets - 1 */
    uint32_t n;
};

/* Keys must be well mixed (hash_pair). Several objects may share a key: callers also compare the real key. */
void worker_table_insert(struct table *t, struct table_node *n, uint64_t key);
void worker_table_remove(struct table *t, struct table_node *n); /* n must be in t */
/* The first node with that key, or NULL; worker_table_find_next(): the next one with the same key. */
struct table_node *worker_table_find(const struct table *t, uint64_t key);
struct table_node *worker_table_find_next(const struct table_node *n);
void worker_table_free(struct table *t); /* frees the array of buckets, not the nodes */

#endif
