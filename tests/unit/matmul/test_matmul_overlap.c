/* Whether matrices share memory, against looking at every byte. */
#include <string.h>
#include "matmul/plan/overlap.h"
#include "reference.h"
#include "test.h"

enum { MEMORY = 4096, MANY = 200000 };

static char memory[MEMORY];

static struct symm_operand operand(size_t first, symm_dtype dtype, int l, int rows, int columns,
                                   int64_t batch, int64_t row, int64_t column)
{
    return (struct symm_operand){
        .matrix = {memory + first, row, column, batch, (uint32_t)dtype, 0}, l, rows, columns};
}

static void touch(const struct symm_operand *x, char *bytes)
{
    const size_t size = x->matrix.dtype == SYMM_FLOAT32 ? 4 : 2;

    for (int b = 0; b < x->l; b++)
        for (int i = 0; i < x->rows; i++)
            for (int j = 0; j < x->columns; j++)
                memset(
                    bytes + ((char *)x->matrix.data - memory) +
                        (size_t)(b * x->matrix.batch + i * x->matrix.row + j * x->matrix.column) *
                            size,
                    1, size);
}

static bool share_bytes(const struct symm_operand *x, const struct symm_operand *y)
{
    static char of_x[MEMORY], of_y[MEMORY];
    bool any = false;

    memset(of_x, 0, sizeof of_x);
    memset(of_y, 0, sizeof of_y);
    touch(x, of_x);
    touch(y, of_y);
    for (size_t i = 0; i < MEMORY && !any; i++)
        any = of_x[i] && of_y[i];
    return any;
}

static int below(int n)
{
    static uint64_t drawn;

    return (int)(reference_random(7, drawn++) >> 33) % n;
}

static struct symm_operand random_operand(void)
{
    static const int64_t strides[] = {1, 2, 3, 6, 12, 24, 25, 0};
    const symm_dtype dtype = below(2) ? SYMM_FLOAT32 : SYMM_BFLOAT16;

    return operand((size_t)below(40) * 4, dtype, below(3), 1 + below(4), 1 + below(4),
                   strides[below(8)], strides[below(8)], strides[below(8)]);
}

TEST_GROUP(overlap, 60);

TEST(overlap, what_shares_bytes_overlaps)
{
    int shared = 0, apart = 0;

    for (int i = 0; i < MANY; i++) {
        const struct symm_operand x = random_operand(), y = random_operand();
        const bool overlap = symm__operands_overlap(&x, &y), share = share_bytes(&x, &y);
        ck_assert_msg(overlap || !share, "said to be apart, but they share bytes");
        ck_assert(overlap == symm__operands_overlap(&y, &x));
        shared += share;
        apart += !overlap;
    }
    ck_assert_int_gt(shared, MANY / 20);
    ck_assert_int_gt(apart, MANY / 20);
}

/* [l, rows, columns] in one row-major tensor of [2, 4, 12], of which parts are taken. */
static struct symm_operand part(int batch, int row, int column, int l, int rows, int columns)
{
    return operand((size_t)(batch * 48 + row * 12 + column) * 2, SYMM_BFLOAT16, l, rows, columns,
                   48, 12, 1);
}

TEST(overlap, parts_of_a_larger_tensor_are_told_apart)
{
    const struct symm_operand q = part(0, 0, 0, 2, 4, 4), k = part(0, 0, 4, 2, 4, 4),
                              v = part(0, 0, 8, 2, 4, 4), wide = part(0, 0, 3, 2, 4, 2),
                              top = part(0, 0, 0, 2, 2, 12), bottom = part(0, 2, 0, 2, 2, 12),
                              first = part(0, 0, 0, 1, 4, 12), second = part(1, 0, 0, 1, 4, 12);

    ck_assert(!symm__operands_overlap(&q, &k));
    ck_assert(!symm__operands_overlap(&v, &q));
    ck_assert(!symm__operands_overlap(&top, &bottom));
    ck_assert(!symm__operands_overlap(&first, &second));
    ck_assert(symm__operands_overlap(&wide, &q));
    ck_assert(symm__operands_overlap(&k, &wide));
    ck_assert(symm__operands_overlap(&top, &q));
    ck_assert(symm__operands_overlap(&q, &q));
}

/* The same of [2, 4, 12] with something between the batches, of which rows know nothing. */
static struct symm_operand part_apart(int at, int rows, int columns)
{
    return operand((size_t)at * 2, SYMM_BFLOAT16, 2, rows, columns, 55, 12, 1);
}

TEST(overlap, batches_at_any_distance_are_told_apart)
{
    const struct symm_operand q = part_apart(0, 4, 4), k = part_apart(4, 4, 4),
                              v = part_apart(8, 4, 4), wide = part_apart(3, 4, 2),
                              between = part_apart(48, 1, 7), more = part_apart(48, 1, 8),
                              later = part_apart(55 + 4, 4, 4), across = part_apart(44, 2, 4);

    ck_assert(!symm__operands_overlap(&q, &k));
    ck_assert(!symm__operands_overlap(&v, &q));
    ck_assert(!symm__operands_overlap(&q, &between));
    ck_assert(!symm__operands_overlap(&q, &later));
    ck_assert(!symm__operands_overlap(&later, &q));
    ck_assert(!symm__operands_overlap(&later, &v));
    ck_assert(symm__operands_overlap(&wide, &q));
    ck_assert(symm__operands_overlap(&k, &wide));
    ck_assert(symm__operands_overlap(&q, &more));
    ck_assert(symm__operands_overlap(&later, &k));
    ck_assert(symm__operands_overlap(&across, &q));
    ck_assert(!symm__operands_overlap(&across, &between));
}
