/* Checks every element of a product, on the device. */
#ifndef SYMM_BENCH_WHOLE_CHECK_H
#define SYMM_BENCH_WHOLE_CHECK_H

#include "oracle/products.h"
#include "operations/product.h"
#include "session.h"

struct whole_check {
    symm_kernel *kernel;
    uint32_t most_blocks; /* resident together */
    uint32_t *wrong;      /* on the device */
};

/*
 * Loads the kernel, before ranks wait for each other. Collective. whole_check_close() follows if it
 * succeeds; else the memory goes with the context.
 */
symm_status whole_check_open(struct session *s, struct whole_check *out);
void whole_check_close(struct session *s, struct whole_check *check);

/*
 * Counts the wrong elements of d, by the bound of products_check(), computed by a kernel of its own
 * in double precision. Waits for the stream. p names the shape; the buffers have its data.
 */
symm_status whole_check_count(struct session *s, const struct whole_check *check,
                              const struct products *p, const struct product_buffers *on,
                              uint64_t *wrong);

#endif
