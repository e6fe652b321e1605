/* A fuzzer's bytes, read as numbers: past the end everything is 0. */
#ifndef HAWK_TESTS_FUZZ_INPUT_H
#define HAWK_TESTS_FUZZ_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct input {
    const uint8_t *p, *end;
};

/* What a target is: libFuzzer calls it with one input after the other, tests/fuzz/lib/replay.c with the corpus. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline size_t input_left(const struct input *in) { return (size_t)(in->end - in->p); }
static inline uint8_t take_u8(struct input *in) { return in->p < in->end ? *in->p++ : 0; }

/* Little-endian, `bytes` of them. */
static inline uint64_t take_number(struct input *in, int bytes)
{
    uint64_t v = 0;

    for (int i = 0; i < bytes; i++)
        v |= (uint64_t)take_u8(in) << 8 * i;
    return v;
}

/* One byte's worth: 0 .. n-1; n at most 256. */
static inline uint32_t take_below(struct input *in, uint32_t n) { return take_u8(in) % n; }
static inline bool take_bool(struct input *in) { return take_u8(in) & 1; }

/* Small mostly, and anything now and then. */
static inline uint64_t take_mostly_small(struct input *in, int bytes)
{
    uint8_t b = take_u8(in);

    return b < 192 ? b % 8 : b < 240 ? b : take_number(in, bytes);
}

/* The next bytes, at most `max` of them and of what is left, as a part of the input. */
static inline struct input take_part(struct input *in, size_t max)
{
    size_t n = input_left(in) < max ? input_left(in) : max;
    struct input part = {in->p, in->p + n};

    in->p += n;
    return part;
}

#endif
