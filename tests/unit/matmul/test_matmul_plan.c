/* How products go: strategies, chunks, grids. */
#include "matmul/kernels/sm90_tiles.h"
#include "matmul/kernels/tile_order.h"
#include "matmul/plan/model.h"
#include "reference.h"
#include "test.h"

enum { TILE = 128, STRIPS_MOST = 8, PIECES_MOST = 4, PIECE_LEAST = 1024 };

static const struct symm_matmul_limits h200 = {.nsms = 132, .max_threads = 1024};

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

/* Rows of a cluster's tiles. */
static uint64_t tile_rows(const struct symm_matmul_plan *plan)
{
    if (plan->shape == 0)
        return TILE;
    return (uint64_t)symm__wgmma_shapes[plan->shape - 1].rows *
           (uint64_t)symm__wgmma_shapes[plan->shape - 1].cluster;
}

/* Chunks are all of the rows, and none of them is empty. */
static void assert_way(const struct symm_matmul_plan *plan, uint64_t rows)
{
    const uint64_t strips = plan->chunks / plan->k_pieces, piece = plan->k_piece,
                   ld = (uint64_t)plan->ld, tile = tile_rows(plan);

    ck_assert_uint_ge(plan->k_pieces, 1);
    ck_assert_uint_ge(strips, 1);
    ck_assert_uint_le(strips, STRIPS_MOST);
    ck_assert_uint_eq(plan->chunks, strips * plan->k_pieces);
    /* Tiles of all rows of a band follow each other: a strip has whole bands. */
    ck_assert(plan->band >= 1 && plan->band <= SYMM_BAND);
    ck_assert_uint_eq(plan->strip_rows % tile, 0);
    ck_assert(plan->strategy != SYMM_STRATEGY_FUSED || plan->strip_rows % (plan->band * tile) == 0);
    ck_assert_uint_ge(strips * plan->strip_rows, rows);
    ck_assert_uint_lt((strips - 1) * plan->strip_rows, rows);
    /* Beyond the rows are the rest of a tile, and a row of tiles in each band. */
    ck_assert_uint_lt(plan->strip_rows, rows + tile + (rows / tile / SYMM_BAND + 1) * tile);
    ck_assert_uint_eq(piece % SYMM_WGMMA_DEPTH, 0);
    ck_assert_uint_ge(plan->k_pieces * piece, ld);
    ck_assert_uint_lt((plan->k_pieces - 1) * piece, ld);
    ck_assert_uint_le(plan->k_pieces, plan->sender == SYMM_SENDER_COPY_ENGINES ? 8 : PIECES_MOST);
    ck_assert(plan->k_pieces == 1 || piece >= PIECE_LEAST);
    if (plan->sender == SYMM_SENDER_COPY_ENGINES) {
        ck_assert_uint_eq(plan->comm_sms, 1);
        ck_assert(strips == 1 ||
                  (plan->k_pieces == 1 && plan->strip_rows * ld * 2 >= SYMM_MATMUL_CHUNK_NBYTES));
        ck_assert(plan->k_pieces == 1 || plan->strip_rows * piece * 2 >= SYMM_MATMUL_PIECE_NBYTES);
    }
}

