/* Bad input gives a status and a text on every rank concerned; afterwards the world works. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "bench.h"
#include "exercise.h"
#include "kernels.h"
#include "test.h"
#include "world.h"

#define WRONG(call) RANK_EXPECT(self, SYMM_ERROR_ARGUMENT, call)
#define WRONG_TEXT(part, call) RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, part, call)

static const int all[] = {0, 1};

TEST_GROUP(arguments, 60);

BENCH_TEST(arguments, null_is_refused_where_a_value_is_needed, 2)
{
    symm_group *w = b->world;
    symm_view view;
    symm_tensor tensor;
    symm_group *g = NULL;
    symm_kernel *kernel = NULL;
    symm_graph graph = NULL;
    symm_event event = NULL;
    void *p = NULL;
    int happened = 0;
    uint32_t blocks = 0;
    static const int64_t shape[] = {4};
    WRONG(symm_context_create(NULL, NULL));
    WRONG(symm_group_create(NULL, 2, all, &g));
    WRONG(symm_group_create(w, 2, NULL, &g));
    WRONG(symm_group_create(w, 2, all, NULL));
    WRONG(symm_exchange(NULL, NULL, 0, NULL));
    WRONG(symm_exchange(w, NULL, 4, &p));
    WRONG(symm_exchange(w, &p, 4, NULL));
    WRONG(symm_check(NULL));
    WRONG(symm_synchronize(NULL, b->s));
    WRONG(symm_alloc(NULL, 4, &p));
    WRONG(symm_alloc(w, 4, NULL));
    WRONG(symm_free(NULL, b->x));
    WRONG(symm_trim(NULL));
    WRONG(symm_tensor_alloc(w, SYMM_FLOAT32, 1, NULL, &tensor));
    WRONG(symm_tensor_alloc(w, SYMM_FLOAT32, 1, shape, NULL));
    WRONG(symm_memory_usage(NULL, NULL));
    WRONG(symm_memory_usage(b->ctx, NULL));
    WRONG(symm_signal_pad_alloc(w, 1, NULL));
    WRONG(symm_put(NULL, b->x, b->plain, 4, 0, b->s));
    WRONG(symm_put(w, NULL, b->plain, 4, 0, b->s));
    WRONG(symm_put(w, b->x, NULL, 4, 0, b->s));
    WRONG(symm_get(w, NULL, b->x, 4, 0, b->s));
    WRONG(symm_signal(w, NULL, 0, 0, 1, b->s));
    WRONG(symm_wait(w, NULL, 0, 0, 1, b->s));
    WRONG(symm_barrier(NULL, b->s));
    WRONG(symm_group_view(w, NULL));
    WRONG(symm_group_view(NULL, &view));
    WRONG(symm_kernel_load(b->ctx, NULL, "x", &kernel));
    WRONG(symm_kernel_load(b->ctx, &test_kernels, NULL, &kernel));
    WRONG(symm_kernel_load(b->ctx, &test_kernels, "test_ring", NULL));
    WRONG(symm_kernel_max_blocks(w, NULL, 32, 0, &blocks));
    WRONG(symm_launch(w, NULL, &(symm_grid){.blocks = 1, .threads = 1}, &view, sizeof view, b->s));
    WRONG(symm_all_reduce(NULL, b->x, b->x, 4, SYMM_FLOAT32, SYMM_SUM, NULL, b->s));
    WRONG(symm_all_reduce(w, NULL, b->x, 4, SYMM_FLOAT32, SYMM_SUM, NULL, b->s));
    WRONG(symm_all_reduce(w, b->x, NULL, 4, SYMM_FLOAT32, SYMM_SUM, NULL, b->s));
    WRONG(symm_reduce_scatter(NULL, b->x, b->plain, 4, SYMM_FLOAT32, SYMM_SUM, NULL, b->s));
    WRONG(symm_reduce_scatter(w, NULL, b->x, 4, SYMM_FLOAT32, SYMM_SUM, NULL, b->s));
    WRONG(symm_reduce_scatter(w, b->x, NULL, 4, SYMM_FLOAT32, SYMM_SUM, NULL, b->s));
    WRONG(symm_all_gather(NULL, b->x, b->plain, 4, SYMM_FLOAT32, NULL, b->s));
    WRONG(symm_all_gather(w, NULL, b->x, 4, SYMM_FLOAT32, NULL, b->s));
    WRONG(symm_all_gather(w, b->x, NULL, 4, SYMM_FLOAT32, NULL, b->s));
    WRONG(symm_broadcast(NULL, b->x, b->plain, 4, SYMM_FLOAT32, 0, NULL, b->s));
    WRONG(symm_broadcast(w, NULL, b->x, 4, SYMM_FLOAT32, self->rank, NULL, b->s));
    WRONG(symm_broadcast(w, b->x, NULL, 4, SYMM_FLOAT32, 0, NULL, b->s));
    WRONG(symm_broadcast(w, b->x, b->plain, 4, SYMM_FLOAT32, 2, NULL, b->s));
    CHECK_RANK(self,
               symm_all_reduce_unavailable(NULL, SYMM_ALGO_AUTO, SYMM_FLOAT32, SYMM_SUM) &&
                   symm_reduce_scatter_unavailable(NULL, SYMM_ALGO_AUTO, SYMM_FLOAT32, SYMM_SUM) &&
                   symm_all_gather_unavailable(NULL, SYMM_ALGO_AUTO, SYMM_FLOAT32) &&
                   symm_broadcast_unavailable(NULL, SYMM_ALGO_AUTO, SYMM_FLOAT32));
    WRONG(symm_stream_create(b->ctx, NULL));
    WRONG(symm_stream_create(NULL, &b->s));
    WRONG(symm_event_create(b->ctx, NULL));
    WRONG(symm_event_record(NULL, b->s));
    WRONG(symm_event_elapsed_us(NULL, event, NULL));
    WRONG(symm_event_query(NULL, &happened));
    WRONG(symm_event_synchronize(NULL));
    WRONG(symm_stream_wait(b->s, NULL));
    WRONG(symm_stream_create_with_priority(NULL, 0, &b->s));
    WRONG(symm_stream_priorities(b->ctx, NULL, &happened));
    WRONG(symm_stream_priorities(b->ctx, &happened, NULL));
    WRONG(symm_host_alloc(b->ctx, 4, NULL));
    WRONG(symm_host_alloc(b->ctx, 0, &p));
    WRONG(symm_synchronize_groups(-1, &w, &b->s));
    WRONG(symm_synchronize_groups(1, NULL, &b->s));
    WRONG(symm_synchronize_groups(1, &w, NULL));
    WRONG(symm_device_alloc(b->ctx, 4, NULL));
    WRONG(symm_device_alloc(b->ctx, 0, &p));
    CHECK_RANK(self, p == NULL);
    WRONG(symm_copy(NULL, b->x, 4, b->s));
    WRONG(symm_fill(NULL, 0, 4, b->s));
    WRONG(symm_graph_end(b->s, NULL));
    WRONG(symm_graph_launch(graph, b->s));
    CHECK_RANK(self, symm_error_text()[0]);
out:;
}

BENCH_TEST(arguments, null_where_it_is_allowed_does_nothing, 2)
{
    symm_group *w = b->world;
    RANK_TRY(self, symm_context_destroy(NULL));
    RANK_TRY(self, symm_group_destroy(NULL));
    RANK_TRY(self, symm_free(w, NULL));
    symm_abort(NULL, NULL);
    symm_kernel_unload(NULL);
    symm_stream_destroy(NULL);
    symm_event_destroy(NULL);
    symm_graph_destroy(NULL);
    symm_device_free(b->ctx, NULL);
    symm_host_free(b->ctx, NULL);
    RANK_TRY(self, symm_synchronize_groups(0, NULL, NULL));
    CHECK_RANK(self, symm_rank(NULL) == -1 && symm_nranks(NULL) == 0);
    CHECK_RANK(self, !symm_context_world(NULL) && !symm_peer(NULL, b->x, 0) &&
                         !symm_multicast(NULL, b->x));
    CHECK_RANK(self, !symm_peer(w, NULL, 0));
    RANK_TRY(self, symm_all_reduce(w, NULL, NULL, 0, SYMM_FLOAT32, SYMM_SUM, NULL, b->s));
    RANK_TRY(self, symm_reduce_scatter(w, NULL, NULL, 0, SYMM_FLOAT32, SYMM_SUM, NULL, b->s));
    RANK_TRY(self, symm_all_gather(w, NULL, NULL, 0, SYMM_UINT8, NULL, b->s));
    RANK_TRY(self, symm_broadcast(w, NULL, NULL, 0, SYMM_UINT8, 1, NULL, b->s));
    RANK_TRY(self, symm_put(w, b->x, b->plain, 0, 0, b->s));
    RANK_TRY(self, symm_put(w, b->x, NULL, 0, 0, b->s));
    RANK_TRY(self, symm_get(w, NULL, b->x, 0, 0, b->s));
    WRONG(symm_put(w, NULL, b->plain, 0, 0, b->s)); /* the symmetric side is checked */
    WRONG(symm_get(w, b->plain, b->plain, 0, 0, b->s));
    RANK_TRY(self, symm_synchronize(w, b->s));
