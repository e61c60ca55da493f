/*
 * SYMM_ALGO_COPY_ENGINE. Every call is a barrier, in which the ranks compare their calls; copies on
 * a side stream; and a barrier at the end.
 *
 *     all-gather      each rank puts its elements into `out` of all others
 *     broadcast       the same by the root alone
 *     reduce-scatter  each rank scatters: chunk by chunk, it puts its contribution to the others'
 *                     shares into their staging areas, where they reduce it
 *     all-reduce      the same; and each rank gathers: it puts each chunk of its result into `out`
 *                     of all others
 *
 * All copies of a call are puts, one after the other on one stream, to the other ranks in order
 * from the next one on. So at any time a rank sends to one other rank and receives from one, and
 * no link has two copies at once, which take longer together than one after the other:
 *
 *     copies   scatter 0 | scatter 1         | gather 0          | scatter 2 | gather 1 | ...
 *     kernels            | barrier, reduce 0 | barrier, reduce 1 |           | ...
 *
 * The order, and why it is enough:
 *  - A rank enters the barrier of chunk c when its scatter of c is done. So after the barrier, the
 *    staging area has all contributions to chunk c. The rank reduces them, and then gathers c.
 *  - Chunk c + 1 uses the slots of chunk c - 1. Its scatter waits for the barrier of chunk c, which
 *    a rank enters after it has reduced chunk c - 1.
 *  - In place, a gather of chunk c overwrites the other ranks' input of chunk c, which they have
 *    scattered before the barrier of chunk c.
 *  - Other calls use the staging areas, too. The first barrier comes after all earlier calls on all
 *    ranks, and the last one before all later calls.
 *
 * Copies cannot be recalled: if the group ends first, they are made all the same. They stay inside
 * symmetric memory at the offset that this rank has given, on all ranks, and inside the group's
 * own, which is not used for anything else before all ranks have released it.
 */
#include "copy_engine.h"

#include "runtime/base/numbers.h"
#include "runtime/api/signal_kernels.h"
#include "runtime/group/side_stream.h"
#include "local_reduce.h"

enum { WARP = 32, PACK_NBYTES = 16 };

static uint64_t round_to_packs(uint64_t nbytes)
{
    return symm__round_up(nbytes, PACK_NBYTES);
}

/* --------------------------------------------------------------------------------------- chunks */

/*
 * The model that decides between one chunk and two: the fixed time of a copy and its bytes per
 * nanosecond, measured on H200 GPUs; the time of a barrier between copies and the bytes per
 * nanosecond of a reduction, estimated. For a share of 64 MiB on 4 GPUs the model says 106 us, and
 * 100 were measured. Two chunks were the fastest at 16 and 64 MiB.
 */
enum { COPY_NS = 3200, COPIED_PER_NS = 388, MEETING_NS = 10000, REDUCED_PER_NS = 3500 };

/*
 * Divides a share into n chunks. If they are gathered, they are equal, because copies hide the
 * reductions. Else the last one is a quarter of the others, because nothing hides its reduction.
 */
static struct symm_copy_chunks divide(const struct symm_copy_share *share, uint64_t n)
{
    const uint64_t quarters = share->gathered ? 4 * n : 4 * n - 3;
    struct symm_copy_chunks chunks = {
        .nbytes =
            round_to_packs(symm__min(share->nbytes, symm__ceil_div(share->nbytes, quarters) * 4))};

    chunks.n = symm__ceil_div(share->nbytes, chunks.nbytes);
    return chunks;
}

/* The time of copies and kernels, which overlap as at the top of this file. */
static uint64_t time_of(const struct symm_copy_share *share, const struct symm_copy_chunks *chunks)
{
    const uint64_t nranks = (uint64_t)share->nranks;
    uint64_t copies = 0, kernels = 0, put = 0;

    for (uint64_t c = 0; c < chunks->n; c++) {
        const uint64_t nbytes = symm__min(chunks->nbytes, share->nbytes - c * chunks->nbytes),
                       before = put;
        put = (nranks - 1) * (COPY_NS + nbytes / COPIED_PER_NS);
        copies += put;
        const uint64_t scattered = copies;
        if (share->gathered && c > 0)
            copies = symm__max(copies, kernels) + before;
        kernels =
            symm__max(kernels, scattered) + MEETING_NS + (nranks + 1) * nbytes / REDUCED_PER_NS;
    }
    return share->gathered ? symm__max(copies, kernels) + put : kernels;
}

struct symm_copy_chunks symm__copy_chunks(const struct symm_copy_share *share,
                                          uint64_t staging_nbytes)
{
    const uint64_t stride =
                       staging_nbytes / (uint64_t)(share->nranks - 1) / PACK_NBYTES * PACK_NBYTES,
                   most = stride / 2 / PACK_NBYTES * PACK_NBYTES;
    struct symm_copy_chunks chunks;

    if (share->nbytes <= stride) {
        const struct symm_copy_chunks one = divide(share, 1), two = divide(share, 2);
        chunks = time_of(share, &one) <= time_of(share, &two) ? one : two;
    } else {
        const uint64_t quarters =
            symm__ceil_div(share->nbytes, most / 4) + (share->gathered ? 0 : 3);
        chunks = divide(share, symm__ceil_div(quarters, 4));
    }
    chunks.stride = stride;
    return chunks;
}

