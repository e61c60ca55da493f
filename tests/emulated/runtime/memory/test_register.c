/* symm_register(): memory of other code as symmetric memory. */
#include <stdlib.h>
#include <string.h>
#include <dlpack/dlpack.h>
#include <symm/dlpack.h>
#include <symm/names.h>
#include "exercise.h"
#include "leaks.h"
#include "reference.h"
#include "test.h"
#include "their_memory.h"
#include "world.h"

enum { PIECE = 2 << 20, AT = 4096, NBYTES = 100000 };

TEST_GROUP(use, 120);

/* Bytes written through either address are read through the other one, on all ranks. */
WORLD_TEST(use, both_addresses_are_one_memory, 4, .loop = {0, 2})
{
    struct their_memory theirs = {.ctx = NULL};
    char *x = NULL, *host = malloc(NBYTES);
    const int n = self->nranks, to = (self->rank + 1) % n, from = (self->rank + n - 1) % n;
    CHECK_RANK(self, their_memory_make(ctx, PIECE, true, &theirs));
    RANK_TRY(self, symm_register(world, theirs.at + AT, NBYTES, (void **)&x));
    CHECK_RANK(self, x && x != theirs.at + AT && symm_alloc_nbytes(world, x) == NBYTES);
    CHECK_RANK(self, !symm_peer(world, x - 1, to) && !symm_peer(world, theirs.at + AT, to));
    for (uint64_t round = 0; round < 2; round++) {
        reference_poison(host, NBYTES, round * 100 + (uint64_t)self->rank);
        RANK_TRY(self, symm_put(world, x, host, NBYTES, to, s));
        RANK_TRY(self, symm_barrier(world, s));
        RANK_TRY(self, symm_copy(host, theirs.at + AT, NBYTES, s));
        RANK_TRY(self, symm_synchronize(world, s));
        self->report->wrong += reference_poison_wrong(host, NBYTES, round * 100 + (uint64_t)from);
        reference_poison(host, NBYTES, round * 100 + 50 + (uint64_t)self->rank);
        RANK_TRY(self, symm_copy(theirs.at + AT, host, NBYTES, s));
        RANK_TRY(self, symm_barrier(world, s));
        RANK_TRY(self, symm_get(world, host, x, NBYTES, from, s));
        RANK_TRY(self, symm_barrier(world, s));
        RANK_TRY(self, symm_synchronize(world, s));
        self->report->wrong +=
            reference_poison_wrong(host, NBYTES, round * 100 + 50 + (uint64_t)from);
    }
out:
    symm_free(world, x);
    their_memory_free(&theirs);
    free(host);
}

/* A sum in registered memory; the data come and go by `at`. */
static symm_status sum(struct rank *self, symm_group *group, symm_algo algo, char *at, char *x,
                       symm_stream s)
{
    enum { COUNT = 20000 };
    const symm_options options = {.algo = algo, .flags = SYMM_SYMMETRIC};
    const uint64_t round = 17 + (uint64_t)algo;
    float *host = malloc(COUNT * sizeof *host);
    symm_status st;

    reference_fill(host, COUNT, SYMM_FLOAT32, round, self->rank);
    st = symm_copy(at, host, COUNT * sizeof *host, s);
    if (st == SYMM_OK)
        st = symm_all_reduce(group, x, x, COUNT, SYMM_FLOAT32, SYMM_SUM, &options, s);
    if (st == SYMM_OK)
        st = symm_copy(host, at, COUNT * sizeof *host, s);
    if (st == SYMM_OK)
        st = symm_synchronize(group, s);
    if (st == SYMM_OK)
        self->report->wrong += reference_wrong(host, 0, COUNT, SYMM_FLOAT32, round, self->nranks,
                                               (enum reference_bound)exercise_bound(algo));
    free(host);
    return st;
}

WORLD_TEST(use, every_algorithm_works_in_it, _i + 1, .loop = {0, 8})
{
    struct their_memory theirs = {.ctx = NULL};
    char *x = NULL;
    CHECK_RANK(self, their_memory_make(ctx, PIECE, true, &theirs));
    RANK_TRY(self, symm_register(world, theirs.at, PIECE, (void **)&x));
    for (symm_algo algo = SYMM_ALGO_AUTO; symm_algo_name(algo); algo++)
        if (!symm_all_reduce_unavailable(world, algo, SYMM_FLOAT32, SYMM_SUM))
            RANK_TRY(self, sum(self, world, algo, theirs.at, x, s));
out:
    symm_free(world, x);
    their_memory_free(&theirs);
}

