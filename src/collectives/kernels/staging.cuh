/*
 * Exchange through the staging areas: ranks write into each other's staging area, so that nothing
 * is read over the links, and chunks need no barriers between them.
 */
#ifndef SYMM_STAGING_CUH
#define SYMM_STAGING_CUH

#include "parts.cuh"

/* Each rank sends a share, and receives that of each other rank. */
struct from_each {
    SYMM_DEV bool sends(const symm_collective_args &)
    {
        return true;
    }

    /* The number of rank r's share. */
    SYMM_DEV int share_number(int r)
    {
        return r;
    }

    /* Calls f(rank) for every other rank that sends. */
    template <int R, typename F>
    SYMM_DEV void for_senders(const symm_collective_args &a, const F &f)
    {
        for_others<R>(a.view, f);
    }
};

/*
 * A block's part of an exchange, in chunks of as many packs of every share. In each area the block
 * has DEPTH slots, each for one chunk of every rank; of two ranks, for one of the other rank.
 *
 * AT_ONCE: packs that a thread loads at a time if all packs are whole and aligned. 0: it has no
 * such loops.
 */
template <typename T, int R, int AT_ONCE = 0> struct staged {
    static constexpr uint64_t LEAD = SYMM_STAGING_LEAD, DEPTH = SYMM_STAGING_DEPTH;
    static constexpr bool HAS_ALIGNED = AT_ONCE > 0, PAIR = R == 2;

    const symm_collective_args &a;
    const symm_view &v;
    symm_bits16 *chunks, *results; /* this block's of the two areas */
    block_part part;

    SYMM_DEV_IN_CLASS staged(const symm_collective_args &args) : a(args), v(args.view)
    {
        const uint64_t mine = (uint64_t)blockIdx.x * DEPTH * (PAIR ? 1 : v.nranks) * a.capacity;
        chunks = reinterpret_cast<symm_bits16 *>(a.staging) + mine;
        results = reinterpret_cast<symm_bits16 *>(a.results) + mine;
        part = part_of(a);
    }

    SYMM_DEV_IN_CLASS uint64_t nchunks() const
    {
        uint64_t n = 0;
        for (uint64_t at = part.first; at < part.last; at += a.capacity)
            n++;
        return n;
    }

    /* The slot of rank `from` in this rank's area; at the same place in that of each other rank. */
    SYMM_DEV_IN_CLASS symm_bits16 *slot(symm_bits16 *area, uint64_t c, int from) const
    {
        return area + (PAIR ? c % DEPTH : c % DEPTH * v.nranks + from) * a.capacity;
    }

    /* Calls f(place in the chunk, place in the share) for this thread's packs of the chunk. */
    template <typename F> SYMM_DEV_IN_CLASS void each_pack(uint64_t c, const F &f) const
    {
        const uint64_t begin = part.first + c * a.capacity;
        const uint32_t n = (uint32_t)min((uint64_t)a.capacity, part.last - begin);
        for (uint32_t i = threadIdx.x; i < n; i += blockDim.x)
            f(i, begin + i);
    }

    /* The beginning of a share's chunk in a buffer of all shares, which are whole packs. */
    template <typename P> SYMM_DEV_IN_CLASS P *aligned_at(uint64_t c, P *all, int rank) const
    {
        return all + rank * a.share + part.first + c * a.capacity;
    }

    /*
     * Calls f(i, n) for each batch of this thread's packs of the chunk: those from place i on, a
     * block's threads apart and less than n, AT_ONCE of them at most.
     */
    template <typename F> SYMM_DEV_IN_CLASS void each_batch(uint64_t c, const F &f) const
    {
        const uint64_t left = part.last - part.first - c * a.capacity;
        const uint32_t n = (uint32_t)min((uint64_t)a.capacity, left);
        for (uint32_t i = threadIdx.x; i < n; i += AT_ONCE * blockDim.x)
            f(i, n);
    }

    /* Calls f(place, number in the batch) for these packs. */
    template <typename F> SYMM_DEV_IN_CLASS static void each_of(uint32_t i, uint32_t n, const F &f)
    {
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++)
            if (i + u * blockDim.x < n)
                f(i + u * blockDim.x, u);
    }

    /* scatter() of whole, aligned packs. */
    SYMM_DEV_IN_CLASS void scatter_aligned(uint64_t c) const
    {
        const symm_bits16 *const in = static_cast<const symm_bits16 *>(a.in);
        symm_bits16 *const to = slot(chunks, c, v.rank);

        each_batch(c, [&](uint32_t first, uint32_t n) {
            symm_bits16 x[AT_ONCE][R];
            each_of(first, n, [&](uint32_t i, int u) {
#pragma unroll
                for (int k = 1; k < R; k++)
                    x[u][k] = symm_dev_load_bits(aligned_at(c, in, v.rank ^ k) + i);
            });
            each_of(first, n, [&](uint32_t i, int u) {
#pragma unroll
                for (int k = 1; k < R; k++)
                    symm_dev_store_bits(symm_dev_peer(v, to + i, v.rank ^ k), x[u][k]);
            });
        });
    }

    /*
     * Calls use(place in the chunk, sum) for this thread's packs of this rank's share. All ranks
     * have scattered the chunk, and packs are whole and aligned.
     */
    template <typename Use> SYMM_DEV_IN_CLASS void sums_aligned(uint64_t c, const Use &use) const
    {
        const symm_bits16 *const own =
            aligned_at(c, static_cast<const symm_bits16 *>(a.in), v.rank);

        each_batch(c, [&](uint32_t first, uint32_t n) {
            symm_bits16 x[AT_ONCE][R];
            each_of(first, n, [&](uint32_t i, int u) {
                x[u][0] = symm_dev_load_bits(own + i);
#pragma unroll
                for (int k = 1; k < R; k++)
                    x[u][k] = symm_dev_load_bits(slot(chunks, c, v.rank ^ k) + i);
            });
            each_of(first, n,
                    [&](uint32_t i, int u) { use(i, reduce_all<T>(x[u], v.rank, a.op)); });
        });
    }

    /* Sends this rank's contribution to every share to the rank that reduces it. */
    SYMM_DEV_IN_CLASS void scatter(uint64_t c) const
    {
        if constexpr (HAS_ALIGNED)
            if (a.aligned)
                return scatter_aligned(c);
        const T *const in = static_cast<const T *>(a.in);
        symm_bits16 *const to = slot(chunks, c, v.rank);
        const auto load = [&](int r, uint64_t p) {
            const share<const T> s = share_of(a, in, r);
            return load_pack(s.first, p, s.count);
        };
        each_pack(c, [&](uint32_t i, uint64_t p) {
            if constexpr (R == 0) {
                for_others<R>(v, [&](int r) {
                    symm_dev_store_bits(symm_dev_peer(v, to + i, r), load(r, p));
                });
            } else {
                symm_bits16 x[R];
#pragma unroll
                for (int k = 1; k < R; k++)
                    x[k] = load(v.rank ^ k, p);
#pragma unroll
                for (int k = 1; k < R; k++)
                    symm_dev_store_bits(symm_dev_peer(v, to + i, v.rank ^ k), x[k]);
            }
        });
    }

    SYMM_DEV_IN_CLASS void arrive() const
    {
        symm_dev_arrive(v, a.pad, leave_channel(a), a.call);
    }

    /* Waits until all ranks have arrived with the same call. False: the group ends. */
    SYMM_DEV_IN_CLASS bool all_arrived() const
    {
        return symm_dev_wait_all_require_equal(v, a.pad, leave_channel(a), a.call);
    }

    /* The sum of pack p of this rank's share. All ranks have scattered the chunk. */
    SYMM_DEV_IN_CLASS symm_bits16 sum(uint64_t c, uint32_t i, uint64_t p) const
    {
        const share<const T> s = share_of(a, static_cast<const T *>(a.in), v.rank);
        const symm_bits16 own = load_pack(s.first, p, s.count);
        const auto load = [&](int r) { return symm_dev_load_bits(slot(chunks, c, r) + i); };
        if constexpr (R == 0) {
            return reduce_ranks<T>(v.nranks, a.op, v.rank, own, load);
        } else {
            symm_bits16 x[R];
            x[0] = own;
#pragma unroll
            for (int k = 1; k < R; k++)
                x[k] = load(v.rank ^ k);
            return reduce_all<T>(x, v.rank, a.op);
        }
    }

    /* Copies the shares of the other ranks that send from an area to `out`. */
    template <typename From = from_each>
    SYMM_DEV_IN_CLASS void copy_out(symm_bits16 *area, uint64_t c) const
    {
        each_pack(c, [&](uint32_t i, uint64_t p) {
            From::template for_senders<R>(a, [&](int r) {
                const share<T> s = share_of(a, static_cast<T *>(a.out), From::share_number(r));
                store_pack(s.first, p, s.count, symm_dev_load_bits(slot(area, c, r) + i));
            });
        });
    }
};

