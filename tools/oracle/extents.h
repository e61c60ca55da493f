/*
 * The extents of one rank's matrices in a product of many ranks: d of [rows, n] from a of [m, k],
 * b of [k, columns] and c of [rows, columns], by the table in symm/matmul.h. In an all-gather a is
 * the gathered matrix.
 */
#ifndef SYMM_TOOLS_EXTENTS_H
#define SYMM_TOOLS_EXTENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <symm/matmul.h>

struct extents {
    int rows, first_row;       /* among all m */
    int columns, first_column; /* among all n */
};

struct extents extents_of(symm_matmul_kind kind, int m, int n, int nranks, int rank);

/* Whether d is a sum of all ranks' products. */
bool kind_sums(symm_matmul_kind kind);
/* Whether the ranks communicate after their products. */
bool kind_collects(symm_matmul_kind kind);

/* A rank's share of rows or columns, the first of them, and the rank that has the index-th. */
int share_of(int all, int nranks, int rank);
int share_begin(int all, int nranks, int rank);
int share_owner(int all, int nranks, int index);

/*
 * The number of an element of number `l` of the matrices of this extent, one after another, each
 * stored row after row, or column after column.
 */
size_t matrix_at(bool by_columns, int rows, int columns, int l, int row, int column);

#endif
