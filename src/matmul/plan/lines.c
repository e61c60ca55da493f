/* Matrices as lines. */
#include "lines.h"

static struct symm_lines lines_of(const symm_matrix *x, int64_t along, int64_t lines, int64_t pitch,
                                  int64_t l)
{
    return (struct symm_lines){
        .data = x->data,
        .along = along,
        .lines = lines,
        .batches = x->batch ? l : 1,
        .pitch = lines > 1 ? pitch : 0,
        .batch = l > 1 ? x->batch : 0,
    };
}

struct symm_lines symm__lines_of_rows(const symm_matrix *x, int64_t rows, int64_t columns,
                                      int64_t l)
{
    return lines_of(x, columns, rows, x->row, l);
}

struct symm_lines symm__lines_of_columns(const symm_matrix *x, int64_t rows, int64_t columns,
                                         int64_t l)
{
    return lines_of(x, rows, columns, x->column, l);
}
