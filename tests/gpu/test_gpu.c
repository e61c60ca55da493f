/*
 * symm on real GPUs, through the public interface only: 2 to 4 of them, a process each, without
 * multicast. Skipped, with the reason, where there are fewer than two.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "chain.h"
#include "exercise.h"
#include "gpus.h"
#include "kernels.h"
#include "ranks.h"
#include "reference.h"
#include "test.h"
#include "trial.h"

enum { MOST = 4 };

static int ngpus;

#define NEEDS_GPUS()                                                                               \
    do {                                                                                           \
        if (ngpus < 2)                                                                             \
            TEST_SKIP("%d GPUs; it takes 2", ngpus);                                               \
    } while (0)

/* A world for the length of a rank's function. */
struct bench {
    symm_context *ctx;
    symm_group *w;
    symm_stream s;
};

static symm_status bench_open(struct rank *self, struct bench *b)
{
    RANK_TRY(self, rank_join(self, &b->ctx));
    CHECK_RANK(self, strcmp(symm_context_driver(b->ctx), "cuda") == 0);
    b->w = symm_context_world(b->ctx);
    CHECK_RANK(self, symm_multicast_off(b->w)); /* never on the machines this runs on */
    RANK_TRY(self, symm_stream_create(b->ctx, &b->s));
out:
    return self->report->failed[0] ? SYMM_ERROR_STATE : SYMM_OK;
}

static void bench_close(struct bench *b)
{
    symm_stream_destroy(b->s);
    symm_context_destroy(b->ctx);
}

/* -------------------------------------------------------------------------------------- joining */

START_TEST(worlds_of_every_size_sum_right)
{
    NEEDS_GPUS();
    for (int n = 1; n <= ngpus; n++)
        ranks_run_ok(n, RANKS_AS_PROCESSES, exercise_world, NULL, 60);
}
END_TEST

START_TEST(ranks_are_threads_of_one_process)
{
    NEEDS_GPUS();
    ranks_run_ok(ngpus, RANKS_AS_THREADS, exercise_world, NULL, 60);
}
END_TEST

static int count_descriptors(void)
{
    int n = 0;
    for (int fd = 0; fd < 1024; fd++) {
        char path[32], to[8];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        n += readlink(path, to, sizeof to) >= 0;
    }
    return n;
}

static void come_back(struct rank *self, void *arg)
{
    int held = 0;
    (void)arg;
    for (uint64_t round = 0; round < 4; round++) {
        exercise_world(self, &round);
        if (self->report->failed[0])
            return;
        if (round == 1) /* what the driver keeps for itself it has by now */
            held = count_descriptors();
    }
    CHECK_RANK_MSG(self, count_descriptors() == held, "%d descriptors, then %d", held,
                   count_descriptors());
out:
    return;
}

START_TEST(a_world_is_made_again_and_again_and_leaves_no_descriptors)
{
    NEEDS_GPUS();
    ranks_run_ok(ngpus, RANKS_AS_PROCESSES, come_back, NULL, 120);
}
END_TEST

/* --------------------------------------------------------------------------------------- memory */

static void take_and_give_back(struct rank *self, void *arg)
{
    enum { LIVE = 16 };
    struct bench b = {0};
    void *live[LIVE] = {NULL};
    symm_usage before, after;
    size_t available = 0;
    (void)arg;
    if (bench_open(self, &b) != SYMM_OK)
        goto out;
    for (int again = 0; again < 2; again++) { /* the first time the driver takes what it keeps */
        RANK_TRY(self, symm_trim(b.w));
        RANK_TRY(self, symm_memory_usage(b.ctx, &before));
        available = exercise_free_memory(b.ctx);
        for (uint64_t round = 0; round < 300; round++) {
            void **slot = &live[reference_random(100 + (uint64_t)self->rank, round) % LIVE];
            const size_t nbytes = 1 + (size_t)reference_random(1, round) % (12u << 20);
            RANK_TRY(self, symm_free(b.w, *slot));
            *slot = NULL;
            RANK_TRY(self, symm_alloc(b.w, nbytes, slot));
        }
        for (int i = 0; i < LIVE; i++) {
            RANK_TRY(self, symm_free(b.w, live[i]));
            live[i] = NULL;
        }
        RANK_TRY(self, symm_exchange(b.w, NULL, 0, NULL));
        RANK_TRY(self, symm_trim(b.w));
        RANK_TRY(self, symm_memory_usage(b.ctx, &after));
        CHECK_RANK(self, before.segments == after.segments && after.pending == 0);
    }
    CHECK_RANK_MSG(self, exercise_free_memory(b.ctx) == available, "%zu bytes free, then %zu",
                   available, exercise_free_memory(b.ctx));
out:
    bench_close(&b);
}

