/* How products go: strategies, chunks, grids. */
#include "matmul/plan.h"
#include "reference.h"
#include "test.h"

enum { TILE = 128, ENGINE = SYMM_MATMUL_ENGINE_NBYTES };

static const struct symm_matmul_machine h200 = {.nsms = 132, .max_threads = 1024};

static struct symm_problem problem(int32_t m, int32_t k, int32_t l, int nranks,
                                   symm_strategy strategy)
{
    return (struct symm_problem){.kind = SYMM_ALL_GATHER_MATMUL,
                                 .strategy = strategy,
                                 .dtype = SYMM_BFLOAT16,
                                 .m = m,
                                 .k = k,
                                 .l = l,
                                 .nb = 1,
                                 .n = {64},
                                 .rank = nranks - 1,
                                 .nranks = nranks};
}

static void assert_plan(const struct symm_matmul_machine *machine, const struct symm_problem *p)
{
    const struct symm_matmul_plan plan = symm__matmul_plan(machine, p, p->n[0]);
    const uint64_t rows = (uint64_t)((p->m + p->nranks - 1) / p->nranks) * (uint64_t)p->l;

    ck_assert_uint_ge(plan.blocks, 1);
    ck_assert_uint_ge(plan.threads, 1);
    ck_assert_uint_le(plan.threads, (uint32_t)machine->max_threads);
    if (p->nranks == 1) {
        ck_assert_int_eq(plan.strategy, SYMM_STRATEGY_AUTO);
        ck_assert_uint_eq(plan.workspace_nbytes, 0);
        ck_assert_int_eq(plan.parts, 0);
        ck_assert_uint_eq(plan.chunk_rows, 0);
        return;
    }
    if (p->strategy == SYMM_STRATEGY_AUTO)
        ck_assert_int_ne(plan.strategy, SYMM_STRATEGY_AUTO);
    else
        ck_assert_int_eq(plan.strategy, p->strategy);
    /* Rows begin at multiples of 16 bytes, and there is room for all of A. */
    ck_assert_int_eq(plan.ld % 8, 0);
    ck_assert_int_ge(plan.ld, p->k);
    ck_assert_int_lt(plan.ld, (int64_t)p->k + 8);
    ck_assert_uint_eq(plan.slab_nbytes, rows * (uint64_t)plan.ld * 2);
    ck_assert_uint_eq(plan.workspace_nbytes, plan.slab_nbytes * (uint64_t)p->nranks);
    if (plan.strategy == SYMM_STRATEGY_UNFUSED) { /* nothing is on its way */
        ck_assert_int_eq(plan.parts, 0);
        ck_assert_uint_eq(plan.chunk_rows, 0);
        ck_assert_uint_eq(plan.chunks, 0);
        return;
    }
    ck_assert_int_ge(plan.parts, 1);
    ck_assert_uint_ge(plan.chunk_rows, TILE);
    ck_assert_uint_eq(plan.chunk_rows % TILE, 0);
    ck_assert_uint_ge(plan.chunks * (uint64_t)plan.chunk_rows, rows);
    ck_assert_uint_lt((plan.chunks - 1) * (uint64_t)plan.chunk_rows, rows);
    /* A chunk is no larger than there are rows, but for the whole tile at its end. */
    ck_assert_uint_lt(plan.chunk_rows, rows + TILE);
    ck_assert_int_eq(plan.by_engine, machine->wgmma || plan.slab_nbytes >= ENGINE);
    if (plan.by_engine) {
        ck_assert_int_eq(plan.parts, 1);
        ck_assert(plan.chunks == 1 ||
                  plan.chunk_rows * (uint64_t)plan.ld * 2 >= SYMM_MATMUL_CHUNK_NBYTES);
    }
}

START_TEST(every_plan_is_sound)
{
    for (uint64_t i = 0; i < 200000; i++) {
        const uint64_t u = reference_random(1, i), v = reference_random(2, i);
        const struct symm_matmul_machine machine = {
            .nsms = 1 + (int)(u % 140), .max_threads = 1 << u / 140 % 11, .wgmma = u >> 40 & 1};
        const struct symm_problem p = problem(
            1 + (int32_t)((v & 0x7ffff) >> (u >> 20) % 19),
            1 + (int32_t)((v >> 20 & 0x1ffff) >> (u >> 28) % 17), 1 + (int32_t)(v >> 40 & 3),
            1 + (int)(v >> 44) % SYMM_MAX_RANKS, (symm_strategy)(v >> 56 & 3));
        assert_plan(&machine, &p);
    }
}
END_TEST

