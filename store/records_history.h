/* Which records of the history make room for the next: those of the user who has most (base/crowd.h). For any backend:
 * it knows the numbers of the records that are there, by user. */
#ifndef HAWK_STORE_RECORDS_HISTORY_H
#define HAWK_STORE_RECORDS_HISTORY_H

#include "base/crowd.h"
#include "store/records.h"

struct backend;
struct backend_ops;

struct records_history {
    struct crowd kept;
    bool read;      /* kept is what the backend has, and what this transaction changes */
    uint64_t first; /* this transaction's first record; UINT64_MAX: none yet */
};

/* max: so many records stay. */
void records_history_init(struct records_history *h, uint32_t max);
void records_history_free(struct records_history *h);
void records_history_begin(struct records_history *h);
/* Adds e to this transaction, and removes what makes room. Errors as of backend_ops. */
HAWK_MUST_USE int records_history_append(struct records_history *h, const struct backend_ops *ops,
                                         struct backend *b, const struct entry *e);
/* Whether one more may be added to this transaction: no record is added and removed in one. */
bool records_history_fits(const struct records_history *h);
/* The transaction failed: what the backend has is read again before the next record. */
void records_history_failed(struct records_history *h);

#endif
