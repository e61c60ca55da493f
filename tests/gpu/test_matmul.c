/*
 * symm_matmul on real GPUs: a process each, without multicast. The cases of the emulated driver's
 * test, and larger ones, of many tiles and chunks. Skipped, with the reason, where there is no GPU.
 */
#include <stdlib.h>
#include "gpus.h"
#include "matmul_plan.h"
#include "test.h"

enum { MOST = 4, DRAWN = 60, LIMIT_S = 170 };

static int ngpus;

static void run(int nranks, struct matmul_plan plan)
{
    if (ngpus < nranks)
        TEST_SKIP("%d GPUs; it takes %d", ngpus, nranks);
    ranks_run_ok(nranks, RANKS_AS_PROCESSES, matmul_run_plan, &plan, LIMIT_S);
}

START_TEST(drawn_products_are_right)
{
    run(_i, (struct matmul_plan){.first = 0, .ncases = DRAWN});
}
END_TEST

START_TEST(drawn_products_are_right_with_copy_engines)
{
    setenv("SYMM_MATMUL_ENGINE_BYTES", "1", 1);
    run(_i, (struct matmul_plan){.first = DRAWN, .ncases = DRAWN / 2});
}
END_TEST

/* Whole tiles and not, either layout of the factors, blocks and copy engines. */
static const struct matmul_case large[] = {
    {.m = 512, .k = 1024, .l = 1, .nb = 1, .n = {384}, .contiguous = true},
    {.m = 1000, .k = 777, .l = 1, .nb = 2, .n = {130, 57}, .n_differs = true, .gathered = true},
    {.m = 2048, .k = 4096, .l = 1, .nb = 1, .n = {64}, .contiguous = true},
    {.m = 1500, .k = 2504, .l = 1, .nb = 1, .n = {40}, .gathered = true, .layout = 3},
    {.m = 333, .k = 512, .l = 3, .nb = 3, .n = {128, 129, 1}, .has_bias = true, .layout = 7},
};
enum { NLARGE = sizeof large / sizeof large[0] };

START_TEST(large_products_are_right)
{
    struct matmul_case cases[2 * NLARGE];

    for (int i = 0; i < 2 * NLARGE; i++) {
        cases[i] = large[i / 2];
        cases[i].kind = SYMM_ALL_GATHER_MATMUL;
        cases[i].in = i % 2 ? SYMM_FLOAT16 : SYMM_BFLOAT16;
        cases[i].out = i % 2 ? SYMM_FLOAT16 : SYMM_FLOAT32;
        cases[i].addend = SYMM_FLOAT32;
    }
    run(_i, (struct matmul_plan){.ncases = 2 * NLARGE, .cases = cases});
}
END_TEST

/*
 * Few rows, with and without cuBLASLt: what it may multiply and what it may not, rows that ranks
 * have as many of and rows that they have not.
 */
static const struct matmul_case few[] = {
    {.m = 16, .k = 1024, .l = 1, .n = {384}, .contiguous = true},
    {.m = 1, .k = 4096, .l = 1, .n = {640}, .contiguous = true},
    {.m = 128, .k = 776, .l = 1, .nb = 2, .n = {136, 57}, .contiguous = true, .gathered = true},
    {.m = 512, .k = 512, .l = 1, .n = {256}, .contiguous = true, .has_c = true, .in_place = true},
    {.m = 60, .k = 777, .l = 1, .n = {129}, .contiguous = true, .has_c = true},
    {.m = 500, .k = 200, .l = 1, .n = {72}, .n_differs = true, .contiguous = true},
    {.m = 96, .k = 256, .l = 3, .n = {128}, .contiguous = true, .foreign = true},
    {.m = 24, .k = 520, .l = 1, .n = {264}, .layout = 5},
    {.m = 32, .k = 256, .l = 1, .n = {64}, .contiguous = true, .has_bias = true},
};
enum { NFEW = sizeof few / sizeof few[0] };

START_TEST(few_rows_are_right)
{
    struct matmul_case cases[4 * NFEW];

    for (int i = 0; i < 4 * NFEW; i++) {
        struct matmul_case *c = &cases[i];
        *c = few[i / 4];
        c->kind = i % 2 ? SYMM_MATMUL : SYMM_ALL_GATHER_MATMUL;
        c->gathered = c->gathered && c->kind == SYMM_ALL_GATHER_MATMUL;
        c->nb = c->nb ? c->nb : 1;
        c->in = i % 4 < 2 ? SYMM_BFLOAT16 : SYMM_FLOAT16;
        c->out = c->addend = i % 4 < 2 ? SYMM_BFLOAT16 : SYMM_FLOAT32;
        c->alpha = c->has_c ? 0.5f : 0;
        c->beta = c->has_c ? -2.0f : 0;
    }
    for (int wanted = 0; wanted < 2; wanted++) {
        setenv("SYMM_MATMUL_CUBLAS", wanted ? "1" : "0", 1);
        run(_i, (struct matmul_plan){.ncases = 4 * NFEW, .cases = cases, .any_bits = wanted != 0});
    }
}
END_TEST

START_TEST(drawn_products_are_right_with_cublas)
{
    setenv("SYMM_MATMUL_CUBLAS", "1", 1);
    run(_i, (struct matmul_plan){.first = 2 * DRAWN, .ncases = DRAWN / 2, .any_bits = true});
}
END_TEST

int main(void)
{
    setenv("SYMM_DRIVER", "cuda", 1);
    setenv("SYMM_MATMUL_CUBLAS", "0", 1); /* strategies have the same bits */
    setenv("SYMM_MULTICAST", "0", 1);
    ngpus = gpus_count(MOST);
    Suite *suite = suite_create("gpu matmul");
    /* The driver keeps descriptors, threads and mappings of its own. */
    TCase *right = test_case_uncounted(suite, "right", LIMIT_S + 10);
    tcase_add_loop_test(right, drawn_products_are_right, 1, MOST + 1);
    tcase_add_loop_test(right, drawn_products_are_right_with_copy_engines, 2, MOST + 1);
    tcase_add_loop_test(right, large_products_are_right, 1, MOST + 1);
    tcase_add_loop_test(right, few_rows_are_right, 1, MOST + 1);
    tcase_add_loop_test(right, drawn_products_are_right_with_cublas, 1, MOST + 1);
    return test_main(suite);
}
