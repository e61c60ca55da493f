/* Estimates of products: they choose what was measured to be the fastest, or nearly so. */
#include "matmul/kernels/sm90_tiles.h"
#include "matmul/plan/model.h"
#include "matmul/plan/order.h"
#include "reference.h"
#include "test.h"

#define SHAPE(unused, rows, columns, blocks) +1
enum {
    NSMS = 132,
    BLOCKS = NSMS - 1,
    NSHAPES = 0 SYMM_WGMMA_SHAPES(SHAPE, ),
    NPLAIN_SHAPES = 0 SYMM_PLAIN_SHAPES(SHAPE, )
};

static struct symm_problem problem(int32_t m, int32_t n, int32_t k, int nranks)
{
    return (struct symm_problem){.kind = SYMM_ALL_GATHER_MATMUL,
                                 .strategy = SYMM_STRATEGY_AUTO,
                                 .m = m,
                                 .k = k,
                                 .l = 1,
                                 .nb = 1,
                                 .n = {n},
                                 .nranks = nranks};
}

/* With cuBLASLt on two H100 GPUs, without it on two and four H200 GPUs. */
static const struct {
    int nranks;
    int32_t m, n, k;
    symm_strategy best;
    bool cublas;
} strategies[] = {
    {2, 3, 2688, 7168, SYMM_STRATEGY_UNFUSED, true},
    {2, 16, 1792, 4096, SYMM_STRATEGY_UNFUSED, true},
    {2, 150, 704, 3584, SYMM_STRATEGY_UNFUSED, true},
    {2, 923, 8192, 12288, SYMM_STRATEGY_PIPELINED, true},  /* 263 us, unfused 302, fused 288 */
    {2, 7515, 10752, 3072, SYMM_STRATEGY_PIPELINED, true}, /* 744, 808, 796 */
    {2, 12443, 4096, 6144, SYMM_STRATEGY_PIPELINED, true}, /* 880, 1125, 977 */
    {2, 14761, 4096, 6144, SYMM_STRATEGY_PIPELINED, true}, /* 1054, 1372, 1172 */
    {2, 4096, 1792, 4096, SYMM_STRATEGY_FUSED, true},      /* 107, 145, 98 */
    {2, 16384, 1792, 4096, SYMM_STRATEGY_FUSED, true},     /* 372, 517, 336 */
    {2, 8192, 3584, 8192, SYMM_STRATEGY_FUSED, true},      /* 723, 862, 678 */
    {2, 1024, 1792, 4096, SYMM_STRATEGY_FUSED, false},     /* 49.4 us, unfused 49.2 */
    {2, 4096, 1792, 4096, SYMM_STRATEGY_FUSED, false},
    {2, 8192, 1792, 4096, SYMM_STRATEGY_FUSED, false},
    {2, 16384, 1792, 4096, SYMM_STRATEGY_FUSED, false},
    {2, 1024, 3584, 8192, SYMM_STRATEGY_FUSED, false},
    {2, 2048, 3584, 8192, SYMM_STRATEGY_FUSED, false},
    {2, 4096, 3584, 8192, SYMM_STRATEGY_FUSED, false},
    {2, 16384, 3584, 8192, SYMM_STRATEGY_FUSED, false},
    {2, 1024, 3072, 49152, SYMM_STRATEGY_FUSED, false},
    {2, 1024, 12288, 12288, SYMM_STRATEGY_FUSED, false},
    {2, 4096, 6656, 16384, SYMM_STRATEGY_FUSED, false},
    {2, 16384, 6656, 16384, SYMM_STRATEGY_FUSED, false},
    {4, 16, 1792, 4096, SYMM_STRATEGY_UNFUSED, true},
    {4, 512, 1792, 4096, SYMM_STRATEGY_UNFUSED, true},
    {4, 1024, 1792, 4096, SYMM_STRATEGY_UNFUSED, false},
    {4, 4096, 1792, 4096, SYMM_STRATEGY_FUSED, false},
    {4, 16384, 1792, 4096, SYMM_STRATEGY_FUSED, false},
    {4, 1024, 3584, 8192, SYMM_STRATEGY_FUSED, false}, /* 124.5 us, unfused 128.9 */
    {4, 2048, 3584, 8192, SYMM_STRATEGY_FUSED, false},
    {4, 4096, 6656, 16384, SYMM_STRATEGY_FUSED, false},
    {4, 16384, 6656, 16384, SYMM_STRATEGY_FUSED, false},
    {2, 3375, 2368, 3584, SYMM_STRATEGY_PIPELINED, true}, /* 92.5 us, fused 107, unfused 124 */
    {2, 3937, 2304, 6144, SYMM_STRATEGY_PIPELINED, true}, /* 160, 190, 221 */
    {2, 4500, 3072, 3072, SYMM_STRATEGY_PIPELINED, true}, /* 124, 136, 165 */
    {2, 2500, 4608, 4096, SYMM_STRATEGY_PIPELINED, true}, /* 139, 147, 161 */
    {2, 1323, 2688, 4096, SYMM_STRATEGY_PIPELINED, true}, /* 59, 72, 66 */
    {2, 13787, 1536, 4096, SYMM_STRATEGY_FUSED, true},    /* 256, pipelined 279 */
    {2, 9000, 1536, 5120, SYMM_STRATEGY_FUSED, true},     /* 221, 231 */
    {2, 1, 21760, 8192, SYMM_STRATEGY_UNFUSED, true},     /* 125, 154 */
    {2, 543, 8960, 2560, SYMM_STRATEGY_UNFUSED, true},    /* 53, 67 */
    {2, 511, 3072, 4096, SYMM_STRATEGY_UNFUSED, true},    /* 33.3, 38.4 */
    {4, 8192, 3584, 8192, SYMM_STRATEGY_FUSED, true},     /* four H100: 685.1, pipelined 763.6 */
    {4, 16384, 3584, 8192, SYMM_STRATEGY_FUSED, true},    /* 1360, 1495 */
};
enum { NSTRATEGIES = sizeof strategies / sizeof strategies[0] };

