/* The order of the tiles of products whose results go to owners. Pure. */
#ifndef SYMM_MATMUL_ORDER_H
#define SYMM_MATMUL_ORDER_H

#include "problem.h"

/*
 * Of a launch with these args, and tiles of rows x columns of which `wave` are computed at a time:
 * if it has the rows of all owners, and this rank more tiles of its own than a wave. Else the order
 * of steps.
 */
symm_mixed_order symm__mixed_order(const struct symm_problem *p, const symm_product_args *args,
                                   int rows, int columns, uint32_t wave);

#endif
