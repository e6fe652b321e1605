/* The counting of HTTP/2 frames: each rule, up to its limit and one beyond, whatever the pieces the bytes come in. */
#include "net/frames.h"

#include "base/units.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    DATA,
    HEADERS,
    PRIORITY,
    RST_STREAM,
    SETTINGS,
    PUSH_PROMISE,
    PING,
    GOAWAY,
    WINDOW_UPDATE,
    CONTINUATION
};
#define END_STREAM 1
#define END_HEADERS 4
#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

static struct frames f;
static int64_t now_us;
static size_t piece = SIZE_MAX; /* bytes come in pieces of at most so many */

static bool feed(const uint8_t *p, size_t n)
{
    bool good = true;

    for (size_t at = 0; at < n && good; at += piece < n - at ? piece : n - at)
        good = frames_in(&f, p + at, piece < n - at ? piece : n - at, now_us);
    return good;
}

static size_t encode(uint8_t *buf, uint8_t type, uint8_t flags, uint32_t stream, uint32_t len)
{
    const uint8_t head[9] = {
        (uint8_t)(len >> 16),    (uint8_t)(len >> 8),     (uint8_t)len,           type,           flags,
        (uint8_t)(stream >> 24), (uint8_t)(stream >> 16), (uint8_t)(stream >> 8), (uint8_t)stream};

    memcpy(buf, head, 9);
    memset(buf + 9, 0, len); /* DATA: empty messages */
    return 9 + len;
}

static bool in(uint8_t type, uint8_t flags, uint32_t stream, uint32_t len)
{
    static uint8_t buf[9 + (1 << 17)];

    return feed(buf, encode(buf, type, flags, stream, len));
}

static void out(uint8_t type, uint8_t flags, uint32_t stream, uint32_t len)
{
    static uint8_t buf[9 + (1 << 17)];
    size_t n = encode(buf, type, flags, stream, len);

    for (size_t at = 0; at < n; at += piece < n - at ? piece : n - at)
        frames_out(&f, buf + at, piece < n - at ? piece : n - at);
}

static void begin(bool proven)
{
    frames_free(&f);
    memset(&f, 0, sizeof f);
    now_us = US_PER_S;
    f.proven = proven;
    assert_true(feed((const uint8_t *)PREFACE, strlen(PREFACE)));
    assert_true(in(SETTINGS, 0, 0, 12));
    assert_true(f.settings);
}

static void broken(enum frames_rule rule)
{
    assert_int_equal(f.broken, rule);
    assert_false(in(SETTINGS, 1, 0, 0)); /* once broken, nothing passes */
    assert_true(*frames_rule_text(rule));
}

static void test_preface(void **state)
{
    begin(false);
    memset(&f, 0, sizeof f);
    assert_false(feed((const uint8_t *)"PRI * HTTP/1", 12));
    assert_int_equal(f.broken, BROKEN_PREFACE);
    begin(false);
    memset(&f, 0, sizeof f);
    assert_true(feed((const uint8_t *)PREFACE, strlen(PREFACE)));
    assert_false(in(PING, 0, 0, 8));
    broken(BROKEN_ORDER);
}

static void test_open_streams(void **state)
{
    for (int proven = 0; proven < 2; proven++) {
        const uint32_t limit = proven ? FRAMES_STREAMS : FRAMES_STREAMS_UNPROVEN;
        begin(proven);
        for (uint32_t i = 0; i < limit; i++)
            assert_true(in(HEADERS, END_HEADERS, 2 * i + 1, 5));
        assert_int_equal(f.streams_n, limit);
        assert_false(in(HEADERS, END_HEADERS, 2 * limit + 1, 5));
        broken(BROKEN_STREAMS);
    }
}

/* Stream 0 is the connection: no frame of it opens or ends anything, whatever the streams' table marks free
 * places with. */
static void test_stream_zero(void **state)
{
    static const uint8_t types[] = {DATA, RST_STREAM, HEADERS};

    for (size_t i = 0; i < sizeof types; i++) {
        begin(false);
        for (uint32_t id = 1; id < 16; id += 2)
            assert_true(in(HEADERS, END_HEADERS, id, 5));
        for (int type = DATA; type <= CONTINUATION; type++)
            out((uint8_t)type, END_STREAM, 0, 4);
        assert_int_equal(f.streams_n, 8);
        assert_false(in(types[i], END_STREAM | END_HEADERS, 0, 4));
        assert_int_equal(f.streams_n, 8);
        broken(BROKEN_ORDER);
    }
}

