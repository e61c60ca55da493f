/*
 * The epilogue of a tile: transform, then destination. It takes the accumulators in any order, from
 * any thread.
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

    /* The accumulator of row i and column j of the tile; ignored outside of it. */
    SYMM_DEV_IN_CLASS void put(int32_t i, int32_t j, float sum) const
    {
        float x[] = {sum};
        if (!to.has(i, j))
            return;
        f.apply(i, j, x);
        to.store(i, j, x[0]);
    }

    /* Columns j and j + 1. */
    SYMM_DEV_IN_CLASS void put(int32_t i, int32_t j, float left, float right) const
    {
        float x[] = {left, right};
        if (!to.has(i, j))
            return;
        f.apply(i, j, x);
        to.store(i, j, x[0], x[1]);
    }

    /* A pack of 8 columns, if the destination has_packs(). */
    SYMM_DEV_IN_CLASS void put(int32_t i, int32_t j, float (&x)[8]) const
    {
        if (!to.has(i, j))
            return;
        f.apply(i, j, x);
        to.store(i, j, x);
    }
};

#endif
