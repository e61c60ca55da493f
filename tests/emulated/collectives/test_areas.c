/* A group's areas: 2 MiB at first, the full ones by a vote of the first call that wants them. */
#include <string.h>
#include "emulated.h"
#include "exercise.h"
#include "runtime/group/context.h"
#include "test.h"
#include "trial.h"
#include "world.h"

enum {
    MIB = 1 << 20,
    GROUPS = 24,
    LARGE = 300000 /* floats: more than the first areas take at once */
};

/* The tests' default has full areas from the beginning. */
#define STAGING                                                                                    \
    {                                                                                              \
        "SYMM_STAGING_BYTES", "16M"                                                                \
    }

TEST_GROUP(areas, 120);

#define CALL(OPERATION, ALGO, COUNT)                                                               \
    {                                                                                              \
        .operation = OPERATION, .algo = SYMM_ALGO_##ALGO, .dtype = SYMM_FLOAT32, .op = SYMM_SUM,   \
        .count = COUNT                                                                             \
    }
static const struct collective small = CALL(ALL_REDUCE, AUTO, 4096),
                               medium = CALL(ALL_REDUCE, AUTO, 20000),
                               large = CALL(ALL_REDUCE, AUTO, LARGE);

static uint64_t internal(symm_context *ctx)
{
    symm_usage usage = {0};

    return symm_memory_usage(ctx, &usage) == SYMM_OK ? usage.internal : 0;
}

/* ---- Size ---- */

WORLD_TEST(areas, twenty_four_groups_take_2_mib_each, 4, .env = {STAGING})
{
    symm_group *groups[GROUPS] = {NULL};
    const int ranks[] = {0, 1, 2, 3};
    struct trial_buffers b = {0};

    RANK_TRY(self, trial_open(ctx, 4096 * 4, &b));
    for (int i = 0; i < GROUPS; i++) {
        const uint64_t before = internal(ctx);
        RANK_TRY(self, symm_group_create(world, 4, ranks, &groups[i]));
        CHECK_RANK_MSG(self, internal(ctx) - before <= 2 * MIB, "%llu bytes",
                       (unsigned long long)(internal(ctx) - before));
    }
    for (int i = 0; i < GROUPS; i++) {
        const uint64_t before = internal(ctx);
        RANK_TRY(self, trial_call(self, groups[i], &b, FOREIGN, &small));
        CHECK_RANK(self, internal(ctx) == before);
    }
out:
    for (int i = 0; i < GROUPS; i++)
        symm_group_destroy(groups[i]);
    trial_close(&b);
}

/* ---- The first large call ---- */

static const struct collective wanting[] = {
    CALL(ALL_REDUCE, AUTO, LARGE),
    CALL(ALL_REDUCE, LOW_LATENCY, LARGE),
    CALL(ALL_REDUCE, LOW_LATENCY_TWO_SHOT, LARGE),
    CALL(ALL_REDUCE, ONE_SHOT, 2 * LARGE),
    CALL(ALL_REDUCE, TWO_SHOT, 2 * LARGE),
    CALL(REDUCE_SCATTER, AUTO, LARGE),
    CALL(ALL_GATHER, AUTO, LARGE),
    CALL(BROADCAST, AUTO, LARGE),
    CALL(REDUCE_SCATTER, COPY_ENGINE, 1000),
};
enum { NWANTING = sizeof wanting / sizeof wanting[0] };

WORLD_TEST(areas, the_first_call_that_wants_them_makes_them_once, 3, .arg = &(int){_i},
           .loop = {0, NWANTING}, .env = {STAGING})
{
    const struct collective *c = &wanting[*(int *)arg];
    const size_t nbytes = collective_out_nbytes(c, 3) + collective_in_nbytes(c, 3);
    struct trial_buffers b = {0};
    uint64_t before, made;

    RANK_TRY(self, trial_open(ctx, nbytes, &b));
    RANK_TRY(self, trial_call(self, world, &b, SYMMETRIC, &small));
    before = internal(ctx);
    RANK_TRY(self, trial_call(self, world, &b, SYMMETRIC, c));
    made = internal(ctx);
    CHECK_RANK_MSG(self, made - before > 8 * MIB, "%llu, %llu", (unsigned long long)before,
                   (unsigned long long)made);
    RANK_TRY(self, trial_call(self, world, &b, FOREIGN, c));
    RANK_TRY(self, trial_call(self, world, &b, FOREIGN, &small));
    CHECK_RANK(self, internal(ctx) == made);
out:
    trial_close(&b);
}

/* SYMM_CHECK=0: the vote on the areas finds the difference. */
WORLD_TEST(areas, large_calls_that_differ_are_a_mismatch, 2,
           .env = {STAGING, {"SYMM_CHECK", "0"}, {"SYMM_TIMEOUT_MS", "20000"}})
{
    struct collective c = large;
    struct trial_buffers b = {0};

    c.count += (size_t)self->rank;
    RANK_TRY(self, trial_open(ctx, (LARGE + 1) * sizeof(float), &b));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_MISMATCH, "count 300001",
                     collective_call(&c, world, b.foreign[0], b.foreign[1], b.stream));
    RANK_TEXT(self, "areas");
