/*
 * All-reduce of rows, residual and RMS norm. A block has whole rows, which it reduces in a
 * collective of its own. So it has all of a row's sums, on every rank, and no block waits for
 * another one of its rank. If there are few rows, the blocks of a cluster share each of them, and
 * tell each other the sums of squares. The sums travel, never their norms: each rank adds the
 * residual and norms all rows, which is faster than to send the new residual and the norm over the
 * links.
 *
 * low_latency           each row's sums stay in shared memory, if the block has one row.
 * low_latency_two_shot  sums are stored in `out`, and loaded again.
 * lamport               the same.
 */
#ifndef SYMM_ALL_REDUCE_RMS_NORM_CUH
#define SYMM_ALL_REDUCE_RMS_NORM_CUH

#include "all_reduce_packets.cuh"
#include "lamport.cuh"

enum {
    NORM_PACKS = SYMM_PART_PACKS, /* that a thread keeps: with 512 threads rows of 8192 elements */
    NORM_HELD = 8192              /* elements of a row that is kept in shared memory */
};

/*
 * The Data of a block's rows, or of its part of a row. held: shared memory for their sums, or
 * nullptr.
 */
struct rows_data {
    const void *in;
    void *out;
    uint64_t count, stride;
    bool aligned;
    symm_bits16 *held;
};

/* x + residual, rounded. */
template <typename T>
SYMM_DEV symm_bits16 add_residual(const symm_bits16 &x, const symm_bits16 &residual)
{
    elements<T> y = unpack<T>(x);
    fold(y, unpack<T>(residual), SYMM_SUM);
    return pack(y);
}

template <typename T> SYMM_DEV float sum_of_squares(const symm_bits16 &x)
{
    const elements<T> y = unpack<T>(x);
    float sum = 0;
#pragma unroll
    for (int i = 0; i < (int)PACK<T>; i++)
        sum += y.e[i] * y.e[i];
    return sum;
}

/* x * scale * weight in fp32, rounded. */
template <typename T>
SYMM_DEV symm_bits16 scaled(const symm_bits16 &x, float scale, bool weighted,
                            const symm_bits16 &weight)
{
    elements<T> y = unpack<T>(x);
    const elements<T> w = unpack<T>(weight);
#pragma unroll
    for (int i = 0; i < (int)PACK<T>; i++)
        y.e[i] = weighted ? y.e[i] * scale * w.e[i] : y.e[i] * scale;
    return pack(y);
}

/*
 * The sum of x over the warps of a row, which the blocks of a cluster share, in the order of
 * symm_dev_block_sum(). All blocks must meet again before one of them ends, since they read each
 * other's shared memory.
 */
SYMM_DEV float cluster_sum(const symm_row_threads &row, float x)
{
    __shared__ __align__(16) float sums[SYMM_PART_WARPS];
    const uint32_t warp = threadIdx.x / 32;
    const float of_warp = symm_detail::warp_sum(x);
    float4 all[SYMM_ROW_PARTS];

    if (threadIdx.x % 32 == 0 && warp < row.warps)
        sums[warp] = of_warp;
    symm_detail::cluster_sync();
#pragma unroll
    for (uint32_t b = 0; b < SYMM_ROW_PARTS; b++)
        all[b] = symm_detail::cluster_load(sums, min(b, row.blocks - 1));
    float sum = 0;
#pragma unroll
    for (uint32_t b = 0; b < SYMM_ROW_PARTS; b++) {
        const float of_block[] = {all[b].x, all[b].y, all[b].z, all[b].w};
#pragma unroll
        for (uint32_t w = 0; w < SYMM_PART_WARPS; w++)
            if (b < row.blocks && w < row.warps)
                sum += of_block[w];
    }
    return sum;
}

/*
 * The rows of this block, or its part of a row. A row's packs belong to the same threads of the row
 * with any algorithm and any number of blocks, so that its squares are added in the same order.
 */
