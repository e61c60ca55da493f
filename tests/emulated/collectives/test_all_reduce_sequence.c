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
#include "reference.h"
#include "test.h"
#include "world.h"

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
    {ALL_GATHER, SYMM_ALGO_AUTO},         {ALL_REDUCE, SYMM_ALGO_LAMPORT},
    {REDUCE_SCATTER, SYMM_ALGO_LAMPORT},  {BROADCAST, SYMM_ALGO_LOW_LATENCY},
    {BROADCAST, SYMM_ALGO_LOW_LATENCY},   {BROADCAST, SYMM_ALGO_ONE_SHOT},
    {BROADCAST, SYMM_ALGO_ONE_SHOT},      {BROADCAST, SYMM_ALGO_MULTIMEM},
    {BROADCAST, SYMM_ALGO_AUTO},
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
                 .round = round,
                 .root = (int)(u >> 48) & 63},
    };
    struct collective *const c = &x.call;
    const size_t most = MOST / (collective_has_shares(c->operation) ? (size_t)self->nranks : 1);
    c->count = u & 4 ? 1 + (u >> 8) % most : 1 + (u >> 8) % 100;
    if (collective_unavailable(c, w))
        c->algo = SYMM_ALGO_ONE_SHOT;
    if (u >> 5 & 3)
        return x;
    const size_t mine = (size_t)self->rank * c->count * symm_dtype_size(c->dtype);
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

static const struct {
    const char *staging;
    int nranks;
} trains[] = {{"1K", 2}, {"4K", 3}, {"16K", 4}, {"64K", 4}, {"16K", 5}, {"1K", 8}};

TEST_GROUP(sequence, 150);

