/* Random draws that are the same on every machine. They use integers only: the logarithms of two mathematical libraries
 * may differ in the last bit, and one other bit makes another trace. */
#ifndef HAWK_WORKLOAD_GENERATE_DRAW_H
#define HAWK_WORKLOAD_GENERATE_DRAW_H

#include "base/rng.h"

#define DRAW_ONE (UINT64_C(1) << 32) /* 1.0 as these functions give it: units of 2^-32 */

/* -ln(x / 2^64), in units of 2^-32, off by less than 2^-30. x = 0 stands for 2^64. */
uint64_t generate_minus_ln(uint64_t x);
/* Exponentially distributed with mean 1, in units of 2^-32. */
uint64_t generate_exponential(struct rng *r);
/* Normally distributed with mean 0 and standard deviation 1, in units of 2^-32. */
int64_t generate_normal(struct rng *r);
/* value * factor / 2^32, rounded down; at most max. */
int64_t generate_scale(int64_t value, uint64_t factor, int64_t max);

#endif
