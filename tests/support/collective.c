/* The operations behind one interface. */
#include "collective.h"

#include <stdio.h>
#include "exercise.h"
#include "reference.h"

bool collective_by_switch(symm_algo algo)
{
    return algo == SYMM_ALGO_MULTIMEM || algo == SYMM_ALGO_MULTIMEM_ONE_SHOT;
}

bool collective_built(symm_algo algo)
{
    return SYMM_MULTICAST || !collective_by_switch(algo);
}

bool collective_reduces(enum collective_operation operation)
{
    return operation == ALL_REDUCE || operation == REDUCE_SCATTER;
}

bool collective_has_shares(enum collective_operation operation)
{
    return operation == REDUCE_SCATTER || operation == ALL_GATHER;
}

static size_t part_nbytes(const struct collective *c)
{
    return c->count * symm_dtype_size(c->dtype);
}

size_t collective_in_nbytes(const struct collective *c, int nranks)
{
    return part_nbytes(c) * (c->operation == REDUCE_SCATTER ? (size_t)nranks : 1);
}

size_t collective_out_nbytes(const struct collective *c, int nranks)
{
    return part_nbytes(c) * (c->operation == ALL_GATHER ? (size_t)nranks : 1);
}

void collective_fill(const struct collective *c, int rank, int nranks, void *in)
{
    const size_t nbytes = collective_in_nbytes(c, nranks);
    if (!collective_reduces(c->operation))
        reference_bits(in, nbytes, c->round, rank);
    else
        reference_fill(in, nbytes / symm_dtype_size(c->dtype), c->dtype, c->round, rank);
}

const char *collective_unavailable(const struct collective *c, symm_group *group)
{
    switch (c->operation) {
    case ALL_GATHER:
        return symm_all_gather_unavailable(group, c->algo, c->dtype);
    case BROADCAST:
        return symm_broadcast_unavailable(group, c->algo, c->dtype);
    case REDUCE_SCATTER:
        return symm_reduce_scatter_unavailable(group, c->algo, c->dtype, c->op);
    default:
        return symm_all_reduce_unavailable(group, c->algo, c->dtype, c->op);
    }
}

symm_status collective_call(const struct collective *c, symm_group *group, const void *in,
                            void *out, symm_stream stream)
{
    const symm_options options = {.algo = c->algo, .flags = c->flags, .max_blocks = c->max_blocks};
    const int root = c->root % symm_nranks(group);
    switch (c->operation) {
    case BROADCAST:
        return symm_broadcast(group, symm_rank(group) == root ? in : NULL, out, c->count, c->dtype,
                              root, &options, stream);
    case ALL_GATHER:
        return symm_all_gather(group, in, out, c->count, c->dtype, &options, stream);
    case REDUCE_SCATTER:
        return symm_reduce_scatter(group, in, out, c->count, c->dtype, c->op, &options, stream);
    default:
        return symm_all_reduce(group, in, out, c->count, c->dtype, c->op, &options, stream);
    }
}

int64_t collective_wrong(const struct collective *c, int rank, int nranks, const void *out)
{
    const int bound =
        c->flags & SYMM_DETERMINISTIC ? (int)REFERENCE_EXACT : exercise_bound(c->algo);
    const size_t first = c->operation == REDUCE_SCATTER ? (size_t)rank * c->count : 0;
    int64_t wrong = 0;

    if (collective_reduces(c->operation))
        return reference_reduction_wrong(out, first, c->count, c->dtype, c->op, c->round, nranks,
                                         (enum reference_bound)bound);
    if (c->operation == BROADCAST)
        return reference_bits_wrong(out, part_nbytes(c), c->round, c->root % nranks);
    for (int r = 0; r < nranks; r++)
        wrong += reference_bits_wrong((const char *)out + (size_t)r * part_nbytes(c),
                                      part_nbytes(c), c->round, r);
    return wrong;
}

const char *collective_text(const struct collective *c)
{
    static const char *const names[] = {"all-reduce", "reduce-scatter", "all-gather", "broadcast"};
    static _Thread_local char text[160];
    snprintf(
        text, sizeof text,
        "%s, algo %d, dtype %d, op %d, count %zu, root %d, max_blocks %u, flags %u, round %llu",
        names[c->operation], (int)c->algo, (int)c->dtype, (int)c->op, c->count, c->root,
        c->max_blocks, c->flags, (unsigned long long)c->round);
    return text;
}
