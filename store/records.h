/* Records to bytes and back, generated from the lists of msg/records.h. */
#ifndef HAWK_STORE_RECORDS_H
#define HAWK_STORE_RECORDS_H

#include "base/err.h"
#include "msg/records.h"
#include "net/codec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum entry_change {
    ENTRY_PUT,
    ENTRY_APPEND,     /* history */
    ENTRY_JOB,        /* a job with its description: its other records go */
    ENTRY_JOB_CHANGE, /* changes all but the description of a job that exists; the job has not ended */
    ENTRY_JOB_ENDED,
    ENTRY_REMOVE,
    ENTRY_REMOVE_JOB,
};

/* A record on its way to the backend. It consists of bytes alone, so that another thread may use it. */
struct entry {
    struct entry *next;
    struct record_key key;
    enum entry_change change;
    uint64_t token; /* 0: none */
    uint32_t user;  /* of ENTRY_APPEND: whose record it is */
    struct codec_buf value;
};
static inline size_t entry_bytes(const struct entry *e) { return sizeof *e + e->value.cap; }

/* NULL: m is not a record, or has a value that record_decode() would refuse. */
struct entry *record_entry_new(const struct msg *m);
void record_entry_free(struct entry *e);

/* Decodes the record under k to a message. The caller drops its handles. *ago_us: how long ago the record
 * was written, where it says so; otherwise -1. HAWK_ECORRUPT: no record has this key or value; there is
 * nothing to drop. */
HAWK_MUST_USE int record_decode(const struct record_key *k, struct span value, struct msg *m,
                                int64_t *ago_us);

/* The numbers of a job's fields. */
enum {
    JOB_FIELD_none,
#define V(kind, name, value, max) JOB_FIELD_##name,
    VALUES_journal_job(V)
#undef V
};
/* Appends to a job's value those fields of another, readable value whose bits are set. */
void record_copy_job(struct codec_buf *to, struct span from, uint32_t fields);
/* Appends a field with the description. */
void record_put_desc(struct codec_buf *to, const struct job_desc *d);

/* For logs: "JOURNAL_TASK of job 3.1". */
#define RECORD_TEXT 80
const char *record_text(char text[RECORD_TEXT], const struct record_key *k);

#endif