static void assert_plan(const struct symm_matmul_limits *limits, const struct symm_problem *p)
{
    const struct symm_matmul_plan plan = symm__matmul_plan(limits, p, p->n[0]);
    const uint64_t rows = (uint64_t)((p->m + p->nranks - 1) / p->nranks) * (uint64_t)p->l;

    /* Some multiprocessors stay free, a quarter at most, where there is more than one. */
    ck_assert_uint_ge(plan.comm_sms, 1);
    ck_assert(plan.comm_sms == 1 || plan.comm_sms * 6 <= (uint32_t)limits->nsms);
    ck_assert_uint_eq(plan.blocks, limits->nsms == 1 ? 1 : (uint32_t)limits->nsms - plan.comm_sms);
    ck_assert_uint_ge(plan.threads, 1);
    ck_assert_uint_le(plan.threads, (uint32_t)limits->max_threads);
    if (p->nranks == 1) {
        ck_assert_int_eq(plan.strategy, SYMM_STRATEGY_AUTO);
        ck_assert_uint_eq(plan.workspace_nbytes, 0);
        ck_assert_uint_eq(plan.chunks, 0);
        ck_assert_uint_eq(plan.strip_rows, 0);
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
    if (plan.strategy == SYMM_STRATEGY_UNFUSED) /* nothing is on its way */
        ck_assert(plan.strip_rows == 0 && plan.k_pieces == 0 && plan.k_piece == 0 &&
                  plan.chunks == 0 && plan.comm_sms == 1);
    else
        assert_way(&plan, rows);
}

TEST_GROUP(plan, 250);

TEST(plan, every_plan_is_sound)
{
    for (uint64_t i = 0; i < 40000; i++) {
        const uint64_t u = reference_random(1, i), v = reference_random(2, i);
        const struct symm_matmul_limits limits = {.nsms = 1 + (int)(u % 140),
                                                  .max_threads = 1 << u / 140 % 11,
                                                  .wgmma = u >> 40 & 1,
                                                  .cublas = u >> 41 & 1};
        const struct symm_problem p = problem(
            1 + (int32_t)((v & 0x7ffff) >> (u >> 20) % 19),
            1 + (int32_t)((v >> 20 & 0x1ffff) >> (u >> 28) % 17), 1 + (int32_t)(v >> 40 & 3),
            1 + (int)(v >> 44) % SYMM_MAX_RANKS, (symm_strategy)(v >> 56 & 3));
        assert_plan(&limits, &p);
    }
}

/* What a rank has and what it does: the others must come to the same. */
TEST(plan, all_ranks_come_to_the_same_plan)
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
            p.a.rows = symm__rows_of_rank(p.m, nranks, p.rank);
            const struct symm_matmul_plan plan = symm__matmul_plan(&h200, &p, 1000);
            ck_assert_int_eq(plan.strategy, first.strategy);
            ck_assert_int_eq(plan.sender, first.sender);
            ck_assert_uint_eq(plan.strip_rows, first.strip_rows);
            ck_assert_uint_eq(plan.k_piece, first.k_piece);
            ck_assert_uint_eq(plan.chunks, first.chunks);
            ck_assert_int_eq(plan.ld, first.ld);
            ck_assert_uint_eq(plan.slab_nbytes, first.slab_nbytes);
        }
    }
}

/* Only the Hopper kernel begins with a piece; and a copy of lines has a longest pitch. */
TEST(plan, long_rows_come_in_pieces)
{
    struct symm_matmul_limits limits = {.nsms = 132, .max_threads = 1024, .wgmma = true};
    struct symm_problem p = problem(1024, 49152, 1, 2, SYMM_STRATEGY_FUSED);
    const struct symm_matmul_plan plan = symm__matmul_plan(&limits, &p, 3072);

    ck_assert(plan.sender == SYMM_SENDER_COPY_ENGINES && plan.k_pieces == 8 &&
              plan.strip_rows == 512 && plan.chunks == 8);
    limits.wgmma = false;
    ck_assert(symm__matmul_plan(&limits, &p, 3072).sender == SYMM_SENDER_SMS ||
              symm__matmul_plan(&limits, &p, 3072).k_pieces == 1);
    limits.wgmma = true;
    limits.engine_nbytes = 1;
    p.k = INT32_MAX / 2 - 64;
    ck_assert_uint_gt(symm__matmul_plan(&limits, &p, 3072).k_pieces, 1);
    p.k = INT32_MAX / 2 + 64;
    ck_assert_uint_eq(symm__matmul_plan(&limits, &p, 3072).k_pieces, 1);
}

TEST(plan, a_setting_says_when_copy_engines_send)
{
    struct symm_matmul_limits limits = h200;
    const struct symm_problem p = problem(1024, 64, 1, 4, SYMM_STRATEGY_FUSED);
    const uint64_t slab = symm__matmul_plan(&limits, &p, 64).slab_nbytes;

    ck_assert_uint_eq(slab, 256 * 64 * 2);
    limits.engine_nbytes = slab;
    ck_assert(symm__matmul_plan(&limits, &p, 64).sender == SYMM_SENDER_COPY_ENGINES);
    limits.engine_nbytes = slab + 1;
    ck_assert(symm__matmul_plan(&limits, &p, 64).sender == SYMM_SENDER_SMS);
}

