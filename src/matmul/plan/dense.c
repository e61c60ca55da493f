/* Dense orders of the dimensions of matrices. */
#include "dense.h"

enum { BATCH, ROW, COLUMN, DIMENSIONS };

/*
 * From the outermost dimension to the contiguous one. Batches are never the contiguous one: no fast
 * kernel stores such a matrix.
 */
static const int orders[SYMM_DENSE_ORDERS][DIMENSIONS] = {
    [SYMM_DENSE_BY_ROWS] = {BATCH, ROW, COLUMN},
    {BATCH, COLUMN, ROW},
    {ROW, BATCH, COLUMN},
    {COLUMN, BATCH, ROW},
};

symm_matrix symm__dense_matrix(int order, symm_dtype dtype, int32_t l, int32_t rows,
                               int32_t columns)
{
    const int64_t extents[DIMENSIONS] = {[BATCH] = l, [ROW] = rows, [COLUMN] = columns};
    int64_t strides[DIMENSIONS], next = 1;

    for (int i = DIMENSIONS - 1; i >= 0; i--) {
        strides[orders[order][i]] = next;
        next *= extents[orders[order][i]];
    }
    return (symm_matrix){.row = strides[ROW],
                         .column = strides[COLUMN],
                         .batch = strides[BATCH],
                         .dtype = (uint32_t)dtype};
}

static bool same_places(const struct symm_operand *x, const symm_matrix *y)
{
    return (x->l <= 1 || x->matrix.batch == y->batch) &&
           (x->rows <= 1 || x->matrix.row == y->row) &&
           (x->columns <= 1 || x->matrix.column == y->column);
}

int symm__dense_order(const struct symm_operand *x)
{
    for (int order = 0; order < SYMM_DENSE_ORDERS; order++) {
        const symm_matrix dense =
            symm__dense_matrix(order, (symm_dtype)x->matrix.dtype, x->l, x->rows, x->columns);
        if (same_places(x, &dense))
            return order;
    }
    return -1;
}
