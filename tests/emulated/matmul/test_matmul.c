/*
 * symm_matmul on the emulated driver: every strategy in worlds of 1 to 8, with random shapes,
 * types, layouts and addresses. The first result is compared with a reference in double precision,
 * the others with its bits.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <symm/collectives.h>
#include <unistd.h>
#include "exercise.h"
#include "matmul_bench.h"
#include "matmul_plan.h"
#include "reference.h"
#include "test.h"
#include "trace.h"
#include "world.h"

static void run(int nranks, enum ranks_mode mode, int first, int ncases)
{
    struct rank_report reports[RANKS_MAX];

    ranks_run(nranks, mode, matmul_run_plan,
              &(struct matmul_plan){.first = first, .ncases = ncases}, reports, 120);
    ranks_assert_ok(reports, nranks);
    ck_assert_int_eq(reports[0].value[0], ncases);
}

TEST_GROUP(right, 250);

TEST_LOOP(right, every_world_is_right, 1, 9)
{
    run(_i, RANKS_AS_PROCESSES, _i < 4 ? 0 : 6, _i == 1 ? 60 : 22 - 2 * _i);
}

TEST_GROUP(threads, 250); /* ranks that ThreadSanitizer sees */

TEST_LOOP(threads, ranks_may_be_threads, 1, 5)
{
    run(_i, RANKS_AS_THREADS, 100, 10);
}

static const int block_sizes[] = {1, 3, 32, 33, 64};

TEST_LOOP(right, any_block_size_is_right, 0, 5)
{
    char text[16];
    snprintf(text, sizeof text, "%d", block_sizes[_i]);
    setenv("SYMM_EMULATED_BLOCK", text, 1);
    run(3, RANKS_AS_PROCESSES, 4 * _i, 7);
}

TEST_LOOP(right, one_or_two_SMs_are_enough, 1, 3)
{
    setenv("SYMM_EMULATED_SMS", _i == 1 ? "1" : "2", 1);
    run(4, RANKS_AS_PROCESSES, 8 * _i - 8, 8);
}

TEST_LOOP(right, weakly_ordered_memory_makes_no_difference, 0, 4)
{
    if (TEST_TSAN)
        TEST_SKIP("under ThreadSanitizer memory is as strong as this machine's");
    matmul_weaken_memory(_i);
    run(3, RANKS_AS_PROCESSES, 200 + 8 * _i, 8);
}

/* Several blocks send a chunk, one of them signals for all. Two ranks get pieces alternately. */
TEST_LOOP(right, chunks_of_many_units_in_weakly_ordered_memory, 0, 4)
{
    const struct matmul_case c = {.kind = SYMM_ALL_GATHER_MATMUL,
                                  .in = SYMM_BFLOAT16,
                                  .out = SYMM_FLOAT32,
                                  .addend = SYMM_FLOAT32,
                                  .m = 96,
                                  .k = 512,
                                  .l = 1,
                                  .nb = 1,
                                  .n = {1},
                                  .whole = true,
                                  .contiguous = true};
    struct matmul_case cases[] = {c, c, c};

    matmul_weaken_memory(_i);
    setenv("SYMM_MATMUL_ENGINE_BYTES", "64M", 1);
    ranks_run_ok(2 + _i % 2, RANKS_AS_PROCESSES, matmul_run_plan,
                 &(struct matmul_plan){.ncases = 3, .cases = cases}, 120);
}

TEST(right, counters_wrap)
{
    setenv("SYMM_EPOCH_START", "4294967294", 1);
    run(3, RANKS_AS_PROCESSES, 0, 6);
}

/* alpha 0 with and without every other term. Operands that must not be read are NaN. */
TEST_LOOP(right, a_factor_of_0_drops_its_term, 1, 4)
{
    static const float zero = 0, one = 1;
    static const float *const betas[] = {NULL, &zero, &one};
    struct matmul_case cases[24];

    for (int i = 0; i < 24; i++)
        cases[i] = (struct matmul_case){
            .kind = i % 4 == 3 ? SYMM_MATMUL : SYMM_ALL_GATHER_MATMUL,
            .activation = (symm_activation)((i + i / 3) % 3),
            .in = i % 2 ? SYMM_FLOAT16 : SYMM_BFLOAT16,
            .out = i % 5 ? SYMM_FLOAT32 : SYMM_BFLOAT16,
            .addend = SYMM_FLOAT32,
            .m = 137,
            .k = 9,
            .l = 1 + i % 2,
            .nb = 1,
            .n = {130},
            .has_c = i % 3 == 2 || i / 3 % 2,
            .has_bias = i / 6 % 2,
            .gathered = i % 4 < 2,
            .alpha = &zero,
            .beta = betas[i % 3],
            .whole = i < 12,
            .layout = (uint64_t)i,
        };
    ranks_run_ok(_i, RANKS_AS_PROCESSES, matmul_run_plan,
                 &(struct matmul_plan){.ncases = 24, .cases = cases}, 120);
}