/* The first bit of a stream's number is reserved, and ignored. */
static void test_reserved_bit(void **state)
{
    begin(false);
    assert_true(in(HEADERS, END_HEADERS, 1u << 31 | 1, 5));
    for (uint32_t i = 1; i < FRAMES_STREAMS_UNPROVEN; i++)
        assert_true(in(HEADERS, END_HEADERS, 2 * i + 1, 5));
    assert_int_equal(f.streams_n, FRAMES_STREAMS_UNPROVEN);
    assert_false(in(HEADERS, END_HEADERS, 2 * FRAMES_STREAMS_UNPROVEN + 1, 5));
    broken(BROKEN_STREAMS);
}

/* A stream is open until both sides ended it, or one reset it; any number may follow one another. */
static void test_streams_end(void **state)
{
    begin(true);
    for (uint32_t i = 0, id = 1; i < 4 * FRAMES_STREAMS; i++, id += 2) {
        assert_true(in(HEADERS, END_HEADERS, id, 5));
        switch (i % 4) {
        case 0: /* the usual call */
            assert_true(in(DATA, END_STREAM, id, 7));
            out(HEADERS, END_HEADERS, id, 3);
            out(DATA, 0, id, 7);
            out(HEADERS, END_HEADERS | END_STREAM, id, 9);
            break;
        case 1: /* refused at once */
            out(HEADERS, END_HEADERS | END_STREAM, id, 9);
            assert_int_equal(f.streams_n, 1);
            out(RST_STREAM, 0, id, 4);
            assert_true(in(RST_STREAM, 0, id, 4)); /* which the client has not heard yet */
            break;
        case 2: /* a watch that is left */
            out(HEADERS, END_HEADERS, id, 9);
            assert_true(in(RST_STREAM, 0, id, 4));
            break;
        default: /* trailers */
            out(HEADERS, END_HEADERS, id, 9);
            out(DATA, END_STREAM, id, 0);
            assert_true(in(DATA, END_STREAM, id, 0));
        }
        assert_int_equal(f.streams_n, 0);
    }
    assert_int_equal(f.control.spent, 1); /* SETTINGS */
    assert_int_equal(f.resets.spent, 0);
}

static void test_many_open_in_any_order(void **state)
{
    begin(true);
    for (uint32_t i = 0; i < 5000; i++)
        assert_true(in(HEADERS, END_HEADERS | END_STREAM, 2 * i + 1, 5));
    for (uint32_t i = 0; i < 5000; i++)
        out(DATA, END_STREAM, 2 * (i * 1237 % 5000) + 1, 5);
    assert_int_equal(f.streams_n, 0);
    for (uint32_t i = 0; i < f.streams_cap; i++)
        assert_false(((uint32_t *)(void *)f.streams)[4 * (size_t)i]);
}

static void test_opened_before_a_call_was_accepted(void **state)
{
    uint32_t id = 1;

    begin(false);
    for (uint32_t i = 0; i < FRAMES_OPENED_BURST; i++, id += 2) {
        assert_true(in(HEADERS, END_HEADERS, id, 5));
        out(RST_STREAM, 0, id, 4);
    }
    now_us += US_PER_S;
    for (uint32_t i = 0; i < FRAMES_OPENED_RATE; i++, id += 2) {
        assert_true(in(HEADERS, END_HEADERS, id, 5));
        out(RST_STREAM, 0, id, 4);
    }
    assert_false(in(HEADERS, END_HEADERS, id, 5));
    broken(BROKEN_OPENED);
}

static void test_strict(void **state)
{
    begin(false);
    frames_strict(&f);
    for (uint32_t i = 0; i < FRAMES_OPENED_STRICT; i++)
        assert_true(in(HEADERS, END_HEADERS, 2 * i + 1, 5));
    assert_false(in(HEADERS, END_HEADERS, 2 * FRAMES_OPENED_STRICT + 1, 5));
    broken(BROKEN_OPENED);
}

