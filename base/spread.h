/* How values are spread: what reports of the simulator and of real runs tell about times. */
#ifndef HAWK_BASE_SPREAD_H
#define HAWK_BASE_SPREAD_H

#include <stdint.h>

/* Of n values, in their unit; quantiles interpolate linearly between neighbours and are cut to whole units. All
 * zero when n is 0. */
struct spread {
    uint64_t n;
    int64_t p50, p90, p99, max;
    double mean;
};

/* Sorts v. */
struct spread spread_of(int64_t *v, uint64_t n);

#endif
