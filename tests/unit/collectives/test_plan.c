/* The rules by which a collective gets its kernel and its grid. */
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

static const struct variant {
    enum symm_operation operation;
    symm_algo algo;
} variants[] = {
    {SYMM_OPERATION_ALL_REDUCE, SYMM_ALGO_LOW_LATENCY},
    {SYMM_OPERATION_ALL_REDUCE, SYMM_ALGO_LOW_LATENCY_TWO_SHOT},
    {SYMM_OPERATION_ALL_REDUCE, SYMM_ALGO_LAMPORT},
    {SYMM_OPERATION_ALL_REDUCE, SYMM_ALGO_ONE_SHOT},
    {SYMM_OPERATION_ALL_REDUCE, SYMM_ALGO_TWO_SHOT},
    {SYMM_OPERATION_ALL_REDUCE, SYMM_ALGO_MULTIMEM},
    {SYMM_OPERATION_ALL_REDUCE, SYMM_ALGO_MULTIMEM_ONE_SHOT},
    {SYMM_OPERATION_REDUCE_SCATTER, SYMM_ALGO_LOW_LATENCY},
    {SYMM_OPERATION_REDUCE_SCATTER, SYMM_ALGO_LAMPORT},
    {SYMM_OPERATION_REDUCE_SCATTER, SYMM_ALGO_ONE_SHOT},
    {SYMM_OPERATION_REDUCE_SCATTER, SYMM_ALGO_MULTIMEM},
    {SYMM_OPERATION_ALL_GATHER, SYMM_ALGO_LOW_LATENCY},
    {SYMM_OPERATION_ALL_GATHER, SYMM_ALGO_ONE_SHOT},
    {SYMM_OPERATION_ALL_GATHER, SYMM_ALGO_MULTIMEM},
    {SYMM_OPERATION_BROADCAST, SYMM_ALGO_LOW_LATENCY},
    {SYMM_OPERATION_BROADCAST, SYMM_ALGO_ONE_SHOT},
    {SYMM_OPERATION_BROADCAST, SYMM_ALGO_MULTIMEM},
};
/* First the types of reductions. */
static const symm_dtype dtypes[] = {SYMM_FLOAT32, SYMM_FLOAT16,     SYMM_BFLOAT16,
                                    SYMM_FLOAT64, SYMM_INT32,       SYMM_INT64,
                                    SYMM_UINT8,   SYMM_FLOAT8_E4M3, SYMM_FLOAT8_E5M2};
static const symm_redop ops[] = {SYMM_SUM, SYMM_AVG, SYMM_MIN, SYMM_MAX};

enum {
    NVARIANTS = sizeof variants / sizeof variants[0],
    NFLOATS = 4,
    NDTYPES = 6,
    NEVERY_DTYPE = 9,
    NOPS = 4
};

static bool by_switch(symm_algo algo)
{
    return algo == SYMM_ALGO_MULTIMEM || algo == SYMM_ALGO_MULTIMEM_ONE_SHOT;
}

/* Any elements, as bytes. */
static bool moves(enum symm_operation operation)
{
    return operation == SYMM_OPERATION_ALL_GATHER || operation == SYMM_OPERATION_BROADCAST;
}

static bool by_packets(symm_algo algo)
{
    return algo == SYMM_ALGO_LOW_LATENCY || algo == SYMM_ALGO_LOW_LATENCY_TWO_SHOT;
}

/* Exchanges shares through the staging area. */
static bool by_staging(struct variant v)
{
    return v.operation == SYMM_OPERATION_ALL_REDUCE
               ? v.algo == SYMM_ALGO_TWO_SHOT
               : !by_packets(v.algo) && v.algo != SYMM_ALGO_LAMPORT;
}

/* Ranks that have slots in a block's part of an area: of two ranks, only the other one. */
static uint64_t slot_ranks(struct variant v, int nranks)
{
    return nranks == 2 && v.algo != SYMM_ALGO_MULTIMEM ? 1 : (uint64_t)nranks;
}

