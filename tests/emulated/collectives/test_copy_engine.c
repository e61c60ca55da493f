/*
 * The collectives by copy engines on the emulated driver: all three operations on every world of 1
 * to 8, with any count, type and operation, eager and from graphs by turns. Every call gets fresh
 * data; what it writes, and what lies around it, is filled with a pattern first.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <symm/collectives.h>
#include <symm/stream.h>
#include "exercise.h"
#include "leaks.h"
#include "ranks.h"
#include "reference.h"
#include "test.h"

enum operation { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, NOPERATIONS };

static const struct kind {
    symm_dtype dtype;
    symm_redop op;
} kinds[] = {
    {SYMM_BFLOAT16, SYMM_SUM}, {SYMM_FLOAT32, SYMM_SUM}, {SYMM_FLOAT16, SYMM_AVG},
    {SYMM_FLOAT64, SYMM_SUM},  {SYMM_INT32, SYMM_SUM},   {SYMM_INT64, SYMM_MAX},
    {SYMM_FLOAT64, SYMM_AVG},  {SYMM_FLOAT32, SYMM_MIN}, {SYMM_FLOAT16, SYMM_MAX},
    {SYMM_BFLOAT16, SYMM_AVG},
};
enum { NKINDS = sizeof kinds / sizeof kinds[0], MARGIN = 256 };

/* Of a reduce-scatter and an all-gather `count` elements a rank. */
struct call {
    enum operation operation;
    symm_dtype dtype;
    symm_redop op;
    size_t count;
    int skew; /* elements by which the buffers miss their alignment */
    bool in_place;
    bool elsewhere; /* what no other rank writes to is not symmetric, nor aligned as elsewhere */
    symm_options options;
    uint64_t round; /* of the data */
};

/* Two symmetric buffers and two that are not, of so many bytes each. */
struct buffers {
    char *in, *out, *own_in, *own_out, *host;
    size_t nbytes;
};

static size_t size_of(symm_dtype dtype)
{
    return dtype == SYMM_FLOAT8_E4M3 ? 1 : reference_size(dtype);
}

/* Where the data of a call lie, and how many bytes they have. */
struct place {
    char *in, *out;
    size_t in_nbytes, out_nbytes;
};

static struct place place_of(const struct call *c, const struct buffers *b, int rank, int nranks)
{
    const size_t size = size_of(c->dtype), one = c->count * size, all = one * (size_t)nranks,
                 mine = one * (size_t)rank, skew = MARGIN + (size_t)c->skew * size;
    struct place p = {.in = b->in + skew, .out = b->out + 3 * skew - 2 * MARGIN};

    p.in_nbytes = c->operation == REDUCE_SCATTER ? all : one;
    p.out_nbytes = c->operation == ALL_GATHER ? all : one;
    if (c->elsewhere && c->operation == REDUCE_SCATTER)
        p.out = b->own_out + MARGIN + (size_t)rank * size;
    if (c->elsewhere && !(c->in_place && c->operation == ALL_REDUCE))
        p.in = b->own_in + MARGIN + 2 * (size_t)rank * size;
    if (c->in_place && c->operation == ALL_GATHER)
        p.in = p.out + mine;
    else if (c->in_place)
        p.out = p.in + (c->operation == REDUCE_SCATTER ? mine : 0);
    return p;
}

/* A rank's data: an all-gather's are any bytes. */
static void fill(const struct call *c, void *host, size_t nbytes, int rank)
{
    if (c->operation == ALL_GATHER)
        reference_poison(host, nbytes, c->round * 1000 + (uint64_t)rank + 1);
    else
        reference_fill(host, nbytes / size_of(c->dtype), c->dtype, c->round, rank);
}

static symm_status make(symm_context *ctx, symm_group *group, size_t most, struct buffers *b)
{
    symm_status st;

    b->nbytes = most + 4 * (MARGIN + 64);
    b->host = malloc(b->nbytes);
    st = symm_alloc(group, b->nbytes, (void **)&b->in);
    if (st == SYMM_OK)
        st = symm_alloc(group, b->nbytes, (void **)&b->out);
    if (st == SYMM_OK)
        st = symm_device_alloc(ctx, b->nbytes, (void **)&b->own_in);
    if (st == SYMM_OK)
        st = symm_device_alloc(ctx, b->nbytes, (void **)&b->own_out);
    return st;
}

static void unmake(symm_context *ctx, symm_group *group, struct buffers *b)
{
    symm_free(group, b->in);
    symm_free(group, b->out);
    symm_device_free(ctx, b->own_in);
    symm_device_free(ctx, b->own_out);
    free(b->host);
}