WORLD_TEST(sequence, calls_of_every_shape_follow_each_other, trains[_i / 2].nranks,
           .env = {{"SYMM_STAGING_BYTES", trains[_i / 2].staging},
                   {"SYMM_EMULATED_WEAK", _i % 2 ? "1" : "0"}},
           .timeout_s = 120, .loop = {0, 12})
{
    char *symmetric[2] = {NULL, NULL}, *foreign[2] = {NULL, NULL};
    char *host = malloc(SLOT);

    for (int i = 0; i < 2; i++) {
        RANK_TRY(self, symm_alloc(world, (size_t)WAGONS * SLOT, (void **)&symmetric[i]));
        RANK_TRY(self, symm_device_alloc(ctx, (size_t)WAGONS * SLOT, (void **)&foreign[i]));
    }
    for (uint64_t t = 0; t < TRAINS; t++) {
        struct wagon wagons[WAGONS];
        for (int i = 0; i < WAGONS; i++) {
            wagons[i] = draw_wagon(self, world, t * WAGONS + (uint64_t)i, symmetric, foreign, i);
            RANK_TRY(self, load(self, world, &wagons[i], host, s));
        }
        for (int i = 0; i < WAGONS; i++)
            RANK_TRY(self, collective_call(&wagons[i].call, world, wagons[i].in, wagons[i].out, s));
        for (int i = 0; i < WAGONS; i++)
            RANK_TRY(self, unload(self, world, &wagons[i], host, s));
    }
out:
    for (int i = 0; i < 2; i++)
        symm_device_free(ctx, foreign[i]);
    free(host);
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
static symm_status set_epoch(symm_group *w, uint32_t epoch, symm_stream stream)
{
    struct symm_signal_cell *cell = (struct symm_signal_cell *)symm__group_areas(w)->pad +
                                    SYMM_CHANNEL_BLOCKS * w->nranks + w->rank;
    const symm_status st = symm_copy(&cell->sent, &epoch, sizeof epoch, stream);
    return st == SYMM_OK ? symm_synchronize(w, stream) : st;
}

static const int world_sizes[] = {2, 3, 4, 8};

/*
 * Epochs 1 to 20 with many packets, a jump to just before the epochs begin again, epochs with one
 * packet until they have come to 18, and then epochs 19 and 20 with many packets again: of the
 * first time round there lie packets with these very flags, unless they were cleared. The epochs in
 * flags begin again after 65536 of them, and when the counter does. With 8 MiB of staging each call
 * is one epoch.
 */
WORLD_TEST(sequence, packets_of_the_last_time_round_are_not_taken, world_sizes[_i / 6],
           .arg = &(int){_i % 6}, .env = {{"SYMM_STAGING_BYTES", "8M"}}, .timeout_s = 60,
           .loop = {0, 24})
{
    enum { PACKETS = 32, EACH = 6, MANY = PACKETS * EACH, BEFORE = 20, LAST = 6, AFTER = 10 };
    enum { SMALL = LAST + BEFORE - 3 }; /* there is no epoch 0 and after the largest no 1 */
    const int mode = *(int *)arg % 3;   /* one algorithm, the other, or both alternately */
    const uint32_t before = *(int *)arg / 3 ? 65536 + BEFORE - 2 - SMALL : UINT32_MAX - LAST;
    char *x = NULL, *host = malloc((size_t)MANY * 2);

    RANK_TRY(self, symm_device_alloc(ctx, (size_t)MANY * 2, (void **)&x));
    for (uint64_t round = 0; round < BEFORE + SMALL + AFTER; round++) {
        const bool small = round >= BEFORE && round < BEFORE + SMALL;
        const symm_algo algo = packets_only[mode < 2 ? (uint64_t)mode : round / 2 % 2];
        if (round == BEFORE)
            RANK_TRY(self, set_epoch(world, before, s));
        RANK_TRY(self, call_once(self, world, x, host, algo, small ? 1 : MANY, round, s));
    }
out:
    symm_device_free(ctx, x);
    free(host);
}

/* Sizes that vary from call to call, from one packet to many epochs, across the wrap. */
WORLD_TEST(sequence, sizes_vary_while_the_epochs_go_round, 2 + _i, .timeout_s = 120,
           .env = {{"SYMM_EPOCH_START", _i % 2 ? "4294967280" : "65520"},
                   {"SYMM_STAGING_BYTES", _i % 2 ? "1M" : "64K"}},
           .loop = {0, 3})
{
    char *x = NULL, *host = malloc((size_t)MOST * 2);

    RANK_TRY(self, symm_device_alloc(ctx, (size_t)MOST * 2, (void **)&x));
    for (uint64_t round = 0; round < 40; round++) {
        const uint64_t u = reference_random(9, round);
        const size_t count = 1 + (u >> 8) % (round < 12 ? 6 : u & 1 ? 200 : MOST);
        RANK_TRY(self, call_once(self, world, x, host, packets_only[u >> 1 & 1], count, round, s));
    }
out:
    symm_device_free(ctx, x);
    free(host);
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
    {BROADCAST, SYMM_ALGO_LOW_LATENCY, SYMM_BFLOAT16, .count = COUNT, .root = 1},
    {BROADCAST, SYMM_ALGO_LOW_LATENCY, SYMM_UINT8, .count = COUNT, .root = 2},
    {BROADCAST, SYMM_ALGO_ONE_SHOT, SYMM_FLOAT32, .count = COUNT, .root = 3},
    {ALL_REDUCE, SYMM_ALGO_AUTO, SYMM_BFLOAT16, .count = COUNT},
    {BROADCAST, SYMM_ALGO_MULTIMEM, SYMM_FLOAT32, .count = COUNT - 3, .root = 1},
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
        RANK_TRY(self, load(self, w, &calls[i], host, stream));
    }
    RANK_TRY(self, symm_graph_launch(graph, stream));
    for (int i = 0; i < CALLS; i++)
        RANK_TRY(self, unload(self, w, &calls[i], host, stream));
out:
    return self->report->status;
}

