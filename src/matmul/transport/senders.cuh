/*
 * How rows get to the other ranks, and how a run ends. What a product waits for must be able to run
 * while products have all multiprocessors: these kernels are of one warp, with few registers and
 * little shared memory, which fit beside. Those that wait are of one block. matmul_push_apart is
 * another kind: it helps if it finds room, and nothing waits for it alone.
 */
#ifndef SYMM_MATMUL_TRANSFER_KERNELS_CUH
#define SYMM_MATMUL_TRANSFER_KERNELS_CUH

#include "matmul/kernels/shards.cuh"

/* At a count of this device, while others are given time: some 20 us. */
enum { LOOKS = 30 };

/* The channel on which a rank says that its workspace may be written. */
SYMM_DEV int32_t free_channel(const symm_rows_way &way)
{
    return (int32_t)way.chunks;
}

/* Nothing of this rank's reads its workspace any more. The threads of a block. */
SYMM_DEV void give_workspace(const symm_view &v, const symm_rows_way &way)
{
    for (int32_t r = (int32_t)threadIdx.x; r < v.nranks; r += (int32_t)blockDim.x)
        if (r != v.rank)
            symm_dev_signal(v, way.pad, free_channel(way), r);
}

/*
 * The values that come behind this rank's chunks: what it will have sent on each channel then. None
 * of them, after an abort: then they are what the others have already.
 */
SYMM_DEV void count_ahead(const symm_turn_args &a)
{
    const uint32_t n = symm_dev_aborted(a.view) ? 0 : 1;

    for (uint32_t i = threadIdx.x; i < a.view.nranks * a.chunks; i += blockDim.x) {
        const int32_t r = (int32_t)(i / a.chunks), c = (int32_t)(i % a.chunks);
        if (r == a.view.rank)
            continue;
        uint32_t *const sent = &symm_detail::signal_cell(a.view, a.way.pad, c, r)->sent;
        const uint32_t count = symm_detail::load_relaxed(sent) + n;
        symm_dev_store_one(a.values + i, (uint64_t)count);
        symm_detail::store_relaxed(sent, count);
    }
}

/*
 * For so many looks: products of others may be in its way, and wait for what is to be sent. Where
 * clusters of two have all multiprocessors, one block is less than the product was to have.
 */
SYMM_DEV void let_product_begin(const symm_turn_args &a)
{
    for (uint32_t i = 0; i < LOOKS && symm_detail::load_relaxed(a.begun) + 1 < a.blocks; i++)
        symm_detail::pause();
}

/* Before anything is sent. */
SYMM_DEV void take_turn(const symm_turn_args &a)
{
    give_workspace(a.view, a.way);
    for (int32_t r = (int32_t)threadIdx.x; r < a.view.nranks; r += (int32_t)blockDim.x)
        if (r != a.view.rank)
            symm_dev_wait_peek(a.view, a.way.pad, free_channel(a.way), r, 1);
    __syncthreads(); /* whoever's wait an abort has ended, all know */
    if (a.values)
        count_ahead(a);
    for (uint32_t i = threadIdx.x; a.counts && i <= (a.view.nranks - 1) * a.chunks; i += blockDim.x)
        symm_dev_store_one(a.counts + i, 0u);
    if (a.begun && threadIdx.x == 0)
        let_product_begin(a);
}

/* Some rows of a chunk: of each a run of packs, from one to the next so far apart. */
struct slice {
    const symm_bits16 *from; /* NULL: there is none */
    symm_bits16 *to;         /* in the peer's memory */
    uint32_t packs, run, apart;
    uint32_t down, along;   /* what a block's threads go on by: rows and packs of a run */
    uint32_t chunk, of_all; /* the latter: among the chunks to all ranks */
    int32_t rank;           /* whose it is to be */
};

/*
 * Which chunk of_all is, and whose it is to be. The rank before this one gets its chunks first, so
 * that every rank gets the next rank's rows first: the other ranks' steps, from their first one on.
 * Steps that they multiply at a time get a piece each by turns.
 */
SYMM_DEV void find_chunk(const symm_push_args &a, uint32_t chunks, slice &s)
{
    const uint32_t R = (uint32_t)a.view.nranks, step = s.of_all / chunks + 1,
                   of_turn = step / a.together * a.together, first = max(of_turn, 1u),
                   steps = min(of_turn + a.together, R) - first,
                   i = s.of_all - (first - 1) * chunks;

    s.chunk = i / steps;
    s.rank = (int32_t)(((uint32_t)a.view.rank + R - first - i % steps) % R);
}

SYMM_DEV void find_slice(const symm_push_args &a, uint32_t i, slice &s)
{
    const symm_rows_way &way = a.way;
    const uint32_t chunks = chunks_of(way, a.rows);

    s.from = nullptr;
    s.of_all = i / a.slices;
    if (s.of_all >= (uint32_t)(a.view.nranks - 1) * chunks)
        return;
    find_chunk(a, chunks, s);
    const uint64_t width = way.piece * sizeof(uint16_t), begin = s.chunk % way.pieces * width;
    s.run = (uint32_t)(min(width, a.row_nbytes - begin) / 16);
    s.apart = (uint32_t)(a.row_nbytes / 16);
    s.down = blockDim.x / s.run;
    s.along = blockDim.x % s.run;
    const uint64_t strip = (uint64_t)(s.chunk / way.pieces) * way.strip_rows,
                   end = min(strip + way.strip_rows, a.rows),
                   first = min(strip + (uint64_t)(i % a.slices) * a.slice_rows, end);
    s.packs = (uint32_t)min((uint64_t)a.slice_rows, end - first) * s.run;
    s.to = reinterpret_cast<symm_bits16 *>(
        symm_dev_peer(a.view, a.to + first * a.row_nbytes + begin, s.rank));
    s.from = reinterpret_cast<const symm_bits16 *>(a.from + first * a.row_nbytes + begin);
}

