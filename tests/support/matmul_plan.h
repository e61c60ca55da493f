/* Many products, each with every strategy: the results are right, and the bits are equal. */
#ifndef TEST_MATMUL_PLAN_H
#define TEST_MATMUL_PLAN_H

#include "matmul.h"
#include "matmul/kernels/sm90_tiles.h"

/* The shapes of tiles of the Hopper kernel. */
#define MATMUL_SHAPE_(unused, rows, columns, blocks) +1
enum {
    MATMUL_SHAPES = 0 SYMM_WGMMA_SHAPES(MATMUL_SHAPE_, ),
    MATMUL_PLAIN_SHAPES = 0 SYMM_PLAIN_SHAPES(MATMUL_SHAPE_, ) /* of plain products */
};

struct matmul_plan {
    int first, ncases;
    const struct matmul_case *cases; /* NULL: they are drawn */
    bool collected;                  /* of the kinds whose results are collected */
    bool any_bits; /* strategies may round differently: each is compared with the reference */
};

/*
 * A rank's function: runs a struct matmul_plan in a world of its own, and checks that no memory is
 * left allocated. Counts cases in value[0] of the report.
 */
void matmul_run_plan(struct rank *self, void *plan);

/* Sets the emulated driver to weakly ordered memory, small blocks and a seed of this run. */
void matmul_weaken_memory(int seed_offset);
/* From now on the Hopper kernel has tiles of this shape: index % MATMUL_SHAPES. */
void matmul_force_shape(int index);
/* The same of plain products: index % MATMUL_PLAIN_SHAPES. */
void matmul_force_plain(int index);
/* Launches of the Hopper kernel on this rank, of any shape. */
int matmul_hopper_launches(int rank);

#endif
