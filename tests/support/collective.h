/* One collective call of any operation: its data, the call, and the expected result. */
#ifndef TEST_COLLECTIVE_H
#define TEST_COLLECTIVE_H

#include <stdbool.h>
#include <symm/collectives.h>
#include <symm/stream.h>

enum collective_operation {
    ALL_REDUCE,
    REDUCE_SCATTER,
    ALL_GATHER,
    BROADCAST,
    COLLECTIVE_OPERATIONS
};

struct collective {
    enum collective_operation operation;
    symm_algo algo;
    symm_dtype dtype;
    symm_redop op; /* of a reduction */
    size_t count;  /* as the operation counts */
    uint32_t max_blocks, flags;
    uint64_t round; /* of the reference's data; reductions take REFERENCE_SPECIAL */
    int root;       /* of a broadcast, modulo the number of ranks */
};

/* An algorithm of an operation. */
struct collective_variant {
    enum collective_operation operation;
    symm_algo algo;
};

/* Whether the operation computes. */
bool collective_reduces(enum collective_operation operation);
/* Whether `in` or `out` is one of as many shares of the other as there are ranks. */
bool collective_has_shares(enum collective_operation operation);

/* The bytes of a rank's `in` and `out`. */
size_t collective_in_nbytes(const struct collective *c, int nranks);
size_t collective_out_nbytes(const struct collective *c, int nranks);

/* Fills in the rank's input. */
void collective_fill(const struct collective *c, int rank, int nranks, void *in);

/* NULL: it runs here. */
const char *collective_unavailable(const struct collective *c, symm_group *group);
/* Gives NULL in place of `in` on the ranks of a broadcast that only receive. */
symm_status collective_call(const struct collective *c, symm_group *group, const void *in,
                            void *out, symm_stream stream);

/* Number of wrong elements of the rank's output. */
int64_t collective_wrong(const struct collective *c, int rank, int nranks, const void *out);

/* Text of a failed case. Valid until the next call. */
const char *collective_text(const struct collective *c);

bool collective_by_switch(symm_algo algo);
/* Whether this build has it: builds without multicast do not use the switch. */
bool collective_built(symm_algo algo);

#endif