static symm_status prepare(const struct call *c, const struct buffers *b, symm_group *group,
                           symm_stream stream)
{
    const struct place p = place_of(c, b, symm_rank(group), symm_nranks(group));
    symm_status st;

    reference_poison(b->host, p.out_nbytes + 2 * MARGIN, c->round);
    st = symm_copy(p.out - MARGIN, b->host, p.out_nbytes + 2 * MARGIN, stream);
    fill(c, b->host, p.in_nbytes, symm_rank(group));
    if (st == SYMM_OK)
        st = symm_copy(p.in, b->host, p.in_nbytes, stream);
    return st;
}

static symm_status enqueue(const struct call *c, const struct buffers *b, symm_group *group,
                           symm_stream stream)
{
    const struct place p = place_of(c, b, symm_rank(group), symm_nranks(group));

    switch (c->operation) {
    case ALL_REDUCE:
        return symm_all_reduce(group, p.in, p.out, c->count, c->dtype, c->op, &c->options, stream);
    case REDUCE_SCATTER:
        return symm_reduce_scatter(group, p.in, p.out, c->count, c->dtype, c->op, &c->options,
                                   stream);
    default:
        return symm_all_gather(group, p.in, p.out, c->count, c->dtype, &c->options, stream);
    }
}

/* What lies beside `nbytes` at MARGIN in host, and is not part of the other buffer. */
static int64_t margins_wrong(const struct call *c, const char *host, size_t nbytes)
{
    char *pattern;
    int64_t wrong;

    if (c->in_place && c->operation == REDUCE_SCATTER)
        return 0;
    pattern = malloc(nbytes + 2 * MARGIN);
    reference_poison(pattern, nbytes + 2 * MARGIN, c->round);
    wrong = (memcmp(pattern, host, MARGIN) != 0) +
            (memcmp(pattern + MARGIN + nbytes, host + MARGIN + nbytes, MARGIN) != 0);
    free(pattern);
    return wrong;
}

static int64_t result_wrong(const struct call *c, const char *host, int rank, int nranks)
{
    const size_t size = size_of(c->dtype);
    int64_t wrong = 0;

    if (c->operation != ALL_GATHER)
        return reference_reduction_wrong(
            host, c->operation == REDUCE_SCATTER ? (size_t)rank * c->count : 0, c->count, c->dtype,
            c->op, c->round, nranks, REFERENCE_EXACT);
    for (int r = 0; r < nranks; r++)
        wrong += reference_poison_wrong(host + (size_t)r * c->count * size, c->count * size,
                                        c->round * 1000 + (uint64_t)r + 1);
    return wrong;
}

/* What is only read: all of `in`, or in place the other ranks' shares of it. */
static int64_t input_wrong(const struct call *c, char *host, const struct place *p, int rank)
{
    const size_t one = c->count * size_of(c->dtype);
    char *data = malloc(p->in_nbytes + 1);
    int64_t wrong;

    fill(c, data, p->in_nbytes, rank);
    if (c->in_place)
        memcpy(host + (size_t)rank * one, data + (size_t)rank * one, one);
    wrong = memcmp(data, host, p->in_nbytes) != 0;
    free(data);
    return wrong;
}

static symm_status look(struct rank *self, const struct call *c, const struct buffers *b,
                        symm_group *group, symm_stream stream)
{
    const int rank = symm_rank(group), nranks = symm_nranks(group);
    const struct place p = place_of(c, b, rank, nranks);
    int64_t wrong;

    RANK_TRY(self, symm_copy(b->host, p.out - MARGIN, p.out_nbytes + 2 * MARGIN, stream));
    RANK_TRY(self, symm_synchronize(group, stream));
    wrong =
        result_wrong(c, b->host + MARGIN, rank, nranks) + margins_wrong(c, b->host, p.out_nbytes);
    if (!c->in_place || c->operation == REDUCE_SCATTER) {
        RANK_TRY(self, symm_copy(b->host, p.in, p.in_nbytes, stream));
        RANK_TRY(self, symm_synchronize(group, stream));
        wrong += input_wrong(c, b->host, &p, rank);
    }
    self->report->wrong += wrong;
    self->report->value[0]++;
    CHECK_RANK_MSG(self, wrong == 0,
                   "%d wrong: operation %d, dtype %d, op %d, count %zu, skew %d, in place %d, "
                   "elsewhere %d, %d ranks, round %llu",
                   (int)wrong, (int)c->operation, (int)c->dtype, (int)c->op, c->count, c->skew,
                   c->in_place, c->elsewhere, nranks, (unsigned long long)c->round);
    return SYMM_OK;
out:
    return self->report->status ? self->report->status : SYMM_ERROR_STATE;
}

