/* Operands and results of products, and the kernel that writes and checks them. */
#ifndef PROOF_PRODUCT_KERNELS_H
#define PROOF_PRODUCT_KERNELS_H

#include <symm/symm.h>

enum product_matrix {
    PRODUCT_A, /* rows of all ranks' A */
    PRODUCT_B,
    PRODUCT_D
};

/*
 * Elements of [l, rows, columns], of small integers: whatever the order, the sums are exact. They
 * follow from the salt, the turn, the place in the whole matrix, and of B and D from `series`.
 */
typedef struct product_data_args {
    symm_view view;
    char *x;
    const uint32_t *salt;
    uint32_t *result;
    int64_t batch, row, column; /* strides */
    int32_t l, rows, columns, k;
    uint32_t dtype, deed; /* a proof_deed */
    uint32_t matrix, turn, series;
    uint32_t first_row;    /* in all of A */
    uint32_t terms, apart; /* D is the sum of as many products, whose series are this apart */
    uint32_t ends; /* the group is to be aborted: counts only where nobody has told this rank */
} product_data_args;

#endif
