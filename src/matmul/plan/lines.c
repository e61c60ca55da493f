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

/* Strides of tensors are multiples of 16 bytes, below 2^40 bytes. */
static bool is_stride(int64_t elements)
{
    return elements % SYMM_PACK_ELEMENTS == 0 && elements < INT64_C(1) << 39;
}

bool symm__lines_suit_copies(const struct symm_lines *x)
{
    return (uintptr_t)x->data % 16 == 0 && is_stride(x->pitch) && is_stride(x->batch) &&
           (x->lines == 1 || x->pitch > 0);
}
