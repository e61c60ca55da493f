/*
 * Schedules of other libraries, as products of symm: those of CUTLASS's Distributed GEMM.
 *
 * They multiply D = A B of m x n x k on all ranks together, with A stored by rows, B and D by
 * columns. The operand whose rows move, or whose rows of D are scattered, is symm's a: A, or B' in
 * D' = B' A'.
 */
#ifndef SYMM_TOOLS_SCHEDULE_H
#define SYMM_TOOLS_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>
#include <symm/matmul.h>
#include "cublas.h"

/* Defaults of CUTLASS's example, in float16. */
enum {
    SCHEDULE_M = 16384,
    SCHEDULE_N = 106496,
    SCHEDULE_K = 16384,
    SCHEDULE_ITERS = 100,
    SCHEDULE_WARMUP = 10
};

struct schedule {
    const char *name; /* "LIBRARY:NAME" */
    symm_matmul_kind kind;
    bool transposed;        /* symm's a is B' */
    symm_strategy strategy; /* the one with its structure */
};

/* By its place in the table; NULL past the last one. */
const struct schedule *schedule_at(size_t index);

/* The one of this kind with the name; by the library's name the first of this kind. NULL: none. */
const struct schedule *schedule_find(const char *name, symm_matmul_kind kind);

enum { SCHEDULE_WHY = 128 };

/*
 * Makes, of the shape of the whole product, that of symm's product on one rank. False: an extent is
 * no multiple of the number of ranks that share it; `why` names it.
 */
bool schedule_divide(const struct schedule *s, int nranks, struct cublas_shape *shape,
                     char why[SCHEDULE_WHY]);

/* Bytes that a rank has of each matrix, and of one product's workspace. */
struct schedule_memory {
    uint64_t a, b, d, workspace;
};

/* For a shape that schedule_divide() has made. */
struct schedule_memory schedule_memory(const struct schedule *s, int nranks,
                                       const struct cublas_shape *shape, symm_dtype partial);

#endif
