/* Descriptions of products: what is read out of good ones, and what is said of bad ones. */
#include "matmul/plan/problem.h"
#include <string.h>
#include "test.h"

/* [rows, columns], one row after the other. */
static symm_tensor matrix(symm_dtype dtype, int64_t rows, int64_t columns)
{
    return (symm_tensor){
        .dtype = dtype, .ndim = 2, .shape = {rows, columns}, .strides = {columns, 1}};
}

static symm_tensor matrices(symm_dtype dtype, int64_t l, int64_t rows, int64_t columns)
{
    return (symm_tensor){.dtype = dtype,
                         .ndim = 3,
                         .shape = {l, rows, columns},
                         .strides = {rows * columns, columns, 1}};
}

/* Rank 1's of 3 ranks: m 8, of which it has 3 rows, k 5, l 2; n 4 and 6. */
enum { RANK = 1, NRANKS = 3 };

enum { MOST = INT32_MAX - 1023 /* of each extent */ };

static symm_matmul_desc good(void)
{
    return (symm_matmul_desc){
        .kind = SYMM_ALL_GATHER_MATMUL,
        .nb = 2,
        .a = matrices(SYMM_FLOAT16, 2, 3, 5),
        .b = {matrices(SYMM_FLOAT16, 2, 5, 4), matrices(SYMM_FLOAT16, 2, 5, 6)},
        .c = {matrices(SYMM_BFLOAT16, 2, 8, 4)},
        .d = {matrices(SYMM_FLOAT32, 2, 8, 4), matrices(SYMM_FLOAT16, 2, 8, 6)},
        .bias = {matrices(SYMM_FLOAT32, 2, 1, 4), matrix(SYMM_FLOAT32, 1, 6)},
        .gathered_a = matrices(SYMM_FLOAT16, 2, 8, 5),
    };
}

static void assert_reads(const symm_matmul_desc *desc, struct symm_problem *out)
{
    const symm_status st = symm__problem_read(desc, RANK, NRANKS, out);

    ck_assert_msg(st == SYMM_OK, "%s: %s", symm_status_name(st), symm_error_text());
}

TEST_GROUP(problem, 30);

TEST(problem, a_description_is_read)
{
    const symm_matmul_desc desc = good();
    struct symm_problem p;

    assert_reads(&desc, &p);
    ck_assert_int_eq(p.m, 8);
    ck_assert_int_eq(p.k, 5);
    ck_assert_int_eq(p.l, 2);
    ck_assert_int_eq(p.nb, 2);
    ck_assert_int_eq(p.n[0], 4);
    ck_assert_int_eq(p.n[1], 6);
    ck_assert_int_eq(p.dtype, SYMM_FLOAT16);
    ck_assert_int_eq(p.rank, RANK);
    ck_assert_int_eq(p.nranks, NRANKS);
    ck_assert_int_eq(symm__problem_columns(&p), 10);
    ck_assert_int_eq(p.a.matrix.batch, 15);
    ck_assert_int_eq(p.a.matrix.row, 5);
    ck_assert_int_eq(p.a.matrix.column, 1);
    ck_assert_int_eq(p.bias[0].matrix.batch, 4);
    ck_assert_int_eq(p.bias[1].matrix.batch, 0);
    ck_assert_int_eq(p.c[1].matrix.dtype, 0);
    ck_assert_int_eq(p.gathered_a.rows, 8);
}

TEST(problem, nb_of_0_is_one_product_and_two_dimensions_one_batch)
{
    const symm_matmul_desc desc = {
        .a = matrix(SYMM_BFLOAT16, 7, 3),
        .b = {matrix(SYMM_BFLOAT16, 3, 2)},
        .d = {matrix(SYMM_BFLOAT16, 7, 2)},
        .bias = {{.dtype = SYMM_BFLOAT16, .ndim = 1, .shape = {2}, .strides = {3}}}};
    struct symm_problem p;

    assert_reads(&desc, &p);
    ck_assert_int_eq(p.nb, 1);
    ck_assert_int_eq(p.l, 1);
    ck_assert_int_eq(p.rank, 0);
    ck_assert_int_eq(p.nranks, 1);
    ck_assert_int_eq(p.bias[0].matrix.column, 3);
}