static int dtypes_of(struct variant v)
{
    return moves(v.operation) ? NEVERY_DTYPE : v.algo == SYMM_ALGO_LAMPORT ? NFLOATS : NDTYPES;
}

static struct symm_plan plan_of(const struct symm_limits *m, struct variant v, symm_dtype dtype,
                                uint64_t count, uint32_t flags, uint32_t max_blocks)
{
    const struct symm_collective_call call = {.operation = v.operation,
                                              .algo = v.algo,
                                              .flags = flags,
                                              .max_blocks = max_blocks,
                                              .dtype = dtype,
                                              .op = SYMM_SUM,
                                              .count = count};
    return symm__plan(m, &call, symm__choose(m, &call));
}

static symm_algo choose(const struct symm_limits *m, uint64_t count, uint32_t flags)
{
    const struct symm_collective_call call = {.operation = SYMM_OPERATION_ALL_REDUCE,
                                              .flags = flags,
                                              .dtype = SYMM_BFLOAT16,
                                              .op = SYMM_SUM,
                                              .count = count};
    return symm__choose(m, &call)->algo;
}

/* Of an all-reduce. */
static struct symm_plan plan(const struct symm_limits *m, symm_algo algo, uint64_t count,
                             uint32_t flags, uint32_t max_blocks)
{
    return plan_of(m, (struct variant){SYMM_OPERATION_ALL_REDUCE, algo}, SYMM_BFLOAT16, count,
                   flags, max_blocks);
}

TEST_GROUP(plan, 60);

TEST(plan, each_algorithm_gets_the_kernel_of_its_dtype_and_ranks)
{
    struct symm_limits m = h200;
    for (m.nranks = 2; m.nranks <= SYMM_MAX_RANKS; m.nranks++)
        for (int i = 0; i < NVARIANTS; i++)
            for (int d = 0; d < dtypes_of(variants[i]); d++) {
                const struct variant v = variants[i];
                char want[96];
                const char *name = symm__kernels_name(plan_of(&m, v, dtypes[d], 1000, 0, 0).kernel);
                int n = snprintf(want, sizeof want, "%s_%s_%s", symm__operation_name(v.operation),
                                 symm_algo_name(v.algo),
                                 moves(v.operation) ? "bytes" : symm_dtype_name(dtypes[d]));
                if (!by_switch(v.algo) && (m.nranks == 2 || m.nranks == 4 || m.nranks == 8))
                    snprintf(want + n, sizeof want - (size_t)n, "_%d", m.nranks);
                else if (!by_switch(v.algo))
                    snprintf(want + n, sizeof want - (size_t)n, "_n");
                ck_assert_str_eq(name, want);
            }
}

/* ---- The grid ---- */

/* The bounds that the lists of kernels set. */
static const struct {
    uint32_t threads, blocks;
} bounds[SYMM_IMAGE_COUNT * SYMM_KERNELS_MAX] = {
#define BOUNDS(name, args, threads, blocks, body) [SYMM_KERNEL_##name] = {threads, blocks},
#define NONE(name, args, threads, registers, body)
    SYMM_ALL_REDUCE_PACKETS_KERNELS(BOUNDS, NONE) SYMM_ALL_REDUCE_ONE_SHOT_KERNELS(BOUNDS, NONE)
        SYMM_ALL_REDUCE_TWO_SHOT_KERNELS(BOUNDS, NONE) SYMM_REDUCE_SCATTER_KERNELS(BOUNDS, NONE)
            SYMM_ALL_GATHER_KERNELS(BOUNDS, NONE) SYMM_LAMPORT_KERNELS(BOUNDS, NONE)
                SYMM_MULTIMEM_KERNELS(BOUNDS, NONE) SYMM_BROADCAST_KERNELS(BOUNDS, NONE)
#undef NONE
#undef BOUNDS
};

/* Kernels that first wait for the kernel before them, which check_ptx.sh checks. */
static bool begins_early(symm_kernel_id kernel)
{
    const char *name = symm__kernels_name(kernel);
    return strstr(name, "_low_latency_") || strstr(name, "_lamport_") ||
           strstr(name, "all_reduce_two_shot_") || strstr(name, "all_gather_one_shot_") ||
           strstr(name, "broadcast_one_shot_");
}

