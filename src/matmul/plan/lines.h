/* A matrix as lines of contiguous elements: as tensor copies and cuBLASLt describe it. */
#ifndef SYMM_MATMUL_LINES_H
#define SYMM_MATMUL_LINES_H

#include <symm/symm.h>
#include "matmul/kernels/args.h"

/* In elements. A stride of lines or batches of which there is one is 0. */
struct symm_lines {
    const void *data;
    int64_t along, lines, batches; /* extents */
    int64_t pitch, batch;          /* strides */
};

/* Lines are the rows of a row-major matrix; or the columns of a column-major one. */
struct symm_lines symm__lines_of_rows(const symm_matrix *x, int64_t rows, int64_t columns,
                                      int64_t l);
struct symm_lines symm__lines_of_columns(const symm_matrix *x, int64_t rows, int64_t columns,
                                         int64_t l);

#endif
