/* Protobuf's tags, numbers and lengths: written to a buffer that grows, read from bytes in memory.
 *
 * DEVIATES (DESIGN 6): this does not use nanopb's primitives. They call a function through a pointer for
 * every byte that is written and every number that is read, which took most of an envelope's time. The
 * tests compare both. README.md ("Libraries") says what nanopb does and what is ours. */
#ifndef HAWK_NET_WIRE_H
#define HAWK_NET_WIRE_H

#include "base/mem.h"
#include "base/utf8.h"
#include "net/codec.h"

#include <pb.h>
#include <string.h>

/* ---- Writing: nothing in it can fail ---- */

static inline void wire_reserve(struct codec_buf *b, size_t n)
{
    if (b->cap - b->len >= n)
        return;
    b->cap = b->cap ? b->cap : 256;
    while (b->cap - b->len < n)
        b->cap *= 2;
    b->data = xrealloc(b->data, b->cap);
}

static inline void wire_put_raw(struct codec_buf *b, const void *data, size_t n)
{
    if (n == 0)
        return;
    wire_reserve(b, n);
    memcpy(b->data + b->len, data, n);
    b->len += n;
}

static inline void wire_put_varint(struct codec_buf *b, uint64_t v)
{
    uint8_t *to;

    wire_reserve(b, 10);
    to = b->data + b->len;
    for (; v > 0x7f; v >>= 7)
        *to++ = (uint8_t)(v | 0x80);
    *to++ = (uint8_t)v;
    b->len = (size_t)(to - b->data);
}

static inline void wire_put_tag(struct codec_buf *b, pb_wire_type_t wire, uint32_t tag)
{
    wire_put_varint(b, (uint64_t)tag << 3 | wire);
}

/* Begins a message within a message. The length stands in front of it. One byte is kept for the length,
 * which is enough for nearly all; a longer message moves up. Returns where the message begins. */
static inline size_t wire_begin(struct codec_buf *b, uint32_t tag)
{
    wire_put_tag(b, PB_WT_STRING, tag);
    wire_reserve(b, 1);
    return ++b->len;
}

static inline void wire_end(struct codec_buf *b, size_t start)
{
    size_t len = b->len - start;
    uint8_t varint[10];
    size_t n = 0;

    if (len < 0x80) {
        b->data[start - 1] = (uint8_t)len;
        return;
    }
    for (size_t rest = len; rest; rest >>= 7)
        varint[n++] = (uint8_t)(rest & 0x7f) | (rest > 0x7f ? 0x80 : 0);
    wire_reserve(b, n - 1);
    memmove(b->data + start - 1 + n, b->data + start, len);
    memcpy(b->data + start - 1, varint, n);
    b->len += n - 1;
}

static inline void wire_put_bytes(struct codec_buf *b, uint32_t tag, const void *data, size_t len)
{
    wire_put_tag(b, PB_WT_STRING, tag);
    wire_put_varint(b, len);
    wire_put_raw(b, data, len);
}

/* A field of type string. Readers refuse bytes that are not UTF-8, so those become '?'. */
static inline void wire_put_text(struct codec_buf *b, uint32_t tag, const void *data, size_t len)
{
    wire_put_bytes(b, tag, data, len);
    utf8_mend(b->data + b->len - len, len);
}

/* ---- Reading: false means malformed ---- */

/* The bytes that are left. */
struct wire {
    const uint8_t *p, *end;
};

static inline struct wire wire_of(const void *data, size_t len)
{
    const uint8_t *p = len ? data : (const uint8_t *)"";
    return (struct wire){p, p + len};
}

static inline size_t wire_left(const struct wire *s) { return (size_t)(s->end - s->p); }

static inline bool wire_read_varint(struct wire *s, uint64_t *v)
{
    *v = 0;
    for (unsigned shift = 0; s->p < s->end; shift += 7) {
        uint8_t byte = *s->p++;

        if (shift == 63 && byte > 1) /* more than 64 bits */
            return false;
        *v |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

static inline bool wire_read_fixed64(struct wire *s, uint64_t *v)
{
    *v = 0;
    if (wire_left(s) < 8)
        return false;
    for (int i = 0; i < 8; i++)
        *v |= (uint64_t)*s->p++ << 8 * i;
    return true;
}

static inline bool wire_read_bytes(struct wire *s, void *to, size_t n)
{
    if (wire_left(s) < n)
        return false;
    if (n)
        memcpy(to, s->p, n);
    s->p += n;
    return true;
}

/* Reads the next field's tag; false at the end (*eof), or if there is none. */
static inline bool wire_read_tag(struct wire *s, pb_wire_type_t *wire, uint32_t *number, bool *eof)
{
    uint64_t v;

    *eof = s->p == s->end;
    if (*eof || !wire_read_varint(s, &v) || v > UINT32_MAX)
        return false;
    *wire = (pb_wire_type_t)(v & 7);
    *number = (uint32_t)v >> 3;
    return true;
}

/* Reads a part that has a length. */
static inline bool wire_read_part(struct wire *s, struct wire *part)
{
    uint64_t len;

    if (!wire_read_varint(s, &len) || len > wire_left(s))
        return false;
    *part = (struct wire){s->p, s->p + len};
    s->p += len;
    return true;
}

static inline bool wire_skip(struct wire *s, pb_wire_type_t wire)
{
    struct wire part;
    uint64_t v;
    uint8_t word[4];

    switch ((int)wire) {
    case PB_WT_VARINT:
        return wire_read_varint(s, &v);
    case PB_WT_64BIT:
        return wire_read_fixed64(s, &v);
    case PB_WT_STRING:
        return wire_read_part(s, &part);
    case PB_WT_32BIT:
        return wire_read_bytes(s, word, sizeof word);
    default:
        return false;
    }
}

/* One field of a message that is read field by field: its number, and its value in one of two forms. */
struct wire_field {
    uint32_t tag;
    bool is_bytes;
    uint64_t number;
    struct span bytes;
};

/* 1: the next field; 0: the end; HAWK_EMALFORMED. A field of another form is skipped, and has tag 0. */
static inline int wire_next(struct wire *s, struct wire_field *f)
{
    pb_wire_type_t wire;
    struct wire part;
    bool eof;

    *f = (struct wire_field){0};
    if (!wire_read_tag(s, &wire, &f->tag, &eof))
        return eof ? 0 : HAWK_EMALFORMED;
    f->is_bytes = wire == PB_WT_STRING;
    if (wire == PB_WT_VARINT)
        return wire_read_varint(s, &f->number) ? 1 : HAWK_EMALFORMED;
    if (wire != PB_WT_STRING) {
        f->tag = 0;
        return wire_skip(s, wire) ? 1 : HAWK_EMALFORMED;
    }
    if (!wire_read_part(s, &part))
        return HAWK_EMALFORMED;
    f->bytes = (struct span){part.p, wire_left(&part)};
    return 1;
}

#endif
