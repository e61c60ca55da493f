/* A look at the signals of a product's own pad, for tests that have the library's headers. */
#ifndef TEST_MATMUL_SIGNALS_H
#define TEST_MATMUL_SIGNALS_H

#include <symm/detail/wait_record.h>
#include "matmul/product.h"

/* How many signals have come to this rank of others' rows, since the counters began at 0. */
static inline uint32_t matmul_signals_here(const struct symm_matmul *m)
{
    const struct symm_signal_cell *cells =
        (const struct symm_signal_cell *)(const void *)m->transport.pad;
    uint32_t sum = 0;

    for (int i = 0; i < (int)m->plan.chunks * m->problem.nranks; i++)
        sum += (uint32_t)__atomic_load_n(&cells[i].arrived, __ATOMIC_ACQUIRE);
    return sum;
}

#endif
