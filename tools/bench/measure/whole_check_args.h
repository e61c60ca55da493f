/* Arguments of the kernel that checks every element of a product. */
#ifndef SYMM_BENCH_WHOLE_CHECK_ARGS_H
#define SYMM_BENCH_WHOLE_CHECK_ARGS_H

#include <symm/types.h>

enum { WHOLE_CHECK_TILE = 64, WHOLE_CHECK_THREADS = 256 };

/* d = alpha a b + beta c, l times, of one 16-bit type. */
typedef struct whole_check_args {
    symm_view view;
    const uint16_t *a, *b, *c, *d; /* c NULL: beta is 0 */
    uint32_t *wrong;               /* counts elements */
    double alpha, beta, eps;       /* of products_check() */
    int32_t m, n, k, l;
    uint32_t is_f16;                     /* else bf16 */
    uint32_t b_by_columns, d_by_columns; /* else by rows, as a; c as d */
    uint32_t reserved;
} whole_check_args;

#endif
