/*
 * two_shot: every rank writes each share into the staging area of the rank that reduces it, which
 * writes the results into `out` of all ranks.
 */
#ifndef SYMM_ALL_REDUCE_TWO_SHOT_CUH
#define SYMM_ALL_REDUCE_TWO_SHOT_CUH

#include "staging.cuh"

/*
 * A thread of two_shot holds sixteen packs of all ranks at a time: few threads with many loads each
 * are faster than many with few. For more than four ranks there are no such loops, because the
 * addresses of each rank would fill the registers.
 */
template <typename T, int R> using two_shot_block = staged<T, R, R == 2 ? 8 : R == 4 ? 4 : 0>;

/* Stores the sums of this rank's share into `out` of all ranks: whole, aligned packs. */
template <typename T, int R>
SYMM_DEV void reduce_aligned_to_all(const two_shot_block<T, R> &block, uint64_t c)
{
    const symm_view &v = block.v;
    symm_bits16 *const out = block.aligned_at(c, static_cast<symm_bits16 *>(block.a.out), v.rank);

    block.sums_aligned(c, [&](uint32_t i, const symm_bits16 &y) {
#pragma unroll
        for (int k = 1; k < R; k++)
            symm_dev_store_bits(symm_dev_peer(v, out + i, v.rank ^ k), y);
        symm_dev_store_bits(out + i, y);
    });
}

/* Sends the sums of this rank's share to all ranks: to `out` (direct), or to the results area. */
template <typename T, int R>
SYMM_DEV void reduce_to_all(const two_shot_block<T, R> &block, uint64_t c, bool direct)
{
    const symm_collective_args &a = block.a;
    const symm_view &v = a.view;
    const share<T> out = share_of(a, static_cast<T *>(a.out), v.rank);
    symm_bits16 *const results = block.slot(block.results, c, v.rank);

    if constexpr (two_shot_block<T, R>::HAS_ALIGNED)
        if (direct && a.aligned)
            return reduce_aligned_to_all<T, R>(block, c);
    block.each_pack(c, [&](uint32_t i, uint64_t p) {
        if (p * PACK<T> >= out.count)
            return;
        const symm_bits16 y = block.sum(c, i, p);
        for_others<R>(v, [&](int r) {
            if (direct)
                store_pack(symm_dev_peer(v, out.first, r), p, out.count, y);
            else
                symm_dev_store_bits(symm_dev_peer(v, results + i, r), y);
        });
        store_pack(out.first, p, out.count, y);
    });
}

/*
 * Results that cannot be written to `out` are copied out after LEAD + 1 more chunks. Their slots
 * are free: a rank that stages results of chunk c has heard that every rank has pushed c, and so
 * has copied out those of c - DEPTH. Other ranks may still copy out the last results while this
 * one is in the next call. So results have their own area.
 */
template <typename T, int R> SYMM_DEV void reduce_by_writing(const symm_collective_args &a)
{
    constexpr uint64_t LAG = SYMM_STAGING_LEAD + 1;
    const two_shot_block<T, R> block(a);
    const uint64_t n = block.nchunks();
    const uint32_t entry = call_and_place(a);
    bool direct = false;

    if (n == 0)
        return;
    const bool done = exchange(
        block,
        [&](uint64_t c) {
            block.scatter(c);
            if (c == 0)
                symm_dev_arrive_both(a.view, a.pad, enter_channel(a), entry, a.call);
            else
                block.arrive();
        },
        [&](uint64_t c) {
            if (c)
                return block.all_arrived();
            const bool well =
                symm_dev_wait_all_both(a.view, a.pad, enter_channel(a), entry, a.call, &direct);
            direct &= a.place != 0;
            return well;
        },
        [&](uint64_t c) {
            reduce_to_all<T, R>(block, c, direct);
            if (!direct && c >= LAG)
                block.copy_out(block.results, c - LAG);
        });
    for (uint64_t c = n > LAG ? n - LAG : 0; done && !direct && c < n; c++)
        block.copy_out(block.results, c);
}

template <typename T, int R> SYMM_DEV void all_reduce_two_shot(const symm_collective_args &a)
{
    symm_dev_pdl_wait();
    symm_dev_pdl_release();
    reduce_by_writing<T, R>(a);
}

#endif
