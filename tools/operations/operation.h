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
    bool nccl; /* the peer's, not ours */
};

/* One run of one variant. */
struct operation_call {
    symm_group *group;
    struct nccl *nccl; /* NULL: not opened */
    const struct variant *variant;
    const struct element *element;
    const void *in;
    void *out; /* == in: in place */
    size_t count;
    symm_stream stream;
};

struct operation {
    const char *name;               /* on the command line */
    const char *op;                 /* in the column of that name */
    const struct variant *variants; /* ours, in the order of the tables; ends with an empty one */
    /* Times how often each byte of a buffer crosses a link: bus bandwidth over algorithm bandwidth.
     */
    double (*bus_factor)(int nranks);
    /* Why a variant cannot run; NULL: it can. */
    const char *(*unavailable)(symm_group *group, const struct variant *v, const struct element *e);
    symm_status (*enqueue)(const struct operation_call *call);
    enum sums_rule (*rule)(symm_group *group, const struct variant *v, const struct element *e);
};

/* NULL: there is none of that name. */
const struct operation *operation_find(const char *name);
/* The index-th, from 0; NULL past the last one. */
const struct operation *operation_at(size_t index);
extern const char operation_names[];

extern const struct operation operation_all_reduce;

#endif
