/*
 * symm_all_reduce_rms_norm() on the emulated driver: every algorithm, in groups of 1 to 8 ranks,
 * with any rows and lengths of rows, tensors at any place; the same bits everywhere; in graphs, one
 * call right behind another, beside other collectives; calls that go wrong.
 */
#include <math.h>
#include <stdlib.h>
#include "exercise.h"
#include "norm.h"
#include "reference.h"
#include "test.h"
#include "world.h"

static const symm_algo algos[] = {SYMM_ALGO_LOW_LATENCY, SYMM_ALGO_LOW_LATENCY_TWO_SHOT,
                                  SYMM_ALGO_LAMPORT, SYMM_ALGO_AUTO};
enum { NALGOS = sizeof algos / sizeof algos[0], MOST = 9000 };

TEST_GROUP(rms_norm, 200);

/* Any shape, tensors and places, by the round. */
static struct norm_call draw_call(symm_algo algo, size_t most, uint64_t round)
{
    static const size_t rows[] = {1, 1, 2, 3, 5, 8, 9, 17, 40, 133},
                        hiddens[] = {1,   2,   3,   5,    6,    7,    8,    9,    16,   31,  33,
                                     100, 256, 257, 1000, 1024, 2048, 4096, 4099, 8192, 8199};
    const uint64_t u = reference_random(77, round);
    struct norm_call c = {.algo = algo,
                          .dtype = u & 1 ? SYMM_BFLOAT16 : SYMM_FLOAT16,
                          .rows = rows[(u >> 1) % (sizeof rows / sizeof rows[0])],
                          .hidden = hiddens[(u >> 9) % (sizeof hiddens / sizeof hiddens[0])],
                          .eps = u >> 17 & 1 ? 1e-6f : 0.1f,
                          .max_blocks = u >> 18 & 3,
                          .residual = u >> 20 & 3,
                          .weight = u >> 22 & 3,
                          .in_place = u >> 24 & 1,
                          .residual_in_place = u >> 25 & 1,
                          .places = u >> 26 & 3 ? u : 0,
                          .round = round};

    if (c.hidden > most)
        c.hidden = most;
    if (c.rows * c.hidden > most)
        c.rows = most / c.hidden;
    return c;
}

struct plan {
    int ncalls; /* of each algorithm */
    size_t most;
    bool small_blocks; /* few threads add up long chains of squares */
};

WORLD_RANK(run_plan)
{
    const struct plan *plan = arg;
    struct norm_buffers b = {0};
    uint64_t round = 0;

    RANK_TRY(self, norm_open(ctx, plan->most, &b));
    for (int i = 0; i < plan->ncalls; i++)
        for (int a = 0; a < NALGOS; a++) {
            struct norm_call c = draw_call(algos[a], plan->most, ++round);
            if (plan->small_blocks)
                c.relative_error = (12 + (double)c.hidden / 32) * 0x1p-23;
            RANK_TRY(self, norm_try(&c, &b, self, world, NULL));
        }
out:
    norm_close(&b);
}

static void run(int nranks, enum ranks_mode mode, struct plan plan)
{
    ranks_run_ok(nranks, mode, run_plan, &plan, 150);
}

TEST_LOOP(rms_norm, every_world_is_right, 1, 9)
{
    run(_i, RANKS_AS_PROCESSES, (struct plan){.ncalls = 8, .most = MOST});
}

TEST_LOOP(rms_norm, ranks_may_be_threads, 1, 5)
{
    run(_i, RANKS_AS_THREADS, (struct plan){.ncalls = 6, .most = 3000});
}

TEST_LOOP(rms_norm, any_block_size_is_right, 0, 6)
{
    static const char *const sizes[] = {"1", "3", "32", "33", "64", "512"};
    setenv("SYMM_EMULATED_BLOCK", sizes[_i], 1);
    run(3, RANKS_AS_PROCESSES, (struct plan){.ncalls = 6, .most = 3000, .small_blocks = true});
    run(4, RANKS_AS_PROCESSES, (struct plan){.ncalls = 6, .most = 3000, .small_blocks = true});
}

/* Rows that take many epochs. */
TEST_LOOP(rms_norm, rows_larger_than_the_groups_memory_are_right, 0, 5)
{
    static const struct {
        const char *staging;
        int nranks;
    } areas[] = {{"1K", 2}, {"1K", 8}, {"4K", 3}, {"16K", 4}, {"64K", 2}};
    setenv("SYMM_STAGING_BYTES", areas[_i].staging, 1);
    run(areas[_i].nranks, RANKS_AS_PROCESSES, (struct plan){.ncalls = 6, .most = 8192});
}

