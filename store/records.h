/* Records to bytes and back, from the lists of msg/records.h. */
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
    ENTRY_JOB,        /* put anew: nothing is said of it yet */
    ENTRY_JOB_CHANGE, /* all but its description, if it is there; it has not ended */
    ENTRY_JOB_ENDED,
    ENTRY_REMOVE,
    ENTRY_REMOVE_JOB,
};

/* A record on its way to be kept: bytes alone, so that another thread may use it. */
struct entry {
    struct entry *next;
    struct record_key key;
    enum entry_change change;
    uint64_t token; /* 0: none */
    struct codec_buf value;
};
static inline size_t entry_bytes(const struct entry *e) { return sizeof *e + e->value.cap; }

/* NULL: a message that is not kept. */
struct entry *entry_new(const struct msg *m);
void entry_free(struct entry *e);

/* What is kept under k: a message whose handles are the caller's to drop, and where the record says when it was written, how
 * long ago that was (*ago_us; otherwise -1). HAWK_ECORRUPT: a key or value that none can be; nothing is to be dropped. */
HAWK_MUST_USE int record_decode(const struct record_key *k, struct span value, struct msg *m,
                                int64_t *ago_us);

/* The numbers of a job's fields. */
enum {
    JOB_FIELD_none,
#define V(kind, name, value, max) JOB_FIELD_##name,
    VALUES_journal_job(V)
#undef V
};
/* Appends to a job's value what another one has in the fields whose bits are set; that one can be read. */
void job_fields_copy(struct codec_buf *to, struct span from, uint32_t fields);
/* Appends a field with the description. */
void job_desc_put(struct codec_buf *to, const struct job_desc *d);

/* For logs: "JOURNAL_TASK of job 3.1". */
#define RECORD_TEXT 80
const char *record_text(char text[RECORD_TEXT], const struct record_key *k);

#endif