START_TEST(random_allocations_are_given_back_to_the_device)
{
    NEEDS_GPUS();
    ranks_run_ok(ngpus, RANKS_AS_PROCESSES, take_and_give_back, NULL, 120);
}
END_TEST

static void move_data(struct rank *self, void *arg)
{
    enum { SIZE = 5000000 };
    struct bench b = {0};
    char *x = NULL, *host = malloc(SIZE);
    const int n = self->nranks;
    (void)arg;
    if (bench_open(self, &b) != SYMM_OK)
        goto out;
    RANK_TRY(self, symm_alloc(b.w, 2 * SIZE, (void **)&x));
    for (uint64_t round = 0; round < 5; round++) {
        reference_poison(host, SIZE, round * 100 + (uint64_t)self->rank);
        RANK_TRY(self, symm_copy(x, host, SIZE, b.s));
        RANK_TRY(self, symm_put(b.w, x + SIZE, x, SIZE, (self->rank + 1) % n, b.s));
        RANK_TRY(self, symm_barrier(b.w, b.s));
        RANK_TRY(self, symm_copy(host, x + SIZE, SIZE, b.s));
        RANK_TRY(self, symm_synchronize(b.w, b.s));
        self->report->wrong +=
            reference_poison_wrong(host, SIZE, round * 100 + (uint64_t)((self->rank + n - 1) % n));
        RANK_TRY(self, symm_get(b.w, x + SIZE, x, SIZE, (self->rank + 1) % n, b.s));
        RANK_TRY(self, symm_copy(host, x + SIZE, SIZE, b.s));
        RANK_TRY(self, symm_barrier(b.w, b.s));
        RANK_TRY(self, symm_synchronize(b.w, b.s));
        self->report->wrong +=
            reference_poison_wrong(host, SIZE, round * 100 + (uint64_t)((self->rank + 1) % n));
    }
out:
    bench_close(&b);
    free(host);
}

START_TEST(put_and_get_move_every_byte)
{
    NEEDS_GPUS();
    ranks_run_ok(ngpus, RANKS_AS_PROCESSES, move_data, NULL, 60);
}
END_TEST

/* -------------------------------------------------------------------------------------- signals */

static void signal_round(struct rank *self, void *arg)
{
    enum { COUNT = 100000, ROUNDS = 200, FULL = 0, FREE = 1 };
    struct bench b = {0};
    symm_signal_pad *pad = NULL;
    symm_graph graph = NULL;
    int32_t *inbox = NULL, *source = NULL, *host = calloc(COUNT, sizeof *host);
    const int n = self->nranks, after = (self->rank + 1) % n, before = (self->rank + n - 1) % n;
    (void)arg;
    if (bench_open(self, &b) != SYMM_OK)
        goto out;
    RANK_TRY(self, symm_signal_pad_alloc(b.w, 2, &pad));
    RANK_TRY(self, symm_alloc(b.w, COUNT * sizeof *inbox, (void **)&inbox));
    RANK_TRY(self, symm_device_alloc(b.ctx, COUNT * sizeof *source, (void **)&source));
    RANK_TRY(self, symm_signal(b.w, pad, FREE, before, 1, b.s)); /* a credit */
    RANK_TRY(self, symm_graph_begin(b.s));
    RANK_TRY(self, symm_wait(b.w, pad, FREE, after, 1, b.s));
    RANK_TRY(self, symm_put(b.w, inbox, source, COUNT * sizeof *source, after, b.s));
    RANK_TRY(self, symm_signal(b.w, pad, FULL, after, 1, b.s));
    RANK_TRY(self, symm_wait(b.w, pad, FULL, before, 1, b.s));
    RANK_TRY(self, symm_graph_end(b.s, &graph));
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < COUNT; i++)
            host[i] = self->rank * 100000000 + round * 100000 + i % 100000;
        RANK_TRY(self, symm_copy(source, host, COUNT * sizeof *host, b.s));
        RANK_TRY(self, symm_graph_launch(graph, b.s));
        RANK_TRY(self, symm_copy(host, inbox, COUNT * sizeof *host, b.s));
        RANK_TRY(self, symm_signal(b.w, pad, FREE, before, 1, b.s));
        RANK_TRY(self, symm_synchronize(b.w, b.s));
        for (int i = 0; i < COUNT; i++)
            self->report->wrong += host[i] != before * 100000000 + round * 100000 + i % 100000;
    }
out:
    symm_graph_destroy(graph);
    symm_device_free(b.ctx, source);
    bench_close(&b);
    free(host);
}

START_TEST(a_ring_of_puts_and_signals_is_replayed)
{
    NEEDS_GPUS();
    ranks_run_ok(ngpus, RANKS_AS_PROCESSES, signal_round, NULL, 60);
}
END_TEST

