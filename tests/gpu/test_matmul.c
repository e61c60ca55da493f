/*
 * symm_matmul on GPUs: one process per GPU, without multicast. The cases of the emulated driver's
 * test, and larger ones, of many tiles and chunks. Skipped, with the reason, without a GPU.
 */
#include <stdlib.h>
#include <string.h>
#include "exercise.h"
#include "folder.h"
#include "gpus.h"
#include "matmul_bench.h"
#include "matmul_loss.h"
#include "matmul_pair.h"
#include "matmul_plan.h"
#include "test.h"

enum { MOST = 4, DRAWN = 60, LIMIT_S = 170 };

static int ngpus;

#define NEEDS_GPUS(nranks)                                                                         \
    do {                                                                                           \
        if (ngpus < (nranks))                                                                      \
            TEST_SKIP("%d GPUs; it needs %d", ngpus, (nranks));                                    \
    } while (0)

static void run(int nranks, struct matmul_plan plan)
{
    NEEDS_GPUS(nranks);
    ranks_run_ok(nranks, RANKS_AS_PROCESSES, matmul_run_plan, &plan, LIMIT_S);
}

TEST_GROUP(right, LIMIT_S + 10);

TEST_LOOP(right, drawn_products_are_right, 1, MOST + 1)
{
    run(_i, (struct matmul_plan){.first = 0, .ncases = DRAWN});
}

TEST_LOOP(right, drawn_products_are_right_with_copy_engines, 2, MOST + 1)
{
    setenv("SYMM_MATMUL_ENGINE_BYTES", "1", 1);
    run(_i, (struct matmul_plan){.first = DRAWN, .ncases = DRAWN / 2});
}

/* Full and partial tiles, row- and column-major operands, SMs and copy engines; many waves. */
static const struct matmul_case large[] = {
    {.m = 512, .k = 1024, .l = 1, .nb = 1, .n = {384}, .contiguous = true},
    {.m = 1000, .k = 777, .l = 1, .nb = 2, .n = {130, 57}, .n_differs = true, .gathered = true},
    {.m = 2048, .k = 4096, .l = 1, .nb = 1, .n = {64}, .contiguous = true},
    {.m = 1500, .k = 2504, .l = 1, .nb = 1, .n = {40}, .gathered = true, .layout = 3},
    {.m = 333, .k = 512, .l = 3, .nb = 3, .n = {128, 129, 1}, .has_bias = true, .layout = 7},
    {.m = 4200, .k = 136, .l = 1, .nb = 1, .n = {1096}, .contiguous = true},
};
enum { NLARGE = sizeof large / sizeof large[0] };

TEST_LOOP(right, large_products_are_right, 1, MOST + 1)
{
    struct matmul_case cases[2 * NLARGE];

    for (int i = 0; i < 2 * NLARGE; i++) {
        cases[i] = large[i / 2];
        cases[i].kind = SYMM_ALL_GATHER_MATMUL;
        cases[i].in = i % 2 ? SYMM_FLOAT16 : SYMM_BFLOAT16;
        cases[i].out = i % 2 ? SYMM_FLOAT16 : SYMM_FLOAT32;
        cases[i].addend = SYMM_FLOAT32;
    }
    run(_i, (struct matmul_plan){.ncases = 2 * NLARGE, .cases = cases});
}

/*
 * Few rows, with and without cuBLASLt: products that it supports and others, shards of equal size
 * and with a row more.
 */
static const struct matmul_case few[] = {
    {.m = 16, .k = 1024, .l = 1, .n = {384}, .contiguous = true},
    {.m = 1, .k = 4096, .l = 1, .n = {640}, .contiguous = true},
    {.m = 128, .k = 776, .l = 1, .nb = 2, .n = {136, 57}, .contiguous = true, .gathered = true},
    {.m = 512, .k = 512, .l = 1, .n = {256}, .contiguous = true, .has_c = true, .in_place = true},
    {.m = 60, .k = 777, .l = 1, .n = {129}, .contiguous = true, .has_c = true},
    {.m = 500, .k = 200, .l = 1, .n = {72}, .n_differs = true, .contiguous = true},
    {.m = 96, .k = 256, .l = 3, .n = {128}, .contiguous = true, .foreign = true},
    {.m = 24, .k = 520, .l = 1, .n = {264}, .layout = 5},
    {.m = 32, .k = 256, .l = 1, .n = {64}, .contiguous = true, .has_bias = true},
};
enum { NFEW = sizeof few / sizeof few[0] };

