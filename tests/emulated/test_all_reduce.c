/*
 * symm_all_reduce on the emulated driver: every variant, on every world of 1 to 8, with any count,
 * at any place. Each call gets fresh random data; outputs and what lies around them are filled with
 * a pattern first.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <symm/collectives.h>
#include <symm/stream.h>
#include "exercise.h"
#include "ranks.h"
#include "reference.h"
#include "test.h"

static const symm_algo algos[] = {SYMM_ALGO_ONE_SHOT, SYMM_ALGO_TWO_SHOT, SYMM_ALGO_MULTIMEM,
                                  SYMM_ALGO_MULTIMEM_ONE_SHOT, SYMM_ALGO_AUTO};
static const symm_dtype dtypes[] = {SYMM_FLOAT32, SYMM_FLOAT16, SYMM_BFLOAT16};

/* Where a rank's in and out are. All of it is decided alike by the library, whatever the others
 * have. */
enum place {
    SYMMETRIC_IN_PLACE,
    SYMMETRIC,
    FOREIGN_IN_PLACE,
    FOREIGN,
    FOREIGN_ON_ODD_RANKS,
    OTHER_OFFSET_ON_EACH_RANK,
    UNALIGNED_ALIKE,
    UNALIGNED_ON_EACH_RANK,
    FOREIGN_UNALIGNED,
    ONLY_IN_SYMMETRIC,
    ONLY_OUT_SYMMETRIC,
    NPLACES
};

enum { MARGIN = 1024 }; /* around each buffer */

struct buffers {
    char *symmetric[2], *foreign[2]; /* in, out */
    char *host;
    size_t nbytes; /* of each, margins included */
    symm_stream stream;
};

static symm_status make(symm_context *ctx, size_t most, struct buffers *b)
{
    symm_group *world = symm_context_world(ctx);
    symm_status st = SYMM_OK;

    b->nbytes = most + 2 * MARGIN;
    b->host = malloc(b->nbytes);
    for (int i = 0; i < 2 && st == SYMM_OK; i++) {
        st = symm_alloc(world, b->nbytes, (void **)&b->symmetric[i]);
        if (st == SYMM_OK)
            st = symm_device_alloc(ctx, b->nbytes, (void **)&b->foreign[i]);
    }
    return st == SYMM_OK ? symm_stream_create(ctx, &b->stream) : st;
}

static void unmake(symm_context *ctx, struct buffers *b)
{
    for (int i = 0; i < 2; i++) {
        symm_free(symm_context_world(ctx), b->symmetric[i]);
        if (b->foreign[i])
            symm_device_free(ctx, b->foreign[i]);
    }
    symm_stream_destroy(b->stream);
    free(b->host);
}

static void put(const struct buffers *b, enum place place, int rank, size_t size, char **in,
                char **out)
{
    const bool foreign = place == FOREIGN || place == FOREIGN_IN_PLACE ||
                         place == FOREIGN_UNALIGNED || (place == FOREIGN_ON_ODD_RANKS && rank % 2);
    const size_t each = (size_t)rank * 16, odd = size * (size_t)(1 + rank);

    *in = (foreign || place == ONLY_OUT_SYMMETRIC ? b->foreign[0] : b->symmetric[0]) + MARGIN;
    *out = (foreign || place == ONLY_IN_SYMMETRIC ? b->foreign[1] : b->symmetric[1]) + MARGIN;
    *in += place == OTHER_OFFSET_ON_EACH_RANK ? each
           : place == UNALIGNED_ALIKE         ? size
           : place == UNALIGNED_ON_EACH_RANK  ? odd
           : place == FOREIGN_UNALIGNED       ? odd
                                              : 0;
    *out += place == OTHER_OFFSET_ON_EACH_RANK ? each
            : place == UNALIGNED_ALIKE         ? 3 * size
            : place == FOREIGN_UNALIGNED       ? 5 * size
                                               : 0;
    if (place == SYMMETRIC_IN_PLACE || place == FOREIGN_IN_PLACE)
        *out = *in;
}