START_TEST(a_ring_of_puts_and_signals_is_right_across_the_wrap)
{
    NEEDS_GPUS();
    setenv("SYMM_EPOCH_START", "4294967250", 1);
    ranks_run_ok(ngpus, RANKS_AS_PROCESSES, signal_round, NULL, 60);
}
END_TEST

static void run_kernels(struct rank *self, void *arg)
{
    enum { BLOCKS = 8, THREADS = 128 };
    struct bench b = {0};
    symm_kernel *kernel = NULL;
    test_ring_args a = {.rounds = 2000};
    int32_t wrong[BLOCKS];
    const uint32_t *const smem_nbytes = arg;
    const symm_grid grid = {.blocks = BLOCKS, .threads = THREADS, .smem_nbytes = *smem_nbytes};
    uint32_t most = 0;
    if (bench_open(self, &b) != SYMM_OK)
        goto out;
    RANK_TRY(self, symm_kernel_load(b.ctx, &test_kernels, "test_ring", &kernel));
    RANK_TRY(self, symm_kernel_max_blocks(b.w, kernel, THREADS, *smem_nbytes, &most));
    CHECK_RANK_MSG(self, most >= BLOCKS, "%u blocks", most);
    RANK_TRY(self, symm_signal_pad_alloc(b.w, BLOCKS, &a.pad));
    RANK_TRY(self, symm_alloc(b.w, 4 * BLOCKS * THREADS * sizeof *a.cells, (void **)&a.cells));
    RANK_TRY(self, symm_alloc(b.w, sizeof wrong, (void **)&a.wrong));
    RANK_TRY(self, symm_fill(a.wrong, 0, sizeof wrong, b.s));
    RANK_TRY(self, symm_group_view(b.w, &a.view));
    for (int i = 0; i < 5; i++)
        RANK_TRY(self, symm_launch(b.w, kernel, &grid, &a, sizeof a, b.s));
    RANK_TRY(self, symm_copy(wrong, a.wrong, sizeof wrong, b.s));
    RANK_TRY(self, symm_synchronize(b.w, b.s));
    for (int i = 0; i < BLOCKS; i++)
        self->report->wrong += wrong[i];
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "smem_nbytes",
                     symm_launch(b.w, kernel,
                                 &(symm_grid){.blocks = 1, .threads = 1, .smem_nbytes = 1u << 20},
                                 &a, sizeof a, b.s));
    rank_note(self, SYMM_OK);
out:
    symm_kernel_unload(kernel);
    bench_close(&b);
}

START_TEST(a_users_kernel_meets_the_other_ranks_ten_thousand_times)
{
    NEEDS_GPUS();
    ranks_run_ok(ngpus, RANKS_AS_PROCESSES, run_kernels, &(uint32_t){0}, 60);
}
END_TEST

START_TEST(a_users_kernel_gets_much_shared_memory)
{
    NEEDS_GPUS();
    ranks_run_ok(ngpus, RANKS_AS_PROCESSES, run_kernels, &(uint32_t){200u << 10}, 60);
}
END_TEST

/* ----------------------------------------------------------------------------------- all-reduce */

static const symm_algo algos[] = {SYMM_ALGO_LOW_LATENCY, SYMM_ALGO_LOW_LATENCY_TWO_SHOT,
                                  SYMM_ALGO_AUTO, SYMM_ALGO_ONE_SHOT, SYMM_ALGO_TWO_SHOT};
static const struct trial_kind kinds[] = {
    {SYMM_FLOAT32, SYMM_SUM},  {SYMM_FLOAT16, SYMM_SUM}, {SYMM_BFLOAT16, SYMM_SUM},
    {SYMM_FLOAT64, SYMM_SUM},  {SYMM_INT32, SYMM_SUM},   {SYMM_INT64, SYMM_SUM},
    {SYMM_BFLOAT16, SYMM_AVG}, {SYMM_FLOAT64, SYMM_AVG}, {SYMM_FLOAT32, SYMM_MIN},
    {SYMM_FLOAT16, SYMM_MAX},  {SYMM_INT32, SYMM_MAX},   {SYMM_INT64, SYMM_MIN}};
static const size_t counts[] = {1, 7, 1000, 65536 + 3, 3000001};

/* The largest count goes with the first kinds only. */
enum { NALGOS = 5, NPACKET_ALGOS = 2, NKINDS = 12, NLARGE = 3, NCOUNTS = 5 };

/*
 * Once in place in symmetric memory, once out of place in plain memory, at addresses that are only
 * just aligned.
 */
