/*
 * Exchange through the staging areas: every rank writes into the staging area of the others, so
 * nothing is read over the links, and chunks follow each other without a barrier between them.
 */
#ifndef SYMM_STAGING_CUH
#define SYMM_STAGING_CUH

#include "parts.cuh"

/*
 * A block's part of an exchange. It goes in chunks, each with as many packs of every share. In each
 * area the block has DEPTH slots, with room for one chunk of every rank.
 *
 * Of packs that are whole and aligned a thread handles AT_ONCE together, their loads in flight at a
 * time; 0: one, like all others.
 */
template <typename T, int R, int AT_ONCE = 0> struct staged {
    static constexpr uint64_t LEAD = SYMM_STAGING_LEAD, DEPTH = SYMM_STAGING_DEPTH;
    /* Whether there are simpler loops for packs that are whole and aligned. */
    static constexpr bool WHOLE = AT_ONCE > 0;

    const symm_collective_args &a;
    const symm_view &v;
    symm_bits16 *chunks, *results; /* this block's of the two areas */
    block_part part;

    SYMM_DEV_IN_CLASS staged(const symm_collective_args &args) : a(args), v(args.view)
    {
        const uint64_t mine = (uint64_t)blockIdx.x * DEPTH * v.nranks * a.capacity;
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

    /* Where the chunk's packs of rank `from` lie, in whoever's staging area they are. */
    SYMM_DEV_IN_CLASS symm_bits16 *slot(symm_bits16 *area, uint64_t c, int from) const
    {
        return area + (c % DEPTH * v.nranks + from) * a.capacity;
    }

    /* Calls f(place in the chunk, place in the share) for this thread's packs of the chunk. */
    template <typename F> SYMM_DEV_IN_CLASS void each_pack(uint64_t c, const F &f) const
    {
        const uint64_t begin = part.first + c * a.capacity;
        const uint32_t n = (uint32_t)min((uint64_t)a.capacity, part.last - begin);
        for (uint32_t i = threadIdx.x; i < n; i += blockDim.x)
            f(i, begin + i);
    }

    /* Where the chunk's packs of a share begin in a buffer of all shares, which are whole packs. */
    template <typename P> SYMM_DEV_IN_CLASS P *whole_at(uint64_t c, P *all, int rank) const
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

    /* scatter() of whole packs that are aligned. */
    SYMM_DEV_IN_CLASS void scatter_whole(uint64_t c) const
    {
        const symm_bits16 *const in = static_cast<const symm_bits16 *>(a.in);
        symm_bits16 *const to = slot(chunks, c, v.rank);

        each_batch(c, [&](uint32_t first, uint32_t n) {
            symm_bits16 x[AT_ONCE][R];
            each_of(first, n, [&](uint32_t i, int u) {
#pragma unroll
                for (int k = 1; k < R; k++)
                    x[u][k] = symm_dev_load_bits(whole_at(c, in, v.rank ^ k) + i);
            });
            each_of(first, n, [&](uint32_t i, int u) {
#pragma unroll
                for (int k = 1; k < R; k++)
                    symm_dev_store_bits(symm_dev_peer(v, to + i, v.rank ^ k), x[u][k]);
            });
        });
    }

    /*
     * Calls use(place in the chunk, sum) for this thread's packs of this rank's share, whole ones
     * that are aligned, the others' contributions having been scattered.
     */
    template <typename Use> SYMM_DEV_IN_CLASS void sums_whole(uint64_t c, const Use &use) const
    {
        const symm_bits16 *const own = whole_at(c, static_cast<const symm_bits16 *>(a.in), v.rank);

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

    /* My contribution to every share, to the rank whose it is. */
    SYMM_DEV_IN_CLASS void scatter(uint64_t c) const
    {
        if constexpr (WHOLE)
            if (a.aligned)
                return scatter_whole(c);
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

    /* Waits until all ranks have arrived so; false: the group is aborted, or is to be. */
    SYMM_DEV_IN_CLASS bool heard() const
    {
        return symm_dev_wait_all_require_equal(v, a.pad, leave_channel(a), a.call);
    }

    /*
     * What pack p of this rank's share comes to, the others' contributions having been scattered.
     */
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

    /* The others' shares, from an area to `out`. */
    SYMM_DEV_IN_CLASS void copy_out(symm_bits16 *area, uint64_t c) const
    {
        each_pack(c, [&](uint32_t i, uint64_t p) {
            for_others<R>(v, [&](int r) {
                const share<T> s = share_of(a, static_cast<T *>(a.out), r);
                store_pack(s.first, p, s.count, symm_dev_load_bits(slot(area, c, r) + i));
            });
        });
    }
};

/*
 * Calls push(c) and, when every rank has pushed it, take(c), for each chunk of the block, and meets
 * the other ranks. push(c) ends with an arrival on the leave channel, for which heard(c) waits;
 * false: the group is aborted or the ranks called different things.
 *
 * Step c pushes chunk c and then takes chunk c - LEAD, whose last arrival is what it waits for. So
 * whoever pushes chunk c has heard that every rank has pushed c - 1 - LEAD, hence taken
 * c - 2 - 2 LEAD: with DEPTH slots none is written while it is in use. The first chunks are pushed
 * before anything is known of the other ranks. They may be in the call before this one, of whatever
 * shape; but they have taken all of its chunks, since this rank has met them after that.
 *
 * Returns false if heard() has.
 */
template <typename Block, typename Push, typename Heard, typename Take>
SYMM_DEV bool exchange(const Block &block, const Push &push, const Heard &heard, const Take &take)
{
    constexpr uint64_t LEAD = Block::LEAD;
    const symm_collective_args &a = block.a;
    const uint64_t n = block.nchunks();

    for (uint64_t c = 0; c < n + LEAD; c++) {
        if (c < n)
            push(c);
        if (c < LEAD)
            continue;
        if (!heard(c - LEAD))
            return false;
        take(c - LEAD);
    }
    /* Who has met everyone here may be in the next call already, which has another word. */
    symm_dev_arrive(a.view, a.pad, leave_channel(a), a.call);
    symm_dev_wait_all(a.view, a.pad, leave_channel(a));
    return true;
}

/* The same where heard(c) waits on the leave channel alone, as push(c) arrives. */
template <typename Block, typename Push, typename Take>
SYMM_DEV bool exchange(const Block &block, const Push &push, const Take &take)
{
    return exchange(
        block,
        [&](uint64_t c) {
            push(c);
            block.arrive();
        },
        [&](uint64_t) { return block.heard(); }, take);
}

#endif
