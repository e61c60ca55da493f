/* cuBLASLt as a peer: opened at run time, never linked. */
#ifndef SYMM_TOOLS_CUBLAS_H
#define SYMM_TOOLS_CUBLAS_H

#include <stdbool.h>
#include <symm/symm.h>

struct cublas;

/*
 * Opens cuBLASLt: the file SYMM_CUBLASLT_LIBRARY names, else libcublasLt.so.13 or .12.
 *
 * Collective over the world. Returns NULL on all ranks alike, with the reason in why; *st is then
 * not OK if symm itself failed.
 */
struct cublas *cublas_open(symm_context *ctx, char why[512], symm_status *st);
/* NULL is fine. */
void cublas_close(struct cublas *c);

/* "13.1.0" */
const char *cublas_version(const struct cublas *c);

/* d = alpha a b + beta c, l times: one matrix after another, all of one type. */
struct cublas_shape {
    int m, n, k, l;
    bool b_by_columns, d_by_columns; /* else by rows, as a; c as d */
    symm_dtype dtype;                /* bfloat16 or float16; sums are fp32 */
    float alpha, beta;
};

struct cublas_product;

/* Local. NULL: cublas_error() has the reason. */
struct cublas_product *cublas_product_create(struct cublas *c, const struct cublas_shape *shape);
/* NULL is fine. */
void cublas_product_destroy(struct cublas_product *p);

/*
 * Measures the first eight algorithms that cuBLASLt proposes, and takes the fastest. Overwrites d.
 * Local; waits for the stream. ERROR_DRIVER: cublas_error() has the reason.
 */
symm_status cublas_product_tune(struct cublas_product *p, const void *a, const void *b,
                                const void *c, void *d, symm_stream stream);

/* Stream-ordered. ERROR_DRIVER: cublas_error() has the reason. */
symm_status cublas_product_run(struct cublas_product *p, const void *a, const void *b,
                               const void *c, void *d, symm_stream stream);

/* The error of cuBLASLt; NULL: none. NULL is fine. */
const char *cublas_error(const struct cublas *c);

#endif
