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
 * How rows are on their way. Each of `parts` senders of a rank brings its part of a chunk of rows,
 * chunk after chunk, and signals on its channel after each: so n signals on all of them say that
 * the first n chunks are here. On channel `parts` ranks tell each other that their workspace may be
 * written.
 */
typedef struct symm_rows_way {
    symm_signal_pad *pad;
    int32_t parts;
    uint32_t chunk_rows; /* 0: everything is here */
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
 * for the same of them. If copies send the rows, it also writes the counts that they bring.
 */
typedef struct symm_turn_args {
    symm_view view;
    symm_rows_way way;
    uint64_t *values; /* [nranks][chunks]: of a cell when a chunk has come there */
    uint32_t chunks;  /* of this rank's rows; 0: blocks send them, and count themselves */
    uint32_t reserved;
} symm_turn_args;

/* A block is a sender: it brings its part of every chunk to everyone. */
typedef struct symm_push_args {
    symm_view view;
    symm_rows_way way;
    const char *from; /* rows of ld elements, one after the other */
    char *to;         /* this rank's slab in its own workspace */
    uint64_t row_nbytes;
    uint64_t rows;
} symm_push_args;

/* One block, at the end: takes all signals of the run. */
typedef struct symm_finish_args {
    symm_view view;
    symm_rows_way way;
    int32_t m, l;
} symm_finish_args;

/* All of A into one matrix. */
typedef struct symm_copy_rows_args {
    symm_shards from;
    symm_matrix to;
} symm_copy_rows_args;

#endif