static void assert_grid(const struct symm_limits *m, const struct symm_plan *p, symm_algo algo)
{
    const uint32_t most = bounds[p->kernel].threads;

    ck_assert_uint_ge(p->blocks, 1);
    ck_assert_uint_le(p->blocks, SYMM_BLOCKS_MAX);
    ck_assert_uint_ge(p->threads, 1);
    ck_assert_uint_le(p->threads, most);
    ck_assert_int_le((int)p->threads, m->max_threads);
    ck_assert(m->max_threads < 32 ? (int)p->threads == m->max_threads : p->threads % 32 == 0);
    if (by_packets(algo) || !begins_early(p->kernel))
        ck_assert(p->pdl == (by_packets(algo) && p->threads <= 128));
    /* Two grids at once have a place, and the next ones of the same groups if they begin early: so
     * many threads with these registers a multiprocessor. */
    ck_assert_msg(p->blocks == 1 || (uint64_t)(p->pdl ? 4 : 2) * p->blocks * p->threads <=
                                        (uint64_t)m->nsms * bounds[p->kernel].blocks * most,
                  "%s: %u blocks of %u on %d", symm__kernels_name(p->kernel), p->blocks, p->threads,
                  m->nsms);
    ck_assert(p->blocks == 1 || 2 * p->blocks <= bounds[p->kernel].blocks * (uint32_t)m->nsms);
}

TEST(plan, two_groups_fit_on_one_device)
{
    static const int sms[] = {1, 2, 3, 8, 64, 132, 148},
                     threads[] = {1, 3, 31, 32, 33, 64, 1000, 1024};
    struct symm_limits m = h200;
    for (size_t s = 0; s < sizeof sms / sizeof sms[0]; s++)
        for (size_t t = 0; t < sizeof threads / sizeof threads[0]; t++)
            for (m.nranks = 2; m.nranks <= 9; m.nranks++)
                for (int i = 0; i < NVARIANTS; i++)
                    for (uint64_t count = 1; count < UINT64_C(1) << 40; count = count * 3 + 1) {
                        m.nsms = sms[s];
                        m.max_threads = threads[t];
                        const struct symm_plan p =
                            plan_of(&m, variants[i], SYMM_BFLOAT16, count, 0, 0);
                        assert_grid(&m, &p, variants[i].algo);
                    }
}

TEST(plan, grids_grow_with_the_work_and_end_where_they_are_told)
{
    ck_assert_uint_eq(plan(&h200, SYMM_ALGO_ONE_SHOT, 1, 0, 0).threads, 32);
    ck_assert_uint_eq(plan(&h200, SYMM_ALGO_ONE_SHOT, 8 * 512, 0, 0).blocks, 1);
    ck_assert_uint_eq(plan(&h200, SYMM_ALGO_ONE_SHOT, 8 * 512 + 1, 0, 0).blocks, 2);
    ck_assert_uint_eq(plan(&h200, SYMM_ALGO_ONE_SHOT, 1 << 28, 0, 0).blocks, 32);
    ck_assert_uint_eq(plan(&h200, SYMM_ALGO_LOW_LATENCY, 6 * 128, 0, 0).blocks, 1);
    ck_assert_uint_eq(plan(&h200, SYMM_ALGO_LOW_LATENCY, 6 * 128 + 1, 0, 0).blocks, 2);
    ck_assert_uint_eq(plan(&h200, SYMM_ALGO_LOW_LATENCY, 1 << 20, 0, 0).threads, 256);
    ck_assert_uint_eq(plan(&h200, SYMM_ALGO_TWO_SHOT, 1 << 28, 0, 0).blocks, SYMM_BLOCKS_MAX);
    ck_assert_uint_eq(plan(&h200, SYMM_ALGO_TWO_SHOT, 1 << 28, 0, 0).threads, 256);
    ck_assert_uint_eq(plan(&h200, SYMM_ALGO_TWO_SHOT, UINT64_MAX / 4, 0, 0).blocks,
                      SYMM_BLOCKS_MAX);
    for (int i = 0; i < NVARIANTS; i++) {
        uint64_t before = 0;
        ck_assert_uint_eq(plan_of(&h200, variants[i], SYMM_BFLOAT16, 1 << 28, 0, 5).blocks, 5);
        for (uint64_t count = 1; count < 1 << 26; count *= 2) {
            const struct symm_plan p = plan_of(&h200, variants[i], SYMM_BFLOAT16, count, 0, 0);
            ck_assert_uint_ge((uint64_t)p.blocks * p.threads, before);
            before = (uint64_t)p.blocks * p.threads;
        }
    }
}

