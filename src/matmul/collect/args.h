/* The argument struct of the collecting kernels: the same for C and for kernels. */
#ifndef SYMM_MATMUL_COLLECT_ARGS_H
#define SYMM_MATMUL_COLLECT_ARGS_H

#include "matmul/kernels/args.h"

/*
 * Collects the results of all ranks' products. The ranks read each other's workspaces. Block b
 * meets block b of the other ranks on channel b, so all grids are equal.
 */
typedef struct symm_collect_args {
    symm_product_args product; /* the transform of sums, and D, both in place; a: only m, k and l */
    symm_signal_pad *pad;
    /* In each workspace: the rank's partial sums [l, m, n], or its columns of D [l, m, its n]. */
    symm_matrix of_rank[SYMM_MATMUL_MAX_B];
    /*
     * From one rank's slot to the next one's, if all ranks' results are in slots here. of_rank[i]
     * is then the slot of rank 0: its columns, or its partial sums of this rank's rows
     * [l, its rows, n]. 0: no slots.
     */
    uint64_t slot_nbytes[SYMM_MATMUL_MAX_B];
    symm_matrix sums[SYMM_MATMUL_MAX_B]; /* and its rows of an all-reduce's D [l, its m, n] */
    int32_t d_columns[SYMM_MATMUL_MAX_B];
    int32_t rank, nranks;
} symm_collect_args;

#endif
