/* The argument structs of the transport's kernels: the same for C and for kernels. */
#ifndef SYMM_MATMUL_TRANSPORT_ARGS_H
#define SYMM_MATMUL_TRANSPORT_ARGS_H

#include "matmul/kernels/args.h"

/* Opens the round of a run. One block. */
typedef struct symm_open_round_args {
    symm_view view;
    symm_arrival_plan arrivals;
    uint64_t *signal_values;         /* [nranks][chunks], see symm_transport; NULL: SMs send */
    uint32_t *tickets;               /* see symm_push_args; NULL: copy engines send */
    const symm_round_state *product; /* senders let its blocks begin first; NULL: they need not */
    uint32_t chunks;                 /* of this rank's rows */
    uint32_t blocks;                 /* of the product */
} symm_open_round_args;

/* Sends this rank's rows. The blocks share the work in units: some rows of a chunk. */
typedef struct symm_push_args {
    symm_view view;
    symm_arrival_plan arrivals;
    const char *from; /* contiguous rows of row_nbytes */
    char *workspace;  /* symmetric */
    uint64_t slab_nbytes;
    uint64_t row_nbytes;
    uint64_t rows;
    uint32_t *tickets; /* units taken; then for each chunk to each other rank the units sent */
    uint32_t unit_rows, units; /* units: of a chunk */
    uint32_t shards_interleaved;
    uint32_t reserved;
} symm_push_args;

/* Waits for all rows of a rank. One block. */
typedef struct symm_await_rows_args {
    symm_view view;
    symm_arrival_plan arrivals;
    symm_round_state *round;
    int32_t m, l, shard;
    uint32_t last; /* the run waits for no more rows */
} symm_await_rows_args;

/* Copies all of A into one matrix. */
typedef struct symm_copy_rows_args {
    symm_shards from;
    symm_matrix to;
    uint32_t row_blocks, reserved; /* that share a row; the grid has a multiple of them */
} symm_copy_rows_args;

#endif
