/*
 * Bad input: each case gives a status and a text with argument, value and rank, on every rank
 * concerned, and leaves nothing behind. Afterwards whatever was healthy still works.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <dirent.h>
#include <unistd.h>
#include "exercise.h"
#include "kernels.h"
#include "ranks.h"
#include "test.h"

/* A world of this rank's test, with what most cases need. */
struct bench {
    symm_context *ctx;
    symm_group *world;
    symm_stream s;
    char *x;              /* 64 KiB, symmetric */
    symm_signal_pad *pad; /* 4 channels */
    void *plain;          /* 64 KiB of device memory */
};

enum { BENCH = 65536 };

static symm_status bench_open(struct rank *self, struct bench *b)
{
    RANK_TRY(self, rank_join(self, &b->ctx));
    b->world = symm_context_world(b->ctx);
    RANK_TRY(self, symm_stream_create(b->ctx, &b->s));
    RANK_TRY(self, symm_alloc(b->world, BENCH, (void **)&b->x));
    RANK_TRY(self, symm_signal_pad_alloc(b->world, 4, &b->pad));
    RANK_TRY(self, symm_device_alloc(b->ctx, BENCH, &b->plain));
out:
    return self->report->status;
}

static void bench_close(struct bench *b)
{
    symm_stream_destroy(b->s);
    if (b->ctx)
        symm_device_free(b->ctx, b->plain);
    symm_context_destroy(b->ctx);
}

/* What every case ends with: nothing was broken. */
static symm_status bench_works(struct rank *self, struct bench *b)
{
    RANK_TRY(self, symm_check(b->world));
    RANK_TRY(self, symm_exchange(b->world, NULL, 0, NULL));
    RANK_TRY(self,
             exercise_all_reduce(self, b->ctx, b->world, SYMM_ALGO_TWO_SHOT, SYMM_FLOAT32, 500, 1));
out:
    return self->report->status;
}

#define WRONG(call) RANK_EXPECT(self, SYMM_ERROR_ARGUMENT, call)
#define WRONG_TEXT(part, call) RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, part, call)