TEST_GROUP(model, 30);

TEST_LOOP(model, the_strategy_that_was_the_fastest, 0, NSTRATEGIES)
{
    const struct symm_matmul_limits limits = {
        .nsms = NSMS, .max_threads = 1024, .wgmma = true, .cublas = strategies[_i].cublas};
    const struct symm_problem p =
        problem(strategies[_i].m, strategies[_i].n, strategies[_i].k, strategies[_i].nranks);

    ck_assert_int_eq(symm__matmul_plan(&limits, &p, strategies[_i].n).strategy,
                     strategies[_i].best);
}

/*
 * On two H200 GPUs, with measured times of products, us: of all rows and of one rank's by cuBLASLt,
 * of all rows by symm's kernels. Where the last is 0, they have other bits, and nothing counts.
 */
static const struct {
    int32_t m, n, k;
    double cublas, share, own;
    symm_strategy best;
} measured[] = {
    {9279, 1536, 3072, 117, 61, 123, SYMM_STRATEGY_FUSED},         /* 133, pipelined 149 */
    {10288, 2048, 4096, 219, 109, 227, SYMM_STRATEGY_PIPELINED},   /* 239, fused 254 */
    {11117, 2048, 3072, 182, 95, 196, SYMM_STRATEGY_PIPELINED},    /* 208, 218 */
    {6522, 2368, 3584, 147, 80, 152, SYMM_STRATEGY_FUSED},         /* 161, pipelined 167 */
    {4485, 3328, 2560, 103, 53, 109, SYMM_STRATEGY_PIPELINED},     /* 111, fused 116 */
    {3226, 2304, 7168, 138, 71, 139, SYMM_STRATEGY_PIPELINED},     /* 147, 159 */
    {14622, 8192, 4096, 1221, 620, 1265, SYMM_STRATEGY_PIPELINED}, /* 1450, 1473 */
    {381, 9216, 6144, 66, 40, 67, SYMM_STRATEGY_UNFUSED},          /* 80, fused 116, pipelined 86 */
    {437, 43008, 12288, 616, 349, 691, SYMM_STRATEGY_UNFUSED},     /* 745, 773, 806 */
    {99, 28672, 8192, 116, 114, 0, SYMM_STRATEGY_UNFUSED},         /* 125, 309, 231 */
};
enum { NMEASURED = sizeof measured / sizeof measured[0] };