TEST(problem, ranks_share_rows_as_evenly_as_it_goes)
{
    for (int32_t m = 1; m < 40; m++)
        for (int nranks = 1; nranks < 12; nranks++) {
            int32_t sum = 0, last = m;
            for (int r = 0; r < nranks; r++) {
                const int32_t rows = symm__rows_of_rank(m, nranks, r);
                ck_assert_int_le(rows, last);
                last = rows;
                sum += rows;
            }
            ck_assert_int_eq(sum, m);
            ck_assert_int_le(symm__rows_of_rank(m, nranks, 0) - last, 1);
        }
}

/* --------------------------------------------------------------------------- what does not fit */

/* What is made wrong of a good description. */
static void no_kind(symm_matmul_desc *d)
{
    d->kind = (symm_matmul_kind)7;
}
static void negative_kind(symm_matmul_desc *d)
{
    d->kind = (symm_matmul_kind)-1;
}
static void no_strategy(symm_matmul_desc *d)
{
    d->strategy = (symm_strategy)4;
}
static void negative_strategy(symm_matmul_desc *d)
{
    d->strategy = (symm_strategy)-1;
}
static void no_activation(symm_matmul_desc *d)
{
    d->activation = (symm_activation)3;
}
static void many_b(symm_matmul_desc *d)
{
    d->nb = 5;
}
static void very_many_b(symm_matmul_desc *d)
{
    d->nb = 1 << 30;
}
static void negative_nb(symm_matmul_desc *d)
{
    d->nb = -1;
}
static void reserved(symm_matmul_desc *d)
{
    d->reserved[7] = 12;
}
static void plain_strategy(symm_matmul_desc *d)
{
    d->kind = SYMM_MATMUL;
    d->strategy = SYMM_STRATEGY_FUSED;
}
static void plain_gathered(symm_matmul_desc *d)
{
    d->kind = SYMM_MATMUL;
}
static void no_a(symm_matmul_desc *d)
{
    d->a = (symm_tensor){0};
}
static void float_a(symm_matmul_desc *d)
{
    d->a.dtype = SYMM_FLOAT32;
}
static void int_a(symm_matmul_desc *d)
{
    d->a.dtype = SYMM_INT32;
}
static void other_b(symm_matmul_desc *d)
{
    d->b[1].dtype = SYMM_BFLOAT16;
}
static void missing_b(symm_matmul_desc *d)
{
    d->b[1] = (symm_tensor){0};
}
static void b_past_nb(symm_matmul_desc *d)
{
    d->b[2] = d->b[1];
}
static void c_past_nb(symm_matmul_desc *d)
{
    d->c[3] = d->c[0];
}
static void d_past_nb(symm_matmul_desc *d)
{
    d->d[2] = d->d[1];
}
static void bias_past_nb(symm_matmul_desc *d)
{
    d->bias[3].dtype = (symm_dtype)77;
}
static void past_one(symm_matmul_desc *d)
{
    d->nb = 0;
}
static void missing_d(symm_matmul_desc *d)
{
    d->d[1] = (symm_tensor){0};
}
static void int_d(symm_matmul_desc *d)
{
    d->d[0].dtype = SYMM_INT32;
}
static void double_c(symm_matmul_desc *d)
{
    d->c[0].dtype = SYMM_FLOAT64;
}
static void odd_bias(symm_matmul_desc *d)
{
    d->bias[1].dtype = (symm_dtype)99;
}
static void flat_a(symm_matmul_desc *d)
{
    d->a.ndim = 1;
}
static void deep_d(symm_matmul_desc *d)
{
    d->d[0].ndim = 4;
}
static void scalar_bias(symm_matmul_desc *d)
{
    d->bias[0].ndim = 0;
}
static void negative_extent(symm_matmul_desc *d)
{
    d->b[0].shape[1] = -5;
}
static void negative_stride(symm_matmul_desc *d)
{
    d->b[0].strides[2] = -1;
}
static void wide_stride(symm_matmul_desc *d)
{
    d->c[0].strides[0] = INT64_MAX / 3;
}
static void huge_extent(symm_matmul_desc *d)
{
    d->d[0].shape[2] = INT64_C(1) << 31;
}
/* A tile behind the last row or column would have no number. */
static void m_without_room(symm_matmul_desc *d)
{
    d->d[0].shape[1] = MOST + 1;
}
static void n_without_room(symm_matmul_desc *d)
{
    d->d[1].shape[2] = INT32_MAX;
}
static void k_without_room(symm_matmul_desc *d)
{
    d->a.shape[2] = MOST + 1;
}
static void l_without_room(symm_matmul_desc *d)
{
    d->a.shape[0] = MOST + 1;
}
/* So many batches of rows * NRANKS rows, with strides of 0. */
static symm_matmul_desc tall(int64_t l, int64_t rows, int64_t k)
{
    symm_matmul_desc d = {.kind = SYMM_ALL_GATHER_MATMUL,
                          .a = {.dtype = SYMM_FLOAT16, .ndim = 3, .shape = {l, rows, k}},
                          .b = {{.dtype = SYMM_FLOAT16, .ndim = 3, .shape = {l, k, 1}}},
                          .d = {matrices(SYMM_FLOAT16, l, rows * NRANKS, 1)}};

    return d;
}
static void many_rows_of_a_shard(symm_matmul_desc *d)
{
    *d = tall(INT64_C(1) << 21, 1024, 1);
}
static void huge_workspace(symm_matmul_desc *d)
{
    *d = tall(1000, 1 << 20, MOST);
}
static void wrong_rows(symm_matmul_desc *d)
{
    d->a.shape[1] = 2;
}
static void no_rows(symm_matmul_desc *d)
{
    d->d[0].shape[1] = 0;
}
static void no_k(symm_matmul_desc *d)
{
    d->a.shape[2] = 0;
}
static void no_batch(symm_matmul_desc *d)
{
    d->a.shape[0] = 0;
}
static void no_columns(symm_matmul_desc *d)
{
    d->d[1].shape[2] = 0;
}
static void wrong_k(symm_matmul_desc *d)
{
    d->b[0].shape[1] = 6;
}
static void wrong_n(symm_matmul_desc *d)
{
    d->b[1].shape[2] = 4;
}
static void wrong_m(symm_matmul_desc *d)
{
    d->d[1].shape[1] = 7;
}
static void wrong_l(symm_matmul_desc *d)
{
    d->b[0].shape[0] = 1;
}
static void wrong_c(symm_matmul_desc *d)
{
    d->c[0].shape[1] = 1;
}
static void wrong_bias(symm_matmul_desc *d)
{
    d->bias[0].shape[2] = 5;
}
static void rows_of_bias(symm_matmul_desc *d)
{
    d->bias[1].shape[0] = 8;
}
static void batches_of_bias(symm_matmul_desc *d)
{
    d->bias[0].shape[0] = 3;
}
static void wrong_gathered(symm_matmul_desc *d)
{
    d->gathered_a.shape[1] = 3;
}
static void other_gathered(symm_matmul_desc *d)
{
    d->gathered_a.dtype = SYMM_BFLOAT16;
}
static void folded_d(symm_matmul_desc *d)
{
    d->d[0].strides[1] = 0;
}
static void crossed_d(symm_matmul_desc *d)
{
    d->d[1].strides[1] = 5;
}
static void folded_gathered(symm_matmul_desc *d)
{
    d->gathered_a.strides[0] = 39;
}
static void many_tiles(symm_matmul_desc *d)
{
    *d = (symm_matmul_desc){.a = matrix(SYMM_FLOAT16, MOST, 1),
                            .b = {matrix(SYMM_FLOAT16, 1, 1 << 26)},
                            .d = {matrix(SYMM_FLOAT16, MOST, 1 << 26)}};
}