/* One call, with everything around it looked at. */
static symm_status reduce(struct rank *self, symm_group *group, const struct buffers *b,
                          enum place place, symm_algo algo, symm_dtype dtype, size_t count,
                          uint32_t max_blocks, uint64_t round)
{
    const size_t size = reference_size(dtype), nbytes = count * size;
    const symm_options options = {.algo = algo, .max_blocks = max_blocks};
    const int rank = symm_rank(group);
    const int64_t before = self->report->wrong;
    const int bound = algo == SYMM_ALGO_AUTO ? REFERENCE_SWITCH : exercise_bound(algo);
    symm_status st;
    char *in, *out;

    put(b, place, rank, size, &in, &out);
    reference_poison(b->host, nbytes + 2 * MARGIN, round);
    RANK_TRY(self, symm_copy(out - MARGIN / 2, b->host + MARGIN / 2, nbytes + MARGIN, b->stream));
    reference_fill(b->host + MARGIN, count, dtype, round, rank);
    RANK_TRY(self, symm_copy(in, b->host + MARGIN, nbytes, b->stream));
    st = symm_all_reduce(group, in, out, count, dtype, SYMM_SUM, &options, b->stream);
    RANK_TRY(self, st);
    RANK_TRY(self, symm_copy(b->host + MARGIN / 2, out - MARGIN / 2, nbytes + MARGIN, b->stream));
    RANK_TRY(self, symm_synchronize(group, b->stream));
    self->report->wrong += reference_wrong(b->host + MARGIN, 0, count, dtype, round,
                                           symm_nranks(group), (enum reference_bound)bound);
    /* The margins: the pattern was laid from the beginning of host. */
    char *pattern = malloc(nbytes + 2 * MARGIN);
    reference_poison(pattern, nbytes + 2 * MARGIN, round);
    self->report->wrong += memcmp(pattern + MARGIN / 2, b->host + MARGIN / 2, MARGIN / 2) != 0;
    self->report->wrong +=
        memcmp(pattern + MARGIN + nbytes, b->host + MARGIN + nbytes, MARGIN / 2) != 0;
    free(pattern);
    if (in != out) { /* it is only read */
        RANK_TRY(self, symm_copy(b->host, in, nbytes, b->stream));
        RANK_TRY(self, symm_synchronize(group, b->stream));
        char *data = malloc(nbytes + 1);
        reference_fill(data, count, dtype, round, rank);
        self->report->wrong += memcmp(data, b->host, nbytes) != 0;
        free(data);
    }
    CHECK_RANK_MSG(self, self->report->wrong == before,
                   "%d wrong: algo %d, dtype %d, count %zu, place %d, max_blocks %u, %d ranks, "
                   "round %llu",
                   (int)(self->report->wrong - before), (int)algo, (int)dtype, count, (int)place,
                   max_blocks, symm_nranks(group), (unsigned long long)round);
    self->report->value[0]++;
    return SYMM_OK;
out:
    return self->report->status ? self->report->status : SYMM_ERROR_STATE;
}

struct plan {
    size_t most;     /* elements */
    int ncounts;     /* how many counts each algorithm gets at each dtype */
    bool all_places; /* each count at every place; else at one, drawn */
};

static size_t draw_count(uint64_t draw, size_t most)
{
    static const size_t edges[] = {0,  1,  2,  3,  4,   5,   7,   8,    9,    15,   16,   17,  31,
                                   33, 63, 64, 65, 255, 256, 257, 1000, 1023, 1024, 1025, 4099};
    const size_t nedges = sizeof edges / sizeof edges[0];
    const size_t count = draw % 4 ? edges[draw / 4 % nedges] : draw / 4 % (most + 1);
    return count <= most ? count : most;
}

