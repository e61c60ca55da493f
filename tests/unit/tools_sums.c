/* The check that symm-bench and symm-info rely on: it finds what is wrong, and nothing else. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "reference.h"
#include "sums.h"
#include "test.h"

enum { FEW = 20003, MANY = 200003, RANKS = 4 }; /* many: enough for three threads */

static const char *const types[] = {"bf16", "fp16", "fp32"};
static char sum[MANY * 4], one[MANY * 4];
static float total[MANY], x[MANY];
static size_t count = FEW;

/* The sums that ranks first, first + step, ... would give, added in fp32 in that order. */
static void add_up(const struct element *e, uint64_t seed, int first, int step)
{
    for (int i = 0, r = first; i < RANKS; i++, r += step) {
        sums_fill(e, one, count, seed, r);
        element_widen(e, one, x, count);
        for (size_t k = 0; k < count; k++)
            total[k] = i == 0 ? x[k] : total[k] + x[k];
    }
    element_narrow(e, total, sum, count);
}

static struct sums_verdict check(const struct element *e, uint64_t seed, enum sums_rule rule)
{
    struct sums_verdict verdict;

    sums_check(e, sum, count, &(struct sums_asked){.seed = seed, .nranks = RANKS, .rule = rule},
               &verdict);
    return verdict;
}

START_TEST(conversions_agree_with_the_tests_own)
{
    const struct element *bf16 = element_find("bf16"), *fp16 = element_find("fp16");
    uint64_t state = 1;

    for (int i = 0; i < 200000; i++) {
        uint16_t got;
        float value;

        state = sums_seed(state, 1);
        value = ldexpf((float)(int32_t)state, (int)(state >> 40) % 64 - 60);
        element_narrow(fp16, &value, &got, 1);
        ck_assert_uint_eq(got, reference_f32_to_f16(value));
        element_narrow(bf16, &value, &got, 1);
        ck_assert_uint_eq(got, reference_f32_to_bf16(value));
    }
    for (uint32_t h = 0; h < 65536; h++) {
        uint16_t half = (uint16_t)h;
        float got, want = reference_f16_to_f32(half);

        element_widen(fp16, &half, &got, 1);
        ck_assert(isnan(want) ? isnan(got) : memcmp(&got, &want, sizeof got) == 0);
    }
}
END_TEST

START_TEST(right_sums_are_right_by_every_rule)
{
    const struct element *e = element_find(types[_i]);

    add_up(e, 42, 0, 1);
    ck_assert_uint_eq(check(e, 42, SUMS_EXACT).wrong, 0);
    ck_assert_uint_eq(check(e, 42, SUMS_SWITCH).wrong, 0);
    ck_assert_uint_eq(check(e, 42, SUMS_TYPE).wrong, 0);
}
END_TEST

START_TEST(another_order_is_only_right_for_the_switch)
{
    const struct element *e = element_find(types[_i]);

    add_up(e, 42, RANKS - 1, -1);
    if (e->dtype == SYMM_FLOAT32)
        ck_assert_uint_gt(check(e, 42, SUMS_EXACT).wrong, count / 10);
    ck_assert_uint_eq(check(e, 42, SUMS_SWITCH).wrong, 0);
}
END_TEST

START_TEST(other_data_are_wrong)
{
    const struct element *e = element_find(types[_i]);

    add_up(e, 43, 0, 1);
    ck_assert_uint_gt(check(e, 42, SUMS_SWITCH).wrong, count * 9 / 10);
    memset(sum, 0xff, sizeof sum);
    ck_assert_uint_eq(check(e, 42, SUMS_EXACT).wrong, count);
    ck_assert_uint_eq(check(e, 42, SUMS_SWITCH).wrong, count);
    ck_assert_uint_eq(check(e, 42, SUMS_TYPE).wrong, count);
}
END_TEST

/* One bit in one element, in the part of each thread: the first one is named. */
START_TEST(one_wrong_bit_is_found)
{
    const struct element *e = element_find(types[_i]);

    count = MANY;
    sums_threads(3);
    add_up(e, 7, 0, 1);
    for (size_t at = 5; at < MANY; at += MANY / 4) {
        sum[at * e->nbytes] ^= 1;
        struct sums_verdict verdict = check(e, 7, SUMS_EXACT);

        ck_assert_uint_eq(verdict.wrong, 1);
        ck_assert_uint_eq(verdict.first, at);
        ck_assert(verdict.got != verdict.expected);
        sum[at * e->nbytes] ^= 1;
    }
    sum[5 * e->nbytes] ^= 1;
    sum[(MANY - 1) * e->nbytes] ^= 1;
    ck_assert_uint_eq(check(e, 7, SUMS_EXACT).wrong, 2);
    ck_assert_uint_eq(check(e, 7, SUMS_EXACT).first, 5);
}
END_TEST