/*
 * Where blocks send, a strip is the rows that the product's blocks multiply at a time. It goes
 * along k in pieces of a thousand elements or more, alternately with those of the other shards that
 * are multiplied then. Where copy engines send, it has many bytes, and is whole.
 */
TEST_LOOP(plan, many_rows_come_in_chunks, 0, 6)
{
    static const struct {
        int32_t m, k, columns;
        int nranks;
        enum symm_sender sender;
        uint32_t strip_rows, k_pieces, shards_interleaved;
    } cases[] = {
        {512, 1024, 1792, 4, SYMM_SENDER_SMS, 128, 1, 8}, /* all rows: a turn has 8 of 14 tiles */
        {16384, 4096, 1792, 4, SYMM_SENDER_SMS, 2048, 4, 1}, /* two bands, not 18 rows of tiles */
        {8192, 8192, 3584, 4, SYMM_SENDER_SMS, 1024, 4, 1},  /* a band: 8 rows of 14 */
        {4000, 64, 64, 2, SYMM_SENDER_SMS, 2048, 1, 7}, /* 2000 rows, and the tile they end in */
        {1 << 18, 4096, 512, 8, SYMM_SENDER_COPY_ENGINES, 4096, 1, 1}, /* 256 MiB: eight of 32 */
        {16384, 8192, 3584, 2, SYMM_SENDER_COPY_ENGINES, 1024, 1, 1},  /* 128 MiB: eight of 16 */
    };
    const struct symm_problem p =
        problem(cases[_i].m, cases[_i].k, 1, cases[_i].nranks, SYMM_STRATEGY_FUSED);
    const bool engines = cases[_i].sender == SYMM_SENDER_COPY_ENGINES;
    struct symm_matmul_limits limits = h200;
    limits.engine_nbytes = engines ? SYMM_MATMUL_CHUNK_NBYTES : UINT64_MAX;
    const struct symm_matmul_plan plan = symm__matmul_plan(&limits, &p, cases[_i].columns);

    ck_assert_int_eq(plan.sender, cases[_i].sender);
    ck_assert_uint_eq(plan.strip_rows, cases[_i].strip_rows);
    ck_assert_uint_eq(plan.k_pieces, cases[_i].k_pieces);
    ck_assert_uint_eq(plan.shards_interleaved, cases[_i].shards_interleaved);
}

/*
 * Products of few rows split k if all ranks have that kernel. With same bits k has one part. If
 * all ranks have cuBLASLt, it computes the product.
 */
TEST(plan, few_rows_split_k)
{
    struct symm_matmul_limits limits = h200;
    struct symm_problem p = problem(4, 4096, 1, 1, SYMM_STRATEGY_AUTO);

    ck_assert_int_eq(symm__matmul_plan(&limits, &p, 1792).split.k_parts, 0);
    limits.wgmma = limits.split = true;
    ck_assert_int_gt(symm__matmul_plan(&limits, &p, 1792).split.k_parts, 1);
    p.same_bits = true;
    ck_assert_int_eq(symm__matmul_plan(&limits, &p, 1792).split.k_parts, 1);
    limits.cublas = true;
    ck_assert_int_eq(symm__matmul_plan(&limits, &p, 1792).split.k_parts, 0);
}

TEST(plan, parts_of_k_fit_a_cluster_and_the_device)
{
    for (int nsms = 1; nsms <= 132; nsms += 3)
        for (int32_t k = 1; k <= 4096; k = k * 3 + 1) {
            const struct symm_matmul_limits limits = {
                .nsms = nsms, .max_threads = 1024, .wgmma = true, .split = true};
            const struct symm_problem p = problem(4, k, 1, 1, SYMM_STRATEGY_AUTO);
            const int k_parts = symm__matmul_plan(&limits, &p, 64).split.k_parts;
            ck_assert_int_le(k_parts, 8);
            ck_assert_int_le(k_parts, nsms);
            ck_assert_int_le(k_parts, (k + SYMM_WGMMA_DEPTH - 1) / SYMM_WGMMA_DEPTH);
        }
}