/*
 * For each chunk c of the block, calls push(c) and, when every rank has pushed it, take(c). Ends
 * with a barrier. push(c) ends with an arrival on the leave channel. all_arrived(c) waits for
 * those of all ranks. If it returns false (the group is aborted, or the calls of the ranks
 * differ), so does this.
 *
 * Step c pushes chunk c, waits for the arrivals of chunk c - LEAD, and takes that. A slot is never
 * written while it is in use: a rank that pushes chunk c has heard that every rank has pushed
 * c - 1 - LEAD, and so has taken c - 2 - 2 LEAD, and there are DEPTH slots. The first chunks are
 * pushed before this rank hears of the others. These may still be in the call before, of any shape,
 * but have taken all of its chunks, because this rank has passed the barrier after them.
 */
template <typename Block, typename Push, typename Wait, typename Take>
SYMM_DEV bool exchange(const Block &block, const Push &push, const Wait &all_arrived,
                       const Take &take)
{
    constexpr uint64_t LEAD = Block::LEAD;
    const symm_collective_args &a = block.a;
    const uint64_t n = block.nchunks();

    for (uint64_t c = 0; c < n + LEAD; c++) {
        if (c < n)
            push(c);
        if (c < LEAD)
            continue;
        if (!all_arrived(c - LEAD))
            return false;
        take(c - LEAD);
    }
    /* Ranks that have passed this barrier may be in the next call, with another word. */
    symm_dev_arrive(a.view, a.pad, leave_channel(a), a.call);
    symm_dev_wait_all(a.view, a.pad, leave_channel(a));
    return true;
}

/* The same with arrivals on the leave channel alone. push(c) does not arrive. */
template <typename Block, typename Push, typename Take>
SYMM_DEV bool exchange(const Block &block, const Push &push, const Take &take)
{
    return exchange(
        block,
        [&](uint64_t c) {
            push(c);
            block.arrive();
        },
        [&](uint64_t) { return block.all_arrived(); }, take);
}

#endif