out:;
}

BENCH_TEST(arguments, a_freed_pointer_is_called_freed, 2)
{
    void *gone = NULL;
    RANK_TRY(self, symm_alloc(b->world, 5000, &gone));
    RANK_TRY(self, symm_free(b->world, gone));
    WRONG_TEXT("freed", symm_free(b->world, gone));
    WRONG_TEXT("freed", symm_put(b->world, gone, b->plain, 4, 1, b->s));
    CHECK_RANK(self, !symm_peer(b->world, gone, 1));
    CHECK_RANK_MSG(self, strstr(symm_error_text(), "freed"), "%s", symm_error_text());
out:;
}

/* Subject, reason, and the rank at the end; no address twice. */
BENCH_TEST(arguments, texts_say_everything_once, 2)
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
out:;
}

BENCH_TEST(arguments, foreign_and_interior_pointers_are_refused, 2)
{
    symm_group *w = b->world;
    symm_group *other = NULL;
    void *theirs = NULL;
    char local[64] = {0};
    RANK_TRY(self, group_of_all(w, &other));
    RANK_TRY(self, symm_alloc(other, 100, &theirs));
    WRONG(symm_free(w, b->x + 1024));
    WRONG(symm_free(w, b->plain));
    WRONG(symm_free(w, local));
    WRONG(symm_free(w, theirs)); /* of another group */
    WRONG(symm_put(w, b->plain, b->x, 4, 1, b->s));
    WRONG(symm_put(w, local, b->x, 4, 1, b->s));
    WRONG(symm_get(w, b->plain, local, 4, 1, b->s));
    WRONG(symm_get(w, local, b->plain, 4, 1, b->s));
    CHECK_RANK(self, !symm_peer(w, local, 0) && !symm_peer(w, b->plain, 0));
    RANK_TRY(self, symm_put(w, b->x + BENCH_NBYTES - 4, b->plain, 4, 1, b->s));
    WRONG(symm_put(w, b->x + BENCH_NBYTES - 4, b->plain, 5, 1, b->s)); /* one byte past its end */
    WRONG(symm_put(w, b->x, b->plain, SIZE_MAX, 1, b->s));
    RANK_TRY(self, symm_synchronize(w, b->s));
out:
    symm_group_destroy(other);
}