/* One multiprocessor stays free where there is more than one. */
START_TEST(products_leave_a_multiprocessor_free)
{
    const struct symm_problem p = problem(4096, 4096, 1, 8, SYMM_STRATEGY_FUSED);

    for (int nsms = 1; nsms <= 132; nsms++) {
        const struct symm_matmul_machine machine = {.nsms = nsms, .max_threads = 1024};
        ck_assert_uint_eq(symm__matmul_plan(&machine, &p, 64).blocks,
                          nsms == 1 ? 1 : (uint32_t)nsms - 1);
    }
}
END_TEST

/* What a rank has and what it does: the others must come to the same. */
START_TEST(all_ranks_come_to_the_same_plan)
{
    for (uint64_t i = 0; i < 2000; i++) {
        const uint64_t u = reference_random(3, i);
        const int nranks = 2 + (int)(u % 7);
        struct symm_problem p =
            problem(1 + (int32_t)(u >> 8 & 0xffff), 1 + (int32_t)(u >> 32 & 0xfff), 1, nranks,
                    SYMM_STRATEGY_AUTO);
        const struct symm_matmul_plan first = symm__matmul_plan(&h200, &p, 1000);
        for (p.rank = 0; p.rank < nranks; p.rank++) {
            p.n[0] = 1 + p.rank; /* columns differ: that of all is given */
            p.a.rows = symm__problem_rows(p.m, nranks, p.rank);
            const struct symm_matmul_plan plan = symm__matmul_plan(&h200, &p, 1000);
            ck_assert_int_eq(plan.strategy, first.strategy);
            ck_assert_int_eq(plan.by_engine, first.by_engine);
            ck_assert_int_eq(plan.parts, first.parts);
            ck_assert_uint_eq(plan.chunk_rows, first.chunk_rows);
            ck_assert_int_eq(plan.ld, first.ld);
            ck_assert_uint_eq(plan.slab_nbytes, first.slab_nbytes);
        }
    }
}
END_TEST

START_TEST(a_setting_says_when_copy_engines_send)
{
    struct symm_matmul_machine machine = h200;
    const struct symm_problem p = problem(1024, 64, 1, 4, SYMM_STRATEGY_FUSED);
    const uint64_t slab = symm__matmul_plan(&machine, &p, 64).slab_nbytes;

    ck_assert_uint_eq(slab, 256 * 64 * 2);
    ck_assert(!symm__matmul_plan(&machine, &p, 64).by_engine);
    machine.engine_nbytes = slab;
    ck_assert(symm__matmul_plan(&machine, &p, 64).by_engine);
    machine.engine_nbytes = slab + 1;
    ck_assert(!symm__matmul_plan(&machine, &p, 64).by_engine);
}
END_TEST

/* So that the others' products begin early; but copies are large. */
START_TEST(many_rows_come_in_chunks)
{
    const struct symm_problem blocks = problem(4000, 64, 1, 2, SYMM_STRATEGY_FUSED),
                              large = problem(1 << 18, 4096, 1, 8, SYMM_STRATEGY_PIPELINED),
                              small = problem(4096, 4096, 1, 2, SYMM_STRATEGY_FUSED);

    ck_assert_uint_eq(symm__matmul_plan(&h200, &blocks, 64).chunk_rows, 512);
    ck_assert_uint_eq(symm__matmul_plan(&h200, &large, 64).chunk_rows, 4096);
    ck_assert_uint_eq(symm__matmul_plan(&h200, &small, 64).chunk_rows, 2048);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("matmul_plan");
    TCase *tc = test_case(suite, "plan", 30);
    tcase_add_test(tc, every_plan_is_sound);
    tcase_add_test(tc, products_leave_a_multiprocessor_free);
    tcase_add_test(tc, all_ranks_come_to_the_same_plan);
    tcase_add_test(tc, a_setting_says_when_copy_engines_send);
    tcase_add_test(tc, many_rows_come_in_chunks);
    return test_main(suite);
}
