/* Order statistics of small samples. */
#include "statistics.h"

#include <math.h>
#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

void statistics_sort(float *sample, size_t n)
{
    qsort(sample, n, sizeof *sample, by_value);
}

float statistics_median(const float *sorted, size_t n)
{
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

float statistics_percentile(const float *sorted, size_t n, double percent)
{
    size_t rank = (size_t)ceil((double)n * percent / 100);

    return sorted[rank > 0 ? rank - 1 : 0];
}