static symm_status reduce_both_ways(struct rank *self, struct bench *b, symm_algo algo,
                                    struct trial_kind kind, size_t count, uint64_t round)
{
    const symm_dtype dtype = kind.dtype;
    const size_t size = reference_size(dtype), nbytes = count * size;
    const symm_options options = {.algo = algo, .flags = SYMM_DETERMINISTIC};
    char *x = NULL, *in = NULL, *out = NULL, *host = malloc(nbytes);
    RANK_TRY(self, symm_alloc(b->w, nbytes, (void **)&x));
    RANK_TRY(self, symm_device_alloc(b->ctx, nbytes + size, (void **)&in));
    RANK_TRY(self, symm_device_alloc(b->ctx, nbytes + size, (void **)&out));
    reference_fill(host, count, dtype, round, self->rank);
    RANK_TRY(self, symm_copy(x, host, nbytes, b->s));
    RANK_TRY(self, symm_copy(in + size, host, nbytes, b->s));
    RANK_TRY(self, symm_all_reduce(b->w, x, x, count, dtype, kind.op, &options, b->s));
    RANK_TRY(self,
             symm_all_reduce(b->w, in + size, out + size, count, dtype, kind.op, &options, b->s));
    RANK_TRY(self, symm_copy(host, x, nbytes, b->s));
    RANK_TRY(self, symm_synchronize(b->w, b->s));
    self->report->wrong += reference_reduction_wrong(host, 0, count, dtype, kind.op, round,
                                                     self->nranks, REFERENCE_EXACT);
    RANK_TRY(self, symm_copy(host, out + size, nbytes, b->s));
    RANK_TRY(self, symm_synchronize(b->w, b->s));
    self->report->wrong += reference_reduction_wrong(host, 0, count, dtype, kind.op, round,
                                                     self->nranks, REFERENCE_EXACT);
out:
    symm_device_free(b->ctx, in);
    symm_device_free(b->ctx, out);
    symm_free(b->w, x);
    free(host);
    return self->report->failed[0] ? SYMM_ERROR_STATE : SYMM_OK;
}

static void reduce_everything(struct rank *self, void *arg)
{
    struct bench b = {0};
    const symm_algo algo = algos[*(int *)arg];
    uint64_t round = 0;
    if (bench_open(self, &b) == SYMM_OK)
        for (int k = 0; k < NKINDS; k++)
            for (int c = 0; c < (k < NLARGE ? NCOUNTS : NCOUNTS - 1); c++)
                if (reduce_both_ways(self, &b, algo, kinds[k], counts[c], round++) != SYMM_OK)
                    goto out;
out:
    bench_close(&b);
}

START_TEST(reductions_are_right_in_place_and_through_staging)
{
    NEEDS_GPUS();
    setenv("SYMM_STAGING_BYTES", "1M", 1); /* the largest goes through it in many pieces */
    ranks_run_ok(ngpus, RANKS_AS_PROCESSES, reduce_everything, &(int){_i}, 120);
}
END_TEST

START_TEST(packets_are_right_across_the_wrap_of_the_epochs)
{
    NEEDS_GPUS();
    setenv("SYMM_EPOCH_START", _i % 2 ? "65525" : "4294967285", 1);
    setenv("SYMM_STAGING_BYTES", "1M", 1);
    ranks_run_ok(ngpus, RANKS_AS_PROCESSES, reduce_everything, &(int){_i / 2}, 120);
}
END_TEST

/* What rank 0 calls and what the others call, of 100 elements each. */
static const struct {
    symm_algo algo;
    symm_dtype dtype[2];
    symm_redop op[2];
} differing[] = {
    {SYMM_ALGO_AUTO, {SYMM_FLOAT32, SYMM_FLOAT32}, {SYMM_SUM, SYMM_MAX}},
    {SYMM_ALGO_AUTO, {SYMM_FLOAT32, SYMM_INT32}, {SYMM_SUM, SYMM_SUM}},
    {SYMM_ALGO_LOW_LATENCY_TWO_SHOT, {SYMM_BFLOAT16, SYMM_FLOAT16}, {SYMM_SUM, SYMM_SUM}},
};
enum { NDIFFERING = sizeof differing / sizeof differing[0] };

static void call_differently(struct rank *self, void *arg)
{
    const int i = *(int *)arg, mine = self->rank > 0;
    struct bench b = {0};
    void *x = NULL;

    if (bench_open(self, &b) != SYMM_OK)
        goto out;
    RANK_TRY(self, symm_device_alloc(b.ctx, 400, &x));
    const int64_t began = now_ms();
    RANK_TRY(self, symm_all_reduce(b.w, x, x, 100, differing[i].dtype[mine], differing[i].op[mine],
                                   &(symm_options){.algo = differing[i].algo}, b.s));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_MISMATCH, "ranks called different things",
                     symm_synchronize(b.w, b.s));
    CHECK_RANK(self, now_ms() - began < 5000);
out:
    symm_device_free(b.ctx, x);
    bench_close(&b);
}

