/*
 * The hierarchical form: with N domains of R ranks each, steps inside the domains and steps on
 * rails. A rail has the ranks of one number in their domains.
 *
 *     all-reduce      reduce-scatter inside, all-reduce on the rail of a share, all-gather inside
 *     all-gather      all-gather on the rail, all-gather inside, blocks put in order
 *     reduce-scatter  blocks put in order, reduce-scatter inside, reduce-scatter on the rail
 *     broadcast       broadcast on the root's rail, broadcast inside
 *     of many bytes   broadcast inside the root's domain, broadcast on each rail of its share,
 *                     all-gather inside the other domains
 *
 * With SYMM_DETERMINISTIC, a rail's reduction is an exchange of blocks and a local reduction in the
 * order of the domains; an all-reduce then gathers the results on the rail.
 *
 * What does not fit into the staging memory goes in pieces, one after the other on one stream: so
 * a kernel of one piece never waits for that of another.
 */
#include "spanning.h"

#include <symm/collectives.h>
#include "runtime/base/numbers.h"
#include "runtime/group/domains.h"
#include "local_reduce.h"
#include "place_blocks.h"

enum {
    ALIGNMENT = 256,  /* of areas of the staging memory */
    PACK = 16,        /* bytes: of blocks and shares */
    SHARED = 1 << 20, /* bytes of a broadcast that all rails share */
};

/* One call. */
struct steps {
    struct symm_call *e;
    struct symm_links *links;
    const struct symm_collective_call *call;
    size_t size; /* of an element */
    size_t N, R;
    char *staging;
};

static struct steps steps_of(struct symm_call *e, struct symm_links *links,
                             const struct symm_collective_call *call)
{
    return (struct steps){.e = e,
                          .links = links,
                          .call = call,
                          .size = symm_dtype_size(call->dtype),
                          .N = links->group->domains->birth.ndomains,
                          .R = (size_t)symm__links_width(links),
                          .staging = (char *)(uintptr_t)links->staging};
}

/*
 * The most elements of a piece if the staging memory must hold `parts` times its bytes: at most
 * four areas, each aligned, with room to divide an area into whole packs for each domain.
 */
static size_t piece(const struct steps *l, size_t parts)
{
    const size_t nbytes = (l->links->staging_nbytes - 4 * (ALIGNMENT + l->N * PACK)) / parts;

    return nbytes / ALIGNMENT * ALIGNMENT / l->size;
}

/* Where the next area begins, behind one of n elements that may be divided. */
static char *behind(const struct steps *l, char *area, size_t n)
{
    return area + symm__round_up(n * l->size + l->N * PACK, ALIGNMENT);
}

/* n elements, or with SYMM_DETERMINISTIC as many as make whole packs. */
static size_t whole_packs(const struct steps *l, size_t n)
{
    return l->call->flags & SYMM_DETERMINISTIC ? symm__round_up(n * l->size, PACK) / l->size : n;
}

static symm_status copy(const struct steps *l, void *to, const void *from, size_t nbytes)
{
    symm_status st = SYMM_OK;

    if (nbytes && to != from)
        TRY_CU(l->e->group->ctx->drv, cuMemcpyAsync, (CUdeviceptr)(uintptr_t)to,
               (CUdeviceptr)(uintptr_t)from, nbytes, l->e->stream);
out:
    return st;
}

/* ---- The steps ---- */

static symm_status reduce_scatter_inside(const struct steps *l, const char *in, char *out,
                                         size_t count)
{
    const symm_options options = {.flags = l->call->flags & SYMM_DETERMINISTIC};

    if (!l->links->inner)
        return copy(l, out, in, count * l->size);
    return symm_reduce_scatter(l->links->inner, in, out, count, l->call->dtype, l->call->op,
                               &options, l->e->stream);
}

static symm_status all_gather_inside(const struct steps *l, const char *in, char *out, size_t count)
{
    if (!l->links->inner)
        return copy(l, out, in, count * l->size);
    return symm_all_gather(l->links->inner, in, out, count, l->call->dtype, NULL, l->e->stream);
}

/*
 * blocks: N blocks, `block` elements apart, one for each rank of the rail. out: n elements of this
 * rank's block, reduced in the order of the domains. scratch: room for N blocks.
 */
