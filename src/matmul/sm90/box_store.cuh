/*
 * The epilogue of parts of sums on Hopper GPUs: results leave by the copy unit, which stores boxes
 * of shared memory.
 */
#ifndef SYMM_MATMUL_SM90_BOX_STORE_CUH
#define SYMM_MATMUL_SM90_BOX_STORE_CUH

#include "matmul/kernels/sum_parts.cuh"
#include "store.cuh"

namespace sm90
{

/* One warp's box, for the copy unit, whose swizzle avoids bank conflicts. */
struct __align__(1024) box_smem
{
    uint16_t at[SYMM_WGMMA_BOX_ROWS][ROUND_COLUMNS];

    SYMM_DEV_IN_CLASS uint16_t *pack(int32_t row, int32_t column)
    {
        return &at[row][column ^ row % 8 * PACK_COLUMNS];
    }

    template <typename Memory> SYMM_DEV_IN_CLASS static box_smem &of(Memory & m, uint32_t warp)
    {
        return m.parts.stored[warp];
    }

    SYMM_DEV_IN_CLASS void filled(void) const
    {
        fence_async();
    }
};
static_assert(sizeof(box_smem) == 2048, "the lines of a box have 128 bytes");

/*
 * A deferred_store of parts of sums. The copy unit stores a round's box, also across a link, while
 * the warp goes on: in D if this rank owns the tile, and in the slot on the other rank if that one
 * does. All rounds, and then the wait for the last store, are spread over the steps of the next
 * tile.
 */
template <int ACCUMULATORS> struct boxed_store : deferred_store<ACCUMULATORS> {
    using base = deferred_store<ACCUMULATORS>;
    using smem = box_smem;
    enum { SENDS = true, PASSES = true, EVENTS = base::ROUNDS + 1 };

    int32_t event = EVENTS + 1; /* the next one: a round, or the end of the stores */
    int32_t product = 0, column = 0, row = 0, batch = 0;
    bool stays = false, leaves = false, second_set = false;

    SYMM_DEV_IN_CLASS void aim(const symm_product_args &a, const tile &t, int64_t set)
    {
        event = 0;
        product = t.product;
        column = t.column;
        row = t.row + warp_row();
        batch = t.batch;
        stays = t.rows > 0 && is_own(a, t);
        leaves = t.rows > 0 && has_parts(a) && is_others(a, t);
        second_set = set != 0;
    }

    /* Returns true once, when all of the results are stored. */
    SYMM_DEV_IN_CLASS bool is_done(void)
    {
        const bool done = event == EVENTS;

        event += done;
        return done;
    }

    SYMM_DEV_IN_CLASS void put(int32_t step, int32_t steps, box_smem &s,
                               const symm_wgmma_args &args)
    {
#pragma unroll 1
        while (event < EVENTS && event * steps <= step * EVENTS)
            put_event(s, args);
    }

    SYMM_DEV_IN_CLASS void put_rest(int32_t, box_smem &s, const symm_wgmma_args &args)
    {
#pragma unroll 1
        while (event < EVENTS)
            put_event(s, args);
    }

  private:
    SYMM_DEV_IN_CLASS void put_event(box_smem &s, const symm_wgmma_args &args)
    {
        const bool leads = base::lane() == 0;

        if (event == base::ROUNDS) {
            if (leads)
                bulk_wait_all();
        } else {
            if (leads)
                bulk_wait_read<0>();
            this->fill_round(event, s);
            if (leads)
                store_box(column + event * ROUND_COLUMNS, s, args);
        }
        event++;
    }

    SYMM_DEV_IN_CLASS void store_box(int32_t x, const box_smem &s,
                                     const symm_wgmma_args &args) const
    {
        const int32_t at[] = {x, row, batch, args.product.view.rank, second_set};

        if (leaves)
            tensor_store(&args.others[product], at, &s);
        if (stays)
            tensor_store(&args.d[product], x, row, batch, &s);
        bulk_commit();
    }
};

} /* namespace sm90 */

#endif
