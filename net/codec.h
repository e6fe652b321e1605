/* The wire form of the cluster's messages (protos/cluster.proto) and of job descriptions (JobSpec in
 * protos/hawk.proto). It is generated from the lists in msg/msg.h: there is no code per message. */
#ifndef HAWK_NET_CODEC_H
#define HAWK_NET_CODEC_H

#include "base/err.h"
#include "msg/msg.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* No envelope is larger. It holds the largest job, with the protobuf overhead of 1,000,000 task arguments. */
#define CODEC_ENVELOPE_MAX ((size_t)96 << 20)

/* Borrowed bytes. */
struct span {
    const void *data;
    size_t len;
};

/* A buffer that grows. It starts zeroed; len = 0 empties it and keeps the memory. */
struct codec_buf {
    uint8_t *data;
    size_t len, cap;
};
void codec_buf_free(struct codec_buf *b);
void codec_buf_append(struct codec_buf *b, const void *data, size_t n);
static inline struct span span_of(const struct codec_buf *b) { return (struct span){b->data, b->len}; }
static inline struct span span_text(const char *text) { return (struct span){text, strlen(text)}; }

/* Appends one envelope. The envelopes in b, from an empty buffer on, are a Batch. m must be a wire
 * message; it stays the caller's, and m->peer does not travel. HAWK_ETOO_LARGE beyond CODEC_ENVELOPE_MAX:
 * b is unchanged. */
HAWK_MUST_USE int codec_encode(struct codec_buf *b, const struct msg *m);

/* Gets one decoded message that passed msg_check, borrowed: its handles are dropped when this returns, so
 * take references to keep them. peer is 0. false ends the decoding. */
typedef bool codec_deliver_fn(void *arg, const struct msg *m);

struct codec_report {
    char why[160]; /* set on HAWK_EMALFORMED: which message, where, what */
};

/* Decodes a Batch and delivers its envelopes in order. 0, or HAWK_EMALFORMED; the envelopes before the
 * malformed one have been delivered. */
HAWK_MUST_USE int codec_decode(const void *data, size_t len, codec_deliver_fn *deliver, void *arg,
                               struct codec_report *r);

/* Appends a JobSpec message; `args`: with the argument of every task. */
void codec_desc_encode(struct codec_buf *b, const struct job_desc *d, bool args);
/* Decodes and checks a JobSpec, by job_desc_check, or by job_spec_check when it travels without its
 * arguments (args = false). 0, and *d with one reference; or HAWK_EMALFORMED, or the check's error, and a
 * text in why. */
HAWK_MUST_USE int codec_desc_decode(const void *data, size_t len, bool args, struct job_desc **d, char *why,
                                    size_t size);

#endif