static struct call draw(uint64_t round, size_t most)
{
    static const size_t edges[] = {1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 33, 64, 257, 1000, 1025};
    const uint64_t u = reference_random(17, round);
    const struct kind kind = kinds[u % NKINDS];
    struct call c = {
        .operation = (enum operation)(round % NOPERATIONS),
        .dtype = kind.dtype,
        .op = kind.op,
        .count =
            u >> 8 & 1 ? edges[(u >> 9) % (sizeof edges / sizeof edges[0])] : 1 + (u >> 9) % most,
        .skew = u >> 40 & 1 ? (int)(u >> 41) % 8 : 0,
        .in_place = u >> 44 & 1,
        .elsewhere = u >> 45 & 1,
        .options = {.algo = SYMM_ALGO_COPY_ENGINE,
                    .flags = u >> 46 & 1 ? SYMM_SYMMETRIC : 0,
                    .max_blocks = u >> 47 & 3},
        .round = round,
    };
    if (c.count > most)
        c.count = most;
    if (c.operation == ALL_GATHER && u >> 49 & 1)
        c.dtype = SYMM_FLOAT8_E4M3;
    return c;
}

/* --------------------------------------------------------------------------------- single calls */

struct plan {
    size_t most; /* elements */
    int ncalls;
};

static void run_calls(struct rank *self, void *arg)
{
    const struct plan *plan = arg;
    struct buffers b = {0};
    struct leaks first, last;
    symm_context *ctx = NULL;
    symm_group *w = NULL;
    symm_stream stream = NULL;

    RANK_TRY(self, rank_join(self, &ctx));
    w = symm_context_world(ctx);
    RANK_TRY(self, make(ctx, w, plan->most * 8 * (size_t)self->nranks, &b));
    RANK_TRY(self, symm_stream_create(ctx, &stream));
    for (int i = 0; i < plan->ncalls; i++) {
        const struct call c = draw((uint64_t)i + 1, plan->most);
        RANK_TRY(self, prepare(&c, &b, w, stream));
        RANK_TRY(self, enqueue(&c, &b, w, stream));
        if (look(self, &c, &b, w, stream) != SYMM_OK)
            goto out;
        if (i == NOPERATIONS - 1)
            leaks_take(&first);
    }
    leaks_take(&last); /* what one call of each has needed is enough for all that follow */
    if (self->mode == RANKS_AS_PROCESSES)
        CHECK_RANK(self, last.driver.streams == first.driver.streams &&
                             last.driver.events == first.driver.events);
out:
    symm_stream_destroy(stream);
    if (ctx)
        unmake(ctx, w, &b);
    symm_context_destroy(ctx);
}

START_TEST(every_world_is_right)
{
    ranks_run_ok(_i, RANKS_AS_PROCESSES, run_calls, &(struct plan){3000, 60}, 120);
}
END_TEST

START_TEST(a_world_of_eleven_is_right)
{
    setenv("SYMM_STAGING_BYTES", "16K", 1);
    setenv("SYMM_EMULATED_DEVICES", "11", 1);
    ranks_run_ok(11, RANKS_AS_PROCESSES, run_calls, &(struct plan){1000, 15}, 120);
}
END_TEST

START_TEST(ranks_may_be_threads)
{
    ranks_run_ok(_i, RANKS_AS_THREADS, run_calls, &(struct plan){3000, 45}, 120);
}
END_TEST

static const struct {
    const char *staging;
    int nranks;
} pieces[] = {{"1K", 2}, {"1K", 8}, {"4K", 3}, {"16K", 4}, {"16K", 5}};
enum { NPIECES = sizeof pieces / sizeof pieces[0] };

START_TEST(many_chunks_go_through_a_small_staging_area)
{
    setenv("SYMM_STAGING_BYTES", pieces[_i].staging, 1);
    ranks_run_ok(pieces[_i].nranks, RANKS_AS_PROCESSES, run_calls, &(struct plan){3000, 30}, 120);
}
END_TEST

START_TEST(megabytes_go_in_large_chunks)
{
    ranks_run_ok(_i, RANKS_AS_PROCESSES, run_calls, &(struct plan){700000, 9}, 120);
}
END_TEST

static const int block_sizes[] = {1, 33, 512};

START_TEST(any_block_size_is_right)
{
    char text[16];
    snprintf(text, sizeof text, "%d", block_sizes[_i]);
    setenv("SYMM_EMULATED_BLOCK", text, 1);
    setenv("SYMM_STAGING_BYTES", "4K", 1);
    ranks_run_ok(3, RANKS_AS_PROCESSES, run_calls, &(struct plan){1000, 20}, 120);
}
END_TEST