static bool open_and_reset(uint32_t *id)
{
    *id += 2;
    return in(HEADERS, END_HEADERS, *id, 5) && in(RST_STREAM, 0, *id, 4);
}

static void test_resets(void **state)
{
    uint32_t id = 1;

    begin(true);
    for (uint32_t i = 0; i < FRAMES_RESETS_BURST; i++)
        assert_true(open_and_reset(&id));
    now_us += US_PER_S / 2;
    for (uint32_t i = 0; i < FRAMES_RESETS_RATE / 2; i++)
        assert_true(open_and_reset(&id));
    assert_false(open_and_reset(&id));
    broken(BROKEN_RESETS);
    begin(true); /* after a long time, no more than the burst again */
    for (uint32_t i = 0; i < FRAMES_RESETS_BURST; i++)
        assert_true(open_and_reset(&id));
    now_us += 3600 * US_PER_S;
    for (uint32_t i = 0; i < FRAMES_RESETS_BURST; i++)
        assert_true(open_and_reset(&id));
    assert_false(open_and_reset(&id));
}

static void test_header_block(void **state)
{
    begin(true);
    assert_true(in(HEADERS, 0, 1, FRAMES_HEADERS_MAX / 2));
    assert_true(in(CONTINUATION, END_HEADERS, 1, FRAMES_HEADERS_MAX / 2));
    assert_true(in(HEADERS, 0, 3, 15000));
    assert_true(in(CONTINUATION, 0, 3, FRAMES_HEADERS_MAX - 15000));
    assert_false(in(CONTINUATION, 0, 3, 1));
    broken(BROKEN_HEADERS);
    begin(true);
    assert_true(in(HEADERS, 0, 1, 5));
    assert_false(in(PING, 0, 0, 8));
    broken(BROKEN_ORDER);
    begin(true);
    assert_false(in(CONTINUATION, 0, 1, 5));
    broken(BROKEN_ORDER);
    begin(true);
    assert_true(in(HEADERS, 0, 1, 5));
    assert_false(in(CONTINUATION, END_HEADERS, 3, 5));
    broken(BROKEN_ORDER);
    begin(true);
    assert_false(in(HEADERS, END_HEADERS, 2, 5));
    broken(BROKEN_ORDER);
}

/* What carries nothing: as many as the burst, SETTINGS of the beginning among them. */
static void test_control(void **state)
{
    static const struct {
        uint8_t type;
        uint32_t stream, len, earned;
    } kinds[] = {{PING, 0, 8, 0},         {SETTINGS, 0, 6, 0}, {PRIORITY, 1, 5, 0},      {200, 0, 0, 0},
                 {DATA, 1, 0, 1},         {DATA, 1, 5, 1},     {RST_STREAM, 9999, 4, 0}, {GOAWAY, 0, 8, 0},
                 {PUSH_PROMISE, 1, 4, 0}, {DATA, 77, 4, 0},    {CONTINUATION, 1, 0, 0},  {HEADERS, 1, 0, 0}};

    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        uint8_t flags = kinds[k].type == HEADERS ? END_HEADERS : 0;
        begin(true);
        assert_true(in(HEADERS, kinds[k].type == CONTINUATION ? 0 : END_HEADERS, 1, 5));
        for (uint32_t i = 1; i < FRAMES_CONTROL_BURST + kinds[k].earned; i++)
            assert_true(in(kinds[k].type, flags, kinds[k].stream, kinds[k].len));
        assert_false(in(kinds[k].type, flags, kinds[k].stream, kinds[k].len));
        broken(BROKEN_CONTROL);
    }
}

/* Sends so many frames that pass, and one that breaks the rule of frames that carry nothing. */
static void control_ends(uint32_t passing, uint8_t type, uint8_t flags, uint32_t stream, uint32_t len)
{
    for (uint32_t i = 0; i < passing; i++)
        assert_true(in(type, flags, stream, len));
    assert_false(in(type, flags, stream, len));
    broken(BROKEN_CONTROL);
}