static symm_status exchange_and_reduce(const struct steps *l, const char *blocks, size_t block,
                                       char *out, size_t n, char *scratch)
{
    const struct symm_group *group = l->links->group;
    const struct symm_limits limits = symm__collective_limits(group->ctx->domain);
    const int domain = group->domains->domain[group->rank];
    const symm_local_reduce_args args = {.own = blocks + (size_t)domain * block * l->size,
                                         .out = out,
                                         .staged = scratch,
                                         .stride = block * l->size,
                                         .count = n,
                                         .rank = domain,
                                         .nranks = (int)l->N,
                                         .op = (uint32_t)l->call->op};
    symm_status st;

    TRY(symm__engine_exchange(l->links->rail, blocks, scratch, block * l->size, (int)l->N,
                              l->e->stream));
    st = symm__local_reduce(l->e, &limits, l->call->dtype, &args);
out:
    return st;
}

/* n elements in place, in an area with room to divide it. scratch: two such areas. */
static symm_status all_reduce_on_rail(const struct steps *l, char *x, size_t n, char *scratch)
{
    const size_t block = whole_packs(l, symm__ceil_div(n, l->N));
    char *mine = behind(l, scratch, n);
    symm_status st;

    if (!(l->call->flags & SYMM_DETERMINISTIC))
        return symm__engine_all_reduce(l->links->rail, x, x, n, l->call->dtype, l->call->op,
                                       l->e->stream);
    TRY(exchange_and_reduce(l, x, block, mine, block, scratch));
    st = symm__engine_all_gather(l->links->rail, mine, x, block * l->size, l->e->stream);
out:
    return st;
}

/* ---- All-reduce ---- */

/* n elements, in shares of `share`, of which the last ones may be partly or wholly padding. */
static symm_status all_reduce_piece(const struct steps *l, const char *in, char *out, size_t n,
                                    size_t share)
{
    const bool padded = n != l->R * share;
    char *mine = l->staging, *scratch = behind(l, mine, share);
    char *whole = behind(l, behind(l, scratch, share), share);
    const char *from = in;
    symm_status st;

    if (padded) {
        TRY(copy(l, whole, in, n * l->size));
        from = whole;
    }
    TRY(reduce_scatter_inside(l, from, mine, share));
    TRY(all_reduce_on_rail(l, mine, share, scratch));
    TRY(all_gather_inside(l, mine, padded ? whole : out, share));
    if (padded)
        TRY(copy(l, out, whole, n * l->size));
out:
    return st;
}

static symm_status all_reduce(const struct steps *l, const char *in, char *out)
{
    const size_t most = piece(l, l->R + 3) * l->R; /* three areas of a share, and all shares */
    symm_status st = SYMM_OK;

    for (size_t at = 0; at < l->call->count; at += most) {
        const size_t n = l->call->count - at < most ? l->call->count - at : most;
        TRY(all_reduce_piece(l, in + at * l->size, out + at * l->size, n, symm__ceil_div(n, l->R)));
    }
out:
    return st;
}

/* ---- All-gather and reduce-scatter ---- */

/* Blocks sorted by number in the domain, then by domain. */
struct blocks {
    char *at;
    size_t pitch, nbytes; /* from one to the next; of data */
};

/* Copies between them and blocks in the order of the group, `pitch` bytes apart. */
static symm_status sort(const struct steps *l, char *by_rank, size_t pitch,
                        const struct blocks *sorted, bool to_ranks)
{
    const struct symm_limits limits = symm__collective_limits(l->links->group->ctx->domain);
    const symm_place_blocks_args args = {
        .ranks = (const int32_t *)(uintptr_t)l->links->sorted,
        .sorted = sorted->at,
        .by_rank = by_rank,
        .sorted_pitch = sorted->pitch,
        .rank_pitch = pitch,
        .nbytes = sorted->nbytes,
        .nblocks = (uint32_t)l->links->group->nranks,
        .to_ranks = to_ranks,
    };

    return symm__place_blocks(l->e, &limits, &args);
}

static symm_status all_gather(const struct steps *l, const char *in, char *out)
{
    const size_t count = l->call->count, most = piece(l, l->N + l->N * l->R);
    symm_status st = SYMM_OK;

    for (size_t at = 0; at < count; at += most) {
        const size_t n = count - at < most ? count - at : most, nbytes = n * l->size;
        char *rail = l->staging;
        const struct blocks all = {behind(l, rail, l->N * n), nbytes, nbytes};
        TRY(symm__engine_all_gather(l->links->rail, in + at * l->size, rail, nbytes, l->e->stream));
        TRY(all_gather_inside(l, rail, all.at, l->N * n));
        TRY(sort(l, out + at * l->size, count * l->size, &all, true));
    }
out:
    return st;
}