/* With the defaults, of which the timeout is five minutes. */
START_TEST(small_calls_that_differ_are_a_mismatch_at_once)
{
    struct rank_report reports[MOST];
    NEEDS_GPUS();
    ranks_run(ngpus, RANKS_AS_PROCESSES, call_differently, &(int){_i}, reports, 60);
    ranks_assert_clean(reports, ngpus);
}
END_TEST

/* A group on a stream of its own, with a graph of one call. */
struct line {
    symm_group *g;
    symm_stream s;
    symm_graph graph;
    char *in, *out;
    struct collective call;
};

enum { LINE_COUNT = 30000, LINE_MOST = LINE_COUNT * MOST * 4 };

static symm_status open_line(struct rank *self, struct bench *b, struct line *l, char *host)
{
    int all[MOST];
    for (int r = 0; r < self->nranks; r++)
        all[r] = r;
    RANK_TRY(self, symm_group_create(b->w, self->nranks, all, &l->g));
    RANK_TRY(self, symm_stream_create(b->ctx, &l->s));
    RANK_TRY(self, symm_alloc(l->g, LINE_MOST, (void **)&l->in));
    RANK_TRY(self, symm_alloc(l->g, LINE_MOST, (void **)&l->out));
    collective_fill(&l->call, self->rank, self->nranks, host);
    RANK_TRY(self, symm_copy(l->in, host, collective_in_nbytes(&l->call, self->nranks), l->s));
    RANK_TRY(self, symm_synchronize(l->g, l->s));
    RANK_TRY(self, symm_graph_begin(l->s));
    RANK_TRY(self, symm_fill(l->out, 0xff, LINE_MOST, l->s));
    RANK_TRY(self, collective_call(&l->call, l->g, l->in, l->out, l->s));
    RANK_TRY(self, symm_graph_end(l->s, &l->graph));
out:
    return self->report->status;
}

static void close_line(struct line *l)
{
    symm_graph_destroy(l->graph);
    symm_stream_destroy(l->s);
    symm_group_destroy(l->g);
}

/* One replay, and now and then an eager call of another size before it. */
static symm_status step_line(struct rank *self, const struct line *l, int replay)
{
    struct collective eager = l->call;
    eager.count = 100 + (size_t)replay;
    if (replay % 10 == 9)
        RANK_TRY(self, collective_call(&eager, l->g, l->in, l->out, l->s));
    RANK_TRY(self, symm_graph_launch(l->graph, l->s));
out:
    return self->report->status;
}

static symm_status look_at_line(struct rank *self, const struct line *l, char *host)
{
    RANK_TRY(self, symm_copy(host, l->out, LINE_MOST, l->s));
    RANK_TRY(self, symm_synchronize(l->g, l->s));
    self->report->wrong += collective_wrong(&l->call, self->rank, self->nranks, host);
out:
    return self->report->status;
}

static void replay_two_groups(struct rank *self, void *arg)
{
    enum { REPLAYS = 1000 };
    const struct collective_variant *const pair = arg;
    struct bench b = {0};
    struct line lines[2] = {{.g = NULL}, {.g = NULL}};
    char *host = malloc(LINE_MOST);

    if (bench_open(self, &b) != SYMM_OK)
        goto out;
    for (int i = 0; i < 2; i++) {
        lines[i].call = (struct collective){.operation = pair[i].operation,
                                            .algo = pair[i].algo,
                                            .dtype = SYMM_FLOAT32,
                                            .count = LINE_COUNT,
                                            .round = (uint64_t)i};
        if (open_line(self, &b, &lines[i], host) != SYMM_OK)
            goto out;
    }
    for (int replay = 0; replay < REPLAYS; replay++) {
        /* Nothing orders the two groups. */
        if (step_line(self, &lines[self->rank % 2], replay) != SYMM_OK ||
            step_line(self, &lines[1 - self->rank % 2], replay) != SYMM_OK)
            goto out;
        for (int i = 0; i < 2 && replay % 100 == 99; i++)
            if (look_at_line(self, &lines[i], host) != SYMM_OK)
                goto out;
    }
out:
    close_line(&lines[0]);
    close_line(&lines[1]);
    bench_close(&b);
    free(host);
}

static const struct collective_variant pairs[][2] = {
    {{ALL_REDUCE, SYMM_ALGO_ONE_SHOT}, {ALL_REDUCE, SYMM_ALGO_TWO_SHOT}},
    {{ALL_REDUCE, SYMM_ALGO_LOW_LATENCY}, {ALL_REDUCE, SYMM_ALGO_LOW_LATENCY_TWO_SHOT}},
    {{REDUCE_SCATTER, SYMM_ALGO_ONE_SHOT}, {ALL_GATHER, SYMM_ALGO_ONE_SHOT}},
    {{REDUCE_SCATTER, SYMM_ALGO_LOW_LATENCY}, {ALL_GATHER, SYMM_ALGO_LOW_LATENCY}},
};
enum { NPAIRS = sizeof pairs / sizeof pairs[0] };