TEST(plan, grids_of_half_the_blocks_begin_early)
{
    const struct variant gather = {SYMM_OPERATION_ALL_GATHER, SYMM_ALGO_ONE_SHOT};
    struct symm_limits m = h200;
    struct symm_plan p;

    m.nranks = 4;
    p = plan(&m, SYMM_ALGO_TWO_SHOT, 1 << 21, 0, 0); /* 4 MiB */
    ck_assert(p.blocks == 64 && p.block_units == 1024 && p.pdl);
    p = plan(&m, SYMM_ALGO_TWO_SHOT, (1 << 21) + 32, 0, 0);
    ck_assert(p.blocks == 128 && !p.pdl);
    ck_assert(plan(&m, SYMM_ALGO_TWO_SHOT, 1 << 25, 0, 64).pdl); /* because of max_blocks */
    p = plan_of(&m, gather, SYMM_BFLOAT16, 1 << 20, 0, 0);       /* 8 MiB */
    ck_assert(p.blocks == 64 && p.block_units == 2048 && p.pdl);
    p = plan_of(&m, gather, SYMM_BFLOAT16, (1 << 20) + 1, 0, 0);
    ck_assert(p.blocks == 128 && !p.pdl);
    p = plan_of(&m, (struct variant){SYMM_OPERATION_REDUCE_SCATTER, SYMM_ALGO_ONE_SHOT},
                SYMM_BFLOAT16, 1 << 19, 0, 0);
    ck_assert(p.blocks == 128 && !p.pdl);
}

TEST(plan, packets_have_few_threads_a_block_while_there_are_blocks)
{
    const struct variant scatter = {SYMM_OPERATION_REDUCE_SCATTER, SYMM_ALGO_LOW_LATENCY};
    const uint64_t blocks = SYMM_BLOCKS_MAX;
    static const uint32_t threads[] = {64, 128, 256, 256};

    for (uint64_t i = 0; i < 4; i++) /* six elements a packet */
        for (uint64_t more = 0; more < 2 && i + more < 4; more++)
            ck_assert_uint_eq(
                plan_of(&h200, scatter, SYMM_BFLOAT16, 6 * (blocks * 64 << i) + more, 0, 0).threads,
                threads[i + more]);
}

/* One more than move packs, if the device allows two. */
TEST(plan, lamport_has_a_warp_that_tells_and_waits)
{
    static const int most[] = {1, 31, 32, 63, 64, 256, 1024}, threads[] = {1, 31, 32, 32, 64, 256};
    struct symm_limits m = h200;
    for (size_t i = 0; i < sizeof most / sizeof most[0]; i++) {
        m.max_threads = most[i];
        ck_assert_int_eq((int)plan(&m, SYMM_ALGO_LAMPORT, 1 << 28, 0, 0).threads,
                         i < 6 ? threads[i] : 288);
    }
    ck_assert_int_eq((int)plan(&h200, SYMM_ALGO_LAMPORT, 1, 0, 0).threads, 64);
}

/* ---- The work ---- */

/* Elements of a unit. */
static uint64_t unit_of(struct variant v, symm_dtype dtype)
{
    const uint64_t size = moves(v.operation) ? 1 : symm_dtype_size(dtype);
    return !by_packets(v.algo) ? 16 / size : size == 8 ? 1 : 12 / size;
}

