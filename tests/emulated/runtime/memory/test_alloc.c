/* Symmetric memory for users: many buffers, freeing, reuse, usage, failures. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "exercise.h"
#include "leaks.h"
#include "reference.h"
#include "test.h"
#include "world.h"

TEST_GROUP(many, 150);

WORLD_TEST(many, ten_thousand_small_buffers_fit_one_segment, 2,
           .env = {{"SYMM_SEGMENT_BYTES", "64M"}})
{
    enum { MANY = 10000, SIZE = 4096 };
    symm_usage usage;
    char **x = calloc(MANY, sizeof *x);
    for (int i = 0; i < MANY; i++) {
        RANK_TRY(self, symm_alloc(world, SIZE, (void **)&x[i]));
        CHECK_RANK(self, (uintptr_t)x[i] % 1024 == 0);
        CHECK_RANK(self, i == 0 || x[i] >= x[i - 1] + SIZE || x[i] + SIZE <= x[i - 1]);
    }
    RANK_TRY(self, symm_memory_usage(ctx, &usage));
    CHECK_RANK_MSG(self, usage.nsegments == 1, "%llu segments",
                   (unsigned long long)usage.nsegments);
    CHECK_RANK(self,
               usage.requested >= (uint64_t)MANY * SIZE && usage.allocated >= usage.requested);
    for (int i = 0; i < MANY; i++)
        RANK_TRY(self, symm_free(world, x[i]));
    RANK_TRY(self, symm_exchange(world, NULL, 0, NULL));
    RANK_TRY(self, symm_memory_usage(ctx, &usage));
    CHECK_RANK(self, usage.pending == 0 && usage.requested < SIZE * 1024);
    RANK_TRY(self, exercise_group(self, ctx, world, 1));
out:
    free(x);
}

WORLD_TEST(many, ten_thousand_random_rounds_leave_everything_as_it_was, 3, .timeout_s = 120)
{
    enum { ROUNDS = 10000, LIVE = 48 };
    void *live[LIVE] = {NULL};
    symm_usage before, after;
    struct leaks held;
    size_t available;
    int taken;
    char text[512];
    RANK_TRY(self, symm_trim(world));
    RANK_TRY(self, symm_memory_usage(ctx, &before));
    leaks_take(&held);
    available = exercise_free_memory(ctx);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        /* All ranks allocate alike; which buffer makes room each of them decides alone. */
        const uint64_t random = reference_random(1, round);
        const uint64_t own = reference_random(100 + (uint64_t)self->rank, round);
        const size_t nbytes = 1 + (size_t)(random >> 8) % ((size_t)1 << (random % 19));
        void **slot = &live[own % LIVE];
        RANK_TRY(self, symm_free(world, *slot));
        *slot = NULL;
        RANK_TRY(self, symm_alloc(world, nbytes, slot));
    }
    for (int i = 0; i < LIVE; i++)
        RANK_TRY(self, symm_free(world, live[(i + self->rank * 5) % LIVE]));
    RANK_TRY(self, symm_exchange(world, NULL, 0, NULL));
    RANK_TRY(self, symm_trim(world));
    RANK_TRY(self, symm_memory_usage(ctx, &after));
    CHECK_RANK_MSG(self, memcmp(&before, &after, sizeof before) == 0,
                   "segments %llu then %llu, allocated %llu then %llu, pending %llu",
                   (unsigned long long)before.segments, (unsigned long long)after.segments,
                   (unsigned long long)before.allocated, (unsigned long long)after.allocated,
                   (unsigned long long)after.pending);
    taken = leaks_none_since(&held, text, sizeof text);
    CHECK_RANK_MSG(self, taken, "%s", text);
    CHECK_RANK_MSG(self, exercise_free_memory(ctx) == available && available,
                   "%zu bytes free, then %zu", available, exercise_free_memory(ctx));
out:;
}

struct freeing {
    symm_group *group;
    void *ptr;
    symm_status status;
};

static void *free_it(void *arg)
{
    struct freeing *f = arg;
    pause_ms(50);
    f->status = symm_free(f->group, f->ptr);
    return NULL;
}

TEST_GROUP(freeing, 60);

