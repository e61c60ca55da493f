/* Measures all variants of a product at one shape, on the same data. */
#ifndef SYMM_BENCH_MATMUL_MEASURE_H
#define SYMM_BENCH_MATMUL_MEASURE_H

#include "matmul_variants.h"
#include "whole_check.h"

/* Shared by all shapes of a run. */
struct matmul_measure {
    struct session *s;
    struct matmul_peers peers;
    struct whole_check whole; /* with --check */
    int nops, short_nops;     /* calls of a repetition; of a short product */
};

struct matmul_row {
    const char *strategy; /* that ran */
    double time_us, p95_us;
    double product_us; /* of time_us; this and the next ones: NAN where undefined */
    double exposed_us; /* of the communication: what the product does not hide */
    double tflops;     /* of one rank */
    double speedup;    /* over the peers' product with its communication, or product */
    double hidden;     /* the share of symm's communication behind the product */
    int64_t wrong;     /* -1: not checked */
};

/* The part of each rank's result that --check compares on the host. */
struct matmul_sample {
    int step;   /* one row and one column of each `step`; 1: all */
    bool whole; /* a kernel compares all of it */
    double eps;
    uint64_t compared, all;
};

/*
 * Measures the variants at a shape. Collective. `use` numbers the shapes, so that each has other
 * data. rows[i] is of variants[i].
 */
symm_status matmul_measure_shape(struct matmul_measure *m, const struct cublas_shape *shape,
                                 const struct product_variant *const *variants, int nvariants,
                                 uint64_t use, struct matmul_row *rows,
                                 struct matmul_sample *sample);

#endif