START_TEST(the_bound_of_the_switch_is_tight)
{
    const struct element *e = element_find(types[_i]);
    double ulp = element_ulp(e, 1.5);

    ck_assert(ulp == ldexp(1, -e->fraction_bits));
    ck_assert(element_ulp(e, 0) == ldexp(1, e->min_exponent - e->fraction_bits));
    add_up(e, 9, 0, 1);
    for (size_t k = 0; k < count; k++)
        total[k] += (float)(4 * element_ulp(e, total[k])) + 4e-6f;
    element_narrow(e, total, sum, count);
    ck_assert_uint_eq(check(e, 9, SUMS_SWITCH).wrong, count);
}
END_TEST

START_TEST(data_differ_between_ranks_and_elements)
{
    const struct element *e = element_find("fp32");
    float *a = (float *)(void *)one, *b = (float *)(void *)sum;
    size_t same = 0, small = 0;

    sums_fill(e, a, count, 1, 0);
    sums_fill(e, b, count, 1, 1);
    for (size_t k = 0; k < count; k++) {
        same += a[k] == b[k];
        small += fabsf(a[k]) < 0.25f;
        ck_assert(fabsf(a[k]) <= 1);
    }
    ck_assert_uint_lt(same, 10);
    ck_assert_uint_gt(small, count / 3);
}
END_TEST

/* What a rank gets of a sum, and what it has from another rank. */
START_TEST(parts_and_single_ranks_are_found_where_they_are)
{
    const struct element *e = element_find(types[_i]);
    const size_t first = 1234;
    struct sums_asked asked = {.seed = 5, .nranks = RANKS, .first = first, .rule = SUMS_EXACT};
    struct sums_verdict verdict;

    add_up(e, 5, 0, 1);
    sums_check(e, sum + first * e->nbytes, count - first, &asked, &verdict);
    ck_assert_uint_eq(verdict.wrong, 0);
    asked.first = first + 1;
    sums_check(e, sum + first * e->nbytes, count - first, &asked, &verdict);
    ck_assert_uint_gt(verdict.wrong, count / 2);
    sums_fill(e, one, count, 5, 2);
    asked = (struct sums_asked){.seed = 5, .rank = 2, .nranks = 1, .rule = SUMS_EXACT};
    sums_check(e, one, count, &asked, &verdict);
    ck_assert_uint_eq(verdict.wrong, 0);
    asked.rank = 1;
    sums_check(e, one, count, &asked, &verdict);
    ck_assert_uint_gt(verdict.wrong, count / 2);
}
END_TEST

/* Each call of a chain multiplies by the ranks; a little is lost to rounding, more is wrong. */
START_TEST(chains_grow_and_nothing_else)
{
    const struct element *e = element_find(types[_i]);
    struct sums_asked asked = {.seed = 6, .nranks = RANKS, .rule = SUMS_EXACT, .links = 4};
    struct sums_verdict verdict;

    add_up(e, 6, 0, 1);
    element_widen(e, sum, total, count);
    for (size_t k = 0; k < count; k++)
        total[k] *= 64;
    element_narrow(e, total, sum, count);
    sums_check(e, sum, count, &asked, &verdict);
    ck_assert_uint_eq(verdict.wrong, 0);
    asked.links = 3;
    sums_check(e, sum, count, &asked, &verdict);
    ck_assert_uint_gt(verdict.wrong, count * 9 / 10);
    asked.links = 4;
    for (size_t k = 0; k < count; k++)
        total[k] += 64 * (total[k] < 0 ? -1.0f : 1.0f);
    element_narrow(e, total, sum, count);
    sums_check(e, sum, count, &asked, &verdict);
    ck_assert_uint_eq(verdict.wrong, count);
}
END_TEST

int main(void)
{
    /* Threads leave stacks in the C library's store; the cases count what they leave. */
    sums_threads(3);
    sums_fill(element_find("fp32"), one, MANY, 1, 0);
    sums_threads(1);

    Suite *suite = suite_create("tools_sums");
    TCase *cases = test_case(suite, "sums", 60);

    tcase_add_test(cases, conversions_agree_with_the_tests_own);
    tcase_add_loop_test(cases, right_sums_are_right_by_every_rule, 0, 3);
    tcase_add_loop_test(cases, another_order_is_only_right_for_the_switch, 0, 3);
    tcase_add_loop_test(cases, other_data_are_wrong, 0, 3);
    tcase_add_loop_test(cases, one_wrong_bit_is_found, 0, 3);
    tcase_add_loop_test(cases, the_bound_of_the_switch_is_tight, 0, 3);
    tcase_add_test(cases, data_differ_between_ranks_and_elements);
    tcase_add_loop_test(cases, parts_and_single_ranks_are_found_where_they_are, 0, 3);
    tcase_add_loop_test(cases, chains_grow_and_nothing_else, 0, 3);
    return test_main(suite);
}
