/* The order of tiles of products whose results go to owners. */
#include <string.h>
#include "matmul/kernels/tile_order.h"
#include "matmul/plan/order.h"
#include "matmul/plan/plan.h"
#include "reference.h"
#include "runtime/base/numbers.h"
#include "test.h"

enum { ROWS = 256, COLUMNS = 128, TILES_MAX = 1 << 16 };

static struct symm_problem problem(int32_t m, int32_t n, int nranks, int rank)
{
    return (struct symm_problem){.kind = SYMM_MATMUL_REDUCE_SCATTER,
                                 .m = m,
                                 .l = 1,
                                 .nb = 1,
                                 .n = {n},
                                 .nranks = 1,
                                 .collect_rank = rank,
                                 .collect_nranks = nranks};
}

static symm_mixed_order order_of(const struct symm_problem *p, uint32_t wave)
{
    const symm_product_args args = {.sink = SYMM_TO_OWNERS, .last_step = p->collect_nranks};

    return symm__tile_order(p, &args, ROWS, COLUMNS, wave, SYMM_BAND).mixed;
}

static uint32_t tiles_of(const struct symm_problem *p, int rank)
{
    const int32_t rows = symm__rows_of_rank(p->m, p->collect_nranks, rank);

    return (uint32_t)((rows + ROWS - 1) / ROWS * ((p->n[0] + COLUMNS - 1) / COLUMNS));
}

TEST_GROUP(order, 30);

/* Of the steps of owners, of shards, and of all rows: the sum over their rows of tiles. */
TEST_LOOP(order, tiles_are_counted_step_by_step, 0, 50)
{
    const int nranks = 1 + _i % 8, rank = _i / 8 % nranks;
    struct symm_problem p =
        problem(1 + (_i * 7919) % 20000, 1 + (_i * 104729) % 9000, nranks, rank);
    uint64_t owned = 0;

    for (int step = 0; step < nranks; step++)
        owned += tiles_of(&p, (rank + 1 + step) % nranks);
    ck_assert_uint_eq(symm__tiles_of_steps(&p, SYMM_TO_OWNERS, 0, nranks, ROWS, COLUMNS), owned);
    ck_assert_uint_eq(symm__tiles_of_steps(&p, SYMM_TO_OWNERS, nranks - 1, nranks, ROWS, COLUMNS),
                      tiles_of(&p, rank));
    p.collect_nranks = 1;
    ck_assert_uint_eq(symm__tiles_of_steps(&p, SYMM_TO_D, 0, 1, ROWS, COLUMNS), tiles_of(&p, 0));
}

/* Each tile once, all of a rank's last wave at the end, and no part of the rest without others'. */
TEST_LOOP(order, every_tile_has_one_place, 0, 200)
{
    const int nranks = 2 + _i % 7, rank = _i / 7 % nranks;
    const uint32_t wave = 1 + (uint32_t)(reference_seed() + (uint64_t)_i * 37) % 131;
    const struct symm_problem p =
        problem(1 + (_i * 7919) % 20000, 1 + (_i * 104729) % 9000, nranks, rank);
    const symm_mixed_order order = order_of(&p, wave);
    static unsigned char seen[TILES_MAX];
    uint32_t own = tiles_of(&p, rank), others = 0, all;

    for (int r = 0; r < nranks; r++)
        others += r == rank ? 0 : tiles_of(&p, r);
    all = others + own;
    ck_assert_uint_le(all, TILES_MAX);
    if (order.share == 0) {
        ck_assert(own <= wave || others == 0);
        return;
    }
    ck_assert_uint_eq(order.others, others);
    ck_assert_uint_eq(order.early, own - wave);
    memset(seen, 0, sizeof seen);
    for (uint32_t place = 0; place < all; place++) {
        const uint32_t tile = symm__unmixed(&order, place);
        ck_assert_uint_lt(tile, all);
        ck_assert_uint_eq(seen[tile], 0);
        seen[tile] = 1;
        if (place >= all - wave)
            ck_assert_uint_ge(tile, others);
    }
}

/* The other owners' tiles are spread evenly: after any part of the mixed places, their part. */
TEST_LOOP(order, results_leave_at_an_even_rate, 0, 50)
{
    const struct symm_problem p = problem(4096 + 300 * _i, 4096 - 40 * _i, 2 + _i % 7, 1);
    const symm_mixed_order order = order_of(&p, 64);
    const double mixed = order.others + order.early;
    uint32_t sent = 0;

    for (uint32_t place = 0; order.share && place < order.others + order.early; place++) {
        sent += symm__unmixed(&order, place) < order.others;
        ck_assert(sent >= (place + 1) * (order.others / mixed) - 1.001 &&
                  sent <= (place + 1) * (order.others / mixed) + 1.001);
    }
}

/* One step, or results that stay here: the order of steps. */
TEST(order, other_products_are_not_mixed)
{
    const struct symm_problem p = problem(16384, 4096, 2, 0);
    symm_product_args args = {.sink = SYMM_TO_OWNERS, .last_step = 2};

    ck_assert_uint_gt(symm__tile_order(&p, &args, ROWS, COLUMNS, 64, SYMM_BAND).mixed.share, 0);
    args.last_step = 1;
    ck_assert_uint_eq(symm__tile_order(&p, &args, ROWS, COLUMNS, 64, SYMM_BAND).mixed.share, 0);
    args = (symm_product_args){.sink = SYMM_TO_ALL, .last_step = 2};
    ck_assert_uint_eq(symm__tile_order(&p, &args, ROWS, COLUMNS, 64, SYMM_BAND).mixed.share, 0);
    args.sink = SYMM_TO_D;
    ck_assert_uint_eq(symm__tile_order(&p, &args, ROWS, COLUMNS, 64, SYMM_BAND).mixed.share, 0);
}