/* Where a thread is in a slice. Divisions at every pack would take as long as sending it. */
struct place {
    uint32_t index, at, column;

    SYMM_DEV_IN_CLASS place(const slice &s)
        : index(threadIdx.x), at(index / s.run * s.apart + index % s.run), column(index % s.run)
    {
    }

    SYMM_DEV_IN_CLASS void next(const slice &s)
    {
        index += blockDim.x;
        column += s.along;
        at += s.down * s.apart + s.along;
        if (column >= s.run) {
            column -= s.run;
            at += s.apart - s.run;
        }
    }
};

/* The threads of a block, each with so many packs on their way at a time. */
template <int AT_ONCE> SYMM_DEV void send_slice(const slice &shared)
{
    const slice s = shared;
    place p(s);

#pragma unroll 1
    while (p.index + (AT_ONCE - 1) * blockDim.x < s.packs) {
        symm_bits16 x[AT_ONCE];
        uint32_t at[AT_ONCE];
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++, p.next(s)) {
            at[u] = p.at;
            x[u] = symm_dev_load_bits(s.from + p.at);
        }
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++)
            symm_dev_store_bits(s.to + at[u], x[u]);
    }
#pragma unroll 1
    for (; p.index < s.packs; p.next(s))
        symm_dev_store_bits(s.to + p.at, symm_dev_load_bits(s.from + p.at));
}

/*
 * While others take slices, for beside a product a sender slows it down: until none has been taken
 * for so many looks, or all have. One thread; `next`: that has not been taken when this
 * one took its last one.
 */
SYMM_DEV void let_others_send(const symm_push_args &a, uint32_t next)
{
    const uint32_t all = (uint32_t)(a.view.nranks - 1) * chunks_of(a.way, a.rows) * a.slices;
    uint32_t taken = symm_detail::load_relaxed(a.counts);

    for (uint32_t i = 0; taken != next && taken < all && i < LOOKS; i++) {
        symm_detail::pause();
        const uint32_t now = symm_detail::load_relaxed(a.counts);
        if (now != taken)
            i = 0;
        taken = now;
    }
}

/*
 * The workspaces have been waited for, by one block: these wait for nothing but, where they give
 * way, for others to send. Those take their next slice while they send one. A block's threads have
 * stored before one of them counts, and counts are in order for the device: so whoever counts the
 * last slice of a chunk signals for all.
 */
template <int AT_ONCE, bool GIVES_WAY> SYMM_DEV void push_rows(const symm_push_args &a)
{
    __shared__ slice s;
    uint32_t i = ~0u, next = 0;

    if (symm_dev_aborted(a.view))
        return;
    if (!GIVES_WAY && threadIdx.x == 0)
        next = symm_detail::fetch_add_relaxed(a.counts, 1);
    for (;;) {
        if (threadIdx.x == 0) {
            if (GIVES_WAY)
                let_others_send(a, i);
            i = GIVES_WAY ? symm_detail::fetch_add_relaxed(a.counts, 1) : next;
            find_slice(a, i++, s);
        }
        __syncthreads();
        if (!s.from)
            return;
        if (!GIVES_WAY && threadIdx.x == 0)
            next = symm_detail::fetch_add_relaxed(a.counts, 1);
        send_slice<AT_ONCE>(s);
        __syncthreads();
        if (threadIdx.x == 0 && symm_detail::fetch_add(a.counts + 1 + s.of_all, 1) + 1 == a.slices)
            symm_dev_signal(a.view, a.way.pad, (int)s.chunk, s.rank);
    }
}

SYMM_DEV void finish_run(const symm_finish_args &a)
{
    const int32_t R = a.view.nranks, per_rank = free_channel(a.way) + 1;

    for (int32_t i = (int32_t)threadIdx.x; i < R * per_rank; i += (int32_t)blockDim.x) {
        const int32_t r = i / per_rank, channel = i % per_rank;
        const uint64_t rows = (uint64_t)rows_of(a.m, R, r) * a.l;
        if (r != a.view.rank &&
            (channel == free_channel(a.way) || (uint32_t)channel < chunks_of(a.way, rows)))
            symm_dev_wait(a.view, a.way.pad, channel, r, 1);
    }
    if (a.begun && threadIdx.x == 0)
        symm_dev_store_one(a.begun, 0u);
}

/* Row `row` of batch b. The threads of a block. */
SYMM_DEV void copy_row(const symm_copy_rows_args &a, int32_t b, int32_t row)
{
    const symm_shards &f = a.from;
    int32_t shard = 0;
    while (row >= first_row_of(f.m, f.nranks, shard + 1))
        shard++;
    const uint16_t *from = row_of<uint16_t>(f, shard, b, row - first_row_of(f.m, f.nranks, shard));
    const int64_t column = column_of(f, shard);
    uint16_t *to = static_cast<uint16_t *>(a.to.data) + b * a.to.batch + row * a.to.row;

    if (column == 1 && a.to.column == 1)
        symm_dev_copy(to, from, (size_t)f.k * sizeof *to);
    else
        for (int32_t j = (int32_t)threadIdx.x; j < f.k; j += (int32_t)blockDim.x)
            symm_dev_store_one(to + j * a.to.column, symm_dev_load_one(from + j * column));
}

/* A block takes a row at a time. */
SYMM_DEV void copy_all_rows(const symm_copy_rows_args &a)
{
    for (int32_t b = 0; b < a.from.l; b++)
        for (uint32_t row = blockIdx.x; row < (uint32_t)a.from.m; row += gridDim.x)
            copy_row(a, b, (int32_t)row);
}

#endif
