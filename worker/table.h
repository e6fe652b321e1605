/* An intrusive chained hash table for the worker's jobs, tasks and owners.
 *
 * Why not uthash: it allocates about 600 bytes for a table's first element and frees them with the last. The
 * simulator holds 100,000 workers, and a queue that goes from empty to one job and back is their normal life.
 * This one allocates nothing for up to TABLE_INLINE elements, and nothing is ever decided by its order. */
#ifndef HAWK_WORKER_TABLE_H
#define HAWK_WORKER_TABLE_H

#include <stdint.h>

#define TABLE_INLINE 4u /* so many elements live in one chain, without a bucket array */

struct table_node {
    struct table_node *next;
    uint64_t key;
};

struct table {
    struct table_node **v; /* NULL: one chain, `first` */
    struct table_node *first;
    uint32_t mask; /* buckets - 1 when v */
    uint32_t n;
};

/* Keys are well mixed (hash_pair). Different objects may share one: callers compare the real key as well. */
void worker_table_insert(struct table *t, struct table_node *n, uint64_t key);
void worker_table_remove(struct table *t, struct table_node *n); /* n must be in t */
/* The first node with that key, or NULL; then the next one with the same key. */
struct table_node *worker_table_find(const struct table *t, uint64_t key);
struct table_node *worker_table_find_next(const struct table_node *n);
void worker_table_free(struct table *t); /* the bucket array, not the nodes */

#endif
