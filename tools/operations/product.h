/* The variants of a matrix product that symm-bench compares: symm's, the peers', the parts. */
#ifndef SYMM_TOOLS_PRODUCT_H
#define SYMM_TOOLS_PRODUCT_H

#include <symm/names.h>
#include "cublas.h"
#include "nccl.h"

enum product_kind {
    PRODUCT_ALONE,       /* symm's product of all of A */
    PRODUCT_GATHERED,    /* symm's all-gather and product */
    PRODUCT_GATHER,      /* symm's all-gather of A alone */
    PRODUCT_CUBLAS,      /* cuBLAS's product of all of A */
    PRODUCT_CUBLAS_SYMM, /* symm's all-gather, then cuBLAS's product */
    PRODUCT_CUBLAS_NCCL  /* NCCL's all-gather, then cuBLAS's product */
};

/* Whether cuBLAS multiplies in it. */
bool product_by_cublas(enum product_kind kind);

struct product_variant {
    const char *name;
    enum product_kind kind;
    symm_strategy strategy; /* of PRODUCT_GATHERED */
};

/* The variants of a kind, in the order of the tables; ends with an empty one. */
const struct product_variant *product_variants(symm_matmul_kind kind);

/* Device memory: row-major, one matrix after another. */
struct product_buffers {
    void *a, *b, *c, *d; /* c NULL: beta is 0 */
    void *part;          /* this rank's rows of A; NULL: nothing is gathered */
    void *gathered;      /* the gathered A. Both symmetric. */
};

struct product_call {
    symm_group *group;
    struct nccl *nccl;     /* NULL: not opened */
    struct cublas *cublas; /* NULL: not opened */
    const struct product_variant *variant;
    struct cublas_shape shape; /* n of this rank */
    struct product_buffers buffers;
    bool same_bits; /* SYMM_MATMUL_SAME_BITS */
    bool traced;    /* SYMM_MATMUL_TRACE */
    symm_stream stream;
    symm_matmul *ours;             /* by product_prepare() */
    struct cublas_product *theirs; /* by product_prepare() */
};

/* The number of rows of m that a rank has, and the first of them. */
int product_rows(int m, int nranks, int rank);
int product_first_row(int m, int nranks, int rank);

/* The reason why a variant cannot run at this shape with its peers open; NULL: it can. */
const char *product_unavailable(const struct product_variant *variant,
                                const struct cublas_shape *shape, int nranks);

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