/* A case: a rank's function between opening and closing its bench. */
#define BENCH_CASE(name, nranks)                                                                   \
    static symm_status name##_body(struct rank *self, struct bench *b);                            \
    static void name##_rank(struct rank *self, void *arg)                                          \
    {                                                                                              \
        struct bench b = {0};                                                                      \
        (void)arg;                                                                                 \
        if (bench_open(self, &b) == SYMM_OK)                                                       \
            name##_body(self, &b);                                                                 \
        bench_close(&b);                                                                           \
    }                                                                                              \
    START_TEST(name)                                                                               \
    {                                                                                              \
        ranks_run_ok(nranks, RANKS_AS_PROCESSES, name##_rank, NULL, 30);                           \
    }                                                                                              \
    END_TEST                                                                                       \
    static symm_status name##_body(struct rank *self, struct bench *b)

/* -------------------------------------------------------------------------------------------------
 * arguments */

BENCH_CASE(null_where_there_must_be_something_is_named, 2)
{
    symm_view view;
    symm_tensor tensor;
    symm_group *g = NULL;
    symm_kernel *kernel = NULL;
    symm_graph graph = NULL;
    symm_event event = NULL;
    void *p = NULL;
    uint32_t blocks = 0;
    static const int all[] = {0, 1};
    static const int64_t shape[] = {4};
    WRONG(symm_context_create(NULL, NULL));
    WRONG(symm_group_create(NULL, 2, all, &g));
    WRONG(symm_group_create(b->world, 2, NULL, &g));
    WRONG(symm_group_create(b->world, 2, all, NULL));
    WRONG(symm_exchange(NULL, NULL, 0, NULL));
    WRONG(symm_exchange(b->world, NULL, 4, &p));
    WRONG(symm_exchange(b->world, &p, 4, NULL));
    WRONG(symm_check(NULL));
    WRONG(symm_synchronize(NULL, b->s));
    WRONG(symm_alloc(NULL, 4, &p));
    WRONG(symm_alloc(b->world, 4, NULL));
    WRONG(symm_free(NULL, b->x));
    WRONG(symm_trim(NULL));
    WRONG(symm_tensor_alloc(b->world, SYMM_FLOAT32, 1, NULL, &tensor));
    WRONG(symm_tensor_alloc(b->world, SYMM_FLOAT32, 1, shape, NULL));
    WRONG(symm_memory_usage(NULL, NULL));
    WRONG(symm_memory_usage(b->ctx, NULL));
    WRONG(symm_signal_pad_alloc(b->world, 1, NULL));
    WRONG(symm_put(NULL, b->x, b->plain, 4, 0, b->s));
    WRONG(symm_put(b->world, NULL, b->plain, 4, 0, b->s));
    WRONG(symm_put(b->world, b->x, NULL, 4, 0, b->s));
    WRONG(symm_get(b->world, NULL, b->x, 4, 0, b->s));
    WRONG(symm_signal(b->world, NULL, 0, 0, 1, b->s));
    WRONG(symm_wait(b->world, NULL, 0, 0, 1, b->s));
    WRONG(symm_barrier(NULL, b->s));
    WRONG(symm_group_view(b->world, NULL));
    WRONG(symm_group_view(NULL, &view));
    WRONG(symm_kernel_load(b->ctx, NULL, "x", &kernel));
    WRONG(symm_kernel_load(b->ctx, &test_kernels, NULL, &kernel));
    WRONG(symm_kernel_load(b->ctx, &test_kernels, "test_ring", NULL));
    WRONG(symm_kernel_max_blocks(b->world, NULL, 32, 0, &blocks));
    WRONG(symm_launch(b->world, NULL, &(symm_grid){.blocks = 1, .threads = 1}, &view, sizeof view,
                      b->s));
    WRONG(symm_all_reduce(NULL, b->x, b->x, 4, SYMM_FLOAT32, SYMM_SUM, NULL, b->s));
    WRONG(symm_all_reduce(b->world, NULL, b->x, 4, SYMM_FLOAT32, SYMM_SUM, NULL, b->s));
    WRONG(symm_all_reduce(b->world, b->x, NULL, 4, SYMM_FLOAT32, SYMM_SUM, NULL, b->s));
    WRONG(symm_reduce_scatter(NULL, b->x, b->plain, 4, SYMM_FLOAT32, SYMM_SUM, NULL, b->s));
    WRONG(symm_reduce_scatter(b->world, NULL, b->x, 4, SYMM_FLOAT32, SYMM_SUM, NULL, b->s));
    WRONG(symm_reduce_scatter(b->world, b->x, NULL, 4, SYMM_FLOAT32, SYMM_SUM, NULL, b->s));
    WRONG(symm_all_gather(NULL, b->x, b->plain, 4, SYMM_FLOAT32, NULL, b->s));
    WRONG(symm_all_gather(b->world, NULL, b->x, 4, SYMM_FLOAT32, NULL, b->s));
    WRONG(symm_all_gather(b->world, b->x, NULL, 4, SYMM_FLOAT32, NULL, b->s));
    CHECK_RANK(self,
               symm_all_reduce_unavailable(NULL, SYMM_ALGO_AUTO, SYMM_FLOAT32, SYMM_SUM) &&
                   symm_reduce_scatter_unavailable(NULL, SYMM_ALGO_AUTO, SYMM_FLOAT32, SYMM_SUM) &&
                   symm_all_gather_unavailable(NULL, SYMM_ALGO_AUTO, SYMM_FLOAT32));
    WRONG(symm_stream_create(b->ctx, NULL));
    WRONG(symm_stream_create(NULL, &b->s));
    WRONG(symm_event_create(b->ctx, NULL));
    WRONG(symm_event_record(NULL, b->s));
    WRONG(symm_event_elapsed_us(NULL, event, NULL));
    WRONG(symm_device_alloc(b->ctx, 4, NULL));
    WRONG(symm_device_alloc(b->ctx, 0, &p));
    CHECK_RANK(self, p == NULL);
    WRONG(symm_copy(NULL, b->x, 4, b->s));
    WRONG(symm_fill(NULL, 0, 4, b->s));
    WRONG(symm_graph_end(b->s, NULL));
    WRONG(symm_graph_launch(graph, b->s));
    CHECK_RANK(self, symm_error_text()[0]);
    RANK_TRY(self, bench_works(self, b));
out:
    return self->report->status;
}

BENCH_CASE(null_where_it_is_allowed_does_nothing, 2)
{
    RANK_TRY(self, symm_context_destroy(NULL));
    RANK_TRY(self, symm_group_destroy(NULL));
    RANK_TRY(self, symm_free(b->world, NULL));
    symm_abort(NULL, NULL);
    symm_kernel_unload(NULL);
    symm_stream_destroy(NULL);
    symm_event_destroy(NULL);
    symm_graph_destroy(NULL);
    symm_device_free(b->ctx, NULL);
    CHECK_RANK(self, symm_rank(NULL) == -1 && symm_nranks(NULL) == 0);
    CHECK_RANK(self, !symm_context_world(NULL) && !symm_peer(NULL, b->x, 0) &&
                         !symm_multicast(NULL, b->x));
    CHECK_RANK(self, !symm_peer(b->world, NULL, 0));
    RANK_TRY(self, symm_all_reduce(b->world, NULL, NULL, 0, SYMM_FLOAT32, SYMM_SUM, NULL, b->s));
    RANK_TRY(self,
             symm_reduce_scatter(b->world, NULL, NULL, 0, SYMM_FLOAT32, SYMM_SUM, NULL, b->s));
    RANK_TRY(self, symm_all_gather(b->world, NULL, NULL, 0, SYMM_UINT8, NULL, b->s));
    RANK_TRY(self, symm_put(b->world, b->x, b->plain, 0, 0, b->s));
    RANK_TRY(self, symm_synchronize(b->world, b->s));
    RANK_TRY(self, bench_works(self, b));
out:
    return self->report->status;
}

BENCH_CASE(a_freed_pointer_is_called_freed, 2)
{
    void *gone = NULL;
    RANK_TRY(self, symm_alloc(b->world, 5000, &gone));
    RANK_TRY(self, symm_free(b->world, gone));
    WRONG_TEXT("freed", symm_free(b->world, gone));
    WRONG_TEXT("freed", symm_put(b->world, gone, b->plain, 4, 1, b->s));
    CHECK_RANK(self, !symm_peer(b->world, gone, 1));
    CHECK_RANK_MSG(self, strstr(symm_error_text(), "freed"), "%s", symm_error_text());
    RANK_TRY(self, bench_works(self, b));
out:
    return self->report->status;
}

/* Subject, reason, and the rank at the end; no address twice. */
BENCH_CASE(texts_say_everything_once, 2)
{
    const symm_options two_shot = {.algo = SYMM_ALGO_TWO_SHOT};
    char want[160];
    snprintf(want, sizeof want,
             "symm_put: dst: %p is not symmetric memory of this context (on rank %d)", b->plain,
             self->rank);
    WRONG(symm_put(b->world, b->plain, b->x, 4, 1, b->s));
    CHECK_RANK_MSG(self, !strcmp(self->report->text, want), "%s", self->report->text);
    snprintf(
        want, sizeof want,
        "symm_all_gather: two_shot cannot run here (float32): this operation has no such algorithm "
        "(on rank %d)",
        self->rank);
    RANK_EXPECT(self, SYMM_ERROR_UNSUPPORTED,
                symm_all_gather(b->world, b->x, b->plain, 4, SYMM_FLOAT32, &two_shot, b->s));
    CHECK_RANK_MSG(self, !strcmp(self->report->text, want), "%s", self->report->text);
    self->report->status = SYMM_OK;
out:
    return self->report->status;
}

BENCH_CASE(foreign_and_interior_pointers_are_refused, 2)
{
    static const int all[] = {0, 1};
    symm_group *other = NULL;
    void *theirs = NULL;
    char local[64] = {0};
    RANK_TRY(self, symm_group_create(b->world, 2, all, &other));
    RANK_TRY(self, symm_alloc(other, 100, &theirs));
    WRONG(symm_free(b->world, b->x + 1024));
    WRONG(symm_free(b->world, b->plain));
    WRONG(symm_free(b->world, local));
    WRONG(symm_free(b->world, theirs)); /* of another group */
    WRONG(symm_put(b->world, b->plain, b->x, 4, 1, b->s));
    WRONG(symm_put(b->world, local, b->x, 4, 1, b->s));
    WRONG(symm_get(b->world, b->plain, local, 4, 1, b->s));
    WRONG(symm_get(b->world, local, b->plain, 4, 1, b->s));
    CHECK_RANK(self, !symm_peer(b->world, local, 0) && !symm_peer(b->world, b->plain, 0));
    RANK_TRY(self, symm_put(b->world, b->x + BENCH - 4, b->plain, 4, 1, b->s));
    WRONG(symm_put(b->world, b->x + BENCH - 4, b->plain, 5, 1, b->s)); /* one byte past its end */
    WRONG(symm_put(b->world, b->x, b->plain, SIZE_MAX, 1, b->s));
    RANK_TRY(self, symm_synchronize(b->world, b->s));
    RANK_TRY(self, bench_works(self, b));
out:
    symm_group_destroy(other);
    return self->report->status;
}

BENCH_CASE(wrong_ranks_and_channels_are_named_with_their_value, 2)
{
    WRONG_TEXT("7", symm_put(b->world, b->x, b->plain, 4, 7, b->s));
    WRONG_TEXT("-1", symm_put(b->world, b->x, b->plain, 4, -1, b->s));
    WRONG_TEXT("7", symm_get(b->world, b->plain, b->x, 4, 7, b->s));
    WRONG_TEXT("2", symm_signal(b->world, b->pad, 0, 2, 1, b->s));
    WRONG_TEXT("-5", symm_wait(b->world, b->pad, 0, -5, 1, b->s));
    WRONG_TEXT("4", symm_signal(b->world, b->pad, 4, 1, 1, b->s));
    WRONG_TEXT("-1", symm_wait(b->world, b->pad, -1, 1, 1, b->s));
    WRONG(symm_signal(b->world, b->pad, 0, 1, 0, b->s));
    WRONG(symm_signal(b->world, b->pad, 0, 1, 1u << 31, b->s));
    WRONG(symm_signal(b->world, (symm_signal_pad *)b->x, 0, 1, 1, b->s)); /* memory, but no pad */
    WRONG(symm_signal_pad_alloc(b->world, 0, &b->pad));
    WRONG(symm_signal_pad_alloc(b->world, -3, &b->pad));
    CHECK_RANK(self, !symm_peer(b->world, b->x, 2));
    CHECK_RANK_MSG(self, strstr(symm_error_text(), "2"), "%s", symm_error_text());
    RANK_TRY(self, bench_works(self, b));
out:
    return self->report->status;
}

BENCH_CASE(an_all_reduce_refuses_what_it_cannot_mean, 2)
{
    symm_group *w = b->world;
    const symm_options algo99 = {.algo = (symm_algo)99}, engine = {.algo = SYMM_ALGO_COPY_ENGINE};
    WRONG(
        symm_all_reduce(w, b->x + 1, b->x, 8, SYMM_FLOAT32, SYMM_SUM, NULL, b->s)); /* misaligned */
    WRONG(symm_all_reduce(w, b->x, b->x + 1, 8, SYMM_FLOAT16, SYMM_SUM, NULL, b->s));
    WRONG_TEXT("overlap",
               symm_all_reduce(w, b->x, b->x + 4, 8, SYMM_FLOAT32, SYMM_SUM, NULL, b->s));
    WRONG_TEXT("overlap",
               symm_all_reduce(w, b->x + 28, b->x, 8, SYMM_FLOAT32, SYMM_SUM, NULL, b->s));
    WRONG(symm_all_reduce(w, b->x, b->x, SIZE_MAX / 2, SYMM_FLOAT32, SYMM_SUM, NULL, b->s));
    WRONG(symm_all_reduce(w, b->x, b->x, SIZE_MAX, SYMM_BFLOAT16, SYMM_SUM, NULL, b->s));
    WRONG_TEXT("99", symm_all_reduce(w, b->x, b->x, 8, (symm_dtype)99, SYMM_SUM, NULL, b->s));
    WRONG_TEXT("99", symm_all_reduce(w, b->x, b->x, 8, SYMM_FLOAT32, (symm_redop)99, NULL, b->s));
    WRONG_TEXT("99", symm_all_reduce(w, b->x, b->x, 8, SYMM_FLOAT32, SYMM_SUM, &algo99, b->s));
    WRONG_TEXT("symmetric",
               symm_all_reduce(w, b->plain, b->plain, 8, SYMM_FLOAT32, SYMM_SUM, &engine, b->s));
    RANK_EXPECT(self, SYMM_ERROR_UNSUPPORTED,
                symm_all_reduce(w, b->x, b->x, 8, SYMM_UINT8, SYMM_SUM, NULL, b->s));
    RANK_EXPECT(self, SYMM_ERROR_UNSUPPORTED,
                symm_all_reduce(w, b->x, b->x, 8, SYMM_INT64, SYMM_AVG, NULL, b->s));
    CHECK_RANK(self, symm_all_reduce_unavailable(w, SYMM_ALGO_COPY_ENGINE, SYMM_UINT8, SYMM_SUM));
    CHECK_RANK(self, symm_all_reduce_unavailable(w, SYMM_ALGO_ONE_SHOT, SYMM_UINT8, SYMM_SUM));
    CHECK_RANK(self, symm_all_reduce_unavailable(w, SYMM_ALGO_ONE_SHOT, SYMM_INT32, SYMM_AVG));
    CHECK_RANK(self, symm_all_reduce_unavailable(w, SYMM_ALGO_MULTIMEM, SYMM_FLOAT32, SYMM_MIN));
    CHECK_RANK(self, !symm_all_reduce_unavailable(w, SYMM_ALGO_ONE_SHOT, SYMM_FLOAT32, SYMM_SUM));
    RANK_TRY(self, bench_works(self, b));
out:
    return self->report->status;
}

/* What they refuse of an all-reduce's arguments has tests of its own; this is what is theirs. */
BENCH_CASE(shares_that_are_not_this_ranks_are_refused, 2)
{
    symm_group *w = b->world;
    char *const mine = b->x + self->rank * 32, *const theirs = b->x + !self->rank * 32;
    WRONG_TEXT("out == in + rank * count",
               symm_reduce_scatter(w, b->x, theirs, 8, SYMM_FLOAT32, SYMM_SUM, NULL, b->s));
    WRONG_TEXT("in == out + rank * count",
               symm_all_gather(w, theirs, b->x, 8, SYMM_FLOAT32, NULL, b->s));
    WRONG_TEXT("overflows",
               symm_all_gather(w, b->x, b->plain, SIZE_MAX / 3, SYMM_UINT8, NULL, b->s));
    RANK_TRY(self, symm_reduce_scatter(w, b->x, mine, 8, SYMM_FLOAT32, SYMM_SUM, NULL, b->s));
    RANK_TRY(self, symm_all_gather(w, mine, b->x, 8, SYMM_FLOAT32, NULL, b->s));
    RANK_TRY(self, bench_works(self, b));
out:
    return self->report->status;
}

BENCH_CASE(a_group_of_nonsense_is_refused, 3)
{
    static const int twice[] = {0, 1, 1}, outside[] = {0, 3}, negative[] = {-1, 0},
                     without_me[3][2] = {{1, 2}, {0, 2}, {0, 1}};
    symm_group *g = NULL;
    WRONG_TEXT("1", symm_group_create(b->world, 3, twice, &g));
    WRONG_TEXT("3", symm_group_create(b->world, 2, outside, &g));
    WRONG_TEXT("-1", symm_group_create(b->world, 2, negative, &g));
    WRONG(symm_group_create(b->world, 0, twice, &g));
    WRONG(symm_group_create(b->world, -2, twice, &g));
    WRONG(symm_group_create(b->world, 4, twice, &g));
    WRONG(symm_group_create(b->world, 2, without_me[self->rank], &g));
    WRONG(symm_group_destroy(b->world));
    CHECK_RANK(self, !g);
    RANK_TRY(self, bench_works(self, b));
out:
    return self->report->status;
}

BENCH_CASE(what_comes_later_says_that_it_is_unsupported, 2)
{
    void *out = NULL;
    RANK_EXPECT(self, SYMM_ERROR_UNSUPPORTED, symm_register(b->world, b->plain, BENCH, &out));
    RANK_TRY(self, bench_works(self, b));
out:
    return self->report->status;
}

BENCH_CASE(a_launch_that_cannot_be_is_refused, 2)
{
    symm_kernel *kernel = NULL, *none = NULL;
    uint32_t blocks = 0, untouched = 4711;
    test_signal_args a = {.pad = b->pad};
    RANK_TRY(self, symm_group_view(b->world, &a.view));
    WRONG_TEXT("no_such_kernel", symm_kernel_load(b->ctx, &test_kernels, "no_such_kernel", &none));
    RANK_TRY(self, symm_kernel_load(b->ctx, &test_kernels, "test_signal_and_wait", &kernel));
    RANK_TRY(self, symm_kernel_max_blocks(b->world, kernel, 64, 0, &blocks));
    CHECK_RANK(self, blocks > 0 && !none);
    WRONG(symm_kernel_max_blocks(b->world, kernel, 0, 0, &untouched));
    WRONG(symm_kernel_max_blocks(b->world, kernel, 65, 0,
                                 &untouched)); /* more than the kernel's 64 */
    WRONG_TEXT("smem_nbytes",
               symm_kernel_max_blocks(b->world, kernel, 64, (227 << 10) + 1, &untouched));
    WRONG(symm_kernel_max_blocks(b->world, kernel, 64, UINT32_MAX, &untouched));
    CHECK_RANK(self, untouched == 4711);
    WRONG_TEXT("smem_nbytes",
               symm_launch(b->world, kernel,
                           &(symm_grid){.blocks = 1, .threads = 32, .smem_nbytes = 228 << 10}, &a,
                           sizeof a, b->s));
    WRONG(symm_launch(b->world, kernel, &(symm_grid){.blocks = 1, .threads = 32}, &a, sizeof a - 8,
                      b->s));
    WRONG(symm_launch(b->world, kernel, &(symm_grid){.blocks = 0, .threads = 32}, &a, sizeof a,
                      b->s));
    WRONG(
        symm_launch(b->world, kernel, &(symm_grid){.blocks = 1, .threads = 0}, &a, sizeof a, b->s));
    WRONG(symm_launch(b->world, kernel, &(symm_grid){.blocks = 1, .threads = 65}, &a, sizeof a,
                      b->s));
    WRONG(symm_launch(b->world, kernel, &(symm_grid){.blocks = 1u << 30, .threads = 64}, &a,
                      sizeof a, b->s));
    WRONG(symm_launch(b->world, kernel, NULL, &a, sizeof a, b->s));
    WRONG(symm_launch(b->world, kernel, &(symm_grid){.blocks = 1, .threads = 32}, NULL, sizeof a,
                      b->s));
    a.view.abi = 9;
    RANK_EXPECT(self, SYMM_ERROR_VERSION,
                symm_launch(b->world, kernel, &(symm_grid){.blocks = 1, .threads = 32}, &a,
                            sizeof a, b->s));
    RANK_TRY(self, bench_works(self, b));
out:
    symm_kernel_unload(kernel);
    return self->report->status;
}

/* ---------------------------------------------------------------------------------- out of turn */

BENCH_CASE(nothing_is_destroyed_anywhere_while_one_rank_captures, 2)
{
    static const int all[] = {0, 1};
    symm_graph graph = NULL;
    symm_group *g = NULL;
    char *y = NULL;
    RANK_TRY(self, symm_group_create(b->world, 2, all, &g));
    RANK_TRY(self, symm_alloc(g, 64, (void **)&y));
    if (self->rank == 1)
        RANK_TRY(self, symm_graph_begin(b->s));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_STATE, "captur", symm_group_destroy(g));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_STATE, "captur", symm_context_destroy(b->ctx));
    if (self->rank == 1)
        RANK_TRY(self, symm_graph_end(b->s, &graph));
    RANK_TRY(self, symm_exchange(g, NULL, 0, NULL));
    CHECK_RANK(self, symm_peer(g, y, 1 - self->rank) != NULL);
    RANK_TRY(self, symm_group_destroy(g));
    RANK_TRY(self, bench_works(self, b));
