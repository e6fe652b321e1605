/* Exponential and normal draws in integers. */
#include "workload/generate_draw.h"

#define LN_2 UINT64_C(6393154322601327829) /* ln 2 in units of 2^-63 */
#define LOG_BITS 32

/* Digit by digit: squaring a number in [1, 2) gives the next binary digit of its logarithm to base 2. */
uint64_t generate_minus_ln(uint64_t x)
{
    uint64_t log2 = 0, m;
    int shift;

    if (x == 0)
        return 0;
    shift = __builtin_clzll(x);
    m = x << shift; /* [1, 2) in units of 2^-63 */
    for (int i = 0; i < LOG_BITS; i++) {
        unsigned __int128 square = (unsigned __int128)m * m; /* [1, 4) in units of 2^-126 */
        unsigned digit = (unsigned)(square >> 127);

        log2 = log2 << 1 | digit; /* no branch: these digits are as random as x */
        m = (uint64_t)(square >> (63 + digit));
    }
    /* x = 2^(63 - shift + log2), so -log2(x / 2^64) = shift + 1 - log2. */
    log2 = ((uint64_t)shift + 1) * DRAW_ONE - log2;
    return (uint64_t)((unsigned __int128)log2 * LN_2 >> 63);
}

uint64_t generate_exponential(struct rng *r) { return generate_minus_ln(rng_next(r)); }

/* Von Neumann's rejection: an exponential x is the absolute value of a normal one with probability
 * exp(-(x - 1)^2 / 2), that is when another exponential is not below (x - 1)^2 / 2. */
int64_t generate_normal(struct rng *r)
{
    for (;;) {
        int64_t x = (int64_t)generate_exponential(r), d = x - (int64_t)DRAW_ONE;

        if ((__int128)d * d >> 33 <= (__int128)generate_exponential(r))
            return rng_next(r) >> 63 ? -x : x;
    }
}

int64_t generate_scale(int64_t value, uint64_t factor, int64_t max)
{
    __int128 v = (__int128)value * factor >> 32;

    return v > max ? max : (int64_t)v;
}
