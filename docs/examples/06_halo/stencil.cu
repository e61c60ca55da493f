/*
 * One step of Jacobi's iteration: every element becomes the mean of its four neighbours, and the
 * edge of the whole grid stays. The rows at the border are computed first and go straight into the
 * neighbours' halos; while they travel, the rows inside are computed.
 */
#include <symm/device.cuh>
#include "stencil.h"

SYMM_DEV float at(const stencil_args &a, int row, int column)
{
    return symm_dev_load_one(a.in + (size_t)row * a.pitch + column);
}

/* Four new elements of a row. */
SYMM_DEV symm_f32s<float> relax(const stencil_args &a, int row, int column)
{
    symm_f32s<float> x;

    for (int e = 0; e < 4; e++) {
        const int c = column + e;
        if (c == 0 || c >= a.columns - 1)
            x.e[e] = at(a, row, c); /* the edge */
        else
            x.e[e] = 0.25f * (at(a, row, c - 1) + at(a, row, c + 1) + at(a, row - 1, c) +
                              at(a, row + 1, c));
    }
    return x;
}

/* Both buffers take turns, so nothing more than the signals is needed: who has my signal of a step
 * knows that I am done with the halo that it will write next. */
SYMM_KERNEL(stencil, stencil_args, a, 256)
{
    const symm_view &v = a.view;
    const int above = v.rank - 1, below = v.rank + 1 < v.nranks ? v.rank + 1 : -1;
    const int first = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    const int stride = (int)(gridDim.x * blockDim.x), packs = a.pitch / 4;
    const bool border = (int)(blockIdx.x * blockDim.x) < packs; /* this block has a part of it */

    if (symm_dev_aborted(v))
        return; /* the neighbours' memory may be in other use */

    /* The border: the same block of each rank computes the same columns. */
    for (int c = 4 * first; c < a.pitch; c += 4 * stride) {
        float *const top = a.out + a.pitch + c, *const bottom = a.out + a.rows * a.pitch + c;
        const symm_f32s<float> x = relax(a, 1, c), y = relax(a, a.rows, c);
        symm_dev_store(top, x);
        symm_dev_store(bottom, y);
        if (above >= 0)
            symm_dev_store(symm_dev_peer(v, a.out + (a.rows_above + 1) * a.pitch + c, above), x);
        if (below >= 0)
            symm_dev_store(symm_dev_peer(v, a.out + c, below), y);
    }
    __syncthreads(); /* a signal covers what its block wrote before */
    if (border && threadIdx.x == 0) {
        if (above >= 0)
            symm_dev_signal(v, a.pad, blockIdx.x, above);
        if (below >= 0)
            symm_dev_signal(v, a.pad, blockIdx.x, below);
    }

    /* The inside. */
    for (int i = first; i < (a.rows - 2) * packs; i += stride) {
        const int row = 2 + i / packs, c = 4 * (i % packs);
        symm_dev_store(a.out + row * a.pitch + c, relax(a, row, c));
    }

    /* My own halo, for the next step. */
    if (border && threadIdx.x == 0) {
        if (above >= 0)
            symm_dev_wait(v, a.pad, blockIdx.x, above);
        if (below >= 0)
            symm_dev_wait(v, a.pad, blockIdx.x, below);
    }
}
