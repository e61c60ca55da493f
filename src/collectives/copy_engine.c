/*
 * SYMM_ALGO_COPY_ENGINE. Every call is a meeting of the ranks, in which they compare what they
 * call, the copies on side streams, and a meeting at the end.
 *
 *     all-gather      each rank puts its elements into all others' `out`
 *     reduce-scatter  each rank gets its share of all others' `in`, chunk by chunk, and reduces it
 *     all-reduce      the same, and puts each chunk of the result into all others' `out`
 *
 * A rank goes through the others one after the other, beginning with the next one, so that all
 * links are in use and none twice: copies to all others at once take nearly twice as long. Gets of
 * one chunk, the reduction of the one before and puts of those before that go on at the same time.
 *
 * Copies cannot be called back: when the group ends before the ranks have met, they are made all
 * the same. They stay inside the memory that was given to the call, on all ranks.
 */
#include "copy_engine.h"

#include "../runtime/side.h"

enum {
    WARP = 32,
    PACK_NBYTES = 16,
    REDUCE_THREADS = 512,
    REDUCE_BLOCKS = 2 /* on each multiprocessor */
};

/* Which side stream has what. */
enum { GETS, PUTS, SIDES };

/* Chunks are large, for the engines, and a few, so that a reduction does not hold up the links. */
#define CHUNK_MOST ((uint64_t)8 << 20)
#define CHUNK_LEAST ((uint64_t)1 << 20)
enum { CHUNKS_WANTED = 4 };

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t ceil_div(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

static uint64_t whole_packs(uint64_t nbytes)
{
    return ceil_div(nbytes, PACK_NBYTES) * PACK_NBYTES;
}

struct symm_copy_chunks symm__copy_chunks(uint64_t nbytes, int nranks, uint64_t staging_nbytes)
{
    const uint64_t half = staging_nbytes / 2 / (uint64_t)(nranks - 1);
    struct symm_copy_chunks chunks = {.room = half / PACK_NBYTES * PACK_NBYTES};
    const uint64_t most = smaller(chunks.room - PACK_NBYTES, CHUNK_MOST);
    uint64_t wanted = ceil_div(nbytes, CHUNKS_WANTED);

    if (wanted < CHUNK_LEAST)
        wanted = CHUNK_LEAST;
    chunks.n = ceil_div(nbytes, smaller(wanted, most));
    if (chunks.n)
        chunks.nbytes = whole_packs(ceil_div(nbytes, chunks.n));
    return chunks;
}

/* ------------------------------------------------------------------------------------- one call */

struct work {
    struct symm_enqueue *e;
    const struct symm_machine *machine;
    const struct symm_collective_call *call;
    struct symm_sides *sides;
    /* What this rank reduces: of its own `in`, into its own `out`. */
    const char *own;
    char *result;
    uint64_t nbytes;
    struct symm_copy_chunks chunks;
};

/* A meeting of the ranks; the first of two compares their words. */
static symm_status meet(const struct work *w, enum symm_kernel_id kernel, int channel,
                        uint32_t word)
{
    const struct symm_group *group = w->e->group;
    const symm_signal_args args = {.view = group->view,
                                   .pad = group->pad,
                                   .channel = SYMM_CHANNEL_BLOCKS + channel,
                                   .word = word};
    const uint64_t threads = ceil_div((uint64_t)group->nranks, WARP) * WARP;

    return symm__enqueue_kernel(w->e, kernel, 1,
                                (uint32_t)smaller(threads, (uint64_t)w->machine->max_threads),
                                false, &args);
}

/* The rank that is k-th, counted from this one. */
static int other(const struct work *w, int k)
{
    const struct symm_group *group = w->e->group;
    return (group->rank + k) % group->nranks;
}

static symm_status copy(const struct work *w, CUstream stream, void *to, const void *from,
                        uint64_t nbytes)
{
    symm_status st = SYMM_OK;

    TRY_CU(w->e->group->ctx->drv, cuMemcpyAsync, (CUdeviceptr)(uintptr_t)to,
           (CUdeviceptr)(uintptr_t)from, nbytes, stream);
out:
    return st;
}

/* After the last mark, from this rank's memory to `to` in all others'. */
static symm_status put_to_all(const struct work *w, char *to, const char *from, uint64_t nbytes)
{
    symm_status st;

    TRY(symm__side_follow(w->sides, PUTS));
    for (int k = 1; k < w->e->group->nranks; k++)
        TRY(copy(w, symm__side_stream(w->sides, PUTS), to + w->e->group->view.peer[other(w, k)],
                 from, nbytes));
out:
    return st;
}

static symm_status gather(const struct work *w, const void *in, void *out)
{
    const struct symm_group *group = w->e->group;
    const uint64_t nbytes = w->call->count * symm__dtype_size(w->call->dtype);
    char *mine = (char *)out + (uint64_t)group->rank * nbytes;
    symm_status st;

    TRY(symm__sides_mark(w->sides));
    TRY(put_to_all(w, mine, in, nbytes));
    if (in != mine)
        TRY(copy(w, w->e->stream, mine, in, nbytes));
out:
    return st;
}

/* ----------------------------------------------------------------------------------- reductions */

static uint64_t length_of(const struct work *w, uint64_t chunk)
{
    return smaller(w->chunks.nbytes, w->nbytes - chunk * w->chunks.nbytes);
}

/* Where the others' parts of a chunk come to lie, a room apart, aligned as this rank's own part. */
static char *staged(const struct work *w, uint64_t chunk)
{
    const struct symm_group *group = w->e->group;
    return group->staging + (chunk % 2) * (group->staging_nbytes / 2) +
           (uintptr_t)w->own % PACK_NBYTES;
}

/* After the last mark. */
static symm_status get_from_all(const struct work *w, uint64_t chunk)
{
    const struct symm_group *group = w->e->group;
    const char *own = w->own + chunk * w->chunks.nbytes;
    symm_status st;

    TRY(symm__side_follow(w->sides, GETS));
    for (int k = 1; k < group->nranks; k++) {
        const int r = other(w, k), room = r < group->rank ? r : r - 1;
        TRY(copy(w, symm__side_stream(w->sides, GETS),
                 staged(w, chunk) + (uint64_t)room * w->chunks.room, own + group->view.peer[r],
                 length_of(w, chunk)));
    }
out:
    return st;
}

static enum symm_kernel_id kernel_of(symm_dtype dtype)
{
    static const enum symm_kernel_id kernels[] = {
        [SYMM_FLOAT32] = SYMM_KERNEL_local_reduce_float32,
        [SYMM_FLOAT16] = SYMM_KERNEL_local_reduce_float16,
        [SYMM_BFLOAT16] = SYMM_KERNEL_local_reduce_bfloat16,
        [SYMM_FLOAT64] = SYMM_KERNEL_local_reduce_float64,
        [SYMM_INT32] = SYMM_KERNEL_local_reduce_int32,
        [SYMM_INT64] = SYMM_KERNEL_local_reduce_int64,
    };
    return kernels[dtype];
}

static symm_status reduce_chunk(const struct work *w, uint64_t chunk)
{
    const struct symm_group *group = w->e->group;
    const uint64_t off = chunk * w->chunks.nbytes, nbytes = length_of(w, chunk);
    const symm_local_reduce_args args = {
        .own = w->own + off,
        .out = w->result + off,
        .staged = staged(w, chunk),
        .room = w->chunks.room,
        .count = nbytes / symm__dtype_size(w->call->dtype),
        .rank = group->rank,
        .nranks = group->nranks,
        .op = (uint32_t)w->call->op,
    };
    const uint64_t threads = smaller(REDUCE_THREADS, (uint64_t)w->machine->max_threads);
    const uint64_t blocks = smaller(ceil_div(nbytes, PACK_NBYTES * threads),
                                    REDUCE_BLOCKS * (uint64_t)w->machine->nsms);

    return symm__enqueue_local_kernel(w->e, kernel_of(w->call->dtype), (uint32_t)blocks,
                                      (uint32_t)threads, &args);
}

/*
 * Chunk by chunk. Gets of chunk c + 1 follow the reduction of c - 1, which has read the same half
 * of the staging area, and go on during that of c.
 */
static symm_status reduce(struct work *w)
{
    const bool to_all = w->call->operation == SYMM_OPERATION_ALL_REDUCE;
    symm_status st;

    w->chunks = symm__copy_chunks(w->nbytes, w->e->group->nranks, w->e->group->staging_nbytes);
    TRY(symm__sides_mark(w->sides));
    if (w->chunks.n)
        TRY(get_from_all(w, 0));
    for (uint64_t c = 0; c < w->chunks.n; c++) {
        TRY(symm__side_join(w->sides, GETS));
        if (c + 1 < w->chunks.n)
            TRY(get_from_all(w, c + 1));
        TRY(reduce_chunk(w, c));
        TRY(symm__sides_mark(w->sides));
        if (to_all) {
            char *result = w->result + c * w->chunks.nbytes;
            TRY(put_to_all(w, result, result, length_of(w, c)));
        }
    }
out:
    return st;
}

static symm_status reduce_scatter(struct work *w, const void *in, void *out)
{
    w->nbytes = w->call->count * symm__dtype_size(w->call->dtype);
    w->own = (const char *)in + (uint64_t)w->e->group->rank * w->nbytes;
    w->result = out;
    return reduce(w);
}

/* The shares are of whole packs; the last ones may have less, or nothing. */
static symm_status all_reduce(struct work *w, const void *in, void *out)
{
    const uint64_t nbytes = w->call->count * symm__dtype_size(w->call->dtype),
                   share = whole_packs(ceil_div(nbytes, (uint64_t)w->e->group->nranks)),
                   first = smaller((uint64_t)w->e->group->rank * share, nbytes);

    w->nbytes = smaller(share, nbytes - first);
    w->own = (const char *)in + first;
    w->result = (char *)out + first;
    return reduce(w);
}

symm_status symm__copy_engine_run(struct symm_enqueue *e, const struct symm_machine *machine,
                                  const struct symm_collective_call *call, uint32_t word,
                                  const void *in, void *out)
{
    struct work w = {.e = e, .machine = machine, .call = call};
    symm_status st;

    TRY(symm__sides_take(e, SIDES, &w.sides));
    st = meet(&w, SYMM_KERNEL_symm_stream_meet, 0, word);
    if (st == SYMM_OK)
        st = call->operation == SYMM_OPERATION_ALL_GATHER       ? gather(&w, in, out)
             : call->operation == SYMM_OPERATION_REDUCE_SCATTER ? reduce_scatter(&w, in, out)
                                                                : all_reduce(&w, in, out);
    TRY(symm__sides_finish(w.sides, st));
    st = meet(&w, SYMM_KERNEL_symm_stream_barrier, 1, 0);
out:
    return st;
}
