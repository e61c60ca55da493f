/*
 * Which kernel a collective takes, and with what grid. Pure, as choice.h: every rank must come to
 * the same grid.
 */
#ifndef SYMM_PLAN_H
#define SYMM_PLAN_H

#include "algorithms.h"

struct symm_plan {
    symm_kernel_id kernel;
    uint32_t blocks, threads;
    uint64_t count, stride, share, block_units; /* as in symm_collective_args */
    uint64_t block_rows;                        /* as in symm_norm_args; 0: there are no rows */
    symm_row_threads row;                       /* its threads, as there */
    uint32_t capacity;                          /* as there */
    bool pdl; /* the kernel may begin while the kernel before it ends */
};

/* For two ranks or more, and an algorithm that has a kernel. */
struct symm_plan symm__plan(const struct symm_limits *limits,
                            const struct symm_collective_call *call,
                            const struct symm_algorithm *algorithm);

/* The size of an element as kernels count them. Of an all-gather and a broadcast: a byte. */
uint64_t symm__element_nbytes(const struct symm_collective_call *call);

/* Threads, at most `most`, of a block that has whole rows of `row` elements. */
uint32_t symm__plan_row_threads(const struct symm_limits *limits, uint64_t row, uint32_t most);

/* How this many threads share a row's packs. One block has them all. */
symm_row_threads symm__plan_row(uint64_t row, uint32_t threads);

/* Chunks of a block's part. */
uint64_t symm__plan_chunks(const struct symm_plan *plan);

/* Whether one plan of a call has fewer threads at work than another, or more chunks. */
bool symm__plan_is_slower(const struct symm_plan *plan, const struct symm_plan *than);

#endif
