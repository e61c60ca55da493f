/* Conversions, loads, stores, sums, remote additions, sums over a block. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "device_bench.h"
#include "reference.h"

static const struct {
    int mode;
    symm_dtype dtype;
} floats[3] = {{TEST_ONE_float, SYMM_FLOAT32},
               {TEST_ONE_symm_f16, SYMM_FLOAT16},
               {TEST_ONE_symm_bf16, SYMM_BFLOAT16}};

/* ---- Conversions ---- */

/* Any NaN equals any NaN. */
static int64_t differ(const float *got, const float *want, size_t count)
{
    int64_t wrong = 0;
    for (size_t i = 0; i < count; i++)
        wrong += isnan(want[i]) ? !isnan(got[i]) : memcmp(&got[i], &want[i], sizeof got[i]) != 0;
    return wrong;
}

TEST_GROUP(data, 120);

DEVICE_TEST(data, all_patterns_of_sixteen_bits_widen_exactly, "test_widen", 1, 1)
{
    enum { COUNT = 65536 };
    const size_t nbytes = COUNT * sizeof(float);
    float *want = malloc(nbytes), *got = malloc(nbytes);
    RANK_TRY(self, symm_device_alloc(b->ctx, nbytes, &b->a.out));
    RANK_TRY(self, symm_device_alloc(b->ctx, nbytes, &b->a.y));
    for (int i = 1; i < 3; i++) {
        b->a.mode = floats[i].mode;
        for (uint32_t bits = 0; bits < COUNT; bits++) {
            const uint16_t half = (uint16_t)bits;
            want[bits] = reference_get(&half, 0, floats[i].dtype);
        }
        for (int shape = 0; shape < DEVICE_SHAPES; shape++) {
            RANK_TRY(self, symm_fill(b->a.out, 0x5a, nbytes, b->s));
            RANK_TRY(self, symm_fill(b->a.y, 0x5a, nbytes, b->s));
            RANK_TRY(self, device_run(b, 4, device_threads[shape]));
            RANK_TRY(self, device_read(b, got, b->a.out, nbytes));
            self->report->wrong += differ(got, want, COUNT);
            RANK_TRY(self, device_read(b, got, b->a.y, nbytes));
            self->report->wrong += differ(got, want, COUNT);
        }
    }
out:
    symm_device_free(b->ctx, b->a.out);
    symm_device_free(b->ctx, b->a.y);
    free(want);
    free(got);
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

enum { NEAR = 6, NARROWED = NEAR * 65536 };

/*
 * For every pattern of the type: the number, the middle between it and the next one, the numbers
 * just below and above that, and two close to 0. Subnormals, both zeros, infinities, NaNs and
 * numbers that overflow are among them.
 */
static void fill_around(float *x, symm_dtype dtype, uint64_t round)
{
    for (uint32_t h = 0; h < 65536; h++) {
        const uint16_t half[2] = {(uint16_t)h, (uint16_t)(h + 1)};
        const float here = reference_get(half, 0, dtype), next = reference_get(half, 1, dtype);
        const float tie = isinf(next)
                              ? copysignf(dtype == SYMM_FLOAT16 ? 65520.0f : 0x1.ffp127f, here)
                              : (float)(((double)here + (double)next) / 2);
        const float near[NEAR] = {here,
                                  tie,
                                  nextafterf(tie, 0),
                                  nextafterf(tie, copysignf(INFINITY, here)),
                                  float_of((uint32_t)reference_random(920 + round, h)),
                                  float_of(h << 16 | (h & 1 ? 0x8000u : 0x7fffu))};
        memcpy(x + (size_t)NEAR * h, near, sizeof near);
    }
}

/* Every NaN becomes 0x7fff; floats stay as they are. */
static int64_t count_narrow_wrong(const float *x, const void *got, symm_dtype dtype)
{
    const uint16_t *half = got;
    int64_t wrong = 0;
    for (size_t i = 0; i < NARROWED; i++) {
        if (dtype == SYMM_FLOAT32)
            wrong += memcmp((const float *)got + i, x + i, sizeof *x) != 0;
        else if (isnan(x[i]))
            wrong += half[i] != 0x7fff;
        else
            wrong += half[i] != reference_half(x[i], dtype);
    }
    return wrong;
}

DEVICE_TEST(data, narrowing_rounds_once_to_nearest_even, "test_narrow", 1, 1)
{
    const size_t nbytes = NARROWED * sizeof(float);
    float *x = malloc(nbytes), *got = malloc(nbytes);
    b->a.nbytes = NARROWED * sizeof(float);
    RANK_TRY(self, symm_device_alloc(b->ctx, nbytes, &b->a.x));
    RANK_TRY(self, symm_device_alloc(b->ctx, nbytes, &b->a.out));
    RANK_TRY(self, symm_device_alloc(b->ctx, nbytes, &b->a.y));
    for (int i = 0; i < 3; i++) {
        b->a.mode = floats[i].mode;
        fill_around(x, i ? floats[i].dtype : SYMM_BFLOAT16, (uint64_t)i);
        RANK_TRY(self, device_write(b, b->a.x, x, nbytes));
        for (int shape = 0; shape < DEVICE_SHAPES; shape++) {
            RANK_TRY(self, symm_fill(b->a.out, 0x5a, nbytes, b->s));
            RANK_TRY(self, symm_fill(b->a.y, 0x5a, nbytes, b->s));
            RANK_TRY(self, device_launch(b, 4, device_threads[shape]));
            /* A NaN may widen to another NaN, but always to the same one. */
            RANK_TRY(self, device_settle(b));
            RANK_TRY(self, device_read(b, got, b->a.out, nbytes));
            self->report->wrong += count_narrow_wrong(x, got, floats[i].dtype);
            RANK_TRY(self, device_read(b, got, b->a.y, nbytes));
            self->report->wrong += count_narrow_wrong(x, got, floats[i].dtype);
        }
    }
out:
    symm_device_free(b->ctx, b->a.x);
    symm_device_free(b->ctx, b->a.out);
    symm_device_free(b->ctx, b->a.y);
    free(x);
    free(got);
}

/* ---- Loads and stores ---- */

DEVICE_TEST(data, elements_of_every_type_move_both_ways, "test_ones", 1, device_setting.pair)
{
    enum { NBYTES = 16 * 500 };
    const int n = self->nranks, before = (self->rank + n - 1) % n;
    char host[NBYTES];
    b->a.nbytes = NBYTES;
    RANK_TRY(self, symm_alloc(b->w, NBYTES, &b->a.x));
    RANK_TRY(self, symm_alloc(b->w, NBYTES, &b->a.y));
    RANK_TRY(self, symm_alloc(b->w, NBYTES, &b->a.out));
    for (b->a.mode = 0; b->a.mode < TEST_ONES; b->a.mode++) {
        const uint64_t tag = 100 * (uint64_t)b->a.mode;
        reference_poison(host, NBYTES, tag + (uint64_t)self->rank);
        RANK_TRY(self, device_write(b, b->a.x, host, NBYTES));
        RANK_TRY(self, symm_fill(b->a.y, 0, NBYTES, b->s));
        RANK_TRY(self, symm_fill(b->a.out, 0, NBYTES, b->s));
        RANK_TRY(self, device_run_together(b, 2, device_threads[b->a.mode % DEVICE_SHAPES]));
        RANK_TRY(self, device_read(b, host, b->a.out, NBYTES));
        self->report->wrong += reference_poison_wrong(host, NBYTES, tag + (uint64_t)before);
        RANK_TRY(self, device_read(b, host, b->a.y, NBYTES));
        self->report->wrong += reference_poison_wrong(host, NBYTES, tag + (uint64_t)before);
    }
out:;
}

/* ---- Sums ---- */

DEVICE_TEST(data, sums_have_the_same_bits_on_every_rank, "test_sum", 1, device_setting.worlds[_i],
            .loop = {0, device_setting.nworlds})
{
    enum { COUNT = 8 * 777 };
    char host[COUNT * sizeof(float)];
    RANK_TRY(self, symm_alloc(b->w, sizeof host, &b->a.x));
    RANK_TRY(self, symm_alloc(b->w, sizeof host, &b->a.y));
    RANK_TRY(self, symm_alloc(b->w, sizeof host, &b->a.out));
    for (uint64_t round = 0; round < 3 * (uint64_t)DEVICE_SHAPES; round++) {
        const symm_dtype dtype = floats[round % 3].dtype;
        const void *const results[2] = {b->a.out, b->a.y};
        b->a.mode = floats[round % 3].mode;
        b->a.nbytes = COUNT * symm_dtype_size(dtype);
        reference_fill(host, COUNT, dtype, round, self->rank);
        RANK_TRY(self, device_write(b, b->a.x, host, b->a.nbytes));
        RANK_TRY(self, symm_fill(b->a.out, 0xff, sizeof host, b->s)); /* NaNs */
        RANK_TRY(self, symm_fill(b->a.y, 0xff, sizeof host, b->s));
        RANK_TRY(self, device_run_together(b, 2, device_threads[round / 3]));
        for (int i = 0; i < 2; i++) {
            RANK_TRY(self, device_read(b, host, results[i], b->a.nbytes));
            self->report->wrong +=
                reference_wrong(host, 0, COUNT, dtype, round, self->nranks, REFERENCE_EXACT);
        }
    }
out:;
}

/* ---- Additions ---- */

enum { WORDS = 5 };

/* The sum of all threads' additions to word i of rank `to`. */
static int64_t sum_of_addends(const struct device_bench *b, uint32_t i, uint32_t to,
                              uint32_t blocks, uint32_t threads)
{
    int64_t sum = 0;
    for (uint32_t r = 0; r < (uint32_t)b->self->nranks; r++)
        for (uint32_t block = 0; block < blocks; block++)
            for (uint32_t t = 0; t < threads; t++)
                sum += test_device_addend(b->a.seed, i + to, r, block, t, 100);
    return sum;
}

/* Whether element i of an array of the type is this number, which integers wrap round to. */
static bool is_number(const void *array, uint32_t i, int mode, int64_t number)
{
    switch (mode) {
    case TEST_ONE_uint32_t:
    case TEST_ONE_int32_t:
        return ((const uint32_t *)array)[i] == (uint32_t)number;
    case TEST_ONE_uint64_t:
    case TEST_ONE_int64_t:
        return ((const uint64_t *)array)[i] == (uint64_t)number;
    case TEST_ONE_float:
        return ((const float *)array)[i] == (float)number;
    default:
        return ((const double *)array)[i] == (double)number;
    }
}

DEVICE_TEST(data, remote_additions_of_all_ranks_and_blocks_add_up, "test_red_add", 1,
            device_setting.worlds[_i], .loop = {0, device_setting.nworlds})
{
    const uint32_t blocks = device_blocks(self->nranks);
    uint64_t host[WORDS + 1];
    b->a.rounds = WORDS;
    RANK_TRY(self, symm_alloc(b->w, sizeof host, &b->a.x));
    for (b->a.mode = 0; b->a.mode < TEST_ADDED; b->a.mode++) {
        const uint32_t threads = device_threads[(b->a.mode + 1) % DEVICE_SHAPES];
        b->a.seed = (uint32_t)reference_random(930, (uint64_t)b->a.mode);
        RANK_TRY(self, symm_fill(b->a.x, 0, sizeof host, b->s));
        RANK_TRY(self, device_run_together(b, blocks, threads));
        RANK_TRY(self, device_read(b, host, b->a.x, sizeof host));
        for (uint32_t i = 0; i < WORDS; i++)
            self->report->wrong += !is_number(
                host, i, b->a.mode, sum_of_addends(b, i, (uint32_t)self->rank, blocks, threads));
        self->report->wrong += host[WORDS] != 0;
    }
out:;
}

/* ---- Block ---- */

DEVICE_TEST(data, the_sum_over_a_block_is_right_for_every_block_size, "test_block_sum", 1, 1)
{
    for (uint32_t threads = 1; threads <= 1024; threads += device_setting.slow ? 33 : 1) {
        b->a.seed = (uint32_t)reference_random(931, threads);
        b->a.param = 0;
        for (uint32_t t = 0; t < threads; t++)
            b->a.param += test_device_addend(b->a.seed, 0, 0, 0, t, 1000);
        RANK_TRY(self, device_launch(b, 1, threads));
    }
    device_settle(b);
out:;
}