WORLD_TEST(freeing, memory_is_freed_from_another_thread_during_a_collective_call, 2)
{
    struct freeing f = {.status = SYMM_ERROR_STATE};
    pthread_t thread;
    symm_usage usage;
    f.group = world;
    RANK_TRY(self, symm_alloc(f.group, 100000, &f.ptr));
    CHECK_RANK(self, pthread_create(&thread, NULL, free_it, &f) == 0);
    if (self->rank == 0)
        pause_ms(200);
    const symm_status st =
        symm_exchange(f.group, NULL, 0, NULL); /* blocks while the other thread frees */
    pthread_join(thread, NULL);
    RANK_TRY(self, st);
    CHECK_RANK(self, f.status == SYMM_OK);
    RANK_TRY(self, symm_exchange(f.group, NULL, 0, NULL));
    RANK_TRY(self, symm_memory_usage(ctx, &usage));
    CHECK_RANK(self, usage.pending == 0);
out:;
}

WORLD_TEST(freeing, bytes_are_reused_only_when_every_rank_has_freed_them, 3)
{
    enum { SIZE = 3000 };
    symm_usage usage;
    void *a = NULL, *b = NULL, *c = NULL, *d = NULL;
    RANK_TRY(self, symm_alloc(world, SIZE, &a));
    if (self->rank != 1)
        RANK_TRY(self, symm_free(world, a));
    RANK_TRY(self, symm_memory_usage(ctx, &usage));
    CHECK_RANK(self, self->rank == 1 || usage.pending >= SIZE);
    RANK_TRY(self, symm_alloc(world, SIZE, &b));
    RANK_TRY(self, symm_alloc(world, SIZE, &c));
    CHECK_RANK(self, b != a && c != a && b != c); /* rank 1 still has it */
    if (self->rank == 1)
        RANK_TRY(self, symm_free(world, a));
    RANK_TRY(self, symm_exchange(world, NULL, 0, NULL));
    RANK_TRY(self, symm_alloc(world, SIZE, &d));
    CHECK_RANK(self, d == a);
    RANK_TRY(self, symm_memory_usage(ctx, &usage));
    CHECK_RANK(self, usage.pending == 0);
out:;
}

WORLD_TEST(freeing, trim_gives_freed_memory_back_to_the_device, 3)
{
    symm_usage before, during, after;
    void *x = NULL;
    size_t available;
    RANK_TRY(self, symm_memory_usage(ctx, &before));
    available = exercise_free_memory(ctx);
    RANK_TRY(self, symm_alloc(world, 20u << 20, &x));
    RANK_TRY(self, symm_memory_usage(ctx, &during));
    CHECK_RANK(self, during.segments >= before.segments + (20u << 20));
    CHECK_RANK(self, available - exercise_free_memory(ctx) == during.segments - before.segments);
    RANK_TRY(self, symm_trim(world)); /* in use: nothing to give back */
    CHECK_RANK(self, available - exercise_free_memory(ctx) >= 20u << 20);
    RANK_TRY(self, symm_free(world, x));
    RANK_TRY(self, symm_trim(world));
    RANK_TRY(self, symm_memory_usage(ctx, &after));
    CHECK_RANK(self, after.segments == before.segments && after.nsegments == before.nsegments);
    CHECK_RANK(self, exercise_free_memory(ctx) == available);
    RANK_TRY(self, exercise_group(self, ctx, world, 2));
out:;
}

WORLD_TEST(freeing, a_destroyed_group_frees_its_memory, 2)
{
    symm_group *g = NULL;
    symm_usage before, after;
    void *x;
    RANK_TRY(self, group_of_all(world, &g));
    RANK_TRY(self, symm_group_destroy(g));
    g = NULL;
    RANK_TRY(self, symm_exchange(world, NULL, 0, NULL));
    RANK_TRY(self, symm_memory_usage(ctx, &before));
    for (int round = 0; round < 30; round++) {
        RANK_TRY(self, group_of_all(world, &g));
        for (int i = 0; i < 5; i++)
            RANK_TRY(self, symm_alloc(g, 10000, &x));
        RANK_TRY(self, symm_free(g, x));
        RANK_TRY(self, symm_group_destroy(g)); /* which frees each block once, on all ranks */
        g = NULL;
        RANK_TRY(self, symm_memory_usage(ctx, &after));
        CHECK_RANK_MSG(self, after.pending == 0, "pending %llu", (unsigned long long)after.pending);
    }
    CHECK_RANK_MSG(self, after.allocated == before.allocated, "%llu then %llu",
                   (unsigned long long)before.allocated, (unsigned long long)after.allocated);
out:
    symm_group_destroy(g);
}

