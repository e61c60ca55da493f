/*
 * y = rmsnorm(sum over ranks of x + bias) * gain, in one kernel: an all-reduce whose result never
 * goes through memory. Rank r owns the rows r, r + nranks, ... and writes them on every rank.
 */
#include <symm/device.cuh>
#include "fused.h"

SYMM_KERNEL(all_reduce_bias_rmsnorm, norm_args, a, NORM_THREADS)
{
    enum { T = 8 }; /* bf16s in a pack */
    const symm_view &v = a.view;
    const bool multicast = symm_dev_has_multicast(v);
    const int stride = (int)blockDim.x * T;

    symm_dev_barrier(v, a.pad, blockIdx.x); /* everyone's x is written */
    if (symm_dev_aborted(v))
        return; /* what follows writes into the others' memory */
    for (int row = blockIdx.x * v.nranks + v.rank; row < a.rows; row += gridDim.x * v.nranks) {
        const size_t at = (size_t)row * a.hidden;
        symm_f32s<symm_bf16> sum[NORM_PACKS];
        float squares = 0;
#pragma unroll
        for (int p = 0; p < NORM_PACKS; p++) {
            const int i = p * stride + (int)threadIdx.x * T;
            if (i >= a.hidden)
                break;
            const symm_f32s<symm_bf16> bias = symm_dev_load(a.bias + i);
            sum[p] = multicast ? symm_dev_multimem_sum(symm_dev_multicast(v, a.x + at + i))
                               : symm_dev_sum(v, a.x + at + i);
            for (int e = 0; e < T; e++) {
                sum[p].e[e] += bias.e[e];
                squares += sum[p].e[e] * sum[p].e[e];
            }
        }
        const float scale = rsqrtf(symm_dev_block_sum(squares) / a.hidden + a.eps);
#pragma unroll
        for (int p = 0; p < NORM_PACKS; p++) {
            const int i = p * stride + (int)threadIdx.x * T;
            if (i >= a.hidden)
                break;
            const symm_f32s<symm_bf16> gain = symm_dev_load(a.gain + i);
            for (int e = 0; e < T; e++)
                sum[p].e[e] *= scale * gain.e[e];
            if (multicast)
                symm_dev_multimem_store(symm_dev_multicast(v, a.y + at + i), sum[p]);
            else
                symm_dev_store_all(v, a.y + at + i, sum[p]);
        }
    }
    symm_dev_barrier(v, a.pad, blockIdx.x); /* everyone's y is written */
}
