/*
 * The operations that symm-bench measures and symm-info verifies. An operation is a row in the
 * table of operation.c, with its variants. Timing, checking and reporting know no operation.
 */
#ifndef SYMM_TOOLS_OPERATION_H
#define SYMM_TOOLS_OPERATION_H

#include <stdbool.h>
#include <symm/names.h>
#include "nccl.h"
#include "oracle/element.h"
#include "oracle/sums.h"

struct norm_tensors;

struct variant {
    const char *name;
    symm_algo algo;
    bool nccl;      /* NCCL's, */
    bool symmetric; /* with memory that is registered as symmetric with NCCL */
};

/* One run of one variant. */
struct operation_call {
    symm_group *group;
    struct nccl *nccl; /* NULL: not opened */
    const struct variant *variant;
    const struct element *element;
    symm_redop op;
    const void *in;
    void *out;                       /* == in: in place */
    size_t count;                    /* of the larger of in and out, by operation_count() */
    const struct norm_tensors *norm; /* of an operation that norms */
    int root;                        /* of an operation from a root; else 0 */
    uint32_t flags;                  /* of symm_options */
    uint32_t max_blocks;             /* 0: no limit */
    symm_stream stream;
};

struct operation {
    const char *name;               /* on the command line */
    const struct variant *variants; /* of one domain, in their order; ends with an empty one */
    bool reduces;                   /* else it moves elements of any type */
    bool norms;                     /* sums of rows, of types of 16 bits */
    bool from_root;                 /* all ranks get the elements of one of them */
    /*
     * The input or the output may be one of nranks equal parts of the other. In place it is this
     * rank's part of the whole. in_is_part: the output is all ranks' parts in rank order.
     * out_is_part: the output is this rank's part of the reduction.
     */
    bool in_is_part, out_is_part;
    /* The reason why an algorithm cannot run; NULL: it can. */
    const char *(*unavailable)(symm_group *group, symm_algo algo, symm_dtype dtype, symm_redop op);
    /*
     * Take the elements of a part, if there are parts. An operation that norms, or is from a root,
     * has neither.
     */
    symm_status (*symm)(symm_group *group, const void *in, void *out, size_t count,
                        symm_dtype dtype, symm_redop op, const symm_options *options,
                        symm_stream stream);
    symm_status (*nccl)(struct nccl *nccl, const void *in, void *out, size_t count,
                        symm_dtype dtype, symm_redop op, symm_stream stream);
};

/* Its variants in a group of one domain; or the forms that it has in one of several. */
const struct variant *operation_variants(const struct operation *op, bool spans);

symm_status operation_enqueue(const struct operation *op, const struct operation_call *call);

/* Bus bandwidth over algorithm bandwidth: how often a byte of the larger buffer crosses a link. */
double operation_bus_factor(const struct operation *op, int nranks);

/* Whether the output must be symmetric memory at the same place on all ranks. */
bool operation_needs_symmetric(const struct operation *op, const struct variant *v);

/* Whether a variant adds in the switch, whose order is undefined. */
bool operation_by_switch(const struct variant *v);

/* Whether the output can be the input of the next call, and written over that of its own. */
bool operation_chains(const struct operation *op);

/*
 * The valid count of the larger buffer that is nearest to `count`: if it has parts a multiple of
 * the ranks, and at least one element per rank unless count is 0.
 */
size_t operation_count(const struct operation *op, size_t count, int nranks);

/* The elements of a rank's input and output. */
size_t operation_in_count(const struct operation *op, size_t count, int nranks);
size_t operation_out_count(const struct operation *op, size_t count, int nranks);

/* Sets in and out for a call in place on the larger buffer, at `whole`. */
void operation_in_place(const struct operation *op, struct operation_call *call, void *whole);

/*
 * Compares the output, at `got` on the host, with the reference for inputs of sums_fill() with this
 * seed, after a chain of `links` calls.
 */
void operation_check(const struct operation *op, const struct operation_call *call, const void *got,
                     uint64_t seed, int links, struct sums_verdict *out);

/* By name; NULL: there is none. */
const struct operation *operation_find(const char *name);
/* The index-th without norms, from 0; NULL past the last one. */
const struct operation *operation_at(size_t index);
#define OPERATION_NAMES "all-reduce, all-gather, reduce-scatter, broadcast"
#define OPERATION_NORM "all-reduce-rms-norm"

#endif
