/*
 * Collective calls that follow each other on the emulated driver: of every operation, algorithm and
 * shape one after the other without a pause, replayed from graphs between eager ones, between
 * kernels of the user that are slow, and while the counters go round.
 */
#include <stdio.h>
#include <stdlib.h>
#include "runtime/group/context.h"
#include "chain.h"
#include "collective.h"
#include "exercise.h"
#include "kernels.h"
#include "ranks.h"
#include "reference.h"
#include "test.h"

enum { MOST = 6000 }; /* elements of a call */

static const symm_algo packets_only[] = {SYMM_ALGO_LOW_LATENCY, SYMM_ALGO_LOW_LATENCY_TWO_SHOT};

static const struct collective_variant every[] = {
    {ALL_REDUCE, SYMM_ALGO_LOW_LATENCY},  {ALL_REDUCE, SYMM_ALGO_LOW_LATENCY_TWO_SHOT},
    {ALL_REDUCE, SYMM_ALGO_ONE_SHOT},     {ALL_REDUCE, SYMM_ALGO_TWO_SHOT},
    {ALL_REDUCE, SYMM_ALGO_MULTIMEM},     {ALL_REDUCE, SYMM_ALGO_MULTIMEM_ONE_SHOT},
    {ALL_REDUCE, SYMM_ALGO_AUTO},         {REDUCE_SCATTER, SYMM_ALGO_LOW_LATENCY},
    {REDUCE_SCATTER, SYMM_ALGO_ONE_SHOT}, {REDUCE_SCATTER, SYMM_ALGO_ONE_SHOT},
    {REDUCE_SCATTER, SYMM_ALGO_MULTIMEM}, {REDUCE_SCATTER, SYMM_ALGO_AUTO},
    {ALL_GATHER, SYMM_ALGO_LOW_LATENCY},  {ALL_GATHER, SYMM_ALGO_ONE_SHOT},
    {ALL_GATHER, SYMM_ALGO_ONE_SHOT},     {ALL_GATHER, SYMM_ALGO_MULTIMEM},
    {ALL_GATHER, SYMM_ALGO_AUTO},
};
enum { NEVERY = sizeof every / sizeof every[0] };

/* ---- Back to back ---- */

/* A call of a train. It has its own input and output, so that the test checks only at the end. */
struct wagon {
    char *in, *out;
    struct collective call;
};

enum { WAGONS = 6, TRAINS = 16, SLOT = MOST * 8 };

static struct wagon draw_wagon(const struct rank *self, symm_group *w, uint64_t round,
                               char *const symmetric[2], char *const foreign[2], int i)
{
    static const symm_dtype dtypes[] = {SYMM_BFLOAT16, SYMM_BFLOAT16, SYMM_FLOAT32, SYMM_INT64};
    const uint64_t u = reference_random(7, round);
    const size_t at = (size_t)i * SLOT;
    struct wagon x = {
        .in = (u & 1 ? foreign : symmetric)[0] + at,
        .out = (u & 2 ? foreign : symmetric)[1] + at,
        .call = {.operation = every[(u >> 32) % NEVERY].operation,
                 .algo = every[(u >> 32) % NEVERY].algo,
                 .dtype = dtypes[u >> 3 & 3],
                 .op = SYMM_SUM,
                 .max_blocks = (uint32_t)(u >> 56) % 5,
                 .round = round},
    };
    struct collective *const c = &x.call;
    const size_t most = MOST / (c->operation == ALL_REDUCE ? 1 : (size_t)self->nranks);
    c->count = u & 4 ? 1 + (u >> 8) % most : 1 + (u >> 8) % 100;
    if (collective_unavailable(c, w))
        c->algo = SYMM_ALGO_ONE_SHOT;
    if (u >> 5 & 3)
        return x;
    const size_t mine = (size_t)self->rank * c->count * reference_size(c->dtype);
    if (c->operation == ALL_GATHER)
        x.in = x.out + mine;
    else
        x.out = x.in + (c->operation == REDUCE_SCATTER ? mine : 0);
    return x;
}