START_TEST(weakly_ordered_memory_makes_no_difference)
{
    if (TEST_TSAN)
        TEST_SKIP("under ThreadSanitizer memory is as strong as this machine's");
    setenv("SYMM_EMULATED_WEAK", "1", 1);
    setenv("SYMM_STAGING_BYTES", "4K", 1);
    ranks_run_ok(4, RANKS_AS_PROCESSES, run_calls, &(struct plan){2000, 30}, 120);
}
END_TEST

/* ---------------------------------------------------------------------------- calls that follow */

enum { TRAIN = 6, COUNT = 1500 };

/* Between what goes through the staging area in other ways, without a pause. */
static void run_trains(struct rank *self, void *arg)
{
    static const symm_algo algos[] = {SYMM_ALGO_COPY_ENGINE, SYMM_ALGO_TWO_SHOT,
                                      SYMM_ALGO_COPY_ENGINE, SYMM_ALGO_ONE_SHOT,
                                      SYMM_ALGO_COPY_ENGINE, SYMM_ALGO_LOW_LATENCY};
    struct buffers b[TRAIN] = {{0}};
    struct call calls[TRAIN];
    symm_context *ctx = NULL;
    symm_group *w = NULL;
    symm_stream stream = NULL;
    (void)arg;

    RANK_TRY(self, rank_join(self, &ctx));
    w = symm_context_world(ctx);
    RANK_TRY(self, symm_stream_create(ctx, &stream));
    for (int i = 0; i < TRAIN; i++)
        RANK_TRY(self, make(ctx, w, COUNT * 8 * (size_t)self->nranks, &b[i]));
    for (uint64_t t = 0; t < 15; t++) {
        for (int i = 0; i < TRAIN; i++) {
            calls[i] = draw(1 + t * TRAIN + (uint64_t)i, COUNT);
            if (algos[i] != SYMM_ALGO_COPY_ENGINE)
                calls[i].operation = ALL_REDUCE, calls[i].dtype = SYMM_FLOAT32;
            calls[i].options.algo = algos[i];
            RANK_TRY(self, prepare(&calls[i], &b[i], w, stream));
        }
        for (int i = 0; i < TRAIN; i++)
            RANK_TRY(self, enqueue(&calls[i], &b[i], w, stream));
        for (int i = 0; i < TRAIN; i++)
            if (look(self, &calls[i], &b[i], w, stream) != SYMM_OK)
                goto out;
    }
out:
    symm_stream_destroy(stream);
    for (int i = 0; i < TRAIN && ctx; i++)
        unmake(ctx, w, &b[i]);
    symm_context_destroy(ctx);
}

START_TEST(calls_follow_each_other_without_a_pause)
{
    setenv("SYMM_STAGING_BYTES", "8K", 1);
    ranks_run_ok(_i, RANKS_AS_PROCESSES, run_trains, NULL, 120);
}
END_TEST

/* --------------------------------------------------------------------------------------- graphs */

/*
 * A graph of all three operations, replayed with fresh data; between its replays, and once inside
 * its capture, the group makes eager calls on another stream.
 */
static void replay(struct rank *self, void *arg)
{
    struct buffers b[NOPERATIONS] = {{0}}, beside = {0};
    struct call calls[NOPERATIONS], eager;
    symm_context *ctx = NULL;
    symm_group *w = NULL;
    symm_stream stream = NULL, other = NULL;
    symm_graph graph = NULL;
    (void)arg;

    RANK_TRY(self, rank_join(self, &ctx));
    w = symm_context_world(ctx);
    RANK_TRY(self, symm_stream_create(ctx, &stream));
    RANK_TRY(self, symm_stream_create(ctx, &other));
    RANK_TRY(self, make(ctx, w, COUNT * 8 * (size_t)self->nranks, &beside));
    for (int i = 0; i < NOPERATIONS; i++) {
        RANK_TRY(self, make(ctx, w, COUNT * 8 * (size_t)self->nranks, &b[i]));
        calls[i] = draw(1000 + (uint64_t)i, COUNT);
        calls[i].operation = (enum operation)i;
        if (calls[i].dtype == SYMM_FLOAT8_E4M3)
            calls[i].dtype = SYMM_BFLOAT16;
    }
    RANK_TRY(self, symm_graph_begin(stream));
    for (int i = 0; i < NOPERATIONS; i++) {
        RANK_TRY(self, enqueue(&calls[i], &b[i], w, stream));
        if (i != 1)
            continue;
        eager = draw(2000, COUNT);
        RANK_TRY(self, prepare(&eager, &beside, w, other));
        RANK_TRY(self, enqueue(&eager, &beside, w, other));
        if (look(self, &eager, &beside, w, other) != SYMM_OK)
            goto out;
    }
    RANK_TRY(self, symm_graph_end(stream, &graph));
    for (uint64_t round = 1; round <= 12; round++) {
        for (int i = 0; i < NOPERATIONS; i++) {
            calls[i].round = round * 10 + (uint64_t)i;
            RANK_TRY(self, prepare(&calls[i], &b[i], w, stream));
        }
        RANK_TRY(self, symm_graph_launch(graph, stream));
        for (int i = 0; i < NOPERATIONS; i++)
            if (look(self, &calls[i], &b[i], w, stream) != SYMM_OK)
                goto out;
        if (round % 3)
            continue;
        eager = draw(2000 + round, COUNT);
        RANK_TRY(self, prepare(&eager, &beside, w, other));
        RANK_TRY(self, enqueue(&eager, &beside, w, other));
        if (look(self, &eager, &beside, w, other) != SYMM_OK)
            goto out;
    }
out:
    symm_graph_destroy(graph);
    symm_stream_destroy(stream);
    symm_stream_destroy(other);
    for (int i = 0; i < NOPERATIONS && ctx; i++)
        unmake(ctx, w, &b[i]);
    if (ctx)
        unmake(ctx, w, &beside);
    symm_context_destroy(ctx);
}

