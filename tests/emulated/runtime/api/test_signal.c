/* Signals count: on streams, in graphs, in kernels, and across the wrap of their counters. */
#include <stdlib.h>
#include <string.h>
#include "exercise.h"
#include "kernels.h"
#include "reference.h"
#include "test.h"
#include "world.h"

WORLD_RANK(count_signals)
{
    symm_signal_pad *pad = NULL;
    RANK_TRY(self, symm_signal_pad_alloc(world, 3, &pad));
    if (self->rank == 0) {
        RANK_TRY(self, symm_signal(world, pad, 1, 1, 1, s));
        RANK_TRY(self, symm_signal(world, pad, 1, 1, 2, s));
        RANK_TRY(self, symm_signal(world, pad, 1, 1, 5, s));
        RANK_TRY(self, symm_synchronize(world, s));
        RANK_TRY(self, symm_exchange(world, NULL, 0, NULL));
        RANK_TRY(self, symm_exchange(world, NULL, 0, NULL));
        RANK_TRY(self, symm_signal(world, pad, 1, 1, 1, s));
    } else {
        RANK_TRY(self, symm_exchange(world, NULL, 0, NULL));
        RANK_TRY(self, symm_wait(world, pad, 1, 0, 4, s)); /* 8 have come: this takes 4 */
        RANK_TRY(self, symm_wait(world, pad, 1, 0, 3, s)); /* and this 3 */
        RANK_TRY(self, symm_synchronize(world, s));
        RANK_TRY(self, symm_wait(world, pad, 1, 0, 2, s)); /* one is there, one is not */
        pause_ms(100);
        CHECK_RANK(self, !exercise_is_idle(ctx, s));
        RANK_TRY(self, symm_exchange(world, NULL, 0, NULL));
    }
    RANK_TRY(self, symm_synchronize(world, s));
out:;
}

TEST_GROUP(counting, 60);

TEST(counting, a_wait_takes_as_many_signals_as_it_asks_for)
{
    ranks_run_ok(2, RANKS_AS_PROCESSES, count_signals, NULL, 20);
}

/* Rank 1 leaves out the one signal that rank 0 waits for. */
static bool is_left_out(int rank, int pad, int channel, int to)
{
    return rank == 1 && pad == 0 && channel == 2 && to == 0;
}

WORLD_TEST(counting, pads_channels_and_ranks_do_not_mix, 3)
{
    enum { CHANNELS = 5 };
    symm_signal_pad *pad[2] = {NULL, NULL};
    for (int p = 0; p < 2; p++)
        RANK_TRY(self, symm_signal_pad_alloc(world, CHANNELS, &pad[p]));
    for (int p = 0; p < 2; p++)
        for (int c = 0; c < CHANNELS; c++)
            for (int to = 0; to < 3; to++)
                if (!is_left_out(self->rank, p, c, to))
                    RANK_TRY(self, symm_signal(world, pad[p], c, to, 1, s));
    RANK_TRY(self, symm_synchronize(world, s));
    RANK_TRY(self, symm_exchange(world, NULL, 0, NULL));
    if (self->rank == 0) { /* signals of every other rank, channel and pad must not end this wait */
        RANK_TRY(self, symm_wait(world, pad[0], 2, 1, 1, s));
        pause_ms(50);
        CHECK_RANK(self, !exercise_is_idle(ctx, s));
    }
    RANK_TRY(self, symm_exchange(world, NULL, 0, NULL));
    if (self->rank == 1)
        RANK_TRY(self, symm_signal(world, pad[0], 2, 0, 1, s));
    for (int p = 0; p < 2; p++)
        for (int c = 0; c < CHANNELS; c++)
            for (int from = 0; from < 3; from++)
                if (!is_left_out(from, p, c, self->rank))
                    RANK_TRY(self, symm_wait(world, pad[p], c, from, 1, s));
    RANK_TRY(self, symm_synchronize(world, s));
out:;
}

WORLD_TEST(counting, signals_come_by_the_billion, 2)
{
    const uint32_t bulk = 1u << 30;
    symm_signal_pad *pad = NULL;
    RANK_TRY(self, symm_signal_pad_alloc(world, 1, &pad));
    for (int round = 0; round < 6; round++) { /* more than once round the counter */
        RANK_TRY(self, symm_signal(world, pad, 0, 1 - self->rank, bulk, NULL));
        RANK_TRY(self, symm_wait(world, pad, 0, 1 - self->rank, bulk - 1, NULL));
        RANK_TRY(self, symm_wait(world, pad, 0, 1 - self->rank, 1, NULL));
        RANK_TRY(self, symm_synchronize(world, NULL));
    }
out:;
}

