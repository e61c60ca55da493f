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

    SYMM_DEV_IN_CLASS epilogue(const symm_product_args &a, const tile &t)
        : f{a, t, symm__first_row_of_rank(a.a.m, a.a.nranks, t.shard) + t.row}, to{a.d[t.product],
                                                                                   t, f.row,
                                                                                   a.n[t.product]}
    {
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