WORLD_TEST(use, another_group_of_the_same_ranks_may_use_it, 3)
{
    struct their_memory theirs = {.ctx = NULL};
    symm_group *g = NULL;
    char *x = NULL;
    CHECK_RANK(self, their_memory_make(ctx, PIECE, true, &theirs));
    RANK_TRY(self, group_of_all(world, &g));
    RANK_TRY(self, symm_register(world, theirs.at, PIECE, (void **)&x));
    RANK_TRY(self, sum(self, g, SYMM_ALGO_TWO_SHOT, theirs.at, x, s));
    RANK_EXPECT(self, SYMM_ERROR_ARGUMENT, symm_free(g, x));
    RANK_TRY(self, symm_free(world, x));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "freed memory", symm_free(world, x));
    x = NULL;
out:
    symm_free(world, x);
    symm_group_destroy(g);
    their_memory_free(&theirs);
}

TEST_GROUP(life, 120);

/* Everything goes with symm_free(): handles, mappings, descriptors, and the place in the window. */
WORLD_TEST(life, many_rounds_leave_everything_as_it_was, 2, .env = {{"SYMM_WINDOW_BYTES", "64M"}})
{
    enum { ROUNDS = 25, LIVE = 5 };
    struct their_memory theirs[LIVE] = {{.ctx = NULL}};
    void *x[LIVE] = {NULL};
    symm_usage before, during, after;
    struct leaks held;
    char text[512];
    RANK_TRY(self, symm_trim(world));
    RANK_TRY(self, symm_memory_usage(ctx, &before));
    const size_t available = exercise_free_memory(ctx);
    leaks_take(&held);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        const uint64_t i = reference_random(1, round) % LIVE;
        const size_t nbytes = (1 + reference_random(2, round) % 3) * PIECE;
        RANK_TRY(self, symm_free(world, x[i]));
        x[i] = NULL;
        their_memory_free(&theirs[i]);
        CHECK_RANK(self, their_memory_make(ctx, nbytes, true, &theirs[i]));
        RANK_TRY(self, symm_register(world, theirs[i].at, nbytes - round, &x[i]));
        RANK_TRY(self, symm_memory_usage(ctx, &during));
        CHECK_RANK(self, during.registered >= nbytes - round);
        CHECK_RANK(self, during.segments == before.segments &&
                             during.allocated == before.allocated && during.pending == 0);
    }
    RANK_TRY(self, symm_trim(world)); /* which leaves registered memory alone */
    for (int i = 0; i < LIVE; i++)
        RANK_TRY(self, symm_free(world, x[(i + self->rank * 2) % LIVE]));
    for (int i = 0; i < LIVE; i++)
        their_memory_free(&theirs[i]);
    RANK_TRY(self, symm_exchange(world, NULL, 0, NULL));
    RANK_TRY(self, symm_memory_usage(ctx, &after));
    CHECK_RANK(self, memcmp(&before, &after, sizeof before) == 0);
    const bool none = leaks_none_since(&held, text, sizeof text);
    CHECK_RANK_MSG(self, none, "%s", text);
    CHECK_RANK(self, exercise_free_memory(ctx) == available && available);
out:;
}

/* The other rank's mapping keeps the memory, as its owner and this rank have released it. */
WORLD_TEST(life, it_stays_on_the_ranks_that_have_not_freed_it, 2)
{
    struct their_memory theirs = {.ctx = NULL};
    char *x = NULL, host[1000];
    symm_usage usage;
    CHECK_RANK(self, their_memory_make(ctx, PIECE, true, &theirs));
    reference_poison(host, sizeof host, (uint64_t)self->rank);
    RANK_TRY(self, symm_register(world, theirs.at, PIECE, (void **)&x));
    RANK_TRY(self, symm_copy(theirs.at, host, sizeof host, s));
    RANK_TRY(self, symm_synchronize(world, s));
    RANK_TRY(self, symm_exchange(world, NULL, 0, NULL));
    if (self->rank == 1) {
        RANK_TRY(self, symm_free(world, x));
        their_memory_free(&theirs);
        x = NULL;
        RANK_TRY(self, symm_memory_usage(ctx, &usage)); /* nothing was freed before */
        CHECK_RANK(self, usage.pending == 0 && usage.registered == 0);
    }
    RANK_TRY(self, symm_exchange(world, NULL, 0, NULL));
    if (self->rank == 0) {
        RANK_TRY(self, symm_get(world, host, x, sizeof host, 1, s));
        RANK_TRY(self, symm_synchronize(world, s));
        self->report->wrong += reference_poison_wrong(host, sizeof host, 1);
        RANK_TRY(self, symm_free(world, x));
        x = NULL;
    }
    RANK_TRY(self, exercise_group(self, ctx, world, 4));
out:
    symm_free(world, x);
    their_memory_free(&theirs);
}

