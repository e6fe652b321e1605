/* xoshiro256** 1.0 and splitmix64, after the public-domain reference code of Blackman and Vigna. */
#include "base/rng.h"

#include "base/check.h"
#include "base/hash.h"

static uint64_t rotl(uint64_t x, int k) { return x << k | x >> (64 - k); }

static uint64_t splitmix64(uint64_t *state) { return hash_mix(*state += 0x9e3779b97f4a7c15u); }

/* The generator must not start from all zeros. Four outputs of splitmix64 in a row are never all zero. */
void rng_seed(struct rng *r, uint64_t seed)
{
    for (int i = 0; i < 4; i++)
        r->s[i] = splitmix64(&seed);
}

uint64_t rng_next(struct rng *r)
{
    uint64_t *s = r->s;
    uint64_t result = rotl(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return result;
}

/* Lemire, "Fast random integer generation in an interval" (2019). The high half of a product is uniform
 * once draws whose low half is below 2^64 mod n are thrown away. */
uint64_t rng_below(struct rng *r, uint64_t n)
{
    CHECK(n >= 1);
    unsigned __int128 product = (unsigned __int128)rng_next(r) * n;
    if ((uint64_t)product < n) {
        uint64_t threshold = -n % n;

        while ((uint64_t)product < threshold)
            product = (unsigned __int128)rng_next(r) * n;
    }
    return (uint64_t)(product >> 64);
}
