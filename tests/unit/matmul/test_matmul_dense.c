/* Dense matrices, against the places of all elements. */
#include <string.h>
#include "matmul/plan/dense.h"
#include "test.h"

enum { MOST = 4, PLACES = MOST * MOST * MOST };

static int64_t place(const symm_matrix *x, int batch, int row, int column)
{
    return batch * x->batch + row * x->row + column * x->column;
}

/* Whether the elements have the first places, one each. */
static bool fills_range(const struct symm_operand *x)
{
    bool used[PLACES] = {false};

    for (int i = 0; i < x->l * x->rows * x->columns; i++) {
        const int64_t at =
            place(&x->matrix, i / x->columns / x->rows, i / x->columns % x->rows, i % x->columns);
        if (at < 0 || at >= x->l * x->rows * x->columns || used[at])
            return false;
        used[at] = true;
    }
    return true;
}

static bool has_lines(const struct symm_operand *x)
{
    return x->l * x->rows * x->columns == x->l || (x->columns > 1 && x->matrix.column == 1) ||
           (x->rows > 1 && x->matrix.row == 1);
}

TEST_GROUP(dense, 20);

/* All strides that a dense matrix may have, and others. Strides of extents of 1 are anything. */
TEST_LOOP(dense, an_order_is_found_if_there_is_one, 0, PLACES)
{
    struct symm_operand x = {.matrix = {.dtype = SYMM_FLOAT16},
                             .l = 1 + _i / MOST / MOST,
                             .rows = 1 + _i / MOST % MOST,
                             .columns = 1 + _i % MOST};
    int found = 0;

    for (int64_t s = 0; s < 17 * 17 * 17; s++) {
        x.matrix.batch = s / 17 / 17;
        x.matrix.row = s / 17 % 17;
        x.matrix.column = s % 17;
        const int order = symm__dense_order(&x);
        if (order < 0) {
            ck_assert(!fills_range(&x) || !has_lines(&x));
            continue;
        }
        const symm_matrix dense = symm__dense_matrix(order, SYMM_FLOAT16, x.l, x.rows, x.columns);
        ck_assert(fills_range(&x));
        ck_assert_uint_eq(dense.dtype, SYMM_FLOAT16);
        ck_assert_int_eq(place(&dense, x.l - 1, x.rows / 2, x.columns / 3),
                         place(&x.matrix, x.l - 1, x.rows / 2, x.columns / 3));
        found++;
    }
    ck_assert_int_gt(found, 0);
}

TEST(dense, row_major_is_the_first)
{
    const symm_matrix x = symm__dense_matrix(SYMM_DENSE_BY_ROWS, SYMM_FLOAT32, 3, 5, 7);

    ck_assert(x.batch == 35 && x.row == 7 && x.column == 1 && !x.data);
    ck_assert_int_eq(symm__dense_order(&(struct symm_operand){{.row = 9, .column = 9}, 1, 1, 1}),
                     SYMM_DENSE_BY_ROWS);
}