/* SYMM_CHECK does not compare them. */
MATMUL_TEST(right, ranks_may_have_factors_of_their_own, 3, .env = {{"SYMM_CHECK", "1"}})
{
    static const float factors[] = {1.0f, -2.0f, 0.5f};
    struct matmul_case c = matmul_works;

    for (int s = SYMM_STRATEGY_FUSED; s <= SYMM_STRATEGY_UNFUSED; s++) {
        c.strategy = (symm_strategy)s;
        c.alpha = &factors[self->rank];
        c.beta = &factors[(self->rank + s) % 3];
        RANK_TRY(self, matmul_bench_change(self, b, &c));
    }
out:;
}

/* ----------------------------------------------------------------------------- large transfers */

/* Shards of 2 MiB and more: one chunk or several, fewer on some ranks, none on one. */
static const struct {
    int nranks;
    struct matmul_case c;
} large[] = {
    {2, {.m = 600, .k = 4096, .l = 1, .n = {2}, .contiguous = true}},
    {3, {.m = 385, .k = 8191, .l = 1, .n = {1}, .gathered = true}},
    {2, {.m = 3, .k = 600001, .l = 1, .n = {1}, .data = MATMUL_IN_ARGS}},
    {3, {.m = 2, .k = 1 << 20, .l = 1, .n = {1}, .contiguous = true}},
    {2, {.m = 202, .k = 3500, .l = 3, .n = {1}, .same = MATMUL_SAME_BATCHES, .gathered = true}},
};
enum { NLARGE = sizeof large / sizeof large[0], LONG_K = 1 << 16 };

TEST_LOOP(right, copy_engines_send_rows_of_any_size, 2, 5)
{
    setenv("SYMM_MATMUL_ENGINE_BYTES", "1", 1);
    run(_i, RANKS_AS_PROCESSES, 0, 10);
}

static void run_large(int which, const char *engine_bytes)
{
    struct matmul_case c = large[which].c;
    c.kind = SYMM_ALL_GATHER_MATMUL;
    c.in = SYMM_BFLOAT16;
    c.out = c.addend = SYMM_FLOAT32;
    c.nb = 1;
    c.whole = true;
    setenv("SYMM_MATMUL_ENGINE_BYTES", engine_bytes, 1);
    if (c.k > LONG_K) /* the Hopper kernel multiplies whole tiles, which takes minutes here */
        setenv("SYMM_MATMUL_WGMMA", "0", 1);
    ranks_run_ok(large[which].nranks, RANKS_AS_PROCESSES, matmul_run_plan,
                 &(struct matmul_plan){.ncases = 1, .cases = &c}, 120);
}

TEST_LOOP(right, copy_engines_send_megabytes, 0, NLARGE)
{
    run_large(_i, "2M");
}

/* Pieces along k, if the model expects them to be faster. */
TEST_LOOP(right, copy_engines_send_pieces, 0, NLARGE)
{
    run_large(_i, "64K");
}

TEST_LOOP(right, SMs_send_pieces_along_k, 0, NLARGE)
{
    run_large(_i, "64M");
}

/* ---------------------------------------------------------------------------- the end of memory */

/* An inaccessible page follows each operand; the last rank has a row less. */
enum { TIGHT_M = 8, TIGHT_K = 2048, TIGHT_N = 128 };

static symm_status run_tight(struct rank *self, symm_group *world, symm_strategy strategy,
                             void *const data[3])
{
    const int64_t rows = TIGHT_M / self->nranks + (self->rank < TIGHT_M % self->nranks);
    const symm_matmul_desc desc = {
        .kind = SYMM_ALL_GATHER_MATMUL,
        .strategy = strategy,
        .a = {data[0], SYMM_BFLOAT16, 2, {rows, TIGHT_K}, {TIGHT_K, 1}},
        .b = {{data[1], SYMM_BFLOAT16, 2, {TIGHT_K, TIGHT_N}, {TIGHT_N, 1}}},
        .d = {{data[2], SYMM_FLOAT32, 2, {TIGHT_M, TIGHT_N}, {TIGHT_N, 1}}},
    };
    symm_matmul *m = NULL;

    RANK_TRY(self, symm_matmul_create(world, &desc, &m));
    RANK_TRY(self, symm_matmul_run(m, NULL, NULL));
    RANK_TRY(self, symm_synchronize(world, NULL));
out:
    symm_matmul_destroy(m);
    return self->report->status;
}