TEST_LOOP(model, the_strategy_by_measured_times, 0, NMEASURED)
{
    const double own = measured[_i].own, cublas = measured[_i].cublas;
    const struct symm_matmul_limits limits = {.nsms = NSMS,
                                              .max_threads = 1024,
                                              .wgmma = true,
                                              .cublas = true,
                                              .cublas_us = own > 0 ? cublas : 0,
                                              .share_us = own > 0 ? measured[_i].share : 0,
                                              .own_us = own};
    const struct symm_problem p = problem(measured[_i].m, measured[_i].n, measured[_i].k, 2);

    ck_assert_int_eq(symm__matmul_plan(&limits, &p, measured[_i].n).strategy, measured[_i].best);
}

/* Fused runs take longer if symm's kernels do, so another strategy may be faster then. */
TEST(model, slow_kernels_of_symm)
{
    struct symm_matmul_limits limits = {.nsms = NSMS,
                                        .max_threads = 1024,
                                        .wgmma = true,
                                        .cublas = true,
                                        .cublas_us = 117,
                                        .share_us = 61,
                                        .own_us = 123};
    const struct symm_problem p = problem(9279, 1536, 3072, 2);

    ck_assert_int_eq(symm__matmul_plan(&limits, &p, 1536).strategy, SYMM_STRATEGY_FUSED);
    limits.own_us = 150;
    ck_assert_int_eq(symm__matmul_plan(&limits, &p, 1536).strategy, SYMM_STRATEGY_PIPELINED);
    limits.share_us = 200;
    ck_assert_int_eq(symm__matmul_plan(&limits, &p, 1536).strategy, SYMM_STRATEGY_FUSED);
}

/* Of two H200 GPUs: who sent rows when the fused product was the faster. */
static const struct {
    int32_t m, n, k;
    uint32_t pieces; /* by copy engines; 0: blocks */
} senders[] = {
    {2048, 1792, 4096, 1},   /* 64.7 us; by blocks 66.0, by engine in 4 pieces 69.4 */
    {4096, 1792, 4096, 0},   /* 93.3; by engine in 2 pieces 98.1 */
    {8192, 1792, 4096, 1},   /* 181, 171, 177, 180 */
    {16384, 1792, 4096, 1},  /* 377, 332 */
    {2048, 3584, 8192, 0},   /* 172.7; by engine 182.6 */
    {3000, 2560, 4096, 0},   /* 95.1; 99.7 */
    {4096, 3584, 8192, 1},   /* 345, 326, 329, 328 */
    {1024, 3072, 49152, 8},  /* 508, 554, 490, 460, 448 */
    {1024, 12288, 12288, 1}, /* 425, 414, 432, 423 */
    {16251, 1280, 8192, 1},  /* 539; 513 in two strips, 604 in 8 pieces */
    {3375, 2368, 3584, 0},   /* 94.6; in 2 pieces 103.5 */
    {3863, 1152, 7168, 4},   /* 131.3; 123.7 */
    {4485, 3328, 2560, 1},   /* 122.1; 117.5 */
    {2500, 1536, 8192, 4},   /* 143; 116 */
    {6296, 1344, 2048, 0},   /* 79 in strips of 2304 rows */
};
enum { NSENDERS = sizeof senders / sizeof senders[0] };

