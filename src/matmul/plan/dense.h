/* Matrices whose elements lie in one range without gaps. Pure. */
#ifndef SYMM_MATMUL_DENSE_H
#define SYMM_MATMUL_DENSE_H

#include "problem.h"

/* Orders of the dimensions in memory. Row-major is the first. */
enum { SYMM_DENSE_BY_ROWS, SYMM_DENSE_ORDERS = 4 };

/*
 * The first order in which the matrix has no gaps; -1: it has gaps, or neither its rows nor its
 * columns are contiguous. Strides of extents of 1 mean nothing, so equal extents and equal orders
 * put each element at the same place.
 */
int symm__dense_order(const struct symm_operand *x);

/* The matrix [l, rows, columns] of that order, without data. */
symm_matrix symm__dense_matrix(int order, symm_dtype dtype, int32_t l, int32_t rows,
                               int32_t columns);

#endif
