/* One row: a variant at a size, checked and timed. */
#ifndef SYMM_BENCH_MEASURE_H
#define SYMM_BENCH_MEASURE_H

#include <symm/stream.h>
#include "operation.h"
#include "report.h"

/* What all rows of a run share. */
struct measure {
    symm_context *ctx;
    symm_group *group;
    const struct bench_options *options;
    struct nccl *nccl;
    int nops; /* of one repetition */
    uint64_t seed;
    symm_stream stream;
    symm_event begin, end;
    void *in, *out; /* in place they are one */
    void *host;     /* NULL: nothing is checked */
    float *samples; /* one for every repetition */
};

/*
 * Allocates for buffers of at most nbytes. Collective. After a failure, and when done,
 * measure_destroy() frees what there is; the symmetric memory goes with the context.
 */
symm_status measure_create(struct measure *m, uint64_t nbytes);
void measure_destroy(struct measure *m);

/* Collective. `use` numbers the rows, so that each gets data of its own. */
symm_status measure_row(struct measure *m, const struct variant *v, uint64_t nbytes, uint64_t use,
                        struct report_row *out);

#endif