BENCH_TEST(arguments, wrong_ranks_and_channels_are_named_with_their_value, 2)
{
    symm_group *w = b->world;
    WRONG_TEXT("7", symm_put(w, b->x, b->plain, 4, 7, b->s));
    WRONG_TEXT("-1", symm_put(w, b->x, b->plain, 4, -1, b->s));
    WRONG_TEXT("7", symm_get(w, b->plain, b->x, 4, 7, b->s));
    WRONG_TEXT("2", symm_signal(w, b->pad, 0, 2, 1, b->s));
    WRONG_TEXT("-5", symm_wait(w, b->pad, 0, -5, 1, b->s));
    WRONG_TEXT("4", symm_signal(w, b->pad, 4, 1, 1, b->s));
    WRONG_TEXT("-1", symm_wait(w, b->pad, -1, 1, 1, b->s));
    WRONG(symm_signal(w, b->pad, 0, 1, 0, b->s));
    WRONG(symm_signal(w, b->pad, 0, 1, 1u << 31, b->s));
    WRONG(symm_signal(w, (symm_signal_pad *)b->x, 0, 1, 1, b->s)); /* memory, but no pad */
    WRONG(symm_signal_pad_alloc(w, 0, &b->pad));
    WRONG(symm_signal_pad_alloc(w, -3, &b->pad));
    CHECK_RANK(self, !symm_peer(w, b->x, 2));
    CHECK_RANK_MSG(self, strstr(symm_error_text(), "2"), "%s", symm_error_text());
out:;
}