WORLD_TEST(counting, a_new_pad_starts_at_zero, 2)
{
    symm_signal_pad *pad = NULL;
    symm_usage before, after;
    RANK_TRY(self, symm_memory_usage(ctx, &before));
    for (int round = 0; round < 10; round++) {
        /* What an earlier pad left in the same bytes must not be seen. */
        RANK_TRY(self, symm_signal_pad_alloc(world, 100, &pad));
        for (int c = 0; c < 100; c += 9)
            RANK_TRY(self, symm_signal(world, pad, c, 1 - self->rank, 3, NULL));
        for (int c = 0; c < 100; c += 9)
            RANK_TRY(self, symm_wait(world, pad, c, 1 - self->rank, 3, NULL));
        RANK_TRY(self, symm_signal(world, pad, 0, 1 - self->rank, 7, NULL)); /* never taken */
        RANK_TRY(self, symm_barrier(world, NULL));
        RANK_TRY(self, symm_synchronize(world, NULL));
        RANK_TRY(self, symm_free(world, pad));
    }
    RANK_TRY(self, symm_exchange(world, NULL, 0, NULL));
    RANK_TRY(self, symm_memory_usage(ctx, &after));
    CHECK_RANK(self, before.allocated == after.allocated);
out:;
}

TEST_GROUP(ordering, 60);

WORLD_TEST(ordering, a_signal_comes_after_the_data_put_before_it, 3)
{
    enum { COUNT = 5000, ROUNDS = 60, FULL = 0, FREE = 1 };
    symm_signal_pad *pad = NULL;
    int32_t *inbox = NULL, *host = calloc(COUNT, sizeof *host), *mine = calloc(COUNT, sizeof *mine);
    const int n = self->nranks, after = (self->rank + 1) % n, before = (self->rank + n - 1) % n;
    RANK_TRY(self, symm_signal_pad_alloc(world, 2, &pad));
    RANK_TRY(self, symm_alloc(world, COUNT * sizeof *inbox, (void **)&inbox));
    RANK_TRY(self, symm_signal(world, pad, FREE, before, 1, s));
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < COUNT; i++)
            mine[i] = self->rank * 1000000 + round * 1000 + i % 1000;
        RANK_TRY(self, symm_wait(world, pad, FREE, after, 1, s));
        RANK_TRY(self, symm_put(world, inbox, mine, COUNT * sizeof *mine, after, s));
        RANK_TRY(self, symm_signal(world, pad, FULL, after, 1, s));
        RANK_TRY(self, symm_wait(world, pad, FULL, before, 1, s));
        RANK_TRY(self, symm_put(world, inbox, inbox, COUNT * sizeof *inbox, self->rank, s));
        RANK_TRY(self, symm_copy(host, inbox, COUNT * sizeof *host, s));
        RANK_TRY(self, symm_signal(world, pad, FREE, before, 1, s));
        RANK_TRY(self, symm_synchronize(world, s));
        for (int i = 0; i < COUNT; i++)
            self->report->wrong += host[i] != before * 1000000 + round * 1000 + i % 1000;
    }
out:
    free(host);
    free(mine);
}

WORLD_RANK(meet_often)
{
    int32_t *x = NULL, got[RANKS_MAX];
    RANK_TRY(self, symm_alloc(world, sizeof got, (void **)&x));
    for (int32_t round = 0; round < 100; round++) {
        const int32_t mine = round * 100 + self->rank;
        for (int r = 0; r < self->nranks; r++)
            RANK_TRY(self, symm_put(world, x + self->rank, &mine, sizeof mine, r, s));
        RANK_TRY(self, symm_barrier(world, s));
        RANK_TRY(self, symm_copy(got, x, sizeof got[0] * (size_t)self->nranks, s));
        RANK_TRY(self, symm_barrier(world, s));
        RANK_TRY(self, symm_synchronize(world, s));
        for (int r = 0; r < self->nranks; r++)
            self->report->wrong += got[r] != round * 100 + r;
    }
out:;
}

