/* Reductions, stores and additions through the switch. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "device_bench.h"
#include "reference.h"

enum { COUNT_BYTES = 16 * 300, NTYPES = TEST_ONES };

/* A case of which every rank says that it has no multicast is skipped, with their reason. */
#define RUN_OR_SKIP(n, fn)                                                                         \
    do {                                                                                           \
        struct rank_report reports[RANKS_MAX];                                                     \
        NEEDS_DEVICES();                                                                           \
        ranks_run(n, RANKS_AS_PROCESSES, fn, NULL, reports, 60);                                   \
        ranks_assert_ok(reports, n);                                                               \
        if (reports[0].value[0])                                                                   \
            TEST_SKIP("world of %d: no multicast: %s", n, reports[0].text);                        \
    } while (0)

/* Whether there is a switch to try; the reason why not goes into the report. */
static bool has_switch(struct rank *self, struct device_bench *b)
{
    const char *off = symm_multicast_off(b->w);
    self->report->value[0] = off != NULL;
    if (off)
        snprintf(self->report->text, sizeof self->report->text, "%s", off);
    return !off;
}

/* ---- Reductions ---- */

static const struct {
    symm_redop op;
    int type; /* TEST_ONE_ */
    const char *name;
} reductions[TEST_REDUCES] = {
#define ROW_(op, type) {op, TEST_ONE_##type, #op " of " #type},
    TEST_REDUCTIONS(ROW_)
#undef ROW_
};

static symm_dtype dtype_of(int type) /* 0: an integer or a double */
{
    return type == TEST_ONE_float       ? SYMM_FLOAT32
           : type == TEST_ONE_symm_f16  ? SYMM_FLOAT16
           : type == TEST_ONE_symm_bf16 ? SYMM_BFLOAT16
                                        : (symm_dtype)0;
}

static size_t size_of(int type)
{
    const bool is_wide =
        type == TEST_ONE_double || type == TEST_ONE_uint64_t || type == TEST_ONE_int64_t;
    return is_wide ? 8 : dtype_of(type) ? symm_dtype_size(dtype_of(type)) : 4;
}

/* A rank's data of round `round`. */
static void fill_typed(void *out, int type, uint64_t round, int rank)
{
    const uint64_t stream = 5000 + 100 * round + (uint64_t)rank;
    if (dtype_of(type)) {
        reference_fill(out, COUNT_BYTES / size_of(type), dtype_of(type), round, rank);
        return;
    }
    for (size_t i = 0; i < COUNT_BYTES / 8; i++) {
        const uint64_t bits = reference_random(stream, i);
        const double x = (double)(int64_t)bits * 0x1p-63;
        memcpy((char *)out + 8 * i, type == TEST_ONE_double ? (const void *)&x : &bits, 8);
    }
}

/* The reduction of n numbers of a type. */
#define REDUCE(name, type, sum_type)                                                               \
    static type name(const void *const *all, int n, size_t i, symm_redop op)                       \
    {                                                                                              \
        type result = ((const type *)all[0])[i];                                                   \
        for (int r = 1; r < n; r++) {                                                              \
            const type x = ((const type *)all[r])[i];                                              \
            if (op == SYMM_SUM)                                                                    \
                result = (type)((sum_type)result + (sum_type)x);                                   \
            else if (op == SYMM_MIN ? x < result : x > result)                                     \
                result = x;                                                                        \
        }                                                                                          \
        return result;                                                                             \
    }
REDUCE(reduce_u32, uint32_t, uint32_t)
REDUCE(reduce_i32, int32_t, uint32_t)
REDUCE(reduce_u64, uint64_t, uint64_t)
REDUCE(reduce_i64, int64_t, uint64_t)

static float extreme(const void *const *all, int n, size_t i, symm_redop op, symm_dtype dtype)
{
    float result = reference_get(all[0], i, dtype);
    for (int r = 1; r < n; r++) {
        const float x = reference_get(all[r], i, dtype);
        result = op == SYMM_MIN ? fminf(result, x) : fmaxf(result, x);
    }
    return result;
}

static bool sum_is_right(const void *const *all, int n, size_t i, double got)
{
    double sum = 0, size = 0;
    for (int r = 0; r < n; r++) {
        sum += ((const double *)all[r])[i];
        size += fabs(((const double *)all[r])[i]);
    }
    return fabs(got - sum) <= (double)n * 0x1p-52 * size;
}

