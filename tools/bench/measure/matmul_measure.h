/* One shape of a product: every way checked and timed, by turns, on the same data. */
#ifndef SYMM_BENCH_CONTEST_H
#define SYMM_BENCH_CONTEST_H

#include "operations/product.h"
#include "session.h"

enum { CONTEST_MAX_WAYS = 8 };

/* What all shapes of a run share. */
struct contest {
    struct session *s;
    struct nccl *nccl;
    struct cublas *cublas;
    int nops; /* of a repetition */
};

struct contest_row {
    const char *strategy; /* that was taken */
    double time_us, p95_us;
    double tflops;  /* of one rank; these are NAN where there is nothing to be said */
    double speedup; /* over the peer's way: an all-gather and a product, or a product */
    double hidden;  /* how much of symm's all-gather goes on beside the product */
    int64_t wrong;  /* -1: not checked */
};

/* What --check compares of each rank's result. */
struct contest_sample {
    int step; /* one row and one column of so many; 1: all */
    uint64_t compared, all;
};

/*
 * Measures the ways at a shape. Collective. `use` numbers the shapes: each gets data of its own.
 * rows[i] is of ways[i].
 */
symm_status contest_run(struct contest *c, const struct cublas_shape *shape,
                        const struct product_way *const *ways, int nways, uint64_t use,
                        struct contest_row *rows, struct contest_sample *sample);

#endif
