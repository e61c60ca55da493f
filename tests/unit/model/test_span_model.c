/*
 * The model of calls between domains: points computed by hand from NCCL's formula, what must grow
 * with what, and the limits.
 */
#include "model/cost.h"
#include "model/span.h"
#include "test.h"

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)

static struct symm_span_model of(enum symm_model_operation operation, uint64_t nbytes,
                                 uint32_t ndomains, uint32_t width)
{
    return (struct symm_span_model){operation, nbytes, ndomains, width};
}

static double us(uint64_t ns)
{
    return (double)ns / 1e3;
}

TEST_GROUP(points, 20);

/*
 * 8 GPUs a host, 384 GB/s of 16 channels. For example all-reduce of 64 MiB on 2 hosts, a ring with
 * LL128: 14 + 28 steps inside of 1.9 us + 2 between of 4, and 64 MiB at 0.92 x 384 x 16 / 30 GB/s.
 */
static const struct {
    enum symm_model_operation operation;
    uint64_t nbytes;
    uint32_t ndomains;
    double flat_us, nvls_us;
} points[] = {
    /* a tree with LL: 6.8 + 2 (7 x 0.6 + 5), and 4 KiB at 0.7 x 39 / 2 GB/s */
    {SYMM_MODEL_ALL_REDUCE, 4 * KIB, 2, 25.5, 25.5},
    /* with LL128: 14 + 2 (7 x 1.25 + 8.5), and 256 KiB at 0.6 x 331 / 2 GB/s */
    {SYMM_MODEL_ALL_REDUCE, 256 * KIB, 2, 51.1, 51.1},
    /* the same with two levels of ten: 14 + 2 (7 x 1.25 + 10 x 8.5), 4 MiB at 0.6 x 331 / 2 */
    {SYMM_MODEL_ALL_REDUCE, 256 * KIB, 1024, 179, 179},
    {SYMM_MODEL_ALL_REDUCE, 64 * MIB, 2, 431.6, 272.5},
    {SYMM_MODEL_ALL_REDUCE, 1024 * MIB, 16, 6255, 5741},
    /* a ring with LL: 6.6 + 14 posts of 1 us + 1 step between of 2.7, and 8 KiB at 39 x 16 / 15 */
    {SYMM_MODEL_ALL_GATHER, 8 * KIB, 2, 23.5, 23.5},
    {SYMM_MODEL_ALL_GATHER, 8 * KIB, 16, 159, 159},
    {SYMM_MODEL_REDUCE_SCATTER, 4 * MIB, 128, 1451, 1451},
    {SYMM_MODEL_REDUCE_SCATTER, 1024 * MIB, 1024, 20764, 20764},
};

TEST_LOOP(points, flat_is_nccls_fastest_algorithm, 0, sizeof points / sizeof points[0])
{
    const struct symm_span_model m =
        of(points[_i].operation, points[_i].nbytes, points[_i].ndomains, 8);

    ck_assert_double_eq_tol(us(symm__flat_ns(&m)), points[_i].flat_us, 0.005 * points[_i].flat_us);
    ck_assert_double_eq_tol(us(symm__flat_nvls_ns(&m)), points[_i].nvls_us,
                            0.005 * points[_i].nvls_us);
}

/*
 * 256 KiB on two hosts of 8: inside 2 + 8 x 0.15 + 7 x 32 KiB at 215 GB/s = 4.27 and 1.7 + 1.2 +
 * 1.07 = 3.97; on the rail a tree with LL of 32 KiB: 6.8 + 2 x 5 + 32 KiB at 0.7 x min(48 x 0.92 /
 * 3.8, 39) / 2 = 8.06; two more kernels.
 */