static void reduce_all(struct rank *self, void *arg)
{
    const struct plan *plan = arg;
    struct buffers b = {0};
    symm_context *ctx = NULL;
    uint64_t round = 0;

    RANK_TRY(self, rank_join(self, &ctx));
    symm_group *world = symm_context_world(ctx);
    RANK_TRY(self, make(ctx, plan->most * 4, &b));
    for (size_t a = 0; a < sizeof algos / sizeof algos[0]; a++)
        for (size_t d = 0; d < 3; d++) {
            if (symm_all_reduce_unavailable(world, algos[a], dtypes[d], SYMM_SUM))
                continue;
            self->report->value[1] |= 1 << algos[a];
            for (int c = 0; c < plan->ncounts; c++)
                for (int p = 0; p < (plan->all_places ? NPLACES : 1); p++) {
                    const uint64_t draw = reference_random(99, ++round);
                    const size_t count = draw_count(draw >> 8, plan->most);
                    const enum place place =
                        (enum place)(plan->all_places ? p : (int)(draw >> 40) % NPLACES);
                    const uint32_t max_blocks = draw >> 48 & 3;
                    if (reduce(self, world, &b, place, algos[a], dtypes[d], count, max_blocks,
                               round))
                        goto out;
                }
        }
out:
    if (ctx)
        unmake(ctx, &b);
    symm_context_destroy(ctx);
}

static void run(int nranks, enum ranks_mode mode, struct plan plan)
{
    struct rank_report reports[RANKS_MAX];
    ranks_run(nranks, mode, reduce_all, &plan, reports, 200);
    ranks_assert_ok(reports, nranks);
    for (int r = 1; r < nranks; r++) {
        ck_assert_int_eq(reports[r].value[0], reports[0].value[0]);
        ck_assert_int_eq(reports[r].value[1], reports[0].value[1]);
    }
    printf("# %d ranks: %lld calls\n", nranks, (long long)reports[0].value[0]);
    if (nranks > 1)
        ck_assert_int_ne(reports[0].value[1] & 1 << SYMM_ALGO_TWO_SHOT, 0);
}

START_TEST(every_variant_is_right_on_every_world)
{
    run(_i, RANKS_AS_PROCESSES, (struct plan){.most = 5000, .ncounts = 6});
}
END_TEST

START_TEST(every_place_is_right)
{
    run(_i, RANKS_AS_PROCESSES, (struct plan){.most = 3000, .ncounts = 2, .all_places = true});
}
END_TEST

START_TEST(ranks_may_be_threads)
{
    run(_i, RANKS_AS_THREADS, (struct plan){.most = 3000, .ncounts = 3});
}
END_TEST

static const int block_sizes[] = {1, 3, 32, 33, 64, 512};

START_TEST(any_block_size_is_right)
{
    char text[16];
    snprintf(text, sizeof text, "%d", block_sizes[_i]);
    setenv("SYMM_EMULATED_BLOCK", text, 1);
    run(3, RANKS_AS_PROCESSES, (struct plan){.most = 3000, .ncounts = 4});
    run(4, RANKS_AS_PROCESSES, (struct plan){.most = 3000, .ncounts = 4});
}
END_TEST

START_TEST(counters_wrap)
{
    setenv("SYMM_EPOCH_START", "4294967280", 1);
    run(4, RANKS_AS_PROCESSES, (struct plan){.most = 1000, .ncounts = 10});
}
END_TEST

START_TEST(data_larger_than_the_staging_area_goes_in_chunks)
{
    setenv("SYMM_STAGING_BYTES", "64K", 1);
    run(2, RANKS_AS_PROCESSES, (struct plan){.most = 300000, .ncounts = 2, .all_places = true});
    run(5, RANKS_AS_PROCESSES, (struct plan){.most = 100000, .ncounts = 2});
}
END_TEST

static const char *const orders[] = {"rank", "reverse", "random"};

START_TEST(any_order_of_the_switch_is_within_bounds)
{
    setenv("SYMM_EMULATED_ORDER", orders[_i], 1);
    run(4, RANKS_AS_PROCESSES, (struct plan){.most = 5000, .ncounts = 4});
}
END_TEST

/* ----------------------------------------------------------------------------------------- replays
 */