BENCH_TEST(arguments, an_all_reduce_refuses_wrong_buffers_types_and_options, 2)
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
out:;
}

/* What they refuse of an all-reduce's arguments has tests of its own; this is what is theirs. */
BENCH_TEST(arguments, shares_that_are_not_this_ranks_are_refused, 2)
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
out:;
}

BENCH_TEST(arguments, wrong_lists_of_ranks_are_refused, 3)
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
out:;
}

BENCH_TEST(arguments, an_impossible_launch_is_refused, 2)
{
    symm_group *w = b->world;
    const symm_grid one = {.blocks = 1, .threads = 32};
    symm_kernel *kernel = NULL, *none = NULL;
    uint32_t blocks = 0, untouched = 4711;
    test_signal_args a = {.pad = b->pad};
    RANK_TRY(self, symm_group_view(w, &a.view));
    WRONG_TEXT("no_such_kernel", symm_kernel_load(b->ctx, &test_kernels, "no_such_kernel", &none));
    RANK_TEXT(self, "the image has no kernel \"no_such_kernel\": it has test_");
    RANK_TEXT(self, ", ...");
    RANK_TRY(self, symm_kernel_load(b->ctx, &test_kernels, "test_signal_and_wait", &kernel));
    RANK_TRY(self, symm_kernel_max_blocks(w, kernel, 64, 0, &blocks));
    CHECK_RANK(self, blocks > 0 && !none);
    WRONG(symm_kernel_max_blocks(w, kernel, 0, 0, &untouched));
    WRONG(symm_kernel_max_blocks(w, kernel, 65, 0, &untouched));
    WRONG_TEXT("smem_nbytes", symm_kernel_max_blocks(w, kernel, 64, (227 << 10) + 1, &untouched));
    WRONG(symm_kernel_max_blocks(w, kernel, 64, UINT32_MAX, &untouched));
    CHECK_RANK(self, untouched == 4711);
#define LAUNCH(...) symm_launch(w, kernel, &(symm_grid){__VA_ARGS__}, &a, sizeof a, b->s)
    WRONG_TEXT("smem_nbytes", LAUNCH(.blocks = 1, .threads = 32, .smem_nbytes = 228 << 10));
    WRONG_TEXT("blocks", LAUNCH(.blocks = 0, .threads = 32));
    WRONG_TEXT("threads", LAUNCH(.blocks = 1, .threads = 0));
    WRONG_TEXT("threads", LAUNCH(.blocks = 1, .threads = 65)); /* the kernel has 64 at most */
    WRONG_TEXT("blocks", LAUNCH(.blocks = 1u << 30, .threads = 64));
    WRONG_TEXT("grid.reserved[1] is 5", LAUNCH(.blocks = 1, .threads = 32, .reserved[1] = 5));
#undef LAUNCH
    WRONG(symm_launch(w, kernel, &one, &a, sizeof a - 8, b->s));
    WRONG(symm_launch(w, kernel, NULL, &a, sizeof a, b->s));
    WRONG(symm_launch(w, kernel, &one, NULL, sizeof a, b->s));
    a.view.abi = 9;
    RANK_EXPECT(self, SYMM_ERROR_VERSION, symm_launch(w, kernel, &one, &a, sizeof a, b->s));
out:
    symm_kernel_unload(kernel);
}

