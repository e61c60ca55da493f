/*
 * How a product runs: its strategy, how rows are sent, its grid. Pure: computed from what all ranks
 * have agreed on alone, since a rank must know how the others send.
 */
#ifndef SYMM_MATMUL_PLAN_H
#define SYMM_MATMUL_PLAN_H

#include "problem.h"

struct symm_matmul_machine {
    int nsms, max_threads; /* of each rank's device, the least */
    int compute_major;     /* the lowest */
    /* From so many bytes on copy engines send a rank's rows; 0: as usual. */
    uint64_t engine_nbytes;
};

struct symm_matmul_plan {
    symm_strategy strategy; /* AUTO: nothing is gathered */
    bool by_engine;         /* copy engines send the rows; else blocks do */
    int32_t parts;          /* senders of a rank */
    uint32_t chunk_rows;
    uint32_t blocks, threads; /* of the product */
    int64_t ld;               /* of the workspace, in elements */
    uint64_t slab_nbytes, workspace_nbytes;
};

/* columns: the most that any rank has. */
struct symm_matmul_plan symm__matmul_plan(const struct symm_matmul_machine *machine,
                                          const struct symm_problem *p, int64_t columns);

#endif
