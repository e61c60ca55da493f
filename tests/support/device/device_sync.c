/* Addresses, signals and barriers. */
#include <stdlib.h>
#include <string.h>
#include <symm/detail/image.h>
#include "device_bench.h"
#include "reference.h"

TEST_GROUP(meeting, 120);

/* ---- Addresses ---- */

DEVICE_TEST(meeting, addresses_are_those_that_the_host_knows, "test_addresses", 1,
            device_setting.worlds[_i], .loop = {0, device_setting.nworlds})
{
    uint64_t out[RANKS_MAX + 2] = {0};
    void *x;
    RANK_TRY(self, symm_alloc(b->w, 4096, &x));
    RANK_TRY(self, symm_alloc(b->w, sizeof out, &b->a.out));
    b->a.x = (char *)x + 48;
    for (int shape = 0; shape < DEVICE_SHAPES; shape++) {
        RANK_TRY(self, symm_fill(b->a.out, 0xff, sizeof out, b->s));
        RANK_TRY(self, device_run(b, 1, device_threads[shape]));
        RANK_TRY(self, device_read(b, out, b->a.out, sizeof out));
        for (int r = 0; r < self->nranks; r++)
            self->report->wrong += out[r] != (uint64_t)(uintptr_t)symm_peer(b->w, b->a.x, r);
        self->report->wrong += out[self->rank] != (uint64_t)(uintptr_t)b->a.x;
        self->report->wrong += out[self->nranks] != !symm_multicast_off(b->w);
        if (!symm_multicast_off(b->w))
            self->report->wrong +=
                out[self->nranks + 1] != (uint64_t)(uintptr_t)symm_multicast(b->w, b->a.x);
    }
out:;
}

/* ---- Signals ---- */

DEVICE_RANK(pass_signals, "test_signals", 3)
{
    b->a.rounds = device_rounds(12, 1000);
    RANK_TRY(self, symm_alloc(b->w, DEVICE_THREADS_MAX * sizeof(uint32_t), &b->a.x));
    for (int shape = 0; shape < DEVICE_SHAPES; shape++) {
        b->a.seed = (uint32_t)reference_random(900, (uint64_t)shape);
        for (uint32_t blocks = 1; blocks <= 3; blocks += 2)
            RANK_TRY(self, device_launch(b, blocks, device_threads[shape]));
    }
    device_settle(b);
out:;
}

TEST_LOOP(meeting, signals_come_after_their_data, 0, device_setting.nworlds)
{
    NEEDS_DEVICES();
    setenv(DEVICE_BELOW_WRAP, 1);
    ranks_run_ok(device_setting.worlds[_i], RANKS_AS_PROCESSES, pass_signals, NULL, 60);
}

/* ---- Barriers ---- */

DEVICE_RANK(meet_in_order, "test_order", 2 * DEVICE_BLOCKS_MAX)
{
    const uint32_t blocks = device_blocks(self->nranks);
    b->a.rounds = device_rounds(10, 100);
    RANK_TRY(self,
             symm_alloc(b->w, (size_t)self->nranks * blocks * DEVICE_THREADS_MAX * sizeof(uint32_t),
                        &b->a.x));
    for (b->a.mode = 0; b->a.mode < TEST_MEETS; b->a.mode++)
        for (int shape = 0; shape < DEVICE_SHAPES; shape++) {
            b->a.seed = (uint32_t)reference_random(901 + (uint64_t)b->a.mode, (uint64_t)shape);
            RANK_TRY(self, device_run(b, blocks, device_threads[shape]));
            CHECK_RANK_MSG(self, self->report->wrong == 0, "mode %d, %u threads: %lld wrong",
                           b->a.mode, device_threads[shape], (long long)self->report->wrong);
            RANK_TRY(self,
                     symm_barrier(b->w, b->s)); /* a grid alone does not wait for the others */
        }
out:;
}

TEST_LOOP(meeting, barriers_of_every_kind_order_stores_across_the_wrap, 0, device_setting.nworlds)
{
    NEEDS_DEVICES();
    setenv(DEVICE_BELOW_WRAP, 1);
    ranks_run_ok(device_setting.worlds[_i], RANKS_AS_PROCESSES, meet_in_order, NULL, 100);
}

TEST(meeting, barriers_and_signals_serve_ranks_that_are_threads)
{
    NEEDS_DEVICES();
    if (!device_setting.emulated)
        TEST_SKIP("only with the emulated driver");
    ranks_run_ok(3, RANKS_AS_THREADS, meet_in_order, NULL, 60);
    ranks_run_ok(4, RANKS_AS_THREADS, pass_signals, NULL, 60);
}

/* ---- Three dimensions ---- */

/* The parts of the driver that launch grids and blocks of three dimensions. */
struct launch_config {
    unsigned grid[3], block[3], shared_nbytes;
    symm_stream stream;
    void *attributes;
    unsigned nattributes;
};

struct driver {
    int (*load)(void **module, const void *image);
    int (*unload)(void *module);
    int (*get)(void **function, void *module, const char *name);
    int (*launch)(const struct launch_config *config, void *function, void **args, void **extra);
};

DEVICE_TEST(meeting, grids_and_blocks_of_three_dimensions_meet, "test_order", 24,
            device_setting.pair, .env = {{DEVICE_BELOW_WRAP}})
{
    struct driver d = {NULL, NULL, NULL, NULL};
    void *module = NULL, *function = NULL, *args[] = {&b->a};
    b->a.rounds = device_rounds(10, 100);
    const bool emulated = strcmp(symm_context_driver(b->ctx), "emulated") == 0;
    *(void **)&d.load = symm_context_driver_symbol(b->ctx, "cuModuleLoadData");
    *(void **)&d.unload = symm_context_driver_symbol(b->ctx, "cuModuleUnload");
    *(void **)&d.get = symm_context_driver_symbol(b->ctx, "cuModuleGetFunction");
    *(void **)&d.launch = symm_context_driver_symbol(b->ctx, "cuLaunchKernelEx");
    CHECK_RANK(self, d.load && d.unload && d.get && d.launch);
    CHECK_RANK(self, d.load(&module, emulated ? (const void *)test_device_kernels.emulated
                                              : test_device_kernels.fatbin) == 0);
    CHECK_RANK(self, d.get(&function, module, "test_order") == 0);
    RANK_TRY(self, symm_alloc(b->w, (size_t)self->nranks * 12 * 24 * sizeof(uint32_t), &b->a.x));
    for (b->a.mode = 0; b->a.mode < TEST_MEETS; b->a.mode++) {
        const struct launch_config config = {.grid = {3, 2, 2}, .block = {4, 2, 3}, .stream = b->s};
        b->a.seed = (uint32_t)reference_random(902, (uint64_t)b->a.mode);
        CHECK_RANK(self, d.launch(&config, function, args, NULL) == 0);
        b->nthreads += 12 * 24;
        RANK_TRY(self, device_settle(b));
        RANK_TRY(self, symm_barrier(b->w, b->s));
    }
    CHECK_RANK(self, d.unload(module) == 0);
out:;
}