/* Seven rows on three ranks are no matrix before the product: slabs of three rows have gaps. */
TEST(plan, only_gathered_rows_split_k)
{
    const struct symm_matmul_limits limits = {
        .nsms = 132, .max_threads = 1024, .wgmma = true, .split = true};
    struct symm_problem p = problem(7, 4096, 1, 3, SYMM_STRATEGY_UNFUSED);

    ck_assert_int_eq(symm__matmul_plan(&limits, &p, 1792).split.k_parts, 0);
    p.m = 6;
    ck_assert_int_gt(symm__matmul_plan(&limits, &p, 1792).split.k_parts, 1);
    p.strategy = SYMM_STRATEGY_FUSED;
    ck_assert_int_eq(symm__matmul_plan(&limits, &p, 1792).split.k_parts, 0);
}

static bool has_packs(const struct symm_matmul_limits *limits, const struct symm_problem *p)
{
    return symm__matmul_plan_collected(limits, p, p->n[0]).sums == SYMM_SUMS_PACKS;
}

/*
 * Fused all-reduces of few rows send packs, if there are only sums and all ranks have the kernel.
 * All blocks must run at the same time.
 */
TEST(plan, few_rows_of_an_all_reduce_send_packs)
{
    struct symm_matmul_limits limits = {
        .nsms = 132, .max_threads = 1024, .wgmma = true, .split = true, .only_sums = true};
    struct symm_problem p = problem(16, 1792, 1, 1, SYMM_STRATEGY_FUSED);
    struct symm_matmul_plan plan;

    p.kind = SYMM_MATMUL_ALL_REDUCE;
    p.collect_nranks = 4;
    p.partial[0] = SYMM_BFLOAT16;
    p.d[0].matrix.dtype = SYMM_BFLOAT16;
    for (p.n[0] = 512; p.n[0] <= 32768; p.n[0] *= 2)
        for (p.m = 1; p.m < 300; p.m++) {
            plan = symm__matmul_plan_collected(&limits, &p, p.n[0]);
            ck_assert(plan.sums == SYMM_SUMS_PACKS || p.m > 64 || p.n[0] > 4096);
            if (plan.sums != SYMM_SUMS_PACKS)
                break;
            ck_assert(plan.sink == SYMM_TO_D && !plan.collective);
            ck_assert_uint_le(symm__model_split_tiles(&p, &symm__split_shapes[plan.split.shape]) *
                                  (uint64_t)plan.split.k_parts,
                              128);
        }
    p.n[0] = 4096;
    p.m = 16;
    p.collect_nranks = 32;
    ck_assert(has_packs(&limits, &p));
    p.collect_nranks = 33;
    ck_assert(!has_packs(&limits, &p));
    p.collect_nranks = 4;
    limits.split = false;
    ck_assert(!has_packs(&limits, &p));
    limits.split = true;
    limits.only_sums = false;
    ck_assert(!has_packs(&limits, &p));
    limits.only_sums = true;
    p.strategy = SYMM_STRATEGY_UNFUSED;
    ck_assert(!has_packs(&limits, &p));
    p.strategy = SYMM_STRATEGY_FUSED;
    p.kind = SYMM_MATMUL_REDUCE_SCATTER;
    ck_assert(!has_packs(&limits, &p));
}

/*
 * The switch adds bands only if the caller allows any order, and D has the type of the sums; on at
 * least three ranks, and not by the choice of AUTO.
 */
