/* Transforms accumulators: activation(alpha * x + beta * c + bias), in fp32. */
#ifndef SYMM_MATMUL_TRANSFORM_CUH
#define SYMM_MATMUL_TRANSFORM_CUH

#include "schedule.cuh"

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

/* The transform of a tile whose first row is `row` of D. */
struct transform {
    const symm_product_args &a;
    const tile &t;
    int64_t row;

    SYMM_DEV_IN_CLASS bool has_c(void) const
    {
        return a.c[t.product].data && a.beta != 0;
    }

    /* Whether the transform is alpha * x. */
    SYMM_DEV_IN_CLASS bool is_plain_scale(void) const
    {
        return a.activation == SYMM_NONE && !a.bias[t.product].data && !has_c();
    }

    /* Transforms accumulators of row i from column j on. Columns outside get no c and no bias. */
    template <int N> SYMM_DEV_IN_CLASS void apply(int32_t i, int32_t j, float (&x)[N]) const
    {
        const symm_matrix &c = a.c[t.product], &bias = a.bias[t.product];
        const int64_t n = t.column + j, c_at = t.batch * c.batch + (row + i) * c.row + n * c.column,
                      bias_at = t.batch * bias.batch + n * bias.column;

#pragma unroll
        for (int32_t q = 0; q < N; q++)
            x[q] *= a.alpha;
        if (has_c())
#pragma unroll
            for (int32_t q = 0; q < N; q++)
                if (i < t.rows && j + q < t.columns)
                    x[q] += a.beta * load_float(c.data, c.dtype, c_at + q * c.column);
        if (bias.data)
#pragma unroll
            for (int32_t q = 0; q < N; q++)
                if (i < t.rows && j + q < t.columns)
                    x[q] += load_float(bias.data, bias.dtype, bias_at + q * bias.column);
        if (a.activation != SYMM_NONE)
#pragma unroll
            for (int32_t q = 0; q < N; q++)
                x[q] = activate(a.activation, x[q]);
    }
};

#endif
