/* What becomes of a sum: d = activation(alpha * sum + beta * c + bias), rounded once. */
#ifndef SYMM_MATMUL_EPILOGUE_CUH
#define SYMM_MATMUL_EPILOGUE_CUH

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

/* Whether it could: the two are one word, aligned. */
SYMM_DEV bool store_pair(void *data, uint32_t dtype, int64_t at, float x, float y)
{
    if (dtype == SYMM_FLOAT32) {
        float *to = static_cast<float *>(data) + at;
        if ((uintptr_t)to % 8)
            return false;
        symm_dev_store_one(reinterpret_cast<uint64_t *>(to),
                           (uint64_t)symm_detail::float_bits(y) << 32 | symm_detail::float_bits(x));
        return true;
    }
    uint16_t *to = static_cast<uint16_t *>(data) + at;
    if ((uintptr_t)to % 4)
        return false;
    symm_dev_store_one(reinterpret_cast<uint32_t *>(to),
                       dtype == SYMM_FLOAT16 ? symm_detail::narrow2<symm_f16>(x, y)
                                             : symm_detail::narrow2<symm_bf16>(x, y));
    return true;
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

    SYMM_DEV_IN_CLASS const symm_matrix &d(void) const
    {
        return a.d[t.product];
    }

    SYMM_DEV_IN_CLASS bool has(int32_t i, int32_t j) const
    {
        return i < t.rows && j < t.columns;
    }

    /* Whether D's columns lie one after the other in memory, rather than its rows' elements. */
    SYMM_DEV_IN_CLASS bool down(void) const
    {
        return d().row == 1;
    }

    /* Whether D's rows are whole packs of 8 elements, aligned to 16 bytes. */
    SYMM_DEV_IN_CLASS bool eights(void) const
    {
        const int32_t pack = d().dtype == SYMM_FLOAT32 ? 4 : 8;
        return d().column == 1 && a.n[t.product] % 8 == 0 && (uintptr_t)d().data % 16 == 0 &&
               d().row % pack == 0 && d().batch % pack == 0;
    }

    /* Whether D is 16 bits wide, and nothing but alpha times the sums. */
    SYMM_DEV_IN_CLASS bool only_scaled(void) const
    {
        return eights() && d().dtype != SYMM_FLOAT32 && a.activation == SYMM_NONE &&
               !a.bias[t.product].data && !has_c();
    }

    SYMM_DEV_IN_CLASS bool has_c(void) const
    {
        return a.c[t.product].data && a.beta != 0;
    }

    /* Makes of the sums of row i from column j on what D gets there; what is outside is left. */
    template <int N> SYMM_DEV_IN_CLASS void end(int32_t i, int32_t j, float (&x)[N]) const
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
                if (has(i, j + q))
                    x[q] += a.beta * load_float(c.data, c.dtype, c_at + q * c.column);
        if (bias.data)
#pragma unroll
            for (int32_t q = 0; q < N; q++)
                if (has(i, j + q))
                    x[q] += load_float(bias.data, bias.dtype, bias_at + q * bias.column);
        if (a.activation != SYMM_NONE)
#pragma unroll
            for (int32_t q = 0; q < N; q++)
                x[q] = activate(a.activation, x[q]);
    }

    SYMM_DEV_IN_CLASS int64_t place(int32_t i, int32_t j) const
    {
        return t.batch * d().batch + (row + i) * d().row + (int64_t)(t.column + j) * d().column;
    }

    SYMM_DEV_IN_CLASS void store(int32_t i, int32_t j, float x) const
    {
        if (has(i, j))
            store_float(d().data, d().dtype, place(i, j), x);
    }

    /* The sum for row i and column j of the tile; none if they are outside. */
    SYMM_DEV_IN_CLASS void put(int32_t i, int32_t j, float sum) const
    {
        float x[] = {sum};
        if (!has(i, j))
            return;
        end(i, j, x);
        store(i, j, x[0]);
    }

    /* The same for column j and the next one, by one thread. */
    SYMM_DEV_IN_CLASS void put_pair(int32_t i, int32_t j, float left, float right) const
    {
        float x[] = {left, right};
        if (!has(i, j))
            return;
        end(i, j, x);
        if (has(i, j + 1) && d().column == 1 &&
            store_pair(d().data, d().dtype, place(i, j), x[0], x[1]))
            return;
        store(i, j, x[0]);
        store(i, j + 1, x[1]);
    }

    /* The same for a pack of 8 columns, where D has such. */
    SYMM_DEV_IN_CLASS void put_eight(int32_t i, int32_t j, float (&x)[8]) const
    {
        if (!has(i, j))
            return;
        end(i, j, x);
        const int64_t at = place(i, j);
        if (d().dtype == SYMM_FLOAT16) {
            store_eight<symm_f16>(at, x);
        } else if (d().dtype == SYMM_BFLOAT16) {
            store_eight<symm_bf16>(at, x);
        } else {
            float *to = static_cast<float *>(d().data) + at;
            symm_dev_store(to, symm_f32s<float>{x[0], x[1], x[2], x[3]});
            symm_dev_store(to + 4, symm_f32s<float>{x[4], x[5], x[6], x[7]});
        }
    }

  private:
    template <typename D> SYMM_DEV_IN_CLASS void store_eight(int64_t at, const float (&x)[8]) const
    {
        symm_dev_store(static_cast<D *>(d().data) + at,
                       symm_f32s<D>{x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]});
    }
};

#endif