WORLD_TEST(right, no_byte_behind_an_operand_is_accessed, 3,
           .env = {{"SYMM_MATMUL_ENGINE_BYTES", _i ? "1" : "1G"}}, .loop = {0, 2})
{
    const size_t rows = (size_t)(TIGHT_M / self->nranks + (self->rank < TIGHT_M % self->nranks)),
                 nbytes[3] = {rows * TIGHT_K * 2, (size_t)TIGHT_K * TIGHT_N * 2,
                              (size_t)TIGHT_M * TIGHT_N * 4};
    void *data[3] = {NULL, NULL, NULL};

    for (int i = 0; i < 3; i++) {
        CHECK_RANK(self, nbytes[i] % 4096 == 0);
        RANK_TRY(self, symm_device_alloc(ctx, nbytes[i], &data[i]));
        RANK_TRY(self, symm_fill(data[i], 0, nbytes[i], NULL));
    }
    for (int i = SYMM_STRATEGY_FUSED; i <= SYMM_STRATEGY_UNFUSED; i++)
        RANK_TRY(self, run_tight(self, world, (symm_strategy)i, data));
out:
    for (int i = 0; i < 3; i++)
        symm_device_free(ctx, data[i]);
}

/* ------------------------------------------------------------------------- launches and copies */

/* Driver calls of a rank. */
struct calls {
    int launches, of_kernel; /* all; of the kernel in question */
    int copies, pieces;      /* pieces: 2D copies */
    int created;             /* streams and events */
    char last[32];           /* the kernel that was launched last, as the trace has it */
    const char *kernel;      /* in question */
};

static bool count_call(void *arg, const char *line)
{
    struct calls *n = arg;

    n->copies += strstr(line, "cuMemcpyAsync") == line;
    n->pieces += strstr(line, "cuMemcpy2DAsync") == line;
    n->created += strstr(line, "cuStreamCreate") == line || strstr(line, "cuEventCreate") == line;
    if (sscanf(line, "cuLaunchKernelEx(function=%31s", n->last) == 1) {
        n->launches++;
        n->of_kernel += strcmp(n->last, n->kernel) == 0;
    }
    return true;
}

/* The calls of one run of a job, whose product is created before and destroyed afterwards. */
static symm_status trace_run(struct rank *self, struct matmul_job *job, const char *kernel,
                             struct calls *out)
{
    long at = 0;

    *out = (struct calls){.kernel = kernel};
    RANK_TRY(self, matmul_job_create(self, job));
    RANK_TRY(self, symm_synchronize(job->group, NULL));
    CHECK_RANK(self, trace_read(self->rank, &at, NULL, NULL));
    RANK_TRY(self, matmul_job_run(self, job, NULL));
    CHECK_RANK(self, trace_read(self->rank, &at, count_call, out));
    RANK_TRY(self, symm_synchronize(job->group, NULL));
out:
    symm_matmul_destroy(job->m);
    job->m = NULL;
    return self->report->status;
}

/*
 * With SMs as senders, or copy engines. Each other rank gets two chunks and their counts: strips,
 * or pieces along k. Engines have a kernel before the copies, and none in between. Pipelined
 * products of other ranks' rows have a kernel that waits before each.
 * launches 0: any number. No run creates anything, not even the group's first one.
 */
static const struct {
    int32_t m, k;
    symm_strategy strategy;
    struct calls calls;
} traces[] = {
    {9, 8, SYMM_STRATEGY_FUSED, {.of_kernel = 1}},
    {9, 8, SYMM_STRATEGY_PIPELINED, {.of_kernel = 3}},
    {9, 8, SYMM_STRATEGY_UNFUSED, {.launches = 2, .of_kernel = 1}},
    {2400, 2000, SYMM_STRATEGY_FUSED, {.launches = 2, .of_kernel = 1, .copies = 8}},
    {2400, 2000, SYMM_STRATEGY_PIPELINED, {.launches = 6, .of_kernel = 3, .copies = 8}},
    {384, 16384, SYMM_STRATEGY_FUSED, {.launches = 2, .of_kernel = 1, .copies = 4, .pieces = 4}},
};
enum { NTRACES = sizeof traces / sizeof traces[0] };

