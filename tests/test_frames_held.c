/* Unfinished messages: how long a message may be, and what of it counts until when. Whatever the pieces the bytes come
 * in. */
#include "net/frames.h"

#include "base/mem.h"
#include "base/units.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { DATA, HEADERS, RST_STREAM = 3, SETTINGS };
#define END_STREAM 1
#define END_HEADERS 4
#define PADDED 8
#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define FULL FRAMES_PAYLOAD_MAX /* the payload of a full frame */

static struct frames f;
static size_t piece; /* bytes come in pieces of at most so many */

static bool feed(const uint8_t *p, size_t n)
{
    bool good = true;

    for (size_t at = 0; at < n && good; at += piece < n - at ? piece : n - at)
        good = frames_in(&f, p + at, piece < n - at ? piece : n - at, US_PER_S);
    return good;
}

static size_t head(uint8_t *buf, uint8_t type, uint8_t flags, uint32_t stream, size_t len)
{
    const uint8_t h[9] = {
        (uint8_t)(len >> 16),    (uint8_t)(len >> 8),     (uint8_t)len,           type,           flags,
        (uint8_t)(stream >> 24), (uint8_t)(stream >> 16), (uint8_t)(stream >> 8), (uint8_t)stream};

    memcpy(buf, h, sizeof h);
    return sizeof h;
}

static bool in(uint8_t type, uint8_t flags, uint32_t stream, const void *payload, size_t len)
{
    static uint8_t buf[9 + FULL];
    size_t n = head(buf, type, flags, stream, len);

    memcpy(buf + n, payload, len);
    return feed(buf, n + len);
}

static bool data(uint8_t flags, uint32_t stream, const void *payload, size_t len)
{
    return in(DATA, flags, stream, payload, len);
}

/* n bytes of a message. */
static bool body(uint8_t flags, uint32_t stream, size_t n)
{
    static const uint8_t bytes[FULL];

    return data(flags, stream, bytes, n);
}

static bool prefix(uint32_t stream, uint32_t len)
{
    const uint8_t p[] = {0, (uint8_t)(len >> 24), (uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len};

    return data(0, stream, p, sizeof p);
}

static void out(uint8_t type, uint8_t flags, uint32_t stream)
{
    uint8_t buf[9];

    frames_out(&f, buf, head(buf, type, flags, stream, 0));
}

/* Streams 1, 3 and 5 are open. */
static void begin(void)
{
    frames_free(&f);
    memset(&f, 0, sizeof f);
    f.proven = true;
    assert_true(feed((const uint8_t *)PREFACE, strlen(PREFACE)));
    assert_true(in(SETTINGS, 0, 0, "", 0));
    for (uint32_t id = 1; id < 7; id += 2)
        assert_true(in(HEADERS, END_HEADERS, id, "", 0));
}

static void holds(size_t n) { assert_int_equal(f.held, n); }

static void a_message_counts_until_it_is_whole(void)
{
    begin();
    assert_true(data(0, 1,
                     "\0\0\0\0\x9"
                     "1234",
                     9));
    holds(4);
    assert_true(body(0, 3, 0));
    assert_true(data(0, 3, "\0\0", 2));
    holds(4);
    assert_true(body(0, 3, 0));
    assert_true(data(0, 3, "\0\1\0", 3)); /* a prefix in two frames, with others between: 256 */
    assert_true(body(0, 3, 255));
    holds(4 + 255);
    assert_true(body(0, 1, 4));
    holds(8 + 255);
    assert_true(body(0, 3, 1));
    holds(8);
    /* the last byte; two whole messages, an empty one, and the beginning of another */
    assert_true(data(0, 1,
                     "5\0\0\0\0\1x\0\0\0\0\2xx\0\0\0\0\0\0\0\0\1\0"
                     "abc",
                     27));
    holds(3);
    assert_true(body(END_STREAM, 1, 200)); /* no more of it will come */
    holds(0);
}

static void a_message_has_a_largest_length(void)
{
    static const uint8_t lengths[][4] = {{6, 0x40, 0, 1}, {0xff, 0xff, 0xff, 0xff}, {0x78, 0, 0, 0}};

    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        uint8_t bytes[] = {0, 0, 0, 0, 1, 'x', 0, lengths[i][0], lengths[i][1], lengths[i][2], lengths[i][3]};
        begin();
        assert_true(prefix(1, FRAMES_MESSAGE_MAX));
        assert_true(data(0, 3, bytes, sizeof bytes - 1));
        assert_false(data(0, 3, bytes + sizeof bytes - 1, 1));
        assert_int_equal(f.broken, BROKEN_MESSAGE);
        assert_int_equal(f.limit, FRAMES_MESSAGE_MAX);
        begin();
        assert_false(data(END_STREAM, 3, bytes, sizeof bytes));
        assert_int_equal(f.broken, BROKEN_MESSAGE);
    }
}

static void a_largest_message_may_come(void)
{
    begin();
    assert_true(prefix(1, FRAMES_MESSAGE_MAX));
    for (uint32_t left = FRAMES_MESSAGE_MAX; left > 0; left -= FULL) {
        holds(FRAMES_MESSAGE_MAX - left);
        assert_true(body(0, 1, FULL));
    }
    holds(0);
}

