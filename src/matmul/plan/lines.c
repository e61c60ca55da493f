/* Matrices as lines. */
#include "lines.h"

struct symm_lines symm__lines_of(const symm_matrix *x, bool by_rows, int64_t rows, int64_t columns,
                                 int64_t l)
{
    const int64_t lines = by_rows ? rows : columns, pitch = by_rows ? x->row : x->column;

    return (struct symm_lines){
        .data = x->data,
        .along = by_rows ? columns : rows,
        .lines = lines,
        .batches = x->batch ? l : 1,
        .pitch = lines > 1 ? pitch : 0,
        .batch = l > 1 ? x->batch : 0,
    };
}