/* A connection that has shown nothing yet needs few of them. */
static void test_control_before_a_call_was_accepted(void **state)
{
    begin(false);
    control_ends(FRAMES_CONTROL_UNPROVEN - 1, PING, 0, 0, 8);
    begin(false);
    for (uint32_t i = 0; i < FRAMES_WINDOWS_UNPROVEN; i++)
        assert_true(in(WINDOW_UPDATE, 0, 0, 4));
    assert_false(in(WINDOW_UPDATE, 0, 0, 4));
    broken(BROKEN_WINDOWS);
}

/* Of a call that the daemon refused, one last frame of data and one reset may still be on their way. */
static void test_data_of_a_call_that_is_over(void **state)
{
    for (int proven = 0; proven < 2; proven++) {
        const uint32_t burst = proven ? FRAMES_CONTROL_BURST : FRAMES_CONTROL_UNPROVEN;
        for (uint32_t len = 0; len <= (proven ? 5 : 5000); len += 5) {
            begin(proven);
            assert_true(in(HEADERS, END_HEADERS, 1, 5));
            out(HEADERS, END_HEADERS | END_STREAM, 1, 9);
            out(RST_STREAM, 0, 1, 4);
            assert_true(in(RST_STREAM, 0, 1, 4));
            control_ends(burst, DATA, END_STREAM, 1, len);
            begin(proven);
            assert_true(in(HEADERS, END_HEADERS, 1, 5));
            out(RST_STREAM, 0, 1, 4);
            assert_true(in(DATA, END_STREAM, 1, len));
            control_ends(burst, RST_STREAM, 0, 1, 4);
            begin(proven);
            assert_true(in(HEADERS, END_HEADERS | END_STREAM, 1, 5)); /* that was the last */
            out(RST_STREAM, 0, 1, 4);
            control_ends(burst - 1, DATA, END_STREAM, 1, len);
        }
    }
    begin(true); /* a large request goes on until its client has heard of it */
    assert_true(in(HEADERS, END_HEADERS, 1, 5));
    out(RST_STREAM, 0, 1, 4);
    for (uint32_t i = 0; i < 2 * FRAMES_SMALL_BURST; i++)
        assert_true(in(DATA, 0, 1, FRAMES_SMALL_BYTES));
}

static void test_data_behind_the_clients_end(void **state)
{
    begin(true);
    assert_true(in(HEADERS, END_HEADERS, 1, 5));
    assert_true(in(DATA, END_STREAM, 1, 0));
    control_ends(FRAMES_CONTROL_BURST - 1, DATA, END_STREAM, 1, 5000);
}

static void test_unanswered_requests(void **state)
{
    begin(true);
    for (uint32_t id = 1; id < 9; id += 2)
        assert_true(in(HEADERS, END_HEADERS, id, 5));
    assert_int_equal(f.unanswered, 0);
    for (uint32_t id = 1; id < 9; id += 2) {
        assert_true(in(DATA, 0, id, 2000));
        assert_true(in(DATA, END_STREAM, id, 2000));
    }
    assert_int_equal(f.unanswered, 4);
    out(HEADERS, END_HEADERS, 1, 5);
    out(DATA, END_STREAM, 1, 5);
    assert_int_equal(f.unanswered, 3);
    out(RST_STREAM, 0, 3, 4);
    assert_int_equal(f.unanswered, 2);
    assert_true(in(RST_STREAM, 0, 5, 4));
    assert_int_equal(f.unanswered, 1);
    out(DATA, END_STREAM, 7, 5);
    assert_int_equal(f.unanswered, 0);
    assert_int_equal(f.streams_n, 0);
}

/* The request of a call may be empty: of each stream one message is free. */
static void test_empty_messages(void **state)
{
    begin(true);
    for (uint32_t id = 1; id < 8 * FRAMES_CONTROL_BURST; id += 2) {
        assert_true(in(HEADERS, END_HEADERS, id, 5));
        assert_true(in(DATA, 0, id, 5));
        assert_true(in(DATA, END_STREAM, id, 0));
        out(HEADERS, END_HEADERS | END_STREAM, id, 9);
    }
    assert_int_equal(f.control.spent, 1); /* SETTINGS */
    assert_true(in(HEADERS, END_HEADERS, 100001, 5));
    control_ends(FRAMES_CONTROL_BURST, DATA, 0, 100001, 5);
}

