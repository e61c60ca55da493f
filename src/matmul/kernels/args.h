/* The one argument struct of each kind of kernel of the products: the same in C and in kernels. */
#ifndef SYMM_MATMUL_KERNEL_ARGS_H
#define SYMM_MATMUL_KERNEL_ARGS_H

#include <symm/matmul.h>

/* Matrices as they lie in memory; strides in elements. */
typedef struct symm_matrix {
    void *data; /* NULL: not there */
    int64_t row, column, batch;
    uint32_t dtype, reserved;
} symm_matrix;

/*
 * All of A, [l, m, k]: this rank's rows where they are, the others' in the workspace, where each
 * rank has a slab of [l, its rows, ld]. Rows that are one after the other there, over the batches,
 * are counted through: what ranks send each other is a number of these.
 */
typedef struct symm_shards {
    symm_matrix own;
    char *workspace;      /* symmetric; NULL: own is everything */
    uint64_t slab_nbytes; /* from one rank's to the next one's */
    int64_t ld;
    int32_t m, k, l;
    int32_t rank, nranks; /* 0 and 1 where own is everything */
    uint32_t reserved;
} symm_shards;

/*
 * How rows are on their way. Those of a rank are cut into strips of rows, and these along k into
 * pieces: piece p of strip s is chunk s * pieces + p, and they are sent in this order. A chunk has
 * a channel of its own, on which a signal says that it is here. On channel `chunks` ranks tell each
 * other that their workspace may be written.
 */
typedef struct symm_rows_way {
    symm_signal_pad *pad;
    uint32_t strip_rows;     /* 0: everything is here */
    uint32_t piece;          /* of k, in elements; the last one of a strip may have fewer */
    uint32_t pieces, chunks; /* of a strip; of the most rows that a rank has */
} symm_rows_way;

/* A product, or the part of it that is the shards of steps first_step up to last_step. */
typedef struct symm_product_args {
    symm_shards a;
    symm_rows_way way;
    symm_matrix b[SYMM_MATMUL_MAX_B], c[SYMM_MATMUL_MAX_B], d[SYMM_MATMUL_MAX_B],
        bias[SYMM_MATMUL_MAX_B]; /* row of a bias: 0 */
    int32_t n[SYMM_MATMUL_MAX_B], nb;
    int32_t first_step, last_step;
    float alpha, beta;
    uint32_t activation, reserved;
    uint32_t *begun; /* blocks; NULL: nobody looks */
    symm_view view;
} symm_product_args;

/* The product on Hopper GPUs: its tiles, of any of the widths in kernels.def, and what it needs. */
enum {
    SYMM_WGMMA_ROWS = 128,
    SYMM_WGMMA_DEPTH = 64, /* of k, in 128 bytes */
    SYMM_WGMMA_LINE = 64,  /* columns, where B lies along them */
    SYMM_WGMMA_THREADS = 384,
    SYMM_WGMMA_SHARED_NBYTES = 5 * 40960 + 20480 /* stages, patches */
};

/* A CUtensorMap: a factor as the tensor copy unit finds it. */
typedef struct symm_tensor_map {
    uint64_t words[16];
} __attribute__((aligned(64))) symm_tensor_map;

typedef struct symm_wgmma_args {
    symm_tensor_map own, workspace, b[SYMM_MATMUL_MAX_B];
    symm_product_args product;
    uint32_t b_along_k; /* bit i: b[i] lies column after column; else row after row */
    uint32_t reserved;
} symm_wgmma_args;

/*
 * One block, before rows are sent: says to all others that the workspace may be written, and waits
 * for the same of them. If copies send the rows, it also writes the counts that they bring; if
 * blocks do, it clears what they count, and gives the product's blocks time to begin: the senders
 * are to have the multiprocessors that those leave.
 */
typedef struct symm_turn_args {
    symm_view view;
    symm_rows_way way;
    uint64_t *values; /* [nranks][chunks]: of a cell when the chunk has come there; or NULL */
    uint32_t *counts; /* see symm_push_args; or NULL */
    uint32_t *begun;  /* see symm_product_args; or NULL */
    uint32_t chunks;  /* of this rank's rows */
    uint32_t blocks;  /* of the product */
} symm_turn_args;

/*
 * Blocks that send: each takes the next slice, some rows of a chunk, until all are sent to
 * everyone. Who sends the last slice of a chunk signals.
 */
typedef struct symm_push_args {
    symm_view view;
    symm_rows_way way;
    const char *from; /* rows of row_nbytes, one after the other */
    char *to;         /* this rank's slab in its own workspace */
    uint64_t row_nbytes;
    uint64_t rows;
    uint32_t *counts; /* slices taken; and of each chunk to each other rank those that are sent */
    uint32_t slice_rows, slices; /* slices: of a chunk */
    uint32_t together;           /* shards that are multiplied at a time */
    uint32_t reserved;
} symm_push_args;

/* One block, at the end: takes all signals of the run, and clears what the product has counted. */
typedef struct symm_finish_args {
    symm_view view;
    symm_rows_way way;
    int32_t m, l;
    uint32_t *begun; /* see symm_product_args; or NULL */
} symm_finish_args;

/* All of A into one matrix. */
typedef struct symm_copy_rows_args {
    symm_shards from;
    symm_matrix to;
} symm_copy_rows_args;

#endif