TEST_LOOP(right, few_rows_are_right, 1, MOST + 1)
{
    static const float factors[] = {0.5f, -2.0f};
    struct matmul_case cases[4 * NFEW];

    NEEDS_GPUS(_i);
    for (int i = 0; i < 4 * NFEW; i++) {
        struct matmul_case *c = &cases[i];
        *c = few[i / 4];
        c->kind = i % 2 ? SYMM_MATMUL : SYMM_ALL_GATHER_MATMUL;
        c->gathered = c->gathered && c->kind == SYMM_ALL_GATHER_MATMUL;
        c->nb = c->nb ? c->nb : 1;
        c->in = i % 4 < 2 ? SYMM_BFLOAT16 : SYMM_FLOAT16;
        c->out = c->addend = i % 4 < 2 ? SYMM_BFLOAT16 : SYMM_FLOAT32;
        c->alpha = c->has_c ? &factors[0] : NULL;
        c->beta = c->has_c ? &factors[1] : NULL;
    }
    for (int wanted = 0; wanted < 2; wanted++) {
        setenv("SYMM_MATMUL_CUBLAS", wanted ? "1" : "0", 1);
        run(_i, (struct matmul_plan){.ncases = 4 * NFEW, .cases = cases, .any_bits = wanted != 0});
    }
}

/* Tiles of one step and few columns: a cluster ends soon after the last stages are released. */
TEST_LOOP(right, short_tiles_of_every_shape_are_right, 0, MATMUL_SHAPES)
{
    struct matmul_case cases[] = {{.kind = SYMM_MATMUL}, {.kind = SYMM_MATMUL_REDUCE_SCATTER}};

    for (int i = 0; i < 2; i++) {
        cases[i].in = cases[i].out = cases[i].addend = SYMM_FLOAT16;
        cases[i].m = 131072;
        cases[i].k = 64;
        cases[i].l = cases[i].nb = 1;
        cases[i].n[0] = 3;
        cases[i].contiguous = true;
    }
    setenv("SYMM_MATMUL_CUBLAS", "0", 1);
    matmul_force_shape(_i);
    run(2, (struct matmul_plan){.ncases = 2, .cases = cases});
}

/* Plain products: several tiles in a block, one tile in each of some, and tiles of one step. */
TEST_LOOP(right, plain_tiles_of_every_shape_are_right, 0, MATMUL_PLAIN_SHAPES)
{
    static const int32_t extents[][3] = {{7000, 1512, 264}, {777, 1112, 2000}, {131072, 8, 64}};
    struct matmul_case cases[3];

    for (int i = 0; i < 3; i++) {
        cases[i] = (struct matmul_case){.kind = SYMM_MATMUL,
                                        .in = _i % 2 ? SYMM_FLOAT16 : SYMM_BFLOAT16,
                                        .out = _i % 2 ? SYMM_FLOAT16 : SYMM_BFLOAT16,
                                        .m = extents[i][0],
                                        .n = {extents[i][1]},
                                        .k = extents[i][2],
                                        .l = 1,
                                        .nb = 1,
                                        .contiguous = true,
                                        .layout = (unsigned)(_i + i)};
    }
    setenv("SYMM_MATMUL_CUBLAS", "0", 1);
    matmul_force_plain(_i);
    run(1, (struct matmul_plan){.ncases = 3, .cases = cases});
}

TEST_LOOP(right, drawn_products_are_right_with_cublas, 1, MOST + 1)
{
    setenv("SYMM_MATMUL_CUBLAS", "1", 1);
    run(_i, (struct matmul_plan){.first = 2 * DRAWN, .ncases = DRAWN / 2, .any_bits = true});
}

