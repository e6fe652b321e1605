/* Exponential and normal draws in integers. */
#include "workload/generate_draw.h"

#include <stdbool.h>

#define LN_2 UINT64_C(6393154322601327829) /* ln 2 in units of 2^-63 */
#define LOG_BITS 32

/* x / 2^64 = m / 2^(64 + halvings), with m in [1, 2) in units of 2^-63. x > 0. */
struct normalized {
    uint64_t m;
    uint32_t halvings;
};

static struct normalized normalize(uint64_t x)
{
    uint32_t shift = (uint32_t)__builtin_clzll(x);

    return (struct normalized){x << shift, shift + 1};
}

/* The next binary digit of the logarithm of m to base 2: squaring m shows it. */
static unsigned next_digit(uint64_t *m)
{
    unsigned __int128 square = (unsigned __int128)*m * *m; /* [1, 4) in units of 2^-126 */
    unsigned digit = (unsigned)(square >> 127);

    *m = (uint64_t)(square >> (63 + digit)); /* no branch: these digits are as random as x */
    return digit;
}

uint64_t generate_minus_ln(uint64_t x)
{
    struct normalized n;
    uint64_t log2 = 0;

    if (x == 0)
        return 0;
    n = normalize(x);
    for (int i = 0; i < LOG_BITS; i++)
        log2 = log2 << 1 | next_digit(&n.m);
    return (uint64_t)((unsigned __int128)(n.halvings * DRAW_ONE - log2) * LN_2 >> 63);
}

/* Whether generate_minus_ln(x) >= y. The first digit in which the logarithm differs from the bound decides. */
static bool minus_ln_reaches(uint64_t x, uint64_t y)
{
    /* minus_ln >= y where halvings - log2 >= y / ln 2, rounded up. */
    unsigned __int128 least = (((unsigned __int128)y << 63) + LN_2 - 1) / LN_2;
    struct normalized n;
    uint64_t most; /* that log2 may be */

    if (x == 0)
        return y == 0;
    n = normalize(x);
    if (n.halvings * DRAW_ONE < least)
        return false;
    most = n.halvings * DRAW_ONE - (uint64_t)least;
    if (most >= DRAW_ONE)
        return true;
    for (int i = LOG_BITS - 1; i >= 0; i--) {
        unsigned digit = next_digit(&n.m);

        if (digit != (most >> i & 1))
            return digit == 0;
    }
    return true;
}

uint64_t generate_exponential(struct rng *r) { return generate_minus_ln(rng_next(r)); }

/* Von Neumann's rejection: an exponential x is the absolute value of a normal one with probability
 * exp(-(x - 1)^2 / 2), that is when another exponential is not below (x - 1)^2 / 2. */
int64_t generate_normal(struct rng *r)
{
    for (;;) {
        int64_t x = (int64_t)generate_exponential(r), d = x - (int64_t)DRAW_ONE;

        if (minus_ln_reaches(rng_next(r), (unsigned __int128)d * d >> 33))
            return rng_next(r) >> 63 ? -x : x;
    }
}

int64_t generate_scale(int64_t value, uint64_t factor, int64_t max)
{
    __int128 v = (__int128)value * factor >> 32;

    return v > max ? max : (int64_t)v;
}