static int64_t count_wrong(const void *got, const void *const *all, int n, int reduction,
                           uint64_t round)
{
    const symm_redop op = reductions[reduction].op;
    const int type = reductions[reduction].type;
    const size_t count = COUNT_BYTES / size_of(type);
    int64_t wrong = 0;
    if (op == SYMM_SUM && dtype_of(type))
        return reference_wrong(got, 0, count, dtype_of(type), round, n, REFERENCE_SWITCH);
    for (size_t i = 0; i < count; i++)
        switch (type) {
        case TEST_ONE_uint32_t:
            wrong += ((const uint32_t *)got)[i] != reduce_u32(all, n, i, op);
            break;
        case TEST_ONE_int32_t:
            wrong += ((const int32_t *)got)[i] != reduce_i32(all, n, i, op);
            break;
        case TEST_ONE_uint64_t:
            wrong += ((const uint64_t *)got)[i] != reduce_u64(all, n, i, op);
            break;
        case TEST_ONE_int64_t:
            wrong += ((const int64_t *)got)[i] != reduce_i64(all, n, i, op);
            break;
        case TEST_ONE_double:
            wrong += !sum_is_right(all, n, i, ((const double *)got)[i]);
            break;
        default:
            wrong +=
                reference_get(got, i, dtype_of(type)) != extreme(all, n, i, op, dtype_of(type));
            break;
        }
    return wrong;
}

DEVICE_RANK(reduce_everything, "test_multimem_reduce", DEVICE_BLOCKS_MAX)
{
    const int n = self->nranks;
    const uint32_t blocks = device_blocks(n) / 2;
    char *host = malloc((size_t)(n + 1) * COUNT_BYTES);
    const void *all[RANKS_MAX];
    if (!has_switch(self, b))
        goto out;
    b->a.nbytes = COUNT_BYTES;
    RANK_TRY(self, symm_alloc(b->w, COUNT_BYTES, &b->a.x));
    RANK_TRY(self, symm_alloc(b->w, COUNT_BYTES, &b->a.out));
    for (b->a.mode = 0; b->a.mode < TEST_REDUCES; b->a.mode++) {
        const uint64_t round = (uint64_t)b->a.mode;
        for (int r = 0; r < n; r++) {
            all[r] = host + r * COUNT_BYTES;
            fill_typed(host + r * COUNT_BYTES, reductions[b->a.mode].type, round, r);
        }
        RANK_TRY(self, device_write(b, b->a.x, all[self->rank], COUNT_BYTES));
        RANK_TRY(self, symm_fill(b->a.out, 0xff, COUNT_BYTES, b->s));
        RANK_TRY(self, device_run(b, blocks, device_threads[b->a.mode % DEVICE_SHAPES]));
        RANK_TRY(self, device_read(b, host + n * COUNT_BYTES, b->a.out, COUNT_BYTES));
        self->report->wrong += count_wrong(host + n * COUNT_BYTES, all, n, b->a.mode, round);
        CHECK_RANK_MSG(self, self->report->wrong == 0, "%s: %lld wrong", reductions[b->a.mode].name,
                       (long long)self->report->wrong);
    }
out:
    free(host);
}

TEST_GROUP(switch, 120);

TEST_LOOP(switch, the_switch_reduces_every_type_by_every_operation, device_setting.nworlds > 1,
          device_setting.nworlds)
{
    RUN_OR_SKIP(device_setting.worlds[_i], reduce_everything);
}

/* ---- Stores ---- */

