/* Which sums the collectives make, and when AUTO takes an unfused product for it. */
#include <math.h>
#include "collectives/choice.h"
#include "matmul/collect/sums.h"
#include "matmul/plan/plan.h"
#include "test.h"

static const struct symm_limits h200 = {.nranks = 4,
                                        .nsms = 132,
                                        .max_threads = 1024,
                                        .compute_major = 9,
                                        .areas = {.packet_blocks = SYMM_BLOCKS_MAX,
                                                  .block_packets = 4096,
                                                  .block_slots = 4096,
                                                  .staging_nbytes = 64 << 20}};

/* Plain sums of the products of nranks ranks. */
static struct symm_problem problem(symm_matmul_kind kind, int32_t m, int32_t n, int32_t k,
                                   int nranks)
{
    const int32_t rows = kind == SYMM_MATMUL_REDUCE_SCATTER ? m / nranks : m;

    return (struct symm_problem){
        .kind = kind,
        .dtype = SYMM_BFLOAT16,
        .partial = {SYMM_BFLOAT16},
        .m = m,
        .k = k,
        .l = 1,
        .nb = 1,
        .n = {n},
        .nranks = 1,
        .collect_nranks = nranks,
        .d = {{{.row = n, .column = 1, .dtype = SYMM_BFLOAT16}, 1, rows, n}}};
}

TEST_GROUP(sums, 20);

