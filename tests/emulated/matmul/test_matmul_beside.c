/*
 * A product whose results a kernel collects, and another group's collective, which ranks begin in
 * opposite orders. Each kernel has blocks on all SMs, and waits for the other ranks' kernel. So
 * both must have room at the same time.
 */
#include <stdlib.h>
#include "collective.h"
#include "exercise.h"
#include "matmul.h"
#include "test.h"

enum { NRANKS = 3, NKINDS = 3, COUNT = 6000, APART_MS = 20, LIMIT_S = 60 };

struct bench {
    symm_context *ctx;
    symm_group *other; /* than the world, of the same ranks */
    symm_stream streams[2];
    struct matmul_job job;
    struct collective call;
    float *in, *out;
};

static const symm_algo algos[] = {SYMM_ALGO_ONE_SHOT, SYMM_ALGO_TWO_SHOT, SYMM_ALGO_LAMPORT};
static const symm_matmul_kind kinds[NKINDS] = {SYMM_MATMUL_REDUCE_SCATTER, SYMM_MATMUL_ALL_REDUCE,
                                               SYMM_MATMUL_ALL_SCATTER};

static symm_status bench_open(struct rank *self, struct bench *b)
{
    RANK_TRY(self, rank_join(self, &b->ctx));
    RANK_TRY(self, group_of_all(symm_context_world(b->ctx), &b->other));
    for (int i = 0; i < 2; i++)
        RANK_TRY(self, symm_stream_create(b->ctx, &b->streams[i]));
    RANK_TRY(self, symm_alloc(b->other, COUNT * sizeof *b->in, (void **)&b->in));
    RANK_TRY(self, symm_alloc(b->other, COUNT * sizeof *b->out, (void **)&b->out));
out:
    return self->report->status;
}

static void bench_close(struct bench *b)
{
    matmul_job_close(&b->job);
    symm_group_destroy(b->other);
    for (int i = 0; i < 2; i++)
        symm_stream_destroy(b->streams[i]);
    symm_context_destroy(b->ctx);
}

static symm_status send(struct rank *self, struct bench *b)
{
    float host[COUNT];

    RANK_TRY(self, matmul_job_send(self, &b->job, b->call.round, b->streams[0]));
    collective_fill(&b->call, self->rank, NRANKS, host);
    RANK_TRY(self, symm_copy(b->in, host, sizeof host, b->streams[1]));
    RANK_TRY(self, symm_fill(b->out, 0xff, sizeof host, b->streams[1]));
    RANK_TRY(self, symm_synchronize(b->other, b->streams[1]));
out:
    return self->report->status;
}

static symm_status enqueue(struct rank *self, struct bench *b, bool product)
{
    if (product)
        return matmul_job_run(self, &b->job, b->streams[0]);
    RANK_TRY(self, collective_call(&b->call, b->other, b->in, b->out, b->streams[1]));
out:
    return self->report->status;
}

static symm_status look(struct rank *self, struct bench *b)
{
    float host[COUNT];

    RANK_TRY(self, symm_copy(host, b->out, sizeof host, b->streams[1]));
    RANK_TRY(self, symm_synchronize(b->other, b->streams[1]));
    self->report->wrong += collective_wrong(&b->call, self->rank, NRANKS, host);
    RANK_TRY(self, matmul_job_fetch(self, &b->job, NULL, b->streams[0]));
    RANK_TRY(self, matmul_job_look(self, &b->job));
out:
    return self->report->status;
}

RANK_WITH(run_both, struct bench, b, bench_open, bench_close)
{
    const int i = *(const int *)arg;
    /* D of a rank has more packs than two SMs have threads that collect. */
    const struct matmul_case c = {.kind = kinds[i % NKINDS],
                                  .strategy = SYMM_STRATEGY_FUSED,
                                  .in = SYMM_BFLOAT16,
                                  .out = SYMM_BFLOAT16,
                                  .addend = SYMM_FLOAT32,
                                  .m = 96,
                                  .k = 8,
                                  .l = 1,
                                  .nb = 1,
                                  .n = {384},
                                  .contiguous = true};

    RANK_TRY(self, matmul_job_open(self, b->ctx, symm_context_world(b->ctx), &c, &b->job));
    RANK_TRY(self, matmul_job_create(self, &b->job));
    for (uint64_t round = 1; round <= 2; round++) {
        b->call = (struct collective){.operation = ALL_REDUCE,
                                      .algo = algos[i / NKINDS],
                                      .dtype = SYMM_FLOAT32,
                                      .op = SYMM_SUM,
                                      .count = COUNT,
                                      .round = round};
        RANK_TRY(self, send(self, b));
        RANK_TRY(self, enqueue(self, b, self->rank == 0));
        pause_ms(APART_MS);
        RANK_TRY(self, enqueue(self, b, self->rank > 0));
        RANK_TRY(self, look(self, b));
    }
out:;
}

TEST_GROUP(beside, LIMIT_S + 10);

TEST_LOOP(beside, a_collective_has_room_beside_kernels_that_collect, 0,
          NKINDS *(int)(sizeof algos / sizeof algos[0]))
{
    setenv("SYMM_CHECK", "0", 1); /* it demands one order of calls */
    setenv("SYMM_EMULATED_SMS", "2", 1);
    ranks_run_ok(NRANKS, RANKS_AS_PROCESSES, run_both, &_i, LIMIT_S);
}
