/* Kernels: the library's own, all loaded when the context is created, and the users'. */
#ifndef SYMM_KERNEL_H
#define SYMM_KERNEL_H

#include "context.h"
#include "collectives/kernels/args.h"
#include "kernels.def"
#include "matmul/kernels/args.h"

enum symm_kernel_id {
#define SYMM_KERNEL_ID_(name, args, threads, blocks, body) SYMM_KERNEL_##name,
    SYMM_KERNELS(SYMM_KERNEL_ID_, SYMM_KERNEL_ID_)
#undef SYMM_KERNEL_ID_
        SYMM_KERNEL_COUNT
};

/* Loads every kernel of the list, eagerly, so that none is loaded while another spins. Local. */
symm_status symm__kernels_load(struct symm_context *ctx, struct symm_kernels **out);
symm_status symm__kernels_unload(struct symm_context *ctx, struct symm_kernels *kernels);
CUfunction symm__kernels_function(const struct symm_kernels *kernels, enum symm_kernel_id id);
const char *symm__kernels_name(enum symm_kernel_id id);

#endif
