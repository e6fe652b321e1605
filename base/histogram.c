/* See histogram.h. */
#include "base/histogram.h"

#include "base/units.h"

static const int64_t times[] = {
    US_PER_MS,       5 * US_PER_MS,   10 * US_PER_MS, 25 * US_PER_MS,   50 * US_PER_MS,  100 * US_PER_MS,
    250 * US_PER_MS, 500 * US_PER_MS, US_PER_S,       2500 * US_PER_MS, 5 * US_PER_S,    10 * US_PER_S,
    30 * US_PER_S,   60 * US_PER_S,   300 * US_PER_S, 900 * US_PER_S,   3600 * US_PER_S, 21600 * US_PER_S};
static const int64_t ratios[] = {1000,  1100,  1250,  1500,   2000,   3000,   5000,
                                 10000, 20000, 50000, 100000, 200000, 500000, 1000000};
_Static_assert(sizeof times / sizeof *times <= HISTOGRAM_BUCKETS, "every bound has a bucket");
_Static_assert(sizeof ratios / sizeof *ratios <= HISTOGRAM_BUCKETS, "every bound has a bucket");

const int64_t *histogram_bounds(enum histogram_scale scale, uint32_t *n)
{
    *n = scale == HISTOGRAM_TIME ? sizeof times / sizeof *times : sizeof ratios / sizeof *ratios;
    return scale == HISTOGRAM_TIME ? times : ratios;
}

void histogram_add(struct histogram *h, enum histogram_scale scale, int64_t value)
{
    uint32_t n, i = 0;
    const int64_t *bounds = histogram_bounds(scale, &n);

    if (value < 0)
        value = 0;
    while (i < n && value > bounds[i])
        i++;
    h->in[i < n ? i : HISTOGRAM_BUCKETS]++;
    h->n++;
    h->sum += (uint64_t)value;
}
