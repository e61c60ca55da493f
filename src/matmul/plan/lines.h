/* A matrix as lines of contiguous elements: as tensor copies and cuBLASLt describe it. */
#ifndef SYMM_MATMUL_LINES_H
#define SYMM_MATMUL_LINES_H

#include <stdbool.h>
#include <symm/symm.h>
#include "matmul/kernels/args.h"

/* In elements. The stride of a single line or batch is 0. */
struct symm_lines {
    const void *data;
    int64_t along, lines, batches; /* extents */
    int64_t pitch, batch;          /* strides */
};

/* by_rows: the lines are the rows of a row-major matrix; else the columns of a column-major one. */
struct symm_lines symm__lines_of(const symm_matrix *x, bool by_rows, int64_t rows, int64_t columns,
                                 int64_t l);

/* Whether tensor copies can move them: elements of 16 bits. */
bool symm__lines_suit_copies(const struct symm_lines *x);

#endif