TEST_GROUP(out_of_turn, 60);

BENCH_TEST(out_of_turn, nothing_is_destroyed_anywhere_while_one_rank_captures, 2)
{
    symm_graph graph = NULL;
    symm_group *g = NULL;
    char *y = NULL;
    RANK_TRY(self, group_of_all(b->world, &g));
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
out:
    symm_graph_destroy(graph);
}

BENCH_TEST(out_of_turn, collective_calls_are_refused_in_a_capture, 2)
{
    symm_group *w = b->world;
    static const int64_t shape[] = {4};
    symm_graph graph = NULL;
    symm_group *g = NULL;
    symm_signal_pad *pad = NULL;
    symm_tensor t;
    symm_status st[8];
    char text[1024];
    void *p = NULL;
    int n = 0;
    RANK_TRY(self, symm_barrier(w, b->s)); /* the group has used this stream */
    RANK_TRY(self, symm_synchronize(w, b->s));
    RANK_TRY(self, symm_graph_begin(b->s));
    st[n++] = symm_alloc(w, 4096, &p);
    snprintf(text, sizeof text, "%s", symm_error_text());
    st[n++] = symm_trim(w);
    st[n++] = symm_group_create(w, 2, all, &g);
    st[n++] = symm_signal_pad_alloc(w, 1, &pad);
    st[n++] = symm_tensor_alloc(w, SYMM_FLOAT32, 1, shape, &t);
    st[n++] = symm_exchange(w, NULL, 0, NULL);
    st[n++] = symm_synchronize(w, b->s);
    st[n++] = symm_stream_synchronize(b->s);
    const symm_status works =
        symm_all_reduce(w, b->x, b->x, 100, SYMM_FLOAT32, SYMM_SUM, NULL, b->s);
    RANK_TRY(self, symm_graph_end(b->s, &graph));
    for (int i = 0; i < n; i++)
        CHECK_RANK_MSG(self, st[i] == SYMM_ERROR_STATE, "call %d gave %s", i,
                       symm_status_name(st[i]));
    CHECK_RANK_MSG(self, strstr(text, "captur"), "%s", text);
    RANK_TRY(self, works);
    RANK_TRY(self, symm_graph_launch(graph, b->s));
    RANK_TRY(self, symm_synchronize(w, b->s));
out:
    symm_graph_destroy(graph);
}

BENCH_TEST(out_of_turn, a_capture_begins_once_and_ends_once, 2)
{
    symm_group *w = b->world;
    symm_graph graph = NULL, none = NULL;
    RANK_EXPECT_TEXT(self, SYMM_ERROR_STATE, "is not being captured", symm_graph_end(b->s, &none));
    RANK_TRY(self, symm_graph_begin(b->s));
    const symm_status again = symm_graph_begin(b->s);
    const bool said = strstr(symm_error_text(), "is being captured already");
    const symm_status works =
        symm_all_reduce(w, b->x, b->x, 100, SYMM_FLOAT32, SYMM_SUM, NULL, b->s);
    RANK_TRY(self, symm_graph_end(b->s, &graph));
    CHECK_RANK_MSG(self, again == SYMM_ERROR_STATE && said, "%s: %s", symm_status_name(again),
                   symm_error_text());
    RANK_TRY(self, works);
    RANK_EXPECT_TEXT(self, SYMM_ERROR_STATE, "is not being captured", symm_graph_end(b->s, &none));
    CHECK_RANK(self, none == NULL);
    RANK_TRY(self, symm_graph_launch(graph, b->s));
    RANK_TRY(self, symm_synchronize(w, b->s));
out:
    symm_graph_destroy(graph);
}

struct ending {
    symm_stream s;
    symm_status status;
};

static void *end_elsewhere(void *arg)
{
    struct ending *ending = arg;
    symm_graph none = NULL;

    ending->status = symm_graph_end(ending->s, &none);
    return NULL;
}

