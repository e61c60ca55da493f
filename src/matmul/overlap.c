/* Matrices that lie within each other's memory, and whether they are apart. */
#include "overlap.h"

#include "../runtime/dtype.h"

enum { DIMENSIONS = 3 };

/* A matrix in bytes. */
struct lattice {
    uint64_t first, element;
    uint64_t extents[DIMENSIONS], strides[DIMENSIONS];
};

static struct lattice lattice_of(const struct symm_operand *x)
{
    const uint64_t size = symm__dtype_size((symm_dtype)x->matrix.dtype);

    return (struct lattice){
        .first = (uintptr_t)x->matrix.data,
        .element = size,
        .extents = {(uint64_t)x->l, (uint64_t)x->rows, (uint64_t)x->columns},
        .strides = {(uint64_t)x->matrix.batch * size, (uint64_t)x->matrix.row * size,
                    (uint64_t)x->matrix.column * size},
    };
}

/* Bytes from the first element to the end of the last, going by strides less than this. */
static uint64_t span_below(const struct lattice *x, uint64_t stride)
{
    uint64_t span = x->element;

    for (int i = 0; i < DIMENSIONS; i++) {
        if (x->extents[i] == 0)
            return 0;
        if (x->strides[i] < stride)
            span += (x->extents[i] - 1) * x->strides[i];
    }
    return span;
}

uint64_t symm__operand_nbytes(const struct symm_operand *x)
{
    const struct lattice lattice = lattice_of(x);

    return span_below(&lattice, UINT64_MAX);
}

/* Whether what is not below the stride are multiples of it. */
static bool repeats(const struct lattice *x, uint64_t stride)
{
    for (int i = 0; i < DIMENSIONS; i++)
        if (x->extents[i] > 1 && x->strides[i] >= stride && x->strides[i] % stride)
            return false;
    return true;
}

/* Whether they are apart because, counted modulo the stride, they have other bytes. */
static bool apart(const struct lattice *x, const struct lattice *y, uint64_t stride)
{
    const uint64_t of_x = span_below(x, stride), of_y = span_below(y, stride);
    uint64_t from_x_to_y;

    if (stride == 0)
        return false;
    from_x_to_y = (y->first % stride + stride - x->first % stride) % stride;
    return of_x <= stride && of_y <= stride && repeats(x, stride) && repeats(y, stride) &&
           from_x_to_y >= of_x && from_x_to_y + of_y <= stride;
}

bool symm__operands_overlap(const struct symm_operand *x, const struct symm_operand *y)
{
    const struct lattice a = lattice_of(x), b = lattice_of(y);
    const uint64_t of_a = span_below(&a, UINT64_MAX), of_b = span_below(&b, UINT64_MAX);

    if (of_a == 0 || of_b == 0 || a.first >= b.first + of_b || b.first >= a.first + of_a)
        return false;
    for (int i = 0; i < DIMENSIONS; i++)
        if (apart(&a, &b, a.strides[i]) || apart(&a, &b, b.strides[i]))
            return false;
    return true;
}