START_TEST(two_groups_on_two_streams_replay_their_graphs_a_thousand_times)
{
    NEEDS_GPUS();
    setenv("SYMM_CHECK", "0", 1); /* a call must not wait for those that come in another order */
    ranks_run_ok(ngpus, RANKS_AS_PROCESSES, replay_two_groups, (void *)(uintptr_t)pairs[_i], 120);
}
END_TEST

/* ---------------------------------------------------------------- reduce-scatter and all-gather */

static const symm_algo shared_algos[] = {SYMM_ALGO_LOW_LATENCY, SYMM_ALGO_ONE_SHOT, SYMM_ALGO_AUTO};
static const struct trial_kind bytes[] = {{.dtype = SYMM_BFLOAT16},
                                          {.dtype = SYMM_UINT8},
                                          {.dtype = SYMM_FLOAT64},
                                          {.dtype = SYMM_FLOAT8_E4M3}};

/* The first with large counts and staging that takes many pieces, the second at every place. */
static void run_shares(enum collective_operation operation)
{
    const bool gathers = operation == ALL_GATHER;
    struct trial_plan plan = {.operation = operation,
                              .algos = shared_algos,
                              .nalgos = 3,
                              .kinds = gathers ? bytes : kinds,
                              .nkinds = gathers ? 4 : NKINDS,
                              .most = 300000,
                              .ncounts = gathers ? 12 : 6};
    for (int n = ngpus; n >= 2; n -= 2) { /* 4 and 2, or 3 */
        setenv("SYMM_STAGING_BYTES", "1M", 1);
        setenv("SYMM_EPOCH_START", "4294967200", 1);
        trial_run(n, RANKS_AS_PROCESSES, &plan);
    }
    plan.most = 5000;
    plan.all_places = true;
    plan.ncounts = 1;
    plan.special = !gathers;
    unsetenv("SYMM_STAGING_BYTES");
    trial_run(ngpus, RANKS_AS_PROCESSES, &plan);
}

START_TEST(shares_are_right_at_every_place)
{
    NEEDS_GPUS();
    run_shares(_i ? ALL_GATHER : REDUCE_SCATTER);
}
END_TEST

/* ------------------------------------------------------------- programmatic dependent launch */

static const struct collective_variant variants[] = {
    {ALL_REDUCE, SYMM_ALGO_LOW_LATENCY},     {ALL_REDUCE, SYMM_ALGO_LOW_LATENCY_TWO_SHOT},
    {ALL_REDUCE, SYMM_ALGO_ONE_SHOT},        {ALL_REDUCE, SYMM_ALGO_TWO_SHOT},
    {REDUCE_SCATTER, SYMM_ALGO_LOW_LATENCY}, {REDUCE_SCATTER, SYMM_ALGO_ONE_SHOT},
    {ALL_GATHER, SYMM_ALGO_LOW_LATENCY},     {ALL_GATHER, SYMM_ALGO_ONE_SHOT},
};
enum { NVARIANTS = sizeof variants / sizeof variants[0] };

/* Of one block and of many: each turn has three kernels of 200 us, and all may begin early. */
START_TEST(slow_producers_and_consumers_are_waited_for)
{
    static const size_t words[] = {200, 20000};
    struct rank_report reports[MOST];
    struct chain chain = {.variants = variants,
                          .nvariants = NVARIANTS,
                          .count = words[_i],
                          .turns = 1000,
                          .spin = 200,
                          .image = &test_kernels};
    NEEDS_GPUS();
    setenv("SYMM_CHECK", "0", 1);
    ranks_run(ngpus, RANKS_AS_PROCESSES, chain_run, &chain, reports, 120);
    ranks_assert_ok(reports, ngpus);
    ck_assert_int_eq(reports[0].value[0], NVARIANTS);
}
END_TEST

/* --------------------------------------------------------------------------------------- deaths */

