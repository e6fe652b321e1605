/* Protobuf fields: see wire.h. */
#include "store/wire.h"

#include "base/check.h"

#include <pb_decode.h>
#include <pb_encode.h>
#include <string.h>

struct span span_text(const char *text) { return (struct span){(const uint8_t *)text, strlen(text)}; }

bool span_equals(struct span s, const char *text)
{
    return s.len == strlen(text) && memcmp(s.data, text, s.len) == 0;
}

/* ---- Writing: into a buffer that grows it cannot fail ---- */

static bool append(pb_ostream_t *s, const pb_byte_t *data, size_t n)
{
    codec_buf_append(s->state, data, n);
    return true;
}

static pb_ostream_t stream_to(struct codec_buf *b)
{
    return (pb_ostream_t){.callback = append, .state = b, .max_size = SIZE_MAX};
}

void wire_put_number(struct codec_buf *b, uint32_t tag, uint64_t v)
{
    pb_ostream_t s = stream_to(b);

    if (v)
        CHECK(pb_encode_tag(&s, PB_WT_VARINT, tag) && pb_encode_varint(&s, v));
}

void wire_put_bytes(struct codec_buf *b, uint32_t tag, struct span v)
{
    pb_ostream_t s = stream_to(b);

    CHECK(pb_encode_tag(&s, PB_WT_STRING, tag) && pb_encode_string(&s, v.data, v.len));
}

/* ---- Reading ---- */

static int next(pb_istream_t *s, const uint8_t *end, struct wire_field *f)
{
    pb_wire_type_t wire;
    uint64_t len;
    bool eof;

    if (!pb_decode_tag(s, &wire, &f->tag, &eof))
        return eof ? 0 : HAWK_EMALFORMED;
    f->is_bytes = wire == PB_WT_STRING;
    if (wire == PB_WT_VARINT)
        return pb_decode_varint(s, &f->number) ? 1 : HAWK_EMALFORMED;
    if (wire != PB_WT_STRING)
        return pb_skip_field(s, wire) ? 1 : HAWK_EMALFORMED;
    if (!pb_decode_varint(s, &len) || len > s->bytes_left)
        return HAWK_EMALFORMED;
    f->bytes = (struct span){end - s->bytes_left, (size_t)len};
    return pb_read(s, NULL, (size_t)len) ? 1 : HAWK_EMALFORMED;
}

int wire_next(struct span *rest, struct wire_field *f)
{
    pb_istream_t s = pb_istream_from_buffer(rest->data, rest->len);
    const uint8_t *end = rest->data + rest->len;
    int got;

    *f = (struct wire_field){0};
    got = next(&s, end, f);
    *rest = (struct span){end - s.bytes_left, s.bytes_left};
    return got;
}