out:
    symm_graph_destroy(graph);
    return self->report->status;
}

BENCH_CASE(collective_calls_are_refused_in_a_capture, 2)
{
    static const int all[] = {0, 1};
    static const int64_t shape[] = {4};
    symm_graph graph = NULL;
    symm_group *g = NULL;
    symm_signal_pad *pad = NULL;
    symm_tensor t;
    symm_status st[8];
    char text[1024];
    void *p = NULL;
    int n = 0;
    RANK_TRY(self, symm_barrier(b->world, b->s)); /* the group has used this stream */
    RANK_TRY(self, symm_synchronize(b->world, b->s));
    RANK_TRY(self, symm_graph_begin(b->s));
    st[n++] = symm_alloc(b->world, 4096, &p);
    snprintf(text, sizeof text, "%s", symm_error_text());
    st[n++] = symm_trim(b->world);
    st[n++] = symm_group_create(b->world, 2, all, &g);
    st[n++] = symm_signal_pad_alloc(b->world, 1, &pad);
    st[n++] = symm_tensor_alloc(b->world, SYMM_FLOAT32, 1, shape, &t);
    st[n++] = symm_exchange(b->world, NULL, 0, NULL);
    st[n++] = symm_synchronize(b->world, b->s);
    const symm_status works =
        symm_all_reduce(b->world, b->x, b->x, 100, SYMM_FLOAT32, SYMM_SUM, NULL, b->s);
    RANK_TRY(self, symm_graph_end(b->s, &graph));
    for (int i = 0; i < n; i++)
        CHECK_RANK_MSG(self, st[i] == SYMM_ERROR_STATE, "call %d gave %s", i,
                       symm_status_name(st[i]));
    CHECK_RANK_MSG(self, strstr(text, "captur"), "%s", text);
    RANK_TRY(self, works);
    RANK_TRY(self, symm_graph_launch(graph, b->s));
    RANK_TRY(self, symm_synchronize(b->world, b->s));
    RANK_TRY(self, bench_works(self, b));
out:
    symm_graph_destroy(graph);
    return self->report->status;
}

