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
 * The sums of squares of a row, each of the packs that a warp keeps at a time. They are added in an
 * order that does not depend on the threads that have them.
 */
struct row_sums {
    float4 four[SYMM_ROW_SUMS / 4];
    uint64_t arrived; /* sums from the blocks of the cluster */
};

SYMM_DEV float *sum_of(row_sums &sums, uint32_t i)
{
    return reinterpret_cast<float *>(sums.four) + i;
}

/* The sum of the first n of them. */
SYMM_DEV float add_sums(const row_sums &sums, uint32_t n)
{
    float4 all = {};

#pragma unroll
    for (uint32_t i = 0; i < SYMM_ROW_SUMS / 4; i++) {
        if (4 * i >= n)
            break;
        const float4 four = sums.four[i];
        all.x += four.x;
        all.y += 4 * i + 1 < n ? four.y : 0;
        all.z += 4 * i + 2 < n ? four.z : 0;
        all.w += 4 * i + 3 < n ? four.w : 0;
    }
    return (all.x + all.y) + (all.z + all.w);
}

/*
 * The sum over row number `row` of a block. A thread keeps K packs. Rows use two places in turns: a
 * thread that stores sums of row i has met all threads in row i - 1, when they had added those of
 * row i - 2.
 */
template <int K>
SYMM_DEV float block_sum(const symm_row_threads &threads, uint64_t row, const float (&x)[K])
{
    __shared__ row_sums both[2];
    row_sums &sums = both[row % 2];
    const uint32_t warp = threadIdx.x / 32;

#pragma unroll
    for (int k = 0; k < K; k++) {
        const float of_warp = symm_detail::warp_sum(x[k]);
        if (threadIdx.x % 32 == 0 && warp < threads.warps)
            *sum_of(sums, warp * K + k) = of_warp;
    }
    __syncthreads();
    return add_sums(sums, threads.warps * K);
}

/* Begins to wait for the sums of all blocks of the cluster. */
SYMM_DEV void expect_sums(row_sums &sums, const symm_row_threads &row)
{
    if (threadIdx.x == 0)
        symm_detail::cluster_expect(&sums.arrived,
                                    row.blocks * row.warps * row.packs * (uint32_t)sizeof(float));
    symm_detail::cluster_arrive();
}

/*
 * The sum over a row that the blocks of a cluster share. part: this block's number in the cluster.
 * meanwhile() runs behind the stores to the other blocks.
 */
template <int K, typename F>
SYMM_DEV float cluster_sum(row_sums &sums, const symm_row_threads &row, uint32_t part,
                           const float (&x)[K], const F &meanwhile)
{
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float of_warp[K];

#pragma unroll
    for (int k = 0; k < K; k++) {
        of_warp[k] = x[k];
        for (int d = 16; d > 0; d /= 2)
            of_warp[k] += __shfl_xor_sync(~0u, of_warp[k], d);
    }
    symm_detail::cluster_wait(); /* all blocks expect the sums */
#pragma unroll
    for (int k = 0; k < K; k++)
        if (warp < row.warps && lane < row.blocks)
            symm_detail::cluster_store(sum_of(sums, (part * row.warps + warp) * K + k), of_warp[k],
                                       &sums.arrived, lane);
    meanwhile();
    symm_detail::mbarrier_acquire(&sums.arrived, 0);
    return add_sums(sums, row.blocks * row.warps * K);
}

/*
 * The rows of this block, or its part of a row. A row's packs belong to the same threads of the row
 * with any algorithm and any number of blocks, so that its squares are added in the same order.
 */
