/*
 * The variants to a matrix product that symm-bench compares: symm's, a peer's, and what they consist
 * of.
 */
#ifndef SYMM_TOOLS_PRODUCT_H
#define SYMM_TOOLS_PRODUCT_H

#include <symm/matmul.h>
#include "cublas.h"
#include "nccl.h"

enum product_kind {
    PRODUCT_ALONE,      /* symm's product, of all of A */
    PRODUCT_GATHERED,   /* symm's product with its all-gather */
    PRODUCT_GATHER,     /* symm's all-gather, of as many elements as A has */
    PRODUCT_CUBLAS,     /* a product of all of A */
    PRODUCT_CUBLAS_NCCL /* an all-gather, then a product */
};

struct product_variant {
    const char *name;
    enum product_kind kind;
    symm_strategy strategy; /* of PRODUCT_GATHERED */
};

/* Those of the kind, in the order of the tables; ends with an empty one. */
const struct product_variant *product_variants(symm_matmul_kind kind);

/* On device memory: rows after rows, one matrix after another. */
struct product_buffers {
    void *a, *b, *c, *d; /* c NULL: beta is 0 */
    void *part;          /* this rank's rows of A; NULL where nothing is gathered */
    void *gathered;      /* A again, to be written. Both symmetric. */
};

struct product_call {
    symm_group *group;
    struct nccl *nccl;     /* NULL: not opened */
    struct cublas *cublas; /* NULL: not opened */
    const struct product_variant *variant;
    struct cublas_shape shape; /* n of this rank */
    struct product_buffers buffers;
    symm_stream stream;
    symm_matmul *ours;             /* by product_prepare() */
    struct cublas_product *theirs; /* by product_prepare() */
};

/* How many rows of m a rank has, and which is the first of them. */
int product_rows(int m, int nranks, int rank);
int product_first_row(int m, int nranks, int rank);

/* Why a variant cannot run at this shape, its peers being there; NULL: it can. */
const char *product_unavailable(const struct product_variant *variant,
                                const struct cublas_shape *shape, int nranks);

/* Makes what the call needs. Collective. After a failure, too, product_release() is what follows.
 */
symm_status product_prepare(struct product_call *call);
void product_release(struct product_call *call);

/* Stream-ordered. */
symm_status product_enqueue(const struct product_call *call);

/*
 * Whether a product with its all-gather is surely by symm's own kernels, on GPUs: then it has the
 * bits of all others that are. Of few rows, unfused, cuBLASLt may have made it.
 */
bool product_is_symms(const struct product_call *call);

/* What strategy was taken; "-" where there is none to be taken. */
const char *product_strategy(const struct product_call *call);

#endif
