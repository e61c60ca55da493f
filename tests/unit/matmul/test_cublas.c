/* Products by cuBLASLt: which cases it computes, and its results. */
#include "cublas_trial.h"

TEST_GROUP(products, 240, .uncounted = true);

TEST_LOOP(products, rows_and_columns_of_every_operand, 0, ORDERS)
{
    static const symm_dtype types[][2] = {{SYMM_BFLOAT16, SYMM_BFLOAT16},
                                          {SYMM_FLOAT16, SYMM_FLOAT32}};
    static const float factors[] = {1.5f, -0.5f};
    struct trial t = {.by_columns = _i};

    open_fake();
    for (int i = 0; i < 4; i++) {
        t.c = simple(24, 40 - 8 * i, 16);
        t.c.in = types[i % 2][0];
        t.c.out = t.c.addend = types[i % 2][1];
        t.c.l = i < 2 ? 1 : 3;
        t.c.has_c = i > 0;
        t.c.in_place = i == 3;
        t.c.alpha = &factors[0];
        t.c.beta = t.c.has_c ? &factors[1] : NULL;
        t.c.layout = (uint64_t)(10 * _i + i);
        try_it(1, t, 1);
    }
}

TEST(products, shapes_that_are_no_multiples)
{
    static const float zero = 0, two = 2;
    struct trial t;

    open_fake();
    t = (struct trial){.c = simple(5, 9, 7)};
    try_it(1, t, 1);
    t.c = simple(1, 33, 8);
    try_it(1, t, 1);
    t.c = simple(9, 1, 1);
    try_it(1, t, 1);
    t.c = simple(7, 8, 5);
    t.c.nb = 3;
    t.c.n[1] = 1;
    t.c.has_c = true;
    t.c.beta = &zero; /* c is not read */
    t.c.alpha = &two;
    try_it(1, t, 3);
    t.c = simple(1, 8, 1); /* there is no algorithm for one element */
    try_it(1, t, 0);
}

TEST(products, any_number_of_rows)
{
    struct trial t = {.c = simple(513, 3, 2)};

    open_fake();
    try_it(1, t, 1);
    t.c = simple(3000, 3, 2);
    try_it(1, t, 1);
    t.c.m = 257;
    t.c.k = t.c.n[0] = 8;
    t.c.l = 3;
    try_it(1, t, 1);
    t.c.same_bits = true;
    try_it(1, t, 0);
    t.c.same_bits = false;
    t.c.schedule = SYMM_SCHEDULE_STREAM_K;
    try_it(1, t, 0);
    t.c.schedule = SYMM_SCHEDULE_DATA_PARALLEL;
    try_it(1, t, 0);
}

/* What it does not have is multiplied all the same. */
TEST(products, the_rest_is_for_our_kernels)
{
    static const float zero = 0, one = 1;
    struct trial t = {.c = simple(16, 24, 8)};

    open_fake();
    t.c.activation = SYMM_GELU;
    try_it(1, t, 0);
    t.c = simple(16, 24, 8);
    t.c.has_bias = true;
    try_it(1, t, 0);
    t.c = simple(16, 24, 8);
    t.c.has_c = true;
    t.c.addend = SYMM_BFLOAT16; /* d is fp32 */
    t.c.alpha = t.c.beta = &one;
    try_it(1, t, 0);
    t.c = simple(16, 24, 8);
    t.c.alpha = &zero; /* neither a nor b is read */
    try_it(1, t, 0);
    t.c.has_c = true;
    t.c.beta = &one;
    try_it(1, t, 0);
    t.c = simple(16, 24, 8);
    t.c.out = SYMM_FLOAT16; /* a is bf16 */
    try_it(1, t, 0);
    for (int operand = 1; operand < ORDERS; operand *= 2) {
        t = (struct trial){.c = simple(16, 24, 8), .shifted = operand};
        try_it(1, t, 0);
    }
    t = (struct trial){.c = simple(16, 24, 8), .undisguised = 1}; /* the emulated driver */
    try_it(1, t, 0);
    t = (struct trial){.c = simple(16, 24, 8), .no_memory = true};
    try_it(1, t, 0);
    t.c = gathered(7, 8, 5, SYMM_STRATEGY_UNFUSED);
    try_it(3, t, 0);
    setenv("SYMM_MATMUL_CUBLAS", "0", 1);
    t = (struct trial){.c = simple(16, 24, 8)};
    try_it(1, t, 0);
}