/* ORDER(want, kind, edit): the order of a plain problem p of 12 rows and three ranks, edited. */
#define ORDER(want, which, ...)                                                                    \
    do {                                                                                           \
        struct symm_problem p = problem(SYMM_MATMUL_##which, 12, 5, 8, 3);                         \
        __VA_ARGS__;                                                                               \
        ck_assert_int_eq(symm__sums_order(&p) != 0, want);                                         \
    } while (0)

TEST(sums, collectives_make_plain_ones)
{
    ORDER(true, REDUCE_SCATTER, (void)p);
    ORDER(true, ALL_REDUCE, (void)p);
    ORDER(true, ALL_REDUCE, p.m = p.d[0].rows = 13);
    ORDER(true, ALL_REDUCE, p.d[0].matrix.row = 1, p.d[0].matrix.column = 12);
    ORDER(true, ALL_REDUCE, p.l = p.d[0].l = 2, p.d[0].matrix.batch = 60);
    ORDER(true, ALL_REDUCE, p.nb = 2, p.d[1] = p.d[0], p.partial[1] = p.partial[0]);
}

TEST(sums, the_collecting_kernel_makes_others)
{
    ORDER(false, ALL_SCATTER, (void)p);
    ORDER(false, ALL_REDUCE, p.collect_nranks = 1);
    ORDER(false, ALL_REDUCE, p.same_bits = true);
    ORDER(false, ALL_REDUCE, p.activation = SYMM_GELU);
    ORDER(false, ALL_REDUCE, p.c[0].matrix.dtype = SYMM_BFLOAT16);
    ORDER(false, ALL_REDUCE, p.bias[0].matrix.dtype = SYMM_BFLOAT16);
    ORDER(false, ALL_REDUCE, p.partial[0] = SYMM_FLOAT32);
    ORDER(false, ALL_REDUCE, p.d[0].matrix.row = 6);
    ORDER(false, ALL_REDUCE, p.nb = 2, p.d[1] = p.d[0], p.partial[1] = p.partial[0],
          p.d[0].matrix.row = 6);
    ORDER(false, ALL_REDUCE, p.nb = 2, p.d[1] = p.d[0], p.partial[1] = SYMM_FLOAT16);
    ORDER(false, REDUCE_SCATTER, p.m = 13, p.d[0].rows = 5);
    ORDER(false, REDUCE_SCATTER, p.d[0].matrix.row = 1, p.d[0].matrix.column = 4);
    ORDER(false, REDUCE_SCATTER, p.l = p.d[0].l = 2, p.d[0].matrix.batch = 20);
}

/* Two d, of which either may be by columns. */
TEST(sums, each_order_of_all_d_has_a_number_of_its_own)
{
    int64_t order[4];

    for (int i = 0; i < 4; i++) {
        struct symm_problem p = problem(SYMM_MATMUL_ALL_REDUCE, 12, 5, 8, 3);
        p.nb = 2;
        p.d[1] = p.d[0];
        p.partial[1] = p.partial[0];
        for (int which = 0; which < 2; which++)
            if (i >> which & 1) {
                p.d[which].matrix.row = 1;
                p.d[which].matrix.column = 12;
            }
        order[i] = symm__sums_order(&p);
        ck_assert_int_ne(order[i], 0);
        for (int j = 0; j < i; j++)
            ck_assert_int_ne(order[i], order[j]);
    }
}

/* The model's time of the algorithm that the collective takes, for each d. */
TEST(sums, their_time_is_that_of_the_collectives)
{
    struct symm_problem p = problem(SYMM_MATMUL_REDUCE_SCATTER, 64, 4096, 512, 4);
    const struct symm_collective_call call = {.operation = SYMM_OPERATION_REDUCE_SCATTER,
                                              .flags = SYMM_DETERMINISTIC,
                                              .dtype = SYMM_BFLOAT16,
                                              .op = SYMM_SUM,
                                              .count = 16 * 4096};
    const double us = (double)symm__choice_ns(&h200, &call) / 1000;

    ck_assert(fabs(symm__sums_us(&h200, &p) - us) < 1e-9);
    p.nb = 2;
    p.d[1] = p.d[0];
    p.partial[1] = p.partial[0];
    ck_assert(fabs(symm__sums_us(&h200, &p) - 2 * us) < 1e-9);
}

/* AUTO with cuBLASLt, if the collectives make the sums. */
static const struct {
    symm_matmul_kind kind;
    int32_t m, n, k;
    int nranks;
    symm_strategy best;
} choices[] = {
    {SYMM_MATMUL_REDUCE_SCATTER, 16, 4096, 1792, 2, SYMM_STRATEGY_UNFUSED},
    {SYMM_MATMUL_REDUCE_SCATTER, 128, 4096, 4096, 4, SYMM_STRATEGY_UNFUSED},
    {SYMM_MATMUL_REDUCE_SCATTER, 16384, 4096, 1792, 2, SYMM_STRATEGY_FUSED},
    {SYMM_MATMUL_ALL_REDUCE, 4, 2048, 2048, 2, SYMM_STRATEGY_UNFUSED},
    {SYMM_MATMUL_ALL_REDUCE, 128, 8192, 3584, 8, SYMM_STRATEGY_UNFUSED},
    {SYMM_MATMUL_ALL_REDUCE, 16384, 8192, 3584, 2, SYMM_STRATEGY_FUSED},
};
enum { NCHOICES = sizeof choices / sizeof choices[0] };

TEST_LOOP(sums, auto_is_unfused_for_few_rows, 0, NCHOICES)
{
    const struct symm_problem p =
        problem(choices[_i].kind, choices[_i].m, choices[_i].n, choices[_i].k, choices[_i].nranks);
    struct symm_limits collectives = h200;
    struct symm_matmul_limits limits = {
        .nsms = 132, .max_threads = 1024, .wgmma = true, .cublas = true};

    collectives.nranks = choices[_i].nranks;
    limits.sums_us = symm__sums_us(&collectives, &p);
    const struct symm_matmul_plan plan = symm__matmul_plan_collected(&limits, &p, p.n[0]);
    ck_assert_int_eq(plan.strategy, choices[_i].best);
    ck_assert_int_eq(plan.collective, choices[_i].best == SYMM_STRATEGY_UNFUSED);
}

/* Only an unfused product leaves its sums to the collectives, and only if they can make them. */
TEST(sums, a_strategy_by_name_has_collectives_if_unfused)
{
    struct symm_matmul_limits limits = {
        .nsms = 132, .max_threads = 1024, .wgmma = true, .cublas = true, .sums_us = 1};
    struct symm_problem p = problem(SYMM_MATMUL_ALL_REDUCE, 64, 64, 64, 4);

    for (int s = SYMM_STRATEGY_FUSED; s <= SYMM_STRATEGY_UNFUSED; s++) {
        p.strategy = (symm_strategy)s;
        ck_assert_int_eq(symm__matmul_plan_collected(&limits, &p, 64).collective,
                         s == SYMM_STRATEGY_UNFUSED);
    }
    limits.sums_us = 0;
    ck_assert(!symm__matmul_plan_collected(&limits, &p, 64).collective);
}

/* The time of the sums decides: AUTO never loses to the product and the collective. */
TEST(sums, a_fast_collective_makes_a_product_unfused)
{
    struct symm_matmul_limits limits = {
        .nsms = 132, .max_threads = 1024, .wgmma = true, .cublas = true};
    const struct symm_problem p = problem(SYMM_MATMUL_REDUCE_SCATTER, 4096, 4096, 1792, 2);

    limits.sums_us = 1e-3;
    ck_assert_int_eq(symm__matmul_plan_collected(&limits, &p, 4096).strategy,
                     SYMM_STRATEGY_UNFUSED);
    limits.sums_us = 1e6;
    ck_assert_int_ne(symm__matmul_plan_collected(&limits, &p, 4096).strategy,
                     SYMM_STRATEGY_UNFUSED);
}
