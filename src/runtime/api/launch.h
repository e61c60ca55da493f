/* A kernel of the user. */
#ifndef SYMM_LAUNCH_H
#define SYMM_LAUNCH_H

#include "runtime/group/context.h"

enum { SYMM_SMEM_FREE = 48 << 10 }; /* shared memory that needs no attribute */

struct symm_kernel {
    struct symm_kernel *next; /* in the context's list */
    struct symm_context *ctx;
    CUmodule module;
    CUfunction function;
    const char *name; /* the context's */
    int max_threads;  /* of a block */
    /* current limit of dynamic shared memory; under the context's owned_lock */
    uint32_t smem_nbytes;
    uint32_t args_nbytes; /* size of its argument struct; 0: unknown (GPU code does not tell) */
    uint32_t view_at;     /* offset of the view in it, plus 1; 0: unknown */
};

#endif
