/* What becomes of a sum: d = activation(alpha * sum + beta * c + bias), rounded once. */
#ifndef SYMM_MATMUL_EPILOGUE_CUH
#define SYMM_MATMUL_EPILOGUE_CUH

#include "tiles.cuh"

SYMM_DEV float activate(uint32_t activation, float x)
{
    switch (activation) {
    case SYMM_GELU:
        return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
    case SYMM_SILU:
        return x / (1.0f + expf(-x));
    default:
        return x;
    }
}

SYMM_DEV float load_float(const void *data, uint32_t dtype, int64_t at)
{
    switch (dtype) {
    case SYMM_FLOAT16:
        return symm_dev_widen(symm_dev_load_one(static_cast<const symm_f16 *>(data) + at));
    case SYMM_BFLOAT16:
        return symm_dev_widen(symm_dev_load_one(static_cast<const symm_bf16 *>(data) + at));
    default:
        return symm_dev_load_one(static_cast<const float *>(data) + at);
    }
}

SYMM_DEV void store_float(void *data, uint32_t dtype, int64_t at, float x)
{
    switch (dtype) {
    case SYMM_FLOAT16:
        symm_dev_store_one(static_cast<symm_f16 *>(data) + at, symm_dev_narrow<symm_f16>(x));
        break;
    case SYMM_BFLOAT16:
        symm_dev_store_one(static_cast<symm_bf16 *>(data) + at, symm_dev_narrow<symm_bf16>(x));
        break;
    default:
        symm_dev_store_one(static_cast<float *>(data) + at, x);
    }
}

/* The end of a tile: takes its sums, wherever a thread has them. */
struct tile_end {
    const symm_product_args &a;
    const tile &t;
    int64_t row; /* of the tile's first row, in all of D */

    SYMM_DEV_IN_CLASS tile_end(const symm_product_args &args, const tile &of)
        : a(args), t(of), row(first_row_of(args.a.m, args.a.nranks, of.shard) + of.row)
    {
    }

    /* The sum for row i and column j of the tile; none if they are outside. */
    SYMM_DEV_IN_CLASS void put(int32_t i, int32_t j, float sum) const
    {
        if (i >= t.rows || j >= t.columns)
            return;
        const symm_matrix &c = a.c[t.product], &d = a.d[t.product], &bias = a.bias[t.product];
        const int64_t m = row + i, n = t.column + j;
        float x = a.alpha * sum;
        if (c.data && a.beta != 0)
            x += a.beta * load_float(c.data, c.dtype, t.batch * c.batch + m * c.row + n * c.column);
        if (bias.data)
            x += load_float(bias.data, bias.dtype, t.batch * bias.batch + n * bias.column);
        store_float(d.data, d.dtype, t.batch * d.batch + m * d.row + n * d.column,
                    activate(a.activation, x));
    }
};

#endif
