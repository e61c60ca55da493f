/* Random calls by copy engines, with fresh data in outputs and margins filled with a pattern. */
#ifndef TEST_COPY_CALL_H
#define TEST_COPY_CALL_H

#include <symm/stream.h>
#include "collective.h"
#include "ranks.h"

/* One call. count: as the operation counts. */
struct copy_call {
    enum collective_operation operation;
    symm_dtype dtype;
    symm_redop op;
    size_t count;
    int skew; /* elements by which the buffers miss their alignment */
    bool in_place;
    bool elsewhere; /* buffers that only their own rank accesses are plain memory */
    int root;       /* of a broadcast, modulo the number of ranks */
    symm_options options;
    uint64_t round; /* of the data */
};

/* Two symmetric buffers and two plain ones, of nbytes each, for a group's calls on a stream. */
struct copy_buffers {
    symm_context *ctx;
    symm_group *group;
    symm_stream stream;
    char *in, *out, *own_in, *own_out, *host;
    size_t nbytes;
};

/* For calls whose larger buffer has `most` bytes at most. Collective. */
symm_status copy_open(symm_context *ctx, symm_group *group, symm_stream stream, size_t most,
                      struct copy_buffers *b);
void copy_close(struct copy_buffers *b); /* empty ones, too */

/* A call of at most `most` elements. The operation is the round modulo their number. */
struct copy_call copy_draw(uint64_t round, size_t most);

/* Writes input and patterns; calls; compares result, margins and input, and counts the call. */
symm_status copy_prepare(const struct copy_call *c, const struct copy_buffers *b);
symm_status copy_enqueue(const struct copy_call *c, const struct copy_buffers *b);
symm_status copy_check(struct rank *self, const struct copy_call *c, const struct copy_buffers *b);
/* All three. Failures are in the report. */
symm_status copy_run(struct rank *self, const struct copy_call *c, const struct copy_buffers *b);

#endif
