/* Calls by copy engines, with checks of their surroundings. */
#include "copy_call.h"

#include <stdlib.h>
#include <string.h>
#include "reference.h"

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

/* The place of a call's data, and their bytes. */
struct place {
    char *in, *out;
    size_t in_nbytes, out_nbytes;
};

static struct place place_of(const struct copy_call *c, const struct copy_buffers *b)
{
    const int rank = symm_rank(b->group), nranks = symm_nranks(b->group);
    const size_t size = symm_dtype_size(c->dtype), one = c->count * size,
                 all = one * (size_t)nranks, mine = one * (size_t)rank,
                 skew = MARGIN + (size_t)c->skew * size;
    struct place p = {.in = b->in + skew, .out = b->out + 3 * skew - 2 * MARGIN};

    p.in_nbytes = c->operation == REDUCE_SCATTER ? all : one;
    p.out_nbytes = c->operation == ALL_GATHER ? all : one;
    if (c->elsewhere && c->operation == REDUCE_SCATTER)
        p.out = b->own_out + MARGIN + (size_t)rank * size;
    if (c->elsewhere && (!c->in_place || collective_has_shares(c->operation)))
        p.in = b->own_in + MARGIN + 2 * (size_t)rank * size;
    if (c->in_place && c->operation == ALL_GATHER)
        p.in = p.out + mine;
    else if (c->in_place)
        p.out = p.in + (c->operation == REDUCE_SCATTER ? mine : 0);
    return p;
}

/* Fills in a rank's data: of an operation that moves elements, any bytes. */
static void fill(const struct copy_call *c, void *host, size_t nbytes, int rank)
{
    if (!collective_reduces(c->operation))
        reference_poison(host, nbytes, c->round * 1000 + (uint64_t)rank + 1);
    else
        reference_fill(host, nbytes / symm_dtype_size(c->dtype), c->dtype, c->round, rank);
}

symm_status copy_open(symm_context *ctx, symm_group *group, symm_stream stream, size_t most,
                      struct copy_buffers *b)
{
    symm_status st;