/* The capture goes on, with all that it forbids. */
BENCH_TEST(out_of_turn, another_thread_does_not_end_a_capture, 2)
{
    symm_group *w = b->world;
    struct ending ending = {.s = b->s};
    symm_graph graph = NULL;
    pthread_t thread;

    RANK_TRY(self, symm_graph_begin(b->s));
    CHECK_RANK(self, pthread_create(&thread, NULL, end_elsewhere, &ending) == 0);
    pthread_join(thread, NULL);
    const symm_status refused = symm_exchange(w, NULL, 0, NULL);
    const symm_status works =
        symm_all_reduce(w, b->x, b->x, 100, SYMM_FLOAT32, SYMM_SUM, NULL, b->s);
    RANK_TRY(self, symm_graph_end(b->s, &graph));
    CHECK_RANK(self, ending.status == SYMM_ERROR_STATE && refused == SYMM_ERROR_STATE);
    RANK_TRY(self, works);
    RANK_TRY(self, symm_exchange(w, NULL, 0, NULL));
    RANK_TRY(self, symm_graph_launch(graph, b->s));
    RANK_TRY(self, symm_synchronize(w, b->s));
out:
    symm_graph_destroy(graph);
}

static int calls_in_a_child(struct bench *b)
{
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
    symm_check(b->world);
    if (!strstr(symm_error_text(), "the group was destroyed, or belongs to the process this one"))
        return 100;
    symm_stream_create(b->ctx, &s);
    return strstr(symm_error_text(), "the context was destroyed, or belongs to") ? 0 : 101;
}

BENCH_TEST(out_of_turn, a_child_of_fork_is_refused_and_harms_nobody, 2)
{
    int status = 0;
    const pid_t pid = fork();
    if (pid == 0)
        _exit(calls_in_a_child(b));
    CHECK_RANK(self, waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    CHECK_RANK_MSG(self, WEXITSTATUS(status) == 0, "call %d of the child was not refused",
                   WEXITSTATUS(status));
out:;
}

BENCH_TEST(out_of_turn, after_an_abort_every_call_says_so, 2)
{
    symm_group *w = b->world;
    b->ended = true;
    symm_group *g = NULL;
    void *p = NULL;
    if (self->rank == 1)
        symm_abort(w, "enough of this");
    for (int i = 0; i < 200 && symm_check(w) == SYMM_OK; i++)
        pause_ms(10);
#define DEAD(call) RANK_EXPECT_TEXT(self, SYMM_ERROR_PEER, "enough of this", call)
    DEAD(symm_check(w));
    DEAD(symm_alloc(w, 100, &p));
    DEAD(symm_exchange(w, NULL, 0, NULL));
    DEAD(symm_group_create(w, 2, all, &g));
    DEAD(symm_trim(w));
    DEAD(symm_put(w, b->x, b->plain, 4, 1, b->s));
    DEAD(symm_get(w, b->plain, b->x, 4, 1, b->s));
    DEAD(symm_signal(w, b->pad, 0, 1, 1, b->s));
    DEAD(symm_wait(w, b->pad, 0, 1, 1, b->s));
    DEAD(symm_barrier(w, b->s));
    DEAD(symm_all_reduce(w, b->x, b->x, 4, SYMM_FLOAT32, SYMM_SUM, NULL, b->s));
    DEAD(symm_reduce_scatter(w, b->x, b->plain, 4, SYMM_FLOAT32, SYMM_SUM, NULL, b->s));
    DEAD(symm_all_gather(w, b->x, b->plain, 4, SYMM_FLOAT32, NULL, b->s));
    DEAD(symm_broadcast(w, b->x, b->plain, 4, SYMM_FLOAT32, 0, NULL, b->s));
    DEAD(symm_synchronize(w, b->s));
#undef DEAD
    RANK_TEXT(self, "rank 1");
    CHECK_RANK(self, symm_rank(w) == self->rank); /* getters go on */
    RANK_TRY(self, symm_free(w, b->x));
out:;
}
