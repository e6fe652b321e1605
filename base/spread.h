/* Quantiles of times, as reports of the simulator and of real runs show them. */
#ifndef HAWK_BASE_SPREAD_H
#define HAWK_BASE_SPREAD_H

#include <stdint.h>

/* Quantiles of n values, in the values' unit. They interpolate linearly between neighbours and are cut to
 * whole units. All are 0 when n is 0. */
struct spread {
    uint64_t n;
    int64_t p50, p90, p99, max;
    double mean;
};

/* Sorts v. */
struct spread spread_of(int64_t *v, uint64_t n);

#endif