BENCH_CASE(a_capture_begins_once_and_ends_once, 2)
{
    symm_graph graph = NULL, none = NULL;
    RANK_EXPECT_TEXT(self, SYMM_ERROR_STATE, "is not being captured", symm_graph_end(b->s, &none));
    RANK_TRY(self, symm_graph_begin(b->s));
    const symm_status again = symm_graph_begin(b->s);
    const bool said = strstr(symm_error_text(), "is being captured already");
    const symm_status works =
        symm_all_reduce(b->world, b->x, b->x, 100, SYMM_FLOAT32, SYMM_SUM, NULL, b->s);
    RANK_TRY(self, symm_graph_end(b->s, &graph));
    CHECK_RANK_MSG(self, again == SYMM_ERROR_STATE && said, "%s: %s", symm_status_name(again),
                   symm_error_text());
    RANK_TRY(self, works);
    RANK_EXPECT_TEXT(self, SYMM_ERROR_STATE, "is not being captured", symm_graph_end(b->s, &none));
    CHECK_RANK(self, none == NULL);
    RANK_TRY(self, symm_graph_launch(graph, b->s));
    RANK_TRY(self, symm_synchronize(b->world, b->s));
    RANK_TRY(self, bench_works(self, b));
out:
    symm_graph_destroy(graph);
    return self->report->status;
}

