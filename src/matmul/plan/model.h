/*
 * Estimates of how long a run takes, for choices among correct plans only. Fitted to two H200 GPUs,
 * also right on four; the portable kernel's numbers are of one H100 (docs/performance.md). Pure.
 */
#ifndef SYMM_MATMUL_MODEL_H
#define SYMM_MATMUL_MODEL_H

#include "plan.h"

/* A tile of a kernel, and the blocks of a cluster, which have tiles below each other. */
struct symm_tile_shape {
    int rows, columns, cluster;
    int time; /* of a wave of such tiles on all SMs, for each element of k, in tile_us */
};

/* The shapes of the Hopper kernel, in the order of SYMM_WGMMA_SHAPES. */
extern const struct symm_tile_shape symm__wgmma_shapes[];
extern const int symm__nwgmma_shapes;
extern const struct symm_tile_shape symm__portable_shape;

/* The same of the kernel for plain products, in the order of SYMM_PLAIN_SHAPES. */
extern const struct symm_tile_shape symm__plain_shapes[];

/* A tile of the kernel that splits k, in the order of SYMM_SPLIT_SHAPES. */
struct symm_split_shape {
    int rows, columns, stages;
};
extern const struct symm_split_shape symm__split_shapes[];

/* The tiles of a product of all rows, one for each cluster. */
uint64_t symm__model_split_tiles(const struct symm_problem *p,
                                 const struct symm_split_shape *shape);

/* The time of a product by the kernel that splits k. columns: the maximum over the ranks. */
double symm__model_split_us(const struct symm_matmul_limits *limits, const struct symm_problem *p,
                            int64_t columns, const struct symm_split *split);

/*
 * The time to load the operands of several rows of tiles from L2. 0: there is one row of tiles.
 * Not for products that send packs: these load faster.
 */
double symm__model_split_loads_us(const struct symm_problem *p, int64_t columns,
                                  const struct symm_split *split);

/*
 * Picks the tile shape and the parts of k with the lowest estimated time. With same bits, k has one
 * part: the number of parts depends on the shape. waits: blocks wait for other ranks, so all of
 * them, and another such grid, must run at the same time; 0 parts: none can.
 */
struct symm_split symm__model_split(const struct symm_matmul_limits *limits,
                                    const struct symm_problem *p, int64_t columns, bool waits);

/*
 * The time of a product by the kernel for plain products with tiles of shape `plain`, from 1 on.
 * columns: the maximum over the ranks.
 */
double symm__model_plain_us(const struct symm_matmul_limits *limits, const struct symm_problem *p,
                            int64_t columns, int plain);
/* Picks the shape that is forced, or the one with the lowest estimated time. 0: none fits. */
int symm__model_plain(const struct symm_matmul_limits *limits, const struct symm_problem *p,
                      int64_t columns);

/*
 * Whether the blocks of a cluster share the k of the tiles of the last wave: with AUTO if that is
 * expected to be faster. ntiles: of all clusters; a cluster has `shape->cluster` of the tiles.
 */
bool symm__model_shares_k(const struct symm_problem *p, const struct symm_tile_shape *shape,
                          uint64_t ntiles, uint64_t clusters);

/*
 * The index of the fastest shape for the shards of steps [first_step, last_step). If the plan has
 * chunks, all shards but this rank's own are still arriving.
 */
int symm__model_shape(const struct symm_problem *p, const struct symm_matmul_plan *plan,
                      int first_step, int last_step);

/*
 * The times of runs with a plan; fused also: of a product alone, by symm's kernels. columns: the
 * maximum over the ranks.
 */
double symm__model_fused_us(const struct symm_matmul_limits *limits, const struct symm_problem *p,
                            int64_t columns, const struct symm_matmul_plan *plan);
/*
 * A product of this number of rows by cuBLASLt. If only all rows have been measured, and take
 * longer than estimated, so does a part of them.
 */
double symm__model_cublas_us(const struct symm_matmul_limits *limits, const struct symm_problem *p,
                             int64_t columns, int32_t rows);
/* All of a product, when its rows have arrived, by the plan's kernel of symm. */
double symm__model_own_us(const struct symm_matmul_limits *limits, const struct symm_problem *p,
                          int64_t columns, const struct symm_matmul_plan *plan);
/* The same by the multiplier that the plan prefers. */
double symm__model_product_us(const struct symm_matmul_limits *limits, const struct symm_problem *p,
                              int64_t columns, const struct symm_matmul_plan *plan);
/* The products by cuBLASLt. */
double symm__model_pipelined_us(const struct symm_matmul_limits *limits,
                                const struct symm_problem *p, int64_t columns,
                                const struct symm_matmul_plan *plan);
/* The product as symm__model_product_us() has it. */
double symm__model_unfused_us(const struct symm_matmul_limits *limits, const struct symm_problem *p,
                              int64_t columns, const struct symm_matmul_plan *plan);

/* The time of a run whose results are collected, with the plan's strategy. */
double symm__model_collected_us(const struct symm_matmul_limits *limits,
                                const struct symm_problem *p, int64_t columns,
                                const struct symm_matmul_plan *plan);

#endif
