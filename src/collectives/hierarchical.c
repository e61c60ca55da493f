/*
 * The hierarchical form: with N domains of R ranks each, three legs of which only the middle one
 * leaves the domain. A rail has the ranks of one number in their domains.
 *
 *     all-reduce      reduce-scatter inside, all-reduce on the rail of a shard, all-gather inside
 *     all-gather      all-gather on the rail, all-gather inside, blocks put in order
 *     reduce-scatter  blocks put in order, reduce-scatter inside, reduce-scatter on the rail
 *     broadcast       broadcast on the root's rail, broadcast inside
 *
 * What does not fit into the staging memory goes in pieces, one after the other on one stream: so
 * a kernel of one piece never waits for that of another.
 */
#include "spanning.h"

#include <symm/collectives.h>
#include "runtime/base/numbers.h"
#include "runtime/group/domains.h"

enum { ALIGNMENT = 256 /* of parts of the staging memory */ };

/* One call. */
struct legs {
    struct symm_call *e;
    struct symm_links *links;
    const struct symm_collective_call *call;
    size_t size; /* of an element */
    size_t N, R;
    char *staging;
};

static struct legs legs_of(struct symm_call *e, struct symm_links *links,
                           const struct symm_collective_call *call)
{
    return (struct legs){.e = e,
                         .links = links,
                         .call = call,
                         .size = symm_dtype_size(call->dtype),
                         .N = links->group->domains->birth.ndomains,
                         .R = (size_t)symm__links_width(links),
                         .staging = (char *)(uintptr_t)links->staging};
}

/* The most elements of a piece if it takes `parts` times its bytes, and two parts are aligned. */
static size_t piece(const struct legs *l, size_t parts)
{
    const size_t nbytes = (l->links->staging_nbytes - 2 * ALIGNMENT) / parts;

    return nbytes / ALIGNMENT * ALIGNMENT / l->size;
}

static symm_status copy(const struct legs *l, void *to, const void *from, size_t nbytes)
{
    symm_status st = SYMM_OK;

    if (nbytes && to != from)
        TRY_CU(l->e->group->ctx->drv, cuMemcpyAsync, (CUdeviceptr)(uintptr_t)to,
               (CUdeviceptr)(uintptr_t)from, nbytes, l->e->stream);
out:
    return st;
}

/* ---- All-reduce ---- */

/* n elements, in shards of `shard`, of which the last ones may be partly or wholly padding. */
static symm_status all_reduce_piece(const struct legs *l, const char *in, char *out, size_t n,
                                    size_t shard)
{
    const struct symm_collective_call *call = l->call;
    const bool padded = n != l->R * shard;
    char *mine = l->staging, *whole = l->staging + symm__round_up(shard * l->size, ALIGNMENT);
    const char *from = in;
    symm_status st;

    if (padded) {
        TRY(copy(l, whole, in, n * l->size));
        from = whole;
    }
    TRY(symm_reduce_scatter(l->links->inner, from, mine, shard, call->dtype, call->op, NULL,
                            l->e->stream));
    TRY(symm__engine_all_reduce(l->links->rail, mine, mine, shard, call->dtype, call->op,
                                l->e->stream));
    TRY(symm_all_gather(l->links->inner, mine, padded ? whole : out, shard, call->dtype, NULL,
                        l->e->stream));
    if (padded)
        TRY(copy(l, out, whole, n * l->size));
out:
    return st;
}

static symm_status all_reduce(const struct legs *l, const char *in, char *out)
{
    const size_t most = piece(l, l->R + 1) * l->R; /* a shard, and all shards */
    symm_status st = SYMM_OK;

    for (size_t at = 0; at < l->call->count; at += most) {
        const size_t n = l->call->count - at < most ? l->call->count - at : most;
        TRY(all_reduce_piece(l, in + at * l->size, out + at * l->size, n, symm__ceil_div(n, l->R)));
    }
out:
    return st;
}