static int calls_in_a_child(struct bench *b)
{
    static const int all[] = {0, 1};
    symm_group *g = NULL;
    symm_context *ctx = NULL;
    symm_stream s = NULL;
    void *p = NULL;
    const symm_status st[] = {
        symm_check(b->world),
        symm_alloc(b->world, 100, &p),
        symm_free(b->world, b->x),
        symm_exchange(b->world, NULL, 0, NULL),
        symm_group_create(b->world, 2, all, &g),
        symm_put(b->world, b->x, b->plain, 4, 1, b->s),
        symm_signal(b->world, b->pad, 0, 1, 1, b->s),
        symm_barrier(b->world, b->s),
        symm_all_reduce(b->world, b->x, b->x, 4, SYMM_FLOAT32, SYMM_SUM, NULL, b->s),
        symm_synchronize(b->world, b->s),
        symm_trim(b->world),
        symm_stream_create(b->ctx, &s),
        symm_context_create(NULL, &ctx),
        symm_context_destroy(b->ctx),
    };
    for (size_t i = 0; i < sizeof st / sizeof st[0]; i++)
        if (st[i] != SYMM_ERROR_STATE)
            return (int)i + 1;
    return 0;
}

BENCH_CASE(a_child_of_fork_is_refused_and_harms_nobody, 2)
{
    int status = 0;
    const pid_t pid = fork();
    if (pid == 0)
        _exit(calls_in_a_child(b));
    CHECK_RANK(self, waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    CHECK_RANK_MSG(self, WEXITSTATUS(status) == 0, "call %d of the child was not refused",
                   WEXITSTATUS(status));
    RANK_TRY(self, bench_works(self, b));
out:
    return self->report->status;
}

BENCH_CASE(after_an_abort_every_call_says_so, 2)
{
    static const int all[] = {0, 1};
    symm_group *g = NULL;
    void *p = NULL;
    if (self->rank == 1)
        symm_abort(b->world, "enough of this");
    for (int i = 0; i < 200 && symm_check(b->world) == SYMM_OK; i++)
        pause_ms(10);
#define DEAD(call) RANK_EXPECT_TEXT(self, SYMM_ERROR_PEER, "enough of this", call)
    DEAD(symm_check(b->world));
    DEAD(symm_alloc(b->world, 100, &p));
    DEAD(symm_exchange(b->world, NULL, 0, NULL));
    DEAD(symm_group_create(b->world, 2, all, &g));
    DEAD(symm_trim(b->world));
    DEAD(symm_put(b->world, b->x, b->plain, 4, 1, b->s));
    DEAD(symm_get(b->world, b->plain, b->x, 4, 1, b->s));
    DEAD(symm_signal(b->world, b->pad, 0, 1, 1, b->s));
    DEAD(symm_wait(b->world, b->pad, 0, 1, 1, b->s));
    DEAD(symm_barrier(b->world, b->s));
    DEAD(symm_all_reduce(b->world, b->x, b->x, 4, SYMM_FLOAT32, SYMM_SUM, NULL, b->s));
    DEAD(symm_reduce_scatter(b->world, b->x, b->plain, 4, SYMM_FLOAT32, SYMM_SUM, NULL, b->s));
    DEAD(symm_all_gather(b->world, b->x, b->plain, 4, SYMM_FLOAT32, NULL, b->s));
    DEAD(symm_synchronize(b->world, b->s));
#undef DEAD
    CHECK_RANK(self, strstr(self->report->text, "rank 1"));
    CHECK_RANK(self, symm_rank(b->world) == self->rank); /* getters go on */
    RANK_TRY(self, symm_free(b->world, b->x));
out:
    return self->report->status;
}

/* ---------------------------------------------------------------------------------------------
 * disagreement */

/* Both ranks must get this status; rank 0's text must have this part. */
#define BOTH(want, part, call) RANK_EXPECT_TEXT(self, want, part, call)

BENCH_CASE(sizes_that_differ_are_a_mismatch_that_names_both, 2)
{
    int32_t mine[8] = {0}, all[16];
    void *p = NULL;
    BOTH(SYMM_ERROR_MISMATCH, "4096", symm_alloc(b->world, self->rank ? 8192 : 4096, &p));
    CHECK_RANK_MSG(self, strstr(self->report->text, "8192"), "%s", self->report->text);
    BOTH(SYMM_ERROR_MISMATCH, "symm_exchange",
         symm_exchange(b->world, mine, self->rank ? 8 : 4, all));
    CHECK_RANK(self, !p);
    RANK_TRY(self, bench_works(self, b));
out:
    return self->report->status;
}

BENCH_CASE(different_collective_calls_are_a_mismatch_that_names_both, 2)
{
    void *p = NULL;
    BOTH(SYMM_ERROR_MISMATCH, "symm_alloc",
         self->rank ? symm_trim(b->world) : symm_alloc(b->world, 4096, &p));
    CHECK_RANK_MSG(self, strstr(self->report->text, "symm_trim"), "%s", self->report->text);
    RANK_TRY(self, bench_works(self, b));
out:
    return self->report->status;
}

BENCH_CASE(a_bad_argument_on_one_rank_reaches_the_others, 2)
{
    void *p = NULL;
    const symm_status st = rank_note(self, symm_alloc(b->world, self->rank ? 0 : 4096, &p));
    if (self->rank == 1)
        CHECK_RANK(self, st == SYMM_ERROR_ARGUMENT);
    CHECK_RANK_MSG(self, st == SYMM_ERROR_ARGUMENT || st == SYMM_ERROR_MISMATCH, "%s: %s",
                   symm_status_name(st), self->report->text);
    CHECK_RANK(self, !p);
    RANK_TRY(self, bench_works(self, b));
out:
    return self->report->status;
}

BENCH_CASE(different_stream_calls_are_named_at_once_with_checking_on, 2)
{
    BOTH(SYMM_ERROR_MISMATCH, "symm_all_reduce",
         self->rank
             ? symm_barrier(b->world, b->s)
             : symm_all_reduce(b->world, b->x, b->x, 64, SYMM_FLOAT32, SYMM_SUM, NULL, b->s));
    CHECK_RANK_MSG(self, strstr(self->report->text, "symm_barrier"), "%s", self->report->text);
    rank_note(self, SYMM_OK);
out:
    return self->report->status;
}

BENCH_CASE(counts_that_differ_are_named_at_once_with_checking_on, 2)
{
    BOTH(SYMM_ERROR_MISMATCH, "4711",
         symm_all_reduce(b->world, b->x, b->x, self->rank ? 4711 : 64, SYMM_FLOAT32, SYMM_SUM, NULL,
                         b->s));
    CHECK_RANK_MSG(self, strstr(self->report->text, "64"), "%s", self->report->text);
    rank_note(self, SYMM_OK);
out:
    return self->report->status;
}

static void stall(struct rank *self, void *arg)
{
    struct bench b = {0};
    (void)arg;
    RANK_TRY(self, bench_open(self, &b));
    const int64_t start = now_ms();
    if (self->rank == 0) {
        RANK_TRY(self, symm_wait(b.world, b.pad, 3, 1, 5, b.s));
        RANK_EXPECT(self, SYMM_ERROR_TIMEOUT, symm_synchronize(b.world, b.s));
        CHECK_RANK(self, strstr(self->report->text, "rank 1"));
        CHECK_RANK(self, strstr(self->report->text, "channel 3"));
        CHECK_RANK(self, strstr(self->report->text, "5") && strstr(self->report->text, "2"));
    } else {
        RANK_TRY(self, symm_signal(b.world, b.pad, 3, 0, 2, b.s)); /* two of the five */
        RANK_TRY(self, symm_synchronize(b.world, b.s));
        while (symm_check(b.world) == SYMM_OK && now_ms() < start + 10000)
            pause_ms(20);
        rank_note(self, symm_check(b.world));
        CHECK_RANK(self, self->report->status == SYMM_ERROR_TIMEOUT ||
                             self->report->status == SYMM_ERROR_PEER);
    }
    CHECK_RANK_MSG(self, now_ms() - start < 6000, "%lld ms", (long long)(now_ms() - start));
out:
    bench_close(&b);
}

START_TEST(a_stalled_wait_names_peer_channel_expected_and_seen)
{
    struct rank_report reports[2];
    setenv("SYMM_CHECK", "0", 1);
    setenv("SYMM_TIMEOUT_MS", "1500", 1);
    ranks_run(2, RANKS_AS_PROCESSES, stall, NULL, reports, 30);
    ranks_assert_clean(reports, 2);
}
END_TEST

static void call_different_things(struct rank *self, void *arg)
{
    struct bench b = {0};
    RANK_TRY(self, bench_open(self, &b));
    if (self->rank == 0)
        RANK_TRY(self, symm_all_reduce(b.world, b.x, b.x, 64, SYMM_FLOAT32, SYMM_SUM, NULL, b.s));
    else if (*(int *)arg)
        RANK_TRY(self, symm_barrier(b.world, b.s));
    else
        RANK_TRY(self, symm_all_reduce(b.world, b.x, b.x, 4711, SYMM_FLOAT32, SYMM_SUM, NULL, b.s));
    rank_note(self, symm_synchronize(b.world, b.s));
    if (self->report->status == SYMM_OK) { /* a barrier may be over before the other one is stuck */
        pause_ms(4000);
        rank_note(self, symm_check(b.world));
    }
out:
    bench_close(&b);
}

START_TEST(without_checking_different_counts_are_an_error_that_names_both)
{
    struct rank_report reports[2];
    int barrier = 0;
    setenv("SYMM_CHECK", "0", 1);
    setenv("SYMM_TIMEOUT_MS", "1500", 1);
    ranks_run(2, RANKS_AS_PROCESSES, call_different_things, &barrier, reports, 30);
    ranks_assert_clean(reports, 2);
    for (int r = 0; r < 2; r++)
        ck_assert_msg(reports[r].status == SYMM_ERROR_MISMATCH, "rank %d: %s: %s", r,
                      symm_status_name(reports[r].status), reports[r].text);
    ck_assert_msg(strstr(reports[0].text, "4711") && strstr(reports[0].text, "64"), "%s",
                  reports[0].text);
}
END_TEST

START_TEST(without_checking_different_calls_are_an_error_that_names_both)
{
    struct rank_report reports[2];
    int barrier = 1;
    setenv("SYMM_CHECK", "0", 1);
    setenv("SYMM_TIMEOUT_MS", "1500", 1);
    ranks_run(2, RANKS_AS_PROCESSES, call_different_things, &barrier, reports, 30);
    ranks_assert_clean(reports, 2);
    ck_assert_int_ne(reports[0].status, SYMM_OK);
    ck_assert_int_ne(reports[1].status, SYMM_OK);
    const char *text = strstr(reports[0].text, "symm_barrier") ? reports[0].text : reports[1].text;
    ck_assert_msg(strstr(text, "symm_barrier") && strstr(text, "symm_all_reduce"), "%s | %s",
                  reports[0].text, reports[1].text);
}
END_TEST

/* -------------------------------------------------------------------------------------------------
 * joining */

struct bad_join {
    int odd; /* the rank that is different; -1: all */
    const char *unset[4];
    const char *set[4][2];
    symm_config config; /* added to the rank's own where not zero */
    bool by_environment;
    symm_status want, others; /* others: 0 any failure */
    const char *part;
};

static void join_badly(struct rank *self, void *arg)
{
    const struct bad_join *bad = arg;
    const bool odd = bad->odd < 0 || bad->odd == self->rank;
    symm_config config = rank_config(self);
    symm_context *ctx = NULL;
    setenv("SYMM_TIMEOUT_MS", "3000", 1);
    for (int i = 0; odd && i < 4; i++) {
        if (bad->unset[i])
            unsetenv(bad->unset[i]);
        if (bad->set[i][0])
            setenv(bad->set[i][0], bad->set[i][1], 1);
    }
    if (odd) {
        config.rank = bad->config.rank ? bad->config.rank : config.rank;
        config.nranks = bad->config.nranks ? bad->config.nranks : config.nranks;
        config.driver = bad->config.driver;
        config.timeout_ms = bad->config.timeout_ms;
    }
    const symm_status st =
        rank_note(self, symm_context_create(bad->by_environment ? NULL : &config, &ctx));
    const symm_status want = odd ? bad->want : bad->others;
    CHECK_RANK(self, !ctx && st != SYMM_OK);
    CHECK_RANK_MSG(self, want == SYMM_OK || st == want, "%s instead of %s: %s",
                   symm_status_name(st), symm_status_name(want), self->report->text);
    CHECK_RANK_MSG(self, !odd || strstr(self->report->text, bad->part), "no \"%s\" in: %s",
                   bad->part, self->report->text);
out:
    symm_context_destroy(ctx);
}

static void expect_bad_join(int nranks, struct bad_join bad)
{
    struct rank_report reports[RANKS_MAX];
    ranks_run(nranks, RANKS_AS_PROCESSES, join_badly, &bad, reports, 30);
    ranks_assert_clean(reports, nranks);
}

START_TEST(a_rank_outside_the_world_is_refused)
{
    expect_bad_join(1, (struct bad_join){.odd = -1,
                                         .config = {.rank = 5, .nranks = 2},
                                         .want = SYMM_ERROR_ARGUMENT,
                                         .part = "5"});
    expect_bad_join(1, (struct bad_join){.odd = -1,
                                         .config = {.rank = -2, .nranks = 2},
                                         .want = SYMM_ERROR_ARGUMENT,
                                         .part = "-2"});
    expect_bad_join(
        1, (struct bad_join){
               .odd = -1, .config = {.nranks = 73}, .want = SYMM_ERROR_ARGUMENT, .part = "73"});
    expect_bad_join(
        1, (struct bad_join){
               .odd = -1, .config = {.nranks = -4}, .want = SYMM_ERROR_ARGUMENT, .part = "-4"});
}
END_TEST

START_TEST(a_rank_that_comes_twice_is_refused)
{
    expect_bad_join(3,
                    (struct bad_join){
                        .odd = 2, .config = {.rank = 1}, .want = SYMM_ERROR_MISMATCH, .part = "1"});
}
END_TEST

START_TEST(worlds_of_different_sizes_are_refused)
{
    expect_bad_join(3, (struct bad_join){.odd = 2,
                                         .config = {.nranks = 4},
                                         .want = SYMM_ERROR_MISMATCH,
                                         .others = SYMM_ERROR_MISMATCH,
                                         .part = "4"});
}
END_TEST

START_TEST(a_wrong_token_does_not_get_in)
{
    setenv("SYMM_TOKEN", "00112233445566778899aabbccddeeff", 1);
    expect_bad_join(2,
                    (struct bad_join){.odd = 1,
                                      .set = {{"SYMM_TOKEN", "00112233445566778899aabbccddeef0"}},
                                      .by_environment = true,
                                      .want = SYMM_OK,
                                      .part = ""});
}
END_TEST

START_TEST(a_token_that_is_no_token_is_named)
{
    expect_bad_join(1, (struct bad_join){.odd = -1,
                                         .set = {{"SYMM_TOKEN", "xyzzy"}},
                                         .by_environment = true,
                                         .want = SYMM_ERROR_ARGUMENT,
                                         .part = "SYMM_TOKEN"});
}
END_TEST

START_TEST(half_of_a_launchers_variables_is_an_error_that_names_the_rest)
{
    expect_bad_join(1, (struct bad_join){.odd = -1,
                                         .unset = {"SYMM_NRANKS"},
                                         .by_environment = true,
                                         .want = SYMM_ERROR_ARGUMENT,
                                         .part = "SYMM_NRANKS"});
    expect_bad_join(1, (struct bad_join){.odd = -1,
                                         .unset = {"SYMM_RANK"},
                                         .by_environment = true,
                                         .want = SYMM_ERROR_ARGUMENT,
                                         .part = "SYMM_RANK"});
    expect_bad_join(1, (struct bad_join){.odd = -1,
                                         .unset = {"SYMM_RANK", "SYMM_NRANKS", "SYMM_SESSION"},
                                         .set = {{"RANK", "0"}},
                                         .by_environment = true,
                                         .want = SYMM_ERROR_ARGUMENT,
                                         .part = "WORLD_SIZE"});
}
END_TEST

START_TEST(nonsense_in_a_variable_is_named_with_its_text)
{
    static const char *const nonsense[][2] = {
        {"SYMM_RANK", "zero"},         {"SYMM_NRANKS", "2x"},       {"SYMM_TIMEOUT_MS", "soon"},
        {"SYMM_SEGMENT_BYTES", "12Q"}, {"SYMM_CHECK", "perhaps"},   {"SYMM_STAGING_BYTES", "-1"},
        {"SYMM_EPOCH_START", "1e9"},   {"SYMM_MULTICAST", "maybe"}, {"SYMM_STAGING_BYTES", "512"},
    };
    for (size_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++) {
        struct bad_join bad = {
            .odd = -1, .by_environment = true, .want = SYMM_ERROR_ARGUMENT, .part = nonsense[i][0]};
        struct rank_report report;
        bad.set[0][0] = nonsense[i][0];
        bad.set[0][1] = nonsense[i][1];
        if (strcmp(nonsense[i][0], "SYMM_TIMEOUT_MS") == 0)
            bad.config.timeout_ms = 0;
        ranks_run(1, RANKS_AS_PROCESSES, join_badly, &bad, &report, 30);
        ranks_assert_clean(&report, 1);
        ck_assert_msg(strstr(report.text, nonsense[i][1]), "no \"%s\" in: %s", nonsense[i][1],
                      report.text);
    }
}
END_TEST

START_TEST(ranks_on_more_than_one_host_are_unsupported)
{
    expect_bad_join(1, (struct bad_join){.odd = -1,
                                         .unset = {"SYMM_RANK", "SYMM_NRANKS", "SYMM_SESSION"},
                                         .set = {{"RANK", "0"},
                                                 {"WORLD_SIZE", "4"},
                                                 {"LOCAL_RANK", "0"},
                                                 {"LOCAL_WORLD_SIZE", "2"}},
                                         .by_environment = true,
                                         .want = SYMM_ERROR_UNSUPPORTED,
                                         .part = "WORLD_SIZE"});
}
END_TEST

START_TEST(an_unknown_driver_is_named)
{
    expect_bad_join(1, (struct bad_join){.odd = -1,
                                         .config = {.driver = "opencl"},
                                         .want = SYMM_ERROR_ARGUMENT,
                                         .part = "opencl"});
}
END_TEST

START_TEST(without_a_driver_the_error_names_the_emulated_one)
{
    struct stat st;
    if (stat("/proc/driver/nvidia", &st) == 0)
        TEST_SKIP("this machine has a driver");
    expect_bad_join(1, (struct bad_join){.odd = -1,
                                         .config = {.driver = "cuda"},
                                         .want = SYMM_ERROR_DRIVER,
                                         .part = "SYMM_DRIVER=emulated"});
}
END_TEST

static void open_both_drivers(struct rank *self, void *arg)
{
    symm_context *ctx = NULL, *other = NULL;
    symm_config config = {.nranks = 1, .session = "other", .driver = "cuda"};
    (void)arg;
    RANK_TRY(self, rank_join(self, &ctx));
    RANK_EXPECT(self, SYMM_ERROR_STATE, symm_context_create(&config, &other));
    CHECK_RANK(self, !other);
out:
    symm_context_destroy(ctx);
}

START_TEST(one_process_has_one_driver)
{
    struct rank_report report;
    ranks_run(1, RANKS_AS_PROCESSES, open_both_drivers, NULL, &report, 20);
    ranks_assert_clean(&report, 1);
}
END_TEST

START_TEST(a_folder_that_others_can_write_is_not_trusted)
{
    char folder[64];
    snprintf(folder, sizeof folder, "/tmp/symm-unsafe-%d", (int)getpid());
    ck_assert_int_eq(mkdir(folder, 0777), 0);
    ck_assert_int_eq(chmod(folder, 0777), 0);
    expect_bad_join(2, (struct bad_join){.odd = -1,
                                         .set = {{"SYMM_DIR", folder}},
                                         .by_environment = true,
                                         .want = SYMM_ERROR_ARGUMENT,
                                         .part = folder});
    ck_assert_int_eq(rmdir(folder), 0);
}
END_TEST

static void join_with_few_descriptors(struct rank *self, void *arg)
{
    symm_context *ctx = NULL;
    void *x = NULL;
    if (self->rank == *(int *)arg || *(int *)arg < 0)
        setrlimit(RLIMIT_NOFILE, &(struct rlimit){32, 32});
    if (rank_note(self, rank_join(self, &ctx)) == SYMM_OK)
        rank_note(self, symm_alloc(symm_context_world(ctx), 8u << 20, &x));
    self->report->value[0] = self->report->status;
    if (ctx && self->report->status == SYMM_OK)
        RANK_TRY(self, exercise_group(self, ctx, symm_context_world(ctx), 1));
out:
    symm_context_destroy(ctx);
}

START_TEST(a_limit_of_32_descriptors_works_or_fails_alike_on_all_ranks)
{
    struct rank_report reports[8];
    for (int who = -1; who < 8; who += 3) {
        ranks_run(8, RANKS_AS_PROCESSES, join_with_few_descriptors, &who, reports, 40);
        ranks_assert_clean(reports, 8);
        for (int r = 0; r < 8; r++) {
            ck_assert_msg(reports[r].value[0] == reports[0].value[0], "rank %d: %s; rank 0: %s", r,
                          reports[r].text, reports[0].text);
            ck_assert_msg(reports[r].status == SYMM_OK || reports[r].status == SYMM_ERROR_SYSTEM,
                          "rank %d: %s: %s", r, symm_status_name(reports[r].status),
                          reports[r].text);
        }
    }
}
END_TEST

/* Connects to every socket in the folder and says nonsense, with a descriptor in it. */
static int send_garbage(const char *folder)
{
    int n = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir)) {
        struct sockaddr_un at = {.sun_family = AF_UNIX};
        const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        if (strlen(folder) + strlen(e->d_name) + 2 <= sizeof at.sun_path) {
            snprintf(at.sun_path, sizeof at.sun_path, "%.60s/%.40s", folder, e->d_name);
            if (connect(fd, (struct sockaddr *)&at, sizeof at) == 0) {
                char junk[300], control[CMSG_SPACE(sizeof fd)];
                struct iovec iov = {junk, sizeof junk};
                struct msghdr m = {.msg_iov = &iov,
                                   .msg_iovlen = 1,
                                   .msg_control = control,
                                   .msg_controllen = sizeof control};
                memset(junk, 0x5a + n, sizeof junk);
                memset(control, 0, sizeof control);
                struct cmsghdr *c = CMSG_FIRSTHDR(&m);
                c->cmsg_level = SOL_SOCKET;
                c->cmsg_type = SCM_RIGHTS;
                c->cmsg_len = CMSG_LEN(sizeof fd);
                memcpy(CMSG_DATA(c), &fd, sizeof fd);
                n += sendmsg(fd, &m, MSG_NOSIGNAL) > 0;
                send(fd, "", 0, MSG_NOSIGNAL);
            }
        }
        close(fd);
    }
    if (dir)
        closedir(dir);
    return n;
}