TEST_GROUP(results, 60);

WORLD_TEST(results, tensors_are_contiguous_and_row_major, 2)
{
    static const int64_t shape[] = {3, 5, 7, 2, 4}, none[] = {3, 0}, huge[] = {INT64_MAX / 2, 8};
    symm_tensor t = {0};
    RANK_TRY(self, symm_tensor_alloc(world, SYMM_BFLOAT16, 5, shape, &t));
    CHECK_RANK(self, t.data && t.dtype == SYMM_BFLOAT16 && t.ndim == 5);
    CHECK_RANK(self, memcmp(t.shape, shape, sizeof shape) == 0);
    CHECK_RANK(self, t.strides[4] == 1 && t.strides[3] == 4 && t.strides[2] == 8 &&
                         t.strides[1] == 56 && t.strides[0] == 280);
    CHECK_RANK(self, symm_peer(world, (char *)t.data + 840 * 2 - 1, 1));
    RANK_TRY(self, symm_free(world, t.data));
    symm_tensor untouched = t;
    RANK_EXPECT(self, SYMM_ERROR_ARGUMENT, symm_tensor_alloc(world, SYMM_FLOAT32, 2, none, &t));
    RANK_EXPECT(self, SYMM_ERROR_ARGUMENT, symm_tensor_alloc(world, SYMM_FLOAT64, 2, huge, &t));
    RANK_EXPECT(self, SYMM_ERROR_ARGUMENT, symm_tensor_alloc(world, SYMM_FLOAT32, 6, shape, &t));
    RANK_EXPECT(self, SYMM_ERROR_ARGUMENT, symm_tensor_alloc(world, SYMM_FLOAT32, 0, shape, &t));
    RANK_EXPECT(self, SYMM_ERROR_ARGUMENT, symm_tensor_alloc(world, (symm_dtype)99, 2, shape, &t));
    CHECK_RANK(self, memcmp(&untouched, &t, sizeof t) == 0);
out:;
}

WORLD_TEST(results, usage_counts_requested_and_allocated_bytes, 2)
{
    symm_usage a, b;
    void *x, *y;
    RANK_TRY(self, symm_memory_usage(ctx, &a));
    CHECK_RANK(self, a.internal > 0 && a.internal <= a.allocated && a.allocated <= a.segments);
    CHECK_RANK(self, a.segments <= a.window && a.nsegments >= 1 && a.pending == 0);
    RANK_TRY(self, symm_alloc(world, 100, &x));
    RANK_TRY(self, symm_alloc(world, 1025, &y));
    RANK_TRY(self, symm_memory_usage(ctx, &b));
    CHECK_RANK(self, b.requested == a.requested + 1125);
    CHECK_RANK(self, b.allocated == a.allocated + 1024 + 2048);
    CHECK_RANK(self, b.internal == a.internal && b.window == a.window);
out:;
}

WORLD_TEST(results, one_delta_a_rank_serves_every_buffer, 4)
{
    symm_view view;
    char *x;
    RANK_TRY(self, symm_group_view(world, &view));
    CHECK_RANK(self,
               view.abi == SYMM_VIEW_ABI && view.rank == self->rank && view.nranks == self->nranks);
    CHECK_RANK(self, view.peer[self->rank] == 0);
    for (int i = 0; i < 20; i++) {
        const size_t nbytes = (size_t)1000 << (i % 14);
        RANK_TRY(self, symm_alloc(world, nbytes, (void **)&x));
        for (int r = 0; r < self->nranks; r++) {
            CHECK_RANK(self, (char *)symm_peer(world, x, r) == x + view.peer[r]);
            CHECK_RANK(self, (char *)symm_peer(world, x + nbytes - 1, r) ==
                                 x + nbytes - 1 + view.peer[r]);
        }
        CHECK_RANK(self, !symm_peer(world, x, self->nranks) && !symm_peer(world, x, -1));
    }
    CHECK_RANK(self, !symm_peer(world, &view, 0));
out:;
}

