/*
 * Calls of symm_all_reduce_rms_norm() with checks of all memory around them: fresh random data at
 * any address; outputs and the bytes around each tensor filled with a pattern first.
 */
#ifndef TEST_NORM_H
#define TEST_NORM_H

#include <stdbool.h>
#include <symm/collectives.h>
#include "ranks.h"

enum norm_tensor { NORM_IN, NORM_RESIDUAL, NORM_WEIGHT, NORM_OUT, NORM_RESIDUAL_OUT, NORM_TENSORS };

struct norm_call {
    symm_algo algo;
    symm_dtype dtype;
    size_t rows, hidden;
    float eps;
    uint32_t max_blocks;
    bool residual, weight;            /* there is one */
    bool in_place, residual_in_place; /* out is in, residual_out is residual */
    uint64_t places;                  /* draws where each tensor of each rank is; 0: symmetric */
    uint64_t round;                   /* of the reference's data */
    double relative_error;            /* as the oracle takes it; 0: that of GPUs */
};

struct norm_buffers {
    symm_context *ctx;
    char *symmetric[NORM_TENSORS], *foreign[NORM_TENSORS];
    char *at[NORM_TENSORS];   /* of the call */
    char *sent[NORM_TENSORS]; /* on the host, margins included */
    char *got;                /* room for three tensors */
    size_t nbytes;            /* of each, margins included */
    symm_stream stream;
};

/* For calls of at most `most` elements in all rows, and in a row. */
symm_status norm_open(symm_context *ctx, size_t most, struct norm_buffers *b);
void norm_close(struct norm_buffers *b); /* empty ones, too */

/* Places the tensors, and enqueues their data. */
symm_status norm_send(const struct norm_call *c, struct norm_buffers *b, int rank);
symm_status norm_enqueue(const struct norm_call *c, const struct norm_buffers *b, symm_group *group,
                         symm_stream stream);
/*
 * Waits, and checks both outputs by the oracle, and that all other bytes are as they were. Notes
 * each failure. hash: of the bits of both outputs.
 */
symm_status norm_check(const struct norm_call *c, const struct norm_buffers *b, struct rank *self,
                       symm_group *group, uint64_t *hash);
/* All three. */
symm_status norm_try(const struct norm_call *c, struct norm_buffers *b, struct rank *self,
                     symm_group *group, uint64_t *hash);

const char *norm_text(const struct norm_call *c);

#endif