/* Replays with fresh data, and between them eager calls that move the counters on. */
WORLD_TEST(sequence, graphs_replay_between_eager_calls_across_the_wrap_of_the_counters, _i,
           .env = {{"SYMM_EPOCH_START", "4294967200"}}, .timeout_s = 120, .loop = {2, 6})
{
    char *symmetric = NULL, *foreign = NULL, *host = malloc(ROOM);
    struct wagon calls[CALLS];
    symm_graph graph = NULL;

    RANK_TRY(self, symm_alloc(world, (size_t)2 * CALLS * ROOM, (void **)&symmetric));
    RANK_TRY(self, symm_device_alloc(ctx, (size_t)2 * CALLS * ROOM, (void **)&foreign));
    for (int i = 0; i < CALLS; i++) {
        calls[i] =
            (struct wagon){(i % 3 ? symmetric : foreign) + (size_t)(2 * i) * ROOM,
                           (i % 2 ? symmetric : foreign) + (size_t)(2 * i + 1) * ROOM, in_graph[i]};
        calls[i].call.flags = calls[i].call.algo == SYMM_ALGO_AUTO ? SYMM_DETERMINISTIC : 0;
        if (collective_unavailable(&calls[i].call, world))
            calls[i].call.algo = SYMM_ALGO_ONE_SHOT;
    }
    RANK_TRY(self, capture(self, world, calls, s, &graph));
    for (uint64_t round = 0; round < REPLAYS; round++) {
        const uint64_t u = reference_random(10, round);
        if (u & 1)
            RANK_TRY(self, call_once(self, world, foreign, host, packets_only[u >> 1 & 1],
                                     1 + (u >> 8) % MOST, 1000 + round, s));
        RANK_TRY(self, replay_once(self, world, calls, round, host, graph, s));
    }
out:
    symm_graph_destroy(graph);
    symm_device_free(ctx, foreign);
    free(host);
}

/* ---- Slow kernels on both sides ---- */

static void run_chain(int nranks, int turns, bool early)
{
    struct rank_report reports[4];
    int nbuilt = 0;
    struct chain chain = {.variants = every,
                          .nvariants = NEVERY,
                          .count = nranks % 2 ? 700 : 100,
                          .turns = turns,
                          .eager = early,
                          .spin = early ? 60 : 20,
                          .image = &test_kernels};
    setenv("SYMM_STAGING_BYTES", "16K", 1);
    setenv("SYMM_EMULATED_EARLY", early ? "1" : "0", 1);
    setenv("SYMM_CHECK", early ? "0" : "1", 1);
    ranks_run(nranks, RANKS_AS_PROCESSES, chain_run, &chain, reports, 100);
    ranks_assert_ok(reports, nranks);
    for (int v = 0; v < NEVERY; v++)
        nbuilt += collective_built(every[v].algo);
    ck_assert_int_eq(reports[0].value[0], nbuilt);
}

/* Kernels run one after the other, in the order of their launches. */
TEST_LOOP(sequence, slow_producers_and_consumers_are_waited_for, 0, 3)
{
    run_chain(2 + _i, 16, false);
}

/* Each kernel begins early: a call takes its input, and lets its output be taken, in time. */
TEST_LOOP(sequence, kernels_that_begin_early_are_waited_for, 0, 3)
{
    run_chain(2 + _i, 3, true);
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

WORLD_TEST(sequence, the_groups_memory_is_as_asked_or_by_the_devices, 2, .arg = &sizes[_i],
           .env = {{"SYMM_STAGING_BYTES", sizes[_i].setting},
                   {"SYMM_EMULATED_MEMORY", sizes[_i].device}},
           .loop = {0, NSIZES})
{
    const struct sizes *want = arg;
    const size_t packets = want->staging / 8 / sizeof(symm_packet) / SYMM_BLOCKS_MAX,
                 least = 8 * (size_t)self->nranks;

    RANK_TRY(self, symm_group_reserve(world, 0));
    CHECK_RANK_MSG(self, world->full.size.staging_nbytes == want->staging, "%zu bytes",
                   (size_t)world->full.size.staging_nbytes);
    CHECK_RANK_MSG(self, world->full.size.block_packets == (packets > least ? packets : least),
                   "%u packets", world->full.size.block_packets);
out:;
}