DEVICE_RANK(store_everywhere, "test_multimem_store", DEVICE_BLOCKS_MAX)
{
    static const int types[3] = {TEST_ONE_float, TEST_ONE_symm_f16, TEST_ONE_symm_bf16};
    const uint32_t blocks = device_blocks(self->nranks) / 2;
    char host[2 * COUNT_BYTES];
    if (!has_switch(self, b))
        goto out;
    b->a.nbytes = COUNT_BYTES;
    RANK_TRY(self, symm_alloc(b->w, COUNT_BYTES, &b->a.x));
    RANK_TRY(self, symm_alloc(b->w, 2 * COUNT_BYTES, &b->a.y));
    for (uint64_t round = 0; round < 3 * (uint64_t)DEVICE_SHAPES; round++) {
        const symm_dtype dtype = dtype_of(types[round % 3]);
        b->a.mode = types[round % 3];
        b->a.seed = (uint32_t)reference_random(950, round);
        fill_typed(host, b->a.mode, round, self->rank);
        RANK_TRY(self, device_write(b, b->a.x, host, COUNT_BYTES));
        RANK_TRY(self, symm_fill(b->a.y, 0xff, 2 * COUNT_BYTES, b->s));
        RANK_TRY(self, symm_barrier(b->w, b->s));
        RANK_TRY(self, device_run(b, blocks, device_threads[round / 3]));
        RANK_TRY(self, device_read(b, host, b->a.y, sizeof host));
        self->report->wrong += reference_wrong(host, 0, COUNT_BYTES / symm_dtype_size(dtype), dtype,
                                               round, self->nranks, REFERENCE_SWITCH);
        for (uint32_t i = 0; i < COUNT_BYTES / 4; i++) {
            const uint32_t want = test_device_word(b->a.seed, 0, 0, i / 4, i % 4);
            self->report->wrong += memcmp(host + COUNT_BYTES + 4 * i, &want, 4) != 0;
        }
    }
out:;
}

TEST_LOOP(switch, stores_through_the_switch_reach_every_rank, device_setting.nworlds > 1,
          device_setting.nworlds)
{
    RUN_OR_SKIP(device_setting.worlds[_i], store_everywhere);
}

/* ---- Additions ---- */

enum { WORDS = 24 };

static double get_number(const void *array, size_t i, int type)
{
    if (dtype_of(type))
        return (double)reference_get(array, i, dtype_of(type));
    switch (type) {
    case TEST_ONE_double:
        return ((const double *)array)[i];
    case TEST_ONE_int64_t:
    case TEST_ONE_uint64_t: /* sums are small and may be negative */
        return (double)((const int64_t *)array)[i];
    default:
        return (double)((const int32_t *)array)[i];
    }
}

DEVICE_RANK(add_everywhere, "test_multimem_add", DEVICE_BLOCKS_MAX)
{
    static const int modes[] = {TEST_ONE_uint32_t,
                                TEST_ONE_int32_t,
                                TEST_ONE_uint64_t,
                                TEST_ONE_int64_t,
                                TEST_ONE_float,
                                TEST_ONE_double,
                                TEST_ONES + TEST_ONE_float,
                                TEST_ONES + TEST_ONE_symm_f16,
                                TEST_ONES + TEST_ONE_symm_bf16};
    const uint32_t blocks = device_blocks(self->nranks) / 2;
    uint64_t host[WORDS];
    if (!has_switch(self, b))
        goto out;
    b->a.rounds = WORDS;
    RANK_TRY(self, symm_alloc(b->w, sizeof host, &b->a.y));
    for (uint64_t round = 0; round < sizeof modes / sizeof modes[0]; round++) {
        const uint32_t threads = round % 2 ? 64 : 3; /* few enough for bf16 to be exact */
        b->a.mode = modes[round];
        b->a.seed = (uint32_t)reference_random(951, round);
        RANK_TRY(self, symm_fill(b->a.y, 0, sizeof host, b->s));
        RANK_TRY(self, device_run(b, blocks, threads));
        RANK_TRY(self, device_read(b, host, b->a.y, sizeof host));
        for (uint32_t i = 0; i < WORDS; i++) {
            int32_t want = 0;
            for (uint32_t r = 0; r < (uint32_t)self->nranks; r++)
                for (uint32_t block = 0; block < blocks; block++)
                    for (uint32_t t = 0; t < threads; t++)
                        want += test_device_addend(b->a.seed, i, r, block, t, 1);
            self->report->wrong += get_number(host, i, b->a.mode % TEST_ONES) != (double)want;
        }
        CHECK_RANK_MSG(self, self->report->wrong == 0, "mode %d: %lld wrong", b->a.mode,
                       (long long)self->report->wrong);
    }
out:;
}

TEST_LOOP(switch, additions_through_the_switch_add_up_on_every_rank, device_setting.nworlds > 1,
          device_setting.nworlds)
{
    RUN_OR_SKIP(device_setting.worlds[_i], add_everywhere);
}