/* Sums and columns of all ranks, by symm's kernels and by cuBLASLt. */
TEST_LOOP(right, collected_products_are_right, 1, MOST + 1)
{
    NEEDS_GPUS(_i);
    for (int wanted = 0; wanted < 2; wanted++) {
        setenv("SYMM_MATMUL_CUBLAS", wanted ? "1" : "0", 1);
        run(_i, (struct matmul_plan){.ncases = DRAWN, .collected = true, .any_bits = wanted != 0});
    }
}

/* --------------------------------------------------------------------------- two groups at once */

/* The Hopper kernel, if the GPU has it, and the portable one; SMs and copy engines as senders. */
static const struct {
    const char *wgmma, *engine_bytes;
} transports[] = {{"1", "1G"}, {"1", "1"}, {"0", "1G"}, {"0", "1"}};
enum { NTRANSPORTS = sizeof transports / sizeof transports[0], WORLDS = MOST - 1 /* from 2 on */ };

/* Each rank's shard has more tiles than a GPU has SMs, so all SMs come to wait. */
static const struct matmul_case crowded = {
    .kind = SYMM_ALL_GATHER_MATMUL,
    .strategy = SYMM_STRATEGY_FUSED,
    .in = SYMM_BFLOAT16,
    .out = SYMM_BFLOAT16,
    .m = 36000,
    .k = 64,
    .l = 1,
    .nb = 1,
    .n = {64},
    .contiguous = true,
};

static void run_pair(int i, bool graphs, int apart_ms)
{
    const int nranks = 2 + i % WORLDS;
    struct matmul_case pairs[][2] = {{crowded, crowded}, {crowded, crowded}};

    pairs[0][1].in = SYMM_FLOAT16;
    pairs[1][0].strategy = SYMM_STRATEGY_PIPELINED;
    pairs[1][1].m = 3000;
    pairs[1][1].k = 2056; /* SMs send it in pieces */
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
    setenv("SYMM_CHECK", "0", 1); /* it demands one order of calls */
    setenv("SYMM_TIMEOUT_MS", "10000", 1);
    setenv("SYMM_MATMUL_WGMMA", transports[i / WORLDS].wgmma, 1);
    setenv("SYMM_MATMUL_ENGINE_BYTES", transports[i / WORLDS].engine_bytes, 1);
    struct matmul_pairs plan = {.cases = (const struct matmul_case(*)[2])pairs,
                                .ncases = graphs || apart_ms ? 1 : 2,
                                .rounds = graphs ? 2 : 1,
                                .graphs = graphs,
                                .apart_ms = apart_ms};
    ranks_run_ok(nranks, RANKS_AS_PROCESSES, matmul_run_pairs, &plan, LIMIT_S);
}

TEST_GROUP(two_groups, LIMIT_S + 10);

TEST_LOOP(two_groups, two_groups_run_at_once_on_two_streams, 0, WORLDS *NTRANSPORTS)
{
    NEEDS_GPUS(2 + _i % WORLDS);
    run_pair(_i, false, 0);
}

TEST_LOOP(two_groups, two_groups_are_replayed_at_once_on_two_streams, 0, WORLDS *NTRANSPORTS)
{
    NEEDS_GPUS(2 + _i % WORLDS);
    run_pair(_i, true, 0);
}

/*
 * When a rank enqueues its second product, all of its SMs wait in its first one, which is the
 * second one of other ranks. So rows arrive only if their senders run beside products.
 */
TEST_LOOP(two_groups, rows_are_sent_beside_products_on_all_SMs, 0, WORLDS *NTRANSPORTS)
{
    NEEDS_GPUS(2 + _i % WORLDS);
    run_pair(_i, false, 50);
}

/* ---------------------------------------------------------------------- a rank that never calls */

enum { TIMEOUT_MS = 1500, WAIT_MS = 300, GRACE_MS = 3000 };