static symm_status load(struct rank *self, symm_group *w, const struct wagon *x, char *host,
                        symm_stream stream)
{
    const int n = self->nranks;
    collective_fill(&x->call, self->rank, n, host);
    RANK_TRY(self, symm_fill(x->out, 0xff, collective_out_nbytes(&x->call, n), stream));
    RANK_TRY(self, symm_copy(x->in, host, collective_in_nbytes(&x->call, n), stream));
    RANK_TRY(self, symm_synchronize(w, stream));
out:
    return self->report->status;
}

static symm_status unload(struct rank *self, symm_group *w, const struct wagon *x, char *host,
                          symm_stream stream)
{
    const int n = self->nranks;
    RANK_TRY(self, symm_copy(host, x->out, collective_out_nbytes(&x->call, n), stream));
    RANK_TRY(self, symm_synchronize(w, stream));
    const int64_t wrong = collective_wrong(&x->call, self->rank, n, host);
    self->report->wrong += wrong;
    CHECK_RANK_MSG(self, wrong == 0, "%d wrong: %s", (int)wrong, collective_text(&x->call));
    return SYMM_OK;
out:
    return self->report->status ? self->report->status : SYMM_ERROR_STATE;
}

static void run_trains(struct rank *self, void *arg)
{
    char *symmetric[2] = {NULL, NULL}, *foreign[2] = {NULL, NULL};
    char *host = malloc(SLOT);
    symm_context *ctx = NULL;
    symm_stream stream = NULL;
    (void)arg;

    RANK_TRY(self, rank_join(self, &ctx));
    symm_group *w = symm_context_world(ctx);
    RANK_TRY(self, symm_stream_create(ctx, &stream));
    for (int i = 0; i < 2; i++) {
        RANK_TRY(self, symm_alloc(w, (size_t)WAGONS * SLOT, (void **)&symmetric[i]));
        RANK_TRY(self, symm_device_alloc(ctx, (size_t)WAGONS * SLOT, (void **)&foreign[i]));
    }
    for (uint64_t t = 0; t < TRAINS; t++) {
        struct wagon wagons[WAGONS];
        for (int i = 0; i < WAGONS; i++) {
            wagons[i] = draw_wagon(self, w, t * WAGONS + (uint64_t)i, symmetric, foreign, i);
            if (load(self, w, &wagons[i], host, stream) != SYMM_OK)
                goto out;
        }
        for (int i = 0; i < WAGONS; i++)
            RANK_TRY(self,
                     collective_call(&wagons[i].call, w, wagons[i].in, wagons[i].out, stream));
        for (int i = 0; i < WAGONS; i++)
            if (unload(self, w, &wagons[i], host, stream) != SYMM_OK)
                goto out;
    }
out:
    symm_stream_destroy(stream);
    for (int i = 0; i < 2; i++)
        symm_device_free(ctx, foreign[i]);
    symm_context_destroy(ctx);
    free(host);
}

static const struct {
    const char *staging;
    int nranks;
} trains[] = {{"1K", 2}, {"4K", 3}, {"16K", 4}, {"64K", 4}, {"16K", 5}, {"1K", 8}};

TEST_GROUP(sequence, 150);

TEST_LOOP(sequence, calls_of_every_shape_follow_each_other, 0, 12)
{
    setenv("SYMM_STAGING_BYTES", trains[_i / 2].staging, 1);
    setenv("SYMM_EMULATED_WEAK", _i % 2 ? "1" : "0", 1);
    ranks_run_ok(trains[_i / 2].nranks, RANKS_AS_PROCESSES, run_trains, NULL, 120);
}

/* ---- The counters go round ---- */

/* Makes and checks one call by packets: fresh data, one block, in and out in one buffer. */
static symm_status call_once(struct rank *self, symm_group *w, char *x, char *host, symm_algo algo,
                             size_t count, uint64_t round, symm_stream stream)
{
    const symm_options options = {.algo = algo, .max_blocks = 1};

    reference_fill(host, count, SYMM_BFLOAT16, round, self->rank);
    RANK_TRY(self, symm_copy(x, host, count * 2, stream));
    RANK_TRY(self, symm_all_reduce(w, x, x, count, SYMM_BFLOAT16, SYMM_SUM, &options, stream));
    RANK_TRY(self, symm_copy(host, x, count * 2, stream));
    RANK_TRY(self, symm_synchronize(w, stream));
    const int64_t wrong =
        reference_wrong(host, 0, count, SYMM_BFLOAT16, round, self->nranks, REFERENCE_EXACT);
    CHECK_RANK_MSG(self, wrong == 0, "round %d: %d of %zu wrong with algo %d", (int)round,
                   (int)wrong, count, (int)algo);
    return SYMM_OK;
out:
    return self->report->status ? self->report->status : SYMM_ERROR_STATE;
}

