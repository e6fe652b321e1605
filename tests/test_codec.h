/* Encoding by hand and decoding whole batches: for test_codec.c and test_codec_damage.c. */
#ifndef HAWK_TESTS_TEST_CODEC_H
#define HAWK_TESTS_TEST_CODEC_H

#include "base/mem.h"
#include "cluster.pb.h"
#include "hawk.pb.h"
#include "net/codec.h"
#include "tests/lib/random_msg.h"

#include <pb_decode.h>
#include <pb_encode.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- Helpers ---- */

/* Takes references on what is delivered. */
struct received {
    struct msg *v;
    uint32_t n, cap;
    uint32_t stop_after; /* 0: never */
};

static bool receive(void *arg, const struct msg *m)
{
    struct received *r = arg;

    vec_grow(r->v, r->n, r->cap);
    msg_ref(m);
    r->v[r->n++] = *m;
    return r->n != r->stop_after;
}

static void received_free(struct received *r)
{
    for (uint32_t i = 0; i < r->n; i++)
        msg_drop(&r->v[i]);
    free(r->v);
    *r = (struct received){0};
}

static void encode(struct codec_buf *b, const struct msg *m) { assert_int_equal(codec_encode(b, m), 0); }

/* Decodes and forgets; the result. */
static int decode_only(const void *data, size_t len, struct codec_report *report)
{
    struct received got = {0};
    int err = codec_decode(data, len, receive, &got, report);

    received_free(&got);
    return err;
}

static void raw(struct codec_buf *b, const void *data, size_t n)
{
    while (b->cap < b->len + n) {
        b->cap = b->cap ? 2 * b->cap : 64;
        b->data = xrealloc(b->data, b->cap);
    }
    if (n)
        memcpy(b->data + b->len, data, n);
    b->len += n;
}

#define FOR_ALL_TYPES(type) for (enum msg_type type = MSG_NONE + 1; type < MSG_WIRE_END; type++)

#endif
