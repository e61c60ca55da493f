/*
 * Products behind a kernel of the user that lets them begin early: a slow one that brings their
 * data. A product takes no data before that kernel has ended, except for a B that is constant.
 */
#include <stdlib.h>
#include "kernels.h"
#include "matmul.h"
#include "matmul_plan.h"
#include "reference.h"
#include "test.h"

enum { ROUNDS = 3, SPIN = 150, BLOCKS = 2, THREADS = 64 };

struct early_test {
    struct matmul_case c;
    uint64_t first; /* round */
};

/* Memory that a kernel fills from a copy of it. */
struct delivery {
    char *to, *copy;
    size_t nbytes;
};

struct post {
    struct matmul_job job;
    symm_kernel *kernel;
    symm_stream stream;
    struct delivery operands;
};

/* All operands, or with a constant B, A alone. */
static struct delivery delivery_of(const struct matmul_job *job)
{
    const struct matmul_operand *a = &job->o.a;
    char *region = job->device[a->region];

    if (!job->c.constant_b)
        return (struct delivery){.to = region, .nbytes = job->nbytes[a->region]};
    return (struct delivery){
        .to = region + a->at,
        .nbytes = (size_t)(a->t.shape[a->t.ndim - 2] * a->t.shape[a->t.ndim - 1]) * 2};
}

/* What the product had in its memory comes again, late. Until then there are NaN. */
static symm_status deliver(struct rank *self, const struct post *p, const struct delivery *d)
{
    const symm_grid grid = {.blocks = BLOCKS, .threads = THREADS, .flags = SYMM_GRID_PDL};
    test_deliver_args args = {.from = (uint16_t *)(void *)d->copy,
                              .to = (uint16_t *)(void *)d->to,
                              .words = d->nbytes / 2,
                              .spin = SPIN};

    if (d->nbytes == 0) /* this rank has no rows */
        return SYMM_OK;
    RANK_TRY(self, symm_group_view(p->job.group, &args.view));
    RANK_TRY(self, symm_copy(d->copy, d->to, d->nbytes, p->stream));
    RANK_TRY(self, symm_fill(d->to, 0xff, d->nbytes, p->stream));
    RANK_TRY(self, symm_launch(p->job.group, p->kernel, &grid, &args, sizeof args, p->stream));
    return SYMM_OK;
out:
    return SYMM_ERROR_STATE;
}

/* A run behind the kernel that brings the data, or two. */
static symm_status run_round(struct rank *self, struct post *p, uint64_t round)
{
    struct matmul_job *job = &p->job;

    RANK_TRY(self, matmul_job_send(self, job, round, p->stream));
    RANK_TRY(self, symm_synchronize(job->group, p->stream));
    RANK_TRY(self, symm_exchange(job->group, NULL, 0, NULL));
    RANK_TRY(self, deliver(self, p, &p->operands));
    for (uint64_t i = 0; i <= round % 2; i++)
        RANK_TRY(self, matmul_job_run(self, job, p->stream));
    RANK_TRY(self, matmul_job_fetch(self, job, NULL, p->stream));
    return matmul_job_look(self, job);
out:
    return SYMM_ERROR_STATE;
}

static void run_early(struct rank *self, void *arg)
{
    const struct early_test *test = arg;
    struct post p = {.kernel = NULL};
    symm_context *ctx = NULL;

    RANK_TRY(self, rank_join(self, &ctx));
    RANK_TRY(self, symm_stream_create(ctx, &p.stream));
    RANK_TRY(self, symm_kernel_load(ctx, &test_kernels, "test_deliver", &p.kernel));
    RANK_TRY(self, matmul_job_open(self, ctx, symm_context_world(ctx), &test->c, &p.job));
    RANK_TRY(self, matmul_job_create(self, &p.job));
    p.operands = delivery_of(&p.job);
    RANK_TRY(self, symm_device_alloc(ctx, p.operands.nbytes + 2, (void **)&p.operands.copy));
    for (uint64_t round = 0; round < ROUNDS; round++)
        RANK_TRY(self, run_round(self, &p, test->first + round));
out:
    if (ctx)
        symm_device_free(ctx, p.operands.copy);
    matmul_job_close(&p.job);
    symm_kernel_unload(p.kernel);
    symm_stream_destroy(p.stream);
    symm_context_destroy(ctx);
}

