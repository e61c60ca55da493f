/* The shapes of tiles, their shared memory and barriers, and a block's way through the tiles. */
#ifndef SYMM_MATMUL_SM90_SHAPE_CUH
#define SYMM_MATMUL_SM90_SHAPE_CUH

#include "matmul/kernels/schedule.cuh"
#include "box_store.cuh"
#include "sm90.def"

namespace sm90
{

enum {
    DEPTH = SYMM_WGMMA_DEPTH,
    GROUP_ROWS = 64, /* of a tile, of each consumer */
    B_BLOCK = SYMM_WGMMA_LINE,
    BOX_ROWS = SYMM_WGMMA_BOX_ROWS,
    PRODUCER_REGISTERS = 48,
    CONSUMER_REGISTERS = 216
};

/*
 * A tile of R rows and N columns, of which a block has NSTAGES stages. BLOCKS take tiles below each
 * other and share the stages of B. Consumers are warpgroups; the first warpgroup of the block is
 * the producer's.
 */
template <int R, int N, int BLOCKS, int NSTAGES> struct pipeline {
    enum {
        ROWS = R,
        COLUMNS = N,
        ACCUMULATORS = N / 2,
        CONSUMERS = (R + GROUP_ROWS - 1) / GROUP_ROWS,
        WARPS = CONSUMERS * WARPGROUP / 32,
        CLUSTER = BLOCKS,
        STAGES = NSTAGES,
        B_COLUMNS = (N + B_BLOCK - 1) / B_BLOCK * B_BLOCK
    };

    /* Lines of 128 bytes with the swizzle of TMA: packs of 16 bytes permuted within 8 lines. */
    struct stage {
        uint16_t a[R * DEPTH];         /* along k */
        uint16_t b[B_COLUMNS * DEPTH]; /* along k, or blocks of DEPTH lines along 64 columns */
    };

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

/* As many stages as fit. */
constexpr int stages_of(int columns)
{
    return columns > 192 ? 4 : columns > 128 ? 5 : columns > 64 ? 6 : 8;
}

/* The shape of a block that takes one tile after the other. */
template <int N, int BLOCKS> struct shape : pipeline<SYMM_WGMMA_ROWS, N, BLOCKS, stages_of(N)> {
    using base = pipeline<SYMM_WGMMA_ROWS, N, BLOCKS, stages_of(N)>;
    using base::ROWS, base::STAGES, base::WARPS, base::CONSUMERS, base::B_COLUMNS;
    using typename base::stage;
    static_assert(PRODUCER_REGISTERS + CONSUMERS * CONSUMER_REGISTERS ==
                      (1 + CONSUMERS) * SYMM_WGMMA_REGISTERS,
                  "setmaxnreg shares the registers that the block is launched with");

    enum {
        ADDS = N % B_BLOCK == 0, /* parts of sums: boxes have whole lines */
        WARPS_NBYTES = WARPS * sizeof(epilogue_smem<WARP_ROWS>),
        BOX_NBYTES = sizeof(box_smem),
        BOXES_ACROSS = B_COLUMNS / B_BLOCK,
        BOXES_OF_TILE = ROWS / BOX_ROWS * BOXES_ACROSS,
        BOXES_FIT = (SYMM_WGMMA_SHARED_NBYTES - STAGES * sizeof(stage)) / BOX_NBYTES - WARPS,
        BOXES = BOXES_FIT < 8 ? BOXES_FIT : 8
    };

    /* The boxes of a product that adds parts: a consumer warp's results, and parts. */
    struct part_boxes {
        box_smem stored[WARPS], added[BOXES];
    };

    struct memory {
        stage stages[STAGES];
        union {
            epilogue_smem<WARP_ROWS> warps[WARPS];
            part_boxes parts;
        };
    };
    static_assert(STAGES * sizeof(stage) + WARPS_NBYTES <= SYMM_WGMMA_PLAIN_SHARED_NBYTES,
                  "without parts the launch asks for that much");
    static_assert(BOXES > 0, "a box of a part");
    static_assert(BOXES_OF_TILE * BOX_NBYTES <= STAGES * sizeof(stage), "the last tile's boxes");
    static_assert(STAGES * sizeof(stage) % sizeof(box_smem) == 0, "the swizzle's pattern");
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
        uint32_t npassed[WARPS]; /* tiles, of each consumer warp */
        uint32_t runs;           /* see runs_of() */
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
