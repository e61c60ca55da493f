/* One shape of a product: every variant checked and timed, by turns, on the same data. */
#ifndef SYMM_BENCH_MATMUL_MEASURE_H
#define SYMM_BENCH_MATMUL_MEASURE_H

#include "operations/product.h"
#include "session.h"

enum { MATMUL_MAX_VARIANTS = 8 };

/* What all shapes of a run share. */
struct matmul_measure {
    struct session *s;
    struct nccl *nccl;
    struct cublas *cublas;
    int nops; /* of a repetition */
};

struct matmul_row {
    const char *strategy; /* that was taken */
    double time_us, p95_us;
    double tflops;  /* of one rank; these are NAN where there is nothing to be said */
    double speedup; /* over the peer's variant: an all-gather and a product, or a product */
    double hidden;  /* how much of symm's all-gather goes on beside the product */
    int64_t wrong;  /* -1: not checked */
};

/* What --check compares of each rank's result. */
struct matmul_sample {
    int step; /* one row and one column of so many; 1: all */
    uint64_t compared, all;
};

/*
 * Measures the variants at a shape. Collective. `use` numbers the shapes: each gets data of its own.
 * rows[i] is of variants[i].
 */
symm_status matmul_measure_shape(struct matmul_measure *m, const struct cublas_shape *shape,
                                 const struct product_variant *const *variants, int nvariants,
                                 uint64_t use, struct matmul_row *rows,
                                 struct matmul_sample *sample);

#endif
