/* The switch as a source of sums. Compiled for GPUs, run under the emulated driver only. */
#ifndef SYMM_SWITCH_CUH
#define SYMM_SWITCH_CUH

#include "parts.cuh"

/*
 * Has the switch reduce what lies at the same place in every rank's memory. It does not compare
 * floats and doubles. AT_ONCE packs are worked on together.
 */
template <typename T> struct multimem {
    static constexpr int AT_ONCE = 8;

    template <int U>
    SYMM_DEV void reduce(const symm_view &v, const T *in, uint64_t stride, uint32_t op,
                         symm_bits16 (&sum)[U])
    {
        const T *at = symm_dev_multicast(v, in);
        if constexpr (!IS_WIDE_FLOAT<T>) {
            if (op == SYMM_MIN)
                return load<SYMM_MIN>(at, stride, sum);
            if (op == SYMM_MAX)
                return load<SYMM_MAX>(at, stride, sum);
        }
        load<SYMM_SUM>(at, stride, sum);
        if (op == SYMM_AVG)
#pragma unroll
            for (int u = 0; u < U; u++) {
                elements<T> x = unpack<T>(sum[u]);
                finish(x, op, v.nranks);
                sum[u] = pack(x);
            }
    }

    template <symm_redop OP, int U>
    SYMM_DEV void load(const T *multicast, uint64_t stride, symm_bits16 (&sum)[U])
    {
#pragma unroll
        for (int u = 0; u < U; u++)
            sum[u] = symm_dev_multimem_reduce<OP>(multicast + u * stride);
    }
};

#endif