/* Random layouts, addresses, types and factors. */
TEST_LOOP(products, random_products_are_right, 1, 3)
{
    const int nranks = _i;
    int made = 0;

    open_fake();
    for (uint64_t i = 0; i < 80; i++) {
        struct trial t = {.c = matmul_draw(20 + i, nranks)};
        t.c.kind = nranks == 1 ? SYMM_MATMUL : SYMM_ALL_GATHER_MATMUL;
        t.c.strategy = nranks == 1 ? SYMM_STRATEGY_AUTO : SYMM_STRATEGY_UNFUSED;
        t.c.gathered = t.c.gathered && nranks > 1;
        t.c.activation = SYMM_NONE;
        t.c.has_bias = false;
        t.c.foreign = i % 2;
        if (i % 8 == 0) { /* cases that the stand-in supports */
            t.c.contiguous = true;
            t.c.has_c = t.c.in_place = false;
            t.c.beta = NULL;
            t.c.out = t.c.in;
        }
        fake->products = 0;
        ranks_run_ok(nranks, RANKS_AS_THREADS, multiply, &t, LIMIT_S);
        made += fake->products > 0;
    }
    ck_assert_int_eq(fake->objects, 0);
    ck_assert_int_ge(made, 1);
}

TEST(products, rows_of_all_ranks)
{
    static const struct {
        int32_t m, k, l;
        int nranks, products;
        symm_strategy strategy;
    } cases[] = {
        {6, 8, 1, 2, 2, SYMM_STRATEGY_UNFUSED},   {6, 3, 1, 3, 3, SYMM_STRATEGY_UNFUSED},
        {7, 8, 1, 2, 2, SYMM_STRATEGY_UNFUSED},   {7, 8, 1, 3, 3, SYMM_STRATEGY_UNFUSED},
        {1, 8, 1, 3, 3, SYMM_STRATEGY_UNFUSED},   {2, 9, 1, 3, 3, SYMM_STRATEGY_AUTO},
        {6, 8, 2, 2, 0, SYMM_STRATEGY_UNFUSED},   {8, 8, 2, 2, 2, SYMM_STRATEGY_UNFUSED},
        {6, 8, 1, 2, 0, SYMM_STRATEGY_FUSED},     {514, 2, 1, 2, 2, SYMM_STRATEGY_UNFUSED},
        {514, 2, 1, 3, 3, SYMM_STRATEGY_UNFUSED}, {129, 8, 4, 2, 0, SYMM_STRATEGY_UNFUSED},
        {5, 8, 1, 1, 1, SYMM_STRATEGY_FUSED},
    };
    struct trial t = {.undisguised = 0};

    open_fake();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int order = 0; order < ORDERS; order += B_BY_COLUMNS) {
            t.by_columns = order;
            t.c = gathered(cases[i].m, cases[i].k, 5, cases[i].strategy);
            t.c.l = cases[i].l;
            t.c.layout = i;
            t.c.gathered = i % 2;
            try_it(cases[i].nranks, t, cases[i].products);
        }
}

/* Ranks with a row more than others, or none, over one batch and several. */
TEST_LOOP(products, rows_of_any_number_of_ranks, 1, 9)
{
    static const float factors[] = {0.5f, -2.0f};
    const int nranks = _i;
    struct trial t = {.undisguised = 0};

    open_fake();
    for (int32_t m = 1; m <= 20; m++) {
        t.c = gathered(m, 5 + m % 8, 8, SYMM_STRATEGY_UNFUSED);
        t.c.l = nranks > 1 ? 1 + m % 3 : 1;
        t.c.nb = 1 + m / 2 % 3;
        t.c.has_c = m % 4 > 1;
        t.c.in_place = m % 4 == 3;
        t.c.alpha = &factors[0];
        t.c.beta = t.c.has_c ? &factors[1] : NULL;
        t.c.gathered = m % 5 == 0;
        t.c.layout = (uint64_t)m;
        t.by_columns = m % ORDERS;
        try_it(nranks, t, nranks * t.c.nb);
    }
}

static int nshards(int32_t m, int nranks)
{
    return m < nranks ? m : nranks;
}

/* Pipelined, each rank's rows have a product of their own, which begins when they have arrived. */
TEST_LOOP(products, rows_of_one_rank_at_a_time, 2, 9)
{
    static const float factors[] = {0.5f, -2.0f};
    const int nranks = _i;
    struct trial t = {.undisguised = 0};

    open_fake();
    for (int32_t m = 1; m <= 20; m++) {
        t.c = gathered(m, 5 + m % 8, 8, SYMM_STRATEGY_PIPELINED);
        t.c.l = 1 + m % 3;
        t.c.nb = 1 + m / 2 % 3;
        t.c.has_c = m % 4 > 1;
        t.c.in_place = m % 4 == 3;
        t.c.alpha = &factors[0];
        t.c.beta = t.c.has_c ? &factors[1] : NULL;
        t.c.gathered = m % 5 == 0;
        t.c.layout = (uint64_t)m;
        t.by_columns = m % ORDERS & ~D_BY_COLUMNS;
        try_it(nranks, t, nranks * nshards(m, nranks) * t.c.nb);
    }
}