TEST(points, hierarchical_is_the_sum_of_its_legs)
{
    const struct symm_span_model reduce = of(SYMM_MODEL_ALL_REDUCE, 256 * KIB, 2, 8);
    const struct symm_span_model gather = of(SYMM_MODEL_ALL_GATHER, 8 * KIB, 2, 8);
    const struct symm_span_model alone = of(SYMM_MODEL_ALL_GATHER, 8 * KIB, 2, 1);
    const struct symm_nccl_call rail = {.operation = SYMM_MODEL_ALL_REDUCE,
                                        .nbytes = 32 * KIB,
                                        .nhosts = 2,
                                        .width = 1,
                                        .channels = SYMM_MODEL_CHANNELS};

    ck_assert_double_eq_tol(us(symm__hierarchical_ns(&reduce)),
                            4.27 + 3.97 + us(symm__nccl_ns(&rail)) + 2 * 1.5, 0.1);
    ck_assert(us(symm__nccl_ns(&rail)) > 6.8 + 10 && us(symm__nccl_ns(&rail)) < 6.8 + 10 + 8.1);
    /* 6.6 + 5 + 1 KiB at 24 x 2 GB/s; 1.7 + 8 x 0.15 + 7 KiB at 215; 16 KiB; 2 kernels. */
    ck_assert_double_eq_tol(us(symm__hierarchical_ns(&gather)),
                            6.6 + 5 + 0.02 + 2.9 + 0.03 + 2 * 1.5, 0.1);
    ck_assert_uint_eq(symm__hierarchical_ns(&alone),
                      symm__nccl_ns(&(struct symm_nccl_call){.operation = SYMM_MODEL_ALL_GATHER,
                                                             .nbytes = 8 * KIB,
                                                             .nhosts = 2,
                                                             .width = 1,
                                                             .channels = SYMM_MODEL_CHANNELS}));
}

TEST_GROUP(shape, 20);

/* But for NCCL's own table of corrections, by which a larger tree may take less. */
TEST_LOOP(shape, more_bytes_and_more_domains_take_longer, 0, SYMM_MODEL_OPERATIONS)
{
    for (uint32_t n = 2; n <= 4096; n *= 2)
        for (uint64_t nbytes = 1; nbytes <= UINT64_C(1) << 40; nbytes *= 2) {
            const struct symm_span_model m = of((enum symm_model_operation)_i, nbytes, n, 8);
            const struct symm_span_model more = of(m.operation, nbytes * 4, n, 8);
            const struct symm_span_model wider = of(m.operation, nbytes, n * 2, 8);
            ck_assert_uint_ge(symm__flat_ns(&more) * 101 / 100, symm__flat_ns(&m));
            ck_assert_uint_ge(symm__hierarchical_ns(&more) * 101 / 100, symm__hierarchical_ns(&m));
            ck_assert_uint_ge(symm__flat_ns(&wider), symm__flat_ns(&m));
            ck_assert_uint_ge(symm__hierarchical_ns(&wider), symm__hierarchical_ns(&m));
            ck_assert_uint_le(symm__flat_nvls_ns(&m), symm__flat_ns(&m));
            const struct symm_span_model alone = of(m.operation, nbytes, n, 1);
            ck_assert_uint_eq(symm__hierarchical_ns(&alone), symm__flat_ns(&alone));
        }
}

TEST(shape, transfers_do_not_overflow)
{
    ck_assert_uint_eq(symm__transfer_ns(0, 1), 0);
    ck_assert_uint_eq(symm__transfer_ns(999, 1000), 999);
    ck_assert_uint_eq(symm__transfer_ns(UINT64_C(1) << 60, UINT64_C(1) << 20),
                      (UINT64_C(1) << 40) * 1000);
}

TEST_GROUP(forms, 20);

/* In the middle of an all-reduce; not at its ends, nor where domains have one rank. */
TEST(forms, hierarchical_pays_where_it_is_clearly_faster)
{
    static const uint32_t domains[] = {2, 16, 128, 1024};

    for (size_t i = 0; i < sizeof domains / sizeof domains[0]; i++) {
        const struct symm_span_model small = of(SYMM_MODEL_ALL_REDUCE, 8 * KIB, domains[i], 8);
        const struct symm_span_model middle = of(SYMM_MODEL_ALL_REDUCE, 256 * KIB, domains[i], 8);
        const struct symm_span_model large = of(SYMM_MODEL_ALL_REDUCE, 64 * MIB, domains[i], 8);
        const struct symm_span_model alone = of(SYMM_MODEL_ALL_REDUCE, 256 * KIB, domains[i], 1);
        ck_assert(!symm__hierarchical_pays(&small));
        ck_assert(symm__hierarchical_pays(&middle));
        ck_assert(!symm__hierarchical_pays(&large));
        ck_assert(!symm__hierarchical_pays(&alone));
    }
    for (uint64_t nbytes = KIB; nbytes <= 1024 * MIB; nbytes *= 2) {
        const struct symm_span_model m = of(SYMM_MODEL_ALL_REDUCE, nbytes, 2, 8);
        ck_assert_int_eq(symm__hierarchical_pays(&m),
                         symm__hierarchical_ns(&m) * 10 < symm__flat_ns(&m) / 10 * 90);
    }
}
