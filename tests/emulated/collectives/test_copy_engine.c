/*
 * The collectives by copy engines on the emulated driver: all operations on every world of 1 to 8,
 * with any count, type and operation, eager and from graphs alternately. Every call gets
 * fresh data; what it writes, and what lies around it, is filled with a pattern first.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "copy_call.h"
#include "leaks.h"
#include "reference.h"
#include "test.h"
#include "world.h"

/* ---- Single calls ---- */

struct plan {
    size_t most; /* elements */
    int ncalls;
};

WORLD_RANK(run_calls)
{
    const struct plan *plan = arg;
    struct copy_buffers b = {0};
    struct leaks first, last;

    RANK_TRY(self, copy_open(ctx, world, s, plan->most * 8 * (size_t)self->nranks, &b));
    for (int i = 0; i < plan->ncalls; i++) {
        const struct copy_call c = copy_draw((uint64_t)i + 1, plan->most);
        RANK_TRY(self, copy_run(self, &c, &b));
        if (i == COLLECTIVE_OPERATIONS - 1)
            leaks_take(&first);
    }
    leaks_take(&last); /* later calls need no more than one call of each */
    if (self->mode == RANKS_AS_PROCESSES)
        CHECK_RANK(self, last.driver.streams == first.driver.streams &&
                             last.driver.events == first.driver.events);
out:
    copy_close(&b);
}

TEST_GROUP(calls, 240);

TEST_LOOP(calls, every_world_is_right, 1, 9)
{
    ranks_run_ok(_i, RANKS_AS_PROCESSES, run_calls, &(struct plan){3000, 60}, 120);
}

TEST(calls, a_world_of_eleven_is_right)
{
    setenv("SYMM_STAGING_BYTES", "16K", 1);
    setenv("SYMM_EMULATED_DEVICES", "11", 1);
    ranks_run_ok(11, RANKS_AS_PROCESSES, run_calls, &(struct plan){1000, 15}, 120);
}

TEST_LOOP(calls, ranks_may_be_threads, 2, 5)
{
    ranks_run_ok(_i, RANKS_AS_THREADS, run_calls, &(struct plan){3000, 45}, 120);
}

static const struct {
    const char *staging;
    int nranks;
} pieces[] = {{"1K", 2}, {"1K", 8}, {"4K", 3}, {"16K", 4}, {"16K", 5}};
enum { NPIECES = sizeof pieces / sizeof pieces[0] };

TEST_LOOP(calls, many_chunks_go_through_a_small_staging_area, 0, NPIECES)
{
    setenv("SYMM_STAGING_BYTES", pieces[_i].staging, 1);
    ranks_run_ok(pieces[_i].nranks, RANKS_AS_PROCESSES, run_calls, &(struct plan){3000, 30}, 120);
}

TEST_LOOP(calls, megabytes_go_in_large_chunks, 2, 4)
{
    ranks_run_ok(_i, RANKS_AS_PROCESSES, run_calls, &(struct plan){700000, 9}, 120);
}

static const int block_sizes[] = {1, 33, 512};

TEST_LOOP(calls, any_block_size_is_right, 0, 3)
{
    char text[16];
    snprintf(text, sizeof text, "%d", block_sizes[_i]);
    setenv("SYMM_EMULATED_BLOCK", text, 1);
    setenv("SYMM_STAGING_BYTES", "4K", 1);
    ranks_run_ok(3, RANKS_AS_PROCESSES, run_calls, &(struct plan){1000, 20}, 120);
}

TEST(calls, weakly_ordered_memory_makes_no_difference)
{
    if (TEST_TSAN)
        TEST_SKIP("under ThreadSanitizer memory is as strong as this machine's");
    setenv("SYMM_EMULATED_WEAK", "1", 1);
    setenv("SYMM_STAGING_BYTES", "4K", 1);
    ranks_run_ok(4, RANKS_AS_PROCESSES, run_calls, &(struct plan){2000, 30}, 120);
}

/* ---- Calls that follow ---- */

enum { TRAIN = 6, COUNT = 1500 };

/* Alternately with other algorithms that use the staging area, without a pause. */
WORLD_TEST(calls, calls_follow_each_other_without_a_pause, _i, .timeout_s = 120,
           .env = {{"SYMM_STAGING_BYTES", "8K"}}, .loop = {2, 5})
{
    static const symm_algo algos[] = {SYMM_ALGO_COPY_ENGINE, SYMM_ALGO_TWO_SHOT,
                                      SYMM_ALGO_COPY_ENGINE, SYMM_ALGO_ONE_SHOT,
                                      SYMM_ALGO_COPY_ENGINE, SYMM_ALGO_LOW_LATENCY};
    struct copy_buffers b[TRAIN] = {{0}};
    struct copy_call calls[TRAIN];

    for (int i = 0; i < TRAIN; i++)
        RANK_TRY(self, copy_open(ctx, world, s, COUNT * 8 * (size_t)self->nranks, &b[i]));
    for (uint64_t t = 0; t < 15; t++) {
        for (int i = 0; i < TRAIN; i++) {
            calls[i] = copy_draw(1 + t * (TRAIN + 1) + (uint64_t)i, COUNT);
            if (algos[i] != SYMM_ALGO_COPY_ENGINE)
                calls[i].operation = ALL_REDUCE, calls[i].dtype = SYMM_FLOAT32;
            calls[i].options.algo = algos[i];
            RANK_TRY(self, copy_prepare(&calls[i], &b[i]));
        }
        for (int i = 0; i < TRAIN; i++)
            RANK_TRY(self, copy_enqueue(&calls[i], &b[i]));
        for (int i = 0; i < TRAIN; i++)
            RANK_TRY(self, copy_check(self, &calls[i], &b[i]));
    }
out:
    for (int i = 0; i < TRAIN; i++)
        copy_close(&b[i]);
}