/* A row of d then begins anywhere, or rows wait for their product in our kernels. */
TEST(products, rows_of_one_rank_are_aligned)
{
    struct trial t = {.c = gathered(6, 8, 5, SYMM_STRATEGY_PIPELINED)};

    open_fake();
    try_it(2, t, 0);
    t.c.n[0] = 4;
    try_it(2, t, 4);
    t.by_columns = D_BY_COLUMNS;
    try_it(2, t, 0);
    t.c.m = 8;
    try_it(2, t, 4);
    t.c.same_bits = true;
    try_it(2, t, 0);
    t.c.same_bits = false;
    t.undisguised = 1;
    try_it(2, t, 2);
}

TEST(products, rows_with_gaps_are_copied)
{
    static const struct {
        int32_t m, l;
        int nranks, copied; /* rows */
    } cases[] = {{7, 1, 2, 0}, {8, 1, 2, 0}, {7, 1, 3, 7}, {8, 1, 3, 0},
                 {9, 1, 3, 0}, {1, 1, 3, 0}, {4, 1, 8, 0}, {8, 2, 2, 16}};
    struct trial t = {.undisguised = 0};

    open_fake();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        t.c = gathered(cases[i].m, 8, 6, SYMM_STRATEGY_UNFUSED);
        t.c.l = cases[i].l;
        t.nbytes = FAKE_CUBLASLT_NBYTES + (size_t)cases[i].copied * 8 * sizeof(uint16_t);
        try_it(cases[i].nranks, t, cases[i].nranks);
    }
}

/* Each rank chooses cuBLASLt or the kernel by itself; all have the same strategy. */
TEST(products, one_rank_without_cublaslt)
{
    struct trial t = {.undisguised = 1};

    open_fake();
    t.c = gathered(6, 8, 5, SYMM_STRATEGY_UNFUSED);
    try_it(3, t, 2);
    t.c.strategy = SYMM_STRATEGY_AUTO;
    try_it(3, t, 2);
    t.c.m = 7;
    try_it(3, t, 2);
}

/*
 * If all ranks have cuBLASLt, an all-gather before it takes less time than our kernel, whose few
 * tiles take a time proportional to k. With many rows, cuBLASLt multiplies the first rows while the
 * others arrive.
 */
TEST(products, ranks_agree_on_the_strategy)
{
    struct trial t = {.wants = SYMM_STRATEGY_UNFUSED};

    open_fake();
    setenv("SYMM_EMULATED_SMS", "1", 1);
    t.c = gathered(8, 4096, 10, SYMM_STRATEGY_AUTO);
    try_it(2, t, 2);
    t.c = gathered(7, 4096, 2, SYMM_STRATEGY_AUTO);
    try_it(3, t, 3);
    t.wants = SYMM_STRATEGY_PIPELINED;
    t.c = gathered(1024, 4096, 16, SYMM_STRATEGY_AUTO);
    try_it(2, t, 4);
    t.undisguised = 1;
    setenv("SYMM_MATMUL_WGMMA", "0", 1); /* its small tiles make unfused runs fast, too */
    t.wants = SYMM_STRATEGY_FUSED;
    t.k = K_IN_ORDER; /* AUTO could have chosen by measured times */
    try_it(2, t, 0);
    t.c.strategy = SYMM_STRATEGY_FUSED;
    t.k = K_SHARED;
    try_it(2, t, 0);
}

/* Unfused, of plain sums: the workspace has d's layout, in which rows are 7 elements apart. */
TEST_LOOP(products, partial_sums_for_a_collective, 2, 5)
{
    static const float factors[] = {-1.5f, 0};
    struct trial t = {.wants = SYMM_STRATEGY_UNFUSED};

    open_fake();
    for (int i = 0; i < 8; i++) {
        const bool scatters = i % 2;
        t.c = simple(scatters ? 3 * _i : 5, 40, 7);
        t.c.kind = scatters ? SYMM_MATMUL_REDUCE_SCATTER : SYMM_MATMUL_ALL_REDUCE;
        t.c.strategy = SYMM_STRATEGY_UNFUSED;
        t.c.out = i / 2 % 2 ? SYMM_FLOAT32 : SYMM_BFLOAT16;
        t.c.nb = 1 + i / 4;
        t.c.alpha = &factors[i == 7];
        t.c.layout = (uint64_t)i;
        t.by_columns = scatters ? B_BY_COLUMNS : D_BY_COLUMNS;
        try_it(_i, t, i == 7 ? 0 : _i * t.c.nb);
    }
}