TEST(plan, the_switch_adds_bands_of_an_all_reduce)
{
    struct symm_matmul_limits limits = {
        .nsms = 132, .max_threads = 1024, .wgmma = true, .only_sums = true, .multicast = true};
    struct symm_problem p = problem(4096, 1792, 1, 1, SYMM_STRATEGY_FUSED);
    const struct change {
        void *at, *to;
        size_t nbytes;
    } changes[] = {
        {&p.any_order, &(bool){false}, sizeof(bool)},
        {&p.collect_nranks, &(int){2}, sizeof(int)},
        {&p.kind, &(symm_matmul_kind){SYMM_MATMUL_REDUCE_SCATTER}, sizeof p.kind},
        {&p.partial[0], &(symm_dtype){SYMM_FLOAT32}, sizeof p.partial[0]},
        {&p.strategy, &(symm_strategy){SYMM_STRATEGY_AUTO}, sizeof p.strategy},
        {&p.strategy, &(symm_strategy){SYMM_STRATEGY_UNFUSED}, sizeof p.strategy},
        {&limits.only_sums, &(bool){false}, sizeof(bool)},
        {&limits.multicast, &(bool){false}, sizeof(bool)},
        {&limits.nsms, &(int){1}, sizeof(int)},
    };

    p.kind = SYMM_MATMUL_ALL_REDUCE;
    p.any_order = true;
    p.collect_nranks = 4;
    p.n[0] = 4096;
    p.partial[0] = SYMM_BFLOAT16;
    p.d[0].matrix.dtype = SYMM_BFLOAT16;
    const struct symm_matmul_plan plan = symm__matmul_plan_collected(&limits, &p, p.n[0]);
    ck_assert_int_eq(plan.sums, SYMM_SUMS_BANDS);
    ck_assert(plan.sink == SYMM_TO_D && !plan.collective);
    ck_assert_uint_eq(plan.comm_sms, 8);
    ck_assert_uint_eq(plan.blocks, 132 - 8);
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        const struct change *c = &changes[i];
        const struct symm_problem p_before = p;
        const struct symm_matmul_limits limits_before = limits;
        memcpy(c->at, c->to, c->nbytes);
        ck_assert_int_ne(symm__matmul_plan_collected(&limits, &p, p.n[0]).sums, SYMM_SUMS_BANDS);
        p = p_before;
        limits = limits_before;
    }
}

enum { SM_GROUPS = 8, PLACES = 2 * 132, CLUSTER_MAX = 8 };

/* For each number of blocks of a cluster, the most clusters of a grid that waits. */
static void find_largest_grids(int clusters[CLUSTER_MAX + 1])
{
    const struct symm_matmul_limits limits = {.nsms = 132, .max_threads = 1024, .split = true};

    for (int32_t k = 64; k <= 2048; k += 64)
        for (int32_t n = 64; n <= 64 * 132; n += 64) {
            struct symm_problem p = problem(1, k, 1, 1, SYMM_STRATEGY_FUSED);
            p.n[0] = n;
            const struct symm_split split = symm__model_split(&limits, &p, n, true);
            const int tiles = (int)symm__model_split_tiles(&p, &symm__split_shapes[split.shape]);
            if (split.k_parts > 0 && tiles > clusters[split.k_parts])
                clusters[split.k_parts] = tiles;
        }
}

/*
 * Two blocks have places on an SM, and a cluster lies in one group of SMs. If the clusters of a
 * grid lie anywhere, those of another one have room, too.
 */
TEST(plan, two_grids_that_wait_have_room)
{
    int clusters[CLUSTER_MAX + 1] = {0};

    find_largest_grids(clusters);
    for (uint64_t i = 0; i < 40000; i++) {
        const int first = 1 + (int)(i % CLUSTER_MAX),
                  second = 1 + (int)(i / CLUSTER_MAX % CLUSTER_MAX);
        int left[SM_GROUPS], room = 0;
        for (int g = 0; g < SM_GROUPS; g++)
            left[g] = PLACES / SM_GROUPS;
        for (int c = 0; c < clusters[first]; c++) {
            int g = (int)(reference_random(7, i * 200 + (uint64_t)c) % SM_GROUPS);
            while (left[g] < first)
                g = (g + 1) % SM_GROUPS;
            left[g] -= first;
        }
        for (int g = 0; g < SM_GROUPS; g++)
            room += left[g] / second;
        ck_assert_msg(room >= clusters[second], "%d clusters of %d beside %d of %d: room for %d",
                      clusters[second], second, clusters[first], first, room);
    }
}
