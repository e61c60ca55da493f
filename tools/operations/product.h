/* The variants of a matrix product that symm-bench compares: symm's, the peers', the parts. */
#ifndef SYMM_TOOLS_PRODUCT_H
#define SYMM_TOOLS_PRODUCT_H

#include <symm/names.h>
#include "cublas.h"
#include "nccl.h"
#include "oracle/products.h"

/*
 * The communication is an all-gather of A before the product, or follows it: a reduce-scatter, an
 * all-reduce, or an all-gather of all ranks' columns.
 */
enum product_kind {
    PRODUCT_ALONE,         /* symm's product of this rank */
    PRODUCT_TOGETHER,      /* symm's product with its communication */
    PRODUCT_COMMUNICATION, /* symm's communication alone */
    PRODUCT_CUBLAS,        /* cuBLAS's product of this rank */
    PRODUCT_CUBLAS_SYMM,   /* cuBLAS's product and symm's communication, one after the other */
    PRODUCT_CUBLAS_NCCL    /* cuBLAS's product and NCCL's communication, one after the other */
};

struct product_variant {
    const char *name;
    enum product_kind kind;
    symm_strategy strategy; /* of PRODUCT_TOGETHER */
    symm_schedule schedule; /* of symm's products */
};

#define PRODUCT_NAMES                                                                              \
    "matmul, all-gather-matmul, matmul-reduce-scatter, matmul-all-reduce, matmul-all-scatter"

/* The variants of a kind, in the order of the tables; ends with an empty one. */
const struct product_variant *product_variants(symm_matmul_kind kind);

/* Device memory: one matrix after another. */
struct product_buffers {
    void *a, *b, *c, *d; /* c NULL: beta is 0. d is symmetric if results are collected. */
    void *part;          /* what this rank sends: its rows of A, or its product; or NULL */
    void *gathered;      /* the gathered A; or room for a communication alone. Both symmetric. */
};

struct product_call {
    symm_group *group;
    struct nccl *nccl;     /* NULL: not opened */
    struct cublas *cublas; /* NULL: not opened */
    int rank, nranks;      /* of the product: the group's, unless SYMM_MATMUL_AS_IF is set */
    const struct product_variant *variant;
    symm_matmul_kind kind;
    struct cublas_shape shape; /* n: columns of d */
    symm_dtype partial;        /* of partial sums; where there are none, of d */
    struct product_buffers buffers;
    bool same_bits;  /* SYMM_MATMUL_SAME_BITS */
    bool any_order;  /* SYMM_MATMUL_ANY_ORDER */
    bool constant_b; /* SYMM_MATMUL_CONSTANT_B */
    bool traced;     /* SYMM_MATMUL_TRACE */
    symm_stream stream;
    symm_matmul *ours;             /* by product_prepare() */
    struct cublas_product *theirs; /* by product_prepare() */
};

/* Whether cuBLAS multiplies in it. */
bool product_by_cublas(enum product_kind kind);

/*
 * The reason why a variant cannot run at this shape with its peers open, with partial sums of this
 * type; NULL: it can.
 */
const char *product_unavailable(symm_matmul_kind kind, const struct product_variant *variant,
                                const struct cublas_shape *shape, symm_dtype partial, int nranks);

/*
 * Describes the data of a rank's product of this shape, with the default eps. The caller may change
 * the description before products_create().
 */
struct products product_data(symm_matmul_kind kind, const struct cublas_shape *shape, int rank,
                             int nranks);

/* The elements of `part` and of `gathered`, the same on all ranks. */
size_t product_part_count(symm_matmul_kind kind, const struct cublas_shape *shape, int nranks);
size_t product_gathered_count(symm_matmul_kind kind, const struct cublas_shape *shape, int nranks);

/* Whether the call makes this rank's product only, in `part`: without C if products are summed. */
bool product_is_part(const struct product_call *call);
/* Whether the columns of d stay apart, in `gathered`. */
bool product_is_apart(const struct product_call *call);

/* Prepares the call. Collective. product_release() follows in any case. */
symm_status product_prepare(struct product_call *call);
/* Takes cuBLAS's fastest algorithm for it. Local. When a, b and c have their data; overwrites d. */
symm_status product_tune(const struct product_call *call);
void product_release(struct product_call *call);

/* Stream-ordered. */
symm_status product_enqueue(const struct product_call *call);

/* The strategy of the call; "-": it has none. */
const char *product_strategy(const struct product_call *call);

#endif