TEST(ordering, a_barrier_orders_the_streams_of_all_ranks)
{
    ranks_run_ok(4, RANKS_AS_PROCESSES, meet_often, NULL, 30);
}

/* ---- Graphs ---- */

enum { FULL, FREE, CHANNELS, DEPTH = 3, CHUNKS = 12, CHUNK = 2048 };

/* A recorded pipeline: the first rank's source goes through every rank to the last one's sink. */
WORLD_RANK(run_pipeline)
{
    symm_signal_pad *pad = NULL;
    symm_graph graph = NULL;
    char *inbox = NULL, *outbox = NULL, *ends = NULL, *host = calloc(CHUNKS, CHUNK);
    const int replays = *(int *)arg;
    const int before = self->rank - 1, after = self->rank + 1 < self->nranks ? self->rank + 1 : -1;
    RANK_TRY(self, symm_alloc(world, DEPTH * CHUNK, (void **)&inbox));
    RANK_TRY(self, symm_device_alloc(ctx, CHUNK, (void **)&outbox));
    RANK_TRY(self, symm_device_alloc(ctx, CHUNKS * CHUNK, (void **)&ends));
    RANK_TRY(self, symm_signal_pad_alloc(world, CHANNELS, &pad));
    if (before >= 0)
        RANK_TRY(self, symm_signal(world, pad, FREE, before, DEPTH, s)); /* credits */
    RANK_TRY(self, symm_graph_begin(s));
    for (int i = 0; i < CHUNKS; i++) {
        char *slot = inbox + (size_t)(i % DEPTH) * CHUNK;
        if (before >= 0)
            RANK_TRY(self, symm_wait(world, pad, FULL, before, 1, s));
        RANK_TRY(self, symm_copy(outbox, before >= 0 ? slot : ends + i * CHUNK, CHUNK, s));
        if (before >= 0)
            RANK_TRY(self, symm_signal(world, pad, FREE, before, 1, s));
        if (after >= 0) {
            RANK_TRY(self, symm_wait(world, pad, FREE, after, 1, s));
            RANK_TRY(self, symm_put(world, slot, outbox, CHUNK, after, s));
            RANK_TRY(self, symm_signal(world, pad, FULL, after, 1, s));
        } else {
            RANK_TRY(self, symm_copy(ends + i * CHUNK, outbox, CHUNK, s));
        }
    }
    RANK_TRY(self, symm_graph_end(s, &graph));
    for (int i = 0; i < replays; i++) {
        if (before < 0) {
            reference_poison(host, CHUNKS * CHUNK, (uint64_t)i);
            RANK_TRY(self, symm_copy(ends, host, CHUNKS * CHUNK, s));
        }
        RANK_TRY(self, symm_graph_launch(graph, s));
        if (after < 0) {
            RANK_TRY(self, symm_copy(host, ends, CHUNKS * CHUNK, s));
            RANK_TRY(self, symm_synchronize(world, s));
            self->report->wrong += reference_poison_wrong(host, CHUNKS * CHUNK, (uint64_t)i);
        }
        RANK_TRY(self, symm_synchronize(world, s)); /* the host buffer is written again */
    }
out:
    symm_graph_destroy(graph);
    symm_device_free(ctx, outbox);
    symm_device_free(ctx, ends);
    free(host);
}

TEST(ordering, a_pipeline_with_credits_is_replayed)
{
    int replays = 20;
    ranks_run_ok(3, RANKS_AS_PROCESSES, run_pipeline, &replays, 60);
}

static const char *const epochs[] = {"4294967295", "4294967290", "2147483640", "2147483647"};

TEST_GROUP(the_wrap, 120);

WORLD_TEST(the_wrap, sums_are_right_across_the_wrap_of_the_counters, 3,
           .env = {{"SYMM_EPOCH_START", epochs[_i]}}, .loop = {0, 4})
{
    for (uint64_t round = 0; round < 6; round++)
        RANK_TRY(self, exercise_group(self, ctx, world, round));
out:;
}

TEST_LOOP(the_wrap, signals_and_barriers_are_right_across_the_wrap_of_the_counters, 0, 4)
{
    int replays = 3;
    setenv("SYMM_EPOCH_START", epochs[_i], 1);
    ranks_run_ok(3, RANKS_AS_PROCESSES, run_pipeline, &replays, 60);
    ranks_run_ok(3, RANKS_AS_PROCESSES, meet_often, NULL, 60);
    ranks_run_ok(2, RANKS_AS_PROCESSES, count_signals, NULL, 20);
}

