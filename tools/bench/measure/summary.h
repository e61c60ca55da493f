/* What a suite of products comes to: ratios of times over its shapes. */
#ifndef SYMM_BENCH_SUMMARY_H
#define SYMM_BENCH_SUMMARY_H

#include "suite.h"

/* Times of one shape in us; NAN: not measured. */
struct summary_times {
    double cublas, product, communication;
    double cublas_symm; /* cuBLAS and symm's communication, one after the other */
    double automatic;
    double best; /* of the strategies that can be named */
};

enum { SUMMARY_RATIOS = 4 };

struct summary_ratio {
    int n;
    double logarithms, worst;
    struct suite_shape at; /* the worst one */
};

/* Shapes with few rows, below 1024, and with many. All zero: none yet. */
struct summary {
    int nshapes[2];
    struct summary_ratio ratios[2][SUMMARY_RATIOS];
};

void summary_add(struct summary *s, const struct suite_shape *shape,
                 const struct summary_times *times);

/* The geometric mean; NAN if the ratio was measured at no shape. */
double summary_mean(const struct summary_ratio *ratio);

/* "cublas / product" */
const char *summary_name(int ratio);

#endif