WORLD_RANK(trace_strategies)
{
    struct matmul_case c = {.kind = SYMM_MATMUL,
                            .in = SYMM_BFLOAT16,
                            .out = SYMM_FLOAT32,
                            .m = 9,
                            .k = 8,
                            .l = 1,
                            .nb = 1,
                            .n = {1},
                            .contiguous = true};
    struct matmul_job job = {0};
    struct calls calls;
    char product[32];

    RANK_TRY(self, matmul_job_open(self, ctx, world, &c, &job));
    RANK_TRY(self, trace_run(self, &job, "", &calls));
    CHECK_RANK_MSG(self, calls.launches == 1 && calls.copies == 0, "%d, %d", calls.launches,
                   calls.copies);
    memcpy(product, calls.last, sizeof product);
    c.kind = SYMM_ALL_GATHER_MATMUL;
    for (int i = 0; i < NTRACES; i++) {
        const struct calls *want = &traces[i].calls;
        c.strategy = traces[i].strategy;
        c.m = traces[i].m;
        c.k = traces[i].k;
        matmul_job_close(&job);
        RANK_TRY(self, matmul_job_open(self, ctx, world, &c, &job));
        RANK_TRY(self, trace_run(self, &job, product, &calls));
        CHECK_RANK_MSG(
            self,
            (!want->launches || calls.launches == want->launches) &&
                calls.of_kernel == want->of_kernel && calls.copies == want->copies &&
                calls.pieces == want->pieces && calls.created == 0,
            "%d launches, %d of products, %d copies, %d 2D copies, %d streams and events: "
            "trace %d",
            calls.launches, calls.of_kernel, calls.copies, calls.pieces, calls.created, i);
    }
out:
    matmul_job_close(&job);
}

static void trace_ranks(int nranks, rank_fn fn)
{
    trace_begin();
    ranks_run_ok(nranks, RANKS_AS_PROCESSES, fn, NULL, 60);
    trace_end();
}

TEST(right, strategies_launch_their_kernels_and_copies)
{
    setenv("SYMM_MATMUL_ENGINE_BYTES", "1500000", 1);
    setenv("SYMM_MATMUL_SHAPE", "2", 1); /* all products by one kernel */
    trace_ranks(3, trace_strategies);
}

/* Unfused on four ranks, slabs of 256 KiB and more go through the switch, smaller ones do not. */
WORLD_RANK(gather_by_switch)
{
    static const int32_t m[] = {256, 252}; /* rows of 1 KiB */
    const symm_options options = {.algo = SYMM_ALGO_MULTIMEM};
    struct matmul_case c = {.kind = SYMM_ALL_GATHER_MATMUL,
                            .strategy = SYMM_STRATEGY_UNFUSED,
                            .in = SYMM_BFLOAT16,
                            .out = SYMM_FLOAT32,
                            .k = 512,
                            .l = 1,
                            .nb = 1,
                            .n = {2},
                            .whole = true};
    struct matmul_job job = {0};
    struct calls calls, by_switch = {.kernel = ""};
    char *bytes = NULL;
    long at = 0;

    RANK_TRY(self, symm_alloc(world, 1024, (void **)&bytes));
    RANK_TRY(self, symm_all_gather(world, bytes, bytes + 512, 64, SYMM_UINT8, &options, NULL));
    CHECK_RANK(self, trace_read(self->rank, &at, count_call, &by_switch));
    for (int i = 0; i < 2; i++) {
        c.m = m[i];
        RANK_TRY(self, matmul_job_open(self, ctx, world, &c, &job));
        RANK_TRY(self, matmul_job_send(self, &job, 1, NULL));
        RANK_TRY(self, trace_run(self, &job, by_switch.last, &calls));
        RANK_TRY(self, matmul_job_fetch(self, &job, NULL, NULL));
        RANK_TRY(self, matmul_job_look(self, &job));
        CHECK_RANK_MSG(self, calls.of_kernel == (i == 0), "%d by the switch of %d rows",
                       calls.of_kernel, c.m);
        matmul_job_close(&job);
    }
out:
    matmul_job_close(&job);
}

TEST(right, the_switch_gathers_for_unfused_products)
{
    if (!SYMM_MULTICAST)
        TEST_SKIP("this build has no multicast");
    setenv("SYMM_MULTICAST", "1", 1);
    trace_ranks(4, gather_by_switch);
}
