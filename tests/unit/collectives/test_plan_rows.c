/* The grids of calls whose blocks have whole rows. */
#include "collectives/choice.h"
#include "collectives/plan.h"
#include <stdio.h>
#include <string.h>
#include "test.h"

static const struct symm_limits h200 = {.nranks = 8,
                                        .nsms = 132,
                                        .max_threads = 1024,
                                        .compute_major = 9,
                                        .areas = {.packet_blocks = SYMM_BLOCKS_MAX,
                                                  .block_packets = 4096,
                                                  .block_slots = 3000,
                                                  .staging_nbytes = 64 << 20}};
static const symm_algo algos[] = {SYMM_ALGO_LOW_LATENCY, SYMM_ALGO_LOW_LATENCY_TWO_SHOT,
                                  SYMM_ALGO_LAMPORT};
static const uint64_t rows[] = {1, 2, 31, 33, 66, 67, 132, 133, 1000, 100003},
                      hiddens[] = {1, 5, 6, 7, 192, 1000, 3072, 4096, 8192, 8193, 100000};
enum {
    NALGOS = sizeof algos / sizeof algos[0],
    NROWS = sizeof rows / sizeof rows[0],
    NHIDDENS = sizeof hiddens / sizeof hiddens[0],
    WARP = 32
};

static struct symm_collective_call call_of(symm_algo algo, uint64_t nrows, uint64_t hidden)
{
    return (struct symm_collective_call){.operation = SYMM_OPERATION_ALL_REDUCE_RMS_NORM,
                                         .algo = algo,
                                         .dtype = SYMM_BFLOAT16,
                                         .op = SYMM_SUM,
                                         .count = nrows * hidden,
                                         .row = hidden};
}

static struct symm_plan plan_of(const struct symm_limits *m, symm_algo algo, uint64_t nrows,
                                uint64_t hidden)
{
    const struct symm_collective_call call = call_of(algo, nrows, hidden);

    return symm__plan(m, &call, symm__choose(m, &call));
}

TEST_GROUP(plan_rows, 60);

TEST(plan_rows, each_algorithm_gets_the_kernel_of_its_dtype_and_ranks)
{
    struct symm_limits m = h200;

    for (m.nranks = 2; m.nranks <= SYMM_MAX_RANKS; m.nranks++)
        for (int a = 0; a < NALGOS; a++)
            for (int d = 0; d < 2; d++) {
                static const symm_dtype dtypes[] = {SYMM_FLOAT16, SYMM_BFLOAT16};
                const bool special = m.nranks == 2 || m.nranks == 4 || m.nranks == 8;
                struct symm_collective_call call = call_of(algos[a], 3, 100);
                char want[96], ranks[8] = "n";
                call.dtype = dtypes[d];
                if (special)
                    snprintf(ranks, sizeof ranks, "%d", m.nranks);
                snprintf(want, sizeof want, "all_reduce_rms_norm_%s_%s_%s",
                         symm_algo_name(algos[a]), symm_dtype_name(dtypes[d]), ranks);
                ck_assert_str_eq(
                    symm__kernels_name(symm__plan(&m, &call, symm__choose(&m, &call)).kernel),
                    want);
            }
}