START_TEST(graphs_replay_between_eager_calls)
{
    setenv("SYMM_STAGING_BYTES", "8K", 1);
    ranks_run_ok(_i, RANKS_AS_PROCESSES, replay, NULL, 120);
}
END_TEST

/* --------------------------------------------------------------------------- two groups at once */

/* On two streams, also in two captures at a time; half of the ranks begin with the other one. */
static void run_two_groups(struct rank *self, void *arg)
{
    struct buffers b[2] = {{0}};
    struct call calls[2];
    symm_context *ctx = NULL;
    symm_group *groups[2] = {NULL, NULL};
    symm_stream streams[2] = {NULL, NULL};
    symm_graph graphs[2] = {NULL, NULL};
    (void)arg;

    RANK_TRY(self, rank_join(self, &ctx));
    groups[0] = symm_context_world(ctx);
    int ranks[RANKS_MAX];
    for (int r = 0; r < self->nranks; r++)
        ranks[r] = self->nranks - 1 - r;
    RANK_TRY(self, symm_group_create(groups[0], self->nranks, ranks, &groups[1]));
    for (int g = 0; g < 2; g++) {
        RANK_TRY(self, symm_stream_create(ctx, &streams[g]));
        RANK_TRY(self, make(ctx, groups[g], COUNT * 8 * (size_t)self->nranks, &b[g]));
    }
    for (uint64_t round = 1; round <= 20; round++) {
        const int first = self->rank % 2;
        for (int i = 0; i < 2; i++) {
            const int g = (first + i) % 2;
            calls[g] = draw(round * 2 + (uint64_t)g, COUNT);
            RANK_TRY(self, prepare(&calls[g], &b[g], groups[g], streams[g]));
        }
        for (int g = 0; g < 2 && round % 2; g++)
            RANK_TRY(self, symm_graph_begin(streams[g]));
        for (int i = 0; i < 2; i++) {
            const int g = (first + i) % 2;
            RANK_TRY(self, enqueue(&calls[g], &b[g], groups[g], streams[g]));
        }
        for (int g = 0; g < 2 && round % 2; g++)
            RANK_TRY(self, symm_graph_end(streams[g], &graphs[g]));
        for (int i = 0; i < 2 && round % 2; i++)
            RANK_TRY(self, symm_graph_launch(graphs[(first + i) % 2], streams[(first + i) % 2]));
        for (int g = 0; g < 2; g++) {
            if (look(self, &calls[g], &b[g], groups[g], streams[g]) != SYMM_OK)
                goto out;
            symm_graph_destroy(graphs[g]);
            graphs[g] = NULL;
        }
    }
out:
    for (int g = 0; g < 2; g++) {
        symm_graph_destroy(graphs[g]);
        symm_stream_destroy(streams[g]);
        if (ctx && groups[g])
            unmake(ctx, groups[g], &b[g]);
    }
    symm_group_destroy(groups[1]);
    symm_context_destroy(ctx);
}

START_TEST(two_groups_run_at_once_on_two_streams)
{
    setenv("SYMM_CHECK", "0", 1); /* which has one order of calls in mind */
    setenv("SYMM_STAGING_BYTES", "8K", 1);
    ranks_run_ok(_i, RANKS_AS_PROCESSES, run_two_groups, NULL, 120);
}
END_TEST

/* ------------------------------------------------------------------------------ what is refused */

static const symm_options engine = {.algo = SYMM_ALGO_COPY_ENGINE},
                          promise = {.flags = SYMM_SYMMETRIC};

#define REFUSED(part, call) RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, part, call)

