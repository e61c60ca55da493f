/*
 * How a product runs: its strategy, how rows are sent, its grid. Pure: computed from what all ranks
 * have agreed on alone, since a rank must know how the others send.
 */
#ifndef SYMM_MATMUL_PLAN_H
#define SYMM_MATMUL_PLAN_H

#include "problem.h"

/*
 * Copy engines send chunks of no less than these bytes: a copy and that of the count behind it cost
 * some 5 us beside the bytes, in which 2 MiB could have come.
 */
#define SYMM_MATMUL_CHUNK_NBYTES ((uint64_t)16 << 20)
/* Or pieces along k of these, which the product can begin with. */
#define SYMM_MATMUL_PIECE_NBYTES ((uint64_t)2 << 20)

struct symm_matmul_limits {
    int nsms, max_threads; /* of each rank's device, the least */
    bool cublas;           /* all ranks leave the product after an all-gather to cuBLASLt */
    bool wgmma;            /* any rank's products may be the Hopper kernel's */
    /* From so many bytes on copy engines send a rank's rows, in chunks of them; 0: by estimate. */
    uint64_t engine_nbytes;
};

struct symm_matmul_plan {
    symm_strategy strategy; /* AUTO: nothing is gathered */
    bool by_engine;         /* copy engines send the rows; else blocks do */
    uint32_t free;          /* multiprocessors that the product has no block for */
    uint32_t strip_rows;    /* see symm_rows_way; 0: nothing is on its way */
    uint32_t piece, pieces, chunks;
    uint32_t together;        /* shards that are sent a piece of each by turns */
    uint32_t blocks, threads; /* of the product */
    int64_t ld;               /* of the workspace, in elements */
    uint64_t slab_nbytes, workspace_nbytes;
};

/* Elements from one row of k to the next in a workspace. */
int64_t symm__matmul_ld(int32_t k);

/* columns: the most that any rank has. */
struct symm_matmul_plan symm__matmul_plan(const struct symm_matmul_limits *limits,
                                          const struct symm_problem *p, int64_t columns);

/*
 * A matrix as tensor copy units see it: lines of elements, one after the other; strides are in
 * elements.
 */
struct symm_lines {
    const void *data;
    int64_t along, lines, batches; /* extents */
    int64_t pitch, batch;          /* strides, of which there are none to lines and batches of 1 */
};

/* Elements of a row lie one after the other; or those of a column. */
struct symm_lines symm__lines_of_rows(const symm_matrix *x, int64_t rows, int64_t columns,
                                      int64_t l);
struct symm_lines symm__lines_of_columns(const symm_matrix *x, int64_t rows, int64_t columns,
                                         int64_t l);

/* Whether this run, with A where `a` says, may be left to the Hopper kernel: not with alpha 0. */
bool symm__matmul_suits_wgmma(const struct symm_problem *p, const symm_shards *a);

#endif
