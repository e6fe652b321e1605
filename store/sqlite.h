/* The store in a file of SQLite's: opening, and the operations of backend.h. */
#ifndef HAWK_STORE_SQLITE_H
#define HAWK_STORE_SQLITE_H

#include "store/backend.h"

extern const struct backend_ops sqlite_ops;

/* As store_open: *cluster and *epoch are what store_cluster_id and store_epoch tell. */
HAWK_MUST_USE int sqlite_open(const char *path, const char *owner, struct backend **out, uint64_t *cluster,
                              uint32_t *epoch, char *why, size_t why_size);

#endif
