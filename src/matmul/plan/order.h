/* The order of the tiles of products whose results go to owners. Pure. */
#ifndef SYMM_MATMUL_ORDER_H
#define SYMM_MATMUL_ORDER_H

#include "problem.h"

/* The steps of a product with this sink: one for each owner of results, or for each shard of A. */
int symm__steps_of(const struct symm_problem *p, uint32_t sink);

/* The rows of an owner's sums: with SYMM_TO_ALL each rank owns all of them. */
int32_t symm__rows_of_owner(const struct symm_problem *p, uint32_t sink, int owner);

/* Tiles of rows x columns in an owner's rows of all results. */
uint64_t symm__tiles_of_owner(const struct symm_problem *p, uint32_t sink, int owner, int rows,
                              int columns);

/* Tiles of rows x columns in steps [first, last) of a product with this sink. */
uint64_t symm__tiles_of_steps(const struct symm_problem *p, uint32_t sink, int first, int last,
                              int rows, int columns);

/*
 * The tiles of a launch with these args and tiles of rows x columns, and their order. The device
 * computes `wave` tiles at a time. A band has `band` rows of tiles. The order of steps if the
 * launch has the rows of some owners only, or if this rank has no more tiles of its own than a
 * wave.
 */
symm_tile_order symm__tile_order(const struct symm_problem *p, const symm_product_args *args,
                                 int rows, int columns, uint32_t wave, uint32_t band);

#endif