TEST_LOOP(model, the_senders_that_were_the_fastest, 0, NSENDERS)
{
    const struct symm_matmul_limits limits = {.nsms = NSMS, .max_threads = 1024, .wgmma = true};
    struct symm_problem p = problem(senders[_i].m, senders[_i].n, senders[_i].k, 2);
    p.strategy = SYMM_STRATEGY_FUSED;

    const struct symm_matmul_plan plan = symm__matmul_plan(&limits, &p, senders[_i].n);
    ck_assert_uint_eq(plan.sender == SYMM_SENDER_COPY_ENGINES ? plan.k_pieces : 0,
                      senders[_i].pieces);
}

/* On an H200 GPU, with each shape forced. Behind a row: its time, and the next best one, in us. */
static const struct {
    int32_t m, n, k;
    int rows, columns;
} shapes[] = {
    {564, 3072, 4096, 144, 128},  /* 28.4, 31.1 */
    {1280, 3328, 8192, 128, 256}, /* 90.7, 93.9 */
    {4712, 1664, 2560, 160, 128}, /* 58.9, 60.8 */
    {12000, 6656, 2048, 128, 256} /* 457, 476 */
};
enum { NSHAPES_MEASURED = sizeof shapes / sizeof shapes[0] };

TEST_LOOP(model, the_shape_that_was_the_fastest, 0, NSHAPES_MEASURED)
{
    const struct symm_problem p = problem(shapes[_i].m, shapes[_i].n, shapes[_i].k, 1);
    const struct symm_matmul_plan plan = {.blocks = BLOCKS};
    const struct symm_tile_shape *got = &symm__wgmma_shapes[symm__model_shape(&p, &plan, 0, 1)];

    ck_assert_int_eq(got->rows, shapes[_i].rows);
    ck_assert_int_eq(got->columns, shapes[_i].columns);
}

/* What of all multiprocessors' time the tiles of this shape take. */
static int64_t time_of(const struct symm_problem *p, const struct symm_tile_shape *shape)
{
    const int64_t clusters = BLOCKS / shape->cluster;
    int64_t tiles = 0;

    for (int r = 0; r < p->nranks; r++)
        for (int i = 0; i < p->nb; i++)
            for (int row = 0; row < symm__rows_of_rank(p->m, p->nranks, r);
                 row += shape->rows * shape->cluster)
                tiles += (p->n[i] + shape->columns - 1) / shape->columns;
    return (tiles * p->l + clusters - 1) / clusters * shape->time;
}

/* Nothing is on its way: then it is the number of tiles that matters, of all b and batches. */
TEST(model, no_shape_has_less_to_do)
{
    const struct symm_matmul_plan plan = {.blocks = BLOCKS};

    for (uint64_t i = 0; i < 2000; i++) {
        const uint64_t u = reference_random(3, i);
        struct symm_problem p = problem(1 + (int32_t)(u >> 8 & 0x3fff),
                                        1 + (int32_t)(u >> 24 & 0x1fff), 512, 1 + (int)(u & 7));
        p.nb = 2;
        p.n[1] = 1 + (int32_t)(u >> 40 & 0x3ff);
        p.l = 1 + (int32_t)(u >> 52 & 1);
        p.rank = (int)(u >> 56) % p.nranks;
        const int best = symm__model_shape(&p, &plan, 0, p.nranks);
        for (int shape = 0; shape < NSHAPES; shape++)
            ck_assert_int_le(time_of(&p, &symm__wgmma_shapes[best]),
                             time_of(&p, &symm__wgmma_shapes[shape]));
    }
}

/*
 * Two blocks share the k of the last wave's tiles where that was faster: on one H200 GPU, with 65
 * clusters. Behind a row: times of data parallel and of shared tiles in us.
 */
static const struct {
    int32_t m, n, k;
    bool shares;
} last_waves[] = {
    {128, 1792, 4096, true},  /* 16.0, 11.1 */
    {512, 3584, 8192, false}, /* 49.3, 61.5 */
    {1024, 1792, 4096, false} /* 26.8, 32.4 */
};

