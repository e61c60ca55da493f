/* The order of the tiles of products whose results go to owners. Pure. */
#ifndef SYMM_MATMUL_ORDER_H
#define SYMM_MATMUL_ORDER_H

#include "problem.h"

/* Tiles of rows x columns in an owner's rows of all results. */
uint64_t symm__tiles_of_owner(const struct symm_problem *p, int owner, int rows, int columns);

/*
 * The order of a launch with these args and tiles of rows x columns. The device computes `wave`
 * tiles at a time. The order of steps if the launch has the rows of some owners only, or if this
 * rank has no more tiles of its own than a wave.
 */
symm_mixed_order symm__mixed_order(const struct symm_problem *p, const symm_product_args *args,
                                   int rows, int columns, uint32_t wave);

#endif