static void call_without_symmetric_memory(struct rank *self, void *arg)
{
    struct buffers b = {0};
    symm_context *ctx = NULL;
    symm_group *w = NULL;
    symm_stream s = NULL;
    (void)arg;

    RANK_TRY(self, rank_join(self, &ctx));
    w = symm_context_world(ctx);
    RANK_TRY(self, symm_stream_create(ctx, &s));
    RANK_TRY(self, make(ctx, w, 4096, &b));
    const symm_dtype f = SYMM_FLOAT32;
    for (int i = 0; i < 2; i++) {
        const symm_options *o = i ? &promise : &engine;
        REFUSED("out must be", symm_all_reduce(w, b.in, b.own_out, 8, f, SYMM_SUM, o, s));
        REFUSED("out must be", symm_all_reduce(w, b.own_in, b.own_in, 8, f, SYMM_SUM, o, s));
        REFUSED("out must be", symm_all_gather(w, b.in, b.own_out, 8, f, o, s));
    }
    REFUSED("flags", symm_all_gather(w, b.in, b.out, 8, f, &(symm_options){.flags = 4}, s));
    CHECK_RANK(self, !symm_all_gather_unavailable(w, SYMM_ALGO_COPY_ENGINE, SYMM_UINT8));
    CHECK_RANK(self, symm_all_reduce_unavailable(w, SYMM_ALGO_COPY_ENGINE, SYMM_UINT8, SYMM_SUM));
    rank_note(self, SYMM_OK);
    for (uint64_t i = 0; i < 2 * NOPERATIONS; i++) {
        struct call c = draw(i, 100);
        c.options = i % 2 ? engine : promise; /* of which whatever it takes is right */
        c.elsewhere = true;
        RANK_TRY(self, prepare(&c, &b, w, s));
        RANK_TRY(self, enqueue(&c, &b, w, s));
        if (look(self, &c, &b, w, s) != SYMM_OK)
            goto out;
    }
out:
    symm_stream_destroy(s);
    if (ctx)
        unmake(ctx, w, &b);
    symm_context_destroy(ctx);
}

START_TEST(memory_that_is_not_symmetric_is_refused)
{
    ranks_run_ok(2, RANKS_AS_PROCESSES, call_without_symmetric_memory, NULL, 30);
}
END_TEST

/* What rank 1 has elsewhere, or calls instead. */
enum difference { OTHER_PLACE, OTHER_COUNT, OTHER_OPERATION, OTHER_ALGORITHM, NDIFFERENCES };

static void call_different_things(struct rank *self, void *arg)
{
    const enum difference difference = *(enum difference *)arg;
    const bool odd = self->rank == 1;
    struct buffers b = {0};
    symm_context *ctx = NULL;
    symm_group *w = NULL;
    symm_stream s = NULL;
    struct call c = {.operation = ALL_REDUCE,
                     .dtype = SYMM_FLOAT32,
                     .count = 100,
                     .options = engine,
                     .round = 1};

    RANK_TRY(self, rank_join(self, &ctx));
    w = symm_context_world(ctx);
    RANK_TRY(self, symm_stream_create(ctx, &s));
    RANK_TRY(self, make(ctx, w, 8192, &b));
    if (odd && difference == OTHER_PLACE)
        b.out += 16;
    if (odd && difference == OTHER_COUNT)
        c.count++;
    if (odd && difference == OTHER_OPERATION)
        c.operation = ALL_GATHER;
    if (odd && difference == OTHER_ALGORITHM)
        c.options.algo = SYMM_ALGO_TWO_SHOT;
    RANK_TRY(self, enqueue(&c, &b, w, s));
    rank_note(self, symm_synchronize(w, s));
    if (odd && difference == OTHER_PLACE)
        b.out -= 16;
out:
    symm_stream_destroy(s);
    if (ctx)
        unmake(ctx, w, &b);
    symm_context_destroy(ctx);
}

START_TEST(different_calls_and_places_are_a_mismatch_on_all_ranks)
{
    struct rank_report reports[3];
    enum difference difference = (enum difference)_i;
    setenv("SYMM_CHECK", "0", 1);
    setenv("SYMM_TIMEOUT_MS", "3000", 1);
    ranks_run(3, RANKS_AS_PROCESSES, call_different_things, &difference, reports, 30);
    ranks_assert_clean(reports, 3);
    for (int r = 0; r < 3; r++)
        ck_assert_msg(reports[r].status == SYMM_ERROR_MISMATCH, "rank %d: %s: %s", r,
                      symm_status_name(reports[r].status), reports[r].text);
}
END_TEST

/* -------------------------------------------------------------------------------------- its end */