static void replay(struct rank *self, void *arg)
{
    enum { COUNT = 1111, REPLAYS = 60, CALLS = 3 };
    struct buffers b = {0};
    symm_context *ctx = NULL;
    symm_graph graph = NULL;
    static const symm_algo in_graph[CALLS] = {SYMM_ALGO_ONE_SHOT, SYMM_ALGO_TWO_SHOT,
                                              SYMM_ALGO_AUTO};
    (void)arg;

    RANK_TRY(self, rank_join(self, &ctx));
    symm_group *world = symm_context_world(ctx);
    RANK_TRY(self, make(ctx, COUNT * 4, &b));
    RANK_TRY(self, symm_graph_begin(b.stream));
    for (int i = 0; i < CALLS; i++) {
        const symm_options options = {.algo = in_graph[i], .flags = SYMM_DETERMINISTIC};
        RANK_TRY(self,
                 symm_all_reduce(world, b.symmetric[0], i == 1 ? b.symmetric[1] : b.foreign[1],
                                 COUNT, SYMM_BFLOAT16, SYMM_SUM, &options, b.stream));
    }
    RANK_TRY(self, symm_graph_end(b.stream, &graph));
    for (uint64_t round = 0; round < REPLAYS; round++) {
        reference_fill(b.host, COUNT, SYMM_BFLOAT16, round, self->rank);
        RANK_TRY(self, symm_copy(b.symmetric[0], b.host, COUNT * 2, b.stream));
        RANK_TRY(self, symm_fill(b.symmetric[1], 0xff, COUNT * 2, b.stream));
        RANK_TRY(self, symm_fill(b.foreign[1], 0xff, COUNT * 2, b.stream));
        RANK_TRY(self, symm_graph_launch(graph, b.stream));
        for (int i = 0; i < 2; i++) {
            RANK_TRY(self,
                     symm_copy(b.host, i ? b.symmetric[1] : b.foreign[1], COUNT * 2, b.stream));
            RANK_TRY(self, symm_synchronize(world, b.stream));
            self->report->wrong += reference_wrong(b.host, 0, COUNT, SYMM_BFLOAT16, round,
                                                   self->nranks, REFERENCE_EXACT);
        }
    }
out:
    symm_graph_destroy(graph);
    if (ctx)
        unmake(ctx, &b);
    symm_context_destroy(ctx);
}

START_TEST(graphs_replay_across_the_wrap_of_the_counters)
{
    setenv("SYMM_EPOCH_START", "4294967248", 1);
    ranks_run_ok(3, RANKS_AS_PROCESSES, replay, NULL, 120);
}
END_TEST

/* --------------------------------------------------------------------------------------- bad calls
 */

