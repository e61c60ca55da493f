/* The check of products that symm-bench relies on: it finds what is wrong, and nothing else. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "oracle/parallel.h"
#include "oracle/products.h"
#include "test.h"

enum { M = 48, N = 33, L = 2, LEFT_OUT = 64 };

static struct products p;
static char *d;
static bool b_by_columns, d_by_columns;

static const struct element *type(int i)
{
    return element_by_dtype(i == 0 ? SYMM_BFLOAT16 : SYMM_FLOAT16);
}

/* Rank 1, or rank 0 if it is alone. */
static void make_of(symm_matmul_kind kind, int nranks, const struct element *e, int m, int n, int k,
                    int l, double beta)
{
    p = (struct products){.kind = kind,
                          .nranks = nranks,
                          .rank = 1 % nranks,
                          .element = e,
                          .m = m,
                          .n = n,
                          .k = k,
                          .l = l,
                          .b_by_columns = b_by_columns,
                          .d_by_columns = d_by_columns,
                          .alpha = 0.75,
                          .beta = beta,
                          .eps = products_eps((int64_t)k * nranks)};
    ck_assert(products_create(&p));
    d = calloc(products_d_count(&p), e->nbytes);
    ck_assert_ptr_nonnull(d);
    products_fill(&p, 17);
    ck_assert(products_refer(&p, 17, 5));
}

static void make(const struct element *e, int m, int n, int k, int l, double beta)
{
    make_of(SYMM_MATMUL, 1, e, m, n, k, l, beta);
}

static void done(void)
{
    products_destroy(&p);
    free(d);
}

static float number(const char *of, size_t at)
{
    union element_number x;

    element_widen(p.element, of + at * p.element->nbytes, &x, 1);
    return (float)x.real;
}

static void set(size_t at, double value)
{
    element_narrow(p.element, &(union element_number){.real = value}, d + at * p.element->nbytes,
                   1);
}

/* One element, its products added in fp32 one after the other, from the last if step is -1. */
static float sum(int l, int row, int column, int from, int to)
{
    float total = 0;
    const int step = from < to ? 1 : -1;

    for (int j = from; j != to; j += step) {
        const size_t in_b = (size_t)(b_by_columns ? column * p.k + j : j * p.n + column);

        total += number(p.a, ((size_t)l * (size_t)p.m + (size_t)row) * (size_t)p.k + (size_t)j) *
                 number(p.b, (size_t)l * (size_t)p.k * (size_t)p.n + in_b);
    }
    return total;
}

/* All of d, of the products from .. to - 1 or backwards. */
static void multiply(int from, int to)
{
    for (int l = 0; l < p.l; l++) {
        for (int row = 0; row < p.m; row++) {
            for (int column = 0; column < p.n; column++) {
                const size_t in_d =
                                 (size_t)(d_by_columns ? column * p.m + row : row * p.n + column),
                             at = (size_t)l * (size_t)p.m * (size_t)p.n + in_d;

                set(at, 0.75 * (double)sum(l, row, column, from, to) +
                            (p.c ? p.beta * (double)number(p.c, at) : 0));
            }
        }
    }
}

static uint64_t wrong(void)
{
    struct products_verdict v;

    products_check(&p, d, 1, &v);
    return v.wrong;
}

TEST_GROUP(products, 60);

TEST_LOOP(products, sums_are_right_in_any_order, 0, 2)
{
    static const int ks[] = {1, 2, 15, 64, 1000};

    for (size_t i = 0; i < sizeof ks / sizeof ks[0]; i++) {
        make(type(_i), M, N, ks[i], L, i % 2 ? -0.5 : 0);
        ck_assert_int_eq(p.step, 1);
        multiply(0, ks[i]);
        ck_assert_uint_eq(wrong(), 0);
        multiply(ks[i] - 1, -1);
        ck_assert_uint_eq(wrong(), 0);
        done();
    }
}

