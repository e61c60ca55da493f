/* Stores the results of a tile, rounded once to the destination's type: to D, or to a slot. */
#ifndef SYMM_MATMUL_DESTINATION_CUH
#define SYMM_MATMUL_DESTINATION_CUH

#include "schedule.cuh"

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

/* Stores two elements if they are one aligned word; returns whether they are. */
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

/* Calls store(p), and if results go to all ranks, also with the same place on the others. */
template <typename F> SYMM_DEV void on_ranks(const symm_product_args &a, void *p, const F &store)
{
    store(p);
    if (a.sink != SYMM_TO_ALL)
        return;
#pragma unroll 1
    for (int32_t i = 1; i < a.view.nranks; i++)
        store(symm_dev_peer(a.view, static_cast<char *>(p), (a.view.rank + i) % a.view.nranks));
}

/* A tile of a matrix like d, at `data`. `row`: the tile's first row there; n: its columns. */
struct matrix_destination {
    const symm_matrix &d;
    void *data;
    const tile &t;
    int64_t row;
    int32_t n;
    const symm_product_args &a;

    SYMM_DEV_IN_CLASS bool has(int32_t i, int32_t j) const
    {
        return i < t.rows && j < t.columns;
    }

    /* Whether the elements of a column are contiguous, not those of a row. */
    SYMM_DEV_IN_CLASS bool is_column_major(void) const
    {
        return d.row == 1;
    }

    /* Whether d's rows are whole packs of 8 elements, aligned to 16 bytes. */
    SYMM_DEV_IN_CLASS bool has_packs(void) const
    {
        const int32_t pack = d.dtype == SYMM_FLOAT32 ? 4 : 8;
        return d.column == 1 && n % 8 == 0 && (uintptr_t)data % 16 == 0 && d.row % pack == 0 &&
               d.batch % pack == 0;
    }

    SYMM_DEV_IN_CLASS int64_t offset(int32_t i, int32_t j) const
    {
        return t.batch * d.batch + (row + i) * d.row + (int64_t)(t.column + j) * d.column;
    }

    SYMM_DEV_IN_CLASS void store(int32_t i, int32_t j, const float (&x)[1]) const
    {
        on_ranks(a, data, [&](void *to) { store_float(to, d.dtype, offset(i, j), x[0]); });
    }

    /* Columns j and j + 1, of which the tile has at least the first. */
    SYMM_DEV_IN_CLASS void store(int32_t i, int32_t j, const float (&x)[2]) const
    {
        on_ranks(a, data, [&](void *to) {
            const int64_t at = offset(i, j);
            if (has(i, j + 1) && d.column == 1 && store_pair(to, d.dtype, at, x[0], x[1]))
                return;
            store_float(to, d.dtype, at, x[0]);
            if (has(i, j + 1))
                store_float(to, d.dtype, offset(i, j + 1), x[1]);
        });
    }

    /* A pack of 8 columns, if d has_packs(). */
    SYMM_DEV_IN_CLASS void store(int32_t i, int32_t j, const float (&x)[8]) const
    {
        on_ranks(a, data, [&](void *to) { store_eight(to, offset(i, j), x); });
    }

  private:
    SYMM_DEV_IN_CLASS void store_eight(void *to, int64_t at, const float (&x)[8]) const
    {
        if (d.dtype == SYMM_FLOAT16) {
            store_halves(static_cast<symm_f16 *>(to) + at, x);
        } else if (d.dtype == SYMM_BFLOAT16) {
            store_halves(static_cast<symm_bf16 *>(to) + at, x);
        } else {
            float *f = static_cast<float *>(to) + at;
            symm_dev_store(f, symm_f32s<float>{x[0], x[1], x[2], x[3]});
            symm_dev_store(f + 4, symm_f32s<float>{x[4], x[5], x[6], x[7]});
        }
    }

    template <typename D> SYMM_DEV_IN_CLASS static void store_halves(D *to, const float (&x)[8])
    {
        symm_dev_store(to, symm_f32s<D>{x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]});
    }
};

#endif