template <typename T, bool PART = false> struct norm_block {
    const symm_norm_args &n;
    uint64_t first, last; /* rows */
    uint32_t begin, end;  /* this block's packs of a row */
    symm_bits16 residual[NORM_PACKS] = {}, weight[NORM_PACKS] = {};

    SYMM_DEV_IN_CLASS norm_block(const symm_norm_args &args) : n(args)
    {
        const symm_row_threads &row = n.threads;
        const uint32_t blocks = PART ? row.blocks : 1, part = blockIdx.x % blocks,
                       of_block = row.warps * row.lanes * row.packs;

        first = min(blockIdx.x / blocks * n.block_rows, n.rows);
        last = min(first + n.block_rows, n.rows);
        end = (uint32_t)ceil_div(n.hidden, PACK<T>);
        begin = min(part * of_block, end);
        end = PART ? min(begin + of_block, end) : end;
    }

    /*
     * Loads the weight and the first row's residual: while other ranks' elements are on their way,
     * if there are registers to keep them in.
     */
    SYMM_DEV_IN_CLASS void load_inputs()
    {
        if (n.weight)
            each_pack([&](uint64_t i, int k) {
                if (k < NORM_PACKS)
                    weight[k] = load_weight(i);
            });
        load_residual(first);
    }

    /* This block's elements of a row. */
    SYMM_DEV_IN_CLASS uint64_t width() const
    {
        return PART ? min((uint64_t)(end - begin) * PACK<T>,
                          n.hidden - min(begin * PACK<T>, n.hidden))
                    : n.hidden;
    }

    /* The elements of this block's rows. */
    SYMM_DEV_IN_CLASS rows_data data(symm_bits16 *held = nullptr) const
    {
        const uint64_t at = first * n.hidden + begin * PACK<T>;
        return {static_cast<const T *>(n.all.in) + at,
                static_cast<T *>(n.all.out) + at,
                (last - first) * width(),
                n.all.stride,
                n.all.aligned && last - first == n.block_rows,
                held};
    }

    /* Calls f(pack, number) for this thread's packs of a row. The numbers end with NORM_PACKS. */
    template <typename F> SYMM_DEV_IN_CLASS void each_pack(const F &f) const
    {
        const symm_row_threads &row = n.threads;
        /* If there are fewer than 32 lanes, there is one warp. */
        const uint32_t warp = threadIdx.x / 32,
                       at = begin + warp * row.lanes * row.packs + threadIdx.x % 32;

        if (warp >= row.warps)
            return;
#pragma unroll
        for (uint32_t k = 0; k < NORM_PACKS; k++)
            if (k < row.packs && at + k * row.lanes < end)
                f(at + k * row.lanes, (int)k);
        for (uint32_t k = NORM_PACKS; !PART && k < row.packs && at + k * row.lanes < end; k++)
            f(at + k * row.lanes, (int)NORM_PACKS);
    }

    SYMM_DEV_IN_CLASS symm_bits16 load_weight(uint64_t i) const
    {
        return load_pack(static_cast<const T *>(n.weight), i, n.hidden);
    }

    /* Pack i of a row. */
    SYMM_DEV_IN_CLASS symm_bits16 load(const void *rows, uint64_t row, uint64_t i) const
    {
        return load_pack(static_cast<const T *>(rows) + row * n.hidden, i, n.hidden);
    }

    SYMM_DEV_IN_CLASS void store(void *rows, uint64_t row, uint64_t i, const symm_bits16 &x) const
    {
        store_pack(static_cast<T *>(rows) + row * n.hidden, i, n.hidden, x);
    }

    SYMM_DEV_IN_CLASS void load_residual(uint64_t row)
    {
        if (n.residual)
            each_pack([&](uint64_t i, int k) {
                if (k < NORM_PACKS)
                    residual[k] = load(n.residual, row, i);
            });
    }

    /*
     * Adds the residual to a row, stores it and norms it. sum(i): pack i of the row, with zeros
     * beyond its end. The norm is that of the rounded residual.
     */
    template <typename Sum> SYMM_DEV_IN_CLASS void norm(uint64_t row, const Sum &sum) const
    {
        symm_bits16 kept[NORM_PACKS] = {};
        float squares = 0;

        each_pack([&](uint64_t i, int k) {
            symm_bits16 x = sum(i);
            if (n.residual)
                x = add_residual<T>(x, k < NORM_PACKS ? residual[k] : load(n.residual, row, i));
            store(n.residual_out, row, i, x);
            squares += sum_of_squares<T>(x);
            if (k < NORM_PACKS)
                kept[k] = x;
        });
        squares = PART ? cluster_sum(n.threads, squares) : symm_dev_block_sum(squares);
        const float scale = rsqrtf(squares / (float)n.hidden + n.eps);
        const bool weighted = n.weight != nullptr;
        each_pack([&](uint64_t i, int k) {
            const symm_bits16 x = k < NORM_PACKS ? kept[k] : load(n.residual_out, row, i),
                              w = k < NORM_PACKS ? weight[k]
                                  : weighted     ? load_weight(i)
                                                 : symm_bits16{};
            store(n.all.out, row, i, scaled<T>(x, scale, weighted, w));
        });
    }

    /* The same for all rows, after load_inputs(); sum(row, i). */
    template <typename Sum> SYMM_DEV_IN_CLASS void run(const Sum &sum)
    {
        for (uint64_t row = first; row < last; row++) {
            if (row != first)
                load_residual(row);
            norm(row, [&](uint64_t i) { return sum(row, i); });
        }
    }
};

/* ---------------------------------------------------------------------------------- low latency */

