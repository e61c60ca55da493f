/*
 * Checks every element of a product in double precision, by the bound of products_check(). Shares
 * no code with the products of the library.
 */
#include <symm/device.cuh>
#include "whole_check_args.h"

enum { TILE = WHOLE_CHECK_TILE, DEPTH = 16, ACROSS = 16, EACH = TILE / ACROSS };

struct check_smem {
    double a[DEPTH][TILE], b[DEPTH][TILE];
};

template <typename T> SYMM_DEV double element_at(const uint16_t *p)
{
    return (double)symm_dev_widen(T{symm_dev_load_one(p)});
}

/* The number of an element of a matrix of this extent. */
SYMM_DEV int64_t place_of(bool by_columns, int32_t rows, int32_t columns, int32_t row,
                          int32_t column)
{
    return by_columns ? (int64_t)column * rows + row : (int64_t)row * columns + column;
}

/* The element; 0 outside. */
template <typename T>
SYMM_DEV double element_of(const uint16_t *x, bool by_columns, int32_t rows, int32_t columns,
                           int32_t row, int32_t column)
{
    return row < rows && column < columns
               ? element_at<T>(x + place_of(by_columns, rows, columns, row, column))
               : 0;
}

/* Half of the last place of a number of this size. */
SYMM_DEV double half_ulp(double x, bool is_f16)
{
    const int32_t fraction = is_f16 ? 10 : 7, least = is_f16 ? -14 : -126;
    uint64_t bits;
    double ulp;

    __builtin_memcpy(&bits, &x, sizeof bits);
    bits = (uint64_t)(max((int32_t)(bits >> 52 & 0x7ff) - 1023, least) - fraction - 1 + 1023) << 52;
    __builtin_memcpy(&ulp, &bits, sizeof ulp);
    return ulp;
}

/* One tile of d, from these rows and columns on. Each thread has EACH x EACH elements. */
struct check_tile {
    const whole_check_args &args;
    const uint16_t *a, *b;
    int64_t first; /* the batch's first element of d */
    int32_t row, column;
    double sum[EACH][EACH] = {}, magnitude[EACH][EACH] = {};

    SYMM_DEV_IN_CLASS check_tile(const whole_check_args &w, int32_t batch, int32_t r, int32_t c)
        : args(w), a(w.a + (int64_t)batch * w.m * w.k), b(w.b + (int64_t)batch * w.k * w.n),
          first((int64_t)batch * w.m * w.n), row(r), column(c)
    {
    }

    template <typename T> SYMM_DEV_IN_CLASS void load(check_smem &s, int32_t k) const
    {
        for (int32_t i = (int32_t)threadIdx.x; i < DEPTH * TILE; i += WHOLE_CHECK_THREADS) {
            s.a[i % DEPTH][i / DEPTH] =
                element_of<T>(a, false, args.m, args.k, row + i / DEPTH, k + i % DEPTH);
            const int32_t down = args.b_by_columns ? i % DEPTH : i / TILE,
                          across = args.b_by_columns ? i / DEPTH : i % TILE;
            s.b[down][across] =
                element_of<T>(b, args.b_by_columns, args.k, args.n, k + down, column + across);
        }
    }

    SYMM_DEV_IN_CLASS void add(const check_smem &s)
    {
        const int32_t down = (int32_t)threadIdx.x / ACROSS, across = (int32_t)threadIdx.x % ACROSS;

        for (int32_t k = 0; k < DEPTH; k++)
#pragma unroll
            for (int32_t i = 0; i < EACH; i++)
#pragma unroll
                for (int32_t j = 0; j < EACH; j++) {
                    const double x = s.a[k][down + i * ACROSS] * s.b[k][across + j * ACROSS];
                    sum[i][j] += x;
                    magnitude[i][j] += x < 0 ? -x : x;
                }
    }

    /* Whether d has a right number here. False for a NaN. */
    template <typename T>
    SYMM_DEV_IN_CLASS bool is_right(int64_t at, double sum_here, double magnitude_here) const
    {
        const double c = args.c ? args.beta * element_at<T>(args.c + at) : 0,
                     value = args.alpha * sum_here + c,
                     error = args.eps * (symm_abs(args.alpha) * magnitude_here + symm_abs(c));

        return symm_abs(element_at<T>(args.d + at) - value) <=
               error + half_ulp(symm_abs(value) + error, args.is_f16);
    }

    template <typename T> SYMM_DEV_IN_CLASS uint32_t count_wrong(void) const
    {
        const int32_t down = row + (int32_t)threadIdx.x / ACROSS,
                      across = column + (int32_t)threadIdx.x % ACROSS;
        uint32_t wrong = 0;

#pragma unroll
        for (int32_t i = 0; i < EACH; i++)
#pragma unroll
            for (int32_t j = 0; j < EACH; j++) {
                const int32_t y = down + i * ACROSS, x = across + j * ACROSS;
                if (y < args.m && x < args.n)
                    wrong += !is_right<T>(first + place_of(args.d_by_columns, args.m, args.n, y, x),
                                          sum[i][j], magnitude[i][j]);
            }
        return wrong;
    }

  private:
    SYMM_DEV_IN_CLASS static double symm_abs(double x)
    {
        return x < 0 ? -x : x;
    }
};

template <typename T> SYMM_DEV void check_tiles(const whole_check_args &a)
{
    const int64_t down = (a.m + TILE - 1) / TILE, across = (a.n + TILE - 1) / TILE;
    __shared__ check_smem s;
    uint32_t wrong = 0;

    for (int64_t i = blockIdx.x; i < a.l * down * across; i += gridDim.x) {
        check_tile t(a, (int32_t)(i / (down * across)), (int32_t)(i / across % down) * TILE,
                     (int32_t)(i % across) * TILE);
        for (int32_t k = 0; k < a.k; k += DEPTH) {
            t.template load<T>(s, k);
            __syncthreads();
            t.add(s);
            __syncthreads();
        }
        wrong += t.template count_wrong<T>();
    }
    if (wrong)
        symm_dev_red_add(a.wrong, wrong);
}

SYMM_KERNEL(whole_check, whole_check_args, a, WHOLE_CHECK_THREADS)
{
    if (a.is_f16)
        check_tiles<symm_f16>(a);
    else
        check_tiles<symm_bf16>(a);
}