/* ------------------------------------------------------------------------------------- one call */

/* Channels: of the first barrier, in which the ranks compare words, and of the later ones. */
enum { FIRST, LATER };

struct work {
    struct symm_call *e;
    const struct symm_limits *limits;
    const struct symm_collective_call *call;
    struct symm_side_stream *side;
    const char *in;
    char *out;
    uint64_t lacks; /* see symm_arguments */
    /* Of a reduction: bytes of a rank's share (the last ones may have fewer), and of all shares. */
    uint64_t share, total;
    struct symm_copy_chunks chunks;
};

/* A barrier of the ranks. The first one compares their words. */
static symm_status barrier(const struct work *w, symm_kernel_id kernel, int channel, uint32_t word)
{
    const struct symm_group *group = w->e->group;
    const symm_signal_args args = {.view = group->view,
                                   .pad = symm__group_areas(group)->pad,
                                   .channel = SYMM_CHANNEL_BLOCKS + channel,
                                   .word = word};
    const uint64_t threads = symm__round_up((uint64_t)group->nranks, WARP);

    return symm__call_launch(w->e, kernel, 1,
                             (uint32_t)symm__min(threads, (uint64_t)w->limits->max_threads), false,
                             &args);
}

/* The k-th rank after this one. */
static int other(const struct work *w, int k)
{
    const struct symm_group *group = w->e->group;
    return (group->rank + k) % group->nranks;
}

static symm_status copy(const struct work *w, CUstream stream, void *to, const void *from,
                        uint64_t nbytes)
{
    symm_status st = SYMM_OK;

    if (nbytes)
        TRY_CU(w->e->group->ctx->drv, cuMemcpyAsync, (CUdeviceptr)(uintptr_t)to,
               (CUdeviceptr)(uintptr_t)from, nbytes, stream);
out:
    return st;
}

/* Copies from this rank's memory to rank r's copy of `to`, after all earlier copies. */
static symm_status put(const struct work *w, int r, char *to, const char *from, uint64_t nbytes)
{
    return copy(w, symm__side_stream_handle(w->side), to + w->e->group->view.peer[r], from, nbytes);
}

static symm_status put_to_all(const struct work *w, char *to, const char *from, uint64_t nbytes)
{
    symm_status st = SYMM_OK;

    for (int k = 1; k < w->e->group->nranks; k++)
        TRY(put(w, other(w, k), to, from, nbytes));
out:
    return st;
}

/* Puts this rank's elements, to `mine` of all ranks. */
static symm_status put_own(const struct work *w, char *mine)
{
    const uint64_t nbytes = w->call->count * symm_dtype_size(w->call->dtype) - w->lacks;
    symm_status st;

    TRY(symm__side_stream_mark(w->side));
    TRY(symm__side_stream_follow(w->side));
    TRY(put_to_all(w, mine, w->in, nbytes));
    if (w->in != mine)
        TRY(copy(w, w->e->stream, mine, w->in, nbytes));
out:
    return st;
}

static symm_status gather(const struct work *w)
{
    const uint64_t nbytes = w->call->count * symm_dtype_size(w->call->dtype);

    return put_own(w, w->out + (uint64_t)w->e->group->rank * nbytes);
}

static symm_status broadcast(const struct work *w)
{
    return w->e->group->rank == w->call->root ? put_own(w, w->out) : SYMM_OK;
}

/* ----------------------------------------------------------------------------------- reductions */

/* The offset of rank r's chunk among all shares; *nbytes: its length, which may be 0. */
static uint64_t find_chunk(const struct work *w, int r, uint64_t chunk, uint64_t *nbytes)
{
    const uint64_t begin = (uint64_t)r * w->share + chunk * w->chunks.nbytes,
                   share_end = symm__min(((uint64_t)r + 1) * w->share, w->total),
                   end = symm__min(begin + w->chunks.nbytes, share_end);

    *nbytes = begin < end ? end - begin : 0;
    return begin;
}

/* The first slot of a chunk in a staging area. The ranks' slots are a stride apart. */
static char *slot_of(const struct work *w, uint64_t chunk)
{
    return symm__group_areas(w->e->group)->staging + chunk % 2 * w->chunks.nbytes;
}

static symm_status scatter_chunk(const struct work *w, uint64_t chunk)
{
    const struct symm_group *group = w->e->group;
    symm_status st = SYMM_OK;

    for (int k = 1; k < group->nranks; k++) {
        const int r = other(w, k), slot = group->rank < r ? group->rank : group->rank - 1;
        uint64_t nbytes;
        const uint64_t begin = find_chunk(w, r, chunk, &nbytes);
        TRY(put(w, r, slot_of(w, chunk) + (uint64_t)slot * w->chunks.stride, w->in + begin,
                nbytes));
    }
out:
    return st;
}

