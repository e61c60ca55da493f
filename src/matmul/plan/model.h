/*
 * How long a run takes, estimated: for choices among what is right in any case. The numbers are of
 * two H200 GPUs and fit four, the portable kernel's of one H100 (docs/performance.md). Pure.
 */
#ifndef SYMM_MATMUL_MODEL_H
#define SYMM_MATMUL_MODEL_H

#include "plan.h"

/* A tile of a product's kernel, and how many blocks of a cluster have tiles below each other. */
struct symm_tile_shape {
    int columns, cluster;
    int time; /* of such tiles, when all multiprocessors have one: for each of k, in tile_us */
};

/* Those of the Hopper kernel, in the order of kernels.def. */
extern const struct symm_tile_shape symm__wgmma_shapes[];

/*
 * Which of them is the fastest for the shards of these steps, of which all but this rank's own are
 * on their way if the plan has chunks.
 */
int symm__model_shape(const struct symm_problem *p, const struct symm_matmul_plan *plan,
                      int first_step, int last_step);

/* Of a fused run, with rows sent as the plan has it. columns: the most that any rank has. */
double symm__model_us(const struct symm_matmul_limits *limits, const struct symm_problem *p,
                      int64_t columns, const struct symm_matmul_plan *plan);

/* fused or unfused: what takes less. */
symm_strategy symm__model_strategy(const struct symm_matmul_limits *limits,
                                   const struct symm_problem *p, int64_t columns,
                                   const struct symm_matmul_plan *plan);

#endif