static void padding_is_no_message(void)
{
    begin();
    assert_true(data(PADDED, 1, "\3\0\0\0\0\7ab\xff\xff\xff", 11));
    holds(2);
    assert_true(data(PADDED, 1, "\2\xff\xff", 3));
    assert_true(data(PADDED, 1, "\0cd", 3));
    holds(4);
    assert_true(data(0, 1, "efg", 3));
    holds(0);
    assert_true(body(PADDED, 1, 0));
    assert_false(data(PADDED, 1, "\3\xff\xff", 3));
    assert_int_equal(f.broken, BROKEN_ORDER);
}

/* gRPC lets go of a message when the frame that ends its stream has come whole, or when it ends the stream itself. */
static void what_ends_a_stream_frees_its_message(void)
{
    uint8_t buf[9 + 4] = {0};

    for (int i = 0; i < 4; i++) {
        begin();
        for (uint32_t id = 1; id < 7; id += 2)
            assert_true(prefix(id, 1000) && body(0, id, 100));
        holds(300);
        switch (i) {
        case 0: /* the client resets it */
            (void)head(buf, RST_STREAM, 0, 1, 4);
            assert_true(feed(buf, 12));
            holds(300);
            assert_true(feed(buf + 12, 1));
            break;
        case 1: /* the client ends it */
            (void)head(buf, DATA, END_STREAM, 1, 4);
            assert_true(feed(buf, 12));
            holds(303);
            assert_true(feed(buf + 12, 1));
            break;
        case 2:
            out(HEADERS, END_STREAM | END_HEADERS, 1);
            out(RST_STREAM, 0, 1);
            assert_true(body(0, 1, 1000)); /* the server knows of it no more */
            break;
        default: /* its trailers: the server answers them */
            assert_true(in(HEADERS, END_STREAM | END_HEADERS, 1, "", 0));
            holds(300);
            out(HEADERS, END_STREAM | END_HEADERS, 1);
        }
        holds(200);
    }
}

/* The server ends the stream between two pieces of a frame. */
static void a_stream_may_end_within_a_frame(void)
{
    uint8_t buf[9 + 10] = {0};

    begin();
    assert_true(prefix(1, 1000));
    (void)head(buf, DATA, 0, 1, 10);
    assert_true(feed(buf, 12));
    holds(3);
    out(RST_STREAM, 0, 1);
    holds(0);
    assert_true(feed(buf + 12, 7));
    assert_true(prefix(3, 1000) && body(0, 3, 10));
    holds(10);
}

static void in_pieces(void **state)
{
    static const size_t pieces[] = {SIZE_MAX, 1, 2, 3, 7, 11, 4096};

    (void)state;
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        piece = pieces[i];
        a_message_counts_until_it_is_whole();
        a_message_has_a_largest_length();
        padding_is_no_message();
        what_ends_a_stream_frees_its_message();
        a_stream_may_end_within_a_frame();
    }
    piece = SIZE_MAX;
    a_largest_message_may_come();
}

/* ---- What all connections hold ---- */

/* A connection of the user now holds so much. */
static bool hold(struct frames *c, struct frames_held *all, uint32_t user, size_t n)
{
    frames_plain_holds(c, n);
    return frames_hold(c, all, user);
}

static void a_user_leaves_room_for_others(void **state)
{
    const size_t half = FRAMES_HELD_MAX / 2;
    struct frames_held *all = xcalloc(1, sizeof *all);
    struct frames a = {0}, more = {0}, b = {0}, c = {0};

    (void)state;
    assert_true(2 * (size_t)FRAMES_MESSAGE_MAX <= half);
    assert_true(hold(&a, all, 1, half - 10)); /* half, on two connections */
    assert_true(hold(&more, all, 1, 10));
    assert_false(hold(&more, all, 1, 11));
    assert_int_equal(more.broken, BROKEN_HELD);
    assert_true(hold(&more, all, 1, 0)); /* it is cut */
    assert_true(hold(&a, all, 1, half));
    assert_true(hold(&b, all, 2, FRAMES_MESSAGE_MAX)); /* the next one has room for a largest message */
    assert_true(hold(&c, all, 3, FRAMES_MESSAGE_MAX / 2));
    assert_int_equal(all->all, half + FRAMES_MESSAGE_MAX + FRAMES_MESSAGE_MAX / 2);
    assert_true(hold(&a, all, 1, half - 1)); /* less is never too much, however much it is */
    assert_false(hold(&a, all, 1, half));
    assert_true(hold(&a, all, 1, 0) && hold(&b, all, 2, 0) && hold(&c, all, 3, 0));
    assert_int_equal(all->all, 0);
    for (uint32_t i = 0; i < FRAMES_USERS; i++)
        assert_int_equal(all->users[i], 0);
    free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_pieces),
        cmocka_unit_test(a_user_leaves_room_for_others),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    frames_free(&f);
    return failed;
}
