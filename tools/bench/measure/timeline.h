/* A timeline: one traced run of a product on all ranks, as a file. */
#ifndef SYMM_BENCH_TIMELINE_H
#define SYMM_BENCH_TIMELINE_H

#include "operations/product.h"
#include "session.h"

/*
 * Makes the call's product once more, traced, and runs it twice: of the second run rank 0 writes
 * the events of all ranks. Collective. A call of symm's own.
 */
symm_status timeline_make(struct session *s, const struct product_call *call, const char *path);

#endif
