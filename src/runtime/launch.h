/* The users' kernels. */
#ifndef SYMM_LAUNCH_H
#define SYMM_LAUNCH_H

#include "context.h"

struct symm_kernel {
    struct symm_kernel *next; /* of the context's */
    struct symm_context *ctx;
    CUmodule module;
    CUfunction function;
    int max_threads;      /* of a block */
    uint32_t args_nbytes; /* of its argument struct; 0: not known (GPU code does not tell) */
};

#endif