/* Rank 1 gives up while the others are in calls, eager and replayed, and perhaps itself. */
static void lose_a_rank(struct rank *self, void *arg)
{
    const bool amid = *(const bool *)arg;
    struct buffers b = {0};
    symm_context *ctx = NULL;
    symm_group *w = NULL, *g = NULL;
    symm_stream s = NULL;
    symm_graph graph = NULL;
    struct call c = draw(3, COUNT);

    RANK_TRY(self, rank_join(self, &ctx));
    w = symm_context_world(ctx);
    int ranks[RANKS_MAX];
    for (int r = 0; r < self->nranks; r++)
        ranks[r] = r;
    RANK_TRY(self, symm_group_create(w, self->nranks, ranks, &g));
    RANK_TRY(self, symm_stream_create(ctx, &s));
    RANK_TRY(self, make(ctx, w, COUNT * 8 * (size_t)self->nranks, &b));
    RANK_TRY(self, symm_graph_begin(s));
    RANK_TRY(self, enqueue(&c, &b, g, s));
    RANK_TRY(self, symm_graph_end(s, &graph));
    RANK_TRY(self, prepare(&c, &b, g, s));
    RANK_TRY(self, enqueue(&c, &b, g, s));
    if (look(self, &c, &b, g, s) != SYMM_OK)
        goto out;
    RANK_TRY(self, symm_exchange(g, NULL, 0, NULL)); /* everyone has looked */
    for (int i = 0; i < 3 && (self->rank != 1 || amid); i++)
        RANK_TRY(self, symm_graph_launch(graph, s));
    for (int i = 0; i < 3 && self->rank != 1 && enqueue(&c, &b, g, s) == SYMM_OK; i++)
        ;
    if (self->rank == 1) {
        pause_ms(amid ? 1 : 50);
        symm_abort(g, "a test");
    }
    const int64_t before = now_ms();
    RANK_EXPECT(self, SYMM_ERROR_PEER, symm_synchronize(g, s));
    CHECK_RANK_MSG(self, now_ms() - before < 3000, "%lld ms", (long long)(now_ms() - before));
    symm_group_destroy(g);
    g = NULL;
    /* The world, and its own side streams, are as they were. */
    RANK_TRY(self, symm_barrier(w, s));
    c.round = 77;
    RANK_TRY(self, prepare(&c, &b, w, s));
    RANK_TRY(self, enqueue(&c, &b, w, s));
    if (look(self, &c, &b, w, s) != SYMM_OK)
        goto out;
    rank_note(self, SYMM_OK);
out:
    symm_graph_destroy(graph);
    symm_stream_destroy(s);
    symm_group_destroy(g);
    if (ctx)
        unmake(ctx, w, &b);
    symm_context_destroy(ctx);
}

START_TEST(an_abort_ends_calls_and_leaves_nothing_behind)
{
    setenv("SYMM_STAGING_BYTES", "8K", 1);
    ranks_run_ok(2 + _i % 3, RANKS_AS_PROCESSES, lose_a_rank, &(bool){_i >= 3}, 60);
}
END_TEST

/* The driver refuses rank 1 a copy, so that it never meets the others for that chunk. */
static void stop_half_way(struct rank *self, void *arg)
{
    bool (*set_fault)(const char *) = NULL;
    struct buffers b = {0};
    symm_context *ctx = NULL;
    symm_group *w = NULL;
    symm_stream s = NULL;
    struct call c = {.operation = ALL_REDUCE,
                     .dtype = SYMM_FLOAT32,
                     .count = 3 * COUNT,
                     .options = engine,
                     .round = 1};

    RANK_TRY(self, rank_join(self, &ctx));
    w = symm_context_world(ctx);
    *(void **)&set_fault = symm_context_driver_symbol(ctx, "symm_emulated_set_fault");
    RANK_TRY(self, symm_stream_create(ctx, &s));
    RANK_TRY(self, make(ctx, w, 3 * COUNT * sizeof(float), &b));
    set_fault(arg);
    const symm_status st = enqueue(&c, &b, w, s);
    set_fault(NULL);
    CHECK_RANK(self, st == (self->rank == 1 ? SYMM_ERROR_MEMORY : SYMM_OK));
    for (int i = 0; self->rank == 1 && i < 1000 && symm_check(w) == SYMM_OK; i++)
        pause_ms(10);
    RANK_EXPECT_TEXT(self, SYMM_ERROR_TIMEOUT, "for rank 1, pad", symm_synchronize(w, s));
out:
    symm_stream_destroy(s);
    if (ctx)
        unmake(ctx, w, &b);
    symm_context_destroy(ctx);
}

/* In the middle of a scatter, of a gather, and behind the first chunk's. */
static char half_way[][32] = {"cuMemcpyAsync@1#2=2", "cuMemcpyAsync@1#6=2", "cuMemcpyAsync@1#7=2",
                              "cuLaunchKernelEx@1#2=2"};

