/* Tells whether matrices share bytes, also if their address ranges overlap. */
#include "overlap.h"

#include <symm/names.h>

enum { DIMENSIONS = 3, BATCH = 0 };

/* A matrix in bytes. */
struct lattice {
    uint64_t first, element;
    uint64_t extents[DIMENSIONS], strides[DIMENSIONS];
};

static struct lattice lattice_of(const struct symm_operand *x)
{
    const uint64_t size = symm_dtype_size((symm_dtype)x->matrix.dtype);

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

/* Whether all strides that are not below this one are multiples of it. */
static bool repeats(const struct lattice *x, uint64_t stride)
{
    for (int i = 0; i < DIMENSIONS; i++)
        if (x->extents[i] > 1 && x->strides[i] >= stride && x->strides[i] % stride)
            return false;
    return true;
}

/* Whether they are disjoint because they have different bytes modulo the stride. */
static bool disjoint_modulo(const struct lattice *x, const struct lattice *y, uint64_t stride)
{
    const uint64_t of_x = span_below(x, stride), of_y = span_below(y, stride);
    uint64_t from_x_to_y;

    if (stride == 0)
        return false;
    from_x_to_y = (y->first % stride + stride - x->first % stride) % stride;
    return of_x <= stride && of_y <= stride && repeats(x, stride) && repeats(y, stride) &&
           from_x_to_y >= of_x && from_x_to_y + of_y <= stride;
}

static bool overlap(const struct lattice *x, const struct lattice *y)
{
    const uint64_t of_x = span_below(x, UINT64_MAX), of_y = span_below(y, UINT64_MAX);

    if (of_x == 0 || of_y == 0 || x->first >= y->first + of_y || y->first >= x->first + of_x)
        return false;
    for (int i = 0; i < DIMENSIONS; i++)
        if (disjoint_modulo(x, y, x->strides[i]) || disjoint_modulo(x, y, y->strides[i]))
            return false;
    return true;
}

/* The batch whose first element is `offset` bytes after the matrix's. */
static struct lattice batch_of(const struct lattice *x, uint64_t offset)
{
    struct lattice batch = *x;

    batch.first += offset;
    batch.extents[BATCH] = 1;
    return batch;
}

/*
 * Whether they are disjoint because their batches have equal strides and each batch is disjoint
 * from all of the other matrix. Its range overlaps at most two of them, so two comparisons suffice.
 */
static bool batches_disjoint(const struct lattice *x, const struct lattice *y)
{
    const uint64_t stride = x->strides[BATCH];
    struct lattice here = batch_of(x, 0), next = batch_of(x, stride), other = batch_of(y, 0);

    if (x->extents[BATCH] == 1 || y->extents[BATCH] == 1 || stride != y->strides[BATCH] ||
        span_below(&here, UINT64_MAX) > stride || span_below(&other, UINT64_MAX) > stride)
        return false;
    other.first = x->first + (y->first % stride + stride - x->first % stride) % stride;
    return !overlap(&here, &other) && !overlap(&next, &other);
}

bool symm__operands_overlap(const struct symm_operand *x, const struct symm_operand *y)
{
    const struct lattice a = lattice_of(x), b = lattice_of(y);

    return overlap(&a, &b) && !batches_disjoint(&a, &b);
}