template <typename T, bool PART = false> struct norm_block {
    const symm_norm_args &n;
    uint64_t first, last; /* rows */
    uint32_t part;        /* this block's number in the cluster that shares a row */
    uint32_t begin, end;  /* this block's packs of a row */
    symm_bits16 residual[NORM_PACKS] = {}, weight[NORM_PACKS] = {};

    SYMM_DEV_IN_CLASS norm_block(const symm_norm_args &args) : n(args)
    {
        const symm_row_threads &row = n.threads;
        const uint32_t blocks = PART ? row.blocks : 1, of_block = row.warps * row.lanes * row.packs;

        part = PART ? symm_detail::cluster_rank() : 0;
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
            each_kept<NORM_PACKS>([&](uint64_t i, uint32_t k) { weight[k] = load_weight(i); });
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

    /* Calls f(pack, number) for the packs of a row that this thread keeps, at most K. */
    template <int K, typename F> SYMM_DEV_IN_CLASS void each_kept(const F &f) const
    {
        const symm_row_threads &row = n.threads;
        const uint32_t at = first_pack();

        if (threadIdx.x / 32 >= row.warps)
            return;
#pragma unroll
        for (uint32_t k = 0; k < K; k++)
            if (k < row.packs && at + k * row.lanes < end)
                f(at + k * row.lanes, k);
    }

    /* Calls f(pack) for its other packs. A part of a row has none. */
    template <typename F> SYMM_DEV_IN_CLASS void each_more(const F &f) const
    {
        const symm_row_threads &row = n.threads;
        const uint32_t at = first_pack();

        if (threadIdx.x / 32 >= row.warps)
            return;
        for (uint32_t k = NORM_PACKS; !PART && k < row.packs && at + k * row.lanes < end; k++)
            f(at + k * row.lanes);
    }

    /* If there are fewer than 32 lanes, there is one warp. */
    SYMM_DEV_IN_CLASS uint32_t first_pack() const
    {
        const symm_row_threads &row = n.threads;

        return begin + threadIdx.x / 32 * row.lanes * row.packs + threadIdx.x % 32;
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
            each_kept<NORM_PACKS>(
                [&](uint64_t i, uint32_t k) { residual[k] = load(n.residual, row, i); });
    }

    /*
     * Adds the residual to a row, stores it and norms it. sum(i): pack i of the row, with zeros
     * beyond its end. total(x, meanwhile): the sum over the row; it calls meanwhile(). The norm is
     * that of the rounded residual.
     */
    template <typename Sum, typename Total>
    SYMM_DEV_IN_CLASS void norm(uint64_t row, const Sum &sum, const Total &total) const
    {
        if (n.threads.packs == 1)
            norm_packs<1>(row, sum, total);
        else
            norm_packs<NORM_PACKS>(row, sum, total);
    }

    /*
     * The same if a thread keeps K packs. Missing packs are zeros, so that all K are computed side
     * by side, without branches.
     */
    template <int K, typename Sum, typename Total>
    SYMM_DEV_IN_CLASS void norm_packs(uint64_t row, const Sum &sum, const Total &total) const
    {
        const bool weighted = n.weight != nullptr;
        symm_bits16 kept[K] = {};
        float squares[K];

        each_kept<K>([&](uint64_t i, uint32_t k) { kept[k] = sum(i); });
#pragma unroll
        for (int k = 0; k < K; k++) {
            if (n.residual)
                kept[k] = add_residual<T>(kept[k], residual[k]);
            squares[k] = sum_of_squares<T>(kept[k]);
        }
        each_more([&](uint64_t i) {
            symm_bits16 x = sum(i);
            if (n.residual)
                x = add_residual<T>(x, load(n.residual, row, i));
            store(n.residual_out, row, i, x);
            squares[K - 1] += sum_of_squares<T>(x);
        });
        const float all = total(squares, [&] {
            each_kept<K>([&](uint64_t i, uint32_t k) { store(n.residual_out, row, i, kept[k]); });
        });
        const float scale = rsqrtf(all / (float)n.hidden + n.eps);
#pragma unroll
        for (int k = 0; k < K; k++)
            kept[k] = scaled<T>(kept[k], scale, weighted, weight[k]);
        each_kept<K>([&](uint64_t i, uint32_t k) { store(n.all.out, row, i, kept[k]); });
        each_more([&](uint64_t i) {
            store(n.all.out, row, i,
                  scaled<T>(load(n.residual_out, row, i), scale, weighted,
                            weighted ? load_weight(i) : symm_bits16{}));
        });
    }

    /* The same for all rows, after load_inputs(); sum(row, i). */
    template <typename Sum> SYMM_DEV_IN_CLASS void run(const Sum &sum)
    {
        for (uint64_t row = first; row < last; row++) {
            if (row != first)
                load_residual(row);
            norm(
                row, [&](uint64_t i) { return sum(row, i); },
                [&](const auto &squares, const auto &meanwhile) {
                    meanwhile();
                    return block_sum(n.threads, row, squares);
                });
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
    __shared__ row_sums sums;
    norm_block<T, true> block(n);
    const rows_data data = block.data(held);

    expect_sums(sums, n.threads);
    exchange_packets<reduce_rows<T, R, true>>(n.all, data, block_part{0, n.all.share},
                                              [&] { block.load_inputs(); });
    __syncthreads(); /* all sums of the part are there */
    block.norm(
        block.first, [&](uint64_t i) { return load_held<T>(held, i - block.begin, block.width()); },
        [&](const auto &squares, const auto &meanwhile) {
            return cluster_sum(sums, n.threads, block.part, squares, meanwhile);
        });
}

/* A block has whole rows. */
template <typename T, int R> SYMM_DEV void norm_rows(const symm_norm_args &n)
{
    __shared__ symm_bits16 held[NORM_HELD / PACK<T> + 1]; /* as above */
    const bool holds = n.block_rows == 1 && n.hidden <= NORM_HELD;
    norm_block<T> block(n);
    const rows_data data = block.data(holds ? held : nullptr);

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
    constexpr bool EARLY = R != 8; /* there are registers to keep the inputs in */
    norm_block<T> block(n);
    const auto meanwhile = [&] {
        if (EARLY)
            block.load_inputs();
    };
    exchange_packets<reduce_shares<T, R, true, rows_data>>(n.all, block.data(),
                                                           block_part{0, n.all.share}, meanwhile);
    __syncthreads(); /* all sums of the rows are there */
    if (!EARLY)
        block.load_inputs();
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