/* reduce_everything with its sums in shared memory. PART: of a part of a row, always there. */
template <typename T, int R, bool PART> struct reduce_rows : reduce_everything<T, R> {
    /* Few threads have all of a row. */
    static constexpr int AT_ONCE = PART ? 1 : PACKETS_AT_ONCE<R>;
    typedef symm_bits12 held;

    uint32_t *const sums;

    SYMM_DEV_IN_CLASS reduce_rows(const symm_collective_args &args, const rows_data &d, uint64_t at,
                                  uint32_t n)
        : reduce_everything<T, R>(args, d, at, n),
          sums(PART || d.held ? d.held->w + at * PACKET_WORDS<T> : nullptr)
    {
    }

    template <int U>
    SYMM_DEV_IN_CLASS void take(packet_slots &s, const packet_batch &b, const held (&own)[U]) const
    {
        constexpr uint32_t WORDS = PACKET_WORDS<T>;
        const bool holds = PART || sums;
        symm_bits12 y[U];
        receive_and_reduce<T, R>(this->a.view, s, 0, this->a.capacity, b, own, this->a.op, y);
#pragma unroll
        for (int u = 0; u < U; u++) {
            if (!holds)
                store_payload(this->out, b.at(u), y[u]);
#pragma unroll
            for (uint32_t w = 0; w < WORDS; w++)
                if (holds && b.has(u))
                    sums[b.at(u) * WORDS + w] = y[u].w[w];
        }
    }
};

/* Pack i of a row of n elements in shared memory. Elements beyond n are 0. */
template <typename T> SYMM_DEV symm_bits16 load_held(const symm_bits16 *row, uint64_t i, uint64_t n)
{
    symm_bits16 x = row[i];
    if ((i + 1) * PACK<T> <= n)
        return x;
    T e[PACK<T>];
    __builtin_memcpy(e, &x, sizeof x);
#pragma unroll
    for (int k = 0; k < (int)PACK<T>; k++)
        if (i * PACK<T> + k >= n)
            e[k] = T{};
    __builtin_memcpy(&x, e, sizeof x);
    return x;
}

/* The blocks of a cluster share a row. */
template <typename T, int R> SYMM_DEV void norm_part(const symm_norm_args &n)
{
    /* and the end of the last packet */
    __shared__ symm_bits16 held[SYMM_PART_WARPS * 32 * NORM_PACKS + 1];
    norm_block<T, true> block(n);
    const rows_data data = block.data(held);

    symm_dev_pdl_wait();
    symm_dev_pdl_release();
    exchange_packets<reduce_rows<T, R, true>>(n.all, data, block_part{0, n.all.share},
                                              [&] { block.load_inputs(); });
    __syncthreads(); /* all sums of the part are there */
    block.norm(block.first,
               [&](uint64_t i) { return load_held<T>(held, i - block.begin, block.width()); });
    symm_detail::cluster_meet(); /* all blocks have this block's sums of squares */
}

/* A block has whole rows. */
template <typename T, int R> SYMM_DEV void norm_rows(const symm_norm_args &n)
{
    __shared__ symm_bits16 held[NORM_HELD / PACK<T> + 1]; /* as above */
    const bool holds = n.block_rows == 1 && n.hidden <= NORM_HELD;
    norm_block<T> block(n);
    const rows_data data = block.data(holds ? held : nullptr);

    symm_dev_pdl_wait();
    symm_dev_pdl_release();
    exchange_packets<reduce_rows<T, R, false>>(n.all, data, block_part{0, n.all.share},
                                               [&] { block.load_inputs(); });
    __syncthreads(); /* all sums of the rows are there */
    block.run([&](uint64_t row, uint64_t i) {
        return holds ? load_held<T>(held, i, n.hidden) : block.load(n.all.out, row, i);
    });
}

template <typename T, int R> SYMM_DEV void all_reduce_rms_norm_low_latency(const symm_norm_args &n)
{
    if (n.threads.blocks > 1)
        norm_part<T, R>(n);
    else
        norm_rows<T, R>(n);
}

template <typename T, int R>
SYMM_DEV void all_reduce_rms_norm_low_latency_two_shot(const symm_norm_args &n)
{
    symm_dev_pdl_wait();
    symm_dev_pdl_release();
    norm_block<T> block(n);
    exchange_packets<reduce_shares<T, R, true, rows_data>>(
        n.all, block.data(), block_part{0, n.all.share}, [&] { block.load_inputs(); });
    __syncthreads(); /* all sums of the rows are there */
    block.run([&](uint64_t row, uint64_t i) { return block.load(n.all.out, row, i); });
}

/* -------------------------------------------------------------------------------------- lamport */

template <typename T, int R> SYMM_DEV void all_reduce_rms_norm_lamport(const symm_norm_args &n)
{
    symm_dev_pdl_wait();
    symm_dev_pdl_release();
    norm_block<T> block(n);
    exchange_packs<T, R, true, false>(n.all, block.data(), block_part{0, n.all.share});
    __syncthreads(); /* all sums of the rows are there */
    block.load_inputs();
    block.run([&](uint64_t row, uint64_t i) { return block.load(n.all.out, row, i); });
}

/* ------------------------------------------------------------------------------- one rank alone */

/* The elements of one rank are the sums. */
template <typename T> SYMM_DEV void rms_norm(const symm_norm_args &n)
{
    norm_block<T> block(n);
    block.load_inputs();
    block.run([&](uint64_t row, uint64_t i) { return block.load(n.all.in, row, i); });
}

#endif