static void check_plan(const struct symm_limits *m, symm_algo algo, uint64_t nrows, uint64_t hidden)
{
    const struct symm_plan p = plan_of(m, algo, nrows, hidden);
    const uint64_t unit = algo == SYMM_ALGO_LAMPORT ? 8 : 6,
                   shares = algo == SYMM_ALGO_LOW_LATENCY ? 1 : (uint64_t)m->nranks;

    /* All rows are there, and no cluster or block is without one. */
    const uint64_t sharing = p.blocks / p.row.blocks;
    ck_assert_uint_eq(p.blocks % p.row.blocks, 0);
    ck_assert_uint_ge(p.block_rows * sharing, nrows);
    ck_assert_uint_lt(p.block_rows * (sharing - 1), nrows);
    /* The threads of a row have all of its packs, and no block is without one. */
    const uint64_t part = (uint64_t)p.row.warps * p.row.lanes * p.row.packs * 8;
    ck_assert_uint_ge(p.row.blocks * part, hidden);
    ck_assert_uint_le(p.row.warps * p.row.lanes, p.threads);
    if (p.row.blocks > 1) {
        ck_assert_int_eq(algo, SYMM_ALGO_LOW_LATENCY);
        ck_assert_uint_eq(p.block_rows, 1);
        ck_assert_uint_eq(p.count, part);
        ck_assert_uint_ge(p.threads, p.share);
    } else {
        ck_assert_uint_eq(p.count, p.block_rows * hidden);
    }
    /* The shares hold all elements of the rows, and a block all of a share. */
    ck_assert_uint_ge(p.share * unit * shares, p.count);
    ck_assert_uint_lt((p.share - 1) * unit * shares, p.count);
    ck_assert_uint_eq(p.block_units, p.share);
    ck_assert_uint_ge(p.capacity, 1);
    /* A block fills an SM, and another group has as many. */
    ck_assert_uint_le(p.blocks, m->nsms > 1 ? (uint32_t)m->nsms / 2 : 1);
    ck_assert_uint_le(p.blocks, m->areas.packet_blocks);
    ck_assert_uint_le(p.threads, (uint32_t)m->max_threads);
    ck_assert_uint_le(p.threads, algo == SYMM_ALGO_LAMPORT ? 544 : 512);
    if (p.pdl)
        ck_assert_uint_le(4 * p.blocks * (p.row.blocks > 1 ? p.threads : 512),
                          (uint32_t)m->nsms * 512);
}

TEST(plan_rows, blocks_have_whole_rows)
{
    static const int threads[] = {1, 63, 64, 1024}, sms[] = {1, 8, 132};
    struct symm_limits m = h200;

    for (size_t t = 0; t < sizeof threads / sizeof threads[0]; t++)
        for (size_t s = 0; s < sizeof sms / sizeof sms[0]; s++)
            for (m.nranks = 2; m.nranks <= SYMM_MAX_RANKS; m.nranks += 3)
                for (int i = 0; i < NALGOS * NROWS * NHIDDENS; i++) {
                    m.max_threads = threads[t];
                    m.nsms = sms[s];
                    check_plan(&m, algos[i % NALGOS], rows[i / NALGOS % NROWS],
                               hiddens[i / NALGOS / NROWS]);
                }
}

/* So that all of them add up the squares of a row in the same order. */
TEST(plan_rows, threads_follow_from_the_row_and_the_device_alone)
{
    struct symm_limits m = h200;

    for (m.max_threads = 1; m.max_threads <= 1024; m.max_threads += 31)
        for (int h = 0; h < NHIDDENS; h++) {
            const uint32_t helpers = m.max_threads >= 2 * WARP ? WARP : 0,
                           threads = symm__plan_row_threads(&m, hiddens[h], 512);
            const symm_row_threads whole = symm__plan_row(hiddens[h], threads);
            for (int i = 0; i < NALGOS * NROWS; i++) {
                const symm_algo algo = algos[i % NALGOS];
                const struct symm_plan p = plan_of(&m, algo, rows[i / NALGOS], hiddens[h]);
                ck_assert_uint_eq(p.row.lanes, whole.lanes);
                ck_assert_uint_ge(p.row.blocks * p.row.warps * p.row.packs,
                                  whole.warps * whole.packs);
                /* Each run of packs that a warp keeps has its sum. */
                const uint32_t kept = p.row.packs < SYMM_PART_PACKS ? p.row.packs : SYMM_PART_PACKS;
                ck_assert_uint_le(p.row.blocks * p.row.warps * kept, SYMM_ROW_SUMS);
                if (p.row.blocks > 1)
                    continue;
                ck_assert_uint_eq(p.row.packs, whole.packs);
                ck_assert_uint_eq(p.threads, threads + (algo == SYMM_ALGO_LAMPORT ? helpers : 0));
            }
        }
    m.max_threads = 1024;
    ck_assert_uint_eq(plan_of(&m, algos[1], 1, 4096).threads, 512);
    ck_assert_uint_eq(plan_of(&m, algos[1], 1, 192).threads, 32);
}

