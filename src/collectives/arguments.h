/* The buffers of a collective: looked up once, and checked. */
#ifndef SYMM_ARGUMENTS_H
#define SYMM_ARGUMENTS_H

#include "collectives/kernels/args.h"
#include "runtime/group/context.h"
#include "algorithms.h"

/* The buffers of a call as the caller gives them. */
struct symm_data {
    const void *in; /* of a broadcast: the root's; that of the other ranks is not read */
    void *out;
    const symm_rms_norm *norm; /* of a norm, which has `in` and `out`, too; else NULL */
    /*
     * Elements that this rank's share lacks: at the end of `in` of an all-gather, of `out` of a
     * reduce-scatter. Other ranks get anything for them.
     */
    uint64_t lacks;
};

/* Residual, weight (address NULL: none) and new residual of a norm. */
struct symm_norm_arguments {
    struct symm_buffer residual, weight, residual_out;
    float eps;
};

struct symm_arguments {
    struct symm_buffer in, out; /* in: all zero if this rank only receives */
    bool in_place;
    uint64_t lacks;   /* bytes; see symm_data */
    symm_scale scale; /* symm__scale_read() sets it */
    struct symm_norm_arguments norm;
};

/* Whether this rank reads `in`: all but the ranks of a broadcast that only receive. */
bool symm__arguments_reads_in(const struct symm_group *group,
                              const struct symm_collective_call *call);

/* Looks the buffers up. Never fails. */
struct symm_arguments symm__arguments_resolve(const struct symm_group *group,
                                              const struct symm_collective_call *call,
                                              const struct symm_data *data);

/* Checks them for a call of one element or more. Local. Errors: ERROR_ARGUMENT */
symm_status symm__arguments_check(const struct symm_group *group,
                                  const struct symm_collective_call *call,
                                  const struct symm_arguments *args);

/*
 * A hash of the place of in and out, which the kernels of all ranks compare. 0: the data go through
 * the staging area, or no rank reaches into another one's buffers.
 */
uint32_t symm__arguments_place(const struct symm_group *group,
                               const struct symm_collective_call *call,
                               const struct symm_algorithm *algorithm,
                               const struct symm_arguments *args);

/* Whether one of them is memory that has another address, too. */
bool symm__arguments_registered(const struct symm_arguments *args);

#endif