static void run(int nranks, struct matmul_case c)
{
    struct early_test test = {c, 1 + reference_seed() % 1000};

    setenv("SYMM_EMULATED_EARLY", "1", 1);
    setenv("SYMM_CHECK", "0", 1); /* each rank enqueues at once */
    setenv("SYMM_EMULATED_SMS", "32", 1);
    ranks_run_ok(nranks, RANKS_AS_PROCESSES, run_early, &test, 100);
}

/* A few rows, or more than a tile has. */
static struct matmul_case draw(symm_matmul_kind kind, symm_strategy strategy, unsigned i)
{
    static const int32_t rows[] = {1, 16, 40, 130}, widths[] = {64, 136, 256, 8};

    return (struct matmul_case){.kind = kind,
                                .strategy = strategy,
                                .in = i % 2 ? SYMM_FLOAT16 : SYMM_BFLOAT16,
                                .out = i % 2 ? SYMM_FLOAT16 : SYMM_BFLOAT16,
                                .m = rows[i % 4],
                                .k = 64 * (1 + (int32_t)(i % 5)),
                                .l = 1,
                                .nb = 1,
                                .n = {widths[i / 2 % 4]},
                                .constant_b = i % 3 == 1,
                                .contiguous = true,
                                .foreign = i % 2,
                                .symmetric = i % 2 == 0,
                                .layout = i};
}

TEST_GROUP(early, 240);

static const struct {
    symm_matmul_kind kind;
    symm_strategy strategy;
} ways[] = {
    {SYMM_MATMUL, SYMM_STRATEGY_AUTO},
    {SYMM_MATMUL_ALL_REDUCE, SYMM_STRATEGY_FUSED}, /* few rows: by packs */
    {SYMM_MATMUL_ALL_REDUCE, SYMM_STRATEGY_UNFUSED},
    {SYMM_MATMUL_REDUCE_SCATTER, SYMM_STRATEGY_FUSED}, /* by parts, on two ranks */
    {SYMM_MATMUL_REDUCE_SCATTER, SYMM_STRATEGY_PIPELINED},
    {SYMM_MATMUL_ALL_SCATTER, SYMM_STRATEGY_FUSED},
    {SYMM_ALL_GATHER_MATMUL, SYMM_STRATEGY_FUSED},
    {SYMM_ALL_GATHER_MATMUL, SYMM_STRATEGY_UNFUSED},
};
enum { NWAYS = sizeof ways / sizeof ways[0] };

TEST_LOOP(early, products_wait_for_the_kernel_that_brings_their_data, 0, NWAYS * 4)
{
    const unsigned i = (unsigned)(_i / NWAYS);

    run(2 + (int)(i % 3), draw(ways[_i % NWAYS].kind, ways[_i % NWAYS].strategy, i));
}

/* Also with weakly ordered memory: what that kernel has written is seen. */
TEST_LOOP(early, weakly_ordered_memory_makes_no_difference, 0, NWAYS * 2)
{
    struct matmul_case c =
        draw(ways[_i % NWAYS].kind, ways[_i % NWAYS].strategy, (unsigned)(_i / NWAYS));

    if (TEST_TSAN)
        TEST_SKIP("under ThreadSanitizer memory is as strong as this machine's");
    matmul_weaken_memory(_i);
    unsetenv("SYMM_EMULATED_BLOCK"); /* the Hopper kernel needs its block */
    c.m = 1 + c.m % 20;
    c.k = 64;
    c.n[0] = 64;
    run(2, c);
}