TEST(rms_norm, counters_wrap)
{
    setenv("SYMM_EPOCH_START", "4294967280", 1);
    run(4, RANKS_AS_PROCESSES, (struct plan){.ncalls = 12, .most = 1000});
}

/* On all ranks, with every algorithm, at any place, in the first areas and in the full ones. */
WORLD_TEST(rms_norm, all_bits_are_the_same, 1 + _i, .loop = {1, 8}, .timeout_s = 100)
{
    struct norm_buffers b = {0};
    uint64_t hashes[SYMM_MAX_RANKS];

    RANK_TRY(self, norm_open(ctx, MOST, &b));
    for (uint64_t round = 0; round < 4; round++) {
        uint64_t first = 0, hash;
        for (int a = 0; a < NALGOS; a++) {
            struct norm_call c = draw_call(algos[a], MOST, round);
            c.places = reference_random(78, round * NALGOS + (uint64_t)a);
            c.max_blocks = (uint32_t)a;
            RANK_TRY(self, norm_try(&c, &b, self, world, &hash));
            RANK_TRY(self, symm_exchange(world, &hash, sizeof hash, hashes));
            first = a ? first : hash;
            for (int r = 0; r < self->nranks; r++)
                CHECK_RANK_MSG(self, hashes[r] == first, "rank %d has other bits: %s", r,
                               norm_text(&c));
        }
    }
out:
    norm_close(&b);
}

/* One row: shared by the blocks of a cluster, then of one block. */
WORLD_TEST(rms_norm, shared_rows_have_the_same_bits, 1 + _i, .loop = {1, 4},
           .env = {{"SYMM_EMULATED_BLOCK", "512"}}, .timeout_s = 100)
{
    static const size_t hiddens[] = {257, 512, 700, 1000, 1024, 2048, 2999, 4097, 5500, 8192};
    struct norm_buffers b = {0};

    RANK_TRY(self, norm_open(ctx, MOST, &b));
    for (size_t h = 0; h < sizeof hiddens / sizeof hiddens[0]; h++) {
        uint64_t shared, whole;
        struct norm_call c = draw_call(SYMM_ALGO_LOW_LATENCY, MOST, h);
        c.rows = 1;
        c.hidden = hiddens[h];
        c.max_blocks = 0;
        RANK_TRY(self, norm_try(&c, &b, self, world, &shared));
        c.max_blocks = 1;
        RANK_TRY(self, norm_try(&c, &b, self, world, &whole));
        CHECK_RANK_MSG(self, shared == whole, "a block alone has other bits: %s", norm_text(&c));
        c.algo = SYMM_ALGO_LOW_LATENCY_TWO_SHOT;
        RANK_TRY(self, norm_try(&c, &b, self, world, &whole));
        CHECK_RANK_MSG(self, shared == whole, "two_shot has other bits: %s", norm_text(&c));
    }
out:
    norm_close(&b);
}

/* ---- One call behind another ---- */

enum { CHAIN = 6 };

/* Calls of other shapes and algorithms, with nothing in between, also in a graph. */
WORLD_TEST(rms_norm, calls_follow_each_other, 2 + _i, .loop = {0, 3}, .timeout_s = 100)
{
    struct norm_buffers b[CHAIN] = {{0}};
    struct norm_call calls[CHAIN];
    symm_graph graph = NULL;
    uint64_t round = 100;

    for (int i = 0; i < CHAIN; i++)
        RANK_TRY(self, norm_open(ctx, 5000, &b[i]));
    for (int turn = 0; turn < 6; turn++) {
        const bool captures = turn % 2;
        for (int i = 0; i < CHAIN; i++) {
            calls[i] = draw_call(algos[(turn + i) % NALGOS], 5000, ++round);
            RANK_TRY(self, norm_send(&calls[i], &b[i], self->rank));
            RANK_TRY(self, symm_synchronize(world, b[i].stream));
        }
        exercise_dawdle(self, round);
        if (captures)
            RANK_TRY(self, symm_graph_begin(s));
        for (int i = 0; i < CHAIN; i++)
            RANK_TRY(self, norm_enqueue(&calls[i], &b[i], world, s));
        if (captures) {
            RANK_TRY(self, symm_graph_end(s, &graph));
            RANK_TRY(self, symm_graph_launch(graph, s));
        }
        RANK_TRY(self, symm_synchronize(world, s));
        for (int i = 0; i < CHAIN; i++)
            RANK_TRY(self, norm_check(&calls[i], &b[i], self, world, NULL));
        symm_graph_destroy(graph);
        graph = NULL;
    }
    RANK_TRY(self, exercise_group(self, ctx, world, 5));
out:
    symm_graph_destroy(graph);
    for (int i = 0; i < CHAIN; i++)
        norm_close(&b[i]);
}