/* ---- Graphs ---- */

/* Replays a graph of all operations; eager calls on another stream between, and in the capture. */
WORLD_TEST(calls, graphs_replay_between_eager_calls, _i, .timeout_s = 120,
           .env = {{"SYMM_STAGING_BYTES", "8K"}}, .loop = {2, 5})
{
    const size_t most = COUNT * 8 * (size_t)self->nranks;
    struct copy_buffers b[COLLECTIVE_OPERATIONS] = {{0}}, beside = {0};
    struct copy_call calls[COLLECTIVE_OPERATIONS], eager;
    symm_stream other = NULL;
    symm_graph graph = NULL;

    RANK_TRY(self, symm_stream_create(ctx, &other));
    RANK_TRY(self, copy_open(ctx, world, other, most, &beside));
    for (int i = 0; i < COLLECTIVE_OPERATIONS; i++) {
        RANK_TRY(self, copy_open(ctx, world, s, most, &b[i]));
        calls[i] = copy_draw(1000 + (uint64_t)i, COUNT);
        calls[i].operation = (enum collective_operation)i;
        if (calls[i].dtype == SYMM_FLOAT8_E4M3)
            calls[i].dtype = SYMM_BFLOAT16;
    }
    RANK_TRY(self, symm_graph_begin(s));
    for (int i = 0; i < COLLECTIVE_OPERATIONS; i++) {
        RANK_TRY(self, copy_enqueue(&calls[i], &b[i]));
        eager = copy_draw(2000, COUNT);
        if (i == 1)
            RANK_TRY(self, copy_run(self, &eager, &beside));
    }
    RANK_TRY(self, symm_graph_end(s, &graph));
    for (uint64_t round = 1; round <= 12; round++) {
        for (int i = 0; i < COLLECTIVE_OPERATIONS; i++) {
            calls[i].round = round * 10 + (uint64_t)i;
            RANK_TRY(self, copy_prepare(&calls[i], &b[i]));
        }
        RANK_TRY(self, symm_graph_launch(graph, s));
        for (int i = 0; i < COLLECTIVE_OPERATIONS; i++)
            RANK_TRY(self, copy_check(self, &calls[i], &b[i]));
        eager = copy_draw(2000 + round, COUNT);
        if (round % 3 == 0)
            RANK_TRY(self, copy_run(self, &eager, &beside));
    }
out:
    symm_graph_destroy(graph);
    for (int i = 0; i < COLLECTIVE_OPERATIONS; i++)
        copy_close(&b[i]);
    copy_close(&beside);
    symm_stream_destroy(other);
}

/* ---- Two groups at once ---- */

/*
 * On two streams, also in two captures at a time. Half of the ranks begin with the second one.
 * SYMM_CHECK is off, because it expects one order of calls.
 */
WORLD_TEST(calls, two_groups_run_at_once_on_two_streams, _i, .timeout_s = 120,
           .env = {{"SYMM_CHECK", "0"}, {"SYMM_STAGING_BYTES", "8K"}}, .loop = {2, 5})
{
    const int first = self->rank % 2;
    struct copy_buffers b[2] = {{0}};
    struct copy_call calls[2];
    symm_group *groups[2] = {world, NULL};
    symm_stream streams[2] = {s, NULL};
    symm_graph graphs[2] = {NULL, NULL};
    int ranks[RANKS_MAX];

    for (int r = 0; r < self->nranks; r++)
        ranks[r] = self->nranks - 1 - r;
    RANK_TRY(self, symm_group_create(world, self->nranks, ranks, &groups[1]));
    RANK_TRY(self, symm_stream_create(ctx, &streams[1]));
    for (int g = 0; g < 2; g++)
        RANK_TRY(self,
                 copy_open(ctx, groups[g], streams[g], COUNT * 8 * (size_t)self->nranks, &b[g]));
    for (uint64_t round = 1; round <= 20; round++) {
        for (int i = 0; i < 2; i++) {
            const int g = (first + i) % 2;
            calls[g] = copy_draw(round * 2 + (uint64_t)g, COUNT);
            RANK_TRY(self, copy_prepare(&calls[g], &b[g]));
        }
        for (int g = 0; g < 2 && round % 2; g++)
            RANK_TRY(self, symm_graph_begin(streams[g]));
        for (int i = 0; i < 2; i++)
            RANK_TRY(self, copy_enqueue(&calls[(first + i) % 2], &b[(first + i) % 2]));
        for (int g = 0; g < 2 && round % 2; g++)
            RANK_TRY(self, symm_graph_end(streams[g], &graphs[g]));
        for (int i = 0; i < 2 && round % 2; i++)
            RANK_TRY(self, symm_graph_launch(graphs[(first + i) % 2], streams[(first + i) % 2]));
        for (int g = 0; g < 2; g++) {
            RANK_TRY(self, copy_check(self, &calls[g], &b[g]));
            symm_graph_destroy(graphs[g]);
            graphs[g] = NULL;
        }
    }
out:
    for (int g = 0; g < 2; g++) {
        symm_graph_destroy(graphs[g]);
        copy_close(&b[g]);
    }
    symm_stream_destroy(streams[1]);
    symm_group_destroy(groups[1]);
}
