/* The argument struct of the kernels of signals, shared by C and device code. */
#ifndef SYMM_SIGNAL_ARGS_H
#define SYMM_SIGNAL_ARGS_H

#include <symm/types.h>

/* Stream-ordered signal, wait, barrier and compared barrier: one block. */
typedef struct symm_signal_args {
    symm_view view;
    symm_signal_pad *pad;
    int32_t channel, rank;
    uint32_t n;
    uint32_t word; /* of a compared barrier: equal on all ranks */
} symm_signal_args;

#endif