static const struct {
    void (*make)(symm_matmul_desc *desc);
    const char *parts[2];
    symm_status status; /* 0: ERROR_ARGUMENT */
} bad[] = {
    {no_kind, {"kind is 7"}, 0},
    {negative_kind, {"kind is -1"}, 0},
    {no_strategy, {"strategy is 4"}, 0},
    {negative_strategy, {"strategy is -1"}, 0},
    {no_activation, {"activation is 3"}, 0},
    {many_b, {"nb is 5", "0 to 4"}, 0},
    {very_many_b, {"nb is 1073741824"}, 0},
    {negative_nb, {"nb is -1"}, 0},
    {reserved, {"reserved[7] is 12"}, 0},
    {plain_strategy, {"strategy is 1", "AUTO"}, 0},
    {plain_gathered, {"gathered_a"}, 0},
    {no_a, {"a.dtype is 0"}, 0},
    {float_a, {"a.dtype is float32", "float16 or bfloat16"}, 0},
    {int_a, {"a.dtype is int32"}, 0},
    {other_b, {"b[1].dtype is bfloat16", "float16"}, 0},
    {missing_b, {"b[1].dtype is 0"}, 0},
    {missing_d, {"d[1].dtype is 0"}, 0},
    {b_past_nb, {"b[2] is given", "nb is 2"}, 0},
    {c_past_nb, {"c[3] is given", "nb is 2"}, 0},
    {d_past_nb, {"d[2] is given", "nb is 2"}, 0},
    {bias_past_nb, {"bias[3] is given", "nb is 2"}, 0},
    {past_one, {"b[1] is given", "nb is 0"}, 0},
    {int_d, {"d[0].dtype is int32"}, 0},
    {double_c, {"c[0].dtype is float64"}, 0},
    {odd_bias, {"bias[1].dtype is 99"}, 0},
    {flat_a, {"a.ndim is 1", "2 to 3"}, 0},
    {deep_d, {"d[0].ndim is 4", "2 to 3"}, 0},
    {scalar_bias, {"bias[0].ndim is 0", "1 to 3"}, 0},
    {negative_extent, {"b[0].shape[1] is -5"}, 0},
    {negative_stride, {"b[0].strides[2] is -1"}, 0},
    {wide_stride, {"c[0].strides[0] is 3074457345618258602", "overflows"}, 0},
    {huge_extent, {"d[0].shape[2] is 2147483648", "2147482624"}, SYMM_ERROR_UNSUPPORTED},
    {m_without_room, {"d[0].shape[1] is 2147482625", "2147482624"}, SYMM_ERROR_UNSUPPORTED},
    {n_without_room, {"d[1].shape[2] is 2147483647", "2147482624"}, SYMM_ERROR_UNSUPPORTED},
    {k_without_room, {"a.shape[2] is 2147482625", "2147482624"}, SYMM_ERROR_UNSUPPORTED},
    {l_without_room, {"a.shape[0] is 2147482625", "2147482624"}, SYMM_ERROR_UNSUPPORTED},
    {many_rows_of_a_shard, {"m 3072 and l 2097152 give a rank 2147483648"}, SYMM_ERROR_UNSUPPORTED},
    {huge_workspace, {"the workspace of m 3145728, k 2147482624, l 1000"}, SYMM_ERROR_MEMORY},
    {wrong_rows, {"a is 2 x [2, 5]", "2 x [3, 5]"}, 0},
    {no_rows, {"d[0] has 0 rows"}, 0},
    {no_k, {"a has 0 columns"}, 0},
    {no_batch, {"l is 0"}, 0},
    {no_columns, {"d[1] has 0 columns"}, 0},
    {wrong_k, {"b[0] is 2 x [6, 4]", "2 x [5, 4]"}, 0},
    {wrong_n, {"b[1] is 2 x [5, 4]", "2 x [5, 6]"}, 0},
    {wrong_m, {"d[1] is 2 x [7, 6]", "2 x [8, 6]"}, 0},
    {wrong_l, {"b[0] is 1 x [5, 4]", "2 x [5, 4]"}, 0},
    {wrong_c, {"c[0] is 2 x [1, 4]", "2 x [8, 4]"}, 0},
    {wrong_bias, {"bias[0] is 2 x [1, 5]", "2 x [1, 4]"}, 0},
    {rows_of_bias, {"bias[1] is 1 x [8, 6]", "[1, 6]"}, 0},
    {batches_of_bias, {"bias[0] is 3 x [1, 4]", "2 x [1, 4]"}, 0},
    {wrong_gathered, {"gathered_a is 2 x [3, 5]", "2 x [8, 5]"}, 0},
    {other_gathered, {"gathered_a.dtype is bfloat16", "float16"}, 0},
    {folded_d, {"d[0] has strides 32, 0, 1", "overlap"}, 0},
    {crossed_d, {"d[1] has strides 48, 5, 1", "overlap"}, 0},
    {folded_gathered, {"gathered_a has strides 39, 5, 1", "overlap"}, 0},
    {many_tiles, {"m 2147482624 with 67108864 columns"}, SYMM_ERROR_UNSUPPORTED},
};
enum { NBAD = sizeof bad / sizeof bad[0] };