/* A graph reads its tensors again at each replay. */
WORLD_TEST(rms_norm, graphs_are_replayed_with_new_data, 3, .timeout_s = 100)
{
    struct norm_buffers b = {0};
    symm_graph graph = NULL;

    RANK_TRY(self, norm_open(ctx, MOST, &b));
    for (int a = 0; a < NALGOS; a++) {
        struct norm_call c = draw_call(algos[a], MOST, 200 + (uint64_t)a);
        RANK_TRY(self, norm_send(&c, &b, self->rank));
        RANK_TRY(self, symm_synchronize(world, b.stream));
        RANK_TRY(self, symm_graph_begin(b.stream));
        RANK_TRY(self, norm_enqueue(&c, &b, world, b.stream));
        RANK_TRY(self, symm_graph_end(b.stream, &graph));
        for (int replay = 0; replay < 5; replay++) {
            c.round += 1000;
            RANK_TRY(self, norm_send(&c, &b, self->rank));
            RANK_TRY(self, symm_graph_launch(graph, b.stream));
            RANK_TRY(self, norm_check(&c, &b, self, world, NULL));
        }
        symm_graph_destroy(graph);
        graph = NULL;
    }
out:
    symm_graph_destroy(graph);
    norm_close(&b);
}

/* Two groups of the same ranks at a time: odd ranks begin with the other one. */
WORLD_TEST(rms_norm, two_groups_are_apart, 4, .env = {{"SYMM_CHECK", "0"}}, .timeout_s = 100)
{
    struct norm_buffers b[2] = {{0}};
    symm_group *groups[2] = {world, NULL};

    RANK_TRY(self, group_of_all(world, &groups[1]));
    for (int g = 0; g < 2; g++)
        RANK_TRY(self, norm_open(ctx, 5000, &b[g]));
    for (uint64_t round = 0; round < 8; round++) {
        struct norm_call calls[2];
        for (int g = 0; g < 2; g++) {
            calls[g] = draw_call(algos[(round + (uint64_t)g) % NALGOS], 5000,
                                 300 + 2 * round + (uint64_t)g);
            RANK_TRY(self, norm_send(&calls[g], &b[g], self->rank));
        }
        for (int i = 0; i < 2; i++) {
            const int g = (i + self->rank) % 2;
            RANK_TRY(self, norm_enqueue(&calls[g], &b[g], groups[g], b[g].stream));
        }
        for (int g = 0; g < 2; g++)
            RANK_TRY(self, norm_check(&calls[g], &b[g], self, groups[g], NULL));
    }
out:
    for (int g = 0; g < 2; g++)
        norm_close(&b[g]);
    symm_group_destroy(groups[1]);
}

/* ---- Calls that go wrong ---- */

enum { ROWS = 3, HIDDEN = 40, COUNT = ROWS * HIDDEN };

static symm_rms_norm good(const struct norm_buffers *b)
{
    return (symm_rms_norm){.in = b->symmetric[NORM_IN],
                           .residual = b->symmetric[NORM_RESIDUAL],
                           .weight = b->symmetric[NORM_WEIGHT],
                           .out = b->foreign[NORM_OUT],
                           .residual_out = b->foreign[NORM_RESIDUAL_OUT],
                           .rows = ROWS,
                           .hidden = HIDDEN,
                           .eps = 1e-5f};
}

#define CALL(norm, dtype, ...)                                                                     \
    symm_all_reduce_rms_norm(world, (norm), dtype, &(symm_options){__VA_ARGS__}, s)
/* A tensor that differs from those of the good call. The text names call and rank. */
#define BAD(part, ...)                                                                             \
    do {                                                                                           \
        symm_rms_norm n = good(&b);                                                                \
        __VA_ARGS__;                                                                               \
        RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, part, CALL(&n, SYMM_BFLOAT16, .algo = 0));     \
        RANK_TEXT(self, "symm_all_reduce_rms_norm");                                               \
        RANK_TEXT(self, self->rank ? "rank 1" : "rank 0");                                         \
    } while (0)