/* Data by columns are other matrices: the check tells them apart. */
TEST_LOOP(products, matrices_may_be_stored_by_columns, 0, 4)
{
    b_by_columns = _i % 2;
    d_by_columns = _i / 2;
    make(type(0), M, N, 20, L, 0.5);
    multiply(0, 20);
    ck_assert_uint_eq(wrong(), 0);
    p.d_by_columns = !p.d_by_columns;
    ck_assert_uint_gt(wrong(), 0);
    p.d_by_columns = d_by_columns;
    p.b_by_columns = !p.b_by_columns;
    ck_assert(products_refer(&p, 17, 5));
    ck_assert_uint_gt(wrong(), 0);
    done();
    b_by_columns = d_by_columns = false;
}

TEST_LOOP(products, one_wrong_element_is_found, 0, 2)
{
    static const size_t at[] = {0, 1, N - 1, N, 7 * N + 20, M * N, (size_t)L * M * N - 1};
    struct products_verdict v;

    make(type(_i), M, N, 100, L, 0.25);
    multiply(0, 100);
    for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) {
        const float right = number(d, at[i]);
        const double values[] = {(double)right + 3 * element_ulp(p.element, (double)right),
                                 (double)right - 3 * element_ulp(p.element, (double)right), NAN,
                                 INFINITY, -(double)right};

        for (size_t j = 0; j < sizeof values / sizeof values[0]; j++) {
            set(at[i], values[j]);
            products_check(&p, d, 1, &v);
            ck_assert_uint_eq(v.wrong, 1);
            ck_assert_int_eq(v.l, (int)(at[i] / (M * N)));
            ck_assert_int_eq(v.row, (int)(at[i] / N % M));
            ck_assert_int_eq(v.column, (int)(at[i] % N));
            ck_assert_double_gt(v.bound, 0);
        }
        set(at[i], (double)right);
        ck_assert_uint_eq(wrong(), 0);
    }
    done();
}

/* A slice of k that is left out, or another seed's data, is found in most elements. */
TEST_LOOP(products, missing_slices_and_stale_data_are_found, 0, 2)
{
    enum { K = 4096 };
    const uint64_t all = M * N;

    make(type(_i), M, N, K, 1, 0);
    multiply(0, K - LEFT_OUT);
    ck_assert_uint_gt(wrong(), all * 8 / 10);
    multiply(0, K);
    ck_assert_uint_eq(wrong(), 0);
    ck_assert(products_refer(&p, 18, 5));
    ck_assert_uint_gt(wrong(), all * 9 / 10);
    done();
}

/* Beyond the largest number of fp16 infinity is right, and nothing else is. */
TEST(products, infinity_is_right_past_the_end_of_the_type)
{
    make(element_by_dtype(SYMM_FLOAT16), 4, 4, 1, 1, 0);
    p.alpha = 1e9;
    for (size_t i = 0; i < 16; i++)
        set(i, 1e9 * (double)number(p.a, i / 4) * (double)number(p.b, i % 4));
    ck_assert_uint_eq(wrong(), 0);
    set(5, 60000);
    ck_assert_uint_eq(wrong(), 1);
    done();
}

/* Too many elements for all of them: one row and one column of each step, others each time. */
TEST(products, a_sample_has_one_of_each_tile)
{
    enum { ROWS = 4001, COLUMNS = 2050 };
    int rows[ROWS], moved = 0;

    make(type(0), ROWS, COLUMNS, 1, 1, 0);
    ck_assert_int_eq(p.step, 2);
    ck_assert_int_eq(p.nrows, (ROWS + 1) / 2);
    for (int i = 0; i < p.nrows; i++) {
        ck_assert_int_eq(p.rows[i] / 2, i);
        rows[i] = p.rows[i];
    }
    for (int i = 0; i < p.ncolumns; i++)
        ck_assert_int_eq(p.columns[i] / 2, i);
    ck_assert_int_le(p.rows[p.nrows - 1], ROWS - 1);
    multiply(0, 1);
    ck_assert_uint_eq(wrong(), 0);
    /* A tile of 2 x 2 cannot be wrong unseen. */
    for (int i = 0; i < 4; i++)
        set((size_t)(1000 + i / 2) * COLUMNS + 600 + (size_t)i % 2, NAN);
    ck_assert_uint_eq(wrong(), 1);
    ck_assert(products_refer(&p, 17, 6));
    for (int i = 0; i < p.nrows; i++)
        moved += p.rows[i] != rows[i];
    ck_assert_int_gt(moved, p.nrows / 3);
    ck_assert_uint_eq(products_compared(&p), (size_t)p.nrows * (size_t)p.ncolumns);
    done();
}

