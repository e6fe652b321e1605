/* Seeded random numbers, one generator per instance: xoshiro256** (Blackman and Vigna), seeded by
 * splitmix64. */
#ifndef HAWK_BASE_RNG_H
#define HAWK_BASE_RNG_H

#include <stdint.h>

struct rng {
    uint64_t s[4];
};

void rng_seed(struct rng *r, uint64_t seed);
uint64_t rng_next(struct rng *r);
/* Uniform in [0, n), without bias (Lemire); n must be at least 1. */
uint64_t rng_below(struct rng *r, uint64_t n);

#endif
