/*
 * Reduces the elements that copies have put into this rank's staging area. It waits for no rank and
 * touches no other rank's memory.
 */
#ifndef SYMM_LOCAL_REDUCE_KERNELS_CUH
#define SYMM_LOCAL_REDUCE_KERNELS_CUH

#include "arithmetic.cuh"
#include "args.h"

enum { LOADS_AT_ONCE = 4 };

/* Pack number i, in the order of the ranks; ALIGNED: it is whole and aligned. */
template <typename T, bool ALIGNED>
SYMM_DEV void reduce_staged(const symm_local_reduce_args &a, uint64_t i)
{
    const auto from = [&](int r) {
        const char *piece = a.staged + (uint64_t)(r < a.rank ? r : r - 1) * a.stride;
        const T *p = reinterpret_cast<const T *>(r == a.rank ? a.own : piece);
        const symm_bits16 x =
            ALIGNED ? symm_dev_load_bits(p + i * PACK<T>) : load_pack(p, i, a.count);
        return r == a.rank && a.scale.on ? times<T>(x, factor_of<T>(a.scale)) : x;
    };
    elements<T> sum;
    for (int r = 0; r < a.nranks; r += LOADS_AT_ONCE) {
        symm_bits16 x[LOADS_AT_ONCE];
#pragma unroll
        for (int k = 0; k < LOADS_AT_ONCE; k++)
            if (r + k < a.nranks)
                x[k] = from(r + k);
#pragma unroll
        for (int k = 0; k < LOADS_AT_ONCE; k++) {
            if (r + k == 0)
                sum = unpack<T>(x[k]);
            else if (r + k < a.nranks)
                fold(sum, unpack<T>(x[k]), a.op);
        }
    }
    finish(sum, a.op, a.nranks);
    store_pack(static_cast<T *>(a.out), i, a.count, pack(sum));
}

/*
 * out[i] = own[i] op the other ranks' staged[i]. The staged ones are aligned. own and out need not
 * be: then it is slower.
 */
template <typename T> SYMM_DEV void local_reduce(const symm_local_reduce_args &a)
{
    const bool aligned = reinterpret_cast<uintptr_t>(a.own) % 16 == 0;
    const uint64_t packs = ceil_div(a.count, PACK<T>), whole = aligned ? a.count / PACK<T> : 0;
    const uint64_t thread = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x,
                   threads = (uint64_t)gridDim.x * blockDim.x;

    for (uint64_t i = thread; i < whole; i += threads)
        reduce_staged<T, true>(a, i);
    for (uint64_t i = whole + thread; i < packs; i += threads)
        reduce_staged<T, false>(a, i);
}

#endif
