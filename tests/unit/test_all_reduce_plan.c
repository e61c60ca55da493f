/* The rules by which an all-reduce gets its kernel and its grid. */
#include "collectives/all_reduce_plan.h"
#include <stdio.h>
#include <string.h>
#include "test.h"

static const struct symm_all_reduce_machine h200 = {
    .nranks = 8, .nsms = 132, .max_threads = 1024, .compute_major = 9, .staging_nbytes = 8 << 20};

static const symm_algo runs[] = {SYMM_ALGO_ONE_SHOT, SYMM_ALGO_TWO_SHOT, SYMM_ALGO_MULTIMEM,
                                 SYMM_ALGO_MULTIMEM_ONE_SHOT};
static const symm_dtype dtypes[] = {SYMM_FLOAT32, SYMM_FLOAT16, SYMM_BFLOAT16};

static struct symm_all_reduce_plan plan(const struct symm_all_reduce_machine *m, symm_algo algo,
                                        uint64_t count, uint32_t flags, uint32_t max_blocks)
{
    const struct symm_all_reduce_call call = {.algo = algo,
                                              .flags = flags,
                                              .max_blocks = max_blocks,
                                              .dtype = SYMM_BFLOAT16,
                                              .op = SYMM_SUM,
                                              .count = count};
    return symm__all_reduce_plan(m, &call);
}

START_TEST(each_algorithm_gets_the_kernel_of_its_dtype_and_ranks)
{
    struct symm_all_reduce_machine m = h200;
    for (int nranks = 2; nranks <= SYMM_MAX_RANKS; nranks++)
        for (size_t a = 0; a < 4; a++)
            for (size_t d = 0; d < 3; d++) {
                const struct symm_all_reduce_call call = {
                    .algo = runs[a], .dtype = dtypes[d], .op = SYMM_SUM, .count = 1000};
                char want[96];
                m.nranks = nranks;
                const char *name = symm__kernels_name(symm__all_reduce_plan(&m, &call).kernel);
                int n = snprintf(want, sizeof want, "all_reduce_%s_%s", symm__algo_name(runs[a]),
                                 symm__dtype_name(dtypes[d]));
                if (a < 2 && (nranks == 2 || nranks == 4 || nranks == 8))
                    snprintf(want + n, sizeof want - (size_t)n, "_%d", nranks);
                else if (a < 2)
                    snprintf(want + n, sizeof want - (size_t)n, "_n");
                ck_assert_str_eq(name, want);
            }
}
END_TEST

START_TEST(two_groups_fit_on_one_device)
{
    static const int sms[] = {1, 2, 3, 8, 64, 132, 148},
                     threads[] = {1, 3, 31, 32, 33, 64, 1000, 1024};
    struct symm_all_reduce_machine m = h200;
    for (size_t s = 0; s < sizeof sms / sizeof sms[0]; s++)
        for (size_t t = 0; t < sizeof threads / sizeof threads[0]; t++)
            for (int nranks = 2; nranks <= 9; nranks++)
                for (size_t a = 0; a < 4; a++)
                    for (uint64_t count = 1; count < UINT64_C(1) << 40; count = count * 3 + 1) {
                        m.nsms = sms[s];
                        m.max_threads = threads[t];
                        m.nranks = nranks;
                        const struct symm_all_reduce_plan p = plan(&m, runs[a], count, 0, 0);
                        ck_assert_uint_ge(p.blocks, 1);
                        ck_assert_uint_le(p.blocks, SYMM_BLOCKS_MAX);
                        ck_assert(p.blocks == 1 || (int)p.blocks <= m.nsms / 2);
                        ck_assert_uint_ge(p.threads, 1);
                        ck_assert_uint_le(p.threads, 512);
                        ck_assert_int_le((int)p.threads, m.max_threads);
                        ck_assert(m.max_threads < 32 ? (int)p.threads == m.max_threads
                                                     : p.threads % 32 == 0);
                        ck_assert(p.algo == runs[a]);
                    }
}
END_TEST

START_TEST(grids_grow_with_the_work_and_end_where_they_are_told)
{
    ck_assert_uint_eq(plan(&h200, SYMM_ALGO_ONE_SHOT, 1, 0, 0).threads, 32);
    ck_assert_uint_eq(plan(&h200, SYMM_ALGO_ONE_SHOT, 8 * 512, 0, 0).blocks, 1);
    ck_assert_uint_eq(plan(&h200, SYMM_ALGO_ONE_SHOT, 8 * 512 + 1, 0, 0).blocks, 2);
    ck_assert_uint_eq(plan(&h200, SYMM_ALGO_TWO_SHOT, 1 << 28, 0, 0).blocks, 64);
    ck_assert_uint_eq(plan(&h200, SYMM_ALGO_TWO_SHOT, 1 << 28, 0, 0).threads, 512);
    ck_assert_uint_eq(plan(&h200, SYMM_ALGO_TWO_SHOT, 1 << 28, 0, 5).blocks, 5);
    ck_assert_uint_eq(plan(&h200, SYMM_ALGO_TWO_SHOT, UINT64_MAX / 4, 0, 0).blocks, 64);
    uint32_t before = 0;
    for (uint64_t count = 1; count < 1 << 26; count *= 2) {
        const uint32_t blocks = plan(&h200, SYMM_ALGO_TWO_SHOT, count, 0, 0).blocks;
        ck_assert_uint_ge(blocks, before);
        before = blocks;
    }
}
END_TEST