/* Sets the epoch of block 0, which is counted in the cell of its first channel with this rank. */
static symm_status set_epoch(struct rank *self, symm_group *w, uint32_t epoch, symm_stream stream)
{
    struct symm_signal_cell *cell =
        (struct symm_signal_cell *)w->pad + SYMM_CHANNEL_BLOCKS * w->nranks + w->rank;
    RANK_TRY(self, symm_copy(&cell->sent, &epoch, sizeof epoch, stream));
    RANK_TRY(self, symm_synchronize(w, stream));
out:
    return self->report->status;
}

/*
 * Epochs 1 to 20 with many packets, a jump to just before the epochs begin again, epochs with one
 * packet until they have come to 18, and then epochs 19 and 20 with many packets again: of the
 * first time round there lie packets with these very flags, unless they were cleared. The epochs in
 * flags begin again after 65536 of them, and when the counter does.
 */
static void go_round(struct rank *self, void *arg)
{
    enum { PACKETS = 32, EACH = 6, MANY = PACKETS * EACH, BEFORE = 20, LAST = 6, AFTER = 10 };
    enum { SMALL = LAST + BEFORE - 3 }; /* there is no epoch 0 and after the largest no 1 */
    const int mode = *(int *)arg % 3;   /* one algorithm, the other, or both alternately */
    const uint32_t before = *(int *)arg / 3 ? 65536 + BEFORE - 2 - SMALL : UINT32_MAX - LAST;
    symm_context *ctx = NULL;
    symm_stream stream = NULL;
    char *x = NULL, *host = malloc((size_t)MANY * 2);

    RANK_TRY(self, rank_join(self, &ctx));
    symm_group *w = symm_context_world(ctx);
    RANK_TRY(self, symm_stream_create(ctx, &stream));
    RANK_TRY(self, symm_device_alloc(ctx, (size_t)MANY * 2, (void **)&x));
    for (uint64_t round = 0; round < BEFORE + SMALL + AFTER; round++) {
        const bool small = round >= BEFORE && round < BEFORE + SMALL;
        if (round == BEFORE && set_epoch(self, w, before, stream) != SYMM_OK)
            goto out;
        if (call_once(self, w, x, host, packets_only[mode < 2 ? (uint64_t)mode : round / 2 % 2],
                      small ? 1 : MANY, round, stream) != SYMM_OK)
            goto out;
    }
out:
    symm_stream_destroy(stream);
    symm_device_free(ctx, x);
    symm_context_destroy(ctx);
    free(host);
}

TEST_LOOP(sequence, packets_of_the_last_time_round_are_not_taken, 0, 24)
{
    static const int worlds[] = {2, 3, 4, 8};
    setenv("SYMM_STAGING_BYTES", "8M", 1); /* each call is one epoch */
    ranks_run_ok(worlds[_i / 6], RANKS_AS_PROCESSES, go_round, &(int){_i % 6}, 60);
}

/* Sizes that vary from call to call, from one packet to many epochs, across the wrap. */
static void vary(struct rank *self, void *arg)
{
    symm_context *ctx = NULL;
    symm_stream stream = NULL;
    char *x = NULL, *host = malloc((size_t)MOST * 2);
    (void)arg;

    RANK_TRY(self, rank_join(self, &ctx));
    symm_group *w = symm_context_world(ctx);
    RANK_TRY(self, symm_stream_create(ctx, &stream));
    RANK_TRY(self, symm_device_alloc(ctx, (size_t)MOST * 2, (void **)&x));
    for (uint64_t round = 0; round < 40; round++) {
        const uint64_t u = reference_random(9, round);
        const size_t count = 1 + (u >> 8) % (round < 12 ? 6 : u & 1 ? 200 : MOST);
        if (call_once(self, w, x, host, packets_only[u >> 1 & 1], count, round, stream) != SYMM_OK)
            goto out;
    }
out:
    symm_stream_destroy(stream);
    symm_device_free(ctx, x);
    symm_context_destroy(ctx);
    free(host);
}