TEST_LOOP(model, k_is_shared_where_that_was_faster, 0, 3)
{
    struct symm_problem p = problem(last_waves[_i].m, last_waves[_i].n, last_waves[_i].k, 1);
    const struct symm_matmul_plan plan = {.blocks = BLOCKS};
    const struct symm_tile_shape *shape = &symm__wgmma_shapes[symm__model_shape(&p, &plan, 0, 1)];
    const uint64_t ntiles = symm__tiles_of_steps(&p, SYMM_TO_D, 0, 1, shape->rows * shape->cluster,
                                                 shape->columns),
                   clusters = BLOCKS / (uint64_t)shape->cluster;

    ck_assert(symm__model_shares_k(&p, shape, ntiles, clusters) == last_waves[_i].shares);
    p.schedule = SYMM_SCHEDULE_DATA_PARALLEL;
    ck_assert(!symm__model_shares_k(&p, shape, ntiles, clusters));
    p.schedule = SYMM_SCHEDULE_AUTO;
    p.same_bits = true;
    ck_assert(!symm__model_shares_k(&p, shape, ntiles, clusters));
}

/* Plain products on one H200 GPU. Behind a row: the fastest two shapes, us. */
static const struct {
    int32_t m, n, k;
    int rows, columns;
} plain_shapes[] = {
    {1852, 4096, 3072, 240, 128},  /* 63.6, 66.6 */
    {2252, 4608, 7168, 208, 128},  /* 186.6, 202.3 */
    {11263, 1152, 2560, 256, 128}, /* 86.0, 91.7 */
    {13864, 768, 2048, 144, 192}   /* 59.5, 60.1 */
};
enum { NPLAIN_MEASURED = sizeof plain_shapes / sizeof plain_shapes[0] };

/* A product of bf16 that suits the kernel for plain products. */
static struct symm_problem plain_problem(int32_t m, int32_t n, int32_t k)
{
    struct symm_problem p = problem(m, n, k, 1);

    p.kind = SYMM_MATMUL;
    p.dtype = SYMM_BFLOAT16;
    p.d[0].matrix.dtype = SYMM_BFLOAT16;
    return p;
}

TEST_LOOP(model, the_plain_shape_that_was_the_fastest, 0, NPLAIN_MEASURED)
{
    const struct symm_matmul_limits limits = {.nsms = NSMS, .max_threads = 1024, .wgmma = true};
    const struct symm_problem p =
        plain_problem(plain_shapes[_i].m, plain_shapes[_i].n, plain_shapes[_i].k);
    const struct symm_matmul_plan plan = symm__matmul_plan(&limits, &p, p.n[0]);

    ck_assert_int_gt(plan.plain, 0);
    ck_assert_int_eq(symm__plain_shapes[plan.plain - 1].rows, plain_shapes[_i].rows);
    ck_assert_int_eq(symm__plain_shapes[plan.plain - 1].columns, plain_shapes[_i].columns);
}

/* Which problems are plain; the plan of none of the others has the kernel, forced or not. */
TEST(model, other_products_are_not_plain)
{
    struct symm_matmul_limits limits = {.nsms = NSMS, .max_threads = 1024, .wgmma = true};
    const struct symm_problem plain = plain_problem(2252, 4608, 7168);
    struct symm_problem others[8];

    for (int i = 0; i < 8; i++)
        others[i] = plain;
    others[0].nb = 2;
    others[1].l = 2;
    others[2].d[0].matrix.dtype = SYMM_FLOAT32;
    others[3].c[0].matrix.dtype = SYMM_BFLOAT16;
    others[4].bias[0].matrix.dtype = SYMM_BFLOAT16;
    others[5].activation = SYMM_SILU;
    others[6].schedule = SYMM_SCHEDULE_STREAM_K;
    others[7].nranks = 3; /* its rows are no one matrix */
    for (limits.plain = 0; limits.plain < 2; limits.plain++) {
        ck_assert_int_gt(symm__matmul_plan(&limits, &plain, 4608).plain, 0);
        for (int i = 0; i < 8; i++)
            ck_assert_int_eq(symm__matmul_plan(&limits, &others[i], 4608).plain, 0);
    }
}

