/* The table of senders, and the helpers that they share with the rest of the transport. */
#ifndef SYMM_MATMUL_SENDER_H
#define SYMM_MATMUL_SENDER_H

#include "ids.h"
#include "transport.h"

struct symm_sender_ops {
    /* Bytes of the sender's counters in symmetric memory; stores their address. */
    uint64_t (*nbytes)(const struct symm_transport *t);
    void (*set_memory)(struct symm_transport *t, void *memory);
    bool needs_sms; /* a second side stream, of low priority */
    /* Enqueues the transfers on the side stream, after the kernel that opens the round. */
    symm_status (*push)(const struct symm_round *round, CUstream stream);
};
extern const struct symm_sender_ops symm__copy_engines, symm__sender_sms;

/* Bytes of a row in the workspace. Rows of this rank, over all batches, and their chunks. */
uint64_t symm__transport_row_nbytes(const struct symm_transport *t);
uint64_t symm__transport_own_rows(const struct symm_transport *t);
uint32_t symm__transport_own_chunks(const struct symm_transport *t);
/* A rank's slab in this rank's workspace. */
char *symm__transport_slab(const struct symm_transport *t, int rank);

/* Reduces a block to full warps that fit all ranks' devices. */
uint32_t symm__transport_threads(const struct symm_transport *t, int nthreads);
/* Launches a kernel of the call on another stream than the caller's. */
symm_status symm__transport_launch(const struct symm_call *call, CUstream stream,
                                   symm_kernel_id kernel, uint32_t blocks, uint32_t threads,
                                   const void *args);

enum { SYMM_WARP = 32 };

#endif