WORLD_TEST(life, a_group_a_context_and_a_tensor_end_with_it, 2)
{
    struct their_memory theirs = {.ctx = NULL};
    symm_group *g = NULL;
    symm_tensor tensor;
    DLManagedTensor *managed = NULL;
    symm_usage usage;
    const int64_t shape[] = {1000};
    void *x = NULL, *left = NULL;
    CHECK_RANK(self, their_memory_make(ctx, PIECE, true, &theirs));
    RANK_TRY(self, group_of_all(world, &g));
    for (int i = 0; i < 3; i++)
        RANK_TRY(self, symm_register(g, theirs.at, PIECE, &x)); /* the same one thrice */
    RANK_TRY(self, symm_group_destroy(g));
    g = NULL;
    RANK_TRY(self, symm_memory_usage(ctx, &usage));
    CHECK_RANK(self, usage.registered == 0);
    RANK_TRY(self, symm_register(world, theirs.at, PIECE, &x));
    RANK_TRY(self, symm_tensor_of(x, SYMM_FLOAT32, 1, shape, NULL, &tensor));
    RANK_TRY(self, symm_tensor_to_dlpack(world, &tensor, SYMM_DLPACK_GIVE, &managed));
    RANK_EXPECT(self, SYMM_ERROR_ARGUMENT, symm_free(world, x));
    managed->deleter(managed);
    RANK_TRY(self, symm_memory_usage(ctx, &usage));
    CHECK_RANK(self, usage.registered == 0);
    RANK_TRY(self, symm_register(world, theirs.at, PIECE, &left)); /* the context frees it */
out:
    symm_group_destroy(g);
    their_memory_free(&theirs);
}

TEST_GROUP(refusals, 60);

WORLD_TEST(refusals, wrong_memory_is_named, 3)
{
    struct their_memory theirs = {.ctx = NULL}, private = {.ctx = NULL};
    char *plain = NULL, *mine = NULL;
    void *x = (void *)1;
    CHECK_RANK(self, their_memory_make(ctx, PIECE, true, &theirs) &&
                         their_memory_make(ctx, PIECE, false, &private));
    RANK_TRY(self, symm_device_alloc(ctx, PIECE, (void **)&plain));
    RANK_TRY(self, symm_alloc(world, PIECE, (void **)&mine));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "theirs is NULL",
                     symm_register(world, NULL, PIECE, &x));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "nbytes is 0",
                     symm_register(world, theirs.at, 0, &x));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "out is NULL",
                     symm_register(world, theirs.at, PIECE, NULL));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "ends after 2097052",
                     symm_register(world, theirs.at + 100, PIECE, &x));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "not memory of the driver",
                     symm_register(world, &x, 8, &x));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "symmetric memory already",
                     symm_register(world, mine, PIECE, &x));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_UNSUPPORTED, "not memory of cuMemCreate()",
                     symm_register(world, plain, PIECE, &x));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_UNSUPPORTED, "POSIX_FILE_DESCRIPTOR",
                     symm_register(world, private.at, PIECE, &x));
    CHECK_RANK(self, x == (void *)1);
    RANK_TRY(self, exercise_group(self, ctx, world, 5));
out:
    symm_device_free(ctx, plain);
    their_memory_free(&theirs);
    their_memory_free(&private);
}

/* A wrong argument of one rank is an error of all of them, and names it. */
WORLD_TEST(refusals, one_rank_fails_all, 3)
{
    struct their_memory theirs = {.ctx = NULL}, longer = {.ctx = NULL};
    void *x = (void *)1;
    const bool odd = self->rank == 1;
    CHECK_RANK(self, their_memory_make(ctx, PIECE, true, &theirs) &&
                         their_memory_make(ctx, 2 * PIECE, true, &longer));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "rank 1",
                     symm_register(world, odd ? (void *)&x : theirs.at, 8, &x));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_MISMATCH, "at 100 of",
                     symm_register(world, theirs.at + (odd ? 100 : 0), 8, &x));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_MISMATCH, "4194304 bytes",
                     symm_register(world, odd ? longer.at : theirs.at, 8, &x));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_MISMATCH, "symm_register(9 bytes)",
                     symm_register(world, theirs.at, odd ? 9 : 8, &x));
    CHECK_RANK(self, x == (void *)1);
    RANK_TRY(self, symm_register(world, theirs.at, 8, &x));
    RANK_TRY(self, exercise_group(self, ctx, world, 6));
out:
    their_memory_free(&theirs);
    their_memory_free(&longer);
}

WORLD_TEST(refusals, a_window_without_room_takes_nothing, 2,
           .env = {{"SYMM_WINDOW_BYTES", "16M"}, {"SYMM_EMULATED_MEMORY", "128M"}})
{
    struct their_memory theirs = {.ctx = NULL};
    void *x = (void *)1;
    symm_usage before, after;
    CHECK_RANK(self, their_memory_make(ctx, 16 << 20, true, &theirs));
    RANK_TRY(self, symm_memory_usage(ctx, &before));
    RANK_EXPECT(self, SYMM_ERROR_MEMORY, symm_register(world, theirs.at, 8, &x));
    RANK_TRY(self, symm_memory_usage(ctx, &after));
    CHECK_RANK(self, x == (void *)1 && memcmp(&before, &after, sizeof before) == 0);
out:
    their_memory_free(&theirs);
}
