/* Protobuf fields written to a buffer that grows, and read in place. nanopb's generated structs hold 16-bit lengths (see
 * net/api.c): used are the field numbers it generates, and its reading and writing of numbers. */
#ifndef HAWK_STORE_WIRE_H
#define HAWK_STORE_WIRE_H

#include "base/err.h"
#include "net/codec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes somewhere else, borrowed. */
struct span {
    const uint8_t *data;
    size_t len;
};
static inline struct span span_of(const struct codec_buf *b) { return (struct span){b->data, b->len}; }
struct span span_text(const char *text);
bool span_equals(struct span s, const char *text);

/* Appends a field; a number that is 0 is left out (proto3), bytes never are. */
void wire_put_number(struct codec_buf *b, uint32_t tag, uint64_t v);
void wire_put_bytes(struct codec_buf *b, uint32_t tag, struct span v);

/* One field of a message. */
struct wire_field {
    uint32_t tag;
    bool is_bytes;
    uint64_t number;
    struct span bytes;
};
/* The next field of what is left in *rest, which moves on. 1, 0 at the end, HAWK_EMALFORMED. */
HAWK_MUST_USE int wire_next(struct span *rest, struct wire_field *f);

#endif
