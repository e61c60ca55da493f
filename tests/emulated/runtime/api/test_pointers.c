/*
 * Memory that is not symm's, given to calls whose kernels access it: host arrays are refused, with
 * argument, address and rank; whatever the device can access is not. The driver is asked once for
 * each allocation.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <symm/collectives.h>
#include <symm/detail/emulated.h>
#include <symm/stream.h>
#include "bench.h"
#include "collective.h"
#include "emulated.h"
#include "matmul_bench.h"
#include "test.h"

enum { COUNT = 64, NBYTES = 2 * COUNT * sizeof(float) };

static const struct collective_variant variants[] = {
    {ALL_REDUCE, SYMM_ALGO_AUTO},
    {ALL_REDUCE, SYMM_ALGO_LOW_LATENCY},
    {ALL_REDUCE, SYMM_ALGO_LOW_LATENCY_TWO_SHOT},
    {ALL_REDUCE, SYMM_ALGO_LAMPORT},
    {ALL_REDUCE, SYMM_ALGO_ONE_SHOT},
    {ALL_REDUCE, SYMM_ALGO_TWO_SHOT},
    {ALL_REDUCE, SYMM_ALGO_MULTIMEM},
    {ALL_REDUCE, SYMM_ALGO_MULTIMEM_ONE_SHOT},
    {REDUCE_SCATTER, SYMM_ALGO_AUTO},
    {REDUCE_SCATTER, SYMM_ALGO_LOW_LATENCY},
    {REDUCE_SCATTER, SYMM_ALGO_LAMPORT},
    {REDUCE_SCATTER, SYMM_ALGO_ONE_SHOT},
    {REDUCE_SCATTER, SYMM_ALGO_COPY_ENGINE},
    {ALL_GATHER, SYMM_ALGO_AUTO},
    {ALL_GATHER, SYMM_ALGO_LOW_LATENCY},
    {ALL_GATHER, SYMM_ALGO_ONE_SHOT},
    {ALL_GATHER, SYMM_ALGO_MULTIMEM},
    {BROADCAST, SYMM_ALGO_AUTO},
    {BROADCAST, SYMM_ALGO_LOW_LATENCY},
    {BROADCAST, SYMM_ALGO_ONE_SHOT},
    {BROADCAST, SYMM_ALGO_MULTIMEM},
};
enum { VARIANTS = sizeof variants / sizeof variants[0] };

static struct collective call_of(int i)
{
    return (struct collective){.operation = variants[i].operation,
                               .algo = variants[i].algo,
                               .dtype = SYMM_FLOAT32,
                               .op = SYMM_SUM,
                               .count = COUNT};
}

/* The text names the argument, its address and this rank. */
static symm_status expect_refused(struct rank *self, const char *argument, const void *address,
                                  symm_status st)
{
    char what[96], rank[32];
    snprintf(what, sizeof what, ": %s: %p is host memory", argument, address);
    snprintf(rank, sizeof rank, " (on rank %d)", self->rank);
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, what, st);
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, rank, st);
out:
    return self->report->status;
}

TEST_GROUP(pointers, 60);

/* Ranks of processes: other tests have threads. The world of one has no kernels. */
BENCH_TEST(pointers, host_arrays_are_refused_by_every_algorithm, _i ? 2 : 1, .loop = {0, 2})
{
    float host[NBYTES / sizeof(float)] = {0};
    int tried = 0;
    for (int i = 0; i < VARIANTS; i++) {
        const struct collective c = call_of(i);
        if (collective_unavailable(&c, b->world))
            continue;
        tried++;
        if (c.operation != BROADCAST || self->rank == c.root)
            expect_refused(self, "in", host, collective_call(&c, b->world, host, b->plain, b->s));
        expect_refused(self, "out", host, collective_call(&c, b->world, b->plain, host, b->s));
        RANK_TRY(self, collective_call(&c, b->world, b->plain, b->result, b->s));
    }
    RANK_TRY(self, symm_synchronize(b->world, b->s));
    CHECK_RANK_MSG(self, tried >= VARIANTS - 5, "%d variants run here", tried);
out:;
}

