/*
 * Reduces what copies have brought into this rank's own memory: one more kernel that waits for
 * nobody and touches no other rank's memory.
 */
#ifndef SYMM_LOCAL_REDUCE_KERNELS_CUH
#define SYMM_LOCAL_REDUCE_KERNELS_CUH

#include "arithmetic.cuh"
#include "kernel_args.h"

enum { LOADS_AT_ONCE = 4 };

/* n elements from `first` on, in the order of the ranks: an aligned pack, or a part of one. */
template <typename T, bool WHOLE>
SYMM_DEV void reduce_staged(const symm_local_reduce_args &a, uint64_t first, uint64_t n)
{
    const auto from = [&](int r) {
        const char *piece = a.staged + (uint64_t)(r < a.rank ? r : r - 1) * a.room;
        const T *p = reinterpret_cast<const T *>(r == a.rank ? a.own : piece) + first;
        return WHOLE ? symm_dev_load_bits(p) : load_pack(p, 0, n);
    };
    elements<T> sum;
    for (int r = 0; r < a.nranks; r += LOADS_AT_ONCE) {
        symm_bits16 x[LOADS_AT_ONCE];
#pragma unroll
        for (int i = 0; i < LOADS_AT_ONCE; i++)
            if (r + i < a.nranks)
                x[i] = from(r + i);
#pragma unroll
        for (int i = 0; i < LOADS_AT_ONCE; i++) {
            if (r + i == 0)
                sum = unpack<T>(x[i]);
            else if (r + i < a.nranks)
                fold(sum, unpack<T>(x[i]), a.op);
        }
    }
    finish(sum, a.op, a.nranks);
    store_pack(static_cast<T *>(a.out) + first, 0, n, pack(sum));
}

/*
 * out[i] = own[i] op the other ranks' staged[i]. All but `out` are aligned alike, so that packs are
 * counted from the first boundary of 16 bytes; what is before that is a part of one.
 */
template <typename T> SYMM_DEV void local_reduce(const symm_local_reduce_args &a)
{
    const uint64_t past = reinterpret_cast<uintptr_t>(a.own) % 16 / sizeof(T);
    const uint64_t head = past ? min(PACK<T> - past, a.count) : 0;
    const uint64_t whole = (a.count - head) / PACK<T>, tail = head + whole * PACK<T>;
    const uint64_t thread = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;

    for (uint64_t i = thread; i < whole; i += (uint64_t)gridDim.x * blockDim.x)
        reduce_staged<T, true>(a, head + i * PACK<T>, PACK<T>);
    if (thread == 0 && head)
        reduce_staged<T, false>(a, 0, head);
    if (thread == 0 && tail < a.count)
        reduce_staged<T, false>(a, tail, a.count - tail);
}

#endif
