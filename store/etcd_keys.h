/* The store in etcd: opening, and the operations of backend.h. */
#ifndef HAWK_STORE_ETCD_KEYS_H
#define HAWK_STORE_ETCD_KEYS_H

#include "store/backend.h"
#include "store/store.h"

extern const struct backend_ops etcd_ops;

/* As store_open_etcd; *cluster is what store_cluster_id tells. */
HAWK_MUST_USE int etcd_keys_open(const struct store_etcd *c, struct backend **out, uint64_t *cluster,
                                 char *why, size_t why_size);

#endif
