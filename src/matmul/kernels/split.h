/* How rows are split: m rows among the ranks, a rank's rows into chunks. For C and for kernels. */
#ifndef SYMM_MATMUL_SPLIT_H
#define SYMM_MATMUL_SPLIT_H

#include "divide.h"

/* The rows of a rank: `least`, and one more on the first `more` ranks. */
typedef struct symm_row_split {
    int32_t least, more;
} symm_row_split;

SYMM_SHARED_FN int32_t symm__rows_of(symm_row_split s, int32_t rank)
{
    return s.least + (rank < s.more);
}

SYMM_SHARED_FN int32_t symm__first_row_of(symm_row_split s, int32_t rank)
{
    return s.least * rank + (rank < s.more ? rank : s.more);
}

SYMM_SHARED_FN symm_row_split symm__split_rows(int32_t m, int32_t nranks)
{
    const symm_row_split split = {m / nranks, m % nranks};
    return split;
}

SYMM_SHARED_FN int32_t symm__rows_of_rank(int32_t m, int32_t nranks, int32_t rank)
{
    return symm__rows_of(symm__split_rows(m, nranks), rank);
}

SYMM_SHARED_FN int32_t symm__first_row_of_rank(int32_t m, int32_t nranks, int32_t rank)
{
    return symm__first_row_of(symm__split_rows(m, nranks), rank);
}

/* rank + i, where i is less than nranks, and after the last rank the first one. */
SYMM_SHARED_FN int32_t symm__rank_after(int32_t rank, int32_t i, int32_t nranks)
{
    return rank + i < nranks ? rank + i : rank + i - nranks;
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