/* value[1]: time of the abort; [2]: of the error on this rank; [3]: whether it is a timeout. */
RANK_WITH(wait_for_the_last, struct matmul_bench, b, matmul_bench_begin, matmul_bench_end)
{
    const bool gives_up = *(const bool *)arg, is_last = self->rank == self->nranks - 1;
    struct matmul_group group = {0};
    int64_t *value = self->report->value;

    RANK_TRY(self, matmul_group_open(self, b, &crowded, &group));
    RANK_TRY(self, matmul_job_create(self, &group.job));
    RANK_TRY(self, matmul_job_send(self, &group.job, 1, b->stream));
    RANK_TRY(self, symm_synchronize(b->world, b->stream));
    RANK_TRY(self, symm_exchange(b->world, NULL, 0, NULL));
    const int64_t start = now_ms();
    if (!is_last)
        RANK_TRY(self, matmul_job_run(self, &group.job, b->stream));
    if (is_last && gives_up) {
        pause_ms(WAIT_MS);
        value[1] = now_ms();
        symm_abort(group.g, "a test");
    }
    while (is_last && symm_check(group.g) == SYMM_OK && now_ms() < start + 20000)
        pause_ms(5);
    const symm_status st = rank_note(self, symm_synchronize(group.g, b->stream));
    value[2] = now_ms();
    value[3] = st == SYMM_ERROR_TIMEOUT;
    CHECK_RANK_MSG(self, st == SYMM_ERROR_PEER || (st == SYMM_ERROR_TIMEOUT && !gives_up), "%s: %s",
                   symm_status_name(st), self->report->text);
    CHECK_RANK_MSG(self, !gives_up || strstr(self->report->text, "a test"), "%s",
                   self->report->text);
    const int64_t took = value[2] - start;
    CHECK_RANK_MSG(self, gives_up || (took >= TIMEOUT_MS && took < TIMEOUT_MS + GRACE_MS),
                   "it took %lld ms", (long long)took);
out:
    matmul_group_close(&group);
}

TEST_GROUP(end, LIMIT_S + 10, IN_A_FOLDER);

/* The first rank whose wait times out ends the group on all ranks. The world still works. */
TEST_LOOP(end, a_product_without_a_rank_ends_in_time, 0, 2 * WORLDS)
{
    const int nranks = 2 + _i % WORLDS;
    bool gives_up = _i / WORLDS % 2;
    struct rank_report reports[MOST];
    int64_t ntimeouts = 0;

    NEEDS_GPUS(nranks);
    setenv("SYMM_CHECK", "0", 1);
    setenv("SYMM_TIMEOUT_MS", gives_up ? "20000" : "1500", 1);
    ranks_run(nranks, RANKS_AS_PROCESSES, wait_for_the_last, &gives_up, reports, LIMIT_S);
    ranks_assert_ok(reports, nranks);
    for (int r = 0; r < nranks; r++) {
        const int64_t took = reports[r].value[2] - reports[nranks - 1].value[1];
        ck_assert_msg(!gives_up || took < 1000, "it ended %lld ms after the abort",
                      (long long)took);
        ntimeouts += reports[r].value[3];
    }
    ck_assert(gives_up ? ntimeouts == 0 : ntimeouts > 0);
}

/* -------------------------------------------------------------------- a rank killed in products */

/* SMs and copy engines as senders; eager and replayed products; two worlds. */
static const int losing[] = {2, 4};
enum { NLOSING = sizeof losing / sizeof losing[0], BURST = 2000 };

TEST_LOOP(end, the_others_outlive_a_rank_killed_in_mid_product, 0, 4 * NLOSING)
{
    const int nranks = losing[_i % NLOSING];
    struct matmul_loss loss = {.c = crowded, .burst = BURST, .replayed = _i / NLOSING % 2};

    NEEDS_GPUS(nranks);
    setenv("SYMM_CHECK", "0", 1);
    setenv("SYMM_MATMUL_ENGINE_BYTES", _i / NLOSING / 2 ? "1" : "1G", 1);
    const int64_t took = matmul_lose_the_last(&loss, nranks);
    ck_assert_msg(took < 1000, "told after %lld ms", (long long)took);
}

void test_setup(void)
{
    setenv("SYMM_DRIVER", "cuda", 1);
    setenv("SYMM_MATMUL_CUBLAS", "0", 1); /* strategies have the same bits */
    setenv("SYMM_MULTICAST", "0", 1);
    test_uncounted = true;
    ngpus = gpus_count(MOST);
}
