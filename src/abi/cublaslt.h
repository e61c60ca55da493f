/*
 * The part of cuBLASLt's binary interface that symm uses, for products that run on it and for the
 * comparisons of symm-bench. Numbers and layouts are those of cuBLASLt 12 and 13. The library is
 * opened at run time and never linked; its headers are not needed.
 */
#ifndef SYMM_CUBLASLT_H
#define SYMM_CUBLASLT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Constants of cuBLASLt. */
enum {
    CUBLASLT_COMPUTE_32F = 68,
    CUBLASLT_TYPE_32F = 0,
    CUBLASLT_TYPE_16F = 2,
    CUBLASLT_TYPE_16BF = 14,
    CUBLASLT_OPERATION_TRANSPOSE_A = 3, /* attributes of operations */
    CUBLASLT_OPERATION_TRANSPOSE_B = 4,
    CUBLASLT_LAYOUT_BATCH_COUNT = 5,
    CUBLASLT_LAYOUT_STRIDED_BATCH_OFFSET = 6,
    CUBLASLT_PREFERENCE_MAX_WORKSPACE_BYTES = 1,
    CUBLASLT_PREFERENCE_REDUCTION_SCHEME_MASK = 3,
    CUBLASLT_PREFERENCE_MIN_ALIGNMENT_A_BYTES = 5, /* those of b, c, d follow */
    CUBLASLT_REDUCTION_COMPUTE_TYPE = 2,
    CUBLASLT_ALGORITHM_TILE = 1, /* attributes of algorithms */
    CUBLASLT_ALGORITHM_K_PARTS = 2,
    CUBLASLT_ALGORITHM_REDUCTION = 3,
    CUBLASLT_ALGORITHM_CUSTOM_OPTION = 5,
    CUBLASLT_ALGORITHM_CLUSTER = 8,
    CUBLASLT_CLUSTER_2X1 = 3, /* tiles: rows by columns */
    CUBLASLT_CLUSTER_4X1 = 4,
    CUBLASLT_CLUSTER_1X2 = 5
};

typedef struct cublaslt_handle *cublaslt_handle;
typedef struct cublaslt_operation *cublaslt_operation;
typedef struct cublaslt_layout *cublaslt_layout;
typedef struct cublaslt_preference *cublaslt_preference;
typedef void *cublaslt_stream; /* a CUstream */

typedef struct cublaslt_algorithm {
    uint64_t data[8];
} cublaslt_algorithm;

typedef struct cublaslt_heuristic {
    cublaslt_algorithm algorithm;
    size_t workspace_nbytes;
    int state; /* 0: usable */
    float waves;
    int reserved[4];
} cublaslt_heuristic;

/* All functions that are looked up: field, name, return type, parameters. */
#define CUBLASLT_FUNCTIONS(X)                                                                      \
    X(get_version, cublasLtGetVersion, size_t, (void))                                             \
    X(create, cublasLtCreate, int, (cublaslt_handle *))                                            \
    X(destroy, cublasLtDestroy, int, (cublaslt_handle))                                            \
    X(operation_create, cublasLtMatmulDescCreate, int,                                             \
      (cublaslt_operation *, int compute, int scale))                                              \
    X(operation_destroy, cublasLtMatmulDescDestroy, int, (cublaslt_operation))                     \
    X(operation_set, cublasLtMatmulDescSetAttribute, int,                                          \
      (cublaslt_operation, int attribute, const void *value, size_t nbytes))                       \
    X(layout_create, cublasLtMatrixLayoutCreate, int,                                              \
      (cublaslt_layout *, int type, uint64_t rows, uint64_t columns, int64_t ld))                  \
    X(layout_destroy, cublasLtMatrixLayoutDestroy, int, (cublaslt_layout))                         \
    X(layout_set, cublasLtMatrixLayoutSetAttribute, int,                                           \
      (cublaslt_layout, int attribute, const void *value, size_t nbytes))                          \
    X(preference_create, cublasLtMatmulPreferenceCreate, int, (cublaslt_preference *))             \
    X(preference_destroy, cublasLtMatmulPreferenceDestroy, int, (cublaslt_preference))             \
    X(preference_set, cublasLtMatmulPreferenceSetAttribute, int,                                   \
      (cublaslt_preference, int attribute, const void *value, size_t nbytes))                      \
    X(heuristic, cublasLtMatmulAlgoGetHeuristic, int,                                              \
      (cublaslt_handle, cublaslt_operation, cublaslt_layout a, cublaslt_layout b,                  \
       cublaslt_layout c, cublaslt_layout d, cublaslt_preference, int wanted,                      \
       cublaslt_heuristic *out, int *found))                                                       \
    X(config_get, cublasLtMatmulAlgoConfigGetAttribute, int,                                       \
      (const cublaslt_algorithm *, int attribute, void *value, size_t nbytes, size_t *written))    \
    X(config_set, cublasLtMatmulAlgoConfigSetAttribute, int,                                       \
      (cublaslt_algorithm *, int attribute, const void *value, size_t nbytes))                     \
    X(check, cublasLtMatmulAlgoCheck, int,                                                         \
      (cublaslt_handle, cublaslt_operation, cublaslt_layout a, cublaslt_layout b,                  \
       cublaslt_layout c, cublaslt_layout d, const cublaslt_algorithm *, cublaslt_heuristic *out)) \
    X(matmul, cublasLtMatmul, int,                                                                 \
      (cublaslt_handle, cublaslt_operation, const void *alpha, const void *a, cublaslt_layout,     \
       const void *b, cublaslt_layout, const void *beta, const void *c, cublaslt_layout, void *d,  \
       cublaslt_layout, const cublaslt_algorithm *, void *workspace, size_t nbytes,                \
       cublaslt_stream))

