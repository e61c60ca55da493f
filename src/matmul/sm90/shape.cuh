/* The shapes of tiles, their shared memory and barriers, and a block's way through the tiles. */
#ifndef SYMM_MATMUL_SM90_SHAPE_CUH
#define SYMM_MATMUL_SM90_SHAPE_CUH

#include "matmul/kernels/schedule.cuh"
#include "box_store.cuh"
#include "sm90.def"

namespace sm90
{

/*
 * A tile of R rows and N columns, of which a block has NSTAGES stages. BLOCKS take tiles below each
 * other and share the stages of B. Consumers are warpgroups, each with one or two panels of 64
 * columns; the first warpgroup of the block is the producer's.
 */
template <int R, int N, int BLOCKS, int NSTAGES> struct pipeline {
    enum {
        ROWS = R,
        COLUMNS = N,
        CONSUMERS = SYMM_WGMMA_CONSUMERS(N),
        PANELS = N / PANEL / CONSUMERS, /* of a consumer */
        WARPS = CONSUMERS * WARPGROUP / 32,
        CLUSTER = BLOCKS,
        STAGES = NSTAGES
    };
    static_assert(N == CONSUMERS * PANELS * PANEL, "whole panels");

    /* A thread's, of each panel. */
    using accumulators = float[PANELS][R / 2];

    /* Lines of 128 bytes with the swizzle of TMA: packs of 16 bytes permuted within 8 lines. */
    struct stage {
        uint16_t a[R * DEPTH]; /* along k */
        uint16_t b[N * DEPTH]; /* panels: along k, or DEPTH lines along their columns */
    };

    enum { BOXES_OF_PANEL = PANEL * DEPTH * sizeof(uint16_t) / sizeof(box) };
    static_assert(NSTAGES * BOXES_OF_PANEL * ROUND_ROWS >= R, "a consumer's results fit");

    /*
     * Box i of as many as a tile's results need, in the consumer's own panels of the stages, of
     * which it has used the last one.
     */
    SYMM_DEV_IN_CLASS static box &used_box(stage *stages, int32_t i)
    {
        const int32_t at = i / BOXES_OF_PANEL, panel = consumer() * PANELS + at % PANELS;
        uint16_t *b = stages[at / PANELS].b + panel * (PANEL * DEPTH);

        return reinterpret_cast<box *>(b)[i % BOXES_OF_PANEL];
    }

    /* full: the stage is loaded. empty: all consumer warps of the cluster have used it. */
    struct stage_barriers {
        uint64_t full[STAGES], empty[STAGES];
    };

    /* A position in the ring of stages. */
    struct ring {
        int32_t slot = 0;
        uint32_t parity = 0;

        SYMM_DEV_IN_CLASS void next(void)
        {
            slot++;
            if (slot < STAGES)
                return;
            slot = 0;
            parity ^= 1;
        }

        SYMM_DEV_IN_CLASS void back(void)
        {
            parity ^= slot == 0;
            slot = (slot + STAGES - 1) % STAGES;
        }
    };
};

/* The shared memory of a consumer's epilogue. */
union consumer_smem {
    round_boxes<2> results;
    sums_smem sums;
};

/*
 * As many stages as fit, up to 8. There would be room for more, but a product that adds parts needs
 * boxes: with fewer of them on their way it is slower than with fewer stages.
 */
constexpr int stages_of(int rows, int columns)
{
    const int fit = SYMM_WGMMA_STAGES_NBYTES / ((rows + columns) * DEPTH * 2);

    return fit < 8 ? fit : 8;
}

/* The shape of a block that takes one tile after the other. */
template <int R, int N, int BLOCKS> struct shape : pipeline<R, N, BLOCKS, stages_of(R, N)> {
    using base = pipeline<R, N, BLOCKS, stages_of(R, N)>;
    using base::ROWS, base::STAGES, base::WARPS, base::CONSUMERS;
    using typename base::stage;

    enum {
        PRODUCER_REGISTERS = 48,
        CONSUMER_REGISTERS = CONSUMERS == 3 ? 144 : 216,
        STAGES_NBYTES = STAGES * sizeof(stage),
        BOX_NBYTES = sizeof(box),
        BOXES_ACROSS = N / PANEL,
        BOXES_OF_TILE = ROWS / ROUND_ROWS * BOXES_ACROSS,
        STORED_BOXES = WARPGROUP / 32, /* of a consumer's results: a warp stores one */
        BOXES = 8                      /* of the other rank's parts */
    };
    static_assert(PRODUCER_REGISTERS + CONSUMERS * CONSUMER_REGISTERS ==
                      (1 + CONSUMERS) * SYMM_WGMMA_REGISTERS(N),
                  "setmaxnreg shares the registers that the block is launched with");
    static_assert(R % ROUND_ROWS == 0, "boxes end with their tile");

    /* The boxes of a product that adds parts: a consumer's results, and parts. */
    struct part_boxes {
        round_boxes<STORED_BOXES> stored[CONSUMERS];
        box added[BOXES];
    };

    struct memory {
        stage stages[STAGES];
        union {
            consumer_smem consumers[CONSUMERS];
            part_boxes parts;
        };
    };
    static_assert(STAGES_NBYTES + CONSUMERS * sizeof(consumer_smem) <=
                      SYMM_WGMMA_PLAIN_SHARED_NBYTES,
                  "without parts the launch asks for that much");
    static_assert(BOXES_OF_TILE * BOX_NBYTES <= STAGES_NBYTES, "the last tile's boxes");
    static_assert(STAGES_NBYTES % 1024 == 0, "the swizzle's pattern");
    static_assert(sizeof(memory) <= SYMM_WGMMA_SHARED_NBYTES, "the launch asks for that much");
    static_assert(SYMM_WGMMA_SHARED_NBYTES + 3 * 1024 <= 228 * 1024,
                  "1 KiB of barriers, and 1 KiB of the system's for this block and for one of "
                  "matmul_open_round");

    /* Rows of a box of A. */
    SYMM_DEV_IN_CLASS static uint32_t rows_loaded(const symm_wgmma_args &)
    {
        return ROWS;
    }

    enum { FOLLOWED = 4 /* tiles that the producer may be ahead of the followers */ };

    /*
     * passed: all consumer warps have stored the tile. followed: its signal is sent, and its part
     * is added. drained: all consumer warps have used the last stage. loaded: a box of a part is
     * there.
     */
    struct barriers : base::stage_barriers {
        uint64_t passed[FOLLOWED], followed[FOLLOWED];
        uint64_t drained, loaded[BOXES];
        uint64_t shown; /* the other block's warps have shown their part of the last tile's k */
        int64_t set;    /* see set_offset() */
        uint32_t npassed[base::WARPS]; /* tiles, of each consumer warp */
        uint32_t runs;                 /* see runs_of() */
    };

    /*
     * The work of this block. A cluster takes as many tiles below each other as it has blocks, a
     * block each. In the last wave it may take one tile, of which each block has a part of k.
     */
    struct block_schedule {
        const symm_wgmma_args &args;
        schedule<ROWS * BLOCKS, N> todo;

        SYMM_DEV_IN_CLASS block_schedule(const symm_wgmma_args &a)
            : args(a), todo(a.product, blockIdx.x / BLOCKS)
        {
        }

        SYMM_DEV_IN_CLASS bool next(work *w)
        {
            return is_shared() ? next_shared(w) : next_whole(w);
        }

        /* Whether the next place is shared. */
        SYMM_DEV_IN_CLASS bool is_shared(void) const
        {
            return BLOCKS > 1 && todo.place >= args.shared_from;
        }

        /* Whether the place of the last next_whole() is. */
        SYMM_DEV_IN_CLASS bool was_shared(void) const
        {
            return BLOCKS > 1 && todo.place - gridDim.x / BLOCKS >= args.shared_from;
        }

        /* Takes that place as a shared one. */
        SYMM_DEV_IN_CLASS bool again_shared(work *w)
        {
            todo.place -= gridDim.x / BLOCKS;
            return next_shared(w);
        }

        /* A tile may have no rows: its block still loads its share of B for the other blocks. */
        SYMM_DEV_IN_CLASS bool next_whole(work *w)
        {
            if (!todo.next(w, gridDim.x / BLOCKS))
                return false;
            take_rows(*w, BLOCKS > 1 ? (int32_t)cluster_rank() : 0);
            return true;
        }

        /* The last work of a block. */
        SYMM_DEV_IN_CLASS bool next_shared(work *w)
        {
            const uint32_t place = todo.place - args.shared_from;

            todo.place = args.shared_from + place / BLOCKS;
            if (!todo.next(w, gridDim.x))
                return false;
            take_rows(*w, (int32_t)(place % BLOCKS));
            take_part(*w);
            return true;
        }

      private:
        /* Of the tiles below each other. */
        SYMM_DEV_IN_CLASS static void take_rows(work &w, int32_t tile)
        {
            w.t.row += tile * ROWS;
            w.t.rows = max(0, min((int32_t)ROWS, w.t.rows - tile * ROWS));
        }

        /* Equal parts, since the blocks use their stages together; past k there are zeros. */
        SYMM_DEV_IN_CLASS static void take_part(work &w)
        {
            const int32_t rank = (int32_t)cluster_rank(), steps = (w.k_end + DEPTH - 1) / DEPTH,
                          part_k = (steps + BLOCKS - 1) / BLOCKS * DEPTH;

            w.part = rank;
            w.nparts = BLOCKS;
            w.k_begin = rank * part_k;
            w.k_end = w.k_begin + part_k;
        }
    };
};

} /* namespace sm90 */

#endif
