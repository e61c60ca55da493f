/* What is multiplied: a description of it read and checked, by itself and with its data. */
#ifndef SYMM_MATMUL_PROBLEM_H
#define SYMM_MATMUL_PROBLEM_H

#include <stdbool.h>
#include "runtime/memory/memory.h"
#include "matmul/kernels/args.h"

/* A matrix with its size. data is that of the description, or NULL. */
struct symm_operand {
    symm_matrix matrix; /* dtype 0: not there */
    int32_t l, rows, columns;
};

struct symm_problem {
    symm_matmul_kind kind;
    symm_strategy strategy;
    symm_activation activation;
    symm_dtype dtype; /* of a and b */
    int32_t m, k, l, nb;
    int32_t n[SYMM_MATMUL_MAX_B];
    int rank, nranks; /* that have A's rows: 0 and 1 where nothing is gathered */
    struct symm_operand a, b[SYMM_MATMUL_MAX_B], c[SYMM_MATMUL_MAX_B], d[SYMM_MATMUL_MAX_B],
        bias[SYMM_MATMUL_MAX_B], gathered_a;
    float alpha, beta; /* of a run */
};

/* Rows of A that a rank has. */
int32_t symm__problem_rows(int32_t m, int nranks, int rank);

/* All columns of this rank's products. */
int64_t symm__problem_columns(const struct symm_problem *p);

/*
 * Reads a description, for rank of nranks. Errors: ERROR_ARGUMENT, ERROR_UNSUPPORTED, with a text
 * that names what is wrong and its value. Then what there is in the problem is what could be read.
 */
symm_status symm__problem_read(const symm_matmul_desc *desc, int rank, int nranks,
                               struct symm_problem *out);

/*
 * Looks at the data there is so far. Errors: ERROR_ARGUMENT: not aligned, not usable memory, or
 * what is written overlaps something else.
 */
symm_status symm__problem_check_data(const struct symm_problem *p, struct symm_memory *memory);

/*
 * The problem with the data of a run, its own where args has none, and with the run's factors.
 * Errors: the same, and ERROR_ARGUMENT: data that are missing, or too many; beta without c.
 */
symm_status symm__problem_bind(const struct symm_problem *p, const symm_matmul_args *args,
                               struct symm_memory *memory, struct symm_problem *out);

#endif
