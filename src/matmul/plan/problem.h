/* The problem that a product solves: its description, read and checked, and the data of a run. */
#ifndef SYMM_MATMUL_PROBLEM_H
#define SYMM_MATMUL_PROBLEM_H

#include <stdbool.h>
#include "runtime/memory/memory.h"
#include "matmul/kernels/args.h"
#include "matmul/kernels/split.h"

/* A matrix with its extents. data is that of the description, or NULL. */
struct symm_operand {
    symm_matrix matrix; /* dtype 0: absent */
    int32_t l, rows, columns;
};

struct symm_problem {
    symm_matmul_kind kind;
    symm_strategy strategy;
    symm_activation activation;
    symm_schedule schedule;
    symm_dtype dtype;                      /* of a and b */
    bool same_bits;                        /* SYMM_MATMUL_SAME_BITS */
    bool any_order;                        /* SYMM_MATMUL_ANY_ORDER */
    bool traced;                           /* SYMM_MATMUL_TRACE */
    bool constant_b;                       /* SYMM_MATMUL_CONSTANT_B */
    symm_dtype partial[SYMM_MATMUL_MAX_B]; /* of partial sums */
    int32_t m, k, l, nb;
    int32_t n[SYMM_MATMUL_MAX_B];     /* columns that this rank computes */
    int rank, nranks;                 /* that share A's rows; 0 and 1 if nothing is gathered */
    int collect_rank, collect_nranks; /* that share results; 0 and 1 if nothing is collected */
    struct symm_operand a, b[SYMM_MATMUL_MAX_B], c[SYMM_MATMUL_MAX_B], d[SYMM_MATMUL_MAX_B],
        bias[SYMM_MATMUL_MAX_B], gathered_a;
    float alpha, beta; /* of a run */
};

/* An operand's name: "b[2]", or "a" for i < 0. */
struct symm_name {
    char text[24];
};
struct symm_name symm__name_of(const char *member, int i);

/* Whether the kind communicates after the product: sums, or columns of D. */
bool symm__kind_collects(symm_matmul_kind kind);
/* Whether the sums are over the products of all ranks. */
bool symm__kind_reduces(symm_matmul_kind kind);

/* Whether several blocks may share the k of a tile. */
bool symm__may_share_k(const struct symm_problem *p);

/* Whether D gets alpha times the sums: there are no addends, and no activation. */
bool symm__only_sums(const struct symm_problem *p);

/* All columns of this rank's products. */
int64_t symm__problem_columns(const struct symm_problem *p);

/*
 * Reads a description, for rank of nranks. Errors: ERROR_ARGUMENT, ERROR_UNSUPPORTED, with a text
 * that names the wrong member and its value. *out then has the members that were read before.
 */
symm_status symm__problem_read(const symm_matmul_desc *desc, int rank, int nranks,
                               struct symm_problem *out);

/*
 * Checks the data that the problem has. Errors: ERROR_ARGUMENT: not aligned, not usable memory, or
 * an output overlaps another operand.
 */
symm_status symm__problem_check_data(struct symm_problem *p, struct symm_memory *memory);

/*
 * Binds the data of a run: *out is the problem with the addresses of args, or its own where args
 * has NULL, and with alpha and beta. Errors: as symm__problem_check_data(), and ERROR_ARGUMENT:
 * missing data, data for an absent operand, beta without c.
 */
symm_status symm__problem_bind(const struct symm_problem *p, const symm_matmul_args *args,
                               struct symm_memory *memory, struct symm_problem *out);

#endif
