/*
 * How rows get to the other ranks, and how a run ends. What a product waits for must be able to run
 * while products have all multiprocessors: these kernels are of one warp, with few registers and
 * little shared memory, which fit beside. Those that wait are of one block.
 */
#ifndef SYMM_MATMUL_TRANSFER_KERNELS_CUH
#define SYMM_MATMUL_TRANSFER_KERNELS_CUH

#include "rows.cuh"

/* The channel on which a rank says that its workspace may be written. */
SYMM_DEV int32_t free_channel(const symm_rows_way &way)
{
    return way.parts;
}

/* Nothing of this rank's reads its workspace any more. The threads of a block. */
SYMM_DEV void give_workspace(const symm_view &v, const symm_rows_way &way)
{
    for (int32_t r = (int32_t)threadIdx.x; r < v.nranks; r += (int32_t)blockDim.x)
        if (r != v.rank)
            symm_dev_signal(v, way.pad, free_channel(way), r);
}

/*
 * The values that come behind this rank's chunks: what it will have sent then. None of them, after
 * an abort: then they are what the others have already.
 */
SYMM_DEV void count_ahead(const symm_turn_args &a)
{
    const uint32_t chunks = symm_dev_aborted(a.view) ? 0 : a.chunks;

    for (int32_t r = (int32_t)threadIdx.x; r < a.view.nranks; r += (int32_t)blockDim.x) {
        if (r == a.view.rank)
            continue;
        uint32_t *const sent = &symm_detail::signal_cell(a.view, a.way.pad, 0, r)->sent;
        const uint32_t before = symm_detail::load_relaxed(sent);
        for (uint32_t c = 0; c < a.chunks; c++)
            symm_dev_store_one(a.values + (uint64_t)r * a.chunks + c,
                               (uint64_t)(before + min(c + 1, chunks)));
        symm_detail::store_relaxed(sent, before + chunks);
    }
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
}

/* What of a chunk this block brings, in bytes: a multiple of 16, as rows are. */
struct piece {
    uint64_t first, last;
};

SYMM_DEV piece piece_of(const symm_push_args &a, uint32_t chunk)
{
    const uint64_t first = (uint64_t)chunk * a.way.chunk_rows,
                   rows = min((uint64_t)a.way.chunk_rows, a.rows - first),
                   packs = rows * a.row_nbytes / 16, slice = (packs + gridDim.x - 1) / gridDim.x,
                   begin = min(blockIdx.x * slice, packs), end = min(begin + slice, packs),
                   off = first * a.row_nbytes;
    return {off + begin * 16, off + end * 16};
}

/*
 * To the rank before this one first: so every rank gets the next rank's rows first. The workspaces
 * have been waited for, by one block: these, which are many, wait for nothing.
 */
SYMM_DEV void push_rows(const symm_push_args &a)
{
    constexpr uint32_t BUFFER = 12 << 10;
    __shared__ __align__(128) char buffer[BUFFER];
    const int32_t R = a.view.nranks;
    const uint32_t chunks = chunks_of(a.rows, a.way.chunk_rows);

    if (symm_dev_aborted(a.view) || threadIdx.x != 0)
        return;
    for (int32_t s = 1; s < R; s++) {
        const int32_t to = (a.view.rank + R - s) % R;
        for (uint32_t c = 0; c < chunks; c++) {
            const piece p = piece_of(a, c);
            if (p.first < p.last)
                symm_dev_put_bulk(a.view, a.to + p.first, a.from + p.first, p.last - p.first, to,
                                  buffer, BUFFER);
            symm_dev_signal(a.view, a.way.pad, (int)blockIdx.x, to);
        }
    }
}

SYMM_DEV void finish_run(const symm_finish_args &a)
{
    const int32_t R = a.view.nranks, per_rank = a.way.parts + 1;

    for (int32_t i = (int32_t)threadIdx.x; i < R * per_rank; i += (int32_t)blockDim.x) {
        const int32_t r = i / per_rank, channel = i % per_rank;
        const uint32_t n = channel == free_channel(a.way)
                               ? 1
                               : chunks_of((uint64_t)rows_of(a.m, R, r) * a.l, a.way.chunk_rows);
        if (r != a.view.rank && n > 0)
            symm_dev_wait(a.view, a.way.pad, channel, r, n);
    }
}

/* A block takes a row at a time. */
SYMM_DEV void copy_all_rows(const symm_copy_rows_args &a)
{
    const symm_shards &f = a.from;
    const uint64_t rows = (uint64_t)f.l * f.m;

    for (uint64_t at = blockIdx.x; at < rows; at += gridDim.x) {
        const int32_t b = (int32_t)(at / f.m), row = (int32_t)(at % f.m);
        int32_t shard = 0;
        while (row >= first_row_of(f.m, f.nranks, shard + 1))
            shard++;
        const uint16_t *from =
            row_of<uint16_t>(f, shard, b, row - first_row_of(f.m, f.nranks, shard));
        const int64_t column = column_of(f, shard);
        uint16_t *to = static_cast<uint16_t *>(a.to.data) + b * a.to.batch + row * a.to.row;
        if (column == 1 && a.to.column == 1)
            symm_dev_copy(to, from, (size_t)f.k * sizeof *to);
        else
            for (int32_t j = (int32_t)threadIdx.x; j < f.k; j += (int32_t)blockDim.x)
                symm_dev_store_one(to + j * a.to.column, symm_dev_load_one(from + j * column));
    }
}

#endif