TEST(model, a_plain_shape_can_be_forced_or_left_out)
{
    struct symm_matmul_limits limits = {.nsms = NSMS, .max_threads = 1024, .wgmma = true};
    struct symm_problem p = plain_problem(2252, 4608, 7168);

    for (limits.plain = 1; limits.plain <= NPLAIN_SHAPES; limits.plain++)
        ck_assert_int_eq(symm__matmul_plan(&limits, &p, 4608).plain, limits.plain);
    limits.plain = -1;
    ck_assert_int_eq(symm__matmul_plan(&limits, &p, 4608).plain, 0);
    limits.plain = 0;
    limits.shape = 1;
    ck_assert_int_eq(symm__matmul_plan(&limits, &p, 4608).plain, 0);
    limits.shape = 0;
    limits.wgmma = false;
    ck_assert_int_eq(symm__matmul_plan(&limits, &p, 4608).plain, 0);
}

/* Only unfused runs of several ranks multiply all rows at once. */
TEST(model, only_unfused_gathers_are_plain)
{
    const struct symm_matmul_limits limits = {.nsms = NSMS, .max_threads = 1024, .wgmma = true};
    struct symm_problem p = plain_problem(2252, 4608, 7168);

    p.kind = SYMM_ALL_GATHER_MATMUL;
    p.nranks = 2;
    for (p.strategy = SYMM_STRATEGY_FUSED; p.strategy <= SYMM_STRATEGY_UNFUSED; p.strategy++)
        ck_assert((symm__matmul_plan(&limits, &p, 4608).plain > 0) ==
                  (p.strategy == SYMM_STRATEGY_UNFUSED));
}

/* A forced shape is taken. */
TEST(model, a_shape_can_be_forced)
{
    const struct symm_problem p = problem(4096, 1792, 4096, 1);

    for (int number = 0; number <= NSHAPES; number++) {
        const struct symm_matmul_limits limits = {
            .nsms = NSMS, .max_threads = 1024, .wgmma = true, .shape = number};
        ck_assert_int_eq(symm__matmul_plan(&limits, &p, 1792).shape, number);
        ck_assert_int_eq(symm__matmul_plan_collected(&limits, &p, 1792).shape, number);
    }
    for (int number = 1; number <= NSHAPES; number++) {
        const struct symm_matmul_plan plan = {.blocks = BLOCKS, .shape = number};
        ck_assert_int_eq(symm__model_shape(&p, &plan, 0, 1), number - 1);
    }
}

/* What stream-K shares: the last wave, if its tiles have two SMs each. */
TEST(model, stream_k_shares_what_fits)
{
    struct symm_problem p = problem(1, 1, 64, 1);
    const struct symm_tile_shape wide = {128, 256, 2, 276}, narrow = {128, 64, 1, 143};

    p.schedule = SYMM_SCHEDULE_STREAM_K;
    for (uint64_t n = 1; n < 40; n++) {
        ck_assert(symm__model_shares_k(&p, &wide, n, 13) == (n % 13 > 0 && n % 13 <= 6));
        ck_assert(!symm__model_shares_k(&p, &narrow, n, 13));
    }
    ck_assert(!symm__model_shares_k(&p, &wide, 1, 0));
}

/* While the last rows are on their way nothing can be done but wait: then small tiles help. */
TEST(model, late_rows_want_small_tiles)
{
    const struct symm_problem p = problem(4096, 1792, 4096, 4);
    const struct symm_matmul_plan there = {.blocks = BLOCKS},
                                  coming = {.blocks = BLOCKS,
                                            .sender = SYMM_SENDER_COPY_ENGINES,
                                            .k_pieces = 1,
                                            .chunks = 1,
                                            .slab_nbytes = 8 << 20};

    ck_assert_int_gt(symm__wgmma_shapes[symm__model_shape(&p, &there, 0, 4)].columns,
                     symm__wgmma_shapes[symm__model_shape(&p, &coming, 0, 4)].columns);
}

