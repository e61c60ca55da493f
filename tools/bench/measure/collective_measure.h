/* One size: every variant checked and timed, by turns. */
#ifndef SYMM_BENCH_COLLECTIVE_MEASURE_H
#define SYMM_BENCH_COLLECTIVE_MEASURE_H

#include "operations/operation.h"
#include "session.h"

enum { MEASURE_MAX_VARIANTS = 16 };

/* A pair of buffers of the same kind; in place they are one. */
struct buffer_pair {
    char *in, *out;
};

/* What all sizes of a run share. */
struct collective_measure {
    struct session *s;
    const struct operation *operation;
    const struct variant *variants[MEASURE_MAX_VARIANTS]; /* those that run here */
    int nvariants;
    struct nccl *nccl;
    int nops; /* of one repetition */
    struct buffer_pair ours;
    struct buffer_pair theirs; /* NCCL's, for its symmetric variant; filled in by the caller */
    char *saved;               /* the input, where it does not stay; else NULL */
    char *host;                /* a buffer on its way, or as it should be */
};

struct collective_row {
    uint64_t nbytes, count;
    double time_us, p95_us, algbw, busbw;
    int64_t wrong; /* -1: not checked */
};

/*
 * Allocates for sizes of at most so many bytes. Collective. After a failure, and when done,
 * collective_measure_destroy() frees what there is; the symmetric memory goes with the context.
 */
symm_status collective_measure_create(struct collective_measure *m, uint64_t most);
void collective_measure_destroy(struct collective_measure *m);

/*
 * Measures the size that the operation has nearest to nbytes. Collective. `use` numbers the sizes:
 * each gets data of its own. rows[i] is of variants[i].
 */
symm_status measure_size(struct collective_measure *m, uint64_t nbytes, uint64_t use,
                         struct collective_row *rows);

#endif
