/* How rows are split: m rows among the ranks, a rank's rows into chunks. For C and for kernels. */
#ifndef SYMM_MATMUL_SPLIT_H
#define SYMM_MATMUL_SPLIT_H

#ifdef __cplusplus /* kernels, for GPUs and for the emulated driver */
#include <symm/device.cuh>
#define SYMM_SHARED_FN SYMM_DEV
#else
#include <stdint.h>
#define SYMM_SHARED_FN static inline
#endif

/* The rows of a rank: m / nranks, and one more on the first m % nranks ranks. */
SYMM_SHARED_FN int32_t symm__rows_of_rank(int32_t m, int32_t nranks, int32_t rank)
{
    return m / nranks + (rank < m % nranks);
}

SYMM_SHARED_FN int32_t symm__first_row_of_rank(int32_t m, int32_t nranks, int32_t rank)
{
    return m / nranks * rank + (rank < m % nranks ? rank : m % nranks);
}

/*
 * Whether only the last rank with rows has fewer of them than the first one: then the ranks' rows
 * lie without gaps in slabs of as many rows each.
 */
SYMM_SHARED_FN int symm__rows_are_packed(int32_t m, int32_t nranks)
{
    return m < nranks || (m + 1) % nranks <= 1;
}

/* The number of chunks of these rows: see symm_arrival_plan. */
SYMM_SHARED_FN uint32_t symm__chunks_of_rows(uint64_t rows, uint32_t strip_rows, uint32_t k_pieces)
{
    return (uint32_t)((rows + strip_rows - 1) / strip_rows) * k_pieces;
}

#endif
