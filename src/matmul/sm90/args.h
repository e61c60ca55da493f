/* The argument struct and the launch parameters of the Hopper kernel: for C and for kernels. */
#ifndef SYMM_MATMUL_SM90_ARGS_H
#define SYMM_MATMUL_SM90_ARGS_H

#include "matmul/kernels/args.h"
#include "matmul/kernels/sm90_tiles.h"

enum {
    SYMM_WGMMA_BOX_ROWS = 16,                    /* of a box of results */
    SYMM_WGMMA_STAGES_NBYTES = 192 * 1024,       /* at most */
    SYMM_WGMMA_PLAIN_SHARED_NBYTES = 220 * 1024, /* stages, the epilogue */
    SYMM_WGMMA_SHARED_NBYTES = 224 * 1024,       /* the same with parts: more boxes */
    SYMM_PLAIN_SHARED_NBYTES = 226 * 1024        /* of the kernel for plain products */
};

#define SYMM_SPLIT_SHARED_NBYTES(rows, columns, stages)                                            \
    ((stages) * ((rows) + (columns)) * SYMM_WGMMA_DEPTH * 2)

/* A CUtensorMap: an operand as the tensor memory accelerator (TMA) addresses it. */
typedef struct symm_tensor_map {
    uint64_t words[16];
} __attribute__((aligned(64))) symm_tensor_map;

typedef struct symm_wgmma_args {
    symm_tensor_map own, workspace, b[SYMM_MATMUL_MAX_B];
    /* With parts that the product adds: D, and the slots on this rank and on the other one. */
    symm_tensor_map d[SYMM_MATMUL_MAX_B], slots[SYMM_MATMUL_MAX_B], others[SYMM_MATMUL_MAX_B];
    symm_product_args product;
    uint32_t b_along_k; /* bit i: b[i] is column-major; else row-major */
    /* Of the kernel that splits k: the blocks that share a tile's k; rows of a box of A. */
    uint32_t k_parts, rows_loaded;
    uint32_t constant_b; /* it loads B before the kernel in front of it has ended */
    /* Of the other kernel: from this place on, the blocks of a cluster share a tile's k. */
    uint32_t shared_from;
} symm_wgmma_args;

#endif
