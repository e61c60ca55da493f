/*
 * What symm-bench can measure and symm-info verify. An operation is a row in the table of
 * operation.c and a file of its own; it knows its variants, how to enqueue one, and what a right
 * result is. Timing, checking and reporting know no operation.
 */
#ifndef SYMM_TOOLS_OPERATION_H
#define SYMM_TOOLS_OPERATION_H

#include <stdbool.h>
#include <symm/collectives.h>
#include "nccl.h"
#include "sums.h"

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
    const void *in;
    void *out;           /* == in: in place */
    size_t count;        /* of the larger of in and out */
    uint32_t max_blocks; /* 0: as many as the variant likes */
    symm_stream stream;
};

struct operation {
    const char *name;               /* on the command line */
    const char *op;                 /* in the column of that name */
    const struct variant *variants; /* ours, in the order of the tables; ends with an empty one */
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
    const char *(*unavailable)(symm_group *group, const struct variant *v, const struct element *e);
    symm_status (*enqueue)(const struct operation_call *call);
    enum sums_rule (*rule)(symm_group *group, const struct variant *v, const struct element *e);
};

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
extern const char operation_names[];

extern const struct operation operation_all_reduce;

#endif
