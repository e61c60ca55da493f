/*
 * symm/matmul.h - matrix products fused with communication.
 *
 * Create once (Collective: the ranks compare their shapes, workspace is allocated, the way is
 * chosen), run often (Stream-ordered: it only enqueues, and is captured freely), destroy. Strides
 * say the layout: a matrix of any two strides is taken as it lies, so there are no flags for
 * transposition.
 *
 * docs/matmul.md says how the data flow and who waits for whom.
 */
#ifndef SYMM_MATMUL_H
#define SYMM_MATMUL_H

#include <symm/symm.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * m rows of A altogether, n columns on this rank, k between them, l products of that shape.
 *
 *     kind               a                      b          d, c       every rank gets
 *     MATMUL             [m, k]                 [k, n]     [m, n]     its own product
 *     ALL_GATHER_MATMUL  this rank's rows of A  [k, n]     [m, n]     all rows, its columns
 *
 * In the second, rank r of R has m / R rows of A, one more if r < m % R, and A's rows are those of
 * the ranks one after the other.
 */
typedef enum symm_matmul_kind { SYMM_MATMUL = 0, SYMM_ALL_GATHER_MATMUL } symm_matmul_kind;

/* x, x (1 + erf(x / sqrt 2)) / 2, x / (1 + exp(-x)) */
typedef enum symm_activation { SYMM_NONE = 0, SYMM_GELU, SYMM_SILU } symm_activation;

/*
 * How an all-gather goes with its product. The result is the same, to the bit; on GPUs with
 * cuBLASLt, of 512 rows (m x l) or fewer, only with SYMM_MATMUL_CUBLAS=0: see docs/matmul.md.
 */
typedef enum symm_strategy {
    SYMM_STRATEGY_AUTO = 0,
    SYMM_STRATEGY_FUSED,     /* one product, which takes rows as they come */
    SYMM_STRATEGY_PIPELINED, /* a product for each rank's rows, beside the copies of the next */
    SYMM_STRATEGY_UNFUSED    /* an all-gather, and then one product */
} symm_strategy;

#define SYMM_MATMUL_MAX_B 4

/*
 * d[i] = activation(alpha a b[i] + beta c[i] + bias[i]), for i from 0 to nb - 1.
 *
 * Tensors have two dimensions, or three: [l, rows, columns], all of them with the same l; with two
 * dimensions l is 1. What has dtype 0 is not there; from nb on nothing is. `data` may be NULL here
 * and given to symm_matmul_run() instead.
 */
typedef struct symm_matmul_desc {
    symm_matmul_kind kind;
    symm_strategy strategy;
    symm_activation activation;
    int nb;                              /* products with the same A; 0 means 1 */
    symm_tensor a;                       /* bfloat16 or float16 */
    symm_tensor b[SYMM_MATMUL_MAX_B];    /* of a's type */
    symm_tensor c[SYMM_MATMUL_MAX_B];    /* optional; bfloat16, float16 or float32 */
    symm_tensor d[SYMM_MATMUL_MAX_B];    /* bfloat16, float16 or float32 */
    symm_tensor bias[SYMM_MATMUL_MAX_B]; /* optional; [n], [1, n] or [l, 1, n]; as c */
    symm_tensor gathered_a;              /* optional; [m, k] of a's type: all of A, to be written */
    uint64_t reserved[8];
} symm_matmul_desc;

typedef struct symm_matmul_args {
    /* NULL: the data of the tensor that the product was created with. */
    const void *a, *b[SYMM_MATMUL_MAX_B], *c[SYMM_MATMUL_MAX_B], *bias[SYMM_MATMUL_MAX_B];
    void *d[SYMM_MATMUL_MAX_B], *gathered_a;
    const float *alpha, *beta; /* in host memory; NULL: 1 and 0 */
} symm_matmul_args;

typedef struct symm_matmul symm_matmul;

