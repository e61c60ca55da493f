/* The tiles that a product signals. symm__collect_parts() is in collect.h. */
#ifndef SYMM_MATMUL_PARTS_H
#define SYMM_MATMUL_PARTS_H

#include "collect.h"

/* The number of tiles of the owner that has most rows. Pure. */
uint64_t symm__collect_tiles(const struct symm_collect *c);

#endif
