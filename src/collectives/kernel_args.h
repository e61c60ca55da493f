/* The one argument struct of each kind of kernel: the same in C and in the kernels. */
#ifndef SYMM_KERNEL_ARGS_H
#define SYMM_KERNEL_ARGS_H

#include <symm/types.h>

/* Stream-ordered signal, wait and barrier: one block. */
typedef struct symm_signal_args {
    symm_view view;
    symm_signal_pad *pad;
    int32_t channel, rank;
    uint32_t n, reserved;
} symm_signal_args;

/* Every all-reduce. Block b uses channels 2b and 2b + 1 of the pad, counted from `channel`. */
typedef struct symm_all_reduce_args {
    symm_view view;
    symm_signal_pad *pad;
    const void *in;
    void *out;
    char *staging; /* this rank's staging area; symmetric */
    uint64_t staging_nbytes;
    uint64_t count; /* elements */
    uint32_t call;  /* a hash of what was called: the same on all ranks */
    uint32_t place; /* a hash of where in and out lie; 0: not usable in place */
    int32_t channel, reserved;
} symm_all_reduce_args;

#endif