TEST_LOOP(problem, what_does_not_fit_is_named_with_its_value, 0, NBAD)
{
    const symm_status want = bad[_i].status ? bad[_i].status : SYMM_ERROR_ARGUMENT;
    symm_matmul_desc desc = good();
    struct symm_problem p;

    bad[_i].make(&desc);
    const symm_status st = symm__problem_read(&desc, RANK, NRANKS, &p);
    ck_assert_msg(st == want, "%s: %s", symm_status_name(st), symm_error_text());
    for (int i = 0; i < 2 && bad[_i].parts[i]; i++)
        ck_assert_msg(strstr(symm_error_text(), bad[_i].parts[i]), "no \"%s\" in: %s",
                      bad[_i].parts[i], symm_error_text());
    /* What could be read is fit to be compared with the other ranks'. */
    ck_assert_int_le(p.nb, SYMM_MATMUL_MAX_B);
    symm__problem_columns(&p);
}

TEST(problem, a_description_must_be_there)
{
    struct symm_problem p;

    ck_assert_int_eq(symm__problem_read(NULL, 0, 1, &p), SYMM_ERROR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(symm_error_text(), "desc is NULL"));
    ck_assert_int_eq(symm__problem_columns(&p), 0);
}

/* Unusual, and right. */
static void no_rows_here(symm_matmul_desc *d)
{
    *d = (symm_matmul_desc){.kind = SYMM_ALL_GATHER_MATMUL,
                            .a = matrix(SYMM_FLOAT16, 0, 5),
                            .b = {matrix(SYMM_FLOAT16, 5, 1)},
                            .d = {matrix(SYMM_FLOAT16, 1, 1)}};
}
static void broadcast(symm_matmul_desc *d)
{
    memset(d->b[0].strides, 0, sizeof d->b[0].strides);
    memset(d->c[0].strides, 0, sizeof d->c[0].strides);
    memset(d->a.strides, 0, sizeof d->a.strides);
}
static void strides_that_do_not_matter(symm_matmul_desc *d)
{
    *d = (symm_matmul_desc){.a = matrices(SYMM_FLOAT16, 1, 1, 1),
                            .b = {matrices(SYMM_FLOAT16, 1, 1, 1)},
                            .d = {matrices(SYMM_FLOAT16, 1, 1, 1)}};
    memset(d->d[0].strides, 0, sizeof d->d[0].strides);
    d->a.strides[0] = INT64_MAX;
}
static void batches_between_rows(symm_matmul_desc *d)
{
    d->d[0].strides[0] = 4;
    d->d[0].strides[1] = 8;
}
static void columns_first(symm_matmul_desc *d)
{
    d->d[1].strides[1] = 1;
    d->d[1].strides[2] = 8;
}
static void what_is_not_used(symm_matmul_desc *d)
{
    d->b[2].ndim = 77; /* beyond nb */
    d->c[1].ndim = -3; /* dtype 0 */
}

static void (*const unusual[])(symm_matmul_desc *desc) = {
    no_rows_here,         broadcast,     strides_that_do_not_matter,
    batches_between_rows, columns_first, what_is_not_used};
enum { NUNUSUAL = sizeof unusual / sizeof unusual[0] };

TEST_LOOP(problem, what_is_unusual_is_read, 0, NUNUSUAL)
{
    symm_matmul_desc desc = good();
    struct symm_problem p;

    unusual[_i](&desc);
    assert_reads(&desc, &p);
}
