/*
 * An image: one set of kernels, compiled for GPUs and for the emulated driver. symm_add_kernels()
 * generates it, symm_kernel_load() reads it. Internal; may change with every version.
 */
#ifndef SYMM_DETAIL_IMAGE_H
#define SYMM_DETAIL_IMAGE_H

#include <symm/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SYMM_IMAGE_ABI 1u

struct symm_emulated_module;

struct symm_image {
    uint32_t abi, reserved;
    const void *fatbin;                          /* NULL: built without nvcc */
    const struct symm_emulated_module *emulated; /* NULL: built for GPUs only */
};

#ifdef __cplusplus
}
#endif

#endif
