/* The argument struct of the signals' kernels: the same in C and in the kernels. */
#ifndef SYMM_SIGNAL_ARGS_H
#define SYMM_SIGNAL_ARGS_H

#include <symm/types.h>

/* Stream-ordered signal, wait, barrier and meeting: one block. */
typedef struct symm_signal_args {
    symm_view view;
    symm_signal_pad *pad;
    int32_t channel, rank;
    uint32_t n;
    uint32_t word; /* of a meeting: what the ranks compare */
} symm_signal_args;

#endif