out:
    trial_close(&b);
}

/* ---- Graphs ---- */

static symm_status capture(symm_group *world, const struct trial_buffers *b,
                           const struct collective *c, symm_graph *graph)
{
    symm_status st = symm_graph_begin(b->stream);

    if (st == SYMM_OK)
        st = collective_call(c, world, b->foreign[0], b->foreign[1], b->stream);
    return st == SYMM_OK ? symm_graph_end(b->stream, graph) : st;
}

/* Runs the graph of a call on new data. *wrong: number of wrong elements. */
static symm_status replay(struct rank *self, symm_group *world, const struct trial_buffers *b,
                          struct collective c, symm_graph graph, uint64_t round, int64_t *wrong)
{
    const size_t nbytes = c.count * sizeof(float);
    symm_status st;

    c.round = round;
    collective_fill(&c, self->rank, self->nranks, b->sent[0]);
    memset(b->got, 0xff, nbytes);
    st = symm_copy(b->foreign[0], b->sent[0], nbytes, b->stream);
    if (st == SYMM_OK)
        st = symm_fill(b->foreign[1], 0xff, nbytes, b->stream);
    if (st == SYMM_OK)
        st = symm_graph_launch(graph, b->stream);
    if (st == SYMM_OK)
        st = symm_copy(b->got, b->foreign[1], nbytes, b->stream);
    if (st == SYMM_OK)
        st = symm_synchronize(world, b->stream);
    *wrong = collective_wrong(&c, self->rank, self->nranks, b->got);
    return st;
}

/* Graphs on the first areas stay right beside calls on the full ones. */
WORLD_TEST(areas, a_captured_call_takes_what_there_is, 3, .env = {STAGING})
{
    struct trial_buffers b = {0};
    symm_graph graphs[2] = {NULL, NULL};
    uint64_t before;
    int64_t wrong;

    RANK_TRY(self, trial_open(ctx, LARGE * sizeof(float), &b));
    before = internal(ctx);
    RANK_TRY(self, capture(world, &b, &large, &graphs[0]));
    CHECK_RANK(self, internal(ctx) == before);
    RANK_TRY(self, replay(self, world, &b, large, graphs[0], 1, &wrong));
    CHECK_RANK(self, wrong == 0);
    RANK_TRY(self, trial_call(self, world, &b, FOREIGN, &large));
    CHECK_RANK(self, internal(ctx) > before);
    RANK_TRY(self, capture(world, &b, &large, &graphs[1]));
    for (uint64_t i = 2; i < 10; i++) {
        RANK_TRY(self, replay(self, world, &b, large, graphs[i % 2], i, &wrong));
        CHECK_RANK_MSG(self, wrong == 0, "%lld wrong in replay %d", (long long)wrong, (int)i);
        RANK_TRY(self, trial_call(self, world, &b, FOREIGN, i % 3 ? &large : &small));
    }
out:
    symm_graph_destroy(graphs[0]);
    symm_graph_destroy(graphs[1]);
    trial_close(&b);
}

/* ---- symm_group_reserve ---- */

WORLD_TEST(areas, reserve_makes_them_once, 2, .env = {STAGING})
{
    uint64_t before = internal(ctx), made;
    symm_usage usage;

    RANK_TRY(self, symm_group_reserve(world, 5 * MIB));
    made = internal(ctx) - before;
    CHECK_RANK_MSG(self, made > 6 * MIB && made < 7 * MIB, "%llu", (unsigned long long)made);
    RANK_TRY(self, symm_group_reserve(world, 5 * MIB));
    RANK_TRY(self, symm_group_reserve(world, MIB));
    CHECK_RANK(self, internal(ctx) == before + made);
    RANK_TRY(self, symm_group_reserve(world, 0)); /* SYMM_STAGING_BYTES, which is more */
    CHECK_RANK(self, internal(ctx) > before + made + 16 * MIB);
    RANK_TRY(self, symm_memory_usage(ctx, &usage));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "the window has",
                     symm_group_reserve(world, usage.window + 1));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "group is NULL", symm_group_reserve(NULL, 0));
    RANK_TRY(self, exercise_group(self, ctx, world, 3));
out:;
}

/* Smaller full areas serve the graphs that have them, as long as the group lives. */
WORLD_TEST(areas, reserve_makes_larger_ones, 2)
{
    struct trial_buffers b = {0};
    symm_graph graph = NULL;
    int64_t wrong;

    RANK_TRY(self, trial_open(ctx, medium.count * sizeof(float), &b));
    RANK_TRY(self, capture(world, &b, &medium,
                           &graph)); /* in areas of the tests' default size, 256 KiB */
    RANK_TRY(self, symm_group_reserve(world, 4 * MIB));
    CHECK_RANK(self, world->full.size.staging_nbytes == 4 * MIB);
    for (uint64_t i = 0; i < 4; i++) {
        RANK_TRY(self, trial_call(self, world, &b, FOREIGN, &medium));
        RANK_TRY(self, replay(self, world, &b, medium, graph, i, &wrong));
        CHECK_RANK(self, wrong == 0);
    }
out:
    symm_graph_destroy(graph);
    trial_close(&b);
}

