/* Descriptions of products: the problem that is read from a right one, the error of a wrong one. */
#include "matmul/plan/problem.h"
#include <string.h>
#include "test.h"

/* [rows, columns], contiguous, row-major. */
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

/* A description of rank 1 of 3: m 8, of which it has 3 rows, k 5, l 2; n 4 and 6. */
enum { RANK = 1, NRANKS = 3 };

enum { MAX = INT32_MAX - 1023 /* of each extent */ };

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

TEST(problem, ranks_share_rows_evenly)
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

/* ------------------------------------------------------------------------- wrong descriptions */

static void assert_refused(const symm_matmul_desc *desc, symm_status want, const char *text)
{
    struct symm_problem p;
    const symm_status st = symm__problem_read(desc, RANK, NRANKS, &p);

    ck_assert_msg(st == want, "%s: %s, not: %s", symm_status_name(st), symm_error_text(), text);
    ck_assert_msg(strstr(symm_error_text(), text), "no \"%s\" in: %s", text, symm_error_text());
    /* The members that were read can be compared with the other ranks'. */
    ck_assert_int_le(p.nb, SYMM_MATMUL_MAX_B);
    symm__problem_columns(&p);
}

/* REFUSED(status, text, edit): good(), edited as `d`, is refused with this text. */
#define REFUSED(status, text, ...)                                                                 \
    do {                                                                                           \
        symm_matmul_desc d = good();                                                               \
        __VA_ARGS__;                                                                               \
        assert_refused(&d, SYMM_ERROR_##status, text);                                             \
    } while (0)

TEST(problem, wrong_enums_and_counts_are_named)
{
    REFUSED(ARGUMENT, "kind is 5", d.kind = (symm_matmul_kind)5);
    REFUSED(ARGUMENT, "kind is -1", d.kind = (symm_matmul_kind)-1);
    REFUSED(ARGUMENT, "strategy is 4", d.strategy = (symm_strategy)4);
    REFUSED(ARGUMENT, "strategy is -1", d.strategy = (symm_strategy)-1);
    REFUSED(ARGUMENT, "schedule is 3", d.schedule = (symm_schedule)3);
    REFUSED(ARGUMENT, "schedule is SYMM_SCHEDULE_STREAM_K, whose bits depend on the shape",
            d.schedule = SYMM_SCHEDULE_STREAM_K, d.flags = SYMM_MATMUL_SAME_BITS);
    REFUSED(ARGUMENT, "activation is 3", d.activation = (symm_activation)3);
    REFUSED(ARGUMENT, "nb is 5; it must be 0 to 4", d.nb = 5);
    REFUSED(ARGUMENT, "nb is 1073741824", d.nb = 1 << 30);
    REFUSED(ARGUMENT, "nb is -1", d.nb = -1);
    REFUSED(ARGUMENT, "reserved[5] is 12", d.reserved[5] = 12);
    REFUSED(ARGUMENT, "flags is 0x19; it may have SYMM_MATMUL_SAME_BITS (0x1)", d.flags = 25);
    REFUSED(ARGUMENT, "flags is 0x7; SYMM_MATMUL_SAME_BITS and SYMM_MATMUL_ANY_ORDER exclude",
            d.flags = 7);
    REFUSED(ARGUMENT, "strategy is 1; SYMM_MATMUL gathers no rows, so it must be AUTO",
            d.kind = SYMM_MATMUL, d.strategy = SYMM_STRATEGY_FUSED);
    REFUSED(ARGUMENT, "gathered_a is given", d.kind = SYMM_MATMUL);
}

TEST(problem, absent_and_surplus_tensors_are_named)
{
    REFUSED(ARGUMENT, "a.dtype is 0", d.a = (symm_tensor){0});
    REFUSED(ARGUMENT, "b[1].dtype is 0", d.b[1] = (symm_tensor){0});
    REFUSED(ARGUMENT, "d[1].dtype is 0", d.d[1] = (symm_tensor){0});
    REFUSED(ARGUMENT, "b[2] is given, but nb is 2", d.b[2] = d.b[1]);
    REFUSED(ARGUMENT, "c[3] is given, but nb is 2", d.c[3] = d.c[0]);
    REFUSED(ARGUMENT, "d[2] is given, but nb is 2", d.d[2] = d.d[1]);
    REFUSED(ARGUMENT, "bias[3] is given, but nb is 2", d.bias[3].dtype = (symm_dtype)77);
    REFUSED(ARGUMENT, "b[1] is given, but nb is 0, which means 1", d.nb = 0);
}

TEST(problem, wrong_types_and_dimensions_are_named)
{
    REFUSED(ARGUMENT, "a.dtype is float32; it must be float16 or bfloat16",
            d.a.dtype = SYMM_FLOAT32);
    REFUSED(ARGUMENT, "a.dtype is int32", d.a.dtype = SYMM_INT32);
    REFUSED(ARGUMENT, "b[1].dtype is bfloat16, but a.dtype is float16",
            d.b[1].dtype = SYMM_BFLOAT16);
    REFUSED(ARGUMENT, "gathered_a.dtype is bfloat16, but a.dtype is float16",
            d.gathered_a.dtype = SYMM_BFLOAT16);
    REFUSED(ARGUMENT, "d[0].dtype is int32", d.d[0].dtype = SYMM_INT32);
    REFUSED(ARGUMENT, "c[0].dtype is float64", d.c[0].dtype = SYMM_FLOAT64);
    REFUSED(ARGUMENT, "bias[1].dtype is 99", d.bias[1].dtype = (symm_dtype)99);
    REFUSED(ARGUMENT, "a.ndim is 1; it must be 2 to 3", d.a.ndim = 1);
    REFUSED(ARGUMENT, "d[0].ndim is 4; it must be 2 to 3", d.d[0].ndim = 4);
    REFUSED(ARGUMENT, "bias[0].ndim is 0; it must be 1 to 3", d.bias[0].ndim = 0);
}

/* l batches of `rows` rows on each rank, with strides of 0. */
static symm_matmul_desc tall(int64_t l, int64_t rows, int64_t k)
{
    symm_matmul_desc d = {.kind = SYMM_ALL_GATHER_MATMUL,
                          .a = {.dtype = SYMM_FLOAT16, .ndim = 3, .shape = {l, rows, k}},
                          .b = {{.dtype = SYMM_FLOAT16, .ndim = 3, .shape = {l, k, 1}}},
                          .d = {matrices(SYMM_FLOAT16, l, rows * NRANKS, 1)}};

    return d;
}

/* Above MAX, a tile behind the last row or column would have no 32-bit index. */
TEST(problem, wrong_extents_and_strides_are_named)
{
    REFUSED(ARGUMENT, "b[0].shape[1] is -5", d.b[0].shape[1] = -5);
    REFUSED(ARGUMENT, "b[0].strides[2] is -1", d.b[0].strides[2] = -1);
    REFUSED(ARGUMENT, "c[0].strides[0] is 3074457345618258602: the size of the tensor overflows",
            d.c[0].strides[0] = INT64_MAX / 3);
    REFUSED(UNSUPPORTED, "d[0].shape[2] is 2147483648; at most 2147482624",
            d.d[0].shape[2] = INT64_C(1) << 31);
    REFUSED(UNSUPPORTED, "d[0].shape[1] is 2147482625; at most 2147482624",
            d.d[0].shape[1] = MAX + 1);
    REFUSED(UNSUPPORTED, "d[1].shape[2] is 2147483647; at most 2147482624",
            d.d[1].shape[2] = INT32_MAX);
    REFUSED(UNSUPPORTED, "a.shape[2] is 2147482625; at most 2147482624", d.a.shape[2] = MAX + 1);
    REFUSED(UNSUPPORTED, "a.shape[0] is 2147482625; at most 2147482624", d.a.shape[0] = MAX + 1);
    REFUSED(UNSUPPORTED, "m 3072 and l 2097152 give a rank 2147483648 rows",
            d = tall(INT64_C(1) << 21, 1024, 1));
    REFUSED(MEMORY, "the workspace of m 3145728, k 2147482624, l 1000",
            d = tall(1000, 1 << 20, MAX));
    REFUSED(UNSUPPORTED, "m 64 with 4096 columns and l 33554432 gives 2^31 tiles",
            d = (symm_matmul_desc){
                .kind = SYMM_MATMUL,
                .a = {.dtype = SYMM_FLOAT16, .ndim = 3, .shape = {1 << 25, 64, 1}},
                .b = {{.dtype = SYMM_FLOAT16, .ndim = 3, .shape = {1 << 25, 1, 4096}}},
                .d = {matrices(SYMM_FLOAT16, 1 << 25, 64, 4096)}});
    REFUSED(UNSUPPORTED, "m 2147482624 with 67108864 columns",
            d = (symm_matmul_desc){.a = matrix(SYMM_FLOAT16, MAX, 1),
                                   .b = {matrix(SYMM_FLOAT16, 1, 1 << 26)},
                                   .d = {matrix(SYMM_FLOAT16, MAX, 1 << 26)}});
}

TEST(problem, shapes_that_do_not_fit_are_named)
{
    REFUSED(ARGUMENT, "d[0] has 0 rows", d.d[0].shape[1] = 0);
    REFUSED(ARGUMENT, "a has 0 columns", d.a.shape[2] = 0);
    REFUSED(ARGUMENT, "l is 0", d.a.shape[0] = 0);
    REFUSED(ARGUMENT, "d[1] has 0 columns", d.d[1].shape[2] = 0);
    REFUSED(ARGUMENT, "a is 2 x [2, 5]; it must be 2 x [3, 5]", d.a.shape[1] = 2);
    REFUSED(ARGUMENT, "b[0] is 2 x [6, 4]; it must be 2 x [5, 4]", d.b[0].shape[1] = 6);
    REFUSED(ARGUMENT, "b[1] is 2 x [5, 4]; it must be 2 x [5, 6]", d.b[1].shape[2] = 4);
    REFUSED(ARGUMENT, "d[1] is 2 x [7, 6]; it must be 2 x [8, 6]", d.d[1].shape[1] = 7);
    REFUSED(ARGUMENT, "b[0] is 1 x [5, 4]; it must be 2 x [5, 4]", d.b[0].shape[0] = 1);
    REFUSED(ARGUMENT, "c[0] is 2 x [1, 4]; it must be 2 x [8, 4]", d.c[0].shape[1] = 1);
    REFUSED(ARGUMENT, "bias[0] is 2 x [1, 5]; it must be 2 x [1, 4]", d.bias[0].shape[2] = 5);
    REFUSED(ARGUMENT, "bias[1] is 1 x [8, 6]; it must be 1 x [1, 6]", d.bias[1].shape[0] = 8);
    REFUSED(ARGUMENT, "bias[0] is 3 x [1, 4]; it must be 2 x [1, 4]", d.bias[0].shape[0] = 3);
    REFUSED(ARGUMENT, "gathered_a is 2 x [3, 5]; it must be 2 x [8, 5]", d.gathered_a.shape[1] = 3);
}

TEST(problem, outputs_whose_elements_overlap_are_named)
{
    REFUSED(ARGUMENT, "d[0] has strides 32, 0, 1: its elements overlap", d.d[0].strides[1] = 0);
    REFUSED(ARGUMENT, "d[1] has strides 48, 5, 1: its elements overlap", d.d[1].strides[1] = 5);
    REFUSED(ARGUMENT, "gathered_a has strides 39, 5, 1: its elements overlap",
            d.gathered_a.strides[0] = 39);
}

/* The same product with its results on all ranks: 3 rows of 8, or 1 of 4 and 2 of 6 columns. */
static symm_matmul_desc collected(symm_matmul_kind kind)
{
    symm_matmul_desc d = good();

    d.kind = kind;
    d.gathered_a = (symm_tensor){0};
    d.a = matrices(SYMM_FLOAT16, 2, 8, 5);
    if (kind == SYMM_MATMUL_REDUCE_SCATTER) {
        d.c[0] = matrices(SYMM_BFLOAT16, 2, 3, 4);
        d.d[0] = matrices(SYMM_FLOAT32, 2, 3, 4);
        d.d[1] = matrices(SYMM_FLOAT16, 2, 3, 6);
    }
    if (kind == SYMM_MATMUL_ALL_SCATTER) {
        d.b[0] = matrices(SYMM_FLOAT16, 2, 5, 1);
        d.b[1] = matrices(SYMM_FLOAT16, 2, 5, 2);
        d.c[0] = matrices(SYMM_BFLOAT16, 2, 8, 1);
        d.bias[0] = matrices(SYMM_FLOAT32, 2, 1, 1);
        d.bias[1] = matrix(SYMM_FLOAT32, 1, 2);
    }
    return d;
}

static const symm_matmul_kind collecting[] = {SYMM_MATMUL_REDUCE_SCATTER, SYMM_MATMUL_ALL_REDUCE,
                                              SYMM_MATMUL_ALL_SCATTER};

TEST_LOOP(problem, a_collected_description_is_read, 0, 3)
{
    symm_matmul_desc desc = collected(collecting[_i]);
    const bool scatters = desc.kind == SYMM_MATMUL_ALL_SCATTER;
    struct symm_problem p;

    assert_reads(&desc, &p);
    ck_assert_int_eq(p.m, 8);
    ck_assert_int_eq(p.n[0], scatters ? 1 : 4);
    ck_assert_int_eq(p.n[1], scatters ? 2 : 6);
    ck_assert_int_eq(p.d[1].columns, 6);
    ck_assert_int_eq(p.nranks, 1);
    ck_assert_int_eq(p.collect_rank, RANK);
    ck_assert_int_eq(p.collect_nranks, NRANKS);
    ck_assert_int_eq(p.partial[0], SYMM_FLOAT32);
    ck_assert_int_eq(p.partial[1], SYMM_FLOAT16);
    if (scatters)
        return;
    desc.partial = SYMM_BFLOAT16;
    assert_reads(&desc, &p);
    ck_assert_int_eq(p.partial[0], SYMM_BFLOAT16);
    ck_assert_int_eq(p.partial[1], SYMM_BFLOAT16);
}

/* Fewer rows than ranks: rank 1 of 3 has none. */
TEST(problem, a_rank_may_have_no_rows_of_a_sum)
{
    const symm_matmul_desc desc = {.kind = SYMM_MATMUL_REDUCE_SCATTER,
                                   .a = matrix(SYMM_FLOAT16, 1, 5),
                                   .b = {matrix(SYMM_FLOAT16, 5, 4)},
                                   .d = {matrix(SYMM_FLOAT32, 0, 4)}};
    struct symm_problem p;

    assert_reads(&desc, &p);
    ck_assert_int_eq(p.m, 1);
}

/* COLLECTED(kind, status, text, edit): REFUSED of a collected description. */
#define COLLECTED(kind, status, text, ...)                                                         \
    REFUSED(status, text, d = collected(SYMM_MATMUL_##kind), __VA_ARGS__)

TEST(problem, wrong_collected_descriptions_are_named)
{
    COLLECTED(REDUCE_SCATTER, ARGUMENT, "a has 0 rows", d.a.shape[1] = 0);
    COLLECTED(REDUCE_SCATTER, ARGUMENT, "d[0] is 2 x [8, 4]; it must be 2 x [3, 4]",
              d.d[0] = matrices(SYMM_FLOAT32, 2, 8, 4));
    COLLECTED(REDUCE_SCATTER, ARGUMENT, "c[0] is 2 x [8, 4]; it must be 2 x [3, 4]",
              d.c[0].shape[1] = 8);
    COLLECTED(ALL_REDUCE, ARGUMENT, "d[1] is 2 x [3, 6]; it must be 2 x [8, 6]",
              d.d[1].shape[1] = 3);
    COLLECTED(ALL_SCATTER, ARGUMENT, "b[1] is 2 x [5, 6]; it must be 2 x [5, 2]",
              d.b[1].shape[2] = 6);
    COLLECTED(ALL_SCATTER, ARGUMENT, "c[0] is 2 x [8, 4]; it must be 2 x [8, 1]",
              d.c[0].shape[2] = 4);
    COLLECTED(ALL_SCATTER, ARGUMENT, "d[0] has 2 columns; it must have at least 3",
              d.d[0].shape[2] = 2);
    COLLECTED(ALL_SCATTER, UNSUPPORTED, "strategy is 2 (pipelined)",
              d.strategy = SYMM_STRATEGY_PIPELINED);
    COLLECTED(ALL_REDUCE, ARGUMENT, "gathered_a is given", d.gathered_a = d.a);
    COLLECTED(ALL_REDUCE, ARGUMENT, "partial is int32", d.partial = SYMM_INT32);
    COLLECTED(ALL_REDUCE, ARGUMENT, "partial is 77", d.partial = (symm_dtype)77);
    COLLECTED(ALL_SCATTER, ARGUMENT, "partial is float32, but kind 4 has no sums over ranks",
              d.partial = SYMM_FLOAT32);
    REFUSED(ARGUMENT, "partial is float32, but kind 1 has no sums", d.partial = SYMM_FLOAT32);
    COLLECTED(
        REDUCE_SCATTER, UNSUPPORTED, "m 2147482624 and l 3 give a rank 6442447872 rows",
        d = (symm_matmul_desc){.kind = SYMM_MATMUL_REDUCE_SCATTER,
                               .a = {.dtype = SYMM_FLOAT16, .ndim = 3, .shape = {3, MAX, 1}},
                               .b = {{.dtype = SYMM_FLOAT16, .ndim = 3, .shape = {3, 1, 1}}},
                               .d = {matrices(SYMM_FLOAT16, 3, MAX / 3 + (MAX % 3 > RANK), 1)}});
}

TEST(problem, a_description_must_be_given)
{
    struct symm_problem p;

    ck_assert_int_eq(symm__problem_read(NULL, 0, 1, &p), SYMM_ERROR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(symm_error_text(), "desc is NULL"));
    ck_assert_int_eq(symm__problem_columns(&p), 0);
}

/* ------------------------------------------------------------------ unusual, right descriptions */

/* READ(edit): good(), edited as `d`, is read. */
#define READ(...)                                                                                  \
    do {                                                                                           \
        symm_matmul_desc d = good();                                                               \
        struct symm_problem p;                                                                     \
        __VA_ARGS__;                                                                               \
        assert_reads(&d, &p);                                                                      \
    } while (0)

TEST(problem, a_rank_may_have_no_rows)
{
    READ(d = (symm_matmul_desc){.kind = SYMM_ALL_GATHER_MATMUL,
                                .a = matrix(SYMM_FLOAT16, 0, 5),
                                .b = {matrix(SYMM_FLOAT16, 5, 1)},
                                .d = {matrix(SYMM_FLOAT16, 1, 1)}});
}

TEST(problem, inputs_may_have_strides_of_0)
{
    static const int64_t none[SYMM_MAX_DIMS];

    READ(memcpy(d.a.strides, none, sizeof none), memcpy(d.b[0].strides, none, sizeof none),
         memcpy(d.c[0].strides, none, sizeof none));
}

TEST(problem, strides_of_single_elements_may_be_anything)
{
    READ(d = (symm_matmul_desc){.a = matrices(SYMM_FLOAT16, 1, 1, 1),
                                .b = {matrices(SYMM_FLOAT16, 1, 1, 1)},
                                .d = {matrices(SYMM_FLOAT16, 1, 1, 1)}};
         d.d[0].strides[0] = d.d[0].strides[1] = d.d[0].strides[2] = 0; d.a.strides[0] = INT64_MAX);
}

TEST(problem, dimensions_may_be_in_any_order_in_memory)
{
    READ(d.d[0].strides[0] = 4, d.d[0].strides[1] = 8);
    READ(d.d[1].strides[1] = 1, d.d[1].strides[2] = 8);
}

TEST(problem, members_of_absent_tensors_are_ignored)
{
    READ(d.b[2].ndim = 77, d.c[1].ndim = -3);
}