/* If the product adds parts, and the link has time for a tile while the next one is multiplied. */
TEST(order, parts_of_a_long_k_are_sent_first)
{
    struct symm_problem p = problem(16384, 4096, 2, 0);
    symm_product_args args = {.sink = SYMM_TO_OWNERS, .last_step = 2, .parts.beside = 1};

    p.k = 2559;
    ck_assert_uint_gt(symm__tile_order(&p, &args, ROWS, COLUMNS, 64, SYMM_BAND).mixed.share, 0);
    p.k = 2560;
    ck_assert_uint_eq(symm__tile_order(&p, &args, ROWS, COLUMNS, 64, SYMM_BAND).mixed.share, 0);
    args.parts.beside = 0;
    ck_assert_uint_gt(symm__tile_order(&p, &args, ROWS, COLUMNS, 64, SYMM_BAND).mixed.share, 0);
}

/* At the ends of the range, beside multiples of the divisor, and anywhere. */
TEST_LOOP(order, divisions_are_exact, 0, 64)
{
    uint64_t state = reference_seed() + (uint64_t)_i;

    for (int round = 0; round < 2000; round++) {
        const uint32_t raw = (uint32_t)symm__mix(state, 1) >> symm__mix(state, 2) % 32,
                       divisor = round == 0 ? UINT32_MAX
                                 : raw      ? raw
                                            : 1,
                       any = (uint32_t)symm__mix(state, 3) >> symm__mix(state, 4) % 32,
                       multiple = any / divisor * divisor,
                       xs[] = {0, divisor - 1, divisor, multiple - 1, multiple, any, UINT32_MAX};
        for (size_t i = 0; i < sizeof xs / sizeof xs[0]; i++)
            ck_assert_uint_eq(symm__divide(xs[i], symm__divisor(divisor)), xs[i] / divisor);
        state = symm__mix(state, 5);
    }
}

/* The divisors of every rank's bands, and the rows of the ranks. */
TEST_LOOP(order, the_host_makes_the_divisions, 0, 100)
{
    const int nranks = 1 + _i % 8;
    const symm_product_args args = {.sink = SYMM_TO_OWNERS, .last_step = nranks};
    struct symm_problem p = problem(1 + (_i * 7919) % 20000, 1 + (_i * 104729) % 9000, nranks, 0);
    const uint32_t band = 1 + (uint32_t)_i % 9;
    symm_tile_order order;

    if (_i % 3 == 0) /* the rank with one more row has one more tile */
        p.m = nranks * ROWS * (1 + _i % 20) + 1;
    p.nb = 1 + _i % 2;
    p.n[1] = 1 + (_i * 15485863) % 700;
    order = symm__tile_order(&p, &args, ROWS, COLUMNS, 64, band);
    ck_assert_int_eq(order.across, (p.n[0] + COLUMNS - 1) / COLUMNS +
                                       (p.nb > 1 ? (p.n[1] + COLUMNS - 1) / COLUMNS : 0));
    ck_assert_uint_eq(order.band.divisor, band * (uint32_t)order.across);
    ck_assert_uint_eq(order.height.divisor, band);
    for (int r = 0; r < nranks; r++) {
        const int32_t rows = symm__rows_of_rank(p.m, nranks, r),
                      height = (rows + ROWS - 1) / ROWS % (int32_t)band;
        const symm_divisor last = order.last[rows > order.rows.least];
        ck_assert_int_eq(symm__rows_of(order.rows, r), rows);
        ck_assert_int_eq(symm__first_row_of(order.rows, r),
                         symm__first_row_of_rank(p.m, nranks, r));
        ck_assert(height == 0 || last.divisor == (uint32_t)height);
    }
}

static bool has_parts(const struct symm_matmul_limits *limits, const struct symm_problem *p)
{
    return symm__matmul_plan_collected(limits, p, 4096).sums == SYMM_SUMS_PARTS;
}

/* Only of two ranks, fused, where both have rows. */
TEST(order, which_products_add_parts)
{
    struct symm_matmul_limits limits = {
        .nsms = 132, .max_threads = 1024, .wgmma = true, .only_sums = true};
    struct symm_problem p = problem(16384, 4096, 2, 0);

    p.kind = SYMM_MATMUL_REDUCE_SCATTER;
    p.nranks = 1;
    p.partial[0] = SYMM_BFLOAT16;
    p.d[0].matrix.dtype = SYMM_BFLOAT16;
    p.k = 512;
    p.strategy = SYMM_STRATEGY_FUSED;
    ck_assert(has_parts(&limits, &p));
    p.strategy = SYMM_STRATEGY_PIPELINED;
    ck_assert(!has_parts(&limits, &p));
    p.strategy = SYMM_STRATEGY_FUSED;
    p.m = 1;
    ck_assert(!has_parts(&limits, &p));
    p.kind = SYMM_MATMUL_ALL_REDUCE; /* both ranks own the row */
    limits.only_sums = false;
    ck_assert(!has_parts(&limits, &p));
    limits.only_sums = true;
    ck_assert(has_parts(&limits, &p));
    ck_assert_int_eq(symm__matmul_plan_collected(&limits, &p, 4096).sink, SYMM_TO_ALL);
    p.collect_nranks = 3;
    ck_assert(!has_parts(&limits, &p));
    ck_assert_int_eq(symm__matmul_plan_collected(&limits, &p, 4096).sink, SYMM_TO_OWNERS);
    p.kind = SYMM_MATMUL_REDUCE_SCATTER;
    p.m = 16384;
    ck_assert(!has_parts(&limits, &p));
}