/* The opened library, with a handle of the CUDA context that was current. */
struct cublaslt {
#define CUBLASLT_FIELD_(field, name, type, params) type(*field) params;
    CUBLASLT_FUNCTIONS(CUBLASLT_FIELD_)
#undef CUBLASLT_FIELD_
    cublaslt_handle handle;
    char version[32]; /* "13.1.0" */
};

/* Size of a reason: the failed call and its error. */
enum { CUBLASLT_WHY = 512 };

/*
 * Opens the library at this path; if it is empty or NULL, libcublasLt.so.13 or .12. Returns false
 * with a reason on failure. The library is never closed, because it registers its own functions for
 * the end of the process.
 */
bool symm__cublaslt_open(const char *path, struct cublaslt *out, char why[CUBLASLT_WHY]);
/* Destroys the handle, if there is one. */
void symm__cublaslt_close(struct cublaslt *lt);

/* Matrices in column-major order. */
struct cublaslt_matrix {
    int type;
    bool transposed; /* use the transposed matrix */
    uint64_t rows, columns;
    int64_t ld, batch; /* distance between columns and between matrices, in elements */
};

/* d = alpha a b + beta c, for each matrix of a batch; c has the layout of d. */
struct cublaslt_shape {
    struct cublaslt_matrix a, b, d;
    int32_t batches;
    uint32_t alignment; /* of all addresses, in bytes */
    uint64_t workspace_nbytes;
};

struct cublaslt_product {
    cublaslt_operation operation;
    cublaslt_layout a, b, d;
    cublaslt_heuristic chosen;
};

/*
 * Prepares a product, by the first of the library's algorithms for it. Sums are in fp32, also if k
 * is split. On failure returns false with a reason
 * and leaves nothing to free.
 */
bool symm__cublaslt_product(const struct cublaslt *lt, const struct cublaslt_shape *shape,
                            struct cublaslt_product *out, char why[CUBLASLT_WHY]);
/*
 * The library's algorithms for a product, at most `most`, in its order. Returns their number, which
 * may be 0; -1 with a reason on failure.
 */
int symm__cublaslt_algorithms(const struct cublaslt *lt, const struct cublaslt_shape *shape,
                              const struct cublaslt_product *product, cublaslt_heuristic *out,
                              int most, char why[CUBLASLT_WHY]);
/* Frees a product; absent members are fine. */
void symm__cublaslt_forget(const struct cublaslt *lt, struct cublaslt_product *product);

struct cublaslt_operands {
    const void *a, *b, *c; /* c: not read if beta is 0 */
    void *d;
    float alpha, beta;
    void *workspace; /* chosen.workspace_nbytes */
};

/* Enqueues the product. Stream-ordered. Returns false with a reason on failure. */
bool symm__cublaslt_multiply(const struct cublaslt *lt, const struct cublaslt_product *product,
                             const struct cublaslt_operands *on, cublaslt_stream stream,
                             char why[CUBLASLT_WHY]);

#endif