/* Messages in frames of their own: so many, and some for each that the daemon sends. */
static void test_small_messages(void **state)
{
    begin(true);
    assert_true(in(HEADERS, END_HEADERS, 1, 5));
    for (uint32_t i = 0; i < 2 * FRAMES_SMALL_BURST; i++)
        assert_true(in(DATA, 0, 1, FRAMES_SMALL_BYTES));
    for (uint32_t i = 0; i < FRAMES_SMALL_BURST; i++) {
        out(DATA, 0, 1, 20);
        for (uint32_t k = 0; k < FRAMES_SMALL_PER_DATA; k++)
            assert_true(in(DATA, 0, 1, 7));
    }
    for (uint32_t i = 0; i < FRAMES_SMALL_BURST + 1; i++)
        assert_true(in(DATA, 0, 1, i % 2 ? 6 : FRAMES_SMALL_BYTES - 1));
    assert_false(in(DATA, 0, 1, 7));
    broken(BROKEN_SMALL);
    begin(true);
    frames_strict(&f);
    assert_true(in(HEADERS, END_HEADERS, 1, 5));
    for (uint32_t i = 0; i < FRAMES_SMALL_STRICT + 1; i++)
        assert_true(in(DATA, 0, 1, 7));
    assert_false(in(DATA, 0, 1, 7));
}

/* Opens n streams more on the connection. */
static bool open_more(uint32_t n, struct frames_bucket *all)
{
    for (uint32_t i = 0; i < n; i++)
        assert_true(in(HEADERS, END_HEADERS, f.last + (f.last ? 2 : 1), 5));
    return frames_share(&f, all, now_us);
}

/* Connection after connection: the first streams of each are free, the others are few together, until a call
 * is accepted. */
static void test_what_unproven_connections_share(void **state)
{
    const uint32_t each = 512;
    struct frames_bucket all = {0};

    for (uint32_t n = 0; n < FRAMES_SHARED_BURST / each; n++) {
        begin(false);
        assert_true(open_more(FRAMES_OPENED_FREE, &all));
        assert_int_equal(all.spent, n * each);
        assert_true(open_more(each, &all));
    }
    begin(false);
    assert_true(open_more(FRAMES_OPENED_FREE, &all));
    assert_false(open_more(1, &all));
    broken(BROKEN_SHARED);
    now_us += US_PER_S;
    begin(false);
    now_us = 2 * US_PER_S;
    assert_true(open_more(FRAMES_OPENED_FREE + FRAMES_SHARED_RATE, &all));
    assert_int_equal(all.spent, FRAMES_SHARED_BURST);
    frames_prove(&f, &all);
    assert_int_equal(all.spent, FRAMES_SHARED_BURST - FRAMES_SHARED_RATE);
    assert_true(open_more(2000, &all));
    assert_int_equal(all.spent, FRAMES_SHARED_BURST - FRAMES_SHARED_RATE);
}

/* Quiet time fills a bucket and no more: what was not used then is no second burst. */
static void test_quiet_time_is_no_credit(void **state)
{
    begin(true);
    assert_true(in(PING, 0, 0, 8));
    now_us += 3600 * US_PER_S;
    for (uint32_t i = 0; i < FRAMES_CONTROL_BURST; i++)
        assert_true(in(PING, 0, 0, 8));
    assert_false(in(PING, 0, 0, 8));
    broken(BROKEN_CONTROL);
}

/* Tokens come while others are left, too: never fewer than `rate` a second, nor more. */
static void test_tokens_come_all_the_time(void **state)
{
    struct frames_bucket b = {0};

    for (int64_t t = 1; t <= 9; t++) {
        assert_true(frames_take(&b, 10, 1, t * US_PER_S));
        assert_true(frames_take(&b, 10, 1, t * US_PER_S));
    }
    assert_int_equal(b.spent, 18 - 8);
}