/* Sums until the last rank has gone; then the others go on without it. */
static void outlive(struct rank *self, void *arg)
{
    enum { COUNT = 200000 };
    const int victim = self->nranks - 1;
    const symm_options options = {.algo = SYMM_ALGO_TWO_SHOT};
    struct bench b = {0};
    symm_context *ctx = NULL;
    float *x = NULL, *host = calloc(COUNT, sizeof *host);
    char who[32];
    const bool gives_up = *(int *)arg;
    if (bench_open(self, &b) != SYMM_OK)
        goto out;
    RANK_TRY(self, symm_alloc(b.w, COUNT * sizeof *x, (void **)&x));
    for (uint64_t round = 0; round < 1000000; round++) {
        symm_status st;
        reference_fill(host, COUNT, SYMM_FLOAT32, round, self->rank);
        st = symm_copy(x, host, COUNT * sizeof *x, b.s);
        if (st == SYMM_OK)
            st = symm_all_reduce(b.w, x, x, COUNT, SYMM_FLOAT32, SYMM_SUM, &options, b.s);
        if (st == SYMM_OK)
            st = symm_copy(host, x, COUNT * sizeof *x, b.s);
        if (st == SYMM_OK)
            st = symm_synchronize(b.w, b.s);
        if (rank_note(self, st) != SYMM_OK)
            break;
        self->report->wrong +=
            reference_wrong(host, 0, COUNT, SYMM_FLOAT32, round, self->nranks, REFERENCE_EXACT);
        self->report->value[1]++;
        if (gives_up && self->rank == victim && round == 5)
            symm_abort(b.w, "that is enough");
    }
    self->report->value[0] = now_ms();
    snprintf(who, sizeof who, "rank %d", victim);
    CHECK_RANK_MSG(self, self->report->status == SYMM_ERROR_PEER && strstr(self->report->text, who),
                   "%s: %s", symm_status_name(self->report->status), self->report->text);
    bench_close(&b);
    b = (struct bench){0};
    if (self->rank == victim)
        goto out;
    RANK_TRY(self, rank_join_without(self, victim, "rest", &ctx));
    RANK_TRY(self, exercise_group(self, ctx, symm_context_world(ctx), 3));
    RANK_TRY(self, symm_context_destroy(ctx));
    ctx = NULL;
out:
    symm_context_destroy(ctx);
    bench_close(&b);
    free(host);
}

START_TEST(the_others_survive_a_rank_killed_in_mid_run)
{
    struct rank_report reports[MOST];
    NEEDS_GPUS();
    struct ranks *run = ranks_start(ngpus, RANKS_AS_PROCESSES, outlive, &(int){0});
    const int64_t death = ranks_kill_at(run, ngpus - 1, 1, 3);
    const char *missing = ranks_finish(run, reports, 60);
    ck_assert_msg(!missing, "%s", missing);
    ck_assert_int_eq(reports[ngpus - 1].end, RANK_KILLED);
    ranks_assert_ok(reports, ngpus - 1);
    for (int r = 0; r < ngpus - 1; r++)
        ck_assert_msg(reports[r].value[0] - death < 1000, "rank %d noticed after %lld ms", r,
                      (long long)(reports[r].value[0] - death));
}
END_TEST

START_TEST(the_others_go_on_after_a_rank_has_given_up)
{
    struct rank_report reports[MOST];
    NEEDS_GPUS();
    ranks_run(ngpus, RANKS_AS_PROCESSES, outlive, &(int){1}, reports, 60);
    ranks_assert_clean(reports, ngpus);
    for (int r = 0; r < ngpus; r++)
        ck_assert_int_eq(reports[r].wrong, 0);
    for (int r = 0; r < ngpus - 1; r++)
        ck_assert_msg(reports[r].status == SYMM_OK, "rank %d: %s", r, reports[r].text);
}
END_TEST

static void stall(struct rank *self, void *arg)
{
    struct bench b = {0};
    symm_signal_pad *pad = NULL;
    (void)arg;
    if (bench_open(self, &b) != SYMM_OK)
        goto out;
    RANK_TRY(self, symm_signal_pad_alloc(b.w, 4, &pad));
    const int64_t start = now_ms();
    if (self->rank == 0) {
        RANK_TRY(self, symm_wait(b.w, pad, 3, 1, 5, b.s));
        RANK_EXPECT_TEXT(self, SYMM_ERROR_TIMEOUT, "channel 3", symm_synchronize(b.w, b.s));
        CHECK_RANK(self, strstr(self->report->text, "rank 1"));
    } else {
        while (symm_check(b.w) == SYMM_OK && now_ms() < start + 10000)
            pause_ms(20);
        CHECK_RANK(self, symm_check(b.w) != SYMM_OK);
    }
    rank_note(self, SYMM_OK);
out:
    bench_close(&b);
}

START_TEST(a_stalled_wait_ends_and_names_whom_it_waits_for)
{
    NEEDS_GPUS();
    setenv("SYMM_TIMEOUT_MS", "2000", 1);
    ranks_run_ok(ngpus, RANKS_AS_PROCESSES, stall, NULL, 60);
}
END_TEST