TEST_LOOP(sequence, sizes_vary_while_the_epochs_go_round, 0, 3)
{
    setenv("SYMM_EPOCH_START", _i % 2 ? "4294967280" : "65520", 1);
    setenv("SYMM_STAGING_BYTES", _i % 2 ? "1M" : "64K", 1);
    ranks_run_ok(2 + _i, RANKS_AS_PROCESSES, vary, NULL, 120);
}

/* ---- Graphs ---- */

enum { COUNT = 1111, REPLAYS = 60 };

/* The calls of a graph; each has an input and an output of its own. */
static const struct collective in_graph[] = {
    {ALL_REDUCE, SYMM_ALGO_ONE_SHOT, SYMM_BFLOAT16, .count = COUNT},
    {REDUCE_SCATTER, SYMM_ALGO_LOW_LATENCY, SYMM_BFLOAT16, .count = COUNT},
    {ALL_GATHER, SYMM_ALGO_LOW_LATENCY, SYMM_UINT8, .count = COUNT},
    {ALL_REDUCE, SYMM_ALGO_TWO_SHOT, SYMM_BFLOAT16, .count = COUNT},
    {ALL_REDUCE, SYMM_ALGO_LOW_LATENCY_TWO_SHOT, SYMM_FLOAT32, .count = COUNT},
    {ALL_GATHER, SYMM_ALGO_ONE_SHOT, SYMM_BFLOAT16, .count = COUNT},
    {ALL_REDUCE, SYMM_ALGO_LOW_LATENCY, SYMM_BFLOAT16, .count = COUNT},
    {REDUCE_SCATTER, SYMM_ALGO_ONE_SHOT, SYMM_FLOAT32, .count = COUNT},
    {REDUCE_SCATTER, SYMM_ALGO_MULTIMEM, SYMM_BFLOAT16, .count = COUNT},
    {ALL_GATHER, SYMM_ALGO_MULTIMEM, SYMM_BFLOAT16, .count = COUNT},
    {ALL_REDUCE, SYMM_ALGO_AUTO, SYMM_BFLOAT16, .count = COUNT},
};
enum { CALLS = sizeof in_graph / sizeof in_graph[0], ROOM = COUNT * 4 * 8 };

static symm_status capture(struct rank *self, symm_group *w, const struct wagon calls[CALLS],
                           symm_stream stream, symm_graph *graph)
{
    RANK_TRY(self, symm_graph_begin(stream));
    for (int i = 0; i < CALLS; i++) {
        const size_t nbytes = collective_out_nbytes(&calls[i].call, self->nranks);
        RANK_TRY(self, symm_fill(calls[i].out, 0xff, nbytes, stream));
        RANK_TRY(self, collective_call(&calls[i].call, w, calls[i].in, calls[i].out, stream));
    }
    RANK_TRY(self, symm_graph_end(stream, graph));
out:
    return self->report->status;
}

static symm_status replay_once(struct rank *self, symm_group *w, struct wagon calls[CALLS],
                               uint64_t round, char *host, symm_graph graph, symm_stream stream)
{
    for (int i = 0; i < CALLS; i++) {
        calls[i].call.round = round * CALLS + (uint64_t)i;
        if (load(self, w, &calls[i], host, stream) != SYMM_OK)
            goto out;
    }
    RANK_TRY(self, symm_graph_launch(graph, stream));
    for (int i = 0; i < CALLS; i++)
        if (unload(self, w, &calls[i], host, stream) != SYMM_OK)
            goto out;
    return SYMM_OK;
out:
    return self->report->status ? self->report->status : SYMM_ERROR_STATE;
}

