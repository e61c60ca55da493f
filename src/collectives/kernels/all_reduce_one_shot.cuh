/* one_shot: every rank reads the elements of all ranks in place, between two barriers. */
#ifndef SYMM_ALL_REDUCE_ONE_SHOT_CUH
#define SYMM_ALL_REDUCE_ONE_SHOT_CUH

#include "by_reading.cuh"

/*
 * A source of sums: loads from every rank. AT_ONCE packs are loaded at a time, so that about eight
 * loads are in flight. Each rank reads in an order of its own, see other_rank().
 */
template <typename T, int R> struct unicast {
    static constexpr int AT_ONCE = R ? 8 / R : 1;

    /* Reduces the packs at in + u * stride to sum[u]. */
    template <int U>
    SYMM_DEV void reduce(const symm_view &v, const T *in, uint64_t stride, uint32_t op,
                         symm_bits16 (&sum)[U])
    {
        if constexpr (R == 0) {
            static_assert(U == 1, "a loop over the ranks has one pack at a time");
            sum[0] = reduce_ranks<T>(
                v.nranks, op, [&](int r) { return symm_dev_load_bits(symm_dev_peer(v, in, r)); });
        } else {
            symm_bits16 x[U][R];
#pragma unroll
            for (int i = 0; i < R; i++) {
                const T *from = symm_dev_peer(v, in, v.rank ^ i);
#pragma unroll
                for (int u = 0; u < U; u++)
                    x[u][i] = symm_dev_load_bits(from + u * stride);
            }
#pragma unroll
            for (int u = 0; u < U; u++)
                sum[u] = reduce_all<T>(x[u], v.rank, op);
        }
    }
};

template <typename T, int R> SYMM_DEV void all_reduce_one_shot(const symm_collective_args &a)
{
    all_reduce_by_reading<unicast<T, R>, false, T>(a);
}

#endif