static void refuse_in_capture(struct rank *self, void *arg)
{
    struct bench b = {0};
    symm_graph graph = NULL;
    void *x = NULL, *p = NULL;
    (void)arg;
    if (bench_open(self, &b) != SYMM_OK)
        goto out;
    RANK_TRY(self, symm_alloc(b.w, 4096, &x));
    RANK_TRY(self, symm_graph_begin(b.s));
    const symm_status refused = symm_alloc(b.w, 4096, &p);
    RANK_TRY(self, symm_all_reduce(b.w, x, x, 1024, SYMM_FLOAT32, SYMM_SUM, NULL, b.s));
    RANK_TRY(self, symm_graph_end(b.s, &graph));
    CHECK_RANK(self, refused == SYMM_ERROR_STATE);
    RANK_TRY(self, symm_graph_launch(graph, b.s));
    RANK_TRY(self, symm_synchronize(b.w, b.s));
out:
    symm_graph_destroy(graph);
    bench_close(&b);
}

START_TEST(collective_calls_are_refused_in_a_capture_that_goes_on)
{
    NEEDS_GPUS();
    ranks_run_ok(ngpus, RANKS_AS_PROCESSES, refuse_in_capture, NULL, 60);
}
END_TEST

static void look_at_libraries(struct rank *self, void *arg)
{
    struct bench b = {0};
    char line[512];
    FILE *maps = NULL;
    (void)arg;
    if (bench_open(self, &b) != SYMM_OK)
        goto out;
    RANK_TRY(self, exercise_group(self, b.ctx, b.w, 1));
    maps = fopen("/proc/self/maps", "re");
    CHECK_RANK(self, maps);
    while (fgets(line, sizeof line, maps))
        CHECK_RANK_MSG(self, !strstr(line, "libcudart") && !strstr(line, "libsymm_emulated"), "%s",
                       line);
out:
    if (maps)
        fclose(maps);
    bench_close(&b);
}

START_TEST(no_cudart_is_loaded_and_no_emulated_driver)
{
    NEEDS_GPUS();
    ranks_run_ok(ngpus, RANKS_AS_PROCESSES, look_at_libraries, NULL, 60);
}
END_TEST

int main(void)
{
    setenv("SYMM_DRIVER", "cuda", 1);
    setenv("SYMM_MULTICAST", "0", 1);
    ngpus = gpus_count(MOST);
    Suite *suite = suite_create("gpu");
    /* The driver keeps descriptors, threads and mappings of its own: cases count by themselves. */
    TCase *joining = test_case_uncounted(suite, "joining", 180);
    tcase_add_test(joining, worlds_of_every_size_sum_right);
    tcase_add_test(joining, ranks_are_threads_of_one_process);
    tcase_add_test(joining, a_world_is_made_again_and_again_and_leaves_no_descriptors);
    tcase_add_test(joining, no_cudart_is_loaded_and_no_emulated_driver);
    TCase *memory = test_case_uncounted(suite, "memory", 180);
    tcase_add_test(memory, random_allocations_are_given_back_to_the_device);
    tcase_add_test(memory, put_and_get_move_every_byte);
    TCase *signals = test_case_uncounted(suite, "signals", 120);
    tcase_add_test(signals, a_ring_of_puts_and_signals_is_replayed);
    tcase_add_test(signals, a_ring_of_puts_and_signals_is_right_across_the_wrap);
    tcase_add_test(signals, a_users_kernel_meets_the_other_ranks_ten_thousand_times);
    tcase_add_test(signals, a_users_kernel_gets_much_shared_memory);
    TCase *sums = test_case_uncounted(suite, "all-reduce", 180);
    tcase_add_loop_test(sums, reductions_are_right_in_place_and_through_staging, 0, NALGOS);
    tcase_add_loop_test(sums, packets_are_right_across_the_wrap_of_the_epochs, 0,
                        2 * NPACKET_ALGOS);
    tcase_add_loop_test(sums, small_calls_that_differ_are_a_mismatch_at_once, 0, NDIFFERING);
    tcase_add_loop_test(sums, two_groups_on_two_streams_replay_their_graphs_a_thousand_times, 0,
                        NPAIRS);
    TCase *shares = test_case_uncounted(suite, "shares", 180);
    tcase_add_loop_test(shares, shares_are_right_at_every_place, 0, 2);
    TCase *early = test_case_uncounted(suite, "early", 180);
    tcase_add_loop_test(early, slow_producers_and_consumers_are_waited_for, 0, 2);
    TCase *deaths = test_case_uncounted(suite, "deaths", 120);
    tcase_add_test(deaths, the_others_survive_a_rank_killed_in_mid_run);
    tcase_add_test(deaths, the_others_go_on_after_a_rank_has_given_up);
    tcase_add_test(deaths, a_stalled_wait_ends_and_names_whom_it_waits_for);
    tcase_add_test(deaths, collective_calls_are_refused_in_a_capture_that_goes_on);
    return test_main(suite);
}