    *b = (struct copy_buffers){.ctx = ctx, .group = group, .stream = stream};
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

void copy_close(struct copy_buffers *b)
{
    if (!b->ctx)
        return;
    symm_free(b->group, b->in);
    symm_free(b->group, b->out);
    symm_device_free(b->ctx, b->own_in);
    symm_device_free(b->ctx, b->own_out);
    free(b->host);
}

symm_status copy_prepare(const struct copy_call *c, const struct copy_buffers *b)
{
    const struct place p = place_of(c, b);
    symm_status st;

    reference_poison(b->host, p.out_nbytes + 2 * MARGIN, c->round);
    st = symm_copy(p.out - MARGIN, b->host, p.out_nbytes + 2 * MARGIN, b->stream);
    fill(c, b->host, p.in_nbytes, symm_rank(b->group));
    if (st == SYMM_OK)
        st = symm_copy(p.in, b->host, p.in_nbytes, b->stream);
    return st;
}

symm_status copy_enqueue(const struct copy_call *c, const struct copy_buffers *b)
{
    const struct place p = place_of(c, b);
    const int root = c->root % symm_nranks(b->group);

    switch (c->operation) {
    case BROADCAST:
        return symm_broadcast(b->group, symm_rank(b->group) == root ? p.in : NULL, p.out, c->count,
                              c->dtype, root, &c->options, b->stream);
    case ALL_REDUCE:
        return symm_all_reduce(b->group, p.in, p.out, c->count, c->dtype, c->op, &c->options,
                               b->stream);
    case REDUCE_SCATTER:
        return symm_reduce_scatter(b->group, p.in, p.out, c->count, c->dtype, c->op, &c->options,
                                   b->stream);
    default:
        return symm_all_gather(b->group, p.in, p.out, c->count, c->dtype, &c->options, b->stream);
    }
}

/* Compares the margins of `nbytes` at MARGIN in host, unless the other buffer is there. */
static int64_t margins_wrong(const struct copy_call *c, const char *host, size_t nbytes)
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

static int64_t result_wrong(const struct copy_call *c, const char *host, int rank, int nranks)
{
    const size_t size = symm_dtype_size(c->dtype);
    int64_t wrong = 0;

    if (collective_reduces(c->operation))
        return reference_reduction_wrong(
            host, c->operation == REDUCE_SCATTER ? (size_t)rank * c->count : 0, c->count, c->dtype,
            c->op, c->round, nranks, REFERENCE_EXACT);
    if (c->operation == BROADCAST)
        return reference_poison_wrong(host, c->count * size,
                                      c->round * 1000 + (uint64_t)(c->root % nranks) + 1);
    for (int r = 0; r < nranks; r++)
        wrong += reference_poison_wrong(host + (size_t)r * c->count * size, c->count * size,
                                        c->round * 1000 + (uint64_t)r + 1);
    return wrong;
}

/* Compares memory that is only read: `in`, or in place the other ranks' shares of it. */
static int64_t input_wrong(const struct copy_call *c, char *host, const struct place *p, int rank)
{
    const size_t one = c->count * symm_dtype_size(c->dtype);
    char *data = malloc(p->in_nbytes + 1);
    int64_t wrong;

    fill(c, data, p->in_nbytes, rank);
    if (c->in_place)
        memcpy(host + (size_t)rank * one, data + (size_t)rank * one, one);
    wrong = memcmp(data, host, p->in_nbytes) != 0;
    free(data);
    return wrong;
}

symm_status copy_check(struct rank *self, const struct copy_call *c, const struct copy_buffers *b)
{
    const int rank = symm_rank(b->group), nranks = symm_nranks(b->group);
    const struct place p = place_of(c, b);
    int64_t wrong;

    RANK_TRY(self, symm_copy(b->host, p.out - MARGIN, p.out_nbytes + 2 * MARGIN, b->stream));
    RANK_TRY(self, symm_synchronize(b->group, b->stream));
    wrong =
        result_wrong(c, b->host + MARGIN, rank, nranks) + margins_wrong(c, b->host, p.out_nbytes);
    if (!c->in_place || c->operation == REDUCE_SCATTER) {
        RANK_TRY(self, symm_copy(b->host, p.in, p.in_nbytes, b->stream));
        RANK_TRY(self, symm_synchronize(b->group, b->stream));
        wrong += input_wrong(c, b->host, &p, rank);
    }
    self->report->wrong += wrong;
    self->report->value[0]++;
    CHECK_RANK_MSG(self, wrong == 0,
                   "%d wrong: operation %d, dtype %d, op %d, count %zu, skew %d, in place %d, "
                   "elsewhere %d, root %d, %d ranks, round %llu",
                   (int)wrong, (int)c->operation, (int)c->dtype, (int)c->op, c->count, c->skew,
                   c->in_place, c->elsewhere, c->root, nranks, (unsigned long long)c->round);
    return SYMM_OK;
out:
    return self->report->status ? self->report->status : SYMM_ERROR_STATE;
}

symm_status copy_run(struct rank *self, const struct copy_call *c, const struct copy_buffers *b)
{
    RANK_TRY(self, copy_prepare(c, b));
    RANK_TRY(self, copy_enqueue(c, b));
    RANK_TRY(self, copy_check(self, c, b));
out:
    return self->report->status;
}

struct copy_call copy_draw(uint64_t round, size_t most)
{
    static const size_t edges[] = {1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 33, 64, 257, 1000, 1025};
    const uint64_t u = reference_random(17, round);
    const struct kind kind = kinds[u % NKINDS];
    struct copy_call c = {
        .operation = (enum collective_operation)(round % COLLECTIVE_OPERATIONS),
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
        .root = (int)(u >> 50 & 63),
        .round = round,
    };
    if (c.count > most)
        c.count = most;
    if (!collective_reduces(c.operation) && u >> 49 & 1)
        c.dtype = SYMM_FLOAT8_E4M3;
    return c;
}