START_TEST(who_stops_half_way_is_named)
{
    struct rank_report reports[3];
    setenv("SYMM_CHECK", "0", 1);
    setenv("SYMM_STAGING_BYTES", "8K", 1);
    setenv("SYMM_TIMEOUT_MS", "2000", 1);
    ranks_run(3, RANKS_AS_PROCESSES, stop_half_way, half_way[_i], reports, 60);
    ranks_assert_clean(reports, 3);
}
END_TEST

/* Rank 0's n-th call of each kind fails in a capture, which can be ended all the same. */
static void fail_in_captures(struct rank *self, void *arg)
{
    static const char *const calls[] = {"cuStreamCreateWithPriority", "cuEventCreate",
                                        "cuMemcpyAsync", "cuLaunchKernelEx"};
    bool (*set_fault)(const char *) = NULL;
    struct buffers b = {0};
    symm_context *ctx = NULL;
    symm_group *w = NULL;
    symm_stream s = NULL;
    symm_graph graph = NULL;
    char fault[64];
    (void)arg;

    RANK_TRY(self, rank_join(self, &ctx));
    w = symm_context_world(ctx);
    *(void **)&set_fault = symm_context_driver_symbol(ctx, "symm_emulated_set_fault");
    RANK_TRY(self, symm_stream_create(ctx, &s));
    RANK_TRY(self, make(ctx, w, COUNT * 8 * (size_t)self->nranks, &b));
    for (int i = 0; i < 4; i++)
        for (int n = 1; n <= 4; n++) {
            struct call c = draw((uint64_t)(10 * i + n), COUNT);
            RANK_TRY(self, symm_graph_begin(s));
            snprintf(fault, sizeof fault, "%s@0#%d=2", calls[i], n);
            set_fault(fault);
            const symm_status st = enqueue(&c, &b, w, s);
            set_fault(NULL);
            CHECK_RANK(self, st == SYMM_OK || (self->rank == 0 && st == SYMM_ERROR_MEMORY));
            self->report->value[1] += st != SYMM_OK;
            RANK_TRY(self, symm_graph_end(s, &graph));
            symm_graph_destroy(graph);
            graph = NULL;
        }
    CHECK_RANK(self, self->rank || self->report->value[1] > 3);
    for (uint64_t i = 1; i < 4; i++) {
        struct call c = draw(i, COUNT);
        RANK_TRY(self, prepare(&c, &b, w, s));
        RANK_TRY(self, enqueue(&c, &b, w, s));
        if (look(self, &c, &b, w, s) != SYMM_OK)
            goto out;
    }
out:
    symm_graph_destroy(graph);
    symm_stream_destroy(s);
    if (ctx)
        unmake(ctx, w, &b);
    symm_context_destroy(ctx);
}

START_TEST(a_failure_in_a_capture_leaves_no_stream_unjoined)
{
    setenv("SYMM_CHECK", "0", 1);
    setenv("SYMM_STAGING_BYTES", "8K", 1);
    ranks_run_ok(3, RANKS_AS_PROCESSES, fail_in_captures, NULL, 60);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("copy_engine");
    TCase *tc = test_case(suite, "calls", 240);
    tcase_add_loop_test(tc, every_world_is_right, 1, 9);
    tcase_add_test(tc, a_world_of_eleven_is_right);
    tcase_add_loop_test(tc, ranks_may_be_threads, 2, 5);
    tcase_add_loop_test(tc, many_chunks_go_through_a_small_staging_area, 0, NPIECES);
    tcase_add_loop_test(tc, megabytes_go_in_large_chunks, 2, 4);
    tcase_add_loop_test(tc, any_block_size_is_right, 0, 3);
    tcase_add_test(tc, weakly_ordered_memory_makes_no_difference);
    tcase_add_loop_test(tc, calls_follow_each_other_without_a_pause, 2, 5);
    tcase_add_loop_test(tc, graphs_replay_between_eager_calls, 2, 5);
    tcase_add_loop_test(tc, two_groups_run_at_once_on_two_streams, 2, 5);
    tcase_add_test(tc, memory_that_is_not_symmetric_is_refused);
    tcase_add_loop_test(tc, different_calls_and_places_are_a_mismatch_on_all_ranks, 0,
                        NDIFFERENCES);
    tcase_add_loop_test(tc, an_abort_ends_calls_and_leaves_nothing_behind, 0, 6);
    tcase_add_loop_test(tc, who_stops_half_way_is_named, 0, 4);
    tcase_add_test(tc, a_failure_in_a_capture_leaves_no_stream_unjoined);
    return test_main(suite);
}
