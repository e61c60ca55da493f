/* The extents of one rank's matrices in a product of many ranks. */
#include "extents.h"

int share_of(int all, int nranks, int rank)
{
    return all / nranks + (rank < all % nranks);
}

int share_begin(int all, int nranks, int rank)
{
    const int larger = rank < all % nranks ? rank : all % nranks;

    return rank * (all / nranks) + larger;
}

int share_owner(int all, int nranks, int index)
{
    int rank = 0;

    while (rank + 1 < nranks && share_begin(all, nranks, rank + 1) <= index)
        rank++;
    return rank;
}

bool kind_sums(symm_matmul_kind kind)
{
    return kind == SYMM_MATMUL_REDUCE_SCATTER || kind == SYMM_MATMUL_ALL_REDUCE;
}

bool kind_collects(symm_matmul_kind kind)
{
    return kind_sums(kind) || kind == SYMM_MATMUL_ALL_SCATTER;
}

struct extents extents_of(symm_matmul_kind kind, int m, int n, int nranks, int rank)
{
    struct extents e = {.rows = m, .columns = n};

    if (kind == SYMM_MATMUL_REDUCE_SCATTER) {
        e.rows = share_of(m, nranks, rank);
        e.first_row = share_begin(m, nranks, rank);
    } else if (kind == SYMM_MATMUL_ALL_SCATTER) {
        e.columns = share_of(n, nranks, rank);
        e.first_column = share_begin(n, nranks, rank);
    }
    return e;
}

size_t matrix_at(bool by_columns, int rows, int columns, int l, int row, int column)
{
    const size_t first = (size_t)l * (size_t)rows * (size_t)columns;

    return by_columns ? first + (size_t)column * (size_t)rows + (size_t)row
                      : first + (size_t)row * (size_t)columns + (size_t)column;
}
