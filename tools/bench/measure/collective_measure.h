/* Measures all variants of an operation at one size. */
#ifndef SYMM_BENCH_COLLECTIVE_MEASURE_H
#define SYMM_BENCH_COLLECTIVE_MEASURE_H

#include "bare_launch.h"
#include "operations/norm.h"
#include "session.h"

enum { MEASURE_MAX_VARIANTS = 16 };

/* Input and output; in place they are one buffer. */
struct buffer_pair {
    char *in, *out;
};

/* Shared by all sizes of a run. */
struct collective_measure {
    struct session *s;
    const struct operation *operation;
    const struct variant *variants[MEASURE_MAX_VARIANTS]; /* that run here */
    int nvariants;
    struct nccl *nccl;
    uint32_t max_blocks;      /* of symm's calls; 0: no limit */
    struct bare_launch *bare; /* NULL without --host-time */
    int nops;                 /* of one repetition */
    struct buffer_pair ours;
    struct buffer_pair theirs; /* registered with NCCL, by the caller */
    char *saved;               /* a copy of the input; NULL: calls leave it as it is */
    char *host;                /* room for a buffer on the host */
    struct norm_tensors norm;  /* of an operation that norms */
};

struct collective_row {
    uint64_t nbytes, count;
    double time_us, p95_us, algbw, busbw;
    double launch_us; /* of an empty kernel, with --host-time */
    int64_t wrong;    /* -1: not checked */
};

/*
 * Allocates buffers for sizes up to `most` bytes. Collective. collective_measure_destroy() follows
 * in any case; the symmetric memory goes with the context.
 */
symm_status collective_measure_create(struct collective_measure *m, uint64_t most);
void collective_measure_destroy(struct collective_measure *m);

/*
 * Measures the size of the operation that is nearest to nbytes. Collective. `use` numbers the
 * sizes, so that each has other data. rows[i] is of variants[i].
 */
symm_status measure_size(struct collective_measure *m, uint64_t nbytes, uint64_t use,
                         struct collective_row *rows);

#endif
