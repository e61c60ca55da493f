/*
 * How a product runs: strategy, sender, chunks, grid. Pure: computed only from values that all
 * ranks have agreed on, because a rank must know how the other ranks send.
 */
#ifndef SYMM_MATMUL_PLAN_H
#define SYMM_MATMUL_PLAN_H

#include "problem.h"

/*
 * The smallest strip that copy engines send. A copy and the copy of its counter behind it take 5 us
 * longer than the bytes: the time of 2 MiB.
 */
#define SYMM_MATMUL_CHUNK_NBYTES ((uint64_t)8 << 20)
/* The same for a chunk that is a piece along k, with which the product can begin. */
#define SYMM_MATMUL_PIECE_NBYTES ((uint64_t)2 << 20)

/* The sender of the rows of a fused or pipelined run. */
enum symm_sender { SYMM_SENDER_SMS, SYMM_SENDER_COPY_ENGINES, SYMM_SENDERS };

struct symm_matmul_limits {
    int nsms, max_threads; /* the minimum over the ranks' devices */
    bool cublas;           /* all ranks use cuBLASLt for the product after an all-gather */
    /*
     * Measured times of products without communication, on the slowest rank; 0: by estimate. Of all
     * rows, by cuBLASLt or by symm's kernels, if they are faster; of the rows of one rank, by
     * cuBLASLt; of all rows, by symm's kernels.
     */
    double cublas_us, share_us, own_us;
    bool wgmma;     /* at least one rank may use the Hopper kernel */
    bool split;     /* all ranks may use the kernel that splits k */
    int shape;      /* of its tiles, from 1 on, on all ranks; 0: by estimate */
    int plain;      /* the same of the kernel for plain products; -1: never that kernel */
    bool only_sums; /* on all ranks: see symm__only_sums() */
    bool multicast; /* the group has it */
    /* The time of the group's collectives for the sums of an unfused run; 0: they cannot add. */
    double sums_us;
    /* Copy engines send shards of at least this, in chunks of at least this; 0: by estimate. */
    uint64_t engine_nbytes;
};

/* Parameters of the kernel that splits k: the index of its tile shape, and the parts of k. */
struct symm_split {
    int shape, k_parts; /* 0 parts: the product is by another multiplier */
};

struct symm_matmul_plan {
    symm_strategy strategy; /* AUTO: nothing is communicated */
    enum symm_sender sender;
    uint32_t comm_sms;   /* SMs without a block of the product */
    uint32_t strip_rows; /* see symm_arrival_plan; 0: all rows are present */
    uint32_t k_piece, k_pieces, chunks;
    uint32_t shards_interleaved; /* shards whose chunks are sent alternately */
    uint32_t blocks, threads;    /* of the product */
    uint32_t band;               /* rows of tiles, or of clusters, in a band */
    symm_sink sink;              /* of the product */
    bool collective;             /* the group's collectives make D from the partial sums */
    symm_sums sums;              /* of a product whose results are collected */
    int shape; /* of the Hopper kernel's tiles, from 1 on; 0: by estimate at each launch */
    int plain; /* of the kernel for plain products, from 1 on; 0: not by this kernel */
    struct symm_split split;
    int64_t ld; /* of the workspace, in elements */
    uint64_t slab_nbytes, workspace_nbytes;
};

/* Whether the product's tiles are signalled one by one: all ranks have the same tiles then. */
bool symm__signals_tiles(const struct symm_matmul_plan *plan);

/* Whether all rows can be one matrix before the product begins. */
bool symm__rows_are_gathered(const struct symm_problem *p);

/*
 * Whether the kernel for plain products may compute this one when all rows are one matrix: D gets
 * alpha times the sums of one product, 16 bits wide.
 */
bool symm__is_plain(const struct symm_problem *p);

/* Elements from one row of a workspace to the next. */
int64_t symm__matmul_ld(int32_t k);

/* columns, and of a reduction p's k: the maximum over the ranks. */
struct symm_matmul_plan symm__matmul_plan(const struct symm_matmul_limits *limits,
                                          const struct symm_problem *p, int64_t columns);
/* The same of a product whose results are collected. */
struct symm_matmul_plan symm__matmul_plan_collected(const struct symm_matmul_limits *limits,
                                                    const struct symm_problem *p, int64_t columns);

#endif