BENCH_TEST(pointers, memory_that_ends_too_early_is_refused, 2)
{
    enum { ALL = BENCH_NBYTES / sizeof(float) };
    RANK_EXPECT_TEXT(
        self, SYMM_ERROR_ARGUMENT, "run beyond the end of what the device can access",
        symm_all_reduce(b->world, b->plain, b->plain, ALL + 1, SYMM_FLOAT32, SYMM_SUM, NULL, b->s));
    RANK_TRY(self, symm_all_reduce(b->world, b->plain, b->plain, ALL, SYMM_FLOAT32, SYMM_SUM, NULL,
                                   b->s));
    RANK_TRY(self, symm_synchronize(b->world, b->s));
out:;
}

BENCH_TEST(pointers, pinned_host_memory_is_device_memory, 2)
{
    int (*alloc)(void **, size_t, unsigned) = NULL, (*release)(void *) = NULL;
    float *pinned = NULL;
    *(void **)&alloc = symm_context_driver_symbol(b->ctx, "cuMemHostAlloc");
    *(void **)&release = symm_context_driver_symbol(b->ctx, "cuMemFreeHost");
    CHECK_RANK(self, alloc((void **)&pinned, NBYTES, 0) == 0);
    for (int i = 0; i < COUNT; i++)
        pinned[i] = (float)(i + self->rank);
    RANK_TRY(self, symm_all_reduce(b->world, pinned, b->result, COUNT, SYMM_FLOAT32, SYMM_SUM, NULL,
                                   b->s));
    RANK_TRY(self, symm_all_reduce(b->world, b->result, pinned + COUNT, COUNT, SYMM_FLOAT32,
                                   SYMM_MAX, NULL, b->s));
    RANK_TRY(self, symm_synchronize(b->world, b->s));
    for (int i = 0; i < COUNT; i++)
        self->report->wrong += pinned[COUNT + i] != (float)(2 * i + 1);
out:
    if (pinned)
        release(pinned);
}

/* Where devices share page tables with the host. */
BENCH_TEST(pointers, host_arrays_are_right_where_devices_can_access_them, 2,
           .env = {{"SYMM_EMULATED_PAGEABLE", "1"}})
{
    float *host = malloc(NBYTES);
    for (int i = 0; i < COUNT; i++)
        host[i] = (float)(i + self->rank);
    RANK_TRY(self, symm_all_reduce(b->world, host, host + COUNT, COUNT, SYMM_FLOAT32, SYMM_SUM,
                                   NULL, b->s));
    RANK_TRY(self, symm_synchronize(b->world, b->s));
    for (int i = 0; i < COUNT; i++)
        self->report->wrong += host[COUNT + i] != (float)(2 * i + 1);
out:
    free(host);
}

/* How many driver calls an all-reduce makes. */
static uint64_t calls_of(struct rank *self, struct bench *b, const void *in, void *out)
{
    uint64_t (*ncalls)(int rank);
    *(void **)&ncalls = symm_context_driver_symbol(b->ctx, "symm_emulated_calls");
    emulated_set_fault(NULL);
    RANK_TRY(self, symm_all_reduce(b->world, in, out, COUNT, SYMM_FLOAT32, SYMM_SUM, NULL, b->s));
    const uint64_t n = ncalls(self->rank);
    RANK_TRY(self, symm_synchronize(b->world, b->s));
    return n;
out:
    return 0;
}

