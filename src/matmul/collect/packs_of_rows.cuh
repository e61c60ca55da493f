/* The packs of rows that a thread collects, and the same places of all ranks' results. */
#ifndef SYMM_MATMUL_PACKS_OF_ROWS_CUH
#define SYMM_MATMUL_PACKS_OF_ROWS_CUH

#include "args.h"
#include "matmul/kernels/sum_packs.cuh"

enum { PACK = SYMM_PACK_ELEMENTS };

/* A thread's packs of batches of rows, from pack `first` on and in steps of `step` packs. */
struct packs_of_thread {
    uint32_t rows, packs; /* of a batch; of a row */
    uint32_t batch_step, row_step, pack_step;
    uint32_t batch, row, pack;

    SYMM_DEV_IN_CLASS packs_of_thread(uint32_t nrows, uint32_t npacks, uint32_t first,
                                      uint32_t step)
        : rows(nrows), packs(npacks), batch_step(step / npacks / nrows),
          row_step(step / npacks % nrows), pack_step(step % npacks), batch(first / npacks / nrows),
          row(first / npacks % nrows), pack(first % npacks)
    {
    }

    SYMM_DEV_IN_CLASS void next(void)
    {
        pack += pack_step;
        row += row_step;
        batch += batch_step;
        if (pack >= packs) {
            pack -= packs;
            row++;
        }
        if (row >= rows) {
            row -= rows;
            batch++;
        }
    }
};

/*
 * Visits all packs of product i's matrices [l, rows, columns], at most N at a time: visit(runs, n).
 * Runs past the n-th are the first one again.
 * A grid of the same size visits the same packs of a matrix of the same extents with the same
 * threads.
 */
template <int32_t N, typename F>
SYMM_DEV void for_each_runs(const symm_collect_args &a, int32_t i, int32_t rows, int32_t columns,
                            const F &visit)
{
    const uint32_t l = (uint32_t)a.product.a.l;

    if (rows == 0)
        return;
    packs_of_thread at((uint32_t)rows, (uint32_t)(columns + PACK - 1) / PACK,
                       blockIdx.x * blockDim.x + threadIdx.x, gridDim.x * blockDim.x);
    while (at.batch < l) {
        run_of_row runs[N];
        int32_t n = 0;
#pragma unroll
        for (int32_t k = 0; k < N; k++)
            if (k == 0 || at.batch < l) {
                runs[k] = {i, (int32_t)at.batch, (int32_t)at.row, (int32_t)at.pack * PACK};
                n = k + 1;
                at.next();
            } else {
                runs[k] = runs[0];
            }
        visit(runs, n);
    }
}

SYMM_DEV int64_t offset_of(const symm_matrix &x, int32_t batch, int64_t row, int32_t column)
{
    return batch * x.batch + row * x.row + column * x.column;
}

/* The bytes from an address in of_rank[i] to the same place of rank r's results. */
SYMM_DEV int64_t offset_of_rank(const symm_collect_args &a, int32_t i, int32_t r)
{
    return a.slot_nbytes[i] ? (int64_t)(r * a.slot_nbytes[i]) : a.product.view.peer[r];
}

template <typename T> SYMM_DEV T *moved(T *p, int64_t nbytes)
{
    return reinterpret_cast<T *>(reinterpret_cast<uintptr_t>(p) + nbytes);
}

#endif