/* Replays with fresh data, and between them eager calls that move the counters on. */
static void replay(struct rank *self, void *arg)
{
    char *symmetric = NULL, *foreign = NULL, *host = malloc(ROOM);
    struct wagon calls[CALLS];
    symm_context *ctx = NULL;
    symm_stream stream = NULL;
    symm_graph graph = NULL;
    (void)arg;

    RANK_TRY(self, rank_join(self, &ctx));
    symm_group *w = symm_context_world(ctx);
    RANK_TRY(self, symm_stream_create(ctx, &stream));
    RANK_TRY(self, symm_alloc(w, (size_t)2 * CALLS * ROOM, (void **)&symmetric));
    RANK_TRY(self, symm_device_alloc(ctx, (size_t)2 * CALLS * ROOM, (void **)&foreign));
    for (int i = 0; i < CALLS; i++) {
        calls[i] =
            (struct wagon){(i % 3 ? symmetric : foreign) + (size_t)(2 * i) * ROOM,
                           (i % 2 ? symmetric : foreign) + (size_t)(2 * i + 1) * ROOM, in_graph[i]};
        calls[i].call.flags = calls[i].call.algo == SYMM_ALGO_AUTO ? SYMM_DETERMINISTIC : 0;
        if (collective_unavailable(&calls[i].call, w))
            calls[i].call.algo = SYMM_ALGO_ONE_SHOT;
    }
    if (capture(self, w, calls, stream, &graph) != SYMM_OK)
        goto out;
    for (uint64_t round = 0; round < REPLAYS; round++) {
        const uint64_t u = reference_random(10, round);
        if (u & 1 && call_once(self, w, foreign, host, packets_only[u >> 1 & 1],
                               1 + (u >> 8) % MOST, 1000 + round, stream) != SYMM_OK)
            goto out;
        if (replay_once(self, w, calls, round, host, graph, stream) != SYMM_OK)
            goto out;
    }
out:
    symm_graph_destroy(graph);
    symm_stream_destroy(stream);
    symm_device_free(ctx, foreign);
    symm_context_destroy(ctx);
    free(host);
}

TEST_LOOP(sequence, graphs_replay_between_eager_calls_across_the_wrap_of_the_counters, 2, 6)
{
    setenv("SYMM_EPOCH_START", "4294967200", 1);
    ranks_run_ok(_i, RANKS_AS_PROCESSES, replay, NULL, 120);
}

/* ---- Slow kernels on both sides ---- */

/*
 * The emulated driver starts no kernel before the one ahead of it has ended, so here this shows the
 * order of what is enqueued; on GPUs it shows what programmatic dependent launch promises.
 */
TEST_LOOP(sequence, slow_producers_and_consumers_are_waited_for, 0, 3)
{
    struct rank_report reports[4];
    int nbuilt = 0;
    struct chain chain = {.variants = every,
                          .nvariants = NEVERY,
                          .count = _i % 2 ? 700 : 100,
                          .turns = 16,
                          .spin = 300,
                          .image = &test_kernels};
    setenv("SYMM_STAGING_BYTES", "16K", 1);
    ranks_run(2 + _i, RANKS_AS_PROCESSES, chain_run, &chain, reports, 100);
    ranks_assert_ok(reports, 2 + _i);
    for (int v = 0; v < NEVERY; v++)
        nbuilt += collective_built(every[v].algo);
    ck_assert_int_eq(reports[0].value[0], nbuilt);
}

/* ---- The group's memory ---- */

static struct sizes {
    const char *setting, *device;
    size_t staging;
} sizes[] = {
    {"0", "1G", 8 << 20},  {"0", "32G", 64 << 20},    {"0", "1024G", 256 << 20},
    {"1K", "1G", 1 << 10}, {"100K", "1G", 100 << 10},
};
enum { NSIZES = sizeof sizes / sizeof sizes[0] };

static void look_at_sizes(struct rank *self, void *arg)
{
    const struct sizes *want = arg;
    symm_context *ctx = NULL;

    RANK_TRY(self, rank_join(self, &ctx));
    const symm_group *w = symm_context_world(ctx);
    const size_t packets = want->staging / 8 / sizeof(symm_packet) / SYMM_BLOCKS_MAX,
                 least = 8 * (size_t)self->nranks;
    CHECK_RANK_MSG(self, w->staging_nbytes == want->staging, "%zu bytes", w->staging_nbytes);
    CHECK_RANK_MSG(self, w->block_packets == (packets > least ? packets : least), "%u packets",
                   w->block_packets);
out:
    symm_context_destroy(ctx);
}

TEST_LOOP(sequence, the_groups_memory_is_as_asked_or_by_the_devices, 0, NSIZES)
{
    setenv("SYMM_STAGING_BYTES", sizes[_i].setting, 1);
    setenv("SYMM_EMULATED_MEMORY", sizes[_i].device, 1);
    ranks_run_ok(2, RANKS_AS_PROCESSES, look_at_sizes, &sizes[_i], 30);
}