START_TEST(every_block_has_a_part_of_the_staging_area)
{
    struct symm_all_reduce_machine m = h200;
    for (m.staging_nbytes = 16; m.staging_nbytes <= 4096; m.staging_nbytes += 16)
        ck_assert_uint_le(plan(&m, SYMM_ALGO_TWO_SHOT, 1 << 28, 0, 0).blocks,
                          m.staging_nbytes / 16);
}
END_TEST

START_TEST(auto_takes_one_step_for_little_and_two_for_much)
{
    struct symm_all_reduce_machine m = h200;
    ck_assert(plan(&m, SYMM_ALGO_AUTO, 512, 0, 0).algo == SYMM_ALGO_ONE_SHOT);
    ck_assert(plan(&m, SYMM_ALGO_AUTO, 1 << 24, 0, 0).algo == SYMM_ALGO_MULTIMEM);
    ck_assert(plan(&m, SYMM_ALGO_AUTO, 1 << 24, SYMM_DETERMINISTIC, 0).algo == SYMM_ALGO_TWO_SHOT);
    m.multicast_off = "off";
    ck_assert(plan(&m, SYMM_ALGO_AUTO, 1 << 24, 0, 0).algo == SYMM_ALGO_TWO_SHOT);
    m = h200;
    m.compute_major = 8;
    ck_assert(plan(&m, SYMM_ALGO_AUTO, 1 << 24, 0, 0).algo == SYMM_ALGO_TWO_SHOT);
    m = h200;
    m.nranks = 2;
    ck_assert(plan(&m, SYMM_ALGO_AUTO, 1 << 24, 0, 0).algo == SYMM_ALGO_TWO_SHOT);
}
END_TEST

static void assert_reason(const struct symm_all_reduce_machine *m, symm_algo algo, symm_dtype dtype,
                          symm_redop op, const char *part)
{
    const char *reason = symm__all_reduce_reason(m, algo, dtype, op);
    if (part)
        ck_assert_msg(reason && strstr(reason, part), "no \"%s\" in: %s", part, reason);
    else
        ck_assert_msg(!reason, "%s", reason);
}

START_TEST(what_cannot_run_has_a_reason)
{
    struct symm_all_reduce_machine m = h200;
    for (size_t a = 0; a < 4; a++)
        for (size_t d = 0; d < 3; d++)
            assert_reason(&m, runs[a], dtypes[d], SYMM_SUM, NULL);
    assert_reason(&m, SYMM_ALGO_AUTO, SYMM_FLOAT64, SYMM_SUM, "float32, float16 and bfloat16");
    assert_reason(&m, SYMM_ALGO_AUTO, (symm_dtype)0, SYMM_SUM, "no such dtype");
    assert_reason(&m, SYMM_ALGO_AUTO, (symm_dtype)10, SYMM_SUM, "no such dtype");
    assert_reason(&m, SYMM_ALGO_AUTO, SYMM_FLOAT32, SYMM_MAX, "sum is");
    assert_reason(&m, SYMM_ALGO_AUTO, SYMM_FLOAT32, (symm_redop)4, "no such op");
    assert_reason(&m, (symm_algo)7, SYMM_FLOAT32, SYMM_SUM, "no such algorithm");
    assert_reason(&m, (symm_algo)-1, SYMM_FLOAT32, SYMM_SUM, "no such algorithm");
    assert_reason(&m, SYMM_ALGO_LOW_LATENCY, SYMM_FLOAT32, SYMM_SUM, "not in this version");
    assert_reason(&m, SYMM_ALGO_COPY_ENGINE, SYMM_FLOAT32, SYMM_SUM, "not in this version");
    m.compute_major = 8;
    assert_reason(&m, SYMM_ALGO_MULTIMEM, SYMM_FLOAT32, SYMM_SUM, "compute capability");
    assert_reason(&m, SYMM_ALGO_TWO_SHOT, SYMM_FLOAT32, SYMM_SUM, NULL);
    m.multicast_off = "SYMM_MULTICAST is 0";
    assert_reason(&m, SYMM_ALGO_MULTIMEM_ONE_SHOT, SYMM_FLOAT32, SYMM_SUM, "SYMM_MULTICAST is 0");
    assert_reason(&m, SYMM_ALGO_AUTO, SYMM_FLOAT32, SYMM_SUM, NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("all_reduce_plan");
    TCase *tests = test_case(suite, "plan", 60);
    tcase_add_test(tests, each_algorithm_gets_the_kernel_of_its_dtype_and_ranks);
    tcase_add_test(tests, two_groups_fit_on_one_device);
    tcase_add_test(tests, grids_grow_with_the_work_and_end_where_they_are_told);
    tcase_add_test(tests, every_block_has_a_part_of_the_staging_area);
    tcase_add_test(tests, auto_takes_one_step_for_little_and_two_for_much);
    tcase_add_test(tests, what_cannot_run_has_a_reason);
    return test_main(suite);
}
