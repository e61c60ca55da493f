/*
 * All-gathers and reduce-scatters with shares that lack elements, by every algorithm, on 2 to 8
 * ranks. Products with uneven rows make such calls. Nothing behind a rank's own elements is sent or
 * written.
 */
#include <stdlib.h>
#include <string.h>
#include "collectives/collective.h"
#include "copy_call.h"
#include "reference.h"
#include "test.h"
#include "world.h"

enum { MOST = 3000, MARGIN = 256, GARBAGE = 0xb5 };

static const struct collective_variant variants[] = {
    {ALL_GATHER, SYMM_ALGO_LOW_LATENCY}, {REDUCE_SCATTER, SYMM_ALGO_LOW_LATENCY},
    {ALL_GATHER, SYMM_ALGO_ONE_SHOT},    {REDUCE_SCATTER, SYMM_ALGO_ONE_SHOT},
    {ALL_GATHER, SYMM_ALGO_COPY_ENGINE}, {REDUCE_SCATTER, SYMM_ALGO_COPY_ENGINE},
    {ALL_GATHER, SYMM_ALGO_MULTIMEM},    {REDUCE_SCATTER, SYMM_ALGO_MULTIMEM},
    {REDUCE_SCATTER, SYMM_ALGO_LAMPORT}, {ALL_GATHER, SYMM_ALGO_AUTO},
    {REDUCE_SCATTER, SYMM_ALGO_AUTO},
};
enum { NVARIANTS = sizeof variants / sizeof variants[0] };

static struct collective draw(uint64_t round)
{
    static const symm_dtype types[] = {SYMM_BFLOAT16, SYMM_FLOAT32, SYMM_FLOAT16};
    const struct collective_variant v = variants[round % NVARIANTS];
    const uint64_t u = reference_random(7, round), most = u >> 4 & 1 ? 40 : MOST,
                   step = u >> 5 & 1 ? 1 : 8; /* whole packs of 16 bits */
    const size_t count = step * (1 + (u >> 8) % (most / step));

    return (struct collective){
        .operation = v.operation,
        .algo = v.algo,
        .dtype = types[u % 3],
        .op = SYMM_SUM,
        .count = count,
        .round = round,
    };
}

/* Elements of a rank's share: all, none, or some. */
static size_t own_of(const struct collective *c, int rank)
{
    const uint64_t u = reference_random(11 + (uint64_t)rank, c->round);

    return u % 4 == 0 ? c->count : u % 4 == 1 ? 0 : (u >> 8) % c->count;
}

static symm_status enqueue(const struct copy_buffers *b, const struct collective *c)
{
    const struct symm_collective_call call = {
        .operation =
            c->operation == ALL_GATHER ? SYMM_OPERATION_ALL_GATHER : SYMM_OPERATION_REDUCE_SCATTER,
        .algo = c->algo,
        .dtype = c->dtype,
        .op = c->op,
        .count = c->count,
    };
    const struct symm_data data = {.in = b->in + MARGIN,
                                   .out = b->out + MARGIN,
                                   .lacks = c->count - own_of(c, symm_rank(b->group))};
    struct symm_call e;
    symm_status st = symm__call_begin(&e, b->group, b->stream, true, "short shares %zu", c->count);

    return st == SYMM_OK ? symm__call_end(&e, symm__collective_enqueue(&e, &call, &data)) : st;
}

/* Behind this rank's own elements of an all-gather there is garbage. */
static symm_status prepare(const struct copy_buffers *b, const struct collective *c)
{
    const int rank = symm_rank(b->group), nranks = symm_nranks(b->group);
    const size_t size = symm_dtype_size(c->dtype), in = collective_in_nbytes(c, nranks),
                 own = own_of(c, rank) * size;
    symm_status st;

    collective_fill(c, rank, nranks, b->host);
    if (c->operation == ALL_GATHER)
        memset(b->host + own, GARBAGE, in - own + MARGIN);
    st = symm_copy(b->in + MARGIN, b->host, in + MARGIN, b->stream);
    reference_poison(b->host, b->nbytes, c->round);
    return st == SYMM_OK ? symm_copy(b->out, b->host, b->nbytes, b->stream) : st;
}

static int64_t garbage(const char *bytes, size_t nbytes)
{
    int64_t n = 0;

    for (size_t i = 0; i + 3 < nbytes; i += 4)
        n += (unsigned char)bytes[i] == GARBAGE && !memcmp(bytes + i, bytes + i + 1, 3);
    return n;
}

static int64_t wrong(const struct copy_buffers *b, const struct collective *c)
{
    const int rank = symm_rank(b->group), nranks = symm_nranks(b->group);
    const size_t size = symm_dtype_size(c->dtype), share = c->count * size;
    const char *out = b->host + MARGIN;
    struct collective own = *c;
    int64_t n = 0;

    own.count = own_of(c, rank);
    if (c->operation == REDUCE_SCATTER)
        return reference_reduction_wrong(
                   out, (size_t)rank * c->count, own.count, c->dtype, c->op, c->round, nranks,
                   c->algo == SYMM_ALGO_MULTIMEM || c->algo == SYMM_ALGO_AUTO ? REFERENCE_SWITCH
                                                                              : REFERENCE_EXACT) +
               (memcmp(out + own.count * size, b->host + b->nbytes + MARGIN + own.count * size,
                       share + MARGIN - own.count * size) != 0);
    for (int r = 0; r < nranks; r++) {
        const size_t nbytes = own_of(c, r) * size;
        n += reference_bits_wrong(out + (size_t)r * share, nbytes, c->round, r) +
             garbage(out + (size_t)r * share + nbytes, share - nbytes);
    }
    return n + (memcmp(out + share * (size_t)nranks,
                       b->host + b->nbytes + MARGIN + share * (size_t)nranks, MARGIN) != 0);
}

/* The second half of `host` has the pattern that was in `out`. */
static symm_status check(struct rank *self, struct copy_buffers *b, const struct collective *c)
{
    symm_status st = symm_copy(b->host, b->out, b->nbytes, b->stream);

    if (st == SYMM_OK)
        st = symm_stream_synchronize(b->stream);
    reference_poison(b->host + b->nbytes, b->nbytes, c->round);
    CHECK_RANK(self, st != SYMM_OK || wrong(b, c) == 0);
out:
    return st;
}

TEST_GROUP(shares, 240);

WORLD_RANK(run)
{
    const size_t most = (size_t)MOST * 4 * (size_t)self->nranks;
    struct copy_buffers b = {0};
    char *host = NULL;

    RANK_TRY(self, copy_open(ctx, world, s, most, &b));
    host = realloc(b.host, 2 * b.nbytes);
    b.host = host ? host : b.host;
    CHECK_RANK(self, host);
    for (uint64_t i = 0; i < *(const uint64_t *)arg; i++) {
        const struct collective c = draw(i);
        if (!collective_built(c.algo) || collective_unavailable(&c, world))
            continue;
        RANK_TRY(self, prepare(&b, &c));
        RANK_TRY(self, enqueue(&b, &c));
        RANK_TRY(self, check(self, &b, &c));
    }
out:
    copy_close(&b);
}

TEST_LOOP(shares, every_world_is_right, 2, 9)
{
    uint64_t calls = 20 * NVARIANTS;

    ranks_run_ok(_i, RANKS_AS_PROCESSES, run, &calls, 120);
}

TEST(shares, small_areas_are_right)
{
    uint64_t calls = 10 * NVARIANTS;

    setenv("SYMM_STAGING_BYTES", "4K", 1);
    ranks_run_ok(3, RANKS_AS_PROCESSES, run, &calls, 120);
}