WORLD_TEST(rms_norm, bad_arguments_are_named, 1 + _i, .loop = {0, 2})
{
    struct norm_buffers b = {0};
    void *freed = NULL;
    float scale = 2;

    RANK_TRY(self, norm_open(ctx, 4096, &b));
    RANK_TRY(self, symm_alloc(world, 4096, &freed));
    RANK_TRY(self, symm_free(world, freed));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "norm is NULL", CALL(NULL, SYMM_BFLOAT16, 0));
    BAD("norm->hidden is 0", n.hidden = 0);
    BAD("norm->hidden is 4294967296; the most is 4294967295", n.hidden = (size_t)1 << 32);
    BAD("norm->hidden is 34359738368", n.hidden = (size_t)1 << 35);
    BAD("overflow", n.rows = SIZE_MAX / 2);
    BAD("overflow", n.rows = SIZE_MAX / HIDDEN);
    BAD("norm->eps is -1", n.eps = -1);
    BAD("norm->eps is nan", n.eps = NAN);
    BAD("norm->eps is inf", n.eps = INFINITY);
    BAD("norm->reserved[8] is 7, not 0", n.reserved[8] = 7);
    BAD("in is NULL and count is 120", n.in = NULL);
    BAD("out is NULL and count is 120", n.out = NULL);
    BAD("residual_out is NULL and count is 120", n.residual_out = NULL);
    BAD("in 0x", n.in = (const char *)n.in + 1);
    BAD("weight 0x", n.weight = (const char *)n.weight + 1);
    BAD("residual 0x", n.residual = (const char *)n.residual + 1);
    BAD("residual_out 0x", n.residual_out = (char *)n.residual_out + 1);
    BAD("overlap", n.out = (char *)(uintptr_t)n.in + 2);
    BAD("overlap", n.residual_out = (char *)(uintptr_t)n.residual + 2);
    BAD("and residual_out 0x", n.residual_out = n.out);
    BAD("in 0x", n.residual_out = (char *)(uintptr_t)n.in + 2 * COUNT - 2);
    BAD("residual 0x", n.out = (char *)(uintptr_t)n.residual);
    BAD("weight 0x", n.out = (char *)(uintptr_t)n.weight);
    BAD("weight 0x", n.residual_out = (char *)(uintptr_t)n.weight + 2 * HIDDEN - 2);
    BAD("residual: ", n.residual = freed);
    BAD("weight: ", n.weight = freed);
    BAD("residual_out: ", n.residual_out = freed);
    BAD("in: ", n.in = b.symmetric[NORM_IN] + b.nbytes - 2 * COUNT + 2);
    const symm_rms_norm n = good(&b);
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "flags 0x8", CALL(&n, SYMM_FLOAT16, .flags = 8));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_UNSUPPORTED, "float16 and bfloat16 only",
                     CALL(&n, SYMM_FLOAT32, .algo = 0));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_UNSUPPORTED, "no such algorithm",
                     CALL(&n, SYMM_FLOAT16, .algo = SYMM_ALGO_TWO_SHOT));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_UNSUPPORTED, "a norm has none",
                     CALL(&n, SYMM_FLOAT16, .scale = &scale));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "group is NULL",
                     symm_all_reduce_rms_norm(NULL, &n, SYMM_FLOAT16, NULL, s));
    /* Nothing has happened: the group works. */
    RANK_TRY(self, CALL(&(symm_rms_norm){.hidden = 5}, SYMM_FLOAT16, .flags = SYMM_SYMMETRIC));
    const struct norm_call c = draw_call(SYMM_ALGO_AUTO, 4096, 1);
    RANK_TRY(self, norm_try(&c, &b, self, world, NULL));
out:
    norm_close(&b);
}

WORLD_TEST(rms_norm, the_reasons_are_those_of_the_call, 2)
{
    for (int a = 0; a < NALGOS; a++)
        CHECK_RANK(self, !symm_all_reduce_rms_norm_unavailable(world, algos[a], SYMM_FLOAT16));
    CHECK_RANK(self, symm_all_reduce_rms_norm_unavailable(world, algos[0], SYMM_FLOAT64));
    CHECK_RANK(self, symm_all_reduce_rms_norm_unavailable(world, SYMM_ALGO_AUTO, SYMM_FLOAT8_E4M3));
    CHECK_RANK(self, symm_all_reduce_rms_norm_unavailable(world, SYMM_ALGO_ONE_SHOT, SYMM_FLOAT16));
    CHECK_RANK(self, symm_all_reduce_rms_norm_unavailable(NULL, algos[0], SYMM_FLOAT16));
out:;
}

