/* The tiles of the portable product: for C and for kernels. */
#ifndef SYMM_MATMUL_PORTABLE_TILE_H
#define SYMM_MATMUL_PORTABLE_TILE_H

enum { TILE_ROWS = 128, TILE_COLUMNS = 128 };

#endif
