/*
 * The epilogue of a tile: transform, then destination. Accepts accumulators in any order, from any
 * thread.
 */
#ifndef SYMM_MATMUL_EPILOGUE_CUH
#define SYMM_MATMUL_EPILOGUE_CUH

#include "destination.cuh"
#include "transform.cuh"

struct epilogue {
    transform f;
    matrix_destination to;

    /* set: see set_offset(). */
    SYMM_DEV_IN_CLASS epilogue(const symm_product_args &a, const tile &t, int64_t set = 0)
        : f{a, t, row_in_d(a, t)}, to{a.d[t.product], data_of(a, t, set), t,
                                      f.row,          columns_of(a, t),   a}
    {
    }

    SYMM_DEV_IN_CLASS static int64_t row_in_d(const symm_product_args &a, const tile &t)
    {
        if (a.sink == SYMM_TO_OWNERS)
            return t.row;
        return symm__first_row_of(a.order.rows, t.shard) + t.row;
    }

    /* D, or a slot. */
    SYMM_DEV_IN_CLASS static void *data_of(const symm_product_args &a, const tile &t, int64_t set)
    {
        char *data = static_cast<char *>(a.d[t.product].data) + set;
        return a.sink == SYMM_TO_OWNERS ? symm_dev_peer(a.view, data, t.shard) : data;
    }

    /* A slot's rows are whole packs. */
    SYMM_DEV_IN_CLASS static int32_t columns_of(const symm_product_args &a, const tile &t)
    {
        return a.sink != SYMM_TO_D ? (int32_t)a.d[t.product].row : a.n[t.product];
    }

    /* Whether the results are 16 bits wide, in whole packs, and alpha times the accumulators. */
    SYMM_DEV_IN_CLASS bool is_plain_scale(void) const
    {
        return to.has_packs() && to.d.dtype != SYMM_FLOAT32 && f.is_plain_scale();
    }

    /*
     * The accumulators of row i from column j on: one, a pair, or a pack of 8 if the destination
     * has_packs(). Ignored outside of the tile.
     */
    template <int N> SYMM_DEV_IN_CLASS void put(int32_t i, int32_t j, float (&x)[N]) const
    {
        if (!to.has(i, j))
            return;
        f.apply(i, j, x);
        to.store(i, j, x);
    }
};

#endif