TEST(products, data_are_normal_and_follow_from_the_seed)
{
    const size_t n = (size_t)2 * 201 * 1001;
    double sum = 0, squares = 0, fourth = 0;

    parallel_threads(3);
    make_of(SYMM_ALL_GATHER_MATMUL, 2, type(1), 201, 3, 1001, 2, 1);
    for (size_t i = 0; i < n; i++) {
        const double x = (double)number(p.a, i);

        sum += x;
        squares += x * x;
        fourth += x * x * x * x;
    }
    ck_assert_double_lt(fabs(sum / (double)n), 0.01);
    ck_assert_double_lt(fabs(squares / (double)n - 1), 0.02);
    ck_assert_double_lt(fabs(fourth / (double)n - 3), 0.1);

    char *a = p.a, *b = p.b;
    p.a = malloc(n * 2);
    p.b = malloc(products_b_count(&p) * 2);
    parallel_threads(1);
    products_fill(&p, 17);
    ck_assert_mem_eq(p.a, a, n * 2);
    ck_assert_mem_eq(p.b, b, products_b_count(&p) * 2);
    p.rank = 0;
    products_fill(&p, 17);
    ck_assert_mem_eq(p.a, a, n * 2);
    ck_assert_mem_ne(p.b, b, products_b_count(&p) * 2);
    p.kind = SYMM_MATMUL;
    products_fill(&p, 17);
    ck_assert_mem_ne(p.a, a, n * 2);
    p.kind = SYMM_ALL_GATHER_MATMUL;
    p.rank = 1;
    products_fill(&p, 16);
    ck_assert_mem_ne(p.a, a, n * 2);
    free(a);
    free(b);
    done();
}

/* ----------------------------------------------------------------------- products of many ranks */

enum { RANKS = 3, FEW_ROWS = 11, FEW_COLUMNS = 7, COMMON = 90 };

/* What each rank has, drawn as it would. */
static struct products parts[RANKS];

static void make_parts(void)
{
    for (int r = 0; r < RANKS; r++) {
        parts[r] = p;
        parts[r].rank = r;
        ck_assert(products_create(&parts[r]));
        products_fill(&parts[r], 17);
    }
}

static void free_parts(void)
{
    for (int r = 0; r < RANKS; r++)
        products_destroy(&parts[r]);
}

/* One element of a rank's product, in fp32; row and column are those of its a and b. */
static float product(const struct products *of, int l, int row, int column)
{
    float total = 0;

    for (int j = 0; j < of->k; j++)
        total += number(of->a, (size_t)((l * of->m + row) * of->k + j)) *
                 number(of->b, (size_t)((l * of->k + j) * of->own.columns + column));
    return total;
}

/* x in the type. */
static double rounded(const struct element *e, double x)
{
    union element_number number = {.real = x};
    uint64_t element;

    element_narrow(e, &number, &element, 1);
    element_widen(e, &element, &number, 1);
    return number.real;
}

