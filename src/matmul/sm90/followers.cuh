/*
 * Parts of sums that the product adds. Two threads of the producer's warpgroup follow the consumers
 * from one stored tile to the next. One signals the tiles that the other rank owns. The other one
 * adds the other rank's parts to the tiles that this rank owns, in D. No thread waits long for the
 * other rank: tiles whose part does not come in time are left to the kernel behind the product.
 *
 * With bands, the first one signals all tiles to this rank's kernel beside the product, and the
 * other one adds nothing.
 */
#ifndef SYMM_MATMUL_SM90_FOLLOWERS_CUH
#define SYMM_MATMUL_SM90_FOLLOWERS_CUH

#include "matmul/kernels/sum_parts.cuh"
#include "matmul/kernels/trace.cuh"
#include "shared_k.cuh"

namespace sm90
{

/* The warps of the two threads. */
enum { SIGNALLER = 1, ADDER = 2 };

/* Whether consumers and followers pass each other tiles. */
SYMM_DEV bool has_followers(const symm_product_args &a)
{
    return a.parts.beside;
}

/* One thread, before any other. */
template <typename S>
SYMM_DEV void begin_following(const symm_product_args &a, typename S::barriers &bars)
{
    bars.set = set_offset(a.parts);
    if (!has_followers(a))
        return;
    symm_dev_pdl_release(); /* the kernel behind is ready when the product ends */
    bars.runs = runs_of(a.parts);
    for (uint32_t i = 0; i < S::WARPS; i++)
        bars.npassed[i] = 0;
    for (uint32_t i = 0; i < S::FOLLOWED; i++) {
        mbarrier_init(&bars.passed[i], S::WARPS);
        mbarrier_init(&bars.followed[i], 2);
    }
    mbarrier_init(&bars.drained, S::WARPS);
    for (uint32_t i = 0; i < S::BOXES; i++)
        mbarrier_init(&bars.loaded[i], 1);
}

/*
 * The producer, before it loads tile n: the tile FOLLOWED before it has been followed. Consumers
 * pass tiles behind the producer, so they cannot be further ahead.
 */
template <typename S> SYMM_DEV void await_followers(uint32_t n, typename S::barriers &bars)
{
    const uint32_t slot = n % S::FOLLOWED, round = n / S::FOLLOWED;

    if (round > 0)
        mbarrier_wait(&bars.followed[slot], (round - 1) % 2);
}

SYMM_DEV void arrive_warp(uint64_t *bar)
{
    if (threadIdx.x % 32 == 0)
        mbarrier_arrive_here(bar);
}

/*
 * A consumer warp has stored its boxes of the next tile, that is, its first lane has. All lanes.
 * Few registers are left.
 */
template <typename S> SYMM_DEV void pass_tile(typename S::barriers &bars)
{
    if (threadIdx.x % 32 == 0) {
        uint32_t &n = bars.npassed[threadIdx.x / 32 - WARPGROUP / 32];
        mbarrier_arrive_here(&bars.passed[n++ % S::FOLLOWED]);
    }
}

/* A thread's way through the tiles that consumers pass. */
template <typename S> struct followed_tiles {
    typename S::block_schedule todo;
    work w;
    uint32_t n = 0; /* tiles before this one */

    SYMM_DEV_IN_CLASS followed_tiles(const symm_wgmma_args &args) : todo(args)
    {
    }

    SYMM_DEV_IN_CLASS uint32_t slot(void) const
    {
        return n % S::FOLLOWED;
    }

    /* Turns to the next tile; false: there is none. */
    SYMM_DEV_IN_CLASS bool next(void)
    {
        if (!todo.next(&w))
            return false;
        w.t = results_of(w);
        return true;
    }

    /* Few registers are left to keep the next tile from here on. */
    SYMM_DEV_IN_CLASS bool is_last(void) const
    {
        typename S::block_schedule ahead = todo;
        work next;

        return !ahead.next(&next);
    }

    /* Waits for the tile's results. */
    SYMM_DEV_IN_CLASS void await(typename S::barriers &bars) const
    {
        mbarrier_wait(&bars.passed[slot()], n / S::FOLLOWED % 2);
    }
};

/* ---------------------------------------------------------------------------------- the signals */

/* One thread. */
template <typename S>
SYMM_DEV void signal_tiles(const symm_wgmma_args &args, typename S::barriers &bars)
{
    const symm_product_args &a = args.product;
    followed_tiles<S> at(args);

    for (; at.next(); at.n++) {
        at.await(bars);
        if (at.w.t.rows > 0 && (!has_parts(a) || is_others(a, at.w.t)))
            signal_part(a, at.w.t);
        mbarrier_arrive_here(&bars.followed[at.slot()]);
    }
}

/* ----------------------------------------------------------------------------------- the parts */

/*
 * The thread that adds. The copy unit brings a part box by box into shared memory, and adds it to
 * this rank's part in D. Shared memory has few boxes beside the stages, but those of the last tile
 * lie in the stages, which are free then.
 */
template <typename S> struct adder {
    const symm_wgmma_args &args;
    typename S::memory &m;
    typename S::barriers &bars;
    uint32_t nloads = 0; /* so far; each ends a phase of a barrier */
    bool patient = true; /* no part was late */

    SYMM_DEV_IN_CLASS adder(const symm_wgmma_args &args_, typename S::memory &memory,
                            typename S::barriers &barriers)
        : args(args_), m(memory), bars(barriers)
    {
    }

    SYMM_DEV_IN_CLASS void run(void)
    {
        followed_tiles<S> at(args);

        for (; at.next(); at.n++) {
            const tile &t = at.w.t;
            if (t.rows == 0 || !has_parts(args.product) || !is_own(args.product, t))
                at.await(bars);
            else if (at.is_last())
                add_last(t, at);
            else
                add(t, at);
            mbarrier_arrive_here(&bars.followed[at.slot()]);
        }
        bulk_wait_all();
    }

  private:
    /* Waits a while for the tile's part. Returns whether it has come. */
    SYMM_DEV_IN_CLASS bool part_comes(const tile &t)
    {
        const symm_product_args &a = args.product;
        const int32_t channel =
            channel_of_tile(a, a.view.rank, t.product, t.batch, t.row, t.column);
        SYMM_TRACE_BEGIN(begin);
        bool come = has_part(a, channel, bars.runs);

        for (int32_t looks = 1; !come && patient && looks < PATIENCE; looks++) {
            symm_detail::pause();
            come = has_part(a, channel, bars.runs);
        }
        fence_async(); /* the part, and a tile that was awaited, are visible to the copy unit */
        trace_part(a, t, SYMM_MATMUL_EVENT_WAIT_PART, begin);
        return come;
    }

    /* Leaves a tile to the kernel behind the product, and waits for no part from now on. */
    SYMM_DEV_IN_CLASS void leave(const tile &t)
    {
        patient = false;
        leave_tile(args.product.parts, t);
    }

    /* The boxes of a tile's rows; a box past the last column has no elements. */
    SYMM_DEV_IN_CLASS static int32_t boxes_of(const tile &t)
    {
        return (t.rows + ROUND_ROWS - 1) / ROUND_ROWS * S::BOXES_ACROSS;
    }

    SYMM_DEV_IN_CLASS static int32_t box_row(const tile &t, int32_t box)
    {
        return t.row + box / S::BOXES_ACROSS * ROUND_ROWS;
    }

    SYMM_DEV_IN_CLASS static int32_t box_column(const tile &t, int32_t box)
    {
        return t.column + box % S::BOXES_ACROSS * PANEL;
    }

    /* Starts to load a box, counted by a barrier that expects it. */
    SYMM_DEV_IN_CLASS void load_box(const tile &t, int32_t box, void *to, uint64_t *bar)
    {
        const int32_t at[] = {box_column(t, box), box_row(t, box), t.batch,
                              other_rank(args.product.view), (int32_t)set_of(bars.runs)};

        tensor_load(to, &args.slots[t.product], at, bar);
    }

    SYMM_DEV_IN_CLASS void add_box(const tile &t, int32_t box, const void *from)
    {
        tensor_add(&args.d[t.product], box_column(t, box), box_row(t, box), t.batch, from);
        bulk_commit();
    }

    /* The barrier of load number `load`, and its phase. */
    SYMM_DEV_IN_CLASS uint64_t *loaded(uint32_t load)
    {
        return &bars.loaded[load % S::BOXES];
    }

    SYMM_DEV_IN_CLASS void await_load(uint32_t load)
    {
        mbarrier_wait(loaded(load), load / S::BOXES % 2);
    }

    /* A tile that is not the last one. */
    SYMM_DEV_IN_CLASS void add(const tile &t, const followed_tiles<S> &at)
    {
        at.await(bars);
        if (!part_comes(t))
            return leave(t);
        SYMM_TRACE_BEGIN(begin);
        add_boxes(t);
        trace_part(args.product, t, SYMM_MATMUL_EVENT_ADD, begin);
    }

    /*
     * While a box is added, the next ones are loaded: the last of them into the place of the box
     * before it, which has been read.
     */
    SYMM_DEV_IN_CLASS void add_boxes(const tile &t)
    {
        constexpr int32_t AHEAD = S::BOXES - 1;
        const int32_t n = boxes_of(t);

        for (int32_t i = 0; i < min(AHEAD, n); i++)
            load_beside(t, i);
        for (int32_t i = 0; i < n; i++) {
            await_load(nloads + (uint32_t)i);
            add_box(t, i, place(nloads + (uint32_t)i));
            bulk_wait_read<1>();
            if (i + AHEAD < n)
                load_beside(t, i + AHEAD);
        }
        nloads += (uint32_t)n;
    }

    SYMM_DEV_IN_CLASS void *place(uint32_t load) const
    {
        return &m.parts.added[load % S::BOXES];
    }

    SYMM_DEV_IN_CLASS void load_beside(const tile &t, int32_t box)
    {
        const uint32_t load = nloads + (uint32_t)box;

        mbarrier_expect(loaded(load), S::BOX_NBYTES);
        load_box(t, box, place(load), loaded(load));
    }

    SYMM_DEV_IN_CLASS void *stage_box(int32_t box) const
    {
        return reinterpret_cast<char *>(m.stages) + box * S::BOX_NBYTES;
    }

    /* The last tile, whose part is loaded while the tile is stored. */
    SYMM_DEV_IN_CLASS void add_last(const tile &t, const followed_tiles<S> &at)
    {
        bool come = part_comes(t);

        mbarrier_wait(&bars.drained, 0);
        come = come || part_comes(t);
        SYMM_TRACE_BEGIN(begin);
        if (come) {
            mbarrier_expect(loaded(nloads), (uint32_t)boxes_of(t) * S::BOX_NBYTES);
            for (int32_t i = 0; i < boxes_of(t); i++)
                load_box(t, i, stage_box(i), loaded(nloads));
        }
        at.await(bars);
        if (!come)
            return leave(t);
        fence_async(); /* the tile in D is visible to the copy unit */
        await_load(nloads);
        for (int32_t i = 0; i < boxes_of(t); i++)
            add_box(t, i, stage_box(i));
        trace_part(args.product, t, SYMM_MATMUL_EVENT_ADD, begin);
    }
};

/* A warp of the producer's warpgroup. */
template <typename S>
SYMM_DEV void follow(const symm_wgmma_args &args, uint32_t warp, typename S::memory &m,
                     typename S::barriers &bars)
{
    if (warp == SIGNALLER) {
        if (elect_one())
            signal_tiles<S>(args, bars);
    }
    if (warp == ADDER) {
        if (elect_one())
            adder<S>(args, m, bars).run();
    }
}

} /* namespace sm90 */

#endif