/* Rank 1 makes another call: the host notices with SYMM_CHECK, else the kernels do. */
static const struct differing {
    const char *check, *part;
    symm_algo algo;
    size_t rows, hidden;
    float eps;
} differing[] = {
    {"1", "hidden 20", SYMM_ALGO_AUTO, 6, 20, 1e-5f},
    {"1", "eps 0.5", SYMM_ALGO_LOW_LATENCY, ROWS, HIDDEN, 0.5f},
    {"0", "modulo 509", SYMM_ALGO_LOW_LATENCY, ROWS, HIDDEN + 1, 1e-5f},
    {"0", "modulo 509", SYMM_ALGO_LOW_LATENCY_TWO_SHOT, ROWS - 1, HIDDEN, 1e-5f},
    {"0", "hidden 60", SYMM_ALGO_LAMPORT, 2, 60, 1e-5f},
    {"0", "hidden 35", SYMM_ALGO_LAMPORT, 3, 35, 1e-5f}, /* as many blocks, and the same sum */
};

WORLD_TEST(rms_norm, different_calls_are_a_mismatch, 3, .arg = &(int){_i},
           .env = {{"SYMM_CHECK", differing[_i].check}, {"SYMM_TIMEOUT_MS", "10000"}},
           .loop = {0, sizeof differing / sizeof differing[0]})
{
    const struct differing *d = &differing[*(const int *)arg];
    struct norm_buffers b = {0};
    symm_status st;

    RANK_TRY(self, norm_open(ctx, 4096, &b));
    RANK_TRY(self, symm_exchange(world, NULL, 0, NULL));
    symm_rms_norm n = good(&b);
    if (self->rank == 1) {
        n.rows = d->rows;
        n.hidden = d->hidden;
        n.eps = d->eps;
    }
    st = CALL(&n, SYMM_BFLOAT16, .algo = d->algo);
    if (st == SYMM_OK)
        st = symm_synchronize(world, s);
    RANK_EXPECT_TEXT(self, SYMM_ERROR_MISMATCH, d->part, st);
out:
    norm_close(&b);
}

/* The last rank aborts, or dies, instead of calling. */
static symm_status wait_in_vain(struct rank *self, symm_group *world, const struct norm_buffers *b,
                                int a, symm_stream s)
{
    const symm_rms_norm n = good(b);

    RANK_TRY(self, CALL(&n, SYMM_BFLOAT16, .algo = algos[a]));
    RANK_EXPECT(self, SYMM_ERROR_PEER, symm_synchronize(world, s));
    RANK_EXPECT(self, SYMM_ERROR_PEER, CALL(&n, SYMM_BFLOAT16, .algo = algos[a]));
out:
    return self->report->status;
}

WORLD_TEST(rms_norm, an_abort_ends_a_call_that_waits, 3, .arg = &(int){_i},
           .env = {{"SYMM_CHECK", "0"}, {"SYMM_TIMEOUT_MS", "30000"}}, .loop = {0, NALGOS})
{
    struct norm_buffers b = {0};

    RANK_TRY(self, norm_open(ctx, 4096, &b));
    RANK_TRY(self, symm_exchange(world, NULL, 0, NULL));
    if (self->rank == 2) {
        pause_ms(100);
        symm_abort(world, "enough");
    } else {
        wait_in_vain(self, world, &b, *(const int *)arg, s);
    }
out:
    norm_close(&b);
}

WORLD_TEST(rms_norm, a_death_ends_a_call_that_waits, 3, .arg = &(int){_i}, .lost = 1 << 2,
           .env = {{"SYMM_CHECK", "0"}, {"SYMM_TIMEOUT_MS", "30000"}}, .loop = {0, NALGOS})
{
    struct norm_buffers b = {0};

    RANK_TRY(self, norm_open(ctx, 4096, &b));
    RANK_TRY(self, symm_exchange(world, NULL, 0, NULL));
    if (self->rank == 2) {
        pause_ms(100);
        _Exit(7);
    }
    wait_in_vain(self, world, &b, *(const int *)arg, s);
out:
    norm_close(&b);
}
