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

/*
 * Stores held parts of sums later. The copy unit stores boxes, also across a link, while the
 * consumer goes on: in D if this rank owns the tile, and in the slot on the other rank if that one
 * does. All boxes are filled together in a step of the next tile and stored in the step after it,
 * so that no step takes longer than a multiplication. They are filled again as late as possible,
 * since a box takes some us on a link. At the end the consumer waits for the last stores.
 */
template <int ROWS, int PANELS, int BOXES> struct boxed_store : held_results<ROWS, PANELS, BOXES> {
    using base = held_results<ROWS, PANELS, BOXES>;
    using base::FILLED, base::ROUNDS;
    using typename base::boxes_of_rounds;
    static_assert(BOXES == WARPGROUP / 32, "each is stored by a warp");
    enum { SENDS = true, PASSES = true, END = ROUNDS / BOXES * 2 /* of the stores */, DONE, NONE };
    enum { PHASES = 4 /* of blocks, or pairs of blocks, which store at the same time */ };

    int32_t event = NONE; /* the next one: boxes are filled, boxes are stored, or the end */
    int32_t product = 0, column = 0, row = 0, batch = 0;
    bool stays = false, leaves = false, second_set = false;

    SYMM_DEV_IN_CLASS void aim(const symm_product_args &a, const tile &t, int64_t set)
    {
        event = 0;
        product = t.product;
        column = t.column + consumer() * (PANELS * PANEL);
        row = t.row;
        batch = t.batch;
        stays = t.rows > 0 && is_own(a, t);
        leaves = t.rows > 0 && has_parts(a) && is_others(a, t);
        second_set = set != 0;
    }

    /* Returns true once, when all of the results are stored. */
    SYMM_DEV_IN_CLASS bool is_done(void)
    {
        const bool done = event == DONE;

        event += done;
        return done;
    }

    SYMM_DEV_IN_CLASS void put(int32_t step, int32_t steps, boxes_of_rounds &boxes,
                               const symm_wgmma_args &args)
    {
        if (event < END && event % 2 == 1)
            put_event(boxes, args);
        const int32_t late = first_step(steps, args.product);
#pragma unroll 1
        while (event <= END && event * (steps - late) <= (step - late) * DONE)
            put_event(boxes, args);
    }

    SYMM_DEV_IN_CLASS void put_rest(boxes_of_rounds &boxes, const symm_wgmma_args &args)
    {
#pragma unroll 1
        while (event <= END)
            put_event(boxes, args);
    }

  private:
    /* If all results leave, blocks begin at different steps, to use the link more evenly. */
    static SYMM_DEV_IN_CLASS int32_t first_step(int32_t steps, const symm_product_args &a)
    {
        const int32_t phase = a.parts.all_own ? (int32_t)(blockIdx.x / 2 % PHASES) : 0;

        return phase * steps / (2 * DONE);
    }

    /* The first thread of each warp stores a box, and waits before the box is filled again. */
    SYMM_DEV_IN_CLASS void put_event(boxes_of_rounds &boxes, const symm_wgmma_args &args)
    {
        const int32_t first = event / 2 * BOXES, warp = group_thread() / 32;
        const bool leads = threadIdx.x % 32 == 0;

        if (event == END) {
            if (leads)
                bulk_wait_all();
        } else if (event % 2 == 0) {
            if (leads)
                bulk_wait_read<0>();
            consumer_meet();
            this->template fill_rounds<BOXES>(first, boxes);
            fence_async();
        } else {
            consumer_meet();
            if (leads && first + warp < FILLED)
                store_box(first + warp, boxes.of[warp], args);
        }
        event++;
    }

    SYMM_DEV_IN_CLASS void store_box(int32_t i, const box &from, const symm_wgmma_args &args) const
    {
        const int32_t x = column + base::column_of_round(i), y = row + base::row_of_round(i),
                      at[] = {x, y, batch, args.product.view.rank, second_set};

        if (leaves)
            tensor_store(&args.others[product], at, &from);
        if (stays)
            tensor_store(&args.d[product], x, y, batch, &from);
        bulk_commit();
    }
};

} /* namespace sm90 */

#endif
