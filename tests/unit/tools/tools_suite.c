/* The shapes of --suite, and the ratios that symm-bench sums them up by. */
#include <math.h>
#include <string.h>
#include "bench/measure/suite.h"
#include "bench/measure/summary.h"
#include "reference.h"
#include "test.h"

TEST_GROUP(suite, 60);

TEST(suite, llama_has_nine_shapes)
{
    struct suite_shape s;
    int n = 0;
    while (suite_shape_at("llama", 1, 54, n, &s))
        n++;
    ck_assert_int_eq(n, 9);
    ck_assert(suite_shape_at("llama", 1, 54, 4, &s));
    ck_assert(s.m == 8192 && s.n == 3584 && s.k == 8192);
}

static bool is_part_of_a_layer(const struct suite_shape *s)
{
    const int h = s->k, gate = h * 8 / 3 / 256 * 256;
    const int columns[] = {3 * h, h + 2048, 4 * h, 2 * gate, 7 * h};
    for (int ranks = 2; ranks <= 8; ranks *= 2)
        for (int i = 0; i < 5; i++)
            if (columns[i] % ranks == 0 && columns[i] / ranks == s->n)
                return true;
    return false;
}

/* Half with few rows, of which half have fewer than 32; all others from 1024 to 16384. */
TEST(suite, random_shapes_are_layers_of_all_sizes)
{
    enum { N = 4000 };
    const uint64_t seed = reference_seed();
    struct suite_shape s, again;
    int few = 0, tiny = 0, many = 0, large = 0, sizes = 0, last = 0, ones = 0;
    for (int i = 0; i < N; i++) {
        ck_assert(suite_shape_at("random", seed, N, i, &s));
        ck_assert(suite_shape_at("random", seed, N, i, &again) && !memcmp(&s, &again, sizeof s));
        ck_assert_msg(is_part_of_a_layer(&s), "%d x %d x %d", s.m, s.n, s.k);
        ck_assert(s.m >= 1 && s.m <= 16384 && s.k >= 2048 && s.k <= 12288);
        few += s.m < 1024;
        tiny += s.m < 32;
        ones += s.m == 1;
        many += s.m >= 1024;
        large += s.m >= 8704;
        sizes += s.k != last;
        last = s.k;
    }
    ck_assert(!suite_shape_at("random", seed, N, N, &s));
    ck_assert(few == N / 2 && many == N / 2 && sizes > N / 2 && ones > 0);
    ck_assert_msg(tiny > N / 5 && tiny < 3 * N / 10, "%d of %d have few rows", tiny, N);
    ck_assert_msg(large > N / 5 && large < 3 * N / 10, "%d of %d have many rows", large, N);
}

TEST(suite, seeds_differ)
{
    struct suite_shape a, b;
    int same = 0;
    for (int i = 0; i < 100; i++) {
        ck_assert(suite_shape_at("random", 1, 100, i, &a));
        ck_assert(suite_shape_at("random", 2, 100, i, &b));
        same += !memcmp(&a, &b, sizeof a);
    }
    ck_assert_int_lt(same, 10);
}

TEST(suite, ratios_are_apart_by_rows_and_know_their_worst)
{
    struct summary s = {.nshapes = {0}};
    const struct suite_shape few = {100, 2, 3}, many = {1024, 5, 6}, more = {4096, 8, 9};
    /* cublas, product, communication, cublas_symm, automatic, best */
    const struct summary_times slow = {200, 100, 50, 300, 300, 100},
                               fast = {50, 100, 400, 100, 200, 160},
                               none = {(double)NAN, 10, 10, (double)NAN, 20, (double)NAN};
    const struct summary_ratio *r = s.ratios[1];
    summary_add(&s, &many, &slow);
    summary_add(&s, &more, &fast);
    summary_add(&s, &few, &none);
    ck_assert(s.nshapes[0] == 1 && s.nshapes[1] == 2);
    ck_assert(r[0].n == 2 && r[0].worst == 0.5 && r[0].at.m == 4096);
    ck_assert_double_eq_tol(summary_mean(&r[0]), 1, 1e-12); /* of 2 and 0.5 */
    ck_assert(r[1].n == 2 && r[1].worst == 0.5 && r[1].at.m == 4096);
    ck_assert(r[2].n == 1 && r[2].worst == 1.5); /* cublas takes 100 us in one of them */
    ck_assert(r[3].n == 2 && r[3].worst == 3 && r[3].at.m == 1024);
    for (int i = 0; i < SUMMARY_RATIOS; i++)
        ck_assert(s.ratios[0][i].n == 0 && isnan(summary_mean(&s.ratios[0][i])));
}