static void call_badly(struct rank *self, void *arg)
{
    struct buffers b = {0};
    symm_context *ctx = NULL;
    (void)arg;

    RANK_TRY(self, rank_join(self, &ctx));
    symm_group *w = symm_context_world(ctx);
    RANK_TRY(self, make(ctx, 4096, &b));
    char *x = b.symmetric[0], *y = b.foreign[0];
    void *z = NULL;
    RANK_TRY(self, symm_alloc(w, 4096, &z));
    char rank[16];
    snprintf(rank, sizeof rank, "rank %d", self->rank);
#define BAD(part, in, out, count, dtype, op, ...)                                                  \
    RANK_EXPECT_TEXT(                                                                              \
        self, SYMM_ERROR_ARGUMENT, part,                                                           \
        symm_all_reduce(w, in, out, count, dtype, op, &(symm_options){__VA_ARGS__}, b.stream));    \
    CHECK_RANK(self,                                                                               \
               strstr(self->report->text, "symm_all_reduce") && strstr(self->report->text, rank))
    BAD("in is NULL and count is 5", NULL, y, 5, SYMM_FLOAT32, SYMM_SUM, 0);
    BAD("out is NULL and count is 5", x, NULL, 5, SYMM_FLOAT32, SYMM_SUM, 0);
    BAD("overlap", x, x + 4, 5, SYMM_FLOAT32, SYMM_SUM, 0);
    BAD("overlap", x + 16, x, 5, SYMM_FLOAT32, SYMM_SUM, 0);
    BAD("not aligned", x + 2, y, 5, SYMM_FLOAT32, SYMM_SUM, 0);
    BAD("not aligned", x, y + 1, 5, SYMM_BFLOAT16, SYMM_SUM, 0);
    BAD("overflows", x, y, SIZE_MAX / 2, SYMM_FLOAT32, SYMM_SUM, 0);
    BAD("overflows", x, y, SIZE_MAX, SYMM_BFLOAT16, SYMM_SUM, 0);
    BAD("dtype 99", x, y, 5, (symm_dtype)99, SYMM_SUM, 0);
    BAD("op 99", x, y, 5, SYMM_FLOAT32, (symm_redop)99, 0);
    BAD("algo 99", x, y, 5, SYMM_FLOAT32, SYMM_SUM, .algo = (symm_algo)99);
    BAD("flags 0x8", x, y, 5, SYMM_FLOAT32, SYMM_SUM, .flags = 8);
    BAD("reserved[3]", x, y, 5, SYMM_FLOAT32, SYMM_SUM, .reserved[3] = 1);
    BAD("in: 8192 bytes at", z, z, 2048, SYMM_FLOAT32, SYMM_SUM, 0);
    if (symm_nranks(w) > 1)
        BAD("out: ", x, symm_peer(w, z, !self->rank), 5, SYMM_FLOAT32, SYMM_SUM, 0);
    if (symm_multicast(w, z))
        BAD("is a multicast address", symm_multicast(w, z), y, 5, SYMM_FLOAT32, SYMM_SUM, 0);
    RANK_TRY(self, symm_free(w, z));
    BAD("freed", z, z, 5, SYMM_FLOAT32, SYMM_SUM, 0);
#undef BAD
    RANK_EXPECT_TEXT(self, SYMM_ERROR_UNSUPPORTED, "float64",
                     symm_all_reduce(w, x, y, 5, SYMM_FLOAT64, SYMM_SUM, NULL, b.stream));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_UNSUPPORTED, "avg",
                     symm_all_reduce(w, x, y, 5, SYMM_FLOAT32, SYMM_AVG, NULL, b.stream));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_UNSUPPORTED, "not in this version",
                     symm_all_reduce(w, x, y, 5, SYMM_FLOAT32, SYMM_SUM,
                                     &(symm_options){.algo = SYMM_ALGO_COPY_ENGINE}, b.stream));
    if (!symm_all_reduce_unavailable(w, SYMM_ALGO_MULTIMEM, SYMM_FLOAT32, SYMM_SUM))
        RANK_EXPECT_TEXT(self, SYMM_ERROR_UNSUPPORTED, "SYMM_DETERMINISTIC",
                         symm_all_reduce(w, x, y, 5, SYMM_FLOAT32, SYMM_SUM,
                                         &(symm_options){.algo = SYMM_ALGO_MULTIMEM,
                                                         .flags = SYMM_DETERMINISTIC},
                                         b.stream));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "group is NULL",
                     symm_all_reduce(NULL, x, y, 5, SYMM_FLOAT32, SYMM_SUM, NULL, b.stream));
    /* Nothing has happened: the group works. */
    RANK_TRY(self, symm_all_reduce(w, NULL, NULL, 0, SYMM_FLOAT32, SYMM_SUM, NULL, b.stream));
    RANK_TRY(self, reduce(self, w, &b, SYMMETRIC, SYMM_ALGO_AUTO, SYMM_FLOAT32, 100, 0, 1));
out:
    if (ctx)
        unmake(ctx, &b);
    symm_context_destroy(ctx);
}

START_TEST(bad_arguments_are_named)
{
    ranks_run_ok(_i, RANKS_AS_PROCESSES, call_badly, NULL, 60);
}
END_TEST

