/* Getting A's rows to the other ranks, and to where the caller wants them. */
#ifndef SYMM_MATMUL_GATHER_H
#define SYMM_MATMUL_GATHER_H

#include "runtime/group/call.h"
#include "runtime/group/group.h"
#include "runtime/group/side_stream.h"
#include "matmul/plan/plan.h"

/* A product, and how it goes. */
struct symm_matmul {
    struct symm_attachment attachment; /* of the group */
    struct symm_group *group;
    struct symm_problem problem;
    struct symm_matmul_plan plan;
    char *workspace; /* symmetric; NULL: none */
    symm_signal_pad *pad;
    uint64_t *values; /* what copies of counts read; NULL: copy engines send no rows */
    uint32_t *counts; /* what blocks that send, and the product then, count in; NULL: none do */
    bool wgmma;       /* the Hopper kernel may be taken, for data that suit it */
    uint64_t number;  /* of the group's products, the same on all ranks */
    struct symm_cublas_product *cublas; /* for data that suit it; NULL: by symm's kernels only */
};

/* One run of it. */
struct symm_matmul_run {
    const struct symm_matmul *m;
    struct symm_call *e;
    struct symm_problem problem; /* with its data */
    symm_shards shards;          /* A as the product finds it */
    bool sends;                  /* rows may be on their way */
};

/* Of m's counts. */
uint64_t symm__gather_ncounts(const struct symm_matmul *m);
/* Where the product's blocks count themselves when they begin; or NULL. */
uint32_t *symm__gather_begun(const struct symm_matmul *m);

/* How rows are on their way, for kernels. */
symm_rows_way symm__gather_way(const struct symm_matmul *m);

/*
 * Says where this run's A is. Where this rank's rows cannot be sent as they lie, they are first
 * copied into its workspace.
 */
symm_status symm__gather_begin(struct symm_matmul_run *run);

/* Sends this rank's rows to all others on the side stream, which follows the last mark. */
symm_status symm__gather_push(struct symm_matmul_run *run, struct symm_side_stream *side);

/* The end of a run that has pushed, on the same side stream, after its products. */
symm_status symm__gather_finish(struct symm_matmul_run *run, struct symm_side_stream *side);

/* All rows, by an all-gather. */
symm_status symm__gather_all(struct symm_matmul_run *run);

/* Writes all of A to a matrix, if that has data; all rows are here. */
symm_status symm__gather_copy(const struct symm_matmul_run *run, const symm_matrix *to);

#endif