/* Units cover all elements, shares all units, blocks all units of a share. */
static void assert_covered(const struct symm_plan *p, struct variant v, symm_dtype dtype,
                           uint64_t count, int nranks)
{
    const uint64_t unit = unit_of(v, dtype), units = count / unit + (count % unit != 0);
    const uint64_t nbytes = count * symm_dtype_size(dtype);
    if (v.operation == SYMM_OPERATION_ALL_GATHER) {
        ck_assert_uint_eq(p->stride, nbytes);
        ck_assert_uint_eq(p->count, nbytes * (uint64_t)nranks);
        ck_assert_uint_eq(p->share, nbytes / unit + (nbytes % unit != 0));
    } else if (v.operation == SYMM_OPERATION_BROADCAST) {
        ck_assert_uint_eq(p->stride, nbytes);
        ck_assert_uint_eq(p->count, nbytes);
        ck_assert_uint_eq(p->share, nbytes / unit + (nbytes % unit != 0));
    } else if (v.operation == SYMM_OPERATION_REDUCE_SCATTER) {
        ck_assert_uint_eq(p->stride, count);
        ck_assert_uint_eq(p->count, count * (uint64_t)nranks);
        ck_assert_uint_eq(p->share, units);
    } else if (v.algo == SYMM_ALGO_TWO_SHOT || v.algo == SYMM_ALGO_LOW_LATENCY_TWO_SHOT ||
               v.algo == SYMM_ALGO_LAMPORT) {
        ck_assert_uint_eq(p->count, count);
        ck_assert_uint_eq(p->stride, p->share * unit);
        ck_assert_uint_ge(p->share * (uint64_t)nranks, units);
        ck_assert_uint_lt((p->share - 1) * (uint64_t)nranks, units);
    } else {
        ck_assert_uint_eq(p->count, count);
        ck_assert_uint_eq(p->share, units);
    }
    ck_assert_uint_ge(p->block_units * p->blocks, p->share);
    ck_assert_uint_lt((p->block_units - 1) * p->blocks, p->share);
}

TEST(plan, slices_cover_everything)
{
    struct symm_limits m = h200;
    for (m.nranks = 2; m.nranks <= SYMM_MAX_RANKS; m.nranks += m.nranks < 9 ? 1 : 21)
        for (int i = 0; i < NVARIANTS; i++)
            for (int d = 0; d < dtypes_of(variants[i]); d++)
                for (uint64_t count = 1; count < UINT64_C(1) << 40; count += 1 + count / 3) {
                    const struct symm_plan p = plan_of(&m, variants[i], dtypes[d], count, 0, 0);
                    assert_covered(&p, variants[i], dtypes[d], count, m.nranks);
                }
}

/* Two sets of slots; low_latency_two_shot and lamport use a half of a set for each of two steps. */
static void assert_room(const struct symm_limits *m, const struct symm_plan *p, struct variant v)
{
    const uint64_t nranks = (uint64_t)m->nranks, staging = (uint64_t)p->blocks * p->capacity * 16;
    ck_assert_uint_ge(p->capacity, 1);
    if (v.algo == SYMM_ALGO_LOW_LATENCY)
        ck_assert_uint_le(2 * nranks * p->capacity, m->areas.block_packets);
    else if (v.algo == SYMM_ALGO_LOW_LATENCY_TWO_SHOT)
        ck_assert_uint_le(4 * nranks * p->capacity, m->areas.block_packets);
    else if (v.algo == SYMM_ALGO_LAMPORT)
        ck_assert_uint_le((v.operation == SYMM_OPERATION_ALL_REDUCE ? 4 : 2) *
                              slot_ranks(v, m->nranks) * p->capacity,
                          m->areas.block_slots);
    else /* a half of the staging area has four slots for each rank with slots, or one chunk */
        ck_assert_uint_le((by_staging(v) ? 4 * slot_ranks(v, m->nranks) : 1) * staging,
                          m->areas.staging_nbytes / 2);
}