static void multicast_is_off(struct rank *self, void *arg)
{
    struct buffers b = {0};
    symm_context *ctx = NULL;
    (void)arg;

    RANK_TRY(self, rank_join(self, &ctx));
    symm_group *w = symm_context_world(ctx);
    RANK_TRY(self, make(ctx, 4096, &b));
    const char *why = symm_all_reduce_unavailable(w, SYMM_ALGO_MULTIMEM, SYMM_FLOAT32, SYMM_SUM);
    CHECK_RANK(self, why && symm_multicast_off(w) && !strcmp(why, symm_multicast_off(w)));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_UNSUPPORTED, why,
                     symm_all_reduce(w, b.symmetric[0], b.symmetric[1], 5, SYMM_FLOAT32, SYMM_SUM,
                                     &(symm_options){.algo = SYMM_ALGO_MULTIMEM}, b.stream));
    RANK_TRY(self, reduce(self, w, &b, SYMMETRIC, SYMM_ALGO_TWO_SHOT, SYMM_FLOAT32, 100, 0, 1));
out:
    if (ctx)
        unmake(ctx, &b);
    symm_context_destroy(ctx);
}

START_TEST(without_multicast_the_reason_is_given_and_the_rest_works)
{
    setenv("SYMM_MULTICAST", "0", 1);
    ranks_run_ok(4, RANKS_AS_PROCESSES, multicast_is_off, NULL, 60);
}
END_TEST

/* One rank calls something else; the kernels notice, and the group ends on all ranks. */
static void call_differently(struct rank *self, void *arg)
{
    const size_t count = self->rank == 1 ? 200 : 100;
    struct buffers b = {0};
    symm_context *ctx = NULL;
    (void)arg;

    RANK_TRY(self, rank_join(self, &ctx));
    symm_group *w = symm_context_world(ctx);
    RANK_TRY(self, make(ctx, 4096, &b));
    symm_status st = symm_all_reduce(w, b.foreign[0], b.foreign[1], count, SYMM_FLOAT32, SYMM_SUM,
                                     NULL, b.stream);
    if (st == SYMM_OK)
        st = symm_synchronize(w, b.stream);
    CHECK_RANK_MSG(self, st == SYMM_ERROR_MISMATCH, "%s: %s", symm_status_name(st),
                   symm_error_text());
    CHECK_RANK_MSG(self, strstr(symm_error_text(), "count 200"), "%s", symm_error_text());
    if (!strcmp(getenv("SYMM_CHECK"), "0")) /* the kernels have met: nothing can come after that */
        CHECK_RANK(self, symm_check(w) == SYMM_ERROR_MISMATCH);
out:
    if (ctx)
        unmake(ctx, &b);
    symm_context_destroy(ctx);
}

START_TEST(different_calls_are_a_mismatch)
{
    struct rank_report reports[3];
    setenv("SYMM_CHECK", _i ? "1" : "0", 1);
    ranks_run(3, RANKS_AS_PROCESSES, call_differently, NULL, reports, 60);
    ranks_assert_clean(reports, 3);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("all_reduce");
    TCase *right = test_case(suite, "right", 250);
    tcase_add_loop_test(right, every_variant_is_right_on_every_world, 1, 9);
    tcase_add_loop_test(right, every_place_is_right, 1, 5);
    tcase_add_loop_test(right, any_block_size_is_right, 0, 6);
    tcase_add_test(right, counters_wrap);
    tcase_add_test(right, data_larger_than_the_staging_area_goes_in_chunks);
    tcase_add_loop_test(right, any_order_of_the_switch_is_within_bounds, 0, 3);
    tcase_add_test(right, graphs_replay_across_the_wrap_of_the_counters);
    TCase *threads = test_case(suite, "threads", 250); /* what ThreadSanitizer can judge */
    tcase_add_loop_test(threads, ranks_may_be_threads, 1, 5);
    TCase *bad = test_case(suite, "bad", 80);
    tcase_add_loop_test(bad, bad_arguments_are_named, 1, 3);
    tcase_add_test(bad, without_multicast_the_reason_is_given_and_the_rest_works);
    tcase_add_loop_test(bad, different_calls_are_a_mismatch, 0, 2);
    return test_main(suite);
}