/*
 * Results of all ranks on two H200 GPUs, with cuBLASLt: m, n and k of a rank's product, and the
 * time of the collective. Behind a row: times of fused, unfused and pipelined products. Where a
 * sum has two, the second one is of cuBLAS and symm's collective, one after the other.
 */
static const struct {
    symm_matmul_kind kind;
    int32_t m, n, k;
    double collective_us;
    symm_strategy best;
} collected[] = {
    {SYMM_MATMUL_REDUCE_SCATTER, 4096, 4096, 1792, 56, SYMM_STRATEGY_FUSED},    /* 109, 139 us */
    {SYMM_MATMUL_REDUCE_SCATTER, 16384, 4096, 1792, 205, SYMM_STRATEGY_FUSED},  /* 379, 530 */
    {SYMM_MATMUL_REDUCE_SCATTER, 4096, 8192, 3584, 107, SYMM_STRATEGY_FUSED},   /* 352, 436 */
    {SYMM_MATMUL_REDUCE_SCATTER, 6856, 12288, 1792, 256, SYMM_STRATEGY_FUSED},  /* 490, 666, 612 */
    {SYMM_MATMUL_REDUCE_SCATTER, 16384, 16384, 6656, 794, SYMM_STRATEGY_FUSED}, /* 5410, 6081 */
    {SYMM_MATMUL_REDUCE_SCATTER, 11, 5120, 13568, 4.2, SYMM_STRATEGY_UNFUSED},  /* 158, 48, 86 */
    {SYMM_MATMUL_ALL_REDUCE, 4096, 4096, 1792, 104, SYMM_STRATEGY_FUSED},       /* 137, 188 */
    {SYMM_MATMUL_ALL_REDUCE, 16384, 8192, 3584, 715, SYMM_STRATEGY_FUSED},      /* 1428, 2060 */
    {SYMM_MATMUL_ALL_REDUCE, 4096, 16384, 6656, 372, SYMM_STRATEGY_FUSED},      /* 1333, 1661 */
    {SYMM_MATMUL_ALL_REDUCE, 6662, 3072, 1536, 126, SYMM_STRATEGY_FUSED},       /* 166, 216, 240 */
    {SYMM_MATMUL_ALL_REDUCE, 2000, 8192, 1024, 102, SYMM_STRATEGY_FUSED},       /* 123, 154, 165 */
    {SYMM_MATMUL_ALL_REDUCE, 15687, 12288, 9216, 1012, SYMM_STRATEGY_FUSED}, /* 5415, 6634, 6238 */
    {SYMM_MATMUL_ALL_REDUCE, 7508, 2048, 512, 97, SYMM_STRATEGY_FUSED},      /* 109, 127 */
    {SYMM_MATMUL_ALL_REDUCE, 6856, 4096, 768, 169, SYMM_STRATEGY_FUSED},     /* 182, 238 */
    {SYMM_MATMUL_ALL_REDUCE, 237, 6144, 2304, 15.1, SYMM_STRATEGY_UNFUSED},  /* 35.5, 30.0, 39.5 */
    {SYMM_MATMUL_ALL_REDUCE, 1875, 2048, 1536, 27.7, SYMM_STRATEGY_UNFUSED}, /* 49.1, 45.5 */
    {SYMM_MATMUL_ALL_REDUCE, 1250, 3072, 1536, 27.9, SYMM_STRATEGY_UNFUSED}, /* 49.2, 45.9 */
    {SYMM_MATMUL_ALL_REDUCE, 384, 2560, 1280, 10.6, SYMM_STRATEGY_FUSED},    /* 15.9, 17.1 */
    {SYMM_MATMUL_ALL_REDUCE, 254, 3072, 640, 10.9, SYMM_STRATEGY_FUSED},     /* 12.6, 15.3 */
    {SYMM_MATMUL_ALL_REDUCE, 123, 2048, 3584, 5.5, SYMM_STRATEGY_FUSED},     /* 12.6, 13.5 */
    {SYMM_MATMUL_ALL_REDUCE, 112, 4096, 2688, 7.4, SYMM_STRATEGY_FUSED},     /* 12.8, 16.3 */
    {SYMM_MATMUL_ALL_REDUCE, 74, 7168, 3584, 8.4, SYMM_STRATEGY_UNFUSED},    /* 29.2, 25.5 */
    {SYMM_MATMUL_ALL_REDUCE, 64, 4096, 1792, 6.4, SYMM_STRATEGY_FUSED},      /* 8.5, 10.9 */
    {SYMM_MATMUL_ALL_REDUCE, 64, 3584, 896, 6.2, SYMM_STRATEGY_FUSED},       /* 9.2, 10.1 */
    {SYMM_MATMUL_ALL_REDUCE, 55, 7168, 3136, 8.6, SYMM_STRATEGY_FUSED},      /* 19.3, 20.5 */
    {SYMM_MATMUL_ALL_REDUCE, 49, 2048, 1792, 4.9, SYMM_STRATEGY_FUSED},      /* 9.2, 10.0 */
    {SYMM_MATMUL_ALL_REDUCE, 34, 7168, 3584, 6.6, SYMM_STRATEGY_FUSED},      /* 21.6, 21.9 */
    {SYMM_MATMUL_ALL_REDUCE, 2, 3072, 2688, 3.7, SYMM_STRATEGY_FUSED},       /* 10.0, 10.2 */
    {SYMM_MATMUL_ALL_REDUCE, 1, 4096, 1792, 3.6, SYMM_STRATEGY_FUSED},       /* 6.7, 8.0 */
    {SYMM_MATMUL_ALL_REDUCE, 4, 2560, 1280, 3.8, SYMM_STRATEGY_FUSED},       /* 6.3, 7.2 */
    {SYMM_MATMUL_ALL_REDUCE, 43, 2048, 256, 4.4, SYMM_STRATEGY_FUSED},       /* 5.7, 6.8 */
    {SYMM_MATMUL_ALL_REDUCE, 24, 3072, 384, 4.2, SYMM_STRATEGY_FUSED},       /* 6.1, 6.8 */
    {SYMM_MATMUL_ALL_REDUCE, 6, 4096, 512, 3.9, SYMM_STRATEGY_FUSED},        /* 5.8, 6.5 */
    {SYMM_MATMUL_ALL_REDUCE, 3, 2048, 896, 3.6, SYMM_STRATEGY_FUSED},        /* 5.9, 6.6 */
    {SYMM_MATMUL_ALL_REDUCE, 1, 2048, 256, 3.3, SYMM_STRATEGY_FUSED},        /* 5.1, 5.6 */
    {SYMM_MATMUL_ALL_SCATTER, 4096, 1792, 4096, 0, SYMM_STRATEGY_FUSED},     /* 136, 151 */
    {SYMM_MATMUL_ALL_SCATTER, 16384, 6656, 16384, 0, SYMM_STRATEGY_FUSED},   /* 5712, 6146 */
    {SYMM_MATMUL_ALL_SCATTER, 4, 1024, 2048, 0, SYMM_STRATEGY_UNFUSED},
};
enum { NCOLLECTED = sizeof collected / sizeof collected[0] };

TEST_LOOP(model, the_collecting_strategy_that_was_the_fastest, 0, NCOLLECTED)
{
    const struct symm_matmul_limits limits = {.nsms = NSMS,
                                              .max_threads = 1024,
                                              .wgmma = true,
                                              .split = true,
                                              .cublas = true,
                                              .only_sums = true,
                                              .sums_us = collected[_i].collective_us};
    struct symm_problem p = problem(collected[_i].m, collected[_i].n, collected[_i].k, 1);

    p.kind = collected[_i].kind;
    p.collect_nranks = 2;
    p.partial[0] = SYMM_BFLOAT16;
    p.d[0].matrix.dtype = SYMM_BFLOAT16;
    ck_assert_int_eq(symm__matmul_plan_collected(&limits, &p, p.n[0]).strategy, collected[_i].best);
}
