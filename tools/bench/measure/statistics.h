/* Order statistics of small samples. */
#ifndef SYMM_BENCH_STATISTICS_H
#define SYMM_BENCH_STATISTICS_H

#include <stddef.h>

/* Sorts the sample, which the others need sorted. */
void statistics_sort(float *sample, size_t n);
float statistics_median(const float *sorted, size_t n);
/* The least value that at least `percent` percent of the sample do not exceed. */
float statistics_percentile(const float *sorted, size_t n, double percent);

#endif
