/* What connections send and servers answer, as pieces of bytes: whatever the pieces, the frames are counted
 * the same, and what is counted stays within its limits. The first byte says whether the connection is
 * proven; then each piece has a byte for its direction and the time that passed, and one for its length. */
#include "base/check.h"
#include "base/units.h"
#include "net/frames.h"
#include "tests/fuzz/lib/input.h"

#include <stdint.h>
#include <string.h>

static void check(const struct frames *f)
{
    uint32_t n = 0;
    size_t held = 0;

    CHECK(f->streams_n <= (f->proven ? FRAMES_STREAMS : FRAMES_STREAMS_UNPROVEN));
    CHECK(2 * f->streams_n <= f->streams_cap);
    for (uint32_t i = 0; i < f->streams_cap; i++) {
        const uint32_t *s = (const uint32_t *)(const void *)f->streams + 4 * (size_t)i;
        n += s[0] != 0;
        held += s[0] ? s[3] : 0;
    }
    CHECK(n == f->streams_n && f->held == held + f->held_by_reset);
    CHECK(f->held <= FRAMES_MESSAGE_MAX * (size_t)(n + 1));
    CHECK(f->broken != BROKEN_NONE || f->block_bytes <= FRAMES_HEADERS_MAX);
    CHECK(f->unanswered <= f->streams_n && f->to_share <= f->opened_n);
    CHECK(f->proven || f->control.spent <= FRAMES_CONTROL_UNPROVEN);
    CHECK(f->resets.spent <= FRAMES_RESETS_BURST && f->control.spent <= FRAMES_CONTROL_BURST);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    struct frames whole = {0}, parts = {0};
    int64_t now_us = US_PER_S;

    if (size == 0)
        return 0;
    whole.proven = parts.proven = data[0] & 1;
    if (data[0] & 2) { /* otherwise the input has it, or not */
        CHECK(frames_in(&whole, (const uint8_t *)preface, strlen(preface), now_us));
        CHECK(frames_in(&parts, (const uint8_t *)preface, strlen(preface), now_us));
    }
    for (size_t at = 1; at + 2 <= size && whole.broken == BROKEN_NONE;) {
        const bool out = data[at] & 1;
        const size_t n = data[at + 1] < size - at - 2 ? data[at + 1] : size - at - 2;
        const uint8_t *p = data + at + 2;
        now_us += (data[at] >> 1) * US_PER_MS;
        if (out)
            frames_out(&whole, p, n);
        else
            (void)frames_in(&whole, p, n, now_us);
        for (size_t i = 0; i < n; i++) {
            if (out)
                frames_out(&parts, p + i, 1);
            else
                (void)frames_in(&parts, p + i, 1, now_us);
        }
        check(&whole);
        check(&parts);
        CHECK(whole.broken == parts.broken && whole.streams_n == parts.streams_n && whole.last == parts.last);
        CHECK(whole.held == parts.held);
        CHECK(whole.frames_in == parts.frames_in && whole.frames_out == parts.frames_out);
        at += 2 + n;
    }
    frames_free(&whole);
    frames_free(&parts);
    return 0;
}
