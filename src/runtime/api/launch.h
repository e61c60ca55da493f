/* The users' kernels. */
#ifndef SYMM_LAUNCH_H
#define SYMM_LAUNCH_H

#include "runtime/group/context.h"

enum { SYMM_SMEM_FREE = 48 << 10 }; /* shared memory that every kernel may have without asking */

struct symm_kernel {
    struct symm_kernel *next; /* of the context's */
    struct symm_context *ctx;
    CUmodule module;
    CUfunction function;
    int max_threads;      /* of a block */
    uint32_t smem_nbytes; /* dynamic shared memory that it may have; under the context's lock */
    uint32_t args_nbytes; /* of its argument struct; 0: not known (GPU code does not tell) */
    uint32_t view_at;     /* where in that the view is, plus 1; 0: not known */
};

#endif
