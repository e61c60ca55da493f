/*
 * All-reduce of rows, residual and RMS norm. A block has whole rows, which it reduces in a
 * collective of its own. So it has all of a row's sums, on every rank, and no block waits for
 * another one of its rank. The sums travel, never their norms: each rank adds the residual and
 * norms all rows, which is faster than to send the new residual and the norm over the links.
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
    NORM_PACKS = 2, /* of a row, that a thread keeps in registers: with 512 threads 8192 elements */
    NORM_HELD = 8192 /* elements of a row that is kept in shared memory */
};

/* The Data of a block's rows. held: shared memory for their sums, or nullptr. */
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
 * The rows of this block. Pack i of a row belongs to thread i % threads, whatever the algorithm, so
 * that all algorithms add a row's squares in the same order.
 */
template <typename T> struct norm_block {
    const symm_norm_args &n;
    const uint32_t threads;
    const uint64_t npacks; /* of a row */
    uint64_t first, last;  /* rows */
    symm_bits16 residual[NORM_PACKS] = {}, weight[NORM_PACKS] = {};

    SYMM_DEV_IN_CLASS norm_block(const symm_norm_args &args, uint32_t nthreads)
        : n(args), threads(nthreads), npacks(ceil_div(args.hidden, PACK<T>))
    {
        first = min(blockIdx.x * n.block_rows, n.rows);
        last = min(first + n.block_rows, n.rows);
    }

    /*
     * Loads the weight and the first row's residual. Before an exchange they are loaded while other
     * ranks' elements are on their way, if there are registers to keep them in.
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

    /* The elements of this block's rows. */
    SYMM_DEV_IN_CLASS rows_data data(symm_bits16 *held = nullptr) const
    {
        const uint64_t at = first * n.hidden;
        return {static_cast<const T *>(n.all.in) + at,
                static_cast<T *>(n.all.out) + at,
                (last - first) * n.hidden,
                n.all.stride,
                n.all.aligned && last - first == n.block_rows,
                held};
    }

    /* Calls f(pack, number) for this thread's packs of a row. The numbers end with NORM_PACKS. */
    template <typename F> SYMM_DEV_IN_CLASS void each_pack(const F &f) const
    {
        if (threadIdx.x >= threads)
            return;
#pragma unroll
        for (int k = 0; k < NORM_PACKS; k++)
            if (threadIdx.x + k * threads < npacks)
                f(threadIdx.x + k * threads, k);
        for (uint64_t i = threadIdx.x + NORM_PACKS * threads; i < npacks; i += threads)
            f(i, (int)NORM_PACKS);
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
        const float mean = symm_dev_block_sum(squares) / (float)n.hidden;
        const float scale = rsqrtf(mean + n.eps);
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

/* reduce_everything with its sums in shared memory. */
template <typename T, int R> struct reduce_rows : reduce_everything<T, R> {
    static constexpr int AT_ONCE = PACKETS_AT_ONCE<R>; /* few threads have all of a row */
    typedef symm_bits12 held;

    uint32_t *const sums;

    SYMM_DEV_IN_CLASS reduce_rows(const symm_collective_args &args, const rows_data &d, uint64_t at,
                                  uint32_t n)
        : reduce_everything<T, R>(args, d, at, n),
          sums(d.held ? d.held->w + at * PACKET_WORDS<T> : nullptr)
    {
    }

    template <int U>
    SYMM_DEV_IN_CLASS void take(packet_slots &s, const packet_batch &b, const held (&own)[U]) const
    {
        constexpr uint32_t WORDS = PACKET_WORDS<T>;
        symm_bits12 y[U];
        receive_and_reduce<T, R>(this->a.view, s, 0, this->a.capacity, b, own, this->a.op, y);
#pragma unroll
        for (int u = 0; u < U; u++) {
            if (!sums)
                store_payload(this->out, b.at(u), y[u]);
#pragma unroll
            for (uint32_t w = 0; w < WORDS; w++)
                if (sums && b.has(u))
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

template <typename T, int R> SYMM_DEV void all_reduce_rms_norm_low_latency(const symm_norm_args &n)
{
    __shared__ symm_bits16 held[NORM_HELD / PACK<T> + 1]; /* and the end of the last packet */
    const bool holds = n.block_rows == 1 && n.hidden <= NORM_HELD;

    symm_dev_pdl_wait();
    symm_dev_pdl_release();
    norm_block<T> block(n, blockDim.x);
    block.load_inputs();
    exchange_packets<reduce_rows<T, R>>(n.all, block.data(holds ? held : nullptr),
                                        block_part{0, n.all.share});
    __syncthreads(); /* all sums of the rows are there */
    block.run([&](uint64_t row, uint64_t i) {
        return holds ? load_held<T>(held, i, n.hidden) : block.load(n.all.out, row, i);
    });
}

template <typename T, int R>
SYMM_DEV void all_reduce_rms_norm_low_latency_two_shot(const symm_norm_args &n)
{
    symm_dev_pdl_wait();
    symm_dev_pdl_release();
    norm_block<T> block(n, blockDim.x);
    block.load_inputs();
    exchange_packets<reduce_shares<T, R, true, rows_data>>(n.all, block.data(),
                                                           block_part{0, n.all.share});
    __syncthreads(); /* all sums of the rows are there */
    block.run([&](uint64_t row, uint64_t i) { return block.load(n.all.out, row, i); });
}

/* -------------------------------------------------------------------------------------- lamport */

template <typename T, int R> SYMM_DEV void all_reduce_rms_norm_lamport(const symm_norm_args &n)
{
    symm_dev_pdl_wait();
    symm_dev_pdl_release();
    norm_block<T> block(n, workers());
    exchange_packs<T, R, true, false>(n.all, block.data(), block_part{0, n.all.share});
    __syncthreads(); /* all sums of the rows are there */
    block.load_inputs();
    block.run([&](uint64_t row, uint64_t i) { return block.load(n.all.out, row, i); });
}

/* ------------------------------------------------------------------------------- one rank alone */

/* The elements of one rank are the sums. */
template <typename T> SYMM_DEV void rms_norm(const symm_norm_args &n)
{
    norm_block<T> block(n, blockDim.x);
    block.load_inputs();
    block.run([&](uint64_t row, uint64_t i) { return block.load(n.all.in, row, i); });
}

#endif