/* ---- All-gather and reduce-scatter ---- */

/*
 * Copies between blocks in the order of the group, `pitch` bytes apart, and blocks of n bytes
 * sorted by number in the domain, then by domain.
 */
static symm_status sort(const struct legs *l, char *by_rank, size_t pitch, char *sorted, size_t n,
                        bool to_ranks)
{
    const struct symm_domains *d = l->links->group->domains;
    symm_status st = SYMM_OK;

    for (int r = 0; r < l->links->group->nranks; r++) {
        const size_t number = (size_t)d->slot[r] % l->R, domain = (size_t)d->domain[r];
        char *block = sorted + (number * l->N + domain) * n, *rank = by_rank + (size_t)r * pitch;
        TRY(to_ranks ? copy(l, rank, block, n) : copy(l, block, rank, n));
    }
out:
    return st;
}

static symm_status all_gather(const struct legs *l, const char *in, char *out)
{
    const size_t count = l->call->count, most = piece(l, l->N + l->N * l->R);
    symm_status st = SYMM_OK;

    for (size_t at = 0; at < count; at += most) {
        const size_t n = count - at < most ? count - at : most, nbytes = n * l->size;
        char *rail = l->staging, *all = rail + symm__round_up(l->N * nbytes, ALIGNMENT);
        TRY(symm__engine_all_gather(l->links->rail, in + at * l->size, rail, nbytes, l->e->stream));
        TRY(symm_all_gather(l->links->inner, rail, all, l->N * n, l->call->dtype, NULL,
                            l->e->stream));
        TRY(sort(l, out + at * l->size, count * l->size, all, nbytes, true));
    }
out:
    return st;
}

static symm_status reduce_scatter(const struct legs *l, const char *in, char *out)
{
    const struct symm_collective_call *call = l->call;
    const size_t count = call->count, most = piece(l, l->N + l->N * l->R);
    symm_status st = SYMM_OK;

    for (size_t at = 0; at < count; at += most) {
        const size_t n = count - at < most ? count - at : most;
        char *rail = l->staging, *all = rail + symm__round_up(l->N * n * l->size, ALIGNMENT);
        /* It only reads what the caller has given as const. */
        TRY(sort(l, (char *)(uintptr_t)in + at * l->size, count * l->size, all, n * l->size,
                 false));
        TRY(symm_reduce_scatter(l->links->inner, all, rail, l->N * n, call->dtype, call->op, NULL,
                                l->e->stream));
        TRY(symm__engine_reduce_scatter(l->links->rail, rail, out + at * l->size, n, call->dtype,
                                        call->op, l->e->stream));
    }
out:
    return st;
}

/* ---- Broadcast ---- */

static symm_status broadcast(const struct legs *l, const void *in, void *out)
{
    const struct symm_domains *d = l->links->group->domains;
    const struct symm_collective_call *call = l->call;
    const int number = d->slot[call->root] % (int)l->R;
    symm_status st;

    if (symm__links_number(l->links) == number)
        TRY(symm__engine_broadcast(l->links->rail, in, out, call->count * l->size,
                                   d->domain[call->root], l->e->stream));
    st = symm_broadcast(l->links->inner, out, out, call->count, call->dtype, number, NULL,
                        l->e->stream);
out:
    return st;
}

symm_status symm__hierarchical(struct symm_call *e, struct symm_links *links,
                               const struct symm_collective_call *call, const void *in, void *out)
{
    const struct legs legs = legs_of(e, links, call);

    switch (call->operation) {
    case SYMM_OPERATION_ALL_REDUCE:
        return all_reduce(&legs, in, out);
    case SYMM_OPERATION_REDUCE_SCATTER:
        return reduce_scatter(&legs, in, out);
    case SYMM_OPERATION_ALL_GATHER:
        return all_gather(&legs, in, out);
    default:
        return broadcast(&legs, in, out);
    }
}