WORLD_TEST(results, put_and_get_move_every_byte, 3, _i, .loop = {0, 2})
{
    enum { SIZE = 300000 };
    char *x = NULL, *plain = NULL, *host = malloc(SIZE);
    const int n = self->nranks, to = (self->rank + 1) % n, from = (self->rank + 2) % n;
    RANK_TRY(self, symm_alloc(world, 2 * SIZE, (void **)&x));
    RANK_TRY(self, symm_device_alloc(ctx, SIZE, (void **)&plain));
    for (uint64_t round = 0; round < 5; round++) {
        const uint64_t tag = round * 100;
        reference_poison(host, SIZE, tag + (uint64_t)self->rank);
        RANK_TRY(self, symm_copy(plain, host, SIZE, s));
        RANK_TRY(self, symm_put(world, x, plain, SIZE, to, s));
        RANK_TRY(self, symm_put(world, x + SIZE, host, SIZE, self->rank,
                                s)); /* to myself, from the host */
        RANK_TRY(self, symm_barrier(world, s));
        RANK_TRY(self, symm_copy(host, x, SIZE, s));
        RANK_TRY(self, symm_synchronize(world, s));
        self->report->wrong +=
            reference_poison_wrong(host, SIZE, tag + (uint64_t)((self->rank + n - 1) % n));
        RANK_TRY(self, symm_get(world, host, x + SIZE, SIZE, from, s));
        RANK_TRY(self, symm_barrier(world, s));
        RANK_TRY(self, symm_synchronize(world, s));
        self->report->wrong += reference_poison_wrong(host, SIZE, tag + (uint64_t)from);
    }
out:
    symm_device_free(ctx, plain);
    free(host);
}

TEST_GROUP(failures, 60);

WORLD_TEST(failures, an_allocation_that_is_too_large_fails_and_takes_nothing, 2,
           .env = {{"SYMM_EMULATED_MEMORY", "64M"}, {"SYMM_WINDOW_BYTES", "256M"}})
{
    symm_usage before, after;
    void *x = (void *)1;
    RANK_TRY(self, symm_memory_usage(ctx, &before));
    RANK_EXPECT(self, SYMM_ERROR_ARGUMENT, symm_alloc(world, SIZE_MAX, &x));
    RANK_EXPECT(self, SYMM_ERROR_ARGUMENT, symm_alloc(world, before.window + 1, &x));
    RANK_EXPECT(self, SYMM_ERROR_ARGUMENT, symm_alloc(world, 0, &x));
    RANK_EXPECT(self, SYMM_ERROR_MEMORY,
                symm_alloc(world, (size_t)exercise_free_memory(ctx) + (8u << 20), &x));
    CHECK_RANK(self, x == (void *)1);
    RANK_TRY(self, symm_memory_usage(ctx, &after));
    CHECK_RANK(self, after.segments == before.segments && after.allocated == before.allocated);
    RANK_TRY(self, exercise_group(self, ctx, world, 3));
out:;
}

/* The window has room for one segment of 8 MiB, so the one that failed must leave its place. */
WORLD_TEST(failures, memory_that_one_rank_lacks_fails_on_all_and_names_it, 3,
           .env = {{"SYMM_EMULATED_FAULT", "cuMemCreate@2#2=2"}, {"SYMM_WINDOW_BYTES", "16M"}})
{
    symm_usage before, after;
    void *x = (void *)1;
    RANK_TRY(self, symm_memory_usage(ctx, &before));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_MEMORY, "rank 2", symm_alloc(world, 8u << 20, &x));
    RANK_TEXT(self, "cuMemCreate");
    CHECK_RANK(self, x == (void *)1);
    RANK_TRY(self, symm_memory_usage(ctx, &after));
    CHECK_RANK(self, memcmp(&before, &after, sizeof before) == 0);
    RANK_TRY(self, symm_alloc(world, 8u << 20, &x));
    RANK_TRY(self, exercise_group(self, ctx, world, 3));
out:;
}