TEST(plan, large_slices_of_two_shot_go_in_two_chunks)
{
    struct symm_limits m = h200;
    m.nranks = 2;
    for (uint64_t count = 1 << 20; count <= 1 << 26; count += count / 3) {
        const struct symm_plan p = plan(&m, SYMM_ALGO_TWO_SHOT, count, 0, 0);
        const uint64_t nchunks = p.block_units / p.capacity + (p.block_units % p.capacity != 0);
        ck_assert_uint_eq(nchunks == 1, p.block_units < 2048);
        ck_assert_uint_eq(p.capacity % p.threads, 0);
    }
    ck_assert_uint_lt(plan(&m, SYMM_ALGO_TWO_SHOT, 1 << 20, 0, 0).block_units, 2048);
}

/* Chunks are whole passes of a block's threads, and as few as the capacity allows. */
TEST(plan, chunks_are_few_and_of_one_size)
{
    struct symm_limits m = h200;
    for (m.nranks = 2; m.nranks <= 8; m.nranks++)
        for (int i = 0; i < NVARIANTS; i++)
            for (uint64_t count = 1 << 20; count <= UINT64_C(1) << 31; count += count / 3) {
                const struct symm_plan p = plan_of(&m, variants[i], SYMM_BFLOAT16, count, 0, 0);
                const uint64_t threads = p.threads,
                               n = p.block_units / p.capacity + (p.block_units % p.capacity != 0),
                               staging = m.areas.staging_nbytes / 2 / 16 / p.blocks,
                               slots = 4 * slot_ranks(variants[i], m.nranks),
                               most = staging / slots / threads * threads;
                if (!by_staging(variants[i]))
                    continue;
                ck_assert_uint_eq(p.capacity % threads, 0);
                ck_assert_uint_lt(n * p.capacity - p.block_units, n * threads);
                ck_assert(n == 1 || (n - 1) * most < p.block_units ||
                          (n == 2 && variants[i].algo == SYMM_ALGO_TWO_SHOT) ||
                          (n == 3 && variants[i].algo == SYMM_ALGO_ONE_SHOT &&
                           variants[i].operation == SYMM_OPERATION_REDUCE_SCATTER));
            }
}

/* 64 MiB of two ranks: two chunks took 123 us, three 114. */
TEST(plan, a_large_reduce_scatter_goes_in_three_chunks)
{
    static const struct variant one_shot = {SYMM_OPERATION_REDUCE_SCATTER, SYMM_ALGO_ONE_SHOT};
    struct symm_limits m = h200;
    m.nranks = 2;
    m.areas.staging_nbytes = 256 << 20;
    const struct symm_plan p = plan_of(&m, one_shot, SYMM_BFLOAT16, 16 << 20, 0, 0);

    ck_assert_uint_eq((p.block_units + p.capacity - 1) / p.capacity, 3);
}

/* What a group has at least, of group.c: staging for a pack of every rank in each slot of an
 * exchange, and two packets of every rank in each of the four parts of a block. */
TEST(plan, every_block_has_room_and_stays_within_its_part)
{
    struct symm_limits m = h200;
    for (m.nranks = 2; m.nranks <= SYMM_MAX_RANKS; m.nranks++)
        for (uint64_t staging = 1024; staging <= 256 << 20; staging += 16 + staging / 7 / 16 * 16)
            for (int i = 0; i < NVARIANTS; i++)
                for (uint64_t count = 1; count < UINT64_C(1) << 36; count *= 64) {
                    const uint64_t nranks = (uint64_t)m.nranks, least = 128 * nranks,
                                   packets = staging / 8 / 16 / SYMM_BLOCKS_MAX;
                    m.areas.staging_nbytes = staging > least ? staging : least;
                    m.areas.block_packets = (uint32_t)(packets > 8 * nranks ? packets : 8 * nranks);
                    m.areas.block_slots = m.areas.block_packets / 2 + 4 * (uint32_t)nranks;
                    const struct symm_plan p = plan_of(&m, variants[i], SYMM_BFLOAT16, count, 0, 0);
                    assert_room(&m, &p, variants[i]);
                }
}