static void test_tokens_come_at_every_rate(void **state)
{
    static const uint32_t rates[] = {1, 3, 600000, 999999, 1000001, 2000000, UINT32_MAX};

    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        const uint64_t burst = (uint64_t)rates[i] * 10;
        struct frames_bucket b = {.spent = burst, .at_us = US_PER_S};
        uint64_t taken = 0;
        for (uint64_t t = 7; t < 10 * US_PER_S; t += t < 7000 ? 7 : 999983) {
            taken += frames_take(&b, burst, rates[i], US_PER_S + (int64_t)t);
            assert_int_equal(b.spent, burst - t * rates[i] / US_PER_S + taken);
        }
        assert_true(frames_take(&b, burst, rates[i], INT64_MAX));
        assert_int_equal(b.spent, 1);
    }
}

static void test_what_a_guest_may_send(void **state)
{
    begin(false);
    f.guest = true;
    assert_true(in(HEADERS, END_HEADERS, 1, 5));
    assert_true(in(HEADERS, END_HEADERS, 3, 5));
    for (uint32_t left = FRAMES_GUEST_BYTES; left > 0; left -= FRAMES_GUEST_BYTES / 8)
        assert_true(in(DATA, 0, left % (FRAMES_GUEST_BYTES / 4) ? 1 : 3, FRAMES_GUEST_BYTES / 8));
    assert_false(in(DATA, 0, 1, 1));
    broken(BROKEN_GUEST);
    begin(false);
    assert_true(in(HEADERS, END_HEADERS, 1, 5));
    for (uint32_t i = 0; i < 9; i++) /* others may send more */
        assert_true(in(DATA, 0, 1, FRAMES_GUEST_BYTES / 8));
}

static void test_windows(void **state)
{
    begin(true);
    for (int i = 0; i < 1000; i++)
        out(DATA, 0, 1, 5);
    for (uint32_t i = 0; i < 1000 * FRAMES_WINDOWS_PER_DATA + FRAMES_WINDOWS_BURST; i++)
        assert_true(in(WINDOW_UPDATE, 0, 0, 4));
    assert_false(in(WINDOW_UPDATE, 0, 0, 4));
    broken(BROKEN_WINDOWS);
}

static void test_size(void **state)
{
    begin(true);
    assert_true(in(HEADERS, END_HEADERS, 1, 5));
    assert_true(in(DATA, 0, 1, FRAMES_PAYLOAD_MAX));
    assert_false(in(DATA, 0, 1, FRAMES_PAYLOAD_MAX + 1));
    broken(BROKEN_SIZE);
}

static void test_in_pieces(void **state)
{
    for (piece = 1; piece < 12; piece++) {
        begin(true);
        for (uint32_t id = 1; id < 100; id += 2) {
            assert_true(in(HEADERS, END_HEADERS, id, id));
            assert_true(in(DATA, END_STREAM, id, 3 * id));
            out(HEADERS, END_HEADERS, id, id);
            out(DATA, END_STREAM, id, id);
        }
        assert_int_equal(f.frames_in, 101);
        assert_int_equal(f.frames_out, 100);
        assert_int_equal(f.streams_n, 0);
    }
    piece = SIZE_MAX;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_preface),
        cmocka_unit_test(test_open_streams),
        cmocka_unit_test(test_streams_end),
        cmocka_unit_test(test_many_open_in_any_order),
        cmocka_unit_test(test_opened_before_a_call_was_accepted),
        cmocka_unit_test(test_strict),
        cmocka_unit_test(test_resets),
        cmocka_unit_test(test_header_block),
        cmocka_unit_test(test_control),
        cmocka_unit_test(test_control_before_a_call_was_accepted),
        cmocka_unit_test(test_data_of_a_call_that_is_over),
        cmocka_unit_test(test_data_behind_the_clients_end),
        cmocka_unit_test(test_unanswered_requests),
        cmocka_unit_test(test_empty_messages),
        cmocka_unit_test(test_small_messages),
        cmocka_unit_test(test_what_unproven_connections_share),
        cmocka_unit_test(test_quiet_time_is_no_credit),
        cmocka_unit_test(test_tokens_come_all_the_time),
        cmocka_unit_test(test_tokens_come_at_every_rate),
        cmocka_unit_test(test_what_a_guest_may_send),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_size),
        cmocka_unit_test(test_stream_zero),
        cmocka_unit_test(test_reserved_bit),
        cmocka_unit_test(test_in_pieces),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    frames_free(&f);
    return failed;
}
