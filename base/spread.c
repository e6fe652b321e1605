/* Quantiles and mean: see spread.h. */
#include "base/spread.h"

#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* Interpolates linearly between the two nearest values, as the published simulators do. */
static int64_t quantile(const int64_t *sorted, uint64_t n, uint64_t percent)
{
    uint64_t hundredths = (n - 1) * percent, i = hundredths / 100;

    if (i + 1 == n)
        return sorted[i];
    return sorted[i] + (int64_t)(((__int128)sorted[i + 1] - sorted[i]) * (int64_t)(hundredths % 100) / 100);
}

struct spread spread_of(int64_t *v, uint64_t n)
{
    struct spread s = {.n = n};
    double sum = 0;

    if (n == 0)
        return s;
    qsort(v, n, sizeof *v, by_value);
    for (uint64_t i = 0; i < n; i++)
        sum += (double)v[i];
    s.p50 = quantile(v, n, 50);
    s.p90 = quantile(v, n, 90);
    s.p99 = quantile(v, n, 99);
    s.max = v[n - 1];
    s.mean = sum / (double)n;
    return s;
}