/* As many blocks of a cluster as there is room for, on GPUs that have clusters. */
TEST(plan_rows, blocks_share_the_rows_if_there_are_few)
{
    static const struct {
        uint64_t nrows, hidden;
        uint32_t blocks, threads;
    } shared[] = {{1, 4096, 8, 96},   {8, 4096, 8, 96},  {9, 4096, 4, 192}, {16, 4096, 4, 192},
                  {17, 4096, 1, 512}, {1, 8192, 8, 192}, {9, 8192, 1, 512}, {4, 2048, 8, 64},
                  {1, 200, 1, 64},    {1, 300, 2, 64}};
    struct symm_limits m = h200;

    for (size_t i = 0; i < sizeof shared / sizeof shared[0]; i++) {
        const struct symm_plan p =
            plan_of(&m, SYMM_ALGO_LOW_LATENCY, shared[i].nrows, shared[i].hidden);
        ck_assert_uint_eq(p.row.blocks, shared[i].blocks);
        ck_assert_uint_eq(p.threads, shared[i].threads);
    }
    m.compute_major = 8;
    ck_assert_uint_eq(plan_of(&m, SYMM_ALGO_LOW_LATENCY, 1, 4096).row.blocks, 1);
    m = h200;
    m.max_threads = 64;
    ck_assert_uint_eq(plan_of(&m, SYMM_ALGO_LOW_LATENCY, 1, 4096).row.blocks, 1);
}

TEST(plan_rows, few_rows_begin_early_and_max_blocks_is_kept)
{
    struct symm_collective_call call = call_of(SYMM_ALGO_LAMPORT, 1000, 4096);

    ck_assert(plan_of(&h200, SYMM_ALGO_LOW_LATENCY, 33, 4096).pdl);
    ck_assert(!plan_of(&h200, SYMM_ALGO_LOW_LATENCY, 34, 4096).pdl);
    ck_assert_uint_eq(plan_of(&h200, SYMM_ALGO_LAMPORT, 256, 4096).blocks, 64);
    call.max_blocks = 7;
    const struct symm_plan p = symm__plan(&h200, &call, symm__choose(&h200, &call));
    ck_assert_uint_eq(p.blocks, 7);
    ck_assert_uint_eq(p.block_rows, 143);
}

TEST(plan_rows, auto_takes_low_latency_for_few_bytes_and_lamport_for_many)
{
    struct symm_limits m = h200;

    for (m.nranks = 2; m.nranks <= SYMM_MAX_RANKS; m.nranks++) {
        const struct symm_collective_call few = call_of(SYMM_ALGO_AUTO, 1, 4096),
                                          many = call_of(SYMM_ALGO_AUTO, 256, 8192);
        ck_assert_int_ne(symm__choose(&m, &few)->algo, SYMM_ALGO_LAMPORT);
        ck_assert_int_eq(symm__choose(&m, &many)->algo, SYMM_ALGO_LAMPORT);
    }
}

static void expect_reason(symm_algo algo, symm_dtype dtype, const char *part)
{
    const char *reason =
        symm__collective_reason(&h200, SYMM_OPERATION_ALL_REDUCE_RMS_NORM, algo, dtype, SYMM_SUM);

    ck_assert_msg(part ? reason && strstr(reason, part) : !reason, "%s, not %s",
                  reason ? reason : "none", part ? part : "none");
}

TEST(plan_rows, norms_that_cannot_run_have_a_reason)
{
    static const symm_algo others[] = {SYMM_ALGO_ONE_SHOT, SYMM_ALGO_TWO_SHOT, SYMM_ALGO_MULTIMEM,
                                       SYMM_ALGO_MULTIMEM_ONE_SHOT, SYMM_ALGO_COPY_ENGINE};

    for (symm_dtype d = SYMM_FLOAT32; d <= SYMM_FLOAT8_E5M2; d++) {
        const char *part = d == SYMM_FLOAT16 || d == SYMM_BFLOAT16 ? NULL
                           : d <= SYMM_INT64                       ? "float16 and bfloat16 only"
                                                                   : "no arithmetic";
        expect_reason(SYMM_ALGO_AUTO, d, part);
        for (int a = 0; a < 2; a++)
            expect_reason(algos[a], d, part);
    }
    for (size_t a = 0; a < sizeof others / sizeof others[0]; a++)
        expect_reason(others[a], SYMM_BFLOAT16, "no such algorithm");
}