/* An element of all m x n, from the ranks but `without`; c: of the rank that has the row. */
static double element_of(int l, int row, int column, int without)
{
    double total = 0;
    int owner = p.kind == SYMM_MATMUL_ALL_SCATTER ? share_owner(p.n, RANKS, column)
                                                  : share_owner(p.m, RANKS, row);
    const struct products *at = &parts[owner];
    const size_t i = (size_t)((l * at->own.rows + row - at->own.first_row) * at->own.columns +
                              column - at->own.first_column);

    if (p.kind == SYMM_MATMUL_ALL_SCATTER)
        total = (double)product(at, l, row, column - at->own.first_column);
    for (int r = 0; r < RANKS && p.kind != SYMM_MATMUL_ALL_SCATTER; r++)
        total += r == without ? 0 : rounded(p.partial, (double)product(&parts[r], l, row, column));
    return 0.75 * total + p.beta * (double)number(at->c, i);
}

static void collect(int without)
{
    size_t at = 0;

    for (int l = 0; l < p.l; l++)
        for (int row = 0; row < p.own.rows; row++)
            for (int column = 0; column < p.n; column++, at++)
                set(at, element_of(l, p.own.first_row + row, column, without));
}

static void make_collected(symm_matmul_kind kind, symm_dtype partial)
{
    make_of(kind, RANKS, type(0), FEW_ROWS, FEW_COLUMNS, COMMON, L, 0.5);
    p.partial = element_by_dtype(partial);
    ck_assert(products_refer(&p, 17, 5));
    make_parts();
}

static void drop_collected(void)
{
    free_parts();
    done();
}

TEST_LOOP(products, collected_results_are_right, 0, 9)
{
    static const symm_matmul_kind kinds[] = {SYMM_MATMUL_REDUCE_SCATTER, SYMM_MATMUL_ALL_REDUCE,
                                             SYMM_MATMUL_ALL_SCATTER};
    static const symm_dtype partials[] = {SYMM_BFLOAT16, SYMM_FLOAT16, SYMM_FLOAT32};
    const symm_matmul_kind kind = kinds[_i % 3];

    make_collected(kind, partials[_i / 3]);
    ck_assert_int_eq(p.own.rows, kind == SYMM_MATMUL_REDUCE_SCATTER ? 4 : FEW_ROWS);
    ck_assert_int_eq(p.own.columns, kind == SYMM_MATMUL_ALL_SCATTER ? 2 : FEW_COLUMNS);
    collect(-1);
    ck_assert_uint_eq(wrong(), 0);
    for (int r = 0; r < RANKS && kind != SYMM_MATMUL_ALL_SCATTER; r++) {
        collect(r);
        ck_assert_uint_gt(wrong(), products_compared(&p) * 9 / 10);
    }
    drop_collected();
}

/* Partial sums of fp32 leave no room for those of bf16. */
TEST(products, coarser_partial_sums_are_found)
{
    make_collected(SYMM_MATMUL_ALL_REDUCE, SYMM_FLOAT32);
    p.partial = element_by_dtype(SYMM_BFLOAT16);
    collect(-1);
    ck_assert_uint_gt(wrong(), products_compared(&p) / 4);
    drop_collected();
}

/* Each row has the c of the rank that owns it. */
TEST(products, another_ranks_c_is_found)
{
    make_collected(SYMM_MATMUL_ALL_REDUCE, SYMM_FLOAT32);
    memcpy(parts[0].c, parts[1].c, products_c_count(&p) * p.element->nbytes);
    collect(-1);
    ck_assert_uint_gt(wrong(), (uint64_t)L * 4 * FEW_COLUMNS * 9 / 10); /* of rank 0's rows */
    ck_assert_uint_le(wrong(), (uint64_t)L * 4 * FEW_COLUMNS);
    drop_collected();
}

/* Threads leave stacks in the C library's store; the cases count what they leave. */
void test_setup(void)
{
    parallel_threads(3);
    p = (struct products){
        .element = type(0), .m = 400, .n = 1, .k = 1000, .l = 1, .alpha = 1, .eps = 1};
    if (products_create(&p))
        products_fill(&p, 1);
    products_destroy(&p);
    parallel_threads(1);
}
