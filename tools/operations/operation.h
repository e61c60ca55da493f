/*
 * What symm-bench can measure and symm-info verify. An operation is a row in the table of
 * operation.c and a file of its own; it knows its variants and how to enqueue one. Timing, checking
 * and reporting know no operation.
 */
#ifndef SYMM_TOOLS_OPERATION_H
#define SYMM_TOOLS_OPERATION_H

#include <stdbool.h>
#include <symm/collectives.h>
#include "nccl.h"
#include "oracle/redop.h"
#include "oracle/sums.h"

struct variant {
    const char *name;
    symm_algo algo;
    bool nccl;      /* the peer's, not ours, */
    bool symmetric; /* with memory that NCCL has registered as symmetric */
};

/* One run of one variant. */
struct operation_call {
    symm_group *group;
    struct nccl *nccl; /* NULL: not opened */
    const struct variant *variant;
    const struct element *element;
    symm_redop op;
    const void *in;
    void *out;           /* == in: in place */
    size_t count;        /* of the larger of in and out; operation_count() makes it a right one */
    uint32_t flags;      /* of symm_options */
    uint32_t max_blocks; /* 0: as many as the variant likes */
    symm_stream stream;
};

struct operation {
    const char *name;               /* on the command line */
    const struct variant *variants; /* ours, in the order of the tables; ends with an empty one */
    bool reduces;                   /* else it moves elements of any type, and no op is known */
    /*
     * The output, the input, or neither is one of nranks equal parts of the other. In place, a part
     * is this rank's part of the whole. A part as input: the output is all ranks' parts, one after
     * another. As output: this rank's part of the sum.
     */
    bool in_is_part, out_is_part;
    /* Times how often each byte of the larger buffer crosses a link: bus bandwidth over algorithm
     * bandwidth. */
    double (*bus_factor)(int nranks);
    /* Why a variant cannot run; NULL: it can. */
    const char *(*unavailable)(symm_group *group, const struct variant *v, const struct element *e,
                               symm_redop op);
    symm_status (*enqueue)(const struct operation_call *call);
};

/* What ours get of a call. */
symm_options operation_options(const struct operation_call *call);

/* (R-1)/R: how much of a buffer of parts comes from others, and how much of one goes to them. */
double operation_part_factor(int nranks);

/* Whether the output must be symmetric memory at the same place on all ranks. */
bool operation_needs_symmetric(const struct operation *op, const struct variant *v);

/* Whether a variant adds in the switch, in an order of the switch's own. */
bool operation_by_switch(const struct variant *v);

/* Whether an output can be the next call's input. */
bool operation_chains(const struct operation *op);

/*
 * The count of the larger buffer that is nearest to the one asked for: a multiple of the ranks if
 * it has parts, and then at least one element a rank, unless none is asked for.
 */
size_t operation_count(const struct operation *op, size_t count, int nranks);

/* How many elements a rank's input and output have. */
size_t operation_in_count(const struct operation *op, size_t count, int nranks);
size_t operation_out_count(const struct operation *op, size_t count, int nranks);

/* Lets a call work in place on the larger buffer at `whole`. */
void operation_in_place(const struct operation *op, struct operation_call *call, void *whole);

/*
 * Compares the output, which is at `got` on the host, with what it should be for inputs of
 * sums_fill() with this seed, after `links` calls in a chain.
 */
void operation_check(const struct operation *op, const struct operation_call *call, const void *got,
                     uint64_t seed, int links, struct sums_verdict *out);

/* NULL: there is none of that name. */
const struct operation *operation_find(const char *name);
/* The index-th, from 0; NULL past the last one. */
const struct operation *operation_at(size_t index);
#define OPERATION_NAMES "all-reduce, all-gather, reduce-scatter"

extern const struct operation operation_all_reduce, operation_all_gather, operation_reduce_scatter;

#endif