TEST_GROUP(kernels, 60);

/* In the second round the counters wrap. */
WORLD_TEST(kernels, kernels_and_the_host_share_the_counters, 2, _i,
           .env = {{"SYMM_EPOCH_START", _i ? "4294967200" : "0"}}, .loop = {0, 2})
{
    symm_kernel *kernel = NULL;
    test_signal_args a = {.channel = 1, .peer = 1 - self->rank};
    int32_t got = 0;
    uint32_t blocks = 0;
    RANK_TRY(self, symm_kernel_load(ctx, &test_kernels, "test_signal_and_wait", &kernel));
    RANK_TRY(self, symm_kernel_max_blocks(world, kernel, 64, 0, &blocks));
    CHECK_RANK(self, blocks >= 1);
    RANK_TRY(self, symm_signal_pad_alloc(world, 2, &a.pad));
    RANK_TRY(self, symm_alloc(world, sizeof got, (void **)&a.cell));
    RANK_TRY(self, symm_group_view(world, &a.view));
    for (int round = 0; round < 30; round++) {
        const int32_t mine = round * 10 + self->rank;
        /* Three signals from the host, two from the kernel; the kernel takes four, the host one. */
        RANK_TRY(self, symm_put(world, a.cell, &mine, sizeof mine, 1 - self->rank, s));
        RANK_TRY(self, symm_signal(world, a.pad, 1, 1 - self->rank, 3, s));
        a.signals = 2;
        a.waits = 4;
        RANK_TRY(self, symm_launch(world, kernel, &(symm_grid){.blocks = 1, .threads = 64}, &a,
                                   sizeof a, s));
        RANK_TRY(self, symm_wait(world, a.pad, 1, 1 - self->rank, 1, s));
        RANK_TRY(self, symm_copy(&got, a.cell, sizeof got, s));
        RANK_TRY(self, symm_barrier(world, s));
        RANK_TRY(self, symm_synchronize(world, s));
        self->report->wrong += got != round * 10 + 1 - self->rank;
    }
out:
    symm_kernel_unload(kernel);
}

/* Shared memory of three launches; all of a device's among it. */
static const uint32_t smem_sizes[2][3] = {{0, 0, 0}, {50 << 10, 227 << 10, 64 << 10}};

WORLD_TEST(kernels, a_users_kernel_writes_to_its_neighbour_between_barriers, _i ? 2 : 3, _i == 2,
           .arg = (void *)(uintptr_t)smem_sizes[_i > 0], .loop = {0, 3})
{
    enum { BLOCKS = 4, THREADS = 96 };
    symm_kernel *kernel = NULL;
    test_ring_args a = {.rounds = 25};
    int32_t wrong[BLOCKS] = {0};
    uint32_t most;
    const uint32_t *const smem_nbytes = arg; /* of each launch */
    RANK_TRY(self, symm_kernel_load(ctx, &test_kernels, "test_ring", &kernel));
    RANK_TRY(self, symm_signal_pad_alloc(world, BLOCKS, &a.pad));
    RANK_TRY(self, symm_alloc(world, 4 * BLOCKS * THREADS * sizeof *a.cells, (void **)&a.cells));
    RANK_TRY(self, symm_alloc(world, sizeof wrong, (void **)&a.wrong));
    RANK_TRY(self, symm_fill(a.wrong, 0, sizeof wrong, NULL));
    RANK_TRY(self, symm_group_view(world, &a.view));
    for (int launch = 0; launch < 3; launch++) {
        const symm_grid grid = {
            .blocks = BLOCKS, .threads = THREADS, .smem_nbytes = smem_nbytes[launch]};
        RANK_TRY(self, symm_launch(world, kernel, &grid, &a, sizeof a, NULL));
    }
    RANK_TRY(self, symm_kernel_max_blocks(world, kernel, THREADS, smem_nbytes[1], &most));
    CHECK_RANK(self, most >= BLOCKS);
    RANK_TRY(self, symm_copy(wrong, a.wrong, sizeof wrong, NULL));
    RANK_TRY(self, symm_synchronize(world, NULL));
    for (int b = 0; b < BLOCKS; b++)
        self->report->wrong += wrong[b];
out:
    symm_kernel_unload(kernel);
}