BENCH_TEST(pointers, the_driver_is_asked_once_for_each_allocation, 2)
{
    enum { QUESTIONS = 3, MANY = 40 }; /* its type, where it begins, how long it is */
    float *symmetric = NULL;
    void *many[MANY] = {NULL};
    RANK_TRY(self, symm_alloc(b->world, NBYTES, (void **)&symmetric));
    calls_of(self, b, symmetric, symmetric); /* what only the first call does */
    const uint64_t without = calls_of(self, b, symmetric, symmetric);
    CHECK_RANK(self, calls_of(self, b, b->plain, symmetric) == without + QUESTIONS);
    CHECK_RANK(self, calls_of(self, b, b->plain, symmetric) == without);
    CHECK_RANK(self, calls_of(self, b, (float *)b->plain + COUNT, symmetric) == without);
    CHECK_RANK(self, calls_of(self, b, b->plain, b->result) == without + QUESTIONS);
    CHECK_RANK(self, calls_of(self, b, b->plain, b->result) == without);
    for (int i = 0; i < MANY; i++)
        RANK_TRY(self, symm_device_alloc(b->ctx, NBYTES, &many[i]));
    for (int i = 0; i < MANY; i++)
        CHECK_RANK(self, calls_of(self, b, many[i], symmetric) == without + QUESTIONS);
    CHECK_RANK(self, calls_of(self, b, many[MANY - 1], symmetric) == without);
out:
    for (int i = 0; i < MANY && b->ctx; i++)
        symm_device_free(b->ctx, many[i]);
}

/* What the driver cannot say is not held against the caller. */
BENCH_TEST(pointers, a_driver_that_does_not_answer_refuses_nothing, 2)
{
    CHECK_RANK(self, emulated_set_fault("cuPointerGetAttribute#1+=999"));
    RANK_TRY(self, symm_all_reduce(b->world, b->plain, b->result, COUNT, SYMM_FLOAT32, SYMM_SUM,
                                   NULL, b->s));
    CHECK_RANK(self, emulated_set_fault("cuPointerGetAttribute#2+=999"));
    RANK_TRY(self, symm_all_reduce(b->world, b->plain, b->result, COUNT, SYMM_FLOAT32, SYMM_SUM,
                                   NULL, b->s));
    emulated_set_fault(NULL);
    RANK_TRY(self, symm_synchronize(b->world, b->s));
out:;
}

BENCH_TEST(pointers, in_a_capture_it_is_the_same, 2)
{
    symm_graph graph = NULL;
    float host[COUNT] = {0};
    RANK_TRY(self, symm_synchronize(b->world, b->s));
    RANK_TRY(self, symm_graph_begin(b->s));
    const symm_status bad =
        symm_all_reduce(b->world, host, b->result, COUNT, SYMM_FLOAT32, SYMM_SUM, NULL, b->s);
    const symm_status good =
        symm_all_reduce(b->world, b->plain, b->result, COUNT, SYMM_FLOAT32, SYMM_SUM, NULL, b->s);
    RANK_TRY(self, symm_graph_end(b->s, &graph));
    RANK_EXPECT(self, SYMM_ERROR_ARGUMENT, bad);
    RANK_TRY(self, good);
    RANK_TRY(self, symm_graph_launch(graph, b->s));
    RANK_TRY(self, symm_synchronize(b->world, b->s));
out:
    symm_graph_destroy(graph);
}

RANKS_TEST(pointers, products_refuse_host_arrays, 2)
{
    struct matmul_bench b = {0};
    char *host = calloc(1, 1 << 20);
    RANK_TRY(self, matmul_bench_open(self, &b, &matmul_works));
    RANK_TRY(self, matmul_job_create(self, &b.job));
    symm_matmul_args args = matmul_job_args(&b.job);
    args.b[1] = host;
    expect_refused(self, "b[1]", host, symm_matmul_run(b.job.m, &args, b.stream));
    args = matmul_job_args(&b.job);
    args.d[0] = host;
    expect_refused(self, "d[0]", host, symm_matmul_run(b.job.m, &args, b.stream));
    matmul_bench_works(self, &b);
out:
    matmul_bench_close(&b);
    free(host);
}
