/* Arguments and modes of the kernels of symm-bench p2p. */
#ifndef SYMM_BENCH_P2P_ARGS_H
#define SYMM_BENCH_P2P_ARGS_H

#include <symm/types.h>

enum { P2P_THREADS_MAX = 512, P2P_SHARED_BYTES = 32 << 10 };

/* How a kernel moves bytes. */
enum {
    P2P_STORE, /* local loads, remote stores */
    P2P_LOAD,  /* remote loads, local stores */
    P2P_BULK_PUT,
    P2P_BULK_GET
};

/* Slice i of a buffer of nbytes goes to, or comes from, the same place on rank[i]. */
typedef struct p2p_args {
    symm_view view;
    symm_signal_pad *pad;
    char *src, *dst;
    symm_packet *slots;
    uint32_t *wrong; /* of this rank */
    uint64_t nbytes;
    uint32_t seed, rounds;
    int32_t mode, nslices;
    int32_t rank[SYMM_MAX_RANKS];
} p2p_args;

#endif