static void join_beside_garbage(struct rank *self, void *arg)
{
    symm_context *ctx = NULL;
    int n = 0;
    setenv("SYMM_DIR", arg, 1);
    if (self->rank == 1) { /* rank 0 listens and waits for me */
        for (int tries = 0; tries < 200 && n < 3; tries++) {
            n += send_garbage(arg);
            pause_ms(10);
        }
        CHECK_RANK(self, n >= 3);
    }
    RANK_TRY(self, rank_join(self, &ctx));
    RANK_TRY(self, exercise_group(self, ctx, symm_context_world(ctx), 2));
out:
    symm_context_destroy(ctx);
}

START_TEST(garbage_on_the_socket_disturbs_nobody)
{
    char folder[64];
    snprintf(folder, sizeof folder, "/tmp/symm-garbage-%d", (int)getpid());
    ck_assert_int_eq(mkdir(folder, 0700), 0);
    ranks_run_ok(2, RANKS_AS_PROCESSES, join_beside_garbage, folder, 30);
    ck_assert_int_eq(rmdir(folder), 0); /* it stays, being named, and nothing is left in it */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("misuse");
    TCase *arguments = test_case(suite, "arguments", 60);
    tcase_add_test(arguments, null_where_there_must_be_something_is_named);
    tcase_add_test(arguments, null_where_it_is_allowed_does_nothing);
    tcase_add_test(arguments, a_freed_pointer_is_called_freed);
    tcase_add_test(arguments, foreign_and_interior_pointers_are_refused);
    tcase_add_test(arguments, texts_say_everything_once);
    tcase_add_test(arguments, wrong_ranks_and_channels_are_named_with_their_value);
    tcase_add_test(arguments, an_all_reduce_refuses_what_it_cannot_mean);
    tcase_add_test(arguments, shares_that_are_not_this_ranks_are_refused);
    tcase_add_test(arguments, a_group_of_nonsense_is_refused);
    tcase_add_test(arguments, what_comes_later_says_that_it_is_unsupported);
    tcase_add_test(arguments, a_launch_that_cannot_be_is_refused);
    TCase *turn = test_case(suite, "out of turn", 60);
    tcase_add_test(turn, nothing_is_destroyed_anywhere_while_one_rank_captures);
    tcase_add_test(turn, collective_calls_are_refused_in_a_capture);
    tcase_add_test(turn, a_capture_begins_once_and_ends_once);
    tcase_add_test(turn, a_child_of_fork_is_refused_and_harms_nobody);
    tcase_add_test(turn, after_an_abort_every_call_says_so);
    TCase *differ = test_case(suite, "disagreement", 60);
    tcase_add_test(differ, sizes_that_differ_are_a_mismatch_that_names_both);
    tcase_add_test(differ, different_collective_calls_are_a_mismatch_that_names_both);
    tcase_add_test(differ, a_bad_argument_on_one_rank_reaches_the_others);
    tcase_add_test(differ, different_stream_calls_are_named_at_once_with_checking_on);
    tcase_add_test(differ, counts_that_differ_are_named_at_once_with_checking_on);
    tcase_add_test(differ, a_stalled_wait_names_peer_channel_expected_and_seen);
    tcase_add_test(differ, without_checking_different_counts_are_an_error_that_names_both);
    tcase_add_test(differ, without_checking_different_calls_are_an_error_that_names_both);
    TCase *joining = test_case(suite, "joining", 120);
    tcase_add_test(joining, a_rank_outside_the_world_is_refused);
    tcase_add_test(joining, a_rank_that_comes_twice_is_refused);
    tcase_add_test(joining, worlds_of_different_sizes_are_refused);
    tcase_add_test(joining, a_wrong_token_does_not_get_in);
    tcase_add_test(joining, a_token_that_is_no_token_is_named);
    tcase_add_test(joining, half_of_a_launchers_variables_is_an_error_that_names_the_rest);
    tcase_add_test(joining, nonsense_in_a_variable_is_named_with_its_text);
    tcase_add_test(joining, ranks_on_more_than_one_host_are_unsupported);
    tcase_add_test(joining, an_unknown_driver_is_named);
    tcase_add_test(joining, without_a_driver_the_error_names_the_emulated_one);
    tcase_add_test(joining, one_process_has_one_driver);
    tcase_add_test(joining, a_folder_that_others_can_write_is_not_trusted);
    tcase_add_test(joining, a_limit_of_32_descriptors_works_or_fails_alike_on_all_ranks);
    tcase_add_test(joining, garbage_on_the_socket_disturbs_nobody);
    return test_main(suite);
}