/* The place of this rank's result in `out`, which has all shares or this rank's alone. */
static char *result(const struct work *w, uint64_t begin)
{
    const bool all = w->call->operation == SYMM_OPERATION_ALL_REDUCE;

    return w->out + (all ? begin : begin - (uint64_t)w->e->group->rank * w->share);
}

static symm_status gather_chunk(const struct work *w, uint64_t chunk)
{
    uint64_t nbytes;
    const uint64_t begin = find_chunk(w, w->e->group->rank, chunk, &nbytes);
    char *at = result(w, begin);

    return put_to_all(w, at, at, nbytes);
}

static symm_status reduce_chunk(const struct work *w, uint64_t chunk)
{
    const struct symm_group *group = w->e->group;
    uint64_t nbytes;
    const uint64_t begin = find_chunk(w, group->rank, chunk, &nbytes),
                   end = (uint64_t)group->rank * w->share + w->share - w->lacks,
                   left = begin < end ? end - begin : 0;
    const symm_local_reduce_args args = {
        .own = w->in + begin,
        .out = result(w, begin),
        .staged = slot_of(w, chunk),
        .stride = w->chunks.stride,
        .count = symm__min(nbytes, left) / symm_dtype_size(w->call->dtype),
        .rank = group->rank,
        .nranks = group->nranks,
        .op = (uint32_t)w->call->op,
    };

    return symm__local_reduce(w->e, w->limits, w->call->dtype, &args);
}

/*
 * The copies of a rank follow one point in the caller's stream at a time. What is enqueued between
 * a mark and what follows it does not keep the copies waiting.
 */
static symm_status reduce(struct work *w)
{
    const bool to_all = w->call->operation == SYMM_OPERATION_ALL_REDUCE;
    symm_status st;

    TRY(symm__side_stream_mark(w->side));
    TRY(symm__side_stream_follow(w->side));
    TRY(scatter_chunk(w, 0));
    TRY(symm__side_stream_join(w->side));
    for (uint64_t c = 0; c < w->chunks.n; c++) {
        const bool is_last = c + 1 == w->chunks.n;
        TRY(barrier(w, SYMM_KERNEL_symm_stream_barrier, LATER, 0));
        if (c > 0)
            TRY(symm__side_stream_mark(w->side)); /* all ranks have reduced chunk c - 1 */
        if (!is_last)
            TRY(symm__side_stream_follow(w->side));
        TRY(reduce_chunk(w, c));
        TRY(symm__side_stream_mark(w->side));
        if (!is_last) {
            TRY(scatter_chunk(w, c + 1));
            TRY(symm__side_stream_join(w->side));
        }
        if (to_all) {
            TRY(symm__side_stream_follow(w->side));
            TRY(gather_chunk(w, c));
        }
    }
out:
    return st;
}

/* All ranks have as many chunks, one barrier for each. The last shares may be shorter. */
static symm_status reduce_shares(struct work *w)
{
    const struct symm_group *group = w->e->group;
    const uint64_t nbytes = w->call->count * symm_dtype_size(w->call->dtype),
                   nranks = (uint64_t)group->nranks;
    const bool to_all = w->call->operation == SYMM_OPERATION_ALL_REDUCE;

    w->share = to_all ? round_to_packs(symm__ceil_div(nbytes, nranks)) : nbytes;
    w->total = to_all ? nbytes : nbytes * nranks;
    w->chunks = symm__copy_chunks(
        &(struct symm_copy_share){.nbytes = w->share, .nranks = group->nranks, .gathered = to_all},
        symm__group_areas(group)->size.staging_nbytes);
    return reduce(w);
}

symm_status symm__copy_engine_run(struct symm_call *e, const struct symm_limits *limits,
                                  const struct symm_collective_call *call, uint32_t word,
                                  const struct symm_arguments *data)
{
    struct work w = {.e = e,
                     .limits = limits,
                     .call = call,
                     .in = data->in.address,
                     .out = data->out.address,
                     .lacks = data->lacks};
    symm_status st;

    TRY(symm__side_stream_take(e, SYMM_URGENT, &w.side));
    st = barrier(&w, SYMM_KERNEL_symm_stream_meet, FIRST, word);
    if (st == SYMM_OK)
        st = call->operation == SYMM_OPERATION_ALL_GATHER  ? gather(&w)
             : call->operation == SYMM_OPERATION_BROADCAST ? broadcast(&w)
                                                           : reduce_shares(&w);
    TRY(symm__side_stream_finish(w.side, st));
    st = barrier(&w, SYMM_KERNEL_symm_stream_barrier, LATER, 0);
out:
    return st;
}
