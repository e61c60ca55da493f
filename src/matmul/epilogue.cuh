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

    SYMM_DEV_IN_CLASS bool has(int32_t i, int32_t j) const
    {
        return i < t.rows && j < t.columns;
    }

    /* What D gets at row i and column j of the tile, for this sum. */
    SYMM_DEV_IN_CLASS float value(int32_t i, int32_t j, float sum) const
    {
        const symm_matrix &c = a.c[t.product], &bias = a.bias[t.product];
        const int64_t m = row + i, n = t.column + j;
        float x = a.alpha * sum;
        if (c.data && a.beta != 0)
            x += a.beta * load_float(c.data, c.dtype, t.batch * c.batch + m * c.row + n * c.column);
        if (bias.data)
            x += load_float(bias.data, bias.dtype, t.batch * bias.batch + n * bias.column);
        return activate(a.activation, x);
    }

    SYMM_DEV_IN_CLASS int64_t place(int32_t i, int32_t j) const
    {
        const symm_matrix &d = a.d[t.product];
        return t.batch * d.batch + (row + i) * d.row + (int64_t)(t.column + j) * d.column;
    }

    /* Whether D's columns lie one after the other in memory, rather than its rows' elements. */
    SYMM_DEV_IN_CLASS bool down() const
    {
        return a.d[t.product].row == 1;
    }

    /* The sum for row i and column j of the tile; none if they are outside. */
    SYMM_DEV_IN_CLASS void put(int32_t i, int32_t j, float sum) const
    {
        const symm_matrix &d = a.d[t.product];
        if (has(i, j))
            store_float(d.data, d.dtype, place(i, j), value(i, j, sum));
    }

    /* The same for column j and the next one, by one thread. */
    SYMM_DEV_IN_CLASS void put_pair(int32_t i, int32_t j, float left, float right) const
    {
        const symm_matrix &d = a.d[t.product];
        if (!has(i, j))
            return;
        const bool two = has(i, j + 1);
        const float x = value(i, j, left), y = two ? value(i, j + 1, right) : 0;
        if (two && d.column == 1 && store_pair(d.data, d.dtype, place(i, j), x, y))
            return;
        store_float(d.data, d.dtype, place(i, j), x);
        if (two)
            store_float(d.data, d.dtype, place(i, j + 1), y);
    }
};

#endif