/* blocks: one for each rank of the rail, `block` elements apart. scratch: room for as many. */
static symm_status reduce_scatter_on_rail(const struct steps *l, const char *blocks, size_t block,
                                          char *out, size_t n, char *scratch)
{
    if (l->call->flags & SYMM_DETERMINISTIC)
        return exchange_and_reduce(l, blocks, block, out, n, scratch);
    return symm__engine_reduce_scatter(l->links->rail, blocks, out, n, l->call->dtype, l->call->op,
                                       l->e->stream);
}

static symm_status reduce_scatter(const struct steps *l, const char *in, char *out)
{
    const size_t count = l->call->count, most = piece(l, 2 * l->N + l->N * l->R);
    symm_status st = SYMM_OK;

    for (size_t at = 0; at < count; at += most) {
        const size_t n = count - at < most ? count - at : most, block = whole_packs(l, n);
        char *rail = l->staging, *scratch = behind(l, rail, l->N * n);
        const struct blocks all = {behind(l, scratch, l->N * n), block * l->size, n * l->size};
        /* It only reads what the caller has given as const. */
        TRY(sort(l, (char *)(uintptr_t)in + at * l->size, count * l->size, &all, false));
        TRY(reduce_scatter_inside(l, all.at, rail, l->N * block));
        TRY(reduce_scatter_on_rail(l, rail, block, out + at * l->size, n, scratch));
    }
out:
    return st;
}

/* ---- Broadcast ---- */

static symm_status broadcast_inside(const struct steps *l, const void *in, void *out, size_t n,
                                    int number)
{
    if (!l->links->inner)
        return SYMM_OK;
    return symm_broadcast(l->links->inner, in, out, n, l->call->dtype, number, NULL, l->e->stream);
}

static symm_status broadcast_on_rail(const struct steps *l, const void *in, void *out, size_t n)
{
    const int domain = l->links->group->domains->domain[l->call->root];

    return symm__engine_broadcast(l->links->rail, in, out, n * l->size, domain, l->e->stream);
}

/* Two steps; the root's rail has all bytes. */
static symm_status broadcast_whole(const struct steps *l, const void *in, void *out, int number)
{
    symm_status st;

    if (symm__links_number(l->links) == number)
        TRY(broadcast_on_rail(l, in, out, l->call->count));
    st = broadcast_inside(l, out, out, l->call->count, number);
out:
    return st;
}

/*
 * Each rail carries a share of whole packs; the last rail also carries the rest. The ranks of the
 * root's domain get all bytes first, because they need all of them.
 */
static symm_status broadcast_shares(const struct steps *l, const char *in, char *out, int number)
{
    const struct symm_domains *d = l->links->group->domains;
    const size_t share = l->call->count * l->size / l->R / PACK * PACK / l->size,
                 rest = l->call->count - l->R * share, mine = (size_t)symm__links_number(l->links);
    char *at = out + mine * share * l->size, *end = out + l->R * share * l->size;
    const bool near = d->domain[l->links->group->rank] == d->domain[l->call->root];
    symm_status st = SYMM_OK;

    if (near)
        TRY(broadcast_inside(l, in, out, l->call->count, number));
    TRY(broadcast_on_rail(l, at, at, mine == l->R - 1 ? share + rest : share));
    if (near)
        return SYMM_OK;
    TRY(all_gather_inside(l, at, out, share));
    if (rest)
        st = broadcast_inside(l, end, end, rest, (int)l->R - 1);
out:
    return st;
}

static symm_status broadcast(const struct steps *l, const void *in, void *out)
{
    const int number = l->links->group->domains->slot[l->call->root] % (int)l->R;

    return l->R > 1 && l->call->count * l->size >= SHARED ? broadcast_shares(l, in, out, number)
                                                          : broadcast_whole(l, in, out, number);
}

symm_status symm__hierarchical(struct symm_call *e, struct symm_links *links,
                               const struct symm_collective_call *call, const void *in, void *out)
{
    const struct steps steps = steps_of(e, links, call);

    switch (call->operation) {
    case SYMM_OPERATION_ALL_REDUCE:
        return all_reduce(&steps, in, out);
    case SYMM_OPERATION_REDUCE_SCATTER:
        return reduce_scatter(&steps, in, out);
    case SYMM_OPERATION_ALL_GATHER:
        return all_gather(&steps, in, out);
    default:
        return broadcast(&steps, in, out);
    }
}
