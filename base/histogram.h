/* Counts of measured values by size, for metrics: the buckets of a histogram in OpenMetrics. */
#ifndef HAWK_BASE_HISTOGRAM_H
#define HAWK_BASE_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_BUCKETS 18

/* What is measured. Its unit is an integer's: */
enum histogram_scale {
    HISTOGRAM_TIME,  /* microseconds; buckets from 1 ms to 6 h */
    HISTOGRAM_RATIO, /* thousandths; buckets from 1 to 1,000 */
};

/* All zero: nothing was measured. */
struct histogram {
    uint64_t
        in[HISTOGRAM_BUCKETS + 1]; /* values by the first bound that they do not exceed; the last: none */
    uint64_t n, sum;               /* of the values; sum in the scale's unit */
};

/* The upper bounds of a scale's buckets, ascending; *n <= HISTOGRAM_BUCKETS. */
const int64_t *histogram_bounds(enum histogram_scale scale, uint32_t *n);
/* Counts one value; a negative one as 0. */
void histogram_add(struct histogram *h, enum histogram_scale scale, int64_t value);

#endif