/*
 * Prepares a product. Products accumulate in fp32, add bias and c in fp32, and round once.
 *
 * Scope:  Collective over the group, for every kind: the ranks compare kind, strategy, m, k, l, a's
 *         type, nb and whether A is wanted. n, and all that has n columns, may differ.
 * Shapes: as above; every extent at least 1, but a may have no rows where m < nranks. Any strides
 *         of at least 0 for a, b, c and bias; d's and gathered_a's elements must be apart. Whatever
 *         the layout it runs; the fastest are rows or columns that lie one after the other, aligned
 *         to 16 bytes.
 * Units:  strides are in elements.
 * Memory: ALL_GATHER_MATMUL allocates symmetric memory of the group for all of A (m x k x l
 *         elements, rows rounded up to 16 bytes) on ranks of two or more, until it is destroyed.
 *         A product that is left to cuBLASLt has up to 32 MiB of device memory, and after an
 *         all-gather up to the size of A more, which the next one gets when it is destroyed.
 * Errors: ERROR_ARGUMENT     on every rank if it is so on one, which is named: a shape, type or
 *                            stride that does not fit, an unknown enum, reserved words that are not
 *                            0, NULL; rows that are not this rank's part of m; a tensor past nb;
 *                            data that symm_matmul_run would refuse
 *         ERROR_UNSUPPORTED  an extent of more than 2^31 - 1024, more rows than that in all l of a
 *                            rank's rows of A, 2^31 or more tiles
 *         ERROR_MISMATCH     ranks that differ in what they must agree on: named, with the values
 *         ERROR_MEMORY, ERROR_DRIVER, ERROR_PEER, ERROR_TIMEOUT, ERROR_STATE (capturing)
 */
SYMM_API symm_status symm_matmul_create(symm_group *group, const symm_matmul_desc *desc,
                                        symm_matmul **out);

/*
 * Enqueues the product. The a of an ALL_GATHER_MATMUL need not be symmetric memory: its rows are
 * sent to the other ranks from where they lie, if they lie one after the other and aligned to 16
 * bytes, else from a copy.
 *
 * It is no barrier: beyond a, d and gathered_a it orders nothing between ranks.
 *
 * alpha and beta are read before the call returns: a graph keeps the values of its capture. They
 * may differ between ranks. A factor of 0 leaves its term out, as in BLAS, and no NaN or infinity
 * of it reaches d:
 *
 *     beta 0   c is not read.
 *     alpha 0  a and b are not multiplied, whatever the strategy, with and without cuBLASLt:
 *              d[i] = activation(beta c[i] + bias[i]). Both must be valid; rows of A are gathered,
 *              and gathered_a is written, as always.
 *
 * Scope:  Stream-ordered; ALL_GATHER_MATMUL by all ranks of the group, with products that were
 *         created together. Runs of one product follow each other: on other streams too.
 * Memory: all matrices must stay valid until the run is done on the stream. d and gathered_a must
 *         not overlap anything that is read, but d[i] may be c[i], with the same type and strides.
 * Errors: ERROR_ARGUMENT  NULL where there is no data, data for what the description has not, a
 *                         beta other than 0 where it has no c, an address that is not aligned to
 *                         its elements, symmetric memory that is too short, memory that the device
 *                         cannot access (a host array), an overlap; m is NULL
 *         ERROR_DRIVER, ERROR_MEMORY  a call of the driver or of cuBLASLt failed; if rows were on
 *                         their way, fused or pipelined and not in a capture, the group ends with
 *                         ERROR_PEER
 *         ERROR_PEER, ERROR_TIMEOUT, ERROR_STATE, ERROR_MISMATCH (SYMM_CHECK=1)
 */
SYMM_API symm_status symm_matmul_run(symm_matmul *m, const symm_matmul_args *args,
                                     symm_stream stream);

/*
 * Gives back what the product has. Its runs must be done, on this rank and, for its workspace, on
 * all: the memory is used again once every rank has destroyed it. Scope: Local; never waits. NULL
 * is fine. A product that is left is gone with its group.
 */
SYMM_API void symm_matmul_destroy(symm_matmul *m);

/*
 * The strategy that symm_matmul_run() takes: what was asked for, or what AUTO came to; AUTO where
 * nothing is gathered. The same on all ranks. Scope: Local. NULL: AUTO.
 */
SYMM_API symm_strategy symm_matmul_strategy(const symm_matmul *m);

#ifdef __cplusplus
}
#endif

#endif