/* A rank that fails before its vote is not waited for, also if nothing is to be made. */
WORLD_TEST(areas, a_reserve_that_fails_on_one_rank_fails_on_all, 3, .env = {STAGING})
{
    for (int i = 0; i < 2; i++) {
        if (self->rank == 1)
            emulated_set_fault("cuCtxGetCurrent#1=999");
        RANK_EXPECT_TEXT(self, SYMM_ERROR_DRIVER, "cuCtxGetCurrent", symm_group_reserve(world, 0));
        emulated_set_fault(NULL);
        RANK_TRY(self, symm_group_reserve(world, 0));
    }
    RANK_TRY(self, exercise_group(self, ctx, world, 3));
out:;
}

WORLD_TEST(areas, one_rank_needs_none, 1, .env = {STAGING})
{
    const uint64_t before = internal(ctx);

    RANK_TRY(self, symm_group_reserve(world, 0));
    CHECK_RANK(self, internal(ctx) == before);
    RANK_TRY(self, exercise_group(self, ctx, world, 3));
out:;
}

WORLD_TEST(areas, ranks_that_reserve_differently_are_a_mismatch, 2, .env = {STAGING})
{
    const uint64_t before = internal(ctx);

    RANK_EXPECT_TEXT(self, SYMM_ERROR_MISMATCH, "symm_group_reserve(1048577 bytes)",
                     symm_group_reserve(world, MIB + (size_t)self->rank));
    CHECK_RANK(self, internal(ctx) == before);
    RANK_TRY(self, symm_group_reserve(world, 3 * MIB));
    RANK_TRY(self, exercise_group(self, ctx, world, 3));
out:;
}

/* A group that goes gives its areas back. */
WORLD_TEST(areas, a_destroyed_group_leaves_nothing, 3, .env = {STAGING})
{
    const uint64_t before = internal(ctx);
    const int ranks[] = {0, 1, 2};
    symm_group *group = NULL;

    for (int i = 0; i < 3; i++) {
        RANK_TRY(self, symm_group_create(world, 3, ranks, &group));
        RANK_TRY(self, symm_group_reserve(group, 4 * MIB));
        RANK_TRY(self, exercise_group(self, ctx, group, 3));
        RANK_TRY(self, symm_group_destroy(group));
        group = NULL;
        CHECK_RANK(self, internal(ctx) == before);
    }
out:
    symm_group_destroy(group);
}

/* ---- Failures ---- */

/* Rank 1 has no memory for the full areas: every rank goes on without them, and asks no more. */
WORLD_TEST(areas, without_memory_for_them_a_call_is_slower_and_right, 3,
           .env = {
               STAGING, {"SYMM_SEGMENT_BYTES", "2M"}, {"SYMM_EMULATED_FAULT", "cuMemCreate@1#4=2"}})
{
    struct trial_buffers b = {0};
    uint64_t before;

    RANK_TRY(self, trial_open(ctx, LARGE * sizeof(float), &b));
    before = internal(ctx);
    for (int i = 0; i < 3; i++) {
        RANK_TRY(self, trial_call(self, world, &b, FOREIGN, &large));
        CHECK_RANK(self, internal(ctx) == before);
    }
    RANK_TRY(self, symm_group_reserve(world, 0));
    CHECK_RANK(self, internal(ctx) > before);
    RANK_TRY(self, trial_call(self, world, &b, FOREIGN, &large));
out:
    trial_close(&b);
}

/* The last step on rank 2 fails, clearing them: reserve fails on all ranks, and works again. */
WORLD_TEST(areas, areas_that_cannot_be_cleared_are_freed, 3,
           .env = {STAGING, {"SYMM_EMULATED_FAULT", "cuMemsetD8Async@2#5=999"}})
{
    const uint64_t before = internal(ctx);

    RANK_EXPECT_TEXT(self, SYMM_ERROR_DRIVER, "(on rank 2)", symm_group_reserve(world, 0));
    CHECK_RANK(self, internal(ctx) == before);
    RANK_TRY(self, symm_group_reserve(world, 0));
    RANK_TRY(self, exercise_group(self, ctx, world, 3));
out:;
}

/* A rank dies while the others vote. */
WORLD_TEST(areas, a_death_ends_the_vote, 3, .env = {STAGING, {"SYMM_TIMEOUT_MS", "30000"}})
{
    struct trial_buffers b = {0};

    RANK_TRY(self, trial_open(ctx, LARGE * sizeof(float), &b));
    if (self->rank == 2)
        symm_abort(world, "enough");
    else
        RANK_EXPECT_TEXT(self, SYMM_ERROR_PEER, "enough",
                         collective_call(&large, world, b.foreign[0], b.foreign[1], b.stream));
out:
    trial_close(&b);
}