/* ---- The choice ---- */

static int step_of(symm_algo algo)
{
    return algo == SYMM_ALGO_LOW_LATENCY            ? 0
           : algo == SYMM_ALGO_LOW_LATENCY_TWO_SHOT ? 1
           : algo == SYMM_ALGO_LAMPORT              ? 2
           : algo == SYMM_ALGO_TWO_SHOT             ? 3
                                                    : 4;
}

static const int unrolled[] = {2, 4, 8};

TEST_LOOP(plan, auto_goes_from_latency_to_bandwidth_and_never_back, 0, 3)
{
    struct symm_limits m = h200;
    m.nranks = unrolled[_i];
    for (int without = 0; without < 3; without++) {
        int before = 0, seen = 0;
        m.multicast_off = without == 1 ? "off" : NULL;
        for (uint64_t count = 1; count < UINT64_C(1) << 36; count += 1 + count / 50) {
            int step = step_of(choose(&m, count, without == 2 ? SYMM_DETERMINISTIC : 0));
            /* Two ranks send the same bytes in shares: either may be faster. */
            if (m.nranks == 2 && step == 1)
                step = 0;
            ck_assert_int_ge(step, before);
            before = step;
            seen |= 1 << step;
        }
        if (without)
            ck_assert_int_eq(seen | (m.nranks == 2 ? 2 : 0), 7);
        ck_assert_int_eq(seen & 1, 1);
        if (!without)
            ck_assert_int_eq(before, m.nranks == 2 ? 2 : 4);
    }
}

TEST(plan, auto_takes_the_switch_where_it_may_and_can)
{
    struct symm_limits m = h200;
    struct symm_collective_call call = {.algo = SYMM_ALGO_AUTO, .count = 1 << 24};
    for (int d = 0; d < NDTYPES; d++)
        for (int o = 0; o < NOPS; o++) {
            call.dtype = dtypes[d];
            call.op = ops[o];
            if (symm__collective_reason(&m, SYMM_OPERATION_ALL_REDUCE, SYMM_ALGO_AUTO, call.dtype,
                                        call.op))
                continue;
            const bool can = !symm__collective_reason(&m, SYMM_OPERATION_ALL_REDUCE,
                                                      SYMM_ALGO_MULTIMEM, call.dtype, call.op);
            const symm_algo other = d < NFLOATS ? SYMM_ALGO_LAMPORT : SYMM_ALGO_TWO_SHOT;
            call.flags = 0;
            ck_assert_int_eq(symm__choose(&m, &call)->algo, can ? SYMM_ALGO_MULTIMEM : other);
            call.flags = SYMM_DETERMINISTIC;
            for (call.count = 1; call.count < 1 << 24; call.count *= 2)
                ck_assert(!by_switch(symm__choose(&m, &call)->algo));
            ck_assert_int_eq(symm__choose(&m, &call)->algo, other);
        }
    m.multicast_off = "off";
    ck_assert(choose(&m, 1 << 24, 0) == SYMM_ALGO_LAMPORT);
    m = h200;
    m.compute_major = 8;
    ck_assert(choose(&m, 1 << 24, 0) == SYMM_ALGO_LAMPORT);
    m = h200;
    m.nranks = 2;
    ck_assert(choose(&m, 1 << 24, 0) == SYMM_ALGO_LAMPORT);
}

static void assert_reason(const struct symm_limits *m, struct variant v, symm_dtype dtype,
                          symm_redop op, const char *part)
{
    const char *reason = symm__collective_reason(m, v.operation, v.algo, dtype, op);
    if (part)
        ck_assert_msg(reason && strstr(reason, part), "no \"%s\" in: %s", part, reason);
    else
        ck_assert_msg(!reason, "%s", reason);
}

TEST(plan, reductions_have_their_types_and_operations)
{
    for (int i = 0; i < NVARIANTS; i++)
        for (int d = 0; d < NEVERY_DTYPE; d++)
            for (int o = 0; o < NOPS; o++) {
                const bool integer = dtypes[d] == SYMM_INT32 || dtypes[d] == SYMM_INT64,
                           wide = dtypes[d] == SYMM_FLOAT32 || dtypes[d] == SYMM_FLOAT64,
                           extreme = ops[o] == SYMM_MIN || ops[o] == SYMM_MAX;
                assert_reason(&h200, variants[i], dtypes[d], ops[o],
                              moves(variants[i].operation) ? NULL
                              : d >= NDTYPES               ? "no arithmetic of this dtype"
                              : integer && variants[i].algo == SYMM_ALGO_LAMPORT ? "free slot"
                              : integer && ops[o] == SYMM_AVG ? "floating types only"
                              : by_switch(variants[i].algo) && wide && extreme ? "does not compare"
                                                                               : NULL);
            }
}

TEST(plan, algorithms_that_cannot_run_have_a_reason)
{
    static const symm_algo two_steps[] = {SYMM_ALGO_TWO_SHOT, SYMM_ALGO_LOW_LATENCY_TWO_SHOT,
                                          SYMM_ALGO_MULTIMEM_ONE_SHOT};
    for (int o = 0; o < SYMM_OPERATION_COUNT; o++) {
        if (o == SYMM_OPERATION_ALL_REDUCE_RMS_NORM) /* which test_plan_rows.c has */
            continue;
        const enum symm_operation operation = (enum symm_operation)o;
        const struct variant automatic = {operation, SYMM_ALGO_AUTO},
                             engine = {operation, SYMM_ALGO_COPY_ENGINE},
                             multimem = {operation, SYMM_ALGO_MULTIMEM};
        const bool reduces = !moves(operation);
        struct symm_limits m = h200;
        assert_reason(&m, automatic, (symm_dtype)0, SYMM_SUM, "no such dtype");
        assert_reason(&m, automatic, (symm_dtype)10, SYMM_SUM, "no such dtype");
        if (reduces)
            assert_reason(&m, automatic, SYMM_FLOAT32, (symm_redop)4, "no such op");
        assert_reason(&m, (struct variant){operation, (symm_algo)11}, SYMM_FLOAT32, SYMM_SUM,
                      "no such algorithm");
        assert_reason(&m, (struct variant){operation, (symm_algo)-1}, SYMM_FLOAT32, SYMM_SUM,
                      "no such algorithm");
        assert_reason(&m, (struct variant){operation, SYMM_ALGO_FLAT}, SYMM_FLOAT32, SYMM_SUM,
                      "it is a form of groups of several domains");
        assert_reason(&m, (struct variant){operation, SYMM_ALGO_HIERARCHICAL}, SYMM_FLOAT32,
                      SYMM_SUM, "it is a form of groups of several domains");
        assert_reason(&m, engine, SYMM_FLOAT32, SYMM_SUM, NULL);
        assert_reason(&m, engine, SYMM_UINT8, SYMM_SUM, reduces ? "no arithmetic" : NULL);
        assert_reason(&m, (struct variant){operation, SYMM_ALGO_LAMPORT}, SYMM_FLOAT32, SYMM_SUM,
                      reduces ? NULL : "no such algorithm");
        for (int a = 0; a < 3; a++)
            assert_reason(&m, (struct variant){operation, two_steps[a]}, SYMM_FLOAT32, SYMM_SUM,
                          operation == SYMM_OPERATION_ALL_REDUCE ? NULL : "no such algorithm");
        m.compute_major = 8;
        assert_reason(&m, multimem, SYMM_FLOAT32, SYMM_SUM, "compute capability");
        assert_reason(&m, automatic, SYMM_FLOAT32, SYMM_SUM, NULL);
        m.multicast_off = "SYMM_MULTICAST is 0";
        assert_reason(&m, multimem, SYMM_FLOAT32, SYMM_SUM, "SYMM_MULTICAST is 0");
        assert_reason(&m, automatic, SYMM_FLOAT32, SYMM_SUM, NULL);
    }
}
